//! Sums of transactions, overall and per connection, in constant memory.
//!
//! Transactions are kept apart by the sides seen and by the side of the watched process: a proxy's two roles are two
//! tables.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap};

use hairpin_record::attached as record;
use hairpin_record::attached::View;
use hairpin_record::histogram::Times;
use hairpin_record::run::Side;
use hairpin_units::{Arrange, Quantile};

use crate::names::LIMITED;

use super::cause::{self, Cause, What};
use super::parts::Parts;
use super::spread::{Rough, Spread};
use super::stages::{HookPair, Hooks, Measured, Unmatched, measure};
use super::transaction::{Connection, Process, Transaction};

/// Most connections with sums of their own.
const CONNECTIONS: usize = 64;
/// Others that are remembered, at least: as many as the kernel's programs follow at a time.
const OTHERS: usize = 4096;
/// Connections and slow transactions in a record.
const SHOWN: usize = 16;
/// Slow transactions kept per kind, for their causes.
const SLOW: usize = 256;

/// The sides seen, and the side of the watched process: client, server.
type Kind = (View, [bool; 2]);
/// A connection, in one role of the watched process.
type OfKind = (Connection, Kind);

/// The sums so far.
#[derive(Debug)]
pub struct Totals {
    hooks: Hooks,
    /// Time at which the hooks were attached.
    since: u64,
    /// The watching process.
    observer: i32,
    kinds: BTreeMap<Kind, Sums<Times>>,
    /// The totals since the last call of `recent`; `None` before the first.
    recent: Option<BTreeMap<Kind, Sums<Rough>>>,
    connections: HashMap<OfKind, OfConnection>,
    others: Others,
    slow: BTreeMap<Kind, BinaryHeap<Reverse<BySum>>>,
    parts: Parts,
    roles: [bool; 2],
    transactions: u64,
    unmatched: record::Unmatched,
    order: u64,
}

#[derive(Debug, Default)]
struct Sums<S> {
    sum: S,
    stages: BTreeMap<HookPair, (S, u64)>,
    total: u64,
}

#[derive(Debug, Default)]
struct OfConnection {
    sums: Sums<Rough>,
    /// Its transactions before it had sums.
    before: u64,
    processes: [Process; 2],
    last: u64,
}

/// Connections without sums, each with the number of its transactions, in constant memory.
#[derive(Debug, Default)]
struct Others {
    recent: HashMap<OfKind, u64>,
    /// Those silent since `recent` was empty: the next to be forgotten.
    silent: HashMap<OfKind, u64>,
    forgotten: u64,
}

impl Others {
    fn count(&self) -> u64 {
        (self.recent.len() + self.silent.len()) as u64 + self.forgotten
    }

    /// Takes a connection out, and returns its transactions.
    fn take(&mut self, connection: &OfKind) -> u64 {
        self.recent.remove(connection).or_else(|| self.silent.remove(connection)).unwrap_or(0)
    }

    fn put(&mut self, connection: OfKind, transactions: u64) {
        if self.recent.len() >= OTHERS {
            self.forgotten += self.silent.len() as u64;
            self.silent.clear();
            std::mem::swap(&mut self.recent, &mut self.silent);
        }
        self.recent.insert(connection, transactions);
    }
}

/// A transaction, ordered by its total time.
#[derive(Debug)]
struct BySum(Transaction, Measured, u64);

impl BySum {
    fn kind(&self) -> Kind {
        (self.1.view, self.0.ours)
    }
}

impl Ord for BySum {
    fn cmp(&self, other: &BySum) -> std::cmp::Ordering {
        (self.1.sum, self.2).cmp(&(other.1.sum, other.2))
    }
}

