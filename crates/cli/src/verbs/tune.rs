//! `hairpin tune`.

use std::ffi::OsString;
use std::io::{self};
use std::process::ExitCode;
use std::time::SystemTime;

use clap::{Args, Subcommand, ValueEnum};
use hairpin_report::Options;
use hairpin_session::time::rfc3339;
use hairpin_sys::host::RealHost;
use hairpin_sys::signal::{SIGHUP, SIGINT, SIGTERM, Signals};
use hairpin_tune::attend::{attend, cgroup};
use hairpin_tune::journal::{About, JournalError, to_look_at};
use hairpin_tune::plan::{Plan, PlanError, keep_first};
use hairpin_tune::profile::{self, ProfileFile};
use hairpin_tune::{Place, Setting, Tuning, check, list, plan, rows};

use super::knobs::{agreed, journal};
use super::tune_try::Try;
use crate::exit::{FAILED, Failure, MISSING, both, say};
use crate::line;
use crate::output::{Output, options};

/// Read, check and change the settings of this host that move round trips, and put them back
#[derive(Debug, Args)]
pub struct Tune {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Every setting and how it stands; with NAME all about it: mechanism, effect, cost, risk, reference
    List {
        /// Settings to show
        #[arg(value_name = "NAME")]
        names: Vec<String>,
        #[command(flatten)]
        at: At,
        #[command(flatten)]
        output: Output,
    },
    /// List the settings that cost latency here, the largest expected effect first, with the command that
    /// fixes each; reads only
    Check {
        #[command(flatten)]
        at: At,
        /// Goal of the host's settings
        #[arg(long, value_enum, default_value = "latency")]
        profile: Profile,
        #[command(flatten)]
        output: Output,
    },
    /// Change settings: shows what, asks, writes a journal, applies, reads back
    Apply(Apply),
    /// Restore the settings that the journal lists as changed, after a crash too
    Revert {
        /// Settings to restore; default all
        #[arg(value_name = "KNOB")]
        knobs: Vec<String>,
        /// Also undo settings that another program has changed since, and give up those of another network namespace
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        output: Output,
    },
    /// Measure the effect of settings: each on and off in turn while round trips are measured, then the winners together
    Try(Box<Try>),
    /// Show current changes, who made them, and whether they are still in force
    Status {
        #[command(flatten)]
        output: Output,
    },
}

/// The place to tune.
#[derive(Debug, Args)]
struct At {
    /// Interface to read or change
    #[arg(short = 'i', long, value_name = "IF")]
    interface: Option<String>,
    /// CPUs to read or change; default all
    #[arg(long, value_name = "LIST", value_parser = cpus)]
    cpus: Option<Cpus>,
}

/// A list of CPUs.
#[derive(Clone, Debug)]
struct Cpus(Vec<u32>);

fn cpus(text: &str) -> Result<Cpus, String> {
    hairpin_tune::parse_cpus(text).map(Cpus)
}

impl At {
    fn place(&self) -> Place<'_> {
        Place { cpus: self.cpus.as_ref().map_or(&[], |Cpus(cpus)| cpus), interface: self.interface.as_deref() }
    }
}

/// Goal of a host's settings.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Profile {
    /// Shortest round trips.
    Latency,
    /// Least power.
    Power,
    /// Most bytes.
    Throughput,
}

impl From<Profile> for hairpin_tune::Profile {
    fn from(profile: Profile) -> hairpin_tune::Profile {
        match profile {
            Profile::Latency => hairpin_tune::Profile::Latency,
            Profile::Power => hairpin_tune::Profile::Power,
            Profile::Throughput => hairpin_tune::Profile::Throughput,
        }
    }
}

#[derive(Debug, Args)]
struct Apply {
    /// Settings, or the file of a profile
    #[arg(value_name = "KNOB=VALUE|FILE.toml", required_unless_present = "profile", conflicts_with = "profile")]
    settings: Vec<String>,
    /// The settings of a profile, as far as this host has them
    #[arg(long, value_enum)]
    profile: Option<Profile>,
    #[command(flatten)]
    at: At,
    /// Show the changes, and make none
    #[arg(long)]
    dry_run: bool,
    /// Apply without asking
    #[arg(long)]
    yes: bool,
    /// Change settings only while COMMAND runs, then restore them
    #[arg(long = "while", requires = "command")]
    attended: bool,
    /// The command of --while
    #[arg(value_name = "COMMAND", last = true, requires = "attended")]
    command: Vec<OsString>,
    #[command(flatten)]
    output: Output,
}

