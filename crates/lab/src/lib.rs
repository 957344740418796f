//! The experiments behind the verbs: the order of their measurements, and the records kept.
//!
//! ```text
//!   ping      the rows of a plan                         demo     the rows of `hairpin demo`         group  those of a multicast group
//!   one_way   both directions of a round trip by two clocks with a common source, with their error bound
//!   load      round trips against the rate at which requests are due         bulk     TCP streams that fill the link meanwhile
//!   stream    frames a second without loss, found by search      bounce    every frame sent back
//!   caught    the round trips of a ping above a limit, each explained
//!   explain   the stages of a round trip                 attached  the same of an application that already runs
//!   exec      an unmodified program with settings of its own
//!   check     the instrument itself: its cost, and a delay that it did not make
//!   noise     the host itself: stalls of its cores with their causes, and how near the cores are to each other
//!   device_stamps  the stamps that a network device claims, and those seen on a link of Hairpin's own
//!   stamping  how much of a round trip is either host's and how much the wire's, in blocks with stamps
//!   hardware_timestamping  devices told to stamp for as long as a run lasts
//!   pcie      4-byte reads of a device by the CPU, and the cost of a NIC driver's steps
//!   experiment  short blocks of several arms in turn, and the results of their pairs      compare  the arms against the first
//!   sweep     every combination of several factors, and the effect of each
//!   knobs     settings of the host, on for the blocks of an arm      tune_try  their effects, measured
//!   metrics   a snapshot of a run that goes on, for Prometheus
//!   store     one directory per run, with its record     records  the record that RUN names, of any schema     whole_file  files written whole or not at all
//! ```
//! Crate `session` measures one row over two processes.

#![forbid(unsafe_code)]

pub mod attached;
pub mod bounce;
pub mod bulk;
pub mod caught;
pub mod check;
pub mod compare;
pub mod demo;
pub mod device_stamps;
pub mod exec;
pub mod experiment;
pub mod explain;
mod group;
pub mod hardware_timestamping;
pub mod knobs;
pub mod load;
pub mod metrics;
pub mod noise;
pub mod one_way;
pub mod pcie;
pub mod ping;
pub mod records;
mod search;
pub mod served;
mod stamping;
pub mod store;
pub mod stream;
pub mod sweep;
pub mod tune_try;
pub mod whole_file;
