//! The loop over in-memory pairs.

use std::thread;
use std::time::Instant;

use hairpin_sys::clock::MonotonicRaw;

use super::*;
use crate::device::Config;
use crate::memory::{MemoryIo, pair};
use crate::ring::{Coalesce, RingConfig, Wait};

const CONFIG: RingConfig = RingConfig { wait: Wait::Spin, coalesce: Coalesce::Off, hold: None };

fn rings(io: Vec<MemoryIo>) -> Vec<Ring<MemoryIo, MonotonicRaw>> {
    io.into_iter().map(|io| Ring::new(io, MonotonicRaw, CONFIG)).collect()
}

fn pairs(count: usize) -> (Vec<MemoryIo>, Vec<MemoryIo>) {
    let config = Config { ring_entries: 64, chunks: 256, ..Config::default() };
    (0..count).map(|_| pair(&config).unwrap()).unzip()
}

fn outgoing(per_s: Option<f64>, duration: Nanos) -> Outgoing {
    Outgoing {
        destination: [2, 0, 0, 0, 0, 2],
        source: [2, 0, 0, 0, 0, 1],
        cookie: 7,
        first_flow: 0,
        first_sequence: u32::MAX - 10,
        bytes: 64,
        per_s,
        duration,
    }
}

/// Stops after this number of turns.
struct Turns(u64);

impl Monitor for Turns {
    fn stop(&mut self) -> bool {
        self.0 = self.0.saturating_sub(1);
        self.0 == 0
    }
}

/// Sends over one end of each pair from a thread of its own, and counts on the other ends until it is done.
fn over(count: usize, plan: Outgoing, incoming: Incoming) -> (Totals, Totals) {
    let (near, far) = pairs(count);
    let done = std::sync::atomic::AtomicBool::new(false);
    struct Until<'a>(&'a std::sync::atomic::AtomicBool);
    impl Monitor for Until<'_> {
        fn stop(&mut self) -> bool {
            self.0.load(std::sync::atomic::Ordering::Acquire)
        }
    }
    thread::scope(|scope| {
        let sender = scope.spawn(|| {
            let near = rings(near);
            let sent = run(&near, &MonotonicRaw, Some(&plan), None, &mut Turns(u64::MAX)).unwrap();
            done.store(true, std::sync::atomic::Ordering::Release);
            // Dropping an end discards the frames that it has not received yet.
            (sent, near)
        });
        let came = run(&rings(far), &MonotonicRaw, None, Some(&incoming), &mut Until(&done)).unwrap();
        (sender.join().unwrap().0, came)
    })
}

#[test]
fn loses_nothing_in_memory_across_the_wrap() {
    for count in [1, 3] {
        let plan = outgoing(None, Nanos::from_millis(30));
        let begin = Instant::now();
        let (sent, came) = over(count, plan, Incoming { cookie: Some(7), flows: count as u16 });
        let all = Nanos(begin.elapsed().as_nanos() as u64);
        assert!(sent.sent.frames > 100, "{sent:?}");
        assert_eq!((came.came.frames, came.came.span), (sent.sent.frames, sent.sent.frames));
        assert_eq!((came.came.duplicates, came.came.reordered, came.came.foreign), (0, 0, 0));
        assert_eq!(came.came.bytes, 64 * came.came.frames);
        // The duration of each depends on other programs on these CPUs.
        assert!([sent.sent.duration, came.came.duration].iter().all(|took| (Nanos(1)..=all).contains(took)), "{sent:?} {came:?}");
    }
}

#[test]
fn a_rate_is_never_exceeded() {
    let (sent, came) = over(1, outgoing(Some(20_000.0), Nanos::from_millis(200)), Incoming { cookie: None, flows: 1 });
    let frames = sent.sent.frames;
    // The schedule ends after 200 ms; a thread that was delayed has then offered all frames due at its next
    // turn.
    assert!(frames > 0 && frames as f64 <= 20_000.0 * sent.sent.duration.0 as f64 / 1e9, "{sent:?}");
    assert_eq!(came.came.frames, frames);
}

