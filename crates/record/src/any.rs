//! A record of any kind. Its field `schema` names the kind.
//!
//! A file may hold several records, one after the other, as `hairpin demo --json` prints them. Progress lines between records are
//! skipped.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::attached::Attached;
use crate::bounce::{Bounce, BounceSecond};
use crate::check::Check;
use crate::compare::Compare;
use crate::explain::Explain;
use crate::head::{Body, Head, Place};
use crate::load::Load;
use crate::mesh::Mesh;
use crate::noise::Noise;
use crate::pcie::{Primitives, Probe};
use crate::progress::Progress;
use crate::run::{HostFacts, Run};
use crate::stream::Stream;
use crate::sweep::Sweep;
use crate::tune_try::TuneTry;

/// A measurement's record, one variant per schema.
///
/// [`AnyRecord::all`] reads records. [`head`](AnyRecord::head), [`host`](AnyRecord::host) and [`place`](AnyRecord::place) return the
/// facts that several kinds share; the results are in the variants. A `match` needs an arm for further kinds, which a later
/// version may add. Serialized, a record is one JSON object. Fields that a later version added to a schema are dropped on
/// reading.
///
/// ```
/// use hairpin_record::any::AnyRecord;
///
/// # let bytes = &std::fs::read("tests/data/run-1.json").unwrap();
/// for record in AnyRecord::all(bytes)? {
///     match record {
///         AnyRecord::Run(run) => println!("{} rows", run.results.len()),
///         other => println!("a record of hairpin {}", other.verb()),
///     }
/// }
/// # Ok::<(), hairpin_record::any::ParseError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
#[expect(missing_docs, reason = "each variant is documented at its record")]
#[non_exhaustive]
pub enum AnyRecord {
    Run(Box<Run>),
    Explain(Box<Explain>),
    Attached(Box<Attached>),
    Compare(Box<Compare>),
    Load(Box<Load>),
    Mesh(Box<Mesh>),
    Stream(Box<Stream>),
    Sweep(Box<Sweep>),
    TuneTry(Box<TuneTry>),
    Bounce(Box<Bounce>),
    Check(Box<Check>),
    Noise(Box<Noise>),
    Probe(Box<Probe>),
    Primitives(Box<Primitives>),
}

/// A kind of record: its schema and its verb.
#[derive(Debug)]
pub struct Kind {
    /// Schema name, such as `hairpin.run/1`.
    pub schema: &'static str,
    /// The verb that produces the record, such as `ping`.
    pub verb: &'static str,
    read: fn(&[u8]) -> serde_json::Result<AnyRecord>,
}

/// Every kind of record, in the order of [`AnyRecord`]'s variants.
///
/// ```
/// use hairpin_record::any::KINDS;
///
/// let verb = KINDS.iter().find(|kind| kind.schema == "hairpin.load/1").map(|kind| kind.verb);
/// assert_eq!(verb, Some("load"));
/// ```
pub static KINDS: &[Kind] = &[
    Kind { schema: Run::SCHEMA, verb: "ping", read: |json| Ok(AnyRecord::Run(Box::new(Run::parse(json)?))) },
    Kind { schema: Explain::SCHEMA, verb: "explain", read: |json| Ok(AnyRecord::Explain(Box::new(Explain::parse(json)?))) },
    Kind {
        schema: Attached::SCHEMA,
        verb: "explain :PORT or PROGRAM",
        read: |json| Ok(AnyRecord::Attached(Box::new(Attached::parse(json)?))),
    },
    Kind { schema: Compare::SCHEMA, verb: "compare", read: |json| Ok(AnyRecord::Compare(Box::new(Compare::parse(json)?))) },
    Kind { schema: Load::SCHEMA, verb: "load", read: |json| Ok(AnyRecord::Load(Box::new(Load::parse(json)?))) },
    Kind { schema: Mesh::SCHEMA, verb: "mesh", read: |json| Ok(AnyRecord::Mesh(Box::new(Mesh::parse(json)?))) },
    Kind { schema: Stream::SCHEMA, verb: "stream", read: |json| Ok(AnyRecord::Stream(Box::new(Stream::parse(json)?))) },
    Kind { schema: Sweep::SCHEMA, verb: "sweep", read: |json| Ok(AnyRecord::Sweep(Box::new(Sweep::parse(json)?))) },
    Kind { schema: TuneTry::SCHEMA, verb: "tune try", read: |json| Ok(AnyRecord::TuneTry(Box::new(TuneTry::parse(json)?))) },
    Kind { schema: Bounce::SCHEMA, verb: "bounce", read: |json| Ok(AnyRecord::Bounce(Box::new(Bounce::parse(json)?))) },
    Kind { schema: Check::SCHEMA, verb: "check", read: |json| Ok(AnyRecord::Check(Box::new(Check::parse(json)?))) },
    Kind { schema: Noise::SCHEMA, verb: "check --host", read: |json| Ok(AnyRecord::Noise(Box::new(Noise::parse(json)?))) },
    Kind { schema: Probe::SCHEMA, verb: "floor pcie --device", read: |json| Ok(AnyRecord::Probe(Box::new(Probe::parse(json)?))) },
    Kind {
        schema: Primitives::SCHEMA,
        verb: "floor pcie",
        read: |json| Ok(AnyRecord::Primitives(Box::new(Primitives::parse(json)?))),
    },
];

