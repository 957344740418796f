//! Tests that enter network namespaces, each in a process of its own.

#[path = "../../../tests/support/alone.rs"]
mod alone;
mod namespaces;

use std::process::ExitCode;

fn main() -> ExitCode {
    alone::main(&[namespaces::PART])
}
