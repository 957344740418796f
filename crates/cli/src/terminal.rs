//! Width and colours of the terminal.

use std::io::{self, IsTerminal};

use hairpin_report::Options;
use ratatui::crossterm::terminal;

/// True for a terminal on which lines can be drawn anew: TERM is set, and not dumb.
pub fn can_be_drawn_on(of: &impl IsTerminal) -> bool {
    of.is_terminal() && std::env::var("TERM").is_ok_and(|term| term != "dumb")
}

/// The columns of a terminal, or as COLUMNS says; 80 for a file or pipe.
pub fn width(of: &impl IsTerminal) -> usize {
    let asked = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok()).filter(|columns| *columns > 0);
    let size = || {
        of.is_terminal()
            .then(|| terminal::size().ok())
            .flatten()
            .map(|(columns, _)| usize::from(columns))
            .filter(|columns| *columns > 0)
    };
    asked.or_else(size).unwrap_or(Options::default().width)
}

/// True if stdout supports colour: a terminal that is not dumb, without NO_COLOR.
pub fn colour() -> bool {
    anstream::AutoStream::choice(&io::stdout()) != anstream::ColorChoice::Never && io::stdout().is_terminal()
}
