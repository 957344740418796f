//! Integer and text socket options, TCP_INFO, and the kernel's facts about a socket's queue: safe calls for any socket.

use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use rustix::net::sockopt::{Timeout, set_socket_timeout};

/// A socket option with an `int` value: level and name as in the kernel's headers (socket(7), tcp(7), ip(7), ipv6(7)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IntOption {
    level: i32,
    name: i32,
}

impl IntOption {
    pub(crate) const fn new(level: i32, name: i32) -> IntOption {
        IntOption { level, name }
    }
}

const fn option(level: i32, name: i32) -> IntOption {
    IntOption { level, name }
}

/// TCP_NODELAY: segments are sent at once (no Nagle).
pub const TCP_NODELAY: IntOption = option(libc::IPPROTO_TCP, libc::TCP_NODELAY);
/// TCP_QUICKACK: acknowledge at once; the kernel resets it by itself.
pub const TCP_QUICKACK: IntOption = option(libc::IPPROTO_TCP, libc::TCP_QUICKACK);
/// TCP_CORK: hold partial segments back, at most 200 ms.
pub const TCP_CORK: IntOption = option(libc::IPPROTO_TCP, libc::TCP_CORK);
/// TCP_MAXSEG: upper limit of the segment size in bytes, set before connecting.
pub const TCP_MAXSEG: IntOption = option(libc::IPPROTO_TCP, libc::TCP_MAXSEG);
/// SO_SNDBUF in bytes; the kernel doubles it.
pub const SO_SNDBUF: IntOption = option(libc::SOL_SOCKET, libc::SO_SNDBUF);
/// SO_RCVBUF in bytes; the kernel doubles it.
pub const SO_RCVBUF: IntOption = option(libc::SOL_SOCKET, libc::SO_RCVBUF);
/// SO_PRIORITY: the qdisc's band, 0 to 6 without CAP_NET_ADMIN.
pub const SO_PRIORITY: IntOption = option(libc::SOL_SOCKET, libc::SO_PRIORITY);
/// SO_BUSY_POLL in microseconds.
pub const SO_BUSY_POLL: IntOption = option(libc::SOL_SOCKET, libc::SO_BUSY_POLL);
/// SO_PREFER_BUSY_POLL.
pub const SO_PREFER_BUSY_POLL: IntOption = option(libc::SOL_SOCKET, 69);
/// SO_BUSY_POLL_BUDGET in packets.
pub const SO_BUSY_POLL_BUDGET: IntOption = option(libc::SOL_SOCKET, 70);
/// SO_INCOMING_NAPI_ID: 0 if the device that received last has no NAPI id.
pub const SO_INCOMING_NAPI_ID: IntOption = option(libc::SOL_SOCKET, 56);
/// SO_INCOMING_CPU: the CPU that processed the last packet.
pub const SO_INCOMING_CPU: IntOption = option(libc::SOL_SOCKET, libc::SO_INCOMING_CPU);
/// SO_DOMAIN: the address family, such as AF_INET; read only.
pub const SO_DOMAIN: IntOption = option(libc::SOL_SOCKET, libc::SO_DOMAIN);
/// SO_PROTOCOL: the protocol, such as IPPROTO_TCP; read only.
pub const SO_PROTOCOL: IntOption = option(libc::SOL_SOCKET, libc::SO_PROTOCOL);
/// IP_TOS: the byte that holds DSCP and ECN.
pub const IP_TOS: IntOption = option(libc::IPPROTO_IP, libc::IP_TOS);
/// IPV6_TCLASS: the byte that holds DSCP and ECN.
pub const IPV6_TCLASS: IntOption = option(libc::IPPROTO_IPV6, libc::IPV6_TCLASS);
/// SO_BINDTOIFINDEX: packets of this interface alone, in and out. Linux 5.0; without CAP_NET_RAW Linux 5.7.
pub const SO_BINDTOIFINDEX: IntOption = option(libc::SOL_SOCKET, 62);
/// IP_TTL: routers that a packet may pass.
pub const IP_TTL: IntOption = option(libc::IPPROTO_IP, libc::IP_TTL);
/// IPV6_UNICAST_HOPS: the same over IPv6.
pub const IPV6_UNICAST_HOPS: IntOption = option(libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS);
/// IP_MULTICAST_TTL: the same of packets to a group; 1 unless it is set.
pub const IP_MULTICAST_TTL: IntOption = option(libc::IPPROTO_IP, libc::IP_MULTICAST_TTL);
/// IPV6_MULTICAST_HOPS: the same over IPv6.
pub const IPV6_MULTICAST_HOPS: IntOption = option(libc::IPPROTO_IPV6, libc::IPV6_MULTICAST_HOPS);
/// IP_MULTICAST_ALL: off, a socket receives from no group but those that it has joined itself, on that interface.
pub const IP_MULTICAST_ALL: IntOption = option(libc::IPPROTO_IP, 49);
/// IPV6_MULTICAST_ALL: the same over IPv6. Linux 4.20.
pub const IPV6_MULTICAST_ALL: IntOption = option(libc::IPPROTO_IPV6, 29);
/// IP_BIND_ADDRESS_NO_PORT: connect chooses the port, so that connections to different destinations can share ports.
pub const IP_BIND_ADDRESS_NO_PORT: IntOption = option(libc::IPPROTO_IP, 24);
/// IP_LOCAL_PORT_RANGE: ports that connect chooses from, the lowest in the low half and the highest in the high half; a half
/// outside the host's own range does not narrow it. Linux 6.3.
pub const IP_LOCAL_PORT_RANGE: IntOption = option(libc::IPPROTO_IP, 51);

