//! The same table for a page: GitHub-flavoured Markdown with the unit in every heading.

use hairpin_record::run::{Row, Run};

use crate::Options;
use crate::accounts::accounts;
use crate::columns::{CpuOf, RTT, times, titles, turnaround};
use crate::figure::{payload, rate, us_or_blank};
use crate::grid::Grid;
use crate::label::{self, Name};
use crate::notes::{Kind, Section, ending, sections};
use crate::prose::clean;
use crate::table::{context, unreadable};

/// The run as a Markdown table with its notes; width and colour do not apply.
pub fn markdown(run: &Run, options: &Options) -> String {
    let rows: Vec<(Name, &Row)> = run.results.iter().map(|row| (label::name(row, None), row)).collect();
    let cpu = CpuOf::rows(run.results.iter());
    let what = if options.hrt { "RTT/2, not one-way, of RTT" } else { "RTT" };
    let mut text = vec![escape(&context(run)), String::new()];
    text.push(format!("{}: {}. CPU: {}.", what, escape(RTT), cpu.words()));
    text.push(String::new());

    let unit = if options.hrt { "RTT/2" } else { "RTT" };
    let mut heads = vec!["path".into(), "payload, B".into(), "transactions/s".into()];
    heads.extend(titles(options).iter().map(|title| format!("{unit} {title}, us")));
    heads.extend(["turn-around p50, us".into(), "CPU per transaction, us".into()]);
    let cells = |(_, row): &(Name, &Row)| {
        let mut cells = vec![label::path(row), payload(row), rate(row.transactions_per_s)];
        cells.extend(times(row, options).0.into_iter().map(us_or_blank));
        cells.extend([turnaround(row), cpu.per_transaction(row)].map(us_or_blank));
        cells
    };
    text.extend(lines(&heads, 1, rows.iter().map(cells)));

    let plain: Vec<&Row> = run.results.iter().collect();
    for account in accounts(&plain) {
        let Grid { columns, rows, .. } = account.grid;
        let heads: Vec<String> = columns.iter().map(|column| column.full_title()).collect();
        text.extend([String::new(), format!("{}:", escape(account.heading)), String::new()]);
        text.extend(lines(&heads, 1, rows.into_iter()));
    }
    for section in sections(&rows).into_iter().chain(unreadable(&rows, options)).chain(ending(run)) {
        text.extend(list(&section));
    }
    text.join("\n") + "\n"
}

/// A headed list.
pub(crate) fn list(section: &Section) -> Vec<String> {
    let mut text = vec![String::new(), format!("**{}**", section.heading), String::new()];
    for (i, item) in section.items.iter().enumerate() {
        let mark = if section.kind == Kind::Warning { format!("{}.", i + 1) } else { "-".into() };
        text.push(format!("{mark} {}", escape(item)));
    }
    text
}

/// Head, rule and rows; the first `left` columns are aligned left.
pub(crate) fn lines(heads: &[String], left: usize, rows: impl Iterator<Item = Vec<String>>) -> Vec<String> {
    let line = |cells: &[String]| format!("| {} |", cells.iter().map(|cell| escape(cell)).collect::<Vec<_>>().join(" | "));
    let rule: Vec<&str> = (0..heads.len()).map(|i| if i < left { ":---" } else { "---:" }).collect();
    let mut lines = vec![line(heads), format!("| {} |", rule.join(" | "))];
    lines.extend(rows.map(|row| line(&row)));
    lines
}

/// Keeps a text from being read as markup.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::new();
    for c in clean(text).chars() {
        if matches!(c, '\\' | '|' | '`' | '*' | '_' | '<' | '[' | ']' | '#') {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}
