//! Stored runs held against each other: their own blocks are the unit, and they were not measured in turn.

use hairpin_iopath::job::Job;
use hairpin_record::compare::{self, Arm, Compare, Comparison, Figures, Method};
use hairpin_record::experiment::{ArmBlock, Estimate, Figure};
use hairpin_record::paired::{self, Shift};
use hairpin_record::run::{Block, Row, Run};
use hairpin_record::warning::Note;
use hairpin_units::Nanos;

use super::{Limit, name, verdict};
use crate::experiment::states::States;
use crate::ping::{self, PingError, Watcher};

/// Blocks of a run that are looked at: its last ones.
const MOST: usize = 1000;

/// Why stored runs cannot be compared.
#[derive(Debug, thiserror::Error)]
pub enum StoredError {
    /// Nothing in one that is in the other.
    #[error(
        "the two runs have no row in common: first {first}; second {second}; compare runs of the same paths and sizes, or of one row each"
    )]
    NothingInCommon {
        /// Paths and sizes.
        first: String,
        /// Of the other.
        second: String,
    },
    /// A row that cannot be measured anew from its record.
    #[error("the row {path} cannot be measured anew: {why}")]
    Row {
        /// Its path.
        path: String,
        /// Why.
        why: String,
    },
    /// It could not be measured.
    #[error(transparent)]
    Ping(#[from] PingError),
    /// Ctrl-C.
    #[error("ended early, so nothing is said of the thresholds")]
    Interrupted,
}

/// A run measured anew against its baseline.
#[derive(Debug)]
pub struct Baseline<'a> {
    /// How it is called.
    pub given: &'a str,
    /// Its record.
    pub run: &'a Run,
    /// What to measure: as [`jobs`] has it.
    pub plan: &'a ping::Plan,
    /// Thresholds.
    pub limits: &'a [Limit],
    /// What the verdict is about.
    pub figure: Figure,
    /// A difference of less than this share does not matter.
    pub margin: f64,
}

impl Baseline<'_> {
    /// Measures, compares, and measures once more if a threshold is crossed.
    ///
    /// # Errors
    /// Those of a ping; and Ctrl-C, since half a run is no ground for a gate.
    pub fn hold(&self, signals: &hairpin_sys::signal::Signals, watcher: &mut dyn Watcher) -> Result<Compare, StoredError> {
        let mut once = || {
            let anew = ping::run(self.plan, signals, watcher)?;
            match (anew.interrupted, &anew.error) {
                (true, _) => Err(StoredError::Interrupted),
                (_, Some(why)) => {
                    let path = anew.results.last().map_or_else(|| "row".into(), |row| row.path.clone());
                    Err(PingError::Row { path, why: why.clone() }.into())
                }
                _ => stored(&[(self.given, self.run), ("measured anew", &anew)], self.figure, self.margin),
            }
        };
        let mut record = once()?;
        record.command.clone_from(&self.plan.command);
        record.thresholds = self.limits.iter().flat_map(|limit| limit.hold(&record)).collect();
        if record.thresholds.iter().any(|threshold| threshold.crossed) {
            let again = once()?;
            let again: Vec<_> = self.limits.iter().flat_map(|limit| limit.hold(&again)).collect();
            super::limit::confirm(&mut record.thresholds, &again);
        }
        Ok(record)
    }
}

/// The rows of a run as jobs, measured as long as they were; what a record does not say is as in `template`.
///
/// # Errors
/// A row whose path this version does not know, or that emulated a declared device.
pub fn jobs(run: &Run, template: &Job) -> Result<Vec<Job>, StoredError> {
    let job = |row: &Row| {
        let bad = |why: String| StoredError::Row { path: row.path.clone(), why };
        if row.niq.as_ref().is_some_and(|niq| niq.nic.is_some()) {
            return Err(bad("its record does not say the whole of the declared link that was emulated".into()));
        }
        let bytes = |bytes: u64| u32::try_from(bytes).map_err(|_| bad(format!("{bytes} bytes are no payload")));
        Ok(Job {
            spec: row.path.parse().map_err(|error: hairpin_iopath::spec::SpecError| bad(error.to_string()))?,
            request: bytes(row.request_bytes)?,
            reply: bytes(row.reply_bytes)?,
            flows: row.flows,
            threads: row.threads,
            outstanding: row.outstanding,
            pace: row.pace_per_s,
            duration: Some(Nanos(row.duration_ns.saturating_add(row.gap_ns))),
            count: None,
            ..template.clone()
        })
    };
    run.results.iter().map(job).collect()
}

