//! Devices around a device: one writes received frames to a pcap file, one plays a pcap file as received frames.
//!
//! ```text
//!   file:  |header 24|record 16|frame …|record 16|frame …|          record: seconds 4, ns 4, length 4, length on the wire 4
//! ```
//! Written: nanosecond pcap, little endian, Ethernet (magic 0xa1b23c4d, link type 1). Read: pcap of micro- or nanoseconds in
//! either byte order. Source: draft-ietf-opsawg-pcap, "PCAP Capture File Format".

use std::fs;
use std::io::{self, BufWriter, Write};
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;

use hairpin_sys::umem::{Frame, MAX_CHUNK, Pool, Umem};
use rustix::time::{ClockId, clock_gettime};

use crate::granted::Granted;
use crate::io::{Arrival, Arrived, Counters, Departure, Kick, Kicked, PacketIo};

/// Bytes of a file's header.
const HEADER: usize = 24;
/// Bytes of a record's header.
const RECORD: usize = 16;
/// Stamps in microseconds, in nanoseconds.
const MICROS: u32 = 0xa1b2_c3d4;
const NANOS: u32 = 0xa1b2_3c4d;
/// The first word of a pcapng file, in any byte order.
const PCAPNG: u32 = 0x0a0d_0d0a;
/// LINKTYPE_ETHERNET.
const ETHERNET: u32 = 1;
/// In the word of the link type: the length of the FCS is told in the upper 4 bits.
const FCS_TOLD: u32 = 0x0400_0000;
/// Bytes of the two addresses that begin a frame. A VLAN tag follows them (IEEE 802.1Q).
const ADDRESSES: usize = 12;

/// Why a pcap file cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PcapError {
    /// The file cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: String,
        /// The system's error.
        source: io::Error,
    },
    /// The file has another format.
    #[error("this is not a pcap file: it begins with {0:02x?}")]
    NotPcap(Vec<u8>),
    /// The newer format.
    #[error("this is a pcapng file; only pcap is read: editcap -F nsecpcap IN OUT")]
    Pcapng,
    /// The frames are not Ethernet.
    #[error("the frames in this file have link type {0}, not Ethernet (1)")]
    LinkType(u32),
    /// The file is truncated.
    #[error("the file ends in the middle of record {record}, after {bytes} bytes: it was cut, or is still being written")]
    Truncated {
        /// The record, from 1; 0 is the header.
        record: usize,
        /// Bytes of the file.
        bytes: usize,
    },
    /// The capture kept only the beginning of a frame.
    #[error("record {record} holds {kept} of the frame's {len} bytes: capture whole frames (tcpdump -s 0)")]
    Cut {
        /// The record, from 1.
        record: usize,
        /// Bytes in the file.
        kept: u32,
        /// Bytes on the wire.
        len: u32,
    },
    /// A record claims an impossible length.
    #[error("record {record} claims a frame of {len} bytes; the longest there can be has {MAX_CHUNK}")]
    TooLong {
        /// The record, from 1.
        record: usize,
        /// The claimed length.
        len: u32,
    },
}

/// The frames of a pcap file in memory, for [`PcapIn`] or to look at.
///
/// The whole file is checked when it is read: a pcapng file, another link type than Ethernet, a truncated file and a capture
/// of only the beginning of frames are a [`PcapError`]. An FCS is left out if the file tells its length. [`PcapOut`] has an
/// example.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PcapFile {
    bytes: Vec<u8>,
    records: Vec<Record>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Record {
    at: usize,
    len: u32,
    time_ns: u64,
}

impl PcapFile {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// The file cannot be read, has another format, or is truncated.
    pub fn read(path: &Path) -> Result<PcapFile, PcapError> {
        let bytes = fs::read(path).map_err(|source| PcapError::Read { path: path.display().to_string(), source })?;
        PcapFile::parse(bytes)
    }

