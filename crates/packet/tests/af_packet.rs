//! AF_PACKET over a veth pair and over loopback: as root, and as a user without privileges in a user namespace.
//!
//! ```text
//!   this program ──spawns, one a test──▶ itself as worker: own namespaces │ hp-a ◀──veth──▶ hp-b │ a ring or more at each end
//! ```
//! It has no test harness, because namespaces are entered by processes with one thread. Where the host forbids namespaces it says so and
//! skips; with HAIRPIN_MUST_RUN=1 that is a failure.

#[path = "af_packet/frames.rs"]
mod frames;
#[path = "af_packet/link.rs"]
mod link;
#[path = "af_packet/tests.rs"]
mod tests;

use std::env;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use hairpin_sys::netns::{self, Support};

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

/// The user "nobody" of all common distributions, to try without privileges when the tests run as root.
const NOBODY: u32 = 65534;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["worker", who, name] => return answer(work(who, name)),
        ["helper", name] => return answer(link::help(name)),
        _ => {}
    }
    let filter = arguments.iter().find(|a| !a.starts_with('-')).map_or("", String::as_str);
    let must_run = env::var("HAIRPIN_MUST_RUN").is_ok_and(|v| v == "1");
    let whose: &[(&str, Option<u32>)] = match netns::can_make() {
        Support::Privileged => &[("root", None), ("user", Some(NOBODY))],
        Support::UserNamespace => &[("user", None)],
        Support::No(reason) => {
            println!("af_packet: SKIPPED: {reason}");
            return if must_run { ExitCode::FAILURE } else { ExitCode::SUCCESS };
        }
    };
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    for (who, id) in whose {
        if let Err(reason) = spawn(&["worker", who, "nothing"], *id) {
            println!("af_packet as {who}: SKIPPED: {reason}");
            skipped += tests::ALL.len();
            continue;
        }
        for (name, _) in tests::ALL.iter().filter(|(name, _)| name.contains(filter)) {
            match spawn(&["worker", who, name], *id) {
                Ok(()) => {
                    println!("af_packet as {who}: {name}: ok");
                    passed += 1;
                }
                Err(reason) => {
                    println!("af_packet as {who}: {name}: FAILED: {reason}");
                    failed += 1;
                }
            }
        }
    }
    println!("af_packet: {passed} passed, {failed} failed, {skipped} skipped");
    if failed > 0 || (must_run && skipped > 0) { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Runs this program with arguments, as another user if one is named; the error is what it said.
fn spawn(arguments: &[&str], user: Option<u32>) -> Result<(), String> {
    let mut command = Command::new(env::current_exe().map_err(|e| e.to_string())?);
    command.args(arguments);
    if let Some(id) = user {
        command.uid(id).gid(id).current_dir("/");
    }
    let output = command.output().map_err(|e| e.to_string())?;
    let said = [output.stdout, output.stderr].concat();
    if output.status.success() { Ok(()) } else { Err(format!("{} ({})", String::from_utf8_lossy(&said).trim(), output.status)) }
}

fn work(who: &str, name: &str) -> Outcome {
    let (_, test) = tests::ALL.iter().find(|(known, _)| *known == name).unwrap_or(&("nothing", || Ok(())));
    if who == "user" {
        tests::opening_without_the_right_names_it()?;
    }
    netns::enter_new(who == "user")?;
    link::make()?;
    test()
}

fn answer(outcome: Outcome) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            println!("{reason}");
            ExitCode::FAILURE
        }
    }
}
