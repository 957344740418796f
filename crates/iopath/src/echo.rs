//! The server's loop: receive, stamp, answer, repeat.

use std::io;

use hairpin_record::histogram::Times;
use hairpin_sys::clock::{Clock, Ticks};
use hairpin_sys::code;
use hairpin_wire::probe;

use crate::drive::was_in_vain;
use crate::endpoint::Endpoint;

/// Longest wait before the stop flag is checked again, in ns.
pub const TURN_NS: u64 = 10_000_000;

/// After this number of requests, whose turn-arounds are all measured, …
const FIRST: u64 = 1_000;
/// … and where one comes sooner than this after the other, in ns, …
const SWIFT_NS: u64 = 10_000;
/// … that of one in this time is measured, in ns: its two stamps take some 16 ns of the client's RTT.
const APART_NS: u64 = 100_000;

/// Callbacks of the server's loop.
pub trait ServerCallbacks {
    /// True if the run is over. Checked after every reply: one load from a cached line.
    fn stopped(&self) -> bool;
    /// The loop has its memory and begins.
    fn starts(&self) {}
    /// Longest wait before the stop flag is checked again, in ns.
    fn turn_ns(&self) -> u64 {
        TURN_NS
    }
    /// True if [`answered`](ServerCallbacks::answered) wants the stamps of each request. Asked once.
    fn is_tracing(&self) -> bool {
        false
    }
    /// Reports an answered request: its sequence number, and when the receive call returned and the send call was entered.
    fn answered(&mut self, _sequence: u32, _received: Ticks, _sent: Ticks) {}
    /// False if the client sends more than it may; `at` is now.
    fn allows(&mut self, _at: Ticks) -> bool {
        true
    }
    /// True if the client's core has called since the last look.
    fn is_called(&mut self) -> bool {
        false
    }
    /// Answers the client's core.
    fn answer_neighbour(&mut self) {}
}

/// Result of the server's loop.
#[derive(Debug)]
pub struct Echoed {
    /// Time from the return of the receive call to the entry of the send call, in ns: of each request of a traced run; otherwise,
    /// after the first 1,000 and where one comes sooner than 10 us after the other, of one in about 100 us.
    pub turnaround: Times,
    /// Requests answered, warm-up and untimed ones included.
    pub answered: u64,
    /// Waits that lasted their whole time without a request.
    pub waits_in_vain: u64,
    /// The error that ended the loop early, if any.
    pub error: Option<io::Error>,
}

/// Answers every request with `reply` bytes until `callbacks` says stop or the client closes its end.
pub fn echo<E: Endpoint, C: Clock>(endpoint: &mut E, clock: &C, reply: usize, callbacks: &mut impl ServerCallbacks) -> Echoed {
    let mut echoed = Echoed { turnaround: Times::new(), answered: 0, waits_in_vain: 0, error: None };
    callbacks.starts();
    let end = turns(endpoint, clock, reply, callbacks, &mut echoed);
    echoed.error = end.err().filter(|error| !client_has_ended(error));
    echoed
}

/// The requests whose turn-around is measured.
struct Measuring {
    all: bool,
    /// [`SWIFT_NS`] and [`APART_NS`] in ticks.
    swift: u64,
    apart: u64,
    /// The next request is one of them.
    next: bool,
    /// Of swift requests, the first one after this time.
    at: Ticks,
    /// The last look at the clock.
    now: Ticks,
}

impl Measuring {
    fn begin<C: Clock>(clock: &C, all: bool) -> Measuring {
        let [swift, apart] = [SWIFT_NS, APART_NS].map(|ns| clock.to_ticks(ns));
        let now = clock.now();
        Measuring { all, swift, apart, next: true, at: now, now }
    }

    /// A reply has been sent; `stamps` are those of its turn-around, if it was measured.
    fn replied<C: Clock>(&mut self, clock: &C, stamps: Option<(Ticks, Ticks)>, turnaround: &mut Times) {
        let before = std::mem::replace(&mut self.now, clock.now());
        if let Some((received, sent)) = stamps {
            turnaround.record(clock.to_ns(sent.since(received)));
            self.at = self.now.plus(self.apart);
        }
        let few = turnaround.count() < FIRST;
        self.next = self.all || few || self.now.since(before) >= self.swift || self.now >= self.at;
    }
}

