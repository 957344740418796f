//! A line of the table: the cost of watching for one figure, and whether that is within its bound.

use hairpin_record::paired::shift;

/// Confidence of each interval.
const CONFIDENCE: f64 = 0.95;

/// One figure of one path, looked on in one way.
pub(crate) struct Line<'a> {
    pub(crate) path: &'a str,
    pub(crate) arm: &'a str,
    pub(crate) name: &'a str,
    pub(crate) bound: f64,
    /// ln(looked on / plain) of each pair.
    pub(crate) logs: Vec<f64>,
}

impl Line<'_> {
    /// True if the whole interval lies within the bound: an unknown is not met.
    pub(crate) fn met(&self) -> bool {
        self.word() == "ok"
    }

    fn word(&self) -> &'static str {
        match shift(&self.logs, CONFIDENCE).map(|found| found.ratio()) {
            Some(found) if found.high <= self.bound => "ok",
            // Beyond the bound with a part of the interval only: more rounds would tell.
            Some(found) if found.low <= self.bound => "unclear",
            Some(_) => "MISS",
            None => "none",
        }
    }
}

impl std::fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:10} {:10} {:>5} {:>6}", self.path, self.arm, self.name, self.logs.len())?;
        match shift(&self.logs, CONFIDENCE).map(|found| found.ratio()) {
            Some(found) => {
                write!(f, " {:7.3} {:7.3}-{:7.3} {:7.2} {}", found.ratio, found.low, found.high, self.bound, self.word())
            }
            None => write!(f, " no pair of one state: {}", self.word()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(middle: f64, noise: f64, pairs: usize) -> Line<'static> {
        let logs = (0..pairs).map(|at| middle.ln() + noise * [-1.0, 0.7, 0.3, -0.4, 0.4][at % 5]).collect();
        Line { path: "udp:spin", arm: "--watch", name: "p50", bound: 1.02, logs }
    }

    #[test]
    fn only_results_surely_within_the_bound_pass() {
        assert_eq!((line(1.0, 0.005, 20).word(), line(1.0, 0.005, 20).met()), ("ok", true));
        assert_eq!((line(1.05, 0.005, 20).word(), line(1.05, 0.005, 20).met()), ("MISS", false));
        // The noisier the host, the wider the interval: that proves nothing.
        assert_eq!((line(1.0, 0.2, 20).word(), line(1.0, 0.2, 20).met()), ("unclear", false));
        assert_eq!((line(1.0, 0.005, 3).word(), line(1.0, 0.005, 3).met()), ("unclear", false));
        assert_eq!((line(1.0, 0.0, 0).word(), line(1.0, 0.0, 0).met()), ("none", false));
        assert!(line(1.0, 0.2, 20).to_string().ends_with("1.02 unclear"));
    }
}
