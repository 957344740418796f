//! The paths over packet rings from the command line: every mixture over veth, through a session, through a
//! reflector, and the host's state afterwards.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::{
    HAIRPIN, Home, Running, can, home_of_nobody, namespaces, namespaces_of_nobody, root, rows, warnings, workers_of,
};
use hairpin_packet::af_packet::AfPacket;
use hairpin_packet::device::{BackEnd, Config};
use hairpin_packet::filter::Filter;
use hairpin_packet::io::{Kick, PacketIo};
use hairpin_wire::checksum::Sum;
use hairpin_wire::{ethernet, raw};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType, ipproto, recv, sendto, socket};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde_json::Value;

/// Programs are attached under a lock of the whole host, which other tests hold for seconds while their namespaces go.
const QUICK: &str = "--count 300 --warmup 5ms --verify --timeout 30s";
const SERVER: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 2);

fn rings(name: &str) -> bool {
    can(name, namespaces(), "XDP programs and namespaces need root")
}

/// Every transaction was answered correctly; no foreign frame came, and no ring lost one.
#[track_caller]
fn complete(run: &Value) {
    assert_eq!((&run["error"], &run["interrupted"]), (&Value::Null, &Value::Bool(false)));
    for row in rows(run) {
        let what = &row["path"];
        assert_eq!((&row["transactions"], &row["corrupt"], &row["duplicates"]), (&300.into(), &0.into(), &0.into()), "{what}");
        assert!(!warnings(row).iter().any(|code| matches!(*code, "stray-frames" | "ring-loss")), "{what}: {}", row["warnings"]);
    }
}

fn each(paths: &[&str]) -> String {
    paths.iter().map(|path| format!(" --path {path}")).collect()
}

#[test]
fn every_mixture_over_veth() {
    if !rings("every_mixture_over_veth") {
        return;
    }
    let home = Home::new();
    let paths = each(&[
        "xdp:spin",
        "packet:spin",
        "xdp:spin/udp",
        "udp:spin/xdp",
        "packet:spin/udp",
        "udp:spin/packet",
        "xdp:spin/packet",
        "packet:block/xdp:spin",
        "udp:block/xdp:block",
    ]);
    let run = home.json(&format!("ping --link veth {QUICK}{paths} --sizes 1,17,64,1472"));
    complete(&run);
    assert_eq!(rows(&run).len(), 36);
    let six = home.json(&format!("ping --link veth -6 {QUICK}{paths} --sizes 1,1452"));
    complete(&six);
    let below_ip = each(&["xdp:spin,l3=off", "packet:spin,l3=off", "xdp:spin,l3=off/packet:l3=off", "packet:block,l3=off"]);
    complete(&home.json(&format!("ping --link veth {QUICK}{below_ip} --sizes 1,30,1484")));
    complete(&home.json(&format!("ping --link veth:mtu=3000 {QUICK} --size 2972 --path xdp:spin --path packet:spin/udp")));
}

#[test]
fn payloads_of_several_pages_arrive_where_the_mtu_takes_them() {
    if !rings("payloads_of_several_pages_arrive_where_the_mtu_takes_them") {
        return;
    }
    let home = Home::new();
    let paths = each(&[
        "xdp:spin,mode=generic",
        "xdp:spin,mode=native",
        "xdp:block/udp",
        "udp:spin/xdp:block",
        "xdp:spin,mode=native/udp:spin",
        "udp:spin/xdp:spin,mode=native",
        "xdp:spin/packet:spin",
        "xdp:spin,l3=off",
    ]);
    let run = home.json(&format!("ping --link veth:mtu=9000 {QUICK}{paths} --sizes 64,3466,3479,4068,8000,8972 --outstanding 4"));
    complete(&run);
    assert_eq!(rows(&run).len(), 48);
    let used =
        |row: usize| rows(&run)[row]["granted"].as_array().unwrap().iter().filter(|g| g["option"] == "multi-buffer").count();
    assert_eq!((used(0), used(4)), (0, 2), "only where a frame is longer than a page: {}", rows(&run)[0]);
    complete(&home.json(&format!("ping --link veth:mtu=9000 -6 {QUICK} --path xdp:spin --size 8952")));
    complete(
        &home.json(&format!(
            "ping --link veth:mtu=9000 {QUICK} --path xdp:spin --request 64 --reply 8972 --flows 4 --outstanding 4"
        )),
    );
}

