//! Input, callbacks and result of the loop.

use std::io;

use hairpin_record::recorder::{Recorder, Sample};
use hairpin_record::run::Silence;
use hairpin_sys::clock::Ticks;
use hairpin_wire::probe;

use crate::content::has_pattern;

/// Work of one thread.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// Payload of a request in bytes; with an open loop's schedule of several sizes, the smallest.
    pub request: usize,
    /// Payload of a reply in bytes.
    pub reply: usize,
    /// Flows of this thread.
    pub flows: u32,
    /// Requests in flight per flow.
    pub outstanding: u32,
    /// Measured time, gaps included; `None`: until stopped or `count` is reached.
    pub duration_ns: Option<u64>,
    /// Transactions to measure; `None`: until `duration_ns` is over.
    pub count: Option<u64>,
    /// Warm-up time, discarded, in ns.
    pub warmup_ns: u64,
    /// The peer counts as dead after this silence, in ns; at due times over a path that drops messages not before it has left
    /// several requests unanswered.
    pub timeout_ns: u64,
    /// Session cookie, carried in every payload of 16 bytes and more.
    pub cookie: u64,
    /// Fills and compares whole payloads.
    pub verify: bool,
    /// Index of this thread.
    pub thread: u32,
    /// Measuring threads of the run.
    pub threads: u32,
    /// Largest overrun of a wait past the next look, in ns: a blocking receive has a time limit of its own, and other sleeps of a
    /// closed loop are made no shorter than a tick.
    pub overstays_ns: u64,
    /// Most transactions in a block.
    pub block: usize,
}

impl Work {
    /// True if a message can be an answer at all: checks its length, its cookie if both ways carry one (`proven`), and its
    /// content if `verify` is set.
    #[inline(always)]
    pub(crate) fn accepts(&self, reply: &[u8], proven: bool) -> bool {
        reply.len() == self.reply
            && (!proven || probe::cookie(reply) == Some(self.cookie))
            && (!self.verify || has_pattern(reply, self.request))
    }

    /// A look that comes later than planned by more than this, in ns, means that this core stood still: a wait may overrun its
    /// time limit by a tick, or a tenth.
    pub(crate) fn late_look_ns(&self) -> u64 {
        self.overstays_ns + self.overstays_ns / 10 + 1_000_000
    }

    /// `count` transactions on one flow, one at a time: no warm-up, no verification, no timeout.
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

/// Callbacks of the loop, called only between blocks and when nothing was received.
pub trait BetweenBlocks {
    /// True if the run must end now.
    fn stopped(&self) -> bool;
    /// Asks the other side's core for a round trip over a cache line; it sees the call after its next reply. `false`: no such
    /// core.
    fn call_neighbour(&mut self) -> bool {
        false
    }
    /// Measures the round trip to the other core in ns, after a call.
    fn meet_neighbour(&mut self) -> Option<u64> {
        None
    }
    /// The loop's memory is allocated; warm-up comes next.
    fn starts(&mut self) {}
    /// A block of measured transactions begins.
    fn begins_block(&mut self) {}
    /// The block has ended, after `transactions` measured ones.
    fn ends_block(&mut self, _transactions: u64) {}
    /// True if the block that has just ended counts in no figure: its samples are passed on, and its time is a gap.
    fn leaves_out(&self) -> bool {
        false
    }
    /// True if the loop has to stand still before its next request.
    fn is_paused(&self) -> bool {
        false
    }
    /// The loop stands still, with no request in flight; returns when it may go on.
    fn pause(&mut self) -> io::Result<()> {
        Ok(())
    }
    /// Measuring starts; the times of all samples count from `at`.
    fn begins(&mut self, _at: Ticks) {}
    /// A block has been folded; the times of `samples` are in ns since the start of measuring.
    fn block(&mut self, recorder: &Recorder, counts: &Counts, samples: &mut dyn Iterator<Item = Sample>) -> io::Result<()>;
}

/// Events of a run that give no sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests sent in measured time.
    pub sent: u64,
    /// Requests given up.
    pub lost: u64,
    /// Replies to requests given up.
    pub late: u64,
    /// Duplicate replies.
    pub duplicates: u64,
    /// Replies overtaken by a later request's reply.
    pub reordered: u64,
    /// Messages that answer no request: wrong length, cookie or content.
    pub corrupt: u64,
    /// Longest time between two stamps inside a block, in ns.
    pub longest_silence_ns: u64,
    /// Open loop: due requests that found the table of requests in flight, or the path, full.
    pub full: u64,
    /// Longest time in ns in which this process did not run although it should have looked at its clock; 0 if below 100 ms.
    pub longest_stop_ns: u64,
    /// Waits inside blocks that lasted their whole time without a message.
    pub waits_in_vain: u64,
    /// Open loop that spins: gaps of more than 2 us between two looks at the clock while it waited …
    pub stalls: u64,
    /// … and their total, in ns.
    pub stalled_ns: u64,
}

/// End of a run.
#[derive(Debug)]
pub enum LoopEnd {
    /// Duration or count was reached.
    Done,
    /// Stopped from outside.
    Stopped,
    /// The path or the peer failed; the samples up to then are valid.
    Failed(io::Error),
}

/// Result of one thread.
#[derive(Debug)]
pub struct LoopResult {
    /// The folded samples.
    pub recorder: Recorder,
    /// Events that gave no sample.
    pub counts: Counts,
    /// Requests sent, warm-up and untimed ones included.
    pub exchanges: u64,
    /// Time between blocks that count, in ns.
    pub gap_ns: u64,
    /// The 16 longest stretches of 100 ms and more without a reply while requests were in flight, in order of time.
    pub silences: Vec<Silence>,
    pub end: LoopEnd,
    /// Drift of the clock: its rate over the whole run less that over its first stretch, against CLOCK_MONOTONIC_RAW, in parts
    /// per 10^9; `None` if the run was too short to tell.
    pub drift_ppb: Option<f64>,
}
