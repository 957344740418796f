//! The curve of `hairpin load`: with which rate a path keeps up, a picture of p99 by rate, and a table.

mod short;

use hairpin_record::load::{Knee, Load, LoadCurve, LoadRow};
use hairpin_record::split::Split;
use hairpin_units::Arrange;

use crate::cell::{Cell, IntoCell};
use crate::chart::offered::{ROWS, picture as picture_of};
use crate::chart::picture::Picture;
use crate::doc::{Column, Data, Doc, Fields, List, Place, Show, Shown, Table, fields};
use crate::figure::{payloads, per_second, percent, rate, time};
use crate::grid;
use crate::label::{Name, labelled, short};
use crate::link::over;
use crate::notes::{APART, ended, merged, not_granted, strayed, warned};
use crate::options::Options;
use crate::prose::clean;
use crate::split;
use crate::style::Tone;

impl Show for Load {
    fn doc(&self, options: &Options) -> Doc {
        let mut doc = Doc::default();
        doc.part(Shown::Brief, short::view(self, options));
        let mut full = Doc::default();
        if self.results.is_empty() {
            full.text("(no results)");
        }
        for (at, curve) in self.results.iter().enumerate() {
            if at > 0 {
                full.gap();
            }
            decided(&mut full, self, curve);
            if let Some(picture) = picture(curve, ROWS) {
                full.chart(picture);
            }
            full.gap();
            full.heading(title(curve));
            full.table(table(self, curve, options));
        }
        full.gap();
        self.results.iter().for_each(|curve| full.text(knee(self, curve)));
        splits(&mut full, self);
        full.text(heading(self));
        full.blocks.extend(Doc::of(&self.head, over(&self.place)).blocks);
        full.lists(lists(self));
        full.list(ended(&self.head));
        doc.part(Shown::Full, full);
        let rows = self.results.iter().flat_map(|curve| curve.rates.iter().map(|row| line(self, curve, row)));
        doc.data = Some(Data::new(line(self, &LoadCurve::default(), &LoadRow::default()), rows));
        doc
    }
}

/// The answer of a curve, after its path if there are several.
fn decided(doc: &mut Doc, load: &Load, curve: &LoadCurve) {
    let (said, word, tone) = verdict(load, curve);
    let path = if load.results.len() > 1 { format!("{}: ", short(&curve.path)) } else { String::new() };
    doc.verdict(path, said, word, tone);
}

/// If the client's core stood still for this share of the time in half of the rows, the result is not a measurement.
const STOLEN: f64 = 0.1;

/// Whether the path keeps up, to which rate, and the latency there and beyond; the decisive words.
fn verdict(load: &Load, curve: &LoadCurve) -> (String, &'static str, Tone) {
    let mut shares: Vec<f64> = curve.rates.iter().filter_map(|row| row.stalls).map(|stalls| stalls.share).collect();
    shares.arrange_by(f64::total_cmp);
    if let (Some(middle), Some(most)) =
        (shares.get(shares.len().saturating_sub(1) / 2).filter(|share| **share >= STOLEN), shares.last())
    {
        let said = format!(
            "not a measurement: in half of the rows and more the client's core stood still for {} to {} % of the time",
            percent(*middle),
            percent(*most)
        );
        return (said, "not a measurement", Tone::Error);
    }
    let Some(limit) = &curve.knee else { return (knee(load, curve), "no knee", Tone::Plain) };
    // For a repeated rate, the last measurement.
    let p99 = |per_s: f64| {
        let row = curve.rates.iter().rev().find(|row| row.offered_per_s == per_s);
        row.and_then(|row| row.rtt_from_due_ns.p99).map(|ns| time(ns as f64))
    };
    let beyond = limit.beyond_per_s.map(|per_s| match p99(per_s) {
        Some(p99) => format!("at {} {p99}", per_second(per_s)),
        None => format!("not with {}", per_second(per_s)),
    });
    let hidden = if limit.unclear.is_some() { "; where it stops is unclear: stalls of the client's core hide it" } else { "" };
    if let (Some(_), None, beyond) = (&limit.unclear, limit.keeps_up_per_s, &beyond) {
        let beyond = beyond.as_ref().map_or(String::new(), |beyond| format!(" ({beyond})"));
        return (
            format!("unclear with which rate it keeps up: stalls of the client's core hide it{beyond}"),
            "unclear",
            Tone::Warning,
        );
    }
    match (limit.keeps_up_per_s, beyond) {
        (Some(per_s), beyond) => {
            let due = p99(per_s).map(|p99| format!("p99 from due {p99}"));
            let highest = if is_cut(load, curve) { "the rates beyond were not measured" } else { "the highest rate offered" };
            let more = beyond.or_else(|| limit.unclear.is_none().then(|| highest.to_owned()));
            let both = due.into_iter().chain(more).collect::<Vec<_>>().join("; ");
            (format!("keeps up with {} ({both}){hidden}", per_second(per_s)), "keeps up", Tone::Heading)
        }
        (None, Some(beyond)) => {
            (format!("does not keep up with the lowest rate offered ({beyond}){hidden}"), "does not keep up", Tone::Error)
        }
        (None, None) => (knee(load, curve), "no rate", Tone::Plain),
    }
}

