//! A packet socket (AF_PACKET) with a receive ring shared with the kernel, as a safe type.
//!
//! ```text
//!   device ──▶ filter ──▶ ring of slots or blocks ──copied──▶ frame of the pool
//!   device ◀──────── send(2), for several sendmmsg(2) ◀────── frame of the pool
//! ```
//! The socket accepts no frames until [`Gate::open`]: a filter that rejects everything is attached before the bind. The socket's
//! resources (ring, filter, fanout membership, promiscuous mode) end with it, however the process ends.
//!
//! Sources: packet(7), socket(7), `include/uapi/linux/if_packet.h`, `net/packet/af_packet.c`.

use std::io;
use std::mem::{size_of, size_of_val};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Weak};

use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, socket_with, sockopt};
use rustix::param::page_size;

use crate::message;
use crate::umem::{Frame, Pool};

mod ring;

use ring::{Area, HEAD_ROOM, Ring};

/// Most frames sent by one system call.
pub const MOST_AT_ONCE: usize = 32;
/// Time after which the kernel hands over a block of a rate ring, in milliseconds: the kernel's shortest.
const RETIRE_MS: u32 = 1;
/// Length of a block of a rate ring in bytes, unless the frames need more.
const BLOCK: usize = 32 << 10;
/// Fewest blocks: each is handed over after its time, however little it holds, so a stalled reader uses up one per millisecond.
const LEAST_BLOCKS: usize = 32;
/// Length of the pieces in which the kernel allocates a ring of slots, in bytes.
const PIECE: usize = 64 << 10;
/// Most bytes of a ring.
const MOST_BYTES: usize = 1 << 30;
/// Link types with an Ethernet header: Ethernet and loopback (`include/uapi/linux/if_arp.h`).
const ETHERNET_LIKE: [u16; 2] = [libc::ARPHRD_ETHER, libc::ARPHRD_LOOPBACK];

/// Structure of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// TPACKET_V2: a slot for each frame, handed over at once.
    Slots,
    /// TPACKET_V3: blocks of frames, handed over when full or after 1 ms.
    Blocks,
}

/// Distribution of frames over the sockets of a group (PACKET_FANOUT).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// The flow's hash; both directions of a flow go to the same socket.
    Hash,
    /// The device's receive queue.
    Queue,
}

/// Configuration of a packet socket.
#[derive(Clone, Copy, Debug)]
pub struct Ask {
    /// Index of the interface.
    pub interface: u32,
    pub layout: Layout,
    /// Number of slots, or of longest frames that the blocks can hold; rounded up to whole pieces.
    pub entries: u32,
    /// Longest frame in bytes, including the Ethernet header, excluding the FCS.
    pub longest: usize,
    /// Receive frames for other MAC addresses too: the interface is promiscuous as long as the socket lives.
    pub promiscuous: bool,
    /// A frame's time is the device's, if the device has stamped it.
    pub device_stamps: bool,
}

/// A step that the kernel refused.
#[derive(Debug, thiserror::Error)]
#[error("{step}: {source}")]
pub struct PacketSocketError {
    pub step: &'static str,
    /// The kernel's error. EPERM on the first step: CAP_NET_RAW is missing.
    pub source: io::Error,
}

/// The step that needs CAP_NET_RAW.
pub const OPEN_STEP: &str = "open a packet socket";

/// One instruction of a classic BPF program (`struct sock_filter`).
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// Operation code.
    pub code: u16,
    /// Instructions to skip if a comparison is true.
    pub jump_true: u8,
    /// Instructions to skip if it is false.
    pub jump_false: u8,
    pub operand: u32,
}

/// A program that rejects every frame: `ret #0`.
const NOTHING: [Instruction; 1] =
    [Instruction { code: (libc::BPF_RET | libc::BPF_K) as u16, jump_true: 0, jump_false: 0, operand: 0 }];

