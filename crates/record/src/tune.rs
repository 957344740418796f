//! The schemas `hairpin.tune-list/1`, `hairpin.tune-check/1`, `hairpin.tune-changes/1` and `hairpin.tune-status/1`: the settings
//! of a host, obstacles to low latency, and changes made.
//!
//! | command | prints | one row |
//! |---|---|---|
//! | `hairpin tune list --json` | [`List`] | [`KnobRow`]: a setting, its value, and the way to change it |
//! | `hairpin tune check --json` | [`TuneCheck`] | [`Finding`]: a setting that costs latency, its stake in ns, and the fix |
//! | `hairpin tune apply --json`, `tune revert --json` | [`Changes`] | [`ChangeRow`]: a value before and after, and the outcome |
//! | `hairpin tune status --json` | [`Status`] | [`StatusEntry`]: an entry of the journal with its changes |
//!
//! Nothing is measured for these, so each has a [`Label`] and no [`Head`](crate::head::Head), and
//! [`AnyRecord::all`](crate::any::AnyRecord::all) takes them for no records: `serde_json::from_slice::<TuneCheck>` reads one, and fails where a
//! field is missing or wrong. A value has the unit that the setting's name tells.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::head::{Body, Label};

/// Every setting of a host that moves round trips, or the ones named, with their current values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct List {
    /// Schema and tool.
    #[serde(flatten)]
    pub label: Label,
    /// One row per setting, those of one subject together.
    pub knobs: Vec<KnobRow>,
    /// The NAPI instances of the interface, if settings of them are shown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub napis: Vec<NapiRow>,
}

impl Body for List {
    const SCHEMA: &'static str = "hairpin.tune-list/1";
}

/// One NAPI instance: what polls some queues of an interface.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NapiRow {
    /// The name that stays when the interface is set up again: its first queue, or its place (`napi-0`) where the driver tells no
    /// queue.
    pub name: String,
    /// All queues that it serves, as far as the driver tells them.
    pub queues: Vec<String>,
    /// Its id now, which SO_INCOMING_NAPI_ID gives for the packets that came through it.
    pub id: u32,
    /// Its interrupt; `null` if the driver tells none.
    pub irq: Option<u32>,
    /// Its settings by the name of the kernel, as far as the kernel reports them.
    pub settings: BTreeMap<String, String>,
}

/// One setting of the host: its current value, and the way to change it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KnobRow {
    /// Its name on the command line, which is also that of the fact in a record.
    pub name: String,
    /// The setting in one line.
    pub summary: String,
    /// Its current value; `null` if this host lacks it, no interface was named, or it could not be read.
    pub now: Option<Value>,
    /// The reason if it could not be read; `null` otherwise, also where this host lacks it.
    pub unread: Option<String>,
    /// The way to change it; `null` for a setting that is only reported.
    pub change: Option<Settable>,
}

/// The way to change a setting, and its consequences.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Settable {
    /// Its effect on the kernel or the device.
    pub mechanism: String,
    /// The expected effect on latency. From the references, not measured here.
    pub effect: String,
    /// What the change costs, in words.
    pub cost: String,
    /// What the change may break, in words.
    pub risk: String,
    /// The rights, kernel and device that the change needs, in words.
    pub needs: String,
    /// A reference that describes it.
    pub reference: String,
    /// The values that it takes, in words.
    pub values: String,
    /// True if it is put back at once and can neither cut the network nor stop a service.
    pub safe: bool,
    /// Lifetime of the change: `boot` (until the next boot), `process` (while a process holds it).
    pub lasts: String,
    /// True if it belongs to an interface.
    pub of_interface: bool,
    /// The values of the profiles `latency`, `power` and `throughput`, where they have one.
    pub profiles: BTreeMap<String, String>,
}

/// The settings of one host, held against a profile: those to improve, those that are fine, and those that could not be read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TuneCheck {
    /// Schema and tool.
    #[serde(flatten)]
    pub label: Label,
    /// The host.
    pub hostname: String,
    /// The checked interface, if one was named.
    pub interface: Option<String>,
    /// `latency`, `power` or `throughput`.
    pub profile: String,
    /// Settings to improve, the largest expected effect first.
    pub findings: Vec<Finding>,
    /// The settings that are as the profile wants them.
    pub fine: Vec<String>,
    /// Settings that could not be read, with the reason.
    pub unread: BTreeMap<String, String>,
}

impl Body for TuneCheck {
    const SCHEMA: &'static str = "hairpin.tune-check/1";
}

/// A setting whose value is not the profile's, or a fact of the host that costs latency, with the way to change it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// The setting or fact.
    pub name: String,
    /// Its current value, in words.
    pub now: String,
    /// The better value.
    pub better: String,
    /// The expected effect. From the references, not measured here.
    pub effect: String,
    /// Order of magnitude of the time at stake in a blocking round trip with one request in flight, in ns; 0
    /// if the effect is in the tail or under load only.
    pub stake_ns: u64,
    /// What the change costs, in words.
    pub cost: String,
    /// The command that changes it, or instructions if it is made at boot.
    pub fix: String,
    /// Another way to the same end, if there is one.
    pub or: Option<String>,
    /// True if it is made at boot, and `fix` is no command.
    pub at_boot: bool,
}

/// Changes that are planned, made or undone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Changes {
    /// Schema and tool.
    #[serde(flatten)]
    pub label: Label,
    /// `plan`, `apply` or `revert`.
    pub action: String,
    /// One row per value.
    pub changes: Vec<ChangeRow>,
    /// What concerns no single value, such as a missing permission or a damaged entry of the journal.
    pub notes: Vec<String>,
}

impl Body for Changes {
    const SCHEMA: &'static str = "hairpin.tune-changes/1";
}

/// A value of the host, before and after a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ChangeRow {
    /// The setting.
    pub knob: String,
    /// The file or attribute that holds the value.
    pub place: String,
    /// The value before the change.
    pub from: String,
    /// The value after the change.
    pub to: String,
    /// For a mask of CPUs: `from` as a list such as `0-3,8`, or `none`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_cpus: Option<String>,
    /// For a mask of CPUs: `to` as a list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_cpus: Option<String>,
    /// `planned`, `applied`, `refused`; `reverted`, `already`, `gone`, `needed`, `booted`, `changed`, `elsewhere`, `failed`.
    pub outcome: String,
    /// The value found instead, or the reason.
    pub why: Option<String>,
}

/// Changes that are in force according to the journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Status {
    /// Schema and tool.
    #[serde(flatten)]
    pub label: Label,
    /// The journal's directory.
    pub journal: String,
    /// The process that is changing settings right now; `null` if there is none.
    pub holder: Option<String>,
    /// Entries, oldest first.
    pub entries: Vec<StatusEntry>,
}

impl Body for Status {
    const SCHEMA: &'static str = "hairpin.tune-status/1";
}

/// One entry of the journal: the changes that one command made, each with the value to put back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StatusEntry {
    /// Its number, from 1 in the order made.
    pub id: u32,
    /// `kept`, `running`, `orphaned` (its process was killed), `booted` (undone by a boot), `damaged`.
    pub state: String,
    /// When it was made, RFC 3339 in UTC; empty if it cannot be read.
    pub started: String,
    /// The command line that made it, argument by argument; empty if it cannot be read.
    pub command: Vec<String>,
    /// Its changes; `outcome` is `applied` if the value is still in force, `changed` if another program changed
    /// it since, `already` if it is as before.
    pub changes: Vec<ChangeRow>,
    /// The fault in its file; `null` if there is none.
    pub why: Option<String>,
}
