//! TLS between the bytes of requests and replies and their stream.
//!
//! ```text
//!   request ──▶ records ──▶ send(2)        recv(2) ──▶ records ──▶ bytes of replies
//! ```
//! rustls allocates for the records of each message, so a loop over TLS is not free of allocations, unlike one over the bare
//! stream.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hairpin_plan::request::Tls;
use hairpin_record::histogram::Times;
use hairpin_record::own_request::OwnRequest;
use hairpin_sys::message::{recv, send};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvFlags, SendFlags};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, Error, HandshakeKind, ProtocolVersion, RootCertStore, SignatureScheme,
};

use crate::error::PathError;

/// Most times that one receive call takes bytes from the socket, so that a server whose records have no bytes of a reply holds
/// nobody past a deadline. The longest record takes a dozen where each segment of an Ethernet comes alone.
const TAKES: u32 = 32;
/// Where distributions keep the certificates that they trust.
const TRUSTED: [&str; 3] = ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

/// Begins sessions with one server, and resumes earlier ones if the server allows it.
pub(crate) struct Connector {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

/// One connection's session.
pub(crate) struct Session {
    connection: ClientConnection,
    /// Bytes of replies that were taken out of records and not read yet.
    left: usize,
}

/// The times of handshakes, and the version and cipher suite agreed in the first one.
#[derive(Default)]
pub(crate) struct Handshakes {
    full: Times,
    resumed: Times,
    agreed: Option<String>,
}

impl Connector {
    pub(crate) fn new(tls: &Tls) -> Result<Connector, PathError> {
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| PathError::Way(format!("TLS: {error}")))?;
        let config = match tls.insecure {
            true => builder.dangerous().with_custom_certificate_verifier(Arc::new(Any(provider))).with_no_client_auth(),
            false => builder.with_root_certificates(trusted(tls.ca.as_deref())?).with_no_client_auth(),
        };
        let name = ServerName::try_from(tls.name.clone()).map_err(|_| {
            PathError::Way(format!("\"{}\" cannot be the name in a certificate: write --tls-name NAME", tls.name))
        })?;
        Ok(Connector { config: Arc::new(config), name })
    }

    /// Shakes hands on a connected socket.
    pub(crate) fn begin(&self, fd: BorrowedFd<'_>, patience: Duration) -> io::Result<Session> {
        use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
        self.shake_hands(fd, patience).map_err(|error| match error.kind() {
            ConnectionReset | BrokenPipe | UnexpectedEof => {
                io::Error::other("the server closed the connection in the handshake of TLS: does it speak that on this port?")
            }
            _ => error,
        })
    }

    fn shake_hands(&self, fd: BorrowedFd<'_>, patience: Duration) -> io::Result<Session> {
        let connection = ClientConnection::new(self.config.clone(), self.name.clone()).map_err(|error| said(&error))?;
        let mut session = Session { connection, left: 0 };
        let until = Instant::now() + patience;
        while session.connection.is_handshaking() || session.connection.wants_write() {
            session.flush(fd, patience)?;
            if session.connection.is_handshaking() && session.take(fd, RecvFlags::DONTWAIT)?.is_none() {
                ready(
                    fd,
                    PollFlags::IN,
                    until.saturating_duration_since(Instant::now()),
                    "the server does not answer in the handshake of TLS",
                )?;
            }
        }
        Ok(session)
    }
}

impl Session {
    /// Sends a message whole; a server that takes nothing for `patience` is an error. True if it had to wait for room.
    #[inline(always)]
    pub(crate) fn send(&mut self, fd: BorrowedFd<'_>, message: &[u8], patience: Duration) -> io::Result<bool> {
        self.connection.writer().write_all(message)?;
        self.flush(fd, patience)
    }

