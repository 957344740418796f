//! Keeps the rounds of a running sweep, so that they survive a crash: one line of JSON per complete round.
//!
//! ```text
//!   STORE/sweeps/4c1f….jsonl     {"key": …, "seed": …, "started": …}      the plan, the link, the host, the code: another one has another file
//!                                {"elapsed_ns": …, "round": …}            on the disk before the next round begins
//!                                {"elapsed_ns": …, "ro                    cut off: it does not count, and the next line takes its place
//! ```

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use hairpin_units::Nanos;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::experiment::rounds::Round;
use hairpin_session::time::rfc3339;

/// Why rounds cannot be kept.
#[derive(Debug, thiserror::Error)]
pub enum SavedSweepError {
    /// The file cannot be read or written.
    #[error("cannot keep the rounds of the sweep in {}: {source}; set $HAIRPIN_RUNS to a directory that you may write and that has space, or use --no-store: a sweep that is stopped begins anew then", file.display())]
    File {
        file: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// Another process runs this sweep.
    #[error("the same sweep is under way in another process; wait for its end, or change the plan")]
    Busy,
}

/// A file that no sweep has gone on with for this long is removed: an update of Hairpin or of the kernel gives the same plan another
/// one.
const FORGOTTEN: Duration = Duration::from_secs(30 * 24 * 60 * 60);

#[derive(Serialize, Deserialize)]
struct Head {
    key: String,
    seed: u64,
    started: String,
}

/// A round, and when it was complete.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Line {
    /// Measuring time until the round was complete, over all attempts.
    pub(crate) elapsed_ns: u64,
    pub(crate) length_ns: u64,
    pub(crate) round: Round,
}

/// The rounds of earlier attempts.
#[derive(Debug, Default)]
pub(crate) struct Before {
    pub(crate) seed: u64,
    pub(crate) started: Option<String>,
    pub(crate) elapsed: Duration,
    pub(crate) length: Option<Nanos>,
    pub(crate) rounds: Vec<Round>,
}

/// The file of a running sweep.
#[derive(Debug)]
pub(crate) struct SavedSweep {
    file: File,
    path: PathBuf,
}

