//! Every fact of this host that a standard tool also knows, compared with that tool: uname, lscpu, sysctl, ip, ethtool.
//!
//! Interfaces are only asked about: loopback, and the first interface with a device behind it.

use std::collections::BTreeMap;
use std::env;
use std::process::Command;

use hairpin_record::run::HostFacts;
use hairpin_sys::host::{Host, RealHost};
use hairpin_tune::{Place, facts};
use serde_json::Value;

use crate::alone::{Ended, Part, Test};

/// Reason for a test that did not pass.
enum Trouble {
    /// It cannot run here.
    Skip(String),
    /// A fact and its second source differ, or something is missing.
    Fail(String),
}

type Outcome<T = ()> = Result<T, Trouble>;

const TESTS: &[Source] = &[
    ("uname", uname),
    ("lscpu", lscpu),
    ("lscpu_extended", lscpu_extended),
    ("sysctl", sysctl),
    ("ip_link", ip_link),
    ("ethtool_driver", ethtool_driver),
    ("ethtool_features", ethtool_features),
    ("ethtool_rings", ethtool_rings),
    ("ethtool_coalesce", ethtool_coalesce),
];

type Source = (&'static str, fn() -> Outcome);

pub const PART: Part = Part::new("second_source", || TESTS.iter().map(|(name, test)| Test::new(*name, |_| test())).collect());

impl From<Outcome> for Ended {
    fn from(outcome: Outcome) -> Ended {
        match outcome {
            Ok(()) => Ended::Passed,
            Err(Trouble::Skip(why)) => Ended::Skipped(Some(why)),
            Err(Trouble::Fail(why)) => Ended::Failed(why),
        }
    }
}

/// Output of a tool; `None` if it ran and refused.
fn tool(name: &str, arguments: &[&str]) -> Outcome<Option<String>> {
    // Outside root's search path on some distributions.
    let path = format!("{}:/usr/sbin:/sbin", env::var("PATH").unwrap_or_default());
    match Command::new(name).args(arguments).env("PATH", path).env("LC_ALL", "C").output() {
        Ok(output) => Ok(output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())),
        Err(why) => Err(Trouble::Skip(format!("cannot run {name}: {why}"))),
    }
}

fn json(name: &str, arguments: &[&str]) -> Outcome<Value> {
    let text = tool(name, arguments)?.ok_or_else(|| Trouble::Fail(format!("{name} {arguments:?} failed")))?;
    serde_json::from_str(&text).map_err(|why| Trouble::Fail(format!("{name} {arguments:?} printed no JSON: {why}")))
}

fn same<A: PartialEq<B> + std::fmt::Debug, B: std::fmt::Debug>(fact: &str, ours: A, theirs: B) -> Outcome {
    if ours == theirs { Ok(()) } else { Err(Trouble::Fail(format!("{fact} is {ours:?}, but the tool says {theirs:?}"))) }
}

fn read(place: &Place<'_>) -> HostFacts {
    facts(&RealHost, place)
}

/// A fact as text; strings without their quotation marks.
fn text(facts: &HostFacts, name: &str) -> Option<String> {
    facts.facts.get(name).map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned))
}

/// Loopback, and the first interface with a device behind it.
fn interfaces() -> Vec<String> {
    let all = RealHost.list("/sys/class/net").unwrap_or_default();
    let device = all.iter().find(|name| RealHost.exists(&format!("/sys/class/net/{name}/device"))).cloned();
    all.iter().filter(|name| *name == "lo").cloned().chain(device).collect()
}

fn uname() -> Outcome {
    let facts = read(&Place::default());
    for (fact, ours, flag) in [
        ("kernel_release", text(&facts, "kernel_release"), "-r"),
        ("kernel_version", text(&facts, "kernel_version"), "-v"),
        ("hostname", Some(facts.hostname.clone()), "-n"),
    ] {
        same(fact, ours, tool("uname", &[flag])?.map(|text| text.trim().to_owned()))?;
    }
    Ok(())
}

