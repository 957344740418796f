//! AF_XDP on one queue: packet memory registered with the kernel, four rings, and two sockets that share them.
//!
//! ```text
//!                 fill ring     free chunks to receive into        RX ring      frames that came
//!   Pool ─ lend ─────────────▶ kernel ─────────────────────────────────────────▶ redeem ─▶ Frame
//!   Frame ─ lend ────────────▶ kernel ─────────────────────────────────────────▶ redeem ─▶ Pool
//!                 TX ring       frames to send                     completion ring  chunks that are sent
//! ```
//! Receiving and sending use separate sockets, because the core that sends to this queue works in the receiving socket's cache
//! lines while this core works in the sending one's. With one socket for both, a native round trip over veth took 3.1 us instead
//! of 2.7. On one queue both sockets still share the kernel's record of the memory (`struct xsk_buff_pool`); if the sending
//! socket has its own queue, it has its own record too, and a generic round trip over veth takes 2.1 us instead of 2.5.
//!
//! The pool lent every chunk that a ring holds, and an entry returned by a ring becomes a frame only if it was lent. The socket
//! is closed before the memory is freed, and the kernel keeps the memory's pages until it has released them itself.
//!
//! Sources: the kernel's `include/uapi/linux/if_xdp.h`, `net/xdp/xsk.c`, `Documentation/networking/af_xdp.rst`.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::net::xdp::{
    SocketAddrXdp, SocketAddrXdpFlags, SocketAddrXdpWithSharedUmem, XDP_PGOFF_RX_RING, XDP_PGOFF_TX_RING,
    XDP_UMEM_PGOFF_COMPLETION_RING, XDP_UMEM_PGOFF_FILL_RING, XdpDesc, XdpDescOptions, XdpOptionsFlags, XdpUmemReg,
    XdpUmemRegFlags,
};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with, sockopt};

use crate::ring::{Consumer, Producer};
use crate::socket;
use crate::umem::{Frame, PAGE, Pool, Umem, UmemError};

mod departures;
mod kick;
mod map;
mod pages;

pub use departures::DEPARTURE_BYTES;
use departures::Departures;
pub use kick::Kicked;
use map::Map;
use pages::Pages;

/// `XDP_MAX_TX_SKB_BUDGET` (Linux 6.17): frames sent per system call in copy mode, 32 by default.
const XDP_MAX_TX_SKB_BUDGET: i32 = 9;
/// The kernel's default number of frames sent per call in copy mode (`TX_BATCH_SIZE`).
const TX_BATCH_SIZE: u32 = 32;
/// Bytes that the kernel leaves free in front of each received frame (`XDP_PACKET_HEADROOM`).
pub const HEADROOM: usize = 256;
/// Most frames handled by a kick with busy polling.
const BUSY_POLL_BUDGET: i32 = 64;
/// Largest chunk in one entry of an AF_XDP ring: a page.
pub const LARGEST_CHUNK: usize = PAGE;
/// Longest frame in bytes that arrives in one entry.
pub const LONGEST_IN_ONE: usize = LARGEST_CHUNK - HEADROOM;

const _: () = assert!(size_of::<XdpDesc>() == 16);
const _: () = assert!(size_of::<XdpUmemReg>() == 32);

/// The step that is EBUSY if another socket has the receiving queue.
pub const BIND_STEP: &str = "bind to the queue";

/// A failed step of opening a socket.
#[derive(Debug, thiserror::Error)]
#[error("cannot {step}: {source}")]
pub struct XskError {
    pub step: &'static str,
    /// The kernel's error.
    #[source]
    pub source: io::Error,
}

