//! A delay of known length made in a known stage: that stage grows by it, and no other does.
//!
//! ```text
//!   turn-around   the server waits before each reply (delay=)
//!   qdisc         a token bucket lets a packet go every so often (rate=)
//!   stack         filters reckon over each packet that comes in (in the soft interrupt)
//!   run queue     each request first wakes a process that precedes the server on its CPU, and holds that CPU
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::num::NonZeroU32;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, Protocol, RecvFlags, SocketType, recv, socket};
use serde_json::Value;

use super::{Noise, explained, number, program};
use crate::support::Home;
use crate::support::net::{Net, ip};

/// This program's own role: `first BYTES US`.
pub const FIRST: &str = "first";

/// Tolerances as shares of the delay: `NEAR` for the right stage, `OTHERS` for growth of any other.
const NEAR: f64 = 0.1;
const OTHERS: f64 = 0.15;

/// Mean of each stage over typical transactions, both ways together, and their sum with the hooks' time and the residual.
struct Typical {
    stages: BTreeMap<String, f64>,
    rtt: f64,
}

fn typical(args: &str) -> Typical {
    let result = explained(args);
    let mut stages: BTreeMap<String, f64> = BTreeMap::new();
    for stage in result["stages"].as_array().expect("stages") {
        let name = stage["name"].as_str().expect("a name");
        // Merged stages are rare and count under the merged name.
        *stages.entry(name.into()).or_default() += number(&stage["typical_ns"]);
    }
    let named = |of: &Value| number(&of["observer_ns"]) + number(&of["residual_ns"]);
    stages.insert("no stage".into(), named(&result["typical"]));
    Typical { stages, rtt: number(&result["typical"]["rtt_ns"]) }
}

/// A run without a delay and one with it: the RTT without, and how much the RTT and each stage grew.
struct Round {
    bare_ns: f64,
    more_ns: f64,
    stages: BTreeMap<String, f64>,
}

impl Round {
    fn of(bare: &Typical, delayed: &Typical) -> Round {
        let of = |run: &Typical, name: &str| run.stages.get(name).copied().unwrap_or(0.0);
        let names = bare.stages.keys().chain(delayed.stages.keys());
        let stages = names.map(|name| (name.clone(), of(delayed, name) - of(bare, name))).collect();
        Round { bare_ns: bare.rtt, more_ns: delayed.rtt - bare.rtt, stages }
    }

    /// The median of each figure.
    fn middle(rounds: &[Round]) -> Round {
        let of = |figure: &dyn Fn(&Round) -> f64| {
            let mut all: Vec<f64> = rounds.iter().map(figure).collect();
            all.sort_by(f64::total_cmp);
            all[all.len() / 2]
        };
        let names: BTreeSet<&String> = rounds.iter().flat_map(|round| round.stages.keys()).collect();
        let stages = names.into_iter().map(|name| (name.clone(), of(&|round| round.grew(name)))).collect();
        Round { bare_ns: of(&|round| round.bare_ns), more_ns: of(&|round| round.more_ns), stages }
    }

    fn grew(&self, stage: &str) -> f64 {
        self.stages.get(stage).copied().unwrap_or(0.0)
    }

    /// `stage` grew by `delay_ns`, and no other did.
    fn holds(&self, stage: &str, delay_ns: f64) -> bool {
        let mut others = self.stages.iter().filter(|(name, _)| *name != stage);
        (self.grew(stage) / delay_ns - 1.0).abs() <= NEAR && others.all(|(_, ns)| ns.abs() <= OTHERS * delay_ns)
    }
}

/// Runs without and with a delay in turn: in the median of three rounds, `stage` grows by the round's `delay_ns`, and no other
/// does. The median lies between any two of the rounds, so two may be enough. The paths sleep, because there the cost of the
/// hooks is measured apart; on a spinning path it is the slowdown, which a busy host distorts. They run ahead of all ordinary
/// threads, so that the run queue has no other.
#[track_caller]
fn only(stage: &str, delay_ns: impl Fn(&Round) -> f64, without: impl Fn() -> Typical, with: impl Fn() -> Typical) -> Round {
    let round = || Round::of(&without(), &with());
    let mut rounds = vec![round(), round()];
    if !rounds.iter().all(|one| rounds.iter().all(|other| one.holds(stage, delay_ns(other)))) {
        rounds.push(round());
    }
    let grown = Round::middle(&rounds);
    let delay_ns = delay_ns(&grown);
    let found = format!("{stage}: {delay_ns:.0} ns more were made, and {:?} seen, {} rounds", grown.stages, rounds.len());
    println!("explain_detectors: {found}");
    assert!(grown.holds(stage, delay_ns), "{found}");
    grown
}

