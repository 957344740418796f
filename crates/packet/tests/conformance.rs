//! One suite over a pair of queue pairs that are joined to each other: in memory, bare and behind each device round a device, and
//! over a veth pair whose two ends lie in a network namespace made for the test.
//!
//! Each test runs in a process of its own, because namespaces are entered by processes with one thread.

mod end;
mod pairs;
mod suite;

use end::End;
use pairs::{NoPair, PAIRS};
use suite::TESTS;

use crate::alone::{Ended, Part, Test};

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

pub const PART: Part = Part::new("conformance", tests).side_by_side();

fn tests() -> Vec<Test> {
    let of = |(pair, make): &'static pairs::Maker| {
        TESTS.iter().map(move |(test, run)| Test::new(format!("{pair}: {test}"), |_| one(*make, *run)))
    };
    PAIRS.iter().flat_map(of).collect()
}

fn one(make: fn() -> pairs::Made, run: fn(End, End) -> Outcome) -> Ended {
    match make() {
        Ok(made) => {
            let outcome = run(End::new(made.one), End::new(made.other));
            drop(made.devices);
            outcome.into()
        }
        Err(NoPair::NotHere(reason)) => Ended::Skipped(Some(reason)),
        Err(NoPair::Broken(error)) => Ended::Failed(format!("cannot make the pair: {error}")),
    }
}
