//! The output of `hairpin stream`: frames per second without loss, and flat out.

use hairpin_plan::spec::Spec;
use hairpin_record::stream::{Direction, Step, Stream, StreamRow, Trial};

use crate::bounce::words;
use crate::brief::way;
use crate::cell::{Cell, IntoCell};
use crate::doc::{Block, Column, Data, Doc, Fields, List, Show, Shown, Table, fields};
use crate::figure::{per_second, rate};
use crate::kinds;
use crate::label::{Name, join, short as short_path};
use crate::link::over;
use crate::next;
use crate::notes::{ended, merged, warned};
use crate::options::Options;
use crate::rings;
use crate::style::Tone;
use crate::term::{LINES, height};

impl Show for Stream {
    fn doc(&self, options: &Options) -> Doc {
        let mut doc = Doc::default();
        doc.part(Shown::Brief, short(self, options));
        let mut full = Doc::of(&self.head, over(&self.place));
        full.gap();
        heading(self).into_iter().for_each(|line| full.text(line));
        if !self.results.is_empty() {
            full.gap();
        }
        full.table(table(self));
        full.lists(lists(self));
        full.list(ended(&self.head));
        doc.part(Shown::Full, full);
        doc.data = Some(Data::new(line(self, &blank()), self.results.iter().map(|row| line(self, row))));
        doc
    }
}

/// Link, the rows that fit, warnings, and the fastest row last.
fn short(stream: &Stream, options: &Options) -> Doc {
    let mut doc = Doc::default();
    let queues = stream.results.iter().map(|row| row.queues).max().unwrap_or(1);
    let queues = if queues > 1 { format!(", {queues} queues") } else { String::new() };
    let searched = stream.resolution.map(|share| format!(", searched to {} %", (share * 1e4).round() / 100.0));
    doc.text(format!("{}{queues}, frames without FCS{}", way(&stream.place), searched.unwrap_or_default()));
    let mut end = Doc::default();
    let names: Vec<Name> = stream.results.iter().map(name).collect();
    let rows: Vec<&StreamRow> = stream.results.iter().collect();
    let notes = kinds::lines_of(
        &rows,
        |row| &row.warnings,
        |of| match of.len() {
            1 | 2 if of.len() < rows.len() => format!("{}: ", join(&names, of)),
            _ => kinds::share(of, rows.len(), "rows"),
        },
    );
    end.blocks.extend(notes.into_iter().map(Block::Text));
    let (said, word) = fastest(stream);
    end.verdict("", said, word, Tone::Heading);
    end.list(ended(&stream.head));
    let rest = "(-v: all rows, losses by cause, rings)".to_owned();
    next::show(&mut end, &commands(stream).into_iter().chain([rest]).collect::<Vec<_>>(), options);
    let some = |most: usize| {
        let mut doc = Doc::default();
        if !rows.is_empty() {
            doc.gap();
            doc.table(short_table(stream, most));
        }
        if rows.len() > most {
            doc.text(format!("and {} more rows", rows.len() - most));
        }
        doc.gap();
        doc
    };
    let room = LINES.saturating_sub(height(&doc, options) + height(&end, options));
    let shown = (0..=rows.len()).rev().map(some).find(|doc| height(doc, options) <= room).unwrap_or_default();
    doc.blocks.extend(shown.blocks);
    doc.blocks.extend(end.blocks);
    doc
}

fn short_table(stream: &Stream, most: usize) -> Table {
    let searched = stream.resolution.is_some();
    let mut columns = ["io", "direction"].map(Column::words).to_vec();
    columns.push(Column::figures("frame"));
    columns.extend(searched.then(|| Column::figures("without loss")));
    columns.extend(["offered", "lost"].map(Column::figures));
    let cells = |row: &StreamRow| {
        let trial = &row.offered;
        let mut cells = vec![short_path(&row.io).into(), row.direction.to_string().into()];
        cells.push(row.frame_bytes.into_cell(|bytes| format!("{bytes} B").into()));
        let best = || row.lossless.as_ref().map_or("-".into(), |best| per_second(best.offered_per_s));
        cells.extend(searched.then(|| best().into()));
        cells.extend([per_second(trial.offered_per_s).into(), Cell::Share(trial.lost_share())]);
        cells
    };
    Table { titles: Tone::Dim, ..Table::new(columns, 3, stream.results.iter().take(most).map(cells)) }
}

/// The row with most frames per second, and that rate.
fn best(stream: &Stream) -> Option<(&StreamRow, f64)> {
    let rate = |row: &StreamRow| match stream.resolution {
        Some(_) => row.lossless.as_ref().map(|best| best.offered_per_s),
        None => row.offered.delivered_per_s.filter(|per_s| *per_s > 0.0),
    };
    let all = stream.results.iter().filter_map(|row| Some((row, rate(row)?)));
    all.max_by(|a, b| a.1.total_cmp(&b.1))
}

