//! A transaction as stamped by the programs of `attached.bpf.c`.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// Words of a `struct record`.
pub(super) const WORDS: usize = 56;

/// A request and its reply, seen on one side or on both. A stamp of 0 was not taken; all are of CLOCK_MONOTONIC, in ns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transaction {
    pub connection: Connection,
    /// The receiving threads: the client's, the server's.
    pub processes: [Process; 2],
    /// The sides that belong to the watched process: client, server.
    pub ours: [bool; 2],
    /// From the sender to the receiver's queue: the request, the reply.
    pub sent: [Sent; 2],
    /// From the receiver's queue to the application: the request, the reply.
    pub got: [Got; 2],
    /// Time for which the server's thread was preempted between its last read and the reply, in ns.
    pub preempted: u64,
    /// Time for which it slept there, in ns.
    pub slept: u64,
    /// The thread that preempted it the longest.
    pub by: Process,
    /// Time for which the client's and the server's thread were stopped while data waited for them, in ns.
    pub stopped: [u64; 2],
    /// Number of requests in this record: 0 if a datagram was counted with the one before, several if more arrived
    /// before it was complete.
    pub requests: u64,
    /// True if another request was sent before the reply was complete, or the reply before the request was read.
    pub pipelined: bool,
    pub retransmitted: bool,
}

/// The two ends of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Connection {
    /// The server's address.
    pub server: SocketAddr,
    /// The client's address.
    pub client: SocketAddr,
    /// True for UDP, false for TCP.
    pub datagrams: bool,
}

impl Default for Connection {
    fn default() -> Connection {
        let nowhere = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), 0);
        Connection { server: nowhere, client: nowhere, datagrams: false }
    }
}

/// A thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Process {
    pub pid: i32,
    pub thread: i32,
    pub comm: Comm,
}

/// A thread's name, as the kernel keeps it: up to 15 bytes, and zeroes behind them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Comm(pub [u8; 16]);

impl From<&str> for Comm {
    /// A longer name is cut.
    fn from(name: &str) -> Comm {
        let mut comm = [0; 16];
        let len = name.len().min(15);
        comm[..len].copy_from_slice(&name.as_bytes()[..len]);
        Comm(comm)
    }
}

impl fmt::Display for Comm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = self.0.iter().position(|byte| *byte == 0).unwrap_or(self.0.len());
        f.pad(&String::from_utf8_lossy(&self.0[..end]))
    }
}

/// A message until its receiver is notified; stamps of the first packet, except the last one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// `tcp_sendmsg_locked` of the sender.
    pub sent: u64,
    /// `net_dev_queue`.
    pub queued: u64,
    /// `net_dev_start_xmit`.
    pub started: u64,
    /// `net_dev_queue` of the last packet of a reply that has several.
    pub queued_last: u64,
    /// `netif_receive_skb`.
    pub received: u64,
    /// `sk_data_ready`.
    pub ready: u64,
    /// `sched_waking` of the thread that slept.
    pub waking: u64,
    /// Time for which a later part waited in the sender's socket for the ACK of the earlier parts (Nagle), in
    /// ns.
    pub held: u64,
}

/// A message from the notification until the application has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Got {
    /// `sched_switch` to the notified thread.
    pub switched: u64,
    /// `sock_recv_length` of the first receive call that returned data.
    pub read: u64,
    /// The same for the last one, if there were several.
    pub read_last: u64,
    /// Time for which the reader was preempted while the message waited, in ns; if above 0, `before` is the
    /// preempting thread.
    pub pushed: u64,
    /// True if the reader read another message while this one waited.
    pub busy: bool,
    /// The thread that had the CPU longest between `waking` and `switched`; thread 0 is idle.
    pub before: Process,
}

