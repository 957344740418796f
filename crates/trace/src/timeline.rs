//! One transaction event by event: the moments of both ways, and the events on both cores.

use hairpin_record::explain::{Event, Timeline};
use hairpin_record::run::Side;
use hairpin_units::Arrange;

use crate::causes::{Part, Slow, Whose};
use crate::cores::Seen;
use crate::events::{Origin, What};
use crate::moment::Moment;
use crate::names::Names;

/// Two hooks stamp the switch to a thread: stamps at most this far apart are one event, in ns.
const SAME_NS: i64 = 2_000;

/// The timeline of a transaction, with `causes` in descending order of size.
pub fn timeline(slow: &Slow, causes: &[Part], whose: &Whose, names: &Names) -> Timeline {
    let began = slow.transaction.began();
    let apart = slow.transaction.home.is_some();
    let mut events: Vec<Event> = Vec::new();
    for (way, (sender, receiver)) in slow.transaction.ways.iter().zip([(0, 1), (1, 0)]) {
        for (moment, at) in way {
            let here = if *moment < Moment::Passed { sender } else { receiver };
            // Until the wake-up the kernel works on the sender's CPU, for the receiver too if it is on the same host.
            let cpu = if *moment <= Moment::Waking && !apart { sender } else { here };
            let detail = if *moment == Moment::Switched { switched_to(slow, *at, whose, receiver, names) } else { String::new() };
            events.push(Event {
                at_ns: at - began,
                name: moment.name().into(),
                side: Some(side(here)),
                cpu: whose.cpus[cpu],
                detail,
            });
        }
    }
    for seen in slow.during.events() {
        if !is_moment(slow, seen, whose) {
            events.push(event(seen, began, names));
        }
    }
    if slow.during.left_out > 0 {
        let detail = format!("{} shorter ones are left out", slow.during.left_out);
        events.push(Event { at_ns: slow.rtt_ns as i64, name: "events".into(), side: None, cpu: None, detail });
    }
    // A stable sort: events of the same time stay in the order of the message's way.
    events.arrange_by_key(|event| event.at_ns);
    let cause = causes.first().map_or_else(String::new, |part| match part.who.as_str() {
        "" => part.kind.of().name.to_owned(),
        who => format!("{}: {who}", part.kind.of().name),
    });
    Timeline { rtt_ns: slow.rtt_ns, at_ns: slow.at_ns, sequence: slow.transaction.sequence, cause, events }
}

fn side(number: usize) -> Side {
    if number == 0 { Side::Client } else { Side::Server }
}

/// True for a switch that is already in the timeline as a moment.
fn is_moment(slow: &Slow, seen: &Seen, whose: &Whose) -> bool {
    let What::Switched { to, .. } = seen.what else { return false };
    let ways = slow.transaction.ways.iter().zip([1, 0]);
    ways.into_iter().any(|(way, receiver)| {
        to == whose.threads[receiver]
            && way.iter().any(|(moment, at)| *moment == Moment::Switched && (seen.at - at).abs() <= SAME_NS)
    })
}

/// The switch to the receiver: the thread that left the CPU, and the receiver's.
fn switched_to(slow: &Slow, at: i64, whose: &Whose, receiver: usize, names: &Names) -> String {
    let thread = whose.threads[receiver];
    let to = |seen: &&Seen| matches!(seen.what, What::Switched { to, .. } if to == thread) && (seen.at - at).abs() <= SAME_NS;
    match slow.during.events().iter().find(to).map(|seen| seen.what) {
        Some(What::Switched { from, .. }) => format!("{} → {}", names.thread(from), names.thread(thread)),
        _ => String::new(),
    }
}

