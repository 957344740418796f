//! `hairpin explain --port` and `--pid` from the command line: real servers from the distribution, and small ones of the test's
//! own, watched without their co-operation.
//!
//! The client is in this process, so that its RTTs are exact. One test at a time, except those that mostly pause: each one's
//! traffic would be the others' noise.

mod found;
mod mistaken;
mod roles;

use std::collections::HashSet;
use std::env;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::alone::{self, Listed, Part};
use crate::support::net::{Net, joined};
use crate::support::servers;
use crate::support::{Done, HAIRPIN, Home, Running, can, free_port, home_of_nobody, namespaces, root};
use hairpin_sys::bpf::tracing_links;
use hairpin_sys::thread::{allowed_cpus, pin};
use serde_json::Value;

pub const PART: Part = Part::new("attached", || alone::listed(TESTS)).playing(play);
/// Few transactions, and pauses between them.
pub const OF_PAUSES: Part = Part::new("attached_pauses", || alone::listed(TESTS_OF_PAUSES)).side_by_side();

const TESTS: &[Listed] = &[
    ("redis_within_10_percent_of_its_client", redis_within_10_percent_of_its_client),
    ("redis_is_watched_while_it_is_asked", redis_is_watched_while_it_is_asked),
    ("nginx_is_watched_while_it_is_asked", nginx_is_watched_while_it_is_asked),
    ("memcached_is_watched_while_it_is_asked", memcached_is_watched_while_it_is_asked),
    ("a_server_in_another_namespace_is_watched_while_it_is_asked", a_server_in_another_namespace_is_watched_while_it_is_asked),
    ("a_server_that_misbehaves_is_told_beside_what_was_seen", a_server_that_misbehaves_is_told_beside_what_was_seen),
    ("nginx_within_10_percent_of_its_client", nginx_within_10_percent_of_its_client),
    ("datagrams_are_transactions_too", datagrams_are_transactions_too),
    ("a_client_is_watched_by_its_process", a_client_is_watched_by_its_process),
    ("connections_of_one_request_each_are_seen", connections_of_one_request_each_are_seen),
    ("a_long_reply_is_followed_to_its_end", a_long_reply_is_followed_to_its_end),
    ("pipelined_requests_are_unmatched", pipelined_requests_are_unmatched),
    ("a_flood_beside_it_loses_nothing", a_flood_beside_it_loses_nothing),
    ("a_competitor_is_named", a_competitor_is_named),
    ("observer_is_not_a_cause", found::observer_is_not_a_cause),
    ("observer_leaves_the_servers_cpu", found::observer_leaves_the_servers_cpu),
    ("a_stopped_server_is_named", found::a_stopped_server_is_named),
    ("a_reply_in_two_writes_is_recognised", found::a_reply_in_two_writes_is_recognised),
    ("a_proxy_has_a_table_for_each_role", found::a_proxy_has_a_table_for_each_role),
    ("every_datagram_that_overlaps_is_counted_once", found::every_datagram_that_overlaps_is_counted_once),
    ("reports_transactions_right_after_a_handshake", found::reports_transactions_right_after_a_handshake),
    ("the_error_queue_is_no_reply", mistaken::the_error_queue_is_no_reply),
    ("a_datagram_over_two_devices_is_one_request", mistaken::a_datagram_over_two_devices_is_one_request),
    ("datagrams_of_one_poll_are_told_apart", mistaken::datagrams_of_one_poll_are_told_apart),
    ("a_slow_request_keeps_its_place", mistaken::a_slow_request_keeps_its_place),
    ("a_thread_that_moves_names_who_took_its_cpu", mistaken::a_thread_that_moves_names_who_took_its_cpu),
    ("a_process_is_watched_with_its_late_descendants", mistaken::a_process_is_watched_with_its_late_descendants),
    ("the_end_of_the_process_ends_the_watching", the_end_of_the_process_ends_the_watching),
    ("killed_it_leaves_no_program_attached", killed_it_leaves_no_program_attached),
    ("reports_a_missing_process", reports_a_missing_process),
    ("without_privilege_it_names_the_needed_rights", without_privilege_it_names_the_needed_rights),
    ("in_a_pid_namespace_it_watches_no_process", in_a_pid_namespace_it_watches_no_process),
];

