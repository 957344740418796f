use super::*;

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use hairpin_sys::clock::{Clock, Tsc};
use hairpin_units::Picos;
use proptest::prelude::*;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::ring::{Received, Ring, RingConfig, SendError, Wait};

/// Far longer than any step takes on a busy machine.
const LONG: Duration = Duration::from_secs(5);

fn small() -> Config {
    Config { ring_entries: 16, chunks: 64, ..Config::default() }
}

/// The time-stamp counter; a test without one prints that it is skipped, or fails where it must run.
pub(super) fn tsc() -> Option<Tsc> {
    let tsc = Tsc::calibrate();
    if let Err(why) = &tsc {
        // Past the harness, which swallows the output of passed tests.
        let _ = writeln!(io::stderr(), "niq: a latency: SKIPPED: {why}");
        assert!(std::env::var("HAIRPIN_MUST_RUN").as_deref() != Ok("1"), "{why}");
    }
    tsc.ok()
}

/// Out, link and rest, in ns, for frames of every length.
fn timed(out: i64, link: i64, rest: i64) -> Option<(Config, Tsc)> {
    let clock = tsc()?;
    let ns = |ns: i64| Picos(1_000 * ns);
    let timing = Timing::new(clock, LONGEST, |_| Delay { out: ns(out), link: ns(link), rest: ns(rest) }).unwrap();
    Some((Config { timing: Some(timing), ..small() }, clock))
}

fn put(io: &mut Port, frames: &mut Vec<Frame>, bytes: &[u8]) {
    let mut frame = io.pool().take().unwrap();
    frame.set_len(bytes.len());
    io.umem().bytes_mut(&mut frame).copy_from_slice(bytes);
    frames.push(frame);
}

fn send(io: &mut Port, bytes: &[u8]) {
    let mut frames = Vec::new();
    put(io, &mut frames, bytes);
    assert_eq!(io.tx_batch(&mut frames), 1);
    assert_eq!(io.kick(Kick::Send).unwrap(), Kicked::Done);
}

/// The frames that have arrived; the chunks go back.
fn receive(io: &mut Port) -> Vec<Vec<u8>> {
    let mut arrivals = Vec::new();
    io.rx_batch(&mut arrivals, 64);
    let umem = io.umem().clone();
    let taken = arrivals.drain(..).map(|arrival| {
        let bytes = umem.bytes(&arrival.frame).to_vec();
        io.pool().give(arrival.frame);
        bytes
    });
    taken.collect()
}

fn readable(io: &Port) -> bool {
    let descriptor = io.waitable();
    let mut fds = [PollFd::new(&descriptor, PollFlags::IN)];
    poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() == 1
}

#[test]
fn frames_of_every_length_arrive_after_a_kick_and_pcie_is_counted() {
    let (mut one, mut other) = pair(&small()).unwrap();
    let mut frames = Vec::new();
    for len in (0..300).chain(8_990..=9_000) {
        let bytes: Vec<u8> = (0..len).map(|at| (at * 7 + len) as u8).collect();
        let (before, before_there) = (one.pcie(), other.pcie());
        put(&mut one, &mut frames, &bytes);
        assert_eq!((one.tx_batch(&mut frames), receive(&mut other).len()), (1, 0));
        one.kick(Kick::Send).unwrap();
        assert_eq!(receive(&mut other), [bytes]);
        let (after, after_there) = (one.pcie(), other.pcie());
        let large = u64::from(len > 60);
        let packets = large * (len as u64).div_ceil(256);
        assert_eq!(after.posted_writes - before.posted_writes, 1);
        assert_eq!(after_there.reads - before_there.reads, 1);
        assert_eq!(after.descriptor_fetches - before.descriptor_fetches, large);
        assert_eq!((after.dma_reads - before.dma_reads, after_there.dma_writes - before_there.dma_writes), (packets, packets));
    }
    assert_eq!((one.pool().available(), other.pool().available()), (64, 64));
    assert_eq!((one.wake_ups(), one.no_credit()), (0, 0), "a polling side makes no system call");
}

