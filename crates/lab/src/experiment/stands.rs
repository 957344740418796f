//! Measures real blocks: one row each, on testbeds that stay up for the whole experiment.
//!
//! Arms with the same target share a testbed. Its two workers wait in a blocking receive between rows, so other arms consume
//! nothing. Each row opens new sockets, so the client's port changes within every arm alike.

use std::time::{Duration, Instant};

use hairpin_plan::job::Job;
use hairpin_plan::option::MODE;
use hairpin_record::compare::{Arm as Described, Cpus};
use hairpin_record::experiment::{ArmBlock, Figure};
use hairpin_record::head::Place;
use hairpin_record::histogram::Decoded;
use hairpin_record::load::BulkFacts;
use hairpin_record::run::{Granted, HostFacts, OwnRequest, Row, Side};
use hairpin_record::stack::Stacks;
use hairpin_record::warning::{Note, Warning};
use hairpin_sys::signal::Signals;
use hairpin_units::Nanos;

use super::figures::{as_quantile, quantile};
use super::rounds::{Bench, Ended, Taken, letter};
use super::{Arm, BlockWatcher};
use crate::bulk::Bulk;
use hairpin_session::error::RunError;
use hairpin_session::plan::{Plan, Target};
use hairpin_session::row::{self, RowContext};
use hairpin_session::testbed::{RowEnd, Testbed};
use hairpin_session::watch::NoWatcher;

/// Why arms that differ in their library cannot have one server.
const ONE_SESSION: &str = "a server has one session at a time, and sides with and without --stack take one each: start a second one there, `hairpin serve ADDR:PORT`, and name it in one side";

/// Time of a row outside its block: the cache-line measurement before it.
const BESIDE: Nanos = Nanos::from_millis(3);

/// All testbeds, and the arms on them.
pub(crate) struct Stands<'a> {
    testbeds: Vec<Standing>,
    arms: Vec<Placed>,
    signals: &'a Signals,
    watcher: &'a mut dyn BlockWatcher,
    began: Instant,
    /// Time that the earlier rounds took.
    before: Duration,
    rows: usize,
}

struct Standing {
    testbed: Testbed,
    place: Place,
    /// Both ends of the bulk streams that fill the link during the blocks of some arms.
    bulk: Option<Bulk>,
}

struct Placed {
    testbed: usize,
    job: Job,
    /// Bulk streams during its blocks.
    bulk: u32,
    given: String,
    granted: Vec<Granted>,
    warnings: Vec<Note>,
    stack: Option<Box<Stacks>>,
    own_request: Option<Box<OwnRequest>>,
    cpus: Option<Cpus>,
    /// True once the modes that a path chooses by trial are fixed.
    settled: bool,
}

impl<'a> Stands<'a> {
    /// Checks every arm, then sets up one testbed per target.
    pub(crate) fn set_up(
        arms: Vec<Arm>,
        command: &[String],
        signals: &'a Signals,
        watcher: &'a mut dyn BlockWatcher,
    ) -> Result<Stands<'a>, RunError> {
        let mut plans: Vec<Plan> = Vec::new();
        let mut placed = Vec::new();
        for arm in arms {
            let job = hairpin_session::plan::emulating(&arm.job, arm.floor.as_ref())?;
            let testbed =
                plans.iter().position(|plan| plan.target == arm.target && plan.ipv6 == arm.ipv6 && plan.stack == arm.stack);
            let is_met = matches!(arm.target, Target::Host { .. }) && plans.iter().any(|plan| plan.target == arm.target);
            if testbed.is_none() && is_met {
                return Err(RunError::Unsupported { path: job.spec.to_string(), why: ONE_SESSION.into() });
            }
            let testbed = testbed.unwrap_or_else(|| {
                plans.push(Plan {
                    target: arm.target,
                    ipv6: arm.ipv6,
                    stack: arm.stack,
                    rows: Vec::new(),
                    raw: None,
                    shown: Vec::new(),
                    floor: arm.floor,
                    command: command.into(),
                });
                plans.len() - 1
            });
            plans[testbed].rows.push(job.clone());
            placed.push(Placed::new(testbed, job, arm.bulk, arm.given));
        }
        for plan in &plans {
            hairpin_session::plan::check(plan)?;
        }
        let mut testbeds = Vec::new();
        for (index, plan) in plans.iter().enumerate() {
            let mut testbed = Testbed::set_up(plan, None)?;
            let place = testbed.place(plan)?;
            let filled = placed.iter().any(|arm| arm.testbed == index && arm.bulk > 0);
            let bulk = filled.then(|| Bulk::beside(&testbed, &plan.target)).transpose()?;
            testbeds.push(Standing { testbed, place, bulk });
        }
        Ok(Stands { testbeds, arms: placed, signals, watcher, began: Instant::now(), before: Duration::ZERO, rows: 0 })
    }

    /// An experiment of `duration` begins now, or goes on if its earlier rounds took `before` of it.
    pub(crate) fn begin(&mut self, duration: Duration, before: Duration) {
        (self.began, self.before) = (Instant::now(), before);
        let given: Vec<String> = self.arms.iter().map(|arm| arm.given.clone()).collect();
        self.watcher.begins(&given, duration.saturating_sub(before));
    }

    /// Facts of the clients' host.
    pub(crate) fn host(&self) -> Option<HostFacts> {
        self.testbeds.first().map(|standing| standing.place.hosts.client.clone())
    }

    /// Facts of each arm for the record, besides its figures.
    pub(crate) fn described(&self) -> Vec<Described> {
        let describe = |(at, arm): (usize, &Placed)| Described {
            name: letter(at),
            given: arm.given.clone(),
            path: arm.job.spec.to_string(),
            request_bytes: arm.job.request.into(),
            reply_bytes: arm.job.reply.into(),
            flows: arm.job.flows,
            outstanding: arm.job.outstanding,
            threads: (arm.job.threads > 1).then_some(arm.job.threads),
            pace_per_s: arm.job.pace,
            bulk_streams: arm.bulk,
            link: Some(self.testbeds[arm.testbed].place.link.clone()),
            granted: arm.granted.clone(),
            warnings: arm.warnings(),
            stack: arm.stack.clone(),
            own_request: arm.own_request.clone(),
            cpus: arm.cpus.clone(),
            ..Described::default()
        };
        self.arms.iter().enumerate().map(describe).collect()
    }
}

