//! Framed messages over a stream socket. Every receive has one deadline in all, and the memory that a peer can make us hold is
//! bounded.
//!
//! ```text
//!   plain     | length u32 | JSON … | length u32 | JSON … |
//!   keyed     | length u16 | sealed bytes ≤ 65,535 | length u16 | …        the plain stream, cut and sealed by Noise
//! ```
//! Lengths are little endian. Memory grows with the bytes received, never with the length that a peer claims.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;
use snow::TransportState;

use crate::printable::printable;
use crate::socket::Socket;

/// The longest body of a frame: several times a server's record with its histogram and series.
pub const MAX_MESSAGE: usize = 4 << 20;

/// A send fails if the peer has not taken the whole message within this time.
pub const SEND_TIMEOUT: Duration = Duration::from_secs(5);

/// Bytes of a frame's length field.
const HEADER: usize = 4;
/// The longest Noise transport message, and the length of its tag (Noise specification, revision 34, sections 3 and 12).
const MAX_SEALED: usize = 65_535;
const TAG: usize = 16;
/// Bytes per read of the socket.
const STEP: usize = 16 << 10;

/// Why a message was not sent. The channel stays usable only after [`SendError::TooLong`] and [`SendError::Encode`].
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// The message is longer than [`MAX_MESSAGE`].
    #[error("a message of {len} bytes is longer than the session's {MAX_MESSAGE}: use fewer --size values or --flows in one run")]
    TooLong {
        /// Bytes of the message.
        len: usize,
    },
    /// The message cannot be written as JSON.
    #[error("a message has no JSON form: {0}; please report this")]
    Encode(serde_json::Error),
    /// The other side has closed.
    #[error("the other side ended the session; its own output or log says why")]
    Closed,
    /// The other side reads nothing.
    #[error("the other side has taken nothing for {SEND_TIMEOUT:?}; is it stopped, or its network down?")]
    Timeout,
    /// The kernel refused.
    #[error("cannot send to the other side: {0}; look at the network and run again")]
    Io(io::Error),
}

/// Why a message was not received. The channel stays usable only after [`RecvError::Timeout`] and [`RecvError::Malformed`].
#[derive(Debug, thiserror::Error)]
pub enum RecvError {
    /// The stream ended between two messages.
    #[error("the other side ended the session; its own output or log says why")]
    Closed,
    /// The stream ended inside a message.
    #[error(
        "the other side ended in the middle of a message; it was killed, or the network broke: look at its log and run again"
    )]
    Truncated,
    /// No whole message came in time.
    #[error("the other side sent no whole message within {0:?}; is it alive, and its network up?")]
    Timeout(Duration),
    /// A frame longer than [`MAX_MESSAGE`] was announced.
    #[error(
        "the other side announced a message of {len} bytes, more than {MAX_MESSAGE}; it does not speak Hairpin's session, or is hostile"
    )]
    Oversized {
        /// The announced length in bytes.
        len: usize,
    },
    /// A frame does not hold the expected message.
    #[error(
        "the other side sent a message that this version cannot read ({reason}); use the same version of hairpin on both sides"
    )]
    Malformed {
        /// The JSON parser's message, control characters escaped.
        reason: String,
    },
    /// The bytes were not sealed with the session's key, or a record is empty.
    #[error("a message was altered on its way or was not made by this session's peer; the session is ended: run again")]
    Forged,
    /// The kernel refused.
    #[error("cannot receive from the other side: {0}; look at the network and run again")]
    Io(io::Error),
}

/// One end of a session, over a UNIX socketpair or a TCP connection.
#[derive(Debug)]
pub struct Channel {
    socket: Socket,
    noise: Option<Box<TransportState>>,
    /// A send that takes longer fails, and may leave a part of its message behind.
    send_within: Duration,
    /// Sealed bytes of an incomplete record.
    sealed: Vec<u8>,
    /// Received bytes of frames that no receive has returned yet.
    plain: Vec<u8>,
    end: Option<ChannelEnd>,
}

/// Why no more bytes will come.
#[derive(Clone, Copy, Debug)]
enum ChannelEnd {
    Closed,
    Forged,
}

