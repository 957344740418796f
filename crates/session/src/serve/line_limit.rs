//! A limit on lines of the log: the first few of every ten seconds as lines, the rest as a count.

use std::time::{Duration, Instant};

/// The window of a limit.
const WINDOW: Duration = Duration::from_secs(10);

/// The lines of one kind in the current window.
#[derive(Debug)]
pub(super) struct LineLimit {
    most: u32,
    window: Option<Window>,
}

#[derive(Debug)]
struct Window {
    began: Instant,
    lines: u32,
    more: u64,
}

impl LineLimit {
    /// At most that many lines in ten seconds.
    pub(super) fn new(most: u32) -> LineLimit {
        LineLimit { most, window: None }
    }

    /// Counts an event; true if it gets a line of its own.
    pub(super) fn note(&mut self, now: Instant) -> bool {
        let window = self.window.get_or_insert(Window { began: now, lines: 0, more: 0 });
        if window.lines < self.most {
            window.lines += 1;
            return true;
        }
        window.more += 1;
        false
    }

    /// The line that sums up the others, once it is due; `what` they were.
    pub(super) fn summary(&mut self, now: Instant, what: &str) -> Option<String> {
        let window = self.window.take_if(|window| now.saturating_duration_since(window.began) >= WINDOW)?;
        (window.more > 0).then(|| format!("{} more {what} in {} s", grouped(window.more), WINDOW.as_secs()))
    }

    /// Time until the next summary, if one is pending.
    pub(super) fn due(&self, now: Instant) -> Option<Duration> {
        self.window.as_ref().map(|window| WINDOW.saturating_sub(now.saturating_duration_since(window.began)))
    }
}

/// Groups digits by three: `13,000`.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_eight_lines_and_a_number_in_ten_seconds() {
        let (mut refusals, begun) = (LineLimit::new(8), Instant::now());
        assert_eq!(refusals.due(begun), None);
        assert_eq!((0..13_008).filter(|_| refusals.note(begun)).count(), 8);
        assert_eq!(refusals.summary(begun + WINDOW / 2, "refused"), None);
        assert_eq!(refusals.due(begun + WINDOW / 2), Some(WINDOW / 2));
        assert_eq!(refusals.summary(begun + WINDOW, "refused").as_deref(), Some("13,000 more refused in 10 s"));
        assert_eq!(refusals.summary(begun + WINDOW, "refused"), None);
        // All of a few refusals are logged, and no summary follows.
        assert!(refusals.note(begun + WINDOW));
        assert_eq!(refusals.summary(begun + 2 * WINDOW, "refused"), None);
        assert_eq!((grouped(7), grouped(1_000), grouped(1_234_567)), ("7".into(), "1,000".into(), "1,234,567".into()));
    }
}
