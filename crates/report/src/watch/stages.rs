//! The live view of a running server: its stages of the last second, with bars, beside the whole time.

use std::sync::Arc;

use hairpin_record::attached::{AttachedBody, Stage, Total, View as Sides};
use hairpin_record::run::Quantiles;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::View;
use super::draw::{COLUMNS, LINES, boxed, cut};
use super::state::{Key, noted};
use super::widget::{seconds, style};
use crate::attached::{parts_of, service, slow};
use crate::cell::block;
use crate::explain::brief;
use crate::explain::parts::Part;
use crate::figure::{per_second, percent_short, time};
use crate::prose::{clean, width, wrap};

/// A stage whose mean grew by this part of the whole's mean is said to have grown.
const GREW: f64 = 0.02;
/// Columns of a row beside its bar: side, name, p50, share, growth, fix, and the space between.
const NAME: usize = 19;
const BESIDE: usize = 7 + NAME + 8 + 6 + 1 + 9 + FIX;
/// A space, an arrow, and the longest of the fixes for a server.
const FIX: usize = 23;

/// A second of a watched server, and all of them so far.
#[derive(Debug)]
struct Second {
    so_far: AttachedBody,
    last: Vec<Total>,
    last_ns: u64,
}

/// The state of the view.
#[derive(Clone, Debug)]
pub struct Stages {
    title: String,
    now: Option<Arc<Second>>,
    /// The second at which the view was frozen.
    frozen: Option<Option<Arc<Second>>>,
    /// The number of the shown table, if the process has several roles.
    row: usize,
    help: bool,
    ending: bool,
    notes: Vec<String>,
    version: u64,
}

impl Stages {
    /// An empty state. `title` names the command.
    pub fn new(title: &str) -> Stages {
        let (title, notes) = (clean(title), Vec::new());
        Stages { title, now: None, frozen: None, row: 0, help: false, ending: false, notes, version: 0 }
    }

    /// Adds a second: the record so far, and the totals of its last `last_ns`.
    pub fn second(&mut self, so_far: &AttachedBody, last: Vec<Total>, last_ns: u64) {
        self.version += 1;
        self.now = Some(Arc::new(Second { so_far: so_far.clone(), last, last_ns }));
    }

    fn shown(&self) -> Option<&Second> {
        self.frozen.as_ref().unwrap_or(&self.now).as_deref()
    }
}

impl View for Stages {
    fn version(&self) -> u64 {
        self.version
    }

    fn key(&mut self, key: Key) {
        self.version += 1;
        let rows = self.shown().map_or(0, |second| second.so_far.totals.len());
        match key {
            Key::Pause => self.frozen = if self.frozen.is_none() { Some(self.now.clone()) } else { None },
            Key::RowBefore => self.row = self.row.saturating_sub(1),
            Key::RowAfter => self.row = (self.row + 1).min(rows.saturating_sub(1)),
            Key::Help => self.help = !self.help,
            Key::NextFigure | Key::Figure(_) | Key::Scale => {}
        }
    }

    fn note(&mut self, text: &str) {
        if noted(&mut self.notes, text) {
            self.version += 1;
        }
    }

    fn ending(&mut self) {
        self.version += 1;
        self.ending = true;
    }

    fn draw(&self, frame: &mut Frame<'_>, colour: bool) {
        let area = frame.area();
        if area.width < COLUMNS || area.height < LINES {
            return small(frame, area);
        }
        let parts = [1, 1, 3, 1, 0, 4, 1].map(|lines| if lines == 0 { Constraint::Fill(1) } else { Constraint::Length(lines) });
        let [title, definition, figures, _, stages, below, keys] = Layout::vertical(parts).areas(area);
        let whole = self.shown().and_then(|second| {
            let row = self.row.min(second.so_far.totals.len().checked_sub(1)?);
            Some((second, &second.so_far.totals[row]))
        });
        heading(frame, title, self, whole, colour);
        if let Some((second, whole)) = whole {
            let last = second.last.iter().find(|last| (last.view, &last.roles) == (whole.view, &whole.roles));
            frame.render_widget(Line::from(means(whole)), definition);
            frame.render_widget(Paragraph::new(table(second, whole, last, colour)), figures);
            frame.render_widget(Paragraph::new(bars(second, whole, last, stages, colour)), stages);
            frame.render_widget(Paragraph::new(told(self, &second.so_far, below, colour)), below);
        } else {
            let waits = if self.now.is_none() { "The first figures come after a second." } else { "No transaction yet." };
            frame.render_widget(Line::from(waits), definition);
            let notes = self.notes.iter().map(|note| Line::from(format!("! {note}"))).collect::<Vec<_>>();
            frame.render_widget(Paragraph::new(notes), below);
        }
        let tables = if whole.is_some_and(|(second, _)| second.so_far.totals.len() > 1) { "  left/right table" } else { "" };
        let line = format!(" q end and keep  p pause{tables}  ? help ");
        frame.render_widget(Line::styled(line, Style::new().add_modifier(Modifier::REVERSED)), keys);
        if self.help {
            help(frame, area);
        }
    }
}

