//! Times: measured times in nanoseconds, model times in picoseconds.

use std::fmt;
use std::time::Duration;

#[cfg(feature = "serde")]
use serde::{Deserialize, Serialize};

/// A measured time or difference of times, in integer nanoseconds.
///
/// Shown with a scaled unit and four significant digits: `930 ns`, `4.951 us`, `12.40 ms`, `1.000 s`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Nanos(pub u64);

impl Nanos {
    /// Zero.
    pub const ZERO: Nanos = Nanos(0);

    /// Whole milliseconds.
    pub const fn from_millis(ms: u64) -> Nanos {
        Nanos(ms * 1_000_000)
    }

    /// Whole seconds.
    pub const fn from_secs(s: u64) -> Nanos {
        Nanos(s * 1_000_000_000)
    }

    /// The same time in seconds.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

impl From<Duration> for Nanos {
    /// Saturates at 584 years.
    fn from(d: Duration) -> Nanos {
        Nanos(u64::try_from(d.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl From<Nanos> for Duration {
    fn from(n: Nanos) -> Duration {
        Duration::from_nanos(n.0)
    }
}

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self.0 {
            n @ 0..=999 => format!("{n} ns"),
            n @ 1_000..=999_999 => format!("{} us", four_digits(n as f64 / 1e3)),
            n @ 1_000_000..=999_999_999 => format!("{} ms", four_digits(n as f64 / 1e6)),
            n => format!("{} s", four_digits(n as f64 / 1e9)),
        };
        f.pad(&text)
    }
}

fn four_digits(x: f64) -> String {
    match x {
        x if x < 9.9995 => format!("{x:.3}"),
        x if x < 99.995 => format!("{x:.2}"),
        x if x < 999.95 => format!("{x:.1}"),
        x => format!("{x:.0}"),
    }
}

/// A model time or difference of times in integer picoseconds, so that 67.2 ns stays exact. In JSON it is decimal
/// nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Picos(pub i64);

impl Picos {
    /// Zero.
    pub const ZERO: Picos = Picos(0);
    /// The longest model time, about 17 minutes: sums of a few thousand cannot overflow, and each is exact as decimal
    /// ns.
    pub const MAX: Picos = Picos(1_000_000_000_000_000);

    /// Whole nanoseconds.
    pub const fn from_ns(ns: i64) -> Picos {
        Picos(ns * 1000)
    }

    /// From nanoseconds, rounded to the nearest picosecond; `None` for NaN and beyond ±[`Picos::MAX`].
    pub fn from_ns_f64(ns: f64) -> Option<Picos> {
        let ps = (ns * 1e3).round();
        (ps.abs() <= Picos::MAX.0 as f64).then_some(Picos(ps as i64))
    }

    /// The same time in nanoseconds, as the nearest float.
    pub fn as_ns_f64(self) -> f64 {
        self.0 as f64 / 1e3
    }
}

impl std::ops::Add for Picos {
    type Output = Picos;

    fn add(self, other: Picos) -> Picos {
        Picos(self.0 + other.0)
    }
}

impl std::ops::Sub for Picos {
    type Output = Picos;

    fn sub(self, other: Picos) -> Picos {
        Picos(self.0 - other.0)
    }
}

impl std::iter::Sum for Picos {
    fn sum<I: Iterator<Item = Picos>>(times: I) -> Picos {
        times.fold(Picos::ZERO, |sum, time| sum + time)
    }
}

#[cfg(feature = "serde")]
impl Serialize for Picos {
    /// The shortest decimal that reads back as the same picoseconds.
    fn serialize<S: serde::Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.serialize_f64(self.as_ns_f64())
    }
}

#[cfg(feature = "serde")]
impl<'de> Deserialize<'de> for Picos {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Picos, D::Error> {
        let ns = f64::deserialize(from)?;
        Picos::from_ns_f64(ns).ok_or_else(|| serde::de::Error::custom(format!("{ns} ns is not a valid model time")))
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Picos {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "DecimalNanoseconds".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({"type": "number", "description": "Nanoseconds, exact to a picosecond."})
    }
}

impl fmt::Display for Picos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sign, ps) = (if self.0 < 0 { "-" } else { "" }, self.0.unsigned_abs());
        let (ns, rest) = (ps / 1000, ps % 1000);
        let text = match rest {
            0 => format!("{sign}{ns} ns"),
            _ => format!("{sign}{} ns", format!("{ns}.{rest:03}").trim_end_matches('0')),
        };
        f.pad(&text)
    }
}

/// Why a text is not a duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{text}\" is not a duration: write a number and ns, us, ms, s, m or h, such as 500ms")]
pub struct ParseDurationError {
    /// The text.
    pub text: String,
}

/// Parses `10s`, `500ms`, `20us`, `1.5m`; a bare number is seconds.
///
/// ```
/// use hairpin_units::{Nanos, parse_duration};
/// assert_eq!(parse_duration("1.5ms"), Ok(Nanos(1_500_000)));
/// assert!(parse_duration("-1s").is_err());
/// ```
pub fn parse_duration(text: &str) -> Result<Nanos, ParseDurationError> {
    let bad = || ParseDurationError { text: text.into() };
    let digits = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let number: f64 = text[..digits].parse().map_err(|_| bad())?;
    let unit = match &text[digits..] {
        "ns" => 1.0,
        "us" => 1e3,
        "ms" => 1e6,
        "" | "s" => 1e9,
        "m" | "min" => 60e9,
        "h" => 3600e9,
        _ => return Err(bad()),
    };
    let ns = number * unit;
    if ns.is_finite() && ns < u64::MAX as f64 { Ok(Nanos(ns.round() as u64)) } else { Err(bad()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nanos_scale_their_unit() {
        let shown: Vec<String> =
            [0, 999, 1_000, 4_951, 12_400_000, 999_960, 1_000_000_000].iter().map(|n| Nanos(*n).to_string()).collect();
        assert_eq!(shown, ["0 ns", "999 ns", "1.000 us", "4.951 us", "12.40 ms", "1000 us", "1.000 s"]);
        assert_eq!(format!("{:>9}", Nanos(5)), "     5 ns");
    }

    #[test]
    fn picos_keep_their_fraction() {
        assert_eq!(Picos(67_200).to_string(), "67.2 ns");
        assert_eq!(Picos(1_230_400).to_string(), "1230.4 ns");
        assert_eq!(Picos(15_000).to_string(), "15 ns");
        assert_eq!(Picos(-3_200).to_string(), "-3.2 ns");
        assert_eq!(Picos(-200).to_string(), "-0.2 ns");
    }

    #[test]
    fn picos_are_exact_as_decimal_nanoseconds() {
        assert_eq!(serde_json::to_string(&[Picos(67_200), Picos(-3_201), Picos(840)]).unwrap(), "[67.2,-3.201,0.84]");
        for ps in [0, 1, 67_200, 1_230_400, 999_999_999_999_999, Picos::MAX.0, -Picos::MAX.0] {
            let text = serde_json::to_string(&Picos(ps)).unwrap();
            assert_eq!(serde_json::from_str::<Picos>(&text).unwrap(), Picos(ps), "{text}");
        }
        assert!(serde_json::from_str::<Picos>("1e300").is_err());
    }

    #[test]
    fn durations() {
        for (text, ns) in [("10", 10_000_000_000), ("0.5s", 500_000_000), ("2m", 120_000_000_000), ("100us", 100_000), ("7ns", 7)]
        {
            assert_eq!(parse_duration(text), Ok(Nanos(ns)), "{text}");
        }
        for text in ["", "s", "1x", "-1s", "1..2s", "1e99s", "99999999999h", "NaN"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }
}
