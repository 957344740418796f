//! A message in several writes, as a program sends that writes head and body apart.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use hairpin_sys::socket::{self, TCP_QUICKACK};

use super::Connection;
use crate::flows::Carrier;
use crate::path::PathError;
use crate::stream::{QUICKACK_KERNEL, Stream};

/// One connection whose messages leave in `writes` parts.
pub(super) struct Parted {
    stream: Stream<QUICKACK_KERNEL>,
    writes: usize,
    quickack: Option<bool>,
}

impl Parted {
    /// Connected streams, as [`Stream::all`].
    pub(super) fn all(
        fds: Vec<OwnedFd>,
        patience: Duration,
        writes: u32,
        quickack: Option<bool>,
    ) -> Result<Vec<Self>, PathError> {
        let streams = Stream::all(fds, patience)?;
        Ok(streams.into_iter().map(|stream| Parted { stream, writes: writes as usize, quickack }).collect())
    }

    fn rearm(&mut self) -> io::Result<()> {
        if let Some(on) = self.quickack {
            socket::set(self.stream.socket(), TCP_QUICKACK, on.into())?;
            self.stream.extra_calls += 1;
        }
        Ok(())
    }
}

/// Where the parts of a message of `len` bytes end: as long as each other, to a byte, and none empty.
fn ends(len: usize, writes: usize) -> impl Iterator<Item = usize> {
    let parts = writes.min(len).max(1);
    (1..=parts).map(move |part| len * part / parts)
}

impl Connection for Parted {
    fn socket(&self) -> &OwnedFd {
        self.stream.socket()
    }

    fn extra_calls(&self) -> u64 {
        self.stream.extra_calls
    }
}

impl Carrier for Parted {
    const LOSSY: bool = false;

    fn readable(&self) -> BorrowedFd<'_> {
        self.stream.readable()
    }

    fn send(&mut self, message: &[u8]) -> io::Result<bool> {
        let mut sent = 0;
        for end in ends(message.len(), self.writes) {
            if !self.stream.send(&message[sent..end])? {
                if sent == 0 {
                    return Ok(false);
                }
                // What has begun is ended.
                self.stream.push(&message[sent..end])?;
            }
            sent = end;
        }
        self.stream.extra_calls += self.writes as u64 - 1;
        Ok(true)
    }

    fn recv(&mut self, buffer: &mut [u8], expected: usize) -> io::Result<Option<usize>> {
        self.stream.recv(buffer, expected)
    }

    fn received(&mut self) -> io::Result<()> {
        self.rearm()
    }

    fn replying(&mut self) -> io::Result<()> {
        self.rearm()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_whole_together_and_none_is_empty() {
        let ends = |len, writes| ends(len, writes).collect::<Vec<_>>();
        assert_eq!([ends(64, 2), ends(7, 3), ends(1, 4)], [vec![32, 64], vec![2, 4, 7], vec![1]]);
    }
}
