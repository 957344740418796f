//! Two workers, each in an unnamed network namespace, joined by a veth pair: as root, and as a user without privileges.
//!
//! ```text
//!   each test, one thread ──spawns──► this program as worker "first"  ◄──veth──► itself as worker "second"
//!         └── one command a line on stdin, one answer a line on stdout ──┘
//! ```

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, ExitCode, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use std::{fs, io};

use hairpin_sys::ethtool::Ethtool;
use hairpin_sys::netlink::{Netlink, QuickAck, Tbf, VethConfig};
use hairpin_sys::netns::{self, Support, Sysfs};
use hairpin_units::{BitRate, Bytes};

use crate::alone::{self, Ended, Part, Test};

type Outcome<T = ()> = Result<T, String>;

const FIRST: &str = "hp-first";
const SECOND: &str = "hp-second";
/// The user "nobody" of all common distributions, to try namespaces without privileges when the tests run as root.
const NOBODY: u32 = 65534;
const TIMEOUT: Duration = Duration::from_secs(5);

/// The user that the workers run as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum As {
    /// Root, without a user namespace.
    Root,
    /// The user who runs the tests, in a user namespace.
    Caller,
    /// The user nobody, in a user namespace.
    Nobody,
}

type Case = (&'static str, fn(As) -> Outcome);

pub const PART: Part = Part::new("namespaces", tests).playing(|arguments| matches!(arguments, ["worker"]).then(worker));

const TESTS: &[Case] = &[
    ("a pair carries datagrams over IPv4 and IPv6", a_pair_carries_datagrams),
    ("a route names interface and source, a neighbour its MAC", a_route_names_interface_and_source),
    ("quickack changes the routes of its own link only", quickack_changes_its_own_link_only),
    ("mtu and queues are as asked at both ends", mtu_and_queues_are_as_asked),
    ("gro and tso follow and are read back", gro_and_tso_follow),
    ("a rate is reported and kept", a_rate_is_reported_and_kept),
    ("a sysctl changes in its namespace only", a_sysctl_changes_in_its_namespace_only),
    ("sysfs shows the own devices only", sysfs_shows_the_own_devices_only),
    ("a refusal names operation, interface and the kernel's reason", a_refusal_names_the_kernels_reason),
    ("killed workers leave nothing, whenever they are killed", killed_workers_leave_nothing),
];

/// Every test as root and as a user without privileges.
fn tests() -> Vec<Test> {
    let whose: &[As] = match netns::can_make() {
        Support::Privileged => &[As::Root, As::Nobody],
        _ => &[As::Caller],
    };
    let of = |who: &As| {
        let who = *who;
        TESTS.iter().map(move |(name, test)| Test::new(format!("{who:?}: {name}"), move |_| run(who, *test)))
    };
    whose.iter().flat_map(of).collect()
}

fn run(who: As, test: fn(As) -> Outcome) -> Ended {
    if let Support::No(reason) = netns::can_make() {
        return Ended::Skipped(Some(reason.to_string()));
    }
    match Worker::start(who).and_then(|mut worker| worker.enter()) {
        Ok(()) => test(who).into(),
        Err(reason) => Ended::Skipped(Some(reason)),
    }
}

// ---- the tests ---------------------------------------------------------------------------------------------------------

fn a_pair_carries_datagrams(who: As) -> Outcome {
    let (mut first, mut second) = linked(who, 1500, 1)?;
    for (client, server) in [("198.18.0.1:0", "198.18.0.2:7007"), ("[2001:2::1]:0", "[2001:2::2]:7007")] {
        second.ask(&format!("bind {server}"))?;
        first.send(&format!("ping {client} {server}"))?;
        equal("echoed bytes", second.ask("echo")?.as_str(), "64")?;
        equal("returned bytes", first.answer()?.as_str(), "64")?;
    }
    // Netlink and ethtool have started none: a measuring process has one thread.
    equal("threads", first.ask("list /proc/self/task")?, first.pid().to_string())
}

fn a_route_names_interface_and_source(who: As) -> Outcome {
    let (mut first, mut second) = linked(who, 1500, 1)?;
    let theirs = second.ask(&format!("mac {SECOND}"))?;
    for (ours, peer, far) in [("198.18.0.1", "198.18.0.2", "203.0.113.9"), ("2001:2::1", "2001:2::2", "2001:db8::9")] {
        equal("route", first.ask(&format!("route {peer}"))?, format!("{FIRST} via - from {ours}"))?;
        // The kernel adds the local route of an IPv6 address a moment after the address.
        let (own, expected, give_up) =
            (format!("route {ours}"), format!("lo via - from {ours}"), Instant::now() + Duration::from_secs(2));
        while first.ask(&own)? != expected && Instant::now() < give_up {}
        equal("route to oneself", first.ask(&own)?, expected)?;
        contains(&first.ask(&format!("route {far}")).err().ok_or("there is a route")?, "cannot find the route to")?;
        equal("neighbour at first", first.ask(&format!("neighbour {FIRST} {peer}"))?.as_str(), "-")?;
        let (client, server) = if peer.contains(':') {
            (format!("[{ours}]:0"), format!("[{peer}]:7009"))
        } else {
            (format!("{ours}:0"), format!("{peer}:7009"))
        };
        second.ask(&format!("bind {server}"))?;
        first.send(&format!("ping {client} {server}"))?;
        second.ask("echo")?;
        first.answer()?;
        equal("neighbour", first.ask(&format!("neighbour {FIRST} {peer}"))?, theirs.clone())?;
    }
    Ok(())
}

fn quickack_changes_its_own_link_only(who: As) -> Outcome {
    let (mut first, mut second) = linked(who, 1500, 1)?;
    first.ask(&format!("pair-named hp-third hp-fourth {} 1500 1", second.pid()))?;
    second.ask("up hp-fourth")?;
    first.ask("up hp-third")?;
    // The first network is that of the other link, too.
    for address in ["198.18.0.3", "198.18.4.1"] {
        first.ask(&format!("address hp-third {address} 24"))?;
    }
    let refusal = first.ask("quickack hp-third 198.18.0.0/24 on").err().ok_or("the other link's route may have been changed")?;
    contains(&refusal, "cannot change the route to 198.18.0.0/24 over hp-third: another link has one with the same metric")?;
    contains(&first.ask("quickack hp-third 198.18.5.0/24 on").err().ok_or("there is a route")?, "there is none")?;
    first.ask("quickack hp-third 198.18.4.0/24 on")?;
    equal("routes", first.ask("quickacks hp-third")?.as_str(), "198.18.0.0/24=off 198.18.4.0/24=on")?;
    equal("the other link's", first.ask(&format!("quickacks {FIRST}"))?.as_str(), "198.18.0.0/24=off")?;
    first.ask("quickack hp-third 198.18.4.0/24 off")?;
    equal("routes at the end", first.ask("quickacks hp-third")?.as_str(), "198.18.0.0/24=off 198.18.4.0/24=off")
}

fn mtu_and_queues_are_as_asked(who: As) -> Outcome {
    let (mut first, mut second) = linked(who, 9000, 2)?;
    for (worker, name) in [(&mut first, FIRST), (&mut second, SECOND)] {
        equal("link", worker.ask(&format!("link {name}"))?.as_str(), "mtu 9000 tx 2 rx 2 up true carrier true kind veth")?;
        equal("driver", worker.ask(&format!("driver {name}"))?.as_str(), "veth")?;
        equal("rx queues in use", worker.ask(&format!("channels {name}"))?.as_str(), "2")?;
    }
    Ok(())
}

fn gro_and_tso_follow(who: As) -> Outcome {
    let (mut first, _second) = linked(who, 1500, 1)?;
    for (gro, tso) in [("on", "off"), ("off", "on"), ("on", "off")] {
        first.ask(&format!("gro {FIRST} {gro}"))?;
        first.ask(&format!("tso {FIRST} {tso}"))?;
        equal("offloads", first.ask(&format!("offloads {FIRST}"))?, format!("gro {gro} tso {tso}"))?;
    }
    Ok(())
}

fn a_rate_is_reported_and_kept(who: As) -> Outcome {
    let (mut first, mut second) = linked(who, 1500, 1)?;
    equal("qdisc at first", first.ask(&format!("qdisc {FIRST}"))?.as_str(), "noqueue -")?;
    first.ask(&format!("rate {FIRST} 10000000 3028 200000"))?;
    equal("qdisc", first.ask(&format!("qdisc {FIRST}"))?.as_str(), "tbf 10000000")?;
    // 60 datagrams of 1442 bytes of frame at 10 Mbit/s take 69 ms, less the two that the bucket lets through at once.
    second.ask("bind 198.18.0.2:7008")?;
    second.send("drain 60")?;
    first.ask("flood 198.18.0.2:7008 60 1400")?;
    let took: u64 = second.answer()?.parse().map_err(|e| format!("no duration: {e}"))?;
    if took < 60_000 {
        return Err(format!("60 datagrams came in {took} us: the link is faster than 10 Mbit/s"));
    }
    // The fastest rate that 32 bits of bytes per second cannot hold.
    second.ask(&format!("rate {SECOND} 100000000000 1000000 2000000"))?;
    equal("fast qdisc", second.ask(&format!("qdisc {SECOND}"))?.as_str(), "tbf 100000000000")
}

fn a_sysctl_changes_in_its_namespace_only(who: As) -> Outcome {
    let read = || fs::read_to_string("/proc/sys/net/ipv4/tcp_timestamps").map_err(|e| e.to_string());
    let (mut first, mut second) = linked(who, 1500, 1)?;
    let host = read()?;
    let fresh = second.ask("read /proc/sys/net/ipv4/tcp_timestamps")?;
    first.ask("sysctl net.ipv4.tcp_timestamps 0")?;
    equal("own value", first.ask("read /proc/sys/net/ipv4/tcp_timestamps")?.as_str(), "0")?;
    equal("the other's value", second.ask("read /proc/sys/net/ipv4/tcp_timestamps")?, fresh)?;
    equal("the host's value", read()?, host)?;
    for (name, words) in [("net.ipv4.no_such_thing", "cannot set"), ("kernel.panic", "is not a network sysctl")] {
        let refusal = first.ask(&format!("sysctl {name} 0")).err().ok_or_else(|| format!("{name} was set"))?;
        contains(&refusal, words)?;
    }
    Ok(())
}

fn sysfs_shows_the_own_devices_only(who: As) -> Outcome {
    let (mut first, mut second) = linked(who, 1500, 2)?;
    for (worker, name) in [(&mut first, FIRST), (&mut second, SECOND)] {
        equal("devices", worker.ask("list /sys/class/net")?, format!("{name} lo"))?;
        equal("queues", worker.ask(&format!("list /sys/class/net/{name}/queues"))?.as_str(), "rx-0 rx-1 tx-0 tx-1")?;
    }
    Ok(())
}

fn a_refusal_names_the_kernels_reason(who: As) -> Outcome {
    let (mut first, second) = linked(who, 1500, 1)?;
    let mut refusal = |command: String| first.ask(&command).err().ok_or_else(|| format!("\"{command}\" was not refused"));
    contains(&refusal(format!("pair {} 1500 1", second.pid()))?, "cannot create veth hp-first: File exists")?;
    contains(&refusal(format!("address {FIRST} 198.18.0.1 24"))?, "cannot add an address to hp-first: File exists")?;
    contains(&refusal("up hp-none".to_owned())?, "cannot set up hp-none: No such device")?;
    let queues = refusal(format!("pair-named hp-wide hp-wider {} 1500 100000", second.pid()))?;
    contains(&queues, "cannot create veth hp-wide: Invalid argument")?;
    contains(&queues, "(kernel: ")?;
    contains(&refusal("pair-named hp-lone hp-lost 999999999 1500 1".to_owned())?, "cannot create veth hp-lone: No such process")
}

fn killed_workers_leave_nothing(who: As) -> Outcome {
    let before = Remains::now()?;
    // A kill after each whole stage, then kills that fall at different points into making the pair.
    for stages in 0..=4 {
        let (mut first, mut second) = (Worker::start(who)?, Worker::start(who)?);
        for stage in 0..stages {
            match stage {
                0 => first.enter()?,
                1 => second.join(&first)?,
                2 => first.pair(&second, 1500, 2)?,
                _ => bring_up(&mut first, &mut second)?,
            }
        }
        before.equal_after_killing(first, second)?;
    }
    for delay in (0..2000).step_by(200) {
        let (mut first, mut second) = (Worker::start(who)?, Worker::start(who)?);
        first.enter()?;
        second.join(&first)?;
        first.send(&format!("pair {} 1500 2", second.pid()))?;
        sleep(Duration::from_micros(delay));
        before.equal_after_killing(first, second)?;
    }
    Ok(())
}

/// Traces that workers could leave in the namespace that they came from.
#[derive(Debug, PartialEq, Eq)]
struct Remains {
    links: Vec<String>,
    sysfs_mounts: usize,
    named_namespaces: usize,
}

impl Remains {
    fn now() -> Outcome<Remains> {
        let netlink = Netlink::open().map_err(|e| e.to_string())?;
        let mounts = fs::read_to_string("/proc/self/mountinfo").map_err(|e| e.to_string())?;
        Ok(Remains {
            links: netlink.links().map_err(|e| e.to_string())?.into_iter().map(|l| format!("{} {}", l.index, l.name)).collect(),
            sysfs_mounts: mounts.lines().filter(|line| line.contains(" - sysfs ")).count(),
            named_namespaces: fs::read_dir("/run/netns").map_or(0, Iterator::count),
        })
    }

    fn equal_after_killing(&self, first: Worker, second: Worker) -> Outcome {
        let namespaces = [first.network_namespace(), second.network_namespace()];
        let own = network_namespace("self");
        drop((first, second));
        equal("what is left", &Remains::now()?, self)?;
        // A namespace lives as long as a process is in it: none may be.
        let processes = fs::read_dir("/proc").map_err(|e| e.to_string())?;
        for process in processes.flatten() {
            let inside = network_namespace(&process.file_name().to_string_lossy());
            if inside.is_some() && inside != own && namespaces.contains(&inside) {
                return Err(format!("process {:?} is still in a worker's namespace", process.file_name()));
            }
        }
        Ok(())
    }
}

fn network_namespace(pid: &str) -> Option<String> {
    fs::read_link(format!("/proc/{pid}/ns/net")).ok().map(|link| link.display().to_string())
}

fn equal<T: PartialEq + std::fmt::Debug>(what: &str, found: T, expected: T) -> Outcome {
    if found == expected { Ok(()) } else { Err(format!("{what}: found {found:?}, expected {expected:?}")) }
}

fn contains(text: &str, part: &str) -> Outcome {
    if text.contains(part) { Ok(()) } else { Err(format!("\"{text}\" does not say \"{part}\"")) }
}

// ---- the workers, seen from the tests ----------------------------------------------------------------------------------

struct Worker {
    who: As,
    child: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Worker {
    fn start(who: As) -> Outcome<Worker> {
        let mut command = alone::play();
        command.arg("worker").stdin(Stdio::piped()).stdout(Stdio::piped());
        if who == As::Nobody {
            command.uid(NOBODY).gid(NOBODY).current_dir("/");
        }
        let mut child = command.spawn().map_err(|e| format!("cannot start a worker as {who:?}: {e}"))?;
        let (commands, answers) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        Ok(Worker { who, child, commands, answers })
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    fn network_namespace(&self) -> Option<String> {
        network_namespace(&self.pid().to_string())
    }

    fn send(&mut self, command: &str) -> Outcome {
        writeln!(self.commands, "{command}").map_err(|e| format!("{command}: {e}"))
    }

    fn answer(&mut self) -> Outcome<String> {
        let mut line = String::new();
        self.answers.read_line(&mut line).map_err(|e| e.to_string())?;
        match line.trim_end_matches('\n').split_once(' ') {
            Some(("ok", answer)) => Ok(answer.to_owned()),
            Some((_, reason)) => Err(reason.to_owned()),
            None => Err("the worker is gone".to_owned()),
        }
    }

    fn ask(&mut self, command: &str) -> Outcome<String> {
        self.send(command)?;
        self.answer()
    }

    fn enter(&mut self) -> Outcome {
        let how = if self.who == As::Root { "enter" } else { "enter-user" };
        self.ask(how).map(drop)
    }

    fn join(&mut self, first: &Worker) -> Outcome {
        if self.who == As::Root { self.enter() } else { self.ask(&format!("join {}", first.pid())).map(drop) }
    }

    fn pair(&mut self, second: &Worker, mtu: u32, queues: u32) -> Outcome {
        self.ask(&format!("pair {} {mtu} {queues}", second.pid())).map(drop)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // SIGKILL: the worker never gets to clean up.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn linked(who: As, mtu: u32, queues: u32) -> Outcome<(Worker, Worker)> {
    let (mut first, mut second) = (Worker::start(who)?, Worker::start(who)?);
    first.enter()?;
    second.join(&first)?;
    first.pair(&second, mtu, queues)?;
    bring_up(&mut first, &mut second)?;
    Ok((first, second))
}

fn bring_up(first: &mut Worker, second: &mut Worker) -> Outcome {
    for (worker, name, host) in [(first, FIRST, 1), (second, SECOND, 2)] {
        worker.ask(&format!("up {name}"))?;
        worker.ask(&format!("address {name} 198.18.0.{host} 24"))?;
        worker.ask(&format!("address {name} 2001:2::{host} 64"))?;
    }
    Ok(())
}

// ---- the workers, from inside ------------------------------------------------------------------------------------------

fn worker() -> ExitCode {
    let mut socket = None;
    for line in io::stdin().lines() {
        let Ok(line) = line else { break };
        let words: Vec<&str> = line.split(' ').collect();
        let answer = match obey(&words, &mut socket) {
            Ok(answer) => format!("ok {answer}"),
            Err(e) => format!("error {e}"),
        };
        println!("{answer}");
    }
    ExitCode::SUCCESS
}

fn obey(words: &[&str], socket: &mut Option<UdpSocket>) -> Result<String, Box<dyn std::error::Error>> {
    let shown = |on: Option<bool>| on.map_or("-", |on| if on { "on" } else { "off" });
    let entered = |entered: netns::Entered| match entered.sysfs {
        Sysfs::Own => "own sysfs".to_owned(),
        Sysfs::Unread(reason) => reason,
    };
    let bound = || socket.as_ref().ok_or("no socket is bound");
    let done = String::new();
    Ok(match *words {
        ["enter"] => entered(netns::enter_new(false)?),
        ["enter-user"] => entered(netns::enter_new(true)?),
        ["join", pid] => entered(netns::join_user_of(pid.parse()?)?),
        ["pair", pid, mtu, queues] => return obey(&["pair-named", FIRST, SECOND, pid, mtu, queues], socket),
        ["pair-named", name, peer, pid, mtu, queues] => {
            Netlink::open()?.create_veth(&VethConfig {
                name: name.to_owned(),
                peer_name: peer.to_owned(),
                mtu: Some(mtu.parse()?),
                queues: Some(queues.parse()?),
                tx_queues: None,
                peer_pid: pid.parse()?,
            })?;
            done
        }
        ["up", name] => Netlink::open()?.set_up(name).map(|()| done)?,
        ["address", name, address, prefix] => {
            Netlink::open()?.add_address(name, address.parse::<IpAddr>()?, prefix.parse()?).map(|()| done)?
        }
        ["link", name] => {
            let l = Netlink::open()?.link(name)?;
            let kind = l.kind.as_deref().unwrap_or("-");
            format!("mtu {} tx {} rx {} up {} carrier {} kind {kind}", l.mtu, l.tx_queues, l.rx_queues, l.up, l.carrier)
        }
        ["mac", name] => shown_mac(Netlink::open()?.link(name)?.mac),
        ["route", to] => {
            let route = Netlink::open()?.route_to(to.parse()?)?;
            let shown = |address: Option<IpAddr>| address.map_or("-".to_owned(), |address| address.to_string());
            format!("{} via {} from {}", route.link.name, shown(route.gateway), shown(route.source))
        }
        ["neighbour", name, address] => {
            let netlink = Netlink::open()?;
            shown_mac(netlink.neighbour(netlink.link(name)?.index, address.parse()?)?)
        }
        ["quickacks", name] => {
            let shown = |route: &QuickAck| format!("{}={}", route.destination, if route.on { "on" } else { "off" });
            Netlink::open()?.quick_acks(name)?.iter().map(shown).collect::<Vec<_>>().join(" ")
        }
        ["quickack", name, destination, on] => {
            let to = QuickAck { destination: destination.to_owned(), on: on == "on" };
            Netlink::open()?.set_quick_ack(name, &to).map(|()| done)?
        }
        ["rate", name, rate, burst, limit] => {
            let tbf = Tbf { rate: BitRate(rate.parse()?), burst: Bytes(burst.parse()?), limit: Bytes(limit.parse()?) };
            Netlink::open()?.add_tbf(name, &tbf).map(|()| done)?
        }
        ["qdisc", name] => match Netlink::open()?.root_qdisc(name)? {
            Some(qdisc) => format!("{} {}", qdisc.kind, qdisc.rate.map_or("-".to_owned(), |rate| rate.0.to_string())),
            None => "none -".to_owned(),
        },
        ["driver", name] => Ethtool::open()?.driver_info(name)?.ok_or("no driver")?.driver,
        ["channels", name] => Ethtool::open()?.channels(name)?.ok_or("no channels")?.rx.to_string(),
        ["gro", name, on] => Ethtool::open()?.set_gro(name, on == "on").map(|()| done)?,
        ["tso", name, on] => Ethtool::open()?.set_tso(name, on == "on").map(|()| done)?,
        ["offloads", name] => {
            let offloads = Ethtool::open()?.offloads(name)?;
            format!("gro {} tso {}", shown(offloads.gro), shown(offloads.tso))
        }
        ["sysctl", name, value] => netns::set_sysctl(name, value).map(|()| done)?,
        ["read", file] => fs::read_to_string(file)?.trim().to_owned(),
        ["list", folder] => {
            let names: io::Result<BTreeSet<String>> =
                fs::read_dir(folder)?.map(|e| Ok(e?.file_name().to_string_lossy().into_owned())).collect();
            names?.into_iter().collect::<Vec<_>>().join(" ")
        }
        ["bind", address] => {
            let bound = UdpSocket::bind(address)?;
            bound.set_read_timeout(Some(TIMEOUT))?;
            *socket = Some(bound);
            done
        }
        ["echo"] => {
            let mut request = [0; 2048];
            let (length, from) = bound()?.recv_from(&mut request)?;
            bound()?.send_to(&request[..length], from)?.to_string()
        }
        ["drain", count] => {
            let mut datagram = [0; 2048];
            bound()?.recv(&mut datagram)?;
            let start = Instant::now();
            for _ in 1..count.parse::<u32>()? {
                bound()?.recv(&mut datagram)?;
            }
            start.elapsed().as_micros().to_string()
        }
        ["flood", to, count, length] => {
            let socket = UdpSocket::bind("198.18.0.1:0")?;
            let datagram = vec![0; length.parse()?];
            for _ in 0..count.parse::<u32>()? {
                socket.send_to(&datagram, to.parse::<SocketAddr>()?)?;
            }
            done
        }
        ["ping", from, to] => {
            let socket = UdpSocket::bind(from)?;
            socket.set_read_timeout(Some(TIMEOUT))?;
            socket.send_to(&[7; 64], to.parse::<SocketAddr>()?)?;
            let mut reply = [0; 2048];
            let length = socket.recv(&mut reply)?;
            if reply[..length] != [7; 64] {
                return Err("other bytes came back".into());
            }
            length.to_string()
        }
        _ => return Err(format!("unknown command {words:?}").into()),
    })
}

fn shown_mac(mac: Option<[u8; 6]>) -> String {
    mac.map_or("-".to_owned(), |mac| mac.map(|byte| format!("{byte:02x}")).join(":"))
}
