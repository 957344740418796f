//! The content of requests, and whether a reply repeats it.

use hairpin_wire::probe;

/// The content of a request: the probe header, followed by a pattern if replies are verified.
#[derive(Clone, Copy, Debug)]
pub struct Content {
    pub sequence: u32,
    /// Session cookie, in every payload of 16 bytes and more.
    pub cookie: u64,
    /// Replies are verified, so a pattern fills the rest of the payload.
    pub verify: bool,
}

impl Content {
    #[inline(always)]
    pub fn write(self, payload: &mut [u8]) {
        probe::write(payload, self.sequence, self.cookie);
        if self.verify {
            fill_pattern(payload, self.sequence);
        }
    }
}

/// Fills the payload behind the probe header with a pattern that depends on the sequence, so that a reply to another request is
/// recognised.
fn fill_pattern(payload: &mut [u8], sequence: u32) {
    for (at, byte) in payload.iter_mut().enumerate().skip(probe::LEN) {
        *byte = pattern(at, sequence);
    }
}

/// True if the part of the request that a reply repeats is unchanged.
pub(crate) fn has_pattern(reply: &[u8], request: usize) -> bool {
    let sequence = probe::sequence(reply);
    let repeated = reply.len().min(request);
    reply[..repeated].iter().enumerate().skip(probe::LEN).all(|(at, byte)| *byte == pattern(at, sequence))
}

fn pattern(at: usize, sequence: u32) -> u8 {
    (at as u32).wrapping_mul(31).wrapping_add(sequence) as u8
}
