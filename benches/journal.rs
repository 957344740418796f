//! Every measurement as a line of JSON, so that a benchmark that was interrupted can go on.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::time::SystemTime;

use hairpin_session::time::rfc3339;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The measurements so far, in memory and as lines of a file.
pub(crate) struct Journal<T> {
    file: File,
    /// Builds of the programs measured, and how; measurements of others do not count.
    programs: String,
    entries: Vec<Entry<T>>,
}

#[derive(Serialize, Deserialize)]
struct Entry<T> {
    cell: String,
    programs: String,
    /// RFC 3339, UTC.
    at: String,
    #[serde(flatten)]
    measured: T,
}

impl<T: Clone + Serialize + DeserializeOwned> Journal<T> {
    /// Opens `path`. With `resume` its measurements of these `programs` count; without, it begins empty.
    pub(crate) fn open(path: &Path, programs: &str, resume: bool) -> Result<Journal<T>, String> {
        let told = |e: std::io::Error| format!("{}: {e}", path.display());
        let old = if resume && path.exists() { fs::read_to_string(path).map_err(told)? } else { String::new() };
        // The last line may have been cut short.
        let entries = old.lines().filter_map(|line| serde_json::from_str::<Entry<T>>(line).ok());
        let entries: Vec<Entry<T>> = entries.filter(|entry| entry.programs == programs).collect();
        let mut journal = Journal { file: File::create(path).map_err(told)?, programs: programs.to_owned(), entries: Vec::new() };
        entries.into_iter().try_for_each(|entry| journal.write(entry))?;
        Ok(journal)
    }

    /// The measurements of a cell, in order.
    pub(crate) fn of(&self, cell: &str) -> Vec<T> {
        self.entries.iter().filter(|entry| entry.cell == cell).map(|entry| entry.measured.clone()).collect()
    }

    pub(crate) fn add(&mut self, cell: &str, measured: &T) -> Result<(), String> {
        let at = rfc3339(SystemTime::now());
        self.write(Entry { cell: cell.to_owned(), programs: self.programs.clone(), at, measured: measured.clone() })
    }

    fn write(&mut self, entry: Entry<T>) -> Result<(), String> {
        let line = serde_json::to_string(&entry).map_err(|e| e.to_string())?;
        writeln!(self.file, "{line}").map_err(|e| format!("cannot write the record: {e}"))?;
        self.entries.push(entry);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use hairpin_lab::experiment::outside::Pair;

    use super::*;

    #[test]
    fn resumes_whole_lines_of_the_same_programs() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pairs.jsonl");
        let pair: Pair = serde_json::from_str(r#"{"taken":[]}"#).unwrap();
        for programs in ["old", "new"] {
            let mut journal = Journal::open(&path, programs, true).unwrap();
            let earlier = fs::read_to_string(&path).unwrap();
            journal.add("a", &pair).unwrap();
            journal.add("b", &pair).unwrap();
            assert_eq!((journal.of("a").len(), journal.of("c").len(), earlier.as_str()), (1, 0, ""));
        }
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, &text[..text.len() - 5]).unwrap();
        let journal = Journal::<Pair>::open(&path, "new", true).unwrap();
        assert_eq!((journal.of("a").len(), journal.of("b").len()), (1, 0), "the last line is cut short");
        assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 1);
        assert_eq!(Journal::<Pair>::open(&path, "new", false).unwrap().of("a").len(), 0);
    }
}