#[test]
fn refuses_and_counts_frames_longer_than_the_device_allows() {
    let config = Config { longest_frame: 100, ..small() };
    let (mut one, mut other) = pair(&config).unwrap();
    let mut frames = Vec::new();
    for len in [100, 101, 60] {
        put(&mut one, &mut frames, &vec![len as u8; len]);
    }
    assert_eq!((one.tx_batch(&mut frames), frames.len()), (3, 0));
    one.kick(Kick::Send).unwrap();
    assert_eq!(receive(&mut other), [vec![100; 100], vec![60; 60]]);
    assert_eq!((one.counters().tx_invalid, one.pool().available()), (1, 64));
    for longest_frame in [59, 9_001] {
        let error = pair(&Config { longest_frame, ..small() }).unwrap_err();
        assert!(matches!(error, PortError::Shared(MemoryError::Layout(_))), "{error}");
    }
}

#[test]
fn frames_wait_for_credits() {
    for len in [60, 61] {
        let (mut one, mut other) = pair(&small()).unwrap();
        let mut frames = Vec::new();
        for number in 0..40 {
            put(&mut one, &mut frames, &vec![number; len]);
        }
        assert_eq!((one.tx_batch(&mut frames), one.tx_batch(&mut frames)), (16, 0));
        assert_eq!(one.no_credit(), 2);
        one.kick(Kick::Send).unwrap();
        let mut got = Vec::new();
        while got.len() < 40 {
            got.extend(receive(&mut other).iter().map(|bytes| bytes[0]));
            one.tx_batch(&mut frames);
            one.kick(Kick::Send).unwrap();
        }
        assert_eq!(got, (0..40).collect::<Vec<_>>());
    }
}

#[test]
fn a_dropped_peer_is_enetdown_after_its_last_frame() {
    let (mut one, mut other) = pair(&small()).unwrap();
    send(&mut other, &[1; 60]);
    drop(other);
    assert!(one.kick(Kick::Receive).is_ok(), "its last frame is still there");
    assert_eq!(receive(&mut one), [[1; 60]]);
    let mut frames = Vec::new();
    put(&mut one, &mut frames, &[1; 60]);
    assert_eq!(one.tx_batch(&mut frames), 1);
    let down = |result: io::Result<Kicked>| result.unwrap_err().raw_os_error() == Some(Errno::NETDOWN.raw_os_error());
    assert!(down(one.kick(Kick::Send)) && down(one.kick(Kick::Receive)));
}

#[test]
fn refused_sends_leave_the_last_frames_of_a_dropped_peer() {
    // With every line free, and with lines and slots that the peer never took.
    for untaken in [0, 16] {
        let (mut one, mut other) = pair(&small()).unwrap();
        (0..3).for_each(|number| send(&mut other, &[number; 60]));
        (0..untaken).for_each(|_| send(&mut one, &[8; 61]));
        drop(other);
        let ring = Ring::new(one, hairpin_sys::clock::MonotonicRaw, RingConfig::default());
        let down = |error: &io::Error| error.raw_os_error() == Some(Errno::NETDOWN.raw_os_error());
        // More than there are lines.
        for _ in 0..40 {
            assert!(matches!(ring.sender().inject(&[9; 60]), Err(SendError::Kick(error)) if down(&error)));
        }
        for number in 0..3u8 {
            let Received::Got(frame) = ring.recv(0).unwrap() else { panic!("frame {number} is there") };
            assert_eq!(frame[..], [number; 60]);
        }
        assert!(down(&ring.recv(LONG.as_millis() as i32).unwrap_err()));
    }
}