/// Configuration of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Entries of the RX and TX ring, a power of two. The fill and the completion ring have the same number.
    pub entries: u32,
    /// The device writes directly into the packet memory; otherwise the kernel copies.
    pub zero_copy: bool,
    /// Circulates only as many chunks as the frames that arrive at once need, so that their cache lines stay close; a larger
    /// burst than before may then lose frames.
    pub few_chunks: bool,
    /// The queue to send on, if different from the receiving one; not with zero-copy.
    pub send_on: Option<u32>,
    /// Number of bytes in front of each received frame that are zero unless the XDP program writes them; read them with
    /// [`Umem::in_front`].
    pub metadata: usize,
    /// Each sent frame is stamped, from the beginning on: read the stamps with [`Socket::departures`]. It takes
    /// [`DEPARTURE_BYTES`] in front of each frame, and a kernel that knows metadata of sent frames (Linux 6.8; older ones would
    /// take the request and ignore it). Not for frames of several pages.
    pub departures: bool,
}

/// Memory for a socket: frames of one chunk each and, for frames longer than a page, pages to receive into.
#[derive(Debug)]
pub struct Memory {
    pool: Pool,
    pages: Option<Pool>,
}

impl Memory {
    /// `chunks` frames of up to `chunk` bytes, at most a page.
    ///
    /// # Errors
    /// Invalid sizes, or out of memory.
    pub fn new(chunks: u32, chunk: usize) -> Result<Memory, UmemError> {
        Ok(Memory { pool: Pool::new(chunks, chunk)?, pages: None })
    }

    /// `chunks` frames of several pages each, `chunk` bytes in total, and `pages` pages to receive into.
    ///
    /// # Errors
    /// As [`Memory::new`].
    pub fn with_pages(chunks: u32, chunk: usize, pages: u32) -> Result<Memory, UmemError> {
        let (pool, pages) = Pool::with_pages(chunks, chunk, pages)?;
        Ok(Memory { pool, pages: Some(pages) })
    }
}

/// The kernel's counters since the socket was opened (`struct xdp_statistics`), in frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Dropped because the fill ring was empty, the frame was too long, or for another reason.
    pub rx_dropped: u64,
    /// Invalid entries of the fill ring.
    pub rx_invalid: u64,
    /// Invalid entries of the TX ring, empty frames, and frames without room for the request of a stamp in their chunk.
    pub tx_invalid: u64,
    /// Dropped because the RX ring was full.
    pub rx_ring_full: u64,
    /// Times that the fill ring was empty when a chunk was needed; in copy mode each drops a frame, also counted in `rx_dropped`.
    pub fill_empty: u64,
}

/// The sockets of a queue and the memory's pool. Used by one thread at a time.
#[derive(Debug)]
pub struct Socket {
    // The order matters: fields are dropped from the first to the last. The socket lives as long as its descriptor and its mapped
    // rings do, and it has to go before the memory.
    /// Receiving socket; also has the fill and the completion ring.
    fd: OwnedFd,
    tx_fd: OwnedFd,
    rx: Map<XdpDesc>,
    tx: Map<XdpDesc>,
    fill: Map<u64>,
    completion: Map<u64>,
    received: Consumer,
    sending: Producer,
    filling: Producer,
    sent: Consumer,
    entries: u32,
    /// Intended number of entries in the fill ring.
    level: u32,
    /// Number of entries missing from it, and the number at which it is refilled.
    missing: u32,
    refill_at: u32,
    /// Frames in the TX ring or with the device.
    in_flight: u32,
    invalid: u64,
    /// Frames that were given back instead of put into the TX ring.
    refused: u64,
    // Settings needed in each call lie next to the data it reads anyway, on one cache line.
    /// Most frames that the kernel sends per call in copy mode.
    per_call: u32,
    zero_copy: bool,
    /// Frames are longer than a page; `pages` is set.
    paged: bool,
    /// Frames are sent by separate code: they are longer than a page, or stamped.
    sends_apart: bool,
    /// The fill ring gets pages, or chunks with cleared bytes in front.
    cleared: bool,
    metadata: usize,
    pages: Option<Box<Pages>>,
    departures: Option<Box<Departures>>,
    /// The area registered with the kernel.
    area: u32,
    pool: Pool,
}

