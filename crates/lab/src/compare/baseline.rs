//! A gate: measures the rows of a stored run anew, several times, and compares them with all runs of the baseline.

use std::ops::RangeInclusive;

use hairpin_plan::job::{Job, Sides};
use hairpin_record::compare::{Compare, CompareBody};
use hairpin_record::experiment::Figure;
use hairpin_record::head::Record;
use hairpin_record::run::{Row, Run};
use hairpin_units::Nanos;

use super::between::Spread;
use super::stored::{Named, StoredError, asked, held};
use super::{Limit, limit};
use crate::ping;
use hairpin_session::error::RunError;
use hairpin_session::printable::printable;
use hairpin_session::rows;
use hairpin_session::watch::Watcher;

/// A gate whose threshold is crossed is measured again until there are this many measurements for each one before that.
const AGAIN: u32 = 3;

/// The rows of a run, to be measured anew against all runs of its baseline.
#[derive(Debug)]
pub struct Baseline<'a> {
    /// The baseline's records with their names; the first one decides what is measured.
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
    /// Measures and compares. If a threshold is crossed, the rows are measured twice as often once more: it stays crossed where
    /// the second measurement crosses it too, and both together do, with moods of the host in the interval.
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

    /// The comparison of [`Baseline::hold`], with runs from `measure`.
    pub(super) fn judged(&self, measure: &mut dyn FnMut() -> Result<Run, StoredError>) -> Result<CompareBody, StoredError> {
        let mut measured = |times: RangeInclusive<u32>| {
            let one = |time: u32| Ok((format!("measured anew, {time}"), measure()?));
            times.map(one).collect::<Result<Vec<(String, Run)>, StoredError>>()
        };
        let compared = |anew: &[(String, Run)], spread| held(&named(self.runs), &named(anew), self.figure, self.margin, spread);
        let held_to = |record: &CompareBody| self.limits.iter().flat_map(|limit| limit.hold(record)).collect::<Vec<_>>();

        let mut anew = measured(1..=self.anew)?;
        let first = held_to(&compared(&anew, Spread::Pooled)?);
        let again = if first.iter().any(|threshold| threshold.crossed) {
            let more = measured(self.anew + 1..=AGAIN * self.anew)?;
            let again = held_to(&compared(&more, Spread::Pooled)?);
            anew.extend(more);
            Some(again)
        } else {
            None
        };
        let mut record = compared(&anew, Spread::WithMoods)?;
        record.thresholds = held_to(&record);
        for (at, threshold) in record.thresholds.iter_mut().enumerate() {
            let mut twice = [first[at].clone()];
            if let Some(again) = &again {
                limit::confirm(&mut twice, &again[at..=at]);
            }
            let [twice] = twice;
            threshold.confirmed = twice.confirmed;
            if threshold.crossed && !twice.crossed {
                threshold.not_excluded = twice.not_excluded;
            }
            threshold.crossed &= twice.crossed;
            threshold.unknown = threshold.unknown.take().or(twice.unknown);
        }
        Ok(record)
    }
}

/// Runs in the form that comparisons take. One that is given twice, as by its id and as `latest`, is one draw: it says nothing of
/// how much runs differ.
pub fn named(runs: &[(String, Run)]) -> Vec<Named<'_>> {
    let is_new = |at: usize| runs[..at].iter().all(|(_, before)| *before != runs[at].1);
    let new = runs.iter().enumerate().filter(|(at, _)| is_new(*at));
    new.map(|(_, (given, run))| (given.as_str(), run)).collect()
}

