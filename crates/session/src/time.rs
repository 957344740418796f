//! The time format of a record.

use std::time::{Duration, SystemTime};

/// The last second that RFC 3339, with its four-digit years, can express.
const END_OF_9999: Duration = Duration::from_secs(253_402_300_799);

/// A time in UTC in RFC 3339, with microseconds: `2026-11-20T11:50:07.297123Z`. Times before 1970 and after 9999 are clamped to
/// those years.
pub fn rfc3339(time: SystemTime) -> String {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().min(END_OF_9999);
    humantime::format_rfc3339_micros(SystemTime::UNIX_EPOCH + since).to_string()
}

/// The time that [`rfc3339`] wrote; `None` for other texts.
pub fn parsed(text: &str) -> Option<SystemTime> {
    humantime::parse_rfc3339(text).ok()
}

/// The time that [`rfc3339`] wrote, in the time zone of this host and without fractions: `2026-11-20 12:50:07`; other texts
/// unchanged.
pub fn local(text: &str) -> String {
    let local = parsed(text).map(chrono::DateTime::<chrono::Local>::from);
    local.map_or(text.into(), |time| time.format("%Y-%m-%d %H:%M:%S").to_string())
}

/// A duration in words, to the second: `2h 1m 3s`.
pub fn words(duration: Duration) -> String {
    humantime::format_duration(Duration::from_secs(duration.as_secs())).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_dates() {
        let at = |s: u64| rfc3339(SystemTime::UNIX_EPOCH + Duration::from_secs(s));
        assert_eq!(at(0), "1970-01-01T00:00:00.000000Z");
        assert_eq!(at(951_782_400), "2000-02-29T00:00:00.000000Z");
        assert_eq!(at(1_234_567_890), "2009-02-13T23:31:30.000000Z");
        assert_eq!(at(4_107_542_399), "2100-02-28T23:59:59.000000Z");
        assert_eq!(at(4_107_542_400), "2100-03-01T00:00:00.000000Z");
        assert_eq!(at(u64::MAX >> 8), "9999-12-31T23:59:59.000000Z");
        assert_eq!(rfc3339(SystemTime::UNIX_EPOCH - Duration::from_secs(1)), at(0));
        assert_eq!(parsed(&at(951_782_400)), Some(SystemTime::UNIX_EPOCH + Duration::from_secs(951_782_400)));
        assert_eq!(parsed("yesterday"), None);
        assert_eq!(local("yesterday"), "yesterday");
        assert_eq!(local(&at(951_782_400)).len(), "2000-02-29 00:00:00".len());
    }
}