impl Socket {
    /// Registers the pool's memory and creates the four rings; does not bind yet.
    ///
    /// # Errors
    /// EPERM without CAP_NET_RAW, ENOBUFS if locking the memory is not allowed (RLIMIT_MEMLOCK), EINVAL for a chunk larger than a
    /// page, or for stamps of frames of several pages.
    fn unbound(memory: Memory, options: Options) -> Result<Socket, XskError> {
        let Options { entries, zero_copy, few_chunks, send_on, metadata, departures } = options;
        // A zero-copy driver fills its own ring from this one, so it gets all chunks.
        let level = if zero_copy || !few_chunks { entries } else { FEW.min(entries) };
        let at = |step| move |source: rustix::io::Errno| XskError { step, source: source.into() };
        let socket = || socket_with(AddressFamily::XDP, SocketType::RAW, SocketFlags::CLOEXEC, None);
        let fd = socket().map_err(at("make an AF_XDP socket"))?;
        let tx_fd = socket().map_err(at("make an AF_XDP socket"))?;
        let Memory { mut pool, pages } = memory;
        if departures && pages.is_some() {
            // A part of a frame that fills its page leaves no room in front of it.
            return Err(at("stamp frames of several pages")(rustix::io::Errno::INVAL));
        }
        let (addr, len) = pool.umem().mapping();
        let memory = XdpUmemReg {
            addr,
            len,
            chunk_size: pool.umem().chunk_bytes().min(PAGE) as u32,
            headroom: 0,
            flags: XdpUmemRegFlags::empty(),
            tx_metadata_len: 0,
        };
        let registered = if departures {
            pool.leave_in_front(DEPARTURE_BYTES);
            departures::register(&fd, memory)
        } else {
            sockopt::set_xdp_umem_reg(&fd, memory)
        };
        registered.map_err(at("register the packet memory"))?;
        sockopt::set_xdp_umem_fill_ring_size(&fd, entries).map_err(at("make the fill ring"))?;
        sockopt::set_xdp_umem_completion_ring_size(&fd, entries).map_err(at("make the completion ring"))?;
        // On a queue of its own the sending socket has its own record of the memory. The kernel requires a fill ring there too.
        let completes = if send_on.is_some() { &tx_fd } else { &fd };
        if send_on.is_some() {
            sockopt::set_xdp_umem_fill_ring_size(&tx_fd, 1).map_err(at("make the sending socket's fill ring"))?;
            sockopt::set_xdp_umem_completion_ring_size(&tx_fd, entries).map_err(at("make the completion ring"))?;
        }
        sockopt::set_xdp_rx_ring_size(&fd, entries).map_err(at("make the RX ring"))?;
        sockopt::set_xdp_tx_ring_size(&tx_fd, entries).map_err(at("make the TX ring"))?;
        let offsets = sockopt::xdp_mmap_offsets(&fd).map_err(at("read the rings' offsets"))?;
        let mapped = |source| XskError { step: "map the rings", source };
        let rx = Map::new(&fd, &offsets.rx, entries, XDP_PGOFF_RX_RING).map_err(mapped)?;
        let tx = Map::new(&tx_fd, &offsets.tx, entries, XDP_PGOFF_TX_RING).map_err(mapped)?;
        let fill = Map::new(&fd, &offsets.fr, entries, XDP_UMEM_PGOFF_FILL_RING).map_err(mapped)?;
        let completion = Map::new(completes, &offsets.cr, entries, XDP_UMEM_PGOFF_COMPLETION_RING).map_err(mapped)?;
        let budget = socket::IntOption::new(libc::SOL_XDP, XDP_MAX_TX_SKB_BUDGET);
        let granted = entries > TX_BATCH_SIZE && socket::set(&tx_fd, budget, entries as i32).is_ok();
        let per_call = if granted { entries } else { TX_BATCH_SIZE };
        let mut socket = Socket {
            received: Consumer::new(entries, rx.producer(), rx.consumer()),
            sending: Producer::new(entries, tx.producer(), tx.consumer()),
            filling: Producer::new(entries, fill.producer(), fill.consumer()),
            sent: Consumer::new(entries, completion.producer(), completion.consumer()),
            fd,
            tx_fd,
            rx,
            tx,
            fill,
            completion,
            entries,
            level,
            missing: level,
            refill_at: refill_at(level),
            in_flight: 0,
            invalid: 0,
            refused: 0,
            per_call,
            zero_copy: false,
            metadata,
            paged: pages.is_some(),
            sends_apart: pages.is_some() || departures,
            cleared: metadata > 0 || pages.is_some(),
            pages: pages.map(|pool| Box::new(Pages::new(pool))),
            departures: departures.then(|| Box::new(Departures::new(pool.chunks(), entries))),
            area: pool.area(),
            pool,
        };
        // A zero-copy driver takes chunks while the socket is bound. One that finds none leaves its queue empty, for the kernel's
        // own frames too, until it is woken (drivers/net/ethernet/intel/igb/igb_xsk.c, igb_alloc_rx_buffers_zc).
        socket.refill();
        Ok(socket)
    }

