//! The packet rings by themselves, without a session: their own work, coalescing, AF_XDP between two processes, and the emulated
//! NIC.
//!
//!     cargo bench --package hairpin-packet --bench rings -- memory | coalesce packet|xdp | af-xdp | niq
//!
//! Parts of `make bench-packet` and `make bench-niq`; compiled in this crate, so with the optimisation that its users have.
//! Figures are typical values of blocks with their 95 % intervals, by the method of `hairpin compare` for blocks that follow each
//! other. Bounds and their words are those of `benches/bound.rs`.
//!
//! Exit codes: 0 every bound is met, 1 failed, 3 a bound is missed or unclear.

#![forbid(unsafe_code)]

use std::error::Error;
use std::fmt;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use hairpin_record::paired::Shift;
use hairpin_record::statistics::Ratio;

mod af_xdp;
// Not all of it is used here.
#[allow(dead_code, unused_imports)]
#[path = "../../../../benches/bound.rs"]
mod bound;
mod coalesce;
mod memory;
mod niq;

use self::bound::{Limit, Word, of_rounds};

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// The benchmarks of the packet rings.
#[derive(Parser)]
struct Input {
    #[command(subcommand)]
    part: Option<Part>,
    /// Given by cargo bench
    #[arg(long, hide = true, global = true)]
    bench: bool,
}

#[derive(Subcommand)]
enum Part {
    /// The library's own work per round trip over the in-memory pair
    Memory,
    /// The cost of coalescing at a low rate and its gain at saturation, over a veth pair
    Coalesce(coalesce::Options),
    /// Round trips over AF_XDP between two processes and on one core, over a veth pair
    AfXdp(af_xdp::Options),
    /// The emulated NIC between two threads, against a bare control
    Niq(niq::Options),
}

fn main() -> ExitCode {
    let missed = match Input::parse().part {
        None => {
            println!("benchmarks: name one: memory, coalesce, af-xdp, niq; or run `make bench-packet`");
            Ok(false)
        }
        Some(Part::Memory) => memory::bench(),
        Some(Part::Coalesce(options)) => coalesce::bench(&options),
        Some(Part::AfXdp(options)) => af_xdp::bench(&options),
        Some(Part::Niq(options)) => niq::bench(&options),
    };
    match missed {
        Ok(false) => ExitCode::SUCCESS,
        Ok(true) => ExitCode::from(3),
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// The typical value of blocks and its interval; none where they are too few.
struct Typical(Option<Shift>);

impl Typical {
    fn of(blocks: &[f64]) -> Typical {
        Typical(of_rounds(blocks).filter(|of| of.low.is_finite() && of.high.is_finite()))
    }

    /// The value itself, NaN where there is none.
    fn value(&self) -> f64 {
        self.0.map_or(f64::NAN, |of| of.typical)
    }

    fn word(&self, limit: Limit) -> Word {
        self.0.map_or(Word::Few, |of| limit.judged(of.low, of.high))
    }
}

/// `150.2 (149.8 to 150.6)`, with as many decimals as asked for.
impl fmt::Display for Typical {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let decimals = f.precision().unwrap_or(0);
        match self.0 {
            None => f.write_str("- (too few blocks)"),
            Some(Shift { typical, low, high }) => write!(f, "{typical:.decimals$} ({low:.decimals$} to {high:.decimals$})"),
        }
    }
}

/// The typical ratio of blocks, each of `second` over the one of `first` beside it.
fn ratio(first: &[f64], second: &[f64]) -> Typical {
    let logs: Vec<f64> = first.iter().zip(second).map(|(first, second)| (second / first).ln()).collect();
    let Ratio { ratio, low, high } = match Typical::of(&logs).0 {
        Some(shift) => shift.ratio(),
        None => return Typical(None),
    };
    Typical(Some(Shift { typical: ratio, low, high }))
}