const TESTS_OF_PAUSES: &[Listed] = &[
    ("a_packet_without_data_is_no_request", mistaken::a_packet_without_data_is_no_request),
    ("a_farewell_is_no_part_of_the_last_reply", mistaken::a_farewell_is_no_part_of_the_last_reply),
    ("a_slow_reader_is_no_nagle", mistaken::a_slow_reader_is_no_nagle),
    ("a_client_of_a_port_that_it_had_is_a_client", mistaken::a_client_of_a_port_that_it_had_is_a_client),
    ("a_bound_socket_that_speaks_first_is_a_clients", mistaken::a_bound_socket_that_speaks_first_is_a_clients),
    ("an_unasked_datagram_is_no_part_of_the_last_reply", mistaken::an_unasked_datagram_is_no_part_of_the_last_reply),
    ("a_server_on_unix_sockets_is_said_to_be_unseen", found::a_server_on_unix_sockets_is_said_to_be_unseen),
];

// ---- servers of the test's own, and the other roles: each a process
// ----------------------------------------------------------------------------

/// Bytes of a request and of a short reply.
const SIZE: usize = 64;
/// Bytes of a long reply.
const LONG: usize = 400_000;

fn play(arguments: &[&str]) -> Option<ExitCode> {
    let [role, number] = arguments else { return None };
    let number = number.parse().ok()?;
    (serve(role, number) || roles::play(role, number)).then_some(ExitCode::SUCCESS)
}

/// Serves until it is killed; false if `role` names no server.
fn serve(role: &str, port: u16) -> bool {
    match role {
        "serve-udp" => {
            let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).expect("its port");
            println!("ready");
            let mut bytes = [0; 2048];
            while let Ok((got, from)) = socket.recv_from(&mut bytes) {
                let _ = socket.send_to(&bytes[..got], from);
            }
        }
        "serve-tcp" | "serve-once" | "serve-long" => {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).expect("its port");
            println!("ready");
            let reply = vec![7; if role == "serve-long" { LONG } else { SIZE }];
            while let Ok((mut stream, _)) = listener.accept() {
                stream.set_nodelay(true).expect("nodelay");
                let mut bytes = [0; SIZE];
                while stream.read_exact(&mut bytes).and_then(|()| stream.write_all(&reply)).is_ok() && role != "serve-once" {}
            }
        }
        "ask" => {
            println!("ready");
            let mut stream = connect(port);
            loop {
                one(&mut stream, &[1; SIZE], |reply: &[u8]| reply.len() == SIZE);
                thread::sleep(Duration::from_micros(200));
            }
        }
        "compete" => {
            // The causes must name it; the port stands for the CPU.
            let spin = move || {
                pin(port.into()).expect("its CPU");
                println!("ready");
                loop {
                    std::hint::spin_loop();
                }
            };
            let start = || thread::Builder::new().name("competitor".into()).spawn(spin).expect("a thread");
            [start(), start()].into_iter().for_each(|thread| drop(thread.join()));
        }
        _ => return false,
    }
    true
}

/// This program in another role, ready.
fn other(home: &Home, role: &str, number: u16) -> Running {
    let mut command = home.command(env::current_exe().expect("this program").to_str().expect("a plain path"));
    command.args(["play", role, &number.to_string()]);
    let mut other = home.spawn(command);
    other.until("ready");
    other
}

// ---- the client --------------------------------------------------------------------------------------------------------

/// RTTs of a client that waits for each reply, in ns.
struct Rtts(Vec<u64>);

impl Rtts {
    fn p50(&self) -> u64 {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        sorted[sorted.len() / 2]
    }
}

/// One connection for `lasts`; a reply ends where `over` is true of its bytes.
fn ask(port: u16, request: &[u8], lasts: Duration, over: impl Fn(&[u8]) -> bool) -> Rtts {
    let mut stream = connect(port);
    let begun = Instant::now();
    let mut rtts = Vec::new();
    while begun.elapsed() < lasts {
        rtts.push(one(&mut stream, request, &over));
    }
    Rtts(rtts)
}

fn connect(port: u16) -> TcpStream {
    let begun = Instant::now();
    loop {
        match TcpStream::connect((Ipv4Addr::LOCALHOST, port)) {
            Ok(stream) => {
                stream.set_nodelay(true).expect("nodelay");
                stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a time limit");
                return stream;
            }
            Err(error) if error.kind() == ErrorKind::ConnectionRefused && begun.elapsed() < Duration::from_secs(20) => {
                thread::sleep(Duration::from_millis(10));
            }
            Err(error) => panic!("port {port}: {error}"),
        }
    }
}

