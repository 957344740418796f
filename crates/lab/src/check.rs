//! The instrument, measured: what it costs, and whether it reports a delay that it did not make.
//!
//! ```text
//!   drive over Null                      duration / transactions = own cost
//!   drive over Delayed, in turns of      no delay │ 500 ns │ 1 us │ … │ no delay │ 500 ns │ …      short blocks, interleaved
//!     the instrument's clock             p50 RTT less p50 RTT at no delay of the same round ┐
//!     the device's own clock             p50 taken less p50 taken at no delay ──────────────┴ must agree within 30 ns
//! ```
//! Medians of short interleaved blocks: a stall of a virtual machine hits a few samples, and a change of its speed hits every delay of a
//! round alike. The RTTs are those that `--raw` writes, since a histogram of three digits knows 100 us only to within 64 ns.

use std::io;

use hairpin_iopath::drive::{Between, Counts, End, Work, drive};
use hairpin_iopath::endpoint::{Endpoint, NoMarks};
use hairpin_iopath::fake::{BusyWait, Delayed, Device, Null};
use hairpin_iopath::measure::AnyClock;
use hairpin_iopath::pace::Closed;
use hairpin_record::check::{Check, Delay, SCHEMA, Verdict};
use hairpin_record::recorder::{Recorder, Sample};
use hairpin_record::run::ClockFacts;
use hairpin_sys::clock::{Clock, Quality};

use crate::worker::choose_clock;

/// A reported delay may lie so far from the injected one.
pub const BOUND_NS: u64 = 30;
/// The delays that are injected.
pub const DELAYS_NS: [u64; 5] = [500, 1_000, 5_000, 20_000, 100_000];
/// Rounds over all delays; odd, so that the median is one of them.
const ROUNDS: usize = 25;
/// Transactions of a block with a delay: 25 ms at the longest.
const BLOCK: u64 = 251;
/// Blocks over the path that does nothing.
const NULL_BLOCKS: usize = 101;
/// Transactions of such a block: a tenth of a millisecond.
const NULL_BLOCK: u64 = 4_000;
/// Payload in bytes.
const SIZE: usize = 64;