impl PartialOrd for BySum {
    fn partial_cmp(&self, other: &BySum) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for BySum {
    fn eq(&self, other: &BySum) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for BySum {}

/// The median, or the mean of few.
fn typical<S: Spread>(times: &S, total: u64) -> u64 {
    times.quantile(Quantile::P50).unwrap_or(total / times.count().max(1))
}

impl<S: Spread> Sums<S> {
    fn add(&mut self, measured: &Measured) {
        self.sum.record(measured.sum);
        self.total += measured.sum;
        for (stage, ns) in &measured.stages {
            let (times, total) = self.stages.entry(*stage).or_default();
            times.record(*ns);
            *total += ns;
        }
    }

    /// The usual time of a stage. Where no more than half of the transactions have it, those that have it may all be slow ones,
    /// as one of two: then it is at most the time that the others take from its start to its end.
    fn usual(&self, stage: HookPair) -> u64 {
        let Some((times, total)) = self.stages.get(&stage) else { return 0 };
        let own = typical(times, *total);
        let is_common = |times: &S| times.count().saturating_mul(2) > self.sum.count();
        if is_common(times) {
            return own;
        }
        let others = self.stages.iter().filter(|(other, (times, _))| stage.nests(**other) && is_common(times));
        own.min(others.map(|(_, (times, total))| typical(times, *total)).sum())
    }

    /// The usual time of a transaction.
    fn usual_sum(&self) -> u64 {
        typical(&self.sum, self.total)
    }

    fn record(&self, (view, ours): Kind, hooks: Hooks) -> record::Total {
        let stage = |(stage, (times, total)): (&HookPair, &(S, u64))| record::Stage {
            name: stage.name(hooks),
            side: stage.side(hooks),
            direction: stage.direction(hooks),
            from: stage.from().into(),
            to: stage.to().into(),
            ns: times.quantiles(),
            share: *total as f64 / self.total.max(1) as f64,
        };
        record::Total {
            view,
            roles: roles(ours),
            sum_ns: self.sum.quantiles(),
            histogram: self.sum.encode(),
            stages: self.stages.iter().map(stage).collect(),
        }
    }
}

impl Totals {
    /// Empty sums for these hooks, attached at `since` on CLOCK_MONOTONIC by the process `observer`.
    pub fn new(hooks: Hooks, since: u64, observer: i32) -> Totals {
        Totals {
            hooks,
            since,
            observer,
            kinds: BTreeMap::new(),
            recent: None,
            connections: HashMap::new(),
            others: Others::default(),
            slow: BTreeMap::new(),
            parts: Parts::default(),
            roles: [false; 2],
            transactions: 0,
            unmatched: record::Unmatched::default(),
            order: 0,
        }
    }

    /// The number of matched transactions.
    pub fn transactions(&self) -> u64 {
        self.transactions
    }

    /// The totals since the last call, those with most transactions first; the first call begins the count.
    pub fn recent(&mut self) -> Vec<record::Total> {
        let recent = self.recent.replace(BTreeMap::new()).unwrap_or_default();
        let mut totals: Vec<_> = recent.iter().map(|(kind, sums)| sums.record(*kind, self.hooks)).collect();
        totals.arrange_by_key(|total| Reverse(total.sum_ns.count));
        totals
    }

    /// The reading threads of the clients and of the servers of the busiest connections.
    pub fn threads(&self) -> [BTreeSet<i32>; 2] {
        let mut busiest: Vec<&OfConnection> = self.connections.values().collect();
        busiest.arrange_by_key(|of| Reverse(of.sums.sum.count()));
        let of =
            |side: usize| busiest.iter().take(SHOWN).map(|of| of.processes[side].thread).filter(|thread| *thread != 0).collect();
        [of(0), of(1)]
    }

    /// Adds a completed transaction. Every request is counted once: if a record stands for several datagrams, those
    /// after the first count as overlapping.
    pub fn add(&mut self, transaction: Transaction) {
        let Some(others) = transaction.requests.checked_sub(1) else { return };
        match measure(&transaction, self.hooks) {
            Ok(measured) => {
                self.unmatched.pipelined += others;
                self.matched(transaction, measured);
            }
            Err(why) => self.count(why, 1 + others),
        }
    }

    /// Adds the last transaction of a connection when watching ends; false if it was still open.
    pub fn add_last(&mut self, transaction: Transaction) -> bool {
        if measure(&transaction, self.hooks) == Err(Unmatched::Partial) {
            return false;
        }
        self.add(transaction);
        true
    }

    fn count(&mut self, why: Unmatched, requests: u64) {
        let of = &mut self.unmatched;
        *match why {
            Unmatched::Pipelined => &mut of.pipelined,
            Unmatched::Partial => &mut of.half_seen,
            Unmatched::OutOfOrder => &mut of.out_of_order,
        } += requests;
    }

    fn matched(&mut self, transaction: Transaction, measured: Measured) {
        self.transactions += 1;
        self.order += 1;
        for (role, ours) in self.roles.iter_mut().zip(transaction.ours) {
            *role |= ours;
        }
        let kind = (measured.view, transaction.ours);
        self.kinds.entry(kind).or_default().add(&measured);
        if let Some(recent) = &mut self.recent {
            recent.entry(kind).or_default().add(&measured);
        }
        if let Some(connection) = self.connection(transaction.connection, kind) {
            connection.sums.add(&measured);
            connection.processes = transaction.processes;
        }
        self.parts.add(&transaction, measured.sum);
        let slow = self.slow.entry(kind).or_default();
        if slow.len() < SLOW || slow.peek().is_some_and(|Reverse(least)| least.1.sum < measured.sum) {
            slow.push(Reverse(BySum(transaction, measured, self.order)));
            if slow.len() > SLOW {
                slow.pop();
            }
        }
    }

    /// The connection's sums, if it has any. Where there are too many connections, one gets them when it has had twice as many
    /// transactions as the least of those that have some, which loses them: busy connections have sums, and keep them where
    /// others are as busy or come and go.
    fn connection(&mut self, connection: Connection, kind: Kind) -> Option<&mut OfConnection> {
        let connection = (connection, kind);
        let mut before = 0;
        if self.connections.len() >= CONNECTIONS && !self.connections.contains_key(&connection) {
            before = self.others.take(&connection);
            let all = self.connections.iter().map(|(connection, of)| (of.transactions(), of.last, *connection));
            let (least, _, idler) = all.min_by_key(|(transactions, last, _)| (*transactions, *last))?;
            if before < 2 * least {
                self.others.put(connection, before + 1);
                return None;
            }
            self.connections.remove(&idler);
            self.others.put(idler, least);
        }
        let of = self.connections.entry(connection).or_insert_with(|| OfConnection { before, ..OfConnection::default() });
        of.last = self.order;
        Some(of)
    }

    /// Writes the sums into a record; `unanswered` counts the requests without a reply.
    pub fn write(&self, unanswered: u64, record: &mut record::Attached) {
        record.transactions = self.transactions;
        record.unmatched_by = record::Unmatched { unanswered, ..self.unmatched };
        record.unmatched = record.unmatched_by.total();
        record.watched.roles = roles(self.roles);
        record.totals = self.kinds.iter().map(|(kind, sums)| sums.record(*kind, self.hooks)).collect();
        record.totals.arrange_by_key(|total| Reverse(total.sum_ns.count));
        let mut connections: Vec<_> = self.connections.iter().collect();
        connections.arrange_by_key(|(key, of)| (Reverse(of.sums.sum.count()), **key));
        record.connections =
            connections.iter().take(SHOWN).map(|((connection, kind), of)| of.record(connection, *kind, self.hooks)).collect();
        record.other_connections = connections.len().saturating_sub(SHOWN) as u64 + self.others.count();
        let slow = self.slow.values().flatten().map(|Reverse(slow)| slow);
        let mut slow: Vec<(&BySum, Cause)> = slow.filter_map(|slow| Some((slow, self.cause(slow)?))).collect();
        slow.arrange_by(|a, b| b.0.cmp(a.0));
        let others = slow.iter().filter(|(_, cause)| cause.what != What::Observer);
        record.slowest = others.take(SHOWN).map(|(slow, cause)| self.slow(slow, cause)).collect();
        self.write_causes(&slow, record);
        record.findings = self.parts.findings(self.transactions);
    }

    fn cause(&self, slow: &BySum) -> Option<Cause> {
        let sums = self.kinds.get(&slow.kind())?;
        cause::cause(&slow.0, &slow.1, self.hooks, self.observer, |stage| sums.usual(stage))
    }

    fn slow(&self, BySum(transaction, measured, _): &BySum, cause: &Cause) -> record::Slow {
        let stages = measured.stages.iter();
        let stages =
            stages.map(|(stage, ns)| record::SlowStage { name: stage.name(self.hooks), side: stage.side(self.hooks), ns: *ns });
        record::Slow {
            at_ns: measured.begun.saturating_sub(self.since),
            sum_ns: measured.sum,
            view: measured.view,
            protocol: protocol(&transaction.connection),
            server: transaction.connection.server.to_string(),
            client: transaction.connection.client.to_string(),
            stages: stages.collect(),
            stage: cause.stage.name(self.hooks),
            stage_excess_ns: cause.excess,
            cause: cause.what.name().into(),
            cause_ns: cause.took,
            who: who(cause),
        }
    }

    /// Causes of the transactions above p99 of their kind, or p90 if the largest kind has too few for p99.
    fn write_causes(&self, slow: &[(&BySum, Cause)], record: &mut record::Attached) {
        // A watched record is written once a second, so the counts start anew.
        (record.slow, record.slow_observer, record.slow_above) = (0, 0, None);
        record.causes.clear();
        let mut causes: Vec<(What, record::SlowCause)> = Vec::new();
        let most = self.kinds.values().max_by_key(|sums| sums.sum.count());
        let above = [Quantile::P99, Quantile::P90].into_iter().find(|q| most.is_some_and(|sums| sums.sum.quantile(*q).is_some()));
        let Some(above) = above else { return };
        record.slow_above = Some(above.to_string());
        for (slow, cause) in slow {
            let (measured, Some(sums)) = (&slow.1, self.kinds.get(&slow.kind())) else { continue };
            if sums.sum.quantile(above).is_none_or(|above| measured.sum <= above) {
                continue;
            }
            record.slow += 1;
            if cause.what == What::Observer {
                record.slow_observer += 1;
                continue;
            }
            let (who, stage) = (who(cause), cause.stage.name(self.hooks));
            let at = causes.iter().position(|(what, known)| *what == cause.what && known.who == who && known.stage == stage);
            let at = at.unwrap_or_else(|| {
                causes.push((cause.what, slow_cause(cause, who, stage, record.host.heeds_idle_demands())));
                causes.len() - 1
            });
            causes[at].1.count += 1;
            causes[at].1.lost_ns += measured.sum.saturating_sub(sums.usual_sum());
        }
        record.causes = causes.into_iter().map(|(_, cause)| cause).collect();
        record.causes.arrange_by_key(|cause| Reverse(cause.lost_ns));
    }
}

impl OfConnection {
    fn transactions(&self) -> u64 {
        self.before + self.sums.sum.count()
    }

    fn record(&self, connection: &Connection, kind: Kind, hooks: Hooks) -> record::Connection {
        let process = |process: &Process| {
            let Process { pid, thread, comm } = *process;
            (thread != 0).then(|| record::Process { pid, thread, comm: comm.to_string() })
        };
        record::Connection {
            protocol: protocol(connection),
            server: connection.server.to_string(),
            client: connection.client.to_string(),
            server_process: process(&self.processes[1]),
            client_process: process(&self.processes[0]),
            total: self.sums.record(kind, hooks),
        }
    }
}

fn roles(ours: [bool; 2]) -> Vec<Side> {
    [Side::Client, Side::Server].into_iter().zip(ours).filter_map(|(side, ours)| ours.then_some(side)).collect()
}

/// A cause with a count of zero.
fn slow_cause(cause: &Cause, who: String, stage: String, has_idle_driver: bool) -> record::SlowCause {
    let Process { pid, thread, comm } = cause.who;
    record::SlowCause {
        cause: cause.what.name().into(),
        program: if thread == 0 { String::new() } else { comm.to_string() },
        pid: (thread != 0 && pid != 0).then_some(pid),
        who,
        stage,
        count: 0,
        lost_ns: 0,
        advice: cause.advice(has_idle_driver).into(),
    }
}

fn protocol(connection: &Connection) -> String {
    if connection.datagrams { "udp" } else { "tcp" }.into()
}

fn who(cause: &Cause) -> String {
    let Process { thread, comm, .. } = cause.who;
    match comm.to_string().as_str() {
        _ if cause.is_limit() => LIMITED.into(),
        _ if thread == 0 => String::new(),
        // The process ended before its name could be read.
        "" => format!("thread {thread}"),
        comm => format!("{comm} ({thread})"),
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::super::transaction::{Got, Sent};
    use super::*;

    /// The watching process.
    const OBSERVER: i32 = 99;

    /// Of a server alone, on a connection of its own number; the application takes `application`.
    fn transaction(client: u16, application: u64) -> Transaction {
        let asked = Sent { received: 1000, ready: 1100, waking: 1200, ..Sent::default() };
        let got = Got { switched: 1500, read: 1600, ..Got::default() };
        let sent = 1600 + application;
        let answered = Sent { sent, queued: sent + 200, started: sent + 300, ..Sent::default() };
        let connection = Connection {
            server: SocketAddr::from(([127, 0, 0, 1], 6379)),
            client: SocketAddr::from(([127, 0, 0, 1], client)),
            datagrams: false,
        };
        let (sent, got) = ([asked, answered], [got, Got::default()]);
        Transaction { connection, sent, got, ours: [false, true], requests: 1, ..Transaction::default() }
    }

    fn record(totals: &Totals, unanswered: u64) -> record::Attached {
        let mut record = serde_json::from_value(serde_json::json!({
            "schema": "hairpin.explain-attached/1", "tool": "", "command": [], "started": "", "interrupted": false, "error": null, "host": {"hostname": ""},
            "watched": {"port": null, "pid": null, "comm": null, "roles": [], "serves": []}, "duration_ns": 0, "missing": [],
            "transactions": 0, "unmatched": 0, "unmatched_by": {"pipelined": 0, "unanswered": 0, "half_seen": 0, "out_of_order": 0}, "open": 0, "lost": 0, "untracked": 0, "totals": [], "connections": [],
            "other_connections": 0, "slowest": [], "causes": [], "slow": 0, "slow_above": null, "warnings": []
        }))
        .unwrap();
        totals.write(unanswered, &mut record);
        record
    }

    #[test]
    fn stages_of_all_transactions_add_up() {
        let mut totals = Totals::new(Hooks::ALL, 0, OBSERVER);
        (0..2000).for_each(|n| totals.add(transaction(40_000, 5_000 + n)));
        let mut pipelined = transaction(40_000, 1);
        pipelined.pipelined = true;
        totals.add(pipelined);
        let record = record(&totals, 3);
        assert_eq!((record.transactions, record.unmatched, record.watched.roles.clone()), (2000, 4, vec![Side::Server]));
        assert_eq!((record.unmatched_by.pipelined, record.unmatched_by.unanswered), (1, 3));
        let total = &record.totals[0];
        assert_eq!((total.view, total.sum_ns.count, total.stages.len()), (View::Server, 2000, 7));
        assert!((total.stages.iter().map(|stage| stage.share).sum::<f64>() - 1.0).abs() < 1e-9);
        let means: f64 = total.stages.iter().map(|stage| stage.ns.mean.unwrap()).sum();
        assert!((means - total.sum_ns.mean.unwrap()).abs() < 1.0);
        assert_eq!(record.connections.len(), 1);
        assert_eq!(record.connections[0].total.sum_ns.count, 2000);
    }

    #[test]
    fn those_above_p99_have_causes() {
        let mut totals = Totals::new(Hooks::ALL, 0, OBSERVER);
        (0..5000).for_each(|_| totals.add(transaction(40_000, 5_000)));
        for _ in 0..40 {
            let mut slow = transaction(40_000, 1_000_000);
            slow.preempted = 900_000;
            slow.by = Process { pid: 7, thread: 7, comm: "stress".into() };
            totals.add(slow);
        }
        let record = record(&totals, 0);
        assert_eq!((record.slow, record.slowest.len(), record.slow_above.as_deref()), (40, SHOWN, Some("p99")));
        let cause = &record.causes[0];
        assert_eq!((cause.cause.as_str(), cause.who.as_str(), cause.count), ("preempted", "stress (7)", 40));
        assert_eq!(cause.stage, "application");
        // The p50 of a histogram has three digits.
        assert!((cause.lost_ns as f64 / (40.0 * 995_000.0) - 1.0).abs() < 1e-3, "{}", cause.lost_ns);
        assert_eq!((record.slowest[0].cause.as_str(), record.slowest[0].sum_ns), ("preempted", 1_000_900));
    }

    #[test]
    fn a_thread_that_nobody_pushed_off_was_stopped_by_a_limit() {
        let mut totals = Totals::new(Hooks::ALL, 0, OBSERVER);
        (0..5000).for_each(|_| totals.add(transaction(40_000, 5_000)));
        for _ in 0..40 {
            let mut slow = transaction(40_000, 1_000_000);
            slow.preempted = 900_000;
            totals.add(slow);
        }
        let record = record(&totals, 0);
        let cause = &record.causes[0];
        assert_eq!((cause.cause.as_str(), cause.who.as_str(), cause.count), ("preempted", LIMITED, 40));
        assert!(cause.advice.contains("cpu.max"), "{}", cause.advice);
    }

    #[test]
    fn an_idle_core_is_advised_as_its_host_allows() {
        let mut totals = Totals::new(Hooks::ALL, 0, OBSERVER);
        (0..5000).for_each(|_| totals.add(transaction(40_000, 5_000)));
        for _ in 0..40 {
            let mut slow = transaction(40_000, 5_000);
            (slow.got[0].switched, slow.got[0].read) = (501_500, 501_600);
            let answered = &mut slow.sent[1];
            for at in [&mut answered.sent, &mut answered.queued, &mut answered.started] {
                *at += 500_000;
            }
            totals.add(slow);
        }
        let mut record = record(&totals, 0);
        assert!(record.causes[0].cause == "idle wake-up" && record.causes[0].advice.contains("cpu_dma_latency_us"));
        record.host.facts.insert("cpuidle_driver".into(), "none".into());
        totals.write(0, &mut record);
        assert!(record.causes[0].advice.contains("poll") && !record.causes[0].advice.contains("dma"), "{:?}", record.causes[0]);
    }

    #[test]
    fn a_stage_that_only_slow_ones_have_is_why_they_are_slow() {
        let mut totals = Totals::new(Hooks::ALL, 0, OBSERVER);
        (0..5000).for_each(|_| totals.add(transaction(40_000, 5_000)));
        for n in 0..40 {
            let mut slow = transaction(40_000, 9_000);
            slow.sent[1].queued_last = slow.sent[1].started + 40_000_000 + n * 1_000;
            slow.sent[1].held = 39_000_000;
            totals.add(slow);
        }
        let record = record(&totals, 0);
        let [cause] = &record.causes[..] else { panic!("{:?}", record.causes) };
        assert_eq!((cause.cause.as_str(), cause.stage.as_str(), cause.count), ("Nagle", "reply rest", 40));
        assert!(record.slowest.iter().all(|slow| slow.stage_excess_ns >= 40_000_000), "{:?}", record.slowest);
    }

    #[test]
    fn a_stage_that_only_the_slow_transaction_has_is_its_cause() {
        let mut totals = Totals::new(Hooks::ALL, 0, OBSERVER);
        totals.add(transaction(40_000, 5_000));
        let mut slow = transaction(40_000, 9_000);
        slow.sent[1].queued_last = slow.sent[1].started + 40_000_000;
        slow.sent[1].held = 39_000_000;
        totals.add(slow);
        let slowest = &record(&totals, 0).slowest[0];
        assert_eq!((slowest.cause.as_str(), slowest.stage.as_str()), ("Nagle", "reply rest"));
        assert!(slowest.stage_excess_ns >= 39_000_000, "{slowest:?}");
    }

    #[test]
    fn each_role_of_a_proxy_has_its_own_sums() {
        let mut totals = Totals::new(Hooks::ALL, 0, OBSERVER);
        for n in 0..2000 {
            totals.add(transaction(40_000, 90_000 + 50 * n));
            totals.add(Transaction { ours: [true, false], ..transaction(50_000, 5_000 + n) });
        }
        let record = record(&totals, 0);
        assert_eq!((record.totals.len(), record.watched.roles.clone()), (2, vec![Side::Client, Side::Server]));
        let p50 = |role| {
            let total = record.totals.iter().find(|total| total.roles == [role]).unwrap();
            (total.sum_ns.count, total.sum_ns.p50.unwrap() / 10_000)
        };
        assert_eq!((p50(Side::Server), p50(Side::Client)), ((2000, 14), (2000, 0)));
        // 20 of each kind lie above that kind's p99, although all of one kind are above all of the other; a bucket of the
        // histogram may shift one.
        assert!((34..=42).contains(&record.slow), "{}", record.slow);
    }

    #[test]
    fn slow_transactions_of_the_observer_have_no_cause() {
        let mut totals = Totals::new(Hooks::ALL, 0, OBSERVER);
        (0..5000).for_each(|_| totals.add(transaction(40_000, 5_000)));
        for n in 0..40 {
            let mut slow = transaction(40_000, 1_000_000);
            slow.preempted = 900_000;
            let (pid, comm) = if n % 4 == 0 { (7, "stress".into()) } else { (OBSERVER, "hairpin".into()) };
            slow.by = Process { pid, thread: pid, comm };
            totals.add(slow);
        }
        let record = record(&totals, 0);
        assert_eq!((record.slow, record.slow_observer, record.causes.len()), (40, 30, 1));
        assert_eq!((record.causes[0].program.as_str(), record.causes[0].pid, record.causes[0].count), ("stress", Some(7), 10));
        assert!(record.slowest.iter().all(|slow| !slow.who.contains("hairpin")));
    }

    #[test]
    fn recent_figures_restart_at_every_look() {
        let mut totals = Totals::new(Hooks::ALL, 0, OBSERVER);
        (0..50).for_each(|_| totals.add(transaction(40_000, 5_000)));
        assert!(totals.recent().is_empty(), "nobody looked before");
        (0..20).for_each(|_| totals.add(transaction(40_000, 95_000)));
        let recent = totals.recent();
        let [second] = &recent[..] else { panic!("one kind") };
        assert_eq!((second.view, second.sum_ns.count, second.sum_ns.p50.unwrap() / 10_000), (View::Server, 20, 9));
        assert!(totals.recent().is_empty());
    }

    #[test]
    fn a_record_may_be_written_more_than_once() {
        let mut totals = Totals::new(Hooks::ALL, 0, OBSERVER);
        (0..2000).for_each(|n| totals.add(transaction(40_000, 5_000 + n)));
        let mut twice = record(&totals, 1);
        totals.write(1, &mut twice);
        assert_eq!(twice, record(&totals, 1));
    }

    #[test]
    fn counts_every_datagram_once() {
        let mut totals = Totals::new(Hooks::ALL, 0, OBSERVER);
        let with = |requests, pipelined| Transaction { requests, pipelined, ..transaction(40_000, 5_000) };
        for each in [with(1, false), with(3, true), with(0, true), with(2, false), with(0, false), with(1, true)] {
            totals.add(each);
        }
        let record = record(&totals, 0);
        assert_eq!((record.transactions, record.unmatched_by.pipelined, record.transactions + record.unmatched), (2, 5, 7));
    }

    #[test]
    fn few_transactions_have_causes_above_p90() {
        let mut totals = Totals::new(Hooks::ALL, 0, OBSERVER);
        (0..100).for_each(|n| totals.add(transaction(40_000, 5_000 + 100 * n)));
        let few = record(&totals, 0);
        assert_eq!((few.slow, few.slow_above.as_deref()), (10, Some("p90")));
        let mut totals = Totals::new(Hooks::ALL, 0, OBSERVER);
        (0..99).for_each(|n| totals.add(transaction(40_000, 5_000 + n)));
        assert_eq!(record(&totals, 0).slow_above, None);
    }

    #[test]
    fn short_connections_do_not_displace_a_busy_one() {
        let mut totals = Totals::new(Hooks::ALL, 0, OBSERVER);
        for n in 0..5000_u16 {
            totals.add(transaction(1, 5_000));
            totals.add(transaction(1000 + n, 5_000));
        }
        let record = record(&totals, 0);
        assert_eq!(record.connections.len(), SHOWN);
        assert_eq!((record.connections[0].client.as_str(), record.connections[0].total.sum_ns.count), ("127.0.0.1:1", 5000));
        assert_eq!(totals.connections.len(), CONNECTIONS);
        assert_eq!(record.other_connections, 5001 - SHOWN as u64);
        assert_eq!(totals.slow.values().map(BinaryHeap::len).sum::<usize>(), SLOW);
    }

    #[test]
    fn connections_that_take_turns_keep_their_sums() {
        let mut totals = Totals::new(Hooks::ALL, 0, OBSERVER);
        (0..20).flat_map(|_| 1..=100).for_each(|client| totals.add(transaction(client, 5_000)));
        let record = record(&totals, 0);
        assert_eq!(record.other_connections, 100 - SHOWN as u64);
        assert_eq!(record.connections.iter().map(|one| one.total.sum_ns.count).collect::<Vec<_>>(), [20; SHOWN]);
    }

    #[test]
    fn a_busy_connection_has_sums_however_late_it_comes() {
        let mut totals = Totals::new(Hooks::ALL, 0, OBSERVER);
        (1000..1200).for_each(|client| totals.add(transaction(client, 5_000)));
        (0..500).for_each(|_| totals.add(transaction(1, 5_000)));
        let record = record(&totals, 0);
        assert_eq!((record.connections[0].client.as_str(), record.connections[0].total.sum_ns.count), ("127.0.0.1:1", 498));
        assert_eq!(record.other_connections, 201 - SHOWN as u64);
    }

    #[test]
    fn connections_without_sums_are_counted_in_constant_memory() {
        let mut others = Others::default();
        for client in 0..50_000 {
            let connection = (transaction(client, 0).connection, (View::Server, [false, true]));
            others.put(connection, 7);
            assert_eq!(others.take(&connection), 7);
            others.put(connection, 8);
            assert!(others.recent.len() + others.silent.len() <= 2 * OTHERS);
        }
        assert_eq!(others.count(), 50_000);
    }

    #[test]
    fn the_last_transaction_of_a_connection_may_be_open() {
        let mut totals = Totals::new(Hooks::ALL, 0, OBSERVER);
        assert!(totals.add_last(transaction(1, 5_000)));
        let mut open = transaction(1, 5_000);
        open.got[0].read = 0;
        assert!(!totals.add_last(open));
        assert_eq!((totals.transactions(), totals.unmatched.total()), (1, 0));
    }
}
