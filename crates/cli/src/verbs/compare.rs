//! `hairpin compare`.

mod side;

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use hairpin_lab::compare::placements::{self, Placements};
use hairpin_lab::compare::{self, ANEW, Baseline, ComparePlan, Limit, MARGIN};
use hairpin_lab::experiment::{Arm, NoSwitch, Switch};
use hairpin_lab::knobs::Knobs;
use hairpin_lab::records::{self, Named, RecordsError};
use hairpin_plan::paths::UDP;
use hairpin_record::any::AnyRecord;
use hairpin_record::compare::Compare as Record;
use hairpin_record::experiment::Figure;
use hairpin_record::noise::{Noise, NoiseComparison};
use hairpin_record::run::{Link, Run};
use hairpin_session::error::RunError;
use hairpin_session::link::LinkSpec;
use hairpin_sys::host::RealHost;
use hairpin_sys::signal::Signals;
use hairpin_sys::thread::allowed_cpus;
use hairpin_tune::Setting;
use hairpin_units::Nanos;

pub use self::side::whole_first;
use self::side::{Side, WARMUP, arm, before_the_sides, split};
use crate::exit::{CROSSED, Failure, both};
use crate::flags::{Asked, cookie, stack, whole, whole_in};
use crate::line;
use crate::output::{Keep, Output, store_of};
use crate::place::Place;
use crate::progress::{PingProgress, Turns};
use crate::verbs::knobs;
use crate::verbs::ping::signals;

/// The default duration of the whole experiment.
const DURATION: Nanos = Nanos::from_secs(30);
/// The word in place of a host that compares the pairs of this host's CPUs.
const PLACEMENTS: &str = "placements";

/// Flags without effect beside `--baseline`, by their ids.
const WITHOUT_EFFECT: &[(&str, &str)] = &[
    ("seed", "--seed"),
    ("until", "--until"),
    ("knobs", "--knob"),
    ("yes", "--yes"),
    ("paths", "--path"),
    ("size", "--size"),
    ("flows", "--flows"),
    ("threads", "--threads"),
    ("outstanding", "--outstanding"),
    ("rate", "--rate"),
    ("wire", "--wire"),
    ("link_rate", "--link-rate"),
    ("cable", "--cable"),
    ("nic", "--nic"),
    ("hops", "--hop"),
    ("fec", "--fec"),
    ("pcie", "--pcie"),
    ("vlan", "--vlan"),
];

/// Compare ways to do the same work: short blocks in turn, ratios with intervals, a verdict in a word
#[derive(Debug, Args)]
pub struct Compare {
    #[command(flatten)]
    how: How,
    #[command(flatten)]
    side: Side,
    /// The sides to compare, each after its own `--`; the others are compared with the first. Sides of a path alone need no `--`
    #[arg(last = true, value_name = "SIDE")]
    sides: Vec<String>,
}

/// Flags of the experiment.
#[derive(Debug, Args)]
#[command(next_help_heading = "Experiment")]
struct How {
    /// End as soon as the interval of every comparison is narrower than this from end to end, such as 2%
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    until: Option<f64>,
    /// A difference of less than this does not matter; 2% if not given
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    same_within: Option<f64>,
    /// Figure that decides the verdict: p50, p99, p99.9, rate or cpu
    #[arg(long, value_name = "FIGURE", default_value_t = Figure::P50)]
    figure: Figure,
    /// Seed of the random order; a new one each time if not given
    #[arg(long, value_name = "N", value_parser = whole::<u64>)]
    seed: Option<u64>,
    /// Measure the rows of this stored run anew and hold them against it; repeatable: how much runs differ from each other is
    /// then in the interval
    #[arg(long, value_name = "RUN")]
    baseline: Vec<String>,
    /// Number of new measurements of the baseline's rows; default 5
    #[arg(long, value_name = "N", requires = "baseline", value_parser = whole_in(1..=100u32))]
    anew: Option<u32>,
    /// Exit with 3 if the interval lies wholly beyond this, and does so again when measured once more, such as 'p99 > +5%';
    /// repeatable
    #[arg(long, value_name = "THRESHOLD")]
    fail_if: Vec<Limit>,
    /// Change settings (--knob) without asking
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    keep: Keep,
    #[command(flatten)]
    output: Output,
}