fn small(frame: &mut Frame<'_>, area: Rect) {
    let need = format!(
        "This view needs {COLUMNS} columns and {LINES} lines; here are {} and {}. q ends it and keeps its result.",
        area.width, area.height
    );
    let lines = wrap("", &need, usize::from(area.width).max(1));
    frame.render_widget(Paragraph::new(lines.into_iter().map(Line::from).collect::<Vec<_>>()), area);
}

fn heading(frame: &mut Frame<'_>, area: Rect, state: &Stages, whole: Option<(&Second, &Total)>, colour: bool) {
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let status = match (state.frozen.is_some(), state.ending) {
        (true, _) => "PAUSED, the watching goes on  ",
        (_, true) => "ending ...  ",
        _ => "",
    };
    let lasts = whole.map_or(String::new(), |(second, _)| seconds(second.so_far.duration_ns as f64 / 1e9));
    let who = whole.map_or(String::new(), |(second, total)| {
        // The title ends with the typed target. If that was the port, the service begins with it.
        let roles: Vec<String> = total.roles.iter().map(ToString::to_string).collect();
        let role = if second.so_far.totals.len() > 1 { format!(" as {}", roles.join(" and ")) } else { String::new() };
        let service = service(&second.so_far);
        let typed = state.title.rsplit(' ').next().unwrap_or_default();
        let more = service.strip_prefix(typed).map_or(service.as_str(), str::trim_start);
        format!("  {more}{role}")
    });
    let right = format!("{status}{lasts}");
    let room = usize::from(area.width).saturating_sub(width(&right) + 2);
    frame.render_widget(Line::styled(cut(&format!("{}{who}", state.title), room), bold), area);
    let tone = if state.frozen.is_some() { style(colour, Color::Yellow, Modifier::BOLD) } else { bold };
    frame.render_widget(Line::styled(right, tone).right_aligned(), area);
}

/// The meaning of the sum.
fn means(total: &Total) -> &'static str {
    match total.view {
        Sides::Both => "in the kernel: the client's send -> its read of the reply",
        Sides::Server => "in the kernel: the request's arrival at the server -> the reply's last packet",
        Sides::Client => "in the kernel: the client's send -> its read of the reply; the server is elsewhere",
    }
}

/// p50, p99 and rate of the last second and of the whole.
fn table(second: &Second, whole: &Total, last: Option<&Total>, colour: bool) -> Vec<Line<'static>> {
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let typical = style(colour, Color::Cyan, Modifier::BOLD);
    let none = Quantiles::default();
    let line = |name: String, sum: &Quantiles, ns: u64| {
        let timed = |ns: Option<u64>| format!("{:>10}", ns.map_or("-".into(), |ns| time(ns as f64)));
        let per_s = sum.count as f64 * 1e9 / ns.max(1) as f64;
        Line::from(vec![
            Span::raw(format!("{name:12}")),
            Span::styled(timed(sum.p50), typical),
            Span::raw(format!("{}{}{:>12}", timed(sum.p99), timed(sum.max), per_second(per_s))),
        ])
    };
    vec![
        Line::styled(format!("{:12}{:>10}{:>10}{:>10}{:>12}", "", "p50", "p99", "max", "trans/s"), bold),
        line(format!("last {}", seconds(second.last_ns as f64 / 1e9)), last.map_or(&none, |last| &last.sum_ns), second.last_ns),
        line("since start".into(), &whole.sum_ns, second.so_far.duration_ns),
    ]
}

fn mean(total: &Total, stage: &Stage) -> f64 {
    stage.share * total.sum_ns.mean.unwrap_or(0.0)
}

