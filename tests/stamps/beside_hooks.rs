//! The kernel's stamps and the hooks of `explain`, of the same packets over loopback: where in its way a packet is stamped.

use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::thread::sleep;
use std::time::Duration;

use hairpin_sys::clock::AnyClock;
use hairpin_sys::shared::Announced;
use hairpin_sys::timestamping::{self, Ask, Place};
use hairpin_sys::{socket, thread};
use hairpin_trace::moment::{HOOKS, Moment, Route};
use hairpin_trace::tracer::{Flow, Tracer};

use crate::support::{can, namespaces};

const PACKETS: usize = 500;
const BYTES: usize = 64;
/// Two readings of the clocks relate their stamps to within this, in ns.
const NEAR: i64 = 200;

/// CLOCK_REALTIME of the two stamps of one packet.
type Stamps = [u64; 2];

pub fn stamps_lie_where_the_hooks_of_explain_are(name: &str) -> bool {
    if !can(name, namespaces(), "BPF programs need root") {
        return false;
    }
    let udp = || UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
    let (from, to) = (udp(), udp());
    from.connect(to.local_addr().expect("its address")).expect("a peer");
    let [out, since_driver, came, until_stack] = beside(&from, &to, false, || drop(from.send(&[7; BYTES])));
    println!("stamps: udp: driver + {out}, netif_rx - {since_driver}, netif_rx + {came}, netif_receive_skb - {until_stack} ns");
    // The sender's stamp lies between the call of the driver and netif_rx, the receiver's at netif_rx.
    assert!(out >= -NEAR && since_driver >= -NEAR, "{out} {since_driver}");
    assert!(came.abs() <= NEAR && until_stack >= -NEAR, "{came} {until_stack}");

    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
    let from = TcpStream::connect(listener.local_addr().expect("its address")).expect("a connection");
    from.set_nodelay(true).expect("no delay");
    let (to, _) = listener.accept().expect("a connection");
    let [out, since_driver, came, until_stack] =
        beside(&from, &to, true, || drop(std::io::Write::write_all(&mut &from, &[7; BYTES])));
    println!("stamps: tcp: driver + {out}, netif_rx - {since_driver}, netif_rx + {came}, netif_receive_skb - {until_stack} ns");
    assert!(out >= -NEAR && since_driver >= -NEAR, "{out} {since_driver}");
    // A segment on a link of this host still carries the time at which TCP sent it, and is stamped where IP delivers it.
    assert!(until_stack <= NEAR, "{until_stack}: this kernel stamps TCP's segments earlier than docs/stamps.md says");
    true
}

/// Sends packets, and returns the middle of: out - driver, netif_rx - out, in - netif_rx, netif_receive_skb - in.
fn beside(from: &impl AsFd, to: &impl AsFd, stream: bool, send: impl Fn()) -> [i64; 4] {
    let told = |socket: &dyn Fn() -> u64| {
        let cookie = socket();
        Announced { thread: thread::id(), sends_on: cookie, receives_on: cookie, port: 0 }
    };
    let client = told(&|| socket::cookie(from).expect("a cookie"));
    let server = told(&|| socket::cookie(to).expect("a cookie"));
    let flow = Flow { route: Route::Sockets, client, server, comes: None, hooks: HOOKS.iter().collect() };
    let mut tracer = Tracer::load(&flow).expect("the hooks of explain");
    let ask = Ask { each: true, queue: false, hardware: false, stream };
    timestamping::on(from, ask).expect("stamps");
    timestamping::on(to, ask).expect("stamps");
    let one = || -> Option<Stamps> {
        send();
        let mut buffer = [0; BYTES];
        let (len, came) = timestamping::recv(to, &mut buffer).expect("a message");
        assert_eq!(len, BYTES);
        let sent = timestamping::sent(from).expect("a stamp")?;
        assert_eq!(sent.place, Place::Driver);
        Some([sent.software?, came.software?])
    };
    // The kernel begins to stamp arriving packets a moment later, from a work queue.
    let begun = (0..400).any(|_| {
        sleep(Duration::from_millis(5));
        one().is_some()
    });
    assert!(begun, "no stamp of what came");
    tracer.attach().expect("hooks");
    tracer.take();
    let before = AnyClock::calibrate().0.relation();
    let stamps: Vec<Stamps> = (0..PACKETS).map(|_| one().expect("both stamps")).collect();
    let records = tracer.take().records;
    tracer.detach();
    assert_eq!(records.len(), PACKETS, "a record for each");
    let monotonic = |realtime: u64| realtime as i64 - (before.realtime_less_raw_ns - before.monotonic_less_raw_ns);
    let mut found: [Vec<i64>; 4] = Default::default();
    for ([out, came], record) in stamps.iter().zip(&records) {
        let at = |wanted: Moment| {
            let hook = record.ways[0].iter().find(|(moment, _)| *moment == wanted);
            hook.map(|(_, ns)| *ns as i64).unwrap_or_else(|| panic!("no {wanted:?} in {record:?}"))
        };
        let (out, came) = (monotonic(*out), monotonic(*came));
        let all = [out - at(Moment::Started), at(Moment::Passed) - out, came - at(Moment::Passed), at(Moment::Received) - came];
        found.iter_mut().zip(all).for_each(|(list, ns)| list.push(ns));
    }
    found.map(|mut all| {
        all.sort_unstable();
        all[PACKETS / 2]
    })
}
