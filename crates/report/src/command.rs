//! Breaks a command line over several lines so that a shell still reads it as one.

use crate::prose::{fold, width};

/// Ends a line that is continued.
const GOES_ON: &str = " \\";

/// Shown where a word was cut.
const CUT: &str = "(a word longer than a line is cut: take this command from the record)";

/// The command, each line prefixed with `indent`, broken only at spaces outside quotes. A word longer than a line is cut, and the
/// result is then not valid shell.
pub(crate) fn lines(indent: &str, command: &str, columns: usize) -> Vec<String> {
    let room = columns.saturating_sub(width(indent) + width(GOES_ON) + 2).max(8);
    let mut lines: Vec<String> = Vec::new();
    let words = words(command);
    let cut = words.iter().any(|word| width(word) > room);
    for word in words {
        for (part, piece) in fold(word, room).into_iter().enumerate() {
            match lines.last_mut() {
                Some(line) if part == 0 && width(line) + 1 + width(&piece) <= room => {
                    line.push(' ');
                    line.push_str(&piece);
                }
                _ => lines.push(piece),
            }
        }
    }
    let last = lines.len().saturating_sub(1);
    let ends = |i: usize| if i < last { GOES_ON } else { "" };
    let begins = |i: usize| if i > 0 { "  " } else { "" };
    let lines = lines.iter().enumerate().map(|(i, line)| format!("{indent}{}{line}{}", begins(i), ends(i)));
    lines.chain(cut.then(|| format!("{indent}{CUT}"))).collect()
}

/// Splits a command into words, quotes included.
fn words(command: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let (mut from, mut quote, mut escaped) = (0, None, false);
    for (at, c) in command.char_indices() {
        match (c, quote) {
            _ if escaped => escaped = false,
            ('\\', None | Some('"')) => escaped = true,
            (' ', None) => {
                words.push(&command[from..at]);
                from = at + 1;
            }
            ('\'' | '"', None) => quote = Some(c),
            (c, Some(open)) if c == open => quote = None,
            _ => {}
        }
    }
    words.push(&command[from..]);
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_stay_whole() {
        let command = r#"hairpin ping --path 'udp:spin x' --note "a \" b" it\ is"#;
        assert_eq!(words(command), ["hairpin", "ping", "--path", "'udp:spin x'", "--note", r#""a \" b""#, r"it\ is"]);
        let want = ["  hairpin ping --path \\", "    'udp:spin x' --note \\", "    \"a \\\" b\" it\\ is"];
        assert_eq!(lines("  ", command, 28), want);
    }

    #[test]
    fn long_words_are_cut() {
        let long = lines("", &"x".repeat(200), 80);
        assert!(long.iter().all(|line| width(line) <= 80) && long.ends_with(&[CUT.into()]), "{long:?}");
        assert!(lines("", "", 80).is_empty());
    }
}
