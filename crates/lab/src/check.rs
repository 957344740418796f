//! The instrument, measured: what it costs, whether it reports a delay that it did not make, and an emulated NIC whose latency is known.
//!
//! ```text
//!   drive over Null                      duration / transactions = own cost
//!   drive over Delayed, in turns of      no delay │ 500 ns │ 1 us │ … │ no delay │ 500 ns │ …      short blocks, interleaved
//!     the instrument's clock             p50 RTT less p50 RTT at no delay of the same round ┐
//!     the device's own clock             p50 taken less p50 taken at no delay ──────────────┴ must agree within 30 ns
//!   drive over niq, an end on each of two cores, in turns of 500 ns │ 1 us │ 1989 ns │ 3059 ns │ … one way
//!     RTT p50                            must be 2 × declared + turn-around + own within 20 ns
//! ```
//! Medians of short interleaved blocks: a stall of a virtual machine hits a few samples, and a change of its speed hits every delay of a
//! round alike. The RTTs are those that `--raw` writes, since a histogram of three digits knows 100 us only to within 64 ns.

use std::io;

use hairpin_iopath::drive::Work;
use hairpin_iopath::endpoint::Endpoint;
use hairpin_iopath::every::{every_rtt, median};
use hairpin_iopath::fake::{BusyWait, Delayed, Device, Null};
use hairpin_iopath::measure::AnyClock;
use hairpin_iopath::path::PathError;
use hairpin_iopath::paths::niq;
use hairpin_record::check::{Check, Delay, Latency, SCHEMA, Verdict};
use hairpin_sys::clock::{Clock, Tsc};
use hairpin_sys::thread::allowed_cpus;
use hairpin_units::{Nanos, Picos};

use crate::worker::{choose_clock, clock_facts};

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
/// A measured RTT over the emulated NIC may lie so far from the sum of its parts.
pub const LATENCY_BOUND_NS: u64 = 20;
/// One way over the emulated NIC, the published budgets of 1989 and 3059 ns among them. After 10 us and more of waiting a round trip takes some 25 ns
/// more than the sum of its parts: what was not used meanwhile has gone cold.
pub const LATENCIES_NS: [u64; 5] = [500, 1_000, 1_989, 3_059, 5_000];
/// Rounds over all latencies; odd, so that the median is one of them.
const LATENCY_ROUNDS: usize = 15;
/// A block takes so long, in ns …
const LATENCY_BLOCK_NS: u64 = 20_000_000;
/// … but has at most so many transactions.
const LATENCY_BLOCK: u64 = 4_000;
/// Payload of the shortest frame in bytes.
const SHORTEST: u32 = 18;

