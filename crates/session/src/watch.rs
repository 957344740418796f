//! Callbacks for the progress of a run.

use hairpin_plan::job::Job;
use hairpin_record::progress::Progress;
use hairpin_record::run::Row;
use hairpin_trace::halves::Half;
use hairpin_trace::moment::Hook;
use hairpin_units::Nanos;

use crate::message::{NicReport, Times};
use crate::time_source;

/// A watcher's request to a remote server's host when a block is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wants {
    Nothing,
    /// Its records of a traced block.
    Halves,
    /// Its stamps of a stamped block.
    Nics,
}

/// The report of a remote server's host on a block.
#[derive(Debug)]
pub enum Told {
    Nothing,
    /// The transactions as its hooks saw them.
    Halves(Vec<Half>),
    /// The transactions as its NIC, or its driver and stack, saw them.
    Nics(Box<NicReport>),
}

/// A change of a remote server's work for the blocks to come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Attach these hooks and no others.
    Hooks(Vec<&'static Hook>),
    /// Stamp the packets of every n-th transaction; 0: of none.
    Stamps(u32),
}

/// Receives the progress of a run, between measured intervals or about once a second.
pub trait Watcher {
    /// A row begins.
    fn begins(&mut self, _index: usize, _of: usize, _job: &Job) {}
    /// `flows` of the row's flows are open; told four times a second while more are being opened.
    fn opened(&mut self, _flows: u32) {}
    /// The flows of a row are open on both sides, and nothing is measured yet.
    ///
    /// # Errors
    /// Why the row must not be measured.
    fn ready(&mut self) -> Result<(), String> {
        Ok(())
    }
    /// The report wanted of a remote server's host on the block that is over.
    fn wants(&self) -> Wants {
        Wants::Nothing
    }
    /// A traced block is over, and a remote server's host has `told` its part. The next block begins when this returns.
    /// Returns the change that a remote server must make before that, if any.
    ///
    /// # Errors
    /// Why the row must end.
    fn block(&mut self, _told: Told) -> Result<Option<Turn>, String> {
        Ok(None)
    }
    /// True to get the times of a remote server's host for the block that is over, by its time of day.
    fn wants_times(&self) -> bool {
        false
    }
    /// The times of [`wants_times`](Watcher::wants_times), before [`block`](Watcher::block).
    fn times(&mut self, _times: Times) {}
    /// True to get between blocks the source of the time of day of a remote server's host.
    fn wants_clock(&self) -> bool {
        false
    }
    /// The source of [`wants_clock`](Watcher::wants_clock), before [`block`](Watcher::block).
    fn clock(&mut self, _told: time_source::Told) {}
    /// True to get snapshots: each progress message then holds the data since the one before, CPU time and warnings.
    fn wants_snapshots(&self) -> bool {
        false
    }
    /// True to draw: a row with [`stands_still`] then makes progress four times a second, and its next block begins when that is
    /// drawn.
    fn draws(&self) -> bool {
        false
    }
    /// Another session measures at the server for about `left`: the probe stands still, or waits before it begins.
    fn paused(&mut self, _left: Option<Nanos>) {}
    /// The probe goes on, after `paused`.
    fn resumed(&mut self, _paused: Nanos) {}
    /// Something about the run that a user should know while it goes on.
    fn say(&mut self, _text: String) {}
    /// A row makes progress.
    fn progress(&mut self, _progress: &Progress) {}
    /// A row is done.
    fn ends(&mut self, _row: &Row) {}
}

/// True for a row whose loop may stand still between two blocks: it has one thread, and no request is due.
pub fn stands_still(job: &Job) -> bool {
    job.threads == 1 && job.pace.is_none() && job.open.is_none()
}

/// Ignores all progress.
pub struct NoWatcher;
impl Watcher for NoWatcher {}
