//! `hairpin compare`: measures arms in turn against the first one, compares stored runs, and applies thresholds as a gate.
//!
//! ```text
//!   live      arms ─▶ rounds ─▶ verdicts       with a threshold crossed: once more, and a threshold counts if it is crossed twice
//!   stored    two records ─▶ their blocks ─▶ verdicts, with the warning that they were not measured in turn
//!   placements  pairs of CPUs ─▶ arms ─▶ live ─▶ a matrix
//!   noise     two looks at a host's own noise ─▶ rates of their stalls ─▶ more or fewer
//!   baseline  stored runs ─▶ their rows measured anew, several times ─▶ as stored runs, with the spread between runs
//! ```

mod baseline;
mod between;
mod limit;
pub(crate) mod of_load;
mod of_noise;
pub(crate) mod of_others;
pub mod placements;
mod stored;

use std::ops::ControlFlow;
use std::time::Duration;

use hairpin_record::compare::{Arm as ArmRecord, Compare, CompareBody, Design, Method};
use hairpin_record::experiment::Figure;
use hairpin_record::head::{Head, Record};
use hairpin_record::warning::Note;
use hairpin_sys::signal::Signals;

pub use self::baseline::{Baseline, jobs, named};
pub use self::limit::Limit;
pub use self::of_noise::noise;
pub use self::stored::{Named, StoredError, stored};
use crate::experiment::rounds::{self, DISCARDED, Ended, Laid, Layout, Round, letter};
use crate::experiment::stands::Stands;
use crate::experiment::states::{self, States};
use crate::experiment::{Arm, BlockWatcher, Switch, verdict};
use hairpin_session::error::RunError;
use hairpin_session::rows;

/// With `--until` the intervals are examined after these shares of the duration only: each look uses up part of the confidence.
const LOOKS: [f64; 4] = [0.125, 0.25, 0.5, 1.0];
/// Default number of new measurements of a baseline's rows.
pub const ANEW: u32 = 5;
/// By default a difference of less than 2 % does not matter.
pub const MARGIN: f64 = 0.02;
/// Most blocks of all arms in a record, which would else be too large to be read again. The figures are of all that were
/// measured.
const KEPT: usize = 100_000;

#[derive(Debug)]
pub struct ComparePlan {
    /// The arms; the others are compared with the first.
    pub arms: Vec<Arm>,
    /// By arm: the arm that it is compared with, if not the first. May be empty.
    pub bases: Vec<usize>,
    /// Duration of the whole experiment.
    pub duration: Duration,
    /// Seed of the random order.
    pub seed: u64,
    /// Ends the experiment as soon as the interval of every comparison is narrower than this share, from end to end.
    pub until: Option<f64>,
    /// A difference of less than this share does not matter.
    pub margin: f64,
    /// The figure that the verdict is about.
    pub figure: Figure,
    /// Thresholds for every arm but the first.
    pub limits: Vec<Limit>,
    /// The command line, for the record.
    pub command: Vec<String>,
}

/// Measures the arms in turn and compares them with the first.
///
/// # Errors
/// The errors of a ping, until one round is complete; after that the record has the reason of its end.
pub fn run(
    plan: ComparePlan,
    signals: &Signals,
    switch: &mut dyn Switch,
    watcher: &mut dyn BlockWatcher,
) -> Result<Compare, RunError> {
    let ComparePlan { arms, bases, duration, seed, until, margin, figure, limits, command } = plan;
    let (count, head) = (arms.len(), rows::begin::<CompareBody>(&command));
    let looks = if until.is_some() { LOOKS.len() as u32 } else { 1 };
    let method = verdict::method(figure, count.saturating_sub(1), looks, margin);
    let mut stands = Stands::set_up(arms, &command, signals, watcher)?;
    let pairs: Vec<(usize, usize)> = (1..count).map(|arm| (bases.get(arm).copied().unwrap_or(0), arm)).collect();
    let first = measure(&mut stands, &pairs, duration, seed, until, &method, switch);
    if first.rounds.is_empty() {
        return Err(match first.laid.ended {
            Some(Ended::Failed(error)) => error,
            Some(Ended::Interrupted) | None => RunError::Interrupted,
        });
    }
    let mut record = first.record(head.clone(), &stands, &pairs, method, seed);
    record.thresholds = limit::held(&limits, &record);
    if record.thresholds.iter().any(|threshold| threshold.crossed) {
        let second = measure(&mut stands, &pairs, duration, seed.wrapping_add(1), until, &record.method, switch);
        let again = second.record(head, &stands, &pairs, record.method.clone(), seed);
        limit::confirm(&mut record.thresholds, &limit::held(&limits, &again));
    }
    Ok(record)
}