    /// Opens the sockets and binds them to queue `queue` of the interface with index `interface`.
    ///
    /// # Errors
    /// The errors of each step; from bind(2): EBUSY if another socket has the queue, EOPNOTSUPP if zero-copy was requested and
    /// the driver does not support it, ENETDOWN if the interface is down, ENODEV if there is none, EINVAL if it has no such
    /// queue, or if frames of several pages were requested and the kernel does not support them (before Linux 6.6).
    pub fn open(memory: Memory, interface: u32, queue: u32, options: Options) -> Result<Socket, XskError> {
        let mut socket = Socket::unbound(memory, options)?;
        // Only a driver that sends by itself can report that it needs no wake-up; copy mode sends in the system call.
        let mut flags = if options.zero_copy {
            SocketAddrXdpFlags::XDP_ZEROCOPY | SocketAddrXdpFlags::XDP_USE_NEED_WAKEUP
        } else {
            SocketAddrXdpFlags::XDP_COPY
        };
        flags.set(SocketAddrXdpFlags::XDP_USE_SG, socket.pages.is_some());
        bind(&socket.fd, &SocketAddrXdp::new(flags, interface, queue))
            .map_err(|source| XskError { step: BIND_STEP, source: source.into() })?;
        let shared = SocketAddrXdpWithSharedUmem {
            addr: SocketAddrXdp::new(SocketAddrXdpFlags::XDP_SHARED_UMEM, interface, options.send_on.unwrap_or(queue)),
            shared_umem_fd: socket.fd.as_fd(),
        };
        bind(&socket.tx_fd, &shared)
            .map_err(|source| XskError { step: "bind the sending socket to the queue", source: source.into() })?;
        let granted = sockopt::xdp_options(&socket.fd)
            .map_err(|source| XskError { step: "read what was granted", source: source.into() })?;
        socket.zero_copy = granted.contains(XdpOptionsFlags::XDP_OPTIONS_ZEROCOPY);
        if socket.receive_needs_wakeup() {
            socket.kick_receive().map_err(|source| XskError { step: "wake the driver", source })?;
        }
        Ok(socket)
    }

