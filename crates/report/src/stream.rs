//! The text of `hairpin stream`: frames per second without loss and flat out, as a table, for a page and for scripts.

use hairpin_record::stream::{Direction, Step, Stream, StreamRow, Trial};

use crate::Options;
use crate::bounce::words;
use crate::csv::{float, float_or_empty, line, or_empty};
use crate::figure::{decimals, percent, rate};
use crate::grid::{Column, Grid};
use crate::label::{Name, short};
use crate::notes::{Kind, Section, ended, lines, merged, warnings};
use crate::prose::{WIDTH, wrap};
use crate::table::link_words;
use crate::{markdown, rings};

/// The record as a table of 80 columns.
pub fn stream(stream: &Stream, options: &Options) -> String {
    let mut text = wrap("", &context(stream), WIDTH);
    text.push(String::new());
    text.extend(heading(stream).iter().flat_map(|line| wrap("", line, WIDTH)));
    if stream.results.is_empty() {
        text.push("(no results)".into());
    } else {
        text.push(String::new());
        text.extend(grid(stream).lines(options.columns(), options.colour));
    }
    text.extend(lines(&sections(stream), options.colour));
    text.join("\n") + "\n"
}

/// The same table for a page: GitHub-flavoured Markdown with the unit in every heading.
pub fn stream_markdown(stream: &Stream) -> String {
    let mut text = vec![markdown::escape(&context(stream)), String::new()];
    text.extend(heading(stream).iter().map(|line| markdown::escape(line)));
    text.push(String::new());
    let Grid { columns, rows, .. } = grid(stream);
    let heads: Vec<String> = columns.iter().map(Column::full_title).collect();
    text.extend(markdown::lines(&heads, 2, rows.into_iter()));
    text.extend(sections(stream).iter().flat_map(markdown::list));
    text.join("\n") + "\n"
}

/// One line per row, units in the header; what is not known is empty.
pub fn stream_csv(stream: &Stream) -> String {
    let names = [
        "started",
        "link",
        "io",
        "direction",
        "frame_bytes",
        "queues",
        "lossless_offered_per_s",
        "lossless_wire_bits_per_s",
        "asked_per_s",
        "offered_per_s",
        "delivered_per_s",
        "wire_bits_per_s",
        "duration_ns",
        "offered",
        "delivered",
        "lost",
        "rx_ring_full",
        "rx_no_chunk",
        "rx_dropped",
        "rx_too_long",
        "rx_invalid",
        "tx_invalid",
        "tx_dropped",
        "lost_elsewhere",
        "duplicates",
        "reordered",
        "foreign",
        "cpu_client_per_frame_ns",
        "cpu_server_per_frame_ns",
        "warnings",
        "loses_per_s",
    ];
    let mut text = vec![line(&names.map(String::from))];
    text.extend(stream.results.iter().map(|row| line(&fields(stream, row))));
    text.join("\n") + "\n"
}

fn fields(stream: &Stream, row: &StreamRow) -> [String; 31] {
    let trial = &row.offered;
    let best = row.lossless.as_ref();
    let [full, chunk, dropped, long, invalid, refused, sent] = trial.lost_by_cause.causes().map(|(_, count)| count.to_string());
    let codes: Vec<&str> = row.warnings.iter().map(|note| note.code.as_str()).collect();
    [
        stream.head.started.clone(),
        stream.place.link.kind.clone(),
        row.io.clone(),
        row.direction.to_string(),
        or_empty(row.frame_bytes),
        row.queues.to_string(),
        float_or_empty(best.map(|trial| trial.offered_per_s)),
        float_or_empty(best.map(|trial| trial.wire_bits_per_s)),
        float_or_empty(trial.asked_per_s),
        float(trial.offered_per_s),
        float_or_empty(trial.delivered_per_s),
        float(trial.wire_bits_per_s),
        trial.duration_ns.to_string(),
        trial.offered.to_string(),
        or_empty(trial.delivered),
        trial.lost.to_string(),
        full,
        chunk,
        dropped,
        long,
        invalid,
        refused,
        sent,
        trial.lost_elsewhere.to_string(),
        trial.duplicates.to_string(),
        trial.reordered.to_string(),
        trial.foreign.to_string(),
        float_or_empty(trial.cpu.client.per_transaction_ns),
        float_or_empty(trial.cpu.server.as_ref().and_then(|cpu| cpu.per_transaction_ns)),
        codes.join(" "),
        or_empty(row.loses_per_s),
    ]
}

/// A trial in a line of talk.
pub fn stream_trial(io: &str, direction: Direction, frame_bytes: Option<u64>, step: &Step) -> String {
    let asked = step.asked_per_s.map_or("flat out".into(), |asked| format!("asked {}/s", rate(asked)));
    let size = frame_bytes.map_or(String::new(), |bytes| format!(" {bytes} B"));
    format!("{} {direction}{size}, {asked}: offered {}/s, {} lost", short(io), rate(step.offered_per_s), step.lost)
}

fn context(stream: &Stream) -> String {
    let mut parts = vec![stream.head.tool.clone(), stream.head.started.clone()];
    parts.extend(link_words(&stream.place.link));
    let server = stream.place.hosts.server.as_ref().map(|host| format!(" -> {}", host.hostname));
    parts.push(format!("{}{}", stream.place.hosts.client.hostname, server.unwrap_or_default()));
    parts.join(", ")
}

fn heading(stream: &Stream) -> Vec<String> {
    let search = stream.resolution.map(|share| {
        format!(
            "Without loss: the highest rate offered at which every frame arrived in two trials of at most three, searched for to {} % of itself.",
            (share * 1e4).round() / 100.0
        )
    });
    let columns = "frame: bytes without FCS; Mbit/s: on the wire, with 24 bytes of preamble, FCS and gap per frame; lost: share of what was \
                   offered, in %; CPU: both sides' user and kernel time per frame, in ns";
    search.into_iter().chain([columns.to_owned()]).collect()
}

