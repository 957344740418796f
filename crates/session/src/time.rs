//! The time format of a record.

use std::time::{Duration, SystemTime};

/// The last second that RFC 3339, with its four-digit years, can express.
const END_OF_9999: Duration = Duration::from_secs(253_402_300_799);

/// A time in UTC in RFC 3339, with microseconds: `2026-11-20T11:50:07.297123Z`. Times before 1970 and after 9999 are clamped to
/// those years.
pub fn rfc3339(time: SystemTime) -> String {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().min(END_OF_9999);
    let (days, second) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:06}Z", since.subsec_micros())
}

/// The Gregorian date of a day since 1970-01-01 (Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`).
fn civil(days: u64) -> (u64, u64, u64) {
    // Years start in March here, so that the leap day is the last day of a year.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let (month, carried) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (400 * era + year_of_era + carried, month, day)
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
    }
}
