//! The requests in flight: a fixed table that tells answers from late, duplicate, overtaken and unrelated messages.
//!
//! ```text
//!   flow 0: │slot 0│slot 1│ … │slot W-1│   flow 1: …        W: outstanding, rounded up to a power of two
//!               sequence s lies in slot s mod W; a sequence whose slot is taken by an older request still out is skipped
//! ```
//! A flow and its slot 0 share a cache line, the only one that a flow with one request in flight touches.
//!
//! W divides 256^N for every allowed payload of N < 4 bytes, so the low bits of the sequence in such a payload still lead to the
//! slot, and two requests in flight never share them.

use hairpin_sys::clock::Ticks;

use super::given_up::{Abandoned, GivenUp};
use crate::stalls::Stalls;

/// A request in flight, or the last one in this slot.
#[derive(Clone, Copy, Default)]
pub(super) struct Slot {
    pub(super) sent: Ticks,
    pub(super) due: Ticks,
    /// Sequence, plus [`LIVE`] until the reply comes: one word, so that a load right after the store does not stall.
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
    flow: u32,
    slot: u32,
    pub(super) sequence: u32,
}

#[derive(Clone, Copy, Default)]
#[repr(align(64))]
struct Flow {
    next: u32,
    newest: u32,
    /// First sequence that counts; earlier ones belong to the warm-up.
    first: u32,
    live: u32,
    /// The flow is in `rooms`.
    listed: bool,
    /// Slot 0.
    slot: Slot,
}

/// A message that answers no request in flight.
#[derive(Clone, Copy)]
pub(super) enum Stray {
    /// Answers a request that was given up.
    Late(Abandoned),
    /// Answers a request that already has its reply.
    Duplicate,
    /// Answers no request ever sent.
    Corrupt,
    /// Answers a request of the warm-up.
    Before,
}

/// All requests in flight of one thread.
pub(super) struct Flight {
    flows: Vec<Flow>,
    /// Slots 1 and up of all flows.
    more: Vec<Slot>,
    /// Every flow with room, and some that have become full: those are taken out when they are found.
    rooms: Vec<u32>,
    /// W - 1.
    last_slot: u32,
    outstanding: u32,
    mask: u32,
    live: u32,
    pub(super) given_up: GivenUp,
}

