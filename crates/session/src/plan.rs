//! The plan of a run, and the check for rows that cannot be measured.

use std::path::PathBuf;

use hairpin_iopath::paths::runner;
use hairpin_iopath::room::check_room;
use hairpin_iopath::runner::Support;
use hairpin_plan::job::{Job, Reflector};
use hairpin_plan::path::{LinkKind, Path};
use hairpin_plan::paths::{PATHS, TOWARDS_SOCKET};
use hairpin_record::run::Side;
use hairpin_sys::netlink::Netlink;
use hairpin_sys::stack::Library;
use hairpin_sys::thread;
use hairpin_units::Quantile;

use crate::error::RunError;
use crate::floor::Declared;
use crate::key::Key;
use crate::link::{IPV6_MTU, LinkSpec};
use crate::message::Medium;
use crate::pinnable::{choices, of_threads, refused};
use crate::side::SideError;

/// The rows to measure, and the link to measure over.
#[derive(Debug)]
pub struct Plan {
    /// The other side.
    pub target: Target,
    /// Use IPv6 on a link on this host.
    pub ipv6: bool,
    /// The library that takes the place of the kernel's sockets: in the client's process, and in a local server's.
    pub stack: Option<Library>,
    /// One job per row.
    pub rows: Vec<Job>,
    /// Write every sample to this file.
    pub raw: Option<PathBuf>,
    /// Quantiles that will be shown.
    pub shown: Vec<Quantile>,
    /// The declared floor that the figures are compared with.
    pub floor: Option<Declared>,
    /// The command line, for the record.
    pub command: Vec<String>,
}

/// MTU of a veth pair if none is given (ether_setup of the kernel).
const VETH_MTU: u32 = 1500;

/// The other side of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A link on this host, with a worker as the server.
    Link(LinkSpec),
    /// A host on which `hairpin serve` runs.
    Host {
        /// Name or address.
        host: String,
        /// Port of its control session.
        port: u16,
        /// The session's key.
        key: Option<Key>,
    },
    /// A plain echo service, or with a request of the user's own any server.
    Echo {
        /// Name or address.
        host: String,
        port: u16,
    },
    /// A UNIX socket of a server that is there.
    Socket(PathBuf),
    /// A peer that returns Ethernet frames.
    Reflector(Reflector),
}

impl Target {
    /// The kind of link, for the paths' support check.
    pub fn kind(&self) -> LinkKind {
        match self {
            Target::Link(link) => link.kind(),
            Target::Host { .. } => LinkKind::Host,
            Target::Echo { .. } | Target::Socket(_) => LinkKind::Echo,
            Target::Reflector(_) => LinkKind::Reflector,
        }
    }

    /// A short label of the other side.
    pub fn label(&self) -> String {
        match self {
            Target::Link(link) => link.name().into(),
            Target::Host { host, port, .. } | Target::Echo { host, port } if host.contains(':') => format!("[{host}]:{port}"),
            Target::Host { host, port, .. } | Target::Echo { host, port } => format!("{host}:{port}"),
            Target::Socket(path) => path.display().to_string(),
            Target::Reflector(reflector) => format!("reflector on {}", reflector.interface),
        }
    }

    /// The CPUs of this host that a row measures on: the client's, and a local server's.
    pub fn cpus(&self, job: &Job) -> Vec<u32> {
        let allowed = thread::allowed_cpus().unwrap_or_default();
        let sides: &[Side] = if matches!(self, Target::Link(_)) { &[Side::Client, Side::Server] } else { &[Side::Client] };
        sides.iter().flat_map(|side| of_threads(job, *side, &allowed)).collect()
    }

    /// The MTU in bytes, if it is known before anything starts.
    fn mtu(&self) -> Option<u32> {
        let of = |name: &str| Some(Netlink::open().ok()?.link(name).ok()?.mtu);
        match self {
            Target::Link(LinkSpec::Veth(veth)) => veth.mtu.or((veth.medium != Medium::Vxlan).then_some(VETH_MTU)),
            Target::Link(LinkSpec::Netns(_)) => None,
            Target::Link(LinkSpec::Loopback) => of("lo"),
            Target::Reflector(reflector) => of(&reflector.interface),
            Target::Host { .. } | Target::Echo { .. } | Target::Socket(_) => None,
        }
    }
}

