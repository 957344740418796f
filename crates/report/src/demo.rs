//! Several runs in one document: rows ordered by RTT p50 over all links, a three-sentence summary, and the warnings.

use hairpin_record::core_states::CoreStates;
use hairpin_record::run::{Row, Run};
use hairpin_units::Arrange;

use crate::brief;
use crate::doc::{Data, Doc, List, Show, Shown};
use crate::figure::payload;
use crate::kinds;
use crate::label::{self, Name};
use crate::notes::{APART, ended, hosts};
use crate::options::Options;
use crate::prose::clean;
use crate::run::{head, line, results};
use crate::sentences::{Entry, sentences};
use crate::style::Tone;
use crate::term::{fitting, height};

/// The most rows of the short view: the fastest.
const SHORT: usize = 12;

/// One table over all runs, with the link in each row; three sentences derived from the rows; then each kind of warning once.
///
/// Rows without an RTT p50 come last.
impl Show for [Run] {
    fn doc(&self, options: &Options) -> Doc {
        let mut rows: Vec<(&Run, &Row)> = self.iter().flat_map(|run| run.results.iter().map(move |row| (run, row))).collect();
        rows.arrange_by_key(|(_, row)| row.rtt_ns.p50.unwrap_or(u64::MAX));
        let links: Vec<&str> = rows.iter().map(|(run, _)| run.place.link.kind.as_str()).collect();
        let named: Vec<(Name, &Row)> =
            rows.iter().map(|(run, row)| (label::name(row, Some(&run.place.link.kind)), *row)).collect();
        let states = CoreStates::of(rows.iter().map(|(run, row)| (hosts(run), *row)));
        let entries: Vec<Entry<'_>> = rows
            .iter()
            .enumerate()
            .map(|(at, (run, row))| Entry {
                row,
                link: &run.place.link.kind,
                hosts: hosts(run),
                client: &run.place.hosts.client,
                apart: states.apart(at),
            })
            .collect();

        let mut full = Doc::default();
        self.iter().for_each(|run| full.blocks.extend(head(run).blocks));
        if !named.is_empty() {
            full.gap();
            full.text(sizes(&named));
        }
        results(&mut full, &named, Some(&links), &states, options);
        let mut doc = Doc::default();
        doc.part(Shown::Screen, brief::heading(&rows, options));
        doc.part(Shown::Full, full);
        let short = |most: usize| {
            let mut short = brief::table(&rows[..rows.len().min(most)], &states, options);
            if rows.len() > most {
                short.toned("", format!("+{} slower rows: -v", rows.len() - most), Tone::Dim);
            }
            short
        };
        let mut end = Doc::default();
        end.list(List::numbered("Conclusions", sentences(&entries).into()));
        end.list(warned(&named, &states));
        end.lists(self.iter().map(|run| ended(&run.head)));
        let others = height(&doc, options) + height(&end, options);
        doc.part(Shown::Brief, fitting((3..=SHORT).rev().map(short), others, options));
        doc.blocks.extend(end.blocks);
        let lines = self.iter().flat_map(|run| run.results.iter().map(|row| line(run, row, options)));
        doc.data = self.first().map(|run| Data::new(line(run, &Row::default(), options), lines));
        doc
    }
}

/// Each kind of warning once, with the number of rows that have it and the first row's message. The records hold all messages.
fn warned(rows: &[(Name, &Row)], states: &CoreStates) -> List {
    let mut kinds: Vec<(&str, usize, String)> = Vec::new();
    for (name, row) in rows {
        let mut seen: Vec<&str> = Vec::new();
        for warning in &row.warnings {
            if seen.contains(&warning.code.as_str()) {
                continue;
            }
            seen.push(&warning.code);
            match kinds.iter_mut().find(|(code, ..)| *code == warning.code) {
                Some((_, count, _)) => *count += 1,
                None => kinds.push((&warning.code, 1, format!("{}: {}", name.base, clean(&warning.message)))),
            }
        }
    }
    let apart: Vec<(String, String)> =
        rows.iter().enumerate().filter_map(|(at, (name, _))| Some((name.base.clone(), states.apart(at)?.words()))).collect();
    if let Some((name, words)) = apart.first() {
        kinds.insert(0, (APART, apart.len(), format!("{name}: {words}")));
    }
    let items =
        kinds.into_iter().map(|(code, count, first)| format!("{} in {count} of {} rows; {first}", clean(code), rows.len()));
    let (names, rows): (Vec<Name>, Vec<&Row>) = rows.iter().cloned().unzip();
    let short = kinds::lines(&names, &rows, |row| &row.warnings);
    List { short, ..List::warnings("Warnings, each kind once; `hairpin runs show` has them all", items.collect()) }
}

/// Every payload size that occurs, in row order.
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
