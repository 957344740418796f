//! The loop over scripted paths: exact counts, every sample in its place, every end on time.

use std::cell::Cell;
use std::collections::BTreeMap;

use hairpin_plan::schedule::Schedule;
use hairpin_record::recorder::Recorder;
use hairpin_sys::clock::FakeClock;
use proptest::prelude::*;

use super::script::{Fate, Script};
use super::*;
use crate::endpoint::Reply;
use crate::fake::Null;

const MS: u64 = 1_000_000;
const S: u64 = 1_000 * MS;

fn work() -> Work {
    Work {
        request: 64,
        reply: 64,
        flows: 1,
        outstanding: 1,
        duration_ns: None,
        count: None,
        warmup_ns: 0,
        timeout_ns: 5 * S,
        cookie: 0x1234_5678_9abc_def0,
        verify: false,
        thread: 0,
        threads: 1,
        overstays_ns: 0,
        block: BLOCK_TRANSACTIONS,
    }
}

/// Keeps every sample, and stops the run at a given time.
#[derive(Default)]
struct Keep {
    samples: Vec<Sample>,
    blocks: u32,
    stop_at: Option<(FakeClock, u64)>,
    looks: Cell<u32>,
}

impl BetweenBlocks for Keep {
    fn stopped(&self) -> bool {
        self.looks.set(self.looks.get() + 1);
        self.stop_at.as_ref().is_some_and(|(clock, at)| clock.now().0 >= *at)
    }

    fn block(&mut self, _recorder: &Recorder, _counts: &Counts, samples: &mut dyn Iterator<Item = Sample>) -> io::Result<()> {
        self.samples.extend(samples);
        self.blocks += 1;
        Ok(())
    }
}

fn over<const L: bool>(script: &mut Script<L>, work: Work) -> (LoopResult, Keep) {
    let mut keep = Keep::default();
    let clock = script.clock.clone();
    let found = drive(script, &clock, Pace::Closed, work, &mut keep);
    (found, keep)
}

fn rtts(keep: &Keep) -> Vec<u64> {
    keep.samples.iter().map(|sample| sample.rtt_ns).collect()
}