/// Holds the rows of the second run against those of the first.
///
/// # Errors
/// The runs have no row in common.
pub fn stored(runs: &[(&str, &Run); 2], figure: Figure, margin: f64) -> Result<Compare, StoredError> {
    let [(first_name, first), (second_name, second)] = runs;
    let alike = |a: &Row, b: &Row| {
        let key = |row: &Row| (row.path.clone(), row.request_bytes, row.reply_bytes, row.flows, row.threads, row.outstanding);
        key(a) == key(b)
    };
    let mut pairs: Vec<(&Row, &Row)> = Vec::new();
    for row in &second.results {
        pairs.extend(first.results.iter().find(|other| alike(other, row)).map(|other| (other, row)));
    }
    if let ([one], [other], true) = (&first.results[..], &second.results[..], pairs.is_empty()) {
        pairs.push((one, other));
    }
    if pairs.is_empty() {
        let words = |run: &Run| {
            let rows: Vec<String> =
                run.results.iter().map(|row| format!("{} of {} bytes", row.path, row.request_bytes)).collect();
            if rows.is_empty() { "nothing".into() } else { rows.join(", ") }
        };
        return Err(StoredError::NothingInCommon { first: words(first), second: words(second) });
    }
    let method = verdict::method(figure, pairs.len(), 1, margin);
    let states = States::of_cores(pairs.iter().flat_map(|(a, b)| cores(a).chain(cores(b))));
    let (mut arms, mut comparisons, mut dropped_all) = (Vec::new(), Vec::new(), true);
    for (a, b) in pairs {
        let at = arms.len();
        arms.push(arm(at, first_name, first, a, &states));
        arms.push(arm(at + 1, second_name, second, b, &states));
        let comparison = compare_rows(at, a, b, &states, &method);
        dropped_all &= comparison.pairs == 0;
        comparisons.push(comparison);
    }
    let mut warnings = vec![Note { code: "not-interleaved".into(), message: NOT_INTERLEAVED.into() }];
    if dropped_all {
        warnings.push(Note { code: "no-common-state".into(), message: NO_COMMON_STATE.into() });
    }
    let mut counts = states.record(std::iter::empty());
    for state in arms.iter().flat_map(|arm| &arm.blocks).filter_map(|block| block.state) {
        counts[state as usize].blocks += 1;
    }
    Ok(Compare {
        schema: compare::SCHEMA.into(),
        tool: concat!("hairpin ", env!("CARGO_PKG_VERSION")).into(),
        command: std::env::args().collect(),
        started: crate::store::rfc3339(std::time::SystemTime::now()),
        interrupted: false,
        error: None,
        host: None,
        design: None,
        method,
        states: counts,
        arms,
        comparisons,
        thresholds: Vec::new(),
        warnings,
    })
}

const NOT_INTERLEAVED: &str = "the two runs were measured one after the other, not in turn: whatever changed on the host in between counts as a difference of the arms; where both can be measured now, use `hairpin compare … -- A -- B`";
const NO_COMMON_STATE: &str =
    "the cores were at another distance from each other in the two runs, so that nothing can be compared; measure again";

fn cores(row: &Row) -> impl Iterator<Item = u64> {
    row.blocks.iter().filter_map(|block| block.core_rtt_ns)
}

fn value(block: &Block, figure: Figure) -> Option<f64> {
    let ns = match figure {
        Figure::P50 => block.p50? as f64,
        Figure::P99 => block.p99? as f64,
        Figure::P999 => block.p999? as f64,
        Figure::Rate => block.count as f64 * 1e9 / block.duration_ns.filter(|ns| *ns > 0)? as f64,
        Figure::Cpu => return None,
    };
    (ns > 0.0).then_some(ns)
}

fn whole(row: &Row) -> Figures {
    let ns = |ns: Option<u64>| ns.map(|ns| ns as f64);
    let cpu = match &row.cpu.server {
        Some(server) => row.cpu.client.per_transaction_ns.zip(server.per_transaction_ns).map(|(client, server)| client + server),
        None => row.cpu.client.per_transaction_ns,
    };
    Figures {
        p50_ns: ns(row.rtt_ns.p50),
        p99_ns: ns(row.rtt_ns.p99),
        p999_ns: ns(row.rtt_ns.p999),
        rate_per_s: Some(row.transactions_per_s).filter(|rate| *rate > 0.0),
        cpu_ns: cpu,
    }
}

fn of_state(states: &States, block: &Block) -> Option<usize> {
    states.state(block.core_rtt_ns.as_slice())
}

