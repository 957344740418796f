//! The open loop over a server that takes its time, on a clock that only the path moves: which requests are late, by how much,
//! and who sees it.

use hairpin_plan::schedule::Schedule;
use hairpin_record::histogram::Times;
use hairpin_record::recorder::Recorder;
use hairpin_sys::clock::FakeClock;
use hairpin_units::Quantile;

use super::script::{Fate, Script};
use super::served::{SATURATION, SERVICE, Served};
use super::*;
use crate::content::Content;
use crate::endpoint::Reply;
use crate::fake::Null;

const US: u64 = 1_000;
const MS: u64 = 1_000 * US;
const S: u64 = 1_000 * MS;
struct KeepSamples(Vec<Sample>);

impl BetweenBlocks for KeepSamples {
    fn stopped(&self) -> bool {
        false
    }

    fn block(&mut self, _: &Recorder, _: &Counts, samples: &mut dyn Iterator<Item = Sample>) -> io::Result<()> {
        self.0.extend(samples);
        Ok(())
    }
}

fn over(server: &mut Served<true>, schedule: Schedule, outstanding: u32, ns: u64) -> (LoopResult, Vec<Sample>) {
    let clock = server.clock.clone();
    let work = Work { outstanding, duration_ns: Some(ns), count: None, timeout_ns: 5 * S, ..Work::short(64, 64, 1) };
    // In sleep between due times the clock moves from event to event.
    let pace = Pace::Open(Timetable::new(&clock, schedule, true));
    let mut kept = KeepSamples(Vec::new());
    let found = drive(server, &clock, pace, work, &mut kept);
    (found, kept.0)
}

fn p999(times: &Times) -> u64 {
    times.quantile(Quantile::P999).expect("enough samples")
}

/// A histogram resolves a time to one part in a thousand.
fn is_service(ns: u64) -> bool {
    ns.abs_diff(SERVICE) <= SERVICE / 1_000
}

fn of(found: &LoopResult) -> [&Times; 3] {
    let recorder = &found.recorder;
    [recorder.from_due().unwrap(), recorder.rtt(), &recorder.lateness().unwrap().all]
}

#[test]
fn without_a_stall_every_request_leaves_when_it_is_due() {
    let mut server = Served::<true>::new(&FakeClock::default());
    let (found, samples) = over(&mut server, Schedule::fixed(SATURATION / 2.0, 64), 64, S);
    let [due, sent, late] = of(&found);
    assert_eq!((samples.len(), found.counts.sent, found.counts.full, found.recorder.never()), (49_999, 49_999, 0, (0, 0)));
    assert_eq!([due.max(), sent.max(), late.max()], [SERVICE, SERVICE, 0]);
    assert!(samples.iter().zip(1..).all(|(sample, n)| sample.due_ns == n * 20 * US), "across the blocks too");
    assert_eq!(found.recorder.measured_ns(), S);
}

/// Coordinated omission: at half the saturation rate the server stalls for 10 ms, and the client has room for one request.
#[test]
fn a_stall_of_the_server_shows_in_the_rtt_from_due_and_not_in_the_rtt_from_sent() {
    let mut server = Served::<true>::new(&FakeClock::default());
    server.stall = Some((300 * MS, 10 * MS));
    let (found, samples) = over(&mut server, Schedule::fixed(SATURATION / 2.0, 64), 1, S);
    let [due, sent, late] = of(&found);
    assert_eq!((samples.len() as u64, found.recorder.never()), (found.counts.sent, (0, 0)));
    // One request met the stall; 500 came due during it, and another 500 until the client had caught up: 2 % of all.
    assert!(sent.max() == 10 * MS + SERVICE && is_service(p999(sent)), "{} {}", sent.max(), p999(sent));
    assert!(p999(due) > 9 * MS && due.max() == 10 * MS + SERVICE, "{}", p999(due));
    assert!(p999(late) > 9 * MS);
    assert!((900..=1_000).contains(&found.counts.full), "{}", found.counts.full);
    assert_eq!(samples.iter().filter(|sample| sample.rtt_ns > SERVICE).count(), 1);
}

