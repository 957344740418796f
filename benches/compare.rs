//! `make bench-compare`: the rate of false alarms of `hairpin compare`, and its rate of finding a small real
//! difference.
//!
//! ```text
//!   null     A against the same A, short: a verdict of faster or slower is a false word           } ≤ 5 % of the words said, of both parts
//!   same     A against the same A on spinning paths for 60 s                                      } ≥ 80 % say `same`
//!   power    the two ports of an echo server (delayed.c) that waits at the second, for 30 s:
//!            1 % of p50 (spin) or 5 % (block)                                                       ≥ 80 % say `slower`
//!   gate     --baseline with ten runs, each row measured anew five times, nothing changed         ≤ 2 % of the words said close the gate
//!   change   the same, and the server has come to wait 5 % of p50 longer                          ≥ 80 % of the gates close
//! ```
//! A word is any verdict but `unclear`. A share is told with its exact 95 % interval, and a bound holds if the whole of it does: of 20 trials all, and of the words
//! none of the first 72.
//!
//! The ten runs of a gate's baseline are those before the last ten gates, as moods of a host last for minutes. A change of 5 % can be found that often
//! where runs differ by at most 1.5 % (standard deviation); where they differ more, `change` has no bound, and the table says so.
//!
//! `injected` is what the server really waited longer. In `power` a program that shares no code with hairpin makes that wait and measures it, during the very
//! comparison; in `change` it is the difference of the turn-arounds by hairpin's own server. The trials of all cells are taken in turn. Exit codes: 0 the bounds are
//! met, 1 failed, 3 one is missed or unclear.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use clap::{Args, ValueEnum};
use hairpin_record::compare::Compare;
use hairpin_record::experiment::{Figure, Verdict};
use hairpin_record::run::Run;
use hairpin_sys::thread::allowed_cpus;
use rustix::process::Signal;
use serde_json::json;

use super::bound::{Limit, Word, of_count, share_text};
use super::children::{self, Guarded, pinned};
use super::control::compiled;
use super::record::{Flags, Stop};

/// A cell: its part, path and link, and the share of p50 by which the second side is slower.
struct Cell {
    part: Part,
    path: &'static str,
    link: &'static str,
    slower: f64,
}

const CELLS: [Cell; 12] = [
    Cell { part: Part::Null, path: "udp:spin", link: "loopback", slower: 0.0 },
    Cell { part: Part::Null, path: "tcp:spin", link: "veth", slower: 0.0 },
    Cell { part: Part::Null, path: "udp:block", link: "loopback", slower: 0.0 },
    Cell { part: Part::Null, path: "memory", link: "loopback", slower: 0.0 },
    Cell { part: Part::Same, path: "udp:spin", link: "loopback", slower: 0.0 },
    Cell { part: Part::Same, path: "tcp:spin", link: "veth", slower: 0.0 },
    Cell { part: Part::Power, path: "udp:spin", link: "echo", slower: 0.01 },
    Cell { part: Part::Power, path: "udp:block", link: "echo", slower: 0.05 },
    Cell { part: Part::Gate, path: "udp:spin", link: "loopback", slower: 0.0 },
    Cell { part: Part::Gate, path: "tcp:spin", link: "veth", slower: 0.0 },
    Cell { part: Part::Change, path: "udp:spin", link: "loopback", slower: 0.05 },
    Cell { part: Part::Change, path: "tcp:spin", link: "veth", slower: 0.05 },
];

/// Runs of a gate's baseline.
const BASELINE: usize = 10;
/// Pause between the runs of the first baseline.
const APART: Duration = Duration::from_secs(15);
/// Standard deviation between runs up to which a gate must find a change of 5 %.
const RUNS_DIFFER: f64 = 0.015;

/// The parts of the benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
enum Part {
    /// False alarms of short comparisons
    Null,
    /// Share of verdicts `same` after a minute
    Same,
    /// Small differences that are there
    Power,
    /// False alarms of a gate against several runs of a baseline
    Gate,
    /// A change of 5 % that such a gate must find
    Change,
}

impl Part {
    const ALL: [Part; 5] = [Part::Null, Part::Same, Part::Power, Part::Gate, Part::Change];

