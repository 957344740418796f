//! Measures the rows of a plan in turn, and records how each one ended.
//!
//! ```text
//!   plan ──▶ row ──▶ row ──▶ …                        all done
//!             ├ Ctrl-C ──▶ interrupted                the results until then are the record
//!             └ fails ───▶ error, with its path       likewise; if it is the first, there is no record
//! ```

use std::time::SystemTime;

use hairpin_plan::job::Job;
use hairpin_record::head::{Body, Head, Place, Record};
use hairpin_record::run::{Hosts, Row};

use crate::error::RunError;
use crate::floor::{self, Known};
use crate::plan::Plan;
use crate::row::{self, RowContext};
use crate::testbed::{Measured, RowEnd, Testbed};
use crate::time::rfc3339;

/// The head of a record whose measurement starts now.
pub fn begin<B: Body>(command: &[String]) -> Head {
    Head::new::<B>(command.to_vec(), rfc3339(SystemTime::now()))
}

/// Measures every row of the plan with `row`, which adds its result to the record. Ends early if a row notes in the head that it
/// was interrupted or failed.
///
/// # Errors
/// The row failed or was interrupted, and the record is still `empty`.
pub fn rows<B>(
    plan: &Plan,
    record: &mut Record<B>,
    empty: impl Fn(&B) -> bool,
    mut row: impl FnMut(&mut Record<B>, usize, &Job) -> Result<(), RowEnd>,
) -> Result<(), RunError> {
    for (index, job) in plan.rows.iter().enumerate() {
        match row(record, index, job) {
            Ok(()) => {}
            Err(RowEnd::Interrupted) if empty(record) => return Err(RunError::Interrupted),
            Err(RowEnd::Interrupted) => record.head.interrupted = true,
            Err(RowEnd::Failed(error)) if empty(record) => return Err(error),
            Err(RowEnd::Failed(error)) => record.head.error = Some(format!("{}: {error}", job.spec)),
        }
        if record.head.interrupted || record.head.error.is_some() {
            break;
        }
    }
    Ok(())
}

impl Testbed {
    /// Both sides' reports as one row, with its warnings and its floor. The way the row ended goes into the head.
    pub fn joined(&self, plan: &Plan, job: &Job, measured: Measured, head: &mut Head, place: &mut Place) -> Row {
        head.interrupted |= measured.interrupted;
        head.error = measured.client.error.clone().map(|error| format!("{}: {error}", job.spec));
        let one_host = self.server.is_here();
        let around = RowContext { hosts: &place.hosts, one_host, shown: &plan.shown };
        let mut row = row::join(job, measured.client, measured.server, &mut place.clock, around);
        let Hosts { client, server } = &place.hosts;
        let known = Known { client, server: server.as_ref(), mtu: place.link.mtu, one_host, ipv6: self.server.is_ipv6() };
        floor::beside(&mut row, plan.floor.as_ref(), job, known);
        row
    }
}
