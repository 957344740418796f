//! The open loop over a path that does nothing, in this process: only the loop itself makes requests late.

use std::io;

use hairpin_iopath::drive::{BetweenBlocks, Counts, LoopEnd, LoopResult, Work, drive};
use hairpin_iopath::fake::Null;
use hairpin_iopath::pace::{Pace, Timetable};
use hairpin_plan::schedule::Schedule;
use hairpin_record::recorder::{Recorder, Sample};
use hairpin_sys::clock::Tsc;
use hairpin_sys::thread;

use super::super::record::Stop;
use super::table::{Cell, Round};
use super::{NULL_BOUND_NS, Options, RATE};

const SIZE: usize = 64;

/// Every round, with the bound.
pub(crate) fn cell(options: &Options) -> Result<Cell, Stop> {
    let clock = Tsc::calibrate().map_err(|why| Stop::Missing(format!("lateness is told by the CPU's counter: {why}")))?;
    // On a thread of its own, so that later programs may use all CPUs.
    let rounds = std::thread::scope(|scope| {
        let measuring = scope.spawn(|| {
            thread::pin(options.cpu[0]).map_err(|e| e.to_string())?;
            (0..options.rounds).map(|_| round(&clock, options.seconds)).collect::<Result<Vec<_>, String>>()
        });
        measuring.join().map_err(|_| "the measuring thread panicked".to_owned())?
    })?;
    Ok(Cell { name: "null".into(), per_s: RATE.into(), bound_ns: Some(NULL_BOUND_NS), rounds })
}

fn round(clock: &Tsc, seconds: f64) -> Result<Round, String> {
    let work = Work {
        outstanding: SIZE as u32,
        duration_ns: Some((seconds * 1e9) as u64),
        count: None,
        warmup_ns: 100_000_000,
        timeout_ns: 5_000_000_000,
        ..Work::short(SIZE, SIZE, 1)
    };
    let pace = Pace::Open(Timetable::new(clock, Schedule::fixed(RATE.into(), SIZE as u32), false));
    let LoopResult { recorder, counts, end, .. } = drive(&mut Null::default(), clock, pace, work, &mut Nobody);
    if let LoopEnd::Failed(error) = end {
        return Err(format!("the loop over a path that does nothing: {error}"));
    }
    let lateness = recorder.lateness().ok_or("the loop kept no lateness")?;
    Round::from(&lateness.all, &lateness.undisturbed, (counts.stalls, counts.stalled_ns), recorder.measured_ns())
}

struct Nobody;

impl BetweenBlocks for Nobody {
    fn stopped(&self) -> bool {
        false
    }

    fn block(&mut self, _: &Recorder, _: &Counts, samples: &mut dyn Iterator<Item = Sample>) -> io::Result<()> {
        samples.for_each(drop);
        Ok(())
    }
}
