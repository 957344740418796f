//! AF_XDP: an XDP program takes the matching frames of each queue straight to a ring of this process; all others stay
//! with the kernel.
//!
//! ```text
//!                      ┌─ all else ──▶ the kernel's stack
//!   device ─▶ XDP program ─ wanted ─▶ XSKMAP[queue] ─▶ RX ring ─▶ rx_batch ─▶ application
//!     ▲   (native: driver, generic: stack)    fill ring ◀─ free chunks ──┐         │
//!     └───────────────────────────────────────── TX ring ◀─ tx_batch, kick ◀───────┘
//!                                           completion ring ─ sent chunks ─┘
//! ```
//! The program is attached when the device is opened, so that the granted features are known; until
//! [`start`](BackEnd::start) it passes every frame on. It is attached by a link, and is removed with the process,
//! however that ends.

mod attach;
mod carrier;
mod faster;
#[doc(hidden)]
pub mod metadata;
mod program;
mod queue;

use std::io;
use std::iter::successors;
use std::os::fd::OwnedFd;
use std::thread::sleep;
use std::time::Duration;

use hairpin_sys::bpf::XdpLink;
use hairpin_sys::ethtool::{Channels, Ethtool};
use hairpin_sys::netlink::{LinkFacts, XdpMetadata};
use hairpin_sys::packet_socket::promiscuous;
use hairpin_sys::umem::{MAX_CHUNK, MIN_CHUNK, UmemError};
use hairpin_sys::xsk::{BIND_STEP, HEADROOM, LARGEST_CHUNK, LONGEST_IN_ONE, Memory, Options, Socket, XskError};
use hairpin_wire::ethernet;
use rustix::io::Errno;

use crate::device::{BackEnd, Config, Favour, OpenError, facts, is, step};
use crate::filter::Filter;
use crate::granted::{Feature, Granted, Mode, Refused, TimeSource};
use attach::{Attached, Needs, attach, foreign};
use program::Program;
pub use queue::Queue;

/// Bytes of a VLAN tag, which a received frame may have beyond the MTU.
const TAG: usize = 4;

