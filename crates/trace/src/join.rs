//! Joins the stamps of the kernel and of both programs into transactions.
//!
//! ```text
//!   client   sequence, sent, received ──┐ by time: a thread has one request in flight
//!   records  one per request packet ────┼──▶ transaction: request's way, turn-around, reply's way
//!   rings    kicks, descriptors seen ───┤ by time
//!   server   sequence, received, sent ──┘ by sequence and time
//! ```
//! Between two hosts each host joins its own stamps into halves (`halves.rs`).
//! All stamps are first converted to the client's time-stamp counter, with readings of both clocks before and after the
//! block.

use hairpin_record::explain::Direction;
use hairpin_sys::clock::Relation;
use hairpin_sys::shared::{Packet, Stamp, Which};

use crate::moment::Moment;
use crate::tracer::Record;

/// Transactions left out at the start of a block: those after a pause are not typical.
const SETTLE: usize = 8;
/// In a short block, at most this part of it is left out.
const SETTLE_PART: usize = 8;
/// Two clocks that move apart by more than this share of the time are not two rates: one of them was stopped or set.
const RATE_WITHIN: f64 = 0.01;

/// Converts the kernel's clock to the program's, between two readings of both.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    from: Relation,
    /// Ticks of the program's clock per ns, and ns of the program's clock per ns of CLOCK_MONOTONIC.
    rate: f64,
    slope: f64,
    /// Distance by which CLOCK_MONOTONIC ran ahead of the program's clock over the block, in ns.
    ahead: f64,
    ns: f64,
}

impl Span {
    /// The span between two readings; `rate` is the program's clock rate in ticks per ns.
    pub fn new(from: Relation, to: Relation, rate: f64) -> Span {
        let ns = to.ticks.since(from.ticks) as f64 / rate;
        let kernel = (monotonic(&to) - monotonic(&from)) as f64;
        Span { from, rate, slope: if kernel > 0.0 { ns / kernel } else { 1.0 }, ahead: kernel - ns, ns }
    }

    /// A span between two times of CLOCK_MONOTONIC, with ticks of one ns.
    #[cfg(test)]
    pub(crate) fn of_times(from: u64, to: u64) -> Span {
        let relation = |ns: u64| Relation {
            ticks: hairpin_sys::clock::Ticks(ns),
            raw_ns: ns,
            monotonic_less_raw_ns: 0,
            realtime_less_raw_ns: 0,
            width: 0,
            step_ns: 0.0,
        };
        Span::new(relation(from), relation(to), 1.0)
    }

    /// Clocks that disagree by more than this over the block make it useless, in ns.
    pub(crate) fn tolerance_ns(&self) -> f64 {
        self.from.tolerance_ns()
    }

    /// The length in ns.
    pub fn length_ns(&self) -> i64 {
        self.ns.round() as i64
    }

    /// False if one of the clocks was stopped or set meanwhile, as in a guest that stood still: stamps of the two cannot be
    /// compared then.
    pub fn is_steady(&self) -> bool {
        self.ahead.abs() <= RATE_WITHIN * self.ns + self.tolerance_ns()
    }

    /// A tick of the program's clock in ns since the first reading.
    pub fn of_ticks(&self, ticks: u64) -> i64 {
        ((ticks as i64 - self.from.ticks.0 as i64) as f64 / self.rate).round() as i64
    }

    /// A stamp of CLOCK_MONOTONIC on the same scale.
    pub fn of_monotonic(&self, ns: u64) -> i64 {
        ((ns as i64 - monotonic(&self.from)) as f64 * self.slope).round() as i64
    }
}

/// The drift of the two clocks against each other, over the blocks so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Drift {
    /// Over the accepted blocks.
    known: Drifted,
    /// Over the last block, if it was rejected.
    rejected: Option<Drifted>,
}

/// A distance of two clocks, and the time in which they gained it, in ns.
#[derive(Clone, Copy, Debug, Default)]
struct Drifted {
    ahead: f64,
    ns: f64,
}

