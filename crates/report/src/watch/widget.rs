//! Helpers shared by the parts of a frame.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;

/// Writes a part's title on its first line and returns the remaining area.
pub(super) fn titled(frame: &mut Frame<'_>, area: Rect, title: String) -> Rect {
    let [line, rest] = Layout::vertical([Constraint::Length(1), Constraint::Fill(1)]).areas(area);
    frame.render_widget(Line::styled(title, Style::new().add_modifier(Modifier::BOLD)), line);
    rest
}

/// A style, with its foreground colour only if `colour`.
pub(super) fn style(colour: bool, fg: Color, more: Modifier) -> Style {
    let style = Style::new().add_modifier(more);
    if colour { style.fg(fg) } else { style }
}

/// A time since the start, as short as the precision of an axis allows.
pub(super) fn seconds(s: f64) -> String {
    match s {
        s if s < 10.0 => format!("{s:.1} s"),
        s if s < 600.0 => format!("{s:.0} s"),
        s => {
            let whole = s as u64;
            format!("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_short() {
        assert_eq!([0.0, 9.94, 75.0, 3725.0].map(seconds), ["0.0 s", "9.9 s", "75 s", "1:02:05"]);
    }
}