impl Channel {
    /// A channel without a key, to a process as trusted as this one (its own worker).
    pub fn plain(stream: impl Into<OwnedFd>) -> Channel {
        Channel::over(Socket::new(stream.into()), None)
    }

    pub(super) fn over(socket: Socket, noise: Option<TransportState>) -> Channel {
        let noise = noise.map(Box::new);
        Channel { socket, noise, send_within: SEND_TIMEOUT, sealed: Vec::new(), plain: Vec::new(), end: None }
    }

    /// A send waits at most for `send_within`.
    pub(super) fn waits(self, send_within: Duration) -> Channel {
        Channel { send_within, ..self }
    }

    /// Sends one message. Waits at most [`SEND_TIMEOUT`] in all; a worker waits longer.
    pub fn send<T: Serialize>(&mut self, message: &T) -> Result<(), SendError> {
        let mut frame = vec![0; HEADER];
        serde_json::to_writer(&mut frame, message).map_err(SendError::Encode)?;
        let len = frame.len() - HEADER;
        if len > MAX_MESSAGE {
            return Err(SendError::TooLong { len });
        }
        frame[..HEADER].copy_from_slice(&(len as u32).to_le_bytes());
        let bytes = match &mut self.noise {
            None => frame,
            Some(noise) => seal(noise, &frame).map_err(SendError::Io)?,
        };
        self.socket.write_all(&bytes, Instant::now() + self.send_within).map_err(|e| match e.kind() {
            io::ErrorKind::BrokenPipe => SendError::Closed,
            io::ErrorKind::TimedOut => SendError::Timeout,
            _ => SendError::Io(e),
        })
    }

    /// Sends one short message if the socket has room for it; true if it was sent. Never waits for the reader.
    pub fn offer<T: Serialize>(&mut self, message: &T) -> Result<bool, SendError> {
        let room = self.socket.has_room();
        if room {
            self.send(message)?;
        }
        Ok(room)
    }

    /// Receives one message. `timeout` bounds the whole message: bytes that trickle in do not extend it.
    pub fn recv<T: DeserializeOwned>(&mut self, timeout: Duration) -> Result<T, RecvError> {
        let deadline = Instant::now() + timeout;
        loop {
            if let Some(frame) = self.take_frame()? {
                return decode(&frame);
            }
            let mut step = [0; STEP];
            match self.socket.read(&mut step, deadline) {
                Ok(read) => self.absorb(&step[..read]),
                Err(e) if e.kind() == io::ErrorKind::TimedOut => return Err(RecvError::Timeout(timeout)),
                Err(e) => return Err(RecvError::Io(e)),
            }
            // A steady stream of bytes must not outlast the deadline either.
            if Instant::now() >= deadline && !self.buffered() {
                return Err(RecvError::Timeout(timeout));
            }
        }
    }

    /// Receives one message if it is complete; keeps the bytes of the next one.
    pub fn try_recv<T: DeserializeOwned>(&mut self) -> Result<Option<T>, RecvError> {
        loop {
            if let Some(frame) = self.take_frame()? {
                return decode(&frame).map(Some);
            }
            let mut step = [0; STEP];
            match self.socket.try_read(&mut step).map_err(RecvError::Io)? {
                Some(read) => self.absorb(&step[..read]),
                None => return Ok(None),
            }
        }
    }

    /// True if the next receive will end without reading the socket, with a message or an error. A poll(2) on the descriptor may
    /// then wait in vain.
    pub fn buffered(&self) -> bool {
        self.end.is_some() || announced(&self.plain).is_some_and(|len| len > MAX_MESSAGE || self.plain.len() >= HEADER + len)
    }

