//! Who is told how a row gets on.

use hairpin_plan::job::Job;
use hairpin_record::progress::Progress;
use hairpin_record::run::Row;
use hairpin_trace::halves::Half;

/// Told how a run gets on, between measured intervals or about once a second.
pub trait Watcher {
    /// A row begins.
    fn begins(&mut self, _index: usize, _of: usize, _job: &Job) {}
    /// The flows of a row are open on both sides, and nothing is measured yet.
    ///
    /// # Errors
    /// Why the row cannot be measured.
    fn ready(&mut self) -> Result<(), String> {
        Ok(())
    }
    /// Whether the block that is over is one of which a remote server's host has seen something.
    fn wants_halves(&self) -> bool {
        false
    }
    /// A traced block is over, of which a remote server's host saw `halves`; the next begins when this returns. A remote server is to put its hooks on or
    /// take them off then, if it says so.
    ///
    /// # Errors
    /// Why the row cannot go on.
    fn block(&mut self, _halves: Vec<Half>) -> Result<Option<bool>, String> {
        Ok(None)
    }
    /// Whether somebody looks on: each line of progress then holds what came since the one before, CPU time and warnings.
    fn wants_snapshots(&self) -> bool {
        false
    }
    /// A row goes on.
    fn progress(&mut self, _progress: &Progress) {}
    /// A row is done.
    fn ends(&mut self, _row: &Row) {}
}

/// Watches nothing.
pub struct NoWatcher;
impl Watcher for NoWatcher {}
