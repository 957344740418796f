//! The settings of a host that affect round trips: each is read by one knob, and changed together with a
//! record for restoring it.
//!
//! ```text
//!   KNOBS ── read(host, place) ──► Reading ──► facts() ──► HostFacts of the record
//!                                  Is(value)               the value under the knob's name
//!                                  Absent                  nothing: this host has no such thing
//!                                  Unread(reason)          the reason under `unread`
//! ```
//! A knob is one entry in the file of its subject, below `knobs/`: description, reading, effect and change;
//! and a line in [`KNOBS`]. `docs/knobs.md` is generated from these entries. Reading writes nothing.
//!
//! ```text
//!   KNOB=VALUE ── Setting ── plan(host, place) ──► [Change] ── Journal::begin ──► Tuning ── on / off / keep / restore
//!                                                                                   │
//!                                                                   Journal::revert ◄┘ after a crash, and on request
//! ```
//! [`activity`] is the other half of a host's record: not its settings, but the activity on its cores during
//! the run.

#![forbid(unsafe_code)]
#![warn(unreachable_pub)]

pub mod activity;
pub mod attend;
pub mod change;
pub mod check;
mod cpulist;
mod interrupts;
pub mod journal;
pub mod knob;
mod knobs;
pub mod list;
mod place;
pub mod plan;
pub mod profile;
mod read;
mod reading;
pub mod residency;
pub mod revert;
pub mod rows;
pub mod setting;
pub mod tuning;
mod values;

#[cfg(test)]
mod tests;

pub use change::{Address, Change, Trouble};
pub use cpulist::parse_cpus;
pub use journal::Journal;
pub use knob::{Knob, Profile};
pub use knobs::{KNOBS, all, facts, has_idle_states, knob, network_of};
pub use place::Place;
pub use plan::{Plan, plan};
pub use read::{Answer, Read, ReadBy};
pub use reading::{Parse, Reading};
pub use setting::Setting;
pub use tuning::Tuning;
pub use values::Values;
