//! States of the two cores: blocks with about the same distance between them.
//!
//! On a virtual machine the hypervisor moves virtual CPUs, which changes how fast two cores hand data to each other. A change
//! lasts for seconds, and every local round trip changes with it. Pairs of blocks in different states say nothing about the arms.
//!
//! An arm on other CPUs than the first has its own distance, which is part of the comparison: it has no state.

use std::ops::Range;

use hairpin_record::core_states::split;
use hairpin_record::experiment::State;

use super::rounds::{Round, Taken};

/// The observed states, nearest first.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct States {
    /// Upper bound of each state but the last, in ns.
    ends: Vec<f64>,
    /// The median of each state.
    medians: Vec<u64>,
}

impl States {
    /// Over all blocks of the arms that run on the CPUs of the first.
    pub(crate) fn of(rounds: &[Round]) -> States {
        States::of_cores(placed_as_the_first(rounds).flat_map(|taken| taken.cores.iter().copied()))
    }

    /// Over all cache-line round trips.
    pub(crate) fn of_cores(cores: impl Iterator<Item = u64>) -> States {
        let mut cores: Vec<u64> = cores.filter(|ns| *ns > 0).collect();
        cores.sort_unstable();
        let groups = split(&cores);
        let between = |pair: &[Range<usize>]| ((cores[pair[0].end - 1] as f64) * (cores[pair[1].start] as f64)).sqrt();
        States {
            ends: groups.windows(2).map(between).collect(),
            medians: groups.iter().map(|group| cores[group.start + group.len() / 2]).collect(),
        }
    }

    /// The number of states; 1 if the sides share no memory.
    pub(crate) fn len(&self) -> usize {
        self.medians.len().max(1)
    }

    /// The median distance of each state, in ns.
    pub(crate) fn medians(&self) -> &[u64] {
        &self.medians
    }

    /// The state of a block; `None` if it changed during the block, or if only this block lacks the data.
    pub(crate) fn state(&self, cores: &[u64]) -> Option<usize> {
        if self.medians.is_empty() {
            return Some(0);
        }
        let of = |ns: &u64| self.ends.iter().filter(|end| *ns as f64 > **end).count();
        let first = of(cores.first()?);
        cores.iter().all(|ns| of(ns) == first).then_some(first)
    }

    /// In the form of the record.
    pub(crate) fn record<'a>(&self, taken: impl Iterator<Item = &'a Taken>) -> Vec<State> {
        let mut states: Vec<State> =
            (0..self.len()).map(|at| State { core_rtt_ns: self.medians.get(at).copied(), blocks: 0 }).collect();
        for state in taken.filter_map(|taken| self.state(&taken.cores)) {
            states[state].blocks += 1;
        }
        states
    }
}

/// The blocks of the arms that run on the CPUs of the first.
pub(crate) fn placed_as_the_first(rounds: &[Round]) -> impl Iterator<Item = &Taken> {
    rounds.iter().flat_map(|round| round.taken.iter().filter(|taken| taken.cpus == round.taken[0].cpus))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_distances_are_two_states_and_noise_is_none() {
        let one = States::of_cores((0..200).map(|i| 118 + i % 14));
        assert_eq!((one.len(), one.state(&[125]), one.state(&[160])), (1, Some(0), Some(0)));
        let two = States::of_cores((0..200).map(|i| if i % 3 == 0 { 500 + i % 30 } else { 118 + i % 14 }));
        assert_eq!(two.len(), 2);
        assert_eq!((two.state(&[120, 130]), two.state(&[505])), (Some(0), Some(1)));
        assert_eq!(two.state(&[120, 505]), None, "it changed within the block");
        assert_eq!(two.state(&[]), None, "others know theirs");
        let three = States::of_cores((0..300).map(|i| [60, 120, 500][i % 3] + i as u64 % 9));
        assert_eq!((three.len(), three.state(&[62]), three.state(&[125]), three.state(&[501])), (3, Some(0), Some(1), Some(2)));
    }

    #[test]
    fn without_shared_memory_there_is_one_state() {
        let none = States::of_cores(std::iter::empty());
        assert_eq!((none.len(), none.state(&[])), (1, Some(0)));
        assert_eq!(none.record([Taken::default()].iter()), [State { core_rtt_ns: None, blocks: 1 }]);
    }
}
