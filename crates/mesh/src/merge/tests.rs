use hairpin_record::explain::Direction;
use hairpin_record::histogram::Times;
use hairpin_record::mesh::StageTime;
use hairpin_record::run::Side;

use super::*;
use crate::meeting::{tests::card, write_card};
use crate::setup::tests::setup;
use crate::visit::Visits;
use crate::visit::tests::measured;

/// Every visit of 4 ranks, as their clients tell of them.
fn all() -> Vec<Told> {
    let schedule = setup(4, "all").schedule().unwrap();
    let of = |(pair, visit, round)| {
        let told = measured(pair, visit, 10_000 + u64::from(round), 2_000);
        Told { visit: Visit { round, ..told.visit }, ..told }
    };
    schedule.visits().map(of).collect()
}

fn parts(visits: Vec<Told>) -> Parts {
    let cards = (0..4).map(|rank| (rank, card(rank, 4))).collect();
    Parts { setup: setup(4, "all"), cards, visits, missing: BTreeMap::new(), interrupted: false }
}

fn missing(told: &Told, by: u32, why: &str) -> Told {
    let visit =
        Visit { missing: Some(why.into()), rtt_ns: None, histogram: String::new(), transactions: 0, ..told.visit.clone() };
    Told { by, visit, ..told.clone() }
}

#[test]
fn stages_are_kept_and_count_in_no_figure() {
    let whole = body(parts(all())).unwrap();
    let stage = StageTime { name: "outside".into(), side: Side::Client, direction: Direction::Reply, typical_ns: 9_000.0 };
    let visit = Visit { visit: 3, client: 0, round: 7, stages: vec![stage], ..Visit::default() };
    let told = Told { pair: (0, 1), by: 0, visit };
    let body = body(parts([all(), vec![told.clone()]].concat())).unwrap();
    let (pair, before) = (&body.pairs[0], &whole.pairs[0]);
    assert_eq!((pair.visits.len(), pair.measured().count()), (3, 2));
    assert_eq!((&pair.visits[2], &pair.rtt_ns), (&told.visit, &before.rtt_ns));
}

#[test]
fn a_pairs_figures_are_those_of_all_its_visits() {
    let body = body(parts(all())).unwrap();
    assert_eq!((body.pairs.len(), body.ranks.len(), body.schedule.rounds), (6, 4, 6));
    assert!(body.pairs.iter().all(|pair| pair.measured().count() == 2) && body.missing.is_empty() && body.warnings.is_empty());
    assert!(body.pairs.is_sorted_by_key(|pair| (pair.a, pair.b)));
    // The same times in one histogram.
    let pair = &body.pairs[0];
    let mut times = Times::new();
    for visit in &pair.visits {
        (0..2_000).for_each(|n| times.record(10_000 + u64::from(visit.round) + n));
    }
    let (found, expected) = (pair.rtt_ns.as_ref().unwrap(), times.quantiles());
    assert_eq!((found.count, found.min, found.max), (expected.count, expected.min, expected.max));
    assert_eq!((found.p50, found.p90, found.p99, found.p999), (expected.p50, expected.p90, expected.p99, expected.p999));
    let near = |a: Option<f64>, b: Option<f64>| (a.unwrap() - b.unwrap()).abs() < 0.2;
    assert!(near(found.mean, expected.mean) && near(found.stddev, expected.stddev), "{found:?} {expected:?}");
    assert_eq!(body.ranks[1].address, "198.18.0.2:24444");
}

