//! The kernel's software timestamps of a socket's packets (`SO_TIMESTAMPING`); no privilege needed.
//!
//! ```text
//!   sending     scheduled: handed to the device's queue ─ driver: handed to the driver       both from the error queue, later
//!   receiving   the receiver's stack has it                                                  with the message
//! ```
//! Timestamps are CLOCK_REALTIME. Sources: the kernel's `Documentation/networking/timestamping.rst`,
//! `include/uapi/linux/{net_tstamp,errqueue}.h`.

use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsFd, AsRawFd};

use rustix::io::Errno;

/// `struct scm_timestamping` of `linux/errqueue.h`: software, unused, hardware.
#[repr(C)]
#[derive(Clone, Copy)]
struct Stamps([libc::timespec; 3]);

const _: () = assert!(size_of::<Stamps>() == 48);
/// `SCM_TSTAMP_SND` and `SCM_TSTAMP_SCHED` of `enum`s in `linux/errqueue.h`.
const SND: u32 = 0;
const SCHED: u32 = 1;
/// Room for the control data of one message from the error queue: timestamps, the error with an address, and some spare.
const CONTROL: usize = 256;

/// Timestamp of an outgoing packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// The packet enters the device's queue.
    Scheduled,
    /// The packet reaches the driver.
    Driver,
}

/// Switches the kernel's timestamps of this socket's packets on or off. Software timestamps only: those of a NIC are a setting of
/// the host.
///
/// # Errors
/// The errors of setsockopt(2).
pub fn switch(socket: impl AsFd, on: bool) -> io::Result<()> {
    let flags = libc::SOF_TIMESTAMPING_TX_SOFTWARE
        | libc::SOF_TIMESTAMPING_TX_SCHED
        | libc::SOF_TIMESTAMPING_RX_SOFTWARE
        | libc::SOF_TIMESTAMPING_SOFTWARE
        | libc::SOF_TIMESTAMPING_OPT_TSONLY;
    let value = if on { flags } else { 0 };
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: the option's value is an int that lives through the call, and its size is told.
    let done = unsafe {
        libc::setsockopt(
            fd,
            libc::SOL_SOCKET,
            libc::SO_TIMESTAMPING,
            (&raw const value).cast(),
            size_of::<libc::c_uint>() as libc::socklen_t,
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Receives a message, with the time in ns at which the stack received it, if it was timestamped.
///
/// # Errors
/// The errors of recvmsg(2).
pub fn recv(socket: impl AsFd, buffer: &mut [u8]) -> Result<(usize, Option<u64>), Errno> {
    let (len, found) = receive(socket, buffer, 0)?;
    Ok((len, found.stamp))
}

/// The next timestamp of a sent packet, in ns, in the order in which they were taken. `None`: none is queued.
///
/// # Errors
/// The errors of recvmsg(2).
pub fn sent(socket: impl AsFd) -> Result<Option<(Sent, u64)>, Errno> {
    let (_, found) = match receive(socket, &mut [], libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT) {
        Ok(received) => received,
        Err(Errno::AGAIN) => return Ok(None),
        Err(error) => return Err(error),
    };
    let kind = match found.kind {
        Some(SCHED) => Sent::Scheduled,
        Some(SND) => Sent::Driver,
        _ => return Ok(None),
    };
    Ok(found.stamp.map(|ns| (kind, ns)))
}

#[derive(Default)]
struct Control {
    stamp: Option<u64>,
    kind: Option<u32>,
}

/// Aligned as required for `struct cmsghdr`.
#[repr(C, align(8))]
struct Buffer([MaybeUninit<u8>; CONTROL]);

fn receive(socket: impl AsFd, buffer: &mut [u8], flags: i32) -> Result<(usize, Control), Errno> {
    let mut control = Buffer([MaybeUninit::uninit(); CONTROL]);
    let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: a header of zeroes is one that says nothing.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = &raw mut part;
    header.msg_iovlen = 1;
    header.msg_control = control.0.as_mut_ptr().cast();
    header.msg_controllen = CONTROL as _;
    // SAFETY: the header points to a part over `buffer` and to `control`, with their sizes, which live through the call and are borrowed for it alone.
    let len = unsafe { libc::recvmsg(socket.as_fd().as_raw_fd(), &raw mut header, flags) };
    if len < 0 {
        return Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO));
    }
    let mut found = Control::default();
    // SAFETY: recvmsg has filled the header and as much of `control` as it says.
    let mut message = unsafe { libc::CMSG_FIRSTHDR(&raw const header) };
    while !message.is_null() {
        // SAFETY: not null, so a whole `cmsghdr` inside the bytes that recvmsg has written.
        let (level, kind, whole) = unsafe { ((*message).cmsg_level, (*message).cmsg_type, (*message).cmsg_len as usize) };
        // SAFETY: the data lies behind the header, and `whole` says how much of it there is.
        let data = unsafe { libc::CMSG_DATA(message) };
        // SAFETY: computes a length, nothing else.
        let at_least = |bytes: usize| whole >= unsafe { libc::CMSG_LEN(bytes as u32) } as usize;
        if (level, kind) == (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING) && at_least(size_of::<Stamps>()) {
            // SAFETY: at_least() has checked that the bytes are there; they may be unaligned.
            let stamps: Stamps = unsafe { data.cast::<Stamps>().read_unaligned() };
            let software = stamps.0[0];
            let ns = (software.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(software.tv_nsec as u64);
            found.stamp = (ns != 0).then_some(ns);
        }
        let error = matches!((level, kind), (libc::SOL_IP, libc::IP_RECVERR) | (libc::SOL_IPV6, libc::IPV6_RECVERR));
        if error && at_least(size_of::<libc::sock_extended_err>()) {
            // SAFETY: as above.
            let error = unsafe { data.cast::<libc::sock_extended_err>().read_unaligned() };
            found.kind = (error.ee_origin == libc::SO_EE_ORIGIN_TIMESTAMPING).then_some(error.ee_info);
        }
        // SAFETY: both point into the bytes that recvmsg has filled.
        message = unsafe { libc::CMSG_NXTHDR(&raw const header, message) };
    }
    Ok((len as usize, found))
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, UdpSocket};
    use std::thread::sleep;
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_datagram_over_loopback_is_stamped_on_its_way() {
        let socket = || UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let (from, to) = (socket(), socket());
        from.connect(to.local_addr().unwrap()).unwrap();
        let mut bytes = [0; 8];
        from.send(b"plain").unwrap();
        assert_eq!(recv(&to, &mut bytes).unwrap(), (5, None));
        assert_eq!(sent(&from).unwrap(), None);
        switch(&from, true).unwrap();
        switch(&to, true).unwrap();
        // The kernel starts timestamping incoming packets a moment later, from a work queue.
        let mut stamped = None;
        for _ in 0..200 {
            from.send(b"stamped").unwrap();
            let (len, came) = recv(&to, &mut bytes).unwrap();
            assert_eq!(len, 7);
            let scheduled = sent(&from).unwrap().unwrap();
            let driver = sent(&from).unwrap().unwrap();
            assert_eq!((scheduled.0, driver.0, sent(&from).unwrap()), (Sent::Scheduled, Sent::Driver, None));
            if let Some(came) = came {
                stamped = Some([scheduled.1, driver.1, came]);
                break;
            }
            sleep(Duration::from_millis(5));
        }
        let stamped = stamped.expect("a stamp of what came");
        assert!(stamped.is_sorted(), "{stamped:?}");
        switch(&from, false).unwrap();
        from.send(b"plain").unwrap();
        assert_eq!(sent(&from).unwrap(), None);
    }
}
