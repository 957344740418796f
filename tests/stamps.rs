//! `hairpin ping --hw-stamps`: how much of a round trip is either host's and how much the wire's, with the kernel's own stamps
//! where no NIC stamps.
//!
//! ```text
//!   proof    the parts of typical round trips add up to their RTT, over every link and way of waiting
//!            the kernel's stamps lie where the hooks of `explain` lie, of the same packets
//!            a delay of known length, made in one part, makes that part longer and no other
//!            a peer that lies makes impossible ones, and one that tells nothing leaves the client's half
//! ```

mod beside_hooks;
mod between;
mod load;

use std::net::UdpSocket;
use std::time::Duration;

use hairpin_sys::host::{Host, RealHost};
use serde_json::Value;

use crate::support::alone::{self, Listed, Part};
use crate::support::net::{MAC_B, Net, apart, ip, veth};
use crate::support::{Done, Home, Running, can, home_of_nobody, links, namespaces, root, rows, two_cpus, unwrapped};
use between::{Between, Change};

pub const PART: Part = Part::new("stamps", || alone::listed(TESTS));

const TESTS: &[Listed] = &[
    ("parts_add_up_over_every_link", parts_add_up_over_every_link),
    ("parts_add_up_to_another_host", parts_add_up_to_another_host),
    ("a_ring_whose_driver_stamps_nothing_says_why", a_ring_whose_driver_stamps_nothing_says_why),
    ("a_peer_without_hairpin_leaves_the_clients_half", a_peer_without_hairpin_leaves_the_clients_half),
    ("stamps_lie_where_the_hooks_of_explain_are", beside_hooks::stamps_lie_where_the_hooks_of_explain_are),
    ("a_delay_in_the_server_is_its_turn_around", a_delay_in_the_server_is_its_turn_around),
    ("a_delay_on_the_way_is_the_wires", a_delay_on_the_way_is_the_wires),
    ("a_queue_before_the_driver_is_the_hosts", a_queue_before_the_driver_is_the_hosts),
    ("so_many_in_a_second_are_stamped", so_many_in_a_second_are_stamped),
    ("a_peer_that_lies_makes_impossible_ones", a_peer_that_lies_makes_impossible_ones),
    ("a_server_that_tells_nothing_leaves_the_clients_half", a_server_that_tells_nothing_leaves_the_clients_half),
    ("without_privilege_it_is_the_same", without_privilege_it_is_the_same),
    ("ctrl_c_keeps_the_split", ctrl_c_keeps_the_split),
    ("every_form_has_the_split", every_form_has_the_split),
    ("wrong_input_is_refused_in_words", wrong_input_is_refused_in_words),
    ("each_rate_has_its_split", load::each_rate_has_its_split),
    ("every_form_of_a_load_has_the_split", load::every_form_of_a_load_has_the_split),
    ("a_load_that_cannot_be_stamped_is_refused", load::a_load_that_cannot_be_stamped_is_refused),
];

const SHORT: &str = "--hw-stamps --duration 500ms --warmup 20ms";
/// The parts of a round trip that add up, in its order.
const PARTS: [&str; 6] = ["client-out", "wire", "server-in", "turn-around", "server-out", "client-in"];

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("no number: {value}"))
}

fn part<'a>(split: &'a Value, name: &str) -> Option<&'a Value> {
    split["parts"].as_array().expect("parts").iter().find(|part| part["part"] == name)
}

/// The mean of a part over typical round trips.
#[track_caller]
fn typical(split: &Value, name: &str) -> f64 {
    number(&part(split, name).unwrap_or_else(|| panic!("no {name} in {split}"))["typical_ns"])
}

/// The splits of a run, by the kernel's own stamps of both hosts. The kernel begins to stamp from a work queue, which a very busy
/// host leaves until the run is over; then this measures again, for longer.
fn splits(home: &Home, args: &str) -> Vec<Value> {
    let measured = |ms: u32| rows(&home.json(&format!("ping --hw-stamps --duration {ms}ms --warmup 20ms {args}"))).to_vec();
    let all = [500, 1_000].into_iter().map(measured).find(|rows| rows.iter().all(are_stamped));
    let all = all.unwrap_or_else(|| measured(3_000));
    all.iter().for_each(whole);
    all.iter().map(|row| row["split"].clone()).collect()
}

