//! Detectors and causes of `hairpin explain`, each provoked for real on this host, after clean runs in which they stay silent.
//!
//! Effects of a core's load or rest need both cores; effects of a setting do not.

mod known_delays;
mod rate;

use std::process::{Child, Command, ExitCode, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use std::{env, fmt, fs};

use crate::support::alone::{self, Part, Plain, Test};
use crate::support::{Home, LIMIT, Running, can, namespaces, two_cpus, workers_of};
use hairpin_plan::paths::PATHS;
use hairpin_session::link::LinkSpec;
use hairpin_sys::host::{Host, RealHost};
use hairpin_sys::wait::Policy;
use hairpin_trace::advice::Name;
use hairpin_trace::causes::KINDS;
use hairpin_trace::detectors::DETECTORS;
use serde_json::Value;

pub const PART: Part = Part::new("explain_detectors", || tests(TESTS)).playing(play);
/// Delays that go before what else runs on the cores.
pub const OF_KNOWN_DELAYS: Part = Part::new("known_delays", || tests(KNOWN_DELAYS));
/// Effects of a load that goes before what else runs on its core.
pub const OF_LOADS: Part = Part::new("load_detectors", || tests(TESTS_OF_LOADS));
/// Settings of a path or socket, which show on busy cores too.
pub const OF_SETTINGS: Part =
    Part::new("setting_detectors", || tests(TESTS_OF_SETTINGS).into_iter().chain(alone::plain(ANYWHERE)).collect())
        .side_by_side();

const TESTS: &[Plain] = &[
    ("detectors are silent in clean runs", clean),
    ("deep-idle-wake-up", deep_idle),
    ("low-rate-penalty", low_rate),
    ("competing-process", competing_process),
    ("the cause table names a process beside the server", the_table_names_one_beside_it),
];

const KNOWN_DELAYS: &[Plain] = &[
    ("in the turn-around", known_delays::a_server_that_waits),
    ("in the queueing discipline", known_delays::a_link_that_lets_a_packet_go_every_so_often),
    ("in the stack", known_delays::filters_in_the_soft_interrupt),
    ("in the run queue", known_delays::somebody_who_goes_before_the_server),
];

const TESTS_OF_LOADS: &[Plain] = &[
    ("receive-queue-overflow", queue_overflow),
    ("deferred-softirq", deferred_softirq),
    ("the cause table names a process ahead of the server", the_table_names_one_ahead_of_it),
    ("a timeline tells who came and who left", timelines),
];

const TESTS_OF_SETTINGS: &[Plain] = &[
    ("shared-core", shared_core),
    ("nagle-delayed-ack", nagle),
    ("nagle-delayed-ack is silent without Nagle's algorithm", clean_nagle),
    ("busy-poll-not-in-force", busy_poll),
    ("busy-poll-not-in-force is silent where it is", clean_busy_poll),
    ("xdp-fallback", xdp_fallback),
    ("xdp-fallback is silent where the driver runs it", clean_xdp),
    ("receive-queue-overflow is silent where there is room", clean_queue),
];

const ANYWHERE: &[Plain] = &[
    ("every name that an advice mentions exists", names_exist),
    ("a detector that is wrong half of the time passes seldom", rate::one_that_is_wrong_half_of_the_time_passes_seldom),
];

/// One phase of each kind, and as little as that.
const SHORT: &str = "--link veth --duration 520ms --warmup 20ms";
/// This program's own role: `loop BUSY SLEEP`, in us, for ever.
const LOOP: &str = "loop";

fn tests(list: &[Plain]) -> Vec<Test> {
    let test = |&(name, run): &Plain| {
        let why = "BPF programs and namespaces need root, and the two sides take CPUs 0 and 1";
        Test::new(name, move |full| can(full, namespaces() && two_cpus(), why).then(run).is_some())
    };
    list.iter().map(test).collect()
}

fn play(arguments: &[&str]) -> Option<ExitCode> {
    let number = |text: &str| text.parse::<u32>().expect("a number");
    match *arguments {
        [LOOP, busy, rest] => run_loop(number(busy), number(rest)),
        [known_delays::FIRST, bytes, us] => known_delays::goes_first(number(bytes) as usize, number(us).into()),
        _ => None,
    }
}

// ---- the runs ----------------------------------------------------------------------------------------------------------

fn explained(args: &str) -> Value {
    let record = Home::new().json(&format!("explain {args}"));
    assert_eq!(record["error"], Value::Null, "{args}");
    record["results"][0].clone()
}

/// A detector's finding in a run.
fn seen(result: &Value, detector: &str) -> Option<String> {
    let findings = result["findings"].as_array().expect("findings");
    let finding = findings.iter().find(|finding| finding["detector"] == detector)?;
    assert!(!finding["advice"].as_str().unwrap_or_default().is_empty(), "{finding}");
    Some(finding["seen"].as_str().expect("words").to_owned())
}

/// Runs in which these detectors are silent, except a few disturbed by other processes of this host.
#[track_caller]
fn silent(detectors: &[&str], args: &str) {
    let mut said = Vec::new();
    let judged = rate::wrong_less_than_half_of_the_time(|| {
        let result = explained(args);
        let spoken: Vec<String> = detectors.iter().filter_map(|detector| seen(&result, detector)).collect();
        said.extend(spoken.iter().cloned());
        !spoken.is_empty()
    });
    println!("explain_detectors: {detectors:?}: of clean runs wrong in {judged}");
    assert!(judged.passed, "{detectors:?} are not silent, but wrong in {judged} runs of {args}: {said:?}");
}

/// Runs in which the detector is not silent; returns its finding in one of them.
#[track_caller]
fn found(detector: &str, args: &str) -> String {
    found_in(detector, args, || seen(&explained(args), detector))
}

#[track_caller]
fn found_in(detector: &str, args: &str, run: impl Fn() -> Option<String>) -> String {
    let mut said = None;
    let judged = rate::wrong_less_than_half_of_the_time(|| {
        let seen = run();
        let missed = seen.is_none();
        said = seen.or(said.take());
        missed
    });
    assert!(judged.passed, "{detector} sees nothing in {judged} runs of {args}");
    let said = said.expect("it passed");
    println!("explain_detectors: {detector}: missed in {judged}: {said}");
    said
}

/// A process of this test that is killed with it.
pub struct Noise(Child);

impl Noise {
    fn start(program: &str, args: &[&str]) -> Noise {
        // Ends with this test, however that ends.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", program]).args(args).stdin(Stdio::null()).stdout(Stdio::null());
        Noise(command.spawn().expect("setpriv of util-linux"))
    }

    /// A busy loop on one CPU.
    fn loops_on(cpu: u32) -> Noise {
        Noise::start("taskset", &["-c", &cpu.to_string(), &program(), "play", LOOP, "1000000", "0"])
    }

    /// A busy loop on one CPU, behind all ordinary processes.
    fn keeps_awake(cpu: u32) -> Noise {
        Noise::start("chrt", &["-i", "0", "taskset", "-c", &cpu.to_string(), &program(), "play", LOOP, "1000000", "0"])
    }

    /// A process that is busy for 3 ms and sleeps for 5, ahead of `--sched fifo:50` and of all other processes of this host.
    fn ahead_on(cpu: u32) -> Noise {
        Noise::start("chrt", &["-f", "60", "taskset", "-c", &cpu.to_string(), &program(), "play", LOOP, "3000", "5000"])
    }

    /// A process that is busy for 3 ms and sleeps for 47, ahead of all ordinary ones.
    pub fn now_and_then_on(cpu: u32) -> Noise {
        Noise::start("chrt", &["-f", "60", "taskset", "-c", &cpu.to_string(), &program(), "play", LOOP, "3000", "47000"])
    }

    /// Its name as the kernel cuts it.
    pub fn name(&self) -> String {
        fs::read_to_string(format!("/proc/{}/comm", self.pid())).expect("its name").trim_end().to_owned()
    }

    /// Waits until it is this program: setpriv, chrt and taskset go before it under its number.
    pub fn is_this_program(&self) {
        let own = fs::read_to_string("/proc/self/comm").expect("this program's name");
        let begun = Instant::now();
        while self.name() != own.trim_end() {
            assert!(begun.elapsed() < LIMIT, "{} does not start this program", self.name());
            sleep(Duration::from_millis(5));
        }
    }

    pub fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Noise {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn program() -> String {
    env::current_exe().expect("this program").to_str().expect("a plain path").to_owned()
}

fn run_loop(busy_us: u32, rest_us: u32) -> ! {
    let (busy, rest) = (Duration::from_micros(busy_us.into()), Duration::from_micros(rest_us.into()));
    loop {
        let began = Instant::now();
        while began.elapsed() < busy {}
        if !rest.is_zero() {
            sleep(rest);
        }
    }
}

// ---- the detectors -----------------------------------------------------------------------------------------------------

fn clean() {
    silent(
        &["deep-idle-wake-up", "low-rate-penalty", "deferred-softirq"],
        &format!("{SHORT} --path udp:spin --cpu 0,1 --pace 50000"),
    );
    // Only kernel work for other processes precedes these threads; where that keeps the cores busy, the finding is right.
    let judged = rate::wrong_less_than_half_of_the_time(|| {
        let result = explained(&format!("{SHORT} --path udp:block --cpu 0,1 --sched fifo:50"));
        let (shared, said) = (seen(&result, "shared-core"), seen(&result, "competing-process"));
        assert_eq!(shared, None);
        let wrong = said.is_some() && idles(0.67);
        println!("explain_detectors: competing-process: {said:?}, wrong on a quiet host: {wrong}");
        wrong
    });
    assert!(judged.passed, "competing-process is not silent, but wrong in {judged} runs");
}

fn clean_nagle() {
    silent(&["nagle-delayed-ack"], &format!("{SHORT} --path tcp:block,writes=2"));
}

fn clean_busy_poll() {
    silent(&["busy-poll-not-in-force"], "--link veth:gro=on,tso=off --duration 520ms --warmup 20ms --path udp:busy-poll");
}

fn clean_xdp() {
    silent(&["xdp-fallback"], &format!("{SHORT} --path xdp:spin,mode=native,zero-copy=off"));
}

fn clean_queue() {
    silent(&["receive-queue-overflow"], &format!("{SHORT} {SMALL_BUFFER}"));
}

fn deep_idle() {
    // Cores kept busy by other processes never go idle, so there is no finding.
    // In half a second a slow host may not come to a block that looks at idle states.
    let said = found_where_idle("deep-idle-wake-up", "--link veth --duration 1s --warmup 20ms --path udp:block");
    assert!(said.is_none_or(|said| said.contains("server's core out of") || said.contains("client's core out of")));
}

/// Runs in which the detector speaks, except those in which others kept the cores busy and left it nothing to find.
#[track_caller]
fn found_where_idle(detector: &str, args: &str) -> Option<String> {
    let mut last = None;
    let judged = rate::wrong_less_than_half_of_the_time(|| {
        let said = seen(&explained(args), detector);
        let missed = said.is_none() && idles(0.67);
        println!("explain_detectors: {detector}: {said:?}, missed on a quiet host: {missed}");
        last = said.or(last.take());
        missed
    });
    assert!(judged.passed, "{detector} sees nothing in {judged} runs of {args} on idle cores");
    last
}

/// True if the CPUs together are idle for at least `share` of the time just now. Takes 300 ms, so it is asked only after a run
/// that went wrong.
fn idles(share: f64) -> bool {
    let before = idle_ticks();
    sleep(Duration::from_millis(300));
    let after = idle_ticks();
    (after[0] - before[0]) as f64 >= (after[1] - before[1]) as f64 * share
}

/// Clock ticks in which the CPUs were idle, and all, since the host came up.
fn idle_ticks() -> [u64; 2] {
    let text = fs::read_to_string("/proc/stat").expect("/proc/stat");
    let line = text.lines().next().expect("the sum of all CPUs");
    let ticks: Vec<u64> = line.split_whitespace().skip(1).take(8).map(|ticks| ticks.parse().expect("ticks")).collect();
    [ticks[3], ticks.iter().sum()]
}

fn nagle() {
    // Some 40 ms each.
    let said = found("nagle-delayed-ack", "--link veth --duration 1500ms --warmup 20ms --path tcp:block,writes=2,nodelay=off");
    assert!(said.starts_with("the client waited") && said.contains("the server had delayed"), "{said}");
}

fn low_rate() {
    let said = found_where_idle("low-rate-penalty", "--link veth --duration 600ms --warmup 20ms --path udp:spin --pace 100");
    assert!(said.as_ref().is_none_or(|said| said.starts_with("at 100/s a round trip takes")), "{said:?}");
}

fn shared_core() {
    let said = found("shared-core", &format!("{SHORT} --path udp:block --cpu 0,0"));
    assert!(said.contains("both run on CPU 0"), "{said}");
}

fn competing_process() {
    let noise = Noise::loops_on(1);
    // Beside a loop a block takes twice as long: half a second may end before the first one that looks at the cores.
    let said = found("competing-process", "--link veth --duration 700ms --warmup 20ms --path udp:spin --cpu 0,1");
    let (_, server) = said.split_once("the server's thread from CPU 1").unwrap_or_else(|| panic!("{said}"));
    assert!(server.contains(&format!("{} ({})", noise.name(), noise.pid())), "{said}");
}

/// Two veth ends of a namespace hand packets to and fro for as long as the namespace lives, on the CPU on which they were sent.
/// These are ARP requests, which belong to no socket: a socket would keep the namespace alive, and with it the packets, for ever.
const TO_AND_FRO: &str = "set -e
ip link add name x0 type veth peer name x1
for end in x0 x1; do
    [ ! -e /proc/sys/net/ipv6 ] || echo 1 >/proc/sys/net/ipv6/conf/$end/disable_ipv6
    tc qdisc add dev $end clsact
    tc filter add dev $end ingress protocol all u32 match u32 0 0 action mirred egress redirect dev $end
    ip link set $end up
done
ip address add 198.18.9.1/24 dev x0
for n in $(seq 2 65); do echo x >/dev/udp/198.18.9.$n/9; done
exec sleep 60";

/// Soft interrupts for packets on CPU 1 until now.
fn packets_on_one() -> u64 {
    let text = fs::read_to_string("/proc/softirqs").expect("/proc/softirqs");
    let line = text.lines().find(|line| line.trim_start().starts_with("NET_RX:")).expect("NET_RX");
    line.split_whitespace().nth(2).and_then(|count| count.parse().ok()).expect("a count for CPU 1")
}

fn deferred_softirq() {
    let noise = Noise::start("taskset", &["-c", "1", "unshare", "--net", "bash", "-c", TO_AND_FRO]);
    // Its last command is sleep.
    let begun = Instant::now();
    while noise.name() != "sleep" {
        assert!(begun.elapsed() < LIMIT, "no packets go to and fro: {} does not end", noise.name());
        sleep(Duration::from_millis(5));
    }
    let said = found("deferred-softirq", "--link veth --duration 1s --warmup 20ms --path udp:block --cpu 0,1");
    drop(noise);
    assert!(said.starts_with("ksoftirqd/1 had CPU 1"), "{said}");
    // No packet is left; otherwise there would be some 10,000 in that time.
    let over = (0..50).any(|_| {
        let before = packets_on_one();
        sleep(Duration::from_millis(100));
        packets_on_one() - before < 1_000
    });
    assert!(over, "packets still go to and fro");
}

fn busy_poll() {
    let said = found("busy-poll-not-in-force", &format!("{SHORT} --path udp:busy-poll"));
    assert!(said.contains("50 us on the client"), "{said}");
}

fn xdp_fallback() {
    let said = found("xdp-fallback", &format!("{SHORT} --path xdp:spin"));
    assert!(said.contains("copies every frame on client and server"), "{said}");
}

const SMALL_BUFFER: &str = "--path udp:spin,rcvbuf=256/block --cpu 0,1";

fn queue_overflow() {
    let args = format!("--link veth --duration 2s --warmup 20ms {SMALL_BUFFER}");
    let said = found_in("receive-queue-overflow", &args, || stopped(&args));
    assert!(said.ends_with("at the server"), "{said}");
}

/// The finding for a run whose server is stopped for a while.
fn stopped(args: &str) -> Option<String> {
    let home = Home::new();
    let mut run = home.start(&format!("explain {args} --json"));
    let server = server_of(&mut run);
    // The client sends often to a server in silence once it has seen RTTs for a block; the first one is the warm-up.
    sleep(Duration::from_millis(200));
    // Longer than all phases of a cycle, of which one of three sees events.
    for (signal, after) in [("STOP", 1500), ("CONT", 0)] {
        let done = Command::new("kill").args([format!("-{signal}"), server.to_string()]).status().expect("kill");
        assert!(done.success(), "the server's process has ended");
        sleep(Duration::from_millis(after));
    }
    let record = run.done().json();
    seen(&record["results"][0], "receive-queue-overflow")
}

/// The worker that is pinned to CPU 1, once it answers: it has slept before each of many requests.
fn server_of(run: &mut Running) -> u32 {
    let answers_on_one = |pid: &u32| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let of = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let slept = of("voluntary_ctxt_switches:").and_then(|count| count.parse::<u64>().ok());
        of("Cpus_allowed_list:") == Some("1") && slept >= Some(500)
    };
    let begun = Instant::now();
    loop {
        if let Some(server) = workers_of(run.pid()).into_iter().find(answers_on_one) {
            return server;
        }
        assert!(run.goes_on() && begun.elapsed() < LIMIT, "no worker on CPU 1 answers: {}", run.err());
        sleep(Duration::from_millis(10));
    }
}

// ---- causes ------------------------------------------------------------------------------------------------------------

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("no number: {value}"))
}

