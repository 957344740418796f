//! `hairpin serve` and `hairpin ping HOST`: a whole session, and every way in which one goes wrong.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::support::{HAIRPIN, Home, Running, can, namespaces, rows, served, warnings, workers_of};
use hairpin_plan::job::{Address, Job};
use hairpin_record::run::{ClockFacts, HostFacts};
use hairpin_session::channel::Channel;
use hairpin_session::handshake::{self, Admission};
use hairpin_session::message::{Answer, Request};
use hairpin_units::Nanos;
use rustix::net::{AddressFamily, SocketType, bind, connect};

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
    let port = crate::support::free_port();
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
    let (file, ping) = printed.split_once('\n').unwrap();
    assert_eq!(ping, "hairpin ping 198.18.9.1 --key-file hairpin.key\n");
    // Output that is not a terminal may be a journal: the key must not be in it.
    let key = fs::read_to_string(file).unwrap();
    assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(!(printed.contains(key.trim()) || serve.err().contains(key.trim())), "the key was printed");
    fs::copy(file, home.file("hairpin.key")).unwrap();

    // As printed, in a shell, but for the time it takes.
    let bin = Path::new(HAIRPIN).parent().unwrap().to_str().unwrap();
    let mut command = client.enter(&home);
    command.arg(format!("PATH={bin}:$PATH; {} {QUICK} --json", ping.trim_end()));
    let done = home.spawn(command).done();
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(!done.err.contains("can be read by others"), "{}", done.err);
    let run = done.json();
    assert_eq!(rows(&run).len(), 2, "tcp and udp: {run}");
    assert_eq!((&run["link"]["interface"], &run["hosts"]["server"]["interface"]), (&"right".into(), &"left".into()));
    assert!(!run.to_string().contains(key.trim()), "the key is in the record");

    fs::write(home.file("other.key"), "3".repeat(64)).unwrap();
    for (arguments, said, logged) in
        [("--key-file other.key", "wrong key", "refused: wrong key"), ("", "needs a key", "refused: came without a key")]
    {
        let mut command = client.enter(&home);
        command.arg(format!("exec {HAIRPIN} ping 198.18.9.1 {arguments}"));
        home.spawn(command).done().fails(1, &[said]);
        serve.until(logged);
    }
    let file = file.to_owned();
    serve.signal("INT");
    assert_eq!(serve.done().code, Some(0));
    assert!(!Path::new(&file).exists(), "the key's file outlives the key");
}

/// A link-local address means something together with its interface only; two hosts on one cable have no other.
#[test]
fn link_local_addresses_carry_their_interface() {
    let name = "link_local_addresses_carry_their_interface";
    if !can(name, namespaces() && Path::new("/proc/sys/net/ipv6").exists(), "network namespaces need root here, and IPv6") {
        return;
    }
    let home = Home::new();
    fs::write(home.file("key"), "5".repeat(64)).unwrap();
    let (server, client) = (Namespace::new(&home), Namespace::new(&home));
    let pid = client.0.pid();
    server.sh(&home, &format!("ip link set lo up; ip link add left type veth peer name right netns {pid}; ip link add more type veth peer name most netns {pid}"));
    // No duplicate-address detection: the addresses can be used at once.
    let addresses = "ip address add fe80::HOST/64 dev IF nodad && ip link set IF up";
    for (namespace, interface, host) in
        [(&server, "left", "a"), (&server, "more", "a"), (&client, "right", "b"), (&client, "most", "b")]
    {
        let script = addresses.replace("HOST", host).replace("IF", interface);
        namespace.sh(&home, &format!("echo 1 > /proc/sys/net/ipv6/conf/{interface}/addr_gen_mode; {script}"));
    }
    let mut command = server.enter(&home);
    command.arg(format!("exec {HAIRPIN} serve --listen '[fe80::a%left]:24666' --key-file key"));
    let mut serve = home.spawn(command);
    serve.until("Ctrl-C ends it");
    assert_eq!(served(&serve.err()), "[fe80::a%left]:24666");
    let ping = |to: &str, more: &str| {
        let mut command = client.enter(&home);
        command.arg(format!("exec {HAIRPIN} ping {to} {more} {QUICK} --json"));
        home.spawn(command).done()
    };
    let index = {
        let mut command = client.enter(&home);
        command.arg("cat /sys/class/net/right/ifindex");
        home.spawn(command).done().out.trim().to_owned()
    };
    for to in ["fe80::a%right", &format!("fe80::a%{index}")] {
        let done = ping(&format!("'[{to}]:24666'"), "--key-file key --path tcp --path udp --path tcp-crr --path packet");
        assert_eq!(done.code, Some(0), "{done:?}");
        let run = done.json();
        assert_eq!(rows(&run).len(), 4);
        assert_eq!((&run["link"]["peer"], &run["link"]["interface"]), (&format!("[{to}]:24666").into(), &"right".into()));
        assert_eq!(run["hosts"]["server"]["interface"], "left");
    }
    // The same address over the other cable is another host's.
    ping("'[fe80::a%most]:24666'", "--key-file key").fails(1, &["[fe80::a%most]:24666 refused the connection"]);
    ping("'[fe80::a%none]:24666'", "--key-file key").fails(1, &["fe80::a%none"]);
    ping("--echo '[fe80::a%right]:7'", "--path udp --timeout 2s").fails(1, &["nothing listens"]);
}

