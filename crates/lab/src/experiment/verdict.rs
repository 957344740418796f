//! From rounds to a verdict: pairs within a round and a state, ratios with intervals, one word.
//!
//! ```text
//!   rounds ──▶ pairs of one state ──▶ ln(b / a) per figure ──▶ interval per state ──▶ combined by weight ──▶ faster │ slower │ same │ unclear
//!                  └ others are dropped and counted                └ states with fewer than 12 pairs, or too few for the confidence, are left out
//! ```
//! Arms on different CPUs or hosts are compared including the distance between those: all their blocks make pairs.

use hairpin_record::compare::{Comparison, Figures, Matched, Method};
use hairpin_record::experiment::{ArmBlock, Estimate, Figure, Verdict};
use hairpin_record::paired::{self, Shift};
use hairpin_units::Arrange;
use std::time::Duration;

use super::figures::{as_quantile, of_pairs, quantile, together};
use super::rounds::{Round, Taken, letter};
use super::states::States;

/// Least number of pairs for an estimate.
pub(crate) const FEWEST: usize = 12;
/// The joint confidence of all intervals of an experiment.
pub(crate) const CONFIDENCE: f64 = 0.95;

/// The method for this number of comparisons and looks.
pub(crate) fn method(figure: Figure, comparisons: usize, looks: u32, margin: f64) -> Method {
    let shares = (Figure::ALL.len() * comparisons.max(1)) as f64 * f64::from(looks.max(1));
    Method { figure, confidence: CONFIDENCE, confidence_each: 1.0 - (1.0 - CONFIDENCE) / shares, looks, margin }
}

/// Compares arm `b` with arm `a`.
pub(crate) fn compare(rounds: &[Round], a: usize, b: usize, states: &States, method: &Method, elapsed: Duration) -> Comparison {
    // Equal numbers may be CPUs of two hosts: over a network no distance can be told.
    let tells = |arm: usize| rounds.iter().any(|round| !round.taken[arm].cores.is_empty());
    let alike = rounds.iter().all(|round| round.taken[a].cpus == round.taken[b].cpus) && tells(a) == tells(b);
    let matched = if alike { Matched::CoreDistance } else { Matched::All };
    let pairs = match matched {
        Matched::CoreDistance => by_state(rounds, a, b, states),
        Matched::All => vec![rounds.iter().map(|round| (&round.taken[a], &round.taken[b])).collect()],
    };
    let kept: usize = pairs.iter().map(Vec::len).sum();
    let mut used = Vec::new();
    let mut figures = Vec::new();
    for figure in Figure::ALL {
        let (estimate, from) = estimate(&pairs, figure, method.confidence_each);
        if figure == method.figure && matched.by_distance() {
            used = from;
        }
        figures.extend(estimate);
    }
    let main = figures.iter().find(|estimate| estimate.figure == method.figure);
    let verdict = main.map_or(Verdict::Unclear, |main| verdict(main, method.margin));
    Comparison {
        arm: letter(b),
        against: letter(a),
        verdict,
        needs_s: (verdict == Verdict::Unclear).then(|| needs(main, kept, method.margin, elapsed)).flatten(),
        pairs: kept as u64,
        dropped: (rounds.len() - kept) as u64,
        states_used: used,
        matched,
        runs: None,
        figures,
    }
}

/// The pairs of each state.
fn by_state<'a>(rounds: &'a [Round], a: usize, b: usize, states: &States) -> Vec<Vec<(&'a Taken, &'a Taken)>> {
    let mut pairs = vec![Vec::new(); states.len()];
    for round in rounds {
        let (one, other) = (&round.taken[a], &round.taken[b]);
        if let (Some(state), Some(same)) = (states.state(&one.cores), states.state(&other.cores))
            && state == same
        {
            pairs[state].push((one, other));
        }
    }
    pairs
}

