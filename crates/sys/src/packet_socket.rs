//! A packet socket (AF_PACKET) with a receive ring that it shares with the kernel, as a safe type.
//!
//! ```text
//!   device ──▶ filter ──▶ ring of slots or blocks ──copied──▶ frame of the pool
//!   device ◀──────── send(2), for several sendmmsg(2) ◀────── frame of the pool
//! ```
//! The socket is closed to frames until [`Gate::open`]: a filter that takes nothing is attached before it is bound. What belongs to the
//! socket (ring, filter, fanout membership, promiscuous mode) ends with it, however the process ends.
//!
//! Sources: packet(7), socket(7), `include/uapi/linux/if_packet.h`, `net/packet/af_packet.c`.

use std::io;
use std::mem::{size_of, size_of_val};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Weak};

use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, send, socket_with, sockopt};

use crate::umem::{Frame, Pool};

mod ring;

use ring::{Area, HEAD_ROOM, Ring};

/// Most frames that one system call sends.
pub const MOST_AT_ONCE: usize = 32;
/// How long a block of a rate ring may fill, in milliseconds: the kernel's shortest.
const RETIRE_MS: u32 = 1;
/// Bytes of a block of a rate ring, where frames do not need more.
const BLOCK: usize = 32 << 10;
/// Fewest blocks: each is handed over after its time, however little is in it, so a reader that stalls takes one a millisecond.
const LEAST_BLOCKS: usize = 32;
/// Bytes of the pieces in which the kernel allocates a ring of slots.
const PIECE: usize = 64 << 10;
/// Most bytes of a ring.
const MOST_BYTES: usize = 1 << 30;
/// Link types with an Ethernet header: Ethernet and loopback (`include/uapi/linux/if_arp.h`).
const ETHERNET_LIKE: [u16; 2] = [libc::ARPHRD_ETHER, libc::ARPHRD_LOOPBACK];

/// What a ring is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// TPACKET_V2: a slot for each frame, handed over at once.
    Slots,
    /// TPACKET_V3: blocks of frames, handed over when full or after 1 ms.
    Blocks,
}

/// By what frames are spread over the sockets of one group (PACKET_FANOUT).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// The flow's hash; both directions of a flow go to the same socket.
    Hash,
    /// The device's receive queue.
    Queue,
}

/// What is asked of a packet socket.
#[derive(Clone, Copy, Debug)]
pub struct Ask {
    /// The interface's index.
    pub interface: u32,
    /// What the ring is made of.
    pub layout: Layout,
    /// Slots, or how many of the longest frames the blocks hold; rounded up to whole pieces.
    pub entries: u32,
    /// The longest frame in bytes, Ethernet header included, FCS not.
    pub longest: usize,
    /// Frames for other MAC addresses too: the interface is promiscuous as long as the socket lives.
    pub promiscuous: bool,
}

/// A step that the kernel refused.
#[derive(Debug, thiserror::Error)]
#[error("{step}: {source}")]
pub struct PacketSocketError {
    /// What was tried.
    pub step: &'static str,
    /// What the kernel said. EPERM on the first step: CAP_NET_RAW is missing.
    pub source: io::Error,
}

/// The step that needs CAP_NET_RAW.
pub const OPEN_STEP: &str = "open a packet socket";

/// One instruction of a classic BPF program (`struct sock_filter`).
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// What it does.
    pub code: u16,
    /// Instructions to skip if a comparison holds.
    pub jump_true: u8,
    /// Instructions to skip if it does not.
    pub jump_false: u8,
    /// Its operand.
    pub operand: u32,
}

/// A program that takes no frame: `ret #0`.
const NOTHING: [Instruction; 1] =
    [Instruction { code: (libc::BPF_RET | libc::BPF_K) as u16, jump_true: 0, jump_false: 0, operand: 0 }];

