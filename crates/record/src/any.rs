//! A record of any schema that a report shows, told apart by what it says it is.
//!
//! A file may hold several, one after the other, as `hairpin demo --json` prints them; lines of progress between them are no records and are passed over.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use thiserror::Error;

use crate::compare::{self, Compare};
use crate::explain::{self, Explain};
use crate::progress;
use crate::run::{self, Run};

/// The schemas that [`AnyRecord`] holds.
pub const SCHEMAS: [&str; 3] = [run::SCHEMA, explain::SCHEMA, compare::SCHEMA];

/// One record.
#[derive(Clone, Debug, PartialEq)]
pub enum AnyRecord {
    /// `hairpin.run/1`.
    Run(Box<Run>),
    /// `hairpin.explain/1`.
    Explain(Box<Explain>),
    /// `hairpin.compare/1`.
    Compare(Box<Compare>),
}

/// Why bytes are no records.
#[derive(Debug, Error)]
pub enum ParseError {
    /// There is nothing.
    #[error("it is empty, so it holds no record")]
    Empty,
    /// Not JSON, or JSON that ends too early.
    #[error("it is not JSON: {0}")]
    Json(serde_json::Error),
    /// JSON of something else.
    #[error("it has no field \"schema\", so it is no record of hairpin")]
    NoSchema,
    /// A schema that is not taken, or one of a later major version.
    #[error(
        "it has schema \"{0}\", and a report takes {known}; if it is a later version of one of these, use the hairpin that wrote it",
        known = SCHEMAS.join(", ")
    )]
    Schema(String),
    /// It says that it is a record, and is not.
    #[error("it says that it is {schema}, and is not: {source}")]
    Corrupt {
        /// What it says it is.
        schema: &'static str,
        /// What the JSON parser said.
        source: serde_json::Error,
    },
}

/// What every record begins with.
#[derive(Deserialize)]
struct Head {
    schema: Option<String>,
}

impl AnyRecord {
    /// Every record in `bytes`, at least one.
    ///
    /// # Errors
    /// The first that is none, or none at all.
    pub fn all(bytes: &[u8]) -> Result<Vec<AnyRecord>, ParseError> {
        // The heads are read first: they say which type the bytes between two of them have.
        let mut heads = serde_json::Deserializer::from_slice(bytes).into_iter::<Head>();
        let (mut found, mut from, mut any) = (Vec::new(), 0, false);
        while let Some(head) = heads.next() {
            let head = head.map_err(|error| if error.is_data() { ParseError::NoSchema } else { ParseError::Json(error) })?;
            let record = &bytes[from..heads.byte_offset()];
            from = heads.byte_offset();
            any = true;
            found.push(match head.schema.ok_or(ParseError::NoSchema)?.as_str() {
                progress::SCHEMA => continue,
                run::SCHEMA => AnyRecord::Run(typed(record, run::SCHEMA)?),
                explain::SCHEMA => AnyRecord::Explain(typed(record, explain::SCHEMA)?),
                compare::SCHEMA => AnyRecord::Compare(typed(record, compare::SCHEMA)?),
                other => return Err(ParseError::Schema(other.into())),
            });
        }
        match (found.is_empty(), any) {
            (false, _) => Ok(found),
            (true, true) => Err(ParseError::Schema(progress::SCHEMA.into())),
            (true, false) => Err(ParseError::Empty),
        }
    }

    /// The name of its schema.
    #[must_use]
    pub fn schema(&self) -> &'static str {
        match self {
            AnyRecord::Run(_) => run::SCHEMA,
            AnyRecord::Explain(_) => explain::SCHEMA,
            AnyRecord::Compare(_) => compare::SCHEMA,
        }
    }
}

fn typed<T: DeserializeOwned>(bytes: &[u8], schema: &'static str) -> Result<Box<T>, ParseError> {
    serde_json::from_slice(bytes).map(Box::new).map_err(|source| ParseError::Corrupt { schema, source })
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
        assert_eq!(found.iter().map(AnyRecord::schema).collect::<Vec<_>>(), [run::SCHEMA; 2]);
        assert_eq!(found[0], AnyRecord::Run(Box::new(serde_json::from_str(RUN).unwrap())));
    }

    #[test]
    fn what_is_no_record_says_why() {
        assert!(error("").contains("empty") && error(" \n").contains("empty"));
        assert!(error("{").contains("not JSON") && error("hello").contains("not JSON"));
        for text in ["{}", "[1]", "3", r#"{"schema": 3}"#, r#"{"schema": null}"#] {
            assert!(error(text).contains("no field \"schema\""), "{text}: {}", error(text));
        }
        let later = error(r#"{"schema": "hairpin.run/2"}"#);
        assert!(
            later.contains("\"hairpin.run/2\"") && later.contains("hairpin.run/1, hairpin.explain/1, hairpin.compare/1"),
            "{later}"
        );
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
