//! The first screen of a path: the answer in four lines, the stages of both ways together, causes and warnings on a line each.

use hairpin_record::explain::{Direction, Explain, Explained};
use hairpin_record::head::Place;

use super::brief::{self, Cause, Share};
use super::parts::{self, Part};
use super::row::name;
use crate::brief::placed;
use crate::budget;
use crate::cell::{Bar, Cell};
use crate::doc::{Column, Doc, Row, Table};
use crate::figure::{percent_short, time, time_range, times};
use crate::label::{Name, short};
use crate::median::Median;
use crate::next;
use crate::options::Options;
use crate::prose::{clean, width};
use crate::style::Tone;
use crate::view::Breakdown;

/// A smaller part of the RTT or of its growth has no row of its own.
const ROW: f64 = 0.01;
/// The beginning of the line on slow round trips, which has to fit on one line with its causes.
pub(crate) const SLOW: &str = "  slow ones: ";
/// A finding that the answer already states.
const DEEP_IDLE: &str = "deep-idle-wake-up";

/// The parts of a typical round trip: stages, hooks, and time without a stage.
pub(super) fn parts_of(result: &Explained) -> Vec<(Part, f64)> {
    let typical = &result.typical;
    let stages = result.stages.iter().map(|stage| (Part::of(&stage.name), stage.typical_ns));
    parts::parts(stages.chain([(Part::Hooks, typical.observer_ns), (Part::Unnamed, typical.residual_ns)]))
}

/// Path, link and RTT; the largest part and everything else; the wait of slow round trips.
pub(super) fn show(doc: &mut Doc, result: &Explained, place: &Place, columns: usize) {
    let Name { base, size } = name(result);
    let link = &place.link;
    let to = link.peer.as_ref().map_or(String::new(), |peer| format!(" to {peer}"));
    let (untraced, typical) = (&result.untraced_rtt_ns, &result.typical);
    let ends = result.untraced_p50_ends_ns.map(|ends| ends.map(|ns| ns as f64));
    let wide = untraced.p50.and_then(|ns| Median { ns: ns as f64, ends }.wide());
    let typical_word = wide.map_or("typical".to_owned(), |[low, high]| format!("({}) typical", time_range(low, high)));
    let told = [untraced.p50.map(|ns| (ns as f64, &typical_word[..])), untraced.p99.map(|ns| (ns as f64, "slow (p99)"))];
    let hooked = (typical.count > 0).then_some((typical.rtt_ns, "with hooks"));
    let mut figures = times(told.into_iter().flatten().chain(hooked));
    if untraced.p50.is_none() {
        figures.insert(0, "no typical RTT".into());
    }
    let on = result.cpus.as_ref().map_or(String::new(), |cpus| placed(&cpus.client, &cpus.server));
    let on = if on.is_empty() { on } else { format!(", {on}") };
    doc.heading(format!("{base} over {}{to}, {size}{on}: {}", link.kind, figures.join(", ")));
    if typical.count > 0 {
        parts::show(doc, &parts_of(result), typical.rtt_ns, (Some(&short(&result.path)), &place.hosts.client), columns);
    }
    if let Some(text) = slow(result, columns) {
        doc.lead(SLOW, text);
    }
}

/// True if waking is the largest part; a setting of the host removes most of it.
fn is_waking(result: &Explained) -> bool {
    result.typical.count > 0 && parts_of(result).first().is_some_and(|(part, _)| *part == Part::Waking)
}

/// The command that tries this setting on the slowest path whose largest part is waking; none where this host does not heed it.
pub(super) fn next(record: &Explain) -> Option<String> {
    if !record.place.hosts.client.heeds_idle_demands() {
        return None;
    }
    let sleeping = record.results.iter().filter(|result| is_waking(result));
    let result = sleeping.max_by(|a, b| a.typical.rtt_ns.total_cmp(&b.typical.rtt_ns))?;
    let to = next::to(&record.place, &record.head)?;
    next::plain(format!("sudo hairpin tune try {to} -p {} --knob cpu_dma_latency_us=0", next::path(&result.path)))
}

