//! Why a handshake ended without a session, as each side reports it.

use std::io;
use std::net::SocketAddr;

use super::{TIME_LIMIT, VERSION};

/// Reason for a failed connection to a server.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The host name cannot be resolved.
    #[error("{host} does not resolve: {source}; check the name, or give an address")]
    Resolve {
        host: String,
        /// The resolver's error.
        source: io::Error,
    },
    /// Nothing listens at this address.
    #[error("{peer} refused the connection; start `hairpin serve` there, {}", to_serve(peer))]
    Refused {
        /// The server, HOST:PORT.
        peer: String,
    },
    /// No connection within [`TIME_LIMIT`].
    #[error("{peer} did not answer within {TIME_LIMIT:?}; check the address, the route and firewalls")]
    Unreachable {
        /// The server, HOST:PORT.
        peer: String,
    },
    /// Connected, but the server sent nothing.
    #[error("{peer} accepted the connection and then said nothing for {TIME_LIMIT:?}; is it `hairpin serve`, and is it alive?")]
    Silent {
        /// The server, HOST:PORT.
        peer: String,
    },
    /// Another protocol listens there.
    #[error("{peer} does not speak Hairpin (got \"{got}\"); give the port that `hairpin serve` printed")]
    NotHairpin {
        /// The server, HOST:PORT.
        peer: String,
        /// The bytes it sent, control characters escaped.
        got: String,
    },
    /// The server speaks another version.
    #[error("{peer} speaks version {theirs} of the session, this is version {VERSION}; install the same hairpin on both hosts")]
    WrongVersion {
        /// The server, HOST:PORT.
        peer: String,
        /// The server's version.
        theirs: u16,
    },
    /// The server needs a key and none was given.
    #[error("{peer} needs a key; copy the key file of `hairpin serve` here and add --key-file FILE")]
    KeyNeeded {
        /// The server, HOST:PORT.
        peer: String,
    },
    /// A key was given to a server that has none.
    #[error("{peer} has no key; leave --key-file out, or start `hairpin serve` with it")]
    NoKeyHere {
        /// The server, HOST:PORT.
        peer: String,
    },
    /// The keys differ.
    #[error("wrong key: the server's --key-file and the client's differ; copy the server's key file here")]
    WrongKey,
    /// Other connections hold all places.
    #[error("{peer} refused: too many connections from your address, try again")]
    Crowded {
        /// The server, HOST:PORT.
        peer: String,
    },
    /// The server closed in the middle of the handshake.
    #[error("{peer} closed the connection before a session began; its log says why")]
    Closed {
        /// The server, HOST:PORT.
        peer: String,
    },
    /// The kernel refused.
    #[error("cannot reach {peer}: {source}; check the address and the route")]
    Io {
        /// The server, HOST:PORT.
        peer: String,
        source: io::Error,
    },
}

/// Why a client was not let in. The server keeps nothing of the connection.
#[derive(Debug, thiserror::Error)]
pub enum AcceptError {
    /// The client speaks another protocol.
    #[error("refused: does not speak Hairpin (got \"{got}\")")]
    NotHairpin {
        /// The bytes it sent, control characters escaped.
        got: String,
    },
    /// The client speaks another version.
    #[error("refused: speaks version {theirs} of the session, this is version {VERSION}")]
    WrongVersion {
        /// The client's version.
        theirs: u16,
    },
    /// The client gave no key.
    #[error("refused: came without a key, and this server needs one")]
    KeyNeeded,
    /// The client has a key, this server has none.
    #[error("refused: came with a key, and this server has none")]
    NoKeyHere,
    /// The keys differ.
    #[error("refused: wrong key: the server's --key-file and the client's differ")]
    WrongKey,
    /// All places were taken, and later clients had precedence.
    #[error("refused: too many connections, and it had not proved itself")]
    Crowded,
    /// The client was silent, or too slow.
    #[error("refused: no whole handshake within {TIME_LIMIT:?}")]
    Timeout,
    /// The client closed in the middle of the handshake.
    #[error("refused: closed before the handshake was done")]
    Closed,
    /// The kernel refused.
    #[error("refused: {0}")]
    Io(io::Error),
}

/// Why a step of the handshake failed, on either side.
#[derive(Debug)]
pub(super) enum Broken {
    Foreign(String),
    Closed,
    Timeout,
    Io(io::Error),
    /// The key does not open the bytes received.
    Key,
    /// The server said that other connections hold all places.
    Crowded,
}

impl From<io::Error> for Broken {
    fn from(e: io::Error) -> Broken {
        match e.kind() {
            io::ErrorKind::TimedOut => Broken::Timeout,
            io::ErrorKind::BrokenPipe => Broken::Closed,
            _ => Broken::Io(e),
        }
    }
}

impl From<Broken> for AcceptError {
    fn from(broken: Broken) -> AcceptError {
        match broken {
            Broken::Foreign(got) => AcceptError::NotHairpin { got },
            Broken::Closed => AcceptError::Closed,
            Broken::Timeout => AcceptError::Timeout,
            Broken::Io(e) => AcceptError::Io(e),
            Broken::Key => AcceptError::WrongKey,
            Broken::Crowded => AcceptError::Crowded,
        }
    }
}

impl Broken {
    pub(super) fn to(self, peer: &str) -> ConnectError {
        let peer = peer.to_owned();
        match self {
            Broken::Foreign(got) => ConnectError::NotHairpin { peer, got },
            Broken::Closed => ConnectError::Closed { peer },
            Broken::Timeout => ConnectError::Silent { peer },
            Broken::Io(source) => ConnectError::Io { peer, source },
            Broken::Key => ConnectError::WrongKey,
            Broken::Crowded => ConnectError::Crowded { peer },
        }
    }
}

/// Hint where no server listens: a loopback address may mean this host with itself.
fn to_serve(peer: &str) -> &'static str {
    let here = peer.strip_prefix("localhost:").is_some() || peer.parse::<SocketAddr>().is_ok_and(|at| at.ip().is_loopback());
    if here { "or measure this host with itself: hairpin ping loopback" } else { "with --listen if the client is another host" }
}