/// If a router reports a smaller MTU, the side that sent the datagram counts it as lost, and the run goes on.
#[test]
fn a_smaller_mtu_further_on_is_a_lost_datagram_and_a_warning() {
    let name = "a_smaller_mtu_further_on_is_a_lost_datagram_and_a_warning";
    if !can(name, namespaces(), "network namespaces need root here") {
        return;
    }
    for (near, far, size, side, path) in [
        (9000, 1500, 4000, "client", "udp"),
        (1500, 9000, 4000, "server", "udp"),
        (9000, 1000, 1200, "client", "udp"),
        (9000, 1500, 4000, "client", "uring-udp"),
        (1500, 9000, 4000, "server", "uring-udp"),
    ] {
        let home = Home::new();
        if path == "uring-udp" {
            let rings = home.hairpin("ping --link loopback --path uring-udp --count 1").code != Some(4);
            if !can(name, rings, "io_uring is off here") {
                continue;
            }
        }
        fs::write(home.file("key"), "5".repeat(64)).unwrap();
        let (server, router, client) = (Namespace::new(&home), Namespace::new(&home), Namespace::new(&home));
        let (left, right) = (client.0.pid(), server.0.pid());
        router.sh(
            &home,
            &format!(
                "set -e; ip link add near type veth peer name left netns {left}; ip link add far type veth peer name right netns {right}; ip link set near mtu {near}; ip link set far mtu {far}; \
                 ip address add 198.18.1.1/24 dev near; ip address add 198.18.2.1/24 dev far; ip link set near up; ip link set far up; echo 1 > /proc/sys/net/ipv4/ip_forward"
            ),
        );
        client.sh(
            &home,
            &format!("set -e; ip link set left mtu {near}; ip address add 198.18.1.2/24 dev left; ip link set left up; ip route add default via 198.18.1.1"),
        );
        server.sh(
            &home,
            &format!("set -e; ip link set right mtu {far}; ip address add 198.18.2.2/24 dev right; ip link set right up; ip route add default via 198.18.2.1"),
        );
        let mut command = server.enter(&home);
        command.arg(format!("exec {HAIRPIN} serve --listen 198.18.2.2 --key-file key"));
        let mut serve = home.spawn(command);
        serve.until("Ctrl-C ends it");
        let mut command = client.enter(&home);
        command.arg(format!(
            "exec {HAIRPIN} ping 198.18.2.2 --key-file key --path {path} --size {size} --count 300 --warmup 0 --timeout 10s --json"
        ));
        let done = home.spawn(command).done();
        assert_eq!(done.code, Some(0), "{done:?}");
        let run = done.json();
        let row = &rows(&run)[0];
        assert_eq!(row["transactions"], 300);
        let (mtu, notes) = (near.min(far), row["warnings"].as_array().unwrap());
        let told =
            notes.iter().find(|note| note["code"] == "path-mtu").unwrap_or_else(|| panic!("no word on the MTU: {notes:?}"));
        let message = told["message"].as_str().unwrap();
        let parts = [
            format!("the way from the {side}"),
            format!("at most {mtu} bytes"),
            format!("payloads of at most {} bytes", mtu - 28),
        ];
        assert!(parts.iter().all(|part| message.contains(part)), "{message}");
    }
}

