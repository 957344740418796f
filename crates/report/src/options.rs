//! Options of formatting.

use hairpin_units::Quantile;

/// The percentiles shown by default.
pub const PERCENTILES: [Quantile; 4] = [Quantile::P50, Quantile::P90, Quantile::P99, Quantile::P999];

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
    /// Amount of extra detail: the number of timelines for `explain`; from 1 on, `floor` adds a sentence per
    /// stage and `tune list` describes each setting in full.
    pub detail: usize,
    /// True to show what a terminal leaves out otherwise.
    pub verbose: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            width: 80,
            colour: false,
            hrt: false,
            percentiles: PERCENTILES.into(),
            run: String::new(),
            detail: 0,
            verbose: false,
        }
    }
}

impl Options {
    /// Columns that a table may take.
    pub(crate) fn columns(&self) -> usize {
        self.width.max(80)
    }
}
