//! The end-to-end tests that run side by side: the whole command, over loopback and in namespaces of a thread's or a child's own.
//!
//! Tests that measure, need both cores or play roles of their own are in `alone.rs`.

#![forbid(unsafe_code)]

mod bad_input;
mod bounce;
mod cleanliness;
mod floor;
mod flows;
mod house;
mod housekeeping;
mod links;
mod looks;
mod mesh;
mod mesh_engine;
mod mesh_kubernetes;
mod multicast;
mod one_way;
mod ping;
mod probes;
mod report;
mod requests;
mod rights;
mod rings;
mod runs;
mod session;
mod stream;
mod support;
#[cfg(feature = "tls")]
mod tls;
mod unprivileged;
mod wrong_lines;

// The benchmarks have a main of their own and so run no test.
#[path = "../benches/main.rs"]
mod bench;
