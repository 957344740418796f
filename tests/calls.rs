//! No system call inside the loop but the path's own, counted from outside by strace(1).

use std::collections::BTreeMap;
use std::fs;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::support::alone::{self, Part, Plain};
use crate::support::{Done, HAIRPIN, Home, can, rows};

pub const PART: Part = Part::new("calls", || alone::plain(TESTS)).side_by_side();

const TESTS: &[Plain] = &[
    ("spinning_sockets_call_nothing_else", spinning_sockets_call_nothing_else),
    ("shared_memory_calls_nothing_at_all", shared_memory_calls_nothing_at_all),
    ("waiting_sockets_call_nothing_else", waiting_sockets_call_nothing_else),
    ("a_call_each_time_round_is_seen", a_call_each_time_round_is_seen),
    ("calls_of_the_loader_do_not_count", calls_of_the_loader_do_not_count),
    ("a_request_is_one_send", a_request_is_one_send),
    ("calls_that_an_older_kernel_lacks_are_not_needed", calls_that_an_older_kernel_lacks_are_not_needed),
    ("where_sockets_cannot_be_borrowed_exec_says_so_once", where_sockets_cannot_be_borrowed_exec_says_so_once),
];

/// System calls of a path itself, in each transaction.
const OWN: &str = "sendto,recvfrom,ppoll,epoll_wait,epoll_pwait,epoll_pwait2,read,write,sendmsg,recvmsg,sendmmsg,recvmmsg";
/// Transactions of a run that consists of start, setup and end. Its number of calls differs by hundreds
/// between machines: the loader tries a folder for each feature of the CPU below each folder of
/// LD_LIBRARY_PATH.
const FEW: u32 = 100;
/// Calls that a long run may make beyond a short one, and that each block may make: a block ends after 100 ms, and a busy machine
/// makes more of them.
const BEYOND: u64 = 500;
const EACH_BLOCK: u64 = 10;
const BLOCK_NS: u64 = 100_000_000;

/// Counts the calls of `hairpin ARGS` and of the processes it starts; `trace` selects them as strace's option does. `libraries`
/// is where the loader looks, if that is not empty.
fn count(home: &Home, libraries: &str, trace: &str, args: &str) -> (BTreeMap<String, u64>, Done) {
    let mut command = home.command("strace");
    if !libraries.is_empty() {
        // For the program alone, not for strace.
        command.args(["-E", &format!("LD_LIBRARY_PATH={libraries}")]);
    }
    // With a filter in the kernel, untraced calls run at full speed.
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
    // A tracee that is gone in the middle of a call leaves calls without a name.
    (lines.filter(|(_, name)| name != "total" && !name.starts_with("???")).map(|(calls, name)| (name, calls)).collect(), done)
}

fn strace(name: &str) -> bool {
    let works =
        Command::new("strace").args(["--seccomp-bpf", "-f", "-qq", "-e", "trace=none", "true"]).stderr(Stdio::null()).status();
    can(name, works.is_ok_and(|status| status.success()), "strace(1) is missing or may not trace here")
}

/// Checks for calls other than the path's own, over as many transactions as a machine with other work has time for.
fn others(spec: &str, transactions: u32, libraries: &str) {
    let (beyond, blocks) = beyond(spec, (FEW, transactions), &format!("!{OWN}"), libraries);
    let allowed = BEYOND + blocks;
    // One call per iteration is visible on the slowest machine.
    assert!(allowed < u64::from(transactions), "{spec}: this machine is too slow to tell: {blocks} calls of blocks");
    assert!(beyond < allowed, "{spec}: {beyond} calls beyond those of {FEW} transactions, of {allowed} that may be");
}

/// Calls selected by `trace` that a run of many transactions makes beyond one of few, and how many of them its blocks may make.
fn beyond(spec: &str, (few, many): (u32, u32), trace: &str, libraries: &str) -> (u64, u64) {
    let home = Home::new();
    let of = |transactions: u32| {
        let args = format!("ping --link loopback --path {spec} --size 8 --count {transactions} --warmup 0s --no-store --json");
        let (calls, done) = count(&home, libraries, trace, &args);
        let record = done.json();
        let took = |name: &str| rows(&record)[0][name].as_u64().expect("a time");
        (calls, (took("duration_ns") + took("gap_ns")) / BLOCK_NS)
    };
    let sum = |calls: &BTreeMap<String, u64>| calls.values().sum::<u64>();
    let ((few, _), (many, blocks)) = (of(few), of(many));
    assert!(sum(&few) > 50, "strace saw {few:?}");
    let beyond = sum(&many).saturating_sub(sum(&few));
    println!("calls: {spec}: {beyond} beyond {few:?}, in {blocks} blocks: {many:?}");
    (beyond, blocks * EACH_BLOCK)
}

fn spinning_sockets_call_nothing_else() {
    if strace("spinning_sockets_call_nothing_else") {
        ["udp:spin", "tcp:spin"].iter().for_each(|spec| others(spec, 20_000, ""));
    }
}

fn shared_memory_calls_nothing_at_all() {
    if !strace("shared_memory_calls_nothing_at_all") {
        return;
    }
    for spec in ["memory", "niq:spin", "niq:spin --nic niq"] {
        // Start, setup and end take the same calls in both, but for a poll or two.
        let (beyond, blocks) = beyond(spec, (1_000, 100_000), "all", "");
        assert!(beyond < 200 + blocks, "{spec}: {beyond} calls, of {blocks} that its blocks may make");
    }
}

fn waiting_sockets_call_nothing_else() {
    if strace("waiting_sockets_call_nothing_else") {
        ["udp:block", "tcp:epoll", "pipe:poll"].iter().for_each(|spec| others(spec, 20_000, ""));
    }
}

