//! From the stamps of a transaction to its stages.
//!
//! ```text
//!   client   tcp_sendmsg_locked ─ stack out ─ net_dev_queue ─ qdisc ─ net_dev_start_xmit
//!   between                           driver + softirq
//!   server   netif_receive_skb ─ stack ─ sk_data_ready ─┬───────────────── queue ──────────────────┬─ sock_recv_length
//!                          notify ─ sched_waking ─ wake-up + run queue ─ sched_switch ─ receive ───┘
//!            sock_recv_length ─ request rest ─ sock_recv_length, the last one ─ application ─ tcp_sendmsg_locked
//! ```
//! The reply goes the same way back. A thread that slept has `notify`, `wake-up + run queue` and `receive`; a thread
//! that was awake has `queue` instead. One stage lies between two neighbouring stamps; without the stamp between them,
//! two stages are one with both names. The names are those of `hairpin.explain/1` where the hooks are the same.

use std::cmp::Ordering;
use std::sync::LazyLock;

use hairpin_record::attached::View;
use hairpin_record::explain::Direction;
use hairpin_record::run::Side;

use super::transaction::Transaction;
use crate::moment::{self, Moment, Route};

/// The attached hooks that decide a stage's name or a transaction's begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hooks {
    /// `tcp_sendmsg_locked`.
    pub send: bool,
    /// `netif_receive_skb`.
    pub receive: bool,
    /// `sched_waking` and `sched_switch`.
    pub scheduler: bool,
}

impl Hooks {
    /// All of them.
    pub const ALL: Hooks = Hooks { send: true, receive: true, scheduler: true };
}

/// The time between two neighbouring stamps, by their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HookPair {
    from: u8,
    to: u8,
}

/// A transaction with consistent stamps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measured {
    /// The sides seen.
    pub view: View,
    /// Its first stamp.
    pub begun: u64,
    /// From the first stamp to the last.
    pub sum: u64,
    /// The stages of that time, in order.
    pub stages: Vec<(HookPair, u64)>,
}

/// Why a transaction is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unmatched {
    /// Requests overlapped, or a message had no request.
    Pipelined,
    /// A required stamp is missing: the transaction began before the hooks were attached, or is not complete.
    Partial,
    /// Stamps run backwards: two messages were mistaken for one.
    OutOfOrder,
}

/// The moments that the programs stamp on one way. `Send` is the sender's `tcp_sendmsg_locked`, because the application does not
/// stamp its own call.
const WAY: [Moment; 8] = [
    Moment::Send,
    Moment::Queued,
    Moment::Started,
    Moment::Received,
    Moment::Ready,
    Moment::Waking,
    Moment::Switched,
    Moment::Copied,
];
/// Stamps of one way: those of [`WAY`], and the last receive call.
const PER_WAY: u8 = 9;

/// The hook of a stamp.
fn hook(stamp: u8) -> &'static str {
    match WAY.get(usize::from(stamp % PER_WAY)) {
        _ if stamp == QUEUED_LAST => Moment::Queued.name(),
        Some(Moment::Send) => "tcp_sendmsg_locked",
        Some(moment) => moment.name(),
        None => Moment::Copied.name(),
    }
}

/// The stage from each stamp to the next, named as in [`moment::stage`] where the moments are the same.
static STAGES: LazyLock<Vec<(String, Option<Side>, Direction)>> = LazyLock::new(|| {
    let way = |direction: Direction, sender: Side, receiver: Side, rest: &str| {
        let mut stages = Vec::new();
        for (from, to) in WAY.into_iter().zip(WAY.into_iter().skip(1)) {
            let name = match from {
                Moment::Send => "stack out".to_owned(),
                _ => {
                    let missing = [Moment::Passed, Moment::Woken];
                    moment::stage(Route::Sockets, from, to, true, &missing).unwrap_or_default()
                }
            };
            let side = match from {
                Moment::Send | Moment::Queued => Some(sender),
                Moment::Started => None,
                _ => Some(receiver),
            };
            stages.push((name, side, direction));
        }
        stages.push((rest.to_owned(), Some(receiver), direction));
        stages
    };
    let mut stages = way(Direction::Request, Side::Client, Side::Server, "request rest");
    stages.push(("application".to_owned(), Some(Side::Server), Direction::Reply));
    stages.extend(way(Direction::Reply, Side::Server, Side::Client, "reply rest"));
    stages
});

