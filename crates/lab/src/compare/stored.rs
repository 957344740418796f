//! Compares stored runs, which were not measured in turn.
//!
//! ```text
//!   one run each     their own blocks are the unit: an interval for these two runs alone, and never a verdict
//!   several          a run is the unit: the median of its blocks in each state of the cores; the interval includes the spread between runs (`between`)
//! ```
//! An interval is at least as wide as a step of either clock and a bucket of the histogram.

use std::collections::BTreeMap;
use std::time::Duration;

use hairpin_record::compare::{Arm, Compare, CompareBody, Comparison, Figures, Matched, Method, OTHER_HOST};
use hairpin_record::experiment::{ArmBlock, Estimate, Figure, Verdict};
use hairpin_record::head::Record;
use hairpin_record::paired::{self, Shift};
use hairpin_record::run::{Block, HostFacts, Hosts, OwnRequest, Row, Run};
use hairpin_record::warning::Note;
use hairpin_units::Gather;

use super::between::{self, Cell, Spread};
use super::{name, verdict};
use crate::experiment::figures::as_quantile;
use crate::experiment::stands::cpus;
use crate::experiment::states::States;
use hairpin_session::error::RunError;
use hairpin_session::printable::printable;
use hairpin_session::rows;
use hairpin_session::time::{parsed, words};

/// Width of the histogram's buckets below 2048 ns; it doubles with every factor of two.
const BUCKET_NS: f64 = 1.0;
const FINEST_BELOW_NS: f64 = 2048.0;

/// Why stored runs cannot be compared.
#[derive(Debug, thiserror::Error)]
pub enum StoredError {
    /// The runs have no row in common.
    #[error(
        "the two runs have no row in common: first {first}; second {second}; compare runs of the same paths and sizes, or of one row each"
    )]
    NothingInCommon {
        /// Paths and sizes of the first run.
        first: String,
        /// Paths and sizes of the second run.
        second: String,
    },
    /// The looks at a host's own noise have no core in common.
    #[error(
        "the two looks have no core in common: first CPU {first}; second CPU {second}; look at the same cores (hairpin check --host --cpu LIST)"
    )]
    NoCommonCore {
        /// The first look's cores.
        first: String,
        /// The second look's cores.
        second: String,
    },
    /// A row cannot be measured anew from its record.
    #[error("the row {path} cannot be measured anew: {why}")]
    Row {
        /// The row's path.
        path: String,
        why: String,
    },
    /// The measurement failed.
    #[error(transparent)]
    Ping(#[from] RunError),
    /// Ctrl-C came.
    #[error("ended early, so nothing is said of the thresholds")]
    Interrupted,
}

/// A run with its name.
pub type Named<'a> = (&'a str, &'a Run);

/// Rows of the same work, one of each run that has it.
struct Side<'a> {
    rows: Vec<(Named<'a>, &'a Row)>,
}

