//! Verdicts on meshes with known causes.

use super::simulated::{Mesh, Random};
use super::*;
use crate::topology::Group;

impl Verdict {
    /// Whether any rank, link or group is slow.
    fn is_any_convicted(&self) -> bool {
        let ranks = self.ranks.iter().map(|rank| rank.is_convicted);
        let pairs = self.pairs.iter().map(|pair| pair.is_convicted);
        ranks.chain(pairs).chain(self.groups.iter().map(|group| group.is_convicted)).any(|is| is)
    }
}

fn judged(ranks: usize, observations: &[Observation], levels: &[Level]) -> Verdict {
    judge(ranks, observations, levels, Limits::default()).unwrap()
}

/// Ranks, links and groups.
type Convicted = (Vec<usize>, Vec<(usize, usize)>, Vec<(String, Way)>);

fn convicted(verdict: &Verdict) -> Convicted {
    let ranks = verdict.ranks.iter().filter(|rank| rank.is_convicted).map(|rank| rank.rank).collect();
    let pairs = verdict.pairs.iter().filter(|pair| pair.is_convicted).map(|pair| (pair.a, pair.b)).collect();
    let groups = verdict.groups.iter().filter(|group| group.is_convicted).map(|group| (group.name.clone(), group.way)).collect();
    (ranks, pairs, groups)
}

fn nobody(_: usize, _: usize) -> f64 {
    1.0
}

fn racks(count: usize, size: usize) -> Vec<Level> {
    let group = |n: usize| Group { name: format!("leaf{}", n + 1), ranks: (n * size..(n + 1) * size).collect() };
    let top = Group { name: "spine".into(), ranks: (0..count * size).collect() };
    vec![Level { groups: (0..count).map(group).collect() }, Level { groups: vec![top] }]
}

fn slow(rank: usize, by: f64) -> impl Fn(usize, usize) -> f64 {
    move |a, b| if a == rank || b == rank { by } else { 1.0 }
}

fn slow_link(link: (usize, usize), by: f64) -> impl Fn(usize, usize) -> f64 {
    move |a, b| if (a.min(b), a.max(b)) == link { by } else { 1.0 }
}

fn both(one: impl Fn(usize, usize) -> f64, two: impl Fn(usize, usize) -> f64) -> impl Fn(usize, usize) -> f64 {
    move |a, b| one(a, b) * two(a, b)
}

#[test]
fn null_meshes_of_four_convict_nobody() {
    let is_convicted = |seed: &u64| judged(4, &Mesh::of(4).all(&mut Random::new(*seed), nobody), &[]).is_any_convicted();
    let convicted = (0..200).filter(is_convicted).count();
    assert!(convicted <= 4, "{convicted} of 200");
    // The same with three times the noise: intervals are as wide as the noise.
    let loud = |seed: u64| judged(4, &Mesh { noise: 0.1, ..Mesh::of(4) }.all(&mut Random::new(seed), nobody), &[]);
    let convicted = (0..200).filter(|seed| loud(*seed).is_any_convicted()).count();
    assert!(convicted <= 4, "{convicted} of 200 with noise of 10 %");
}

#[test]
fn null_meshes_of_many_convict_nobody() {
    let all =
        (0..20).filter(|&seed| judged(32, &Mesh::of(32).all(&mut Random::new(seed), nobody), &[]).is_any_convicted()).count();
    let sampled = (0..5)
        .filter(|&seed| judged(500, &Mesh::of(500).sampled(&mut Random::new(seed), 20, nobody), &[]).is_any_convicted())
        .count();
    assert!(all <= 1 && sampled <= 1, "{all} of 20 meshes of 32, {sampled} of 5 of 500");
}

#[test]
fn one_slow_node_of_eight_is_convicted_and_nobody_else() {
    for seed in 0..20 {
        let mut random = Random::new(100 + seed);
        let node = random.below(8);
        let verdict = judged(8, &Mesh::of(8).all(&mut random, slow(node, 1.3)), &[]);
        assert_eq!(convicted(&verdict), (vec![node], vec![], vec![]), "seed {seed}");
        let ratio = verdict.ranks[node].ratio.unwrap();
        assert!(ratio.low > 1.15 && ratio.high < 1.45 && (1.25..1.35).contains(&ratio.ratio), "{ratio:?}");
    }
}

