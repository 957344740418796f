//! What the loop is told, whom it asks, and what it found.

use std::io;

use hairpin_record::recorder::{Recorder, Sample};
use hairpin_record::run::Silence;
use hairpin_sys::clock::Ticks;

/// What one thread is to do.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// Payload of a request in bytes; the smallest, where an open loop's schedule has several.
    pub request: usize,
    /// Payload of a reply in bytes.
    pub reply: usize,
    /// Flows of this thread.
    pub flows: u32,
    /// Requests in flight per flow.
    pub outstanding: u32,
    /// Measured time with its gaps; `None`: until stopped or counted.
    pub duration_ns: Option<u64>,
    /// Transactions; `None`: until time is up.
    pub count: Option<u64>,
    /// Discarded time before.
    pub warmup_ns: u64,
    /// Silence after which the peer is dead.
    pub timeout_ns: u64,
    /// In every payload of 16 bytes and more.
    pub cookie: u64,
    /// Fill and compare whole payloads.
    pub verify: bool,
    /// Index of this thread.
    pub thread: u32,
    /// Measuring threads of the run.
    pub threads: u32,
    /// How long a wait may last beyond its deadline, in ns: a blocking receive has a time limit of its own.
    pub overstays_ns: u64,
    /// The most transactions of a block, up to [`BLOCK_TRANSACTIONS`](super::BLOCK_TRANSACTIONS).
    pub block: usize,
}

impl Work {
    /// So many transactions of one flow, one at a time, with nothing before and nothing compared; silence never ends it.
    pub fn short(request: usize, reply: usize, count: u64) -> Work {
        Work {
            request,
            reply,
            flows: 1,
            outstanding: 1,
            duration_ns: None,
            count: Some(count),
            warmup_ns: 0,
            timeout_ns: u64::MAX,
            cookie: 0,
            verify: false,
            thread: 0,
            threads: 1,
            overstays_ns: 0,
            block: super::BLOCK_TRANSACTIONS,
        }
    }
}

/// What surrounds the loop: asked only between blocks and when nothing came.
pub trait Between {
    /// True if the run is to end now.
    fn stopped(&self) -> bool;
    /// Asks the other side's core to meet this one over a cache line; it sees the call after its next reply. `false`: there is none.
    fn call_neighbour(&mut self) -> bool {
        false
    }
    /// Measures the round trip to the other core, in ns, once it has been called.
    fn meet_neighbour(&mut self) -> Option<u64> {
        None
    }
    /// The loop's memory is set aside: warm-up comes next.
    fn starts(&mut self) {}
    /// A block of measured transactions begins.
    fn begins_block(&mut self) {}
    /// The block has ended, after `transactions` measured ones.
    fn ends_block(&mut self, _transactions: u64) {}
    /// Measuring starts: what the times of all samples count from.
    fn begins(&mut self, _at: Ticks) {}
    /// A block has been folded; `samples` are in ns since the start of measuring.
    fn block(&mut self, recorder: &Recorder, counts: &Counts, samples: &mut dyn Iterator<Item = Sample>) -> io::Result<()>;
}

/// Events of a run that are no samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests sent in measured time.
    pub sent: u64,
    /// Requests given up.
    pub lost: u64,
    /// Replies to requests given up.
    pub late: u64,
    /// Replies that came again.
    pub duplicates: u64,
    /// Replies overtaken by a later request's reply.
    pub reordered: u64,
    /// Messages that answer nothing: wrong length, cookie or content.
    pub corrupt: u64,
    /// Longest time without any stamp inside a block, in ns.
    pub longest_silence_ns: u64,
    /// Open loop: requests that were due and found the table of those in flight, or the path, full.
    pub full: u64,
    /// Longest time in ns in which this process did not run although it was to look at its clock; 0 if there was none of 100 ms and more.
    pub longest_stop_ns: u64,
    /// Waits inside blocks that ended without a message.
    pub waits_in_vain: u64,
    /// Open loop that spins: gaps of more than 2 us between two looks at the clock while it waited …
    pub stalls: u64,
    /// … and how long they were together, in ns.
    pub stalled_ns: u64,
}

/// How a run ended.
#[derive(Debug)]
pub enum End {
    /// Its time or count was reached.
    Done,
    /// It was stopped.
    Stopped,
    /// The path or the peer failed; what was measured until then stands.
    Failed(io::Error),
}

/// What one thread found.
#[derive(Debug)]
pub struct Found {
    /// Samples, folded.
    pub recorder: Recorder,
    /// Everything that was no sample.
    pub counts: Counts,
    /// Requests sent, warm-up and untimed ones included.
    pub exchanges: u64,
    /// Time between blocks, in ns.
    pub gap_ns: u64,
    /// Stretches of 100 ms and more without a reply although requests were out, in the order of time: the 16 longest.
    pub silences: Vec<Silence>,
    /// How it ended.
    pub end: End,
    /// How much faster the clock ticked over the run than over its first stretch, against CLOCK_MONOTONIC_RAW, in parts per 10^9; `None` if
    /// the run was too short to tell.
    pub drift_ppb: Option<f64>,
}
