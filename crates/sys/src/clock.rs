//! The clock behind every stamp: the CPU's counter if it can be trusted, otherwise CLOCK_MONOTONIC_RAW; and its relation to the
//! kernel's clocks.
//!
//! ```text
//!               start()                 the work                 stop()
//!   x86-64    rdtsc ; lfence    ──▶  send … wait … receive  ──▶  rdtscp
//!   arm64     mrs cntvct ; isb                                   isb ; mrs cntvct
//!             nothing after it                                   everything before it
//!             begins before it                                   has ended before it
//! ```
//! So the send call and the return of the receive always lie inside. Instructions after `stop()` may begin before the counter is
//! read; they are not measured, and a fence there would only add cost. A [`Relation`] reads the kernel's clocks between two
//! ticks, so that stamps of other sources (BPF: CLOCK_MONOTONIC, sockets: CLOCK_REALTIME) can be converted, and blocks in which
//! the clocks disagree can be detected.

mod any;
#[cfg_attr(target_arch = "x86_64", path = "clock/x86_64.rs")]
#[cfg_attr(target_arch = "aarch64", path = "clock/aarch64.rs")]
#[cfg_attr(not(any(target_arch = "x86_64", target_arch = "aarch64")), path = "clock/elsewhere.rs")]
mod arch;
mod step;

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::time::{ClockId, clock_gettime};

use crate::host::{Host, RealHost};

pub use self::any::AnyClock;

/// A reading of a [`Clock`]: ticks of that clock, comparable only with ticks of the same clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticks(pub u64);

impl Ticks {
    /// Later than every reading.
    pub const NEVER: Ticks = Ticks(u64::MAX);

    /// Ticks since `earlier`; 0 if `earlier` is later.
    #[inline]
    pub fn since(self, earlier: Ticks) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// This reading plus `ticks`; never wraps.
    #[inline]
    pub fn plus(self, ticks: u64) -> Ticks {
        Ticks(self.0.saturating_add(ticks))
    }
}

/// A source of stamps.
pub trait Clock: Clone + Send + Sync {
    /// The stamp before a measured interval: later instructions start after it.
    fn start(&self) -> Ticks;
    /// The stamp after a measured interval: earlier instructions have ended before it.
    fn stop(&self) -> Ticks;
    /// A reading without ordering, for deadlines.
    fn now(&self) -> Ticks;
    /// Ticks per nanosecond.
    fn rate(&self) -> f64;
    /// Name in a record: `tsc`, `cntvct`, `monotonic_raw`.
    fn source(&self) -> &'static str;

    /// Step of the clock in ticks: no reading is nearer to the truth.
    fn step(&self) -> u64 {
        1
    }

    /// Sleeps until this clock shows `until`; returns early on a signal.
    fn sleep_until(&self, until: Ticks) {
        let left = self.to_ns(until.since(self.now()));
        crate::thread::sleep_until(monotonic_ns() + left);
    }

    /// Converts ticks to ns, rounded.
    #[inline]
    fn to_ns(&self, ticks: u64) -> u64 {
        (ticks as f64 / self.rate()).round() as u64
    }

    /// Converts ns to ticks, rounded; saturates.
    #[inline]
    fn to_ticks(&self, ns: u64) -> u64 {
        (ns as f64 * self.rate()).round() as u64
    }
}

/// The CPU's counter: the time-stamp counter of x86-64, or the virtual counter of arm64's generic timer.
#[derive(Clone, Copy, Debug)]
pub struct Tsc {
    ticks_per_ns: f64,
    step: u64,
}

/// CLOCK_MONOTONIC_RAW as a [`Clock`] of 1 tick per ns, for hosts without a trustworthy counter.
#[derive(Clone, Copy, Debug)]
pub struct MonotonicRaw;

/// The kernel's choice of clock.
const CLOCKSOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
/// The clocks that the kernel may choose.
const AVAILABLE: &str = "/sys/devices/system/clocksource/clocksource0/available_clocksource";

