//! The results of a run as pure data: this crate touches no clock, socket or file.
//!
//! ```text
//!   samples ──fold──▶ Recorder ──finish──▶ Row ──▶ Run (hairpin.run/1) ──▶ store, report
//!              │          └ histogram, series, blocks, slowest: constant memory
//!              └ between blocks, never inside a measured interval
//! ```
//!
//! - [`any`] reads records of every kind; [`run`], [`load`], [`compare`], [`explain`] and others have one kind each.
//! - [`head`] and [`place`] have the facts that several kinds share.
//! - [`histogram`] and [`quantiles`] summarize times and add them up over rows.
//! - [`paired`], [`statistics`], [`fit`] and [`core_states`] tell whether figures differ, and whether they may be compared at all.
//! - [`recorder`] makes a row from samples.
//!
//! This reads the records that `hairpin ping --json` printed, of any version:
//!
//! ```
//! use hairpin_record::any::AnyRecord;
//!
//! # let bytes = &std::fs::read("tests/data/run-1.json").unwrap();
//! for record in AnyRecord::all(bytes)? {
//!     println!("{} by {}", record.schema(), record.head().tool);
//!     if let AnyRecord::Run(run) = &record {
//!         for row in &run.results {
//!             println!("{}: p50 {:?} ns of {} round trips", row.path, row.rtt_ns.p50, row.transactions);
//!         }
//!     }
//! }
//! # Ok::<(), hairpin_record::any::ParseError>(())
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
pub mod device;
pub mod experiment;
pub mod explain;
pub mod fit;
pub mod floor;
pub mod frames;
pub mod head;
pub mod histogram;
pub mod incident;
pub mod load;
pub mod mesh;
pub mod noise;
pub mod one_way;
pub mod own_request;
pub mod paired;
pub mod pcie;
pub mod place;
pub mod progress;
pub mod published;
pub mod quantiles;
pub mod recorder;
pub mod run;
pub mod side;
pub mod slow;
pub mod split;
pub mod stack;
pub mod statistics;
pub mod stream;
pub mod sweep;
pub mod tune;
pub mod tune_try;
pub mod warning;
