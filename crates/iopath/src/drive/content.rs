//! Checks that a message is the answer the other side should have sent.

use hairpin_wire::probe;

use super::Work;
use crate::endpoint::Reply;

/// True if a message can be an answer at all: checks its length, its cookie if both ways carry one, and its content if `verify`
/// is set.
#[inline(always)]
pub(crate) fn is_sound(reply: &Reply<'_>, work: &Work, proven: bool) -> bool {
    reply.bytes.len() == work.reply
        && (!proven || probe::cookie(reply.bytes) == Some(work.cookie))
        && (!work.verify || has_pattern(reply.bytes, work.request))
}

/// Fills the payload behind the probe header from the sequence, so that a reply to another request is recognised.
pub(crate) fn fill_pattern(payload: &mut [u8], sequence: u32) {
    for (at, byte) in payload.iter_mut().enumerate().skip(probe::LEN) {
        *byte = pattern(at, sequence);
    }
}

/// True if the part of the request that a reply repeats is unchanged.
fn has_pattern(reply: &[u8], request: usize) -> bool {
    let sequence = probe::sequence(reply);
    let repeated = reply.len().min(request);
    reply[..repeated].iter().enumerate().skip(probe::LEN).all(|(at, byte)| *byte == pattern(at, sequence))
}

fn pattern(at: usize, sequence: u32) -> u8 {
    (at as u32).wrapping_mul(31).wrapping_add(sequence) as u8
}
