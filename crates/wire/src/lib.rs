//! Wire formats: the probe header at the start of every payload, the headers around it, and Ethernet's framing
//! constants.
//!
//! ```text
//!   ethernet ─┬─ ipv4 ─┬─ udp ─── probe │ rest of the payload
//!             ├─ ipv6 ─┘
//!             └─ raw ──────────── probe │ rest of the payload          below IP: l3=off, reflectors
//! ```
//! Each header has a view, safe for any bytes (`None`, never a panic), and a builder. No function allocates.
//!
//! The header of a frame, and the bytes that it takes on the wire:
//!
//! ```
//! use hairpin_wire::ethernet::{self, Ethernet};
//! use hairpin_wire::framing;
//!
//! let header = ethernet::Header { destination: [0xff; 6], source: [2, 0, 0, 0, 0, 1], ethertype: ethernet::IPV4 };
//! let mut frame = header.encode().to_vec();
//! frame.extend([0; 46]);
//! let read = Ethernet::parse(&frame).unwrap();
//! assert_eq!((read.source(), read.ethertype(), read.payload().len()), ([2, 0, 0, 0, 0, 1], 0x0800, 46));
//! // 60 bytes, and 24 of FCS, preamble and gap: 67.2 ns at 10 Gbit/s.
//! assert_eq!(framing::wire_bytes(frame.len() as u64), 84);
//! ```

#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod checksum;
pub mod ethernet;
pub mod framing;
pub mod ipv4;
pub mod ipv6;
pub mod probe;
pub mod raw;
pub mod udp;
