//! Killed at any moment, a run leaves nothing: no process, no device, no namespace, no changed setting.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};

use crate::support::{Home, Running, can, home_of_nobody, links, namespaces_of_nobody, workers_of};

const ROUNDS: u32 = 10;
/// Time within which a run has set up its link; it measures afterwards.
const LATEST_KILL: u32 = 500;

#[test]
fn killed_at_random_a_run_leaves_nothing() {
    if can("killed_at_random_a_run_leaves_nothing", links(), "this user may not make namespaces here") {
        let home = Home::new();
        kill_at_random(&home, ROUNDS, |args| home.start(args));
    }
}

#[test]
fn killed_at_random_a_run_without_privileges_leaves_nothing() {
    let name = "killed_at_random_a_run_without_privileges_leaves_nothing";
    if can(name, namespaces_of_nobody(), "the user nobody may not make namespaces here") {
        let home = home_of_nobody();
        kill_at_random(&home, ROUNDS / 2, |args| home.start_as_nobody(args));
    }
}

fn kill_at_random(home: &Home, rounds: u32, start: impl Fn(&str) -> Running) {
    let settings = settings();
    let ours = namespace("self");
    let mut seen = BTreeSet::new();
    let mut random = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().subsec_nanos();
    for round in 0..rounds {
        // Numerical Recipes' generator: spread, not secrecy.
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        // At least one in the middle of measuring.
        let wait = if round == 0 { LATEST_KILL } else { (random >> 8) % LATEST_KILL };
        let mut ping = start("ping --link veth:timestamps=off,gro=on,tso=off --path udp:spin --path tcp --forever --warmup 1ms");
        let parent = ping.pid();
        let begun = Instant::now();
        let mut held = BTreeSet::new();
        while begun.elapsed() < Duration::from_millis(wait.into()) {
            held.extend(
                workers_of(parent).iter().filter_map(|pid| namespace(&pid.to_string())).filter(|net| Some(net) != ours.as_ref()),
            );
            sleep(Duration::from_millis(3));
        }
        ping.kill();
        let killed = Instant::now();
        // A killed process is gone when it has left its system call and been reaped: on a busy host the kernel takes long to
        // take a namespace down.
        loop {
            let processes = workers_of(parent);
            let namespaces: Vec<_> = namespaces_in_use().intersection(&held).cloned().collect();
            if processes.is_empty() && namespaces.is_empty() {
                break;
            }
            assert!(
                killed.elapsed() < crate::support::LIMIT,
                "killed after {wait} ms: processes {processes:?}, namespaces {namespaces:?} are left"
            );
            sleep(Duration::from_millis(10));
        }
        let links = Command::new("ip").args(["-o", "link"]).output().unwrap();
        let links = String::from_utf8(links.stdout).unwrap();
        assert!(!links.contains("hairpin"), "killed after {wait} ms: {links}");
        seen.extend(held);
    }
    assert!(!seen.is_empty(), "no round was killed after its namespaces were made");
    assert_eq!(self::settings(), settings);
    assert!(
        !home.runs().exists() || fs::read_dir(home.runs()).unwrap().next().is_none(),
        "a killed run left something in the store"
    );
}

#[test]
fn a_run_to_its_end_leaves_nothing() {
    if !can("a_run_to_its_end_leaves_nothing", links(), "this user may not make namespaces here") {
        return;
    }
    let home = Home::new();
    let settings = settings();
    let ping = home.start("ping --link veth:timestamps=off --path udp --count 100 --warmup 1ms");
    let parent = ping.pid();
    assert_eq!(ping.done().code, Some(0));
    // Workers are killed with the verb's process at the latest; the kernel may take a moment.
    let ended = Instant::now();
    while !workers_of(parent).is_empty() {
        assert!(ended.elapsed() < crate::support::LIMIT, "{:?}", workers_of(parent));
        sleep(Duration::from_millis(5));
    }
    assert_eq!(self::settings(), settings);
}

/// The network namespace of a process: the link's text, which holds its inode.
fn namespace(pid: &str) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/ns/net")).ok()
}

/// Namespaces of all processes.
fn namespaces_in_use() -> BTreeSet<PathBuf> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    processes.filter_map(|entry| fs::read_link(entry.path().join("ns/net")).ok()).collect()
}

/// Settings of the host that a link's options change in its own namespaces.
fn settings() -> Vec<String> {
    ["ipv4/tcp_timestamps", "ipv4/tcp_congestion_control", "core/busy_poll", "core/busy_read", "ipv6/conf/all/disable_ipv6"]
        .map(|name| fs::read_to_string(format!("/proc/sys/net/{name}")).unwrap_or_default())
        .into()
}
