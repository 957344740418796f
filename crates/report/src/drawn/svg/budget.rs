//! One bar to scale for each explained path: measured parts solid, derived ones hatched, each with its figure and source.

use super::page::Page;
use super::{LEADING, LEFT, WIDTH, made};
use crate::budget::{self, Budget, Piece};
use crate::drawn::words;
use crate::figure::us_signed;
use crate::prose::wrap;
use crate::view::{Breakdown, View};

const TITLE: &str = "Latency budget";
const ROOM: f64 = WIDTH - 2.0 * LEFT;
const BAR: f64 = 34.0;
/// Columns of small text over the whole width, and of a source.
const COLUMNS: usize = 130;
const SOURCE: usize = 92;
/// The left edges of figures, classes and sources.
const FIGURES: f64 = LEFT + 190.0;
const CLASSES: f64 = LEFT + 210.0;
const SOURCES: f64 = LEFT + 290.0;
/// A label above the bar takes this much a character.
const CHARACTER: f64 = 7.0;
/// The most paths; a picture of more is too high to look at.
const MOST: usize = 6;

/// The budgets of the view's paths as one SVG document.
///
/// ```
/// use hairpin_report::{budget_svg, view::View};
/// assert!(budget_svg(&View::default()).contains("Nothing to draw"));
/// ```
pub fn budget_svg(view: &View) -> String {
    let shown = &view.breakdowns[..view.breakdowns.len().min(MOST)];
    let mut notes = Vec::new();
    if shown.is_empty() {
        notes.push("Nothing to draw: no path was explained.".to_owned());
    }
    notes.extend((view.breakdowns.len() > MOST).then(|| format!("{} more paths are left out.", view.breakdowns.len() - MOST)));
    notes.push(made(view));
    let texts: Vec<[Vec<String>; 2]> =
        shown.iter().map(|of| [budget::declared(of).sum, of.wire_said.clone()].map(|text| wrap("", &text, COLUMNS))).collect();
    let height = |(of, texts): (&Breakdown, &[Vec<String>; 2])| {
        let lines = texts.iter().map(Vec::len).sum::<usize>() + budget::declared(of).pieces.len();
        lines as f64 * LEADING + BAR + 76.0
    };
    let all: f64 = shown.iter().zip(&texts).map(height).sum();
    let described: Vec<String> = shown.iter().map(described).collect();
    let mut page = Page::new(WIDTH, 76.0 + all + notes.len() as f64 * LEADING, TITLE, &described.join(" "));
    page.text(LEFT, 34.0, "title", TITLE);
    page.text(LEFT, 54.0, "small", "Mean of the typical round trips, to scale. Solid: measured, the rest less the floor. Hatched: not measured, but derived from published and declared figures.");
    let mut top = 76.0;
    for (of, texts) in shown.iter().zip(&texts) {
        drawn(&mut page, of, texts, top);
        top += height((of, texts));
    }
    for (i, note) in notes.iter().enumerate() {
        page.text(LEFT, top + 8.0 + i as f64 * LEADING, "small", note);
    }
    page.end()
}

/// A budget in words, for screen readers.
fn described(of: &Breakdown) -> String {
    let Budget { pieces, sum, .. } = budget::declared(of);
    let pieces = pieces.iter().map(|piece| format!("{} {} us ({})", piece.name, us_signed(piece.ns), piece.class));
    format!("{}: {}. {} {}", words::breakdown(of), pieces.collect::<Vec<_>>().join(", "), sum, of.wire_said)
}

/// As much of a source as fits its line.
fn cut(source: &str) -> String {
    let mut lines = wrap("", source, SOURCE);
    let more = if lines.len() > 1 { " ..." } else { "" };
    lines.swap_remove(0) + more
}

/// The number of a part's colour.
fn colour(part: &str) -> usize {
    match part {
        "waking" => 1,
        "kernel" => 0,
        "calls" => 5,
        "program" => 2,
        "waiting" | "pieces" => 4,
        "hooks" | "no stage" => 3,
        _ => 6,
    }
}

fn drawn(page: &mut Page, of: &Breakdown, [sum, said]: &[Vec<String>; 2], top: f64) {
    let pieces = budget::declared(of).pieces;
    let whole = budget::whole(&pieces);
    page.text(LEFT, top + 14.0, "label", &words::breakdown(of));
    let bar = top + 40.0;
    let mut x = LEFT;
    for group in pieces.chunk_by(|a, b| a.part == b.part) {
        let from = x;
        for piece in group {
            let width = budget::length(piece.ns) / whole * ROOM;
            page.open(&format!("{}: {} us, {}", piece.name, us_signed(piece.ns), piece.class));
            self::piece(page, piece, (x, bar), (width, BAR));
            page.close();
            x += width;
        }
        let label = format!("{} {}", group[0].part, us_signed(group.iter().map(|piece| piece.ns).sum()));
        if x - from >= label.chars().count() as f64 * CHARACTER {
            page.text((from + x) / 2.0, bar - 6.0, "small middle", &label);
        }
    }
    let mut y = bar + BAR + 20.0;
    for line in sum.iter().chain(said) {
        page.text(LEFT, y, "small", line);
        y += LEADING;
    }
    y += 2.0;
    for piece in &pieces {
        self::piece(page, piece, (LEFT, y - 9.0), (14.0, 10.0));
        page.text(LEFT + 22.0, y, "small", &piece.name);
        page.text(FIGURES, y, "tick end", &format!("{} us", us_signed(piece.ns)));
        page.text(CLASSES, y, "small", &piece.class);
        page.text(SOURCES, y, "small", &cut(&piece.source));
        y += LEADING;
    }
}

/// A rectangle: solid in the colour of its part, or hatched.
fn piece(page: &mut Page, piece: &Piece, at: (f64, f64), size: (f64, f64)) {
    if piece.is_floor() {
        page.hatched(at, size, "axis");
    } else {
        page.rectangle(at, size, &format!("mark c{}", colour(&piece.part)));
    }
}
