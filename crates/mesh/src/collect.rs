//! After the slots: every rank hands its visits to rank 0, asks whether it is to measure again, and ends.
//!
//! ```text
//!   rank K ── delivery ──▶ rank 0: has all that still live, within its bound ── slots to measure again ──▶ rank K ── … until there are none
//!      └ rank 0 has gone: the visits are in the rank's file      └ the files of those that did not deliver
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use hairpin_session::channel::Channel;
use hairpin_session::side::wait;
use hairpin_units::{Arrange, Gather};

use crate::gate::Collection;
use crate::meeting::Card;
use crate::run::{LOOK_WITHIN, PATIENCE, Station};
use crate::schedule::{Pair, Slot};
use crate::visit::Told;
use crate::words::{Ask, Delivery, Reply, Unheard, VISITS_AT_ONCE, ask};

/// Deliveries last at most this long beyond the last round.
const DELIVERED_WITHIN: Duration = Duration::from_secs(10);
/// The same after Ctrl-C or SIGTERM, when the launcher will soon kill.
const SOON: Duration = Duration::from_secs(2);
/// Time between two passes of looks at ranks that have not delivered.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Ranks looked at in one pass at most; a silent one ends the pass.
const LOOKS: usize = 16;
/// Rank 0 stays for this long for ranks that have not asked for their further slots yet.
const STAYS: Duration = Duration::from_secs(2);
/// Pause before rank 0 is asked again.
const PAUSE: Duration = Duration::from_millis(150);

/// A failed delivery, or a failed question after it.
#[derive(Debug)]
pub struct Undelivered(pub String);

