//! The fit: every pair's logarithm as a sum of a level and effects, few of them large.
//!
//! ```text
//!   y(a,b) = level of its kind + effect(a) + effect(b) + within(G) of the group where a and b meet
//!                              + across(G) of every group that only one of them is in + rest
//! ```
//! The fit minimises the sum of the sizes of all rests and effects, each as √(x² + ε²): absolute values, rounded off
//! where noise rules. So a cause costs as much as a pair that is not explained: a slow rank is cheaper than its slow pairs, a
//! slow pair cheaper than two ranks, a slow group cheaper than most of its ranks. Sums of absolute values ignore outliers and
//! prefer few causes (Tibshirani, Journal of the Royal Statistical Society B 58, 1996), and this one is convex: there is one
//! answer, wherever the search begins. It is found by weighted least squares, again and again (Green, Journal of the Royal
//! Statistical Society B 46, 1984), each by conjugate gradients, in time proportional to the pairs.

use crate::topology::Level;

use super::robust::{median, noise};

/// Where the rounding of absolute values ends, in standard deviations of the noise.
const ROUND: f64 = 0.5;
/// The same for effects, and smaller: if small effects were cheap, many ranks would share that of their group.
const ROUND_EFFECT: f64 = 0.25;
/// The least noise: a bucket of the histogram is up to 0.1 % wide.
pub(super) const BUCKET: f64 = 1e-3;
/// The cost of a group's effect, where a rank's costs 1. At 1 it would be a draw whether a rack of four is slow, or the other
/// rack fast but for one slow rank. At this cost, of two racks the one with three slow ranks of four is called slow itself.
const GROUP_COST: f64 = 0.75;
/// Rounds of fit and noise: the noise found rounds the next fit.
const ROUNDS: usize = 3;
/// Weighted least squares per round at most.
const REWEIGHTED: usize = 40;
/// A round ends when no parameter moves by more than this.
const STILL: f64 = 1e-6;
/// Keeps a level without pairs at 0.
const TINY: f64 = 1e-9;

/// Whose effect a parameter is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Of {
    /// The level of a kind of pairs: those that meet at this height of the topology; no effect.
    Kind(usize),
    Rank(usize),
    /// All pairs that meet in this group.
    Within {
        level: usize,
        group: usize,
    },
    /// All pairs that have one end in this group.
    Across {
        level: usize,
        group: usize,
    },
}

/// The parameters whose sum is a pair's value.
#[derive(Clone, Debug)]
pub(super) struct Design {
    pub(super) parameters: Vec<Of>,
    kinds: usize,
    /// Level by level, the group of each rank.
    member: Vec<Vec<Option<usize>>>,
    /// Level by level, the parameter of each group, if it can be told from others.
    within: Vec<Vec<Option<usize>>>,
    across: Vec<Vec<Option<usize>>>,
}

/// The fewest ranks of a group whose own pairs are compared with those of others: two ranks are a pair.
const LEAST_WITHIN: usize = 3;
/// The fewest pairs within a group.
const LEAST_PAIRS: usize = 3;
/// The fewest groups that tell which one's way out is slow.
const LEAST_ACROSS: usize = 3;

