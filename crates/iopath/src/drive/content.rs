//! Whether a message is what the other side was to send back.

use hairpin_wire::probe;

use super::Work;
use crate::endpoint::Reply;

/// Whether a message can be an answer at all: its length, its cookie if both ways carry one, and its content if that is compared.
#[inline(always)]
pub(super) fn is_sound(reply: &Reply<'_>, work: &Work, proven: bool) -> bool {
    reply.bytes.len() == work.reply
        && (!proven || probe::cookie(reply.bytes) == Some(work.cookie))
        && (!work.verify || has_pattern(reply.bytes, work.request))
}

/// Fills what lies behind the probe header from the sequence, so that a reply of another request is told.
pub(super) fn fill_pattern(payload: &mut [u8], sequence: u32) {
    for (at, byte) in payload.iter_mut().enumerate().skip(probe::LEN) {
        *byte = pattern(at, sequence);
    }
}

/// True if the bytes that a reply repeats of its request are as they were sent.
fn has_pattern(reply: &[u8], request: usize) -> bool {
    let sequence = probe::sequence(reply);
    let repeated = reply.len().min(request);
    reply[..repeated].iter().enumerate().skip(probe::LEN).all(|(at, byte)| *byte == pattern(at, sequence))
}

fn pattern(at: usize, sequence: u32) -> u8 {
    (at as u32).wrapping_mul(31).wrapping_add(sequence) as u8
}
