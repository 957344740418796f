//! The values of a design's file: texts, lengths, rates and times, each rejected with its position if it is invalid.

use hairpin_units::{BitRate, Picos};
use serde::Deserialize;
use serde::de::{self, Deserializer, Visitor};

use crate::line::{MAX_FRAME, MAX_RATE, MIN_RATE};

/// Longest time of a single stage: a second.
const MAX_NS: f64 = 1e9;

/// Text of at least one word and at most a paragraph.
#[derive(Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Text(pub(super) String);

impl TryFrom<String> for Text {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Text, &'static str> {
        match text.trim() {
            "" => Err("an empty text says nothing: names, sources and descriptions have words"),
            long if long.len() > 1000 => Err("the text is longer than 1000 bytes"),
            trimmed => Ok(Text(trimmed.into())),
        }
    }
}

/// The length of a frame or payload.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(try_from = "i64")]
pub(super) struct Length(pub(super) u64);

impl TryFrom<i64> for Length {
    type Error = String;

    fn try_from(bytes: i64) -> Result<Length, String> {
        let length = u64::try_from(bytes).ok().filter(|bytes| (1..=MAX_FRAME).contains(bytes));
        length.map(Length).ok_or_else(|| format!("{bytes} is not a frame length: 1 to {MAX_FRAME} bytes"))
    }
}

/// The headers in front of a payload.
#[derive(Clone, Copy, Deserialize)]
#[serde(try_from = "i64")]
pub(super) struct Header(pub(super) u64);

impl TryFrom<i64> for Header {
    type Error = String;

    fn try_from(bytes: i64) -> Result<Header, String> {
        let length = u64::try_from(bytes).ok().filter(|bytes| *bytes <= 256);
        length.map(Header).ok_or_else(|| format!("{bytes} is not a header length: 0 to 256 bytes"))
    }
}

#[derive(Clone, Copy, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Rate(pub(super) BitRate);

impl TryFrom<String> for Rate {
    type Error = String;

    fn try_from(text: String) -> Result<Rate, String> {
        let rate: BitRate = text.parse().map_err(|error: hairpin_units::ParseBitRateError| error.to_string())?;
        let known = (MIN_RATE..=MAX_RATE).contains(&rate);
        if known { Ok(Rate(rate)) } else { Err(format!("{text} is not an Ethernet rate: 10M to 800G")) }
    }
}

/// A time in ns, whole or decimal.
#[derive(Clone, Copy)]
pub(super) struct Ns(pub(super) Picos);

impl<'de> Deserialize<'de> for Ns {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Ns, D::Error> {
        let ns = from.deserialize_any(Number)?;
        let time = Some(ns).filter(|ns| (0.0..=MAX_NS).contains(ns)).and_then(Picos::from_ns_f64);
        time.map(Ns).ok_or_else(|| de::Error::custom(format!("{ns} ns is not a valid stage time: 0 to {MAX_NS} ns")))
    }
}

/// Transactions per second.
#[derive(Clone, Copy)]
pub(super) struct PerSecond(pub(super) f64);

impl<'de> Deserialize<'de> for PerSecond {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<PerSecond, D::Error> {
        let rate = from.deserialize_any(Number)?;
        let known = (1.0..=1e9).contains(&rate);
        if known {
            Ok(PerSecond(rate))
        } else {
            Err(de::Error::custom(format!("{rate} is not a valid rate: 1 to 1e9 per second")))
        }
    }
}

struct Number;

impl Visitor<'_> for Number {
    type Value = f64;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a number")
    }

    fn visit_i64<E>(self, number: i64) -> Result<f64, E> {
        Ok(number as f64)
    }

    fn visit_f64<E>(self, number: f64) -> Result<f64, E> {
        Ok(number)
    }
}
