//! Stamps of a packet socket's frames: their source, and the collection of those of sent frames.
//!
//! ```text
//!   tx_batch ─▶ queue: a number each, if it is to be stamped
//!   kick     ─▶ sendmsg(2) with a request ─▶ driver, device
//!                  key n: the n-th that was asked for      └─▶ error queue: key, stamp ─▶ departures: number, stamp
//! ```
//! The socket counts keys (SOF_TIMESTAMPING_OPT_ID), and a frame that it refuses may have used one up: then keys are counted
//! anew. A stamp of the device that was under way then has a key that comes a second time, so it is told of neither frame.

use std::collections::VecDeque;
use std::io;
use std::os::fd::AsFd;

use hairpin_sys::ethtool::{Ethtool, Stamping};
use hairpin_sys::packet_socket::PacketSocket;
use hairpin_sys::timestamping::{self, Ask, Place, Sent};

use rustix::net::SendFlags;

use crate::device::Config;
use crate::granted::{Feature, Refused, TimeSource};
use crate::io::{Departed, Departure};

/// Frames whose keys are remembered, a power of two.
const REMEMBERED: usize = 4096;
/// Restarts of the keys whose stamps under way are remembered.
const RESTARTS: usize = 64;

/// The sources of the stamps of received and of sent frames, by the device's present claims. `refused` gets the reasons
/// against the device.
pub(super) fn claimed(interface: &str, config: &Config, refused: &mut Vec<Refused>) -> [Option<TimeSource>; 2] {
    let (rx, tx) = (Feature::HardwareTime, Feature::HardwareDeparture);
    let software = [Some(TimeSource::Software), config.departures.then_some(TimeSource::Software)];
    if !config.metadata && !config.departures {
        return software;
    }
    let told = Ethtool::open().and_then(|ethtool| ethtool.stamping(interface)).map_err(|error| error.to_string());
    let whys = refusals(interface, &told);
    let mut by = software;
    for (((by, asked), feature), why) in by.iter_mut().zip([config.metadata, config.departures]).zip([rx, tx]).zip(whys) {
        match why {
            _ if !asked => {}
            None => *by = Some(TimeSource::Hardware),
            Some(why) => refused.push(Refused { feature, why }),
        }
    }
    by
}

/// Reasons why the device does not stamp every received and every sent frame; `None` where it claims to.
fn refusals(interface: &str, told: &Result<Option<Stamping>, String>) -> [Option<String>; 2] {
    let both = |why: String| [Some(why.clone()), Some(why)];
    match told {
        Ok(None) => both(format!("the driver of {interface} has no stamps of a device (SIOCGHWTSTAMP)")),
        Err(error) => both(error.clone()),
        Ok(Some(Stamping { tx_type, rx_filter, .. })) => {
            let off = |which| {
                format!(
                    "{interface} stamps no frames that {which} now: hairpin tune apply hardware_timestamping=on -i {interface}"
                )
            };
            // HWTSTAMP_FILTER_NONE, HWTSTAMP_FILTER_ALL; HWTSTAMP_TX_OFF.
            let rx = match rx_filter {
                0 => Some(off("arrive")),
                1 => None,
                some => Some(format!(
                    "{interface} stamps only some of the frames that arrive (rx_filter {some} of SIOCGHWTSTAMP); those stamps are taken"
                )),
            };
            [rx, (*tx_type == 0).then(|| off("are sent"))]
        }
    }
}

/// Stamps of the frames that a socket sends.
pub(super) struct Departures {
    ask: Ask,
    on: bool,
    /// True if frames that are queued from now on are to be stamped.
    pub(super) asks: bool,
    /// For each frame in the queue its number, if it is to be stamped.
    queue: VecDeque<Option<u32>>,
    /// Frames in the queue that are to be stamped.
    asked: usize,
    /// Keys counted so far, and the numbers of the frames that had the last of them.
    keys: u32,
    numbers: Box<[Option<u32>; REMEMBERED]>,
    /// The key from which on the device's stamps are still to come: it stamps in order.
    due: u32,
    /// The first key and the number of keys whose stamps of the device were under way when keys were counted anew, oldest first.
    doubtful: VecDeque<(u32, u32)>,
    came: VecDeque<Departure>,
    most: usize,
    /// Stamps that came while `most` others waited to be taken, and stamps of unknown or doubtful frames.
    pub(super) lost: u64,
}

