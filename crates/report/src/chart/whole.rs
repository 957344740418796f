//! A whole in one line of characters, to scale: a piece for each of its parts.

use crate::prose::{clean, width};

/// A piece of a whole that runs from 0 to 1.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Segment {
    /// Its end; it begins where the one before ends.
    pub(crate) to: f64,
    /// Its name and figure.
    pub(crate) label: [String; 2],
    /// Nothing measured it: drawn hatched.
    pub(crate) hatched: bool,
}

/// `|### waking 42.1 ###|# kernel 7.3 #|/ niq 3.98 /|`; a piece of one column has no edge.
pub(crate) fn line(pieces: &[Segment], room: usize) -> String {
    let room = room.max(2) - 1;
    let column = |at: f64| if at.is_nan() { 0 } else { (at.clamp(0.0, 1.0) * room as f64).round() as usize };
    let (mut line, mut from) = (String::new(), 0);
    for piece in pieces {
        let columns = column(piece.to).saturating_sub(from);
        from += columns;
        let full = if piece.hatched { "/" } else { "#" };
        line.push_str(match columns {
            0 => "",
            1 => full,
            _ => "|",
        });
        let spare = columns.saturating_sub(1);
        let [name, figure] = piece.label.each_ref().map(|text| clean(text));
        let labels = [format!(" {name} {figure} "), format!(" {name} "), String::new()];
        let label = labels.into_iter().find(|label| width(label) <= spare).unwrap_or_default();
        let left = (spare - width(&label)) / 2;
        line.extend([&full.repeat(left), &label, &full.repeat(spare - width(&label) - left)].map(String::as_str));
    }
    line + "|"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_to_scale_and_labelled_where_they_have_room() {
        let all = [(0.5, "waking", false), (0.9, "calls", false), (0.95, "x", true), (1.0, "y", true)];
        let all = all.map(|(to, label, hatched)| Segment { to, label: [label.into(), "5.0".into()], hatched });
        assert_eq!(line(&all, 41), "|### waking 5.0 ####|## calls 5.0 ##|/|/|");
        assert_eq!(line(&all, 21), "| waking #| calls //|");
        assert_eq!(line(&[Segment { to: f64::NAN, ..all[0].clone() }], 0), "|");
    }
}
