//! The ranks of lowest mutual latency: `--pick K`.
//!
//! The latency of K ranks is the mean over all their pairs; a pair that was not measured counts with the time expected from the
//! other pairs of its two ranks. Up to [`EXACT`] choices are all tried. Beyond, a set grows from every rank (the quickest ones,
//! if there are many) by the rank that adds least, then the best exchange of a member for another one is made until none helps.
//! That may miss the lowest. Of more than [`CANDIDATES`] ranks, those with the lowest effects are tried; if more than that are
//! asked for, the effects alone choose.

use hairpin_units::Arrange;

use crate::verdict::{RankEffect, Verdict};

/// The most choices that are all tried.
pub const EXACT: u64 = 200_000;
/// The most ranks to pick from; their times take 8 MB.
pub const CANDIDATES: usize = 1_000;
/// The most ranks from which sets grow.
const SEEDS: usize = 24;
/// The most exchanges in one set.
const EXCHANGES: usize = 200;

/// Ranks of low mutual latency.
#[derive(Clone, Debug, PartialEq)]
pub struct Picked {
    /// The ranks, ascending.
    pub ranks: Vec<usize>,
    /// The mean of their pairs' times in ns; `None` for a single rank, which has no pair.
    pub mean: Option<f64>,
    /// The longest of their pairs' times in ns.
    pub longest: Option<f64>,
    /// Their pairs that were not measured.
    pub expected: usize,
    /// Whether all choices were tried, so that there is none better.
    pub is_exact: bool,
}

/// Why no ranks could be picked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PickError {
    /// The number is 0, or more than were measured.
    #[error("cannot pick {asked} of {measured} measured hosts: pick between 1 and {measured}")]
    Number { asked: usize, measured: usize },
}

/// Times between ranks, by their place in `ranks`.
struct Times {
    ranks: Vec<usize>,
    ns: Vec<f64>,
}

impl Times {
    fn between(&self, a: usize, b: usize) -> f64 {
        self.ns[a * self.ranks.len() + b]
    }

    /// The sum of the times from `from` to the other `members`.
    fn to_all(&self, from: usize, members: &[usize]) -> f64 {
        members.iter().filter(|member| **member != from).map(|&member| self.between(from, member)).sum()
    }

    fn sum(&self, members: &[usize]) -> f64 {
        members.iter().map(|&member| self.to_all(member, members)).sum::<f64>() / 2.0
    }
}

/// Picks the `k` measured ranks of lowest mutual latency.
///
/// # Errors
/// There are fewer, or `k` is 0.
pub fn pick(verdict: &Verdict, k: usize) -> Result<Picked, PickError> {
    let effect = |rank: &RankEffect| rank.ratio.map_or(1.0, |ratio| ratio.ratio);
    let mut quick: Vec<&RankEffect> = verdict.ranks.iter().filter(|rank| rank.pairs > 0).collect();
    let measured = quick.len();
    if k == 0 || k > measured {
        return Err(PickError::Number { asked: k, measured });
    }
    quick.arrange_by(|one, other| effect(one).total_cmp(&effect(other)));
    quick.truncate(CANDIDATES.max(k));
    let is_exact = quick.len() == measured && choices(measured, k) <= EXACT;
    let mut ranks: Vec<usize> = quick.into_iter().map(|rank| rank.rank).collect();
    ranks.sort_unstable();
    // Otherwise the lowest effects have chosen already.
    if ranks.len() > k {
        let time = |a: usize, b: usize| verdict.time(a, b).map_or(0.0, |time| time.ns);
        let ns = ranks.iter().flat_map(|&a| ranks.iter().map(move |&b| time(a, b))).collect();
        let times = Times { ranks, ns };
        let members = if is_exact { lowest(&times, k) } else { grown(&times, k) };
        ranks = members.iter().map(|&member| times.ranks[member]).collect();
        ranks.sort_unstable();
    }
    let (mut sum, mut longest, mut pairs, mut expected) = (0.0, 0.0, 0u32, 0);
    for (at, &a) in ranks.iter().enumerate() {
        for time in ranks[at + 1..].iter().filter_map(|&b| verdict.time(a, b)) {
            (sum, longest, pairs) = (sum + time.ns, time.ns.max(longest), pairs + 1);
            expected += usize::from(!time.is_measured);
        }
    }
    let of_pairs = |ns: f64| (pairs > 0).then_some(ns);
    Ok(Picked { mean: of_pairs(sum / f64::from(pairs)), longest: of_pairs(longest), ranks, expected, is_exact })
}

