//! The view as the page reads it: with the words and lines that the other formats have, so that the page computes neither.
//!
//! ```text
//!   apart                                      the meaning of the mark on a row of another core state
//!   curves[].fit_said, fit_lines               the fit in sentences, and its points in bytes and ns
//!   breakdowns[].headline, measured            the conditions, and the measured pieces of the budget's bar
//!   loads[].split_said, split_scale_ns         the stamps of its rates, and the whole that their bars are drawn in
//!   comparisons[].meaning                      the meaning of the intervals
//! ```

use serde_json::{Value, json};

use super::{split, words};
use crate::view::{Breakdown, Comparison, Curve, LoadCurve, View};
use crate::{budget, fit};

pub(crate) fn told(view: &View) -> Value {
    // By way of its text: serde_json::to_value would be compiled for every type in the view.
    let mut page: Value = serde_json::from_str(&crate::json_line(view)).expect("what was written is read");
    page["apart"] = words::APART.into();
    add(&mut page["curves"], &view.curves, curve);
    add(&mut page["breakdowns"], &view.breakdowns, breakdown);
    add(&mut page["comparisons"], &view.comparisons, comparison);
    add(&mut page["loads"], &view.loads, load);
    page
}

fn add<T, const N: usize>(values: &mut Value, all: &[T], fields: impl Fn(&T) -> [(&'static str, Value); N]) {
    for (value, of) in values.as_array_mut().into_iter().flatten().zip(all) {
        fields(of).into_iter().for_each(|(name, field)| value[name] = field);
    }
}

fn curve(curve: &Curve) -> [(&'static str, Value); 2] {
    let fit = curve.fit.as_ref();
    [
        ("fit_said", json!(fit.map(fit::sentences).unwrap_or_default())),
        ("fit_lines", json!(fit.map(fit::points).unwrap_or_default())),
    ]
}

fn breakdown(of: &Breakdown) -> [(&'static str, Value); 2] {
    [("headline", words::headline(of).into()), ("measured", json!(budget::measured(of)))]
}

fn comparison(of: &Comparison) -> [(&'static str, Value); 1] {
    [("meaning", words::meaning(of).into())]
}

fn load(of: &LoadCurve) -> [(&'static str, Value); 2] {
    [("split_said", json!(split::said(of))), ("split_scale_ns", json!(split::scale(of)))]
}