/// p99 by offered rate, from due and from sent, `rows` lines high; `None` for fewer than two rates.
fn picture(curve: &LoadCurve, rows: usize) -> Option<Picture> {
    let p99 = |row: &LoadRow| [row.rtt_from_due_ns.p99, row.rtt_from_sent_ns.p99];
    picture_of(curve.rates.iter().map(|row| (row.offered_per_s, p99(row), is_apart(row))), rows)
}

/// True if the cores were in another state than at most rates of its curve.
pub(crate) fn is_apart(row: &LoadRow) -> bool {
    row.warnings.iter().any(|note| note.code == APART)
}

/// ` *` after a rate that is not comparable with the others.
fn star(row: &LoadRow) -> &'static str {
    if is_apart(row) { " *" } else { "" }
}

/// One line per path and rate.
fn line(load: &Load, curve: &LoadCurve, row: &LoadRow) -> Fields {
    let codes: Vec<&str> = row.warnings.iter().map(|note| note.code.as_str()).collect();
    let [due, sent, late] = [&row.rtt_from_due_ns, &row.rtt_from_sent_ns, &row.lateness_ns];
    let mut line = fields([
        ("started", (&load.head.started).into()),
        ("link", (&load.place.link.kind).into()),
        ("path", (&curve.path).into()),
        ("request_bytes", curve.request_bytes.into()),
        ("reply_bytes", curve.reply_bytes.into()),
        ("flows", curve.flows.into()),
        ("outstanding", curve.outstanding.into()),
        ("schedule", (&load.schedule.kind).into()),
        ("offered_per_s", row.offered_per_s.into()),
        ("achieved_per_s", row.achieved_per_s.into()),
        ("due", row.due.into()),
        ("sent", row.sent.into()),
        ("unsent", row.unsent.into()),
        ("found_no_room", row.found_no_room.into()),
        ("transactions", row.transactions.into()),
        ("lost", row.lost.into()),
        ("rtt_from_due_p50_ns", due.p50.into()),
        ("rtt_from_due_p99_ns", due.p99.into()),
        ("rtt_from_due_p99.9_ns", due.p999.into()),
        ("rtt_from_due_max_ns", due.max.into()),
        ("rtt_from_sent_p50_ns", sent.p50.into()),
        ("rtt_from_sent_p99_ns", sent.p99.into()),
        ("rtt_from_sent_p99.9_ns", sent.p999.into()),
        ("rtt_from_sent_max_ns", sent.max.into()),
        ("lateness_p50_ns", late.p50.into()),
        ("lateness_p99_ns", late.p99.into()),
        ("lateness_p99.9_ns", late.p999.into()),
        ("lateness_max_ns", late.max.into()),
        ("stalls", row.stalls.map(|stalls| stalls.count).into()),
        ("stalled_ns", row.stalls.map(|stalls| stalls.total_ns).into()),
        ("bulk_bits_per_s", row.bulk.map(|bulk| bulk.bits_per_s).into()),
        ("warnings", codes.join(" ").into()),
        ("late_replies", row.late.into()),
        ("unanswered", row.unanswered.into()),
        ("left_out", row.left_out.into()),
        ("wall_ns", row.wall_ns.into()),
        ("repeat", row.repeat.into()),
    ]);
    line.extend(split::line(row.split.as_deref()));
    line
}

