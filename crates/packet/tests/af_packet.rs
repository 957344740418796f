//! AF_PACKET over a veth pair and over loopback: as root, and as a user without privileges in a user namespace.
//!
//! ```text
//!   each test: own namespaces │ hp-a ◀──veth──▶ hp-b │ a ring or more at each end
//! ```

mod frames;
mod link;
mod tests;

use std::process::ExitCode;

use hairpin_sys::netns::{self, Support};

use crate::alone::{Ended, Part, Test};

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

/// The user "nobody" of all common distributions, to try without privileges when the tests run as root.
const NOBODY: u32 = 65534;

pub const PART: Part = Part::new("af_packet", tests)
    .playing(|arguments| match arguments {
        ["helper", name] => Some(link::help(name).map_or_else(
            |reason| {
                println!("{reason}");
                ExitCode::FAILURE
            },
            |()| ExitCode::SUCCESS,
        )),
        _ => None,
    })
    .side_by_side();

/// Every test as root, and as a user without privileges.
fn tests() -> Vec<Test> {
    let of = |who: &'static str, user: Option<u32>| {
        tests::ALL.iter().map(move |(name, test)| {
            let test = Test::new(format!("{who}: {name}"), move |_| run(who == "user", *test));
            user.into_iter().fold(test, Test::of_user)
        })
    };
    match netns::can_make() {
        Support::Privileged => of("root", None).chain(of("user", Some(NOBODY))).collect(),
        _ => of("user", None).collect(),
    }
}

fn run(without_privileges: bool, test: fn() -> Outcome) -> Ended {
    if let Support::No(reason) = netns::can_make() {
        return Ended::Skipped(Some(reason.to_string()));
    }
    if without_privileges && let Err(error) = tests::opening_without_the_right_names_it() {
        return Ended::Failed(error.to_string());
    }
    match netns::enter_new(without_privileges).map_err(Box::from).and_then(|_| link::make()) {
        Ok(()) => test().into(),
        Err(reason) => Ended::Skipped(Some(reason.to_string())),
    }
}
