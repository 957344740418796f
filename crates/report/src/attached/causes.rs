//! Causes of slow transactions, grouped by program, and problems that affect all transactions.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use hairpin_record::attached::{Attached, AttachedBody, SlowCause};
use hairpin_units::Arrange;

use crate::cell::Cell;
use crate::doc::{Column, Doc, List, Table};
use crate::explain::brief::Cause;
use crate::prose::clean;

/// A cause, summed over all processes of one name and over all stages.
struct Row<'a> {
    cause: &'a SlowCause,
    /// The processes, each as it appears in the record.
    who: BTreeSet<(Option<i32>, &'a str)>,
    /// Stages, with the time lost in each.
    stages: Vec<(&'a str, u64)>,
    count: u64,
    lost_ns: u64,
}

/// The table, limited to `most` rows.
pub(super) fn show(doc: &mut Doc, record: &Attached, most: usize) {
    if record.causes.is_empty() && record.slow_observer == 0 {
        return;
    }
    let above = record.slow_above.as_deref().unwrap_or("p99");
    doc.gap();
    doc.heading(format!("Why {} transactions above {above} were slow; lost: us above p50 of the sum, together", record.slow));
    if record.slow_observer > 0 {
        doc.lead("  ", observer(record));
    }
    let rows = by_program(&record.causes);
    if rows.is_empty() {
        return;
    }
    let shown = &rows[..rows.len().min(most)];
    let cells = |row: &Row<'_>| {
        vec![(&row.cause.cause).into(), row.who().into(), row.stage().into(), row.count.into(), Cell::Ns(row.lost_ns as f64)]
    };
    let mut cells: Vec<Vec<Cell>> = shown.iter().map(cells).collect();
    let rest = &rows[shown.len()..];
    if !rest.is_empty() {
        let sum = |of: fn(&Row<'_>) -> u64| rest.iter().map(of).sum::<u64>();
        let plural = if rest.len() == 1 { "row" } else { "rows" };
        let (count, lost) = (sum(|row| row.count), sum(|row| row.lost_ns));
        let name = format!("{count} more in {} {plural}", rest.len());
        cells.push(vec![name.into(), Cell::Blank, Cell::Blank, count.into(), Cell::Ns(lost as f64)]);
    }
    let mut columns = ["cause", "who", "stage"].map(Column::words).to_vec();
    columns.extend([Column::figures("count"), Column::us("lost")]);
    doc.table(Table::new(columns, 1, cells));
    let mut told: Vec<(&str, &str)> = Vec::new();
    for Row { cause, .. } in shown {
        let advice = (cause.cause.as_str(), cause.advice.as_str());
        if !told.contains(&advice) {
            told.push(advice);
            doc.lead("  - ", format!("{}: {}", cause.cause, cause.advice));
        }
    }
}

/// The slow transactions that hairpin itself held up.
pub(super) fn observer(record: &Attached) -> String {
    format!("observer: {} of {} slow ones are hairpin's own, left out below", record.slow_observer, record.slow)
}

/// Each cause with its share of the time, by program.
pub(super) fn brief(record: &AttachedBody) -> Vec<Cause> {
    let rows = by_program(&record.causes);
    let all: f64 = rows.iter().map(|row| row.lost_ns as f64).sum();
    let of = |row: &Row<'_>| Cause {
        share: row.lost_ns as f64 / all.max(1.0),
        cause: row.cause.cause.clone(),
        who: row.who(),
        advice: row.cause.advice.clone(),
    };
    rows.iter().map(of).collect()
}

/// Problems that affect all transactions.
pub(super) fn findings(record: &Attached) -> List {
    let found = record.findings.iter();
    List::warnings("Findings", found.map(|found| format!("{}: {}; {}", found.detector, found.seen, found.advice)).collect())
}

/// The rows, the largest total time first.
fn by_program(causes: &[SlowCause]) -> Vec<Row<'_>> {
    let mut rows: Vec<Row<'_>> = Vec::new();
    for cause in causes {
        let at = rows.iter().position(|row| row.cause.cause == cause.cause && name(row.cause) == name(cause));
        let at = at.unwrap_or_else(|| {
            rows.push(Row { cause, who: BTreeSet::new(), stages: Vec::new(), count: 0, lost_ns: 0 });
            rows.len() - 1
        });
        let row = &mut rows[at];
        row.count += cause.count;
        row.lost_ns += cause.lost_ns;
        row.who.insert((cause.pid, if cause.pid.is_some() { "" } else { &cause.who }));
        match row.stages.iter_mut().find(|(stage, _)| *stage == cause.stage) {
            Some((_, lost)) => *lost += cause.lost_ns,
            None => row.stages.push((&cause.stage, cause.lost_ns)),
        }
    }
    for row in &mut rows {
        row.stages.arrange_by_key(|(_, lost)| Reverse(*lost));
    }
    rows.arrange_by_key(|row| Reverse(row.lost_ns));
    rows
}

/// The name that groups processes; an unnamed thread goes by its number.
fn name(cause: &SlowCause) -> &str {
    if cause.program.is_empty() { &cause.who } else { &cause.program }
}

impl Row<'_> {
    fn who(&self) -> String {
        match self.who.len() {
            1 => clean(&self.cause.who),
            processes => format!("{}, {processes} processes", clean(name(self.cause))),
        }
    }

    fn stage(&self) -> String {
        let first = self.stages.first().map_or("", |(stage, _)| *stage);
        match self.stages.len() {
            0 | 1 => clean(first),
            stages => format!("{}, {} more", clean(first), stages - 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cause(what: &str, program: &str, pid: i32, stage: &str, count: u64) -> SlowCause {
        SlowCause {
            cause: what.into(),
            who: if pid == 0 { String::new() } else { format!("{program} ({pid})") },
            program: program.into(),
            pid: (pid != 0).then_some(pid),
            stage: stage.into(),
            count,
            lost_ns: 1_000 * count,
            advice: "do".into(),
        }
    }

    #[test]
    fn processes_of_one_name_are_one_row() {
        let mut causes: Vec<SlowCause> = (0..170).map(|n| cause("preempted", "busy", 4_000 + n, "queue", 1)).collect();
        causes.push(cause("preempted", "busy", 4_000, "application", 2));
        causes.insert(0, cause("preempted", "cc", 9, "queue", 22));
        causes.push(cause("nothing seen", "", 0, "stack", 1));
        let rows = by_program(&causes);
        let told: Vec<(String, String, u64)> = rows.iter().map(|row| (row.who(), row.stage(), row.count)).collect();
        assert_eq!(
            told,
            [
                ("busy, 170 processes".into(), "queue, 1 more".into(), 172),
                ("cc (9)".into(), "queue".into(), 22),
                (String::new(), "stack".into(), 1)
            ]
        );
    }
}
