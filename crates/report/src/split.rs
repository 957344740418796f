//! How much of a row's round trips is either host's and how much the wire's: a sentence, and in full a table of the parts.

use hairpin_record::run::{Row, Side};
use hairpin_record::split::{Impossible, Layer, NicClock, PartName, Split, StampCounts, StampPlace, StampsOf};
use hairpin_units::Nanos;

use crate::cell::{Cell, IntoCell};
use crate::doc::{Column, Doc, Fields, List, Shown, Table};
use crate::figure::{beside, time};
use crate::label::among;
use crate::prose::{capital, clean};

/// The sentences of all rows with a split, and the further parts of a full view.
pub(crate) fn splits(rows: &[&Row]) -> Doc {
    // The name of a row: its path, and its payload if another row has the same path.
    let all: Vec<(String, &Row, &Split)> = rows
        .iter()
        .filter_map(|row| {
            let split = row.split.as_deref()?;
            Some((among(row, rows), *row, split))
        })
        .collect();
    let mut doc = Doc::default();
    if all.is_empty() {
        return doc;
    }
    doc.gap();
    for (name, row, split) in &all {
        let lead = if rows.len() > 1 { format!("{name}: ") } else { String::new() };
        doc.lead(lead, sentence(split, row.rtt_ns.p50));
    }
    let mut full = Doc::default();
    full.gap();
    full.heading(
        "Parts of the RTT by stamps where packets leave and enter the hosts, in blocks of their own; the mean is that of typical ones (RTT from p40 to p60) \
         and adds up, client-out to client-in",
    );
    full.table(table(&all));
    full.list(List::plain(
        "Stamps where packets leave and enter the hosts",
        all.iter().flat_map(|(name, _, split)| stamps(name, split)).collect(),
    ));
    let impossible = all.iter().flat_map(|(name, _, split)| split.impossible.iter().map(move |one| cannot_be(name, one)));
    full.list(List::warnings("Impossible: in no other figure of the parts", impossible.collect()));
    doc.part(Shown::Full, full);
    doc
}

/// `22.1 of 31.0 us (typical RTT) are the hosts: client 11.9, server 10.2 (turn-around 0.4 of it); 8.9 wire and network; stamps:
/// …`
pub(crate) fn sentence(split: &Split, without: Option<u64>) -> String {
    let Some(mut said) = hosts(split) else {
        return format!("no round trip could be split: {}", nothing(split));
    };
    if both(split).is_none() {
        said.push_str(&format!(": {}", why(split, Side::Server)));
    }
    let mut with = match (split.rtt_ns.p50, without) {
        (Some(with), Some(without)) => format!("; RTT p50 with stamps {}, without {}", time(with as f64), time(without as f64)),
        _ => String::new(),
    };
    for clock in split.nic_clocks.iter().filter(|clock| clock.changed > 0) {
        with.push_str(&format!("; the clock of the {}'s NIC: {}", clock.side, left_its_rate(clock.changed)));
    }
    format!("{said}; {}{with}", layers(split))
}

/// The means of the server's host and of the wire, where both are known.
fn both(split: &Split) -> Option<(f64, f64)> {
    let mean = |part: PartName| split.part(part).map(|part| part.typical_ns);
    mean(PartName::Server).zip(mean(PartName::Wire))
}

/// The hosts' and the wire's parts of the typical round trips; `None` if not even the client's host is known.
pub(crate) fn hosts(split: &Split) -> Option<String> {
    let rtt = split.typical.rtt_ns;
    let mean = |part: PartName| split.part(part).map(|part| part.typical_ns);
    let short = |ns: f64| beside(ns, rtt);
    let client = mean(PartName::Client)?;
    Some(match both(split) {
        Some((server, wire)) => {
            let turn = mean(PartName::TurnAround).map_or(String::new(), |ns| format!(" (turn-around {} of it)", short(ns)));
            format!(
                "{} of {} (typical RTT) are the hosts: client {}, server {}{turn}; {} wire and network",
                short(client + server),
                time(rtt),
                short(client),
                short(server),
                short(wire)
            )
        }
        None => {
            let p50 = split.part(PartName::Beyond).and_then(|beyond| beyond.ns.p50);
            let p50 = p50.map_or(String::new(), |ns| format!(" (p50 {})", time(ns as f64)));
            format!(
                "{} of {} (typical RTT) are the client's host, {} beyond its stamps{p50}: wire, network and the far side, which has no stamps",
                short(client),
                time(rtt),
                short(rtt - client)
            )
        }
    })
}

