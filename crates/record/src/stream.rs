//! The schema `hairpin.stream/1`: frames per second, with and without loss.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::frames::{Lost, Rings};
use crate::head::{Body, Place, Record};
use crate::run::Cpu;
use crate::warning::Note;

/// The record `hairpin.stream/1`, which `hairpin stream --json` prints: a head and a [`StreamBody`].
///
/// Frames were sent as fast as asked, and counted where they arrived. A [`StreamRow`] has two [`Trial`]s: `offered` at full speed
/// or at the rate asked for, and `lossless` at the highest rate found at which nothing was lost. Rates are in frames/s,
/// `wire_bits_per_s` in bit/s, with preamble, FCS and gap. `lossless` is `None` if no such rate was found or none was searched,
/// `delivered` if nothing counts the frames that arrive. `search` has every trial on the way, in the order made.
/// [`Stream::parse`](Record::parse) fails where a field is missing or wrong.
///
/// ```
/// use hairpin_record::any::AnyRecord;
/// use hairpin_record::stream::Direction;
///
/// # let bytes = &std::fs::read("tests/data/older.jsonl").unwrap();
/// for record in AnyRecord::all(bytes)? {
///     let AnyRecord::Stream(stream) = record else { continue };
///     for row in &stream.results {
///         println!("{}: loses {:.1} % of {:.0}/s", row.io, 100.0 * row.offered.lost_share(), row.offered.offered_per_s);
///     }
///     let (row, best) = (&stream.results[0], stream.results[0].lossless.as_ref());
///     assert_eq!((row.direction, best.and_then(|trial| trial.delivered)), (Direction::Inject, Some(74_560)));
/// }
/// # Ok::<(), hairpin_record::any::ParseError>(())
/// ```
pub type Stream = Record<StreamBody>;

impl Body for StreamBody {
    const SCHEMA: &'static str = "hairpin.stream/1";
}

/// One row per way to move frames, direction and frame size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Stream")]
pub struct StreamBody {
    /// Hosts, link and clock.
    #[serde(flatten)]
    pub place: Place,
    /// Relative precision at which the search for the rate without loss ends; `null` if nothing is searched.
    pub resolution: Option<f64>,
    /// One row per way, direction and size, in the order measured.
    pub results: Vec<StreamRow>,
}

/// The frames that a row counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// Frames that the client sends; the other side's kernel counts and discards them.
    Inject,
    /// Frames that the server receives; the client sends them.
    Receive,
    /// Frames that come back to the client; the server bounces them.
    Bounce,
}

impl std::fmt::Display for Direction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Direction::Inject => "inject",
            Direction::Receive => "receive",
            Direction::Bounce => "bounce",
        })
    }
}

/// Results of one way to move frames, in one direction and at one size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StreamRow {
    /// Back end and wait policy of client and server, such as `xdp:spin/packet:block`.
    pub io: String,
    /// The frames that are counted.
    pub direction: Direction,
    /// Bytes of every frame, Ethernet header included, FCS not; `null` where they are the sender's choice.
    pub frame_bytes: Option<u64>,
    /// Queues of each side.
    pub queues: u32,
    /// The highest offered rate at which nothing was lost; `null` where none was found, or none was searched.
    pub lossless: Option<Trial>,
    /// The least rate offered at which most trials lost frames: the rate without loss lies below it; `null` where none did, or
    /// none was searched.
    #[serde(default)]
    pub loses_per_s: Option<f64>,
    /// The trial at full speed, at `--rate`, or at the rate of another host that sends.
    pub offered: Trial,
    /// Every trial of the search, in the order made.
    pub search: Vec<Step>,
    /// Features that the client's rings were granted; `null` without rings.
    pub client: Option<Rings>,
    /// Features that the server's rings were granted; `null` without rings or if the server is another host.
    pub server: Option<Rings>,
    /// Every way in which these figures may mislead.
    pub warnings: Vec<Note>,
}

/// Frames sent for a while, at one rate or as fast as the sender can: how many arrived, and where the others were lost.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Trial {
    /// The rate requested of the sender in frames/s; `null` for as fast as it can.
    pub asked_per_s: Option<f64>,
    /// From the first frame to the last.
    pub duration_ns: u64,
    /// Frames that the sender handed to its ring; where another host sends, the span of the numbers seen.
    pub offered: u64,
    /// Frames that arrived where they are counted, each once; `null` if no end counts.
    pub delivered: Option<u64>,
    /// offered / duration.
    pub offered_per_s: f64,
    /// delivered / duration.
    pub delivered_per_s: Option<f64>,
    /// Bit rate on the wire of the frames delivered (offered, if no end counts arrivals), with 24 bytes of
    /// preamble, FCS and gap per frame.
    pub wire_bits_per_s: f64,
    /// Frames offered and not delivered.
    pub lost: u64,
    /// Losses that the rings of either side counted, by cause.
    pub lost_by_cause: Lost,
    /// Frames lost where no ring counts: in a queue of the kernel, or on the way.
    pub lost_elsewhere: u64,
    /// Frames that arrived a second time.
    pub duplicates: u64,
    /// Frames overtaken by a later one of the same queue.
    pub reordered: u64,
    /// Frames with our ethertype that were not this stream's.
    pub foreign: u64,
    /// CPU time of both sides; `per_transaction_ns` is per frame that the side sent or received, whichever is more.
    pub cpu: Cpu,
}

impl Trial {
    /// The share of the offered frames that was lost, 0 to 1; 0 if none was offered.
    pub fn lost_share(&self) -> f64 {
        if self.offered == 0 { 0.0 } else { self.lost as f64 / self.offered as f64 }
    }
}

/// One step of the search for the rate without loss.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Step {
    /// The requested rate; `null` for as fast as the sender can.
    pub asked_per_s: Option<f64>,
    /// The rate that the sender achieved.
    pub offered_per_s: f64,
    /// Frames lost.
    pub lost: u64,
}
