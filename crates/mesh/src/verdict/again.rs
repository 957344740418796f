//! Which pairs deserve another visit.

use hairpin_units::Arrange;

use super::Verdict;

/// The most standard deviations that noise explains, of a pair above its expected time or among its visits.
const BEYOND: f64 = 2.5;

impl Verdict {
    /// The pairs that deserve another visit, the most deserving first, at most `most`: those that noise does not explain, because
    /// they are slower than expected or their visits disagree, and those of ranks that look slow and are not convicted.
    #[must_use]
    pub fn suspicious(&self, most: usize) -> Vec<(usize, usize)> {
        let least = self.limits.least.ln();
        // Each undecided rank's distance beyond the least effect, in standard deviations of a pair.
        let undecided: Vec<f64> = self
            .ranks
            .iter()
            .map(|rank| {
                rank.ratio.filter(|_| !rank.is_convicted).map_or(0.0, |ratio| (ratio.ratio.ln() - least).max(0.0) / self.noise)
            })
            .collect();
        let mut found: Vec<(f64, (usize, usize))> = self
            .pairs
            .iter()
            .filter_map(|pair| {
                let beyond = (pair.value / pair.expected).ln() / pair.noise;
                let apart = pair.spread / (self.noise * std::f64::consts::SQRT_2);
                let own = [beyond, apart].into_iter().filter(|away| *away > BEYOND).fold(0.0, f64::max);
                let deserves = own + undecided[pair.a] + undecided[pair.b];
                (deserves > 0.0).then_some((deserves, (pair.a, pair.b)))
            })
            .collect();
        found.arrange_by(|(one, pair), (other, second)| other.total_cmp(one).then(pair.cmp(second)));
        found.truncate(most);
        found.into_iter().map(|(_, pair)| pair).collect()
    }
}
