//! The demo's table, ordered by RTT p50 over every link, and what it shows in three sentences.

use hairpin_record::run::{Row, Run};

use crate::Options;
use crate::figure::payload;
use crate::label::{self, Name};
use crate::notes::{ending, lines};
use crate::prose::{WIDTH, wrap};
use crate::sentences::{Entry, sentences};
use crate::style::{HEADING, paint};
use crate::table::{below, context, results};

/// One table over all runs, each row with its run's link, then three sentences made from the rows.
///
/// Rows without an RTT p50 come last.
pub fn demo(runs: &[Run], options: &Options) -> String {
    let mut rows: Vec<(&Run, &Row)> = runs.iter().flat_map(|run| run.results.iter().map(move |row| (run, row))).collect();
    rows.sort_by_key(|(_, row)| row.rtt_ns.p50.unwrap_or(u64::MAX));
    let links: Vec<&str> = rows.iter().map(|(run, _)| run.link.kind.as_str()).collect();
    let named: Vec<(Name, &Row)> = rows.iter().map(|(run, row)| (label::name(row, Some(&run.link.kind)), *row)).collect();
    let entries: Vec<Entry<'_>> =
        rows.iter().map(|(run, row)| Entry { row, link: &run.link.kind, client: &run.hosts.client }).collect();

    let mut text: Vec<String> = runs.iter().flat_map(|run| wrap("", &context(run), WIDTH)).collect();
    if !named.is_empty() {
        text.push(String::new());
        text.extend(wrap("", &sizes(&named), WIDTH));
    }
    text.extend(results(&named, Some(&links), options));
    text.extend(below(&named, options));
    for run in runs {
        text.extend(lines(&ending(run).into_iter().collect::<Vec<_>>(), options.colour));
    }
    text.extend([String::new(), paint("What this shows", HEADING, options.colour)]);
    for (i, sentence) in sentences(&entries).iter().enumerate() {
        text.extend(wrap(&format!("{:>3}. ", i + 1), sentence, WIDTH));
    }
    text.join("\n") + "\n"
}

/// Every payload that occurs, in the order of the rows.
fn sizes(rows: &[(Name, &Row)]) -> String {
    let mut sizes: Vec<String> = Vec::new();
    for (_, row) in rows {
        let size = payload(row);
        if !sizes.contains(&size) {
            sizes.push(size);
        }
    }
    format!("Payload of request and reply: {} B", sizes.join(", "))
}
