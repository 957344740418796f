//! Folds transactions into stages: distributions, and typical transactions beside slow ones.
//!
//! ```text
//!   a way        Send ──── Queued ──── Started ──── …                    interval = stage + observer
//!   observer     half of a hook's cost before its stamp, half after it; at most the interval
//!   residual     an interval that no hook explains
//!   RTT          = stages + observer + residual, exactly, transaction by transaction
//! ```

use std::collections::{BTreeMap, HashMap};

use hairpin_record::explain::{Direction, Explained, Group, Hook, Stage};
use hairpin_record::histogram::Times;
use hairpin_record::run::Side;
use hairpin_units::{Arrange, Quantile};

use crate::causes::Typical;
use crate::join::Transaction;
use crate::moment::{Moment, Route, TURN_AROUND, stage};

/// An interval's place in a round trip.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct IntervalPlace {
    direction: Direction,
    from: Moment,
    to: Moment,
    slept: bool,
    /// For the time outside two hosts: the reply's interval that is counted with this one.
    also: Option<(Moment, Moment)>,
}

impl IntervalPlace {
    /// Hook stamps at its ends.
    fn hooks(self) -> usize {
        let ends = [(self.from, self.to)].into_iter().chain(self.also).flat_map(|(from, to)| [from, to]);
        ends.filter(|moment| moment.is_hook()).count()
    }

    /// Hooks that end it.
    fn ended_by(self) -> impl Iterator<Item = Moment> {
        let also = self.also.map(|(_, to)| to);
        [self.to].into_iter().chain(also).filter(|moment| moment.is_hook())
    }
}

/// The sequence of intervals of a transaction; there are few different ones.
type Shape = Vec<IntervalPlace>;

/// One interval of a shape.
#[derive(Clone, Copy)]
struct Part {
    /// Its stage; `None` if it is residual.
    stage: Option<usize>,
    /// Hook stamps at its ends.
    hooks: usize,
}

/// One transaction, folded: its shape, and the duration of each interval.
#[derive(Clone, Copy, Debug)]
struct Folded {
    shape: u32,
    first: usize,
    rtt_ns: u64,
}

/// All transactions of a path.
#[derive(Debug)]
pub struct Fold {
    route: Route,
    missing: Vec<Moment>,
    shapes: Vec<Shape>,
    known: HashMap<Shape, u32>,
    folded: Vec<Folded>,
    /// In ns; `u32::MAX` for one in `long`.
    intervals: Vec<u32>,
    /// Intervals of 4.29 s and more, by their place.
    long: HashMap<usize, u64>,
}

impl Fold {
    /// For a path of this route; `missing` moments are not stamped on this host.
    pub fn new(route: Route, missing: Vec<Moment>) -> Fold {
        Fold {
            route,
            missing,
            shapes: Vec::new(),
            known: HashMap::new(),
            folded: Vec::new(),
            intervals: Vec::new(),
            long: HashMap::new(),
        }
    }

    /// The number of transactions.
    pub fn len(&self) -> usize {
        self.folded.len()
    }

    pub fn is_empty(&self) -> bool {
        self.folded.is_empty()
    }

    /// Adds a transaction.
    pub fn add(&mut self, transaction: &Transaction) {
        let first = self.intervals.len();
        let mut shape = Shape::new();
        let mut last = transaction.began();
        for (direction, way) in [Direction::Request, Direction::Reply].into_iter().zip(&transaction.ways) {
            let slept = slept(way);
            for (at, (moment, ns)) in way.iter().enumerate() {
                // The reply's way begins with the turn-around.
                let from = if at == 0 { Moment::Returned } else { way[at - 1].0 };
                let outside = transaction.is_outside(direction, at);
                if (at > 0 || direction == Direction::Reply) && !outside {
                    let crosses = direction == Direction::Request && from <= Moment::Started && *moment >= Moment::Received;
                    let also = transaction
                        .home
                        .filter(|_| crosses)
                        .map(|home| (transaction.ways[1][home - 1].0, transaction.ways[1][home].0));
                    shape.push(IntervalPlace { direction, from, to: *moment, slept, also });
                    let took = u64::try_from(ns - last).unwrap_or(0);
                    let short = u32::try_from(took).unwrap_or(u32::MAX);
                    if short == u32::MAX {
                        self.long.insert(self.intervals.len(), took);
                    }
                    self.intervals.push(short);
                }
                last = *ns;
            }
        }
        let next = self.shapes.len() as u32;
        let shape = *self.known.entry(shape).or_insert_with_key(|shape| {
            self.shapes.push(shape.clone());
            next
        });
        self.folded.push(Folded { shape, first, rtt_ns: transaction.rtt_ns() });
    }