#[test]
fn with_room_for_all_of_them_the_same_stall_is_in_both() {
    let mut server = Served::<true>::new(&FakeClock::default());
    server.stall = Some((300 * MS, 10 * MS));
    let (found, _) = over(&mut server, Schedule::fixed(SATURATION / 2.0, 64), 1_024, S);
    let [due, sent, late] = of(&found);
    assert!(p999(sent) > 9 * MS && p999(due) == p999(sent));
    assert_eq!((late.max(), found.counts.full), (0, 0), "every request left on time");
}

#[test]
fn a_closed_loop_does_not_see_the_stall_at_all() {
    let mut server = Served::<true>::new(&FakeClock::default());
    server.stall = Some((300 * MS, 10 * MS));
    let clock = server.clock.clone();
    let work = Work { duration_ns: Some(S), count: None, timeout_ns: 5 * S, ..Work::short(64, 64, 1) };
    let found = drive(&mut server, &clock, Pace::Closed, work, &mut KeepSamples(Vec::new()));
    assert!(is_service(p999(found.recorder.rtt())));
}

#[test]
fn beyond_saturation_lateness_grows_and_unsent_requests_count() {
    let mut server = Served::<true>::new(&FakeClock::default());
    let (found, samples) = over(&mut server, Schedule::fixed(2.0 * SATURATION, 64), 8, S);
    let [due, sent, _] = of(&found);
    // Of 200,000 the server can answer half, plus those of the tenth of a second in which the loop tries to catch up.
    assert!((109_000..=111_000).contains(&samples.len()), "{}", samples.len());
    let (sent_last, due_last) = samples.last().map(|last| (last.sent_ns, last.due_ns)).unwrap();
    assert!((1_090 * MS..=1_101 * MS).contains(&sent_last), "{sent_last}");
    assert!((545 * MS..=555 * MS).contains(&due_last), "the last one sent was due in the middle of the run: {due_last}");
    assert!(sent.max() <= 8 * SERVICE, "{}", sent.max());
    assert_eq!(found.counts.sent + found.recorder.never().1, 199_999, "every one that was due");
    assert_eq!((due.count(), due.max().div_ceil(MS)), (199_999, 551), "the first that was never sent has waited since 0.55 s");
    assert!(samples.windows(2).all(|pair| pair[1].due_ns - pair[0].due_ns == 5 * US), "no due time has moved");
}

#[test]
fn a_full_path_makes_late_as_a_full_table_does() {
    let mut server = Served::<true>::new(&FakeClock::default());
    (server.room, server.stall) = (1, Some((300 * MS, 10 * MS)));
    let (found, _) = over(&mut server, Schedule::fixed(SATURATION / 2.0, 64), 64, S);
    let [due, sent, _] = of(&found);
    assert!(p999(due) > 9 * MS && is_service(p999(sent)));
    assert!(found.counts.full >= 500);
}

#[test]
fn a_full_path_is_tried_again_after_a_sleep_by_a_thread_that_sleeps() {
    let mut script = Script::<true>::new([Fate::Full, Fate::Full], 1);
    let clock = script.clock.clone();
    let work = Work { outstanding: 4, duration_ns: Some(5 * MS), count: None, timeout_ns: 5 * S, ..Work::short(64, 64, 1) };
    let pace = Pace::Open(Timetable::new(&clock, Schedule::fixed(1_000.0, 64), true));
    drive(&mut script, &clock, pace, work, &mut KeepSamples(Vec::new()));
    // A send that finds no room takes 100 ns.
    assert_eq!(script.log.limits[..3], [MS, FULL_NS - 100, FULL_NS - 100]);
}

