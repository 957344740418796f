//! Puts back the values that the journal recorded, of all knobs or chosen ones, newest first.
//!
//! ```text
//!   value now   = `to`                    put `from` back
//!               = `from`                  nothing to do
//!               something else            another program changed it since: left alone, unless forced
//!               missing                   its interface was removed: nothing to do
//!   interface renamed since               kept, with the new name, unless forced
//!   no such NAPI instance now             kept, as a driver may bring it back with its settings, unless forced
//!   controller that others need by now    left on
//!   partition that cannot be removed      kept, and its controller, with what it still holds
//!   host rebooted since                   the reboot undid it: the entry is removed, with a note
//!   another network namespace             left alone: it must be reverted there; given up if forced, as it may be gone
//! ```

use std::collections::BTreeSet;

use hairpin_sys::host::Host;
use hairpin_units::Gather;

use crate::change::{Change, Trouble};
use crate::journal::{Entry, Journal, JournalError, StoredEntry, renamed};
use crate::knob::Network;
use crate::knobs::network_of;

/// The outcome of one change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The value before is restored.
    Reverted,
    /// It already had the value before.
    Already,
    /// Its interface or file no longer exists.
    Gone,
    /// Another cgroup has come to need the controller, which stays on.
    Needed,
    /// The host has rebooted since, which undid it.
    Booted,
    /// Another program changed it since; it was left alone.
    Changed {
        /// The present value.
        now: String,
    },
    /// It is in another network namespace.
    Elsewhere { network: String },
    /// It could not be restored.
    Failed(Trouble),
}

impl Outcome {
    /// True if nothing is left to do.
    #[must_use]
    pub fn is_done(&self) -> bool {
        matches!(self, Outcome::Reverted | Outcome::Already | Outcome::Gone | Outcome::Needed | Outcome::Booted)
    }
}

/// The outcome of a revert.
#[derive(Debug, Default)]
pub struct Reverted {
    /// Each change and its outcome, in the order of restoring.
    pub changes: Vec<(Change, Outcome)>,
    /// Notes on entries of an earlier boot, damaged entries, and what is given up.
    pub notes: Vec<String>,
    /// Requested knobs that are not in the journal.
    pub unknown: Vec<String>,
    /// True if something could not be restored.
    pub incomplete: bool,
}

impl Reverted {
    /// True if a permission was missing.
    #[must_use]
    pub fn is_denied(&self) -> bool {
        self.changes.iter().any(|(_, outcome)| matches!(outcome, Outcome::Failed(Trouble::Denied { .. })))
    }
}

impl Journal {
    /// Puts back the values that the journal recorded, for every knob or those in `knobs`. With `force`, also values
    /// that another program has changed since, and what is out of reach is given up.
    ///
    /// # Errors
    /// Another process holds the lock, or the journal cannot be read or written.
    pub fn revert(&self, host: &dyn Host, knobs: &[String], force: bool, about: &str) -> Result<Reverted, JournalError> {
        let mut report = Reverted::default();
        if self.entries()?.is_empty() {
            report.unknown = knobs.to_vec();
            return Ok(report);
        }
        let _lock = self.lock(about)?;
        let mut known = BTreeSet::new();
        let mut entries = self.entries()?;
        entries.reverse();
        for StoredEntry { id, file, entry } in entries {
            match entry {
                Ok(entry) => {
                    known.extend(entry.changes.iter().map(|change| change.knob.clone()));
                    self.revert_entry(host, id, entry, knobs, force, &mut report)?;
                }
                Err(why) => {
                    report.notes.push(format!("{}: {why}", file.display()));
                    report.incomplete = true;
                }
            }
        }
        report.unknown = knobs.iter().filter(|knob| !known.contains(*knob)).cloned().collect();
        Ok(report)
    }

