//! Typical round trips of a row, to hold a slow one against: those of some block, and after a while of another one.

use std::time::{Duration, Instant};

use hairpin_record::explain::{Direction, Explained};
use hairpin_record::incident::StageTime;
use hairpin_trace::causes::Typical;
use hairpin_trace::fold::Fold;
use hairpin_trace::join::Transaction;
use hairpin_trace::moment::{Moment, Route};

/// Round trips that are enough.
const ENOUGH: usize = 1_024;
/// Fewer are no measure for another one.
const LEAST: usize = 32;
/// The time until they are looked at anew.
const EVERY: Duration = Duration::from_secs(10);

/// The typical round trips of a row.
pub(super) struct Usual {
    route: Route,
    absent: Vec<Moment>,
    fold: Fold,
    /// When there were enough the last time.
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

    /// Adds those of a block.
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
        let stages = found.stages.into_iter().map(|stage| (stage.direction, stage.name, stage.typical_ns.round() as u64));
        (self.known, self.stages) = (Some(self.fold.typical()), stages.collect());
    }

    /// The typical round trip; until there are enough, of those that there are, unless they are few.
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
