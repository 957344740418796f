//! `make bench-load`: the lateness of the open loop's requests, and the difference between times from due and
//! from sent.
//!
//! ```text
//!   null     the loop over a path inside this process that does nothing     100,000/s: p95 of sent - due
//!   udp      hairpin load --path udp:spin over loopback                     100,000/s: p95 of sent - due
//!   asleep   the same with udp:block, udp:poll and tcp:block, 1,000/s      for information: the cost of a sleeping wait
//!   stall    room for one in flight, half the saturation rate, the server's process stopped for 10 ms: p99.9 from due and from sent
//! ```
//! Bounds hold for requests that were not due while the client's core stood still (a gap of more than 2 us between two looks at
//! the clock); stalls are counted beside them, with their share of time. A bound is on the whole 95 % interval over the rounds;
//! other figures are their medians.
//!
//! Exit codes: 0 every bound is met, 1 failed, 3 a bound is missed or unclear, 4 two CPUs are not here.

use std::process::Command;
use std::time::Duration;

use clap::Args;
use hairpin_record::load::Load;
use hairpin_sys::thread::allowed_cpus;

mod null;
mod stall;
mod table;

use super::children;
use super::record::{Flags, Stop, publish, write};
use table::Cell;

/// Offered where lateness is bounded, per second.
const RATE: u32 = 100_000;
/// p95 of the lateness over a path that does nothing, in ns …
const NULL_BOUND_NS: u64 = 100;
/// … and over UDP.
const UDP_BOUND_NS: u64 = 2_000;
/// Offered to clients that sleep, per second.
const ASLEEP: u32 = 1_000;

/// Options of the benchmark, after `cargo bench --package hairpin-cli --bench bench -- load`.
#[derive(Args)]
pub(crate) struct Options {
    /// Measured time of each round, in s
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Rounds of each cell; fewer than six have no interval
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// The client's CPU and the server's
    #[arg(long, value_delimiter = ',', num_args = 2, default_value = "0,1")]
    cpu: Vec<u32>,
    #[command(flatten)]
    flags: Flags,
}

/// Measures; true if a bound is missed.
pub(crate) fn bench(options: &Options) -> Result<bool, Stop> {
    let allowed = allowed_cpus().map_err(|e| e.to_string())?;
    if let Some(cpu) = options.cpu.iter().find(|cpu| !allowed.contains(cpu)) {
        return Err(Stop::Missing(format!("CPU {cpu} is not allowed to this process: choose others with --cpu CLIENT,SERVER")));
    }
    let directory = options.flags.directory("load", true)?;

    let mut cells = vec![null::cell(options)?];
    let mut records = Vec::new();
    for (path, rate, bound) in [
        ("udp:spin", RATE, Some(UDP_BOUND_NS)),
        ("udp:block", ASLEEP, None),
        ("udp:poll", ASLEEP, None),
        ("tcp:block", ASLEEP, None),
    ] {
        let mut rounds = Vec::new();
        for round in 0..options.rounds {
            let load = offer(options, path, rate, &[])?;
            rounds.push(table::Round::of(&load)?);
            if round == 0 {
                records.push((format!("{}.json", path.replace(':', "-")), load));
            }
        }
        cells.push(Cell { name: path.into(), per_s: rate.into(), bound_ns: bound, rounds });
    }
    let stalls = stall::rounds(options)?;

    let text = table::text(&cells, &stalls, options);
    for (name, load) in &records {
        write(&directory.join(name), &format!("{}\n", serde_json::json!(load)))?;
    }
    options.flags.table(&directory, text)?;
    Ok(cells.iter().any(|cell| cell.word().missed()))
}

/// `hairpin load` over loopback at one rate: its record, without the host's private facts.
fn offer(options: &Options, path: &str, rate: u32, more: &[&str]) -> Result<Load, String> {
    let mut command = command(options, path, rate, more);
    command.args(["--duration", &format!("{}s", options.seconds)]);
    let limit = Duration::from_secs_f64(60.0 + 3.0 * options.seconds);
    published(&children::run(&mut command, limit)?)
}

fn command(options: &Options, path: &str, rate: u32, more: &[&str]) -> Command {
    let mut command = Command::new(&options.flags.hairpin);
    command.args([
        "load",
        "--link",
        "loopback",
        "--json",
        "--no-store",
        "--path",
        path,
        "--rate",
        &rate.to_string(),
        "--warmup",
        "0.2s",
    ]);
    command.args(["--cpu", &format!("{},{}", options.cpu[0], options.cpu[1])]).args(more);
    command
}

fn published(text: &str) -> Result<Load, String> {
    let mut load: Load = serde_json::from_str(text).map_err(|e| format!("hairpin's JSON: {e}"))?;
    if let Some(error) = load.head.error {
        return Err(format!("hairpin: {error}"));
    }
    publish(&mut load.body.place.hosts, &mut load.head.command);
    Ok(load)
}
