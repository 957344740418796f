//! No counter of this CPU is known, so no `Tsc` is ever made.

use super::NoTsc;

pub(super) const NAME: &str = "none";
pub(super) const TRUSTED: &[&str] = &[];
pub(super) const PER_CPU: &[&str] = &[];

pub(super) fn start() -> u64 {
    unreachable!("no Tsc is ever made here")
}
pub(super) use start as stop;
pub(super) use start as now;

pub(super) fn settle() {}

pub(super) fn usable() -> Result<(), NoTsc> {
    Err(NoTsc::NoneHere)
}

pub(super) fn stated_rate() -> Option<f64> {
    None
}
