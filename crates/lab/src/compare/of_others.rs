//! Converts records of explain, mesh, compare, sweep and tune try into rows that can be compared with those of another record.
//!
//! ```text
//!   explain              a row per path: the RTT without any hook
//!   explain of a program a row per sum of its stages
//!   mesh                 a row per pair of hosts, all visits together
//!   compare, sweep, tune try   a row per arm, with its blocks; where arms differ in something that a row does not have, the path has their name
//! ```

use std::collections::BTreeMap;

use hairpin_record::attached::{Attached, AttachedBody, Total, View};
use hairpin_record::compare::{Arm, Compare, CompareBody};
use hairpin_record::experiment::ArmBlock;
use hairpin_record::explain::{Explain, ExplainBody, Explained};
use hairpin_record::head::{Head, Place, Record};
use hairpin_record::mesh::{Mesh, MeshBody, Pair, Rank, Visit};
use hairpin_record::run::{Block, ClockFacts, Cpu, CpuSide, HostFacts, Hosts, Interpolated, Link, Row, Run, RunBody};
use hairpin_record::sweep::{Sweep, SweepBody};
use hairpin_record::tune_try::{TuneTry, TuneTryBody};
use hairpin_record::warning::Note;
use hairpin_units::Gather;

use super::stored::asked;

/// The RTT of each path in the blocks without any hook.
pub fn run_of_explain(explain: Explain) -> Run {
    let Record { head, body: ExplainBody { place, results, .. } } = explain;
    let row = |result: Explained| Row {
        path: result.path,
        origin: result.origin,
        request_bytes: result.request_bytes,
        reply_bytes: result.reply_bytes,
        transactions: result.untraced_rtt_ns.count,
        rtt_ns: result.untraced_rtt_ns,
        granted: result.granted,
        warnings: result.warnings,
        ..one_flow()
    };
    Record { head, body: RunBody { place, results: results.into_iter().map(row).collect() } }
}

fn one_flow() -> Row {
    Row { flows: 1, threads: 1, outstanding: 1, ..Row::default() }
}

/// The sum of the stages of each view.
pub fn run_of_attached(attached: Attached) -> Run {
    let Record { head, body: AttachedBody { host, watched, totals, warnings, .. } } = attached;
    let what = match (watched.port, watched.comm) {
        (Some(port), _) => format!("port {port}"),
        (None, comm) => comm.unwrap_or_else(|| "a process".into()),
    };
    let row = |total: Total| {
        let seen = match total.view {
            View::Both => "both sides",
            View::Server => "the server",
            View::Client => "the client",
        };
        let roles: Vec<String> = total.roles.iter().map(ToString::to_string).collect();
        let roles = if roles.is_empty() { String::new() } else { format!(" as {}", roles.join(" and ")) };
        Row {
            path: format!("{what}{roles}, seen from {seen}"),
            transactions: total.sum_ns.count,
            rtt_ns: total.sum_ns,
            warnings: warnings.clone(),
            ..one_flow()
        }
    };
    run(head, Some(host), None, totals.into_iter().map(row).collect())
}

/// Each pair of hosts that was measured.
pub fn run_of_mesh(mesh: Mesh) -> Run {
    let Record { head, body } = mesh;
    let hosts = hosts(&body);
    let rows = body.pairs.iter().filter_map(|pair| row_of_pair(pair, &body, &hosts)).collect();
    run(head, None, None, rows)
}

/// The name of each rank: its host, with its number if several ranks are on it.
fn hosts(mesh: &MeshBody) -> BTreeMap<u32, String> {
    let mut ranks_on: BTreeMap<&str, usize> = BTreeMap::new();
    mesh.ranks.iter().for_each(|rank| *ranks_on.entry(&rank.host).or_insert(0) += 1);
    let name = |rank: &Rank| match ranks_on.get(rank.host.as_str()) {
        Some(2..) => format!("{} (rank {})", rank.host, rank.rank),
        _ => rank.host.clone(),
    };
    mesh.ranks.iter().map(|rank| (rank.rank, name(rank))).gather()
}