/// The rows of a run as jobs with the same durations; `template` supplies the fields that a record lacks, and may have other
/// CPUs. `stack` says whether a library takes the place of the kernel's sockets.
///
/// # Errors
/// A row's path is unknown to this version, or emulated a declared device; the row had such a library, and `stack` is false; it
/// had another request of the user's own than `template`, or TLS where that has none, or none where that has; or its record does
/// not say how long it took.
pub fn jobs(run: &Run, template: &Job, stack: bool) -> Result<Vec<Job>, StoredError> {
    let job = |row: &Row| {
        let bad = |why: String| StoredError::Row { path: row.path.clone(), why };
        let took = row.duration_ns.saturating_add(row.gap_ns);
        if took == 0 {
            return Err(bad("its record does not say how long it was measured: take a run of ping or demo".into()));
        }
        if row.niq.as_ref().is_some_and(|niq| niq.nic.is_some()) {
            return Err(bad("its record does not say the whole of the declared link that was emulated".into()));
        }
        if row.reply.is_some() {
            return Err(bad("it is of a group: measure it again with ping --group, and compare the two runs".into()));
        }
        if let Some(used) = row.stack.as_ref().and_then(|stacks| stacks.client.as_ref()).filter(|_| !stack) {
            let (name, library) = (&used.name, &used.library);
            return Err(bad(format!("{name} was in the place of the kernel's sockets: add --stack {library}")));
        }
        let (then, now) = (asked(row.own_request.as_deref()), template.own.as_ref());
        if then != now.map(|own| (own.name.clone(), own.end.to_string())) {
            return Err(bad(match then {
                Some((request, until)) => {
                    // The record may come from elsewhere.
                    let [request, until] = [request, until].map(|text| printable(&text, 200));
                    format!("it asked {request}, until {until}: write the same with --request and --reply")
                }
                None => "it had no request of your own: leave out --request".into(),
            }));
        }
        let over_tls = row.own_request.as_ref().is_some_and(|own| own.tls.is_some());
        if over_tls != now.is_some_and(|own| own.tls.is_some()) {
            return Err(bad(
                if over_tls { "it asked over TLS: add --tls" } else { "it asked without TLS: leave out --tls" }.into()
            ));
        }
        let server = row.cpu.server.as_ref().and_then(|server| server.cpus.first());
        let bytes = |bytes: u64| u32::try_from(bytes).map_err(|_| bad(format!("{bytes} bytes are no payload")));
        Ok(Job {
            spec: row.path.parse().map_err(|error: hairpin_plan::spec::SpecError| bad(error.to_string()))?,
            request: bytes(row.request_bytes)?,
            reply: bytes(row.reply_bytes)?,
            flows: row.flows,
            threads: row.threads,
            outstanding: row.outstanding,
            pace: row.pace_per_s,
            duration: Some(Nanos(took)),
            count: None,
            cpus: Sides {
                client: template.cpus.client.or(row.cpu.client.cpus.first().copied()),
                server: template.cpus.server.or(server.copied()),
            },
            ..template.clone()
        })
    };
    run.results.iter().map(job).collect()
}

#[cfg(test)]
mod tests {
    use hairpin_plan::request::{ReplyEnd, Request};
    use hairpin_record::run::{Block, CpuSide, OwnRequest};
    use hairpin_record::stack::{Stack, Stacks};

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

    /// A host on which each run has a deviation of its own, and each time of day another.
    struct Host {
        random: Random,
        mood: f64,
    }

    impl Host {
        fn normal(&mut self) -> f64 {
            (0..12).map(|_| (self.random.next() >> 11) as f64 / (1u64 << 53) as f64).sum::<f64>() - 6.0
        }

