//! The stamps of one side's transactions and packets, put together as they come.
//!
//! ```text
//!   block k     transactions ─┐                    ┌ stamps of packets, by sequence
//!   block k+1                 └ before ◀── late ───┤
//!               transactions ─── last ◀────────────┘
//! ```

use std::collections::HashMap;

use hairpin_sys::shared::{Packet, Stamp, Which};

use crate::join::settling;

/// The stamps of one transaction on one side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Own {
    /// The program's.
    pub stamp: Stamp,
    /// Of the packet that left: the NIC's and the driver's.
    pub out: [Option<u64>; 2],
    /// Of the packet that came: the NIC's and the stack's.
    pub came: [Option<u64>; 2],
    counted: bool,
    changed: bool,
}

/// Counts of a side's stamps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Transactions for which stamps were requested.
    pub wanted: u64,
    /// Stamps of their packets that left, by layer: NIC, driver.
    pub out: [u64; 2],
    /// Stamps of their packets that came: NIC, stack.
    pub came: [u64; 2],
    /// Stamps that came after their block.
    pub late: u64,
    /// Stamps that came a second time.
    pub twice: u64,
    /// Stamps of unknown transactions.
    pub unknown: u64,
}

/// One side's transactions of the last block and of the one before it.
#[derive(Debug, Default)]
pub struct Gather {
    before: Batch,
    last: Batch,
    counts: Counts,
}

#[derive(Debug, Default)]
struct Batch {
    owns: Vec<Own>,
    /// Index by sequence number.
    at: HashMap<u32, usize>,
}

impl Batch {
    fn get_mut(&mut self, sequence: u32) -> Option<&mut Own> {
        self.at.get(&sequence).map(|at| &mut self.owns[*at])
    }
}

impl Gather {
    pub fn new() -> Gather {
        Gather::default()
    }

    /// Adds a block that is over: the program's stamps of its transactions, of which every `every`-th was stamped (0: none), and
    /// stamps of packets. Transactions that are not `counted` are known but do not count; nor do the first ones of each block,
    /// which follow a pause.
    pub fn add(&mut self, stamps: &[Stamp], packets: &[Packet], every: u32, counted: bool) {
        self.before = std::mem::take(&mut self.last);
        self.before.owns.iter_mut().for_each(|own| own.changed = false);
        let from = settling(stamps.len());
        let wanted = stamps.iter().enumerate().filter(|(_, stamp)| every > 0 && stamp.sequence.is_multiple_of(every));
        for (index, stamp) in wanted {
            let counted = counted && index >= from;
            self.counts.wanted += u64::from(counted);
            self.last.at.insert(stamp.sequence, self.last.owns.len());
            self.last.owns.push(Own { stamp: *stamp, out: [None; 2], came: [None; 2], counted, changed: false });
        }
        packets.iter().for_each(|packet| self.packet(packet));
    }

    fn packet(&mut self, packet: &Packet) {
        let (leaves, layer) = match packet.which {
            Which::HardwareOut => (true, 0),
            Which::SoftwareOut => (true, 1),
            Which::HardwareIn => (false, 0),
            Which::SoftwareIn => (false, 1),
            Which::Stray => {
                self.counts.unknown += 1;
                return;
            }
            Which::Scheduled | Which::Kicked | Which::Seen => return,
        };
        let counts = &mut self.counts;
        let (own, late) = match self.last.get_mut(packet.sequence) {
            Some(own) => (own, false),
            None => match self.before.get_mut(packet.sequence) {
                Some(own) => (own, true),
                None => {
                    counts.unknown += 1;
                    return;
                }
            },
        };
        let (place, seen) =
            if leaves { (&mut own.out[layer], &mut counts.out[layer]) } else { (&mut own.came[layer], &mut counts.came[layer]) };
        if place.is_some() {
            counts.twice += u64::from(own.counted);
            return;
        }
        *place = Some(packet.at);
        own.changed = true;
        *seen += u64::from(own.counted);
        counts.late += u64::from(late && own.counted);
    }