#[test]
fn counts_frames_of_others_separately() {
    let plan = outgoing(Some(10_000.0), Nanos::from_millis(20));
    let (sent, came) = over(1, plan, Incoming { cookie: Some(8), flows: 1 });
    assert!(came.came.frames == 0 && (1..=sent.sent.frames).contains(&came.came.foreign), "{sent:?} {came:?}");
    let far_flow = Outgoing { first_flow: 5, ..plan };
    let (sent, came) = over(1, far_flow, Incoming { cookie: None, flows: 5 });
    assert!(came.came.frames == 0 && (1..=sent.sent.frames).contains(&came.came.foreign), "{sent:?} {came:?}");
}

#[test]
fn a_sender_counts_returning_frames() {
    let (near, far) = pairs(1);
    let stop = std::sync::atomic::AtomicBool::new(false);
    let totals = thread::scope(|scope| {
        scope.spawn(|| {
            let ring = rings(far).remove(0);
            while !stop.load(std::sync::atomic::Ordering::Acquire) {
                if let Received::Got(lease) = ring.recv(1).unwrap() {
                    // The other side may be off its core while the ring back to it is full.
                    let mut refused = lease.send_back().unwrap();
                    while let Some(lease) = refused.take_if(|_| !stop.load(std::sync::atomic::Ordering::Acquire)) {
                        refused = lease.send_back().unwrap();
                    }
                }
            }
        });
        let plan = outgoing(Some(50_000.0), Nanos::from_millis(50));
        let incoming = Incoming { cookie: Some(7), flows: 1 };
        let totals = run(&rings(near), &MonotonicRaw, Some(&plan), Some(&incoming), &mut Turns(u64::MAX)).unwrap();
        stop.store(true, std::sync::atomic::Ordering::Release);
        totals
    });
    assert!(totals.sent.frames > 100, "{totals:?}");
    assert_eq!(totals.came.frames, totals.sent.frames);
}

#[test]
fn a_sender_stops_on_request_and_rejects_invalid_sizes() {
    let (near, _far) = pairs(1);
    let near = rings(near);
    let endless = outgoing(Some(10.0), Nanos::from_secs(3600));
    let totals = run(&near, &MonotonicRaw, Some(&endless), None, &mut Turns(1000)).unwrap();
    assert!(totals.sent.frames < 10, "{totals:?}");
    for bytes in [59, 1515] {
        let plan = Outgoing { bytes, ..endless };
        let error = run(&near, &MonotonicRaw, Some(&plan), None, &mut Turns(1)).unwrap_err().to_string();
        assert_eq!(error, format!("a numbered frame has 60 to 1514 bytes here, not {bytes}"));
    }
}

#[test]
fn follows_the_next_sender_after_the_first_falls_silent() {
    let plan = Incoming { cookie: None, flows: 1 };
    let mut counting = Counting::new(&plan, &MonotonicRaw);
    let frame = |cookie, sequence| {
        let mut frame = vec![0; 60];
        frame[12..14].copy_from_slice(&raw::ETHERTYPE.to_be_bytes());
        frame[14..30].copy_from_slice(&Header { shape: Shape::Own, hops: 0, flow: 0, cookie }.encode(30).unwrap());
        probe::write(&mut frame[30..], sequence, cookie);
        frame
    };
    let at = |ms| Ticks(MonotonicRaw.to_ticks(Nanos::from_millis(ms).0));
    counting.frame(&frame(1, 0), at(1000));
    counting.frame(&frame(1, 2), at(1001));
    counting.frame(&frame(2, 9), at(1002));
    counting.frame(&frame(2, 10), at(1200));
    counting.frame(&frame(1, 3), at(1201));
    counting.frame(b"short", at(1201));
    let came = counting.came();
    assert_eq!((came.frames, came.span, came.foreign), (3, 4, 3));
}