    /// Checks the bytes of a file.
    ///
    /// # Errors
    /// The file has another format, or is truncated.
    pub fn parse(bytes: Vec<u8>) -> Result<PcapFile, PcapError> {
        let Some(magic) = bytes.first_chunk::<4>() else { return Err(PcapError::NotPcap(bytes)) };
        let little = u32::from_le_bytes(*magic);
        let (swapped, per_second) = match little {
            MICROS => (false, 1_000),
            NANOS => (false, 1),
            _ if little.swap_bytes() == MICROS => (true, 1_000),
            _ if little.swap_bytes() == NANOS => (true, 1),
            PCAPNG => return Err(PcapError::Pcapng),
            _ => return Err(PcapError::NotPcap(magic.to_vec())),
        };
        let word = |at: usize| {
            let word = u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?);
            Some(if swapped { word.swap_bytes() } else { word })
        };
        let truncated = |record| PcapError::Truncated { record, bytes: bytes.len() };
        // The upper half describes the FCS that each frame ends with, in units of 16 bits (draft, section 4).
        let described = word(20).ok_or_else(|| truncated(0))?;
        let link = described & 0xffff;
        let fcs = if described & FCS_TOLD == 0 { 0 } else { 2 * (described >> 28) };
        if link != ETHERNET {
            return Err(PcapError::LinkType(link));
        }
        let (mut records, mut at) = (Vec::new(), HEADER);
        while at < bytes.len() {
            let record = records.len() + 1;
            let fields = [0, 4, 8, 12].map(|offset| word(at + offset));
            let [Some(seconds), Some(fraction), Some(kept), Some(len)] = fields else { return Err(truncated(record)) };
            if kept as usize > MAX_CHUNK {
                return Err(PcapError::TooLong { record, len: kept });
            }
            if kept < len {
                return Err(PcapError::Cut { record, kept, len });
            }
            let frame = at + RECORD;
            at = frame + kept as usize;
            if at > bytes.len() {
                return Err(truncated(record));
            }
            let time_ns = u64::from(seconds) * 1_000_000_000 + u64::from(fraction) * per_second;
            records.push(Record { at: frame, len: kept.saturating_sub(fcs), time_ns });
        }
        Ok(PcapFile { bytes, records })
    }

    /// Each frame with its timestamp in nanoseconds since 1970.
    pub fn frames(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.records.iter().map(|record| (record.time_ns, &self.bytes[record.at..record.at + record.len as usize]))
    }
}

/// A device that delivers the frames of a file as received ones, and then receives from the device below.
///
/// Frames come as fast as they are requested: their timestamps are delivered ([`Arrived::Software`]) but not waited for. The
/// file's frames for which a chunk has no room are left out and counted as `rx_too_long`. Sending goes to the device below.
///
/// ```
/// use hairpin_packet::memory;
/// use hairpin_packet::pcap::{PcapFile, PcapIn, PcapOut};
/// use hairpin_packet::prelude::*;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // Records a frame …
/// let (near, far) = memory::pair(&Config::default())?;
/// let near = Ring::new(near, MonotonicRaw, RingConfig::default());
/// let mut file = Vec::new();
/// let far = Ring::new(PcapOut::new(far, &mut file)?, MonotonicRaw, RingConfig::default());
/// let _ = near.sender().inject(&[9; 60])?;
/// let _ = far.recv(1000)?;
/// let (far, _written) = far.into_io().finish()?;
///
/// // … and plays it.
/// let far = Ring::new(PcapIn::new(far, PcapFile::parse(file)?), MonotonicRaw, RingConfig::default());
/// let Received::Got(frame) = far.recv(1000)? else { return Err("no frame came".into()) };
/// assert_eq!(frame[..], [9; 60]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct PcapIn<P> {
    io: P,
    file: PcapFile,
    next: usize,
    counters: Counters,
}

impl<P: PacketIo> PcapIn<P> {
    /// Plays `file`, then receives from `io`.
    pub fn new(io: P, file: PcapFile) -> PcapIn<P> {
        PcapIn { io, file, next: 0, counters: Counters::default() }
    }

    /// Returns the device below; frames of the file that were not received yet are dropped.
    pub fn into_inner(self) -> P {
        self.io
    }
}

