//! The effect of each factor: per round the mean of ln(level / first level) over cells that differ in nothing else, then an
//! interval over the rounds.
//!
//! ```text
//!   main effect    of b:  cells (·,b) and (·,b₀) that agree in all else, of one round and one state of the cores
//!   interaction    of a with b:  ln of (a,b)/(a₀,b) less ln of (a,b₀)/(a₀,b₀)
//! ```

use hairpin_record::experiment::Figure;
use hairpin_record::paired;
use hairpin_record::sweep::{Effect, Interaction, Ratio};

use super::plan::{Design, SweepPlan};
use crate::experiment::rounds::Round;
use crate::experiment::states::States;

/// The joint confidence of all intervals of a sweep.
pub(crate) const CONFIDENCE: f64 = 0.95;
/// Figures of an effect; a single block must support them.
const FIGURES: [Figure; 4] = [Figure::P50, Figure::P99, Figure::Rate, Figure::Cpu];

pub(crate) struct Effects {
    pub(crate) confidence_each: f64,
    pub(crate) main: Vec<Effect>,
    pub(crate) interactions: Vec<Interaction>,
}

/// Cells, with the sign of their logarithm in the sum.
type Contrast = Vec<(usize, f64)>;

/// All effects of the plan.
pub(crate) fn find(plan: &SweepPlan, cells: &[Vec<usize>], rounds: &[Round], states: &States) -> Effects {
    let name = |factor: usize, level: usize| plan.factors[factor].levels[level].name().to_owned();
    let levels = |factor: usize| 1..plan.factors[factor].levels.len();
    let count = plan.factors.len();
    let mut mains = Vec::new();
    let mut pairs = Vec::new();
    for factor in 0..count {
        mains.extend(levels(factor).map(|level| (factor, level)));
        if plan.design == Design::Factorial {
            for other in factor + 1..count {
                pairs.extend(levels(factor).flat_map(|level| levels(other).map(move |with| ([factor, other], [level, with]))));
            }
        }
    }
    let shares = (FIGURES.len() * (mains.len() + pairs.len()).max(1)) as f64;
    let confidence_each = 1.0 - (1.0 - CONFIDENCE) / shares;
    let figures = |contrasts: &[Contrast]| {
        FIGURES.into_iter().filter_map(|figure| ratio(contrasts, rounds, states, figure, confidence_each)).collect::<Vec<_>>()
    };
    let main = mains.iter().map(|(factor, level)| Effect {
        factor: plan.factors[*factor].name.clone(),
        level: name(*factor, *level),
        against: name(*factor, 0),
        figures: figures(&main_contrasts(cells, *factor, *level)),
    });
    let interactions = pairs.iter().map(|(factors, levels)| Interaction {
        factors: factors.map(|factor| plan.factors[factor].name.clone()),
        levels: [name(factors[0], levels[0]), name(factors[1], levels[1])],
        against: [name(factors[0], 0), name(factors[1], 0)],
        figures: figures(&interaction_contrasts(cells, *factors, *levels)),
    });
    Effects { confidence_each, main: main.collect(), interactions: interactions.collect() }
}

fn with(cell: &[usize], changes: &[(usize, usize)]) -> Vec<usize> {
    let mut cell = cell.to_vec();
    changes.iter().for_each(|(factor, level)| cell[*factor] = *level);
    cell
}

fn main_contrasts(cells: &[Vec<usize>], factor: usize, level: usize) -> Vec<Contrast> {
    let at = |wanted: Vec<usize>| cells.iter().position(|cell| *cell == wanted);
    let first = cells.iter().filter(|cell| cell[factor] == 0);
    first.filter_map(|cell| Some(vec![(at(with(cell, &[(factor, level)]))?, 1.0), (at(cell.clone())?, -1.0)])).collect()
}

fn interaction_contrasts(cells: &[Vec<usize>], [one, other]: [usize; 2], [level, with_level]: [usize; 2]) -> Vec<Contrast> {
    let at = |wanted: Vec<usize>| cells.iter().position(|cell| *cell == wanted);
    let corner = |cell: &Vec<usize>| {
        Some(vec![
            (at(with(cell, &[(one, level), (other, with_level)]))?, 1.0),
            (at(with(cell, &[(other, with_level)]))?, -1.0),
            (at(with(cell, &[(one, level)]))?, -1.0),
            (at(cell.clone())?, 1.0),
        ])
    };
    cells.iter().filter(|cell| cell[one] == 0 && cell[other] == 0).filter_map(corner).collect()
}

/// The mean of each round's contrasts, with an interval over the rounds.
fn ratio(contrasts: &[Contrast], rounds: &[Round], states: &States, figure: Figure, confidence: f64) -> Option<Ratio> {
    let values: Vec<f64> = rounds.iter().filter_map(|round| mean(contrasts, round, states, figure)).collect();
    let found = paired::shift(&values, confidence)?.ratio();
    let finite = |value: f64| Some(value).filter(|value| value.is_finite() && *value > 0.0);
    Some(Ratio {
        figure,
        ratio: finite(found.ratio)?,
        low: finite(found.low),
        high: finite(found.high),
        rounds: values.len() as u64,
    })
}

