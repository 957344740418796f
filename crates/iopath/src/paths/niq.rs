//! `niq`: whole frames between two ports of an emulated NIC in shared memory, optionally with a declared NIC's latency.
//!
//! ```text
//!   client  frame ─ tx_batch, kick ─▶ lines in shared memory ─▶ seen at once, or when the declared NIC and link had it there ─▶ server
//!           ◀──────────────────────── the same the other way ◀──────────────────────────────────────────────────────────── reply
//! ```
//! The frames are Ethernet, IPv4 and UDP between two reserved addresses: a payload of 18 bytes gives a frame of 60. There is no
//! UDP checksum: the link has one of its own (FCS), and a sum over the payload would be part of every figure.

mod proof;
mod sleep;
mod stalls;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use hairpin_packet::io::PacketIo;
use hairpin_packet::niq::{Config, Delay, Port, PortError, Timing};
use hairpin_plan::job::{FrameTimes, Job};
use hairpin_plan::path::LinkKind;
use hairpin_plan::paths::NIQ_LONGEST;
use hairpin_record::run::{Pcie, Side};
use hairpin_sys::clock::AnyClock;
use hairpin_sys::shared::{Shared, Stamps};
use hairpin_sys::wait::{Policy, Waiting};
use hairpin_units::{Nanos, Picos};
use hairpin_wire::framing::{ETHERNET_HEADER, IPV4_HEADER, UDP_HEADER};

use self::sleep::Interrupting;
use self::stalls::{StallCounter, Watching};
use crate::echo::echo;
use crate::error::PathError;
use crate::frames::Frames;
use crate::frames::inet::{Flow, Inet, Outer, Unsummed};
use crate::frames::stamped::Stamped;
use crate::measure::{ClientRun, ServerRun, SideFound, drive_paced};
use crate::rendezvous;
use crate::ring::note_counts;
use crate::runner::{Runner, Support, probe_local};

pub use self::proof::{Latency, own_ns, proof};

pub struct Niq;

/// Headers of a frame in bytes.
const HEADERS: usize = (ETHERNET_HEADER + IPV4_HEADER + UDP_HEADER) as usize;
/// Longest and shortest frame of the device in bytes, without FCS.
const LONGEST: usize = NIQ_LONGEST as usize;
const SHORTEST: usize = 60;
/// Lines of a ring: twice the requests in flight, within these bounds.
const LEAST_ENTRIES: u32 = 64;
const MOST_ENTRIES: u32 = 4096;

/// Transactions for measuring the program's own part, and the pause between them: about the transit time of a frame in a
/// published table.
const OWN: u64 = 2_000;
const PAUSE: Nanos = Nanos(5_000);
/// Addresses of the client and the server (RFC 2544 reserves this range for such uses).
const ADDRESSES: [Ipv4Addr; 2] = [Ipv4Addr::new(198, 18, 0, 1), Ipv4Addr::new(198, 18, 0, 2)];
/// The client's first port; flow n uses `FIRST_PORT` + n.
const FIRST_PORT: u16 = 49_152;
const SERVER_PORT: u16 = 24_444;

impl Runner for Niq {
    fn probe(&self, link: LinkKind) -> Support {
        probe_local(link)
    }

    fn ping(&self, run: &mut ClientRun<'_>) -> Result<(), PathError> {
        run.found.own_ns = own_part(run.job, run.clock)?;
        let config = config(run.job, run.clock, run.found.own_ns, Side::Client)?;
        // The shared memory, and one descriptor for the one queue pair.
        let descriptors = rendezvous::take_over(run, 2)?;
        let port = only(Port::open(descriptors, &config).map_err(refused)?)?;
        ping_on(run, port)
    }

