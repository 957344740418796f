//! Where the time of a round trip goes: hooks in the kernel, their stamps joined into stages, and the causes of slow ones.
//!
//! ```text
//!   moment    the moments of one way, the hooks that stamp them, and the names of what lies between
//!   tracer    BPF programs on and off; a block's records taken out between blocks
//!   join      records + stamps of both programs ─▶ transactions, each with its intervals in order
//!   packets   stamps that the kernel takes for a socket, where no hooks can be had
//!   halves    the same where the two sides are on two hosts
//!   cost      what a hit of a hook takes
//!   events    what happened on the CPUs meanwhile: BPF programs of their own
//!   fold      transactions ─▶ stages, observer and residual, which add up to the RTT of each
//!   attached  the same for applications that know nothing of it: programs of its own, stages, causes, sums
//! ```
//! No program of user space reads anything while a block runs.

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
pub mod packets;
pub mod timeline;
pub mod tracer;
