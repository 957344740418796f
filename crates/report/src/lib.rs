//! Turns records into readable output: pure functions from data to text.
//!
//! ```text
//!   record ──Show──▶ Doc ──▶ term, markdown, csv      one document, one renderer a format
//!      ├──▶ json, perfetto, words                     (scripts, other tools and those that parse them)
//!      └──▶ view ──▶ html                             (a report of several records: a page
//!              └──▶ drawn                              … or Markdown, SVG, plots for a terminal)
//!   Progress ──▶ watch                                (a frame of the live view)
//! ```
//! This crate touches no clock, socket or terminal: width and colour are parameters, and a text depends on nothing but its
//! arguments. Text that may come from another host or from a file never carries control characters into a terminal
//! ([`prose::clean`]).

#![forbid(unsafe_code)]

mod accounts;
mod any;
mod attached;
mod bounce;
mod brief;
mod budget;
mod cell;
mod chart;
mod check;
mod columns;
mod command;
mod compare;
mod contents;
mod csv;
mod demo;
mod doc;
mod drawn;
mod explain;
mod figure;
mod fit;
mod floor;
mod gap;
mod grid;
mod html;
mod incidents;
mod json;
mod kinds;
mod label;
mod link;
pub mod live;
mod load;
mod markdown;
mod median;
mod mesh;
mod next;
mod noise;
mod notes;
mod one_way;
mod options;
mod own_request;
mod paths;
mod pcie;
mod plans;
pub mod prose;
mod rings;
mod run;
mod runs;
mod sentences;
#[cfg(test)]
mod shared;
mod split;
mod stream;
mod style;
mod sweep;
mod term;
mod tune;
mod tune_try;
pub mod view;
pub mod watch;
mod words;

pub use bounce::{bounce_heading, bounce_line};
pub use contents::view;
pub use doc::{Doc, Show};
pub use drawn::{Chart, budget_svg, report_svg};
pub use explain::brief::cut;
pub use explain::explain_perfetto;
pub use floor::floor_pingpong;
pub use html::html;
pub use json::{json, json_line, view_json};
pub use label::{path as row_path, short as short_path};
pub use options::{Options, PERCENTILES};
pub use paths::{PathOption, PathRow, Paths, Support};
pub use plans::{PlanFactor, PlanRow, Plans};
pub use rings::words as rings_words;
pub use runs::{RunList, RunRow};
pub use stream::{stream_row, stream_trial};
pub use words::Tool;

/// The record for a terminal of [`Options::width`] columns, in full or in short ([`Options::brief`]). Only a table whose figures
/// do not fit gets wider.
pub fn term(record: &(impl Show + ?Sized), options: &Options) -> String {
    term::term(&record.doc(options), options)
}

/// The record as GitHub-flavoured Markdown, for issues, pull requests and pages.
pub fn markdown(record: &(impl Show + ?Sized), options: &Options) -> String {
    markdown::markdown(&record.doc(options))
}

/// The record as CSV: a header line with units, then a line per result. Unknown values are empty. [`Options::continues`] leaves
/// out the header.
pub fn csv(record: &(impl Show + ?Sized), options: &Options) -> String {
    csv::csv(&record.doc(options), options)
}