/// Time that the kernel may take to release the queue of a closed socket. It does so in a work queue, and under the lock of all
/// network settings (`xp_release_deferred` of `net/xdp/xsk_buff_pool.c`), so others on a busy host can hold it up for seconds.
/// Only pauses between attempts count: an attempt (bind(2)) waits for the same lock, and may get it before the release does.
const RELEASE: Duration = Duration::from_secs(5);
/// A step that takes some links down.
const ATTACHING: &str = "attaching the XDP program";
/// First pause between two attempts to open a socket on a queue that is being released. Each further one is twice as long …
const FIRST_PAUSE: Duration = Duration::from_millis(5);
/// … up to this: an attempt pins the memory of all frames anew.
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// An interface with Hairpin's XDP program attached: a [`BackEnd`] with one ring for each receive queue. Rings receive as
/// long as it exists.
///
/// It needs CAP_BPF, CAP_NET_ADMIN, CAP_NET_RAW and CAP_IPC_LOCK in the initial user namespace. Frames that match the filter
/// never reach the kernel's own stack. An interface with another XDP program is refused ([`OpenError::ForeignProgram`]). On
/// some drivers attaching and detaching take the link down for seconds: an open waits until it is back, and so does
/// [`close`](BackEnd::close) after the detach. The [crate's first page](crate) has an example.
pub struct AfXdp {
    config: Config,
    link: LinkFacts,
    tx_queues: u32,
    /// The device's own grants, from which those of each ring start.
    own: Granted,
    /// The grants as told: the device's own, and those of the last ring.
    granted: Granted,
    sizes: Sizes,
    offers_zero_copy: Option<bool>,
    /// The kernel's answer on stamps of sent frames, if they were requested: see [`XdpMetadata::tx_time`].
    stamps_sent: Option<Result<Option<bool>, String>>,
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
        let mut sizes = Sizes::of(&link, config);
        let offers_zero_copy = foreign(&link)?.offers_zero_copy();
        let (queues, tx_queues) = queues(&link);
        let told = (config.metadata || config.departures).then(|| XdpMetadata::of(link.index).map_err(|e| e.to_string()));
        let tells =
            told.as_ref().is_some_and(|told| told.as_ref().is_ok_and(|told| told.rx_time || told.rx_hash || told.rx_vlan));
        let needs = Needs { queues, pages: sizes.pages > 1, metadata: config.metadata && tells };
        let Attached { program, link: attached, mode, mode_why, xdp } = attach(&link, config, needs, &mut refused)?;
        carrier::back(&link, ATTACHING)?;
        if sizes.pages > 1 && !xdp.pages {
            sizes = Sizes::in_one(&link, config, &mut refused)?;
        }
        let knows = match &told {
            Some(told) if config.metadata => knows(&link, told, xdp.device.is_some(), &mut refused),
            _ => XdpMetadata::default(),
        };
        let own = Granted {
            back_end: "af_xdp",
            interface: interface.into(),
            queue: 0,
            send_queue: 0,
            queues,
            mode: Some(mode),
            mode_why,
            zero_copy: false,
            need_wakeup: false,
            busy_poll: false,
            multi_buffer: sizes.pages > 1,
            rx_time: knows.rx_time.then_some(TimeSource::Hardware),
            rx_hash: knows.rx_hash,
            rx_vlan: knows.rx_vlan,
            tx_time: None,
            longest_frame: sizes.longest,
            refused,
        };
        let hears_all = (config.promiscuous || config.filter == Filter::All).then(|| promiscuous(link.index)).transpose();
        let _promiscuous = hears_all.map_err(|error| socket_refused(interface, error.step, error.source))?;
        Ok(AfXdp {
            config: config.clone(),
            link,
            tx_queues,
            granted: own.clone(),
            own,
            sizes,
            offers_zero_copy,
            stamps_sent: told.filter(|_| config.departures).map(|told| told.map(|told| told.tx_time)),
            program,
            _attached: attached,
            _promiscuous,
        })
    }

    fn granted(&self) -> &Granted {
        &self.granted
    }

    fn ring(&mut self, queue: u32) -> Result<Queue, OpenError> {
        let name = self.own.interface.clone();
        let interface = || name.clone();
        if queue >= self.own.queues {
            return Err(OpenError::NoQueue { interface: interface(), queue, last: self.own.queues - 1 });
        }
        let last = self.own.queues.max(self.tx_queues) - 1;
        if let Some(queue) = self.config.send_queue.filter(|queue| *queue > last) {
            return Err(OpenError::NoQueue { interface: interface(), queue, last });
        }
        let mut granted = Granted { queue, send_queue: queue, ..self.own.clone() };
        let socket = match self.socket(queue, &mut granted) {
            // Linux 5.18 to 6.5 has programs for several pages, but no sockets for them (XDP_USE_SG).
            Err(OpenError::Step { source, .. }) if self.sizes.pages > 1 && is(&source, Errno::INVAL) => {
                self.goes_on_in_one_page()?;
                granted = Granted { queue, send_queue: queue, ..self.own.clone() };
                self.socket(queue, &mut granted)?
            }
            opened => opened?,
        };
        if let Some(usecs) = self.config.busy_poll_us {
            match socket.busy_poll(usecs) {
                Ok(()) => granted.busy_poll = true,
                Err(error) => granted.refused.push(Refused { feature: Feature::BusyPoll, why: no_busy_poll(&error) }),
            }
        }
        let pause = knows_any(&granted).then(|| self.program.pause()).transpose();
        let pause = pause.map_err(|error| step("find the switch of the metadata", interface(), io::Error::other(error)))?;
        let ring = Queue::new(socket, granted, pause);
        let put = self.program.set_socket(queue, ring.socket());
        put.map_err(|error| step("give the XDP program its socket", interface(), io::Error::other(error)))?;
        carrier::back(&self.link, ATTACHING)?;
        let Granted { queue, send_queue, .. } = self.granted;
        self.granted = Granted { queue, send_queue, ..crate::io::PacketIo::granted(&ring).clone() };
        Ok(ring)
    }

    fn start(&mut self) -> Result<(), OpenError> {
        self.run(true)
    }

    fn stop(&mut self) -> Result<(), OpenError> {
        self.run(false)
    }

    fn astray(&self) -> Option<u32> {
        // An error here is ignored: the answer only adds to the reason of another failure.
        self.program.astray().ok().flatten()
    }

    fn close(self) -> Result<(), OpenError> {
        let AfXdp { link, program, _attached, .. } = self;
        drop((_attached, program));
        carrier::back(&link, "detaching the XDP program")
    }
}

impl AfXdp {
    fn run(&self, running: bool) -> Result<(), OpenError> {
        let done = self.program.run(running);
        done.map_err(|error| step("switch the XDP program", self.granted.interface.clone(), io::Error::other(error)))
    }

