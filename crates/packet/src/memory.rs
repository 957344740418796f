//! Two queue pairs joined in memory: each receives the other's frames. It needs no privilege and no device,
//! and is the fake behind every test.
//!
//! ```text
//!    one end                                                          other end
//!    chunk ── tx_batch: copied ──▶ bytes ─────────────── rx_batch: copied ──▶ chunk of its pool
//!      └─▶ pool, at once    kick ─▶ lengths: the frame is there ──▶ ╯
//!                              ╰──▶ eventfd, written only if the other end waits
//! ```
//! No frame is lost: if the other end does not receive, the TX ring becomes full, which is a count.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use hairpin_sys::armed::Armed;
use hairpin_sys::umem::{Frame, MAX_CHUNK, MIN_CHUNK, Pool, Umem};
use rtrb::{Consumer, Producer, RingBuffer};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;

use crate::device::{Config, OpenError};
use crate::filter::Filter;
use crate::granted::{Feature, Granted, Refused};
use crate::io::{Arrival, Counters, Kick, Kicked, PacketIo};

/// The default longest frame: an Ethernet frame with a 1,500-byte packet.
const LONGEST: usize = 1514;

/// Bytes under way in one direction, unless one frame is longer: frames cycle through all of it, and more would not fit
/// into a core's cache.
const ON_THE_WAY: usize = 128 << 10;

/// One end of an in-memory pair, made by [`pair`]. The ends may be on different threads. After one end is dropped, a kick of
/// the other is ENETDOWN: one to send if it has frames, which it forgets; one to receive once all frames of the dropped end are
/// received.
#[derive(Debug)]
pub struct MemoryIo {
    granted: Granted,
    filter: Filter,
    pool: Pool,
    umem: Arc<Umem>,
    /// Lengths of the frames that wait for a kick.
    unkicked: Vec<u32>,
    to: Sending,
    from: Receiving,
    counters: Counters,
}

#[derive(Debug)]
struct Sending {
    bytes: Producer<u8>,
    /// The length of each frame, pushed when it is kicked: a frame is there when its length is.
    lengths: Producer<u32>,
    bell: Arc<Bell>,
}

#[derive(Debug)]
struct Receiving {
    bytes: Consumer<u8>,
    lengths: Consumer<u32>,
    bell: Arc<Bell>,
}

/// Wakes the receiving end, if it waits.
#[derive(Debug)]
struct Bell {
    descriptor: OwnedFd,
    /// Armed while the receiver wants to be woken.
    wanted: AtomicBool,
}

/// Makes two queue pairs, each with its own packet memory, joined to each other: for tests, and for programs without
/// privileges. `config` decides filter, ring entries, chunks and longest frame of both; features that only a device has are
/// refused in [`Granted`].
///
/// ```
/// use hairpin_packet::memory;
/// use hairpin_packet::prelude::*;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (near, far) = memory::pair(&Config { ring_entries: 64, chunks: 256, ..Config::default() })?;
/// let [near, far] = [near, far].map(|io| Ring::new(io, MonotonicRaw, RingConfig::default()));
/// let _ = near.sender().inject(&[5; 60])?;
/// let Received::Got(frame) = far.recv(1000)? else { return Err("no frame came".into()) };
/// assert_eq!(frame[..], [5; 60]);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// The sizes are invalid, or the kernel provides no memory or eventfd.
pub fn pair(config: &Config) -> Result<(MemoryIo, MemoryIo), OpenError> {
    let longest = config.longest_frame.unwrap_or(LONGEST);
    if longest > MAX_CHUNK || config.ring_entries == 0 || config.rings != 1 {
        let (entries, rings) = (config.ring_entries, config.rings);
        return Err(OpenError::Config(format!(
            "an end of the in-memory pair is one ring of at least one entry, for frames up to {MAX_CHUNK} bytes: not {rings}, {entries} and {longest}"
        )));
    }
    let (to_second, from_first) = direction(config.ring_entries as usize, longest)?;
    let (to_first, from_second) = direction(config.ring_entries as usize, longest)?;
    Ok((end("memory-0", config, longest, to_second, from_second)?, end("memory-1", config, longest, to_first, from_first)?))
}