/// A comparison of two stored records.
enum Stored {
    Runs(Record),
    Looks(NoiseComparison),
}

impl Compare {
    /// Measures, or loads stored runs, and prints the comparison.
    pub fn run(self) -> Result<ExitCode, Failure> {
        let sides = split(&self.sides);
        let (stored, anew) = (self.how.baseline.is_empty() && sides.is_empty(), !self.how.baseline.is_empty());
        let (output, keep) = (self.how.output, self.how.keep);
        let mut left = Ok(());
        let record = match (stored, anew) {
            (true, _) if self.side.words.iter().any(|word| word == PLACEMENTS) => self.of_placements()?,
            (true, _) => match self.of_stored()? {
                Stored::Runs(record) => record,
                // Both looks are in the store, and nothing was measured.
                Stored::Looks(found) => return output.print(&found).map(|()| ExitCode::SUCCESS),
            },
            (_, true) if !sides.is_empty() => {
                return Err(Failure::usage("--baseline measures the rows of its run: leave out the sides after `--`"));
            }
            (_, true) => self.against_baseline()?,
            _ => {
                let record;
                (record, left) = self.live(&sides)?;
                record
            }
        };
        let kept = keep.after(output.print(&record), &record);
        if let Err(verdict) = end(&record) {
            // The verdict is the same where the record could not be stored, or a setting not put back.
            for why in [kept, left].into_iter().filter_map(Result::err) {
                why.report();
            }
            return Err(verdict);
        }
        both(kept, left).map(|()| ExitCode::SUCCESS)
    }

    fn margin(&self) -> f64 {
        self.how.same_within.unwrap_or(MARGIN)
    }

    fn of_stored(&self) -> Result<Stored, Failure> {
        let [first, second] = &self.side.words[..] else {
            return Err(Failure::usage(
                "say what to compare: paths (hairpin compare udp:spin tcp:spin), sides, each after a `--` (hairpin compare veth -- udp:spin -- udp:block), two stored runs or looks of check --host (latest -2), the placements of this host (hairpin compare placements), or --baseline RUN",
            ));
        };
        let idle = line::given_but("compare", &["words", "figure", "same_within", "fail_if"]);
        if !idle.is_empty() {
            return Err(Failure::usage(format_args!(
                "{} has no effect on two stored runs: leave it out, or measure anew with sides or --baseline RUN",
                idle.join(", ")
            )));
        }
        if !self.how.fail_if.is_empty() {
            return Err(Failure::usage(
                "--fail-if takes sides or --baseline RUN: two runs that were stored cannot be measured once more",
            ));
        }
        let (one, other) = (loaded(first)?, loaded(second)?);
        if let (Some(one), Some(other)) = (look(&one), look(&other)) {
            if line::was_given("figure") {
                return Err(Failure::usage(
                    "--figure has no effect on two looks of check --host, whose stalls are compared: leave it out",
                ));
            }
            return compare::noise(one, other, self.margin()).map(Stored::Looks).map_err(Failure::usage);
        }
        let (one, other) = (runs(first, one)?, runs(second, other)?);
        let command: Vec<String> = line::typed();
        compare::stored(&compare::named(&one), &compare::named(&other), self.how.figure, self.margin(), &command)
            .map(Stored::Runs)
            .map_err(Failure::usage)
    }