/// The rounds, and how they ended.
struct Measured {
    rounds: Vec<Round>,
    laid: Laid,
    elapsed: Duration,
}

fn measure(
    stands: &mut Stands<'_>,
    pairs: &[(usize, usize)],
    duration: Duration,
    seed: u64,
    until: Option<f64>,
    method: &Method,
    switch: &mut dyn Switch,
) -> Measured {
    stands.begin(duration, Duration::ZERO);
    let layout = Layout { arms: pairs.len() + 1, duration, seed, done: 0, length: None };
    let (mut measured, mut last) = (Vec::new(), Duration::ZERO);
    let mut looks = LOOKS.iter().map(|share| duration.mul_f64(*share)).peekable();
    let laid = rounds::run(&layout, stands, switch, &mut |round, _, elapsed| {
        measured.push(round);
        last = elapsed;
        let looked = looks.next_if(|look| elapsed >= *look).is_some();
        while looks.next_if(|look| elapsed >= *look).is_some() {}
        match until {
            Some(width) if looked && all_narrower(&measured, pairs, method, width) => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    });
    Measured { rounds: measured, laid, elapsed: last }
}

fn all_narrower(rounds: &[Round], pairs: &[(usize, usize)], method: &Method, width: f64) -> bool {
    let states = States::of(rounds);
    pairs.iter().all(|(base, arm)| {
        let comparison = verdict::compare(rounds, *base, *arm, &states, method, Duration::ZERO);
        let main = comparison.figures.iter().find(|estimate| estimate.figure == method.figure);
        main.is_some_and(|main| {
            main.pairs >= verdict::FEWEST as u64 && main.low.zip(main.high).is_some_and(|(low, high)| high / low - 1.0 < width)
        })
    })
}

impl Measured {
    fn record(&self, head: Head, stands: &Stands<'_>, pairs: &[(usize, usize)], method: Method, seed: u64) -> Compare {
        let states = States::of(&self.rounds);
        let mut arms = stands.described();
        arms.iter_mut().enumerate().for_each(|(at, arm)| fill(arm, at, &self.rounds, &states));
        let compare = |(base, arm): &(usize, usize)| verdict::compare(&self.rounds, *base, *arm, &states, &method, self.elapsed);
        let comparisons = pairs.iter().map(compare).collect();
        let head = Head {
            interrupted: matches!(self.laid.ended, Some(Ended::Interrupted)),
            error: match &self.laid.ended {
                Some(Ended::Failed(error)) => Some(error.to_string()),
                _ => None,
            },
            ..head
        };
        Record {
            head,
            body: CompareBody {
                host: stands.host(),
                design: Some(Design {
                    seed,
                    rounds: self.rounds.len() as u32,
                    discarded: DISCARDED,
                    block_ns: self.laid.length.0,
                    warmup_ns: self.laid.warmup.0,
                    elapsed_ns: u64::try_from(self.elapsed.as_nanos()).unwrap_or(u64::MAX),
                }),
                method,
                states: states.record(states::placed_as_the_first(&self.rounds)),
                warnings: warnings(&arms),
                arms,
                comparisons,
                thresholds: Vec::new(),
                placements: Vec::new(),
            },
        }
    }
}

/// Fills in the blocks and figures of an arm.
pub(crate) fn fill(arm: &mut ArmRecord, at: usize, rounds: &[Round], states: &States) {
    let taken = || rounds.iter().map(|round| &round.taken[at]);
    arm.figures = verdict::figures(taken());
    arm.transactions = taken().map(|taken| taken.block.transactions).sum();
    arm.lost = taken().map(|taken| taken.block.lost).sum();
    // In an experiment that went on, all rounds may be earlier ones.
    arm.cpus = arm.cpus.take().or_else(|| taken().find_map(|taken| taken.cpus.clone()));
    arm.segments_out_per_transaction = verdict::middle(taken().filter_map(|taken| taken.segments_out).collect());
    let carried: Vec<_> = taken().filter_map(|taken| taken.bulk).filter(|bulk| bulk.duration_ns > 0).collect();
    let (bytes, ns) =
        carried.iter().fold((0.0, 0.0), |(bytes, ns), bulk| (bytes + bulk.bytes as f64, ns + bulk.duration_ns as f64));
    arm.bulk_bits_per_s = (!carried.is_empty()).then(|| (bytes * 8e9 / ns).round());
    let block = |round: &Round| {
        let taken = &round.taken[at];
        let state = if taken.cpus == round.taken[0].cpus { states.state(&taken.cores) } else { None };
        hairpin_record::experiment::ArmBlock { state: state.map(|state| state as u32), ..taken.block.clone() }
    };
    let all: Vec<_> = rounds.iter().map(block).collect();
    arm.typical = Some(verdict::typical(all.iter()));
    let share = KEPT / rounds.first().map_or(1, |round| round.taken.len());
    arm.blocks = all.into_iter().step_by(rounds.len().div_ceil(share).max(1)).collect();
}

/// Warnings that concern all arms.
fn warnings(arms: &[ArmRecord]) -> Vec<Note> {
    let lost: Vec<String> = arms.iter().filter(|arm| arm.lost > 0).map(|arm| format!("{} by {}", arm.lost, arm.name)).collect();
    if lost.is_empty() {
        return Vec::new();
    }
    let message = format!(
        "requests were never answered in time: {}; a lost request is in no quantile, so an arm that loses looks better than it is",
        lost.join(", ")
    );
    vec![Note { code: "loss".into(), message }]
}

/// The name of the arm with this index.
pub(crate) fn name(arm: usize) -> String {
    letter(arm)
}

#[cfg(test)]
mod tests {
    use hairpin_record::compare::Cpus;
    use hairpin_record::experiment::ArmBlock;

    use super::*;
    use crate::experiment::rounds::Taken;

    #[test]
    fn a_long_experiment_keeps_the_same_rounds_of_every_arm() {
        let round = |round: usize| {
            let block = ArmBlock { round: round as u32, transactions: 1_200, ..ArmBlock::default() };
            let cpus = (round == 0).then(|| Cpus { client: vec![0], server: vec![1] });
            Round { taken: vec![Taken { block, cpus, ..Taken::default() }; 2] }
        };
        let rounds: Vec<Round> = (0..=KEPT / 2).map(round).collect();
        let arms = [0, 1].map(|at| {
            let mut arm = ArmRecord::default();
            fill(&mut arm, at, &rounds, &States::default());
            arm
        });
        let kept = arms.each_ref().map(|arm| arm.blocks.iter().map(|block| block.round).collect::<Vec<_>>());
        assert_eq!(kept[0], kept[1]);
        assert_eq!((kept[0].len(), kept[0][1]), (KEPT / 4 + 1, 2));
        assert_eq!(arms[0].transactions, 1_200 * rounds.len() as u64, "the others count too");
        assert_eq!(arms[0].cpus, rounds[0].taken[0].cpus, "which no block of this process tells");
    }
}
