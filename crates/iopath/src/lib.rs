//! Every way to do a round trip, and the one loop that measures it.
//!
//! ```text
//!   spec ──▶ job ──▶ path (paths/<name>) ──▶ flows ──▶ endpoint ──▶ drive │ echo ──▶ recorder
//!                     └ inet, stream, ring, rendezvous: shared by several     └ measure: threads, clock, pace and policy as types
//! ```
//! A path is a file in `paths/`, a line in [`path::IO_PATHS`] and a page in docs/paths/.

#![forbid(unsafe_code)]

mod delay;
pub mod drive;
pub mod echo;
pub mod endpoint;
pub mod every;
pub mod fake;
mod flows;
mod frames;
mod inet;
pub mod job;
pub mod measure;
pub mod option;
pub mod pace;
pub mod path;
pub mod paths;
mod rendezvous;
pub mod replay;
mod ring;
pub mod schedule;
pub mod spec;
mod stalls;
mod stream;
