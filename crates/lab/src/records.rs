//! What a report is made of: each RUN resolved, read, and told apart by the schema that it says it has.

use std::path::PathBuf;

use hairpin_record::any::{AnyRecord, ParseError};

use crate::session::printable;
use crate::store::{self, LoadError, ResolveError, Store};

/// A record, and what it is called.
#[derive(Clone, Debug)]
pub struct Named {
    /// The run's id; of a file its name, with the number of the record if there are several in it.
    pub name: String,
    /// What it holds.
    pub record: AnyRecord,
}

/// Why a RUN has no records.
#[derive(Debug, thiserror::Error)]
pub enum RecordsError {
    /// It stands for nothing.
    #[error(transparent)]
    Resolve(#[from] ResolveError),
    /// Its file cannot be read.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// Its file holds something else.
    #[error("{} cannot be shown: {}", file.display(), printable(&source.to_string(), 400))]
    Parse {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        source: ParseError,
    },
}

/// The records that a RUN stands for: one of the store, or all of a JSON file.
///
/// # Errors
/// It stands for nothing, or for what no report takes.
pub fn load(store: &Store, run: &str) -> Result<Vec<Named>, RecordsError> {
    let found = store.resolve(run)?;
    let records =
        AnyRecord::all(&store::read(&found.file)?).map_err(|source| RecordsError::Parse { file: found.file.clone(), source })?;
    let file = || found.file.file_name().unwrap_or(found.file.as_os_str()).to_string_lossy().into_owned();
    let name = found.id.as_ref().map_or_else(file, ToString::to_string);
    let several = records.len() > 1;
    let called = |at: usize| if several { format!("{name}, record {}", at + 1) } else { name.clone() };
    Ok(records.into_iter().enumerate().map(|(at, record)| Named { name: called(at), record }).collect())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const RUN: &str = include_str!("../../record/tests/data/run-1.json");

    #[test]
    fn runs_of_the_store_and_files_of_any_schema() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path().join("runs"));
        let id = store.save(&serde_json::from_str(RUN).unwrap()).unwrap();
        let names = |run: &str| load(&store, run).unwrap().into_iter().map(|named| named.name).collect::<Vec<_>>();
        assert_eq!(names("latest"), [id.as_str()]);
        let file = dir.path().join("two.jsonl");
        fs::write(&file, format!("{RUN}{RUN}")).unwrap();
        assert_eq!(names(file.to_str().unwrap()), ["two.jsonl, record 1", "two.jsonl, record 2"]);
        fs::write(&file, RUN).unwrap();
        assert_eq!(names(file.to_str().unwrap()), ["two.jsonl"]);
    }

    #[test]
    fn errors_name_the_file_and_the_schema() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path().join("runs"));
        let file = dir.path().join("load.json");
        fs::write(&file, r#"{"schema": "hairpin.load/1\u001b[2J"}"#).unwrap();
        let error = load(&store, file.to_str().unwrap()).unwrap_err().to_string();
        assert!(
            error.contains("load.json") && error.contains("hairpin.load/1") && error.contains("hairpin.compare/1"),
            "{error}"
        );
        assert!(!error.contains('\u{1b}'), "{error}");
        assert!(matches!(load(&store, "latest"), Err(RecordsError::Resolve(ResolveError::Empty { .. }))));
        assert!(matches!(load(&store, dir.path().to_str().unwrap()), Err(RecordsError::Resolve(ResolveError::NoFile { .. }))));
        fs::File::create(&file).unwrap().set_len(store::MAX_RECORD + 1).unwrap();
        assert!(matches!(load(&store, file.to_str().unwrap()), Err(RecordsError::Load(LoadError::TooLarge { .. }))));
    }
}
