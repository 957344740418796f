//! `hairpin mesh`: the matrix of up to 16 ranks, the slowest pairs of more, what is missing, and the decision.

use hairpin_record::any::AnyRecord;
use hairpin_record::head::{Body, Head};
use hairpin_record::histogram::Times;
use hairpin_record::mesh::{Effect, Mesh, MeshBody, MissingRank, Pair, Picked, Rank, Schedule, Subject, Threshold, Visit};
use hairpin_record::quantiles::Quantiles;
use hairpin_report::view::{Beside, Input, View};
use hairpin_report::{Options, csv, markdown, term, view};
use insta::assert_snapshot;

use crate::formats::formats;

fn pair(a: u32, b: u32) -> Pair {
    // Rank 2 is slow.
    let p50 = if a == 2 || b == 2 { 71_300 } else { 38_000 + 137 * u64::from(a + b) };
    let mut times = Times::new();
    (0..1200).for_each(|n| times.record(p50 - 600 + n));
    let visit = |visit, client| Visit {
        visit,
        client,
        round: visit,
        transactions: 600,
        rtt_ns: Some(times.quantiles()),
        histogram: times.encode(),
        ..Visit::default()
    };
    Pair { a, b, rtt_ns: Some(times.quantiles()), visits: vec![visit(1, a), visit(2, b)] }
}

fn mesh(ranks: u32) -> Mesh {
    let rank = |rank| Rank { rank, host: format!("n{}", rank + 1), ..Rank::default() };
    let body = MeshBody {
        id: "1234.0".into(),
        ranks: (0..ranks).map(rank).collect(),
        path: "udp:block/udp:block".into(),
        request_bytes: 64,
        reply_bytes: 64,
        schedule: Schedule {
            ranks,
            pairs: "all".into(),
            visits: 2,
            rounds: 2 * (ranks - 1),
            duration_ns: 500_000_000,
            ..Schedule::default()
        },
        pairs: (0..ranks).flat_map(|a| (a + 1..ranks).map(move |b| pair(a, b))).collect(),
        ..MeshBody::default()
    };
    let head = Head {
        schema: Mesh::SCHEMA.into(),
        tool: "hairpin 0.1.0".into(),
        started: "2026-11-26T12:00:00Z".into(),
        ..Head::default()
    };
    Mesh { head, body }
}

fn lost(mesh: &mut Mesh, rank: u32, why: &str) {
    for pair in mesh.pairs.iter_mut().filter(|pair| pair.a == rank || pair.b == rank) {
        pair.rtt_ns = None;
        for visit in &mut pair.visits {
            (visit.rtt_ns, visit.histogram, visit.missing) = (None, String::new(), Some(why.into()));
        }
    }
}

fn brief() -> Options {
    Options { brief: true, ..Options::default() }
}

#[test]
fn four_ranks_with_a_slow_one_and_a_lost_one() {
    let mut mesh = mesh(4);
    lost(&mut mesh, 3, "rank 3 has gone: nobody listens at 198.18.0.4:33000");
    mesh.missing.push(MissingRank { rank: 3, why: "rank 3 has gone".into() });
    let because = vec!["cpu_dma_latency_us is 2000000000 (0 on the others)".into()];
    mesh.effects.push(Effect { subject: Subject::Rank(2), ratio: 1.8, low: 1.7, high: 1.9, convicted: true, because });
    mesh.thresholds.push(Threshold {
        given: "p99 > 40us".into(),
        crossed: vec![(0, 2), (1, 2)],
        unknown: vec![(0, 3), (1, 3), (2, 3)],
        ..Threshold::default()
    });
    mesh.thresholds.push(Threshold { given: "node > 1.3x".into(), ranks: vec![2], unclear: vec![3], ..Threshold::default() });
    mesh.picked =
        Some(Picked { ranks: vec![0, 1], mean_ns: Some(31_000.0), longest_ns: Some(31_000.0), expected_pairs: 0, exact: true });
    formats(&mesh);
    assert_snapshot!(term(&mesh, &brief()));
    assert_snapshot!(csv(&mesh, &Options::default()));
    let text = term(&mesh, &brief()).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        text.contains(
            "slow: n3 (x1.80, 1.70 to 1.90 of the others' p50); there cpu_dma_latency_us is 2000000000 (0 on the others)"
        ),
        "{text}"
    );
}

#[test]
fn a_mesh_of_no_ranks_has_an_empty_matrix() {
    let mut none = mesh(1);
    none.schedule.ranks = 0;
    assert!(term(&none, &brief()).contains("0 of 0 pairs measured"));
}

