//! One entry: a line for the head, a line per change, and lines that are added while it is used.
//!
//! ```text
//!   {"schema":"hairpin.journal/1","boot":"…","network":"net:[4026531840]","started":"…","pid":7,"command":[…],"changes":2}
//!   {"change":{"knob":"rx_usecs","address":{…},"from":"8","to":"0"}}
//!   {"change":…}
//!   {"writing":0}            the first change is being written; the current value may be neither `from` nor `to`
//!   {"settled":0}            … and was read back
//!   "kept"                   all of it is to stay until it is reverted
//! ```
//! The head of changes to interfaces has `"interfaces":{"eth0":"2"}` too: their indices, by which one that was renamed is found.
//! The head and the changes are on the disk before the first change, so an entry that lacks some of them was
//! damaged later: its readable changes are still restored, and the missing ones are reported.

use hairpin_units::Gather;
use std::collections::{BTreeMap, BTreeSet};

use hairpin_sys::device::Attribute;
use hairpin_sys::host::Host;
use serde::{Deserialize, Serialize};

use crate::change::{Address, Change, Trouble};

/// The schema of an entry.
pub(super) const SCHEMA: &str = "hairpin.journal/1";

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
const NETWORK: &str = "/proc/thread-self/ns/net";

/// The command that makes the changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    pub command: Vec<String>,
    /// Start: UTC, RFC 3339.
    pub started: String,
}

/// The first line: where, when and by which command the changes were made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// Always `hairpin.journal/1`.
    pub schema: String,
    /// The kernel's id of this boot, whose end undoes every change. Empty if the kernel does not tell.
    pub boot: String,
    /// The network namespace, such as `net:[4026531840]`; empty if the kernel does not tell.
    pub network: String,
    /// Start of the command: UTC, RFC 3339.
    pub started: String,
    /// The process that made the changes.
    pub pid: u32,
    /// Its command line.
    pub command: Vec<String>,
    /// The number of changes that follow.
    pub changes: usize,
    /// The interfaces that they are of.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub interfaces: Interfaces,
}

/// Interfaces by name, each with its index, which stays when it is renamed.
pub type Interfaces = BTreeMap<String, String>;

/// The interfaces that these changes are of.
pub(crate) fn interfaces(host: &dyn Host, changes: &[Change]) -> Interfaces {
    let names: BTreeSet<&str> = changes.iter().filter_map(|change| change.address.interface()).gather();
    let with_index = |name: &str| Some((name.to_owned(), host.attribute(name, Attribute::Index).ok()??));
    names.into_iter().filter_map(with_index).gather()
}

/// The trouble of a value whose interface has been renamed: what has its name now, if anything has, is another one.
pub(crate) fn renamed(host: &dyn Host, interfaces: &Interfaces, address: &Address) -> Option<Trouble> {
    let then = address.interface()?;
    let index = interfaces.get(then)?;
    // A sysfs of another namespace may list other interfaces: the index is asked for in this one.
    let has_index = |name: &str| host.attribute(name, Attribute::Index).is_ok_and(|its| its.as_ref() == Some(index));
    if has_index(then) {
        return None;
    }
    let now = host.list("/sys/class/net").ok()?.into_iter().find(|name| has_index(name))?;
    Some(Trouble::Renamed { place: address.to_string(), now })
}

impl Head {
    /// The head for this host, now.
    pub(crate) fn here(host: &dyn Host, about: &About) -> Head {
        Head {
            schema: SCHEMA.to_owned(),
            boot: boot_id(host),
            network: network(host),
            started: about.started.clone(),
            pid: std::process::id(),
            command: about.command.clone(),
            changes: 0,
            interfaces: Interfaces::new(),
        }
    }

    /// True if the host has rebooted since.
    #[must_use]
    pub fn is_of_earlier_boot(&self, host: &dyn Host) -> bool {
        let now = boot_id(host);
        !self.boot.is_empty() && !now.is_empty() && self.boot != now
    }