/// Reason not to use the CPU's counter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoTsc {
    /// Hairpin reads the counters of x86-64 and arm64 only.
    #[error("no counter of this CPU is known to Hairpin")]
    NoneHere,
    /// The rate follows the CPU's clock or stops in idle states (CPUID 0x80000007, EDX bit 8).
    #[error("the TSC is not invariant")]
    NotInvariant,
    /// The kernel's watchdog found it wrong, or the kernel never trusted it.
    #[error("the kernel uses clock source {0}")]
    KernelDistrusts(String),
    /// The kernel's clock source corrects the counter for each CPU, and the kernel does not offer the counter alone.
    #[error("the kernel uses clock source {0} and has dropped the CPU's counter from the available ones")]
    KernelDropped(String),
    /// The kernel's clock source is unknown.
    #[error("whether the kernel trusts the CPU's counter is not known: {CLOCKSOURCE} cannot be read; mount sysfs on /sys")]
    KernelUnread,
}

impl Tsc {
    /// Checks that the counter runs at one rate and that the kernel's own clock source (`current_clocksource` in sysfs) trusts
    /// it, then compares it with CLOCK_MONOTONIC_RAW for 10 ms. The rate is the one that the hardware states where that agrees to
    /// within 0.1 %, otherwise the measured one.
    pub fn calibrate() -> Result<Tsc, NoTsc> {
        let read = |path| RealHost.read(path).unwrap_or_default();
        Self::calibrate_under(read(CLOCKSOURCE).trim(), &read(AVAILABLE))
    }

    /// As [`Tsc::calibrate`], with the clock source and the available ones given; empty if they could not be read.
    fn calibrate_under(clocksource: &str, available: &str) -> Result<Tsc, NoTsc> {
        arch::usable()?;
        if clocksource.is_empty() {
            return Err(NoTsc::KernelUnread);
        }
        if !arch::TRUSTED.contains(&clocksource) {
            return Err(NoTsc::KernelDistrusts(clocksource.into()));
        }
        if arch::PER_CPU.contains(&clocksource) && !available.split_whitespace().any(|name| name == arch::NAME) {
            return Err(NoTsc::KernelDropped(clocksource.into()));
        }
        let provisional = Tsc { ticks_per_ns: 1.0, step: 1 };
        let step = step_of(&provisional);
        let first = Relation::read(&provisional);
        std::thread::sleep(std::time::Duration::from_millis(10));
        let measured = Relation::read(&provisional).rate_since(&first);
        let stated = arch::stated_rate().filter(|stated| (stated / measured - 1.0).abs() < 0.001);
        Ok(Tsc { ticks_per_ns: stated.unwrap_or(measured), step })
    }

    /// The same counter by another calibration, in ticks per nanosecond.
    #[must_use]
    pub fn at_rate(self, ticks_per_ns: f64) -> Tsc {
        Tsc { ticks_per_ns, ..self }
    }
}

fn step_of<C: Clock>(clock: &C) -> u64 {
    step::of_readings(&step::readings(clock)).round().max(1.0) as u64
}

impl Clock for Tsc {
    #[inline(always)]
    fn start(&self) -> Ticks {
        Ticks(arch::start())
    }

    #[inline(always)]
    fn stop(&self) -> Ticks {
        Ticks(arch::stop())
    }

    #[inline(always)]
    fn now(&self) -> Ticks {
        Ticks(arch::now())
    }

    #[inline]
    fn rate(&self) -> f64 {
        self.ticks_per_ns
    }

    fn source(&self) -> &'static str {
        arch::NAME
    }

    fn step(&self) -> u64 {
        self.step
    }
}

impl Clock for MonotonicRaw {
    #[inline]
    fn start(&self) -> Ticks {
        Ticks(kernel_ns(ClockId::MonotonicRaw))
    }

    #[inline]
    fn stop(&self) -> Ticks {
        Ticks(kernel_ns(ClockId::MonotonicRaw))
    }

    #[inline]
    fn now(&self) -> Ticks {
        Ticks(kernel_ns(ClockId::MonotonicRaw))
    }

    #[inline]
    fn rate(&self) -> f64 {
        1.0
    }