impl Drift {
    /// True if the clocks drifted over a block as they did before, to within [`Relation::tolerance_ns`]; the block is then added
    /// to those before. A block longer than all before it together is a better measure of the drift, and is accepted. So is one
    /// that drifted as the rejected one before it: the clocks have another rate since then. A span that is not steady never is.
    pub fn agrees(&mut self, span: &Span) -> bool {
        if !span.is_steady() {
            return false;
        }
        let is_like = |past: Drifted| (span.ahead - past.ahead / past.ns * span.ns).abs() <= span.tolerance_ns();
        let before = match self.rejected.take() {
            _ if self.known.ns < span.ns || is_like(self.known) => self.known,
            Some(rejected) if is_like(rejected) => rejected,
            _ => {
                self.rejected = Some(Drifted { ahead: span.ahead, ns: span.ns });
                return false;
            }
        };
        self.known = Drifted { ahead: before.ahead + span.ahead, ns: before.ns + span.ns };
        true
    }
}

fn monotonic(relation: &Relation) -> i64 {
    relation.raw_ns as i64 + relation.monotonic_less_raw_ns
}

/// One transaction: the moments of both ways, in ns since the block's first reading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction {
    /// The sequence number in the payload.
    pub sequence: u32,
    /// Request packets seen; more than one if the request was split or sent again.
    pub packets: usize,
    /// The way of the request and of the reply, each from `Send` to `Returned`.
    pub ways: [Vec<(Moment, i64)>; 2],
    /// Between two hosts: the first moment of the reply's way on the client's host. The time outside both hosts is
    /// known only for both ways together, and is part of the request's way.
    pub home: Option<usize>,
}

impl Transaction {
    /// From the client's send call to its receive call's return.
    pub fn rtt_ns(&self) -> u64 {
        let at = |way: usize, last: bool| {
            let moment = if last { self.ways[way].last() } else { self.ways[way].first() };
            moment.map_or(0, |(_, at)| *at)
        };
        u64::try_from(at(1, true) - at(0, false)).unwrap_or(0)
    }

    /// True if the interval that ends at this moment is outside both hosts, and counted elsewhere.
    pub fn is_outside(&self, direction: Direction, at: usize) -> bool {
        direction == Direction::Reply && self.home == Some(at)
    }

    /// Time of entry of its send call.
    pub fn began(&self) -> i64 {
        self.ways[0].first().map_or(0, |(_, at)| *at)
    }
}

/// A block's transactions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Joined {
    /// Matched transactions.
    pub transactions: Vec<Transaction>,
    /// Transactions without a stamp of the server, or of the kernel where one is expected.
    pub unmatched: u64,
}

/// The number of transactions left out at the start of a block of `count`.
pub fn settling(count: usize) -> usize {
    SETTLE.min(count / SETTLE_PART)
}

/// The stamps of the ring libraries of both sides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rings {
    pub client: Vec<Packet>,
    pub server: Vec<Packet>,
}

/// The stamps of one side, taken in order.
struct Ring<'a>(&'a [Packet]);

impl Ring<'_> {
    /// The first kick and the last descriptor between two ticks; earlier stamps are skipped.
    fn between(&mut self, from: u64, to: u64) -> (Option<u64>, Option<u64>) {
        let (mut kicked, mut seen) = (None, None);
        while let Some((stamp, rest)) = self.0.split_first().filter(|(stamp, _)| stamp.at <= to) {
            match stamp.which {
                _ if stamp.at < from => {}
                Which::Kicked => kicked = kicked.or(Some(stamp.at)),
                Which::Seen => seen = Some(stamp.at),
                Which::Scheduled
                | Which::SoftwareOut
                | Which::SoftwareIn
                | Which::HardwareOut
                | Which::HardwareIn
                | Which::Stray => {}
            }
            self.0 = rest;
        }
        (kicked, seen)
    }
}

