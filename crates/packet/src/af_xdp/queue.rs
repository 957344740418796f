//! One queue of an interface as a [`PacketIo`].

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use hairpin_sys::umem::{Frame, Pool, Umem};
use hairpin_sys::xsk::Socket;

use super::metadata;
use super::program::Pause;
use crate::granted::{Granted, TimeSource};
use crate::io::{Arrival, Counters, Departed, Departure, Kick, Kicked, PacketIo};

/// A queue pair of [`AfXdp`](super::AfXdp): one queue of the interface, with its AF_XDP socket, four rings and memory.
pub struct Queue {
    socket: Socket,
    granted: Granted,
    counters: Counters,
    /// True while the program writes the device's metadata.
    knows: bool,
    /// The switch of the program's metadata, if it writes any.
    pause: Option<Pause>,
    /// True while stamps and other metadata are taken.
    taken: bool,
    /// Polls of the RX ring since the last receive kick.
    looks: u32,
    /// Receive kicks since the last one that entered the kernel.
    unasked: u32,
}

/// Polls between two receive kicks from which on the receiver counts as spinning.
const SPINNING: u32 = 16;
/// In copy mode a receive kick has no work to do, and only tells whether the interface still exists. For a spinning
/// receiver only one kick in `ASK_EVERY` enters the kernel, because it does not poll during the system call.
const ASK_EVERY: u32 = 256;

impl Queue {
    pub(super) fn new(socket: Socket, granted: Granted, pause: Option<Pause>) -> Queue {
        let (counters, knows) = (Counters::default(), pause.is_some());
        Queue { socket, granted, counters, knows, pause, taken: true, looks: 0, unasked: 0 }
    }

    #[cold]
    #[inline(never)]
    fn take_with_metadata(&mut self, into: &mut Vec<Arrival>, most: usize) -> usize {
        let came = self.take(into, most);
        let (umem, first) = (self.socket.umem(), into.len() - came);
        for Arrival { frame, time, hash, vlan } in &mut into[first..] {
            let known = metadata::read(umem.in_front(frame));
            (*time, *hash, *vlan) = (known.time, known.hash, known.vlan);
        }
        came
    }

    #[inline(always)]
    fn take(&mut self, into: &mut Vec<Arrival>, most: usize) -> usize {
        self.looks = self.looks.saturating_add(1);
        let before = into.len();
        let counters = &mut self.counters;
        self.socket.receive(most.min(u32::MAX as usize) as u32, |frame| {
            counters.rx_bytes += frame.len() as u64;
            into.push(Arrival { frame, time: None, hash: None, vlan: None });
        });
        let came = into.len() - before;
        counters.rx_frames += came as u64;
        came
    }

    pub(super) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl PacketIo for Queue {
    fn granted(&self) -> &Granted {
        &self.granted
    }

    #[inline(always)]
    fn pool(&mut self) -> &mut Pool {
        self.socket.pool()
    }

    #[inline(always)]
    fn umem(&self) -> &Arc<Umem> {
        self.socket.umem()
    }

    #[inline(always)]
    fn rx_batch(&mut self, into: &mut Vec<Arrival>, most: usize) -> usize {
        if self.knows {
            return self.take_with_metadata(into, most);
        }
        self.take(into, most)
    }

    #[inline(always)]
    fn tx_batch(&mut self, frames: &mut Vec<Frame>) -> usize {
        let (sent, bytes) = self.socket.send(frames);
        self.counters.tx_frames += sent as u64;
        self.counters.tx_bytes += bytes;
        sent
    }

    #[inline(always)]
    fn kick(&mut self, what: Kick) -> io::Result<Kicked> {
        match what {
            Kick::Send => {
                let kicked = self.socket.kick_send()?;
                self.counters.tx_dropped += u64::from(kicked.dropped);
                self.counters.tx_busy += u64::from(kicked.busy);
                Ok(if kicked.busy { Kicked::Busy } else { Kicked::Done })
            }
            Kick::Receive => {
                let spins = std::mem::take(&mut self.looks) >= SPINNING;
                self.unasked += 1;
                if !spins || self.unasked >= ASK_EVERY || self.granted.busy_poll || self.socket.receive_needs_wakeup() {
                    self.unasked = 0;
                    self.socket.kick_receive()?;
                }
                Ok(Kicked::Done)
            }
        }
    }

    fn waitable(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn sends_on(&self) -> BorrowedFd<'_> {
        self.socket.sends_on()
    }

    fn take_stamps(&mut self, taken: bool) -> io::Result<()> {
        self.socket.ask_departures(taken);
        self.taken = taken;
        if let Some(pause) = &self.pause {
            pause.set(!taken)?;
            self.knows = taken;
        }
        Ok(())
    }

    fn ask_departures(&mut self, asked: bool) {
        self.socket.ask_departures(self.taken && asked);
    }

    fn departures(&mut self, into: &mut Vec<Departure>) -> io::Result<usize> {
        let before = into.len();
        let by_device = self.granted.tx_time == Some(TimeSource::Hardware);
        self.socket.departures(|frame, ns| {
            let time = if by_device { Departed::Hardware(ns) } else { Departed::Completed(ns) };
            into.push(Departure { frame, time });
        });
        Ok(into.len() - before)
    }

    fn counters(&mut self) -> Counters {
        // It fails only for an invalid socket.
        let kernel = self.socket.statistics().unwrap_or_default();
        // In copy mode each miss of the fill ring is a lost frame, also counted as dropped; with zero-copy it is only a
        // poll.
        let no_chunk = if self.granted.zero_copy { 0 } else { kernel.fill_empty.min(kernel.rx_dropped) };
        Counters {
            rx_ring_full: kernel.rx_ring_full,
            rx_no_chunk: no_chunk,
            rx_dropped: kernel.rx_dropped - no_chunk,
            rx_invalid: kernel.rx_invalid + self.socket.invalid(),
            rx_too_long: self.socket.too_long(),
            tx_invalid: kernel.tx_invalid,
            tx_unstamped: self.socket.departures_lost(),
            ..self.counters
        }
    }
}
