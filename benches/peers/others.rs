//! qperf and iperf, as information: they have no spinning mode and print means, so they have no bound.

use std::process::Command;
use std::time::Duration;

use serde::Serialize;

use super::super::children::{run, start};
use super::cells::{Cell, Transport, Wait};
use super::output;
use super::sockperf::Place;

/// A tool's measurement in a cell.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Information {
    pub(crate) cell: String,
    pub(crate) tool: &'static str,
    /// Mean RTT of the run in the middle of three.
    pub(crate) mean_rtt_ns: f64,
}

/// Round trips smaller than its own header hang iperf 2.1.8.
const IPERF_LEAST: u32 = 64;

/// Measures `cell` with qperf and iperf: nothing if the cell spins, and no UDP with iperf.
pub(crate) fn measure(cell: Cell, place: &mut Place<'_>) -> Vec<Result<Information, String>> {
    if cell.wait == Wait::Spin {
        return Vec::new();
    }
    let mut found = vec![middle(cell, "qperf", || qperf(cell, place))];
    if cell.transport == Transport::Tcp && cell.size >= IPERF_LEAST {
        found.push(middle(cell, "iperf", || iperf(cell, place)));
    }
    found
}

/// The middle one of three runs.
fn middle(cell: Cell, tool: &'static str, mut once: impl FnMut() -> Result<f64, String>) -> Result<Information, String> {
    let mut runs = [once()?, once()?, once()?];
    runs.sort_by(f64::total_cmp);
    Ok(Information { cell: cell.to_string(), tool, mean_rtt_ns: runs[1] })
}

fn qperf(cell: Cell, place: &mut Place<'_>) -> Result<f64, String> {
    let port = place.port().to_string();
    let ([mut client, mut server], address) = place.sides(cell.link, "qperf")?;
    server.args(["--listen_port", &port]);
    client.args([address, "--listen_port", &port, "--time", "1", "--msg_size", &cell.size.to_string(), "--unify_units"]);
    client.arg(format!("{}_lat", cell.transport));
    output::qperf(&served(&mut server, &mut client)?)
}

fn iperf(cell: Cell, place: &mut Place<'_>) -> Result<f64, String> {
    let port = place.port().to_string();
    let ([mut client, mut server], address) = place.sides(cell.link, "iperf")?;
    server.args(["--server", "--port", &port]);
    client.args(["--client", address, "--port", &port, "--time", "1", "--len", &cell.size.to_string()]);
    client.args(["--bounceback", "--bounceback-period", "0"]);
    output::iperf(&served(&mut server, &mut client)?)
}

/// Runs `client` against `server`; both are gone when this returns.
fn served(server: &mut Command, client: &mut Command) -> Result<String, String> {
    let _server = start(server)?;
    std::thread::sleep(Duration::from_millis(200));
    run(client, Duration::from_secs(10))
}
