//! Verdicts in words.

use std::fmt;

use hairpin_record::statistics::Ratio;

use super::{Untold, Verdict, Way};
use crate::hosts;

/// The most decimals of a ratio.
const DECIMALS: usize = 3;

/// `slow: n5 (x1.8, 1.7 to 1.9 of the others' p50), because cpu idle states are on there`. `what` is the rank, link or group,
/// `than` what it is compared with, and `because` the reasons, in the order of their weight; none leaves them out.
#[must_use]
pub fn sentence(what: &str, ratio: Ratio, than: &str, because: &[&str]) -> String {
    let Ratio { ratio: typical, low, high } = ratio;
    // As few decimals as tell the three apart.
    let text = |decimals: usize| [typical, low, high].map(|value| format!("{value:.decimals$}"));
    let is_told = |[typical, low, high]: &[String; 3]| low != typical && typical != high && low != "1.0";
    let [typical, low, high] = (1..DECIMALS).map(text).find(is_told).unwrap_or_else(|| text(DECIMALS));
    let because = if because.is_empty() { String::new() } else { format!(", because {}", because.join(" and ")) };
    format!("slow: {what} (x{typical}, {low} to {high} of {than}){because}")
}

/// What a sentence is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slow {
    Rank(usize),
    /// The link of two ranks, the lower one first.
    Link(usize, usize),
    /// Pairs of a group: its level and its place there.
    Group {
        level: usize,
        group: usize,
        way: Way,
    },
}

/// A sentence for everything that is convicted: groups, then ranks, then links, the slowest first. `names` are the hosts in the
/// order of their ranks, `quantile` is what was compared, such as `p50`, and `because` gives reasons.
#[must_use]
pub fn sentences(verdict: &Verdict, names: &[&str], quantile: &str, because: impl Fn(Slow) -> Vec<String>) -> Vec<String> {
    let name = |rank: usize| names.get(rank).map_or_else(|| format!("rank {rank}"), |name| (*name).to_owned());
    let told = |slow: Slow, ratio: Option<Ratio>, what: String, than: String| {
        let reasons = because(slow);
        let reasons: Vec<&str> = reasons.iter().map(String::as_str).collect();
        ratio.map(|ratio| (ratio.ratio, sentence(&what, ratio, &than, &reasons)))
    };
    let groups = verdict.groups.iter().filter(|group| group.is_convicted).filter_map(|of| {
        let (what, than) = match of.way {
            Way::Within => (format!("pairs within {}", of.name), "those within the others"),
            Way::Across => (format!("pairs out of {}", of.name), "those between the others"),
        };
        let slow = Slow::Group { level: of.level, group: of.group, way: of.way };
        told(slow, of.ratio, what, format!("the {quantile} of {than}"))
    });
    let ranks = verdict
        .ranks
        .iter()
        .filter(|rank| rank.is_convicted)
        .filter_map(|of| told(Slow::Rank(of.rank), of.ratio, name(of.rank), format!("the others' {quantile}")));
    let links = verdict.pairs.iter().filter(|pair| pair.is_convicted).filter_map(|of| {
        let what = format!("the link {} to {}", name(of.a), name(of.b));
        told(Slow::Link(of.a, of.b), of.ratio, what, format!("the {quantile} that its two hosts explain"))
    });
    let mut all = [groups.collect::<Vec<_>>(), ranks.collect(), links.collect()];
    all.iter_mut().for_each(|found| found.sort_by(|(one, _), (other, _)| other.total_cmp(one)));
    all.into_iter().flatten().map(|(_, text)| text).collect()
}

impl Untold {
    /// In words; `names` are the hosts in the order of their ranks.
    #[must_use]
    pub fn sentence<'a>(&'a self, names: &'a [&'a str]) -> impl fmt::Display + 'a {
        Words { untold: self, names }
    }
}

struct Words<'a> {
    untold: &'a Untold,
    names: &'a [&'a str],
}

