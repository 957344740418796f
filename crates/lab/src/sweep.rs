//! `hairpin sweep`: measures every combination of several factors in turn, and shows the effect of each factor and their
//! interactions.
//!
//! ```text
//!   plan ──▶ cells ──▶ rounds, kept line by line ──▶ effects ──▶ record
//!                          └ killed? the same command goes on after the last whole round
//! ```

mod effects;
mod loss_free;
mod plan;
mod saved;

use std::ffi::CStr;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::{Duration, SystemTime};

use hairpin_plan::job::Job;
use hairpin_record::compare::Design;
use hairpin_record::head::{Head, Record};
use hairpin_record::sweep::{self, Cell, Sweep, SweepBody};
use hairpin_record::warning::Note;
use hairpin_sys::signal::Signals;
use hairpin_tune::Setting;
use rustix::system::uname;

use self::plan::CellWork;
pub use self::plan::{Design as Shape, Factor, Level, PLANS, PlanError, SweepPlan, shipped};
pub use self::saved::SavedSweepError;
use self::saved::{Before, Line, SavedSweep};
use crate::compare::fill;
use crate::experiment::rounds::{self, DISCARDED, Ended, Layout, Round};
use crate::experiment::stands::Stands;
use crate::experiment::states::States;
use crate::experiment::{Arm, BlockWatcher, Switch};
use hairpin_session::error::{Blame, RunError};
use hairpin_session::plan::{Plan, Target};
use hairpin_session::testbed::{RowEnd, Testbed};
use hairpin_session::time::rfc3339;
use hairpin_session::watch::NoWatcher;
use hairpin_units::Nanos;

/// Duration of the trial of a level that the host may lack.
const TRIAL: Nanos = Nanos::from_millis(20);

#[derive(Debug)]
pub struct Ask {
    pub plan: SweepPlan,
    /// Job options that a plan does not set: cores, scheduling, and so on.
    pub template: Job,
    /// Duration of the whole experiment; the plan's if not given.
    pub duration: Option<Duration>,
    /// The other side; the plan's link if not given.
    pub target: Option<Target>,
    /// Seed of the random order.
    pub seed: u64,
    /// Start over, and discard kept rounds.
    pub restart: bool,
    /// The measured code of this command, as `hairpin --version --verbose` prints it.
    pub code: &'static str,
    /// The command line, for the record.
    pub command: Vec<String>,
}

