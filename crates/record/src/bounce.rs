//! The schemas of `hairpin bounce`: `hairpin.bounce/1` for the whole, `hairpin.bounce-second/1` for each second of it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::frames::{Lost, Rings};
use crate::run::{CpuSide, HostFacts};
use crate::warning::Note;

/// The name of the schema of the whole.
pub const SCHEMA: &str = "hairpin.bounce/1";
/// The name of the schema of a second.
pub const SECOND_SCHEMA: &str = "hairpin.bounce-second/1";

/// A bounce server, from its start to its end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Bounce {
    /// Always `hairpin.bounce/1`.
    pub schema: String,
    /// Name and version of the tool, such as `hairpin 0.1.0`.
    pub tool: String,
    /// The command line, argument by argument.
    pub command: Vec<String>,
    /// When it started, RFC 3339 in UTC.
    pub started: String,
    /// Why it ended, if neither the user nor `--duration` ended it.
    pub error: Option<String>,
    /// Facts of this host.
    pub host: HostFacts,
    /// How frames are received and sent: back end and wait policy, such as `xdp:spin`.
    pub io: String,
    /// Which frames are taken.
    pub filter: String,
    /// What is changed before a frame is sent back: `none`, `macs`, `all`.
    pub rewrite: String,
    /// When what is to be sent is handed to the kernel: `each`, a number of frames, `adaptive`.
    pub flush: String,
    /// True if the content of every frame was checked.
    pub verify: bool,
    /// Where frames come in.
    pub input: Rings,
    /// Where they go out, if not where they came in.
    pub output: Option<Rings>,
    /// From the first look at the ring to the last.
    pub duration_ns: u64,
    /// What became of the frames.
    pub frames: Bounced,
    /// Frames sent back / duration.
    pub frames_per_s: f64,
    /// Their bit rate on the wire, with 24 bytes of preamble, FCS and gap per frame.
    pub wire_bits_per_s: f64,
    /// CPU time; `per_transaction_ns` is per frame received.
    pub cpu: CpuSide,
    /// Every way in which these figures may mislead.
    pub warnings: Vec<Note>,
}

/// One second of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BounceSecond {
    /// Always `hairpin.bounce-second/1`.
    pub schema: String,
    /// End of the interval, since the start.
    pub at_ns: u64,
    /// Length of the interval.
    pub duration_ns: u64,
    /// What became of the interval's frames.
    pub frames: Bounced,
    /// Frames sent back / duration.
    pub frames_per_s: f64,
    /// Their bit rate on the wire, with 24 bytes of preamble, FCS and gap per frame.
    pub wire_bits_per_s: f64,
}

/// What became of the frames that a bounce server received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Bounced {
    /// Frames that came to the ring.
    pub received: u64,
    /// Their bytes, FCS not included.
    pub received_bytes: u64,
    /// Frames sent back.
    pub sent: u64,
    /// Their bytes, FCS not included.
    pub sent_bytes: u64,
    /// Frames received and on purpose not sent back, by cause.
    pub kept: Kept,
    /// Frames lost, by cause; the same frame may be counted by neither `received` nor `sent`.
    pub lost: Lost,
}

/// Frames that are not sent back, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Kept {
    /// To a broadcast or multicast address.
    pub group: u64,
    /// Outside the filter.
    pub filtered: u64,
    /// Bounced before, as often as a frame may be.
    pub hops: u64,
    /// Over the bound that keeps two bouncers from storming.
    pub storm: u64,
    /// Too short for their own headers, or otherwise not to be rewritten.
    pub malformed: u64,
    /// With `--verify`: not what its sender wrote.
    pub corrupt: u64,
}

impl Kept {
    /// Each cause in words, with its count.
    pub fn causes(&self) -> [(&'static str, u64); 6] {
        [
            ("broadcast or multicast", self.group),
            ("outside the filter", self.filtered),
            ("bounced too often", self.hops),
            ("over the storm bound", self.storm),
            ("malformed", self.malformed),
            ("corrupt", self.corrupt),
        ]
    }

    /// Frames not sent back, of whatever cause.
    pub fn total(&self) -> u64 {
        self.causes().iter().map(|(_, count)| count).sum()
    }

    fn since(self, earlier: Kept) -> Kept {
        Kept {
            group: self.group.wrapping_sub(earlier.group),
            filtered: self.filtered.wrapping_sub(earlier.filtered),
            hops: self.hops.wrapping_sub(earlier.hops),
            storm: self.storm.wrapping_sub(earlier.storm),
            malformed: self.malformed.wrapping_sub(earlier.malformed),
            corrupt: self.corrupt.wrapping_sub(earlier.corrupt),
        }
    }
}

impl Bounced {
    /// What happened after `earlier` was read; counters may wrap.
    pub fn since(self, earlier: Bounced) -> Bounced {
        Bounced {
            received: self.received.wrapping_sub(earlier.received),
            received_bytes: self.received_bytes.wrapping_sub(earlier.received_bytes),
            sent: self.sent.wrapping_sub(earlier.sent),
            sent_bytes: self.sent_bytes.wrapping_sub(earlier.sent_bytes),
            kept: self.kept.since(earlier.kept),
            lost: self.lost.since(earlier.lost),
        }
    }
}
