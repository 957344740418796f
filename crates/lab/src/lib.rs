//! Who runs what, in which order, and what is kept.
//!
//! ```text
//!   session   the two sides' messages: over a socketpair to one's own worker, over TCP to `hairpin serve`
//!   store     one directory per run, with its record
//!   raw       every sample of a run, as Parquet
//! ```

#![forbid(unsafe_code)]

pub mod check;
pub mod raw;
pub mod session;
pub mod store;