/// The same in a line: `by stamps: 22.1 of 31.0 us are the hosts (client 11.9, server 10.2), 8.90 wire and network`
pub(crate) fn in_a_line(split: &Split) -> Option<String> {
    let rtt = split.typical.rtt_ns;
    let mean = |part: PartName| split.part(part).map(|part| part.typical_ns);
    let short = |ns: f64| beside(ns, rtt);
    let (client, server, wire) = (mean(PartName::Client)?, mean(PartName::Server)?, mean(PartName::Wire)?);
    let by = match [Side::Client, Side::Server].map(|side| split.layer(side)) {
        [Layer::Hardware, Layer::Hardware] => "stamps of the NICs",
        [Layer::Hardware, _] => "stamps of the client's NIC and the server's kernel",
        [_, Layer::Hardware] => "stamps of the client's kernel and the server's NIC",
        _ => "the kernel's stamps",
    };
    Some(format!(
        "by {by}: {} of {} are the hosts (client {}, server {}), {} wire",
        short(client + server),
        time(rtt),
        short(client),
        short(server),
        short(wire)
    ))
}

/// Why there is nothing to show.
pub(crate) fn nothing(split: &Split) -> String {
    let counts = &split.counts;
    match (counts.transactions, counts.impossible) {
        (0, _) if split.blocks_rejected > 0 => format!(
            "no block with stamps counts: {} were rejected, since a clock was set or left its rate, or clocks disagreed",
            split.blocks_rejected
        ),
        (0, _) => "no block with stamps was over when the row ended; use a longer --duration".into(),
        (all, 0) => format!("of {all} transactions none has every stamp: {}", why(split, Side::Client)),
        (all, wrong) => format!("of {all} transactions {wrong} are impossible, and the others lack a stamp"),
    }
}

fn why(split: &Split, side: Side) -> String {
    let of = split.stamps.iter().find(|of| of.side == side && !of.why.is_empty());
    of.map_or_else(|| "no stamp came".into(), |of| clean(&of.why))
}

/// The layers in use, as a sentence.
pub(crate) fn with_stamps(split: &Split) -> String {
    capital(&layers(split))
}

/// Outcomes of the stamped transactions.
pub(crate) fn counted(split: &Split) -> String {
    let counts = &split.counts;
    let which = if split.every > 1 { format!(", one in {}", split.every) } else { String::new() };
    format!(
        "{} transactions stamped{which}: {} complete, {} missing, {} impossible",
        counts.transactions, counts.complete, counts.missing, counts.impossible
    )
}

/// Why stamps are no better, or tell no more: each reason once.
pub(crate) fn reasons(split: &Split) -> Vec<String> {
    let mut reasons: Vec<(&StampsOf, Vec<Side>)> = Vec::new();
    for of in split.stamps.iter().filter(|of| !of.why.is_empty()) {
        match reasons.iter_mut().find(|(first, _)| (&first.why, first.layer) == (&of.why, of.layer)) {
            Some((_, sides)) if sides.contains(&of.side) => (),
            Some((_, sides)) => sides.push(of.side),
            None => reasons.push((of, vec![of.side])),
        }
    }
    let what = |layer| match layer {
        Layer::Hardware => "Not each part",
        Layer::Software => "No better stamps",
        Layer::None => "No stamps",
    };
    let sides = |sides: &[Side]| sides.iter().map(Side::to_string).collect::<Vec<_>>().join(" and ");
    reasons.iter().map(|(of, at)| format!("{} of the {}, since {}.", what(of.layer), sides(at), clean(&of.why))).collect()
}

