//! Table cells. A cell stores a figure and its kind; each format decides how to write it.
//!
//! ```text
//!   Cell::Ns(4700.0)      a terminal and a page show  4.700   (us)     scripts read  4700.0   (ns)
//!   Cell::Share(0.0123)                               1.23 %                         0.0123
//! ```

use crate::chart::strip::Strip;
use crate::figure::{decimals, fine_ratio, percent, rate, us_signed};
use crate::prose::clean;
use crate::style::Tone;

#[derive(Clone, Debug, Default, PartialEq)]
pub enum Cell {
    /// Unknown, or not applicable.
    #[default]
    Blank,
    Text(String),
    /// A highlighted word, such as a verdict.
    Word(String, Tone),
    /// A count, a number of bytes, or a time in the whole units named by the column.
    Count(u64),
    /// A time or a mean of times in ns, shown in us.
    Ns(f64),
    /// A difference of times in ns, shown in us and signed.
    Growth(f64),
    /// Events per second.
    Rate(f64),
    /// A fraction of 1, shown in percent with a `%` sign.
    Share(f64),
    /// A fraction of 1 in a column whose title says percent, so without the `%` sign.
    Percent(f64),
    /// A ratio near 1.
    Ratio(f64),
    /// A number with at most four significant digits.
    Number(f64),
    /// A number with this many decimals.
    Fixed(f64, usize),
    /// A fraction of the longest bar, drawn in a line's colour in eighths of a column; terminals only.
    Block(f64, usize),
    /// Ranges on the scale printed above the column; terminals only.
    Strip(Strip, usize),
    /// Part of a whole, drawn to scale in the room that the other columns leave; terminals only.
    Bar(Bar),
}

/// Part of a whole that runs from 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bar {
    pub from: f64,
    /// End of the part; less than `from` for a negative part.
    pub to: f64,
    /// The furthest possible end, where that is beyond `to`.
    pub most: f64,
    /// Nothing measured it: drawn hatched.
    pub hatched: bool,
}

impl Bar {
    /// A part whose end is exact.
    pub fn new(from: f64, to: f64) -> Bar {
        Bar { from, to, most: to, hatched: false }
    }

    /// `#` (hatched `/`) from start to end, `-` on to the furthest possible end, `<` for a negative part. Less than half a column
    /// becomes a dot.
    fn drawn(self, room: usize) -> String {
        let exact = |at: f64| if at.is_nan() { 0.0 } else { at.clamp(0.0, 1.0) * room as f64 };
        let column = |at: f64| exact(at).round() as usize;
        let (from, to, most) = (column(self.from), column(self.to), column(self.most.max(self.to)));
        let length = exact(self.most.max(self.to)) - exact(self.from);
        if self.to < self.from && self.most < self.from {
            return format!("{}{}", " ".repeat(to.min(room - 1)), "<".repeat((from - to).max(1)));
        }
        if length <= 0.0 {
            return String::new();
        }
        let indent = " ".repeat(from.min(room - 1));
        if length < 0.5 {
            return indent + ".";
        }
        let solid = to.saturating_sub(from);
        let open = most.saturating_sub(to.max(from));
        let full = if self.hatched { "/" } else { "#" };
        format!("{indent}{}{}", full.repeat(if solid + open == 0 { 1 } else { solid }), "-".repeat(open))
    }
}

impl Cell {
    /// A time stored as whole ns in a record.
    pub fn ns(ns: Option<u64>) -> Cell {
        ns.map(|ns| ns as f64).into_cell(Cell::Ns)
    }

    /// The text for people; a bar gets `room` columns.
    pub(crate) fn shown(&self, room: usize) -> String {
        match self {
            Cell::Blank => String::new(),
            Cell::Text(text) | Cell::Word(text, _) => clean(text),
            Cell::Count(count) => count.to_string(),
            Cell::Ns(ns) => us_signed(*ns),
            Cell::Growth(ns) => format!("{}{}", if *ns > 0.0 { "+" } else { "" }, us_signed(*ns)),
            Cell::Rate(per_s) => rate(*per_s),
            Cell::Share(share) => format!("{} %", percent(*share)),
            Cell::Percent(share) => percent(*share),
            Cell::Ratio(ratio) => fine_ratio(*ratio),
            Cell::Number(number) => decimals(*number),
            Cell::Fixed(number, places) => format!("{number:.places$}"),
            Cell::Bar(bar) => bar.drawn(room),
            Cell::Block(share, _) => block(*share, room),
            Cell::Strip(strip, _) => strip.drawn(room),
        }
    }

    /// The text for scripts: unrounded numbers in the unit given in the column's name. A number that may have a fraction always
    /// has a decimal point, so that any line reveals the column's type.
    pub(crate) fn raw(&self) -> String {
        match self {
            Cell::Blank | Cell::Bar(_) | Cell::Block(..) | Cell::Strip(..) => String::new(),
            Cell::Text(text) | Cell::Word(text, _) => harmless(text),
            Cell::Count(count) => count.to_string(),
            Cell::Ns(number) | Cell::Growth(number) | Cell::Rate(number) | Cell::Share(number) | Cell::Percent(number) => {
                float(*number)
            }
            Cell::Ratio(number) | Cell::Number(number) | Cell::Fixed(number, _) => float(*number),
        }
    }

