//! Which rank, link or group of ranks is slow, from the values of all visits.
//!
//! ```text
//!   visits ──▶ a logarithm a pair ──▶ level + effects, few of them large ──▶ against the others' ──▶ intervals ──▶ convicted?
//!              robust::median         fit                                    robust::location        all at once
//! ```
//! Effects multiply: a rank of effect 1.3 makes all its pairs take 1.3 times as long. A link's effect comes on top of those of
//! its two ranks and their groups.
//!
//! **Intervals** hold all at once, with the confidence asked for: each is Student's t interval at (1 − confidence) / m, where m
//! is the number of all ranks, links and groups together (Bonferroni's inequality; Dunn, Journal of the American Statistical
//! Association 56, 1961). It holds however the effects depend on each other, and they do: a pair is in the effects of both its
//! ranks. Holm's steps (Scandinavian Journal of Statistics 6, 1979) begin with the same bound and differ by little where few of
//! many are slow, but for those convicted they give no interval beyond "more than the least effect" (Strassburger and Bretz,
//! Statistics in Medicine 27, 2008), and people read the interval. Permutations of four hosts' six pairs are too few for a bound
//! of 5 % on ten effects.
//!
//! **Noise** is the scatter of the visits around the fit, without the few far ones. Visits of a pair resemble each other,
//! so they count as if half of their noise were the same in all of them, or more if the pairs scatter more. A rank whose own
//! pairs disagree, or a link whose visits do, has a wider interval for it: heavy tails hit one visit, a slow link is slow in all.
//!
//! **Convicted** is a rank, link or group whose whole interval lies above the least effect and that can be told from the rest: a
//! rank by three pairs or more, a link by two visits or more and by other pairs of both its ranks. Among fewer than four ranks
//! nobody is convicted. [`Untold`] has the questions that stay open, with the reason.

mod again;
mod fit;
mod robust;
#[cfg(test)]
mod simulated;
#[cfg(test)]
mod tests;
mod words;

use std::collections::BTreeMap;

use hairpin_record::statistics::{Ratio, t_quantile};

use crate::topology::Level;
use fit::{BUCKET, Design, Fit, Of};

/// The share of a visit's variance that it has in common with another visit of its pair, if no more is seen.
const SHARED: f64 = 0.5;
/// The fewest ranks among which one can be convicted.
const LEAST_RANKS: usize = 4;
/// The fewest pairs by which a rank is convicted.
const LEAST_PAIRS: usize = 3;
/// The fewest visits by which a link is convicted.
const LEAST_VISITS: usize = 2;
/// The fewest residuals of pairs beyond the number of parameters whose scatter is informative.
const LEAST_FREE: usize = 3;

/// One visit of a pair.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Observation {
    /// A rank of the pair.
    pub a: usize,
    /// The other one; in any order.
    pub b: usize,
    /// Its number, from 1.
    pub visit: u32,
    /// The rank that was the client.
    pub client: usize,
    /// A quantile of the visit's round trips in ns, the same one for all visits.
    pub value: f64,
}

/// When an effect is a verdict.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Effects up to this ratio are ignored.
    pub least: f64,
    /// How sure all intervals are at once, 0 to 1.
    pub confidence: f64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { least: 1.05, confidence: 0.95 }
    }
}

/// Why observations could not be judged.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum VerdictError {
    /// A rank beyond the mesh's.
    #[error(
        "an observation of ranks {a} and {b} is not of two ranks below {ranks}: give each pair two different ranks of the mesh"
    )]
    Rank { a: usize, b: usize, ranks: usize },
    /// The client is no rank of the pair.
    #[error("an observation of ranks {a} and {b} has rank {client} as client: give one of the two")]
    Client { a: usize, b: usize, client: usize },
    /// No positive number.
    #[error("an observation of ranks {a} and {b} took {value} ns: give a positive time")]
    Value { a: usize, b: usize, value: f64 },
    /// Limits that mean nothing.
    #[error(
        "a least effect of {least} with confidence {confidence} means nothing: give at least 1, and a confidence between 0 and 1"
    )]
    Limits { least: f64, confidence: f64 },
}

/// How slow a rank is.
#[derive(Clone, Debug, PartialEq)]
pub struct RankEffect {
    /// The rank.
    pub rank: usize,
    /// Its measured pairs.
    pub pairs: usize,
    /// Its pairs' times against the median of the other ranks'; `None` if there are too few to say.
    pub ratio: Option<Ratio>,
    pub is_convicted: bool,
}