/// A frame from the ring.
#[derive(Debug)]
pub struct Received {
    /// The frame, including its VLAN tag if it had one.
    pub frame: Frame,
    /// Time at which the kernel received it, in nanoseconds of CLOCK_REALTIME, or the device, in those of its own clock.
    pub time_ns: Option<u64>,
    /// The time is the device's.
    pub by_device: bool,
    /// Hash of its flow, in a ring of blocks.
    pub hash: Option<u32>,
    /// True if the sender left the transport checksum to a device that the frame never passed: the field holds only the
    /// pseudo-header's sum.
    pub checksum_missing: bool,
}

/// Reason why a frame in the ring was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Longer than a slot or a chunk.
    TooLong,
    /// Its header points outside its slot or block.
    Invalid,
}

/// Result of a look at the ring.
#[derive(Debug)]
pub enum Step {
    /// A frame.
    Frame(Received),
    /// A frame that was lost.
    Fault(Fault),
    /// No frame has arrived.
    Empty,
    /// A frame has arrived but stays in the ring: the pool has no free chunk.
    NoChunk,
}

/// A packet socket with its receive ring.
pub struct PacketSocket {
    ring: Ring,
    socket: Arc<OwnedFd>,
}

/// Opens and closes a socket to incoming frames while the socket exists; it does not keep the socket alive.
#[derive(Clone, Debug)]
pub struct Gate(Weak<OwnedFd>);

/// Checks whether this process may open a packet socket in its network namespace.
///
/// # Errors
/// EPERM without CAP_NET_RAW, EAFNOSUPPORT in a kernel without packet sockets.
pub fn permitted() -> Result<(), PacketSocketError> {
    unbound().map(drop)
}

/// A socket that receives no frames from any interface: its protocol is 0.
fn unbound() -> Result<OwnedFd, PacketSocketError> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None).map_err(|errno| failed(OPEN_STEP)(errno.into()))
}

