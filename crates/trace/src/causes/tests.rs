//! Each rule on made-up events, one transaction at a time.

use std::collections::HashMap;

use hairpin_record::explain::Direction::{Reply, Request};

use super::*;
use Moment::{Copied, Queued, Ready, Received, Returned, Send, Started, Switched, Waking, Woken};

const CLIENT: u32 = 7;
const SERVER: u32 = 8;

/// A way of a receiver that spins, from `at` on, each interval 100 ns, plus `longer.1` before the moment `longer.0`.
fn way(at: i64, moments: &[Moment], longer: &[(Moment, i64)]) -> Vec<(Moment, i64)> {
    let mut now = at - 100;
    let stamped = moments.iter().map(|moment| {
        now += 100 + longer.iter().filter(|(of, _)| of == moment).map(|(_, ns)| ns).sum::<i64>();
        (*moment, now)
    });
    stamped.collect()
}

const SPIN: [Moment; 6] = [Send, Queued, Received, Ready, Copied, Returned];
const SLEEP: [Moment; 9] = [Send, Queued, Received, Ready, Waking, Woken, Switched, Copied, Returned];
/// Start of the transactions.
const BEGAN: i64 = 10_000_000;

/// A transaction whose request is slower by the given times before the given moments.
fn slower(moments: &[Moment], longer: &[(Moment, i64)]) -> Transaction {
    let request = way(BEGAN, moments, longer);
    let reply = way(request[request.len() - 1].1 + 100, moments, &[]);
    Transaction { sequence: 1, packets: 1, ways: [request, reply], home: None }
}

fn typical(moments: &[Moment]) -> Typical {
    let usual = slower(moments, &[]);
    let intervals = [Request, Reply]
        .into_iter()
        .flat_map(|direction| moments.windows(2).map(move |pair| ((direction, pair[0], pair[1]), 100)));
    let turn = ((Reply, Returned, Send), 100);
    Typical { rtt_ns: usual.rtt_ns(), slow_ns: 0, intervals: intervals.chain([turn]).collect() }
}

fn event(cpu: u32, at: i64, took: u64, what: What) -> Event {
    Event { cpu, at: (BEGAN + at) as u64, took, what }
}

/// From one thread to another, and back.
fn stay(cpu: u32, from: i64, to: i64, thread: u32, own: u32) -> [Event; 2] {
    [
        event(cpu, from, 0, What::Switched { from: own, to: thread, runnable: true }),
        event(cpu, to, 0, What::Switched { from: thread, to: own, runnable: true }),
    ]
}

/// One tick is one ns of CLOCK_MONOTONIC.
fn span() -> Span {
    Span::of_times(0, 100_000_000)
}

struct Case {
    causes: Causes,
    names: Names,
    moments: &'static [Moment],
}

impl Case {
    fn new(moments: &'static [Moment]) -> Case {
        let mut names = Names::default();
        names.threads.extend([(0, "swapper/1".to_owned()), (99, "stress".into()), (20, "ksoftirqd/0".into())]);
        let whose = Whose { threads: [CLIENT, SERVER], cpus: [Some(0), Some(1)], nagle: [false; 2] };
        Case { causes: Causes::new(whose), names, moments }
    }

    /// The causes of one transaction as kind, culprit and ns, largest first. They add up to the time that it lost.
    fn parts(&mut self, transaction: Transaction, events: &[Event]) -> Vec<(Kind, String, u64)> {
        let typical = typical(self.moments);
        let lost = transaction.rtt_ns() - typical.rtt_ns;
        let mut events = events.to_vec();
        events.sort_by_key(|event| event.at);
        self.causes.add(&[transaction], &events, &span(), 0);
        let slowest = self.causes.slowest(1, &typical, &self.names);
        let parts: Vec<_> = slowest[0].1.iter().map(|part| (part.kind, part.who.clone(), part.ns.round() as u64)).collect();
        assert_eq!(parts.iter().map(|part| part.2).sum::<u64>(), lost, "{parts:?}");
        parts
    }
}

/// The causes of one transaction on a path with spinning receivers.
fn spinning(longer: &[(Moment, i64)], events: &[Event]) -> Vec<(Kind, String, u64)> {
    Case::new(&SPIN).parts(slower(&SPIN, longer), events)
}

