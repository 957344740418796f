//! A responder of a multicast group: answers each request that comes to the group, until the user ends it.
//!
//! It is the server's side of a row of [`ping`](crate::ping), without a client that plans one.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use hairpin_plan::job::group::Group;
use hairpin_plan::job::{Job, Listen, Sides};
use hairpin_plan::spec::Spec;
use hairpin_record::bounce::{Bounce, BounceBody};
use hairpin_record::frames::{Rings, per_s};
use hairpin_record::head::{Head, Record};
use hairpin_session::address::{interface_of, local_address_towards};
use hairpin_session::ending::repeats;
use hairpin_session::message::{Answer, Order, ServerReport};
use hairpin_session::rows;
use hairpin_session::server::NUDGE_EVERY;
use hairpin_session::side::{SideError, WorkerSide, wait};
use hairpin_sys::signal::Signals;
use hairpin_units::Nanos;

use super::{BounceError, STOP_WITHIN, cpus, unanswered};

#[derive(Clone, Debug)]
pub struct GroupPlan {
    pub group: Group,
    /// The path; its server's side answers.
    pub spec: Spec,
    /// The CPU; the second allowed one if not given.
    pub cpu: Option<u32>,
    /// The duration; `None` until the user ends it.
    pub duration: Option<Nanos>,
    /// The command line, for the record.
    pub command: Vec<String>,
}

/// Joins the group and answers until the user or the duration ends it; `joined` is called as soon as it does.
///
/// # Errors
/// The start failed. A later failure is in the record.
pub fn run(plan: &GroupPlan, signals: &Signals, joined: impl FnOnce()) -> Result<Bounce, BounceError> {
    let (group, server) = (&plan.group, &plan.spec.server);
    let cpus = cpus(plan.cpu)?;
    let (any, ipv6): (IpAddr, bool) = match group.address {
        IpAddr::V4(_) => (Ipv4Addr::UNSPECIFIED.into(), false),
        IpAddr::V6(_) => (Ipv6Addr::UNSPECIFIED.into(), true),
    };
    let longest = server.path.payload_limit(ipv6);
    let job = Job {
        request: longest,
        reply: longest,
        plain_peer: true,
        cpus: Sides { client: None, server: cpus.first().copied() },
        group: Some(group.clone()),
        ..Job::new(plan.spec.clone())
    };
    job.check(ipv6)?;
    let head = rows::begin::<BounceBody>(&plan.command);
    let interface = group.interface.clone().or_else(|| interface_of(local_address_towards(group.to(0))?)).unwrap_or_default();
    let mut worker = WorkerSide::start(None, None, None)?;
    let (host, _) = worker.facts(Some(&interface), cpus.first().copied(), 1, true)?;
    let listen = Listen { address: any, ports: None, client: any, scope: 0 };
    match worker.order(&Order::Plan { job: Box::new(job), listen, most_per_s: None })? {
        Answer::Ready(_) => joined(),
        other => return Err(SideError::OutOfTurn(format!("{other:?}")).into()),
    }
    let begun = Instant::now();
    let report = until_the_end(&mut worker, plan.duration.map(Duration::from), signals)?;
    let (frames, duration_ns) = (report.bounced.unwrap_or_default(), Nanos::from(begun.elapsed()).0);
    Ok(Record {
        head: Head { error: report.error, ..head },
        body: BounceBody {
            host,
            io: server.to_string(),
            filter: format!("requests of hairpin to the group {group}"),
            rewrite: "all".into(),
            flush: "each".into(),
            repeats: None,
            verify: false,
            input: Rings {
                back_end: server.path.name.into(),
                interface,
                longest_frame_bytes: longest.into(),
                ..Rings::default()
            },
            output: None,
            duration_ns,
            frames,
            frames_per_s: per_s(frames.sent, duration_ns),
            wire_bits_per_s: per_s(8 * frames.sent_wire_bytes, duration_ns),
            cpu: report.cpu,
            warnings: report.warnings,
        },
    })
}

/// Waits for the end, stops the worker and takes its report. A second Ctrl-C does not wait.
fn until_the_end(worker: &mut WorkerSide, lasts: Option<Duration>, signals: &Signals) -> Result<ServerReport, BounceError> {
    let begun = Instant::now();
    let mut stopped = None::<Instant>;
    loop {
        let now = Instant::now();
        while let Ok(Some(signal)) = signals.next() {
            if repeats(stopped, signal, now) {
                continue;
            }
            if stopped.is_some() {
                return Err(BounceError::Interrupted);
            }
            stopped = Some(now);
        }
        if stopped.is_none() && lasts.is_some_and(|lasts| begun.elapsed() >= lasts) {
            stopped = Some(Instant::now());
        }
        match worker.try_answer()? {
            Some(Answer::Server(report)) => return Ok(*report),
            Some(Answer::Failed(failure)) => return Err(SideError::Failed(failure).into()),
            Some(other) => return Err(SideError::OutOfTurn(format!("{other:?}")).into()),
            None if stopped.is_some_and(|stopped| stopped.elapsed() > STOP_WITHIN) => return Err(unanswered()),
            None => {}
        }
        if stopped.is_some() {
            worker.stop();
        }
        let left = lasts.map(|lasts| lasts.saturating_sub(begun.elapsed()));
        let limit = if stopped.is_some() { Some(NUDGE_EVERY) } else { left };
        wait(&[worker.as_fd(), signals.as_fd()], limit).map_err(SideError::Prepare)?;
    }
}