    /// True if the calling thread is in another network namespace.
    #[must_use]
    pub fn is_of_other_network(&self, host: &dyn Host) -> bool {
        let here = network(host);
        !self.network.is_empty() && !here.is_empty() && self.network != here
    }
}

fn boot_id(host: &dyn Host) -> String {
    host.read(BOOT_ID).unwrap_or_default()
}

fn network(host: &dyn Host) -> String {
    host.link_target(NETWORK).unwrap_or_default()
}

/// One entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub head: Head,
    /// The changes, in the order of writing. A place that was set to several values appears several times.
    pub changes: Vec<Change>,
    /// True if the changes are to stay until they are reverted.
    pub kept: bool,
    /// Changes that were being written for the first time when the process ended, or that could not be put back:
    /// Hairpin wrote whatever value is there.
    pub unsettled: BTreeSet<usize>,
    /// The missing part, if the entry was damaged.
    pub cut: Option<String>,
}

/// A line after the head.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Line {
    Change(Change),
    Writing(usize),
    Settled(usize),
    Kept,
}

impl Line {
    /// With its newline.
    pub(crate) fn text(&self) -> String {
        json(self)
    }
}

/// Why an entry cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EntryError {
    /// The file cannot be read.
    #[error("{0}")]
    Read(String),
    /// The first line is damaged.
    #[error("its first line is damaged ({0}): what it changed is no longer known. Check the settings, then remove the file")]
    Head(String),
    /// Another version of Hairpin wrote it.
    #[error("it has the form \"{0}\", not {SCHEMA}: revert it with the version of hairpin that wrote it")]
    Schema(String),
}

impl Entry {
    /// A new entry.
    pub(crate) fn of(head: Head, changes: Vec<Change>) -> Entry {
        Entry { head, changes, kept: false, unsettled: BTreeSet::new(), cut: None }
    }

    /// Parses an entry.
    ///
    /// # Errors
    /// Its head cannot be read. Damage further on is in [`Entry::cut`].
    pub fn parse(bytes: &[u8]) -> Result<Entry, EntryError> {
        let text = String::from_utf8_lossy(bytes);
        // A line without a newline at its end is incomplete.
        let (whole, rest) = text.rsplit_once('\n').map_or(("", &*text), |(whole, rest)| (whole, rest));
        let mut lines = whole.lines();
        let first = lines.next().unwrap_or_default();
        #[derive(Deserialize)]
        struct Form {
            schema: String,
        }
        let form: Form = serde_json::from_str(first).map_err(|why| EntryError::Head(why.to_string()))?;
        if form.schema != SCHEMA {
            return Err(EntryError::Schema(form.schema.chars().filter(|c| !c.is_control()).take(64).collect()));
        }
        let head: Head = serde_json::from_str(first).map_err(|why| EntryError::Head(why.to_string()))?;
        let mut entry = Entry { head, changes: Vec::new(), kept: false, unsettled: BTreeSet::new(), cut: None };
        for line in lines {
            match serde_json::from_str(line) {
                Ok(Line::Change(change)) if change.address.is_allowed() => entry.changes.push(change),
                Ok(Line::Change(change)) => {
                    entry.cut = Some(format!("it names {}, which hairpin never writes", change.address));
                }
                Ok(Line::Writing(index)) => drop(entry.unsettled.insert(index)),
                Ok(Line::Settled(index)) => drop(entry.unsettled.remove(&index)),
                Ok(Line::Kept) => entry.kept = true,
                Err(why) => entry.cut = Some(format!("a line of it is damaged: {why}")),
            }
        }
        if entry.changes.len() < entry.head.changes {
            entry.cut = Some(format!("it was made with {} changes, and {} can be read", entry.head.changes, entry.changes.len()));
        } else if !rest.is_empty() && entry.cut.is_none() {
            // A truncated last line does not affect the lines before it: at worst the last change counts as unsettled.
            entry.unsettled.extend(entry.changes.len().checked_sub(1));
        }
        Ok(entry)
    }

