//! All pairs of many hosts: who measures whom and when, and which host or link is slow.
//!
//! ```text
//!   hosts       lists of hosts, n[1-3,7], to names and back
//!   topology    which switches each host is behind, from topology.conf
//!   verdict     which rank, link or group is slow, from every visit's value       pick    the ranks of lowest mutual latency
//!   parquet     the store of many meshes: a file a mesh, a row a bucket of a visit's histogram
//! ```

#![forbid(unsafe_code)]

pub mod hosts;
pub mod parquet;
pub mod pick;
pub mod topology;
pub mod verdict;
