//! Blocks measured outside this process, such as by another build or another tool: the same rounds, pairs and intervals as for
//! arms.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use hairpin_record::compare::{Comparison, Method};
use hairpin_record::experiment::Figure;
use hairpin_record::run::Row;
use hairpin_units::Nanos;

use super::rounds::{self, Bench, Ended, Layout, NoSwitch, Taken, letter};
use super::stands::taken;
use super::states::States;
use super::verdict;
use hairpin_session::error::RunError;

/// Length of a block; each one pays for the start of a process.
const BLOCK: Nanos = Nanos::from_millis(250);
/// Confidence of the intervals.
const CONFIDENCE: f64 = 0.95;
/// Two arms with a ratio within this of 1 count as the same.
const MARGIN: f64 = 0.02;

/// Measures a row of arm 0 or 1, of this length and warm-up; the error holds the reason, or `None` after Ctrl-C.
pub type Measure<'a> = dyn FnMut(usize, Nanos, Nanos) -> Result<Row, Option<String>> + 'a;

struct Outside<'a, 'b> {
    measure: &'a mut Measure<'b>,
    began: Instant,
}

impl Bench for Outside<'_, '_> {
    fn block(&mut self, arm: usize, length: Nanos, warmup: Nanos) -> Result<Taken, Ended> {
        let at_ns = u64::try_from(self.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let failed = |why| Ended::Failed(RunError::Row { path: format!("arm {}", letter(arm)), why });
        let row = (self.measure)(arm, length, warmup).map_err(|why| why.map_or(Ended::Interrupted, failed))?;
        taken(&row, at_ns, None).map_err(|error| failed(error.to_string()))
    }

    fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }
}

/// Measures two arms in turn, in random order within each round, for `duration`. Returns p50 of the second over that of the
/// first, with its 95 % interval.
///
/// # Errors
/// A block could not be measured: the error of `measure`, or `None` after Ctrl-C.
pub fn pairs(duration: Duration, seed: u64, measure: &mut Measure<'_>) -> Result<Comparison, Option<String>> {
    let layout = Layout { arms: 2, duration, seed, done: 0, length: Some(BLOCK) };
    let mut outside = Outside { measure, began: Instant::now() };
    let mut measured = Vec::new();
    let laid = rounds::run(&layout, &mut outside, &mut NoSwitch, &mut |round, _, _| {
        measured.push(round);
        ControlFlow::Continue(())
    });
    match laid.ended {
        Some(Ended::Failed(error)) => return Err(Some(error.to_string())),
        Some(Ended::Interrupted) => return Err(None),
        None => {}
    }
    let method = Method { figure: Figure::P50, confidence: CONFIDENCE, confidence_each: CONFIDENCE, looks: 1, margin: MARGIN };
    Ok(verdict::compare(&measured, 0, 1, &States::of(&measured), &method, outside.elapsed()))
}