    /// Length of a comparison, or of each run of a gate.
    fn seconds(self) -> f64 {
        match self {
            Part::Gate | Part::Change => 1.0,
            Part::Null => 6.0,
            Part::Same => 60.0,
            Part::Power => 30.0,
        }
    }

    /// Trials of a cell: of `null` and of `gate` 200 in all.
    fn trials(self) -> usize {
        match self {
            Part::Gate => 100,
            Part::Change => 20,
            Part::Null => 50,
            Part::Same => 20,
            Part::Power => 20,
        }
    }

    /// The verdicts that count, in words, and the bound on their share.
    fn bound(self) -> (&'static str, Limit) {
        match self {
            Part::Null => ("faster or slower", Limit::None),
            Part::Same => ("same", Limit::AtLeast(0.80)),
            Part::Power => ("slower", Limit::AtLeast(0.80)),
            Part::Gate => ("slower: the gate closes", Limit::AtMost(0.02)),
            Part::Change => ("slower: the gate closes", Limit::AtLeast(0.80)),
        }
    }

    fn counts(self, verdict: Verdict) -> bool {
        match self {
            Part::Null => matches!(verdict, Verdict::Faster | Verdict::Slower),
            Part::Same => verdict == Verdict::Same,
            Part::Power | Part::Gate | Part::Change => verdict == Verdict::Slower,
        }
    }
}

/// The share of false words in the words said, where nothing differs.
const FALSE_WORDS: Limit = Limit::AtMost(0.05);

/// Options of the benchmark, after `cargo bench --package hairpin-cli --bench bench -- compare`.
#[derive(Args)]
pub(crate) struct Options {
    /// A part alone; repeatable; all if not given
    #[arg(long)]
    part: Vec<Part>,
    /// Trials of each cell instead of 50 (null), 20 (same), 20 (power), 100 (gate) and 20 (change)
    #[arg(long)]
    trials: Option<usize>,
    /// Length of each comparison in s instead of 6, 60 and 30, and of each run of a gate instead of 1
    #[arg(long)]
    seconds: Option<f64>,
    #[command(flatten)]
    flags: Flags,
}

/// One comparison.
struct Trial {
    verdict: Verdict,
    /// By how much the second side's server waited longer, as a share of p50; `None` where it did not.
    injected: Option<f64>,
    ratio: Option<f64>,
    /// Half the interval's width as a share.
    half: Option<f64>,
    /// The standard deviation between runs, as a share; of a gate.
    between_runs: Option<f64>,
    pairs: u64,
    dropped: u64,
}