    fn against_baseline(self) -> Result<Record, Failure> {
        let given = WITHOUT_EFFECT.iter().find(|(id, _)| line::was_given(id)).map(|(_, flag)| *flag);
        let bytes = matches!(self.side.work.request, Some(Asked::Bytes(_))).then_some("--request");
        if let Some(flag) = given.or(bytes) {
            return Err(Failure::usage(format_args!(
                "{flag} has no effect beside --baseline: the rows of its run are measured anew, as they were, one after the other"
            )));
        }
        if let [_, other] = &self.side.words[..] {
            return Err(Failure::usage(format_args!(
                "--baseline measures the rows of its run anew, to one place: leave out {other}"
            )));
        }
        let signals = signals()?;
        let margin = self.margin();
        let runs = self.how.baseline.iter().map(|given| runs(given, loaded(given)?)).collect::<Result<Vec<_>, _>>()?.concat();
        let Some((_, baseline)) = runs.first() else { return Err(Failure::usage("--baseline takes a run")) };
        let mut side = self.side;
        if side.words.is_empty() && side.link.is_none() && side.netns.is_none() && side.echo.is_none() && !side.reflector {
            side.link = Some(link_of(&baseline.place.link)?);
        }
        let (ipv6, stack) = (side.ipv6, stack(side.stack.as_deref())?);
        // Paths and CPUs come from the baseline; the flags fill in the fields that its record lacks.
        side.work.paths =
            baseline.results.iter().map(|row| row.path.parse()).collect::<Result<_, _>>().map_err(Failure::usage)?;
        let (target, template) = side.job_and_target()?;
        let rows = compare::jobs(baseline, &template, stack.is_some()).map_err(Failure::usage)?;
        let shown = hairpin_report::PERCENTILES.into();
        let plan =
            hairpin_session::plan::Plan { target, ipv6, stack, rows, raw: None, shown, floor: None, command: line::typed() };
        let anew = self.how.anew.unwrap_or(ANEW);
        let held = Baseline { runs: &runs, plan: &plan, anew, limits: &self.how.fail_if, figure: self.how.figure, margin };
        let mut progress = PingProgress::new(false, &plan.target);
        let record = held.hold(&signals, &mut progress);
        progress.clear();
        record.map_err(|error| match error {
            compare::StoredError::Ping(RunError::Cpu { cpu, allowed }) if !line::was_given("cpu") => {
                Failure::failed(format_args!(
                    "the baseline was measured on CPU {cpu}, which does not exist or is not allowed to this process; --cpu CLIENT,SERVER chooses others ({allowed}), on which no threshold can be judged"
                ))
            }
            compare::StoredError::Ping(error) => error.into(),
            other => Failure::failed(other),
        })
    }

    fn of_placements(mut self) -> Result<Record, Failure> {
        self.side.words.retain(|word| word != PLACEMENTS);
        if line::was_given("warmup") {
            return Err(Failure::usage(WARMUP));
        }
        if self.side.work.cpu.is_some() || !self.side.knobs.is_empty() {
            return Err(Failure::usage(
                "`compare placements` chooses the CPUs, and changes no setting: leave out --cpu and --knob",
            ));
        }
        if self.side.work.paths.len() > 1 {
            return Err(Failure::usage("`compare placements` takes one --path, and measures it blocking and spinning"));
        }
        let here = |word: &String| matches!(word.parse(), Ok(Place::Link(_)));
        if self.side.echo.is_some() || self.side.reflector || !self.side.words.iter().all(here) {
            return Err(Failure::usage("the placements are those of this host: take loopback, the default, or veth"));
        }
        if self.side.work.paths.is_empty() {
            self.side.work.paths.push(UDP.name.parse().map_err(Failure::usage)?);
        }
        let (how, duration) = (self.how, of_all(self.side.work.duration));
        let arm = self.side.arm(String::new())?;
        let signals = signals()?;
        let cpus =
            allowed_cpus().map_err(|error| Failure::failed(format_args!("cannot read the CPUs of this process: {error}")))?;
        let pairs = placements::pairs(&RealHost, &cpus, &mut placements::distance);
        let mut found = Placements::new(&arm, pairs).map_err(Failure::usage)?;
        let (arms, bases) = (std::mem::take(&mut found.arms), std::mem::take(&mut found.bases));
        let mut record = how.measure(arms, bases, duration, &signals, &mut NoSwitch)?;
        found.fill(&mut record);
        Ok(record)
    }

