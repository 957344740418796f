//! `hairpin tune try`: finds out which settings lower latency on this host.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use hairpin_lab::experiment::Arm;
use hairpin_lab::knobs::interface_towards;
use hairpin_lab::tune_try::{self, TrialPlan, TryError};
use hairpin_plan::paths::PLAIN;
use hairpin_record::tune_try::TuneTry;
use hairpin_session::error::RunError;
use hairpin_session::link::LinkSpec;
use hairpin_sys::host::RealHost;
use hairpin_tune::profile;
use hairpin_tune::{Place, Profile, Setting};

use super::knobs::{agreed, journal};
use crate::exit::{Failure, both, say};
use crate::flags::{WorkFlags, cookie, interface_exists, plain, whole};
use crate::line;
use crate::output::{Keep, Output};
use crate::place::{self, Mirror, Where, ipv6_has_effect};
use crate::progress::Turns;
use crate::verbs::compare::whole_first;
use crate::verbs::ping::signals;

/// The help of --for.
const DURATION: &str =
    "Time of the whole experiment; if not given, 6 s for each setting and path, and a third more for the winners";

/// Measure the effect of this host's settings: each on and off in turn while round trips are measured, then
/// the winners together
///
/// Asks before it begins, changes only the named settings (or --all-safe), and restores them at the end,
/// after a crash by `hairpin tune revert`.
#[derive(Debug, Args)]
#[command(mut_arg("format", |arg| arg.short(None)), mut_arg("duration", |arg| whole_first(arg).help(DURATION)), mut_arg("warmup", |arg| arg.hide(true)))]
pub struct Try {
    /// A host on which `hairpin serve` runs; or loopback, veth[:…]
    #[arg(value_name = "HOST[:PORT]", conflicts_with = "link")]
    host: Option<place::Place>,
    /// The same as loopback or veth[:…]
    #[arg(long, value_name = "LINK", hide = true)]
    link: Option<LinkSpec>,
    /// The key that `hairpin serve` printed, in a file
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// IPv6 on loopback and veth
    #[arg(short = '6', long)]
    ipv6: bool,
    /// A setting to try; repeatable, also with several values of one
    #[arg(long = "knob", value_name = "NAME=VALUE")]
    knobs: Vec<Setting>,
    /// Try every setting that lowers latency, is put back at once, and can neither cut the network nor stop a service; the
    /// default without --knob
    #[arg(long)]
    all_safe: bool,
    /// Interface to tune; default the one that leads to HOST; loopback and veth have none
    #[arg(short = 'i', long, value_name = "IF")]
    interface: Option<String>,
    /// Leave the winners in force
    #[arg(long)]
    keep: bool,
    /// Begin without asking
    #[arg(long)]
    yes: bool,
    /// Write the winners as a profile for `hairpin tune apply`, with the measured effect of each. `-o` before the name of a form,
    /// such as json, is --format
    #[arg(short = 'o', long = "output", value_name = "FILE.toml")]
    file: Option<PathBuf>,
    /// Seed of the random order; a new one each time if not given
    #[arg(long, value_name = "N", value_parser = whole::<u64>)]
    seed: Option<u64>,
    #[command(flatten)]
    store: Keep,
    #[command(flatten)]
    work: WorkFlags,
    #[command(flatten)]
    output: Output,
}

/// Default time for each setting alone, and for the host as it is, on each path.
const EACH: Duration = Duration::from_secs(6);
/// Factor for the whole experiment: a quarter of it is for all winners together.
const WHOLE: f64 = 4.0 / 3.0;