/// A way that is dead costs the timeout and about a second more, not the ten that a server may take to report.
#[test]
fn a_dead_way_is_noticed_within_the_timeout() {
    let name = "a_dead_way_is_noticed_within_the_timeout";
    if !can(name, namespaces(), "network namespaces need root here") {
        return;
    }
    let home = Home::new();
    fs::write(home.file("key"), "5".repeat(64)).unwrap();
    let (server, client) = (Namespace::new(&home), Namespace::new(&home));
    server.sh(
        &home,
        &format!(
            "ip link add left type veth peer name right netns {}; ip address add 198.18.9.1/24 dev left; ip link set left up",
            client.0.pid()
        ),
    );
    client.sh(&home, "ip address add 198.18.9.2/24 dev right; ip link set right up");
    let mut command = server.enter(&home);
    command.arg(format!("exec {HAIRPIN} serve --listen 198.18.9.1 --key-file key"));
    let mut serve = home.spawn(command);
    serve.until("Ctrl-C ends it");
    let mut command = client.enter(&home);
    command.arg(format!("exec {HAIRPIN} ping 198.18.9.1 --key-file key --path udp --forever --warmup 1ms --timeout 2s --json"));
    let ping = home.spawn(command);
    serve.until("session begins");
    sleep(Duration::from_millis(1500));
    server.sh(&home, "ip link set left down");
    let cut = Instant::now();
    let done = ping.done();
    let took = cut.elapsed();
    assert_eq!(done.code, Some(1), "{done:?}");
    let run = done.json();
    assert!(rows(&run)[0]["transactions"].as_u64().unwrap() > 0, "{run}");
    // The run must not wait the ten seconds for a missing report; a busy host may take some of its own.
    assert!(took < Duration::from_secs(2 + 1 + 6), "{took:?}");
}

#[test]
fn a_second_session_is_refused_with_the_time_left() {
    let home = Home::new();
    let (mut serve, address) = home.serve("");
    let first = home.start(&format!("ping {address} --path udp --rate 1000 --duration 30s --warmup 1ms"));
    serve.until("session begins");
    // The plan, with its duration, comes just after; until then the server gives the client 10 s. A busy host takes its time.
    let left = || {
        sleep(Duration::from_millis(500));
        let done = home.hairpin(&format!("ping {address} {QUICK}"));
        done.fails(1, &["is busy with another session for ", " s more", "hairpin serve ADDR:PORT"]);
        done.err.split("session for ").nth(1).unwrap().split(' ').next().unwrap().parse::<u64>().unwrap()
    };
    let left = (0..10).map(|_| left()).find(|left| *left > 10).expect("the time of the plan");
    assert!((15..=30).contains(&left), "{left}");
    serve.until("refused: this server is busy with another session for ");

    first.signal("INT");
    let done = first.done();
    assert_eq!(done.code, Some(0), "{done:?}");
    eventually_serves(&home, &serve, &address);
}

