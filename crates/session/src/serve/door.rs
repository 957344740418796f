//! Admission to the handshake, so that nobody keeps others out by just holding connections open.
//!
//! ```text
//!   accept ─▶ waiting, 64 of a source, 256 in all ─▶ inside, 8 of a source, 32 in all ─▶ the session, or away
//!               └ beyond: refused                     └ full: the longest there of the source with most gives way
//! ```
//! The waiting connection whose source has fewest inside is let in first, and nobody gives way before their handshake has had its
//! time, or while they wait for the session. So a source that reconnects as fast as it can gets its share of places and no more,
//! and whoever waits, at the same address or beside 250 other sources, does so for at most two and a half seconds, half of the
//! time that a client has.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

/// Most connections in a handshake at once …
const MOST_INSIDE: usize = 32;
/// … from one source.
const SHARE_INSIDE: usize = 8;
/// Most connections waiting for one …
const MOST_WAITING: usize = 256;
/// … from one source.
const SHARE_WAITING: usize = 64;
/// Time that a handshake gets before it may have to give way: it takes two round trips, here of 150 ms.
const LEAST_TIME: Duration = Duration::from_millis(300);

/// The source of a connection: an IPv4 address, or the 64-bit network that one host of IPv6 has to itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Source(IpAddr);

impl Source {
    fn of(address: IpAddr) -> Source {
        Source(match address.to_canonical() {
            IpAddr::V6(address) if !address.is_loopback() && !address.is_unicast_link_local() => {
                Ipv6Addr::from(u128::from(address) >> 64 << 64).into()
            }
            other => other,
        })
    }
}

/// The connections in a handshake, or on their way from it to the session.
#[derive(Debug)]
pub(super) struct Door<T> {
    waiting: VecDeque<(Source, T)>,
    inside: Vec<Inside<T>>,
    next: u64,
}

#[derive(Debug)]
struct Inside<T> {
    id: u64,
    source: Source,
    since: Instant,
    /// It has completed the handshake, and waits for the session.
    stays: bool,
    guest: T,
}

/// Room inside for a new connection.
enum Room {
    Free,
    /// The place of this one, which gives way.
    Of(usize),
    Full,
}

/// The next step.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next<T> {
    /// Nobody waits.
    Nobody,
    /// Look again after this time.
    Wait(Duration),
    /// Let this one in.
    Come {
        /// The number under which it leaves again.
        id: u64,
        guest: T,
        /// The connection that has to give way, if any.
        gives_way: Option<T>,
    },
}

impl<T: Clone> Door<T> {
    pub(super) fn new() -> Door<T> {
        Door { waiting: VecDeque::new(), inside: Vec::new(), next: 0 }
    }

    /// Adds a new connection; returns one to refuse, if there are too many.
    pub(super) fn arrive(&mut self, from: IpAddr, guest: T) -> Option<T> {
        let source = Source::of(from);
        if self.waiting_of(source) >= SHARE_WAITING {
            return Some(guest);
        }
        self.waiting.push_back((source, guest));
        if self.waiting.len() <= MOST_WAITING {
            return None;
        }
        // The last one of the source with most.
        let most = self.waiting.iter().map(|(source, _)| *source).max_by_key(|source| self.waiting_of(*source))?;
        let at = self.waiting.iter().rposition(|(source, _)| *source == most)?;
        self.waiting.remove(at).map(|(_, guest)| guest)
    }

    /// The connection to let in now.
    pub(super) fn next(&mut self, now: Instant) -> Next<T> {
        let mut least_wait = None::<Duration>;
        let mut best = None::<(usize, usize, Option<usize>)>;
        for (at, (source, _)) in self.waiting.iter().enumerate() {
            let own = self.inside_of(*source);
            if best.is_some_and(|(_, least, _)| least <= own) {
                continue;
            }
            let (victim, left) = match self.room(*source, own) {
                Room::Free => (None, Duration::ZERO),
                Room::Of(at) => (Some(at), LEAST_TIME.saturating_sub(now.saturating_duration_since(self.inside[at].since))),
                Room::Full => (None, LEAST_TIME),
            };
            if left.is_zero() {
                best = Some((at, own, victim));
            } else {
                least_wait = Some(least_wait.map_or(left, |least| least.min(left)));
            }
        }
        let Some((at, _, victim)) = best else { return least_wait.map_or(Next::Nobody, Next::Wait) };
        let Some((source, guest)) = self.waiting.remove(at) else { return Next::Nobody };
        let gives_way = victim.map(|at| self.inside.remove(at).guest);
        let id = self.next;
        self.next += 1;
        self.inside.push(Inside { id, source, since: now, stays: false, guest: guest.clone() });
        Next::Come { id, guest, gives_way }
    }