impl Bench for Stands<'_> {
    fn block(&mut self, arm: usize, length: Nanos, warmup: Nanos) -> Result<Taken, Ended> {
        let at = self.elapsed();
        let placed = &mut self.arms[arm];
        let standing = &mut self.testbeds[placed.testbed];
        let job = Job { duration: Some(Nanos(length.0 + BESIDE.0)), count: None, warmup, ..placed.job.clone() };
        let mut bulk = standing.bulk.as_mut().filter(|_| placed.bulk > 0);
        if let Some(bulk) = &mut bulk {
            bulk.go(placed.bulk).map_err(|error| Ended::Failed(error.into()))?;
        }
        let measured = standing.testbed.row(&job, self.rows, self.signals, &mut NoWatcher);
        let bulk = bulk.map(Bulk::halt).transpose().map_err(Ended::Failed)?;
        let measured = measured.map_err(|end| match end {
            RowEnd::Interrupted => Ended::Interrupted,
            RowEnd::Failed(error) => Ended::Failed(error),
        })?;
        self.rows += 1;
        if measured.interrupted {
            return Err(Ended::Interrupted);
        }
        let failed = |why| Ended::Failed(RunError::Row { path: job.spec.to_string(), why });
        if let Some(why) = measured.client.error.clone() {
            return Err(failed(why));
        }
        let around = RowContext { hosts: &standing.place.hosts, one_host: standing.testbed.server.is_here(), shown: &[] };
        let row = row::join(&job, measured.client, measured.server, &mut standing.place.clock, around);
        placed.keep(&row);
        let at_ns = u64::try_from(at.as_nanos()).unwrap_or(u64::MAX);
        let taken = taken(&row, at_ns, bulk).map_err(|error| failed(error.to_string()))?;
        self.watcher.block(arm, &taken.block);
        Ok(taken)
    }

    fn elapsed(&self) -> Duration {
        self.before + self.began.elapsed()
    }
}

impl Placed {
    /// An arm without a block so far.
    fn new(testbed: usize, job: Job, bulk: u32, given: String) -> Placed {
        Placed {
            testbed,
            job,
            bulk,
            given,
            granted: Vec::new(),
            warnings: Vec::new(),
            stack: None,
            own_request: None,
            cpus: None,
            settled: false,
        }
    }

    /// The warnings of the arm's blocks, and those of its library and replies over all blocks together.
    fn warnings(&self) -> Vec<Note> {
        let told = self.job.own.as_ref().is_some_and(|request| request.end.tells_errors());
        let replies = self.own_request.as_ref().and_then(|own| own.warning(told)).map(|warning| warning.note());
        self.warnings.iter().cloned().chain(self.stack.iter().flat_map(|stack| slow(stack))).chain(replies).collect()
    }

