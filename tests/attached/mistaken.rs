//! Data that answers no request, packets and threads that move, sockets and processes of another role: `explain :PORT` takes none
//! of them for something else.

use std::env;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use hairpin_sys::ethtool::Ethtool;
use hairpin_sys::napi::{self, Napi, NapiSetting};
use hairpin_sys::thread::allowed_cpus;
use rustix::net::sockopt::{set_socket_keepalive, set_tcp_keepidle, set_tcp_keepintvl};
use serde_json::Value;

use super::found::{other_first, whole};
use super::roles::{HUGE, SLOW_FOR};
use super::{FEW, LOAD, SIZE, ask, complete, connect, hooks, number, one, other, seen, stages, watch};
use crate::support::net::{Net, ip, joined};
use crate::support::{Home, Running, can, free_port, namespaces};

const PATIENCE: Duration = Duration::from_secs(20);

pub fn a_farewell_is_no_part_of_the_last_reply(name: &str) -> bool {
    if !hooks(name) {
        return false;
    }
    let home = Home::new();
    let port = free_port();
    let _server = other(&home, "serve-farewell", port);
    let explain = watch(&home, &format!("--port {port}"));
    let mut stream = connect(port);
    for _ in 0..100 {
        one(&mut stream, &[1; SIZE], whole);
    }
    let mut farewell = Vec::new();
    stream.read_to_end(&mut farewell).expect("the server's end");
    assert_eq!(farewell.len(), SIZE / 2);
    drop(stream);
    let record = seen(explain);
    assert!(number(&record["transactions"]) >= 95, "{}", record["unmatched_by"]);
    assert!(!stages(&record, "client").contains(&"reply rest"), "{}", record["totals"]);
    true
}

/// Keepalive probes, and the end of a connection, that was there before the watching.
pub fn a_packet_without_data_is_no_request(name: &str) -> bool {
    if !hooks(name) {
        return false;
    }
    let home = Home::new();
    let port = free_port();
    let _server = other(&home, "serve-tcp", port);
    let mut idle = connect(port);
    let second = Duration::from_secs(1);
    set_socket_keepalive(&idle, true).and_then(|()| set_tcp_keepidle(&idle, second)).expect("keepalive");
    set_tcp_keepintvl(&idle, second).expect("keepalive");
    one(&mut idle, &[1; SIZE], whole);
    let none = |record: &Value| {
        let by = &record["unmatched_by"];
        assert_eq!(["pipelined", "unanswered", "half_seen"].map(|why| number(&by[why])), [0; 3], "{by}");
        let slowest = record["slowest"].as_array().expect("slowest");
        assert!(slowest.iter().all(|slow| number(&slow["sum_ns"]) < 1_000_000_000), "{slowest:?}");
    };
    let explain = watch(&home, &format!("--port {port}"));
    thread::sleep(Duration::from_millis(2_500));
    for _ in 0..10 {
        one(&mut idle, &[1; SIZE], whole);
    }
    none(&seen(explain));
    let explain = watch(&home, &format!("--port {port}"));
    drop(idle);
    let mut next = connect(port);
    for _ in 0..10 {
        one(&mut next, &[1; SIZE], whole);
    }
    none(&seen(explain));
    true
}

/// The server has Nagle as the kernel has it, but it is the client that reads late.
pub fn a_slow_reader_is_no_nagle(name: &str) -> bool {
    if !hooks(name) {
        return false;
    }
    let home = Home::new();
    let port = free_port();
    let _server = other(&home, "serve-huge", port);
    let explain = watch(&home, &format!("--port {port}"));
    let mut stream = connect(port);
    let mut reply = vec![0; HUGE];
    for _ in 0..4 {
        stream.write_all(&[1; SIZE]).expect("sent");
        thread::sleep(Duration::from_millis(500));
        stream.read_exact(&mut reply).expect("the reply");
    }
    let record = seen(explain);
    assert!(number(&record["transactions"]) > 0, "{}", record["unmatched_by"]);
    assert_eq!(record["findings"], Value::Array(Vec::new()));
    true
}

