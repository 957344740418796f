//! Datagrams given up: a reply that comes after all still has its time, and at the end the rest were never answered.

use hairpin_sys::clock::Ticks;

/// Requests remembered; a power of two.
const REMEMBERED: usize = 1 << 16;
/// No request: the slot is free.
const FREE: u32 = u32::MAX;

/// A request given up.
#[derive(Clone, Copy)]
pub(super) struct Abandoned {
    flow: u32,
    sequence: u32,
    pub(super) sent: Ticks,
    pub(super) due: Ticks,
    /// Not one of those between blocks.
    pub(super) counts: bool,
}

/// The table: a request lies where its flow and sequence say, and gives way to a later one there.
pub(super) struct GivenUp {
    slots: Vec<Abandoned>,
    count: usize,
}

impl GivenUp {
    /// Sets memory aside, if the path is `lossy`.
    pub(super) fn new(lossy: bool) -> GivenUp {
        let free = Abandoned { flow: FREE, sequence: 0, sent: Ticks(0), due: Ticks(0), counts: false };
        GivenUp { slots: vec![free; if lossy { REMEMBERED } else { 1 }], count: 0 }
    }

    fn at(&self, flow: u32, sequence: u32) -> usize {
        // Neighbouring sequences lie side by side; flows are spread by the golden ratio.
        sequence.wrapping_add(flow.wrapping_mul(0x9e37_79b1)) as usize & (self.slots.len() - 1)
    }

    /// Remembers a request. Returns the one that it drives out, which nobody will answer any more.
    pub(super) fn insert(&mut self, flow: u32, sequence: u32, sent: Ticks, due: Ticks, counts: bool) -> Option<Abandoned> {
        let at = self.at(flow, sequence);
        let before = std::mem::replace(&mut self.slots[at], Abandoned { flow, sequence, sent, due, counts });
        let driven_out = (before.flow != FREE).then_some(before);
        self.count += usize::from(driven_out.is_none());
        driven_out
    }

    /// The request that a late reply answers; it is forgotten.
    pub(super) fn take(&mut self, flow: u32, sequence: u32) -> Option<Abandoned> {
        let at = self.at(flow, sequence);
        let slot = &mut self.slots[at];
        if (slot.flow, slot.sequence) != (flow, sequence) {
            return None;
        }
        self.count -= 1;
        let taken = *slot;
        slot.flow = FREE;
        Some(taken)
    }

    /// Those that no reply has come to.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Abandoned> {
        self.slots.iter().filter(|slot| slot.flow != FREE)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(super) fn clear(&mut self) {
        if self.count > 0 {
            self.slots.iter_mut().for_each(|slot| slot.flow = FREE);
            self.count = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_taken_once_and_gives_way_to_one_much_later() {
        let mut given_up = GivenUp::new(true);
        let insert = |table: &mut GivenUp, sequence| table.insert(1, sequence, Ticks(5), Ticks(4), true);
        assert!(insert(&mut given_up, 7).is_none());
        assert!(given_up.take(0, 7).is_none(), "another flow's");
        assert_eq!(given_up.take(1, 7).map(|one| (one.sent.0, one.due.0)), Some((5, 4)));
        assert!(given_up.take(1, 7).is_none() && given_up.is_empty());
        insert(&mut given_up, 7);
        let driven_out = insert(&mut given_up, 7 + REMEMBERED as u32);
        assert_eq!((driven_out.map(|one| one.sequence), given_up.iter().count()), (Some(7), 1));
        given_up.clear();
        assert!(given_up.is_empty() && given_up.iter().next().is_none());
    }
}
