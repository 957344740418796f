//! Sends received frames back: the engine of `hairpin bounce`.
//!
//! ```text
//!   Lease ─▶ short? group? filter? repeated? ─▶ verify ─▶ rewrite ─▶ sent back in place, or copied out of another ring
//!                 ╰──────┴───────┴────────┴── dropped, each counted apart
//! ```
//! Broadcast, multicast and frames outside the filter are never sent back. Two bouncers facing each other would pass
//! one frame back and forth forever. Frames cannot be marked, because [`Rewrite::None`] must return them unmodified; so
//! each bouncer remembers what it sent back, and drops an identical frame that keeps coming: see `bounce/repeats.rs`.

mod repeats;
mod rewrite;

use std::io;

use hairpin_sys::clock::Clock;
use hairpin_wire::ethernet::{self, Ethernet};
use hairpin_wire::framing;

use crate::filter::Filter;
use crate::io::PacketIo;
use crate::ring::{Injected, Lease, Received, Ring, SendError};
pub use repeats::REPEATS;
use repeats::Repeats;
pub use rewrite::{NotARewrite, Rewrite};

/// The frames that a [`Bounce`] sends back, and the changes to them.
///
/// The default sends every frame back unchanged, but an identical one only [`REPEATS`] times in quick succession, and checks
/// no checksums. Frames to or from a group address never go back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BounceConfig {
    /// The frames that are sent back; checked here even if the ring has the same filter.
    pub filter: Filter,
    /// The changes to each frame.
    pub rewrite: Rewrite,
    /// Count frames with a wrong IPv4 or UDP checksum; they are sent back anyway.
    pub verify: bool,
    /// Number of times that an identical frame goes back in quick succession. With `None` there is no limit, and nothing
    /// ends a storm of two bouncers.
    pub repeats: Option<u32>,
}

impl Default for BounceConfig {
    fn default() -> BounceConfig {
        BounceConfig { filter: Filter::All, rewrite: Rewrite::None, verify: false, repeats: Some(REPEATS) }
    }
}

/// Frames and bytes since the start, or over a second (see [`Bounced::since`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Bounced {
    /// Frames received.
    pub rx_frames: u64,
    /// Their bytes, without FCS.
    pub rx_bytes: u64,
    /// Frames sent back.
    pub tx_frames: u64,
    /// Their bytes, without FCS; a frame below 60 bytes counts as padded to 60.
    pub tx_bytes: u64,
    /// Their bytes on the wire: with padding, and 24 bytes of preamble, gap and FCS per frame.
    pub tx_wire_bytes: u64,
    /// Dropped: shorter than an Ethernet header.
    pub short: u64,
    /// Dropped: to (or, invalidly, from) a broadcast or multicast address.
    pub group: u64,
    /// Dropped: outside the filter.
    pub filtered: u64,
    /// Dropped: an identical frame came too often (see [`BounceConfig::repeats`]).
    pub repeated: u64,
    /// Dropped: the ring to send from was full.
    pub full: u64,
    /// Dropped: longer than the other interface allows.
    pub too_long: u64,
    /// Received frames with a wrong IPv4 or UDP checksum; 0 unless requested.
    pub wrong_checksum: u64,
}

impl Bounced {
    /// Frames received and not sent back, for any reason.
    pub fn dropped(&self) -> u64 {
        self.short + self.group + self.filtered + self.repeated + self.full + self.too_long
    }

    /// The difference to `earlier`; counters may have wrapped in between.
    #[must_use]
    pub fn since(&self, earlier: &Bounced) -> Bounced {
        Bounced {
            rx_frames: self.rx_frames.wrapping_sub(earlier.rx_frames),
            rx_bytes: self.rx_bytes.wrapping_sub(earlier.rx_bytes),
            tx_frames: self.tx_frames.wrapping_sub(earlier.tx_frames),
            tx_bytes: self.tx_bytes.wrapping_sub(earlier.tx_bytes),
            tx_wire_bytes: self.tx_wire_bytes.wrapping_sub(earlier.tx_wire_bytes),
            short: self.short.wrapping_sub(earlier.short),
            group: self.group.wrapping_sub(earlier.group),
            filtered: self.filtered.wrapping_sub(earlier.filtered),
            repeated: self.repeated.wrapping_sub(earlier.repeated),
            full: self.full.wrapping_sub(earlier.full),
            too_long: self.too_long.wrapping_sub(earlier.too_long),
            wrong_checksum: self.wrong_checksum.wrapping_sub(earlier.wrong_checksum),
        }
    }
}

/// Sends received frames back, and counts them. Use one for each receiving ring, on that ring's thread.
///
/// [`turn`](Bounce::turn) handles one batch; a loop around it is a bouncer. Call [`second`](Bounce::second) once a second, or the
/// limit on identical frames is never lifted. A VLAN tag that the device took out of a frame ([`Lease::vlan`]) does not go back
/// with it.
///
/// ```
/// use hairpin_packet::bounce::{Bounce, BounceConfig, Rewrite};
/// use hairpin_packet::memory;
/// use hairpin_packet::prelude::*;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (near, far) = memory::pair(&Config::default())?;
/// let [near, far] = [near, far].map(|io| Ring::new(io, MonotonicRaw, RingConfig::default()));
/// let mut frame = [0; 60];
/// frame[..12].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2]); // to ..:01, from ..:02
/// let _ = near.sender().inject(&frame)?;
///
/// let mut bounce = Bounce::new(BounceConfig { rewrite: Rewrite::Macs, ..BounceConfig::default() })?;
/// let mut scratch = Vec::with_capacity(64);
/// let _ = bounce.turn(&far, &mut scratch, 64, 1000)?;
///
/// let Received::Got(back) = near.recv(1000)? else { return Err("no frame came back".into()) };
/// assert_eq!(back[..12], [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1]);
/// assert_eq!(bounce.counters().tx_frames, 1);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Bounce {
    config: BounceConfig,
    repeats: Option<Repeats>,
    counters: Bounced,
}

