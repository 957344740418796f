//! The main causes of all incidents of a row, in room that does not grow with them.

use std::cmp::Reverse;

use hairpin_record::explain::{Cause, Timeline};
use hairpin_units::Arrange;

/// Most causes with a name of their own. Beyond that the cause with the fewest incidents, as of a short-lived thread, counts
/// among the others of its kind.
const NAMED: usize = 64;
/// Incidents that are kept event by event.
const SLOWEST: usize = 3;
/// The name of the rest.
const OTHERS: &str = "others";

/// Causes, and the slowest incidents.
#[derive(Debug, Default)]
pub(super) struct Tally {
    causes: Vec<Cause>,
    /// Slowest first.
    pub(super) slowest: Vec<Timeline>,
    pub(super) last: Option<Timeline>,
}

impl Tally {
    /// Adds `cause.count` incidents of one main cause.
    pub(super) fn add(&mut self, cause: Cause) {
        let same = |known: &&mut Cause| known.cause == cause.cause && known.who == cause.who;
        if let Some(known) = self.causes.iter_mut().find(same) {
            (known.count, known.lost_ns) = (known.count + cause.count, known.lost_ns + cause.lost_ns);
            return;
        }
        if self.causes.len() >= NAMED && is_named(&cause) {
            let named = self.causes.iter().enumerate().filter(|(_, known)| is_named(known));
            // Among equals the oldest cause, so that a recurring one has time to recur.
            if let Some((least, _)) = named.min_by_key(|(_, known)| known.count) {
                let least = self.causes.remove(least);
                self.add(Cause { who: OTHERS.into(), ..least });
            }
        }
        self.causes.push(cause);
    }

    /// Keeps an incident's events if it is among the slowest, and the incident as the last one.
    pub(super) fn keep(&mut self, timeline: &Timeline) {
        if self.last.as_ref().is_none_or(|last| last.at_ns <= timeline.at_ns) {
            self.last = Some(Timeline { events: Vec::new(), cause: timeline.cause.clone(), ..*timeline });
        }
        let at = self.slowest.partition_point(|slower| slower.rtt_ns >= timeline.rtt_ns);
        if at < SLOWEST {
            self.slowest.insert(at, timeline.clone());
            self.slowest.truncate(SLOWEST);
        }
    }

    /// The causes, the most frequent first.
    pub(super) fn causes(&self) -> Vec<Cause> {
        let mut causes = self.causes.clone();
        causes.arrange_by_key(|cause| (Reverse(cause.count), Reverse(cause.lost_ns)));
        causes
    }
}

fn is_named(cause: &Cause) -> bool {
    !cause.who.is_empty() && cause.who != OTHERS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recurring_cause_keeps_its_name_among_thousands_that_came_once() {
        let mut tally = Tally::default();
        let mut add = |who: String| {
            tally.add(Cause { cause: "preempted".into(), who, count: 1, lost_ns: 10, advice: String::new() });
        };
        (0..1_000).for_each(|number| add(format!("cc1 (pid {number})")));
        for number in 1_000..2_000 {
            add(format!("cc1 (pid {number})"));
            if number % 10 == 0 {
                add("backup (pid 7)".into());
            }
        }
        let causes = tally.causes();
        let of = |who: &str| causes.iter().find(|cause| cause.who == who).map(|cause| (cause.count, cause.lost_ns));
        assert_eq!((of("backup (pid 7)"), of(OTHERS)), (Some((100, 1_000)), Some((2_000 - 63, 19_370))));
        assert_eq!(causes.iter().map(|cause| cause.count).sum::<u64>(), 2_100);
    }

    #[test]
    fn a_hundred_thousand_incidents_by_as_many_threads_take_the_room_of_a_few() {
        let mut tally = Tally::default();
        for number in 0..100_000_u64 {
            let who = format!("cc1 (pid {number})");
            let cause = ["preempted", "run queue wait", "timer"][number as usize % 3];
            tally.add(Cause { cause: cause.into(), who, count: 1, lost_ns: 10, advice: String::new() });
            let timeline =
                Timeline { rtt_ns: number % 99_991, at_ns: number, sequence: 0, cause: cause.into(), events: Vec::new() };
            tally.keep(&timeline);
        }
        let causes = tally.causes();
        assert!(causes.len() <= NAMED + 3, "{}", causes.len());
        assert_eq!(
            causes.iter().map(|cause| (cause.count, cause.lost_ns)).fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1)),
            (100_000, 1_000_000)
        );
        assert!(causes.is_sorted_by_key(|cause| Reverse(cause.count)) && causes[0].who == OTHERS);
        assert_eq!(tally.slowest.iter().map(|one| one.rtt_ns).collect::<Vec<_>>(), [99_990, 99_989, 99_988]);
        assert_eq!(tally.last.map(|one| one.at_ns), Some(99_999));
    }
}
