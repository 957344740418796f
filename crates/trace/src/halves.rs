//! Two hosts with a clock each: each host's half of a transaction, and the part of the RTT that neither covers.
//!
//! ```text
//!   client's clock   sent ─ Queued ─ Started ┐                                       ┌ Received ─ Ready ─ … ─ received
//!   server's clock                           │ Received ─ … ─ received ─ sent ─ … ─ Started
//!                                            └──────── outside, both ways together ──┘
//! ```
//! Clocks of different hosts are never compared: only stamps of the same clock are subtracted (RFC 5905, section 8,
//! uses the same four stamps). Without synchronised clocks, the time outside cannot be divided between the two ways.

use hairpin_sys::shared::Stamp;

use crate::join::{Joined, Span, Transaction};
use crate::moment::Moment;
use crate::tracer::Record;

/// The server's half of a transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Half {
    /// The sequence number in the payload.
    pub sequence: u32,
    /// Receive call returned → send call entered, in ns.
    pub turnaround_ns: u64,
    /// The request's moments, each in ns before the receive call returned; in order.
    pub into: Vec<(Moment, u64)>,
    /// The reply's moments, each in ns after the send call was entered.
    pub out: Vec<(Moment, u64)>,
}

/// The server's halves of a block. `records` is empty where no hook is on.
pub fn halves(stamps: &[Stamp], records: &[Record], span: &Span) -> Vec<Half> {
    let mut records = records.iter().peekable();
    let mut halves = Vec::with_capacity(stamps.len());
    for stamp in stamps {
        let (received, sent) = (span.of_ticks(stamp.first.0), span.of_ticks(stamp.second.0));
        let mut seen = None;
        while let Some(record) = records.next_if(|record| first(record, span).is_some_and(|at| at <= received)) {
            seen = Some(record);
        }
        let moments = |way: usize| seen.into_iter().flat_map(move |record| &record.ways[way]);
        let at = |(moment, ns): &(Moment, u64)| (*moment, span.of_monotonic(*ns));
        let into = moments(0).map(at).filter(|(moment, _)| *moment >= Moment::Received);
        let into = until(into.collect(), received).into_iter().map(|(moment, at)| (moment, (received - at) as u64)).collect();
        let out = moments(1).map(at).filter(|(moment, at)| *moment <= Moment::Started && *at >= sent);
        let out = until(out.collect(), i64::MAX).into_iter().map(|(moment, at)| (moment, (at - sent) as u64)).collect();
        halves.push(Half { sequence: stamp.sequence, turnaround_ns: (sent - received).max(0) as u64, into, out });
    }
    halves
}

/// The moments that were stamped before `end` and before every later moment kept; the others belong to side branches, such
/// as an acknowledgement's.
fn until(moments: Vec<(Moment, i64)>, end: i64) -> Vec<(Moment, i64)> {
    let mut kept: Vec<(Moment, i64)> = Vec::with_capacity(moments.len());
    for (moment, at) in moments.into_iter().rev() {
        if at <= kept.last().map_or(end, |(_, next)| *next) {
            kept.push((moment, at));
        }
    }
    kept.reverse();
    kept
}

fn first(record: &Record, span: &Span) -> Option<i64> {
    record.ways[0].first().map(|(_, ns)| span.of_monotonic(*ns))
}

/// Joins the client's stamps and records with the server's halves.
pub fn join(client: &[Stamp], server: &[Half], records: &[Record], span: &Span) -> Joined {
    let mut joined = Joined::default();
    let mut server = server.iter();
    let mut records = records.iter().peekable();
    for stamp in client {
        let (sent, received) = (span.of_ticks(stamp.first.0), span.of_ticks(stamp.second.0));
        let (mut packets, mut seen) = (0, None);
        while let Some(record) = records.next_if(|record| first(record, span).is_none_or(|at| at <= received)) {
            if first(record, span).is_some_and(|at| at >= sent - span.tolerance_ns() as i64) {
                (seen, packets) = (Some(record), packets + 1);
            }
        }
        let mut rest = server.clone();
        let half = rest.find(|half| half.sequence == stamp.sequence);
        match half.and_then(|half| whole(half, seen, (sent, received), span)) {
            Some((ways, home)) => {
                server = rest;
                joined.transactions.push(Transaction { sequence: stamp.sequence, packets, ways, home: Some(home) });
            }
            None => joined.unmatched += 1,
        }
    }
    joined
}

/// The request's way and the reply's.
type Ways = [Vec<(Moment, i64)>; 2];

