//! Temporary changes under one entry of the journal: each can go on and off any number of times, and all are restored
//! at the end.
//!
//! ```text
//!   Journal::begin(changes) ──► Tuning ── on(i) ⇄ off(i), any number of times, a few microseconds each
//!                                  │ add(changes), planned once the first are on
//!                 keep ◄───────────┼───────────► restore, or Drop
//!                 changes stay,    │             every value as before, the entry removed;
//!                 with the entry   │             what another program has changed since stays, with the entry
//!                                  └ SIGKILL: the entry stays, the next start reports it
//! ```

use hairpin_units::Gather;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Write};

use hairpin_sys::host::{Held, Host};

use crate::change::{Change, Trouble};
use crate::journal::{About, Entry, Head, Interfaces, Journal, JournalError, Line, Lock, interfaces, renamed};

/// Changes that are in the journal and can be made.
pub struct Tuning<'h> {
    host: &'h dyn Host,
    journal: Journal,
    /// Keeps other processes from changing settings; `None` if every change ends with this process.
    _lock: Option<Lock>,
    /// The entry's number and file; `None` if every change ends with this process.
    entry: Option<(u32, File)>,
    changes: Vec<Change>,
    interfaces: Interfaces,
    /// From the index of a change to its number in the entry.
    numbers: BTreeMap<usize, usize>,
    on: BTreeSet<usize>,
    settled: BTreeSet<usize>,
    held: BTreeMap<usize, Held>,
    over: bool,
}

impl Journal {
    /// Takes the lock and writes an entry with every change, so that all of them can be reverted from now on. Nothing is changed
    /// yet. Values that were read before the lock was taken are read again: another process may have changed them meanwhile.
    ///
    /// # Errors
    /// Another process holds the lock, a value has changed since, or the journal cannot be written.
    pub fn begin<'h>(&self, host: &'h dyn Host, changes: Vec<Change>, about: &About) -> Result<Tuning<'h>, JournalError> {
        let written: Vec<Change> = changes.iter().filter(|change| !change.address.is_held()).cloned().collect();
        let numbered = changes.iter().enumerate().filter(|(_, change)| !change.address.is_held());
        let mut tuning = Tuning {
            host,
            journal: self.clone(),
            _lock: None,
            entry: None,
            numbers: numbered.enumerate().map(|(number, (index, _))| (index, number)).collect(),
            changes,
            interfaces: interfaces(host, &written),
            on: BTreeSet::new(),
            settled: BTreeSet::new(),
            held: BTreeMap::new(),
            over: false,
        };
        if written.is_empty() {
            // Demands end with this process: there is nothing to revert, and several processes may make them at once.
            return Ok(tuning);
        }
        tuning._lock = Some(self.lock(&about.command.join(" "))?);
        for change in &written {
            // A value that cannot be read is reported when it is written.
            if let Ok(now) = change.address.read(host)
                && !change.address.same(&now, &change.from)
            {
                let (then, now) = (change.address.shown(&change.from), change.address.shown(&now));
                return Err(JournalError::Stale { place: change.address.to_string(), then, now });
            }
        }
        let head = Head { interfaces: tuning.interfaces.clone(), ..Head::here(host, about) };
        tuning.entry = Some(self.write(&Entry::of(head, written))?);
        Ok(tuning)
    }
}

