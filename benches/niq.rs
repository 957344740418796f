//! `make bench-niq`, the part over `hairpin ping`: the timing accuracy of the emulated device, and polling against interrupts.
//!
//! ```text
//!   what-if   niq:spin --nic sniffer10g, 1 to 2,048 bytes    p50/2 and mean/2 within 1 % of the published mean, the whole interval over eight rounds
//!   trade     niq and udp, spin and block, twice:            /dev/cpu_dma_latency as it is, and held at 0
//!             RTT and CPU time per transaction               for information
//! ```
//! Exit codes: 0 the bound is met, 1 failed, 3 it is missed or unclear, 4 not root.

use std::process::Command;
use std::time::Duration;

use clap::Args;
use hairpin_record::run::Run;

mod table;

use super::awake::held_awake;
use super::children;
use super::record::{Flags, Stop, publish, write};

/// The design with the published table.
const NIC: &str = "sniffer10g";
/// Paths of the comparison; with 18 bytes, the longest payload of a small frame.
const TRADED: [&str; 4] = ["niq:spin", "niq:block", "udp:spin", "udp:block"];

/// Options of the benchmark, after `cargo bench --package hairpin-cli --bench bench -- niq`.
#[derive(Args)]
pub(crate) struct Options {
    /// Measured time of each row, in s
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// Rounds of the published table; fewer than six have no interval
    #[arg(long, default_value_t = 8)]
    rounds: usize,
    /// The client's CPU and the server's
    #[arg(long, default_value = "0,1")]
    cpu: String,
    #[command(flatten)]
    flags: Flags,
}

/// Measures; true if the bound is missed.
pub(crate) fn bench(options: &Options) -> Result<bool, Stop> {
    // Before any measurement, so that a refusal comes at once.
    drop(held_awake()?);
    let directory = options.flags.directory("niq", true)?;

    let table = || measure(options, &["--path", "niq:spin", "--nic", NIC, "--sizes", "1..2048x2"], 12);
    let what_if = (0..options.rounds).map(|_| table()).collect::<Result<Vec<Run>, String>>()?;
    let trade = || {
        let paths = TRADED.iter().flat_map(|path| ["--path", path]);
        let args: Vec<&str> = paths.chain(["--size", "18"]).collect();
        measure(options, &args, TRADED.len())
    };
    let as_it_is = trade()?;
    let awake = held_awake()?;
    let held = trade()?;
    drop(awake);

    let lines = table::what_if(&what_if)?;
    let text = table::text(&lines, &[&as_it_is, &held], options.seconds)?;
    for (name, runs) in [("what-if.jsonl", what_if.as_slice()), ("trade.json", &[as_it_is]), ("trade-held-awake.json", &[held])] {
        let json = |run: &Run| serde_json::to_string(run).map_err(|e| format!("{name}: {e}"));
        let lines = runs.iter().map(json).collect::<Result<Vec<_>, _>>()?;
        write(&directory.join(name), &(lines.join("\n") + "\n"))?;
    }
    options.flags.table(&directory, text)?;
    Ok(lines.iter().any(|line| line.word().missed()))
}

/// Runs `hairpin ping` over loopback, and returns its record without the host's private facts.
fn measure(options: &Options, args: &[&str], rows: usize) -> Result<Run, String> {
    let mut command = Command::new(&options.flags.hairpin);
    command.args(["ping", "--link", "loopback", "--json", "--no-store", "--cpu", &options.cpu]).args(args);
    command.args(["--warmup", "0.1s", "--duration", &format!("{}s", options.seconds)]);
    let limit = Duration::from_secs_f64(60.0 + 3.0 * options.seconds * rows as f64);
    let text = children::run(&mut command, limit)?;
    let mut run: Run = serde_json::from_str(&text).map_err(|e| format!("hairpin's JSON: {e}"))?;
    if let Some(error) = run.head.error {
        return Err(format!("hairpin: {error}"));
    }
    publish(&mut run.body.place.hosts, &mut run.head.command);
    Ok(run)
}
