//! `hairpin ping`.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use hairpin_lab::caught::{Above, Catch};
use hairpin_lab::metrics::Listen;
use hairpin_lab::ping::{self, Beside};
use hairpin_plan::job::NicStamps;
use hairpin_plan::job::group::{Group, MOST_RESPONDERS};
use hairpin_plan::paths::{DEFAULT, UDP};
use hairpin_record::run::Run;
use hairpin_session::floor;
use hairpin_session::plan::{Plan, Target};
use hairpin_sys::signal::{SIGHUP, SIGINT, SIGTERM, Signals};
use hairpin_sys::thread::allowed_cpus;
use hairpin_sys::wait::Policy;

use crate::exit::{Failure, both};
use crate::flags::{ALL, Whole, WorkFlags, hw_stamps, plain, stack, whole, whole_in};
use crate::line;
use crate::output::{Format, Keep, RunOutput, print};
use crate::place::{Mirror, Where, ipv6_has_effect};
use crate::progress::PingProgress;
use crate::screen;
use crate::verbs::knobs::stamping_towards;
use crate::wire::Declared;

/// Measure round trips
#[derive(Debug, Args)]
#[command(
    mut_arg("duration", |arg| arg.default_value("3s")),
    mut_arg("paths", |arg| arg.help("Path to measure: PATH[:POLICY][,OPTION=VALUE…][/SERVER'S SIDE]; repeatable; default tcp and udp, and udp:spin on this host (see `hairpin paths`)")),
)]
pub struct Ping {
    #[command(flatten)]
    to: Where,
    #[command(flatten)]
    mirror: Mirror,
    /// The key that `hairpin serve` printed, in a file
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// IPv6 on loopback and veth
    #[arg(short = '6', long)]
    ipv6: bool,
    /// Ask a multicast group over udp: RTT to the first reply, to the last, and of each responder. On a link of this host the
    /// responders are started; without HOST those answer that joined the group (`hairpin bounce --group`)
    #[arg(long, value_name = "ADDR[%IF][:PORT]", conflicts_with_all = ["hw_stamps", "one_way", "explain_above", "raw", "floor", "wire", "link_rate", "cable", "nic", "hops", "fec", "pcie", "vlan", "key_file", "interface", "rewrite", "dst_mac", "probe_shape"])]
    group: Option<Group>,
    /// Responders of the group: on a link of this host N are started (2 if not given); elsewhere N are waited for, or without it
    /// all are measured that answer within 1 s
    #[arg(long, value_name = "N", requires = "group", value_parser = whole_in(1..=MOST_RESPONDERS as u32))]
    responders: Option<u32>,
    /// A library that takes the place of the kernel's sockets, loaded into the worker processes of this host (LD_PRELOAD):
    /// Onload, libxlio, libvma
    #[arg(long, value_name = "LIBRARY")]
    stack: Option<PathBuf>,
    #[command(flatten)]
    work: WorkFlags,
    #[command(flatten)]
    whole: Whole,
    /// Stamps of the NICs, else of the drivers, in blocks of their own: how much of the RTT is the hosts' and how much the
    /// wire's; =1000/s: of at most 1,000 transactions per second
    #[arg(long, value_name = "N/s", num_args = 0..=1, require_equals = true, default_missing_value = ALL, value_parser = hw_stamps)]
    hw_stamps: Option<NicStamps>,
    /// Shape of the frames: ptp for PTP events (ethertype 88F7), for NICs that stamp nothing else; paths packet and xdp, a peer
    /// on the same link
    #[arg(long, value_name = "ptp")]
    probe_shape: Option<ProbeShape>,
    /// Hold the figures against the floor of the link: as declared below (any of those flags implies this one), else as the
    /// interface says
    #[arg(long)]
    floor: bool,
    /// One-way delays of both directions with their error bound, by the hosts' clocks: chrony or ptp4l must steer both from one
    /// source
    #[arg(long, conflicts_with = "hw_stamps")]
    one_way: bool,
    /// Explain each round trip above this RTT (200us), or above a multiple of a percentile so far ("p99.9 x3"): its stages, what
    /// ran on both cores meanwhile, and the cause, as a line of --incidents
    #[arg(long, value_name = "TIME|pN xF", conflicts_with_all = ["hw_stamps", "one_way", "raw"])]
    explain_above: Option<Above>,
    /// The file of these lines; they go after those of earlier runs
    #[arg(long, value_name = "FILE", requires = "explain_above", default_value = "incidents.jsonl")]
    incidents: PathBuf,
    /// Most bytes of that file
    #[arg(long, value_name = "BYTES", requires = "explain_above", value_parser = whole::<u64>, default_value = "100M")]
    incidents_size: u64,
    /// Most of these lines in a second
    #[arg(long, value_name = "N", requires = "explain_above", value_parser = whole::<u32>, default_value_t = 10)]
    incidents_rate: u32,
    /// Write every sample to this Parquet file
    #[arg(long, value_name = "FILE")]
    raw: Option<PathBuf>,
    #[command(flatten)]
    keep: Keep,
    /// Draw the run on the terminal while it goes on; q ends it, and keeps and prints the results until then
    #[arg(short = 'w', long)]
    watch: bool,
    /// Serve the run's figures to Prometheus: PORT, ADDR or ADDR:PORT, on 127.0.0.1:24445 as far as not given
    #[arg(long, value_name = "ADDR[:PORT]")]
    metrics: Option<Listen>,
    #[command(flatten)]
    declared: Declared,
    #[command(flatten)]
    output: RunOutput,
}

/// The shape of probes.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum ProbeShape {
    /// PTP events.
    Ptp,
}

