//! The layout of a frame.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph};

use super::course::{Course, FIGURES, Figures};
use super::state::{Key, Source, State};
use super::widget::seconds;
use super::{View, plot, spread};
use crate::figure::{decimals, per_second, time};
use crate::prose::wrap;

/// Terminals narrower than this …
pub const COLUMNS: u16 = 80;
/// … or lower get a single sentence.
pub const LINES: u16 = 24;

/// Draws a frame, in colour if `colour`.
pub fn draw(frame: &mut Frame<'_>, state: &State, colour: bool) {
    let area = frame.area();
    if area.width < COLUMNS || area.height < LINES {
        return small(frame, area, state);
    }
    let spare = area.height - LINES;
    // The plot gets half of the spare lines, the distribution a quarter, the messages the rest.
    let (more_plot, more_spread) = (spare / 2, spare / 4);
    let more_warnings = spare - more_plot - more_spread;
    let parts = [1, 1, 3, 1, 9 + more_plot, 5 + more_spread, 3 + more_warnings, 1].map(Constraint::Length);
    let [title, definition, figures, besides, over_time, distribution, warnings, keys] = Layout::vertical(parts).areas(area);
    heading(frame, title, state, colour);
    frame.render_widget(Line::from("RTT in us: client's send call entered -> reply in the caller's buffer"), definition);
    if let Some((_, course)) = state.course() {
        table(frame, figures, state, course, colour);
        frame.render_widget(Line::from(beside(course)), besides);
        plot::draw(frame, over_time, state, course, colour);
        spread::draw(frame, distribution, state, course, colour);
    } else {
        frame.render_widget(Paragraph::new(waiting(state)), figures);
    }
    messages(frame, warnings, state, colour);
    frame.render_widget(Line::styled(keys_line(state), Style::new().add_modifier(Modifier::REVERSED)), keys);
    if state.help {
        help(frame, area, state);
    }
}

fn waiting(state: &State) -> &'static str {
    match state.source {
        Source::Live => "Warming up; the first figures come after a second.",
        Source::Stream => "Nothing has come yet.",
        Source::Stored => "This run has no results.",
    }
}

/// A terminal that is too small gets only the most important figures.
fn small(frame: &mut Frame<'_>, area: Rect, state: &State) {
    let need = format!(
        "This view needs {COLUMNS} columns and {LINES} lines; here are {} and {}. {}",
        area.width,
        area.height,
        leaving(state)
    );
    let mut lines = wrap("", &need, usize::from(area.width).max(1));
    if let Some(now) = state.course().and_then(|(_, course)| course.now.as_ref().or(course.whole.as_ref())) {
        let of = |figure: usize| now.values[figure].map_or("-".into(), |ns| time(ns as f64));
        lines.extend(wrap("", &format!("RTT p50 {}, p99 {}", of(0), of(2)), usize::from(area.width).max(1)));
    }
    frame.render_widget(Paragraph::new(lines.into_iter().map(Line::from).collect::<Vec<_>>()), area);
}

fn leaving(state: &State) -> &'static str {
    match (state.source, state.ended) {
        (Source::Live, false) => "q ends the run and keeps its result.",
        _ => "q leaves.",
    }
}

fn heading(frame: &mut Frame<'_>, area: Rect, state: &State, colour: bool) {
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let mut left = state.title.clone();
    if let Some((number, course)) = state.course() {
        let row = if state.of > 1 { format!("  row {number} of {}", state.of) } else { String::new() };
        left = format!("{}  {}  {}{row}", state.title, course.label, course.payload);
    }
    let status = match (state.source, state.frozen.is_some(), state.ending) {
        (_, true, _) => "PAUSED, the run goes on",
        (Source::Live, _, true) if !state.ended => "ending ...",
        (Source::Stored, ..) => "stored",
        _ if state.ended => "ended",
        _ => "",
    };
    let lasts = state
        .course()
        .and_then(|(_, course)| course.whole.as_ref())
        .map_or(String::new(), |whole| seconds(whole.ns as f64 / 1e9));
    let right = [status, &lasts].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("  ");
    let room = usize::from(area.width).saturating_sub(right.chars().count() + 2);
    let style = if colour && state.frozen.is_some() { bold.fg(Color::Yellow) } else { bold };
    frame.render_widget(Line::styled(cut(&left, room), bold), area);
    frame.render_widget(Line::styled(right, style).right_aligned(), area);
}

/// Cuts text to `columns`; three dots mark the cut.
pub(super) fn cut(text: &str, columns: usize) -> String {
    if crate::prose::width(text) <= columns {
        return text.into();
    }
    let first = crate::prose::fold(text, columns.saturating_sub(3)).swap_remove(0);
    format!("{first}...")
}

