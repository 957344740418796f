//! `make bench-explain`: what the hooks take of a round trip, and whether stages, observer and the untraced figure agree.
//!
//! ```text
//!   hooks    udp:spin over loopback and veth: all hooks, all but the receive hook, --light       observer p50 ≤ 1.5, 1.0, 0.6 us
//!   sums     of every run above: traced less observer within 5 % of untraced, residual ≤ 5 %, no event lost, ≥ 7 stages a way with all hooks
//! ```
//! Each cell is run several times in turn with the others; the figure is the middle run's. Exit codes: 0 the bounds are met, 1 failed, 3 one is missed.

#![forbid(unsafe_code)]
// The parts shared with the peer benchmark have more than this one needs.
#![allow(dead_code)]

use std::fmt::Write as _;
use std::process::{Command, ExitCode};
use std::time::Duration;

use clap::Parser;
use hairpin_record::explain::{Direction, Explain, Explained};

#[path = "../peers/children.rs"]
mod children;
#[path = "../peers/record.rs"]
mod record;

use record::{Flags, Stop, publish, write};

/// What is measured: name, flags, bound of the observer's p50 in ns.
const CELLS: [(&str, &[&str], u64); 6] = [
    ("loopback, all hooks", &["--link", "loopback"], 1_500),
    ("loopback, without the receive hook", &["--link", "loopback", "--without", "sock_recv_length"], 1_000),
    ("loopback, --light", &["--link", "loopback", "--light"], 600),
    ("veth, all hooks", &["--link", "veth"], 1_500),
    ("veth, without the receive hook", &["--link", "veth", "--without", "sock_recv_length"], 1_000),
    ("veth, --light", &["--link", "veth", "--light"], 600),
];
/// Traced less observer may lie so far from untraced, and the residual be so much of the RTT.
const NEAR: f64 = 0.05;
/// Stages of a way with all hooks.
const STAGES: usize = 7;

/// Options of the benchmark, after `cargo bench --package hairpin-cli --bench explain --profile dev --`.
#[derive(Parser)]
struct Options {
    /// Time of each run, half of it with hooks, in s
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// Runs of each cell; odd
    #[arg(long, default_value_t = 5)]
    runs: usize,
    #[command(flatten)]
    flags: Flags,
}

fn main() -> ExitCode {
    let options = Options::parse();
    options.flags.run("explain", "two minutes", || bench(&options))
}

/// Measures; true if a bound is missed.
fn bench(options: &Options) -> Result<bool, Stop> {
    let directory = options.flags.directory("explain", true)?;
    let mut runs: Vec<Vec<Explain>> = CELLS.iter().map(|_| Vec::new()).collect();
    for round in 0..options.runs.max(1) {
        for ((name, flags, _), runs) in CELLS.iter().zip(&mut runs) {
            eprintln!("round {}: {name}", round + 1);
            runs.push(measure(options, flags)?);
        }
    }
    let mut text = String::new();
    let mut missed = false;
    let _ = writeln!(
        text,
        "udp:spin, 64 B, RTT in ns: the middle of {} runs of {} s by the observer's p50\n\n{:36} {:>8} {:>8} {:>8} {:>6} {:>7} {:>7} {:>5} {:>9} {:>8}",
        options.runs,
        options.seconds,
        "cell",
        "observer",
        "bound",
        "untraced",
        "traced",
        "off",
        "residual",
        "hits",
        "rate /s",
        "lost"
    );
    for ((name, _, bound), runs) in CELLS.iter().zip(&mut runs) {
        runs.sort_by_key(|run| one(run).observer_ns.p50);
        let found = one(&runs[runs.len() / 2]);
        let line = Line::of(found, *bound, name);
        missed |= line.missed();
        let _ = writeln!(text, "{line}");
    }
    for ((name, ..), runs) in CELLS.iter().zip(&runs) {
        let file = format!("{}.json", name.replace(", ", "-").replace(' ', "-").replace("--light", "light"));
        let json = serde_json::to_string_pretty(&runs[runs.len() / 2]).map_err(|e| format!("{file}: {e}"))?;
        write(&directory.join(file), &format!("{json}\n"))?;
    }
    write(&directory.join("table.txt"), &text)?;
    print!("{text}");
    eprintln!("record: {}", directory.display());
    Ok(missed)
}

fn one(run: &Explain) -> &Explained {
    &run.results[0]
}

/// What a cell came to.
struct Line {
    name: String,
    observer: u64,
    bound: u64,
    untraced: u64,
    traced: u64,
    residual: u64,
    hits: f64,
    rate: f64,
    lost: u64,
    /// Stages of the request that most round trips passed.
    stages: usize,
    all: bool,
}

impl Line {
    fn of(found: &Explained, bound: u64, name: &str) -> Line {
        let count = found.rtt_ns.count;
        let usual = |stage: &&hairpin_record::explain::Stage| {
            stage.direction == Direction::Request && 2 * stage.ns.count >= count && !stage.name.contains('+')
        };
        Line {
            name: name.into(),
            observer: found.observer_ns.p50.unwrap_or(u64::MAX),
            bound,
            untraced: found.untraced_rtt_ns.p50.unwrap_or(0),
            traced: found.rtt_ns.p50.unwrap_or(0),
            residual: found.residual_ns.p50.unwrap_or(u64::MAX),
            hits: found.hooks.iter().map(|hook| hook.per_transaction).sum(),
            rate: found.rtt_ns.mean.map_or(0.0, |mean| 1e9 / mean),
            lost: found.lost_events,
            stages: found.stages.iter().filter(usual).count(),
            all: name.ends_with("all hooks"),
        }
    }

    /// How far traced less observer lies from untraced, as a share of it.
    fn off(&self) -> f64 {
        (self.traced as f64 - self.observer as f64) / (self.untraced as f64).max(1.0) - 1.0
    }

    fn missed(&self) -> bool {
        self.observer > self.bound
            || self.off().abs() > NEAR
            || self.residual as f64 > NEAR * self.traced as f64
            || self.lost > 0
            || (self.all && self.stages < STAGES)
    }
}

impl std::fmt::Display for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{:36} {:8} {:8} {:8} {:6} {:6.2}% {:7} {:5.1} {:9.0} {:8} {}",
            self.name,
            self.observer,
            self.bound,
            self.untraced,
            self.traced,
            100.0 * self.off(),
            self.residual,
            self.hits,
            self.rate,
            self.lost,
            if self.missed() { "MISS" } else { "ok" }
        )
    }
}

/// Runs `hairpin explain`: its record, without what is not published of a host.
fn measure(options: &Options, flags: &[&str]) -> Result<Explain, String> {
    let mut command = Command::new(&options.flags.hairpin);
    command.args(["explain", "--path", "udp:spin", "--json", "--warmup", "0.1s"]).args(flags);
    command.args(["--duration", &format!("{}s", options.seconds)]);
    let text = children::run(&mut command, Duration::from_secs_f64(60.0 + 3.0 * options.seconds))?;
    let mut run: Explain = serde_json::from_str(&text).map_err(|e| format!("hairpin's JSON: {e}"))?;
    if let Some(missing) = run.missing.first() {
        return Err(format!("{} is missing: {}", missing.hook, missing.why));
    }
    if let (Some(error), _) | (None, Some(error)) = (run.error.clone(), run.results.is_empty().then(|| "no result".to_owned())) {
        return Err(format!("hairpin: {error}"));
    }
    publish(&mut run.hosts, &mut run.command);
    Ok(run)
}