/// Reason for a failed sweep.
#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    /// The plan is wrong.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A cell could not be measured.
    #[error(transparent)]
    Ping(#[from] RunError),
    /// The rounds kept for a resume could not be read or written.
    #[error(transparent)]
    Kept(#[from] SavedSweepError),
}

/// Receives the progress of a sweep.
pub trait SweepWatcher: BlockWatcher {
    /// The sweep resumes after this many rounds of an earlier attempt.
    fn resumes(&mut self, rounds: u32);
}

/// Runs a sweep. The rounds are kept in `store`, if there is one, until the record exists, so that the same command resumes after
/// a crash.
///
/// # Errors
/// The plan cannot be measured, or a cell fails before one round is complete.
pub fn run(
    ask: Ask,
    store: Option<&Path>,
    signals: &Signals,
    switch: &mut dyn Switch,
    watcher: &mut dyn SweepWatcher,
) -> Result<(Sweep, Finish), SweepError> {
    let target = match &ask.target {
        Some(target) => target.clone(),
        None => Target::Link(ask.plan.link()?),
    };
    let plan = &ask.plan.clone().without_lacking(|plan, cell| lacks(&plan.arm(cell, &target, &ask.template)?, &ask, signals))?;
    let cells = plan.cells()?;
    let mut of_cells = OfCells::new(&ask.plan, plan, switch)?;
    let switch: &mut dyn Switch = &mut of_cells;
    let arms = cells.iter().map(|cell| plan.arm(cell, &target, &ask.template)).collect::<Result<Vec<Arm>, _>>()?;
    let duration = match ask.duration {
        Some(duration) => duration,
        None => plan.duration()?,
    };
    let host = uname();
    let key = key(&ask, plan, &target, duration, [host.nodename(), host.release()]);
    let opened = store.map(|store| SavedSweep::open(store, &key, ask.seed, ask.restart)).transpose()?;
    let (mut kept, before) = match opened {
        Some((kept, before)) => (Some(kept), before),
        None => (None, Before { seed: ask.seed, ..Before::default() }),
    };
    let started = before.started.clone().unwrap_or_else(|| rfc3339(SystemTime::now()));
    let mut all: Vec<Round> = before.rounds;
    if !all.is_empty() {
        watcher.resumes(all.len() as u32);
    }
    let mut stands = Stands::set_up(arms, &ask.command, signals, watcher)?;
    let done = all.len() as u32;
    let layout = Layout { arms: cells.len(), duration, seed: before.seed, done, length: before.length };
    stands.begin(duration, before.elapsed);
    let (mut last, mut failed) = (before.elapsed, None);
    let laid = rounds::run(&layout, &mut stands, switch, &mut |round, length, elapsed| {
        last = elapsed;
        let line = Line { elapsed_ns: u64::try_from(last.as_nanos()).unwrap_or(u64::MAX), length_ns: length.0, round };
        if let Some(Err(error)) = kept.as_mut().map(|kept| kept.add(&line)) {
            failed = Some(error);
            return ControlFlow::Break(());
        }
        all.push(line.round);
        ControlFlow::Continue(())
    });
    if let Some(error) = failed {
        return Err(error.into());
    }
    if all.is_empty() {
        kept.into_iter().for_each(SavedSweep::remove);
        return Err(match laid.ended {
            Some(Ended::Failed(error)) => error,
            Some(Ended::Interrupted) | None => RunError::Interrupted,
        }
        .into());
    }
    let states = States::of(&all);
    let mut described = stands.described();
    described.iter_mut().enumerate().for_each(|(at, arm)| fill(arm, at, &all, &states));
    let found = effects::find(plan, &cells, &all, &states);
    let host = stands.host();
    // The stages' workers must not run beside the frames.
    drop(stands);
    let mut beside = loss_free::Beside::default();
    if laid.ended.is_none() {
        beside.measure(plan, &cells, &target, &ask, signals, switch);
    }
    let lost: u64 = described.iter().map(|arm| arm.lost).sum();
    let loss = || Note {
        code: "loss".into(),
        message: format!(
            "{lost} requests were never answered in time; a lost request is in no quantile, so a cell that loses looks better than it is"
        ),
    };
    let head = Head {
        interrupted: beside.interrupted || matches!(laid.ended, Some(Ended::Interrupted)),
        error: match &laid.ended {
            Some(Ended::Failed(error)) => Some(error.to_string()),
            _ => None,
        },
        ..Head::new::<SweepBody>(ask.command, started)
    };
    let record = Record {
        head,
        body: SweepBody {
            plan: plan.name.clone(),
            title: plan.title.clone(),
            host,
            design: Design {
                seed: before.seed,
                rounds: all.len() as u32,
                discarded: DISCARDED,
                block_ns: laid.length.0,
                warmup_ns: laid.warmup.0,
                elapsed_ns: u64::try_from(last.as_nanos()).unwrap_or(u64::MAX),
            },
            resumed_rounds: done,
            confidence: effects::CONFIDENCE,
            confidence_each: found.confidence_each,
            states: states.record(all.iter().flat_map(|round| &round.taken)),
            factors: plan
                .factors
                .iter()
                .map(|factor| sweep::Factor {
                    name: factor.name.clone(),
                    levels: factor.levels.iter().map(|level| level.name().to_owned()).collect(),
                })
                .collect(),
            cells: cells.iter().zip(described).map(|(cell, arm)| Cell { levels: plan.names(cell), arm }).collect(),
            main_effects: found.main,
            interactions: found.interactions,
            loss_free: beside.found,
            left_out: plan.left_out.iter().cloned().chain(beside.left_out).collect(),
            warnings: (lost > 0).then(loss).into_iter().collect(),
        },
    };
    let whole = laid.ended.is_none() && !record.head.interrupted;
    Ok((record, Finish { kept, whole }))
}

/// The key of the kept rounds: a sweep goes on only with rounds of the same key.
fn key(ask: &Ask, plan: &SweepPlan, target: &Target, duration: Duration, [hostname, kernel]: [&CStr; 2]) -> String {
    let (version, Job { cpus, own, .. }) = (env!("CARGO_PKG_VERSION"), &ask.template);
    format!("{version} {} {hostname:?} {kernel:?} {plan:?} {target:?} {cpus:?} {own:?} {duration:?}", ask.code)
}

/// Measures an arm for a moment; the reason if this host or the other one lacks something that it takes.
fn lacks(arm: &Arm, ask: &Ask, signals: &Signals) -> Result<Option<String>, SweepError> {
    let job = Job { duration: Some(TRIAL), count: None, warmup: Nanos(0), ..arm.job.clone() };
    let (target, ipv6, command) = (arm.target.clone(), arm.ipv6, ask.command.clone());
    let plan = Plan { target, ipv6, stack: None, rows: vec![job.clone()], raw: None, shown: Vec::new(), floor: None, command };
    let tried = hairpin_session::plan::check(&plan).and_then(|()| {
        let mut testbed = Testbed::set_up(&plan, None)?;
        match testbed.row(&job, 0, signals, &mut NoWatcher) {
            Err(RowEnd::Interrupted) => Err(RunError::Interrupted),
            Err(RowEnd::Failed(error)) => Err(error),
            Ok(_) => Ok(()),
        }
    });
    match tried {
        Err(error) if error.blame() == Blame::Missing => Ok(Some(error.to_string())),
        tried => Ok(tried.map(|()| None)?),
    }
}

/// Switches to the settings of a plan's remaining cells; the settings were prepared for the cells of the whole plan.
struct OfCells<'a> {
    switch: &'a mut dyn Switch,
    /// By cell: one of the whole plan with the same settings. Empty for a plan without settings.
    cells: Vec<usize>,
}

