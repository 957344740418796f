//! `--fail-if 'p99 > 40us'`: a threshold, held against each pair.

use std::str::FromStr;

use hairpin_record::mesh::{MeshBody, Threshold};
use hairpin_record::quantiles::Quantiles;
use hairpin_units::{Nanos, parse_duration};

/// A threshold for the RTT of each pair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    given: String,
    figure: &'static str,
    /// True if a longer time fails; false if a shorter one does.
    above: bool,
    time: Nanos,
}

const FIGURES: [&str; 6] = ["min", "p50", "p90", "p99", "p99.9", "max"];

fn figure(of: &Quantiles, name: &str) -> Option<u64> {
    match name {
        "min" => of.min,
        "p50" => of.p50,
        "p90" => of.p90,
        "p99" => of.p99,
        "p99.9" => of.p999,
        _ => of.max,
    }
}

impl FromStr for Limit {
    type Err = String;

    fn from_str(text: &str) -> Result<Limit, String> {
        let bad = || {
            format!(
                "\"{text}\" is not a threshold: write one of {}, > or <, and a time, such as 'p99 > 40us'",
                FIGURES.join(", ")
            )
        };
        let at = text.find(['<', '>']).ok_or_else(bad)?;
        let name = text[..at].trim();
        let figure = FIGURES.into_iter().find(|known| *known == name).ok_or_else(bad)?;
        let time = text[at + 1..].trim();
        // A number without a unit would be in seconds, which nobody means here.
        let time =
            parse_duration(time).ok().filter(|_| time.ends_with(|last: char| last.is_ascii_alphabetic())).ok_or_else(bad)?;
        Ok(Limit { given: text.trim().into(), figure, above: text.as_bytes()[at] == b'>', time })
    }
}

impl Limit {
    /// Holds the threshold against every pair.
    pub fn hold(&self, body: &MeshBody) -> Threshold {
        let mut held = Threshold { given: self.given.clone(), ..Threshold::default() };
        for pair in &body.pairs {
            let ends = (pair.a, pair.b);
            match pair.rtt_ns.as_ref().and_then(|rtt| figure(rtt, self.figure)) {
                None => held.unknown.push(ends),
                Some(ns) if if self.above { ns > self.time.0 } else { ns < self.time.0 } => held.crossed.push(ends),
                Some(_) => {}
            }
        }
        held
    }
}

#[cfg(test)]
mod tests {
    use hairpin_record::mesh::Pair;

    use super::*;

    #[test]
    fn thresholds_parse() {
        let limit: Limit = "p99 > 40us".parse().unwrap();
        assert_eq!((limit.figure, limit.above, limit.time), ("p99", true, Nanos(40_000)));
        assert_eq!("p99.9<1ms".parse::<Limit>().map(|limit| (limit.above, limit.time)), Ok((false, Nanos(1_000_000))));
        for text in ["", "p99", "p99 > 40", "p98 > 40us", "> 40us", "p99 > fast"] {
            assert!(text.parse::<Limit>().is_err_and(|why| why.contains("'p99 > 40us'")), "{text}");
        }
    }

    #[test]
    fn a_pair_crosses_it_or_does_not_or_has_no_such_figure() {
        let pair = |b, p99| Pair { a: 0, b, rtt_ns: Some(Quantiles { p99, ..Quantiles::default() }), ..Pair::default() };
        let pairs = vec![pair(1, Some(39_999)), pair(2, Some(40_001)), pair(3, None), Pair { a: 0, b: 4, ..Pair::default() }];
        let body = MeshBody { pairs, ..MeshBody::default() };
        let held = "p99 > 40us".parse::<Limit>().unwrap().hold(&body);
        assert_eq!((held.crossed, held.unknown), (vec![(0, 2)], vec![(0, 3), (0, 4)]));
        let held = "p99 < 40us".parse::<Limit>().unwrap().hold(&body);
        assert_eq!(held.crossed, [(0, 1)]);
    }
}
