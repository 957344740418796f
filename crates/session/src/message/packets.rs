//! Messages about packet rings: opened once, then used for one trial after the other.
//!
//! ```text
//!   verb ── Rings ──▶ worker       ◀── Rings(granted)
//!        ── Stream ─▶              ◀── Ready, Streaming*, Streamed
//!        ── Bounce ─▶              ◀── Ready, Bouncing*, Bounced
//! ```

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use hairpin_record::bounce::Bounced;
use hairpin_record::frames::Lost;
use hairpin_record::run::CpuSide;
use hairpin_units::{Nanos, parse_number};
use serde::{Deserialize, Serialize};

use crate::io::IoSpec;

/// Rings to open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskRings {
    /// The choices, in order of preference; the first that opens is used.
    pub io: Vec<IoSpec>,
    pub interface: String,
    pub queue: u32,
    /// The number of queues, from `queue` on.
    pub queues: u32,
    /// The filter of frames, as [`Filter`](hairpin_packet::filter::Filter) prints it.
    pub filter: String,
    /// The longest frame in bytes; `None`: as the interface's MTU allows.
    pub longest: Option<usize>,
    /// A second interface, on which frames go out; the number of queues is then 1.
    pub output: Option<String>,
}

/// A trial of numbered frames: sent, counted, or both.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StreamWork {
    pub send: Option<Send>,
    pub count: Count,
    /// Flows that are counted separately.
    pub flows: u16,
    /// Duration if nothing is sent; `None` until stopped.
    pub duration: Option<Nanos>,
    /// The CPUs; the rings are divided among one thread on each.
    pub cpus: Vec<u32>,
}

/// The side that counts frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Count {
    /// Counts nothing.
    Nobody,
    /// Frames with this cookie.
    Of(u64),
    /// Frames of any sender.
    Anybody,
}

/// Numbered frames to be sent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Send {
    /// The destination's hardware address.
    pub destination: [u8; 6],
    /// The source's hardware address.
    pub source: [u8; 6],
    /// The cookie that marks these frames.
    pub cookie: u64,
    /// Bytes of every frame, FCS not included.
    pub bytes: usize,
    /// Frames per second over all rings; `None` for as fast as possible.
    pub per_s: Option<f64>,
    pub duration: Nanos,
}

/// The frames to bounce, and the settings for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BounceWork {
    /// The filter of frames, as [`Filter`](hairpin_packet::filter::Filter) prints it.
    pub filter: String,
    /// Changes made to a frame, as [`Rewrite`](hairpin_packet::bounce::Rewrite) prints them.
    pub rewrite: String,
    /// The rule for handing frames to the kernel.
    pub flush: Flush,
    /// Check checksums.
    pub verify: bool,
    /// Limit on sending back identical frames in quick succession.
    pub repeats: Option<u32>,
    /// Duration; `None` until stopped.
    pub duration: Option<Nanos>,
    /// The CPUs; the rings are divided among one thread on each.
    pub cpus: Vec<u32>,
}

/// An interface's address and the kernel's counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterfaceFacts {
    pub mac: Option<[u8; 6]>,
    pub mtu: u32,
    /// Frames received.
    pub rx_frames: u64,
}

/// Counts of numbered frames, sent and received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamCounts {
    /// Frames handed to a ring.
    pub sent: u64,
    /// Time from the start until a frame was last due, whether a ring took it or not.
    pub sent_for: Nanos,
    /// Frames received, each counted once.
    pub came: u64,
    /// Bytes of these frames.
    pub came_bytes: u64,
    /// Time from the first frame received to the last.
    pub came_for: Nanos,
    /// The range of sequence numbers received, from the lowest to the highest.
    pub span: u64,
    /// Frames received more than once.
    pub duplicates: u64,
    /// Frames overtaken by later ones.
    pub reordered: u64,
    /// Frames of other senders.
    pub foreign: u64,
}

/// The counts of a side in a stream, and their cost.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StreamReport {
    /// The counts of all threads.
    pub counts: StreamCounts,
    /// Frames that this side's rings lost during the trial.
    pub lost: Lost,
    /// CPU time per frame sent or received, whichever are more.
    pub cpu: CpuSide,
    /// Why it ended early, if it did.
    pub error: Option<String>,
}

/// The counts of a bouncer, and their cost.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BounceReport {
    /// Time from the first look at the ring to the last.
    pub duration: Nanos,
    pub frames: Bounced,
    /// CPU time, per frame received.
    pub cpu: CpuSide,
    /// Why it ended early, if it did.
    pub error: Option<String>,
}

/// The rule for handing frames to the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Flush {
    /// Each frame at once.
    Each,
    /// After this many frames, or when no more have arrived.
    Every(NonZeroU32),
    /// At once at a low rate, in growing batches as the rate rises.
    Adaptive,
}

/// A text that is not a [`Flush`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is not a flush rule: write each, adaptive, or a number of frames from 1 to 1024")]
pub struct NotAFlush(String);

impl FromStr for Flush {
    type Err = NotAFlush;

    fn from_str(text: &str) -> Result<Flush, NotAFlush> {
        match text {
            "each" => Ok(Flush::Each),
            "adaptive" => Ok(Flush::Adaptive),
            number => {
                let frames = parse_number(number).ok().filter(|frames| *frames <= 1024);
                let frames = frames.and_then(|frames| NonZeroU32::new(frames as u32));
                frames.map(Flush::Every).ok_or_else(|| NotAFlush(text.into()))
            }
        }
    }
}

impl fmt::Display for Flush {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Flush::Each => f.write_str("each"),
            Flush::Every(frames) => write!(f, "{frames}"),
            Flush::Adaptive => f.write_str("adaptive"),
        }
    }
}
