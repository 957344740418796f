//! Findings for servers with a real fault: a stop, parts that wait for each other, an observer in the way.

use std::env;
use std::hash::{BuildHasher, RandomState};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, UdpSocket};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

use hairpin_sys::thread::allowed_cpus;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::roles::unix_address;
use super::{FEW, LOAD, SIZE, ask, complete, connect, hooks, number, one, other, seen, watch};
use crate::support::{HAIRPIN, Home, LIMIT, Running, can, free_port};

pub fn whole(reply: &[u8]) -> bool {
    reply.len() == SIZE
}

/// Ends `explain` as Ctrl-C does; returns the text that a user reads, in one line.
fn told(explain: Running) -> String {
    explain.signal("INT");
    let done = explain.done();
    assert_eq!(done.code, Some(0), "{done:?}");
    done.out.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_else(|| panic!("no {field}: {value}"))
}

fn list<'a>(record: &'a Value, field: &str) -> &'a Vec<Value> {
    record[field].as_array().unwrap_or_else(|| panic!("no {field}"))
}

/// This program in another role, on a CPU, and before all ordinary threads of this host.
pub fn other_first(home: &Home, role: &str, port: u16, cpu: u32) -> Running {
    let itself = env::current_exe().expect("this program");
    let mut command = home.command("chrt");
    command.args([
        "-f",
        "40",
        "taskset",
        "-c",
        &cpu.to_string(),
        itself.to_str().expect("a plain path"),
        "play",
        role,
        &port.to_string(),
    ]);
    let mut other = home.spawn(command);
    other.until("ready");
    other
}

/// The observer goes before client and server, and these before all others, on the server's CPU, each time that it takes records
/// out of the kernel.
pub fn observer_is_not_a_cause(name: &str) -> bool {
    let cpus = allowed_cpus().expect("CPUs");
    if !hooks(name) || !can(name, cpus.len() >= 2, "the client needs another CPU") {
        return false;
    }
    let home = Home::new();
    let mut seen_of_all = Vec::new();
    for _ in 0..4 {
        let port = free_port();
        let _server = other_first(&home, "serve-tcp", port, cpus[1]);
        let mut command = home.command("chrt");
        command.args(["-f", "50", "taskset", "-c", &cpus[1].to_string(), HAIRPIN, "explain", "--duration", "60s", "--json"]);
        command.args(["--port", &port.to_string()]);
        let mut explain = home.spawn(command);
        explain.until("Ctrl-C ends it");
        let pid = explain.pid();
        let client = other_first(&home, "ask", port, cpus[0]);
        thread::sleep(LOAD);
        drop(client);
        let record = seen(explain);
        let who = |rows: &str| list(&record, rows).iter().map(|row| text(row, "who").to_owned()).collect::<Vec<_>>();
        for named in [who("causes"), who("slowest")].concat() {
            assert!(!named.ends_with(&format!("({pid})")), "the observer is named: {named}");
        }
        let (slow, observer) = (number(&record["slow"]), number(&record["slow_observer"]));
        let rest: u64 = list(&record, "causes").iter().map(|cause| number(&cause["count"])).sum();
        assert_eq!(rest + observer, slow, "each slow one is in a cause, or the observer's");
        println!("{name}: {observer} of {slow} slow ones are the observer's");
        if observer > 0 {
            return true;
        }
        seen_of_all.push((slow, observer));
    }
    panic!("the observer had the server's CPU, and was not seen: {seen_of_all:?}");
}

/// The CPUs that a thread of this process may use.
fn allowed(pid: u32) -> String {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap_or_default().trim().to_owned()
}

pub fn observer_leaves_the_servers_cpu(name: &str) -> bool {
    let cpus = allowed_cpus().expect("CPUs");
    if !hooks(name) || !can(name, cpus.len() >= 2, "the observer needs another CPU") {
        return false;
    }
    let home = Home::new();
    let port = free_port();
    let last = cpus[cpus.len() - 1];
    let _server = other_first(&home, "serve-tcp", port, last);
    let explain = watch(&home, &format!("--port {port}"));
    let before = allowed(explain.pid());
    let client = other_first(&home, "ask", port, cpus[0]);
    let begun = Instant::now();
    let moved = loop {
        let now = allowed(explain.pid());
        if now != before {
            break now;
        }
        assert!(begun.elapsed() < LIMIT, "it stays on {before}");
        thread::sleep(Duration::from_millis(10));
    };
    drop(client);
    seen(explain);
    let ends = moved.split([',', '-']).map(|cpu| cpu.parse::<u32>().expect("a CPU")).collect::<Vec<_>>();
    assert!(ends.iter().all(|cpu| *cpu < last), "the server's is {last}, the observer's are {moved}");
    true
}