/// Another mesh may have the same hosts in another order, so a pair is named in that of their names.
fn row_of_pair(pair: &Pair, mesh: &MeshBody, hosts: &BTreeMap<u32, String>) -> Option<Row> {
    let name = |rank: u32| hosts.get(&rank).cloned().unwrap_or_else(|| mesh.host_of(rank));
    let (a, b) = (name(pair.a), name(pair.b));
    let (first, second) = if a < b { (a, b) } else { (b, a) };
    let sum = |of: fn(&Visit) -> u64| pair.measured().map(of).fold(0, u64::saturating_add);
    let mut warnings: Vec<Note> = Vec::new();
    for note in pair.measured().flat_map(|visit| &visit.warnings) {
        if !warnings.iter().any(|known| known.code == note.code) {
            warnings.push(note.clone());
        }
    }
    Some(Row {
        path: format!("{} between {first} and {second}", mesh.path),
        request_bytes: mesh.request_bytes,
        reply_bytes: mesh.reply_bytes,
        transactions: sum(|visit| visit.transactions),
        lost: sum(|visit| visit.lost),
        rtt_ns: pair.rtt_ns.clone()?,
        warnings,
        ..one_flow()
    })
}

/// The arms of a comparison.
pub fn run_of_compare(compare: Compare) -> Run {
    let Record { head, body: CompareBody { host, arms, .. } } = compare;
    of_arms(head, host, arms)
}

/// The cells of a sweep.
pub fn run_of_sweep(sweep: Sweep) -> Run {
    let Record { head, body: SweepBody { host, cells, .. } } = sweep;
    of_arms(head, host, cells.into_iter().map(|cell| cell.arm).collect())
}

/// Each path with the host as it is, and with each setting alone.
pub fn run_of_try(tried: TuneTry) -> Run {
    let Record { head, body: TuneTryBody { paths, .. } } = tried;
    let host = paths.first().and_then(|path| path.alone.host.clone());
    of_arms(head, host, paths.into_iter().flat_map(|path| path.alone.body.arms).collect())
}

fn of_arms(head: Head, host: Option<HostFacts>, arms: Vec<Arm>) -> Run {
    let key = |arm: &Arm| {
        let (own, pace) = (asked(arm.own_request.as_deref()), arm.pace_per_s.map(f64::to_bits));
        // The length of a reply to the user's own request is a result.
        let reply_bytes = if own.is_some() { 0 } else { arm.reply_bytes };
        let counts = (arm.flows, arm.threads, arm.outstanding);
        (arm.path.clone(), arm.request_bytes, reply_bytes, counts, own, pace)
    };
    let mut alike = BTreeMap::new();
    arms.iter().for_each(|arm| *alike.entry(key(arm)).or_insert(0) += 1);
    let link = arms.iter().find_map(|arm| arm.link.clone());
    let rows = arms.into_iter().map(|arm| {
        let path = if alike[&key(&arm)] > 1 { format!("{} ({})", arm.path, arm.given) } else { arm.path.clone() };
        row(path, arm)
    });
    let rows = rows.collect();
    run(head, host, link, rows)
}

fn row(path: String, arm: Arm) -> Row {
    let cpus = arm.cpus.unwrap_or_default();
    let side = |cpus: Vec<u32>, per_transaction_ns| CpuSide { cpus, per_transaction_ns, ..CpuSide::default() };
    let whole = |ns: Option<f64>| ns.map(|ns| ns.round() as u64);
    let mut row = Row {
        path,
        request_bytes: arm.request_bytes,
        reply_bytes: arm.reply_bytes,
        flows: arm.flows,
        threads: arm.threads.unwrap_or(1),
        outstanding: arm.outstanding,
        pace_per_s: arm.pace_per_s,
        own_request: arm.own_request,
        transactions: arm.transactions,
        lost: arm.lost,
        transactions_per_s: arm.figures.rate_per_s.unwrap_or(0.0),
        blocks: arm.blocks.iter().map(block).collect(),
        // The figure is of both sides together.
        cpu: Cpu { client: side(cpus.client, arm.figures.cpu_ns), server: Some(side(cpus.server, Some(0.0))) },
        granted: arm.granted,
        warnings: arm.warnings,
        ..one_flow()
    };
    let rtt = &mut row.rtt_ns;
    (rtt.count, rtt.p50, rtt.p99, rtt.p999) =
        (arm.transactions, whole(arm.figures.p50_ns), whole(arm.figures.p99_ns), whole(arm.figures.p999_ns));
    row
}

