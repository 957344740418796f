//! A rank lies: its words, its card and its visits are read or refused, and a mesh of four with them has its record and is
//! judged.
#![no_main]

use std::collections::BTreeMap;

use hairpin_mesh::judge::Judge;
use hairpin_mesh::meeting::Card;
use hairpin_mesh::merge::{Parts, body};
use hairpin_mesh::setup::Setup;
use hairpin_mesh::visit::Told;
use hairpin_mesh::words::{Delivery, Hello, Reply};
use hairpin_units::Nanos;
use libfuzzer_sys::fuzz_target;

fn own() -> Setup {
    Setup {
        ranks: 4,
        pairs: "all".into(),
        visits: 2,
        seed: 1,
        path: "udp:block/udp:block".into(),
        request: 64,
        reply: 64,
        duration: Nanos::from_millis(500),
        warmup: Nanos::from_millis(50),
    }
}

fuzz_target!(|bytes: &[u8]| {
    let _ = serde_json::from_slice::<Reply>(bytes);
    if let Ok(hello) = serde_json::from_slice::<Hello>(bytes) {
        check(&hello.setup);
    }
    let (mut cards, mut visits) = (BTreeMap::new(), Vec::new());
    for line in bytes.split(|byte| *byte == b'\n') {
        if let Ok(card) = serde_json::from_slice::<Card>(line) {
            check(&card.setup);
            cards.insert(card.rank % 4, card);
        } else if let Ok(told) = serde_json::from_slice::<Told>(line) {
            visits.push(told);
        } else if let Ok(Delivery::Visits(some)) = serde_json::from_slice(line) {
            visits.extend(some);
        }
    }
    let parts = Parts { setup: own(), cards, visits, missing: BTreeMap::new(), interrupted: false };
    let body = body(parts).expect("the setup is our own");
    assert_eq!(body.pairs.len(), 6);
    Judge::default().of(&body);
    assert!(Judge::default().again(&body).len() <= body.pairs.len());
});

/// A setup from elsewhere makes a schedule and a job, or is refused.
fn check(setup: &Setup) {
    if let Ok(schedule) = setup.schedule() {
        setup.cost(&schedule);
    }
    let _ = setup.job(1, Default::default());
}
