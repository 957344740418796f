//! Rounds: one block of every arm in random order, until the time is up or the result is known; one at least.
//!
//! ```text
//!   discarded rounds    B A │ A B            everything warms up; the arms' rates choose the length of the blocks
//!   rounds              A B │ B A │ B A │ …   switch to the arm, warm up, measure: nothing else runs meanwhile
//! ```

use std::ops::ControlFlow;
use std::time::Duration;

use hairpin_record::compare::Cpus;
use hairpin_record::experiment::ArmBlock;
use hairpin_record::load::BulkFacts;
use hairpin_units::Nanos;

use super::random::Random;
use hairpin_session::error::RunError;

/// Number of discarded rounds, in which everything warms up.
pub(crate) const DISCARDED: u32 = 2;
/// Shortest block, unless the whole experiment is short …
const SHORTEST: Nanos = Nanos::from_millis(50);
/// … and longest block, so that drift hits all blocks of a round alike.
const LONGEST: Nanos = Nanos::from_millis(250);
/// Shortest block in any experiment.
const LEAST: Nanos = Nanos::from_millis(20);
/// Wanted transactions per block: p99 needs a thousand.
const WANTED: f64 = 1_200.0;
/// Wanted rounds of a short experiment.
const ROUNDS: u32 = 32;
/// Warm-up of a block; or the share of its length below, if that is more.
const WARMUP: Nanos = Nanos::from_millis(5);
const WARMUP_SHARE: u64 = 10;

/// One block, and its RTTs with their counts.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Taken {
    pub(crate) block: ArmBlock,
    /// Distinct times in ns, ascending, with their counts.
    pub(crate) times: Vec<(u64, u64)>,
    /// Every cache-line round trip measured beside it, in ns.
    pub(crate) cores: Vec<u64>,
    /// The CPUs of both sides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cpus: Option<Cpus>,
    /// TCP segments per transaction that the client sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) segments_out: Option<f64>,
    /// Traffic of the bulk streams during the block.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) bulk: Option<BulkFacts>,
}

/// One block of every arm.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Round {
    /// In the order of the arms, not of measuring.
    pub(crate) taken: Vec<Taken>,
}

/// Reason for a missing block.
#[derive(Debug)]
pub(crate) enum Ended {
    /// Ctrl-C came.
    Interrupted,
    /// An arm failed.
    Failed(RunError),
}

/// Measures the blocks of an experiment.
pub(crate) trait Bench {
    /// Measures one block of this arm.
    fn block(&mut self, arm: usize, length: Nanos, warmup: Nanos) -> Result<Taken, Ended>;
    /// Time since the experiment began.
    fn elapsed(&self) -> Duration;
}

/// Prepares the host for an arm: settings outside a path, such as knobs.
pub trait Switch {
    /// Called before each block, outside measured time.
    ///
    /// # Errors
    /// The host cannot be changed so; this ends the experiment.
    fn to(&mut self, arm: usize) -> Result<(), String>;
}

/// Leaves the host unchanged.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoSwitch;

impl Switch for NoSwitch {
    fn to(&mut self, _arm: usize) -> Result<(), String> {
        Ok(())
    }
}

/// The layout of an experiment.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    /// Number of arms.
    pub(crate) arms: usize,
    /// Duration of the whole experiment.
    pub(crate) duration: Duration,
    /// Seed of the random order.
    pub(crate) seed: u64,
    /// Rounds already measured, when an aborted experiment resumes.
    pub(crate) done: u32,
    /// The blocks' length if already chosen.
    pub(crate) length: Option<Nanos>,
}

/// Course of an experiment.
#[derive(Debug)]
pub(crate) struct Laid {
    pub(crate) length: Nanos,
    pub(crate) warmup: Nanos,
    /// Why it ended early, if it did.
    pub(crate) ended: Option<Ended>,
}

