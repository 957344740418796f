//! The test programs `alone.rs`: one test at a time unless its file says otherwise, each in a process of its own.
//!
//! ```text
//!   alone ──▶ itself as "only NAME": enters namespaces, changes limits, is killed ──▶ ends with 0, with SKIPPED, or otherwise: failed
//!                └──▶ itself as "play …": a server, a worker, a program under test
//! ```
//! Such a process has one thread, as entering a user namespace needs.

#![allow(dead_code, reason = "each test program uses a part")]

use std::env;
use std::fmt::Display;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::sync::Mutex;
use std::thread;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// A process that runs one test ends with this if the test cannot run here.
const SKIPPED: u8 = 77;
/// The exit code of a test that ran on a host that cannot show the effect.
const UNSHOWN: u8 = 78;
/// Tests that run side by side: each waits most of its time, so twice as many as the cores that a host has at least.
const AT_ONCE: usize = 4;
/// Longer than any test takes, on a busy machine too.
const LIMIT: Timespec = Timespec { tv_sec: 600, tv_nsec: 0 };

/// End of a test.
pub enum Ended {
    Passed,
    /// It cannot run here; the reason, unless it has been printed.
    Skipped(Option<String>),
    /// The test ran, but this host cannot show the effect: its cores have other work. Where tests must run, this is a skip as
    /// well.
    Unshown(&'static str),
    Failed(String),
}

impl From<()> for Ended {
    fn from((): ()) -> Ended {
        Ended::Passed
    }
}

/// False: skipped, and the reason has been printed.
impl From<bool> for Ended {
    fn from(ran: bool) -> Ended {
        if ran { Ended::Passed } else { Ended::Skipped(None) }
    }
}

impl<E: Display> From<Result<(), E>> for Ended {
    fn from(outcome: Result<(), E>) -> Ended {
        outcome.map_or_else(|error| Ended::Failed(error.to_string()), Ended::from)
    }
}

/// One test.
pub struct Test {
    name: String,
    user: Option<u32>,
    run: Box<dyn Fn(&str) -> Ended + Sync>,
}

impl Test {
    /// `run` is called with the test's full name, and fails by its result or by a panic.
    pub fn new<T: Into<Ended>>(name: impl Into<String>, run: impl Fn(&str) -> T + Sync + 'static) -> Test {
        Test { name: name.into(), user: None, run: Box::new(move |name| run(name).into()) }
    }

    /// The test's process belongs to this user.
    pub fn of_user(self, user: u32) -> Test {
        Test { user: Some(user), ..self }
    }
}

/// The tests of one file.
pub struct Part {
    pub name: &'static str,
    pub tests: fn() -> Vec<Test>,
    /// Other parts that the program plays; `None` if these arguments name none.
    pub play: fn(&[&str]) -> Option<ExitCode>,
    /// A description of the host that must be the same after the tests as before.
    pub unchanged: Option<fn() -> String>,
    /// Its tests run beside each other and beside those of other such parts.
    pub side_by_side: bool,
}

impl Part {
    pub const fn new(name: &'static str, tests: fn() -> Vec<Test>) -> Part {
        Part { name, tests, play: |_| None, unchanged: None, side_by_side: false }
    }

    pub const fn playing(self, play: fn(&[&str]) -> Option<ExitCode>) -> Part {
        Part { play, ..self }
    }

    /// None of its tests depends on a core's other work, and each mostly waits.
    pub const fn side_by_side(self) -> Part {
        Part { side_by_side: true, ..self }
    }

    pub const fn unchanged(self, said: fn() -> String) -> Part {
        Part { unchanged: Some(said), ..self }
    }