/// The split of each rate, and the stamps of all.
fn splits(doc: &mut Doc, load: &Load) {
    let rows = || load.results.iter().flat_map(|curve| curve.rates.iter().map(move |row| (curve, row)));
    let all: Vec<(String, &Split)> = rows().filter_map(|(curve, row)| Some((at(curve, row), row.split.as_deref()?))).collect();
    if all.is_empty() {
        return;
    }
    doc.gap();
    doc.text("By stamps, a second at each rate with one request in flight, in typical round trips (RTT from p40 to p60):");
    for (name, split) in &all {
        doc.lead(format!("{name}: "), split::sentence(split, None));
    }
    let mut stamps: Vec<String> = all.iter().map(|(name, split)| format!("{name}: {}", split::counted(split))).collect();
    for reason in all.iter().flat_map(|(_, split)| split::reasons(split)) {
        if !stamps.contains(&reason) {
            stamps.push(reason);
        }
    }
    doc.list(List::plain("Stamps where packets leave and enter the hosts", stamps));
}

/// `udp:spin at 20.0 k/s`
fn at(curve: &LoadCurve, row: &LoadRow) -> String {
    format!("{} at {}", short(&curve.path), per_second(row.offered_per_s))
}

/// The split at the highest rate with which a curve keeps up, else at the lowest, in a line.
fn split_of(curve: &LoadCurve) -> Option<String> {
    let kept = curve.knee.as_ref().and_then(|knee| knee.keeps_up_per_s);
    let all = || curve.rates.iter().filter_map(|row| Some((row, row.split.as_deref()?)));
    let (row, split) = all().rfind(|(row, _)| Some(row.offered_per_s) == kept).or_else(|| all().next())?;
    Some(format!("{}, one in flight, {}", at(curve, row), split::in_a_line(split)?))
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
        "; stalls: share of time in which the client's core stood still for more than 2 us at a time"
    } else {
        ""
    };
    let again = if load.results.iter().flat_map(|curve| &curve.rates).any(|row| row.repeat > 0) {
        " A rate that failed was measured again and has a line for each time."
    } else {
        ""
    };
    format!(
        "RTT from the time each request was due and from the time it was sent; requests are due {schedule}. late: sent - due, p99; lost: of \
         those sent{stalls}.{bulk}{again}"
    )
}

fn title(curve: &LoadCurve) -> String {
    let room = u64::from(curve.outstanding) * u64::from(curve.flows);
    let flows = if curve.flows == 1 { String::new() } else { format!("{} flows, ", curve.flows) };
    format!(
        "{}, {} B, {flows}room for {room} in flight",
        labelled(short(&curve.path), curve.origin),
        payloads(curve.request_bytes, curve.reply_bytes)
    )
}

fn watched(curve: &LoadCurve) -> bool {
    curve.rates.iter().any(|row| row.stalls.is_some())
}

const FROM_DUE: &str = "RTT from due";
const FROM_SENT: &str = "RTT from sent";

/// Every figure. A terminal that is too narrow for all leaves those that the others nearly tell to pages and scripts.
fn table(load: &Load, curve: &LoadCurve, options: &Options) -> Table {
    let all = || whole(load, curve);
    let mut table = all();
    for (group, title) in
        [(FROM_SENT, "p50"), ("", "stalls"), (FROM_SENT, "p99.9"), (FROM_DUE, "p50"), ("", "late"), (FROM_SENT, "p99")]
    {
        if grid::fits(&table, options.columns()) {
            break;
        }
        let of = table.columns.iter_mut().find(|column| column.group == group && column.title == title);
        of.into_iter().for_each(|column| column.place = Place::Page);
    }
    table
}