/// A frame out of the ring.
#[derive(Debug)]
pub struct Received {
    /// The frame, with its VLAN tag if it came with one.
    pub frame: Frame,
    /// When the kernel took it up, in nanoseconds of CLOCK_REALTIME.
    pub time_ns: Option<u64>,
    /// The hash over its flow, in a ring of blocks.
    pub hash: Option<u32>,
    /// True if the sender left the transport checksum to a device that was never passed: the field holds the pseudo-header's sum only.
    pub checksum_missing: bool,
}

/// Why a frame in the ring was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Longer than a slot or a chunk.
    TooLong,
    /// Its header points outside of its slot or block.
    Invalid,
}

/// What a look at the ring found.
#[derive(Debug)]
pub enum Step {
    /// A frame.
    Frame(Received),
    /// A frame that was lost.
    Fault(Fault),
    /// Nothing has arrived.
    Empty,
    /// A frame is there and stays there: the pool has no free chunk.
    NoChunk,
}

/// A packet socket with its receive ring.
pub struct PacketSocket {
    ring: Ring,
    socket: Arc<OwnedFd>,
}

/// Opens and closes a socket to frames from elsewhere, as long as the socket is there; it does not keep it.
#[derive(Clone, Debug)]
pub struct Gate(Weak<OwnedFd>);

/// Says whether this process may open a packet socket in its network namespace.
///
/// # Errors
/// EPERM without CAP_NET_RAW, EAFNOSUPPORT in a kernel without packet sockets.
pub fn permitted() -> Result<(), PacketSocketError> {
    unbound().map(drop)
}

/// A socket that gets no frame of any interface: its protocol is 0.
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

/// Makes the interface promiscuous for as long as the returned socket lives, which gets no frames itself.
///
/// # Errors
/// EPERM without CAP_NET_RAW, ENODEV without the interface.
pub fn promiscuous(interface: u32) -> Result<OwnedFd, PacketSocketError> {
    let socket = unbound()?;
    hear_all(socket.as_fd(), interface)?;
    Ok(socket)
}

impl PacketSocket {
    /// Opens a socket on an interface, closed to frames.
    ///
    /// # Errors
    /// The step that failed and what the kernel said: EPERM without CAP_NET_RAW, ENODEV without the interface, ENOMEM for a ring that is
    /// too large, EPFNOSUPPORT for an interface without Ethernet frames.
    pub fn open(ask: &Ask) -> Result<PacketSocket, PacketSocketError> {
        let socket = unbound()?;
        let fd = socket.as_fd();
        let version = match ask.layout {
            Layout::Slots => libc::tpacket_versions::TPACKET_V2,
            Layout::Blocks => libc::tpacket_versions::TPACKET_V3,
        };
        set(fd, libc::PACKET_VERSION, &(version as i32)).map_err(failed("choose the ring's version"))?;
        let request = geometry(ask).map_err(failed("plan the ring"))?;
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
        // Kernels before 4.20 have no such option; there the filter alone keeps outgoing frames away.
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

    /// Shares the interface's frames with the other sockets of a group, which is new where none is named, and returns the group.
    ///
    /// # Errors
    /// As [`PacketSocket::open`]; EINVAL where the group spreads by something else.
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
        // The group has a hook of its own. Kernels before 5.1 know no such flag; there the filter alone keeps outgoing frames away.
        with(libc::PACKET_FANOUT_FLAG_IGNORE_OUTGOING).or_else(|_| with(0)).map_err(failed(step))?;
        let mut answer = 0_u32;
        get(self.as_fd(), libc::PACKET_FANOUT, &mut answer).map_err(failed(step))?;
        Ok(answer as u16)
    }

    /// Looks at the next frame in the ring. Never enters the kernel.
    #[inline(always)]
    pub fn step(&mut self, pool: &mut Pool) -> Step {
        self.ring.step(pool)
    }