fn sleeping(longer: &[(Moment, i64)], events: &[Event]) -> Vec<(Kind, String, u64)> {
    Case::new(&SLEEP).parts(slower(&SLEEP, longer), events)
}

fn part(kind: Kind, who: &str, ns: u64) -> (Kind, String, u64) {
    (kind, who.into(), ns)
}

#[test]
fn thread_that_takes_the_core_of_a_running_one_preempts_it() {
    // The message is there at 300, the server reads it at 50,400.
    let found = spinning(&[(Copied, 50_000)], &stay(1, 350, 50_350, 99, SERVER));
    assert_eq!(found, [part(Kind::Preempted, "stress (pid 99)", 50_000)]);
    // In the send call the client's core counts.
    let found = spinning(&[(Queued, 50_000)], &stay(1, 350, 50_350, 99, SERVER));
    assert_eq!(found, [part(Kind::Nothing, "CPU 0 (client)", 50_000)]);
    let found = spinning(&[(Queued, 50_000)], &stay(0, 50, 50_050, 99, CLIENT));
    assert_eq!(found, [part(Kind::Preempted, "stress (pid 99)", 50_000)]);
    // On one core the other side is a competitor.
    let mut case = Case::new(&SPIN);
    case.causes.whose.cpus = [Some(0), Some(0)];
    let found = case.parts(slower(&SPIN, &[(Copied, 9_000)]), &stay(0, 350, 9_350, CLIENT, SERVER));
    assert_eq!(found, [part(Kind::Preempted, "the client's thread", 9_000)]);
}

#[test]
fn if_threads_keep_both_sides_the_last_to_leave_is_the_cause() {
    // No hook tells when the message was there.
    const LIGHT: [Moment; 3] = [Send, Queued, Returned];
    let found = |client: i64, server: i64| {
        let mut case = Case::new(&LIGHT);
        case.names.threads.insert(98, "backup".to_owned());
        let events = [stay(0, 150, client, 98, CLIENT), stay(1, 160, server, 99, SERVER)].concat();
        case.parts(slower(&LIGHT, &[(Returned, 50_000)]), &events)[0].1.clone()
    };
    assert_eq!([found(50_000, 50_100), found(50_100, 50_000)], ["stress (pid 99)", "backup (pid 98)"]);
}

#[test]
fn a_woken_thread_waits_behind_others_or_for_the_core_to_wake() {
    let found = sleeping(&[(Switched, 50_000)], &stay(1, 550, 50_560, 99, 0));
    assert_eq!(found, [part(Kind::RunQueue, "stress (pid 99)", 50_000)]);
    let idle = [
        event(1, -10_000, 0, What::Switched { from: SERVER, to: 0, runnable: false }),
        event(1, 30_450, 39_000, What::Idle(1)),
        event(1, 30_600, 0, What::Switched { from: 0, to: SERVER, runnable: true }),
    ];
    assert_eq!(sleeping(&[(Woken, 30_000)], &idle), [part(Kind::Idle, "idle state 1", 30_000)]);
}

#[test]
fn a_thread_that_leaves_its_core_idle_though_it_could_go_on_is_stopped_by_a_limit() {
    let limited = |ns| part(Kind::Preempted, LIMITED, ns);
    assert_eq!(spinning(&[(Copied, 50_000)], &stay(1, 350, 50_350, 0, SERVER)), [limited(50_000)]);
    assert_eq!(spinning(&[(Copied, 30_000)], &stay(1, -10_000, 30_350, 0, SERVER)), [limited(30_000)], "before the request came");
    let mut sleeps = stay(1, 350, 50_350, 0, SERVER);
    sleeps[0].what = What::Switched { from: SERVER, to: 0, runnable: false };
    assert_eq!(spinning(&[(Copied, 50_000)], &sleeps)[0].0, Kind::Idle);
    // No hook tells when the message was there, and the client sleeps until the reply is.
    const LIGHT: [Moment; 3] = [Send, Queued, Returned];
    let waits = [
        event(0, 150, 0, What::Switched { from: CLIENT, to: 0, runnable: false }),
        event(0, 50_100, 0, What::Switched { from: 0, to: CLIENT, runnable: true }),
    ];
    let events = [&waits[..], &stay(1, 160, 50_000, 0, SERVER)].concat();
    assert_eq!(Case::new(&LIGHT).parts(slower(&LIGHT, &[(Returned, 50_000)]), &events)[0], limited(49_840));
}