    /// Makes the kernel poll the device for up to `usecs` in each kick, with its interrupts off meanwhile.
    ///
    /// # Errors
    /// EOPNOTSUPP if the socket has no NAPI context to poll. It gets one from a bind with zero-copy; in copy mode, native and
    /// generic, from a bind on a queue whose driver says which context serves it (seen on Linux 7.3 with igb and e1000e; not with
    /// veth), and on older kernels (6.1, 6.12) only from the first frame, which this does not wait for. EPERM without
    /// CAP_NET_ADMIN; ENOPROTOOPT before Linux 5.11.
    pub fn busy_poll(&self, usecs: u32) -> io::Result<()> {
        if socket::get(&self.fd, socket::SO_INCOMING_NAPI_ID)? == 0 {
            return Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP));
        }
        for fd in [&self.fd, &self.tx_fd] {
            socket::set(fd, socket::SO_PREFER_BUSY_POLL, 1)?;
            socket::set(fd, socket::SO_BUSY_POLL, usecs.min(i32::MAX as u32).cast_signed())?;
            socket::set(fd, socket::SO_BUSY_POLL_BUDGET, BUSY_POLL_BUDGET)?;
        }
        Ok(())
    }

    /// True if the device writes directly into the packet memory.
    pub fn zero_copy(&self) -> bool {
        self.zero_copy
    }

    pub fn umem(&self) -> &Arc<Umem> {
        self.pool.umem()
    }

    /// The free chunks; if none is left, sent ones are reclaimed first.
    ///
    /// The pool stays this socket's: every other method panics if another pool takes its place (`std::mem::swap`), since the
    /// kernel would then write chunks that belong to others.
    #[inline(always)]
    pub fn pool(&mut self) -> &mut Pool {
        if self.pool.available() == 0 {
            self.reclaim();
        }
        &mut self.pool
    }

    /// Check before a ring is touched: the ring may return and receive only chunks of this area.
    #[inline(always)]
    fn has_its_pool(&self) {
        assert!(self.pool.area() == self.area, "an AF_XDP socket's pool was exchanged for another");
    }

    /// Number of invalid entries returned by the rings.
    pub fn invalid(&self) -> u64 {
        self.invalid
    }

    /// Number of frames longer than a chunk, which were dropped.
    pub fn too_long(&self) -> u64 {
        self.pages.as_ref().map_or(0, |pages| pages.too_long())
    }

    /// Passes up to `most` received frames to `take`, and gives the kernel chunks to receive into.
    #[inline(always)]
    pub fn receive(&mut self, most: u32, mut take: impl FnMut(Frame)) {
        if self.paged {
            return self.gather(most, take);
        }
        let ready = self.received.ready(most, self.rx.producer());
        if ready > 0 {
            self.has_its_pool();
            for _ in 0..ready {
                let entry = self.rx.read(self.received.slot());
                match self.pool.redeem(entry.addr, entry.len) {
                    Some(frame) => take(frame),
                    None => self.invalid += 1,
                }
            }
            self.taken(ready);
        }
        // One store for many entries; meanwhile the kernel uses the others in the ring.
        if self.missing >= self.refill_at {
            self.refill();
        }
    }

    /// Accounts for emptied entries of the RX ring.
    #[inline(always)]
    fn taken(&mut self, entries: u32) {
        self.received.release(self.rx.consumer());
        self.missing += entries;
        if entries + self.received.waiting() > self.level / 4 && self.level < self.entries {
            self.missing += self.level;
            self.level *= 2;
        }
    }

    /// Fills the fill ring from the pool, as far as chunks are available.
    #[inline(always)]
    fn refill(&mut self) {
        if self.cleared {
            return self.refill_cleared();
        }
        self.has_its_pool();
        if self.pool.available() < self.missing as usize {
            self.reclaim();
        }
        let want = self.missing.min(self.pool.available() as u32);
        if want == 0 {
            return;
        }
        let room = self.filling.room(want, self.fill.consumer());
        for _ in 0..room {
            // At least `want` chunks are available.
            let Some(frame) = self.pool.take() else { break };
            let at = self.pool.lend(frame);
            self.fill.write(self.filling.slot(), at);
        }
        self.filling.submit(self.fill.producer());
        self.missing -= room;
    }

    /// Moves frames from the front of `frames` into the TX ring, as many as fit; returns their number and total bytes.
    #[inline(always)]
    pub fn send(&mut self, frames: &mut Vec<Frame>) -> (usize, u64) {
        self.has_its_pool();
        self.reclaim();
        if self.sends_apart {
            return if self.paged { self.send_pages(frames) } else { self.send_stamped(frames) };
        }
        // The completion ring must have room for everything the kernel may complete.
        let want = (frames.len() as u32).min(self.entries - self.in_flight);
        let room = self.sending.room(want, self.tx.consumer());
        let (mut put, mut bytes) = (0, 0);
        for frame in frames.drain(..room as usize) {
            let len = frame.len() as u32;
            if len == 0 {
                self.refuse(frame);
                continue;
            }
            put += 1;
            bytes += u64::from(len);
            let addr = self.pool.lend(frame);
            self.tx.write(self.sending.slot(), XdpDesc { addr, len, options: XdpDescOptions::empty() });
        }
        self.sending.submit(self.tx.producer());
        self.in_flight += put;
        (room as usize, bytes)
    }

    /// Gives an empty frame back. Since Linux 6.6 the kernel skips an entry of length 0, and its chunk never comes back
    /// (`xp_aligned_validate_desc`).
    #[cold]
    #[inline(never)]
    fn refuse(&mut self, frame: Frame) {
        self.refused += 1;
        self.pool.give(frame);
    }

    /// Returns sent chunks to the pool.
    #[inline(always)]
    fn reclaim(&mut self) {
        if self.in_flight == 0 {
            return;
        }
        let done = self.sent.ready(self.in_flight, self.completion.producer());
        if done == 0 {
            return;
        }
        self.has_its_pool();
        if self.sends_apart {
            return if self.paged { self.reclaim_pages(done) } else { self.reclaim_stamped(done) };
        }
        for _ in 0..done {
            let at = self.completion.read(self.sent.slot());
            match self.pool.redeem(at, 0) {
                Some(frame) => self.pool.give(frame),
                None => self.invalid += 1,
            }
        }
        self.sent.release(self.completion.consumer());
        self.in_flight -= done;
    }

    /// Reads the kernel's counters.
    ///
    /// # Errors
    /// The errors of getsockopt(2).
    pub fn statistics(&self) -> io::Result<Statistics> {
        let (counted, sending) = (sockopt::xdp_statistics(&self.fd)?, sockopt::xdp_statistics(&self.tx_fd)?);
        Ok(Statistics {
            rx_dropped: counted.rx_dropped,
            rx_invalid: counted.rx_invalid_descs,
            tx_invalid: sending.tx_invalid_descs + self.refused,
            rx_ring_full: counted.rx_ring_full.unwrap_or(0),
            fill_empty: counted.rx_fill_ring_empty_descs.unwrap_or(0),
        })
    }
}

