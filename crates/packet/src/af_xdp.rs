//! AF_XDP: an XDP program takes the wanted frames of each queue straight to a ring of this process; everything else stays with the kernel.
//!
//! ```text
//!                      ┌─ all else ──▶ the kernel's stack
//!   device ─▶ XDP program ─ wanted ─▶ XSKMAP[queue] ─▶ RX ring ─▶ rx_batch ─▶ application
//!     ▲   (native: driver, generic: stack)    fill ring ◀─ free chunks ──┐         │
//!     └───────────────────────────────────────── TX ring ◀─ tx_batch, kick ◀───────┘
//!                                           completion ring ─ sent chunks ─┘
//! ```
//! The program is attached when the device is opened, so that what is granted is known and not guessed; until [`start`](BackEnd::start) it
//! passes everything on. It is attached by a link, and goes with the process however that ends.

mod faster;
mod program;
mod queue;

use std::io;
use std::os::fd::OwnedFd;
use std::thread::sleep;
use std::time::{Duration, Instant};

use hairpin_sys::bpf::{BpfError, XdpLink, XdpState};
use hairpin_sys::ethtool::Ethtool;
use hairpin_sys::netlink::{LinkFacts, Netlink, NetlinkError};
use hairpin_sys::packet_socket::promiscuous;
use hairpin_sys::umem::{MIN_CHUNK, Pool};
use hairpin_sys::xsk::{HEADROOM, LARGEST_CHUNK, Options, Socket, XskError};
use rustix::io::Errno;

use crate::device::{BackEnd, Config, Favour, OpenError};
use crate::filter::Filter;
use crate::granted::{Feature, Granted, Mode, Refused};
use faster::Choice;
use program::Program;
pub use queue::Queue;

/// An Ethernet header.
const ETHERNET: usize = 14;
/// A VLAN tag, which an arriving frame may have beyond the MTU.
const TAG: usize = 4;

/// How long the kernel may take to give back the queue of a socket that is closed (`net/xdp/xsk_buff_pool.c` does it in a work queue).
const RELEASE: Duration = Duration::from_millis(250);

/// An interface with our XDP program on it. Rings receive as long as it lives.
pub struct AfXdp {
    config: Config,
    link: LinkFacts,
    granted: Granted,
    chunk: usize,
    offers_zero_copy: Option<bool>,
    program: Program,
    _attached: XdpLink,
    _promiscuous: Option<OwnedFd>,
}

impl BackEnd for AfXdp {
    type Io = Queue;

    fn open(interface: &str, config: &Config) -> Result<AfXdp, OpenError> {
        let link = facts(interface)?;
        if !link.up {
            return Err(OpenError::Down(interface.into()));
        }
        if !config.ring_entries.is_power_of_two() || config.chunks <= config.ring_entries {
            let (entries, chunks) = (config.ring_entries, config.chunks);
            return Err(OpenError::Config(format!(
                "AF_XDP takes rings of a power of two and more chunks than that, as the fill ring holds as many: not {entries} and {chunks}"
            )));
        }
        let mut refused = Vec::new();
        let (chunk, longest) = sizes(&link, config, &mut refused)?;
        let offers_zero_copy = foreign(&link)?.offers_zero_copy();
        let queues = queues(&link);
        let program = Program::load(config.filter, queues).map_err(|error| loading(interface, error))?;
        let (attached, mode, mode_why) = attach(&link, queues, config, &program, &mut refused)?;
        if config.busy_poll_us.is_some() && mode == Mode::Generic {
            let why =
                "generic XDP runs behind the driver's NAPI context, so there is nothing to poll: ask for mode native".into();
            refused.push(Refused { feature: Feature::BusyPoll, why });
        }
        refused.push(Refused { feature: Feature::HardwareTime, why: "stamps of the device are not read yet".into() });
        let granted = Granted {
            back_end: "af_xdp",
            interface: interface.into(),
            queue: 0,
            queues,
            mode: Some(mode),
            mode_why,
            zero_copy: false,
            need_wakeup: false,
            busy_poll: false,
            multi_buffer: false,
            rx_time: None,
            longest_frame: longest,
            refused,
        };
        let hears_all = (config.promiscuous || config.filter == Filter::All).then(|| promiscuous(link.index)).transpose();
        let _promiscuous = hears_all.map_err(|error| socket_refused(interface, error.step, error.source))?;
        Ok(AfXdp { config: config.clone(), link, granted, chunk, offers_zero_copy, program, _attached: attached, _promiscuous })
    }

