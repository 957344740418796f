//! The output of `hairpin paths`: every way to do a round trip, and whether this host supports it; or the stamps of a device.

mod device;

use hairpin_record::device::DeviceStamps;
use serde::Serialize;

use crate::cell::Cell;
use crate::doc::{Column, Doc, Show, Shown, Table};
use crate::explain::brief::cut;
use crate::next;
use crate::options::Options;
use crate::style::Tone;

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Paths {
    schema: &'static str,
    paths: Vec<PathRow>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    root_adds: Vec<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    device: Option<DeviceStamps>,
}

impl Paths {
    /// Keeps the given order.
    pub fn new(paths: Vec<PathRow>) -> Paths {
        Paths { schema: "hairpin.paths/1", paths, root_adds: Vec::new(), device: None }
    }

    /// The stamps of a device that was asked about.
    #[must_use]
    pub fn device(self, device: DeviceStamps) -> Paths {
        Paths { device: Some(device), ..self }
    }

    /// Adds the paths that need rights which root has and this user lacks.
    #[must_use]
    pub fn root_adds(self, root_adds: Vec<&'static str>) -> Paths {
        Paths { root_adds, ..self }
    }
}

/// Whether this host supports a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Support {
    Yes,
    /// Supported, with something missing.
    Degraded,
    No,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PathRow {
    pub path: String,
    /// One sentence.
    pub summary: String,
    /// The protocol that both ends must share: tcp, udp, raw or local.
    pub speaks: String,
    pub policies: Vec<String>,
    pub options: Vec<PathOption>,
    pub support: Support,
    /// The reason for anything other than full support.
    pub why: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PathOption {
    /// The name as written in a path spec.
    pub name: String,
    /// The accepted values.
    pub values: String,
    /// The value used if the option is not given.
    pub default: String,
    /// The effect of the option.
    pub doc: String,
}

impl Show for Paths {
    fn doc(&self, options: &Options) -> Doc {
        if let Some(found) = &self.device {
            return device::doc(found, options);
        }
        if options.detail > 0 {
            return in_full(self, options);
        }
        let mut doc = Doc::default();
        doc.part(Shown::Brief, short(self, options));
        doc.part(Shown::Full, in_full(self, options));
        if !self.root_adds.is_empty() {
            doc.gap();
            doc.lead("root adds: ", format!("{} (docs/install.md)", self.root_adds.join(", ")));
        }
        doc
    }
}

/// Columns of a path's name, its protocol, its support here, and the spaces between.
const BESIDE: usize = 27;

/// A line for each path: its description, or the reason why this host lacks it.
fn short(paths: &Paths, options: &Options) -> Doc {
    let room = options.columns().saturating_sub(BESIDE);
    let row = |row: &PathRow| {
        let (here, tone) = match row.support {
            Support::Yes => ("yes", Tone::Plain),
            Support::Degraded => ("in part", Tone::Warning),
            Support::No => ("no", Tone::Error),
        };
        let text = cut(row.why.as_ref().unwrap_or(&row.summary), room);
        vec![(&row.path).into(), (&row.speaks).into(), Cell::Word(here.into(), tone), text.into()]
    };
    let columns = ["path", "speaks", "here", "description, or why not"].map(Column::words).to_vec();
    let mut doc = Doc::default();
    doc.table(Table { empty: "no paths", ..Table::new(columns, 1, paths.paths.iter().map(row)) });
    next::show(&mut doc, &["hairpin paths tcp".to_owned(), "(-v: all, with policies and options)".to_owned()], options);
    doc
}

fn in_full(paths: &Paths, options: &Options) -> Doc {
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
    columns.push(Column::prose("description"));
    let below = [("why", "      why: "), ("policies", "      policies: "), ("options", "      options: ")];
    columns.extend(below.map(|(title, lead)| Column::below(title, lead)));
    let mut doc = Doc::default();
    doc.table(Table { empty: "no paths", ..Table::new(columns, 1, paths.paths.iter().map(row)) });
    if options.detail > 0 {
        let all = paths.paths.iter().flat_map(|path| path.options.iter().map(move |option| (path, option)));
        for (path, option) in all {
            doc.gap();
            let lead = format!("{}:{}=  ", path.path, option.name);
            doc.lead(lead, format!("{} ({}; default {})", option.doc, option.values, option.default));
        }
    }
    doc
}