    /// The transactions of the block before the last one that count: their stamps have come, or will not.
    pub fn before(&self) -> impl Iterator<Item = &Own> {
        self.before.owns.iter().filter(|own| own.counted)
    }

    /// The transactions of the last block, and those before it with new stamps: another host has to be told of them.
    pub fn news(&self) -> impl Iterator<Item = &Own> {
        self.before.owns.iter().filter(|own| own.changed).chain(&self.last.owns)
    }

    /// True for a transaction of the last two blocks.
    pub fn knows(&self, sequence: u32) -> bool {
        self.is_of_last(sequence) || self.before.at.contains_key(&sequence)
    }

    /// True for a transaction of the last block.
    pub fn is_of_last(&self, sequence: u32) -> bool {
        self.last.at.contains_key(&sequence)
    }

    /// The counts so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }
}

#[cfg(test)]
mod tests {
    use hairpin_sys::clock::Ticks;

    use super::*;
    use Which::{HardwareOut, SoftwareIn, SoftwareOut, Stray};

    fn stamps(sequences: std::ops::Range<u32>) -> Vec<Stamp> {
        sequences.map(|sequence| Stamp { sequence, first: Ticks(10), second: Ticks(20) }).collect()
    }

    fn packet(which: Which, sequence: u32) -> Packet {
        Packet { which, at: u64::from(sequence), sequence }
    }

    #[test]
    fn stamps_find_their_transaction_and_the_others_are_counted() {
        let mut gather = Gather::new();
        let first = [(SoftwareOut, 1), (SoftwareIn, 1), (SoftwareOut, 2), (SoftwareOut, 2), (SoftwareOut, 9), (Stray, 0)];
        gather.add(&stamps(0..4), &first.map(|(which, sequence)| packet(which, sequence)), 1, true);
        assert_eq!((gather.before().count(), gather.news().count()), (0, 4));
        // The NIC's come a block late, and one of them twice.
        let late = [(HardwareOut, 1), (HardwareOut, 1), (HardwareOut, 4)];
        gather.add(&stamps(4..6), &late.map(|(which, sequence)| packet(which, sequence)), 1, true);
        let before: Vec<&Own> = gather.before().collect();
        assert_eq!((before[1].out, before[1].came), ([Some(1), Some(1)], [None, Some(1)]));
        assert_eq!((before[2].out, before[3].out), ([None, Some(2)], [None; 2]));
        assert_eq!(gather.news().map(|own| own.stamp.sequence).collect::<Vec<_>>(), [1, 4, 5]);
        let counts = Counts { wanted: 6, out: [2, 2], came: [0, 1], late: 1, twice: 2, unknown: 2 };
        assert_eq!(gather.counts(), counts);
        gather.add(&[], &[packet(HardwareOut, 1)], 0, false);
        assert_eq!(gather.counts().unknown, 3, "two blocks late");
        assert_eq!([4, 1].map(|sequence| gather.knows(sequence)), [true, false]);
    }

    #[test]
    fn transactions_that_do_not_count_are_known() {
        let mut gather = Gather::new();
        gather.add(&stamps(0..64), &[packet(SoftwareOut, 1), packet(SoftwareOut, 1)], 1, false);
        assert_eq!(gather.counts(), Counts::default());
        // Every tenth is stamped, and the first ones of a block follow a pause.
        gather.add(&stamps(64..192), &[packet(SoftwareOut, 70), packet(SoftwareOut, 80), packet(SoftwareOut, 81)], 10, true);
        let counts = Counts { wanted: 12, out: [0, 1], unknown: 1, ..Counts::default() };
        assert_eq!((gather.before().count(), gather.counts()), (0, counts));
        gather.add(&[], &[], 0, false);
        assert_eq!(
            gather.before().map(|own| own.stamp.sequence).collect::<Vec<_>>(),
            (8..20).map(|n| 10 * n).collect::<Vec<_>>()
        );
    }
}