/// Why the instrument could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// The loop over a path inside this process.
    #[error("the measuring loop failed over a path inside this process: {0}; please report this")]
    Loop(#[from] io::Error),
    /// The emulated NIC.
    #[error("the emulated NIC cannot be measured: {0}")]
    Niq(#[from] PathError),
}

/// Measures the instrument as a worker would use it on this host, against a busy wait by another clock.
pub fn instrument() -> Result<Check, CheckError> {
    let (clock, no_tsc) = choose_clock();
    let mut found = match clock {
        AnyClock::Tsc(clock) => check(&clock, &mut BusyWait),
        AnyClock::Raw(clock) => check(&clock, &mut BusyWait),
    }?;
    let allowed = allowed_cpus()?;
    match (clock, &allowed[..]) {
        (AnyClock::Tsc(clock), [client, server, ..]) => {
            found.latencies = latencies(clock, [*client, *server])?;
            if found.latencies.iter().any(|latency| latency.verdict == Verdict::Failed) {
                found.verdict = Verdict::Failed;
            }
        }
        (AnyClock::Tsc(_), _) => found.no_latencies = Some("it takes two CPUs, and this process is allowed one".into()),
        (AnyClock::Raw(_), _) => {
            found.no_latencies = Some(no_tsc.map_or_else(|| "there is no TSC".into(), |warning| warning.note().message));
        }
    }
    Ok(found)
}

/// The emulated NIC at each latency.
fn latencies(clock: Tsc, cpus: [u32; 2]) -> Result<Vec<Latency>, CheckError> {
    let mut rounds = [const { Vec::<Latency>::new() }; LATENCIES_NS.len()];
    for _ in 0..LATENCY_ROUNDS {
        for (declared_ns, into) in LATENCIES_NS.into_iter().zip(&mut rounds) {
            let count = (LATENCY_BLOCK_NS / (2 * declared_ns)).min(LATENCY_BLOCK);
            let own_ns = niq::own_ns(&clock, SHORTEST, SHORTEST, Nanos(declared_ns), count)?;
            let found = niq::proof(clock, cpus, Picos::from_ns(declared_ns as i64), SHORTEST, count)?;
            into.push(latency(declared_ns, own_ns, found));
        }
    }
    Ok(rounds.into_iter().map(middle).collect())
}

/// Holds one round's measurement against the sum of its parts.
fn latency(declared_ns: u64, own_ns: f64, found: niq::Latency) -> Latency {
    let sum_ns = 2.0 * declared_ns as f64 + found.turnaround_ns + own_ns;
    let error_ns = found.rtt_ns - sum_ns;
    Latency {
        declared_ns,
        turnaround_ns: tenths(found.turnaround_ns),
        own_ns: tenths(own_ns),
        sum_ns: tenths(sum_ns),
        measured_ns: tenths(found.rtt_ns),
        error_ns: tenths(error_ns),
        verdict: if error_ns.abs() <= LATENCY_BOUND_NS as f64 { Verdict::Passed } else { Verdict::Failed },
    }
}

/// The round with the middle error.
fn middle(mut rounds: Vec<Latency>) -> Latency {
    rounds.sort_by(|a, b| a.error_ns.total_cmp(&b.error_ns));
    rounds.swap_remove(rounds.len() / 2)
}

/// Measures the instrument with `clock`, and holds it against what `device` took.
pub fn check<C: Clock, D: Device>(clock: &C, device: &mut D) -> Result<Check, CheckError> {
    let (own_cost_ns, own_cost_least_ns) = own_cost(clock)?;
    let delays = delays(clock, device)?;
    let sound = delays.iter().all(|delay| delay.verdict == Verdict::Passed);
    Ok(Check {
        schema: SCHEMA.into(),
        tool: concat!("hairpin ", env!("CARGO_PKG_VERSION")).into(),
        verdict: if sound { Verdict::Passed } else { Verdict::Failed },
        clock: clock_facts(clock),
        own_cost_ns: tenths(own_cost_ns),
        own_cost_least_ns: tenths(own_cost_least_ns),
        bound_ns: BOUND_NS,
        delays,
        latency_bound_ns: LATENCY_BOUND_NS,
        latencies: Vec::new(),
        no_latencies: None,
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
fn block<E: Endpoint, C: Clock>(clock: &C, endpoint: &mut E, count: u64) -> io::Result<(u64, Vec<u64>)> {
    let every = every_rtt(endpoint, clock, Work::short(SIZE, SIZE, count))?;
    Ok((every.measured_ns, every.rtts_ns))
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
    fn a_latency_is_held_against_its_parts() {
        let found = |rtt_ns| latency(1_989, 84.7, niq::Latency { rtt_ns, turnaround_ns: 13.0 });
        let (right, late, early) = (found(4_095.7), found(4_095.8), found(4_055.6));
        assert_eq!((right.sum_ns, right.error_ns, right.verdict), (4_075.7, 20.0, Verdict::Passed));
        assert_eq!((late.verdict, early.verdict), (Verdict::Failed, Verdict::Failed));
        let rounds = vec![found(9_000.0), found(4_080.0), found(4_070.0)];
        assert_eq!(middle(rounds).measured_ns, 4_080.0);
    }

    #[test]
    fn one_disturbed_round_in_three_moves_nothing() {
        let mut rounds: Vec<(f64, f64)> = (0..25).map(|n| (500.0, if n % 3 == 0 { 9_000.0 } else { 502.0 })).collect();
        let delay = delay(500, &mut rounds);
        assert_eq!((delay.reported_ns, delay.error_ns, delay.verdict), (502.0, 2.0, Verdict::Passed));
    }
}
