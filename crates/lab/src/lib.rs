//! Who runs what, in which order, and what is kept.
//!
//! ```text
//!   ping      a run, row by row     stage   both sides and the link between them, and a row watched until both have reported
//!   link      another host, loopback, a veth pair        demo   what `hairpin demo` measures
//!   worker    the process in which a side is measured    side   how its parent sees it    server   whoever answers
//!   serve     sessions of remote clients                 message, session   what all of them say to each other, and how
//!   load      round trips against the rate at which requests are due         bulk     TCP streams that fill the link meanwhile
//!   stream    frames a second without loss, found by search      bounce    every frame sent back
//!   rings     the packet rings that a worker holds       io         how they are asked for
//!   attached  an application that already runs, watched in the kernel
//!   exec      an unmodified program with settings of its own
//!   check     the instrument itself: its cost, and a delay that it did not make
//!   pcie      4-byte reads of a device by the CPU, and what the steps of a NIC driver cost
//!   row       both sides' reports become one row, with warnings        rows     the rows of a plan one after the other
//!   floor     what physics and the declared hardware allow, beside each row
//!   experiment  short blocks of several arms in turn, and what their pairs say      compare  the arms held against the first
//!   sweep     every combination of several factors, and what each one does
//!   knobs     settings of the host, on for the blocks of an arm      tune_try  which of them buys what
//!   live      what is added to a snapshot of a run that goes on    metrics  the same for Prometheus
//!   store     one directory per run, with its record     raw    every sample of a run, as Parquet
//!   records   what RUN stands for, of every kind of record     whole_file   a file written whole or not at all
//! ```

#![forbid(unsafe_code)]

pub mod attached;
pub mod bounce;
pub mod bulk;
pub mod check;
pub mod compare;
pub mod demo;
pub mod exec;
pub mod experiment;
pub mod explain;
pub mod floor;
pub mod io;
pub mod knobs;
pub mod link;
mod live;
pub mod load;
pub mod message;
pub mod metrics;
pub mod pcie;
pub mod ping;
pub mod raw;
pub mod records;
mod rings;
mod row;
mod rows;
mod search;
pub mod serve;
mod server;
pub mod session;
pub mod side;
mod stage;
pub mod store;
pub mod stream;
pub mod sweep;
pub mod tune_try;
pub mod whole_file;

pub mod worker;