impl Transaction {
    /// Reads a `struct record`.
    pub(super) fn decode(words: &[u64; WORDS]) -> Transaction {
        let port = |word: u64, shift: u32| (word >> shift) as u16;
        let connection = Connection {
            server: SocketAddr::new(address(&words[1..3]), port(words[5], 0)),
            client: SocketAddr::new(address(&words[3..5]), port(words[5], 16)),
            datagrams: words[5] >> 32 == UDP,
        };
        let sent = |at: usize| Sent {
            sent: words[at],
            queued: words[at + 1],
            started: words[at + 2],
            queued_last: words[at + 3],
            received: words[at + 4],
            ready: words[at + 5],
            waking: words[at + 6],
            held: words[at + 7],
        };
        let got = |at: usize| Got {
            switched: words[at],
            read: words[at + 1],
            read_last: words[at + 2],
            pushed: words[at + 3],
            busy: words[at + 4] != 0,
            before: process(&words[at + 5..at + 8]),
        };
        Transaction {
            connection,
            ours: [words[6] & 1 != 0, words[6] & 2 != 0],
            processes: [process(&words[8..11]), process(&words[11..14])],
            sent: [sent(16), sent(24)],
            got: [got(32), got(40)],
            preempted: words[48],
            slept: words[49],
            by: process(&words[50..53]),
            stopped: [words[54], words[55]],
            requests: words[7],
            pipelined: words[53] & 1 != 0,
            retransmitted: words[53] & 2 != 0,
        }
    }
}

const UDP: u64 = 17;

/// Sixteen bytes in network order; an IPv4-mapped address becomes IPv4.
fn address(words: &[u64]) -> IpAddr {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&words[0].to_ne_bytes());
    bytes[8..].copy_from_slice(&words[1].to_ne_bytes());
    IpAddr::from(bytes).to_canonical()
}

/// A `struct process`.
fn process(words: &[u64]) -> Process {
    let mut name = [0; 16];
    name[..8].copy_from_slice(&words[1].to_ne_bytes());
    name[8..].copy_from_slice(&words[2].to_ne_bytes());
    Process { pid: words[0] as i32, thread: (words[0] >> 32) as i32, comm: Comm(name) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_every_word_of_a_record() {
        let mut words: [u64; WORDS] = std::array::from_fn(|at| 1000 + at as u64);
        words[1] = 0;
        words[2] = u64::from_ne_bytes([0, 0, 0xff, 0xff, 192, 0, 2, 1]);
        words[3] = u64::from_ne_bytes([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0]);
        words[4] = u64::from_ne_bytes([0, 0, 0, 0, 0, 0, 0, 7]);
        words[5] = 17 << 32 | 40_000 << 16 | 53;
        words[11] = 12 << 32 | 11;
        words[12] = u64::from_ne_bytes(*b"io-threa");
        words[13] = u64::from_ne_bytes(*b"d 1\0\0\0\0\0");
        words[6] = 2;
        words[36] = 0;
        words[53] = 2;
        let read = Transaction::decode(&words);
        let ends = (read.connection.server.to_string(), read.connection.client.to_string(), read.connection.datagrams);
        assert_eq!(ends, ("192.0.2.1:53".into(), "[2001:db8::7]:40000".into(), true));
        assert_eq!(read.processes[1], Process { pid: 11, thread: 12, comm: "io-thread 1".into() });
        assert_eq!(read.processes[1].comm.to_string(), "io-thread 1");
        assert_eq!((read.ours, read.pipelined, read.retransmitted), ([false, true], false, true));
        let sent = Sent {
            sent: 1016,
            queued: 1017,
            started: 1018,
            queued_last: 1019,
            received: 1020,
            ready: 1021,
            waking: 1022,
            held: 1023,
        };
        assert_eq!((read.sent[0], read.sent[1].sent), (sent, 1024));
        assert_eq!((read.got[0].switched, read.got[0].read, read.got[0].read_last, read.got[0].pushed), (1032, 1033, 1034, 1035));
        assert_eq!((read.got[0].busy, read.got[1].busy, read.got[1].switched), (false, true, 1040));
        assert_eq!((read.preempted, read.slept), (1048, 1049));
        assert_eq!((read.stopped, read.requests), ([1054, 1055], 1007));
    }
}