/// How slow a link is.
#[derive(Clone, Debug, PartialEq)]
pub struct PairEffect {
    /// The lower rank.
    pub a: usize,
    /// The higher rank.
    pub b: usize,
    /// The visits.
    pub visits: usize,
    /// The middle of the visits in ns, with equal weight for both clients.
    pub value: f64,
    /// The time in ns that follows from the level, the two ranks and their groups.
    pub expected: f64,
    /// The measured against the expected; `None` if there are too few pairs to say. With one visit the interval trusts that its
    /// noise is ordinary, so it convicts nobody.
    pub ratio: Option<Ratio>,
    pub is_convicted: bool,
    /// Standard deviations: of this pair's logarithm, and among its visits.
    noise: f64,
    spread: f64,
}

/// The pairs of a group that are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    /// Those that meet in it.
    Within,
    /// Those that leave it.
    Across,
}

/// How slow a group is.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupEffect {
    /// The height of the topology, from 0.
    pub level: usize,
    /// The group's place in that level.
    pub group: usize,
    pub name: String,
    pub way: Way,
    /// The measured pairs.
    pub pairs: usize,
    /// Their times against the median of the other groups' at this height, without the effects of ranks.
    pub ratio: Option<Ratio>,
    pub is_convicted: bool,
}

/// A question that the observations leave open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Untold {
    /// No pair was measured.
    Nothing,
    /// Too few ranks to convict any.
    FewRanks { ranks: usize },
    /// Ranks without a measured pair.
    Unmeasured { ranks: Vec<usize> },
    /// Ranks with too few pairs.
    FewPairs { ranks: Vec<usize> },
    /// Pairs with one visit only.
    OneVisit { pairs: usize },
    /// Only two groups have pairs between them at this height of the topology, so neither can be compared.
    TwoGroups { level: usize },
    /// Too few pairs meet at this height to be compared with each other.
    FewOfKind { kind: usize, pairs: usize },
}

/// The effects in a mesh, and the questions that stay open.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// Every rank, in order.
    pub ranks: Vec<RankEffect>,
    /// Every measured pair, in order.
    pub pairs: Vec<PairEffect>,
    /// The groups that could be compared.
    pub groups: Vec<GroupEffect>,
    pub untold: Vec<Untold>,
    pub limits: Limits,
    /// The standard deviation of a pair's logarithm: 0.02 is 2 %.
    pub noise: f64,
    fit: Option<Fit>,
}

impl Verdict {
    /// The time in ns of two ranks: measured if they were, expected if not. `None` if nothing was measured, or neither rank was.
    #[must_use]
    pub fn time(&self, a: usize, b: usize) -> Option<Time> {
        let pair = (a.min(b), a.max(b));
        match self.pairs.binary_search_by_key(&pair, |effect| (effect.a, effect.b)) {
            Ok(at) => Some(Time { ns: self.pairs[at].value, is_measured: true }),
            Err(_) if a == b || [a, b].iter().any(|&rank| self.ranks.get(rank).is_none_or(|effect| effect.pairs == 0)) => None,
            Err(_) => self.fit.as_ref().map(|fit| Time { ns: fit.expected(a, b).exp(), is_measured: false }),
        }
    }
}

/// The time of a round trip of two ranks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Time {
    pub ns: f64,
    /// False if it follows from other pairs of the two.
    pub is_measured: bool,
}

/// The visits of a pair.
struct Visited {
    pair: (usize, usize),
    logs: Vec<f64>,
    /// The middle of the visits, with equal weight for both clients.
    middle: f64,
}

