//! `hairpin serve` and `hairpin ping HOST`: a whole session, and every way in which one goes wrong.

#![forbid(unsafe_code)]

mod support;

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use hairpin_iopath::job::{Address, Job, LocalPort, Schedule, Sides};
use hairpin_lab::message::{Answer, Request};
use hairpin_lab::session::handshake;
use hairpin_units::Nanos;
use support::{HAIRPIN, Home, Running, can, namespaces, rows, served, warnings, workers_of};

const QUICK: &str = "--count 200 --warmup 5ms";

#[test]
fn a_session_over_loopback() {
    let home = Home::new();
    let (mut serve, address) = home.serve("");
    for _ in 0..2 {
        let run = home.json(&format!("ping {address} {QUICK} --path tcp --path udp --path tcp-crr --path udp:spin/block"));
        assert_eq!(rows(&run).len(), 4);
        for row in rows(&run) {
            assert_eq!(row["transactions"], 200);
            assert!(row["turnaround_ns"]["count"].as_u64().unwrap() >= 200 && row["cpu"]["server"].is_object(), "{row}");
        }
        assert_eq!((&run["link"]["kind"], &run["link"]["peer"]), (&"host".into(), &address.as_str().into()));
        assert!(run["hosts"]["server"]["kernel_release"].is_string(), "{}", run["hosts"]["server"]);
    }
    serve.until("session ends after 4 rows");
    serve.signal("INT");
    let done = serve.done();
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(done.err.ends_with("stopped\n"), "{done:?}");
}

#[test]
fn data_ports_are_as_asked() {
    let home = Home::new();
    let port = support::free_port();
    let (_serve, address) = home.serve(&format!("--data-ports {port}-{port}"));
    let run = home.json(&format!("ping {address} {QUICK} --path tcp --path udp"));
    assert_eq!(rows(&run).len(), 2);
}

/// A network namespace held by one process of ours.
struct Namespace(Running);

impl Namespace {
    fn new(home: &Home) -> Namespace {
        let mut command = home.command("unshare");
        // With a sysfs that shows its devices.
        command.args(["--net", "--mount", "sh", "-c", "mount -t sysfs sysfs /sys && echo ready; exec sleep 120"]);
        let mut held = home.spawn(command);
        held.until("ready");
        Namespace(held)
    }

    /// A command that will run in it.
    fn enter(&self, home: &Home) -> Command {
        let mut command = home.command("nsenter");
        command.args(["--net", "--mount", "--wd=.", "--target", &self.0.pid().to_string(), "sh", "-c"]);
        command
    }

    fn sh(&self, home: &Home, script: &str) {
        let mut command = self.enter(home);
        command.arg(script);
        let done = home.spawn(command).done();
        assert_eq!(done.code, Some(0), "{script}: {done:?}");
    }
}

