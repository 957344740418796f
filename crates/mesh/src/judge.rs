//! The effects in a mesh, by all its pairs together, and the pairs that are visited again.

use std::collections::{BTreeMap, BTreeSet};

use hairpin_record::mesh::{Effect, MeshBody, Picked, Subject};
use hairpin_record::statistics::Ratio;
use hairpin_record::warning::Note;
use hairpin_units::{Arrange, Gather};

use crate::differences::differences;
use crate::pick::pick;
use crate::schedule::{Pair, Slot, client_of};
use crate::stages;
use crate::topology::{Level, Topology, UnknownHosts};
use crate::verdict::{Limits, Observation, Untold, Verdict, Way, judge};

/// Pairs are visited again once at most, and of all pairs no more than one in `ONE_IN`.
const ONE_IN: usize = 4;

/// Judges a mesh by the RTT p50 of its visits.
#[derive(Clone, Debug, Default)]
pub struct Judge {
    /// The switches above the hosts, if they are known.
    pub topology: Option<Topology>,
    /// When an effect is a verdict.
    pub limits: Limits,
}

/// A judged mesh.
#[derive(Clone, Debug, Default)]
pub struct Judged {
    /// Every rank and group that can be compared, and every slow link, the slowest first.
    pub effects: Vec<Effect>,
    /// The questions that stay open, and why.
    pub notes: Vec<Note>,
}

impl Judge {
    /// Judges the mesh, and names the differences of slow hosts.
    #[must_use]
    pub fn of(&self, body: &MeshBody) -> Judged {
        let names = names(body);
        let (levels, unknown) = self.levels(body);
        let mut notes: Vec<Note> = unknown.map(|unknown| note("topology-unknown", unknown.to_string())).into_iter().collect();
        let few = without_p50(body);
        if !few.is_empty() {
            let visits = if few.len() == 1 { "1 visit".into() } else { format!("{} visits", few.len()) };
            let message = format!("{visits} had fewer than 20 round trips, so no p50 and no verdict: give a longer --duration");
            notes.push(note("few-round-trips", message));
        }
        let verdict = match judge(names.len(), &observations(body), &levels, self.limits) {
            Ok(verdict) => verdict,
            Err(error) => {
                notes.push(note("not-judged", error.to_string()));
                return Judged { effects: Vec::new(), notes };
            }
        };
        let hosts: Vec<&str> = names.iter().map(String::as_str).collect();
        // Pairs that count in no verdict were measured all the same.
        let measured: BTreeSet<usize> = few.iter().flatten().copied().gather();
        let untold = verdict.untold.iter().cloned().filter_map(|untold| match untold {
            Untold::Nothing => few.is_empty().then_some(untold),
            Untold::Unmeasured { mut ranks } => {
                ranks.retain(|rank| !measured.contains(rank));
                (!ranks.is_empty()).then_some(Untold::Unmeasured { ranks })
            }
            other => Some(other),
        });
        notes.extend(untold.map(|untold| note("untold", untold.sentence(&hosts).to_string())));
        Judged { effects: effects(body, &verdict), notes }
    }

    /// The `k` ranks of lowest mutual latency.
    ///
    /// # Errors
    /// Fewer were measured, or the mesh cannot be judged.
    pub fn pick(&self, body: &MeshBody, k: usize) -> Result<Picked, String> {
        let names = names(body);
        let (levels, _) = self.levels(body);
        let verdict = judge(names.len(), &observations(body), &levels, self.limits).map_err(|error| error.to_string())?;
        let found = pick(&verdict, k).map_err(|error| error.to_string())?;
        Ok(Picked {
            ranks: found.ranks.iter().map(|rank| *rank as u32).collect(),
            mean_ns: found.mean,
            longest_ns: found.longest,
            expected_pairs: found.expected,
            exact: found.is_exact,
        })
    }