/// The next session is served at once, however the one before ended.
#[test]
fn ended_session_blocks_no_other() {
    let home = Home::new();
    let (mut serve, address) = home.serve("");
    let port = address.parse::<SocketAddr>().unwrap().port();
    for round in 0..10 {
        // Gone in mid-row, and the next one is there at once.
        let mut channel = handshake::connect("127.0.0.1", port, None).unwrap();
        channel.send(&Request::Plan(Box::new(udp_job(8, 8)))).unwrap();
        let answer: Answer = channel.recv(Duration::from_secs(20)).unwrap();
        assert!(matches!(answer, Answer::Ready(_)), "round {round}: {answer:?}");
    }
    for round in 0..10 {
        // Refused on this side, after the server has taken the plan: a local port in use by another program.
        let refused = home.hairpin(&format!("ping {address} --path tcp --local-port {port} --count 3 --warmup 1ms"));
        refused.fails(1, &[&format!("cannot use local port {port}")]);
        let next = home.hairpin(&format!("ping {address} --path udp --count 3 --warmup 1ms"));
        assert_eq!(next.code, Some(0), "after a refused row, round {round}: {next:?}");
    }
    for signal in ["INT", "KILL"] {
        let mut ping = home.start(&format!("ping {address} --path udp --forever --warmup 1ms"));
        serve.until("session begins");
        sleep(Duration::from_millis(400));
        ping.signal(signal);
        if signal == "KILL" {
            ping.kill()
        } else {
            drop(ping.done())
        }
        let next = home.hairpin(&format!("ping {address} --path udp --count 3 --warmup 1ms"));
        assert_eq!(next.code, Some(0), "after SIG{signal}: {next:?}");
    }
}

#[test]
fn a_count_is_no_day() {
    let home = Home::new();
    let (mut serve, address) = home.serve("");
    let _first = home.start(&format!("ping {address} --path udp --count 100000000 --warmup 1ms"));
    serve.until("session begins");
    // Until the plan has come, the server names the deadline of the set-up.
    let refused = || {
        sleep(Duration::from_millis(100));
        home.hairpin(&format!("ping {address} {QUICK}"))
    };
    let told = (0..100).map(|_| refused()).find(|done| !done.err.contains(" s more"));
    told.expect("an answer after the set-up").fails(1, &["busy with another session until 100000000 transactions are done"]);
}

#[test]
fn a_client_gets_no_more_of_the_host_than_was_granted() {
    let cpus = hairpin_sys::thread::allowed_cpus().unwrap();
    if !can("a_client_gets_no_more_of_the_host_than_was_granted", cpus.len() > 1, "it takes two CPUs") {
        return;
    }
    let home = Home::new();
    let (first, second) = (cpus[0], cpus[1]);
    // The server grants nothing by default …
    let (_serve, address) = home.serve("");
    let refused = home.hairpin(&format!("ping {address} {QUICK} --path udp --sched fifo:1"));
    refused.fails(4, &["no real-time priority and no locked memory", "--allow-sched fifo:1"]);
    // … a server under a client's --sched has no memory locked and no priority, and CPUs of its list alone.
    let (serve, address) = home.serve(&format!("--allow-sched fifo:3 --cpus {second}"));
    home.hairpin(&format!("ping {address} {QUICK} --path udp --sched fifo:4"))
        .fails(4, &["up to fifo:3", "--allow-sched fifo:4"]);
    let refused = home.hairpin(&format!("ping {address} {QUICK} --path udp --cpu {first},{first}"));
    refused.fails(4, &[&format!("no CPU {first}"), "--cpus", &format!("choose from {second}")]);
    for cpu in ["".to_owned(), format!("--cpu {first},{second}")] {
        let run = home.json(&format!("ping {address} {QUICK} --path udp {cpu}"));
        assert_eq!(rows(&run)[0]["cpu"]["server"]["cpus"], serde_json::json!([second]));
    }
    // Granted options are in force, or their lack is reported, as this user's rights allow.
    let run = home.json(&format!("ping {address} {QUICK} --path udp --sched fifo:3"));
    let granted = rows(&run)[0]["granted"].as_array().unwrap();
    let of_server = |option: &str| granted.iter().any(|found| found["side"] == "server" && found["option"] == option);
    assert!(of_server("sched") && of_server("mlock"), "{granted:?}");
    drop(serve);
    home.hairpin("serve --listen 127.0.0.1:0 --cpus 60000").fails(2, &["--cpus: CPU 60000 does not exist"]);
    home.hairpin("serve --listen 127.0.0.1:0 --allow-sched other").fails(2, &["write fifo:N"]);
}

