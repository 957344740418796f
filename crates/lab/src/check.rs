//! Measures the instrument: its own cost, whether it reports injected delays correctly, and an emulated NIC of known latency.
//!
//! ```text
//!   drive over Null                      duration / transactions = own cost
//!   drive over Delayed, in turns of      no delay │ 500 ns │ 1 us │ … │ no delay │ 500 ns │ …      short blocks, interleaved
//!     the instrument's clock             p50 RTT less p50 RTT at no delay of the same round ┐
//!     the device's own clock             p50 taken less p50 taken at no delay ──────────────┴ must agree within 30 ns
//!   drive over niq, an end on each of two cores, in turns of 500 ns │ 1 us │ 1989 ns │ 3059 ns │ … one way
//!     the device counts ticks at a rate found here, against CLOCK_MONOTONIC_RAW since the check began
//!     RTT p50                            must be 2 × declared + turn-around + own within 20 ns
//!   all of it, by the instrument's clock │ by CLOCK_MONOTONIC_RAW        must agree within 200 ppm        (elapsed)
//! ```
//! A failed test is repeated, up to three times in all: a disturbance of a virtual machine passes, a wrong clock does not.
//!
//! Figures are medians of short interleaved blocks: a stall of a virtual machine hits a few samples, and a change of its speed
//! hits every delay of a round alike. The RTTs are the exact ones that `--raw` writes, since a histogram of three digits resolves
//! 100 us only to 64 ns.

mod elapsed;

use std::io;
use std::time::{Duration, Instant};

use hairpin_iopath::drive::Work;
use hairpin_iopath::endpoint::Endpoint;
use hairpin_iopath::error::PathError;
use hairpin_iopath::every::{every_rtt, median};
use hairpin_iopath::fake::{BusyWait, Delayed, Device, Null};
use hairpin_iopath::paths::niq;
use hairpin_record::check::{Check, CheckBody, Delay, Latency, Verdict};
use hairpin_record::head::Record;
use hairpin_sys::clock::{AnyClock, Clock, Tsc};
use hairpin_sys::thread::allowed_cpus;
use hairpin_units::{Arrange, Nanos, Picos};

use self::elapsed::{Stopwatch, monotonic_raw_ns};
use hairpin_session::rows;
use hairpin_session::worker::{choose_clock, clock_facts};

/// Largest error of a reported delay.
pub const BOUND_NS: u64 = 30;
/// The injected delays.
pub const DELAYS_NS: [u64; 5] = [500, 1_000, 5_000, 20_000, 100_000];
/// Runs of a failing test in all.
const TRIES: u32 = 3;
/// No further round of a try begins after this time: a host this busy will not become quieter.
const PATIENCE: Duration = Duration::from_secs(5);
/// Rounds over all delays; odd, so that the median is one of them.
const ROUNDS: usize = 25;
/// Transactions per block with a delay: 25 ms at the longest.
const BLOCK: u64 = 251;
/// Blocks over the null path.
const NULL_BLOCKS: usize = 101;
/// Transactions per block over the null path: a tenth of a millisecond.
const NULL_BLOCK: u64 = 4_000;
/// Payload in bytes.
const SIZE: usize = 64;
/// Largest difference between a measured RTT over the emulated NIC and the sum of its parts.
pub const LATENCY_BOUND_NS: u64 = 20;
/// Latencies of the emulated NIC, one way, among them the published budgets of 1989 and 3059 ns. After a wait of 10 us or more a
/// round trip takes some 25 ns more than the sum of its parts, since unused code and data have left the caches.
pub const LATENCIES_NS: [u64; 5] = [500, 1_000, 1_989, 3_059, 5_000];
/// Rounds over all latencies; odd, so that the median is one of them.
const LATENCY_ROUNDS: usize = 15;
/// Duration of a block over the emulated NIC, in ns …
const LATENCY_BLOCK_NS: u64 = 20_000_000;
/// … with at most this many transactions.
const LATENCY_BLOCK: u64 = 4_000;
/// Payload of the shortest frame, in bytes.
const SHORTEST: u32 = 18;