fn failure(found: &LoopResult) -> io::ErrorKind {
    match &found.end {
        LoopEnd::Failed(error) => error.kind(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_sleep_of_a_closed_loop_is_given_more_than_a_tick() {
    fn shortest<const L: bool>(overstays_ns: u64) -> u64 {
        let mut script = Script::<L>::new([], 1);
        script.then = Fate::Answer(15_000);
        over(&mut script, Work { overstays_ns, count: Some(10_000), ..work() });
        script.log.limits.into_iter().min().unwrap()
    }
    for overstays in [TURN_NS, 10 * TURN_NS] {
        assert!(shortest::<false>(overstays) >= TURN_NS && shortest::<true>(overstays) >= TURN_NS);
    }
    assert!(shortest::<false>(0) < MS, "a wait that does not sleep ends at the next look");
}

#[test]
fn a_lost_request_is_no_rtt_and_no_stall() {
    let fates = [Fate::Answer(5_000), Fate::Answer(6_000), Fate::Lose, Fate::Answer(7_000)];
    let mut script = Script::<true>::new(fates, 1);
    let (found, keep) = over(&mut script, Work { count: Some(3), ..work() });
    assert!(matches!(found.end, LoopEnd::Done));
    assert_eq!(rtts(&keep), [5_000, 6_000, 7_000]);
    assert_eq!(keep.samples.iter().map(|sample| sample.sequence).collect::<Vec<_>>(), [0, 1, 3]);
    // Before the first reply a datagram is waited for as long as RFC 6298 says, in turns of 10 ms; none of those turns counts as
    // a silence.
    let expected = Counts { sent: 4, lost: 1, longest_silence_ns: 10 * MS, waits_in_vain: 113, ..Counts::default() };
    assert_eq!((found.counts, found.exchanges), (expected, 4));
}

#[test]
fn patience_follows_the_round_trip() {
    let mut script = Script::<true>::new([], 1);
    script.fates.extend([Fate::Answer(5 * MS); 20]);
    let (found, keep) = over(&mut script, Work { duration_ns: Some(200 * MS), ..work() });
    assert_eq!((found.counts.sent, rtts(&keep).len()), (script.log.sent.len() as u64, script.log.sent.len()));
    let mut slow = Script::<true>::new([Fate::Answer(5 * MS); 20], 1);
    slow.fates.extend([Fate::Lose, Fate::Answer(1_000)]);
    let (_, keep) = over(&mut slow, Work { count: Some(21), ..work() });
    let gap = keep.samples[20].sent_ns - keep.samples[19].sent_ns;
    assert!((55 * MS..=70 * MS).contains(&gap), "ten times 5 ms, looked at every eighth of that: {gap}");
}

#[test]
fn a_round_trip_that_has_become_slow_for_good_is_waited_for() {
    // Two hundred requests in the warm-up bring the patience to 10 ms.
    let mut script = Script::<true>::new([Fate::Answer(1_000); 200], 1);
    script.then = Fate::Answer(300 * MS);
    let (found, keep) = over(&mut script, Work { count: Some(20), warmup_ns: 200_000, ..work() });
    assert!(matches!(found.end, LoopEnd::Done), "{:?}", found.end);
    assert_eq!(rtts(&keep), [300 * MS; 20]);
    // Two round trips go by until the loop knows it.
    assert!(found.counts.lost == found.counts.late && (50..=65).contains(&found.counts.lost), "{:?}", found.counts);
}

#[test]
fn a_stall_makes_no_patience_longer() {
    // All requests of half a second, one every 10 ms, are answered at its end; then one is lost.
    let mut script = Script::<true>::new([Fate::Answer(1_000); 200], 1);
    script.fates.extend((0..50).map(|n| Fate::Answer((500 - 10 * n) * MS)));
    script.fates.extend([Fate::Answer(1_000), Fate::Lose]);
    let (found, keep) = over(&mut script, Work { count: Some(3), warmup_ns: 200_000, ..work() });
    assert_eq!((rtts(&keep), found.counts.lost, found.counts.late), (vec![1_000; 3], 51, 50));
    let gap = keep.samples[1].sent_ns - keep.samples[0].sent_ns;
    assert!((10 * MS..=13 * MS).contains(&gap), "{gap}");
}

/// Loses its core once while it waits, from `at` on for `long`: replies that come meanwhile lie in its socket.
struct Stalling {
    script: Script<true>,
    at: u64,
    long: u64,
    /// The wait is over then, and ends without another attempt.
    in_vain: bool,
}

impl Endpoint for Stalling {
    fn is_lossy(&self) -> bool {
        true
    }
    fn send(&mut self, flow: u32, len: usize, content: Content) -> io::Result<bool> {
        Endpoint::send(&mut self.script, flow, len, content)
    }
    fn recv(&mut self, until: Ticks) -> io::Result<Option<Reply<'_>>> {
        if self.long > 0 && self.script.clock.now().0 >= self.at {
            self.script.clock.advance(std::mem::take(&mut self.long));
            if self.in_vain {
                return Ok(None);
            }
        }
        Endpoint::recv(&mut self.script, until)
    }
}

#[test]
fn replies_that_came_while_this_core_stood_still_are_received() {
    let stalling = |rtt: u64, at: u64, long: u64, in_vain: bool| {
        let mut script = Script::<true>::new([], 1);
        script.then = Fate::Answer(rtt);
        Stalling { script, at, long, in_vain }
    };
    // The warm-up brings the patience to 10 ms.
    for (outstanding, in_vain) in [(8, false), (8, true), (1, true)] {
        let (mut path, mut keep) = (stalling(50_000, 5 * MS, 15 * MS, in_vain), Keep::default());
        let clock = path.script.clock.clone();
        let work = Work { outstanding, warmup_ns: MS, count: Some(1_000 * u64::from(outstanding)), ..work() };
        let found = drive(&mut path, &clock, Pace::Closed, work, &mut keep);
        let slow = rtts(&keep).into_iter().filter(|rtt| *rtt >= 15 * MS).count();
        assert_eq!((found.counts.lost, found.counts.late, slow), (0, 0, outstanding as usize), "{outstanding}, {in_vain}");
    }
    // An open loop waits for 100 ms, and looks at the clock before it receives. Ten requests are in flight at a time.
    let (mut path, mut keep) = (stalling(500_000, 200 * MS, 150 * MS, true), Keep::default());
    let clock = path.script.clock.clone();
    let pace = Pace::Open(Timetable::new(&clock, Schedule::fixed(20_000.0, 64), true));
    let work = Work { outstanding: 64, warmup_ns: 20 * MS, duration_ns: Some(500 * MS), ..work() };
    let found = drive(&mut path, &clock, pace, work, &mut keep);
    let slow = rtts(&keep).into_iter().filter(|rtt| *rtt >= 150 * MS).count();
    assert_eq!((found.counts.lost, found.counts.late), (0, 0));
    assert!((9..=11).contains(&slow), "{slow}");
}

#[test]
fn one_lost_datagram_at_a_low_rate_is_no_dead_peer() {
    for (lost, is_open) in [(1, false), (3, false), (1, true), (3, true)] {
        let fates = (1..=lost).map(|n| if n == lost { Fate::Lose } else { Fate::Answer(1_000) });
        let mut script = Script::<true>::new(fates, 1);
        let clock = script.clock.clone();
        let table = Timetable::new(&clock, Schedule::fixed(1.0, 64), true);
        let pace = if is_open { Pace::Open(table) } else { Pace::Every(table) };
        let work = Work { duration_ns: Some(6_500 * MS), timeout_ns: 500 * MS, ..work() };
        let found = drive(&mut script, &clock, pace, work, &mut Keep::default());
        assert!(matches!(found.end, LoopEnd::Done), "number {lost}, open {is_open}: {:?}", found.end);
        assert_eq!((found.counts.sent, found.counts.lost), (6, 1), "number {lost}, open {is_open}");
    }
}

#[test]
fn a_lost_first_datagram_is_no_dead_peer_however_short_the_timeout() {
    for timeout_ns in [30 * MS, S] {
        let mut script = Script::<true>::new([Fate::Lose], 1);
        let (found, keep) = over(&mut script, Work { count: Some(10), timeout_ns, ..work() });
        assert!(matches!(found.end, LoopEnd::Done), "{:?}", found.end);
        assert_eq!((found.counts.lost, rtts(&keep)), (1, vec![1_000; 10]));
    }
}

#[test]
fn one_lost_datagram_on_a_slow_way_is_no_dead_peer() {
    let mut script = Script::<true>::new([Fate::Answer(600 * MS); 3], 1);
    script.fates.push_back(Fate::Lose);
    script.then = Fate::Answer(600 * MS);
    let (found, keep) = over(&mut script, Work { count: Some(10), ..work() });
    assert!(matches!(found.end, LoopEnd::Done), "{:?}", found.end);
    assert_eq!((found.counts.lost, rtts(&keep)), (1, vec![600 * MS; 10]));
}

#[test]
fn an_end_without_a_sample_tells_of_late_replies() {
    let mut script = Script::<true>::new([], 1);
    script.then = Fate::Answer(1_500 * MS);
    let clock = script.clock.clone();
    let pace = Pace::Every(Timetable::new(&clock, Schedule::fixed(10.0, 64), true));
    let found = drive(&mut script, &clock, pace, Work { duration_ns: Some(1_800 * MS), ..work() }, &mut Keep::default());
    let LoopEnd::Failed(error) = &found.end else { panic!("{:?}", found.end) };
    let late = found.counts.late;
    assert!(late > 0 && error.to_string().ends_with(&format!("its replies come too late, as {late} did")), "{error}");
}

#[test]
fn late_replies_differ_from_duplicates() {
    // Answered at 5 us, duplicated at 9 us; the next one is given up after 1 s and then answered twice.
    let fates = [Fate::Twice(5_000, 9_000), Fate::Twice(S + 900 * MS, S + 950 * MS)];
    let mut script = Script::<true>::new(fates, 1);
    script.then = Fate::Answer(9 * MS);
    let (found, keep) = over(&mut script, Work { count: Some(120), ..work() });
    assert_eq!(keep.samples.len(), 120);
    assert_eq!((found.counts.sent, found.counts.lost, found.counts.late, found.counts.duplicates), (121, 1, 1, 2));
    assert_eq!((found.counts.reordered, found.counts.corrupt), (0, 0));
}

#[test]
fn unmatched_replies_are_corrupt_and_their_requests_lost() {
    let fates = [Fate::Forge(5_000), Fate::Answer(5_000), Fate::Cut(5_000), Fate::Flip(5_000)];
    let mut script = Script::<true>::new(fates, 1);
    let (found, _) = over(&mut script, Work { count: Some(4), verify: true, ..work() });
    let counts = found.counts;
    assert_eq!((counts.sent, counts.lost, counts.corrupt, counts.late, counts.duplicates), (7, 3, 3, 0, 0));
    let mut stream = Script::<false>::new([Fate::Answer(5), Fate::Flip(5)], 1);
    let (found, keep) = over(&mut stream, Work { count: Some(4), verify: true, ..work() });
    assert_eq!((failure(&found), found.counts.corrupt, keep.samples.len()), (io::ErrorKind::InvalidData, 1, 1));
}

#[test]
fn leftovers_of_the_opening_do_not_count_as_corrupt() {
    let mut script = Script::<true>::new([Fate::Answer(5_000), Fate::Opening(5_000)], 1);
    let (found, keep) = over(&mut script, Work { count: Some(4), ..work() });
    let counts = found.counts;
    assert_eq!((keep.samples.len(), counts.sent, counts.lost, counts.corrupt, counts.duplicates), (4, 4, 0, 0, 0));
}

#[test]
fn overtaken_replies_are_samples_and_counted() {
    let fates = [Fate::Answer(30_000), Fate::Answer(10_000), Fate::Answer(20_000), Fate::Answer(40_000)];
    let mut script = Script::<true>::new(fates, 1);
    let (found, keep) = over(&mut script, Work { count: Some(40), outstanding: 4, ..work() });
    assert_eq!(keep.samples.len(), 40);
    assert_eq!((found.counts.sent, found.counts.lost, found.counts.duplicates), (40, 0, 0));
    assert_eq!(script.log.most_outstanding, 4);
    assert!(found.counts.reordered >= 2, "{:?}", found.counts);
}

#[test]
fn a_full_path_is_filled_again_as_soon_as_there_is_room() {
    let fates = [Fate::Answer(1_000), Fate::Full, Fate::Full, Fate::Answer(1_000), Fate::Full];
    let mut script = Script::<true>::new(fates, 4);
    let (found, keep) = over(&mut script, Work { count: Some(100), flows: 4, outstanding: 2, ..work() });
    assert_eq!((keep.samples.len(), found.counts.sent, found.counts.lost), (100, 100, 0));
    assert_eq!(script.log.most_outstanding, 2);
    assert!(keep.samples.iter().skip(20).take(8).map(|sample| sample.flow).sum::<u32>() == 12, "every flow in turn");
    let mut shut = Script::<true>::new([], 1);
    shut.then = Fate::Full;
    let (found, _) = over(&mut shut, Work { count: Some(1), timeout_ns: 20 * MS, ..work() });
    assert_eq!((failure(&found), found.counts.sent), (io::ErrorKind::TimedOut, 0));
}

#[test]
fn a_thread_that_sleeps_does_so_on_a_full_path() {
    let waits = |overstays_ns| {
        let mut script = Script::<true>::new([Fate::Answer(50_000), Fate::Full], 1);
        let (found, _) = over(&mut script, Work { overstays_ns, outstanding: 2, count: Some(2), ..work() });
        assert_eq!((found.counts.sent, found.counts.lost), (2, 0));
        script.log.limits[0]
    };
    assert_eq!([waits(0), waits(TURN_NS)], [0, FULL_NS]);
}

#[test]
fn a_paced_request_on_a_full_path_waits_for_room() {
    let mut script = Script::<true>::new([Fate::Full, Fate::Full], 1);
    let clock = script.clock.clone();
    let pace = Pace::Every(Timetable::new(&clock, Schedule::fixed(1_000.0, 64), true));
    let work = Work { duration_ns: Some(5 * MS), ..work() };
    let found = drive(&mut script, &clock, pace, work, &mut Keep::default());
    assert!(matches!(found.end, LoopEnd::Done), "{:?}", found.end);
    assert_eq!(script.log.awaited, 2);
}

#[test]
fn a_signal_ends_no_run_and_loses_nothing() {
    let fates = [Fate::Signal(1_000), Fate::Signal(2_000), Fate::Answer(9_000)];
    let mut script = Script::<false>::new(fates, 1);
    let (found, keep) = over(&mut script, Work { count: Some(2), ..work() });
    assert!(matches!(found.end, LoopEnd::Done));
    assert_eq!(rtts(&keep), [9_000, 1_000]);
}

#[test]
fn path_error_keeps_the_results() {
    let mut script = Script::<true>::new([Fate::Answer(1_000), Fate::Answer(2_000), Fate::Break], 1);
    let (found, keep) = over(&mut script, Work { count: Some(9), ..work() });
    assert_eq!((failure(&found), rtts(&keep), found.counts.sent), (io::ErrorKind::Other, vec![1_000, 2_000], 2));
    assert_eq!(found.recorder.rtt().count(), 2);
}

#[test]
fn a_dead_peer_is_an_error_within_the_timeout() {
    for timeout in [30 * MS, 700 * MS, 5 * S] {
        let work = Work { duration_ns: Some(60 * S), timeout_ns: timeout, ..work() };
        let mut lossy = Script::<true>::new([Fate::Answer(1_000); 100], 1);
        let mut stream = Script::<false>::new([Fate::Answer(1_000); 100], 1);
        (lossy.then, stream.then) = (Fate::Lose, Fate::Lose);
        let (ends, founds) =
            ([&lossy.clock, &stream.clock].map(Clone::clone), [over(&mut lossy, work).0, over(&mut stream, work).0]);
        for (clock, found) in ends.iter().zip(founds) {
            assert_eq!((failure(&found), found.recorder.rtt().count()), (io::ErrorKind::TimedOut, 100));
            let silent = clock.now().0 - 100_000;
            assert!((timeout..timeout + MS).contains(&silent), "{silent} for {timeout}");
        }
    }
}

#[test]
fn a_dead_peer_is_an_error_under_pace_and_across_blocks() {
    for per_s in [2.0, 10.0, 1_000.0] {
        let mut script = Script::<true>::new([Fate::Answer(1_000); 20], 1);
        script.then = Fate::Lose;
        // A pace that spins on the clock needs a clock that advances on each read.
        script.clock = FakeClock::stepping(1_000);
        let clock = script.clock.clone();
        let pace = Pace::Every(Timetable::new(&clock, Schedule::fixed(per_s, 64), false));
        let work = Work { duration_ns: Some(600 * S), timeout_ns: 3 * S, ..work() };
        let found = drive(&mut script, &clock, pace, work, &mut Keep::default());
        assert_eq!((failure(&found), found.recorder.rtt().count()), (io::ErrorKind::TimedOut, 20));
        let last = script.log.sent.values().nth(19).unwrap();
        let silent = clock.now().0 - last;
        assert!((3 * S..3 * S + 600 * MS).contains(&silent), "{silent} at {per_s}/s");
    }
}

#[test]
fn idle_time_is_no_silence_of_a_peer_that_answers() {
    let mut script = Script::<true>::new([], 1);
    script.clock = FakeClock::stepping(1_000);
    let clock = script.clock.clone();
    let pace = Pace::Every(Timetable::new(&clock, Schedule::fixed(1.0, 64), false));
    let work = Work { duration_ns: Some(10 * S + 500 * MS), timeout_ns: 100 * MS, ..work() };
    let mut keep = Keep::default();
    let found = drive(&mut script, &clock, pace, work, &mut keep);
    assert!(matches!(found.end, LoopEnd::Done), "{:?}", found.end);
    assert_eq!((found.counts.sent, found.counts.lost), (10, 0));
    assert!((10 * S + 499 * MS..10 * S + 510 * MS).contains(&(found.recorder.measured_ns() + found.gap_ns)));
    assert!(clock.now().0 < 10 * S + 510 * MS, "the run does not wait for a request that is due after its end");
}

#[test]
fn a_pause_moves_all_that_is_due_and_is_in_no_figure() {
    /// Pauses once, at a given time, for a minute.
    struct Paused(FakeClock, Cell<u64>);
    impl BetweenBlocks for Paused {
        fn stopped(&self) -> bool {
            false
        }
        fn is_paused(&self) -> bool {
            self.0.now().0 >= self.1.get()
        }
        fn pause(&mut self) -> io::Result<()> {
            self.1.set(u64::MAX);
            self.0.sleep_until(self.0.now().plus(60 * S));
            Ok(())
        }
        fn block(&mut self, _: &Recorder, _: &Counts, samples: &mut dyn Iterator<Item = Sample>) -> io::Result<()> {
            samples.for_each(drop);
            Ok(())
        }
    }
    // The pause falls in the warm-up, in idle time, and in mid-transaction.
    for at in [20 * MS, 555 * MS, 600 * MS + 500_000] {
        let mut script = Script::<true>::new([], 1);
        (script.clock, script.then) = (FakeClock::stepping(1_000), Fate::Answer(MS));
        let clock = script.clock.clone();
        let pace = Pace::Every(Timetable::new(&clock, Schedule::fixed(10.0, 64), false));
        let work = Work { warmup_ns: 100 * MS, duration_ns: Some(S + 50 * MS), timeout_ns: 2 * S, ..work() };
        let began = clock.now().0;
        let found = drive(&mut script, &clock, pace, work, &mut Paused(clock.clone(), Cell::new(began + at)));
        assert!(matches!(found.end, LoopEnd::Done), "{:?}", found.end);
        assert_eq!(
            (found.counts.sent, found.counts.lost, found.silences.len(), found.recorder.left_out()),
            (10, 0, 0, 0),
            "{at}"
        );
        let took = clock.now().0 - began;
        assert!((61 * S + 149 * MS..61 * S + 200 * MS).contains(&took), "{took} at {at}");
        assert!(found.recorder.measured_ns() < 1_100 * MS, "{}", found.recorder.measured_ns());
        assert!((S..1_100 * MS).contains(&found.recorder.wall_ns()), "{}", found.recorder.wall_ns());
        assert!(found.recorder.from_due().unwrap().max() < 5 * MS, "none is late by the pause");
    }
}

#[test]
fn a_run_without_any_reply_is_an_error_however_short() {
    let mut script = Script::<true>::new([], 1);
    script.then = Fate::Lose;
    let clock = script.clock.clone();
    let (found, _) = over(&mut script, Work { duration_ns: Some(100 * MS), warmup_ns: 100 * MS, timeout_ns: 2 * S, ..work() });
    assert_eq!(failure(&found), io::ErrorKind::TimedOut);
    assert!((2 * S..2 * S + 300 * MS).contains(&clock.now().0), "{}", clock.now().0);
}

#[test]
fn a_peer_that_stands_still_for_longer_than_a_short_run_is_not_dead() {
    // The first request is answered at the end, and so is each later one after it has been given up.
    let stands_still = (0..200).map(|_| Fate::Answer(700 * MS));
    let mut lossy = Script::<true>::new(stands_still, 1);
    let mut stream = Script::<false>::new([Fate::Answer(700 * MS)], 1);
    let short = Work { duration_ns: Some(50 * MS), ..work() };
    let [found, whole] = [over(&mut lossy, short).0, over(&mut stream, short).0];
    assert!(matches!((&found.end, &whole.end), (LoopEnd::Done, LoopEnd::Done)), "{:?}, {:?}", found.end, whole.end);
    assert_eq!((found.recorder.rtt().count(), whole.recorder.rtt().count()), (1, 1));
    // A loop whose every answer comes too late learns to wait for them.
    let mut late = Script::<true>::new([], 1);
    late.then = Fate::Answer(300 * MS);
    late.fates = (0..200).map(|_| Fate::Answer(1_000)).collect();
    let clock = late.clock.clone();
    let found_late = over(&mut late, Work { count: None, warmup_ns: 200_000, timeout_ns: S, ..short }).0;
    assert!(matches!(found_late.end, LoopEnd::Done), "{:?}", found_late.end);
    assert_eq!((found_late.recorder.rtt().count(), found_late.recorder.rtt().max()), (1, 300 * MS));
    assert!(clock.now().0 < S, "{}", clock.now().0);
    assert_eq!((whole.recorder.rtt().max(), found.counts.sent), (700 * MS, found.counts.lost + 1));
}

#[test]
fn count_and_duration_end_exactly() {
    for count in [1, 7, 1_000, 65_536, 65_537] {
        let mut script = Script::<false>::new([], 3);
        let (found, keep) = over(&mut script, Work { count: Some(count), flows: 3, outstanding: 5, ..work() });
        assert_eq!((found.recorder.rtt().count(), found.counts.sent, keep.samples.len() as u64), (count, count, count));
    }
    let mut script = Script::<false>::new([], 1);
    script.then = Fate::Answer(30_000);
    let (found, keep) = over(&mut script, Work { duration_ns: Some(450 * MS), ..work() });
    assert_eq!((found.counts.sent, keep.blocks), (15_000, 5), "each block lets its last request come home");
    assert_eq!(found.recorder.measured_ns(), 450 * MS);
    assert_eq!(found.gap_ns, 0, "this clock stands still between blocks");
}

#[test]
fn nothing_of_the_warm_up_is_in_the_figures() {
    let mut script = Script::<true>::new([Fate::Lose, Fate::Twice(77, 30 * MS), Fate::Answer(77)], 1);
    script.then = Fate::Answer(1_000);
    // The lost request ends the first block of the warm-up; the duplicate arrives in measured time.
    let (found, keep) = over(&mut script, Work { warmup_ns: S + 20 * MS, count: Some(60_000), ..work() });
    assert!(keep.samples.iter().all(|sample| sample.rtt_ns == 1_000));
    assert_eq!(found.counts, Counts { sent: 60_000, longest_silence_ns: 1_000, waits_in_vain: 1, ..Counts::default() });
    assert!(found.exchanges > 60_000);
    assert_eq!(keep.samples[0].sent_ns, 0);
}

#[test]
fn a_stop_is_seen_while_nothing_comes() {
    let mut script = Script::<false>::new([Fate::Answer(1_000); 5], 1);
    script.then = Fate::Lose;
    let clock = script.clock.clone();
    let mut keep = Keep { stop_at: Some((clock.clone(), 300 * MS)), ..Keep::default() };
    let found = drive(&mut script, &clock, Pace::Closed, work(), &mut keep);
    assert!(matches!(found.end, LoopEnd::Stopped));
    assert_eq!((found.counts.sent, found.recorder.rtt().count(), found.counts.lost), (6, 5, 0));
    assert!(clock.now().0 <= 310 * MS, "{}", clock.now());
}

#[test]
fn untimed_transactions_round_the_neighbour_leave_no_trace() {
    struct Neighbour(Keep, u32);
    impl BetweenBlocks for Neighbour {
        fn stopped(&self) -> bool {
            false
        }
        fn call_neighbour(&mut self) -> bool {
            self.1 += 1;
            true
        }
        fn meet_neighbour(&mut self) -> Option<u64> {
            Some(100 + u64::from(self.1))
        }
        fn block(&mut self, recorder: &Recorder, counts: &Counts, samples: &mut dyn Iterator<Item = Sample>) -> io::Result<()> {
            self.0.block(recorder, counts, samples)
        }
    }
    let mut script = Script::<true>::new([Fate::Answer(99); 5], 1);
    script.then = Fate::Answer(1_000);
    script.fates.extend([Fate::Answer(1_000); 10]);
    let clock = script.clock.clone();
    let mut between = Neighbour(Keep::default(), 0);
    let found = drive(&mut script, &clock, Pace::Closed, Work { count: Some(10), ..work() }, &mut between);
    assert_eq!(rtts(&between.0), [1_000; 10]);
    assert_eq!((found.counts.sent, found.exchanges, between.1), (10, 20, 2));
    let mut row = hairpin_record::run::Row::default();
    let gap = found.gap_ns;
    found.recorder.finish(&mut row);
    assert_eq!((row.blocks[0].core_rtt_ns, gap), (Some(102), 0), "the larger of both; the first five come before measuring");
}

/// Leaves out every second block.
struct EverySecond(Keep);

impl BetweenBlocks for EverySecond {
    fn stopped(&self) -> bool {
        false
    }
    fn leaves_out(&self) -> bool {
        !self.0.blocks.is_multiple_of(2)
    }
    fn block(&mut self, recorder: &Recorder, counts: &Counts, samples: &mut dyn Iterator<Item = Sample>) -> io::Result<()> {
        self.0.block(recorder, counts, samples)
    }
}

#[test]
fn a_block_that_is_left_out_is_passed_on_and_counts_in_no_figure() {
    // Blocks of ten: those that count take 1 us, the others 5 us.
    let fates = (0..60).map(|n| Fate::Answer(if n / 10 % 2 == 0 { 1_000 } else { 5_000 }));
    let mut script = Script::<true>::new([], 1);
    script.fates.extend(fates);
    script.then = Fate::Answer(1_000);
    let clock = script.clock.clone();
    let mut between = EverySecond(Keep::default());
    let found = drive(&mut script, &clock, Pace::Closed, Work { count: Some(30), block: 10, ..work() }, &mut between);
    let all = [[1_000; 10], [5_000; 10], [1_000; 10], [5_000; 10], [1_000; 10]].concat();
    assert_eq!((rtts(&between.0), found.counts.sent, found.exchanges), (all, 30, 50));
    let recorder = &found.recorder;
    assert_eq!((recorder.rtt().count(), recorder.rtt().max(), recorder.measured_ns()), (30, 1_000, 30_000));
    assert_eq!((recorder.blocks().count(), found.gap_ns), (3, 100_000), "the others are gaps");
}

#[test]
fn the_paths_own_timings_of_a_block_that_is_left_out_count_in_no_figure() {
    /// A path, and whether each block's timings were kept.
    struct Folding(Script<true>, Vec<bool>);
    impl Endpoint for Folding {
        fn is_lossy(&self) -> bool {
            true
        }
        fn send(&mut self, flow: u32, len: usize, content: Content) -> io::Result<bool> {
            Endpoint::send(&mut self.0, flow, len, content)
        }
        fn recv(&mut self, until: Ticks) -> io::Result<Option<Reply<'_>>> {
            Endpoint::recv(&mut self.0, until)
        }
        fn fold(&mut self, keep: bool) {
            self.1.push(keep);
        }
    }
    let mut path = Folding(Script::<true>::new([], 1), Vec::new());
    let clock = path.0.clock.clone();
    let mut between = EverySecond(Keep::default());
    let found = drive(&mut path, &clock, Pace::Closed, Work { count: Some(30), block: 10, ..work() }, &mut between);
    assert!(matches!(found.end, LoopEnd::Done), "{:?}", found.end);
    assert_eq!(path.1, [true, false, true, false, true]);
}

#[test]
fn writing_a_request_takes_no_part_of_its_rtt() {
    struct Writing(Script<true>);
    impl Endpoint for Writing {
        fn is_lossy(&self) -> bool {
            true
        }
        fn prepare(&mut self, len: usize, content: Content) {
            assert_eq!((len, content.cookie), (work().request, work().cookie));
            self.0.clock.advance(700);
        }
        fn send(&mut self, flow: u32, len: usize, content: Content) -> io::Result<bool> {
            Endpoint::send(&mut self.0, flow, len, content)
        }
        fn recv(&mut self, until: Ticks) -> io::Result<Option<Reply<'_>>> {
            Endpoint::recv(&mut self.0, until)
        }
    }
    let mut path = Writing(Script::<true>::new([], 1));
    let (clock, mut keep) = (path.0.clock.clone(), Keep::default());
    let found = drive(&mut path, &clock, Pace::Closed, Work { count: Some(3), ..work() }, &mut keep);
    assert!(matches!(found.end, LoopEnd::Done), "{:?}", found.end);
    assert_eq!(rtts(&keep), [1_000; 3]);
    assert_eq!(keep.samples[1].sent_ns - keep.samples[0].sent_ns, 1_700);
}

