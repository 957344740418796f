//! The output of `hairpin tune try`: the gain of each setting on each path, its cost, and the next step.

use hairpin_record::compare::{Arm, Compare, Comparison};
use hairpin_record::experiment::{Estimate, Figure, Verdict};
use hairpin_record::tune_try::{TriedPath, TuneTry};
use hairpin_units::Arrange;

use crate::brief::placed;
use crate::cell::{Cell, IntoCell};
use crate::columns::RTT;
use crate::compare::{interval, rounds, tone};
use crate::doc::{Block, Column, Data, Doc, List, Show, Shown, Table, Text};
use crate::figure::{fine_ratio as ratio, payloads, seconds, time, us};
use crate::kinds;
use crate::label::{Name, short};
use crate::link::link_words;
use crate::next;
use crate::notes::{ended, warned};
use crate::options::Options;
use crate::prose::clean;
use crate::style::Tone;
use crate::term::{fitting, height};

impl Show for TuneTry {
    fn doc(&self, options: &Options) -> Doc {
        let mut doc = Doc::default();
        let (said, word, tone) = conclusion(self);
        doc.verdict("", said, word, tone);
        let mut end = Doc::default();
        end.gap();
        resolution(self).into_iter().for_each(|said| end.text(said));
        not_tried(self).into_iter().for_each(|said| end.text(said));
        let mut brief = Doc::default();
        brief.blocks.extend(notes(self).into_iter().map(Block::Text));
        end.part(Shown::Brief, brief);
        let mut last = Doc::default();
        last.list(ended(&self.head));
        let items: Vec<String> = next(self).into_iter().flat_map(|command| [command, "(-v: all)".into()]).collect();
        let mut commands = Doc::default();
        next::show(&mut commands, &items, options);
        last.part(Shown::Brief, commands);
        let tables = |most: usize| {
            let mut doc = Doc::default();
            doc.gap();
            doc.text(place(self));
            doc.table(overview(self, most));
            if self.settings.len() > most {
                doc.text(format!("and {} more", self.settings.len() - most));
            }
            doc
        };
        let others = [&doc, &end, &last].map(|part| height(part, options)).iter().sum();
        let fitted = fitting((1..=LINES).rev().map(tables), others, options);
        doc.blocks.extend(fitted.blocks);
        doc.blocks.extend(end.blocks);
        let mut rest = Doc::default();
        rest.gap();
        rest.blocks.extend(Doc::of(&self.head, context(self)).blocks);
        rest.text(format!(
            "RTT: {RTT}. Ratios are of pairs of blocks in turn, with a setting over as it is; p50, p99, CPU (user + system time per transaction of both \
             sides): below 1 is better; rate (transactions/s): above 1. As it is: the median of its blocks, which weigh alike, as they do in the ratios. Idle: \
             share of the cores' time in idle states that take time to leave"
        ));
        for path in &self.paths {
            rest.gap();
            rest.heading(head(&path.alone));
            rest.table(table(self, path));
        }
        if let Some(profile) = &self.profile {
            rest.gap();
            rest.heading("The profile");
            // The evidence for the profile is already shown above.
            let knobs = profile.lines().skip_while(|line| *line != "[knobs]").take_while(|line| !line.starts_with("[evidence"));
            let mut knobs: Vec<String> = knobs.map(str::to_owned).collect();
            while knobs.last().is_some_and(|line| line.trim().is_empty()) {
                knobs.pop();
            }
            rest.verbatim(knobs);
        }
        left_out(&mut rest, self);
        rest.list(warnings(self));
        doc.part(Shown::Full, rest);
        doc.blocks.extend(last.blocks);
        doc.data = Some(data(self));
        doc
    }
}

/// Link, payload and placement, as far as all paths share them.
fn place(record: &TuneTry) -> String {
    let arms = || record.paths.iter().flat_map(|path| &path.alone.arms);
    let Some(first) = arms().next() else { return String::new() };
    let link = first.link.as_ref().filter(|_| arms().all(|arm| arm.link == first.link)).map(|link| link_words(link).join(", "));
    let size = |arm: &Arm| payloads(arm.request_bytes, arm.reply_bytes);
    let payload = arms().all(|arm| size(arm) == size(first)).then(|| format!("{} B", size(first)));
    let cpus = first.cpus.as_ref().filter(|_| arms().all(|arm| arm.cpus == first.cpus));
    let on = cpus.map(|cpus| placed(&cpus.client, &cpus.server)).filter(|on| !on.is_empty());
    link.into_iter().chain(payload).chain(on).collect::<Vec<_>>().join(", ")
}

/// Warnings in short.
fn notes(record: &TuneTry) -> Vec<Text> {
    let arms =
        record.paths.iter().flat_map(|path| path.alone.arms.iter().chain(path.together.iter().flat_map(|found| &found.arms)));
    let arms: Vec<&Arm> = arms.collect();
    let whose = |of: &[usize]| kinds::share(of, arms.len(), "sides");
    kinds::lines_of(&arms, |arm| &arm.warnings, whose)
}