impl Tune {
    /// Runs the action.
    pub fn run(self) -> Result<ExitCode, Failure> {
        match self.action {
            Action::List { names, at, output } => {
                let list = list::list(&RealHost, &at.place(), &names).map_err(Failure::usage)?;
                output.print_with(&list, &Options { detail: usize::from(!names.is_empty()), ..options() })?;
            }
            Action::Check { at, profile, output } => {
                if let Some(interface) = &at.interface {
                    crate::flags::interface_exists(interface)?;
                }
                output.print(&check::check(&RealHost, &at.place(), profile.into()))?;
            }
            Action::Apply(apply) => return apply.run(),
            Action::Try(try_) => return try_.run(),
            Action::Revert { knobs, force, output } => {
                let own = journal()?;
                let seen = to_look_at().map_err(Failure::failed)?;
                if seen.dir() != own.dir() {
                    let why = format_args!("the changes are in root's journal, {}: run it as root", seen.dir().display());
                    return Err(Failure::missing(why));
                }
                let report = own.revert(&RealHost, &knobs, force, &line::typed().join(" ")).map_err(journal_failure)?;
                output.print(&rows::reverted(&report))?;
                let denied = report.is_denied();
                return Ok(match (report.incomplete, denied) {
                    (true, true) => ExitCode::from(MISSING),
                    (true, false) => ExitCode::from(FAILED),
                    (false, _) => ExitCode::SUCCESS,
                });
            }
            Action::Status { output } => {
                output.print(&to_look_at().map_err(Failure::failed)?.status(&RealHost).map_err(journal_failure)?)?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    /// True if the verb itself reports changes that a killed process left behind.
    pub fn tells_of_orphans(&self) -> bool {
        matches!(self.action, Action::Revert { .. } | Action::Status { .. })
    }
}

impl Apply {
    fn run(self) -> Result<ExitCode, Failure> {
        let (settings, interface) = self.settings()?;
        let place = Place { interface: interface.as_deref(), ..self.at.place() };
        let mut changes = self.plan(&place, &settings)?;
        let planned = rows::planned(&changes);
        if self.dry_run || changes.is_empty() && !self.attended {
            self.output.print(&planned)?;
            return Ok(ExitCode::SUCCESS);
        }
        if !self.yes && !changes.is_empty() {
            say(hairpin_report::term(&planned, &options()).trim_end());
            let count = changes.len();
            if !agreed(&format!("apply {count} change{}", if count == 1 { "" } else { "s" }), ", --dry-run only shows")? {
                return Err(Failure::failed("nothing was changed"));
            }
        }
        // From here on no signal ends the process half way.
        let signals = Signals::block(&[SIGINT, SIGTERM, SIGHUP])
            .map_err(|error| Failure::failed(format_args!("cannot block signals: {error}")))?;
        let about = About { command: line::typed(), started: rfc3339(SystemTime::now()) };
        let again = keep_first(&mut changes);
        let cgroup = cgroup(&settings);
        let mut tuning = journal()?.begin(&RealHost, changes, &about).map_err(journal_failure)?;
        let others: Vec<Setting> = settings.into_iter().filter(|setting| again && !setting.control.remakes_interrupts).collect();
        let applied = tuning.apply(|| self.plan_of(&place, &others).map(|(changes, _)| changes));
        let printed = if self.attended {
            say(self.output.text(&applied.changes, &options()).trim_end());
            Ok(())
        } else {
            self.output.print(&applied.changes)
        };
        match (applied.denied, applied.refused) {
            (true, _) => return printed.map(|()| ExitCode::from(MISSING)),
            // The command would run under other settings than requested.
            (false, true) if self.attended => return restored(tuning, FAILED),
            _ => {}
        }
        if self.attended {
            let status = match attend(&self.command, cgroup, &signals) {
                Ok(status) => status,
                Err(error) => {
                    let failed = Failure::failed(format_args!("cannot run the command: {error}"));
                    return both(Err(failed), restored(tuning, FAILED).map(drop));
                }
            };
            use std::os::unix::process::ExitStatusExt;
            // By the convention of shells.
            let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
            return restored(tuning, u8::try_from(code).unwrap_or(FAILED));
        }
        // The changes are made and in the journal: a table that nobody gets does not undo them.
        let kept = tuning.keep().map_err(|why| journal_failure(why).of("the settings are put back, as they could not be kept"));
        both(printed, kept)?;
        Ok(ExitCode::from(if applied.refused { FAILED } else { 0 }))
    }

    /// The changes to make, and the settings that this host lacks. Only reads.
    fn plan_of(&self, place: &Place<'_>, settings: &[Setting]) -> Result<(Plan, Vec<&'static str>), PlanError> {
        match self.profile {
            Some(_) => profile::plans_existing_settings(&RealHost, place, settings),
            None => plan(&RealHost, place, settings).map(|changes| (changes, Vec::new())),
        }
    }

    fn plan(&self, place: &Place<'_>, settings: &[Setting]) -> Result<Plan, Failure> {
        let (changes, absent) = self.plan_of(place, settings).map_err(plan_failure)?;
        if self.profile.is_some() && place.interface.is_none() {
            say("hairpin: no interface is named (-i IF): the profile's settings of an interface are left out");
        }
        if !absent.is_empty() {
            say(format_args!("hairpin: this host has no {}", absent.join(", ")));
        }
        Ok(changes)
    }

    /// The settings to make, and the interface.
    fn settings(&self) -> Result<(Vec<Setting>, Option<String>), Failure> {
        let named = self.at.place().interface.map(str::to_owned);
        if let Some(profile) = self.profile {
            return Ok((profile::settings(profile.into(), self.attended), named));
        }
        let mut settings = Vec::new();
        // Each with its file.
        let mut interfaces: Vec<(String, &str)> = Vec::new();
        for text in &self.settings {
            if text.contains('=') {
                settings.push(text.parse::<Setting>().map_err(Failure::usage)?);
            } else if text.ends_with(".toml") {
                let failure = |why: &dyn std::fmt::Display| Failure::usage(format_args!("{text} {why}"));
                let read = std::fs::read_to_string(text).map_err(|why| failure(&format_args!("cannot be read: {why}")))?;
                let file = ProfileFile::parse(&read).map_err(|why| failure(&why))?;
                settings.extend(file.settings().map_err(Failure::usage)?);
                interfaces.extend(file.interface.map(|interface| (interface, text.as_str())));
            } else {
                return Err(Failure::usage(text.parse::<Setting>().err().map_or_else(String::new, |why| why.to_string())));
            }
        }
        let first = interfaces.first();
        let other = first.and_then(|(first, _)| interfaces.iter().find(|(interface, _)| interface != first));
        if let (None, Some((first, one)), Some((second, other))) = (&named, first, other) {
            return Err(Failure::usage(format_args!(
                "{one} is for {first} and {other} for {second}: apply one after the other, or both to one interface with -i IF"
            )));
        }
        if let (false, Some(held)) = (self.attended, settings.iter().find(|setting| setting.control.is_held())) {
            return Err(Failure::usage(format_args!(
                "{held} lasts only as long as a process holds it: add --while -- COMMAND, or use idle_states"
            )));
        }
        Ok((settings, named.or_else(|| interfaces.pop().map(|(interface, _)| interface))))
    }
}

/// Restores everything and ends with this code.
fn restored(tuning: Tuning<'_>, code: u8) -> Result<ExitCode, Failure> {
    match tuning.restore() {
        Ok(()) => Ok(ExitCode::from(code)),
        Err(left) => {
            let left: Vec<String> = left.iter().map(ToString::to_string).collect();
            Err(Failure::failed(format_args!("not everything could be put back: {}; try `hairpin tune revert`", left.join("; "))))
        }
    }
}

fn plan_failure(error: PlanError) -> Failure {
    match &error {
        missing if missing.is_missing() => Failure::missing(error),
        PlanError::Unread(_) => Failure::failed(error),
        _ => Failure::usage(error),
    }
}

fn journal_failure(error: JournalError) -> Failure {
    match &error {
        JournalError::Io { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => Failure::missing(error),
        _ => Failure::failed(error),
    }
}

#[cfg(test)]
mod tests {
    use clap::{Command, FromArgMatches};

    use super::*;

    #[test]
    fn settings_for_one_interface_are_not_made_on_another() {
        let dir = std::env::temp_dir().join(format!("hairpin-profiles-test-{}", std::process::id()));
        std::fs::create_dir(&dir).unwrap();
        let file = |interface: &str| {
            let path = dir.join(format!("{interface}.toml"));
            std::fs::write(&path, format!("interface = \"{interface}\"\n[knobs]\n")).unwrap();
            path.to_str().unwrap().to_owned()
        };
        let (one, other) = (file("eth0"), file("eth1"));
        let interface = |words: &[&str]| {
            let words = std::iter::once("apply").chain(words.iter().copied());
            let given = Apply::augment_args(Command::new("apply")).try_get_matches_from(words).unwrap();
            let settings = Apply::from_arg_matches(&given).unwrap().settings();
            settings.map(|(_, interface)| interface).map_err(|failure| format!("{failure:?}"))
        };
        let refused = interface(&[one.as_str(), other.as_str()]).unwrap_err();
        assert!(refused.contains("eth0.toml is for eth0 and ") && refused.contains("eth1.toml for eth1: "), "{refused}");
        assert_eq!(interface(&[one.as_str(), other.as_str(), "-i", "eth2"]), Ok(Some("eth2".into())), "for all of them");
        assert_eq!(interface(&[one.as_str(), one.as_str()]), Ok(Some("eth0".into())));
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
