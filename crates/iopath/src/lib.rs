//! Every path for a round trip, and the one loop that measures it.
//!
//! ```text
//!   job ──▶ path (paths/<name>) ──▶ flows ──▶ endpoint ──▶ drive │ echo ──▶ recorder
//!            └ inet, stream, ring, rendezvous: shared by several; group: a multicast group     └ measure: threads; wait policy, clock and pace are values
//! ```
//! Crate `plan` holds the facts of each path; the code of each path is a file in `paths/`.

#![forbid(unsafe_code)]

pub mod content;
mod delay;
pub mod drive;
pub mod echo;
pub mod endpoint;
pub mod error;
pub mod every;
pub mod fake;
mod flows;
mod found;
mod frames;
mod group;
mod inet;
pub mod measure;
mod own_request;
pub mod pace;
pub mod paths;
mod polling;
mod rendezvous;
mod ring;
pub mod room;
pub mod runner;
mod stalls;
mod stamped;
mod stream;
mod suspend;
#[cfg(feature = "tls")]
mod tls;
mod uring;
