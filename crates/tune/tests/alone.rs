//! Tests that need a process each: they enter network namespaces, are killed, or report a missing tool.

#[path = "../../../tests/support/alone.rs"]
mod alone;
mod killed;
mod second_source;

use std::process::ExitCode;

fn main() -> ExitCode {
    alone::main(&[killed::PART, second_source::PART])
}
