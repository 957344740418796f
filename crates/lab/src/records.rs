//! Resolves RUN to records: one of the store, or all of a JSON file; and the error for a kind that a verb does not take.

use hairpin_record::any::AnyRecord;
use hairpin_record::run::Run;

use crate::compare::{of_load, of_others};
use crate::store::{self, LoadError, ResolveError, RunFile, Store, before_the_latest};

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
    /// The run was named by its age, and the store holds fewer without those that ages pass over.
    #[error(
        "\"{text}\" is older than all: without comparisons with stored runs, which an age passes over here, the store holds {there}; see `hairpin runs list`"
    )]
    TooOld {
        /// The text given.
        text: String,
        /// The number of other runs in the store.
        there: usize,
    },
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
    read(store.resolve(run)?)
}

/// As [`load`]. An age passes over comparisons with stored runs, so that a command that compares by age can be given again.
///
/// # Errors
/// As those of [`load`]; or the store holds fewer runs.
pub fn load_to_compare(store: &Store, run: &str) -> Result<Vec<Named>, RecordsError> {
    let Some(mut later) = before_the_latest(run) else { return load(store, run) };
    let ids = store.ids().map_err(ResolveError::from)?;
    let mut there = ids.len();
    for id in ids.iter().rev() {
        match read(RunFile { id: Some(id.clone()), file: store.file(id) }) {
            Ok(found) if is_of_stored(&found) => there -= 1,
            found if later == 0 => return found,
            _ => later -= 1,
        }
    }
    if there < ids.len() { Err(RecordsError::TooOld { text: run.into(), there }) } else { load(store, run) }
}

/// True for a comparison with stored runs: its blocks were laid out by no design.
fn is_of_stored(found: &[Named]) -> bool {
    matches!(found, [Named { record: AnyRecord::Compare(compare), .. }] if compare.design.is_none())
}

fn read(found: RunFile) -> Result<Vec<Named>, RecordsError> {
    let records = store::load_all(&found.file)?;
    let id = found.id.as_ref().map(ToString::to_string).unwrap_or_default();
    let file = found.file.file_name().unwrap_or(found.file.as_os_str()).to_string_lossy().into_owned();
    let name = if id.is_empty() { file } else { id.clone() };
    let several = records.len() > 1;
    let called = |at: usize| if several { format!("{name}, record {}", at + 1) } else { name.clone() };
    let named = |(at, record)| Named { id: id.clone(), name: called(at), record };
    Ok(records.into_iter().enumerate().map(named).collect())
}

/// The name of a RUN in a record that is made of it: its id, or for a file the user's word.
pub fn kept_as(found: &[Named], word: &str) -> String {
    let id = found.first().map_or("", |named| named.id.as_str());
    if id.is_empty() { word.into() } else { id.into() }
}

/// The run of `hairpin ping` or `hairpin demo` that a RUN stands for, with its name. `task` is one word for the error.
///
/// # Errors
/// The RUN cannot be resolved, holds several records, or one of another verb.
pub fn run(store: &Store, text: &str, task: &'static str) -> Result<(String, Run), RecordsError> {
    run_of(load(store, text)?, task)
}

/// The same of the records of a RUN.
///
/// # Errors
/// There are several records, or one of another verb.
pub fn run_of(found: Vec<Named>, task: &'static str) -> Result<(String, Run), RecordsError> {
    one(found, task, "ping and demo", |record| match record {
        AnyRecord::Run(run) => Ok(*run),
        other => Err(other),
    })
}

/// The verbs whose records can be compared.
const COMPARED: &str = "ping, demo, load, explain, explain :PORT, compare, mesh, sweep and tune try, or two of check --host,";

/// The runs of one RUN in a form that can be compared row by row: those of ping and demo as they are, those of load with one row
/// per rate and RTTs from due, those of explain without hooks, those of a mesh with one row per pair of hosts, and those of
/// experiments with a row per arm.
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
        AnyRecord::Mesh(mesh) => Ok(of_others::run_of_mesh(*mesh)),
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
    fn an_age_passes_over_comparisons_with_stored_runs() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path().join("runs"));
        let at = |second: u32| format!("2026-11-20T11:50:{second}.000000Z");
        let mut run: Run = serde_json::from_str(RUN).unwrap();
        let [first, second] = [10, 20].map(|second| {
            run.head.started = at(second);
            store.save(&run).unwrap()
        });
        let older = AnyRecord::all(include_bytes!("../../record/tests/data/older.jsonl")).unwrap();
        let compare = older.into_iter().find_map(|record| match record {
            AnyRecord::Compare(compare) => Some(*compare),
            _ => None,
        });
        let mut compare = compare.unwrap();
        compare.head.started = at(30);
        let measured = store.save(&compare).unwrap();
        compare.design = None;
        let [held, again] = [40, 50].map(|second| {
            compare.head.started = at(second);
            store.save(&compare).unwrap()
        });
        let id = |word: &str| load_to_compare(&store, word).unwrap().swap_remove(0).id;
        for (word, is) in [("latest", &measured), ("-2", &second), ("latest~2", &first), (held.as_str(), &held)] {
            assert_eq!(id(word), is.as_str(), "{word}");
        }
        assert_eq!(load(&store, "latest").unwrap()[0].id, again.as_str());
        let error = load_to_compare(&store, "-4").unwrap_err().to_string();
        assert!(error.contains("which an age passes over here, the store holds 3"), "{error}");
        fs::write(store.file(&second), "{").unwrap();
        assert!(matches!(load_to_compare(&store, "-2"), Err(RecordsError::Load(LoadError::Corrupt { .. }))));
        assert_eq!(id("-3"), first.as_str());
        let empty = Store::open(dir.path().join("none"));
        assert!(matches!(load_to_compare(&empty, "latest"), Err(RecordsError::Resolve(ResolveError::Empty { .. }))));
    }

    #[test]
    fn a_record_keeps_the_id_of_a_run_and_the_word_for_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path().join("runs"));
        let id = store.save(&serde_json::from_str::<Run>(RUN).unwrap()).unwrap();
        let file = dir.path().join("run.json");
        fs::write(&file, RUN).unwrap();
        let (file, folder) = (file.display().to_string(), store.dir().join(&id).display().to_string());
        for (word, kept) in [("latest", id.as_str()), (folder.as_str(), id.as_str()), (file.as_str(), file.as_str())] {
            assert_eq!(kept_as(&load(&store, word).unwrap(), word), kept);
        }
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
            "check.json is a record of `hairpin check`: there is nothing to compare in it; records of ping, demo, load, explain, explain :PORT, compare, mesh, sweep and tune try, or two of check --host, can be used"
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