/// A round trip: the send call entered to the last byte of the reply in the buffer.
fn one(stream: &mut TcpStream, request: &[u8], over: impl Fn(&[u8]) -> bool) -> u64 {
    let mut bytes = vec![0; 1 << 19];
    let mut got = 0;
    let begun = Instant::now();
    stream.write_all(request).expect("sent");
    while !over(&bytes[..got]) {
        match stream.read(&mut bytes[got..]).expect("a reply") {
            0 => panic!("the server closed the connection after {got} bytes"),
            more => got += more,
        }
    }
    begun.elapsed().as_nanos() as u64
}

// ---- watching ----------------------------------------------------------------------------------------------------------

fn hooks(name: &str) -> bool {
    can(name, root(), "BPF programs need root")
}

/// `hairpin explain` with its hooks in place.
fn watch(home: &Home, args: &str) -> Running {
    let mut explain = home.start(&format!("explain {args} --duration 60s --json"));
    explain.until("Ctrl-C ends it");
    explain
}

/// Ends it as Ctrl-C does, and returns its record.
fn seen(explain: Running) -> Value {
    explain.signal("INT");
    let done = explain.done();
    assert_eq!(done.code, Some(0), "{done:?}");
    let record = done.json();
    assert_eq!((&record["schema"], &record["interrupted"]), (&"hairpin.explain-attached/1".into(), &true.into()));
    adds_up(&record);
    record
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("no number: {value}"))
}

/// The stages of every transaction add up to its time, and their shares to the whole.
fn adds_up(record: &Value) {
    let totals = record["totals"].as_array().expect("totals");
    assert_eq!(totals.is_empty(), number(&record["transactions"]) == 0, "{record}");
    for total in totals {
        let share: f64 =
            total["stages"].as_array().expect("stages").iter().map(|stage| stage["share"].as_f64().expect("a share")).sum();
        assert!((share - 1.0).abs() < 1e-6, "{share}");
    }
    for slow in record["slowest"].as_array().expect("slowest") {
        let sum: u64 = slow["stages"].as_array().expect("stages").iter().map(|stage| number(&stage["ns"])).sum();
        assert_eq!(sum, number(&slow["sum_ns"]));
    }
    assert_eq!((&record["lost"], &record["untracked"], &record["missing"]), (&0.into(), &0.into(), &Value::Array(Vec::new())));
}

/// Asserts that all of the client's transactions were seen, except a few with events that met on two cores.
#[track_caller]
fn complete(record: &Value, count: usize) {
    let (transactions, unmatched) = (number(&record["transactions"]), number(&record["unmatched"]));
    assert!(unmatched <= count as u64 / 500, "{unmatched} of {count} not matched: {}", record["unmatched_by"]);
    // A message that two CPUs tore apart counts once more.
    let few = count as u64 / 500;
    assert!((transactions + unmatched).abs_diff(count as u64) <= few, "{transactions} and {unmatched} of {count}");
}

/// The record of a load for which the p50 of the sum lies within `share` of the client's own; the hooks are
/// in both. If the host changed its speed in the middle of the load, the medians lie somewhere in the gap
/// between two; then the load is repeated.
#[track_caller]
fn beside_its_client(home: &Home, watched: &str, share: f64, load: impl Fn() -> Rtts) -> Value {
    let mut seen_of_all = Vec::new();
    for _ in 0..3 {
        let explain = watch(home, watched);
        let rtts = load();
        let record = seen(explain);
        complete(&record, rtts.0.len());
        let total = &record["totals"][0];
        assert_eq!(total["view"], "both", "{watched}");
        let (sum, rtt) = (number(&total["sum_ns"]["p50"]), rtts.p50());
        println!("attached: {watched}: p50 of the sum {sum} ns, of the client's RTT {rtt} ns, {} transactions", rtts.0.len());
        if (sum as f64 / rtt as f64 - 1.0).abs() <= share {
            return record;
        }
        seen_of_all.push((sum, rtt));
    }
    panic!("{watched}: p50 of the sum, of the RTT: {seen_of_all:?} ns are never within {share}");
}