#[test]
fn packet_over_loopback_where_the_kernel_takes_its_frames() {
    if !can("packet_over_loopback_where_the_kernel_takes_its_frames", root(), "packet sockets need root") {
        return;
    }
    let home = Home::new();
    complete(&home.json(&format!("ping --link loopback {QUICK} --path packet:spin --path packet:spin,l3=off")));
    home.hairpin(&format!("ping --link loopback {QUICK} --path packet:spin/udp"))
        .fails(1, &["route_localnet", "or veth as the target"]);
    if can("packet_over_loopback_where_the_kernel_takes_its_frames", std::net::UdpSocket::bind("[::1]:0").is_ok(), "no IPv6 here")
    {
        let paths = each(&["packet:spin", "packet:spin/udp", "udp:spin/packet"]);
        complete(&home.json(&format!("ping --link loopback -6 {QUICK}{paths}")));
    }
}

#[test]
fn every_policy_and_mode_with_granted_features() {
    if !rings("every_policy_and_mode_with_granted_features") {
        return;
    }
    let home = Home::new();
    let paths = each(&[
        "packet:block",
        "packet:adaptive,usecs=5",
        "xdp:block",
        "xdp:adaptive",
        "xdp:busy-poll,usecs=20",
        "xdp:spin,mode=native",
        "xdp:spin,mode=generic,zero-copy=off,queue=0,dscp=46",
    ]);
    let run = home.json(&format!("ping --link veth {QUICK}{paths}"));
    complete(&run);
    let granted = |row: usize, side: &str, option: &str| {
        let all = rows(&run)[row]["granted"].as_array().unwrap();
        let one = all.iter().find(|granted| granted["side"] == side && granted["option"] == option);
        one.unwrap_or_else(|| panic!("no {option} of the {side} in {all:?}")).clone()
    };
    for side in ["client", "server"] {
        assert_eq!(granted(5, side, "mode")["got"], "native");
        assert_eq!(granted(6, side, "mode")["got"], "generic");
        assert!(["native", "generic"].iter().any(|mode| granted(2, side, "mode")["got"] == **mode));
        let copy = granted(2, side, "zero-copy");
        assert!(copy["got"] == "off" && !copy["why"].as_str().unwrap().is_empty(), "veth copies: {copy}");
        let wakeup = granted(2, side, "need-wakeup");
        assert!(wakeup["got"] == "off" && wakeup["why"].as_str().unwrap().contains("itself sends"), "{wakeup}");
    }
    assert_eq!(granted(4, "client", "busy-poll")["asked"], "20 us");
    home.hairpin(&format!("ping --link veth {QUICK} --path xdp:zero-copy=on")).fails(4, &["has no zero-copy"]);
}

#[test]
fn several_flows_share_a_ring() {
    if !rings("several_flows_share_a_ring") {
        return;
    }
    let home = Home::new();
    let paths = each(&["xdp:spin", "packet:block", "xdp:spin/udp:poll", "udp:poll/packet:spin", "packet:spin,l3=off"]);
    let run = home.json(&format!("ping --link veth {QUICK}{paths} --flows 4 --outstanding 4"));
    complete(&run);
    let flows = rows(&run)[0]["flow_facts"].as_array().unwrap();
    let ports: Vec<_> = flows.iter().map(|flow| flow["local_port"].as_u64().unwrap()).collect();
    assert!(ports.len() == 4 && ports.windows(2).all(|two| two[1] == two[0] + 1), "the filter takes nobody else's: {ports:?}");
    home.hairpin(&format!("ping --link veth {QUICK} --path xdp:spin --flows 2 --threads 2")).fails(2, &["one thread, not 2"]);
}

