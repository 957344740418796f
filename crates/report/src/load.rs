//! The text of `hairpin load`: a curve per path, with its knee in a sentence.

use hairpin_record::load::{Knee, Load, LoadCurve, LoadRow};

use crate::Options;
use crate::csv::{float, float_or_empty, line, or_empty};
use crate::figure::{decimals, payloads, percent, rate, us_or_blank};
use crate::grid::{Column, Grid};
use crate::label::{Name, labelled, short};
use crate::notes::{Kind, Section, ended, lines, merged, refused, strayed, warnings};
use crate::prose::{WIDTH, clean, wrap};
use crate::table::link_words;
use crate::{markdown, style};

/// The record as a table of 80 columns per path.
pub fn load(load: &Load, options: &Options) -> String {
    let mut text = wrap("", &context(load), WIDTH);
    text.push(String::new());
    text.extend(wrap("", &heading(load), WIDTH));
    if load.results.is_empty() {
        text.extend([String::new(), "(no results)".into()]);
    }
    for curve in &load.results {
        text.push(String::new());
        text.push(style::paint(&title(curve), style::HEADING, options.colour));
        text.extend(grid(load, curve).lines(options.columns(), options.colour));
        text.push(String::new());
        text.extend(wrap("", &knee(curve), WIDTH));
    }
    text.extend(lines(&sections(load), options.colour));
    text.join("\n") + "\n"
}

/// The same for a page: GitHub-flavoured Markdown with the unit in every heading.
pub fn load_markdown(load: &Load) -> String {
    let mut text = vec![markdown::escape(&context(load)), String::new(), markdown::escape(&heading(load))];
    for curve in &load.results {
        text.extend([String::new(), markdown::escape(&title(curve)), String::new()]);
        let Grid { columns, rows, .. } = grid(load, curve);
        let heads: Vec<String> = columns.iter().map(Column::full_title).collect();
        text.extend(markdown::lines(&heads, 0, rows.into_iter()));
        text.extend([String::new(), markdown::escape(&knee(curve))]);
    }
    text.extend(sections(load).iter().flat_map(markdown::list));
    text.join("\n") + "\n"
}

/// One line per path and rate, units in the header; what is not known is empty.
pub fn load_csv(load: &Load) -> String {
    let names = [
        "started",
        "link",
        "path",
        "request_bytes",
        "reply_bytes",
        "flows",
        "outstanding",
        "schedule",
        "offered_per_s",
        "achieved_per_s",
        "due",
        "sent",
        "unsent",
        "found_no_room",
        "transactions",
        "lost",
        "rtt_from_due_p50_ns",
        "rtt_from_due_p99_ns",
        "rtt_from_due_p99.9_ns",
        "rtt_from_due_max_ns",
        "rtt_from_sent_p50_ns",
        "rtt_from_sent_p99_ns",
        "rtt_from_sent_p99.9_ns",
        "rtt_from_sent_max_ns",
        "lateness_p50_ns",
        "lateness_p99_ns",
        "lateness_p99.9_ns",
        "lateness_max_ns",
        "stalls",
        "stalled_ns",
        "bulk_bits_per_s",
        "warnings",
        "late_replies",
        "unanswered",
        "left_out",
        "wall_ns",
        "repeat",
    ];
    let mut text = vec![line(&names.map(String::from))];
    for curve in &load.results {
        text.extend(curve.rates.iter().map(|row| line(&fields(load, curve, row))));
    }
    text.join("\n") + "\n"
}

fn fields(load: &Load, curve: &LoadCurve, row: &LoadRow) -> [String; 37] {
    let codes: Vec<&str> = row.warnings.iter().map(|note| note.code.as_str()).collect();
    let [due, sent, late] = [&row.rtt_from_due_ns, &row.rtt_from_sent_ns, &row.lateness_ns];
    [
        load.head.started.clone(),
        load.place.link.kind.clone(),
        curve.path.clone(),
        curve.request_bytes.to_string(),
        curve.reply_bytes.to_string(),
        curve.flows.to_string(),
        curve.outstanding.to_string(),
        load.schedule.kind.clone(),
        float(row.offered_per_s),
        float(row.achieved_per_s),
        row.due.to_string(),
        row.sent.to_string(),
        row.unsent.to_string(),
        row.found_no_room.to_string(),
        row.transactions.to_string(),
        row.lost.to_string(),
        or_empty(due.p50),
        or_empty(due.p99),
        or_empty(due.p999),
        or_empty(due.max),
        or_empty(sent.p50),
        or_empty(sent.p99),
        or_empty(sent.p999),
        or_empty(sent.max),
        or_empty(late.p50),
        or_empty(late.p99),
        or_empty(late.p999),
        or_empty(late.max),
        or_empty(row.stalls.map(|stalls| stalls.count)),
        or_empty(row.stalls.map(|stalls| stalls.total_ns)),
        float_or_empty(row.bulk.map(|bulk| bulk.bits_per_s)),
        codes.join(" "),
        row.late.to_string(),
        row.unanswered.to_string(),
        row.left_out.to_string(),
        row.wall_ns.to_string(),
        row.repeat.to_string(),
    ]
}