/// The fewest pairs of a state: [`FEWEST`], or as many as the signed-rank test takes for an interval with two ends.
fn fewest(confidence: f64) -> usize {
    // The outermost values of n pairs leave out 2^-n on either side.
    FEWEST.max((2.0 / (1.0 - confidence)).log2().ceil() as usize)
}

/// A figure over the pairs of one state.
struct Sample {
    state: u32,
    values: Vec<(f64, f64)>,
    /// Blocks per value.
    each: f64,
}

/// A figure's ratio from the pairs of all states with enough pairs, or of the state with most if none has enough; and these
/// states.
fn estimate(pairs: &[Vec<(&Taken, &Taken)>], figure: Figure, confidence: f64) -> (Option<Estimate>, Vec<u32>) {
    let sample = |(state, pairs): (usize, &Vec<(&Taken, &Taken)>)| {
        let (values, each) = of_pairs(pairs, figure);
        Sample { state: state as u32, values, each }
    };
    let samples: Vec<Sample> = pairs.iter().enumerate().map(sample).collect();
    let most = samples.iter().map(|sample| sample.values.len()).max().unwrap_or(0);
    let fewest = fewest(confidence);
    let enough = most.clamp(1, fewest);
    let mut parts = Vec::new();
    let (mut used, mut count, mut blocks, mut alike, mut centre, mut widened) = (Vec::new(), 0, 0.0, 0.0, 0.0, 0.0);
    for Sample { state, values, each } in samples.iter().filter(|sample| sample.values.len() >= enough) {
        // If no state has enough, use only the first with most.
        if most < fewest && !used.is_empty() {
            break;
        }
        let logs: Vec<f64> = values.iter().map(|(a, b)| (b / a).ln()).collect();
        let Some(shift) = paired::plain(&logs, confidence) else { continue };
        let (weight, times) = (values.len() as f64, paired::moods(&logs, confidence));
        parts.push((weight, shift.widened(times)));
        used.push(*state);
        count += values.len();
        blocks += each * weight;
        alike += paired::alike(&logs) * weight;
        widened += times * weight;
        centre += weight * middle(values.iter().map(|(a, b)| f64::midpoint(a.ln(), b.ln())).collect()).unwrap_or(0.0);
    }
    if parts.is_empty() {
        return (None, used);
    }
    let all = count as f64;
    parts.iter_mut().for_each(|(weight, _)| *weight /= all);
    let estimate = Estimate {
        pairs: count as u64,
        blocks_per_value: blocks / all,
        autocorrelation: Some(alike / all),
        widened: Some(widened / all),
        ..of_shift(figure, &Shift::combined(&parts), centre / all)
    };
    (Some(estimate), used)
}

/// An estimate whose figures for both arms are as far apart as the ratio says, around their `centre`, a logarithm.
pub(crate) fn of_shift(figure: Figure, shift: &Shift, centre: f64) -> Estimate {
    let ratio = shift.ratio();
    let finite = |value: f64| Some(value).filter(|value| value.is_finite() && *value > 0.0);
    let base = finite((centre - shift.typical / 2.0).exp());
    let difference = |ratio: Option<f64>| Some((ratio? - 1.0) * base?);
    let (found, low, high) = (finite(ratio.ratio), finite(ratio.low), finite(ratio.high));
    Estimate {
        figure,
        ratio: found,
        low,
        high,
        difference: difference(found),
        difference_low: difference(low),
        difference_high: difference(high),
        base,
        value: base.zip(found).map(|(base, ratio)| base * ratio),
        ..Estimate::default()
    }
}

/// The verdict for an interval.
pub(crate) fn verdict(estimate: &Estimate, margin: f64) -> Verdict {
    let (Some(low), Some(high)) = (estimate.low, estimate.high) else { return Verdict::Unclear };
    // With runs as the unit, their number is already in the interval.
    if estimate.pairs < FEWEST as u64 && estimate.between_runs.is_none() {
        return Verdict::Unclear;
    }
    let more_is_better = estimate.figure.more_is_better();
    if low > 1.0 {
        return if more_is_better { Verdict::Faster } else { Verdict::Slower };
    }
    if high < 1.0 {
        return if more_is_better { Verdict::Slower } else { Verdict::Faster };
    }
    if within(low, high, margin) { Verdict::Same } else { Verdict::Unclear }
}