/// The stages of a side, in order.
fn stages<'a>(record: &'a Value, side: &str) -> Vec<&'a str> {
    let stages = record["totals"][0]["stages"].as_array().expect("stages").iter();
    stages.filter(|stage| stage["side"] == side).map(|stage| stage["name"].as_str().expect("a name")).collect()
}

/// Long enough for slow ones and their causes.
const LOAD: Duration = Duration::from_millis(1500);
/// Long enough for a median.
const FEW: Duration = Duration::from_millis(500);

fn redis_within_10_percent_of_its_client(name: &str) -> bool {
    if !hooks(name) || !can(name, servers::redis_program().is_some(), "neither redis-server nor redis-tools is installed") {
        return false;
    }
    let home = Home::new();
    let port = free_port();
    let redis = servers::redis(&home, port);
    let over = |reply: &[u8]| reply.ends_with(b"\r\n");
    for watched in [format!("--port {port}"), format!("--pid {}", redis.pid())] {
        let record = beside_its_client(&home, &watched, 0.10, || ask(port, b"INCR n\r\n", FEW, over));
        let server = stages(&record, "server");
        for stage in ["stack", "wake-up + run queue", "receive", "application", "stack out", "qdisc"] {
            assert!(server.contains(&stage), "no {stage}: {server:?}");
        }
        let connection = &record["connections"][0];
        assert_eq!((&connection["server_process"]["pid"], &connection["protocol"]), (&redis.pid().into(), &"tcp".into()));
        assert_eq!(connection["server"], format!("127.0.0.1:{port}"));
        if watched.starts_with("--pid") {
            assert_eq!(
                (&record["watched"]["comm"], &record["watched"]["roles"]),
                (&"redis-server".into(), &Value::from(vec!["server"]))
            );
            assert_eq!(record["watched"]["serves"], Value::from(vec![port]));
        }
    }
    true
}

/// The record of `explain --echo`: the stages of both sides and the client's figures, in one command, of the same transactions.
fn asked_and_watched(home: &Home, asking: &str) -> Value {
    let times = |record: &Value| (number(&record["totals"][0]["sum_ns"]["p50"]), number(&record["client"]["rtt_ns"]["p50"]));
    // Where wake-ups have two speeds, one p50 may be of the fast ones and the other of the slow; then it is measured again.
    let is_near = |record: &Value| matches!(times(record), (sum, rtt) if sum < rtt && sum * 10 > rtt * 7);
    let measured = || home.json(asking);
    let record = (0..2).map(|_| measured()).find(is_near).unwrap_or_else(measured);
    adds_up(&record);
    assert_eq!(record["schema"], "hairpin.explain-attached/1");
    let replies = number(&record["client"]["own_request"]["replies"]);
    let seen = number(&record["transactions"]);
    assert!(seen <= replies && seen * 100 >= replies * 95, "{seen} of {replies}");
    assert_eq!(record["totals"][0]["view"], "both");
    assert!(is_near(&record), "the stages from send to read, and the RTT: {:?} ns", times(&record));
    record
}

fn redis_is_watched_while_it_is_asked(name: &str) -> bool {
    if !hooks(name) || !can(name, servers::redis_program().is_some(), "neither redis-server nor redis-tools is installed") {
        return false;
    }
    let home = Home::new();
    let port = free_port();
    let redis = servers::redis(&home, port);
    let at = format!("explain --echo 127.0.0.1:{port} --request redis-ping --duration 600ms --warmup 50ms");
    let record = asked_and_watched(&home, &at);
    assert_eq!(record["connections"][0]["server_process"]["pid"], redis.pid());
    let shown = home.hairpin(&at);
    assert!(shown.out.contains("the client: tcp") && shown.out.contains("redis-ping, until resp"), "{shown:?}");
    home.hairpin(&format!("{at} --light")).fails(2, &["--light cannot be used with --request"]);
    true
}

fn nginx_is_watched_while_it_is_asked(name: &str) -> bool {
    if !hooks(name) || !can(name, servers::program("nginx").is_some(), "nginx is not here") {
        return false;
    }
    let home = Home::new();
    let port = free_port();
    let nginx = servers::nginx(&home, port, "");
    let at = format!("explain echo:127.0.0.1:{port} --request http-get --duration 600ms --warmup 50ms --no-store");
    let record = asked_and_watched(&home, &at);
    let process = &record["connections"][0]["server_process"];
    assert!(process["comm"] == "nginx" && process["pid"] != nginx.pid(), "its worker answers, not its master: {process}");
    assert_eq!(record["client"]["own_request"]["first_reply"], "HTTP/1.1 200 OK");
    true
}