/// The fields of lscpu at any depth: newer versions nest them.
fn lscpu_fields(value: &Value, fields: &mut BTreeMap<String, String>) {
    for item in value.as_array().into_iter().flatten() {
        if let (Some(field), Some(data)) = (item["field"].as_str(), item["data"].as_str()) {
            fields.insert(field.trim_end_matches(':').to_owned(), data.to_owned());
        }
        lscpu_fields(&item["children"], fields);
    }
}

/// CPUs one by one: `0,1` and `0-1` are the same list.
fn spread(list: &str) -> Vec<u32> {
    let number = |text: &str| text.parse::<u32>().unwrap_or(u32::MAX);
    list.split(',')
        .filter(|part| !part.is_empty())
        .flat_map(|part| match part.split_once('-') {
            Some((first, last)) => (number(first)..=number(last)).collect(),
            None => vec![number(part)],
        })
        .collect()
}

fn lscpu() -> Outcome {
    let facts = read(&Place::default());
    let mut fields = BTreeMap::new();
    lscpu_fields(&json("lscpu", &["-J"])?["lscpu"], &mut fields);
    if let Some(model) = text(&facts, "cpu_model") {
        same("cpu_model", Some(&model), fields.get("Model name"))?;
    }
    same(
        "online_cpus",
        text(&facts, "online_cpus").map(|list| spread(&list)),
        fields.get("On-line CPU(s) list").map(|l| spread(l)),
    )?;
    if let Some(nodes) = text(&facts, "numa_nodes") {
        same("numa_nodes", Some(spread(&nodes).len().to_string()), fields.get("NUMA node(s)").cloned())?;
    }
    if let Some(hypervisor) = text(&facts, "hypervisor") {
        let vendor = fields.get("Hypervisor vendor");
        same("hypervisor", hypervisor != "none", vendor.is_some())?;
        if hypervisor == "KVM" {
            same("hypervisor", Some(&hypervisor), vendor)?;
        }
    }
    let Some(mitigations) = facts.facts.get("mitigations").and_then(Value::as_object) else {
        return Ok(());
    };
    // lscpu writes "Vulnerability Spectre v2" and turns colons into semicolons or leaves them out.
    let bare = |text: &str| text.replace([':', ';', ','], "");
    let theirs: BTreeMap<String, String> = fields
        .iter()
        .filter_map(|(field, state)| Some((field.strip_prefix("Vulnerability ")?, state)))
        .filter(|(_, state)| *state != "Not affected")
        .map(|(name, state)| (name.to_lowercase().replace(' ', "_"), bare(state)))
        .collect();
    let ours: BTreeMap<String, String> =
        mitigations.iter().map(|(name, state)| (name.clone(), bare(state.as_str().unwrap_or_default()))).collect();
    same("mitigations", ours, theirs)
}

fn lscpu_extended() -> Outcome {
    let all = text(&read(&Place::default()), "online_cpus").map(|list| spread(&list)).unwrap_or_default();
    let facts = read(&Place { cpus: &all, interface: None });
    let Some(ours) = facts.facts.get("cores_used").and_then(Value::as_array) else {
        return Err(Trouble::Skip("this kernel does not tell where its CPUs lie".to_owned()));
    };
    let theirs = json("lscpu", &["-J", "--extended=CPU,NODE,SOCKET,CORE"])?;
    let theirs = theirs["cpus"].as_array().cloned().unwrap_or_default();
    same("cores_used", ours.len(), theirs.len())?;
    // Some versions print numbers, some text.
    let number = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let place = |core: &Value, package: &str, core_field: &str| (number(&core[package]), number(&core[core_field]));
    for (one, theirs_one) in ours.iter().zip(&theirs) {
        same("cores_used: cpu", number(&one["cpu"]), number(&theirs_one["cpu"]))?;
        if !one["numa_node"].is_null() {
            same("cores_used: numa_node", number(&one["numa_node"]), number(&theirs_one["node"]))?;
        }
        // lscpu numbers cores and packages anew: only the groups of CPUs that share them must agree.
        for (two, theirs_two) in ours.iter().zip(&theirs) {
            let us = (one["package"] == two["package"], place(one, "package", "core") == place(two, "package", "core"));
            let them = (
                theirs_one["socket"] == theirs_two["socket"],
                place(theirs_one, "socket", "core") == place(theirs_two, "socket", "core"),
            );
            same(&format!("cores_used: CPUs {} and {} in one package, one core", one["cpu"], two["cpu"]), us, them)?;
        }
    }
    Ok(())
}

