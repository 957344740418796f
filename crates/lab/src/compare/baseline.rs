//! A gate: measures the rows of a stored run anew, several times, and compares them with all runs of the baseline.

use hairpin_plan::job::Job;
use hairpin_record::compare::{Compare, CompareBody};
use hairpin_record::experiment::Figure;
use hairpin_record::head::Record;
use hairpin_record::run::{Row, Run};
use hairpin_units::Nanos;

use super::Limit;
use super::stored::{Named, StoredError, held};
use crate::ping;
use hairpin_session::error::RunError;
use hairpin_session::rows;
use hairpin_session::watch::Watcher;

/// The rows of a run, to be measured anew against all runs of its baseline.
#[derive(Debug)]
pub struct Baseline<'a> {
    /// The baseline's records with their names; the first one says what to measure.
    pub runs: &'a [(String, Run)],
    /// The plan, with the rows of [`jobs`].
    pub plan: &'a hairpin_session::plan::Plan,
    /// Number of measurements of the rows.
    pub anew: u32,
    pub limits: &'a [Limit],
    /// The figure that the verdict is about.
    pub figure: Figure,
    /// A difference of less than this share does not matter.
    pub margin: f64,
}

impl Baseline<'_> {
    /// Measures and compares, and does all of it once more if a threshold is crossed.
    ///
    /// # Errors
    /// The errors of a ping; and Ctrl-C, since half a run cannot support a gate.
    pub fn hold(&self, signals: &hairpin_sys::signal::Signals, watcher: &mut dyn Watcher) -> Result<Compare, StoredError> {
        let head = rows::begin::<CompareBody>(&self.plan.command);
        let body = self.judged(&mut || {
            let anew = ping::run(self.plan, signals, watcher)?;
            match (anew.head.interrupted, &anew.head.error) {
                (true, _) => Err(StoredError::Interrupted),
                (_, Some(why)) => {
                    let path = anew.results.last().map_or_else(|| "row".into(), |row| row.path.clone());
                    Err(RunError::Row { path, why: why.clone() }.into())
                }
                _ => Ok(anew),
            }
        })?;
        Ok(Record { head, body })
    }

    /// The same with runs from `measure`.
    pub(super) fn judged(&self, measure: &mut dyn FnMut() -> Result<Run, StoredError>) -> Result<CompareBody, StoredError> {
        let mut once = || {
            let anew: Vec<(String, Run)> = (1..=self.anew)
                .map(|time| Ok((format!("measured anew, {time} of {}", self.anew), measure()?)))
                .collect::<Result<_, StoredError>>()?;
            held(&named(self.runs), &named(&anew), self.figure, self.margin)
        };
        let mut record = once()?;
        record.thresholds = self.limits.iter().flat_map(|limit| limit.hold(&record)).collect();
        if record.thresholds.iter().any(|threshold| threshold.crossed) {
            let again = once()?;
            let again: Vec<_> = self.limits.iter().flat_map(|limit| limit.hold(&again)).collect();
            super::limit::confirm(&mut record.thresholds, &again);
        }
        Ok(record)
    }
}

/// Runs in the form that comparisons take.
pub fn named(runs: &[(String, Run)]) -> Vec<Named<'_>> {
    runs.iter().map(|(given, run)| (given.as_str(), run)).collect()
}

/// The rows of a run as jobs with the same durations; `template` supplies the fields that a record lacks.
///
/// # Errors
/// A row's path is unknown to this version, or emulated a declared device.
pub fn jobs(run: &Run, template: &Job) -> Result<Vec<Job>, StoredError> {
    let job = |row: &Row| {
        let bad = |why: String| StoredError::Row { path: row.path.clone(), why };
        if row.niq.as_ref().is_some_and(|niq| niq.nic.is_some()) {
            return Err(bad("its record does not say the whole of the declared link that was emulated".into()));
        }
        let bytes = |bytes: u64| u32::try_from(bytes).map_err(|_| bad(format!("{bytes} bytes are no payload")));
        Ok(Job {
            spec: row.path.parse().map_err(|error: hairpin_plan::spec::SpecError| bad(error.to_string()))?,
            request: bytes(row.request_bytes)?,
            reply: bytes(row.reply_bytes)?,
            flows: row.flows,
            threads: row.threads,
            outstanding: row.outstanding,
            pace: row.pace_per_s,
            duration: Some(Nanos(row.duration_ns.saturating_add(row.gap_ns))),
            count: None,
            ..template.clone()
        })
    };
    run.results.iter().map(job).collect()
}

#[cfg(test)]
mod tests {
    use hairpin_record::run::Block;

    use super::super::stored::tests::{row, run};
    use super::*;
    use crate::experiment::random::Random;

    /// Deviation between runs of the same path, of logarithms. In the records of `make bench-peers` the medians of 80 runs of
    /// 0.25 s, within one state of the cores, deviate by 0.011 to 0.042 on spinning paths (robust standard deviations), by 0.017
    /// on the median path; longer runs deviate less.
    const RUNS_DIFFER: f64 = 0.015;
    /// Deviation between the blocks of a run.
    const BLOCKS_DIFFER: f64 = 0.005;
    const BLOCKS: usize = 40;
    const GATES: usize = 200;
    const RUNS: usize = 10;

    /// A host on which each run has a deviation of its own.
    struct Host(Random);

