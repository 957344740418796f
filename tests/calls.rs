//! No system call inside the loop but the path's own, counted from outside by strace(1).

#![forbid(unsafe_code)]

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::process::{Command, Stdio};

use support::{HAIRPIN, Home, can};

/// What a path itself may call, each time round.
const OWN: &str = "sendto,recvfrom,ppoll,epoll_wait,epoll_pwait,epoll_pwait2,read,write,sendmsg,recvmsg,sendmmsg,recvmmsg";
/// What all three processes may call in all, to start, set up, fold, report and store.
const BUDGET: u64 = 2000;

/// Counts the calls of `hairpin ARGS` and of the processes it starts; `trace` selects them as strace's option does.
fn count(home: &Home, trace: &str, args: &str) -> BTreeMap<String, u64> {
    let mut command = home.command("strace");
    // With a filter in the kernel, what is not traced runs at full speed.
    command.args([
        "--seccomp-bpf",
        "-f",
        "-qq",
        "-c",
        "-U",
        "calls,name",
        "-o",
        "calls",
        "-e",
        &format!("trace={trace}"),
        HAIRPIN,
    ]);
    command.args(args.split_whitespace());
    let done = home.spawn(command).done();
    assert_eq!(done.code, Some(0), "{args}: {done:?}");
    let text = fs::read_to_string(home.file("calls")).unwrap();
    let lines = text.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        Some((words.next()?.parse().ok()?, words.next()?.to_owned()))
    });
    lines.filter(|(_, name)| name != "total").map(|(calls, name)| (name, calls)).collect()
}

fn strace(name: &str) -> bool {
    let works =
        Command::new("strace").args(["--seccomp-bpf", "-f", "-qq", "-e", "trace=none", "true"]).stderr(Stdio::null()).status();
    can(name, works.is_ok_and(|status| status.success()), "strace(1) is missing or may not trace here")
}

/// Others than the path's own, over 10^5 transactions or as many as fit.
fn others(spec: &str, transactions: u32) {
    let home = Home::new();
    let args = format!("ping --link loopback --path {spec} --size 8 --count {transactions} --warmup 0s --no-store");
    let calls = count(&home, &format!("!{OWN}"), &args);
    let sum: u64 = calls.values().sum();
    assert!(sum > 50, "strace saw {sum} calls: {calls:?}");
    assert!(sum < BUDGET, "{spec}: {sum} calls in {transactions} transactions: {calls:?}");
}

#[test]
fn spinning_sockets_call_nothing_else() {
    if strace("spinning_sockets_call_nothing_else") {
        ["udp:spin", "tcp:spin"].iter().for_each(|spec| others(spec, 100_000));
    }
}

#[test]
fn shared_memory_calls_nothing_at_all() {
    if !strace("shared_memory_calls_nothing_at_all") {
        return;
    }
    let home = Home::new();
    for spec in ["memory", "niq:spin", "niq:spin --nic niq"] {
        let of = |transactions: u32| {
            let args = format!("ping --link loopback --path {spec} --size 8 --count {transactions} --warmup 0s --no-store");
            count(&home, "all", &args)
        };
        // What starting, asking the host and ending take is the same for both, but for a poll or two.
        let (few, many) = (of(1_000), of(100_000));
        let sum = |calls: &BTreeMap<String, u64>| calls.values().sum::<u64>();
        assert!(sum(&few) > 50, "strace saw {few:?}");
        assert!(sum(&many) < sum(&few) + 200, "{spec}: {few:?}, then {many:?}");
    }
}

#[test]
fn waiting_sockets_call_nothing_else() {
    if strace("waiting_sockets_call_nothing_else") {
        // A sleep and a wake-up each: ten times slower, and still ten times the budget.
        ["udp:block", "tcp:epoll", "pipe:poll"].iter().for_each(|spec| others(spec, 20_000));
    }
}

#[test]
fn a_request_is_one_send() {
    if !strace("a_request_is_one_send") {
        return;
    }
    let home = Home::new();
    for (spec, extra_calls) in [("udp:spin", 0), ("tcp:spin", 0), ("udp:block", 0), ("tcp:block,quickack=on", 1)] {
        let args = format!("ping --link loopback --path {spec} --count 5000 --warmup 0s --no-store");
        let calls = count(&home, "sendto,write,sendmsg,setsockopt,clock_gettime,futex", &args);
        let of = |name: &str| calls.get(name).copied().unwrap_or(0);
        // Requests and replies; messages between the processes and netlink's are sends too.
        let sends = of("sendto") + of("write") + of("sendmsg");
        assert!((10_000..10_600).contains(&sends), "{spec}: {calls:?}");
        let armed = of("setsockopt");
        assert!((10_000 * extra_calls..10_000 * extra_calls + 600).contains(&armed), "{spec}: {calls:?}");
        assert!(of("clock_gettime") + of("futex") < 500, "{spec}: {calls:?}");
    }
}