/// Makes the interface promiscuous for as long as the socket lives.
fn hear_all(socket: BorrowedFd<'_>, interface: u32) -> Result<(), PacketSocketError> {
    let request = libc::packet_mreq {
        mr_ifindex: interface as i32,
        mr_type: libc::PACKET_MR_PROMISC as u16,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    set(socket, libc::PACKET_ADD_MEMBERSHIP, &request).map_err(failed("make the interface promiscuous"))
}

/// Makes the interface promiscuous for as long as the returned socket lives; that socket itself receives no frames.
///
/// # Errors
/// EPERM without CAP_NET_RAW, ENODEV if there is no such interface.
pub fn promiscuous(interface: u32) -> Result<OwnedFd, PacketSocketError> {
    let socket = unbound()?;
    hear_all(socket.as_fd(), interface)?;
    Ok(socket)
}

impl PacketSocket {
    /// Opens a socket on an interface, closed to incoming frames.
    ///
    /// # Errors
    /// The failed step and the kernel's error: EPERM without CAP_NET_RAW, ENODEV if there is no such interface, ENOMEM if the
    /// ring is too large, EPFNOSUPPORT for an interface without Ethernet frames.
    pub fn open(ask: &Ask) -> Result<PacketSocket, PacketSocketError> {
        let socket = unbound()?;
        let fd = socket.as_fd();
        let version = match ask.layout {
            Layout::Slots => libc::tpacket_versions::TPACKET_V2,
            Layout::Blocks => libc::tpacket_versions::TPACKET_V3,
        };
        set(fd, libc::PACKET_VERSION, &(version as i32)).map_err(failed("choose the ring's version"))?;
        if ask.device_stamps {
            // Where the device stamped nothing, the kernel's own stamp stays.
            let stamps = libc::SOF_TIMESTAMPING_RAW_HARDWARE;
            set(fd, libc::PACKET_TIMESTAMP, &stamps).map_err(failed("ask for the device's stamps"))?;
        }
        let request = geometry(ask, page_size()).map_err(failed("plan the ring"))?;
        match ask.layout {
            Layout::Slots => {
                let request = libc::tpacket_req {
                    tp_block_size: request.tp_block_size,
                    tp_block_nr: request.tp_block_nr,
                    tp_frame_size: request.tp_frame_size,
                    tp_frame_nr: request.tp_frame_nr,
                };
                set(fd, libc::PACKET_RX_RING, &request)
            }
            Layout::Blocks => set(fd, libc::PACKET_RX_RING, &request),
        }
        .map_err(failed("make the receive ring"))?;
        let bytes = request.tp_block_size as usize * request.tp_block_nr as usize;
        let area = Area::of(fd, bytes).map_err(failed("map the receive ring"))?;
        let ring = match ask.layout {
            Layout::Slots => Ring::new(area, ask.layout, request.tp_frame_size as usize, request.tp_frame_nr as usize),
            Layout::Blocks => Ring::new(area, ask.layout, request.tp_block_size as usize, request.tp_block_nr as usize),
        };
        // Kernels before 4.20 lack this option; there the filter alone excludes outgoing frames.
        match set(fd, libc::PACKET_IGNORE_OUTGOING, &1_i32) {
            Err(error) if error.raw_os_error() != Some(libc::ENOPROTOOPT) => return Err(failed("ignore outgoing frames")(error)),
            _ => {}
        }
        set(fd, libc::PACKET_QDISC_BYPASS, &1_i32).map_err(failed("bypass the queueing discipline"))?;
        attach(fd, &NOTHING).map_err(failed("attach a filter"))?;
        let link_type = bind(fd, ask.interface).map_err(failed("bind to the interface"))?;
        if !ETHERNET_LIKE.contains(&link_type) {
            return Err(failed("find Ethernet frames")(io::Error::from_raw_os_error(libc::EPFNOSUPPORT)));
        }
        if ask.promiscuous {
            hear_all(fd, ask.interface)?;
        }
        Ok(PacketSocket { ring, socket: Arc::new(socket) })
    }

    /// Shares the interface's frames with the other sockets of a group, or of a new group if `group` is `None`; returns the
    /// group.
    ///
    /// # Errors
    /// As [`PacketSocket::open`]; EINVAL if the group distributes its frames in another way.
    pub fn join(&self, group: Option<u16>, spread: Spread) -> Result<u16, PacketSocketError> {
        let by = match spread {
            Spread::Hash => libc::PACKET_FANOUT_HASH,
            Spread::Queue => libc::PACKET_FANOUT_QM,
        };
        let step = "share frames between sockets";
        let with = |flags: u32| {
            let unique = if group.is_none() { libc::PACKET_FANOUT_FLAG_UNIQUEID } else { 0 };
            set(self.as_fd(), libc::PACKET_FANOUT, &(u32::from(group.unwrap_or(0)) | (by | flags | unique) << 16))
        };
        // The group has its own hook. Kernels before 5.1 lack this flag; there the filter alone excludes outgoing frames.
        with(libc::PACKET_FANOUT_FLAG_IGNORE_OUTGOING).or_else(|_| with(0)).map_err(failed(step))?;
        let mut answer = 0_u32;
        get(self.as_fd(), libc::PACKET_FANOUT, &mut answer).map_err(failed(step))?;
        Ok(answer as u16)
    }

    /// True if the ring holds no frame. Never enters the kernel.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.ring.is_empty()
    }

    /// Looks at the next frame in the ring. Never enters the kernel.
    #[inline(always)]
    pub fn step(&mut self, pool: &mut Pool) -> Step {
        self.ring.step(pool)
    }

    /// Sends one frame, bypassing the queueing discipline; one system call, which copies the frame.
    ///
    /// # Errors
    /// EAGAIN or ENOBUFS if the device accepts no more now, EMSGSIZE for a frame longer than the MTU allows, EINVAL for one
    /// without an Ethernet header, ENETDOWN if the interface is down, ENXIO if it is gone.
    #[inline(always)]
    pub fn send(&self, frame: &[u8]) -> io::Result<()> {
        Ok(message::send(&self.socket, frame, SendFlags::DONTWAIT).map(drop)?)
    }

    /// Sends the first frames, at most [`MOST_AT_ONCE`], with one system call and returns the number sent. For several frames
    /// this is faster than [`send`](PacketSocket::send) for each; for one frame it is slower.
    ///
    /// # Errors
    /// As [`send`](PacketSocket::send), if the first frame was refused.
    pub fn send_many<'a>(&self, frames: impl Iterator<Item = &'a [u8]>) -> io::Result<usize> {
        let mut parts = [const { libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 } }; MOST_AT_ONCE];
        let mut count = 0;
        for (part, frame) in parts.iter_mut().zip(frames) {
            *part = libc::iovec { iov_base: frame.as_ptr().cast_mut().cast(), iov_len: frame.len() };
            count += 1;
        }
        // SAFETY: a message of zeros is valid: no name, no parts, no control data.
        let mut messages: [libc::mmsghdr; MOST_AT_ONCE] = unsafe { std::mem::zeroed() };
        for (message, part) in messages.iter_mut().zip(&mut parts[..count]) {
            message.msg_hdr.msg_iov = part;
            message.msg_hdr.msg_iovlen = 1;
        }
        // SAFETY: the first `count` messages point to one part each, and these to frames that are borrowed until the call
        // returns; the kernel reads the frames and writes nothing but the messages' lengths.
        let sent = unsafe { libc::sendmmsg(self.socket.as_raw_fd(), messages.as_mut_ptr(), count as u32, libc::MSG_DONTWAIT) };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }

    /// Returns the socket's pending error: ENETDOWN if the interface went down.
    ///
    /// # Errors
    /// That error.
    pub fn take_error(&self) -> io::Result<()> {
        Ok(sockopt::socket_error(&self.socket)??)
    }

    /// Frames lost since the last call because the ring was full (PACKET_STATISTICS).
    ///
    /// # Errors
    /// The kernel's error.
    pub fn take_drops(&self) -> io::Result<u32> {
        // V3 returns one more field, which is not used here.
        let mut statistics = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
        get(self.as_fd(), libc::PACKET_STATISTICS, &mut statistics)?;
        Ok(statistics.tp_drops)
    }

    /// The gate that opens and closes the socket to incoming frames.
    pub fn gate(&self) -> Gate {
        Gate(Arc::downgrade(&self.socket))
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Gate {
    /// True while the socket exists.
    pub fn is_alive(&self) -> bool {
        self.0.strong_count() > 0
    }

    /// Lets frames accepted by `program` into the ring from now on. Does nothing if the socket is gone.
    ///
    /// # Errors
    /// EINVAL for a program that the kernel rejects.
    pub fn open(&self, program: &[Instruction]) -> io::Result<()> {
        self.0.upgrade().map_or(Ok(()), |socket| attach(socket.as_fd(), program))
    }

    /// Keeps all further frames out of the ring; those already there stay. Does nothing if the socket is gone.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn close(&self) -> io::Result<()> {
        self.open(&NOTHING)
    }
}