    /// The record, and whether all settings could be put back.
    fn live(self, sides: &[Vec<String>]) -> Result<(Record, Result<(), Failure>), Failure> {
        if sides.len() < 2 {
            return Err(Failure::usage("a comparison takes two sides or more, each after a `--`: … -- udp:spin -- udp:block"));
        }
        let common = before_the_sides();
        let arms = sides.iter().map(|side| arm(&common, side)).collect::<Result<Vec<_>, _>>()?;
        let (arms, settings): (Vec<Arm>, Vec<Vec<Setting>>) = arms.into_iter().unzip();
        let of: Vec<_> = arms.iter().map(|arm| &arm.target).zip(settings).collect();
        let changes = knobs::confirmed(&of, self.how.yes)?;
        let signals = signals()?;
        let mut knobs = knobs::begin(changes)?;
        let switch: &mut dyn Switch = match &mut knobs {
            Some(knobs) => knobs,
            None => &mut NoSwitch,
        };
        let duration = of_all(self.side.work.duration);
        let record = self.how.measure(arms, Vec::new(), duration, &signals, switch);
        let left = knobs.map_or(Ok(()), Knobs::restore).map_err(Failure::failed);
        match record {
            Ok(record) => Ok((record, left)),
            Err(why) => both(Err(why), left),
        }
    }
}

impl How {
    fn measure(
        self,
        arms: Vec<Arm>,
        bases: Vec<usize>,
        duration: Duration,
        signals: &Signals,
        switch: &mut dyn Switch,
    ) -> Result<Record, Failure> {
        let plan = ComparePlan {
            arms,
            bases,
            duration,
            seed: self.seed.map_or_else(cookie, Ok)?,
            until: self.until,
            margin: self.same_within.unwrap_or(MARGIN),
            figure: self.figure,
            limits: self.fail_if,
            command: line::typed(),
        };
        let mut progress = Turns::new(None);
        let record = compare::run(plan, signals, switch, &mut progress);
        progress.clear();
        Ok(record?)
    }
}

/// The duration of the whole experiment.
fn of_all(duration: Nanos) -> Duration {
    Duration::from(if line::was_given("duration") { duration } else { DURATION })
}

/// Loads the records of a RUN, or of several with commas between them.
fn loaded(text: &str) -> Result<Vec<Vec<Named>>, Failure> {
    let load = |text: &str| records::load_to_compare(&store_of(text)?, text).map_err(failure);
    // The name of a file may contain a comma.
    match load(text) {
        Err(_) if text.contains(',') => text.split(',').map(load).collect(),
        one => one.map(|one| vec![one]),
    }
}

fn failure(error: RecordsError) -> Failure {
    match error {
        RecordsError::Load(_) | RecordsError::Several { .. } => Failure::failed(error),
        _ => Failure::usage(error),
    }
}

/// The look at a host's own noise, if it is the only record.
fn look(found: &[Vec<Named>]) -> Option<(&str, &Noise)> {
    match found {
        [one] => match &one[..] {
            [Named { name, record: AnyRecord::Noise(noise), .. }] => Some((name, noise)),
            _ => None,
        },
        _ => None,
    }
}

/// The runs of these records, each with its id; that of a file with the user's word for it.
fn runs(text: &str, found: Vec<Vec<Named>>) -> Result<Vec<(String, Run)>, Failure> {
    let words: Vec<&str> = if found.len() > 1 { text.split(',').collect() } else { vec![text] };
    let run = |(word, found): (&str, Vec<Named>)| {
        let name = records::kept_as(&found, word);
        Ok((name, records::comparable(found).map_err(failure)?.1))
    };
    words.into_iter().zip(found).map(run).collect()
}

