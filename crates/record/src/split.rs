//! How much of a round trip is either host's, and how much the wire's: by stamps where packets leave and enter the hosts.
//!
//! ```text
//!   client        send entered ─ out ┐                                                        ┌ in ─ receive returned
//!                    client-out      │                                                        │   client-in
//!                                  wire ┌ in ─ receive returned ─ send entered ─ out ┐ wire (both ways together)
//!   server                              └ server-in ─── turn-around ──── server-out ─┘
//! ```
//! `out` and `in` are stamps of a NIC (hardware), or of driver and stack (software). A part is the difference of two stamps of
//! one clock, and of every transaction: RTT = client-out + wire + server-in + turn-around + server-out + client-in.
//!
//! A [`Split`] stands in [`Row::split`](crate::run::Row::split) of a run with `--hw-stamps`, in a rate of [`load`](crate::load)
//! and in a path of
//! [`explain`](crate::explain). Parts are in ns, in the order in which a round trip passes them, then sums of them. A part that the stamps of
//! these hosts cannot tell is not in the list, so ask for it with [`Split::part`]; [`StampsOf::why`] has the reason. Means of the
//! typical transactions add up to their RTT, quantiles do not.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::quantiles::Quantiles;
use crate::side::Side;

/// The most impossible transactions that a split lists.
pub const MOST_LISTED: usize = 16;

/// The split of a row's stamped round trips. They ran in blocks of their own: the row's own figures are of those without stamps.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Split {
    /// RTT of the transactions of this split.
    pub rtt_ns: Quantiles,
    /// The parts that are known, in the order in which a round trip passes them; then sums of them.
    pub parts: Vec<SplitPart>,
    /// Typical transactions: RTT from p40 to p60. Their means add up.
    pub typical: Typical,
    /// The stamps of each side and way: what they are, how many came, and why they are not better ones.
    pub stamps: Vec<StampsOf>,
    /// Counts of the stamped transactions and of their stamps.
    pub counts: StampCounts,
    /// Transactions with a part of negative duration, or with stamps out of order: the first 16. They are in no other figure of
    /// this split.
    pub impossible: Vec<Impossible>,
    /// The step between stamped transactions; 1: each was stamped.
    pub every: u32,
    /// Stamped blocks that count.
    pub blocks: u64,
    /// Stamped blocks that were rejected, because a clock was set or left its rate, or clocks disagreed by more than 50 ns over
    /// them.
    pub blocks_rejected: u64,
    /// The clocks of the NICs that were read, by which their stamps are placed on the clocks of the programs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nic_clocks: Vec<NicClock>,
}

/// The clock of a side's NIC, followed over the row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NicClock {
    /// The side whose NIC it is.
    pub side: Side,
    /// The number of its device file, `/dev/ptpN`.
    pub index: u32,
    /// The kernel's request by which it is read beside the program's clock.
    pub method: String,
    /// Width of the widest bracket around a reading: a stamp is placed to within half of it.
    pub width_ns: u64,
    /// Its rate against the program's clock, less 1, in parts per 10^9.
    pub rate_ppb: Option<f64>,
    /// Times that it was set or left its rate, as by a daemon that steers it. Blocks over which it did are rejected.
    pub changed: u64,
}

/// One part of the round trips, or a sum of parts. A part that the stamps cannot tell is not in the list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SplitPart {
    /// The part, or the sum of parts.
    pub part: PartName,
    /// Its duration, over all transactions of the split that have it.
    pub ns: Quantiles,
    /// The same as an HDR histogram, V2 compressed, base64.
    pub histogram: String,
    /// Its mean over the typical transactions; those of all parts, sums left out, add up to `typical.rtt_ns` if all are known.
    pub typical_ns: f64,
}

/// A part, or a sum of parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PartName {
    /// The client's send call entered → the request's stamp where it leaves.
    ClientOut,
    /// Between the two hosts, both ways together.
    Wire,
    /// The request's stamp where it enters the server's host → the server's receive call returned.
    ServerIn,
    /// The server's receive call returned → its send call entered.
    TurnAround,
    /// The server's send call entered → the reply's stamp where it leaves.
    ServerOut,
    /// The reply's stamp where it enters the client's host → the client's receive call returned.
    ClientIn,
    /// Sum: client-out and client-in. Where a NIC's clock cannot be related to the program's, this alone is known.
    Client,
    /// Sum: server-in, turn-around and server-out.
    Server,
    /// Sum: client and server.
    Hosts,
    /// Sum: all that is not the client's: wire and server.
    Beyond,
}

impl PartName {
    /// All, in the order of a record.
    pub const ALL: [PartName; 10] = [
        PartName::ClientOut,
        PartName::Wire,
        PartName::ServerIn,
        PartName::TurnAround,
        PartName::ServerOut,
        PartName::ClientIn,
        PartName::Client,
        PartName::Server,
        PartName::Hosts,
        PartName::Beyond,
    ];

