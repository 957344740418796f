//! Colours, used only where the options ask for them.

use anstyle::{AnsiColor, Style};

/// What a piece of text is to the reader.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    /// A fact.
    #[default]
    Plain,
    /// The heading of a column, a table or a list.
    Heading,
    /// Something that may mislead.
    Warning,
    /// Something that failed.
    Error,
}

impl Tone {
    /// The text in this tone's colour, or as it is.
    pub(crate) fn paint(self, text: &str, colour: bool) -> String {
        let style = match self {
            Tone::Plain => return text.into(),
            Tone::Heading => Style::new().bold(),
            Tone::Warning => AnsiColor::Yellow.on_default().bold(),
            Tone::Error => AnsiColor::Red.on_default().bold(),
        };
        paint(text, style, colour)
    }
}

/// The text in this style, or as it is.
pub(crate) fn paint(text: &str, style: Style, colour: bool) -> String {
    if colour { format!("{style}{text}{style:#}") } else { text.into() }
}
