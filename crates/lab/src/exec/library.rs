//! The place of the preload library: a directory that only its user can write, at a path that nobody else can take over.
//!
//! ```text
//!   $HAIRPIN_LIBRARY/preload-7f3a….so       else, the first that will do:
//!     as root          /var/lib/hairpin/preload, /run/hairpin/preload
//!     as anybody else  $XDG_STATE_HOME/hairpin/preload, ~/.local/state/hairpin/preload, $XDG_RUNTIME_DIR/hairpin/preload
//! ```
//! The path stays in the environment of every process that the program leaves behind, and the loader resolves it again for each
//! program started there: with root's rights too, and for months. So the file stays, one per build. A name tied to a process
//! (`/proc/PID/fd/N`), or one that others could take once it is free (`/tmp/…`), is not safe.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::{self, DirBuilder, Permissions};
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use hairpin_sys::program::LIBRARY;
use rustix::fs::{StatVfsMountFlags, statvfs};

/// The environment variable with the directory.
const VARIABLE: &str = "HAIRPIN_LIBRARY";
/// Characters that the loader takes as separators or expands (ld.so(8)).
const LOADER_READS: &[u8] = b" :;$";
/// Permission bits: the group or others may write (inode(7)).
const WRITTEN_BY_OTHERS: u32 = 0o022;
/// Permission bits: the group or others may enter.
const ENTERED_BY_OTHERS: u32 = 0o011;
/// The sticky bit: only the owner of an entry may remove it.
const STICKY: u32 = 0o1000;

/// Why no directory will do for the library.
#[derive(Debug, thiserror::Error)]
#[error("there is no place for the library that the program is to load{}; set {VARIABLE} to a folder that only you can write", told(.0))]
pub struct NoPlace(Vec<(PathBuf, String)>);

fn told(tried: &[(PathBuf, String)]) -> String {
    let mut text = String::new();
    for (at, (folder, why)) in tried.iter().enumerate() {
        let _ = write!(text, "{} {}: {why}", if at == 0 { ":" } else { ";" }, folder.display());
    }
    text
}

/// The directories to try.
#[derive(Debug, PartialEq, Eq)]
struct Candidates {
    folders: Vec<PathBuf>,
    /// The user named the directory and is responsible for its permanence: it may be below one such as /tmp, where others can
    /// create names but cannot take this one.
    named: bool,
}

fn candidates(variable: impl Fn(&str) -> Option<OsString>, root: bool) -> Candidates {
    let path = |name| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(folder) = path(VARIABLE) {
        return Candidates { folders: vec![folder], named: true };
    }
    if root {
        // With sudo -E the variables are those of another user.
        return Candidates {
            folders: ["/var/lib/hairpin/preload", "/run/hairpin/preload"].map(PathBuf::from).into(),
            named: false,
        };
    }
    let home = path("HOME").map(|home| home.join(".local/state"));
    let folders = [path("XDG_STATE_HOME"), home, path("XDG_RUNTIME_DIR")].into_iter().flatten();
    let folders = folders.filter(|folder| folder.is_absolute()).map(|folder| folder.join("hairpin/preload")).collect();
    Candidates { folders, named: false }
}

/// Writes the library, or finds it there, and returns its path.
pub(super) fn lay() -> Result<PathBuf, NoPlace> {
    let user = rustix::process::geteuid();
    let Candidates { folders, named } = candidates(|name| std::env::var_os(name), user.is_root());
    let mut tried = Vec::new();
    for folder in folders {
        match lay_in(&folder, user.as_raw(), named) {
            Ok(path) => return Ok(path),
            Err(why) => tried.push((folder, why)),
        }
    }
    Err(NoPlace(tried))
}

