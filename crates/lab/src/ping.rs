//! A run: what is asked, what may go wrong, and its rows measured in turn on a stage that is set up once.

use std::io;
use std::path::PathBuf;

use hairpin_iopath::measure::cpu_of;
use hairpin_iopath::paths::runner;
use hairpin_iopath::runner::Support;
use hairpin_plan::job::{Job, Reflector, Refused};
use hairpin_plan::path::LinkKind;
use hairpin_plan::replay::ReplayError;
use hairpin_record::head::Record;
use hairpin_record::progress::Progress;
use hairpin_record::run::{Row, Run, RunBody, Side};
use hairpin_sys::netlink::Netlink;
use hairpin_sys::signal::Signals;
use hairpin_sys::thread;
use hairpin_trace::halves::Half;
use hairpin_units::Quantile;

use crate::floor::Declared;
use crate::link::LinkSpec;
use crate::live::Live;
use crate::message::Order;
use crate::rows;
use crate::session::handshake::ConnectError;
use crate::session::key::Key;
use crate::side::SideError;
use crate::stage::Stage;

/// What to measure, and where.
#[derive(Debug)]
pub struct Plan {
    /// The other side.
    pub target: Target,
    /// Use IPv6 on a link of our own.
    pub ipv6: bool,
    /// One row each.
    pub rows: Vec<Job>,
    /// Write every sample here.
    pub raw: Option<PathBuf>,
    /// The quantiles that will be shown.
    pub shown: Vec<Quantile>,
    /// The floor to hold the figures against.
    pub floor: Option<Declared>,
    /// The command line, for the record.
    pub command: Vec<String>,
}

/// MTU of a veth pair where none is asked for (ether_setup of the kernel).
const VETH_MTU: u32 = 1500;

/// Where to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A link on this host, with a server of our own.
    Link(LinkSpec),
    /// `hairpin serve` there.
    Host {
        /// Name or address.
        host: String,
        /// Port of the session.
        port: u16,
        /// Its key.
        key: Option<Key>,
    },
    /// A plain echo service.
    Echo {
        /// Name or address.
        host: String,
        /// Its port.
        port: u16,
    },
    /// Whatever returns Ethernet frames.
    Reflector(Reflector),
}

impl Target {
    /// What paths are asked about.
    pub fn kind(&self) -> LinkKind {
        match self {
            Target::Link(link) => link.kind(),
            Target::Host { .. } => LinkKind::Host,
            Target::Echo { .. } => LinkKind::Echo,
            Target::Reflector(_) => LinkKind::Reflector,
        }
    }

    /// The other side in a word, as a label.
    pub fn label(&self) -> String {
        match self {
            Target::Link(link) => link.record(None).kind,
            Target::Host { host, port, .. } | Target::Echo { host, port } if host.contains(':') => format!("[{host}]:{port}"),
            Target::Host { host, port, .. } | Target::Echo { host, port } => format!("{host}:{port}"),
            Target::Reflector(reflector) => format!("reflector on {}", reflector.interface),
        }
    }

    /// The CPUs of this host that a row measures on: those of the client, and those of a server of ours.
    pub fn cpus(&self, job: &Job) -> Vec<u32> {
        let allowed = thread::allowed_cpus().unwrap_or_default();
        let sides: &[Side] = if matches!(self, Target::Link(_)) { &[Side::Client, Side::Server] } else { &[Side::Client] };
        let of = |side: &Side| (0..job.threads).map(|thread| cpu_of(job, *side, thread, &allowed)).collect::<Vec<u32>>();
        sides.iter().flat_map(of).collect()
    }

    /// The MTU in bytes, where it is known before anything starts.
    fn mtu(&self) -> Option<u32> {
        let of = |name: &str| Some(Netlink::open().ok()?.link(name).ok()?.mtu);
        match self {
            Target::Link(LinkSpec::Veth(veth)) => Some(veth.mtu.unwrap_or(VETH_MTU)),
            Target::Link(LinkSpec::Loopback) => of("lo"),
            Target::Reflector(reflector) => of(&reflector.interface),
            Target::Host { .. } | Target::Echo { .. } => None,
        }
    }
}

