//! Limits of the paths, the policies and this program on a job: checked before anything starts, and again by the worker.

use hairpin_record::run::Side;
use hairpin_units::Nanos;
use hairpin_wire::probe;
use hairpin_wire::raw::{PTP_PAYLOAD, Shape};

use super::{FIRST_ROTATED, Job, LocalPort, MOST_IN_FLIGHT, MOST_THREADS, Schedule};
use crate::option::{CLOSES, CONNECTED, WRITES};
use crate::path::{LinkKind, Path, Speaks};
use crate::paths::{PATHS, taking_requests};
use crate::request::{ReplyEnd, most_of_reply};
use crate::schedule::Arrivals;

/// The reason to refuse a job, and the alternative.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refused(String);

/// Smallest payload that carries the whole sequence number, in bytes.
const WHOLE_SEQUENCE: u32 = 4;

/// `Ok` if `unless` holds, else `Err` with the reason.
pub(super) fn refuse(unless: bool, why: impl FnOnce() -> String) -> Result<(), Refused> {
    if unless { Ok(()) } else { Err(Refused(why())) }
}

impl Job {
    /// Refuses jobs that the path, the policies or this program cannot do; `ipv6` is the family of the server's address. The verb
    /// checks before anything starts, and the worker checks again, since a job may come over the network.
    ///
    /// # Errors
    /// The first reason.
    pub fn check(&self, ipv6: bool) -> Result<(), Refused> {
        self.check_numbers()?;
        self.check_own()?;
        self.check_group(ipv6)?;
        for side in [&self.spec.client, &self.spec.server] {
            self.check_sizes(side.path, ipv6)?;
        }
        self.check_stamps()?;
        self.check_connected()?;
        self.check_flows()?;
        self.check_ports()?;
        let (request, reply) = (self.request, self.reply);
        let path = self.spec.client.path;
        let echoes = self.plain_peer && self.own.is_none();
        refuse(!echoes || !matches!(path.speaks, Speaks::Local(_)), || no_echo(path))?;
        refuse(self.plain_peer || !self.spec.client.speaks().is_raw() || request == reply, || {
            format!(
                "without IP a server answers with as many bytes as came: a request of {request} bytes has no reply of {reply}"
            )
        })?;
        refuse(self.spec.client.speaks() != Speaks::Raw(Shape::Ptp) || self.smallest() as usize >= PTP_PAYLOAD, || {
            format!("frames in the shape of PTP carry payloads of {PTP_PAYLOAD} bytes or more, not {}", self.smallest())
        })?;
        refuse(!echoes || request == reply, || {
            format!(
                "an echo service or reflector returns requests unchanged: a request of {request} bytes has no reply of {reply}"
            )
        })
    }

    /// Refuses a path whose messages a peer other than a Hairpin server does not return.
    ///
    /// # Errors
    /// Names the messages that the peer does return.
    pub fn check_peer(&self, kind: LinkKind) -> Result<(), Refused> {
        let path = self.spec.client.path;
        let is_raw = self.spec.client.speaks().is_raw();
        refuse(kind != LinkKind::Reflector || is_raw, || {
            format!("a reflector returns Ethernet frames: use --path packet or --path xdp, not {}", path.name)
        })?;
        refuse(kind != LinkKind::Echo || !is_raw, || no_echo(path))
    }

    /// Most requests in flight on one flow that both paths support and the payloads can tell apart.
    pub fn most_outstanding(&self) -> u32 {
        let [client, server] = [&self.spec.client, &self.spec.server].map(|side| side.path.limits.outstanding);
        client.min(server).min(probe::max_outstanding(self.smallest() as usize))
    }

    /// Refuses payloads too short for `what`, which matches the stamps of both sides by the sequence number in them.
    ///
    /// # Errors
    /// The length that they need.
    pub fn check_matched(&self, what: &str) -> Result<(), Refused> {
        refuse(self.smallest() >= WHOLE_SEQUENCE, || {
            format!(
                "{what} matches stamps by the sequence number in the payload, which takes {WHOLE_SEQUENCE} bytes, not {}: use larger payloads",
                self.smallest()
            )
        })
    }