/// Joins the transactions of a block that have client stamps. `records` is `None` if the kernel sees nothing of the path.
pub fn join(client: &[Stamp], server: &[Stamp], records: Option<&[Record]>, rings: &Rings, span: &Span) -> Joined {
    let (mut clients, mut servers) = (Ring(&rings.client), Ring(&rings.server));
    let mut joined = Joined::default();
    let mut server = server.iter().peekable();
    let mut records = records.map(|records| records.iter().peekable());
    let near = span.tolerance_ns() as i64;
    for stamp in client {
        let answered = loop {
            match server.peek() {
                Some(earlier) if earlier.first < stamp.first => {
                    server.next();
                }
                Some(inside) if inside.second <= stamp.second && inside.sequence == stamp.sequence => break server.next(),
                _ => break None,
            }
        };
        let (sent, received) = (span.of_ticks(stamp.first.0), span.of_ticks(stamp.second.0));
        let mut packets = 0;
        let record = records.as_mut().map(|records| {
            let mut last = None;
            while let Some(record) = records.peek() {
                let at = record.ways[0].first().map_or(i64::MIN, |(_, ns)| span.of_monotonic(*ns));
                if at > received {
                    break;
                }
                if at >= sent - near {
                    (last, packets) = (Some(*record), packets + 1);
                }
                records.next();
            }
            last
        });
        let (Some(answered), false) = (answered, record == Some(None)) else {
            joined.unmatched += 1;
            continue;
        };
        let none = Record::default();
        let record = record.flatten().unwrap_or(&none);
        let ends = [(sent, span.of_ticks(answered.first.0)), (span.of_ticks(answered.second.0), received)];
        let (kicked, came) = clients.between(stamp.first.0, stamp.second.0);
        let (_, reached) = servers.between(stamp.first.0, answered.first.0);
        let (answers, _) = servers.between(answered.second.0, stamp.second.0);
        let rings = [(kicked, reached), (answers, came)];
        let ways = [0, 1].map(|way| in_order(moments(&record.ways[way], rings[way], span), ends[way], near));
        joined.transactions.push(Transaction { sequence: stamp.sequence, packets, ways, home: None });
    }
    joined
}

/// The moments of a way that were stamped by hooks and by the rings of sender and receiver, in the order of the way.
fn moments(stamped: &[(Moment, u64)], (kicked, seen): (Option<u64>, Option<u64>), span: &Span) -> Vec<(Moment, i64)> {
    let hooks = stamped.iter().map(|(moment, ns)| (*moment, span.of_monotonic(*ns)));
    let own = |moment, ticks: Option<u64>| ticks.map(|ticks| (moment, span.of_ticks(ticks)));
    own(Moment::Kicked, kicked).into_iter().chain(hooks).chain(own(Moment::Seen, seen)).collect()
}

/// The moments of a way between the programs' stamps, also in the order of time: a moment stamped after a later one
/// belongs to a side branch, and is left out. A stamp that lies outside by at most `near` is moved to the nearer end.
fn in_order(moments: Vec<(Moment, i64)>, (sent, returned): (i64, i64), near: i64) -> Vec<(Moment, i64)> {
    let mut way = vec![(Moment::Returned, returned)];
    let mut next = returned;
    for (moment, mut at) in moments.into_iter().rev() {
        if at > returned && at <= returned + near {
            at = returned;
        }
        if at < sent && at >= sent - near {
            at = sent;
        }
        if at <= next && at >= sent {
            way.push((moment, at));
            next = at;
        }
    }
    way.push((Moment::Send, sent));
    way.reverse();
    way
}

#[cfg(test)]
mod tests {
    use hairpin_sys::clock::Ticks;

    use super::*;

    /// The program's clock ticks twice a ns; CLOCK_MONOTONIC is 1,000,000 ns ahead and runs 1 in 100 faster.
    fn span() -> Span {
        let relation = |ticks: u64, monotonic: u64| Relation {
            ticks: Ticks(ticks),
            raw_ns: 0,
            monotonic_less_raw_ns: monotonic as i64,
            realtime_less_raw_ns: 0,
            width: 0,
            step_ns: 0.0,
        };
        Span::new(relation(2_000, 1_000_000), relation(2_000 + 200_000, 1_000_000 + 101_000), 2.0)
    }

    /// A stamp at these ns since the first reading.
    fn stamp(sequence: u32, first: u64, second: u64) -> Stamp {
        Stamp { sequence, first: Ticks(2_000 + 2 * first), second: Ticks(2_000 + 2 * second) }
    }

