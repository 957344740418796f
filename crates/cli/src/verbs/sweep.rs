//! `hairpin sweep`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use hairpin_lab::experiment::{NoSwitch, Switch};
use hairpin_lab::knobs::Knobs;
use hairpin_lab::store::Store;
use hairpin_lab::sweep::{self, Ask, Factor, Level, PLANS, SavedSweepError, Shape, SweepError, SweepPlan, SweepWatcher};
use hairpin_model::published::published;
use hairpin_plan::job::Job;
use hairpin_plan::paths::UDP;
use hairpin_plan::request::ReplyEnd;
use hairpin_plan::spec::Spec;
use hairpin_report::{PlanFactor, PlanRow, Plans};
use hairpin_session::link::LinkSpec;
use hairpin_session::plan::Target;
use hairpin_units::{Nanos, parse_duration};

use crate::exit::{Failure, both, say};
use crate::flags::{Asked, Sizes, TlsFlags, WorkFlags, asked, cookie, sizes, whole};
use crate::line;
use crate::output::{Keep, Output, open_store, print};
use crate::place::{HostPort, Mirror, PORT, Place, Service, Where, load_key};
use crate::progress::Turns;
use crate::verbs::knobs;
use crate::verbs::ping::signals;
use crate::version::code;

/// Measure every combination of several factors in turn, and report the effect of each
#[derive(Debug, Args)]
pub struct Sweep {
    /// A plan that comes with hairpin, or a file with one; and where to, in place of the plan's own link: loopback, veth[:…], or
    /// with --path also a host on which `hairpin serve` runs
    #[arg(value_name = "PLAN|FILE.toml|HOST[:PORT]|loopback|veth", num_args = 0..=2)]
    plan: Vec<String>,
    /// List the plans that come with hairpin
    #[arg(long, conflicts_with_all = ["plan", "paths", "sizes", "vary"])]
    list: bool,
    /// Print the plan instead of measuring: a start for one of your own
    #[arg(long, conflicts_with_all = ["link", "host", "key_file", "duration", "seed", "restart", "yes"])]
    show: bool,
    /// Path to measure; repeatable: several make a factor
    #[arg(short = 'p', long = "path", value_name = "SPEC")]
    paths: Vec<Spec>,
    /// Payloads: a factor if there are several
    #[arg(short = 's', long, value_name = "LIST", value_parser = sizes)]
    sizes: Option<Sizes>,
    /// What to ask a server that is there (echo:HOST:PORT): text:PING\r\n, hex:0d0a, @FILE, or a preset's name (`hairpin help
    /// requests`)
    #[arg(long, value_name = "text:…|hex:…|@FILE|PRESET", value_parser = asked, conflicts_with = "sizes")]
    request: Option<Asked>,
    /// Where its reply ends: N bytes, a delimiter such as '\r\n', length-prefix:4, http or resp
    #[arg(long, value_name = "END", requires = "request", visible_alias = "until")]
    reply: Option<ReplyEnd>,
    #[command(flatten)]
    tls: TlsFlags,
    /// The server that is asked.
    #[arg(skip)]
    echo: Option<Service>,
    /// A factor: flows, outstanding, bulk (none,tcp:1), or an option of the path, with its values, such as quickack=on,off;
    /// repeatable
    #[arg(long, value_name = "NAME=A,B,…", value_parser = vary)]
    vary: Vec<Factor>,
    /// A setting of this host as a factor, with its values; as-is leaves it as it is: cpu_dma_latency_us=as-is,0; repeatable
    #[arg(long = "knob", value_name = "NAME=A,B,…", value_parser = vary)]
    knobs: Vec<Factor>,
    /// Change settings without asking
    #[arg(long)]
    yes: bool,
    /// All combinations, or one factor at a time
    #[arg(long, value_name = "factorial|one-at-a-time", value_parser = design)]
    design: Option<Shape>,
    /// The same as loopback or veth[:…]
    #[arg(long, value_name = "LINK", hide = true)]
    link: Option<LinkSpec>,
    /// The same as HOST
    #[arg(long, value_name = "HOST[:PORT]", conflicts_with = "link", hide = true)]
    host: Option<HostPort>,
    /// The key that `hairpin serve` printed, in a file
    #[arg(long, value_name = "FILE", conflicts_with = "link")]
    key_file: Option<PathBuf>,
    /// The whole experiment, instead of the plan's; 60 s without a plan
    #[arg(short = 't', long = "for", alias = "duration", value_name = "TIME", value_parser = parse_duration)]
    duration: Option<Nanos>,
    /// Seed of the random order; a new one each time if not given
    #[arg(long, value_name = "N", value_parser = whole::<u64>)]
    seed: Option<u64>,
    /// Begin anew, though a part was measured before
    #[arg(long)]
    restart: bool,
    #[command(flatten)]
    keep: Keep,
    #[command(flatten)]
    output: Output,
}

