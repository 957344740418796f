//! Recordings of requests: a CSV file with time and size on each line.
//!
//! ```text
//!   time,size            a heading is passed over, and so are empty lines and lines that begin with #
//!   0.000000,64          time: seconds since any moment, up to nanoseconds, never less than on the line before; size: payload in bytes
//!   0.000120,64
//! ```

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

/// Most requests in a recording: they take 16 MiB.
pub const MOST: usize = 1_000_000;
/// Longest line, in bytes.
const LONGEST_LINE: u64 = 256;
/// Longest recording, in ns: a week.
const LONGEST_NS: u64 = 7 * 86_400 * 1_000_000_000;
/// Largest payload on any path, in bytes.
const LARGEST: u32 = 65_536;

/// One request of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Time since the first request, in ns.
    pub at_ns: u64,
    /// Payload in bytes.
    pub size: u32,
}

/// Reason why a file is not a valid recording.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The file cannot be read.
    #[error("{file}: {source}")]
    Read {
        file: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// A malformed line.
    #[error("{file}:{line}: {what}; a line is time,size: seconds and bytes, such as 0.000120,64")]
    Line {
        file: String,
        /// Line number.
        line: usize,
        /// The mistake.
        what: String,
    },
    /// Too few or too many requests.
    #[error("{file} has {what}: a recording has 2 to {MOST} requests")]
    Length {
        file: String,
        /// The number of requests, in words.
        what: &'static str,
    },
    /// All requests have the same time.
    #[error("{file}: all requests are at one moment, so they have no rate")]
    Span {
        /// Name of the recording.
        file: String,
    },
}

/// Reads a recording.
///
/// # Errors
/// The first mistake, with its line.
pub fn load(file: &Path) -> Result<Vec<Arrival>, ReplayError> {
    let name = file.display().to_string();
    let read = |source| ReplayError::Read { file: name.clone(), source };
    parse(&name, BufReader::new(File::open(file).map_err(read)?))
}

/// Mean rate of a recording in 1/s.
pub fn per_s(arrivals: &[Arrival]) -> f64 {
    let span = arrivals.last().map_or(0, |last| last.at_ns);
    if span == 0 { 0.0 } else { (arrivals.len() - 1) as f64 * 1e9 / span as f64 }
}

/// Reads a recording from `from`; messages call it `name`.
///
/// # Errors
/// The first mistake, with its line.
pub fn parse(name: &str, mut from: impl BufRead) -> Result<Vec<Arrival>, ReplayError> {
    let mut arrivals: Vec<Arrival> = Vec::new();
    let mut first = None;
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        let bad = |what: String| ReplayError::Line { file: name.into(), line: number, what };
        let read = (&mut from).take(LONGEST_LINE).read_until(b'\n', &mut line);
        if read.map_err(|source| ReplayError::Read { file: name.into(), source })? == 0 {
            break;
        }
        if line.len() as u64 == LONGEST_LINE {
            return Err(bad("the line is too long".into()));
        }
        let text = std::str::from_utf8(&line).map_err(|_| bad("the line is not text".into()))?;
        // Some programs begin a text with the mark of its encoding.
        let text = text.trim_start_matches('\u{feff}').trim();
        // A line that begins with a letter, before any request, is a heading.
        let heading = arrivals.is_empty() && text.starts_with(|c: char| c.is_ascii_alphabetic());
        if text.is_empty() || text.starts_with('#') || heading {
            continue;
        }
        let (time, size) = text.split_once(',').ok_or_else(|| bad("there is no comma".into()))?;
        let time = nanoseconds(time.trim()).ok_or_else(|| bad("the time is not a number of seconds from 0 on".into()))?;
        let size = size.trim().parse().ok().filter(|size| (1..=LARGEST).contains(size));
        let size = size.ok_or_else(|| bad(format!("the size is not 1 to {LARGEST} bytes")))?;
        let at_ns = time.checked_sub(*first.get_or_insert(time));
        let before = arrivals.last().map_or(0, |last| last.at_ns);
        let at_ns =
            at_ns.filter(|at_ns| *at_ns >= before).ok_or_else(|| bad("its time lies before that of the line before".into()))?;
        if at_ns > LONGEST_NS {
            return Err(bad("it lies more than a week after the first".into()));
        }
        if arrivals.len() == MOST {
            return Err(ReplayError::Length { file: name.into(), what: "more" });
        }
        arrivals.push(Arrival { at_ns, size });
    }
    match arrivals.last() {
        None => Err(ReplayError::Length { file: name.into(), what: "none" }),
        Some(_) if arrivals.len() == 1 => Err(ReplayError::Length { file: name.into(), what: "one" }),
        Some(last) if last.at_ns == 0 => Err(ReplayError::Span { file: name.into() }),
        Some(_) => Ok(arrivals),
    }
}