impl Tuning<'_> {
    /// The changes, in the given order.
    #[must_use]
    pub fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// Adds changes to the entry, after its first ones; at least one of those must not be held.
    ///
    /// # Errors
    /// The journal cannot be written; then none is added.
    pub(crate) fn add(&mut self, changes: Vec<Change>) -> Result<(), Trouble> {
        let written = changes.iter().filter(|change| !change.address.is_held());
        let lines: String = written.map(|change| Line::Change(change.clone()).text()).collect();
        if let Some((_, file)) = &mut self.entry {
            let added = file.write_all(lines.as_bytes()).and_then(|()| file.sync_all());
            self.journal.step("changes are added");
            added.map_err(|why| self.unwritten(&why))?;
        }
        for change in changes {
            if !change.address.is_held() {
                self.numbers.insert(self.changes.len(), self.numbers.len());
            }
            self.changes.push(change);
        }
        Ok(())
    }

    /// True if this change is on.
    #[must_use]
    pub fn is_on(&self, index: usize) -> bool {
        self.on.contains(&index)
    }

    /// Makes the change at `index` and reads the value back. A refused value is put back at once.
    ///
    /// # Errors
    /// The value was not accepted. It is then as before, or [`Tuning::is_on`] if it could not be put back.
    pub fn on(&mut self, index: usize) -> Result<(), Trouble> {
        let Some(change) = self.changes.get(index).cloned() else {
            return Err(Trouble::Failed(format!("there is no change {index}")));
        };
        if self.is_on(index) {
            return Ok(());
        }
        if change.address.is_held() {
            self.held.insert(index, change.address.hold(self.host, &change.to)?);
            self.on.insert(index);
            return Ok(());
        }
        // Once is enough: the kernel rounds a value the same way each time.
        let first = !self.settled.contains(&index);
        if first {
            self.note(&Line::Writing(self.numbers[&index]))?;
        }
        self.journal.step("a value is to be written");
        let written = change.address.write(self.host, &change.to);
        self.journal.step("the value is written");
        if written.is_err() {
            self.undo(index, &change);
        }
        // A value that could not be put back stays unsettled: whatever it is now, Hairpin wrote it.
        if first && !self.is_on(index) {
            if let Err(why) = self.note(&Line::Settled(self.numbers[&index])) {
                self.undo(index, &change);
                return Err(why);
            }
            self.settled.insert(index);
        }
        written?;
        self.on.insert(index);
        Ok(())
    }

    /// Puts back a value that was refused, or has no line in the entry. If that fails, the change counts as on and unsettled, so
    /// that its entry stays and it is tried again.
    fn undo(&mut self, index: usize, change: &Change) {
        let undone = match change.address.read(self.host) {
            Ok(now) if change.address.same(&now, &change.from) => Ok(()),
            Err(Trouble::Gone { .. }) => Ok(()),
            _ => change.address.write(self.host, &change.from),
        };
        if !matches!(undone, Ok(()) | Err(Trouble::Gone { .. })) {
            self.on.insert(index);
            self.settled.remove(&index);
        }
    }

    /// Takes the change at `index` back and reads the value back.
    ///
    /// # Errors
    /// The value before could not be restored, or another program has changed the value since. The change is still on then.
    pub fn off(&mut self, index: usize) -> Result<(), Trouble> {
        if !self.is_on(index) {
            return Ok(());
        }
        if self.held.remove(&index).is_none() {
            self.journal.step("a value is to be put back");
            let written = self.write_back(index);
            self.journal.step("the value is put back");
            // Where the interface was removed, and the setting with it, there is nothing to put back.
            if !matches!(written, Ok(()) | Err(Trouble::Gone { .. })) {
                return written;
            }
        }
        self.on.remove(&index);
        Ok(())
    }

    /// Takes back every change that is on but those of `kept`, the last one first, and returns what is left. One setting may bar
    /// another as long as it is on, as a governor does an energy preference, so what fails is tried once more.
    pub fn all_off_but(&mut self, kept: &[usize]) -> Vec<Trouble> {
        let on: Vec<usize> = self.on.iter().rev().filter(|index| !kept.contains(index)).copied().gather();
        for index in &on {
            let _ = self.off(*index);
        }
        on.into_iter().filter_map(|index| self.off(index).err()).collect()
    }

    /// As in a revert, the value of every change for this place counts as Hairpin's.
    fn write_back(&self, index: usize) -> Result<(), Trouble> {
        let Change { address, from, .. } = &self.changes[index];
        if let Some(why) = renamed(self.host, &self.interfaces, address) {
            return Err(why);
        }
        let now = address.read(self.host)?;
        if address.same(&now, from) || address.is_needed_by_others(self.host) {
            return Ok(());
        }
        let ours = |(at, change): (usize, &Change)| {
            let unsettled = || self.is_on(at) && !self.settled.contains(&at);
            change.address == *address && (address.meets(&now, &change.to) || address.is_left_of(&now, &change.to) || unsettled())
        };
        if self.changes.iter().enumerate().any(ours) {
            return address.write(self.host, from);
        }
        Err(Trouble::Changed { place: address.to_string(), now: address.shown(&now), from: address.shown(from) })
    }

    /// Leaves the changes that are on, with the entry, so that they can be reverted. Removes the entry if nothing is
    /// on.
    ///
    /// # Errors
    /// The journal cannot be written; everything is then put back.
    pub fn keep(mut self) -> Result<(), JournalError> {
        self.keep_those_on()?;
        self.over = true;
        Ok(())
    }

    fn keep_those_on(&self) -> Result<(), JournalError> {
        let kept: BTreeSet<usize> = self.on.iter().filter_map(|index| self.numbers.get(index)).copied().gather();
        let Some((id, _)) = &self.entry else {
            return Ok(());
        };
        let id = *id;
        if kept.is_empty() {
            return self.journal.remove(id);
        }
        let found = self.journal.entries()?.into_iter().find(|found| found.id == id).and_then(|found| found.entry.ok());
        if let Some(mut entry) = found {
            // Refused changes need no revert.
            let mut number = 0;
            entry.changes.retain(|_| {
                number += 1;
                kept.contains(&(number - 1))
            });
            let still = kept.iter().enumerate().filter(|(_, number)| entry.unsettled.contains(number));
            let unsettled = still.map(|(position, _)| position).collect();
            (entry.unsettled, entry.kept) = (unsettled, true);
            self.journal.rewrite(id, &entry)?;
        }
        Ok(())
    }

    /// Puts everything back and removes the entry.
    ///
    /// # Errors
    /// The values that could not be put back, or that another program has changed since; the entry stays, for `hairpin tune
    /// revert`.
    pub fn restore(mut self) -> Result<(), Vec<Trouble>> {
        self.put_back()
    }

    fn put_back(&mut self) -> Result<(), Vec<Trouble>> {
        if std::mem::replace(&mut self.over, true) {
            return Ok(());
        }
        let mut left = self.all_off_but(&[]);
        // As after a revert, the entry keeps what another program has changed or renamed, and is no orphan.
        if left.iter().all(|why| matches!(why, Trouble::Changed { .. } | Trouble::Renamed { .. }))
            && let Err(why) = self.keep_those_on()
        {
            left.push(Trouble::Failed(why.to_string()));
        }
        if left.is_empty() { Ok(()) } else { Err(left) }
    }

    /// Appends a line to the entry. It is not synced: after a power cut there is nothing to restore.
    fn note(&mut self, line: &Line) -> Result<(), Trouble> {
        let Some((_, file)) = &mut self.entry else {
            return Ok(());
        };
        let written = file.write_all(line.text().as_bytes());
        self.journal.step("a line is added");
        written.map_err(|why| self.unwritten(&why))
    }

    fn unwritten(&self, why: &io::Error) -> Trouble {
        Trouble::Failed(format!("cannot write the journal in {}: {why}", self.journal.dir().display()))
    }
}