    fn echo(&self, run: &mut ServerRun<'_>) -> Result<(), PathError> {
        let config = config(run.job, run.clock, own_part(run.job, run.clock)?, Side::Server)?;
        let (ports, descriptors) = Port::create(&config).map_err(refused)?;
        let port = only(ports)?;
        let bell = bell(&port, run.job.spec.server.policy)?;
        let handed: Vec<BorrowedFd<'_>> = descriptors.iter().map(AsFd::as_fd).collect();
        rendezvous::hand_over(run, &handed)?;
        // Keeps no copy open, so that the server sees the client's end when the client's process exits.
        drop(descriptors);
        echo_on(run, port, bell)
    }
}

fn refused(error: PortError) -> PathError {
    PathError::Way(error.to_string())
}

fn only(mut ports: Vec<Port>) -> Result<Port, PathError> {
    ports.pop().ok_or_else(|| PathError::Peer("the server made no port".into()))
}

/// Length of the frame around a payload, without FCS.
fn frame_of(payload: u32) -> usize {
    (HEADERS + payload as usize).max(SHORTEST)
}

/// Both sides derive the same configuration from a job, with two exceptions: the own part of one way, which each has measured,
/// and the times of frames of a length that is a request's from one side and a reply's from the other.
fn config(job: &Job, clock: AnyClock, own_ns: Option<f64>, side: Side) -> Result<Config, PathError> {
    let in_flight = job.flows.saturating_mul(job.outstanding).min(MOST_ENTRIES);
    let ring_entries = (2 * in_flight).next_power_of_two().clamp(LEAST_ENTRIES, MOST_ENTRIES);
    let longest_frame = frame_of(job.request.max(job.reply)).min(LONGEST);
    let timing = match (&job.emulated, clock) {
        (None, _) => None,
        (Some(_), AnyClock::Raw(_)) => {
            return Err(PathError::Way(
                "a latency is emulated by the time-stamp counter, which this host does not let programs trust: leave --nic, --link-rate and --cable out".into(),
            ));
        }
        (Some(emulated), AnyClock::Tsc(clock)) => {
            let own_ps = (own_ns.unwrap_or(0.0) * 1_000.0) as i64;
            let (request, reply) = ((job.request, emulated.request), (job.reply, emulated.reply));
            let timing = |(sent, sends): (u32, FrameTimes), (_, other): (u32, FrameTimes)| {
                let times = |len: usize| if len == frame_of(sent) { sends } else { other };
                Timing::new(clock, longest_frame, |len| delay(times(len).without(own_ps)))
            };
            let (client, server) = (timing(request, reply), timing(reply, request));
            let (own, peer) = if side == Side::Client { (client, server) } else { (server, client) };
            let timing = own.and_then(|own| peer.map(|peer| own.facing(&peer)));
            Some(timing.map_err(|error| PathError::Way(format!("{}: {error}", emulated.nic)))?)
        }
    };
    Ok(Config { ring_entries, longest_frame, chunks: 2 * ring_entries, timing, ..Config::default() })
}

/// The program's own part of one way, in ns, for emulated figures that include it: half of a round trip's time outside the
/// device.
fn own_part(job: &Job, clock: AnyClock) -> Result<Option<f64>, PathError> {
    match (job.emulated.as_ref().is_some_and(|emulated| emulated.whole), clock) {
        (true, AnyClock::Tsc(_)) => Ok(Some(own_ns(clock, job.request, job.reply, PAUSE, OWN)? / 2.0)),
        // Without the counter there is no emulation; config() reports it.
        _ => Ok(None),
    }
}

fn delay(times: FrameTimes) -> Delay {
    Delay { out: Picos(times.out_ps), link: Picos(times.link_ps), rest: Picos(times.rest_ps) }
}

