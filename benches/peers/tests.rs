//! The tests of the peer benchmark's parts. A benchmark with a main of its own runs none, so they are compiled once more here.

#![forbid(unsafe_code)]
// Only the benchmark uses all of it.
#![allow(dead_code)]

mod cells;
mod children;
mod hairpin;
mod measure;
mod others;
mod output;
mod pairs;
mod record;
mod sockperf;
mod table;
mod veth;