/// Both ways, and the index in the reply's way at which the client's host begins. `None` if the server's half does not
/// fit into the RTT.
fn whole(half: &Half, seen: Option<&Record>, (sent, received): (i64, i64), span: &Span) -> Option<(Ways, usize)> {
    let moments = |way: usize| seen.into_iter().flat_map(move |record| &record.ways[way]);
    let at = |(moment, ns): &(Moment, u64)| (*moment, span.of_monotonic(*ns));
    let mut request = vec![(Moment::Send, sent)];
    let out = moments(0).map(at).filter(|(moment, at)| *moment <= Moment::Started && *at >= sent);
    request.extend(until(out.collect(), received));
    let mut home =
        until(moments(1).map(at).filter(|(moment, at)| *moment >= Moment::Received && *at >= sent).collect(), received);
    home.push((Moment::Returned, received));
    let left = request.last().map_or(sent, |(_, at)| *at);
    let came = home.first().map_or(received, |(_, at)| *at);
    let inside = half.into.first().map_or(0, |(_, ns)| *ns as i64);
    let outside_in = half.out.last().map_or(0, |(_, ns)| *ns as i64);
    let outside = came - left - inside - half.turnaround_ns as i64 - outside_in;
    if outside < 0 {
        return None;
    }
    let reached = left + outside + inside;
    request.extend(half.into.iter().map(|(moment, before)| (*moment, reached - *before as i64)));
    request.push((Moment::Returned, reached));
    let answered = reached + half.turnaround_ns as i64;
    let mut reply = vec![(Moment::Send, answered)];
    reply.extend(half.out.iter().map(|(moment, after)| (*moment, answered + *after as i64)));
    let begins = reply.len();
    reply.extend(home);
    Some(([request, reply], begins))
}

#[cfg(test)]
mod tests {
    use hairpin_sys::clock::{Relation, Ticks};

    use super::*;
    use Moment::{Copied, Queued, Ready, Received, Returned, Send, Started};

    /// One tick per ns, on the kernel's clock too.
    fn span() -> Span {
        let relation = |at: u64| Relation {
            ticks: Ticks(at),
            raw_ns: at,
            monotonic_less_raw_ns: 0,
            realtime_less_raw_ns: 0,
            width: 0,
            step_ns: 0.0,
        };
        Span::new(relation(0), relation(1_000_000), 1.0)
    }

    fn stamp(sequence: u32, first: u64, second: u64) -> Stamp {
        Stamp { sequence, first: Ticks(first), second: Ticks(second) }
    }

    /// The server's halves; its clock is unrelated to the client's.
    fn of_server() -> Vec<Half> {
        let records = [Record {
            ways: [vec![(Received, 90_000), (Ready, 90_300), (Copied, 90_900)], vec![(Queued, 91_500), (Started, 91_600)]],
        }];
        halves(&[stamp(5, 91_000, 91_100)], &records, &span())
    }

    #[test]
    fn a_half_uses_one_clock() {
        let want = Half {
            sequence: 5,
            turnaround_ns: 100,
            into: vec![(Received, 1_000), (Ready, 700), (Copied, 100)],
            out: vec![(Queued, 400), (Started, 500)],
        };
        assert_eq!(of_server(), [want]);
        let bare = halves(&[stamp(5, 91_000, 91_100)], &[], &span());
        assert_eq!((bare[0].turnaround_ns, bare[0].into.len(), bare[0].out.len()), (100, 0, 0));
    }

    #[test]
    fn the_rest_of_the_rtt_is_outside() {
        let client = [stamp(5, 1_000, 9_000), stamp(6, 10_000, 11_000)];
        let records = [Record { ways: [vec![(Queued, 1_200), (Started, 1_400)], vec![(Received, 8_000), (Copied, 8_800)]] }];
        let joined = join(&client, &of_server(), &records, &span());
        assert_eq!((joined.transactions.len(), joined.unmatched), (1, 1));
        let transaction = &joined.transactions[0];
        // RTT 8,000, less 400 and 1,000 on the client's host, less 1,000, 100 and 500 on the server's.
        let request = [
            (Send, 1_000),
            (Queued, 1_200),
            (Started, 1_400),
            (Received, 6_400),
            (Ready, 6_700),
            (Copied, 7_300),
            (Returned, 7_400),
        ];
        assert_eq!(transaction.ways[0], request);
        let reply = [(Send, 7_500), (Queued, 7_900), (Started, 8_000), (Received, 8_000), (Copied, 8_800), (Returned, 9_000)];
        assert_eq!((&transaction.ways[1][..], transaction.home), (&reply[..], Some(3)));
        assert_eq!(transaction.rtt_ns(), 8_000);
    }

    #[test]
    fn leaves_out_moments_of_a_side_branch() {
        let moments = vec![(Received, 500), (Ready, 300), (Copied, 400), (Returned, 900)];
        assert_eq!(until(moments, 800), [(Ready, 300), (Copied, 400)]);
    }

    #[test]
    fn a_half_that_does_not_fit_is_unmatched() {
        let client = [stamp(5, 1_000, 2_000)];
        assert_eq!(join(&client, &of_server(), &[], &span()).unmatched, 1);
    }
}