#[test]
fn interrupts_take_their_own_time() {
    let events = [
        event(1, 20_350, 20_000, What::Softirq(1)),
        event(1, 28_350, 8_000, What::Interrupt(36)),
        event(1, 34_350, 6_000, What::Timer),
        event(1, 39_350, 5_000, What::Call),
        event(1, 40_350, 1_000, What::Reschedule),
    ];
    let expected = [
        part(Kind::SoftInterrupt, "TIMER", 20_000),
        part(Kind::HardInterrupt, "interrupt 36", 8_000),
        part(Kind::Timer, "CPU 1", 6_000),
        part(Kind::Call, "CPU 1", 6_000),
    ];
    assert_eq!(spinning(&[(Copied, 40_000)], &events), expected);
    // Less than a gap is left over.
    let found = spinning(&[(Copied, 44_000)], &events);
    assert_eq!((&found[..4], &found[4..]), (&expected[..], &[part(Kind::Small, "", 4_000)][..]));
}

#[test]
fn a_soft_interrupt_that_carries_the_packet_itself_is_no_cause() {
    // The packet is received at 200 and in the queue at 300.
    let own = [event(0, 20_350, 20_300, What::Softirq(3))];
    assert_eq!(spinning(&[(Ready, 20_000)], &own), [part(Kind::Nothing, "CPU 0 (client)", 20_000)]);
    let others = [event(0, 20_150, 20_000, What::Softirq(3))];
    assert_eq!(spinning(&[(Received, 20_000)], &others), [part(Kind::SoftInterrupt, "NET_RX", 20_000)]);
}

#[test]
fn a_packet_that_was_left_to_ksoftirqd_waited_for_its_turn() {
    let events = stay(0, 3_000_000, 3_000_150, 20, CLIENT);
    assert_eq!(spinning(&[(Received, 3_000_000)], &events), [part(Kind::Deferred, "ksoftirqd/0 (pid 20)", 3_000_000)]);
    // A thread that keeps the core from ksoftirqd meanwhile is blamed for that time.
    let switched = |at, from, to| event(0, at, 0, What::Switched { from, to, runnable: true });
    let events = [switched(50, CLIENT, 99), switched(2_000_050, 99, 20), switched(2_100_050, 20, CLIENT)];
    let found = spinning(&[(Received, 2_100_000)], &events);
    let expected = [
        part(Kind::Preempted, "stress (pid 99)", 1_999_950),
        part(Kind::Deferred, "ksoftirqd/0 (pid 20)", 100_000),
        part(Kind::Small, "", 50),
    ];
    assert_eq!(found, expected);
}

#[test]
fn a_delay_of_the_receiver_after_ksoftirqds_turn_is_another_cause() {
    // On the request's way, ksoftirqd has an early turn on the sender's core, and a process has the receiver's core for long.
    let [first, second] = stay(0, 1_000, 20_000, 20, CLIENT);
    let [third, fourth] = stay(1, 500, 2_000_150, 99, SERVER);
    const LIGHT: [Moment; 3] = [Send, Queued, Returned];
    let found = Case::new(&LIGHT).parts(slower(&LIGHT, &[(Returned, 2_000_000)]), &[first, second, third, fourth]);
    assert_eq!(found[0], part(Kind::Preempted, "stress (pid 99)", 1_980_100));
    assert_eq!(found[1], part(Kind::Deferred, "ksoftirqd/0 (pid 20)", 19_900));
}

#[test]
fn a_migration_is_the_cause_of_a_late_wake_up() {
    let events = [event(1, 600, 0, What::Migrated(1))];
    assert_eq!(sleeping(&[(Switched, 8_000)], &events), [part(Kind::Migration, "", 8_000)]);
}