fn failed(step: &'static str) -> impl Fn(io::Error) -> PacketSocketError {
    move |source| PacketSocketError { step, source }
}

/// The ring's sizes in the kernel's form for pages of `page` bytes; a ring of slots uses only the first four.
fn geometry(ask: &Ask, page: usize) -> io::Result<libc::tpacket_req3> {
    let slot = ask.longest.saturating_add(HEAD_ROOM);
    // Slots follow each other without a gap across the kernel's pieces: their size is a power of two or whole pages.
    let slot = if slot <= page { slot.next_power_of_two() } else { slot.next_multiple_of(page) };
    let (block, frame, least) = match ask.layout {
        Layout::Slots => ((PIECE / slot).max(1) * slot, slot, 1),
        // The kernel divides blocks by the frames' lengths; this size only has to be a divisor.
        Layout::Blocks => (BLOCK.max(slot.saturating_mul(2)).next_multiple_of(page), page, LEAST_BLOCKS),
    };
    let blocks = (ask.entries as usize).saturating_mul(slot).div_ceil(block).max(least);
    if ask.entries == 0 || blocks.saturating_mul(block) > MOST_BYTES {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    Ok(libc::tpacket_req3 {
        tp_block_size: block as u32,
        tp_block_nr: blocks as u32,
        tp_frame_size: frame as u32,
        tp_frame_nr: (blocks * (block / frame)) as u32,
        tp_retire_blk_tov: RETIRE_MS,
        tp_sizeof_priv: 0,
        tp_feature_req_word: libc::TP_FT_REQ_FILL_RXHASH,
    })
}

/// Binds to every protocol of an interface and returns its link type.
fn bind(fd: BorrowedFd<'_>, interface: u32) -> io::Result<u16> {
    let mut address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: (libc::ETH_P_ALL as u16).to_be(),
        sll_ifindex: interface as i32,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    let mut len = size_of_val(&address) as u32;
    // SAFETY: the kernel reads a local of this size.
    if unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), len) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel writes at most `len` bytes into a local of that size.
    if unsafe { libc::getsockname(fd.as_raw_fd(), (&raw mut address).cast(), &raw mut len) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(address.sll_hatype)
}