/// Refuses a plan that cannot be measured, before anything starts.
pub fn check(plan: &Plan) -> Result<(), RunError> {
    // A host name is resolved later, so the smaller limit applies to it.
    let ipv6 = match &plan.target {
        Target::Link(_) => plan.ipv6,
        Target::Host { host, .. } | Target::Echo { host, .. } => host.contains(':'),
        Target::Socket(_) | Target::Reflector(_) => false,
    };
    if let Target::Link(LinkSpec::Veth(veth)) = &plan.target
        && let Some(mtu) = veth.mtu.filter(|mtu| plan.ipv6 && *mtu < IPV6_MTU)
    {
        let why = format!("IPv6 takes an MTU of {IPV6_MTU} or more, not {mtu}: leave out -6 or mtu={mtu}");
        return Err(RunError::Unsupported { path: plan.target.label(), why });
    }
    let allowed = thread::allowed_cpus().map_err(SideError::from)?;
    for job in &plan.rows {
        // The server's CPU is checked here only if the server runs on this host.
        let server = job.cpus.server.filter(|_| matches!(plan.target, Target::Link(_)));
        let asked: Vec<u32> = [job.cpus.client, server].into_iter().flatten().collect();
        if let Some((cpu, allowed)) = refused(&asked, &choices(&asked, &allowed)) {
            return Err(RunError::Cpu { cpu, allowed });
        }
        let path = || job.spec.to_string();
        let bad = |source| RunError::Job { path: path(), source };
        if let Some(why) = elsewhere(&plan.target, job) {
            return Err(RunError::Unsupported { path: path(), why });
        }
        job.check(ipv6).map_err(bad)?;
        emulating(job, plan.floor.as_ref())?;
        plan.target.mtu().map_or(Ok(()), |mtu| job.check_mtu(ipv6, mtu)).map_err(bad)?;
        let kind = plan.target.kind();
        job.check_peer(kind).map_err(bad)?;
        // A remote server checks its own capabilities, and has its own stack.
        let server = Some((Side::Server, &job.spec.server)).filter(|_| kind != LinkKind::Host);
        let local = || [(Side::Client, &job.spec.client)].into_iter().chain(server);
        if let Some((_, side)) = local().filter(|_| plan.stack.is_some()).find(|(_, side)| !side.path.takes_stack) {
            return Err(RunError::Unsupported { path: path(), why: no_stack(side.path) });
        }
        for (whose, side) in local() {
            check_room(job, whose).map_err(|error| RunError::Lacking { path: path(), why: error.to_string() })?;
            if let Support::No(why) = runner(side.path).probe(kind) {
                let lacking = runner(side.path).lacks(kind) == Some(&why);
                return Err(if lacking {
                    RunError::Lacking { path: path(), why }
                } else {
                    RunError::Unsupported { path: path(), why }
                });
            }
        }
    }
    Ok(())
}

/// Why the path does not lead to the target, if either of them is a UNIX socket.
fn elsewhere(target: &Target, job: &Job) -> Option<String> {
    let path = job.spec.client.path;
    let leads = TOWARDS_SOCKET.contains(&path);
    match target {
        Target::Socket(at) if !leads => Some(format!(
            "{} does not lead to the UNIX socket {}: use --path {}",
            path.name,
            at.display(),
            TOWARDS_SOCKET[0].name
        )),
        Target::Socket(_) if job.own.is_none() => Some("a server behind a UNIX socket takes a --request of its protocol".into()),
        Target::Echo { host, port } if leads => Some(format!(
            "{} does not lead to {host}:{port}: write the socket's own path, such as echo:/run/redis.sock",
            path.name
        )),
        _ => None,
    }
}

/// Why a library in the place of the kernel's sockets carries nothing of this path.
fn no_stack(path: &Path) -> String {
    let known: Vec<&str> = PATHS.iter().filter(|path| path.takes_stack).map(|path| path.name).collect();
    let name = path.name;
    format!(
        "--stack has no effect on {name}, whose messages go past the C library's socket calls: use one of {}",
        known.join(", ")
    )
}

/// The job, with the latency of the declared link if the path emulates one.
pub fn emulating(job: &Job, declared: Option<&Declared>) -> Result<Job, RunError> {
    let emulates = job.spec.client.path.emulates;
    let emulated = declared.filter(|_| emulates).map(|declared| declared.emulated(job)).transpose();
    let emulated = emulated.map_err(|why| RunError::Unsupported { path: job.spec.to_string(), why })?.flatten();
    Ok(Job { emulated, ..job.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_too_small_for_ipv6_is_refused_in_words() {
        let checked = |link: &str, ipv6| {
            check(&Plan {
                target: Target::Link(link.parse().unwrap()),
                ipv6,
                stack: None,
                rows: Vec::new(),
                raw: None,
                shown: Vec::new(),
                floor: None,
                command: Vec::new(),
            })
        };
        let why = checked("veth:mtu=1000", true).unwrap_err().to_string();
        assert!(why.contains("an MTU of 1280 or more, not 1000: leave out -6"), "{why}");
        assert!(checked("veth:mtu=1000", false).is_ok() && checked("veth:mtu=1280", true).is_ok() && checked("lo", true).is_ok());
    }
}