fn memcached_is_watched_while_it_is_asked(name: &str) -> bool {
    if !hooks(name) || !can(name, servers::has_memcached(), "memcached is not here, or lacks a library") {
        return false;
    }
    let home = Home::new();
    let port = free_port();
    let memcached = servers::memcached(&home, port);
    let at = format!("explain echo:127.0.0.1:{port} --request memcached-version --duration 600ms --warmup 50ms --no-store");
    let record = asked_and_watched(&home, &at);
    assert_eq!(record["connections"][0]["server_process"]["pid"], memcached.pid(), "one of its threads");
    let own = &record["client"]["own_request"];
    assert!(own["first_reply"].as_str().is_some_and(|first| first.starts_with("VERSION ")), "{own}");
    true
}

/// As a container's does, its address belongs to no interface of the namespace from which it is asked.
fn a_server_in_another_namespace_is_watched_while_it_is_asked(name: &str) -> bool {
    if !hooks(name) || !can(name, namespaces(), "it takes namespaces") {
        return false;
    }
    let (one, other) = (Net::new(), Net::new());
    joined(&one, &other);
    other.enter();
    let listener = TcpListener::bind((Ipv4Addr::new(10, 77, 0, 2), 0)).expect("a port");
    let port = listener.local_addr().expect("its address").port();
    one.enter();
    thread::spawn(move || listener.incoming().flatten().for_each(servers::faulty::<TcpStream>(usize::MAX, 0, "", false)));
    let home = Home::new();
    let ask = |host: &str| {
        format!(r"explain --echo {host}:{port} --request text:a\n --until \n --duration 600ms --warmup 50ms --no-store")
    };
    let record = asked_and_watched(&home, &ask("10.77.0.2"));
    assert_eq!(record["connections"][0]["server"], format!("10.77.0.2:{port}"));
    assert_eq!(record["connections"][0]["server_process"]["pid"], std::process::id());
    // To one host there is no way, and the other one does not answer.
    for nobody in ["192.0.2.1", "10.77.0.3"] {
        home.hairpin(&ask(nobody)).fails(2, &[&format!("{nobody}:{port} is not on this host")]);
    }
    true
}

fn a_server_that_misbehaves_is_told_beside_what_was_seen(name: &str) -> bool {
    if !hooks(name) {
        return false;
    }
    let home = Home::new();
    let port = servers::service(servers::faulty::<TcpStream>(0, 40, "part", true));
    let done = home.hairpin(&format!(
        r"explain echo:127.0.0.1:{port} --request text:a\n --until \n --duration 9s --warmup 0s --no-store --json"
    ));
    servers::tells_once(&done, "the server closed the connection (4 bytes into a reply, after 40 whole ones)");
    let record = done.json();
    adds_up(&record);
    let (asked, seen) = (number(&record["client"]["transactions"]), number(&record["transactions"]));
    assert!(asked > 20 && (21..=41).contains(&seen), "{asked} asked, {seen} seen: {}", record["unmatched_by"]);
    assert!(record["error"].as_str().is_some_and(|error| error.contains("after 40 whole ones")), "{}", record["error"]);
    true
}

fn nginx_within_10_percent_of_its_client(name: &str) -> bool {
    if !hooks(name) || !can(name, servers::program("nginx").is_some(), "nginx is not here") {
        return false;
    }
    let home = Home::new();
    let port = free_port();
    let nginx = servers::nginx(&home, port, "");
    for watched in [format!("--port {port}"), format!("--pid {}", nginx.pid())] {
        let request = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
        beside_its_client(&home, &watched, 0.10, || ask(port, request, FEW, |reply: &[u8]| reply.ends_with(b"pong\n")));
    }
    true
}

