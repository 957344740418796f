//! Blocks measured outside this process, such as by another build or another tool: the same rounds, pairs and intervals as for
//! arms.
//!
//! ```text
//!   hairpin  H₁ 120 ns      H₂ 510 ns   H₃ 510 ns       the distance between the cores
//!   tool            S₁ ?            S₂ ?         S₃ ?   S₂ saw what H₂ and H₃ saw; S₁ saw it change, so its pair is dropped
//! ```

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use hairpin_record::compare::{Comparison, Cpus, Method};
use hairpin_record::experiment::{ArmBlock, Estimate, Figure};
use hairpin_record::run::Row;
use hairpin_units::{Arrange, Nanos};
use serde::{Deserialize, Serialize};

use super::rounds::{self, Bench, Ended, Layout, NoSwitch, Round, Taken, letter};
use super::stands::taken;
use super::states::{States, placed_as_the_first};
use super::verdict;
use hairpin_session::error::RunError;

/// Length of a block; each one pays for the start of a process.
const BLOCK: Nanos = Nanos::from_millis(250);
/// Confidence of the intervals.
const CONFIDENCE: f64 = 0.95;
/// Two arms with a ratio within this of 1 count as the same.
const MARGIN: f64 = 0.02;
/// Rounds per wanted pair, at most.
const TRIES: usize = 2;
/// The fewest pairs whose interval may be narrow enough.
const WIDTH_PAIRS: usize = 96;

/// One block of one arm.
#[derive(Clone, Debug)]
pub struct Block(Taken);

impl Block {
    /// A row of hairpin.
    ///
    /// # Errors
    /// The row's histogram cannot be decoded.
    pub fn of_row(row: &Row) -> Result<Block, String> {
        let taken = taken(row, 0, None).map_err(|error| error.to_string())?;
        // The block's own figures suffice, and the record of many blocks stays small.
        Ok(Block(Taken { times: Vec::new(), ..taken }))
    }

    /// The median of a tool that tells nothing else, measured on the CPUs of client and server.
    #[must_use]
    pub fn of_median(p50_ns: f64, transactions: u64, cpus: [u32; 2]) -> Block {
        let [client, server] = cpus.map(|cpu| vec![cpu]);
        let block = ArmBlock { p50_ns: Some(p50_ns), transactions, ..ArmBlock::default() };
        Block(Taken { block, cpus: Some(Cpus { client, server }), ..Taken::default() })
    }

    /// With the cache-line round trips measured before and after it, in ns.
    #[must_use]
    pub fn with_cores(mut self, cores: Vec<u64>) -> Block {
        self.0.block.core_rtt_ns = cores.iter().copied().max();
        self.0.cores = cores;
        self
    }
}

/// One block of each arm, to be kept for an experiment that goes on later.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Pair(Round);

/// When an experiment ends.
#[derive(Clone, Copy, Debug)]
pub enum Until {
    /// After this time.
    Time(Duration),
    /// When the median comes from this many pairs, or after twice as many rounds.
    Pairs(usize),
    /// When the interval of the ratio is at most this wide in each state of the cores with enough pairs, or after this time. The
    /// ratio itself plays no part in when it ends.
    Width(f64, Duration),
}

/// Measures a block of arm 0 or 1, of this length and warm-up; the error holds the reason, or `None` after Ctrl-C.
pub type Measure<'a> = dyn FnMut(usize, Nanos, Nanos) -> Result<Block, Option<String>> + 'a;

struct Outside<'a, 'b> {
    measure: &'a mut Measure<'b>,
    /// Time that the earlier pairs took.
    before: Duration,
    began: Instant,
}

