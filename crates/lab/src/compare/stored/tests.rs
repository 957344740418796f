use hairpin_record::head::{Head, Place};
use hairpin_record::run::{ClockFacts, Link, RunBody};

use std::time::SystemTime;

use hairpin_session::time::rfc3339;

use super::*;

pub(in super::super) fn row(path: &str, p50s: impl Iterator<Item = u64>, core: u64) -> Row {
    let block = |(at, p50): (usize, u64)| Block {
        at_ns: at as u64 * 100_000_000,
        count: 20_000,
        p50: Some(p50),
        p99: Some(2 * p50),
        duration_ns: Some(20_000 * p50),
        core_rtt_ns: Some(core),
        ..Block::default()
    };
    let mut row = Row {
        path: path.into(),
        request_bytes: 64,
        blocks: p50s.enumerate().map(block).collect(),
        transactions_per_s: 200_000.0,
        ..Row::default()
    };
    row.rtt_ns.p50 = row.blocks.first().and_then(|block| block.p50);
    row.cpu.client.per_transaction_ns = Some(5_000.0);
    row
}

pub(in super::super) fn run(rows: Vec<Row>) -> Run {
    let place = Place {
        hosts: Hosts { client: HostFacts::default(), server: None },
        link: Link { kind: "loopback".into(), interface: None, mtu: None, peer: None, options: Default::default(), group: None },
        clock: ClockFacts { source: "tsc".into(), cost_ns: 1.0, step_ns: 1.0, ticks_per_s: 1e9, drift_ppb: None },
    };
    Record { head: Head::default(), body: RunBody { place, results: rows } }
}

fn wobble(base: u64) -> impl Iterator<Item = u64> {
    (0..60).map(move |i| base + i * 37 % 41)
}

/// Several runs that differ by 1 % in all.
fn several(rows: impl Fn(u64) -> Vec<Row>) -> Vec<Run> {
    (0..4).map(|at| run(rows(at))).collect()
}

fn named(runs: &[Run]) -> Vec<Named<'_>> {
    runs.iter().map(|run| ("run", run)).collect()
}

#[test]
fn runs_are_compared_row_by_row_and_say_that_they_were_not_interleaved() {
    let first = run(vec![row("udp/udp", wobble(5_000), 120), row("tcp/tcp", wobble(7_000), 120)]);
    let second = run(vec![row("tcp/tcp", wobble(7_700), 120), row("pipe/pipe", wobble(3_000), 120)]);
    let found = held(&[("one", &first)], &[("two", &second)], Figure::P50, 0.02, Spread::WithMoods).unwrap();
    assert_eq!((found.arms.len(), found.comparisons.len()), (2, 1));
    let comparison = &found.comparisons[0];
    assert_eq!((comparison.arm.as_str(), comparison.against.as_str()), ("B", "A"));
    assert!((comparison.figures[0].ratio.unwrap() - 1.1).abs() < 0.01);
    assert_eq!(found.warnings[0].code, "not-interleaved");
    // CPU time has one value per run: a ratio without an interval.
    let cpu = comparison.figures.iter().find(|estimate| estimate.figure == Figure::Cpu).unwrap();
    assert_eq!((cpu.ratio, cpu.low, cpu.high), (Some(1.0), None, None));
}

#[test]
fn one_run_each_has_no_verdict_and_several_have() {
    let slower = |at: u64| vec![row("tcp/tcp", wobble(7_700 + 20 * at), 120)];
    let (first, second) = (several(|at| vec![row("tcp/tcp", wobble(7_000 + 20 * at), 120)]), several(slower));
    let single = held(&named(&first[..1]), &named(&second[..1]), Figure::P50, 0.02, Spread::WithMoods).unwrap();
    assert_eq!((single.comparisons[0].verdict, single.comparisons[0].runs), (Verdict::Unclear, Some([1, 1])));
    assert!(single.comparisons[0].figures[0].low.unwrap() > 1.05, "what these two runs were is told all the same");
    assert_eq!(single.warnings[1].code, "single-runs");
    let limit: crate::compare::Limit = "p50 > +5%".parse().unwrap();
    assert!(limit.hold(&single)[0].unknown.as_ref().unwrap().contains("one run each"));
    let found = held(&named(&first), &named(&second), Figure::P50, 0.02, Spread::WithMoods).unwrap();
    let p50 = &found.comparisons[0].figures[0];
    assert_eq!((found.comparisons[0].verdict, found.comparisons[0].runs), (Verdict::Slower, Some([4, 4])));
    assert!((p50.ratio.unwrap() - 1.1).abs() < 0.01 && p50.between_runs.unwrap() > 0.002, "{p50:?}");
    assert_eq!((found.arms[0].runs.len(), found.warnings.len()), (4, 1));
    assert!(limit.hold(&found)[0].crossed, "{p50:?}");
    let one = held(&named(&first[..1]), &named(&second), Figure::P50, 0.02, Spread::WithMoods).unwrap();
    assert_eq!((one.comparisons[0].verdict, one.warnings[1].code.as_str()), (Verdict::Slower, "single-baseline"));
}

