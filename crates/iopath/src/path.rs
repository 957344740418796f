//! The list of paths, and what every path can say and do.

use std::fmt;
use std::io;

use hairpin_packet::device::OpenError;
use hairpin_packet::granted::NotGranted;
use hairpin_sys::wait::Policy;

use crate::measure::{ClientRun, ServerRun};
use crate::option::{OptionDef, Options};
use crate::paths;

/// Every path. An item is its file in `paths/`, its line here, and its page in docs/paths/.
pub const IO_PATHS: &[&dyn IoPath] = &[
    &paths::tcp::Tcp,
    &paths::tcp_crr::TcpCrr,
    &paths::udp::Udp,
    &paths::packet::Packet,
    &paths::xdp::Xdp,
    &paths::unix::Unix,
    &paths::unix_dgram::UnixDgram,
    &paths::pipe::Pipe,
    &paths::eventfd::Eventfd,
    &paths::memory::Memory,
    &paths::niq::Niq,
];

/// One way to do a round trip.
pub trait IoPath: Sync {
    /// The word in a path spec.
    fn name(&self) -> &'static str;
    /// One line for `hairpin paths`.
    fn summary(&self) -> &'static str;
    /// What goes over it with these options; two sides mix only if they speak the same.
    fn speaks(&self, options: &Options) -> Speaks;
    /// The wait policies it takes; the first is its default.
    fn policies(&self) -> &'static [Policy];
    /// The options it takes.
    fn options(&self) -> &'static [&'static OptionDef];
    /// The largest payload in bytes.
    fn payload_limit(&self, ipv6: bool) -> u32;
    /// Bytes of headers that share a link's MTU with the payload, where a message must fit into one packet.
    fn headers_in_mtu(&self, _options: &Options, _ipv6: bool) -> Option<u32> {
        None
    }
    /// The one payload in bytes that it carries, if there is no choice.
    fn fixed_payload(&self) -> Option<u32> {
        None
    }
    /// True if each request may have a size of its own, as in a recording.
    fn takes_any_size(&self) -> bool {
        false
    }
    /// True if a request occupies the thread until it is answered, so that no schedule can go on meanwhile.
    fn is_busy_with_one(&self) -> bool {
        false
    }
    /// The most requests in flight on one flow.
    fn max_outstanding(&self) -> u32 {
        u32::MAX
    }
    /// The most flows of a run.
    fn max_flows(&self) -> u32 {
        u32::MAX
    }
    /// The most measuring threads of a side.
    fn max_threads(&self) -> u32 {
        u32::MAX
    }
    /// True if all flows of a thread arrive at one place, so that every policy can wait on any number of them.
    fn waits_on_all(&self) -> bool {
        false
    }
    /// What this process may not do that the path needs over such a link, and what to do about it; found by reading only.
    fn lacks(&self, _link: LinkKind) -> Option<&'static str> {
        None
    }
    /// Whether it works over such a link, found by reading only.
    fn probe(&self, link: LinkKind) -> Support;
    /// The client's side: opens the flows, says that it is ready, measures, and leaves what it found in `run`.
    fn ping(&self, run: &mut ClientRun<'_>) -> Result<(), PathError>;
    /// The server's side: listens, announces where, takes the flows, and answers until told to stop.
    fn echo(&self, run: &mut ServerRun<'_>) -> Result<(), PathError>;
}

impl fmt::Debug for dyn IoPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The path of that name.
pub fn by_name(name: &str) -> Option<&'static dyn IoPath> {
    IO_PATHS.iter().copied().find(|path| path.name() == name)
}

/// What goes over a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speaks {
    /// A TCP stream, one connection per flow.
    Tcp,
    /// A TCP stream, one connection per transaction.
    TcpPerTransaction,
    /// UDP datagrams.
    Udp,
    /// Ethernet frames of Hairpin's own framing.
    Raw,
    /// Something that only processes of one host share; the name of the path, since no two of them mix.
    Local(&'static str),
}

impl fmt::Display for Speaks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Speaks::Tcp | Speaks::TcpPerTransaction => "tcp",
            Speaks::Udp => "udp",
            Speaks::Raw => "raw",
            Speaks::Local(_) => "local",
        })
    }
}

/// What lies between the two sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkKind {
    /// Another host.
    Host,
    /// The loopback device.
    Loopback,
    /// Two network namespaces.
    Veth,
    /// A plain echo service.
    Echo,
    /// Whatever returns Ethernet frames.
    Reflector,
}

/// Whether a path works here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Support {
    /// As it should.
    Yes,
    /// With less than it could have, and why.
    Degraded(String),
    /// Not at all, and why.
    No(String),
}

/// Probes a path that needs nothing but processes that share a namespace.
pub(crate) fn probe_local(link: LinkKind) -> Support {
    match link {
        LinkKind::Loopback => Support::Yes,
        _ => Support::No("both ends must be on one host: use --link loopback".into()),
    }
}

/// Why a path's side ended without a result.
#[derive(Debug, thiserror::Error)]
pub enum PathError {
    /// A step failed.
    #[error("{what}: {source}")]
    Step {
        /// What was tried, on what.
        what: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// A device cannot be opened, or not as required.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// What was asked for by name is not there.
    #[error(transparent)]
    NotGranted(#[from] NotGranted),
    /// What the kernel knows of the way could not be read.
    #[error(transparent)]
    Netlink(#[from] hairpin_sys::netlink::NetlinkError),
    /// A size, or a way, that the path cannot take; found out at open.
    #[error("{0}")]
    Way(String),
    /// The policy cannot wait on these flows.
    #[error(transparent)]
    Wait(#[from] hairpin_sys::wait::WaitError),
    /// The other side did not come in time, or came wrongly.
    #[error("{0}")]
    Peer(String),
    /// A measuring thread could not be set up as asked.
    #[error("{0}")]
    Thread(String),
    /// The run was stopped before it began.
    #[error("stopped before measuring began")]
    Stopped,
}

impl PathError {
    /// True if a capability or a device is missing, so that nothing but another host or user helps.
    pub fn is_missing(&self) -> bool {
        match self {
            PathError::Open(OpenError::Capability { .. }) | PathError::NotGranted(_) => true,
            PathError::Step { source, .. } => {
                matches!(source.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::Unsupported)
            }
            _ => false,
        }
    }

    /// For `map_err`: names the step that failed.
    pub(crate) fn at<E: Into<io::Error>>(what: impl Into<String>) -> impl FnOnce(E) -> PathError {
        move |source| PathError::Step { what: what.into(), source: source.into() }
    }
}

/// The socket address of a server, for paths that need one.
pub(crate) fn needs_inet(address: &crate::job::Address) -> Result<std::net::SocketAddr, PathError> {
    match address {
        crate::job::Address::Inet(address) => Ok(*address),
        other => Err(PathError::Peer(format!("the server announced {other}, not an address"))),
    }
}
