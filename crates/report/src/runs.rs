//! The listing of `hairpin runs list`: what the run store holds, corrupt runs named.

use hairpin_units::Nanos;
use serde::Serialize;

use crate::cell::Cell;
use crate::doc::{Column, Data, Doc, Show, Table};
use crate::label::short;
use crate::options::Options;
use crate::style::Tone;

/// What the run store holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RunList {
    schema: &'static str,
    runs: Vec<RunRow>,
}

impl RunList {
    /// In the order given.
    pub fn new(runs: Vec<RunRow>) -> RunList {
        RunList { schema: "hairpin.runs/1", runs }
    }
}

/// One directory of the run store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum RunRow {
    /// A run that can be read.
    Run {
        /// Its id.
        id: String,
        /// When it started, RFC 3339.
        started: String,
        /// Its command line.
        command: Vec<String>,
        /// How many results it has.
        rows: usize,
        /// Path of its first result, if it has one.
        first_path: Option<String>,
        /// RTT p50 of its first result.
        first_p50_ns: Option<u64>,
    },
    /// A run that cannot be read.
    Corrupt {
        /// Its id.
        id: String,
        /// Why not.
        error: String,
    },
}

/// A line of figures and one of the command for each run, then the corrupt ones.
impl Show for RunList {
    fn doc(&self, _: &Options) -> Doc {
        let mut doc = Doc::default();
        let row = |row: &RunRow| match row {
            RunRow::Run { id, started, command, rows, first_path, first_p50_ns } => Some(vec![
                id.into(),
                started.into(),
                (*rows as u64).into(),
                first_p50_ns.map(|ns| Nanos(ns).to_string()).into(),
                first_path.as_deref().map(short).into(),
                command.join(" ").into(),
            ]),
            RunRow::Corrupt { .. } => None,
        };
        let columns = vec![
            Column::words("id"),
            Column::words("started"),
            Column::figures("rows"),
            Column::figures("RTT p50"),
            Column::words("of the first row"),
            Column::below("command", "    "),
        ];
        doc.table(Table { empty: "no runs stored", ..Table::new(columns, 2, self.runs.iter().filter_map(row)) });
        for row in &self.runs {
            if let RunRow::Corrupt { id, error } = row {
                doc.toned("", format!("{id} is skipped: {error}"), Tone::Error);
            }
        }
        let line = |row: &RunRow| match row {
            RunRow::Run { id, started, command, rows, first_path, first_p50_ns } => {
                let (command, rows) = (command.join(" ").into(), (*rows as u64).into());
                [id.into(), started.into(), command, rows, first_path.as_ref().into(), (*first_p50_ns).into(), Cell::Blank]
            }
            RunRow::Corrupt { id, error } => {
                let [a, b, c, d, e] = Default::default();
                [id.into(), a, b, c, d, e, error.into()]
            }
        };
        let names = "id started command rows first_path first_p50_ns error";
        doc.data = Some(Data::table(names, self.runs.iter().map(line)));
        doc
    }
}
