//! Settings of this host that an experiment switches: shown, confirmed by the user, and restored at the end.

use std::io::{self, BufRead, IsTerminal, Write};
use std::time::SystemTime;

use hairpin_lab::hardware_timestamping::StampingDevices;
use hairpin_lab::knobs::{self, KnobError, Knobs, interface_towards};
use hairpin_session::plan::Target;
use hairpin_session::time::rfc3339;
use hairpin_sys::host::RealHost;
use hairpin_tune::journal::{About, Journal, default_dir};
use hairpin_tune::plan::PlanError;
use hairpin_tune::{Change, Place, Setting};

use crate::exit::{Failure, say};
use crate::line;

/// Why this host lacks the setting for traffic to `target`; `None` if it has it.
pub fn missing(target: &Target, setting: &Setting) -> Option<String> {
    let interface = interface_towards(target);
    let place = Place { cpus: &[], interface: interface.as_deref() };
    match knobs::changes(&RealHost, &place, target, std::slice::from_ref(setting)) {
        Err(KnobError::Plan(PlanError::NoInterface(knob))) => {
            Some(format!("{knob} belongs to a NIC, and a link of this host has none; sweep to another --host"))
        }
        Err(error) => Some(error.to_string()),
        Ok(_) => None,
    }
}

/// The changes of each arm, for traffic to its target, as the user agreed to them; `None` if no arm has a setting. Ctrl-C answers
/// the question too, as long as no [`Signals`](hairpin_sys::signal::Signals) take it.
pub fn confirmed(arms: &[(&Target, Vec<Setting>)], yes: bool) -> Result<Option<Vec<Vec<Change>>>, Failure> {
    if arms.iter().all(|(_, settings)| settings.is_empty()) {
        return Ok(None);
    }
    let of = |(target, settings): &(&Target, Vec<Setting>)| {
        let interface = interface_towards(target);
        knobs::changes(&RealHost, &Place { cpus: &[], interface: interface.as_deref() }, target, settings)
    };
    let changes = arms.iter().map(of).collect::<Result<Vec<_>, _>>().map_err(failure)?;
    let mut all: Vec<&Change> = Vec::new();
    changes.iter().flatten().for_each(|change| {
        if !all.contains(&change) {
            all.push(change);
        }
    });
    for change in &all {
        say(format_args!("while its arm is measured: {} ({}) {} -> {}", change.knob, change.address, change.from, change.to));
    }
    if !yes && !all.is_empty() && !agreed("change and put back", "")? {
        return Err(Failure::failed("nothing was changed"));
    }
    Ok(Some(changes))
}

/// Writes the changes to the journal. No signal may end the process from here on.
pub fn begin(changes: Option<Vec<Vec<Change>>>) -> Result<Option<Knobs<'static>>, Failure> {
    let Some(changes) = changes else { return Ok(None) };
    let about = About { command: line::typed(), started: rfc3339(SystemTime::now()) };
    Knobs::begin(&RealHost, &journal()?, changes, &about).map(Some).map_err(failure)
}

fn failure(error: KnobError) -> Failure {
    Failure::blamed(&error, error.blame())
}

/// Asks the user at the terminal; `else_` names the verb's other choices beside --yes.
pub(super) fn agreed(question: &str, else_: &str) -> Result<bool, Failure> {
    if !io::stdin().is_terminal() {
        return Err(Failure::usage(format_args!(
            "standard input is not a terminal to ask at: --yes goes on without asking{else_}"
        )));
    }
    let _ = write!(io::stderr(), "{question}? [y/N] ");
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// The journal, to which changes are written before they are made.
pub(super) fn journal() -> Result<Journal, Failure> {
    Ok(Journal::at(default_dir().map_err(Failure::failed)?))
}

/// Switches the hardware stamps of these interfaces on until the returned value is dropped, and says so. A run goes on without
/// them.
pub(super) fn stamping(interfaces: &[String]) -> StampingDevices<'static> {
    if interfaces.is_empty() {
        return StampingDevices::default();
    }
    let journal = match default_dir() {
        Ok(dir) => Journal::at(dir),
        Err(why) => {
            say(format_args!("no device is told to stamp: {why}"));
            return StampingDevices::default();
        }
    };
    let about = About { command: line::typed(), started: rfc3339(SystemTime::now()) };
    let (devices, said) = StampingDevices::on(&RealHost, &journal, interfaces, &about);
    said.iter().for_each(say);
    devices
}

/// The same for the interface towards a target, if stamps are asked for.
pub(super) fn stamping_towards(target: &Target, asked: bool) -> StampingDevices<'static> {
    let interface = asked.then(|| interface_towards(target)).flatten();
    stamping(&interface.into_iter().collect::<Vec<_>>())
}
