//! Comparison with runs as the unit: the distance between two sides and its interval, from the differences between runs of one
//! side.
//!
//! Runs of the same work differ by more than their blocks show: a port, a layout of memory, or the hypervisor's state of the
//! moment stays for a whole run. So the variance is that of runs, pooled over both sides and over the states of the cores, and
//! the interval is Student's. A run that saw two states counts in both; its two deviations are treated as one, which can only
//! widen the interval.
//!
//! A host has moods that last for minutes. Runs that were made one after the other lie within one of them, so they differ less
//! than runs of different days, and their number says nothing of the next mood. Where the runs of one side differ more than those
//! of the other, the other side is one draw of a mood, whose variance is the difference of both ([`Spread::WithMoods`]).

use std::collections::BTreeMap;

use hairpin_record::paired::Shift;
use hairpin_record::statistics::t_quantile;

/// A run counts in a state from this many blocks on.
pub(super) const FEWEST_BLOCKS: usize = 6;

/// Fewest runs of a side whose spread tells moods of the host.
const FEWEST_FOR_MOODS: usize = 6;
/// Confidence with which an interval includes the next mood: variances of ten runs are too vague for more, and of 200 gates
/// without a change 6 to 8 close where moods are as large as the deviation of runs or larger (22 without this).
const OF_MOODS: f64 = 0.95;

/// The share of the run-to-run spread in an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spread {
    /// The spread of all runs, pooled.
    Pooled,
    /// The pooled spread and moods of the host, each of which lasts longer than the runs of a side.
    WithMoods,
}

/// One run in one state of the cores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Cell {
    /// The index of the run on its side.
    pub(super) run: usize,
    /// Its blocks in this state.
    pub(super) blocks: usize,
    /// The logarithm of its figure.
    pub(super) log: f64,
}

/// The distance between the sides.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct SideDistance {
    /// The second side over the first, as a logarithm; without an interval if neither side has a second run.
    pub(super) shift: Shift,
    /// The middle between both, as a logarithm.
    pub(super) centre: f64,
    /// The deviation from run to run, of logarithms.
    pub(super) deviation: Option<f64>,
    /// Number of blocks of the side that has fewer.
    pub(super) blocks: usize,
}

