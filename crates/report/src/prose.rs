//! Running text for a terminal: sanitised, measured in columns, wrapped.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// The width of lines if the terminal is not asked for its width.
pub(crate) const WIDTH: usize = 80;

/// Makes text safe to print on a terminal. Line breaks and tabs become spaces. Other control characters become U+FFFD, and so do
/// characters that change the writing direction, join or vary their neighbours (a terminal may draw those wider than counted).
pub fn clean(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '\n' | '\r' | '\t' => ' ',
            c if steers(c) => '\u{FFFD}',
            c => c,
        })
        .collect()
}

/// True for a character that a terminal may obey, or that changes the writing direction, or joins or varies its neighbours.
pub(crate) fn steers(c: char) -> bool {
    let turns = matches!(c, '\u{061C}' | '\u{200E}' | '\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2066}'..='\u{206F}');
    let joins = matches!(c, '\u{180B}'..='\u{180F}' | '\u{200B}'..='\u{200D}' | '\u{2060}'..='\u{2064}' | '\u{FEFF}');
    c.is_control() || turns || joins || matches!(c, '\u{FE00}'..='\u{FE0F}' | '\u{E0000}'..='\u{E01EF}')
}

/// The number of terminal columns that the text takes.
pub(crate) fn width(text: &str) -> usize {
    text.width()
}

/// The text with its first letter in upper case.
pub(crate) fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().collect::<String>() + letters.as_str())
}

/// Wraps a paragraph to at most `columns`: the first line starts with `first`, the others with as many spaces. A word longer than
/// a line is broken.
pub fn wrap(first: &str, text: &str, columns: usize) -> Vec<String> {
    let indent = width(first);
    let room = columns.saturating_sub(indent).max(8);
    let mut lines = vec![String::new()];
    for word in clean(text).split_whitespace() {
        for (part, piece) in fold(word, room).into_iter().enumerate() {
            let line = lines.last_mut().expect("there is a first line and none is removed");
            if line.is_empty() {
                *line = piece;
            } else if part == 0 && width(line) + 1 + width(&piece) <= room {
                line.push(' ');
                line.push_str(&piece);
            } else {
                lines.push(piece);
            }
        }
    }
    let rest = " ".repeat(indent);
    lines.iter().enumerate().map(|(i, line)| format!("{}{line}", if i == 0 { first } else { &rest })).collect()
}

/// Cuts a word into pieces of at most `room` columns.
pub(crate) fn fold(word: &str, room: usize) -> Vec<String> {
    let mut pieces = vec![String::new()];
    let mut used = 0;
    for c in word.chars() {
        let columns = c.width().unwrap_or(0);
        if used + columns > room && used > 0 {
            pieces.push(String::new());
            used = 0;
        }
        pieces.last_mut().expect("there is a first piece and none is removed").push(c);
        used += columns;
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_steer_the_terminal() {
        assert_eq!(clean("a\x1b[31mb\u{202E}c\nd"), "a\u{FFFD}[31mb\u{FFFD}c d");
        assert_eq!(clean("a\u{061C}b\u{2060}c\u{180E}d\u{9b}é"), "a\u{FFFD}b\u{FFFD}c\u{FFFD}d\u{FFFD}é");
    }

    #[test]
    fn lines_hang_under_their_first() {
        assert_eq!(wrap(" 1. ", "one two three four", 14), [" 1. one two", "    three four"]);
        assert_eq!(wrap("", "", 80), [""]);
    }

    #[test]
    fn columns_are_counted_not_characters() {
        let lines = wrap("- ", "網路延遲 網路延遲 abc", 12);
        assert_eq!(lines, ["- 網路延遲", "  網路延遲", "  abc"]);
        assert_eq!(wrap("", &"x".repeat(25), 10), ["x".repeat(10), "x".repeat(10), "x".repeat(5)]);
    }
}
