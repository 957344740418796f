//! Reasons why a figure may mislead: the observation, a likely cause, and the flag or command to use.
//!
//! A record has them as [`Note`]s, in the lists called `warnings`: one for the whole, or one per row, rate, arm or visit. A
//! [`Warning`] is what one is made of, its values apart. Go by the `code`, which does not change; the `message` is for people,
//! and may.
//!
//! ```
//! use hairpin_record::warning::Warning;
//!
//! let note = Warning::Loss { lost: 3, sent: 1_000, rcvbuf: false }.note();
//! assert_eq!(note.code, "loss");
//! assert!(note.message.starts_with("3 of 1000 requests were never answered in time"));
//! ```

use hairpin_units::{Nanos, Quantile};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::side::{Side, Silence};

/// Silences that each measuring thread keeps, its longest ones: with as many in a row there may be others.
pub const MOST_SILENCES: u64 = 16;

/// A warning in a record: a code for scripts, and a message for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Note {
    /// The warning's kind, such as `loss`: scripts may rely on it. Later versions may have others too.
    pub code: String,
    /// The observation, a likely cause, and a remedy.
    pub message: String,
}

/// Every warning that Hairpin knows.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Warning {
    /// A quantile was asked for that fewer than ten samples lie beyond.
    TooFewSamples {
        /// The lowest quantile that had to be left blank.
        quantile: Quantile,
        /// Number of samples.
        count: u64,
    },
    /// Other processes ran on a measured core.
    ForeignTime {
        /// The side whose core it is.
        side: Side,
        /// The time that they ran, at least.
        took: Nanos,
        /// The whole time of all the side's cores.
        of: Nanos,
        /// Number of the side's cores.
        cores: usize,
    },
    /// Other processes ran on the core of a verb that has one side only.
    BusyCore {
        /// The time that they ran, at least.
        took: Nanos,
        /// The whole time of all its cores.
        of: Nanos,
        /// Number of its cores.
        cores: usize,
    },
    /// A worker was pushed off its core.
    InvoluntarySwitches {
        /// The side whose worker it is.
        side: Side,
        /// Number of switches.
        count: u64,
        /// Number of the side's cores.
        cores: usize,
    },
    /// Both ends ran on one core.
    SharedCore {
        /// The CPU's number.
        cpu: u32,
        /// True if at least one of them spins, and so keeps the other from running.
        spins: bool,
    },
    /// A side that blocks lets its core fall into an idle state that takes long to leave.
    DeepIdle {
        /// The side whose core it is.
        side: Side,
        /// Name of the deepest enabled state, such as `C6`.
        state: String,
        /// Time to leave it, as the kernel states it; `None` where it states none.
        exit: Option<Nanos>,
        /// True if it could not be read whether a process holds /dev/cpu_dma_latency.
        demand_unread: bool,
    },
    /// The clock is not the CPU's counter.
    NoTsc {
        /// Why the CPU's counter is not used, such as `the hypervisor hides it`.
        why: String,
    },
    /// Two clocks disagreed by more than 50 ns.
    ClockSuspect {
        /// Number of such blocks.
        blocks: u64,
    },
    /// A host's time of day was set in mid-run.
    ClockSet {
        /// The side whose host it is.
        side: Side,
        /// False if it was set back.
        forward: bool,
        /// The size of the step.
        by: Nanos,
    },
    /// The distance between the two cores changed in mid-run.
    CoreStates {
        /// The nearest, as a cache-line round trip.
        near: Nanos,
        /// The farthest.
        far: Nanos,
    },
    /// Requests were out and nothing answered for a while.
    NoAnswer {
        /// The longest stretch.
        longest: Silence,
        /// Stretches of 100 ms and more.
        count: u64,
        /// Their total duration.
        together: Nanos,
    },
    /// Requests were lost.
    Loss {
        /// Number of lost requests.
        lost: u64,
        /// Number of requests sent.
        sent: u64,
        /// True if the path has the option `rcvbuf`.
        rcvbuf: bool,
    },
    /// Responders of a group joined or left in mid-run.
    Responders {
        /// Address and port, and when it was first heard.
        joined: Vec<(String, Nanos)>,
        /// Address and port, and the time since which it has answered nothing.
        left: Vec<(String, Nanos)>,
    },
    /// Responders of a group spin on one core.
    RespondersShare {
        /// The CPU's number.
        cpu: u32,
        /// Number of responders.
        count: u64,
    },
    /// Packets were too long for the way to the peer, and were refused on it.
    PathMtu {
        /// The side whose packets were too long.
        side: Side,
        /// The path MTU that the kernel knows now, if it says.
        mtu: Option<u32>,
        /// The largest payload that goes in one packet of it.
        fits: Option<u32>,
        /// Number of times that the kernel reported it.
        times: u64,
    },
    /// A governor that lowers the clock of an idle core.
    SleepingGovernor {
        /// The side whose core it is.
        side: Side,
        /// The governor's name, such as `powersave`.
        governor: String,
    },
    /// Busy polling was asked for and the device does none.
    BusyPollNotInForce {
        /// The side whose socket it is.
        side: Side,
    },
    /// Busy polling was asked for and the device can do it, but interrupts took most packets.
    BusyPollInVain {
        /// The side whose socket it is.
        side: Side,
        /// Packets that busy polling took, by the kernel's count (BusyPollRxPackets).
        packets: u64,
        /// Transactions of the same time.
        transactions: u64,
    },
    /// The process did not run for a while, as if stopped.
    Stopped {
        /// The longest time without a stamp inside a block.
        gap: Nanos,
    },
    /// `tcp-crr` came to the last unused pair of addresses and ports.
    TuplesUsedUp {
        /// Connections made until then.
        connections: u64,
    },
    /// Spinning under SCHED_FIFO runs into the kernel's limit for realtime threads.
    RealtimeThrottling {
        /// The side that keeps its core busy.
        side: Side,
        /// Realtime time per period in microseconds.
        runtime_us: i64,
        /// The period in microseconds.
        period_us: i64,
    },
    /// The floor of the declared link is not known.
    NoFloor {
        /// Why it is not known, such as `nothing tells the rate`.
        why: String,
    },
    /// No rate was found at which nothing is lost.
    AlwaysLoss {
        /// The lowest rate tried, in frames/s.
        least_per_s: f64,
    },
    /// Frames came to a ring that were not of the session.
    StrayFrames {
        /// The side whose ring it is.
        side: Side,
        /// Number of frames.
        count: u64,
    },
    /// A ring lost frames.
    RingLoss {
        /// The side whose ring it is.
        side: Side,
        /// Number of lost frames, whatever the cause.
        lost: u64,
        /// Some found no room; otherwise all were too long, damaged, or refused by the device.
        full: bool,
    },
    /// A library is in the place of the kernel's sockets, and messages passed the kernel all the same.
    NotAccelerated {
        /// The side whose process it is in.
        side: Side,
        /// The library's name, such as `onload`.
        stack: String,
        /// The number of messages that passed the kernel, in words.
        passed: String,
    },
    /// The server refused requests of the user's own.
    ErrorReplies {
        /// The first line of the first error.
        first: String,
        /// Number of errors.
        count: u64,
        /// Number of all replies.
        of: u64,
    },
    /// Replies to a request of the user's own differ, and the rule does not tell whether they are errors.
    RepliesDiffer {
        /// The first line of the first reply.
        first: String,
        /// Number of replies with another one.
        count: u64,
        /// Number of all replies.
        of: u64,
    },
    /// With `--tls-insecure`: nobody knows whose certificate the server has.
    CertificateUnchecked,
    /// The server's own worker ended before it sent its figures.
    ServerUnknown {
        /// How it ended, as far as the other side can tell.
        why: String,
    },
}