impl<P: PacketIo> PacketIo for PcapIn<P> {
    fn granted(&self) -> &Granted {
        self.io.granted()
    }

    fn pool(&mut self) -> &mut Pool {
        self.io.pool()
    }

    fn umem(&self) -> &Arc<Umem> {
        self.io.umem()
    }

    fn rx_batch(&mut self, into: &mut Vec<Arrival>, most: usize) -> usize {
        let mut received = 0;
        while received < most
            && let Some(record) = self.file.records.get(self.next)
        {
            let bytes = &self.file.bytes[record.at..record.at + record.len as usize];
            let Some(mut frame) = self.io.pool().take() else { return received };
            self.next += 1;
            // The device below may need the beginning of each chunk.
            if bytes.len() > frame.capacity() {
                self.counters.rx_too_long = self.counters.rx_too_long.wrapping_add(1);
                self.io.pool().give(frame);
                continue;
            }
            frame.set_len(bytes.len());
            self.io.umem().bytes_mut(&mut frame).copy_from_slice(bytes);
            into.push(Arrival { frame, time: Some(Arrived::Software(record.time_ns)), hash: None, vlan: None });
            self.counters.rx_frames = self.counters.rx_frames.wrapping_add(1);
            self.counters.rx_bytes = self.counters.rx_bytes.wrapping_add(bytes.len() as u64);
            received += 1;
        }
        received + self.io.rx_batch(into, most - received)
    }

    fn tx_batch(&mut self, frames: &mut Vec<Frame>) -> usize {
        self.io.tx_batch(frames)
    }

    fn kick(&mut self, what: Kick) -> io::Result<Kicked> {
        self.io.kick(what)
    }

    fn waitable(&self) -> BorrowedFd<'_> {
        self.io.waitable()
    }

    fn sends_on(&self) -> BorrowedFd<'_> {
        self.io.sends_on()
    }

    fn take_stamps(&mut self, taken: bool) -> io::Result<()> {
        self.io.take_stamps(taken)
    }

    fn ask_departures(&mut self, asked: bool) {
        self.io.ask_departures(asked);
    }

    fn departures(&mut self, into: &mut Vec<Departure>) -> io::Result<usize> {
        self.io.departures(into)
    }

    fn counters(&mut self) -> Counters {
        let below = self.io.counters();
        Counters {
            rx_frames: below.rx_frames.wrapping_add(self.counters.rx_frames),
            rx_bytes: below.rx_bytes.wrapping_add(self.counters.rx_bytes),
            rx_too_long: below.rx_too_long.wrapping_add(self.counters.rx_too_long),
            ..below
        }
    }
}

/// A device that writes every received frame to a pcap file, with the frame's timestamp, or with CLOCK_REALTIME at the receive if
/// it has none, and with the VLAN tag that the device took out of it, if it tells one. Sent frames are not written.
///
/// A failed write does not disturb receiving: it ends the recording, and [`finish`](PcapOut::finish) returns the error. Frames
/// still in the buffer are lost unless `finish` is called.
///
/// ```
/// use hairpin_packet::memory;
/// use hairpin_packet::pcap::{PcapFile, PcapOut};
/// use hairpin_packet::prelude::*;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (near, far) = memory::pair(&Config::default())?;
/// let near = Ring::new(near, MonotonicRaw, RingConfig::default());
/// let mut file = Vec::new(); // or a File
/// let far = Ring::new(PcapOut::new(far, &mut file)?, MonotonicRaw, RingConfig::default());
///
/// let _ = near.sender().inject(&[9; 60])?;
/// let _ = far.recv(1000)?;
/// let (_device, written) = far.into_io().finish()?;
///
/// let file = PcapFile::parse(file)?;
/// assert_eq!(written, 1);
/// assert_eq!(file.frames().next().map(|(_ns, frame)| frame), Some(&[9; 60][..]));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct PcapOut<P, W: Write> {
    io: P,
    file: BufWriter<W>,
    written: u64,
    failed: Option<io::Error>,
}