impl Departures {
    /// Switches the socket's stamps on, with `by_device` those of the device too.
    pub(super) fn of(socket: &PacketSocket, by_device: bool, most: u32) -> io::Result<Departures> {
        let ask = Ask { each: false, queue: false, hardware: by_device, stream: false };
        // A frame may have a stamp of each kind.
        let most = 2 * most as usize;
        let mut departures = Departures {
            ask,
            on: false,
            asks: true,
            queue: VecDeque::with_capacity(most),
            asked: 0,
            keys: 0,
            numbers: Box::new([None; REMEMBERED]),
            due: 0,
            doubtful: VecDeque::with_capacity(RESTARTS),
            came: VecDeque::with_capacity(most),
            most,
            lost: 0,
        };
        departures.switch(socket, true)?;
        Ok(departures)
    }

    pub(super) fn switch(&mut self, socket: &PacketSocket, on: bool) -> io::Result<()> {
        self.collect(socket)?;
        (self.on, self.asks) = (on, true);
        self.forget();
        if on { timestamping::on(socket, self.ask).map(drop) } else { timestamping::off(socket) }
    }

    /// Notes that `count` frames are queued, numbered from `first`.
    pub(super) fn queued(&mut self, first: u32, count: usize) {
        let asks = self.on && self.asks;
        self.asked += if asks { count } else { 0 };
        self.queue.extend((0..count as u32).map(|n| asks.then(|| first.wrapping_add(n))));
    }

    /// True if a frame in the queue is to be stamped: all of it is then sent frame by frame.
    #[inline]
    pub(super) fn has_asked(&self) -> bool {
        self.asked > 0
    }

    /// Sends the first frame of the queue, and asks for its stamps.
    pub(super) fn send(&mut self, socket: &PacketSocket, frame: &[u8]) -> io::Result<()> {
        let Some(number) = self.queue.front().copied().flatten().filter(|_| self.on) else { return socket.send(frame) };
        match timestamping::send(socket, frame, SendFlags::NOSIGNAL) {
            Ok(_) => {
                self.numbers[self.keys as usize % REMEMBERED] = Some(number);
                self.keys = self.keys.wrapping_add(1);
                Ok(())
            }
            Err(error) => {
                self.count_anew(socket)?;
                Err(error.into())
            }
        }
    }

    /// Notes that the first `count` frames have left the queue, sent or refused.
    pub(super) fn left(&mut self, count: usize) {
        self.asked -= self.queue.drain(..count).flatten().count();
    }

    #[cold]
    fn count_anew(&mut self, socket: &PacketSocket) -> io::Result<()> {
        self.collect(socket)?;
        self.forget();
        timestamping::on(socket, self.ask).map(drop)
    }

    /// The socket is about to count keys from 0.
    fn forget(&mut self) {
        let under_way = self.keys.wrapping_sub(self.due).min(REMEMBERED as u32);
        if self.ask.hardware && under_way > 0 {
            if self.doubtful.len() == RESTARTS {
                self.doubtful.pop_front();
            }
            self.doubtful.push_back((self.keys.wrapping_sub(under_way), under_way));
        }
        (self.keys, self.due) = (0, 0);
        self.numbers.fill(None);
    }

    /// True if a stamp of the device with this key may be of a frame from before the keys were counted anew.
    fn is_doubtful(&mut self, key: u32) -> bool {
        while let Some((first, count)) = self.doubtful.front_mut() {
            let since = key.wrapping_sub(*first);
            if since < *count {
                (*first, *count) = (key.wrapping_add(1), *count - since - 1);
                return true;
            }
            // A later stamp: no more of these come.
            self.doubtful.pop_front();
        }
        false
    }