    fn source(&self) -> &'static str {
        "monotonic_raw"
    }

    fn step(&self) -> u64 {
        static STEP: OnceLock<u64> = OnceLock::new();
        *STEP.get_or_init(|| step_of(self))
    }
}

/// Waits until all earlier instructions, loads and store fences included, have ended. Otherwise they could reach into the
/// interval of a following [`Clock::start`], whose reading of the counter might overtake them. No wait on CPUs whose counter
/// Hairpin does not read.
#[inline(always)]
pub fn settle() {
    arch::settle();
}

/// CLOCK_MONOTONIC in ns: the clock of BPF stamps and of `sleep_until`.
pub fn monotonic_ns() -> u64 {
    kernel_ns(ClockId::Monotonic)
}

pub(crate) fn kernel_ns(clock: ClockId) -> u64 {
    let t = clock_gettime(clock);
    (t.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(t.tv_nsec as u64)
}

/// Readings of the kernel's clocks at one tick, each taken between two ticks and assigned to their middle.
#[derive(Clone, Copy, Debug)]
pub struct Relation {
    /// The tick at which CLOCK_MONOTONIC_RAW showed `raw_ns`.
    pub ticks: Ticks,
    /// CLOCK_MONOTONIC_RAW at `ticks`.
    pub raw_ns: u64,
    /// CLOCK_MONOTONIC minus CLOCK_MONOTONIC_RAW, in ns; changes as NTP slews.
    pub monotonic_less_raw_ns: i64,
    /// CLOCK_REALTIME minus CLOCK_MONOTONIC_RAW, in ns; changes as NTP slews or the clock is set.
    pub realtime_less_raw_ns: i64,
    /// Ticks between the two readings around CLOCK_MONOTONIC_RAW, at least a step of the clock; the error is at most half of it
    /// and a step.
    pub width: u64,
    /// Step of the clock in ns.
    pub step_ns: f64,
}

/// Clocks that differ by more than this disagree, in ns, if they have finer steps than a third of it.
const TOLERANCE_NS: f64 = 50.0;

impl Relation {
    /// Reads each clock in the narrowest of several brackets; about 1 us in total.
    pub fn read<C: Clock>(clock: &C) -> Relation {
        let raw = bracket(clock, ClockId::MonotonicRaw);
        let offset = |id| {
            let other = bracket(clock, id);
            let raw_then = raw.ns as i128 + ((other.middle as i128 - raw.middle as i128) as f64 / clock.rate()) as i128;
            (other.ns as i128 - raw_then) as i64
        };
        Relation {
            ticks: Ticks(raw.middle),
            raw_ns: raw.ns,
            monotonic_less_raw_ns: offset(ClockId::Monotonic),
            realtime_less_raw_ns: offset(ClockId::Realtime),
            width: raw.width.max(clock.step()),
            step_ns: clock.step() as f64 / clock.rate(),
        }
    }

    /// Ticks per ns since `earlier`.
    pub fn rate_since(&self, earlier: &Relation) -> f64 {
        self.ticks.since(earlier.ticks) as f64 / self.raw_ns.saturating_sub(earlier.raw_ns).max(1) as f64
    }

    /// Difference in ns between CLOCK_MONOTONIC_RAW and its value predicted from the ticks since `from`, at the rate between
    /// `origin` and `from`.
    pub fn disagreement_ns(&self, origin: &Relation, from: &Relation) -> f64 {
        let expected = self.ticks.since(from.ticks) as f64 / from.rate_since(origin);
        (self.raw_ns.saturating_sub(from.raw_ns) as f64 - expected).abs()
    }

    /// The difference in ns beyond which clocks disagree: 50 ns, or three steps of a coarse clock, such as 125 ns at the 24 MHz
    /// of many arm64 machines. A reading of either end is wrong by up to a step, and so is the rate between them.
    pub fn tolerance_ns(&self) -> f64 {
        TOLERANCE_NS.max(3.0 * self.step_ns)
    }

    /// True if the clocks disagree; arguments as of [`Relation::disagreement_ns`].
    pub fn disagrees(&self, origin: &Relation, from: &Relation) -> bool {
        self.disagreement_ns(origin, from) > self.tolerance_ns()
    }
}

/// A reading of one of the kernel's clocks between two ticks, in ticks and ns.
pub(crate) struct Bracket {
    pub(crate) middle: u64,
    pub(crate) ns: u64,
    pub(crate) width: u64,
}

/// The narrowest of several readings.
pub(crate) fn bracket<C: Clock>(clock: &C, id: ClockId) -> Bracket {
    let read = || {
        let before = clock.stop();
        let ns = kernel_ns(id);
        let after = clock.stop();
        Bracket { middle: before.0 + after.since(before) / 2, ns, width: after.since(before) }
    };
    let mut best = read();
    for _ in 0..7 {
        let next = read();
        if next.width < best.width {
            best = next;
        }
    }
    best
}

/// Cost of a pair of stamps and step of the clock, both in ns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quality {
    /// Median of stop − start with nothing in between.
    pub cost_ns: f64,
    /// Step of the clock: nearly all differences of two readings are multiples of it. 0 if the clock was not seen to move.
    pub step_ns: f64,
}

