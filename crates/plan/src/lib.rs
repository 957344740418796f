//! A planned measurement as data: the paths and their limits, and the job given to both sides.
//!
//! ```text
//!   "udp:spin/block" ──▶ spec ──▶ job ──▶ check: does the path, the policy, this program take it?
//!                          └ paths: the facts of every path; option: those of every option      └ schedule, replay: when requests are due
//! ```
//! Nothing here opens a socket: crate `iopath` runs the plan. A new path needs a literal in [`paths`], a file in
//! `iopath/src/paths/` and a page in docs/paths/.

#![forbid(unsafe_code)]

pub mod job;
pub mod option;
pub mod path;
pub mod paths;
pub mod replay;
pub mod request;
pub mod schedule;
pub mod spec;