/// Compares the runs of both sides in each state that both saw. `None` if there is no such state.
pub(super) fn runs<'a>(
    strata: impl Iterator<Item = &'a [Vec<Cell>; 2]> + Clone,
    spread: Spread,
    confidence: f64,
) -> Option<SideDistance> {
    let mean = |cells: &[Cell]| cells.iter().map(|cell| cell.log).sum::<f64>() / cells.len() as f64;
    let count = |cells: &[Cell]| cells.len() as f64;
    let apart = |[one, other]: &[Vec<Cell>; 2]| 1.0 / count(one) + 1.0 / count(other);
    let weights: f64 = strata.clone().map(|cells| 1.0 / apart(cells)).sum();
    if weights <= 0.0 {
        return None;
    }
    let (mut typical, mut centre) = (0.0, 0.0);
    let (mut squares, mut cells, mut blocks) = ([0.0, 0.0], [0.0, 0.0], [0, 0]);
    // The weight of each run in the estimate.
    let mut shares = [BTreeMap::new(), BTreeMap::new()];
    let mut means = [0.0, 0.0];
    for stratum in strata {
        let weight = 1.0 / apart(stratum) / weights;
        let (one, other) = (mean(&stratum[0]), mean(&stratum[1]));
        typical += weight * (other - one);
        centre += weight * f64::midpoint(one, other);
        for (side, mean) in [one, other].into_iter().enumerate() {
            squares[side] += stratum[side].iter().map(|cell| (cell.log - mean).powi(2)).sum::<f64>();
            cells[side] += count(&stratum[side]);
            blocks[side] += stratum[side].iter().map(|cell| cell.blocks).sum::<usize>();
            for cell in &stratum[side] {
                *shares[side].entry(cell.run).or_insert(0.0) += weight / count(&stratum[side]);
            }
            means[side] += 1.0;
        }
    }
    // Deviations of one run in two states do not count as two draws.
    let draws = shares.each_ref().map(|shares| shares.len() as f64 - 1.0);
    let reach = shares.each_ref().map(|shares| shares.values().map(|share: &f64| share * share).sum::<f64>());
    let free = [cells[0] - means[0], cells[1] - means[1]];
    let freedom = (free[0] + free[1]).min(draws[0] + draws[1]);
    let deviation = (freedom >= 1.0).then(|| ((squares[0] + squares[1]) / (free[0] + free[1])).sqrt());
    let t = |confidence: f64, freedom: f64| t_quantile(f64::midpoint(1.0, confidence.clamp(0.0, 1.0)), freedom);
    let mut half = match deviation {
        Some(deviation) if deviation > 0.0 => deviation * (reach[0] + reach[1]).sqrt() * t(confidence, freedom),
        Some(_) => 0.0,
        None => f64::INFINITY,
    };
    let variance = [0, 1].map(|side| if free[side] < 1.0 { 0.0 } else { squares[side] / free[side] });
    for (moody, steady) in [(0, 1), (1, 0)] {
        if spread == Spread::Pooled || shares[moody].len() < FEWEST_FOR_MOODS {
            continue;
        }
        // A single run has no spread of its own, and is one draw of a mood already.
        if free[steady] >= 1.0 && variance[moody] > variance[steady] {
            let of_mood = variance[moody] - variance[steady];
            let of_both = variance[moody] * reach[moody] + variance[steady] * reach[steady] + of_mood;
            half = half.max(of_both.sqrt() * t(confidence.min(OF_MOODS), draws[moody].min(free[moody])));
        }
    }
    Some(SideDistance {
        shift: Shift { typical, low: typical - half, high: typical + half },
        centre,
        deviation,
        blocks: blocks[0].min(blocks[1]),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(logs: &[f64]) -> Vec<Cell> {
        logs.iter().enumerate().map(|(run, log)| Cell { run, blocks: 20, log: *log }).collect()
    }

    #[test]
    fn one_state_is_the_two_sample_interval_of_student() {
        // Means 0.1 and 0.4; squares 0.02 and 0.02 over 2 + 2 degrees: s = 0.1; half = t(4; 97.5 %) · 0.1 · √(2/3) = 2.776445 ·
        // 0.0816497.
        let strata = [[cells(&[0.0, 0.1, 0.2]), cells(&[0.3, 0.4, 0.5])]];
        let found = runs(strata.iter(), Spread::Pooled, 0.95).unwrap();
        assert!((found.shift.typical - 0.3).abs() < 1e-12 && (found.deviation.unwrap() - 0.1).abs() < 1e-12);
        assert!((found.shift.high - 0.3 - 0.226_696).abs() < 1e-5, "{found:?}");
        assert_eq!(found.blocks, 60);
    }

    #[test]
    fn one_run_on_each_side_has_an_interval_without_ends() {
        let found = runs([[cells(&[0.1]), cells(&[0.2])]].iter(), Spread::Pooled, 0.95).unwrap();
        assert_eq!((found.shift.low, found.shift.high, found.deviation), (f64::NEG_INFINITY, f64::INFINITY, None));
        assert_eq!(runs([].iter(), Spread::Pooled, 0.95), None);
        let prediction = runs([[cells(&[0.0, 0.1, 0.2]), cells(&[0.2])]].iter(), Spread::Pooled, 0.95).unwrap();
        // t(2; 97.5 %) = 4.30265, and a single run has a deviation of its own: √(1 + 1/3).
        assert!((prediction.shift.high - 0.1 - 4.302_65 * 0.1 * (4.0f64 / 3.0).sqrt()).abs() < 1e-4, "{prediction:?}");
    }

    #[test]
    fn a_run_in_two_states_is_one_draw() {
        let stratum = || [cells(&[0.0, 0.1, 0.2]), cells(&[0.3, 0.4, 0.5])];
        let once = runs([stratum()].iter(), Spread::Pooled, 0.95).unwrap();
        let twice = runs([stratum(), stratum()].iter(), Spread::Pooled, 0.95).unwrap();
        assert!((once.shift.high - twice.shift.high).abs() < 1e-9, "{once:?} {twice:?}");
    }

    #[test]
    fn runs_of_one_mood_are_one_draw() {
        let moody = cells(&[0.00, 0.08, -0.06, 0.03, -0.09, 0.04, -0.02, 0.07]);
        let steady = |at: f64| cells(&[at, at + 0.002, at - 0.001, at + 0.001, at - 0.002]);
        let reach = |one: &[Cell], other: &[Cell], spread| {
            let found = runs([[one.to_vec(), other.to_vec()]].iter(), spread, 0.99).unwrap().shift;
            found.high - found.typical
        };
        // t(7; 97.5 %) = 2.3646; the deviation of the eight is 0.060445, that of the five 0.001581.
        let widest = 2.3646 * (0.060_445f64.powi(2) * (1.0 + 1.0 / 8.0) - 0.001_581f64.powi(2) * 0.8).sqrt();
        for (one, other) in [(moody.clone(), steady(0.2)), (steady(0.2), moody.clone())] {
            assert!((reach(&one, &other, Spread::WithMoods) - widest).abs() < 1e-3, "{}", reach(&one, &other, Spread::WithMoods));
            assert!(reach(&one, &other, Spread::Pooled) < 0.7 * widest, "{}", reach(&one, &other, Spread::Pooled));
        }
        // Five runs are too few to tell.
        let few = (moody[..5].to_vec(), steady(0.2));
        assert_eq!(reach(&few.0, &few.1, Spread::WithMoods), reach(&few.0, &few.1, Spread::Pooled));
        // The interval of a single run includes the next mood already.
        let single = (moody, cells(&[0.1]));
        assert_eq!(reach(&single.0, &single.1, Spread::WithMoods), reach(&single.0, &single.1, Spread::Pooled));
    }
}