impl Station<'_> {
    /// When the deliveries end, at the latest.
    pub fn end_of_deliveries(&self, last_round: u32, interrupted: bool) -> Instant {
        if interrupted { Instant::now() + SOON } else { self.deadline(last_round) + DELIVERED_WITHIN }
    }

    /// Hands all visits to rank 0; true if a signal has come meanwhile.
    pub fn deliver(&mut self, card: &Card, until: Instant) -> Result<bool, Undelivered> {
        let delivered = self.insist(Ask::Deliver, until, |station, reply, channel| match reply {
            Reply::Take => Some(station.hand_over(card, channel)),
            _ => None,
        });
        delivered.map(|((), stopped)| stopped)
    }

    /// The further slots of this rank; none after a signal.
    pub fn more(&mut self, until: Instant) -> Result<Vec<Slot>, Undelivered> {
        let further = self.insist(Ask::More, until, |_, reply, _| match reply {
            Reply::Slots(slots) => Some(Ok(slots)),
            _ => None,
        });
        further.map(|(slots, stopped)| if stopped { Vec::new() } else { slots })
    }

    fn hand_over(&self, card: &Card, mut channel: Channel) -> Result<(), String> {
        let mut send = |piece: Delivery| channel.send(&piece).map_err(|error| format!("rank 0 takes no visits: {error}"));
        send(Delivery::Card(Box::new(card.clone())))?;
        for some in self.visits.all().chunks(VISITS_AT_ONCE) {
            send(Delivery::Visits(some.to_vec()))?;
        }
        send(Delivery::End)?;
        match channel.recv(PATIENCE) {
            Ok(Reply::Taken) => Ok(()),
            Ok(other) => Err(format!("rank 0 answered {other:?} out of turn")),
            Err(error) => Err(format!("rank 0 does not say that it has the visits: {error}")),
        }
    }

    /// Asks rank 0 until `take` accepts its answer; rank 0 may be late as long as it lives. Returns what `take` returned, and
    /// true if a signal has come.
    fn insist<T>(
        &mut self,
        question: Ask,
        until: Instant,
        mut take: impl FnMut(&Self, Reply, Channel) -> Option<Result<T, String>>,
    ) -> Result<(T, bool), Undelivered> {
        let hello = self.asking(question);
        let mut heard = Instant::now();
        let mut interrupted = false;
        let mut until = until;
        loop {
            let peer = self.peers.find(0).map_err(|_| Undelivered("rank 0 is not there".into()))?;
            let left = until.saturating_duration_since(Instant::now()).clamp(Duration::from_millis(10), PATIENCE);
            let (why, pause) = match ask(&peer, &self.key, &hello, left) {
                Ok((_, Reply::NotYet { round, again_ms })) => {
                    heard = Instant::now();
                    (format!("rank 0 was still in round {round}"), Duration::from_millis(again_ms.clamp(1, 5_000)))
                }
                Ok((_, Reply::Refused { why })) => return Err(Undelivered(why)),
                Ok((channel, reply)) => match take(self, reply, channel) {
                    Some(Ok(taken)) => return Ok((taken, interrupted)),
                    Some(Err(why)) => {
                        // A delivery takes its time, in which rank 0 need not say a word.
                        heard = Instant::now();
                        (why, PAUSE)
                    }
                    None => return Err(Undelivered("rank 0 answered out of turn".into())),
                },
                Err(Unheard::Never(why)) => return Err(Undelivered(why)),
                // Rank 0 listened when it wrote its address, so it has gone.
                Err(Unheard::Refused(why)) if self.peers.listens_by_now(0) => return Err(Undelivered(why)),
                Err(other) => (other.why(), PAUSE),
            };
            let now = Instant::now();
            if now + pause > until || now.duration_since(heard) > self.patience() {
                return Err(Undelivered(why));
            }
            if self.sleep(pause).is_err() {
                if interrupted {
                    return Err(Undelivered("stopped".into()));
                }
                (interrupted, until) = (true, until.min(Instant::now() + SOON));
            }
        }
    }

    /// At rank 0: waits for the deliveries of those of `others` that live; returns the ranks that did not deliver, with the
    /// reason.
    pub fn collect(&mut self, others: &BTreeSet<u32>, until: Instant) -> (Collection, BTreeMap<u32, String>, bool) {
        let mut gone: BTreeMap<u32, String> = BTreeMap::new();
        let (mut silent, mut looked) = (BTreeMap::<u32, Instant>::new(), BTreeMap::<u32, Instant>::new());
        let (mut until, mut interrupted) = (until, false);
        let mut look_at = Instant::now() + LOOK_EVERY;
        loop {
            self.gate.drain();
            let delivered = self.gate.delivered();
            let mut awaited: Vec<u32> =
                others.iter().copied().filter(|rank| !delivered.contains(rank) && !gone.contains_key(rank)).collect();
            let now = Instant::now();
            if awaited.is_empty() || now >= until {
                gone.extend(awaited.into_iter().map(|rank| (rank, format!("rank {rank} did not deliver in time"))));
                let delivered = self.gate.delivered();
                gone.retain(|rank, _| !delivered.contains(rank));
                return (self.gate.take(), gone, interrupted);
            }
            if now >= look_at {
                // The ranks looked at longest ago come first.
                awaited.arrange_by_key(|rank| looked.get(rank).copied());
                for rank in awaited.into_iter().take(LOOKS) {
                    looked.insert(rank, now);
                    match self.look(rank) {
                        Ok(_) => {
                            silent.remove(&rank);
                        }
                        Err((why, patience)) => {
                            let since = *silent.entry(rank).or_insert(now);
                            if now.duration_since(since) >= patience.unwrap_or_else(|| self.patience()) {
                                gone.insert(rank, why);
                            }
                        }
                    }
                    // Signals wait meanwhile; the other ranks have their turn in the next pass.
                    if now.elapsed() >= LOOK_WITHIN {
                        break;
                    }
                }
                look_at = now + LOOK_EVERY;
            }
            let next = until.min(look_at).saturating_duration_since(Instant::now());
            let _ = wait(&[self.signals.as_fd(), self.gate.as_fd()], Some(next));
            if matches!(self.signals.next(), Ok(Some(_))) {
                if interrupted {
                    until = Instant::now();
                }
                (interrupted, until) = (true, until.min(Instant::now() + SOON));
            }
        }
    }

    /// At rank 0: stays until all `delivered` ranks have asked for their further slots; true if a signal ended the stay.
    pub fn stay(&self, delivered: &BTreeSet<u32>) -> bool {
        let until = Instant::now() + STAYS;
        while !self.gate.fetched().is_superset(delivered) && Instant::now() < until {
            self.gate.drain();
            if self.gate.fetched().is_superset(delivered) {
                return false;
            }
            let left = until.saturating_duration_since(Instant::now()).min(LOOK_WITHIN);
            let _ = wait(&[self.gate.as_fd(), self.signals.as_fd()], Some(left));
            if matches!(self.signals.next(), Ok(Some(_))) {
                return true;
            }
        }
        false
    }
}