    /// Takes in bytes read from the socket; an empty slice is the end of the stream.
    fn absorb(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            self.end = Some(ChannelEnd::Closed);
            return;
        }
        match &mut self.noise {
            None => self.plain.extend_from_slice(bytes),
            Some(noise) => {
                self.sealed.extend_from_slice(bytes);
                if open(noise, &mut self.sealed, &mut self.plain).is_err() {
                    self.end = Some(ChannelEnd::Forged);
                }
            }
        }
    }

    /// The body of the next frame, if it is complete.
    fn take_frame(&mut self) -> Result<Option<Vec<u8>>, RecvError> {
        match announced(&self.plain) {
            Some(len) if len > MAX_MESSAGE => return Err(RecvError::Oversized { len }),
            Some(len) if self.plain.len() >= HEADER + len => {
                // The buffer goes with the frame, so a long message leaves no memory allocated behind it.
                let rest = self.plain.split_off(HEADER + len);
                let mut frame = std::mem::replace(&mut self.plain, rest);
                frame.drain(..HEADER);
                return Ok(Some(frame));
            }
            _ => {}
        }
        match self.end {
            None => Ok(None),
            Some(ChannelEnd::Forged) => Err(RecvError::Forged),
            Some(ChannelEnd::Closed) if self.plain.is_empty() && self.sealed.is_empty() => Err(RecvError::Closed),
            Some(ChannelEnd::Closed) => Err(RecvError::Truncated),
        }
    }
}