fn context(load: &Load) -> String {
    let mut parts = vec![load.head.tool.clone(), load.head.started.clone()];
    parts.extend(link_words(&load.place.link));
    let server = load.place.hosts.server.as_ref().map(|host| format!(" -> {}", host.hostname));
    parts.push(format!("{}{}", load.place.hosts.client.hostname, server.unwrap_or_default()));
    parts.join(", ")
}

fn heading(load: &Load) -> String {
    let schedule = match load.schedule.kind.as_str() {
        "poisson" => format!("with exponential intervals (seed {})", load.schedule.seed.unwrap_or_default()),
        "replay" => format!("as recorded in {}", clean(load.schedule.file.as_deref().unwrap_or("a file"))),
        _ => "at a fixed interval".into(),
    };
    let bulk = match load.bulk_streams {
        0 => String::new(),
        1 => " One TCP stream filled the link meanwhile.".into(),
        n => format!(" {n} TCP streams filled the link meanwhile."),
    };
    let stalls = if load.results.iter().any(watched) {
        "; stalls: share of time in which the client's core stood still for more than 2 us at a time, in %"
    } else {
        ""
    };
    let again = if load.results.iter().flat_map(|curve| &curve.rates).any(|row| row.repeat > 0) {
        " A rate that failed was measured again and has a line for each time."
    } else {
        ""
    };
    format!(
        "RTT in us, from the time each request was due and from the time it was sent; requests are due {schedule}. late: sent - due, p99 in us; lost: of \
         those sent, in %{stalls}.{bulk}{again}"
    )
}

fn title(curve: &LoadCurve) -> String {
    let room = u64::from(curve.outstanding) * u64::from(curve.flows);
    let flows = if curve.flows == 1 { String::new() } else { format!("{} flows, ", curve.flows) };
    format!(
        "{}  {} B, {flows}room for {room} in flight",
        labelled(short(&curve.path), curve.origin),
        payloads(curve.request_bytes, curve.reply_bytes)
    )
}

fn watched(curve: &LoadCurve) -> bool {
    curve.rates.iter().any(|row| row.stalls.is_some())
}

fn grid(load: &Load, curve: &LoadCurve) -> Grid {
    let mut columns = vec![Column::figures("offered"), Column::figures("achieved")];
    for group in ["RTT from due", "RTT from sent"] {
        columns.extend(["p50", "p99", "p99.9"].map(|title| Column::figures(title).under(group)));
    }
    columns.extend([Column::figures("late"), Column::figures("lost")]);
    let (stalls, bulk) = (watched(curve), load.bulk_streams > 0);
    columns.extend(stalls.then(|| Column::figures("stalls")));
    columns.extend(bulk.then(|| Column::figures("Gbit/s").under("bulk")));
    let cells = |row: &LoadRow| {
        let mut cells = vec![rate(row.offered_per_s), rate(row.achieved_per_s)];
        for of in [&row.rtt_from_due_ns, &row.rtt_from_sent_ns] {
            cells.extend([of.p50, of.p99, of.p999].map(|ns| us_or_blank(ns.map(|ns| ns as f64))));
        }
        cells.push(us_or_blank(row.lateness_ns.p99.map(|ns| ns as f64)));
        cells.push(percent(if row.sent == 0 { 0.0 } else { row.lost as f64 / row.sent as f64 }));
        if stalls {
            cells.push(row.stalls.map_or(String::new(), |stalls| percent(stalls.share)));
        }
        if bulk {
            cells.push(row.bulk.map_or(String::new(), |bulk| decimals(bulk.bits_per_s / 1e9)));
        }
        cells
    };
    Grid { columns, labels: 1, rows: curve.rates.iter().map(cells).collect() }
}

/// Where the curve bends, in a sentence.
pub(crate) fn knee(curve: &LoadCurve) -> String {
    let saturation = curve
        .saturation_per_s
        .map(|per_s| format!(" A closed loop with as many requests in flight does {}/s.", rate(per_s)))
        .unwrap_or_default();
    let Some(knee) = &curve.knee else {
        return format!("One rate has no knee: offer several with --rate LIST.{saturation}");
    };
    let quantile = format!("p{}", (knee.quantile * 1e3).round() / 10.0);
    let why = match knee.why.as_deref() {
        Some("achieved") => format!("less than {} % of what was due was answered", knee.achieved_share * 100.0),
        _ => format!("the {quantile} from due was more than {} times its least at a lower rate", knee.factor),
    };
    if knee.unclear.is_some() {
        return format!("{}{saturation}", unclear(curve, knee, &quantile, &why));
    }
    let found = match (knee.keeps_up_per_s, knee.beyond_per_s) {
        (Some(keeps_up), Some(beyond)) => {
            format!("The knee: it keeps up with {}/s, and at {}/s {why}.", rate(keeps_up), rate(beyond))
        }
        (Some(keeps_up), None) => format!("No knee: it keeps up with {}/s, the highest rate offered.", rate(keeps_up)),
        (None, Some(beyond)) => format!("It does not keep up with {}/s, the lowest rate offered: {why}.", rate(beyond)),
        (None, None) => "No rate was offered.".into(),
    };
    format!("{found}{saturation}")
}