    /// Smallest payload of either way in bytes.
    fn smallest(&self) -> u32 {
        if self.own.is_some() {
            // Replies to the user's own request are told apart by their order.
            return probe::LEN as u32;
        }
        self.open.as_ref().map_or(self.request, |open| open.smallest).min(self.request).min(self.reply)
    }

    /// Refuses jobs that the user's own request cannot do.
    fn check_own(&self) -> Result<(), Refused> {
        let Some(own) = &self.own else { return Ok(()) };
        let path = self.spec.client.path;
        refuse(path.takes_request, || {
            format!("{} carries no request of your own: --request takes --path {}", path.name, taking_requests().join(", "))
        })?;
        refuse(self.plain_peer, || format!("the request {} is for a server that exists: write echo:HOST:PORT", own.name))?;
        refuse(!self.verify, || "--verify compares what Hairpin has filled in, and --request fills in its own".into())?;
        refuse(self.nic_stamps.is_none(), || {
            "--hw-stamps finds the stamps of a message by a number in it, and --request has none".into()
        })?;
        let speaks = self.spec.client.speaks();
        refuse(own.tls.is_none() || matches!(speaks, Speaks::Tcp | Speaks::TcpPerTransaction), || {
            format!("--tls goes over TCP, not over {}: use --path tcp or --path tcp-crr", path.name)
        })?;
        refuse(own.tls.is_none() || self.spec.client.options.get(&WRITES).is_none(), || {
            "--tls cuts a request into records of its own: leave out writes=N".into()
        })?;
        refuse(self.spec.client.options.get(&CLOSES) != Some("server"), || {
            "closes=server is for a server of Hairpin's: with --request leave out closes, and the client closes".into()
        })?;
        if let ReplyEnd::Bytes(count) = own.end {
            // Each thread sizes its buffers as if all threads had the largest share of the flows.
            let (flows, threads) = (self.flows, self.threads);
            let most = most_of_reply(flows.div_ceil(threads).saturating_mul(threads));
            refuse(count as u64 <= most, || {
                format!("with {flows} flows a reply has at most {most} bytes, not {count} (--reply): use fewer --flows")
            })?;
        }
        let replays = self.open.as_ref().is_some_and(|open| matches!(open.arrivals, Arrivals::Replay { .. }));
        refuse(!replays, || "a recording has requests of its own sizes: leave out --request or --replay".into())
    }

    fn check_numbers(&self) -> Result<(), Refused> {
        let zero = [
            ("threads", self.threads == 0),
            ("outstanding", self.outstanding == 0),
            ("count", self.count == Some(0)),
            ("duration", self.duration == Some(Nanos(0))),
            ("timeout", self.timeout == Nanos(0)),
        ];
        for (name, is_zero) in zero {
            refuse(!is_zero, || more_than_zero(name))?;
        }
        refuse(self.pace.is_none_or(|per_s| per_s > 0.0 && per_s <= 1e9), || {
            "--rate takes more than 0 and up to 1,000,000,000 requests per second".into()
        })?;
        refuse(self.pace.is_none() || self.outstanding <= 1, || {
            format!("--rate keeps one request in flight, so --outstanding {} does not go with it", self.outstanding)
        })?;
        self.check_open()?;
        match self.sched {
            Schedule::Fifo(priority) => {
                refuse((1..=99).contains(&priority), || format!("--sched fifo:{priority} does not exist: priorities are 1 to 99"))
            }
            Schedule::Other => Ok(()),
        }
    }

    fn check_open(&self) -> Result<(), Refused> {
        let Some(open) = &self.open else { return Ok(()) };
        let path = self.spec.client.path;
        let one_size = open.smallest == self.request;
        refuse(self.pace.is_none(), || "an open loop has a schedule of its own, so --rate does not go with it".into())?;
        refuse(open.per_s > 0.0 && open.per_s <= 1e7, || {
            "an open loop takes more than 0 and up to 10,000,000 requests per second".into()
        })?;
        refuse(!path.one_at_a_time, || {
            let instead = match self.own {
                Some(_) => "use ping --rate, or --path tcp if the server answers more than one request on a connection",
                None => "use --path tcp",
            };
            format!(
                "{} opens a connection for each request and is busy with it until that is closed, so no schedule can go on meanwhile: {instead}",
                path.name
            )
        })?;
        refuse(one_size || !self.plain_peer, || {
            "an echo service or reflector returns requests unchanged, and this recording has several sizes: replies of one size take a hairpin server".into()
        })?;
        refuse(one_size || path.payload.any_size, || {
            format!(
                "{} carries requests of one size, and this recording has several: use --path udp or --path unix-dgram",
                path.name
            )
        })?;
        let threads = self.threads;
        refuse(threads < 2 || !matches!(open.arrivals, Arrivals::Replay { .. }), || {
            format!("a recording is replayed by one thread, not {threads}: use --threads 1, with as many --flows as you like")
        })
    }

