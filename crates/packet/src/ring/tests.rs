use std::io::IoSlice;
use std::num::NonZeroU32;
use std::time::Instant;

use hairpin_sys::clock::{FakeClock, MonotonicRaw};
use proptest::prelude::*;

use super::*;
use crate::bounce::{Bounce, BounceConfig};
use crate::device::Config;
use crate::fault::{Fault, Faults};
use crate::memory::{MemoryIo, pair};
use crate::pcap::PcapOut;
use crate::tracer::Tracer;

fn rings<C: Clock>(chunks: u32, entries: u32, clock: C, config: RingConfig) -> (Ring<MemoryIo, C>, Ring<MemoryIo, C>) {
    let (one, other) = pair(&Config { ring_entries: entries, chunks, ..Config::default() }).unwrap();
    (Ring::new(one, clock.clone(), config), Ring::new(other, clock, config))
}

fn got<T: std::fmt::Debug>(received: io::Result<Received<T>>) -> T {
    match received.unwrap() {
        Received::Got(it) => it,
        other => panic!("{other:?}"),
    }
}

fn sent(injected: Result<Injected, SendError>) {
    assert_eq!(injected.unwrap(), Injected::Sent);
}

fn available(ring: &Ring<MemoryIo, impl Clock>) -> usize {
    ring.with_io(|io| io.pool().available())
}

#[test]
fn a_frame_goes_out_and_comes_back_in_place() {
    let (one, other) = rings(8, 4, FakeClock::default(), RingConfig::default());
    sent(one.sender().inject(&[7; 100]));
    let mut lease = got(other.recv(0));
    assert_eq!((&*lease, lease.time(), lease.hash(), lease.queue()), (&[7; 100][..], None, None, 0));
    lease[0] = 8;
    assert_eq!((other.held(), available(&other)), (1, 7));
    assert!(lease.send_back().unwrap().is_none());
    assert_eq!((other.held(), available(&other)), (0, 8));
    let mut copy = vec![1; 3];
    got(one.recv(0)).copy_out(&mut copy);
    assert_eq!((copy[0], copy[1], copy.len()), (8, 7, 100));
    assert_eq!((available(&one), one.counters().kicks, other.counters().kicks), (8, 1, 1));
}

#[test]
fn pads_short_frames_and_rejects_long_ones_with_the_limit() {
    let (one, other) = rings(8, 4, FakeClock::default(), RingConfig::default());
    let sender = one.sender();
    // Old contents of chunks must not be sent.
    for _ in 0..8 {
        sent(sender.inject(&[255; 1514]));
        drop(got(other.recv(0)));
    }
    sent(sender.inject(&[1; 14]));
    sent(sender.inject_vectored(&[IoSlice::new(&[2; 10]), IoSlice::new(&[]), IoSlice::new(&[3; 20])]));
    let mut slot = sender.reserve(5).unwrap().unwrap();
    slot.copy_from_slice(b"slot!");
    slot.commit().unwrap();
    let expected: [&[&[u8]]; 3] = [&[&[1; 14], &[0; 46]], &[&[2; 10], &[3; 20], &[0; 30]], &[b"slot!", &[0; 55]]];
    for parts in expected {
        assert_eq!(&*got(other.recv(0)), parts.concat());
    }
    for error in [sender.inject(&[0; 1515]).unwrap_err(), sender.reserve(1515).unwrap_err()] {
        let text = "a frame of 1515 bytes is too long: this ring sends up to 1514 bytes, Ethernet header included, FCS not";
        assert_eq!(error.to_string(), text);
    }
    assert_eq!((sender.longest(), available(&one), one.held()), (1514, 8, 0));
}

#[test]
fn an_empty_ring_and_a_timeout_are_values() {
    for wait in [Wait::Spin, Wait::BusyPoll, Wait::Block, Wait::Adaptive { spin: Duration::from_micros(100) }] {
        let (one, other) = rings(8, 4, MonotonicRaw, RingConfig { wait, ..RingConfig::default() });
        assert!(matches!(one.recv(0), Ok(Received::WouldBlock)));
        let start = Instant::now();
        assert!(matches!(one.recv(3), Ok(Received::Expired)), "{wait:?}");
        assert!(start.elapsed() >= Duration::from_millis(3), "{wait:?}");
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for n in 0..12 {
                    if n % 4 == 0 {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                    assert_eq!(got(other.recv(-1))[0], n);
                    sent(other.sender().inject(&[n; 60]));
                }
            });
            for n in 0..12 {
                sent(one.sender().inject(&[n; 60]));
                assert_eq!(got(one.recv(5_000))[0], n, "{wait:?}");
            }
        });
    }
}

