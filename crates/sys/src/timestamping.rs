//! Timestamps that the kernel and the NIC take of a socket's packets (`SO_TIMESTAMPING`); no privilege needed.
//!
//! ```text
//!   sending     queue: handed to the device's queue ─ driver: handed to the driver ─ NIC      from the error queue, later, each with its message's key
//!   receiving   NIC ─ the receiver's stack has it                                             with the message
//! ```
//! Queue, driver and stack stamp in software, by CLOCK_REALTIME. The NIC stamps in hardware, by its own clock (PHC), and only if
//! stamping is switched on for the device, which is a setting of the host. Sources: the kernel's
//! `Documentation/networking/timestamping.rst`, `include/uapi/linux/{net_tstamp,errqueue}.h`.

mod control;

use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd};

use libc::{c_int, c_uint};
use rustix::io::Errno;
use rustix::net::SendFlags;

pub use self::control::{Control, parse};
use crate::socket::{self, IntOption};

/// Room for the control data of one message from the error queue: timestamps, the error with an address, and some spare.
const CONTROL: usize = 256;
/// A message's stamps where it leaves: driver and NIC.
const LEAVING: c_uint = libc::SOF_TIMESTAMPING_TX_SOFTWARE | libc::SOF_TIMESTAMPING_TX_HARDWARE;

/// Place at which a packet that leaves is stamped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// It enters the device's queue.
    Queue,
    /// It reaches the driver (software), or leaves the NIC (hardware).
    Driver,
}

/// The stamps to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Of every message sent; otherwise of those sent with [`send`].
    pub each: bool,
    /// At the device's queue too.
    pub queue: bool,
    /// Those of the NIC too.
    pub hardware: bool,
    /// The socket is a TCP connection.
    pub stream: bool,
}

impl Ask {
    fn flags(self) -> c_uint {
        use libc::{
            SOF_TIMESTAMPING_OPT_ID, SOF_TIMESTAMPING_OPT_ID_TCP, SOF_TIMESTAMPING_OPT_TSONLY, SOF_TIMESTAMPING_OPT_TX_SWHW,
            SOF_TIMESTAMPING_RAW_HARDWARE, SOF_TIMESTAMPING_RX_HARDWARE, SOF_TIMESTAMPING_RX_SOFTWARE, SOF_TIMESTAMPING_SOFTWARE,
            SOF_TIMESTAMPING_TX_HARDWARE, SOF_TIMESTAMPING_TX_SCHED, SOF_TIMESTAMPING_TX_SOFTWARE,
        };
        // Without the last flag a NIC's stamp takes the place of the driver's, even where nobody reads the NIC's.
        let mut flags = SOF_TIMESTAMPING_RX_SOFTWARE
            | SOF_TIMESTAMPING_SOFTWARE
            | SOF_TIMESTAMPING_OPT_TSONLY
            | SOF_TIMESTAMPING_OPT_ID
            | SOF_TIMESTAMPING_OPT_TX_SWHW;
        let mut add = |wanted: bool, more: c_uint| flags |= if wanted { more } else { 0 };
        add(self.hardware, SOF_TIMESTAMPING_RX_HARDWARE | SOF_TIMESTAMPING_RAW_HARDWARE);
        add(self.each, SOF_TIMESTAMPING_TX_SOFTWARE);
        add(self.each && self.hardware, SOF_TIMESTAMPING_TX_HARDWARE);
        add(self.each && self.queue, SOF_TIMESTAMPING_TX_SCHED);
        add(self.stream, SOF_TIMESTAMPING_OPT_ID_TCP);
        flags
    }
}

/// Switches stamps of this socket's packets on, and restarts the keys. The key of a datagram is the number of datagrams stamped
/// before it; that of a message of a stream is the number of bytes before its last one. Returns the base of the next message's
/// keys: 0, except for a stream on kernels before 6.2, which count from the oldest byte that is not acknowledged.
///
/// # Errors
/// The errors of setsockopt(2).
pub fn on(socket: impl AsFd, ask: Ask) -> io::Result<u32> {
    // The kernel restarts the keys only when they are switched on.
    off(&socket)?;
    let outstanding = if ask.stream { unacknowledged(&socket)? } else { 0 };
    match set(&socket, ask.flags()) {
        Err(error) if ask.stream && error.raw_os_error() == Some(libc::EINVAL) => {
            set(&socket, Ask { stream: false, ..ask }.flags())?;
            Ok(outstanding)
        }
        outcome => outcome.map(|()| 0),
    }
}

/// Switches the stamps off. From now on stamps that were taken but not read yet come without their time.
///
/// # Errors
/// The errors of setsockopt(2).
pub fn off(socket: impl AsFd) -> io::Result<()> {
    set(&socket, 0)
}