/// True if the whole interval is within the margin of 1; symmetric, so that exchanging the arms changes nothing.
pub(crate) fn within(low: f64, high: f64, margin: f64) -> bool {
    low >= 1.0 / (1.0 + margin) && high <= 1.0 + margin
}

/// The duration in s that a verdict would need if things go on like this: the interval narrows with the square root of the number
/// of pairs.
fn needs(main: Option<&Estimate>, kept: usize, margin: f64, elapsed: Duration) -> Option<f64> {
    let so_far = elapsed.as_secs_f64();
    let pairs = main.map_or(0, |main| main.pairs);
    // A few more pairs than the minimum, since rounds are dropped at random.
    let for_pairs = |have: f64| so_far * FEWEST as f64 * 1.5 / have;
    let Some((ratio, low, high)) = main.and_then(|main| Some((main.ratio?, main.low?, main.high?))) else {
        return (pairs.max(kept as u64) > 0).then(|| for_pairs(pairs.max(1) as f64));
    };
    let half = (high / low).ln() / 2.0;
    let away = ratio.ln().abs();
    // Narrow enough to exclude 1, or to lie within the margin.
    let wanted = away.max((1.0 + margin).ln() - away);
    let narrower = so_far * (half / wanted).powi(2);
    let least = if pairs < FEWEST as u64 { for_pairs(pairs.max(1) as f64) } else { so_far };
    Some(narrower.max(least))
}

/// The medians of the figures over an arm's blocks, with equal weights; `None` if fewer than half of them have the figure.
pub(crate) fn typical<'a>(blocks: impl Iterator<Item = &'a ArmBlock> + Clone) -> Figures {
    let of = |figure| {
        let found: Vec<f64> = blocks.clone().filter_map(|block| block.figure(figure)).collect();
        if 2 * found.len() >= blocks.clone().count() { middle(found) } else { None }
    };
    Figures {
        p50_ns: of(Figure::P50),
        p99_ns: of(Figure::P99),
        p999_ns: of(Figure::P999),
        rate_per_s: of(Figure::Rate),
        cpu_ns: of(Figure::Cpu),
    }
}

/// The figures of one arm over all its transactions.
pub(crate) fn figures<'a>(taken: impl Iterator<Item = &'a Taken> + Clone) -> Figures {
    let times = together(taken.clone());
    let of_times = |figure| as_quantile(figure).and_then(|q| quantile(&times, q));
    let of_blocks = |figure| middle(taken.clone().filter_map(|taken| taken.block.figure(figure)).collect());
    Figures {
        p50_ns: of_times(Figure::P50),
        p99_ns: of_times(Figure::P99),
        p999_ns: of_times(Figure::P999),
        rate_per_s: of_blocks(Figure::Rate),
        cpu_ns: of_blocks(Figure::Cpu),
    }
}

/// The median; `None` for no values.
pub(crate) fn middle(mut values: Vec<f64>) -> Option<f64> {
    values.arrange_by(f64::total_cmp);
    let count = values.len();
    (count > 0).then(|| f64::midpoint(values[(count - 1) / 2], values[count / 2]))
}

#[cfg(test)]
mod tests {
    use hairpin_record::compare::Cpus;

    use super::super::random::Random;
    use super::*;

    /// A host with drift, jumps between two states, and the noise of a real one.
    pub(crate) struct Host {
        random: Random,
        drift: f64,
        far: bool,
    }

    impl Host {
        pub(crate) fn new(seed: u64) -> Host {
            Host { random: Random::new(seed), drift: 0.0, far: false }
        }

        fn uniform(&mut self) -> f64 {
            (self.random.next() >> 11) as f64 / (1u64 << 53) as f64
        }