/// Measures rounds, and passes each complete one to `keep`, which may end the experiment.
pub(crate) fn run(
    layout: &Layout,
    bench: &mut dyn Bench,
    switch: &mut dyn Switch,
    keep: &mut dyn FnMut(Round, Nanos, Duration) -> ControlFlow<()>,
) -> Laid {
    let mut random = Random::new(layout.seed);
    // A resumed experiment continues the same sequence of orders.
    (0..layout.done).for_each(|_| drop(random.order(layout.arms)));
    let length_of_blocks = layout.length.unwrap_or(SHORTEST);
    let mut laid = Laid { length: length_of_blocks, warmup: warmup(length_of_blocks), ended: None };
    // Each arm's rate in the better of its discarded rounds: a disturbance of the other one must not make blocks long.
    let mut rates = vec![0.0; layout.arms];
    let mut number = 0;
    // A host too busy for a round in the time measures one all the same; the result says how little that is.
    let whole = |number| layout.done > 0 || number > DISCARDED;
    while bench.elapsed() < layout.duration || !whole(number) {
        laid.warmup = warmup(laid.length);
        let counts = number >= DISCARDED;
        let order = random.order(layout.arms);
        let round = match one(&order, counts.then_some(layout.done + number - DISCARDED), &laid, bench, switch) {
            Ok(round) => round,
            Err(ended) => {
                laid.ended = Some(ended);
                break;
            }
        };
        number += 1;
        if counts {
            if keep(round, laid.length, bench.elapsed()).is_break() {
                break;
            }
            continue;
        }
        for (rate, taken) in rates.iter_mut().zip(&round.taken) {
            *rate = f64::max(*rate, taken.block.transactions as f64 / (taken.block.duration_ns as f64).max(1.0));
        }
        if number == DISCARDED && layout.length.is_none() {
            laid.length = length(rates.iter().copied().fold(f64::INFINITY, f64::min), layout);
        }
    }
    laid
}

fn one(
    order: &[usize],
    number: Option<u32>,
    laid: &Laid,
    bench: &mut dyn Bench,
    switch: &mut dyn Switch,
) -> Result<Round, Ended> {
    let mut taken = vec![Taken::default(); order.len()];
    for arm in order {
        let failed = |why| Ended::Failed(RunError::Row { path: format!("arm {}", letter(*arm)), why });
        switch.to(*arm).map_err(failed)?;
        taken[*arm] = bench.block(*arm, laid.length, laid.warmup)?;
        taken[*arm].block.round = number.unwrap_or(0);
    }
    Ok(Round { taken })
}

/// The warm-up of blocks of this length.
fn warmup(length: Nanos) -> Nanos {
    WARMUP.max(Nanos(length.0 / WARMUP_SHARE))
}

/// The length of blocks: enough for p99 at the rate of the slowest arm, in transactions per ns, and short enough for many rounds.
fn length(slowest: f64, layout: &Layout) -> Nanos {
    let supported = if slowest > 0.0 { Nanos((WANTED / slowest).min(LONGEST.0 as f64) as u64) } else { LONGEST };
    let share = layout.duration / (layout.arms.max(1) as u32 * ROUNDS);
    let share = Nanos(u64::try_from(share.as_nanos()).unwrap_or(u64::MAX));
    supported.clamp(SHORTEST, LONGEST).min(share).max(LEAST)
}

