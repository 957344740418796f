//! The step before any message over TCP: both sides state their version and whether they have a key, then prove the key.
//!
//! ```text
//!   client                                                        server
//!     │ "HRPN" | version u16 | mode u8 | kind u8                     │
//!     ├─────────────────────────────────────────────────────────────►│
//!     │                "HRPN" | version u16 | mode or refused | why  │
//!     │◄─────────────────────────────────────────────────────────────┤    plain: done
//!     │ Noise psk, e                                        48 bytes │
//!     ├─────────────────────────────────────────────────────────────►│
//!     │             1 byte: accepted, not, or too many | Noise e, ee
//!     │◄─────────────────────────────────────────────────────────────┤
//!     │ a first, empty record: proves that the client is here now    │
//!     ├─────────────────────────────────────────────────────────────►│    keyed: done
//! ```
//! Both preambles are the prologue of the Noise handshake, so nobody between the two sides can change the version or the mode.
//! The format of a preamble is the same in every version. The last step prevents a replayed recording of a handshake from passing
//! as a client.

mod error;

use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, getpeername, getsockname, sockopt};
use snow::{HandshakeState, TransportState};

use self::error::Broken;
pub use self::error::{AcceptError, ConnectError};
use crate::channel::Channel;
use crate::key::Key;
use crate::printable::printable;
use crate::socket::Socket;

/// The session version of this build; any other version is refused. 2: a flow's proof names its index, and the server's port for
/// it.
pub const VERSION: u16 = 2;

/// Time limit of each side for the whole handshake, and for the TCP connection before it.
pub const TIME_LIMIT: Duration = Duration::from_secs(5);

const MAGIC: [u8; 4] = *b"HRPN";
const PREAMBLE: usize = 8;
/// The mode byte of a refusal; the next byte holds the reason.
const REFUSED: u8 = 0xff;
const NOISE: &str = "Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s";
/// Length of each of the two handshake messages: an ephemeral key of 32 bytes, and the tag of an empty payload.
const NOISE_MESSAGE: usize = 48;
/// Length of a sealed empty record: its length field, and a tag.
const PROOF: usize = 2 + 16;
/// Characters shown of a foreign peer's first line.
const EXCERPT: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Mode {
    Plain = 0,
    Keyed = 1,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Refusal {
    Version = 1,
    KeyNeeded = 2,
    NoKeyHere = 3,
    Crowded = 5,
}

/// The kind of session that a client asks for, in the last byte of its preamble. A server of an earlier version does not look at
/// it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Measures alone.
    Measuring = 0,
    /// Sends few requests, beside others.
    Probe = 1,
}

/// The server's answers to the client's first Noise message.
const WRONG_KEY: u8 = 0;
const ACCEPTED: u8 = 1;
const CROWDED: u8 = 2;

/// A client turned away as one too many retries for this long …
const TRIES_FOR: Duration = Duration::from_secs(3);
/// … at this interval.
const TRIES_EVERY: Duration = Duration::from_millis(50);

/// The rules by which a server lets a client in.
#[derive(Clone, Copy, Debug)]
pub struct Admission<'a> {
    /// The server's key; without one only connections to a loopback address are let in.
    pub key: Option<&'a Key>,
    /// Set when the client has to give way to another one, before its socket is shut down for reading; the client is then told
    /// the reason.
    pub gives_way: Option<&'a AtomicBool>,
}