#[test]
fn slow_nodes_are_found_in_small_large_and_sampled_meshes() {
    for (ranks, by) in [(4, 1.5), (5, 1.3), (16, 1.15)] {
        let hits = (0..20).filter(|&seed| {
            let verdict = judged(ranks, &Mesh::of(ranks).all(&mut Random::new(300 + seed), slow(2, by)), &[]);
            convicted(&verdict) == (vec![2], vec![], vec![])
        });
        let hits = hits.count();
        assert!(hits >= 18, "{hits} of 20 among {ranks}");
    }
    let visits = Mesh::of(1000).sampled(&mut Random::new(5), 20, both(slow(5, 1.3), slow(700, 1.8)));
    assert_eq!(convicted(&judged(1000, &visits, &[])), (vec![5, 700], vec![], vec![]));
    let half = both(both(slow(1, 1.3), slow(3, 1.3)), slow(6, 1.3));
    let verdict = judged(8, &Mesh::of(8).all(&mut Random::new(6), half), &[]);
    assert_eq!(convicted(&verdict), (vec![1, 3, 6], vec![], vec![]), "three of eight");
}

#[test]
fn one_slow_link_convicts_the_link_and_neither_node() {
    for seed in 0..20 {
        let verdict = judged(8, &Mesh::of(8).all(&mut Random::new(400 + seed), slow_link((2, 6), 1.5)), &[]);
        assert_eq!(convicted(&verdict), (vec![], vec![(2, 6)], vec![]), "seed {seed}");
        let pair = verdict.pairs.iter().find(|pair| (pair.a, pair.b) == (2, 6)).unwrap();
        let ratio = pair.ratio.unwrap();
        assert!((1.35..1.65).contains(&ratio.ratio) && (pair.value / pair.expected / ratio.ratio - 1.0).abs() < 1e-9, "{pair:?}");
    }
    // Terrible links do not convict the ranks at their ends, nor do they hide a slow rank.
    let terrible = both(slow_link((1, 5), 20.0), slow_link((1, 6), 20.0));
    let verdict = judged(8, &Mesh::of(8).all(&mut Random::new(7), both(terrible, slow(3, 1.3))), &[]);
    assert_eq!(convicted(&verdict), (vec![3], vec![(1, 5), (1, 6)], vec![]));
    let four = judged(4, &Mesh::of(4).all(&mut Random::new(8), slow_link((0, 3), 2.0)), &[]);
    assert_eq!(convicted(&four), (vec![], vec![(0, 3)], vec![]), "of four");
}

#[test]
fn fast_links_and_ranks_convict_nobody() {
    for seed in 0..10 {
        for cause in [&slow_link((1, 2), 0.3) as &dyn Fn(usize, usize) -> f64, &slow(1, 0.5)] {
            let verdict = judged(8, &Mesh::of(8).all(&mut Random::new(500 + seed), cause), &[]);
            assert!(!verdict.is_any_convicted(), "{:?}", convicted(&verdict));
        }
    }
}

#[test]
fn a_slow_rack_is_named_and_its_nodes_are_not() {
    let crosses = |a: usize, b: usize| if a / 4 == b / 4 { 1.0 } else { 1.6 };
    let ends = |a: usize, b: usize| usize::from(a < 4) + usize::from(b < 4);
    let inside = |a: usize, b: usize| if ends(a, b) == 2 { 1.3 } else { 1.0 };
    let passing = |a: usize, b: usize| if ends(a, b) > 0 { 1.3 } else { 1.0 };
    let each_end = |a: usize, b: usize| 1.2f64.powi(ends(a, b) as i32);
    let within = ("leaf1".to_owned(), Way::Within);
    for seed in 0..10 {
        for cause in [&inside as &dyn Fn(usize, usize) -> f64, &passing, &each_end] {
            let verdict = judged(8, &Mesh::of(8).all(&mut Random::new(600 + seed), both(crosses, cause)), &racks(2, 4));
            assert_eq!(convicted(&verdict), (vec![], vec![], vec![within.clone()]), "seed {seed}");
            assert!(verdict.untold.contains(&Untold::TwoGroups { level: 0 }));
        }
        let quiet = judged(8, &Mesh::of(8).all(&mut Random::new(700 + seed), crosses), &racks(2, 4));
        assert!(!quiet.is_any_convicted(), "{:?}", convicted(&quiet));
    }
}