/// At most one transaction in fifty lacks its stamps, as many are beyond them, and neither side was without them for the whole run.
fn are_stamped(row: &Value) -> bool {
    let (counts, stamps) = (&row["split"]["counts"], row["split"]["stamps"].as_array().expect("stamps"));
    let none_came = stamps.iter().any(|way| way["layer"] == "none");
    let most = number(&counts["transactions"]) / 50.0;
    // A segment that is sent again is stamped again.
    let beyond = number(&counts["twice"]) + number(&counts["unknown"]);
    number(&counts["complete"]) > 0.0 && number(&counts["missing"]) <= most && beyond <= most.max(2.0) && !none_came
}

/// The parts add up, hardly any transaction is missing, and none is impossible.
#[track_caller]
fn whole(row: &Value) {
    let (path, split) = (&row["path"], &row["split"]);
    let counts = &split["counts"];
    let [all, complete, missing, impossible] =
        ["transactions", "complete", "missing", "impossible"].map(|name| number(&counts[name]));
    assert!(are_stamped(row) && impossible == 0.0, "{path}: {counts} {}", split["impossible"]);
    assert_eq!(complete + missing, all, "{path}: {counts}");
    let rtt = number(&split["typical"]["rtt_ns"]);
    let sum: f64 = PARTS.iter().map(|name| typical(split, name)).sum();
    assert!((sum / rtt - 1.0).abs() < 1e-6, "{path}: {sum} is not {rtt}");
    for (name, of) in [("client", &["client-out", "client-in"][..]), ("server", &["server-in", "turn-around", "server-out"])] {
        let parts: f64 = of.iter().map(|part| typical(split, part)).sum();
        assert!((parts - typical(split, name)).abs() < 1e-6 * rtt, "{path}: {name} is not {parts}");
    }
    for part in split["parts"].as_array().expect("parts") {
        assert_eq!(part["ns"]["count"], counts["complete"], "{path}: {part}");
    }
    for of in split["stamps"].as_array().expect("stamps") {
        assert_eq!((&of["layer"], &of["hardware"]), (&"software".into(), &0.into()), "{path}: {of}");
        let known = ["no stamp of a NIC came", "has no stamps of a device (SIOCGHWTSTAMP)"];
        assert!(of["why"].as_str().is_some_and(|why| known.iter().any(|known| why.contains(known))), "{path}: {of}");
    }
    // The row's own figures are of the blocks without stamps.
    assert!(number(&row["transactions"]) > 0.0 && number(&split["blocks"]) > 0.0, "{path}");
}

fn parts_add_up_over_every_link(name: &str) -> bool {
    if !can(name, links(), "this user may not make namespaces here") {
        return false;
    }
    let home = Home::new();
    let paths = [
        "udp:block",
        "udp:poll",
        "udp:epoll",
        "udp:spin",
        "udp:adaptive",
        "udp:spin/block",
        "tcp:block",
        "tcp:epoll",
        "tcp:spin",
    ];
    let paths = paths.map(|path| format!("--path {path}")).join(" ");
    for link in ["veth", "loopback"] {
        assert_eq!(splits(&home, &format!("{link} {paths}")).len(), 9);
    }
    // Messages in several writes, in several packets, over IPv6, on a schedule.
    splits(&home, "veth --path tcp:spin,writes=3 --path tcp:block,quickack=on --request 5000 --reply 40");
    splits(&home, "veth -6 --path udp:spin --path tcp:spin");
    splits(&home, "veth --path udp:block --rate 2000");
    // Frames of our own, and those in the shape of PTP.
    splits(&home, "veth --path packet:spin --path packet:block --path udp:spin/packet:spin --path packet:spin,l3=off");
    splits(&home, "veth --path packet:spin --probe-shape ptp --rate 2000");
    splits(&home, "veth -6 --path packet:adaptive/udp:spin");
    true
}

fn a_ring_whose_driver_stamps_nothing_says_why(name: &str) -> bool {
    if !can(name, namespaces(), "rings need root") {
        return false;
    }
    let home = Home::new();
    let run = home.json(&format!("ping veth {SHORT} --path xdp:spin,mode=generic"));
    let row = &rows(&run)[0];
    assert!(number(&row["transactions"]) > 0.0 && number(&row["split"]["counts"]["missing"]) > 0.0, "{row}");
    let whys: Vec<&str> = row["split"]["stamps"].as_array().expect("stamps").iter().filter_map(|of| of["why"].as_str()).collect();
    for (at, part) in ["in copy mode the kernel alone", "generic XDP has no device", "generic XDP has no device", "in copy mode"]
        .iter()
        .enumerate()
    {
        assert!(whys[at].contains(part), "{whys:?}");
    }
    let options: Vec<&str> = row["granted"].as_array().expect("granted").iter().filter_map(|of| of["option"].as_str()).collect();
    assert!(options.iter().all(|option| !option.starts_with("stamps")), "told once: {options:?}");
    true
}