fn sysctl() -> Outcome {
    let facts = read(&Place::default());
    for (fact, key) in [
        ("sched_rt_runtime_us", "kernel.sched_rt_runtime_us"),
        ("sched_rt_period_us", "kernel.sched_rt_period_us"),
        ("numa_balancing", "kernel.numa_balancing"),
        ("busy_poll_us", "net.core.busy_poll"),
        ("busy_read_us", "net.core.busy_read"),
        ("rmem_default_bytes", "net.core.rmem_default"),
        ("rmem_max_bytes", "net.core.rmem_max"),
        ("wmem_default_bytes", "net.core.wmem_default"),
        ("wmem_max_bytes", "net.core.wmem_max"),
        ("netdev_budget", "net.core.netdev_budget"),
        ("netdev_budget_usecs", "net.core.netdev_budget_usecs"),
        ("gro_normal_batch", "net.core.gro_normal_batch"),
        ("rps_sock_flow_entries", "net.core.rps_sock_flow_entries"),
        ("default_qdisc", "net.core.default_qdisc"),
        ("somaxconn", "net.core.somaxconn"),
        ("ip_local_port_range", "net.ipv4.ip_local_port_range"),
        ("tcp_congestion_control", "net.ipv4.tcp_congestion_control"),
        ("tcp_timestamps", "net.ipv4.tcp_timestamps"),
        ("tcp_sack", "net.ipv4.tcp_sack"),
        ("tcp_autocorking", "net.ipv4.tcp_autocorking"),
        ("tcp_slow_start_after_idle", "net.ipv4.tcp_slow_start_after_idle"),
        ("tcp_low_latency", "net.ipv4.tcp_low_latency"),
        ("tcp_pingpong_thresh", "net.ipv4.tcp_pingpong_thresh"),
        ("tcp_rmem_bytes", "net.ipv4.tcp_rmem"),
        ("tcp_wmem_bytes", "net.ipv4.tcp_wmem"),
        ("tcp_tw_reuse", "net.ipv4.tcp_tw_reuse"),
    ] {
        let theirs = tool("sysctl", &["-n", key])?.map(|text| text.split_whitespace().collect::<Vec<_>>().join(" "));
        let ours = text(&facts, fact).map(|value| value.trim_matches(['[', ']']).replace(',', " "));
        if facts.unread.contains_key(fact) {
            same(fact, theirs, None::<String>)?; // refused to both
        } else {
            same(fact, ours, theirs)?;
        }
    }
    Ok(())
}

fn ip_link() -> Outcome {
    for interface in interfaces() {
        let facts = read(&Place { cpus: &[], interface: Some(&interface) });
        let theirs = json("ip", &["-j", "-d", "link", "show", "dev", &interface])?;
        for (fact, field) in [("interface", "ifname"), ("mtu_bytes", "mtu"), ("tx_queue_len", "txqlen")] {
            same(&format!("{interface}: {fact}"), facts.facts.get(fact), Some(&theirs[0][field]))?;
        }
        // ip shows how many queues were allocated, sysfs how many of them are in use.
        for (fact, field) in [("rx_queues", "num_rx_queues"), ("tx_queues", "num_tx_queues")] {
            let (ours, allocated) = (facts.facts.get(fact).and_then(Value::as_u64), theirs[0][field].as_u64());
            let fits = if interface == "lo" { ours == allocated } else { ours.is_some() && ours <= allocated };
            same(&format!("{interface}: {fact} {ours:?} of {allocated:?}"), fits, true)?;
        }
    }
    Ok(())
}