/// Judges the visits of a mesh of `ranks` ranks; pairs may be missing. `levels` are the groups from the lowest switches to the
/// top, as [`Topology::levels`](crate::topology::Topology::levels) makes them, or none.
///
/// # Errors
/// An observation is not of two ranks of the mesh, or its value is no time.
pub fn judge(ranks: usize, observations: &[Observation], levels: &[Level], limits: Limits) -> Result<Verdict, VerdictError> {
    let Limits { least, confidence } = limits;
    if !(least >= 1.0 && least.is_finite() && confidence > 0.0 && confidence < 1.0) {
        return Err(VerdictError::Limits { least, confidence });
    }
    let visited = visited(ranks, observations)?;
    let pairs: Vec<(usize, usize)> = visited.iter().map(|visited| visited.pair).collect();
    let y: Vec<f64> = visited.iter().map(|visited| visited.middle).collect();
    let count: usize = visited.iter().map(|visited| visited.logs.len()).sum();
    let of_visits = |fitted: &[f64], parameters: usize| {
        let away = visited.iter().zip(fitted).flat_map(|(visited, fitted)| visited.logs.iter().map(move |log| log - fitted));
        robust::noise(&away.collect::<Vec<_>>(), parameters)
    };
    let design = Design::new(ranks, levels, &pairs);
    let kinds = kinds(&design, &pairs, levels.len() + 1);
    let fit = fit::fit(design, &pairs, &y, of_visits);
    let measured = partners(ranks, &pairs);
    let measured_ranks = measured.iter().filter(|pairs| **pairs > 0).count();
    // Levels without pairs and ranks without any are no parameters.
    let parameters = fit.values.len() - kinds.iter().filter(|pairs| **pairs == 0).count() - (measured.len() - measured_ranks);
    let fitted: Vec<f64> = y.iter().zip(&fit.left).map(|(y, left)| y - left).collect();
    let visit = of_visits(&fitted, parameters).max(BUCKET);
    let between = if pairs.len() >= parameters + LEAST_FREE { robust::noise(&fit.left, parameters) } else { 0.0 };
    let judge = Judge {
        levels,
        limits,
        visited: &visited,
        measured,
        measured_ranks,
        kinds,
        visit,
        pair: (visit * of_mean(LEAST_VISITS)).max(between),
        freedom: count.saturating_sub(parameters).max(1) as f64,
        fit: &fit,
    };
    let critical = judge.critical();
    let (ranks, spread) = judge.ranks(critical);
    let (pairs, groups) = (judge.pairs(critical), judge.groups(critical, spread));
    let (untold, noise) = (judge.untold(), judge.pair);
    let fit = (!pairs.is_empty()).then_some(fit);
    Ok(Verdict { ranks, pairs, groups, untold, limits, noise, fit })
}

/// The standard deviation of the mean of `visits` visits, as a ratio to that of one.
fn of_mean(visits: usize) -> f64 {
    (SHARED + (1.0 - SHARED) / visits.max(1) as f64).sqrt()
}

fn visited(ranks: usize, observations: &[Observation]) -> Result<Vec<Visited>, VerdictError> {
    // The logarithms by the client: the lower rank, the higher rank.
    let mut found: BTreeMap<(usize, usize), [Vec<f64>; 2]> = BTreeMap::new();
    for &Observation { a, b, client, value, .. } in observations {
        let pair = (a.min(b), a.max(b));
        if a == b || pair.1 >= ranks {
            return Err(VerdictError::Rank { a, b, ranks });
        }
        if client != a && client != b {
            return Err(VerdictError::Client { a, b, client });
        }
        if !(value > 0.0 && value.is_finite()) {
            return Err(VerdictError::Value { a, b, value });
        }
        found.entry(pair).or_default()[usize::from(client == pair.1)].push(value.ln());
    }
    let visited = found.into_iter().map(|(pair, mut sides)| {
        let logs = sides.concat();
        let middles: Vec<f64> = sides.iter_mut().filter(|side| !side.is_empty()).map(|side| robust::median(side)).collect();
        Visited { pair, logs, middle: middles.iter().sum::<f64>() / middles.len() as f64 }
    });
    Ok(visited.collect())
}

/// The number of measured pairs of each rank.
fn partners(ranks: usize, pairs: &[(usize, usize)]) -> Vec<usize> {
    let mut partners = vec![0; ranks];
    pairs.iter().for_each(|&(a, b)| [a, b].iter().for_each(|&rank| partners[rank] += 1));
    partners
}

/// The number of measured pairs of each kind.
fn kinds(design: &Design, pairs: &[(usize, usize)], kinds: usize) -> Vec<usize> {
    let mut found = vec![0; kinds];
    pairs.iter().for_each(|&(a, b)| found[design.kind(a, b)] += 1);
    found
}

/// The fit and its noise, from which each effect gets its interval.
struct Judge<'a> {
    levels: &'a [Level],
    limits: Limits,
    visited: &'a [Visited],
    /// The measured pairs of each rank, and of each kind.
    measured: Vec<usize>,
    measured_ranks: usize,
    kinds: Vec<usize>,
    /// Standard deviations of one visit and of a pair of two visits.
    visit: f64,
    pair: f64,
    freedom: f64,
    fit: &'a Fit,
}

