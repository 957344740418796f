//! Three sentences derived from a demo's rows: the fastest path, the cost of blocking, the cost of a low rate.
//!
//! A sentence without rows says so. None of them uses the words of a comparison's verdict: a single pass over
//! a handful of rows shows a difference but does not prove it.

use hairpin_plan::path::Speaks;
use hairpin_plan::paths::{PACED, PLAIN, by_name, sides};
use hairpin_record::core_states::Apart;
use hairpin_record::run::{HostFacts, Origin, Row};
use hairpin_units::{Nanos, Quantile};
use serde_json::Value;

use crate::figure::{pace, ratio};
use crate::label;

/// A row, the link it ran over, its hosts and the client it ran on.
pub(crate) struct Entry<'a> {
    pub(crate) row: &'a Row,
    pub(crate) link: &'a str,
    pub(crate) hosts: (&'a str, Option<&'a str>),
    pub(crate) client: &'a HostFacts,
    /// Why it is not comparable with the others, if so.
    pub(crate) apart: Option<Apart>,
}

/// The rates whose cost is reported, in 1/s.
const RATES: [f64; 2] = [10.0, 1000.0];

/// A path spec with the same settings on both sides.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Plain<'a> {
    name: &'a str,
    policy: &'a str,
}

impl<'a> Plain<'a> {
    /// `None` if the sides differ or an option is set.
    fn of(path: &'a str) -> Option<Plain<'a>> {
        let (client, server) = path.split_once('/').unwrap_or((path, path));
        let (client, server) = (Plain::side(client)?, Plain::side(server)?);
        (client == server).then_some(client)
    }

    fn side(side: &'a str) -> Option<Plain<'a>> {
        let (name, policy) = side.split_once(':').map_or((side, None), |(name, policy)| (name, Some(policy)));
        let path = by_name(name)?;
        let policy = policy.unwrap_or(path.policies[0].name());
        path.takes_policy(policy).then_some(Plain { name, policy })
    }
}

impl Entry<'_> {
    fn plain(&self) -> Option<Plain<'_>> {
        Plain::of(&self.row.path)
    }

    fn is(&self, name: &str, policy: &str) -> bool {
        self.plain() == Some(Plain { name, policy })
    }

    fn p50(&self) -> Option<Nanos> {
        self.row.rtt_ns.p50.map(Nanos)
    }

    fn flat_out(&self) -> bool {
        self.row.pace_per_s.is_none()
    }

    /// True for a row measured flat out, up to a group's last reply, with the cores in the state of most rows.
    fn ranked(&self) -> bool {
        self.flat_out() && self.apart.is_none() && label::is_of_all(self.row)
    }

    /// True if both ran over the same link between the same hosts.
    fn is_beside(&self, other: &Entry<'_>) -> bool {
        (self.link, self.hosts) == (other.link, other.hosts)
    }

    /// Threads, flows and requests in flight.
    fn work(&self) -> [u32; 3] {
        [self.row.threads, self.row.flows, self.row.outstanding]
    }

