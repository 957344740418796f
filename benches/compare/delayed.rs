//! A difference made by an echo server that shares no code with hairpin, and measured by its own clock: `delayed.c`.

use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::time::Duration;

use hairpin_record::experiment::Figure;
use hairpin_record::run::Run;
use hairpin_sys::thread::allowed_cpus;
use rustix::process::Signal;

use super::super::children::{self, Guarded, pinned};
use super::super::control::compiled;
use super::trial::{Delay, Trial, compared, comparison, pinged, told};
use super::{Cell, Options};

/// Compares the two ports of an echo server that waits at the second. The server measures its wait itself, by a clock that
/// hairpin has no part in.
pub(super) fn power(options: &Options, cell: &Cell, round: usize) -> Result<Trial, String> {
    let without = Delayed::start(cell, 0)?;
    let run = pinged(options, &[&format!("echo:{}", without.ports[0])], cell.path, 1.0, &["--cpu", &without.cpus])?;
    let run: Run = serde_json::from_str(&run).map_err(|e| format!("hairpin's JSON: {e}"))?;
    let p50 = run.results.first().and_then(|row| row.rtt_ns.p50).ok_or("no p50")? as f64;
    drop(without);
    let server = Delayed::start(cell, (cell.slower * p50).round() as u64)?;
    let (mut command, seconds) = comparison(options, cell, round);
    let [first, second] = server.ports.each_ref().map(|port| format!("echo:{port}"));
    command.args(["--path", cell.path, "--cpu", &server.cpus, "--", &first, "--", &second]);
    let record = compared(&mut command, 60.0 + 2.0 * seconds)?;
    let verdict = record.comparisons.first().ok_or("no comparison")?.verdict;
    let ns = server.longer()?;
    let p50 = record.comparisons[0].figures.iter().find(|of| of.figure == Figure::P50).and_then(|of| of.base).unwrap_or(p50);
    told(&record, verdict, Some(Delay { ns, share: ns / p50 }))
}

/// `delayed.c` at work.
struct Delayed {
    child: Guarded,
    ports: [SocketAddrV4; 2],
    /// The client's CPU and its own, as `--cpu` takes them.
    cpus: String,
}

impl Delayed {
    fn start(cell: &Cell, ns: u64) -> Result<Delayed, String> {
        let allowed = allowed_cpus().map_err(|e| e.to_string())?;
        let [client, server, ..] = allowed[..] else { return Err("this takes two CPUs, and one is allowed".into()) };
        let program = compiled("delayed", &[]).map_err(|stop| stop.to_string())?;
        // Both ports are open at once, so that they differ.
        let free = [(); 2]
            .map(|()| UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|socket| Ok((socket.local_addr()?.port(), socket))));
        let [first, second] = free;
        let (first, second) = (first.map_err(|e| e.to_string())?, second.map_err(|e| e.to_string())?);
        let ports = [first.0, second.0];
        drop((first, second));
        let wait = if cell.path.ends_with(":spin") { "spin" } else { "block" };
        let mut command = pinned(None, server, &program.to_string_lossy());
        command.args([wait, &server.to_string()]).args(ports.map(|port| port.to_string())).arg(ns.to_string());
        let child = children::start(&mut command)?;
        child.wait_until_it_catches(Signal::TERM, Duration::from_secs(5))?;
        let ports = ports.map(|port| SocketAddrV4::new(Ipv4Addr::LOCALHOST, port));
        Ok(Delayed { child, ports, cpus: format!("{client},{server}") })
    }

    /// Ends the server; returns by how much its turn-around was longer at the second port, in ns.
    fn longer(self) -> Result<f64, String> {
        self.child.signal(Signal::TERM)?;
        let said = self.child.finish(Duration::from_secs(5))?;
        longer(&said)
    }
}

/// Parses a line `NS COUNT` for each port.
fn longer(said: &str) -> Result<f64, String> {
    let numbers: Vec<f64> = said.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    match numbers[..] {
        [first, of_first, second, of_second] if of_first >= 100.0 && of_second >= 100.0 => Ok(second - first),
        _ => Err(format!("the server with a delay said {said:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_with_a_delay_tells_how_much_longer_it_waited() {
        assert_eq!(longer("41.5 20000\n101.5 20111\n"), Ok(60.0));
        assert!(longer("41 20000\n101 7\n").is_err() && longer("bind: Address already in use\n").is_err());
    }
}
