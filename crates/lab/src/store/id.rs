//! A run's id, and the time of day behind it.

use std::fmt;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// A run's id, such as `20261120-115007-4c1f`. It has no other form, so it is always one plain directory name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId(String);

impl RunId {
    /// An id in its only form, `YYYYMMDD-HHMMSS-xxxx`.
    pub fn parse(text: &str) -> Option<RunId> {
        let is_id = text.len() == 20
            && text.bytes().enumerate().all(|(i, byte)| match i {
                8 | 15 => byte == b'-',
                16.. => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
                _ => byte.is_ascii_digit(),
            });
        is_id.then(|| RunId(text.into()))
    }

    /// The id of a run that started at `started`, as [`rfc3339`] writes it; of one that starts now if it is anything else.
    pub(super) fn at(started: &str) -> RunId {
        RunId::of(started)
            .or_else(|| RunId::of(&rfc3339(SystemTime::now())))
            .expect("rfc3339 writes four digits of a year, which is all that `of` wants")
    }

    /// `2026-11-20T11:50:07.297123Z` → `20261120-115007-4c0f`.
    fn of(started: &str) -> Option<RunId> {
        let (second, fraction) = started.strip_suffix('Z')?.split_once('.')?;
        let micros: u32 = fraction.parse().ok().filter(|_| fraction.len() == 6)?;
        let digits = second.replace('T', "-").replacen('-', "", 2).replace(':', "");
        RunId::parse(&format!("{digits}-{:04x}", (u64::from(micros) << 16) / 1_000_000))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The id to try if this one is taken.
    pub(super) fn next(&self) -> RunId {
        let (second, fraction) = self.0.split_at(16);
        let fraction = u16::from_str_radix(fraction, 16).unwrap_or(0);
        RunId(format!("{second}{:04x}", fraction.wrapping_add(1)))
    }
}

impl AsRef<Path> for RunId {
    fn as_ref(&self) -> &Path {
        self.0.as_ref()
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// RFC 3339 has no fifth digit for a year.
const END_OF_9999: Duration = Duration::from_secs(253_402_300_799);

/// A time in UTC as RFC 3339 writes it, with microseconds: `2026-11-20T11:50:07.297123Z`. Years below
/// 1970 and above 9999 become those.
pub fn rfc3339(time: SystemTime) -> String {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().min(END_OF_9999);
    let (days, second) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:06}Z", since.subsec_micros())
}

/// The Gregorian date of a day since 1970-01-01 (Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`).
fn civil(days: u64) -> (u64, u64, u64) {
    // Years run from March here, so that the leap day is a year's last.
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
    use proptest::prelude::*;

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

    #[test]
    fn an_id_is_the_start_of_its_run() {
        assert_eq!(RunId::at("2026-11-20T11:50:07.297123Z").as_str(), "20261120-115007-4c10");
        let now = rfc3339(SystemTime::now());
        for odd in ["", "yesterday", "2026-11-20T11:50:07Z", "2026-11-20T11:50:07.1Z", "../../etc/passwd.000000Z"] {
            assert!(RunId::at(odd) >= RunId::at(&now), "{odd}");
        }
        assert_eq!(RunId::parse("20261120-115007-ffff").unwrap().next().as_str(), "20261120-115007-0000");
    }

    #[test]
    fn an_id_has_no_other_form() {
        for text in
            ["", "..", "latest", "20261120-115007-4C10", "20261120-115007-4c1", "20261120/115007-4c10", "2026112é-15007-4c10"]
        {
            assert_eq!(RunId::parse(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn ids_sort_as_their_times(a in 0u64..253_402_300_799_999_999, b in 0u64..253_402_300_799_999_999) {
            let id = |micros| RunId::at(&rfc3339(SystemTime::UNIX_EPOCH + Duration::from_micros(micros)));
            prop_assert_eq!(RunId::parse(id(a).as_str()), Some(id(a)));
            // Two starts within one step of the fraction, 15.3 us, may share an id.
            if a.abs_diff(b) > 16 {
                prop_assert_eq!(id(a).cmp(&id(b)), a.cmp(&b));
            }
        }
    }
}
