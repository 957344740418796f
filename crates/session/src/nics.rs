//! The stamps of one side's packets, read on its own host between two blocks.
//!
//! ```text
//!   relation ── block: the side's worker leaves stamps in its area ── relation      stamps between two relations can be placed on one clock
//! ```

use hairpin_sys::clock::{AnyClock, Clock, Relation};
use hairpin_sys::shared::{Packet, Stamp, Stamps};
use hairpin_trace::join::{Drift, Span};
use hairpin_trace::nics::{Clocks, Counts, Gather, Half, half};

mod clock;

pub use self::clock::FollowedPhc;

/// Reads the area of one side.
#[derive(Debug)]
pub struct BlockReader {
    clock: AnyClock,
    phc: FollowedPhc,
    seen: u64,
    seen_packets: u64,
    before: Option<Relation>,
    drift: Drift,
}

/// The stamps of one block.
#[derive(Debug)]
pub struct Block {
    pub stamps: Vec<Stamp>,
    pub packets: Vec<Packet>,
    /// The relations of the clocks over it; `None` if a clock was set, or two disagree, or the NIC's has left its rate.
    pub clocks: Option<Clocks>,
}

impl BlockReader {
    /// For an area whose ticks are those of `clock`, and stamps of the NIC whose clock `phc` is.
    pub fn new(clock: AnyClock, phc: FollowedPhc) -> BlockReader {
        BlockReader { clock, phc, seen: 0, seen_packets: 0, before: None, drift: Drift::default() }
    }

    /// The first block to be read begins: earlier stamps are passed over.
    pub fn begin(&mut self, area: &Stamps) {
        self.seen = area.count();
        self.seen_packets = area.packets_since(u64::MAX).1;
        self.phc.read(&self.clock);
        self.before = Some(self.clock.relation());
    }

    /// The clock of the NIC.
    pub fn phc(&self) -> &FollowedPhc {
        &self.phc
    }

    /// A block is over, and no transaction is under way; the next one begins when this returns.
    pub fn block(&mut self, area: &Stamps) -> Block {
        let after = self.clock.relation();
        let (stamps, seen) = area.since(self.seen);
        let (packets, seen_packets) = area.packets_since(self.seen_packets);
        (self.seen, self.seen_packets) = (seen, seen_packets);
        let nic = self.phc.read(&self.clock);
        let clocks = self.before.and_then(|before| {
            let agrees = self.drift.agrees(&Span::new(before, after, self.clock.rate()));
            let clocks = Clocks::new(self.clock.rate(), nic.map(|(points, _)| points), [&before, &after]);
            let steady = nic.is_none_or(|(_, steady)| steady);
            (agrees && steady && !is_set(&before, &after) && clocks.has_software()).then_some(clocks)
        });
        self.before = Some(self.clock.relation());
        Block { stamps, packets, clocks }
    }
}

/// True if CLOCK_REALTIME was set between two readings: NTP moves it and CLOCK_MONOTONIC alike.
fn is_set(before: &Relation, after: &Relation) -> bool {
    let less = |relation: &Relation| relation.realtime_less_raw_ns - relation.monotonic_less_raw_ns;
    (less(after) - less(before)).unsigned_abs() as f64 > before.tolerance_ns()
}

/// The server's side: its halves of transactions, block by block.
#[derive(Debug)]
pub struct ServersNics {
    reader: BlockReader,
    gather: Gather,
    /// One transaction in `every` is stamped.
    every: u32,
}

impl ServersNics {
    /// For an area whose ticks are those of `clock`, and stamps of the NIC whose clock `phc` is.
    pub fn new(clock: AnyClock, phc: FollowedPhc) -> ServersNics {
        ServersNics { reader: BlockReader::new(clock, phc), gather: Gather::new(), every: 0 }
    }

    /// The clock of the NIC.
    pub fn phc(&self) -> &FollowedPhc {
        &self.reader.phc
    }

    /// Asks the side's worker for stamps of every `every`-th transaction from the next block on; 0 for none.
    pub fn ask(&mut self, area: &Stamps, every: u32) {
        area.want_every(every);
        if every > 0 {
            self.every = every;
            self.reader.begin(area);
        }
    }

    /// Halves of the block that is over, earlier ones with stamps that came since, and the counts of the row so far.
    pub fn block(&mut self, area: &Stamps) -> (Vec<Half>, Counts) {
        let block = self.reader.block(area);
        self.gather.add(&block.stamps, &block.packets, self.every, true);
        let halves = block.clocks.map(|clocks| self.gather.news().map(|own| half(own, &clocks)).collect());
        // Without halves the client counts the block's transactions as missing.
        (halves.unwrap_or_default(), self.gather.counts())
    }
}

#[cfg(test)]
mod tests {
    use hairpin_sys::clock::Ticks;
    use hairpin_sys::shared::Which;

    use super::*;

    /// A transaction of this moment, on the clocks of this host.
    fn leave(area: &Stamps, clock: AnyClock, sequence: u32) {
        let now = clock.relation();
        let realtime = (now.raw_ns as i64 + now.realtime_less_raw_ns) as u64;
        let ticks = |ns: u64| Ticks(now.ticks.0 + clock.to_ticks(ns));
        area.push(Stamp { sequence, first: ticks(4_000), second: ticks(5_000) });
        area.push_packet(Packet { which: Which::SoftwareIn, at: realtime + 1_000, sequence });
        area.push_packet(Packet { which: Which::SoftwareOut, at: realtime + 7_000, sequence });
    }

    #[test]
    fn a_servers_half_is_read_block_by_block() {
        let (area, clock) = (Stamps::create().unwrap(), AnyClock::calibrate().0);
        let mut nics = ServersNics::new(clock, FollowedPhc::of(None, clock));
        leave(&area, clock, 1);
        nics.ask(&area, 2);
        assert_eq!(area.wants_every(), 2);
        for sequence in [2, 3, 4] {
            leave(&area, clock, sequence);
        }
        // The clocks are read over some time, as those of a block are.
        std::thread::sleep(std::time::Duration::from_millis(2));
        let (halves, counts) = nics.block(&area);
        assert_eq!(halves.iter().map(|half| half.sequence).collect::<Vec<_>>(), [2, 4], "every second one");
        // The stamps of 3 belong to no transaction that was asked for.
        assert_eq!((counts.wanted, counts.unknown), (2, 2));
        for half in halves {
            let [nic, stack] = half.layers;
            assert_eq!((half.turnaround_ns, nic.inside_ns, stack.inside_ns, stack.seen), (1_000, None, Some(6_000), [true; 2]));
            let into = stack.into_ns.expect("CLOCK_REALTIME is related");
            assert!((2_000..4_000).contains(&into), "3,000 as far as two readings agree: {into}");
        }
        nics.ask(&area, 0);
        assert!(!area.wants_packets());
        assert_eq!(nics.block(&area).0, []);
    }

    #[test]
    fn a_block_in_which_the_time_of_day_was_set_is_noticed() {
        let relation = |realtime_less_raw_ns, monotonic_less_raw_ns| Relation {
            ticks: Ticks(0),
            raw_ns: 0,
            monotonic_less_raw_ns,
            realtime_less_raw_ns,
            width: 0,
            step_ns: 0.0,
        };
        assert!(!is_set(&relation(1_000, 10), &relation(51_000, 50_010)), "slewed");
        assert!(is_set(&relation(1_000, 10), &relation(1_100, 10)) && is_set(&relation(1_000, 10), &relation(-9_000, 10)));
    }
}