#[test]
fn tells_tcps_reasons_to_wait_apart() {
    let ack = |by, late| event(1, 40_000_050, 0, What::Acknowledged { by, late });
    let run = |nagle, packets, events: &[Event]| {
        let mut case = Case::new(&SPIN);
        case.causes.whose.nagle = [nagle; 2];
        case.parts(Transaction { packets, ..slower(&SPIN, &[(Queued, 40_000_000)]) }, events)
    };
    let found = run(true, 2, &[ack(Origin::Server, true)]);
    assert_eq!(found, [part(Kind::DelayedAck, "the server", 40_000_000)]);
    assert_eq!(run(true, 2, &[ack(Origin::Server, false)]), [part(Kind::Nagle, "the client", 40_000_000)]);
    // Not Nagle's delay: Nagle is off, there is one packet, or the acknowledgement is the client's own.
    let gap = [part(Kind::Nothing, "CPU 0 (client)", 40_000_000)];
    assert_eq!(run(false, 2, &[ack(Origin::Server, false)]), gap);
    assert_eq!(run(true, 1, &[ack(Origin::Server, true)]), gap);
    assert_eq!(run(true, 2, &[ack(Origin::Client, true)]), gap);
    let again = event(0, 40_000_000, 0, What::Retransmitted(Origin::Client));
    assert_eq!(run(true, 2, &[again, ack(Origin::Server, true)]), [part(Kind::Retransmission, "the client", 40_000_000)]);
}

#[test]
fn a_gap_is_stolen_as_far_as_the_hypervisor_reports_it() {
    let nothing = [part(Kind::Nothing, "CPU 1 (server)", 90_000)];
    assert_eq!(spinning(&[(Copied, 90_000)], &[]), nothing);
    // Seen at the next tick, after the transaction.
    let events = [event(1, -3_000_000, 1_000, What::Timer), event(1, 1_000_000, 60_000, What::Stolen)];
    let expected = [part(Kind::Stolen, "CPU 1 (server)", 60_000), part(Kind::Nothing, "CPU 1 (server)", 30_000)];
    assert_eq!(spinning(&[(Copied, 90_000)], &events), expected);
    // Between two looks after it.
    let events = [event(1, 500_000, 1_000, What::Timer), event(1, 1_000_000, 60_000, What::Stolen)];
    assert_eq!(spinning(&[(Copied, 90_000)], &events), nothing);
    let mut case = Case::new(&SPIN);
    case.causes.whose.cpus[1] = None;
    let found = case.parts(slower(&SPIN, &[(Copied, 90_000)]), &[]);
    assert_eq!(found, [part(Kind::Outside, "the other host or the way", 90_000)]);
    // Both sides on one core, whose stolen time counts once.
    let events = [event(0, -3_000_000, 1_000, What::Timer), event(0, 1_000_000, 60_000, What::Stolen)];
    let mut case = Case::new(&SPIN);
    case.causes.whose.cpus = [Some(0), Some(0)];
    let found = case.parts(slower(&SPIN, &[(Queued, 50_000), (Copied, 50_000)]), &events);
    let (client, server) = ("CPU 0 (client)", "CPU 0 (server)");
    let expected = [part(Kind::Stolen, client, 50_000), part(Kind::Nothing, server, 40_000), part(Kind::Stolen, server, 10_000)];
    assert_eq!(found, expected);
}

#[test]
fn stolen_time_explains_one_transaction_only() {
    let late = |ns| slower(&SPIN, &[(Copied, ns)]);
    let mut after = late(40_000);
    after.ways.iter_mut().flatten().for_each(|(_, at)| *at += 200_000);
    let mut case = Case::new(&SPIN);
    let events = [event(1, -3_000_000, 1_000, What::Timer), event(1, 1_000_000, 60_000, What::Stolen)];
    case.causes.add(&[late(50_000), after], &events, &span(), 7_000);
    let parts = |found: &[Part]| found.iter().map(|part| (part.kind, part.ns.round() as u64)).collect::<Vec<_>>();
    let found: Vec<_> = case.causes.slowest(2, &typical(&SPIN), &case.names).iter().map(|(_, found)| parts(found)).collect();
    assert_eq!(found, [vec![(Kind::Stolen, 50_000)], vec![(Kind::Nothing, 30_000), (Kind::Stolen, 10_000)]]);
    let sum: u64 = case
        .causes
        .table(&typical(&SPIN), &case.names)
        .iter()
        .filter(|cause| cause.cause == "stolen")
        .map(|cause| cause.lost_ns)
        .sum();
    assert_eq!(sum, 60_000);
}

