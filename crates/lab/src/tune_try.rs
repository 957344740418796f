//! `hairpin tune try`: finds out by experiment which settings lower latency on this host.
//!
//! ```text
//!   settings ─▶ planned changes ─▶ rehearsed once ─▶ per path: as it is │ one setting │ another │ …   in turn, in blocks
//!                 none: left out            refused: left out            │
//!                                                                        ▼ faster on a path and slower on none
//!                                        per path: as it is │ all winners together   in turn ─▶ profile ─▶ all restored, or kept
//!                                                                                       └ contradicts the single result: unclear, no profile
//!                                                                                       └ ended early: no winners, no profile
//! ```

use std::time::Duration;

use hairpin_record::compare::{Compare, Comparison};
use hairpin_record::experiment::{Figure, Verdict};
use hairpin_record::head::Record;
use hairpin_record::tune_try::{Contradiction, LeftOut, TriedPath, TriedSetting, TuneTry, TuneTryBody, ValueChange};
use hairpin_sys::host::Host;
use hairpin_sys::signal::Signals;
use hairpin_tune::change::{Change, Trouble};
use hairpin_tune::journal::{About, Journal};
use hairpin_tune::profile::ProfileFile;
use hairpin_tune::{Place, Setting};
use toml::{Table, Value};

use crate::compare::{self, MARGIN};
use crate::experiment::{Arm, BlockWatcher};
use crate::knobs::{self, KnobError, Knobs};
use hairpin_session::error::{Blame, RunError};
use hairpin_session::plan::Target;
use hairpin_session::rows;

/// The settings to try, and how.
pub struct TrialPlan<'a> {
    pub settings: Vec<Setting>,
    /// True if the settings were not named one by one: those that this host lacks are then left out, not an error.
    pub as_there_are: bool,
    /// The interface and CPUs to tune.
    pub place: Place<'a>,
    /// The other side of the round trips.
    pub target: &'a Target,
    /// Makes an arm of the path with this index.
    pub arm: &'a dyn Fn(usize) -> Result<Arm, RunError>,
    /// The number of paths.
    pub paths: usize,
    /// Duration of the whole experiment.
    pub duration: Duration,
    /// Seed of the random order.
    pub seed: u64,
    /// Leave the winners in force.
    pub keep: bool,
    /// The command line, for the record and the journal.
    pub command: Vec<String>,
}

