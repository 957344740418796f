//! `memory`: request and reply in one cache line shared by both sides; the floor of all paths.

use std::io;
use std::os::fd::AsFd;

use hairpin_plan::path::LinkKind;
use hairpin_sys::clock::{AnyClock, Clock, Ticks};
use hairpin_sys::shared::{Direction, Line, Shared};

use crate::content::Content;
use crate::echo::echo;
use crate::endpoint::{Endpoint, Reply};
use crate::error::PathError;
use crate::measure::{ClientRun, ServerRun, drive_paced};
use crate::rendezvous;
use crate::runner::{Runner, Support, probe_local};
use crate::stream::closed;

pub struct Memory;

/// Loads of the line between two looks at the clock: a look costs as much as several loads and delays the detection of a message.
const LOOKS: u32 = 64;

impl Runner for Memory {
    fn probe(&self, link: LinkKind) -> Support {
        probe_local(link)
    }

    fn ping(&self, run: &mut ClientRun<'_>) -> Result<(), PathError> {
        let fd = rendezvous::take_over(run, 1)?.pop();
        let fd = fd.ok_or_else(|| PathError::Peer("the server handed over no memory".into()))?;
        let shared = Shared::open(fd).map_err(PathError::at("cannot map the memory that the server shares"))?;
        match run.clock {
            AnyClock::Tsc(clock) => ping_by(run, clock, shared),
            clock @ AnyClock::Raw(_) => ping_by(run, clock, shared),
        }
    }

    fn echo(&self, run: &mut ServerRun<'_>) -> Result<(), PathError> {
        let shared = Shared::create().map_err(PathError::at("cannot make memory to share"))?;
        rendezvous::hand_over(run, &[shared.as_fd()])?;
        match run.clock {
            AnyClock::Tsc(clock) => echo_by(run, clock, shared),
            clock @ AnyClock::Raw(_) => echo_by(run, clock, shared),
        }
    }
}

// The CPU's counter is a type here and on `niq`: as a value the clock made the RTT of `niq` (p50 475 ns) 0.9 % longer (0.1 to
// 1.6, `make bench-builds`). A reading of the kernel's clock takes longer than that.
fn ping_by<C: Clock>(run: &mut ClientRun<'_>, clock: C, shared: Shared) -> Result<(), PathError> {
    run.alone(|job, work, between| {
        let mut end = MemoryEnd::new(shared, clock.clone(), Direction::Reply, work.request.max(work.reply));
        drive_paced(&mut end, &clock, job, work, between)
    })
}

fn echo_by<C: Clock>(run: &mut ServerRun<'_>, clock: C, shared: Shared) -> Result<(), PathError> {
    run.alone(|job, callbacks| {
        let mut end = MemoryEnd::new(shared, clock.clone(), Direction::Request, job.request.max(job.reply) as usize);
        echo(&mut end, &clock, job.reply as usize, callbacks)
    })
}

/// One side of the line. Dropping it sets the area's stop flag for the other side.
struct MemoryEnd<C> {
    shared: Shared,
    clock: C,
    /// Direction in which this side receives.
    receives: Direction,
    outgoing: Vec<u8>,
    incoming: Vec<u8>,
    /// Number of the last message received; requests count from 1.
    last: u64,
    /// Number of the last request sent (client only).
    sent: u64,
}

impl<C: Clock> MemoryEnd<C> {
    fn new(shared: Shared, clock: C, receives: Direction, longest: usize) -> Self {
        // One byte more, to detect a message that is too long.
        MemoryEnd { shared, clock, receives, outgoing: vec![0; longest], incoming: vec![0; longest + 1], last: 0, sent: 0 }
    }
}

impl<C: Clock> Endpoint for MemoryEnd<C> {
    fn is_lossy(&self) -> bool {
        false
    }

    #[inline(always)]
    fn prepare(&mut self, len: usize, content: Content) {
        content.write(&mut self.outgoing[..len]);
    }

    #[inline(always)]
    fn send(&mut self, _flow: u32, len: usize, _content: Content) -> io::Result<bool> {
        // A request that was given up still occupies the line until its reply comes.
        if self.sent != self.last {
            return Ok(false);
        }
        self.sent = (self.sent + 1) % Line::SEQUENCES;
        self.shared.line().send(Direction::Request, self.sent, &self.outgoing[..len]);
        Ok(true)
    }

    #[inline(always)]
    fn recv(&mut self, until: Ticks) -> io::Result<Option<Reply<'_>>> {
        loop {
            for _ in 0..LOOKS {
                if let Some((sequence, len)) = self.shared.line().try_recv(self.receives, self.last, &mut self.incoming) {
                    self.last = sequence;
                    let len = len.min(self.incoming.len());
                    return Ok(Some(Reply { flow: 0, bytes: &self.incoming[..len] }));
                }
            }
            if self.shared.stop_requested() {
                return Err(closed());
            }
            if self.clock.now() >= until {
                return Ok(None);
            }
        }
    }

    #[inline(always)]
    fn reply(&mut self, _flow: u32, len: usize) -> io::Result<bool> {
        self.shared.line().send(Direction::Reply, self.last, &self.incoming[..len]);
        Ok(true)
    }
}

impl<C> Drop for MemoryEnd<C> {
    fn drop(&mut self) {
        self.shared.request_stop();
    }
}