#[test]
fn the_hold_limit_is_a_value_and_loses_no_frame() {
    let (one, other) = rings(16, 16, FakeClock::default(), RingConfig { hold: Some(3), ..RingConfig::default() });
    for n in 0..5 {
        sent(one.sender().inject(&[n; 60]));
    }
    let mut leases = Vec::new();
    assert_eq!(got(other.recv_batch(&mut leases, 9, 0)), 3);
    assert!(matches!(other.recv(-1), Ok(Received::HoldLimit)));
    assert!(other.sender().reserve(60).unwrap().is_none(), "a slot is held too");
    assert_eq!((other.held(), other.counters().hold_limit), (3, 2));
    leases.remove(0);
    assert_eq!(got(other.recv(-1))[0], 3);
    leases.clear();
    assert_eq!(got(other.recv(-1))[0], 4);
    assert_eq!((other.held(), available(&other)), (0, 16));
    let slot = one.sender().reserve(60).unwrap();
    assert_eq!((one.held(), available(&one)), (1, 15));
    drop(slot);
    assert_eq!((one.held(), available(&one)), (0, 16));
}

#[test]
fn a_hold_limit_beyond_the_chunks_is_reached_with_the_last_chunk() {
    let every = Coalesce::Every(NonZeroU32::MAX);
    for hold in [5, u32::MAX] {
        let config = RingConfig { hold: Some(hold), coalesce: every, ..RingConfig::default() };
        let (one, other) = rings(4, 64, FakeClock::default(), config);
        for n in 0..5 {
            sent(one.sender().inject(&[n; 60]));
        }
        one.flush().unwrap();
        let mut leases = Vec::new();
        assert_eq!(got(other.recv_batch(&mut leases, 9, 0)), 4);
        assert!(matches!(other.recv(0), Ok(Received::HoldLimit)), "no chunk is left to receive into");
        leases.clear();
        assert_eq!(got(other.recv(0))[0], 4);
    }
}

#[test]
fn a_full_ring_is_a_value_and_its_frames_leave_later() {
    let (one, other) = rings(128, 4, FakeClock::default(), RingConfig::default());
    let mut taken = 0;
    while one.sender().inject(&[taken; 60]).unwrap() == Injected::Sent {
        taken += 1;
    }
    // The ring, and a batch.
    assert_eq!(taken, 4 + MOST as u8);
    for n in 0..taken {
        assert_eq!(got(other.recv(0))[0], n);
        // Any call retries the frames that stayed.
        assert!(matches!(one.recv(0), Ok(Received::WouldBlock)));
    }
    assert!(matches!(other.recv(0), Ok(Received::WouldBlock)));
    assert_eq!((available(&one), available(&other)), (128, 128));
}

#[test]
fn a_full_ring_returns_the_lease() {
    let (one, other) = rings(128, 2, FakeClock::default(), RingConfig::default());
    let mut back = 0;
    let refused = loop {
        sent(one.sender().inject(&[back; 60]));
        match got(other.recv(0)).send_back().unwrap() {
            None => back += 1,
            Some(lease) => break lease,
        }
    };
    assert_eq!((refused[0], back), (back, 2 + MOST as u8));
    drop(refused);
    for n in 0..back {
        assert_eq!(got(one.recv(0))[0], n);
        assert!(matches!(other.recv(0), Ok(Received::WouldBlock)));
    }
    assert_eq!((available(&one), available(&other)), (128, 128));
}

#[test]
fn a_ring_without_free_chunks_is_full() {
    let (one, other) = rings(4, 64, FakeClock::default(), RingConfig { hold: Some(8), ..RingConfig::default() });
    let slots: Vec<_> = (0..4).map(|_| one.sender().reserve(60).unwrap().unwrap()).collect();
    assert_eq!(one.sender().inject(&[1; 60]).unwrap(), Injected::Full);
    drop(slots);
    sent(one.sender().inject(&[1; 60]));
    drop(got(other.recv(0)));
}