    /// The interval at this place, in ns.
    fn interval(&self, at: usize) -> u64 {
        match self.intervals[at] {
            u32::MAX => self.long[&at],
            short => short.into(),
        }
    }

    /// Average number of hook stamps per transaction, the divisor of the observer's cost.
    pub fn hooks_per_transaction(&self) -> f64 {
        self.hits().into_values().sum::<u64>() as f64 / self.folded.len().max(1) as f64
    }

    /// Number of stamps of each hook.
    fn hits(&self) -> BTreeMap<Moment, u64> {
        let mut of_shape = vec![0_u64; self.shapes.len()];
        self.folded.iter().for_each(|folded| of_shape[folded.shape as usize] += 1);
        let mut hits = BTreeMap::new();
        for (shape, count) in self.shapes.iter().zip(of_shape) {
            shape.iter().flat_map(|between| between.ended_by()).for_each(|hook| *hits.entry(hook).or_default() += count);
        }
        hits
    }

    /// Writes stages, observer, residual, RTT, hooks and both groups into `into`. Each hook adds `hook_ns` to a
    /// transaction.
    pub fn finish(&self, hook_ns: f64, into: &mut Explained) {
        let mut stages: Vec<Sum> = Vec::new();
        let parts: Vec<Vec<Part>> = self.shapes.iter().map(|shape| self.parts(shape, &mut stages)).collect();
        let mut all = Sums::default();
        let rtts = self.sorted();
        // Too few round trips for a p99 have no slow ones: the slowest one would stand for them.
        let tells_slow = Quantile::P99.is_supported_by(rtts.len() as u64);
        let groups = [range(&rtts, 0.4, 0.6), if tells_slow { range(&rtts, 0.99, 1.0) } else { (0, 0) }];
        let mut sums = [Mean::new(stages.len()), Mean::new(stages.len())];
        let mut own = vec![0_u64; stages.len()];
        for folded in &self.folded {
            own.fill(0);
            let (mut observer, mut residual, mut carried) = (0, 0, 0.0);
            for (at, part) in parts[folded.shape as usize].iter().enumerate() {
                let took = self.interval(folded.first + at);
                // Rounds to whole ns without loss: the remainder goes to the next interval.
                carried += hook_ns * part.hooks as f64 / 2.0;
                let cost = (carried.floor().max(0.0) as u64).min(took);
                carried -= cost as f64;
                observer += cost;
                match part.stage {
                    Some(stage) => {
                        own[stage] += took - cost;
                        stages[stage].passed = true;
                    }
                    None => residual += took - cost,
                }
            }
            for (sum, own) in stages.iter_mut().zip(&own) {
                if std::mem::take(&mut sum.passed) {
                    sum.times.record(*own);
                }
            }
            all.rtt.record(folded.rtt_ns);
            all.observer.record(observer);
            all.residual.record(residual);
            for ((from, to), mean) in groups.iter().zip(&mut sums).take(1 + usize::from(tells_slow)) {
                if (*from..=*to).contains(&folded.rtt_ns) {
                    mean.add(&own, folded.rtt_ns, observer, residual);
                }
            }
        }
        let [typical, slow] = sums;
        into.rtt_ns = all.rtt.quantiles();
        into.observer_ns = all.observer.quantiles();
        into.residual_ns = all.residual.quantiles();
        into.typical = typical.group(groups[0]);
        into.slow = slow.group(groups[1]);
        let count = self.folded.len().max(1) as f64;
        let hook = |(moment, hits): (Moment, u64)| Hook { name: moment.name().into(), per_transaction: hits as f64 / count };
        into.hooks = self.hits().into_iter().map(hook).collect();
        let mut order: Vec<usize> = (0..stages.len()).collect();
        order.arrange_by_key(|at| (stages[*at].direction, stages[*at].from.min(stages[*at].to), stages[*at].to));
        into.stages = order.into_iter().map(|at| stages[at].stage(typical.of(at), slow.of(at))).collect();
    }

    /// The typical transaction: the median RTT, and the median of each interval over the transactions with a typical
    /// RTT.
    pub fn typical(&self) -> Typical {
        let rtts = self.sorted();
        let (from, to) = range(&rtts, 0.4, 0.6);
        let mut intervals: HashMap<(Direction, Moment, Moment), Vec<u64>> = HashMap::new();
        for folded in self.folded.iter().filter(|folded| (from..=to).contains(&folded.rtt_ns)) {
            for (at, between) in self.shapes[folded.shape as usize].iter().enumerate() {
                intervals
                    .entry((between.direction, between.from, between.to))
                    .or_default()
                    .push(self.interval(folded.first + at));
            }
        }
        let median = |mut all: Vec<u64>| {
            let middle = all.len() / 2;
            *all.select_nth_unstable(middle).1
        };
        Typical {
            rtt_ns: range(&rtts, 0.5, 0.5).0,
            // Too few round trips have no p99, and so no slow ones.
            slow_ns: if Quantile::P99.is_supported_by(rtts.len() as u64) { range(&rtts, 0.99, 1.0).0 } else { u64::MAX },
            intervals: intervals.into_iter().map(|(between, all)| (between, median(all))).collect(),
        }
    }