fn attach(fd: BorrowedFd<'_>, program: &[Instruction]) -> io::Result<()> {
    let program = libc::sock_fprog {
        len: u16::try_from(program.len()).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?,
        filter: program.as_ptr().cast_mut().cast(),
    };
    set_at(fd, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
}

fn set<T: Copy>(fd: BorrowedFd<'_>, name: i32, value: &T) -> io::Result<()> {
    set_at(fd, libc::SOL_PACKET, name, value)
}

fn set_at<T: Copy>(fd: BorrowedFd<'_>, level: i32, name: i32, value: &T) -> io::Result<()> {
    // SAFETY: the kernel reads `value`, whose size it is told, and for a program the instructions that its pointer and length
    // name, which outlive the call.
    let done = unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, (&raw const *value).cast(), size_of::<T>() as u32) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// `T` must be a structure of integers, so that any bytes the kernel writes are a valid value.
fn get<T: Copy>(fd: BorrowedFd<'_>, name: i32, value: &mut T) -> io::Result<()> {
    let mut len = size_of::<T>() as u32;
    // SAFETY: the kernel writes at most `len` bytes into a value of that size, any bits of which are valid (see above).
    let done = unsafe { libc::getsockopt(fd.as_raw_fd(), libc::SOL_PACKET, name, (&raw mut *value).cast(), &raw mut len) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The conditions of packet_set_ring() in `net/packet/af_packet.c`.
    #[test]
    fn sizes_are_what_the_kernel_takes_whatever_its_pages() {
        for page in [4 << 10, 16 << 10, 64 << 10] {
            for longest in [60, 1_514, 4_000, 9_014, 65_550] {
                for layout in [Layout::Slots, Layout::Blocks] {
                    let ring = geometry(
                        &Ask { interface: 1, layout, entries: 256, longest, promiscuous: false, device_stamps: false },
                        page,
                    )
                    .unwrap();
                    let [block, blocks, frame, frames] =
                        [ring.tp_block_size, ring.tp_block_nr, ring.tp_frame_size, ring.tp_frame_nr].map(|size| size as usize);
                    let case = format!("{page} {longest} {layout:?}: {block} {blocks} {frame} {frames}");
                    assert!(block > 0 && block.is_multiple_of(page), "{case}");
                    assert!(frame.is_multiple_of(16) && frame <= block && frames == blocks * (block / frame), "{case}");
                    if layout == Layout::Slots {
                        assert!(frame >= longest + HEAD_ROOM && frames >= 256 && block.is_multiple_of(frame), "{case}");
                    } else {
                        assert!(block >= 2 * (longest + HEAD_ROOM), "{case}");
                    }
                }
            }
        }
    }
}