fn compare_rows(at: usize, a: &Row, b: &Row, states: &States, method: &Method) -> Comparison {
    let mut figures = Vec::new();
    let (mut used, mut kept) = (Vec::new(), 0);
    for figure in Figure::ALL {
        let (mut parts, mut count, mut from) = (Vec::new(), 0, Vec::new());
        for state in 0..states.len() {
            let logs = |row: &Row| {
                let mine = row.blocks.iter().filter(|block| of_state(states, block) == Some(state));
                let logs: Vec<f64> = mine.filter_map(|block| Some(value(block, figure)?.ln())).collect();
                logs[logs.len().saturating_sub(MOST)..].to_vec()
            };
            let (one, other) = (logs(a), logs(b));
            let fewer = one.len().min(other.len());
            if let Some(shift) = paired::apart(&one, &other, method.confidence_each) {
                parts.push((fewer as f64, shift));
                from.push(state as u32);
                count += fewer;
            }
        }
        // Blocks of a state that few of either run saw widen the interval more than they add.
        if parts.iter().any(|(weight, _)| *weight >= verdict::FEWEST as f64) {
            parts.retain(|(weight, _)| *weight >= verdict::FEWEST as f64);
            count = parts.iter().map(|(weight, _)| *weight as usize).sum();
        }
        if figure == method.figure {
            (used, kept) = (from, count);
        }
        figures.extend(estimate(figure, parts, count, whole(a).of(figure), whole(b).of(figure)));
    }
    let main = figures.iter().find(|estimate| estimate.figure == method.figure);
    Comparison {
        arm: name(at + 1),
        against: name(at),
        verdict: main.map_or(hairpin_record::experiment::Verdict::Unclear, |main| verdict::verdict(main, method.margin)),
        needs_s: None,
        pairs: kept as u64,
        dropped: (a.blocks.len().min(b.blocks.len())).saturating_sub(kept) as u64,
        states_used: used,
        figures,
    }
}

/// With an interval where there are blocks to take it from, else the bare ratio of the two runs.
fn estimate(
    figure: Figure,
    mut parts: Vec<(f64, Shift)>,
    count: usize,
    one: Option<f64>,
    other: Option<f64>,
) -> Option<Estimate> {
    parts.iter_mut().for_each(|(weight, _)| *weight /= (count as f64).max(1.0));
    let shift = (!parts.is_empty()).then(|| Shift::combined(&parts).ratio());
    let finite = |value: f64| Some(value).filter(|value| value.is_finite() && *value > 0.0);
    let ratio = shift.and_then(|shift| finite(shift.ratio)).or_else(|| finite(other? / one?))?;
    let (low, high) = (shift.and_then(|shift| finite(shift.low)), shift.and_then(|shift| finite(shift.high)));
    let difference = |ratio: Option<f64>| Some((ratio? - 1.0) * one?);
    Some(Estimate {
        figure,
        ratio: Some(ratio),
        low,
        high,
        difference: difference(Some(ratio)),
        difference_low: difference(low),
        difference_high: difference(high),
        pairs: count as u64,
        blocks_per_value: 1.0,
        autocorrelation: None,
    })
}

fn arm(at: usize, given: &str, run: &Run, row: &Row, states: &States) -> Arm {
    let block = |(number, block): (usize, &Block)| ArmBlock {
        round: number as u32,
        at_ns: block.at_ns,
        transactions: block.count,
        duration_ns: block.duration_ns.unwrap_or(0),
        p50_ns: block.p50.map(|ns| ns as f64),
        p99_ns: block.p99.map(|ns| ns as f64),
        p999_ns: block.p999.map(|ns| ns as f64),
        core_rtt_ns: block.core_rtt_ns,
        state: of_state(states, block).map(|state| state as u32),
        ..ArmBlock::default()
    };
    Arm {
        name: name(at),
        given: given.into(),
        path: row.path.clone(),
        request_bytes: row.request_bytes,
        reply_bytes: row.reply_bytes,
        flows: row.flows,
        outstanding: row.outstanding,
        link: Some(run.link.clone()),
        figures: whole(row),
        transactions: row.transactions,
        lost: row.lost,
        blocks: row.blocks.iter().enumerate().map(block).collect(),
        granted: row.granted.iter().filter(|granted| granted.asked != granted.got).cloned().collect(),
        segments_out_per_transaction: row.tcp.as_ref().and_then(|tcp| tcp.client.segments_out_per_transaction),
        warnings: row.warnings.clone(),
        ..Arm::default()
    }
}

#[cfg(test)]
mod tests {
    use hairpin_record::experiment::Verdict;
    use hairpin_record::run::{ClockFacts, HostFacts, Hosts, Link};

    use super::*;