        /// Nearly normal, with heavy tails: one block in thirty is disturbed.
        fn noise(&mut self) -> f64 {
            let normal = (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0;
            let wild = if self.uniform() < 1.0 / 30.0 { 8.0 * self.uniform() } else { 0.0 };
            normal + wild
        }

        fn block(&mut self, p50: f64, noise: f64) -> Taken {
            // A random walk of 0.3 % per block, pulled back; the state changes about every 40 blocks.
            self.drift = 0.99 * self.drift + 0.003 * (2.0 * self.uniform() - 1.0);
            if self.uniform() < 1.0 / 40.0 {
                self.far = !self.far;
            }
            let state = if self.far { 1.25 } else { 1.0 };
            let p50 = p50 * state * (self.drift + noise * self.noise()).exp();
            let times = [-1.0, -0.5, 0.0, 0.5, 1.0].map(|at: f64| ((p50 * (1.0 + 0.02 * at)) as u64, 1_000));
            let block =
                ArmBlock { transactions: 5_000, duration_ns: (5_000.0 * p50) as u64, p50_ns: Some(p50), ..ArmBlock::default() };
            Taken { block, times: times.into(), cores: vec![if self.far { 510 } else { 120 }], ..Taken::default() }
        }

        pub(crate) fn rounds(&mut self, count: usize, noise: f64, arms: &[f64]) -> Vec<Round> {
            let mut round = || {
                let mut taken = vec![Taken::default(); arms.len()];
                for arm in Random::new(self.random.next()).order(arms.len()) {
                    taken[arm] = self.block(50_000.0 * arms[arm], noise);
                }
                Round { taken }
            };
            (0..count).map(|_| round()).collect()
        }
    }

    fn found(rounds: &[Round], looks: u32) -> Comparison {
        let method = method(Figure::P50, 1, looks, 0.02);
        compare(rounds, 0, 1, &States::of(rounds), &method, Duration::from_secs(10))
    }

    #[test]
    fn at_most_one_in_a_hundred_equal_pairs_gets_a_verdict() {
        let tries = 600;
        let mut told = 0;
        let mut alike = 0;
        for seed in 0..tries {
            let comparison = found(&Host::new(seed).rounds(40, 0.01, &[1.0, 1.0]), 1);
            told += usize::from(matches!(comparison.verdict, Verdict::Faster | Verdict::Slower));
            alike += usize::from(comparison.verdict == Verdict::Same);
        }
        // The interval of each figure is one of 99 %: 6 of 600 are expected; 14 would come about by chance once in a thousand
        // times.
        assert!(told <= 14, "{told} of {tries}");
        assert!(alike * 100 >= 80 * tries as usize, "{alike} of {tries}");
    }

    #[test]
    fn one_percent_is_found_through_drift_and_states() {
        let tries = 100;
        let slower = (0..tries).filter(|seed| {
            let comparison = found(&Host::new(1_000 + seed).rounds(200, 0.015, &[1.0, 1.01]), 1);
            comparison.verdict == Verdict::Slower
        });
        let slower = slower.count();
        assert!(slower >= 95, "{slower} of {tries}");
    }

    #[test]
    fn without_the_states_the_hypervisor_would_be_measured() {
        let rounds = Host::new(5).rounds(200, 0.005, &[1.0, 1.0]);
        let states = States::of(&rounds);
        assert_eq!(states.len(), 2);
        let comparison = found(&rounds, 1);
        assert!(comparison.dropped > 0 && comparison.pairs + comparison.dropped == 200);
        assert_eq!(comparison.states_used, [0, 1]);
        let p50 = &comparison.figures[0];
        assert!(p50.high.unwrap() / p50.low.unwrap() < 1.02, "{p50:?}");
    }