/// Numbers of stamps.
const CLIENT_QUEUED: u8 = 1;
const CLIENT_STARTED: u8 = 2;
const SENT: [u8; 2] = [0, 9];
const READY: [u8; 2] = [4, 13];
const READ: [u8; 2] = [7, 16];
const REQUEST_READ_LAST: u8 = 8;
const SERVER_SENT: u8 = 9;
const SERVER_QUEUED: u8 = 10;
const CLIENT_RECEIVED: u8 = 12;
const QUEUED_LAST: u8 = 18;

impl HookPair {
    pub fn name(self, hooks: Hooks) -> String {
        self.parts(hooks).iter().map(|(name, _, _)| *name).collect::<Vec<_>>().join(" + ")
    }

    /// The side; `None` between the sides.
    pub fn side(self, hooks: Hooks) -> Option<Side> {
        let parts = self.parts(hooks);
        parts[0].1.filter(|side| parts.iter().all(|part| part.1 == Some(*side)))
    }

    /// The way; `None` if on both.
    pub fn direction(self, hooks: Hooks) -> Option<Direction> {
        let parts = self.parts(hooks);
        (!self.is_elsewhere() && parts.iter().all(|part| part.2 == parts[0].2)).then_some(parts[0].2)
    }

    /// The hook at its start.
    pub fn from(self) -> &'static str {
        hook(self.from)
    }

    /// The hook at its end.
    pub fn to(self) -> &'static str {
        hook(self.to)
    }

    /// True for a stage in which a sleeping thread is notified, gets a CPU or reads.
    pub(super) fn is_wake_up(self) -> bool {
        READY.iter().any(|ready| self.from == ready + 1 && self.to == ready + 2)
    }

    /// True if it is the server's time between request and reply.
    pub(super) fn is_application(self) -> bool {
        (READ[0]..SERVER_SENT).contains(&self.from) && (SERVER_SENT..=SERVER_QUEUED).contains(&self.to)
    }

    /// True if a notified thread reads.
    pub(super) fn is_read(self) -> bool {
        (0..2).any(|way| self.from == READ[way] - 1 && self.to == READ[way])
    }

    /// True if a message waits for a thread that is awake.
    pub(super) fn is_queue(self, hooks: Hooks) -> bool {
        hooks.scheduler && (0..2).any(|way| self.from == READY[way] && self.to == READ[way])
    }

    /// The way of the message whose later parts may come in this stage. The first part is never held back for an acknowledgement.
    pub(super) fn later_parts(self) -> Option<usize> {
        let way = self.way();
        match () {
            () if self.is_elsewhere() => Some(0),
            () if self.to == QUEUED_LAST => Some(1),
            // Many a receiver reads, or is woken, only when all are there.
            () if self.from >= READY[way] && self.to <= READ[way] + 1 && !self.is_wake_up() => Some(way),
            () => None,
        }
    }

    /// True if one of the two lies within the other.
    pub(super) fn nests(self, other: HookPair) -> bool {
        let within = |inner: HookPair, outer: HookPair| outer.from <= inner.from && inner.to <= outer.to;
        within(self, other) || within(other, self)
    }

    /// True for all between a client's driver and its stack, where the client's side alone is seen.
    fn is_elsewhere(self) -> bool {
        self.from <= CLIENT_STARTED && self.to >= CLIENT_RECEIVED
    }

    /// The way: 0 the request, 1 the reply.
    pub(super) fn way(self) -> usize {
        usize::from(self.to > REQUEST_READ_LAST)
    }

    fn parts(self, hooks: Hooks) -> Vec<(&'static str, Option<Side>, Direction)> {
        let part = |at: usize| {
            let (name, side, direction) = &STAGES[at];
            (name.as_str(), *side, *direction)
        };
        let elsewhere = [("network and server", None, Direction::Request)];
        let rest = [("reply rest", Some(Side::Server), Direction::Reply)];
        if self.is_elsewhere() {
            let (before, after) =
                (usize::from(self.from)..usize::from(CLIENT_STARTED), usize::from(CLIENT_RECEIVED)..usize::from(self.to));
            return before.map(part).chain(elsewhere).chain(after.map(part)).collect();
        }
        let to = if self.to == QUEUED_LAST { SERVER_QUEUED + 1 } else { self.to };
        let mut parts = Vec::new();
        for at in self.from..to {
            let way = usize::from(at > REQUEST_READ_LAST);
            let asleep = (READY[way]..READ[way]).contains(&at) && self.from <= READY[way] && to >= READ[way];
            let (name, side, direction) = part(usize::from(at));
            if asleep && hooks.scheduler {
                // The thread was awake.
                if at == READY[way] {
                    parts.push(("queue", side, direction));
                }
            } else if at != READ[0] || to == REQUEST_READ_LAST {
                parts.push((name, side, direction));
            }
        }
        if self.to == QUEUED_LAST {
            parts.extend(rest);
        }
        parts
    }
}

