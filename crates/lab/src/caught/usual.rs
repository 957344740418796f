//! Typical round trips of a row, with which a slow one is compared: of some blocks, and after a while of newer ones.

use std::time::{Duration, Instant};

use hairpin_record::explain::{Direction, Explained};
use hairpin_record::incident::StageTime;
use hairpin_trace::causes::Typical;
use hairpin_trace::fold::Fold;
use hairpin_trace::join::Transaction;
use hairpin_trace::moment::{Moment, Route};

/// Round trips that suffice until the next look.
const ENOUGH: usize = 1_024;
/// Fewer round trips do not show the typical one.
const LEAST: usize = 32;
/// Typical round trips are looked at anew after this time.
const EVERY: Duration = Duration::from_secs(10);

pub(super) struct Usual {
    route: Route,
    absent: Vec<Moment>,
    fold: Fold,
    /// When [`ENOUGH`] round trips were last there.
    since: Option<Instant>,
    known: Option<Typical>,
    /// The mean of each stage.
    stages: Vec<(Direction, String, u64)>,
}

impl Usual {
    /// For a path of this route, on a host where nothing stamps the `absent` moments.
    pub(super) fn new(route: Route, absent: Vec<Moment>) -> Usual {
        Usual { route, fold: Fold::new(route, absent.clone()), absent, since: None, known: None, stages: Vec::new() }
    }

    /// True if a block's round trips are wanted.
    pub(super) fn wants(&self) -> bool {
        self.since.is_none_or(|since| since.elapsed() >= EVERY)
    }

    /// Adds the round trips of a block.
    pub(super) fn add(&mut self, transactions: &[Transaction]) {
        transactions.iter().for_each(|one| self.fold.add(one));
        if self.fold.len() >= ENOUGH {
            self.settle();
            self.since = Some(Instant::now());
            self.fold = Fold::new(self.route, self.absent.clone());
        }
    }

    fn settle(&mut self) {
        let mut found = Explained::default();
        self.fold.finish(0.0, &mut found);
        // A stage that only untypical round trips passed has no typical time.
        let passed = found.stages.into_iter().filter(|stage| stage.typical_ns > 0.0);
        let stages = passed.map(|stage| (stage.direction, stage.name, stage.typical_ns.round() as u64));
        (self.known, self.stages) = (Some(self.fold.typical()), stages.collect());
    }

    /// The typical round trip: of the last [`ENOUGH`], and before that of [`LEAST`] or more; `None` with fewer.
    pub(super) fn typical(&mut self) -> Option<&Typical> {
        if self.since.is_none() && self.fold.len() >= LEAST {
            self.settle();
        }
        self.known.as_ref()
    }

    /// The stages of one round trip beside the typical ones.
    pub(super) fn stages(&self, transaction: &Transaction) -> Vec<StageTime> {
        let mut one = Fold::new(self.route, self.absent.clone());
        one.add(transaction);
        let mut found = Explained::default();
        one.finish(0.0, &mut found);
        let stages = found.stages.into_iter().map(|stage| StageTime {
            typical_ns: self
                .stages
                .iter()
                .find(|(way, name, _)| (*way, name) == (stage.direction, &stage.name))
                .map(|(.., ns)| *ns),
            ns: stage.ns.max.unwrap_or_default(),
            stage: stage.name,
            side: stage.side,
            direction: stage.direction,
        });
        stages.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A round trip over shared memory: a turn-around of 10 ns and a way back of 200 ns follow its way there.
    fn round_trip(there: &[(Moment, i64)]) -> Transaction {
        let at = there.last().map_or(0, |(_, at)| *at) + 10;
        let back = vec![(Moment::Send, at), (Moment::Returned, at + 200)];
        Transaction { sequence: 0, packets: 1, ways: [there.to_vec(), back], home: None }
    }

    /// Round trips whose way there takes this long, without a stamp between.
    fn block(count: usize, there_ns: i64) -> Vec<Transaction> {
        vec![round_trip(&[(Moment::Send, 0), (Moment::Returned, there_ns)]); count]
    }

    #[test]
    fn the_stages_of_a_slow_round_trip_stand_beside_the_typical_ones() {
        let mut usual = Usual::new(Route::Memory, Vec::new());
        let slow = round_trip(&[(Moment::Send, 0), (Moment::Kicked, 100), (Moment::Seen, 90_100), (Moment::Returned, 90_300)]);
        assert!(usual.stages(&slow).iter().all(|stage| stage.typical_ns.is_none()), "none is known yet");
        // One in eight is slow, and not typical.
        usual.add(&[block(ENOUGH / 8 * 7, 300), block(ENOUGH / 8, 90_300)].concat());
        let stages = usual.stages(&slow);
        let told: Vec<(Direction, &str, u64, Option<u64>)> =
            stages.iter().map(|one| (one.direction, &*one.stage, one.ns, one.typical_ns)).collect();
        let expected = [
            (Direction::Request, "fill", 100, None),
            (Direction::Request, "ring", 90_000, Some(300)),
            (Direction::Request, "receive", 200, None),
            (Direction::Reply, "turn-around", 10, Some(10)),
            (Direction::Reply, "ring", 200, Some(200)),
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn few_round_trips_are_no_measure_and_newer_ones_replace_the_old() {
        let mut usual = Usual::new(Route::Memory, Vec::new());
        let seen = |usual: &mut Usual| (usual.typical().map(|typical| typical.rtt_ns), usual.wants());
        usual.add(&block(LEAST - 1, 700));
        assert_eq!(seen(&mut usual), (None, true));
        usual.add(&block(1, 700));
        assert_eq!(seen(&mut usual), (Some(910), true));
        usual.add(&block(ENOUGH - LEAST, 700));
        assert_eq!(seen(&mut usual), (Some(910), false));
        usual.since = Instant::now().checked_sub(EVERY);
        assert_eq!(seen(&mut usual), (Some(910), true));
        usual.add(&block(ENOUGH - 1, 100));
        assert_eq!(seen(&mut usual), (Some(910), true), "the others are not enough yet");
        usual.add(&block(1, 100));
        assert_eq!(seen(&mut usual), (Some(310), false), "those before play no part");
    }
}