/// The layers in use, and the time that counts as wire with them.
fn layers(split: &Split) -> String {
    let (at, lost) = match split.stamps.iter().any(|of| of.place == Some(StampPlace::Ip)) {
        true => ("driver and IP", "time and the way through the stack up to IP count as wire"),
        false => ("driver and stack", "time counts as wire"),
    };
    match (split.layer(Side::Client), split.layer(Side::Server)) {
        (Layer::Hardware, Layer::Hardware) => "stamps: hardware, of the NICs".into(),
        (Layer::Software, Layer::Software) => format!("stamps: software, the kernel's at {at}, so the NICs' own {lost}"),
        (Layer::Hardware, Layer::Software) => {
            format!("stamps: hardware of the client's NIC; the server's are the kernel's at {at}, so its NIC's own {lost}")
        }
        (Layer::Software, Layer::Hardware) => {
            format!("stamps: hardware of the server's NIC; the client's are the kernel's at {at}, so its NIC's own {lost}")
        }
        (Layer::Hardware, _) => "stamps: hardware, of the client's NIC".into(),
        (Layer::Software, _) => format!("stamps: software, the kernel's at {at}, so the NIC's own {lost}"),
        (Layer::None, _) => "no stamps".into(),
    }
}

fn table(all: &[(String, &Row, &Split)]) -> Table {
    let lines = all.iter().flat_map(|(row, _, split)| {
        split.parts.iter().map(move |part| {
            let name = if part.part.is_sum() { format!("= {}", part.part.name()) } else { part.part.name().into() };
            let ns = &part.ns;
            let share = (split.typical.rtt_ns > 0.0).then(|| part.typical_ns / split.typical.rtt_ns);
            let figures = [ns.p50, ns.p90, ns.p99].map(Cell::ns);
            [Cell::from(row), name.into()]
                .into_iter()
                .chain(figures)
                .chain([Cell::Count(ns.count), Cell::Ns(part.typical_ns), share.into_cell(Cell::Percent)])
                .collect::<Vec<_>>()
        })
    });
    let columns = [Column::words("path"), Column::words("part")].into_iter().chain(["p50", "p90", "p99"].map(Column::us));
    let columns = columns.chain([Column::figures("n"), Column::us("mean"), Column::figures("%")]).collect();
    Table::new(columns, 2, lines)
}

/// The stamps of each side and way, and the outcomes of the transactions.
pub(crate) fn stamps(name: &str, split: &Split) -> Vec<String> {
    let of = |of: &StampsOf| {
        let way = of.way.name();
        let why = if of.why.is_empty() { String::new() } else { format!(": {}", clean(&of.why)) };
        let StampsOf { side, layer, wanted, hardware, software, .. } = of;
        let place = of.place.map_or("", |place| match place {
            StampPlace::Nic => ", NIC",
            StampPlace::Driver => ", driver",
            StampPlace::Stack => ", stack",
            StampPlace::Ip => ", IP (TCP on a link of this host)",
        });
        format!(
            "{}: {side}, {way}: {}{place} (of {wanted} wanted {hardware} hardware, {software} software){why}",
            name,
            layer.name()
        )
    };
    let counts = &split.counts;
    let sum = format!(
        "{name}: {}; stamps: {} late, {} twice, {} unknown; {} blocks, {} rejected because clocks disagreed",
        counted(split),
        counts.late,
        counts.twice,
        counts.unknown,
        split.blocks,
        split.blocks_rejected
    );
    let clocks = split.nic_clocks.iter().map(|clock| format!("{}: {}", name, nic_clock(clock)));
    split.stamps.iter().map(of).chain([sum]).chain(clocks).collect()
}

/// `the client's NIC: clock /dev/ptp0 by PTP_SYS_OFFSET_EXTENDED, its stamps placed to within 310 ns; runs 12.1 ppm fast`
fn nic_clock(clock: &NicClock) -> String {
    let NicClock { side, index, method, width_ns, rate_ppb, changed } = clock;
    let rate = rate_ppb.map_or(String::new(), |ppb| {
        let (ppm, word) = (ppb.abs() / 1e3, if ppb < 0.0 { "slow" } else { "fast" });
        format!("; it runs {ppm:.1} ppm {word}")
    });
    let changed = if *changed > 0 { format!("; {}", left_its_rate(*changed)) } else { String::new() };
    format!(
        "the {side}'s NIC: clock /dev/ptp{index}, read by {}, its stamps placed to within {}{rate}{changed}",
        clean(method),
        Nanos(width_ns.div_ceil(2))
    )
}

