//! The end-to-end tests in processes of their own. Those that measure or want both cores run one at a time; the others side by
//! side.

#![forbid(unsafe_code)]

mod attached;
mod calls;
mod caught;
mod compare;
mod exec;
mod explain;
mod explain_detectors;
mod howto;
mod live;
mod load;
mod mesh_hosts;
mod metrics;
mod newcomer;
mod niq;
mod noise;
mod old_lines;
mod shell;
mod stack;
mod stamps;
mod sun_fire;
mod support;
mod tune;
mod tune_try;
mod watch;

use std::process::ExitCode;

use support::alone::{self, Part};

const PARTS: &[Part] = &[
    attached::PART,
    caught::PART,
    compare::OF_GATES,
    explain::OF_TIMES,
    explain_detectors::PART,
    explain_detectors::OF_KNOWN_DELAYS,
    explain_detectors::OF_LOADS,
    load::OF_TIMES,
    mesh_hosts::PART,
    newcomer::PART,
    niq::PART,
    noise::PART,
    stamps::PART,
    sun_fire::PART,
    tune::PART,
    tune_try::PART,
    tune_try::OF_IDLE_STATES,
    // Side by side, those with the longest tests first.
    live::PART,
    old_lines::PART,
    howto::PART,
    calls::PART,
    compare::PART,
    explain_detectors::OF_SETTINGS,
    attached::OF_PAUSES,
    watch::PART,
    load::PART,
    metrics::PART,
    explain::PART,
    stack::PART,
    exec::PART,
    shell::PART,
];

fn main() -> ExitCode {
    alone::main(PARTS)
}