#[test]
fn time_between_blocks_makes_nothing_late() {
    struct Slow(FakeClock);
    impl BetweenBlocks for Slow {
        fn stopped(&self) -> bool {
            false
        }
        fn block(&mut self, _: &Recorder, _: &Counts, samples: &mut dyn Iterator<Item = Sample>) -> io::Result<()> {
            samples.for_each(drop);
            self.0.advance(30 * MS);
            Ok(())
        }
    }
    let mut server = Served::<true>::new(&FakeClock::default());
    let clock = server.clock.clone();
    let pace = Pace::Open(Timetable::new(&clock, Schedule::poisson(20_000.0, 64, 3), true));
    let work = Work { outstanding: 64, duration_ns: Some(S), count: None, timeout_ns: 5 * S, ..Work::short(64, 64, 1) };
    let found = drive(&mut server, &clock, pace, work, &mut Slow(clock.clone()));
    assert_eq!((of(&found)[2].max(), found.recorder.never()), (0, (0, 0)));
    assert!(
        found.gap_ns >= 7 * 30 * MS && found.recorder.measured_ns() <= 800 * MS,
        "{} {}",
        found.gap_ns,
        found.recorder.measured_ns()
    );
    let rate = found.recorder.rtt().count() as f64 * 1e9 / found.recorder.measured_ns() as f64;
    assert!((rate / 20_000.0 - 1.0).abs() < 0.05, "{rate}");
}

#[test]
fn a_rate_below_one_a_block_goes_on_across_blocks() {
    let mut server = Served::<true>::new(&FakeClock::default());
    let (found, samples) = over(&mut server, Schedule::fixed(2.0, 64), 64, 5 * S + 10 * MS);
    assert_eq!(
        samples.iter().map(|sample| sample.due_ns).collect::<Vec<_>>(),
        [1, 2, 3, 4, 5, 6, 7, 8, 9, 10].map(|n| n * 500 * MS)
    );
    assert!(matches!(found.end, LoopEnd::Done), "idle time is no silence: {:?}", found.end);
}

#[test]
fn a_peer_that_dies_in_mid_run_is_an_error_within_the_timeout() {
    for per_s in [1.0, 20.0, 50_000.0] {
        let mut server = Served::<true>::new(&FakeClock::default());
        server.dies_at = 2 * S;
        let (found, samples) = over(&mut server, Schedule::fixed(per_s, 64), 64, 600 * S);
        match &found.end {
            LoopEnd::Failed(error) => assert_eq!(error.kind(), io::ErrorKind::TimedOut),
            other => panic!("{other:?}"),
        }
        let ended = server.clock.now().0;
        assert!((6_900 * MS..7_500 * MS).contains(&ended), "{ended} at {per_s}/s");
        assert!(samples.iter().all(|sample| sample.sent_ns < 2 * S));
    }
}

#[test]
fn a_lost_request_keeps_its_place_in_the_table_until_it_is_given_up_and_is_no_rtt() {
    let mut server = Served::<true>::new(&FakeClock::default());
    (server.stall, server.dies_at) = (None, 900 * MS);
    let (found, samples) = over(&mut server, Schedule::fixed(1_000.0, 64), 4, 910 * MS);
    assert_eq!(found.counts.sent - found.counts.lost, samples.len() as u64);
    assert!(found.counts.lost > 0 && samples.iter().all(|sample| sample.rtt_ns == SERVICE));
}

/// A path with `fates`, then with `rtt`, which is longer than the interval: a request is in flight at every moment.
fn always_in_flight(fates: impl IntoIterator<Item = Fate>, rtt: u64, per_s: f64, ns: u64) -> (LoopResult, Vec<Sample>) {
    let mut script = Script::<true>::new(fates, 1);
    script.then = Fate::Answer(rtt);
    let clock = script.clock.clone();
    let work = Work { outstanding: 64, duration_ns: Some(ns), count: None, timeout_ns: 5 * S, ..Work::short(64, 64, 1) };
    let pace = Pace::Open(Timetable::new(&clock, Schedule::fixed(per_s, 64), true));
    let mut kept = KeepSamples(Vec::new());
    let found = drive(&mut script, &clock, pace, work, &mut kept);
    (found, kept.0)
}

#[test]
fn a_lost_request_holds_up_no_block_whose_samples_are_full() {
    // The lost request is the last but five of the first block.
    let fates = (0..BLOCK_TRANSACTIONS - 6).map(|_| Fate::Answer(20 * US)).chain([Fate::Lose]);
    let (found, samples) = always_in_flight(fates, 20 * US, 200_000.0, S);
    assert!(matches!(found.end, LoopEnd::Done), "{:?}", found.end);
    assert_eq!((found.counts.sent, found.counts.lost, samples.len()), (199_999, 1, 199_998));
    assert_eq!(found.recorder.never(), (1, 0));
    let late = of(&found)[2].max();
    assert!((MS..2 * MS).contains(&late), "{late}");
}

