//! Stamps of sent frames: asked for in front of each frame, read when its chunk comes back.
//!
//! ```text
//!   chunk │ … │ flags: u64 │ request: 0 │ 0 │ frame …    sent with XDP_TX_METADATA
//!         │ … │            │ stamp: u64 │   │            in the completion ring: the stamp lies where the request lay
//! ```
//! With zero-copy the device stamps, by its own clock. In copy mode the kernel stamps, by CLOCK_TAI, when it frees its copy of
//! the frame: over veth, after the frame has reached the peer.
//!
//! All of this is out of line, so that the code for frames without stamps stays small.
//!
//! Sources: `Documentation/networking/xsk-tx-metadata.rst`, `include/uapi/linux/if_xdp.h` (`struct xsk_tx_metadata`),
//! `net/xdp/xsk.c` (`xsk_destruct_skb`).

use std::collections::VecDeque;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::sockopt;
use rustix::net::xdp::{XdpDesc, XdpDescOptions, XdpUmemReg, XdpUmemRegFlags};

use super::Socket;
use crate::umem::Frame;

/// Bytes of `struct xsk_tx_metadata` since Linux 6.14, 16 before; as a length of `struct xdp_umem_reg`, a multiple of eight.
pub const DEPARTURE_BYTES: usize = 24;
/// `XDP_TXMD_FLAGS_TIMESTAMP`.
const ASK: u64 = 1;
/// Offset of the request, and of the stamp that replaces it.
const UNION_AT: usize = 8;
/// `XDP_TX_METADATA`.
const WITH_METADATA: XdpDescOptions = XdpDescOptions::from_bits_retain(1 << 1);
/// `XDP_UMEM_TX_METADATA_LEN`.
const HAS_LENGTH: XdpUmemRegFlags = XdpUmemRegFlags::from_bits_retain(1 << 2);

/// Stamps received and stamps still awaited.
#[derive(Debug)]
pub(super) struct Departures {
    /// True if frames are sent with a request.
    pub(super) asks: bool,
    /// Frames passed to the TX ring so far; wraps.
    sent: u32,
    /// By chunk: the number of the frame in it that is to be stamped.
    awaited: Box<[Option<u32>]>,
    came: VecDeque<(u32, u64)>,
    most: usize,
    /// Stamps that did not come with their chunk, or came while `most` others waited to be read.
    pub(super) lost: u64,
}

impl Departures {
    pub(super) fn new(chunks: usize, most: u32) -> Departures {
        let most = most as usize;
        let (awaited, came) = (vec![None; chunks].into(), VecDeque::with_capacity(most));
        Departures { asks: true, sent: 0, awaited, came, most, lost: 0 }
    }

    /// Writes the request in front of the next frame, which has room for it there; returns the options of its descriptor.
    fn request(&mut self, chunk: usize, in_front: &mut [u8]) -> XdpDescOptions {
        let number = self.sent;
        self.sent = self.sent.wrapping_add(1);
        let place = in_front.last_chunk_mut::<DEPARTURE_BYTES>().filter(|_| self.asks);
        let (Some(place), Some(awaited)) = (place, self.awaited.get_mut(chunk)) else { return XdpDescOptions::empty() };
        *place = [0; DEPARTURE_BYTES];
        place[..UNION_AT].copy_from_slice(&ASK.to_ne_bytes());
        *awaited = Some(number);
        WITH_METADATA
    }

    /// Reads the stamp in front of a frame whose chunk has come back.
    fn returned(&mut self, chunk: usize, in_front: &[u8]) {
        let Some(number) = self.awaited.get_mut(chunk).and_then(Option::take) else { return };
        match stamp(in_front).filter(|_| self.came.len() < self.most) {
            Some(ns) => self.came.push_back((number, ns)),
            None => self.lost = self.lost.wrapping_add(1),
        }
    }
}

/// The stamp in the bytes in front of a sent frame; `None` if nobody wrote one.
fn stamp(in_front: &[u8]) -> Option<u64> {
    let place = in_front.last_chunk::<DEPARTURE_BYTES>()?;
    let ns = u64::from_ne_bytes(*place[UNION_AT..].first_chunk()?);
    (ns != 0).then_some(ns)
}

/// Registers memory whose frames have [`DEPARTURE_BYTES`] in front of them.
pub(super) fn register(fd: &OwnedFd, memory: XdpUmemReg) -> Result<(), Errno> {
    let memory = XdpUmemReg { tx_metadata_len: DEPARTURE_BYTES as u32, ..memory };
    match sockopt::set_xdp_umem_reg(fd, XdpUmemReg { flags: HAS_LENGTH, ..memory }) {
        // Linux 6.8 to 6.10 take the length without a flag for it.
        Err(Errno::INVAL) => sockopt::set_xdp_umem_reg(fd, memory),
        done => done,
    }
}