fn block(block: &ArmBlock) -> Block {
    let whole = |ns: Option<f64>| ns.map(|ns| ns.round() as u64);
    Block {
        at_ns: block.at_ns,
        count: block.transactions,
        p50: whole(block.p50_ns),
        p99: whole(block.p99_ns),
        p999: whole(block.p999_ns),
        core_rtt_ns: block.core_rtt_ns,
        duration_ns: Some(block.duration_ns),
        interpolated_ns: Some(Interpolated { p50: block.p50_ns, p99: block.p99_ns, p999: block.p999_ns }),
        ..Block::default()
    }
}

/// A run of these rows. Records of experiments say nothing of the clock.
fn run(head: Head, host: Option<HostFacts>, link: Option<Link>, results: Vec<Row>) -> Run {
    let link = link.unwrap_or_else(|| Link {
        kind: String::new(),
        interface: None,
        mtu: None,
        peer: None,
        options: BTreeMap::new(),
        group: None,
    });
    let clock = ClockFacts { source: String::new(), cost_ns: 0.0, step_ns: 0.0, ticks_per_s: 0.0, drift_ppb: None };
    let place = Place { hosts: Hosts { client: host.unwrap_or_default(), server: None }, link, clock };
    Record { head, body: RunBody { place, results } }
}

#[cfg(test)]
mod tests {
    use hairpin_record::any::AnyRecord;
    use hairpin_record::experiment::Figure;
    use hairpin_record::run::{OwnRequest, Quantiles};

    use super::super::stored;
    use super::*;
    use crate::records::as_run;

    fn older(schema: &str) -> Run {
        let records = AnyRecord::all(include_bytes!("../../../record/tests/data/older.jsonl")).unwrap();
        as_run(records.into_iter().find(|record| record.schema() == schema).unwrap()).unwrap()
    }

    #[test]
    fn every_kind_with_round_trips_is_compared_with_itself() {
        for (schema, least) in [
            ("hairpin.explain/1", 1),
            ("hairpin.explain-attached/1", 1),
            ("hairpin.mesh/1", 1),
            ("hairpin.compare/1", 2),
            ("hairpin.sweep/1", 1),
            ("hairpin.tune-try/1", 2),
            ("hairpin.load/1", 1),
        ] {
            let run = older(schema);
            let compared = stored(&[("one", &run)], &[("other", &run)], Figure::P50, 0.02, &[]).unwrap();
            assert!(compared.comparisons.len() >= least, "{schema}: {:?}", compared.comparisons);
            for comparison in &compared.comparisons {
                let p50 = comparison.figures.iter().find(|estimate| estimate.figure == Figure::P50).unwrap();
                assert!(p50.ratio.is_some_and(|ratio| (ratio - 1.0).abs() < 1e-9), "{schema}: {p50:?}");
            }
        }
    }

    #[test]
    fn arms_of_one_path_are_told_apart_by_what_was_given() {
        let paths: Vec<String> = older("hairpin.tune-try/1").results.iter().map(|row| row.path.clone()).collect();
        assert!(paths[0].ends_with(" (as it is)") && paths[1].contains("cpu_dma_latency_us=0"), "{paths:?}");
        let paths: Vec<String> = older("hairpin.compare/1").results.iter().map(|row| row.path.clone()).collect();
        assert!(paths.iter().all(|path| !path.contains('(')), "{paths:?}");
        let run = older("hairpin.compare/1");
        assert!(run.results.iter().all(|row| !row.blocks.is_empty()), "blocks make intervals");
    }

