//! Lengths in bytes and rates in bits per second.

use std::fmt;
use std::str::FromStr;

/// A length in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Bytes(pub u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{} B", self.0))
    }
}

/// A rate in bits per second: `10G`, `2.5G`, `100M`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BitRate(pub u64);

impl fmt::Display for BitRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (value, unit) = match self.0 {
            r if r >= 1_000_000_000 => (r as f64 / 1e9, "G"),
            r if r >= 1_000_000 => (r as f64 / 1e6, "M"),
            r if r >= 1_000 => (r as f64 / 1e3, "k"),
            r => (r as f64, ""),
        };
        f.pad(&format!("{value}{unit}bit/s"))
    }
}

/// Why a text is not a bit rate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is not a bit rate: write a number and k, M or G, such as 10G")]
pub struct ParseBitRateError(pub String);

impl FromStr for BitRate {
    type Err = ParseBitRateError;

    fn from_str(text: &str) -> Result<BitRate, ParseBitRateError> {
        let bad = || ParseBitRateError(text.into());
        let bare = text.strip_suffix("bit/s").or_else(|| text.strip_suffix("bit")).unwrap_or(text);
        let digits = bare.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(bare.len());
        let number: f64 = bare[..digits].parse().map_err(|_| bad())?;
        let unit = match &bare[digits..] {
            "" => 1.0,
            "k" | "K" => 1e3,
            "m" | "M" => 1e6,
            "g" | "G" => 1e9,
            "Ki" => 1024.0,
            "Mi" => 1_048_576.0,
            "Gi" => 1_073_741_824.0,
            _ => return Err(bad()),
        };
        let rate = number * unit;
        if (1.0..1e15).contains(&rate) { Ok(BitRate(rate.round() as u64)) } else { Err(bad()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bit_rates_survive_writing_and_reading() {
        for (text, bits) in
            [("10G", 10_000_000_000), ("2.5G", 2_500_000_000), ("100M", 100_000_000), ("1Ki", 1024), ("9600", 9600)]
        {
            let rate: BitRate = text.parse().unwrap();
            assert_eq!(rate.0, bits);
            assert_eq!(rate.to_string().parse(), Ok(rate));
        }
        for text in ["", "G", "0", "10X", "-1G", "1e9"] {
            assert!(text.parse::<BitRate>().is_err(), "{text}");
        }
    }
}