    fn monotonic_at(ns: u64) -> u64 {
        1_000_000 + (ns as f64 * 1.01).round() as u64
    }

    fn record(request: &[(Moment, u64)], reply: &[(Moment, u64)]) -> Record {
        Record { ways: [request, reply].map(|way| way.iter().map(|(moment, ns)| (*moment, monotonic_at(*ns))).collect()) }
    }

    #[test]
    fn joins_stamps_of_three_clocks_into_one_transaction() {
        let records = [record(&[(Moment::Queued, 1_100), (Moment::Ready, 1_300)], &[(Moment::Queued, 1_550)])];
        let joined = join(&[stamp(9, 1_000, 2_000)], &[stamp(9, 1_400, 1_500)], Some(&records), &Rings::default(), &span());
        assert_eq!(joined.unmatched, 0);
        let transaction = &joined.transactions[0];
        assert_eq!((transaction.rtt_ns(), transaction.packets, transaction.began()), (1_000, 1, 1_000));
        let request = [(Moment::Send, 1_000), (Moment::Queued, 1_100), (Moment::Ready, 1_300), (Moment::Returned, 1_400)];
        assert_eq!(transaction.ways[0], request);
        assert_eq!(transaction.ways[1], [(Moment::Send, 1_500), (Moment::Queued, 1_550), (Moment::Returned, 2_000)]);
    }

    #[test]
    fn counts_unmatched_stamps_and_keeps_the_rest() {
        let both = |n: u64| record(&[(Moment::Queued, n + 100)], &[(Moment::Queued, n + 600)]);
        let stamps = [stamp(1, 1_000, 2_000), stamp(2, 3_000, 4_000), stamp(3, 5_000, 6_000), stamp(4, 7_000, 8_000)];
        // Transaction 2 has no server stamps, 3 no record; the first record matches none; 4 was sent twice.
        let server = [stamp(1, 1_400, 1_500), stamp(7, 3_400, 3_500), stamp(3, 5_400, 5_500), stamp(4, 7_400, 7_500)];
        let records = [both(100), both(1_000), both(3_000), both(7_000), both(7_200)];
        let joined = join(&stamps, &server, Some(&records), &Rings::default(), &span());
        let found: Vec<_> = joined.transactions.iter().map(|t| (t.sequence, t.packets)).collect();
        assert_eq!((found, joined.unmatched), (vec![(1, 1), (4, 2)], 2));
        assert_eq!(joined.transactions[1].ways[0][1], (Moment::Queued, 7_300));
        let joined = join(&stamps[..1], &server, None, &Rings::default(), &span());
        assert_eq!(joined.transactions[0].ways[0], [(Moment::Send, 1_000), (Moment::Returned, 1_400)]);
    }

    #[test]
    fn leaves_out_the_first_of_a_block_but_never_most_of_a_short_one() {
        assert_eq!([4_096, 64, 63, 16, 7, 0].map(settling), [8, 8, 7, 2, 0, 0]);
        let stamps: Vec<Stamp> = (0..64).map(|n| stamp(n, 1_000 * u64::from(n), 1_000 * u64::from(n) + 500)).collect();
        let joined = join(&stamps[settling(64)..], &stamps, None, &Rings::default(), &span());
        assert_eq!((joined.transactions.len(), joined.transactions[0].sequence), (56, 8));
    }

    #[test]
    fn leaves_out_moments_of_a_side_branch() {
        let way = |stamped: &[(Moment, u64)]| {
            let stamped: Vec<_> = stamped.iter().map(|(moment, ns)| (*moment, monotonic_at(*ns))).collect();
            in_order(moments(&stamped, (None, None), &span()), (1_000, 2_000), 50)
                .into_iter()
                .map(|(moment, _)| moment)
                .collect::<Vec<_>>()
        };
        use Moment::{Copied, Queued, Ready, Received, Returned, Send};
        assert_eq!(way(&[(Received, 1_200), (Ready, 1_500), (Copied, 1_400)]), [Send, Received, Copied, Returned]);
        assert_eq!(way(&[(Queued, 980), (Copied, 2_030)]), [Send, Queued, Copied, Returned]);
        assert_eq!(way(&[(Queued, 900), (Copied, 2_100)]), [Send, Returned]);
    }