impl Sweep {
    /// Measures, and prints the effects.
    pub fn run(mut self) -> Result<ExitCode, Failure> {
        if self.list {
            self.output.print(&list()?)?;
            return Ok(ExitCode::SUCCESS);
        }
        let plan = self.words()?;
        let plan = match &plan {
            None if self.show => return Err(Failure::usage("--show prints a plan: name it (hairpin sweep --list)")),
            Some(name) if self.show => {
                // Without a form, the plan is printed as a file to start from.
                let text = text_of(name)?;
                match self.output.is_asked() {
                    true => self.output.print(&Plans::new(vec![row(&SweepPlan::parse(name, &text).map_err(Failure::usage)?)]))?,
                    false => print(&text)?,
                }
                return Ok(ExitCode::SUCCESS);
            }
            Some(name) => SweepPlan::parse(name, &text_of(name)?).map_err(Failure::usage)?,
            None => {
                self.lead()?;
                self.plan_of_flags()?
            }
        };
        let target = self.target(&plan)?;
        let plan = plan.without_missing(|setting| knobs::missing(&target, setting));
        let ask = Ask {
            template: self.template(&target)?,
            duration: self.duration.map(Duration::from),
            target: Some(target.clone()),
            seed: self.seed.map_or_else(cookie, Ok)?,
            restart: self.restart,
            code: code(),
            command: line::typed(),
            plan,
        };
        // Rounds are kept for a resume, which takes a store.
        let store = (!self.keep.no_store).then(open_store).transpose()?;
        let mut progress = Turns::new(None);
        let settings = ask.plan.all_settings().map_err(Failure::usage)?;
        let of: Vec<_> = settings.into_iter().map(|settings| (&target, settings)).collect();
        let changes = knobs::confirmed(&of, self.yes)?;
        let signals = signals()?;
        let mut knobs = knobs::begin(changes)?;
        let switch: &mut dyn Switch = match &mut knobs {
            Some(knobs) => knobs,
            None => &mut NoSwitch,
        };
        let found = sweep::run(ask, store.as_ref().map(Store::dir), &signals, switch, &mut progress);
        let left = knobs.map_or(Ok(()), Knobs::restore).map_err(Failure::failed);
        progress.clear();
        let (record, finish) = match found {
            Ok(found) => found,
            Err(error) => {
                let why = match error {
                    SweepError::Plan(error) => Failure::usage(error),
                    SweepError::Ping(error) => error.into(),
                    SweepError::Kept(error @ (SavedSweepError::File { .. } | SavedSweepError::Busy)) => Failure::failed(error),
                };
                return both(Err(why), left);
            }
        };
        if let Err(why) = self.keep.after(self.output.print(&record), &record) {
            return both(Err(why), left);
        }
        if finish.done() {
            say("hairpin: the rounds so far are kept: the same command goes on after them, --restart starts again");
        }
        left?;
        Ok(record.head.error.map_or(ExitCode::SUCCESS, |error| Failure::failed(error).report()))
    }