/// Holds `count` connections from this address to the server, and opens each anew once the server has closed it, until told to
/// stop.
fn hold_connections(from: [u8; 4], to: SocketAddr, count: usize, say: &'static [u8], stop: &AtomicBool) {
    let open_one = || {
        let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        bind(&socket, &SocketAddr::from((from, 0))).ok()?;
        connect(&socket, &to).ok()?;
        let mut stream = TcpStream::from(socket);
        let _ = stream.write_all(say);
        stream.set_nonblocking(true).unwrap();
        Some(stream)
    };
    let mut held: Vec<Option<TcpStream>> = (0..count).map(|_| open_one()).collect();
    while !stop.load(Ordering::Relaxed) {
        for slot in &mut held {
            let mut rest = [0; 64];
            let open = slot.as_mut().is_some_and(|stream| match stream.read(&mut rest) {
                Ok(read) => read > 0,
                Err(error) => error.kind() == std::io::ErrorKind::WouldBlock,
            });
            if !open {
                *slot = open_one();
            }
        }
        sleep(Duration::from_millis(1));
    }
}

#[test]
fn held_connections_keep_nobody_out() {
    const KEYED: &[u8] = &preamble(1);
    let home = Home::new();
    fs::write(home.file("key"), "7".repeat(64)).unwrap();
    let (mut serve, address) = home.serve("--key-file key");
    let to: SocketAddr = address.parse().unwrap();
    // From the very address of the client, silent or with half a handshake; and from several others.
    let crowds: [(&[[u8; 4]], &'static [u8]); 3] = [
        (&[[127, 0, 0, 1]], b""),
        (&[[127, 0, 0, 1]], KEYED),
        (&[[127, 0, 0, 2], [127, 0, 0, 3], [127, 0, 0, 4], [127, 0, 0, 5]], b""),
    ];
    for (sources, say) in crowds {
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for from in sources {
                let stop = &stop;
                scope.spawn(move || hold_connections(*from, to, 40, say, stop));
            }
            sleep(Duration::from_millis(500));
            let pings: Vec<_> =
                (0..4).map(|_| home.hairpin(&format!("ping {address} {QUICK} --path udp --key-file key"))).collect();
            // Before anything is judged, so that the crowd ends even if the test fails.
            stop.store(true, Ordering::Relaxed);
            for done in pings {
                assert_eq!(done.code, Some(0), "40 connections each from {sources:?}: {done:?}");
            }
        });
    }
    serve.until(" more refused in 10 s");
    let lines = serve.err().lines().filter(|line| line.contains("refused")).count();
    assert!(lines < 200, "{lines} lines of refusals");
}

/// A client's first bytes; mode 1: with a key.
const fn preamble(mode: u8) -> [u8; 8] {
    let [low, high] = handshake::VERSION.to_le_bytes();
    [b'H', b'R', b'P', b'N', low, high, mode, 0]
}

#[test]
fn a_flood_of_messages_outlasts_no_deadline_of_the_session() {
    let home = Home::new();
    let (mut serve, address) = home.serve("");
    let address: SocketAddr = address.parse().unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(&preamble(0)).unwrap();
    stream.read_exact(&mut [0; 8]).unwrap();
    let mut channel = Channel::plain(stream.try_clone().unwrap());
    channel.send(&Request::Plan(Box::new(udp_job(8, 8)))).unwrap();
    let ready: Answer = channel.recv(Duration::from_secs(10)).unwrap();
    assert!(matches!(ready, Answer::Ready(_)), "{ready:?}");
    // The worker's patience with a client that does not connect is 5 s. Its answer comes while there is always one more message.
    let beats = [6u32.to_le_bytes().as_slice(), b"\"beat\""].concat().repeat(8192);
    let stop = AtomicBool::new(false);
    let answer = std::thread::scope(|scope| {
        let flood = scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) && stream.write_all(&beats).is_ok() {
                std::hint::spin_loop()
            }
        });
        let answer = channel.recv::<Answer>(Duration::from_secs(40));
        stop.store(true, Ordering::Relaxed);
        flood.join().unwrap();
        answer
    });
    assert!(matches!(answer, Ok(Answer::Failed(_))), "in a flood of messages: {answer:?}");
    drop((channel, stream));
    serve.until("session ends after 0 rows");
}