#[test]
fn two_hosts_and_the_command_that_serve_prints() {
    let name = "two_hosts_and_the_command_that_serve_prints";
    if !can(name, namespaces(), "network namespaces need root here") {
        return;
    }
    let home = Home::new();
    let (server, client) = (Namespace::new(&home), Namespace::new(&home));
    server.sh(
        &home,
        &format!(
            "ip link set lo up; ip link add left type veth peer name right netns {} && ip address add 198.18.9.1/24 dev left && ip link set left up",
            client.0.pid()
        ),
    );
    client.sh(&home, "ip link set lo up; ip address add 198.18.9.2/24 dev right && ip link set right up");

    let mut command = server.enter(&home);
    command.arg(format!("exec {HAIRPIN} serve --listen 198.18.9.1"));
    let mut serve = home.spawn(command);
    serve.until("Ctrl-C ends it");
    assert_eq!(served(&serve.err()), "198.18.9.1:24444");
    let printed = serve.out();
    assert!(printed.contains("hairpin ping 198.18.9.1 --key-file hairpin.key"), "{printed}");

    // As printed, in a shell, but for the time it takes.
    let bin = Path::new(HAIRPIN).parent().unwrap().to_str().unwrap();
    let mut command = client.enter(&home);
    command.arg(format!("PATH={bin}:$PATH; {} {QUICK} --json", printed.trim_end()));
    let done = home.spawn(command).done();
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(!done.err.contains("can be read by others"), "{}", done.err);
    let run = done.json();
    assert_eq!(rows(&run).len(), 2, "tcp and udp: {run}");
    assert_eq!((&run["link"]["interface"], &run["hosts"]["server"]["interface"]), (&"right".into(), &"left".into()));
    assert!(!run.to_string().contains(printed.split_whitespace().nth(4).unwrap()), "the key is in the record");

    fs::write(home.file("other.key"), "3".repeat(64)).unwrap();
    for (arguments, said, logged) in
        [("--key-file other.key", "wrong key", "refused: wrong key"), ("", "needs a key", "refused: came without a key")]
    {
        let mut command = client.enter(&home);
        command.arg(format!("exec {HAIRPIN} ping 198.18.9.1 {arguments}"));
        home.spawn(command).done().fails(1, &[said]);
        serve.until(logged);
    }
}

#[test]
fn a_second_session_is_refused_with_the_time_left() {
    let home = Home::new();
    let (mut serve, address) = home.serve("");
    let first = home.start(&format!("ping {address} --path udp --duration 30s --warmup 1ms"));
    serve.until("session begins");
    // The plan, with its duration, comes just after.
    sleep(Duration::from_millis(500));
    let done = home.hairpin(&format!("ping {address} {QUICK}"));
    done.fails(1, &["is busy with another session for ", " s more"]);
    let left = done.err.split("session for ").nth(1).unwrap().split(' ').next().unwrap().parse::<u64>().unwrap();
    assert!((20..=30).contains(&left), "{}", done.err);
    serve.until("another session is measuring");

    first.signal("INT");
    let done = first.done();
    assert_eq!(done.code, Some(0), "{done:?}");
    eventually_serves(&home, &address);
}

/// Serves again, within seconds.
fn eventually_serves(home: &Home, address: &str) {
    let begun = Instant::now();
    loop {
        let done = home.hairpin(&format!("ping {address} {QUICK} --path udp"));
        if done.code == Some(0) {
            return;
        }
        assert!(begun.elapsed() < Duration::from_secs(10), "{done:?}");
        sleep(Duration::from_millis(100));
    }
}

#[test]
fn a_server_killed_in_mid_run_leaves_what_was_measured() {
    let home = Home::new();
    for (spec, size) in [("udp:block", 64), ("tcp:spin", 64), ("tcp-crr", 64), ("udp:block", 8)] {
        let (mut serve, address) = home.serve("");
        let ping = home.start(&format!("ping {address} --path {spec} --size {size} --forever --warmup 1ms --timeout 2s --json"));
        serve.until("session begins");
        sleep(Duration::from_millis(1000));
        let killed = Instant::now();
        serve.kill();
        let done = ping.done();
        let took = killed.elapsed();
        assert_eq!(done.code, Some(1), "{spec}: {done:?}");
        assert!(took < Duration::from_secs(6), "{spec}: {took:?}");
        let run = done.json();
        assert!(run["error"].as_str().unwrap().contains(spec) && run["interrupted"] == false, "{}", run["error"]);
        assert!(rows(&run)[0]["transactions"].as_u64().unwrap() > 0, "{spec}");
        assert!(done.err.contains(run["error"].as_str().unwrap()), "{done:?}");
        assert_eq!(home.hairpin("runs show latest --json").json()["error"], run["error"], "stored");
    }
}