/// Other processes of this host share the core with an ordinary process, but not with one ahead of them.
fn the_table_names_one_ahead_of_it() {
    let ahead = Noise::ahead_on(1);
    the_table_names(&ahead, "udp:block --sched fifo:50", || true);
    the_table_names(&ahead, "tcp:block --sched fifo:50", || true);
}

fn the_table_names_one_beside_it() {
    let beside = Noise::loops_on(1);
    // The process itself has one core.
    the_table_names(&beside, "udp:spin", || idles(0.33));
    the_table_names(&beside, "udp:block", || idles(0.33));
}

#[track_caller]
fn the_table_names(noise: &Noise, args: &str, nobody_else: impl Fn() -> bool) {
    let args = format!("--link veth --duration 900ms --warmup 20ms --cpu 0,1 --timeline 400 --path {args}");
    // All slow round trips and all of their time: other names count like none.
    let names = |named: &Named| {
        let slow = named.slow.1 >= 5 && named.slow.1 as f64 >= 0.8 * named.slow.0 as f64;
        slow && named.its >= 0.8 * named.all
    };
    let mut tried = Vec::new();
    // Else the client's core has to be woken from idle, which takes milliseconds where the hypervisor has given it away.
    let _awake = RealHost.hold("/dev/cpu_dma_latency", &0i32.to_ne_bytes()).ok();
    let judged = rate::wrong_less_than_half_of_the_time(|| {
        let before = steal_ns();
        let result = explained(&args);
        let named = Named::of(&result, noise, steal_ns() - before);
        let missed = !names(&named) && nobody_else();
        println!("explain_detectors: {args}: {named}, missed beside nobody else: {missed}");
        tried.push(named.to_string());
        missed
    });
    assert!(judged.passed, "{args}: not named in {judged}: {}", tried.join("; "));
}

