//! A process that changes settings is killed at every step, and its changes are restored byte for byte: on a
//! host made of files, and on the sysctls of a network namespace.
//!
//! ```text
//!   each test ──► this program as "change DIRECTORY n" ── at its n-th step SIGKILL ──► the journal is an orphan or there is none
//!             ──► this program as "revert DIRECTORY n" ── the same ──► the rest is reverted, whole
//! ```

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU32, Ordering};

use hairpin_sys::device::Attribute;
use hairpin_sys::host::{FakeHost, Host, RealHost};
use hairpin_sys::napi::NapiSetting;
use hairpin_sys::netns::{self, Support};
use hairpin_tune::journal::{About, Journal};
use hairpin_tune::{Change, Place, Setting, plan};

use crate::alone::{self, Ended, Part, Test};

const PLACE: Place<'_> = Place { cpus: &[], interface: Some("eth0") };
const FILES: &[&str] = &[
    "busy_poll_us=10",
    "transparent_hugepage=never",
    "rx_usecs=0",
    "cpuset_partition=1",
    "rps_cpus=0-1",
    "napi_defer_hard_irqs=7",
    "napi_threaded@1=1",
];
/// Sysctls of a network namespace.
const SYSCTLS: &[&str] =
    &["tcp_autocorking=off", "tcp_slow_start_after_idle=off", "tcp_rmem_bytes=4096,65536,1000000", "tcp_timestamps=0"];
/// More steps than there are.
const ENOUGH: u32 = 200;

static STEPS: AtomicU32 = AtomicU32::new(0);
static LAST: AtomicU32 = AtomicU32::new(u32::MAX);

/// Ends this process at the step that was asked for, as nothing can be caught or put back.
fn witness(_: &str) {
    if STEPS.fetch_add(1, Ordering::Relaxed) == LAST.load(Ordering::Relaxed) {
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
        loop {
            std::thread::park();
        }
    }
}

pub const PART: Part = Part::new("killed", tests).playing(|arguments| {
    let [role, directory, step] = arguments else { return None };
    LAST.store(step.parse().ok()?, Ordering::Relaxed);
    Some(change(role, Path::new(directory)))
});