/// Schemas of lines that may stand between records in a stream but are not records.
const LINES: [&str; 2] = [Progress::SCHEMA, BounceSecond::SCHEMA];

/// Why bytes could not be parsed as records. Each message calls the input `it`, so name the file before it.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ParseError {
    /// The input is empty or only white space.
    #[error("it is empty, so it holds no record")]
    Empty,
    /// The input is not JSON, or the JSON ends too early.
    #[error("it is not JSON: {0}")]
    Json(serde_json::Error),
    /// JSON without the field `schema`.
    #[error("it has no field \"schema\", so it is not a record of hairpin")]
    NoSchema,
    /// An unknown schema, or a later major version of a known one.
    #[error(
        "it has schema \"{0}\", and records have {known}; if it is a later version of one of these, use the hairpin that wrote it",
        known = KINDS.iter().map(|kind| kind.schema).collect::<Vec<_>>().join(", ")
    )]
    Schema(String),
    /// The schema is known, but fields are missing or wrong.
    #[error("it says that it is {schema}, and is not: {source}")]
    Corrupt {
        /// The schema that it names.
        schema: &'static str,
        /// The first fault. Its line and column count from the end of the record before.
        source: serde_json::Error,
    },
}

/// The field that every record starts with.
#[derive(Deserialize)]
struct Named {
    schema: Option<String>,
}

impl AnyRecord {
    /// Parses the records in `bytes`, in their order: a file's content, or the output of `--json` or `--json-stream`.
    ///
    /// Lines of [`Progress`] and [`BounceSecond`] are skipped.
    ///
    /// ```
    /// use hairpin_record::any::{AnyRecord, ParseError};
    ///
    /// # let bytes = &std::fs::read("tests/data/run-1.json").unwrap();
    /// let records = AnyRecord::all(bytes)?;
    /// assert_eq!((records.len(), records[0].schema(), records[0].verb()), (1, "hairpin.run/1", "ping"));
    ///
    /// let later = AnyRecord::all(br#"{"schema": "hairpin.run/2"}"#);
    /// assert!(matches!(later, Err(ParseError::Schema(name)) if name == "hairpin.run/2"));
    /// # Ok::<(), ParseError>(())
    /// ```
    ///
    /// # Errors
    /// The first value that is not a record; the records before it are not returned. Also `bytes` without any record: for lines
    /// of progress alone the error is [`ParseError::Schema`] with their schema.
    pub fn all(bytes: &[u8]) -> Result<Vec<AnyRecord>, ParseError> {
        // The schemas are read first; they decide the type of each value.
        let mut heads = serde_json::Deserializer::from_slice(bytes).into_iter::<Named>();
        let (mut found, mut from, mut line) = (Vec::new(), 0, None);
        while let Some(head) = heads.next() {
            let head = head.map_err(|error| if error.is_data() { ParseError::NoSchema } else { ParseError::Json(error) })?;
            let record = &bytes[from..heads.byte_offset()];
            from = heads.byte_offset();
            let schema = head.schema.ok_or(ParseError::NoSchema)?;
            match KINDS.iter().find(|kind| kind.schema == schema) {
                Some(Kind { schema, read, .. }) => {
                    found.push(read(record).map_err(|source| ParseError::Corrupt { schema, source })?)
                }
                None if LINES.contains(&schema.as_str()) => line = Some(schema),
                None => return Err(ParseError::Schema(schema)),
            }
        }
        match (found.is_empty(), line) {
            (false, _) => Ok(found),
            (true, Some(line)) => Err(ParseError::Schema(line)),
            (true, None) => Err(ParseError::Empty),
        }
    }