/// Told how a run gets on, between measured intervals or about once a second.
pub trait Watcher {
    /// A row begins.
    fn begins(&mut self, _index: usize, _of: usize, _job: &Job) {}
    /// The flows of a row are open on both sides, and nothing is measured yet.
    ///
    /// # Errors
    /// Why the row cannot be measured.
    fn ready(&mut self) -> Result<(), String> {
        Ok(())
    }
    /// Whether the block that is over is one of which a remote server's host has seen something.
    fn wants_halves(&self) -> bool {
        false
    }
    /// A traced block is over, of which a remote server's host saw `halves`; the next begins when this returns. A remote server is to put its hooks on or
    /// take them off then, if it says so.
    ///
    /// # Errors
    /// Why the row cannot go on.
    fn block(&mut self, _halves: Vec<Half>) -> Result<Option<bool>, String> {
        Ok(None)
    }
    /// Whether somebody looks on: each line of progress then holds what came since the one before, CPU time and warnings.
    fn wants_snapshots(&self) -> bool {
        false
    }
    /// A row goes on.
    fn progress(&mut self, _progress: &Progress) {}
    /// A row is done.
    fn ends(&mut self, _row: &Row) {}
}

/// Watches nothing.
pub struct NoWatcher;
impl Watcher for NoWatcher {}

/// Why there is no run.
#[derive(Debug, thiserror::Error)]
pub enum PingError {
    /// The path cannot do what it is asked.
    #[error("{path}: {source}")]
    Job {
        /// The path spec.
        path: String,
        /// What it cannot.
        source: Refused,
    },
    /// The path does not work over this link.
    #[error("{path}: {why}")]
    Unsupported {
        /// The path spec.
        path: String,
        /// Why not.
        why: String,
    },
    /// The path needs what this process may not do.
    #[error("{path}: {why}")]
    Lacking {
        /// The path spec.
        path: String,
        /// What is missing, and what to do.
        why: String,
    },
    /// A CPU that this process may not use.
    #[error("CPU {cpu} does not exist or is not allowed to this process: choose from {allowed} (--cpu CLIENT,SERVER)")]
    Cpu {
        /// What was asked for.
        cpu: u32,
        /// What there is.
        allowed: String,
    },
    /// A worker or server failed before anything was measured.
    #[error(transparent)]
    Side(#[from] SideError),
    /// No session.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The echo service's name.
    #[error("{host}:{port} does not resolve: {source}; check the name, or give an address")]
    Resolve {
        /// The name.
        host: String,
        /// The port.
        port: u16,
        /// What the resolver said.
        source: io::Error,
    },
    /// The session's connection.
    #[error("cannot read the session's addresses: {0}")]
    Address(io::Error),
    /// Nothing was measured.
    #[error("{path}: {why}")]
    Row {
        /// The path spec.
        path: String,
        /// What happened.
        why: String,
    },
    /// Streams beside the measured flow.
    #[error("{0}")]
    Bulk(String),
    /// Streams beside a flow that leaves this host.
    #[error("--bulk fills a link of this host: use --link loopback or --link veth")]
    BulkElsewhere,
    /// A recording that cannot be replayed.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// Ctrl-C before anything was measured.
    #[error("stopped before anything was measured")]
    Interrupted,
}

/// What a failure asks of the user, as the exit codes put it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blame {
    /// Something went wrong (1).
    Failed,
    /// What was asked cannot be (2).
    Usage,
    /// A capability or device is missing (4).
    Missing,
}

impl PingError {
    /// Which exit code it is.
    pub fn blame(&self) -> Blame {
        match self {
            PingError::Job { .. } | PingError::Unsupported { .. } | PingError::Cpu { .. } => Blame::Usage,
            PingError::BulkElsewhere | PingError::Replay(_) => Blame::Usage,
            PingError::Lacking { .. } => Blame::Missing,
            PingError::Side(side) if side.missing() => Blame::Missing,
            _ => Blame::Failed,
        }
    }
}

