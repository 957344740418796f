//! The output of `hairpin compare`: one verdict per comparison, the arms, and a table of ratios with intervals.

mod placements;

use hairpin_record::compare::{Arm, Compare, Comparison, Cpus, Design, Matched, OTHER_HOST};
use hairpin_record::experiment::{Estimate, Figure, Verdict};
use hairpin_units::Nanos;

use crate::brief::placed as on_cpus;
use crate::cell::{Cell, IntoCell};
use crate::columns::RTT;
use crate::doc::{Block, Column, Data, Doc, List, Show, Shown, Table, Text};
use crate::figure::{asked_percent, confidence, fine_ratio as ratio, payloads, per_second, ratio as times, seconds, time};
use crate::kinds;
use crate::label::{Name, short};
use crate::link::link_words;
use crate::next;
use crate::notes::{ended, not_granted, stacks, stacks_in_short, warnings};
use crate::options::Options;
use crate::prose::clean;
use crate::style::Tone;
use crate::term::{LINES, height};

impl Show for Compare {
    fn doc(&self, options: &Options) -> Doc {
        let mut doc = Doc::default();
        if self.placements.is_empty() {
            self.comparisons.iter().for_each(|comparison| decision(&mut doc, self, comparison));
            let mut named = Doc::default();
            named.gap();
            arms(&mut named, self);
            // With many sides a screen has room for the answers alone.
            let fits = height(&doc, options) + height(&named, options) + OTHERS <= LINES;
            if fits {
                doc.blocks.extend(named.blocks);
            } else {
                doc.part(Shown::Full, named);
            }
        } else {
            placements::matrix(&mut doc, self, options);
        }
        let mut rest = Doc::default();
        if !self.placements.is_empty() {
            rest.gap();
            arms(&mut rest, self);
        }
        for comparison in &self.comparisons {
            // Two arms have one table, a part of the answer; more arms have one for each comparison.
            let of_two = self.comparisons.len() == 1 && self.placements.is_empty();
            let part = if of_two { &mut doc } else { &mut rest };
            part.gap();
            part.table(table(self, comparison));
            pairs(self, comparison).into_iter().for_each(|line| rest.text(line));
        }
        rest.gap();
        rest.text(meaning(self));
        let how = match &self.design {
            Some(design) => format!("{}, order from seed {}", rounds(design), design.seed),
            None => "stored runs, not measured in turn".into(),
        };
        rest.blocks.extend(Doc::of(&self.head, [how]).blocks);
        rest.text(format!("RTT: {RTT}"));
        doc.list(List::plain("Thresholds", thresholds(self)));
        let general = List::warnings("Warnings", self.warnings.iter().map(|note| note.message.clone()).collect());
        let names: Vec<Name> = self.arms.iter().map(|arm| Name { base: arm.name.clone(), size: String::new() }).collect();
        let arms: Vec<&Arm> = self.arms.iter().collect();
        rest.list(general);
        rest.list(stacks(&names, &arms, |arm| arm.stack.as_deref()));
        rest.list(not_granted(&names, &arms, |arm| &arm.granted));
        rest.list(List::warnings("Warnings of the arms", warnings(&names, &arms, |arm| &arm.warnings)));
        doc.part(Shown::Full, rest);
        doc.part(Shown::Brief, stacks_in_short(&names, &arms, |arm| arm.stack.as_deref()));
        let mut end = Doc::default();
        noted(&mut end, kinds::lines(&[Name { base: String::new(), size: String::new() }], &[self], |record| &record.warnings));
        noted(&mut end, kinds::lines(&names, &arms, |arm| &arm.warnings));
        doc.part(Shown::Brief, end);
        doc.list(ended(&self.head));
        let mut end = Doc::default();
        let commands = if self.placements.is_empty() { commands(self) } else { placements::commands(self) };
        next::show(&mut end, &commands.into_iter().chain(["(-v: all)".to_owned()]).collect::<Vec<_>>(), options);
        doc.part(Shown::Brief, end);
        doc.data = Some(data(self));
        doc
    }
}

/// Adds warnings in short, a line for each kind.
pub(crate) fn noted(doc: &mut Doc, lines: Vec<Text>) {
    doc.blocks.extend(lines.into_iter().map(Block::Text));
}

