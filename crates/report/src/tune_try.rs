//! The output of `hairpin tune try`: the gain of each setting on each path, its cost, and what to do next.

use hairpin_record::compare::{Arm, Compare, Comparison};
use hairpin_record::experiment::{Estimate, Figure, Verdict};
use hairpin_record::tune_try::{TriedPath, TuneTry};

use crate::cell::{Cell, IntoCell};
use crate::columns::RTT;
use crate::compare::{interval, rounds};
use crate::doc::{Column, Data, Doc, List, Show, Table};
use crate::figure::{fine_ratio as ratio, payloads, us};
use crate::label::{Name, short};
use crate::link::link_words;
use crate::notes::{ended, warned};
use crate::options::Options;
use crate::prose::clean;

impl Show for TuneTry {
    fn doc(&self, _: &Options) -> Doc {
        let mut doc = Doc::of(&self.head, context(self));
        doc.text(format!(
            "RTT: {RTT}. Ratios are of pairs of blocks in turn, with a setting over as it is; p50, p99, CPU (user + system time per transaction of both \
             sides): below 1 is better; rate (transactions/s): above 1. As it is: the median of its blocks, which weigh alike, as they do in the ratios. Idle: \
             share of the cores' time in idle states that take time to leave"
        ));
        for path in &self.paths {
            doc.gap();
            doc.heading(head(&path.alone));
            doc.table(table(self, path));
        }
        doc.gap();
        doc.text(conclusion(self));
        if let Some(profile) = &self.profile {
            doc.gap();
            doc.heading("The profile");
            // The evidence for the profile is already shown above.
            let knobs = profile.lines().skip_while(|line| *line != "[knobs]").take_while(|line| !line.starts_with("[evidence"));
            let mut knobs: Vec<String> = knobs.map(str::to_owned).collect();
            while knobs.last().is_some_and(|line| line.trim().is_empty()) {
                knobs.pop();
            }
            doc.verbatim(knobs);
        }
        left_out(&mut doc, self);
        doc.list(warnings(self));
        doc.list(ended(&self.head));
        doc.data = Some(data(self));
        doc
    }
}

/// One line per path, setting and figure.
fn data(record: &TuneTry) -> Data {
    let names = "path setting verdict figure ratio low high pairs";
    let of_path = |path: &'_ TriedPath| {
        let spec = path.alone.arms.first().map(|arm| arm.path.clone()).unwrap_or_default();
        let alone = path.alone.comparisons.iter().enumerate().map(|(at, found)| (setting(record, at).to_owned(), found));
        let together = path.together.iter().flat_map(|together| together.comparisons.first());
        let all = alone.chain(together.map(|found| (record.winners.join(" "), found)));
        let lines = all.flat_map(|(name, comparison)| {
            let line = |found: &Estimate| -> [Cell; 8] {
                [
                    (&spec).into(),
                    (&name).into(),
                    comparison.verdict.to_string().into(),
                    found.figure.to_string().into(),
                    found.ratio.into(),
                    found.low.into(),
                    found.high.into(),
                    found.pairs.into(),
                ]
            };
            comparison.figures.iter().map(line).collect::<Vec<_>>()
        });
        lines.collect::<Vec<_>>()
    };
    Data::table(names, record.paths.iter().flat_map(of_path))
}

fn setting(record: &TuneTry, at: usize) -> &str {
    record.settings.get(at).map_or("?", |tried| &tried.setting)
}

fn context(record: &TuneTry) -> Vec<String> {
    let count = record.settings.len();
    let host = record.host.as_ref().map(|host| clean(&host.hostname));
    let interface = record.interface.as_ref().map(|interface| format!("interface {}", clean(interface)));
    let settings = format!("{count} setting{} on and off in turn", if count == 1 { "" } else { "s" });
    host.into_iter().chain(interface).chain([settings]).collect()
}

fn table(record: &TuneTry, path: &TriedPath) -> Table {
    let mut rows = vec![as_it_is(path)];
    let mut order: Vec<usize> = (0..path.alone.comparisons.len()).collect();
    let of =
        |at: &usize| estimate(&path.alone.comparisons[*at], Figure::P50).and_then(|found| found.ratio).unwrap_or(f64::INFINITY);
    order.sort_by(|a, b| of(a).total_cmp(&of(b)));
    let idle = |at: usize| path.deep_idle.get(at + 1).copied().flatten();
    rows.extend(order.into_iter().map(|at| row(setting(record, at), &path.alone.comparisons[at], idle(at))));
    if let Some(comparison) = path.together.as_ref().and_then(|together| together.comparisons.first()) {
        rows.push(row("all winners together, anew", comparison, path.together_deep_idle.get(1).copied().flatten()));
    }
    let mut columns = vec![Column::words("setting"), Column::words("")];
    columns.extend(["p50", "interval", "p99"].map(|title| Column::figures(title).under("RTT")));
    columns.extend(["rate", "CPU", "idle"].map(Column::figures));
    Table::new(columns, 1, rows)
}