#[test]
fn runs_of_one_time_do_not_show_what_the_host_does_later() {
    let at = |second: u64| {
        let mut run = run(vec![row("tcp/tcp", wobble(7_000 + 20 * (second % 7)), 120)]);
        run.head.started = rfc3339(SystemTime::UNIX_EPOCH + Duration::from_secs(second));
        run
    };
    let warned = |first: [u64; 3], second: u64| {
        let (first, second) = (first.map(at), [second, second + 1].map(at));
        let found = held(&named(&first), &named(&second), Figure::P50, 0.02, Spread::WithMoods).unwrap();
        found.warnings.into_iter().find(|note| note.code == "baseline-at-one-time").map(|note| note.message)
    };
    assert!(warned([0, 2, 4], 7_204).unwrap().contains("lie within 4s and the others 2h later"));
    assert_eq!(warned([0, 2, 4], 6), None);
    assert_eq!(warned([0, 86_400, 172_800], 259_200), None);
}

#[test]
fn no_interval_is_narrower_than_a_step_of_the_clock() {
    let steps = |p50: u64| {
        let mut run = run(vec![row("niq/niq", std::iter::repeat_n(p50, 60), 120)]);
        run.place.clock.step_ns = 10.0;
        run
    };
    let (first, second) = (steps(200), steps(193));
    for several in [1, 3] {
        let (first, second) = (vec![("one", &first); several], vec![("two", &second); several]);
        let found = held(&first, &second, Figure::P50, 0.02, Spread::WithMoods).unwrap();
        let p50 = &found.comparisons[0].figures[0];
        let (ratio, low, high) = (p50.ratio.unwrap(), p50.low.unwrap(), p50.high.unwrap());
        assert!((ratio - 0.965).abs() < 1e-9 && (low - 0.915).abs() < 1e-9 && (high - 1.015).abs() < 1e-9, "{p50:?}");
        assert_eq!(found.comparisons[0].verdict, Verdict::Unclear, "less than a step is no difference");
        assert!((p50.difference.unwrap() + 7.0).abs() < 1e-9 && (p50.value.unwrap() - 193.0).abs() < 1e-9);
    }
}

#[test]
fn ratio_and_difference_have_the_sign_of_the_columns_beside_them() {
    // As in a real record: the blocks say less, the p99 of the whole run says more.
    let (mut first, mut second) = (row("niq/niq", wobble(240), 120), row("niq/niq", wobble(230), 120));
    (first.rtt_ns.p99, second.rtt_ns.p99) = (Some(240), Some(260));
    let (first, second) = (run(vec![first]), run(vec![second]));
    let found = held(&[("one", &first)], &[("two", &second)], Figure::P50, 0.02, Spread::WithMoods).unwrap();
    for estimate in &found.comparisons[0].figures {
        let (ratio, difference) = (estimate.ratio.unwrap(), estimate.difference.unwrap());
        let columns = estimate.value.unwrap() - estimate.base.unwrap();
        assert!((ratio - 1.0) * difference >= 0.0 && (columns - difference).abs() < 1e-6, "{estimate:?}");
    }
}

#[test]
fn quantiles_between_the_steps_are_used_where_the_record_has_them() {
    let with = |between: f64| {
        let mut row = row("udp/udp", std::iter::repeat_n(5_000, 30), 120);
        for block in &mut row.blocks {
            block.interpolated_ns = Some(hairpin_record::run::Interpolated { p50: Some(between), p99: None, p999: None });
        }
        run(vec![row])
    };
    let (first, second) = (with(5_000.0), with(5_001.5));
    let found = held(&[("one", &first)], &[("two", &second)], Figure::P50, 0.02, Spread::WithMoods).unwrap();
    assert!((found.comparisons[0].figures[0].difference.unwrap() - 1.5).abs() < 1e-6);
    // The row's p99 is not interpolated, and the blocks' is in the form of earlier records.
    assert_eq!(found.comparisons[0].figures[1].ratio, Some(1.0));
}