#[test]
fn sending_is_held_back_once_a_second() {
    let (found, samples) = always_in_flight([], 5 * MS, 1_000.0, 5 * S);
    assert_eq!((found.counts.sent, found.counts.lost), (4_999, 0));
    let late = samples.iter().filter(|sample| sample.sent_ns > sample.due_ns + 10 * US).count();
    assert!((1..=8).contains(&late), "{late}");
}

#[test]
fn a_recording_is_replayed_in_its_sizes_and_ends_the_run() {
    use hairpin_plan::replay::Arrival;
    use hairpin_plan::schedule::{Arrivals, OpenLoop};
    let recorded: Vec<Arrival> = (0..70_000).map(|n| Arrival { at_ns: n * 20 * US, size: 20 + (n % 3) as u32 }).collect();
    let arrivals = Arrivals::Replay { file: Default::default(), arrivals: recorded.clone().into() };
    let open = OpenLoop { per_s: 50_000.0, arrivals, smallest: 20 };
    let mut server = Served::<true>::new(&FakeClock::default());
    let clock = server.clock.clone();
    let pace = Pace::Open(Timetable::new(&clock, open.share(0, 1, 22), true));
    let work =
        Work { request: 20, outstanding: 64, duration_ns: None, count: None, warmup_ns: 10 * MS, ..Work::short(20, 64, 1) };
    let mut kept = KeepSamples(Vec::new());
    let found = drive(&mut server, &clock, pace, work, &mut kept);
    assert!(matches!(found.end, LoopEnd::Done), "{:?}", found.end);
    assert_eq!(
        kept.0.iter().map(|sample| sample.due_ns).collect::<Vec<_>>(),
        recorded.iter().map(|one| one.at_ns).collect::<Vec<_>>()
    );
    let sizes: Vec<usize> = server.sent[server.sent.len() - 70_000..].iter().map(|(_, len)| *len).collect();
    assert_eq!(sizes, recorded.iter().map(|one| one.size as usize).collect::<Vec<_>>());
}

#[test]
fn a_recording_whose_last_request_is_lost_takes_no_longer() {
    use hairpin_plan::replay::Arrival;
    use hairpin_plan::schedule::{Arrivals, OpenLoop};
    let recorded: Vec<Arrival> = (0..10).map(|n| Arrival { at_ns: n * MS, size: 64 }).collect();
    let arrivals = Arrivals::Replay { file: Default::default(), arrivals: recorded.into() };
    let open = OpenLoop { per_s: 1_000.0, arrivals, smallest: 64 };
    let mut script = Script::<true>::new((0..9).map(|_| Fate::Answer(20 * US)).chain([Fate::Lose]), 1);
    let clock = script.clock.clone();
    let pace = Pace::Open(Timetable::new(&clock, open.share(0, 1, 64), true));
    let work = Work { outstanding: 64, count: None, timeout_ns: 5 * S, ..Work::short(64, 64, 1) };
    let found = drive(&mut script, &clock, pace, work, &mut KeepSamples(Vec::new()));
    assert!(matches!(found.end, LoopEnd::Done), "{:?}", found.end);
    assert!(clock.now().0 > S, "the answer was waited for");
    assert_eq!(found.recorder.never(), (1, 0));
    let wall_ns = found.recorder.wall_ns();
    assert!((9 * MS..10 * MS).contains(&wall_ns), "{wall_ns}");
}