impl Design {
    /// The parameters for these pairs.
    pub(super) fn new(ranks: usize, levels: &[Level], pairs: &[(usize, usize)]) -> Design {
        let mut member = vec![vec![None; ranks]; levels.len()];
        for (level, groups) in levels.iter().enumerate() {
            for (group, of) in groups.groups.iter().enumerate() {
                of.ranks.iter().filter(|rank| **rank < ranks).for_each(|&rank| member[level][rank] = Some(group));
            }
        }
        let kinds = levels.len() + 1;
        let none = || levels.iter().map(|level| vec![None; level.groups.len()]).collect();
        let parameters = (0..kinds).map(Of::Kind).chain((0..ranks).map(Of::Rank)).collect();
        let mut design = Design { parameters, kinds, member, within: none(), across: none() };
        let mut is_measured = vec![false; ranks];
        pairs.iter().flat_map(|&(a, b)| [a, b]).for_each(|rank| is_measured[rank] = true);
        for (level, groups) in levels.iter().enumerate() {
            let (mut inside, mut outside) = (vec![0; groups.groups.len()], vec![0; groups.groups.len()]);
            for &(a, b) in pairs {
                if design.kind(a, b) == level {
                    design.member[level][a].iter().for_each(|&group| inside[group] += 1);
                } else if design.kind(a, b) > level {
                    [a, b].iter().filter_map(|&rank| design.member[level][rank]).for_each(|group| outside[group] += 1);
                }
            }
            // A single measured rank of a group is the group: its effect is a rank's.
            let of_measured = |rank: &&usize| is_measured.get(**rank).is_some_and(|is| *is);
            let size = |group: usize| groups.groups[group].ranks.iter().filter(of_measured).count();
            let is_inside = |group: &usize| size(*group) >= LEAST_WITHIN && inside[*group] >= LEAST_PAIRS;
            let is_outside = |group: &usize| size(*group) >= 2 && outside[*group] >= LEAST_PAIRS;
            let inside: Vec<usize> = (0..groups.groups.len()).filter(is_inside).collect();
            let outsiders = outside.iter().filter(|count| **count > 0).count();
            let outside: Vec<usize> = (0..groups.groups.len()).filter(is_outside).collect();
            if inside.len() >= 2 {
                for group in inside {
                    design.within[level][group] = Some(design.parameters.len());
                    design.parameters.push(Of::Within { level, group });
                }
            }
            if outsiders >= LEAST_ACROSS {
                for group in outside {
                    design.across[level][group] = Some(design.parameters.len());
                    design.parameters.push(Of::Across { level, group });
                }
            }
        }
        design
    }

    /// The height at which a pair meets: that of the lowest group which both are in, or the number of heights if there is none.
    pub(super) fn kind(&self, a: usize, b: usize) -> usize {
        let meets = |level: &Vec<Option<usize>>| level[a].is_some() && level[a] == level[b];
        self.member.iter().position(meets).unwrap_or(self.member.len())
    }

    /// The group of a rank at a height.
    pub(super) fn group(&self, level: usize, rank: usize) -> Option<usize> {
        self.member[level][rank]
    }

    /// The parameter that is a rank's effect.
    pub(super) fn of_rank(&self, rank: usize) -> usize {
        self.kinds + rank
    }

    /// Calls `each` with every parameter of a pair.
    pub(super) fn each(&self, a: usize, b: usize, mut each: impl FnMut(usize)) {
        let kind = self.kind(a, b);
        each(kind);
        each(self.of_rank(a));
        each(self.of_rank(b));
        for level in 0..kind.min(self.member.len()) {
            let group = |rank: usize| self.member[level][rank].and_then(|group| self.across[level][group]);
            group(a).into_iter().chain(group(b)).for_each(&mut each);
        }
        if let Some(group) = self.member.get(kind).and_then(|level| level[a]) {
            self.within[kind][group].into_iter().for_each(&mut each);
        }
    }
}

/// The parameters' values, and the rest of each pair.
#[derive(Clone, Debug)]
pub(super) struct Fit {
    pub(super) design: Design,
    pub(super) values: Vec<f64>,
    /// Each pair's value less the sum of its parameters.
    pub(super) left: Vec<f64>,
}

impl Fit {
    /// The logarithm that a pair should have.
    pub(super) fn expected(&self, a: usize, b: usize) -> f64 {
        let mut sum = 0.0;
        self.design.each(a, b, |parameter| sum += self.values[parameter]);
        sum
    }
}

/// The parameters of each pair, one after the other.
struct Rows {
    starts: Vec<usize>,
    columns: Vec<u32>,
}

impl Rows {
    fn of(&self, row: usize) -> &[u32] {
        &self.columns[self.starts[row]..self.starts[row + 1]]
    }

    fn sum(&self, row: usize, values: &[f64]) -> f64 {
        self.of(row).iter().map(|&column| values[column as usize]).sum()
    }
}

