//! The schemas `hairpin.tune-list/1`, `hairpin.tune-check/1`, `hairpin.tune-changes/1` and `hairpin.tune-status/1`: the settings
//! of a host, obstacles to low latency, and changes made.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::head::{Body, Label};

/// Every setting that moves round trips.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct List {
    /// Schema and tool.
    #[serde(flatten)]
    pub label: Label,
    /// By subject.
    pub knobs: Vec<KnobRow>,
}

impl Body for List {
    const SCHEMA: &'static str = "hairpin.tune-list/1";
}

/// One setting.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KnobRow {
    /// The fact's name in a record.
    pub name: String,
    /// What it is.
    pub summary: String,
    /// How it stands; `null` if this host has no such thing, or no interface was named, or it could not be read.
    pub now: Option<Value>,
    /// Why it could not be read.
    pub unread: Option<String>,
    /// How it is changed; `null` for what is only reported.
    pub change: Option<Settable>,
}

/// How a setting is changed, and what should be known before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Settable {
    /// What the kernel or the device does differently.
    pub mechanism: String,
    /// What is to be expected of it. From the references, not measured here.
    pub effect: String,
    /// What it costs.
    pub cost: String,
    /// What may go wrong.
    pub risk: String,
    /// What must be there.
    pub needs: String,
    /// Where it is described.
    pub reference: String,
    /// The values that it may have.
    pub values: String,
    /// True if it is put back at once and can neither cut the network nor stop a service.
    pub safe: bool,
    /// How long it lasts: `boot` (until the next boot), `process` (while a process holds it).
    pub lasts: String,
    /// Whether it belongs to an interface.
    pub of_interface: bool,
    /// The values of the profiles `latency`, `power` and `throughput`, where they have one.
    pub profiles: BTreeMap<String, String>,
}

/// What stands in the way on one host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TuneCheck {
    /// Schema and tool.
    #[serde(flatten)]
    pub label: Label,
    /// The host.
    pub hostname: String,
    /// The interface that was looked at, if one was named.
    pub interface: Option<String>,
    /// `latency`, `power` or `throughput`.
    pub profile: String,
    /// What could be better, the largest expected effect first.
    pub findings: Vec<Finding>,
    /// The settings that are as the profile wants them.
    pub fine: Vec<String>,
    /// What could not be read, with the reason.
    pub unread: BTreeMap<String, String>,
}

impl Body for TuneCheck {
    const SCHEMA: &'static str = "hairpin.tune-check/1";
}

/// Something that could be better.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// The setting or fact.
    pub name: String,
    /// How it stands, in words.
    pub now: String,
    /// How it should be.
    pub better: String,
    /// What is to be expected. From the references, not measured here.
    pub effect: String,
    /// How much of a blocking round trip with one request in flight is at stake, as an order of magnitude; 0 where it is seen in the tail or under
    /// load only.
    pub stake_ns: u64,
    /// What it costs.
    pub cost: String,
    /// The command that changes it, or for what is made at boot what to do.
    pub fix: String,
    /// Another way to the same end, if there is one.
    pub or: Option<String>,
    /// True if it is made at boot, and `fix` is no command.
    pub at_boot: bool,
}

/// What is to be changed, was changed or was put back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Changes {
    /// Schema and tool.
    #[serde(flatten)]
    pub label: Label,
    /// `plan`, `apply` or `revert`.
    pub action: String,
    /// Each value.
    pub changes: Vec<ChangeRow>,
    /// What else is to be said.
    pub notes: Vec<String>,
}

impl Body for Changes {
    const SCHEMA: &'static str = "hairpin.tune-changes/1";
}

/// One value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ChangeRow {
    /// The setting.
    pub knob: String,
    /// Where the value stands.
    pub place: String,
    /// What it was, or is, before.
    pub from: String,
    /// What it is to be.
    pub to: String,
    /// Where the place holds a mask of CPUs: `from` as a list such as `0-3,8`, or `none`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_cpus: Option<String>,
    /// Where the place holds a mask of CPUs: `to` as a list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_cpus: Option<String>,
    /// `planned`, `applied`, `refused`; `reverted`, `already`, `gone`, `booted`, `changed`, `elsewhere`, `failed`.
    pub outcome: String,
    /// What it is instead, or why.
    pub why: Option<String>,
}

/// What the journal says is changed now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Status {
    /// Schema and tool.
    #[serde(flatten)]
    pub label: Label,
    /// The journal's directory.
    pub journal: String,
    /// Who changes settings right now, if anybody does.
    pub holder: Option<String>,
    /// Entries, oldest first.
    pub entries: Vec<StatusEntry>,
}

impl Body for Status {
    const SCHEMA: &'static str = "hairpin.tune-status/1";
}

/// One entry of the journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StatusEntry {
    /// Its number.
    pub id: u32,
    /// `kept`, `running`, `orphaned` (its process was killed), `booted` (undone by a boot), `damaged`.
    pub state: String,
    /// When it was made, in UTC.
    pub started: String,
    /// The command that made it.
    pub command: Vec<String>,
    /// What it changed; `outcome` is `applied` where the value still stands, `changed` where somebody else changed it since, `already` where it
    /// is as before.
    pub changes: Vec<ChangeRow>,
    /// What is wrong with it.
    pub why: Option<String>,
}
