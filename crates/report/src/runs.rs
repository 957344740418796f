//! The listing of `hairpin runs list`: what the run store holds, corrupt runs named.

use hairpin_record::any::AnyRecord;
use hairpin_units::Nanos;

use crate::grid::{Column, Grid};
use crate::label::short;
use crate::prose::{WIDTH, clean, wrap};
use crate::style::{ERROR, paint};

/// One directory of the run store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunRow {
    /// A run that can be read.
    Run {
        /// Its id.
        id: String,
        /// Its schema, such as `hairpin.run/1`.
        schema: String,
        /// When it started, RFC 3339.
        started: String,
        /// Its command line.
        command: Vec<String>,
        /// How many results it has.
        rows: usize,
        /// Path and RTT p50 of its first result, if it has one.
        first: Option<(String, Option<Nanos>)>,
    },
    /// A run that cannot be read.
    Corrupt {
        /// Its id.
        id: String,
        /// Why not.
        reason: String,
    },
}

impl RunRow {
    /// A record of the store.
    pub fn of(id: String, record: &AnyRecord) -> RunRow {
        let head = record.head();
        let (rows, first) = results(record);
        let first = first.map(|(path, ns)| (path.to_owned(), ns.map(Nanos)));
        RunRow::Run { id, schema: head.schema.clone(), started: head.started.clone(), command: head.command.clone(), rows, first }
    }
}

/// How many results a record has, with name and RTT p50 of the first; what has no round trips has no p50.
fn results(record: &AnyRecord) -> (usize, Option<(&str, Option<u64>)>) {
    let whole = |ns: Option<f64>| ns.map(|ns| ns.round() as u64);
    match record {
        AnyRecord::Run(run) => (run.results.len(), run.results.first().map(|row| (row.path.as_str(), row.rtt_ns.p50))),
        AnyRecord::Explain(explain) => {
            (explain.results.len(), explain.results.first().map(|path| (path.path.as_str(), path.untraced_rtt_ns.p50)))
        }
        AnyRecord::Attached(attached) => {
            (attached.connections.len(), attached.connections.first().map(|of| (of.server.as_str(), of.total.sum_ns.p50)))
        }
        AnyRecord::Compare(compare) => {
            (compare.arms.len(), compare.arms.first().map(|arm| (arm.path.as_str(), whole(arm.figures.p50_ns))))
        }
        AnyRecord::Load(load) => (
            load.results.iter().map(|curve| curve.rates.len()).sum(),
            load.results
                .first()
                .map(|curve| (curve.path.as_str(), curve.rates.first().and_then(|rate| rate.rtt_from_due_ns.p50))),
        ),
        AnyRecord::Stream(stream) => (stream.results.len(), stream.results.first().map(|row| (row.io.as_str(), None))),
        AnyRecord::Sweep(sweep) => {
            (sweep.cells.len(), sweep.cells.first().map(|cell| (cell.arm.path.as_str(), whole(cell.arm.figures.p50_ns))))
        }
        AnyRecord::TuneTry(tried) => {
            let first = tried.paths.first().and_then(|path| path.alone.arms.first());
            (tried.settings.len(), first.map(|arm| (arm.path.as_str(), whole(arm.figures.p50_ns))))
        }
        AnyRecord::Bounce(bounce) => (1, Some((bounce.io.as_str(), None))),
        AnyRecord::Check(check) => (check.delays.len() + check.latencies.len(), Some(("check of the instrument", None))),
        AnyRecord::Probe(probe) => (1, Some((probe.device.address.as_str(), probe.reads.read_ns.p50))),
        AnyRecord::Primitives(found) => {
            (found.implementations.iter().map(|of| of.steps.len()).sum(), Some(("steps of a driver", None)))
        }
    }
}

/// The listing: a line of figures and one of the command for each run, in the order given, then the corrupt ones.
pub fn runs(rows: &[RunRow], columns: usize, colour: bool) -> String {
    let mut cells = Vec::new();
    let mut commands = Vec::new();
    let mut corrupt = Vec::new();
    for row in rows {
        match row {
            RunRow::Run { id, started, command, rows, first, .. } => {
                let (path, p50) = match first {
                    Some((path, p50)) => (short(path), p50.map(|ns| ns.to_string()).unwrap_or_default()),
                    None => Default::default(),
                };
                cells.push(vec![clean(id), clean(started), rows.to_string(), p50, path]);
                commands.push(command.join(" "));
            }
            RunRow::Corrupt { id, reason } => corrupt.push(format!("{id} is skipped: {reason}")),
        }
    }
    let mut lines = Vec::new();
    if cells.is_empty() {
        lines.push("no runs stored".into());
    } else {
        let columns_of = vec![
            Column::words("id"),
            Column::words("started"),
            Column::figures("rows"),
            Column::figures("RTT p50"),
            Column::words("of the first row"),
        ];
        let grid = Grid { columns: columns_of, labels: 2, rows: cells };
        let (heads, blocks) = grid.blocks(columns.max(WIDTH), colour);
        lines.extend(heads);
        for (block, command) in blocks.into_iter().zip(&commands) {
            lines.extend(block);
            lines.extend(wrap("    ", command, WIDTH));
        }
    }
    for text in corrupt {
        let mut text = wrap("", &text, WIDTH);
        if let Some(first) = text.first_mut() {
            *first = paint(first, ERROR, colour);
        }
        lines.append(&mut text);
    }
    lines.join("\n") + "\n"
}
