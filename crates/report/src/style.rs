//! Colours, used only if the options ask for them.

use anstyle::{Ansi256Color, AnsiColor, Style};

/// The colours of Okabe and Ito, as closely as a terminal's 256 allow, light enough for a dark background.
const PALETTE: [u8; 7] = [32, 166, 36, 175, 214, 74, 244];

/// The role of a piece of text, which decides its colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    #[default]
    Plain,
    /// The heading of a column, a table or a list.
    Heading,
    /// A reason why a figure may mislead.
    Warning,
    /// A failure.
    Error,
    /// The mark of a warning where only the main figure stands out.
    Mark,
    /// The figure to read first.
    Main,
    /// Of little interest beside the rest.
    Dim,
    /// A line of a plot, by number.
    Line(usize),
}

impl Tone {
    /// The text in this tone's colour, or unchanged without colour.
    pub(crate) fn paint(self, text: &str, colour: bool) -> String {
        let style = match self {
            _ if text.is_empty() => return String::new(),
            Tone::Plain => return text.into(),
            Tone::Heading | Tone::Main => Style::new().bold(),
            Tone::Dim => Style::new().dimmed(),
            Tone::Warning => AnsiColor::Yellow.on_default().bold(),
            Tone::Mark => AnsiColor::Yellow.on_default(),
            Tone::Error => AnsiColor::Red.on_default().bold(),
            Tone::Line(line) => Ansi256Color(PALETTE[line % PALETTE.len()]).on_default(),
        };
        if colour { format!("{style}{text}{style:#}") } else { text.into() }
    }
}