/// Time that the hypervisor has taken from all CPUs (proc_stat(5)).
fn steal_ns() -> f64 {
    let text = fs::read_to_string("/proc/stat").expect("/proc/stat");
    let ticks = text.lines().next().and_then(|all| all.split_whitespace().nth(8)).expect("the steal time of all CPUs");
    ticks.parse::<f64>().expect("a number") * 1e7
}

/// A process in the cause table.
struct Named {
    /// ns lost by slow round trips: in all, to it, and to other processes, which are named too.
    all: f64,
    its: f64,
    others: f64,
    /// Round trips slower than 1 ms: all, its, those of other processes.
    slow: (usize, usize, usize),
}

impl Named {
    /// Time stolen by the hypervisor is left out, as far as the kernel's own count of it, `steal_ns`, has room for it.
    fn of(result: &Value, noise: &Noise, steal_ns: f64) -> Named {
        let it = format!("{} (pid {})", noise.name(), noise.pid());
        let causes = result["causes"].as_array().expect("causes").iter();
        let (stolen, causes): (Vec<&Value>, Vec<&Value>) = causes.partition(|cause| cause["cause"] == "stolen");
        let told: f64 = stolen.iter().map(|cause| number(&cause["lost_ns"])).sum();
        // The kernel counts in ticks of 10 ms, each CPU by itself.
        let is_so = told <= steal_ns + 20e6;
        let causes: Vec<&Value> = if is_so { causes } else { causes.into_iter().chain(stolen).collect() };
        let lost = |of: &dyn Fn(&str) -> bool| -> f64 {
            let causes = causes.iter().filter(|cause| of(cause["who"].as_str().unwrap_or_default()));
            causes.map(|cause| number(&cause["lost_ns"])).sum()
        };
        let is_other = |who: &str| !who.ends_with(&it) && (who.contains("(pid ") || who.ends_with(" others"));
        let slowest = result["slowest"].as_array().expect("timelines").iter();
        let slow: Vec<String> = slowest
            .filter(|slow| number(&slow["rtt_ns"]) > 1e6)
            .map(|slow| slow["cause"].as_str().unwrap_or_default().to_owned())
            .filter(|cause| !(is_so && cause.starts_with("stolen")))
            .collect();
        Named {
            all: lost(&|_| true),
            its: lost(&|who| who == it),
            others: lost(&is_other),
            slow: (
                slow.len(),
                slow.iter().filter(|cause| cause.ends_with(&it)).count(),
                slow.iter().filter(|cause| is_other(cause)).count(),
            ),
        }
    }
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (percent, (slow, its, others)) = (|ns: f64| ns / self.all * 100.0, self.slow);
        let lost = format_args!(
            "{:.1} ms lost, {:.1} % of it to the loop, {:.1} % to others",
            self.all / 1e6,
            percent(self.its),
            percent(self.others)
        );
        write!(f, "{lost}; {slow} round trips slower than 1 ms, {its} for the loop, {others} for others")
    }
}