/// An event as the kernel names it.
fn event(seen: &Seen, began: i64, names: &Names) -> Event {
    let for_us = || format!("{:.1} us", seen.took as f64 / 1e3);
    let (name, whose, detail) = match seen.what {
        What::Switched { from, to, runnable } => {
            let stopped = if runnable && from != 0 { ", which could have gone on" } else { "" };
            ("sched_switch", None, format!("{} → {}{stopped}", names.thread(from), names.thread(to)))
        }
        What::Interrupt(number) => {
            ("irq_handler_exit", None, format!("{}, {}", names.busy(seen.cpu, crate::cores::Busy::Interrupt(number)), for_us()))
        }
        What::Timer => ("local_timer_exit", None, for_us()),
        What::Reschedule => ("reschedule_exit", None, for_us()),
        What::Call => ("call_function_exit", None, for_us()),
        What::Softirq(number) => {
            ("softirq_exit", None, format!("{}, {}", names.busy(seen.cpu, crate::cores::Busy::Softirq(number)), for_us()))
        }
        What::Idle(state) => ("cpu_idle", None, format!("out of {} after {}", names.idle(seen.cpu, state), for_us())),
        What::Stolen => ("steal", None, format!("{} since the last look", for_us())),
        What::Migrated(to) => ("sched_migrate_task", None, format!("to CPU {to}")),
        What::Retransmitted(by) => ("tcp_retransmit_skb", Some(by), String::new()),
        What::Acknowledged { by, late } => {
            ("tcp_send_ack", Some(by), if late { "ACK, delayed until its timer ran out" } else { "ACK" }.to_owned())
        }
        What::Overflowed(at) => ("sock_rcvqueue_full", Some(at), "no room in the receive queue".to_owned()),
    };
    let side = whose.map(|origin| if origin == Origin::Client { Side::Client } else { Side::Server });
    Event { at_ns: seen.at - began, name: name.into(), side, cpu: Some(seen.cpu), detail }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::causes::Kind;
    use crate::cores::Cores;
    use crate::events;
    use crate::join::Transaction;

    #[test]
    fn sorts_moments_and_events_by_time() {
        use Moment::{Copied, Queued, Ready, Returned, Send, Switched, Waking, Woken};
        let request = vec![
            (Send, 1_000),
            (Queued, 1_200),
            (Ready, 2_000),
            (Waking, 2_100),
            (Woken, 5_000),
            (Switched, 9_000),
            (Copied, 9_500),
            (Returned, 9_600),
        ];
        let reply = vec![(Send, 9_700), (Queued, 9_800), (Ready, 9_900), (Copied, 10_000), (Returned, 10_100)];
        let event = |cpu, at, took, what| events::Event { cpu, at, took, what };
        let seen = [
            event(1, 4_000, 3_500, What::Idle(1)),
            event(1, 4_100, 0, What::Switched { from: 0, to: 99, runnable: true }),
            event(1, 6_500, 900, What::Interrupt(36)),
            event(1, 8_900, 0, What::Switched { from: 99, to: 8, runnable: true }),
        ];
        let cores = Cores::new(&seen, |at| at as i64, &mut HashMap::new());
        let transaction = Transaction { sequence: 5, packets: 1, ways: [request, reply], home: None };
        let slow = Slow { rtt_ns: 9_100, at_ns: 77_000, transaction, during: cores.during(1_000, 10_100, &[0, 1]) };
        let whose = Whose { threads: [7, 8], cpus: [Some(0), Some(1)], nagle: [false; 2] };
        let mut names = Names::default();
        names.threads.extend([(0, "swapper/1".into()), (8, "hairpin".into()), (99, "stress".into())]);
        let timeline =
            timeline(&slow, &[Part { kind: Kind::RunQueue, who: "stress (pid 99)".into(), ns: 4_000.0 }], &whose, &names);
        assert_eq!(
            (timeline.rtt_ns, timeline.at_ns, timeline.cause.as_str()),
            (9_100, 77_000, "run queue wait: stress (pid 99)")
        );
        let of = |event: &Event| format!("{} {} {:?} {:?} {}", event.at_ns, event.name, event.side, event.cpu, event.detail);
        let lines: Vec<String> = timeline.events.iter().map(of).collect();
        let expected = [
            "0 send call Some(Client) Some(0) ",
            "200 net_dev_queue Some(Client) Some(0) ",
            "1000 sk_data_ready Some(Server) Some(0) ",
            "1100 sched_waking Some(Server) Some(0) ",
            "3000 cpu_idle None Some(1) out of idle state 1 after 3.5 us",
            "3100 sched_switch None Some(1) swapper/1 → stress (99)",
            "4000 sched_wakeup Some(Server) Some(1) ",
            "5500 irq_handler_exit None Some(1) interrupt 36, 0.9 us",
            "8000 sched_switch Some(Server) Some(1) stress (99) → hairpin (8)",
            "8500 sock_recv_length Some(Server) Some(1) ",
            "8600 receive returned Some(Server) Some(1) ",
            "8700 send call Some(Server) Some(1) ",
        ];
        assert_eq!(lines[..expected.len()], expected);
        assert!(timeline.events.is_sorted_by_key(|event| event.at_ns));
        assert_eq!(lines.len(), 8 + 5 + 3);
    }

    #[test]
    fn a_packet_from_another_host_is_never_on_its_senders_cpu() {
        use Moment::{Received, Returned, Send, Started};
        let way = |began: i64| [Send, Started, Received, Returned].into_iter().zip((0..).map(|n: i64| began + 100 * n)).collect();
        let transaction = Transaction { sequence: 5, packets: 1, ways: [way(0), way(1_000)], home: Some(2) };
        let slow = Slow { rtt_ns: 1_300, at_ns: 0, transaction, during: Default::default() };
        let whose = Whose { threads: [7, 0], cpus: [Some(3), None], nagle: [false; 2] };
        let events = timeline(&slow, &[], &whose, &Names::default()).events;
        let received = events.iter().filter(|event| event.name == Received.name());
        let places: Vec<_> = received.map(|event| (event.side, event.cpu)).collect();
        assert_eq!(places, [(Some(Side::Server), None), (Some(Side::Client), Some(3))]);
    }
}