    fn label(&self, among: &[Entry<'_>]) -> String {
        format!("{} over {}", self.row_name(), self.over(among))
    }

    /// The link, with its hosts if entries of other hosts are among these.
    fn over(&self, among: &[Entry<'_>]) -> String {
        let (link, (client, server)) = (self.link, self.hosts);
        let over = match server {
            _ if among.iter().all(|other| other.hosts == self.hosts) => link.to_owned(),
            Some(server) if server == client => format!("{link} on {client}"),
            Some(server) => format!("{link} from {client} to {server}"),
            None => format!("{link} from {client}"),
        };
        crate::prose::clean(&over)
    }
}

pub(crate) fn sentences(entries: &[Entry<'_>]) -> [String; 3] {
    [fastest(entries), blocking(entries), low_rate(entries)]
}

/// The unpaced row with the lowest RTT p50, how the plain default compares, and the rows that are left out.
pub(crate) fn fastest(entries: &[Entry<'_>]) -> String {
    let told = first_of(entries);
    match left_out(entries) {
        Some(others) => format!("{told} {others}"),
        None => told,
    }
}

/// The rows measured in another state of the cores.
pub(crate) fn left_out(entries: &[Entry<'_>]) -> Option<String> {
    let apart = entries.iter().filter(|e| e.flat_out() && e.row.origin == Origin::Measured && e.apart.is_some());
    let mut names: Vec<String> = Vec::new();
    for entry in apart {
        let name = entry.label(entries);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    (!names.is_empty())
        .then(|| format!("Left out, since the two cores were at another distance then (core_rtt_ns): {}.", names.join(", ")))
}

fn first_of(entries: &[Entry<'_>]) -> String {
    let ran = || entries.iter().filter(|e| e.ranked() && e.row.origin == Origin::Measured && e.row.rtt_ns.p50.is_some());
    // Paths that work only within one host.
    let local = |e: &Entry<'_>| sides(&e.row.path)[0].is_some_and(|path| matches!(path.speaks, Speaks::Local(_)));
    let Some(best) = ran().min_by_key(|e| e.p50()) else {
        return "The fastest path is unknown: no row that ran flat out has an RTT p50.".into();
    };
    let told = |e: &Entry<'_>| {
        let p50 = e.p50().unwrap_or_default();
        let default = |of: &dyn Fn(&Entry<'_>) -> bool| {
            PLAIN.iter().find_map(|path| ran().find(|d| d.is(path.name, "block") && d.is_beside(e) && of(d)))
        };
        let against = match default(&|d| d.work() == e.work()) {
            Some(plain) if std::ptr::eq(plain, e) => "and is itself the plain default".into(),
            Some(plain) => {
                let takes = plain.p50().unwrap_or_default();
                let times = ratio(takes.0 as f64 / p50.0.max(1) as f64);
                format!("where the plain default, {}, takes {takes}, {times} times as long", plain.row_name())
            }
            None => {
                let any = default(&|_| true);
                let alike = any.map_or("", |_| " with as many threads, flows and requests in flight");
                format!("and the plain default (udp or tcp with block) was not measured over {}{alike}", e.over(entries))
            }
        };
        format!("{p50} RTT p50, {against}")
    };
    let first = format!("{} is fastest: {}", best.label(entries), told(best));
    if !local(best) {
        return first + ".";
    }
    match ran().filter(|e| !local(e)).min_by_key(|e| e.p50()) {
        Some(network) => {
            format!("{first}; of the paths that can leave the host it is {}: {}.", network.label(entries), told(network))
        }
        None => format!("{first}; no path that can leave the host was measured."),
    }
}

impl Entry<'_> {
    fn row_name(&self) -> String {
        let (path, reply) = (label::short(&self.row.path), label::reply(self.row));
        if reply.is_empty() { path } else { format!("{path} {reply}") }
    }
}

/// The cost of a side that sleeps against one that spins.
pub(crate) fn blocking(entries: &[Entry<'_>]) -> String {
    let ran = |e: &&Entry<'_>| e.ranked() && e.row.rtt_ns.p50.is_some();
    let blocks = || entries.iter().filter(ran).filter(|e| e.plain().is_some_and(|p| p.policy == "block"));
    let spinning = |block: &Entry<'_>| {
        entries.iter().filter(ran).find(|e| {
            let sizes = |row: &Row| (row.request_bytes, row.reply_bytes);
            let alike = e.work() == block.work() && sizes(e.row) == sizes(block.row);
            e.is_beside(block) && block.plain().is_some_and(|plain| e.is(plain.name, "spin")) && alike
        })
    };
    let rank = |e: &Entry<'_>| {
        PLAIN.iter().position(|path| e.plain().is_some_and(|plain| plain.name == path.name)).unwrap_or(PLAIN.len())
    };
    let pair = blocks().filter_map(|block| spinning(block).map(|spin| (block, spin))).min_by_key(|(block, _)| rank(block));
    let Some((block, spin)) = pair else {
        return "The cost of blocking is unknown: no path has an RTT p50 with block and with spin over one link.".into();
    };
    let (slow, fast) = (block.p50().unwrap_or_default(), spin.p50().unwrap_or_default());
    let name = block.plain().map_or("", |plain| plain.name);
    let over = block.over(entries);
    let figures = format!("RTT p50 {slow} with block, {fast} with spin");
    if slow <= fast {
        let crowded = spin.row.warnings.iter().any(|note| note.code == "shared-core");
        let why = if crowded {
            "both ends share a core, where one that spins keeps the other from running"
        } else {
            "no wake-up shows in it; see the warnings for what disturbed the spinning row"
        };
        return format!("Blocking costs nothing on {name} over {over} here ({figures}): {why}.");
    }
    let mut text = format!(
        "Blocking costs {} a round trip on {name} over {over} ({figures}): each side sleeps until an interrupt or the other core wakes it",
        Nanos(slow.0 - fast.0)
    );
    if block.row.transactions > 0 {
        let switches = block.row.cpu.client.switches_voluntary as f64 / block.row.transactions as f64;
        text.push_str(&format!(" ({switches:.2} voluntary switches per transaction on the client)"));
    }
    match idle(block.client) {
        Some(state) => text.push_str(&format!(", from an idle state as deep as {state}.")),
        None => text.push_str("; this host does not tell how deep its idle states are."),
    }
    text
}

/// The deepest idle state that the host's settings allow its cores, with its exit latency.
///
/// `idle_states` is a list of `{name, latency_us, disabled}`, or an object of such lists by CPU where the cores differ. A state
/// with an exit latency above [`HostFacts::longest_exit_us`] is not entered.
pub(crate) fn idle(host: &HostFacts) -> Option<String> {
    let states: Vec<&Value> = match host.facts.get("idle_states")? {
        Value::Array(states) => states.iter().collect(),
        Value::Object(cpus) => cpus.values().filter_map(Value::as_array).flatten().collect(),
        _ => return None,
    };
    let latency = |state: &Value| state.get("latency_us").and_then(Value::as_u64);
    let longest = host.longest_exit_us();
    let allowed = |state: &&Value| {
        let disabled = state.get("disabled").and_then(Value::as_bool).unwrap_or(false);
        !disabled && latency(state).is_some_and(|us| us <= longest)
    };
    let deepest = states.into_iter().filter(allowed).max_by_key(|state| latency(state))?;
    let name = crate::prose::clean(deepest.get("name")?.as_str()?);
    // In a virtual machine the guest's exit latency is not the real cost: the hypervisor runs others meanwhile.
    Some(if host.hypervisor().is_some() { name } else { format!("{name} ({} us to leave)", latency(deepest)?) })
}

/// The spec that a demo measures at low rates.
fn spec() -> String {
    format!("{}:block", PACED.name)
}

fn low_rate(entries: &[Entry<'_>]) -> String {
    let rows: Vec<&Entry<'_>> = entries.iter().filter(|e| e.is(PACED.name, "block")).collect();
    let mut links: Vec<&str> = rows.iter().filter(|e| !e.flat_out()).map(|e| e.link).collect();
    links.dedup();
    let mut why = None;
    for link in links {
        match rates(&rows, link) {
            Ok(text) => return text,
            Err(missing) => why = why.or(Some(missing)),
        }
    }
    let why = why.unwrap_or_else(|| format!("{} was not measured at 10/s and 1000/s", spec()));
    format!("The cost of a low rate is unknown: {why}.")
}

/// The sentence for one link, or the reason for its absence.
fn rates(rows: &[&Entry<'_>], link: &str) -> Result<String, String> {
    let (spec, over) = (spec(), crate::prose::clean(link));
    let at = |rate: Option<f64>| {
        let name = rate.map_or("flat out".into(), |rate| format!("at {}", pace(rate)));
        let row = rows.iter().find(|e| e.link == link && e.row.pace_per_s == rate);
        let row = row.ok_or_else(|| format!("{spec} over {over} was not measured {name}"))?;
        if row.apart.is_some() {
            return Err(format!("{spec} over {over} {name} was measured with the two cores in another state than most rows"));
        }
        row.p50().ok_or_else(|| {
            let needs = (1..).find(|n| Quantile::P50.is_supported_by(*n)).unwrap_or_default();
            format!("{spec} over {over} {name} has {} samples, and a p50 needs {needs}", row.row.rtt_ns.count)
        })
    };
    let (low, middle, flat) = (at(Some(RATES[0]))?, at(Some(RATES[1]))?, at(None)?);
    let figures = format!("{low} at {}, {middle} at {} and {flat} flat out", pace(RATES[0]), pace(RATES[1]));
    Ok(if low > flat {
        format!(
            "The low rate costs {}: a {spec} round trip over {over} takes {figures} (RTT p50). `hairpin explain` says where that time goes.",
            Nanos(low.0 - flat.0)
        )
    } else {
        format!("The low rate costs nothing here: a {spec} round trip over {over} takes {figures} (RTT p50).")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use hairpin_record::run::Quantiles;
    use serde_json::json;

    fn host(facts: &[(&str, Value)]) -> HostFacts {
        let facts = facts.iter().map(|(name, fact)| (name.to_string(), fact.clone())).collect();
        HostFacts { facts, ..HostFacts::default() }
    }

    #[test]
    fn a_path_without_a_policy_has_its_own_default() {
        let policy = |path: &'static str| Plain::of(path).map(|plain| plain.policy);
        assert_eq!(["udp", "niq", "memory/memory"].map(policy), ["block", "spin", "spin"].map(Some));
        assert_eq!(policy("later"), None);
    }

    #[test]
    fn rows_of_other_hosts_are_not_held_against_each_other() {
        let [block, spin] = [("udp:block/udp:block", 78_000), ("udp:spin/udp:spin", 5_000)].map(|(path, ns)| Row {
            path: path.into(),
            rtt_ns: Quantiles { p50: Some(ns), ..Quantiles::default() },
            ..Row::default()
        });
        let client = HostFacts::default();
        let of = |hosts: [&'static str; 2]| {
            let of_one = |(row, host)| Entry { row, link: "loopback", hosts: (host, Some(host)), client: &client, apart: None };
            [&block, &spin].into_iter().zip(hosts).map(of_one).collect::<Vec<_>>()
        };
        let (one, two) = (of(["a", "a"]), of(["a", "b"]));
        assert!(blocking(&one).starts_with("Blocking costs 73.00 us a round trip on udp over loopback ("), "{}", blocking(&one));
        assert!(blocking(&two).starts_with("The cost of blocking is unknown"), "{}", blocking(&two));
        assert_eq!(
            fastest(&one),
            "udp:spin over loopback is fastest: 5.000 us RTT p50, where the plain default, udp:block, takes 78.00 us, 15.6 times as long."
        );
        assert_eq!(
            fastest(&two),
            "udp:spin over loopback on b is fastest: 5.000 us RTT p50, and the plain default (udp or tcp with block) was not measured over \
             loopback on b."
        );
    }

    #[test]
    fn rows_of_other_work_are_not_held_against_each_other() {
        let row = |path: &str, flows: u32, ns: u64| Row {
            path: path.into(),
            flows,
            rtt_ns: Quantiles { p50: Some(ns), ..Quantiles::default() },
            ..Row::default()
        };
        let client = HostFacts::default();
        let rows = [row("udp:block/udp:block", 64, 900_000), row("udp:spin/udp:spin", 1, 5_000)];
        let of_one = |row| Entry { row, link: "loopback", hosts: ("a", Some("a")), client: &client, apart: None };
        let entries: Vec<Entry<'_>> = rows.iter().map(of_one).collect();
        assert!(blocking(&entries).starts_with("The cost of blocking is unknown"), "{}", blocking(&entries));
        let said = fastest(&entries);
        assert!(said.ends_with("over loopback with as many threads, flows and requests in flight."), "{said}");
    }

    #[test]
    fn the_deepest_state_is_one_that_is_allowed() {
        let state = |name: &str, us: u64, disabled: bool| json!({"name": name, "latency_us": us, "disabled": disabled});
        let states = json!([state("POLL", 0, false), state("C1", 2, false), state("C6", 133, false), state("C10", 890, true)]);
        let facts = |limit: u64| host(&[("idle_states", states.clone()), ("cpu_dma_latency_us", limit.into())]);
        assert_eq!(idle(&facts(2_000_000_000)).unwrap(), "C6 (133 us to leave)");
        assert_eq!(idle(&facts(10)).unwrap(), "C1 (2 us to leave)");
        assert_eq!(idle(&facts(0)).unwrap(), "POLL (0 us to leave)");
        let by_cpu = json!({"0": [state("C1", 2, false)], "1": [state("C3", 40, false)]});
        assert_eq!(idle(&host(&[("idle_states", by_cpu)])).unwrap(), "C3 (40 us to leave)");
        let guest = [("idle_states", json!([state("haltpoll idle", 1, false)])), ("hypervisor", json!("KVM"))];
        assert_eq!(idle(&host(&guest)).unwrap(), "haltpoll idle", "what a virtual machine says of the exit is not what it costs");
        let metal = [("idle_states", json!([state("C1", 2, false)])), ("hypervisor", json!("none"))];
        assert_eq!(idle(&host(&metal)).unwrap(), "C1 (2 us to leave)");
        assert_eq!(idle(&host(&[("idle_states", states), ("resume_latency_us", json!(10))])).unwrap(), "C1 (2 us to leave)");
        assert_eq!(idle(&host(&[("cpuidle_driver", "none".into())])), None);
    }
}