/// A line per stage: of the last second, or of the whole where nothing came in the last.
fn bars(second: &Second, whole: &Total, last: Option<&Total>, area: Rect, colour: bool) -> Vec<Line<'static>> {
    let idles = second.so_far.host.heeds_idle_demands();
    let now = last.unwrap_or(whole);
    let first = parts_of(now).first().map(|(part, _)| *part);
    let sizes: Vec<f64> = now.stages.iter().map(|stage| stage.share).collect();
    // The heading takes one line, the row of all others another.
    let most = usize::from(area.height).saturating_sub(2);
    let worth = sizes.iter().filter(|share| **share >= 0.005).count();
    let shown = brief::largest(&sizes, most.min(worth));
    // A part may be of several stages; its largest has the fix.
    let of_first = |at: &usize| Some(Part::of(&now.stages[*at].name)) == first;
    let fixed = shown.iter().copied().filter(of_first).max_by(|a, b| sizes[*a].total_cmp(&sizes[*b]));
    let room = usize::from(area.width).saturating_sub(BESIDE).max(6);
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let titles = format!("{:7}{:NAME$}{:>8}{:>6} {:room$}{:>9}", "", "stage", "p50", "share", "", "grew");
    let mut lines = vec![Line::styled(titles, bold)];
    let percent = |share: f64| format!("{:>4} %", percent_short(share));
    for at in &shown {
        let stage = &now.stages[*at];
        let before =
            whole.stages.iter().find(|known| (&known.name, known.side, &known.to) == (&stage.name, stage.side, &stage.to));
        let grew = before.map_or(0.0, |before| mean(now, stage) - mean(whole, before));
        let grew = if grew >= GREW * whole.sum_ns.mean.unwrap_or(0.0) && grew > 0.0 {
            format!("+{}", time(grew))
        } else {
            String::new()
        };
        let part =
            if of_first(at) { style(colour, Color::Red, Modifier::BOLD) } else { style(colour, Color::Blue, Modifier::empty()) };
        let side = stage.side.map_or(String::new(), |side| side.to_string());
        let name = brief::cut(&stage.name, NAME);
        let p50 = stage.ns.p50.filter(|_| now.is_common(stage)).map_or("-".into(), |ns| time(ns as f64));
        let name = format!("{side:7}{name}{}{p50:>8}{}", " ".repeat(NAME - width(&name)), percent(stage.share));
        let bar = block(stage.share, room);
        let pad = " ".repeat(room.saturating_sub(width(&bar)));
        let fix = if Some(*at) == fixed {
            first.map_or(String::new(), |part| format!(" -> {}", part.fix(None, idles)))
        } else {
            String::new()
        };
        lines.push(Line::from(vec![
            Span::styled(name, if of_first(at) { bold } else { Style::new() }),
            Span::raw(" "),
            Span::styled(format!("{bar}{pad}"), part),
            Span::styled(format!("{grew:>9}"), style(colour, Color::Yellow, Modifier::BOLD)),
            Span::styled(fix, style(colour, Color::Green, Modifier::BOLD)),
        ]));
    }
    let others: Vec<f64> = (0..sizes.len()).filter(|at| !shown.contains(at)).map(|at| sizes[at]).collect();
    if !others.is_empty() {
        let name = format!("{} smaller", others.len());
        lines.push(Line::from(format!("{:7}{name:NAME$}{:>8}{}", "", "", percent(others.iter().sum()))));
    }
    lines
}

/// Lines on slow transactions: their wait, hairpin's own share, exclusions and notes.
fn told(state: &Stages, record: &AttachedBody, area: Rect, colour: bool) -> Vec<Line<'static>> {
    let mut lines = vec![String::new()];
    if let Some(slow) = slow(record, area.width.into()) {
        let above = record.slow_above.as_deref().unwrap_or("p99");
        lines.push(format!("slow ones (above {above}): {slow}"));
    }
    if record.slow_observer > 0 {
        lines.push(format!("observer: {} of {} slow ones are hairpin's own, left out", record.slow_observer, record.slow));
    }
    let notes = lines.len();
    lines.extend((record.lost > 0).then(|| format!("! {} transactions were lost on their way out of the kernel", record.lost)));
    let unmatched = record.unmatched as f64 / (record.unmatched + record.transactions).max(1) as f64;
    lines.extend(
        (unmatched > 0.1).then(|| format!("! {} % of the messages are unmatched and left out", percent_short(unmatched))),
    );
    lines.extend(state.notes.iter().rev().map(|note| format!("! {note}")));
    let style = |at: usize| if at >= notes { style(colour, Color::Yellow, Modifier::empty()) } else { Style::new() };
    let room = usize::from(area.width);
    lines.into_iter().enumerate().map(|(at, line)| Line::styled(brief::cut(&line, room), style(at))).collect()
}

fn help(frame: &mut Frame<'_>, area: Rect) {
    boxed(
        frame,
        area,
        &[
            "p, space     stand still; the watching goes on unseen",
            "left, right  another table, of a process with several roles",
            "?            this",
            "q, Ctrl-C    end",
            "",
            "share: of the last second's time; grew: its mean against",
            "that of the whole time. The bar in red is the largest part,",
            "-> is the remedy.",
            "",
            "At the end the result of the whole time is stored and printed.",
        ],
    );
}