    /// Sends one frame, past the queueing discipline; one system call, which copies it.
    ///
    /// # Errors
    /// EAGAIN or ENOBUFS where the device takes no more now, EMSGSIZE for a frame longer than the MTU allows, EINVAL for one without
    /// an Ethernet header, ENETDOWN where the interface is down, ENXIO where it is gone.
    #[inline(always)]
    pub fn send(&self, frame: &[u8]) -> io::Result<()> {
        Ok(send(&self.socket, frame, SendFlags::DONTWAIT).map(drop)?)
    }

    /// Sends the first frames, at most [`MOST_AT_ONCE`], with one system call and returns how many left. For several frames this takes
    /// less time than [`send`](PacketSocket::send) for each, for one it takes more.
    ///
    /// # Errors
    /// As [`send`](PacketSocket::send), where the first frame was refused.
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
        // SAFETY: the first `count` messages point to one part each, and these to frames that are borrowed until the call returns; the
        // kernel reads the frames and writes nothing but the messages' lengths.
        let sent = unsafe { libc::sendmmsg(self.socket.as_raw_fd(), messages.as_mut_ptr(), count as u32, libc::MSG_DONTWAIT) };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }

    /// What has befallen the socket since the last call: ENETDOWN where the interface went down.
    ///
    /// # Errors
    /// That error.
    pub fn take_error(&self) -> io::Result<()> {
        Ok(sockopt::socket_error(&self.socket)??)
    }

    /// Frames lost since the last call because the ring was full (PACKET_STATISTICS).
    ///
    /// # Errors
    /// What the kernel said.
    pub fn take_drops(&self) -> io::Result<u32> {
        // V3 answers with one field more, which is not used here.
        let mut statistics = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
        get(self.as_fd(), libc::PACKET_STATISTICS, &mut statistics)?;
        Ok(statistics.tp_drops)
    }

    /// To open and close the socket to frames.
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
    /// From here on frames that the program takes come to the ring. Does nothing where the socket is gone.
    ///
    /// # Errors
    /// EINVAL for a program that the kernel does not take.
    pub fn open(&self, program: &[Instruction]) -> io::Result<()> {
        self.0.upgrade().map_or(Ok(()), |socket| attach(socket.as_fd(), program))
    }

    /// From here on no frame comes to the ring; those that are there stay. Does nothing where the socket is gone.
    ///
    /// # Errors
    /// What the kernel said.
    pub fn close(&self) -> io::Result<()> {
        self.open(&NOTHING)
    }
}

fn failed(step: &'static str) -> impl Fn(io::Error) -> PacketSocketError {
    move |source| PacketSocketError { step, source }
}

/// The ring's sizes, as the kernel wants them; those of slots are the first four.
fn geometry(ask: &Ask) -> io::Result<libc::tpacket_req3> {
    const PAGE: usize = 4096;
    let slot = ask.longest.saturating_add(HEAD_ROOM);
    // Slots follow each other without a gap across the kernel's pieces: a power of two, or whole pages.
    let slot = if slot <= PAGE { slot.next_power_of_two() } else { slot.next_multiple_of(PAGE) };
    let (block, frame, least) = match ask.layout {
        Layout::Slots => ((PIECE / slot).max(1) * slot, slot, 1),
        // The kernel cuts blocks as frames need; this size has only to divide them.
        Layout::Blocks => (BLOCK.max(slot.saturating_mul(2)).next_multiple_of(PAGE), PAGE, LEAST_BLOCKS),
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
    // SAFETY: the kernel reads `value`, whose size it is told, and for a program the instructions that its pointer and length name, which
    // outlive the call.
    let done = unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, (&raw const *value).cast(), size_of::<T>() as u32) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// `T` is a structure of integers: whatever the kernel writes is a value of it.
fn get<T: Copy>(fd: BorrowedFd<'_>, name: i32, value: &mut T) -> io::Result<()> {
    let mut len = size_of::<T>() as u32;
    // SAFETY: the kernel writes at most `len` bytes into a value of that size, any bits of which are valid (see above).
    let done = unsafe { libc::getsockopt(fd.as_raw_fd(), libc::SOL_PACKET, name, (&raw mut *value).cast(), &raw mut len) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
