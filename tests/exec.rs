//! `hairpin exec` from the command line, with programs of the test's own: one that calls the C library, and one that makes raw system calls.

#![forbid(unsafe_code)]

mod support;

use std::env;
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use hairpin_sys::socket::{self, SO_BUSY_POLL, TCP_NODELAY, TCP_QUICKACK};
use hairpin_sys::thread::allowed_cpus;
use rustix::net::{AddressFamily, SocketType, bind, connect, getsockname, listen};
use support::listed;
use support::{Done, HAIRPIN, Home, LIMIT, can, root};

const TESTS: &[(&str, fn())] = &[
    ("sockets_of_the_c_library_have_what_was_asked_for", sockets_of_the_c_library_have_what_was_asked_for),
    ("raw_system_calls_are_named", raw_system_calls_are_named),
    ("raw_system_calls_are_mended_from_outside", raw_system_calls_are_mended_from_outside),
    ("idle_states_are_held_off_while_it_runs", idle_states_are_held_off_while_it_runs),
    ("it_ends_when_told_and_with_its_parent", it_ends_when_told_and_with_its_parent),
    ("what_cannot_be_is_said", what_cannot_be_is_said),
];
/// Those that need root.
const ROOT: &[&str] = &["idle_states_are_held_off_while_it_runs"];
/// How the programs end.
const CODE: i32 = 7;
/// Long enough for the first look at their sockets, after a second.
const LIFE: Duration = Duration::from_millis(1_800);

fn main() -> ExitCode {
    match env::args().nth(1).as_deref() {
        Some("play-std") => return play(by_the_library()),
        Some("play-raw") => return play(by_raw_calls()),
        Some("play-forever") => loop {
            thread::sleep(Duration::from_millis(10));
        },
        _ => {}
    }
    listed::run("exec", TESTS, |name, test| {
        let possible = !ROOT.contains(&name) || can(&format!("exec: {name}"), root(), "the device needs root");
        if possible {
            test();
        }
        possible
    })
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

/// By system calls alone.
fn by_raw_calls() -> Sockets {
    let here = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let made = |kind| rustix::net::socket(AddressFamily::INET, kind, None).expect("a socket");
    let listener = made(SocketType::STREAM);
    bind(&listener, &here).and_then(|()| listen(&listener, 1)).expect("a port");
    let client = made(SocketType::STREAM);
    connect(&client, &getsockname(&listener).expect("its port")).expect("a connection");
    let server = rustix::net::accept(&listener).expect("the connection");
    let datagrams = made(SocketType::DGRAM);
    bind(&datagrams, &here).expect("a port");
    Sockets { client: client.into(), server: server.into(), datagrams: datagrams.into() }
}

/// Asks and answers for a while, and says at the end what its sockets have.
fn play(sockets: Sockets) -> ExitCode {
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

/// The longest wake-up that any process allows, in us.
fn dma_latency() -> Option<i32> {
    Some(i32::from_ne_bytes(fs::read("/dev/cpu_dma_latency").ok()?.try_into().ok()?))
}

// ---- the tests ---------------------------------------------------------------------------------------------------------

fn exec(flags: &str, role: &str) -> Done {
    let home = Home::new();
    let mut command = home.command(HAIRPIN);
    command.arg("exec").args(flags.split_whitespace()).arg("--").arg(env::current_exe().expect("this program")).arg(role);
    home.spawn(command).done()
}

fn sockets_of_the_c_library_have_what_was_asked_for() {
    let cpu = *allowed_cpus().expect("the CPUs").last().expect("a CPU");
    let done = exec(&format!("--busy-poll 37 --nodelay --quickack --cpu {cpu}"), "play-std");
    assert_eq!(done.code, Some(CODE), "{done:?}");
    for line in ["busy-poll 37 37 37", "nodelay 1 1", "quickack 1", &format!("cpus [{cpu}]")] {
        assert!(done.out.contains(line), "{line}: {done:?}");
    }
    assert!(!done.err.contains("lack"), "{done:?}");
    // On loopback no device has a NAPI id.
    assert!(done.err.contains("busy polling is not in force"), "{done:?}");
    let plain = exec("", "play-std");
    for line in ["busy-poll 0 0 0", "nodelay 0 0", "quickack 0"] {
        assert!(plain.out.contains(line), "{line}: {plain:?}");
    }
    assert_eq!((plain.code, plain.err.as_str()), (Some(CODE), ""));
}

fn raw_system_calls_are_named() {
    let done = exec("--busy-poll 37 --nodelay", "play-raw");
    assert!(done.out.contains("busy-poll 0 0 0") && done.out.contains("nodelay 0 0"), "{done:?}");
    // The listening socket went before the first look.
    let named = |what: &str| done.err.lines().filter(|line| line.contains(what) && line.ends_with("lacks it")).count();
    assert_eq!((named("busy-poll: exec"), named("nodelay: exec"), named("UDP 127.0.0.1:")), (3, 2, 1), "{done:?}");
    assert!(done.err.contains("3 of 3 sockets seen lack an option; --set-live"), "{done:?}");
}

fn raw_system_calls_are_mended_from_outside() {
    let done = exec("--busy-poll 37 --nodelay --set-live", "play-raw");
    assert!(done.out.contains("busy-poll 37 37 37") && done.out.contains("nodelay 1 1"), "{done:?}");
    assert_eq!(done.err.lines().filter(|line| line.ends_with("lacked it, and has it now")).count(), 5, "{done:?}");
    assert!(!done.err.contains("sockets seen lack"), "{done:?}");
}

fn idle_states_are_held_off_while_it_runs() {
    let before = dma_latency().expect("the device");
    let done = exec("--hold-idle", "play-std");
    assert!(done.out.contains("dma latency Some(0)"), "{done:?}");
    assert_eq!(dma_latency(), Some(before));
}

fn it_ends_when_told_and_with_its_parent() {
    let home = Home::new();
    let start = || {
        let mut command = home.command(HAIRPIN);
        command.args(["exec", "--nodelay", "--"]).arg(env::current_exe().expect("this program")).arg("play-forever");
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

fn what_cannot_be_is_said() {
    let home = Home::new();
    for (args, code, words) in [
        ("exec", 2, "required"),
        ("exec --cpu 4000 -- true", 2, "choose from"),
        ("exec -- no-such-program-anywhere", 2, "cannot start no-such-program-anywhere"),
        ("exec --busy-poll x -- true", 2, "invalid value"),
        ("exec -- false", 1, ""),
    ] {
        let done = home.hairpin(args);
        assert_eq!(done.code, Some(code), "{args}: {done:?}");
        assert!(done.err.contains(words), "{args}: {done:?}");
    }
}
