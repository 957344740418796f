//! Checks the path against known latencies: the program's own part of a round trip, and round trips over declared latencies.
//!
//! ```text
//!   own     both ends in turn on one core, nothing emulated:  RTT = own + turn-around + device: tx_batch entered, pause, rx_batch left, twice
//!   proof   an end on each core, one way declared:            RTT = 2 × declared + own + turn-around, if the device keeps its word
//! ```

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::thread;

use hairpin_packet::granted::Granted;
use hairpin_packet::io::{Arrival, Counters, Kick, Kicked, PacketIo};
use hairpin_packet::niq::{Config, Delay, Port, Timing, pair};
use hairpin_record::run::Side;
use hairpin_sys::clock::{AnyClock, Clock, Ticks, Tsc};
use hairpin_sys::thread::pin;
use hairpin_sys::umem::{Frame, Pool, Umem};
use hairpin_sys::wait::Waiting;
use hairpin_units::{Nanos, Picos};

use super::{frame_of, framing, refused};
use crate::content::Content;
use crate::drive::Work;
use crate::echo::{ServerCallbacks, echo};
use crate::endpoint::{Endpoint, Reply};
use crate::error::PathError;
use crate::every::{every_rtt, median};
use crate::frames::Frames;
use crate::frames::inet::Unsummed;

/// A measurement ends after this much silence, in ns.
const TIMEOUT_NS: u64 = 2_000_000_000;
/// A measurement ends after this time, in ns, with the samples it has: on busy cores two spinning ends take turns of the
/// scheduler.
const LONGEST_NS: u64 = 2_000_000_000;

/// The p50 of round trips over a declared latency, in ns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Latency {
    pub rtt_ns: f64,
    /// The server's turn-around within the RTT.
    pub turnaround_ns: f64,
}

/// This program's part of a round trip over the device: its stamps are included, the server's turn-around and the device are not.
/// p50 in ns of `count` transactions. After each frame it waits for `pause` before it looks: code and data that were idle for
/// some microseconds are slower.
///
/// # Errors
/// Out of memory.
pub fn own_ns(clock: AnyClock, request: u32, reply: u32, pause: Nanos, count: u64) -> Result<f64, PathError> {
    let longest_frame = frame_of(request.max(reply));
    let (client, server) = pair(&Config { longest_frame, ..Config::default() }).map_err(refused)?;
    let pause = clock.to_ticks(pause.0);
    let device = Device { clock, pause, entered: AtomicU64::new(0), ticks: AtomicU64::new(0) };
    let mut both = Both {
        client: Frames::reliable(
            Stamped { port: client, device: &device },
            Waiting::spin(clock),
            framing(1, request, Side::Client)?,
        ),
        server: Frames::reliable(
            Stamped { port: server, device: &device },
            Waiting::spin(clock),
            framing(1, reply, Side::Server)?,
        ),
        device: &device,
        reply: reply as usize,
        others: Vec::with_capacity(2 * count as usize),
    };
    let mut rtts = measure(&mut both, &clock, work(request, reply, count))?;
    let mut others: Vec<u64> = both.others.iter().map(|ticks| clock.to_ns(*ticks)).collect();
    // Each way's first clock reading lies outside the stamps, as it does for a device that reads its clock on entry.
    Ok((median(&mut rtts) as f64 - median(&mut others) as f64).max(0.0))
}

/// Round trips of `count` transactions between two CPUs over a device that takes `one_way` for each frame by the clock `device`,
/// measured by `clock`: with one calibration for both, a wrong one would not show.
///
/// # Errors
/// A CPU that this process may not use; out of memory; a time that cannot be emulated.
pub fn proof(clock: Tsc, device: Tsc, cpus: [u32; 2], one_way: Picos, size: u32, count: u64) -> Result<Latency, PathError> {
    let (clock, longest_frame) = (AnyClock::from(clock), frame_of(size));
    let delay = |_| Delay { out: Picos(0), link: Picos(0), rest: one_way };
    let timing = Timing::new(device, longest_frame, delay).map_err(|error| PathError::Way(error.to_string()))?;
    let (client, server) = pair(&Config { longest_frame, timing: Some(timing), ..Config::default() }).map_err(refused)?;
    let (there, back) = (framing(1, size, Side::Client)?, framing(1, size, Side::Server)?);
    let told = AtomicBool::new(false);
    let on = |cpu| pin(cpu).map_err(|error| PathError::Thread(error.to_string()));
    let start = "cannot start a measuring thread";
    let panicked = |_| PathError::Thread("a measuring thread panicked".into());
    thread::scope(|scope| {
        let answers = thread::Builder::new().spawn_scoped(scope, || {
            on(cpus[1])?;
            let mut frames = Frames::reliable(server, Waiting::spin(clock), back);
            Ok::<_, PathError>(echo(&mut frames, &clock, size as usize, &mut StopFlag(&told)))
        });
        let answers = answers.map_err(PathError::at(start))?;
        let asks = thread::Builder::new().spawn_scoped(scope, || {
            on(cpus[0])?;
            let mut frames = Frames::reliable(client, Waiting::spin(clock), there);
            measure(&mut frames, &clock, work(size, size, count))
        });
        let rtts = asks.map(|asks| asks.join());
        told.store(true, Relaxed);
        let echoed = answers.join().map_err(panicked)??;
        let mut rtts = rtts.map_err(PathError::at(start))?.map_err(panicked)??;
        let turnaround_ns = echoed.turnaround.quantile(hairpin_units::Quantile::P50).unwrap_or(0) as f64;
        Ok(Latency { rtt_ns: median(&mut rtts) as f64, turnaround_ns })
    })
}

