//! Comparisons: every arm against the first of its record, every tried setting, and every level of a swept factor.

use hairpin_record::any::AnyRecord;
use hairpin_record::compare::{self, Arm, Compare};
use hairpin_record::experiment::{Estimate, Figure, Verdict};
use hairpin_record::sweep::{self, Effect, Sweep};

use crate::compare::{described, sentence, values};
use crate::prose::clean;
use crate::view::{Comparison, Input, Ratio};

/// All comparisons, in the order of the records.
pub(super) fn comparisons(given: &[Input]) -> Vec<Comparison> {
    let of = |(at, given): (usize, &Input)| match &given.record {
        AnyRecord::Compare(record) => of_compare(at + 1, record),
        AnyRecord::TuneTry(tried) => {
            let paths = tried.paths.iter().flat_map(|path| std::iter::once(&path.alone).chain(&path.together));
            paths.flat_map(|record| of_compare(at + 1, record)).collect()
        }
        AnyRecord::Sweep(sweep) => sweep.main_effects.iter().map(|found| effect(at + 1, sweep, found)).collect(),
        _ => Vec::new(),
    };
    given.iter().enumerate().flat_map(of).collect()
}

fn of_compare(number: usize, record: &Compare) -> Vec<Comparison> {
    record.comparisons.iter().map(|found| comparison(number, record, found)).collect()
}

/// A level of a factor against the first level, over all levels of the other factors. A sweep has no margin.
fn effect(number: usize, sweep: &Sweep, found: &Effect) -> Comparison {
    let word = match found.figures.iter().find(|ratio| ratio.figure == Figure::P50).filter(|ratio| ratio.tells()) {
        Some(ratio) if ratio.ratio < 1.0 => Verdict::Faster,
        Some(_) => Verdict::Slower,
        None => Verdict::Unclear,
    };
    let ratio = |ratio: &sweep::Ratio| Ratio {
        figure: ratio.figure.name().into(),
        against: None,
        value: None,
        ratio: Some(ratio.ratio),
        low: ratio.low,
        high: ratio.high,
    };
    let name = |level: &str| clean(&format!("{} = {level}", found.factor));
    Comparison {
        record: number,
        against: name(&found.against),
        arm: name(&found.level),
        verdict: word.to_string(),
        figure: Figure::P50.name().into(),
        sentence: clean(&format!("An effect in the sweep {}, over all levels of the other factors.", sweep.plan)),
        ratios: found.figures.iter().map(ratio).collect(),
        interleaved: true,
        margin: 0.0,
        confidence: sweep.confidence,
    }
}

fn comparison(number: usize, record: &Compare, found: &compare::Comparison) -> Comparison {
    let find = |name: &str| record.arms.iter().find(|arm| arm.name == name);
    let (arm, against) = (find(&found.arm), find(&found.against));
    let called = |name: &str, arm: Option<&Arm>| match arm {
        Some(arm) => clean(&format!("{name}: {}", described(arm, record))),
        None => clean(name),
    };
    Comparison {
        record: number,
        against: called(&found.against, against),
        arm: called(&found.arm, arm),
        verdict: found.verdict.to_string(),
        figure: record.method.figure.name().into(),
        sentence: clean(&begun(&sentence(record, found, &found.arm, &found.against).0)),
        ratios: found.figures.iter().map(|estimate| ratio(estimate, against, arm)).collect(),
        interleaved: record.design.is_some(),
        margin: record.method.margin,
        confidence: record.method.confidence,
    }
}

/// With a capital and a full stop; the name of an arm stays as it is.
fn begun(sentence: &str) -> String {
    match sentence.strip_prefix("unclear") {
        Some(rest) => format!("Unclear{rest}."),
        None => format!("{sentence}."),
    }
}

fn ratio(estimate: &Estimate, against: Option<&Arm>, arm: Option<&Arm>) -> Ratio {
    let [base, value] = values(estimate, against, arm);
    Ratio {
        figure: estimate.figure.name().into(),
        against: base,
        value,
        ratio: estimate.ratio,
        low: estimate.low,
        high: estimate.high,
    }
}
