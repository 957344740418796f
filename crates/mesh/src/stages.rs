//! The stages of a slow pair beside those of an ordinary one: which of them takes the difference.
//!
//! ```text
//!   shared ── slow        a rank of both pairs is the client in both, so only the other host and the way to it differ
//!   shared ── ordinary
//! ```

use std::collections::BTreeMap;

use hairpin_record::explain::Direction;
use hairpin_record::mesh::{Effect, MeshBody, StageTime, Subject, Visit};
use hairpin_units::{Arrange, Nanos};

use crate::schedule::{Pair, Slot, client_of};

/// The least ratio of the sums of both pairs' stages at which a stage is named.
const LEAST: f64 = 1.05;

/// Two pairs with a common client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Beside {
    /// The client.
    pub shared: u32,
    /// Its server in the slow pair.
    pub slow: u32,
    /// Its server in the ordinary one.
    pub ordinary: u32,
}

/// The slowest pair of the first convicted rank or link, and an ordinary pair beside it, of ranks that still measure. `None` if
/// nobody is convicted, or there are no such pairs.
#[must_use]
pub fn choose(body: &MeshBody, effects: &[Effect], measures: impl Fn(u32) -> bool) -> Option<Beside> {
    let convicted = |subject: &Subject| effects.iter().any(|effect| effect.convicted && effect.subject == *subject);
    let subject = effects.iter().find(|effect| effect.convicted && !matches!(effect.subject, Subject::Group(_)))?.subject.clone();
    let mut pairs: Vec<(u64, Pair)> =
        body.pairs.iter().filter_map(|pair| Some((pair.rtt_ns.as_ref()?.p50?, (pair.a, pair.b)))).collect();
    pairs.retain(|(_, (a, b))| measures(*a) && measures(*b));
    pairs.arrange_by(|one, other| other.cmp(one));
    let is_ordinary = |(a, b): Pair| ![Subject::Rank(a), Subject::Rank(b), Subject::Pair(a, b)].iter().any(convicted);
    let beside = |shared: u32, slow: u32| {
        let of: Vec<Pair> = pairs
            .iter()
            .map(|(_, pair)| *pair)
            .filter(|pair| is_ordinary(*pair) && has(*pair, shared) && !has(*pair, slow))
            .collect();
        let pair = *of.get(of.len() / 2)?;
        Some(Beside { shared, slow, ordinary: other(pair, shared) })
    };
    pairs.iter().find_map(|(_, pair)| match subject {
        Subject::Rank(rank) if has(*pair, rank) && !convicted(&Subject::Pair(pair.0, pair.1)) => {
            let shared = other(*pair, rank);
            if convicted(&Subject::Rank(shared)) { None } else { beside(shared, rank) }
        }
        Subject::Pair(a, b) if (a, b) == *pair => beside(a, b).or_else(|| beside(b, a)),
        _ => None,
    })
}

fn has((a, b): Pair, rank: u32) -> bool {
    a == rank || b == rank
}

fn other((a, b): Pair, rank: u32) -> u32 {
    if a == rank { b } else { a }
}

impl Beside {
    /// The slots in which both pairs are visited once, in rounds from `first_round` on, as visits after `last_visit`.
    #[must_use]
    pub fn slots(self, first_round: u32, last_visit: u32) -> BTreeMap<u32, Vec<Slot>> {
        let mut found: BTreeMap<u32, Vec<Slot>> = BTreeMap::new();
        for (server, round) in [(self.slow, first_round), (self.ordinary, first_round + 1)] {
            let pair = (self.shared.min(server), self.shared.max(server));
            let visit = if client_of(pair, last_visit + 1) == self.shared { last_visit + 1 } else { last_visit + 2 };
            for (rank, partner, client) in [(self.shared, server, true), (server, self.shared, false)] {
                found.entry(rank).or_default().push(Slot { round, visit, partner, client, explain: true });
            }
        }
        found
    }
}

/// The stage with most of the difference between a slow pair of the subject and the ordinary one, if the stages of both were
/// measured.
#[must_use]
pub fn difference(body: &MeshBody, subject: &Subject) -> Option<String> {
    let of_pair = body.pairs.iter().flat_map(|pair| pair.visits.iter().map(move |visit| ((pair.a, pair.b), visit)));
    let explained: Vec<(Pair, &Visit)> = of_pair.filter(|(_, visit)| !visit.stages.is_empty()).collect();
    let is_of = |pair: Pair| match *subject {
        Subject::Rank(rank) => has(pair, rank),
        Subject::Pair(a, b) => pair == (a, b),
        _ => false,
    };
    let (_, slow) = explained.iter().find(|(pair, visit)| is_of(*pair) && *subject != Subject::Rank(visit.client))?;
    let (pair, ordinary) = explained.iter().find(|(pair, visit)| !is_of(*pair) && visit.client == slow.client)?;
    let sum = |visit: &Visit| visit.stages.iter().map(|stage| stage.typical_ns).sum::<f64>();
    let us = |ns: f64| Nanos(ns.max(0.0).round() as u64);
    let server = body.host_of(other(*pair, ordinary.client));
    if sum(slow) < LEAST * sum(ordinary) {
        return Some(format!(
            "its stages took {} when they were measured, not {:.0} % longer than to {server} ({})",
            us(sum(slow)),
            (LEAST - 1.0) * 100.0,
            us(sum(ordinary))
        ));
    }
    let grown = slow.stages.iter().filter_map(|stage| {
        let alike = |other: &&_| same(stage, other);
        Some((stage, ordinary.stages.iter().find(alike)?.typical_ns))
    });
    let (stage, ordinary_ns) = grown.max_by(|(a, of_a), (b, of_b)| (a.typical_ns - of_a).total_cmp(&(b.typical_ns - of_b)))?;
    let place = match (stage.direction, stage.side) {
        // This stage is both ways together.
        _ if stage.name.starts_with("outside") => "between the hosts".into(),
        (Direction::Request, side) => format!("{side}, request"),
        (Direction::Reply, side) => format!("{side}, reply"),
    };
    let [slow_ns, ordinary_ns, slow_sum, ordinary_sum] = [stage.typical_ns, ordinary_ns, sum(slow), sum(ordinary)].map(us);
    Some(format!("{} ({place}) takes {slow_ns} of {slow_sum} ({ordinary_ns} of {ordinary_sum} to {server})", stage.name))
}

