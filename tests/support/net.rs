//! Network namespaces of a test's own, and frames put on their interfaces and taken from them.

use std::fs::File;
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use hairpin_packet::af_packet::{AfPacket, Io};
use hairpin_packet::device::{BackEnd, Config};
use hairpin_packet::filter::Filter;
use hairpin_packet::io::{Kick, PacketIo};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// A network namespace that lives as long as this value.
pub struct Net {
    holder: Child,
}

impl Net {
    /// Makes one.
    pub fn new() -> Net {
        let holder = Command::new("unshare").args(["--net", "sleep", "1000"]).stdin(Stdio::null()).spawn().expect("unshare");
        let net = Net { holder };
        // The child's first one: that of this thread, which may be another than the process's.
        let ours = net_of("thread-self");
        let begun = Instant::now();
        while net_of(&net.pid().to_string()) == ours {
            assert!(begun.elapsed() < Duration::from_secs(10), "no namespace was made");
            thread::sleep(Duration::from_millis(1));
        }
        net
    }

    pub fn pid(&self) -> u32 {
        self.holder.id()
    }

    /// Moves the calling thread there, and with it everything that it starts from now on.
    pub fn enter(&self) {
        let there = File::open(format!("/proc/{}/ns/net", self.pid())).expect("its namespace");
        move_into_link_name_space(there.as_fd(), Some(LinkNameSpaceType::Network)).expect("setns");
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

fn net_of(pid: &str) -> Option<std::path::PathBuf> {
    std::fs::read_link(format!("/proc/{pid}/ns/net")).ok()
}

/// Runs a test on a thread of its own, which ends with the namespaces that it entered.
pub fn apart(test: impl FnOnce() + Send + 'static) {
    if let Err(panic) = thread::spawn(test).join() {
        std::panic::resume_unwind(panic);
    }
}

/// Runs ip(8) where the calling thread is.
#[track_caller]
pub fn ip(args: &str) -> String {
    let done = Command::new("ip").args(args.split_whitespace()).output().expect("ip");
    assert!(done.status.success(), "ip {args}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).expect("text")
}

/// Both addresses and nothing else between the two: no IPv6, so that the kernel sends nothing of its own.
pub fn veth(one: &str, other: &str) {
    ip(&format!("link add {one} address {} type veth peer name {other} address {}", text(MAC_A), text(MAC_B)));
    for end in [one, other] {
        // In the thread's own namespace; without IPv6 there is nothing to turn off.
        let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{end}/disable_ipv6"), "1");
        ip(&format!("link set {end} up"));
    }
}

/// A veth pair between two namespaces: `east`, 10.77.0.1, `MAC_A`, in `one` and `west`, 10.77.0.2, `MAC_B`, in `other`.
/// Afterwards the calling thread is in `one`.
pub fn joined(one: &Net, other: &Net) {
    one.enter();
    let [ours, theirs] = [MAC_A, MAC_B].map(text);
    ip(&format!("link add east address {ours} type veth peer name west address {theirs} netns {}", other.pid()));
    for (net, end, host) in [(other, "west", 2), (one, "east", 1)] {
        net.enter();
        ip(&format!("address add 10.77.0.{host}/24 dev {end}"));
        ip(&format!("link set {end} up"));
    }
}

pub const MAC_A: [u8; 6] = [2, 0, 0, 0, 0, 0xa];
pub const MAC_B: [u8; 6] = [2, 0, 0, 0, 0, 0xb];
pub const BROADCAST: [u8; 6] = [0xff; 6];

pub fn text(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

/// An Ethernet frame of 60 bytes with a number in it.
pub fn frame(destination: [u8; 6], source: [u8; 6], ethertype: u16, number: u8) -> Vec<u8> {
    let mut frame = [&destination[..], &source, &ethertype.to_be_bytes()].concat();
    frame.resize(60, 0);
    frame[14] = number;
    frame
}

/// Sends frames on an interface, and receives its frames.
pub struct Wire {
    _device: AfPacket,
    io: Io,
}

impl Wire {
    /// Of an interface where the calling thread is.
    pub fn new(interface: &str) -> Wire {
        let config = Config { filter: Filter::All, ..Config::default() };
        let mut device = AfPacket::open(interface, &config).expect("a packet socket");
        let io = device.ring(0).expect("its ring");
        device.start().expect("its filter");
        Wire { _device: device, io }
    }

    pub fn send(&mut self, bytes: &[u8]) {
        let mut frame = self.io.pool().take().expect("a free chunk");
        frame.set_len(bytes.len());
        let umem = self.io.umem().clone();
        umem.bytes_mut(&mut frame).copy_from_slice(bytes);
        self.io.tx_batch(&mut vec![frame]);
        self.io.kick(Kick::Send).expect("sent");
    }

    /// Frames received until there are `count`, or for `limit`.
    pub fn take(&mut self, count: usize, limit: Duration) -> Vec<Vec<u8>> {
        let (begun, mut taken, mut arrivals) = (Instant::now(), Vec::new(), Vec::new());
        let umem = self.io.umem().clone();
        while taken.len() < count && begun.elapsed() < limit {
            if self.io.rx_batch(&mut arrivals, 64) == 0 {
                thread::sleep(Duration::from_millis(1));
            }
            for arrival in arrivals.drain(..) {
                taken.push(umem.bytes(&arrival.frame).to_vec());
                self.io.pool().give(arrival.frame);
            }
        }
        taken
    }
}
