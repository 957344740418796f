//! Compares two floors stage by stage.

use hairpin_record::floor::{Comparison, Difference, Floor, Span, Stage};
use hairpin_record::head::Label;
use hairpin_units::Picos;

/// The second minus the first. Stages of the same name are paired; the others stay at their place on the way.
pub fn compare(first: Floor, second: Floor) -> Comparison {
    let differences = pairs(&first.stages, &second.stages)
        .into_iter()
        .map(|(a, b)| {
            let none = Span::point(Picos::ZERO);
            let (one, two) = (a.map(|stage| stage.time), b.map(|stage| stage.time));
            Difference {
                stage: a.or(b).map(|stage| stage.name.clone()).unwrap_or_default(),
                first: one,
                second: two,
                difference: two.unwrap_or(none).less(one.unwrap_or(none)),
            }
        })
        .collect();
    let difference = second.one_way().less(first.one_way());
    Comparison { label: Label::of::<Comparison>(), first, second, difference, differences }
}

/// Both sequences merged: each stage once, in an order that keeps both.
fn pairs<'a>(first: &'a [Stage], second: &'a [Stage]) -> Vec<(Option<&'a Stage>, Option<&'a Stage>)> {
    let mut pairs = Vec::new();
    let mut rest = second;
    for stage in first {
        match rest.iter().position(|other| other.name == stage.name) {
            Some(at) => {
                pairs.extend(rest[..at].iter().map(|other| (None, Some(other))));
                pairs.push((Some(stage), Some(&rest[at])));
                rest = &rest[at + 1..];
            }
            None => pairs.push((Some(stage), None)),
        }
    }
    pairs.extend(rest.iter().map(|other| (None, Some(other))));
    pairs
}