/// Lines of the table of settings.
const LINES: usize = 7;
/// The smallest difference worth detecting.
const WANTED: f64 = 0.05;

/// A line for each setting, those with the strongest effect first: the ratio of p50 and its verdict on every path.
fn overview(record: &TuneTry, most: usize) -> Table {
    let ratio = |path: &TriedPath, at: usize| {
        let found = path.alone.comparisons.get(at)?;
        Some((estimate(found, Figure::P50)?.ratio?, found.verdict))
    };
    let told = |verdict| matches!(verdict, Verdict::Faster | Verdict::Slower);
    let weight = |at: usize| {
        let all = record.paths.iter().filter_map(|path| ratio(path, at));
        all.map(|(ratio, verdict)| ratio.ln().abs() + if told(verdict) { 1e3 } else { 0.0 }).fold(0.0, f64::max)
    };
    let mut order: Vec<usize> = (0..record.settings.len()).collect();
    order.arrange_by(|a, b| weight(*b).total_cmp(&weight(*a)));
    let mut columns = vec![Column::words("p50, setting on over as it is")];
    for path in &record.paths {
        columns.push(Column::figures(path.alone.arms.first().map_or_else(String::new, |arm| short(&arm.path))));
        columns.push(Column::words(""));
    }
    let cells = |name: &str, of: &dyn Fn(&TriedPath) -> Option<(f64, Verdict)>| {
        let mut cells: Vec<Cell> = vec![name.into()];
        for path in &record.paths {
            let found = of(path);
            cells.push(found.map(|(ratio, _)| ratio).into_cell(Cell::Ratio));
            cells.push(found.into_cell(|(_, verdict)| Cell::Word(verdict.to_string(), tone(verdict))));
        }
        cells
    };
    let mut rows: Vec<Vec<Cell>> =
        order.iter().take(most).map(|at| cells(setting(record, *at), &|path| ratio(path, *at))).collect();
    if record.paths.iter().any(|path| path.together.is_some()) && record.winners.len() > 1 {
        let together = |path: &TriedPath| {
            let found = path.together.as_ref()?.comparisons.first()?;
            Some((estimate(found, Figure::P50)?.ratio?, found.verdict))
        };
        rows.push(cells("all winners together, anew", &together));
    }
    Table::new(columns, 1, rows)
}

/// The difference that this duration can detect on this host, and the duration that detects the wanted one.
fn resolution(record: &TuneTry) -> Option<String> {
    let found = record.paths.iter().flat_map(|path| &path.alone.comparisons).filter_map(|found| estimate(found, Figure::P50));
    let mut halves: Vec<f64> =
        found.filter_map(|found| Some((found.high? / found.low?).ln() / 2.0)).filter(|half| half.is_finite()).collect();
    halves.arrange_by(f64::total_cmp);
    let middle = halves.get(halves.len() / 2)?;
    let elapsed = |compare: &Compare| compare.design.as_ref().map_or(0, |design| design.elapsed_ns);
    let whole: u64 = record.paths.iter().map(|path| elapsed(&path.alone) + path.together.as_ref().map_or(0, elapsed)).sum();
    let (whole, wanted) = (whole as f64 / 1e9, WANTED.ln_1p());
    if whole <= 0.0 {
        return None;
    }
    // The interval narrows with the square root of the duration.
    let longer = if *middle > wanted {
        format!("; about {} would tell 5 % (--for)", seconds(whole * (middle / wanted).powi(2)))
    } else {
        String::new()
    };
    Some(format!("{} told differences of {:.1} % and more apart here{longer}", seconds(whole), middle.exp_m1() * 100.0))
}