/// The name of an arm: A, B … Z, then AA, AB …
pub(crate) fn letter(arm: usize) -> String {
    let last = char::from(b'A' + (arm % 26) as u8);
    if arm < 26 { last.into() } else { letter(arm / 26 - 1) + &last.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Clockwork {
        now: Duration,
        asked: Vec<(usize, Nanos)>,
        per_s: f64,
        fails_at: Option<usize>,
    }

    impl Bench for Clockwork {
        fn block(&mut self, arm: usize, length: Nanos, warmup: Nanos) -> Result<Taken, Ended> {
            if self.fails_at == Some(self.asked.len()) {
                return Err(Ended::Interrupted);
            }
            self.asked.push((arm, length));
            self.now += Duration::from(length) + Duration::from(warmup);
            let block = ArmBlock {
                transactions: (self.per_s * length.as_secs_f64()) as u64,
                duration_ns: length.0,
                ..ArmBlock::default()
            };
            Ok(Taken { block, ..Taken::default() })
        }

        fn elapsed(&self) -> Duration {
            self.now
        }
    }

    fn layout(duration: Duration) -> Layout {
        Layout { arms: 2, duration, seed: 3, done: 0, length: None }
    }

    fn lay(bench: &mut Clockwork, layout: &Layout) -> (Laid, Vec<Round>) {
        let mut rounds = Vec::new();
        let laid = run(layout, bench, &mut NoSwitch, &mut |round, _, _| {
            rounds.push(round);
            ControlFlow::Continue(())
        });
        (laid, rounds)
    }

    fn bench(per_s: f64) -> Clockwork {
        Clockwork { now: Duration::ZERO, asked: Vec::new(), per_s, fails_at: None }
    }

    #[test]
    fn every_round_has_every_arm_once_and_the_first_do_not_count() {
        let mut clockwork = bench(200_000.0);
        let (laid, rounds) = lay(&mut clockwork, &layout(Duration::from_secs(11)));
        assert_eq!(laid.length, SHORTEST);
        assert_eq!(clockwork.asked.len(), 2 * (rounds.len() + DISCARDED as usize));
        for two in clockwork.asked.chunks(2) {
            assert_eq!(two[0].0 + two[1].0, 1, "one of each");
        }
        let numbers: Vec<u32> = rounds.iter().map(|round| round.taken[1].block.round).collect();
        assert_eq!(numbers, (0..rounds.len() as u32).collect::<Vec<_>>());
        assert!(rounds.len() >= 95, "{}", rounds.len());
        let first: usize = clockwork.asked.iter().step_by(2).map(|(arm, _)| arm).sum();
        assert!((30..70).contains(&first), "either arm begins about as often: {first}");
    }

    #[test]
    fn slow_arms_have_longer_blocks_and_short_experiments_shorter_ones() {
        // 1,200 transactions at 8,000 a second take 150 ms.
        assert_eq!(lay(&mut bench(8_000.0), &layout(Duration::from_secs(30))).0.length, Nanos::from_millis(150));
        assert_eq!(lay(&mut bench(100.0), &layout(Duration::from_secs(100))).0.length, LONGEST);
        assert_eq!(lay(&mut bench(10_000.0), &layout(Duration::from_secs(2))).0.length, Nanos(31_250_000));
    }

    #[test]
    fn a_round_that_is_cut_off_does_not_count() {
        let mut clockwork = Clockwork { fails_at: Some(2 * 5 + 1), ..bench(200_000.0) };
        let (laid, rounds) = lay(&mut clockwork, &layout(Duration::from_secs(11)));
        assert!(matches!(laid.ended, Some(Ended::Interrupted)));
        assert_eq!(rounds.len(), 3);
    }

    #[test]
    fn a_duration_too_short_for_a_round_gives_one() {
        let (laid, rounds) = lay(&mut bench(200_000.0), &layout(Duration::from_millis(1)));
        assert_eq!((rounds.len(), laid.length), (1, LEAST));
        assert!(laid.ended.is_none());
        let resumed = Layout { done: 3, ..layout(Duration::ZERO) };
        assert!(lay(&mut bench(200_000.0), &resumed).1.is_empty(), "the rounds of before are enough");
        let of_long_blocks = Layout { length: Some(LONGEST), ..resumed };
        assert_eq!(lay(&mut bench(200_000.0), &of_long_blocks).0.warmup, Nanos::from_millis(25));
    }

    #[test]
    fn switches_before_each_block() {
        struct Counting(Vec<usize>);
        impl Switch for Counting {
            fn to(&mut self, arm: usize) -> Result<(), String> {
                self.0.push(arm);
                if self.0.len() > 6 { Err("it does not move".into()) } else { Ok(()) }
            }
        }
        let (mut clockwork, mut switch) = (bench(200_000.0), Counting(Vec::new()));
        let laid = run(&layout(Duration::from_secs(9)), &mut clockwork, &mut switch, &mut |_, _, _| ControlFlow::Continue(()));
        assert_eq!(clockwork.asked.iter().map(|(arm, _)| *arm).collect::<Vec<_>>(), switch.0[..6]);
        let Some(Ended::Failed(error)) = laid.ended else { panic!("{laid:?}") };
        assert!(error.to_string().contains("it does not move"), "{error}");
    }

    #[test]
    fn letters_go_on_after_z() {
        assert_eq!([0, 25, 26, 52].map(letter), ["A", "Z", "AA", "BA"]);
    }
}