/// Framing of this side's payloads of `len` bytes.
fn framing(flows: u32, len: u32, side: Side) -> Result<Unsummed, PathError> {
    let flows: Vec<Flow> = (0..flows as u16)
        .map(|flow| {
            let client = SocketAddr::new(IpAddr::from(ADDRESSES[0]), FIRST_PORT.saturating_add(flow));
            let server = SocketAddr::new(IpAddr::from(ADDRESSES[1]), SERVER_PORT);
            match side {
                Side::Client => Flow { own: client, peer: server },
                Side::Server => Flow { own: server, peer: client },
            }
        })
        .collect();
    let [client, server] = [1, 2].map(|last| [2, 0, 0, 0, 0, last]);
    let (own, peer) = if side == Side::Client { (client, server) } else { (server, client) };
    let inet = Inet::new(Outer { own, peer, traffic_class: 0 }, &flows, side == Side::Server, len as usize);
    inet.map(Unsummed).ok_or_else(|| PathError::Way("the flows do not fit the emulated link".into()))
}

/// The memory shared by both sides, if stalls of either core are watched: while a latency is emulated, and one request at a time
/// is in flight, because the watch keeps the start of one. A pace keeps to one, whatever its flows.
fn stalls_of<'a>(neighbour: Option<&'a Shared>, job: &Job) -> Option<&'a Shared> {
    let one = job.open.is_none() && (job.pace.is_some() || (job.flows, job.outstanding) == (1, 1));
    neighbour.filter(|_| job.emulated.is_some() && one)
}

fn ping_on(run: &mut ClientRun<'_>, port: Port) -> Result<(), PathError> {
    let (clock, stamps) = (run.clock, run.stamps);
    let framing = framing(run.job.flows, run.job.request, Side::Client)?;
    // No frame is there yet: the server only answers.
    if let Some(bell) = bell(&port, run.job.spec.client.policy)? {
        let wait = Waiting::for_interrupt(clock, bell.as_fd());
        return measure(run, Frames::reliable(stamped(Interrupting(port), clock, stamps), wait, framing));
    }
    let wait = Waiting::spin(clock);
    match (stalls_of(run.neighbour, run.job), stamps) {
        (None, None) => measure(run, Frames::reliable(port, wait, framing)),
        (None, stamps) => measure(run, Frames::reliable(stamped(port, clock, stamps), wait, framing)),
        (Some(shared), None) => {
            let port = Watching::new(port, clock, shared, Side::Client);
            measure_watched(run, Frames::reliable(port, wait, framing))
        }
        (Some(shared), stamps) => {
            let port = Watching::new(stamped(port, clock, stamps), clock, shared, Side::Client);
            measure_watched(run, Frames::reliable(port, wait, framing))
        }
    }
}

fn echo_on(run: &mut ServerRun<'_>, port: Port, bell: Option<OwnedFd>) -> Result<(), PathError> {
    let (clock, stamps) = (run.clock, run.stamps);
    let framing = framing(run.job.flows, run.job.reply, Side::Server)?;
    if let Some(bell) = bell {
        let wait = Waiting::for_interrupt(clock, bell.as_fd());
        return respond(run, Frames::reliable(stamped(Interrupting(port), clock, stamps), wait, framing));
    }
    let wait = Waiting::spin(clock);
    match (stalls_of(run.neighbour, run.job), stamps) {
        (None, None) => respond(run, Frames::reliable(port, wait, framing)),
        (None, stamps) => respond(run, Frames::reliable(stamped(port, clock, stamps), wait, framing)),
        (Some(shared), None) => {
            let port = Watching::new(port, clock, shared, Side::Server);
            respond(run, Frames::reliable(port, wait, framing))
        }
        (Some(shared), stamps) => {
            let port: Box<dyn Device> = Box::new(Watching::new(stamped(port, clock, stamps), clock, shared, Side::Server));
            respond(run, Frames::reliable(port, wait, framing))
        }
    }
}

/// The descriptor of the interrupt, for a side that sleeps: the wait borrows a duplicate, and the port itself is handed on. To be
/// taken before the other side can send: while a frame is there, the port gives a descriptor that is always readable.
fn bell(port: &Port, policy: Policy) -> Result<Option<OwnedFd>, PathError> {
    let duplicate = (policy != Policy::Spin).then(|| port.waitable().try_clone_to_owned()).transpose();
    duplicate.map_err(PathError::at("cannot duplicate a descriptor to wait on"))
}

