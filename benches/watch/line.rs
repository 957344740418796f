//! A line of the table: the cost of watching for one figure, and whether that is within its bound.

use hairpin_record::statistics::Ratio;

use super::super::bound::{Limit, Word, of_rounds};
use super::super::pairs::distance_text;

/// One figure of one path, looked on in one way.
pub(crate) struct Line<'a> {
    pub(crate) path: &'a str,
    pub(crate) arm: &'a str,
    pub(crate) name: &'a str,
    pub(crate) bound: f64,
    /// The median distance of the cores in ns.
    pub(crate) cores: Option<u64>,
    /// ln(looked on / plain) of each pair.
    pub(crate) logs: Vec<f64>,
}

impl Line<'_> {
    fn ratio(&self) -> Option<Ratio> {
        of_rounds(&self.logs).map(|found| found.ratio())
    }

    pub(crate) fn word(&self) -> Word {
        self.ratio().map_or(Word::None, |found| Limit::AtMost(self.bound).judged(found.low, found.high))
    }
}

impl std::fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:10} {:10} {:>5} {:>6}", self.path, self.arm, self.name, self.logs.len())?;
        let (word, cores) = (self.word(), distance_text(self.cores));
        match self.ratio() {
            Some(found) => {
                write!(f, " {:7.3} {:7.3}-{:7.3} {:7.2} {word:7} {cores}", found.ratio, found.low, found.high, self.bound)
            }
            None => write!(f, " no pair of one state: {word}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(middle: f64, noise: f64, pairs: usize) -> Line<'static> {
        let logs = (0..pairs).map(|at| middle.ln() + noise * [-1.0, 0.7, 0.3, -0.4, 0.4][at % 5]).collect();
        Line { path: "udp:spin", arm: "--watch", name: "p50", bound: 1.02, cores: Some(120), logs }
    }

    #[test]
    fn only_results_surely_within_the_bound_pass() {
        let word = |middle, noise, pairs| line(middle, noise, pairs).word();
        assert_eq!((word(1.0, 0.005, 20), word(1.05, 0.005, 20)), (Word::Ok, Word::Miss));
        // The noisier the host, the wider the interval: that proves nothing.
        assert_eq!((word(1.0, 0.2, 20), word(1.0, 0.005, 3), word(1.0, 0.0, 0)), (Word::Unclear, Word::Unclear, Word::None));
        assert!(line(1.0, 0.2, 20).to_string().ends_with("1.02 unclear cores at 120 ns"));
    }
}
