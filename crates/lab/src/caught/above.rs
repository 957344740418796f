//! The limit above which a round trip is an incident: a time, or a multiple of the percentile so far.

use std::fmt;
use std::str::FromStr;

use hairpin_record::histogram::Times;
use hairpin_units::{Nanos, Quantile, parse_decimal, parse_duration};

/// A limit as asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Above {
    /// This RTT.
    Time(Nanos),
    /// A multiple of this percentile of all round trips so far.
    Times(Quantile, f64),
}

impl FromStr for Above {
    type Err = String;

    fn from_str(text: &str) -> Result<Above, String> {
        let wrong = || {
            format!(
                "\"{text}\" is no limit: write an RTT, such as 200us, or a percentile and a factor of at least 1, such as \"p99.9 x3\""
            )
        };
        if !text.starts_with('p') {
            return parse_duration(text).ok().filter(|ns| ns.0 > 0).map(Above::Time).ok_or_else(wrong);
        }
        let (quantile, factor) = text.split_once('x').ok_or_else(wrong)?;
        let factor = parse_decimal(factor.trim()).filter(|factor| (1.0..=1e6).contains(factor)).ok_or_else(wrong)?;
        quantile.trim().parse().map(|quantile| Above::Times(quantile, factor)).map_err(|_| wrong())
    }
}

impl fmt::Display for Above {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Above::Time(time) => write!(f, "{time}"),
            Above::Times(quantile, factor) => write!(f, "{quantile} x{factor}"),
        }
    }
}

/// The limit of a row as it goes on: one histogram, however long that is.
pub(super) struct Limit {
    above: Above,
    rtts: Times,
    /// The RTT above which the next block's round trips are incidents; `None` until enough of them support the percentile.
    pub(super) now_ns: Option<u64>,
}

impl Limit {
    pub(super) fn new(above: Above) -> Limit {
        Limit { above, rtts: Times::new(), now_ns: if let Above::Time(time) = above { Some(time.0) } else { None } }
    }

    /// Adds a block.
    pub(super) fn add(&mut self, rtts: impl Iterator<Item = u64>) {
        if let Above::Times(quantile, factor) = self.above {
            rtts.for_each(|ns| self.rtts.record(ns));
            self.now_ns = self.rtts.quantile(quantile).map(|ns| (ns as f64 * factor) as u64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_a_time_or_a_multiple_of_a_percentile() {
        let read = |text: &str| text.parse::<Above>();
        assert_eq!(read("200us"), Ok(Above::Time(Nanos(200_000))));
        for text in ["p99.9 x3", "p99.9x3", "p99.9 x 3"] {
            assert_eq!(read(text), Ok(Above::Times(Quantile::P999, 3.0)), "{text}");
        }
        assert_eq!(read("p99 x2.5").map(|above| above.to_string()), Ok("p99 x2.5".into()));
        for text in
            ["", "0", "200", "x3", "p99.9", "p99.9 x", "p99.9 x0.5", "p100 x2", "p99.9 xnan", "p99.9 x3 x3", "-1ms", "soon"]
        {
            // A bare number is in seconds, as everywhere.
            assert_eq!(read(text).is_ok(), text == "200", "{text}");
        }
    }

    #[test]
    fn a_percentile_counts_once_ten_round_trips_lie_beyond_it() {
        let mut limit = Limit::new(Above::Times(Quantile::P99, 3.0));
        limit.add((0..999).map(|_| 1_000));
        assert_eq!(limit.now_ns, None);
        limit.add([1_000].into_iter());
        assert_eq!(limit.now_ns.map(|ns| ns / 10), Some(300));
        limit.add((0..1_000).map(|_| 2_000));
        assert!(limit.now_ns.is_some_and(|ns| (6_000..6_100).contains(&ns)), "{:?}: it follows", limit.now_ns);
        assert_eq!(Limit::new(Above::Time(Nanos(7))).now_ns, Some(7));
    }
}
