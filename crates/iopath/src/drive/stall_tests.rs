//! A server that stalls, for any time and from any moment of a block on: every figure from due is that of a queue with one
//! server, which is worked out here request by request and shares no code with the loop.

use hairpin_plan::replay::Arrival;
use hairpin_plan::schedule::{Arrivals, OpenLoop, Schedule};
use hairpin_record::recorder::Recorder;
use hairpin_sys::clock::FakeClock;

use super::served::{SERVICE, Served};
use super::*;

const MS: u64 = 1_000_000;
const S: u64 = 1_000 * MS;
const STALLS_MS: [u64; 7] = [1, 10, 50, 150, 300, 1_000, 3_000];
/// Requests per second.
const RATE: u64 = 200;
/// Long enough to catch up after the longest stall.
const DURATION: u64 = 6 * S;

struct Forget;

impl BetweenBlocks for Forget {
    fn stopped(&self) -> bool {
        false
    }
    fn block(&mut self, _: &Recorder, _: &Counts, samples: &mut dyn Iterator<Item = Sample>) -> io::Result<()> {
        samples.for_each(drop);
        Ok(())
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Loops {
    Paced,
    Fixed,
    Poisson,
    Replayed,
}

/// Due time of every request.
fn dues(loops: Loops) -> Vec<u64> {
    match loops {
        Loops::Paced | Loops::Fixed => (1..DURATION * RATE / S).map(|n| n * S / RATE).collect(),
        Loops::Poisson => {
            let mut source = Schedule::poisson(RATE as f64, 64, 7).source();
            std::iter::from_fn(|| source.next()).map(|(due, _)| due.round() as u64).take_while(|due| *due < DURATION).collect()
        }
        // Bursts of three, 15 ms apart.
        Loops::Replayed => (0..DURATION / (15 * MS)).flat_map(|burst| [0, 1, 2].map(|n| burst * 15 * MS + n * 100_000)).collect(),
    }
}

fn pace(loops: Loops, clock: &FakeClock, sleeps: bool) -> Pace {
    let table = |schedule| Timetable::new(clock, schedule, sleeps);
    match loops {
        Loops::Paced => Pace::Every(table(Schedule::fixed(RATE as f64, 64))),
        Loops::Fixed => Pace::Open(table(Schedule::fixed(RATE as f64, 64))),
        Loops::Poisson => Pace::Open(table(Schedule::poisson(RATE as f64, 64, 7))),
        Loops::Replayed => {
            let arrivals: Vec<Arrival> = dues(loops).into_iter().map(|at_ns| Arrival { at_ns, size: 64 }).collect();
            let arrivals = Arrivals::Replay { file: Default::default(), arrivals: arrivals.into() };
            Pace::Open(table(OpenLoop { per_s: RATE as f64, arrivals, smallest: 64 }.share(0, 1, 64)))
        }
    }
}

/// Time from due to answered of a server that takes requests in order of due time and stalls from `from` for `long`.
fn queue(dues: &[u64], from: u64, long: u64) -> Vec<u64> {
    let mut free = 0;
    let answered = |due: &u64| {
        let ready = free.max(*due);
        free = if ready >= from { ready.max(from + long) } else { ready } + SERVICE;
        free - due
    };
    let mut times: Vec<u64> = dues.iter().map(answered).collect();
    times.sort_unstable();
    times
}

/// Compares to within 1 %.
fn close(found: u64, expected: u64) -> bool {
    found.abs_diff(expected) <= expected / 100
}

fn run<const L: bool>(loops: Loops, sleeps: bool, step: u64, from: u64, long: u64) -> LoopResult {
    let clock = FakeClock::stepping(step);
    let mut server = Served::<L>::new(&clock);
    let pace = pace(loops, &clock, sleeps);
    // The clock already stands at the start of measuring; building the timetable has read it.
    server.stall = Some((from, long));
    let outstanding = if loops == Loops::Paced { 1 } else { 64 };
    let duration_ns = Some(DURATION).filter(|_| loops != Loops::Replayed);
    let work = Work { outstanding, duration_ns, count: None, timeout_ns: 5 * S, ..Work::short(64, 64, 1) };
    drive(&mut server, &clock, pace, work, &mut Forget)
}

fn check(found: &LoopResult, expected: &[u64], what: &str) {
    let from_due = found.recorder.from_due().unwrap().quantiles();
    let count = expected.len() as u64;
    let mean = expected.iter().sum::<u64>() / count;
    // Rank as in HDR histograms: the least value with at least a share q of all values up to it.
    let rank = |q: f64| expected[((q * count as f64).ceil() as usize).clamp(1, expected.len()) - 1];
    assert!(matches!(found.end, LoopEnd::Done), "{what}: {:?}", found.end);
    assert_eq!((from_due.count, found.recorder.never()), (count, (0, 0)), "{what}");
    let pairs = [
        ("mean", from_due.mean.map(|mean| mean.round() as u64), mean),
        ("p50", from_due.p50, rank(0.5)),
        ("p90", from_due.p90, rank(0.9)),
        ("p99", from_due.p99, rank(0.99)),
        ("max", from_due.max, expected[expected.len() - 1]),
    ];
    for (name, found, expected) in pairs {
        assert!(found.is_some_and(|found| close(found, expected)), "{what}: {name} is {found:?} and should be {expected}");
    }
}

fn every_phase<const L: bool>(loops: Loops) {
    let dues = dues(loops);
    for long in STALLS_MS.map(|ms| ms * MS) {
        for phase in 0..20 {
            let from = S + phase * 5 * MS + 1_234;
            let what = format!("{loops:?}, lossy {L}, {} ms from {} ms on", long / MS, from / MS);
            let found = run::<L>(loops, true, 0, from, long);
            check(&found, &queue(&dues, from, long), &what);
            let lost = found.counts.lost;
            assert_eq!(lost, found.counts.late, "{what}: whatever was given up came later");
            // A stall from 100 ms on is reported as a silence, if requests were in flight for that time: the first one was due
            // up to 15 ms after the stall began.
            let told: Vec<u64> = found.silences.iter().map(|one| one.length_ns).collect();
            match long / MS {
                0..=50 => assert_eq!(told, [0; 0], "{what}"),
                _ => assert!(told.len() == 1 && (long - 40 * MS..=long + MS).contains(&told[0]), "{what}: {told:?}"),
            }
            assert!(found.silences.iter().all(|one| one.sent == one.answered && one.sent > 0), "{what}: {:?}", found.silences);
        }
    }
}

#[test]
fn paced_datagrams_show_every_stall_as_long_as_it_was() {
    every_phase::<true>(Loops::Paced);
}

#[test]
fn a_paced_stream_shows_every_stall_as_long_as_it_was() {
    every_phase::<false>(Loops::Paced);
}

#[test]
fn datagrams_at_a_fixed_rate_show_every_stall_as_long_as_it_was() {
    every_phase::<true>(Loops::Fixed);
}

#[test]
fn a_stream_at_a_fixed_rate_shows_every_stall_as_long_as_it_was() {
    every_phase::<false>(Loops::Fixed);
}

#[test]
fn datagrams_at_random_times_show_every_stall_as_long_as_it_was() {
    every_phase::<true>(Loops::Poisson);
}

#[test]
fn a_stream_at_random_times_shows_every_stall_as_long_as_it_was() {
    every_phase::<false>(Loops::Poisson);
}

#[test]
fn replayed_datagrams_show_every_stall_as_long_as_it_was() {
    every_phase::<true>(Loops::Replayed);
}

#[test]
fn a_replayed_stream_shows_every_stall_as_long_as_it_was() {
    every_phase::<false>(Loops::Replayed);
}

/// The clock advances by 20 us on each read.
#[test]
fn a_client_that_spins_sees_the_same() {
    for loops in [Loops::Paced, Loops::Fixed] {
        for (long, phase) in [(50, 0), (300, 35), (1_000, 95)] {
            let (from, long) = (S + phase * MS, long * MS);
            let found = run::<true>(loops, false, 20_000, from, long);
            let from_due = found.recorder.from_due().unwrap();
            let expected = queue(&dues(loops), from, long);
            // Between blocks, reading the clock is the loop's own work.
            let count = from_due.count() + found.recorder.left_out();
            assert!(count.abs_diff(expected.len() as u64) <= 2, "{count} and {}", expected.len());
            let max = expected[expected.len() - 1];
            // Here reading the clock takes time, which the queue's model leaves out.
            assert!(from_due.max().abs_diff(max) <= 10 * MS, "{} and {max}", from_due.max());
            let beyond = |times: &[u64]| times.iter().filter(|time| **time > 10 * MS).count() as f64;
            let share = 1.0 - from_due.share_up_to(10 * MS);
            let wanted = beyond(&expected) / expected.len() as f64;
            assert!((share - wanted).abs() <= 0.1 * wanted + 0.002, "{share} and {wanted}");
        }
    }
}

/// Without due times a stall is one round trip on a stream, and a stretch without an answer on any path.
#[test]
fn a_closed_loop_says_that_nothing_came() {
    for long in STALLS_MS.map(|ms| ms * MS) {
        for phase in 0..20 {
            let from = 250 * MS + phase * 5 * MS;
            let work = Work { duration_ns: Some(long + 450 * MS), count: None, timeout_ns: 5 * S, ..Work::short(64, 64, 1) };
            let clock = FakeClock::default();
            let mut stream = Served::<false>::new(&clock);
            stream.stall = Some((from, long));
            let found = drive(&mut stream, &clock, Pace::Closed, work, &mut Forget);
            let rtt = found.recorder.rtt().quantiles();
            let expected = 450 * MS / SERVICE;
            assert!(rtt.count.abs_diff(expected) <= 2 + expected / 10_000, "{} and {expected}", rtt.count);
            assert!(close(rtt.max.unwrap(), long + SERVICE), "{rtt:?}");
            assert!(close(rtt.mean.unwrap().round() as u64, SERVICE + long / rtt.count), "{rtt:?}");
            assert!(close(rtt.p99.unwrap(), SERVICE), "{rtt:?}");
            assert_eq!(found.silences.len(), usize::from(long >= 100 * MS));

            let clock = FakeClock::default();
            let mut datagrams = Served::<true>::new(&clock);
            datagrams.stall = Some((from, long));
            let found = drive(&mut datagrams, &clock, Pace::Closed, work, &mut Forget);
            assert_eq!(found.counts.lost, found.counts.late, "{:?}", found.counts);
            let told: Vec<_> = found.silences.iter().map(|one| (one.length_ns, one.sent == one.answered)).collect();
            match long / MS {
                0..=50 => assert_eq!(told, []),
                _ => assert!(told.len() == 1 && close(told[0].0, long) && told[0].1, "{told:?}"),
            }
        }
    }
}

#[test]
fn a_server_that_never_answers_again_is_in_the_figures_with_the_time_until_the_end() {
    for lossy in [true, false] {
        let from = 3 * S;
        let found = if lossy {
            run::<true>(Loops::Fixed, true, 0, from, 60 * S)
        } else {
            run::<false>(Loops::Fixed, true, 0, from, 60 * S)
        };
        let from_due = found.recorder.from_due().unwrap();
        let (unanswered, unsent) = found.recorder.never();
        let due = dues(Loops::Fixed).len() as u64;
        assert_eq!(from_due.count(), due, "lossy {lossy}");
        assert!((unanswered + unsent).abs_diff(due / 2) <= 2, "lossy {lossy}: {unanswered} and {unsent}");
        // At least until the run ended, 3 s or more after the first of them was due.
        assert!(from_due.max() >= 3 * S && from_due.quantile(Quantile::new(0.75).unwrap()).unwrap() >= S, "{}", from_due.max());
        assert_eq!(found.silences.last().map(|one| one.answered), Some(0), "lossy {lossy}");
    }
}

#[test]
fn a_wait_for_the_peer_inside_the_send_call_is_no_stop_of_this_process() {
    /// Waits for the peer in its send, once for a second.
    struct Connecting(Served<false>, u64, bool);
    impl Endpoint for Connecting {
        fn is_lossy(&self) -> bool {
            false
        }
        fn send(&mut self, flow: u32, len: usize, content: Content) -> io::Result<bool> {
            if self.0.clock.now().0 > 500 * MS {
                self.0.clock.advance(std::mem::take(&mut self.1));
            }
            self.2 = true;
            Endpoint::send(&mut self.0, flow, len, content)
        }
        fn has_waited(&mut self) -> bool {
            std::mem::take(&mut self.2)
        }
        fn recv(&mut self, until: Ticks) -> io::Result<Option<crate::endpoint::Reply<'_>>> {
            Endpoint::recv(&mut self.0, until)
        }
    }
    for pace in [None, Some(Loops::Paced)] {
        let clock = FakeClock::default();
        let mut path = Connecting(Served::new(&clock), S, false);
        let work = Work { duration_ns: Some(2 * S), count: None, timeout_ns: 5 * S, ..Work::short(64, 64, 1) };
        let how = pace.map_or(Pace::Closed, |loops| self::pace(loops, &clock, true));
        let found = drive(&mut path, &clock, how, work, &mut Forget);
        assert_eq!(found.counts.longest_stop_ns, 0, "{pace:?}");
        let told: Vec<_> = found.silences.iter().map(|one| (one.length_ns / MS, one.sent, one.answered)).collect();
        assert_eq!(told, [(1_000, 1, 1)], "{pace:?}");
    }
}

#[test]
fn a_stop_of_this_process_is_not_the_servers() {
    /// The clock jumps while the loop waits, after the last look for a reply.
    struct Stopped(Served<false>, u64);
    impl Endpoint for Stopped {
        fn is_lossy(&self) -> bool {
            false
        }
        fn send(&mut self, flow: u32, len: usize, content: Content) -> io::Result<bool> {
            Endpoint::send(&mut self.0, flow, len, content)
        }
        fn recv(&mut self, until: Ticks) -> io::Result<Option<crate::endpoint::Reply<'_>>> {
            if self.1 > 0 && self.0.clock.now().0 > 2 * S {
                self.0.clock.advance(std::mem::take(&mut self.1));
                return Ok(None);
            }
            Endpoint::recv(&mut self.0, until)
        }
        fn reply(&mut self, _flow: u32, _len: usize) -> io::Result<bool> {
            unreachable!("this is a client's path")
        }
    }
    let spins = (Some(Loops::Fixed), false, 20_000);
    for (pace, sleeps, step) in [(Some(Loops::Paced), true, 0), (Some(Loops::Fixed), true, 0), spins, (None, true, 0)] {
        let clock = FakeClock::stepping(step);
        let mut path = Stopped(Served::new(&clock), 700 * MS);
        let work = Work { duration_ns: Some(4 * S), count: None, timeout_ns: 5 * S, ..Work::short(64, 64, 1) };
        let how = pace.map_or(Pace::Closed, |loops| self::pace(loops, &clock, sleeps));
        let found = drive(&mut path, &clock, how, work, &mut Forget);
        // Exact to one turn of the loop.
        let stop_ms = found.counts.longest_stop_ns / MS;
        let silences = &found.silences;
        assert!((690..=700).contains(&stop_ms) && silences.is_empty(), "{pace:?}, sleeps {sleeps}: {stop_ms} and {silences:?}");
    }
}