    #[test]
    fn a_state_with_too_few_pairs_for_the_confidence_leaves_the_interval_of_the_others() {
        let mut rounds = Host::new(4).rounds(80, 0.01, &[1.0, 1.0]);
        for (at, round) in rounds.iter_mut().enumerate() {
            round.taken.iter_mut().for_each(|taken| taken.cores = vec![if at < 12 { 510 } else { 120 }]);
        }
        // One of thirty comparisons: an interval with two ends takes 13 pairs.
        let method = method(Figure::P50, 30, 1, 0.02);
        let comparison = compare(&rounds, 0, 1, &States::of(&rounds), &method, Duration::from_secs(10));
        let p50 = &comparison.figures[0];
        assert_eq!((fewest(0.99), fewest(method.confidence_each), p50.pairs), (FEWEST, 13, 68));
        assert!(comparison.states_used == [0] && p50.low.is_some() && p50.high.is_some(), "{comparison:?}");
    }

    fn estimate_of(figure: Figure, low: f64, high: f64, pairs: u64) -> Estimate {
        Estimate { figure, ratio: Some((low * high).sqrt()), low: Some(low), high: Some(high), pairs, ..Estimate::default() }
    }

    #[test]
    fn arms_on_different_cpus_are_compared_at_any_distance() {
        let mut rounds = Host::new(3).rounds(40, 0.01, &[1.0, 1.0 / 12.0]);
        let cpus = |server| Some(Cpus { client: vec![0], server: vec![server] });
        for round in &mut rounds {
            (round.taken[0].cpus, round.taken[1].cpus) = (cpus(1), cpus(0));
            // Two threads on one core exchange no cache line.
            round.taken[1].cores.clear();
        }
        let states = States::of(&rounds);
        let comparison = found(&rounds, 1);
        assert_eq!((comparison.pairs, comparison.dropped, comparison.verdict), (40, 0, Verdict::Faster));
        assert_eq!((comparison.matched, comparison.states_used.len()), (Matched::All, 0));
        let ratio = comparison.figures[0].ratio.unwrap();
        assert!((10.0..14.0).contains(&(1.0 / ratio)), "{ratio}");
        // The distance of the second arm matches none of the first one's states.
        rounds.iter_mut().for_each(|round| round.taken[1].cores = vec![9_000]);
        assert_eq!(States::of(&rounds), states);
    }

    #[test]
    fn equal_cpus_of_two_hosts_are_compared_at_any_distance() {
        let mut rounds = Host::new(3).rounds(40, 0.01, &[1.0, 5.0]);
        for taken in rounds.iter_mut().flat_map(|round| &mut round.taken) {
            taken.cpus = Some(Cpus { client: vec![0], server: vec![1] });
        }
        // The second arm's server is on another host.
        rounds.iter_mut().for_each(|round| round.taken[1].cores.clear());
        let comparison = found(&rounds, 1);
        assert_eq!((comparison.pairs, comparison.dropped, comparison.verdict), (40, 0, Verdict::Slower));
        assert_eq!((comparison.matched, comparison.states_used.len()), (Matched::All, 0));
    }

    #[test]
    fn figures_and_ratio_of_a_comparison_agree() {
        // One arm has fast and slow blocks. Fast ones have more transactions, so most transactions are fast, however many blocks
        // are slow.
        let rounds: Vec<Round> = Host::new(11)
            .rounds(60, 0.01, &[1.0, 0.9])
            .into_iter()
            .enumerate()
            .map(|(at, mut round)| {
                if at % 3 == 0 {
                    let fast = &mut round.taken[0];
                    fast.times = fast.times.iter().map(|(ns, often)| (ns / 10, often * 10)).collect();
                    fast.block.transactions *= 10;
                    fast.block.p50_ns = fast.block.p50_ns.map(|ns| ns / 10.0);
                }
                round
            })
            .collect();
        let comparison = found(&rounds, 1);
        for estimate in &comparison.figures {
            let (base, value, ratio) = (estimate.base.unwrap(), estimate.value.unwrap(), estimate.ratio.unwrap());
            assert!((value / base - ratio).abs() < 1e-9, "{estimate:?}");
            assert!((estimate.difference.unwrap() - (value - base)).abs() < 1e-6 * base, "{estimate:?}");
        }
        let blocks = || rounds.iter().map(|round| &round.taken[0].block);
        let (pooled, typical) = (figures(rounds.iter().map(|round| &round.taken[0])), typical(blocks()));
        assert!(pooled.p50_ns.unwrap() < 10_000.0, "{pooled:?}");
        assert!(typical.p50_ns.unwrap() > 40_000.0, "{typical:?}");
        assert!(comparison.figures[0].base.unwrap() > 20_000.0, "{:?}", comparison.figures[0]);
    }