    #[test]
    fn arms_at_a_pace_or_of_several_threads_are_other_work() {
        let records = AnyRecord::all(include_bytes!("../../../record/tests/data/older.jsonl")).unwrap();
        let found = records.into_iter().find_map(|record| match record {
            AnyRecord::Compare(compare) => Some(*compare),
            _ => None,
        });
        let compare = found.unwrap();
        let with = |pace_per_s: Option<f64>, threads: Option<u32>| {
            let mut compare = compare.clone();
            compare.arms.iter_mut().for_each(|arm| (arm.pace_per_s, arm.threads) = (pace_per_s, threads));
            run_of_compare(compare)
        };
        let runs = [with(None, None), with(Some(1_000.0), None), with(None, Some(4))];
        let told = runs.each_ref().map(|run| (run.results[0].pace_per_s, run.results[0].threads));
        assert_eq!(told, [(None, 1), (Some(1_000.0), 1), (None, 4)]);
        let paired = |a: usize, b: usize| stored(&[("one", &runs[a])], &[("other", &runs[b])], Figure::P50, 0.02, &[]).is_ok();
        assert_eq!([paired(0, 1), paired(0, 2), paired(1, 1), paired(2, 2)], [false, false, true, true]);
    }

    #[test]
    fn arms_of_one_request_are_told_apart_however_long_its_replies() {
        let arm = |given: &str, reply_bytes| {
            let own = OwnRequest { request: "INCR x".into(), ..OwnRequest::default() };
            Arm { given: given.into(), path: "tcp".into(), reply_bytes, own_request: Some(Box::new(own)), ..Arm::default() }
        };
        let run = of_arms(Head::default(), None, vec![arm("one", 5), arm("other", 6)]);
        let paths: Vec<&str> = run.results.iter().map(|row| row.path.as_str()).collect();
        assert_eq!(paths, ["tcp (one)", "tcp (other)"]);
    }

    #[test]
    fn a_pair_of_a_mesh_is_named_by_its_hosts_whatever_their_ranks() {
        let rank = |rank: u32, host: &str| Rank { rank, host: host.into(), ..Rank::default() };
        let pair = |a: u32, b: u32, rtt_ns: Option<Quantiles>| Pair { a, b, rtt_ns, ..Pair::default() };
        let paths = |ranks: Vec<Rank>| {
            let rtt_ns = Quantiles { p50: Some(5_000), ..Quantiles::default() };
            let pairs = vec![pair(0, 1, Some(rtt_ns.clone())), pair(1, 2, None), pair(0, 2, Some(rtt_ns))];
            let body = MeshBody { path: "udp/udp".into(), ranks, pairs, ..MeshBody::default() };
            let run = run_of_mesh(Record { head: Head::default(), body });
            run.results.iter().map(|row| row.path.clone()).collect::<Vec<_>>()
        };
        assert_eq!(paths(vec![rank(0, "a"), rank(1, "b")]), ["udp/udp between a and b", "udp/udp between a and rank 2"]);
        assert_eq!(paths(vec![rank(0, "b"), rank(1, "a")])[0], "udp/udp between a and b");
        let alike = paths(vec![rank(0, "a"), rank(1, "a"), rank(2, "b")]);
        assert_eq!(alike, ["udp/udp between a (rank 0) and a (rank 1)", "udp/udp between a (rank 0) and b"]);
        let row = &older("hairpin.mesh/1").results[0];
        assert_eq!((row.path.as_str(), row.transactions), ("udp:block/udp:block between n1 and n2", 6_436));
        assert_eq!(row.warnings.iter().map(|note| note.code.as_str()).collect::<Vec<_>>(), ["foreign-time"]);
    }

    #[test]
    fn the_round_trip_of_an_explained_path_is_that_without_hooks() {
        let run = older("hairpin.explain/1");
        assert_eq!(run.results[0].rtt_ns.p50, Some(4939));
    }
}