    /// RTTs in ascending order.
    fn sorted(&self) -> Vec<u64> {
        let mut rtts: Vec<u64> = self.folded.iter().map(|folded| folded.rtt_ns).collect();
        rtts.sort_unstable();
        rtts
    }

    /// The stages of a shape; new ones are added to `stages`.
    fn parts(&self, shape: &Shape, stages: &mut Vec<Sum>) -> Vec<Part> {
        let part = |between: &IntervalPlace| {
            let IntervalPlace { direction, from, to, slept, also } = *between;
            let name = match (from, to) {
                (Moment::Returned, Moment::Send) => Some(TURN_AROUND.to_owned()),
                _ => stage(self.route, from, to, slept, &self.missing),
            };
            let hooks = between.hooks();
            let Some(mut name) = name else { return Part { stage: None, hooks } };
            if let Some(also) = also.and_then(|(from, to)| stage(self.route, from, to, false, &self.missing)) {
                let new: Vec<&str> = also.split(" + ").filter(|part| name.split(" + ").all(|known| known != *part)).collect();
                let joint: Vec<&str> = std::iter::once(&*name).chain(new).collect();
                name = joint.join(" + ");
            }
            let known = stages.iter().position(|sum| (sum.direction, &sum.name) == (direction, &name));
            let at = known.unwrap_or_else(|| {
                stages.push(Sum { name, direction, from, to, times: Times::new(), passed: false });
                stages.len() - 1
            });
            // A sleeping receiver receives later on its way than one that is awake: the stage stands at the later place,
            // whichever came first.
            stages[at].from = stages[at].from.max(from);
            Part { stage: Some(at), hooks }
        };
        shape.iter().map(part).collect()
    }
}

/// True if the receiver of a way slept.
fn slept(way: &[(Moment, i64)]) -> bool {
    way.iter().any(|(moment, _)| matches!(moment, Moment::Waking | Moment::Woken | Moment::Switched))
}

/// The RTTs at two quantiles: the group is the transactions between them.
fn range(sorted: &[u64], from: f64, to: f64) -> (u64, u64) {
    let at = |q: f64| sorted.get(((sorted.len() as f64 * q) as usize).min(sorted.len().saturating_sub(1))).copied().unwrap_or(0);
    (at(from), at(to))
}

/// A stage over all transactions.
struct Sum {
    name: String,
    direction: Direction,
    from: Moment,
    to: Moment,
    times: Times,
    /// True if the current transaction passed it.
    passed: bool,
}

impl Sum {
    fn stage(&self, typical_ns: f64, slow_ns: f64) -> Stage {
        Stage {
            name: self.name.clone(),
            side: side(self.direction, self.from),
            direction: self.direction,
            from: self.from.name().into(),
            to: self.to.name().into(),
            ns: self.times.quantiles(),
            histogram: self.times.encode(),
            typical_ns,
            slow_ns,
        }
    }
}

/// The side of a stage: the sender's until the packet has left its driver.
fn side(direction: Direction, from: Moment) -> Side {
    let sender = from < Moment::Passed;
    match (direction, sender || from == Moment::Returned) {
        (Direction::Request, true) | (Direction::Reply, false) => Side::Client,
        (Direction::Request, false) | (Direction::Reply, true) => Side::Server,
    }
}

#[derive(Default)]
struct Sums {
    rtt: Times,
    observer: Times,
    residual: Times,
}

/// Sums over a group.
struct Mean {
    count: u64,
    stages: Vec<u64>,
    rtt: u64,
    observer: u64,
    residual: u64,
}

impl Mean {
    fn new(stages: usize) -> Mean {
        Mean { count: 0, stages: vec![0; stages], rtt: 0, observer: 0, residual: 0 }
    }

    fn add(&mut self, own: &[u64], rtt: u64, observer: u64, residual: u64) {
        self.count += 1;
        self.stages.iter_mut().zip(own).for_each(|(sum, own)| *sum += own);
        self.rtt += rtt;
        self.observer += observer;
        self.residual += residual;
    }

    fn mean(&self, sum: u64) -> f64 {
        sum as f64 / self.count.max(1) as f64
    }