pub fn a_server_that_waits() {
    let run =
        |path: &str| typical(&format!("--link veth --duration 520ms --warmup 20ms --cpu 0,1 --sched fifo:50 --path {path}"));
    only("turn-around", |_| 500_000.0, || run("udp:block"), || run("udp:block,delay=500000"));
}

/// Ethernet, IPv4 and UDP headers and 64 bytes, as the token bucket on veth counts them.
const FRAME_BITS: f64 = 8.0 * (14.0 + 20.0 + 8.0 + 64.0);

pub fn a_link_that_lets_a_packet_go_every_so_often() {
    let run = |link: &str| {
        typical(&format!("--link {link} --duration 700ms --warmup 200ms --cpu 0,1 --sched fifo:50 --path udp:block"))
    };
    // A round trip takes as long as the bucket takes to fill; its own time lies within that.
    only("qdisc", |round| FRAME_BITS * 1_000.0 - round.bare_ns, || run("veth"), || run("veth:rate=1M"));
}

/// Filters on loopback, and divisions that each of them does with a packet: tc takes messages of 16 KiB.
const FILTERS: usize = 24;
const DIVISIONS: usize = 1_900;

pub fn filters_in_the_soft_interrupt() {
    let run = |net: &Net| {
        net.enter();
        typical("--link loopback --duration 520ms --warmup 50ms --cpu 0,1 --sched fifo:50 --path udp:block")
    };
    let [bare, filtered] = [(); 2].map(|()| Net::new());
    for net in [&bare, &filtered] {
        net.enter();
        ip("link set lo up");
    }
    // A = 2^32 - 1; A /= 3, over and over; no match. Classic BPF in the form that tc-bpf(8) reads.
    let home = Home::new();
    let program = format!("{},0 0 0 4294967295,{}6 0 0 0", DIVISIONS + 2, "52 0 0 3,".repeat(DIVISIONS));
    fs::write(home.file("program"), program).expect("a file");
    let file = home.file("program");
    let filter =
        |at| format!("filter add dev lo ingress protocol ip prio {at} bpf bytecode-file {} flowid 1:1\n", file.display());
    let filters: String = (1..=FILTERS).map(filter).collect();
    fs::write(home.file("filters"), format!("qdisc add dev lo clsact\n{filters}")).expect("a file");
    let done = Command::new("tc").arg("-batch").arg(home.file("filters")).status().expect("tc of iproute2");
    assert!(done.success(), "tc refuses the filters");
    // The longer a core rests, the longer it may take to wake, above all in a virtual machine: so it never rests.
    let _awake = [0, 1].map(Noise::keeps_awake);
    // The filters' time depends on the CPU: the client's RTT shows it, without any hook.
    let grown = only("stack", |round| round.more_ns, || run(&bare), || run(&filtered));
    assert!(grown.more_ns > 20_000.0, "{FILTERS} filters take {} ns only", grown.more_ns);
}

/// Payload that identifies a request.
const BYTES: u32 = 777;

pub fn somebody_who_goes_before_the_server() {
    let run = |us: u32| {
        let first = Noise::start(
            "chrt",
            &["-f", "60", "taskset", "-c", "1", &program(), "play", FIRST, &BYTES.to_string(), &us.to_string()],
        );
        first.is_this_program();
        // With time between the requests, so that the server sleeps when one comes: otherwise the request waits in its queue, in
        // `receive`.
        let args =
            "--link loopback --rate 400 --duration 800ms --warmup 50ms --cpu 0,1 --sched fifo:50 --path udp:block --reply 64";
        let run = typical(&format!("{args} --request {BYTES}"));
        drop(first);
        run
    };
    only("run queue", |_| 600_000.0, || run(0), || run(600));
}

/// Is woken by each packet of loopback with `bytes` bytes, before its receiver, and keeps the CPU for `us`.
pub fn goes_first(bytes: usize, us: u64) -> ! {
    // A socket for all protocols (ETH_P_ALL) has each packet before IP has it: as it leaves, and again as it comes. One for IPv4
    // alone has it after IP since Linux 6.15 (`__netif_receive_skb_core`), when the server has been woken already and may have
    // the CPU.
    let all = NonZeroU32::new(u32::from(0x0003_u16.to_be())).map(Protocol::from_raw);
    let fd = socket(AddressFamily::PACKET, SocketType::DGRAM, all).expect("a packet socket: root has it");
    let headers = 20 + 8;
    let mut packet = vec![0; 2048];
    loop {
        let (got, _) = recv(&fd, &mut packet[..], RecvFlags::empty()).expect("a packet");
        let began = Instant::now();
        if got == bytes + headers {
            while began.elapsed() < Duration::from_micros(us) {}
            // Of the same request, as it came.
            while recv(&fd, &mut packet[..], RecvFlags::DONTWAIT).is_ok() {}
        }
    }
}
