//! Colours, used only where the options ask for them.

use anstyle::{AnsiColor, Style};

/// A column's or a section's heading.
pub(crate) const HEADING: Style = Style::new().bold();
/// Something that may mislead.
pub(crate) const WARNING: Style = AnsiColor::Yellow.on_default().bold();
/// Something that failed.
pub(crate) const ERROR: Style = AnsiColor::Red.on_default().bold();

/// The text in this style, or as it is.
pub(crate) fn paint(text: &str, style: Style, colour: bool) -> String {
    if colour { format!("{style}{text}{style:#}") } else { text.into() }
}