/// Converts seconds with up to nine decimals (further ones are cut off) to ns. Without floats, so that times of day in seconds
/// keep their nanoseconds.
fn nanoseconds(text: &str) -> Option<u64> {
    let (whole, rest) = text.split_once('.').unwrap_or((text, ""));
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if (whole.is_empty() && rest.is_empty()) || !digits(whole) || !digits(rest) {
        return None;
    }
    let seconds: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let padded: String = rest.chars().chain("000000000".chars()).take(9).collect();
    seconds.checked_mul(1_000_000_000)?.checked_add(padded.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(text: &str) -> Result<Vec<Arrival>, ReplayError> {
        parse("file", text.as_bytes())
    }

    #[test]
    fn times_count_from_the_first_and_keep_their_nanoseconds() {
        let found =
            of("\u{feff}time,size\n# from a capture\n1700000000.000000001,64\n1700000000.000000123, 100 \r\n\n1700000001,7")
                .unwrap();
        let expected = [(0, 64), (122, 100), (999_999_999, 7)].map(|(at_ns, size)| Arrival { at_ns, size });
        assert_eq!(found, expected);
        assert!((per_s(&found) - 2.0).abs() < 1e-6);
    }

    #[test]
    fn errors_name_the_line() {
        for (text, part) in [
            ("", "has none"),
            ("time,size\n", "has none"),
            ("0,64\n", "has one"),
            ("1,64\n1,64\n", "at one moment"),
            ("0,64\n-1,64\n", "file:2: the time is not a number"),
            ("0,64\n1e3,64\n", "file:2: the time is not a number"),
            ("0,64\nnan,64\n", "file:2: the time is not a number"),
            ("0,64\n,64\n", "file:2: the time is not a number"),
            ("0,64\n99999999999999999999,64\n", "file:2: the time is not a number"),
            ("2,64\n1,64\n", "file:2: its time lies before"),
            ("0,64\n2,64\n1,64\n", "file:3: its time lies before"),
            ("0,64\n604801,64\n", "file:2: it lies more than a week"),
            ("0,64\n1,0\n", "file:2: the size is not"),
            ("0,64\n1,-5\n", "file:2: the size is not"),
            ("0,64\n1,65537\n", "file:2: the size is not"),
            ("0,64\n1\n", "file:2: there is no comma"),
            ("0,64\ntime,size\n", "file:2: the time is not a number"),
            (&format!("0,64\n{}\n", "1".repeat(10_000)), "file:2: the line is too long"),
        ] {
            let message = of(text).unwrap_err().to_string();
            assert!(message.contains(part), "{text:.40}: {message}");
        }
        assert!(parse("file", &b"0,64\n\xff\xfe,1\n"[..]).unwrap_err().to_string().contains("not text"));
    }

    #[test]
    fn a_huge_file_is_refused_without_being_kept() {
        let mut line = 0u64;
        let endless = std::iter::from_fn(move || {
            line += 1;
            Some(format!("{}.{:06},64\n", line / 1_000_000, line % 1_000_000))
        });
        let text: String = endless.take(MOST + 1).collect();
        assert!(of(&text).unwrap_err().to_string().contains("has more"));
    }

    proptest! {
        #[test]
        fn any_text_is_a_recording_or_refused(text in "[0-9.,\n# a-]{0,80}") {
            if let Ok(arrivals) = of(&text) {
                prop_assert!(arrivals.is_sorted_by_key(|one| one.at_ns) && arrivals.len() >= 2);
                prop_assert!(arrivals.iter().all(|one| (1..=LARGEST).contains(&one.size)));
            }
        }
    }
}
