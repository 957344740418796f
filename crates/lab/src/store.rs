//! The run store: one directory per run, written completely or not at all.
//!
//! ```text
//!   $HAIRPIN_RUNS/                          else $XDG_DATA_HOME/hairpin/runs, else ~/.local/share/hairpin/runs
//!     20261120-115007-4c1f/run.json         UTC date and time of the run's start, and the fraction of its second in hex
//!     .tmp-x7Gh2k/                          being written or removed, and locked (flock(2)) while a process works on it; renamed when all of it is on the disk
//! ```
//! A directory without a lock was left by a killed process; it is removed at the next write or listing of the store, unless it
//! holds something that is not of the store. Ids sort by time, so the last one is the latest run.

mod id;

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hairpin_record::any::{AnyRecord, ParseError};
use hairpin_record::head::{Body, Record};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::Serialize;

use hairpin_session::printable::printable;
use hairpin_units::Arrange;

pub use id::RunId;

/// The environment variable with the store's directory.
pub const VARIABLE: &str = "HAIRPIN_RUNS";
/// The file with the record in a run's directory.
pub const RECORD: &str = "run.json";
/// Largest record in bytes; a larger file is not read.
pub const MAX_RECORD: u64 = 64 << 20;

const TEMPORARY: &str = ".tmp-";
/// A new temporary directory is locked within this time.
const UNLOCKED: Duration = Duration::from_secs(60);
/// Where files cannot be locked, a writer that has not finished within this time was killed.
const STALE: Duration = Duration::from_secs(24 * 3600);
/// Number of ids to try before the store counts as full of runs of one moment.
const MAX_TRIES: u32 = 256;
/// Most runs named when a text is ambiguous.
const NAMED: usize = 8;
/// Most runs suggested when a text matches none.
const NEAREST: usize = 3;

/// The runs kept on this host.
#[derive(Clone, Debug)]
pub struct Store {
    dir: PathBuf,
}

/// A run in the store; its record, or why it cannot be read.
#[derive(Debug)]
pub struct Entry {
    pub id: RunId,
    pub record: Result<AnyRecord, LoadError>,
}

/// The run of a RUN on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunFile {
    /// Its id, if it is in the store.
    pub id: Option<RunId>,
    /// The file with its record.
    pub file: PathBuf,
}

/// Neither a directory for runs nor a home directory is known.
#[derive(Debug, thiserror::Error)]
#[error(
    "there is no place for runs: neither $HAIRPIN_RUNS, $XDG_DATA_HOME nor $HOME is set; set HAIRPIN_RUNS to a directory, or use --no-store"
)]
pub struct NoHome;

/// Reason for a run that was not stored. Nothing of it stays in the store.
#[derive(Debug, thiserror::Error)]
pub enum SaveError {
    /// The store cannot be written.
    #[error("cannot store the run in {}: {source}; set $HAIRPIN_RUNS to a directory that you may write and that has space, or use --no-store", dir.display())]
    Write {
        /// The store's directory.
        dir: PathBuf,
        source: io::Error,
    },
    /// The record cannot be written as JSON.
    #[error("the run has no JSON form: {0}; please report this")]
    Encode(serde_json::Error),
    /// The record could not be read again.
    #[error(
        "its record has {bytes} bytes, and none of more than {MAX_RECORD} is read again; measure for less time, or keep it for other programs with --json > FILE"
    )]
    TooLarge {
        /// Its length.
        bytes: usize,
    },
}

/// Why the store could not be listed.
#[derive(Debug, thiserror::Error)]
#[error("cannot list the runs in {}: {source}; set $HAIRPIN_RUNS to the directory that holds them", dir.display())]
pub struct ListError {
    /// The store's directory.
    pub dir: PathBuf,
    pub source: io::Error,
}