fn lay_in(folder: &Path, user: u32, named: bool) -> Result<PathBuf, String> {
    let said = |error: io::Error| error.to_string();
    // Every user may enter: a program started by root may go on as another user.
    DirBuilder::new().recursive(true).mode(0o755).create(folder).map_err(said)?;
    let folder = folder.canonicalize().map_err(said)?;
    is_ours_alone(&folder, user, named)?;
    if folder.as_os_str().as_bytes().iter().any(|byte| LOADER_READS.contains(byte)) {
        return Err("the loader does not read a path with a blank, a colon or a dollar sign".into());
    }
    if statvfs(&folder).is_ok_and(|about| about.f_flag.contains(StatVfsMountFlags::NOEXEC)) {
        return Err("it is mounted noexec".into());
    }
    let path = folder.join(format!("preload-{:016x}.so", checksum(LIBRARY)));
    if !lies_there(&path, user) {
        let mut file = tempfile::NamedTempFile::new_in(&folder).map_err(said)?;
        file.write_all(LIBRARY).map_err(said)?;
        file.as_file().set_permissions(Permissions::from_mode(0o644)).map_err(said)?;
        // Processes that have the old file mapped keep it: this is a new file under the same name.
        file.persist(&path).map_err(|error| said(error.error))?;
    }
    Ok(path)
}

/// True if this very library is at `path` and only `user`, its owner, can write it.
fn lies_there(path: &Path, user: u32) -> bool {
    let ours = |about: fs::Metadata| about.is_file() && about.uid() == user && about.mode() & WRITTEN_BY_OTHERS == 0;
    fs::symlink_metadata(path).is_ok_and(ours) && fs::read(path).is_ok_and(|bytes| bytes == LIBRARY)
}

/// Checks that only this user and root can place another file at this path, now or after a removal. With `named`, only while the
/// file exists.
fn is_ours_alone(folder: &Path, user: u32, named: bool) -> Result<(), String> {
    let mut parts = Vec::new();
    for part in folder.ancestors() {
        let about = fs::symlink_metadata(part).map_err(|error| format!("{}: {error}", part.display()))?;
        parts.push(Part { path: part, owner: about.uid(), mode: about.mode() });
    }
    parts.reverse();
    judge(&parts, user, named)
}

/// A directory along the path.
struct Part<'a> {
    path: &'a Path,
    owner: u32,
    mode: u32,
}