/// The client's half is whole, and nothing is known of the other.
#[track_caller]
fn half(home: &Home, args: &str) {
    let done = home.hairpin(&format!("ping {args} {SHORT} --json"));
    assert_eq!(done.code, Some(0), "{done:?}");
    let split = rows(&done.json())[0]["split"].clone();
    assert!(number(&split["counts"]["complete"]) > 0.0 && number(&split["counts"]["impossible"]) == 0.0, "{args}: {split}");
    let parts: Vec<&str> = split["parts"].as_array().expect("parts").iter().filter_map(|part| part["part"].as_str()).collect();
    assert_eq!(parts, ["client-out", "client-in", "client", "beyond"], "{args}");
    assert!(split["stamps"][2]["why"].as_str().is_some_and(|why| why == "it runs no hairpin"), "{split}");
}

fn a_peer_without_hairpin_leaves_the_clients_half(name: &str) -> bool {
    if !can(name, namespaces(), "a reflector needs root") {
        return false;
    }
    let home = Home::new();
    let echo = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let port = echo.local_addr().expect("its address").port();
    std::thread::spawn(move || {
        let mut bytes = [0; 2048];
        while let Ok((len, from)) = echo.recv_from(&mut bytes) {
            let _ = echo.send_to(&bytes[..len], from);
        }
    });
    half(&home, &format!("echo:127.0.0.1:{port} --path udp:spin"));
    apart(move || {
        let net = Net::new();
        net.enter();
        veth("a0", "b0");
        let mut bouncer = home.start("bounce b0 --path packet:spin --filter ethertype:0x88f7");
        bouncer.until("Ctrl-C ends it");
        std::thread::sleep(Duration::from_millis(100));
        let to = MAC_B.map(|byte| format!("{byte:02x}")).join(":");
        half(&home, &format!("frames:a0 --dst-mac {to} --rewrite macs --path packet:spin --probe-shape ptp"));
        bouncer.signal("INT");
        bouncer.done();
    });
    true
}

fn parts_add_up_to_another_host(_: &str) -> bool {
    let home = Home::new();
    let (_serve, address) = home.serve("");
    for _ in 0..2 {
        assert_eq!(splits(&home, &format!("{address} --path udp:spin --path tcp:block --path udp:poll")).len(), 3);
    }
    // And then a row without.
    let run = home.json(&format!("ping {address} --path udp --count 200 --warmup 5ms"));
    assert!(rows(&run)[0]["split"].is_null() && rows(&run)[0]["transactions"] == 200);
    true
}

/// Tolerances as shares of the delay: for the part in which it was made, and for the growth of any other.
const NEAR: f64 = 0.1;
const OTHERS: f64 = 0.15;

/// These parts grew together by `delay_ns`, and no other did.
fn holds(parts: &[&str], delay_ns: f64, grown: &[f64; 6]) -> bool {
    let (of, others): (Vec<_>, Vec<_>) = PARTS.iter().zip(grown).partition(|(name, _)| parts.contains(name));
    let sum: f64 = of.iter().map(|(_, ns)| **ns).sum();
    (sum / delay_ns - 1.0).abs() <= NEAR && others.iter().all(|(_, ns)| ns.abs() <= OTHERS * delay_ns)
}

