//! The loop over in-memory pairs.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

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

/// Stops when another thread says so.
struct Until<'a>(&'a AtomicBool);

impl Monitor for Until<'_> {
    fn stop(&mut self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// Sends over one end of each pair from a thread of its own, and counts on the other ends until it is done.
fn over(count: usize, plan: Outgoing, incoming: Incoming) -> (Totals, Totals) {
    let (near, far) = pairs(count);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let sender = scope.spawn(|| {
            let near = rings(near);
            let sent = run(&near, &MonotonicRaw, Some(&plan), None, &mut Turns(u64::MAX)).unwrap();
            // The other thread may be off its core; with an unknown sender it then ends 20 ms later, whatever it has not received.
            thread::sleep(Duration::from_millis(100));
            done.store(true, Ordering::Release);
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

/// The totals of a sender whose frames another thread sends back, and the longest time between two looks of that thread.
fn there_and_back() -> (Totals, Duration) {
    let (near, far) = pairs(1);
    // On a busy host a thread may begin later than the run ends.
    let (stop, begun) = (AtomicBool::new(false), Barrier::new(2));
    thread::scope(|scope| {
        let back = scope.spawn(|| {
            let ring = rings(far).remove(0);
            begun.wait();
            let (mut looked, mut away) = (Instant::now(), Duration::ZERO);
            while !stop.load(Ordering::Acquire) {
                away = away.max(looked.elapsed());
                looked = Instant::now();
                if let Received::Got(lease) = ring.recv(1).unwrap() {
                    // The other side may be off its core while the ring back to it is full.
                    let mut refused = lease.send_back().unwrap();
                    while let Some(lease) = refused.take_if(|_| !stop.load(Ordering::Acquire)) {
                        refused = lease.send_back().unwrap();
                    }
                }
            }
            away.max(looked.elapsed())
        });
        let plan = outgoing(Some(50_000.0), Nanos::from_millis(50));
        let incoming = Incoming { cookie: Some(7), flows: 1 };
        let near = rings(near);
        begun.wait();
        let totals = run(&near, &MonotonicRaw, Some(&plan), Some(&incoming), &mut Turns(u64::MAX)).unwrap();
        stop.store(true, Ordering::Release);
        // Without this end a receive of the other is an error.
        let away = back.join().unwrap();
        drop(near);
        (totals, away)
    })
}

#[test]
fn a_sender_counts_returning_frames() {
    // The run ends without frames that another thread, off its core for 20 ms, has not sent back.
    let at_work = |(_, away): &(Totals, Duration)| *away < Duration::from_millis(10);
    let (all, away) = (0..4).map(|_| there_and_back()).find(at_work).unwrap_or_else(there_and_back);
    assert!(all.sent.frames > 100 && all.came.frames == all.sent.frames, "{all:?}, away for {away:?}");
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
fn counting_ends_although_the_sender_goes_on() {
    for cookie in [None, Some(7)] {
        let (near, far) = pairs(1);
        let (far, ended) = (rings(far), AtomicBool::new(false));
        let plan = outgoing(Some(20_000.0), Nanos::from_secs(60));
        thread::scope(|scope| {
            let sender = scope.spawn(|| run(&rings(near), &MonotonicRaw, Some(&plan), None, &mut Until(&ended)).unwrap());
            run(&far, &MonotonicRaw, None, Some(&Incoming { cookie, flows: 1 }), &mut Turns(100)).unwrap();
            ended.store(true, Ordering::Release);
            let sent = sender.join().unwrap().sent;
            assert!(sent.duration < Nanos::from_secs(30), "{sent:?}");
        });
    }
}

#[test]
fn a_failed_ring_leaves_the_counts_until_then() {
    /// Drops the other end before the second turn.
    struct Dropping {
        other: Vec<MemoryIo>,
        turns: u32,
        failed: Option<Totals>,
    }
    impl Monitor for Dropping {
        fn stop(&mut self) -> bool {
            self.turns += 1;
            if self.turns == 2 {
                self.other.clear();
            }
            false
        }
        fn failed(&mut self, totals: &Totals) {
            self.failed = Some(*totals);
        }
    }
    let (near, other) = pairs(1);
    let mut monitor = Dropping { other, turns: 0, failed: None };
    let plan = outgoing(None, Nanos::from_secs(3600));
    let error = run(&rings(near), &MonotonicRaw, Some(&plan), None, &mut monitor).unwrap_err();
    assert!(matches!(error, StreamError::Send(SendError::Kick(_))), "{error}");
    assert_eq!(monitor.failed.map(|totals| totals.sent.frames), Some(BATCH));
}

#[test]
fn nothing_is_due_while_the_clock_reads_back() {
    let (near, _far) = pairs(1);
    let (near, start) = (rings(near), MonotonicRaw.now());
    let plan = outgoing(Some(1_000_000.0), Nanos::from_secs(1));
    let mut sending = Sending::new(&near, &plan, &MonotonicRaw, start).unwrap();
    // A frame is due each microsecond, and at most a batch is sent at once.
    for (ns, frames) in [(50_500, 32), (10_500, 32), (60_500, 60)] {
        sending.turn(start.plus(ns)).unwrap();
        assert_eq!(sending.sent.frames, frames, "{ns} ns after the start");
    }
}

fn frame(flow: u16, cookie: u64, sequence: u32) -> Vec<u8> {
    let mut frame = vec![0; 60];
    frame[12..14].copy_from_slice(&raw::ETHERTYPE.to_be_bytes());
    frame[14..30].copy_from_slice(&Header { shape: Shape::Own, hops: 0, flow, cookie }.encode(30).unwrap());
    probe::write(&mut frame[30..], sequence, cookie);
    frame
}

#[test]
fn frames_of_another_thread_do_not_stand_for_own_ones() {
    let mut counting = Counting::new(&Incoming { cookie: Some(7), flows: 2 }, &MonotonicRaw);
    counting.frame(&frame(0, 7, 0), Ticks(1));
    assert!(counting.has_all(1, &(0..1)) && !counting.has_all(2, &(0..1)));
    counting.frame(&frame(1, 7, 0), Ticks(2));
    assert!(counting.has_all(2, &(0..2)) && !counting.has_all(2, &(0..1)) && !counting.has_all(1, &(1..2)));
}

#[test]
fn follows_the_next_sender_after_the_first_falls_silent() {
    let plan = Incoming { cookie: None, flows: 1 };
    let mut counting = Counting::new(&plan, &MonotonicRaw);
    let frame = |cookie, sequence| frame(0, cookie, sequence);
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
