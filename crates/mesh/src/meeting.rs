//! Where the ranks meet: a directory that their hosts share, or a list of their names.
//!
//! ```text
//!   DIR/key             the mesh's key, made by rank 0 (mode 0600)
//!   DIR/rank-K.json     rank K: its address, its version, its work, its host             written whole
//!   DIR/pairs-K.jsonl   rank K: its visits, a line each                                  written at once
//! ```

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use hairpin_lab::whole_file;
use hairpin_record::run::HostFacts;
use hairpin_session::key::{GenerateKeyError, Key, LoadKeyError};
use serde::{Deserialize, Serialize};

use crate::setup::Setup;

/// The name of every mesh with a list of hosts and without a launcher: its ranks have nothing else in common before they meet.
pub const LISTED: &str = "listed";

/// A rank as it presents itself, in its file and to rank 0.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Card {
    /// The mesh's name.
    pub mesh: String,
    /// Its number.
    pub rank: u32,
    /// The launcher's or the kernel's name of its host.
    pub host: String,
    /// Differs between hosts, also between two of one name.
    pub host_id: String,
    /// The address at which it listens.
    pub address: String,
    /// The port.
    pub port: u16,
    /// Name and version of its tool.
    pub tool: String,
    /// Its command line.
    pub command: Vec<String>,
    /// When it began, RFC 3339 in UTC.
    pub started: String,
    /// Its work.
    pub setup: Setup,
    /// Facts of its host.
    pub facts: HostFacts,
    /// The settings of its host that `hairpin tune check` finds, the one with the most at stake first.
    #[serde(default)]
    pub findings: Vec<String>,
}

/// Why the ranks do not meet.
#[derive(Debug, thiserror::Error)]
pub enum MeetingError {
    /// The directory holds another mesh.
    #[error("{} holds an earlier mesh ({file} is there): name another one with --dir, or remove it", dir.display())]
    Used { dir: PathBuf, file: String },
    /// The directory or a file in it cannot be written.
    #[error("cannot write {}: {source}; name a directory that all hosts share and that you may write, with --dir", path.display())]
    Write { path: PathBuf, source: io::Error },
    /// A rank's file was not written.
    #[error(transparent)]
    Card(#[from] whole_file::WriteError),
    /// A file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    /// A rank's file holds something else.
    #[error("{} is not a rank of a mesh: {source}; use the same hairpin for all ranks and for the merge", path.display())]
    Parse { path: PathBuf, source: serde_json::Error },
    /// No key can be made.
    #[error(transparent)]
    Generate(#[from] GenerateKeyError),
    /// The key cannot be read.
    #[error(transparent)]
    Key(#[from] LoadKeyError),
}

/// The file of a rank.
pub fn card_file(dir: &Path, rank: u32) -> PathBuf {
    dir.join(format!("rank-{rank}.json"))
}

fn key_file(dir: &Path) -> PathBuf {
    dir.join("key")
}

/// Makes the directory, unless it is there; refuses one that has this rank's file of an earlier mesh.
pub fn enter(dir: &Path, rank: u32) -> Result<(), MeetingError> {
    fs::create_dir_all(dir).map_err(|source| MeetingError::Write { path: dir.into(), source })?;
    for file in [card_file(dir, rank), crate::visit::file(dir, rank)] {
        if file.exists() {
            let file = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            return Err(MeetingError::Used { dir: dir.into(), file });
        }
    }
    Ok(())
}

/// Writes a rank's file, whole or not at all.
pub fn write_card(dir: &Path, card: &Card) -> Result<(), MeetingError> {
    let text = serde_json::to_vec(card).expect("a card has a JSON form");
    Ok(whole_file::write(&card_file(dir, card.rank), &text)?)
}

/// A rank's file; `None` if it is not there yet.
pub fn read_card(dir: &Path, rank: u32) -> Result<Option<Card>, MeetingError> {
    let path = card_file(dir, rank);
    match after_a_look(dir, || fs::read(&path)) {
        Ok(text) => serde_json::from_slice(&text).map(Some).map_err(|source| MeetingError::Parse { path, source }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(MeetingError::Read { path, source }),
    }
}

/// What `read` finds, once more after the directory was opened if there is no such name. NFS denies a name that was not there
/// without asking its server for as long as it trusts what it knows of the directory (`nfs_neg_need_reval` in the kernel's
/// fs/nfs/dir.c), which is 30 s at least (acdirmin, nfs(5)). To open the directory makes it ask.
fn after_a_look<T>(dir: &Path, read: impl Fn() -> io::Result<T>) -> io::Result<T> {
    match read() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            // One that cannot be opened may have the file all the same.
            let _ = File::open(dir);
            read()
        }
        found => found,
    }
}

/// True if the files of all ranks are there, by one listing of the directory: it is opened anew, and no name is asked for.
pub fn all_there(dir: &Path, ranks: u32) -> Result<bool, MeetingError> {
    let there = ranks_there(dir)?;
    Ok((0..ranks).all(|rank| there.binary_search(&rank).is_ok()))
}

/// The numbers of all ranks whose files are there, ascending.
pub fn ranks_there(dir: &Path) -> Result<Vec<u32>, MeetingError> {
    let failed = |source| MeetingError::Read { path: dir.into(), source };
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        let rank: Option<u32> = name.to_str().and_then(|name| name.strip_prefix("rank-")?.strip_suffix(".json")?.parse().ok());
        found.extend(rank);
    }
    found.sort_unstable();
    Ok(found)
}

/// Makes the mesh's key, which only this user can read. Rank 0 alone does so, before it writes its own file.
pub fn make_key(dir: &Path) -> Result<Key, MeetingError> {
    let (key, path) = (Key::generate()?, key_file(dir));
    let failed = |source| MeetingError::Write { path: path.clone(), source };
    // The key of a rank 0 that ended before it wrote its own file is of no use any more.
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).map_err(failed)?;
    file.write_all(format!("{}\n", key.to_text()).as_bytes()).and_then(|()| file.sync_all()).map_err(failed)?;
    Ok(key)
}