/// A process that was killed closes nothing in the shared memory; the kernel closes its socket. It may have rung before.
#[test]
fn a_killed_peer_ends_a_sleep() {
    let (mut ports, descriptors) = Port::create(&small()).unwrap();
    let one = ports.pop().unwrap();
    assert!(!readable(&one));
    rustix::net::send(&descriptors[1], &[1], rustix::net::SendFlags::empty()).unwrap();
    drop(descriptors);
    let ring = Ring::new(one, hairpin_sys::clock::MonotonicRaw, RingConfig { wait: Wait::Block, ..RingConfig::default() });
    let start = Instant::now();
    let error = ring.recv(LONG.as_millis() as i32).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(Errno::NETDOWN.raw_os_error()));
    assert!(start.elapsed() < LONG);
}

#[test]
fn a_peer_that_died_holding_credits_leaves_a_full_ring() {
    let (mut ports, descriptors) = Port::create(&small()).unwrap();
    let mut one = ports.pop().unwrap();
    let mut frames = Vec::new();
    for _ in 0..40 {
        put(&mut one, &mut frames, &[1; 60]);
    }
    for _ in 0..5 {
        one.tx_batch(&mut frames);
        one.kick(Kick::Send).unwrap();
    }
    assert_eq!((frames.len(), one.no_credit()), (24, 5));
    drop(descriptors);
    assert_eq!((one.tx_batch(&mut frames), one.counters().tx_frames), (0, 16));
}

#[test]
fn the_descriptor_is_readable_only_when_a_frame_has_arrived() {
    let (mut one, mut other) = pair(&small()).unwrap();
    for wake_ups in 1..4 {
        assert!(!readable(&other) && !readable(&other));
        send(&mut one, &[1; 60]);
        assert!(readable(&other) && readable(&other));
        assert_eq!(one.wake_ups(), wake_ups);
        assert_eq!(receive(&mut other).len(), 1);
        // Nobody waits for this one: no system call.
        other.receives.armed().disarm();
        send(&mut one, &[1; 60]);
        assert_eq!(one.wake_ups(), wake_ups);
        assert!(readable(&other));
        assert_eq!(receive(&mut other).len(), 1);
        other.receives.armed().disarm();
    }
}

#[test]
fn a_ring_that_comes_late_keeps_nobody_awake() {
    let (mut one, other) = pair(&small()).unwrap();
    assert!(!readable(&other));
    // Its frame was received without it.
    one.bell.ring();
    assert!(!readable(&other));
}

#[test]
fn misses_no_wake_up() {
    fn sleep_and_take(io: &mut Port) {
        while receive(io).is_empty() {
            let descriptor = io.waitable();
            let mut fds = [PollFd::new(&descriptor, PollFlags::IN)];
            let woken = poll(&mut fds, Some(&Timespec { tv_sec: 5, tv_nsec: 0 })).unwrap();
            assert_eq!(woken, 1, "a frame arrived and woke no one");
        }
    }
    let (mut one, mut other) = pair(&small()).unwrap();
    let echo = std::thread::spawn(move || {
        for _ in 0..10_000 {
            sleep_and_take(&mut other);
            send(&mut other, &[1; 60]);
        }
    });
    for n in 0..10_000 {
        send(&mut one, &[1; 60]);
        // The pause varies, so that the reply comes before, during and after falling asleep.
        for _ in 0..n % 512 {
            std::hint::spin_loop();
        }
        sleep_and_take(&mut one);
    }
    echo.join().unwrap();
}

#[test]
fn queues_are_separate() {
    let config = Config { queues: 3, ..small() };
    let (mut ones, descriptors) = Port::create(&config).unwrap();
    assert_eq!(descriptors.len(), 4);
    let mut others = Port::open(descriptors, &small()).unwrap();
    for (queue, one) in (0..).zip(&mut ones) {
        assert_eq!((one.granted().queue, one.granted().queues), (queue, 3));
        send(one, &[queue as u8; 60]);
    }
    for (queue, other) in (0..).zip(&mut others) {
        assert_eq!(receive(other), [[queue; 60]]);
    }
}

