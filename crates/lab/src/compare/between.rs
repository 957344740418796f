//! Comparison with runs as the unit: the distance between two sides and its interval, from the differences between runs of one
//! side.
//!
//! Runs of the same work differ by more than their blocks show: a port, a layout of memory, or the hypervisor's state of the
//! moment stays for a whole run. So the variance is that of runs, pooled over both sides and over the states of the cores, and
//! the interval is Student's. A run that saw two states counts in both; its two deviations are treated as one, which can only
//! widen the interval.

use std::collections::BTreeMap;

use hairpin_record::paired::Shift;
use hairpin_record::statistics::t_quantile;

/// A run counts in a state from this many blocks on.
pub(super) const FEWEST_BLOCKS: usize = 6;

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
    /// Blocks of the side with fewer.
    pub(super) blocks: usize,
}

/// Compares the runs of both sides in each state that both saw. `None` if there is no such state.
pub(super) fn runs<'a>(strata: impl Iterator<Item = &'a [Vec<Cell>; 2]> + Clone, confidence: f64) -> Option<SideDistance> {
    let mean = |cells: &[Cell]| cells.iter().map(|cell| cell.log).sum::<f64>() / cells.len() as f64;
    let count = |cells: &[Cell]| cells.len() as f64;
    let apart = |[one, other]: &[Vec<Cell>; 2]| 1.0 / count(one) + 1.0 / count(other);
    let weights: f64 = strata.clone().map(|cells| 1.0 / apart(cells)).sum();
    if weights <= 0.0 {
        return None;
    }
    let (mut typical, mut centre) = (0.0, 0.0);
    let (mut squares, mut cells, mut blocks) = (0.0, [0.0, 0.0], [0, 0]);
    // The weight of each run in the estimate.
    let mut shares = [BTreeMap::new(), BTreeMap::new()];
    let mut means = 0.0;
    for stratum in strata {
        let weight = 1.0 / apart(stratum) / weights;
        let (one, other) = (mean(&stratum[0]), mean(&stratum[1]));
        typical += weight * (other - one);
        centre += weight * f64::midpoint(one, other);
        for (side, mean) in [one, other].into_iter().enumerate() {
            squares += stratum[side].iter().map(|cell| (cell.log - mean).powi(2)).sum::<f64>();
            cells[side] += count(&stratum[side]);
            blocks[side] += stratum[side].iter().map(|cell| cell.blocks).sum::<usize>();
            for cell in &stratum[side] {
                *shares[side].entry(cell.run).or_insert(0.0) += weight / count(&stratum[side]);
            }
            means += 1.0;
        }
    }
    // Deviations of one run in two states do not count as two draws.
    let draws = (shares[0].len() + shares[1].len()) as f64 - 2.0;
    let reach = shares.iter().flat_map(BTreeMap::values).map(|share: &f64| share * share).sum::<f64>().sqrt();
    let freedom = (cells[0] + cells[1] - means).min(draws);
    let deviation = (freedom >= 1.0).then(|| (squares / (cells[0] + cells[1] - means)).sqrt());
    let half = match deviation {
        Some(deviation) if deviation > 0.0 => {
            deviation * reach * t_quantile(f64::midpoint(1.0, confidence.clamp(0.0, 1.0)), freedom)
        }
        Some(_) => 0.0,
        None => f64::INFINITY,
    };
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
        // Means 0.1 and 0.4; squares 0.02 and 0.02 over 2 + 2 degrees: s = 0.1; half = t(4; 97.5 %) · 0.1 · √(2/3) = 2.776445 · 0.0816497.
        let strata = [[cells(&[0.0, 0.1, 0.2]), cells(&[0.3, 0.4, 0.5])]];
        let found = runs(strata.iter(), 0.95).unwrap();
        assert!((found.shift.typical - 0.3).abs() < 1e-12 && (found.deviation.unwrap() - 0.1).abs() < 1e-12);
        assert!((found.shift.high - 0.3 - 0.226_696).abs() < 1e-5, "{found:?}");
        assert_eq!(found.blocks, 60);
    }

    #[test]
    fn one_run_each_has_no_end() {
        let found = runs([[cells(&[0.1]), cells(&[0.2])]].iter(), 0.95).unwrap();
        assert_eq!((found.shift.low, found.shift.high, found.deviation), (f64::NEG_INFINITY, f64::INFINITY, None));
        assert_eq!(runs([].iter(), 0.95), None);
        let prediction = runs([[cells(&[0.0, 0.1, 0.2]), cells(&[0.2])]].iter(), 0.95).unwrap();
        // t(2; 97.5 %) = 4.30265, and a single run has a deviation of its own: √(1 + 1/3).
        assert!((prediction.shift.high - 0.1 - 4.302_65 * 0.1 * (4.0f64 / 3.0).sqrt()).abs() < 1e-4, "{prediction:?}");
    }

    #[test]
    fn a_run_in_two_states_is_one_draw() {
        let stratum = || [cells(&[0.0, 0.1, 0.2]), cells(&[0.3, 0.4, 0.5])];
        let once = runs([stratum()].iter(), 0.95).unwrap();
        let twice = runs([stratum(), stratum()].iter(), 0.95).unwrap();
        assert!((once.shift.high - twice.shift.high).abs() < 1e-9, "{once:?} {twice:?}");
    }
}