pub fn an_unasked_datagram_is_no_part_of_the_last_reply(name: &str) -> bool {
    if !hooks(name) {
        return false;
    }
    let home = Home::new();
    let port = free_port();
    let _server = other(&home, "serve-unasked", port);
    let explain = watch(&home, &format!("--port {port}"));
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
    socket.set_read_timeout(Some(PATIENCE)).expect("a time limit");
    socket.connect((Ipv4Addr::LOCALHOST, port)).expect("connected");
    for _ in 0..20 {
        socket.send(&[1; SIZE]).expect("sent");
        for _ in 0..2 {
            assert_eq!(socket.recv(&mut [0; SIZE]).expect("a datagram"), SIZE);
        }
    }
    let record = seen(explain);
    assert!(number(&record["transactions"]) >= 15, "{}", record["unmatched_by"]);
    assert!(!stages(&record, "client").contains(&"reply rest"), "{}", record["totals"]);
    true
}

/// A client that gets its own requests back from the error queue, with their stamps, before it reads the replies.
const READS_ITS_STAMPS: &str = "\
import socket, sys
connection = socket.create_connection(('127.0.0.1', int(sys.argv[1])))
# SO_TIMESTAMPING: SOF_TIMESTAMPING_TX_SOFTWARE, SOF_TIMESTAMPING_SOFTWARE
connection.setsockopt(socket.SOL_SOCKET, 37, 2 | 16)
for _ in range(200):
    connection.sendall(b'1' * 64)
    connection.recv(64, socket.MSG_PEEK)
    assert connection.recv(4096, socket.MSG_ERRQUEUE)
    assert len(connection.recv(64)) == 64
";

pub fn the_error_queue_is_no_reply(name: &str) -> bool {
    let python = Command::new("python3").arg("--version").stdout(Stdio::null()).status().is_ok_and(|status| status.success());
    if !hooks(name) || !can(name, python, "python3 is not here") {
        return false;
    }
    let home = Home::new();
    let port = free_port();
    let _server = other(&home, "serve-tcp", port);
    let explain = watch(&home, &format!("--port {port}"));
    let mut client = home.command("python3");
    client.args(["-c", READS_ITS_STAMPS, &port.to_string()]);
    let done = home.spawn(client).done();
    assert_eq!(done.code, Some(0), "{done:?}");
    let record = seen(explain);
    assert!(number(&record["transactions"]) >= 190, "{}", record["unmatched_by"]);
    assert!(!stages(&record, "client").contains(&"reply rest"), "{}", record["totals"]);
    true
}

/// Clients at 10.77.0.1 in `one`, where the calling thread is afterwards, connected to a server at 10.77.0.2 in `other` that
/// answers each datagram after `pause`; its port.
fn clients<const COUNT: usize>(one: &Net, other: &Net, pause: Duration) -> ([UdpSocket; COUNT], u16) {
    let socket = |host: u8| {
        let socket = UdpSocket::bind((Ipv4Addr::new(10, 77, 0, host), 0)).expect("a socket");
        socket.set_read_timeout(Some(PATIENCE)).expect("a time limit");
        socket
    };
    other.enter();
    let server = socket(2);
    let at = server.local_addr().expect("its address");
    one.enter();
    thread::spawn(move || {
        let mut bytes = [0; SIZE];
        while let Ok((got, from)) = server.recv_from(&mut bytes) {
            thread::sleep(pause);
            let _ = server.send_to(&bytes[..got], from);
        }
    });
    let clients = [(); COUNT].map(|()| {
        let client = socket(1);
        client.connect(at).expect("connected");
        client
    });
    (clients, at.port())
}

/// A request of each client, and then the replies.
fn asked_at_once(clients: &[UdpSocket]) {
    for client in clients {
        client.send(&[1; SIZE]).expect("sent");
    }
    for client in clients {
        assert_eq!(client.recv(&mut [0; SIZE]).expect("a reply"), SIZE);
    }
}

