//! A server that stands still, seen by Hairpin and by a client in C that shares no code with it (`open_loop.c`).
//!
//! Both send at the same rate over the same kind of connection, and both servers are stopped for 50, 300 and 1,000 ms at the same
//! moments, which differ from run to run; where the client spins, for 50 and 300 ms. A Redis is one server for both, which they
//! ask the same.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};

use hairpin_record::histogram::Decoded;
use serde_json::Value;

use super::{number, signal, worker_on};
use crate::support::servers;
use crate::support::{Home, Running, can, free_port, rows, two_cpus};

/// The share of requests that took more than this from due is compared, in ns.
const SLOW_NS: u64 = 10_000_000;
/// Time for the three stops, the last of which ends after at most 2.3 s, and for some requests after it.
const DURATION_MS: u64 = 2_700;
/// A client that spins has the cores to itself, and only the first two stops. This is its time for some requests after them.
const SPINS_ON_MS: u64 = 300;
/// A server of the test is stopped by kill(1), a process for each signal, so its stops are some ms longer or shorter than those
/// that the client in C makes.
const STOPS_DIFFER_MS: f64 = 20.0;
/// On a busy host a client waits for another process's slice of its core before it reads the first reply after a stop: up to a
/// tick, which is 4 ms on most kernels. The rest is for the steps of a histogram, 0.1 % of a second.
const SLICE_MS: f64 = 5.0;
/// A busy host stalls either side by itself; one quiet round of a kind is enough.
const TRIES: usize = 4;

/// Most that two clients of one Redis differ by, in ms: the first request in a stop is due up to an interval of `rate` later for
/// one than for the other.
fn clients_differ_ms(rate: u64) -> f64 {
    1e3 / rate as f64 + SLICE_MS
}

/// Start and length of the servers' stops, in ms since the first request.
type Stops = [(u64, u64); 3];

/// Random numbers, which differ from run to run and are printed with each failure.
fn random() -> impl FnMut(u64) -> u64 {
    let mut state = SystemTime::UNIX_EPOCH.elapsed().map_or(1, |since| since.as_nanos() as u64) | 1;
    move |below| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    }
}

fn compiled(home: &Home) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/load/open_loop.c");
    let program = home.file("open_loop");
    let done = Command::new("cc")
        .args(["-O1", "-pthread", "-o"])
        .arg(&program)
        .arg(source)
        .status()
        .expect("cc, which the build needs as well");
    assert!(done.success());
    program
}

/// One client's results: requests due, those slower than 10 ms or never answered, the longest and p99.9 from due in ms.
#[derive(Clone, Copy, Debug)]
struct Seen {
    due: f64,
    slow: f64,
    longest_ms: f64,
    /// NaN for fewer than 10,000 requests, of which Hairpin gives none.
    p999_ms: f64,
    /// p90 from the send, if Hairpin is the client.
    rtt_ms: f64,
}

/// Requests that a client with one in flight sends while it catches up after these stops.
fn catching_up(stops: &[(u64, u64)], rate: u64, rtt_ms: f64) -> f64 {
    let busy = (rate as f64 * rtt_ms / 1e3).min(0.5);
    let missed: f64 = stops.iter().map(|(_, ms)| (*ms * rate) as f64 / 1e3).sum();
    missed * busy / (1.0 - busy)
}

impl Seen {
    /// True if these results agree with the other client's, scaled to this number of requests, but for `late` ones that may be slow
    /// here alone, and the longest within `ms`.
    fn is_like(&self, other: &Seen, late: f64, ms: f64) -> bool {
        let expected = other.slow / other.due * self.due;
        // One request more or less per stop is chance.
        let chance = (0.1 * expected).max(4.0);
        (-chance..=chance + late).contains(&(self.slow - expected)) && (self.longest_ms - other.longest_ms).abs() <= ms
    }
}

fn start_c(program: &Path, kind: &str, rate: u64, lasts_ms: u64, stops: &[(u64, u64)]) -> Child {
    let mut command = Command::new(program);
    command.args([kind, &rate.to_string(), &lasts_ms.to_string()]);
    command.args(stops.iter().map(|(at, long)| format!("{at}:{long}")));
    command.stdout(Stdio::piped()).spawn().expect("the client in C")
}

fn seen_by_c(child: Child) -> Seen {
    let output = child.wait_with_output().expect("it ends");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let fields: Vec<f64> = text.split_whitespace().map(|field| field.parse().expect("a number")).collect();
    let [due, _, slow, longest_us, p999_us] = fields[..] else { panic!("{text}") };
    Seen { due, slow, longest_ms: longest_us / 1e3, p999_ms: p999_us / 1e3, rtt_ms: f64::NAN }
}