#[test]
fn a_slow_way_out_of_one_of_three_racks_is_named() {
    let crosses = |a: usize, b: usize| if a / 4 == b / 4 { 1.0 } else { 1.6 };
    let out = |a: usize, b: usize| if (a / 4 == 1) != (b / 4 == 1) { 1.4 } else { 1.0 };
    for seed in 0..10 {
        let verdict = judged(12, &Mesh::of(12).all(&mut Random::new(800 + seed), both(crosses, out)), &racks(3, 4));
        assert_eq!(convicted(&verdict), (vec![], vec![], vec![("leaf2".to_owned(), Way::Across)]), "seed {seed}");
        let node = judged(12, &Mesh::of(12).all(&mut Random::new(900 + seed), both(crosses, slow(5, 1.3))), &racks(3, 4));
        assert_eq!(convicted(&node), (vec![5], vec![], vec![]), "a slow node in a rack, seed {seed}");
    }
}

#[test]
fn intervals_hold_the_true_effects_all_at_once() {
    let mesh = Mesh { spread: 0.0, ..Mesh::of(8) };
    let holds = |seed: &u64| {
        let verdict = judged(8, &mesh.all(&mut Random::new(1000 + seed), both(slow(1, 1.3), slow_link((2, 3), 1.5))), &[]);
        let has = |ratio: Option<Ratio>, truth: f64| ratio.is_some_and(|ratio| ratio.low <= truth && truth <= ratio.high);
        let ranks = verdict.ranks.iter().all(|rank| has(rank.ratio, if rank.rank == 1 { 1.3 } else { 1.0 }));
        ranks && verdict.pairs.iter().all(|pair| has(pair.ratio, if (pair.a, pair.b) == (2, 3) { 1.5 } else { 1.0 }))
    };
    let held = (0..100).filter(holds).count();
    assert!(held >= 95, "{held} of 100");
}

#[test]
fn two_and_three_ranks_convict_nobody_and_say_why() {
    let two = judged(2, &Mesh::of(2).all(&mut Random::new(1), nobody), &[]);
    assert_eq!((two.is_any_convicted(), two.ranks[0].ratio, two.pairs[0].ratio), (false, None, None));
    assert!((20_000.0..30_000.0).contains(&two.pairs[0].value));
    assert_eq!(two.untold, [Untold::FewRanks { ranks: 2 }]);
    let three = judged(3, &Mesh { noise: 0.001, spread: 0.0, ..Mesh::of(3) }.all(&mut Random::new(2), slow(1, 3.0)), &[]);
    assert!(!three.is_any_convicted() && three.ranks[1].ratio.unwrap().ratio > 1.5, "{:?}", three.ranks);
    assert_eq!(three.untold, [Untold::FewRanks { ranks: 3 }]);
    assert_eq!(judged(5, &[], &[]).untold, [Untold::Nothing]);
    assert_eq!(judged(0, &[], &racks(2, 4)).untold, [Untold::Nothing]);
}

#[test]
fn unmeasured_ranks_do_not_count_among_the_four() {
    let three = Mesh { visits: 10, noise: 0.001, spread: 0.0, ..Mesh::of(3) };
    let verdict = judged(5, &three.all(&mut Random::new(2), slow_link((0, 1), 2.0)), &[]);
    assert!(!verdict.is_any_convicted(), "{:?}", convicted(&verdict));
    assert_eq!(verdict.untold, [Untold::FewRanks { ranks: 3 }, Untold::Unmeasured { ranks: vec![3, 4] }]);
}