fn head(compare: &Compare) -> String {
    let arm = compare.arms.first();
    let mut parts: Vec<String> = arm
        .map(|arm| {
            let size = format!("{} B", payloads(arm.request_bytes, arm.reply_bytes));
            let link = arm.link.as_ref().map(|link| format!("over {}", link_words(link).join(", ")));
            [Some(short(&arm.path)), Some(size), link].into_iter().flatten().collect()
        })
        .unwrap_or_default();
    parts.extend(compare.design.as_ref().map(rounds));
    parts.join(", ")
}

fn as_it_is(path: &TriedPath) -> Vec<Cell> {
    let figures = path.alone.arms.first().map(|arm| arm.typical.unwrap_or(arm.figures)).unwrap_or_default();
    let p50 = figures.p50_ns.map_or_else(String::new, |ns| format!(": {} us", us(ns)));
    let mut row = vec![format!("as it is{p50}").into(), Cell::Blank, Cell::Ratio(1.0)];
    row.extend([const { Cell::Blank }; 4]);
    row.push(whole_percent(path.deep_idle.first().copied().flatten()));
    row
}

fn row(name: &str, comparison: &Comparison, idle: Option<f64>) -> Vec<Cell> {
    let found = |figure| estimate(comparison, figure);
    let ratio_of = |figure| found(figure).and_then(|found| found.ratio).into_cell(Cell::Ratio);
    let p50 = found(Figure::P50);
    vec![
        name.into(),
        comparison.verdict.to_string().into(),
        ratio_of(Figure::P50),
        interval(p50.and_then(|found| found.low), p50.and_then(|found| found.high), "..").into(),
        ratio_of(Figure::P99),
        ratio_of(Figure::Rate),
        ratio_of(Figure::Cpu),
        whole_percent(idle),
    ]
}

fn estimate(comparison: &Comparison, figure: Figure) -> Option<&Estimate> {
    comparison.figures.iter().find(|estimate| estimate.figure == figure)
}

fn whole_percent(share: Option<f64>) -> Cell {
    share.into_cell(|share| format!("{:.0} %", share * 100.0).into())
}

/// The outcome, and what to do next.
fn conclusion(record: &TuneTry) -> String {
    if !record.contradictions.is_empty() {
        let ends = |[low, high]: [f64; 2]| format!("{} to {}", ratio(low), ratio(high));
        let told = record.contradictions.iter().map(|found| {
            let (settings, path) = (clean(&found.settings.join(", ")), short(&found.path));
            format!("{settings}: {path} had p50 {} alone and {} measured anew", ends(found.alone), ends(found.anew))
        });
        return format!(
            "Unclear: {}. These exclude each other, so this host has moods that last longer than a round, and at least one of the two is its mood: a \
             longer --duration would tell. There is no profile, and all is as it was.",
            told.collect::<Vec<_>>().join("; ")
        );
    }
    if record.winners.is_empty() {
        let unclear = record.paths.iter().flat_map(|path| &path.alone.comparisons);
        let unclear = unclear.filter(|comparison| comparison.verdict == Verdict::Unclear).count();
        let more = match unclear {
            0 => String::new(),
            1 => "; one is unclear, and a longer --duration would tell".into(),
            _ => format!("; {unclear} are unclear, and a longer --duration would tell"),
        };
        return format!("No setting made a path faster without making another slower{more}. All is as it was.");
    }
    let after = if record.kept {
        "They are in force now; `hairpin tune revert` puts them back.".to_owned()
    } else {
        let held = record.settings.iter().any(|tried| tried.held && record.winners.contains(&tried.setting));
        let how = if held {
            "`hairpin tune apply PROFILE.toml --while -- COMMAND` has them in force as long as COMMAND runs"
        } else {
            "`hairpin tune apply PROFILE.toml` puts them in force"
        };
        format!("All is as it was. -o PROFILE.toml writes the profile, and {how}.")
    };
    format!("Worth having: {}. {after}", record.winners.iter().map(|name| clean(name)).collect::<Vec<_>>().join(", "))
}

fn left_out(doc: &mut Doc, record: &TuneTry) {
    let mut by_why: Vec<(&str, Vec<&str>)> = Vec::new();
    for left in &record.left_out {
        match by_why.iter_mut().find(|(why, _)| *why == left.why) {
            Some((_, settings)) => settings.push(&left.setting),
            None => by_why.push((&left.why, vec![&left.setting])),
        }
    }
    let items = by_why.iter().map(|(why, settings)| format!("{}: {why}", settings.join(", ")));
    doc.list(List::plain("Not tried", items.collect()));
}

fn warnings(record: &TuneTry) -> List {
    let mut arms: Vec<&Arm> = Vec::new();
    let mut names: Vec<Name> = Vec::new();
    for path in &record.paths {
        for arm in path.alone.arms.iter().chain(path.together.iter().flat_map(|together| &together.arms)) {
            names.push(Name { base: short(&arm.path), size: arm.given.clone() });
            arms.push(arm);
        }
    }
    warned(&names, &arms, |arm| &arm.warnings)
}