fn direction(entries: usize, longest: usize) -> Result<(Sending, Receiving), OpenError> {
    let bytes = entries.saturating_mul(longest).min(ON_THE_WAY.max(longest));
    let (mut to_bytes, mut from_bytes) = RingBuffer::new(bytes);
    let (to_lengths, from_lengths) = RingBuffer::new(entries);
    // All of it is written once, so that no page fault comes later.
    if let Ok(chunk) = to_bytes.write_chunk(bytes) {
        chunk.commit_all();
    }
    if let Ok(chunk) = from_bytes.read_chunk(bytes) {
        chunk.commit_all();
    }
    let descriptor = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC);
    let descriptor = descriptor.map_err(|errno| OpenError::Step {
        what: "making an eventfd".into(),
        interface: "the in-memory pair".into(),
        source: errno.into(),
    })?;
    let bell = Arc::new(Bell { descriptor, wanted: AtomicBool::new(false) });
    let sending = Sending { bytes: to_bytes, lengths: to_lengths, bell: bell.clone() };
    Ok((sending, Receiving { bytes: from_bytes, lengths: from_lengths, bell }))
}

fn end(interface: &str, config: &Config, longest: usize, to: Sending, from: Receiving) -> Result<MemoryIo, OpenError> {
    let pool = Pool::new(config.chunks, longest.next_power_of_two().max(MIN_CHUNK))?;
    let asked = [
        (Feature::Native, config.mode.is_some()),
        (Feature::ZeroCopy, config.zero_copy),
        (Feature::BusyPoll, config.busy_poll_us.is_some()),
        (Feature::HardwareTime, config.metadata),
        (Feature::Hash, config.metadata),
        (Feature::Vlan, config.metadata),
        (Feature::HardwareDeparture, config.departures),
    ];
    let refused = asked.into_iter().filter(|(_, asked)| *asked);
    let granted = Granted {
        longest_frame: longest,
        refused: refused.map(|(feature, _)| Refused { feature, why: "an in-memory pair has no device".into() }).collect(),
        ..Granted::nothing("memory", interface)
    };
    Ok(MemoryIo {
        granted,
        filter: config.filter,
        umem: pool.umem().clone(),
        pool,
        unkicked: Vec::with_capacity(config.ring_entries as usize),
        to,
        from,
        counters: Counters::default(),
    })
}

impl Bell {
    /// Wakes the receiver if it waits. Call it after pushing frames.
    #[inline(always)]
    fn ring(&self) {
        if self.wanted.disarm() {
            self.wake();
        }
    }

    #[cold]
    fn wake(&self) {
        // It can fail only if the counter is full, and then it is readable.
        let _ = rustix::io::write(&self.descriptor, &1u64.to_ne_bytes());
    }

    /// Prepares for a wait; `arrived` says whether a frame is there already.
    fn want(&self, arrived: impl FnOnce() -> bool) {
        let empty = || {
            // EAGAIN means that it was empty.
            let _ = rustix::io::read(&self.descriptor, &mut [0; 8]);
        };
        if self.wanted.fall_asleep(empty, arrived) {
            self.ring();
        }
    }
}

impl PacketIo for MemoryIo {
    fn granted(&self) -> &Granted {
        &self.granted
    }

    #[inline(always)]
    fn pool(&mut self) -> &mut Pool {
        &mut self.pool
    }

    #[inline(always)]
    fn umem(&self) -> &Arc<Umem> {
        &self.umem
    }

    #[inline(always)]
    fn rx_batch(&mut self, into: &mut Vec<Arrival>, most: usize) -> usize {
        let mut received = 0;
        while received < most {
            let Ok(&len) = self.from.lengths.peek() else { break };
            // Without a chunk the frame stays where it is.
            let Some(mut frame) = self.pool.take() else { break };
            frame.set_len(len as usize);
            let bytes = self.umem.bytes_mut(&mut frame);
            // Its bytes were pushed before its length, and no frame is longer than a chunk of either end.
            let whole = self.from.bytes.pop_entire_slice(bytes).is_ok() && self.from.lengths.pop().is_ok();
            debug_assert!(whole);
            if self.filter != Filter::All && !self.filter.takes(bytes) {
                self.pool.give(frame);
                continue;
            }
            self.counters.rx_frames = self.counters.rx_frames.wrapping_add(1);
            self.counters.rx_bytes = self.counters.rx_bytes.wrapping_add(u64::from(len));
            into.push(Arrival { frame, time: None, hash: None, vlan: None });
            received += 1;
        }
        received
    }

