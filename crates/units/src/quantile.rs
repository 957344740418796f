//! Quantiles: 0..1 in code, `p99.9` in text.

use std::fmt;
use std::str::FromStr;

/// A quantile strictly between 0 and 1, kept in millionths so that 0.999 and `p99.9` are one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Quantile {
    millionths: u32,
}

impl Quantile {
    /// The median.
    pub const P50: Quantile = Quantile { millionths: 500_000 };
    /// p90: nine in ten samples are at or below it.
    pub const P90: Quantile = Quantile { millionths: 900_000 };
    /// p99: one in a hundred samples is above it.
    pub const P99: Quantile = Quantile { millionths: 990_000 };
    /// p99.9: one in a thousand samples is above it.
    pub const P999: Quantile = Quantile { millionths: 999_000 };

    /// `None` outside 0..1 (both excluded) after rounding to a millionth.
    pub fn new(q: f64) -> Option<Quantile> {
        let millionths = (q * 1e6).round();
        (1.0..=999_999.0).contains(&millionths).then_some(Quantile { millionths: millionths as u32 })
    }

    /// The quantile as a number between 0 and 1.
    pub fn get(self) -> f64 {
        f64::from(self.millionths) / 1e6
    }

    /// True if `count` samples are enough to show this quantile: at least ten of them lie beyond it, (1−q) × count ≥ 10.
    pub fn is_supported_by(self, count: u64) -> bool {
        u128::from(1_000_000 - self.millionths) * u128::from(count) >= 10_000_000
    }
}

impl fmt::Display for Quantile {
    /// Writes `p50`, `p99.9`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, rest) = (self.millionths / 10_000, self.millionths % 10_000);
        let text = match rest {
            0 => format!("p{whole}"),
            _ => format!("p{}", format!("{whole}.{rest:04}").trim_end_matches('0')),
        };
        f.pad(&text)
    }
}

/// Why a text is not a quantile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is not a percentile: write p50, 99 or 99.9, from 0.0001 to 99.9999")]
pub struct ParseQuantileError(pub String);

impl FromStr for Quantile {
    type Err = ParseQuantileError;

    /// Reads `p99.9` and `99.9`.
    fn from_str(text: &str) -> Result<Quantile, ParseQuantileError> {
        let digits = text.strip_prefix('p').unwrap_or(text);
        digits
            .parse::<f64>()
            .ok()
            .and_then(|percent| Quantile::new(percent / 100.0))
            .ok_or_else(|| ParseQuantileError(text.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_number_agree() {
        for (text, q) in [("p50", 0.5), ("p99.9", 0.999), ("p99.99", 0.9999), ("p2.5", 0.025)] {
            let quantile: Quantile = text.parse().unwrap();
            assert_eq!(quantile.get(), q);
            assert_eq!(quantile.to_string(), text);
        }
        for text in ["", "p", "0", "100", "p101", "-1", "nan"] {
            assert!(text.parse::<Quantile>().is_err(), "{text}");
        }
    }

    #[test]
    fn ten_samples_beyond() {
        assert!(!Quantile::P999.is_supported_by(9_999));
        assert!(Quantile::P999.is_supported_by(10_000));
        assert!(Quantile::P50.is_supported_by(20));
        assert!(!Quantile::P50.is_supported_by(19));
    }
}