/// The number of ways to choose `k` of `n`; saturates.
fn choices(n: usize, k: usize) -> u64 {
    let (n, k) = (n as u128, k.min(n - k) as u128);
    let mut found: u128 = 1;
    for step in 1..=k {
        found = found * (n - k + step) / step;
        if found > u128::from(u64::MAX) {
            return u64::MAX;
        }
    }
    found as u64
}

/// The lowest of all choices.
fn lowest(times: &Times, k: usize) -> Vec<usize> {
    let mut best = (f64::INFINITY, Vec::new());
    extend(times, k, 0, 0.0, &mut Vec::new(), &mut best);
    best.1
}

/// Tries all choices that begin with `members`, whose times add up to `sum`.
fn extend(times: &Times, k: usize, from: usize, sum: f64, members: &mut Vec<usize>, best: &mut (f64, Vec<usize>)) {
    if members.len() == k {
        if sum < best.0 {
            *best = (sum, members.clone());
        }
        return;
    }
    // The members that are still missing must fit in after `next`.
    for next in from..=times.ranks.len() - (k - members.len()) {
        let more = sum + times.to_all(next, members);
        if more < best.0 {
            members.push(next);
            extend(times, k, next + 1, more, members, best);
            members.pop();
        }
    }
}

/// The lowest of the sets that grow from several ranks.
fn grown(times: &Times, k: usize) -> Vec<usize> {
    let all: Vec<usize> = (0..times.ranks.len()).collect();
    let mut seeds: Vec<(f64, usize)> = all.iter().map(|&seed| (nearest_sum(times, seed, k), seed)).collect();
    seeds.arrange_by(|(one, _), (other, _)| one.total_cmp(other));
    let sets = seeds.iter().take(SEEDS).map(|&(_, seed)| {
        let set = improved(times, grow(times, seed, k));
        (times.sum(&set), set)
    });
    sets.min_by(|(one, _), (other, _)| one.total_cmp(other)).map(|(_, set)| set).unwrap_or_default()
}

/// The sum of the times from a rank to the `k` − 1 nearest others.
fn nearest_sum(times: &Times, seed: usize, k: usize) -> f64 {
    let mut own: Vec<f64> =
        (0..times.ranks.len()).filter(|other| *other != seed).map(|other| times.between(seed, other)).collect();
    own.arrange_by(f64::total_cmp);
    own.iter().take(k - 1).sum()
}

fn grow(times: &Times, seed: usize, k: usize) -> Vec<usize> {
    let mut members = vec![seed];
    let mut is_member = vec![false; times.ranks.len()];
    is_member[seed] = true;
    let mut added: Vec<f64> = (0..times.ranks.len()).map(|other| times.between(seed, other)).collect();
    while members.len() < k {
        let others = (0..added.len()).filter(|other| !is_member[*other]);
        let Some(next) = others.min_by(|one, other| added[*one].total_cmp(&added[*other])) else { break };
        members.push(next);
        is_member[next] = true;
        added.iter_mut().enumerate().for_each(|(other, sum)| *sum += times.between(next, other));
    }
    members
}