fn whole(load: &Load, curve: &LoadCurve) -> Table {
    let mut columns = vec![Column::figures("offered"), Column::figures("achieved")];
    for group in [FROM_DUE, FROM_SENT] {
        columns.extend(["p50", "p99", "p99.9"].map(|title| Column::figures(title).under(group)));
    }
    columns.extend([Column::figures("late"), Column::figures("lost")]);
    let (stalls, bulk) = (watched(curve), load.bulk_streams > 0);
    columns.extend(stalls.then(|| Column::figures("stalls")));
    columns.extend(bulk.then(|| Column::figures("Gbit/s").under("bulk")));
    let cells = |row: &LoadRow| {
        let offered = per_second(row.offered_per_s) + star(row);
        let mut cells = vec![offered.into(), per_second(row.achieved_per_s).into()];
        for of in [&row.rtt_from_due_ns, &row.rtt_from_sent_ns] {
            cells.extend([of.p50, of.p99, of.p999].map(timed));
        }
        cells.push(timed(row.lateness_ns.p99));
        cells.push(Cell::Share(lost_share(row)));
        cells.extend(stalls.then(|| row.stalls.into_cell(|stalls| Cell::Share(stalls.share))));
        cells.extend(bulk.then(|| row.bulk.into_cell(|bulk| Cell::Number(bulk.bits_per_s / 1e9))));
        cells
    };
    Table::new(columns, 1, curve.rates.iter().map(cells))
}

/// A time with its unit.
fn timed(ns: Option<u64>) -> Cell {
    ns.into_cell(|ns| time(ns as f64).into())
}

fn lost_share(row: &LoadRow) -> f64 {
    if row.sent == 0 { 0.0 } else { row.lost as f64 / row.sent as f64 }
}

/// True if the run ended early, and so maybe within this curve.
fn is_cut(load: &Load, curve: &LoadCurve) -> bool {
    let ended = load.head.interrupted || load.head.error.is_some();
    ended && load.results.last().is_some_and(|last| std::ptr::eq(last, curve))
}

/// The knee of the curve in a sentence.
pub(crate) fn knee(load: &Load, curve: &LoadCurve) -> String {
    let saturation = curve
        .saturation_per_s
        .map(|per_s| format!(" A closed loop with as many requests in flight does {}/s.", rate(per_s)))
        .unwrap_or_default();
    let Some(knee) = &curve.knee else {
        let first = curve.rates.first().map(|row| row.offered_per_s);
        let why = match (is_cut(load, curve), curve.rates.iter().any(|row| Some(row.offered_per_s) != first)) {
            (_, true) => "No knee: no rate had requests enough for a median; a longer --duration has more.",
            (true, false) => "No knee: the run ended before two rates were measured.",
            (false, false) => "One rate has no knee: offer several with --rate LIST.",
        };
        return format!("{why}{saturation}");
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
        (Some(keeps_up), None) if is_cut(load, curve) => {
            format!("No knee: it keeps up with {}/s, and the rates beyond were not measured.", rate(keeps_up))
        }
        (Some(keeps_up), None) => format!("No knee: it keeps up with {}/s, the highest rate offered.", rate(keeps_up)),
        (None, Some(beyond)) => format!("It does not keep up with {}/s, the lowest rate offered: {why}.", rate(beyond)),
        (None, None) => "No rate was offered.".into(),
    };
    format!("{found}{saturation}")
}

/// The rate of a row, marked if it repeats an earlier measurement of the same rate.
fn per_s(row: &LoadRow) -> String {
    let again = if row.repeat > 0 { " again" } else { "" };
    format!("{}/s{again}", rate(row.offered_per_s))
}

/// Why the knee has no figure, and the rates between which it lies.
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

fn lists(load: &Load) -> Vec<List> {
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
    let strays = |row: &LoadRow| strayed([row.lost, row.late, row.duplicates, row.reordered, row.corrupt], row.transactions);
    vec![
        List::plain("Not sent or not answered in time", merged(&curve_names, &curves, waited)),
        List::plain("Lost and stray replies", merged(&names, &rows, strays)),
        not_granted(&curve_names, &curves, |curve| &curve.granted),
        warned(&names, &rows, |row| &row.warnings),
    ]
}

/// Delayed requests are reported from this share of the due requests on; smaller shares appear only in the record.
const WORTH: f64 = 0.001;

/// The rates at which requests left late, were never answered, or were left out.
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
