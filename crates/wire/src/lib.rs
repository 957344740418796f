//! Wire formats: the probe header at the start of every payload, the headers around it, and Ethernet's framing
//! constants.
//!
//! ```text
//!   ethernet ─┬─ ipv4 ─┬─ udp ─── probe │ rest of the payload
//!             ├─ ipv6 ─┘
//!             └─ raw ──────────── probe │ rest of the payload          below IP: l3=off, reflectors
//! ```
//! Each header has a view, safe for any bytes (`None`, never a panic), and a builder. No function allocates.

#![forbid(unsafe_code)]

pub mod checksum;
pub mod ethernet;
pub mod framing;
pub mod ipv4;
pub mod ipv6;
pub mod probe;
pub mod raw;
pub mod udp;