/// Why a record could not be read.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file cannot be read.
    #[error("cannot read {}: {source}", file.display())]
    Read {
        file: PathBuf,
        /// The error of open(2) or read(2).
        source: io::Error,
    },
    /// The file is larger than any record.
    #[error("{} is larger than {MAX_RECORD} bytes, so it is not a run's record", file.display())]
    TooLarge {
        /// The file.
        file: PathBuf,
    },
    /// The file holds no record, or one of a later major version.
    #[error("{} is not the record of a run: {}; remove it with `hairpin runs rm` if it is in the store", file.display(), printable(&source.to_string(), 600))]
    Corrupt {
        file: PathBuf,
        /// The fault in it.
        source: ParseError,
    },
}

/// Why a text does not resolve to a run.
#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    /// The store holds no runs.
    #[error("there is no run in {} yet; make one with `hairpin ping HOST`", dir.display())]
    Empty {
        /// The store's directory.
        dir: PathBuf,
    },
    /// The run was named by its age, and the store holds fewer runs.
    #[error("\"{text}\" is older than all: the store holds {there}; see `hairpin runs list`")]
    TooOld {
        /// The text given.
        text: String,
        /// The number of runs in the store.
        there: usize,
    },
    /// Several ids begin with the text.
    #[error("\"{text}\" could be {}; write more of the id", one_of(candidates))]
    Ambiguous {
        /// The text given.
        text: String,
        /// Every id that begins with it.
        candidates: Vec<RunId>,
    },
    /// No id begins with the text, and there is no such file or directory.
    #[error(
        "no run is called \"{text}\", and there is no such file; the nearest are {}; see `hairpin runs list`",
        one_of(nearest)
    )]
    Unknown {
        /// The text given.
        text: String,
        /// The ids with the longest common prefix, latest first.
        nearest: Vec<RunId>,
    },
    /// The text is a path, and nothing exists there.
    #[error("{} is neither a run's JSON file nor a run's directory: {source}", path.display())]
    NoFile {
        /// The path given.
        path: PathBuf,
        source: io::Error,
    },
    /// The store cannot be read.
    #[error(transparent)]
    List(#[from] ListError),
}

/// Why a run was not removed.
#[derive(Debug, thiserror::Error)]
#[error("cannot remove {id} from {}: {source}", dir.display())]
pub struct RemoveError {
    pub id: RunId,
    /// The store's directory.
    pub dir: PathBuf,
    pub source: io::Error,
}

/// The default directory of runs: `$HAIRPIN_RUNS`, else `$XDG_DATA_HOME/hairpin/runs`, else `~/.local/share/hairpin/runs`.
pub fn default_dir() -> Result<PathBuf, NoHome> {
    dir_from(|name| std::env::var_os(name))
}

fn dir_from(variable: impl Fn(&str) -> Option<OsString>) -> Result<PathBuf, NoHome> {
    let path = |name| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(dir) = path(VARIABLE) {
        return Ok(dir);
    }
    // The XDG base directory specification requires relative paths to be ignored.
    let data = path("XDG_DATA_HOME").filter(|dir| dir.is_absolute());
    let data = data.or_else(|| path("HOME").map(|home| home.join(".local/share"))).ok_or(NoHome)?;
    Ok(data.join("hairpin/runs"))
}