    /// Takes the stamps out of the socket's error queue.
    pub(super) fn collect(&mut self, socket: &impl AsFd) -> io::Result<()> {
        while let Some(sent) = timestamping::sent(socket)? {
            self.note(sent);
        }
        Ok(())
    }

    fn note(&mut self, sent: Sent) {
        // A frame that was sent before the stamps were switched off may come with none. That is the device's: the driver's is
        // there when the send returns.
        let stamps = [sent.hardware.map(Departed::Hardware), sent.software.map(Departed::Software)];
        let by_device = sent.hardware.is_some() || sent.software.is_none();
        let doubtful = by_device && self.is_doubtful(sent.key);
        let number = self.number(sent.key).filter(|_| sent.place == Place::Driver && !doubtful);
        if by_device && number.is_some() {
            self.due = sent.key.wrapping_add(1);
        }
        for time in stamps.into_iter().flatten() {
            match number {
                Some(frame) if self.came.len() < self.most => self.came.push_back(Departure { frame, time }),
                _ => self.lost = self.lost.wrapping_add(1),
            }
        }
    }

    /// The number of the frame with this key.
    fn number(&self, key: u32) -> Option<u32> {
        let since = self.keys.wrapping_sub(key);
        (1..=REMEMBERED as u32).contains(&since).then(|| self.numbers[key as usize % REMEMBERED]).flatten()
    }

