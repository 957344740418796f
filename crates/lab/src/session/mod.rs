//! How the two sides of a run talk: messages in frames, over a socketpair to one's own worker and over TCP to `hairpin serve`.
//!
//! ```text
//!   message     a serde type, as JSON
//!   frame       length u32 (little endian) | body, at most 4 MiB
//!   record      length u16 (little endian) | Noise transport message      only if the session has a key
//!   handshake   preamble ⇄ preamble, then the Noise handshake              only over TCP
//!   socket      bytes, each read and write bounded by a deadline
//! ```

pub mod channel;
pub mod handshake;
pub mod key;
mod socket;

/// What a foreign peer sent, fit for one line of a log or terminal: control characters escaped, at most `limit` characters.
fn printable(text: &str, limit: usize) -> String {
    let mut shown: String = text.chars().take(limit).flat_map(char::escape_debug).collect();
    if text.chars().nth(limit).is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::printable;

    #[test]
    fn escapes_what_would_move_a_cursor() {
        assert_eq!(printable("a\u{1b}[2J\r\n", 20), "a\\u{1b}[2J\\r\\n");
        assert_eq!(printable("abcdef", 3), "abc…");
    }
}