fn a_call_each_time_round_is_seen() {
    if strace("a_call_each_time_round_is_seen") {
        // This path sets its option after each receive call.
        let (beyond, blocks) = beyond("tcp:block,quickack=on", (FEW, 5_000), &format!("!{OWN}"), "");
        assert!(beyond > 5_000 && beyond > BEYOND + blocks, "{beyond} of {blocks} that its blocks may make");
    }
}

fn calls_of_the_loader_do_not_count() {
    if strace("calls_of_the_loader_do_not_count") {
        // In each of the folders, the loader looks for each library in a folder for each feature of the CPU.
        let there = Home::new();
        let folders: Vec<String> = (0..20).map(|number| there.file(&number.to_string()).display().to_string()).collect();
        folders.iter().for_each(|folder| fs::create_dir(folder).unwrap());
        others("udp:spin", 20_000, &folders.join(":"));
    }
}

fn a_request_is_one_send() {
    if !strace("a_request_is_one_send") {
        return;
    }
    let home = Home::new();
    for (spec, extra_calls) in [("udp:spin", 0), ("tcp:spin", 0), ("udp:block", 0), ("tcp:block,quickack=on", 1)] {
        let args = format!("ping --link loopback --path {spec} --count 5000 --warmup 0s --no-store");
        let began = Instant::now();
        let (calls, _) = count(&home, "", "sendto,write,sendmsg,setsockopt,clock_gettime,futex", &args);
        // Messages between the processes and netlink's are sends too, some of them each second.
        let others = 400 + 100 * began.elapsed().as_secs();
        let of = |name: &str| calls.get(name).copied().unwrap_or(0);
        // Requests and replies.
        let sends = of("sendto") + of("write") + of("sendmsg");
        assert!((10_000..10_000 + others).contains(&sends), "{spec}: {calls:?}");
        let armed = of("setsockopt");
        assert!((10_000 * extra_calls..10_000 * extra_calls + others).contains(&armed), "{spec}: {calls:?}");
        assert!(of("clock_gettime") + of("futex") < others, "{spec}: {calls:?}");
    }
}

/// Calls younger than Linux 4.18, the kernel of the oldest systems that the portable build is for; strace(1) may not know all.
const YOUNG: &str = "?pidfd_open,?pidfd_getfd,?pidfd_send_signal,?clone3,?close_range,?openat2,?faccessat2,?epoll_pwait2,?io_uring_setup,?futex_waitv,\
?fchmodat2,?process_madvise,?cachestat";

/// Runs `hairpin ARGS` on a kernel without `calls`, as far as the program can tell.
fn on_a_kernel_without(calls: &str, args: &str) -> Done {
    let home = Home::new();
    let mut command = home.command("strace");
    command.args([
        "-f",
        "-qq",
        "-o",
        "calls",
        "-e",
        &format!("trace={calls}"),
        "-e",
        &format!("inject={calls}:error=ENOSYS"),
        HAIRPIN,
    ]);
    command.args(args.split_whitespace());
    home.spawn(command).done()
}

fn calls_that_an_older_kernel_lacks_are_not_needed() {
    if !strace("calls_that_an_older_kernel_lacks_are_not_needed") {
        return;
    }
    let specs = [
        "udp:block",
        "udp:epoll",
        "udp:spin",
        "udp:poll",
        "tcp:block",
        "tcp:epoll",
        "unix:block",
        "pipe:epoll",
        "memory",
        "niq:spin",
    ];
    let paths: String = specs.iter().map(|spec| format!(" --path {spec}")).collect();
    let ping =
        on_a_kernel_without(YOUNG, &format!("ping --link loopback{paths} --size 8 --count 50 --warmup 0s --no-store --json"));
    assert_eq!(ping.code, Some(0), "{ping:?}");
    assert_eq!(rows(&ping.json()).len(), specs.len());
    for (args, needs) in
        [("exec -- true", "Linux 5.3 or newer"), ("explain --pid 1 --duration 1s --no-store", "Linux 5.12 or later with BTF")]
    {
        let done = on_a_kernel_without(YOUNG, args);
        assert_eq!(done.code, Some(4), "{args}: {done:?}");
        assert!(done.err.contains(needs), "{args}: {done:?}");
    }
    // A value that is there already changes nothing, so the command is all that happens.
    let value = fs::read_to_string("/proc/sys/net/ipv4/tcp_autocorking").expect("a sysctl");
    let value = if value.trim() == "0" { "off" } else { "on" };
    let done = on_a_kernel_without(YOUNG, &format!("tune apply tcp_autocorking={value} --yes --while -- false"));
    assert_eq!(done.code, Some(1), "the command's own: {done:?}");
    assert!(!done.err.contains("cannot run the command"), "{done:?}");
}

/// Linux 5.3 to 5.5: the end of a program can be waited for, its sockets cannot be borrowed.
fn where_sockets_cannot_be_borrowed_exec_says_so_once() {
    if !strace("where_sockets_cannot_be_borrowed_exec_says_so_once") {
        return;
    }
    let server = "s=__import__('socket').create_server(('127.0.0.1',0));__import__('time').sleep(4)";
    let done = on_a_kernel_without("pidfd_getfd", &format!("exec --nodelay -- python3 -c {server}"));
    assert_eq!(done.code, Some(0), "{done:?}");
    assert_eq!(done.err.matches("Linux 5.6 or newer (pidfd_getfd)").count(), 1, "{done:?}");
    assert!(!done.err.contains("no internet socket was seen"), "{done:?}");
}
