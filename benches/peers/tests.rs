//! The tests of the parts of the benchmarks for peers, packets and looking on. A benchmark with a main of its own runs none, so they are compiled once more here.

// Only the benchmark uses all of it.
#![allow(dead_code)]

mod cells;
mod children;
mod hairpin;
mod measure;
mod others;
mod output;
#[path = "../packet/table.rs"]
mod packet_table;
mod pairs;
mod record;
mod sockperf;
mod table;
mod veth;
#[path = "../watch/line.rs"]
mod watch_line;

/// As the packet benchmark has it.
fn interval(found: &pairs::Findings) -> hairpin_record::statistics::Ratio {
    found.ratio.interval(pairs::CONFIDENCE)
}
