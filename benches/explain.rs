//! `make bench-explain`: the time of the hooks in a round trip, and the agreement of stages, hooks and the
//! untraced figure.
//!
//! ```text
//!   hooks    udp:spin over loopback and veth: all hooks, all but the receive hook, --light       observer p50 ≤ 1.5, 1.0, 0.6 us
//!   sums     of every run above, and of udp:block: traced less hits · cost within 5 % of untraced, residual ≤ 5 %, no event lost,
//!            ≥ 7 stages a way with all hooks
//!   cost     of a hit with the same hooks, taken from another link than the one it is compared with: loopback's for veth and for udp:block, veth's for loopback
//! ```
//! On the link where it was measured, a cost is right by definition: there it is the hooks' time divided by
//! their hits. Each cell is run several times in turn with the others; the figure is the middle run's. Exit
//! codes: 0 the bounds are met, 1 failed, 3 one is missed.

use std::fmt::Write as _;
use std::process::Command;
use std::time::Duration;

use clap::Args;
use hairpin_record::explain::{Direction, Explain, Explained};

use super::children;
use super::record::{Flags, Stop, publish, write};

/// A measured cell.
struct Cell {
    name: &'static str,
    path: &'static str,
    flags: &'static [&'static str],
    /// Of the observer's p50 in ns; none where a side sleeps and more hooks are passed.
    bound: Option<u64>,
    /// Number of the cell that supplies the cost of a hit.
    cost: usize,
}