impl Quality {
    /// Measures a clock: takes some hundred microseconds, or up to a tenth of a second for a clock that seldom moves.
    pub fn measure<C: Clock>(clock: &C) -> Quality {
        let mut costs: Vec<u64> = (0..501).map(|_| (clock.start(), clock.stop())).map(|(a, b)| b.since(a)).collect();
        costs.sort_unstable();
        let step = step::of_readings(&step::readings(clock));
        Quality { cost_ns: costs[250] as f64 / clock.rate(), step_ns: step / clock.rate() }
    }
}

/// A clock for tests: it moves only when told to, or by a fixed step at each reading.
#[derive(Clone, Debug, Default)]
pub struct FakeClock {
    now: std::sync::Arc<AtomicU64>,
    step: u64,
}

impl FakeClock {
    /// A clock that advances by `step` ns at each reading.
    pub fn stepping(step: u64) -> FakeClock {
        FakeClock { now: Default::default(), step }
    }

    /// Advances the clock by `ns`.
    pub fn advance(&self, ns: u64) {
        self.now.fetch_add(ns, Ordering::Relaxed);
    }
}

impl Clock for FakeClock {
    fn start(&self) -> Ticks {
        Ticks(self.now.fetch_add(self.step, Ordering::Relaxed))
    }

    fn stop(&self) -> Ticks {
        self.start()
    }

    fn now(&self) -> Ticks {
        self.start()
    }

    fn rate(&self) -> f64 {
        1.0
    }

    fn source(&self) -> &'static str {
        "fake"
    }

    fn sleep_until(&self, until: Ticks) {
        self.now.fetch_max(until.0, Ordering::Relaxed);
    }
}

