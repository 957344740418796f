//! The output of `hairpin runs list`: the contents of the run store, including corrupt runs by name.

use hairpin_record::any::AnyRecord;
use serde::Serialize;

use crate::cell::Cell;
use crate::doc::{Column, Data, Doc, Show, Table};
use crate::explain::brief::cut;
use crate::figure::time;
use crate::label::short;
use crate::options::Options;
use crate::style::Tone;

/// The contents of the run store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RunList {
    schema: &'static str,
    runs: Vec<RunRow>,
}

impl RunList {
    /// Keeps the given order.
    pub fn new(runs: Vec<RunRow>) -> RunList {
        RunList { schema: "hairpin.runs/1", runs }
    }
}

/// One directory of the run store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum RunRow {
    /// A readable run.
    Run {
        id: String,
        /// Its schema, such as `hairpin.run/1`.
        schema: String,
        /// Start, RFC 3339.
        started: String,
        /// The same in the time zone of this host, to the second.
        #[serde(skip)]
        local: String,
        command: Vec<String>,
        /// The number of results.
        rows: usize,
        /// Path of the first result, if there is one.
        first_path: Option<String>,
        /// RTT p50 of the first result, if that is of round trips.
        first_p50_ns: Option<u64>,
    },
    /// An unreadable run.
    Corrupt {
        id: String,
        /// The reason.
        error: String,
    },
}

impl RunRow {
    /// The row for a stored record.
    pub fn of(id: String, local: String, record: &AnyRecord) -> RunRow {
        let head = record.head();
        let (rows, first) = results(record);
        RunRow::Run {
            id,
            schema: head.schema.clone(),
            started: head.started.clone(),
            local,
            command: head.command.clone(),
            rows,
            first_path: first.map(|(path, _)| path.to_owned()),
            first_p50_ns: first.and_then(|(_, p50)| p50),
        }
    }
}

/// The number of results in a record, with name and RTT p50 of the first; records without round trips have no p50.
fn results(record: &AnyRecord) -> (usize, Option<(&str, Option<u64>)>) {
    let whole = |ns: Option<f64>| ns.map(|ns| ns.round() as u64);
    match record {
        AnyRecord::Run(run) => (run.results.len(), run.results.first().map(|row| (row.path.as_str(), row.rtt_ns.p50))),
        AnyRecord::Explain(explain) => {
            (explain.results.len(), explain.results.first().map(|path| (path.path.as_str(), path.untraced_rtt_ns.p50)))
        }
        AnyRecord::Attached(attached) => {
            (attached.connections.len(), attached.connections.first().map(|of| (of.server.as_str(), None)))
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
        AnyRecord::Mesh(mesh) => {
            let first = mesh.pairs.first().and_then(|pair| pair.rtt_ns.as_ref()).and_then(|rtt| rtt.p50);
            (mesh.pairs.len(), Some((mesh.path.as_str(), first)))
        }
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
        AnyRecord::Noise(noise) => (noise.cores.len(), Some(("stalls of the cores", None))),
        AnyRecord::Probe(probe) => (1, Some((probe.device.address.as_str(), None))),
        AnyRecord::Primitives(found) => {
            (found.implementations.iter().map(|of| of.steps.len()).sum(), Some(("steps of a driver", None)))
        }
        _ => (0, None),
    }
}

/// The columns beside a command.
const BESIDE: usize = 58;
/// Of these, date and time.
const DATE: usize = 21;
/// A shorter command says nothing.
const COMMAND: usize = 16;

/// A line for each run, then the corrupt runs.
impl Show for RunList {
    fn doc(&self, options: &Options) -> Doc {
        let mut doc = Doc::default();
        let wide = options.columns() >= BESIDE + COMMAND;
        let room = options.columns().saturating_sub(if wide { BESIDE } else { BESIDE - DATE }).max(COMMAND);
        let row = |row: &RunRow| match row {
            RunRow::Run { id, command, local, rows, first_path, first_p50_ns, .. } => {
                let command = command.get(1..).unwrap_or_default().join(" ");
                let mut cells: Vec<Cell> = vec![cut(&command, room).into(), command.into()];
                cells.push(first_p50_ns.map(|ns| time(ns as f64)).into());
                cells.extend([first_path.as_deref().map(short).into(), (*rows as u64).into()]);
                cells.extend([local.into(), id.into()]);
                Some(cells)
            }
            RunRow::Corrupt { .. } => None,
        };
        let columns = vec![
            Column::screen("command"),
            Column::page("command"),
            Column::figures("RTT p50"),
            Column::page("of the first row"),
            Column::page("rows"),
            // The id has the date too.
            if wide { Column::words("started") } else { Column::page("started") },
            Column::words("id"),
        ];
        doc.table(Table { empty: "no runs stored", ..Table::new(columns, 1, self.runs.iter().filter_map(row)) });
        for row in &self.runs {
            if let RunRow::Corrupt { id, error } = row {
                doc.toned("", format!("{id} is skipped: {error}"), Tone::Error);
            }
        }
        let line = |row: &RunRow| match row {
            RunRow::Run { id, schema, started, command, rows, first_path, first_p50_ns, .. } => {
                let (command, rows) = (command.join(" ").into(), (*rows as u64).into());
                [
                    id.into(),
                    schema.into(),
                    started.into(),
                    command,
                    rows,
                    first_path.as_ref().into(),
                    (*first_p50_ns).into(),
                    Cell::Blank,
                ]
            }
            RunRow::Corrupt { id, error } => {
                let [a, b, c, d, e, f] = Default::default();
                [id.into(), a, b, c, d, e, f, error.into()]
            }
        };
        let names = "id schema started command rows first_path first_p50_ns error";
        doc.data = Some(Data::table(names, self.runs.iter().map(line)));
        doc
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_records_of_round_trips_have_an_rtt() {
        let records = AnyRecord::all(include_bytes!("../../record/tests/data/older.jsonl")).unwrap();
        let have_rtt = records.iter().filter(|record| results(record).1.is_some_and(|(_, p50)| p50.is_some()));
        let verbs: Vec<&str> = have_rtt.map(AnyRecord::verb).collect();
        assert_eq!(verbs, ["ping", "explain", "load", "sweep", "compare", "tune try", "mesh"]);
    }
}