    #[test]
    fn places_ring_stamps_in_the_way_of_their_frame() {
        let rung = |which, ns: u64| Packet { which, at: 2_000 + 2 * ns, sequence: 0 };
        use Moment::{Kicked, Ready, Returned, Seen, Send};
        // A client's frame that answers nothing, a second kick because the device was busy, and the next request's
        // kick.
        let client =
            [(Which::Seen, 900), (Which::Kicked, 1_050), (Which::Kicked, 1_090), (Which::Seen, 1_700), (Which::Seen, 1_950)];
        let client = [&client[..], &[(Which::Kicked, 2_100)]].concat();
        let server = [(Which::Kicked, 700), (Which::Seen, 1_380), (Which::Kicked, 1_520)];
        let of = |stamps: &[(Which, u64)]| stamps.iter().map(|(which, ns)| rung(*which, *ns)).collect();
        let rings = Rings { client: of(&client), server: of(&server) };
        // The reply's hook fires after its receiver has seen the reply.
        let records = [record(&[(Ready, 1_300)], &[(Ready, 1_970)])];
        let joined = join(&[stamp(9, 1_000, 2_000)], &[stamp(9, 1_400, 1_500)], Some(&records), &rings, &span());
        let ways = &joined.transactions[0].ways;
        assert_eq!(ways[0], [(Send, 1_000), (Kicked, 1_050), (Ready, 1_300), (Seen, 1_380), (Returned, 1_400)]);
        assert_eq!(ways[1], [(Send, 1_500), (Kicked, 1_520), (Seen, 1_950), (Returned, 2_000)]);
    }

    /// 100 us over which CLOCK_MONOTONIC is slewed forward by 50 ns.
    fn slewed() -> Span {
        Span { ahead: 50.0, ..span() }
    }

    #[test]
    fn notices_clocks_that_jump() {
        let mut drift = Drift::default();
        assert!((0..10).all(|_| drift.agrees(&slewed())), "500 in a million faster all the time");
        let jumped = Span { ahead: slewed().ahead + 60.0, ..slewed() };
        assert!(!drift.agrees(&jumped));
        let short = Span { ahead: slewed().ahead / 10.0 + 40.0, ns: slewed().ns / 10.0, ..slewed() };
        assert!(drift.agrees(&short));
        let stopped = Span { ahead: -1e10, ns: slewed().ns + 1e10, ..slewed() };
        assert!(!drift.agrees(&stopped), "longer than all before, and no measure of the drift");
        assert!(drift.agrees(&slewed()));
    }

    #[test]
    fn a_clock_that_was_stopped_or_set_is_noticed_without_an_earlier_block() {
        let is_steady = |ns: u64, monotonic_ns: u64| {
            let relation = |ns: u64, monotonic_ns: u64| Relation {
                ticks: Ticks(ns),
                raw_ns: 0,
                monotonic_less_raw_ns: monotonic_ns as i64,
                realtime_less_raw_ns: 0,
                width: 0,
                step_ns: 0.0,
            };
            Span::new(relation(0, 0), relation(ns, monotonic_ns), 1.0).is_steady()
        };
        assert!(is_steady(100_000_000, 100_050_000) && is_steady(100_000_000, 99_950_000), "slewed");
        assert!(is_steady(1_000, 1_055), "as far as two readings agree");
        assert!(!is_steady(10_100_000_000, 100_000_000) && !is_steady(100_000_000, 10_100_000_000));
    }

    #[test]
    fn a_jump_or_a_new_rate_costs_one_block() {
        let mut drift = Drift::default();
        let mut agree = |ahead: f64, count: usize| {
            let span = Span { ahead: slewed().ahead + ahead, ..slewed() };
            (0..count).filter(|_| drift.agrees(&span)).count()
        };
        assert_eq!(agree(0.0, 10), 10);
        assert_eq!((agree(1e8, 1), agree(0.0, 10)), (0, 10));
        assert_eq!((agree(400.0, 10), agree(0.0, 10)), (9, 9));
    }
}
