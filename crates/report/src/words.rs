//! A run in the words of other tools, for the scripts that parse those.
//!
//! docs/formats.md has each field with the tool's definition of it, which holds here too: half a round trip where the tool prints
//! that, the tool's own rank of a percentile. A figure that was not measured is printed as the tool prints an unknown one, or
//! left out.

use hairpin_plan::path::Speaks;
use hairpin_plan::spec::Spec;
use hairpin_record::histogram::Decoded;
use hairpin_record::run::{Row, Run};

use crate::label::whole;
use crate::prose::clean;

mod iperf;
mod netperf;
mod sfnt;
mod snf;
mod sockperf;

pub(crate) use snf::{Line, line};

/// A tool whose lines a run can be printed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    Netperf,
    NetperfCsv,
    Sockperf,
    Iperf2,
    SfntPingpong,
    SnfPingpong,
}

impl Tool {
    /// The meaning of its times; the lines themselves have no room for it.
    pub fn note(self) -> &'static str {
        match self {
            Tool::Netperf | Tool::NetperfCsv => "netperf's latency is the RTT in us",
            Tool::Sockperf => "sockperf's latency is RTT/2 in us, not one-way",
            Tool::Iperf2 => "iperf's bounceback times are the RTT in ms, its RPS 1 / mean RTT",
            Tool::SfntPingpong => "sfnt-pingpong's times are RTT/2 in ns, not one-way",
            Tool::SnfPingpong => "HRT is RTT/2, not one-way",
        }
    }

    /// The run as the tool would print it.
    pub fn text(self, run: &Run) -> String {
        let each = |print: fn(&mut String, &Ping)| {
            let mut text = String::new();
            run.results.iter().for_each(|row| print(&mut text, &Ping::of(run, row)));
            text
        };
        match self {
            Tool::Netperf => each(netperf::classic),
            Tool::NetperfCsv => each(netperf::csv),
            Tool::Sockperf => each(sockperf::print),
            Tool::Iperf2 => each(iperf::print),
            Tool::SfntPingpong => sfnt::table(run),
            Tool::SnfPingpong => snf::pingpong(run),
        }
    }
}

/// A row, with figures that several tools print.
struct Ping<'a> {
    row: &'a Row,
    /// The path as in tables, with its origin unless measured, and of a group the reply.
    path: String,
    /// `TCP`, `UDP`, else the path's name.
    protocol: String,
    speaks: Option<Speaks>,
    /// The server as given, else the link.
    peer: String,
    /// Empty if the record's histogram cannot be decoded.
    times: Decoded,
}

impl Ping<'_> {
    fn of<'a>(run: &Run, row: &'a Row) -> Ping<'a> {
        let link = &run.place.link;
        let client = row.path.parse::<Spec>().ok().map(|spec| spec.client);
        let speaks = client.as_ref().map(|client| client.speaks());
        let protocol = match speaks {
            Some(Speaks::Tcp | Speaks::TcpPerTransaction) => "TCP".into(),
            Some(Speaks::Udp) => "UDP".into(),
            _ => client.map_or_else(|| clean(&row.path).replace(',', ";"), |client| client.path.name.into()),
        };
        Ping {
            row,
            path: whole(row),
            protocol,
            speaks,
            peer: clean(link.peer.as_deref().unwrap_or(&link.kind)),
            times: Decoded::decode(&row.histogram).unwrap_or_else(|_| Decoded::empty()),
        }
    }

    /// The RTT in ns at this rank, counted from 1: within 0.1 %, by the histogram.
    fn at(&self, rank: u64) -> Option<f64> {
        let mut below = 0u64;
        let found = self.times.counts().find(|(_, often)| {
            below = below.saturating_add(*often);
            below >= rank
        });
        let (least, most) = (self.row.rtt_ns.min?, self.row.rtt_ns.max?);
        found.map(|(ns, _)| if rank >= self.times.count() { most } else { ns.max(least).min(most) } as f64)
    }

    /// This share of the number of RTTs.
    fn share(&self, of: f64) -> f64 {
        self.row.rtt_ns.count as f64 * of
    }

    fn seconds(&self) -> f64 {
        self.row.duration_ns as f64 / 1e9
    }
}
