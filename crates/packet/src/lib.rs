//! Packet I/O straight from the queues of a network device: one API over AF_XDP, AF_PACKET, an emulated NIC
//! and a pair in memory, which reports the features that the kernel and the driver granted.
//!
//! ```text
//!   Device<AfXdp> │ Device<AfPacket>       open: granted features, and the reason for each refusal
//!        └ ring(queue)                     one RX/TX queue pair: a PacketIo, driven by one thread
//!             └ Tracer, PcapOut, Fault …   a device around a device
//!                  └ Ring                  recv, recv_batch → Lease │ Sender: inject, reserve/commit/flush, inject_at
//! ```
//! An application opens an interface with a back end ([`af_xdp::AfXdp`] or [`af_packet::AfPacket`], both
//! [`device::BackEnd`]), takes one queue pair for each thread, and drives it with a [`ring::Ring`]: receive
//! into leases, send through a sender. Frames are Ethernet frames without FCS. A full ring, an empty ring and
//! a timeout are values, not errors; an error comes from the kernel and names the call that failed.
//!
//! All back ends implement [`io::PacketIo`], the trait for devices around devices too: a tracer, a pcap writer, a fault
//! injector. A frame is always in exactly one place (application, pool or ring), and the types enforce it.
//!
//! The smallest program that sends back each frame of a port, as root:
//!
//! ```no_run
//! use hairpin_packet::prelude::*;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut device = AfXdp::open("eth0", &Config { filter: "udp:7007".parse()?, ..Config::default() })?;
//! let ring = Ring::new(device.ring(0)?, Tsc::calibrate()?, RingConfig::default());
//! device.start()?;
//! while let Received::Got(mut frame) = ring.recv(1000)? {   // milliseconds
//!     ethernet::swap_macs(&mut frame);
//!     let _full = frame.send_back()?;                       // in place, no copy
//! }
//! # Ok(())
//! # }
//! ```
//!
//! [`clock::Tsc::calibrate`] is an error where the CPU's counter cannot be trusted, as on some virtual machines. A program that has to run there too
//! uses [`clock::AnyClock::calibrate`], which returns the counter, or the kernel's CLOCK_MONOTONIC_RAW and the reason; or
//! [`clock::MonotonicRaw`] itself.
//!
//! The same program runs without privileges or hardware over the pair in memory:
//!
//! ```
//! use hairpin_packet::memory;
//! use hairpin_packet::prelude::*;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (clock, _why) = AnyClock::calibrate();   // the counter, or the kernel's clock and why
//! let (near, far) = memory::pair(&Config::default())?;
//! let near = Ring::new(near, clock, RingConfig::default());
//! let far = Ring::new(far, clock, RingConfig::default());
//!
//! // Sent at once, padded to the 60 bytes of the shortest frame.
//! let _ = near.sender().inject(b"to: far, from: near, and then the payload")?;
//!
//! // Waits for at most 100 ms, and lends the frame in place.
//! if let Received::Got(frame) = far.recv(100)? {
//!     assert_eq!((&frame[..7], frame.len()), (&b"to: far"[..], 60));
//!     // The same memory goes out again: a reply without a copy.
//!     assert!(frame.send_back()?.is_none());
//! }
//! assert!(matches!(near.recv(100)?, Received::Got(_)));
//! # Ok(())
//! # }
//! ```
//!
//! # Packet memory
//!
//! Each queue pair has its own memory, a [`umem::Umem`]: one mapping, divided into chunks of one size. A [`umem::Frame`] is the
//! right to one chunk, and has the length of the frame in it; [`umem::Umem::bytes`] and [`umem::Umem::bytes_mut`] reach its
//! bytes. Free chunks are in the queue pair's [`umem::Pool`]:
//! [`umem::Pool::take`] hands out an empty frame, [`umem::Pool::give`] takes it back. A dropped frame takes its chunk out of use.
//!
//! A [`ring::Ring`] does all of this itself. A program needs these types to drive an [`io::PacketIo`] without a ring, or to
//! implement one.
//!
//! # Later versions
//!
//! Enums and structs that will grow are `#[non_exhaustive]`: granted features, counters, modes, errors, policies. The outcomes
//! [`ring::Received`],
//! [`ring::Injected`] and [`io::Kicked`] are not, since a loop that overlooks one is wrong: another outcome is another version. The structs that a
//! program fills in (`Config`, [`ring::RingConfig`], [`bounce::BounceConfig`], [`fault::Faults`]) are not either, so that
//! `..Config::default()` works: always write it, and a new field changes nothing. Nor are [`io::Arrival`], which a caller's own
//! device makes, and [`niq::Delay`], which a caller's own NIC design makes.
//!
//! The directory `examples/` has a receiver, a capture, a bouncer, a paced sender and receive-side scaling over several
//! queues.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub use hairpin_sys::{clock, umem};
pub use hairpin_units::{Nanos, Picos};
pub use hairpin_wire::{ethernet, framing, ipv4, ipv6, udp};

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

/// The types that most programs name: devices, rings, granted features, clocks, Ethernet.
pub mod prelude {
    pub use crate::af_packet::AfPacket;
    pub use crate::af_xdp::AfXdp;
    pub use crate::clock::{AnyClock, MonotonicRaw, Tsc};
    pub use crate::device::{BackEnd, Config, OpenError};
    pub use crate::ethernet;
    pub use crate::filter::Filter;
    pub use crate::granted::{Feature, Granted};
    pub use crate::io::PacketIo;
    pub use crate::ring::{Received, Ring, RingConfig, Wait};
}