const fn cell(name: &'static str, flags: &'static [&'static str], bound: u64, cost: usize) -> Cell {
    Cell { name, path: "udp:spin", flags, bound: Some(bound), cost }
}

const CELLS: [Cell; 8] = [
    cell("loopback, all hooks", &["--link", "loopback"], 1_500, 3),
    cell("loopback, without the receive hook", &["--link", "loopback", "--without", "sock_recv_length"], 1_000, 4),
    cell("loopback, --light", &["--link", "loopback", "--light"], 600, 5),
    cell("veth, all hooks", &["--link", "veth"], 1_500, 0),
    cell("veth, without the receive hook", &["--link", "veth", "--without", "sock_recv_length"], 1_000, 1),
    cell("veth, --light", &["--link", "veth", "--light"], 600, 2),
    Cell { name: "loopback, udp:block, all hooks", path: "udp:block", flags: &["--link", "loopback"], bound: None, cost: 3 },
    Cell { name: "veth, udp:block, all hooks", path: "udp:block", flags: &["--link", "veth"], bound: None, cost: 0 },
];
/// Largest distance of traced less hooks from untraced, and largest residual, as a share of the RTT.
const NEAR: f64 = 0.05;
/// Stages of a way with all hooks.
const STAGES: usize = 7;

/// Options of the benchmark, after `cargo bench --package hairpin-cli --bench bench -- explain`.
#[derive(Args)]
pub(crate) struct Options {
    /// Time of each run, half of it with hooks, in s
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// Runs of each cell; odd
    #[arg(long, default_value_t = 5)]
    runs: usize,
    #[command(flatten)]
    flags: Flags,
}

/// Measures; true if a bound is missed.
pub(crate) fn bench(options: &Options) -> Result<bool, Stop> {
    let directory = options.flags.directory("explain", true)?;
    let mut runs: Vec<Vec<Explain>> = CELLS.iter().map(|_| Vec::new()).collect();
    for round in 0..options.runs.max(1) {
        for (cell, runs) in CELLS.iter().zip(&mut runs) {
            eprintln!("round {}: {}", round + 1, cell.name);
            runs.push(measure(options, cell)?);
        }
    }
    let mut text = String::new();
    let mut missed = false;
    let _ = writeln!(
        text,
        "udp:spin but where a path is named, 64 B, RTT in ns: the middle of {} runs of {} s by the observer's p50; hooks: hits · the cost of a hit on the other link\n\n\
         {:36} {:>8} {:>8} {:>8} {:>8} {:>6} {:>7} {:>7} {:>5} {:>9} {:>8}",
        options.runs,
        options.seconds,
        "cell",
        "observer",
        "bound",
        "hooks",
        "untraced",
        "traced",
        "off",
        "residual",
        "hits",
        "rate /s",
        "lost"
    );
    for runs in &mut runs {
        runs.sort_by_key(|run| one(run).observer_ns.p50);
    }
    let costs: Vec<f64> = runs.iter().map(|runs| one(&runs[runs.len() / 2]).hook_ns.unwrap_or(0.0)).collect();
    for (cell, runs) in CELLS.iter().zip(&runs) {
        let line = Line::of(one(&runs[runs.len() / 2]), cell, costs[cell.cost]);
        missed |= line.missed();
        let _ = writeln!(text, "{line}");
    }
    for (cell, runs) in CELLS.iter().zip(&runs) {
        let file = format!("{}.json", cell.name.replace(", ", "-").replace([':', ' '], "-").replace("--light", "light"));
        let json = serde_json::to_string(&runs[runs.len() / 2]).map_err(|e| format!("{file}: {e}"))?;
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

/// Result of a cell.
struct Line {
    name: String,
    observer: u64,
    bound: Option<u64>,
    /// Time of the hooks, by a cost measured elsewhere.
    hooks: f64,
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
    fn of(found: &Explained, cell: &Cell, hook_ns: f64) -> Line {
        let hits: f64 = found.hooks.iter().map(|hook| hook.per_transaction).sum();
        let count = found.rtt_ns.count;
        let usual = |stage: &&hairpin_record::explain::Stage| {
            stage.direction == Direction::Request && 2 * stage.ns.count >= count && !stage.name.contains('+')
        };
        Line {
            name: cell.name.into(),
            observer: found.observer_ns.p50.unwrap_or(u64::MAX),
            bound: cell.bound,
            hooks: hits * hook_ns,
            untraced: found.untraced_rtt_ns.p50.unwrap_or(0),
            traced: found.rtt_ns.p50.unwrap_or(0),
            residual: found.residual_ns.p50.unwrap_or(u64::MAX),
            hits,
            rate: found.rtt_ns.mean.map_or(0.0, |mean| 1e9 / mean),
            lost: found.lost_events,
            stages: found.stages.iter().filter(usual).count(),
            all: cell.name.ends_with("all hooks"),
        }
    }

    /// Distance of traced less the hooks from untraced, as a share of it.
    fn off(&self) -> f64 {
        (self.traced as f64 - self.hooks) / (self.untraced as f64).max(1.0) - 1.0
    }

    fn missed(&self) -> bool {
        self.bound.is_some_and(|bound| self.observer > bound)
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
            "{:36} {:8} {:>8} {:8.0} {:8} {:6} {:6.2}% {:7} {:5.1} {:9.0} {:8} {}",
            self.name,
            self.observer,
            self.bound.map_or("-".into(), |bound| bound.to_string()),
            self.hooks,
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

/// Runs `hairpin explain`, and returns its record without the host's private facts.
fn measure(options: &Options, cell: &Cell) -> Result<Explain, String> {
    let mut command = Command::new(&options.flags.hairpin);
    command.args(["explain", "--path", cell.path, "--json", "--no-store", "--warmup", "0.1s"]).args(cell.flags);
    command.args(["--duration", &format!("{}s", options.seconds)]);
    let text = children::run(&mut command, Duration::from_secs_f64(60.0 + 3.0 * options.seconds))?;
    let mut run: Explain = serde_json::from_str(&text).map_err(|e| format!("hairpin's JSON: {e}"))?;
    if let Some(missing) = run.missing.first() {
        return Err(format!("{} is missing: {}", missing.hook, missing.why));
    }
    if let (Some(error), _) | (None, Some(error)) =
        (run.head.error.clone(), run.results.is_empty().then(|| "no result".to_owned()))
    {
        return Err(format!("hairpin: {error}"));
    }
    publish(&mut run.body.place.hosts, &mut run.head.command);
    Ok(run)
}
