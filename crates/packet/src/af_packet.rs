//! AF_PACKET: packets on any Linux interface with CAP_NET_RAW alone, over a receive ring that is shared with the kernel.
//!
//! ```text
//!   device ──▶ kernel's stack (goes on as ever)
//!      └─copy─▶ ring of slots (delay) or blocks (rate) ──rx_batch: copy──▶ Frame of the pool
//!   device ◀──kick: send(2), sendmmsg(2)───── queue of frames ◀──tx_batch── Frame of the pool
//! ```
//! The frames are copies: the kernel's own stack sees each of them too. A slot is copied out and returned at once, so a
//! frame that the application holds occupies memory of its pool only.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use hairpin_sys::netlink::LinkFacts;
use hairpin_sys::packet_socket::{self, Ask, Fault, Gate, Layout, OPEN_STEP, PacketSocket, PacketSocketError, Step};
use hairpin_sys::umem::{Frame, MAX_CHUNK, MIN_CHUNK, Pool, Umem};
use hairpin_wire::ethernet;
use rustix::io::Errno;

use crate::device::{BackEnd, Config, Favour, OpenError, facts, is, step};
use crate::filter::Filter;
use crate::granted::{Feature, Granted, Refused, TimeSource};
use crate::io::{Arrival, Arrived, Counters, Departure, Kick, Kicked, PacketIo};
use stamps::Departures;

mod checksum;
mod program;
mod stamps;

/// Bytes of a VLAN tag, which is put back into a received frame.
const TAG: usize = 4;

/// An interface that is open for AF_PACKET: a [`BackEnd`] with one packet socket for each of [`Config::rings`].
///
/// It needs CAP_NET_RAW alone, which a user namespace can give (`unshare -Urn`). Received frames are copies, so the kernel's own
/// stack handles each of them too. They have the kernel's timestamp, or with [`Config::metadata`] the device's, if it takes one.
///
/// ```no_run
/// use hairpin_packet::prelude::*;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut device = AfPacket::open("eth0", &Config { filter: "udp:7007".parse()?, ..Config::default() })?;
/// let ring = Ring::new(device.ring(0)?, MonotonicRaw, RingConfig::default());
/// device.start()?;
/// while let Received::Got(frame) = ring.recv(1000)? {   // milliseconds
///     println!("{} bytes, {:?}", frame.len(), frame.time());
/// }
/// # Ok(())
/// # }
/// ```
pub struct AfPacket {
    config: Config,
    link: LinkFacts,
    granted: Granted,
    /// The gates of the rings; `None` if a ring was not taken yet.
    gates: Vec<Option<Gate>>,
    group: Option<u16>,
    started: bool,
}

/// A queue pair of [`AfPacket`]: one packet socket with a receive ring, and a queue of frames that the next kick sends.
pub struct Io {
    socket: PacketSocket,
    pool: Pool,
    umem: Arc<Umem>,
    queue: VecDeque<Frame>,
    /// The stamps of sent frames, if they were asked for.
    departures: Option<Box<Departures>>,
    granted: Granted,
    counters: Counters,
}

impl BackEnd for AfPacket {
    type Io = Io;

    fn open(interface: &str, config: &Config) -> Result<AfPacket, OpenError> {
        let link = facts(interface)?;
        if !link.up {
            return Err(OpenError::Down(interface.into()));
        }
        if config.rings == 0 || config.ring_entries == 0 || config.chunks == 0 {
            return Err(OpenError::Config("rings, ring entries and chunks are at least one each".into()));
        }
        packet_socket::permitted().map_err(|error| refusal(interface.into(), error))?;
        let longest = (link.mtu as usize + ethernet::LEN).min(MAX_CHUNK).min(config.longest_frame.unwrap_or(MAX_CHUNK));
        let mut refused = refused(config);
        let [rx, tx] = stamps::claimed(interface, config, &mut refused);
        let granted = Granted {
            queues: config.rings,
            rx_time: rx,
            tx_time: tx,
            // TPACKET_V2, the layout for delay, has no field for it.
            rx_hash: config.favour == Favour::Rate,
            longest_frame: longest,
            refused,
            ..Granted::nothing("af_packet", interface)
        };
        let gates = vec![None; config.rings as usize];
        Ok(AfPacket { config: config.clone(), link, granted, gates, group: None, started: false })
    }

    fn granted(&self) -> &Granted {
        &self.granted
    }