/// The rate of a row, told from the same rate measured before.
fn per_s(row: &LoadRow) -> String {
    let again = if row.repeat > 0 { " again" } else { "" };
    format!("{}/s{again}", rate(row.offered_per_s))
}

/// Why there is no figure, and between which rates the knee lies.
fn unclear(curve: &LoadCurve, knee: &Knee, quantile: &str, why: &str) -> String {
    let between = |row: &&LoadRow| {
        knee.keeps_up_per_s.is_none_or(|per_s| row.offered_per_s > per_s)
            && knee.beyond_per_s.is_none_or(|per_s| row.offered_per_s < per_s)
    };
    let share = curve.rates.iter().filter(between).filter_map(|row| row.stalls).map(|stalls| stalls.share).fold(0.0, f64::max);
    let up = knee.keeps_up_per_s.map_or(String::new(), |per_s| format!(" It keeps up with {}/s.", rate(per_s)));
    let beyond = knee.beyond_per_s.map_or(String::new(), |per_s| format!(" At {}/s {why}.", rate(per_s)));
    let place = match (knee.keeps_up_per_s.is_some(), knee.beyond_per_s.is_some()) {
        (true, true) => "between the two",
        (true, false) => "beyond that",
        _ => "below that",
    };
    format!(
        "The knee is unclear: stalls.{up}{beyond} At rates {place} the {quantile} from due was more than {} times its least too, but the client's core stood \
         still for up to {} % of the time, which accounts for it: measure on a quiet host.",
        knee.factor,
        percent(share)
    )
}

fn sections(load: &Load) -> Vec<Section> {
    let pairs: Vec<(&LoadCurve, &LoadRow)> =
        load.results.iter().flat_map(|curve| curve.rates.iter().map(move |row| (curve, row))).collect();
    let names: Vec<Name> = pairs.iter().map(|(curve, row)| Name { base: short(&curve.path), size: per_s(row) }).collect();
    let rows: Vec<&LoadRow> = pairs.iter().map(|(_, row)| *row).collect();
    let curves: Vec<&LoadCurve> = load.results.iter().collect();
    let of_curve = |curve: &&LoadCurve| Name {
        base: short(&curve.path),
        size: format!("{} B", payloads(curve.request_bytes, curve.reply_bytes)),
    };
    let curve_names: Vec<Name> = curves.iter().map(of_curve).collect();
    let sections = [
        Section { heading: "Not sent or not answered in time", kind: Kind::Plain, items: merged(&curve_names, &curves, waited) },
        Section {
            heading: "Lost and stray replies",
            kind: Kind::Plain,
            items: merged(&names, &rows, |row| {
                strayed([row.lost, row.late, row.duplicates, row.reordered, row.corrupt], row.transactions)
            }),
        },
        Section {
            heading: "Asked for, not granted",
            kind: Kind::Plain,
            items: merged(&curve_names, &curves, |curve| refused(&curve.granted)),
        },
        Section { heading: "Warnings", kind: Kind::Warning, items: warnings(&names, &rows, |row: &LoadRow| &row.warnings) },
    ];
    let filled = sections.into_iter().filter(|section| !section.items.is_empty());
    filled.chain(ended(load.head.error.as_deref(), load.head.interrupted)).collect()
}

/// Requests that could not leave on time, where they are this share of those due; fewer are in the record.
const WORTH: f64 = 0.001;

/// At which rates requests could not leave on time, were never answered, or were left out.
fn waited(curve: &LoadCurve) -> Vec<String> {
    let at = |of: fn(&LoadRow) -> u64| -> Option<String> {
        let share = |row: &LoadRow| if row.due == 0 { 0.0 } else { of(row) as f64 / row.due as f64 };
        let rows = curve.rates.iter().filter(|row| share(row) > WORTH);
        let parts: Vec<String> = rows.map(|row| format!("{} % at {}", percent(share(row)), per_s(row))).collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    };
    let room = at(|row| row.found_no_room).map(|parts| format!("due, found no room and left as soon as there was: {parts}"));
    let never = at(|row| row.unsent + row.unanswered).map(|parts| {
        format!("never sent or never answered, so in the RTT from due with the time until the end, which is less than they would have taken: {parts}")
    });
    let left_out = at(|row| row.left_out)
        .map(|parts| format!("more would have been due while the instrument folded samples, and are in no figure: {parts}"));
    room.into_iter().chain(never).chain(left_out).collect()
}
