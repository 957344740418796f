//! `--fail-if 'p99 > 40us'` and `'node > 1.3x'`: thresholds, held against each pair or rank.

use std::str::FromStr;

use hairpin_record::mesh::{MeshBody, Subject, Threshold};
use hairpin_record::quantiles::Quantiles;
use hairpin_units::{Nanos, parse_duration};

/// A threshold for the RTT of each pair, or for the effect of each rank.
#[derive(Clone, Debug, PartialEq)]
pub struct Limit {
    given: String,
    /// True if more fails; false if less does.
    above: bool,
    of: Of,
}

#[derive(Clone, Debug, PartialEq)]
enum Of {
    Pair {
        figure: &'static str,
        time: Nanos,
    },
    /// Times the others' RTT p50.
    Rank {
        ratio: f64,
    },
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
                "\"{text}\" is not a threshold: write one of {}, > or <, and a time, such as 'p99 > 40us'; or node, > or <, and a ratio, such as 'node > 1.3x'",
                FIGURES.join(", ")
            )
        };
        let at = text.find(['<', '>']).ok_or_else(bad)?;
        let (name, value) = (text[..at].trim(), text[at + 1..].trim());
        let of = if name == "node" {
            let ratio = value.strip_suffix('x').and_then(|ratio| ratio.trim().parse().ok());
            Of::Rank { ratio: ratio.filter(|ratio: &f64| ratio.is_finite() && *ratio > 0.0).ok_or_else(bad)? }
        } else {
            let figure = FIGURES.into_iter().find(|known| *known == name).ok_or_else(bad)?;
            // A number without a unit would be in seconds, which nobody means here.
            let time = parse_duration(value)
                .ok()
                .filter(|_| value.ends_with(|last: char| last.is_ascii_alphabetic()))
                .ok_or_else(bad)?;
            Of::Pair { figure, time }
        };
        Ok(Limit { given: text.trim().into(), above: text.as_bytes()[at] == b'>', of })
    }
}

impl Limit {
    /// Holds the threshold against every pair, or every rank.
    #[must_use]
    pub fn hold(&self, body: &MeshBody) -> Threshold {
        let mut held = Threshold { given: self.given.clone(), ..Threshold::default() };
        match self.of {
            Of::Pair { figure: name, time } => {
                for pair in &body.pairs {
                    let ends = (pair.a, pair.b);
                    match pair.rtt_ns.as_ref().and_then(|rtt| figure(rtt, name)) {
                        None => held.unknown.push(ends),
                        Some(ns) if if self.above { ns > time.0 } else { ns < time.0 } => held.crossed.push(ends),
                        Some(_) => {}
                    }
                }
            }
            Of::Rank { ratio } => {
                for rank in 0..body.schedule.ranks {
                    let effect = body.effects.iter().find(|effect| effect.subject == Subject::Rank(rank));
                    match effect.map(|effect| if self.above { (effect.low, effect.high) } else { (-effect.high, -effect.low) }) {
                        Some((near, _)) if near > if self.above { ratio } else { -ratio } => held.ranks.push(rank),
                        Some((_, far)) if far <= if self.above { ratio } else { -ratio } => {}
                        _ => held.unclear.push(rank),
                    }
                }
            }
        }
        held
    }
}

#[cfg(test)]
mod tests {
    use hairpin_record::mesh::{Effect, Pair, Schedule};

    use super::*;

    #[test]
    fn thresholds_parse() {
        let limit: Limit = "p99 > 40us".parse().unwrap();
        assert_eq!((limit.above, limit.of), (true, Of::Pair { figure: "p99", time: Nanos(40_000) }));
        let limit: Limit = "p99.9<1ms".parse().unwrap();
        assert_eq!((limit.above, limit.of), (false, Of::Pair { figure: "p99.9", time: Nanos(1_000_000) }));
        assert_eq!("node > 1.3x".parse::<Limit>().unwrap().of, Of::Rank { ratio: 1.3 });
        for text in
            ["", "p99", "p99 > 40", "p98 > 40us", "> 40us", "p99 > fast", "node > 1.3", "node > 0x", "node > infx", "p99 > 1.3x"]
        {
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

    #[test]
    fn a_rank_crosses_it_with_its_whole_interval_or_it_is_unclear() {
        let effect = |rank, low, high| Effect {
            subject: Subject::Rank(rank),
            ratio: f64::midpoint(low, high),
            low,
            high,
            convicted: false,
            because: Vec::new(),
        };
        let effects = vec![effect(0, 1.4, 1.6), effect(1, 1.2, 1.4), effect(2, 0.9, 1.1)];
        let body = MeshBody { effects, schedule: Schedule { ranks: 4, ..Schedule::default() }, ..MeshBody::default() };
        let held = "node > 1.3x".parse::<Limit>().unwrap().hold(&body);
        assert_eq!((held.ranks, held.unclear), (vec![0], vec![1, 3]));
        let held = "node < 1.3x".parse::<Limit>().unwrap().hold(&body);
        assert_eq!((held.ranks, held.unclear), (vec![2], vec![1, 3]));
    }
}