impl<'a> OfCells<'a> {
    fn new(whole: &SweepPlan, left: &SweepPlan, switch: &'a mut dyn Switch) -> Result<OfCells<'a>, PlanError> {
        let all: Vec<Vec<Setting>> = whole.all_settings()?;
        let same = |settings: Vec<Setting>| all.iter().position(|known| *known == settings).unwrap_or_default();
        Ok(OfCells { switch, cells: left.all_settings()?.into_iter().map(same).collect() })
    }
}

impl Switch for OfCells<'_> {
    fn to(&mut self, cell: usize) -> Result<(), String> {
        self.switch.to(self.cells.get(cell).copied().unwrap_or(cell))
    }
}

/// The kept rounds, if any; removed once the record of a whole sweep is out.
#[derive(Debug)]
pub struct Finish {
    kept: Option<SavedSweep>,
    whole: bool,
}

impl Finish {
    /// Call when the record is out. Returns true if the same command would resume the sweep.
    pub fn done(self) -> bool {
        match self.kept {
            Some(kept) if self.whole => {
                kept.remove();
                false
            }
            kept => kept.is_some(),
        }
    }
}

impl SweepPlan {
    /// The arm of a combination of levels.
    fn arm(&self, cell: &[usize], target: &Target, template: &Job) -> Result<Arm, PlanError> {
        let CellWork { spec, request, reply, flows, outstanding, bulk } = self.work(cell)?;
        let sizes = [("size", &self.size), ("request", &self.request), ("reply", &self.reply)];
        let varied = sizes.into_iter().find(|(_, text)| text.as_deref().is_some_and(|text| text.contains('{')));
        let (request, reply) = match (&template.own, varied) {
            (None, _) => (request, reply),
            (Some(_), None) => (template.request, template.reply),
            (Some(_), Some((field, _))) => {
                let why = format!("a request of your own has its size: leave out {field}, and the factor that varies it");
                return Err(PlanError::Bad { plan: self.name.clone(), why });
            }
        };
        Ok(Arm {
            given: self.names(cell).join(", "),
            target: target.clone(),
            ipv6: false,
            stack: None,
            job: Job { spec, request, reply, flows, outstanding, ..template.clone() },
            floor: None,
            bulk,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hairpin_plan::request::{ReplyEnd, Request};

    #[test]
    fn the_size_of_the_users_own_request_is_not_varied() {
        let arm = |field: &str, own: Option<Request>| {
            let factor = "[[factor]]\nname = 'n'\nlevels = ['1', '2']";
            let text = format!("name = 't'\npath = 'tcp:poll'\n{field} = '{{n}}'\n{factor}");
            let plan = SweepPlan::parse("t.toml", &text).unwrap();
            let template = Job { own, ..Job::new("tcp".parse().unwrap()) };
            plan.arm(&[1], &Target::Link(plan.link().unwrap()), &template).map(|arm| arm.job.request)
        };
        let own = Request { name: "x".into(), bytes: b"x".into(), end: ReplyEnd::Resp, tls: None };
        for field in ["size", "request", "reply"] {
            let why = arm(field, Some(own.clone())).unwrap_err().to_string();
            assert!(why.starts_with(&format!("plan t: a request of your own has its size: leave out {field},")), "{why}");
        }
        assert_eq!((arm("flows", Some(own)), arm("size", None)), (Ok(64), Ok(2)));
    }

    #[test]
    fn the_cells_that_are_left_have_their_own_settings() {
        struct Switched(Vec<usize>);
        impl Switch for Switched {
            fn to(&mut self, arm: usize) -> Result<(), String> {
                self.0.push(arm);
                Ok(())
            }
        }
        let idle = "[[factor]]\nname = 'idle'\nlevels = ['as-is', '0']\n";
        let way = "[[factor]]\nname = 'way'\nlevels = ['udp:block', 'udp:spin', 'tcp:spin']\noptional = true\n";
        let text = format!("name = 't'\npath = '{{way}}'\nknobs = ['cpu_dma_latency_us={{idle}}']\n{idle}{way}");
        let whole = SweepPlan::parse("t.toml", &text).unwrap();
        let lacks = |plan: &SweepPlan, cell: &[usize]| {
            Ok::<_, PlanError>((plan.names(cell)[1] == "udp:spin").then(|| "too old".to_owned()))
        };
        let left = whole.clone().without_lacking(lacks).unwrap();
        let mut switched = Switched(Vec::new());
        let mut switch = OfCells::new(&whole, &left, &mut switched).unwrap();
        (0..4).for_each(|cell| switch.to(cell).unwrap());
        let settings = whole.all_settings().unwrap();
        let set: Vec<usize> = switched.0.iter().map(|cell| settings[*cell].len()).collect();
        assert_eq!(set, [0, 0, 1, 1], "twice as it is, then twice held");
    }

    #[test]
    fn a_sweep_goes_on_after_rounds_that_were_kept() {
        let dir = tempfile::tempdir().unwrap();
        let goes_on = |store: Option<&Path>, whole| {
            let kept = store.map(|store| SavedSweep::open(store, "key", 7, false).unwrap().0);
            Finish { kept, whole }.done()
        };
        assert!(goes_on(Some(dir.path()), false) && !goes_on(Some(dir.path()), true));
        assert!(!goes_on(None, false) && !goes_on(None, true), "nothing was kept");
    }

    #[test]
    fn rounds_of_another_host_kernel_or_build_are_of_another_sweep() {
        let plan = shipped("fast-paths").unwrap();
        let target = Target::Link(plan.link().unwrap());
        let of = |code, hostname, kernel| {
            let template = Job::new("udp".parse().unwrap());
            let (duration, command) = (None, Vec::new());
            let ask = Ask { plan: plan.clone(), template, duration, target: None, seed: 1, restart: false, code, command };
            key(&ask, &plan, &target, Duration::from_secs(60), [hostname, kernel])
        };
        let same = of("4c1f", c"a", c"6.12");
        assert_eq!(of("4c1f", c"a", c"6.12"), same);
        for other in [of("4c1f", c"b", c"6.12"), of("4c1f", c"a", c"6.13"), of("5d20", c"a", c"6.12")] {
            assert_ne!(other, same);
        }
    }
}