/// The stages of a transaction.
///
/// # Errors
/// Why it is left out.
pub fn measure(transaction: &Transaction, hooks: Hooks) -> Result<Measured, Unmatched> {
    if transaction.pipelined {
        return Err(Unmatched::Pipelined);
    }
    let server = transaction.sent[0].ready != 0 || transaction.sent[1].queued != 0;
    let client = transaction.sent[0].queued != 0;
    let view = match (client, server) {
        (true, true) => View::Both,
        (false, true) => View::Server,
        (true, false) => View::Client,
        (false, false) => return Err(Unmatched::Partial),
    };
    let mut stamps: Vec<(u8, u64)> = Vec::with_capacity(usize::from(QUEUED_LAST) + 1);
    let mut put = |number: u8, at: u64| {
        if at != 0 {
            stamps.push((number, at));
        }
    };
    for (way, (sent, got)) in transaction.sent.iter().zip(&transaction.got).enumerate() {
        let (sender_here, receiver_here) = if way == 0 { (client, server) } else { (server, client) };
        if sender_here {
            put(SENT[way], sent.sent);
            put(SENT[way] + 1, sent.queued);
            put(SENT[way] + 2, sent.started);
        }
        if receiver_here {
            put(READY[way] - 1, sent.received);
            put(READY[way], sent.ready);
            // Woken without leaving its CPU: it was about to sleep.
            if sent.waking != 0 && got.switched != 0 {
                put(READY[way] + 1, sent.waking);
                put(READY[way] + 2, got.switched);
            }
            put(READ[way], got.read);
            put(READ[way] + 1, got.read_last);
        }
    }
    // It may be queued while the first packet still waits for the driver, and then that one's start is the end.
    if view == View::Server && transaction.sent[1].queued_last >= transaction.sent[1].started {
        put(QUEUED_LAST, transaction.sent[1].queued_last);
    }
    complete(&stamps, view, transaction, hooks)?;
    if stamps.windows(2).any(|two| two[0].1.cmp(&two[1].1) == Ordering::Greater) {
        return Err(Unmatched::OutOfOrder);
    }
    let stages = stamps.windows(2).map(|two| (HookPair { from: two[0].0, to: two[1].0 }, two[1].1 - two[0].1)).collect();
    let (begun, ended) = (stamps[0].1, stamps[stamps.len() - 1].1);
    Ok(Measured { view, begun, sum: ended - begun, stages })
}