/// Runs without and with a delay in turn: in the median of three rounds, `parts` grow by `delay_ns` of the RTT without a delay,
/// and no other part does. The median lies between any two of the rounds, so two may be enough.
#[track_caller]
fn only(parts: &[&str], delay_ns: impl Fn(f64) -> f64, without: impl Fn() -> Value, with: impl Fn() -> Value) {
    // Cores that sleep for longer wake more slowly. A host without a cpuidle driver takes no notice, or has no such file.
    let _awake = RealHost.hold("/dev/cpu_dma_latency", &0i32.to_ne_bytes()).ok();
    let round = || {
        let (bare, delayed) = (without(), with());
        (PARTS.map(|name| typical(&delayed, name) - typical(&bare, name)), number(&bare["typical"]["rtt_ns"]))
    };
    let mut rounds = vec![round(), round()];
    let (one, other) = (rounds[0].0, rounds[1].0);
    let least: [f64; 6] = std::array::from_fn(|at| one[at].min(other[at]));
    let most: [f64; 6] = std::array::from_fn(|at| one[at].max(other[at]));
    if !rounds.iter().all(|(_, bare)| [least, most].iter().all(|grown| holds(parts, delay_ns(*bare), grown))) {
        rounds.push(round());
    }
    let middle = |mut all: Vec<f64>| {
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    };
    let grown: [f64; 6] = std::array::from_fn(|at| middle(rounds.iter().map(|(grown, _)| grown[at]).collect()));
    let delay_ns = delay_ns(middle(rounds.iter().map(|(_, bare)| *bare).collect()));
    println!("stamps: {parts:?}: {delay_ns:.0} ns more were made, and {grown:.0?} seen in {PARTS:?}, {} rounds", rounds.len());
    assert!(holds(parts, delay_ns, &grown), "{parts:?}: made were {delay_ns} ns, and {grown:.0?} seen in {PARTS:?}");
}

const APART: &str = "--cpu 0,1 --sched fifo:50";

fn a_delay_in_the_server_is_its_turn_around(name: &str) -> bool {
    if !can(name, namespaces() && two_cpus(), "SCHED_FIFO and namespaces need root, and the two sides take CPUs 0 and 1") {
        return false;
    }
    let home = Home::new();
    let run = |path: &str| splits(&home, &format!("veth {APART} --path {path}")).remove(0);
    for path in ["udp:block", "tcp:block"] {
        only(&["turn-around"], |_| 500_000.0, || run(path), || run(&format!("{path},delay=500000")));
    }
    true
}

/// Ethernet, IPv4 and UDP headers and 64 bytes, as a token bucket on veth counts them.
const FRAME_BITS: f64 = 8.0 * (14.0 + 20.0 + 8.0 + 64.0);
/// Of `tc qdisc`: two whole frames at once, and then a frame every 848 us.
const BUCKET: &str = "root tbf rate 1mbit burst 3028 limit 20000";

/// Two hosts with a router between them; this thread is on the client's.
struct Routed {
    nets: [Net; 3],
    _serve: Running,
}

impl Routed {
    fn new(home: &Home) -> Routed {
        let nets = [(); 3].map(|()| Net::new());
        let [client, router, server] = &nets;
        router.enter();
        ip(&format!("link add near type veth peer name left netns {}", client.pid()));
        ip(&format!("link add far type veth peer name right netns {}", server.pid()));
        for (end, address) in [("near", "198.18.1.1/24"), ("far", "198.18.2.1/24")] {
            ip(&format!("address add {address} dev {end}"));
            ip(&format!("link set {end} up"));
        }
        // Of the namespace that this thread is in.
        std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").expect("forwarding");
        for (net, end, host) in [(server, "right", "198.18.2"), (client, "left", "198.18.1")] {
            net.enter();
            ip("link set lo up");
            ip(&format!("address add {host}.2/24 dev {end}"));
            ip(&format!("link set {end} up"));
            ip(&format!("route add default via {host}.1"));
        }
        std::fs::write(home.file("key"), "7".repeat(64)).expect("a key");
        server.enter();
        let mut serve = home.start("serve --listen 198.18.2.2:24444 --key-file key --allow-sched fifo:50");
        serve.until("Ctrl-C ends it");
        client.enter();
        Routed { nets, _serve: serve }
    }

    /// Runs tc(8) on the router.
    fn tc(&self, args: &str) {
        let [client, router, _] = &self.nets;
        router.enter();
        let done = std::process::Command::new("tc").args(args.split_whitespace()).status().expect("tc of iproute2");
        assert!(done.success(), "tc {args}");
        client.enter();
    }
}

fn a_delay_on_the_way_is_the_wires(name: &str) -> bool {
    if !can(name, namespaces() && two_cpus(), "namespaces need root, and the two sides take CPUs 0 and 1") {
        return false;
    }
    let home = Home::new();
    let routed = Routed::new(&home);
    let run = || splits(&home, &format!("198.18.2.2 --key-file key {APART} --path udp:block")).remove(0);
    for (end, whose) in [("far", "requests"), ("near", "replies")] {
        let with = || {
            routed.tc(&format!("qdisc add dev {end} {BUCKET}"));
            let split = run();
            routed.tc(&format!("qdisc del dev {end} root"));
            split
        };
        println!("stamps: {whose} wait on the router");
        // A round trip takes as long as the bucket takes to fill; its own time lies within that.
        only(&["wire"], |bare| FRAME_BITS * 1_000.0 - bare, run, with);
    }
    true
}