    impl Host {
        fn normal(&mut self) -> f64 {
            (0..12).map(|_| (self.0.next() >> 11) as f64 / (1u64 << 53) as f64).sum::<f64>() - 6.0
        }

        fn run(&mut self, p50: f64) -> Run {
            let mood = RUNS_DIFFER * self.normal();
            // One run in five is in the other state of the cores, one in five changes state on the way.
            let (far, changes) = (self.0.next() % 5, self.0.next().is_multiple_of(5));
            let mut measured = row("udp:spin/udp:spin", std::iter::empty(), 120);
            measured.blocks = (0..BLOCKS)
                .map(|at| {
                    let far = (far == 0) != (changes && at > BLOCKS / 2);
                    let ns = p50 * if far { 1.25 } else { 1.0 } * (mood + BLOCKS_DIFFER * self.normal()).exp();
                    Block {
                        count: 20_000,
                        p50: Some(ns as u64),
                        p99: Some((2.0 * ns) as u64),
                        duration_ns: Some(20_000 * ns as u64),
                        core_rtt_ns: Some(if far { 500 } else { 120 }),
                        ..Block::default()
                    }
                })
                .collect();
            run(vec![measured])
        }
    }

    fn plan() -> hairpin_session::plan::Plan {
        hairpin_session::plan::Plan {
            target: hairpin_session::plan::Target::Link(hairpin_session::link::LinkSpec::Loopback),
            ipv6: false,
            rows: Vec::new(),
            raw: None,
            shown: Vec::new(),
            floor: None,
            command: Vec::new(),
        }
    }

    /// Out of `runs` gates, each with its own baseline: how many close on `limit` if the work is slower by
    /// `slower`, and how many cannot tell.
    fn closed(runs: usize, anew: u32, slower: f64, limit: &str) -> [usize; 2] {
        let (plan, limits) = (plan(), [limit.parse().unwrap()]);
        let mut count = [0, 0];
        for seed in 0..GATES {
            let mut host = Host(Random::new(seed as u64));
            let runs: Vec<(String, Run)> = (0..runs).map(|at| (format!("run {at}"), host.run(5_000.0))).collect();
            let gate = Baseline { runs: &runs, plan: &plan, anew, limits: &limits, figure: Figure::P50, margin: 0.02 };
            let found = gate.judged(&mut || Ok(host.run(5_000.0 * slower))).unwrap();
            count[0] += usize::from(found.thresholds[0].crossed);
            count[1] += usize::from(found.thresholds[0].unknown.is_some());
        }
        count
    }

    #[test]
    fn without_a_change_a_gate_hardly_ever_closes() {
        // The strictest possible threshold: anything above zero.
        for (runs, anew) in [(RUNS, super::super::ANEW), (RUNS, 1), (3, super::super::ANEW), (1, super::super::ANEW)] {
            let [alarms, unknown] = closed(runs, anew, 1.0, "p50 > +0%");
            assert!(alarms <= 4, "{alarms} of {GATES} with {runs} runs of the baseline, {anew} anew");
            // Now and then a run of the baseline is in a state of the cores in which no new run is.
            assert!(runs == 1 || unknown <= GATES / 20, "{unknown} of {GATES} with {runs} runs of the baseline, {anew} anew");
        }
    }

    #[test]
    fn a_change_of_five_percent_is_found() {
        let [found, _] = closed(RUNS, super::super::ANEW, 1.05, "p50 > +0%");
        assert!(found * 100 >= 95 * GATES, "{found} of {GATES}");
    }

    #[test]
    fn blocks_of_one_run_each_would_have_closed_many_gates() {
        let alarms = (0..GATES).filter(|seed| {
            let mut host = Host(Random::new(*seed as u64));
            let logs = |run: &Run| run.results[0].blocks.iter().map(|block| (block.p50.unwrap() as f64).ln()).collect::<Vec<_>>();
            let mut near = || {
                (0..)
                    .map(|_| host.run(5_000.0))
                    .find(|run| run.results[0].blocks.iter().all(|b| b.core_rtt_ns == Some(120)))
                    .unwrap()
            };
            let (then, now, again) = (near(), near(), near());
            let slower = |now: &Run| hairpin_record::paired::apart(&logs(&then), &logs(now), 0.99).unwrap().low > 0.0;
            slower(&now) && slower(&again)
        });
        let alarms = alarms.count();
        assert!(alarms > 40, "{alarms} of {GATES}");
        // A gate with one run on either side reports that it cannot tell.
        assert_eq!(closed(1, 1, 1.0, "p50 > +0%"), [0, GATES]);
    }

    #[test]
    fn rows_become_jobs_again() {
        let template = hairpin_plan::job::Job::new("tcp".parse().unwrap());
        let mut stored = row("udp:spin/udp:spin", [5_000; 3].into_iter(), 120);
        (stored.reply_bytes, stored.flows, stored.threads, stored.outstanding) = (128, 2, 1, 1);
        (stored.duration_ns, stored.gap_ns) = (900_000_000, 100_000_000);
        let jobs = jobs(&run(vec![stored]), &template).unwrap();
        assert_eq!((jobs[0].request, jobs[0].reply, jobs[0].flows), (64, 128, 2));
        assert_eq!(jobs[0].duration, Some(Nanos::from_secs(1)));
        assert_eq!(jobs[0].spec.to_string(), "udp:spin/udp:spin");
    }
}
