//! The place of a measurement in words.

use hairpin_record::head::Place;
use hairpin_record::place::GroupFacts;
use hairpin_record::run::Link;

/// Link, hosts and clock.
pub(crate) fn between(Place { hosts, link, clock }: &Place) -> Vec<String> {
    let mut parts = link_words(link);
    let server = hosts.server.as_ref().map_or("a server that tells nothing of itself", |host| host.hostname.as_str());
    parts.push(format!("{} -> {server}", hosts.client.hostname));
    parts.push(format!("clock {}, {:.1} ns of every RTT", clock.source, clock.cost_ns));
    parts
}

/// Link and hosts, as far as known.
pub(crate) fn over(Place { hosts, link, .. }: &Place) -> Vec<String> {
    let server = hosts.server.as_ref().map(|host| format!(" -> {}", host.hostname));
    let mut parts = link_words(link);
    parts.push(format!("{}{}", hosts.client.hostname, server.unwrap_or_default()));
    parts
}

/// Kind, interface and peer; MTU; options.
pub(crate) fn link_words(link: &Link) -> Vec<String> {
    let interface = link.interface.as_ref().map_or(String::new(), |name| format!(" {name}"));
    let peer = link.peer.as_ref().map_or(String::new(), |peer| format!(" to {peer}"));
    let mut parts = vec![format!("{}{interface}{peer}", link.kind)];
    parts.extend(link.mtu.map(|mtu| format!("MTU {mtu}")));
    parts.extend(link.options.iter().map(|(name, value)| format!("{name}={value}")));
    parts.extend(link.group.iter().map(group));
    parts
}

/// `group 239.255.0.1:24446, 3 responders of 4 expected`.
fn group(group: &GroupFacts) -> String {
    let GroupFacts { address, responders, expected } = group;
    let known = match expected {
        None => " found".to_owned(),
        Some(expected) if expected == responders => String::new(),
        Some(expected) => format!(", {expected} expected"),
    };
    format!("group {address}, {responders} responders{known}")
}