/// `count` datagrams there and back.
fn exchange(port: u16, count: usize) -> Rtts {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
    socket.set_read_timeout(Some(Duration::from_secs(20))).expect("a time limit");
    socket.connect((Ipv4Addr::LOCALHOST, port)).expect("connected");
    let mut bytes = [0; SIZE];
    let round_trip = |_| {
        let begun = Instant::now();
        socket.send(&[1; SIZE]).expect("sent");
        assert_eq!(socket.recv(&mut bytes).expect("a reply"), SIZE);
        begun.elapsed().as_nanos() as u64
    };
    Rtts((0..count).map(round_trip).collect())
}

fn datagrams_are_transactions_too(name: &str) -> bool {
    if !hooks(name) {
        return false;
    }
    let home = Home::new();
    let port = free_port();
    let server = other(&home, "serve-udp", port);
    // A datagram's way from the send call to the device's queue has no hook.
    let record = beside_its_client(&home, &format!("--port {port}"), 0.20, || exchange(port, 20_000));
    assert_eq!(record["connections"][0]["protocol"], "udp");
    assert_eq!(stages(&record, "client")[0], "qdisc", "a datagram's first hook is the device's queue");
    // Several peers at once: only their order in the socket tells whose datagram a receive call takes. The order of two that two
    // CPUs put there at the same moment is unknown, and a busy host has more of these.
    let mut told = Vec::new();
    for _ in 0..3 {
        let explain = watch(&home, &format!("--port {port}"));
        thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(|| exchange(port, 2_000)))));
        let record = seen(explain);
        let (transactions, unmatched) = (number(&record["transactions"]), number(&record["unmatched"]));
        assert!(transactions <= 8_000 && transactions + unmatched >= 8_000, "{transactions} and {}", record["unmatched_by"]);
        assert_eq!(record["connections"].as_array().expect("connections").len(), 4);
        told.push(unmatched);
        if unmatched <= 400 {
            break;
        }
    }
    assert!(told.iter().any(|unmatched| *unmatched <= 400), "{told:?} of 8000");
    // With --pid, the socket is learned from the first receive call, so one transaction is missing.
    let explain = watch(&home, &format!("--pid {}", server.pid()));
    exchange(port, 2_000);
    let record = seen(explain);
    assert_eq!((number(&record["transactions"]), &record["watched"]["roles"]), (1_999, &Value::from(vec!["server"])));
    true
}

fn a_client_is_watched_by_its_process(name: &str) -> bool {
    if !hooks(name) {
        return false;
    }
    let home = Home::new();
    let port = free_port();
    let _server = other(&home, "serve-tcp", port);
    let client = other(&home, "ask", port);
    let watched_for = |pid: u32| {
        let explain = watch(&home, &format!("--pid {pid}"));
        thread::sleep(FEW);
        seen(explain)
    };
    let record = watched_for(client.pid());
    // The first one was under way when the hooks came.
    let (transactions, unmatched) = (number(&record["transactions"]), number(&record["unmatched"]));
    assert!(transactions > 100 && unmatched <= 1 + transactions / 500, "{transactions} and {}", record["unmatched_by"]);
    assert_eq!(record["watched"]["roles"], Value::from(vec!["client"]));
    assert_eq!(record["connections"][0]["client_process"]["pid"], client.pid());
    // This process started both.
    assert_eq!(watched_for(std::process::id())["watched"]["roles"], Value::from(vec!["client", "server"]));
    true
}

/// More than the table holds at a time.
const CONNECTIONS: usize = 6_000;

fn connections_of_one_request_each_are_seen(name: &str) -> bool {
    if !hooks(name) {
        return false;
    }
    let home = Home::new();
    let port = free_port();
    let _server = other(&home, "serve-once", port);
    let explain = watch(&home, &format!("--port {port}"));
    let mut clients = HashSet::new();
    for _ in 0..CONNECTIONS {
        let mut stream = connect(port);
        clients.insert(stream.local_addr().expect("an address"));
        one(&mut stream, &[1; SIZE], |reply: &[u8]| reply.len() == SIZE);
    }
    let record = seen(explain);
    complete(&record, CONNECTIONS);
    let connections = number(&record["other_connections"]) + record["connections"].as_array().expect("connections").len() as u64;
    // Some transactions are not matched, as in `complete`.
    let few = CONNECTIONS as u64 / 250;
    assert!(connections.abs_diff(clients.len() as u64) <= few, "{connections} of {}", clients.len());
    true
}