/// Measures; true if a bound is missed.
pub(crate) fn bench(options: &Options) -> Result<bool, Stop> {
    let directory = options.flags.directory("compare", true)?;
    let lines = directory.join("trials.jsonl");
    let mut lines = fs::File::create(&lines).map_err(|e| format!("{}: {e}", lines.display()))?;
    let mut text = format!(
        "{:6} {:10} {:9} {:>7} {:>8} {:>6} {:>6} {:>6} {:>6} {:>7} {:>8} {:>9} {:>7} {:>6} {:>8}\n",
        "part",
        "path",
        "link",
        "slower",
        "injected",
        "trials",
        "faster",
        "slower",
        "same",
        "unclear",
        "ratio",
        "interval",
        "runs",
        "pairs",
        "dropped"
    );
    let mut words = Vec::new();
    // Of the parts in which nothing differs.
    let (mut said, mut wrong) = (0, 0);
    for part in Part::ALL.into_iter().filter(|part| options.part.is_empty() || options.part.contains(part)) {
        let cells: Vec<&Cell> = CELLS.iter().filter(|cell| cell.part == part).collect();
        let mut found: BTreeMap<usize, Vec<Trial>> = BTreeMap::new();
        let mut baselines: Vec<Baseline> = Vec::new();
        if matches!(part, Part::Gate | Part::Change) {
            baselines = cells.iter().map(|cell| Baseline::begin(options, cell)).collect::<Result<_, String>>()?;
            for _ in 1..BASELINE {
                std::thread::sleep(APART);
                baselines.iter_mut().zip(&cells).try_for_each(|(baseline, cell)| baseline.measure(options, cell))?;
            }
        }
        for round in 0..options.trials.unwrap_or(part.trials()) {
            for (at, cell) in cells.iter().enumerate() {
                let trial = match part {
                    Part::Gate | Part::Change => {
                        baselines[at].measure(options, cell)?;
                        baselines[at].gate(options, cell)?
                    }
                    Part::Power => power(options, cell, round)?,
                    Part::Null | Part::Same => trial(options, cell, round)?,
                };
                eprintln!("{} {}/{}: {}", name(part), cell.path, round + 1, trial.verdict);
                let line = json!({"part": name(part), "path": cell.path, "link": cell.link, "slower": cell.slower,
                    "injected": trial.injected, "verdict": trial.verdict,
                    "ratio": trial.ratio, "half_interval": trial.half, "between_runs": trial.between_runs, "pairs": trial.pairs, "dropped": trial.dropped});
                writeln!(lines, "{line}").map_err(|e| e.to_string())?;
                found.entry(at).or_default().push(trial);
            }
        }
        let (says, limit) = part.bound();
        let (mut all, mut alarms) = (0, 0);
        for (at, trials) in &found {
            let cell = cells[*at];
            let counted = trials.iter().filter(|trial| part.counts(trial.verdict)).count();
            let of_cell = trials.iter().filter(|trial| trial.verdict != Verdict::Unclear).count();
            let false_words = trials.iter().filter(|trial| matches!(trial.verdict, Verdict::Faster | Verdict::Slower)).count();
            (all, alarms) = (all + of_cell, alarms + false_words);
            let _ = writeln!(text, "{}", line(cell, trials));
            let differ = middle(trials.iter().filter_map(|trial| trial.between_runs).collect());
            let mut limit = if part == Part::Gate { Limit::None } else { limit };
            if part == Part::Change && differ > RUNS_DIFFER {
                let _ = writeln!(text, "  no bound: runs differ by {:.1} %", 100.0 * differ);
                limit = Limit::None;
            }
            if limit != Limit::None {
                let word = limit.of(of_count(counted, trials.len()));
                let share = share_text(counted, trials.len());
                let _ = writeln!(text, "  {share} say {says}; bound {}: {word}", limit.text());
                words.push(word);
            }
        }
        match part {
            Part::Null | Part::Same => (said, wrong) = (said + all, wrong + alarms),
            Part::Gate => {
                let word = limit.of(of_count(alarms, all));
                let _ = writeln!(
                    text,
                    "  {} of the words said close the gate; bound {}: {word}",
                    share_text(alarms, all),
                    limit.text()
                );
                words.push(word);
            }
            Part::Power | Part::Change => {}
        }
        text.push('\n');
        if part == Part::Same || part == Part::Null && !options.part.is_empty() && !options.part.contains(&Part::Same) {
            let word = FALSE_WORDS.of(of_count(wrong, said));
            let share = share_text(wrong, said);
            let _ = writeln!(
                text,
                "false words where nothing differs: {share} of the words said; bound {}: {word}\n",
                FALSE_WORDS.text()
            );
            words.push(word);
        }
    }
    let missed = words.into_iter().any(Word::missed);
    text.push_str(if missed { "a bound is missed or unclear\n" } else { "all bounds are met\n" });
    options.flags.table(&directory, text)?;
    Ok(missed)
}

fn name(part: Part) -> &'static str {
    match part {
        Part::Null => "null",
        Part::Same => "same",
        Part::Power => "power",
        Part::Gate => "gate",
        Part::Change => "change",
    }
}