/// The mean over the contrasts whose cells all saw one state; `None` if those are fewer than half, so that each round's mean
/// covers about the same cells.
fn mean(contrasts: &[Contrast], round: &Round, states: &States, figure: Figure) -> Option<f64> {
    let one = |contrast: &Contrast| {
        let mut seen = None;
        let mut sum = 0.0;
        for (cell, sign) in contrast {
            let taken = &round.taken[*cell];
            let state = states.state(&taken.cores)?;
            if *seen.get_or_insert(state) != state {
                return None;
            }
            sum += sign * taken.block.figure(figure)?.ln();
        }
        Some(sum)
    };
    let found: Vec<f64> = contrasts.iter().filter_map(one).collect();
    let enough = !found.is_empty() && 2 * found.len() >= contrasts.len();
    enough.then(|| found.iter().sum::<f64>() / found.len() as f64)
}

#[cfg(test)]
mod tests {
    use hairpin_record::experiment::ArmBlock;

    use super::*;
    use crate::experiment::rounds::Taken;

    const PLAN: &str = r#"
name = "t"
path = "udp:{wait}"
size = "{size}"
[[factor]]
name = "wait"
levels = ["spin", "block"]
[[factor]]
name = "size"
levels = ["64", "1024"]
"#;

    /// Spinning takes 5 us, blocking ten times as much; 1,024 bytes take a fifth more, but nothing more when blocking: an
    /// interaction of 1 / 1.2.
    fn rounds(count: u64) -> Vec<Round> {
        let value = |cell: u64, round: u64| {
            let noise = 1.0 + ((round * 7919 + cell * 104_729) % 100) as f64 / 10_000.0;
            [5_000.0, 6_000.0, 50_000.0, 50_000.0][cell as usize] * noise
        };
        let taken = |cell, round| Taken {
            block: ArmBlock {
                p50_ns: Some(value(cell, round)),
                duration_ns: 1_000_000,
                transactions: 100,
                ..ArmBlock::default()
            },
            cores: vec![if round % 10 == 0 && cell == 0 { 510 } else { 120 }],
            ..Taken::default()
        };
        (0..count).map(|round| Round { taken: (0..4).map(|cell| taken(cell, round)).collect() }).collect()
    }

    #[test]
    fn main_effects_and_their_interaction() {
        let plan = SweepPlan::parse("t", PLAN).unwrap();
        let cells = plan.cells().unwrap();
        assert_eq!(cells, [[0, 0], [0, 1], [1, 0], [1, 1]]);
        let rounds = rounds(60);
        let found = find(&plan, &cells, &rounds, &States::of(&rounds));
        let p50 = |figures: &[Ratio]| figures.iter().find(|ratio| ratio.figure == Figure::P50).unwrap().clone();
        let wait = p50(&found.main[0].figures);
        // Ten times at 64 bytes, 50 / 6 at 1,024: the geometric mean of both.
        assert!((wait.ratio - (10.0f64 * 50.0 / 6.0).sqrt()).abs() < 0.1, "{wait:?}");
        let size = p50(&found.main[1].figures);
        assert!((size.ratio - 1.2f64.sqrt()).abs() < 0.01 && size.tells(), "{size:?}");
        let [interaction] = &found.interactions[..] else { panic!("one interaction") };
        let both = p50(&interaction.figures);
        assert!((both.ratio - 1.0 / 1.2).abs() < 0.01 && both.tells(), "{both:?}");
        // In every tenth round the first cell saw another distance between the cores than the others.
        assert_eq!(both.rounds, 54);
        let rate = found.main[0].figures.iter().find(|ratio| ratio.figure == Figure::Rate).unwrap();
        assert!((rate.ratio - 1.0).abs() < 1e-9 && !rate.tells());
    }

    #[test]
    fn one_at_a_time_has_no_interactions() {
        let plan = SweepPlan { design: Design::OneAtATime, ..SweepPlan::parse("t", PLAN).unwrap() };
        let cells = plan.cells().unwrap();
        let rounds: Vec<Round> = rounds(30)
            .into_iter()
            .map(|round| Round { taken: vec![round.taken[0].clone(), round.taken[2].clone(), round.taken[1].clone()] })
            .collect();
        let found = find(&plan, &cells, &rounds, &States::of(&rounds));
        assert!(found.interactions.is_empty());
        assert!((found.main[0].figures[0].ratio - 10.0).abs() < 0.1, "{:?}", found.main[0]);
        assert!((found.main[1].figures[0].ratio - 1.2).abs() < 0.01, "{:?}", found.main[1]);
    }
}
