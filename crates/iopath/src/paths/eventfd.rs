//! `eventfd`: eight bytes each way, through two kernel counters per flow.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use hairpin_plan::path::LinkKind;
use hairpin_record::run::Side;
use hairpin_sys::wait::or_nothing;
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::{read, write};

use crate::error::PathError;
use crate::flows::Carrier;
use crate::measure::{ClientRun, ServerRun};
use crate::rendezvous;
use crate::runner::{Runner, Support, probe_local};
use crate::stream::closed;

pub struct Eventfd;

/// A counter is 64 bits.
const PAYLOAD: u32 = 8;
/// Added to the counter by a side that exits, since an eventfd has no end of its own. Larger than any message, which is at most
/// 2^32.
const FAREWELL: u64 = 1 << 62;

impl Runner for Eventfd {
    fn probe(&self, link: LinkKind) -> Support {
        probe_local(link)
    }

    fn descriptors_per_flow(&self, _side: Side) -> u32 {
        2
    }

    fn ping(&self, run: &mut ClientRun<'_>) -> Result<(), PathError> {
        let fds = rendezvous::take_over(run, 2 * run.job.flows as usize)?;
        run.over(&mut all(&fds, true))
    }

    fn echo(&self, run: &mut ServerRun<'_>) -> Result<(), PathError> {
        let new = |_| eventfd(0, EventfdFlags::CLOEXEC);
        let fds: Vec<OwnedFd> =
            (0..2 * run.job.flows).map(new).collect::<Result<_, _>>().map_err(PathError::at("cannot make an eventfd"))?;
        let mut flows = all(&fds, false);
        let theirs: Vec<_> = flows.iter().flat_map(|flow| [flow.to, flow.from]).collect();
        rendezvous::hand_over(run, &theirs)?;
        run.over(&mut flows)
    }
}

/// One side of two counters. A message is its eight bytes as a number, plus one, since a counter of zero wakes no one.
struct Counters<'fd> {
    from: BorrowedFd<'fd>,
    to: BorrowedFd<'fd>,
    /// False until the other side has answered: a second write would be added to the first.
    my_turn: bool,
}

/// The flows over pairs of counters.
fn all(fds: &[OwnedFd], my_turn: bool) -> Vec<Counters<'_>> {
    let (pairs, _) = fds.as_chunks::<2>();
    pairs.iter().map(|[from, to]| Counters { from: from.as_fd(), to: to.as_fd(), my_turn }).collect()
}

impl<'fd> Carrier<'fd> for Counters<'fd> {
    const LOSSY: bool = false;
    const WHOLE: bool = true;

    fn readable(&self) -> BorrowedFd<'fd> {
        self.from
    }

    fn writable(&self) -> BorrowedFd<'fd> {
        self.to
    }

    #[inline(always)]
    fn send(&mut self, message: &[u8]) -> io::Result<bool> {
        let Some(bytes) = message.first_chunk() else { return Err(io::ErrorKind::InvalidInput.into()) };
        if !self.my_turn {
            return Ok(false);
        }
        let value = u64::from_le_bytes(*bytes).wrapping_add(1);
        let sent = or_nothing(write(self.to, &value.to_ne_bytes()))?.is_some();
        self.my_turn = !sent;
        Ok(sent)
    }

    #[inline(always)]
    fn recv(&mut self, buffer: &mut [u8], _expected: usize) -> io::Result<Option<usize>> {
        let mut value = [0; PAYLOAD as usize];
        if or_nothing(read(self.from, &mut value))?.is_none() {
            return Ok(None);
        }
        let value = u64::from_ne_bytes(value);
        if value >= FAREWELL {
            return Err(closed());
        }
        self.my_turn = true;
        buffer[..PAYLOAD as usize].copy_from_slice(&value.wrapping_sub(1).to_le_bytes());
        Ok(Some(PAYLOAD as usize))
    }
}

impl Drop for Counters<'_> {
    fn drop(&mut self) {
        // Fails only if the counter would overflow, which needs a peer that exited long ago.
        let _ = write(self.to, &FAREWELL.to_ne_bytes());
    }
}