/// The round trip by the same path, and its stages where they are known. Round trips have fewer wait policies.
fn commands(stream: &Stream) -> Vec<String> {
    let Some((row, _)) = best(stream).filter(|(row, _)| row.io.parse::<Spec>().is_ok()) else { return Vec::new() };
    let (place, head) = (&stream.place, &stream.head);
    let ping = next::to(place, head).and_then(|to| next::plain(format!("hairpin ping {to} -p {}", next::path(&row.io))));
    ping.into_iter().chain(next::explain(&place.link, head, &row.io)).collect()
}

/// The words on the best row; the decisive ones.
fn fastest(stream: &Stream) -> (String, &'static str) {
    let searched = stream.resolution.is_some();
    let Some((row, per_s)) = best(stream) else {
        let counted = stream.results.iter().any(|row| row.offered.delivered.is_some());
        return match (searched, counted || stream.results.is_empty()) {
            (true, _) => ("no rate without loss was found".into(), "no"),
            (false, true) => ("no frame arrived".into(), "no"),
            (false, false) => ("how many frames arrived is not known: no end counted them".into(), "not known"),
        };
    };
    let Name { base, size } = name(row);
    let what = if searched { "most without loss" } else { "most delivered" };
    (format!("{what}: {}, frames of {size} by {base}", per_second(per_s)), what)
}

fn blank() -> StreamRow {
    StreamRow {
        io: String::new(),
        direction: Direction::Inject,
        frame_bytes: None,
        queues: 0,
        lossless: None,
        loses_per_s: None,
        offered: Trial::default(),
        search: Vec::new(),
        client: None,
        server: None,
        warnings: Vec::new(),
    }
}

/// One line per row.
fn line(stream: &Stream, row: &StreamRow) -> Fields {
    let trial = &row.offered;
    let best = row.lossless.as_ref();
    let [full, chunk, dropped, long, invalid, refused, sent] = trial.lost_by_cause.causes().map(|(_, count)| Cell::Count(count));
    let codes: Vec<&str> = row.warnings.iter().map(|note| note.code.as_str()).collect();
    fields([
        ("started", (&stream.head.started).into()),
        ("link", (&stream.place.link.kind).into()),
        ("io", (&row.io).into()),
        ("direction", row.direction.to_string().into()),
        ("frame_bytes", row.frame_bytes.into()),
        ("queues", row.queues.into()),
        ("lossless_offered_per_s", best.map(|trial| trial.offered_per_s).into()),
        ("lossless_wire_bits_per_s", best.map(|trial| trial.wire_bits_per_s).into()),
        ("asked_per_s", trial.asked_per_s.into()),
        ("offered_per_s", trial.offered_per_s.into()),
        ("delivered_per_s", trial.delivered_per_s.into()),
        ("wire_bits_per_s", trial.wire_bits_per_s.into()),
        ("duration_ns", trial.duration_ns.into()),
        ("offered", trial.offered.into()),
        ("delivered", trial.delivered.into()),
        ("lost", trial.lost.into()),
        ("rx_ring_full", full),
        ("rx_no_chunk", chunk),
        ("rx_dropped", dropped),
        ("rx_too_long", long),
        ("rx_invalid", invalid),
        ("tx_invalid", refused),
        ("tx_dropped", sent),
        ("lost_elsewhere", trial.lost_elsewhere.into()),
        ("duplicates", trial.duplicates.into()),
        ("reordered", trial.reordered.into()),
        ("foreign", trial.foreign.into()),
        ("cpu_client_per_frame_ns", trial.cpu.client.per_transaction_ns.into()),
        ("cpu_server_per_frame_ns", trial.cpu.server.as_ref().and_then(|cpu| cpu.per_transaction_ns).into()),
        ("warnings", codes.join(" ").into()),
        ("loses_per_s", row.loses_per_s.into()),
    ])
}

/// A row in progress.
pub fn stream_row(io: &str, direction: Direction, frame_bytes: Option<u64>) -> String {
    let size = frame_bytes.map_or(String::new(), |bytes| format!(" {bytes} B"));
    format!("{} {direction}{size}", short_path(io))
}