        fn run(&mut self, p50: f64) -> Run {
            let own = RUNS_DIFFER * self.normal();
            // One run in five is in the other state of the cores, one in five changes state on the way.
            let (far, changes) = (self.random.next() % 5, self.random.next().is_multiple_of(5));
            let mut measured = row("udp:spin/udp:spin", std::iter::empty(), 120);
            measured.blocks = (0..BLOCKS)
                .map(|at| {
                    let far = (far == 0) != (changes && at > BLOCKS / 2);
                    let ns = p50 * if far { 1.25 } else { 1.0 } * (self.mood + own + BLOCKS_DIFFER * self.normal()).exp();
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
            stack: None,
            rows: Vec::new(),
            raw: None,
            shown: Vec::new(),
            floor: None,
            command: Vec::new(),
        }
    }

    /// Out of [`GATES`], each with its own baseline: how many close on `limit` if the work is slower by `slower`, and how many
    /// cannot tell. The runs of the baseline were made at different times, those of the gate at one, and times differ by `moods`.
    fn closed(runs: usize, anew: u32, moods: f64, slower: f64, limit: &str) -> [usize; 2] {
        let (plan, limits) = (plan(), [limit.parse().unwrap()]);
        let mut count = [0, 0];
        for seed in 0..GATES {
            let mut host = Host { random: Random::new(seed as u64), mood: 0.0 };
            let mut at_another_time = |at| {
                host.mood = moods * host.normal();
                (format!("run {at}"), host.run(5_000.0))
            };
            let runs: Vec<(String, Run)> = (0..runs).map(&mut at_another_time).collect();
            host.mood = moods * host.normal();
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
            let [alarms, unknown] = closed(runs, anew, 0.0, 1.0, "p50 > +0%");
            assert!(alarms <= 4, "{alarms} of {GATES} with {runs} runs of the baseline, {anew} anew");
            // Now and then a run of the baseline is in a state of the cores in which no new run is.
            assert!(runs == 1 || unknown <= GATES / 20, "{unknown} of {GATES} with {runs} runs of the baseline, {anew} anew");
        }
    }

    #[test]
    fn a_mood_of_the_host_hardly_ever_closes_a_gate() {
        for moods in [0.0075, 0.015, 0.03, 0.09] {
            let [alarms, _] = closed(RUNS, super::super::ANEW, moods, 1.0, "p50 > +0%");
            assert!(alarms <= 8, "{alarms} of {GATES} where times differ by {moods}");
        }
    }

    #[test]
    fn a_change_of_five_percent_is_found() {
        let [found, _] = closed(RUNS, super::super::ANEW, 0.0, 1.05, "p50 > +0%");
        assert!(found * 100 >= 95 * GATES, "{found} of {GATES}");
    }

    #[test]
    fn blocks_of_one_run_each_would_have_closed_many_gates() {
        let alarms = (0..GATES).filter(|seed| {
            let mut host = Host { random: Random::new(*seed as u64), mood: 0.0 };
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
        assert_eq!(closed(1, 1, 0.0, 1.0, "p50 > +0%"), [0, GATES]);
    }

    #[test]
    fn a_run_that_is_given_twice_is_one_draw() {
        let mut host = Host { random: Random::new(1), mood: 0.0 };
        let (one, other) = (host.run(5_000.0), host.run(5_000.0));
        let runs = [("latest", one.clone()), ("-1", one), ("-2", other)].map(|(given, run)| (given.to_owned(), run));
        assert_eq!(named(&runs).iter().map(|(given, _)| *given).collect::<Vec<_>>(), ["latest", "-2"]);
    }

    #[test]
    fn replies_of_changing_length_are_the_same_work_however_often_they_are_measured() {
        let of = |reply_bytes: u64, p50: u64| {
            let own = OwnRequest { request: "INCR x".into(), until: "resp".into(), ..OwnRequest::default() };
            let p50s = (0..60).map(move |i| p50 + i * 37 % 41);
            let row = Row { reply_bytes, own_request: Some(Box::new(own)), ..row("tcp:poll/tcp:poll", p50s, 120) };
            run(vec![row])
        };
        let runs = [(5, 5_000), (5, 5_020), (6, 5_040)].map(|(bytes, p50)| (format!("run {p50}"), of(bytes, p50)));
        let (plan, limits) = (plan(), ["p50 > +5%".parse().unwrap()]);
        let gate = Baseline { runs: &runs, plan: &plan, anew: 5, limits: &limits, figure: Figure::P50, margin: 0.02 };
        let mut times = 0;
        let found = gate.judged(&mut || {
            times += 1;
            // Five and six bytes at first, then always six.
            Ok(of(if times < 3 { 5 } else { 6 }, 7_000 + times))
        });
        let found = found.unwrap();
        assert_eq!((found.thresholds.len(), found.comparisons[0].runs), (1, Some([3, 15])));
        assert!(found.thresholds[0].crossed, "{:?}", found.thresholds);
    }

    #[test]
    fn a_record_without_its_duration_is_no_baseline() {
        let template = Job::new("udp".parse().unwrap());
        let error = jobs(&run(vec![row("udp/udp", [5_000; 3].into_iter(), 120)]), &template, false).unwrap_err().to_string();
        assert!(error.ends_with("take a run of ping or demo"), "{error}");
    }

    #[test]
    fn the_request_of_a_baseline_is_asked_again() {
        let own = OwnRequest { request: "PING".into(), until: "resp".into(), ..OwnRequest::default() };
        let row = |own: Option<OwnRequest>| Row {
            duration_ns: 1_000_000_000,
            own_request: own.map(Box::new),
            ..row("tcp:poll/tcp:poll", [5_000; 3].into_iter(), 120)
        };
        let [asking, plain] = [Some(own), None].map(|own| run(vec![row(own)]));
        let given = |name: &str| {
            let own = Request { name: name.into(), bytes: name.into(), end: ReplyEnd::Resp, tls: None };
            Job { own: Some(own), ..Job::new("tcp:poll".parse().unwrap()) }
        };
        assert!(jobs(&asking, &given("PING"), false).is_ok());
        let none = Job::new("tcp:poll".parse().unwrap());
        for (run, template, why) in [
            (&asking, &given("GET x"), "it asked PING, until resp: write the same with --request and --reply"),
            (&asking, &none, "it asked PING, until resp: write the same with --request and --reply"),
            (&plain, &given("PING"), "leave out --request"),
        ] {
            let error = jobs(run, template, false).unwrap_err().to_string();
            assert!(error.ends_with(why), "{error}");
        }
        assert!(jobs(&plain, &none, false).is_ok());
        let mut over_tls = asking.clone();
        over_tls.results[0].own_request.as_mut().unwrap().tls = Some("TLS 1.3".into());
        let error = jobs(&over_tls, &given("PING"), false).unwrap_err().to_string();
        assert!(error.ends_with("add --tls"), "{error}");
    }

    #[test]
    fn rows_become_jobs_again() {
        let mut template = hairpin_plan::job::Job::new("tcp".parse().unwrap());
        let mut stored = row("udp:spin/udp:spin", [5_000; 3].into_iter(), 120);
        (stored.reply_bytes, stored.flows, stored.threads, stored.outstanding) = (128, 2, 1, 1);
        (stored.duration_ns, stored.gap_ns) = (900_000_000, 100_000_000);
        stored.cpu.client.cpus = vec![2, 4];
        stored.cpu.server = Some(CpuSide { cpus: vec![3, 5], ..CpuSide::default() });
        let mut stored = run(vec![stored]);
        let again = jobs(&stored, &template, false).unwrap();
        assert_eq!((again[0].request, again[0].reply, again[0].flows), (64, 128, 2));
        assert_eq!(again[0].duration, Some(Nanos::from_secs(1)));
        assert_eq!(again[0].spec.to_string(), "udp:spin/udp:spin");
        assert_eq!(again[0].cpus, Sides { client: Some(2), server: Some(3) });
        template.cpus = Sides { client: Some(0), server: Some(0) };
        assert_eq!(jobs(&stored, &template, false).unwrap()[0].cpus, template.cpus);
        let used = Stack { name: "onload".into(), library: "/usr/lib64/libonload.so".into(), ..Stack::default() };
        stored.results[0].stack = Some(Box::new(Stacks { client: Some(used), server: None }));
        let error = jobs(&stored, &template, false).unwrap_err().to_string();
        assert!(error.ends_with("add --stack /usr/lib64/libonload.so"), "{error}");
        assert!(jobs(&stored, &template, true).is_ok());
    }
}
