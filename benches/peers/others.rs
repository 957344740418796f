//! Other tools, as information: no bound, since most print means, wait in another way, or are not here to be tried.
//!
//! Each is told as its own definition says and turned into a round trip: qperf, NPtcp and sfnt-pingpong print half of one, and
//! none of them one-way time.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;
use std::time::Duration;

use serde::Serialize;

use super::super::children::{run, start};
use super::super::record::from_caller;
use super::cells::{Cell, Transport, Wait};
use super::output;
use super::sockperf::Place;

/// A tool's measurement in a cell.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Information {
    pub(crate) cell: String,
    pub(crate) tool: String,
    /// Which figure of the round trips it is, such as their mean.
    pub(crate) figure: &'static str,
    /// Of the run in the middle of three.
    pub(crate) rtt_ns: f64,
}

/// A tool, or where its program is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Other {
    Qperf,
    Iperf,
    Netpipe,
    /// With netserver in the same folder.
    Netperf(PathBuf),
    /// neper's `tcp_rr` or `udp_rr`.
    Neper(PathBuf, Transport),
    Sfnt(PathBuf),
}

/// Those that the distribution has.
pub(crate) const PACKAGED: [Other; 3] = [Other::Qperf, Other::Iperf, Other::Netpipe];

/// Round trips smaller than its own header hang iperf 2.1.8.
const IPERF_LEAST: u32 = 64;
/// Round trips of each of NPtcp's trials.
const NETPIPE_REPEATS: &str = "10000";

/// A peer that the user has built, by the path of its program.
impl FromStr for Other {
    type Err = String;

    fn from_str(text: &str) -> Result<Other, String> {
        let path = from_caller(Path::new(text));
        let known = "netperf, tcp_rr and udp_rr of neper, and sfnt-pingpong";
        let other = match path.file_name().and_then(|name| name.to_str()) {
            Some("netperf") => Other::Netperf(path.clone()),
            Some("tcp_rr") => Other::Neper(path.clone(), Transport::Tcp),
            Some("udp_rr") => Other::Neper(path.clone(), Transport::Udp),
            Some("sfnt-pingpong") => Other::Sfnt(path.clone()),
            _ => return Err(format!("{text} is none of the peers that are known here by the names of their programs: {known}")),
        };
        let netserver = path.with_file_name("netserver");
        for file in [Some(&path), matches!(other, Other::Netperf(_)).then_some(&netserver)].into_iter().flatten() {
            if !file.is_file() {
                return Err(format!("{} is not there", file.display()));
            }
        }
        Ok(other)
    }
}

impl Other {
    fn name(&self) -> &'static str {
        match self {
            Other::Qperf => "qperf",
            Other::Iperf => "iperf",
            Other::Netpipe => "NPtcp",
            Other::Netperf(_) => "netperf",
            Other::Neper(_, Transport::Tcp) => "tcp_rr",
            Other::Neper(_, Transport::Udp) => "udp_rr",
            Other::Sfnt(_) => "sfnt-pingpong",
        }
    }

    /// True if it has this cell's transport, way of waiting and size.
    fn takes(&self, cell: Cell) -> bool {
        match self {
            // The only one that spins.
            Other::Sfnt(_) => true,
            _ if cell.wait == Wait::Spin => false,
            Other::Qperf | Other::Netperf(_) => true,
            Other::Iperf => cell.transport == Transport::Tcp && cell.size >= IPERF_LEAST,
            Other::Netpipe => cell.transport == Transport::Tcp,
            Other::Neper(_, transport) => cell.transport == *transport,
        }
    }

    /// The figure of the round trips that it prints.
    fn figure(&self) -> &'static str {
        match self {
            Other::Qperf | Other::Iperf | Other::Netperf(_) => "mean",
            Other::Netpipe => "least mean",
            Other::Neper(..) | Other::Sfnt(_) => "p50",
        }
    }

    /// The programs of client and server.
    fn programs(&self) -> [PathBuf; 2] {
        match self {
            Other::Netperf(path) => [path.clone(), path.with_file_name("netserver")],
            Other::Neper(path, _) | Other::Sfnt(path) => [path.clone(), path.clone()],
            named => [named.name().into(), named.name().into()],
        }
    }

    /// One run: a figure of the round trips, in ns.
    fn once(&self, cell: Cell, place: &mut Place<'_>) -> Result<f64, String> {
        let [port, second] = [place.port().to_string(), place.port().to_string()];
        let [at_client, at_server] = self.programs();
        let ([mut client, mut server], address) = place.both(cell.link, &at_client, &at_server)?;
        let size = cell.size.to_string();
        match self {
            Other::Qperf => {
                server.args(["--listen_port", &port]);
                client.args([address, "--listen_port", &port, "--time", "1", "--msg_size", &size, "--unify_units"]);
                client.arg(format!("{}_lat", cell.transport));
            }
            Other::Iperf => {
                server.args(["--server", "--port", &port]);
                client.args(["--client", address, "--port", &port, "--time", "1", "--len", &size]);
                client.args(["--bounceback", "--bounceback-period", "0"]);
            }
            Other::Netpipe => {
                // Both sides take the same options.
                let all = ["-P", &port, "-l", &size, "-u", &size, "-p", "0", "-n", NETPIPE_REPEATS];
                server.args(all);
                client.args(["-h", address]).args(all).args(["-o", "/dev/null"]);
            }
            Other::Netperf(_) => {
                server.args(["-D", "-4", "-p", &port]);
                let test = if cell.transport == Transport::Tcp { "TCP_RR" } else { "UDP_RR" };
                client.args(["-4", "-H", address, "-p", &port, "-t", test, "-l", "1", "-P", "0", "--"]);
                client.args(["-r", &format!("{size},{size}"), "-k", "MEAN_LATENCY"]);
                if cell.transport == Transport::Tcp {
                    client.arg("-D");
                }
            }
            Other::Neper(..) => {
                let all = ["-C", &port, "-P", &second, "-l", "1", "-Q", &size, "-R", &size, "-p", "50", "--nolog"];
                server.args(all);
                client.args(["-c", "-H", address]).args(all);
            }
            Other::Sfnt(_) => {
                server.arg(format!("--port={port}"));
                client.args([format!("--port={port}"), format!("--sizes={size}"), "--maxms=1000".to_owned()]);
                // Of its own accord it pins both sides to core 1, or to 1 and 2.
                client.arg("--affinity=any;any");
                if cell.wait == Wait::Spin {
                    client.arg("--spin");
                }
                if cell.transport == Transport::Udp {
                    client.arg("--connect");
                }
                client.args([&cell.transport.to_string(), address]);
            }
        }
        let said = served(&mut server, &mut client)?;
        match self {
            Other::Qperf => output::qperf(&said),
            Other::Iperf => output::iperf(&said),
            Other::Netpipe => output::netpipe(&said),
            Other::Netperf(_) => output::netperf(&said),
            Other::Neper(..) => output::neper(&said),
            Other::Sfnt(_) => output::sfnt(&said, cell.size),
        }
    }
}