/// Fits the values `y` of the pairs. `visits` takes each pair's fitted value and the number of parameters, and returns the
/// standard deviation of the visits.
pub(super) fn fit(design: Design, pairs: &[(usize, usize)], y: &[f64], visits: impl Fn(&[f64], usize) -> f64) -> Fit {
    let mut rows = Rows { starts: vec![0], columns: Vec::new() };
    for &(a, b) in pairs {
        design.each(a, b, |column| rows.columns.push(u32::try_from(column).unwrap_or(u32::MAX)));
        rows.starts.push(rows.columns.len());
    }
    let mut values = vec![0.0; design.parameters.len()];
    let mut own = vec![Vec::new(); design.kinds];
    pairs.iter().zip(y).for_each(|(&(a, b), value)| own[design.kind(a, b)].push(*value));
    values.iter_mut().zip(&mut own).for_each(|(level, own)| *level = median(own));
    for round in 0..ROUNDS {
        let fitted: Vec<f64> = (0..y.len()).map(|row| rows.sum(row, &values)).collect();
        let left: Vec<f64> = y.iter().zip(&fitted).map(|(y, fitted)| y - fitted).collect();
        // At first the rests hold all effects; the scatter among the visits of a pair is noise alone.
        let sigma = if round == 0 { visits(y, y.len()) } else { visits(&fitted, values.len()) };
        let sigma = if sigma > 0.0 { sigma } else { noise(&left, 0) };
        solve(&design, &rows, y, sigma.max(BUCKET), &mut values);
    }
    let left = (0..y.len()).map(|row| y[row] - rows.sum(row, &values)).collect();
    Fit { design, values, left }
}

fn solve(design: &Design, rows: &Rows, y: &[f64], sigma: f64, values: &mut Vec<f64>) {
    let (round, round_effect) = ((ROUND * sigma).powi(2), (ROUND_EFFECT * sigma).powi(2));
    for _ in 0..REWEIGHTED {
        let weights: Vec<f64> = (0..y.len()).map(|row| 1.0 / ((y[row] - rows.sum(row, values)).powi(2) + round).sqrt()).collect();
        let effect = |(parameter, value): (&Of, &f64)| match parameter {
            Of::Kind(_) => TINY,
            Of::Rank(_) => 1.0 / (value * value + round_effect).sqrt(),
            Of::Within { .. } | Of::Across { .. } => GROUP_COST / (value * value + round_effect).sqrt(),
        };
        let own: Vec<f64> = design.parameters.iter().zip(values.iter()).map(effect).collect();
        let new = least_squares(rows, y, &weights, &own, values);
        let moved = new.iter().zip(values.iter()).fold(0.0f64, |most, (new, old)| most.max((new - old).abs()));
        *values = new;
        if moved < STILL {
            break;
        }
    }
}

/// Weighted least squares with `own` as weights of the parameters themselves, by conjugate gradients from `start` with the
/// diagonal as preconditioner (Hestenes and Stiefel, Journal of Research of the National Bureau of Standards 49, 1952).
fn least_squares(rows: &Rows, y: &[f64], weights: &[f64], own: &[f64], start: &[f64]) -> Vec<f64> {
    let mut diagonal = own.to_vec();
    let mut right = vec![0.0; own.len()];
    for row in 0..y.len() {
        for &column in rows.of(row) {
            diagonal[column as usize] += weights[row];
            right[column as usize] += weights[row] * y[row];
        }
    }
    let times = |x: &[f64]| {
        let mut out: Vec<f64> = own.iter().zip(x).map(|(own, x)| own * x).collect();
        for (row, weight) in weights.iter().enumerate() {
            let sum = weight * rows.sum(row, x);
            rows.of(row).iter().for_each(|&column| out[column as usize] += sum);
        }
        out
    };
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let mut x = start.to_vec();
    let mut rest: Vec<f64> = right.iter().zip(times(&x)).map(|(right, now)| right - now).collect();
    let eased = |rest: &[f64]| rest.iter().zip(&diagonal).map(|(rest, diagonal)| rest / diagonal).collect::<Vec<f64>>();
    let mut ease = eased(&rest);
    let mut way = ease.clone();
    let mut size = dot(&rest, &ease);
    let enough = dot(&right, &eased(&right)) * 1e-18;
    for _ in 0..own.len().clamp(20, 200) {
        if size <= enough {
            break;
        }
        let along = times(&way);
        let step = size / dot(&way, &along);
        x.iter_mut().zip(&way).for_each(|(x, way)| *x += step * way);
        rest.iter_mut().zip(&along).for_each(|(rest, along)| *rest -= step * along);
        ease = eased(&rest);
        let next = dot(&rest, &ease);
        let turn = next / size;
        way.iter_mut().zip(&ease).for_each(|(way, ease)| *way = ease + turn * *way);
        size = next;
    }
    x
}