/// The same with its last trial.
pub fn stream_trial(io: &str, direction: Direction, frame_bytes: Option<u64>, step: &Step) -> String {
    format!("{}, {} offered, {} lost", stream_row(io, direction, frame_bytes), per_second(step.offered_per_s), step.lost)
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

fn table(stream: &Stream) -> Table {
    let searched = stream.resolution.is_some();
    // A rate reported by another host may have any value.
    let flat_out = |row: &StreamRow| row.offered.asked_per_s.is_none() && row.frame_bytes.is_some();
    let flat = if stream.results.iter().all(flat_out) { "flat out" } else { "offered" };
    let mut columns =
        vec![Column::words("io"), Column::words("direction"), Column::figures("frame").in_unit("B"), Column::figures("queues")];
    if searched {
        columns.extend(["frames/s", "Mbit/s"].map(|title| Column::figures(title).under("without loss")));
    }
    columns.extend([Column::figures("offered/s"), Column::figures("lost").in_unit("%")].map(|column| column.under(flat)));
    if !searched {
        columns.push(Column::figures("Mbit/s").under(flat));
    }
    columns.push(Column::figures("CPU").in_unit("ns"));
    let cells = |row: &StreamRow| {
        let trial = &row.offered;
        let mut cells =
            vec![short_path(&row.io).into(), row.direction.to_string().into(), row.frame_bytes.into(), row.queues.into()];
        if searched {
            let best = |of: fn(&Trial) -> Cell| row.lossless.as_ref().map_or("-".into(), of);
            cells.extend([best(|best| Cell::Rate(best.offered_per_s)), best(|best| Cell::Number(best.wire_bits_per_s / 1e6))]);
        }
        cells.extend([Cell::Rate(trial.offered_per_s), Cell::Percent(trial.lost_share())]);
        cells.extend((!searched).then(|| Cell::Number(trial.wire_bits_per_s / 1e6)));
        cells.push(cpu(row.lossless.as_ref().unwrap_or(trial)));
        cells
    };
    Table::new(columns, 3, stream.results.iter().map(cells))
}

/// Time per frame of both sides, where known.
fn cpu(trial: &Trial) -> Cell {
    let sides = [Some(&trial.cpu.client), trial.cpu.server.as_ref()];
    let known: Vec<f64> = sides.into_iter().flatten().filter_map(|side| side.per_transaction_ns).collect();
    (!known.is_empty()).then(|| known.iter().sum::<f64>()).into_cell(|ns| Cell::Fixed(ns, 0))
}

/// The two rates between which the lossless rate lies.
fn bounds(row: &StreamRow) -> Vec<String> {
    let loses = row.loses_per_s.map(|loses| format!("most trials lost frames at {}/s", rate(loses)));
    match (&row.lossless, loses) {
        (Some(best), Some(loses)) => vec![format!("at least {}/s; {loses}", rate(best.offered_per_s))],
        (None, Some(loses)) => vec![loses],
        (_, None) => Vec::new(),
    }
}

fn lists(stream: &Stream) -> Vec<List> {
    let names: Vec<Name> = stream.results.iter().map(name).collect();
    let rows: Vec<&StreamRow> = stream.results.iter().collect();
    vec![
        List::plain("Lost and stray frames", merged(&names, &rows, strays)),
        List::plain("Without loss, from below and from above", merged(&names, &rows, bounds)),
        List::plain("Rings", merged(&names, &rows, granted)),
        List::plain("Asked for, not granted", merged(&names, &rows, refused)),
        warned(&names, &rows, |row| &row.warnings),
    ]
}

fn name(row: &StreamRow) -> Name {
    let size = row.frame_bytes.map_or("any size".into(), |bytes| format!("{bytes} B"));
    Name { base: format!("{} {}", short_path(&row.io), row.direction), size }
}

/// Frames that were lost, duplicated, reordered or of another stream, by cause.
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
    // Features refused to both sides are in the record, with the server's own reason.
    let known = |feature: &str| both[0].is_some_and(|rings| rings.refused.iter().any(|refused| refused.feature == feature));
    let other = both[1].map(|rings| rings.refused.iter().filter(|refused| !known(&refused.feature)));
    items.extend(other.into_iter().flatten().map(|refused| format!("server: {}: {}", refused.feature, refused.why)));
    items
}

#[cfg(test)]
mod tests {
    use hairpin_record::any::AnyRecord;

    use super::*;

    /// The stream of an earlier version over veth, by this path.
    fn by(io: &str) -> Stream {
        let records = AnyRecord::all(include_bytes!("../../record/tests/data/older.jsonl")).unwrap();
        let of_streams = |record: AnyRecord| if let AnyRecord::Stream(stream) = record { Some(*stream) } else { None };
        let mut stream = records.into_iter().find_map(of_streams).unwrap();
        stream.results[0].io = io.into();
        stream
    }

    #[test]
    fn a_command_has_a_path_that_it_takes() {
        let with = |path: &str| ["ping", "explain"].map(|verb| format!("hairpin {verb} veth -p {path}"));
        assert_eq!(commands(&by("packet:spin/packet:spin")), with("packet:spin"));
        assert_eq!(commands(&by("xdp:busy-poll/xdp:busy-poll")), with("xdp:busy-poll"));
        assert_eq!(commands(&by("packet:busy-poll/packet:busy-poll")), [""; 0]);
    }
}