fn left_its_rate(times: u64) -> String {
    let times = if times == 1 { "once".into() } else { format!("{times} times") };
    format!("it was set, or left its rate, {times}: blocks over which it did are rejected")
}

fn cannot_be(name: &str, one: &Impossible) -> String {
    let Impossible { sequence, rtt_ns, part, ns } = one;
    format!("{name}: transaction {sequence}, RTT {}: {} {ns} ns", Nanos(*rtt_ns), part.name())
}

/// Fields for scripts; the names do not depend on the split.
pub(crate) fn line(split: Option<&Split>) -> Fields {
    let rtt = split.map(|split| &split.rtt_ns);
    let part = |name| split.and_then(|split| split.part(name)).map_or([None; 2], |part| [part.ns.p50, part.ns.p99]);
    let layers = split.map(|split| [Side::Client, Side::Server].map(|side| split.layer(side).name()));
    named(rtt.map_or([None; 2], |rtt| [rtt.p50, rtt.p99]), part, layers, split.map(|split| &split.counts))
}

/// p50 and p99 of RTT and parts, the layer of each side's stamps, and the counts, each with its name.
pub(crate) fn named(
    rtt: [Option<u64>; 2],
    part: impl Fn(PartName) -> [Option<u64>; 2],
    layers: Option<[&str; 2]>,
    counts: Option<&StampCounts>,
) -> Fields {
    let mut line: Fields = Vec::new();
    let parts = PartName::ALL.into_iter().map(|name| (name.name().replace('-', "_"), part(name)));
    for (name, [p50, p99]) in [("rtt".to_owned(), rtt)].into_iter().chain(parts) {
        line.push((format!("split_{name}_p50_ns"), p50.into()));
        line.push((format!("split_{name}_p99_ns"), p99.into()));
    }
    for (at, name) in ["client", "server"].into_iter().enumerate() {
        line.push((format!("split_stamps_{name}"), layers.map(|layers| layers[at]).into()));
    }
    for (name, count) in [
        ("transactions", counts.map(|counts| counts.transactions)),
        ("complete", counts.map(|counts| counts.complete)),
        ("missing", counts.map(|counts| counts.missing)),
        ("impossible", counts.map(|counts| counts.impossible)),
    ] {
        line.push((format!("split_{name}"), count.into()));
    }
    line
}

#[cfg(test)]
mod tests {
    use hairpin_record::quantiles::Quantiles;
    use hairpin_record::split::{SplitPart, Typical, Way};

    use super::*;

    #[test]
    fn rejected_blocks_are_no_short_row() {
        let none = Split::default();
        assert!(nothing(&none).contains("longer --duration"), "{}", nothing(&none));
        let rejected = nothing(&Split { blocks_rejected: 12, ..none });
        assert!(rejected.contains("12 were rejected") && !rejected.contains("--duration"), "{rejected}");
    }

    #[test]
    fn a_line_names_the_layers_of_both_sides() {
        let line = |client, server| {
            let stamps = |(side, layer)| StampsOf {
                side,
                way: Way::Out,
                layer,
                place: None,
                wanted: 0,
                hardware: 0,
                software: 0,
                why: String::new(),
            };
            let part = |part| SplitPart { part, ns: Quantiles::default(), histogram: String::new(), typical_ns: 10.0 };
            let split = Split {
                parts: [PartName::Client, PartName::Server, PartName::Wire].map(part).into(),
                stamps: [(Side::Client, client), (Side::Server, server)].map(stamps).into(),
                typical: Typical { rtt_ns: 30.0, ..Typical::default() },
                ..Split::default()
            };
            in_a_line(&split).expect("all parts are known")
        };
        let (nic, kernel) = (Layer::Hardware, Layer::Software);
        for (client, server, by) in [
            (nic, nic, "by stamps of the NICs: "),
            (nic, kernel, "by stamps of the client's NIC and the server's kernel: "),
            (kernel, nic, "by stamps of the client's kernel and the server's NIC: "),
            (kernel, kernel, "by the kernel's stamps: "),
        ] {
            assert!(line(client, server).starts_with(by), "{}", line(client, server));
        }
    }
}