#[test]
fn a_recorded_pause_after_a_lost_request_is_no_silence_of_the_peer() {
    use hairpin_plan::replay::Arrival;
    use hairpin_plan::schedule::{Arrivals, OpenLoop};
    // The last request before a pause of a minute is lost.
    let recorded = (0..1_000).chain(61_000..71_000).map(|ms| Arrival { at_ns: ms * MS, size: 64 });
    let arrivals = Arrivals::Replay { file: Default::default(), arrivals: recorded.collect() };
    let open = OpenLoop { per_s: 1_000.0, arrivals, smallest: 64 };
    for dies in [false, true] {
        let mut script = Script::<true>::new((0..999).map(|_| Fate::Answer(20 * US)).chain([Fate::Lose]), 1);
        script.then = if dies { Fate::Lose } else { Fate::Answer(20 * US) };
        let clock = script.clock.clone();
        let pace = Pace::Open(Timetable::new(&clock, open.share(0, 1, 64), true));
        let work = Work { outstanding: 64, count: None, timeout_ns: 5 * S, ..Work::short(64, 64, 1) };
        let found = drive(&mut script, &clock, pace, work, &mut KeepSamples(Vec::new()));
        if dies {
            assert!(matches!(&found.end, LoopEnd::Failed(error) if error.kind() == io::ErrorKind::TimedOut), "{:?}", found.end);
            let ended = clock.now().0;
            assert!((65_900 * MS..66_500 * MS).contains(&ended), "{ended}");
        } else {
            assert!(matches!(found.end, LoopEnd::Done), "{:?}", found.end);
            assert_eq!((found.counts.sent, found.counts.lost, found.silences.len()), (11_000, 1, 0));
        }
    }
}

#[test]
fn a_sleep_until_the_next_due_time_is_no_wait_in_vain() {
    let mut server = Served::<true>::new(&FakeClock::default());
    let (found, samples) = over(&mut server, Schedule::fixed(200.0, 64), 64, S);
    assert_eq!(samples.len(), 199);
    assert!(found.counts.waits_in_vain < 20, "{}", found.counts.waits_in_vain);
}

#[test]
fn an_open_block_allocates_nothing() {
    let allocations = |count| {
        let clock = FakeClock::stepping(1);
        let pace = Pace::Open(Timetable::new(&clock, Schedule::fixed(1e7, 64), false));
        let work = Work { outstanding: 8, ..Work::short(64, 64, count) };
        let mut transactions = 0;
        let mut null = Null::default();
        let info = allocation_counter::measure(|| {
            transactions = drive(&mut null, &clock, pace, work, &mut Forget).recorder.rtt().count();
        });
        assert_eq!(transactions, count);
        info.count_total
    };
    let few = allocations(1);
    assert_eq!([allocations(60_000), allocations(200_000)], [few, few], "neither inside blocks nor between them");
}

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

#[test]
fn a_stall_of_the_clients_own_core_is_told_apart() {
    /// Does nothing, but loses its core for 50 us at regular intervals while it is waited on.
    struct Losing {
        null: Null,
        clock: FakeClock,
        looks: u32,
    }
    impl Endpoint for Losing {
        fn is_lossy(&self) -> bool {
            false
        }
        fn send(&mut self, flow: u32, len: usize, content: Content) -> io::Result<bool> {
            Endpoint::send(&mut self.null, flow, len, content)
        }
        fn recv(&mut self, _until: Ticks) -> io::Result<Option<Reply<'_>>> {
            self.looks += 1;
            // A reply takes five looks; one look of a thousand stalls.
            if !self.looks.is_multiple_of(5) {
                if self.looks % 5_000 == 3 {
                    self.clock.advance(50 * US);
                }
                return Ok(None);
            }
            Endpoint::recv(&mut self.null, Ticks(0))
        }
        fn reply(&mut self, _flow: u32, _len: usize) -> io::Result<bool> {
            unreachable!("this is a client's path")
        }
    }
    let clock = FakeClock::stepping(10);
    let mut path = Losing { null: Null::default(), clock: clock.clone(), looks: 0 };
    let pace = Pace::Open(Timetable::new(&clock, Schedule::fixed(200_000.0, 64), false));
    let work = Work { outstanding: 1, ..Work::short(64, 64, 50_000) };
    let found = drive(&mut path, &clock, pace, work, &mut Forget);
    let lateness = found.recorder.lateness().unwrap();
    let stalls = found.counts.stalls;
    assert!((40..=60).contains(&stalls), "{stalls}");
    assert!((stalls * 50 * US..stalls * 51 * US).contains(&found.counts.stalled_ns), "{}", found.counts.stalled_ns);
    assert!(lateness.all.max() > 40 * US);
    // Undisturbed requests are late only if they came due while the others were sent one after the other.
    assert!(lateness.undisturbed.max() < 5 * US, "{}", lateness.undisturbed.max());
    assert!(lateness.undisturbed.count() < lateness.all.count());
}