/// Number of settings not tried, by the kind of reason.
fn not_tried(record: &TuneTry) -> Option<String> {
    let kind = |why: &str| match why {
        why if why.contains("-i IF") => "need -i IF",
        why if why.contains("already") => "already so",
        why if why.starts_with("this host has no") || why.contains("does not exist") => "absent here",
        _ => "refused",
    };
    let mut kinds: Vec<(&str, usize)> = Vec::new();
    for left in &record.left_out {
        match kinds.iter_mut().find(|(known, _)| *known == kind(&left.why)) {
            Some((_, count)) => *count += 1,
            None => kinds.push((kind(&left.why), 1)),
        }
    }
    kinds.arrange_by_key(|(_, count)| std::cmp::Reverse(*count));
    let parts: Vec<String> = kinds.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    (!parts.is_empty()).then(|| format!("{} not tried: {} (-v)", record.left_out.len(), parts.join(", ")))
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
    order.arrange_by(|a, b| of(a).total_cmp(&of(b)));
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

/// The outcome and the next step; its decisive word.
fn conclusion(record: &TuneTry) -> (String, &'static str, Tone) {
    if !record.contradictions.is_empty() {
        let ends = |[low, high]: [f64; 2]| format!("{} to {}", ratio(low), ratio(high));
        let told = record.contradictions.iter().map(|found| {
            let (settings, path) = (clean(&found.settings.join(", ")), short(&found.path));
            format!("{settings}: {path} had p50 {} alone and {} measured anew", ends(found.alone), ends(found.anew))
        });
        let said = format!(
            "unclear: {}. These exclude each other, so this host has moods that last longer than a round, and at least one of the two is its mood: a \
             longer --for would tell. There is no profile, and all is as it was.",
            told.collect::<Vec<_>>().join("; ")
        );
        return (said, "unclear", Tone::Warning);
    }
    if is_undecided(record) {
        let said = "undecided: it ended before what made a path faster was measured again; all is as it was";
        return (said.into(), "undecided", Tone::Warning);
    }
    if record.winners.is_empty() {
        let of = |verdict| {
            let all = record.paths.iter().flat_map(|path| &path.alone.comparisons);
            all.filter(|comparison| comparison.verdict == verdict).count()
        };
        let counted = [(of(Verdict::Same), "the same"), (of(Verdict::Slower), "slower"), (of(Verdict::Unclear), "unclear")];
        let counted: Vec<String> =
            counted.iter().filter(|(count, _)| *count > 0).map(|(count, word)| format!("{count} {word}")).collect();
        let counted = if counted.is_empty() { String::new() } else { format!(" ({})", counted.join(", ")) };
        return (
            format!(
                "nothing worth having: no setting made a path faster without making another slower{counted}; all is as it was"
            ),
            "nothing worth having",
            Tone::Warning,
        );
    }
    let (held, lasting) = winners(record);
    let after = match (record.kept && !lasting.is_empty(), held.is_empty()) {
        (true, true) => "They are in force now; `hairpin tune revert` puts them back.".to_owned(),
        (true, false) => format!(
            "{} in force now, until `hairpin tune revert`; {} lasts only as long as a process holds it.",
            are(&lasting),
            held.join(", ")
        ),
        (false, is_lasting) => {
            let attended = if is_lasting { "" } else { " --while -- COMMAND" };
            format!("All is as it was; -o PROFILE.toml writes the profile for `hairpin tune apply PROFILE.toml{attended}`.")
        }
    };
    let gains = gains(record);
    let gains = if gains.is_empty() { String::new() } else { format!(" ({})", gains.join("; ")) };
    (
        format!("worth having: {}{gains}. {after}", record.winners.iter().map(|name| clean(name)).collect::<Vec<_>>().join(", ")),
        "worth having",
        Tone::Heading,
    )
}

/// True if it ended before a setting that made a path faster was measured again.
pub(crate) fn is_undecided(record: &TuneTry) -> bool {
    let ended_early = record.head.interrupted || record.head.error.is_some();
    let mut alone = record.paths.iter().flat_map(|path| &path.alone.comparisons);
    ended_early && record.winners.is_empty() && alone.any(|found| found.verdict == Verdict::Faster)
}

/// The winners in force only as long as a process holds them, and the others.
fn winners(record: &TuneTry) -> (Vec<String>, Vec<String>) {
    let is_held = |name: &&String| record.settings.iter().any(|tried| tried.held && tried.setting == **name);
    let (held, lasting): (Vec<&String>, Vec<&String>) = record.winners.iter().partition(is_held);
    let cleaned = |names: Vec<&String>| names.into_iter().map(|name| clean(name)).collect();
    (cleaned(held), cleaned(lasting))
}

fn are(names: &[String]) -> String {
    format!("{} {}", names.join(", "), if names.len() == 1 { "is" } else { "are" })
}

/// The command that puts those winners in force that are not.
fn next(record: &TuneTry) -> Option<String> {
    let (held, lasting) = winners(record);
    let attended = if held.is_empty() { "" } else { " --while -- COMMAND" };
    let names = if record.kept { held } else { [held, lasting].concat() };
    if names.is_empty() {
        return None;
    }
    let interface = record.interface.as_ref().map_or(String::new(), |name| format!(" -i {name}"));
    next::plain(format!("sudo hairpin tune apply {}{interface}{attended}", names.join(" ")))
}

/// The combined gain of all winners on each path, measured anew.
fn gains(record: &TuneTry) -> Vec<String> {
    let of = |path: &TriedPath| {
        let found = estimate(path.together.as_ref()?.comparisons.first()?, Figure::P50)?;
        let name = short(&path.alone.arms.first()?.path);
        Some(format!("{name} p50 {} -> {}", time(found.base?), time(found.value?)))
    };
    record.paths.iter().filter_map(of).collect()
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
