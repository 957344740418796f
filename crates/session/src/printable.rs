//! Makes foreign text safe to print.

/// Text of a foreign peer or file as one line for a log or terminal: control characters escaped, at most `limit` characters.
pub fn printable(text: &str, limit: usize) -> String {
    let mut shown = String::new();
    for c in text.chars().take(limit) {
        if matches!(c, '"' | '\'' | '\\') { shown.push(c) } else { shown.extend(c.escape_debug()) }
    }
    if text.chars().nth(limit).is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use crate::printable::printable;

    #[test]
    fn escapes_cursor_movements() {
        assert_eq!(printable("a\"\u{1b}[2J\r\n", 20), "a\"\\u{1b}[2J\\r\\n");
        assert_eq!(printable("abcdef", 3), "abc…");
    }
}
