//! Datagrams given up: a late reply still gives a time; whatever remains at the end was never answered.

use hairpin_sys::clock::Ticks;

/// Number of requests remembered; a power of two.
const REMEMBERED: usize = 1 << 16;
/// Flow number of a free slot.
const FREE: u32 = u32::MAX;

#[derive(Clone, Copy)]
pub(super) struct Abandoned {
    flow: u32,
    sequence: u32,
    pub(super) sent: Ticks,
    pub(super) due: Ticks,
    /// False for requests sent between blocks.
    pub(super) counts: bool,
    /// False for these too, and for requests of blocks that are left out: their due times are in no figure.
    pub(super) is_due: bool,
    /// It was due in a stall of this core.
    pub(super) stalled: bool,
}

/// Hash table by flow and sequence; a later request overwrites an older one in its slot.
pub(super) struct GivenUp {
    slots: Vec<Abandoned>,
    count: usize,
    /// Time of the first late reply since the last one in time, and the number of the block's samples by then.
    pub(super) late_since: Option<(Ticks, usize)>,
}

impl GivenUp {
    /// Allocates the table if the path is `lossy`.
    pub(super) fn new(lossy: bool) -> GivenUp {
        let (sent, due) = (Ticks(0), Ticks(0));
        let free = Abandoned { flow: FREE, sequence: 0, sent, due, counts: false, is_due: false, stalled: false };
        GivenUp { slots: vec![free; if lossy { REMEMBERED } else { 1 }], count: 0, late_since: None }
    }

    fn at(&self, flow: u32, sequence: u32) -> usize {
        // Consecutive sequences use consecutive slots; the golden ratio spreads the flows.
        sequence.wrapping_add(flow.wrapping_mul(0x9e37_79b1)) as usize & (self.slots.len() - 1)
    }

    /// Remembers a request. Returns the request it overwrites, which counts as never answered.
    pub(super) fn insert(
        &mut self,
        flow: u32,
        sequence: u32,
        (sent, due): (Ticks, Ticks),
        counts: bool,
        stalled: bool,
    ) -> Option<Abandoned> {
        let at = self.at(flow, sequence);
        let request = Abandoned { flow, sequence, sent, due, counts, is_due: counts, stalled };
        let before = std::mem::replace(&mut self.slots[at], request);
        let driven_out = (before.flow != FREE).then_some(before);
        self.count += usize::from(driven_out.is_none());
        driven_out
    }

    /// Removes and returns the request that a late reply answers.
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

    /// Requests without a reply so far.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Abandoned> {
        self.slots.iter().filter(|slot| slot.flow != FREE)
    }

    /// The requests sent at `start` or later belong to a block that is left out.
    pub(super) fn leave_out(&mut self, start: Ticks) {
        if self.count > 0 {
            self.slots.iter_mut().filter(|slot| slot.sent >= start).for_each(|slot| slot.is_due = false);
        }
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
        let insert = |table: &mut GivenUp, sequence| table.insert(1, sequence, (Ticks(5), Ticks(4)), true, false);
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
