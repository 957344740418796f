//! The kernel's timestamps of a datagram's path for its own socket, for tracing where hooks in the kernel are not allowed.
//!
//! Timestamps of sent packets come through the socket's error queue, which is read after the reply: outside the RTT on the
//! client, inside the turn-around on the server.

use std::io;
use std::os::fd::BorrowedFd;

use hairpin_sys::shared::{Packet, Stamps, Which};
use hairpin_sys::timestamping::{self, Sent};
use hairpin_sys::wait::or_nothing;

use super::{Datagram, is_too_long};
use crate::flows::Carrier;

/// A connected socket that passes on the kernel's timestamps of its packets while a tracer wants them.
pub(super) struct Stamped<'a> {
    plain: Datagram<'a>,
    stamps: &'a Stamps,
    on: bool,
}

/// Wraps all flows.
pub(super) fn all<'a>(flows: Vec<Datagram<'a>>, stamps: &'a Stamps) -> Vec<Stamped<'a>> {
    flows.into_iter().map(|plain| Stamped { plain, stamps, on: false }).collect()
}

impl Stamped<'_> {
    /// Switches timestamps on or off as the tracer wants; that changes between blocks only.
    fn follow(&mut self) -> io::Result<()> {
        if self.on != self.stamps.wants_packets() {
            self.on = !self.on;
            timestamping::switch(self.plain.fd, self.on)?;
        }
        Ok(())
    }

    /// Reads the timestamps of sent packets from the error queue.
    fn collect(&mut self) -> io::Result<()> {
        if !self.on {
            return Ok(());
        }
        while let Some((sent, realtime_ns)) = timestamping::sent(self.plain.fd)? {
            let which = match sent {
                Sent::Scheduled => Which::Scheduled,
                Sent::Driver => Which::Driver,
            };
            self.stamps.push_packet(Packet { which, at: realtime_ns });
        }
        Ok(())
    }
}

impl<'a> Carrier<'a> for Stamped<'a> {
    const LOSSY: bool = true;
    const WHOLE: bool = true;

    fn readable(&self) -> BorrowedFd<'a> {
        self.plain.readable()
    }

    fn send(&mut self, message: &[u8]) -> io::Result<bool> {
        self.plain.send(message)
    }

    fn recv(&mut self, buffer: &mut [u8], expected: usize) -> io::Result<Option<usize>> {
        if !self.on {
            return self.plain.recv(buffer, expected);
        }
        let received = match or_nothing(timestamping::recv(self.plain.fd, buffer)) {
            Err(error) if is_too_long(&error) => return Ok(self.plain.lost()),
            received => received?,
        };
        let Some((len, came)) = received else { return Ok(None) };
        if let Some(realtime_ns) = came {
            self.stamps.push_packet(Packet { which: Which::Came, at: realtime_ns });
        }
        Ok(Some(len))
    }

    fn received(&mut self) -> io::Result<()> {
        self.collect()?;
        self.follow()
    }

    /// Collects the timestamps of the last reply, now that the next request has arrived.
    fn replying(&mut self) -> io::Result<()> {
        self.collect()?;
        self.follow()
    }
}
