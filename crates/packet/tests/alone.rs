//! The back ends on this kernel: each test in a process of its own, which enters namespaces and may be killed.

mod af_packet;
mod af_xdp;
#[path = "../../../tests/support/alone.rs"]
mod alone;
mod conformance;
mod niq;

use std::process::ExitCode;

fn main() -> ExitCode {
    alone::main(&[af_packet::PART, af_xdp::PART, conformance::PART, niq::PART])
}