/// The median; NaN of nothing.
fn middle(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn line(cell: &Cell, trials: &[Trial]) -> String {
    let of = |verdict| trials.iter().filter(|trial| trial.verdict == verdict).count();
    let percent = |share: f64| if share.is_finite() { format!("{:.2}%", share * 100.0) } else { "-".into() };
    format!(
        "{:6} {:10} {:9} {:>6}% {:>8} {:6} {:6} {:6} {:6} {:7} {:8.4} ±{:7.2}% {:>7} {:6.0} {:8.0}",
        name(cell.part),
        cell.path,
        cell.link,
        cell.slower * 100.0,
        percent(middle(trials.iter().filter_map(|trial| trial.injected).collect())),
        trials.len(),
        of(Verdict::Faster),
        of(Verdict::Slower),
        of(Verdict::Same),
        of(Verdict::Unclear),
        middle(trials.iter().filter_map(|trial| trial.ratio).collect()),
        100.0 * middle(trials.iter().filter_map(|trial| trial.half).collect()),
        percent(middle(trials.iter().filter_map(|trial| trial.between_runs).collect())),
        middle(trials.iter().map(|trial| trial.pairs as f64).collect()),
        middle(trials.iter().map(|trial| trial.dropped as f64).collect()),
    )
}

/// A delay in ns, and the share of p50 that it was measured to be.
struct Delay {
    ns: f64,
    share: f64,
}

/// A path against itself.
fn trial(options: &Options, cell: &Cell, round: usize) -> Result<Trial, String> {
    let (mut command, seconds) = comparison(options, cell, round);
    command.args(["--link", cell.link, "--", cell.path, "--", cell.path]);
    let record = compared(&mut command, 60.0 + 2.0 * seconds)?;
    let verdict = record.comparisons.first().ok_or("no comparison")?.verdict;
    told(&record, verdict, None)
}

fn comparison(options: &Options, cell: &Cell, round: usize) -> (Command, f64) {
    let seconds = options.seconds.unwrap_or(cell.part.seconds());
    let mut command = Command::new(&options.flags.hairpin);
    command.args(["compare", "--json", "--no-store", "--seed", &round.to_string(), "--duration", &format!("{seconds}s")]);
    (command, seconds)
}

/// Compares the two ports of an echo server that waits at the second. The server measures its wait itself, by a clock that hairpin has no part in.
fn power(options: &Options, cell: &Cell, round: usize) -> Result<Trial, String> {
    let without = Delayed::start(cell, 0)?;
    let run = pinged(options, &[&format!("echo:{}", without.ports[0])], cell.path, 1.0, &["--cpu", &without.cpus])?;
    let run: Run = serde_json::from_str(&run).map_err(|e| format!("hairpin's JSON: {e}"))?;
    let p50 = run.results.first().and_then(|row| row.rtt_ns.p50).ok_or("no p50")? as f64;
    drop(without);
    let server = Delayed::start(cell, (cell.slower * p50).round() as u64)?;
    let (mut command, seconds) = comparison(options, cell, round);
    let [first, second] = server.ports.each_ref().map(|port| format!("echo:{port}"));
    command.args(["--path", cell.path, "--cpu", &server.cpus, "--", &first, "--", &second]);
    let record = compared(&mut command, 60.0 + 2.0 * seconds)?;
    let verdict = record.comparisons.first().ok_or("no comparison")?.verdict;
    let ns = server.longer()?;
    let p50 = record.comparisons[0].figures.iter().find(|of| of.figure == Figure::P50).and_then(|of| of.base).unwrap_or(p50);
    told(&record, verdict, Some(Delay { ns, share: ns / p50 }))
}

/// `delayed.c` at work.
struct Delayed {
    child: Guarded,
    ports: [SocketAddrV4; 2],
    /// The client's CPU and its own, as `--cpu` takes them.
    cpus: String,
}

impl Delayed {
    fn start(cell: &Cell, ns: u64) -> Result<Delayed, String> {
        let allowed = allowed_cpus().map_err(|e| e.to_string())?;
        let [client, server, ..] = allowed[..] else { return Err("this takes two CPUs, and one is allowed".into()) };
        let program = compiled("delayed", &[]).map_err(|stop| stop.to_string())?;
        // Both are open at once, so that they differ.
        let free = [(); 2]
            .map(|()| UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|socket| Ok((socket.local_addr()?.port(), socket))));
        let [first, second] = free;
        let (first, second) = (first.map_err(|e| e.to_string())?, second.map_err(|e| e.to_string())?);
        let ports = [first.0, second.0];
        drop((first, second));
        let wait = if cell.path.ends_with(":spin") { "spin" } else { "block" };
        let mut command = pinned(None, server, &program.to_string_lossy());
        command.args([wait, &server.to_string()]).args(ports.map(|port| port.to_string())).arg(ns.to_string());
        let child = children::start(&mut command)?;
        child.wait_until_it_catches(Signal::TERM, Duration::from_secs(5))?;
        let ports = ports.map(|port| SocketAddrV4::new(Ipv4Addr::LOCALHOST, port));
        Ok(Delayed { child, ports, cpus: format!("{client},{server}") })
    }

    /// Ends it: by how much its median turn-around was longer at the second port, in ns.
    fn longer(self) -> Result<f64, String> {
        self.child.signal(Signal::TERM)?;
        let said = self.child.finish(Duration::from_secs(5))?;
        longer(&said)
    }
}

