//! The pairs that the suite runs over. Another back end is another line in [`PAIRS`].

use std::any::Any;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use hairpin_packet::af_packet::AfPacket;
use hairpin_packet::af_xdp::AfXdp;
use hairpin_packet::device::{BackEnd, Config, Favour, OpenError};
use hairpin_packet::fault::{Fault, Faults};
use hairpin_packet::filter::Filter;
use hairpin_packet::granted::Mode;
use hairpin_packet::io::PacketIo;
use hairpin_packet::memory::{MemoryIo, pair};
use hairpin_packet::niq::{self, Delay, Port, Timing};
use hairpin_packet::pcap::{PcapFile, PcapIn, PcapOut};
use hairpin_packet::tracer::Tracer;
use hairpin_sys::clock::{MonotonicRaw, Tsc};
use hairpin_sys::fdpass;
use hairpin_sys::netlink::{Netlink, VethConfig};
use hairpin_sys::netns::{self, Support};
use hairpin_units::Picos;
pub use hairpin_wire::raw::ETHERTYPE;

/// Entries of each ring.
pub const ENTRIES: u32 = 64;
const CHUNKS: u32 = 512;

/// Two ends, and the devices that they live as long as.
pub struct Pair {
    pub one: Box<dyn PacketIo>,
    pub other: Box<dyn PacketIo>,
    pub devices: Vec<Box<dyn Any>>,
}

/// Why there is no pair.
pub enum NoPair {
    /// The host does not allow it.
    NotHere(String),
    /// It should be there.
    Broken(String),
}