/// Next commands: those that explain the slower side.
fn commands(record: &Compare) -> Vec<String> {
    let p50 = |arm: &&Arm| arm.typical.unwrap_or(arm.figures).p50_ns.unwrap_or(0.0);
    let known = record.arms.iter().filter_map(|arm| Some((arm, arm.link.as_ref()?)));
    let known = known.filter(|(arm, link)| arm.pace_per_s.is_none() && next::is_explained(&arm.path, link));
    let slower = known.max_by(|(a, _), (b, _)| p50(a).total_cmp(&p50(b)));
    slower.and_then(|(arm, link)| next::explain(link, &record.head, &arm.path)).into_iter().collect()
}

/// Lines of warnings and commands below the answers.
const OTHERS: usize = 6;

fn arms(doc: &mut Doc, record: &Compare) {
    record.arms.iter().for_each(|arm| doc.lead(format!("{}  ", clean(&arm.name)), described(arm, record)));
}

fn decision(doc: &mut Doc, record: &Compare, comparison: &Comparison) {
    let (said, word) = sentence(record, comparison, &comparison.arm, &comparison.against);
    doc.verdict("", said, &word, tone(comparison.verdict));
}

pub(crate) fn tone(verdict: Verdict) -> Tone {
    match verdict {
        Verdict::Slower => Tone::Error,
        Verdict::Unclear => Tone::Warning,
        Verdict::Faster | Verdict::Same => Tone::Heading,
    }
}

/// One line per comparison and figure.
fn data(record: &Compare) -> Data {
    let names = "arm against verdict figure unit value value_against ratio low high difference pairs";
    let line = |(comparison, estimate): (&Comparison, &Estimate)| {
        let [base, value] = values(estimate, find(record, &comparison.against), find(record, &comparison.arm));
        [
            (&comparison.arm).into(),
            (&comparison.against).into(),
            comparison.verdict.to_string().into(),
            estimate.figure.to_string().into(),
            if estimate.figure == Figure::Rate { "1/s" } else { "ns" }.into(),
            value.into(),
            base.into(),
            estimate.ratio.into(),
            estimate.low.into(),
            estimate.high.into(),
            estimate.difference.into(),
            estimate.pairs.into(),
        ]
    };
    let all = record.comparisons.iter().flat_map(|comparison| comparison.figures.iter().map(move |found| (comparison, found)));
    Data::table(names, all.map(line))
}

fn find<'r>(record: &'r Compare, name: &str) -> Option<&'r Arm> {
    record.arms.iter().find(|arm| arm.name == name)
}

/// Duration of an experiment, and its rounds and blocks.
pub(crate) fn rounds(design: &Design) -> String {
    let block = Nanos(design.block_ns / 1_000_000 * 1_000_000);
    format!("{} rounds in {}, blocks of {block}", design.rounds, seconds(design.elapsed_ns as f64 / 1e9))
}

/// An arm for a reader: path, payload, and the other facts that distinguish it.
pub(crate) fn described(arm: &Arm, record: &Compare) -> String {
    let mut text = without_words(arm, record, true);
    // Arms may differ in something that is not part of the work, such as a setting; then use the user's own words.
    let bare = |arm: &Arm| without_words(arm, record, false);
    let same = |other: &Arm| other.name != arm.name && other.link == arm.link && bare(other) == bare(arm);
    if record.design.is_some() && !arm.given.is_empty() && record.arms.iter().any(same) {
        text += &format!(" ({})", arm.given);
    }
    text
}

fn without_words(arm: &Arm, record: &Compare, with_link: bool) -> String {
    let pace = arm.pace_per_s.map_or_else(String::new, |per_s| format!(" at {per_s}/s"));
    let mut parts = vec![short(&arm.path) + &pace, format!("{} B", payloads(arm.request_bytes, arm.reply_bytes))];
    let counts = [(arm.flows, "flows"), (arm.threads.unwrap_or(1), "threads"), (arm.outstanding, "in flight per flow")];
    for (count, what) in counts {
        if count > 1 {
            parts.push(format!("{count} {what}"));
        }
    }
    if let Some(cpus) = arm.cpus.as_ref().filter(|_| record.arms.iter().any(|other| other.cpus != arm.cpus)) {
        parts[0] += &format!(" --cpu {}", placed(cpus));
    }
    let alike = |other: &Arm| other.link == arm.link;
    match &arm.link {
        Some(link) if with_link && (arm.name == "A" || !record.arms.iter().all(alike)) => {
            parts.push(format!("over {}", link_words(link).join(", ")))
        }
        _ => {}
    }
    // A placement that all sides share is told with the first.
    let shared =
        arm.cpus.as_ref().filter(|_| with_link && arm.name == "A" && record.arms.iter().all(|other| other.cpus == arm.cpus));
    parts.extend(shared.map(|cpus| on_cpus(&cpus.client, &cpus.server)).filter(|on| !on.is_empty()));
    if record.design.is_none() {
        match &arm.runs[..] {
            [] => parts.push(format!("run {}", arm.given)),
            [first, .., last] => parts.push(format!("{} runs: {first} to {last}", arm.runs.len())),
            [only] => parts.push(format!("run {only}")),
        }
    }
    parts.join(", ")
}