fn a_queue_before_the_driver_is_the_hosts(name: &str) -> bool {
    if !can(name, namespaces() && two_cpus(), "SCHED_FIFO and namespaces need root, and the two sides take CPUs 0 and 1") {
        return false;
    }
    let home = Home::new();
    let run = |link: &str| splits(&home, &format!("{link} {APART} --path udp:block")).remove(0);
    // Both ends have a bucket, and a message waits at either.
    only(&["client-out", "server-out"], |bare| FRAME_BITS * 1_000.0 - bare, || run("veth"), || run("veth:rate=1M"));
    true
}

fn so_many_in_a_second_are_stamped(name: &str) -> bool {
    if !can(name, links(), "this user may not make namespaces here") {
        return false;
    }
    let home = Home::new();
    for path in ["udp:spin", "tcp:spin", "tcp:spin,writes=2"] {
        let run = home.json(&format!("ping veth --hw-stamps=500/s --duration 1s --warmup 20ms --path {path}"));
        let row = &rows(&run)[0];
        whole(row);
        let split = &row["split"];
        let (every, stamped) = (number(&split["every"]), number(&split["counts"]["transactions"]));
        assert!(every > 1.0, "{path}: {every}");
        // At most 500 in the second that the run takes; it is stamped half of the time.
        assert!((1.0..=500.0).contains(&stamped), "{path}: {stamped}, one in {every}");
    }
    true
}

fn a_peer_that_lies_makes_impossible_ones(_: &str) -> bool {
    let home = Home::new();
    let (_serve, address) = home.serve("");
    // Every second half says that the server took longer than the whole RTT, and one that the request went out before it came in.
    let lies = |half: &mut Value, at: usize| match at % 4 {
        0 => half[3][2] = 3_000_000_000_000_i64.into(),
        2 => half[3][3] = (-5).into(),
        _ => {}
    };
    let between = Between::new(&address, Change::Halves(Box::new(lies)));
    let run = home.json(&format!("ping {} {SHORT} --path udp:spin", between.address()));
    let row = &rows(&run)[0];
    let (split, counts) = (&row["split"], &row["split"]["counts"]);
    let [all, complete, impossible] = ["transactions", "complete", "impossible"].map(|name| number(&counts[name]));
    assert!((impossible / all - 0.5).abs() < 0.1 && complete > 0.0, "{counts}");
    let listed = split["impossible"].as_array().expect("a list");
    assert_eq!(listed.len(), 16);
    assert!(listed.iter().any(|one| one["part"] == "wire") && listed.iter().any(|one| one["part"] == "server-in"), "{listed:?}");
    assert!(listed.iter().all(|one| number(&one["ns"]) < 0.0), "{listed:?}");
    // The others are as true as without the lies.
    let sum: f64 = PARTS.iter().map(|name| typical(split, name)).sum();
    assert!((sum / number(&split["typical"]["rtt_ns"]) - 1.0).abs() < 1e-6, "{split}");
    assert!(number(&part(split, "server").expect("it")["ns"]["max"]) < 1e12, "{split}");
    let shown = home.hairpin("runs show latest -v");
    assert!(shown.code == Some(0) && shown.out.contains("Impossible"), "{shown:?}");
    true
}

fn a_server_that_tells_nothing_leaves_the_clients_half(_: &str) -> bool {
    let home = Home::new();
    let (_serve, address) = home.serve("");
    let between = Between::new(&address, Change::Earlier);
    let done = home.hairpin(&format!("ping {} {SHORT} --path udp:spin --path tcp:block --json", between.address()));
    assert_eq!(done.code, Some(0), "{done:?}");
    for row in rows(&done.json()) {
        let split = &row["split"];
        assert!(number(&split["counts"]["complete"]) > 0.0, "{split}");
        for known in ["client-out", "client-in", "client", "beyond"] {
            assert!(part(split, known).is_some(), "no {known} in {split}");
        }
        assert!(["wire", "server", "turn-around", "hosts"].iter().all(|name| part(split, name).is_none()), "{split}");
        let servers = split["stamps"].as_array().expect("stamps").iter().filter(|of| of["side"] == "server");
        for of in servers {
            assert!(of["layer"] == "none" && of["why"].as_str().is_some_and(|why| why.contains("earlier version")), "{of}");
        }
    }
    let shown = home.hairpin(&format!("ping {} {SHORT} --path udp:spin", between.address()));
    assert!(shown.out.contains("the client's host") && shown.out.contains("earlier version"), "{shown:?}");
    true
}