fn set(socket: &impl AsFd, value: c_uint) -> io::Result<()> {
    socket::set(socket, IntOption::new(libc::SOL_SOCKET, libc::SO_TIMESTAMPING), value.cast_signed())
}

/// Bytes sent and not acknowledged (`SIOCOUTQ`, tcp(7)).
fn unacknowledged(socket: &impl AsFd) -> io::Result<u32> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the kernel writes one int, which lives through the call.
    let done = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    if done == 0 { Ok(bytes.max(0) as u32) } else { Err(io::Error::last_os_error()) }
}

/// Receives a message, with the stamps of its last packet.
///
/// # Errors
/// The errors of recvmsg(2).
pub fn recv(socket: impl AsFd, buffer: &mut [u8]) -> Result<(usize, Control), Errno> {
    receive(socket, buffer, 0)
}

/// The next stamp of a message that was sent, in the order in which they were taken. `None`: none is queued.
///
/// # Errors
/// The errors of recvmsg(2).
pub fn sent(socket: impl AsFd) -> Result<Option<Sent>, Errno> {
    loop {
        let found = match receive(&socket, &mut [], libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT) {
            Ok((_, found)) => found,
            Err(Errno::AGAIN) => return Ok(None),
            Err(error) => return Err(error),
        };
        // The queue also holds errors of the network, if the socket asked for them.
        if let Some((place, key)) = found.sent {
            return Ok(Some(Sent { place, key, software: found.software, hardware: found.hardware }));
        }
    }
}

/// A stamp of a message that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    pub place: Place,
    /// The message's key; see [`on`].
    pub key: u32,
    /// CLOCK_REALTIME in ns.
    pub software: Option<u64>,
    /// The NIC's clock in ns; only at [`Place::Driver`].
    pub hardware: Option<u64>,
}

/// Sends a message and asks for stamps of it where it leaves, whether or not each message is stamped.
///
/// # Errors
/// The errors of sendmsg(2).
pub fn send(socket: impl AsFd, message: &[u8], flags: SendFlags) -> Result<usize, Errno> {
    let mut part = libc::iovec { iov_base: message.as_ptr().cast_mut().cast(), iov_len: message.len() };
    let mut control = Asking {
        // The length without the bytes that align the next message.
        length: std::mem::offset_of!(Asking, flags) + size_of::<c_uint>(),
        level: libc::SOL_SOCKET,
        kind: libc::SO_TIMESTAMPING,
        flags: LEAVING,
        pad: 0,
    };
    // SAFETY: a header of zeroes is one that says nothing.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = &raw mut part;
    header.msg_iovlen = 1;
    header.msg_control = (&raw mut control).cast();
    header.msg_controllen = size_of::<Asking>() as _;
    // SAFETY: the header points to a part over `message`, which sendmsg only reads, and to `control`, with their sizes; both live
    // through the call.
    let sent = unsafe { libc::sendmsg(socket.as_fd().as_raw_fd(), &raw const header, flags.bits() as c_int) };
    if sent < 0 { Err(last_errno()) } else { Ok(sent as usize) }
}

/// A control message with flags of `SO_TIMESTAMPING` for one message (`struct cmsghdr` of `linux/socket.h` and its data).
#[repr(C)]
struct Asking {
    length: usize,
    level: i32,
    kind: i32,
    flags: c_uint,
    pad: u32,
}

fn last_errno() -> Errno {
    Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)
}

/// Aligned as required for `struct cmsghdr`.
#[repr(C, align(8))]
struct Buffer([u8; CONTROL]);

