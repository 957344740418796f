//! The schemas of `hairpin bounce`: `hairpin.bounce/1` for the whole run, `hairpin.bounce-second/1` for each second.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::frames::{Lost, Rings};
use crate::head::{Body, Record};
use crate::run::{CpuSide, HostFacts};
use crate::warning::Note;

/// The record `hairpin.bounce/1`, which `hairpin bounce --json` prints: a head and a [`BounceBody`].
///
/// A bounce server sends frames back as they come, and knows of no round trips: it counts. [`Bounced`] has the frames of the
/// whole run, sent, kept back on purpose ([`Kept`]) or lost, by cause. Their bytes leave out the FCS, and those on the wire have
/// it, preamble and gap. Times are in ns, rates per second. `output` is `None` if frames go out where they came in, `repeats`
/// without a limit.
/// [`Bounce::parse`](Record::parse) fails where a field is missing or wrong. A [`BounceSecond`] has no head and is no record:
/// [`AnyRecord::all`](crate::any::AnyRecord::all) skips its lines, and `serde_json` reads one.
///
/// ```
/// use hairpin_record::any::AnyRecord;
///
/// # let bytes = &std::fs::read("tests/data/older.jsonl").unwrap();
/// for record in AnyRecord::all(bytes)? {
///     let AnyRecord::Bounce(bounce) = record else { continue };
///     println!("{} of {} frames went back", bounce.frames.sent, bounce.frames.received);
///     for (cause, count) in bounce.frames.losses().filter(|(_, count)| *count > 0) {
///         println!("{count} lost: {cause}");
///     }
///     assert_eq!((bounce.io.as_str(), bounce.cpu.per_transaction_ns), ("packet:spin", None)); // no frame came
/// }
/// # Ok::<(), hairpin_record::any::ParseError>(())
/// ```
pub type Bounce = Record<BounceBody>;

impl Body for BounceBody {
    const SCHEMA: &'static str = "hairpin.bounce/1";
}

/// A bounce server, from its start to its end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Bounce")]
pub struct BounceBody {
    /// Facts of this host.
    pub host: HostFacts,
    /// Back end and wait policy for receiving and sending frames, such as `xdp:spin`.
    pub io: String,
    /// The filter that selects frames.
    pub filter: String,
    /// The part of a frame that is rewritten before it is sent back: `none`, `macs`, `all`.
    pub rewrite: String,
    /// The rule for kicking committed frames: `each`, a number of frames, `adaptive`.
    pub flush: String,
    /// Limit on sending back identical frames in quick succession; `null` without limit.
    pub repeats: Option<u32>,
    /// True if checksums were checked.
    pub verify: bool,
    /// The rings that frames come in on.
    pub input: Rings,
    /// The rings that frames go out on, if other than `input`.
    pub output: Option<Rings>,
    /// From the first poll of the ring to the last.
    pub duration_ns: u64,
    /// Frames received, sent back and dropped.
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

/// One second of a bounce server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BounceSecond {
    /// Always `hairpin.bounce-second/1`.
    pub schema: String,
    /// End of the interval, since the start.
    pub at_ns: u64,
    /// Length of the interval.
    pub duration_ns: u64,
    /// Frames received, sent back and dropped in the interval.
    pub frames: Bounced,
    /// Frames sent back / duration.
    pub frames_per_s: f64,
    /// Their bit rate on the wire, with 24 bytes of preamble, FCS and gap per frame.
    pub wire_bits_per_s: f64,
}

impl Body for BounceSecond {
    const SCHEMA: &'static str = "hairpin.bounce-second/1";
}

/// Outcomes of the frames that a bounce server received.
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
    /// Bytes on the wire of the frames sent: 24 bytes of preamble, FCS and gap per frame, and the padding of
    /// short ones, included.
    pub sent_wire_bytes: u64,
    /// Received frames that were deliberately not sent back, by cause.
    pub kept: Kept,
    /// With `--verify`: received frames with a wrong IPv4 or UDP checksum; they are sent back too.
    pub wrong_checksum: u64,
    /// Frames that could not be sent back: the ring to send from was full.
    pub tx_ring_full: u64,
    /// Frames lost in the rings, by cause; most of them are in no other count.
    pub lost: Lost,
}

/// Frames that are not sent back, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Kept {
    /// To a broadcast or multicast address.
    pub group: u64,
    /// Outside the filter.
    pub filtered: u64,
    /// The same frame again and again, as when two bouncers face each other.
    pub repeated: u64,
    /// Shorter than an Ethernet header.
    pub short: u64,
    /// Longer than the other interface takes.
    pub too_long: u64,
}

impl Kept {
    /// Each cause in words, with its count.
    pub fn causes(&self) -> [(&'static str, u64); 5] {
        [
            ("broadcast or multicast", self.group),
            ("outside the filter", self.filtered),
            ("repeated too often", self.repeated),
            ("too short", self.short),
            ("too long", self.too_long),
        ]
    }

    /// Frames not sent back, summed over all causes.
    pub fn total(&self) -> u64 {
        self.causes().iter().map(|(_, count)| count).sum()
    }
}

impl Bounced {
    /// All kinds of losses in words, with their counts.
    pub fn losses(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.lost.causes().into_iter().chain([("TX ring full", self.tx_ring_full)])
    }

    /// Adds another ring's counts, field by field.
    pub fn plus(self, other: Bounced) -> Bounced {
        self.with(other, u64::wrapping_add, Lost::plus)
    }

    /// The increase of every counter since `earlier`; counters may wrap.
    pub fn since(self, earlier: Bounced) -> Bounced {
        self.with(earlier, u64::wrapping_sub, Lost::since)
    }

    fn with(self, other: Bounced, both: impl Fn(u64, u64) -> u64, lost: impl Fn(Lost, Lost) -> Lost) -> Bounced {
        let kept = Kept {
            group: both(self.kept.group, other.kept.group),
            filtered: both(self.kept.filtered, other.kept.filtered),
            repeated: both(self.kept.repeated, other.kept.repeated),
            short: both(self.kept.short, other.kept.short),
            too_long: both(self.kept.too_long, other.kept.too_long),
        };
        Bounced {
            received: both(self.received, other.received),
            received_bytes: both(self.received_bytes, other.received_bytes),
            sent: both(self.sent, other.sent),
            sent_bytes: both(self.sent_bytes, other.sent_bytes),
            sent_wire_bytes: both(self.sent_wire_bytes, other.sent_wire_bytes),
            kept,
            wrong_checksum: both(self.wrong_checksum, other.wrong_checksum),
            tx_ring_full: both(self.tx_ring_full, other.tx_ring_full),
            lost: lost(self.lost, other.lost),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_is_the_difference_of_two_readings_that_may_wrap() {
        let kept = |group| Kept { group, ..Kept::default() };
        let near = Bounced { received: u64::MAX, kept: kept(3), tx_ring_full: 1, ..Bounced::default() };
        let after = Bounced { received: 4, kept: kept(5), tx_ring_full: 2, ..Bounced::default() };
        let second = after.since(near);
        assert_eq!((second.received, second.kept.total(), second.losses().map(|(_, n)| n).sum::<u64>()), (5, 2, 1));
        assert_eq!(near.plus(second), after);
    }
}