    /// Keeps a row's facts about its arm: refused options, warnings, and the mode that its path chose.
    fn keep(&mut self, row: &Row) {
        if self.job.own.is_some() {
            // Only the server knows the length of a reply.
            self.job.reply = u32::try_from(row.reply_bytes).unwrap_or(u32::MAX);
        }
        for granted in row.granted.iter().filter(|granted| granted.asked != granted.got) {
            // The reason may contain counts of the block: that of the first block stands for all.
            let same = |known: &Granted| Granted { why: granted.why.clone(), ..known.clone() } == *granted;
            if !self.granted.iter().any(same) {
                self.granted.push(granted.clone());
            }
        }
        for note in &row.warnings {
            // A short block triggers some of these for its shortness: states are judged over all blocks, and its seconds are
            // tenths. The others are told of all blocks together.
            let of_blocks = [
                "core-states",
                "involuntary-switches",
                "foreign-time",
                "too-few-samples",
                "not-accelerated",
                "error-replies",
                "replies-differ",
            ];
            if !of_blocks.contains(&note.code.as_str()) && !self.warnings.iter().any(|known| known.code == note.code) {
                self.warnings.push(note.clone());
            }
        }
        if let Some(stack) = &row.stack {
            self.stack.get_or_insert_default().add(stack);
        }
        if let Some(own) = &row.own_request {
            self.own_request.get_or_insert_default().add(own);
        }
        self.cpus = cpus(row);
        if !self.settled {
            self.settled = true;
            for granted in row.granted.iter().filter(|granted| granted.option == MODE.name) {
                let side = match granted.side {
                    Side::Client => &mut self.job.spec.client,
                    Side::Server => &mut self.job.spec.server,
                };
                if side.options.get(&MODE).is_none() && side.path.takes(&MODE) {
                    // If the granted text is a value of the option, fix it; otherwise the path goes on choosing.
                    let _ = side.options.add(&MODE, &granted.got);
                }
            }
        }
    }
}

/// The warnings of sides whose library did not carry their messages.
fn slow(stacks: &Stacks) -> Vec<Note> {
    row::not_accelerated(stacks).iter().map(Warning::note).collect()
}

/// The CPUs of both sides of a row; `None` if unknown.
pub(crate) fn cpus(row: &Row) -> Option<Cpus> {
    let server = row.cpu.server.as_ref().map_or_else(Vec::new, |server| server.cpus.clone());
    let found = Cpus { client: row.cpu.client.cpus.clone(), server };
    (!found.client.is_empty()).then_some(found)
}

/// The part of a row that belongs to a block.
pub(crate) fn taken(row: &Row, at_ns: u64, bulk: Option<BulkFacts>) -> Result<Taken, hairpin_record::histogram::DecodeError> {
    let mut times: Vec<(u64, u64)> = Decoded::decode(&row.histogram)?.counts().collect();
    // The blocks of a long experiment all stay in memory.
    times.shrink_to_fit();
    let of = |figure| as_quantile(figure).and_then(|q| quantile(&times, q));
    let cores: Vec<u64> = row.blocks.iter().filter_map(|block| block.core_rtt_ns).collect();
    let cpu = match &row.cpu.server {
        Some(server) => row.cpu.client.per_transaction_ns.zip(server.per_transaction_ns).map(|(client, server)| client + server),
        None => row.cpu.client.per_transaction_ns,
    };
    let block = ArmBlock {
        round: 0,
        at_ns,
        transactions: row.transactions,
        lost: row.lost,
        duration_ns: row.duration_ns,
        p50_ns: of(Figure::P50),
        p99_ns: of(Figure::P99),
        p999_ns: of(Figure::P999),
        cpu_ns: cpu,
        core_rtt_ns: cores.iter().copied().max(),
        state: None,
    };
    let segments_out = row.tcp.as_ref().and_then(|tcp| tcp.client.segments_out_per_transaction);
    Ok(Taken { block, times, cores, cpus: cpus(row), segments_out, bulk })
}

#[cfg(test)]
mod tests {
    use hairpin_plan::request::Request;

    use super::*;

    #[test]
    fn replies_are_told_once_with_the_counts_of_all_blocks() {
        let arm = |until: &str, blocks: [(&str, u64, u64); 3]| {
            let own = Request { name: "x".into(), bytes: b"x".into(), end: until.parse().unwrap(), tls: None };
            let job = Job { own: Some(own), ..Job::new("tcp:poll".parse().unwrap()) };
            let mut arm = Placed::new(0, job, 0, String::new());
            for (first, replies, differing) in blocks {
                let errors = if until == "resp" { differing } else { 0 };
                let first_error = (errors > 0).then(|| "-ERR no".to_owned());
                let first_reply = first.into();
                let own = OwnRequest { replies, first_reply, differing, errors, first_error, ..OwnRequest::default() };
                let warnings = own.warning(false).iter().map(Warning::note).collect();
                arm.keep(&Row { own_request: Some(Box::new(own)), warnings, ..Row::default() });
            }
            (arm.own_request.as_ref().unwrap().replies, arm.warnings())
        };
        let errors = Warning::ErrorReplies { first: "-ERR no".into(), count: 35, of: 60 }.note();
        assert_eq!(arm("resp", [("+OK", 10, 0), ("+OK", 20, 5), ("+OK", 30, 30)]), (60, vec![errors]));
        let differ = Warning::RepliesDiffer { first: "A".into(), count: 15 + 4, of: 60 }.note();
        assert_eq!(arm("1", [("A", 10, 0), ("B", 20, 5), ("A", 30, 4)]), (60, vec![differ]));
        assert_eq!(arm("resp", [("A", 10, 0), ("B", 20, 0), ("A", 30, 0)]), (60, Vec::new()), "the rule tells all errors");
    }
}