fn grid(stream: &Stream) -> Grid {
    let searched = stream.resolution.is_some();
    // Another host's rate may be anything.
    let flat_out = |row: &StreamRow| row.offered.asked_per_s.is_none() && row.frame_bytes.is_some();
    let flat = if stream.results.iter().all(flat_out) { "flat out" } else { "offered" };
    let mut columns = vec![Column::words("io"), Column::words("direction"), Column::figures("frame"), Column::figures("queues")];
    if searched {
        columns.extend(["frames/s", "Mbit/s"].map(|title| Column::figures(title).under("without loss")));
    }
    columns.extend(["offered/s", "lost"].map(|title| Column::figures(title).under(flat)));
    if !searched {
        columns.push(Column::figures("Mbit/s").under(flat));
    }
    columns.push(Column::figures("CPU"));
    let cells = |row: &StreamRow| {
        let trial = &row.offered;
        let size = row.frame_bytes.map_or(String::new(), |bytes| bytes.to_string());
        let mut cells = vec![short(&row.io), row.direction.to_string(), size, row.queues.to_string()];
        if searched {
            let best = row.lossless.as_ref();
            cells.push(best.map_or("-".into(), |best| rate(best.offered_per_s)));
            cells.push(best.map_or("-".into(), |best| decimals(best.wire_bits_per_s / 1e6)));
        }
        cells.extend([rate(trial.offered_per_s), percent(trial.lost_share())]);
        if !searched {
            cells.push(decimals(trial.wire_bits_per_s / 1e6));
        }
        cells.push(cpu(row.lossless.as_ref().unwrap_or(trial)));
        cells
    };
    Grid { columns, labels: 3, rows: stream.results.iter().map(cells).collect() }
}

/// Both sides' time per frame; nothing where it is not known.
fn cpu(trial: &Trial) -> String {
    let sides = [Some(&trial.cpu.client), trial.cpu.server.as_ref()];
    let known: Vec<f64> = sides.into_iter().flatten().filter_map(|side| side.per_transaction_ns).collect();
    if known.is_empty() { String::new() } else { format!("{:.0}", known.iter().sum::<f64>()) }
}

/// Between which rates the one without loss lies.
fn bounds(row: &StreamRow) -> Vec<String> {
    let loses = row.loses_per_s.map(|loses| format!("most trials lost frames at {}/s", rate(loses)));
    match (&row.lossless, loses) {
        (Some(best), Some(loses)) => vec![format!("at least {}/s; {loses}", rate(best.offered_per_s))],
        (None, Some(loses)) => vec![loses],
        (_, None) => Vec::new(),
    }
}

fn sections(stream: &Stream) -> Vec<Section> {
    let names: Vec<Name> = stream.results.iter().map(name).collect();
    let rows: Vec<&StreamRow> = stream.results.iter().collect();
    let sections = [
        Section { heading: "Lost and stray frames", kind: Kind::Plain, items: merged(&names, &rows, strays) },
        Section { heading: "Without loss, from below and from above", kind: Kind::Plain, items: merged(&names, &rows, bounds) },
        Section { heading: "Rings", kind: Kind::Plain, items: merged(&names, &rows, granted) },
        Section { heading: "Asked for, not granted", kind: Kind::Plain, items: merged(&names, &rows, refused) },
        Section { heading: "Warnings", kind: Kind::Warning, items: warnings(&names, &rows, |row: &StreamRow| &row.warnings) },
    ];
    let filled = sections.into_iter().filter(|section| !section.items.is_empty());
    filled.chain(ended(stream.head.error.as_deref(), stream.head.interrupted)).collect()
}

fn name(row: &StreamRow) -> Name {
    let size = row.frame_bytes.map_or("any size".into(), |bytes| format!("{bytes} B"));
    Name { base: format!("{} {}", short(&row.io), row.direction), size }
}

/// What became of the frames that did not arrive once and in order.
fn strays(row: &StreamRow) -> Vec<String> {
    let trial = &row.offered;
    let mut parts: Vec<String> = words(trial.lost_by_cause.causes(), "").into_iter().collect();
    let others = [
        ("lost where no ring counts", trial.lost_elsewhere),
        ("duplicate", trial.duplicates),
        ("reordered", trial.reordered),
        ("of another stream", trial.foreign),
    ];
    parts.extend(words(others, ""));
    if parts.is_empty() { Vec::new() } else { vec![format!("{} beside {} offered", parts.join(", "), trial.offered)] }
}

fn granted(row: &StreamRow) -> Vec<String> {
    let side = |who: &str, rings: &hairpin_record::frames::Rings| format!("{who} {}", rings::words(rings));
    let sides = [("client", row.client.as_ref()), ("server", row.server.as_ref())];
    let sides: Vec<String> = sides.into_iter().filter_map(|(who, rings)| rings.map(|rings| side(who, rings))).collect();
    if sides.is_empty() { Vec::new() } else { vec![sides.join(", ")] }
}

fn refused(row: &StreamRow) -> Vec<String> {
    let both = [row.client.as_ref(), row.server.as_ref()];
    let mut items = both[0].map(|rings| rings::refused("", rings)).unwrap_or_default();
    // What the client was refused as well is in the record, with the server's own reason.
    let known = |feature: &str| both[0].is_some_and(|rings| rings.refused.iter().any(|refused| refused.feature == feature));
    let other = both[1].map(|rings| rings.refused.iter().filter(|refused| !known(&refused.feature)));
    items.extend(other.into_iter().flatten().map(|refused| format!("server: {}: {}", refused.feature, refused.why)));
    items
}
