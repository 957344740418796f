//! What takes network namespaces, is killed, or has to say that a tool is missing: each test in a process of its own.

#[path = "../../../tests/support/alone.rs"]
mod alone;
mod killed;
mod second_source;

use std::process::ExitCode;

fn main() -> ExitCode {
    alone::main(&[killed::PART, second_source::PART])
}
