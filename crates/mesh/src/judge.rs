//! What the pairs of a mesh say together, and which of them are visited again.

use std::collections::BTreeMap;

use hairpin_record::mesh::{Effect, MeshBody};

use crate::schedule::{Pair, Slot, client_of};

/// Judges a mesh.
#[derive(Clone, Copy, Debug)]
pub struct Judge {
    /// The effects of ranks, pairs and groups.
    pub effects: fn(&MeshBody) -> Vec<Effect>,
    /// The pairs to visit again before that: suspicious ones, and as many ordinary ones.
    pub again: fn(&MeshBody) -> Vec<Pair>,
}

impl Judge {
    /// Finds nothing, and visits nothing again.
    pub const NONE: Judge = Judge { effects: |_| Vec::new(), again: |_| Vec::new() };
}

/// The slots of each rank in which these pairs are visited twice more: in rounds of disjoint pairs after `last_round`, as visits after `last_visit`.
pub fn slots(pairs: &[Pair], last_round: u32, last_visit: u32) -> BTreeMap<u32, Vec<Slot>> {
    let mut rounds: Vec<Vec<Pair>> = Vec::new();
    for (a, b) in pairs {
        let is_free = |round: &&mut Vec<Pair>| round.iter().all(|(c, d)| ![c, d].contains(&a) && ![c, d].contains(&b));
        match rounds.iter_mut().find(is_free) {
            Some(round) => round.push((*a, *b)),
            None => rounds.push(vec![(*a, *b)]),
        }
    }
    let mut found: BTreeMap<u32, Vec<Slot>> = BTreeMap::new();
    for (times, visit) in [last_visit + 1, last_visit + 2].into_iter().enumerate() {
        for (at, round) in rounds.iter().enumerate() {
            let number = last_round + (times * rounds.len() + at) as u32 + 1;
            for &(a, b) in round {
                for (rank, partner) in [(a, b), (b, a)] {
                    let client = client_of((a, b), visit) == rank;
                    found.entry(rank).or_default().push(Slot { round: number, visit, partner, client });
                }
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_that_are_visited_again_are_disjoint_in_each_round() {
        let found = slots(&[(0, 1), (0, 2), (2, 3)], 6, 2);
        let of =
            |rank: u32| found[&rank].iter().map(|slot| (slot.round, slot.visit, slot.partner, slot.client)).collect::<Vec<_>>();
        assert_eq!(of(0), [(7, 3, 1, true), (8, 3, 2, true), (9, 4, 1, false), (10, 4, 2, false)]);
        assert_eq!(of(2), [(7, 3, 3, true), (8, 3, 0, false), (9, 4, 3, false), (10, 4, 0, true)]);
        assert!(slots(&[], 6, 2).is_empty());
    }
}