#[test]
fn a_slow_node_that_is_alone_in_its_rack_is_named_and_not_the_rack() {
    for seed in 0..3 {
        let mesh = Mesh { noise: 0.01, ..Mesh::of(8) };
        let mut visits = mesh.all(&mut Random::new(1100 + seed), slow(0, 1.5));
        visits.retain(|visit| visit.a != 1 && visit.b != 1);
        assert_eq!(convicted(&judged(8, &visits, &racks(4, 2))), (vec![0], vec![], vec![]), "seed {seed}");
    }
}

#[test]
fn missing_pairs_and_lost_ranks_cost_themselves_only() {
    let mut visits = Mesh::of(8).all(&mut Random::new(3), slow(4, 1.5));
    visits.retain(|visit| visit.a.max(visit.b) != 7 && (visit.a.min(visit.b), visit.a.max(visit.b)) != (2, 4));
    // Rank 6 has two pairs left, and one of all pairs has one visit.
    visits.retain(|visit| visit.a.max(visit.b) != 6 || visit.a.min(visit.b) < 2);
    visits.retain(|visit| (visit.a.min(visit.b), visit.a.max(visit.b), visit.visit) != (0, 1, 2));
    let verdict = judged(8, &visits, &[]);
    assert_eq!(convicted(&verdict), (vec![4], vec![], vec![]));
    assert_eq!(
        verdict.untold,
        [Untold::Unmeasured { ranks: vec![7] }, Untold::FewPairs { ranks: vec![6] }, Untold::OneVisit { pairs: 1 }]
    );
    assert!(verdict.ranks[7].ratio.is_none() && verdict.time(7, 0).is_none() && !verdict.time(2, 4).unwrap().is_measured);
    // A ring: every rank has two pairs, too few to convict it for its slow link.
    let ring = |a: usize, b: usize| (b - a) == 1 || (b - a) == 7;
    let mut ends = Mesh::of(8).all(&mut Random::new(4), slow_link((3, 4), 2.0));
    ends.retain(|visit| ring(visit.a.min(visit.b), visit.a.max(visit.b)));
    let verdict = judged(8, &ends, &[]);
    assert_eq!(convicted(&verdict).0, Vec::<usize>::new());
    assert_eq!(verdict.untold, [Untold::FewPairs { ranks: (0..8).collect() }]);
}

#[test]
fn a_link_seen_once_or_slow_once_is_not_convicted_and_is_looked_at_again() {
    let mut visits = Mesh::of(8).all(&mut Random::new(5), nobody);
    let is_link = |visit: &Observation| (visit.a.min(visit.b), visit.a.max(visit.b)) == (1, 6);
    let second = visits.iter().position(|visit| is_link(visit) && visit.visit == 2).unwrap();
    visits[second].value *= 2.0;
    let verdict = judged(8, &visits, &[]);
    assert!(!verdict.is_any_convicted());
    assert_eq!(verdict.suspicious(1), [(1, 6)]);
    visits.retain(|visit| !is_link(visit) || visit.visit == 2);
    let verdict = judged(8, &visits, &[]);
    assert!(!verdict.is_any_convicted());
    assert_eq!((verdict.suspicious(1), verdict.suspicious(0)), (vec![(1, 6)], vec![]));
}

#[test]
fn few_ordinary_pairs_are_suspicious_and_those_of_an_undecided_rank_are() {
    let count: usize =
        (0..20).map(|seed| judged(8, &Mesh::of(8).all(&mut Random::new(seed), nobody), &[]).suspicious(100).len()).sum();
    assert!(count <= 20 * 28 / 20, "{count} pairs of {}", 20 * 28);
    // So loud that a slow rank cannot be convicted.
    let loud = Mesh { noise: 0.3, ..Mesh::of(8) }.all(&mut Random::new(9), slow(3, 1.3));
    let verdict = judged(8, &loud, &[]);
    assert!(!verdict.ranks[3].is_convicted);
    let again = verdict.suspicious(5);
    let of_it = again.iter().filter(|(a, b)| *a == 3 || *b == 3).count();
    assert!(again.len() == 5 && of_it >= 4, "{again:?}");
    assert!(verdict.suspicious(1000).len() <= 28);
}