/// Reason for a failed experiment.
#[derive(Debug, thiserror::Error)]
pub enum TryError {
    /// A named setting cannot be tried.
    #[error("{setting}: {why}")]
    Setting {
        setting: String,
        /// Why it cannot be tried.
        why: String,
        /// The exit code's kind.
        blame: Blame,
    },
    /// No setting is left to try.
    #[error("there is nothing to try: {0}")]
    Nothing(String),
    /// The journal failed, or a setting could not be restored.
    #[error(transparent)]
    Knobs(#[from] KnobError),
    /// The measurement failed.
    #[error(transparent)]
    Ping(#[from] RunError),
}

impl TryError {
    /// The exit code's kind.
    pub fn blame(&self) -> Blame {
        match self {
            TryError::Setting { blame, .. } => *blame,
            TryError::Nothing(_) => Blame::Failed,
            TryError::Knobs(error) => error.blame(),
            TryError::Ping(error) => error.blame(),
        }
    }
}

/// The share of the time in which each setting is tried alone; the rest is for all winners together.
const ALONE: f64 = 0.75;

/// A setting with its changes on this host.
pub type Candidate = (Setting, Vec<Change>);

/// The settings to try with their changes, and those left out. Only reads.
///
/// # Errors
/// A named setting does not exist here, or already has the value.
pub fn candidates(host: &dyn Host, plan: &TrialPlan<'_>) -> Result<(Vec<Candidate>, Vec<LeftOut>), TryError> {
    let (mut found, mut left_out) = (Vec::new(), Vec::new());
    for setting in &plan.settings {
        let (why, blame) = match knobs::changes(host, &plan.place, plan.target, std::slice::from_ref(setting)) {
            Ok(changes) if !changes.is_empty() => {
                found.push((setting.clone(), changes));
                continue;
            }
            Ok(_) => ("it is so already".to_owned(), Blame::Usage),
            Err(why) => (why.to_string(), why.blame()),
        };
        if !plan.as_there_are {
            return Err(TryError::Setting { setting: setting.to_string(), why, blame });
        }
        left_out.push(LeftOut { setting: setting.to_string(), why });
    }
    Ok((found, left_out))
}

/// Tries the settings that [`candidates`] returned. Beside the record it returns whether they could be put back, or kept.
///
/// # Errors
/// No setting could be tried, or nothing could be measured.
pub fn run(
    host: &dyn Host,
    journal: &Journal,
    plan: &TrialPlan<'_>,
    (candidates, mut left_out): (Vec<Candidate>, Vec<LeftOut>),
    signals: &Signals,
    watcher: &mut dyn BlockWatcher,
) -> Result<(TuneTry, Result<(), KnobError>), TryError> {
    let head = rows::begin::<TuneTryBody>(&plan.command);
    let about = About { command: head.command.clone(), started: head.started.clone() };
    let arms: Vec<Vec<Change>> =
        std::iter::once(Vec::new()).chain(candidates.iter().map(|(_, changes)| changes.clone())).collect();
    let mut knobs = Knobs::begin(host, journal, arms, &about)?;
    let mut tried: Vec<Candidate> = Vec::new();
    let mut groups = vec![vec![0]];
    for (at, (setting, changes)) in candidates.into_iter().enumerate() {
        match knobs.rehearse(at + 1) {
            Ok(()) => {
                tried.push((setting, changes));
                groups.push(vec![at + 1]);
            }
            Err(why) if plan.as_there_are => left_out.push(LeftOut { setting: setting.to_string(), why: why.to_string() }),
            Err(why) => {
                knobs.restore()?;
                let blame = if matches!(why, Trouble::Denied { .. }) { Blame::Missing } else { Blame::Failed };
                return Err(TryError::Setting { setting: setting.to_string(), why: why.to_string(), blame });
            }
        }
    }
    if tried.is_empty() {
        knobs.restore()?;
        let why = left_out.iter().map(|left| format!("{}: {}", left.setting, left.why)).collect::<Vec<_>>().join("; ");
        return Err(TryError::Nothing(why));
    }
    knobs.regroup(&groups);
    let mut record = Record {
        head,
        body: TuneTryBody {
            host: None,
            interface: plan.place.interface.map(str::to_owned),
            settings: tried.iter().map(|(setting, changes)| describe(setting, changes)).collect(),
            left_out,
            paths: Vec::new(),
            winners: Vec::new(),
            contradictions: Vec::new(),
            profile: None,
            kept: false,
        },
    };
    let outcome = measure(plan, &tried, &mut knobs, &mut record, signals, watcher);
    let whole = outcome.is_ok() && !record.head.interrupted && record.head.error.is_none();
    let keep = plan.keep && whole && !record.winners.is_empty();
    let left = if keep { knobs.keep(1) } else { knobs.restore() };
    // One that a process has to hold ends with this one.
    let lasts = |tried: &TriedSetting| !tried.held && record.winners.contains(&tried.setting);
    record.kept = keep && left.is_ok() && record.settings.iter().any(lasts);
    if let Err(error) = outcome {
        left?;
        return Err(error.into());
    }
    Ok((record, left))
}

/// Measures every path with each setting alone, then with all winners together.
fn measure(
    plan: &TrialPlan<'_>,
    tried: &[Candidate],
    knobs: &mut Knobs<'_>,
    record: &mut TuneTry,
    signals: &Signals,
    watcher: &mut dyn BlockWatcher,
) -> Result<(), RunError> {
    let names: Vec<String> = tried.iter().map(|(setting, _)| setting.to_string()).collect();
    let each = plan.duration / plan.paths.max(1) as u32;
    for path in 0..plan.paths {
        let given: Vec<&str> = std::iter::once("as it is").chain(names.iter().map(String::as_str)).collect();
        let alone = match one(plan, path, &given, each.mul_f64(ALONE), knobs, signals, watcher) {
            Ok(alone) => alone,
            // Keeps the results so far.
            Err(RunError::Interrupted) if !record.paths.is_empty() => {
                record.head.interrupted = true;
                return Ok(());
            }
            Err(error) if !record.paths.is_empty() => {
                record.head.error = Some(error.to_string());
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        record.host = record.host.take().or_else(|| alone.host.clone());
        let deep_idle = knobs.deep_idle(given.len());
        (record.head.interrupted, record.head.error) = (alone.head.interrupted, alone.head.error.clone());
        record.paths.push(TriedPath { alone, deep_idle, together: None, together_deep_idle: Vec::new() });
        if record.head.interrupted || record.head.error.is_some() {
            return Ok(());
        }
    }
    let winners = winners(&record.paths, tried);
    record.winners = winners.iter().map(|at| names[*at].clone()).collect();
    if winners.is_empty() {
        return Ok(());
    }
    knobs.regroup(&[vec![0], winners.iter().map(|at| at + 1).collect()]);
    for path in 0..plan.paths {
        let all = record.winners.join(" ");
        let rest = each.mul_f64(1.0 - ALONE);
        match one(plan, path, &["as it is", &all], rest, knobs, signals, watcher) {
            Ok(together) => {
                (record.head.interrupted, record.head.error) = (together.head.interrupted, together.head.error.clone());
                record.paths[path].together = Some(together);
                record.paths[path].together_deep_idle = knobs.deep_idle(2);
            }
            Err(RunError::Interrupted) => record.head.interrupted = true,
            Err(error) => record.head.error = Some(error.to_string()),
        }
        if record.head.interrupted || record.head.error.is_some() {
            break;
        }
    }
    conclude(record, tried, &winners);
    Ok(())
}

/// Makes the profile of the winners if they were measured again to the end and without a contradiction. Else there are no
/// winners.
fn conclude(record: &mut TuneTry, tried: &[Candidate], winners: &[usize]) {
    let TuneTryBody { paths, contradictions, winners: settings, .. } = &mut record.body;
    *contradictions = contradict(paths, winners, settings);
    let ended_early = record.head.interrupted || record.head.error.is_some();
    if record.contradictions.is_empty() && !ended_early {
        record.profile = Some(profile(record, tried, winners).text());
    } else {
        record.winners.clear();
    }
}

/// Finds paths where the new measurement of the winners contradicts that of the best one alone: a single setting cannot have two
/// different effects, and several settings cannot have less effect than one of them if none made the path slower. One of the two
/// measurements was disturbed, and which one is unknown, so the result is `unclear`.
fn contradict(paths: &mut [TriedPath], winners: &[usize], names: &[String]) -> Vec<Contradiction> {
    let interval = |comparison: &Comparison| {
        let figure = comparison.figures.iter().find(|estimate| estimate.figure == Figure::P50)?;
        Some([figure.low?, figure.high?])
    };
    let mut found = Vec::new();
    for path in paths {
        let alone = winners.iter().filter_map(|at| interval(path.alone.comparisons.get(*at)?));
        let alone = alone.min_by(|a, b| (a[0] * a[1]).total_cmp(&(b[0] * b[1])));
        let anew = path.together.as_ref().and_then(|together| interval(together.comparisons.first()?));
        let (Some(alone), Some(anew)) = (alone, anew) else { continue };
        let worse = anew[0] > alone[1];
        let better = winners.len() == 1 && anew[1] < alone[0];
        if !worse && !better {
            continue;
        }
        let mine = path.alone.comparisons.iter_mut().enumerate().filter(|(at, _)| winners.contains(at)).map(|(_, found)| found);
        for comparison in mine.chain(path.together.iter_mut().flat_map(|together| &mut together.comparisons)) {
            comparison.verdict = Verdict::Unclear;
            comparison.needs_s = None;
        }
        let spec = path.alone.arms.first().map(|arm| arm.path.clone()).unwrap_or_default();
        found.push(Contradiction { path: spec, settings: names.to_vec(), alone, anew });
    }
    found
}

/// One comparison: the same work with different settings of the host.
fn one(
    plan: &TrialPlan<'_>,
    path: usize,
    given: &[&str],
    duration: Duration,
    knobs: &mut Knobs<'_>,
    signals: &Signals,
    watcher: &mut dyn BlockWatcher,
) -> Result<Compare, RunError> {
    let arm = |given: &&str| Ok(Arm { given: (*given).to_owned(), ..(plan.arm)(path)? });
    let compare = compare::ComparePlan {
        arms: given.iter().map(arm).collect::<Result<_, RunError>>()?,
        bases: Vec::new(),
        duration,
        seed: plan.seed.wrapping_add(path as u64),
        until: None,
        margin: MARGIN,
        figure: Figure::P50,
        limits: Vec::new(),
        command: plan.command.clone(),
    };
    compare::run(compare, signals, knobs, watcher)
}

fn describe(setting: &Setting, changes: &[Change]) -> TriedSetting {
    let value =
        |change: &Change| ValueChange { place: change.address.to_string(), from: change.from.clone(), to: change.to.clone() };
    TriedSetting {
        setting: setting.to_string(),
        changes: changes.iter().map(value).collect(),
        cost: setting.control.cost.into(),
        held: setting.control.is_held(),
    }
}

/// The ratio of p50 and its verdict, for a setting on a path.
fn p50(path: &TriedPath, at: usize) -> Option<(f64, Verdict)> {
    let comparison = path.alone.comparisons.get(at)?;
    let figure = comparison.figures.iter().find(|estimate| estimate.figure == Figure::P50)?;
    Some((figure.ratio?, comparison.verdict))
}

/// The settings that made a path faster and none slower; for several values of one setting, the one with the least product of
/// ratios.
fn winners(paths: &[TriedPath], tried: &[Candidate]) -> Vec<usize> {
    let product = |at: usize| paths.iter().filter_map(|path| p50(path, at)).map(|(ratio, _)| ratio).product::<f64>();
    let wins = |at: &usize| {
        let words: Vec<Verdict> = paths.iter().filter_map(|path| p50(path, *at)).map(|(_, verdict)| verdict).collect();
        words.contains(&Verdict::Faster) && !words.contains(&Verdict::Slower)
    };
    let all: Vec<usize> = (0..tried.len()).filter(wins).collect();
    // Two queues of one device each have a value of their own.
    let is_rival = |a: usize, b: usize| {
        let (a, b) = (&tried[a].0, &tried[b].0);
        a.knob.name == b.knob.name && (a.queue == b.queue || a.queue.is_none() || b.queue.is_none())
    };
    let best = |at: &usize| {
        let rivals = all.iter().filter(|other| is_rival(**other, *at));
        rivals.min_by(|a, b| product(**a).total_cmp(&product(**b))) == Some(at)
    };
    all.iter().copied().filter(best).collect()
}

/// The profile of the winners, with the results for each.
fn profile(record: &TuneTry, tried: &[Candidate], winners: &[usize]) -> ProfileFile {
    let mut file = ProfileFile { interface: record.interface.clone(), ..ProfileFile::default() };
    let host = record.host.as_ref().map_or("this host", |host| &host.hostname);
    file.about =
        Some(format!("measured on {host}, {}, by {}: each setting on and off in turn", record.head.started, record.head.tool));
    for at in winners {
        let mut evidence = Table::new();
        for path in &record.paths {
            let Some(comparison) = path.alone.comparisons.get(*at) else { continue };
            let Some(arm) = path.alone.arms.first() else { continue };
            let mut of_path = Table::new();
            for estimate in &comparison.figures {
                let Some(ratio) = estimate.ratio else { continue };
                let ends = [estimate.low, estimate.high].into_iter().flatten().map(|end| Value::Float(round(end)));
                let mut figure = Table::new();
                figure.insert("ratio".into(), Value::Float(round(ratio)));
                figure.insert("interval".into(), Value::Array(ends.collect()));
                figure.insert("pairs".into(), Value::Integer(estimate.pairs as i64));
                of_path.insert(estimate.figure.name().into(), Value::Table(figure));
            }
            evidence.insert(arm.path.clone(), Value::Table(of_path));
        }
        file.add(&tried[*at].0, evidence);
    }
    file
}

fn round(ratio: f64) -> f64 {
    (ratio * 10_000.0).round() / 10_000.0
}

#[cfg(test)]
mod tests {
    use hairpin_record::compare::{Arm as ArmRecord, CompareBody, Method};
    use hairpin_record::experiment::Estimate;
    use hairpin_record::head::Head;

    use super::*;

    /// A comparison with these intervals of p50, each of them faster.
    fn said(intervals: &[[f64; 2]]) -> Compare {
        let comparison = |[low, high]: &[f64; 2]| Comparison {
            arm: "B".into(),
            against: "A".into(),
            verdict: Verdict::Faster,
            needs_s: None,
            pairs: 35,
            dropped: 0,
            states_used: vec![0],
            matched: Default::default(),
            runs: None,
            figures: vec![Estimate {
                ratio: Some((low * high).sqrt()),
                low: Some(*low),
                high: Some(*high),
                pairs: 35,
                ..Estimate::default()
            }],
        };
        Record {
            head: Head::default(),
            body: CompareBody {
                host: None,
                design: None,
                method: Method { figure: Figure::P50, confidence: 0.95, confidence_each: 0.99, looks: 1, margin: MARGIN },
                states: Vec::new(),
                arms: vec![ArmRecord { path: "udp:block/udp:block".into(), ..ArmRecord::default() }],
                comparisons: intervals.iter().map(comparison).collect(),
                thresholds: Vec::new(),
                placements: Vec::new(),
                warnings: Vec::new(),
            },
        }
    }

    fn tried(alone: &[[f64; 2]], anew: [f64; 2]) -> TriedPath {
        TriedPath { alone: said(alone), deep_idle: Vec::new(), together: Some(said(&[anew])), together_deep_idle: Vec::new() }
    }

    #[test]
    fn contradictory_results_are_unclear() {
        let setting = ["cpu_dma_latency_us=0".to_owned()];
        // As once measured for one setting, on a host whose speed changed for longer than a round.
        let mut paths = [tried(&[[0.147, 0.383]], [0.404, 0.964])];
        let found = contradict(&mut paths, &[0], &setting);
        assert_eq!(
            (found[0].path.as_str(), found[0].alone, found[0].anew),
            ("udp:block/udp:block", [0.147, 0.383], [0.404, 0.964])
        );
        let together = paths[0].together.as_ref().unwrap();
        assert_eq!(
            (paths[0].alone.comparisons[0].verdict, together.comparisons[0].verdict),
            (Verdict::Unclear, Verdict::Unclear)
        );
        // With one setting, an improvement is a contradiction too.
        assert_eq!(contradict(&mut [tried(&[[0.8, 0.9]], [0.5, 0.6])], &[0], &setting).len(), 1);
        // Overlapping intervals agree.
        let mut paths = [tried(&[[0.3, 0.5]], [0.4, 0.6])];
        assert!(contradict(&mut paths, &[0], &setting).is_empty());
        assert_eq!(paths[0].alone.comparisons[0].verdict, Verdict::Faster);
    }

    #[test]
    fn winners_that_were_not_measured_again_to_the_end_are_none() {
        let setting = "cpu_dma_latency_us=0";
        let candidates = [(setting.parse().unwrap(), Vec::new())];
        let concluded = |interrupted, error: Option<&str>| {
            let body = TuneTryBody {
                host: None,
                interface: None,
                settings: Vec::new(),
                left_out: Vec::new(),
                paths: vec![tried(&[[0.5, 0.6]], [0.5, 0.6])],
                winners: vec![setting.into()],
                contradictions: Vec::new(),
                profile: None,
                kept: false,
            };
            let head = Head { interrupted, error: error.map(str::to_owned), ..Head::default() };
            let mut record = Record { head, body };
            conclude(&mut record, &candidates, &[0]);
            (record.winners.len(), record.profile.is_some())
        };
        assert_eq!(concluded(false, None), (1, true));
        assert_eq!([concluded(true, None), concluded(false, Some("the peer is dead"))], [(0, false); 2]);
    }

    #[test]
    fn the_best_value_of_a_setting_wins_and_each_queue_has_its_own() {
        let winners_of = |settings: [&str; 2]| {
            let candidates = settings.map(|setting| (setting.parse().unwrap(), Vec::new()));
            winners(&[tried(&[[0.7, 0.8], [0.5, 0.6]], [0.5, 0.6])], &candidates)
        };
        assert_eq!(winners_of(["rx_usecs=10", "rx_usecs=0"]), [1]);
        assert_eq!(winners_of(["napi_threaded@rx-0=1", "napi_threaded@rx-1=1"]), [0, 1]);
        assert_eq!(winners_of(["napi_threaded@rx-0=1", "napi_threaded=1"]), [1]);
    }

    #[test]
    fn several_settings_may_be_worth_more_than_one_of_them_and_not_less() {
        let settings = ["a=1".to_owned(), "b=1".to_owned()];
        let alone = [[0.7, 0.8], [0.85, 0.95], [0.2, 0.3]];
        assert!(contradict(&mut [tried(&alone, [0.5, 0.6])], &[0, 1], &settings).is_empty());
        let mut paths = [tried(&alone, [0.85, 0.9])];
        assert_eq!(contradict(&mut paths, &[0, 1], &settings)[0].alone, [0.7, 0.8]);
        let words: Vec<Verdict> = paths[0].alone.comparisons.iter().map(|found| found.verdict).collect();
        assert_eq!(words, [Verdict::Unclear, Verdict::Unclear, Verdict::Faster], "the third is no winner");
    }
}
