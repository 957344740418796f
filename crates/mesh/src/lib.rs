//! All pairs of many hosts: who measures whom and when, and which host or link is slow.
//!
//! ```text
//!   rank      which rank this is, of how many, as its launcher says        address   where it listens
//!   meeting   the directory of the ranks: the key, rank-K.json             peers     where the others listen
//!   setup     the work, the same for all ranks                             schedule  rounds of disjoint pairs, computed by each rank
//!
//!   mesh ──▶ run (a rank's slots in order) ──▶ collect (to rank 0) ──▶ merge ──▶ record hairpin.mesh/1
//!             ├ gate    who may come in, and when         words   the messages of the ranks
//!             └ visit   pairs-K.jsonl, a visit a line     judge   effects, and the pairs to visit again      limit   --fail-if
//!
//!   judge ──▶ verdict  which rank, link or group is slow, from every visit's value     differences  its host's odd settings     stages  the stage that grew
//!             ├ topology  which switches each host is behind, from topology.conf       hosts        lists of hosts, n[1-3,7], to names and back
//!             └ pick      the ranks of lowest mutual latency                           parquet      the store of many meshes
//! ```
//! `slurm` makes a job of all ranks, `kubernetes` prints the manifests of one. There is no coordinator: each rank computes the
//! same schedule and walks its own slots. Rank 0 only collects, decides and prints.

#![forbid(unsafe_code)]

pub mod address;
pub mod collect;
pub mod differences;
pub mod gate;
pub mod hosts;
pub mod judge;
pub mod kubernetes;
pub mod limit;
pub mod meeting;
pub mod merge;
pub mod mesh;
pub mod parquet;
pub mod peers;
pub mod pick;
pub mod rank;
pub mod run;
pub mod schedule;
pub mod setup;
pub mod slurm;
pub mod stages;
pub mod topology;
pub mod verdict;
pub mod visit;
pub mod words;