    /// The unit of [`raw`](Cell::raw), as a suffix for the column's name.
    pub(crate) fn unit(&self) -> &'static str {
        match self {
            Cell::Ns(_) | Cell::Growth(_) => "_ns",
            Cell::Rate(_) => "_per_s",
            Cell::Share(_) | Cell::Percent(_) => "_share",
            _ => "",
        }
    }

    pub(crate) fn tone(&self) -> Tone {
        match self {
            Cell::Word(_, tone) => *tone,
            Cell::Block(_, line) | Cell::Strip(_, line) => Tone::Line(*line),
            _ => Tone::Plain,
        }
    }
}

/// Text that steers no terminal, and that no spreadsheet takes for a formula: a host may call itself anything.
fn harmless(text: &str) -> String {
    let text = clean(text);
    // The name of a sum: `= client`.
    let is_sum = text.strip_prefix("= ").is_some_and(|name| name.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b' '));
    let is_formula = text.len() > 1 && text.starts_with(['=', '+', '-', '@']) && text.parse::<f64>().is_err() && !is_sum;
    if is_formula { format!("'{text}") } else { text }
}

/// Eighths of a column, the thinnest first.
const EIGHTHS: [char; 7] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉'];

/// Full columns plus the remaining eighths. Any share above 0 draws something.
pub(crate) fn block(share: f64, room: usize) -> String {
    if share.is_nan() || share <= 0.0 {
        return String::new();
    }
    let eighths = (share.min(1.0) * (room * 8) as f64).round().max(1.0) as usize;
    let rest = (!eighths.is_multiple_of(8)).then(|| EIGHTHS[eighths % 8 - 1]);
    "█".repeat(eighths / 8).chars().chain(rest).collect()
}

fn float(value: f64) -> String {
    let text = value.to_string();
    if value.is_finite() && !text.contains('.') { format!("{text}.0") } else { text }
}

/// Turns an optional value into a cell.
pub(crate) trait IntoCell<T> {
    /// Blank for `None`.
    fn into_cell(self, kind: impl FnOnce(T) -> Cell) -> Cell;
}

impl<T> IntoCell<T> for Option<T> {
    fn into_cell(self, kind: impl FnOnce(T) -> Cell) -> Cell {
        self.map_or(Cell::Blank, kind)
    }
}

impl From<u64> for Cell {
    fn from(count: u64) -> Cell {
        Cell::Count(count)
    }
}

impl From<u32> for Cell {
    fn from(count: u32) -> Cell {
        Cell::Count(count.into())
    }
}

/// A number without a unit of its own, for scripts.
impl From<f64> for Cell {
    fn from(number: f64) -> Cell {
        Cell::Number(number)
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Cell {
        if text.is_empty() { Cell::Blank } else { Cell::Text(text.into()) }
    }
}

impl From<&String> for Cell {
    fn from(text: &String) -> Cell {
        text.as_str().into()
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Cell {
        if text.is_empty() { Cell::Blank } else { Cell::Text(text) }
    }
}

impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Cell {
        value.map_or(Cell::Blank, Into::into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_shown_and_read_in_units_of_its_own() {
        for (cell, shown, raw) in [
            (Cell::Ns(4700.0), "4.700", "4700.0"),
            (Cell::Growth(52.0), "+0.052", "52.0"),
            (Cell::Share(0.0123), "1.23 %", "0.0123"),
            (Cell::Rate(199_660.2), "199660", "199660.2"),
            (Cell::Fixed(0.25, 1), "0.2", "0.25"),
            (Cell::Count(7), "7", "7"),
            (Cell::from(None::<u64>), "", ""),
        ] {
            assert_eq!((cell.shown(0).as_str(), cell.raw().as_str()), (shown, raw), "{cell:?}");
        }
    }

    #[test]
    fn scripts_read_text_that_steers_nothing() {
        for (text, raw) in [
            ("udp:spin", "udp:spin"),
            ("-", "-"),
            ("-1", "-1"),
            ("+0.5", "+0.5"),
            ("=1+1", "'=1+1"),
            ("-2+3|x", "'-2+3|x"),
            ("@a", "'@a"),
            ("a\u{1b}[2J\nb", "a\u{FFFD}[2J b"),
        ] {
            assert_eq!(Cell::from(text).raw(), raw);
        }
    }

    #[test]
    fn blocks_have_eighths() {
        let drawn = [0.0, 1e-9, 0.5, 6.25 / 8.0, 1.0, f64::NAN].map(|share| block(share, 4));
        assert_eq!(drawn, ["", "▏", "██", "███▏", "████", ""]);
        assert_eq!(block(f64::INFINITY, 2), "██");
    }

    #[test]
    fn bars_show_the_values() {
        let drawn = |from, to, most| Bar { from, to, most, hatched: false }.drawn(10);
        assert_eq!(drawn(0.0, 0.5, 0.5), "#####");
        assert_eq!(drawn(0.2, 0.4, 0.6), "  ##--");
        assert_eq!(drawn(0.5, 0.51, 0.51), "     .");
        assert_eq!(drawn(1.0, 1.0 + 1e-3, 0.0), "");
        assert_eq!(drawn(0.6, 0.4, 0.4), "    <<");
        assert_eq!(drawn(0.3, 0.3, 0.3), "");
        assert_eq!(Bar { hatched: true, ..Bar::new(0.2, 0.4) }.drawn(10), "  //");
        assert_eq!(drawn(f64::NAN, f64::INFINITY, 0.0), "##########");
    }
}