fn tests() -> Vec<Test> {
    let of = |(kind, verb, name): (&'static str, &'static str, &'static str)| Test::new(name, move |_| run(kind, verb));
    [
        ("files", "change", "while files are changed"),
        ("files", "revert", "while files are put back"),
        ("files", "switch", "while settings go on and off"),
        ("sysctls", "change", "while sysctls are changed"),
        ("sysctls", "revert", "while sysctls are put back"),
        ("sysctls", "switch", "while sysctls go on and off"),
    ]
    .map(of)
    .into()
}

fn run(kind: &str, verb: &str) -> Ended {
    let entered = || matches!(netns::can_make(), Support::Privileged) && netns::enter_new(false).is_ok();
    if kind == "sysctls" && !entered() {
        return Ended::Skipped(Some("it takes root and the right to make a network namespace".to_owned()));
    }
    at_every_step(kind, verb).map(|steps| println!("killed at each of {steps} steps")).into()
}

/// The host that is in this directory, or this one.
fn host(kind: &str, directory: &Path) -> Box<dyn Host> {
    if kind == "files" { Box::new(FakeHost::at(directory.join("host"))) } else { Box::new(RealHost) }
}

fn make(directory: &Path) {
    let _ = FakeHost::at(directory.join("host"))
        .with("/proc/sys/kernel/random/boot_id", "b\n")
        .with("/proc/sys/net/core/busy_poll", "0\n")
        .with("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n")
        .with("/sys/fs/cgroup/cgroup.controllers", "cpuset cpu\n")
        .with("/sys/fs/cgroup/cgroup.subtree_control", "cpu\n")
        .with("/sys/fs/cgroup/cgroup.procs", "1\n")
        .with("/sys/class/net/eth0/queues/rx-0/rps_cpus", "00000000\n")
        .with("/sys/class/net/eth0/queues/rx-1/rps_cpus", "00000000\n")
        .with("/sys/class/net/eth0/napi_defer_hard_irqs", "0\n")
        .with_napi("eth0", "rx-0", &[(NapiSetting::DeferHardIrqs, "0"), (NapiSetting::Threaded, "0")])
        .with_napi("eth0", "rx-1", &[(NapiSetting::DeferHardIrqs, "3"), (NapiSetting::Threaded, "0")])
        .with_attribute("eth0", Attribute::RxUsecs, "8");
}

fn changes(kind: &str, host: &dyn Host) -> Vec<Change> {
    let texts = if kind == "files" { FILES } else { SYSCTLS };
    let settings: Vec<Setting> = texts.iter().map(|text| text.parse().expect("a setting")).collect();
    plan(host, &PLACE, &settings).expect("a plan")
}

/// Work of the process that will be killed. The role is `kind-verb`.
fn change(role: &str, directory: &Path) -> ExitCode {
    let (kind, verb) = role.split_once('-').expect("a role");
    let host = host(kind, directory);
    let journal = Journal::at(directory.join("journal"));
    if verb == "revert" {
        let mut tuning = journal.begin(&*host, changes(kind, &*host), &About::default()).expect("an entry");
        (0..tuning.changes().len()).for_each(|index| tuning.on(index).expect("applied"));
        tuning.keep().expect("kept");
        let report = journal.with_witness(witness).revert(&*host, &[], false, "test").expect("reverted");
        assert!(!report.incomplete, "{report:?}");
        return ExitCode::SUCCESS;
    }
    let mut tuning = journal.with_witness(witness).begin(&*host, changes(kind, &*host), &About::default()).expect("an entry");
    let count = tuning.changes().len();
    (0..count).for_each(|index| tuning.on(index).expect("applied"));
    if verb == "switch" {
        for _ in 0..2 {
            (0..count).rev().for_each(|index| tuning.off(index).expect("put back"));
            (0..count).for_each(|index| tuning.on(index).expect("applied"));
        }
        tuning.restore().expect("restored");
    } else {
        tuning.keep().expect("kept");
    }
    ExitCode::SUCCESS
}

/// Kills a process at its first step, its second and so on, until one ends by itself; and restores the
/// changes of each.
fn at_every_step(kind: &str, verb: &str) -> Result<u32, String> {
    // In memory where there is such a place: every entry is synced.
    let place = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).map_err(|why| why.to_string())?;
    make(place.path());
    let before = state(kind, place.path());
    for step in 0..ENOUGH {
        let role = format!("{kind}-{verb}");
        let status = alone::play().args([&role, place.path().to_str().unwrap_or_default(), &step.to_string()]).status();
        let status = status.map_err(|why| why.to_string())?;
        let whole = status.success();
        if !whole && status.signal() != Some(9) {
            return Err(format!("at step {step} it ended with {status}"));
        }
        let host = host(kind, place.path());
        let journal = Journal::at(place.path().join("journal"));
        let during = state(kind, place.path());
        let orphans = journal.orphans().map_err(|why| why.to_string())?;
        let kept = journal.entries().map_err(|why| why.to_string())?.len() - orphans.len();
        if during != before && orphans.is_empty() && kept == 0 {
            return Err(format!("at step {step} it left a change that no journal knows of"));
        }
        let report = journal.revert(&*host, &[], false, "test").map_err(|why| why.to_string())?;
        if report.incomplete {
            return Err(format!("at step {step}: {report:?}"));
        }
        let after = state(kind, place.path());
        if after != before {
            return Err(format!("at step {step} not everything is as before: {:?}", differing(&before, &after)));
        }
        if !journal.entries().map_err(|why| why.to_string())?.is_empty() {
            return Err(format!("at step {step} the entry stayed"));
        }
        if whole {
            return if step < 10 { Err(format!("only {step} steps: nobody was asked")) } else { Ok(step) };
        }
    }
    Err(format!("more than {ENOUGH} steps"))
}

/// Every file that could be changed, and its bytes.
fn state(kind: &str, directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut open = vec![if kind == "files" { directory.join("host") } else { "/proc/sys/net".into() }];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                files.insert(path.clone(), Vec::new());
                open.push(path);
            } else if let Ok(bytes) = fs::read(&path) {
                files.insert(path, bytes);
            }
        }
    }
    // Counters, not settings: how many entries conntrack and the neighbour tables hold.
    files.retain(|path, _| !path.to_string_lossy().ends_with("_count") && !path.to_string_lossy().contains("random"));
    files
}

fn differing(before: &BTreeMap<PathBuf, Vec<u8>>, after: &BTreeMap<PathBuf, Vec<u8>>) -> Vec<PathBuf> {
    let all: std::collections::BTreeSet<&PathBuf> = before.keys().chain(after.keys()).collect();
    all.into_iter().filter(|path| before.get(*path) != after.get(*path)).cloned().collect()
}
