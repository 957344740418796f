//! All pairs of many hosts: who measures whom and when, and which host or link is slow.
//!
//! ```text
//!   hosts       lists of hosts, n[1-3,7], to names and back
//!   topology    which switches each host is behind, from topology.conf
//! ```

#![forbid(unsafe_code)]

pub mod hosts;
pub mod topology;
