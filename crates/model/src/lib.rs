//! Lower bounds of latency from physics and the declared hardware: the stages of one frame, each with its
//! time and its source.
//!
//! ```text
//!   data/nic/*.toml, --nic FILE ──▶ nic_file ──▶ nic: NicModel ─┐
//!                     line (rate, bits), phy (FEC), hop ────────┤
//!                     cable ◀── published
//!                     pcie ─────────────────────────────────────┴──▶ waterfall ──▶ Floor (hairpin.floor/1) ──▶ compare
//!   a measured run ──▶ fit ──▶ base, ns per byte, step (hairpin.floor-fit/1)
//!   data/nic/*.toml with a table ──▶ reference ──▶ round trips to stand beside measured ones
//! ```
//! Times are integer picoseconds, so that 67.2 ns stays exact. Every figure is labelled published, derived (from
//! published figures or a standard) or assumed, with its source. Undeclared parts are named in a note and not counted:
//! a floor is a lower bound.

#![forbid(unsafe_code)]

pub mod cable;
pub mod compare;
pub mod design;
pub mod fit;
pub mod hop;
pub mod line;
pub mod nic;
pub mod nic_file;
pub mod pcie;
pub mod phy;
pub mod published;
pub mod reference;
pub mod waterfall;