impl Bounce {
    /// A bouncer with all counters at 0.
    ///
    /// # Errors
    /// The kernel provides no random key.
    pub fn new(config: BounceConfig) -> io::Result<Bounce> {
        let repeats = config.repeats.map(Repeats::new).transpose()?;
        Ok(Bounce { config, repeats, counters: Bounced::default() })
    }

    /// The counters since the bouncer was made.
    pub fn counters(&self) -> Bounced {
        self.counters
    }

    /// Call this once a second: repeated frames are gradually forgotten.
    pub fn second(&mut self) {
        if let Some(repeats) = &mut self.repeats {
            repeats.second();
        }
    }

    /// Receives up to `most` frames, sends them back out of the same ring, in place, and returns the number received.
    /// `timeout` as in [`Ring::recv`]. `scratch` is empty between calls; reserve room for `most`.
    ///
    /// # Errors
    /// The kernel's error of a kick or of poll(2).
    #[inline]
    pub fn turn<'r, P: PacketIo, C: Clock>(
        &mut self,
        ring: &'r Ring<P, C>,
        scratch: &mut Vec<Lease<'r, P, C>>,
        most: usize,
        timeout: i32,
    ) -> io::Result<Received<usize>> {
        let received = ring.recv_batch(scratch, most, timeout)?;
        for mut lease in scratch.drain(..) {
            if !self.passes(&mut lease) {
                continue;
            }
            let len = lease.len();
            let refused = match lease.send_back()? {
                None => None,
                // A flush sends the frames in the ring, which may make room.
                Some(lease) => {
                    ring.flush()?;
                    lease.send_back()?
                }
            };
            self.sent(len, refused.is_none());
        }
        Ok(received)
    }

    /// As [`turn`](Bounce::turn), but sends a copy of each frame out of `out`, a ring on another interface, and flushes `out`
    /// when `ring` has no more frames.
    ///
    /// # Errors
    /// The kernel's error of a kick or of poll(2).
    pub fn turn_into<'r, P: PacketIo, Q: PacketIo, C: Clock>(
        &mut self,
        ring: &'r Ring<P, C>,
        out: &Ring<Q, C>,
        scratch: &mut Vec<Lease<'r, P, C>>,
        most: usize,
        timeout: i32,
    ) -> io::Result<Received<usize>> {
        let mut received = ring.recv_batch(scratch, most, 0)?;
        if received == Received::WouldBlock {
            // Frames in one ring do not wait for frames in the other.
            out.flush()?;
            if timeout != 0 {
                received = ring.recv_batch(scratch, most, timeout)?;
            }
        }
        let sender = out.sender();
        for mut lease in scratch.drain(..) {
            if !self.passes(&mut lease) {
                continue;
            }
            let mut injected = sender.inject(&lease);
            if let Ok(Injected::Full) = injected {
                out.flush()?;
                injected = sender.inject(&lease);
            }
            match injected {
                Ok(injected) => self.sent(lease.len(), injected == Injected::Sent),
                Err(SendError::TooLong { .. }) => self.counters.too_long = self.counters.too_long.wrapping_add(1),
                Err(SendError::Kick(error)) => return Err(error),
            }
        }
        Ok(received)
    }

    /// Counts a received frame, and decides whether it goes back: then it is rewritten, and the answer is true.
    #[inline]
    pub fn passes(&mut self, frame: &mut [u8]) -> bool {
        let counters = &mut self.counters;
        counters.rx_frames = counters.rx_frames.wrapping_add(1);
        counters.rx_bytes = counters.rx_bytes.wrapping_add(frame.len() as u64);
        let cause = match Ethernet::parse(frame) {
            None => &mut counters.short,
            // A group address is never a valid sender, and would become the receiver here.
            Some(ethernet) if ethernet::is_group(ethernet.destination()) || ethernet::is_group(ethernet.source()) => {
                &mut counters.group
            }
            Some(_) if !self.config.filter.takes(frame) => &mut counters.filtered,
            Some(_) if self.repeats.as_mut().is_some_and(|repeats| repeats.too_often(frame)) => &mut counters.repeated,
            Some(_) => {
                if self.config.verify && !rewrite::checksums_are_right(frame) {
                    counters.wrong_checksum = counters.wrong_checksum.wrapping_add(1);
                }
                self.config.rewrite.apply(frame);
                return true;
            }
        };
        *cause = cause.wrapping_add(1);
        false
    }

    #[inline]
    fn sent(&mut self, len: usize, sent: bool) {
        let counters = &mut self.counters;
        if sent {
            let len = len as u64;
            counters.tx_frames = counters.tx_frames.wrapping_add(1);
            counters.tx_bytes = counters.tx_bytes.wrapping_add(len.max(framing::MIN_FRAME_WITHOUT_FCS));
            counters.tx_wire_bytes = counters.tx_wire_bytes.wrapping_add(framing::wire_bytes(len));
        } else {
            counters.full = counters.full.wrapping_add(1);
        }
    }
}

#[cfg(test)]
mod tests;