pub fn a_datagram_over_two_devices_is_one_request(name: &str) -> bool {
    if !hooks(name) || !can(name, namespaces(), "it takes namespaces") {
        return false;
    }
    let (one, other) = (Net::new(), Net::new());
    joined(&one, &other);
    ip("address del 10.77.0.1/24 dev east");
    ip("link add over type bridge");
    ip("link set east master over");
    ip("address add 10.77.0.1/24 dev over");
    ip("link set over up");
    let (clients, port) = clients::<1>(&one, &other, Duration::ZERO);
    // By now each knows the other's address.
    asked_at_once(&clients);
    let home = Home::new();
    let explain = watch(&home, &format!("--port {port}"));
    for _ in 0..2_000 {
        asked_at_once(&clients);
    }
    complete(&seen(explain), 2_000);
    true
}

pub fn datagrams_of_one_poll_are_told_apart(name: &str) -> bool {
    if !hooks(name) || !can(name, namespaces(), "it takes namespaces") {
        return false;
    }
    let (one, other) = (Net::new(), Net::new());
    joined(&one, &other);
    // Without TSO at its sender's end, a packet goes through a poll of the other end, in a thread that finds both.
    Ethtool::open().and_then(|of| of.set_tso("east", false)).expect("no TSO");
    other.enter();
    Ethtool::open().and_then(|of| of.set_gro("west", true)).expect("GRO");
    let instance = Napi::all_of("west").unwrap_or_default().first().map(|napi| napi.name().to_owned());
    let polls = instance.is_some_and(|name| napi::set("west", &name, NapiSetting::Threaded, "1").is_ok());
    if !can(name, polls, "it takes NAPI instances with threads (Linux 6.17)") {
        return false;
    }
    // One that a reader takes before the programs have looked at it is not known. The pause is longer than a poll, so that the
    // reader comes for the second one only after that. Were they taken for each other, one of each pair would be missing.
    let (clients, port) = clients::<2>(&one, &other, Duration::from_millis(1));
    asked_at_once(&clients);
    let home = Home::new();
    let explain = watch(&home, &format!("--port {port}"));
    for _ in 0..500 {
        asked_at_once(&clients);
    }
    let record = seen(explain);
    let transactions = number(&record["transactions"]);
    assert!((980..=1_000).contains(&transactions), "{transactions} of 1000: {}", record["unmatched_by"]);
    true
}

pub fn a_slow_request_keeps_its_place(name: &str) -> bool {
    const SLOW: usize = 50;
    if !hooks(name) {
        return false;
    }
    let home = Home::new();
    let port = free_port();
    let _server = other(&home, "serve-slow", port);
    let explain = watch(&home, &format!("--port {port}"));
    let slow: Vec<_> = (0..SLOW).map(|_| thread::spawn(move || one(&mut connect(port), &[9; SIZE], whole))).collect();
    let mut short = 0;
    while slow.iter().any(|client| !client.is_finished()) {
        one(&mut connect(port), &[1; SIZE], whole);
        short += 1;
    }
    for client in slow {
        client.join().expect("its reply");
    }
    let record = seen(explain);
    println!("{name}: {short} connections came and went meanwhile");
    assert_eq!(record["unmatched_by"]["unanswered"], 0, "{}", record["unmatched_by"]);
    complete(&record, SLOW + short);
    let slowest = record["slowest"].as_array().expect("slowest");
    assert!(slowest.iter().all(|slow| number(&slow["sum_ns"]) >= SLOW_FOR.as_nanos() as u64), "{slowest:?}");
    true
}

fn keep_on(cpu: u32, pid: u32) {
    let done = Command::new("taskset").args(["-pc", &cpu.to_string(), &pid.to_string()]).output().expect("taskset");
    assert!(done.status.success(), "{done:?}");
}