impl Flight {
    /// Table for `flows` flows with `outstanding` requests each. Messages carry the bits `mask` of a sequence; `lossy`: requests
    /// may be given up.
    pub(super) fn new(flows: u32, outstanding: u32, mask: u32, lossy: bool) -> Flight {
        let window = (outstanding as usize).next_power_of_two();
        debug_assert!(window as u64 <= u64::from(mask) + 1, "this payload is too short to number that many requests");
        Flight {
            flows: vec![Flow { listed: true, ..Flow::default() }; flows as usize],
            more: vec![Slot::default(); (window - 1) * flows as usize],
            rooms: (0..flows).rev().collect(),
            last_slot: window as u32 - 1,
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
    fn place(&self, flow: u32, sequence: u32) -> Place {
        Place { flow, slot: sequence & self.last_slot, sequence }
    }

    #[inline(always)]
    fn slot(&mut self, place: Place) -> &mut Slot {
        match place.slot {
            0 => &mut self.flows[place.flow as usize].slot,
            slot => &mut self.more[place.flow as usize * self.last_slot as usize + slot as usize - 1],
        }
    }

    /// `flow`, or another flow if `flow` has no room. Must be called only with fewer than `flows` × `outstanding` requests in
    /// flight, so that some flow has room.
    #[inline(always)]
    pub(super) fn with_room(&mut self, flow: u32) -> u32 {
        if self.has_room(flow) { flow } else { self.another_with_room() }
    }

    #[inline(always)]
    fn has_room(&self, flow: u32) -> bool {
        self.flows[flow as usize].live < self.outstanding
    }

    /// Looks at each flow at most once after it became full.
    #[cold]
    fn another_with_room(&mut self) -> u32 {
        while let Some(flow) = self.rooms.last().copied().filter(|flow| !self.has_room(*flow)) {
            self.flows[flow as usize].listed = false;
            self.rooms.pop();
        }
        self.rooms.last().copied().unwrap_or(0)
    }

    /// A request of the flow is over.
    #[inline(always)]
    fn makes_room(&mut self, flow: u32) {
        self.live -= 1;
        let entry = &mut self.flows[flow as usize];
        entry.live -= 1;
        if !entry.listed {
            entry.listed = true;
            self.rooms.push(flow);
        }
    }

    /// Place of the next request on `flow`, which must have room.
    #[inline(always)]
    pub(super) fn next(&mut self, flow: u32) -> Place {
        let mut sequence = self.flows[flow as usize].next;
        // Fewer requests are in flight than the window has slots, so one of its slots is free.
        loop {
            let place = self.place(flow, sequence);
            if !self.slot(place).is_live() {
                return place;
            }
            sequence = sequence.wrapping_add(1);
        }
    }

    /// Marks the request from [`next`](Flight::next) as sent.
    #[inline(always)]
    pub(super) fn launch(&mut self, flow: u32, place: Place, sent: Ticks, due: Ticks) {
        let entry = &mut self.flows[flow as usize];
        entry.next = place.sequence.wrapping_add(1);
        entry.live += 1;
        debug_assert!(entry.live <= self.outstanding);
        self.live += 1;
        *self.slot(place) = Slot { sent, due, tag: LIVE | u64::from(place.sequence) };
    }

    /// The request in flight that a message with the sequence bits `carried` answers, if any.
    #[inline(always)]
    pub(super) fn waiting(&mut self, flow: u32, carried: u32) -> Option<(Place, Slot)> {
        let place = self.place(flow, carried);
        let slot = *self.slot(place);
        let waits = slot.tag & (LIVE | u64::from(self.mask)) == LIVE | u64::from(carried);
        waits.then_some((Place { sequence: slot.tag as u32, ..place }, slot))
    }

    /// Marks a request as answered. True if a later request of its flow was answered first.
    #[inline(always)]
    pub(super) fn land(&mut self, flow: u32, place: Place) -> bool {
        self.slot(place).tag = u64::from(place.sequence);
        self.makes_room(flow);
        let entry = &mut self.flows[flow as usize];
        let overtaken = (place.sequence.wrapping_sub(entry.newest) as i32) < 0;
        if !overtaken {
            entry.newest = place.sequence;
        }
        overtaken
    }

    /// Classifies an intact message with the sequence bits `carried` that answers no request in flight.
    #[cold]
    pub(super) fn stray(&mut self, flow: u32, carried: u32) -> Stray {
        let entry = self.flows[flow as usize];
        // The newest sequence below `next` with these bits; with a payload of four bytes and more it is the sequence itself.
        let last = entry.next.wrapping_sub(1);
        let sequence = last.wrapping_sub(last.wrapping_sub(carried) & self.mask);
        let age = entry.next.wrapping_sub(sequence);
        if age as i32 <= 0 {
            return Stray::Corrupt;
        }
        let late = self.given_up.take(flow, sequence);
        // Compares with the number of requests since the warm-up, which is wrong for a moment after each 2^32 of them. A
        // comparison with `first` itself would be wrong for half of them.
        if age > entry.next.wrapping_sub(entry.first) {
            return Stray::Before;
        }
        match late {
            Some(late) if late.counts => Stray::Late(late),
            Some(_) => Stray::Before,
            None => Stray::Duplicate,
        }
    }

    /// Gives up requests sent `patience` ago or earlier; `counts`: they belong to a block, whose `stalls` are known. Returns
    /// their number, and the time at which the oldest of the others was sent. `forgotten` gets every earlier request that the
    /// table of given-up requests drops.
    #[cold]
    pub(super) fn give_up(
        &mut self,
        now: Ticks,
        patience: u64,
        counts: bool,
        stalls: &Stalls,
        mut forgotten: impl FnMut(Abandoned),
    ) -> (u32, Ticks) {
        let (mut lost, mut oldest) = (0, Ticks::NEVER);
        let window = self.last_slot + 1;
        for place in 0..self.flows.len() as u32 * window {
            let flow = place / window;
            let slot = self.slot(Place { flow, slot: place % window, sequence: 0 });
            if !slot.is_live() {
                continue;
            }
            if now.since(slot.sent) < patience {
                oldest = oldest.min(slot.sent);
                continue;
            }
            slot.tag &= !LIVE;
            let slot = *slot;
            lost += 1;
            self.makes_room(flow);
            let stalled = stalls.holds(slot.due);
            let driven_out = self.given_up.insert(flow, slot.tag as u32, (slot.sent, slot.due), counts, stalled);
            driven_out.filter(|one| one.counts).map(&mut forgotten);
        }
        (lost, oldest)
    }

    /// Send time and due time of each request in flight.
    pub(super) fn in_flight(&self) -> impl Iterator<Item = (Ticks, Ticks)> {
        let slots = self.flows.iter().map(|flow| &flow.slot).chain(&self.more);
        slots.filter(|slot| slot.is_live()).map(|slot| (slot.sent, slot.due))
    }

    /// Starts measuring: replies to earlier requests no longer count.
    pub(super) fn begin(&mut self) {
        self.given_up.clear();
        self.flows.iter_mut().for_each(|flow| flow.first = flow.next);
    }
}

#[cfg(test)]
mod tests {
    use hairpin_sys::clock::FakeClock;

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
        flight.give_up(Ticks(now), 10, true, &Stalls::new(&FakeClock::default(), false), |_| ())
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
    fn a_flow_with_room_is_found_among_many_without_a_search() {
        let mut flight = Flight::new(5, 2, u32::MAX, true);
        let mut places = Vec::new();
        for expected in [0, 0, 1, 1, 2, 2, 3, 3, 4, 4] {
            let flow = flight.with_room(if places.is_empty() { 0 } else { expected });
            assert_eq!(flow, expected);
            let place = flight.next(flow);
            flight.launch(flow, place, Ticks(0), Ticks(0));
            places.push((flow, place));
        }
        let land = |flight: &mut Flight, at: usize| flight.land(places[at].0, places[at].1);
        land(&mut flight, 5);
        assert_eq!((flight.with_room(0), flight.rooms.len()), (2, 3), "full ones are taken out on the way");
        land(&mut flight, 0);
        assert_eq!([flight.with_room(4), flight.with_room(2), flight.with_room(3)], [0, 2, 0]);
        give_up(&mut flight, 100);
        assert_eq!(flight.rooms.len(), 5);
        assert_eq!([0, 1, 2, 3, 4].map(|flow| flight.with_room(flow)), [0, 1, 2, 3, 4]);
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
    fn a_second_reply_is_one_however_many_requests_there_were() {
        let mut flight = Flight::new(1, 1, u32::MAX, true);
        for next in [1 << 30, 1 << 31, u32::MAX - 1] {
            flight.flows[0].next = next;
            assert_eq!(launch(&mut flight, 0, 0), next);
            land(&mut flight, next);
            assert_eq!(stray(&mut flight, 0, next), "duplicate");
        }
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

    #[test]
    fn a_request_that_was_due_in_a_stall_is_given_up_as_such() {
        let (mut flight, mut stalls) = (Flight::new(1, 2, u32::MAX, true), Stalls::new(&FakeClock::default(), true));
        stalls.begin(Ticks(0));
        stalls.look(Ticks(20_000));
        launch(&mut flight, 0, 19_000);
        launch(&mut flight, 0, 21_000);
        assert_eq!(flight.give_up(Ticks(30_000), 10, true, &stalls, |_| ()).0, 2);
        // Another block has other stalls.
        stalls.begin(Ticks(30_000));
        assert_eq!(flight.given_up.iter().map(|one| one.stalled).collect::<Vec<_>>(), [true, false]);
    }
}