fn table(frame: &mut Frame<'_>, area: Rect, state: &State, course: &Course, colour: bool) {
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let chosen = if colour { bold.fg(Color::Cyan) } else { bold.add_modifier(Modifier::UNDERLINED) };
    let mut titles = vec![Span::styled(format!("{:11}{:>8}", "", "min"), bold)];
    for (figure, name) in FIGURES.iter().enumerate() {
        let style = if figure == state.figure { chosen } else { bold };
        titles.push(Span::raw(" ".repeat(8 - name.len())));
        titles.push(Span::styled(*name, style));
    }
    titles.push(Span::styled(format!("{:>11}{:>9}", "trans/s", "lost"), bold));
    let over = |figures: &Figures| seconds(figures.ns as f64 / 1e9);
    let now = course.now.as_ref().filter(|_| !course.over);
    let line = |name: String, figures: Option<&Figures>| {
        let Some(figures) = figures else { return Line::from(format!("{name:11}{:>8}", "-")) };
        let timed = |ns: Option<u64>| format!("{:>8}", ns.map_or("-".into(), |ns| time(ns as f64)));
        let mut spans = vec![Span::raw(format!("{name:11}{}", timed(figures.least)))];
        for (figure, ns) in figures.values.iter().enumerate() {
            let text = timed(*ns);
            spans.push(if figure == state.figure && colour { Span::styled(text, chosen) } else { Span::raw(text) });
        }
        spans.push(Span::raw(format!("{:>11}{:>9}", per_second(figures.per_s), figures.lost)));
        Line::from(spans)
    };
    let last = now.map_or("last".into(), |now| format!("last {}", over(now)));
    let lines = vec![Line::from(titles), line(last, now), line("since start".into(), course.whole.as_ref())];
    frame.render_widget(Paragraph::new(lines), area);
}

/// CPU, late replies, cache-line round trip between the cores.
fn beside(course: &Course) -> String {
    if course.over {
        return format!("late {}", course.late);
    }
    let share =
        |share: Option<f64>, unknown: &str| share.map_or(unknown.into(), |share| format!("{} %", decimals(share * 100.0)));
    let mut parts = vec![
        format!("CPU of a core: client {}, server {}", share(course.cpu[0], "-"), share(course.cpu[1], "not known")),
        format!("late {}", course.late),
    ];
    if let Some(ns) = course.core_rtt_ns {
        parts.push(format!("core to core {}", time(ns as f64)));
    }
    parts.join("; ")
}

/// Warnings, the most recent first, and notes about the view.
fn messages(frame: &mut Frame<'_>, area: Rect, state: &State, colour: bool) {
    let seen = state.course().map_or(&[][..], |(_, course)| &course.warnings);
    let mut lines = Vec::new();
    let width = usize::from(area.width);
    for note in &state.notes {
        lines.extend(wrap("! ", note, width));
    }
    if let Some(found) = state.course().and_then(|(_, course)| course.incidents.as_ref()) {
        lines.extend(wrap("! ", &format!("incidents: {found}"), width));
    }
    for warning in seen.iter().rev() {
        let at = warning.at_ns.map_or("whole row".into(), |ns| format!("at {}", seconds(ns as f64 / 1e9)));
        lines.extend(wrap("! ", &format!("{} ({at}): {}", warning.note.code, warning.note.message), width));
    }
    if lines.is_empty() {
        let none = if state.course().is_some() { "No warnings." } else { "" };
        frame.render_widget(Line::from(none), area);
        return;
    }
    let room = usize::from(area.height);
    if lines.len() > room {
        let others = lines[room..].iter().filter(|line| line.starts_with("! ")).count();
        lines.truncate(room);
        let rest = if others > 0 { format!(" ... and {others} more") } else { " ...".into() };
        if let Some(last) = lines.last_mut() {
            *last = format!("{}{rest}", crate::prose::fold(last, width - rest.len()).swap_remove(0).trim_end());
        }
    }
    let style = if colour { Style::new().fg(Color::Yellow) } else { Style::new() };
    frame.render_widget(Paragraph::new(lines.into_iter().map(|line| Line::styled(line, style)).collect::<Vec<_>>()), area);
}

fn keys_line(state: &State) -> String {
    let quit = if state.source == Source::Live && !state.ended { "q end and keep" } else { "q leave" };
    let rows = if state.of > 1 { "  left/right row" } else { "" };
    let pause = if state.source == Source::Stored { "" } else { "  p pause" };
    format!(" {quit}{pause}  1-5 tab figure  s log/linear{rows}  ? help ")
}

fn help(frame: &mut Frame<'_>, area: Rect, state: &State) {
    let lines = [
        "1 2 3 4 5    p50, p90, p99, p99.9, max in plot and mark",
        "tab          the next of these",
        "s            RTT on a logarithmic or a linear scale",
        "p, space     stand still; the run goes on unseen",
        "left, right  another row",
        "?            this",
        "q, Ctrl-C    leave",
        "",
        match state.source {
            Source::Live => "Leaving ends the run; it is stored and printed.",
            Source::Stream => "Leaving does not touch the run.",
            Source::Stored => "Nothing is changed by looking.",
        },
    ];
    boxed(frame, area, &lines);
}

/// The help in the middle of the screen.
pub(super) fn boxed(frame: &mut Frame<'_>, area: Rect, lines: &[&str]) {
    let (width, height) = (64, lines.len() as u16 + 2);
    let place = Rect { x: (area.width - width) / 2, y: (area.height - height) / 2, width, height };
    frame.render_widget(Clear, place);
    let block = Block::bordered().title(" Keys ");
    frame.render_widget(Paragraph::new(lines.iter().map(|line| Line::from(*line)).collect::<Vec<_>>()).block(block), place);
}

impl View for State {
    fn version(&self) -> u64 {
        State::version(self)
    }

    fn key(&mut self, key: Key) {
        State::key(self, key);
    }

    fn note(&mut self, text: &str) {
        State::note(self, text);
    }

    fn ending(&mut self) {
        State::ending(self);
    }

    fn draw(&self, frame: &mut Frame<'_>, colour: bool) {
        draw(frame, self, colour);
    }
}