/// The server's thread loses its CPU to one program, and goes on where another one was running.
pub fn a_thread_that_moves_names_who_took_its_cpu(name: &str) -> bool {
    let cpus = allowed_cpus().expect("CPUs");
    if !hooks(name) || !can(name, cpus.len() >= 2, "the thread moves to another CPU") {
        return false;
    }
    let home = Home::new();
    let port = free_port();
    let mut server = other(&home, "serve-until-moved", port);
    keep_on(cpus[1], server.pid());
    let _elsewhere = other(&home, "compete", cpus[0] as u16);
    let explain = watch(&home, &format!("--port {port}"));
    let client = thread::spawn(move || {
        let mut stream = connect(port);
        for _ in 0..100 {
            one(&mut stream, &[1; SIZE], whole);
        }
        one(&mut stream, &[9; SIZE], whole)
    });
    server.until("spinning");
    let taker = other_first(&home, "hold", 0, cpus[1]);
    // Most of the request's time, and before the kernel takes the CPU from a real-time thread for others' sake (950 ms of a
    // second).
    thread::sleep(Duration::from_millis(500));
    keep_on(cpus[0], server.pid());
    client.join().expect("the client");
    let took = taker.pid();
    drop(taker);
    let record = seen(explain);
    let slowest = &record["slowest"][0];
    assert_eq!(slowest["cause"], "preempted", "{slowest}");
    let named = slowest["who"].as_str().is_some_and(|who| who.ends_with(&format!("({took})")));
    assert!(named, "{took} is not named: {slowest}");
    true
}

/// Watches this program, which begins to ask once it is told at the port `start`.
fn is_a_client(home: &Home, program: &Running, start: u16) {
    let explain = watch(home, &format!("--pid {}", program.pid()));
    let _started = connect(start);
    thread::sleep(LOAD);
    let record = seen(explain);
    assert!(number(&record["transactions"]) > 10, "{}", record["unmatched_by"]);
    assert_eq!(record["watched"]["roles"], Value::from(vec!["client"]));
}

pub fn a_bound_socket_that_speaks_first_is_a_clients(name: &str) -> bool {
    if !hooks(name) {
        return false;
    }
    let home = Home::new();
    let (port, start) = (free_port(), free_port());
    let _server = other(&home, "serve-late", port);
    let client = other(&home, &format!("ask-bound:{port}"), start);
    is_a_client(&home, &client, start);
    true
}

/// A port that the process had itself is another's, on another host.
pub fn a_client_of_a_port_that_it_had_is_a_client(name: &str) -> bool {
    if !hooks(name) {
        return false;
    }
    let home = Home::new();
    let [shared, behind, start] = [(); 3].map(|()| free_port());
    let listener = TcpListener::bind((Ipv4Addr::new(127, 0, 0, 2), shared)).expect("its port");
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("the client");
        let mut bytes = [0; SIZE];
        while stream.read_exact(&mut bytes).and_then(|()| stream.write_all(&bytes)).is_ok() {}
    });
    let _server = other(&home, "serve-tcp", behind);
    let client = other(&home, &format!("ask-from:{shared}:{behind}"), start);
    is_a_client(&home, &client, start);
    true
}

pub fn a_process_is_watched_with_its_late_descendants(name: &str) -> bool {
    if !hooks(name) {
        return false;
    }
    let home = Home::new();
    let port = free_port();
    let itself = env::current_exe().expect("this program");
    // Each shell waits for what it started, which ends with it.
    let shell = ["sh", "-c", "\"$@\"; :", "sh", "setpriv", "--pdeathsig", "KILL"];
    let mut command = home.command(shell[0]);
    command.args(&shell[1..]).args(shell).args(shell);
    command.arg(itself).args(["play", "serve-tcp", &port.to_string()]);
    let mut family = home.spawn(command);
    family.until("ready");
    let explain = watch(&home, &format!("--pid {}", family.pid()));
    let rtts = ask(port, &[1; SIZE], FEW, whole);
    complete(&seen(explain), rtts.0.len());
    true
}
