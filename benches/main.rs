//! The benchmarks: `make bench-NAME`, or `cargo bench --package hairpin-cli --bench bench -- NAME`.
//!
//! `make figures` runs all of them and fills the docs from their records. Exit codes of each: 0 every bound is met, 1 failed, 3 a
//! bound is missed or unclear, 4 something that it needs is not here.

#![forbid(unsafe_code)]
// Cargo sets `test` for benchmarks, and without its harness no test is called here: the end-to-end tests have all of this as a
// module.
#![cfg_attr(test, allow(dead_code, unused_imports))]

use std::process::ExitCode;

use clap::Parser;

mod awake;
mod bound;
mod builds;
mod caught;
mod check;
mod children;
pub(crate) mod code;
mod compare;
mod control;
mod equal;
mod explain;
pub(crate) mod figures;
mod flows;
mod hairpin;
mod journal;
mod load;
mod niq;
mod packet;
mod pairs;
mod peers;
mod record;
mod requests;
mod states;
mod watch;

/// The benchmarks of hairpin.
#[derive(Parser)]
struct Input {
    #[command(subcommand)]
    part: Option<Part>,
    /// Given by cargo bench
    #[arg(long, hide = true, global = true)]
    bench: bool,
}

#[derive(clap::Subcommand)]
enum Part {
    Builds(builds::Options),
    Caught(caught::Options),
    Check(check::Options),
    Compare(compare::Options),
    Equal(equal::Options),
    Explain(explain::Options),
    Figures(figures::Options),
    Flows(flows::Options),
    Load(load::Options),
    Niq(niq::Options),
    Packet(packet::Options),
    Peers(peers::Options),
    Requests(requests::Options),
    Watch(watch::Options),
}

fn main() -> ExitCode {
    match Input::parse().part {
        None => {
            println!(
                "benchmarks: name one: builds, caught, check, compare, equal, explain, figures, flows, load, niq, packet, peers, requests, watch; or run `make bench-NAME`"
            );
            ExitCode::SUCCESS
        }
        Some(Part::Builds(options)) => record::end(builds::bench(&options)),
        Some(Part::Caught(options)) => record::end(caught::bench(&options)),
        Some(Part::Check(options)) => record::end(check::bench(&options)),
        Some(Part::Compare(options)) => record::end(compare::bench(&options)),
        Some(Part::Equal(options)) => record::end(equal::bench(&options)),
        Some(Part::Explain(options)) => record::end(explain::bench(&options)),
        Some(Part::Figures(options)) => record::end(figures::bench(&options)),
        Some(Part::Flows(options)) => record::end(flows::bench(&options)),
        Some(Part::Load(options)) => record::end(load::bench(&options)),
        Some(Part::Niq(options)) => record::end(niq::bench(&options)),
        Some(Part::Packet(options)) => packet::play(&options).unwrap_or_else(|| record::end(packet::bench(&options))),
        Some(Part::Peers(options)) => record::end(peers::bench(&options)),
        Some(Part::Requests(options)) => record::end(requests::bench(&options)),
        Some(Part::Watch(options)) => record::end(watch::bench(&options)),
    }
}