    /// Refuses jobs that a UDP socket without a peer cannot do.
    fn check_connected(&self) -> Result<(), Refused> {
        if [&self.spec.client, &self.spec.server].iter().all(|side| side.options.get(&CONNECTED).is_none()) {
            return Ok(());
        }
        refuse(self.flows == 1, || {
            "connected=off takes one flow: without their peers the kernel cannot tell the sockets of a port apart".into()
        })?;
        refuse(self.group.is_none(), || "a group's sockets have no peer anyway: leave out connected=off".into())?;
        refuse(self.nic_stamps.is_none() && !self.socket_stamps, || {
            "the stamps of packets are those of connected sockets: leave out connected=off".into()
        })
    }

    fn check_stamps(&self) -> Result<(), Refused> {
        let one = (self.flows, self.threads, self.outstanding) == (1, 1, 1);
        refuse(one || !self.socket_stamps, || {
            "the kernel's stamps for explain are those of one request at a time: use one flow, one thread, one outstanding".into()
        })?;
        let Some(stamps) = self.nic_stamps else { return Ok(()) };
        for side in [&self.spec.client, &self.spec.server] {
            refuse(side.path.nic_stamps, || {
                let known: Vec<&str> = PATHS.iter().filter(|path| path.nic_stamps).map(|path| path.name).collect();
                let (last, others) = known.split_last().unwrap_or((&"", &[]));
                format!(
                    "{} has no stamps of driver and NIC: --hw-stamps takes {} or {last}, on both sides",
                    side.path.name,
                    others.join(", ")
                )
            })?;
        }
        refuse(one && self.open.is_none(), || {
            "--hw-stamps follows one request at a time: leave out --flows, --threads and --outstanding".into()
        })?;
        self.check_matched("--hw-stamps")?;
        refuse(stamps.per_s.is_none_or(|per_s| (1e-4..=1e9).contains(&per_s)), || {
            "--hw-stamps takes 0.0001 to 1,000,000,000 transactions per second".into()
        })
    }

    fn check_sizes(&self, path: &Path, ipv6: bool) -> Result<(), Refused> {
        let (name, outstanding) = (path.name, self.outstanding);
        let sizes = [("request", self.request), ("reply", self.reply)];
        for (which, size) in &sizes[..if self.own.is_some() { 1 } else { 2 }] {
            if let Some(only) = path.fixed_payload() {
                refuse(only == *size, || {
                    format!("{name} carries payloads of exactly {only} bytes, not a {which} of {size}: use --size {only}")
                })?;
            }
            let limit = path.payload_limit(ipv6);
            refuse((1..=limit).contains(size), || {
                format!("{name} carries payloads of 1 to {limit} bytes, not a {which} of {size}")
            })?;
        }
        let limit = path.limits.outstanding;
        refuse(outstanding <= limit, || format!("{name} takes at most {limit} outstanding per flow, not {outstanding}"))?;
        let size = self.smallest();
        let limit = probe::max_outstanding(size as usize);
        refuse(outstanding <= limit, || {
            format!(
                "a payload of {size} bytes tells at most {limit} outstanding requests apart, not {outstanding}: use larger payloads"
            )
        })
    }

