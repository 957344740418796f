//! Two paths for measuring the instrument itself: one that does nothing, and one with a known delay.
//!
//! ```text
//!   Null      send: into a buffer                     recv: from that buffer
//!   Delayed   send: into the near end's buffer        recv: the far end waits for the delay, then hands the buffer back
//! ```

use std::io;

use hairpin_sys::clock::Ticks;
use rustix::time::{ClockId, clock_gettime};

use crate::content::Content;
use crate::endpoint::{Endpoint, Reply};

/// Length of the buffer, and so of the longest message.
pub const LONGEST: usize = 64;

/// Returns each request as its own reply: the cost of a transaction over it is the instrument's own cost.
pub struct Null {
    buffer: [u8; LONGEST],
    len: usize,
    full: bool,
}

impl Default for Null {
    fn default() -> Null {
        Null { buffer: [0; LONGEST], len: 0, full: false }
    }
}

impl Endpoint for Null {
    fn is_lossy(&self) -> bool {
        false
    }

    #[inline(always)]
    fn send(&mut self, _flow: u32, len: usize, content: Content) -> io::Result<bool> {
        content.write(&mut self.buffer[..len]);
        (self.len, self.full) = (len, true);
        Ok(true)
    }

    #[inline(always)]
    fn recv(&mut self, _until: Ticks) -> io::Result<Option<Reply<'_>>> {
        let full = std::mem::take(&mut self.full);
        Ok(full.then(|| Reply { flow: 0, bytes: &self.buffer[..self.len] }))
    }

    #[inline(always)]
    fn reply(&mut self, _flow: u32, len: usize) -> io::Result<bool> {
        (self.len, self.full) = (len, true);
        Ok(true)
    }
}

/// A device with a programmable delay.
pub trait Device {
    /// Waits for `ns` and returns the time it took by the device's own clock, including the reading of that clock.
    fn take(&mut self, ns: u64) -> u64;
}

/// Waits busily on CLOCK_MONOTONIC_RAW, read directly and not through the instrument's clock, so that it checks the instrument
/// independently.
pub struct BusyWait;

impl Device for BusyWait {
    #[inline]
    fn take(&mut self, ns: u64) -> u64 {
        let read = || {
            let now = clock_gettime(ClockId::MonotonicRaw);
            now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
        };
        let began = read();
        // Reads the clock at least once, so that a delay of 0 runs the same code as the shortest one.
        while read() - began < ns {}
        // The CPU mispredicts the end of a long wait; this later reading includes that time in the device's figure.
        read() - began
    }
}

/// Two ends of an in-memory pair: the far end answers after a delay and keeps its own clock's measurement of it.
pub struct Delayed<'a, D> {
    near: Null,
    device: &'a mut D,
    delay_ns: u64,
    last: u64,
    took: &'a mut Vec<u64>,
}

impl<'a, D: Device> Delayed<'a, D> {
    /// A pair whose far end lets `device` take `delay_ns` per request. The measured time is pushed to `took`, which should have
    /// spare capacity.
    pub fn new(device: &'a mut D, delay_ns: u64, took: &'a mut Vec<u64>) -> Delayed<'a, D> {
        Delayed { near: Null::default(), device, delay_ns, last: 0, took }
    }
}

impl<D: Device> Endpoint for Delayed<'_, D> {
    fn is_lossy(&self) -> bool {
        false
    }

    #[inline(always)]
    fn send(&mut self, flow: u32, len: usize, content: Content) -> io::Result<bool> {
        self.near.send(flow, len, content)
    }

    #[inline(always)]
    fn recv(&mut self, until: Ticks) -> io::Result<Option<Reply<'_>>> {
        let reply = self.near.recv(until)?;
        // Last of all: time after the device's last reading is part of the RTT but not of the device's figure.
        self.last = self.device.take(self.delay_ns);
        Ok(reply)
    }

    #[inline(always)]
    fn received(&mut self, _flow: u32, _at: Ticks) -> io::Result<()> {
        self.took.push(self.last);
        Ok(())
    }

    #[inline(always)]
    fn reply(&mut self, flow: u32, len: usize) -> io::Result<bool> {
        self.near.reply(flow, len)
    }
}

#[cfg(test)]
mod tests {
    use hairpin_wire::probe;

    use super::*;

    #[test]
    fn the_busy_wait_waits_as_long_as_it_says() {
        let before = std::time::Instant::now();
        let took = BusyWait.take(200_000);
        assert!(took >= 200_000 && before.elapsed().as_nanos() as u64 >= took * 99 / 100, "{took}");
    }

    #[test]
    fn pair_returns_sent_frames_once() {
        let mut took = Vec::new();
        let mut device = BusyWait;
        let mut pair = Delayed::new(&mut device, 0, &mut took);
        assert!(pair.send(0, 16, Content { sequence: 7, cookie: 9, verify: false }).unwrap());
        assert_eq!(probe::sequence(pair.recv(Ticks::NEVER).unwrap().unwrap().bytes), 7);
        pair.received(0, Ticks::NEVER).unwrap();
        assert!(pair.recv(Ticks::NEVER).unwrap().is_none());
        assert_eq!(took.len(), 1);
    }
}
