//! `hairpin exec` from the command line, with programs of the test's own: one that calls the C library, and one whose sockets
//! the C library in it has not made, as in a program that makes raw system calls.

use std::env;
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::process::{Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::alone::{Part, Test};
use crate::support::{Done, HAIRPIN, Home, LIMIT, can, namespaces, root};
use hairpin_sys::fdpass;
use hairpin_sys::host::RealHost;
use hairpin_sys::socket::{self, SO_BUSY_POLL, TCP_NODELAY, TCP_QUICKACK};
use hairpin_sys::thread::allowed_cpus;
use hairpin_tune::has_idle_states;

pub const PART: Part = Part::new("exec", tests).playing(play).side_by_side();

const TESTS: &[(&str, fn())] = &[
    ("sockets_of_the_c_library_have_the_requested_options", sockets_of_the_c_library_have_the_requested_options),
    ("sockets_beside_the_c_library_are_named", sockets_beside_the_c_library_are_named),
    ("sockets_beside_the_c_library_are_mended_from_outside", sockets_beside_the_c_library_are_mended_from_outside),
    ("idle_states_are_held_off_while_it_runs", idle_states_are_held_off_while_it_runs),
    ("it_ends_when_told_and_with_its_parent", it_ends_when_told_and_with_its_parent),
    ("rejects_impossible_flags_with_a_reason", rejects_impossible_flags_with_a_reason),
    ("reports_background_processes", reports_background_processes),
    ("the_next_owner_of_its_id_gains_nothing", the_next_owner_of_its_id_gains_nothing),
    ("the_next_owner_of_a_killed_ones_id_gains_nothing", the_next_owner_of_a_killed_ones_id_gains_nothing),
];
/// Tests that need root.
const ROOT: &[&str] = &["idle_states_are_held_off_while_it_runs"];
/// Tests that choose the id of the next process, in a namespace of their own.
const NUMBERS: &[&str] = &["the_next_owner_of_its_id_gains_nothing", "the_next_owner_of_a_killed_ones_id_gains_nothing"];
/// Exit code of the programs.
const CODE: i32 = 7;
/// Long enough for the first look at their sockets, after a second.
const LIFE: Duration = Duration::from_millis(1_800);

fn tests() -> Vec<Test> {
    let possible = |name: &str, full: &str| {
        (!ROOT.contains(&name) || can(full, root(), "the device needs root"))
            && (!NUMBERS.contains(&name)
                || can(full, numbers(), "it takes root, namespaces of processes and mounts, and a C compiler"))
    };
    let test = |(name, run): &(&'static str, fn())| {
        let (name, run) = (*name, *run);
        Test::new(name, move |full| possible(name, full).then(run).is_some())
    };
    TESTS.iter().map(test).collect()
}

fn play(arguments: &[&str]) -> Option<ExitCode> {
    match *arguments {
        ["std"] => Some(ask(by_the_library())),
        ["beside"] => Some(ask(beside_the_library())),
        ["sockets"] => Some(hand_over(&by_the_library())),
        ["forever"] => loop {
            thread::sleep(Duration::from_millis(10));
        },
        _ => None,
    }
}

// ---- the programs ------------------------------------------------------------------------------------------------------

/// Two ends of a connection, and a socket of UDP.
struct Sockets {
    client: TcpStream,
    server: TcpStream,
    datagrams: UdpSocket,
}

/// By the standard library, which calls socket(3) and accept4(3).
fn by_the_library() -> Sockets {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let client = TcpStream::connect(listener.local_addr().expect("its port")).expect("a connection");
    let (server, _) = listener.accept().expect("the connection");
    Sockets { client, server, datagrams: UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port") }
}

/// By another process, which has no library before the C library: this one never calls socket(3) or accept4(3) for them.
fn beside_the_library() -> Sockets {
    let (ours, theirs) = UnixStream::pair().expect("a pair");
    let mut maker = Command::new(env::current_exe().expect("this program"));
    maker.args(["play", "sockets"]).env_remove("LD_PRELOAD").env_remove("HAIRPIN_EXEC").stdin(OwnedFd::from(theirs));
    assert!(maker.status().expect("this program").success());
    let (_, fds) = fdpass::recv_fds(&ours, 3).expect("its sockets");
    let [client, server, datagrams] = fds.try_into().expect("three");
    Sockets { client: client.into(), server: server.into(), datagrams: datagrams.into() }
}

/// Sends the sockets to the process on standard input.
fn hand_over(sockets: &Sockets) -> ExitCode {
    let fds = [sockets.client.as_fd(), sockets.server.as_fd(), sockets.datagrams.as_fd()];
    fdpass::send_fds(std::io::stdin(), &fds, 0).expect("to send them");
    ExitCode::SUCCESS
}

/// Exchanges messages for a while, and prints the options of its sockets at the end.
fn ask(sockets: Sockets) -> ExitCode {
    let Sockets { mut client, mut server, datagrams } = sockets;
    let begun = Instant::now();
    let mut acknowledged = 0;
    while begun.elapsed() < LIFE {
        client.write_all(&[1; 64]).expect("to send");
        server.read_exact(&mut [0; 64]).expect("to receive");
        // A connection that is answered goes over to delayed acknowledgements, unless it is told again not to.
        acknowledged = socket::get(&server, TCP_QUICKACK).expect("the option");
        server.write_all(&[1; 64]).expect("to send");
        client.read_exact(&mut [0; 64]).expect("to receive");
        thread::sleep(Duration::from_millis(5));
    }
    let get = |fd: &dyn AsFd, option| socket::get(fd.as_fd(), option).expect("the option");
    println!("busy-poll {} {} {}", get(&client, SO_BUSY_POLL), get(&server, SO_BUSY_POLL), get(&datagrams, SO_BUSY_POLL));
    println!("nodelay {} {}", get(&client, TCP_NODELAY), get(&server, TCP_NODELAY));
    println!("quickack {acknowledged}");
    println!("cpus {:?}", allowed_cpus().expect("the CPUs"));
    println!("dma latency {:?}", dma_latency());
    ExitCode::from(CODE as u8)
}

/// What the programs print of busy polling if nobody asks for it: three sockets with the kernel's default.
fn usual_busy_poll() -> String {
    let usual = fs::read_to_string("/proc/sys/net/core/busy_read").unwrap_or_else(|_| "0".into());
    format!("busy-poll {0} {0} {0}", usual.trim())
}

/// The longest wake-up that any process allows, in us.
fn dma_latency() -> Option<i32> {
    Some(i32::from_ne_bytes(fs::read("/dev/cpu_dma_latency").ok()?.try_into().ok()?))
}

// ---- the tests ---------------------------------------------------------------------------------------------------------

fn exec(flags: &str, role: &str) -> Done {
    let home = Home::new();
    let mut command = home.command(HAIRPIN);
    command
        .arg("exec")
        .args(flags.split_whitespace())
        .arg("--")
        .arg(env::current_exe().expect("this program"))
        .args(["play", role]);
    home.spawn(command).done()
}

fn sockets_of_the_c_library_have_the_requested_options() {
    let cpu = *allowed_cpus().expect("the CPUs").last().expect("a CPU");
    let done = exec(&format!("--busy-poll 37 --nodelay --quickack --cpu {cpu}"), "std");
    assert_eq!(done.code, Some(CODE), "{done:?}");
    for line in ["busy-poll 37 37 37", "nodelay 1 1", "quickack 1", &format!("cpus [{cpu}]")] {
        assert!(done.out.contains(line), "{line}: {done:?}");
    }
    assert!(!done.err.contains("lack"), "{done:?}");
    assert!(done.err.contains("hairpin exec: 3 sockets: SO_BUSY_POLL, TCP_NODELAY on 2 in force"), "{done:?}");
    // On loopback no device has a NAPI id.
    assert!(done.err.contains("busy polling is not in force"), "{done:?}");
    let plain = exec("", "std");
    for line in [usual_busy_poll().as_str(), "nodelay 0 0", "quickack 0"] {
        assert!(plain.out.contains(line), "{line}: {plain:?}");
    }
    assert_eq!((plain.code, plain.err.as_str()), (Some(CODE), ""));
}

fn sockets_beside_the_c_library_are_named() {
    let done = exec("--busy-poll 37 --nodelay", "beside");
    assert!(done.out.contains(&usual_busy_poll()) && done.out.contains("nodelay 0 0"), "{done:?}");
    // The listening socket was closed before the first look.
    let named = |what: &str| done.err.lines().filter(|line| line.contains(what) && line.ends_with("lacks it")).count();
    assert_eq!((named("busy-poll: alone"), named("nodelay: alone"), named("UDP 127.0.0.1:")), (3, 2, 1), "{done:?}");
    assert!(done.err.contains("3 of 3 sockets seen lack an option; --set-live"), "{done:?}");
}

fn sockets_beside_the_c_library_are_mended_from_outside() {
    let done = exec("--busy-poll 37 --nodelay --set-live", "beside");
    assert!(done.out.contains("busy-poll 37 37 37") && done.out.contains("nodelay 1 1"), "{done:?}");
    assert_eq!(done.err.lines().filter(|line| line.ends_with("lacked it, and has it now")).count(), 5, "{done:?}");
    assert!(!done.err.contains("sockets seen lack"), "{done:?}");
}

fn idle_states_are_held_off_while_it_runs() {
    // A test beside this one may hold them off too, for some seconds; the host itself, for good.
    let latency_after_zero = || {
        let begun = Instant::now();
        loop {
            let latency = dma_latency().expect("the device");
            if latency != 0 || begun.elapsed() > Duration::from_secs(30) {
                return latency;
            }
            thread::sleep(Duration::from_millis(5));
        }
    };
    let before = latency_after_zero();
    let done = exec("--hold-idle", "std");
    assert!(done.out.contains("dma latency Some(0)"), "{done:?}");
    let said = if has_idle_states(&RealHost) { "deep idle states held off\n" } else { "--hold-idle has no effect here" };
    assert!(done.err.contains(&format!("hairpin exec: {said}")), "{done:?}");
    assert_eq!(latency_after_zero(), before);
}

fn it_ends_when_told_and_with_its_parent() {
    let home = Home::new();
    let start = || {
        let mut command = home.command(HAIRPIN);
        command.args(["exec", "--nodelay", "--"]).arg(env::current_exe().expect("this program")).args(["play", "forever"]);
        let running = home.spawn(command);
        let children = format!("/proc/{0}/task/{0}/children", running.pid());
        let begun = Instant::now();
        let child = loop {
            match fs::read_to_string(&children).ok().and_then(|pids| pids.split_whitespace().next()?.parse::<u32>().ok()) {
                Some(child) => break child,
                None => assert!(begun.elapsed() < LIMIT, "no program"),
            }
        };
        (running, child)
    };
    let is_gone = |pid: u32| {
        let begun = Instant::now();
        while fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z ")) {
            assert!(begun.elapsed() < LIMIT, "the program {pid} goes on");
            thread::sleep(Duration::from_millis(5));
        }
    };
    let (running, program) = start();
    running.signal("TERM");
    assert_eq!(running.done().code, Some(128 + 15));
    is_gone(program);
    let (mut running, program) = start();
    running.kill();
    is_gone(program);
}

fn rejects_impossible_flags_with_a_reason() {
    let home = Home::new();
    let cpu = *allowed_cpus().expect("the CPUs").last().expect("a CPU");
    for (args, code, words) in [
        ("exec", 2, "the word COMMAND is missing"),
        ("exec --cpu 4000 -- true", 2, "choose from"),
        ("exec -- no-such-program-anywhere", 127, "cannot start no-such-program-anywhere"),
        ("exec --nodelay -- /proc/version", 126, "cannot start /proc/version: Permission denied"),
        ("exec --busy-poll x -- true", 2, "invalid value"),
        ("exec -- false", 1, ""),
        ("exec --nodelay -- false", 1, "no internet socket was seen"),
        ("exec --quickack -- false", 1, "hairpin exec: TCP_QUICKACK set after each receive call\n"),
        (&format!("exec --cpu {cpu} -- false"), 1, &format!("hairpin exec: all threads on CPU {cpu}\n")),
        (
            &format!("exec --cpu {cpu} --nodelay -- false"),
            1,
            &format!("nothing is proven; the first look is a second after the start; all threads on CPU {cpu}\n"),
        ),
    ] {
        let done = home.hairpin(args);
        assert_eq!(done.code, Some(code), "{args}: {done:?}");
        assert!(done.err.contains(words), "{args}: {done:?}");
    }
    // A folder of PATH that this user may not search does not make a missing program one that cannot be run.
    fs::create_dir(home.file("closed")).expect("a folder");
    fs::set_permissions(home.file("closed"), fs::Permissions::from_mode(0o000)).expect("chmod");
    let mut command = home.command(HAIRPIN);
    command.args(["exec", "--", "no-such-program-anywhere"]).env("PATH", home.file("closed"));
    home.spawn(command).done().fails(127, &["No such file"]);
}

fn reports_background_processes() {
    let home = Home::new();
    let run = |flags: &[&str], script: &str| {
        let mut command = home.command(HAIRPIN);
        command.arg("exec").args(flags).args(["--", "sh", "-c", script]);
        home.spawn(command).done()
    };
    let goes = "mkfifo started
        (setsid sh -c 'echo $$ > number; echo > started; exec sleep 1000' &)
        read x < started
        rm started
        exit 5";
    let ends = || {
        let number = fs::read_to_string(home.file("number")).expect("its number").trim().to_owned();
        let killed = Command::new("kill").args(["-KILL", &number]).status().expect("kill");
        assert!(killed.success(), "{number} did not go on");
        number
    };
    let done = run(&["--nodelay"], goes);
    let number = ends();
    assert_eq!(done.code, Some(5), "{done:?}");
    let said = format!("(pid {number}) has gone into the background: sockets that are made there from now on are not looked at");
    assert!(done.err.contains(&said), "{said}: {done:?}");
    // Settings made before the start stay, so nothing is reported at the end.
    let cpu = allowed_cpus().expect("the CPUs")[0].to_string();
    let done = run(&["--cpu", &cpu], goes);
    ends();
    assert_eq!((done.code, done.err), (Some(5), format!("hairpin exec: all threads on CPU {cpu}\n")));
    // Background processes that end while the program goes on leave no zombie, and no trace at the end.
    let ended = "(sh -c 'exit 0' &)
        until [ \"$(cat /proc/$PPID/task/$PPID/children)\" = \"$$ \" ]; do
            tries=$((tries + 1))
            [ $tries -lt 300 ] || { echo zombie; exit; }
            sleep 0.1
        done";
    let done = run(&["--nodelay"], ended);
    assert_eq!((done.code, done.out.as_str()), (Some(0), ""), "{done:?}");
    assert!(!done.err.contains("background"), "{done:?}");
}

/// True if a PID namespace can be made in which the next process id is chosen.
fn numbers() -> bool {
    let made = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["--pid", "--mount", "--fork", "--mount-proc", "sh", "-c", script]);
        command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
    };
    let compiles = Command::new("cc").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    namespaces() && made("echo 100 > /proc/sys/kernel/ns_last_pid") && compiles.is_ok_and(|status| status.success())
}

