//! What Hairpin puts on the wire: the probe header at the start of every payload, and Ethernet's framing constants.

#![forbid(unsafe_code)]

pub mod framing;
pub mod probe;