#[test]
fn a_missing_visit_has_the_reason_of_the_rank_that_knows_it() {
    let mut visits = all();
    let lost = visits.remove(0);
    let (client, server) = (lost.visit.client, if lost.pair.0 == lost.visit.client { lost.pair.1 } else { lost.pair.0 });
    let why = |visits: Vec<Told>, gone: Option<u32>, interrupted| {
        let missing = gone.map(|rank| (rank, format!("rank {rank} never started"))).into_iter().collect();
        let body = body(Parts { missing, interrupted, ..parts(visits) }).unwrap();
        let pair = body.pairs.iter().find(|pair| (pair.a, pair.b) == lost.pair).unwrap();
        assert_eq!((pair.measured().count(), pair.visits.len()), (1, 2));
        assert_eq!(pair.rtt_ns, pair.visits[1].rtt_ns);
        pair.visits[0].missing.clone().unwrap()
    };
    let with = |told: &[Told]| [&visits[..], told].concat();
    let (by_client, by_server) = (missing(&lost, client, "rank x hangs"), missing(&lost, server, "it did not come"));
    assert_eq!(why(with(&[by_server.clone(), by_client]), None, false), "rank x hangs");
    assert_eq!(why(with(&[by_server]), Some(client), false), "it did not come");
    assert_eq!(why(visits.clone(), Some(server), false), format!("rank {server} never started"));
    assert_eq!(why(visits.clone(), None, true), "the mesh was ended before it");
    assert_eq!(why(visits.clone(), None, false), format!("rank {client} ended before it"));
    // A histogram from elsewhere may be unreadable.
    let torn = Told { visit: Visit { histogram: "x".into(), ..lost.visit.clone() }, ..lost.clone() };
    assert_eq!(why(with(&[torn]), None, false), "its histogram cannot be read");
}

#[test]
fn visits_outside_the_schedule_are_left_out() {
    let mut visits = all();
    let stray = |pair, round, visit| {
        let told = measured(pair, visit, 5, 100);
        Told { visit: Visit { round, ..told.visit }, ..told }
    };
    visits.extend([stray((0, 9), 1, 1), stray((0, 1), 99, 1), stray((0, 1), 7, 0)]);
    let clean = body(parts(all())).unwrap();
    assert_eq!(body(parts(visits.clone())).unwrap(), clean);
    // Visits beyond the schedule are those of a second look.
    visits.push(stray((0, 1), 7, 3));
    let again = body(parts(visits)).unwrap();
    assert_eq!((again.pairs[0].visits.len(), again.pairs[0].visits[2].round), (3, 7));
}

#[test]
fn files_alone_make_the_same_record() {
    let dir = tempfile::tempdir().unwrap();
    assert!(matches!(of_directory(dir.path()), Err(MergeError::Empty(_))));
    for rank in 0..4 {
        write_card(dir.path(), &card(rank, 4)).unwrap();
        let mut visits = Visits::new(dir.path(), rank);
        for told in all().into_iter().filter(|told| told.by == rank) {
            assert_eq!(visits.add(told), None);
        }
    }
    assert_eq!(body(of_directory(dir.path()).unwrap()).unwrap(), body(parts(all())).unwrap());

    std::fs::remove_file(card_file(dir.path(), 3)).unwrap();
    let missing = of_directory(dir.path()).unwrap().missing;
    assert!(missing.len() == 1 && missing[&3].starts_with("rank 3 never started"), "{missing:?}");

    write_card(dir.path(), &Card { mesh: "other".into(), ..card(2, 4) }).unwrap();
    assert!(matches!(of_directory(dir.path()), Err(MergeError::Mixed(..))));
}

#[test]
fn an_impossible_number_of_ranks_is_refused_before_their_files_are_read() {
    let dir = tempfile::tempdir().unwrap();
    write_card(dir.path(), &Card { setup: setup(u32::MAX, "all"), ..card(0, 4) }).unwrap();
    assert!(matches!(of_directory(dir.path()), Err(MergeError::Setup(_))));
}

#[test]
fn a_silent_rank_is_missing_only_if_others_missed_it() {
    let missing_of = |setup: &Setup, visits: &[Told]| {
        let dir = tempfile::tempdir().unwrap();
        for rank in 0..setup.ranks {
            write_card(dir.path(), &Card { setup: setup.clone(), ..card(rank, setup.ranks) }).unwrap();
            let mut file = Visits::new(dir.path(), rank);
            visits.iter().filter(|told| told.by == rank).for_each(|told| assert_eq!(file.add(told.clone()), None));
        }
        of_directory(dir.path()).unwrap().missing
    };
    let all_of = |setup: &Setup| -> Vec<Told> {
        setup.schedule().unwrap().visits().map(|(pair, visit, _)| measured(pair, visit, 10_000, 500)).collect()
    };
    // The last rank is the client of no first visit; of an odd number of ranks with one partner each, one rank has no partner.
    let once = Setup { visits: 1, ..setup(4, "all") };
    for (setup, visits) in [
        (&once, all_of(&once)),
        (&setup(5, "sample:1"), all_of(&setup(5, "sample:1"))),
        // All were killed among the first visits, or in the first round.
        (&setup(4, "all"), all_of(&once)),
        (&setup(4, "all"), all_of(&once)[..1].to_vec()),
    ] {
        assert_eq!(missing_of(setup, &visits), BTreeMap::new(), "{setup:?}");
    }
    let gone = |told: Told| if told.pair.1 == 3 { missing(&told, told.by, "rank 3 has gone") } else { told };
    let found = missing_of(&once, &all_of(&once).into_iter().map(gone).collect::<Vec<_>>());
    assert!(found.len() == 1 && found[&3].starts_with("rank 3 reported no visits"), "{found:?}");
}

