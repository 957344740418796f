//! The journal: every changed value and the value before, on the disk before the first change.
//!
//! ```text
//!   $HAIRPIN_JOURNAL/                        else /var/lib/hairpin/journal as root, else $XDG_STATE_HOME/hairpin/journal,
//!                                            else ~/.local/state/hairpin/journal
//!     lock                                   held (flock) by the process that changes or restores settings
//!     0001.jsonl                             one entry: a head, then a line per change; synced before it has this name
//!     .tmp-0002.jsonl                        an entry being written, before any change
//! ```
//! Lines appended while an entry is in use record the first write of each change, and whether the changes are
//! to stay (`kept`). An entry that is not kept and whose lock is free is an orphan: its process was killed.

mod entry;

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use hairpin_sys::host::Host;
use rustix::fs::{FlockOperation, flock};

pub use entry::{About, Entry, EntryError, Head, Interfaces};
pub(crate) use entry::{Line, interfaces, renamed};

/// The environment variable that names the journal's directory.
pub const VARIABLE: &str = "HAIRPIN_JOURNAL";
/// The directory of root's journal.
pub const OF_ROOT: &str = "/var/lib/hairpin/journal";

const LOCK: &str = "lock";
const TEMPORARY: &str = ".tmp-";
const SUFFIX: &str = ".jsonl";
/// Delay and number of retries for the lock: a process that only looks at it holds it for a moment.
const LOOK: Duration = Duration::from_millis(10);
const LOOKS: u32 = 10;
/// Longest entry that is read, in bytes.
const MAX_ENTRY: u64 = 16 << 20;

/// A function that is called at every step, so that a test can kill the process there.
pub type Witness = fn(&str);

/// The journal in a directory.
#[derive(Clone, Debug)]
pub struct Journal {
    dir: PathBuf,
    witness: Option<Witness>,
}

/// No directory for the journal is known.
#[derive(Debug, thiserror::Error)]
#[error(
    "there is no place for the journal: neither $HAIRPIN_JOURNAL, $XDG_STATE_HOME nor $HOME is set; set HAIRPIN_JOURNAL to a directory"
)]
pub struct NoHome;

/// Why the journal cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// Another process holds the lock.
    #[error("another hairpin is changing settings right now ({holder}); wait until it ends, or stop it")]
    Busy { holder: String },
    /// A value has changed since the plan was made.
    #[error(
        "{place} was {then} when this was shown, and is {now} now: another process has changed it. Nothing was changed: run it again"
    )]
    Stale { place: String, then: String, now: String },
    /// Other users may write to the directory.
    #[error("{}: others than its owner could write values there that are then restored as root; chmod go-w it, and check its contents", dir.display())]
    Unsafe { dir: PathBuf },
    /// The directory cannot be read or written.
    #[error("cannot use the journal in {}: {source}; set $HAIRPIN_JOURNAL to a directory that you may write", dir.display())]
    Io { dir: PathBuf, source: io::Error },
}

/// An entry in the journal's directory.
#[derive(Debug)]
pub struct StoredEntry {
    pub id: u32,
    pub file: PathBuf,
    /// The content, or why it cannot be read.
    pub entry: Result<Entry, EntryError>,
}

/// The right to change and restore settings, until it is dropped or the process ends.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

/// The default directory of the journal.
///
/// # Errors
/// [`NoHome`].
pub fn default_dir() -> Result<PathBuf, NoHome> {
    dir_from(|name| std::env::var_os(name), rustix::process::geteuid().is_root())
}

fn dir_from(variable: impl Fn(&str) -> Option<OsString>, root: bool) -> Result<PathBuf, NoHome> {
    let path = |name| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(dir) = path(VARIABLE) {
        return Ok(dir);
    }
    if root {
        return Ok(OF_ROOT.into());
    }
    // The XDG base directory specification says to ignore relative paths.
    let state = path("XDG_STATE_HOME").filter(|dir| dir.is_absolute());
    let state = state.or_else(|| path("HOME").map(|home| home.join(".local/state"))).ok_or(NoHome)?;
    Ok(state.join("hairpin/journal"))
}

/// The journal to show: this user's own, or root's if that one is empty.
///
/// # Errors
/// [`NoHome`].
pub fn to_look_at() -> Result<Journal, NoHome> {
    let own = Journal::at(default_dir()?);
    let named = std::env::var_os(VARIABLE).is_some_and(|value| !value.is_empty());
    Ok(if named { own } else { own_or(own, Journal::at(OF_ROOT)) })
}

