//! The differences of a host from the others: facts of which most of the others have another value.

use std::collections::BTreeMap;

use hairpin_record::mesh::MeshBody;
use hairpin_tune::knob;
use hairpin_units::Arrange;
use serde_json::Value;

/// Most differences that are named.
const NAMED: usize = 3;
/// The fewest other hosts with which a host is compared.
const LEAST_OTHERS: usize = 2;
/// Facts that name a host or follow from another one.
const OWN: [&str; 4] = ["interface", "ip_local_port_range", "kernel_command_line", "kernel_version"];

/// The differences of a rank's host from the hosts of the ranks that are not `slow`, the setting with the most at stake first
/// (hairpin tune check), then those without a known stake. A difference is not a proven cause.
#[must_use]
pub fn differences(body: &MeshBody, rank: u32, slow: &[u32]) -> Vec<String> {
    let Some(own) = body.ranks.iter().find(|known| known.rank == rank) else { return Vec::new() };
    let others: Vec<_> = body.ranks.iter().filter(|known| known.rank != rank && !slow.contains(&known.rank)).collect();
    let is_found_here = |name: &str| {
        let elsewhere = others.iter().filter(|other| other.findings.iter().any(|found| found == name)).count();
        own.findings.iter().any(|found| found == name) && 2 * elsewhere < others.len()
    };
    let differs = |(name, value): (&String, &Value)| {
        let mine = word(value)?;
        let mut said: BTreeMap<String, usize> = BTreeMap::new();
        let known = others.iter().filter_map(|other| word(other.facts.facts.get(name)?));
        known.for_each(|value| *said.entry(value).or_default() += 1);
        let (usual, count) = said.into_iter().max_by_key(|(_, count)| *count)?;
        let is_usual = others.len() >= LEAST_OTHERS && 2 * count > others.len();
        let who = if count == others.len() { "the others" } else { "most others" };
        let finding = if is_found_here(name) { format!("; {}", finding(name)) } else { String::new() };
        (is_usual && usual != mine && !OWN.contains(&name.as_str()))
            .then(|| (name.clone(), format!("{name} is {mine} ({usual} on {who}{finding})")))
    };
    let mut found: Vec<(String, String)> = own.facts.facts.iter().filter_map(differs).collect();
    // Settings whose value is not one word, or not a fact.
    let unsaid: Vec<&String> =
        own.findings.iter().filter(|name| is_found_here(name) && found.iter().all(|(known, _)| known != *name)).collect();
    if others.len() >= LEAST_OTHERS {
        found.extend(
            unsaid.into_iter().map(|name| (name.clone(), format!("{name} is {}, and not on most others", finding(name)))),
        );
    }
    found.arrange_by_key(|(name, _)| std::cmp::Reverse(stake_ns(name)));
    found.into_iter().take(NAMED).map(|(_, text)| text).collect()
}

/// The cost of a wrong value of a setting in every round trip, in ns, as an order of magnitude; 0: it is in the tail only, or not
/// known.
fn stake_ns(name: &str) -> u64 {
    knob(name).and_then(|knob| knob.change.as_ref()).map_or(0, |change| change.stake_ns)
}

fn finding(name: &str) -> String {
    match stake_ns(name) {
        0 => "a finding of tune check".into(),
        ns => format!("a finding of tune check, about {} us", ns as f64 / 1e3),
    }
}

/// A value as one word; `None` for lists and tables.
fn word(value: &Value) -> Option<String> {
    match value {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(is) => Some(if *is { "on" } else { "off" }.into()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use hairpin_record::mesh::Rank;
    use serde_json::json;

    use super::*;

    #[test]
    fn findings_of_tune_check_on_this_host_alone_are_named() {
        let usual: &[(&str, Value)] = &[("timer_migration", json!(0)), ("gro", json!(true))];
        let odd: &[(&str, Value)] = &[("timer_migration", json!(1)), ("gro", json!(false))];
        let mut body = mesh(&[usual, odd, usual, usual]);
        let findings = |names: &[&str]| names.iter().map(ToString::to_string).collect();
        for (rank, names) in [(0, &["swappiness"][..]), (1, &["swappiness", "timer_migration", "rx_usecs"]), (2, &["swappiness"])]
        {
            body.ranks[rank].findings = findings(names);
        }
        assert_eq!(
            differences(&body, 1, &[1]),
            [
                "rx_usecs is a finding of tune check, about 20 us, and not on most others",
                "gro is off (on on the others)",
                "timer_migration is 1 (0 on the others; a finding of tune check)"
            ]
        );
        // Half of the others have it too.
        body.ranks[3].findings = findings(&["timer_migration", "rx_usecs"]);
        body.ranks[2].findings = findings(&["swappiness", "timer_migration", "rx_usecs"]);
        assert!(differences(&body, 1, &[1]).iter().all(|said| !said.contains("tune check")), "{:?}", differences(&body, 1, &[1]));
    }

    fn mesh(facts: &[&[(&str, Value)]]) -> MeshBody {
        let rank = |(rank, facts): (usize, &&[(&str, Value)])| {
            let mut known = Rank { rank: rank as u32, ..Rank::default() };
            known.facts.facts = facts.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
            known
        };
        MeshBody { ranks: facts.iter().enumerate().map(rank).collect(), ..MeshBody::default() }
    }

    #[test]
    fn differences_come_by_their_stake_and_at_most_three() {
        let usual = [
            ("gro", json!(true)),
            ("kernel_release", json!("6.12")),
            ("cpu_dma_latency_us", json!(0)),
            ("qdisc", json!("fq")),
            ("interface", json!("eth0")),
            ("idle_states", json!([1])),
        ];
        let odd = [
            ("gro", json!(false)),
            ("kernel_release", json!("6.1")),
            ("cpu_dma_latency_us", json!(2_000_000_000)),
            ("qdisc", json!("htb")),
            ("interface", json!("eth1")),
            ("idle_states", json!([2])),
        ];
        let found = differences(&mesh(&[&usual, &usual, &odd, &usual]), 2, &[2]);
        assert_eq!(found.len(), 3, "{found:?}");
        assert_eq!(found[0], "cpu_dma_latency_us is 2000000000 (0 on the others)");
        assert!(found[1] == "gro is off (on on the others)" || found[1].starts_with("qdisc"), "{found:?}");
    }

    #[test]
    fn one_other_host_or_a_draw_shows_nothing_and_slow_hosts_are_not_compared() {
        let of = |value: u32| [("rps_flow_count", json!(value))];
        assert!(differences(&mesh(&[&of(1), &of(0)]), 0, &[]).is_empty());
        assert!(differences(&mesh(&[&of(1), &of(0), &of(2)]), 0, &[]).is_empty());
        assert_eq!(differences(&mesh(&[&of(1), &of(0), &of(0), &of(1)]), 0, &[]), ["rps_flow_count is 1 (0 on most others)"]);
        assert!(differences(&mesh(&[&of(1), &of(0), &of(0)]), 0, &[1]).is_empty());
        assert!(differences(&mesh(&[&of(1), &of(1), &of(1)]), 0, &[]).is_empty());
        assert!(differences(&mesh(&[]), 0, &[]).is_empty());
        assert!(differences(&mesh(&[&of(1), &of(0), &of(0), &[], &[]]), 0, &[]).is_empty(), "two of four are not most");
    }
}