/// Why the instrument could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// The loop over a path inside this process failed.
    #[error("the measuring loop failed over a path inside this process: {0}; please report this")]
    Loop(#[from] io::Error),
    /// The emulated NIC failed.
    #[error("the emulated NIC cannot be measured: {0}")]
    Niq(#[from] PathError),
    /// Its watcher ended it, as after Ctrl-C.
    #[error("ended early by the user: there is no verdict")]
    Ended,
}

/// A test that goes on, and the part of it that is over; called between blocks. `false` ends the check.
pub type Watcher<'a> = dyn FnMut(&str, f64) -> bool + 'a;

/// Measures the instrument as a worker would use it on this host, against a busy wait on another clock.
pub fn instrument(command: &[String], watcher: &mut Watcher<'_>) -> Result<Check, CheckError> {
    let head = rows::begin::<CheckBody>(command);
    Ok(Record { head, body: measured(watcher)? })
}

fn measured(watcher: &mut Watcher<'_>) -> Result<CheckBody, CheckError> {
    match choose_clock() {
        (AnyClock::Tsc(clock), _) => of_tsc(clock, watcher),
        (AnyClock::Raw(clock), no_tsc) => {
            let why = no_tsc.map_or_else(|| "the CPU has no counter to be trusted".into(), |warning| warning.note().message);
            Ok(CheckBody { no_latencies: Some(why), ..delays_in_tries(&clock, watcher)? })
        }
    }
}

/// Runs all tests of a time-stamp counter and its calibration.
fn of_tsc(clock: Tsc, watcher: &mut Watcher<'_>) -> Result<CheckBody, CheckError> {
    let watch = Stopwatch::start(&clock, monotonic_raw_ns);
    let mut found = delays_in_tries(&clock, watcher)?;
    match &allowed_cpus()?[..] {
        [client, server, ..] => {
            let device = clock.at_rate(watch.ticks_per_ns(&clock, monotonic_raw_ns));
            let bound_ns = at_least_a_step(LATENCY_BOUND_NS, &found);
            let measure = || latencies(clock, device, [*client, *server], bound_ns, watcher);
            let missed = |latencies: &Vec<Latency>| latencies.iter().any(|latency| latency.verdict == Verdict::Failed);
            (found.latencies, found.latency_tries) = in_tries(measure, missed)?;
            found.latency_bound_ns = bound_ns;
        }
        _ => found.no_latencies = Some("it takes two CPUs, and this process is allowed one".into()),
    }
    let elapsed = watch.end(&clock, monotonic_raw_ns);
    let missed = elapsed.verdict == Verdict::Failed || found.latencies.iter().any(|latency| latency.verdict == Verdict::Failed);
    if missed {
        found.verdict = Verdict::Failed;
    }
    found.elapsed = Some(elapsed);
    Ok(found)
}

fn delays_in_tries<C: Clock>(clock: &C, watcher: &mut Watcher<'_>) -> Result<CheckBody, CheckError> {
    let (found, tries) = in_tries(|| check(clock, &mut BusyWait, watcher), |check| check.verdict == Verdict::Failed)?;
    Ok(CheckBody { delay_tries: tries, ..found })
}

/// Measures until a test passes, at most [`TRIES`] times and no longer than three times [`PATIENCE`]. Returns the last
/// measurement, and the number of tries.
fn in_tries<T>(mut measure: impl FnMut() -> Result<T, CheckError>, missed: impl Fn(&T) -> bool) -> Result<(T, u32), CheckError> {
    let (mut tries, began) = (1, Instant::now());
    loop {
        let found = measure()?;
        if tries == TRIES || !missed(&found) || began.elapsed() > 3 * PATIENCE {
            return Ok((found, tries));
        }
        tries += 1;
    }
}

/// The error bound, raised to one step of the clock, below which no error can be judged.
fn at_least_a_step(bound_ns: u64, check: &CheckBody) -> u64 {
    bound_ns.max(check.clock.least_error_ns().ceil() as u64)
}

/// Measures the emulated NIC at each latency.
fn latencies(
    clock: Tsc,
    device: Tsc,
    cpus: [u32; 2],
    bound_ns: u64,
    watcher: &mut Watcher<'_>,
) -> Result<Vec<Latency>, CheckError> {
    let mut rounds = [const { Vec::<Latency>::new() }; LATENCIES_NS.len()];
    let began = Instant::now();
    for round in (0..LATENCY_ROUNDS).take_while(|round| *round == 0 || began.elapsed() < PATIENCE) {
        for (at, (declared_ns, into)) in LATENCIES_NS.into_iter().zip(&mut rounds).enumerate() {
            let done = round * LATENCIES_NS.len() + at;
            if !watcher("known latencies", over(done, LATENCY_ROUNDS * LATENCIES_NS.len(), began)) {
                return Err(CheckError::Ended);
            }
            let count = (LATENCY_BLOCK_NS / (2 * declared_ns)).min(LATENCY_BLOCK);
            let own_ns = niq::own_ns(clock.into(), SHORTEST, SHORTEST, Nanos(declared_ns), count)?;
            let found = niq::proof(clock, device, cpus, Picos::from_ns(declared_ns as i64), SHORTEST, count)?;
            into.push(latency(declared_ns, own_ns, found, bound_ns));
        }
    }
    Ok(rounds.into_iter().map(middle).collect())
}

/// The part of a test that is over: by its rounds, or by the time after which no further one begins.
fn over(done: usize, of: usize, began: Instant) -> f64 {
    (done as f64 / of as f64).max(began.elapsed().as_secs_f64() / PATIENCE.as_secs_f64()).min(1.0)
}

/// Compares one round's measurement with the sum of its parts.
fn latency(declared_ns: u64, own_ns: f64, found: niq::Latency, bound_ns: u64) -> Latency {
    let sum_ns = 2.0 * declared_ns as f64 + found.turnaround_ns + own_ns;
    let error_ns = found.rtt_ns - sum_ns;
    Latency {
        declared_ns,
        turnaround_ns: tenths(found.turnaround_ns),
        own_ns: tenths(own_ns),
        sum_ns: tenths(sum_ns),
        measured_ns: tenths(found.rtt_ns),
        error_ns: tenths(error_ns),
        verdict: if error_ns.abs() <= bound_ns as f64 { Verdict::Passed } else { Verdict::Failed },
    }
}

/// The round with the median error.
fn middle(mut rounds: Vec<Latency>) -> Latency {
    rounds.arrange_by(|a, b| a.error_ns.total_cmp(&b.error_ns));
    rounds.swap_remove(rounds.len() / 2)
}

/// Measures the instrument with `clock`, and compares it with the delays by `device`'s clock.
pub fn check<C: Clock, D: Device>(clock: &C, device: &mut D, watcher: &mut Watcher<'_>) -> Result<CheckBody, CheckError> {
    let clock_facts = clock_facts(clock);
    let (own_cost_ns, own_cost_least_ns) = own_cost(clock)?;
    let mut found = CheckBody {
        verdict: Verdict::Passed,
        clock: clock_facts,
        own_cost_ns: tenths(own_cost_ns),
        own_cost_least_ns: tenths(own_cost_least_ns),
        bound_ns: 0,
        delays: Vec::new(),
        delay_tries: 1,
        latency_bound_ns: LATENCY_BOUND_NS,
        latencies: Vec::new(),
        latency_tries: 0,
        no_latencies: None,
        elapsed: None,
    };
    found.bound_ns = at_least_a_step(BOUND_NS, &found);
    found.delays = delays(clock, device, found.bound_ns, watcher)?;
    // A clock that cannot tell the shortest delay from none proves nothing by an error of less than a step.
    let tells = found.bound_ns <= DELAYS_NS[0] / 2;
    if !tells || found.delays.iter().any(|delay| delay.verdict == Verdict::Failed) {
        found.verdict = Verdict::Failed;
    }
    Ok(found)
}

/// Time per transaction over the null path: the median of many short blocks, and the least.
fn own_cost<C: Clock>(clock: &C) -> Result<(f64, f64), CheckError> {
    let mut costs = Vec::with_capacity(NULL_BLOCKS);
    for _ in 0..NULL_BLOCKS {
        let (ns, _) = block(clock, &mut Null::default(), NULL_BLOCK)?;
        costs.push(ns as f64 / NULL_BLOCK as f64);
    }
    costs.arrange_by(f64::total_cmp);
    Ok((costs[NULL_BLOCKS / 2], costs[0]))
}

fn delays<C: Clock, D: Device>(
    clock: &C,
    device: &mut D,
    bound_ns: u64,
    watcher: &mut Watcher<'_>,
) -> Result<Vec<Delay>, CheckError> {
    let mut medians = |delay_ns| -> Result<(f64, f64), CheckError> {
        let mut took = Vec::with_capacity(BLOCK as usize);
        let (_, mut rtts) = block(clock, &mut Delayed::new(device, delay_ns, &mut took), BLOCK)?;
        Ok((median(&mut took) as f64, median(&mut rtts) as f64))
    };
    let mut differences = [const { Vec::<(f64, f64)>::new() }; DELAYS_NS.len()];
    let began = Instant::now();
    for round in (0..ROUNDS).take_while(|round| *round == 0 || began.elapsed() < PATIENCE) {
        if !watcher("known delays", over(round, ROUNDS, began)) {
            return Err(CheckError::Ended);
        }
        let (none_took, none_rtt) = medians(0)?;
        for (delay_ns, into) in DELAYS_NS.into_iter().zip(&mut differences) {
            let (took, rtt) = medians(delay_ns)?;
            into.push((took - none_took, rtt - none_rtt));
        }
    }
    Ok(DELAYS_NS.into_iter().zip(&mut differences).map(|(asked_ns, rounds)| delay(asked_ns, rounds, bound_ns)).collect())
}

/// Judges one delay by the injected and the reported time of each round.
fn delay(asked_ns: u64, rounds: &mut [(f64, f64)], bound_ns: u64) -> Delay {
    let middle = rounds.len() / 2;
    // The figures come from one round, that of the median error, so that they add up.
    rounds.arrange_by(|a, b| (a.1 - a.0).total_cmp(&(b.1 - b.0)));
    let (injected, reported) = rounds[middle];
    let error = reported - injected;
    Delay {
        asked_ns,
        injected_ns: tenths(injected),
        reported_ns: tenths(reported),
        error_ns: tenths(error),
        verdict: if error.abs() <= bound_ns as f64 { Verdict::Passed } else { Verdict::Failed },
    }
}

/// Runs `count` transactions. Returns the block's duration and every RTT, in ns.
fn block<E: Endpoint, C: Clock>(clock: &C, endpoint: &mut E, count: u64) -> io::Result<(u64, Vec<u64>)> {
    let every = every_rtt(endpoint, clock, Work::short(SIZE, SIZE, count))?;
    Ok((every.measured_ns, every.rtts_ns))
}

fn tenths(x: f64) -> f64 {
    (x * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use hairpin_sys::clock::FakeClock;

    /// Takes the delay on the instrument's fake clock, `factor` times as fast as it claims.
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

    fn with(factor: f64, plus_ns: u64) -> CheckBody {
        let clock = FakeClock::stepping(1);
        check(&clock, &mut Wrong { clock: clock.clone(), factor, plus_ns }, &mut |_, _| true).unwrap()
    }

    fn failed(check: &CheckBody) -> Vec<u64> {
        check.delays.iter().filter(|delay| delay.verdict == Verdict::Failed).map(|delay| delay.asked_ns).collect()
    }

    #[test]
    fn a_right_clock_passes() {
        let check = with(1.0, 0);
        assert_eq!((check.verdict, failed(&check)), (Verdict::Passed, vec![]));
        assert!(check.delays.iter().all(|delay| delay.error_ns == 0.0 && delay.injected_ns == delay.asked_ns as f64));
        assert_eq!(check.clock.source, "fake");
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
    fn an_error_at_the_bound_passes_and_1_ns_more_fails() {
        assert_eq!(with(1.0, BOUND_NS).verdict, Verdict::Passed);
        assert_eq!(failed(&with(1.0, BOUND_NS + 1)), DELAYS_NS);
    }

    #[test]
    fn a_latency_is_compared_with_the_sum_of_its_parts() {
        let found = |rtt_ns| latency(1_989, 84.7, niq::Latency { rtt_ns, turnaround_ns: 13.0 }, LATENCY_BOUND_NS);
        let (right, late, early) = (found(4_095.7), found(4_095.8), found(4_055.6));
        assert_eq!((right.sum_ns, right.error_ns, right.verdict), (4_075.7, 20.0, Verdict::Passed));
        assert_eq!((late.verdict, early.verdict), (Verdict::Failed, Verdict::Failed));
        let rounds = vec![found(9_000.0), found(4_080.0), found(4_070.0)];
        assert_eq!(middle(rounds).measured_ns, 4_080.0);
    }

    #[test]
    fn one_disturbed_round_in_three_moves_nothing() {
        let mut rounds: Vec<(f64, f64)> = (0..25).map(|n| (500.0, if n % 3 == 0 { 9_000.0 } else { 502.0 })).collect();
        let delay = delay(500, &mut rounds, BOUND_NS);
        assert_eq!((delay.reported_ns, delay.error_ns, delay.verdict), (502.0, 2.0, Verdict::Passed));
    }

    /// The instrument's calibration of the counter is wrong by 1 %. The device, which has the right one, and the elapsed time
    /// both show it.
    #[test]
    fn calibration_off_by_one_percent_always_fails() {
        let AnyClock::Tsc(clock) = choose_clock().0 else {
            // Written past the test harness, which hides the output of passed tests.
            let _ = writeln!(io::stderr(), "calibration_off_by_one_percent_always_fails: SKIPPED: no counter to be trusted");
            assert!(std::env::var("HAIRPIN_MUST_RUN").as_deref() != Ok("1"), "no counter to be trusted");
            return;
        };
        for factor in [0.99, 1.01] {
            let wrong = clock.at_rate(clock.rate() * factor);
            let watch = Stopwatch::start(&wrong, monotonic_raw_ns);
            std::thread::sleep(std::time::Duration::from_millis(20));
            // The device finds the right rate although the instrument's is wrong.
            let device = wrong.at_rate(watch.ticks_per_ns(&wrong, monotonic_raw_ns));
            assert!((device.rate() / clock.rate() - 1.0).abs() < 1e-3, "{} {}", device.rate(), clock.rate());
            let elapsed = watch.end(&wrong, monotonic_raw_ns);
            assert_eq!(elapsed.verdict, Verdict::Failed, "{elapsed:?}");
        }
    }

    #[test]
    fn a_test_is_made_again_until_it_passes_three_times_at_most() {
        for (passes_at, tries) in [(1, 1), (2, 2), (3, 3), (4, 3)] {
            let mut made = 0;
            let (found, counted) = in_tries(
                || {
                    made += 1;
                    Ok(made)
                },
                |made| *made < passes_at,
            )
            .unwrap();
            assert_eq!((found, counted), (tries, tries), "{passes_at}");
        }
    }

    #[test]
    fn no_bound_is_below_a_step_of_the_clock_and_a_clock_that_tells_nothing_fails() {
        let of = |step| {
            let clock = FakeClock::stepping(step);
            check(&clock, &mut Wrong { clock: clock.clone(), factor: 1.0, plus_ns: 0 }, &mut |_, _| true).unwrap()
        };
        assert_eq!((of(1).bound_ns, of(40).bound_ns), (BOUND_NS, 40));
        assert_eq!(of(251).verdict, Verdict::Failed);
    }
}
