//! The text of `hairpin tune try`: what each setting is worth on each path, what it costs, and what to do with it.

use hairpin_record::compare::{Arm, Compare, Comparison};
use hairpin_record::experiment::{Estimate, Figure, Verdict};
use hairpin_record::tune_try::{TriedPath, TuneTry};
use hairpin_units::Nanos;

use crate::Options;
use crate::columns::RTT;
use crate::compare::{ratio, seconds};
use crate::figure::{payloads, us};
use crate::grid::{Column, Grid};
use crate::label::{Name, short};
use crate::notes::{Kind, Section, ended, lines, warnings};
use crate::prose::{WIDTH, clean, wrap};
use crate::style::{HEADING, paint};
use crate::table::link_words;

/// The record as a screen of 80 columns.
pub fn tune_try(record: &TuneTry, options: &Options) -> String {
    let mut text = wrap("", &context(record), WIDTH);
    let meaning = format!(
        "RTT: {RTT}. Ratios are of pairs of blocks in turn, with a setting over as it is; p50, p99, CPU (user + system time per transaction of both \
         sides): below 1 is better; rate (transactions/s): above 1. As it is: the median of its blocks, which weigh alike, as they do in the ratios. Idle: \
         share of the cores' time in idle states that take time to leave"
    );
    text.extend(wrap("", &meaning, WIDTH));
    for path in &record.paths {
        text.push(String::new());
        text.extend(one(record, path, options));
    }
    text.push(String::new());
    text.extend(wrap("", &conclusion(record), WIDTH));
    if let Some(profile) = &record.profile {
        text.push(String::new());
        text.push(paint("The profile", HEADING, options.colour));
        // What it was made from stands above.
        let knobs = profile.lines().skip_while(|line| *line != "[knobs]").take_while(|line| !line.starts_with("[evidence"));
        text.extend(knobs.map(|line| clean(line).trim_end().to_owned()));
        while text.last().is_some_and(String::is_empty) {
            text.pop();
        }
    }
    text.extend(left_out(record));
    text.extend(lines(&sections(record), options.colour));
    text.join("\n") + "\n"
}

fn context(record: &TuneTry) -> String {
    let mut parts = vec![record.head.tool.clone(), record.head.started.clone()];
    parts.extend(record.host.as_ref().map(|host| clean(&host.hostname)));
    parts.extend(record.interface.as_ref().map(|interface| format!("interface {}", clean(interface))));
    let count = record.settings.len();
    parts.push(format!("{count} setting{} on and off in turn", if count == 1 { "" } else { "s" }));
    parts.join(", ")
}

fn one(record: &TuneTry, path: &TriedPath, options: &Options) -> Vec<String> {
    let mut text = wrap("", &head(&path.alone), WIDTH);
    text[0] = paint(&text[0], HEADING, options.colour);
    let mut rows = vec![as_it_is(path)];
    let mut order: Vec<usize> = (0..path.alone.comparisons.len()).collect();
    let of =
        |at: &usize| estimate(&path.alone.comparisons[*at], Figure::P50).and_then(|found| found.ratio).unwrap_or(f64::INFINITY);
    order.sort_by(|a, b| of(a).total_cmp(&of(b)));
    for at in order {
        let name = record.settings.get(at).map_or("?", |tried| &tried.setting);
        rows.push(row(name, &path.alone.comparisons[at], path.deep_idle.get(at + 1).copied().flatten()));
    }
    if let Some(together) = &path.together
        && let Some(comparison) = together.comparisons.first()
    {
        let idle = path.together_deep_idle.get(1).copied().flatten();
        rows.push(row("all winners together, anew", comparison, idle));
    }
    let columns = vec![
        Column::words("setting"),
        Column::words(""),
        Column::figures("p50").under("RTT"),
        Column::figures("interval").under("RTT"),
        Column::figures("p99").under("RTT"),
        Column::figures("rate"),
        Column::figures("CPU"),
        Column::figures("idle"),
    ];
    text.extend(Grid { columns, labels: 1, rows }.lines(options.columns(), options.colour));
    text
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
    if let Some(design) = &compare.design {
        parts.push(format!(
            "{} rounds in {}, blocks of {}",
            design.rounds,
            seconds(design.elapsed_ns as f64 / 1e9),
            Nanos(design.block_ns / 1_000_000 * 1_000_000)
        ));
    }
    parts.join(", ")
}

fn as_it_is(path: &TriedPath) -> Vec<String> {
    let figures = path.alone.arms.first().map(|arm| arm.typical.unwrap_or(arm.figures)).unwrap_or_default();
    let idle = path.deep_idle.first().copied().flatten();
    let p50 = figures.p50_ns.map_or_else(String::new, |ns| format!(": {} us", us(ns)));
    let mut row = vec![format!("as it is{p50}"), String::new(), ratio(1.0)];
    row.extend(std::iter::repeat_n(String::new(), 4));
    row.push(percent(idle));
    row
}

fn row(name: &str, comparison: &Comparison, idle: Option<f64>) -> Vec<String> {
    let found = |figure| estimate(comparison, figure);
    let ratio_of = |figure| found(figure).and_then(|found| found.ratio).map_or_else(String::new, ratio);
    let interval = match found(Figure::P50).and_then(|found| found.low.zip(found.high)) {
        Some((low, high)) => format!("{}..{}", ratio(low), ratio(high)),
        None => "not known".into(),
    };
    vec![
        clean(name),
        comparison.verdict.to_string(),
        ratio_of(Figure::P50),
        interval,
        ratio_of(Figure::P99),
        ratio_of(Figure::Rate),
        ratio_of(Figure::Cpu),
        percent(idle),
    ]
}

fn estimate(comparison: &Comparison, figure: Figure) -> Option<&Estimate> {
    comparison.figures.iter().find(|estimate| estimate.figure == figure)
}

fn percent(share: Option<f64>) -> String {
    share.map_or_else(String::new, |share| format!("{:.0} %", share * 100.0))
}

/// What came of it, and what to do.
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

fn left_out(record: &TuneTry) -> Vec<String> {
    if record.left_out.is_empty() {
        return Vec::new();
    }
    let mut text = vec![String::new(), "Not tried:".into()];
    let mut by_why: Vec<(&str, Vec<&str>)> = Vec::new();
    for left in &record.left_out {
        match by_why.iter_mut().find(|(why, _)| *why == left.why) {
            Some((_, settings)) => settings.push(&left.setting),
            None => by_why.push((&left.why, vec![&left.setting])),
        }
    }
    text.extend(by_why.iter().flat_map(|(why, settings)| wrap("  ", &clean(&format!("{}: {why}", settings.join(", "))), WIDTH)));
    text
}

fn sections(record: &TuneTry) -> Vec<Section> {
    let mut arms: Vec<&Arm> = Vec::new();
    let mut names: Vec<Name> = Vec::new();
    for path in &record.paths {
        for arm in path.alone.arms.iter().chain(path.together.iter().flat_map(|together| &together.arms)) {
            names.push(Name { base: short(&arm.path), size: arm.given.clone() });
            arms.push(arm);
        }
    }
    let warnings = Section { heading: "Warnings", kind: Kind::Warning, items: warnings(&names, &arms, |arm| &arm.warnings) };
    let ended = ended(record.head.error.as_deref(), record.head.interrupted);
    std::iter::once(warnings).filter(|section| !section.items.is_empty()).chain(ended).collect()
}