fn without_privilege_it_is_the_same(name: &str) -> bool {
    if !can(name, root(), "only root can become somebody without privileges") {
        return false;
    }
    let done = home_of_nobody().as_nobody(&format!("ping loopback {SHORT} --path udp:spin --path tcp:block --json"));
    assert_eq!(done.code, Some(0), "{done:?}");
    rows(&done.json()).iter().for_each(whole);
    true
}

fn ctrl_c_keeps_the_split(_: &str) -> bool {
    let home = Home::new();
    let ended_after = |seconds: u64| {
        let run = home.start("ping loopback --hw-stamps --duration 30s --path udp:block --json");
        std::thread::sleep(Duration::from_secs(seconds));
        run.signal("INT");
        run.done()
    };
    // Later on a busy host, and where the kernel begins to stamp late.
    let is_enough = |done: &Done| done.code == Some(0) && are_stamped(&rows(&done.json())[0]);
    let done = Some(ended_after(1)).filter(is_enough).unwrap_or_else(|| ended_after(3));
    assert_eq!(done.code, Some(0), "{done:?}");
    let record = done.json();
    assert_eq!(record["interrupted"], true);
    whole(&rows(&record)[0]);
    true
}

fn every_form_has_the_split(_: &str) -> bool {
    let home = Home::new();
    let out = |line: &str| {
        let done = home.hairpin(line);
        assert_eq!(done.code, Some(0), "{done:?}");
        done.out
    };
    let short = unwrapped(&out(&format!("ping loopback {SHORT} --path udp:spin")));
    for part in
        ["are the hosts: client ", ", server ", "wire and network", "driver and stack, so the NICs' own time counts as wire"]
    {
        assert!(short.contains(part), "no \"{part}\" in {short}");
    }
    let full = out("runs show latest -v");
    for part in ["client-out", "turn-around", "= hosts", " complete, ", "client, out: software"] {
        assert!(full.contains(part), "no \"{part}\" in {full}");
    }
    assert!(full.lines().all(|line| line.chars().count() <= 80), "{full}");
    assert!(out("runs show latest --format md").contains("| = hosts"));
    let csv = out("runs show latest --format csv");
    let mut lines = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let (names, values) = (lines.next().expect("names"), lines.next().expect("values"));
    let value = |name: &str| values[names.iter().position(|known| *known == name).unwrap_or_else(|| panic!("no {name}"))];
    assert!(value("split_wire_p50_ns").parse::<u64>().is_ok() && value("split_stamps_server") == "software", "{csv}");
    true
}

fn wrong_input_is_refused_in_words(_: &str) -> bool {
    let home = Home::new();
    for (args, parts) in [
        ("loopback --hw-stamps --path udp:spin --flows 2", &["--hw-stamps follows one request at a time"][..]),
        ("loopback --hw-stamps --path udp --outstanding 4", &["--hw-stamps follows one request at a time"]),
        ("loopback --hw-stamps --path unix", &["unix has no stamps of driver and NIC", "takes tcp, udp, packet or xdp"]),
        ("loopback --hw-stamps --path udp/uring-udp", &["uring-udp has no stamps of driver and NIC"]),
        ("loopback --hw-stamps --path udp --size 2", &["takes 4 bytes, not 2"]),
        ("loopback --hw-stamps --path udp --count 100", &["give it a --duration of 0.5 s or more, and no --count"]),
        ("loopback --hw-stamps --path udp --duration 400ms", &["give it a --duration of 0.5 s or more"]),
        ("loopback --hw-stamps --path udp --path tcp --for 900ms", &["give it a --duration of 0.5 s or more"]),
        ("loopback --hw-stamps --path udp --raw x.parquet", &["--raw has every sample"]),
        ("loopback --probe-shape ptp --path udp", &["udp sends no frames of its own", "--probe-shape takes packet or xdp"]),
        ("loopback --probe-shape ptp --path packet --size 27", &["payloads of 28 bytes or more, not 27"]),
        ("loopback --probe-shape ntp --path packet", &["'ntp'", "[possible values: ptp]"]),
        ("loopback --hw-stamps=often", &["\"often\" is not a rate", "--hw-stamps=1000/s"]),
    ] {
        home.hairpin(&format!("ping {args}")).fails(2, parts);
    }
    true
}
