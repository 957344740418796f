//! Many flows: opened in a moment, within the limit of descriptors, in little memory, and in a small record.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use crate::support::{HAIRPIN, Home, LIMIT, Running, can, root, rows, workers_of};

/// The hard limit of descriptors.
fn hard_limit() -> u64 {
    let limits = fs::read_to_string("/proc/self/limits").expect("/proc/self/limits");
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files")).expect("the limit of open files");
    line.split_whitespace().nth(1).expect("the hard one").parse().unwrap_or(u64::MAX)
}

/// Starts hairpin with these soft and hard limits of descriptors.
fn limited(home: &Home, soft: u64, hard: u64, args: &str) -> Running {
    let mut command = home.command("prlimit");
    command.arg(format!("--nofile={soft}:{hard}")).arg(HAIRPIN).args(args.split_whitespace());
    home.spawn(command)
}

#[test]
fn a_thousand_flows_go_over_every_socket_and_their_record_is_small() {
    let name = "a_thousand_flows_go_over_every_socket_and_their_record_is_small";
    if !can(name, hard_limit() >= 1_100, "1,000 flows take 1,100 descriptors") {
        return;
    }
    let home = Home::new();
    let done = home.hairpin("ping loopback --flows 1000 --count 3000 --warmup 1ms --path tcp:epoll --path udp:epoll --json");
    assert_eq!(done.code, Some(0), "{done:?}");
    let run = done.json();
    for row in rows(&run) {
        assert_eq!((&row["flows"], &row["transactions"], &row["lost"]), (&1000.into(), &3000.into(), &0.into()));
        assert!(row["flow_facts"].is_null(), "{}", row["flow_facts"]);
        let groups = row["flow_groups"].as_array().expect("flow_groups");
        assert_eq!(groups.iter().map(|group| group["flows"].as_u64().unwrap()).sum::<u64>(), 1000, "{groups:?}");
    }
    assert!(done.out.len() < 100_000, "{} bytes", done.out.len());
}

#[test]
fn the_limit_of_descriptors_is_raised_and_where_that_is_not_allowed_nothing_is_opened() {
    let name = "the_limit_of_descriptors_is_raised_and_where_that_is_not_allowed_nothing_is_opened";
    if !can(name, root() || hard_limit() >= 1_300, "it takes a hard limit of 1,300 descriptors") {
        return;
    }
    let home = Home::new();
    let ping = "ping loopback --path udp:epoll --flows 300 --count 600 --warmup 1ms --no-store";
    let done = limited(&home, 100, 400, ping).done();
    assert_eq!(done.code, Some(0), "{done:?}");
    let done = limited(&home, 100, 200, ping).done();
    done.fails(
        4,
        &["300 flows take 3", " descriptors on the client, and the hard limit there is 200", "`ulimit -n 3", "LimitNOFILE=3"],
    );
    // A pipe's client has two ends a flow, its server at first four.
    let pipes = "ping loopback --path pipe:poll --flows 300 --count 600 --warmup 1ms --no-store";
    limited(&home, 100, 1_000, pipes).done().fails(4, &["300 flows take 12", " descriptors on the server"]);
    assert_eq!(limited(&home, 100, 1_300, pipes).done().code, Some(0));
}

#[test]
fn a_server_takes_no_more_flows_than_its_own_limit_and_answers_the_next_client() {
    let home = Home::new();
    let mut serve = limited(&home, 100, 200, "serve --listen 127.0.0.1:0");
    serve.until("Ctrl-C ends it");
    let address = crate::support::served(&serve.err());
    let ping = |flows: u32| format!("ping {address} --path tcp:epoll --flows {flows} --count 600 --warmup 1ms --no-store");
    home.hairpin(&ping(300)).fails(4, &["300 flows take 3", " descriptors on the server, and the hard limit there is 200"]);
    assert_eq!(home.hairpin(&ping(100)).code, Some(0));
}

/// Own memory of a flow, in bytes.
const MOST_BYTES: u64 = 2_048;

#[test]
fn a_flow_takes_little_memory_on_both_sides() {
    const FEW: u64 = 500;
    const MANY: u64 = 3_500;
    let needed = hard_limit() >= MANY + 100;
    if !can("a_flow_takes_little_memory_on_both_sides", needed, "3,500 flows take 3,600 descriptors") {
        return;
    }
    let home = Home::new();
    let [few, many] = [FEW, MANY].map(|flows| {
        peaks(home.start(&format!(
            "ping loopback --flows {flows} --duration 300ms --warmup 1ms --path tcp:epoll --path udp:epoll --no-store"
        )))
    });
    for (side, few, many) in [("the least", few[0], many[0]), ("the greatest", few[1], many[1])] {
        let each = many.saturating_sub(few) / (MANY - FEW);
        assert!(few > 0 && each <= MOST_BYTES, "{side} of both sides: {few} and {many} bytes, {each} a flow");
    }
}

/// The most memory that each of the two workers held (VmHWM, proc(5)), in bytes, ascending.
fn peaks(mut running: Running) -> [u64; 2] {
    let mut peaks = BTreeMap::new();
    let begun = std::time::Instant::now();
    while running.goes_on() && begun.elapsed() < LIMIT {
        for pid in workers_of(running.pid()) {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            let peak =
                status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok());
            peaks.extend(peak.map(|kib| (pid, kib << 10)));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let done = running.done();
    assert_eq!(done.code, Some(0), "{done:?}");
    let mut peaks: Vec<u64> = peaks.into_values().collect();
    peaks.sort_unstable();
    peaks.try_into().expect("two workers")
}

#[test]
fn numbers_of_flows_that_a_path_does_not_take_are_refused() {
    let home = Home::new();
    for (args, said) in [
        ("--path tcp:epoll --flows 20001", "tcp takes 1 to 20000 flows, not 20001"),
        ("--path uring-udp --flows 20001", "uring-udp takes 1 to 20000 flows, not 20001"),
        ("--path udp:epoll --flows 0", "udp takes 1 to 20000 flows, not 0"),
        ("--path unix:poll --flows 1025", "unix takes 1 to 1024 flows, not 1025"),
        ("--path memory --flows 2", "memory takes 1 to 1 flows, not 2"),
        ("--path udp:epoll --flows 20000 --outstanding 4", "more than 65536 requests in flight"),
        ("--path udp:epoll --flows 20000 --local-port 50000", "--local-port needs ports 50000 to 69999"),
    ] {
        home.hairpin(&format!("ping loopback {args}")).fails(2, &[said]);
    }
}