impl Drop for Tuning<'_> {
    fn drop(&mut self) {
        // Errors have nowhere to go; if a value could not be put back, the entry stays and the next start reports it.
        let _ = self.put_back();
    }
}

#[cfg(test)]
mod tests {
    use std::io::PipeReader;
    use std::os::fd::OwnedFd;
    use std::sync::Mutex;

    use hairpin_sys::host::FakeHost;

    use super::*;
    use crate::{Place, plan};

    /// The reader of a journal that takes no more lines once a value is written.
    static READER: Mutex<Option<PipeReader>> = Mutex::new(None);

    fn end_at_the_value(step: &str) {
        if step == "the value is written" {
            *READER.lock().unwrap() = None;
        }
    }

    #[test]
    fn a_value_that_the_journal_cannot_settle_is_put_back() {
        let directory = tempfile::tempdir().unwrap();
        let host = FakeHost::at(directory.path().join("host")).with("/proc/sys/net/core/busy_poll", "50\n");
        let changes = plan(&host, &Place::default(), &["busy_poll_us=10".parse().unwrap()]).unwrap();
        let journal = Journal::at(directory.path().join("journal")).with_witness(end_at_the_value);
        let mut tuning = journal.begin(&host, changes, &About::default()).unwrap();
        let (reader, writer) = io::pipe().unwrap();
        *READER.lock().unwrap() = Some(reader);
        tuning.entry.as_mut().unwrap().1 = OwnedFd::from(writer).into();
        let error = tuning.on(0).unwrap_err().to_string();
        assert!(error.contains("cannot write the journal"), "{error}");
        assert!(!tuning.is_on(0));
        assert_eq!(host.read("/proc/sys/net/core/busy_poll").unwrap(), "50");
        assert_eq!(tuning.restore(), Ok(()));
        assert!(journal.entries().unwrap().is_empty());
    }
}