    /// Gives up frames of several pages, for all rings.
    fn goes_on_in_one_page(&mut self) -> Result<(), OpenError> {
        let why = "the kernel's AF_XDP sockets take no frames of several pages (EINVAL): Linux 6.6 and later do";
        let mut own = Granted { multi_buffer: false, ..self.own.clone() };
        own.refused.push(Refused { feature: Feature::MultiBuffer, why: why.into() });
        self.sizes = Sizes::in_one(&self.link, &self.config, &mut own.refused)?;
        own.longest_frame = self.sizes.longest;
        self.own = own;
        Ok(())
    }

    /// The source of sent frames' stamps with or without `zero_copy`, or the reason for none; `None` if none were requested.
    fn departures(&self, zero_copy: bool) -> Option<Result<TimeSource, String>> {
        let driver = || format!("the driver of {}", self.link.name);
        let told = self.stamps_sent.as_ref()?;
        Some(match told {
            _ if self.sizes.pages > 1 => {
                Err("a frame of several pages fills them, and the request of a stamp has no place in front of it".into())
            }
            Err(error) => Err(format!("the kernel does not say what {} stamps: {error}", driver())),
            Ok(None) => Err("this kernel's AF_XDP has no metadata of sent frames: Linux 6.8 and later have".into()),
            Ok(Some(true)) if zero_copy => Ok(TimeSource::Hardware),
            Ok(Some(false)) if zero_copy => Err(format!("{} stamps no sent frames for AF_XDP (xsk-features)", driver())),
            Ok(Some(_)) => Ok(TimeSource::Completion),
        })
    }

    /// Notes the source of sent frames' stamps in `granted`, whose `zero_copy` is decided by now.
    fn grant_departures(&self, granted: &mut Granted) {
        let Some(departures) = self.departures(granted.zero_copy) else { return };
        let why = match departures {
            Ok(TimeSource::Hardware) => {
                granted.tx_time = Some(TimeSource::Hardware);
                return;
            }
            Ok(source) => {
                granted.tx_time = Some(source);
                "in copy mode the kernel alone stamps a frame, when it has done with it (CLOCK_TAI), not when it leaves".into()
            }
            Err(why) => why,
        };
        granted.refused.push(Refused { feature: Feature::HardwareDeparture, why });
    }

    /// A socket on `queue`, with zero-copy if requested and supported by the driver.
    fn socket(&self, queue: u32, granted: &mut Granted) -> Result<Socket, OpenError> {
        let interface = || self.granted.interface.clone();
        let entries = self.config.ring_entries.max(self.sizes.pages.next_power_of_two());
        let metadata = if knows_any(granted) { metadata::BYTES } else { 0 };
        let open = |zero_copy, send_on| -> Result<Result<Socket, XskError>, OpenError> {
            let departures = self.departures(zero_copy).is_some_and(|departures| departures.is_ok());
            let mut pauses = pauses();
            loop {
                let memory = self.sizes.memory(self.config.chunks, entries)?;
                let few_chunks = self.config.favour == Favour::Delay;
                let options = Options { entries, zero_copy, few_chunks, send_on, metadata, departures };
                let opened = Socket::open(memory, self.link.index, queue, options);
                let refused = opened.as_ref().err();
                // A socket closed a moment ago releases its queue only now.
                match refused.filter(|error| taken(error)).and_then(|_| pauses.next()) {
                    Some(pause) => sleep(pause),
                    None => return Ok(opened),
                }
            }
        };
        let why = match no_zero_copy(&self.config, granted.mode, self.offers_zero_copy, queue) {
            _ if !self.config.zero_copy => None,
            Some(why) => Some(why.into()),
            None => match open(true, None)? {
                Ok(socket) => {
                    (granted.zero_copy, granted.need_wakeup) = (true, true);
                    self.grant_departures(granted);
                    return Ok(socket);
                }
                Err(error) if taken(&error) => return Err(OpenError::QueueTaken { interface: interface(), queue }),
                Err(error) => Some(refusal_of_zero_copy(&error, self.sizes.pages, self.offers_zero_copy)),
            },
        };
        if let Some(why) = why {
            granted.refused.push(Refused { feature: Feature::ZeroCopy, why });
        }
        let why = "in copy mode the system call itself sends, so there is none to save".into();
        granted.refused.push(Refused { feature: Feature::NeedWakeup, why });
        self.grant_departures(granted);
        // In copy mode a separate send queue keeps the cache lines of sending apart from those of the core
        // that sends to this queue.
        let asked = self.config.send_queue;
        let spare = Some(granted.queues + queue).filter(|spare| *spare < self.tx_queues);
        if let Some(other) = asked.or(spare).filter(|other| *other != queue) {
            match open(false, Some(other))? {
                Ok(socket) => {
                    granted.send_queue = other;
                    return Ok(socket);
                }
                Err(error) if taken(&error) && error.step == BIND_STEP => {
                    return Err(OpenError::QueueTaken { interface: interface(), queue });
                }
                Err(error) if asked.is_some() && taken(&error) => {
                    return Err(OpenError::QueueTaken { interface: interface(), queue: other });
                }
                Err(error) if asked.is_some() => return Err(socket_refused(&interface(), error.step, error.source)),
                // It is in use, or the driver provides none: sending shares the ring's own queue.
                Err(_) => {}
            }
        }
        open(false, None)?.map_err(|error| {
            if taken(&error) {
                OpenError::QueueTaken { interface: interface(), queue }
            } else {
                socket_refused(&interface(), error.step, error.source)
            }
        })
    }
}

