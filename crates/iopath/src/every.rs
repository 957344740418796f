//! Every RTT of a short run, for checks of the instrument: a histogram of three digits is too coarse for them.

use std::io;

use hairpin_record::recorder::{Recorder, Sample};
use hairpin_sys::clock::Clock;

use crate::drive::{BetweenBlocks, Counts, LoopEnd, Work, drive};
use crate::endpoint::Endpoint;
use crate::pace::Pace;

/// Result of a short run.
#[derive(Debug)]
pub struct Every {
    /// Measured time in ns.
    pub measured_ns: u64,
    /// Each RTT in ns, in the order of the replies.
    pub rtts_ns: Vec<u64>,
}

/// Runs `work`, which must have a `count`.
///
/// # Errors
/// The error that ended the run early.
pub fn every_rtt<E: Endpoint, C: Clock>(endpoint: &mut E, clock: &C, work: Work) -> io::Result<Every> {
    let mut kept = KeepRtts(Vec::with_capacity(work.count.unwrap_or(0) as usize));
    let found = drive(endpoint, clock, Pace::Closed, work, &mut kept);
    match found.end {
        LoopEnd::Failed(error) => Err(error),
        LoopEnd::Done | LoopEnd::Stopped => Ok(Every { measured_ns: found.recorder.measured_ns(), rtts_ns: kept.0 }),
    }
}

/// The median of `times`, in their unit; 0 if there are none.
pub fn median(times: &mut [u64]) -> u64 {
    let middle = times.len() / 2;
    if times.is_empty() { 0 } else { *times.select_nth_unstable(middle).1 }
}

struct KeepRtts(Vec<u64>);

impl BetweenBlocks for KeepRtts {
    fn stopped(&self) -> bool {
        false
    }

    fn block(&mut self, _recorder: &Recorder, _counts: &Counts, samples: &mut dyn Iterator<Item = Sample>) -> io::Result<()> {
        self.0.extend(samples.map(|sample| sample.rtt_ns));
        Ok(())
    }
}
