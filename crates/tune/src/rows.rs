//! Changes as records: planned, applied, reverted, and as listed by the journal.

use hairpin_record::head::Label;
use hairpin_record::tune::{ChangeRow, Changes, Status, StatusEntry};
use hairpin_sys::host::Host;

use crate::change::{Change, Trouble};
use crate::journal::{Entry, Journal, JournalError, StoredEntry, renamed};
use crate::knob::Network;
use crate::knobs::network_of;
use crate::plan::{Plan, PlanError};
use crate::revert::{Outcome, Reverted};
use crate::tuning::Tuning;

/// The record of a plan.
#[must_use]
pub fn planned(changes: &[Change]) -> Changes {
    record("plan", changes.iter().map(|change| row(change, "planned", None)).collect(), Vec::new())
}

/// The outcome of applying every change.
#[derive(Debug)]
pub struct Applied {
    pub changes: Changes,
    /// True if the kernel or a device did not accept a value.
    pub refused: bool,
    /// True if a permission was missing; the changes that were made are taken back then.
    pub denied: bool,
}

impl Tuning<'_> {
    /// Makes every change, then those that `later` plans on the changed host. If a permission is missing, all are taken back:
    /// nobody chose a part of them.
    pub fn apply(&mut self, later: impl FnOnce() -> Result<Plan, PlanError>) -> Applied {
        let mut rows = Vec::new();
        let mut notes = Vec::new();
        let mut denied = self.make_rest(&mut rows);
        let mut unmade = false;
        if !denied {
            let added = later().map_err(|why| why.to_string()).and_then(|more| self.add(more).map_err(|why| why.to_string()));
            match added {
                Ok(()) => denied = self.make_rest(&mut rows),
                Err(why) => {
                    notes.push(format!("the other settings are left as they were: {why}"));
                    unmade = true;
                }
            }
        }
        if denied {
            let made: Vec<usize> = (0..self.changes().len()).filter(|index| self.is_on(*index)).collect();
            let left = self.all_off_but(&[]);
            for index in made.into_iter().filter(|index| !self.is_on(*index)) {
                rows[index].outcome = "reverted".to_owned();
            }
            let note = if left.is_empty() {
                "a permission is missing, so nothing is changed: changes already applied have been put back"
            } else {
                "a permission is missing; of the changes already applied some could not be put back:"
            };
            notes.push(note.to_owned());
            notes.extend(left.iter().map(Trouble::to_string));
        }
        let refused = unmade || rows.iter().any(|row| row.outcome == "refused");
        Applied { changes: record("apply", rows, notes), refused, denied }
    }

    /// Makes the changes that have no row yet, up to one for which a permission is missing; true if there is one.
    fn make_rest(&mut self, rows: &mut Vec<ChangeRow>) -> bool {
        for index in rows.len()..self.changes().len() {
            let done = self.on(index);
            let denied = matches!(done, Err(Trouble::Denied { .. }));
            let outcome = if done.is_ok() { "applied" } else { "refused" };
            rows.push(row(&self.changes()[index], outcome, done.err().map(|why| why.to_string())));
            if denied {
                return true;
            }
        }
        false
    }
}

