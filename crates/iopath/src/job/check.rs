//! What a path, a policy or this program cannot do of a job: asked before anything starts, and again by the worker.

use hairpin_record::run::Side;
use hairpin_sys::wait::Policy;
use hairpin_units::Nanos;
use hairpin_wire::probe;

use super::{Job, LocalPort, MOST_FLOWS, MOST_IN_FLIGHT, Schedule};
use crate::inet::FIRST_ROTATED;
use crate::option::Options;
use crate::path::{IoPath, Speaks};
use crate::schedule::Arrivals;

/// What a path, a policy or this program cannot do of what a job asks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JobError {
    /// A size beyond what the path carries.
    #[error("{path} carries payloads of 1 to {limit} bytes, not a {which} of {size}")]
    Size {
        /// The path.
        path: &'static str,
        /// `request` or `reply`.
        which: &'static str,
        /// What was asked.
        size: u32,
        /// The largest that goes.
        limit: u32,
    },
    /// Another size than the only one.
    #[error("{path} carries payloads of exactly {only} bytes, not a {which} of {size}: use --size {only}")]
    OnlySize {
        /// The path.
        path: &'static str,
        /// `request` or `reply`.
        which: &'static str,
        /// What was asked.
        size: u32,
        /// The only size that goes.
        only: u32,
    },
    /// More requests in flight than the path takes.
    #[error("{path} takes at most {limit} outstanding per flow, not {outstanding}")]
    PathOutstanding {
        /// The path.
        path: &'static str,
        /// What was asked.
        outstanding: u32,
        /// The most that goes.
        limit: u32,
    },
    /// More requests in flight than a small payload can tell apart.
    #[error("a payload of {size} bytes tells at most {limit} outstanding requests apart, not {outstanding}: use larger payloads")]
    Outstanding {
        /// The smaller payload.
        size: u32,
        /// What was asked.
        outstanding: u32,
        /// The most that goes.
        limit: u32,
    },
    /// More requests in flight than the table holds.
    #[error("{flows} flows with {outstanding} outstanding each are more than {MOST_IN_FLIGHT} requests in flight: use fewer")]
    InFlight {
        /// Flows asked for.
        flows: u32,
        /// Requests per flow.
        outstanding: u32,
    },
    /// Too many flows for the path or the program.
    #[error("{path} takes 1 to {limit} flows, not {flows}")]
    Flows {
        /// The path.
        path: &'static str,
        /// What was asked.
        flows: u32,
        /// The most that goes.
        limit: u32,
    },
    /// Threads without a flow.
    #[error("{threads} threads need a flow each, and there are {flows}: use as many --flows, or fewer --threads")]
    Threads {
        /// Threads asked for.
        threads: u32,
        /// Flows asked for.
        flows: u32,
    },
    /// More threads than a queue's one.
    #[error("{path} has one queue and so one thread, not {threads}: use --threads 1, with as many --flows as you like")]
    OneThread {
        /// The path.
        path: &'static str,
        /// What was asked.
        threads: u32,
    },
    /// A payload that does not fit into one packet of the link.
    #[error(
        "{path} carries payloads of 1 to {limit} bytes over an MTU of {mtu}, not a {which} of {size}: use smaller payloads or a larger MTU"
    )]
    Mtu {
        /// The path.
        path: &'static str,
        /// The link's MTU in bytes.
        mtu: u32,
        /// `request` or `reply`.
        which: &'static str,
        /// What was asked.
        size: u32,
        /// The largest that goes.
        limit: u32,
    },
    /// A reply of another length over frames without IP.
    #[error("without IP a server answers with as many bytes as came: a request of {request} bytes has no reply of {reply}")]
    RawSize {
        /// Payload of a request in bytes.
        request: u32,
        /// Payload of a reply in bytes.
        reply: u32,
    },
    /// A path that a reflector does not return.
    #[error("a reflector returns Ethernet frames: use --path packet or --path xdp, not {0}")]
    NoReflector(&'static str),
    /// A policy that waits on one flow, and a thread with several.
    #[error(
        "{policy} on the {side} waits on one flow per thread, and there are {flows} for --threads {threads}: use :poll, :epoll, :spin or :adaptive, or as many --threads as --flows"
    )]
    OneFlow {
        /// The policy.
        policy: Policy,
        /// The side whose policy it is.
        side: Side,
        /// Threads asked for.
        threads: u32,
        /// Flows asked for.
        flows: u32,
    },
    /// A schedule with several requests in flight.
    #[error("--pace keeps one request in flight, so --outstanding {0} does not go with it")]
    PaceOutstanding(u32),
    /// A path that is busy with one request at a time.
    #[error(
        "{0} opens a connection for each request and is busy with it until that is closed, so no schedule can go on meanwhile: use --path tcp"
    )]
    NoOpen(&'static str),
    /// Two schedules.
    #[error("an open loop has a schedule of its own, so --pace does not go with it")]
    OpenPace,
    /// A rate of an open loop that is none.
    #[error("an open loop takes more than 0 and up to 10,000,000 requests per second")]
    Rate,
    /// Requests of several sizes on a path that carries one.
    #[error("{0} carries requests of one size, and this recording has several: use --path udp or --path unix-dgram")]
    OneSize(&'static str),
    /// Requests of several sizes to a peer that returns each as it came.
    #[error(
        "an echo service or reflector returns what it gets, and this recording has several sizes: replies of one size take a hairpin server"
    )]
    EchoSizes,
    /// A recording that several threads would have to share.
    #[error("a recording is replayed by one thread, not {0}: use --threads 1, with as many --flows as you like")]
    ReplayThreads(u32),
    /// A rate that is none.
    #[error("--pace takes more than 0 and up to 1,000,000,000 requests per second")]
    Pace,
    /// Nothing to do, or no time to do it.
    #[error("--{0} must be more than 0")]
    Zero(&'static str),
    /// A realtime priority that does not exist.
    #[error("--sched fifo:{0} does not exist: priorities are 1 to 99")]
    Priority(u8),
    /// A source port for a path without ports.
    #[error("{0} has no ports, so --local-port does not go with it")]
    NoPorts(&'static str),
    /// Flows that do not match the ports they rotate through.
    #[error("--local-port rotate:{ports} is one flow per port, not {flows} flows: use --flows {ports}")]
    Rotate {
        /// Ports to rotate through.
        ports: u16,
        /// Flows asked for.
        flows: u32,
    },
    /// Ports beyond the last.
    #[error("--local-port needs ports {first} to {last}, and the last port is 65535")]
    Ports {
        /// The first.
        first: u16,
        /// The last.
        last: u32,
    },
    /// A path that a plain echo service does not speak.
    #[error("an echo service speaks TCP or UDP, not {0}")]
    NoEcho(&'static str),
    /// A reply that an echo service does not send.
    #[error("an echo service or reflector returns what it gets: a request of {request} bytes has no reply of {reply}")]
    EchoSize {
        /// Payload of a request in bytes.
        request: u32,
        /// Payload of a reply in bytes.
        reply: u32,
    },
}

impl Job {
    /// Refuses what the path, the policies or this program cannot do; `ipv6` is the family of the server's address. The verb asks
    /// before anything starts, and the worker asks again, since a job may come over the network.
    ///
    /// # Errors
    /// The first thing that does not go.
    pub fn check(&self, ipv6: bool) -> Result<(), JobError> {
        self.check_numbers()?;
        for side in [&self.spec.client, &self.spec.server] {
            self.check_sizes(side.path, ipv6)?;
        }
        self.check_flows()?;
        self.check_ports()?;
        let path = self.spec.client.path;
        if self.plain_peer && matches!(path.speaks(&Options::default()), Speaks::Local(_)) {
            return Err(JobError::NoEcho(path.name()));
        }
        if !self.plain_peer && self.spec.client.speaks() == Speaks::Raw && self.request != self.reply {
            return Err(JobError::RawSize { request: self.request, reply: self.reply });
        }
        if self.plain_peer && self.request != self.reply {
            return Err(JobError::EchoSize { request: self.request, reply: self.reply });
        }
        Ok(())
    }

    /// The most requests in flight on one flow that both paths take and the payloads tell apart.
    pub fn most_outstanding(&self) -> u32 {
        let [client, server] = [&self.spec.client, &self.spec.server].map(|side| side.path.max_outstanding());
        client.min(server).min(probe::max_outstanding(self.smallest() as usize))
    }

    /// The smallest payload of either way in bytes.
    fn smallest(&self) -> u32 {
        self.open.as_ref().map_or(self.request, |open| open.smallest).min(self.request).min(self.reply)
    }

    fn check_numbers(&self) -> Result<(), JobError> {
        let zero = [
            ("threads", self.threads == 0),
            ("outstanding", self.outstanding == 0),
            ("count", self.count == Some(0)),
            ("duration", self.duration == Some(Nanos(0))),
            ("timeout", self.timeout == Nanos(0)),
        ];
        if let Some((name, _)) = zero.iter().find(|(_, is_zero)| *is_zero) {
            return Err(JobError::Zero(name));
        }
        if self.pace.is_some_and(|per_s| !(per_s > 0.0 && per_s <= 1e9)) {
            return Err(JobError::Pace);
        }
        if self.pace.is_some() && self.outstanding > 1 {
            return Err(JobError::PaceOutstanding(self.outstanding));
        }
        self.check_open()?;
        match self.sched {
            Schedule::Fifo(priority) if !(1..=99).contains(&priority) => Err(JobError::Priority(priority)),
            _ => Ok(()),
        }
    }

    fn check_open(&self) -> Result<(), JobError> {
        let Some(open) = &self.open else { return Ok(()) };
        let path = self.spec.client.path;
        if self.pace.is_some() {
            return Err(JobError::OpenPace);
        }
        if !(open.per_s > 0.0 && open.per_s <= 1e7) {
            return Err(JobError::Rate);
        }
        if path.is_busy_with_one() {
            return Err(JobError::NoOpen(path.name()));
        }
        if open.smallest != self.request && self.plain_peer {
            return Err(JobError::EchoSizes);
        }
        if open.smallest != self.request && !path.takes_any_size() {
            return Err(JobError::OneSize(path.name()));
        }
        match (&open.arrivals, self.threads) {
            (Arrivals::Replay { .. }, 2..) => Err(JobError::ReplayThreads(self.threads)),
            _ => Ok(()),
        }
    }

    fn check_sizes(&self, path: &'static dyn IoPath, ipv6: bool) -> Result<(), JobError> {
        let (name, outstanding) = (path.name(), self.outstanding);
        for (which, size) in [("request", self.request), ("reply", self.reply)] {
            if let Some(only) = path.fixed_payload().filter(|only| *only != size) {
                return Err(JobError::OnlySize { path: name, which, size, only });
            }
            let limit = path.payload_limit(ipv6);
            if !(1..=limit).contains(&size) {
                return Err(JobError::Size { path: name, which, size, limit });
            }
        }
        let limit = path.max_outstanding();
        if outstanding > limit {
            return Err(JobError::PathOutstanding { path: name, outstanding, limit });
        }
        let size = self.smallest();
        let limit = probe::max_outstanding(size as usize);
        match outstanding > limit {
            true => Err(JobError::Outstanding { size, outstanding, limit }),
            false => Ok(()),
        }
    }

    /// Refuses payloads that do not fit into one packet of a link with this MTU, for paths that do not cut them up.
    ///
    /// # Errors
    /// The first size that does not go.
    pub fn check_mtu(&self, ipv6: bool, mtu: u32) -> Result<(), JobError> {
        for side in [&self.spec.client, &self.spec.server] {
            let Some(headers) = side.path.headers_in_mtu(&side.options, ipv6) else { continue };
            let limit = mtu.saturating_sub(headers);
            for (which, size) in [("request", self.request), ("reply", self.reply)] {
                if size > limit {
                    return Err(JobError::Mtu { path: side.path.name(), mtu, which, size, limit });
                }
            }
        }
        Ok(())
    }

    fn check_flows(&self) -> Result<(), JobError> {
        let (flows, threads) = (self.flows, self.threads);
        for path in [self.spec.client.path, self.spec.server.path] {
            let limit = path.max_flows().min(MOST_FLOWS);
            if !(1..=limit).contains(&flows) {
                return Err(JobError::Flows { path: path.name(), flows, limit });
            }
        }
        for path in [self.spec.client.path, self.spec.server.path] {
            if threads > path.max_threads() {
                return Err(JobError::OneThread { path: path.name(), threads });
            }
        }
        if threads > flows {
            return Err(JobError::Threads { threads, flows });
        }
        if u64::from(flows) * u64::from(self.outstanding) > MOST_IN_FLIGHT {
            return Err(JobError::InFlight { flows, outstanding: self.outstanding });
        }
        for (side, spec) in [(Side::Client, &self.spec.client), (Side::Server, &self.spec.server)] {
            if flows > threads && !spec.policy.takes_many() && !spec.path.waits_on_all() {
                return Err(JobError::OneFlow { policy: spec.policy, side, threads, flows });
            }
        }
        Ok(())
    }

    fn check_ports(&self) -> Result<(), JobError> {
        let path = self.spec.client.path;
        let per_transaction = self.spec.client.speaks() == Speaks::TcpPerTransaction;
        let (first, count) = match self.local_port {
            LocalPort::Any => return Ok(()),
            _ if matches!(self.spec.client.speaks(), Speaks::Local(_) | Speaks::Raw) => {
                return Err(JobError::NoPorts(path.name()));
            }
            LocalPort::Fixed(first) => (first, self.flows),
            LocalPort::Rotate(0) => return Err(JobError::Zero("local-port rotate:N")),
            LocalPort::Rotate(ports) if !per_transaction && self.flows != 1 && self.flows != u32::from(ports) => {
                return Err(JobError::Rotate { ports, flows: self.flows });
            }
            LocalPort::Rotate(ports) => (FIRST_ROTATED, u32::from(ports)),
        };
        let last = u32::from(first) + count - 1;
        match first == 0 || last > u32::from(u16::MAX) {
            true => Err(JobError::Ports { first, last }),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::tests::job;

    #[test]
    fn what_an_open_loop_cannot_is_refused() {
        use crate::schedule::{Arrivals, OpenLoop};
        let open = |spec: &str| Job {
            open: Some(OpenLoop { per_s: 1000.0, arrivals: Arrivals::Fixed, smallest: 64 }),
            outstanding: 64,
            ..job(spec)
        };
        assert_eq!(open("udp").check(false), Ok(()));
        assert_eq!(Job { pace: Some(1.0), outstanding: 1, ..open("udp") }.check(false), Err(JobError::OpenPace));
        assert_eq!(Job { outstanding: 1, ..open("tcp-crr") }.check(false), Err(JobError::NoOpen("tcp-crr")));
        for per_s in [0.0, -1.0, f64::NAN, 1.1e7, f64::INFINITY] {
            let open_loop = open("udp").open.map(|open| OpenLoop { per_s, ..open });
            assert_eq!(Job { open: open_loop, ..open("udp") }.check(false), Err(JobError::Rate), "{per_s}");
        }
        let sizes = |spec: &str| Job { open: open(spec).open.map(|open| OpenLoop { smallest: 20, ..open }), ..open(spec) };
        assert_eq!(sizes("unix-dgram").check(false), Ok(()));
        assert_eq!(sizes("tcp").check(false), Err(JobError::OneSize("tcp")));
        assert_eq!(Job { plain_peer: true, ..sizes("udp") }.check(false), Err(JobError::EchoSizes));
        // The smallest payload tells the fewest requests apart.
        let short =
            Job { open: open("udp").open.map(|open| OpenLoop { smallest: 1, ..open }), outstanding: 1_000, ..open("udp") };
        assert!(matches!(short.check(false), Err(JobError::Outstanding { size: 1, .. })));
        assert_eq!((open("memory").most_outstanding(), short.most_outstanding()), (1, 128));
    }

    fn text(spec: &str, change: impl FnOnce(&mut Job)) -> String {
        let mut job = job(spec);
        change(&mut job);
        job.check(false).map_or_else(|error| error.to_string(), |()| "goes".into())
    }

    #[test]
    fn what_goes() {
        for spec in ["tcp", "tcp-crr", "udp:spin", "unix", "unix-dgram", "pipe:poll/spin", "memory"] {
            assert_eq!(text(spec, |_| {}), "goes", "{spec}");
            assert_eq!(text(spec, |job| (job.request, job.reply) = (1, 65_000)), "goes", "{spec}");
        }
        assert_eq!(text("eventfd", |job| (job.request, job.reply) = (8, 8)), "goes");
        assert_eq!(text("udp:spin", |job| (job.flows, job.threads, job.outstanding) = (7, 2, 100)), "goes");
        assert_eq!(text("tcp", |job| (job.flows, job.threads) = (3, 3)), "goes");
        assert_eq!(text("tcp:poll", |job| (job.flows, job.local_port) = (4, LocalPort::Rotate(4))), "goes");
        assert_eq!(text("tcp-crr", |job| job.local_port = LocalPort::Rotate(4)), "goes");
        let mut large = job("udp");
        large.request = 65_527;
        assert!(large.check(true).is_ok() && large.check(false).is_err());
    }

    #[test]
    fn sizes() {
        assert_eq!(text("udp", |job| job.request = 65_508), "udp carries payloads of 1 to 65507 bytes, not a request of 65508");
        assert_eq!(text("tcp", |job| job.reply = 0), "tcp carries payloads of 1 to 65536 bytes, not a reply of 0");
        assert_eq!(text("eventfd", |_| {}), "eventfd carries payloads of exactly 8 bytes, not a request of 64: use --size 8");
    }

    #[test]
    fn requests_in_flight() {
        assert_eq!(text("memory", |job| job.outstanding = 2), "memory takes at most 1 outstanding per flow, not 2");
        assert_eq!(text("tcp-crr", |job| job.outstanding = 2), "tcp-crr takes at most 1 outstanding per flow, not 2");
        assert_eq!(
            text("udp", |job| (job.reply, job.outstanding) = (1, 129)),
            "a payload of 1 bytes tells at most 128 outstanding requests apart, not 129: use larger payloads"
        );
        assert!(
            text("udp:spin", |job| (job.flows, job.outstanding) = (1000, 1000)).contains("more than 65536 requests in flight")
        );
        assert_eq!(text("udp", |job| job.outstanding = 0), "--outstanding must be more than 0");
    }

    #[test]
    fn flows_and_threads() {
        assert_eq!(text("memory", |job| job.flows = 2), "memory takes 1 to 1 flows, not 2");
        assert_eq!(text("udp:spin", |job| job.flows = 0), "udp takes 1 to 1024 flows, not 0");
        assert!(text("udp", |job| job.threads = 2).starts_with("2 threads need a flow each, and there are 1"));
        assert_eq!(
            text("udp:spin/block", |job| job.flows = 4),
            "block on the server waits on one flow per thread, and there are 4 for --threads 1: use :poll, :epoll, :spin or :adaptive, or as many --threads as --flows"
        );
    }

    #[test]
    fn pace_and_the_rest() {
        assert!(text("udp", |job| (job.pace, job.outstanding) = (Some(10.0), 4)).contains("--outstanding 4 does not go with it"));
        for rate in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(text("udp", |job| job.pace = Some(rate)).starts_with("--pace takes"), "{rate}");
        }
        assert_eq!(text("udp", |job| job.count = Some(0)), "--count must be more than 0");
        assert_eq!(text("udp", |job| job.sched = Schedule::Fifo(100)), "--sched fifo:100 does not exist: priorities are 1 to 99");
    }

    #[test]
    fn ports() {
        assert_eq!(
            text("pipe", |job| job.local_port = LocalPort::Fixed(7)),
            "pipe has no ports, so --local-port does not go with it"
        );
        assert_eq!(
            text("tcp:poll", |job| (job.flows, job.local_port) = (3, LocalPort::Rotate(4))),
            "--local-port rotate:4 is one flow per port, not 3 flows: use --flows 4"
        );
        let ports = "--local-port needs ports 65535 to 65536, and the last port is 65535";
        assert_eq!(text("udp:spin", |job| (job.flows, job.local_port) = (2, LocalPort::Fixed(65_535))), ports);
        assert!(text("tcp-crr", |job| job.local_port = LocalPort::Rotate(60_000)).contains("the last port is 65535"));
        assert_eq!(text("udp", |job| job.local_port = LocalPort::Rotate(0)), "--local-port rotate:N must be more than 0");
    }

    #[test]
    fn rings() {
        assert_eq!(text("packet:block", |job| (job.flows, job.outstanding) = (4, 2)), "goes", "every policy waits on all flows");
        assert!(text("xdp:spin", |job| (job.flows, job.threads) = (2, 2)).contains("xdp has one queue and so one thread, not 2"));
        assert_eq!(
            text("xdp:l3=off", |job| job.reply = 65),
            "without IP a server answers with as many bytes as came: a request of 64 bytes has no reply of 65"
        );
        assert!(text("packet:l3=off", |job| job.local_port = LocalPort::Fixed(7)).contains("has no ports"));
        let mut job = job("udp/xdp");
        (job.request, job.reply) = (1472, 1473);
        assert_eq!(
            job.check_mtu(false, 1500).unwrap_err().to_string(),
            "xdp carries payloads of 1 to 1472 bytes over an MTU of 1500, not a reply of 1473: use smaller payloads or a larger MTU"
        );
        assert_eq!((job.check_mtu(false, 1501), job.check_mtu(true, 1521)), (Ok(()), Ok(())));
        assert!(job.check_mtu(true, 1520).is_err() && job.check_mtu(false, 20).is_err());
    }

    #[test]
    fn echo_services() {
        assert_eq!(text("pipe", |job| job.plain_peer = true), "an echo service speaks TCP or UDP, not pipe");
        assert_eq!(
            text("udp", |job| (job.plain_peer, job.reply) = (true, 65)),
            "an echo service or reflector returns what it gets: a request of 64 bytes has no reply of 65"
        );
    }
}
