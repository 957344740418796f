//! Settings of this host that an experiment switches: shown, asked for, and put back at the end.

use std::io;
use std::time::SystemTime;

use hairpin_lab::knobs::{self, KnobError, Knobs};
use hairpin_lab::store::rfc3339;
use hairpin_sys::host::RealHost;
use hairpin_tune::journal::{About, JournalError};
use hairpin_tune::{Change, Place, Setting};

use super::tune::{agreed, journal};
use crate::exit::{Failure, say};

/// The settings of each arm; `None` if no arm has any. `interface` is the one whose settings are meant.
pub fn begin(arms: Vec<Vec<Setting>>, interface: Option<&str>, yes: bool) -> Result<Option<Knobs<'static>>, Failure> {
    if arms.iter().all(Vec::is_empty) {
        return Ok(None);
    }
    let place = Place { cpus: &[], interface };
    let changes = knobs::changes(&RealHost, &place, &arms).map_err(|error| failure(error.into()))?;
    let mut all: Vec<&Change> = Vec::new();
    changes.iter().flatten().for_each(|change| {
        if !all.contains(&change) {
            all.push(change);
        }
    });
    for change in &all {
        say(format_args!("while its arm is measured: {} ({}) {} -> {}", change.knob, change.address, change.from, change.to));
    }
    if !yes && !all.is_empty() && !agreed("change and put back")? {
        return Err(Failure::failed("nothing was changed"));
    }
    let about = About { command: std::env::args().collect(), started: rfc3339(SystemTime::now()) };
    Knobs::begin(&RealHost, &journal()?, changes, &about).map(Some).map_err(failure)
}

/// What a setting or the journal asks of the user.
pub fn failure(error: KnobError) -> Failure {
    match &error {
        KnobError::Plan(plan) if plan.is_missing() => Failure::missing(error),
        KnobError::Plan(_) => Failure::usage(error),
        KnobError::Journal(JournalError::Io { source, .. }) if source.kind() == io::ErrorKind::PermissionDenied => {
            Failure::missing(error)
        }
        _ => Failure::failed(error),
    }
}