    #[inline(always)]
    fn tx_batch(&mut self, frames: &mut Vec<Frame>) -> usize {
        let mut taken = 0;
        for frame in frames.iter() {
            let bytes = self.umem.bytes(frame);
            if bytes.len() > self.granted.longest_frame {
                self.counters.tx_invalid = self.counters.tx_invalid.wrapping_add(1);
            } else if (self.to.lengths.slots() > self.unkicked.len() && self.to.bytes.push_entire_slice(bytes).is_ok())
                || self.to.lengths.is_abandoned()
            {
                // Those to a dropped end may be more than there is room for: the kick refuses all of them.
                if self.unkicked.len() < self.unkicked.capacity() {
                    self.unkicked.push(bytes.len() as u32);
                }
                self.counters.tx_frames = self.counters.tx_frames.wrapping_add(1);
                self.counters.tx_bytes = self.counters.tx_bytes.wrapping_add(bytes.len() as u64);
            } else {
                break;
            }
            taken += 1;
        }
        for frame in frames.drain(..taken) {
            self.pool.give(frame);
        }
        taken
    }

    #[inline(always)]
    fn kick(&mut self, what: Kick) -> io::Result<Kicked> {
        match what {
            // Looked at after the other end's flag: its last frames are there by then.
            Kick::Receive if self.from.lengths.is_abandoned() && self.from.lengths.is_empty() => {
                return Err(Errno::NETDOWN.into());
            }
            Kick::Receive => {}
            Kick::Send if self.unkicked.is_empty() => {}
            Kick::Send if self.to.lengths.is_abandoned() => {
                self.unkicked.clear();
                return Err(Errno::NETDOWN.into());
            }
            Kick::Send => {
                // There is room: only this end pushes, and it has looked.
                let pushed = self.to.lengths.push_entire_slice(&self.unkicked);
                debug_assert!(pushed.is_ok());
                self.unkicked.clear();
                self.to.bell.ring();
            }
        }
        Ok(Kicked::Done)
    }

