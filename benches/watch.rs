//! `make bench-watch`: the cost of watching a run.
//!
//! ```text
//!   round    plain ─ --watch on a terminal ─ --metrics, scraped every second      each a run of its own, the order changes from round to round
//!   pair     ln(looked on / plain) of the medians of the blocks' p50 and p99, of each state of the cores by itself
//! ```
//! Each arm runs in a terminal of tmux, so that tmux's own cost is in all of them. A bound is met if the
//! whole interval lies within it, so an unclear result does not pass.
//!
//! Exit codes: 0 the bounds are met, 1 failed, 3 one is missed or unclear, 4 no tmux.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, Read, Write as _};
use std::net::TcpStream;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use clap::Args;
use hairpin_lab::records;
use hairpin_lab::store::Store;
use hairpin_record::run::{Block, Row};
use serde_json::json;

mod line;

use super::bound::middle;
use super::children;
use super::record::{Flags, Stop};
use super::states::{State, states};
use line::Line;

/// The paths that are run.
const PATHS: [&str; 2] = ["udp:spin", "udp:block"];
const ARMS: [Arm; 3] = [Arm::Plain, Arm::Watch, Arm::Metrics];
/// The upper bound of the ratio of p50 …
const P50_BOUND: f64 = 1.02;
/// … and of p99, which the machine itself moves more.
const P99_BOUND: f64 = 1.05;
/// The fewest pairs of a state that are judged, unless there are fewer rounds.
const FEWEST: usize = 12;
/// A state of the cores counts in a pair if both runs have at least this many blocks of it.
const LEAST_BLOCKS: usize = 5;

/// Options of the benchmark, after `cargo bench --package hairpin-cli --bench bench -- watch`.
#[derive(Args)]
pub(crate) struct Options {
    /// Measured time of each run, in s
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// Rounds
    #[arg(long, default_value_t = 16)]
    rounds: usize,
    /// The port for the metrics
    #[arg(long, default_value_t = 24_449)]
    port: u16,
    #[command(flatten)]
    flags: Flags,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Arm {
    Plain,
    Watch,
    Metrics,
}

impl Arm {
    fn name(self) -> &'static str {
        match self {
            Arm::Plain => "plain",
            Arm::Watch => "--watch",
            Arm::Metrics => "--metrics",
        }
    }
}

/// Medians of the blocks of one state.
#[derive(Clone, Copy)]
struct Medians {
    p50: f64,
    p99: Option<f64>,
}

/// One entry a state of the cores.
type StateMedians = Vec<Option<Medians>>;

/// Measures; true if a bound is missed.
pub(crate) fn bench(options: &Options) -> Result<bool, Stop> {
    if Command::new("tmux").arg("-V").output().is_err() {
        return Err(Stop::Missing("no tmux here: the view needs a terminal to draw on".into()));
    }
    let directory = options.flags.directory("watch", true)?;
    let lines = directory.join("runs.jsonl");
    let mut lines = fs::File::create(&lines).map_err(|e| format!("{}: {e}", lines.display()))?;
    let mut text = format!(
        "RTT looked on / RTT plain, {} rounds of {} s a run\n\n{:10} {:10} {:>5} {:>6} {:>7} {:>15} {:>7}\n",
        options.rounds, options.seconds, "path", "arm", "RTT", "pairs", "ratio", "interval", "bound"
    );
    let mut missed = false;
    for path in PATHS {
        let mut rounds: Vec<[Vec<Block>; 3]> = Vec::new();
        for round in 0..options.rounds {
            let mut found = [const { Vec::new() }; 3];
            for turn in 0..ARMS.len() {
                let at = (round + turn) % ARMS.len();
                let row = measure(options, path, ARMS[at])?;
                let line = json!({"path": path, "arm": ARMS[at].name(), "round": round, "rtt_ns": row.rtt_ns, "transactions": row.transactions,
                    "gap_ns": row.gap_ns, "warnings": row.warnings.iter().map(|note| &note.code).collect::<Vec<_>>()});
                writeln!(lines, "{line}").map_err(|e| e.to_string())?;
                found[at] = row.blocks;
            }
            rounds.push(found);
            eprintln!("{path}: round {} of {}", round + 1, options.rounds);
        }
        let states = states(rounds.iter().flatten().flatten().filter_map(|block| block.core_rtt_ns));
        let rounds: Vec<_> = rounds.iter().map(|round| round.each_ref().map(|blocks| medians(blocks, &states))).collect();
        for arm in 1..ARMS.len() {
            for (name, bound, of) in [
                ("p50", P50_BOUND, (|found: &Medians| Some(found.p50)) as fn(&Medians) -> Option<f64>),
                ("p99", P99_BOUND, |found: &Medians| found.p99),
            ] {
                let line = |state: usize| Line {
                    path,
                    arm: ARMS[arm].name(),
                    name,
                    bound,
                    cores: states.get(state).map(|state| state.median),
                    fewest: options.rounds.min(FEWEST),
                    logs: rounds.iter().filter_map(|round| pair(&round[arm], &round[0], state, of)).collect(),
                };
                // Each state by itself; where none has a pair there is a line that says so.
                let mut of_states: Vec<Line> = (0..states.len()).map(line).filter(|line| !line.logs.is_empty()).collect();
                missed |= line::missed(&of_states);
                if of_states.is_empty() {
                    of_states.push(line(0));
                }
                for line in of_states {
                    let _ = writeln!(text, "{line}");
                }
            }
        }
    }
    options.flags.table(&directory, text)?;
    Ok(missed)
}

