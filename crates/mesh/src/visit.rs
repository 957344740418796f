//! The visits that a rank has made, one JSON object a line in `pairs-K.jsonl`, and the file they are in.
//!
//! A rank writes each visit at once, so that its visits outlive it. A line that is torn, as by a kill or a full disk, is left out
//! when the file is read.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use hairpin_record::mesh::Visit;
use serde::{Deserialize, Serialize};

use crate::schedule::Pair;

/// The report of rank `by` on a visit: the figures, if it is the client and measured, or the reason why there are none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Told {
    pub pair: Pair,
    pub by: u32,
    #[serde(flatten)]
    pub visit: Visit,
}

/// The file of a rank's visits.
pub fn file(dir: &Path, rank: u32) -> PathBuf {
    dir.join(format!("pairs-{rank}.jsonl"))
}

/// A rank's visits: all in memory, and each in its file as far as that can be written.
#[derive(Debug)]
pub struct Visits {
    path: PathBuf,
    file: Option<File>,
    all: Vec<Told>,
    /// Why the file is not whole, once it is not.
    broken: Option<String>,
}

impl Visits {
    /// The visits of a rank, none so far.
    pub fn new(dir: &Path, rank: u32) -> Visits {
        let path = file(dir, rank);
        let (file, broken) = match OpenOptions::new().append(true).create(true).open(&path) {
            Ok(file) => (Some(file), None),
            Err(error) => (None, Some(error.to_string())),
        };
        Visits { path, file, all: Vec::new(), broken }
    }

    /// Adds a visit. The first time that one cannot be written, returns the line for the user.
    pub fn add(&mut self, told: Told) -> Option<String> {
        let was_whole = self.broken.is_none();
        if let Some(file) = &mut self.file
            && let Err(error) = append(file, &told, !was_whole)
        {
            self.broken.get_or_insert(error.to_string());
        }
        self.all.push(told);
        let why = self.broken.as_ref().filter(|_| was_whole || self.all.len() == 1)?;
        Some(format!("cannot write {}: {why}; visits stay in memory until rank 0 has them", self.path.display()))
    }

    pub fn all(&self) -> &[Told] {
        &self.all
    }

    /// True if the file has every visit.
    pub fn is_whole(&self) -> bool {
        self.broken.is_none()
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Writes one whole line, which is on the disk when this returns; `torn`: the line before may have no end.
fn append(file: &mut File, told: &Told, torn: bool) -> io::Result<()> {
    let mut line = if torn { b"\n".to_vec() } else { Vec::new() };
    serde_json::to_writer(&mut line, told)?;
    line.push(b'\n');
    file.write_all(&line)?;
    file.sync_data()
}

/// The visits of a rank's file; none if there is no such file.
///
/// # Errors
/// The file cannot be read.
pub fn read(dir: &Path, rank: u32) -> io::Result<Vec<Told>> {
    match std::fs::read(file(dir, rank)) {
        Ok(bytes) => Ok(parsed(&bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Every whole line.
fn parsed(bytes: &[u8]) -> Vec<Told> {
    bytes.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use hairpin_record::histogram::Times;

    use super::*;
    use crate::schedule::client_of;

    /// A visit with `count` round trips of `ns`.
    pub(crate) fn measured(pair: Pair, visit: u32, ns: u64, count: u64) -> Told {
        let mut times = Times::new();
        (0..count).for_each(|n| times.record(ns + n));
        let client = client_of(pair, visit);
        let visit = Visit {
            visit,
            client,
            round: visit,
            transactions: count,
            rtt_ns: Some(times.quantiles()),
            histogram: times.encode(),
            ..Visit::default()
        };
        Told { pair, by: client, visit }
    }

    #[test]
    fn a_torn_line_is_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let mut visits = Visits::new(dir.path(), 3);
        for visit in [1, 2] {
            assert_eq!(visits.add(measured((1, 3), visit, 10_000, 500)), None);
        }
        assert!(visits.is_whole());
        assert_eq!(read(dir.path(), 3).unwrap(), visits.all());
        let bytes = std::fs::read(visits.path()).unwrap();
        std::fs::write(visits.path(), &bytes[..bytes.len() - 7]).unwrap();
        assert_eq!(read(dir.path(), 3).unwrap(), visits.all()[..1]);
        assert_eq!(read(dir.path(), 4).unwrap(), []);
    }

    #[test]
    fn a_full_disk_is_reported_once_and_loses_no_visit() {
        let dir = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/dev/full", file(dir.path(), 0)).unwrap();
        let mut visits = Visits::new(dir.path(), 0);
        let said = visits.add(measured((0, 1), 1, 10_000, 500)).unwrap();
        assert!(said.contains("pairs-0.jsonl") && said.contains("No space left"), "{said}");
        assert_eq!(visits.add(measured((0, 2), 1, 10_000, 500)), None, "said once");
        assert_eq!((visits.all().len(), visits.is_whole()), (2, false));
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_said_once() {
        let mut visits = Visits::new(Path::new("/proc/nowhere"), 0);
        assert!(visits.add(measured((0, 1), 1, 10_000, 500)).is_some());
        assert_eq!(visits.add(measured((0, 2), 1, 10_000, 500)), None);
    }
}
