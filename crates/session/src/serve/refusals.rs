//! The log of refusals: the first few of every ten seconds by line, the others by number.

use std::time::{Duration, Instant};

/// Lines of refusals …
const LINES: u32 = 8;
/// … in so long.
const WINDOW: Duration = Duration::from_secs(10);

/// What was refused lately.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    window: Option<Window>,
}

#[derive(Debug)]
struct Window {
    began: Instant,
    lines: u32,
    more: u64,
}

impl Refusals {
    /// Notes one; true if it is to be logged by itself.
    pub(super) fn note(&mut self, now: Instant) -> bool {
        let window = self.window.get_or_insert(Window { began: now, lines: 0, more: 0 });
        if window.lines < LINES {
            window.lines += 1;
            return true;
        }
        window.more += 1;
        false
    }

    /// The line that sums up the others, once it is due.
    pub(super) fn summary(&mut self, now: Instant) -> Option<String> {
        let window = self.window.take_if(|window| now.saturating_duration_since(window.began) >= WINDOW)?;
        (window.more > 0).then(|| format!("{} more refused in {} s", grouped(window.more), WINDOW.as_secs()))
    }

    /// How long until the next summary, if one is to come.
    pub(super) fn due(&self, now: Instant) -> Option<Duration> {
        self.window.as_ref().map(|window| WINDOW.saturating_sub(now.saturating_duration_since(window.began)))
    }
}

/// `13,000`.
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
        let (mut refusals, begun) = (Refusals::default(), Instant::now());
        assert_eq!(refusals.due(begun), None);
        assert_eq!((0..13_008).filter(|_| refusals.note(begun)).count(), 8);
        assert_eq!(refusals.summary(begun + WINDOW / 2), None);
        assert_eq!(refusals.due(begun + WINDOW / 2), Some(WINDOW / 2));
        assert_eq!(refusals.summary(begun + WINDOW).as_deref(), Some("13,000 more refused in 10 s"));
        assert_eq!(refusals.summary(begun + WINDOW), None);
        // A few are all logged, with nothing to sum up.
        assert!(refusals.note(begun + WINDOW));
        assert_eq!(refusals.summary(begun + 2 * WINDOW), None);
        assert_eq!((grouped(7), grouped(1_000), grouped(1_234_567)), ("7".into(), "1,000".into(), "1,234,567".into()));
    }
}