    #[test]
    fn the_rules_of_the_verdict() {
        use Figure::{Cpu, P50, P99, Rate};
        use Verdict::{Faster, Same, Slower, Unclear};
        for (figure, low, high, pairs, word) in [
            (P50, 0.90, 0.95, 40, Faster),
            (P50, 1.05, 1.10, 40, Slower),
            (P99, 1.05, 1.10, 40, Slower),
            (Rate, 1.05, 1.10, 40, Faster),
            (Rate, 0.90, 0.95, 40, Slower),
            (Cpu, 0.90, 0.95, 40, Faster),
            // Within the margin, but certainly not 1.
            (P50, 1.005, 1.015, 40, Slower),
            (P50, 0.985, 1.015, 40, Same),
            (P50, 0.97, 1.015, 40, Unclear),
            (P50, 0.5, 0.6, 11, Unclear),
            (P50, 0.5, 0.6, 12, Faster),
        ] {
            assert_eq!(verdict(&estimate_of(figure, low, high, pairs), 0.02), word, "{figure} {low} {high} {pairs}");
        }
        assert_eq!(verdict(&Estimate { low: None, ..estimate_of(P50, 0.5, 0.6, 40) }, 0.02), Unclear);
    }

    #[test]
    fn unclear_result_estimates_the_needed_time() {
        // Half a width of 4 % has to become 2 %: four times as long.
        let wide = estimate_of(Figure::P50, 0.96, 1.0 / 0.96, 40);
        let needs_s = needs(Some(&wide), 40, 0.02, Duration::from_secs(10)).unwrap();
        assert!((needs_s - 10.0 * (0.96f64.ln() / 1.02f64.ln()).powi(2)).abs() < 1e-9, "{needs_s}");
        let few = found(&Host::new(1).rounds(6, 0.01, &[1.0, 2.0]), 1);
        assert_eq!(few.verdict, Verdict::Unclear);
        assert!(few.needs_s.unwrap() > 20.0, "{few:?}");
        assert_eq!(needs(None, 0, 0.02, Duration::from_secs(10)), None);
    }

    #[test]
    fn a_far_better_arm_is_found_at_once_and_every_figure_has_its_interval() {
        let comparison = found(&Host::new(2).rounds(30, 0.01, &[1.0, 0.5]), 4);
        assert_eq!(comparison.verdict, Verdict::Faster);
        assert_eq!(comparison.needs_s, None);
        let names: Vec<Figure> = comparison.figures.iter().map(|estimate| estimate.figure).collect();
        assert_eq!(names[..2], [Figure::P50, Figure::P99]);
        let p50 = &comparison.figures[0];
        assert!((p50.ratio.unwrap() - 0.5).abs() < 0.02 && p50.low < p50.ratio && p50.ratio < p50.high);
        assert!((p50.difference.unwrap() + 0.5 * 55_000.0).abs() < 6_000.0, "{p50:?}");
    }

    #[test]
    fn the_confidence_is_shared_out() {
        let one = method(Figure::P50, 1, 1, 0.02);
        assert!((one.confidence_each - 0.99).abs() < 1e-12);
        let more = method(Figure::P50, 2, 4, 0.02);
        assert!((more.confidence_each - (1.0 - 0.05 / 40.0)).abs() < 1e-12);
    }
}