    /// From now on this connection gives way to nobody, or to others as before; false if it had to give way already.
    pub(super) fn stay(&mut self, id: u64, stays: bool) -> bool {
        let inside = self.inside.iter_mut().find(|inside| inside.id == id);
        inside.is_some_and(|inside| {
            inside.stays = stays;
            true
        })
    }

    /// Removes a connection that is served or closed.
    pub(super) fn leave(&mut self, id: u64) {
        self.inside.retain(|inside| inside.id != id);
    }

    /// The room for a new connection from `source`, which has `own` connections inside. Those inside are in order of arrival.
    fn room(&self, source: Source, own: usize) -> Room {
        let passing = || self.inside.iter().filter(|inside| !inside.stays).map(|inside| inside.source);
        let of = match (own >= SHARE_INSIDE, self.inside.len() >= MOST_INSIDE) {
            (true, _) => Some(source),
            (false, false) => return Room::Free,
            // The first one of the source with most.
            (false, true) => {
                let most = passing().map(|source| self.inside_of(source)).max();
                passing().find(|source| Some(self.inside_of(*source)) == most)
            }
        };
        let gives_way = self.inside.iter().position(|inside| !inside.stays && Some(inside.source) == of);
        gives_way.map_or(Room::Full, Room::Of)
    }

    fn inside_of(&self, source: Source) -> usize {
        self.inside.iter().filter(|inside| inside.source == source).count()
    }