impl Try {
    /// Runs the experiment.
    pub fn run(mut self) -> Result<ExitCode, Failure> {
        if self.work.sizes.is_some() || self.work.count.is_some() || self.work.forever {
            return Err(Failure::usage("an experiment has one size and one duration: leave out --sizes, --count and --forever"));
        }
        if line::was_given("warmup") {
            return Err(Failure::usage("--warmup has no effect on an experiment: its blocks choose their own warm-up"));
        }
        if let Some(interface) = &self.interface {
            interface_exists(interface)?;
        }
        // Settings of a host delay paths that sleep the most.
        if self.work.paths.is_empty() {
            self.work.paths = plain(&PLAIN)?;
        }
        let mirror = Mirror { interface: None, rewrite: None, dst_mac: None };
        let to = Where { host: self.host.take(), link: self.link.take(), netns: None, echo: None, reflector: false };
        let target = to.target(self.key_file.take(), mirror, &self.work)?;
        let jobs = self.work.jobs(true, &target, false)?;
        ipv6_has_effect(self.ipv6, &jobs)?;
        let mut settings = self.knobs.clone();
        let all_safe = self.all_safe || self.knobs.is_empty();
        if all_safe {
            let more = profile::settings(Profile::Latency, true).into_iter().filter(|setting| setting.control.safe);
            settings.extend(more.filter(|setting| !self.knobs.contains(setting)));
        }
        let (ipv6, interface) = (self.ipv6, self.interface.clone().or_else(|| interface_towards(&target)));
        let arm = |path: usize| -> Result<Arm, RunError> {
            Ok(Arm {
                given: String::new(),
                target: target.clone(),
                ipv6,
                stack: None,
                job: jobs[path].clone(),
                floor: None,
                bulk: 0,
            })
        };
        let mut plan = TrialPlan {
            settings,
            as_there_are: all_safe,
            target: &target,
            place: Place { cpus: &[], interface: interface.as_deref() },
            arm: &arm,
            paths: jobs.len(),
            duration: Duration::ZERO,
            seed: self.seed.map_or_else(cookie, Ok)?,
            keep: self.keep,
            command: line::typed(),
        };
        let found = tune_try::candidates(&RealHost, &plan).map_err(failure)?;
        let arms = (found.0.len() + 1) as u32;
        plan.duration = if line::was_given("duration") {
            self.work.duration.into()
        } else {
            (EACH * arms * plan.paths as u32).mul_f64(WHOLE)
        };
        self.ask(&found.0.iter().map(|(setting, _)| setting.to_string()).collect::<Vec<_>>(), &plan)?;
        // From here on no signal ends the process half way.
        let signals = signals()?;
        let mut progress = Turns::new(Some(plan.duration));
        let tried = tune_try::run(&RealHost, &journal()?, &plan, found, &signals, &mut progress);
        progress.clear();
        let (record, left) = tried.map_err(failure)?;
        let written = match (&self.file, &record.profile) {
            (Some(file), Some(profile)) => {
                fs::write(file, profile).map_err(|why| Failure::failed(format_args!("cannot write {}: {why}", file.display())))
            }
            _ => Ok(()),
        };
        let kept = self.store.after(self.output.print(&record), &record);
        let kept = both(kept, left.map_err(TryError::from).map_err(failure));
        // Only now, so that a file that cannot be written loses no result.
        both(kept, written)?;
        Ok(end(&record))
    }

    /// Shows the planned changes, and asks for confirmation unless a flag skips it.
    fn ask(&self, settings: &[String], plan: &TrialPlan<'_>) -> Result<(), Failure> {
        if settings.is_empty() {
            // With nothing to try, the experiment's error lists the settings left out, with reasons.
            return Ok(());
        }
        say(format_args!(
            "to be tried, on and off in turn for {:.0} s, and put back at the end{}: {}",
            plan.duration.as_secs_f64(),
            if plan.keep { " but for the winners" } else { "" },
            settings.join(", ")
        ));
        if self.yes || agreed("begin", "")? { Ok(()) } else { Err(Failure::failed("nothing was changed")) }
    }
}

fn failure(error: TryError) -> Failure {
    Failure::blamed(&error, error.blame())
}

fn end(record: &TuneTry) -> ExitCode {
    match &record.head.error {
        Some(error) => Failure::failed(error).report(),
        None => ExitCode::SUCCESS,
    }
}
