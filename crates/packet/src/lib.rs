//! Packets straight from a queue of a network device, with one API over every way that Linux offers, and an honest account of what was
//! granted.
//!
//! ```text
//!   Device<AfXdp> │ Device<AfPacket>       open: what was granted, and why not more
//!        └ ring(queue)                     one RX/TX queue pair: a PacketIo, driven by one thread
//!             └ Tracer, PcapOut, Fault …   a device round a device
//!                  └ Ring                  recv, recv_batch → Lease │ Sender: inject, reserve/commit/flush, inject_at
//! ```
//! [`io::PacketIo`] is the seam: frames move between the application and a ring, and every frame is in exactly one place.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub use hairpin_sys::{clock, umem};

pub mod af_packet;
pub mod af_xdp;
pub mod bounce;
pub mod device;
pub mod fault;
pub mod filter;
pub mod granted;
pub mod io;
pub mod memory;
pub mod niq;
pub mod pcap;
pub mod ring;
pub mod stream;
pub mod tracer;
