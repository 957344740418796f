//! The output of `hairpin sweep --list`, and of `--show` in a form that is asked for.

use hairpin_record::published::{Claim, Claims};
use serde::Serialize;

use crate::cell::Cell;
use crate::doc::{Column, Data, Doc, Show, Table};
use crate::options::Options;

/// Plans of a sweep.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Plans {
    schema: &'static str,
    plans: Vec<PlanRow>,
}

impl Plans {
    /// Keeps the given order.
    pub fn new(plans: Vec<PlanRow>) -> Plans {
        Plans { schema: "hairpin.sweep-plans/1", plans }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PlanRow {
    pub name: String,
    /// The subject in one line.
    pub title: String,
    /// A link on this host, if the plan names one.
    pub link: Option<String>,
    /// Duration of the whole experiment.
    pub duration: Option<String>,
    /// The path spec, with `{NAME}` for a factor's level.
    pub path: String,
    pub factors: Vec<PlanFactor>,
    /// The published comparison that the plan repeats, if its figures are not at hand.
    pub published: Option<&'static Claims>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PlanFactor {
    pub name: String,
    pub levels: Vec<String>,
}

impl PlanRow {
    /// `wait=spin,block payload=64,1024`
    fn factors(&self) -> String {
        let factor = |factor: &PlanFactor| format!("{}={}", factor.name, factor.levels.join(","));
        self.factors.iter().map(factor).collect::<Vec<_>>().join(" ")
    }
}

impl Show for Plans {
    fn doc(&self, _: &Options) -> Doc {
        let row = |plan: &PlanRow| -> [Cell; 6] {
            [
                (&plan.name).into(),
                (&plan.title).into(),
                plan.link.as_ref().into(),
                plan.duration.as_ref().into(),
                (&plan.path).into(),
                plan.factors().into(),
            ]
        };
        let mut columns = vec![Column::words("plan"), Column::prose("what it measures")];
        columns.extend(["link", "duration", "path", "factors"].map(Column::page));
        let mut doc = Doc::default();
        doc.table(Table::new(columns, 1, self.plans.iter().map(|plan| row(plan).to_vec())));
        for plan in &self.plans {
            if let Some(published) = plan.published {
                claims(&mut doc, &plan.name, published);
            }
        }
        doc.data = Some(Data::table("name title link duration path factors", self.plans.iter().map(row)));
        doc
    }
}

fn claims(doc: &mut Doc, plan: &str, published: &Claims) {
    doc.gap();
    doc.lead(format!("{plan}: "), format!("repeats {}", published.source));
    doc.lead("conditions ", published.conditions);
    doc.gap();
    let row = |claim: &Claim| -> Vec<Cell> { vec![claim.claim.into(), claim.class.to_string().into()] };
    doc.table(Table::new(["claim", "class"].map(Column::words).to_vec(), 1, published.claims.iter().map(row)));
}