/// Zeroes the bytes in front of the frame that the kernel will put into this chunk.
#[inline]
fn clear(umem: &Umem, frame: &mut Frame, bytes: usize) {
    frame.clear();
    frame.set_len(HEADROOM);
    umem.bytes_mut(frame)[HEADROOM - bytes..].fill(0);
    frame.clear();
}

/// Initial number of chunks in the fill ring for `few_chunks`. Over veth, spinning, 2048 chunks cost 0.3 us of 2.6 us per round
/// trip (their lines, all 2048 bytes apart, fall out of the second-level cache), 512 cost 0.1 us, 32 and 256 the same.
const FEW: u32 = 256;
/// Number of missing entries at which a fill ring of 32 entries or more is refilled.
const REFILL: u32 = 16;

/// The same for a fill ring of any `level`: the kernel has at least about half of its entries left then.
fn refill_at(level: u32) -> u32 {
    REFILL.min(level.div_ceil(2))
}

impl Socket {
    /// The sending socket; [`AsFd`] is the receiving one.
    pub fn sends_on(&self) -> BorrowedFd<'_> {
        self.tx_fd.as_fd()
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fill_ring_of_any_size_is_refilled_while_half_of_it_is_left() {
        assert_eq!([1, 2, 8, 16, 32, 2048].map(refill_at), [1, 1, 4, 8, 16, 16]);
    }
}