/// The record of a revert.
#[must_use]
pub fn reverted(report: &Reverted) -> Changes {
    let rows = report.changes.iter().map(|(change, outcome)| {
        let (word, why) = match outcome {
            Outcome::Reverted => ("reverted", None),
            Outcome::Already => ("already", None),
            Outcome::Gone if change.address.interface().is_some() => {
                let why = "it no longer exists here; an interface that was moved to another network namespace took it along";
                ("gone", Some(why.to_owned()))
            }
            Outcome::Gone => ("gone", Some("it no longer exists here: there is nothing to put back".to_owned())),
            Outcome::Needed => ("needed", Some("another cgroup needs the controller by now: it stays on".to_owned())),
            Outcome::Booted => ("booted", None),
            Outcome::Changed { now } => {
                let why = format!(
                    "another program changed it since, to {}: --force puts it back to {} anyway",
                    change.address.shown(now),
                    change.address.shown(&change.from)
                );
                ("changed", Some(why))
            }
            Outcome::Elsewhere { network } => {
                let is_own = network_of(change) == Network::Own;
                let or = if is_own { "; if that namespace is gone, give it up with --force" } else { "" };
                let why = format!("it was changed in the network namespace {network}: revert it there (ip netns exec){or}");
                ("elsewhere", Some(why))
            }
            Outcome::Failed(why @ Trouble::NoInstance { .. }) => {
                ("failed", Some(format!("{why}: revert it then, or give it up with --force")))
            }
            Outcome::Failed(why @ Trouble::Renamed { .. }) => {
                ("failed", Some(format!("{why} for the revert, or give it up with --force")))
            }
            Outcome::Failed(why) => ("failed", Some(why.to_string())),
        };
        row(change, word, why)
    });
    let unknown = report.unknown.iter().map(|name| format!("{name} is not in the journal"));
    record("revert", rows.collect(), report.notes.iter().cloned().chain(unknown).collect())
}

impl Journal {
    /// The changes in the journal, compared with the present values. Reads only.
    ///
    /// # Errors
    /// The journal cannot be read.
    pub fn status(&self, host: &dyn Host) -> Result<Status, JournalError> {
        let holder = self.holder();
        let in_use = |entry: &Entry| self.is_in_use(entry, holder.as_deref());
        let entries = self.entries()?.into_iter().map(|found| status_entry(host, found, &in_use)).collect();
        Ok(Status { label: Label::of::<Status>(), journal: self.dir().display().to_string(), holder, entries })
    }
}

fn status_entry(host: &dyn Host, found: StoredEntry, in_use: &dyn Fn(&Entry) -> bool) -> StatusEntry {
    let StoredEntry { id, file, entry } = found;
    let entry = match entry {
        Ok(entry) => entry,
        Err(why) => {
            let why = Some(format!("{}: {why}", file.display()));
            return StatusEntry {
                id,
                state: "damaged".to_owned(),
                started: String::new(),
                command: Vec::new(),
                changes: Vec::new(),
                why,
            };
        }
    };
    let booted = entry.head.is_of_earlier_boot(host);
    let state = match &entry {
        _ if booted => "booted",
        Entry { cut: Some(_), .. } => "damaged",
        Entry { kept: true, .. } => "kept",
        entry if in_use(entry) => "running",
        _ => "orphaned",
    };
    let elsewhere = entry.head.is_of_other_network(host);
    let changes = entry.changes.iter().map(|change| {
        if booted {
            return row(change, "booted", None);
        }
        if elsewhere && network_of(change) != Network::None {
            return row(change, "elsewhere", Some(format!("in the network namespace {}", entry.head.network)));
        }
        if let Some(why) = renamed(host, &entry.head.interfaces, &change.address) {
            return row(change, "failed", Some(why.to_string()));
        }
        match change.address.read(host) {
            Ok(now) if change.address.meets(&now, &change.to) => row(change, "applied", None),
            Ok(now) if change.address.same(&now, &change.from) => row(change, "already", None),
            Ok(now) => row(change, "changed", Some(format!("it is {} now", change.address.shown(&now)))),
            Err(Trouble::Gone { .. }) => row(change, "gone", None),
            Err(why) => row(change, "failed", Some(why.to_string())),
        }
    });
    StatusEntry {
        id,
        state: state.to_owned(),
        started: entry.head.started.clone(),
        command: entry.head.command.clone(),
        changes: changes.collect(),
        why: entry.cut.clone(),
    }
}

fn row(change: &Change, outcome: &str, why: Option<String>) -> ChangeRow {
    ChangeRow {
        knob: change.knob.clone(),
        place: change.address.to_string(),
        from: change.from.clone(),
        to: change.to.clone(),
        from_cpus: change.address.as_cpus(&change.from),
        to_cpus: change.address.as_cpus(&change.to),
        outcome: outcome.to_owned(),
        why,
    }
}

fn record(action: &str, changes: Vec<ChangeRow>, notes: Vec<String>) -> Changes {
    Changes { label: Label::of::<Changes>(), action: action.to_owned(), changes, notes }
}