    fn of(&self, stage: usize) -> f64 {
        self.mean(self.stages[stage])
    }

    fn group(&self, (from_ns, to_ns): (u64, u64)) -> Group {
        Group {
            count: self.count,
            from_ns,
            to_ns,
            rtt_ns: self.mean(self.rtt),
            observer_ns: self.mean(self.observer),
            residual_ns: self.mean(self.residual),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transaction(request: &[Moment]) -> Transaction {
        let way =
            |began: i64, moments: &[Moment]| moments.iter().zip(0..).map(|(moment, at)| (*moment, began + 100 * at)).collect();
        let reply = [Moment::Send, Moment::Queued, Moment::Ready, Moment::Copied, Moment::Returned];
        Transaction { sequence: 0, packets: 1, ways: [way(0, request), way(10_000, &reply)], home: None }
    }

    #[test]
    fn a_stage_stands_after_the_sleep_even_if_the_first_receiver_was_awake() {
        use Moment::{Copied, Passed, Queued, Ready, Received, Returned, Send, Started, Switched, Waking, Woken};
        let awake = transaction(&[Send, Queued, Started, Passed, Received, Ready, Copied, Returned]);
        let slept = transaction(&[Send, Queued, Started, Passed, Received, Ready, Waking, Woken, Switched, Copied, Returned]);
        for order in [[&awake, &slept], [&slept, &awake]] {
            let mut fold = Fold::new(Route::Sockets, Vec::new());
            order.into_iter().for_each(|one| fold.add(one));
            let mut found = Explained::default();
            fold.finish(0.0, &mut found);
            let request = found.stages.iter().filter(|stage| stage.direction == Direction::Request);
            let names: Vec<&str> = request.map(|stage| &*stage.name).collect();
            let stack = ["send call", "qdisc", "driver", "softirq", "stack"];
            assert_eq!(names, [&stack[..], &["notify", "wake-up", "run queue", "receive", "return"]].concat());
        }
    }

    #[test]
    fn the_hooks_of_both_hosts_count() {
        use Moment::{Received, Returned, Send, Started};
        let request = vec![(Send, 0), (Started, 1_000), (Received, 9_000), (Returned, 10_000)];
        let reply = vec![(Send, 11_000), (Started, 12_000), (Received, 12_000), (Returned, 13_000)];
        let mut fold = Fold::new(Route::Remote, Vec::new());
        fold.add(&Transaction { sequence: 0, packets: 1, ways: [request, reply], home: Some(2) });
        let mut found = Explained::default();
        fold.finish(100.0, &mut found);
        let hooks: Vec<(&str, f64)> = found.hooks.iter().map(|hook| (&*hook.name, hook.per_transaction)).collect();
        assert_eq!(hooks, [(Started.name(), 2.0), (Received.name(), 2.0)]);
        assert_eq!((fold.hooks_per_transaction(), found.typical.observer_ns), (4.0, 400.0));
    }

    #[test]
    fn too_few_round_trips_for_a_p99_have_no_slow_ones() {
        use Moment::{Returned, Send};
        for (count, slow) in [(0, 0), (1, 0), (999, 0), (1_000, 10)] {
            let mut fold = Fold::new(Route::Sockets, Vec::new());
            for ns in 0..count {
                let ways = [vec![(Send, 0), (Returned, 10_000)], vec![(Send, 20_000), (Returned, 30_000 + ns)]];
                fold.add(&Transaction { sequence: 0, packets: 1, ways, home: None });
            }
            let mut found = Explained::default();
            fold.finish(0.0, &mut found);
            assert_eq!(found.slow.count, slow, "{count} round trips");
            assert!(slow > 0 || found.slow == Group::default() && found.stages.iter().all(|stage| stage.slow_ns == 0.0));
        }
    }

    #[test]
    fn a_round_trip_of_seconds_adds_up() {
        use Moment::{Returned, Send};
        let ways = [vec![(Send, 0), (Returned, 5_000_000_000)], vec![(Send, 5_000_000_100), (Returned, 5_000_000_300)]];
        let mut fold = Fold::new(Route::Sockets, Vec::new());
        fold.add(&Transaction { sequence: 0, packets: 1, ways, home: None });
        let mut found = Explained::default();
        fold.finish(0.0, &mut found);
        let stages: f64 = found.stages.iter().map(|stage| stage.typical_ns).sum();
        let Group { rtt_ns, observer_ns, residual_ns, .. } = found.typical;
        assert_eq!((rtt_ns, stages + observer_ns + residual_ns), (5_000_000_300.0, 5_000_000_300.0));
        assert_eq!(fold.typical().intervals[&(Direction::Request, Send, Returned)], 5_000_000_000);
    }
}
