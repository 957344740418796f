//! The head that all records share.
//!
//! ```text
//!   Record<B> ── head    schema, tool, command, started, interrupted, error     every record of a measurement
//!             └─ body    RunBody, LoadBody …, in four of them with a Place: hosts, link, clock
//!   Label ────── schema, tool                                                   output without a measurement: a floor, a list of settings
//! ```
//! In JSON head, place and body lie side by side in one object. Lines of progress and of seconds have a schema alone.

use std::ops::{Deref, DerefMut};

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::place::{ClockFacts, Hosts, Link};

/// Name and version of this tool, as written in records.
pub const TOOL: &str = concat!("hairpin ", env!("CARGO_PKG_VERSION"));

/// A value written as JSON under a schema of its own.
pub trait Body {
    /// The schema's name, such as `hairpin.run/1`.
    const SCHEMA: &'static str;
}

/// A record of a measurement: a [`Head`], and a body with the results, whose fields are read through the record (`run.results`).
///
/// Each kind has an alias, such as [`Run`](crate::run::Run) for a record of [`RunBody`](crate::run::RunBody).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "{B}", description = "")]
pub struct Record<B> {
    /// The command, its tool and its start.
    #[serde(flatten)]
    pub head: Head,
    /// The results.
    #[serde(flatten)]
    pub body: B,
}

impl<B: DeserializeOwned> Record<B> {
    /// Reads one record from JSON. It does not compare the schema's name with [`Body::SCHEMA`];
    /// [`AnyRecord::all`](crate::any::AnyRecord::all) chooses the kind by that name.
    ///
    /// # Errors
    /// `json` is not one JSON object, or fields are missing or wrong.
    pub fn parse(json: &[u8]) -> serde_json::Result<Record<B>> {
        // Read twice, for the head and for the body: the derived `Deserialize` of flattened fields buffers the whole body first,
        // and takes half a megabyte of code over all kinds.
        Ok(Record { head: serde_json::from_slice(json)?, body: serde_json::from_slice(json)? })
    }
}

impl<B: Body> Body for Record<B> {
    const SCHEMA: &'static str = B::SCHEMA;
}

impl<B> Deref for Record<B> {
    type Target = B;

    fn deref(&self) -> &B {
        &self.body
    }
}

impl<B> DerefMut for Record<B> {
    fn deref_mut(&mut self) -> &mut B {
        &mut self.body
    }
}

/// The command of a measurement, its tool, its start, and whether it ended early.
///
/// With `interrupted` or `error` the record holds only the results until then, so look at both before comparing records.
///
/// ```
/// use hairpin_record::head::{Head, TOOL};
/// use hairpin_record::run::RunBody;
///
/// let head = Head::new::<RunBody>(vec!["hairpin".into(), "ping".into()], "2026-03-02T09:41:07Z".into());
/// assert_eq!((head.schema.as_str(), head.tool.as_str()), ("hairpin.run/1", TOOL));
/// assert!(!head.interrupted && head.error.is_none());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(description = "")]
pub struct Head {
    /// The schema's name.
    pub schema: String,
    /// Name and version of the tool, such as `hairpin 0.1.0`.
    pub tool: String,
    /// The command line, argument by argument; `--key-file` arguments are paths, never keys. Empty in older records of some
    /// kinds.
    #[serde(default)]
    pub command: Vec<String>,
    /// Start of the measurement, RFC 3339 in UTC. Empty in older records of some kinds.
    #[serde(default)]
    pub started: String,
    /// True if the user ended it early; the record then holds everything measured until then.
    #[serde(default)]
    pub interrupted: bool,
    /// The error that ended it part way, if any.
    #[serde(default)]
    pub error: Option<String>,
}

impl Head {
    /// The head of a record with body `B` whose measurement started at `started`, RFC 3339 in UTC; not interrupted, no error.
    pub fn new<B: Body>(command: Vec<String>, started: String) -> Head {
        Head { schema: B::SCHEMA.into(), tool: TOOL.into(), command, started, interrupted: false, error: None }
    }
}

/// The hosts, link and clock of a measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Place {
    /// Facts of both sides.
    pub hosts: Hosts,
    /// The link between the two sides.
    pub link: Link,
    /// The instrument's clock on the client.
    pub clock: ClockFacts,
}

/// Schema and tool of output without a measurement.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Label {
    /// The schema's name.
    pub schema: String,
    /// Name and version of the tool, such as `hairpin 0.1.0`; empty in older records of some kinds.
    #[serde(default)]
    pub tool: String,
}

impl Label {
    /// The label of a `B` made by this version of the tool.
    pub fn of<B: Body>() -> Label {
        Label { schema: B::SCHEMA.into(), tool: TOOL.into() }
    }
}