#[test]
fn blocks_of_different_states_give_no_verdict() {
    let first = run(vec![row("udp/udp", wobble(5_000), 120)]);
    let second = run(vec![row("udp/udp", wobble(6_300), 510)]);
    let found = held(&[("one", &first)], &[("two", &second)], Figure::P50, 0.02, Spread::WithMoods).unwrap();
    let comparison = &found.comparisons[0];
    assert_eq!((comparison.verdict, comparison.pairs, comparison.dropped), (Verdict::Unclear, 0, 60));
    assert!(has_no_common_state(&found));
}

fn has_no_common_state(found: &CompareBody) -> bool {
    found.warnings.iter().any(|note| note.code == "no-common-state")
}

#[test]
fn a_figure_without_an_interval_says_nothing_of_the_cores() {
    let on = |host: &str, blocks: usize| {
        let mut run = run(vec![row("udp/udp", wobble(5_000).take(blocks), 120)]);
        run.place.hosts.client.hostname = host.into();
        run
    };
    // Blocks have no CPU time and these no p99.9. A run of five blocks is too short to count, and one of several runs that has a
    // CPU time only as a whole is one value.
    for (figure, other, blocks, runs, pairs) in [
        (Figure::Cpu, "a", 60, 1, 0),
        (Figure::P999, "a", 60, 1, 0),
        (Figure::Cpu, "b", 60, 1, 0),
        (Figure::Cpu, "a", 60, 4, 4),
        (Figure::P999, "a", 60, 4, 0),
        (Figure::P50, "a", 5, 3, 0),
    ] {
        let (first, second) = (on("a", blocks), on(other, blocks));
        let (first, second) = (vec![("one", &first); runs], vec![("two", &second); runs]);
        let found = held(&first, &second, figure, 0.02, Spread::WithMoods).unwrap();
        assert_eq!((found.comparisons[0].pairs, found.comparisons[0].dropped), (pairs, 0), "{figure} of {runs} runs");
        assert!(!has_no_common_state(&found), "{figure} of {runs} runs");
    }
}

#[test]
fn a_threshold_without_an_interval_names_the_reason() {
    let runs = |cores: &[u64], blocks: usize| -> Vec<Run> {
        cores.iter().map(|core| run(vec![row("udp/udp", wobble(5_000).take(blocks), *core)])).collect()
    };
    let apart = || [runs(&[120; 3], 60), runs(&[510; 3], 60)];
    for ([first, second], limit, why) in [
        (apart(), "p50 > +5%", "p50 has no interval: the two sides have no distance of the cores in common"),
        (apart(), "cpu > +5%", "cpu has no interval: blocks have no value of it, and the cores were at several distances"),
        ([runs(&[120, 510], 60), runs(&[120], 60)], "p50 > +5%", "p50 has no interval: no side has two runs"),
        ([runs(&[120; 3], 5), runs(&[120; 3], 5)], "p50 > +5%", "p50 has no interval: measure longer"),
    ] {
        let limit: crate::compare::Limit = limit.parse().unwrap();
        let found = held(&named(&first), &named(&second), Figure::P50, 0.02, Spread::WithMoods).unwrap();
        let unknown = limit.hold(&found)[0].unknown.clone().unwrap();
        assert!(unknown.starts_with(why), "{unknown}");
    }
}

#[test]
fn every_block_of_a_long_run_counts() {
    let of = |base: u64| run(vec![row("udp/udp", (0..1_200).map(move |i| base + i * 37 % 41), 120)]);
    let found = held(&[("one", &of(5_000))], &[("two", &of(5_500))], Figure::P50, 0.02, Spread::WithMoods).unwrap();
    // None saw another distance between the cores.
    assert_eq!((found.comparisons[0].pairs, found.comparisons[0].dropped), (1_200, 0));
}