/// `own`, unless it is empty and `of_root` is not.
fn own_or(own: Journal, of_root: Journal) -> Journal {
    let has = |journal: &Journal| journal.entries().is_ok_and(|all| !all.is_empty());
    if has(&own) || !has(&of_root) { own } else { of_root }
}

/// One line for each orphaned entry of this user's and root's journals. Empty if there are none, or they cannot be
/// read.
pub fn orphan_notes(host: &dyn Host) -> Vec<String> {
    let mut dirs: Vec<PathBuf> = default_dir().into_iter().collect();
    if std::env::var_os(VARIABLE).is_none_or(|value| value.is_empty()) && !dirs.iter().any(|dir| dir == Path::new(OF_ROOT)) {
        dirs.push(OF_ROOT.into());
    }
    let orphans = dirs.into_iter().flat_map(|dir| Journal::at(dir).orphans().unwrap_or_default());
    let root = rustix::process::geteuid().is_root();
    orphans.map(|found| orphan_note(host, &found, root)).collect()
}

fn orphan_note(host: &dyn Host, found: &StoredEntry, root: bool) -> String {
    let file = found.file.display();
    // Another user's `hairpin tune revert` looks into that user's journal.
    let sudo = if found.file.starts_with(OF_ROOT) && !root { "sudo " } else { "" };
    match &found.entry {
        Ok(entry) if entry.head.is_of_earlier_boot(host) => {
            format!(
                "{file}: its process was killed, but the host has rebooted since, which undid its changes; `{sudo}hairpin tune revert` removes the entry"
            )
        }
        Ok(entry) => format!(
            "a hairpin that was killed left settings of this host changed ({}, process {}; {file}): put them back with `{sudo}hairpin tune revert`",
            entry.head.command.join(" "),
            entry.head.pid
        ),
        Err(_) => format!("{file} is damaged: see `{sudo}hairpin tune status`"),
    }
}

impl Journal {
    /// The journal in `dir`, which is created before the first change.
    pub fn at(dir: impl Into<PathBuf>) -> Journal {
        Journal { dir: dir.into(), witness: None }
    }

