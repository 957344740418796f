//! The stages of a round trip: hooks in the kernel, their stamps joined into stages, and the causes of slow
//! ones.
//!
//! ```text
//!   moment    the moments of one way, the hooks that stamp them, and the stages between them
//!   tracer    attaches and detaches the BPF programs; reads a block's records between blocks
//!   join      records + stamps of both programs ─▶ transactions, each with its intervals in order
//!   packets   the kernel's stamps of a socket, for hosts without hooks
//!   nics      stamps where packets leave and enter two hosts ─▶ how much is either host, and how much the wire
//!   halves    the same for two sides on two hosts
//!   phc       another clock, such as a NIC's, mapped to the program's and followed over a run
//!   cost      the cost of one hook hit
//!   events    events on the CPUs meanwhile, from separate BPF programs
//!   fold      transactions ─▶ stages, observer and residual, which add up to the RTT of each
//!   stalls    causes of the stalls of a thread that only reads the clock
//!   attached  the same for unmodified applications: separate programs, stages, causes, sums
//! ```
//! User space reads nothing while a block runs.

#![forbid(unsafe_code)]

pub mod advice;
pub mod attached;
pub mod causes;
pub mod cores;
pub mod cost;
pub mod detectors;
pub mod events;
pub mod fold;
pub mod halves;
pub mod join;
pub mod moment;
pub mod names;
pub mod nics;
mod packed;
pub mod packets;
pub mod phc;
pub mod stalls;
pub mod timeline;
pub mod tracer;
