//! The server's loop: receive, stamp, answer, repeat.

use std::io;

use hairpin_record::histogram::Times;
use hairpin_sys::clock::{Clock, Ticks};
use hairpin_wire::probe;

use crate::drive::was_in_vain;
use crate::endpoint::Endpoint;

/// Longest wait before the stop flag is checked again, in ns.
pub const TURN_NS: u64 = 10_000_000;

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
    /// True if [`answered`](ServerCallbacks::answered) wants the stamps of each request.
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
    /// Time from the return of the receive call to the entry of the send call, in ns.
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

fn turns<E: Endpoint, C: Clock>(
    endpoint: &mut E,
    clock: &C,
    reply: usize,
    callbacks: &mut impl ServerCallbacks,
    echoed: &mut Echoed,
) -> io::Result<()> {
    let turn = clock.to_ticks(callbacks.turn_ns());
    let mut until = clock.now().plus(turn);
    while !callbacks.stopped() {
        let Some(request) = endpoint.recv(until)? else {
            echoed.waits_in_vain += u64::from(was_in_vain(clock, until));
            until = clock.now().plus(turn);
            continue;
        };
        // Unordered stamps: a system call on either side orders them well enough, and fences here would be in every RTT.
        let received = clock.now();
        let flow = request.flow;
        let sequence = if callbacks.is_tracing() { Some(probe::sequence(request.bytes)) } else { None };
        endpoint.replying(flow)?;
        let sent = clock.now();
        while !endpoint.reply(flow, reply)? {
            if callbacks.stopped() {
                return Ok(());
            }
            endpoint.await_room(flow)?;
        }
        // Recorded after the send, while the reply is on its way; folding a buffer from time to time would stall some request.
        echoed.turnaround.record(clock.to_ns(sent.since(received)));
        echoed.answered += 1;
        if let Some(sequence) = sequence {
            callbacks.answered(sequence, received, sent);
        }
        if !callbacks.allows(sent) {
            return Err(io::Error::other("the client sends more requests than it said"));
        }
        until = sent.plus(turn);
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