/// The lines `name: value` that ethtool prints, after the line `after` if one is given.
fn ethtool(option: &str, interface: &str, after: Option<&str>) -> Outcome<Option<BTreeMap<String, String>>> {
    let Some(text) = tool("ethtool", &[option, interface])? else {
        return Ok(None);
    };
    let body = after.and_then(|heading| text.split_once(heading)).map_or(text.as_str(), |(_, body)| body);
    let pairs = body.lines().filter_map(|line| line.split_once(':'));
    Ok(Some(pairs.map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned())).collect()))
}

/// Holds facts against fields of ethtool; where ethtool has nothing, neither may we.
fn against_ethtool(option: &str, after: Option<&str>, facts_and_fields: &[(&str, &str)]) -> Outcome {
    for interface in interfaces() {
        let facts = read(&Place { cpus: &[], interface: Some(&interface) });
        let theirs = ethtool(option, &interface, after)?;
        for &(fact, field) in facts_and_fields {
            let what = format!("{interface}: {fact}");
            let ours = match facts.facts.get(fact) {
                Some(Value::Bool(on)) => Some(if *on { "on" } else { "off" }.to_owned()),
                _ => text(&facts, fact),
            };
            let Some(fields) = &theirs else {
                same(&what, ours, None::<String>)?;
                continue;
            };
            match fields.get(field).map(|value| value.trim_end_matches(" [fixed]").trim()) {
                // The ioctl has no word for "n/a" but 0 and off.
                Some("n/a") => same(&what, matches!(ours.as_deref(), None | Some("0" | "off")), true)?,
                Some("") | None => same(&what, ours, None::<String>)?,
                Some(value) => same(&what, ours.as_deref(), Some(value))?,
            }
        }
    }
    Ok(())
}

fn ethtool_driver() -> Outcome {
    against_ethtool("-i", None, &[("driver", "driver"), ("driver_version", "version"), ("firmware_version", "firmware-version")])
}

fn ethtool_features() -> Outcome {
    against_ethtool(
        "-k",
        None,
        &[
            ("gro", "generic-receive-offload"),
            ("gso", "generic-segmentation-offload"),
            ("tso", "tcp-segmentation-offload"),
            ("lro", "large-receive-offload"),
            ("scatter_gather", "scatter-gather"),
            ("rx_checksum", "rx-checksumming"),
            ("tx_checksum", "tx-checksumming"),
        ],
    )
}

fn ethtool_rings() -> Outcome {
    against_ethtool("-g", Some("Current hardware settings:"), &[("rx_ring_entries", "RX"), ("tx_ring_entries", "TX")])
}

fn ethtool_coalesce() -> Outcome {
    let fields = [("rx_usecs", "rx-usecs"), ("rx_frames", "rx-frames"), ("tx_usecs", "tx-usecs"), ("tx_frames", "tx-frames")];
    against_ethtool("-c", None, &fields)?;
    // One line for both: `Adaptive RX: off  TX: n/a`.
    for interface in interfaces() {
        let facts = read(&Place { cpus: &[], interface: Some(&interface) }).facts;
        let line = ethtool("-c", &interface, None)?.and_then(|fields| fields.get("Adaptive RX").cloned());
        let ours = |fact: &str| facts.get(fact).and_then(Value::as_bool);
        let said = |text: &str| (text.trim() != "n/a").then(|| text.trim() == "on");
        let theirs = line.as_ref().and_then(|line| line.split_once("TX:")).map_or((None, None), |(rx, tx)| (said(rx), said(tx)));
        same(&format!("{interface}: adaptive_rx, adaptive_tx"), (ours("adaptive_rx"), ours("adaptive_tx")), theirs)?;
    }
    Ok(())
}