/// A user without rights waits until `exec` has ended, becomes the process with its id, and offers a library of his own as each
/// of the first descriptors. `exec` runs `program`, which starts another program after `read x < go`. `end` is the way `exec`
/// ends.
fn next_owner_of_the_number(program: &str, end: &str) {
    let home = Home::new();
    fs::set_permissions(home.path(), fs::Permissions::from_mode(0o755)).expect("chmod");
    let evil = "#include <stdio.h>\n#include <unistd.h>\n__attribute__((constructor)) static void a(void) { printf(\"EVIL %d\\n\", getuid()); fflush(stdout); }\n";
    fs::write(home.file("evil.c"), evil).expect("a file");
    let compiled = Command::new("cc").args(["-shared", "-fPIC", "-o", "evil.so", "evil.c"]).current_dir(home.path()).status();
    assert!(compiled.is_ok_and(|status| status.success()), "cc fails");
    fs::set_permissions(home.file("evil.so"), fs::Permissions::from_mode(0o755)).expect("chmod");
    let script = format!(
        r#"mount -t tmpfs -o mode=755 none /var/lib || exit 91
        mkfifo go over begun there && chmod 666 there || exit 92
        "$HAIRPIN" exec --nodelay -- sh -c '{program}' &
        exec=$!
        read x < begun
        {end}
        wait $exec
        echo $((exec - 1)) > /proc/sys/kernel/ns_last_pid
        setpriv --reuid=65534 --regid=65534 --clear-groups             sh -c 'exec 3< evil.so 4< evil.so 5< evil.so 6< evil.so 7< evil.so 8< evil.so 9< evil.so; echo > there; exec sleep 1000' &
        thief=$!
        read x < there
        echo "exec $exec thief $thief"
        echo > go
        read x < over
        kill $thief"#
    );
    let mut command = home.command("unshare");
    // At its default place, which is in memory of this namespace here.
    command.env("HAIRPIN", HAIRPIN).env_remove("HAIRPIN_LIBRARY");
    command.args(["--pid", "--mount", "--fork", "--kill-child", "--mount-proc", "sh", "-c", &script]);
    let done = home.spawn(command).done();
    assert_eq!(done.code, Some(0), "{done:?}");
    let numbers = done.out.lines().find_map(|line| line.strip_prefix("exec ")?.split_once(" thief "));
    assert!(numbers.is_some_and(|(exec, thief)| exec == thief), "the number was not taken: {done:?}");
    assert!(!done.out.contains("EVIL"), "somebody else's library is in a program of root: {done:?}");
    let list = done.out.lines().find_map(|line| line.strip_prefix("list ")).expect("the environment");
    assert!(list.starts_with("/var/lib/hairpin/preload/preload-") && !done.out.contains("/proc/"), "{list}");
    assert!(done.out.lines().any(|line| line == "0"), "the program was not started: {done:?}");
    assert!(!done.err.contains("LD_PRELOAD"), "the loader does not find its library any more: {done:?}");
}

/// A program that outlives `exec` and then starts another one.
const LATER: &str = r#"read x < go; echo "list $LD_PRELOAD"; /usr/bin/id -u; echo > over"#;

fn the_next_owner_of_its_id_gains_nothing() {
    next_owner_of_the_number(&format!("( {LATER} ) & echo > begun; exit 0"), "");
}

fn the_next_owner_of_a_killed_ones_id_gains_nothing() {
    next_owner_of_the_number(&format!("trap \"\" TERM; echo > begun; {LATER}"), "kill -KILL $exec");
}