/// Judges a path from `/` downwards.
fn judge(way: &[Part<'_>], user: u32, named: bool) -> Result<(), String> {
    // Root's uid, whatever number a user namespace shows for it.
    let root = way.first().map_or(0, |part| part.owner);
    for (at, part) in way.iter().enumerate() {
        let (shown, last) = (part.path.display(), at + 1 == way.len());
        if part.owner != user && (last || ![0, root].contains(&part.owner)) {
            return Err(format!("{shown} belongs to user {}", part.owner));
        }
        if part.mode & WRITTEN_BY_OTHERS != 0 && (last || !named || part.mode & STICKY == 0) {
            return Err(format!("others than its owner can write {shown}"));
        }
        if part.owner == user && part.mode & ENTERED_BY_OTHERS == 0 {
            // Others cannot get below this directory.
            return Ok(());
        }
    }
    Ok(())
}

/// FNV-1a, so that different builds get different file names.
fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user() -> u32 {
        rustix::process::geteuid().as_raw()
    }

    #[test]
    fn the_folder_follows_user_and_environment() {
        let folders = |set: &[(&str, &str)], root| {
            let found = candidates(|name| set.iter().find(|(n, _)| *n == name).map(|(_, value)| value.into()), root);
            (found.folders.iter().map(|folder| folder.to_str().unwrap().to_owned()).collect::<Vec<_>>(), found.named)
        };
        let (own, state, home) = (("HAIRPIN_LIBRARY", "/here"), ("XDG_STATE_HOME", "/state"), ("HOME", "/home/a"));
        let run = ("XDG_RUNTIME_DIR", "/run/user/7");
        assert_eq!(folders(&[own, state, home], true), (vec!["/here".into()], true));
        let of_root = vec!["/var/lib/hairpin/preload".to_owned(), "/run/hairpin/preload".to_owned()];
        assert_eq!(folders(&[("HAIRPIN_LIBRARY", ""), state, home, run], true), (of_root, false));
        let of_user = ["/state", "/home/a/.local/state", "/run/user/7"].map(|at| format!("{at}/hairpin/preload")).to_vec();
        assert_eq!(folders(&[state, home, run], false), (of_user.clone(), false));
        assert_eq!(folders(&[("XDG_STATE_HOME", "relative"), home], false), (vec![of_user[1].clone()], false));
        let error = NoPlace(vec![("/a".into(), "no".into()), ("/b".into(), "never".into())]).to_string();
        assert!(error.contains("load: /a: no; /b: never; set HAIRPIN_LIBRARY"), "{error}");
    }

    #[test]
    fn a_path_that_others_can_take_is_refused() {
        let judged = |way: &[(&'static str, u32, u32)], named| {
            let parts = way.iter().map(|&(path, owner, mode)| Part { path: Path::new(path), owner, mode });
            judge(&parts.collect::<Vec<_>>(), 7, named)
        };
        let top = ("/", 0, 0o755);
        for (way, named, why) in [
            (&[top, ("/var", 0, 0o755), ("/var/own", 7, 0o755)][..], false, ""),
            (&[top, ("/home", 0, 0o755), ("/home/a", 7, 0o710)], false, ""),
            // Others cannot reach the directory that the group can write.
            (&[top, ("/home", 0, 0o755), ("/home/a", 7, 0o700), ("/home/a/x", 7, 0o775)], false, ""),
            (
                &[top, ("/home", 0, 0o755), ("/home/a", 7, 0o750), ("/home/a/x", 7, 0o775)],
                false,
                "others than its owner can write /home/a/x",
            ),
            // In a user namespace root has another uid.
            (&[("/", 65534, 0o755), ("/home", 65534, 0o755), ("/home/a", 7, 0o755)], false, ""),
            (&[top, ("/home", 65534, 0o755), ("/home/a", 7, 0o755)], false, "/home belongs to user 65534"),
            (&[top, ("/var", 0, 0o755)], false, "/var belongs to user 0"),
            // The name is free for everybody once the file is removed, unless the user takes responsibility for it.
            (&[top, ("/tmp", 0, 0o1777), ("/tmp/x", 7, 0o700)], false, "others than its owner can write /tmp"),
            (&[top, ("/tmp", 0, 0o1777), ("/tmp/x", 7, 0o700)], true, ""),
            (&[top, ("/tmp", 0, 0o777), ("/tmp/x", 7, 0o700)], true, "others than its owner can write /tmp"),
            (&[top, ("/tmp", 0, 0o1777), ("/tmp/x", 8, 0o755), ("/tmp/x/y", 7, 0o700)], true, "/tmp/x belongs to user 8"),
            (&[top, ("/own", 7, 0o1777)], true, "others than its owner can write /own"),
        ] {
            assert_eq!(judged(way, named).err().unwrap_or_default(), why, "{named}");
        }
    }

    #[test]
    fn the_library_is_laid_once_and_mended() {
        let base = tempfile::tempdir().unwrap();
        let folder = base.path().join("a/b");
        let path = lay_in(&folder, user(), true).unwrap();
        assert_eq!(fs::read(&path).unwrap(), LIBRARY);
        let inode = || fs::metadata(&path).unwrap().ino();
        let first = inode();
        assert_eq!(lay_in(&folder, user(), true).unwrap(), path);
        assert_eq!(inode(), first, "the same file serves the next program");
        for spoil in [
            |path: &Path| fs::write(path, "x").unwrap(),
            |path: &Path| fs::set_permissions(path, Permissions::from_mode(0o666)).unwrap(),
        ] {
            spoil(&path);
            assert_eq!(lay_in(&folder, user(), true).unwrap(), path);
            assert!(lies_there(&path, user()));
        }
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "nothing else is left");
        let odd = base.path().join("a b");
        assert!(lay_in(&odd, user(), true).unwrap_err().contains("the loader does not read"));
        let file = base.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(lay_in(&file.join("below"), user(), true).is_err());
    }
}