    /// Refuses payloads that do not fit into one packet of a link with this MTU, on paths that do not split them.
    ///
    /// # Errors
    /// The first size that does not fit.
    pub fn check_mtu(&self, ipv6: bool, mtu: u32) -> Result<(), Refused> {
        for side in [&self.spec.client, &self.spec.server] {
            let Some(headers) = side.path.headers_in_mtu(&side.options, ipv6) else { continue };
            let (path, limit) = (side.path.name, mtu.saturating_sub(headers));
            for (which, size) in [("request", self.request), ("reply", self.reply)] {
                refuse(size <= limit, || {
                    format!(
                        "{path} carries payloads of 1 to {limit} bytes over an MTU of {mtu}, not a {which} of {size}: use smaller payloads or a larger MTU"
                    )
                })?;
            }
        }
        Ok(())
    }

    fn check_flows(&self) -> Result<(), Refused> {
        let (flows, threads, outstanding) = (self.flows, self.threads, self.outstanding);
        let paths = [self.spec.client.path, self.spec.server.path];
        for path in paths {
            let limit = path.limits.flows;
            refuse((1..=limit).contains(&flows), || format!("{} takes 1 to {limit} flows, not {flows}", path.name))?;
        }
        for path in paths {
            refuse(threads <= path.limits.threads, || {
                format!(
                    "{} has one queue and so one thread, not {threads}: use --threads 1, with up to {} --flows",
                    path.name, path.limits.flows
                )
            })?;
        }
        refuse(threads <= MOST_THREADS, || format!("--threads takes 1 to {MOST_THREADS}, not {threads}"))?;
        refuse(threads <= flows, || {
            format!("{threads} threads need a flow each, and there are {flows}: use as many --flows, or fewer --threads")
        })?;
        refuse(u64::from(flows) * u64::from(outstanding) <= MOST_IN_FLIGHT, || {
            format!(
                "{flows} flows with {outstanding} outstanding each are more than {MOST_IN_FLIGHT} requests in flight: use fewer"
            )
        })?;
        for (side, spec) in [(Side::Client, &self.spec.client), (Side::Server, &self.spec.server)] {
            refuse(flows <= threads || spec.policy.takes_many() || spec.path.waits_on_all, || {
                format!(
                    "{} on the {side} waits on one flow per thread, and there are {flows} for --threads {threads}: use :poll, :epoll, :spin or :adaptive, or as many --threads as --flows",
                    spec.policy
                )
            })?;
        }
        Ok(())
    }

    fn check_ports(&self) -> Result<(), Refused> {
        let (client, flows) = (&self.spec.client, self.flows);
        if self.local_port == LocalPort::Any {
            return Ok(());
        }
        refuse(!matches!(client.speaks(), Speaks::Local(_) | Speaks::Raw(_)), || {
            format!("{} has no ports, so --local-port does not go with it", client.path.name)
        })?;
        let (first, count) = match self.local_port {
            LocalPort::Any => return Ok(()),
            LocalPort::Fixed(first) => (first, flows),
            LocalPort::Rotate(ports) => {
                refuse(ports > 0, || more_than_zero("local-port rotate:N"))?;
                let per_transaction = client.speaks() == Speaks::TcpPerTransaction;
                refuse(per_transaction || flows == 1 || flows == u32::from(ports), || {
                    format!("--local-port rotate:{ports} is one flow per port, not {flows} flows: use --flows {ports}")
                })?;
                (FIRST_ROTATED, u32::from(ports))
            }
        };
        let last = u32::from(first) + count - 1;
        refuse(first != 0 && last <= u32::from(u16::MAX), || {
            format!("--local-port needs ports {first} to {last}, and the last port is 65535")
        })
    }
}

fn no_echo(path: &Path) -> String {
    format!("an echo service speaks TCP or UDP, not {}", path.name)
}

