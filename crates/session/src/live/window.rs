//! The recent past of a running row: the growth of its counters since an older reading.
//!
//! ```text
//!   start ── forgotten ──▶ base ── at least the window's length ──▶ now        growth = now - base
//! ```

use std::collections::VecDeque;

use hairpin_record::run::CpuSide;
use hairpin_units::Nanos;

/// The counters of a row since its start, or their growth.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Reading {
    /// Time from the start of the warm-up.
    pub(super) elapsed_ns: u64,
    pub(super) transactions: u64,
    pub(super) sent: u64,
    pub(super) lost: u64,
    /// Blocks over which two clocks disagreed.
    pub(super) suspects: u64,
    /// Time for which the probe stood still.
    pub(super) paused_ns: u64,
    pub(super) client: CpuSide,
    /// `None` while it is unknown.
    pub(super) server: Option<CpuSide>,
    /// The least and the greatest distance between the two cores, not since the start but since the reading before.
    pub(super) cores: Option<(u64, u64)>,
}

impl Reading {
    fn since(&self, base: &Reading) -> Reading {
        Reading {
            elapsed_ns: self.elapsed_ns.saturating_sub(base.elapsed_ns),
            transactions: self.transactions.saturating_sub(base.transactions),
            sent: self.sent.saturating_sub(base.sent),
            lost: self.lost.saturating_sub(base.lost),
            suspects: self.suspects.saturating_sub(base.suspects),
            paused_ns: self.paused_ns.saturating_sub(base.paused_ns),
            client: cpu_since(&self.client, &base.client),
            server: self.server.as_ref().zip(base.server.as_ref()).map(|(now, base)| cpu_since(now, base)),
            cores: self.cores,
        }
    }
}

/// The difference of the counters that warnings read.
fn cpu_since(now: &CpuSide, base: &CpuSide) -> CpuSide {
    let grown = |now: Option<u64>, base: Option<u64>| Some(now?.saturating_sub(base?));
    CpuSide {
        user_ns: now.user_ns.saturating_sub(base.user_ns),
        irq_ns: grown(now.irq_ns, base.irq_ns),
        softirq_ns: grown(now.softirq_ns, base.softirq_ns),
        foreign_ns: grown(now.foreign_ns, base.foreign_ns),
        switches_involuntary: now.switches_involuntary.saturating_sub(base.switches_involuntary),
        ..now.clone()
    }
}

/// The recent readings, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Window {
    kept: VecDeque<Reading>,
}

impl Window {
    /// The growth of the counters until `now`: since the last reading that is at least `length` old, or in a younger row
    /// since its start.
    pub(super) fn growth(&mut self, now: &Reading, length: Nanos) -> Reading {
        let start_ns = now.elapsed_ns.checked_sub(length.0);
        let is_old = |reading: &Reading| start_ns.is_some_and(|start_ns| reading.elapsed_ns <= start_ns);
        while self.kept.get(1).is_some_and(is_old) {
            self.kept.pop_front();
        }
        let base = self.kept.front().filter(|oldest| is_old(oldest));
        let inside = self.kept.iter().skip(usize::from(base.is_some())).chain([now]);
        let cores =
            inside.filter_map(|reading| reading.cores).reduce(|(near, far), (least, most)| (near.min(least), far.max(most)));
        Reading { cores, ..base.map_or_else(|| now.clone(), |base| now.since(base)) }
    }

    /// The reading kept last.
    pub(super) fn last(&self) -> Option<&Reading> {
        self.kept.back()
    }

    /// Keeps a reading as the base of later ones.
    pub(super) fn keep(&mut self, reading: Reading) {
        self.kept.push_back(reading);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTH: Nanos = Nanos::from_secs(60);

    /// Counters that grow steadily, as of both sides on this host.
    fn steady(second: u64) -> Reading {
        let cpu = |user_ns| CpuSide {
            cpus: vec![1],
            user_ns,
            irq_ns: Some(second * 10),
            softirq_ns: Some(second * 20),
            foreign_ns: Some(second * 30),
            switches_involuntary: second,
            ..CpuSide::default()
        };
        Reading {
            elapsed_ns: Nanos::from_secs(second).0,
            transactions: second * 100,
            sent: second * 101,
            lost: second,
            suspects: second,
            paused_ns: second,
            client: cpu(second * 1_000),
            server: Some(cpu(second * 2_000)),
            cores: Some((120, 130)),
        }
    }

    #[test]
    fn a_young_row_is_judged_whole_and_an_old_one_by_the_window() {
        let mut window = Window::default();
        for second in 1..=3_600 {
            let now = steady(second);
            assert_eq!(window.growth(&now, LENGTH), steady(second.min(60)), "after {second} s");
            window.keep(now);
            assert!(window.kept.len() <= 62, "{} readings are kept after {second} s", window.kept.len());
        }
    }

    #[test]
    fn growth_before_the_window_is_forgotten() {
        let mut window = Window::default();
        let mut growth = |second: u64| {
            let mut now = steady(second);
            now.lost += u64::from(second >= 100) * 7;
            now.paused_ns += u64::from(second >= 100) * 9;
            now.client.foreign_ns = now.client.foreign_ns.map(|ns| ns + u64::from(second >= 100) * 11);
            now.cores = if second == 100 { Some((90, 510)) } else { now.cores };
            let growth = window.growth(&now, LENGTH);
            window.keep(now);
            (growth.lost, growth.paused_ns, growth.client.foreign_ns, growth.cores)
        };
        let found: Vec<_> = (1..=200).map(&mut growth).collect();
        let (usual, disturbed) = ((60, 60, Some(1_800), Some((120, 130))), (67, 69, Some(1_811), Some((90, 510))));
        for (second, expected) in [(99, usual), (100, disturbed), (159, disturbed), (160, usual), (200, usual)] {
            assert_eq!(found[second - 1], expected, "after {second} s");
        }
    }

    #[test]
    fn a_counter_that_could_not_be_read_at_either_end_is_unknown() {
        let mut window = Window::default();
        let mut first = steady(1);
        (first.client.foreign_ns, first.server) = (None, None);
        assert_eq!(window.growth(&first, LENGTH), first, "since the start");
        window.keep(first);
        let growth = window.growth(&steady(61), LENGTH);
        assert_eq!((growth.client.foreign_ns, growth.client.irq_ns, growth.server), (None, Some(600), None));
    }

    #[test]
    fn a_gap_between_readings_lengthens_the_window() {
        let mut window = Window::default();
        for second in [1, 2, 50, 400] {
            window.keep(steady(second));
        }
        assert_eq!(window.growth(&steady(401), LENGTH).elapsed_ns, Nanos::from_secs(351).0);
    }
}