#[test]
fn fixed_batches_leave_when_full_flushed_or_before_a_wait() {
    let every = Coalesce::Every(NonZeroU32::new(4).unwrap());
    let (one, other) = rings(64, 32, FakeClock::stepping(100), RingConfig { coalesce: every, ..RingConfig::default() });
    let arrived = || {
        let mut leases = Vec::new();
        match other.recv_batch(&mut leases, 64, 0).unwrap() {
            Received::Got(frames) => frames,
            _ => 0,
        }
    };
    let mut seen = Vec::new();
    for _ in 0..5 {
        sent(one.sender().inject(&[1; 60]));
        seen.push(arrived());
    }
    one.sender().flush().unwrap();
    seen.push(arrived());
    sent(one.sender().inject(&[1; 60]));
    assert!(matches!(one.recv(0), Ok(Received::WouldBlock)));
    seen.push(arrived());
    assert!(matches!(one.recv(1), Ok(Received::Expired)));
    seen.push(arrived());
    assert_eq!((seen, one.counters().kicks), (vec![0, 0, 0, 4, 0, 1, 0, 1], 3));
}

#[test]
fn a_dropped_ring_returns_its_chunks_with_its_queue_pair() {
    let every = Coalesce::Every(NonZeroU32::new(9).unwrap());
    let (one, _other) = rings(8, 4, FakeClock::default(), RingConfig { coalesce: every, ..RingConfig::default() });
    sent(one.sender().inject(&[1; 60]));
    assert_eq!(one.into_io().pool().available(), 8);
}

#[test]
fn a_dropped_end_is_an_error_of_the_kick() {
    let (one, other) = rings(8, 4, FakeClock::default(), RingConfig::default());
    drop(other);
    // More than the ring has entries: what was refused is forgotten.
    for _ in 0..10 {
        assert!(matches!(one.sender().inject(&[1; 60]), Err(SendError::Kick(_))));
    }
    assert!(matches!(one.recv(0), Ok(Received::WouldBlock)));
    for wait in [Wait::Spin, Wait::Block] {
        let (one, other) = rings(8, 4, MonotonicRaw, RingConfig { wait, ..RingConfig::default() });
        drop(other);
        assert!(one.recv(10_000).is_err(), "{wait:?}: nothing can come any more");
    }
}

#[test]
fn paced_frames_start_a_delay_apart_and_report_lateness() {
    let clock = FakeClock::stepping(10);
    let (one, other) = rings(64, 32, clock.clone(), RingConfig::default());
    let mut sender = one.sender();
    let mut late = |delay| sender.inject_at(&[1; 60], Duration::from_nanos(delay)).unwrap().unwrap().0;
    assert_eq!(late(1_000), 0, "the first has nothing to wait for");
    let start = clock.now().0;
    assert_eq!((late(1_000), late(1_000)), (0, 0));
    assert!((1_980..2_040).contains(&(clock.now().0 - start)));
    clock.advance(1_500);
    assert!((500..540).contains(&late(1_000)));
    assert!(late(1_000) < 20, "what was late is not made up for");
    let mut leases = Vec::new();
    assert_eq!(got(other.recv_batch(&mut leases, 9, 0)), 5);
}

#[test]
fn adaptive_kicks_rare_frames_at_once_and_counts_late_ones() {
    let clock = FakeClock::default();
    let config = RingConfig { coalesce: Coalesce::ADAPTIVE, ..RingConfig::default() };
    let (one, other) = rings(64, 32, clock.clone(), config);
    for _ in 0..100 {
        clock.advance(20_000);
        sent(one.sender().inject(&[1; 60]));
        drop(got(other.recv(0)));
    }
    assert_eq!((one.counters().kicks, one.counters().over_bound), (100, 0));
}

#[test]
fn a_ring_is_send_and_not_sync() {
    fn send<T: Send>(_: &T) {}
    let (one, _) = rings(8, 4, FakeClock::default(), RingConfig::default());
    send(&one);
    // Not Sync: `told` would be ambiguous, and this no program, if it were.
    trait Shared<A> {
        fn told(&self) {}
    }
    struct IfSync;
    impl<T> Shared<()> for T {}
    impl<T: Sync> Shared<IfSync> for T {}
    one.told();
}

