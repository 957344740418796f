//! From a record to what people read: pure functions from data to text.
//!
//! ```text
//!   Run ──▶ columns, label, notes ──▶ grid, prose ──▶ table, demo      (terminal)
//!      │                         └──▶ markdown
//!      ├──▶ csv, pingpong, json                                        (scripts)
//!      └──▶ view ──▶ html                                              (a report of several records: a page
//!              └──▶ drawn                                                … or Markdown, SVG, plots for a terminal)
//!   Progress ──▶ watch                                                 (a frame of the live view)
//! ```
//! No clock, socket or terminal is touched here: width and colour are parameters, and a text depends on nothing but its arguments.
//! Text that may come from another host or from a file never carries control characters into a terminal ([`prose::clean`]).

#![forbid(unsafe_code)]

mod accounts;
mod attached;
mod bounce;
mod check;
mod columns;
mod compare;
mod csv;
mod demo;
mod drawn;
mod explain;
mod figure;
mod fit;
mod floor;
mod grid;
mod html;
mod json;
mod label;
mod load;
mod markdown;
mod notes;
mod paths;
mod pcie;
mod pingpong;
pub mod prose;
mod rings;
mod runs;
mod sentences;
mod stream;
mod style;
mod sweep;
mod table;
mod tune;
mod tune_try;
pub mod view;
pub mod watch;

use hairpin_units::Quantile;

pub use attached::attached;
pub use bounce::{bounce, bounce_heading, bounce_line};
pub use check::check;
pub use compare::compare;
pub use csv::csv;
pub use demo::demo;
pub use drawn::{Chart, report_markdown, report_svg, report_term};
pub use explain::{explain, explain_json, explain_perfetto};
pub use fit::floor_fit;
pub use floor::{floor, floor_comparison, floor_pingpong, floor_sizes};
pub use html::html;
pub use json::{json, json_line, progress_line};
pub use label::short as short_path;
pub use load::{load, load_csv, load_markdown};
pub use markdown::markdown;
pub use paths::{PathRow, Support, paths};
pub use pcie::{floor_pcie, floor_pcie_primitives, floor_pcie_published};
pub use pingpong::{PINGPONG_LABEL, pingpong};
pub use rings::words as rings_words;
pub use runs::{RunRow, runs};
pub use stream::{stream, stream_csv, stream_markdown, stream_trial};
pub use sweep::sweep;
pub use table::table;
pub use tune::{tune_changes, tune_check, tune_knobs, tune_list, tune_status};
pub use tune_try::tune_try;

/// How a text is to look.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Columns of the terminal; less than 80 counts as 80.
    pub width: usize,
    /// True to colour the text with ANSI escapes.
    pub colour: bool,
    /// True to show half round trips (RTT/2, not one-way) in place of RTTs.
    pub hrt: bool,
    /// The percentiles to show, in this order.
    pub percentiles: Vec<Quantile>,
    /// The run's id in the store, for the CSV; empty if it has none.
    pub run: String,
}

/// The percentiles that are shown unless others are asked for.
pub const PERCENTILES: [Quantile; 4] = [Quantile::P50, Quantile::P90, Quantile::P99, Quantile::P999];

impl Default for Options {
    fn default() -> Options {
        Options { width: 80, colour: false, hrt: false, percentiles: PERCENTILES.into(), run: String::new() }
    }
}

impl Options {
    fn columns(&self) -> usize {
        self.width.max(80)
    }
}
