//! The server's loop: receive, stamp, answer, again.

use std::io;

use hairpin_record::histogram::Times;
use hairpin_sys::clock::{Clock, Ticks};
use hairpin_wire::probe;

use crate::endpoint::Endpoint;

/// How long one wait may last before the stop flag is looked at again, in ns.
pub const TURN_NS: u64 = 10_000_000;

/// What surrounds the server's loop.
pub trait Attention {
    /// True if the run is over. Looked at after every reply: one load of a line that is in the cache.
    fn stopped(&self) -> bool;
    /// How long one wait may last before the stop flag is looked at again, in ns.
    fn turn_ns(&self) -> u64 {
        TURN_NS
    }
    /// True if each request's stamps are wanted by [`answered`](Attention::answered).
    fn is_tracing(&self) -> bool {
        false
    }
    /// A request was answered: its sequence number, and when the receive call returned and the send call was entered.
    fn answered(&mut self, _sequence: u32, _received: Ticks, _sent: Ticks) {}
    /// Answers the client's core if it has called; returns true if it had.
    fn answer_neighbour(&mut self) -> bool {
        false
    }
}

/// What the server saw.
#[derive(Debug)]
pub struct Echoed {
    /// Receive call returned → send call entered, in ns.
    pub turnaround: Times,
    /// Requests answered, warm-up and untimed ones included.
    pub answered: u64,
    /// Waits that ended without a request.
    pub waits_in_vain: u64,
    /// Why it ended before it was told to, if it did.
    pub error: Option<io::Error>,
}

/// Answers every request with `reply` bytes until `attention` says stop, or the client has closed its end.
pub fn echo<E: Endpoint, C: Clock>(endpoint: &mut E, clock: &C, reply: usize, attention: &mut impl Attention) -> Echoed {
    let mut echoed = Echoed { turnaround: Times::new(), answered: 0, waits_in_vain: 0, error: None };
    let end = turns(endpoint, clock, reply, attention, &mut echoed);
    echoed.error = end.err().filter(|error| !client_has_ended(error));
    echoed
}

fn turns<E: Endpoint, C: Clock>(
    endpoint: &mut E,
    clock: &C,
    reply: usize,
    attention: &mut impl Attention,
    echoed: &mut Echoed,
) -> io::Result<()> {
    let turn = clock.to_ticks(attention.turn_ns());
    let mut until = clock.now().plus(turn);
    while !attention.stopped() {
        let Some(request) = endpoint.recv(until)? else {
            echoed.waits_in_vain += 1;
            until = clock.now().plus(turn);
            continue;
        };
        // Unordered stamps: a system call on either side orders them well enough, and fences here would be in every RTT.
        let received = clock.now();
        let flow = request.flow;
        let sequence = if attention.is_tracing() { Some(probe::sequence(request.bytes)) } else { None };
        endpoint.replying(flow)?;
        let sent = clock.now();
        while !endpoint.reply(flow, reply)? {
            if attention.stopped() {
                return Ok(());
            }
        }
        // After the send, in the shadow of the reply's way; a buffer folded now and then would be a stall in somebody's RTT.
        echoed.turnaround.record(clock.to_ns(sent.since(received)));
        echoed.answered += 1;
        if let Some(sequence) = sequence {
            attention.answered(sequence, received, sent);
        }
        until = sent.plus(turn);
        attention.answer_neighbour();
    }
    Ok(())
}

/// True if the client has closed its end. That is how most runs end; if it was too early, the client's side says why.
fn client_has_ended(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionRefused, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), UnexpectedEof | ConnectionReset | ConnectionRefused | BrokenPipe)
}