fn seen(record: &Value) -> Seen {
    let row = &rows(record)[0];
    let (row, histogram) = match row.get("rates") {
        Some(rates) => (&rates[0], &rates[0]["histograms"]["rtt_from_due"]),
        None => (row, &row["histogram_from_due"]),
    };
    let times = Decoded::decode(histogram.as_str().expect("a histogram")).expect("it decodes");
    let due = times.count() as f64;
    let from_due = &row["rtt_from_due_ns"];
    Seen {
        due,
        slow: due * (1.0 - times.share_up_to(SLOW_NS)),
        longest_ms: number(&from_due["max"]) / 1e6,
        p999_ms: from_due["p99.9"].as_f64().map_or(f64::NAN, |ns| ns / 1e6),
        rtt_ms: row["rtt_ns"]["p90"].as_f64().map_or(f64::NAN, |ns| ns / 1e6),
    }
}

/// Moments that differ from those of any other round.
fn stops(random: &mut impl FnMut(u64) -> u64) -> Stops {
    let mut at = 200;
    [50, 300, 1_000].map(|long| {
        at += 100 + random(150);
        let stop = (at, long);
        at += long;
        stop
    })
}

/// Stops the server at these moments.
fn stop(server: u32, began: Instant, stops: &[(u64, u64)]) {
    for (at, long) in stops {
        let until = |ms: u64| Duration::from_millis(ms).saturating_sub(began.elapsed());
        sleep(until(*at));
        signal(server, "STOP");
        sleep(Duration::from_millis(*long));
        signal(server, "CONT");
    }
}

const KINDS: [&str; 4] = ["udp", "tcp", "unix", "pipe"];
const HOWS: [&str; 5] = ["load block", "load epoll", "load spin", "ping block", "ping spin"];

fn is_spin(how: &str) -> bool {
    how.ends_with("spin")
}

/// The time of a run in ms, and its stops.
fn part(is_spin: bool, stops: &Stops) -> (u64, &[(u64, u64)]) {
    let (at, long) = stops[1];
    if is_spin { (at + long + SPINS_ON_MS, &stops[..2]) } else { (DURATION_MS, &stops[..]) }
}