    /// Head and changes, a line each.
    pub(crate) fn text(&self) -> String {
        let head = Head { changes: self.changes.len(), ..self.head.clone() };
        let mut text = json(&head);
        for change in &self.changes {
            text += &Line::Change(change.clone()).text();
        }
        for index in &self.unsettled {
            text += &Line::Writing(*index).text();
        }
        if self.kept {
            text += &Line::Kept.text();
        }
        text
    }
}

/// Serializing cannot fail: the types are structs and enums with text as keys.
fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default() + "\n"
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::change::Form;

    fn entry() -> Entry {
        let change = |path: &str| Change {
            knob: "busy_poll_us".to_owned(),
            address: Address::File { path: path.to_owned(), form: Form::Words },
            from: "0".to_owned(),
            to: "50".to_owned(),
        };
        let head = Head {
            schema: SCHEMA.to_owned(),
            boot: "b".to_owned(),
            network: "net:[1]".to_owned(),
            started: "2026-11-20T11:50:10.000000Z".to_owned(),
            pid: 7,
            command: vec!["hairpin".to_owned()],
            changes: 2,
            interfaces: [("eth0".to_owned(), "2".to_owned())].into(),
        };
        let changes = vec![change("/proc/sys/net/core/busy_poll"), change("/proc/sys/net/core/busy_read")];
        Entry { head, changes, kept: true, unsettled: BTreeSet::new(), cut: None }
    }

    #[test]
    fn an_entry_survives_writing_and_reading() {
        let entry = entry();
        assert_eq!(Entry::parse(entry.text().as_bytes()).unwrap(), entry);
    }

    #[test]
    fn truncated_at_any_byte_it_keeps_complete_lines_and_reports_the_rest() {
        let entry = entry();
        let text = entry.text();
        let head_ends = text.find('\n').unwrap();
        for end in 0..text.len() {
            match Entry::parse(&text.as_bytes()[..end]) {
                Err(EntryError::Head(_)) => assert!(end <= head_ends, "{end}"),
                Err(other) => panic!("{other}"),
                Ok(cut) => {
                    assert!(end > head_ends);
                    assert_eq!(cut.changes, entry.changes[..cut.changes.len()]);
                    assert_eq!(cut.cut.is_some(), cut.changes.len() < entry.changes.len(), "{end}: {cut:?}");
                }
            }
        }
    }

    #[test]
    fn survives_the_loss_of_any_line() {
        let entry = entry();
        let text = entry.text();
        let lines: Vec<&str> = text.lines().collect();
        for lost in 1..3 {
            let rest: String =
                lines.iter().enumerate().filter(|(i, _)| *i != lost).map(|(_, line)| format!("{line}\n")).collect();
            let read = Entry::parse(rest.as_bytes()).unwrap();
            assert_eq!((read.changes.len(), read.cut.is_some()), (1, true));
        }
        let garbled = text.replacen("{\"change\"", "{\"chan", 1);
        assert_eq!(Entry::parse(garbled.as_bytes()).unwrap().changes.len(), 1);
    }

    #[test]
    fn rejects_places_that_hairpin_never_writes() {
        let text = entry().text().replacen("/proc/sys/net/core/busy_poll", "/etc/passwd", 1);
        let read = Entry::parse(text.as_bytes()).unwrap();
        assert_eq!(read.changes.len(), 1);
        assert!(read.cut.is_some());
        assert!(matches!(Entry::parse(text.replacen("journal/1", "journal/2", 1).as_bytes()), Err(EntryError::Schema(_))));
    }

    proptest! {
        #[test]
        fn any_bytes_are_an_entry_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..100), at in 0usize..800) {
            let mut text = entry().text().into_bytes();
            let at = at.min(text.len());
            text.splice(at..(at + bytes.len()).min(text.len()), bytes);
            if let Ok(read) = Entry::parse(&text) {
                prop_assert!(read.changes.iter().all(|change| change.address.is_allowed()));
            }
        }
    }
}