impl fmt::Display for Ticks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn the_counter_agrees_with_the_kernel() {
        let tsc = match Tsc::calibrate() {
            Ok(tsc) => tsc,
            Err(why) => {
                // Bypasses the test harness, which hides the output of passed tests.
                let _ = writeln!(std::io::stderr(), "the_counter_agrees_with_the_kernel: SKIPPED: {why}");
                assert!(std::env::var("HAIRPIN_MUST_RUN").as_deref() != Ok("1"), "{why}");
                return;
            }
        };
        let before = Relation::read(&tsc);
        std::thread::sleep(std::time::Duration::from_millis(20));
        let after = Relation::read(&tsc);
        let by_tsc = tsc.to_ns(after.ticks.since(before.ticks)) as f64;
        let by_kernel = (after.raw_ns - before.raw_ns) as f64;
        assert!((by_tsc / by_kernel - 1.0).abs() < 100e-6, "{by_tsc} {by_kernel}");
        assert!(monotonic_ns().abs_diff((after.raw_ns as i64 + after.monotonic_less_raw_ns) as u64) < 1_000_000_000);
    }

    #[test]
    fn a_distrusted_counter_is_refused_with_the_reason() {
        if arch::usable().is_ok() {
            let refused = |clocksource: &str, available: &str| Tsc::calibrate_under(clocksource, available).unwrap_err();
            assert_eq!(refused("hpet", "tsc hpet"), NoTsc::KernelDistrusts("hpet".into()));
            assert_eq!(refused("", ""), NoTsc::KernelUnread, "what cannot be read is no reason to trust");
            for clocksource in arch::PER_CPU {
                assert_eq!(refused(clocksource, &format!("{clocksource} acpi_pm ")), NoTsc::KernelDropped((*clocksource).into()));
                assert!(Tsc::calibrate_under(clocksource, &format!("{clocksource} tsc acpi_pm ")).is_ok());
            }
            if let Some(counter) = arch::TRUSTED.first() {
                assert!(Tsc::calibrate_under(counter, "").is_ok(), "the kernel's clock is the counter itself");
            }
        }
    }

    #[test]
    fn disagreement_of_two_clocks() {
        let at = |ticks, raw_ns| Relation {
            ticks: Ticks(ticks),
            raw_ns,
            monotonic_less_raw_ns: 0,
            realtime_less_raw_ns: 0,
            width: 0,
            step_ns: 0.4,
        };
        let (origin, from) = (at(0, 0), at(2_000_000, 1_000_000));
        assert_eq!(at(2_200_000, 1_100_000).disagreement_ns(&origin, &from), 0.0);
        assert_eq!(at(2_200_000, 1_100_051).disagreement_ns(&origin, &from), 51.0);
        let disagrees = |raw_ns| at(2_200_000, raw_ns).disagrees(&origin, &from);
        assert!(disagrees(1_100_051) && !disagrees(1_100_050));
    }

    #[test]
    fn a_counter_of_24_mhz_is_not_suspect_for_its_step() {
        let step_ns = 1_000.0 / 24.0;
        // The kernel reads the same counter, up to a step later.
        let later = |now: u64| now + now.wrapping_mul(0x9e37_79b9_7f4a_7c15) % 42;
        let at = |now: u64| Relation {
            ticks: Ticks((now as f64 / step_ns) as u64),
            raw_ns: ((later(now) as f64 / step_ns).floor() * step_ns) as u64,
            monotonic_less_raw_ns: 0,
            realtime_less_raw_ns: 0,
            width: 1,
            step_ns,
        };
        let mut most: f64 = 0.0;
        for n in 0..2_000_u64 {
            let (origin, from) = (at(7 * n), at(300_000_000 + 11 * n));
            let to = at(400_000_000 + 1_013 * n);
            most = most.max(to.disagreement_ns(&origin, &from));
            assert!(!to.disagrees(&origin, &from), "{n}: {}", to.disagreement_ns(&origin, &from));
        }
        assert!(most > TOLERANCE_NS, "what a fixed tolerance would mark: {most}");
        let late = Relation { raw_ns: 400_000_250, ..at(400_000_000) };
        assert!(late.disagrees(&at(0), &at(300_000_000)), "a real jump is seen");
    }

    #[test]
    fn a_relation_is_no_narrower_than_a_step() {
        let relation = Relation::read(&FakeClock::default());
        assert_eq!((relation.width, relation.step_ns), (1, 1.0), "it stands still");
        assert!(MonotonicRaw.step() >= 1 && Relation::read(&MonotonicRaw).width >= MonotonicRaw.step());
    }

    #[test]
    fn stamps_cost_little_and_step() {
        let quality = Quality::measure(&MonotonicRaw);
        assert!(quality.cost_ns > 0.0 && quality.step_ns >= 1.0, "{quality:?}");
        assert_eq!(Quality::measure(&FakeClock::stepping(7)), Quality { cost_ns: 7.0, step_ns: 7.0 });
        assert_eq!(Quality::measure(&FakeClock::default()), Quality { cost_ns: 0.0, step_ns: 0.0 }, "it stands still");
    }

    #[test]
    fn conversions_round_and_saturate() {
        let tsc = Tsc { ticks_per_ns: 2.5, step: 1 };
        assert_eq!((tsc.to_ns(25), tsc.to_ticks(10)), (10, 25));
        assert_eq!(tsc.to_ticks(u64::MAX), u64::MAX);
    }
}
