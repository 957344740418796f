//! The listing of `hairpin paths`: every way to do a round trip, and what this host supports.

use serde::Serialize;

use crate::cell::Cell;
use crate::doc::{Column, Doc, Show, Table};
use crate::options::Options;
use crate::style::Tone;

/// Every path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Paths {
    schema: &'static str,
    paths: Vec<PathRow>,
}

impl Paths {
    /// In the order given.
    pub fn new(paths: Vec<PathRow>) -> Paths {
        Paths { schema: "hairpin.paths/1", paths }
    }
}

/// Whether this host can do it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Support {
    /// It can.
    Yes,
    /// It can, but something is missing.
    Degraded,
    /// It cannot.
    No,
}

/// One path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PathRow {
    /// The path's name.
    pub path: String,
    /// A sentence about it.
    pub summary: String,
    /// What both ends must have in common: tcp, udp, raw or local.
    pub speaks: String,
    /// The wait policies it knows.
    pub policies: Vec<String>,
    /// The options it knows.
    pub options: Vec<PathOption>,
    /// What this host supports.
    pub support: Support,
    /// What is missing, if anything is.
    pub why: Option<String>,
}

/// An option of a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PathOption {
    /// As a path spec has it.
    pub name: String,
    /// The values it takes.
    pub values: String,
    /// What holds where it is not given.
    pub default: String,
    /// What it does.
    pub doc: String,
}

impl Show for Paths {
    fn doc(&self, _: &Options) -> Doc {
        let row = |row: &PathRow| {
            let here = match row.support {
                Support::Yes => "yes".into(),
                Support::Degraded => Cell::Word("degraded".into(), Tone::Warning),
                Support::No => Cell::Word("no".into(), Tone::Error),
            };
            let options: Vec<&str> = row.options.iter().map(|option| option.name.as_str()).collect();
            vec![
                (&row.path).into(),
                (&row.speaks).into(),
                here,
                (&row.summary).into(),
                row.why.as_ref().into(),
                row.policies.join(" ").into(),
                options.join(" ").into(),
            ]
        };
        let mut columns = ["path", "speaks", "here"].map(Column::words).to_vec();
        columns.push(Column::prose("what it is"));
        let below = [("why", "      why: "), ("policies", "      policies: "), ("options", "      options: ")];
        columns.extend(below.map(|(title, lead)| Column::below(title, lead)));
        let mut doc = Doc::default();
        doc.table(Table { empty: "no paths", ..Table::new(columns, 1, self.paths.iter().map(row)) });
        doc
    }
}