    /// The same journal, with `witness` called at every step.
    #[must_use]
    pub fn with_witness(self, witness: Witness) -> Journal {
        Journal { witness: Some(witness), ..self }
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    pub(crate) fn step(&self, what: &str) {
        if let Some(witness) = self.witness {
            witness(what);
        }
    }

    /// The entries, oldest first; none if the directory does not exist.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn entries(&self) -> Result<Vec<StoredEntry>, JournalError> {
        let ids = match self.ids() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            other => other.map_err(|source| self.io(source))?,
        };
        let found = |id: u32| {
            let file = self.file(id);
            let read = || -> io::Result<Vec<u8>> {
                let mut bytes = Vec::new();
                File::open(&file)?.take(MAX_ENTRY).read_to_end(&mut bytes)?;
                Ok(bytes)
            };
            let entry = match read() {
                Ok(bytes) => Entry::parse(&bytes),
                // Its process has removed it since.
                Err(source) if source.kind() == io::ErrorKind::NotFound => return None,
                Err(source) => Err(EntryError::Read(source.to_string())),
            };
            Some(StoredEntry { id, file, entry })
        };
        Ok(ids.into_iter().filter_map(found).collect())
    }

    /// The entries of processes that ended without restoring or keeping their changes.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn orphans(&self) -> Result<Vec<StoredEntry>, JournalError> {
        let mut all = self.entries()?;
        all.retain(|found| !found.entry.as_ref().is_ok_and(|entry| entry.kept));
        if all.is_empty() || self.holder().is_some() {
            return Ok(Vec::new());
        }
        all.retain(|found| !found.entry.as_ref().is_ok_and(|entry| self.is_in_use(entry, None)));
        Ok(all)
    }

    /// True if the process that made an entry may still use it; `holder` holds the lock.
    pub(crate) fn is_in_use(&self, entry: &Entry, holder: Option<&str>) -> bool {
        let pid = entry.head.pid;
        if let Some(holder) = holder {
            return holder.starts_with(&format!("process {pid}:"));
        }
        // In another user's journal, only the existence of the entry's process can be checked.
        let is_hidden = File::open(self.dir.join(LOCK)).is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied);
        is_hidden && Path::new(&format!("/proc/{pid}")).exists()
    }

    /// Takes the lock; `about` tells other processes who holds it.
    ///
    /// # Errors
    /// Another process holds it, or the directory cannot be written.
    pub fn lock(&self, about: &str) -> Result<Lock, JournalError> {
        let open = || {
            // The modes are set whatever the umask: no other user may write here or hold the lock.
            DirBuilder::new().recursive(true).mode(0o755).create(&self.dir)?;
            File::options().read(true).write(true).create(true).truncate(false).mode(0o600).open(self.dir.join(LOCK))
        };
        let mut file = open().map_err(|source| self.io(source))?;
        self.belongs_to_us()?;
        // A process that only checks for a holder holds the lock for a moment too.
        let take = || flock(&file, FlockOperation::NonBlockingLockExclusive);
        let mut taken = take();
        for _ in 0..LOOKS {
            if taken != Err(rustix::io::Errno::WOULDBLOCK) {
                break;
            }
            std::thread::sleep(LOOK);
            taken = take();
        }
        match taken {
            Err(rustix::io::Errno::WOULDBLOCK) => {
                return Err(JournalError::Busy { holder: self.holder().unwrap_or_else(nobody) });
            }
            other => other.map_err(|error| self.io(error.into()))?,
        }
        let mut write = || {
            file.set_len(0)?;
            file.rewind()?;
            writeln!(file, "process {}: {about}", std::process::id())
        };
        write().map_err(|source| self.io(source))?;
        // Entries are written under the lock only: a half-written one was left by a process killed before it changed
        // anything.
        for entry in fs::read_dir(&self.dir).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(TEMPORARY) {
                let _ = fs::remove_file(entry.path());
            }
        }
        Ok(Lock { _file: file })
    }

    /// Root restores the values in the journal, so no other user may be able to write them.
    fn belongs_to_us(&self) -> Result<(), JournalError> {
        let meta = fs::metadata(&self.dir).map_err(|source| self.io(source))?;
        let ours = meta.uid() == rustix::process::geteuid().as_raw() && meta.mode() & 0o022 == 0;
        if ours { Ok(()) } else { Err(JournalError::Unsafe { dir: self.dir.clone() }) }
    }

    /// The process that holds the lock, if any.
    #[must_use]
    pub fn holder(&self) -> Option<String> {
        let file = File::open(self.dir.join(LOCK)).ok()?;
        match flock(&file, FlockOperation::NonBlockingLockShared) {
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let mut text = String::new();
                let _ = file.take(1000).read_to_string(&mut text);
                Some(if text.trim().is_empty() { nobody() } else { text.trim().to_owned() })
            }
            _ => None,
        }
    }

    /// Writes a new entry, complete and synced before it gets its name.
    pub(crate) fn write(&self, entry: &Entry) -> Result<(u32, File), JournalError> {
        let write = || {
            let id = self.ids()?.last().map_or(1, |last| last + 1);
            let temporary = self.dir.join(format!("{TEMPORARY}{id:04}{SUFFIX}"));
            self.step("an entry is to be written");
            let mut file = File::options().append(true).create_new(true).open(&temporary)?;
            file.write_all(entry.text().as_bytes())?;
            self.step("the entry is written");
            file.sync_all()?;
            fs::rename(&temporary, self.file(id))?;
            self.step("the entry has its name");
            File::open(&self.dir)?.sync_all()?;
            Ok((id, file))
        };
        write().map_err(|source| self.io(source))
    }

    /// Replaces an entry.
    pub(crate) fn rewrite(&self, id: u32, entry: &Entry) -> Result<(), JournalError> {
        let write = || {
            let temporary = self.dir.join(format!("{TEMPORARY}{id:04}{SUFFIX}"));
            let mut file = File::options().write(true).create(true).truncate(true).open(&temporary)?;
            file.write_all(entry.text().as_bytes())?;
            file.sync_all()?;
            self.step("the rest of the entry is written");
            fs::rename(&temporary, self.file(id))?;
            File::open(&self.dir)?.sync_all()
        };
        write().map_err(|source| self.io(source))
    }

    /// Removes an entry that has nothing left to restore.
    pub(crate) fn remove(&self, id: u32) -> Result<(), JournalError> {
        self.step("the entry is to be removed");
        let removed = fs::remove_file(self.file(id)).and_then(|()| File::open(&self.dir)?.sync_all());
        self.step("the entry is removed");
        removed.map_err(|source| self.io(source))
    }

    fn file(&self, id: u32) -> PathBuf {
        self.dir.join(format!("{id:04}{SUFFIX}"))
    }

    fn ids(&self) -> io::Result<Vec<u32>> {
        let mut ids = Vec::new();
        for entry in fs::read_dir(&self.dir)? {
            let name = entry?.file_name();
            ids.extend(name.to_str().and_then(|name| name.strip_suffix(SUFFIX)).and_then(|id| id.parse::<u32>().ok()));
        }
        ids.sort_unstable();
        Ok(ids)
    }

    fn io(&self, source: io::Error) -> JournalError {
        JournalError::Io { dir: self.dir.clone(), source }
    }
}