/// One port type for all uses that need no loop of their own: traced ports, and ports that sleep.
fn stamped<'a, I: Device + 'a>(io: I, clock: AnyClock, stamps: Option<&'a Stamps>) -> Box<dyn Device + 'a> {
    match stamps {
        None => Box::new(io),
        Some(stamps) => Box::new(Stamped::new(io, clock, stamps)),
    }
}

fn measure<I: Device>(run: &mut ClientRun<'_>, mut frames: Frames<'_, I, Unsummed, false>) -> Result<(), PathError> {
    let clock = run.clock;
    let outcome = run.alone(|job, work, between| match clock {
        // The clock is a type, for the reason given on `memory`.
        AnyClock::Tsc(clock) => drive_paced(&mut frames, &clock, job, work, between),
        AnyClock::Raw(_) => drive_paced(&mut frames, &clock, job, work, between),
    });
    note(&mut frames, Side::Client, &mut run.found.side);
    outcome
}

fn measure_watched<'a, I: Device>(
    run: &mut ClientRun<'_>,
    frames: Frames<'a, Watching<'a, I>, Unsummed, false>,
) -> Result<(), PathError> {
    let clock = run.clock;
    let mut watched = StallCounter::new(frames);
    let outcome = run.alone(|job, work, between| match clock {
        AnyClock::Tsc(clock) => drive_paced(&mut watched, &clock, job, work, between),
        AnyClock::Raw(_) => drive_paced(&mut watched, &clock, job, work, between),
    });
    run.found.stalled = Some(watched.kept());
    note(&mut watched.frames, Side::Client, &mut run.found.side);
    outcome
}

fn respond<I: Device>(run: &mut ServerRun<'_>, mut frames: Frames<'_, I, Unsummed, false>) -> Result<(), PathError> {
    let clock = run.clock;
    let outcome = run.alone(|job, callbacks| match clock {
        AnyClock::Tsc(clock) => echo(&mut frames, &clock, job.reply as usize, callbacks),
        AnyClock::Raw(_) => echo(&mut frames, &clock, job.reply as usize, callbacks),
    });
    note(&mut frames, Side::Server, &mut run.found.side);
    outcome
}

/// Records the port's counters.
fn note<I: Device>(frames: &mut Frames<'_, I, Unsummed, false>, side: Side, found: &mut SideFound) {
    let (strays, counters) = frames.counts();
    note_counts((strays, counters), side, found);
    let port = frames.io().port();
    let pcie = port.pcie();
    found.extra_calls += port.wake_ups();
    found.pcie = Some(Pcie {
        frames_sent: counters.tx_frames,
        frames_received: counters.rx_frames,
        posted_writes: pcie.posted_writes,
        reads: pcie.reads,
        descriptor_fetches: pcie.descriptor_fetches,
        dma_reads: pcie.dma_reads,
        dma_writes: pcie.dma_writes,
        credit_writes: pcie.credit_writes,
        credit_reads: pcie.credit_reads,
    });
}

/// A ring backed by a port.
trait Device: PacketIo {
    fn port(&self) -> &Port;
}

impl Device for Port {
    fn port(&self) -> &Port {
        self
    }
}

impl<I: Device + ?Sized> Device for Box<I> {
    fn port(&self) -> &Port {
        (**self).port()
    }
}