#[test]
fn time_outside_two_hosts_is_on_no_core_of_this_one() {
    const REMOTE: [Moment; 7] = [Send, Queued, Started, Received, Ready, Copied, Returned];
    let found = |events: &[Event]| {
        let mut case = Case::new(&REMOTE);
        case.causes.whose.cpus[1] = None;
        // The reply's way is on the client's host from `Received` on.
        case.parts(Transaction { home: Some(3), ..slower(&REMOTE, &[(Received, 1_000_000)]) }, events)
    };
    let spins: [Event; 0] = [];
    let sleeps = [
        event(0, 250, 0, What::Switched { from: CLIENT, to: 0, runnable: false }),
        event(0, 1_001_100, 1_000_800, What::Idle(1)),
        event(0, 1_001_150, 0, What::Switched { from: 0, to: CLIENT, runnable: true }),
    ];
    let makes_room = stay(0, 250, 1_001_150, 99, CLIENT);
    for events in [&spins[..], &sleeps[..], &makes_room[..]] {
        assert_eq!(found(events), [part(Kind::Outside, "the other host or the way", 1_000_000)]);
    }
}

#[test]
fn small_delays_everywhere_are_not_a_gap() {
    let longer = [(Queued, 900), (Received, 800), (Copied, 700)];
    assert_eq!(spinning(&longer, &[]), [part(Kind::Small, "", 2_400)]);
}

#[test]
fn the_table_holds_all_time_that_was_lost_and_the_largest_first() {
    let mut case = Case::new(&SPIN);
    let typical = Typical { slow_ns: 60_000, ..typical(&SPIN) };
    let mut add = |longer: i64, events: &[Event]| case.causes.add(&[slower(&SPIN, &[(Copied, longer)])], events, &span(), 0);
    for _ in 0..3 {
        add(80_000, &stay(1, 350, 70_350, 99, SERVER));
    }
    add(500_000, &[event(1, 450_350, 450_000, What::Softirq(9))]);
    // Not slow.
    add(50_000, &[event(1, 40_350, 40_000, What::Interrupt(5))]);
    let table = case.causes.table(&typical, &case.names);
    let rows: Vec<_> = table.iter().map(|cause| (cause.cause.as_str(), cause.who.as_str(), cause.count, cause.lost_ns)).collect();
    let expected = [
        ("soft interrupt", "RCU", 1, 450_000),
        ("preempted", "stress (pid 99)", 3, 210_000),
        ("nothing seen", "CPU 1 (server)", 4, 80_000),
    ];
    assert_eq!(rows, expected);
    assert!(table.iter().all(|cause| !cause.advice.is_empty()));
}

#[test]
fn a_limit_has_its_own_advice() {
    let mut case = Case::new(&SPIN);
    for thread in [0, 99] {
        case.causes.add(&[slower(&SPIN, &[(Copied, 50_000)])], &stay(1, 350, 50_350, thread, SERVER), &span(), 0);
    }
    let table = case.causes.table(&typical(&SPIN), &case.names);
    let is_limit = |who: &str| table.iter().find(|cause| cause.who == who).map(|cause| cause.advice.contains("cpu.max"));
    assert_eq!([LIMITED, "stress (pid 99)"].map(is_limit), [Some(true), Some(false)]);
}

#[test]
fn processes_with_the_same_effect_share_a_row() {
    let mut case = Case::new(&SPIN);
    for thread in 100..110 {
        let longer = 10_000 * i64::from(thread);
        case.causes.add(&[slower(&SPIN, &[(Copied, longer)])], &stay(1, 350, longer + 350, thread, SERVER), &span(), 0);
    }
    let table = case.causes.table(&typical(&SPIN), &case.names);
    let rows: Vec<_> = table.iter().map(|cause| (cause.who.as_str(), cause.count, cause.lost_ns)).collect();
    let expected = [
        ("5 others", 5, 5_100_000),
        ("pid 109", 1, 1_090_000),
        ("pid 108", 1, 1_080_000),
        ("pid 107", 1, 1_070_000),
        ("pid 106", 1, 1_060_000),
        ("pid 105", 1, 1_050_000),
    ];
    assert_eq!(rows, expected);
}