/// Tells a client that has just connected that its address has too many connections. Never waits.
pub fn turn_away(stream: &TcpStream) {
    use rustix::net::{SendFlags, send};
    // A client that cannot take 8 bytes needs no reason.
    let _ = send(stream, &preamble(REFUSED, Refusal::Crowded as u8), SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
}

/// Connects to `hairpin serve` and shakes hands, for a session that measures alone. Tries every address of `host` in turn, each
/// for
/// [`TIME_LIMIT`], and retries for a while if the server is crowded.
pub fn connect(host: &str, port: u16, key: Option<&Key>) -> Result<Channel, ConnectError> {
    connect_as(Kind::Measuring, host, port, key)
}

/// As [`connect`], for either kind of session.
pub fn connect_as(kind: Kind, host: &str, port: u16, key: Option<&Key>) -> Result<Channel, ConnectError> {
    let begun = Instant::now();
    loop {
        match connect_once(kind, host, port, key, TIME_LIMIT) {
            Err(ConnectError::Crowded { .. }) if begun.elapsed() < TRIES_FOR => std::thread::sleep(TRIES_EVERY),
            other => return other,
        }
    }
}

/// As [`connect`], once, with a time limit for each address and for the handshake, at most [`TIME_LIMIT`].
pub fn connect_within(host: &str, port: u16, key: Option<&Key>, limit: Duration) -> Result<Channel, ConnectError> {
    connect_once(Kind::Measuring, host, port, key, limit)
}

fn connect_once(kind: Kind, host: &str, port: u16, key: Option<&Key>, limit: Duration) -> Result<Channel, ConnectError> {
    let limit = limit.clamp(Duration::from_millis(1), TIME_LIMIT);
    let peer = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
    let resolve = |source| ConnectError::Resolve { host: host.to_owned(), source };
    let mut last = None;
    for address in (host, port).to_socket_addrs().map_err(resolve)? {
        match TcpStream::connect_timeout(&address, limit) {
            Ok(stream) => return greet_as(kind, stream, &peer, key, limit),
            Err(e) => last = Some(e),
        }
    }
    let last = last.unwrap_or_else(|| io::Error::other("it has no address"));
    Err(match last.kind() {
        io::ErrorKind::ConnectionRefused => ConnectError::Refused { peer },
        io::ErrorKind::TimedOut => ConnectError::Unreachable { peer },
        _ => ConnectError::Io { peer, source: last },
    })
}

/// The client's side over an established connection; messages call the server `peer`.
pub fn greet(stream: impl Into<OwnedFd>, peer: &str, key: Option<&Key>) -> Result<Channel, ConnectError> {
    greet_as(Kind::Measuring, stream, peer, key, TIME_LIMIT)
}

fn greet_as(
    kind: Kind,
    stream: impl Into<OwnedFd>,
    peer: &str,
    key: Option<&Key>,
    limit: Duration,
) -> Result<Channel, ConnectError> {
    let deadline = Instant::now() + limit;
    let socket = Socket::new(stream.into());
    let fail = |broken: Broken| broken.to(peer);
    prepare(&socket).map_err(|e| fail(e.into()))?;

    let mode = if key.is_some() { Mode::Keyed } else { Mode::Plain };
    let ours = preamble(mode as u8, kind as u8);
    let asked = socket.write_all(&ours, deadline);
    // A peer that speaks first and closes at once has still shown its protocol, so its words take precedence over our send error.
    let theirs = read_preamble(&socket, deadline).map_err(fail)?;
    asked.map_err(|e| fail(e.into()))?;

    let (version, granted, why) = (u16::from_le_bytes([theirs[4], theirs[5]]), theirs[6], theirs[7]);
    let peer = || peer.to_owned();
    if version != VERSION {
        return Err(ConnectError::WrongVersion { peer: peer(), theirs: version });
    }
    if granted == REFUSED {
        return Err(match why {
            why if why == Refusal::KeyNeeded as u8 => ConnectError::KeyNeeded { peer: peer() },
            why if why == Refusal::NoKeyHere as u8 => ConnectError::NoKeyHere { peer: peer() },
            why if why == Refusal::Crowded as u8 => ConnectError::Crowded { peer: peer() },
            _ => ConnectError::NotHairpin { peer: peer(), got: excerpt(&theirs) },
        });
    }
    if granted != mode as u8 || why != 0 {
        return Err(ConnectError::NotHairpin { peer: peer(), got: excerpt(&theirs) });
    }
    let noise = match key {
        None => None,
        Some(key) => Some(initiate(&socket, key, &[ours, theirs].concat(), deadline).map_err(fail)?),
    };
    Ok(Channel::over(socket, noise))
}

/// The server's side on an accepted connection. Whatever the client does, this ends within [`TIME_LIMIT`] and holds less than 200
/// bytes of the client's data until then.
pub fn accept(stream: impl Into<OwnedFd>, admission: Admission<'_>) -> Result<(Channel, Kind), AcceptError> {
    accept_until(Socket::new(stream.into()), admission, Instant::now() + TIME_LIMIT)
}

fn accept_until(socket: Socket, admission: Admission<'_>, deadline: Instant) -> Result<(Channel, Kind), AcceptError> {
    let broken = |e: io::Error| AcceptError::from(Broken::from(e));
    prepare(&socket).map_err(broken)?;

    let gives_way = || admission.gives_way.is_some_and(|gives_way| gives_way.load(Ordering::Relaxed));
    let theirs = match read_preamble(&socket, deadline) {
        Err(Broken::Closed) if gives_way() => {
            let _ = socket.write_all(&preamble(REFUSED, Refusal::Crowded as u8), deadline);
            return Err(AcceptError::Crowded);
        }
        read => read?,
    };
    let (version, mode) = (u16::from_le_bytes([theirs[4], theirs[5]]), theirs[6]);
    let kind = if theirs[7] == Kind::Probe as u8 { Kind::Probe } else { Kind::Measuring };
    let refuse = |why: Refusal| {
        // The client may have gone already; the reason for refusing it stays the same.
        let _ = socket.write_all(&preamble(REFUSED, why as u8), deadline);
    };
    if version != VERSION {
        refuse(Refusal::Version);
        return Err(AcceptError::WrongVersion { theirs: version });
    }
    let keyed = match mode {
        mode if mode == Mode::Plain as u8 => false,
        mode if mode == Mode::Keyed as u8 => true,
        _ => return Err(AcceptError::NotHairpin { got: excerpt(&theirs) }),
    };
    let noise = match (admission.key, keyed) {
        (Some(_), false) => {
            refuse(Refusal::KeyNeeded);
            return Err(AcceptError::KeyNeeded);
        }
        (None, false) if !is_local(&socket).map_err(broken)? => {
            refuse(Refusal::KeyNeeded);
            return Err(AcceptError::KeyNeeded);
        }
        (None, true) => {
            refuse(Refusal::NoKeyHere);
            return Err(AcceptError::NoKeyHere);
        }
        (None, false) => {
            socket.write_all(&preamble(Mode::Plain as u8, 0), deadline).map_err(broken)?;
            None
        }
        (Some(key), true) => {
            let ours = preamble(Mode::Keyed as u8, 0);
            socket.write_all(&ours, deadline).map_err(broken)?;
            match respond(&socket, key, &[theirs, ours].concat(), deadline) {
                Err(Broken::Closed) if gives_way() => {
                    let _ = socket.write_all(&[CROWDED], deadline);
                    return Err(AcceptError::Crowded);
                }
                answered => match proved(&socket, answered?, deadline) {
                    Err(Broken::Closed) if gives_way() => return Err(AcceptError::Crowded),
                    proved => Some(proved?),
                },
            }
        }
    };
    Ok((Channel::over(socket, noise), kind))
}

fn initiate(socket: &Socket, key: &Key, prologue: &[u8], deadline: Instant) -> Result<TransportState, Broken> {
    let mut noise = noise(key, prologue, true)?;
    let mut message = [0; NOISE_MESSAGE];
    noise.write_message(&[], &mut message).map_err(noise_failed)?;
    socket.write_all(&message, deadline)?;

    let mut accepted = [0];
    read_exact(socket, &mut accepted, deadline)?;
    match accepted {
        [ACCEPTED] => {}
        [CROWDED] => return Err(Broken::Crowded),
        _ => return Err(Broken::Key),
    }
    read_exact(socket, &mut message, deadline)?;
    noise.read_message(&message, &mut []).map_err(|_| Broken::Key)?;

    let mut noise = noise.into_transport_mode().map_err(noise_failed)?;
    let mut proof = [0; PROOF];
    let len = noise.write_message(&[], &mut proof[2..]).map_err(noise_failed)?;
    proof[..2].copy_from_slice(&(len as u16).to_le_bytes());
    socket.write_all(&proof, deadline)?;
    Ok(noise)
}

/// Answers the client's first Noise message.
fn respond(socket: &Socket, key: &Key, prologue: &[u8], deadline: Instant) -> Result<HandshakeState, Broken> {
    let mut noise = noise(key, prologue, false)?;
    let mut message = [0; NOISE_MESSAGE];
    read_exact(socket, &mut message, deadline)?;
    if noise.read_message(&message, &mut []).is_err() {
        socket.write_all(&[WRONG_KEY], deadline)?;
        return Err(Broken::Key);
    }
    noise.write_message(&[], &mut message).map_err(noise_failed)?;
    socket.write_all(&[&[ACCEPTED], &message[..]].concat(), deadline)?;
    Ok(noise)
}

/// Receives the client's last record, which proves that the client is here now.
fn proved(socket: &Socket, noise: HandshakeState, deadline: Instant) -> Result<TransportState, Broken> {
    let mut noise = noise.into_transport_mode().map_err(noise_failed)?;
    let mut proof = [0; PROOF];
    read_exact(socket, &mut proof, deadline)?;
    noise.read_message(&proof[2..], &mut []).map_err(|_| Broken::Key)?;
    Ok(noise)
}

fn noise(key: &Key, prologue: &[u8], initiator: bool) -> Result<HandshakeState, Broken> {
    let build = || {
        let builder = snow::Builder::new(NOISE.parse()?).psk(0, key.bytes())?.prologue(prologue)?;
        if initiator { builder.build_initiator() } else { builder.build_responder() }
    };
    build().map_err(noise_failed)
}

/// A failure of Noise itself, such as missing random bytes, not of the peer.
fn noise_failed(e: snow::Error) -> Broken {
    Broken::Io(io::Error::other(format!("Noise: {e:?}")))
}

fn preamble(mode: u8, why: u8) -> [u8; PREAMBLE] {
    let [m0, m1, m2, m3] = MAGIC;
    let [v0, v1] = VERSION.to_le_bytes();
    [m0, m1, m2, m3, v0, v1, mode, why]
}

/// Reads a preamble; detects another protocol at the first byte that differs.
fn read_preamble(socket: &Socket, deadline: Instant) -> Result<[u8; PREAMBLE], Broken> {
    let mut preamble = [0; PREAMBLE];
    let mut have = 0;
    while have < PREAMBLE {
        let read = socket.read(&mut preamble[have..], deadline)?;
        have += read;
        let known = have.min(MAGIC.len());
        if preamble[..known] != MAGIC[..known] {
            let mut rest = [0; EXCERPT];
            let more = socket.try_read(&mut rest).ok().flatten().unwrap_or(0);
            return Err(Broken::Foreign(excerpt(&[&preamble[..have], &rest[..more]].concat())));
        }
        if read == 0 {
            return Err(Broken::Closed);
        }
    }
    Ok(preamble)
}

fn read_exact(socket: &Socket, buffer: &mut [u8], deadline: Instant) -> Result<(), Broken> {
    let mut have = 0;
    while have < buffer.len() {
        match socket.read(&mut buffer[have..], deadline)? {
            0 => return Err(Broken::Closed),
            read => have += read,
        }
    }
    Ok(())
}

/// The first line of the bytes that a foreign peer sent.
fn excerpt(bytes: &[u8]) -> String {
    let line = bytes.split(|b| matches!(b, b'\r' | b'\n')).next().unwrap_or_default();
    printable(&String::from_utf8_lossy(line), EXCERPT)
}

/// A session whose peer acknowledges nothing for this time has ended (TCP_USER_TIMEOUT, RFC 5482): longer than a link is down
/// while an XDP program comes or goes, in ms.
const GONE_AFTER_MS: u32 = 45_000;

/// Turns Nagle's algorithm off: the session's small messages must not wait for each other's ACKs. Bounds the time that a peer
/// that is gone is waited for.
fn prepare(socket: &Socket) -> io::Result<()> {
    match sockopt::socket_domain(socket.as_fd())? {
        AddressFamily::INET | AddressFamily::INET6 => {
            sockopt::set_tcp_nodelay(socket.as_fd(), true)?;
            // Two sides that stand still have nothing to say but beats: a peer that is gone does not acknowledge them.
            Ok(sockopt::set_tcp_user_timeout(socket.as_fd(), GONE_AFTER_MS)?)
        }
        _ => Ok(()),
    }
}

/// True if the connection cannot have come from another host.
fn is_local(socket: &Socket) -> io::Result<bool> {
    let ends = [Some(getsockname(socket.as_fd())?), getpeername(socket.as_fd())?];
    // A UNIX socket has no internet address.
    Ok(within_this_host(ends.map(|end| SocketAddr::try_from(end?).ok())))
}

/// True if the addresses of both ends are loopback's. With net.ipv4.conf.*.route_localnet=1 (kube-proxy sets it) another host
/// reaches 127.0.0.1 too, from an address of its own.
fn within_this_host(ends: [Option<SocketAddr>; 2]) -> bool {
    ends.into_iter().flatten().all(|end| end.ip().to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::{Read, Write};
    use std::net::{Shutdown, TcpListener};
    use std::os::unix::net::UnixStream;
    use std::thread;

    const OPEN: Admission<'static> = Admission { key: None, gives_way: None };

    /// Runs both sides over loopback TCP.
    fn shake(client: Option<Key>, server: Option<Key>) -> (Result<Channel, ConnectError>, Result<Channel, AcceptError>) {
        let (client, accepted) = shake_as(Kind::Measuring, client, server);
        (client, accepted.map(|(channel, _)| channel))
    }

    type Accepted = Result<(Channel, Kind), AcceptError>;

    fn shake_as(kind: Kind, client: Option<Key>, server: Option<Key>) -> (Result<Channel, ConnectError>, Accepted) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let client = thread::spawn(move || connect_as(kind, "127.0.0.1", port, client.as_ref()));
        let accepted = accept(listener.accept().unwrap().0, Admission { key: server.as_ref(), gives_way: None });
        (client.join().unwrap(), accepted)
    }

    /// The client's result against a server that sends `bytes` and closes.
    fn client_against(bytes: &[u8]) -> Result<Channel, ConnectError> {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        theirs.write_all(bytes).unwrap();
        theirs.shutdown(Shutdown::Write).unwrap();
        greet(ours, "db:22", None)
    }

    /// The server's result against a client that sends `bytes` and closes, and the server's answer.
    fn server_against(bytes: &[u8], admission: Admission<'_>) -> (Result<Channel, AcceptError>, Vec<u8>) {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        theirs.write_all(bytes).unwrap();
        theirs.shutdown(Shutdown::Write).unwrap();
        let accepted = accept(ours, admission).map(|(channel, _)| channel);
        let mut answer = vec![0; 64];
        // A server that closes with bytes unread resets the connection.
        let len = if accepted.is_err() { theirs.read(&mut answer).unwrap_or(0) } else { 0 };
        answer.truncate(len);
        (accepted, answer)
    }

    fn a_key() -> Key {
        Key::generate().unwrap()
    }

    #[test]
    fn the_server_learns_the_kind_of_session() {
        for key in [None, Some(a_key())] {
            for kind in [Kind::Measuring, Kind::Probe] {
                assert_eq!(shake_as(kind, key.clone(), key.clone()).1.unwrap().1, kind);
            }
        }
    }

    #[test]
    fn both_modes_end_in_a_channel() {
        for key in [None, Some(a_key())] {
            let (client, server) = shake(key.clone(), key);
            let (mut client, mut server) = (client.unwrap(), server.unwrap());
            let long = vec![7u8; 200_000];
            let sender = thread::spawn(move || {
                client.send(&long).unwrap();
                client.recv::<String>(TIME_LIMIT).unwrap()
            });
            assert_eq!(server.recv::<Vec<u8>>(TIME_LIMIT).unwrap().len(), 200_000);
            server.send(&"thanks").unwrap();
            assert_eq!(sender.join().unwrap(), "thanks");
        }
    }

    #[test]
    fn both_sides_report_a_wrong_key() {
        let (client, server) = shake(Some(a_key()), Some(a_key()));
        assert!(matches!(server, Err(AcceptError::WrongKey)));
        let text = client.unwrap_err().to_string();
        assert!(text.starts_with("wrong key: the server's --key-file and the client's differ"), "{text}");
    }

    #[test]
    fn a_key_on_one_side_only_is_refused() {
        let (client, server) = shake(None, Some(a_key()));
        assert!(matches!(client, Err(ConnectError::KeyNeeded { .. })), "{client:?}");
        assert!(matches!(server, Err(AcceptError::KeyNeeded)));
        let (client, server) = shake(Some(a_key()), None);
        assert!(matches!(client, Err(ConnectError::NoKeyHere { .. })), "{client:?}");
        assert!(matches!(server, Err(AcceptError::NoKeyHere)));
    }

    #[test]
    fn a_host_that_reaches_loopback_from_elsewhere_is_another_one() {
        let is_local = |ends: [&str; 2]| within_this_host(ends.map(|end| end.parse().ok()));
        assert!(is_local(["127.0.0.1:24444", "127.0.0.1:40000"]) && is_local(["[::1]:24444", "[::1]:40000"]));
        assert!(is_local(["[::ffff:127.0.0.1]:24444", "127.1.2.3:40000"]) && is_local(["", ""]), "mapped; UNIX sockets");
        assert!(!is_local(["127.0.0.1:24444", "198.18.0.2:40000"]), "route_localnet");
        assert!(!is_local(["198.18.0.1:24444", "127.0.0.1:40000"]));
    }

    #[test]
    fn displaced_connection_learns_the_reason_at_every_step() {
        let key = a_key();
        for (key, said, told) in [
            // The client has sent nothing yet …
            (None, vec![], preamble(REFUSED, Refusal::Crowded as u8).to_vec()),
            (Some(&key), vec![], preamble(REFUSED, Refusal::Crowded as u8).to_vec()),
            // … or no proof of the key.
            (Some(&key), preamble(Mode::Keyed as u8, 0).to_vec(), [&preamble(Mode::Keyed as u8, 0)[..], &[CROWDED]].concat()),
        ] {
            let (ours, mut theirs) = UnixStream::pair().unwrap();
            theirs.write_all(&said).unwrap();
            let (end, gives_way) = (ours.try_clone().unwrap(), AtomicBool::new(false));
            let heard = thread::scope(|scope| {
                let server = scope.spawn(|| accept(ours, Admission { key, gives_way: Some(&gives_way) }));
                let mut heard = vec![0; told.len()];
                let early = if said.is_empty() { 0 } else { PREAMBLE };
                theirs.read_exact(&mut heard[..early]).unwrap();
                gives_way.store(true, Ordering::Relaxed);
                end.shutdown(Shutdown::Read).unwrap();
                theirs.read_exact(&mut heard[early..]).unwrap();
                assert!(matches!(server.join().unwrap(), Err(AcceptError::Crowded)));
                heard
            });
            assert_eq!(heard, told);
            // A client that gets this refusal reports it.
            let (ours, mut theirs) = UnixStream::pair().unwrap();
            theirs.write_all(&told).unwrap();
            let client = greet(ours, "db:22", key).unwrap_err();
            assert_eq!(client.to_string(), "db:22 refused: too many connections from your address, try again");
        }
    }

    #[test]
    fn refused_connection_learns_the_reason() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        turn_away(&listener.accept().unwrap().0);
        assert!(matches!(greet(client, "db:22", None), Err(ConnectError::Crowded { .. })));
    }

    #[test]
    fn another_version_is_refused_and_told_ours() {
        let mut other = preamble(0, 0);
        other[4] = 9;
        let (accepted, answer) = server_against(&other, OPEN);
        assert!(matches!(accepted, Err(AcceptError::WrongVersion { theirs: 9 })));
        assert_eq!(answer, preamble(REFUSED, Refusal::Version as u8));
        assert!(matches!(client_against(&other), Err(ConnectError::WrongVersion { theirs: 9, .. })));
    }

    #[test]
    fn names_the_other_protocol() {
        let text = client_against(b"SSH-2.0-OpenSSH_9.2p1 Debian\r\n").unwrap_err().to_string();
        assert!(text.starts_with("db:22 does not speak Hairpin (got \"SSH-2.0-OpenSSH_9.2p1 Debian\")"), "{text}");
        assert!(matches!(client_against(b"HTTP/1.1 400 Bad Request\r\n"), Err(ConnectError::NotHairpin { .. })));
        assert!(matches!(client_against(b""), Err(ConnectError::Closed { .. })));
        let (accepted, answer) = server_against(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", OPEN);
        assert!(matches!(accepted, Err(AcceptError::NotHairpin { got }) if got == "GET / HTTP/1.1"));
        assert!(answer.is_empty());
    }

    #[test]
    fn a_recorded_handshake_played_again_is_not_a_client() {
        let key = a_key();
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut record = theirs.try_clone().unwrap();
        let initiator = key.clone();
        let client = thread::spawn(move || greet(ours, "server", Some(&initiator)).map(drop));
        // The first 56 bytes do not depend on the server's random bytes.
        let mut first = [0; PREAMBLE + NOISE_MESSAGE];
        record.read_exact(&mut first[..PREAMBLE]).unwrap();
        record.write_all(&preamble(Mode::Keyed as u8, 0)).unwrap();
        record.read_exact(&mut first[PREAMBLE..]).unwrap();
        drop((record, theirs));
        assert!(matches!(client.join().unwrap(), Err(ConnectError::Closed { .. })));

        let replay = [&first[..], &[16, 0], &[0; 16]].concat();
        let (accepted, _) = server_against(&replay, Admission { key: Some(&key), gives_way: None });
        assert!(matches!(accepted, Err(AcceptError::WrongKey)), "{accepted:?}");
    }

    #[test]
    fn silence_and_trickling_end_within_the_limit() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let drip = thread::spawn(move || {
            for byte in b"HRPN\x02\x00\x00" {
                theirs.write_all(&[*byte]).unwrap();
                thread::sleep(Duration::from_millis(5));
            }
            theirs
        });
        let (begun, limit) = (Instant::now(), Duration::from_millis(80));
        assert!(matches!(accept_until(Socket::new(ours.into()), OPEN, begun + limit), Err(AcceptError::Timeout)));
        assert!((limit..TIME_LIMIT).contains(&begun.elapsed()));
        drop(drip.join().unwrap());
    }

    #[test]
    fn a_closed_port_and_an_unknown_host_are_told() {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let text = connect("127.0.0.1", port, None).unwrap_err().to_string();
        assert!(text.contains("refused the connection; start `hairpin serve` there"), "{text}");
        assert!(text.contains("this host with itself: hairpin ping loopback"), "{text}");
        let there = ConnectError::Refused { peer: "192.0.2.1:7".into() }.to_string();
        assert!(there.contains("with --listen"), "{there}");
        assert!(matches!(connect("no such host", 1, None), Err(ConnectError::Resolve { .. })));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn any_bytes_end_in_an_answer(bytes in prop::collection::vec(any::<u8>(), 0..100), headed: bool, mode: u8, keys: bool) {
            let bytes = if headed { [&preamble(mode % 3, 0)[..], &bytes].concat() } else { bytes };
            let key = a_key();
            let (accepted, _) = server_against(&bytes, Admission { key: keys.then_some(&key), gives_way: None });
            prop_assert_eq!(accepted.is_ok(), headed && mode % 3 == 0 && !keys);
            let plain = bytes.starts_with(&preamble(Mode::Plain as u8, 0));
            prop_assert_eq!(client_against(&bytes).is_ok(), plain);
        }
    }
}