/// Measures `cell` with each of `others` that takes it: the middle one of three runs.
pub(crate) fn measure(cell: Cell, others: &[Other], place: &mut Place<'_>) -> Vec<Result<Information, String>> {
    let mut one = |other: &Other| {
        let mut runs = [(); 3].iter().map(|()| other.once(cell, place)).collect::<Result<Vec<f64>, String>>()?;
        runs.sort_by(f64::total_cmp);
        Ok(Information { cell: cell.to_string(), tool: other.name().to_owned(), figure: other.figure(), rtt_ns: runs[1] })
    };
    others.iter().filter(|other| other.takes(cell)).map(&mut one).collect()
}

/// Runs `client` against `server`; both are gone when this returns.
fn served(server: &mut Command, client: &mut Command) -> Result<String, String> {
    let _server = start(server)?;
    std::thread::sleep(Duration::from_millis(200));
    run(client, Duration::from_secs(10))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use hairpin_sys::thread::allowed_cpus;

    use super::*;

    /// Stand-ins that print what the tools print, and refuse options that they are not called with.
    const STAND_INS: [(&str, &str); 5] = [
        ("netserver", "exec sleep 20"),
        (
            "netperf",
            r#"case "$*" in *"-t UDP_RR -l 1 -P 0 -- -r 64,64 -k MEAN_LATENCY"*) echo MEAN_LATENCY=33.27;; *) exit 1;; esac"#,
        ),
        (
            "tcp_rr",
            r#"case "$*" in
            "-c -H 127.0.0.1 -C "*" -l 1 -Q 64 -R 64 -p 50 --nolog") printf 'num_transactions=30051\nlatency_min=0.000021000\nlatency_mean=0.000033100\nlatency_p50=0.000031400\nthroughput=30050.11\n';;
            -c*) exit 1;; *) exec sleep 20;; esac"#,
        ),
        ("udp_rr", "exec sleep 20"),
        (
            "sfnt-pingpong",
            r##"case "$*" in
            "--port="*" --sizes=64 --maxms=1000 --affinity=any;any --spin --connect udp 127.0.0.1") printf '# percentile=99\n# reporting: 1/2 RTT\n#\n#\tsize\tmean\tmin\tmedian\tmax\t%%ile\tstddev\titer\n\t64\t3120\t2700\t3050\t41000\t4100\t900\t150000\n';;
            *udp*) exit 1;; *) exec sleep 20;; esac"##,
        ),
    ];

    #[test]
    fn peers_that_a_user_has_built_are_called_by_their_paths_and_told_as_round_trips() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for (name, text) in STAND_INS {
            fs::write(at(name), format!("#!/bin/sh\n{text}\n")).unwrap();
            fs::set_permissions(at(name), fs::Permissions::from_mode(0o755)).unwrap();
        }
        let others: Vec<Other> = STAND_INS[1..].iter().map(|(name, _)| at(name).to_str().unwrap().parse().unwrap()).collect();
        let cpu = allowed_cpus().unwrap()[0];
        let mut place = Place { cpus: [cpu, cpu], veth: None, ports: 21_000.. };
        let mut told = |cell: &str, others: &[Other]| -> Vec<(String, &str, f64)> {
            let found = measure(cell.parse().unwrap(), others, &mut place);
            found.into_iter().map(|found| found.unwrap()).map(|found| (found.tool, found.figure, found.rtt_ns.round())).collect()
        };
        assert_eq!(told("udp-spin-loopback-64", &others), [("sfnt-pingpong".to_owned(), "p50", 6_100.0)]);
        assert_eq!(told("tcp-block-loopback-64", &others[1..2]), [("tcp_rr".to_owned(), "p50", 31_400.0)]);
        assert_eq!(told("udp-block-loopback-64", &others[..2]), [("netperf".to_owned(), "mean", 33_270.0)]);
        // The stand-in of netperf knows UDP alone.
        assert!(measure("tcp-block-loopback-64".parse().unwrap(), &others[..1], &mut place)[0].is_err());
        fs::remove_file(at("netserver")).unwrap();
        assert!(at("netperf").to_str().unwrap().parse::<Other>().unwrap_err().ends_with("netserver is not there"));
        assert!("/bin/ls".parse::<Other>().unwrap_err().contains("none of the peers"));
        assert!("/no/such/netperf".parse::<Other>().unwrap_err().ends_with("netperf is not there"));
    }
}