#[test]
fn tells_the_preempting_thread_from_other_holders() {
    let mut case = Case::new(&SLEEP);
    let asleep = |at| event(1, at, 0, What::Switched { from: SERVER, to: 99, runnable: false });
    // 99 has the core for 50,000 ns, for 40,000 of which the server had been woken.
    let events = [asleep(-9_400), event(1, 40_600, 0, What::Switched { from: 99, to: SERVER, runnable: true })];
    case.causes.add(&[slower(&SLEEP, &[(Switched, 40_000)])], &events, &span(), 0);
    assert_eq!(case.causes.kept.get(&(1, 99)), Some(&40_100));
    // A wake-up that takes no longer than usual.
    case.causes.add(
        &[slower(&SLEEP, &[])],
        &[asleep(-9_400), event(1, 600, 0, What::Switched { from: 99, to: SERVER, runnable: true })],
        &span(),
        0,
    );
    assert_eq!(case.causes.kept.get(&(1, 99)), Some(&40_100));
}

#[test]
fn time_that_a_thread_keeps_both_sides_from_one_core_counts_for_each_side() {
    let mut case = Case::new(&SPIN);
    case.causes.whose.cpus = [Some(0), Some(0)];
    let switched = |at, from, to| event(0, at, 0, What::Switched { from, to, runnable: true });
    let events = [switched(50, SERVER, CLIENT), switched(100, CLIENT, 99), switched(400, 99, CLIENT)];
    case.causes.add(&[slower(&SPIN, &[])], &events, &span(), 0);
    assert_eq!([0, 1].map(|side| case.causes.kept.get(&(side, 99))), [Some(&300); 2]);
}

#[test]
fn only_the_slowest_transactions_are_kept() {
    let mut case = Case::new(&SPIN);
    let all: Vec<Transaction> = (0..KEPT as i64 + 500).map(|n| slower(&SPIN, &[(Copied, n)])).collect();
    case.causes.add(&all, &[], &span(), 5);
    assert_eq!(case.causes.slowest.len(), KEPT);
    let least = case.causes.slowest.peek().map(|Reverse(slow)| slow.rtt_ns);
    assert_eq!(least, Some(all[500].rtt_ns()));
    let slowest = case.causes.slowest(1, &typical(&SPIN), &case.names);
    assert_eq!((slowest[0].0.rtt_ns, slowest[0].0.at_ns), (all[all.len() - 1].rtt_ns(), 5 + BEGAN as u64));
}

#[test]
fn counts_for_the_detectors_are_of_all_blocks() {
    let mut case = Case::new(&SPIN);
    let events = [
        event(1, 100, 0, What::Acknowledged { by: Origin::Server, late: true }),
        event(1, 200, 0, What::Acknowledged { by: Origin::Server, late: false }),
        event(0, 300, 0, What::Overflowed(Origin::Client)),
        event(0, 400, 0, What::Switched { from: 99, to: CLIENT, runnable: true }),
    ];
    for _ in 0..2 {
        case.causes.add(&[Transaction { packets: 2, ..slower(&SPIN, &[]) }], &events, &span(), 0);
    }
    let causes = &case.causes;
    let parted = Parted { requests: 2, of: 2 };
    assert_eq!((causes.late_acks, causes.overflows, causes.parted, causes.traced_ns), ([0, 2], [2, 0], parted, 200_000_000));
    assert_eq!(causes.totals.get(&(0, Busy::Thread(99))), Some(&(2 * (BEGAN as u64 + 400))));
    let holders: HashMap<u32, u32> = [(0, CLIENT)].into();
    assert_eq!(causes.holders, holders);
}

#[test]
fn a_delayed_acknowledgement_that_two_devices_queue_is_one() {
    let mut case = Case::new(&SPIN);
    let late = |at| event(1, at, 0, What::Acknowledged { by: Origin::Client, late: true });
    case.causes.add(&[slower(&SPIN, &[])], &[late(100), late(2_100), late(40_000_100)], &span(), 0);
    assert_eq!(case.causes.late_acks, [2, 0]);
}

