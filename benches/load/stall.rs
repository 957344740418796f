//! Coordinated omission for real: half the saturation rate, room for one request in flight, and a server
//! process stopped for 10 ms.

use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use hairpin_record::run::Run;
use rustix::process::{Pid, Signal, kill_process};

use super::super::children;
use super::{Options, command, published};

/// Measured time of a round: long enough that one stall is well beyond one request in a thousand, and p99.9 is supported.
const SECONDS: u64 = 2;
/// Delay of the stop after the server's thread was pinned.
const STOP_AFTER: Duration = Duration::from_millis(1_200);
/// Length of the stop.
const STALL: Duration = Duration::from_millis(10);

/// Results of one round, in ns.
pub(crate) struct Stalled {
    pub(crate) per_s: u32,
    pub(crate) due_p999: Option<u64>,
    pub(crate) sent_p999: Option<u64>,
    pub(crate) sent_max: Option<u64>,
    pub(crate) found_no_room: u64,
}

/// Every round; for information, since whatever else stops this host is in the figures too.
pub(crate) fn rounds(options: &Options) -> Result<Vec<Stalled>, String> {
    let cpus = format!("{},{}", options.cpu[0], options.cpu[1]);
    let mut found = Vec::new();
    for _ in 0..options.rounds {
        let mut ping = std::process::Command::new(&options.flags.hairpin);
        ping.args(["ping", "--link", "loopback", "--path", "udp:spin", "--json", "--no-store", "--cpu", &cpus]);
        ping.args(["--warmup", "0.2s", "--duration", "0.5s"]);
        let text = children::run(&mut ping, Duration::from_secs(60))?;
        let closed: Run = serde_json::from_str(&text).map_err(|e| format!("hairpin's JSON: {e}"))?;
        let per_s = closed.results.first().map_or(0.0, |row| row.transactions_per_s) as u32 / 2;
        let mut load = command(options, "udp:spin", per_s.max(1), &["--outstanding", "1"]);
        load.args(["--duration", &format!("{SECONDS}s")]);
        found.push(round(per_s, load, options.cpu[1])?);
    }
    Ok(found)
}

fn round(per_s: u32, mut load: std::process::Command, cpu: u32) -> Result<Stalled, String> {
    let running = load.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::null()).spawn();
    let running = running.map_err(|e| format!("cannot start hairpin: {e}"))?;
    let server = worker_on(running.id(), cpu)?;
    sleep(STOP_AFTER);
    let stop = |signal| kill_process(server, signal).map_err(|e| format!("cannot stop the server's process: {e}"));
    stop(Signal::STOP)?;
    sleep(STALL);
    stop(Signal::CONT)?;
    let output = running.wait_with_output().map_err(|e| e.to_string())?;
    let load = published(&String::from_utf8_lossy(&output.stdout))?;
    let row = load.results.first().and_then(|curve| curve.rates.first()).ok_or("the record has no row")?;
    Ok(Stalled {
        per_s,
        due_p999: row.rtt_from_due_ns.p999,
        sent_p999: row.rtt_from_sent_ns.p999,
        sent_max: row.rtt_from_sent_ns.max,
        found_no_room: row.found_no_room,
    })
}

/// The worker of `parent` that is pinned to `cpu`, once there is one.
fn worker_on(parent: u32, cpu: u32) -> Result<Pid, String> {
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(20) {
        let children = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).unwrap_or_default();
        for pid in children.split_whitespace() {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            let on = |line: &str| line.strip_prefix("Cpus_allowed_list:").is_some_and(|list| list.trim() == cpu.to_string());
            if status.lines().any(on)
                && let Some(pid) = pid.parse().ok().and_then(Pid::from_raw)
            {
                return Ok(pid);
            }
        }
        sleep(Duration::from_millis(5));
    }
    Err(format!("no worker runs on CPU {cpu}"))
}
