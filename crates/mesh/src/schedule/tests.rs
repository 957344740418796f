use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

/// Checks the rules for every schedule, and returns its pairs.
fn checked(schedule: &Schedule) -> BTreeSet<Pair> {
    let mut seen: BTreeMap<Pair, Vec<u32>> = BTreeMap::new();
    for round in 1..=schedule.rounds() {
        let mut busy = BTreeSet::new();
        for (a, b) in schedule.round(round) {
            assert!(a < b && b < schedule.ranks(), "{a}-{b}");
            assert!(busy.insert(a) && busy.insert(b), "a rank twice in round {round}");
            let (of_a, of_b) = (schedule.slot(a, round).unwrap(), schedule.slot(b, round).unwrap());
            assert_eq!((of_a.partner, of_b.partner, of_a.visit), (b, a, of_b.visit));
            assert!(of_a.client != of_b.client, "one of them is the client");
            assert_eq!(of_a.client, client_of((a, b), of_a.visit) == a);
            seen.entry((a, b)).or_default().push(of_a.visit);
        }
        assert!(!busy.is_empty(), "an empty round");
        let resting = (0..schedule.ranks()).filter(|rank| !busy.contains(rank));
        assert!(resting.into_iter().all(|rank| schedule.slot(rank, round).is_none()));
    }
    let each_once: Vec<u32> = (1..=schedule.visits).collect();
    for (pair, visits) in &seen {
        assert_eq!(visits, &each_once, "{pair:?}: once a visit");
    }
    assert_eq!(seen.len() as u64, schedule.pair_count());
    assert_eq!(schedule.visits().count() as u64, schedule.pair_count() * u64::from(schedule.visits));
    seen.into_keys().collect()
}

#[test]
fn six_ranks_as_in_the_picture() {
    let schedule = Schedule::new(6, Pairs::All, 2, 1);
    assert_eq!(schedule.round(1), [(0, 5), (1, 4), (2, 3)]);
    assert_eq!(schedule.round(2), [(0, 2), (1, 5), (3, 4)]);
    assert_eq!((schedule.rounds(), schedule.pair_count()), (10, 15));
    assert_eq!(schedule.round(6), schedule.round(1), "the second visit");
}

#[test]
fn rings_and_neighbours() {
    for ranks in 2..40 {
        let ring = checked(&Schedule::new(ranks, Pairs::Ring, 2, 1));
        let mut all: BTreeSet<Pair> = (0..ranks - 1).map(|rank| (rank, rank + 1)).collect();
        assert_eq!(checked(&Schedule::new(ranks, Pairs::Neighbours, 2, 1)), all);
        all.insert((0, ranks - 1));
        assert_eq!(ring, all, "{ranks}");
    }
    assert_eq!(Schedule::new(8, Pairs::Ring, 1, 1).rounds(), 2);
    assert_eq!(Schedule::new(9, Pairs::Ring, 1, 1).rounds(), 3);
    assert_eq!(Schedule::new(9, Pairs::Neighbours, 1, 1).rounds(), 2);
}

#[test]
fn choices_of_pairs_are_printed_as_they_are_parsed() {
    for text in ["all", "ring", "neighbours", "sample:20"] {
        assert_eq!(text.parse::<Pairs>().unwrap().to_string(), text);
    }
    for text in ["", "sample", "sample:0", "sample:x", "every"] {
        assert!(text.parse::<Pairs>().unwrap_err().contains("sample:20"), "{text}");
    }
}

proptest! {
    #[test]
    fn every_pair_once_a_visit_in_the_fewest_rounds(ranks in 2u32..70, visits in 1u32..4) {
        let schedule = Schedule::new(ranks, Pairs::All, visits, 1);
        let pairs = checked(&schedule);
        prop_assert_eq!(pairs.len() as u32, ranks * (ranks - 1) / 2);
        // A round has at most half of the ranks in pairs.
        let fewest = (ranks * (ranks - 1) / 2).div_ceil(ranks / 2);
        prop_assert_eq!(schedule.rounds(), fewest * visits);
    }

    #[test]
    fn a_sample_has_as_many_partners_as_asked(ranks in 2u32..70, partners in 1u32..90, seed: u64) {
        let schedule = Schedule::new(ranks, Pairs::Sample(partners), 2, seed);
        let pairs = checked(&schedule);
        let partners = partners.min(ranks - 1);
        for rank in 0..ranks {
            let found = pairs.iter().filter(|(a, b)| [*a, *b].contains(&rank)).count() as u32;
            prop_assert!(found == partners || (ranks % 2 == 1 && found + 1 == partners), "{} has {}", rank, found);
        }
        let again = checked(&Schedule::new(ranks, Pairs::Sample(partners), 2, seed));
        prop_assert_eq!(pairs, again, "the same from the same seed");
    }
}

#[test]
fn another_seed_makes_another_sample() {
    let sample = |seed| checked(&Schedule::new(64, Pairs::Sample(4), 1, seed));
    assert_ne!(sample(1), sample(2));
}

/// Bytes of a visit in a rank's file and in the record: its histogram of some thousand round trips, and its figures.
const VISIT_BYTES: u64 = 2_000;

#[test]
fn ten_thousand_ranks_with_twenty_partners_each() {
    let schedule = Schedule::new(10_000, Pairs::Sample(20), 2, 1);
    assert_eq!((schedule.rounds(), schedule.pair_count()), (40, 100_000));
    let (mut visits, mut clients) = (0u64, vec![0u32; 10_000]);
    for (pair, visit, _) in schedule.visits() {
        visits += 1;
        clients[client_of(pair, visit) as usize] += 1;
    }
    assert_eq!(visits, 200_000);
    assert!(clients.iter().all(|count| *count == 20), "each rank keeps the figures of as many visits as it has partners");
    assert!(visits * VISIT_BYTES <= 400_000_000);
    // A rank keeps two seats of four bytes for each rank, and its own slots.
    let sample = schedule.sample.as_ref().unwrap();
    assert_eq!(size_of_val(&sample.seats[..]) + size_of_val(&sample.seat_of[..]), 80_000);
    assert_eq!(schedule.slots(9_999).count(), 40);
}