    fn granted(&self) -> &Granted {
        &self.granted
    }

    fn ring(&mut self, queue: u32) -> Result<Queue, OpenError> {
        let interface = || self.granted.interface.clone();
        if queue >= self.granted.queues {
            return Err(OpenError::NoQueue { interface: interface(), queue, last: self.granted.queues - 1 });
        }
        let mut granted = Granted { queue, ..self.granted.clone() };
        let socket = self.socket(queue, &mut granted)?;
        if let Some(usecs) = self.config.busy_poll_us {
            match socket.busy_poll(usecs) {
                Ok(()) => granted.busy_poll = true,
                Err(error) => granted.refused.push(Refused { feature: Feature::BusyPoll, why: no_busy_poll(&error) }),
            }
        }
        let ring = Queue::new(socket, granted);
        let put = self.program.set_socket(queue, ring.socket());
        put.map_err(|error| step("give the XDP program its socket", interface(), io::Error::other(error)))?;
        self.granted = Granted { queue: self.granted.queue, ..crate::io::PacketIo::granted(&ring).clone() };
        Ok(ring)
    }

    fn start(&mut self) -> Result<(), OpenError> {
        self.run(true)
    }

    fn stop(&mut self) -> Result<(), OpenError> {
        self.run(false)
    }
}

impl AfXdp {
    fn run(&self, running: bool) -> Result<(), OpenError> {
        let done = self.program.run(running);
        done.map_err(|error| step("switch the XDP program", self.granted.interface.clone(), io::Error::other(error)))
    }

    /// A socket on that queue: with zero-copy if that was asked for and the driver has it.
    fn socket(&self, queue: u32, granted: &mut Granted) -> Result<Socket, OpenError> {
        let interface = || granted.interface.clone();
        let open = |zero_copy| -> Result<Result<Socket, XskError>, OpenError> {
            let give_up = Instant::now() + RELEASE;
            loop {
                let pool = Pool::new(self.config.chunks, self.chunk)?;
                let few_chunks = self.config.favour == Favour::Delay;
                let options = Options { entries: self.config.ring_entries, zero_copy, few_chunks };
                match Socket::open(pool, self.link.index, queue, options) {
                    // A socket that was closed a moment ago gives its queue back only now.
                    Err(error) if taken(&error) && Instant::now() < give_up => sleep(RELEASE / 50),
                    done => return Ok(done),
                }
            }
        };
        let why = match (self.config.zero_copy, granted.mode) {
            (false, _) => None,
            (true, Some(Mode::Native)) if self.offers_zero_copy == Some(false) => Some("its driver has none".into()),
            (true, Some(Mode::Native)) => match open(true)? {
                Ok(socket) => {
                    (granted.zero_copy, granted.need_wakeup) = (true, true);
                    return Ok(socket);
                }
                Err(error) if taken(&error) => return Err(OpenError::QueueTaken { interface: interface(), queue }),
                Err(error) if is(&error.source, Errno::OPNOTSUPP) => Some("its driver has none (EOPNOTSUPP)".into()),
                Err(error) => Some(format!("its driver refused it: {error}")),
            },
            (true, _) => Some("generic XDP works on the kernel's copy of a frame: only native mode has zero-copy".into()),
        };
        if let Some(why) = why {
            granted.refused.push(Refused { feature: Feature::ZeroCopy, why });
        }
        let why = "in copy mode the system call itself sends, so there is none to save".into();
        granted.refused.push(Refused { feature: Feature::NeedWakeup, why });
        open(false)?.map_err(|error| {
            if taken(&error) {
                OpenError::QueueTaken { interface: interface(), queue }
            } else {
                socket_refused(&interface(), error.step, error.source)
            }
        })
    }
}