/// Serves again, within seconds.
fn eventually_serves(home: &Home, serve: &Running, address: &str) {
    let begun = Instant::now();
    loop {
        let done = home.hairpin(&format!("ping {address} {QUICK} --path udp"));
        if done.code == Some(0) {
            return;
        }
        assert!(begun.elapsed() < Duration::from_secs(10), "{done:?}; the server: {}", serve.err());
        sleep(Duration::from_millis(100));
    }
}

#[test]
fn run_with_a_killed_server_keeps_its_results() {
    let home = Home::new();
    let rows_of = [
        ("udp:block", "--size 64"),
        ("tcp:spin", "--size 64"),
        ("tcp-crr", "--size 64"),
        ("udp:block", "--size 8"),
        // The server is asked after each block.
        ("udp:block", "--one-way"),
        ("tcp:block", "--one-way"),
    ];
    for (spec, more) in rows_of {
        let (mut serve, address) = home.serve("");
        let ping = home.start(&format!("ping {address} --path {spec} {more} --forever --warmup 1ms --timeout 2s --json"));
        serve.until("session begins");
        sleep(Duration::from_millis(400));
        let killed = Instant::now();
        serve.kill();
        let done = ping.done();
        let took = killed.elapsed();
        assert_eq!(done.code, Some(1), "{spec}: {done:?}");
        // Not the ten seconds for a missing report either.
        assert!(took < Duration::from_secs(2 + 1 + 6), "{spec}: {took:?}");
        let run = done.json();
        assert!(run["error"].as_str().unwrap().contains(spec) && run["interrupted"] == false, "{}", run["error"]);
        assert!(rows(&run)[0]["transactions"].as_u64().unwrap() > 0, "{spec}");
        assert!(done.err.contains(run["error"].as_str().unwrap()), "{done:?}");
        assert_eq!(home.hairpin("runs show latest --json").json()["error"], run["error"], "stored");
    }
}

#[test]
fn a_worker_killed_in_mid_run_is_noticed() {
    // Side by side, as each has its first line after a second.
    std::thread::scope(|scope| {
        for (side, spec) in [(0, "udp:spin"), (1, "udp:spin"), (1, "tcp:block"), (1, "memory")] {
            scope.spawn(move || a_killed_worker_is_noticed(side, spec));
        }
    });
}

fn a_killed_worker_is_noticed(side: usize, spec: &str) {
    let home = Home::new();
    let args = format!("ping --link loopback --path {spec} --size 8 --forever --warmup 1ms --timeout 2s --json-stream");
    let mut ping = home.start(&args);
    ping.until("transactions");
    // The client's worker is started first.
    let mut workers = workers_of(ping.pid());
    workers.sort_unstable();
    assert_eq!(workers.len(), 2, "{spec}");
    let status = Command::new("kill").args(["-KILL", &workers[side].to_string()]).status().unwrap();
    assert!(status.success());
    let killed = Instant::now();
    let done = ping.done();
    assert_eq!(done.code, Some(1), "{spec}: {done:?}");
    assert!(killed.elapsed() < Duration::from_secs(2 + 1 + 6), "{spec}: {:?}", killed.elapsed());
    assert!(done.err.contains(spec), "{spec}: {}", done.err);
    if side == 1 {
        let run: serde_json::Value = serde_json::from_str(done.out.lines().last().expect("the record")).expect("JSON");
        assert!(rows(&run)[0]["transactions"].as_u64().unwrap() > 0, "{spec}");
    }
}

