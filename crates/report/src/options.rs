//! Options of formatting.

use hairpin_units::Quantile;

/// The percentiles shown by default.
pub const PERCENTILES: [Quantile; 4] = [Quantile::P50, Quantile::P90, Quantile::P99, Quantile::P999];

/// A narrower terminal counts as this wide.
const LEAST: usize = 40;

#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Columns of the terminal; less than 40 counts as 40.
    pub width: usize,
    /// True to colour the text with ANSI escapes.
    pub colour: bool,
    /// True to show half round trips (RTT/2, not one-way) in place of RTTs.
    pub hrt: bool,
    /// The percentiles to show, in this order.
    pub percentiles: Vec<Quantile>,
    /// The run's id in the store, for the CSV; empty if it has none.
    pub run: String,
    /// When the stored run began, in local time; empty if that needs no mention.
    pub started: String,
    /// True for a run that is about to be stored, and is then called `latest`.
    pub latest: bool,
    /// True for a terminal's short view: the essentials, and the rest with `-v`. Pages and scripts always have everything.
    pub brief: bool,
    /// True for CSV that goes on below the table of a record of the same kind: without the header.
    pub continues: bool,
    /// Amount of extra detail: the number of timelines for `explain`; from 1 on, `floor` adds a sentence per
    /// stage and `tune list` describes each setting in full.
    pub detail: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            width: 80,
            colour: false,
            hrt: false,
            percentiles: PERCENTILES.into(),
            run: String::new(),
            started: String::new(),
            latest: false,
            brief: false,
            continues: false,
            detail: 0,
        }
    }
}

impl Options {
    /// Columns that tables and text may take.
    pub(crate) fn columns(&self) -> usize {
        self.width.max(LEAST)
    }
}
