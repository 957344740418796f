//! The requests in flight: a fixed table that tells an answer from what is late, came twice, was overtaken, or answers nothing.
//!
//! ```text
//!   flow 0: │slot 0│slot 1│ … │slot W-1│   flow 1: …        W: outstanding, rounded up to a power of two
//!               sequence s lies in slot s mod W; a sequence whose slot is taken by an older request still out is skipped
//! ```
//! W divides 256^N for every payload of N < 4 bytes that is allowed, so the low bits which such a payload carries lead to the slot too,
//! and two requests in flight never carry the same ones.

use hairpin_sys::clock::Ticks;

use super::given_up::{Abandoned, GivenUp};

/// A request in flight, or the last one that was.
#[derive(Clone, Copy, Default)]
pub(super) struct Slot {
    pub(super) sent: Ticks,
    pub(super) due: Ticks,
    /// The sequence, and [`LIVE`] while no reply has come: one word, so that what was just stored is loaded without a stall.
    tag: u64,
}

const LIVE: u64 = 1 << 32;

impl Slot {
    #[inline(always)]
    fn is_live(&self) -> bool {
        self.tag & LIVE != 0
    }
}

/// A request's sequence and slot.
#[derive(Clone, Copy)]
pub(super) struct Place {
    at: usize,
    pub(super) sequence: u32,
}

#[derive(Clone, Copy, Default)]
struct Flow {
    next: u32,
    newest: u32,
    /// The first that counts: earlier ones belong to the warm-up.
    first: u32,
    live: u32,
}

/// What a message is that answers no request in flight.
#[derive(Clone, Copy)]
pub(super) enum Stray {
    /// Answers this request, which was given up.
    Late(Abandoned),
    /// Answers a request that has been answered.
    Duplicate,
    /// Answers nothing that was ever asked.
    Corrupt,
    /// Answers a request of the warm-up.
    Before,
}

/// Every request in flight of one thread.
pub(super) struct Flight {
    slots: Vec<Slot>,
    flows: Vec<Flow>,
    /// The window as a power of two.
    shift: u32,
    outstanding: u32,
    mask: u32,
    live: u32,
    pub(super) given_up: GivenUp,
}

impl Flight {
    /// For `flows` flows with `outstanding` requests each, whose messages carry the bits of `mask` of a sequence; `lossy`: some may be given up.
    pub(super) fn new(flows: u32, outstanding: u32, mask: u32, lossy: bool) -> Flight {
        let window = (outstanding as usize).next_power_of_two();
        debug_assert!(window as u64 <= u64::from(mask) + 1, "a payload that short cannot tell so many requests apart");
        Flight {
            slots: vec![Slot::default(); window * flows as usize],
            flows: vec![Flow::default(); flows as usize],
            shift: window.trailing_zeros(),
            outstanding,
            mask,
            live: 0,
            given_up: GivenUp::new(lossy),
        }
    }

    /// Requests in flight over all flows.
    #[inline(always)]
    pub(super) fn live(&self) -> u32 {
        self.live
    }

    #[inline(always)]
    fn at(&self, flow: u32, sequence: u32) -> usize {
        ((flow as usize) << self.shift) + (sequence as usize & ((1 << self.shift) - 1))
    }

    /// The first flow from `flow` on, in turn, that may send. There must be one: fewer than `flows` × `outstanding` are in flight.
    #[inline(always)]
    pub(super) fn with_room(&self, flow: u32) -> u32 {
        if self.flows[flow as usize].live < self.outstanding { flow } else { self.next_with_room(flow) }
    }

    #[cold]
    fn next_with_room(&self, flow: u32) -> u32 {
        let (before, behind) = self.flows.split_at(flow as usize);
        let room = behind.iter().chain(before).position(|flow| flow.live < self.outstanding).unwrap_or(0);
        (flow + room as u32) % self.flows.len() as u32
    }

