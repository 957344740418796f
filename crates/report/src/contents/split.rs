//! How much of round trips is either host's and how much the wire's: the bar, its table, and the stamps.

use hairpin_record::run::{Quantiles, Side};
use hairpin_record::split::{self, PartName};

use super::distribution::summary;
use crate::figure::time;
use crate::prose::capital;
use crate::split::{counted, hosts, nothing, reasons, with_stamps};
use crate::view::{Split, SplitPart, SplitPiece};

/// The parts of either host's time. Where one is unknown, their sum stands for them.
const CLIENT: [PartName; 2] = [PartName::ClientOut, PartName::ClientIn];
const SERVER: [PartName; 3] = [PartName::ServerIn, PartName::TurnAround, PartName::ServerOut];

/// The split with the RTT p50 of the transactions without stamps.
pub(super) fn split(split: &split::Split, without: Option<u64>) -> Split {
    let (bar, rtt) = (bar(split), summary(&split.rtt_ns, &[]));
    Split {
        headline: match hosts(split).filter(|_| !bar.is_empty()) {
            Some(words) => format!("{words}."),
            None => "No round trip could be split.".into(),
        },
        quantiles: if bar.is_empty() { String::new() } else { quantiles(split, without) },
        said: said(split),
        rtt_p50_ns: rtt.p50.ns,
        rtt_p99_ns: rtt.p99.ns,
        stamps_client: split.layer(Side::Client).name().into(),
        stamps_server: split.layer(Side::Server).name().into(),
        counts: split.counts,
        typical_count: split.typical.count,
        typical_ns: Some(split.typical.rtt_ns).filter(|ns| ns.is_finite()),
        bar,
        parts: split.parts.iter().map(part).collect(),
    }
}

fn part(of: &split::SplitPart) -> SplitPart {
    let times = summary(&of.ns, &[]);
    SplitPart {
        name: if of.part.is_sum() { format!("= {}", of.part.name()) } else { of.part.name().into() },
        count: of.ns.count,
        p50_ns: times.p50.ns,
        p99_ns: times.p99.ns,
        typical_ns: Some(of.typical_ns).filter(|ns| ns.is_finite()),
    }
}

/// Each part once, as fine as the stamps tell: client-out, wire, server-in, turn-around, server-out, client-in.
fn bar(split: &split::Split) -> Vec<SplitPiece> {
    let piece = |name: PartName| {
        let ns = split.part(name).map(|part| part.typical_ns).filter(|ns| ns.is_finite())?;
        Some(SplitPiece { name: name.name().into(), part: place(name).into(), ns })
    };
    let all = |names: &[PartName]| names.iter().map(|name| piece(*name)).collect::<Option<Vec<_>>>();
    let ends = all(&CLIENT).or_else(|| all(&[PartName::Client]));
    let server = all(&SERVER).or_else(|| all(&[PartName::Server]));
    let beyond = match (piece(PartName::Wire), server) {
        (Some(wire), Some(server)) => Some([vec![wire], server].concat()),
        _ => all(&[PartName::Beyond]),
    };
    let (Some(mut ends), Some(beyond)) = (ends, beyond) else { return Vec::new() };
    let last = ends.split_off(1);
    [ends, beyond, last].concat()
}

fn place(name: PartName) -> &'static str {
    match name {
        PartName::ClientOut | PartName::ClientIn | PartName::Client => "client's host",
        PartName::Wire => "wire",
        PartName::Beyond => "wire and far side",
        _ => "server's host",
    }
}

fn quantiles(split: &split::Split, without: Option<u64>) -> String {
    let quantiles = |times: &Quantiles| {
        let times = summary(times, &[]);
        let known = [("p50", times.p50.ns), ("p99", times.p99.ns)];
        let told: Vec<String> = known.iter().filter_map(|(q, ns)| Some(format!("{q} {}", time((*ns)? as f64)))).collect();
        if told.is_empty() { "too few for a quantile".into() } else { told.join(", ") }
    };
    let sums = [PartName::Client, PartName::Wire, PartName::Server, PartName::Beyond];
    let known = |name: &PartName| *name != PartName::Beyond || split.part(PartName::Wire).is_none();
    let told: Vec<String> = sums
        .iter()
        .filter(|name| known(name))
        .filter_map(|name| Some(format!("{} {}", place(*name), quantiles(&split.part(*name)?.ns))))
        .collect();
    let rtt = format!("With stamps RTT {} ({} round trips)", quantiles(&split.rtt_ns), split.rtt_ns.count);
    let plain = without.map_or(String::new(), |ns| format!(" Without stamps RTT p50 {}.", time(ns as f64)));
    format!("{rtt}: {}.{plain}", told.join("; "))
}

fn said(split: &split::Split) -> Vec<String> {
    if split.counts.transactions == 0 {
        return vec![format!("{}.", capital(&nothing(split)))];
    }
    let mut all = vec![format!("{}.", with_stamps(split)), format!("{}.", counted(split))];
    all.extend(reasons(split));
    all
}