fn timelines() {
    let noise = Noise::ahead_on(1);
    let result = explained("--link veth --duration 1s --warmup 20ms --path udp:block --cpu 0,1 --sched fifo:50 --timeline 5");
    let it = format!("{} ({})", noise.name(), noise.pid());
    let slowest = result["slowest"].as_array().expect("timelines");
    assert_eq!(slowest.len(), 5);
    let events = |slow: &Value| slow["events"].as_array().expect("events").clone();
    for slow in slowest {
        let at: Vec<i64> = events(slow).iter().map(|event| event["at_ns"].as_i64().expect("ns")).collect();
        assert!(at.is_sorted() && events(slow)[0]["name"] == "send call", "{slow}");
        assert!(events(slow).iter().filter(|event| event["name"] == "receive returned").count() == 2, "{slow}");
    }
    let switch = |from: &str, to: &str| {
        let of = |event: &Value| {
            let detail = event["detail"].as_str().unwrap_or_default();
            event["name"] == "sched_switch" && event["cpu"] == 1 && detail.starts_with(from) && detail.contains(to)
        };
        slowest.iter().any(|slow| events(slow).iter().any(of))
    };
    assert!(switch("", &format!("→ {it}")) && switch(&it, "→ hairpin ("), "{slowest:#?}");
}

// ---- names -------------------------------------------------------------------------------------------------------------

/// Every knob, option, policy and flag that an advice names exists under that name.
fn names_exist() {
    let advice = KINDS.iter().map(|kind| kind.advice).chain(DETECTORS.iter().map(|detector| detector.advice()));
    let help = Home::new().hairpin("explain --help").out;
    for name in advice.flat_map(|advice| advice.names) {
        let exists = match name {
            Name::Knob(name) => hairpin_tune::knob(name).is_some(),
            Name::Option(path, name) => {
                let path = PATHS.iter().find(|known| known.name == *path);
                path.is_some_and(|path| path.options.iter().any(|option| option.name == *name))
            }
            Name::Policy(name) => Policy::ALL.iter().any(|policy| policy.to_string() == *name),
            Name::Flag(name) => help.split_whitespace().any(|word| word == *name),
            Name::Link(name) => format!("veth:{name}=on").parse::<LinkSpec>().is_ok(),
        };
        assert!(exists, "there is no {name:?}");
    }
}