/// The CPU as `--cpu` takes it; with several threads, the first.
fn placed(cpus: &Cpus) -> String {
    let first = |cpus: &[u32]| cpus.first().map_or_else(|| "?".into(), u32::to_string);
    format!("{},{}", first(&cpus.client), first(&cpus.server))
}

fn table(record: &Compare, comparison: &Comparison) -> Table {
    let (arm, against) = (find(record, &comparison.arm), find(record, &comparison.against));
    let columns = vec![
        Column::words(""),
        Column::figures(&comparison.against),
        Column::figures(&comparison.arm),
        Column::figures("ratio"),
        Column::figures("interval"),
        Column::figures("difference"),
        Column::figures("pairs"),
    ];
    let row = |estimate: &Estimate| {
        let text = |x: f64| if estimate.figure == Figure::Rate { per_second(x) } else { time(x) };
        let of = |value: Option<f64>| Cell::from(value.map(text));
        let [base, value] = values(estimate, against, arm);
        let signed = |x: f64| format!("{}{}", if x < 0.0 { "-" } else { "+" }, text(x.abs()));
        vec![
            called(estimate.figure).into(),
            of(base),
            of(value),
            estimate.ratio.into_cell(Cell::Ratio),
            interval(estimate.low, estimate.high, " .. ").into(),
            estimate.difference.map(signed).into(),
            estimate.pairs.into(),
        ]
    };
    Table::new(columns, 1, comparison.figures.iter().map(row))
}

/// The lower and upper end of a ratio's interval.
pub(crate) fn interval(low: Option<f64>, high: Option<f64>, between: &str) -> String {
    low.zip(high).map_or_else(|| "not known".into(), |(low, high)| format!("{}{between}{}", ratio(low), ratio(high)))
}

/// The figures of both arms behind the ratio. Records of earlier versions have only those of all transactions.
pub(crate) fn values(estimate: &Estimate, against: Option<&Arm>, arm: Option<&Arm>) -> [Option<f64>; 2] {
    let pooled = |arm: Option<&Arm>| arm.and_then(|arm| arm.figures.of(estimate.figure));
    match (estimate.base, estimate.value) {
        (Some(base), Some(value)) => [Some(base), Some(value)],
        _ => [pooled(against), pooled(arm)],
    }
}

/// From this ratio on a difference is told in times, below it in percent.
const IN_TIMES: f64 = 2.0;

/// The comparison of `arm` with `against`, which the caller names, as a sentence without its full stop; and its decisive word.
pub(crate) fn sentence(record: &Compare, comparison: &Comparison, arm: &str, against: &str) -> (String, String) {
    let figure = record.method.figure;
    let found = comparison.figures.iter().find(|estimate| estimate.figure == figure);
    let [base, value] =
        found.map_or([None, None], |found| values(found, find(record, &comparison.against), find(record, &comparison.arm)));
    let sized = |x: f64| if figure == Figure::Rate { per_second(x) } else { time(x) };
    let both = value.zip(base).map(|(value, base)| format!("{} against {}", sized(value), sized(base)));
    let both = both.map_or_else(|| called(figure).to_owned(), |both| format!("{} {both}", called(figure)));
    let ends = found.and_then(|found| Some((found.low?, found.high?)));
    match (comparison.verdict, ends) {
        (Verdict::Faster | Verdict::Slower, Some((low, high))) => {
            // A higher rate is better.
            let (low, high) = if figure.more_is_better() { (1.0 / high, 1.0 / low) } else { (low, high) };
            told_apart(figure, comparison.verdict, (low, high), [arm, against], &both)
        }
        (Verdict::Faster | Verdict::Slower, None) => {
            (format!("{arm} is {} than {against}: {both}", comparison.verdict), comparison.verdict.to_string())
        }
        (Verdict::Same, _) => {
            let margin = asked_percent(record.method.margin);
            (format!("{arm} and {against} are the same within {margin} %: {both}"), "same".into())
        }
        (Verdict::Unclear, _) => {
            let why = unclear(record, comparison, ends);
            (format!("unclear whether {arm} or {against} is faster: {both}; {why}"), "unclear".into())
        }
    }
}