    fn waitable(&self) -> BorrowedFd<'_> {
        self.from.bell.want(|| !self.from.lengths.is_empty());
        self.from.bell.descriptor.as_fd()
    }

    fn counters(&mut self) -> Counters {
        self.counters
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::{Received, Ring, RingConfig, SendError};
    use hairpin_sys::clock::MonotonicRaw;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    fn small() -> Config {
        Config { ring_entries: 4, chunks: 16, ..Config::default() }
    }

    fn put(io: &mut MemoryIo, frames: &mut Vec<Frame>, bytes: &[u8]) {
        let mut frame = io.pool().take().unwrap();
        frame.set_len(bytes.len());
        io.umem().bytes_mut(&mut frame).copy_from_slice(bytes);
        frames.push(frame);
    }

    fn readable(io: &MemoryIo) -> bool {
        let descriptor = io.waitable();
        let mut fds = [PollFd::new(&descriptor, PollFlags::IN)];
        poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() == 1
    }

    #[test]
    fn nothing_leaves_before_a_kick_and_a_full_ring_is_a_count() {
        let (mut one, mut other) = pair(&small()).unwrap();
        let (mut frames, mut arrivals) = (Vec::new(), Vec::new());
        for n in 0..6 {
            put(&mut one, &mut frames, &[n; 60]);
        }
        assert_eq!((one.tx_batch(&mut frames), frames.len()), (4, 2));
        assert_eq!(other.rx_batch(&mut arrivals, 9), 0);
        assert_eq!(one.kick(Kick::Send).unwrap(), Kicked::Done);
        assert_eq!(one.tx_batch(&mut frames), 0);
        assert_eq!(other.rx_batch(&mut arrivals, 3), 3);
        assert_eq!((one.tx_batch(&mut frames), frames.len()), (2, 0));
        assert_eq!(one.kick(Kick::Send).unwrap(), Kicked::Done);
        assert_eq!(other.rx_batch(&mut arrivals, 9), 3);
        let first: Vec<u8> = arrivals.iter().map(|arrival| other.umem().bytes(&arrival.frame)[0]).collect();
        assert_eq!(first, [0, 1, 2, 3, 4, 5]);
        assert_eq!(one.pool().available(), 16);
    }

    #[test]
    fn the_descriptor_is_readable_only_when_a_frame_has_arrived() {
        let (mut one, mut other) = pair(&small()).unwrap();
        let (mut frames, mut arrivals) = (Vec::new(), Vec::new());
        for _ in 0..3 {
            assert!(!readable(&other));
            put(&mut one, &mut frames, &[1; 60]);
            one.tx_batch(&mut frames);
            one.kick(Kick::Send).unwrap();
            assert!(readable(&other) && readable(&other));
            other.rx_batch(&mut arrivals, 1);
            // The next frame comes before anybody asks to be woken.
            assert!(!readable(&other));
            other.from.bell.wanted.disarm();
            put(&mut one, &mut frames, &[1; 60]);
            one.tx_batch(&mut frames);
            one.kick(Kick::Send).unwrap();
            assert!(readable(&other));
            other.rx_batch(&mut arrivals, 1);
        }
    }

    /// Sleeps until a frame is there, and takes it.
    fn sleep_and_take(io: &mut MemoryIo, arrivals: &mut Vec<Arrival>) {
        while io.rx_batch(arrivals, 1) == 0 {
            let descriptor = io.waitable();
            let mut fds = [PollFd::new(&descriptor, PollFlags::IN)];
            let woken = poll(&mut fds, Some(&Timespec { tv_sec: 5, tv_nsec: 0 })).unwrap();
            assert_eq!(woken, 1, "a frame arrived and woke no one");
        }
        for arrival in arrivals.drain(..) {
            io.pool().give(arrival.frame);
        }
    }

    #[test]
    fn misses_no_wake_up() {
        let (mut one, mut other) = pair(&small()).unwrap();
        let echo = std::thread::spawn(move || {
            let (mut frames, mut arrivals) = (Vec::new(), Vec::new());
            for _ in 0..20_000 {
                sleep_and_take(&mut other, &mut arrivals);
                put(&mut other, &mut frames, &[1; 60]);
                other.tx_batch(&mut frames);
                other.kick(Kick::Send).unwrap();
            }
        });
        let (mut frames, mut arrivals) = (Vec::new(), Vec::new());
        for n in 0..20_000 {
            put(&mut one, &mut frames, &[1; 60]);
            one.tx_batch(&mut frames);
            one.kick(Kick::Send).unwrap();
            // The pause varies, so that the reply comes before, during and after falling asleep.
            for _ in 0..n % 512 {
                std::hint::spin_loop();
            }
            sleep_and_take(&mut one, &mut arrivals);
        }
        echo.join().unwrap();
    }

    #[test]
    fn a_dropped_end_is_enetdown() {
        let refused = |io: &mut MemoryIo, what| io.kick(what).err().and_then(|error| error.raw_os_error());
        let down = Some(Errno::NETDOWN.raw_os_error());
        // With frames that wait for a kick, and with a ring that was full before.
        for kicked in [false, true] {
            let (mut one, other) = pair(&small()).unwrap();
            let mut frames = Vec::new();
            (0..4).for_each(|_| put(&mut one, &mut frames, &[1; 60]));
            assert_eq!(one.tx_batch(&mut frames), 4);
            if kicked {
                one.kick(Kick::Send).unwrap();
            }
            drop(other);
            for _ in 0..3 {
                (0..5).for_each(|_| put(&mut one, &mut frames, &[1; 60]));
                assert_eq!((one.tx_batch(&mut frames), one.pool().available()), (5, 16));
                assert_eq!((refused(&mut one, Kick::Send), refused(&mut one, Kick::Receive)), (down, down));
                assert_eq!(one.kick(Kick::Send).unwrap(), Kicked::Done);
            }
        }
    }

    #[test]
    fn refused_sends_leave_the_last_frames_of_a_dropped_end() {
        let (one, mut other) = pair(&small()).unwrap();
        let mut frames = Vec::new();
        (0..3).for_each(|number| put(&mut other, &mut frames, &[number; 60]));
        other.tx_batch(&mut frames);
        other.kick(Kick::Send).unwrap();
        drop(other);
        let ring = Ring::new(one, MonotonicRaw, RingConfig::default());
        // More than the ring has entries.
        for _ in 0..10 {
            assert!(matches!(ring.sender().inject(&[9; 60]), Err(SendError::Kick(_))));
        }
        for number in 0..3u8 {
            let Received::Got(frame) = ring.recv(0).unwrap() else { panic!("frame {number} is there") };
            assert_eq!(frame[..], [number; 60]);
        }
        assert!(ring.recv(10_000).is_err());
    }

    #[test]
    fn frames_of_a_dropped_end_are_received_before_the_error() {
        let (mut one, mut other) = pair(&small()).unwrap();
        let (mut frames, mut arrivals) = (Vec::new(), Vec::new());
        put(&mut one, &mut frames, &[1; 60]);
        one.tx_batch(&mut frames);
        one.kick(Kick::Send).unwrap();
        drop(one);
        assert_eq!(other.kick(Kick::Receive).unwrap(), Kicked::Done);
        assert_eq!(other.rx_batch(&mut arrivals, 9), 1);
        assert!(other.kick(Kick::Receive).is_err());
    }

    #[test]
    fn without_a_chunk_frames_wait_and_counters_pass_their_wrap() {
        let (mut one, mut other) = pair(&Config { ring_entries: 64, chunks: 2, ..Config::default() }).unwrap();
        for counters in [&mut one.counters, &mut other.counters] {
            (counters.rx_frames, counters.tx_frames) = (u64::MAX - 1, u64::MAX - 1);
            (counters.rx_bytes, counters.tx_bytes) = (u64::MAX - 1, u64::MAX - 1);
        }
        let (mut frames, mut arrivals) = (Vec::new(), Vec::new());
        for n in 0..4 {
            put(&mut one, &mut frames, &[n; 100]);
            one.tx_batch(&mut frames);
            one.kick(Kick::Send).unwrap();
        }
        assert_eq!((other.rx_batch(&mut arrivals, 9), other.rx_batch(&mut arrivals, 9)), (2, 0));
        for arrival in arrivals.drain(..) {
            other.pool().give(arrival.frame);
        }
        assert_eq!(other.rx_batch(&mut arrivals, 9), 2);
        assert_eq!(other.umem().bytes(&arrivals[1].frame), [3; 100]);
        assert_eq!((one.counters().tx_frames, one.counters().tx_bytes), (2, 398));
        assert_eq!((other.counters().rx_frames, other.counters().rx_bytes), (2, 398));
    }

    #[test]
    fn a_frame_that_is_too_long_is_counted_and_its_chunk_kept() {
        let (mut one, _other) = pair(&small()).unwrap();
        let mut frames = Vec::new();
        put(&mut one, &mut frames, &[0; 1515]);
        assert_eq!((one.tx_batch(&mut frames), one.counters().tx_invalid, one.pool().available()), (1, 1, 16));
    }

    #[test]
    fn applies_the_filter() {
        let config = Config { filter: Filter::Ethertype(0x88b5), ..small() };
        let (mut one, mut other) = pair(&config).unwrap();
        let (mut frames, mut arrivals) = (Vec::new(), Vec::new());
        for ethertype in [[8, 0], [0x88, 0xb5]] {
            let mut bytes = [0; 60];
            bytes[12..14].copy_from_slice(&ethertype);
            put(&mut one, &mut frames, &bytes);
        }
        one.tx_batch(&mut frames);
        one.kick(Kick::Send).unwrap();
        assert_eq!((other.rx_batch(&mut arrivals, 9), other.pool().available()), (1, 15));
        assert_eq!(other.umem().bytes(&arrivals[0].frame)[12], 0x88);
    }

    #[test]
    fn rejects_invalid_sizes_and_refuses_features_of_a_device() {
        assert!(matches!(pair(&Config { ring_entries: 0, ..small() }), Err(OpenError::Config(_))));
        assert!(matches!(pair(&Config { rings: 2, ..small() }), Err(OpenError::Config(_))));
        assert!(matches!(pair(&Config { longest_frame: Some(65_537), ..small() }), Err(OpenError::Config(_))));
        assert!(matches!(pair(&Config { chunks: 0, ..small() }), Err(OpenError::Memory(_))));
        let (one, _) = pair(&small()).unwrap();
        let error = one.granted().require(Feature::ZeroCopy).unwrap_err();
        assert_eq!(error.to_string(), "memory-0 queue 0 has no zero-copy: an in-memory pair has no device");
        let (mut one, _) = pair(&Config { metadata: true, departures: true, ..small() }).unwrap();
        let error = one.granted().require(Feature::HardwareDeparture).unwrap_err();
        assert_eq!(error.to_string(), "memory-0 queue 0 has no hardware send stamps: an in-memory pair has no device");
        one.take_stamps(true).unwrap();
        assert_eq!(one.departures(&mut Vec::new()).unwrap(), 0);
    }
}