fn work(request: u32, reply: u32, count: u64) -> Work {
    Work {
        warmup_ns: 1_000_000,
        timeout_ns: TIMEOUT_NS,
        duration_ns: Some(LONGEST_NS),
        ..Work::short(request as usize, reply as usize, count)
    }
}

/// All RTTs in ns.
fn measure<E: Endpoint, C: Clock>(endpoint: &mut E, clock: &C, work: Work) -> Result<Vec<u64>, PathError> {
    let measured = every_rtt(endpoint, clock, work).map_err(PathError::at("cannot measure over the emulated NIC"))?;
    Ok(measured.rtts_ns)
}

/// Stops the server's loop. The turn-around of each request is measured, as it is a part of the sum.
struct StopFlag<'a>(&'a AtomicBool);

impl ServerCallbacks for StopFlag<'_> {
    fn stopped(&self) -> bool {
        self.0.load(Relaxed)
    }

    fn is_tracing(&self) -> bool {
        true
    }
}

/// Time spent in the device. Atomics only because a ring may move to another thread; none does here.
struct Device {
    clock: AnyClock,
    pause: u64,
    entered: AtomicU64,
    /// Time of this round trip so far, in ticks.
    ticks: AtomicU64,
}

/// A port that times each frame from the entry of `tx_batch` to the return of the other port's `rx_batch`.
struct Stamped<'d> {
    port: Port,
    device: &'d Device,
}

impl PacketIo for Stamped<'_> {
    fn granted(&self) -> &Granted {
        self.port.granted()
    }

    #[inline(always)]
    fn pool(&mut self) -> &mut Pool {
        self.port.pool()
    }

    #[inline(always)]
    fn umem(&self) -> &Arc<Umem> {
        self.port.umem()
    }

    #[inline(always)]
    fn rx_batch(&mut self, into: &mut Vec<Arrival>, most: usize) -> usize {
        let Device { clock, pause, entered, ticks } = self.device;
        let entered = entered.load(Relaxed);
        // No frame yet, so the receiver looks again and again, as it does over a latency; the last look is then just as
        // unpredictable.
        if clock.now().0 < entered + pause {
            return 0;
        }
        let came = self.port.rx_batch(into, most);
        let took = clock.now().0 - entered;
        ticks.store(ticks.load(Relaxed) + took, Relaxed);
        came
    }

    #[inline(always)]
    fn tx_batch(&mut self, frames: &mut Vec<Frame>) -> usize {
        self.device.entered.store(self.device.clock.now().0, Relaxed);
        self.port.tx_batch(frames)
    }

    #[inline(always)]
    fn kick(&mut self, what: Kick) -> io::Result<Kicked> {
        self.port.kick(what)
    }

    fn waitable(&self) -> BorrowedFd<'_> {
        self.port.waitable()
    }

    fn counters(&mut self) -> Counters {
        self.port.counters()
    }
}

/// Both ends, taking turns on one thread.
struct Both<'d> {
    client: Frames<'d, Stamped<'d>, Unsummed, false>,
    server: Frames<'d, Stamped<'d>, Unsummed, false>,
    device: &'d Device,
    reply: usize,
    /// Turn-around and device time of each round trip, in ticks, up to the capacity.
    others: Vec<u64>,
}

impl Endpoint for Both<'_> {
    fn is_lossy(&self) -> bool {
        false
    }

    #[inline(always)]
    fn send(&mut self, flow: u32, len: usize, content: Content) -> io::Result<bool> {
        self.device.ticks.store(0, Relaxed);
        self.client.send(flow, len, content)
    }

    #[inline(always)]
    fn recv(&mut self, until: Ticks) -> io::Result<Option<Reply<'_>>> {
        let Some(request) = self.server.recv(until)? else { return Ok(None) };
        let received = self.device.clock.now();
        let flow = request.flow;
        let sent = self.device.clock.now();
        self.server.reply(flow, self.reply)?;
        // The reply is there, and nobody looks for it later.
        let reply = self.client.recv(Ticks::NEVER)?;
        if self.others.len() < self.others.capacity() {
            self.others.push(sent.since(received) + self.device.ticks.load(Relaxed));
        }
        Ok(reply)
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Display;
    use std::io::Write;

    use hairpin_sys::thread::allowed_cpus;

    use super::*;

    /// Prints a skip message where a requirement is missing; fails where the test must run.
    fn left_out(why: impl Display) {
        // Bypasses the test harness, which hides the output of passed tests.
        let _ = writeln!(io::stderr(), "niq: the proof of a latency: SKIPPED: {why}");
        assert!(std::env::var("HAIRPIN_MUST_RUN").as_deref() != Ok("1"), "{why}");
    }

    #[test]
    fn device_takes_its_programmed_time_beside_the_program() {
        let clock = match Tsc::calibrate() {
            Ok(clock) => clock,
            Err(why) => return left_out(why),
        };
        let own = own_ns(clock.into(), 18, 22, Nanos(1_000), 2_000).unwrap();
        assert!((5.0..100_000.0).contains(&own), "{own}");
        let [client, server, ..] = allowed_cpus().unwrap()[..] else { return left_out("this process is allowed one CPU") };
        for declared_ns in [500, 20_000] {
            let found = proof(clock, clock, [client, server], Picos::from_ns(declared_ns), 18, 400).unwrap();
            // Never sooner. Later is no failure, as the machine may not be idle; `hairpin check` measures how much.
            assert!(found.rtt_ns >= 2.0 * declared_ns as f64, "{declared_ns}: {found:?}");
        }
    }
}