/// Stops, at random times.
const STOPS: usize = 12;
const STOPPED: Duration = Duration::from_millis(20);

pub fn a_stopped_server_is_named(name: &str) -> bool {
    if !hooks(name) {
        return false;
    }
    // Other processes may delay the process that stops and continues it.
    let told: Vec<String> = (0..3).map_while(|_| stops_are_named(name).err()).collect();
    assert!(told.len() < 3, "{}", told.join("\n"));
    true
}

/// Stops a server at random times; the error says which stops were not named.
fn stops_are_named(name: &str) -> Result<(), String> {
    let home = Home::new();
    let port = free_port();
    let cpus = allowed_cpus().expect("CPUs");
    // No other process makes server and client wait.
    let server = other_first(&home, "serve-tcp", port, cpus[cpus.len() - 1]);
    let explain = watch(&home, &format!("--port {port}"));
    let client = other_first(&home, "ask", port, cpus[0]);
    let random = RandomState::new();
    let pid = Pid::from_raw(server.pid() as i32).expect("its number");
    for stop in 0..STOPS {
        thread::sleep(Duration::from_micros(50_000 + random.hash_one(stop) % 30_000));
        kill_process(pid, Signal::STOP).expect("stopped");
        thread::sleep(STOPPED);
        kill_process(pid, Signal::CONT).expect("going on");
    }
    thread::sleep(Duration::from_millis(50));
    drop(client);
    let record = seen(explain);
    let slowest = list(&record, "slowest");
    let long = STOPPED.as_nanos() as u64 * 9 / 10;
    let stopped = slowest.iter().filter(|slow| text(slow, "cause") == "stopped" && slow["cause_ns"].as_u64() >= Some(long));
    let stopped = stopped.count();
    println!("{name}: {stopped} of {STOPS} stops are named");
    // A stop that begins between two requests delays the next one by its length, less the client's pause.
    let caused = list(&record, "causes").iter().filter(|cause| text(cause, "cause") == "stopped");
    let caused: u64 = caused.map(|cause| number(&cause["count"])).sum();
    if stopped >= STOPS - 2 && caused >= STOPS as u64 - 2 {
        return Ok(());
    }
    Err(format!("{stopped} of {STOPS} stops are named, {caused} caused: {}", record["causes"]))
}

pub fn a_reply_in_two_writes_is_recognised(name: &str) -> bool {
    if !hooks(name) {
        return false;
    }
    let home = Home::new();
    for (role, found) in [("serve-parts", true), ("serve-parts-nodelay", false)] {
        let port = free_port();
        let _server = other(&home, role, port);
        let watched = || {
            let explain = watch(&home, &format!("--port {port}"));
            let rtts = ask(port, &[1; SIZE], FEW, whole);
            (seen(explain), rtts)
        };
        // With so few transactions, none may have events that met on two cores.
        let (mut record, mut rtts) = watched();
        for _ in 0..2 {
            if number(&record["unmatched"]) > 0 {
                (record, rtts) = watched();
            }
        }
        complete(&record, rtts.0.len());
        let findings = list(&record, "findings");
        println!("{name}: {role}: {findings:?}");
        if !found {
            assert!(findings.is_empty(), "{role}: {findings:?}");
            continue;
        }
        let finding = findings.first().unwrap_or_else(|| panic!("{role}: nothing is found, p50 {} ns", rtts.p50()));
        assert_eq!(finding["detector"], "nagle-delayed-ack");
        let words = text(finding, "seen");
        assert!(words.contains("the reply came in parts") && words.contains("held a later part back for"), "{words}");
        assert!(text(finding, "advice").contains("TCP_NODELAY"), "{finding}");
    }
    true
}

