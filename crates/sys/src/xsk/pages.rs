//! Frames longer than a page: sent in place, reassembled on arrival.
//!
//! ```text
//!   Frame  │ page │ page │ page │ ─ lend_pages ─▶ TX ring: 4096 more│4096 more│808 ─▶ kernel        nothing is copied
//!
//!   kernel ─▶ RX ring: 3840 more│3840 more│1320 ─ copy ─▶ one Frame of the pool                      each frame is copied once more
//!                       │ page      │ page    │ page
//!   fill ring ◀─────────┴───────────┴─────────┘   these pages never leave this socket
//! ```
//! All of this is out of line, so that the code for frames within a page stays small.
//!
//! A received frame is copied because its pages may lie anywhere, each behind its own headroom, while an application needs one
//! piece of memory.
//!
//! Source: `Documentation/networking/af_xdp.rst` ("Multi-Buffer Support"), `net/xdp/xsk.c`.

use rustix::net::xdp::{XdpDesc, XdpDescOptions};

use super::{Socket, clear};
use crate::umem::{Back, Frame, Pool};

/// The pages to receive into, and the frame being reassembled.
#[derive(Debug)]
pub(super) struct Pages {
    pool: Pool,
    /// Offset of the pages in the registered memory.
    begin: u64,
    frame: Option<Frame>,
    /// Discard the rest of the frame.
    spoilt: bool,
    too_long: u64,
}

impl Pages {
    pub(super) fn new(pool: Pool) -> Pages {
        Pages { begin: pool.umem().begins_at(), pool, frame: None, spoilt: false, too_long: 0 }
    }

    pub(super) fn too_long(&self) -> u64 {
        self.too_long
    }

    /// Appends a part to the frame; false if the ring returned an entry that was not lent.
    fn add(&mut self, to: &Pool, entry: &XdpDesc, metadata: usize) -> bool {
        let at = entry.addr.checked_sub(self.begin);
        let Some(part) = at.and_then(|at| self.pool.redeem(at, entry.len)) else {
            self.spoilt = true;
            return false;
        };
        if let (Some(frame), false) = (&mut self.frame, self.spoilt) {
            let umem = self.pool.umem();
            let before = frame.len();
            if before == 0 && metadata > 0 {
                // The XDP program's metadata stays in front of the frame.
                let known = umem.in_front(&part);
                let known = &known[known.len().saturating_sub(metadata)..];
                frame.set_len(metadata);
                to.umem().bytes_mut(frame)[metadata - known.len()..].copy_from_slice(known);
                frame.skip();
            }
            frame.set_len(before + part.len());
            if frame.len() < before + part.len() {
                (self.spoilt, self.too_long) = (true, self.too_long + 1);
            } else {
                to.umem().bytes_mut(frame)[before..].copy_from_slice(umem.bytes(&part));
            }
        }
        self.pool.give(part);
        true
    }
}

impl Socket {
    /// [`Socket::receive`] for frames of several pages.
    #[cold]
    #[inline(never)]
    pub(super) fn gather(&mut self, most: u32, mut take: impl FnMut(Frame)) {
        self.has_its_pool();
        let Some(pages) = &mut self.pages else { return };
        let (mut used, mut came) = (0, 0);
        while came < most && self.received.ready(1, self.rx.producer()) > 0 {
            if pages.frame.is_none() && !pages.spoilt {
                // Without a free chunk the parts wait in the ring; frames that arrive once it is full are counted there.
                let Some(frame) = self.pool.take() else { break };
                pages.frame = Some(frame);
            }
            let entry = self.rx.read(self.received.slot());
            used += 1;
            if !pages.add(&self.pool, &entry, self.metadata) {
                self.invalid += 1;
            }
            if entry.options.contains(XdpDescOptions::XDP_PKT_CONTD) {
                continue;
            }
            match pages.frame.take() {
                Some(frame) if pages.spoilt => self.pool.give(frame),
                Some(frame) => {
                    came += 1;
                    take(frame);
                }
                None => {}
            }
            pages.spoilt = false;
        }
        if used > 0 {
            self.taken(used);
        }
        // All at once: a frame may need more pages than a partly filled ring holds.
        if self.missing > 0 {
            self.refill_cleared();
        }
    }

    /// [`Socket::refill`] with pages, or with chunks whose space for metadata is cleared.
    #[cold]
    #[inline(never)]
    pub(super) fn refill_cleared(&mut self) {
        self.has_its_pool();
        if self.pool.available() < self.missing as usize {
            self.reclaim();
        }
        let (pool, begin) = match &mut self.pages {
            Some(pages) => (&mut pages.pool, pages.begin),
            None => (&mut self.pool, 0),
        };
        let want = self.missing.min(pool.available() as u32);
        let room = self.filling.room(want, self.fill.consumer());
        for _ in 0..room {
            // At least `want` chunks are available.
            let Some(mut frame) = pool.take() else { break };
            if self.metadata > 0 {
                clear(pool.umem(), &mut frame, self.metadata);
            }
            let at = begin + pool.lend(frame);
            self.fill.write(self.filling.slot(), at);
        }
        self.filling.submit(self.fill.producer());
        self.missing -= room;
    }

    /// [`Socket::send`] for frames of several pages: a frame enters the ring whole or not at all.
    #[cold]
    #[inline(never)]
    pub(super) fn send_pages(&mut self, frames: &mut Vec<Frame>) -> (usize, u64) {
        // The completion ring must have room for everything the kernel may complete.
        let want = frames.iter().map(Pool::pages_of).fold(0, u32::saturating_add).min(self.entries - self.in_flight);
        let room = self.sending.room(want, self.tx.consumer());
        let (mut entries, mut count, mut bytes) = (0, 0, 0);
        for frame in frames.iter() {
            let more = entries + Pool::pages_of(frame);
            if more > room {
                break;
            }
            (entries, count, bytes) = (more, count + 1, bytes + frame.len() as u64);
        }
        for frame in frames.drain(..count) {
            if frame.len() == 0 {
                entries -= Pool::pages_of(&frame);
                self.refuse(frame);
                continue;
            }
            let (tx, sending) = (&mut self.tx, &mut self.sending);
            self.pool.lend_pages(frame, |addr, len, more| {
                let options = if more { XdpDescOptions::XDP_PKT_CONTD } else { XdpDescOptions::empty() };
                tx.write(sending.slot(), XdpDesc { addr, len, options });
            });
        }
        self.sending.submit(self.tx.producer());
        self.in_flight += entries;
        (count, bytes)
    }

    /// Accounts for entries of the completion ring: pages that have been sent.
    #[cold]
    #[inline(never)]
    pub(super) fn reclaim_pages(&mut self, done: u32) {
        for _ in 0..done {
            let at = self.completion.read(self.sent.slot());
            match self.pool.redeem_page(at) {
                Back::Frame(frame) => self.pool.give(frame),
                Back::Page => {}
                Back::Invalid => self.invalid += 1,
            }
        }
        self.sent.release(self.completion.consumer());
        self.in_flight -= done;
    }
}