impl Warning {
    /// The name of this warning in a record; scripts may rely on it.
    pub fn code(&self) -> &'static str {
        match self {
            Warning::TooFewSamples { .. } => "too-few-samples",
            Warning::ForeignTime { .. } | Warning::BusyCore { .. } => "foreign-time",
            Warning::InvoluntarySwitches { .. } => "involuntary-switches",
            Warning::SharedCore { .. } => "shared-core",
            Warning::DeepIdle { .. } => "deep-idle",
            Warning::NoTsc { .. } => "no-tsc",
            Warning::ClockSuspect { .. } => "clock-suspect",
            Warning::ClockSet { .. } => "clock-set",
            Warning::CoreStates { .. } => "core-states",
            Warning::NoAnswer { .. } => "no-answer",
            Warning::Loss { .. } => "loss",
            Warning::Responders { .. } => "responders",
            Warning::RespondersShare { .. } => "responders-share",
            Warning::PathMtu { .. } => "path-mtu",
            Warning::SleepingGovernor { .. } => "sleeping-governor",
            Warning::BusyPollNotInForce { .. } => "busy-poll-not-in-force",
            Warning::BusyPollInVain { .. } => "busy-poll-in-vain",
            Warning::Stopped { .. } => "stopped",
            Warning::TuplesUsedUp { .. } => "tuples-used-up",
            Warning::RealtimeThrottling { .. } => "realtime-throttling",
            Warning::NoFloor { .. } => "no-floor",
            Warning::AlwaysLoss { .. } => "always-loss",
            Warning::StrayFrames { .. } => "stray-frames",
            Warning::RingLoss { .. } => "ring-loss",
            Warning::NotAccelerated { .. } => "not-accelerated",
            Warning::ErrorReplies { .. } => "error-replies",
            Warning::RepliesDiffer { .. } => "replies-differ",
            Warning::CertificateUnchecked => "certificate-unchecked",
            Warning::ServerUnknown { .. } => "server-unknown",
        }
    }

    /// The observation, a likely cause, and the flag or command to use.
    pub fn message(&self) -> String {
        match self {
            Warning::TooFewSamples { quantile, count } => format!(
                "{quantile} is left blank: {count} samples leave fewer than ten beyond it; use a longer --duration or a larger --count"
            ),
            Warning::ForeignTime { side, took, of, cores } => format!(
                "other processes took {took} of {of} on the {side}'s {}; end them, or choose {} with --cpu CLIENT,SERVER",
                core(*cores),
                another(*cores)
            ),
            Warning::BusyCore { took, of, cores } => format!(
                "other processes took {took} of {of} on its {}; end them, or choose {} with --cpu N",
                core(*cores),
                another(*cores)
            ),
            Warning::InvoluntarySwitches { side, count, cores } => format!(
                "the {side} was pushed off its {} {count} times, so the tail holds the scheduler's time; use a quiet core (--cpu) or --sched fifo:1",
                core(*cores)
            ),
            Warning::SharedCore { cpu, spins: true } => format!(
                "both ends ran on CPU {cpu}, so each waits for the other to yield; give each a core of its own with --cpu CLIENT,SERVER"
            ),
            Warning::SharedCore { cpu, spins: false } => format!(
                "both ends ran on CPU {cpu} and block, so no wake-up crosses from core to core: often quicker than two cores, and never what two hosts see; compare both with --cpu CLIENT,SERVER"
            ),
            Warning::DeepIdle { side, state, exit, demand_unread } => {
                let unread = if *demand_unread { " (only root can read whether a process holds it already)" } else { "" };
                let cost = exit.map_or(String::new(), |exit| format!(", {exit} to leave"));
                format!(
                    "the {side} blocks, and its core may enter idle state {state}{cost}; that wake-up is inside every RTT: compare with :spin, or hold /dev/cpu_dma_latency at 0{unread}"
                )
            }
            Warning::NoTsc { why } => format!(
                "the clock is CLOCK_MONOTONIC_RAW, not the CPU's counter ({why}), so each stamp costs a call; see docs/method.md, \"Clock\""
            ),
            Warning::ClockSuspect { blocks } => format!(
                "the CPU's counter and CLOCK_MONOTONIC_RAW disagreed by more than 50 ns over {blocks} blocks, as after a migration of the virtual machine; those blocks are marked clock_suspect: leave them out"
            ),
            Warning::ClockSet { side, forward, by } => format!(
                "the {side}'s time of day was set {} by {by} in mid-run: RTTs come from another clock and hold; times of day before and after it do not agree",
                if *forward { "forward" } else { "back" }
            ),
            Warning::CoreStates { near, far } => format!(
                "the two cores moved: a cache line took {near} there and back at best, {far} at worst, as when a hypervisor moves a virtual CPU; compare only blocks with like core_rtt_ns"
            ),
            Warning::NoAnswer { longest: Silence { at_ns, length_ns, sent, answered }, count, together } => {
                let rest = match *answered {
                    0 => format!("none of the {sent} requests sent meanwhile was answered"),
                    all if all == *sent => "all of it came later".into(),
                    some => format!("{some} of the {sent} requests sent meanwhile were answered later"),
                };
                let others = match *count {
                    0 | 1 => String::new(),
                    some if some < MOST_SILENCES => format!("; {some} such stretches, {together} together"),
                    all => format!("; the {all} longest such stretches took {together} together, and there may be more"),
                };
                format!(
                    "no answer for {} from {} on; {rest}{others}: the server or the way to it stood still; look at what ran there at that time",
                    Nanos(*length_ns),
                    Nanos(*at_ns)
                )
            }
            Warning::Loss { lost, sent, rcvbuf } => {
                let buffer = if *rcvbuf { "rcvbuf=4M, " } else { "" };
                format!(
                    "{lost} of {sent} requests were never answered in time; a full socket buffer or a lossy link: try {buffer}a lower --rate or fewer --outstanding"
                )
            }
            Warning::Responders { joined, left } => {
                let list = |all: &[(String, Nanos)], did: &str| {
                    let each = all.iter().map(|(who, at)| format!("{who} {did} after {at}"));
                    each.collect::<Vec<_>>()
                };
                let all = [list(joined, "joined"), list(left, "left")].concat().join(", ");
                format!("{all}: its figures are of the time until or from then, and the last reply is that of those present")
            }
            Warning::RespondersShare { cpu, count } => format!(
                "{count} responders spin on CPU {cpu} and keep each other off it for milliseconds: let them block (udp:spin/block), or use fewer --responders"
            ),
            Warning::PathMtu { side, mtu, fits, times } => {
                let what = mtu.map_or("of an MTU that it does not tell".into(), |mtu| format!("of at most {mtu} bytes"));
                let use_ = fits.map_or("use smaller payloads".into(), |fits| format!("use payloads of at most {fits} bytes"));
                format!(
                    "the way from the {side} takes packets {what} and refused larger ones {times} times, each a lost datagram; since then the kernel cuts them into fragments: {use_}"
                )
            }
            Warning::SleepingGovernor { side, governor } => format!(
                "the {side}'s CPU frequency governor is {governor}, which lowers the clock of an idle core; set performance (cpupower frequency-set -g performance) and run again"
            ),
            Warning::BusyPollInVain { side, packets, transactions } => format!(
                "busy polling on the {side} took {packets} packets in {transactions} transactions, so interrupts took most; poll for longer than a reply takes (usecs, busy-usecs), and give each side a core of its own (--cpu)"
            ),
            Warning::BusyPollNotInForce { side } => format!(
                "busy polling was asked for on the {side} and is not in force: its replies carry no NAPI id, so the device (loopback, plain veth) polls nothing; use :spin, or veth with gro=on,tso=off"
            ),
            Warning::Stopped { gap } => format!(
                "this process did not run for {gap} inside a block, as when it is stopped or a virtual machine paused; run again, and look at series in the record"
            ),
            Warning::TuplesUsedUp { connections } => format!(
                "the run ended after {connections} connections, before a pair of addresses and ports would be used a second time; use a shorter --duration, a lower --rate, or a wider --local-port rotate:N"
            ),
            Warning::RealtimeThrottling { side, runtime_us, period_us } => format!(
                "the {side} keeps its core busy under SCHED_FIFO: before Linux 6.12, or with CONFIG_RT_GROUP_SCHED, the kernel stops it after {runtime_us} us in every {period_us} us (sched_rt_runtime_us); since then ordinary threads that wait on that core get up to 50 ms of each second; the pauses are in the tail: use --sched other to compare"
            ),
            Warning::NoFloor { why } => format!("there is no floor beside these figures: {why}"),
            Warning::AlwaysLoss { least_per_s } => format!(
                "frames were lost at every rate tried, down to {least_per_s:.0}/s; something else on these cores or in the queue loses them: use quiet cores (--cpu), and compare with a fixed --rate"
            ),
            Warning::StrayFrames { side, count } => format!(
                "{count} frames came to the {side}'s ring that were not this session's, or damaged, and were ignored; another program sends to its ports: choose others with --local-port or --data-ports"
            ),
            Warning::RingLoss { side, lost, full: true } => format!(
                "the {side}'s ring lost {lost} frames, because it was full or had no free chunk; use fewer --outstanding or --flows, or a lower --rate"
            ),
            Warning::RingLoss { side, lost, full: false } => format!(
                "the {side}'s ring lost {lost} frames that were too long or damaged, or that the device refused; see whether the interface's MTU changed in mid-run"
            ),
            Warning::NotAccelerated { side, stack, passed } => format!(
                "{passed} although {stack} is loaded on the {side}: it does not carry this route or gave the socket back to the kernel; see its own log, and docs/stacks.md"
            ),
            Warning::ErrorReplies { first, count, of } => format!(
                "{count} of {of} replies are errors, the first \"{first}\": what was measured is how fast the server refuses; ask for something that it has, or log in first"
            ),
            Warning::RepliesDiffer { first, count, of } => format!(
                "{count} of {of} replies do not begin as the first did (\"{first}\"): an error of the server would look like that too"
            ),
            Warning::CertificateUnchecked => {
                "the server's certificate was not checked: anybody between may have answered; --tls-ca FILE has the certificates to trust".into()
            }
            Warning::ServerUnknown { why } => {
                format!("the server's side is missing ({why}); look at its own log, and run again")
            }
        }
    }

    /// The warning as stored in a record.
    pub fn note(&self) -> Note {
        Note { code: self.code().into(), message: self.message() }
    }
}

fn core(cores: usize) -> &'static str {
    if cores > 1 { "cores" } else { "core" }
}

fn another(cores: usize) -> &'static str {
    if cores > 1 { "other cores" } else { "another core" }
}