impl Ping {
    /// Measures, prints and stores.
    pub fn run(mut self) -> Result<ExitCode, Failure> {
        self.output.check()?;
        let stream = self.output.form() == Format::JsonStream;
        if self.watch {
            check_view(stream)?;
        }
        let signals = signals()?;
        if let Some(group) = &mut self.group {
            group.responders = self.responders;
        }
        let target = match &mut self.group {
            Some(group) => self.to.towards(group)?,
            None => self.to.target(self.key_file, self.mirror, &self.work)?,
        };
        if self.group.is_some() && self.work.paths.is_empty() {
            self.work.paths = plain(&[&UDP])?;
        }
        self.work.lead_to(&target);
        // Beside the sleeping paths, one that spins. Not on one CPU, where the sides would keep each other off it, and not to
        // another host, which may forbid it.
        if self.work.paths.is_empty() && matches!(target, Target::Link(_)) && allowed_cpus().is_ok_and(|cpus| cpus.len() > 1) {
            self.work.paths = plain(&DEFAULT)?;
            self.work.paths.push(format!("{}:{}", UDP.name, Policy::Spin.name()).parse().map_err(Failure::usage)?);
        }
        // With --count alone there is no other limit; with both, the first one reached ends a row.
        let mut rows = self.work.jobs(line::was_given("duration"), &target, self.raw.is_some())?;
        ipv6_has_effect(self.ipv6, &rows)?;
        self.declared.check(&target)?;
        self.whole.share(&mut rows);
        rows.iter_mut().for_each(|row| row.nic_stamps = self.hw_stamps);
        if let Some(group) = &self.group {
            for row in &mut rows {
                (row.cookie, row.group) = (Group::cookie(row.cookie), Some(group.clone()));
            }
            self.ipv6 = group.address.is_ipv6();
        }
        if let Some(ProbeShape::Ptp) = self.probe_shape {
            for row in &mut rows {
                row.spec = row.spec.clone().shaped_as_ptp().map_err(Failure::usage)?;
            }
        }
        let shown = self.output.shown();
        let stack = stack(self.stack.as_deref())?;
        let floor = (self.floor || self.declared.is_any())
            .then(|| self.declared.nic().map(|nic| floor::Declared { nic, link: self.declared.link() }))
            .transpose()?;
        let catch = |above| Catch::open(above, &self.incidents, self.incidents_size, self.incidents_rate).map_err(Failure::usage);
        let mut catch = self.explain_above.map(catch).transpose()?;
        let mut watcher = PingProgress::new(stream, &target);
        if let Some(on) = self.metrics {
            watcher.serve(on, &rows)?;
        }
        if self.watch {
            watcher.draw();
        }
        watcher.keep(stamping_towards(&target, self.hw_stamps.is_some()));
        let plan = Plan { target, ipv6: self.ipv6, stack, rows, raw: self.raw, shown, floor, command: line::typed() };
        let beside = Beside { one_way: self.one_way, others: true };
        let measured = ping::run_beside(&plan, beside, catch.as_mut(), &signals, &mut watcher);
        // From here on output goes to the place of the view.
        watcher.clear();
        let left = watcher.put_back().map_err(Failure::failed);
        let run = match measured {
            Ok(run) => run,
            Err(error) => return both(Err(error.into()), left),
        };
        let kept = self.keep.after(print(&self.output.text_of_run("", &run, !self.keep.no_store)), &run);
        both(kept, left).map(|()| end(&run))
    }
}

/// Ctrl-C, SIGTERM and the end of the terminal as a descriptor. Called before any worker starts, since workers inherit the signal
/// mask.
pub fn signals() -> Result<Signals, Failure> {
    // A descriptor gets also a signal that nohup(1) has made ignored.
    let all = if is_ignored(SIGHUP) { &[SIGINT, SIGTERM][..] } else { &[SIGINT, SIGTERM, SIGHUP] };
    Signals::block(all).map_err(|error| Failure::failed(format_args!("cannot take signals: {error}")))
}

fn is_ignored(signal: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("SigIgn:")?.trim(), 16).ok());
    mask.is_some_and(|mask| mask & (1 << (signal - 1)) != 0)
}

/// Refuses a view where there is no terminal, or where `stream` has it.
fn check_view(stream: bool) -> Result<(), Failure> {
    if stream {
        return Err(Failure::usage(
            "--watch and -o jsonl both take the terminal: choose one; `hairpin watch FILE` draws what -o jsonl writes",
        ));
    }
    screen::check("--watch", FROM_ELSEWHERE)
}

/// Advice for a run without a terminal.
pub const FROM_ELSEWHERE: &str = "use -o jsonl, or --metrics, to follow a run from elsewhere";

/// The exit code of a run that was printed.
pub fn end(run: &Run) -> ExitCode {
    match &run.head.error {
        // The table has shown the error; nobody may be reading JSON on stdout.
        Some(error) => Failure::failed(error).report(),
        None => ExitCode::SUCCESS,
    }
}

#[cfg(test)]
mod tests {
    use clap::error::ErrorKind;

    #[test]
    fn a_group_has_no_floor_however_it_is_declared() {
        for flag in [
            "--floor",
            "--wire=10G,twinax:3m,niq",
            "--link-rate=10G",
            "--cable=twinax:3m",
            "--nic=niq",
            "--hop=cut-through:300ns",
            "--fec=on",
            "--pcie=gen3x8",
            "--vlan",
        ] {
            let words = ["hairpin", "ping", "bridge", "--group", "239.255.0.1", flag];
            let refused = crate::parse::command().try_get_matches_from(words).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::ArgumentConflict, "{flag}");
        }
    }
}