    fn ring(&mut self, queue: u32) -> Result<Io, OpenError> {
        let interface = || self.granted.interface.clone();
        let last = self.config.rings - 1;
        let gate = self.gates.get(queue as usize).ok_or_else(|| OpenError::NoQueue { interface: interface(), queue, last })?;
        if gate.as_ref().is_some_and(Gate::is_alive) {
            return Err(OpenError::QueueTaken { interface: interface(), queue });
        }
        let chunk = (self.granted.longest_frame + TAG).next_power_of_two().clamp(MIN_CHUNK, MAX_CHUNK);
        let pool = Pool::new(self.config.chunks, chunk)?;
        let ask = Ask {
            interface: self.link.index,
            layout: match self.config.favour {
                Favour::Delay => Layout::Slots,
                Favour::Rate => Layout::Blocks,
            },
            entries: self.config.ring_entries,
            longest: self.granted.longest_frame,
            promiscuous: self.config.promiscuous || self.config.filter == Filter::All,
            device_stamps: self.config.metadata,
        };
        let socket = PacketSocket::open(&ask).map_err(|error| refusal(interface(), error))?;
        if self.config.rings > 1 {
            // A group ends with its last socket, and its number may be another's by then.
            let group = self.group.filter(|_| self.gates.iter().flatten().any(Gate::is_alive));
            let group = socket.join(group, self.config.spread).map_err(|error| refusal(interface(), error))?;
            self.group = Some(group);
        }
        let gate = socket.gate();
        if self.started {
            let opened = gate.open(&program::program(self.config.filter));
            opened.map_err(|source| step("attach the filter", interface(), source))?;
        }
        self.gates[queue as usize] = Some(gate);
        let by_device = self.granted.tx_time == Some(TimeSource::Hardware);
        let departures = self.granted.tx_time.map(|_| Departures::of(&socket, by_device, self.config.ring_entries)).transpose();
        let departures = departures.map_err(|source| step("ask for stamps of sent frames", interface(), source))?;
        Ok(Io {
            departures: departures.map(Box::new),
            socket,
            umem: pool.umem().clone(),
            pool,
            queue: VecDeque::with_capacity(self.config.ring_entries as usize),
            granted: Granted { queue, send_queue: queue, ..self.granted.clone() },
            counters: Counters::default(),
        })
    }

    fn start(&mut self) -> Result<(), OpenError> {
        let program = program::program(self.config.filter);
        self.each_gate("attach the filter", |gate| gate.open(&program))?;
        self.started = true;
        Ok(())
    }

    fn stop(&mut self) -> Result<(), OpenError> {
        self.started = false;
        self.each_gate("close the filter", Gate::close)
    }
}

impl AfPacket {
    fn each_gate(&self, what: &'static str, act: impl Fn(&Gate) -> io::Result<()>) -> Result<(), OpenError> {
        let failed = |source| step(what, self.granted.interface.clone(), source);
        self.gates.iter().flatten().try_for_each(|gate| act(gate).map_err(failed))
    }
}

impl PacketIo for Io {
    fn granted(&self) -> &Granted {
        &self.granted
    }

    fn pool(&mut self) -> &mut Pool {
        &mut self.pool
    }

    fn umem(&self) -> &Arc<Umem> {
        &self.umem
    }

    #[inline(always)]
    fn rx_batch(&mut self, into: &mut Vec<Arrival>, most: usize) -> usize {
        if self.socket.is_empty() {
            // Each look takes the line from the core that writes the frame's header: without a pause the RTT over veth (p50 2.9
            // us) is 0.3 to 1 % longer.
            std::hint::spin_loop();
            return 0;
        }
        self.take(into, most)
    }

    #[inline]
    fn tx_batch(&mut self, frames: &mut Vec<Frame>) -> usize {
        let count = frames.len().min(self.queue.capacity() - self.queue.len());
        if let Some(departures) = &mut self.departures {
            departures.queued(self.counters.tx_frames as u32, count);
        }
        self.counters.tx_frames += count as u64;
        self.counters.tx_bytes += frames[..count].iter().map(|frame| frame.len() as u64).sum::<u64>();
        match (count, frames.len()) {
            (1, 1) => self.queue.extend(frames.pop()),
            _ => self.queue.extend(frames.drain(..count)),
        }
        count
    }

    #[inline]
    fn kick(&mut self, what: Kick) -> io::Result<Kicked> {
        match what {
            Kick::Send => self.send(),
            // The kernel fills the ring without kicks; this only checks that it still does.
            Kick::Receive => {
                // A stamp that nobody has taken wakes every wait.
                if let Some(departures) = &mut self.departures {
                    departures.collect(&self.socket)?;
                }
                self.socket.take_error().map(|()| Kicked::Done)
            }
        }
    }