    /// Where the next request on `flow`, which has room, will be.
    #[inline(always)]
    pub(super) fn next(&self, flow: u32) -> Place {
        let mut sequence = self.flows[flow as usize].next;
        // Fewer than the window are in flight, so one of so many slots in a row is free.
        loop {
            let at = self.at(flow, sequence);
            if !self.slots[at].is_live() {
                return Place { at, sequence };
            }
            sequence = sequence.wrapping_add(1);
        }
    }

    /// The request of [`next`](Flight::next) has left.
    #[inline(always)]
    pub(super) fn launch(&mut self, flow: u32, place: Place, sent: Ticks, due: Ticks) {
        let entry = &mut self.flows[flow as usize];
        entry.next = place.sequence.wrapping_add(1);
        entry.live += 1;
        debug_assert!(entry.live <= self.outstanding);
        self.live += 1;
        self.slots[place.at] = Slot { sent, due, tag: LIVE | u64::from(place.sequence) };
    }

    /// If a request in flight is answered by a message with these bits of a sequence: where that is, and when it left.
    #[inline(always)]
    pub(super) fn waiting(&self, flow: u32, carried: u32) -> Option<(Place, Slot)> {
        let at = self.at(flow, carried);
        let slot = self.slots[at];
        let waits = slot.tag & (LIVE | u64::from(self.mask)) == LIVE | u64::from(carried);
        waits.then_some((Place { at, sequence: slot.tag as u32 }, slot))
    }

    /// The request has been answered. True if a later one of its flow had been before.
    #[inline(always)]
    pub(super) fn land(&mut self, flow: u32, place: Place) -> bool {
        self.slots[place.at].tag = u64::from(place.sequence);
        self.live -= 1;
        let entry = &mut self.flows[flow as usize];
        entry.live -= 1;
        let overtaken = (place.sequence.wrapping_sub(entry.newest) as i32) < 0;
        if !overtaken {
            entry.newest = place.sequence;
        }
        overtaken
    }

    /// What a sound message with these bits of a sequence is, if nothing waits for it.
    #[cold]
    pub(super) fn stray(&mut self, flow: u32, carried: u32) -> Stray {
        let entry = self.flows[flow as usize];
        // The newest sequence before the next that carries these bits; with four bytes and more it is the sequence itself.
        let last = entry.next.wrapping_sub(1);
        let sequence = last.wrapping_sub(last.wrapping_sub(carried) & self.mask);
        if entry.next.wrapping_sub(sequence) as i32 <= 0 {
            return Stray::Corrupt;
        }
        let late = self.given_up.take(flow, sequence);
        if (sequence.wrapping_sub(entry.first) as i32) < 0 {
            return Stray::Before;
        }
        match late {
            Some(late) if late.counts => Stray::Late(late),
            Some(_) => Stray::Before,
            None => Stray::Duplicate,
        }
    }

    /// Gives up what was sent `patience` ago or earlier; `counts`: these are requests of a block. Returns how many those are, and when the oldest of the others
    /// was sent. `forgotten` is told of earlier ones that are no longer remembered.
    #[cold]
    pub(super) fn give_up(
        &mut self,
        now: Ticks,
        patience: u64,
        counts: bool,
        mut forgotten: impl FnMut(Abandoned),
    ) -> (u32, Ticks) {
        let (mut lost, mut oldest) = (0, Ticks::NEVER);
        for (at, slot) in self.slots.iter_mut().enumerate().filter(|(_, slot)| slot.is_live()) {
            if now.since(slot.sent) < patience {
                oldest = oldest.min(slot.sent);
                continue;
            }
            slot.tag &= !LIVE;
            lost += 1;
            let flow = at >> self.shift;
            self.flows[flow].live -= 1;
            let driven_out = self.given_up.insert(flow as u32, slot.tag as u32, slot.sent, slot.due, counts);
            driven_out.filter(|one| one.counts).map(&mut forgotten);
        }
        self.live -= lost;
        (lost, oldest)
    }

    /// When each request in flight was sent, and when it was due.
    pub(super) fn in_flight(&self) -> impl Iterator<Item = (Ticks, Ticks)> {
        self.slots.iter().filter(|slot| slot.is_live()).map(|slot| (slot.sent, slot.due))
    }