#[test]
fn a_server_that_ends_a_session_tells_its_client_why() {
    let home = Home::new();
    let (serve, address) = home.serve("");
    let mut ping = home.start(&format!("ping {address} --path udp --size 8 --forever --warmup 1ms --timeout 2s --json-stream"));
    ping.until("transactions");
    let worker = workers_of(serve.pid())[0].to_string();
    assert!(Command::new("kill").args(["-KILL", &worker]).status().unwrap().success());
    ping.done().fails(1, &["the server ended the session: "]);
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
    // Flat out tcp-crr leaves a TIME_WAIT in every port of the other tests for a minute.
    for spec in ["udp:spin", "tcp:block", "tcp-crr:block --pace 200"] {
        let mut ping = home.start(&format!("ping {address} --path {spec} --forever --warmup 1ms"));
        serve.until("session begins");
        sleep(Duration::from_millis(400));
        let before = workers_of(serve.pid());
        assert_eq!(before.len(), 1, "{spec}: one worker per session");
        ping.kill();
        eventually_serves(&home, &serve, &address);
        let begun = Instant::now();
        while workers_of(serve.pid()).contains(&before[0]) {
            assert!(begun.elapsed() < Duration::from_secs(5), "{spec}: the worker of the dead client's session is still there");
            sleep(Duration::from_millis(20));
        }
    }
}

#[test]
fn ctrl_c_ends_an_endless_run_and_keeps_it() {
    let specs =
        ["udp:block", "tcp:spin", "eventfd", "tcp-crr --pace 200", "memory", "pipe:epoll", "unix:adaptive", "udp --pace 5"];
    // Four at a time, as each has its first line after a second.
    for four in specs.chunks(4) {
        std::thread::scope(|scope| {
            for spec in four {
                scope.spawn(move || ctrl_c_ends_and_keeps(spec));
            }
        });
    }
}

fn ctrl_c_ends_and_keeps(spec: &str) {
    let home = Home::new();
    let args = format!("ping --link loopback --path {spec} --size 8 --forever --warmup 1ms --timeout 60s --json-stream");
    let mut ping = home.start(&args);
    ping.until("transactions");
    ping.signal("INT");
    // Twice, as timeout(1) does: it sends the signal to its child and to its group.
    ping.signal("INT");
    let signalled = Instant::now();
    let done = ping.done();
    assert_eq!(done.code, Some(0), "{spec}: {done:?}");
    // It waits for no timeout, nor the ten seconds for a missing report.
    assert!(signalled.elapsed() < Duration::from_secs(9), "{spec}: {:?}", signalled.elapsed());
    let run: serde_json::Value = serde_json::from_str(done.out.lines().last().expect("the record")).expect("JSON");
    assert_eq!((&run["interrupted"], &run["error"]), (&true.into(), &serde_json::Value::Null), "{spec}");
    assert!(rows(&run)[0]["transactions"].as_u64().unwrap() > 0, "{spec}");
    assert!(done.err.contains("stored as"), "{spec}: {done:?}");
}

/// A server may take 40 s to listen: for probes, and for links that XDP programs take down.
#[test]
fn ctrl_c_ends_the_wait_for_a_server_that_prepares() {
    let home = Home::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let ping = home.start(&format!("ping {} {QUICK} --path tcp", listener.local_addr().unwrap()));
    let (stream, _) = listener.accept().unwrap();
    let (mut channel, _) = handshake::accept(stream, Admission { key: None, gives_way: None }).unwrap();
    let asked = |channel: &mut Channel| channel.recv::<Request>(Duration::from_secs(20)).unwrap();
    assert!(matches!(asked(&mut channel), Request::Facts { .. }));
    let clock = ClockFacts { source: "tsc".into(), cost_ns: 20.0, step_ns: 1.0, ticks_per_s: 1e9, drift_ppb: None };
    channel.send(&Answer::Facts { facts: HostFacts::default(), clock, stamps: false }).unwrap();
    assert!(matches!(asked(&mut channel), Request::Plan(_)));
    ping.signal("INT");
    let signalled = Instant::now();
    ping.done().fails(1, &["stopped before anything was measured"]);
    assert!(signalled.elapsed() < Duration::from_secs(9), "{:?}", signalled.elapsed());
}

