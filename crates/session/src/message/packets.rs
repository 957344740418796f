//! What is said about rings: opened once, then used for one trial after the other.
//!
//! ```text
//!   verb ── Rings ──▶ worker       ◀── Rings(what was granted)
//!        ── Stream ─▶              ◀── Ready, Streaming*, Streamed
//!        ── Bounce ─▶              ◀── Ready, Bouncing*, Bounced
//! ```

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use hairpin_record::bounce::Bounced;
use hairpin_record::frames::Lost;
use hairpin_record::run::CpuSide;
use hairpin_units::Nanos;
use serde::{Deserialize, Serialize};

use crate::io::IoSpec;

/// Rings to be opened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskRings {
    /// How; the first that opens, in this order.
    pub io: Vec<IoSpec>,
    /// Where.
    pub interface: String,
    /// The first queue.
    pub queue: u32,
    /// How many queues.
    pub queues: u32,
    /// Which frames, as [`Filter`](hairpin_packet::filter::Filter) prints.
    pub filter: String,
    /// The longest frame in bytes; `None`: what the interface's MTU allows.
    pub longest: Option<usize>,
    /// A second interface, for what goes out; then there is one queue.
    pub output: Option<String>,
}

/// Numbered frames to be sent, counted, or both.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Work {
    /// What to send.
    pub send: Option<Send>,
    /// Whose frames to count.
    pub count: Count,
    /// Flows that are told apart when counting.
    pub flows: u16,
    /// For how long where nothing is sent; `None` until stopped.
    pub duration: Option<Nanos>,
    /// The CPUs; the rings are shared out to a thread on each.
    pub cpus: Vec<u32>,
}

/// Whose frames are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Count {
    /// Nobody's.
    Nobody,
    /// Those with this cookie.
    Of(u64),
    /// Those of whoever sends.
    Anybody,
}

/// Numbered frames to be sent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Send {
    /// To whom.
    pub destination: [u8; 6],
    /// From whom.
    pub source: [u8; 6],
    /// Whose frames they are.
    pub cookie: u64,
    /// Bytes of every frame, FCS not included.
    pub bytes: usize,
    /// Frames per second over all rings; `None` for as fast as it goes.
    pub per_s: Option<f64>,
    /// For how long.
    pub duration: Nanos,
}

/// What is to be bounced, and how.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BounceWork {
    /// Which frames, as [`Filter`](hairpin_packet::filter::Filter) prints.
    pub filter: String,
    /// What is changed in a frame, as [`Rewrite`](hairpin_packet::bounce::Rewrite) prints.
    pub rewrite: String,
    /// When what is to be sent is kicked.
    pub flush: Flush,
    /// Check checksums.
    pub verify: bool,
    /// How often one and the same frame is sent back in quick succession.
    pub repeats: Option<u32>,
    /// Until then; `None` until stopped.
    pub duration: Option<Nanos>,
    /// The CPUs; the rings are shared out to a thread on each.
    pub cpus: Vec<u32>,
}

/// An interface's address and the kernel's counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterfaceFacts {
    /// Its hardware address.
    pub mac: Option<[u8; 6]>,
    /// MTU in bytes.
    pub mtu: u32,
    /// Frames received.
    pub rx_frames: u64,
}

/// Numbered frames sent and counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamCounts {
    /// Frames handed to a ring.
    pub sent: u64,
    /// From the start to the last of them.
    pub sent_for: Nanos,
    /// Frames that came, each once.
    pub came: u64,
    /// Their bytes.
    pub came_bytes: u64,
    /// From the first of them to the last.
    pub came_for: Nanos,
    /// Numbers from the lowest to the highest.
    pub span: u64,
    /// Frames that came a second time.
    pub duplicates: u64,
    /// Frames overtaken.
    pub reordered: u64,
    /// Frames of others.
    pub foreign: u64,
}

/// What a side sent and counted, and what it cost.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StreamReport {
    /// The counts of all threads.
    pub counts: StreamCounts,
    /// What its rings lost meanwhile.
    pub lost: Lost,
    /// CPU time, per frame that it sent or received, whichever is more.
    pub cpu: CpuSide,
    /// Why it ended early, if it did.
    pub error: Option<String>,
}

/// What was bounced, and what it cost.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BounceReport {
    /// From the first look at the ring to the last.
    pub duration: Nanos,
    /// What became of the frames.
    pub frames: Bounced,
    /// CPU time, per frame received.
    pub cpu: CpuSide,
    /// Why it ended early, if it did.
    pub error: Option<String>,
}

/// When what is to be sent back is handed to the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Flush {
    /// Each frame at once.
    Each,
    /// After so many frames, or when no more is there.
    Every(NonZeroU32),
    /// At once at a low rate, in batches as it grows.
    Adaptive,
}

/// A text that is no [`Flush`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is no flush: write each, adaptive, or a number of frames from 1 to 1024")]
pub struct NotAFlush(String);

impl FromStr for Flush {
    type Err = NotAFlush;

    fn from_str(text: &str) -> Result<Flush, NotAFlush> {
        match text {
            "each" => Ok(Flush::Each),
            "adaptive" => Ok(Flush::Adaptive),
            number => {
                let frames = number.parse().ok().filter(|frames: &NonZeroU32| frames.get() <= 1024);
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