/// ln(one / other) in a state that both saw.
fn pair(one: &StateMedians, other: &StateMedians, state: usize, of: fn(&Medians) -> Option<f64>) -> Option<f64> {
    let medians = |side: &StateMedians| of(side.get(state)?.as_ref()?);
    Some((medians(one)? / medians(other)?).ln())
}

/// Of the blocks of each state.
fn medians(blocks: &[Block], states: &[State]) -> StateMedians {
    let of_state = |state: &State| {
        let in_state = |block: &&Block| block.core_rtt_ns.is_some_and(|ns| state.range.contains(&ns));
        let blocks: Vec<&Block> = blocks.iter().filter(in_state).collect();
        if blocks.len() < LEAST_BLOCKS {
            return None;
        }
        let median = |of: fn(&Block) -> Option<u64>| {
            let ns = middle(blocks.iter().filter_map(|block| of(block)).map(|ns| ns as f64).collect());
            ns.is_finite().then_some(ns)
        };
        Some(Medians { p50: median(|block| block.p50)?, p99: median(|block| block.p99) })
    };
    states.iter().map(of_state).collect()
}

/// One run in a terminal: its row.
fn measure(options: &Options, path: &str, arm: Arm) -> Result<Row, String> {
    let home = tempfile::tempdir().map_err(|e| e.to_string())?;
    let socket = home.path().join("tmux");
    let tmux = |arguments: &[&str]| {
        let mut command = Command::new("tmux");
        command.arg("-S").arg(&socket).args(["-f", "/dev/null", "-u"]).args(arguments);
        command.env("HAIRPIN_RUNS", home.path()).env("TERM", "xterm-256color").env_remove("TMUX");
        command
    };
    let more = match arm {
        Arm::Plain => String::new(),
        Arm::Watch => "--watch".into(),
        Arm::Metrics => format!("--metrics 127.0.0.1:{}", options.port),
    };
    let command = format!(
        "{} ping --link loopback --path {path} --duration {}s --warmup 200ms {more}; tmux -S {} wait-for -S over",
        options.flags.hairpin.display(),
        options.seconds,
        socket.display()
    );
    let limit = Duration::from_secs_f64(30.0 + 2.0 * options.seconds);
    let over = AtomicBool::new(false);
    let ended = thread::scope(|scope| {
        let scraping = (arm == Arm::Metrics).then(|| scope.spawn(|| scrape(options.port, &over)));
        let ran = children::run(&mut tmux(&["new-session", "-d", "-x", "100", "-y", "30", "sh", "-c", &command]), limit)
            .and_then(|_| children::run(&mut tmux(&["wait-for", "over"]), limit));
        over.store(true, Ordering::Relaxed);
        let answers = scraping.map(|scraping| scraping.join().unwrap_or(0));
        ran.and_then(|_| if answers == Some(0) { Err("no scrape of the metrics was answered".to_owned()) } else { Ok(()) })
    });
    // The terminal has ended with its command; a server that has already ended is no error.
    let _ = tmux(&["kill-server"]).output();
    ended?;
    let (_, run) =
        records::run(&Store::open(home.path()), "latest", "read").map_err(|e| format!("{path} {}: {e}", arm.name()))?;
    if let Some(error) = run.head.error {
        return Err(format!("hairpin: {error}"));
    }
    run.body.results.into_iter().next().ok_or_else(|| "the run has no row".into())
}

/// Reads the metrics every second, as Prometheus would; returns the number of answers.
fn scrape(port: u16, over: &AtomicBool) -> usize {
    let mut answers = 0;
    while !over.load(Ordering::Relaxed) {
        // No one answers before the run listens or after its end.
        let is_answered = asked(port).is_ok_and(|answer| answer.starts_with(b"HTTP/1.1 200"));
        answers += usize::from(is_answered);
        let pauses = if is_answered { 20 } else { 1 };
        for _ in 0..pauses {
            if over.load(Ordering::Relaxed) {
                return answers;
            }
            thread::sleep(Duration::from_millis(50));
        }
    }
    answers
}

fn asked(port: u16) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    let accept = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited";
    stream.write_all(format!("GET /metrics HTTP/1.1\r\nAccept: {accept}\r\n\r\n").as_bytes())?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn only_a_scrape_that_is_answered_counts() {
        let counted = |answer: &'static [u8]| {
            let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
            let (port, over) = (listener.local_addr().unwrap().port(), AtomicBool::new(false));
            thread::scope(|scope| {
                let scraping = scope.spawn(|| scrape(port, &over));
                let (mut stream, _) = listener.accept().unwrap();
                // The request has come, so that closing leaves nothing unread.
                let read = stream.read(&mut [0; 512]).unwrap();
                assert!(read > 0);
                over.store(true, Ordering::Relaxed);
                stream.write_all(answer).unwrap();
                drop(stream);
                scraping.join().unwrap()
            })
        };
        assert_eq!((counted(b"HTTP/1.1 200 OK\r\n\r\n"), counted(b"HTTP/1.1 500 Internal Server Error\r\n\r\n")), (1, 0));
    }
}