fn same(one: &StageTime, other: &StageTime) -> bool {
    (&one.name, one.side, one.direction) == (&other.name, other.side, other.direction)
}

#[cfg(test)]
mod tests {
    use hairpin_record::mesh::{Pair as Measured, Rank};
    use hairpin_record::quantiles::Quantiles;
    use hairpin_record::run::Side;

    use super::*;

    /// Five hosts; the pairs of rank 2 are slow.
    fn mesh() -> MeshBody {
        let p50 = |a: u32, b: u32| if a == 2 || b == 2 { 40_000 + u64::from(a + b) } else { 20_000 + u64::from(a + b) };
        let pair = |(a, b): Pair| Measured {
            a,
            b,
            rtt_ns: Some(Quantiles { p50: Some(p50(a, b)), ..Quantiles::default() }),
            visits: Vec::new(),
        };
        let rank = |rank| Rank { rank, host: format!("n{rank}"), ..Rank::default() };
        let pairs = (0..5).flat_map(|a| (a + 1..5).map(move |b| (a, b))).map(pair).collect();
        MeshBody { ranks: (0..5).map(rank).collect(), pairs, ..MeshBody::default() }
    }

    fn convicted(subject: Subject) -> Effect {
        Effect { subject, ratio: 2.0, low: 1.9, high: 2.1, convicted: true, because: Vec::new() }
    }

    fn explained(body: &mut MeshBody, at: Pair, client: u32, times: [f64; 2]) {
        let [call, softirq] = times;
        let stage = |name: &str, side, direction, typical_ns| StageTime { name: name.into(), side, direction, typical_ns };
        let stages = vec![
            stage("send call", Side::Client, Direction::Request, call),
            stage("receive softirq", Side::Server, Direction::Request, softirq),
        ];
        let pair = body.pairs.iter_mut().find(|pair| (pair.a, pair.b) == at).unwrap();
        pair.visits.push(Visit { visit: 3, client, stages, ..Visit::default() });
    }

    #[test]
    fn the_slowest_pair_of_a_slow_rank_and_an_ordinary_one_share_their_client() {
        let body = mesh();
        let of = |subject, measures: &dyn Fn(u32) -> bool| choose(&body, &[convicted(subject)], measures);
        let found = of(Subject::Rank(2), &|_| true).unwrap();
        assert_eq!(found, Beside { shared: 4, slow: 2, ordinary: 1 });
        assert_eq!(of(Subject::Rank(2), &|rank| rank != 4).unwrap().shared, 3);
        assert_eq!(of(Subject::Pair(0, 3), &|_| true).map(|found| (found.shared, found.slow)), Some((0, 3)));
        assert_eq!(of(Subject::Rank(2), &|rank| rank == 2 || rank == 0), None, "no ordinary pair");
        assert_eq!(of(Subject::Group("pairs within leaf1".into()), &|_| true), None);
        assert_eq!(choose(&body, &[], |_| true), None);

        let slots = found.slots(7, 2);
        let of =
            |rank: u32| slots[&rank].iter().map(|slot| (slot.round, slot.visit, slot.partner, slot.client)).collect::<Vec<_>>();
        assert_eq!(of(4), [(7, 4, 2, true), (8, 4, 1, true)]);
        assert_eq!((of(2), of(1)), (vec![(7, 4, 4, false)], vec![(8, 4, 4, false)]));
        assert!(slots.values().flatten().all(|slot| slot.explain));
    }

    #[test]
    fn the_stage_that_grew_most_is_named() {
        let mut body = mesh();
        assert_eq!(difference(&body, &Subject::Rank(2)), None);
        explained(&mut body, (2, 4), 4, [3_000.0, 26_100.0]);
        assert_eq!(difference(&body, &Subject::Rank(2)), None, "nothing to hold it against");
        explained(&mut body, (1, 4), 4, [2_500.0, 1_200.0]);
        let said = difference(&body, &Subject::Rank(2)).unwrap();
        assert_eq!(said, "receive softirq (server, request) takes 26.10 us of 29.10 us (1.200 us of 3.700 us to n1)");
        assert_eq!(difference(&body, &Subject::Pair(2, 4)).as_ref(), Some(&said));
        assert_eq!(difference(&body, &Subject::Rank(4)), None, "the client of both");
    }

    #[test]
    fn a_difference_that_has_vanished_names_no_stage() {
        let mut body = mesh();
        explained(&mut body, (2, 4), 4, [2_500.0, 1_210.0]);
        explained(&mut body, (1, 4), 4, [2_500.0, 1_200.0]);
        let said = difference(&body, &Subject::Rank(2)).unwrap();
        assert_eq!(said, "its stages took 3.710 us when they were measured, not 5 % longer than to n1 (3.700 us)");
    }
}