impl Socket {
    /// Asks for a stamp of each frame that is sent from now on, or for none; for a socket with
    /// [`Options::departures`](super::Options).
    pub fn ask_departures(&mut self, asks: bool) {
        if let Some(departures) = &mut self.departures {
            departures.asks = asks;
        }
    }

    /// Passes on the stamps that came since the last call: the number of frames that the socket sent before this one, and the
    /// time in ns. At most as many stamps as the ring has entries are kept.
    pub fn departures(&mut self, mut take: impl FnMut(u32, u64)) {
        self.reclaim();
        if let Some(departures) = &mut self.departures {
            departures.came.drain(..).for_each(|(number, ns)| take(number, ns));
        }
    }

    /// Stamps that were asked for and did not come, or that nobody read in time.
    pub fn departures_lost(&self) -> u64 {
        self.departures.as_ref().map_or(0, |departures| departures.lost)
    }

    /// [`Socket::send`] for frames with a place for a request in front of them.
    #[cold]
    #[inline(never)]
    pub(super) fn send_stamped(&mut self, frames: &mut Vec<Frame>) -> (usize, u64) {
        let Some(departures) = &mut self.departures else { return (0, 0) };
        let umem = self.pool.umem().clone();
        // The completion ring must have room for everything the kernel may complete.
        let want = (frames.len() as u32).min(self.entries - self.in_flight);
        let room = self.sending.room(want, self.tx.consumer());
        let mut bytes = 0;
        for mut frame in frames.drain(..room as usize) {
            let (chunk, len) = (frame.chunk(), frame.len() as u32);
            bytes += u64::from(len);
            if len == 0 || !umem.make_room(&mut frame, DEPARTURE_BYTES) {
                departures.sent = departures.sent.wrapping_add(1);
                self.refused += 1;
                self.pool.give(frame);
                continue;
            }
            let options = departures.request(chunk, umem.in_front_mut(&mut frame));
            let addr = self.pool.lend(frame);
            self.tx.write(self.sending.slot(), XdpDesc { addr, len, options });
            self.in_flight += 1;
        }
        self.sending.submit(self.tx.producer());
        (room as usize, bytes)
    }

    /// [`Socket::reclaim`] for such frames.
    #[cold]
    #[inline(never)]
    pub(super) fn reclaim_stamped(&mut self, done: u32) {
        let Some(departures) = &mut self.departures else { return };
        for _ in 0..done {
            let at = self.completion.read(self.sent.slot());
            match self.pool.redeem(at, 0) {
                Some(frame) => {
                    departures.returned(frame.chunk(), self.pool.umem().in_front(&frame));
                    self.pool.give(frame);
                }
                None => self.invalid += 1,
            }
        }
        self.sent.release(self.completion.consumer());
        self.in_flight -= done;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_stamp_belongs_to_the_frame_that_asked_for_it() {
        let mut departures = Departures::new(4, 2);
        let mut in_front = [0xff; 64];
        assert_eq!(departures.request(3, &mut in_front), WITH_METADATA);
        assert_eq!((&in_front[..40], &in_front[40..48]), (&[0xff; 40][..], &1_u64.to_ne_bytes()[..]));
        assert_eq!(in_front[48..], [0; 16]);
        departures.asks = false;
        assert_eq!(departures.request(2, &mut in_front), XdpDescOptions::empty());
        departures.asks = true;
        assert_eq!(departures.request(1, &mut in_front), WITH_METADATA);
        in_front[48..56].copy_from_slice(&77_u64.to_ne_bytes());
        // The second frame asked for no stamp, so its bytes do not count.
        for chunk in [1, 2, 3, 3, 4, usize::MAX] {
            departures.returned(chunk, &in_front);
        }
        assert_eq!(departures.came, [(2, 77), (0, 77)]);
        // Two stamps wait to be read, and no more are kept.
        departures.request(0, &mut in_front.clone());
        departures.returned(0, &in_front);
        assert_eq!((departures.came.len(), departures.lost), (2, 1));
        departures.came.clear();
        // The device stamped nothing.
        departures.request(0, &mut in_front);
        departures.returned(0, &in_front);
        assert_eq!((departures.came.len(), departures.lost), (0, 2));
        departures.sent = u32::MAX;
        departures.request(0, &mut in_front);
        assert_eq!((departures.awaited[0], departures.sent), (Some(u32::MAX), 0));
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_stamp_or_none(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let expected = bytes.len().checked_sub(DEPARTURE_BYTES).map(|at| &bytes[at + 8..at + 16]);
            let expected = expected.map(|word| u64::from_ne_bytes(word.try_into().unwrap())).filter(|ns| *ns != 0);
            prop_assert_eq!(stamp(&bytes), expected);
        }
    }
}