    /// Takes the words apart: the plan is returned, and the place kept with the flags.
    fn words(&mut self) -> Result<Option<String>, Failure> {
        if let Some(Asked::Bytes(_)) = self.request {
            return Err(Failure::usage(
                "the payloads of a sweep are --sizes, and --request is what to ask a server that is there",
            ));
        }
        let (mut plan, mut places) = (None, Vec::new());
        let is_plan = |word: &str| {
            let is_file = word.ends_with(".toml") || word.contains('/');
            PLANS.iter().any(|(name, _)| name == word) || (is_file && !LinkSpec::is_named(word) && !word.starts_with("echo:"))
        };
        for word in std::mem::take(&mut self.plan) {
            match word.parse() {
                _ if is_plan(&word) => {
                    if let Some(first) = plan.replace(word) {
                        return Err(Failure::usage(format_args!("one plan at a time: {first} first")));
                    }
                }
                Ok(Place::Link(link)) => {
                    self.link = Some(link);
                    places.push(word);
                }
                _ if word.parse::<Spec>().is_ok() => {
                    return Err(Failure::usage(format_args!("paths of a sweep are flags: --path {word} (-p)")));
                }
                Ok(Place::Host(host)) if plan.is_some() || !self.paths.is_empty() => {
                    self.host = Some(host);
                    places.push(word);
                }
                Ok(Place::Host(_)) => plan = Some(word),
                Ok(Place::Echo(service)) if self.request.is_some() => {
                    self.echo = Some(service);
                    places.push(word);
                }
                Ok(_) => {
                    return Err(Failure::usage(format_args!(
                        "a sweep goes to a HOST on which hairpin serve runs, over loopback or veth, or with --request to echo:HOST:PORT, not to {word}"
                    )));
                }
                Err(why) => return Err(Failure::usage(why)),
            }
        }
        if places.len() + usize::from(line::was_given("link")) + usize::from(line::was_given("host")) > 1 {
            return Err(Failure::usage(format_args!(
                "a sweep goes to one place: {} is one too many",
                places.last().map_or("--link", String::as_str)
            )));
        }
        if self.key_file.is_some() && self.host.is_none() {
            return Err(Failure::usage("--key-file belongs to a HOST on which `hairpin serve` runs"));
        }
        if self.show && !places.is_empty() {
            return Err(Failure::usage("--show prints the plan as it is: leave the place out"));
        }
        let of_flags = ["paths", "sizes", "vary", "knobs", "design"].into_iter().find(|id| line::was_given(id));
        match (&plan, of_flags) {
            (Some(name), Some(id)) => {
                let flag = match id {
                    "paths" => "--path",
                    "knobs" => "--knob",
                    "sizes" => "--sizes",
                    "vary" => "--vary",
                    _ => "--design",
                };
                Err(Failure::usage(format_args!(
                    "the plan {name} says what is varied, so {flag} cannot be used with it; to change it: hairpin sweep {name} --show"
                )))
            }
            _ => Ok(plan),
        }
    }

    /// The target: from the words or flags, else from the plan.
    fn target(&mut self, plan: &SweepPlan) -> Result<Target, Failure> {
        if let Some(service) = self.echo.take() {
            return self.server(service);
        }
        if let Some(HostPort { host, port }) = self.host.take() {
            let key = self.key_file.as_deref().map(load_key).transpose()?;
            return Ok(Target::Host { host, port: port.unwrap_or(PORT), key });
        }
        Ok(Target::Link(self.link.take().map_or_else(|| plan.link(), Ok).map_err(Failure::usage)?))
    }

    /// The server that is asked.
    fn server(&self, service: Service) -> Result<Target, Failure> {
        let to = Where { host: Some(Place::Echo(service)), link: None, netns: None, echo: None, reflector: false };
        to.target(None, Mirror { interface: None, rewrite: None, dst_mac: None }, &self.work()?)
    }

    /// Chooses the path to the server that is asked, if the user named none.
    fn lead(&mut self) -> Result<(), Failure> {
        if let Some(service) = self.echo.clone() {
            let target = self.server(service)?;
            let mut work = WorkFlags { paths: self.paths.clone(), ..self.work()? };
            work.lead_to(&target);
            self.paths = work.paths;
        }
        Ok(())
    }

    /// The plan whose factors are the flags with several values.
    fn plan_of_flags(&self) -> Result<SweepPlan, Failure> {
        let Some(first) = self.paths.first() else {
            return Err(Failure::usage(
                "say what to sweep: a plan (hairpin sweep --list), a FILE.toml, or --path with --sizes, --vary or more --path",
            ));
        };
        let plain = |values: Vec<String>| values.into_iter().map(Level::Plain).collect::<Vec<_>>();
        let mut factors = Vec::new();
        let mut path = first.to_string();
        if self.paths.len() > 1 {
            let named = |spec: &Spec| {
                let value = spec.to_string();
                Level::Named { name: hairpin_report::short_path(&value), value }
            };
            factors.push(Factor::new("path", self.paths.iter().map(named).collect()));
            path = "{path}".into();
        }
        let mut size = None;
        if let Some(Sizes(sizes)) = &self.sizes {
            size = Some(match &sizes[..] {
                [one] => one.to_string(),
                _ => {
                    factors.push(Factor::new("payload", plain(sizes.iter().map(u32::to_string).collect())));
                    "{payload}".into()
                }
            });
        }
        let (mut flows, mut outstanding, mut bulk, mut options) = (None, None, None, String::new());
        for factor in &self.vary {
            let value = format!("{{{}}}", factor.name);
            match factor.name.as_str() {
                "flows" => flows = Some(value),
                "outstanding" => outstanding = Some(value),
                "bulk" => bulk = Some(value),
                "path" | "payload" => return Err(Failure::usage("paths are varied by several --path, payloads by --sizes")),
                name => options.push_str(&format!(",{name}={value}")),
            }
            factors.push(factor.clone());
        }
        factors.extend(self.knobs.iter().cloned());
        if !options.is_empty() {
            // An option applies to both sides; in a canonical spec each side has it.
            path = path.split('/').map(|side| format!("{side}{options}")).collect::<Vec<_>>().join("/");
            if self.paths.len() > 1 {
                let sides =
                    |level: &Level| Level::Named { name: level.name().into(), value: hairpin_report::short_path(level.name()) };
                if let Some(paths) = factors.iter_mut().find(|factor| factor.name == "path") {
                    if paths.levels.iter().any(|level| level.name().contains('/')) {
                        return Err(Failure::usage(
                            "an option is varied on paths whose two sides are alike: write a plan for others",
                        ));
                    }
                    paths.levels = paths.levels.iter().map(sides).collect();
                }
            }
        }
        let plan = SweepPlan {
            name: "flags".into(),
            title: String::new(),
            link: None,
            duration: None,
            design: self.design.unwrap_or_default(),
            path,
            size,
            request: None,
            reply: None,
            flows,
            outstanding,
            bulk,
            loss_free_frame: None,
            knobs: self.knobs.iter().map(|factor| format!("{0}={{{0}}}", factor.name)).collect(),
            left_out: Vec::new(),
            factors,
        };
        plan.check().map_err(Failure::usage)?;
        Ok(plan)
    }
}