/// Refuses what cannot be measured, before anything starts.
pub fn check(plan: &Plan) -> Result<(), PingError> {
    // A name is resolved later: the smaller limit holds for it.
    let ipv6 = match &plan.target {
        Target::Link(_) => plan.ipv6,
        Target::Host { host, .. } | Target::Echo { host, .. } => host.contains(':'),
        Target::Reflector(_) => false,
    };
    let allowed = thread::allowed_cpus().map_err(SideError::from)?;
    for job in &plan.rows {
        // The server's CPU is its own host's affair unless that is this one.
        let server = job.cpus.server.filter(|_| matches!(plan.target, Target::Link(_)));
        if let Some(cpu) = [job.cpus.client, server].into_iter().flatten().find(|cpu| !allowed.contains(cpu)) {
            let allowed = allowed.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
            return Err(PingError::Cpu { cpu, allowed });
        }
        let path = || job.spec.to_string();
        let bad = |source| PingError::Job { path: path(), source };
        job.check(ipv6).map_err(bad)?;
        emulating(job, plan.floor.as_ref())?;
        plan.target.mtu().map_or(Ok(()), |mtu| job.check_mtu(ipv6, mtu)).map_err(bad)?;
        let kind = plan.target.kind();
        job.check_peer(kind).map_err(bad)?;
        // What a remote server can do is its own affair.
        let server = Some(&job.spec.server).filter(|_| kind != LinkKind::Host);
        for side in [&job.spec.client].into_iter().chain(server) {
            if let Support::No(why) = runner(side.path).probe(kind) {
                let lacking = runner(side.path).lacks(kind) == Some(&why);
                return Err(if lacking {
                    PingError::Lacking { path: path(), why }
                } else {
                    PingError::Unsupported { path: path(), why }
                });
            }
        }
    }
    Ok(())
}

/// The job, with the latency of the declared link where the path emulates one.
pub(crate) fn emulating(job: &Job, declared: Option<&Declared>) -> Result<Job, PingError> {
    let emulates = job.spec.client.path.emulates;
    let emulated = declared.filter(|_| emulates).map(|declared| declared.emulated(job)).transpose();
    let emulated = emulated.map_err(|why| PingError::Unsupported { path: job.spec.to_string(), why })?.flatten();
    Ok(Job { emulated, ..job.clone() })
}

/// Measures every row of the plan. A row that fails part way ends the run: what was measured until then is in the record, with its error.
pub fn run(plan: &Plan, signals: &Signals, watcher: &mut dyn Watcher) -> Result<Run, PingError> {
    check(plan)?;
    let head = rows::begin::<RunBody>(&plan.command);
    let mut stage = Stage::set_up(plan, None)?;
    let mut run = Record { head, body: RunBody { place: stage.place(plan)?, results: Vec::new() } };
    rows::rows(
        plan,
        &mut run,
        |run| run.results.is_empty(),
        |Record { head, body }, index, job| {
            let job = &emulating(job, plan.floor.as_ref())?;
            watcher.begins(index, plan.rows.len(), job);
            let mut live = Live::new(watcher, job, &body.place.hosts, &stage.server);
            let measured = stage.row(job, index, signals, &mut live)?;
            let row = stage.joined(plan, job, measured, head, &mut body.place);
            watcher.ends(&row);
            body.results.push(row);
            Ok(())
        },
    )?;
    // Finishes the raw file; a worker that is gone has lost its rest, but not what is here.
    if let Err(error) = stage.client.order(&Order::End) {
        run.head.error.get_or_insert(error.to_string());
    }
    Ok(run)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A job like the defaults of `hairpin ping`.
    pub(crate) fn job(spec: &str) -> Job {
        Job::new(spec.parse().unwrap())
    }
}
