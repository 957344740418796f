//! Every arm that was held against the first of its record.

use hairpin_record::any::AnyRecord;
use hairpin_record::compare::{self, Arm, Compare};
use hairpin_record::experiment::Estimate;

use super::{Comparison, Given, Ratio};
use crate::compare::{described, sentence, values};
use crate::prose::clean;

/// All of them, in the order of the records.
pub(super) fn comparisons(given: &[Given]) -> Vec<Comparison> {
    let of = |(at, given): (usize, &Given)| match &given.record {
        AnyRecord::Compare(record) => record.comparisons.iter().map(|found| comparison(at + 1, record, found)).collect(),
        _ => Vec::new(),
    };
    given.iter().enumerate().flat_map(of).collect()
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
        sentence: clean(&format!("{}.", sentence(record, found))),
        ratios: found.figures.iter().map(|estimate| ratio(estimate, against, arm)).collect(),
        interleaved: record.design.is_some(),
        margin: record.method.margin,
        confidence: record.method.confidence,
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