/// Why the instrument could not be measured.
#[derive(Debug, thiserror::Error)]
#[error("the measuring loop failed over a path inside this process: {0}; please report this")]
pub struct CheckError(#[from] io::Error);

/// Measures the instrument as a worker would use it on this host, against a busy wait by another clock.
pub fn instrument() -> Result<Check, CheckError> {
    match choose_clock().0 {
        AnyClock::Tsc(clock) => check(&clock, &mut BusyWait),
        AnyClock::Raw(clock) => check(&clock, &mut BusyWait),
    }
}

/// Measures the instrument with `clock`, and holds it against what `device` took.
pub fn check<C: Clock, D: Device>(clock: &C, device: &mut D) -> Result<Check, CheckError> {
    let quality = Quality::measure(clock);
    let (own_cost_ns, own_cost_least_ns) = own_cost(clock)?;
    let delays = delays(clock, device)?;
    let sound = delays.iter().all(|delay| delay.verdict == Verdict::Passed);
    Ok(Check {
        schema: SCHEMA.into(),
        tool: concat!("hairpin ", env!("CARGO_PKG_VERSION")).into(),
        verdict: if sound { Verdict::Passed } else { Verdict::Failed },
        clock: ClockFacts {
            source: clock.source().into(),
            cost_ns: tenths(quality.cost_ns),
            step_ns: tenths(quality.step_ns),
            ticks_per_s: (clock.rate() * 1e9).round(),
            drift_ppb: None,
        },
        own_cost_ns: tenths(own_cost_ns),
        own_cost_least_ns: tenths(own_cost_least_ns),
        bound_ns: BOUND_NS,
        delays,
    })
}

/// Time per transaction over a path that does nothing: the median of many short blocks, and the least.
fn own_cost<C: Clock>(clock: &C) -> Result<(f64, f64), CheckError> {
    let mut costs = Vec::with_capacity(NULL_BLOCKS);
    for _ in 0..NULL_BLOCKS {
        let (ns, _) = block(clock, &mut Null::default(), NULL_BLOCK)?;
        costs.push(ns as f64 / NULL_BLOCK as f64);
    }
    costs.sort_by(f64::total_cmp);
    Ok((costs[NULL_BLOCKS / 2], costs[0]))
}

fn delays<C: Clock, D: Device>(clock: &C, device: &mut D) -> Result<Vec<Delay>, CheckError> {
    let mut medians = |delay_ns| -> Result<(f64, f64), CheckError> {
        let mut took = Vec::with_capacity(BLOCK as usize);
        let (_, mut rtts) = block(clock, &mut Delayed::new(device, delay_ns, &mut took), BLOCK)?;
        Ok((median(&mut took) as f64, median(&mut rtts) as f64))
    };
    let mut differences = [const { Vec::<(f64, f64)>::new() }; DELAYS_NS.len()];
    for _ in 0..ROUNDS {
        let (none_took, none_rtt) = medians(0)?;
        for (delay_ns, into) in DELAYS_NS.into_iter().zip(&mut differences) {
            let (took, rtt) = medians(delay_ns)?;
            into.push((took - none_took, rtt - none_rtt));
        }
    }
    Ok(DELAYS_NS.into_iter().zip(&mut differences).map(|(asked_ns, rounds)| delay(asked_ns, rounds)).collect())
}

/// Judges one delay from what each round injected and reported.
fn delay(asked_ns: u64, rounds: &mut [(f64, f64)]) -> Delay {
    let middle = rounds.len() / 2;
    // One whole round: the one of the middle error, so that the three figures add up.
    rounds.sort_by(|a, b| (a.1 - a.0).total_cmp(&(b.1 - b.0)));
    let (injected, reported) = rounds[middle];
    let error = reported - injected;
    Delay {
        asked_ns,
        injected_ns: tenths(injected),
        reported_ns: tenths(reported),
        error_ns: tenths(error),
        verdict: if error.abs() <= BOUND_NS as f64 { Verdict::Passed } else { Verdict::Failed },
    }
}

/// Runs `count` transactions. Returns how long the block took, and every RTT, in ns.
fn block<E: Endpoint, C: Clock>(clock: &C, endpoint: &mut E, count: u64) -> Result<(u64, Vec<u64>), CheckError> {
    let work = Work {
        request: SIZE,
        reply: SIZE,
        flows: 1,
        outstanding: 1,
        duration_ns: None,
        count: Some(count),
        warmup_ns: 0,
        timeout_ns: u64::MAX,
        cookie: 0,
        verify: false,
        thread: 0,
    };
    let mut rtts = Rtts(Vec::with_capacity(count as usize));
    let found = drive(endpoint, clock, Closed, &mut NoMarks, work, &mut rtts);
    match found.end {
        End::Failed(error) => Err(error.into()),
        End::Done | End::Stopped => Ok((found.recorder.measured_ns(), rtts.0)),
    }
}

/// Keeps every RTT.
struct Rtts(Vec<u64>);

impl Between for Rtts {
    fn stopped(&self) -> bool {
        false
    }

    fn block(&mut self, _recorder: &Recorder, _counts: &Counts, samples: &mut dyn Iterator<Item = Sample>) -> io::Result<()> {
        self.0.extend(samples.map(|sample| sample.rtt_ns));
        Ok(())
    }
}

fn median(times: &mut [u64]) -> u64 {
    let middle = times.len() / 2;
    *times.select_nth_unstable(middle).1
}

fn tenths(x: f64) -> f64 {
    (x * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use hairpin_sys::clock::FakeClock;

    /// Takes the delay on the instrument's fake clock, `factor` times as fast as it says.
    struct Wrong {
        clock: FakeClock,
        factor: f64,
        plus_ns: u64,
    }

    impl Device for Wrong {
        fn take(&mut self, ns: u64) -> u64 {
            let late = if ns == 0 { 0 } else { self.plus_ns };
            self.clock.advance((ns as f64 * self.factor) as u64 + late);
            ns + 25
        }
    }

    fn with(factor: f64, plus_ns: u64) -> Check {
        let clock = FakeClock::stepping(1);
        check(&clock, &mut Wrong { clock: clock.clone(), factor, plus_ns }).unwrap()
    }

    fn failed(check: &Check) -> Vec<u64> {
        check.delays.iter().filter(|delay| delay.verdict == Verdict::Failed).map(|delay| delay.asked_ns).collect()
    }

    #[test]
    fn a_right_clock_passes() {
        let check = with(1.0, 0);
        assert_eq!((check.verdict, failed(&check)), (Verdict::Passed, vec![]));
        assert!(check.delays.iter().all(|delay| delay.error_ns == 0.0 && delay.injected_ns == delay.asked_ns as f64));
        assert_eq!((check.schema.as_str(), check.clock.source.as_str()), (SCHEMA, "fake"));
        assert!((1.0..10.0).contains(&check.own_cost_ns), "a few readings of 1 ns: {}", check.own_cost_ns);
    }

    #[test]
    fn a_clock_one_per_cent_off_fails() {
        for factor in [0.99, 1.01] {
            let check = with(factor, 0);
            assert_eq!((check.verdict, failed(&check)), (Verdict::Failed, vec![5_000, 20_000, 100_000]));
        }
    }

    #[test]
    fn the_bound_is_the_bound() {
        assert_eq!(with(1.0, BOUND_NS).verdict, Verdict::Passed);
        assert_eq!(failed(&with(1.0, BOUND_NS + 1)), DELAYS_NS);
    }

    #[test]
    fn one_disturbed_round_in_three_moves_nothing() {
        let mut rounds: Vec<(f64, f64)> = (0..25).map(|n| (500.0, if n % 3 == 0 { 9_000.0 } else { 502.0 })).collect();
        let delay = delay(500, &mut rounds);
        assert_eq!((delay.reported_ns, delay.error_ns, delay.verdict), (502.0, 2.0, Verdict::Passed));
    }
}