/// Exchanges a member for another rank as long as that lowers the sum.
fn improved(times: &Times, mut members: Vec<usize>) -> Vec<usize> {
    let n = times.ranks.len();
    let mut is_member = vec![false; n];
    members.iter().for_each(|&member| is_member[member] = true);
    let mut sums: Vec<f64> = (0..n).map(|rank| times.to_all(rank, &members)).collect();
    for _ in 0..EXCHANGES {
        let gain = |place: usize, other: usize| sums[members[place]] - (sums[other] - times.between(members[place], other));
        let exchanges =
            (0..members.len()).flat_map(|place| (0..n).map(move |other| (place, other))).filter(|(_, other)| !is_member[*other]);
        let best =
            exchanges.map(|(place, other)| (gain(place, other), place, other)).max_by(|one, other| one.0.total_cmp(&other.0));
        // A gain within the rounding of sums does not count.
        let Some((_, place, other)) = best.filter(|(gained, ..)| *gained > 1e-9 * sums[0].abs()) else { break };
        let left = std::mem::replace(&mut members[place], other);
        (is_member[left], is_member[other]) = (false, true);
        for (rank, sum) in sums.iter_mut().enumerate() {
            *sum += times.between(rank, other) - times.between(rank, left);
        }
    }
    members
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::{Limits, Observation, judge};

    fn verdict(ranks: usize, time: impl Fn(usize, usize) -> Option<f64>) -> Verdict {
        let pairs = (0..ranks).flat_map(|a| (a + 1..ranks).map(move |b| (a, b)));
        let visits: Vec<Observation> =
            pairs.filter_map(|(a, b)| time(a, b).map(|value| Observation { a, b, visit: 1, client: a, value })).collect();
        judge(ranks, &visits, &[], Limits::default()).unwrap()
    }

    /// Times that look random, from the ranks.
    fn mixed(a: usize, b: usize) -> f64 {
        1000.0 + ((a * 7919 + b * 104_729) % 997) as f64
    }

    #[test]
    fn the_nearest_ranks_are_picked_from_all_choices() {
        let near = [1, 4, 6];
        let found = verdict(8, |a, b| Some(if near.contains(&a) && near.contains(&b) { 10_000.0 } else { 20_000.0 }));
        let picked = pick(&found, 3).unwrap();
        assert_eq!((picked.ranks.as_slice(), picked.is_exact, picked.expected), (&near[..], true, 0));
        assert!((picked.mean.unwrap() - 10_000.0).abs() < 1.0 && (picked.longest.unwrap() - 10_000.0).abs() < 1.0);
        let one = pick(&found, 1).unwrap();
        assert_eq!((one.ranks.len(), one.mean), (1, None));
        assert_eq!(pick(&found, 8).unwrap().ranks, (0..8).collect::<Vec<_>>());
    }

    #[test]
    fn more_ranks_than_were_measured_or_none_are_refused() {
        let found = verdict(8, |a, b| (a < 5 && b < 5).then_some(9.0));
        assert_eq!(pick(&found, 6), Err(PickError::Number { asked: 6, measured: 5 }));
        assert_eq!(pick(&found, 0).unwrap_err().to_string(), "cannot pick 0 of 5 measured hosts: pick between 1 and 5");
    }

    #[test]
    fn pairs_without_a_visit_count_as_expected() {
        let found = verdict(6, |a, b| ((a, b) != (0, 1)).then_some(if a == 0 || b == 0 { 5_000.0 } else { 9_000.0 }));
        let picked = pick(&found, 2).unwrap();
        assert!(picked.ranks[0] == 0 && picked.expected <= 1, "{picked:?}");
        let time = found.time(1, 0).unwrap();
        assert!(!time.is_measured && (4_800.0..5_200.0).contains(&time.ns), "{time:?}");
    }

    #[test]
    fn grown_sets_come_close_to_the_lowest() {
        for ranks in [10, 13, 16] {
            let found = verdict(ranks, |a, b| Some(mixed(a, b)));
            let times = Times { ranks: (0..ranks).collect(), ns: Vec::new() };
            let ns = (0..ranks).flat_map(|a| (0..ranks).map(move |b| (a, b)));
            let times = Times { ns: ns.map(|(a, b)| found.time(a, b).map_or(0.0, |time| time.ns)).collect(), ..times };
            for k in [2, 4, 6] {
                let (lowest, grown) = (times.sum(&lowest(&times, k)), times.sum(&grown(&times, k)));
                assert!((lowest..=lowest * 1.01).contains(&grown), "{ranks} {k}: {lowest} {grown}");
            }
        }
    }

    #[test]
    fn many_ranks_are_picked_by_growing() {
        let near: Vec<usize> = (0..64).filter(|rank| rank % 8 == 3).collect();
        let found = verdict(64, |a, b| Some(mixed(a, b) * if a % 8 == 3 && b % 8 == 3 { 0.4 } else { 1.0 }));
        let picked = pick(&found, 8).unwrap();
        assert_eq!((picked.ranks, picked.is_exact), (near, false));
    }

    #[test]
    fn more_ranks_than_candidates_are_picked_by_their_effects() {
        let (ranks, k) = (CANDIDATES + 2, CANDIDATES + 1);
        let is_near = |a: usize, b: usize| b - a <= 2 || b - a >= ranks - 2;
        let slow = |a: usize, b: usize| a == 7 || b == 7;
        let found = verdict(ranks, |a, b| is_near(a, b).then_some(if slow(a, b) { 20_000.0 } else { 9_000.0 }));
        let picked = pick(&found, k).unwrap();
        assert!(picked.ranks.len() == k && picked.ranks.is_sorted() && !picked.ranks.contains(&7) && !picked.is_exact);
        // Equal times add up to their mean but for the rounding.
        let (mean, longest) = (picked.mean.unwrap(), picked.longest.unwrap());
        assert!(mean < 1.001 * longest && picked.expected > 0, "{mean} {longest}");
    }

    #[test]
    fn choices_are_counted() {
        assert_eq!([choices(8, 3), choices(8, 8), choices(20, 10), choices(10_000, 5_000)], [56, 1, 184_756, u64::MAX]);
    }
}
