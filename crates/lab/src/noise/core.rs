//! The stalls of one core, block by block.

use hairpin_record::histogram::Times;
use hairpin_record::noise::{CoreNoise, Stall};
use hairpin_sys::clock::{AnyClock, Clock};
use hairpin_trace::causes::Part;
use hairpin_trace::stalls::{self, Sums, UNKNOWN};
use hairpin_tune::activity::Activity;

use super::spin::Spun;

/// The longest stalls of a core that are kept one by one.
const LONGEST: usize = 16;

/// One core so far.
pub(super) struct Core {
    pub(super) noise: CoreNoise,
    turns: u64,
    times: Times,
    traced: Times,
    causes: Sums,
    /// Stolen time of all blocks, while it can be read.
    steal: Option<u64>,
}

impl Core {
    pub(super) fn new(cpu: u32) -> Core {
        let noise = CoreNoise { cpu, ..CoreNoise::default() };
        Core { noise, turns: 0, times: Times::new(), traced: Times::new(), causes: Sums::default(), steal: Some(0) }
    }

    /// Adds a block without hooks.
    pub(super) fn add(&mut self, spun: &Spun, clock: &AnyClock, at_ns: u64) {
        self.noise.duration_ns += clock.to_ns(spun.ended.since(spun.began));
        self.turns += spun.turns;
        for (from, to) in &spun.stalls {
            let ns = clock.to_ns(to.since(*from));
            self.times.record(ns);
            self.noise.lost_ns += ns;
            self.noise.above_1us += u64::from(ns > 1_000);
            self.noise.above_10us += u64::from(ns > 10_000);
            self.noise.above_100us += u64::from(ns > 100_000);
            self.keep(Stall { at_ns: at_ns + clock.to_ns(from.since(spun.began)), ns, ..Stall::default() });
        }
    }

    /// Adds a block with hooks; `parts` has the cause of each stall.
    pub(super) fn add_traced(&mut self, spun: &Spun, parts: &[Part], clock: &AnyClock, at_ns: u64) {
        self.noise.traced_ns += clock.to_ns(spun.ended.since(spun.began));
        for ((from, to), part) in spun.stalls.iter().zip(parts) {
            let ns = clock.to_ns(to.since(*from));
            self.traced.record(ns);
            self.causes.add(part);
            let (cause, who) = stalls::words(part);
            self.keep(Stall { at_ns: at_ns + clock.to_ns(from.since(spun.began)), ns, cause, who });
        }
    }

    /// Adds the kernel's counts over a block.
    pub(super) fn count(&mut self, meanwhile: Activity) {
        self.steal = self.steal.zip(meanwhile.steal_ns).map(|(sum, ns)| sum + ns);
        for (name, count) in meanwhile.interrupts.unwrap_or_default() {
            *self.noise.interrupts.entry(name).or_default() += count;
        }
    }

    pub(super) fn keep(&mut self, stall: Stall) {
        let longest = &mut self.noise.longest;
        if longest.len() < LONGEST || longest.last().is_some_and(|least| least.ns < stall.ns) {
            let at = longest.partition_point(|known| known.ns >= stall.ns);
            longest.insert(at, stall);
            longest.truncate(LONGEST);
        }
    }

    pub(super) fn finish(self, no_causes: Option<&str>) -> CoreNoise {
        let spun_ns = self.noise.duration_ns.saturating_sub(self.noise.lost_ns) as f64;
        let mut noise = CoreNoise {
            turn_ns: (10.0 * spun_ns / self.turns.max(1) as f64).round() / 10.0,
            stall_ns: self.times.quantiles(),
            histogram: self.times.encode(),
            traced_stall_ns: self.traced.quantiles(),
            causes: self.causes.causes(),
            steal_ns: self.steal,
            ..self.noise
        };
        if let Some(why) = no_causes {
            for stall in &mut noise.longest {
                (stall.cause, stall.who) = (UNKNOWN.into(), why.into());
            }
        }
        noise
    }
}