impl Store {
    /// The store in `dir`, which need not exist until the first run is saved.
    pub fn open(dir: impl Into<PathBuf>) -> Store {
        Store { dir: dir.into() }
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The file with a run's record.
    pub fn file(&self, id: &RunId) -> PathBuf {
        self.dir.join(id).join(RECORD)
    }

    /// Stores a run. The record is on the disk before the run has a name, so a crash or a full disk leaves no partial run.
    /// Removes leftovers of killed writers.
    pub fn save<B: Body + Serialize>(&self, record: &Record<B>) -> Result<RunId, SaveError> {
        let started = RunId::at(&record.head.started);
        let mut record = serde_json::to_vec(record).map_err(SaveError::Encode)?;
        record.push(b'\n');
        if record.len() as u64 > MAX_RECORD {
            return Err(SaveError::TooLarge { bytes: record.len() });
        }
        self.write(&record, started).map_err(|source| SaveError::Write { dir: self.dir.clone(), source })
    }

    fn write(&self, record: &[u8], mut id: RunId) -> io::Result<RunId> {
        fs::create_dir_all(&self.dir)?;
        self.remove_stale();
        let (temporary, _lock) = self.temporary()?;
        let mut file = File::create_new(temporary.path().join(RECORD))?;
        file.write_all(record)?;
        file.sync_all()?;
        sync_directory(temporary.path())?;
        for _ in 0..MAX_TRIES {
            // A run's directory is never empty, so the rename fails if this id is taken.
            match fs::rename(temporary.path(), self.dir.join(&id)) {
                Ok(()) => {
                    let _renamed = temporary.keep();
                    // The run is in place, even if the file system cannot sync a directory.
                    let _ = File::open(&self.dir).and_then(|dir| dir.sync_all());
                    return Ok(id);
                }
                Err(e) if matches!(Errno::from_io_error(&e), Some(Errno::NOTEMPTY | Errno::EXIST)) => id = id.next(),
                Err(e) => return Err(e),
            }
        }
        Err(io::Error::other(format!("{MAX_TRIES} runs of the same moment are there already")))
    }

    /// All runs, the latest last; an unreadable one is listed with the reason. Each is read on demand, so a store of thousands is
    /// never in memory at once.
    pub fn list(&self) -> Result<impl DoubleEndedIterator<Item = Entry> + use<'_>, ListError> {
        self.remove_stale();
        Ok(self.ids()?.into_iter().map(|id| Entry { record: load(&self.file(&id)), id }))
    }

    /// True if no run of the store began after the one with this id, which need not be there yet. False if the store cannot be read.
    #[must_use]
    pub fn is_latest(&self, id: &RunId) -> bool {
        self.ids().is_ok_and(|ids| ids.last().is_none_or(|last| last <= id))
    }

