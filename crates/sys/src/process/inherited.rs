//! The descriptors that [`Worker::spawn`](super::Worker::spawn) gave to this process; each can be taken once.
//!
//! ```text
//!   parent   fd of a memfd ─ dup2 to 4, exec ─▶ open at 4, nobody's          worker
//!            HAIRPIN_INHERITED=4:DEVICE:INODE ─▶ Inherited::claim ─ take(4) ─▶ OwnedFd
//! ```
//! A number alone proves nothing: this process may have opened something else there, with its own owner. So only descriptors
//! named by the parent in the environment can be taken, once per process, and only if the very file it named is open there
//! without close-on-exec. A file that this process opened itself cannot match: it would first have had to close a descriptor that
//! it does not own.

use std::io;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::fstat;
use rustix::io::{FdFlags, fcntl_getfd, fcntl_setfd};

/// Environment variable in which the parent names the descriptors.
const VARIABLE: &str = "HAIRPIN_INHERITED";

/// The value of the environment variable for these descriptors, which get the paired numbers in the child.
pub(super) fn named<'f>(passed: impl Iterator<Item = (BorrowedFd<'f>, RawFd)>) -> io::Result<(&'static str, String)> {
    let one = |(fd, number): (BorrowedFd<'_>, RawFd)| {
        let file = fstat(fd)?;
        Ok(format!("{number}:{}:{}", file.st_dev, file.st_ino))
    };
    Ok((VARIABLE, passed.map(one).collect::<io::Result<Vec<String>>>()?.join(",")))
}

/// A descriptor as named by the parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Named {
    number: RawFd,
    device: u64,
    inode: u64,
}

/// In a worker: the descriptors from its parent that have not been taken yet.
#[derive(Debug)]
pub struct Inherited(Vec<Named>);

impl Inherited {
    /// Takes the whole list; only once per process, so that no descriptor gets two owners.
    ///
    /// # Errors
    /// `NotFound` if this process was not started by [`Worker::spawn`](super::Worker::spawn), `AlreadyExists` for the second
    /// claim, `InvalidData` if the environment is garbled.
    pub fn claim() -> io::Result<Inherited> {
        static CLAIMED: AtomicBool = AtomicBool::new(false);
        let text = std::env::var(VARIABLE)
            .map_err(|_| io::Error::new(io::ErrorKind::NotFound, "this process was not started as a worker of another one"))?;
        let named = parse(&text)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, format!("{VARIABLE} names no descriptors: \"{text}\"")))?;
        if CLAIMED.swap(true, Ordering::AcqRel) {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "what this process inherited was claimed before"));
        }
        Ok(Inherited(named))
    }

    /// Takes the descriptor at `number`, and sets close-on-exec on it again.
    ///
    /// # Errors
    /// `EBADF` if the parent passed none there or it was already taken; `EEXIST` if another file is open there; those of fcntl(2)
    /// and fstat(2).
    pub fn take(&mut self, number: RawFd) -> io::Result<OwnedFd> {
        let at = self.0.iter().position(|named| named.number == number);
        let named = self.0.swap_remove(at.ok_or_else(|| io::Error::from_raw_os_error(libc::EBADF))?);
        // SAFETY: the borrow is used for three calls on a number that is not -1; a number that is not open makes the first of
        // them fail.
        let fd = unsafe { BorrowedFd::borrow_raw(number) };
        let flags = fcntl_getfd(fd)?;
        let file = fstat(fd)?;
        if flags.contains(FdFlags::CLOEXEC) || (file.st_dev, file.st_ino) != (named.device, named.inode) {
            return Err(io::Error::from_raw_os_error(libc::EEXIST));
        }
        fcntl_setfd(fd, flags | FdFlags::CLOEXEC)?;
        // SAFETY: the descriptor came over exec, as the parent says and its file proves, and has no owner: it is named once, and
        // whoever is named here is taken out of the one list of this process (claim() gives it once).
        Ok(unsafe { OwnedFd::from_raw_fd(number) })
    }
}

/// `None` for text that [`named`] does not write, including a repeated number.
fn parse(text: &str) -> Option<Vec<Named>> {
    let mut all: Vec<Named> = Vec::new();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let mut fields = part.split(':');
        let number = fields.next()?.parse().ok().filter(|number: &RawFd| *number > 2)?;
        let (device, inode) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
        if fields.next().is_some() || all.iter().any(|named| named.number == number) {
            return None;
        }
        all.push(Named { number, device, inode });
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use std::os::fd::{AsFd, AsRawFd};

    use super::*;

    #[test]
    fn reads_back_the_descriptors_named_by_the_parent() {
        let (reader, writer) = std::io::pipe().unwrap();
        let (_, text) = named([(reader.as_fd(), 3), (writer.as_fd(), 9)].into_iter()).unwrap();
        assert_eq!(parse(&text).unwrap().iter().map(|named| named.number).collect::<Vec<_>>(), [3, 9]);
        assert_eq!(parse(""), Some(Vec::new()));
        for garbled in ["3", "3:1", "3:1:2:3", "2:1:1", "-1:1:1", "x:1:1", "3:1:1,3:1:1"] {
            assert_eq!(parse(garbled), None, "{garbled}");
        }
    }

    /// A descriptor of this process, opened without close-on-exec: it has an owner, and a second owner would close it under the
    /// first.
    #[test]
    fn rejects_descriptors_opened_by_this_process() {
        let (reader, writer) = std::io::pipe().unwrap();
        fcntl_setfd(&reader, FdFlags::empty()).unwrap();
        let other = fstat(std::fs::File::open("/dev/null").unwrap()).unwrap();
        let claims = [
            // Not named at all; another file named; close-on-exec, so not inherited over exec.
            (Inherited(Vec::new()), reader.as_raw_fd(), libc::EBADF),
            (claim(reader.as_raw_fd(), other), reader.as_raw_fd(), libc::EEXIST),
            (claim(writer.as_raw_fd(), fstat(&writer).unwrap()), writer.as_raw_fd(), libc::EEXIST),
            (claim(1_000_000, other), 1_000_000, libc::EBADF),
        ];
        for (mut inherited, number, errno) in claims {
            assert_eq!(inherited.take(number).unwrap_err().raw_os_error(), Some(errno), "{inherited:?}");
        }
    }

    fn claim(number: RawFd, file: rustix::fs::Stat) -> Inherited {
        Inherited(vec![Named { number, device: file.st_dev, inode: file.st_ino }])
    }
}