impl fmt::Display for Words<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |ranks: &[usize]| {
            let name = |rank: &usize| self.names.get(*rank).map_or_else(|| format!("rank {rank}"), |name| (*name).to_owned());
            hosts::compact(&ranks.iter().map(name).collect::<Vec<_>>())
        };
        match self.untold {
            Untold::Nothing => f.write_str("no pair was measured, so nothing can be told"),
            Untold::FewRanks { ranks: 0..=2 } => f.write_str(
                "two hosts are one pair: it has nothing to be compared with, so neither a host nor the link can be called slow",
            ),
            Untold::FewRanks { ranks } => write!(
                f,
                "with {ranks} hosts a slow one looks like a fast link between the others, so nobody is called slow; four can be told apart"
            ),
            Untold::Unmeasured { ranks } => write!(f, "no pair of {} was measured", list(ranks)),
            Untold::FewPairs { ranks } => write!(
                f,
                "{} had fewer than three measured pairs: a slow host there cannot be told from a slow link",
                list(ranks)
            ),
            Untold::OneVisit { pairs: 1 } => f.write_str("1 pair had one visit only: no link is called slow by less than two"),
            Untold::OneVisit { pairs } => write!(f, "{pairs} pairs had one visit only: no link is called slow by less than two"),
            Untold::TwoGroups { level } => write!(
                f,
                "at height {level} of the topology only two groups have pairs between them: whether those are slow has no comparison"
            ),
            Untold::FewOfKind { kind, pairs } => {
                let pairs = if *pairs == 1 { "1 pair meets".to_owned() } else { format!("{pairs} pairs meet") };
                write!(f, "{pairs} at height {kind} of the topology: too few to be compared with each other")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratio(ratio: f64, low: f64, high: f64) -> Ratio {
        Ratio { ratio, low, high }
    }

    #[test]
    fn a_sentence_has_as_few_decimals_as_tell_its_numbers_apart() {
        assert_eq!(
            sentence("n5", ratio(1.8, 1.71, 1.92), "the others' p50", &["cpu idle states are on there"]),
            "slow: n5 (x1.8, 1.7 to 1.9 of the others' p50), because cpu idle states are on there"
        );
        assert_eq!(
            sentence("n5", ratio(1.082, 1.061, 1.101), "x", &["one", "two"]),
            "slow: n5 (x1.08, 1.06 to 1.10 of x), because one and two"
        );
        assert_eq!(sentence("n5", ratio(1.0801, 1.0799, 1.0804), "x", &[]), "slow: n5 (x1.080, 1.080 to 1.080 of x)");
        assert_eq!(sentence("n5", ratio(21.4, 12.0, 31.0), "x", &[]), "slow: n5 (x21.4, 12.0 to 31.0 of x)");
    }

    #[test]
    fn what_is_untold_is_said_in_words() {
        let names = ["n1", "n2", "n3", "n7"];
        for (untold, words) in [
            (Untold::Nothing, "no pair was measured"),
            (Untold::FewRanks { ranks: 2 }, "two hosts are one pair"),
            (Untold::FewRanks { ranks: 3 }, "with 3 hosts a slow one looks like a fast link"),
            (Untold::Unmeasured { ranks: vec![0, 1, 3] }, "no pair of n[1-2,7] was measured"),
            (Untold::FewPairs { ranks: vec![9] }, "rank 9 had fewer than three"),
            (Untold::OneVisit { pairs: 1 }, "1 pair had one visit only"),
            (Untold::OneVisit { pairs: 2 }, "2 pairs had one visit only"),
            (Untold::TwoGroups { level: 0 }, "at height 0 of the topology only two groups"),
            (Untold::FewOfKind { kind: 1, pairs: 2 }, "2 pairs meet at height 1"),
        ] {
            let text = untold.sentence(&names).to_string();
            assert!(text.contains(words), "{text}");
        }
    }
}