fn a_long_reply_is_followed_to_its_end(name: &str) -> bool {
    if !hooks(name) {
        return false;
    }
    let home = Home::new();
    let port = free_port();
    let _server = other(&home, "serve-long", port);
    let load = || ask(port, &[1; SIZE], FEW, |reply: &[u8]| reply.len() == LONG);
    let record = beside_its_client(&home, &format!("--port {port}"), 0.10, load);
    assert_eq!(stages(&record, "client").last(), Some(&"reply rest"));
    true
}

fn pipelined_requests_are_unmatched(name: &str) -> bool {
    if !hooks(name) {
        return false;
    }
    let home = Home::new();
    let port = free_port();
    let _server = other(&home, "serve-tcp", port);
    let explain = watch(&home, &format!("--port {port}"));
    let mut stream = connect(port);
    for _ in 0..300 {
        // The server reads and answers one of the two, while the other lies in its socket.
        one(&mut stream, &[1; 2 * SIZE], |reply: &[u8]| reply.len() == 2 * SIZE);
    }
    for _ in 0..200 {
        one(&mut stream, &[1; SIZE], |reply: &[u8]| reply.len() == SIZE);
    }
    let record = seen(explain);
    assert_eq!((number(&record["transactions"]), number(&record["unmatched"])), (200, 300));
    assert_eq!(record["unmatched_by"]["pipelined"], 300);
    assert!(record["warnings"][0]["code"] == "unmatched", "{}", record["warnings"]);
    true
}

fn a_flood_beside_it_loses_nothing(name: &str) -> bool {
    if !hooks(name) {
        return false;
    }
    let home = Home::new();
    let port = free_port();
    let _server = other(&home, "serve-udp", port);
    let explain = watch(&home, &format!("--port {port}"));
    let over = AtomicBool::new(false);
    let rtts = thread::scope(|scope| {
        // One socket has no reader, the other address has no socket.
        let full = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
        let to = [full.local_addr().expect("its address"), (Ipv4Addr::LOCALHOST, free_port()).into()];
        let over = &over;
        let flood = scope.spawn(move || {
            let mut sent = 0_u64;
            while !over.load(Ordering::Relaxed) {
                // A port of its own each time, as a crowd of clients would have.
                let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
                sent += (0..64).filter(|n| socket.send_to(&[0; 200], to[n % 2]).is_ok()).count() as u64;
            }
            sent
        });
        let rtts = exchange(port, 5_000);
        over.store(true, Ordering::Relaxed);
        let sent = flood.join().expect("the flood");
        assert!(sent > 5_000, "{sent} datagrams are no flood");
        rtts
    });
    complete(&seen(explain), rtts.0.len());
    true
}

fn a_competitor_is_named(name: &str) -> bool {
    let cpus = allowed_cpus().expect("CPUs");
    if !hooks(name) || !can(name, cpus.len() >= 2, "whatever else runs here needs another CPU") {
        return false;
    }
    let home = Home::new();
    let port = free_port();
    let server = other(&home, "serve-tcp", port);
    let taskset =
        Command::new("taskset").args(["-pc", &cpus[1].to_string(), &server.pid().to_string()]).output().expect("taskset");
    assert!(taskset.status.success(), "{taskset:?}");
    let _competitor = other(&home, "compete", cpus[1] as u16);
    let explain = watch(&home, &format!("--port {port}"));
    // On the same CPU, off which the scheduler then keeps other work.
    let client = thread::spawn(move || {
        pin(cpus[1]).expect("its CPU");
        ask(port, &[1; SIZE], LOAD, |reply: &[u8]| reply.len() == SIZE)
    });
    client.join().expect("the client");
    let record = seen(explain);
    let causes = record["causes"].as_array().expect("causes");
    let lost = |cause: &Value| number(&cause["lost_ns"]);
    let named = |cause: &&Value| cause["who"].as_str().is_some_and(|who| who.starts_with("competitor ("));
    let (all, its): (u64, u64) = (causes.iter().map(lost).sum(), causes.iter().filter(named).map(lost).sum());
    println!("{name}: {its} ns of {all} ns above {} are put down to the competitor", record["slow_above"]);
    // Other processes of this machine take their part, and are named too.
    assert!(causes.first().is_some_and(|first| named(&first)), "{causes:?}");
    assert!(all > 0 && its * 2 >= all, "{causes:?}");
    true
}