#[test]
fn frames_pass_without_an_allocation() {
    for coalesce in [Coalesce::Off, Coalesce::ADAPTIVE, Coalesce::Every(NonZeroU32::new(3).unwrap())] {
        let clock = FakeClock::stepping(30);
        let config = RingConfig { coalesce, ..RingConfig::default() };
        let (one, other) = pair(&Config { ring_entries: 64, chunks: 256, ..Config::default() }).unwrap();
        let one = Tracer::new(Fault::new(one, clock.clone(), Faults::default()).unwrap(), clock.clone(), 64);
        let one = Ring::new(one, clock.clone(), config);
        let other = Ring::new(PcapOut::new(other, std::io::sink()).unwrap(), clock.clone(), config);
        let (mut sender, mut scratch, mut leases) = (one.sender(), Vec::with_capacity(64), Vec::with_capacity(64));
        let mut bounce = Bounce::new(BounceConfig { repeats: Some(9), verify: true, ..BounceConfig::default() }).unwrap();
        let mut frames = 0;
        let mut round_trips = |count: u32| {
            for n in 0..count {
                let number = n.to_be_bytes();
                sent(sender.inject_vectored(&[IoSlice::new(&[2; 14]), IoSlice::new(&number)]));
                assert!(sender.inject_at(&[2; 60], Duration::from_nanos(100)).unwrap().is_some());
                let mut slot = sender.reserve(60).unwrap().unwrap();
                slot.fill(n as u8 & 0xfe);
                slot.commit().unwrap();
                one.flush().unwrap();
                let _ = bounce.turn(&other, &mut scratch, 64, 0).unwrap();
                other.flush().unwrap();
                if let Received::Got(batch) = one.recv_batch(&mut leases, 2, 0).unwrap() {
                    frames += batch;
                }
                leases.clear();
                while let Received::Got(_) = one.recv(0).unwrap() {
                    frames += 1;
                }
            }
        };
        round_trips(100);
        let allocated = allocation_counter::measure(|| round_trips(1_000));
        assert_eq!(allocated.count_total, 0, "{coalesce:?}");
        assert!(frames > 1_000, "{frames}");
    }
}

proptest! {
    /// Any sequence of calls: all frames arrive once and in order, all chunks return, and after a call no frame has waited for
    /// longer than the bound.
    #[test]
    fn any_schedule_of_calls_keeps_order_chunks_and_the_bound(
        calls in prop::collection::vec((0u8..7, 0u64..6_000), 1..200),
        coalesce in prop_oneof![Just(Coalesce::Off), Just(Coalesce::Every(NonZeroU32::new(5).unwrap())), Just(Coalesce::ADAPTIVE)],
        entries in 1u32..9,
    ) {
        let clock = FakeClock::default();
        let (one, other) = rings(96, entries, clock.clone(), RingConfig { coalesce, hold: Some(4), ..RingConfig::default() });
        let sender = one.sender();
        let (mut next, mut expected) = (0u32, 0u32);
        let mut in_batch_since: Vec<u64> = Vec::new();
        let mut leases = Vec::new();
        for (call, pause) in calls {
            clock.advance(pause);
            let now = clock.now().0;
            match call {
                0..=2 => if let Injected::Sent = sender.inject(&next.to_be_bytes()).unwrap() {
                    in_batch_since.push(now);
                    next += 1;
                },
                3 => if let Some(mut slot) = sender.reserve(64).unwrap() {
                    slot[..4].copy_from_slice(&next.to_be_bytes());
                    slot.commit().unwrap();
                    in_batch_since.push(now);
                    next += 1;
                },
                4 => drop(one.recv(0).unwrap()),
                5 => sender.flush().unwrap(),
                _ => {
                    leases.clear();
                    if let Received::Got(_) = other.recv_batch(&mut leases, 3, 0).unwrap() {
                        for lease in &leases {
                            prop_assert_eq!(&lease[..4], expected.to_be_bytes());
                            expected += 1;
                        }
                    }
                }
            }
            let core = one.core.borrow();
            in_batch_since.drain(..in_batch_since.len() - core.batch.len());
            if call < 6 && coalesce == Coalesce::ADAPTIVE && !core.busy {
                let first = in_batch_since.first();
                prop_assert!(first.is_none_or(|first| now - first <= MAX_DELAY.as_nanos() as u64));
            }
        }
        leases.clear();
        while expected < next {
            one.flush().unwrap();
            match other.recv(0).unwrap() {
                Received::Got(lease) => prop_assert_eq!(&lease[..4], expected.to_be_bytes()),
                nothing => prop_assert!(false, "{:?} of {} after {}", nothing, next, expected),
            }
            expected += 1;
        }
        prop_assert_eq!((available(&one), available(&other)), (96, 96));
        prop_assert_eq!(one.counters().io.tx_frames, other.counters().io.rx_frames);
    }
}