/// IP_MTU: the path MTU that the kernel knows for the peer of a connected socket; read only.
pub const IP_MTU: IntOption = option(libc::IPPROTO_IP, libc::IP_MTU);
/// IPV6_MTU: the same over IPv6.
pub const IPV6_MTU: IntOption = option(libc::IPPROTO_IPV6, libc::IPV6_MTU);

/// The socket's cookie (`SO_COOKIE`): a number unique since boot.
///
/// # Errors
/// The errors of getsockopt(2): ENOTSOCK if it is not a socket.
pub fn cookie(socket: &impl AsFd) -> io::Result<u64> {
    Ok(rustix::net::sockopt::socket_cookie(socket)?)
}

/// Sets an option with one system call.
#[inline]
pub fn set(fd: impl AsFd, option: IntOption, value: i32) -> io::Result<()> {
    // SAFETY: the kernel reads four bytes of a local.
    let done = unsafe {
        libc::setsockopt(fd.as_fd().as_raw_fd(), option.level, option.name, (&raw const value).cast(), size_of::<i32>() as u32)
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Reads an option.
pub fn get(fd: impl AsFd, option: IntOption) -> io::Result<i32> {
    let mut value: i32 = 0;
    let mut len = size_of::<i32>() as u32;
    // SAFETY: the kernel writes at most `len` bytes into a local of that size.
    let done =
        unsafe { libc::getsockopt(fd.as_fd().as_raw_fd(), option.level, option.name, (&raw mut value).cast(), &raw mut len) };
    if done == 0 { Ok(value) } else { Err(io::Error::last_os_error()) }
}

/// The id of the NAPI instance that the socket's last packet came through, if any.
pub fn napi_id(fd: impl AsFd) -> Option<u32> {
    get(fd, SO_INCOMING_NAPI_ID).ok().and_then(|id| u32::try_from(id).ok()).filter(|id| *id > 0)
}

/// Limits how long a blocking receive or accept waits before it returns EAGAIN (SO_RCVTIMEO).
pub fn set_receive_timeout(fd: impl AsFd, timeout: Duration) -> io::Result<()> {
    Ok(set_socket_timeout(fd, Timeout::Recv, Some(timeout))?)
}

/// Limits how long a blocking send or connect waits (SO_SNDTIMEO).
pub fn set_send_timeout(fd: impl AsFd, timeout: Duration) -> io::Result<()> {
    Ok(set_socket_timeout(fd, Timeout::Send, Some(timeout))?)
}

/// TCP_INFO of a connection, counted since it was opened (struct tcp_info of include/uapi/linux/tcp.h).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpInfo {
    /// Sending maximum segment size in bytes.
    pub mss: u32,
    /// Segments sent, pure ACKs included.
    pub segments_out: u32,
    /// Segments received, pure ACKs included.
    pub segments_in: u32,
    /// Segments retransmitted.
    pub retransmitted: u32,
    /// Smoothed round-trip time, from the handshake on.
    pub rtt: Duration,
}

/// The head of the kernel's struct tcp_info, up to the last field read here. The kernel fills as much as fits.
#[repr(C)]
#[derive(Clone, Copy)]
struct RawTcpInfo {
    bytes: [u8; 8],
    /// The fields from tcpi_rto on.
    words: [u32; 24],
    /// tcpi_pacing_rate, tcpi_max_pacing_rate, tcpi_bytes_acked, tcpi_bytes_received.
    rates: [u64; 4],
    segs_out: u32,
    segs_in: u32,
}

const _: () = assert!(size_of::<RawTcpInfo>() == 144);
const _: () = assert!(std::mem::offset_of!(RawTcpInfo, segs_out) == 136);
/// tcpi_snd_mss, the third word after the eight bytes.
const SND_MSS: usize = 2;
/// tcpi_rtt in us, the sixteenth.
const RTT: usize = 15;
/// tcpi_total_retrans, the last word before the rates.
const TOTAL_RETRANS: usize = 23;

/// Reads TCP_INFO.
pub fn tcp_info(fd: impl AsFd) -> io::Result<TcpInfo> {
    let mut info = MaybeUninit::<RawTcpInfo>::zeroed();
    let mut len = size_of::<RawTcpInfo>() as u32;
    // SAFETY: the kernel writes at most `len` bytes into a zeroed structure of that size whose every bit pattern is valid.
    let info = unsafe {
        let fd = fd.as_fd().as_raw_fd();
        if libc::getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_INFO, info.as_mut_ptr().cast(), &raw mut len) != 0 {
            return Err(io::Error::last_os_error());
        }
        info.assume_init()
    };
    if (len as usize) < size_of::<RawTcpInfo>() {
        return Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "this kernel's TCP_INFO has no segment counts (Linux 4.2 and later)",
        ));
    }
    Ok(TcpInfo {
        mss: info.words[SND_MSS],
        segments_out: info.segs_out,
        segments_in: info.segs_in,
        retransmitted: info.words[TOTAL_RETRANS],
        rtt: Duration::from_micros(info.words[RTT].into()),
    })
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream, UdpSocket};

    use super::*;

    #[test]
    fn options_read_back() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        set(&socket, SO_PRIORITY, 3).unwrap();
        assert_eq!(get(&socket, SO_PRIORITY).unwrap(), 3);
        assert_eq!(get(&socket, SO_INCOMING_NAPI_ID).unwrap(), 0, "loopback has no NAPI id");
        assert!(set(&socket, TCP_NODELAY, 1).is_err());
    }

    #[test]
    fn a_connected_socket_knows_the_mtu_of_its_path() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        assert!(get(&socket, IP_MTU).is_err(), "not connected yet");
        socket.connect("127.0.0.1:9").unwrap();
        assert!(get(&socket, IP_MTU).unwrap() >= 68);
    }

    #[test]
    fn tcp_counts_its_segments() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        set(&client, TCP_NODELAY, 1).unwrap();
        let before = tcp_info(&client).unwrap();
        assert_eq!(std::mem::offset_of!(libc::tcp_info, tcpi_rtt), std::mem::offset_of!(RawTcpInfo, words) + 4 * RTT);
        assert!(!before.rtt.is_zero() && before.rtt < Duration::from_secs(1), "over loopback: {before:?}");
        for _ in 0..10 {
            client.write_all(b"x").unwrap();
            server.read_exact(&mut [0]).unwrap();
        }
        let after = tcp_info(&client).unwrap();
        assert_eq!(after.segments_out - before.segments_out, 10);
        assert!(after.mss > 500 && after.retransmitted == 0, "{after:?}");
    }

    #[test]
    fn a_receive_ends_after_its_timeout() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        set_receive_timeout(&socket, Duration::from_millis(5)).unwrap();
        assert_eq!(socket.recv(&mut [0]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }
}