#[test]
fn the_order_of_ranks_and_visits_changes_nothing() {
    let mut visits = Mesh::of(8).all(&mut Random::new(11), slow(2, 1.4));
    let one = judged(8, &visits, &[]);
    visits.reverse();
    visits.iter_mut().for_each(|visit| std::mem::swap(&mut visit.a, &mut visit.b));
    let other = judged(8, &visits, &[]);
    assert_eq!((one.ranks, one.pairs), (other.ranks, other.pairs));
}

#[test]
fn exact_times_without_any_noise_are_judged() {
    let quiet = Mesh { noise: 0.0, spread: 0.0, ..Mesh::of(6) };
    let verdict = judged(6, &quiet.all(&mut Random::new(1), slow(2, 1.2)), &[]);
    assert_eq!(convicted(&verdict), (vec![2], vec![], vec![]));
    assert!((verdict.ranks[2].ratio.unwrap().ratio - 1.2).abs() < 0.01);
}

#[test]
fn a_higher_least_effect_convicts_less() {
    let visits = Mesh::of(8).all(&mut Random::new(12), slow(2, 1.3));
    let limits = |least| Limits { least, ..Limits::default() };
    let is_convicted = |least| judge(8, &visits, &[], limits(least)).unwrap().ranks[2].is_convicted;
    assert_eq!([1.0, 1.05, 1.15, 1.3, 2.0].map(is_convicted), [true, true, true, false, false]);
}

#[test]
fn ranks_a_rack_and_a_link_are_told_apart_in_one_mesh() {
    let crosses = |a: usize, b: usize| if a / 4 == b / 4 { 1.0 } else { 1.6 };
    let within = |a: usize, b: usize| if a < 4 && b < 4 { 1.5 } else { 1.0 };
    let nodes = both(slow(4, 1.8), slow(1, 1.4));
    let cause = both(both(crosses, within), both(nodes, slow_link((2, 6), 2.5)));
    let verdict = judged(8, &Mesh::of(8).all(&mut Random::new(3), cause), &racks(2, 4));
    assert_eq!(convicted(&verdict), (vec![1, 4], vec![(2, 6)], vec![("leaf1".to_owned(), Way::Within)]));
}

#[test]
fn large_meshes_with_a_topology_are_judged() {
    // 64 racks of 16 behind two spines.
    let mut levels = racks(64, 16);
    let spine = |n: usize| Group { name: format!("spine{}", n + 1), ranks: (n * 512..(n + 1) * 512).collect() };
    levels.insert(1, Level { groups: (0..2).map(spine).collect() });
    let cause = |a: usize, b: usize| {
        let hops = [1.6, 1.3, 1.0][usize::from(a / 512 == b / 512) + usize::from(a / 16 == b / 16)];
        hops * if (a / 16 == 9) != (b / 16 == 9) { 1.5 } else { 1.0 }
    };
    let visits = Mesh::of(1024).sampled(&mut Random::new(21), 20, both(cause, slow(700, 1.5)));
    let verdict = judged(1024, &visits, &levels);
    assert_eq!(convicted(&verdict), (vec![700], vec![], vec![("leaf10".to_owned(), Way::Across)]));
}

#[test]
fn bad_input_is_an_error() {
    let visit = Observation { a: 0, b: 1, visit: 1, client: 0, value: 9.0 };
    let error = |visit: Observation| judge(4, &[visit], &[], Limits::default()).unwrap_err().to_string();
    assert!(error(Observation { b: 4, ..visit }).contains("ranks 0 and 4"));
    assert!(error(Observation { b: 0, ..visit }).contains("two different ranks"));
    assert!(error(Observation { client: 2, ..visit }).contains("rank 2 as client"));
    for value in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(error(Observation { value, ..visit }).contains("positive time"), "{value}");
    }
    for limits in [Limits { least: 0.9, confidence: 0.95 }, Limits { least: 1.1, confidence: 1.0 }] {
        assert!(matches!(judge(4, &[], &[], limits), Err(VerdictError::Limits { .. })));
    }
}