impl SavedSweep {
    /// Opens the file of the sweep with this key in the store, and reads its complete lines.
    pub(crate) fn open(store: &Path, key: &str, seed: u64, restart: bool) -> Result<(SavedSweep, Before), SavedSweepError> {
        let path = store.join("sweeps").join(format!("{:016x}.jsonl", hash(key)));
        let opened = || {
            fs::create_dir_all(store.join("sweeps"))?;
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path)
        };
        let file = opened().map_err(|source| SavedSweepError::File { file: path.clone(), source })?;
        // Where files cannot be locked, another sweep of this plan is not noticed.
        if flock(&file, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
            return Err(SavedSweepError::Busy);
        }
        let mut kept = SavedSweep { file, path };
        kept.remove_forgotten();
        let before = kept.read(key, seed, restart).map_err(|source| kept.failed(source))?;
        Ok((kept, before))
    }

    /// Removes the files of other sweeps that were given up. An error here must not prevent a sweep.
    fn remove_forgotten(&self) {
        let Some(sweeps) = self.path.parent() else { return };
        for entry in fs::read_dir(sweeps).into_iter().flatten().flatten() {
            let path = entry.path();
            if path == self.path || !is_ours(&path) {
                continue;
            }
            let is_old = |file: &File| file.metadata()?.modified().map(|at| at.elapsed().is_ok_and(|age| age > FORGOTTEN));
            let Ok(file) = File::open(&path) else { continue };
            if is_old(&file).unwrap_or(false) && flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
                let _ = fs::remove_file(path);
            }
        }
    }

    fn failed(&self, source: io::Error) -> SavedSweepError {
        SavedSweepError::File { file: self.path.clone(), source }
    }

    fn read(&mut self, key: &str, seed: u64, restart: bool) -> io::Result<Before> {
        // Line by line: the rounds of a day are gigabytes of text.
        let (mut lines, mut line) = (BufReader::new(&self.file), Vec::new());
        lines.read_until(b'\n', &mut line)?;
        let Some(head) = whole::<Head>(&line).filter(|head| head.key == key && !restart) else {
            drop(lines);
            let head = Head { key: key.into(), seed, started: rfc3339(SystemTime::now()) };
            self.file.set_len(0)?;
            self.file.seek(SeekFrom::Start(0))?;
            self.write(&head)?;
            return Ok(Before { seed, started: Some(head.started), ..Before::default() });
        };
        let mut end = line.len() as u64;
        let mut before = Before { seed: head.seed, started: Some(head.started), ..Before::default() };
        loop {
            line.clear();
            lines.read_until(b'\n', &mut line)?;
            let Some(read) = whole::<Line>(&line) else { break };
            end += line.len() as u64;
            before.elapsed = Duration::from_nanos(read.elapsed_ns);
            before.length = Some(Nanos(read.length_ns));
            before.rounds.push(read.round);
        }
        drop(lines);
        self.file.set_len(end)?;
        self.file.seek(SeekFrom::End(0))?;
        Ok(before)
    }

    fn write(&mut self, value: &impl Serialize) -> io::Result<()> {
        let mut line = serde_json::to_vec(value)?;
        line.push(b'\n');
        self.file.write_all(&line)?;
        self.file.sync_data()
    }

    /// Adds a round, which is on the disk on return.
    pub(crate) fn add(&mut self, line: &Line) -> Result<(), SavedSweepError> {
        self.write(line).map_err(|source| self.failed(source))
    }

    /// Removes the file. If that fails, no harm is done: a sweep of the same plan would use it correctly.
    pub(crate) fn remove(self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// True for a file named as those of sweeps are.
fn is_ours(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_suffix(".jsonl"));
    name.is_some_and(|name| name.len() == 16 && name.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// A line, if it is complete.
fn whole<T: DeserializeOwned>(line: &[u8]) -> Option<T> {
    line.strip_suffix(b"\n").and_then(|line| serde_json::from_slice(line).ok())
}

/// FNV-1a: enough to give plans different file names; the key itself is in the file.
fn hash(key: &str) -> u64 {
    key.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use hairpin_record::experiment::ArmBlock;

    use super::*;
    use crate::experiment::rounds::Taken;

    fn line(number: u32) -> Line {
        let block = ArmBlock { round: number, transactions: 5, ..ArmBlock::default() };
        let taken = Taken { block, times: vec![(100, 5)], cores: vec![120], ..Taken::default() };
        Line { elapsed_ns: u64::from(number + 1) * 1_000, length_ns: 50, round: Round { taken: vec![taken.clone(), taken] } }
    }

    #[test]
    fn a_file_cut_anywhere_goes_on_after_its_last_whole_round() {
        let dir = tempfile::tempdir().unwrap();
        let (mut kept, before) = SavedSweep::open(dir.path(), "key", 7, false).unwrap();
        assert_eq!((before.rounds.len(), before.seed), (0, 7));
        (0..3).for_each(|number| kept.add(&line(number)).unwrap());
        let path = kept.path.clone();
        drop(kept);
        let whole = fs::read(&path).unwrap();
        let ends: Vec<usize> = whole.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1).collect();
        for cut in (0..=whole.len()).rev().step_by(7) {
            fs::write(&path, &whole[..cut]).unwrap();
            let (mut kept, before) = SavedSweep::open(dir.path(), "key", 8, false).unwrap();
            let rounds = ends.iter().filter(|end| **end <= cut).count().saturating_sub(1);
            assert_eq!(before.rounds.len(), rounds, "cut at {cut}");
            assert_eq!(before.seed, if cut >= ends[0] { 7 } else { 8 }, "the order goes on from its seed");
            kept.add(&line(9)).unwrap();
            drop(kept);
            let (_kept, before) = SavedSweep::open(dir.path(), "key", 8, false).unwrap();
            assert_eq!(before.rounds.len(), rounds + 1, "cut at {cut}");
            assert_eq!(before.rounds[rounds], line(9).round);
        }
    }

    #[test]
    fn a_sweep_that_was_given_up_is_removed_and_one_under_way_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let open = |key| SavedSweep::open(dir.path(), key, 7, false).unwrap().0;
        let (given_up, under_way, lately) = (open("a"), open("b"), open("c"));
        let other = dir.path().join("sweeps/notes.jsonl");
        fs::write(&other, "").unwrap();
        let then = SystemTime::now() - FORGOTTEN - Duration::from_secs(60);
        for file in [&given_up.file, &under_way.file, &File::open(&other).unwrap()] {
            file.set_modified(then).unwrap();
        }
        let paths = [&given_up, &under_way, &lately].map(|sweep| sweep.path.clone());
        drop((given_up, lately));
        let _new = open("d");
        assert_eq!(paths.map(|path| path.exists()), [false, true, true]);
        assert!(other.exists());
    }

    #[test]
    fn another_plan_has_another_file_and_one_process_has_it() {
        let dir = tempfile::tempdir().unwrap();
        let (mut kept, _) = SavedSweep::open(dir.path(), "key", 7, false).unwrap();
        kept.add(&line(0)).unwrap();
        assert!(matches!(SavedSweep::open(dir.path(), "key", 7, false), Err(SavedSweepError::Busy)));
        assert_eq!(SavedSweep::open(dir.path(), "other", 7, false).unwrap().1.rounds.len(), 0);
        drop(kept);
        assert_eq!(SavedSweep::open(dir.path(), "key", 7, false).unwrap().1.rounds.len(), 1);
        let (kept, before) = SavedSweep::open(dir.path(), "key", 9, true).unwrap();
        assert_eq!((before.rounds.len(), before.seed), (0, 9), "begun anew");
        kept.remove();
        assert_eq!(fs::read_dir(dir.path().join("sweeps")).unwrap().count(), 1);
    }
}