/// The extra time of slow round trips, and its cause.
fn slow(result: &Explained, columns: usize) -> Option<String> {
    let (typical, slow) = (&result.typical, &result.slow);
    if typical.count > 0 && slow.count == 0 {
        return Some(format!("{} traced round trips are too few to tell them apart (p99: 1000)", result.rtt_ns.count));
    }
    let longer = slow.rtt_ns - typical.rtt_ns;
    if typical.count == 0 || !(longer > 0.0 && longer.is_finite()) {
        return None;
    }
    let longer_by = format!("+{}", time(longer));
    let told = waits(&longer_by, &brief::large(causes(result)), columns);
    Some(if told == longer_by { format!("{longer_by}{}", grown(result, longer)) } else { told })
}

/// `longer_by` with the largest cause, and the second one if it fits the line.
pub(crate) fn waits(longer_by: &str, causes: &[Cause], columns: usize) -> String {
    let mut told = longer_by.to_owned();
    for (at, cause) in causes.iter().take(2).enumerate() {
        let who = match (cause.who.as_str(), cause.cause.as_str()) {
            ("", _) => String::new(),
            (who, "preempted") => format!(" by {who}"),
            (who, "run queue wait") => format!(" behind {who}"),
            (who, _) => format!(" ({who})"),
        };
        let of_it = if at == 0 { " of it" } else { "" };
        let next = format!("{told}, {} %{of_it} {}{who}", percent_short(cause.share), cause.cause);
        if at == 0 || SLOW.len() + width(&next) <= columns {
            told = next;
        }
    }
    told
}

/// The stage that grew most, for a record without causes.
fn grown(result: &Explained, longer: f64) -> String {
    let growth = result.stages.iter().map(|stage| (stage, stage.slow_ns - stage.typical_ns)).filter(|(_, ns)| *ns > 0.0);
    growth.max_by(|a, b| a.1.total_cmp(&b.1)).map_or(String::new(), |(stage, ns)| {
        format!(", {} % of it in {} on the {}", percent_short(ns / longer), clean(&stage.name), stage.side)
    })
}

/// All causes, each with its share of the time.
fn causes(result: &Explained) -> Vec<Cause> {
    let all: f64 = result.causes.iter().map(|cause| cause.lost_ns as f64).sum();
    let of = |cause: &hairpin_record::explain::Cause| Cause {
        share: cause.lost_ns as f64 / all.max(1.0),
        cause: cause.cause.clone(),
        who: cause.who.clone(),
        advice: cause.advice.clone(),
    };
    result.causes.iter().map(of).collect()
}

/// The bar of all parts, if a link was declared, then stages, causes and warnings, as far as they fit into `room` lines.
pub(super) fn screen(result: &Explained, beside: Option<&Breakdown>, options: &Options, room: usize) -> Doc {
    let (causes, notices) = (brief::large(causes(result)), notices(result));
    let columns = options.columns();
    brief::fitted(room, options, |share: Share| {
        let mut doc = Doc::default();
        if let Some(beside) = beside {
            doc.gap();
            budget::bar(&mut doc, beside);
        }
        if result.typical.count > 0 && share.rows > 0 {
            doc.gap();
            doc.table(table(result, share.rows));
        }
        let shown = &causes[..causes.len().min(share.causes)];
        if !shown.is_empty() {
            let more = brief::left_out(causes.len(), shown.len());
            doc.heading(format!("causes of the slow ones, by time beyond the typical p50{more}"));
            doc.verbatim(brief::causes(shown, columns));
        }
        let notices = brief::notices(&notices, share.notices, columns);
        notices.into_iter().for_each(|notice| doc.toned("", notice, Tone::Warning));
        doc
    })
}

/// Findings, warnings and refused settings.
fn notices(result: &Explained) -> Vec<String> {
    let told = is_waking(result);
    let findings = result.findings.iter().filter(|finding| !(told && finding.detector == DEEP_IDLE));
    let findings = findings.map(|finding| format!("{}: {}", finding.detector, finding.seen));
    let refused = crate::notes::refused(&result.granted);
    let warned = result.warnings.iter().map(|note| format!("{}: {}", note.code, note.message));
    findings.chain(warned).chain(refused).collect()
}

/// A stage of both ways together.
#[derive(Default)]
struct Line {
    name: String,
    /// Of the request, of the reply.
    ways: [f64; 2],
    slow: f64,
    growth: f64,
}

impl Line {
    fn both(&self) -> f64 {
        self.ways[0] + self.ways[1]
    }
}