    /// The record's head: tool, command, start time, and how it ended.
    #[must_use]
    pub fn head(&self) -> &Head {
        match self {
            AnyRecord::Run(record) => &record.head,
            AnyRecord::Explain(record) => &record.head,
            AnyRecord::Attached(record) => &record.head,
            AnyRecord::Compare(record) => &record.head,
            AnyRecord::Load(record) => &record.head,
            AnyRecord::Mesh(record) => &record.head,
            AnyRecord::Stream(record) => &record.head,
            AnyRecord::Sweep(record) => &record.head,
            AnyRecord::TuneTry(record) => &record.head,
            AnyRecord::Bounce(record) => &record.head,
            AnyRecord::Check(record) => &record.head,
            AnyRecord::Noise(record) => &record.head,
            AnyRecord::Probe(record) => &record.head,
            AnyRecord::Primitives(record) => &record.head,
        }
    }

    /// Hosts, link and clock; `None` for kinds of records without both sides.
    ///
    /// ```
    /// use hairpin_record::any::AnyRecord;
    ///
    /// # let bytes = &std::fs::read("tests/data/run-1.json").unwrap();
    /// let records = AnyRecord::all(bytes)?;
    /// let place = records[0].place().expect("a run has both sides");
    /// assert_eq!((place.link.kind.as_str(), place.hosts.client.hostname.as_str()), ("loopback", "alpha"));
    /// # Ok::<(), hairpin_record::any::ParseError>(())
    /// ```
    #[must_use]
    pub fn place(&self) -> Option<&Place> {
        match self {
            AnyRecord::Run(record) => Some(&record.place),
            AnyRecord::Explain(record) => Some(&record.place),
            AnyRecord::Load(record) => Some(&record.place),
            AnyRecord::Stream(record) => Some(&record.place),
            _ => None,
        }
    }

    /// Facts of the host that measured, if the record has them; of two hosts, the client's.
    #[must_use]
    pub fn host(&self) -> Option<&HostFacts> {
        match self {
            AnyRecord::Attached(record) => Some(&record.host),
            AnyRecord::Bounce(record) => Some(&record.host),
            AnyRecord::Noise(record) => Some(&record.host),
            AnyRecord::Compare(record) => record.host.as_ref(),
            AnyRecord::Sweep(record) => record.host.as_ref(),
            AnyRecord::TuneTry(record) => record.host.as_ref(),
            _ => self.place().map(|place| &place.hosts.client),
        }
    }

    /// Name of the record's schema.
    #[must_use]
    pub fn schema(&self) -> &str {
        &self.head().schema
    }

    /// The verb that produces this kind of record, such as `ping`.
    #[must_use]
    pub fn verb(&self) -> &'static str {
        KINDS.iter().find(|kind| kind.schema == self.schema()).map_or("hairpin", |kind| kind.verb)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const RUN: &str = include_str!("../tests/data/run-1.json");

    fn error(text: &str) -> String {
        AnyRecord::all(text.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn several_records_in_one_file_and_progress_between_them() {
        let progress = r#"{"schema": "hairpin.progress/1", "path": "udp"}"#;
        let found = AnyRecord::all(format!("{progress}\n{RUN}\n{progress}\n{RUN}").as_bytes()).unwrap();
        assert_eq!(found.iter().map(|record| record.schema().to_owned()).collect::<Vec<_>>(), [Run::SCHEMA; 2]);
        assert_eq!(found[0], AnyRecord::Run(Box::new(serde_json::from_str(RUN).unwrap())));
    }

    #[test]
    fn other_bytes_are_refused_with_the_reason() {
        assert!(error("").contains("empty") && error(" \n").contains("empty"));
        assert!(error("{").contains("not JSON") && error("hello").contains("not JSON"));
        for text in ["{}", "[1]", "3", r#"{"schema": 3}"#, r#"{"schema": null}"#] {
            assert!(error(text).contains("no field \"schema\""), "{text}: {}", error(text));
        }
        let later = error(r#"{"schema": "hairpin.run/2"}"#);
        assert!(later.contains("\"hairpin.run/2\"") && later.contains("hairpin.run/1, hairpin.explain/1"), "{later}");
        assert!(error(r#"{"schema": "hairpin.progress/1"}"#).contains("hairpin.progress/1"));
        let cut = error(r#"{"schema": "hairpin.compare/1", "tool": 3}"#);
        assert!(cut.contains("it is hairpin.compare/1, and is not"), "{cut}");
    }

    proptest! {
        #[test]
        fn any_bytes_are_records_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200), at in 0usize..20_000) {
            let mut record = RUN.as_bytes().to_vec();
            let at = at.min(record.len());
            record.splice(at..(at + bytes.len()).min(record.len()), bytes);
            let _ = AnyRecord::all(&record);
        }
    }
}