fn turns<E: Endpoint, C: Clock>(
    endpoint: &mut E,
    clock: &C,
    reply: usize,
    callbacks: &mut impl ServerCallbacks,
    echoed: &mut Echoed,
) -> io::Result<()> {
    code::begins_on_a_line();
    let turn = clock.to_ticks(callbacks.turn_ns());
    let traces = callbacks.is_tracing();
    let mut measuring = Measuring::begin(clock, traces);
    while !callbacks.stopped() {
        let until = measuring.now.plus(turn);
        let Some(request) = endpoint.recv(until)? else {
            echoed.waits_in_vain += u64::from(was_in_vain(clock, until));
            measuring.now = clock.now();
            continue;
        };
        // Unordered stamps: a system call on either side orders them well enough, and fences here would be in every RTT.
        let received = measuring.next.then(|| clock.now());
        let flow = request.flow;
        let sequence = if traces { Some(probe::sequence(request.bytes)) } else { None };
        endpoint.replying(flow)?;
        let stamps = received.map(|received| (received, clock.now()));
        while !endpoint.reply(flow, reply)? {
            if callbacks.stopped() {
                return Ok(());
            }
            endpoint.await_room(flow)?;
        }
        // Recorded now, while the reply is on its way; folding a buffer from time to time would stall some request.
        measuring.replied(clock, stamps, &mut echoed.turnaround);
        echoed.answered += 1;
        if let (Some(sequence), Some((received, sent))) = (sequence, stamps) {
            callbacks.answered(sequence, received, sent);
        }
        if !callbacks.allows(measuring.now) {
            return Err(io::Error::other("the client sends more requests than it said"));
        }
        if callbacks.is_called() {
            // The client meets this core only once it has the reply.
            endpoint.flush()?;
            callbacks.answer_neighbour();
        }
    }
    Ok(())
}

/// True if the client has closed its end. Most runs end like this; if it came too early, the client's side reports why.
fn client_has_ended(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionRefused, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), UnexpectedEof | ConnectionReset | ConnectionRefused | BrokenPipe)
}

#[cfg(test)]
mod tests {
    use hairpin_sys::clock::FakeClock;

    use super::*;
    use crate::content::Content;
    use crate::endpoint::Reply;

    /// Requests that come one interval after the last reply; an answer takes no time.
    struct Requests {
        clock: FakeClock,
        interval: u64,
        left: u32,
    }

    impl Endpoint for Requests {
        fn is_lossy(&self) -> bool {
            false
        }

        fn send(&mut self, _flow: u32, _len: usize, _content: Content) -> io::Result<bool> {
            unreachable!("a server sends no requests")
        }

        fn recv(&mut self, _until: Ticks) -> io::Result<Option<Reply<'_>>> {
            self.left = self.left.checked_sub(1).ok_or(io::ErrorKind::UnexpectedEof)?;
            self.clock.advance(self.interval);
            Ok(Some(Reply { flow: 0, bytes: &[0; 16] }))
        }

        fn replying(&mut self, _flow: u32) -> io::Result<()> {
            self.clock.advance(7);
            Ok(())
        }

        fn reply(&mut self, _flow: u32, _len: usize) -> io::Result<bool> {
            Ok(true)
        }
    }

    struct Server {
        traces: bool,
        told: u64,
    }

    impl ServerCallbacks for Server {
        fn stopped(&self) -> bool {
            false
        }

        fn is_tracing(&self) -> bool {
            self.traces
        }

        fn answered(&mut self, _sequence: u32, received: Ticks, sent: Ticks) {
            assert_eq!(sent.since(received), 7);
            self.told += 1;
        }
    }

    /// Of 2000 requests: those whose turn-around was measured, and those that were told.
    fn measured(interval: u64, traces: bool) -> (u64, u64) {
        let clock = FakeClock::default();
        let mut server = Server { traces, told: 0 };
        let echoed = echo(&mut Requests { clock: clock.clone(), interval, left: 2 * FIRST as u32 }, &clock, 16, &mut server);
        assert!(echoed.error.is_none());
        assert_eq!(echoed.answered, 2 * FIRST);
        assert_eq!([echoed.turnaround.quantiles().min, echoed.turnaround.quantiles().max], [Some(7), Some(7)]);
        (echoed.turnaround.count(), server.told)
    }

    #[test]
    fn after_the_first_swift_requests_the_turn_around_of_one_in_a_while_is_measured() {
        let swift = SWIFT_NS - 8;
        // The first one after that time decides upon the next.
        let apart = APART_NS.div_ceil(swift + 7) + 1;
        assert_eq!(measured(swift, false), (FIRST + FIRST / apart, 0));
        assert_eq!(measured(SWIFT_NS, false), (2 * FIRST, 0));
        assert_eq!(measured(swift, true), (2 * FIRST, 2 * FIRST));
    }
}