#[test]
fn the_rate_is_that_of_all_threads() {
    // The second thread does half as much, and does not meet the server's core.
    let of = |threads: u32, at: u64| {
        let mut row = row("udp:spin/udp:spin", wobble(5_000 + 20 * at), 120);
        let block = |block: &Block, thread: u32| Block {
            thread,
            count: block.count / u64::from(thread + 1),
            core_rtt_ns: block.core_rtt_ns.filter(|_| thread == 0),
            ..block.clone()
        };
        row.blocks = row.blocks.iter().flat_map(|one| (0..threads).map(move |thread| block(one, thread))).collect();
        row.threads = threads;
        vec![row]
    };
    let (first, second) = (several(|at| of(1, at)), several(|at| of(2, at)));
    let found = held(&named(&first), &named(&second), Figure::Rate, 0.02, Spread::WithMoods).unwrap();
    let rate = found.comparisons[0].figures.iter().find(|estimate| estimate.figure == Figure::Rate).unwrap();
    assert!((rate.ratio.unwrap() - 1.5).abs() < 0.01 && (rate.base.unwrap() - 198_000.0).abs() < 2_000.0, "{rate:?}");
    assert_eq!(found.comparisons[0].verdict, Verdict::Faster);
    let typical = |at: usize| found.arms[at].typical.unwrap().rate_per_s.unwrap();
    assert!((typical(1) / typical(0) - 1.5).abs() < 0.01, "{} {}", typical(0), typical(1));
    assert_eq!([0, 1].map(|at: usize| found.arms[at].blocks[0].transactions), [20_000, 30_000]);
}

#[test]
fn blocks_of_all_threads_count() {
    // Two of three threads are slower in the second run. Only the first one meets the server's core.
    let of = |slower: u64| {
        let mut row = row("udp:spin/udp:spin", wobble(5_000), 120);
        let block = |block: &Block, thread: u32| Block {
            thread,
            p50: block.p50.map(|ns| if thread == 0 { ns } else { ns * slower }),
            core_rtt_ns: block.core_rtt_ns.filter(|_| thread == 0),
            ..block.clone()
        };
        row.blocks = row.blocks.iter().flat_map(|one| (0..3).map(move |thread| block(one, thread))).collect();
        row.threads = 3;
        run(vec![row])
    };
    let found = held(&[("one", &of(1))], &[("two", &of(2))], Figure::P50, 0.02, Spread::WithMoods).unwrap();
    let comparison = &found.comparisons[0];
    assert!((comparison.figures[0].ratio.unwrap() - 2.0).abs() < 0.02, "{comparison:?}");
    assert_eq!((comparison.pairs, comparison.dropped), (180, 0));
    assert_eq!((found.arms[0].threads, found.arms[0].blocks[2].state), (Some(3), Some(0)));
    // Of the rates, which are those of all threads, there is one for each block of the first.
    let found = held(&[("one", &of(1))], &[("two", &of(2))], Figure::Rate, 0.02, Spread::WithMoods).unwrap();
    assert_eq!((found.comparisons[0].pairs, found.comparisons[0].dropped), (60, 0));
}

#[test]
fn the_length_of_a_servers_reply_is_a_result_and_its_request_is_the_work() {
    let asking = |requests: &[&str], reply_bytes: u64| {
        let row = |request: &&str| Row {
            reply_bytes,
            own_request: Some(Box::new(OwnRequest { request: (*request).into(), until: "resp".into(), ..OwnRequest::default() })),
            ..row("tcp:poll/tcp:poll", wobble(5_000 + 20 * reply_bytes), 120)
        };
        run(requests.iter().map(row).collect())
    };
    let first = [5, 6].map(|bytes| asking(&["PING", "INCR x"], bytes));
    let second = [6, 7].map(|bytes| asking(&["INCR x"], bytes));
    let found = held(&named(&first), &named(&second), Figure::P50, 0.02, Spread::WithMoods).unwrap();
    assert_eq!((found.comparisons.len(), found.comparisons[0].runs), (1, Some([2, 2])));
    assert_eq!(found.arms[1].own_request.as_ref().unwrap().request, "INCR x");
    let other = [asking(&["GET x"], 5)];
    let error = held(&named(&first), &named(&other), Figure::P50, 0.02, Spread::WithMoods).unwrap_err().to_string();
    assert!(error.contains("tcp:poll/tcp:poll of 64 bytes (INCR x); second") && error.contains("64 bytes (GET x);"), "{error}");
}

#[test]
fn many_long_runs_make_no_record_too_long_to_be_read() {
    let blocks = |count: usize| (0..count as u32).map(|round| ArmBlock { round, ..ArmBlock::default() }).collect::<Vec<_>>();
    let mut arms = [1_000, 2 * crate::compare::KEPT].map(|count| Arm { blocks: blocks(count), ..Arm::default() });
    thin(&mut arms);
    assert_eq!(arms.each_ref().map(|arm| arm.blocks.len()), [1_000, crate::compare::KEPT / 2]);
    assert_eq!(arms[1].blocks[1].round, 4);
}

