//! A report on a terminal of 24 lines: the findings in sentences, the first chart that there is, the bars by host and wire that
//! there is room for, and where the rest is.

use super::results::offered;
use super::strips::strips;
use super::{split, words};
use crate::budget;
use crate::doc::Doc;
use crate::options::Options;
use crate::term::{LINES, height};
use crate::view::View;

/// Where the rest is.
const MORE: &str = "all: -v or -o report.html";

pub(super) fn view(view: &View, options: &Options) -> Doc {
    let fits = |doc: &Doc| height(doc, options) <= LINES;
    let most = view.summary.len().max(view.comparisons.len());
    let found = (0..=most).rev().map(|most| sentences(view, most)).find(|doc| height(doc, options) < LINES).unwrap_or_default();
    let with = |chart: &Doc, bars: Doc| {
        let mut doc = found.clone();
        doc.blocks.extend(chart.blocks.iter().cloned().chain(bars.blocks));
        doc.text(MORE);
        doc
    };
    let rows = (1..=view.rows.len().min(LINES)).rev().map(|most| rows(view, most));
    let mut charts = rows.chain(stages(view)).chain(load(view));
    let chart = charts.find(|chart| fits(&with(chart, Doc::default()))).unwrap_or_default();
    let mut all = (1..=LINES).rev().map(|most| with(&chart, bars(view, most)));
    all.find(fits).unwrap_or_else(|| with(&chart, Doc::default()))
}

/// The first rows, explained paths and loads that have a bar by host and wire.
fn bars(view: &View, most: usize) -> Doc {
    let mut doc = Doc::default();
    let all = split::stamped(view).into_iter().chain(view.loads.iter().filter_map(split::kept));
    for (at, (name, split)) in all.filter(|(_, split)| !split.bar.is_empty()).take(most).enumerate() {
        // A blank line ends the strips of rows.
        if at > 0 || view.rows.is_empty() {
            doc.gap();
        }
        split::headed(&mut doc, &name, split);
    }
    doc
}

fn sentences(view: &View, most: usize) -> Doc {
    let mut doc = Doc::default();
    view.summary.iter().take(most).for_each(|sentence| doc.lead("- ", sentence));
    view.comparisons.iter().take(most).for_each(|found| doc.lead("- ", words::verdict(found)));
    doc
}

/// The first rows on one scale.
fn rows(view: &View, most: usize) -> Doc {
    let mut doc = Doc::default();
    strips(&mut doc, view, most);
    if view.rows.len() > most {
        doc.text(format!("and {} more rows", view.rows.len() - most));
    }
    doc
}

/// The hockey stick of the first path that was offered several rates.
fn load(view: &View) -> Option<Doc> {
    let curve = view.loads.first()?;
    let mut doc = Doc::default();
    doc.gap();
    doc.text(&curve.knee);
    offered(curve).into_iter().for_each(|picture| doc.chart(picture));
    Some(doc)
}

/// The parts of the first path that was explained.
fn stages(view: &View) -> Option<Doc> {
    let found = view.breakdowns.first()?;
    let mut doc = Doc::default();
    doc.gap();
    doc.heading(format!("Where the time goes: {}", words::breakdown(found)));
    budget::bar(&mut doc, found);
    Some(doc)
}