    fn waiting_of(&self, source: Source) -> usize {
        self.waiting.iter().filter(|(other, _)| *other == source).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v4(last: u8) -> IpAddr {
        [127, 0, 0, last].into()
    }

    /// Lets in everyone who can enter now; returns who entered, and who gave way.
    fn come(door: &mut Door<u32>, now: Instant) -> (Vec<u32>, Vec<u32>) {
        let (mut came, mut gone) = (Vec::new(), Vec::new());
        while let Next::Come { guest, gives_way, .. } = door.next(now) {
            came.push(guest);
            gone.extend(gives_way);
        }
        (came, gone)
    }

    #[test]
    fn one_address_has_its_share_and_its_oldest_gives_way() {
        let (mut door, now) = (Door::new(), Instant::now());
        assert_eq!((0..40).filter_map(|guest| door.arrive(v4(1), guest)).count(), 0);
        assert_eq!(come(&mut door, now), ((0..8).collect(), vec![]));
        assert_eq!(door.next(now + LEAST_TIME / 2), Next::Wait(LEAST_TIME / 2), "a handshake has its time");
        let later = now + LEAST_TIME;
        assert_eq!(come(&mut door, later), ((8..16).collect(), (0..8).collect()));
        // Another address gets the other places at once.
        door.arrive(v4(2), 100);
        assert_eq!(come(&mut door, later), (vec![100], vec![]));
    }

    #[test]
    fn quiet_addresses_enter_before_crowded_ones() {
        let (mut door, now) = (Door::new(), Instant::now());
        for address in 1..=5 {
            (0..40).for_each(|guest| assert_eq!(door.arrive(v4(address), u32::from(address) * 100 + guest), None));
        }
        assert_eq!(come(&mut door, now).0.len(), MOST_INSIDE);
        door.arrive(v4(9), 1);
        let Next::Come { guest, gives_way, .. } = door.next(now + LEAST_TIME) else { panic!("nobody comes") };
        assert_eq!((guest, gives_way.is_some()), (1, true));
    }

    #[test]
    fn the_same_address_gets_its_turn_however_many_wait() {
        let (mut door, mut now) = (Door::new(), Instant::now());
        (0..63).for_each(|guest| assert_eq!(door.arrive(v4(1), guest), None));
        assert_eq!(door.arrive(v4(1), 1_000), None);
        assert_eq!(door.arrive(v4(1), 64), Some(64), "one too many");
        let begun = now;
        while !come(&mut door, now).0.contains(&1_000) {
            now += Duration::from_millis(10);
        }
        assert!(now - begun < 9 * LEAST_TIME, "{:?}", now - begun);
    }

    #[test]
    fn one_among_250_sources_gets_its_turn_in_half_of_its_time() {
        let (mut door, begun) = (Door::new(), Instant::now());
        let source = |guest: u32| IpAddr::from([10, 0, 0, guest as u8]);
        (0..250).for_each(|guest| assert_eq!(door.arrive(source(guest), guest), None));
        assert_eq!(door.arrive(v4(1), 1_000), None);
        let mut now = begun;
        loop {
            let (came, gone) = come(&mut door, now);
            if came.contains(&1_000) {
                break;
            }
            // Each is there again at once.
            gone.into_iter().for_each(|guest| assert_eq!(door.arrive(source(guest), guest), None));
            now += Duration::from_millis(10);
        }
        assert!(now - begun <= crate::handshake::TIME_LIMIT / 2, "{:?}", now - begun);
    }

    #[test]
    fn a_full_house_refuses_the_last_of_the_largest_crowd() {
        let mut door = Door::new();
        for address in 1..=4 {
            (0..63).for_each(|guest| assert_eq!(door.arrive(v4(address), guest), None));
        }
        (0..3).for_each(|guest| assert_eq!(door.arrive(v4(9), guest), None));
        assert_eq!(door.arrive(v4(4), 70), None, "256 wait");
        assert_eq!(door.arrive(v4(9), 3), Some(70));
    }

    #[test]
    fn a_place_that_is_left_is_free_at_once() {
        let (mut door, now) = (Door::new(), Instant::now());
        (0..9).for_each(|guest| assert_eq!(door.arrive(v4(1), guest), None));
        let Next::Come { id, .. } = door.next(now) else { panic!("nobody comes") };
        assert_eq!(come(&mut door, now).0.len(), 7);
        door.leave(id);
        assert_eq!(come(&mut door, now), (vec![8], vec![]));
        assert_eq!(door.next(now), Next::Nobody);
    }

    #[test]
    fn who_waits_for_the_session_gives_way_to_nobody() {
        let (mut door, now) = (Door::new(), Instant::now());
        (0..9).for_each(|guest| assert_eq!(door.arrive(v4(1), guest), None));
        assert_eq!(come(&mut door, now).0, (0..8).collect::<Vec<_>>());
        assert!(door.stay(0, true), "the oldest");
        assert_eq!(come(&mut door, now + LEAST_TIME), (vec![8], vec![1]));
        assert!(!door.stay(1, true), "it is gone");
        // Nobody is left to give way, here and in a full house.
        (2..9).for_each(|id| assert!(door.stay(id, true)));
        assert_eq!(door.arrive(v4(1), 9), None);
        for address in 2..=4 {
            (0..9).for_each(|guest| assert_eq!(door.arrive(v4(address), u32::from(address) * 100 + guest), None));
        }
        let (came, gone) = come(&mut door, now + LEAST_TIME);
        assert_eq!((came.len(), came[0], gone), (24, 200, vec![]));
        (9..33).for_each(|id| assert!(door.stay(id, true)));
        door.arrive(v4(5), 500);
        assert_eq!(door.next(now + 9 * LEAST_TIME), Next::Wait(LEAST_TIME));
        assert!(door.stay(9, false), "it has been told");
        assert_eq!(come(&mut door, now + 9 * LEAST_TIME), (vec![500], vec![200]));
    }

    #[test]
    fn an_ipv6_host_is_known_by_its_network() {
        let of = |text: &str| Source::of(text.parse().unwrap());
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:2"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("::ffff:192.0.2.1"), of("192.0.2.1"));
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
        assert_ne!(of("fe80::1"), of("fe80::2"), "all of a link have that network");
    }
}
