//! Pairs, one after the other, until a cell has enough: hairpin, the other, hairpin again.
//!
//! ```text
//!   H ── other ── H      the cores' distance must be the same in both H, else the pair is dropped and its last H begins the next
//! ```

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;
use std::time::SystemTime;

use hairpin_session::time::rfc3339;
use hairpin_sys::signal::Signals;

use super::super::record::Stop;
use super::pairs::{Attempt, Hairpin};

/// Runs of the other tool that are made ready together.
const TOGETHER: usize = 4;

/// Failures in a row that end a cell.
const PATIENCE: usize = 5;

/// Ends the benchmark if somebody asked for that.
pub(crate) fn check(signals: &Signals) -> Result<(), Stop> {
    match signals.next() {
        Ok(None) => Ok(()),
        Ok(Some(_)) => Err(Stop::Interrupted),
        Err(e) => Err(Stop::Failed(format!("signals: {e}"))),
    }
}

/// The attempts so far, in memory and as lines of a file.
pub(crate) struct Journal {
    file: File,
    /// In the order made.
    pub(crate) attempts: Vec<Attempt>,
}

impl Journal {
    /// Opens `path`: with `resume` what it holds of this `build` counts, without it it begins anew.
    pub(crate) fn open(path: &Path, build: &str, resume: bool) -> Result<Journal, String> {
        let told = |e: std::io::Error| format!("{}: {e}", path.display());
        let mut attempts: Vec<Attempt> = Vec::new();
        if resume && path.exists() {
            for line in BufReader::new(File::open(path).map_err(told)?).lines() {
                // A line cut short by a kill is no attempt.
                let attempt: Option<Attempt> = serde_json::from_str(&line.map_err(told)?).ok();
                attempts.extend(attempt.filter(|attempt| attempt.build == build));
            }
        }
        let file = OpenOptions::new().create(true).write(true).truncate(true).open(path).map_err(told)?;
        let mut journal = Journal { file, attempts: Vec::new() };
        attempts.into_iter().try_for_each(|attempt| journal.add(attempt))?;
        Ok(journal)
    }

    fn add(&mut self, attempt: Attempt) -> Result<(), String> {
        let line = serde_json::to_string(&attempt).map_err(|e| e.to_string())?;
        writeln!(self.file, "{line}").map_err(|e| format!("cannot write the record: {e}"))?;
        self.attempts.push(attempt);
        Ok(())
    }

    /// Pairs kept and attempts made of `cell`.
    pub(crate) fn count(&self, cell: &str) -> (usize, usize) {
        let own = || self.attempts.iter().filter(|attempt| attempt.cell == cell);
        (own().filter(|attempt| attempt.is_kept()).count(), own().count())
    }
}

/// How many pairs of what.
pub(crate) struct Wanted<'a> {
    /// The cell's name.
    pub(crate) cell: String,
    /// The build of hairpin.
    pub(crate) build: &'a str,
    /// Pairs to keep.
    pub(crate) pairs: usize,
    /// Attempts at most.
    pub(crate) attempts: usize,
}

/// Measures pairs of a cell until there are enough, as many were tried as may be, or too many failed in a row. `ready` makes up to so many runs of
/// the other ready, `other` runs one of them and returns its median RTT in ns.
pub(crate) fn pairs<R>(
    wanted: &Wanted<'_>,
    journal: &mut Journal,
    signals: &Signals,
    mut hairpin: impl FnMut() -> Result<Hairpin, String>,
    mut ready: impl FnMut(usize) -> Result<Vec<R>, String>,
    mut other: impl FnMut(R) -> Result<f64, String>,
) -> Result<(), Stop> {
    let mut waiting = VecDeque::new();
    let mut failures = 0;
    // The last run of a dropped pair is the first of the next; kept pairs share none.
    let mut carried: Option<Hairpin> = None;
    loop {
        let (kept, tried) = journal.count(&wanted.cell);
        if kept >= wanted.pairs || tried >= wanted.attempts || failures >= PATIENCE {
            return Ok(());
        }
        check(signals)?;
        let mut attempt = Attempt {
            cell: wanted.cell.clone(),
            at: rfc3339(SystemTime::now()),
            build: wanted.build.to_owned(),
            hairpin: Vec::new(),
            other_p50_ns: None,
            error: None,
        };
        // With one left for this attempt, the next ones get ready while it runs.
        let many = (wanted.pairs - kept).min(TOGETHER);
        let prepared =
            if waiting.len() <= 1 && waiting.len() < many { ready(many).map(|more| waiting.extend(more)) } else { Ok(()) };
        let steps = || -> Result<(), String> {
            prepared?;
            let before = match carried.take() {
                Some(before) => before,
                None => hairpin()?,
            };
            let usable = before.state.is_one();
            attempt.hairpin.push(before);
            if usable {
                attempt.other_p50_ns = Some(other(waiting.pop_front().ok_or("no run of the other is ready")?)?);
                attempt.hairpin.push(hairpin()?);
            }
            Ok(())
        };
        match steps() {
            Ok(()) => failures = 0,
            Err(why) => {
                check(signals)?;
                eprintln!("{}: {why}", wanted.cell);
                attempt.error = Some(why);
                failures += 1;
            }
        }
        if !attempt.is_kept() && attempt.hairpin.len() == 2 {
            carried = attempt.hairpin.last().filter(|after| after.state.is_one()).cloned();
        }
        journal.add(attempt)?;
    }
}
