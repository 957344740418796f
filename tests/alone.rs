//! The end-to-end tests that run one at a time, because they measure or because each wants both cores.

#![forbid(unsafe_code)]

mod attached;
mod calls;
mod compare;
mod exec;
mod explain;
mod explain_detectors;
mod howto;
mod live;
mod load;
mod metrics;
mod newcomer;
mod niq;
mod old_lines;
mod shell;
mod sun_fire;
mod support;
mod tune;
mod tune_try;
mod watch;

use std::process::ExitCode;

use support::alone::{self, Part};

const PARTS: &[Part] = &[
    attached::PART,
    calls::PART,
    compare::PART,
    exec::PART,
    explain::PART,
    explain_detectors::PART,
    howto::PART,
    live::PART,
    load::PART,
    metrics::PART,
    newcomer::PART,
    niq::PART,
    old_lines::PART,
    shell::PART,
    sun_fire::PART,
    tune::PART,
    tune_try::PART,
    watch::PART,
];

fn main() -> ExitCode {
    alone::main(PARTS)
}
