//! A run's id, made of its start time.

use std::fmt;
use std::path::Path;
use std::time::SystemTime;

use hairpin_session::time::rfc3339;

/// A run's id, such as `20261120-115007-4c1f`. This is its only form, so it is always a plain directory name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId(String);

impl RunId {
    /// Parses `YYYYMMDD-HHMMSS-xxxx`.
    pub fn parse(text: &str) -> Option<RunId> {
        let is_id = text.len() == 20
            && text.bytes().enumerate().all(|(i, byte)| match i {
                8 | 15 => byte == b'-',
                16.. => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
                _ => byte.is_ascii_digit(),
            });
        is_id.then(|| RunId(text.into()))
    }

    /// The id of a run that started at `started` in the format of [`rfc3339`]; if that cannot be parsed, of one that starts now.
    pub fn at(started: &str) -> RunId {
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use proptest::prelude::*;

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
