//! A delay of known length made in a known stage: that stage grows by it, and no other does.
//!
//! ```text
//!   turn-around   the server waits before each reply (delay=)
//!   qdisc         a token bucket lets a packet go every so often (rate=)
//!   stack         filters reckon over each packet that comes in (in the soft interrupt)
//!   run queue     each request first wakes a process that precedes the server on its CPU, and holds that CPU
//! ```

use std::collections::BTreeMap;
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

/// Runs with and without, in turn. Paths that sleep, because there the cost of the hooks is measured apart; on a spinning path it is the slowdown,
/// which a busy host distorts. Ahead of all ordinary threads, so that no other thread is in the run queue.
const ROUNDS: usize = 3;
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

/// The growth of each stage in the runs with a delay: the median over the rounds.
fn grown(without: impl Fn() -> Typical, with: impl Fn() -> Typical) -> (Typical, Typical) {
    let mut differences: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    let (mut bare_rtts, mut more) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let (bare, delayed) = (without(), with());
        for name in bare.stages.keys().chain(delayed.stages.keys()).collect::<std::collections::BTreeSet<_>>() {
            let of = |run: &Typical| run.stages.get(name).copied().unwrap_or(0.0);
            differences.entry(name.clone()).or_default().push(of(&delayed) - of(&bare));
        }
        bare_rtts.push(bare.rtt);
        more.push(delayed.rtt - bare.rtt);
    }
    let stages = |all: BTreeMap<String, Vec<f64>>| all.into_iter().map(|(name, all)| (name, middle(all))).collect();
    (Typical { stages: BTreeMap::new(), rtt: middle(bare_rtts) }, Typical { stages: stages(differences), rtt: middle(more) })
}

fn middle(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

/// `stage` grew by `delay_ns`, and no other did.
#[track_caller]
fn only(stage: &str, delay_ns: f64, grown: &Typical) {
    println!("explain_detectors: {stage}: {delay_ns:.0} ns more were made, and {:?} seen", grown.stages);
    let of = |name: &str| grown.stages.get(name).copied().unwrap_or(0.0);
    assert!((of(stage) / delay_ns - 1.0).abs() <= NEAR, "{stage}: {} ns, made were {delay_ns}: {:?}", of(stage), grown.stages);
    for (name, ns) in grown.stages.iter().filter(|(name, _)| *name != stage) {
        assert!(ns.abs() <= OTHERS * delay_ns, "{name} grew by {ns} ns, beside {delay_ns} in {stage}: {:?}", grown.stages);
    }
}

pub fn a_server_that_waits() {
    let run =
        |path: &str| typical(&format!("--link veth --duration 520ms --warmup 20ms --cpu 0,1 --sched fifo:50 --path {path}"));
    let (_, more) = grown(|| run("udp:block"), || run("udp:block,delay=500000"));
    only("turn-around", 500_000.0, &more);
}

/// Ethernet, IPv4 and UDP headers and 64 bytes, as the token bucket on veth counts them.
const FRAME_BITS: f64 = 8.0 * (14.0 + 20.0 + 8.0 + 64.0);

pub fn a_link_that_lets_a_packet_go_every_so_often() {
    let run = |link: &str| {
        typical(&format!("--link {link} --duration 700ms --warmup 200ms --cpu 0,1 --sched fifo:50 --path udp:block"))
    };
    let (bare, more) = grown(|| run("veth"), || run("veth:rate=1M"));
    // A round trip takes as long as the bucket takes to fill; its own time lies within that.
    only("qdisc", FRAME_BITS * 1_000.0 - bare.rtt, &more);
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
    let (_, more) = grown(|| run(&bare), || run(&filtered));
    // Their time depends on the CPU: the client's RTT shows it, without any hook.
    assert!(more.rtt > 20_000.0, "{FILTERS} filters take {} ns only", more.rtt);
    only("stack", more.rtt, &more);
}

/// Payload that identifies a request.
const BYTES: u32 = 777;

pub fn somebody_who_goes_before_the_server() {
    let run = |us: u32| {
        let first = Noise::start(
            "chrt",
            &["-f", "60", "taskset", "-c", "1", &program(), "play", FIRST, &BYTES.to_string(), &us.to_string()],
        );
        std::thread::sleep(Duration::from_millis(200));
        // With time between the requests, so that the server sleeps when one comes: otherwise the request waits in its queue, in `receive`.
        let args =
            "--link loopback --rate 400 --duration 800ms --warmup 50ms --cpu 0,1 --sched fifo:50 --path udp:block --reply 64";
        let run = typical(&format!("{args} --request {BYTES}"));
        drop(first);
        run
    };
    let (_, more) = grown(|| run(0), || run(600));
    only("run queue", 600_000.0, &more);
}

/// Is woken by each packet of loopback with `bytes` bytes, before its receiver, and keeps the CPU for `us`.
pub fn goes_first(bytes: usize, us: u64) -> ! {
    // Packets that come in, and not those that leave: a socket for all protocols would have both.
    let ipv4 = NonZeroU32::new(u32::from(0x0800_u16.to_be())).map(Protocol::from_raw);
    let fd = socket(AddressFamily::PACKET, SocketType::DGRAM, ipv4).expect("a packet socket: root has it");
    let headers = 20 + 8;
    let mut packet = vec![0; 2048];
    loop {
        let (got, _) = recv(&fd, &mut packet[..], RecvFlags::empty()).expect("a packet");
        let began = Instant::now();
        if got == bytes + headers {
            while began.elapsed() < Duration::from_micros(us) {}
        }
    }
}