#[test]
fn applies_the_filter() {
    let (mut one, mut other) = pair(&Config { filter: Filter::Ethertype(0x88b5), ..small() }).unwrap();
    for ethertype in [[8, 0], [0x88, 0xb5]] {
        let mut bytes = [0; 60];
        bytes[12..14].copy_from_slice(&ethertype);
        send(&mut one, &bytes);
    }
    assert_eq!((receive(&mut other).len(), other.pool().available()), (1, 64));
}

#[test]
fn checks_the_other_sides_descriptors() {
    let Some((timed, _)) = timed(0, 0, 0) else { return };
    let refusal = |descriptors, config: &Config| Port::open(descriptors, config).unwrap_err().to_string();
    let made = |config: &Config| Port::create(config).unwrap().1;
    assert!(refusal(Vec::new(), &small()).contains("pass on all"));
    let mut short = made(&small());
    short.pop();
    assert!(refusal(short, &small()).contains("handed over as 2 descriptors, not 1"));
    let mut swapped = made(&small());
    swapped.swap(0, 1);
    assert!(refusal(swapped, &small()).contains("sealed against"));
    let mut pipe = made(&small());
    pipe[1] = std::io::pipe().unwrap().1.into();
    assert!(refusal(pipe, &small()).contains("not a UNIX stream socket"));
    assert!(refusal(made(&small()), &timed).contains("the other declares none"));
    assert!(refusal(made(&timed), &small()).contains("the other declares none"));
    let few = Timing::new(Tsc::calibrate().unwrap(), 1514, |_| Delay { out: Picos(0), link: Picos(0), rest: Picos(0) }).unwrap();
    let few = Config { timing: Some(few), ..small() };
    assert!(refusal(made(&timed), &few).contains("declared for frames up to 1514 bytes"));
}

#[test]
fn returns_frames_when_due_and_in_order() {
    let Some((config, clock)) = timed(1_000, 300, 500) else { return };
    // Stalls only make it later; the least of many shows the deadline itself, and what the program takes without one.
    let (mut first, mut tenth, mut own) = (u64::MAX, u64::MAX, u64::MAX);
    let (mut one, mut other) = pair(&small()).unwrap();
    for _ in 0..200 {
        own = own.min(ten(&mut one, &mut other, clock)[9].1);
    }
    let (mut one, mut other) = pair(&config).unwrap();
    for _ in 0..200 {
        let got = ten(&mut one, &mut other, clock);
        // Each waits for those before it on the link.
        for (number, at) in &got {
            assert!(*at + 1 >= 1_500 + 300 * u64::from(*number), "{got:?}");
        }
        (first, tenth) = (first.min(got[0].1), tenth.min(got[9].1));
    }
    // On a slow or shared core its own part takes longer than the margin.
    let slack = 200 + own;
    assert!(first < 1_500 + slack && tenth < 1_500 + 2_700 + slack, "{first} {tenth}, own {own}");
}

/// Sends ten numbered frames, and returns the number of each with the time in ns at which it came.
fn ten(one: &mut Port, other: &mut Port, clock: Tsc) -> Vec<(u8, u64)> {
    let mut frames = Vec::new();
    for number in 0..10 {
        put(one, &mut frames, &[number; 60]);
    }
    let start = clock.now();
    one.tx_batch(&mut frames);
    one.kick(Kick::Send).unwrap();
    let mut got = Vec::new();
    while got.len() < 10 {
        got.extend(receive(other).into_iter().map(|bytes| (bytes[0], clock.to_ns(clock.now().since(start)))));
    }
    assert!(got.iter().map(|(number, _)| *number).eq(0..10));
    got
}