/// The words for a difference; `low` and `high` are the ends of its interval, as ratios of times.
fn told_apart(
    figure: Figure,
    verdict: Verdict,
    (low, high): (f64, f64),
    [arm, against]: [&str; 2],
    both: &str,
) -> (String, String) {
    let middle = (low * high).sqrt();
    let (fast, slow) =
        if figure == Figure::Cpu { ("times as cheap", "times as dear") } else { ("times as fast", "times as long") };
    if middle <= 1.0 / IN_TIMES {
        let (least, most) = (times(1.0 / high), times(1.0 / low));
        return (format!("{arm} is {least} to {most} {fast} as {against}: {both}"), fast.into());
    }
    if middle >= IN_TIMES {
        let takes = if figure == Figure::Cpu { "is" } else { "takes" };
        return (format!("{arm} {takes} {} to {} {slow} as {against}: {both}", times(low), times(high)), slow.into());
    }
    let percent = |ratio: f64| (ratio - 1.0).abs() * 100.0;
    let (least, most) = if low > 1.0 { (percent(low), percent(high)) } else { (percent(high), percent(low)) };
    let (way, than) = (if low > 1.0 { "more" } else { "less" }, if figure == Figure::Rate { "time " } else { "" });
    (format!("{arm} is {verdict} than {against}: {least:.1} to {most:.1} % {way} {than}({both})"), verdict.to_string())
}

/// Why there is no verdict, and how long one would take.
fn unclear(record: &Compare, comparison: &Comparison, ends: Option<(f64, f64)>) -> String {
    if comparison.runs == Some([1, 1]) {
        return "one run each does not show how much runs differ".into();
    }
    let why = match ends {
        None if comparison.runs.is_some() => no_interval(record, comparison).to_owned(),
        // With runs as the unit, their number is already in the interval.
        _ if comparison.pairs < 12 && comparison.runs.is_none() => "fewer than 12 pairs".to_owned(),
        Some((low, high)) => format!("the difference is between {:+.1} and {:+.1} %", (low - 1.0) * 100.0, (high - 1.0) * 100.0),
        None => "there is no interval".into(),
    };
    let needs = comparison.needs_s.map_or(String::new(), |needs| format!(", and it takes about {} to tell", seconds(needs)));
    why + &needs
}

/// Why several stored runs give the figure of the verdict no interval.
fn no_interval(record: &Compare, comparison: &Comparison) -> &'static str {
    let figure = record.method.figure;
    let in_blocks =
        |name: &str| find(record, name).is_some_and(|arm| arm.blocks.iter().any(|block| block.figure(figure).is_some()));
    match comparison.figures.iter().find(|estimate| estimate.figure == figure) {
        None => "a side has no value of it",
        Some(found) if found.between_runs.is_some() => "there is no interval",
        Some(found) if found.pairs > 0 => "no side has two runs at a distance of the cores that both had",
        _ if !in_blocks(&comparison.against) || !in_blocks(&comparison.arm) => {
            "blocks have no value of it, and the cores were at several distances in these runs"
        }
        _ if comparison.dropped > 0 => "the two sides have no distance of the cores in common, or too few blocks at it",
        _ => "a side has no run with six blocks of this figure at one distance of the cores: measure longer",
    }
}

fn called(figure: Figure) -> &'static str {
    match figure {
        Figure::P50 => "RTT p50",
        Figure::P99 => "RTT p99",
        Figure::P999 => "RTT p99.9",
        Figure::Rate => "rate",
        Figure::Cpu => "CPU time",
    }
}