    pub(super) fn take(&mut self, socket: &PacketSocket, into: &mut Vec<Departure>) -> io::Result<usize> {
        self.collect(socket)?;
        let count = self.came.len();
        into.extend(self.came.drain(..));
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(key: u32, software: Option<u64>, hardware: Option<u64>) -> Sent {
        Sent { place: Place::Driver, key, software, hardware }
    }

    fn departures() -> Departures {
        Departures {
            ask: Ask { each: false, queue: false, hardware: true, stream: false },
            on: true,
            asks: true,
            queue: VecDeque::new(),
            asked: 0,
            keys: 0,
            numbers: Box::new([None; REMEMBERED]),
            due: 0,
            doubtful: VecDeque::new(),
            came: VecDeque::new(),
            most: 4,
            lost: 0,
        }
    }

    fn keyed(departures: &mut Departures, number: u32) {
        departures.numbers[departures.keys as usize % REMEMBERED] = Some(number);
        departures.keys = departures.keys.wrapping_add(1);
    }

    #[test]
    fn a_stamp_is_that_of_the_frame_with_its_key() {
        let mut departures = departures();
        [7, 9, u32::MAX].into_iter().for_each(|number| keyed(&mut departures, number));
        departures.note(sent(0, Some(100), None));
        departures.note(sent(2, None, Some(5)));
        departures.note(sent(1, Some(200), Some(6)));
        let expected = [
            Departure::new(7, Departed::Software(100)),
            Departure::new(u32::MAX, Departed::Hardware(5)),
            Departure::new(9, Departed::Hardware(6)),
            Departure::new(9, Departed::Software(200)),
        ];
        assert_eq!((departures.came.make_contiguous() as &[_], departures.lost), (&expected[..], 0));
        departures.note(sent(1, Some(300), None));
        assert_eq!((departures.came.len(), departures.lost), (4, 1), "nobody took the others");
        departures.came.clear();
        for key in [3, 4, u32::MAX] {
            departures.note(sent(key, Some(1), None));
        }
        departures.note(Sent { place: Place::Queue, ..sent(1, Some(1), None) });
        assert_eq!((departures.came.len(), departures.lost), (0, 5), "of no frame that was sent");
        departures.note(sent(9, None, None));
        assert_eq!(departures.lost, 5, "no stamp is none lost");
    }

    /// The stamps that were told since the last call.
    fn told(departures: &mut Departures) -> Vec<Departure> {
        departures.came.drain(..).collect()
    }

    #[test]
    fn a_stamp_under_way_is_not_that_of_a_new_frame_with_its_key() {
        let mut departures = departures();
        [7, 8, 9].into_iter().for_each(|number| keyed(&mut departures, number));
        departures.note(sent(0, None, Some(5)));
        assert_eq!(told(&mut departures), [Departure::new(7, Departed::Hardware(5))]);
        // A frame was refused, twice: keys 1 and 2 are under way, and nothing was sent in between.
        departures.forget();
        departures.forget();
        [10, 11, 12, 13].into_iter().for_each(|number| keyed(&mut departures, number));
        departures.note(sent(1, None, Some(6)));
        departures.note(sent(1, Some(200), None));
        assert_eq!((told(&mut departures), departures.lost), (vec![Departure::new(11, Departed::Software(200))], 1));
        // Key 2 never came, as the next one says; from then on keys are those of the new frames.
        for key in 0..4 {
            departures.note(sent(key, None, Some(u64::from(key))));
        }
        let expected: Vec<_> = (0..4).map(|key| Departure::new(10 + key, Departed::Hardware(u64::from(key)))).collect();
        assert_eq!((told(&mut departures), departures.lost), (expected, 1));
    }

    #[test]
    fn stamps_under_way_at_two_refusals_are_told_of_no_frame() {
        let mut departures = departures();
        [1, 2].into_iter().for_each(|number| keyed(&mut departures, number));
        departures.forget();
        keyed(&mut departures, 3);
        departures.forget();
        keyed(&mut departures, 4);
        // Those of 1, 2 and 3, and then that of 4; a time that is lost with the stamps off is one of them too.
        departures.note(sent(0, None, Some(5)));
        departures.note(sent(1, None, None));
        departures.note(sent(0, None, Some(6)));
        assert_eq!((told(&mut departures), departures.lost), (vec![], 2));
        departures.note(sent(0, None, Some(7)));
        assert_eq!((told(&mut departures), departures.lost), (vec![Departure::new(4, Departed::Hardware(7))], 2));
    }

    #[test]
    fn the_last_keys_are_remembered_across_the_wrap() {
        let mut departures = departures();
        departures.keys = u32::MAX - 2;
        (0..REMEMBERED as u32 + 5).for_each(|number| keyed(&mut departures, number));
        let first = (u32::MAX - 2).wrapping_add(5);
        assert_eq!((departures.number(first), departures.number(first.wrapping_sub(1))), (Some(5), None));
        assert_eq!(departures.number(departures.keys.wrapping_sub(1)), Some(REMEMBERED as u32 + 4));
        assert_eq!(departures.number(departures.keys), None);
    }

    #[test]
    fn frames_in_the_queue_are_numbered_as_they_were_asked_for() {
        let mut departures = departures();
        departures.queued(u32::MAX, 2);
        departures.asks = false;
        departures.queued(1, 2);
        departures.asks = true;
        departures.queued(3, 1);
        assert_eq!(departures.queue, [Some(u32::MAX), Some(0), None, None, Some(3)]);
        departures.on = false;
        departures.queued(4, 1);
        departures.left(1);
        assert_eq!((&departures.queue, departures.asked), (&VecDeque::from([Some(0), None, None, Some(3), None]), 2));
        departures.left(5);
        assert!(!departures.has_asked());
    }

    #[test]
    fn each_claim_of_a_device_gives_its_own_reason() {
        let told = |tx_type, rx_filter| Ok(Some(Stamping { flags: 0, tx_type, rx_filter }));
        assert_eq!(refusals("eth0", &told(1, 1)), [None, None]);
        let [rx, tx] = refusals("eth0", &told(0, 12)).map(Option::unwrap_or_default);
        assert!(rx.contains("only some of the frames that arrive (rx_filter 12"), "{rx}");
        assert!(tx.contains("no frames that are sent now: hairpin tune apply hardware_timestamping=on -i eth0"), "{tx}");
        let [rx, tx] = refusals("eth0", &told(2, 0));
        assert!(rx.is_some_and(|why| why.contains("no frames that arrive")) && tx.is_none());
        let [rx, tx] = refusals("veth0", &Ok(None));
        assert!(rx == tx && rx.is_some_and(|why| why.contains("the driver of veth0 has no stamps")));
        assert_eq!(refusals("eth0", &Err("gone".into())), [Some("gone".into()), Some("gone".into())]);
    }
}