    /// Its name in a record.
    pub const fn name(self) -> &'static str {
        match self {
            PartName::ClientOut => "client-out",
            PartName::Wire => "wire",
            PartName::ServerIn => "server-in",
            PartName::TurnAround => "turn-around",
            PartName::ServerOut => "server-out",
            PartName::ClientIn => "client-in",
            PartName::Client => "client",
            PartName::Server => "server",
            PartName::Hosts => "hosts",
            PartName::Beyond => "beyond",
        }
    }

    /// True for a sum of other parts.
    pub const fn is_sum(self) -> bool {
        matches!(self, PartName::Client | PartName::Server | PartName::Hosts | PartName::Beyond)
    }
}

/// The typical transactions of a split: those with an RTT from p40 to p60, in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Typical {
    /// Transactions in it.
    pub count: u64,
    /// The shortest RTT.
    pub from_ns: u64,
    /// The longest.
    pub to_ns: u64,
    /// The mean RTT: the sum of the parts' means.
    pub rtt_ns: f64,
}

/// Layer of a stamp: what takes it, and by which clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Layer {
    /// The NIC, by its own clock.
    Hardware,
    /// Driver (out) and stack (in), by CLOCK_REALTIME: the NIC's own time counts as wire.
    Software,
    /// No stamps.
    None,
}

impl Layer {
    /// Its name in a record.
    pub const fn name(self) -> &'static str {
        match self {
            Layer::Hardware => "hardware",
            Layer::Software => "software",
            Layer::None => "none",
        }
    }
}

/// Place at which a stamp is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum StampPlace {
    /// The NIC.
    Nic,
    /// The driver is handed a packet that leaves.
    Driver,
    /// The driver hands over a packet that came.
    Stack,
    /// IP delivers a packet that came: on loopback and veth the kernel does not stamp those of TCP before, as they carry the time
    /// at which they were sent.
    Ip,
}

/// Way of a packet, seen from its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Way {
    /// It leaves.
    Out,
    /// It comes in.
    In,
}

impl Way {
    /// Its name in a record.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Way::Out => "out",
            Way::In => "in",
        }
    }

    /// Name of the granted option by which a ring tells who stamps this way, and the reason if that is not the device.
    #[must_use]
    pub fn granted(self) -> &'static str {
        match self {
            Way::Out => "stamps-out",
            Way::In => "stamps-in",
        }
    }
}

/// The stamps of the packets that leave one side's host, or of those that enter it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StampsOf {
    /// The side whose host stamps.
    pub side: Side,
    /// The way of the packets.
    pub way: Way,
    /// The layer that the split uses. Both ways of a side use the same one, since one clock has to time both.
    pub layer: Layer,
    /// The place where it is taken; `null` without a layer.
    pub place: Option<StampPlace>,
    /// Transactions for which stamps were wanted.
    pub wanted: u64,
    /// Hardware stamps that came.
    pub hardware: u64,
    /// Software stamps that came.
    pub software: u64,
    /// Why it is no better layer, or why its parts are not known; empty without reason.
    pub why: String,
}

/// Counts of stamped transactions and of their stamps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StampCounts {
    /// Transactions of which stamps were wanted.
    pub transactions: u64,
    /// Those of this split: every stamp that the used layers have came, and none is impossible.
    pub complete: u64,
    /// Those without one of these stamps.
    pub missing: u64,
    /// Those with an impossible part.
    pub impossible: u64,
    /// Stamps that came after their block, and were matched all the same.
    pub late: u64,
    /// Stamps that came a second time; the first one counts.
    pub twice: u64,
    /// Stamps of no transaction that is known.
    pub unknown: u64,
}

/// A transaction whose stamps cannot be right: one of its parts has a negative duration, or they are out of order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Impossible {
    /// Its sequence number.
    pub sequence: u32,
    /// Its RTT.
    pub rtt_ns: u64,
    /// The part with a negative duration.
    pub part: PartName,
    /// The duration of that part.
    pub ns: i64,
}

impl Split {
    /// A part, if it is known.
    pub fn part(&self, part: PartName) -> Option<&SplitPart> {
        self.parts.iter().find(|known| known.part == part)
    }

    /// The layer of a side's stamps; [`Layer::None`] if it has none.
    pub fn layer(&self, side: Side) -> Layer {
        self.stamps.iter().find(|of| of.side == side).map_or(Layer::None, |of| of.layer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_record() {
        for part in PartName::ALL {
            assert_eq!(serde_json::to_value(part).unwrap(), part.name());
        }
        for layer in [Layer::Hardware, Layer::Software, Layer::None] {
            assert_eq!(serde_json::to_value(layer).unwrap(), layer.name());
        }
    }
}
