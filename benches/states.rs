//! The states of the cores that runs were measured in: what was measured in one is judged by itself.

use std::ops::{Range, RangeInclusive};

use hairpin_record::core_states;

/// The distances of a state, in ns.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct State {
    pub(crate) range: RangeInclusive<u64>,
    pub(crate) median: u64,
}

/// The states, nearest first, as [`core_states`] tells them apart.
pub(crate) fn states(distances: impl IntoIterator<Item = u64>) -> Vec<State> {
    let mut distances: Vec<u64> = distances.into_iter().collect();
    distances.sort_unstable();
    let state = |of: Range<usize>| State {
        median: distances[usize::midpoint(of.start, of.end)],
        range: distances[of.start]..=distances[of.end - 1],
    };
    core_states::split(&distances).into_iter().map(state).collect()
}

impl State {
    /// True if all of these distances are of this state, and there is one.
    pub(crate) fn has(&self, distances: &[u64]) -> bool {
        !distances.is_empty() && distances.iter().all(|ns| self.range.contains(ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_between_two_states_is_of_neither() {
        let found = states([62, 60, 330, 61, 320, 64]);
        assert_eq!(found, [State { range: 60..=64, median: 62 }, State { range: 320..=330, median: 330 }]);
        let of = |distances: &[u64]| found.iter().map(|state| state.has(distances)).collect::<Vec<_>>();
        assert_eq!((of(&[60, 63]), of(&[60, 325]), of(&[])), (vec![true, false], vec![false; 2], vec![false; 2]));
        assert_eq!(states([]), []);
    }
}