impl Bench for Outside<'_, '_> {
    fn block(&mut self, arm: usize, length: Nanos, warmup: Nanos) -> Result<Taken, Ended> {
        let at_ns = u64::try_from(self.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let failed = |why| Ended::Failed(RunError::Row { path: format!("arm {}", letter(arm)), why });
        let Block(mut taken) = (self.measure)(arm, length, warmup).map_err(|why| why.map_or(Ended::Interrupted, failed))?;
        taken.block.at_ns = at_ns;
        Ok(taken)
    }

    fn elapsed(&self) -> Duration {
        self.before + self.began.elapsed()
    }
}

/// Two arms that are compared: the first with the second.
pub type Arms = [usize; 2];

/// Measures the arms of `compared` in turn, in random order within each round, and passes each round to `keep`; `before` holds
/// the rounds of an experiment that goes on. Returns p50 of each comparison's first arm over that of its second, with its 95 %
/// interval.
///
/// # Errors
/// A block could not be measured, or a round not be kept: the reason, or `None` after Ctrl-C.
pub fn pairs(
    compared: &[Arms],
    until: Until,
    seed: u64,
    before: Vec<Pair>,
    measure: &mut Measure<'_>,
    keep: &mut dyn FnMut(&Pair) -> Result<(), String>,
) -> Result<Vec<Comparison>, Option<String>> {
    let mut measured: Vec<Round> = before.into_iter().map(|Pair(round)| round).collect();
    let arms = compared.iter().flatten().max().map_or(0, |most| most + 1);
    let last = measured.iter().flat_map(|round| &round.taken).map(|taken| taken.block.at_ns).max();
    let mut outside = Outside { measure, before: Duration::from_nanos(last.unwrap_or(0)), began: Instant::now() };
    let duration = match until {
        Until::Time(duration) | Until::Width(_, duration) => duration,
        Until::Pairs(_) => Duration::MAX,
    };
    let layout = Layout { arms, duration, seed, done: measured.len() as u32, length: Some(BLOCK) };
    if !enough(compared, until, &measured) {
        let mut lost = None;
        let laid = rounds::run(&layout, &mut outside, &mut NoSwitch, &mut |round, _, _| {
            let pair = Pair(round);
            lost = keep(&pair).err();
            measured.push(pair.0);
            if lost.is_some() || enough(compared, until, &measured) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        if lost.is_some() {
            return Err(lost);
        }
        match laid.ended {
            Some(Ended::Failed(error)) => return Err(Some(error.to_string())),
            Some(Ended::Interrupted) => return Err(None),
            None => {}
        }
    }
    let (rounds, states) = with_states(&measured);
    Ok(compared.iter().map(|arms| of_arms(&rounds, *arms, &states, outside.elapsed())).collect())
}

fn enough(compared: &[Arms], until: Until, measured: &[Round]) -> bool {
    let of_median =
        |comparison: Comparison| comparison.figures.into_iter().find(|of| of.figure == Figure::P50).unwrap_or_default();
    match until {
        Until::Time(_) => false,
        Until::Pairs(wanted) => {
            let has_enough = || {
                let (rounds, states) = with_states(measured);
                let pairs = |arms: &Arms| of_median(of_arms(&rounds, *arms, &states, Duration::ZERO)).pairs;
                compared.iter().all(|arms| pairs(arms) >= wanted as u64)
            };
            measured.len() >= TRIES * wanted || measured.len() >= wanted && has_enough()
        }
        Until::Width(width, _) => {
            let is_narrow = |of: &Estimate| of.low.zip(of.high).is_some_and(|(low, high)| high - low <= width);
            let are_narrow = || {
                let states = states_of(&[measured]);
                compared.iter().all(|arms| {
                    let medians = in_states(measured, *arms, &states).into_iter().map(|of| of_median(of.comparison));
                    // With fewer pairs the interval does not contain the host's moods yet.
                    let medians: Vec<Estimate> = medians.filter(|of| of.pairs >= WIDTH_PAIRS as u64).collect();
                    !medians.is_empty() && medians.iter().all(is_narrow)
                })
            };
            // A look after every few rounds is enough.
            measured.len() >= WIDTH_PAIRS && measured.len().is_multiple_of(8) && are_narrow()
        }
    }
}

fn of_arms(rounds: &[Round], [arm, against]: Arms, states: &States, elapsed: Duration) -> Comparison {
    let method = Method { figure: Figure::P50, confidence: CONFIDENCE, confidence_each: CONFIDENCE, looks: 1, margin: MARGIN };
    verdict::compare(rounds, against, arm, states, &method, elapsed)
}

fn with_states(measured: &[Round]) -> (Vec<Round>, States) {
    (with_distances_of_neighbours(measured), States::of(measured))
}

/// The result in one state of the cores.
#[derive(Clone, Debug)]
pub struct InState {
    /// The median distance between the cores in this state; `None` where it plays no part, or was never told.
    pub core_rtt_ns: Option<u64>,
    /// The comparison of the pairs of this state alone.
    pub comparison: Comparison,
}

/// The comparison of each of several experiments, given with its rounds, in each state of the cores, nearest first. The states
/// are those of all experiments together, so that a state means the same in each experiment. A state without a pair is left out.
#[must_use]
pub fn by_state(experiments: &[(&[Pair], Arms)]) -> Vec<Vec<InState>> {
    let rounds = |pairs: &[Pair]| pairs.iter().map(|Pair(round)| round.clone()).collect::<Vec<_>>();
    let experiments: Vec<(Vec<Round>, Arms)> = experiments.iter().map(|(pairs, arms)| (rounds(pairs), *arms)).collect();
    let states = states_of(&experiments.iter().map(|(rounds, _)| &rounds[..]).collect::<Vec<_>>());
    experiments.iter().map(|(rounds, arms)| in_states(rounds, *arms, &states)).collect()
}

fn states_of(experiments: &[&[Round]]) -> States {
    let all = experiments.iter().flat_map(|rounds| placed_as_the_first(rounds));
    States::of_cores(all.flat_map(|taken| taken.cores.iter().copied()))
}

fn in_states(rounds: &[Round], arms: Arms, states: &States) -> Vec<InState> {
    let rounds = with_distances_of_neighbours(rounds);
    let whole = |rounds: &[Round], core_rtt_ns| InState {
        core_rtt_ns,
        comparison: of_arms(rounds, arms, &States::default(), Duration::ZERO),
    };
    let known = rounds.iter().flat_map(|round| &round.taken).any(|taken| !taken.cores.is_empty());
    let placed = rounds.iter().all(|round| round.taken[arms[0]].cpus == round.taken[arms[1]].cpus);
    if !known || !placed {
        return if rounds.is_empty() { Vec::new() } else { vec![whole(&rounds, None)] };
    }
    let in_state = |(state, ns): (usize, u64)| {
        let saw = |round: &&Round| arms.iter().all(|arm| states.state(&round.taken[*arm].cores) == Some(state));
        let of_state: Vec<Round> = rounds.iter().filter(saw).cloned().collect();
        (!of_state.is_empty()).then(|| whole(&of_state, Some(ns)))
    };
    states.medians().iter().copied().enumerate().filter_map(in_state).collect()
}

/// The same rounds; a block that could not tell how far the cores were from each other gets the distances of the blocks before
/// and after it.
fn with_distances_of_neighbours(measured: &[Round]) -> Vec<Round> {
    let mut rounds = measured.to_vec();
    let mut blocks: Vec<&mut Taken> = Vec::new();
    for round in &mut rounds {
        let mut both: Vec<&mut Taken> = round.taken.iter_mut().collect();
        both.arrange_by_key(|taken| taken.block.at_ns);
        blocks.extend(both);
    }
    let known: Vec<Vec<u64>> = blocks.iter().map(|taken| taken.cores.clone()).collect();
    for (at, taken) in blocks.into_iter().enumerate().filter(|(_, taken)| taken.cores.is_empty()) {
        let before = known[..at].iter().rev().find_map(|cores| cores.last());
        let after = known[at + 1..].iter().find_map(|cores| cores.first());
        taken.cores = before.into_iter().chain(after).copied().collect();
    }
    rounds
}

#[cfg(test)]
mod tests {
    use super::*;

    const CPUS: [u32; 2] = [0, 1];

    /// The first arm is a tool that cannot tell the distance of its cores; the second takes twice as long, and its distance is
    /// that of `far`, by the number of its block.
    fn measured(until: Until, before: Vec<Pair>, far: impl Fn(usize) -> bool) -> (Comparison, Vec<Pair>) {
        let (mut kept, mut number) = (Vec::new(), 0);
        let mut measure = |arm: usize, _, _| {
            if arm == 0 {
                return Ok(Block::of_median(1_000.0, 100, CPUS));
            }
            number += 1;
            Ok(Block::of_median(2_000.0, 100, CPUS).with_cores(vec![if far(number) { 510 } else { 120 }]))
        };
        let comparisons = pairs(&[[1, 0]], until, 7, before, &mut measure, &mut |pair| {
            kept.push(pair.clone());
            Ok(())
        });
        (comparisons.unwrap().remove(0), kept)
    }

    #[test]
    fn medians_make_pairs_with_an_interval() {
        let (comparison, kept) = measured(Until::Pairs(20), Vec::new(), |_| false);
        assert_eq!((comparison.pairs, comparison.dropped, kept.len()), (20, 0, 20));
        let p50 = &comparison.figures[0];
        assert_eq!((p50.figure, p50.ratio, p50.low, p50.high), (Figure::P50, Some(2.0), Some(2.0), Some(2.0)));
        assert!((p50.base.unwrap() - 1_000.0).abs() < 1e-6 && (p50.value.unwrap() - 2_000.0).abs() < 1e-6, "{p50:?}");
    }

    #[test]
    fn a_tool_that_cannot_tell_the_distance_has_seen_that_of_the_blocks_around_it() {
        let block = |at_ns, cores: &[u64]| {
            let mut block = Block::of_median(1_000.0, 100, CPUS).with_cores(cores.into());
            block.0.block.at_ns = at_ns;
            block.0
        };
        // In the order measured: 120, ?, 120 then 121, ?, ?, 510, 510, ?.
        let rounds = [
            [block(2, &[]), block(1, &[120])],
            [block(4, &[]), block(3, &[120, 121])],
            [block(5, &[]), block(6, &[510])],
            [block(8, &[]), block(7, &[510])],
        ];
        let rounds = rounds.map(|taken| Round { taken: taken.into() });
        let cores =
            with_distances_of_neighbours(&rounds).into_iter().map(|round| round.taken[0].cores.clone()).collect::<Vec<_>>();
        assert_eq!(cores, [vec![120, 120], vec![121, 510], vec![121, 510], vec![510]]);
        let (rounds, states) = with_states(&rounds);
        let comparison = of_arms(&rounds, [1, 0], &states, Duration::ZERO);
        assert_eq!((comparison.pairs, comparison.dropped, comparison.matched.by_distance()), (2, 2, true));
    }

    #[test]
    fn pairs_of_two_states_do_not_count_as_wanted() {
        let (comparison, kept) = measured(Until::Pairs(20), Vec::new(), |number| number > 12);
        assert!(comparison.dropped <= 2 && comparison.pairs + comparison.dropped == kept.len() as u64, "{comparison:?}");
        // The distance changes with every block, so no two blocks of the other arm agree.
        let (comparison, kept) = measured(Until::Pairs(20), Vec::new(), |number| number % 2 == 0);
        assert!(kept.len() == 40 && comparison.pairs <= 1, "{comparison:?}");
    }

    #[test]
    fn each_state_has_a_comparison_of_its_own() {
        // The second arm takes twice as long as the first where the cores are near, three times where they are far.
        let number = std::cell::Cell::new(0);
        let mut kept = Vec::new();
        let mut measure = |arm: usize, _, _| {
            number.set(number.get() + 1);
            let far = number.get() > 60;
            let ns = [1_000.0, if far { 3_000.0 } else { 2_000.0 }, 500.0][arm];
            Ok(Block::of_median(ns, 100, CPUS).with_cores(vec![if far { 510 } else { 120 }]))
        };
        let compared = [[1, 0], [0, 2]];
        let all = pairs(&compared, Until::Pairs(40), 7, Vec::new(), &mut measure, &mut |pair| {
            kept.push(pair.clone());
            Ok(())
        });
        assert_eq!(all.unwrap().len(), 2);
        let found = by_state(&[(&kept, compared[0]), (&kept, compared[1]), (&[], [1, 0])]);
        let p50 = |of: &InState| of.comparison.figures[0].clone();
        let told = |found: &[InState]| -> Vec<(Option<u64>, f64)> {
            assert_eq!(found.iter().map(|of| p50(of).pairs).sum::<u64>(), 40);
            found.iter().map(|of| (of.core_rtt_ns, p50(of).ratio.unwrap().round())).collect()
        };
        assert_eq!(told(&found[0]), [(Some(120), 2.0), (Some(510), 3.0)]);
        assert_eq!(told(&found[1]), [(Some(120), 2.0), (Some(510), 2.0)]);
        assert!(found[2].is_empty());
        // Arms on CPUs of their own have their own distance, which is part of the comparison.
        let apart: Vec<Pair> = kept
            .iter()
            .cloned()
            .map(|Pair(mut round)| {
                round.taken[1].cpus = None;
                Pair(round)
            })
            .collect();
        let found = by_state(&[(&apart, [1, 0])]);
        assert_eq!((found[0].len(), found[0][0].core_rtt_ns), (1, None));
    }

    #[test]
    fn moods_of_the_host_widen_the_interval() {
        // The same noise; in the second series the ratio is 4 % more for eight rounds, then less for eight.
        let width = |mood: f64| {
            let mut turn = 0;
            let mut measure = |arm: usize, _: Nanos, _: Nanos| {
                turn += 1;
                let (noise, up) = (f64::from(turn * 37 % 101) / 10_000.0, (turn - 1) / 16 % 2 == 0);
                let of_mood = if up { mood } else { -mood };
                Ok(Block::of_median(1_000.0 * (1.0 + noise + if arm == 1 { of_mood } else { 0.0 }), 100, CPUS))
            };
            let found = pairs(&[[1, 0]], Until::Pairs(160), 7, Vec::new(), &mut measure, &mut |_| Ok(())).unwrap();
            let p50 = found[0].figures[0].clone();
            (p50.high.unwrap() - p50.low.unwrap(), p50.widened.unwrap())
        };
        let ((calm, _), (moody, widened)) = (width(0.0), width(0.02));
        assert!(widened > 2.0 && moody > 3.0 * calm, "{calm} {moody} {widened}");
    }

    #[test]
    fn an_interval_narrow_enough_ends_it_and_a_wide_one_does_not() {
        let hour = Duration::from_secs(3600);
        let (comparison, kept) = measured(Until::Width(0.02, hour), Vec::new(), |_| false);
        assert_eq!((comparison.pairs as usize, kept.len()), (WIDTH_PAIRS, WIDTH_PAIRS));
        // Two states, of which the near one has enough pairs first; the rounds between them are of neither.
        let (_, kept) = measured(Until::Width(0.02, hour), Vec::new(), |number| number > 40);
        assert!((WIDTH_PAIRS + 40..=WIDTH_PAIRS + 48).contains(&kept.len()), "{}", kept.len());
        // Each block is longer or shorter than the last, and after 400 of them somebody ends it.
        let mut turn = 0;
        let mut measure = |_: usize, _: Nanos, _: Nanos| {
            turn += 1;
            if turn > 400 { Err(None) } else { Ok(Block::of_median(1_000.0 + f64::from(turn * 37 % 101), 100, CPUS)) }
        };
        let ended = pairs(&[[1, 0]], Until::Width(1e-9, hour), 7, Vec::new(), &mut measure, &mut |_| Ok(()));
        assert_eq!(ended.unwrap_err(), None);
    }

    #[test]
    fn an_experiment_goes_on_with_its_pairs() {
        let (_, first) = measured(Until::Pairs(15), Vec::new(), |_| false);
        let text = serde_json::to_string(&first).unwrap();
        let first: Vec<Pair> = serde_json::from_str(&text).unwrap();
        let (comparison, more) = measured(Until::Pairs(20), first.clone(), |_| false);
        assert_eq!((comparison.pairs, more.len()), (20, 5));
        assert!(more[0].0.taken[0].block.at_ns > first[14].0.taken[0].block.at_ns, "later");
        assert_eq!(measured(Until::Pairs(15), first, |_| false).1, [], "there are enough");
    }

    #[test]
    fn failed_blocks_and_refused_records_end_the_experiment() {
        let kept = &mut |_: &Pair| Ok(());
        let failed = pairs(&[[1, 0]], Until::Pairs(9), 7, Vec::new(), &mut |_, _, _| Err(Some("no such tool".into())), kept);
        assert!(failed.unwrap_err().unwrap().contains("no such tool"));
        assert_eq!(pairs(&[[1, 0]], Until::Pairs(9), 7, Vec::new(), &mut |_, _, _| Err(None), kept).unwrap_err(), None);
        let measure = &mut |_, _, _| Ok(Block::of_median(1.0, 100, CPUS));
        let full = pairs(&[[1, 0]], Until::Pairs(9), 7, Vec::new(), measure, &mut |_| Err("the disk is full".into()));
        assert_eq!(full.unwrap_err().unwrap(), "the disk is full");
    }
}