#[test]
fn rows_of_another_pace_are_other_work() {
    let at = |pace_per_s| Row { pace_per_s, ..row("udp:block/udp:block", wobble(5_000), 120) };
    let paths = |first: &Run, second: &Run| {
        let found = held(&[("one", first)], &[("two", second)], Figure::P50, 0.02, Spread::WithMoods);
        found.map(|found| found.arms.into_iter().map(|arm| arm.path).collect::<Vec<_>>()).map_err(|error| error.to_string())
    };
    let demo = run(vec![at(Some(10.0)), at(Some(1_000.0)), at(None)]);
    let [slow, quick, flat_out] = ["udp:block/udp:block at 10/s", "udp:block/udp:block at 1000/s", "udp:block/udp:block"];
    assert_eq!(paths(&demo, &demo).unwrap(), [slow, slow, quick, quick, flat_out, flat_out]);
    let one = run(vec![at(None)]);
    assert_eq!(paths(&run(vec![at(Some(10.0))]), &one).unwrap(), [slow, flat_out]);
    let error = paths(&run(vec![at(Some(10.0)), at(Some(1_000.0))]), &one).unwrap_err();
    assert!(error.contains("first udp:block/udp:block at 10/s of 64 bytes"), "{error}");
    let on = |threads: u32| run([None, Some(10.0)].map(|pace| Row { threads, ..at(pace) }).into());
    let error = paths(&on(2), &on(4)).unwrap_err();
    assert!(error.contains("of 64 bytes with 2 threads") && error.contains("of 64 bytes with 4 threads"), "{error}");
}

#[test]
fn a_threshold_takes_runs_of_one_host_on_the_same_cpus() {
    let on = |client: &str, server: Option<&str>, cpu: u32| {
        let mut row = row("udp/udp", wobble(5_000), 120);
        row.cpu.client.cpus = vec![cpu];
        let mut run = run(vec![row]);
        run.place.hosts.client.hostname = client.into();
        run.place.hosts.server = server.map(|name| HostFacts { hostname: name.into(), ..HostFacts::default() });
        run
    };
    let limit: crate::compare::Limit = "p50 > +100%".parse().unwrap();
    let first = on("a", Some("b"), 0);
    for (second, matched, why) in [
        (on("a", Some("b"), 0), Matched::CoreDistance, None),
        (on("", None, 0), Matched::CoreDistance, None),
        (on("a", Some(""), 0), Matched::CoreDistance, None),
        (on("a", Some("b"), 2), Matched::All, Some("on the same CPUs")),
        (on("c", Some("b"), 0), Matched::All, Some("of different hosts")),
        (on("a", Some("c"), 0), Matched::All, Some("of different hosts")),
    ] {
        let found = held(&[("one", &first); 3], &[("two", &second); 3], Figure::P50, 0.02, Spread::WithMoods).unwrap();
        let unknown = limit.hold(&found)[0].unknown.clone();
        assert_eq!((found.comparisons[0].matched, unknown.is_some()), (matched, why.is_some()), "{unknown:?}");
        assert!(why.is_none_or(|why| unknown.unwrap().contains(why)), "{why:?}");
        let warned = found.warnings.iter().any(|note| note.code == OTHER_HOST);
        assert_eq!(warned, why == Some("of different hosts"));
    }
}

#[test]
fn runs_of_one_row_each_are_always_compared() {
    let first = run(vec![row("udp/udp", wobble(5_000), 120)]);
    let second = run(vec![row("tcp/tcp", wobble(5_000), 120)]);
    let found = held(&[("one", &first)], &[("two", &second)], Figure::P50, 0.02, Spread::WithMoods).unwrap();
    let p50 = &found.comparisons[0].figures[0];
    assert!(p50.low.unwrap() < 1.0 && 1.0 < p50.high.unwrap(), "{p50:?}");
    let many = run(vec![row("pipe/pipe", wobble(5_000), 120), row("unix/unix", wobble(5_000), 120)]);
    let error = held(&[("one", &first)], &[("many", &many)], Figure::P50, 0.02, Spread::WithMoods).unwrap_err().to_string();
    assert!(error.contains("no row in common") && error.contains("pipe/pipe of 64 bytes"), "{error}");
}
