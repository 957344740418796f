//! The stages of an application's transactions in a table.

use crate::cell::{Bar, Cell};
use crate::doc::{Column, Table};

/// The unit and kind of the figures in the table.
pub(crate) const FIGURES: &str = "Times in us; share: of the time of all transactions.";

/// A stage: its name and side, the number of transactions that passed it, p50 and p99, and its part of the sum.
pub(crate) type Line = (String, String, u64, [Option<u64>; 2], f64);

/// A line per stage, and the sum with its count and quantiles. Each bar spans the stage's share, from its start to its end.
pub(crate) fn stages(lines: impl Iterator<Item = Line>, sum: (u64, [Option<u64>; 2])) -> Table {
    let mut begins = 0.0;
    let row = |(name, side, count, quantiles, share): Line| {
        let bar = Bar::new(begins, begins + share);
        begins = bar.to;
        let side = if side.is_empty() { "-".into() } else { side };
        let [p50, p99] = quantiles.map(Cell::ns);
        vec![name.into(), side.into(), Cell::Count(count), p50, p99, Cell::Percent(share), Cell::Bar(bar)]
    };
    let mut rows: Vec<Vec<Cell>> = lines.map(row).collect();
    let (count, quantiles) = sum;
    let [p50, p99] = quantiles.map(Cell::ns);
    rows.push(vec!["sum".into(), Cell::Blank, Cell::Count(count), p50, p99, Cell::Percent(1.0), Cell::Bar(Bar::new(0.0, 1.0))]);
    let mut columns = ["stage", "side"].map(Column::words).to_vec();
    columns.extend([Column::figures("count"), Column::us("p50"), Column::us("p99"), Column::figures("share %"), Column::bar()]);
    Table::new(columns, 1, rows)
}
