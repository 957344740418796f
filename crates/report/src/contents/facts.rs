//! Facts of the hosts side by side, differing ones first.

use std::collections::{BTreeMap, BTreeSet};

use hairpin_record::run::HostFacts;
use hairpin_units::{Arrange, Gather};
use serde_json::Value;

use crate::prose::clean;
use crate::view::{Fact, Input};

/// The fact that comes first, whether it differs or not.
const FIRST: &str = "hostname";

/// The heading of a column, and the facts in it.
type Column<'g> = (String, &'g HostFacts);

/// The hosts, and every fact that at least one of them has. Hosts with identical facts share a column, headed
/// by all their names.
pub(super) fn facts(given: &[Input]) -> (Vec<String>, Vec<Fact>) {
    let columns = columns(given);
    let texts: Vec<BTreeMap<String, String>> = columns.iter().map(|(_, host)| texts(host)).collect();
    let names: BTreeSet<&String> = texts.iter().flat_map(BTreeMap::keys).gather();
    let mut facts: Vec<Fact> = names
        .into_iter()
        .map(|name| {
            let values: Vec<Option<String>> = texts.iter().map(|texts| texts.get(name).cloned()).collect();
            let mut there = values.iter().flatten();
            let first = there.next();
            Fact { name: name.clone(), differs: there.any(|value| Some(value) != first), values }
        })
        .collect();
    facts.arrange_by_key(|fact| (fact.name != FIRST, !fact.differs));
    (columns.into_iter().map(|(name, _)| name).collect(), facts)
}

fn columns(given: &[Input]) -> Vec<Column<'_>> {
    let mut all: Vec<Column<'_>> = Vec::new();
    for (at, given) in given.iter().enumerate() {
        let server = given.record.place().and_then(|place| place.hosts.server.as_ref());
        let sides = [("client", given.record.host()), ("server", server)];
        for (side, host) in sides.into_iter().filter_map(|(side, host)| Some((format!("{side} of {}", at + 1), host?))) {
            match all.iter_mut().find(|(_, known)| alike(known, host)) {
                Some((name, _)) => *name = format!("{name}, {side}"),
                None => all.push((side, host)),
            }
        }
    }
    all
}

fn alike(one: &HostFacts, other: &HostFacts) -> bool {
    one.hostname == other.hostname && one.facts == other.facts
}

fn texts(host: &HostFacts) -> BTreeMap<String, String> {
    let facts = host.facts.iter().map(|(name, fact)| (clean(name), clean(&words(fact))));
    std::iter::once((FIRST.into(), clean(&host.hostname))).chain(facts).gather()
}

/// A fact without JSON's quotes.
fn words(fact: &Value) -> String {
    match fact {
        Value::String(text) if text.is_empty() => "\"\"".into(),
        Value::String(text) => text.clone(),
        Value::Array(all) if all.is_empty() => "none".into(),
        Value::Array(all) => all.iter().map(words).collect::<Vec<_>>().join(", "),
        Value::Object(all) => {
            let parts = all.iter().map(|(name, fact)| format!("{name}: {}", words(fact)));
            format!("{{{}}}", parts.collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}
