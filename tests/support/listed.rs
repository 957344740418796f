//! A test program without the standard harness: its tests by name, one at a time, and a sum as its last line.
//!
//! Such a program measures, so that nothing may run beside a test; or it plays a part of its own when it is started again with other arguments.

use std::env;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

/// A test; false if it was skipped, which it has said.
pub type Test = fn(&str) -> bool;

/// Runs those of `tests` whose name holds the first argument that is no flag; `one` runs one, and is false if it was skipped.
pub fn run<T>(program: &str, tests: &[(&str, T)], one: impl Fn(&str, &T) -> bool) -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--list") {
        tests.iter().for_each(|(name, _)| println!("{name}: test"));
        return ExitCode::SUCCESS;
    }
    let filter = arguments.iter().find(|argument| !argument.starts_with('-')).map_or("", String::as_str);
    run_some(program, tests, filter, one)
}

/// Runs those of `tests` whose name holds `filter`.
pub fn run_some<T>(program: &str, tests: &[(&str, T)], filter: &str, one: impl Fn(&str, &T) -> bool) -> ExitCode {
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    for (name, test) in tests.iter().filter(|(name, _)| name.contains(filter)) {
        match catch_unwind(AssertUnwindSafe(|| one(name, test))) {
            Ok(true) => {
                println!("{program}: {name}: ok");
                passed += 1;
            }
            Ok(false) => skipped += 1,
            Err(_) => {
                println!("{program}: {name}: FAILED");
                failed += 1;
            }
        }
    }
    println!("{program}: {passed} passed, {failed} failed, {skipped} skipped");
    if failed > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