#[test]
fn waits_for_a_frame_although_a_shorter_one_behind_it_is_due() {
    let Some(clock) = tsc() else { return };
    let rest = |len: usize| Picos(if len > 60 { 900_000 } else { 0 });
    let timing = Timing::new(clock, LONGEST, |len| Delay { out: Picos(0), link: Picos(0), rest: rest(len) }).unwrap();
    let (mut one, mut other) = pair(&Config { timing: Some(timing), ..small() }).unwrap();
    for _ in 0..200 {
        let mut frames = Vec::new();
        put(&mut one, &mut frames, &[1; 61]);
        put(&mut one, &mut frames, &[2; 60]);
        let start = clock.now();
        one.tx_batch(&mut frames);
        one.kick(Kick::Send).unwrap();
        let mut got = Vec::new();
        while got.len() < 2 {
            got.extend(receive(&mut other).into_iter().map(|bytes| (bytes[0], clock.to_ns(clock.now().since(start)))));
        }
        assert!(got[0].0 == 1 && got[0].1 + 1 >= 900 && got[1].0 == 2, "{got:?}");
    }
}

#[test]
fn does_not_wait_for_a_frame_far_in_the_future() {
    let Some((config, clock)) = timed(0, 0, 3_000_000) else { return };
    let (mut one, mut other) = pair(&config).unwrap();
    let start = clock.now();
    send(&mut one, &[1; 60]);
    let mut looks = 0;
    while receive(&mut other).is_empty() {
        looks += 1;
    }
    let took = clock.to_ns(clock.now().since(start));
    assert!(looks > 1 && took >= 2_999_000, "{looks} looks, {took} ns");
    assert!(other.counters().rx_invalid == 0 && one.pool().available() == 64);
}

/// A port, and the file of its memory, into which a hostile other side writes anything.
fn hostile(config: &Config) -> (Port, File, Vec<OwnedFd>) {
    let (mut ports, mut descriptors) = Port::create(config).unwrap();
    let memory = File::from(descriptors.remove(0));
    (ports.pop().unwrap(), memory, descriptors)
}

#[test]
fn an_impossible_deadline_does_not_hang() {
    let Some((config, _)) = timed(1_000, 100, 1_000) else { return };
    let (mut ports, descriptors) = Port::create(&config).unwrap();
    let memory = File::from(descriptors[0].try_clone().unwrap());
    let mut other = Port::open(descriptors, &config).unwrap().pop().unwrap();
    let mut one = ports.pop().unwrap();
    send(&mut other, &[1; 60]);
    // Overwrites the bytes behind the lane's lines, where its deadlines are.
    let mut bytes = vec![0; memory.metadata().unwrap().len() as usize];
    memory.read_exact_at(&mut bytes, 0).unwrap();
    let at = bytes.windows(60).position(|window| window == [1; 60]).unwrap() - 4;
    memory.write_all_at(&[0xff; 16 * 8], at as u64 + (16 + 6) * 64).unwrap();
    assert_eq!((receive(&mut one).len(), one.counters().rx_invalid), (0, 1));
    send(&mut other, &[2; 60]);
    let due = Instant::now() + LONG;
    let mut got = Vec::new();
    while got.is_empty() && Instant::now() < due {
        got = receive(&mut one);
    }
    assert_eq!(got, [[2; 60]]);
}

#[derive(Clone, Debug)]
enum Act {
    Send(usize),
    Kick,
    Receive,
    Ask,
    /// Words over all of the memory behind the header.
    Scribble(u64),
    /// A line that is right, or almost: its place, and the difference of its header from the expected one.
    Forge(u32, u32),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        (0usize..9_100).prop_map(Act::Send),
        Just(Act::Kick),
        Just(Act::Receive),
        Just(Act::Ask),
        any::<u64>().prop_map(Act::Scribble),
        (0u32..16, prop_oneof![Just(0), any::<u32>()]).prop_map(|(at, change)| Act::Forge(at, change)),
    ];
    proptest::collection::vec(act, 1..60)
}