    fn revert_entry(
        &self,
        host: &dyn Host,
        id: u32,
        mut entry: Entry,
        knobs: &[String],
        force: bool,
        report: &mut Reverted,
    ) -> Result<(), JournalError> {
        if entry.head.is_of_earlier_boot(host) {
            report.notes.push(format!("entry {id:04} of {}: the host has rebooted since, which undid it", entry.head.started));
            report.changes.extend(entry.changes.into_iter().map(|change| (change, Outcome::Booted)));
            return self.remove(id);
        }
        let elsewhere = entry.head.is_of_other_network(host);
        let cut = entry.cut.take();
        let is_asked = |index: usize| knobs.is_empty() || knobs.contains(&entry.changes[index].knob);
        let attempt = |index: usize| {
            match network_of(&entry.changes[index]) {
                // A namespace that is gone has taken its own values along.
                Network::Own if elsewhere && force => return Outcome::Gone,
                Network::Own | Network::Shared if elsewhere => {
                    return Outcome::Elsewhere { network: entry.head.network.clone() };
                }
                _ => {}
            }
            self.step("a value is to be put back");
            let outcome = put_back(host, &entry, index, force);
            self.step("the value is put back");
            outcome
        };
        let mut tried: Vec<(usize, Outcome)> = Vec::new();
        for index in (0..entry.changes.len()).rev().filter(|index| is_asked(*index)) {
            tried.push((index, attempt(index)));
        }
        // One setting may bar another until it is back itself, as a governor does an energy preference.
        for (index, outcome) in &mut tried {
            if matches!(outcome, Outcome::Failed(Trouble::Refused { .. })) {
                *outcome = attempt(*index);
            }
        }
        let is_own = |(index, _): &(usize, Outcome)| network_of(&entry.changes[*index]) == Network::Own;
        if elsewhere && force && tried.iter().any(is_own) {
            let network = &entry.head.network;
            report.notes.push(format!("entry {id:04}: what it changed in the network namespace {network} is given up"));
        }
        let mut left: BTreeSet<usize> = (0..entry.changes.len()).filter(|index| !is_asked(*index)).gather();
        for (index, outcome) in tried {
            if !outcome.is_done() {
                left.insert(index);
                report.incomplete = true;
            }
            report.changes.push((entry.changes[index].clone(), outcome));
        }
        if let Some(cut) = cut {
            report
                .notes
                .push(format!("entry {id:04} is damaged: {cut}; check what else {} changed", entry.head.command.join(" ")));
            report.incomplete = true;
        }
        if left.is_empty() {
            return self.remove(id);
        }
        let unsettled =
            left.iter().enumerate().filter(|(_, index)| entry.unsettled.contains(index)).map(|(position, _)| position).collect();
        let mut index = 0;
        entry.changes.retain(|_| {
            index += 1;
            left.contains(&(index - 1))
        });
        // The rest stays until the next revert; no process is using the entry any more.
        (entry.unsettled, entry.kept) = (unsettled, true);
        self.rewrite(id, &entry)
    }
}

/// One entry may have set a value several times: any of those values counts as Hairpin's.
fn put_back(host: &dyn Host, entry: &Entry, index: usize, force: bool) -> Outcome {
    let Change { address, from, .. } = &entry.changes[index];
    if let Some(why) = renamed(host, &entry.head.interfaces, address) {
        return if force { Outcome::Gone } else { Outcome::Failed(why) };
    }
    let now = match address.read(host) {
        Ok(now) => now,
        Err(Trouble::Gone { .. }) => return Outcome::Gone,
        Err(Trouble::NoInstance { .. }) if force => return Outcome::Gone,
        Err(why) => return Outcome::Failed(why),
    };
    if address.same(&now, from) {
        return Outcome::Already;
    }
    if address.is_needed_by_others(host) {
        return Outcome::Needed;
    }
    let same_place = || entry.changes.iter().enumerate().filter(|(_, change)| change.address == *address);
    let is_ours = |to: &str| address.meets(&now, to) || address.is_left_of(&now, to);
    let ours = same_place().any(|(at, change)| is_ours(&change.to) || entry.unsettled.contains(&at));
    if !ours && !force {
        return Outcome::Changed { now };
    }
    match address.write(host, from) {
        Ok(()) => Outcome::Reverted,
        Err(Trouble::Gone { .. }) => Outcome::Gone,
        Err(why) => Outcome::Failed(why),
    }
}