#[test]
fn a_worker_killed_in_mid_run_is_noticed() {
    let home = Home::new();
    for (side, spec) in [(0, "udp:spin"), (1, "udp:spin"), (1, "tcp:block"), (1, "memory")] {
        let ping = home.start(&format!("ping --link loopback --path {spec} --size 8 --forever --warmup 1ms --timeout 2s --json"));
        sleep(Duration::from_millis(800));
        // The client's worker is started first.
        let mut workers = workers_of(ping.pid());
        workers.sort_unstable();
        assert_eq!(workers.len(), 2, "{spec}");
        let status = Command::new("kill").args(["-KILL", &workers[side].to_string()]).status().unwrap();
        assert!(status.success());
        let killed = Instant::now();
        let done = ping.done();
        assert_eq!(done.code, Some(1), "{spec}: {done:?}");
        assert!(killed.elapsed() < Duration::from_secs(6), "{spec}: {:?}", killed.elapsed());
        assert!(done.err.contains(spec), "{spec}: {}", done.err);
        if side == 1 {
            assert!(rows(&done.json())[0]["transactions"].as_u64().unwrap() > 0, "{spec}");
        }
    }
}

#[test]
fn a_side_that_was_stopped_for_a_while_is_warned_of() {
    let home = Home::new();
    let ping = home.start("ping --link loopback --path tcp --duration 3s --warmup 1ms --json");
    sleep(Duration::from_millis(700));
    let workers = workers_of(ping.pid());
    let signal = |name: &str| {
        let pids: Vec<_> = workers.iter().map(u32::to_string).collect();
        assert!(Command::new("kill").arg(name).args(&pids).status().unwrap().success());
    };
    // Between two blocks, a few percent of the time, nothing is measured that could be disturbed: not three times in turn.
    for _ in 0..3 {
        signal("-STOP");
        sleep(Duration::from_millis(250));
        signal("-CONT");
        sleep(Duration::from_millis(170));
    }
    let done = ping.done();
    assert_eq!(done.code, Some(0), "{done:?}");
    let run = done.json();
    assert!(warnings(&rows(&run)[0]).contains(&"stopped"), "{}", rows(&run)[0]["warnings"]);
}

#[test]
fn a_client_killed_in_mid_run_frees_the_server() {
    let home = Home::new();
    let (mut serve, address) = home.serve("");
    for spec in ["udp:spin", "tcp:block", "tcp-crr:block"] {
        let mut ping = home.start(&format!("ping {address} --path {spec} --forever --warmup 1ms"));
        serve.until("session begins");
        sleep(Duration::from_millis(400));
        let before = workers_of(serve.pid());
        assert_eq!(before.len(), 1, "{spec}: one worker per session");
        ping.kill();
        eventually_serves(&home, &address);
        let begun = Instant::now();
        while workers_of(serve.pid()).contains(&before[0]) {
            assert!(begun.elapsed() < Duration::from_secs(5), "{spec}: the worker of the dead client's session is still there");
            sleep(Duration::from_millis(20));
        }
    }
}

#[test]
fn ctrl_c_ends_an_endless_run_and_keeps_it() {
    let home = Home::new();
    for spec in ["udp:block", "tcp:spin", "eventfd", "memory", "tcp-crr", "pipe:epoll", "unix:adaptive", "udp --pace 5"] {
        let ping = home.start(&format!("ping --link loopback --path {spec} --size 8 --forever --warmup 1ms --json"));
        sleep(Duration::from_millis(1200));
        ping.signal("INT");
        let signalled = Instant::now();
        let done = ping.done();
        assert_eq!(done.code, Some(0), "{spec}: {done:?}");
        assert!(signalled.elapsed() < Duration::from_secs(5), "{spec}: {:?}", signalled.elapsed());
        let run = done.json();
        assert_eq!((&run["interrupted"], &run["error"]), (&true.into(), &serde_json::Value::Null), "{spec}");
        assert!(rows(&run)[0]["transactions"].as_u64().unwrap() > 0, "{spec}");
        assert!(done.err.contains("stored as"), "{spec}: {done:?}");
    }
}

