//! Both loops over the in-memory pair, in every framing; what is not the session's is never answered.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hairpin_packet::device::Config;
use hairpin_packet::memory::{MemoryIo, pair};
use hairpin_record::recorder::{Recorder, Sample};
use hairpin_sys::clock::{Clock, MonotonicRaw, Ticks};
use hairpin_sys::wait::{Policy, WithWait, with_ring_wait};
use hairpin_wire::checksum::Sum;
use hairpin_wire::ethernet::Ethernet;
use hairpin_wire::ipv4::Ipv4;
use hairpin_wire::ipv6::Ipv6;
use hairpin_wire::udp::{Check, Udp};
use hairpin_wire::{ethernet, udp};
use proptest::prelude::*;

use super::inet::{Flow, Inet, Outer};
use super::raw::{Accepts, Raw, Sends};
use super::*;
use crate::drive::{Between, Counts, End, Work, drive};
use crate::echo::{Attention, Echoed, echo};
use crate::endpoint::NoMarks;
use crate::pace::Closed;

const CLIENT: [u8; 6] = [2, 0, 0, 0, 0, 1];
const SERVER: [u8; 6] = [2, 0, 0, 0, 0, 2];
const COOKIE: u64 = 0x1234_5678_9abc_def0;

fn flow(client: &str, server: &str, index: u16) -> Flow {
    let own: SocketAddr = client.parse().unwrap();
    Flow { own: SocketAddr::new(own.ip(), own.port() + index), peer: server.parse().unwrap() }
}

fn flows(ipv6: bool, count: u16) -> Vec<Flow> {
    let (client, server) = if ipv6 { ("[2001:2::1]:5000", "[2001:2::2]:7") } else { ("198.18.0.1:5000", "198.18.0.2:7") };
    (0..count).map(|index| flow(client, server, index)).collect()
}

fn turned(flows: &[Flow]) -> Vec<Flow> {
    flows.iter().map(|flow| Flow { own: flow.peer, peer: flow.own }).collect()
}

/// The framings of client and server.
fn inet<const V6: bool>(count: u16, request: usize, reply: usize) -> (Inet<V6>, Inet<V6>) {
    let flows = flows(V6, count);
    let client = Outer { own: CLIENT, peer: SERVER, traffic_class: 0 };
    let server = Outer { own: SERVER, peer: CLIENT, traffic_class: 0 };
    (Inet::new(client, &flows, false, request).unwrap(), Inet::new(server, &turned(&flows), true, reply).unwrap())
}

fn raw(count: u16, request: usize, reply: usize) -> (Raw, Raw) {
    let client = Sends { source: CLIENT, destination: SERVER, hops: 0, cookie: COOKIE, flows: count, len: request };
    let server = Sends { source: SERVER, destination: CLIENT, hops: 1, cookie: COOKIE, flows: count, len: reply };
    (Raw::new(client, Accepts::From(SERVER, 1)).unwrap(), Raw::new(server, Accepts::From(CLIENT, 0)).unwrap())
}

struct Until<'a>(&'a AtomicBool);

impl Attention for Until<'_> {
    fn stopped(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

struct Quiet;

impl Between for Quiet {
    fn stopped(&self) -> bool {
        false
    }

    fn block(&mut self, _: &Recorder, _: &Counts, _: &mut dyn Iterator<Item = Sample>) -> io::Result<()> {
        Ok(())
    }
}

/// Runs `then` with an endpoint over this ring that spins.
fn over<F: Framing, T>(io: MemoryIo, framing: F, then: impl FnOnce(&mut dyn FnMut(Call<'_>)) -> T) -> T {
    let _ = (io, framing);
    let mut none = |_: Call<'_>| {};
    then(&mut none)
}

struct Call<'a>(&'a ());