/// At most `most` rows and one for the others, then the RTT, which they add up to.
fn table(result: &Explained, most: usize) -> Table {
    let (typical, slow) = (&result.typical, &result.slow);
    let mut lines: Vec<Line> = Vec::new();
    for stage in &result.stages {
        let at = lines.iter().position(|line| line.name == stage.name).unwrap_or_else(|| {
            lines.push(Line { name: stage.name.clone(), ..Line::default() });
            lines.len() - 1
        });
        lines[at].ways[usize::from(stage.direction == Direction::Reply)] += stage.typical_ns;
        lines[at].slow += stage.slow_ns;
    }
    let rest = [("observer (hooks)", typical.observer_ns, slow.observer_ns), ("residual", typical.residual_ns, slow.residual_ns)];
    lines.extend(rest.map(|(name, typical, slow)| Line { name: name.into(), ways: [typical, 0.0], slow, growth: 0.0 }));
    lines.iter_mut().for_each(|line| line.growth = if slow.count > 0 { line.slow - line.both() } else { 0.0 });
    let longer = if slow.count > 0 { slow.rtt_ns - typical.rtt_ns } else { 0.0 };
    // A row is worth showing for its part of either sum.
    let part = |ns: f64, of: f64| if of > 0.0 { ns / of } else { 0.0 };
    let sizes: Vec<f64> = lines.iter().map(|line| part(line.both(), typical.rtt_ns).max(part(line.growth, longer))).collect();
    let worth = sizes.iter().filter(|size| **size >= ROW).count();
    let shown = brief::largest(&sizes, most.min(worth));
    let most_growth = lines.iter().map(|line| line.growth).fold(0.0, f64::max);

    let mut at = 0.0;
    let mut row = |line: &Line, apart: bool| {
        let from = at;
        at += line.both().max(0.0);
        let way = |way: usize| if apart { Cell::Ns(line.ways[way]) } else { Cell::Blank };
        let mut cells = vec![brief::cut(&line.name, 22).into(), way(0), way(1), Cell::Ns(line.both())];
        cells.push(Cell::Text(format!("{} %", percent_short(part(line.both(), typical.rtt_ns)))));
        cells.push(Cell::Bar(Bar::new(from / typical.rtt_ns, at / typical.rtt_ns)));
        if slow.count > 0 {
            cells.extend([Cell::Ns(line.slow), Cell::Growth(line.growth)]);
        }
        let tone = if most_growth > 0.0 && line.growth == most_growth { Tone::Warning } else { Tone::Plain };
        Row { cells, tone }
    };
    let stages = result.stages.len();
    let mut rows: Vec<Row> = shown.iter().map(|at| row(&lines[*at], stages > 0 && *at < lines.len() - 2)).collect();
    let others: Vec<&Line> = (0..lines.len()).filter(|at| !shown.contains(at)).map(|at| &lines[at]).collect();
    if !others.is_empty() {
        let sum = |of: fn(&Line) -> f64| others.iter().map(|line| of(line)).sum::<f64>();
        let ways = [sum(Line::both), 0.0];
        let name = format!("{} smaller", others.len());
        rows.push(row(&Line { name, ways, slow: sum(|line| line.slow), growth: sum(|line| line.growth) }, false));
    }
    let whole = Line { name: "RTT".into(), ways: [typical.rtt_ns, 0.0], slow: slow.rtt_ns, growth: longer };
    let mut whole = row_of_all(&whole, typical.rtt_ns, slow.count > 0);
    whole.tone = Tone::Heading;
    rows.push(whole);
    let mut columns = vec![Column::words("stage")];
    columns.extend(["request", "reply", "both"].map(|title| Column::us(title).under("typical us")));
    columns.extend([Column::figures("share").under("typical us"), Column::bar()]);
    if slow.count > 0 {
        columns.extend(["mean", "grew"].map(|title| Column::us(title).under("slow")));
    }
    Table::new(columns, 1, rows)
}

fn row_of_all(line: &Line, whole: f64, slow: bool) -> Row {
    let mut cells = vec![line.name.as_str().into(), Cell::Blank, Cell::Blank, Cell::Ns(whole), "100 %".into()];
    cells.push(Cell::Bar(Bar::new(0.0, 1.0)));
    if slow {
        cells.extend([Cell::Ns(line.slow), Cell::Growth(line.growth)]);
    }
    cells.into()
}