#[test]
fn a_terminal_that_closes_ends_a_run_and_keeps_it_but_not_under_nohup() {
    let home = Home::new();
    let words = "ping --link loopback --path udp --pace 100 --forever --warmup 1ms -o jsonl";
    // This test may itself run under nohup(1).
    let mut closed = home.command("env");
    closed.arg("--default-signal=HUP").arg(HAIRPIN).args(words.split_whitespace());
    let mut closed = home.spawn(closed);
    let mut nohup = home.command("sh");
    nohup.args(["-c", &format!("trap '' HUP; exec {HAIRPIN} {words}")]);
    let mut nohup = home.spawn(nohup);
    for run in [&mut closed, &mut nohup] {
        run.until("transactions");
        run.signal("HUP");
    }
    let done = closed.done();
    assert!(done.code == Some(0) && done.err.contains("stored as"), "{done:?}");
    let lines = nohup.out().lines().count();
    let begun = Instant::now();
    while nohup.out().lines().count() < lines + 2 {
        assert!(nohup.goes_on() && begun.elapsed() < Duration::from_secs(20), "{}", nohup.err());
        sleep(Duration::from_millis(20));
    }
    nohup.signal("INT");
    assert_eq!(nohup.done().code, Some(0));
}

#[test]
fn hostile_clients_are_refused_logged_and_hold_nothing() {
    let home = Home::new();
    let (mut serve, address) = home.serve("");
    let connect = || TcpStream::connect(&*address).unwrap();
    let preamble = preamble(0);

    // Something else altogether.
    connect().write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    serve.until("refused: does not speak Hairpin (got \"GET / HT");
    // Another version.
    connect().write_all(b"HRPN\x63\x00\x00\x00").unwrap();
    serve.until("refused: speaks version 99");
    // Gone at once.
    drop(connect());
    serve.until("closed before the handshake was done");

    // A message of 4 GiB, one that is not JSON, and one that is out of turn, each after a good handshake.
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
    let log = serve.err();
    assert!(!log.contains('\u{1b}'), "a client's escape sequence reached the log");
    assert!(log.contains("session ends: the client: the other side announced a message of 4294967295 bytes"), "{log}");
    assert!(!log.contains("worker") && !log.contains("refused: refused"), "{log}");

    // More silent connections than may be open delay no client.
    let silent: Vec<_> = (0..20).map(|_| connect()).collect();
    serve.until("refused: too many connections, and it had not proved itself");
    serve.until(" more refused in 10 s");
    eventually_serves(&home, &serve, &address);
    drop(silent);
    assert_eq!(workers_of(serve.pid()), Vec::<u32>::new());
}

#[test]
fn an_end_is_told_by_its_cause() {
    let home = Home::new();
    // Alive, but no echo service.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let mut request = [0; 64];
            let _ = stream.read_exact(&mut request);
            let _ = stream.write_all(&request);
        }
    });
    let done = home.hairpin(&format!("ping --echo 127.0.0.1:{port} {QUICK} --path tcp"));
    done.fails(1, &["the peer closed the connection; an echo service"]);
    assert!(!done.err.contains("process has ended"), "{}", done.err);
    let free = crate::support::free_port();
    for path in ["udp", "tcp"] {
        let done = home.hairpin(&format!("ping --echo 127.0.0.1:{free} {QUICK} --path {path}"));
        done.fails(1, &["nothing listens"]);
        assert!(!done.err.contains("process has ended"), "{}", done.err);
    }
    // An address of documentation, which no host has.
    fs::write(home.file("key"), "5".repeat(64)).unwrap();
    let done = home.hairpin("serve --listen 192.0.2.1:7777 --key-file key");
    done.fails(1, &["this host has no such address"]);
    assert!(!done.err.contains("another hairpin serve"), "{}", done.err);
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
    Job { request, reply, warmup: Nanos::from_millis(1), cookie: 7, ..Job::new("udp:block".parse().unwrap()) }
}