impl AsFd for Channel {
    /// For poll(2); see [`Channel::buffered`] first.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The length of the first frame's body, once its header has arrived.
fn announced(plain: &[u8]) -> Option<usize> {
    plain.first_chunk().map(|header| u32::from_le_bytes(*header) as usize)
}

fn decode<T: DeserializeOwned>(frame: &[u8]) -> Result<T, RecvError> {
    serde_json::from_slice(frame).map_err(|e| RecvError::Malformed { reason: printable(&e.to_string(), 200) })
}

/// Cuts a frame into records and seals each one.
fn seal(noise: &mut TransportState, frame: &[u8]) -> io::Result<Vec<u8>> {
    let mut out = Vec::with_capacity(frame.len() + (frame.len() / (MAX_SEALED - TAG) + 1) * (2 + TAG));
    let mut record = [0; MAX_SEALED];
    for piece in frame.chunks(MAX_SEALED - TAG) {
        let len = noise.write_message(piece, &mut record).map_err(|e| io::Error::other(format!("Noise: {e:?}")))?;
        out.extend_from_slice(&(len as u16).to_le_bytes());
        out.extend_from_slice(&record[..len]);
    }
    Ok(out)
}

/// Opens every complete record of `sealed` into `plain`; the rest stays in `sealed`.
fn open(noise: &mut TransportState, sealed: &mut Vec<u8>, plain: &mut Vec<u8>) -> Result<(), snow::Error> {
    let mut at = 0;
    let mut piece = [0; MAX_SEALED];
    while let Some(header) = sealed[at..].first_chunk() {
        let len = usize::from(u16::from_le_bytes(*header));
        let Some(record) = sealed.get(at + 2..at + 2 + len) else { break };
        let opened = noise.read_message(record, &mut piece)?;
        // No honest side sends an empty record, and a stream of them would keep a receive from returning.
        if opened == 0 {
            return Err(snow::Error::Input);
        }
        plain.extend_from_slice(&piece[..opened]);
        at += 2 + len;
    }
    sealed.drain(..at);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde::Deserialize;
    use std::io::Write;
    use std::os::unix::net::UnixStream;
    use std::thread;

    const SOON: Duration = Duration::from_millis(20);
    const LONG: Duration = Duration::from_secs(5);

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    enum Message {
        Go,
        Text(String),
    }

    fn pair() -> (Channel, Channel) {
        let (a, b) = UnixStream::pair().unwrap();
        (Channel::plain(a), Channel::plain(b))
    }

    /// Two connected channels that share Noise transport keys.
    fn keyed() -> (Channel, Channel) {
        let (a, b) = UnixStream::pair().unwrap();
        let (mut client, mut server) = ([0; 96], [0; 96]);
        let builder = || snow::Builder::new("Noise_NN_25519_ChaChaPoly_BLAKE2s".parse().unwrap());
        let (mut initiator, mut responder) = (builder().build_initiator().unwrap(), builder().build_responder().unwrap());
        let len = initiator.write_message(&[], &mut client).unwrap();
        responder.read_message(&client[..len], &mut server).unwrap();
        let len = responder.write_message(&[], &mut server).unwrap();
        initiator.read_message(&server[..len], &mut client).unwrap();
        let over = |stream: UnixStream, noise| Channel::over(Socket::new(stream.into()), Some(noise));
        (over(a, initiator.into_transport_mode().unwrap()), over(b, responder.into_transport_mode().unwrap()))
    }

    fn frame(body: &[u8]) -> Vec<u8> {
        [&(body.len() as u32).to_le_bytes(), body].concat()
    }

    #[test]
    fn messages_come_in_order_and_are_seen_while_buffered() {
        for (mut a, mut b) in [pair(), keyed()] {
            a.send(&Message::Go).unwrap();
            a.send(&Message::Text("x".into())).unwrap();
            a.send(&Message::Go).unwrap();
            assert!(!b.buffered());
            assert_eq!(b.recv::<Message>(LONG).unwrap(), Message::Go);
            assert!(b.buffered(), "poll(2) would not see the second message");
            assert_eq!(b.try_recv::<Message>().unwrap(), Some(Message::Text("x".into())));
            assert_eq!(b.recv::<Message>(Duration::ZERO).unwrap(), Message::Go);
            assert!(!b.buffered());
            assert_eq!(b.try_recv::<Message>().unwrap(), None);
            drop(a);
            assert!(matches!(b.try_recv::<Message>(), Err(RecvError::Closed)));
            assert!(b.buffered());
            assert!(matches!(b.recv::<Message>(LONG), Err(RecvError::Closed)));
            assert!(matches!(b.send(&Message::Go), Err(SendError::Closed)));
        }
    }

    #[test]
    fn the_longest_message_goes_both_ways_and_leaves_no_memory_behind() {
        for (mut a, mut b) in [pair(), keyed()] {
            let text = "é".repeat((MAX_MESSAGE - 11) / 2);
            let sender = thread::spawn(move || {
                a.send(&Message::Text(text)).unwrap();
                let too_long = Message::Text("x".repeat(MAX_MESSAGE));
                assert!(matches!(a.send(&too_long), Err(SendError::TooLong { .. })));
                a.send(&Message::Go).unwrap();
            });
            let Message::Text(text) = b.recv(LONG).unwrap() else { panic!("not the text") };
            assert_eq!(text.len(), MAX_MESSAGE - 11 - 1);
            assert!(b.plain.capacity() <= 2 * (STEP + MAX_SEALED) && b.sealed.capacity() <= 4 * MAX_SEALED);
            assert_eq!(b.recv::<Message>(LONG).unwrap(), Message::Go);
            sender.join().unwrap();
        }
    }

    #[test]
    fn a_send_waits_as_long_as_it_is_told() {
        let ((hasty, _unread), (patient, mut late)) = (pair(), pair());
        // Longer than a socket holds.
        let text = || Message::Text("x".repeat(MAX_MESSAGE / 2));
        let begun = Instant::now();
        assert!(matches!(hasty.waits(SOON).send(&text()), Err(SendError::Timeout)));
        assert!(begun.elapsed() < SEND_TIMEOUT);
        let mut patient = patient.waits(Duration::from_secs(u32::MAX.into()));
        let sender = thread::spawn(move || patient.send(&text()).is_ok());
        thread::sleep(SOON);
        assert_eq!(late.recv::<Message>(LONG).unwrap(), Message::Text("x".repeat(MAX_MESSAGE / 2)));
        assert!(sender.join().unwrap());
    }

    #[test]
    fn offered_messages_do_not_wait_for_a_reader() {
        for (mut a, mut b) in [pair(), keyed()] {
            let mut sent = 0u32;
            while a.offer(&Message::Text(sent.to_string())).unwrap() {
                sent += 1;
            }
            assert!(sent > 0);
            for number in 0..sent {
                assert_eq!(b.recv::<Message>(LONG).unwrap(), Message::Text(number.to_string()));
            }
            assert!(a.offer(&Message::Go).unwrap());
            assert_eq!(b.recv::<Message>(LONG).unwrap(), Message::Go, "what was not sent has left nothing behind");
        }
    }

    #[test]
    fn a_claim_of_a_long_message_holds_nothing() {
        let (mut raw, b) = UnixStream::pair().unwrap();
        let mut b = Channel::plain(b);
        raw.write_all(&(MAX_MESSAGE as u32).to_le_bytes()).unwrap();
        assert!(matches!(b.recv::<Message>(SOON), Err(RecvError::Timeout(_))));
        assert!(b.plain.capacity() < 64);
        raw.write_all(&[0; 10]).unwrap();
        drop(raw);
        assert!(matches!(b.recv::<Message>(SOON), Err(RecvError::Truncated)));
    }

    #[test]
    fn an_oversized_message_is_refused_at_its_header() {
        let (mut raw, b) = UnixStream::pair().unwrap();
        let mut b = Channel::plain(b);
        raw.write_all(&(MAX_MESSAGE as u32 + 1).to_le_bytes()).unwrap();
        assert!(matches!(b.recv::<Message>(LONG), Err(RecvError::Oversized { len }) if len == MAX_MESSAGE + 1));
        assert!(b.buffered());
    }

    #[test]
    fn a_byte_at_a_time_makes_a_message_but_does_not_extend_the_deadline() {
        let (mut raw, b) = UnixStream::pair().unwrap();
        let mut b = Channel::plain(b);
        let mut got = None;
        for byte in frame(br#"{"Text":"slow"}"#) {
            assert_eq!(got, None);
            raw.write_all(&[byte]).unwrap();
            got = b.try_recv::<Message>().unwrap();
        }
        assert_eq!(got, Some(Message::Text("slow".into())));

        let drip = thread::spawn(move || {
            while raw.write_all(&[1, 0]).is_ok() && raw.flush().is_ok() {
                thread::sleep(Duration::from_millis(2));
            }
        });
        // 0x0001_0001 bytes at one byte per millisecond would take a minute.
        let begun = Instant::now();
        assert!(matches!(b.recv::<Message>(4 * SOON), Err(RecvError::Timeout(_))));
        assert!(begun.elapsed() < LONG);
        drop(b);
        drip.join().unwrap();
    }

    #[test]
    fn invalid_messages_are_named_and_escaped() {
        let (mut raw, b) = UnixStream::pair().unwrap();
        let mut b = Channel::plain(b);
        raw.write_all(&frame(b"\"\\u001b[2J\"")).unwrap();
        raw.write_all(&frame(b"")).unwrap();
        raw.write_all(&frame(&b"[".repeat(100_000))).unwrap();
        raw.write_all(&frame(b"\"Go\"")).unwrap();
        for _ in 0..3 {
            let RecvError::Malformed { reason } = b.recv::<Message>(LONG).unwrap_err() else { panic!("not malformed") };
            assert!(!reason.chars().any(char::is_control), "{reason}");
        }
        assert_eq!(b.recv::<Message>(LONG).unwrap(), Message::Go);
    }

    #[test]
    fn a_forged_record_ends_the_session() {
        let (a, mut b) = keyed();
        a.socket.write_all(&[20, 0], Instant::now() + LONG).unwrap();
        a.socket.write_all(&[7; 20], Instant::now() + LONG).unwrap();
        assert!(matches!(b.recv::<Message>(LONG), Err(RecvError::Forged)));
        assert!(matches!(b.try_recv::<Message>(), Err(RecvError::Forged)));
    }

    #[test]
    fn an_empty_record_ends_the_session() {
        let (mut a, mut b) = keyed();
        let mut record = [0; 2 + TAG];
        let len = a.noise.as_mut().unwrap().write_message(&[], &mut record[2..]).unwrap();
        record[..2].copy_from_slice(&(len as u16).to_le_bytes());
        a.socket.write_all(&record, Instant::now() + LONG).unwrap();
        assert!(matches!(b.try_recv::<Message>(), Err(RecvError::Forged)));
    }

    #[test]
    fn silence_is_a_timeout() {
        let (_a, mut b) = pair();
        let error = b.recv::<Message>(SOON).unwrap_err();
        assert_eq!(error.to_string(), "the other side sent no whole message within 20ms; is it alive, and its network up?");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn any_bytes_end_in_a_message_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200), keys: bool) {
            let (a, mut b) = if keys { keyed() } else { pair() };
            a.socket.write_all(&bytes, Instant::now() + LONG).unwrap();
            drop(a);
            let mut received = 0;
            while !matches!(b.recv::<serde_json::Value>(LONG), Err(RecvError::Closed | RecvError::Truncated | RecvError::Oversized { .. } | RecvError::Forged)) {
                received += 1;
                prop_assert!(received <= bytes.len());
            }
        }
    }
}
