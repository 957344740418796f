//! Colours, used only where the options ask for them.

use anstyle::{Ansi256Color, AnsiColor, Style};

/// Colours of Okabe and Ito as near as a terminal's 256 have them, light enough for a dark screen.
const PALETTE: [u8; 7] = [32, 166, 36, 175, 214, 74, 244];

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
    /// A line of a picture, by its number.
    Line(usize),
}

impl Tone {
    /// The text in this tone's colour, or as it is.
    pub(crate) fn paint(self, text: &str, colour: bool) -> String {
        let style = match self {
            _ if text.is_empty() => return String::new(),
            Tone::Plain => return text.into(),
            Tone::Heading => Style::new().bold(),
            Tone::Warning => AnsiColor::Yellow.on_default().bold(),
            Tone::Error => AnsiColor::Red.on_default().bold(),
            Tone::Line(line) => Ansi256Color(PALETTE[line % PALETTE.len()]).on_default(),
        };
        if colour { format!("{style}{text}{style:#}") } else { text.into() }
    }
}