    /// The pairs that noise does not explain and those of ranks that look slow, with as many ordinary ones beside them; none if
    /// no pair is suspicious, or if pairs were visited again before.
    #[must_use]
    pub fn again(&self, body: &MeshBody) -> Vec<Pair> {
        if body.pairs.iter().any(|pair| pair.visits.len() > body.schedule.visits as usize) {
            return Vec::new();
        }
        let names = names(body);
        let (levels, _) = self.levels(body);
        let Ok(verdict) = judge(names.len(), &observations(body), &levels, self.limits) else { return Vec::new() };
        let most = (body.pairs.len() / (2 * ONE_IN)).max(1);
        let suspicious: Vec<Pair> = verdict.suspicious(most).into_iter().map(|(a, b)| (a as u32, b as u32)).collect();
        let known: BTreeSet<Pair> = suspicious.iter().copied().gather();
        let all = verdict.pairs.iter().map(|pair| (pair.a as u32, pair.b as u32));
        let ordinary: Vec<Pair> = all.filter(|pair| !known.contains(pair)).collect();
        // Spread over all ranks: two pairs with a rank in common cannot be visited at once.
        let apart = (ordinary.len() / suspicious.len().max(1)).max(1);
        let beside: Vec<Pair> = ordinary.into_iter().step_by(apart).take(suspicious.len()).collect();
        [suspicious, beside].concat()
    }

    /// The groups of the ranks whose hosts are known; a rank that never started has no name, and is in no group.
    fn levels(&self, body: &MeshBody) -> (Vec<Level>, Option<UnknownHosts>) {
        let Some(topology) = &self.topology else { return (Vec::new(), None) };
        let hosts: Vec<&str> = body.ranks.iter().map(|rank| rank.host.as_str()).collect();
        let mut levels = match topology.levels(&hosts) {
            Ok(levels) => levels,
            Err(unknown) => return (Vec::new(), Some(unknown)),
        };
        for group in levels.iter_mut().flat_map(|level| &mut level.groups) {
            group.ranks.iter_mut().for_each(|rank| *rank = body.ranks[*rank].rank as usize);
        }
        (levels, None)
    }
}

fn note(code: &str, message: String) -> Note {
    Note { code: code.into(), message }
}

fn names(body: &MeshBody) -> Vec<String> {
    (0..body.schedule.ranks).map(|rank| body.host_of(rank)).collect()
}

/// The two ranks of each measured visit that has too few round trips for a median.
fn without_p50(body: &MeshBody) -> Vec<[usize; 2]> {
    let of_pair = body.pairs.iter().flat_map(|pair| pair.measured().map(move |visit| (pair, visit)));
    let few = of_pair.filter(|(_, visit)| visit.rtt_ns.as_ref().is_some_and(|figures| figures.p50.is_none()));
    few.map(|(pair, _)| [pair.a as usize, pair.b as usize]).collect()
}

fn observations(body: &MeshBody) -> Vec<Observation> {
    let of_pair = body.pairs.iter().flat_map(|pair| pair.measured().map(move |visit| (pair, visit)));
    let of = of_pair.filter_map(|(pair, visit)| {
        let value = visit.rtt_ns.as_ref()?.p50.filter(|ns| *ns > 0)? as f64;
        Some(Observation { a: pair.a as usize, b: pair.b as usize, visit: visit.visit, client: visit.client as usize, value })
    });
    of.collect()
}

fn effects(body: &MeshBody, verdict: &Verdict) -> Vec<Effect> {
    let slow: Vec<u32> = verdict.ranks.iter().filter(|rank| rank.is_convicted).map(|rank| rank.rank as u32).collect();
    let effect =
        |subject, Ratio { ratio, low, high }: Ratio, convicted, because| Effect { subject, ratio, low, high, convicted, because };
    let ranks = verdict.ranks.iter().filter_map(|of| {
        let rank = of.rank as u32;
        let because = |subject: &Subject| stages::difference(body, subject).into_iter().chain(differences(body, rank, &slow));
        let subject = Subject::Rank(rank);
        let because = if of.is_convicted { because(&subject).collect() } else { Vec::new() };
        Some(effect(subject, of.ratio?, of.is_convicted, because))
    });
    let groups = verdict.groups.iter().filter_map(|of| {
        let name = match of.way {
            Way::Within => format!("pairs within {}", of.name),
            Way::Across => format!("pairs out of {}", of.name),
        };
        Some(effect(Subject::Group(name), of.ratio?, of.is_convicted, Vec::new()))
    });
    let links = verdict.pairs.iter().filter(|of| of.is_convicted);
    let links = links.filter_map(|of| {
        let subject = Subject::Pair(of.a as u32, of.b as u32);
        let because = stages::difference(body, &subject).into_iter().collect();
        Some(effect(subject, of.ratio?, true, because))
    });
    let mut all: Vec<Effect> = groups.chain(ranks).chain(links).collect();
    all.arrange_by(|one, other| other.convicted.cmp(&one.convicted).then(other.ratio.total_cmp(&one.ratio)));
    all
}