    fn waitable(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn take_stamps(&mut self, taken: bool) -> io::Result<()> {
        self.departures.as_mut().map_or(Ok(()), |departures| departures.switch(&self.socket, taken))
    }

    fn ask_departures(&mut self, asked: bool) {
        if let Some(departures) = &mut self.departures {
            departures.asks = asked;
        }
    }

    fn departures(&mut self, into: &mut Vec<Departure>) -> io::Result<usize> {
        self.departures.as_mut().map_or(Ok(0), |departures| departures.take(&self.socket, into))
    }

    fn counters(&mut self) -> Counters {
        // Fails on a bad descriptor only, and this one is open.
        self.counters.rx_ring_full += u64::from(self.socket.take_drops().unwrap_or(0));
        self.counters.tx_unstamped = self.departures.as_ref().map_or(0, |departures| departures.lost);
        self.counters
    }
}

impl Io {
    /// Takes the next frames, at most `most`, out of the ring.
    #[inline(never)]
    fn take(&mut self, into: &mut Vec<Arrival>, most: usize) -> usize {
        let before = into.len();
        for _ in 0..most {
            match self.socket.step(&mut self.pool) {
                Step::Frame(mut received) => {
                    self.counters.rx_frames += 1;
                    self.counters.rx_bytes += received.frame.len() as u64;
                    if received.checksum_missing {
                        checksum::finish(self.umem.bytes_mut(&mut received.frame));
                    }
                    let time =
                        received.time_ns.map(|ns| if received.by_device { Arrived::Hardware(ns) } else { Arrived::Software(ns) });
                    into.push(Arrival { frame: received.frame, time, hash: received.hash, vlan: None });
                }
                Step::Fault(Fault::TooLong) => self.counters.rx_too_long += 1,
                Step::Fault(Fault::Invalid) => self.counters.rx_invalid += 1,
                // Without a chunk the frame waits in the ring; the ring counts frames that arrive when it is full.
                Step::Empty | Step::NoChunk => break,
            }
        }
        into.len() - before
    }

    /// Sends the queued frames. A frame leaves the queue once the kernel has copied or refused it.
    #[inline]
    fn send(&mut self) -> io::Result<Kicked> {
        while let Some(first) = self.queue.front() {
            let sent = if let Some(departures) = self.departures.as_mut().filter(|departures| departures.has_asked()) {
                departures.send(&self.socket, self.umem.bytes(first)).map(|()| 1)
            } else if self.queue.len() == 1 {
                self.socket.send(self.umem.bytes(first)).map(|()| 1)
            } else {
                self.socket.send_many(self.queue.iter().map(|frame| self.umem.bytes(frame)))
            };
            let done = match sent {
                Ok(count) => count,
                Err(error) => match error.raw_os_error().map(Errno::from_raw_os_error) {
                    Some(Errno::MSGSIZE | Errno::INVAL) => {
                        self.counters.tx_invalid += 1;
                        1
                    }
                    Some(Errno::AGAIN | Errno::NOBUFS) => {
                        self.counters.tx_busy += 1;
                        return Ok(Kicked::Busy);
                    }
                    _ => return Err(error),
                },
            };
            for frame in self.queue.drain(..done) {
                self.pool.give(frame);
            }
            if let Some(departures) = &mut self.departures {
                departures.left(done);
            }
        }
        Ok(Kicked::Done)
    }
}

fn refusal(interface: String, error: PacketSocketError) -> OpenError {
    if error.step == OPEN_STEP && is(&error.source, Errno::PERM) {
        return OpenError::Capability {
            what: "a packet socket",
            interface,
            capabilities: "CAP_NET_RAW",
            remedy: "run as root, give the program the capability (setcap cap_net_raw+ep), or work in a namespace of your own (unshare -Urn)",
        };
    }
    if is(&error.source, Errno::NODEV) {
        return OpenError::NoInterface(interface);
    }
    if is(&error.source, Errno::PFNOSUPPORT) {
        return OpenError::Config(format!(
            "{interface} carries no Ethernet frames: use an Ethernet interface, or a kernel socket's path"
        ));
    }
    step(error.step, interface, error.source)
}

/// Requested features that AF_PACKET never grants.
fn refused(config: &Config) -> Vec<Refused> {
    let mut refused = Vec::new();
    let mut not = |asked: bool, feature, why: &str| {
        if asked {
            refused.push(Refused { feature, why: why.into() });
        }
    };
    not(config.zero_copy, Feature::ZeroCopy, "AF_PACKET copies every frame from the kernel's memory and back");
    not(config.mode.is_some(), Feature::Native, "AF_PACKET runs no XDP program");
    not(config.busy_poll_us.is_some(), Feature::BusyPoll, "the kernel does not poll devices for packet sockets");
    not(config.metadata, Feature::Vlan, "AF_PACKET puts the tag back into the frame");
    let slots = config.favour == Favour::Delay;
    not(config.metadata && slots, Feature::Hash, "slots (favour delay) have no field for it, blocks (favour rate) have");
    refused
}