impl<P: PacketIo, W: Write> PcapOut<P, W> {
    /// Writes the frames that `io` receives to `file`, through a buffer.
    ///
    /// # Errors
    /// The header cannot be written.
    pub fn new(io: P, file: W) -> io::Result<PcapOut<P, W>> {
        let mut file = BufWriter::with_capacity(64 << 10, file);
        let mut header = [0; HEADER];
        let longest = io.umem().chunk_bytes() as u32;
        header[..4].copy_from_slice(&NANOS.to_le_bytes());
        // Version 2.4; then time zone and accuracy, always 0.
        header[4..8].copy_from_slice(&[2, 0, 4, 0]);
        header[16..20].copy_from_slice(&longest.to_le_bytes());
        header[20..].copy_from_slice(&ETHERNET.to_le_bytes());
        file.write_all(&header)?;
        Ok(PcapOut { io, file, written: 0, failed: None })
    }

    /// Flushes the buffer; returns the device below and the number of frames in the file.
    ///
    /// # Errors
    /// The first write that failed; later frames are not in the file.
    pub fn finish(mut self) -> io::Result<(P, u64)> {
        match self.failed {
            Some(error) => Err(error),
            None => self.file.flush().map(|()| (self.io, self.written)),
        }
    }

    fn write(&mut self, arrival: &Arrival) {
        if self.failed.is_some() {
            return;
        }
        let ns = match arrival.time {
            Some(Arrived::Hardware(ns) | Arrived::Software(ns)) => ns,
            None => {
                let now = clock_gettime(ClockId::Realtime);
                now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
            }
        };
        let bytes = self.io.umem().bytes(&arrival.frame);
        let tag = arrival.vlan.map(|vlan| [vlan.protocol().to_be_bytes(), vlan.tci().to_be_bytes()]);
        let tag: &[u8] = tag.as_ref().map_or(&[], |tag| tag.as_flattened());
        let (addresses, rest) = bytes.split_at(bytes.len().min(ADDRESSES));
        let len = (bytes.len() + tag.len()) as u32;
        // Seconds have 32 bits in this format.
        let words = [(ns / 1_000_000_000) as u32, (ns % 1_000_000_000) as u32, len, len];
        let mut record = [0; RECORD];
        for (into, word) in record.chunks_exact_mut(4).zip(words) {
            into.copy_from_slice(&word.to_le_bytes());
        }
        match [&record[..], addresses, tag, rest].into_iter().try_for_each(|part| self.file.write_all(part)) {
            Ok(()) => self.written += 1,
            Err(error) => self.failed = Some(error),
        }
    }
}

impl<P: PacketIo, W: Write + Send> PacketIo for PcapOut<P, W> {
    fn granted(&self) -> &Granted {
        self.io.granted()
    }

    fn pool(&mut self) -> &mut Pool {
        self.io.pool()
    }

    fn umem(&self) -> &Arc<Umem> {
        self.io.umem()
    }

    /// Writing to the file may block this call.
    fn rx_batch(&mut self, into: &mut Vec<Arrival>, most: usize) -> usize {
        let received = self.io.rx_batch(into, most);
        for arrival in &into[into.len() - received..] {
            self.write(arrival);
        }
        received
    }

    fn tx_batch(&mut self, frames: &mut Vec<Frame>) -> usize {
        self.io.tx_batch(frames)
    }

    fn kick(&mut self, what: Kick) -> io::Result<Kicked> {
        self.io.kick(what)
    }

    fn waitable(&self) -> BorrowedFd<'_> {
        self.io.waitable()
    }

    fn sends_on(&self) -> BorrowedFd<'_> {
        self.io.sends_on()
    }

    fn take_stamps(&mut self, taken: bool) -> io::Result<()> {
        self.io.take_stamps(taken)
    }

    fn ask_departures(&mut self, asked: bool) {
        self.io.ask_departures(asked);
    }

    fn departures(&mut self, into: &mut Vec<Departure>) -> io::Result<usize> {
        self.io.departures(into)
    }

    fn counters(&mut self) -> Counters {
        self.io.counters()
    }
}

#[cfg(test)]
mod tests;
