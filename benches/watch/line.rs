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
    /// The fewest pairs that are judged.
    pub(crate) fewest: usize,
    /// ln(looked on / plain) of each pair.
    pub(crate) logs: Vec<f64>,
}

impl Line<'_> {
    fn ratio(&self) -> Option<Ratio> {
        of_rounds(&self.logs).map(|found| found.ratio())
    }

    pub(crate) fn word(&self) -> Word {
        match self.ratio() {
            None => Word::None,
            Some(_) if self.logs.len() < self.fewest => Word::Few,
            Some(found) => Limit::AtMost(self.bound).judged(found.low, found.high),
        }
    }
}

/// True if a judged state misses the bound, or none is judged. The lines are those of one figure, one for each state of the
/// cores.
pub(crate) fn missed(states: &[Line]) -> bool {
    let mut judged = states.iter().map(Line::word).filter(|word| !matches!(word, Word::Few | Word::None)).peekable();
    judged.peek().is_none() || judged.any(Word::missed)
}

impl std::fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:10} {:10} {:>5} {:>6}", self.path, self.arm, self.name, self.logs.len())?;
        let (word, cores) = (self.word(), distance_text(self.cores));
        match self.ratio() {
            Some(found) => {
                let interval =
                    if found.high.is_finite() { format!("{:.3}-{:.3}", found.low, found.high) } else { "-".to_owned() };
                write!(f, " {:7.3} {interval:>15} {:7.2} {cores:<15} {word}", found.ratio, self.bound)
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
        Line { path: "udp:spin", arm: "--watch", name: "p50", bound: 1.02, cores: Some(120), fewest: 12, logs }
    }

    #[test]
    fn only_results_surely_within_the_bound_pass() {
        let word = |middle, noise, pairs| line(middle, noise, pairs).word();
        assert_eq!((word(1.0, 0.005, 20), word(1.05, 0.005, 20)), (Word::Ok, Word::Miss));
        // The noisier the host, the wider the interval: that proves nothing.
        assert_eq!((word(1.0, 0.2, 20), word(1.0, 0.005, 3), word(1.0, 0.0, 0)), (Word::Unclear, Word::Few, Word::None));
        assert!(line(1.0, 0.2, 20).to_string().ends_with("1.02 cores at 120 ns unclear"));
        let few = line(0.9, 0.2, 2).to_string();
        assert!(few.contains(" - ") && few.ends_with("cores at 120 ns few"), "{few}");
    }

    #[test]
    fn a_figure_passes_if_a_state_is_judged_and_none_misses() {
        let of = |states: &[(f64, usize)]| {
            missed(&states.iter().map(|&(middle, pairs)| line(middle, 0.005, pairs)).collect::<Vec<_>>())
        };
        assert!(!of(&[(1.0, 20), (1.5, 3)]), "a state that came up in few rounds is told and not judged");
        assert!(of(&[(1.0, 20), (1.5, 20)]));
        assert!(of(&[(0.9, 10), (0.9, 2)]) && of(&[(0.9, 0)]) && of(&[]), "no state was judged");
    }
}