fn receive(socket: impl AsFd, buffer: &mut [u8], flags: i32) -> Result<(usize, Control), Errno> {
    let mut control = Buffer([0; CONTROL]);
    let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: a header of zeroes is one that says nothing.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = &raw mut part;
    header.msg_iovlen = 1;
    header.msg_control = control.0.as_mut_ptr().cast();
    header.msg_controllen = CONTROL as _;
    // SAFETY: the header points to a part over `buffer` and to `control`, with their sizes, which live through the call and are
    // borrowed for it alone.
    let len = unsafe { libc::recvmsg(socket.as_fd().as_raw_fd(), &raw mut header, flags) };
    if len < 0 {
        return Err(last_errno());
    }
    let told = (header.msg_controllen as usize).min(CONTROL);
    Ok((len as usize, parse(&control.0[..told])))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
    use std::thread::sleep;
    use std::time::Duration;

    use super::*;

    const EACH: Ask = Ask { each: true, queue: false, hardware: true, stream: false };

    fn udp() -> (UdpSocket, UdpSocket) {
        let socket = || UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let (from, to) = (socket(), socket());
        from.connect(to.local_addr().unwrap()).unwrap();
        (from, to)
    }

    fn tcp() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let from = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        from.set_nodelay(true).unwrap();
        (from, listener.accept().unwrap().0)
    }

    /// The stamps of all sent messages so far. On loopback they are queued when the send call returns.
    fn all(socket: &impl AsFd) -> Vec<(Place, u32)> {
        std::iter::from_fn(|| sent(socket).unwrap())
            .inspect(|sent| assert!(sent.software.is_some() && sent.hardware.is_none(), "{sent:?}"))
            .map(|sent| (sent.place, sent.key))
            .collect()
    }

    #[test]
    fn a_datagram_over_loopback_is_stamped_on_its_way() {
        let (from, to) = udp();
        let mut bytes = [0; 8];
        from.send(b"plain").unwrap();
        assert_eq!(recv(&to, &mut bytes).unwrap(), (5, Control::default()));
        assert_eq!(sent(&from).unwrap(), None);
        assert_eq!(on(&from, Ask { queue: true, hardware: false, ..EACH }).unwrap(), 0);
        on(&to, EACH).unwrap();
        // The kernel starts timestamping incoming packets a moment later, from a work queue.
        let mut stamped = None;
        for key in 0..200 {
            from.send(b"stamped").unwrap();
            let (len, came) = recv(&to, &mut bytes).unwrap();
            assert_eq!((len, came.hardware, came.sent), (7, None, None));
            let [queue, driver] = [(); 2].map(|()| sent(&from).unwrap().unwrap());
            assert_eq!((queue.place, driver.place, sent(&from).unwrap()), (Place::Queue, Place::Driver, None));
            assert_eq!((queue.key, driver.key), (key, key));
            if let Some(came) = came.software {
                stamped = Some([queue.software.unwrap(), driver.software.unwrap(), came]);
                break;
            }
            sleep(Duration::from_millis(5));
        }
        let stamped = stamped.expect("a stamp of what came");
        assert!(stamped.is_sorted(), "{stamped:?}");
        off(&from).unwrap();
        from.send(b"plain").unwrap();
        assert_eq!(sent(&from).unwrap(), None);
    }

    #[test]
    fn a_nics_stamp_never_takes_the_place_of_the_drivers() {
        for (each, hardware) in [(true, true), (true, false), (false, true), (false, false)] {
            let flags = Ask { each, hardware, ..EACH }.flags();
            assert_ne!(flags & libc::SOF_TIMESTAMPING_OPT_TX_SWHW, 0, "{each} {hardware}");
        }
    }

    #[test]
    fn keys_of_datagrams_count_those_that_are_stamped() {
        let (from, _to) = udp();
        on(&from, EACH).unwrap();
        (0..3).for_each(|_| assert_eq!(from.send(b"each").unwrap(), 4));
        assert_eq!(all(&from), [(Place::Driver, 0), (Place::Driver, 1), (Place::Driver, 2)]);
        on(&from, Ask { each: false, ..EACH }).unwrap();
        for _ in 0..2 {
            from.send(b"plain").unwrap();
            assert_eq!(send(&from, b"asked", SendFlags::empty()).unwrap(), 5);
        }
        assert_eq!(all(&from), [(Place::Driver, 0), (Place::Driver, 1)], "counted anew, and none that was not asked for");
    }

    #[test]
    fn keys_of_a_stream_count_its_bytes() {
        let (mut from, mut to) = tcp();
        from.write_all(&[0; 1000]).unwrap();
        to.read_exact(&mut [0; 1000]).unwrap();
        let begin = on(&from, Ask { stream: true, ..EACH }).unwrap();
        from.write_all(&[0; 10]).unwrap();
        from.write_all(&[0; 20]).unwrap();
        assert_eq!(all(&from), [(Place::Driver, begin + 9), (Place::Driver, begin + 29)]);
        let begin = on(&from, Ask { stream: true, each: false, ..EACH }).unwrap();
        from.write_all(&[0; 10]).unwrap();
        assert_eq!(send(&from, &[0; 5], SendFlags::empty()), Ok(5));
        assert_eq!(all(&from), [(Place::Driver, begin + 14)]);
        let mut bytes = [0; 45];
        to.read_exact(&mut bytes).unwrap();
        on(&to, Ask { stream: true, ..EACH }).unwrap();
        for _ in 0..200 {
            from.write_all(&[7; 10]).unwrap();
            let (len, came) = recv(&to, &mut bytes).unwrap();
            assert_eq!((len, came.hardware, came.sent), (10, None, None));
            if came.software.is_some() {
                return;
            }
            sleep(Duration::from_millis(5));
        }
        panic!("no stamp of what came");
    }
}