#[test]
fn no_due_time_of_a_block_that_is_left_out_is_in_a_figure() {
    // Blocks of ten. The 16th request, of a block that is left out, is never answered. The 30th, the last of a block that counts,
    // is answered 5 us after it has been given up, while the next block runs.
    let fates = (1..=30).map(|n| match n {
        16 => Fate::Lose,
        30 => Fate::Answer(10 * MS + 5_000),
        _ => Fate::Answer(1_000),
    });
    let mut script = Script::<true>::new(fates, 1);
    let clock = script.clock.clone();
    let pace = Pace::Every(Timetable::new(&clock, Schedule::fixed(1_000.0, 64), true));
    let mut between = EverySecond(Keep::default());
    let found = drive(&mut script, &clock, pace, Work { count: Some(30), block: 10, ..work() }, &mut between);
    assert!(matches!(found.end, LoopEnd::Done), "{:?}", found.end);
    let recorder = &found.recorder;
    assert_eq!((found.counts.lost, found.counts.late, recorder.never()), (1, 1, (0, 0)));
    assert_eq!((recorder.rtt().count(), recorder.from_due().unwrap().count()), (30, 31));
}

#[test]
fn a_paced_loop_meets_the_other_core_as_often_as_it_calls_it() {
    #[derive(Default)]
    struct Neighbour {
        calls: u32,
        meetings: u32,
    }
    impl BetweenBlocks for Neighbour {
        fn stopped(&self) -> bool {
            false
        }
        fn call_neighbour(&mut self) -> bool {
            self.calls += 1;
            true
        }
        fn meet_neighbour(&mut self) -> Option<u64> {
            self.meetings += 1;
            None
        }
        fn block(&mut self, _: &Recorder, _: &Counts, samples: &mut dyn Iterator<Item = Sample>) -> io::Result<()> {
            samples.for_each(drop);
            Ok(())
        }
    }
    let mut script = Script::<true>::new([], 1);
    let clock = script.clock.clone();
    let pace = Pace::Every(Timetable::new(&clock, Schedule::fixed(100.0, 64), true));
    let mut between = Neighbour::default();
    let work = Work { warmup_ns: 300 * MS, duration_ns: Some(300 * MS), ..work() };
    let found = drive(&mut script, &clock, pace, work, &mut between);
    assert!(matches!(found.end, LoopEnd::Done), "{:?}", found.end);
    assert!(between.calls == between.meetings && between.calls > 3, "{} and {}", between.calls, between.meetings);
}