/// The pauses between attempts to open a socket on a queue that is taken: [`RELEASE`] in all.
fn pauses() -> impl Iterator<Item = Duration> {
    let longer = successors(Some(FIRST_PAUSE), |pause| Some((2 * *pause).min(LONGEST_PAUSE)));
    longer.scan(RELEASE, |left, pause| {
        let pause = pause.min(*left);
        *left -= pause;
        (!pause.is_zero()).then_some(pause)
    })
}

/// The memory of a frame.
#[derive(Clone, Copy)]
struct Sizes {
    /// Bytes of the longest frame.
    longest: usize,
    /// Bytes of a chunk, which holds a frame.
    chunk: usize,
    /// Entries of a ring that the longest frame takes.
    pages: u32,
}

impl Sizes {
    fn of(link: &LinkFacts, config: &Config) -> Sizes {
        let metadata = if config.metadata { metadata::BYTES } else { 0 };
        let possible = (link.mtu as usize + ethernet::LEN).min(MAX_CHUNK - TAG - metadata);
        let longest = config.longest_frame.unwrap_or(possible).min(possible);
        if longest <= LONGEST_IN_ONE {
            let chunk = (longest + TAG + HEADROOM).next_power_of_two().clamp(MIN_CHUNK, LARGEST_CHUNK);
            return Sizes { longest, chunk, pages: 1 };
        }
        let chunk = (longest + TAG + metadata).next_power_of_two().max(2 * LARGEST_CHUNK);
        Sizes { longest, chunk, pages: (longest + TAG).div_ceil(LONGEST_IN_ONE) as u32 }
    }

    /// Frames of one page each, if several pages are unavailable; `refused` gets the reason.
    fn in_one(link: &LinkFacts, config: &Config, refused: &mut [Refused]) -> Result<Sizes, OpenError> {
        let reason = refused.iter_mut().rfind(|refused| refused.feature == Feature::MultiBuffer);
        if let Some(Refused { why, .. }) = reason {
            why.insert_str(0, &format!("one chunk holds frames of up to {LONGEST_IN_ONE} bytes, and "));
            if let Some(longest) = config.longest_frame {
                let name = &link.name;
                return Err(OpenError::Config(format!("AF_XDP on {name} cannot carry frames of {longest} bytes: {why}")));
            }
        }
        Ok(Sizes { longest: LONGEST_IN_ONE, chunk: LARGEST_CHUNK, pages: 1 })
    }

    fn memory(self, chunks: u32, entries: u32) -> Result<Memory, UmemError> {
        if self.pages == 1 { Memory::new(chunks, self.chunk) } else { Memory::with_pages(chunks, self.chunk, entries) }
    }
}

/// Metadata of received frames that the driver claims to tell, if the XDP program asks for it (`asked`). `refused` gets a reason
/// for each missing kind, unless it has one already.
fn knows(link: &LinkFacts, told: &Result<XdpMetadata, String>, asked: bool, refused: &mut Vec<Refused>) -> XdpMetadata {
    let why = match told {
        Ok(_) => format!("the driver of {} does not tell it (rx-metadata-features)", link.name),
        Err(error) => format!("the kernel does not say what the driver of {} tells: {error}", link.name),
    };
    let knows = told.as_ref().ok().filter(|_| asked).copied().unwrap_or_default();
    for (feature, known) in attach::METADATA.into_iter().zip([knows.rx_time, knows.rx_hash, knows.rx_vlan]) {
        if !known && !refused.iter().any(|refused| refused.feature == feature) {
            refused.push(Refused { feature, why: why.clone() });
        }
    }
    knows
}

/// True if frames come with any metadata.
fn knows_any(granted: &Granted) -> bool {
    granted.rx_time.is_some() || granted.rx_hash || granted.rx_vlan
}