#[test]
fn a_thread_that_may_have_left_is_not_blamed() {
    let blamed = |later: fn(&mut Causes)| {
        let mut case = Case::new(&SPIN);
        case.causes.came(1, Some(99));
        later(&mut case.causes);
        case.parts(slower(&SPIN, &[(Copied, 50_000)]), &[])
    };
    assert_eq!(blamed(|_| {}), [part(Kind::Preempted, "stress (pid 99)", 50_000)]);
    let unknown: [fn(&mut Causes); 2] = [|causes| causes.came(1, None), Causes::forget_holders];
    for later in unknown {
        assert_eq!(blamed(later), [part(Kind::Nothing, "CPU 1 (server)", 50_000)]);
    }
}

#[test]
fn a_million_events_of_a_million_threads_leave_nothing_in_a_run_that_forgets() {
    let whose = Whose { threads: [CLIENT, SERVER], cpus: [Some(0), Some(1)], nagle: [false; 2] };
    let mut causes = Causes::new(whose);
    let names = Names::default();
    for block in 0..1_000_u32 {
        // Threads come and go on both CPUs during one transaction.
        let thread = |number: u32| 100 + 500 * block + number;
        let events: Vec<Event> =
            (0..500).flat_map(|n| (0..2).flat_map(move |cpu| stay(cpu, i64::from(n), i64::from(n), n, cpu))).collect();
        let events: Vec<Event> = events
            .into_iter()
            .map(|event| match event.what {
                What::Switched { from, to, runnable } => {
                    Event { what: What::Switched { from: thread(from), to: thread(to), runnable }, ..event }
                }
                _ => event,
            })
            .collect();
        let transactions = [slower(&SPIN, &[(Received, 1_000)])];
        causes.forget();
        causes.add(&transactions, &events, &span(), 0);
        assert_eq!(causes.slowest(64, &typical(&SPIN), &names).len(), 1, "of this block alone");
        assert!(causes.totals.len() <= 1_004 && causes.kept.len() <= 1_004, "{} {}", causes.totals.len(), causes.kept.len());
        assert_eq!(causes.holders.len(), 2, "one for each CPU");
    }
}

#[test]
fn a_switch_among_the_events_is_a_moment_of_the_receiver_that_slept() {
    let whose = Whose { threads: [CLIENT, SERVER], cpus: [Some(0), Some(1)], nagle: [false; 2] };
    let causes = Causes::new(whose);
    let moments = [Send, Ready, Returned];
    let slept = slower(&moments, &[(Ready, 1_000), (Returned, 5_000)]);
    let ready = slept.ways[0][1].1 - BEGAN;
    // The server's thread gets its CPU before the message is there, on another CPU, and then after it; another thread comes as
    // well.
    let came = |cpu, at, to| event(cpu, at, 0, What::Switched { from: 0, to, runnable: false });
    let events =
        [came(1, ready - 500, SERVER), came(0, ready + 300, SERVER), came(1, ready + 400, 99), came(1, ready + 2_000, SERVER)];
    let mut found = [slept.clone()];
    causes.add_switches(&mut found, &events, &span());
    assert_eq!(found[0].ways[0][2], (Switched, BEGAN + ready + 2_000));
    assert_eq!((found[0].ways[0].len(), &found[0].ways[1]), (4, &slept.ways[1]), "the client did not sleep");
    // A way that already has this moment keeps it.
    let whole = slower(&SLEEP, &[]);
    let mut found = [whole.clone()];
    causes.add_switches(&mut found, &[came(1, whole.ways[0][5].1 - BEGAN, SERVER)], &span());
    assert_eq!(found[0], whole);
}

#[test]
fn a_receiver_that_was_pushed_off_its_core_did_not_sleep() {
    const LIGHT: [Moment; 3] = [Send, Ready, Returned];
    // The server leaves its core before the message is there, and has it back 5,000 ns later.
    let told = |runnable| {
        let events = [
            event(1, 50, 0, What::Switched { from: SERVER, to: 99, runnable }),
            event(1, 5_050, 0, What::Switched { from: 99, to: SERVER, runnable: true }),
        ];
        let mut case = Case::new(&LIGHT);
        let mut slow = [slower(&LIGHT, &[(Returned, 5_000)])];
        case.causes.add_switches(&mut slow, &events, &span());
        let [slow] = slow;
        let moments = slow.ways[0].len();
        (moments, case.parts(slow, &events)[0].0)
    };
    assert_eq!(told(true), (3, Kind::Preempted));
    assert_eq!(told(false), (4, Kind::RunQueue));
}
