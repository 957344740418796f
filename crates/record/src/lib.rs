//! The results of a run as pure data: this crate touches no clock, socket or file.
//!
//! ```text
//!   samples ──fold──▶ Recorder ──finish──▶ Row ──▶ Run (hairpin.run/1) ──▶ store, report
//!              │          └ histogram, series, blocks, slowest: constant memory
//!              └ between blocks, never inside a measured interval
//! ```

#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod any;
pub mod attached;
pub mod bounce;
pub mod check;
pub mod compare;
pub mod core_states;
pub mod design;
pub mod experiment;
pub mod explain;
pub mod fit;
pub mod floor;
pub mod frames;
pub mod head;
pub mod histogram;
pub mod load;
pub mod paired;
pub mod pcie;
pub mod place;
pub mod progress;
pub mod published;
pub mod recorder;
pub mod run;
pub mod side;
pub mod statistics;
pub mod stream;
pub mod sweep;
pub mod tune;
pub mod tune_try;
pub mod warning;