/// The stamps that every sum needs.
fn complete(stamps: &[(u8, u64)], view: View, transaction: &Transaction, hooks: Hooks) -> Result<(), Unmatched> {
    let tcp = hooks.send && !transaction.connection.datagrams;
    let client: &[u8] = if tcp { &[0, CLIENT_QUEUED, READY[1], READ[1]] } else { &[CLIENT_QUEUED, READY[1], READ[1]] };
    let server = [READY[0], READ[0], SERVER_QUEUED];
    let first: &[u8] = if hooks.receive { &[READY[0] - 1] } else { &[] };
    let needed: Vec<u8> = match view {
        View::Both => [client, &server].concat(),
        View::Server => [first, &server].concat(),
        View::Client => client.to_vec(),
    };
    let has = |number: &u8| stamps.iter().any(|(there, _)| there == number);
    if needed.iter().all(has) { Ok(()) } else { Err(Unmatched::Partial) }
}

#[cfg(test)]
mod tests {
    use super::super::transaction::{Got, Sent};
    use super::*;

    /// Every stamp taken, 10 ns after the last one, in the order of the stamps' numbers.
    fn whole() -> Transaction {
        let way = |at: u64| {
            let (received, ready, waking) = (at + 30, at + 40, at + 50);
            let sent = Sent { sent: at, queued: at + 10, started: at + 20, received, ready, waking, ..Sent::default() };
            (sent, Got { switched: at + 60, read: at + 70, read_last: at + 80, ..Got::default() })
        };
        let ((asked, there), (answered, back)) = (way(1000), way(1090));
        Transaction { sent: [asked, answered], got: [there, back], ..Transaction::default() }
    }

    fn names(t: &Transaction, hooks: Hooks) -> Vec<String> {
        measure(t, hooks).unwrap().stages.iter().map(|(stage, _)| stage.name(hooks)).collect()
    }

    #[test]
    fn stages_add_up_to_the_total() {
        let measured = measure(&whole(), Hooks::ALL).unwrap();
        assert_eq!((measured.view, measured.begun, measured.sum), (View::Both, 1000, 170));
        assert_eq!(measured.stages.iter().map(|(_, ns)| ns).sum::<u64>(), 170);
        let names = names(&whole(), Hooks::ALL);
        assert_eq!(
            names.join(", "),
            "stack out, qdisc, driver + softirq, stack, notify, wake-up + run queue, receive, request rest, application, \
             stack out, qdisc, driver + softirq, stack, notify, wake-up + run queue, receive, reply rest"
        );
        let sides: Vec<Option<Side>> = measured.stages.iter().map(|(stage, _)| stage.side(Hooks::ALL)).collect();
        assert_eq!((sides[0], sides[2], sides[8], sides[16]), (Some(Side::Client), None, Some(Side::Server), Some(Side::Client)));
        let link = measured.stages[2].0;
        assert_eq!(
            (link.from(), link.to(), link.direction(Hooks::ALL)),
            ("net_dev_start_xmit", "netif_receive_skb", Some(Direction::Request))
        );
    }

    #[test]
    fn an_awake_thread_has_queue_and_no_wake_up() {
        let mut t = whole();
        (t.sent[0].waking, t.got[0].switched, t.got[0].read_last) = (0, 0, 0);
        // Woken before it slept.
        (t.got[1].switched, t.got[1].read_last) = (0, 0);
        let found = names(&t, Hooks::ALL);
        assert_eq!(
            found.join(", "),
            "stack out, qdisc, driver + softirq, stack, queue, application, stack out, qdisc, driver + softirq, stack, queue"
        );
        assert!(measure(&t, Hooks::ALL).unwrap().stages[4].0.is_queue(Hooks::ALL));
        assert!(measure(&t, Hooks::ALL).unwrap().stages[5].0.is_application());
    }