#[test]
fn hostile_clients_are_refused_logged_and_hold_nothing() {
    let home = Home::new();
    let (mut serve, address) = home.serve("");
    let connect = || TcpStream::connect(&*address).unwrap();
    let preamble = [b"HRPN".as_slice(), &1u16.to_le_bytes(), &[0, 0]].concat();

    // Something else altogether.
    connect().write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    serve.until("refused: does not speak Hairpin (got \"GET / HT");
    // Another version.
    connect().write_all(b"HRPN\x63\x00\x00\x00").unwrap();
    serve.until("refused: speaks version 99");
    // Gone at once.
    drop(connect());
    serve.until("closed before the handshake was done");

    // A message of 4 GiB, one that is no JSON, and one that is out of turn, each after a good handshake.
    let huge = u32::MAX.to_le_bytes().to_vec();
    let garbage = [5u32.to_le_bytes().as_slice(), b"\x1b[2J{"].concat();
    let deep = [200_000u32.to_le_bytes().to_vec(), vec![b'['; 200_000]].concat();
    let early = [6u32.to_le_bytes().as_slice(), b"\"quit\""].concat();
    for message in [huge, garbage, deep, early] {
        let ends = || serve.err().matches("session ends").count();
        let before = ends();
        let mut stream = connect();
        stream.write_all(&preamble).unwrap();
        let _ = stream.write_all(&message);
        // Closed by the server, not by this client.
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
        let begun = Instant::now();
        while ends() == before {
            assert!(begun.elapsed() < Duration::from_secs(10), "{}", serve.err());
            sleep(Duration::from_millis(10));
        }
        assert!(rest.len() < 4096, "{} bytes to a hostile client", rest.len());
    }
    assert!(!serve.err().contains('\u{1b}'), "a client's escape sequence reached the log");

    // Silent ones, as many as may be open, hold nobody up for longer than the handshake's limit.
    let silent: Vec<_> = (0..20).map(|_| connect()).collect();
    serve.until("16 connections are open");
    serve.until("no whole handshake within 5s");
    eventually_serves(&home, &address);
    drop(silent);
    assert_eq!(workers_of(serve.pid()), Vec::<u32>::new());
}

#[test]
fn an_unproved_sender_gets_no_more_than_it_sends() {
    let home = Home::new();
    let (_serve, address) = home.serve("");
    let address: SocketAddr = address.parse().unwrap();
    let mut channel = handshake::connect("127.0.0.1", address.port(), None).unwrap();
    channel.send(&Request::Plan(Box::new(udp_job(8, 60_000)))).unwrap();
    let ready: Answer = channel.recv(Duration::from_secs(10)).unwrap();
    let Answer::Ready(Some(Address::Inet(data))) = ready else { panic!("{ready:?}") };

    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    stranger.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    let mut reply = [0; 65_536];
    for len in [0, 1, 4, 8, 16, 24, 32, 64, 1400] {
        for byte in [0u8, 0xff] {
            // The port may be closed to strangers: then the kernel says so at the next send.
            let _ = stranger.send_to(&vec![byte; len], ("127.0.0.1", data.port()));
            while let Ok((got, _)) = stranger.recv_from(&mut reply) {
                assert!(got <= len, "a reply of {got} bytes to a stranger's {len}");
            }
        }
    }
}

/// The plan of a UDP row with small requests and large replies.
fn udp_job(request: u32, reply: u32) -> Job {
    Job {
        spec: "udp:block".parse().unwrap(),
        request,
        reply,
        flows: 1,
        threads: 1,
        outstanding: 1,
        duration: Some(Nanos::from_secs(10)),
        count: None,
        warmup: Nanos::from_millis(1),
        pace: None,
        open: None,
        timeout: Nanos::from_secs(5),
        cpus: Sides::default(),
        sched: Schedule::Other,
        local_port: LocalPort::Any,
        verify: false,
        cookie: 7,
        plain_peer: false,
        raw: false,
        traced: false,
        socket_stamps: false,
        emulated: None,
    }
}