/// The key that rank 0 has made.
pub fn load_key(dir: &Path) -> Result<Key, MeetingError> {
    Ok(Key::load(&key_file(dir))?.key)
}

/// Removes the key of a mesh that is over; if that fails, it stays readable for its user alone.
pub fn remove_key(dir: &Path) {
    let _ = fs::remove_file(key_file(dir));
}

#[cfg(test)]
pub(crate) mod tests {
    use std::os::unix::fs::PermissionsExt;

    use rustix::fs::inotify;

    use super::*;

    pub(crate) fn card(rank: u32, ranks: u32) -> Card {
        Card {
            mesh: "m".into(),
            rank,
            host: format!("n{rank}"),
            host_id: format!("id {rank}"),
            address: format!("198.18.0.{}", rank + 1),
            port: 24_444,
            tool: hairpin_record::head::TOOL.into(),
            command: vec!["hairpin".into(), "mesh".into()],
            started: "2026-11-26T12:00:00.000000Z".into(),
            setup: crate::setup::tests::setup(ranks, "all"),
            facts: HostFacts::default(),
            findings: Vec::new(),
        }
    }

    #[test]
    fn a_rank_is_found_where_it_has_written() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("mesh");
        enter(&dir, 2).unwrap();
        assert_eq!(read_card(&dir, 2).unwrap(), None);
        write_card(&dir, &card(2, 12)).unwrap();
        write_card(&dir, &card(11, 12)).unwrap();
        assert_eq!(read_card(&dir, 2).unwrap(), Some(card(2, 12)));
        assert_eq!(ranks_there(&dir).unwrap(), [2, 11]);
        let said = enter(&dir, 2).unwrap_err().to_string();
        assert!(said.contains("rank-2.json is there") && said.contains("--dir"), "{said}");
        fs::write(card_file(&dir, 3), "{").unwrap();
        assert!(matches!(read_card(&dir, 3), Err(MeetingError::Parse { .. })));
    }

    #[test]
    fn all_ranks_are_found_by_one_listing_in_whatever_order_they_come() {
        let dir = tempfile::tempdir().unwrap();
        let all = || all_there(dir.path(), 3).unwrap();
        for rank in [2, 7, 0] {
            write_card(dir.path(), &card(rank, 3)).unwrap();
            assert!(!all(), "rank 1 is not there");
        }
        // A name that is listed and that no look-up finds, as NFS has it for a while.
        std::os::unix::fs::symlink("nowhere", card_file(dir.path(), 1)).unwrap();
        assert!(all() && !card_file(dir.path(), 1).exists());
        assert!(all_there(&dir.path().join("nowhere"), 3).is_err());
    }

    #[test]
    fn a_name_that_is_denied_is_read_again_once_the_directory_was_opened() {
        let dir = tempfile::tempdir().unwrap();
        let opened = inotify::init(inotify::CreateFlags::NONBLOCK).unwrap();
        inotify::add_watch(&opened, dir.path(), inotify::WatchFlags::OPEN).unwrap();
        // As NFS does.
        let read = || -> io::Result<u32> {
            match rustix::io::read(&opened, &mut [0_u8; 256]) {
                Ok(_) => Ok(7),
                Err(_) => Err(io::ErrorKind::NotFound.into()),
            }
        };
        assert_eq!(after_a_look(dir.path(), read).unwrap(), 7);
        assert!(after_a_look(&dir.path().join("nowhere"), read).is_err());
        // The same for a rank's file: the second reading finds what the first did not.
        assert_eq!(read_card(dir.path(), 2).unwrap(), None);
        assert_eq!(read().unwrap(), 7, "the directory was opened");
    }

    #[test]
    fn only_its_user_can_read_a_key() {
        let dir = tempfile::tempdir().unwrap();
        assert!(load_key(dir.path()).is_err());
        let key = make_key(dir.path()).unwrap();
        assert!(load_key(dir.path()).unwrap() == key);
        assert_eq!(fs::metadata(key_file(dir.path())).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(make_key(dir.path()).unwrap() != key, "a new one for each mesh");
    }
}