/// Parses a line `MEDIAN COUNT` for each port.
fn longer(said: &str) -> Result<f64, String> {
    let numbers: Vec<f64> = said.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    match numbers[..] {
        [first, of_first, second, of_second] if of_first >= 100.0 && of_second >= 100.0 => Ok(second - first),
        _ => Err(format!("the server with a delay said {said:?}")),
    }
}

fn compared(command: &mut Command, limit_s: f64) -> Result<Compare, String> {
    let text = children::run(command, Duration::from_secs_f64(limit_s))?;
    // A gate that closes says so on stderr too.
    let json = text.lines().rfind(|line| line.starts_with('{')).ok_or_else(|| format!("hairpin printed no JSON: {text}"))?;
    let record: Compare = serde_json::from_str(json).map_err(|e| format!("hairpin's JSON: {e}"))?;
    record.head.error.as_ref().map_or(Ok(()), |error| Err(format!("hairpin: {error}")))?;
    Ok(record)
}

fn told(record: &Compare, verdict: Verdict, delay: Option<Delay>) -> Result<Trial, String> {
    let comparison = record.comparisons.first().ok_or("no comparison")?;
    let found = comparison.figures.iter().find(|found| found.figure == Figure::P50);
    Ok(Trial {
        verdict,
        injected: delay.map(|delay| delay.share),
        ratio: found.and_then(|found| found.ratio),
        half: found.and_then(|found| Some((found.high? / found.low?).sqrt() - 1.0)),
        between_runs: found.and_then(|found| found.between_runs),
        pairs: comparison.pairs,
        dropped: comparison.dropped,
    })
}

/// The path with the delay.
fn slower(cell: &Cell, delay: Option<&Delay>) -> String {
    delay.map_or_else(|| cell.path.to_owned(), |delay| format!("{},delay={:.0}", cell.path, delay.ns))
}

/// The second side's added server wait, requested and real: the middle of five differences of the servers'
/// mean turn-arounds, each of two runs of 0.3 s. That clock is the server's, and not part of the comparison.
fn delay(options: &Options, cell: &Cell) -> Result<Option<Delay>, String> {
    if cell.slower <= 0.0 {
        return Ok(None);
    }
    let p50 = ping(options, cell.link, cell.path, 1.0)?.results.first().and_then(|row| row.rtt_ns.p50).ok_or("no p50")? as f64;
    let mut delay = Delay { ns: (cell.slower * p50).round(), share: 0.0 };
    let turnaround = |path: &str| {
        let run = ping(options, cell.link, path, 0.3)?;
        run.results.first().and_then(|row| row.turnaround_ns.as_ref()?.mean).ok_or_else(|| "no turn-around".to_owned())
    };
    let with = slower(cell, Some(&delay));
    let mut longer = (0..5).map(|_| Ok(-turnaround(cell.path)? + turnaround(&with)?)).collect::<Result<Vec<f64>, String>>()?;
    longer.sort_by(f64::total_cmp);
    delay.share = longer[2] / p50;
    Ok(Some(delay))
}

fn ping(options: &Options, link: &str, path: &str, seconds: f64) -> Result<Run, String> {
    serde_json::from_str(&pinged(options, &["--link", link], path, seconds, &[])?).map_err(|e| format!("hairpin's JSON: {e}"))
}