#[test]
fn rejects_impossible_combinations_with_a_reason() {
    let home = Home::new();
    let ping = |args: &str| home.hairpin(&format!("ping {args} {QUICK}"));
    ping("--link loopback --path xdp").fails(2, &["loopback has one queue", "use veth"]);
    ping("--link loopback --path xdp:l3=off/packet").fails(2, &["xdp with l3=off", "do not speak the same"]);
    if !rings("rejects_impossible_combinations_with_a_reason") {
        return;
    }
    ping("--link veth --path xdp --size 1473").fails(2, &["1 to 1472 bytes over an MTU of 1500", "request of 1473"]);
    ping("--link veth:mtu=9000 -6 --path packet --size 8953").fails(2, &["1 to 8952 bytes"]);
    ping("--link veth --path packet:l3=off --size 1485").fails(2, &["1 to 1484 bytes"]);
    ping("--link veth --path packet:l3=off --request 10 --reply 20").fails(2, &["as many bytes as came"]);
    ping("--link veth --path xdp:queue=7").fails(1, &["hairpin", "not 7"]);
    ping("-i lo --reflector --path tcp").fails(2, &["a reflector returns Ethernet frames"]);
    ping("-i hp-none --reflector").fails(1, &["hp-none"]);
    ping("-i lo --reflector --dst-mac ff:ff:ff:ff:ff:ff").fails(1, &["never sent back"]);
}

#[test]
fn without_privileges_packet_runs_in_a_user_namespace_and_xdp_names_its_needs() {
    let name = "without_privileges_packet_runs_in_a_user_namespace_and_xdp_names_its_needs";
    if !can(name, root() && namespaces_of_nobody(), "the user nobody may not make namespaces here") {
        return;
    }
    let home = home_of_nobody();
    let done = home.as_nobody(&format!("ping --link veth {QUICK} --json --path packet:spin --path packet:spin/udp"));
    assert_eq!(done.code, Some(0), "{done:?}");
    complete(&done.json());
    home.as_nobody(&format!("ping --link veth {QUICK} --path xdp")).fails(4, &["CAP_BPF", "--path packet"]);
    home.as_nobody(&format!("ping --link loopback {QUICK} --path packet")).fails(4, &["CAP_NET_RAW", "use veth"]);
}

/// A pair of namespaces that lives as long as a slow run, for other actions meanwhile.
struct SlowRun {
    _run: Running,
    client: u32,
    server: u32,
}