/// Source of the pairs: blocks and runs, and the dropped pairs.
pub(crate) fn pairs(record: &Compare, comparison: &Comparison) -> Vec<String> {
    let mut found = Vec::new();
    if comparison.dropped > 0 {
        found.push(format!(
            "{} of {} pairs were left out: the cores were at another distance from each other in one block than in the other",
            comparison.dropped,
            comparison.dropped + comparison.pairs
        ));
    }
    if comparison.matched == Matched::All {
        let arms = find(record, &comparison.against).zip(find(record, &comparison.arm));
        let cpus = arms.and_then(|(a, b)| a.cpus.as_ref().zip(b.cpus.as_ref()));
        let cpus = cpus.map_or_else(String::new, |(a, b)| format!(" ({} and {})", placed(a), placed(b)));
        // Sides measured in turn, over two links, on equal numbers: these are of two hosts.
        let two_links = record.design.is_some() && arms.is_some_and(|(a, b)| a.cpus == b.cpus && a.link != b.link);
        let hosts = two_links || record.warnings.iter().any(|note| note.code == OTHER_HOST);
        let what = if hosts { "hosts".to_owned() } else { format!("CPUs{cpus}") };
        found.push(format!(
            "The two run on different {what}, so the distance between the cores is part of the comparison: all blocks make pairs, in any state"
        ));
    } else if comparison.states_used.len() < record.states.len() {
        let used: Vec<String> = comparison
            .states_used
            .iter()
            .filter_map(|state| record.states.get(*state as usize))
            .filter_map(|state| Some(format!("{} ns", state.core_rtt_ns?)))
            .collect();
        if !used.is_empty() {
            found.push(format!("used: blocks in which a cache line took {} to the other core and back", used.join(" or ")));
        }
    }
    if let Some([first, second]) = comparison.runs.filter(|runs| *runs != [1, 1]) {
        let main = comparison.figures.iter().find(|estimate| estimate.figure == record.method.figure);
        let differ = main.and_then(|main| main.between_runs);
        let differ = differ.map_or_else(String::new, |differ| {
            format!("; {} of runs differs by {:.1} % from one to the next", called(record.method.figure), differ * 100.0)
        });
        found.push(format!(
            "{first} runs of {} and {second} of {}, each of which is one value{differ}",
            comparison.against, comparison.arm
        ));
    }
    for estimate in comparison.figures.iter().filter(|estimate| estimate.blocks_per_value > 1.05) {
        let (name, each) = (called(estimate.figure), estimate.blocks_per_value);
        found.push(format!("{name}: a block has too few transactions, so {each:.1} blocks a side make one pair"));
    }
    found
}

fn meaning(record: &Compare) -> String {
    let method = &record.method;
    let several = record.comparisons.iter().any(|comparison| comparison.runs.is_some_and(|runs| runs != [1, 1]));
    let of = match (&record.design, several) {
        (Some(_), _) => "of pairs of blocks in one round",
        (None, true) => "between runs, by the medians of their blocks",
        (None, false) => "between the blocks of two runs",
    };
    format!(
        "Ratios are {of}, and the figures beside them are typical of the same blocks; each interval is one of {} %, so that all of them hold with {:.0} %{}.",
        confidence(method.confidence_each),
        method.confidence * 100.0,
        if method.looks > 1 { format!(", looked at up to {} times", method.looks) } else { String::new() }
    )
}

/// The outcome of each threshold.
pub(crate) fn thresholds(record: &Compare) -> Vec<String> {
    let told = record.thresholds.iter().map(|threshold| {
        let what = match (&threshold.unknown, threshold.crossed, threshold.confirmed) {
            (Some(why), ..) => format!("cannot be judged: {why}"),
            (None, true, _) => "crossed, and again when measured once more".into(),
            (None, false, Some(true)) => {
                "crossed twice, but the runs of the baseline differ more from each other than those measured now, so it may be a mood of the host".into()
            }
            (None, false, Some(false)) => "crossed at first, but not when measured once more".into(),
            (None, false, None) => "not crossed".into(),
        };
        let reaches = threshold.not_excluded.map_or(String::new(), |ratio| {
            format!(
                "; a change of up to {:+.1} % is not excluded, for which more or longer runs are needed",
                (ratio - 1.0) * 100.0
            )
        });
        format!("{} of {}: {what}{reaches}", threshold.given, threshold.arm)
    });
    told.collect()
}