    /// The ids of all runs, the latest last; empty if the store does not exist.
    pub fn ids(&self) -> Result<Vec<RunId>, ListError> {
        let names = || match fs::read_dir(&self.dir) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            entries => entries?.map(|entry| Ok(entry?.file_name())).collect::<io::Result<Vec<_>>>(),
        };
        let names = names().map_err(|source| ListError { dir: self.dir.clone(), source })?;
        let mut ids: Vec<RunId> = names.iter().filter_map(|name| RunId::parse(name.to_str()?)).collect();
        ids.arrange_by(Ord::cmp);
        Ok(ids)
    }

    /// Resolves a RUN: a run by its age, a run's id or a unique prefix of one, a run's directory, or a JSON file. A text with a
    /// slash is always a path; any other text is tried as a run first.
    pub fn resolve(&self, text: &str) -> Result<RunFile, ResolveError> {
        if text.contains('/') {
            return self.resolve_path(Path::new(text));
        }
        let ids = self.ids()?;
        if let Some(before) = before_the_latest(text) {
            let there = ids.len();
            let id = ids.into_iter().rev().nth(before).ok_or_else(|| match there {
                0 => ResolveError::Empty { dir: self.dir.clone() },
                _ => ResolveError::TooOld { text: text.into(), there },
            })?;
            return Ok(self.found(id));
        }
        let mut candidates: Vec<RunId> =
            ids.iter().filter(|id| !text.is_empty() && id.as_str().starts_with(text)).cloned().collect();
        if candidates.len() > 1 {
            return Err(ResolveError::Ambiguous { text: text.into(), candidates });
        }
        if let Some(id) = candidates.pop() {
            return Ok(self.found(id));
        }
        match self.resolve_path(Path::new(text)) {
            Ok(found) => Ok(found),
            Err(_) if ids.is_empty() => Err(ResolveError::Empty { dir: self.dir.clone() }),
            Err(_) => Err(ResolveError::Unknown { text: text.into(), nearest: nearest(text, ids) }),
        }
    }

    fn resolve_path(&self, path: &Path) -> Result<RunFile, ResolveError> {
        let no_file = |source| ResolveError::NoFile { path: path.into(), source };
        let is_dir = fs::metadata(path).map_err(no_file)?.is_dir();
        let file = if is_dir { path.join(RECORD) } else { path.into() };
        fs::metadata(&file).map_err(no_file)?;
        let id = if is_dir { self.id_of(path) } else { None };
        Ok(RunFile { id, file })
    }

    /// The id of a directory, however written, that is a run in this store.
    fn id_of(&self, dir: &Path) -> Option<RunId> {
        let dir = dir.canonicalize().ok()?;
        let here = self.dir.canonicalize().ok()? == dir.parent()?;
        RunId::parse(dir.file_name()?.to_str()?).filter(|_| here)
    }

    fn found(&self, id: RunId) -> RunFile {
        RunFile { file: self.file(&id), id: Some(id) }
    }

    /// Removes a run. It leaves the store at once and completely, even if this process is killed half way.
    pub fn remove(&self, id: &RunId) -> Result<(), RemoveError> {
        let remove = || match self.temporary() {
            Ok((temporary, _lock)) => {
                fs::rename(self.dir.join(id), temporary.path().join(id))?;
                temporary.close()
            }
            // A full disk or quota has no room for a directory more.
            Err(error) if matches!(Errno::from_io_error(&error), Some(Errno::NOSPC | Errno::DQUOT)) => self.remove_in_place(id),
            Err(error) => Err(error),
        };
        remove().map_err(|source| RemoveError { id: id.clone(), dir: self.dir.clone(), source })
    }

    /// Removes a run without a directory of its own for that. If this process is killed half way, the rest goes as a leftover.
    fn remove_in_place(&self, id: &RunId) -> io::Result<()> {
        let leaving = self.dir.join(format!("{TEMPORARY}{id}"));
        fs::rename(self.dir.join(id), &leaving)?;
        match fs::remove_dir_all(leaving) {
            // Another process took it for a leftover.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }

    /// A temporary directory of this process, locked.
    fn temporary(&self) -> io::Result<(tempfile::TempDir, File)> {
        // The umask applies, as for any directory that a user creates.
        let mode = fs::Permissions::from_mode(0o777);
        let temporary = tempfile::Builder::new().prefix(TEMPORARY).permissions(mode).tempdir_in(&self.dir)?;
        let lock = File::open(temporary.path())?;
        // Where files cannot be locked, it stays for a day after a kill.
        let _ = flock(&lock, FlockOperation::NonBlockingLockExclusive);
        Ok((temporary, lock))
    }

    /// Removes leftovers of killed processes. An error here must not prevent a run from being stored or listed.
    fn remove_stale(&self) {
        for entry in fs::read_dir(&self.dir).into_iter().flatten().flatten() {
            let (name, path) = (entry.file_name(), entry.path());
            if name.to_string_lossy().starts_with(TEMPORARY) && is_ours(&path) && is_stale(&path).unwrap_or(false) {
                let _ = fs::remove_dir_all(path);
            }
        }
    }
}

/// Syncs a directory, as far as its file system can: those of AFS, of 9p and of a VirtualBox folder have no fsync(2) for one.
fn sync_directory(directory: &Path) -> io::Result<()> {
    match File::open(directory)?.sync_all() {
        Err(error) if matches!(Errno::from_io_error(&error), Some(Errno::INVAL | Errno::OPNOTSUPP)) => Ok(()),
        synced => synced,
    }
}

/// True if this directory holds only what a writer or a remover of runs puts there: others may use the name in the user's own
/// directory.
fn is_ours(temporary: &Path) -> bool {
    let ours = |name: &OsStr| name == RECORD || name.to_str().and_then(RunId::parse).is_some();
    fs::read_dir(temporary).is_ok_and(|mut entries| entries.all(|entry| entry.is_ok_and(|entry| ours(&entry.file_name()))))
}

/// True if no process uses this directory any more.
fn is_stale(temporary: &Path) -> io::Result<bool> {
    let directory = File::open(temporary)?;
    let age = directory.metadata()?.modified()?.elapsed().unwrap_or_default();
    Ok(match flock(&directory, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => age > UNLOCKED,
        Err(Errno::WOULDBLOCK) => false,
        Err(_) => age > STALE,
    })
}

/// Reads the record of a run in the store; the last one if the file holds several.
fn load(file: &Path) -> Result<AnyRecord, LoadError> {
    load_all(file)?.pop().ok_or_else(|| LoadError::Corrupt { file: file.into(), source: ParseError::Empty })
}

/// Reads all records of a file, at least one.
pub(crate) fn load_all(file: &Path) -> Result<Vec<AnyRecord>, LoadError> {
    AnyRecord::all(&read(file)?).map_err(|source| LoadError::Corrupt { file: file.into(), source })
}

/// Reads a record's file.
fn read(file: &Path) -> Result<Vec<u8>, LoadError> {
    let read = || {
        let mut record = Vec::new();
        File::open(file)?.take(MAX_RECORD + 1).read_to_end(&mut record)?;
        Ok(record)
    };
    let record = read().map_err(|source| LoadError::Read { file: file.into(), source })?;
    if record.len() as u64 > MAX_RECORD { Err(LoadError::TooLarge { file: file.into() }) } else { Ok(record) }
}

/// The number of runs later than a RUN named by its age: none for `latest` and `last`, one for `latest~1` (or `latest-1`). `-1`
/// is the last run, `-2` the one before. `None` for other texts.
pub fn before_the_latest(text: &str) -> Option<usize> {
    let number = |digits: &str| digits.parse::<usize>().ok().filter(|_| digits.bytes().all(|digit| digit.is_ascii_digit()));
    if let Some(from_the_end) = text.strip_prefix('-') {
        return number(from_the_end)?.checked_sub(1);
    }
    let age = text.strip_prefix("latest").or_else(|| text.strip_prefix("last"))?;
    if age.is_empty() { Some(0) } else { number(age.strip_prefix(['~', '-'])?) }
}

/// The ids with the longest common prefix with `text`, the latest first among equals.
fn nearest(text: &str, mut ids: Vec<RunId>) -> Vec<RunId> {
    let shared = |id: &RunId| id.as_str().bytes().zip(text.bytes()).take_while(|(a, b)| a == b).count();
    ids.arrange_by_key(|id| std::cmp::Reverse((shared(id), id.clone())));
    ids.truncate(NEAREST);
    ids
}

fn one_of(ids: &[RunId]) -> String {
    let named = ids.iter().take(NAMED).map(RunId::as_str).collect::<Vec<_>>().join(", ");
    if ids.len() > NAMED { format!("{named} or {} more", ids.len() - NAMED) } else { named }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::os::unix::fs::symlink;
    use std::time::SystemTime;

    use hairpin_record::run::Run;

    fn run(started: &str) -> Run {
        serde_json::from_value(serde_json::json!({
            "schema": Run::SCHEMA, "tool": "hairpin 0.1.0", "command": ["hairpin", "ping"], "started": started, "interrupted": false,
            "error": null, "hosts": { "client": { "hostname": "a", "kernel": "6.12" }, "server": null },
            "link": { "kind": "loopback", "interface": "lo", "mtu": 65536, "peer": null },
            "clock": { "source": "tsc", "cost_ns": 20.5, "step_ns": 1.0, "ticks_per_s": 2.5e9, "drift_ppb": null }, "results": [],
        }))
        .unwrap()
    }

    fn as_any(started: &str) -> AnyRecord {
        AnyRecord::Run(Box::new(run(started)))
    }

    /// A store with one run at each of these seconds.
    fn store(seconds: &[u32]) -> (tempfile::TempDir, Store, Vec<RunId>) {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path().join("deep/runs"));
        let ids = seconds.iter().map(|s| store.save(&run(&format!("2026-11-20T11:50:{s:02}.000000Z"))).unwrap()).collect();
        (dir, store, ids)
    }

    fn names(dir: &Path) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn saved_runs_are_listed_latest_last() {
        let (_dir, store, ids) = store(&[30, 10, 20]);
        let entries: Vec<Entry> = store.list().unwrap().collect();
        assert_eq!(entries.iter().map(|e| &e.id).collect::<Vec<_>>(), [&ids[1], &ids[2], &ids[0]]);
        assert_eq!(entries[0].record.as_ref().unwrap(), &as_any("2026-11-20T11:50:10.000000Z"));
        assert_eq!(names(store.dir()).len(), 3, "nothing temporary is left");
    }

    #[test]
    fn the_latest_run_is_the_one_that_began_last() {
        let (_dir, store, ids) = store(&[20, 10]);
        assert_eq!([&ids[0], &ids[1]].map(|id| store.is_latest(id)), [true, false]);
        let at = |second| RunId::at(&format!("2026-11-20T11:50:{second}.000000Z"));
        assert_eq!([at(15), at(25)].map(|id| store.is_latest(&id)), [false, true]);
        assert!(Store::open(store.dir().join("none")).is_latest(&at(10)));
    }

    #[test]
    fn a_directory_that_cannot_be_synced_keeps_no_run_from_being_stored() {
        // Those of /proc have no fsync(2).
        assert!(sync_directory(Path::new("/proc/self")).is_ok());
        assert!(sync_directory(Path::new("/proc/self/none")).is_err());
    }

    #[test]
    fn a_run_is_removed_from_a_full_disk() {
        let (_dir, store, ids) = store(&[10, 20]);
        store.remove_in_place(&ids[0]).unwrap();
        assert_eq!(store.ids().unwrap(), ids[1..]);
        assert_eq!(names(store.dir()).len(), 1, "nothing temporary is left");
        let elsewhere = tempfile::tempdir().unwrap();
        fs::write(elsewhere.path().join("precious"), "").unwrap();
        std::os::unix::fs::symlink(elsewhere.path(), store.dir().join(&ids[0])).unwrap();
        store.remove_in_place(&ids[0]).unwrap();
        assert!(elsewhere.path().join("precious").exists() && names(store.dir()).len() == 1);
    }

    #[test]
    fn two_runs_of_one_moment_are_both_kept() {
        let (_dir, store, ids) = store(&[10, 10, 10]);
        assert_eq!(
            ids.iter().map(RunId::as_str).collect::<Vec<_>>(),
            ["20261120-115010-0000", "20261120-115010-0001", "20261120-115010-0002"]
        );
        assert_eq!(store.ids().unwrap(), ids);
    }

    #[test]
    fn leftovers_of_killed_writers_are_not_listed_and_are_removed() {
        let (_dir, store, ids) = store(&[10]);
        let half = |name: &str, age| {
            let dir = store.dir().join(name);
            fs::create_dir(&dir).unwrap();
            fs::write(dir.join(RECORD), "{").unwrap();
            let opened = File::open(&dir).unwrap();
            opened.set_modified(SystemTime::now() - age).unwrap();
            opened
        };
        drop(half(".tmp-killed", UNLOCKED + Duration::from_secs(60)));
        // One about to be locked, and one locked by a slow writer.
        drop(half(".tmp-new", Duration::from_secs(1)));
        let slow = half(".tmp-slow", 2 * STALE);
        flock(&slow, FlockOperation::NonBlockingLockExclusive).unwrap();
        assert_eq!(store.ids().unwrap(), ids);
        assert_eq!(store.list().unwrap().count(), 1);
        assert_eq!(names(store.dir()), [".tmp-new", ".tmp-slow", ids[0].as_str()], "listed");
        drop(slow);
        let second = store.save(&run("2026-11-20T11:50:20.000000Z")).unwrap();
        assert_eq!(names(store.dir()), [".tmp-new", ids[0].as_str(), second.as_str()], "stored");
    }

    #[test]
    fn a_directory_of_another_program_stays() {
        let (_dir, store, _) = store(&[10]);
        let other = store.dir().join(".tmp-other");
        fs::create_dir(&other).unwrap();
        fs::write(other.join("precious"), "").unwrap();
        File::open(&other).unwrap().set_modified(SystemTime::now() - 2 * STALE).unwrap();
        assert_eq!(store.list().unwrap().count(), 1);
        store.save(&run("2026-11-20T11:50:20.000000Z")).unwrap();
        assert!(other.join("precious").exists());
    }

    #[test]
    fn run_being_written_is_locked() {
        let (_dir, store, _) = store(&[10]);
        let (temporary, lock) = store.temporary().unwrap();
        lock.set_modified(SystemTime::now() - 2 * STALE).unwrap();
        store.remove_stale();
        assert!(temporary.path().exists());
        drop(lock);
        store.remove_stale();
        assert!(!temporary.path().exists());
    }

    #[test]
    fn an_unwritable_store_is_reported_with_the_remedy() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = Store::open(file.path().join("runs")).save(&run("")).unwrap_err().to_string();
        assert!(error.contains("set $HAIRPIN_RUNS") && error.contains("Not a directory"), "{error}");
    }

    #[test]
    fn a_record_too_large_to_be_read_again_is_not_stored() {
        let (_dir, store, ids) = store(&[10]);
        let mut large = run("2026-11-20T11:50:20.000000Z");
        large.head.command = vec!["x".repeat(MAX_RECORD as usize)];
        let error = store.save(&large).unwrap_err().to_string();
        assert!(error.contains("none of more than 67108864 is read again") && error.contains("--json > FILE"), "{error}");
        assert_eq!(store.ids().unwrap(), ids);
    }

    #[test]
    fn a_run_that_cannot_be_read_does_not_hide_the_others() {
        let (_dir, store, ids) = store(&[10, 20, 30, 40, 50]);
        fs::write(store.file(&ids[0]), "{\"schema\": \"hairpin.run/1\", ").unwrap();
        fs::write(store.file(&ids[1]), "{\"schema\": \"hairpin.run/2\"}").unwrap();
        fs::remove_file(store.file(&ids[2])).unwrap();
        File::create(store.file(&ids[3])).unwrap().set_len(MAX_RECORD + 1).unwrap();
        let entries: Vec<Entry> = store.list().unwrap().collect();
        assert!(matches!(entries[0].record, Err(LoadError::Corrupt { .. })));
        assert!(
            matches!(&entries[1].record, Err(LoadError::Corrupt { source: ParseError::Schema(found), .. }) if found == "hairpin.run/2")
        );
        assert!(matches!(entries[2].record, Err(LoadError::Read { .. })));
        assert!(matches!(entries[3].record, Err(LoadError::TooLarge { .. })));
        assert!(entries[4].record.is_ok());
        let text = entries[0].record.as_ref().unwrap_err().to_string();
        assert!(text.contains("20261120-115010-0000/run.json is not the record of a run"), "{text}");
    }

    #[test]
    fn a_run_is_found_by_id_prefix_latest_directory_and_file() {
        let (dir, store, ids) = store(&[10, 20]);
        let found = RunFile { id: Some(ids[1].clone()), file: store.file(&ids[1]) };
        for text in [ids[1].as_str(), "20261120-11502", "latest"] {
            assert_eq!(store.resolve(text).unwrap(), found, "{text}");
        }
        let directory = store.dir().join(&ids[1]);
        assert_eq!(store.resolve(directory.to_str().unwrap()).unwrap(), found);
        let copy = dir.path().join("copy.json");
        fs::copy(store.file(&ids[0]), &copy).unwrap();
        assert_eq!(store.resolve(copy.to_str().unwrap()).unwrap(), RunFile { id: None, file: copy.clone() });
        let elsewhere = dir.path().join(ids[0].as_str());
        fs::create_dir(&elsewhere).unwrap();
        fs::copy(&copy, elsewhere.join(RECORD)).unwrap();
        assert_eq!(store.resolve(elsewhere.to_str().unwrap()).unwrap().id, None, "an id's form outside the store is no id");
    }

    #[test]
    fn a_run_is_found_by_its_age() {
        let (_dir, store, ids) = store(&[10, 20, 30]);
        for (text, at) in
            [("latest", 2), ("last", 2), ("latest~0", 2), ("latest~1", 1), ("latest-2", 0), ("last~1", 1), ("-1", 2), ("-3", 0)]
        {
            assert_eq!(store.resolve(text).unwrap().id.as_ref(), Some(&ids[at]), "{text}");
        }
        for text in ["latest~3", "-4"] {
            assert!(store.resolve(text).unwrap_err().to_string().contains("the store holds 3"), "{text}");
        }
        for text in ["-0", "latest~", "latest~x", "latest+1", "lastly", "-"] {
            assert_eq!(before_the_latest(text), None, "{text}");
        }
    }

    #[test]
    fn unknown_run_error_lists_the_nearest() {
        let (_dir, store, _) = store(&[10, 20, 30]);
        let text = |run| store.resolve(run).unwrap_err().to_string();
        assert_eq!(
            text("2026"),
            "\"2026\" could be 20261120-115010-0000, 20261120-115020-0000, 20261120-115030-0000; write more of the id"
        );
        assert!(
            text("20261120-115021").contains("the nearest are 20261120-115020-0000, 20261120-115030-0000"),
            "{}",
            text("20261120-115021")
        );
        assert!(text("./none.json").contains("neither a run's JSON file nor a run's directory"));
        assert!(matches!(store.resolve(""), Err(ResolveError::Unknown { .. })));
        let empty = Store::open("/nonexistent/runs");
        for run in ["latest", "2026"] {
            assert!(matches!(empty.resolve(run), Err(ResolveError::Empty { .. })));
        }
        assert_eq!(empty.list().unwrap().count(), 0);
    }

    #[test]
    fn a_removed_run_is_gone_and_nothing_else() {
        let (dir, store, ids) = store(&[10, 20]);
        let kept = dir.path().join("kept");
        fs::write(&kept, "").unwrap();
        symlink(&kept, store.dir().join(&ids[0]).join("link")).unwrap();
        store.remove(&ids[0]).unwrap();
        assert_eq!(names(store.dir()), [ids[1].as_str()]);
        assert!(kept.exists());
        assert!(store.remove(&ids[0]).is_err());
    }

    #[test]
    fn the_place_for_runs_follows_the_environment() {
        let dir = |set: &[(&str, &str)]| {
            dir_from(|name| set.iter().find(|(n, _)| *n == name).map(|(_, value)| value.into()))
                .map(|dir| dir.to_str().unwrap().to_owned())
        };
        let (runs, data, home) = (("HAIRPIN_RUNS", "here"), ("XDG_DATA_HOME", "/data"), ("HOME", "/home/a"));
        assert_eq!(dir(&[runs, data, home]).unwrap(), "here");
        assert_eq!(dir(&[("HAIRPIN_RUNS", ""), data, home]).unwrap(), "/data/hairpin/runs");
        assert_eq!(dir(&[("XDG_DATA_HOME", "relative"), home]).unwrap(), "/home/a/.local/share/hairpin/runs");
        assert!(dir(&[]).unwrap_err().to_string().contains("set HAIRPIN_RUNS"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_run_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200), at in 0usize..400) {
            let dir = tempfile::tempdir().unwrap();
            let file = dir.path().join("run.json");
            let mut record = serde_json::to_vec(&run("now")).unwrap();
            let at = at.min(record.len());
            record.splice(at..(at + bytes.len()).min(record.len()), bytes);
            fs::write(&file, record).unwrap();
            let _ = load(&file);
        }

        #[test]
        fn any_text_resolves_or_is_refused(text in "[0-9a-f./-]{0,24}") {
            let _ = Store::open("/nonexistent").resolve(&text);
        }
    }
}