impl SlowRun {
    fn new(home: &Home, path: &str, more: &str) -> SlowRun {
        let run = home.start(&format!("ping --link veth --forever --warmup 1ms --json-stream --no-store --path {path} {more}"));
        let begun = Instant::now();
        loop {
            let has =
                |pid: &u32, name| std::fs::read_to_string(format!("/proc/{pid}/net/dev")).is_ok_and(|dev| dev.contains(name));
            let workers = workers_of(run.pid());
            let find = |name| workers.iter().copied().find(|pid| has(pid, name));
            // The first progress says that both ends are up and talk.
            if let (Some(client), Some(server), true) = (find("hairpin0"), find("hairpin1"), run.out().contains("transactions")) {
                return SlowRun { _run: run, client, server };
            }
            assert!(begun.elapsed() < crate::support::LIMIT, "no pair of namespaces: {}", run.err());
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// A command inside the network namespace of a worker.
    fn inside(&self, home: &Home, worker: u32, args: &str) -> Running {
        let mut command = home.command("nsenter");
        command.args(["-t", &worker.to_string(), "-n", HAIRPIN]).args(args.split_whitespace());
        home.spawn(command)
    }
}

/// Moves the calling thread into the network namespace of a process.
fn enter(pid: u32) {
    let namespace = File::open(format!("/proc/{pid}/ns/net")).unwrap();
    move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
}

#[test]
fn a_session_in_another_namespace() {
    if !rings("a_session_in_another_namespace") {
        return;
    }
    let home = Home::new();
    let stage = SlowRun::new(&home, "udp:block", "--pace 10");
    let key = home.file("key");
    std::fs::write(&key, format!("{}\n", "0123456789abcdef".repeat(4))).unwrap();
    let key = key.display();
    let mut serve = stage.inside(&home, stage.server, &format!("serve --listen {SERVER}:24444 --key-file {key}"));
    serve.until("Ctrl-C ends it");
    let paths = each(&["xdp:spin", "packet:spin", "udp:block/xdp:block", "xdp:spin,l3=off"]);
    let done = stage.inside(&home, stage.client, &format!("ping {SERVER} --key-file {key} {QUICK} --json{paths}")).done();
    assert_eq!(done.code, Some(0), "{done:?} {}", serve.err());
    complete(&done.json());
    // Only the server knows its MTU for sure; here the client's MTU is the same.
    let long =
        stage.inside(&home, stage.client, &format!("ping {SERVER} --key-file {key} {QUICK} --path udp/xdp --size 2000")).done();
    long.fails(1, &["over an MTU of 1500"]);
}

#[test]
fn everything_else_on_the_interface_keeps_working() {
    if !rings("everything_else_on_the_interface_keeps_working") {
        return;
    }
    let home = Home::new();
    for path in ["xdp:spin", "packet:spin"] {
        let stage = SlowRun::new(&home, path, "");
        let (client, server) = (stage.client, stage.server);
        let to = SocketAddrV4::new(SERVER, 7070);
        let (ready, listening) = std::sync::mpsc::channel();
        let serving = thread::spawn(move || {
            enter(server);
            let listener = TcpListener::bind(to).unwrap();
            ready.send(()).unwrap();
            let (mut stream, _) = listener.accept().unwrap();
            let mut received = Vec::new();
            stream.read_to_end(&mut received).unwrap();
            received
        });
        listening.recv_timeout(crate::support::LIMIT).unwrap();
        let sent: Vec<u8> = (0..1_000_000u32).map(|n| (n % 251) as u8).collect();
        let content = sent.clone();
        let asking = thread::spawn(move || {
            enter(client);
            TcpStream::connect(to).unwrap().write_all(&content).unwrap();
            echo_request()
        });
        assert!(asking.join().unwrap(), "{path}: no ICMP echo reply");
        assert!(serving.join().unwrap() == sent, "{path}: what came over TCP is not what was sent");
    }
}

/// An ICMP echo request to the server (RFC 792); true if its reply comes.
fn echo_request() -> bool {
    let socket = socket(AddressFamily::INET, SocketType::RAW, Some(ipproto::ICMP)).unwrap();
    let mut message = [8, 0, 0, 0, 0x48, 0x50, 0, 1];
    let checksum = Sum::of(&message).checksum();
    message[2..4].copy_from_slice(&checksum);
    rustix::net::sockopt::set_socket_timeout(&socket, rustix::net::sockopt::Timeout::Recv, Some(Duration::from_secs(5))).unwrap();
    sendto(&socket, &message, SendFlags::empty(), &SocketAddrV4::new(SERVER, 0)).unwrap();
    let mut packet = [0; 128];
    // Behind the IP header: an echo reply with our identifier. Other ICMP may come too.
    (0..100)
        .any(|_| recv(&socket, &mut packet[..], RecvFlags::empty()).is_ok() && packet[20] == 0 && packet[24..26] == message[4..6])
}

#[test]
fn a_silent_peer_ends_the_run_in_time() {
    if !rings("a_silent_peer_ends_the_run_in_time") {
        return;
    }
    // Side by side, as they wait most of the time.
    thread::scope(|scope| {
        for path in ["xdp:spin", "packet:block"] {
            scope.spawn(move || a_stopped_server_ends_the_run(path));
        }
    });
}

fn a_stopped_server_ends_the_run(path: &str) {
    let home = Home::new();
    let mut run = home.start(&format!("ping --link veth --duration 30s --timeout 1s --warmup 1ms --json-stream --path {path}"));
    run.until("transactions");
    let server = workers_of(run.pid())
        .into_iter()
        .find(|pid| std::fs::read_to_string(format!("/proc/{pid}/net/dev")).is_ok_and(|dev| dev.contains("hairpin1")));
    let server = server.expect("the server's worker").to_string();
    assert!(Command::new("kill").args(["-STOP", &server]).status().unwrap().success());
    let begun = Instant::now();
    let done = run.done();
    assert_eq!(done.code, Some(1), "{path}: {done:?}");
    assert!(begun.elapsed() < Duration::from_secs(25), "{path}: {:?}", begun.elapsed());
    let record: Value = serde_json::from_str(done.out.lines().last().unwrap()).unwrap();
    assert!(record["error"].is_string() && rows(&record)[0]["transactions"].as_u64() > Some(0), "{path}: {}", record["error"]);
}

/// Sends back every frame of Hairpin's own framing that comes to the server's end, until told to stop.
fn bounce(server: u32, macs: bool, stop: &AtomicBool) {
    enter(server);
    let config = Config { filter: Filter::Ethertype(raw::ETHERTYPE), promiscuous: true, ..Config::default() };
    let mut device = AfPacket::open("hairpin1", &config).unwrap();
    let mut io = device.ring(0).unwrap();
    device.start().unwrap();
    let (mut arrived, mut back) = (Vec::new(), Vec::new());
    while !stop.load(Ordering::Relaxed) {
        io.rx_batch(&mut arrived, 16);
        for arrival in arrived.drain(..) {
            let mut frame = arrival.frame;
            if macs {
                ethernet::swap_macs(io.umem().clone().bytes_mut(&mut frame));
            }
            back.push(frame);
        }
        io.tx_batch(&mut back);
        io.kick(Kick::Send).unwrap();
    }
}

#[test]
fn a_reflector_returns_frames_as_they_are_or_turned_round() {
    if !rings("a_reflector_returns_frames_as_they_are_or_turned_round") {
        return;
    }
    let home = Home::new();
    let stage = SlowRun::new(&home, "udp:block", "--pace 10");
    for (macs, flags) in
        [(false, ""), (false, "--rewrite none --dst-mac 02:00:00:00:00:77"), (true, "--rewrite macs --dst-mac 02:00:00:00:00:77")]
    {
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| bounce(stage.server, macs, &stop));
            let paths = each(&["packet:spin", "xdp:spin", "packet:block"]);
            let ping = format!("ping -i hairpin0 --reflector {flags} {QUICK} --json --no-store{paths}");
            let done = stage.inside(&home, stage.client, &ping).done();
            stop.store(true, Ordering::Relaxed);
            assert_eq!(done.code, Some(0), "{flags}: {done:?}");
            let run = done.json();
            complete(&run);
            assert_eq!((&run["link"]["kind"], &run["hosts"]["server"]), (&"reflector".into(), &Value::Null));
            assert_eq!(rows(&run)[0]["path"], "packet:spin,l3=off/packet:spin,l3=off");
            assert_eq!(rows(&run)[0]["turnaround_ns"], Value::Null);
        });
    }
    // Nobody sends anything back.
    let ping = "ping -i hairpin0 --reflector --timeout 300ms --count 300 --warmup 5ms --no-store";
    stage.inside(&home, stage.client, ping).done().fails(1, &["no reply for 300.0 ms"]);
}