    /// Receives bytes of replies. `None`: none yet; 0: the server ended the session.
    #[inline(always)]
    pub(crate) fn recv(&mut self, fd: BorrowedFd<'_>, room: &mut [u8], flags: RecvFlags) -> io::Result<Option<usize>> {
        let mut taken = 0;
        loop {
            match self.connection.reader().read(room) {
                Ok(len) => {
                    self.left = self.left.saturating_sub(len);
                    return Ok(Some(len));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "without ending the session of TLS")),
            }
            // The rest stays in the socket, where the next wait finds it.
            if taken == TAKES || self.take(fd, flags)?.is_none() {
                return Ok(None);
            }
            taken += 1;
        }
    }

    /// True if bytes of replies are here that were taken from the socket and not read yet.
    #[inline(always)]
    pub(crate) fn holds_more(&self) -> bool {
        self.left > 0
    }

    /// Tells the server that the session ends, as far as the socket takes the message.
    pub(crate) fn end(&mut self, fd: BorrowedFd<'_>) {
        self.connection.send_close_notify();
        let _ = self.connection.write_tls(&mut Wire { fd, flags: RecvFlags::empty() });
    }

    /// Takes records from the socket; `None` if there are none.
    fn take(&mut self, fd: BorrowedFd<'_>, flags: RecvFlags) -> io::Result<Option<()>> {
        let mut wire = Wire { fd, flags };
        match self.connection.read_tls(&mut wire) {
            Ok(0) if self.connection.is_handshaking() => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) => {}
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => return Ok(None),
            Err(error) => return Err(error),
        }
        match self.connection.process_new_packets() {
            Ok(state) => self.left = state.plaintext_bytes_to_read(),
            Err(error) => {
                // The alert that tells the server why.
                let _ = self.connection.write_tls(&mut wire);
                return Err(said(&error));
            }
        }
        Ok(Some(()))
    }

    /// Sends the records that are ready. True if it had to wait for room.
    fn flush(&mut self, fd: BorrowedFd<'_>, patience: Duration) -> io::Result<bool> {
        // Start of the time in which the server has taken nothing; signals do not restart it.
        let (mut since, mut waited) = (None, false);
        while self.connection.wants_write() {
            match self.connection.write_tls(&mut Wire { fd, flags: RecvFlags::empty() }) {
                Ok(_) => since = None,
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                    let left = patience.saturating_sub(since.get_or_insert_with(Instant::now).elapsed());
                    waited = true;
                    ready(fd, PollFlags::OUT, left, "the server takes no more: lower --outstanding, or raise sndbuf")?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(waited)
    }
}

impl Handshakes {
    pub(crate) fn add(&mut self, session: &Session, ns: u64) {
        let connection = &session.connection;
        let times = if connection.handshake_kind() == Some(HandshakeKind::Resumed) { &mut self.resumed } else { &mut self.full };
        times.record(ns);
        if let (None, Some(version), Some(suite)) =
            (&self.agreed, connection.protocol_version(), connection.negotiated_cipher_suite())
        {
            let version = if version == ProtocolVersion::TLSv1_2 { "1.2" } else { "1.3" };
            self.agreed = Some(format!("TLS {version} {:?}", suite.suite()));
        }
    }

    /// Enters the times among the parts, and the agreed version and cipher suite with the replies.
    pub(crate) fn tell(self, parts: &mut BTreeMap<String, Times>, own: Option<&mut OwnRequest>) {
        for (name, times) in [("handshake", self.full), ("resumed handshake", self.resumed)] {
            if times.count() > 0 {
                parts.insert(name.into(), times);
            }
        }
        if let Some(own) = own {
            own.tls = self.agreed;
        }
    }
}

/// A socket as rustls reads and writes it.
struct Wire<'fd> {
    fd: BorrowedFd<'fd>,
    flags: RecvFlags,
}

impl Read for Wire<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(recv(self.fd, buffer, self.flags)?)
    }
}

impl Write for Wire<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(send(self.fd, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Waits for the socket.
fn ready(fd: BorrowedFd<'_>, events: PollFlags, patience: Duration, otherwise: &str) -> io::Result<()> {
    let patience = Timespec { tv_sec: patience.as_secs() as i64, tv_nsec: i64::from(patience.subsec_nanos()) };
    match hairpin_sys::wait::or_nothing(poll(&mut [PollFd::from_borrowed_fd(fd, events)], Some(&patience)))? {
        Some(0) => Err(io::Error::new(io::ErrorKind::TimedOut, otherwise)),
        _ => Ok(()),
    }
}

/// The certificates to trust.
fn trusted(given: Option<&Path>) -> Result<RootCertStore, PathError> {
    let file = given.or_else(|| TRUSTED.iter().map(Path::new).find(|file| file.exists()));
    let file =
        file.ok_or_else(|| PathError::Missing("this system keeps no list of certificates to trust: give --tls-ca FILE".into()))?;
    let wrong = |why: String| PathError::Way(format!("{} has no certificates to trust: {why}", file.display()));
    let found: Result<Vec<_>, _> = CertificateDer::pem_file_iter(file).and_then(Iterator::collect);
    let mut roots = RootCertStore::empty();
    let (taken, _) = roots.add_parsable_certificates(found.map_err(|error| wrong(error.to_string()))?);
    if taken > 0 { Ok(roots) } else { Err(wrong("there is none in PEM in it".into())) }
}

/// The message about the error that ended a session, with advice.
fn said(error: &Error) -> io::Error {
    let text = match error {
        Error::AlertReceived(alert) => format!("the server ended the session of TLS with the alert {alert:?}"),
        Error::InvalidCertificate(why) => format!(
            "the server's certificate does not hold: {why}; --tls-ca FILE has the certificates to trust, --tls-name NAME is the name in it, --tls-insecure takes any"
        ),
        Error::InvalidMessage(_) => {
            "what the server sent is no TLS: leave out --tls, or name the port where it speaks that".into()
        }
        other => format!("TLS: {other}"),
    };
    io::Error::new(io::ErrorKind::InvalidData, text)
}

/// Accepts any certificate, and checks only signatures made with it.
#[derive(Debug)]
struct Any(Arc<CryptoProvider>);

impl ServerCertVerifier for Any {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
