//! Hairpin's own framing below IP, for `l3=off`, `l3=ptp` and reflectors: see [`hairpin_wire::raw`].
//!
//! ```text
//!   |Ethernet 14, type 88B5 or 88F7|magic, version, hops, flow, length, cookie: 16|payload …|padding, count 4     all but the count is known before the loop
//! ```
//! Only payloads too short to hold a number need the count: without it a bouncer takes identical frames for a loop and drops
//! them.

use std::cell::Cell;

use hairpin_wire::ethernet::{self, Mac};
use hairpin_wire::framing::MIN_FRAME_WITHOUT_FCS;
use hairpin_wire::raw::{self, Shape};

use super::{Framing, Message};

const HEADERS: usize = ethernet::LEN + raw::LEN;
/// Payloads of at least this many bytes carry a four-byte number themselves.
const NUMBERED: usize = 4;
/// Position of the count in a short payload's frame: the last bytes of the padding.
const COUNT: std::ops::Range<usize> = MIN_FRAME_WITHOUT_FCS as usize - 4..MIN_FRAME_WITHOUT_FCS as usize;

pub(crate) struct Raw {
    accepts: Accepts,
    shape: Shape,
    cookie: u64,
    hops: u8,
    headers: Vec<[u8; HEADERS]>,
    /// Payload length in bytes, both ways: an answer is never longer than its request.
    len: usize,
    /// Number of frames written, for frames that carry a count.
    count: Cell<u32>,
}

/// Filter on frames that carry the session's cookie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Accepts {
    /// Frames from this address with this hop count: a session's requests (0) or replies (1).
    From(Mac, u8),
    /// Any frame back from a reflector …
    Any,
    /// … except those that still have this source address: our own frame, not yet reflected.
    NotFrom(Mac),
}

/// Fields of the frames this side sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sends {
    pub(crate) shape: Shape,
    /// Address of this side's interface.
    pub(crate) source: Mac,
    /// Destination address.
    pub(crate) destination: Mac,
    /// Hop count: 0 for requests, 1 for replies.
    pub(crate) hops: u8,
    pub(crate) cookie: u64,
    /// Number of flows of the session.
    pub(crate) flows: u16,
    /// Payload length in bytes.
    pub(crate) len: usize,
}

impl Raw {
    /// `None` if the payload is too long for the length field.
    pub(crate) fn new(sends: Sends, accepts: Accepts) -> Option<Raw> {
        let frame = ethernet::Header { destination: sends.destination, source: sends.source, ethertype: sends.shape.ethertype() };
        let header = |flow| {
            let inner = raw::Header { shape: sends.shape, hops: sends.hops, flow, cookie: sends.cookie }.encode(sends.len)?;
            let mut headers = [0; HEADERS];
            headers[..ethernet::LEN].copy_from_slice(&frame.encode());
            headers[ethernet::LEN..].copy_from_slice(&inner);
            Some(headers)
        };
        let headers = (0..sends.flows).map(header).collect::<Option<_>>()?;
        let Sends { shape, cookie, hops, len, .. } = sends;
        Some(Raw { accepts, shape, cookie, hops, headers, len, count: Cell::new(0) })
    }
}

impl Framing for Raw {
    const HEADERS: usize = HEADERS;

    #[inline(always)]
    fn read(&self, frame: &[u8]) -> Option<Message> {
        let (head, rest) = frame.split_first_chunk::<{ ethernet::LEN }>()?;
        let (header, payload) = raw::Header::decode(rest)?;
        let source: Mac = std::array::from_fn(|i| head[6 + i]);
        let accepted = match self.accepts {
            Accepts::From(peer, hops) => source == peer && header.hops == hops,
            Accepts::Any => true,
            Accepts::NotFrom(own) => source != own,
        };
        let ours =
            head[12..] == self.shape.ethertype().to_be_bytes() && (header.shape, header.cookie) == (self.shape, self.cookie);
        let known = usize::from(header.flow) < self.headers.len() && payload.len() == self.len;
        (accepted && ours && known).then_some(Message { flow: header.flow.into(), len: payload.len(), checked: false })
    }

    fn is_own(&self, frame: &[u8]) -> bool {
        let own = |(header, _): (raw::Header, &[u8])| header.cookie == self.cookie && header.hops == self.hops;
        frame.get(ethernet::LEN..).and_then(raw::Header::decode).is_some_and(own)
    }

    #[inline(always)]
    fn write(&self, frame: &mut [u8], flow: u32, _len: usize, _intact: bool) {
        frame[..HEADERS].copy_from_slice(&self.headers[flow as usize]);
        if self.len < NUMBERED {
            self.count.set(self.count.get().wrapping_add(1));
            frame[COUNT].copy_from_slice(&self.count.get().to_le_bytes());
        }
    }
}