/// Bytes of a chunk, and of the longest frame.
fn sizes(link: &LinkFacts, config: &Config, refused: &mut Vec<Refused>) -> Result<(usize, usize), OpenError> {
    let room = LARGEST_CHUNK - HEADROOM;
    let possible = link.mtu as usize + ETHERNET;
    let longest = config.longest_frame.unwrap_or(possible).min(possible);
    if longest <= room {
        let chunk = (longest + TAG + HEADROOM).next_power_of_two().clamp(MIN_CHUNK, LARGEST_CHUNK);
        return Ok((chunk, longest));
    }
    let why = format!("one chunk holds frames of up to {room} bytes, and frames over several chunks are not taken apart");
    if config.longest_frame.is_some() {
        return Err(OpenError::Config(format!("AF_XDP on {} cannot carry frames of {longest} bytes: {why}", link.name)));
    }
    refused.push(Refused { feature: Feature::MultiBuffer, why });
    Ok((LARGEST_CHUNK, room))
}

/// Queues that frames can come on: what is in use, not what the device could have.
fn queues(link: &LinkFacts) -> u32 {
    let channels = Ethtool::open().and_then(|ethtool| ethtool.channels(&link.name)).ok().flatten();
    let used = channels.map(|channels| channels.combined.max(channels.rx)).filter(|used| *used > 0);
    used.unwrap_or(link.rx_queues).max(1)
}

/// What the driver offers. Nobody else's program may be there: ours would not be let in, and theirs would not see our frames.
fn foreign(link: &LinkFacts) -> Result<XdpState, OpenError> {
    let state = XdpState::of(link.index);
    let state = state.map_err(|error| step("read the XDP programs", link.name.clone(), io::Error::other(error)))?;
    let there = state.native.map(|id| (id, Mode::Native)).or(state.generic.map(|id| (id, Mode::Generic)));
    there.map_or(Ok(state), |(id, mode)| Err(OpenError::ForeignProgram { interface: link.name.clone(), id, mode }))
}

/// Attaches the program where it was asked to run, or where it runs faster. Returns why it runs there, if that was not asked.
fn attach(
    link: &LinkFacts,
    queues: u32,
    config: &Config,
    program: &Program,
    refused: &mut Vec<Refused>,
) -> Result<(XdpLink, Mode, Option<String>), OpenError> {
    let at = |mode| program.attach(link.index, mode);
    let failed = |mode: Mode, error: BpfError| match Errno::from_io_error(&error.source) {
        Some(Errno::PERM) => loading(&link.name, error),
        Some(Errno::BUSY | Errno::EXIST) => foreign(link).err().unwrap_or_else(|| attaching(link, mode, error)),
        _ => attaching(link, mode, error),
    };
    if let Some(mode) = config.mode {
        return at(mode).map(|attached| (attached, mode, None)).map_err(|error| failed(mode, error));
    }
    let Choice { mode, why } = faster::of(link, queues);
    if mode == Mode::Generic {
        refused.push(Refused { feature: Feature::Native, why: why.clone() });
        return at(mode).map(|attached| (attached, mode, Some(why))).map_err(|error| failed(mode, error));
    }
    match at(Mode::Native) {
        Ok(attached) => Ok((attached, Mode::Native, Some(why))),
        Err(native) => {
            let why = refusal_of_native(link, &native.source);
            refused.push(Refused { feature: Feature::Native, why: why.clone() });
            let attached = at(Mode::Generic).map_err(|error| failed(Mode::Generic, error))?;
            Ok((attached, Mode::Generic, Some(why)))
        }
    }
}