#[test]
fn meshes_of_a_list_of_hosts_have_different_ids() {
    let id = |mesh: &str, started: &str| {
        let mut parts = parts(all());
        parts.cards.values_mut().for_each(|card| (card.mesh, card.started) = (mesh.into(), started.into()));
        body(parts).unwrap().id
    };
    assert_eq!(id(LISTED, "2026-11-28T10:15:30.297123Z"), "listed-20261128T101530.297123Z");
    assert_eq!(id("1234.0", "2026-11-28T10:15:30.297123Z"), "1234.0");
}

#[test]
fn ranks_that_share_a_host_are_warned_of() {
    let mut shared = parts(all());
    shared.cards.get_mut(&2).unwrap().host_id = "id 1".into();
    let body = body(shared).unwrap();
    assert_eq!(body.warnings.len(), 1);
    assert!(body.warnings[0].message.starts_with("ranks 1, 2 are all on host n1"), "{}", body.warnings[0].message);
}

/// The most memory that this process had so far, in MB.
fn peak_mb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.split_whitespace().next().unwrap().parse::<u64>().unwrap() / 1024
}

/// Rank 0 with 200,000 visits of 10,000 ranks: it keeps them as they came, and makes and judges a record of copies.
/// `cargo test --release -p hairpin-mesh -- --ignored --nocapture ten_thousand`
#[test]
#[ignore = "takes a GB and long; it prints the figures of docs/mesh.md"]
fn rank_0_of_ten_thousand_ranks() {
    let begun = std::time::Instant::now();
    let setup = setup(10_000, "sample:20");
    // Histograms of 20,000 round trips around 25 us, some hundred of which stand for all.
    let template = |seed: u64| {
        let mut times = Times::new();
        for n in 0..20_000u64 {
            let bits = (seed << 32 | n).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
            let spread = [12, 18, 24].map(|shift| (bits >> (shift - 12)) % 1_000).iter().sum::<u64>();
            times.record(23_000 + 2 * spread + if bits.is_multiple_of(97) { bits % 90_000 } else { 0 });
        }
        (times.quantiles(), times.encode())
    };
    let templates: Vec<_> = (0..128).map(template).collect();
    let mut kept: BTreeMap<u32, Vec<Told>> = BTreeMap::new();
    for (at, (pair, visit, round)) in setup.schedule().unwrap().visits().enumerate() {
        let (rtt_ns, histogram) = templates[at % templates.len()].clone();
        let client = client_of(pair, visit);
        let visit =
            Visit { visit, client, round, transactions: rtt_ns.count, rtt_ns: Some(rtt_ns), histogram, ..Visit::default() };
        kept.entry(client).or_default().push(Told { pair, by: client, visit });
    }
    let count: usize = kept.values().map(Vec::len).sum();
    let text: usize = kept.values().flatten().map(|told| told.visit.histogram.len()).sum();
    println!("{count} visits, histograms of {} B each: {} MB after {:?}", text / count, peak_mb(), begun.elapsed());
    let cards = (0..10_000).map(|rank| (rank, card(rank, 10_000))).collect();
    let visits = kept.values().flatten().cloned().collect();
    let body = body(Parts { setup, cards, visits, missing: BTreeMap::new(), interrupted: false }).unwrap();
    println!("a record of {} pairs: {} MB after {:?}", body.pairs.len(), peak_mb(), begun.elapsed());
    let judged = crate::judge::Judge::default().of(&body);
    println!("{} effects: {} MB after {:?}", judged.effects.len(), peak_mb(), begun.elapsed());
    assert_eq!((count, body.pairs.len(), judged.effects.len()), (200_000, 100_000, 10_000));
}