    fn full(&self, test: &Test) -> String {
        format!("{}::{}", self.name, test.name)
    }
}

/// A test of a list, which takes its full name; false if it has said that it was skipped.
pub type Listed = (&'static str, fn(&str) -> bool);

/// The tests of a list.
pub fn listed(list: &[Listed]) -> Vec<Test> {
    list.iter().map(|(name, run)| Test::new(*name, *run)).collect()
}

/// A test of a list that reports by itself which parts cannot run here.
pub type Plain = (&'static str, fn());

/// The tests of such a list.
pub fn plain(list: &[Plain]) -> Vec<Test> {
    list.iter().map(|&(name, run)| Test::new(name, move |_| run())).collect()
}

/// The command that makes this program play a part.
pub fn play() -> Command {
    let mut command = Command::new(env::current_exe().expect("the path of this program"));
    command.arg("play");
    command
}

/// The `main` of such a program: takes parts of names to choose tests by, `--skip NAME` and `--list`, as the standard harness
/// does.
pub fn main(parts: &[Part]) -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["play", ref role @ ..] => parts.iter().find_map(|part| (part.play)(role)).expect("a part that this program plays"),
        ["only", name] => only(parts, name),
        _ => all(parts, &words),
    }
}

fn only(parts: &[Part], full: &str) -> ExitCode {
    let part = parts.iter().find(|part| full.starts_with(&format!("{}::", part.name))).expect("a file of tests");
    let test = (part.tests)().into_iter().find(|test| part.full(test) == full).expect("a test of that file");
    match (test.run)(full) {
        Ended::Passed => ExitCode::SUCCESS,
        Ended::Failed(reason) => {
            println!("{full}: {reason}");
            ExitCode::FAILURE
        }
        Ended::Skipped(reason) => {
            reason.inspect(|reason| println!("{full}: SKIPPED: {reason}"));
            ExitCode::from(SKIPPED)
        }
        Ended::Unshown(reason) => {
            println!("{full}: SKIPPED: {reason}");
            ExitCode::from(UNSHOWN)
        }
    }
}

fn all(parts: &[Part], words: &[&str]) -> ExitCode {
    let (mut wanted, mut unwanted, mut list) = (Vec::<&str>::new(), Vec::<&str>::new(), false);
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match *word {
            "--list" => list = true,
            "--skip" => unwanted.extend(words.next()),
            _ if word.starts_with('-') => {}
            _ => wanted.push(word),
        }
    }
    let chosen = |full: &str| {
        (wanted.is_empty() || wanted.iter().any(|word| full.contains(word))) && !unwanted.iter().any(|word| full.contains(word))
    };
    let chosen = |part: &Part| (part.tests)().into_iter().filter(|test| chosen(&part.full(test))).collect::<Vec<Test>>();
    let all: Vec<(&Part, Vec<Test>)> =
        parts.iter().map(|part| (part, chosen(part))).filter(|(_, tests)| !tests.is_empty()).collect();
    if list {
        all.iter().for_each(|(part, tests)| tests.iter().for_each(|test| println!("{}: test", part.full(test))));
        return ExitCode::SUCCESS;
    }
    let (beside, alone): (Vec<_>, Vec<_>) = all.into_iter().partition(|(part, _)| part.side_by_side);
    let alone = alone.into_iter().map(|part| each(&[part], 1)).fold(true, |passed, each| passed & each);
    let beside = each(&beside, AT_ONCE);
    if alone && beside { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs the tests of these parts, `at_once` of them side by side, and prints the sum of each; false if one has failed.
fn each(parts: &[(&Part, Vec<Test>)], at_once: usize) -> bool {
    let must_run = env::var("HAIRPIN_MUST_RUN").is_ok_and(|value| value == "1");
    let hosts: Vec<_> = parts.iter().map(|(part, _)| part.unchanged.map(|said| said())).collect();
    let next = Mutex::new(parts.iter().flat_map(|(part, tests)| tests.iter().map(move |test| (*part, test))));
    let ended = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                while let Some((part, test)) = { next.lock().expect("no panic").next() } {
                    let ended_so = one(&part.full(test), test.user, must_run);
                    ended.lock().expect("no panic").push((part.name, ended_so));
                }
            });
        }
    });
    let ended = ended.into_inner().expect("no panic");
    let mut all_passed = true;
    for ((part, _), before) in parts.iter().zip(hosts) {
        let count = |so: Counted| ended.iter().filter(|ended| **ended == (part.name, so)).count();
        let (passed, mut failed, skipped) = (count(Counted::Passed), count(Counted::Failed), count(Counted::Skipped));
        let after = part.unchanged.map(|said| said());
        if before != after {
            println!(
                "{}: FAILED: the host is not as before:\n{}\n{}",
                part.name,
                before.unwrap_or_default(),
                after.unwrap_or_default()
            );
            failed += 1;
        }
        println!("{}: {passed} passed, {failed} failed, {skipped} skipped", part.name);
        all_passed &= failed == 0;
    }
    all_passed
}

#[derive(Clone, Copy, PartialEq)]
enum Counted {
    Passed,
    Failed,
    Skipped,
}

/// Runs a test in a process of its own, and prints how it ended.
fn one(full: &str, user: Option<u32>, must_run: bool) -> Counted {
    let begun = Instant::now();
    let ended = spawn(full, user).and_then(end);
    let took = begun.elapsed().as_secs_f64();
    match ended {
        Ok(status) if status.success() => {
            println!("{full}: ok, {took:.1} s");
            Counted::Passed
        }
        Ok(status) if status.code() == Some(SKIPPED.into()) && !must_run => Counted::Skipped,
        Ok(status) if status.code() == Some(UNSHOWN.into()) => Counted::Skipped,
        Ok(status) if status.code() == Some(SKIPPED.into()) => {
            println!("{full}: FAILED: it must run here");
            Counted::Failed
        }
        Err(error) if user.is_some() && error.kind() == io::ErrorKind::PermissionDenied && !must_run => {
            println!("{full}: SKIPPED: another user may not run this program: {error}");
            Counted::Skipped
        }
        other => {
            let how = other.map_or_else(|error| error.to_string(), |status| status.to_string());
            println!("{full}: FAILED after {took:.1} s: {how}");
            Counted::Failed
        }
    }
}

fn spawn(full: &str, user: Option<u32>) -> io::Result<Child> {
    let mut command = Command::new(env::current_exe()?);
    command.args(["only", full]);
    if let Some(id) = user {
        command.uid(id).gid(id).current_dir("/");
    }
    command.spawn()
}

/// Waits for the end of a process, asleep, and ends it at the limit.
fn end(mut child: Child) -> io::Result<ExitStatus> {
    let descriptor = pidfd_open(Pid::from_child(&child), PidfdFlags::empty())?;
    if poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], Some(&LIMIT))? == 0 {
        println!("it does not end, and is killed");
        child.kill()?;
    }
    child.wait()
}