impl<I: Device> Device for Stamped<'_, I> {
    fn port(&self) -> &Port {
        self.io().port()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use hairpin_packet::niq::pair;
    use hairpin_plan::job::Emulated;
    use hairpin_plan::schedule::{Arrivals, OpenLoop};
    use hairpin_sys::clock::{Clock, MonotonicRaw, Ticks};

    use super::*;
    use crate::content::Content;
    use crate::endpoint::Endpoint;

    const CONTENT: Content = Content { sequence: 0, cookie: 0, verify: false };

    fn times(ms: i64) -> FrameTimes {
        FrameTimes { out_ps: 0, link_ps: 0, rest_ps: ms * 1_000_000_000 }
    }

    fn emulated(reply_ms: i64) -> Option<Emulated> {
        Some(Emulated { nic: "a card".into(), whole: false, request: times(0), reply: times(reply_ms) })
    }

    #[test]
    fn stalls_are_watched_while_one_request_at_a_time_is_in_flight() {
        let shared = Shared::create().unwrap();
        let watched = |change: fn(&mut Job)| {
            let mut job = Job { emulated: emulated(1), ..Job::new("niq:spin".parse().unwrap()) };
            change(&mut job);
            stalls_of(Some(&shared), &job).is_some()
        };
        for one in [|_: &mut Job| (), |job: &mut Job| (job.flows, job.pace) = (4, Some(1_000.0))] {
            assert!(watched(one));
        }
        for other in [
            |job: &mut Job| job.emulated = None,
            |job: &mut Job| job.flows = 2,
            |job: &mut Job| job.outstanding = 2,
            |job: &mut Job| job.open = Some(OpenLoop { per_s: 1_000.0, arrivals: Arrivals::Fixed, smallest: 64 }),
        ] {
            assert!(!watched(other));
        }
    }

    #[test]
    fn the_end_of_the_other_side_is_told_to_one_that_sleeps() {
        let (port, other) = pair(&Config::default()).unwrap();
        let bell = bell(&port, Policy::Block).unwrap().unwrap();
        let wait = Waiting::for_interrupt(AnyClock::Raw(MonotonicRaw), bell.as_fd());
        let mut frames = Frames::reliable(Interrupting(port), wait, framing(1, 18, Side::Client).unwrap());
        assert!(frames.recv(Ticks(0)).unwrap().is_none());
        drop(other);
        let ended = std::io::ErrorKind::UnexpectedEof;
        assert_eq!(frames.recv(Ticks(0)).unwrap_err().kind(), ended);
        assert_eq!(frames.send(0, 18, CONTENT).unwrap_err().kind(), ended);
    }

    #[test]
    fn a_reply_padded_to_the_length_of_its_request_has_its_own_time() {
        let (clock, why) = AnyClock::calibrate();
        if let Some(why) = why {
            // Bypasses the test harness, which hides the output of passed tests.
            let _ = writeln!(std::io::stderr(), "niq: the time of a padded reply: SKIPPED: {why}");
            assert!(std::env::var("HAIRPIN_MUST_RUN").as_deref() != Ok("1"), "{why}");
            return;
        }
        let job = Job { request: 1, reply: 16, emulated: emulated(20), ..Job::new("niq:spin".parse().unwrap()) };
        let [ours, theirs] = [Side::Client, Side::Server].map(|side| config(&job, clock, None, side).unwrap());
        let (mut ports, descriptors) = Port::create(&theirs).unwrap();
        let mut others = Port::open(descriptors, &ours).unwrap();
        let frames = |port: Port, len, side| Frames::reliable(port, Waiting::spin(clock), framing(1, len, side).unwrap());
        let mut client = frames(others.pop().unwrap(), 1, Side::Client);
        let mut server = frames(ports.pop().unwrap(), 16, Side::Server);
        let sent = clock.now();
        let until = sent.plus(clock.to_ticks(5_000_000_000));
        assert!(client.send(0, 1, CONTENT).unwrap());
        assert!(server.recv(until).unwrap().is_some());
        let there = clock.to_ns(clock.now().since(sent));
        assert!(server.reply(0, 16).unwrap());
        assert!(client.recv(until).unwrap().is_some());
        let both = clock.to_ns(clock.now().since(sent));
        assert!(both >= 20_000_000, "the reply's time is the reply's: {there} ns and {both}");
    }
}
