//! Writes a file completely or not at all: a process that has it open, or opens it meanwhile, sees either the old or the new
//! file.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Why a file was not written. An existing file of that name is unchanged.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// A directory has this name.
    #[error("{} is a directory: name a file in it", file.display())]
    Directory {
        /// The path of the file.
        file: PathBuf,
    },
    /// The file cannot be written.
    #[error("cannot write {}: {source}; name a file in a directory that is there, that you may write, and that has space", file.display())]
    Write {
        file: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
}

/// Writes `bytes` to `file`. The bytes are on the disk before the name refers to them. Writes directly to anything but a regular
/// file, such as a pipe, and to what an open descriptor leads to, such as `/dev/stdout`.
///
/// # Errors
/// The file cannot be written, or is a directory.
pub fn write(file: &Path, bytes: &[u8]) -> Result<(), WriteError> {
    let failed = |source| WriteError::Write { file: file.into(), source };
    if let Some(number) = descriptor(file) {
        return opened(number, file).and_then(|mut open| open.write_all(bytes)).map_err(failed);
    }
    match fs::metadata(file) {
        Ok(there) if there.is_dir() => Err(WriteError::Directory { file: file.into() }),
        // A symbolic link stays: the file that it points to is replaced.
        Ok(there) if there.is_file() => {
            file.canonicalize().and_then(|target| replace(&target, bytes, Some(there.permissions()))).map_err(failed)
        }
        Ok(_) => OpenOptions::new().write(true).open(file).and_then(|mut open| open.write_all(bytes)).map_err(failed),
        Err(error) if error.kind() == io::ErrorKind::NotFound => replace(file, bytes, None).map_err(failed),
        Err(error) => Err(failed(error)),
    }
}

/// The number of the descriptor of this process that a name such as `/dev/stdout` or `/dev/fd/3` stands for. Others may go on
/// writing to the file behind it, which therefore must not be replaced.
fn descriptor(file: &Path) -> Option<u32> {
    let own = Path::new("/proc/self/fd").canonicalize().ok()?;
    let mut at = file.to_path_buf();
    // As many links as the kernel follows.
    for _ in 0..40 {
        let dir = at.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new(".")).canonicalize().ok()?;
        if dir == own {
            return at.file_name()?.to_str()?.parse().ok();
        }
        at = dir.join(fs::read_link(&at).ok()?);
    }
    None
}

/// The file behind the descriptor, at the place where whoever opened it goes on.
fn opened(number: u32, file: &Path) -> io::Result<File> {
    match number {
        1 => io::stdout().as_fd().try_clone_to_owned().map(File::from),
        2 => io::stderr().as_fd().try_clone_to_owned().map(File::from),
        _ => OpenOptions::new().append(true).open(file),
    }
}

/// Replaces the file, with these permissions or those of any file that a user creates.
fn replace(file: &Path, bytes: &[u8], permissions: Option<Permissions>) -> io::Result<()> {
    let dir = file.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // The umask applies.
    let mode = Permissions::from_mode(0o666);
    let mut temporary = tempfile::Builder::new().prefix(".hairpin-").permissions(mode).tempfile_in(dir)?;
    if let Some(permissions) = permissions {
        temporary.as_file().set_permissions(permissions)?;
    }
    temporary.write_all(bytes)?;
    temporary.as_file().sync_all()?;
    temporary.persist(file)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::{MetadataExt, symlink};

    use super::*;

    #[test]
    fn a_file_is_replaced_whole_and_nothing_else_is_left() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("report.html"), dir.path().join("link.html"));
        write(&file, b"one").unwrap();
        let old = fs::File::open(&file).unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
        symlink(&file, &link).unwrap();
        write(&link, b"two").unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"two");
        assert_eq!(io::read_to_string(old).unwrap(), "one", "whoever had it open sees the old one");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }

    #[test]
    fn what_a_descriptor_leads_to_is_not_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("log"), dir.path().join("link"));
        let mut log = OpenOptions::new().append(true).create(true).open(&file).unwrap();
        log.write_all(b"one\n").unwrap();
        let fd = PathBuf::from(format!("/proc/self/fd/{}", log.as_raw_fd()));
        symlink(&fd, &link).unwrap();
        for name in [&fd, &link] {
            write(name, b"two\n").unwrap();
        }
        assert_eq!(fs::read(&file).unwrap(), b"one\ntwo\ntwo\n");
        assert_eq!(fs::metadata(&file).unwrap().ino(), log.metadata().unwrap().ino());
        assert_eq!(descriptor(Path::new("/proc/self/fd/1")), Some(1));
        assert_eq!((descriptor(&file), descriptor(Path::new("log"))), (None, None));
    }

    #[test]
    fn failed_write_is_reported_and_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        assert!(matches!(write(dir.path(), b""), Err(WriteError::Directory { .. })));
        let error = write(&dir.path().join("none/report.html"), b"").unwrap_err().to_string();
        assert!(error.contains("none/report.html") && error.contains("No such file"), "{error}");
        // The kernel's own full disk.
        let error = write(Path::new("/dev/full"), b"x").unwrap_err().to_string();
        assert!(error.contains("/dev/full") && error.contains("No space left"), "{error}");
        write(Path::new("/dev/null"), b"x").unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file(), "a device stays one");
    }
}