    fn row(path: &str, p50s: impl Iterator<Item = u64>, core: u64) -> Row {
        let block = |(at, p50): (usize, u64)| Block {
            at_ns: at as u64 * 100_000_000,
            count: 20_000,
            p50: Some(p50),
            p99: Some(2 * p50),
            duration_ns: Some(20_000 * p50),
            core_rtt_ns: Some(core),
            ..Block::default()
        };
        let mut row = Row {
            path: path.into(),
            request_bytes: 64,
            blocks: p50s.enumerate().map(block).collect(),
            transactions_per_s: 200_000.0,
            ..Row::default()
        };
        row.rtt_ns.p50 = row.blocks.first().and_then(|block| block.p50);
        row.cpu.client.per_transaction_ns = Some(5_000.0);
        row
    }

    fn run(rows: Vec<Row>) -> Run {
        Run {
            schema: String::new(),
            tool: String::new(),
            command: Vec::new(),
            started: String::new(),
            interrupted: false,
            error: None,
            hosts: Hosts { client: HostFacts::default(), server: None },
            link: Link { kind: "loopback".into(), interface: None, mtu: None, peer: None, options: Default::default() },
            clock: ClockFacts { source: "tsc".into(), cost_ns: 1.0, step_ns: 1.0, ticks_per_s: 1e9, drift_ppb: None },
            results: rows,
        }
    }

    fn wobble(base: u64) -> impl Iterator<Item = u64> {
        (0..60).map(move |i| base + i * 37 % 41)
    }

    #[test]
    fn runs_are_compared_row_by_row_and_say_that_they_were_not_interleaved() {
        let first = run(vec![row("udp/udp", wobble(5_000), 120), row("tcp/tcp", wobble(7_000), 120)]);
        let second = run(vec![row("tcp/tcp", wobble(7_700), 120), row("pipe/pipe", wobble(3_000), 120)]);
        let found = stored(&[("one", &first), ("two", &second)], Figure::P50, 0.02).unwrap();
        assert_eq!((found.arms.len(), found.comparisons.len()), (2, 1));
        let comparison = &found.comparisons[0];
        assert_eq!((comparison.arm.as_str(), comparison.against.as_str(), comparison.verdict), ("B", "A", Verdict::Slower));
        assert!((comparison.figures[0].ratio.unwrap() - 1.1).abs() < 0.01);
        assert_eq!(found.warnings[0].code, "not-interleaved");
        // CPU time has one value a run: a ratio, and no interval.
        let cpu = comparison.figures.iter().find(|estimate| estimate.figure == Figure::Cpu).unwrap();
        assert_eq!((cpu.ratio, cpu.low, cpu.high), (Some(1.0), None, None));
    }

    #[test]
    fn what_was_measured_in_another_state_says_nothing() {
        let first = run(vec![row("udp/udp", wobble(5_000), 120)]);
        let second = run(vec![row("udp/udp", wobble(6_300), 510)]);
        let found = stored(&[("one", &first), ("two", &second)], Figure::P50, 0.02).unwrap();
        assert_eq!((found.comparisons[0].verdict, found.comparisons[0].pairs), (Verdict::Unclear, 0));
        assert!(found.warnings.iter().any(|note| note.code == "no-common-state"));
    }

    #[test]
    fn runs_of_one_row_each_are_compared_whatever_they_measured() {
        let first = run(vec![row("udp/udp", wobble(5_000), 120)]);
        let second = run(vec![row("tcp/tcp", wobble(5_000), 120)]);
        let found = stored(&[("one", &first), ("two", &second)], Figure::P50, 0.02).unwrap();
        assert_eq!(found.comparisons[0].verdict, Verdict::Same);
        let many = run(vec![row("pipe/pipe", wobble(5_000), 120), row("unix/unix", wobble(5_000), 120)]);
        let error = stored(&[("one", &first), ("many", &many)], Figure::P50, 0.02).unwrap_err().to_string();
        assert!(error.contains("no row in common") && error.contains("pipe/pipe of 64 bytes"), "{error}");
    }

    #[test]
    fn rows_become_jobs_again() {
        let template = crate::ping::tests::job("tcp");
        let mut stored = row("udp:spin/udp:spin", wobble(5_000), 120);
        (stored.reply_bytes, stored.flows, stored.threads, stored.outstanding) = (128, 2, 1, 1);
        (stored.duration_ns, stored.gap_ns) = (900_000_000, 100_000_000);
        let jobs = jobs(&run(vec![stored]), &template).unwrap();
        assert_eq!((jobs[0].request, jobs[0].reply, jobs[0].flows), (64, 128, 2));
        assert_eq!(jobs[0].duration, Some(Nanos::from_secs(1)));
        assert_eq!(jobs[0].spec.to_string(), "udp:spin/udp:spin");
    }
}