fn pinged(options: &Options, target: &[&str], path: &str, seconds: f64, more: &[&str]) -> Result<String, String> {
    let mut command = Command::new(&options.flags.hairpin);
    let duration = format!("{seconds}s");
    command.arg("ping").args(target).args(["--path", path, "--duration", &duration, "--warmup", "0.1s", "--json", "--no-store"]);
    command.args(more);
    children::run(&mut command, Duration::from_secs_f64(60.0 + 2.0 * seconds))
}

/// The runs that gates compare with, as files: the last ten.
struct Baseline {
    home: tempfile::TempDir,
    delay: Option<Delay>,
    measured: usize,
}

impl Baseline {
    fn begin(options: &Options, cell: &Cell) -> Result<Baseline, String> {
        let home = tempfile::tempdir().map_err(|e| e.to_string())?;
        let mut baseline = Baseline { home, delay: delay(options, cell)?, measured: 0 };
        baseline.measure(options, cell)?;
        Ok(baseline)
    }

    /// Measures one more run, which takes the place of the oldest. If the work is to become slower, the record names the slower path, so that
    /// this is measured anew.
    fn measure(&mut self, options: &Options, cell: &Cell) -> Result<(), String> {
        let text = pinged(options, &["--link", cell.link], cell.path, options.seconds.unwrap_or(cell.part.seconds()), &[])?;
        let mut run: serde_json::Value = serde_json::from_str(&text).map_err(|e| format!("hairpin's JSON: {e}"))?;
        run["results"][0]["path"] = slower(cell, self.delay.as_ref()).into();
        let file = self.file(self.measured % BASELINE);
        self.measured += 1;
        fs::write(&file, run.to_string()).map_err(|e| format!("{}: {e}", file.display()))
    }

    fn file(&self, at: usize) -> PathBuf {
        self.home.path().join(format!("{at}.json"))
    }

    /// One gate: `slower` if it closes, `unclear` if it cannot tell.
    fn gate(&self, options: &Options, cell: &Cell) -> Result<Trial, String> {
        // A closed gate ends with 3, which is not a failure here.
        let mut command = Command::new("sh");
        command.args(["-c", "\"$0\" \"$@\" || [ $? = 3 ]"]).arg(&options.flags.hairpin).args(["compare", "--json", "--no-store"]);
        for at in 0..BASELINE {
            command.arg("--baseline").arg(self.file(at));
        }
        command.args(["--fail-if", "p50 > +0%"]);
        let seconds = options.seconds.unwrap_or(cell.part.seconds());
        let record = compared(&mut command, 60.0 + 40.0 * seconds)?;
        let threshold = record.thresholds.first().ok_or("no threshold")?;
        let verdict = match (threshold.crossed, &threshold.unknown) {
            (true, _) => Verdict::Slower,
            (_, Some(_)) => Verdict::Unclear,
            _ => Verdict::Same,
        };
        told(&record, verdict, self.delay.as_ref().map(|delay| Delay { ns: delay.ns, share: delay.share }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_with_a_delay_tells_how_much_longer_it_waited() {
        assert_eq!(longer("41 20000\n101 20111\n"), Ok(60.0));
        assert!(longer("41 20000\n101 7\n").is_err() && longer("bind: Address already in use\n").is_err());
    }

    #[test]
    fn twenty_trials_that_all_find_it_hold_the_bound_and_nineteen_leave_it_unclear() {
        let word = |part: Part, counted, all| part.bound().1.of(of_count(counted, all));
        assert_eq!([20, 19, 10].map(|found| word(Part::Power, found, 20)), [Word::Ok, Word::Unclear, Word::Miss]);
        assert_eq!([0, 1, 20].map(|closed| word(Part::Gate, closed, 200)), [Word::Ok, Word::Unclear, Word::Miss]);
        // Out of the words said: a rule that hardly ever speaks shows nothing.
        assert_eq!(
            [(0, 72), (0, 35), (20, 100)].map(|(wrong, said)| FALSE_WORDS.of(of_count(wrong, said))),
            [Word::Ok, Word::Unclear, Word::Miss]
        );
    }
}