pub type Made = Result<Pair, NoPair>;
/// Its name, and how it is made.
pub type Maker = (&'static str, fn() -> Made);

/// Every pair.
pub const PAIRS: &[Maker] = &[
    ("memory", || memory(|io| Box::new(io))),
    ("memory in a box behind a tracer", || memory(|io| Box::new(Tracer::new(Box::new(io), MonotonicRaw, 1024)))),
    ("memory behind pcap out", || memory(|io| Box::new(PcapOut::new(io, std::io::sink()).expect("a sink takes all")))),
    ("memory behind pcap in", || memory(|io| Box::new(PcapIn::new(io, PcapFile::default())))),
    ("memory behind a fault injector without faults", || memory(|io| faults(io, Faults::default()))),
    ("memory behind a fault injector that is often busy", || {
        memory(|io| faults(io, Faults { busy: 0.3, seed: 5, ..Faults::default() }))
    }),
    ("emulated NIC between threads", || emulated(niq_config(), niq::pair)),
    ("emulated NIC, handed over a socket", || emulated(niq_config(), handed_over)),
    ("emulated NIC with a latency", || {
        let clock = Tsc::calibrate().map_err(|error| NoPair::NotHere(error.to_string()))?;
        let (out, rest) = (Picos(836_000), Picos(1_153_000));
        let delay = |len: usize| Delay { out, link: Picos(800 * (len as i64 + 24)), rest };
        let timing = Timing::new(clock, 9_000, delay).map_err(|error| NoPair::Broken(error.to_string()))?;
        emulated(niq::Config { timing: Some(timing), ..niq_config() }, niq::pair)
    }),
    ("emulated NIC behind a fault injector without faults", || {
        let (one, other) = niq::pair(&niq_config()).map_err(|error| NoPair::Broken(error.to_string()))?;
        let round = |io| Box::new(Fault::new(io, MonotonicRaw, Faults::default()).expect("an eventfd"));
        Ok(Pair { one: round(one), other: round(other), devices: Vec::new() })
    }),
    ("AF_XDP native over veth", || veth::<AfXdp>(Config { mode: Some(Mode::Native), ..config() })),
    ("AF_XDP generic over veth", || veth::<AfXdp>(Config { mode: Some(Mode::Generic), ..config() })),
    ("AF_XDP native over veth, frames of several pages", || {
        veth_of::<AfXdp>(Some(9000), Config { mode: Some(Mode::Native), ..config() })
    }),
    ("AF_XDP generic over veth, frames of several pages", || {
        veth_of::<AfXdp>(Some(9000), Config { mode: Some(Mode::Generic), ..config() })
    }),
    ("AF_XDP native over veth, with stamps and metadata", || veth::<AfXdp>(Config { mode: Some(Mode::Native), ..with_stamps() })),
    ("AF_XDP generic over veth, with stamps", || veth::<AfXdp>(Config { mode: Some(Mode::Generic), ..with_stamps() })),
    ("AF_PACKET V2 over veth", || veth::<AfPacket>(config())),
    ("AF_PACKET V2 over veth, with stamps", || veth::<AfPacket>(with_stamps())),
    ("AF_PACKET V3 over veth, with stamps", || veth::<AfPacket>(Config { favour: Favour::Rate, ..with_stamps() })),
    ("AF_PACKET V3 over veth", || veth::<AfPacket>(Config { favour: Favour::Rate, ..config() })),
];

fn config() -> Config {
    Config { filter: Filter::Ethertype(ETHERTYPE), ring_entries: ENTRIES, chunks: CHUNKS, ..Config::default() }
}

fn with_stamps() -> Config {
    Config { metadata: true, departures: true, ..config() }
}

fn memory(round: impl Fn(MemoryIo) -> Box<dyn PacketIo>) -> Made {
    let (one, other) = pair(&config()).map_err(|error| NoPair::Broken(error.to_string()))?;
    Ok(Pair { one: round(one), other: round(other), devices: Vec::new() })
}

fn niq_config() -> niq::Config {
    niq::Config { filter: Filter::Ethertype(ETHERTYPE), ring_entries: ENTRIES, chunks: CHUNKS, ..niq::Config::default() }
}

fn emulated(config: niq::Config, make: fn(&niq::Config) -> Result<(Port, Port), niq::PortError>) -> Made {
    let (one, other) = make(&config).map_err(|error| NoPair::Broken(error.to_string()))?;
    Ok(Pair { one: Box::new(one), other: Box::new(other), devices: Vec::new() })
}

/// As between two processes: over a UNIX socket.
fn handed_over(config: &niq::Config) -> Result<(Port, Port), niq::PortError> {
    let (here, there) = UnixStream::pair().map_err(niq::PortError::Bell)?;
    let (mut ones, descriptors) = Port::create(config)?;
    let borrowed: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
    fdpass::send_fds(&here, &borrowed, 0).map_err(niq::PortError::Bell)?;
    let (_, received) = fdpass::recv_fds(&there, fdpass::MAX_FDS).map_err(niq::PortError::Bell)?;
    let mut others = Port::open(received, config)?;
    Ok((ones.remove(0), others.remove(0)))
}

fn faults(io: MemoryIo, faults: Faults) -> Box<dyn PacketIo> {
    Box::new(Fault::new(io, MonotonicRaw, faults).expect("an eventfd"))
}

/// A ring on each end of a veth pair, both in a new network namespace.
fn veth<B: BackEnd + 'static>(config: Config) -> Made
where
    B::Io: 'static,
{
    veth_of::<B>(None, config)
}

/// The same with that MTU.
fn veth_of<B: BackEnd + 'static>(mtu: Option<u32>, config: Config) -> Made
where
    B::Io: 'static,
{
    const ENDS: [&str; 2] = ["hp-one", "hp-other"];
    let broken = |error: &dyn std::error::Error| NoPair::Broken(error.to_string());
    let user = match netns::can_make() {
        Support::Privileged => false,
        Support::UserNamespace => true,
        Support::No(reason) => return Err(NoPair::NotHere(reason.to_string())),
    };
    netns::enter_new(user).map_err(|e| broken(&e))?;
    // The kernel itself sends nothing there.
    netns::set_sysctl("net.ipv6.conf.default.disable_ipv6", "1").map_err(|e| broken(&e))?;
    let netlink = Netlink::open().map_err(|e| broken(&e))?;
    let [name, peer_name] = ENDS.map(str::to_owned);
    let veth = VethConfig { name, peer_name, mtu, queues: Some(1), tx_queues: None, peer_pid: std::process::id() };
    netlink.create_veth(&veth).map_err(|e| broken(&e))?;
    let mut made = Vec::new();
    for end in ENDS {
        netlink.set_up(end).map_err(|e| broken(&e))?;
    }
    for end in ENDS {
        let opened = (|| {
            let mut device = B::open(end, &config)?;
            let io = device.ring(0)?;
            device.start()?;
            Ok((device, io))
        })();
        match opened {
            Ok(opened) => made.push(opened),
            Err(error @ OpenError::Capability { .. }) => return Err(NoPair::NotHere(error.to_string())),
            Err(error) => return Err(broken(&error)),
        }
    }
    let mut rings: Vec<Box<dyn PacketIo>> = Vec::new();
    let mut devices: Vec<Box<dyn Any>> = Vec::new();
    for (device, io) in made {
        rings.push(Box::new(io));
        devices.push(Box::new(device));
    }
    match (rings.pop(), rings.pop()) {
        (Some(other), Some(one)) => Ok(Pair { one, other, devices }),
        _ => Err(NoPair::Broken("two ends".into())),
    }
}