/// Compares the rows of the second runs with those of the first, as the command line asks.
///
/// # Errors
/// The runs have no row in common.
pub fn stored(
    first: &[Named<'_>],
    second: &[Named<'_>],
    figure: Figure,
    margin: f64,
    command: &[String],
) -> Result<Compare, StoredError> {
    let head = rows::begin::<CompareBody>(command);
    Ok(Record { head, body: held(first, second, figure, margin, Spread::WithMoods)? })
}

/// Compares the rows of the second runs with those of the first; with several runs on a side, each is one more draw of the same
/// work.
///
/// # Errors
/// The runs have no row in common.
pub(super) fn held(
    first: &[Named<'_>],
    second: &[Named<'_>],
    figure: Figure,
    margin: f64,
    spread: Spread,
) -> Result<CompareBody, StoredError> {
    let pairs = pairs(first, second);
    if pairs.is_empty() {
        return Err(StoredError::NothingInCommon { first: rows_of(first), second: rows_of(second) });
    }
    let method = verdict::method(figure, pairs.len(), 1, margin);
    let alike = pairs.iter().filter(|(a, b)| a.placed_as(b)).flat_map(|(a, b)| a.rows.iter().chain(&b.rows));
    let states = States::of_cores(alike.flat_map(|(_, row)| row.blocks.iter().filter_map(|block| block.core_rtt_ns)));
    let (mut arms, mut comparisons, mut apart) = (Vec::new(), Vec::new(), Vec::new());
    for (a, b) in &pairs {
        let at = arms.len();
        let known = a.placed_as(b).then_some(&states);
        let two = [a.arm(at, known), b.arm(at + 1, known)];
        // Rows of load have no blocks, and so no distances between the cores.
        if known.is_some() && two.iter().all(|arm| !arm.blocks.is_empty()) {
            apart.push(no_common_state(&two[0], &two[1]));
        }
        arms.extend(two);
        comparisons.push(compare_sides(at, a, b, known, &method, spread));
    }
    let note = |code: &str, message: &str| Note { code: code.into(), message: message.into() };
    let mut warnings = vec![note("not-interleaved", NOT_INTERLEAVED)];
    if comparisons.iter().any(|comparison| comparison.runs == Some([1, 1])) {
        warnings.push(note("single-runs", ONE_EACH));
    } else if comparisons.iter().any(|comparison| comparison.runs.is_some_and(|[first, _]| first == 1)) {
        warnings.push(note("single-baseline", ONE_BASELINE));
    }
    warnings.extend(at_one_time(first, second).map(|message| note("baseline-at-one-time", &message)));
    if !of_one_host(first.iter().chain(second).map(|(_, run)| *run)) {
        warnings.push(note(OTHER_HOST, OTHER_HOSTS));
    }
    if !apart.is_empty() && apart.iter().all(|apart| *apart) {
        warnings.push(note("no-common-state", NO_COMMON_STATE));
    }
    let mut counts = states.record(std::iter::empty());
    for state in arms.iter().flat_map(|arm| &arm.blocks).filter_map(|block| block.state) {
        counts[state as usize].blocks += 1;
    }
    thin(&mut arms);
    Ok(CompareBody {
        host: None,
        design: None,
        method,
        states: counts,
        arms,
        comparisons,
        thresholds: Vec::new(),
        placements: Vec::new(),
        warnings,
    })
}

const NOT_INTERLEAVED: &str = "the runs were measured one after the other, not in turn: whatever changed on the host in between counts as a difference of the arms; where both can be measured now, use `hairpin compare … -- A -- B`";
/// Why runs whose cores were never at the same distance have no interval.
pub(super) const NO_COMMON_STATE: &str =
    "the two sides have no distance of the cores in common, so that nothing can be compared; measure again";
/// Why runs of different hosts get no verdict on a threshold.
pub(super) const OTHER_HOSTS: &str = "the runs are of different hosts, and whatever these differ in counts as a difference";
/// Why runs on different CPUs get none.
pub(super) const OTHER_CPUS: &str =
    "not all of the runs are known to be on the same CPUs, and the distance between these is part of every round trip";
/// Why two single runs get no verdict.
pub(super) const ONE_EACH: &str =
    "one run each does not show how much runs differ: measure the first several times, and name all of them";
const ONE_BASELINE: &str = "there is one run of the baseline: how much runs differ is taken from those measured anew, which lie minutes apart; give --baseline several runs that were made at different times";

/// True if no state of the cores has blocks of both arms.
pub(super) fn no_common_state(a: &Arm, b: &Arm) -> bool {
    let states = |arm: &Arm| {
        let mut states: Vec<u32> = Vec::new();
        for state in arm.blocks.iter().filter_map(|block| block.state) {
            if !states.contains(&state) {
                states.push(state);
            }
        }
        states
    };
    let of_b = states(b);
    !states(a).iter().any(|state| of_b.contains(state))
}

const A_MINUTE: Duration = Duration::from_secs(60);

/// A note if the first side's runs lie closer to each other in time than to those of the second side.
fn at_one_time(first: &[Named<'_>], second: &[Named<'_>]) -> Option<String> {
    let times = |runs: &[Named<'_>]| runs.iter().filter_map(|(_, run)| parsed(&run.head.started)).collect::<Vec<_>>();
    let (one, other) = (times(first), times(second));
    let span = one.iter().max()?.duration_since(*one.iter().min()?).ok()?;
    let apart = other.iter().min()?.duration_since(*one.iter().max()?).ok()?;
    (first.len() > 1 && apart > span.max(A_MINUTE)).then(|| {
        format!(
            "the first {} runs lie within {} and the others {} later: how much this host changes in such a time is not in the interval; give runs that were made at different times",
            first.len(),
            words(span),
            words(apart)
        )
    })
}

/// False if the known host names of the clients differ, or those of the servers. A missing or empty name is unknown.
fn of_one_host<'a>(runs: impl Iterator<Item = &'a Run> + Clone) -> bool {
    let sides: [fn(&Hosts) -> Option<&HostFacts>; 2] = [|hosts| Some(&hosts.client), |hosts| hosts.server.as_ref()];
    sides.iter().all(|side| {
        let names = runs.clone().filter_map(|run| side(&run.place.hosts)).map(|host| &host.hostname);
        let mut known = names.filter(|name| !name.is_empty());
        let first = known.next();
        known.all(|name| Some(name) == first)
    })
}

/// Leaves out blocks of long runs, so that the record can be read again.
fn thin(arms: &mut [Arm]) {
    let share = (super::KEPT / arms.len().max(1)).max(1);
    for arm in arms {
        let step = arm.blocks.len().div_ceil(share).max(1);
        arm.blocks = std::mem::take(&mut arm.blocks).into_iter().step_by(step).collect();
    }
}

/// Most rows named of a run that has none in common with another.
const NAMED: usize = 12;

/// The rows of the first of these runs in words.
fn rows_of(runs: &[Named<'_>]) -> String {
    let rows: &[Row] = match runs.first() {
        Some((_, run)) => &run.results,
        None => &[],
    };
    let named: Vec<String> = rows.iter().take(NAMED).map(work).collect();
    match (rows.len(), rows.len().saturating_sub(NAMED)) {
        (0, _) => "nothing".into(),
        (_, 0) => named.join(", "),
        (_, more) => format!("{} and {more} more", named.join(", ")),
    }
}

/// The work of a row in words.
fn work(row: &Row) -> String {
    let own = row.own_request.as_ref().map_or_else(String::new, |own| format!(" ({})", printable(&own.request, 60)));
    let counts = [(row.flows, "flows"), (row.threads, "threads"), (row.outstanding, "in flight per flow")];
    let several = counts.iter().filter(|(count, _)| *count > 1).map(|(count, what)| format!(" with {count} {what}"));
    format!("{} of {} bytes{own}{}", with_pace(row), row.request_bytes, several.collect::<Vec<_>>().concat())
}

/// The user's own request and the rule that ends its reply.
pub(super) fn asked(own: Option<&OwnRequest>) -> Option<(String, String)> {
    own.map(|own| (own.request.clone(), own.until.clone()))
}

/// The path of a row, with its pace if it has one.
fn with_pace(row: &Row) -> String {
    row.pace_per_s.map_or_else(|| row.path.clone(), |per_s| format!("{} at {per_s}/s", row.path))
}

/// What two rows have in common if they are of the same work.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Work {
    path: String,
    bytes: [u64; 2],
    own: Option<(String, String)>,
    counts: [u32; 3],
    pace: Option<u64>,
    reply: Option<String>,
}

impl Work {
    fn of(row: &Row) -> Work {
        let own = asked(row.own_request.as_deref());
        // The length of a reply to the user's own request is a result.
        let reply_bytes = if own.is_some() { 0 } else { row.reply_bytes };
        Work {
            path: row.path.clone(),
            bytes: [row.request_bytes, reply_bytes],
            own,
            counts: [row.flows, row.threads, row.outstanding],
            pace: row.pace_per_s.map(f64::to_bits),
            reply: row.reply.clone(),
        }
    }
}

/// The rows of each work, in the order in which the works occur. Of several rows of one run the first counts.
fn by_work<'a>(runs: &[Named<'a>]) -> Vec<(Work, Side<'a>)> {
    let mut found: Vec<(Work, Side<'a>)> = Vec::new();
    // The place of each work there, and the last run that has it.
    let mut known: BTreeMap<Work, (usize, usize)> = BTreeMap::new();
    for (at, &(given, run)) in runs.iter().enumerate() {
        for row in &run.results {
            let work = Work::of(row);
            match known.get_mut(&work) {
                None => {
                    known.insert(work.clone(), (found.len(), at));
                    found.push((work, Side { rows: vec![((given, run), row)] }));
                }
                Some((place, last)) if *last != at => {
                    *last = at;
                    found[*place].1.rows.push(((given, run), row));
                }
                Some(_) => {}
            }
        }
    }
    found
}

/// Pairs rows of the same work; if each run has only one row, pairs these.
fn pairs<'a>(first: &[Named<'a>], second: &[Named<'a>]) -> Vec<(Side<'a>, Side<'a>)> {
    let mut of_first: BTreeMap<Work, Side<'a>> = by_work(first).into_iter().gather();
    let of_second = by_work(second).into_iter();
    let mut found: Vec<_> = of_second.filter_map(|(work, b)| Some((of_first.remove(&work)?, b))).collect();
    if found.is_empty() {
        let only = |runs: &[Named<'a>]| {
            let rows: Option<Vec<_>> = runs
                .iter()
                .map(|(given, run)| match &run.results[..] {
                    [row] => Some(((*given, *run), row)),
                    _ => None,
                })
                .collect();
            let rows = rows.filter(|rows| rows.windows(2).all(|two| Work::of(two[0].1) == Work::of(two[1].1)))?;
            (!rows.is_empty()).then_some(Side { rows })
        };
        found.extend(only(first).zip(only(second)));
    }
    found
}

/// A block's figure, interpolated between two steps of the clock if the record has that; its rate is that of its thread.
fn value(block: &Block, figure: Figure) -> Option<f64> {
    let between = block.interpolated_ns.unwrap_or_default();
    let ns = |between: Option<f64>, stored: Option<u64>| between.or(stored.map(|ns| ns as f64));
    let ns = match figure {
        Figure::P50 => ns(between.p50, block.p50)?,
        Figure::P99 => ns(between.p99, block.p99)?,
        Figure::P999 => ns(between.p999, block.p999)?,
        Figure::Rate => block.count as f64 * 1e9 / block.duration_ns.filter(|ns| *ns > 0)? as f64,
        Figure::Cpu => return None,
    };
    (ns > 0.0).then_some(ns)
}

/// The figure of each block. A rate is the sum over all threads: each other thread counts with its latest block, or before that
/// with its first.
fn values(row: &Row, figure: Figure) -> impl Iterator<Item = (&Block, Option<f64>)> {
    let is_rate = figure == Figure::Rate;
    let backwards = row.blocks.iter().rev().filter(move |_| is_rate);
    let mut latest: BTreeMap<u32, f64> = backwards.filter_map(|block| Some((block.thread, value(block, figure)?))).gather();
    row.blocks.iter().map(move |block| {
        let own = value(block, figure);
        if !is_rate {
            return (block, own);
        }
        latest.extend(own.map(|own| (block.thread, own)));
        (block, own.map(|_| latest.values().sum::<f64>()))
    })
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

/// True if the block has a value of its own for this figure. A rate is that of all threads, so the blocks of the first one stand
/// for all.
fn counts(block: &Block, figure: Figure) -> bool {
    figure != Figure::Rate || block.thread == 0
}

/// The distance between the cores in each block. Only the first thread meets the other core; the blocks of the others have what
/// it saw last.
fn distances(row: &Row) -> impl Iterator<Item = Option<u64>> {
    let mut seen = row.blocks.iter().find_map(|block| block.core_rtt_ns);
    row.blocks.iter().map(move |block| {
        if block.thread == 0 {
            seen = block.core_rtt_ns;
        }
        block.core_rtt_ns.or(seen)
    })
}

fn of_state(states: Option<&States>, core_rtt_ns: Option<u64>) -> Option<usize> {
    states.map_or(Some(0), |states| states.state(core_rtt_ns.as_slice()))
}

impl Side<'_> {
    fn placed_as(&self, other: &Side<'_>) -> bool {
        let both = self.rows.iter().chain(&other.rows);
        let mut all = both.clone().map(|(_, row)| cpus(row));
        let first = all.next();
        all.all(|other| Some(other) == first) && of_one_host(both.map(|((_, run), _)| *run))
    }

    /// The logarithms of a figure over a run's blocks in one state.
    fn logs(row: &Row, figure: Figure, states: Option<&States>, state: usize) -> Vec<f64> {
        let all = values(row, figure).zip(distances(row)).filter(|((block, _), _)| counts(block, figure));
        let mine = all.filter(|(_, core_rtt_ns)| of_state(states, *core_rtt_ns) == Some(state));
        mine.filter_map(|((_, value), _)| Some(value?.ln())).collect()
    }

    /// The number of blocks with a value of the figure in each state, and of those in none.
    fn by_state(&self, figure: Figure, states: Option<&States>) -> Vec<(Option<usize>, u64)> {
        let mut found: Vec<(Option<usize>, u64)> = Vec::new();
        for (_, row) in &self.rows {
            let all = values(row, figure).zip(distances(row));
            for (_, core_rtt_ns) in all.filter(|((block, value), _)| counts(block, figure) && value.is_some()) {
                let state = of_state(states, core_rtt_ns);
                match found.iter_mut().find(|(known, _)| *known == state) {
                    Some((_, count)) => *count += 1,
                    None => found.push((state, 1)),
                }
            }
        }
        found
    }

    /// One value for each run that saw enough of a state.
    fn cells(&self, figure: Figure, states: Option<&States>, state: usize) -> Vec<Cell> {
        let cell = |(run, (_, row)): (usize, &(Named<'_>, &Row))| {
            let logs = Side::logs(row, figure, states, state);
            (logs.len() >= between::FEWEST_BLOCKS).then(|| Cell {
                run,
                blocks: logs.len(),
                log: verdict::middle(logs).unwrap_or(0.0),
            })
        };
        self.rows.iter().enumerate().filter_map(cell).collect()
    }

    /// For a figure that blocks do not have: one value per run.
    fn whole_cells(&self, figure: Figure) -> Vec<Cell> {
        let rows = self.rows.iter().enumerate();
        rows.filter_map(|(run, (_, row))| Some(Cell { run, blocks: 1, log: whole(row).of(figure)?.ln() })).collect()
    }

    /// The median run's figure.
    fn whole(&self, figure: Figure) -> Option<f64> {
        verdict::middle(self.rows.iter().filter_map(|(_, row)| whole(row).of(figure)).collect())
    }

    /// The coarsest clock step of the side's runs.
    fn step_ns(&self) -> f64 {
        self.rows.iter().map(|((_, run), _)| run.place.clock.step_ns).fold(0.0, f64::max)
    }

    fn arm(&self, at: usize, states: Option<&States>) -> Arm {
        let ((given, run), row) = self.rows[0];
        let mut arm = arm(at, given, run, row, states);
        for (_, more) in &self.rows[1..] {
            arm.transactions += more.transactions;
            arm.lost += more.lost;
            arm.blocks.extend(blocks(more, states));
            if let (Some(own), Some(other)) = (&mut arm.own_request, &more.own_request) {
                own.add(other);
            }
            for note in &more.warnings {
                if !arm.warnings.iter().any(|known| known.code == note.code) {
                    arm.warnings.push(note.clone());
                }
            }
        }
        arm.blocks.iter_mut().enumerate().for_each(|(at, block)| block.round = at as u32);
        arm.figures = Figures {
            p50_ns: self.whole(Figure::P50),
            p99_ns: self.whole(Figure::P99),
            p999_ns: self.whole(Figure::P999),
            rate_per_s: self.whole(Figure::Rate),
            cpu_ns: self.whole(Figure::Cpu),
        };
        arm.typical = Some(Figures { cpu_ns: arm.figures.cpu_ns, ..verdict::typical(arm.blocks.iter()) });
        if self.rows.len() > 1 {
            arm.runs = self.rows.iter().map(|((given, _), _)| (*given).into()).collect();
            arm.given = format!("{} and {} more", given, self.rows.len() - 1);
        }
        arm
    }
}

fn compare_sides(at: usize, a: &Side<'_>, b: &Side<'_>, states: Option<&States>, method: &Method, spread: Spread) -> Comparison {
    let runs = [a.rows.len(), b.rows.len()];
    let single = runs == [1, 1];
    let mut figures = Vec::new();
    let (mut used, mut kept) = (Vec::new(), 0);
    for figure in Figure::ALL {
        let (found, from) =
            if single { of_blocks(a, b, figure, states, method) } else { of_runs(a, b, figure, states, method, spread) };
        let found = found.or_else(|| bare(a, b, figure)).map(|found| resolved(found, a.step_ns().max(b.step_ns())));
        if figure == method.figure {
            used = if states.is_some() { from } else { Vec::new() };
            kept = found.as_ref().map_or(0, |found| found.pairs);
        }
        figures.extend(found);
    }
    let main = figures.iter().find(|estimate| estimate.figure == method.figure);
    let (one, other) = (a.by_state(method.figure, states), b.by_state(method.figure, states));
    let sum = |side: &[(Option<usize>, u64)]| side.iter().map(|(_, count)| count).sum::<u64>();
    // Blocks in the same state that are too few for an interval were at no other distance.
    let of_other =
        |state: Option<usize>| other.iter().find(|(known, _)| state.is_some() && *known == state).map(|(_, count)| *count);
    let alike: u64 = one.iter().filter_map(|(state, count)| Some((*count).min(of_other(*state)?))).sum();
    let all = sum(&one).min(sum(&other));
    Comparison {
        arm: name(at + 1),
        against: name(at),
        // Two single runs are only two draws from all possible runs.
        verdict: main.filter(|_| !single).map_or(Verdict::Unclear, |main| verdict::verdict(main, method.margin)),
        needs_s: None,
        pairs: kept,
        dropped: all.saturating_sub(kept.max(alike)),
        states_used: used,
        matched: if states.is_some() { Matched::CoreDistance } else { Matched::All },
        runs: Some(runs.map(|runs| runs as u32)),
        figures,
    }
}

/// Estimates from the blocks of one run on each side.
fn of_blocks(
    a: &Side<'_>,
    b: &Side<'_>,
    figure: Figure,
    states: Option<&States>,
    method: &Method,
) -> (Option<Estimate>, Vec<u32>) {
    let (mut parts, mut centres) = (Vec::new(), Vec::new());
    for state in 0..states.map_or(1, States::len) {
        let logs = |side: &Side<'_>| Side::logs(side.rows[0].1, figure, states, state);
        let (one, other) = (logs(a), logs(b));
        let fewer = one.len().min(other.len());
        if let Some(shift) = paired::apart(&one, &other, method.confidence_each) {
            parts.push((fewer as f64, shift, state as u32));
            centres.push(verdict::middle(one).zip(verdict::middle(other)).map_or(0.0, |(one, other)| f64::midpoint(one, other)));
        }
    }
    // Blocks of a state that few blocks of either run saw widen the interval more than they add.
    let enough = |weight: f64| weight >= verdict::FEWEST as f64;
    let all = !parts.iter().any(|(weight, ..)| enough(*weight));
    let kept: Vec<usize> = (0..parts.len()).filter(|at| all || enough(parts[*at].0)).collect();
    let count: f64 = kept.iter().map(|at| parts[*at].0).sum();
    if kept.is_empty() {
        return (None, Vec::new());
    }
    let shifts: Vec<(f64, Shift)> = kept.iter().map(|at| (parts[*at].0 / count, parts[*at].1)).collect();
    let centre = kept.iter().map(|at| centres[*at] * parts[*at].0 / count).sum();
    let found = verdict::of_shift(figure, &Shift::combined(&shifts), centre);
    let used = kept.iter().map(|at| parts[*at].2).collect();
    (Some(Estimate { pairs: count as u64, blocks_per_value: 1.0, ..found }), used)
}

/// Estimates from runs, of which at least one side has several.
fn of_runs(
    a: &Side<'_>,
    b: &Side<'_>,
    figure: Figure,
    states: Option<&States>,
    method: &Method,
    spread: Spread,
) -> (Option<Estimate>, Vec<u32>) {
    let mut strata: Vec<(u32, [Vec<Cell>; 2])> = (0..states.map_or(1, States::len))
        .map(|state| (state as u32, [a.cells(figure, states, state), b.cells(figure, states, state)]))
        .filter(|(_, [one, other])| !one.is_empty() && !other.is_empty())
        .collect();
    let without =
        |side: &Side<'_>| !side.rows.iter().flat_map(|(_, row)| &row.blocks).any(|block| value(block, figure).is_some());
    if strata.is_empty() && states.is_none_or(|states| states.len() == 1) && (without(a) || without(b)) {
        let cells = [a.whole_cells(figure), b.whole_cells(figure)];
        if cells.iter().all(|cells| !cells.is_empty()) {
            strata.push((0, cells));
        }
    }
    let Some(found) = between::runs(strata.iter().map(|(_, cells)| cells), spread, method.confidence_each) else {
        return (None, Vec::new());
    };
    let estimate = Estimate {
        pairs: found.blocks as u64,
        blocks_per_value: 1.0,
        between_runs: found.deviation,
        ..verdict::of_shift(figure, &found.shift, found.centre)
    };
    (Some(estimate), strata.iter().map(|(state, _)| *state).collect())
}

/// The ratio of both figures, without an interval.
fn bare(a: &Side<'_>, b: &Side<'_>, figure: Figure) -> Option<Estimate> {
    let (one, other) = (a.whole(figure)?, b.whole(figure)?);
    let nothing = Shift { typical: (other / one).ln(), low: f64::NEG_INFINITY, high: f64::INFINITY };
    let found = verdict::of_shift(figure, &nothing, f64::midpoint(one.ln(), other.ln()));
    found.ratio.is_some().then_some(Estimate { blocks_per_value: 1.0, ..found })
}

/// Widens the interval to at least a step of the clock and a bucket of the histogram on either side.
fn resolved(found: Estimate, step_ns: f64) -> Estimate {
    let (Some(ratio), Some(low), Some(high), Some(base), Some(_)) =
        (found.ratio, found.low, found.high, found.base, as_quantile(found.figure))
    else {
        return found;
    };
    let value = base * ratio;
    let bucket = |ns: f64| BUCKET_NS.max(2f64.powf((ns / FINEST_BELOW_NS).log2().floor() + 1.0));
    let least = step_ns.max(bucket(base.max(value))) / base;
    let (low, high) = (low.min((ratio - least).max(0.0)), high.max(ratio + least));
    let finite = |value: f64| Some(value).filter(|value| *value > 0.0);
    Estimate {
        low: finite(low),
        high: Some(high),
        difference_low: finite(low).map(|low| (low - 1.0) * base),
        difference_high: Some((high - 1.0) * base),
        ..found
    }
}

fn blocks(row: &Row, states: Option<&States>) -> impl Iterator<Item = ArmBlock> {
    values(row, Figure::Rate).zip(distances(row)).map(move |((block, rate), core_rtt_ns)| {
        let duration_ns = block.duration_ns.unwrap_or(0);
        ArmBlock {
            at_ns: block.at_ns,
            transactions: rate.map_or(block.count, |rate| (rate * duration_ns as f64 / 1e9).round() as u64),
            duration_ns,
            p50_ns: value(block, Figure::P50),
            p99_ns: value(block, Figure::P99),
            p999_ns: value(block, Figure::P999),
            core_rtt_ns,
            state: states.and_then(|_| of_state(states, core_rtt_ns)).map(|state| state as u32),
            ..ArmBlock::default()
        }
    })
}

fn arm(at: usize, given: &str, run: &Run, row: &Row, states: Option<&States>) -> Arm {
    Arm {
        name: name(at),
        given: given.into(),
        path: with_pace(row),
        request_bytes: row.request_bytes,
        reply_bytes: row.reply_bytes,
        flows: row.flows,
        outstanding: row.outstanding,
        threads: (row.threads > 1).then_some(row.threads),
        link: Some(run.place.link.clone()).filter(|link| !link.kind.is_empty()),
        transactions: row.transactions,
        lost: row.lost,
        blocks: blocks(row, states).collect(),
        cpus: cpus(row),
        granted: row.granted.iter().filter(|granted| granted.asked != granted.got).cloned().collect(),
        own_request: row.own_request.clone(),
        segments_out_per_transaction: row.tcp.as_ref().and_then(|tcp| tcp.client.segments_out_per_transaction),
        warnings: row.warnings.clone(),
        ..Arm::default()
    }
}

#[cfg(test)]
pub(super) mod tests;