/// Receive queues and send queues in use, not the number that the device could have.
fn queues(link: &LinkFacts) -> (u32, u32) {
    let channels = Ethtool::open().and_then(|ethtool| ethtool.channels(&link.name)).ok().flatten();
    let (rx, tx) = channels.map(both_ways).filter(|(rx, _)| *rx > 0).unwrap_or((link.rx_queues, 0));
    (rx.max(1), tx)
}

/// Receive queues and send queues of these channels, of which combined ones are both (as in `ethtool_set_channels`).
fn both_ways(channels: Channels) -> (u32, u32) {
    (channels.combined + channels.rx, channels.combined + channels.tx)
}

/// The reason not to ask for zero-copy on `queue`; `None` if it is worth asking. `offers` is the driver's claim.
fn no_zero_copy(config: &Config, mode: Option<Mode>, offers: Option<bool>, queue: u32) -> Option<&'static str> {
    match mode {
        Some(Mode::Native) if offers == Some(false) => Some("its driver has none"),
        Some(Mode::Native) if config.send_queue.is_some_and(|asked| asked != queue) => {
            Some("with it a ring sends on the queue that it receives on, and another one was asked for")
        }
        Some(Mode::Native) => None,
        _ => Some("generic XDP works on the kernel's copy of a frame: only native mode has zero-copy"),
    }
}

/// The reason for a refused zero-copy of frames of `pages` pages.
fn refusal_of_zero_copy(error: &XskError, pages: u32, offers: Option<bool>) -> String {
    match (is(&error.source, Errno::OPNOTSUPP), pages, offers) {
        // `xp_assign_dev` of `net/xdp/xsk_buff_pool.c`: XDP_USE_SG, and a driver whose `xdp_zc_max_segs` is 1.
        (true, 2.., Some(true)) => {
            format!("its driver has it for frames of up to {LONGEST_IN_ONE} bytes only (EOPNOTSUPP for those of several pages)")
        }
        (true, ..) => "its driver has none (EOPNOTSUPP)".into(),
        (false, ..) => format!("its driver refused it: {error}"),
    }
}

fn no_busy_poll(error: &io::Error) -> String {
    match Errno::from_io_error(error) {
        Some(Errno::OPNOTSUPP) => {
            "the kernel gave the socket no NAPI context to poll (SO_INCOMING_NAPI_ID is 0); zero-copy always has one, copy mode where both the kernel (7.3, not 6.12) and the driver tell it".into()
        }
        _ => format!("the socket's busy-poll options were refused: {error}"),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_before_a_released_queue_double_and_come_to_the_time_of_its_release() {
        let all: Vec<_> = pauses().collect();
        assert_eq!(all[..6].iter().map(Duration::as_millis).collect::<Vec<_>>(), [5, 10, 20, 40, 80, 100]);
        assert_eq!(all.iter().sum::<Duration>(), RELEASE);
    }

    #[test]
    fn combined_channels_come_on_top_of_those_of_one_way() {
        let of = |combined, rx, tx| both_ways(Channels { rx, tx, combined, max_rx: 16, max_tx: 16, max_combined: 16 });
        assert_eq!([of(4, 4, 0), of(4, 0, 4), of(8, 0, 0), of(0, 1, 2)], [(8, 4), (4, 8), (8, 8), (1, 2)]);
    }

    #[test]
    fn zero_copy_gives_way_to_another_send_queue() {
        let why = |send_queue, mode, offers| {
            no_zero_copy(&Config { send_queue, ..Config::default() }, Some(mode), offers, 1).unwrap_or_default()
        };
        assert_eq!([why(None, Mode::Native, Some(true)), why(Some(1), Mode::Native, None)], ["", ""], "worth asking");
        assert!(why(Some(3), Mode::Native, Some(true)).contains("another one was asked for"));
        assert_eq!(why(Some(3), Mode::Native, Some(false)), "its driver has none");
        assert!(why(None, Mode::Generic, Some(true)).starts_with("generic XDP"));
    }

    #[test]
    fn zero_copy_that_is_refused_for_long_frames_says_which_ones_have_it() {
        let why = |errno: Errno, pages, offers| {
            refusal_of_zero_copy(&XskError { step: BIND_STEP, source: errno.into() }, pages, offers)
        };
        assert!(why(Errno::OPNOTSUPP, 3, Some(true)).contains("frames of up to 3840 bytes only"));
        for (pages, offers) in [(1, Some(true)), (3, None)] {
            assert_eq!(why(Errno::OPNOTSUPP, pages, offers), "its driver has none (EOPNOTSUPP)");
        }
        assert!(why(Errno::NOMEM, 3, Some(true)).starts_with("its driver refused it: cannot bind to the queue: "));
    }
}