/// The link of a stored run, if it can be set up again.
fn link_of(link: &Link) -> Result<LinkSpec, Failure> {
    if link.kind.is_empty() {
        return Err(Failure::usage("the baseline's record has no link over which its rows went: take a run of ping or demo"));
    }
    // A netns link consists of the client's namespace, then the server's.
    let option = |(name, value): (&String, &String)| if link.kind == "netns" { value.clone() } else { format!("{name}={value}") };
    let options: Vec<String> = link.options.iter().map(option).collect();
    let text = if options.is_empty() { link.kind.clone() } else { format!("{}:{}", link.kind, options.join(",")) };
    text.parse().map_err(|_| Failure::usage(format_args!("the baseline went to a {}: say where to now, such as HOST", link.kind)))
}

/// How the verb ends after printing.
fn end(record: &Record) -> Result<(), Failure> {
    if let Some(error) = &record.head.error {
        return Err(Failure::failed(error));
    }
    let crossed: Vec<String> =
        record.thresholds.iter().filter(|found| found.crossed).map(|found| format!("{} by {}", found.given, found.arm)).collect();
    if !crossed.is_empty() {
        let message = format!("crossed, and again when measured once more: {}", crossed.join(", "));
        return Err(Failure::with_code(message, CROSSED));
    }
    let unknown = record.thresholds.iter().find_map(|found| Some((found, found.unknown.as_ref()?)));
    match unknown {
        // A threshold that cannot be judged must not count as passed.
        Some((found, why)) => Err(Failure::failed(format_args!("{} cannot be judged: {why}", found.given))),
        None => Ok(()),
    }
}

/// Parses `2%`.
fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
    let share = number.filter(|percent| *percent > 0.0 && *percent <= 100.0).map(|percent| percent / 100.0);
    share.ok_or_else(|| format!("\"{text}\" is not a share: write a percentage such as 2%"))
}

#[cfg(test)]
mod tests {
    use clap::FromArgMatches;
    use hairpin_session::link::VethSpec;

    use super::*;

    #[test]
    fn flags_called_without_effect_exist() {
        let command = crate::parse::command();
        let compare = command.find_subcommand("compare").unwrap();
        for (id, flag) in WITHOUT_EFFECT {
            let arg = compare.get_arguments().find(|arg| arg.get_id() == *id);
            assert_eq!(arg.and_then(clap::Arg::get_long), flag.strip_prefix("--"), "{id}");
        }
    }

    #[test]
    fn a_baseline_is_measured_to_one_place() {
        let words = ["compare", "--baseline", "no-such-run.json", "loopback", "veth"];
        let given = Compare::augment_args(clap::Command::new("compare")).try_get_matches_from(words).unwrap();
        let refused = Compare::from_arg_matches(&given).unwrap().against_baseline().unwrap_err();
        assert!(format!("{refused:?}").contains("to one place: leave out veth"), "{refused:?}");
    }

    #[test]
    fn the_link_of_a_stored_run_is_set_up_again() {
        for text in ["loopback", "bridge", "veth:mtu=9000,gro=off,rate=1G", "netns:blue,/proc/7/ns/net", "netns:4711,green"] {
            let link: LinkSpec = text.parse().unwrap();
            let stored = link.record(&VethSpec::default().ends(false), None);
            assert_eq!(link_of(&stored).unwrap(), link, "{text}");
        }
        let host = Link { kind: "host".into(), ..LinkSpec::Loopback.record(&VethSpec::default().ends(false), None) };
        assert!(link_of(&host).is_err());
        let none = Link { kind: String::new(), ..host };
        assert!(format!("{:?}", link_of(&none).unwrap_err()).contains("take a run of ping or demo"));
    }

    #[test]
    fn shares_are_percentages() {
        assert_eq!(percent("2%"), Ok(0.02));
        for text in ["2", "0%", "-1%", "two%", "200%"] {
            assert!(percent(text).is_err(), "{text}");
        }
    }
}