/// The first round of further slots after `last_round`. Ranks that have ended their slots are in the round between, and ask for
/// patience with it.
#[must_use]
pub fn further(last_round: u32) -> u32 {
    last_round + 2
}

/// The slots of each rank in which these pairs are visited twice more: in rounds of disjoint pairs after `last_round`, as visits
/// after `last_visit`.
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
            let number = further(last_round) + (times * rounds.len() + at) as u32;
            for &(a, b) in round {
                for (rank, partner) in [(a, b), (b, a)] {
                    let client = client_of((a, b), visit) == rank;
                    found.entry(rank).or_default().push(Slot { round: number, visit, partner, client, explain: false });
                }
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use hairpin_record::mesh::{Pair as Measured, Rank, Schedule, Visit};
    use hairpin_record::quantiles::Quantiles;
    use serde_json::json;

    use super::*;

    /// Eight hosts, all pairs visited twice; the pairs of `slow` take 1.5 times as long, and its timer is another one.
    fn mesh(slow: Option<u32>) -> MeshBody {
        let host = |rank| {
            let mut known = Rank { rank, host: format!("n{rank}"), ..Rank::default() };
            known.facts.facts.insert("timer_migration".into(), json!(u32::from(slow == Some(rank))));
            known
        };
        let pair = |(a, b): (u32, u32)| {
            let visit = |visit: u32| {
                let base = if slow == Some(a) || slow == Some(b) { 30_000 } else { 20_000 };
                let noise = u64::from((a * 7 + b * 13 + visit * 5) % 11) * 40;
                let rtt_ns = Some(Quantiles { p50: Some(base + noise), ..Quantiles::default() });
                Visit { visit, client: client_of((a, b), visit), rtt_ns, ..Visit::default() }
            };
            Measured { a, b, visits: vec![visit(1), visit(2)], ..Measured::default() }
        };
        let pairs = (0..8).flat_map(|a| (a + 1..8).map(move |b| (a, b))).map(pair).collect();
        let schedule = Schedule { ranks: 8, visits: 2, ..Schedule::default() };
        MeshBody { ranks: (0..8).map(host).collect(), pairs, schedule, ..MeshBody::default() }
    }

    #[test]
    fn a_slow_rank_is_convicted_with_what_differs_on_it() {
        let Judged { effects, notes } = Judge::default().of(&mesh(Some(5)));
        assert!(notes.is_empty(), "{notes:?}");
        assert_eq!(effects.iter().filter(|effect| effect.convicted).count(), 1, "{effects:?}");
        let first = &effects[0];
        assert!(first.subject == Subject::Rank(5) && (1.4..1.6).contains(&first.ratio) && first.low > 1.3, "{first:?}");
        assert_eq!(first.because, ["timer_migration is 1 (0 on the others)"]);
        assert_eq!(effects.len(), 8);
    }

    #[test]
    fn the_slow_rank_is_not_picked() {
        let picked = Judge::default().pick(&mesh(Some(5)), 7).unwrap();
        assert!(picked.ranks == [0, 1, 2, 3, 4, 6, 7] && picked.exact && picked.expected_pairs == 0, "{picked:?}");
        assert!(picked.mean_ns.is_some_and(|ns| (20_000.0..20_500.0).contains(&ns)), "{picked:?}");
        assert!(Judge::default().pick(&mesh(None), 9).is_err_and(|why| why.contains("between 1 and 8")));
    }

    #[test]
    fn nobody_is_convicted_where_all_are_alike_and_a_topology_of_other_hosts_is_noted() {
        let topology = Topology::parse("SwitchName=s1 Nodes=m[0-7]\n").unwrap();
        let Judged { effects, notes } = Judge { topology: Some(topology), ..Judge::default() }.of(&mesh(None));
        assert!(effects.iter().all(|effect| !effect.convicted), "{effects:?}");
        assert!(notes.len() == 1 && notes[0].code == "topology-unknown", "{notes:?}");
    }

    #[test]
    fn visits_with_too_few_round_trips_are_said_and_were_measured_all_the_same() {
        let mut body = mesh(Some(5));
        for visit in body.pairs.iter_mut().flat_map(|pair| &mut pair.visits) {
            visit.rtt_ns = Some(Quantiles { count: 6, min: Some(80_000_000), ..Quantiles::default() });
        }
        let Judged { effects, notes } = Judge::default().of(&body);
        let codes: Vec<&str> = notes.iter().map(|note| note.code.as_str()).collect();
        assert_eq!((effects.len(), codes), (0, vec!["few-round-trips"]), "{notes:?}");
        assert!(notes[0].message.starts_with("56 visits had fewer than 20 round trips"), "{notes:?}");
        // Missing visits have no figures at all, and that is another sentence.
        body.pairs.iter_mut().for_each(|pair| pair.visits.clear());
        assert_eq!(Judge::default().of(&body).notes[0].code, "untold");
        // A rank without any visit is named beside them.
        let mut body = mesh(None);
        body.pairs.iter_mut().filter(|pair| pair.a == 2 || pair.b == 2).for_each(|pair| pair.visits.clear());
        body.pairs[0].visits[0].rtt_ns = Some(Quantiles::default());
        let notes = Judge::default().of(&body).notes;
        assert_eq!(notes[0].code, "few-round-trips");
        assert!(notes.iter().any(|note| note.message == "no pair of n2 was measured"), "{notes:?}");
    }

    #[test]
    fn a_rank_that_never_started_leaves_the_topology_to_the_others() {
        let topology = Topology::parse("SwitchName=s1 Nodes=n[0-7]\n").unwrap();
        let judge = Judge { topology: Some(topology), ..Judge::default() };
        let mut body = mesh(None);
        body.ranks.remove(2);
        let (levels, unknown) = judge.levels(&body);
        assert_eq!((levels[0].groups[0].ranks.as_slice(), unknown), (&[0, 1, 3, 4, 5, 6, 7][..], None));
    }

    #[test]
    fn ordinary_pairs_are_spread_over_the_ranks() {
        let mut body = mesh(None);
        for at in [3, 20] {
            body.pairs[at].visits[1].rtt_ns = Some(Quantiles { p50: Some(40_000), ..Quantiles::default() });
        }
        let again = Judge::default().again(&body);
        let beside = &again[again.len() / 2..];
        let lower: BTreeSet<u32> = beside.iter().map(|pair| pair.0).collect();
        assert!(beside.len() >= 2 && lower.len() == beside.len(), "{again:?}");
    }

    #[test]
    fn suspicious_pairs_are_visited_again_once_beside_ordinary_ones() {
        let mut body = mesh(None);
        assert!(Judge::default().again(&body).is_empty());
        body.pairs[3].visits[1].rtt_ns = Some(Quantiles { p50: Some(40_000), ..Quantiles::default() });
        let again = Judge::default().again(&body);
        assert!(again.len() == 2 && again[0] == (body.pairs[3].a, body.pairs[3].b), "{again:?}");
        body.pairs[3].visits.push(Visit { visit: 3, ..Visit::default() });
        assert!(Judge::default().again(&body).is_empty());
    }

    #[test]
    fn pairs_that_are_visited_again_are_disjoint_in_each_round() {
        let found = slots(&[(0, 1), (0, 2), (2, 3)], 6, 2);
        let of =
            |rank: u32| found[&rank].iter().map(|slot| (slot.round, slot.visit, slot.partner, slot.client)).collect::<Vec<_>>();
        assert_eq!(of(0), [(8, 3, 1, true), (9, 3, 2, true), (10, 4, 1, false), (11, 4, 2, false)]);
        assert_eq!(of(2), [(8, 3, 3, true), (9, 3, 0, false), (10, 4, 3, false), (11, 4, 0, true)]);
        assert!(slots(&[], 6, 2).is_empty());
    }
}
