//! The server's loop: receive, stamp, answer, again.

use std::io;

use hairpin_record::histogram::Times;
use hairpin_sys::clock::{Clock, Ticks};

use crate::endpoint::Endpoint;

/// Turn-arounds kept before they are folded; twice a block, so that with a neighbour they are always folded between blocks.
const KEPT: usize = 2 * crate::drive::BLOCK_TRANSACTIONS;
/// How long one wait may last before the stop flag is looked at again, in ns.
const TURN_NS: u64 = 10_000_000;

/// What surrounds the server's loop.
pub trait Attention {
    /// True if the run is over. Looked at after every reply: one load of a line that is in the cache.
    fn stopped(&self) -> bool;
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
    /// Why it ended before it was told to, if it did.
    pub error: Option<io::Error>,
}

/// Answers every request with `reply` bytes until `attention` says stop, or the client has closed its end.
pub fn echo<E: Endpoint, C: Clock>(endpoint: &mut E, clock: &C, reply: usize, attention: &mut impl Attention) -> Echoed {
    let mut kept: Vec<u64> = vec![0; KEPT];
    let mut echoed = Echoed { turnaround: Times::new(), answered: 0, error: None };
    let mut at = 0;
    let end = turns(endpoint, clock, reply, attention, &mut kept, &mut at, &mut echoed);
    echoed.error = end.err().filter(|error| !client_has_ended(error));
    fold(&kept[..at], clock, &mut echoed.turnaround);
    echoed
}

fn turns<E: Endpoint, C: Clock>(
    endpoint: &mut E,
    clock: &C,
    reply: usize,
    attention: &mut impl Attention,
    kept: &mut [u64],
    at: &mut usize,
    echoed: &mut Echoed,
) -> io::Result<()> {
    let turn = clock.to_ticks(TURN_NS);
    let mut until = clock.now().plus(turn);
    while !attention.stopped() {
        let Some(request) = endpoint.recv(until)? else {
            until = clock.now().plus(turn);
            continue;
        };
        let received = clock.stop();
        let flow = request.flow;
        endpoint.replying(flow)?;
        let sent = clock.start();
        while !endpoint.reply(flow, reply)? {
            if attention.stopped() {
                return Ok(());
            }
        }
        kept[*at] = sent.since(received);
        *at += 1;
        echoed.answered += 1;
        until = Ticks(sent.0.saturating_add(turn));
        if attention.answer_neighbour() || *at == kept.len() {
            fold(&kept[..*at], clock, &mut echoed.turnaround);
            *at = 0;
        }
    }
    Ok(())
}

/// True if the client has closed its end. That is how most runs end; if it was too early, the client's side says why.
fn client_has_ended(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionRefused, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), UnexpectedEof | ConnectionReset | ConnectionRefused | BrokenPipe)
}

fn fold<C: Clock>(kept: &[u64], clock: &C, into: &mut Times) {
    kept.iter().for_each(|ticks| into.record(clock.to_ns(*ticks)));
}
