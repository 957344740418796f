//! Callbacks of both loops: the stop flag, the other core, a tracer, and the run's observer.

use std::io;
use std::time::Duration;

use hairpin_record::recorder::{Recorder, Sample};
use hairpin_sys::clock::Ticks;
use hairpin_sys::shared::{Shared, Stamp, Stamps};
use hairpin_sys::thread::cpu_time_ns;

use super::Observer;
use super::allowance::Allowance;
use crate::drive::{BetweenBlocks, Counts};
use crate::echo::{ServerCallbacks, TURN_NS};

/// Callbacks of the server's loop.
pub(crate) struct AtServer<'a> {
    pub(super) stop: &'a Shared,
    pub(super) neighbour: Option<&'a Shared>,
    pub(crate) thread: u32,
    pub(super) stamps: Option<&'a Stamps>,
    pub(super) observer: &'a dyn Observer,
    /// The thread never sleeps, so a look at the flag costs nothing.
    pub(super) spins: bool,
    /// The thread sleeps in its receive call.
    pub(super) blocks: bool,
    pub(super) seen: u32,
    /// The requests that the client may still send; `None`: no limit.
    pub(super) allowance: Option<Allowance>,
}

/// Interval at which a spinning server checks its stop flag while nothing is received, in ns: an experiment stops it after each
/// block.
const SPIN_TURN_NS: u64 = 500_000;
/// The interval for a client with a limit on its rate, in ns: it can be long, because a signal tells a stop too.
const CALM_TURN_NS: u64 = 1_000_000_000;

impl ServerCallbacks for AtServer<'_> {
    fn starts(&self) {
        if self.thread == 0 {
            self.observer.starts();
        }
    }

    fn turn_ns(&self) -> u64 {
        match self.allowance {
            _ if self.spins => SPIN_TURN_NS,
            // A blocking receive ends by itself much sooner, each time in vain.
            Some(_) if !self.blocks => CALM_TURN_NS,
            _ => TURN_NS,
        }
    }

    #[inline(always)]
    fn stopped(&self) -> bool {
        self.stop.stop_requested()
    }

    #[inline(always)]
    fn allows(&mut self, at: Ticks) -> bool {
        self.allowance.as_mut().is_none_or(|allowance| allowance.takes(at))
    }

    #[inline(always)]
    fn is_tracing(&self) -> bool {
        self.stamps.is_some()
    }

    #[inline(always)]
    fn answered(&mut self, sequence: u32, received: Ticks, sent: Ticks) {
        if let Some(stamps) = self.stamps {
            stamps.push(Stamp { sequence, first: received, second: sent });
        }
    }

    #[inline(always)]
    fn is_called(&mut self) -> bool {
        self.neighbour.is_some_and(|shared| shared.ping_requested(&mut self.seen))
    }

    fn answer_neighbour(&mut self) {
        if let Some(shared) = self.neighbour {
            let since = cpu_time_ns();
            shared.answer_ping(self.seen, 2 * (PING_PATIENCE + PING_LENGTH));
            self.observer.met(cpu_time_ns().saturating_sub(since));
        }
    }
}

/// Time for the other core to join: a request has just woken it.
const PING_PATIENCE: Duration = Duration::from_millis(10);
/// Time for which the two cores bounce their line in one meeting.
const PING_LENGTH: Duration = Duration::from_millis(2);

/// Callbacks of the client's loop, between blocks.
pub(super) struct AtClient<'a> {
    pub(super) stop: &'a Shared,
    pub(super) neighbour: Option<&'a Shared>,
    pub(super) called: u32,
    pub(super) raw: bool,
    pub(super) thread: u32,
    pub(super) observer: &'a dyn Observer,
    pub(super) stamps: Option<&'a Stamps>,
    /// The clock's rate in ticks per ns.
    pub(super) rate: f64,
    pub(super) began: Ticks,
    /// This thread's CPU time at the start of the block.
    pub(super) block_from_ns: u64,
}

impl BetweenBlocks for AtClient<'_> {
    fn stopped(&self) -> bool {
        self.stop.stop_requested()
    }

    fn is_paused(&self) -> bool {
        self.stop.pause_requested()
    }

    fn pause(&mut self) -> io::Result<()> {
        self.observer.paused()
    }

    fn call_neighbour(&mut self) -> bool {
        // A tracer would also see the untimed transactions.
        self.neighbour.filter(|_| self.stamps.is_none()).map(|shared| self.called = shared.call_ping()).is_some()
    }

    fn meet_neighbour(&mut self) -> Option<u64> {
        let since = cpu_time_ns();
        let found = self.neighbour?.measure_ping(self.called, PING_PATIENCE, PING_LENGTH);
        self.observer.met(cpu_time_ns().saturating_sub(since));
        found
    }

    fn starts(&mut self) {
        if self.thread == 0 {
            self.observer.starts();
        }
    }

    fn begins(&mut self, at: Ticks) {
        self.began = at;
    }

    fn begins_block(&mut self) {
        self.block_from_ns = cpu_time_ns();
    }

    fn ends_block(&mut self, transactions: u64) {
        if !self.leaves_out() {
            self.observer.worked(cpu_time_ns().saturating_sub(self.block_from_ns), transactions);
        }
    }

    fn leaves_out(&self) -> bool {
        self.stamps.is_some_and(Stamps::is_left_out)
    }

    fn block(&mut self, recorder: &Recorder, counts: &Counts, samples: &mut dyn Iterator<Item = Sample>) -> io::Result<()> {
        if let Some(stamps) = self.stamps {
            let after = |ns: u64| self.began.plus((ns as f64 * self.rate).round() as u64);
            for sample in samples {
                let (first, second) = (after(sample.sent_ns), after(sample.sent_ns + sample.rtt_ns));
                stamps.push(Stamp { sequence: sample.sequence, first, second });
            }
            self.observer.block()?;
        } else if self.raw {
            self.observer.raw(self.thread, samples)?;
        }
        self.observer.progress(self.thread, recorder, counts);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use hairpin_plan::job::Address;

    use super::*;

    #[derive(Default)]
    struct Worked(AtomicU64);

    impl Observer for Worked {
        fn ready(&self, _: Option<&Address>) -> io::Result<()> {
            Ok(())
        }
        fn progress(&self, _: u32, _: &Recorder, _: &Counts) {}
        fn raw(&self, _: u32, _: &mut dyn Iterator<Item = Sample>) -> io::Result<()> {
            Ok(())
        }
        fn block(&self) -> io::Result<()> {
            Ok(())
        }
        fn worked(&self, _: u64, transactions: u64) {
            self.0.fetch_add(transactions, Ordering::Relaxed);
        }
    }

    #[test]
    fn the_cpu_time_of_a_block_that_is_left_out_is_in_no_figure() {
        let (stop, stamps, worked) = (Shared::create().unwrap(), Stamps::create().unwrap(), Worked::default());
        let mut between = AtClient {
            stop: &stop,
            neighbour: None,
            called: 0,
            raw: false,
            thread: 0,
            observer: &worked,
            stamps: Some(&stamps),
            rate: 1.0,
            began: Ticks::default(),
            block_from_ns: 0,
        };
        for (left_out, transactions) in [(false, 1), (true, 10), (false, 100)] {
            stamps.leave_out(left_out);
            between.begins_block();
            between.ends_block(transactions);
        }
        assert_eq!(worked.0.load(Ordering::Relaxed), 101);
    }
}