fn no_busy_poll(error: &io::Error) -> String {
    match Errno::from_io_error(error) {
        Some(Errno::OPNOTSUPP) => {
            "the kernel gives a socket in copy mode no NAPI context to poll (SO_INCOMING_NAPI_ID is 0); it takes zero-copy".into()
        }
        _ => format!("the socket's busy-poll options were refused: {error}"),
    }
}

fn refusal_of_native(link: &LinkFacts, source: &io::Error) -> String {
    match (Errno::from_io_error(source), link.kind.as_deref()) {
        (Some(Errno::OPNOTSUPP), _) => format!("the driver of {} has no native XDP (EOPNOTSUPP)", link.name),
        // drivers/net/veth.c, veth_xdp_set().
        (Some(Errno::NOSPC), Some("veth")) => {
            format!(
                "{} has fewer receive queues than its peer has transmit queues (ENOSPC): ip link add … numrxqueues N",
                link.name
            )
        }
        (Some(Errno::RANGE), Some("veth")) => {
            format!("the MTU of the peer of {} is more than native XDP takes (ERANGE): use one of up to 3506 bytes", link.name)
        }
        (Some(Errno::NOTCONN), Some("veth")) => format!("{} has no peer (ENOTCONN)", link.name),
        _ => format!("the driver of {} refused native XDP: {source}", link.name),
    }
}

fn attaching(link: &LinkFacts, mode: Mode, error: BpfError) -> OpenError {
    match mode {
        Mode::Native => OpenError::Config(format!("native XDP was asked for: {}", refusal_of_native(link, &error.source))),
        Mode::Generic => step("attach the XDP program", link.name.clone(), error.source),
    }
}

fn loading(interface: &str, error: BpfError) -> OpenError {
    if is(&error.source, Errno::PERM) {
        return OpenError::Capability {
            what: "AF_XDP's program",
            interface: interface.into(),
            capabilities: "CAP_BPF and CAP_NET_ADMIN",
            remedy: "run as root, or give the program the capabilities (setcap cap_bpf,cap_net_admin,cap_net_raw,cap_ipc_lock+ep); \
                     a user namespace does not do, AF_PACKET works there",
        };
    }
    step("load the XDP program", interface.into(), io::Error::other(error))
}

fn socket_refused(interface: &str, what: &str, source: io::Error) -> OpenError {
    match Errno::from_io_error(&source) {
        Some(Errno::PERM) => OpenError::Capability {
            what: "an AF_XDP socket",
            interface: interface.into(),
            capabilities: "CAP_NET_RAW",
            remedy: "run as root, or give the program the capability (setcap cap_bpf,cap_net_admin,cap_net_raw,cap_ipc_lock+ep)",
        },
        Some(Errno::NOBUFS) => OpenError::Capability {
            what: "locking packet memory",
            interface: interface.into(),
            capabilities: "CAP_IPC_LOCK or a higher limit",
            remedy: "ulimit -l unlimited, or ask for fewer chunks",
        },
        Some(Errno::NODEV) => OpenError::NoInterface(interface.into()),
        Some(Errno::NETDOWN) => OpenError::Down(interface.into()),
        _ => step(what, interface.into(), source),
    }
}

fn taken(error: &XskError) -> bool {
    is(&error.source, Errno::BUSY)
}

fn facts(interface: &str) -> Result<LinkFacts, OpenError> {
    Netlink::open().and_then(|netlink| netlink.link(interface)).map_err(|error| match error {
        NetlinkError::Refused { source, .. } if is(&source, Errno::NODEV) => OpenError::NoInterface(interface.into()),
        other => step("read the interface", interface.into(), io::Error::other(other)),
    })
}

fn is(error: &io::Error, errno: Errno) -> bool {
    Errno::from_io_error(error) == Some(errno)
}

fn step(what: &str, interface: String, source: io::Error) -> OpenError {
    OpenError::Step { what: what.into(), interface, source }
}