    /// Measuring begins: no reply to an earlier request counts as anything.
    pub(super) fn begin(&mut self) {
        self.given_up.clear();
        self.flows.iter_mut().for_each(|flow| flow.first = flow.next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stray(flight: &mut Flight, flow: u32, carried: u32) -> &'static str {
        match flight.stray(flow, carried) {
            Stray::Late(_) => "late",
            Stray::Duplicate => "duplicate",
            Stray::Corrupt => "corrupt",
            Stray::Before => "before",
        }
    }

    fn give_up(flight: &mut Flight, now: u64) -> (u32, Ticks) {
        flight.give_up(Ticks(now), 10, true, |_| ())
    }

    fn launch(flight: &mut Flight, flow: u32, at: u64) -> u32 {
        let place = flight.next(flow);
        flight.launch(flow, place, Ticks(at), Ticks(at));
        place.sequence
    }

    /// Answers a request in flight; true if it was overtaken.
    fn land(flight: &mut Flight, sequence: u32) -> bool {
        let (place, _) = flight.waiting(0, sequence & flight.mask).expect("it is in flight");
        assert_eq!(place.sequence, sequence);
        flight.land(0, place)
    }

    #[test]
    fn a_slot_still_taken_is_skipped() {
        let mut flight = Flight::new(1, 2, u32::MAX, true);
        assert_eq!([launch(&mut flight, 0, 0), launch(&mut flight, 0, 0)], [0, 1]);
        assert!(!land(&mut flight, 1));
        assert_eq!(launch(&mut flight, 0, 0), 3, "2 would take the place of 0, which is still out");
        assert!(flight.waiting(0, 0).is_some());
        assert!(land(&mut flight, 0), "1 came first");
        assert_eq!(stray(&mut flight, 0, 0), "duplicate");
        assert_eq!(stray(&mut flight, 0, 4), "corrupt", "never sent");
    }

    #[test]
    fn few_bits_lead_to_the_request_across_their_wrap() {
        for mask in [0xff, 0xffff] {
            let mut flight = Flight::new(1, 8, mask, true);
            for expected in 0..3 * (mask + 1) {
                assert_eq!(launch(&mut flight, 0, 0), expected);
                assert!(!land(&mut flight, expected));
                assert_eq!(stray(&mut flight, 0, expected & mask), "duplicate");
            }
        }
    }

    #[test]
    fn sequences_wrap() {
        let mut flight = Flight::new(1, 4, u32::MAX, true);
        (flight.flows[0].next, flight.flows[0].newest) = (u32::MAX - 1, u32::MAX - 2);
        flight.begin();
        let sent: Vec<u32> = (0..4).map(|_| launch(&mut flight, 0, 0)).collect();
        assert_eq!(sent, [u32::MAX - 1, u32::MAX, 0, 1]);
        assert!([u32::MAX - 1, 0].iter().all(|sequence| !land(&mut flight, *sequence)));
        assert!(land(&mut flight, u32::MAX), "0 comes after the largest");
        assert_eq!([stray(&mut flight, 0, u32::MAX), stray(&mut flight, 0, 2)], ["duplicate", "corrupt"]);
    }

    #[test]
    fn given_up_is_late_once_and_warm_up_is_neither() {
        let mut flight = Flight::new(2, 1, u32::MAX, true);
        launch(&mut flight, 1, 5);
        assert_eq!(flight.with_room(1), 0);
        assert_eq!(give_up(&mut flight, 14), (0, Ticks(5)));
        assert_eq!(give_up(&mut flight, 15), (1, Ticks::NEVER));
        assert_eq!((flight.live(), flight.with_room(1)), (0, 1));
        assert_eq!([stray(&mut flight, 1, 0), stray(&mut flight, 1, 0)], ["late", "duplicate"]);
        launch(&mut flight, 1, 20);
        give_up(&mut flight, 30);
        flight.begin();
        assert_eq!(stray(&mut flight, 1, 1), "before");
    }
}