fn the_end_of_the_process_ends_the_watching(name: &str) -> bool {
    if !hooks(name) {
        return false;
    }
    let home = Home::new();
    let port = free_port();
    let mut server = other(&home, "serve-tcp", port);
    let explain = watch(&home, &format!("--pid {}", server.pid()));
    let rtts = ask(port, &[1; SIZE], LOAD / 5, |reply: &[u8]| reply.len() == SIZE);
    server.kill();
    let done: Done = explain.done();
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(done.took < Duration::from_secs(30), "{:?}", done.took);
    let record = done.json();
    complete(&record, rtts.0.len());
    assert!(record["error"].as_str().expect("why").contains("ended after"), "{}", record["error"]);
    assert_eq!(record["interrupted"], false);
    true
}

fn killed_it_leaves_no_program_attached(name: &str) -> bool {
    if !hooks(name) {
        return false;
    }
    let home = Home::new();
    // Other programs of this host may come and go meanwhile: try again.
    let nothing_is_left = |_| {
        let before = tracing_links();
        let mut explain = watch(&home, "--port 9");
        let meanwhile = tracing_links();
        explain.kill();
        let killed = Instant::now();
        // Links go when the kernel has taken the process apart.
        while tracing_links() > before && killed.elapsed() < Duration::from_secs(5) {
            thread::sleep(Duration::from_millis(10));
        }
        meanwhile >= before + 8 && tracing_links() == before
    };
    assert!((0..5).any(nothing_is_left), "{} programs are on tracepoints", tracing_links());
    true
}

fn reports_a_missing_process(name: &str) -> bool {
    if !hooks(name) {
        return false;
    }
    let home = Home::new();
    // Above the kernel's largest number.
    home.hairpin("explain --pid 2147483647").fails(2, &["there is no process 2147483647"]);
    let port = free_port();
    let done = home.hairpin(&format!("explain --port {port} --for 200ms"));
    done.fails(1, &[&format!("no message of port {port} was seen within"), "no server listens there"]);
    assert!(done.out.contains("no transaction"), "{}", done.out);
    let server = other(&home, "serve-tcp", port);
    let done = home.hairpin(&format!("explain --pid {} --duration 200ms", server.pid()));
    done.fails(1, &[&format!("no message of process {} was seen within", server.pid())]);
    assert!(!done.err.contains("no server listens"), "{}", done.err);
    for args in [
        "--port 80 --pid 1",
        "--port 0",
        "--pid 1 --link veth",
        "--port 80 --path udp",
        "--port 80 --duration 0s",
        "--port 80 --for 1s --duration 1s",
    ] {
        assert_eq!(home.hairpin(&format!("explain {args}")).code, Some(2), "{args}");
    }
    true
}

fn without_privilege_it_names_the_needed_rights(name: &str) -> bool {
    if !can(name, root(), "only root can become the user nobody") {
        return false;
    }
    assert!(PathBuf::from(HAIRPIN).is_file());
    let home = home_of_nobody();
    home.as_nobody("explain --port 9 --duration 1s").fails(4, &["CAP_BPF and CAP_PERFMON", "run as root"]);
    let namespace = std::fs::read_link("/proc/self/ns/pid").expect("/proc/self/ns/pid");
    let why = match namespace.to_str() {
        Some("pid:[4026531836]") => "the sockets of process 1 are hidden from this user",
        _ => "in a PID namespace of its own",
    };
    home.as_nobody("explain --pid 1 --duration 1s").fails(4, &[why]);
    true
}

fn in_a_pid_namespace_it_watches_no_process(name: &str) -> bool {
    if !hooks(name) {
        return false;
    }
    let home = Home::new();
    let mut command = home.command("unshare");
    command.args(["--pid", "--fork", "--mount-proc", HAIRPIN, "explain", "--pid", "1", "--duration", "1s"]);
    home.spawn(command).done().fails(4, &["in a PID namespace of its own", "--pid host"]);
    // Of the host, which that namespace does not have.
    let mut command = home.command("unshare");
    let pid = std::process::id().to_string();
    command.args(["--pid", "--fork", "--mount-proc", HAIRPIN, "explain", "--pid", &pid, "--duration", "1s"]);
    home.spawn(command).done().fails(4, &["in a PID namespace of its own", "give the number there"]);
    true
}