pub fn a_proxy_has_a_table_for_each_role(name: &str) -> bool {
    if !hooks(name) {
        return false;
    }
    let home = Home::new();
    let (front, back) = (free_port(), free_port());
    let _server = other(&home, "serve-tcp", back);
    let proxy = other(&home, &format!("proxy:{back}"), front);
    let mut seen_of_all = Vec::new();
    // The host may change its pace within a load: try again.
    for _ in 0..3 {
        let explain = watch(&home, &format!("--pid {}", proxy.pid()));
        // Fewer than the ring holds, however busy the host is.
        let rtts = ask(front, &[1; SIZE], LOAD / 5, whole);
        let record = seen(explain);
        assert_eq!(record["watched"]["roles"], Value::from(vec!["client", "server"]));
        let of = |role: &str| {
            let total = list(&record, "totals").iter().find(|total| total["roles"] == Value::from(vec![role]));
            let sum = &total.unwrap_or_else(|| panic!("no table of the {role}: {}", record["totals"]))["sum_ns"];
            (number(&sum["count"]), number(&sum["p50"]))
        };
        assert_eq!(list(&record, "totals").len(), 2);
        let ((served, front_p50), (asked, back_p50)) = (of("server"), of("client"));
        let few = rtts.0.len() as u64 / 100 + 2;
        assert!(
            served.abs_diff(rtts.0.len() as u64) <= few && asked.abs_diff(served) <= few,
            "{served}, {asked}, {}",
            rtts.0.len()
        );
        assert!(front_p50 > back_p50, "{front_p50} is within {back_p50}");
        if (front_p50 as f64 / rtts.p50() as f64 - 1.0).abs() <= 0.2 {
            return true;
        }
        seen_of_all.push((front_p50, rtts.p50()));
    }
    panic!("p50 of the front, of its client: {seen_of_all:?}");
}

/// Requests of one client that overlap: each is in exactly one count.
pub fn every_datagram_that_overlaps_is_counted_once(name: &str) -> bool {
    if !hooks(name) {
        return false;
    }
    let home = Home::new();
    let port = free_port();
    let _server = other(&home, "serve-udp", port);
    let explain = watch(&home, &format!("--port {port}"));
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
    socket.set_read_timeout(Some(Duration::from_secs(20))).expect("a time limit");
    socket.connect((Ipv4Addr::LOCALHOST, port)).expect("connected");
    let mut answered = 0;
    for round in 0..1_200 {
        let at_once = [1, 3, 2, 1, 1, 5][round % 6];
        for _ in 0..at_once {
            socket.send(&[1; SIZE]).expect("sent");
        }
        for _ in 0..at_once {
            assert_eq!(socket.recv(&mut [0; SIZE]).expect("a reply"), SIZE);
            answered += 1;
        }
    }
    let record = seen(explain);
    let counts = ["transactions", "unmatched", "lost", "open"].map(|of| number(&record[of]));
    println!("{name}: {counts:?} of {answered}: {}", record["unmatched_by"]);
    assert_eq!(counts.iter().sum::<u64>(), answered, "{counts:?}: {}", record["unmatched_by"]);
    // 600 of those rounds had one request, and nothing beside it.
    assert!(counts[0] >= 500 && number(&record["unmatched_by"]["pipelined"]) >= 1_500, "{counts:?}: {}", record["unmatched_by"]);
    true
}

/// A connection of TLS 1.3 with one request: its first word, and then its last word of the handshake with the request behind it.
pub fn reports_transactions_right_after_a_handshake(name: &str) -> bool {
    if !hooks(name) {
        return false;
    }
    let home = Home::new();
    let port = free_port();
    let _server = other(&home, "serve-tickets", port);
    let mut explain = home.start(&format!("explain -v --port {port} --duration 60s"));
    explain.until("Ctrl-C ends it");
    for _ in 0..100 {
        let mut stream = connect(port);
        one(&mut stream, &[1; SIZE], whole);
        one(&mut stream, &[1; 2 * SIZE], |reply: &[u8]| reply.len() == 2 * SIZE);
    }
    let text = told(explain);
    for part in [
        "100 transactions, 100 unmatched and left out (100 sent before the answer to the one before)",
        "100 of them were sent before the answer to the one before",
        "TLS, where the first request follows the client's last word of the handshake at once",
        "100 transactions on 100 connections: what a client spends on connecting and closing is outside of the sum",
    ] {
        assert!(text.contains(part), "no \"{part}\": {text}");
    }
    true
}

pub fn a_server_on_unix_sockets_is_said_to_be_unseen(name: &str) -> bool {
    if !hooks(name) {
        return false;
    }
    let home = Home::new();
    let number = free_port();
    let server = other(&home, "serve-unix", number);
    let mut stream = UnixStream::connect_addr(&unix_address(number)).expect("connected");
    // Once before, so that the server has its connection.
    stream.write_all(&[1; SIZE]).and_then(|()| stream.read_exact(&mut [0; SIZE])).expect("a reply");
    let explain = home.start(&format!("explain --pid {} --duration 300ms", server.pid()));
    for _ in 0..100 {
        stream.write_all(&[1; SIZE]).and_then(|()| stream.read_exact(&mut [0; SIZE])).expect("a reply");
        thread::sleep(Duration::from_millis(1));
    }
    explain.done().fails(1, &["no message of process", "only TCP and UDP sockets can be watched, not its 2 Unix sockets"]);
    true
}