/// Performs `acts`. Whatever the other side writes, only valid frames are delivered and no chunk is lost.
fn survives(config: &Config, acts: &[Act]) {
    let (mut io, memory, _sockets) = hostile(config);
    let length = memory.metadata().unwrap().len();
    // The second lane is the one that this side receives from.
    let lane = 4096 + (length - 4096) / 2;
    let mut random = 1u64;
    for act in acts {
        match *act {
            Act::Send(len) => {
                let Some(mut frame) = io.pool().take() else { continue };
                frame.set_len(len);
                let mut frames = vec![frame];
                io.tx_batch(&mut frames);
                frames.drain(..).for_each(|frame| io.pool().give(frame));
            }
            Act::Kick => {
                let _ = (io.kick(Kick::Send), io.kick(Kick::Receive));
            }
            Act::Receive => {
                for bytes in receive(&mut io) {
                    assert!(bytes.len() <= LONGEST);
                }
            }
            Act::Ask => {
                readable(&io);
            }
            Act::Scribble(seed) => {
                random = random.wrapping_add(seed);
                let mut bytes = vec![0; (length - 4096) as usize];
                for word in bytes.as_chunks_mut::<8>().0 {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    *word = (random ^ random >> 29).to_le_bytes();
                }
                memory.write_all_at(&bytes, 4096).unwrap();
            }
            Act::Forge(ahead, change) => {
                let number = io.driver.awaited().wrapping_add(ahead);
                let header = (number << 16 | 1 << 15 | 60) ^ change;
                memory.write_all_at(&header.to_le_bytes(), lane + u64::from(number % 16) * 64).unwrap();
            }
        }
    }
    assert_eq!(io.pool().available(), 64);
}

/// The forger of the tests below can also make valid headers.
#[test]
fn accepts_a_right_header_and_counts_a_wrong_length_as_invalid() {
    let (mut io, memory, _sockets) = hostile(&small());
    let lane = 4096 + (memory.metadata().unwrap().len() - 4096) / 2;
    for (number, (length, sound)) in
        (0u32..).zip([(60, true), (61, false), (16_383, false), (0, true), (16_384 | 9_000, true), (16_384 | 9_001, false)])
    {
        let header = number << 16 | 1 << 15 | length;
        memory.write_all_at(&header.to_le_bytes(), lane + u64::from(number) * 64).unwrap();
        let invalid = io.counters().rx_invalid;
        let got: Vec<usize> = receive(&mut io).iter().map(Vec::len).collect();
        assert_eq!((got.len(), io.counters().rx_invalid - invalid), (usize::from(sound), u64::from(!sound)), "{length}");
        assert!(got.iter().all(|len| *len == length as usize & 0x3fff));
    }
}

/// The other side's thread writes over the lines while this one reads them.
#[test]
fn a_peer_that_writes_during_reads_breaks_nothing() {
    let (mut io, memory, _sockets) = hostile(&small());
    let length = memory.metadata().unwrap().len();
    let lane = 4096 + (length - 4096) / 2;
    let scribbler = std::thread::spawn(move || {
        for number in 0..200_000u32 {
            let mut line = [number as u8; 64];
            line[..4].copy_from_slice(&((number / 7) << 16 | 1 << 15 | (number % 3) << 14 | (number % 64)).to_le_bytes());
            memory.write_all_at(&line, lane + u64::from(number / 7 % 16) * 64).unwrap();
        }
    });
    let mut delivered = 0;
    while !scribbler.is_finished() {
        for bytes in receive(&mut io) {
            assert!(bytes.len() <= LONGEST);
            delivered += 1;
        }
    }
    scribbler.join().unwrap();
    assert_eq!((io.pool().available(), delivered), (64, io.counters().rx_frames));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn hostile_peer_breaks_nothing(acts in acts()) {
        survives(&Config { longest_frame: 9_000, ..small() }, &acts);
    }

    #[test]
    fn nor_where_times_are_emulated(acts in acts()) {
        if let Some((config, _)) = timed(100, 67, 300) {
            survives(&config, &acts);
        }
    }
}