fn nobody() -> String {
    "unknown process".to_owned()
}

#[cfg(test)]
mod tests {
    use hairpin_sys::host::FakeHost;

    use super::*;

    #[test]
    fn the_directory_depends_on_user_and_environment() {
        let dir = |set: &[(&str, &str)], root| {
            dir_from(|name| set.iter().find(|(n, _)| *n == name).map(|(_, value)| value.into()), root)
                .map(|dir| dir.to_str().unwrap().to_owned())
        };
        let (own, state, home) = (("HAIRPIN_JOURNAL", "here"), ("XDG_STATE_HOME", "/state"), ("HOME", "/home/a"));
        assert_eq!(dir(&[own, state, home], true).unwrap(), "here");
        assert_eq!(dir(&[("HAIRPIN_JOURNAL", ""), state, home], true).unwrap(), OF_ROOT);
        assert_eq!(dir(&[state, home], false).unwrap(), "/state/hairpin/journal");
        assert_eq!(dir(&[("XDG_STATE_HOME", "relative"), home], false).unwrap(), "/home/a/.local/state/hairpin/journal");
        assert!(dir(&[], false).unwrap_err().to_string().contains("set HAIRPIN_JOURNAL"));
    }

    #[test]
    fn an_empty_journal_gives_way_to_one_with_entries() {
        let directory = tempfile::tempdir().unwrap();
        let [own, of_root] = ["own", "root"].map(|name| directory.path().join(name));
        let seen = || own_or(Journal::at(&own), Journal::at(&of_root)).dir().to_owned();
        assert_eq!(seen(), own);
        let entry = Entry::of(Head::here(&FakeHost::at(directory.path()), &About::default()), Vec::new());
        for (dir, then) in [(&of_root, &of_root), (&own, &own)] {
            let journal = Journal::at(dir);
            drop(journal.lock("test").unwrap());
            journal.write(&entry).unwrap();
            assert_eq!(seen(), *then);
        }
    }

    #[test]
    fn refuses_a_second_lock_and_names_its_holder() {
        let directory = tempfile::tempdir().unwrap();
        let journal = Journal::at(directory.path().join("journal"));
        assert_eq!(journal.holder(), None);
        let lock = journal.lock("hairpin tune apply rx_usecs=0").unwrap();
        let error = journal.lock("another").unwrap_err().to_string();
        assert!(error.contains(&format!("process {}: hairpin tune apply rx_usecs=0", std::process::id())), "{error}");
        drop(lock);
        assert_eq!(journal.holder(), None);
        assert!(journal.lock("another").is_ok());
    }

    #[test]
    fn the_advice_about_an_orphan_reaches_its_journal() {
        let directory = tempfile::tempdir().unwrap();
        let host = FakeHost::at(directory.path());
        let note = |dir: &str, root| {
            let entry = Entry::of(Head::here(&host, &About::default()), Vec::new());
            orphan_note(&host, &StoredEntry { id: 1, file: Path::new(dir).join("0001.jsonl"), entry: Ok(entry) }, root)
        };
        assert!(note(OF_ROOT, false).ends_with("put them back with `sudo hairpin tune revert`"));
        assert!(note(OF_ROOT, true).ends_with("put them back with `hairpin tune revert`"));
        assert!(note("/home/a/journal", false).ends_with("put them back with `hairpin tune revert`"));
    }

    #[test]
    fn an_entry_removed_while_the_journal_is_read_is_skipped() {
        let directory = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("removed", directory.path().join("0001.jsonl")).unwrap();
        assert!(Journal::at(directory.path()).entries().unwrap().is_empty());
    }

    #[test]
    fn refuses_a_directory_that_others_may_write() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o777)).unwrap();
        assert!(matches!(Journal::at(directory.path()).lock("x"), Err(JournalError::Unsafe { .. })));
    }
}