    #[test]
    fn a_missing_hook_joins_two_stages() {
        let mut t = whole();
        (t.sent[0].started, t.sent[1].started, t.sent[1].sent) = (0, 0, 0);
        let found = names(&t, Hooks::ALL);
        assert_eq!(found[1..3].join(", "), "qdisc + driver + softirq, stack");
        assert_eq!(found[7..9].join(", "), "application + stack out, qdisc + driver + softirq");
        let none = Hooks { scheduler: false, ..Hooks::ALL };
        let mut t = whole();
        t.sent.iter_mut().for_each(|sent| sent.waking = 0);
        t.got.iter_mut().for_each(|got| (got.switched, got.read_last) = (0, 0));
        assert_eq!(names(&t, none)[4..6].join(", "), "notify + wake-up + run queue + receive, application");
        let mut t = whole();
        (t.sent[0].received, t.sent[0].waking, t.got[0].switched) = (0, 0, 0);
        let found = measure(&t, Hooks::ALL).unwrap();
        assert_eq!(found.stages[2].0.name(Hooks::ALL), "driver + softirq + stack");
        assert_eq!(found.stages[2].0.side(Hooks::ALL), None);
        assert!(found.stages.iter().all(|(_, ns)| *ns > 0));
    }

    #[test]
    fn one_side_alone_has_its_own_stages() {
        let mut server = whole();
        (server.sent[0].sent, server.sent[0].queued, server.sent[0].started) = (0, 0, 0);
        (server.sent[1].received, server.sent[1].ready, server.sent[1].waking, server.got[1]) = (0, 0, 0, Got::default());
        let measured = measure(&server, Hooks::ALL).unwrap();
        assert_eq!((measured.view, measured.begun, measured.sum), (View::Server, 1030, 80));
        server.sent[1].queued_last = 1200;
        assert_eq!(names(&server, Hooks::ALL).last().unwrap(), "reply rest");
        assert_eq!(measure(&server, Hooks::ALL).unwrap().sum, 170);
        // The first packet waited in the queue, and the last one behind it.
        server.sent[1].started = 1300;
        assert_eq!(names(&server, Hooks::ALL).last().unwrap(), "qdisc");
        assert_eq!(measure(&server, Hooks::ALL).unwrap().sum, 270);
        let mut client = whole();
        (client.sent[0].received, client.sent[0].ready, client.sent[0].waking, client.got[0]) = (0, 0, 0, Got::default());
        (client.sent[1].sent, client.sent[1].queued, client.sent[1].started) = (0, 0, 0);
        let measured = measure(&client, Hooks::ALL).unwrap();
        assert_eq!((measured.view, measured.sum), (View::Client, 170));
        let names: Vec<String> = measured.stages.iter().map(|(stage, _)| stage.name(Hooks::ALL)).collect();
        assert_eq!(
            names.join(", "),
            "stack out, qdisc, network and server, stack, notify, wake-up + run queue, receive, reply rest"
        );
        assert_eq!(measured.stages[2].0.direction(Hooks::ALL), None);
    }

    #[test]
    fn leaves_out_inconsistent_transactions() {
        let mut t = whole();
        t.pipelined = true;
        assert_eq!(measure(&t, Hooks::ALL), Err(Unmatched::Pipelined));
        let mut t = whole();
        t.sent[0].ready = 2000;
        assert_eq!(measure(&t, Hooks::ALL), Err(Unmatched::OutOfOrder));
        let mut t = whole();
        (t.got[1].read, t.got[1].read_last) = (0, 0);
        assert_eq!(measure(&t, Hooks::ALL), Err(Unmatched::Partial), "the client has not read");
        let mut t = whole();
        t.sent[0].sent = 0;
        assert_eq!(measure(&t, Hooks::ALL), Err(Unmatched::Partial), "its sum would be shorter than its neighbours'");
        t.connection.datagrams = true;
        assert_eq!(measure(&t, Hooks::ALL).unwrap().sum, 160, "a datagram has no such hook");
        assert_eq!(measure(&Transaction::default(), Hooks::ALL), Err(Unmatched::Partial));
    }
}