fn more_than_zero(name: &str) -> String {
    format!("--{name} must be more than 0")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(spec: &str) -> Job {
        Job::new(spec.parse().unwrap())
    }

    #[test]
    fn rejects_jobs_unsuitable_for_an_open_loop() {
        use crate::schedule::{Arrivals, OpenLoop};
        let open = |spec: &str| Job {
            open: Some(OpenLoop { per_s: 1000.0, arrivals: Arrivals::Fixed, smallest: 64 }),
            outstanding: 64,
            ..job(spec)
        };
        let refused = |job: Job, part: &str| {
            let text = job.check(false).map_or_else(|error| error.to_string(), |()| "goes".into());
            assert!(text.contains(part), "{text}");
        };
        refused(open("udp"), "goes");
        refused(Job { pace: Some(1.0), outstanding: 1, ..open("udp") }, "a schedule of its own, so --rate does not go");
        refused(Job { outstanding: 1, ..open("tcp-crr") }, "tcp-crr opens a connection for each request");
        for per_s in [0.0, -1.0, f64::NAN, 1.1e7, f64::INFINITY] {
            let open_loop = open("udp").open.map(|open| OpenLoop { per_s, ..open });
            refused(Job { open: open_loop, ..open("udp") }, "up to 10,000,000 requests per second");
        }
        let sizes = |spec: &str| Job { open: open(spec).open.map(|open| OpenLoop { smallest: 20, ..open }), ..open(spec) };
        refused(sizes("unix-dgram"), "goes");
        refused(sizes("tcp"), "tcp carries requests of one size");
        refused(Job { plain_peer: true, ..sizes("udp") }, "this recording has several sizes: replies of one size");
        // The smallest payload can tell the fewest requests apart.
        let short =
            Job { open: open("udp").open.map(|open| OpenLoop { smallest: 1, ..open }), outstanding: 1_000, ..open("udp") };
        assert_eq!((open("memory").most_outstanding(), short.most_outstanding()), (1, 128));
        refused(short, "a payload of 1 bytes tells at most 128 outstanding requests apart");
    }

    fn text(spec: &str, change: impl FnOnce(&mut Job)) -> String {
        let mut job = job(spec);
        change(&mut job);
        job.check(false).map_or_else(|error| error.to_string(), |()| "goes".into())
    }

    #[test]
    fn accepts_valid_jobs() {
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
    fn a_request_of_ones_own_has_limits_of_its_own() {
        use crate::request::Request;
        use crate::schedule::OpenLoop;
        let own = |spec: &str, flows: u32, end: &str| {
            text(spec, |job| {
                let (name, end) = ("x".into(), end.parse().unwrap());
                job.own = Some(Request { name, bytes: b"x".into(), end, tls: None });
                (job.plain_peer, job.flows) = (true, flows);
            })
        };
        assert_eq!(
            own("tcp-crr:closes=server", 1, "resp"),
            "closes=server is for a server of Hairpin's: with --request leave out closes, and the client closes"
        );
        assert_eq!(own("tcp-crr:closes=client", 1, "resp"), "goes");
        let on_schedule = text("tcp-crr", |job| {
            job.own = Some(Request { name: "x".into(), bytes: b"x".into(), end: ReplyEnd::Resp, tls: None });
            job.open = Some(OpenLoop { per_s: 100.0, arrivals: Arrivals::Fixed, smallest: job.request });
        });
        let part = "use ping --rate, or --path tcp if the server answers more than one request on a connection";
        assert!(on_schedule.ends_with(part), "{on_schedule}");
        assert_eq!(
            own("tcp:poll", 257, "1Mi"),
            "with 257 flows a reply has at most 1044495 bytes, not 1048576 (--reply): use fewer --flows"
        );
        for (flows, end) in [(256, "1Mi"), (257, "http"), (20_000, "16Ki")] {
            assert_eq!(own("tcp:poll", flows, end), "goes", "{flows} flows, {end}");
        }
    }

    #[test]
    fn flows_and_threads() {
        assert_eq!(text("memory", |job| job.flows = 2), "memory takes 1 to 1 flows, not 2");
        for (path, most) in
            [("tcp:epoll", 20_000), ("udp:spin", 20_000), ("uring-tcp", 20_000), ("unix:poll", 1_024), ("xdp", 1_024)]
        {
            let with = |flows| text(path, |job| job.flows = flows);
            assert_eq!(with(most), "goes", "{path}");
            let name = path.split(':').next().unwrap();
            for wrong in [0, most + 1] {
                assert_eq!(with(wrong), format!("{name} takes 1 to {most} flows, not {wrong}"));
            }
        }
        assert_eq!(text("udp:spin/packet", |job| job.flows = 2_000), "packet takes 1 to 1024 flows, not 2000");
        assert!(
            text("udp:spin", |job| (job.flows, job.outstanding) = (20_000, 4)).contains("more than 65536 requests in flight")
        );
        assert!(text("udp", |job| job.threads = 2).starts_with("2 threads need a flow each, and there are 1"));
        assert_eq!(text("tcp", |job| (job.flows, job.threads) = (1_024, 1_024)), "goes");
        assert_eq!(text("udp:spin", |job| (job.flows, job.threads) = (2_000, 1_025)), "--threads takes 1 to 1024, not 1025");
        assert_eq!(
            text("udp:spin/block", |job| job.flows = 4),
            "block on the server waits on one flow per thread, and there are 4 for --threads 1: use :poll, :epoll, :spin or :adaptive, or as many --threads as --flows"
        );
    }

    #[test]
    fn stamps_of_nics_take_one_request_at_a_time_on_a_path_that_has_them() {
        use crate::job::NicStamps;
        let with = |spec: &str, change: fn(&mut Job)| {
            text(spec, |job| {
                job.nic_stamps = Some(NicStamps { per_s: Some(1000.0) });
                change(job);
            })
        };
        for path in ["tcp", "udp:spin", "udp:poll/block", "packet:spin", "xdp:spin", "udp/packet"] {
            assert_eq!(with(path, |_| {}), "goes", "{path}");
        }
        for path in ["tcp-crr", "unix", "memory", "uring-udp", "udp/uring-udp"] {
            assert!(with(path, |_| {}).ends_with("--hw-stamps takes tcp, udp, packet or xdp, on both sides"), "{path}");
        }
        for several in [
            |job: &mut Job| job.flows = 2,
            |job: &mut Job| job.outstanding = 2,
            |job: &mut Job| (job.flows, job.threads) = (2, 2),
        ] {
            assert!(with("udp:spin", several).starts_with("--hw-stamps follows one request at a time"));
        }
        assert!(with("udp", |job| job.reply = 3).contains("which takes 4 bytes, not 3"));
        for rate in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let mut job = job("udp");
            job.nic_stamps = Some(NicStamps { per_s: Some(rate) });
            assert!(job.check(false).unwrap_err().to_string().starts_with("--hw-stamps takes 0.0001"), "{rate}");
        }
        assert!(text("udp:spin", |job| (job.socket_stamps, job.flows) = (true, 20_000)).contains("one request at a time"));
    }

    #[test]
    fn sockets_without_a_peer_are_of_one_flow_and_have_no_stamps() {
        for path in ["udp:spin,connected=off", "udp:block,connected=off/udp:spin", "udp:spin/udp:block,connected=off"] {
            assert_eq!(text(path, |_| {}), "goes", "{path}");
            assert!(text(path, |job| job.flows = 2).starts_with("connected=off takes one flow"), "{path}");
            assert!(text(path, |job| job.socket_stamps = true).ends_with("leave out connected=off"), "{path}");
            assert!(text(path, |job| job.nic_stamps = Some(Default::default())).ends_with("leave out connected=off"), "{path}");
        }
        assert_eq!(text("udp:poll", |job| job.flows = 2), "goes");
    }

    #[test]
    fn pace_and_the_rest() {
        assert!(text("udp", |job| (job.pace, job.outstanding) = (Some(10.0), 4)).contains("--outstanding 4 does not go with it"));
        for rate in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(text("udp", |job| job.pace = Some(rate)).starts_with("--rate takes"), "{rate}");
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
        let peer = |spec: &str, kind| job(spec).check_peer(kind).map_or_else(|error| error.to_string(), |()| "goes".into());
        assert_eq!(
            peer("udp", LinkKind::Reflector),
            "a reflector returns Ethernet frames: use --path packet or --path xdp, not udp"
        );
        assert_eq!(peer("xdp:l3=off", LinkKind::Reflector), "goes");
        assert_eq!(peer("xdp:l3=off", LinkKind::Echo), "an echo service speaks TCP or UDP, not xdp");
        assert_eq!(peer("udp", LinkKind::Echo), "goes");
        assert_eq!(text("pipe", |job| job.plain_peer = true), "an echo service speaks TCP or UDP, not pipe");
        assert_eq!(
            text("udp", |job| (job.plain_peer, job.reply) = (true, 65)),
            "an echo service or reflector returns requests unchanged: a request of 64 bytes has no reply of 65"
        );
    }
}
