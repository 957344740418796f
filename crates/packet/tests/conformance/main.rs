//! One suite over a pair of queue pairs that are joined to each other: in memory, bare and behind each device round a device, and over a
//! veth pair whose two ends lie in a network namespace made for the test.
//!
//! ```text
//!   this program, for each pair and test ──spawns──▶ itself: namespace, pair, test, end
//! ```
//! It has no test harness, because namespaces are entered by processes with one thread. Where the host forbids something a pair needs, its
//! tests say so and are skipped; with HAIRPIN_MUST_RUN=1 that is a failure.

mod end;
mod pairs;
mod suite;

use std::process::{Child, Command, ExitCode, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use std::{env, io};

use end::End;
use pairs::{NoPair, PAIRS};
use suite::TESTS;

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

/// Far longer than any test takes.
const LIMIT: Duration = Duration::from_secs(60);
/// A test's process ends with this if its pair cannot be had here.
const SKIPPED: u8 = 77;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    if let ["one", pair, test] = arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        return one(pair, test);
    }
    let filter = arguments.iter().find(|argument| !argument.starts_with('-')).map_or("", String::as_str);
    let must_run = env::var("HAIRPIN_MUST_RUN").is_ok_and(|value| value == "1");
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    for (pair, _) in PAIRS {
        for (test, _) in TESTS.iter().filter(|(test, _)| format!("{pair}: {test}").contains(filter)) {
            let start = Instant::now();
            let outcome = spawn(pair, test);
            if arguments.iter().any(|argument| argument == "--times") {
                println!("conformance: {pair}: {test}: {:?}", start.elapsed());
            }
            match outcome {
                Ok((Some(0), _)) => passed += 1,
                Ok((Some(code), reason)) if code == i32::from(SKIPPED) => {
                    println!("conformance: {pair}: {test}: SKIPPED: {reason}");
                    skipped += 1;
                }
                Ok((code, said)) => {
                    println!("conformance: {pair}: {test}: FAILED ({code:?}): {said}");
                    failed += 1;
                }
                Err(error) => {
                    println!("conformance: {pair}: {test}: FAILED: {error}");
                    failed += 1;
                }
            }
        }
    }
    println!("conformance: {passed} passed, {failed} failed, {skipped} skipped");
    if failed > 0 || (must_run && skipped > 0) { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Runs one test in a process of its own; returns its exit code, if it was not killed, and what it said.
fn spawn(pair: &str, test: &str) -> io::Result<(Option<i32>, String)> {
    let mut command = Command::new(env::current_exe()?);
    let mut child = command.args(["one", pair, test]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let start = Instant::now();
    while child.try_wait()?.is_none() {
        if start.elapsed() > LIMIT {
            child.kill()?;
        }
        sleep(Duration::from_millis(1));
    }
    let output = Child::wait_with_output(child)?;
    let said = [output.stdout, output.stderr].concat();
    Ok((output.status.code(), String::from_utf8_lossy(&said).trim().to_owned()))
}

fn one(pair: &str, test: &str) -> ExitCode {
    let make = PAIRS.iter().find(|(name, _)| *name == pair).map(|(_, make)| make);
    let run = TESTS.iter().find(|(name, _)| *name == test).map(|(_, run)| run);
    let (Some(make), Some(run)) = (make, run) else {
        println!("no such test");
        return ExitCode::FAILURE;
    };
    let made = match make() {
        Ok(made) => made,
        Err(NoPair::NotHere(reason)) => {
            println!("{reason}");
            return ExitCode::from(SKIPPED);
        }
        Err(NoPair::Broken(error)) => {
            println!("cannot make the pair: {error}");
            return ExitCode::FAILURE;
        }
    };
    let outcome = run(End::new(made.one), End::new(made.other));
    drop(made.devices);
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("{error}");
            ExitCode::FAILURE
        }
    }
}