impl Judge<'_> {
    /// True if enough ranks were measured to tell one from the others.
    fn has_enough_ranks(&self) -> bool {
        self.measured_ranks >= LEAST_RANKS
    }

    /// How many standard errors an interval reaches to either side, so that all hold at once.
    fn critical(&self) -> f64 {
        let groups = self.fit.design.parameters.iter().filter(|of| matches!(of, Of::Within { .. } | Of::Across { .. })).count();
        let all = self.measured_ranks + self.visited.len() + groups;
        t_quantile(1.0 - (1.0 - self.limits.confidence) / (2.0 * all.max(1) as f64), self.freedom)
    }

    fn is_slow(&self, ratio: Ratio) -> bool {
        ratio.low > self.limits.least
    }

    /// The ranks' effects, and the standard deviation of ordinary ones.
    fn ranks(&self, critical: f64) -> (Vec<RankEffect>, f64) {
        let ranks = self.measured.len();
        // The pairs of each rank, without the effect of the other rank.
        let mut own: Vec<Vec<f64>> = vec![Vec::new(); ranks];
        for (visited, left) in self.visited.iter().zip(&self.fit.left) {
            [visited.pair.0, visited.pair.1].iter().for_each(|&rank| own[rank].push(left + self.effect(rank)));
        }
        let found: Vec<Option<(f64, f64)>> =
            own.iter_mut().map(|own| (!own.is_empty()).then(|| robust::location(own, self.pair))).collect();
        let mut sorted: Vec<f64> = found.iter().flatten().map(|(effect, _)| *effect).collect();
        let middle = robust::median(&mut sorted);
        let spread = robust::noise(&sorted.iter().map(|effect| effect - middle).collect::<Vec<_>>(), 1);
        let effects = (0..ranks).map(|rank| {
            let pairs = self.measured[rank];
            let others = |effect: f64| median_without(&sorted, effect);
            let ratio = found[rank].filter(|_| pairs >= 2 && sorted.len() >= 3).map(|(effect, scatter)| {
                let n = pairs as f64;
                // The other ends' effects are not known either: all pairs of N ranks give N / ((N − 1)(N − 2)).
                let error = self.pair.max(scatter) * ((1.0 + 1.0 / n) / (n - 1.0)).sqrt();
                ratio(effect - others(effect), critical * error)
            });
            let may = self.has_enough_ranks() && pairs >= LEAST_PAIRS;
            RankEffect { rank, pairs, ratio, is_convicted: may && ratio.is_some_and(|ratio| self.is_slow(ratio)) }
        });
        (effects.collect(), spread)
    }

    fn effect(&self, rank: usize) -> f64 {
        self.fit.values[self.fit.design.of_rank(rank)]
    }

    fn pairs(&self, critical: f64) -> Vec<PairEffect> {
        let effects = self.visited.iter().zip(&self.fit.left).map(|(visited, &left)| {
            let (a, b) = visited.pair;
            let visits = visited.logs.len();
            let scale = |rank: usize| 1.0 / self.measured[rank] as f64;
            let noise = (self.visit * of_mean(visits)).max(self.pair * of_mean(visits) / of_mean(LEAST_VISITS));
            // The scatter among its visits counts for this pair alone.
            let squares: f64 = visited.logs.iter().map(|log| (log - visited.middle).powi(2)).sum();
            let spread = if visits > 1 { (squares / (visits - 1) as f64).sqrt() } else { 0.0 };
            let error = (noise.powi(2) * (1.0 + scale(a) + scale(b)) + spread.powi(2) / visits as f64).sqrt();
            let has_others = self.measured[a] >= 2 && self.measured[b] >= 2;
            let has_kind = self.kinds[self.fit.design.kind(a, b)] >= LEAST_PAIRS;
            let ratio = (has_others && has_kind).then(|| ratio(left, critical * error));
            let may = self.has_enough_ranks() && visits >= LEAST_VISITS;
            let is_convicted = may && ratio.is_some_and(|ratio| self.is_slow(ratio));
            let (value, expected) = (visited.middle.exp(), (visited.middle - left).exp());
            PairEffect { a, b, visits, value, expected, ratio, is_convicted, noise, spread }
        });
        effects.collect()
    }

    /// The groups' effects, where ordinary ranks have a standard deviation of `spread`.
    fn groups(&self, critical: f64, spread: f64) -> Vec<GroupEffect> {
        let design = &self.fit.design;
        let mut own: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
        for (visited, left) in self.visited.iter().zip(&self.fit.left) {
            design.each(visited.pair.0, visited.pair.1, |parameter| {
                if matches!(design.parameters[parameter], Of::Within { .. } | Of::Across { .. }) {
                    own.entry(parameter).or_default().push(left + self.fit.values[parameter]);
                }
            });
        }
        let found: Vec<(GroupEffect, f64, f64)> = own
            .into_iter()
            .filter_map(|(parameter, mut own)| {
                let (level, group, way) = match design.parameters[parameter] {
                    Of::Within { level, group } => (level, group, Way::Within),
                    Of::Across { level, group } => (level, group, Way::Across),
                    Of::Kind(_) | Of::Rank(_) => return None,
                };
                let (effect, scatter) = robust::location(&mut own, self.pair);
                let of = &self.levels[level].groups[group];
                // Its pairs share its ranks: both ends within it, one end across.
                let ends = if way == Way::Within { 4.0 } else { 1.0 };
                let ranks = of.ranks.iter().filter(|rank| self.measured.get(**rank).is_some_and(|pairs| *pairs > 0)).count();
                let variance = self.pair.max(scatter).powi(2) / own.len() as f64 + ends * spread.powi(2) / ranks.max(1) as f64;
                let effect_of =
                    GroupEffect { level, group, name: of.name.clone(), way, pairs: own.len(), ratio: None, is_convicted: false };
                Some((effect_of, effect, variance))
            })
            .collect();
        let judged = found.iter().enumerate().map(|(at, (of, effect, variance))| {
            let is_other = |(other, (group, ..)): &(usize, &(GroupEffect, f64, f64))| {
                *other != at && (group.level, group.way) == (of.level, of.way)
            };
            let others: Vec<(f64, f64)> =
                found.iter().enumerate().filter(is_other).map(|(_, (_, effect, variance))| (*effect, *variance)).collect();
            if others.is_empty() {
                return of.clone();
            }
            let n = others.len() as f64;
            let error = (variance + others.iter().map(|(_, variance)| variance).sum::<f64>() / (n * n)).sqrt();
            let middle = robust::median(&mut others.iter().map(|(effect, _)| *effect).collect::<Vec<_>>());
            let ratio = ratio(effect - middle, critical * error);
            let may = self.has_enough_ranks();
            GroupEffect { ratio: Some(ratio), is_convicted: may && self.is_slow(ratio), ..of.clone() }
        });
        judged.collect()
    }

    fn untold(&self) -> Vec<Untold> {
        let ranks = self.measured.len();
        if self.visited.is_empty() {
            return vec![Untold::Nothing];
        }
        let with = |is: &dyn Fn(usize) -> bool| (0..ranks).filter(|&rank| is(self.measured[rank])).collect::<Vec<_>>();
        let mut untold = Vec::new();
        if !self.has_enough_ranks() {
            untold.push(Untold::FewRanks { ranks: self.measured_ranks });
        }
        let none = with(&|pairs| pairs == 0);
        if !none.is_empty() {
            untold.push(Untold::Unmeasured { ranks: none });
        }
        let few = with(&|pairs| pairs > 0 && pairs < LEAST_PAIRS);
        if self.has_enough_ranks() && !few.is_empty() {
            untold.push(Untold::FewPairs { ranks: few });
        }
        let once = self.visited.iter().filter(|visited| visited.logs.len() < LEAST_VISITS).count();
        if once > 0 {
            untold.push(Untold::OneVisit { pairs: once });
        }
        untold
            .extend((0..self.levels.len()).filter(|&level| self.has_two_groups(level)).map(|level| Untold::TwoGroups { level }));
        let few =
            |(kind, &pairs): (usize, &usize)| (pairs > 0 && pairs < LEAST_PAIRS).then_some(Untold::FewOfKind { kind, pairs });
        untold.extend(self.kinds.iter().enumerate().filter_map(few).filter(|_| self.has_enough_ranks()));
        untold
    }

    /// Whether all pairs that meet above this height are of the same two groups.
    fn has_two_groups(&self, level: usize) -> bool {
        let group = |rank: usize| self.fit.design.group(level, rank);
        let above = self.visited.iter().map(|visited| visited.pair).filter(|&(a, b)| self.fit.design.kind(a, b) > level);
        let mut groups: Vec<Option<usize>> = Vec::new();
        for found in above.flat_map(|(a, b)| [a, b]).map(group) {
            if !groups.contains(&found) {
                groups.push(found);
            }
            if groups.len() > 2 {
                return false;
            }
        }
        groups.len() == 2
    }
}

/// The median of sorted values, one of them left out.
fn median_without(sorted: &[f64], value: f64) -> f64 {
    let at = sorted.partition_point(|other| *other < value);
    let others = sorted.len().saturating_sub(1);
    let place = |n: usize| sorted[n + usize::from(n >= at)];
    match others {
        0 => 0.0,
        n if n % 2 == 1 => place(n / 2),
        n => f64::midpoint(place(n / 2 - 1), place(n / 2)),
    }
}

/// A logarithm as a ratio; its interval reaches `reach` to either side.
fn ratio(log: f64, reach: f64) -> Ratio {
    Ratio { ratio: log.exp(), low: (log - reach).exp(), high: (log + reach).exp() }
}
