use std::cell::RefCell;

use hairpin_record::mesh::Visit;

use super::*;
use crate::meeting::tests::card;
use crate::run::tests::station;
use crate::setup::tests::setup;
use crate::visit::tests::measured;

/// Rank 0 of a mesh in `dir`.
fn plan(dir: &Path, ranks: u32, wait: Duration) -> Plan {
    Plan {
        identity: Identity { rank: 0, ranks, job: None, host: None, one_host: true },
        dir: dir.into(),
        hosts: None,
        listen: Vec::new(),
        port: 0,
        key: None,
        data_ports: None,
        same_host: false,
        wait,
        setup: setup(ranks, "all"),
        cpus: Sides::default(),
        random: 1,
        judge: Judge::default(),
        explain: false,
        command: Vec::new(),
    }
}

#[test]
fn ranks_are_told_whether_all_have_met() {
    let (dir, signals, said) = (tempfile::tempdir().unwrap(), Signals::block(&[]).unwrap(), RefCell::new(Vec::new()));
    let plan = plan(dir.path(), 4, Duration::from_millis(30));
    let met = || all_meet(&plan, &signals, &|line| said.borrow_mut().push(line)).unwrap();
    for rank in [2, 0, 1] {
        meeting::write_card(dir.path(), &card(rank, 4)).unwrap();
    }
    assert!(!met());
    assert_eq!(said.take(), ["rank 3 did not begin within 0 s; the others go on"]);
    meeting::write_card(dir.path(), &card(3, 4)).unwrap();
    assert!(met());
    assert!(said.take().is_empty());
}

#[test]
fn a_rank_that_has_gone_with_all_visits_in_its_file_is_not_missing() {
    let (dir, signals) = (tempfile::tempdir().unwrap(), Signals::block(&[]).unwrap());
    let plan = plan(dir.path(), 2, Duration::ZERO);
    // Nobody listens there any more.
    let gone = Card { address: "127.0.0.1".into(), port: 1, ..card(1, 2) };
    meeting::write_card(dir.path(), &gone).unwrap();
    let mut file = Visits::new(dir.path(), 1);
    let why = Some("rank 0 did not come".into());
    let visit = Visit { missing: why, rtt_ns: None, histogram: String::new(), ..measured((0, 1), 1, 10_000, 500).visit };
    for told in [Told { pair: (0, 1), by: 1, visit }, measured((0, 1), 2, 10_000, 500)] {
        assert_eq!(file.add(told), None);
    }
    let mut station = station(dir.path(), 0, plan.setup.clone(), &signals);
    // It is tried for a short time only.
    station.given_up.insert(1, 2);
    let (body, _) = collects(&mut station, &plan, &card(0, 2)).unwrap();
    assert!(body.missing.is_empty(), "{:?}", body.missing);
    let missing = body.pairs[0].visits.iter().map(|visit| visit.missing.as_deref());
    assert_eq!(missing.map(|why| why.map(|why| why.contains("rank 1 has gone"))).collect::<Vec<_>>(), [Some(true), None]);
}
