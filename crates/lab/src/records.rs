//! Resolves RUN to records: one of the store, or all of a JSON file; and the error for a kind that a verb does not take.

use hairpin_record::any::AnyRecord;
use hairpin_record::run::Run;

use crate::compare::{of_load, of_others};
use crate::store::{self, LoadError, ResolveError, Store};

/// A record with its name.
#[derive(Clone, Debug)]
pub struct Named {
    /// The run's id; empty if it is not in the store.
    pub id: String,
    /// The run's id; for a file its name, with the number of the record if it holds several.
    pub name: String,
    pub record: AnyRecord,
}

/// Why a RUN stands for no records.
#[derive(Debug, thiserror::Error)]
pub enum RecordsError {
    /// The RUN cannot be resolved.
    #[error(transparent)]
    Resolve(#[from] ResolveError),
    /// The file cannot be read.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The task does not take this kind of record.
    #[error("{name} is a record of `hairpin {verb}`: there is nothing to {task} in it; records of {takes} can be used")]
    Kind {
        name: String,
        /// The verb that made the record.
        verb: &'static str,
        /// The task in a word: watch, compare, fit.
        task: &'static str,
        /// The verbs whose records the task takes.
        takes: &'static str,
    },
    /// The file holds several records, and the task takes one.
    #[error("{name} is one of several records in a file, and one can be taken: put it into a file of its own")]
    Several {
        /// The name of the first record.
        name: String,
    },
}

/// The records of a RUN: one of the store, or all of a JSON file.
///
/// # Errors
/// The RUN cannot be resolved, or holds no record.
pub fn load(store: &Store, run: &str) -> Result<Vec<Named>, RecordsError> {
    let found = store.resolve(run)?;
    let records = store::load_all(&found.file)?;
    let id = found.id.as_ref().map(ToString::to_string).unwrap_or_default();
    let file = found.file.file_name().unwrap_or(found.file.as_os_str()).to_string_lossy().into_owned();
    let name = if id.is_empty() { file } else { id.clone() };
    let several = records.len() > 1;
    let called = |at: usize| if several { format!("{name}, record {}", at + 1) } else { name.clone() };
    let named = |(at, record)| Named { id: id.clone(), name: called(at), record };
    Ok(records.into_iter().enumerate().map(named).collect())
}

/// The run of `hairpin ping` or `hairpin demo` that a RUN stands for, with its name. `task` is one word for the error.
///
/// # Errors
/// The RUN cannot be resolved, holds several records, or one of another verb.
pub fn run(store: &Store, text: &str, task: &'static str) -> Result<(String, Run), RecordsError> {
    one(load(store, text)?, task, "ping and demo", |record| match record {
        AnyRecord::Run(run) => Ok(*run),
        other => Err(other),
    })
}

/// The verbs whose records can be compared.
const COMPARED: &str = "ping, demo, load, explain, explain :PORT, compare, sweep and tune try, or two of check --host,";

/// The runs of one RUN in a form that can be compared row by row: those of ping and demo as they are, those of load with one row
/// per rate and RTTs from due, those of explain without hooks, and those of experiments with a row per arm.
///
/// # Errors
/// There are several records, or one without anything to compare.
pub fn comparable(found: Vec<Named>) -> Result<(String, Run), RecordsError> {
    one(found, "compare", COMPARED, as_run)
}

/// The record as a run, if it has round trips to compare.
pub(crate) fn as_run(record: AnyRecord) -> Result<Run, AnyRecord> {
    match record {
        AnyRecord::Run(run) => Ok(*run),
        AnyRecord::Load(load) => Ok(of_load::run_of_load(*load)),
        AnyRecord::Explain(explain) => Ok(of_others::run_of_explain(*explain)),
        AnyRecord::Attached(attached) => Ok(of_others::run_of_attached(*attached)),
        AnyRecord::Compare(compare) => Ok(of_others::run_of_compare(*compare)),
        AnyRecord::Sweep(sweep) => Ok(of_others::run_of_sweep(*sweep)),
        AnyRecord::TuneTry(tried) => Ok(of_others::run_of_try(*tried)),
        other => Err(other),
    }
}

fn one(
    mut found: Vec<Named>,
    task: &'static str,
    takes: &'static str,
    take: impl Fn(AnyRecord) -> Result<Run, AnyRecord>,
) -> Result<(String, Run), RecordsError> {
    let several = found.len() > 1;
    let Named { name, record, .. } = found.swap_remove(0);
    if several {
        return Err(RecordsError::Several { name });
    }
    match take(record) {
        Ok(run) => Ok((name, run)),
        Err(other) => Err(RecordsError::Kind { name, verb: other.verb(), task, takes }),
    }
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
        let id = store.save(&serde_json::from_str::<Run>(RUN).unwrap()).unwrap();
        let names = |run: &str| load(&store, run).unwrap().into_iter().map(|named| named.name).collect::<Vec<_>>();
        assert_eq!(names("latest"), [id.as_str()]);
        let file = dir.path().join("two.jsonl");
        fs::write(&file, format!("{RUN}{RUN}")).unwrap();
        assert_eq!(names(file.to_str().unwrap()), ["two.jsonl, record 1", "two.jsonl, record 2"]);
        assert!(matches!(run(&store, file.to_str().unwrap(), "watch"), Err(RecordsError::Several { .. })));
        fs::write(&file, RUN).unwrap();
        assert_eq!(names(file.to_str().unwrap()), ["two.jsonl"]);
        assert_eq!(run(&store, file.to_str().unwrap(), "watch").unwrap().0, "two.jsonl");
    }

    #[test]
    fn a_kind_that_is_not_taken_is_named_with_those_that_are() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path().join("runs"));
        let file = dir.path().join("check.json");
        fs::write(&file, include_str!("../../record/tests/data/check-1.json")).unwrap();
        let file = file.to_str().unwrap();
        assert_eq!(
            comparable(load(&store, file).unwrap()).unwrap_err().to_string(),
            "check.json is a record of `hairpin check`: there is nothing to compare in it; records of ping, demo, load, explain, explain :PORT, compare, sweep and tune try, or two of check --host, can be used"
        );
        assert!(run(&store, file, "watch").unwrap_err().to_string().contains("nothing to watch in it"));
        assert_eq!(load(&store, file).unwrap()[0].record.verb(), "check");
    }

    #[test]
    fn errors_name_the_file_and_the_schema() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path().join("runs"));
        let file = dir.path().join("later.json");
        fs::write(&file, r#"{"schema": "hairpin.later/1\u001b[2J"}"#).unwrap();
        let error = load(&store, file.to_str().unwrap()).unwrap_err().to_string();
        assert!(
            error.contains("later.json") && error.contains("hairpin.later/1") && error.contains("hairpin.compare/1"),
            "{error}"
        );
        assert!(!error.contains('\u{1b}'), "{error}");
        assert!(matches!(load(&store, "latest"), Err(RecordsError::Resolve(ResolveError::Empty { .. }))));
        assert!(matches!(load(&store, dir.path().to_str().unwrap()), Err(RecordsError::Resolve(ResolveError::NoFile { .. }))));
        fs::File::create(&file).unwrap().set_len(store::MAX_RECORD + 1).unwrap();
        assert!(matches!(load(&store, file.to_str().unwrap()), Err(RecordsError::Load(LoadError::TooLarge { .. }))));
    }
}
