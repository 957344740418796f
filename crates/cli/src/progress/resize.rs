//! Lines that stay where they are on a terminal whose width changes.
//!
//! ```text
//!   | [1/2] udp:block  ... |  ──▶  | [1/2] udp  |    each line is filled up to its end, so a terminal breaks all of them anew as one long line;
//!   | [2/2] udp:spin   ... |       | :block ... |    who redraws two rows has to know that there are four
//! ```

use std::cell::Cell;
use std::env;
use std::io::{self, Write};

use ratatui::crossterm::terminal;

/// The last drawing.
#[derive(Debug, Default)]
pub struct Drawn {
    /// Columns of the terminal, and lines.
    last: Cell<Option<(usize, usize)>>,
}

impl Drawn {
    /// Call before the lines are drawn anew or removed. If the terminal has broken them into other rows, moves the cursor to
    /// where the last line ends if each takes one row, counted from the first row that they take now.
    pub fn settle(&self) {
        let (Some((was, lines)), Some(now)) = (self.last.get(), columns()) else { return };
        if was == now || !breaks_anew() {
            return;
        }
        self.last.set(Some((now, lines)));
        let mut err = io::stderr().lock();
        // Without a terminal nothing is lost.
        let _ = write!(err, "{}", moves(rows(was, lines, now), lines)).and_then(|()| err.flush());
    }

    /// Notes that `lines` lines are drawn.
    pub fn drew(&self, lines: usize) {
        self.last.set(columns().map(|columns| (columns, lines)));
    }
}

fn columns() -> Option<usize> {
    terminal::size().ok().map(|(columns, _)| usize::from(columns)).filter(|columns| *columns > 0)
}

/// True unless this is one of the terminals that leave rows as they are: the console, xterm and GNU screen.
fn breaks_anew() -> bool {
    let given = |name: &str| env::var_os(name).is_some_and(|value| !value.is_empty());
    let multiplexed = given("TMUX");
    multiplexed || !(given("XTERM_VERSION") || given("STY") || env::var_os("TERM").is_some_and(|term| term == "linux"))
}

/// The rows that lines filled to the width `was` take at the width `now`.
fn rows(was: usize, lines: usize, now: usize) -> usize {
    (was * lines).div_ceil(now)
}

/// Clears the surplus rows from the last one up, or goes down by as many rows as are missing.
fn moves(rows: usize, lines: usize) -> String {
    "\r\u{1b}[2K\u{1b}[1A".repeat(rows.saturating_sub(lines)) + &"\n".repeat(lines.saturating_sub(rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_filled_to_a_width_take_more_rows_at_a_smaller_one() {
        assert_eq!([rows(100, 1, 60), rows(100, 3, 60), rows(60, 3, 140), rows(80, 2, 80)], [2, 5, 2, 2]);
        assert_eq!(moves(2, 1), "\r\u{1b}[2K\u{1b}[1A");
        assert_eq!([moves(2, 3), moves(2, 2)], ["\n", ""]);
    }
}