#[test]
fn a_block_allocates_nothing() {
    let allocations = |count| {
        let mut null = Null::default();
        let mut keep = Nothing;
        let work = Work { count: Some(count), ..work() };
        let clock = FakeClock::stepping(1);
        let mut transactions = 0;
        let info = allocation_counter::measure(|| {
            transactions = drive(&mut null, &clock, Pace::Closed, work, &mut keep).recorder.rtt().count();
        });
        assert_eq!(transactions, count);
        info.count_total
    };
    let few = allocations(1);
    assert!(few > 0);
    assert_eq!([allocations(60_000), allocations(300_000)], [few, few], "neither inside blocks nor between them");
}

struct Nothing;

impl BetweenBlocks for Nothing {
    fn stopped(&self) -> bool {
        false
    }
    fn block(&mut self, _: &Recorder, _: &Counts, samples: &mut dyn Iterator<Item = Sample>) -> io::Result<()> {
        samples.for_each(drop);
        Ok(())
    }
}

fn fate() -> impl Strategy<Value = Fate> {
    let soon = 0..2 * MS;
    // Times around every patience: 10 ms after the first reply, 1 s before it.
    let any = prop_oneof![6 => soon.clone(), 1 => 5 * MS..40 * MS, 1 => 900 * MS..1_300 * MS];
    prop_oneof![
        8 => soon.prop_map(Fate::Answer),
        2 => any.clone().prop_map(Fate::Answer),
        1 => (any.clone(), any.clone()).prop_map(|(one, other)| Fate::Twice(one, other)),
        1 => Just(Fate::Lose),
        1 => any.clone().prop_map(Fate::Cut),
        1 => Just(Fate::Full),
        1 => any.prop_map(Fate::Signal),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn every_request_is_counted_exactly_once(
        fates in prop::collection::vec(fate(), 0..120),
        flows in 1u32..4,
        outstanding in 1u32..9,
        size in prop_oneof![Just(1usize), Just(2), Just(4), Just(16), Just(64)],
        stop_ms in prop_oneof![2 => Just(None), 1 => (0u64..500).prop_map(Some)],
        verify: bool,
    ) {
        let mut script = Script::<true>::new(fates, flows);
        let clock = script.clock.clone();
        let mut keep = Keep { stop_at: stop_ms.map(|ms| (clock.clone(), ms * MS)), ..Keep::default() };
        let work = Work { request: size, reply: size, flows, outstanding, count: Some(100), verify, timeout_ns: 3_600 * S, ..work() };
        let found = drive(&mut script, &clock, Pace::Closed, work, &mut keep);
        let (log, counts) = (&script.log, found.counts);

        let answered: BTreeMap<(u32, u32), u64> = keep.samples.iter().map(|s| ((s.flow, s.sequence), s.rtt_ns)).collect();
        prop_assert_eq!(answered.len(), keep.samples.len(), "no request has two samples");
        prop_assert_eq!(counts.sent, log.sent.len() as u64);
        prop_assert!(log.most_outstanding <= outstanding as usize);

        let abandoned = counts.sent - counts.lost - answered.len() as u64;
        match found.end {
            LoopEnd::Done => prop_assert_eq!((abandoned, answered.len()), (0, 100)),
            LoopEnd::Stopped => prop_assert!(stop_ms.is_some() && abandoned <= u64::from(flows * outstanding)),
            LoopEnd::Failed(error) => prop_assert!(false, "{error}"),
        }
        let (mut late, mut duplicates) = (0, 0);
        for (request, times) in &log.delivered {
            prop_assert!(log.sent.contains_key(request));
            late += u64::from(!answered.contains_key(request));
            duplicates += u64::from(times - 1);
        }
        // One byte carries a sequence modulo 256: a reply that is 256 requests late looks like a reply to a newer one, or a duplicate.
        let mistaken = answered.keys().filter(|request| !log.delivered.contains_key(request)).count() as u64;
        let told = (counts.late + counts.duplicates + mistaken, counts.corrupt);
        prop_assert_eq!(told, (late + duplicates, u64::from(log.corrupt)));
        if size > 1 {
            prop_assert_eq!(mistaken, 0);
            prop_assert_eq!((counts.late, counts.duplicates), (late, duplicates));
        }

        let mut newest = BTreeMap::new();
        let mut reordered = 0;
        for sample in &keep.samples {
            let newest = newest.entry(sample.flow).or_insert(sample.sequence);
            reordered += u64::from(sample.sequence < *newest);
            *newest = sample.sequence.max(*newest);
        }
        prop_assert_eq!(counts.reordered, reordered);
    }
}