#[test]
fn sixteen_ranks_fit_in_80_columns() {
    let text = term(&mesh(16), &brief());
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let number = |word: Option<&str>| word.is_some_and(|word| word.parse::<f64>().is_ok());
    let is_row = |line: &&str| {
        let mut words = line.split_whitespace();
        number(words.next()) && number(words.next())
    };
    let rows: Vec<&str> = text.lines().filter(is_row).collect();
    // The heads of the columns, and a row for each rank but the last.
    assert_eq!(rows.len(), 1 + 15, "{text}");
    assert!(rows.iter().all(|row| !row.contains("us")), "the unit stands above: {text}");
}

#[test]
fn more_ranks_have_their_slowest_pairs_only() {
    let text = term(&mesh(20), &brief());
    assert!(text.contains("190 of 190 pairs measured") && text.contains("10 slowest pairs"), "{text}");
    let of_two = |line: &&str| {
        let ends = line.split_whitespace().next().and_then(|pair| pair.split_once('-'));
        ends.is_some_and(|(a, b)| (a == "2" || b == "2") && a.parse::<u32>().is_ok())
    };
    assert_eq!(text.lines().filter(of_two).count(), 10, "{text}");
    assert!(!text.contains("by rank"), "{text}");
    let page = markdown(&mesh(20), &Options::default());
    assert!(page.lines().filter(|line| line.starts_with("| ")).count() >= 190, "all of them elsewhere");
}

#[test]
fn pairs_outside_the_schedule_are_told_from_missing_ones() {
    let mut ring = mesh(5);
    ring.pairs.retain(|pair| pair.b == pair.a + 1 || (pair.a, pair.b) == (0, 4));
    let text = term(&ring, &brief());
    assert!(text.contains(".: not in the schedule") && !text.contains("-: missing"), "{text}");
}

fn report(mesh: Mesh) -> View {
    let given = [Input { name: "mesh".into(), record: AnyRecord::Mesh(Box::new(mesh)) }];
    view(&given, "2026-11-26T12:01:00Z", Beside::default())
}

fn slow(rank: u32, ratio: f64, convicted: bool) -> Effect {
    Effect { subject: Subject::Rank(rank), ratio, low: 0.95 * ratio, high: 1.05 * ratio, convicted, because: Vec::new() }
}

#[test]
fn a_report_says_who_is_slow_first_and_holds_all_pairs() {
    let mut mesh = mesh(4);
    lost(&mut mesh, 3, "rank 3 has gone: nobody listens at 198.18.0.4:33000");
    mesh.effects = vec![slow(2, 1.8, true), slow(0, 0.99, false)];
    mesh.ranks[2].switch = Some("leaf1".into());
    let view = report(mesh);
    assert!(view.summary[0].starts_with("slow: n3 (x1.80, "), "{:?}", view.summary);
    assert_eq!(view.summary.len(), 1, "nothing is said of rows, of which a mesh has none: {:?}", view.summary);
    let map = &view.meshes[0];
    assert_eq!((map.of, map.hosts.len(), map.pairs.len()), (4, 4, 6));
    assert!(map.said[0].starts_with("slow: n3") && map.said[1].starts_with("3 of 6 pairs measured"), "{:?}", map.said);
    let host = |rank: usize| {
        (map.hosts[rank].host.as_str(), map.hosts[rank].switch.as_deref(), map.hosts[rank].effect, map.hosts[rank].slow)
    };
    assert_eq!(host(2), ("n3", Some("leaf1"), Some(1.8), true));
    assert_eq!((host(0), host(1)), (("n1", None, Some(0.99), false), ("n2", None, None, false)));
    // The median of three.
    assert!(map.typical_ns.is_some_and(|ns| (70_000..73_000).contains(&ns)), "{:?}", map.typical_ns);
    for pair in &map.pairs {
        assert_eq!((pair.p50_ns.is_none(), pair.missing.contains("nobody listens")), (pair.b == 3, pair.b == 3), "{pair:?}");
    }
    for text in [term(&view, &Options::default()), markdown(&view, &Options::default())] {
        assert!(text.contains("slow: n3") && text.contains("n1 - n3") && !text.contains("no row was measured"), "{text}");
    }
}

#[test]
fn a_page_without_room_for_all_ranks_draws_those_of_the_largest_effect() {
    let ring =
        |a: u32| Pair { a, b: a + 1, rtt_ns: Some(Quantiles { p50: Some(30_000), ..Quantiles::default() }), visits: Vec::new() };
    let mut mesh = mesh(2);
    (mesh.pairs, mesh.schedule.ranks) = ((0..299).map(ring).collect(), 300);
    mesh.effects = (0..300).map(|rank| slow(rank, if rank == 299 { 2.0 } else { 1.0 }, rank == 299)).collect();
    let map = &report(mesh).meshes[0];
    assert_eq!((map.of, map.hosts.len()), (300, 256));
    assert_eq!((map.hosts[0].rank, map.hosts[254].rank, map.hosts[255].rank), (0, 254, 299));
    assert!(map.pairs.len() == 254 && map.pairs.iter().all(|pair| pair.b < 255), "{}", map.pairs.len());
}
