//! The open questions of a verdict, in words.

use std::fmt;

use super::Untold;
use crate::hosts;

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

    #[test]
    fn every_open_question_has_its_sentence() {
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