/// Of the ranks that have `gone`, those that were not there to the end, or that nobody reached. One that only did not reach rank 0
/// any more has a report on each of its slots, its own or its client's figures.
pub fn not_to_the_end(gone: &BTreeMap<u32, String>, slots: impl Fn(u32) -> Vec<Slot>, visits: &[Told]) -> BTreeMap<u32, String> {
    // (rank, visit), ascending.
    type Report = (u32, (Pair, u32));
    let (mut measured, mut reported): (Vec<Report>, Vec<Report>) = (Vec::new(), Vec::new());
    for told in visits {
        let visit = (told.pair, told.visit.visit);
        for rank in [told.pair.0, told.pair.1].into_iter().filter(|rank| gone.contains_key(rank)) {
            if told.visit.missing.is_none() {
                measured.push((rank, visit));
            } else if told.by == rank {
                reported.push((rank, visit));
            }
        }
    }
    for all in [&mut measured, &mut reported] {
        all.arrange_by(Ord::cmp);
    }
    let is_missing = |rank: u32| {
        let of = |slot: &Slot| ((rank.min(slot.partner), rank.max(slot.partner)), slot.visit);
        let visits: Vec<(Pair, u32)> = slots(rank).iter().map(of).collect();
        let is_in = |all: &[Report], visit: &(Pair, u32)| all.binary_search(&(rank, *visit)).is_ok();
        let is_there = |visit: &(Pair, u32)| is_in(&measured, visit) || is_in(&reported, visit);
        !visits.iter().any(|visit| is_in(&measured, visit)) || !visits.iter().all(is_there)
    };
    gone.iter().filter(|(rank, _)| is_missing(**rank)).map(|(rank, why)| (*rank, why.clone())).gather()
}

#[cfg(test)]
mod tests {
    use hairpin_record::mesh::Visit;

    use super::*;
    use crate::setup::tests::setup;
    use crate::visit::tests::measured;

    /// Which of four ranks are missing if all but rank 0 have gone: `reports` makes of each visit what the ranks tell of it, and
    /// rank 3 had `later` slots too.
    fn missing(reports: impl Fn(Told) -> Vec<Told>, later: &[Slot]) -> Vec<u32> {
        let schedule = setup(4, "all").schedule().unwrap();
        let gone: BTreeMap<u32, String> = [1, 2, 3].map(|rank| (rank, format!("rank {rank} has gone"))).into();
        let visits: Vec<Told> =
            schedule.visits().map(|(pair, visit, _)| measured(pair, visit, 10_000, 500)).flat_map(reports).collect();
        let slots = |rank: u32| {
            let mut slots: Vec<Slot> = schedule.slots(rank).collect();
            slots.extend(later.iter().filter(|_| rank == 3));
            slots
        };
        let found = not_to_the_end(&gone, slots, &visits);
        assert!(found.iter().all(|(rank, why)| *why == gone[rank]), "{found:?}");
        found.into_keys().collect()
    }

    /// The same visit without figures, as `by` tells of it.
    fn without(told: &Told, by: u32) -> Told {
        let visit = Visit { missing: Some("why".into()), rtt_ns: None, histogram: String::new(), ..told.visit.clone() };
        Told { pair: told.pair, by, visit }
    }

    #[test]
    fn a_rank_with_a_report_on_each_visit_was_there_to_the_end() {
        assert!(missing(|told| vec![told], &[]).is_empty());
        let last_by = |by: &[u32]| {
            let reports = |told: Told| -> Vec<Told> {
                match (told.pair, told.visit.visit) {
                    ((2, 3), 2) => by.iter().map(|by| without(&told, *by)).collect(),
                    _ => vec![told],
                }
            };
            missing(reports, &[])
        };
        assert!(last_by(&[2, 3]).is_empty());
        assert_eq!((last_by(&[2]), last_by(&[3]), last_by(&[])), (vec![3], vec![2], vec![2, 3]), "they died before it");
        // It stayed for a further visit, and was gone then.
        let further = Slot { round: 8, visit: 3, partner: 0, client: false, explain: false };
        assert_eq!(missing(|told| vec![told], &[further]), [3]);
    }

    #[test]
    fn a_rank_that_nobody_reached_is_missing_though_it_says_so_itself() {
        let cut_off = |told: Told| match told.pair {
            (other, 3) => vec![without(&told, other), without(&told, 3)],
            _ => vec![told],
        };
        assert_eq!(missing(cut_off, &[]), [3]);
    }
}