fn text_of(name: &str) -> Result<String, Failure> {
    if let Some((_, text)) = PLANS.iter().find(|(known, _)| known == name) {
        return Ok(text.clone());
    }
    if !name.contains(['.', '/']) {
        return Err(sweep::shipped(name).map_or_else(Failure::usage, |_| Failure::usage(name)));
    }
    fs::read_to_string(Path::new(name)).map_err(|error| Failure::usage(format_args!("cannot read the plan {name}: {error}")))
}

fn list() -> Result<Plans, Failure> {
    let plan = |(name, _): &(String, String)| sweep::shipped(name).map(|plan| row(&plan)).map_err(Failure::failed);
    Ok(Plans::new(PLANS.iter().map(plan).collect::<Result<_, _>>()?))
}

fn row(plan: &SweepPlan) -> PlanRow {
    let levels = |factor: &Factor| factor.levels.iter().map(|level| level.name().to_owned()).collect();
    let SweepPlan { name, title, link, duration, path, .. } = plan.clone();
    let factors = plan.factors.iter().map(|factor| PlanFactor { name: factor.name.clone(), levels: levels(factor) });
    let published = (name == "busy-poll").then(|| &published().busy_poll_sockets);
    PlanRow { name, title, link, duration, path, factors: factors.collect(), published }
}

impl Sweep {
    /// The work with the defaults of `hairpin ping`, and the request if there is one.
    fn work(&self) -> Result<WorkFlags, Failure> {
        #[derive(clap::Parser)]
        struct Defaults {
            #[command(flatten)]
            work: WorkFlags,
        }
        let Defaults { work } =
            <Defaults as clap::Parser>::try_parse_from(["sweep", "--path", UDP.name]).map_err(Failure::failed)?;
        Ok(WorkFlags { request: self.request.clone(), reply: self.reply.clone(), tls: self.tls.clone(), ..work })
    }

    /// A job with these flags; a plan sets the rest.
    fn template(&self, target: &Target) -> Result<Job, Failure> {
        let mut jobs = self.work()?.jobs(true, target, false)?;
        jobs.pop().ok_or_else(|| Failure::failed("there is no default job"))
    }
}

/// Parses `quickack=on,off`.
fn vary(text: &str) -> Result<Factor, String> {
    let bad = || format!("\"{text}\" varies nothing: write NAME=A,B, such as flows=1,4 or quickack=on,off");
    let (name, values) = text.split_once('=').ok_or_else(bad)?;
    let levels: Vec<Level> = values.split(',').map(|value| Level::Plain(value.trim().into())).collect();
    let empty = levels.iter().any(|level| level.name().is_empty());
    if name.is_empty() || levels.len() < 2 || empty { Err(bad()) } else { Ok(Factor::new(name, levels)) }
}

fn design(text: &str) -> Result<Shape, String> {
    match text {
        "factorial" => Ok(Shape::Factorial),
        "one-at-a-time" => Ok(Shape::OneAtATime),
        _ => Err(format!("\"{text}\" is not a design: write factorial or one-at-a-time")),
    }
}

impl SweepWatcher for Turns {
    fn resumes(&mut self, rounds: u32) {
        say(format_args!("hairpin: going on after {rounds} rounds that were measured before (--restart starts again)"));
    }
}