/// Every kind of connection, waiting and loop. All that sleep run side by side, with the clients in C; each that spins has the
/// cores to itself.
pub(crate) fn as_seen_by_another_client() {
    if !can("load: stalls as seen by another client", two_cpus(), "it takes CPUs 0 and 1") {
        return;
    }
    let home = Home::new();
    let program = compiled(&home);
    let mut random = random();
    let mut left: Vec<(&'static str, &'static str)> = KINDS.iter().flat_map(|kind| HOWS.map(|how| (*kind, how))).collect();
    let mut said = Vec::new();
    for _ in 0..TRIES {
        // A socket's buffer holds the datagrams of a second at this rate.
        let rates = KINDS.map(|kind| (kind, 100 + random(if kind == "udp" { 100 } else { 900 })));
        let rates: BTreeMap<&str, u64> = rates.into_iter().filter(|(kind, _)| left.iter().any(|(of, _)| of == kind)).collect();
        let stops = stops(&mut random);
        let others: BTreeSet<(&'static str, bool)> = left.iter().map(|(kind, how)| (*kind, is_spin(how))).collect();
        let started = |(kind, is_spin): (&'static str, bool)| {
            let (lasts_ms, stops) = part(is_spin, &stops);
            ((kind, is_spin), start_c(&program, kind, rates[kind], lasts_ms, stops))
        };
        let others: Vec<((&'static str, bool), Child)> = others.into_iter().map(started).collect();
        let begin = |kind: &str, how: &str| {
            let (verb, policy) = how.split_once(' ').expect("two words");
            let flag = if verb == "load" { "--rate" } else { "--no-store --pace" };
            let lasts_ms = part(is_spin(how), &stops).0;
            home.start(&format!(
                "{verb} --link loopback --path {kind}:{policy} --cpu 0,1 --duration {lasts_ms}ms --warmup 100ms {flag} {} --json",
                rates[kind]
            ))
        };
        let together = |those: &[(&str, &str)]| -> Vec<Seen> {
            let all: Vec<(Running, bool)> = those.iter().map(|(kind, how)| (begin(kind, how), is_spin(how))).collect();
            std::thread::scope(|scope| {
                let began = Instant::now();
                for (running, is_spin) in &all {
                    scope.spawn(move || stop(worker_on(running.pid(), "1"), began, part(*is_spin, &stops).1));
                }
            });
            all.into_iter().map(|(running, _)| seen(&running.done().json())).collect()
        };
        let (spins, sleeps): (Vec<_>, Vec<_>) = left.iter().copied().partition(|(_, how)| is_spin(how));
        let mut found: Vec<((&str, &str), Seen)> = sleeps.iter().copied().zip(together(&sleeps)).collect();
        found.extend(spins.iter().flat_map(|spin| together(&[*spin]).into_iter().map(|seen| (*spin, seen))));
        let others: BTreeMap<(&str, bool), Seen> = others.into_iter().map(|(of, child)| (of, seen_by_c(child))).collect();
        for ((kind, how), seen) in found {
            let (rate, other, stops) = (rates[kind], others[&(kind, is_spin(how))], part(is_spin(how), &stops).1);
            said.push(format!("{kind}, {how} at {rate}/s, {stops:?} ms: {seen:.1?}; the client in C: {other:.1?}"));
            // `ping` has one request in flight.
            let late = if how.starts_with("ping") { catching_up(stops, rate, seen.rtt_ms) } else { 0.0 };
            if seen.is_like(&other, late, STOPS_DIFFER_MS) {
                left.retain(|left| *left != (kind, how));
            }
        }
        if left.is_empty() {
            return;
        }
    }
    panic!("not as another client sees it: {left:?}\n{}", said.join("\n"));
}

fn can_stop_redis(test: &str) -> bool {
    can(test, two_cpus(), "it takes CPUs 0 and 1")
        && can(test, servers::redis_program().is_some(), "neither redis-server nor redis-tools is installed")
}

/// Redis, stopped at these moments, as Hairpin and the client in C see it, which both ask it at this rate.
fn redis_and_c(program: &Path, rate: u64, stops: &[(u64, u64)]) -> [Seen; 2] {
    let (home, port) = (Home::new(), free_port());
    let redis = servers::redis(&home, port);
    let other = start_c(program, &format!("redis:{port}"), rate, DURATION_MS, &[]);
    let load = home.start(&format!(
        "load echo:127.0.0.1:{port} --request redis-ping --rate {rate} --duration {DURATION_MS}ms --warmup 100ms --cpu 0,1 --json"
    ));
    stop(redis.pid(), Instant::now(), stops);
    [seen(&load.done().json()), seen_by_c(other)]
}

pub(crate) fn of_redis_as_seen_by_another_client() {
    if !can_stop_redis("load: stalls of Redis as seen by another client") {
        return;
    }
    let home = Home::new();
    let (program, mut random) = (compiled(&home), random());
    let mut said = Vec::new();
    for _ in 0..TRIES {
        let (rate, stops) = (200 + random(800), stops(&mut random));
        let [seen, other] = redis_and_c(&program, rate, &stops);
        if seen.is_like(&other, 0.0, clients_differ_ms(rate)) {
            return;
        }
        said.push(format!("{rate}/s, {stops:?} ms: {seen:.1?}; the client in C: {other:.1?}"));
    }
    panic!("not as another client sees it:\n{}", said.join("\n"));
}

/// p99.9 lies just below the longest stop, so there is one alone for each length, side by side.
pub(crate) fn p999_of_redis_as_seen_by_another_client() {
    if !can_stop_redis("load: p99.9 of a stopped Redis as seen by another client") {
        return;
    }
    let home = Home::new();
    let (program, mut random) = (compiled(&home), random());
    let mut left: Vec<usize> = vec![0, 1, 2];
    let mut said = Vec::new();
    for _ in 0..TRIES {
        // Hairpin gives p99.9 of 10,000 requests or more.
        let (rate, stops) = (4_500 + random(1_000), stops(&mut random));
        let (program, stops) = (&program, &stops);
        let found: Vec<[Seen; 2]> = std::thread::scope(|scope| {
            let pairs: Vec<_> =
                left.iter().map(|at| scope.spawn(move || redis_and_c(program, rate, &stops[*at..=*at]))).collect();
            pairs.into_iter().map(|pair| pair.join().expect("both clients end")).collect()
        });
        for (at, [seen, other]) in left.clone().into_iter().zip(found) {
            said.push(format!("{rate}/s, {:?} ms: {seen:.1?}; the client in C: {other:.1?}", stops[at]));
            if (seen.p999_ms - other.p999_ms).abs() <= clients_differ_ms(rate) {
                left.retain(|left| *left != at);
            }
        }
        if left.is_empty() {
            return;
        }
    }
    panic!("not as another client sees it:\n{}", said.join("\n"));
}