#[test]
fn a_run_that_is_stopped_leaves_no_request_without_its_turn_or_its_reply() {
    /// Stops the run once `at` has passed.
    struct StopAt(FakeClock, u64);
    impl BetweenBlocks for StopAt {
        fn stopped(&self) -> bool {
            self.0.now().0 >= self.1
        }
        fn block(&mut self, _: &Recorder, _: &Counts, samples: &mut dyn Iterator<Item = Sample>) -> io::Result<()> {
            samples.for_each(drop);
            Ok(())
        }
    }
    let clock = FakeClock::default();
    // Ends of looks, due times and times of service in many orders.
    for stop in (0..40).map(|n| 230 * MS + 7_001 * n) {
        for (sleeps, step) in [(true, 0), (false, 300)] {
            let clock = if step == 0 { clock.clone() } else { FakeClock::stepping(step) };
            let at = clock.now().0 + stop;
            let mut server = Served::<true>::new(&clock);
            let work = Work { outstanding: 64, duration_ns: Some(S), count: None, timeout_ns: 5 * S, ..Work::short(64, 64, 1) };
            let pace = Pace::Open(Timetable::new(&clock, Schedule::fixed(SATURATION * 0.9, 64), sleeps));
            let found = drive(&mut server, &clock, pace, work, &mut StopAt(clock.clone(), at));
            assert!(matches!(found.end, LoopEnd::Stopped), "{:?}", found.end);
            let from_due = found.recorder.from_due().unwrap();
            assert_eq!((found.recorder.never(), from_due.count()), ((0, 0), found.counts.sent), "stopped after {stop} ns");
            let least = from_due.quantiles().min;
            assert!(least >= Some(SERVICE - SERVICE / 1_000), "{least:?}");
        }
    }
    // A server that has stalled is no reason to forget what was due.
    let (clock, stop) = (FakeClock::default(), 700 * MS);
    let mut server = Served::<true>::new(&clock);
    server.dies_at = 500 * MS;
    let work = Work { outstanding: 64, duration_ns: Some(S), count: None, timeout_ns: 5 * S, ..Work::short(64, 64, 1) };
    let pace = Pace::Open(Timetable::new(&clock, Schedule::fixed(1_000.0, 64), true));
    let found = drive(&mut server, &clock, pace, work, &mut StopAt(clock.clone(), stop));
    let (unanswered, unsent) = found.recorder.never();
    assert!((199..=201).contains(&(unanswered + unsent)), "{unanswered} and {unsent}");
    assert_eq!(found.recorder.from_due().unwrap().count(), 499 + unanswered + unsent);
}

#[test]
fn a_wait_that_a_part_of_a_message_ends_is_not_in_vain() {
    /// Its replies come in two parts, which each end the wait.
    struct InParts(Served<false>, bool);
    impl Endpoint for InParts {
        fn is_lossy(&self) -> bool {
            false
        }
        fn send(&mut self, flow: u32, len: usize, content: Content) -> io::Result<bool> {
            Endpoint::send(&mut self.0, flow, len, content)
        }
        fn recv(&mut self, until: Ticks) -> io::Result<Option<Reply<'_>>> {
            self.1 = !self.1;
            if self.1 {
                self.0.clock.advance(SERVICE / 2);
                return Ok(None);
            }
            Endpoint::recv(&mut self.0, until)
        }
    }
    let clock = FakeClock::default();
    let table = || Timetable::new(&clock, Schedule::fixed(1_000.0, 64), true);
    for pace in [Pace::Closed, Pace::Every(table()), Pace::Open(table())] {
        let is_closed = matches!(pace, Pace::Closed);
        let mut path = InParts(Served::new(&clock), false);
        let work = Work { duration_ns: Some(S), count: None, timeout_ns: 5 * S, ..Work::short(64, 64, 1) };
        let found = drive(&mut path, &clock, pace, work, &mut KeepSamples(Vec::new()));
        let (count, vain) = (found.recorder.rtt().count(), found.counts.waits_in_vain);
        assert!(count >= 999 && vain <= if is_closed { 0 } else { 10 }, "{vain} of {count}");
    }
}
