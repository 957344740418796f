//! Features of `tcp-crr` alone: parts of a transaction, pairs used once, and clients that stall.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hairpin_plan::job::{Address, LocalPort};
use hairpin_record::warning::Warning;
use hairpin_sys::shared::Shared;
use hairpin_units::{Nanos, Quantile};

use super::pair::{Pair, job, listening, start_server};
use super::{V4, V6};

#[test]
fn parts_are_timed_apart_and_add_up() {
    for spec in ["tcp-crr", "tcp-crr:spin", "tcp-crr:poll,closes=server", "tcp-crr:closes=server/spin", "tcp-crr:closes=server"] {
        let (client, server) = Pair::new(job(spec), listening(V4)).run(spec);
        let (client, server) = (client.expect(spec), server.expect(spec));
        assert_eq!((client.error, server.error), (None, None), "{spec}");
        let counts: Vec<_> = client.parts.iter().map(|(name, times)| (name.as_str(), times.count())).collect();
        assert_eq!(counts, [("close", 200), ("connect", 200), ("exchange", 200)], "{spec}");
        let median = |name: &str| client.parts[name].quantile(Quantile::P50).unwrap();
        let rtt = client.recorder.unwrap().rtt().quantile(Quantile::P50).unwrap();
        let sum = median("connect") + median("exchange");
        assert!(median("connect") > 0 && sum > rtt / 2 && sum < 2 * rtt, "{spec}: {sum} against {rtt}");
    }
}

#[test]
fn a_run_ends_before_a_pair_is_used_twice() {
    for (address, local_port, most) in [(V6, LocalPort::Rotate(7), 7), (V4, LocalPort::Fixed(17_777), 254)] {
        if std::net::UdpSocket::bind((address, 0)).is_err() {
            println!("skipped: tcp-crr over {address}, which this host has not");
            continue;
        }
        let mut job = job("tcp-crr");
        (job.count, job.warmup, job.local_port) = (Some(10_000), Nanos(0), local_port);
        let client = Pair::new(job, listening(address)).run("used up").0.unwrap();
        assert_eq!((client.error, client.stopped), (None, false), "an end like any other");
        let count = client.recorder.unwrap().rtt().count();
        // Some pairs may still be in TIME_WAIT from an earlier run of this test.
        assert!(count <= most, "{count} connections of {most} pairs");
        let Some(Warning::TuplesUsedUp { connections }) = client.side.warnings.first() else { panic!("no warning") };
        assert_eq!(*connections, count);
    }
}

#[test]
fn a_client_that_stalls_holds_nobody_up_for_long() {
    let mut job = job("tcp-crr");
    (job.timeout, job.count) = (Nanos::from_secs(2), Some(10));
    let stop = Arc::new(Shared::create().unwrap());
    let (address, server) = start_server(&job, listening(V4), &stop, None, "stalling");
    let Address::Inet(address) = address else { panic!("no address") };
    let began = Instant::now();
    let mut stalled = TcpStream::connect(address).unwrap();
    stalled.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    assert_eq!(stalled.read(&mut [0; 8]).unwrap(), 0, "closed by the server, unanswered");
    assert!(began.elapsed() < Duration::from_secs(2));
    stop.request_stop();
    assert_eq!(server.recv_timeout(Duration::from_secs(5)).unwrap().unwrap().answered, 0);
}

#[test]
fn a_client_that_takes_nothing_of_its_reply_holds_nobody_up_for_long() {
    for spec in ["tcp-crr", "tcp-crr:poll"] {
        let mut job = job(spec);
        // More than the kernel's buffers of both ends take.
        (job.timeout, job.request, job.reply) = (Nanos::from_secs(2), 8, 64 << 20);
        let stop = Arc::new(Shared::create().unwrap());
        let (address, server) = start_server(&job, listening(V4), &stop, None, spec);
        let Address::Inet(address) = address else { panic!("no address") };
        let ask = || {
            let mut client = TcpStream::connect(address).unwrap();
            client.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            client.write_all(&[0; 8]).unwrap();
            client
        };
        let _full = ask();
        let mut next = ask();
        next.read_exact(&mut [0; 1_000]).expect(spec);
        drop(next);
        stop.request_stop();
        server.recv_timeout(Duration::from_secs(10)).unwrap().unwrap();
    }
}
