//! Why transactions were slow: the causes by program, however many processes of it there were, and what is wrong with all of them.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use hairpin_record::attached::{Attached, SlowCause};

use super::SHOWN;
use crate::Options;
use crate::figure::us;
use crate::grid::{Column, Grid};
use crate::notes::{Kind, Section};
use crate::prose::{WIDTH, clean, wrap};
use crate::style::{HEADING, paint};

/// A cause, by all processes of one name, in whichever stages.
struct Row<'a> {
    cause: &'a SlowCause,
    /// Its processes, each as it is named.
    who: BTreeSet<(Option<i32>, &'a str)>,
    /// Stages, with what was lost in each.
    stages: Vec<(&'a str, u64)>,
    count: u64,
    lost_ns: u64,
}

/// The table.
pub(super) fn table(record: &Attached, options: &Options) -> Vec<String> {
    if record.causes.is_empty() && record.slow_observer == 0 {
        return Vec::new();
    }
    let mut lines = vec![String::new()];
    let above = record.slow_above.as_deref().unwrap_or("p99");
    let what = format!("Why {} transactions above {above} were slow; lost: us above p50 of the sum, together", record.slow);
    lines.extend(wrap("", &what, WIDTH).iter().map(|line| paint(line, HEADING, options.colour)));
    if record.slow_observer > 0 {
        let observer = format!(
            "observer: {} of {} slow ones overlap hairpin's own work, left out of causes and slowest transactions",
            record.slow_observer, record.slow
        );
        lines.extend(wrap("  ", &observer, WIDTH));
    }
    let rows = by_program(&record.causes);
    if rows.is_empty() {
        return lines;
    }
    let shown = &rows[..rows.len().min(SHOWN)];
    let mut cells: Vec<Vec<String>> = shown
        .iter()
        .map(|row| vec![clean(&row.cause.cause), row.who(), row.stage(), row.count.to_string(), us(row.lost_ns as f64)])
        .collect();
    let rest = &rows[shown.len()..];
    if !rest.is_empty() {
        let sum = |of: fn(&Row<'_>) -> u64| rest.iter().map(of).sum::<u64>();
        let plural = if rest.len() == 1 { "row" } else { "rows" };
        let (count, lost) = (sum(|row| row.count), sum(|row| row.lost_ns));
        cells.push(vec![
            format!("{count} more in {} {plural}", rest.len()),
            String::new(),
            String::new(),
            count.to_string(),
            us(lost as f64),
        ]);
    }
    let columns = vec![
        Column::words("cause"),
        Column::words("who"),
        Column::words("stage"),
        Column::figures("count"),
        Column::figures("lost"),
    ];
    lines.extend(Grid { columns, labels: 1, rows: cells }.lines(options.columns(), options.colour));
    let mut told: Vec<&str> = Vec::new();
    for Row { cause, .. } in shown {
        if !told.contains(&cause.cause.as_str()) {
            told.push(&cause.cause);
            lines.extend(wrap("  - ", &format!("{}: {}", cause.cause, cause.advice), WIDTH));
        }
    }
    lines
}

/// What is wrong with all transactions, if anything.
pub(super) fn findings(record: &Attached) -> Section {
    let found = record.findings.iter();
    let items = found.map(|finding| format!("{}: {}; {}", finding.detector, finding.seen, finding.advice)).collect();
    Section { heading: "Findings", kind: Kind::Warning, items }
}

/// The rows, the one that took most time first.
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
        row.stages.sort_by_key(|(_, lost)| Reverse(*lost));
    }
    rows.sort_by_key(|row| Reverse(row.lost_ns));
    rows
}

/// What processes have in common; a thread whose name was not read has its number alone.
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
