//! A side of a comparison: its own words, appended to those before the first `--`.

use std::path::PathBuf;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{Arg, Args, CommandFactory, FromArgMatches, Parser};
use hairpin_lab::experiment::Arm;
use hairpin_plan::job::Job;
use hairpin_plan::spec::Spec;
use hairpin_session::floor;
use hairpin_session::link::{LinkSpec, Namespaces};
use hairpin_session::plan::Target;
use hairpin_tune::Setting;

use super::How;
use crate::exit::Failure;
use crate::faults;
use crate::flags::{WorkFlags, stack};
use crate::line;
use crate::place::{Mirror, Place, Service, Where, ipv6_has_effect};
use crate::wire::Declared;

/// The answer to --warmup.
pub(super) const WARMUP: &str =
    "--warmup has no effect on a comparison: its blocks choose their own warm-up, which the record holds";

/// Flags allowed on a side: peer and work.
#[derive(Debug, Args)]
#[command(
    mut_arg("duration", whole_first),
    mut_arg("warmup", |arg| arg.hide(true)),
    // --until is the experiment's own.
    mut_arg("reply", |arg| arg.visible_alias(None)),
)]
pub(super) struct Side {
    /// Where to, loopback if not given: a host on which `hairpin serve` runs, loopback, veth[:…]; paths to compare (udp:spin
    /// tcp:spin); two stored runs (latest -2), of either several, with commas; or `placements`: the pairs of this host's CPUs
    #[arg(value_name = "HOST[:PORT]|RUN|placements", num_args = 0..=2)]
    pub(super) words: Vec<String>,
    /// The same as loopback or veth[:…]
    #[arg(long, value_name = "LINK", hide = true)]
    pub(super) link: Option<LinkSpec>,
    /// The same as netns:A,B
    #[arg(long, value_name = "A,B", hide = true)]
    pub(super) netns: Option<Namespaces>,
    /// The same as echo:HOST:PORT
    #[arg(long, value_name = "HOST:PORT|/SOCKET", hide = true)]
    pub(super) echo: Option<Service>,
    /// With -i IF the same as frames:IF
    #[arg(long, requires = "interface", hide = true)]
    pub(super) reflector: bool,
    #[command(flatten)]
    mirror: Mirror,
    /// The key that `hairpin serve` printed, in a file
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// IPv6 on loopback and veth
    #[arg(short = '6', long)]
    pub(super) ipv6: bool,
    /// A library that takes the place of the kernel's sockets in this side's worker processes on this host (LD_PRELOAD): Onload,
    /// libxlio, libvma
    #[arg(long, value_name = "LIBRARY")]
    pub(super) stack: Option<PathBuf>,
    /// A setting of this host while this side is measured; repeatable (see `hairpin tune list`)
    #[arg(long = "knob", value_name = "NAME=VALUE")]
    pub(super) knobs: Vec<Setting>,
    #[command(flatten)]
    pub(super) work: WorkFlags,
    #[command(flatten)]
    declared: Declared,
}

/// A side with the flags before the first `--`; the last of repeated flags wins.
#[derive(Debug, Parser)]
#[command(name = "hairpin compare", args_override_self = true, disable_help_flag = true)]
struct Whole {
    #[command(flatten)]
    _how: How,
    #[command(flatten)]
    side: Side,
}

/// The flags that a side may have of its own.
#[derive(Debug, Parser)]
#[command(name = "hairpin compare", args_override_self = true, disable_help_flag = true)]
struct Own {
    #[command(flatten)]
    _side: Side,
}

/// A flag among these words, which are a side's own, that is of the whole comparison.
fn of_the_whole(own: &[String]) -> Option<String> {
    let words = || std::iter::once("hairpin compare").chain(own.iter().map(String::as_str));
    let timed = Own::command().ignore_errors(true).try_get_matches_from(words()).ok();
    if timed.is_some_and(|matches| matches.value_source("duration") == Some(ValueSource::CommandLine)) {
        return Some("--for".into());
    }
    let error = Own::command().try_get_matches_from(words()).err().filter(|error| error.kind() == ErrorKind::UnknownArgument)?;
    match error.get(ContextKind::InvalidArg)? {
        ContextValue::String(name) => Some(name.clone()),
        _ => None,
    }
}

/// The words of each side.
pub(super) fn split(words: &[String]) -> Vec<Vec<String>> {
    if words.is_empty() {
        return Vec::new();
    }
    words.split(|word| word == "--").map(<[String]>::to_vec).collect()
}

/// The words of the command line between the verb and the first `--`.
pub(super) fn before_the_sides() -> Vec<String> {
    line::words().into_iter().skip(1).take_while(|word| word != "--").collect()
}

/// Parses one side: the common flags, followed by its own.
pub(super) fn arm(common: &[String], own: &[String]) -> Result<(Arm, Vec<Setting>), Failure> {
    let given = own.join(" ");
    let mut words = vec!["hairpin compare".to_owned()];
    words.extend(common.iter().cloned());
    // A side may begin with a path spec, or with a place if the path is given elsewhere.
    let of_path = |word: &String| word == "-p" || word == "--path" || word.starts_with("--path=") || is_joined_path(word);
    let with_path = common.iter().chain(own).any(of_path);
    let is_spec = |word: &String| {
        let is_link = matches!(word.parse(), Ok(Place::Link(_) | Place::Echo(_) | Place::Frames(_)));
        word.parse::<Spec>().is_ok() || !(word.starts_with('-') || is_link || with_path)
    };
    if own.first().is_some_and(is_spec) {
        words.push("--path".into());
    }
    words.extend(own.iter().cloned());
    let parse = |words: &[String]| {
        let parsed = Whole::command().try_get_matches_from(words);
        parsed.and_then(|matches| Ok((Whole::from_arg_matches(&matches)?, matches)))
    };
    let (whole, matches) = parse(&words).map_err(|error| {
        let of_clap = || error.render().to_string().lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned();
        let line = faults::line(&Whole::command(), &error).unwrap_or_else(of_clap);
        Failure::usage(format_args!("the side \"{given}\": {line}"))
    })?;
    if matches.value_source("warmup") == Some(ValueSource::CommandLine) {
        return Err(Failure::usage(WARMUP));
    }
    if let Some(flag) = of_the_whole(&words[common.len() + 1..]) {
        let why = format!("{flag} is of the whole comparison: write it before the first --");
        return Err(Failure::usage(format_args!("the side \"{given}\": {why}")));
    }
    // There may be one word for all sides, and one more for this side.
    let of_all = parse(&words[..=common.len()]).map_or(0, |(whole, _)| whole.side.words.len());
    if whole.side.words.len() > of_all + 1 || of_all > 1 {
        return Err(Failure::usage(format_args!("the side \"{given}\" has two places to go: {}", whole.side.words.join(", "))));
    }
    let settings = whole.side.knobs.clone();
    Ok((whole.side.arm(given)?, settings))
}

/// True for `-pudp`.
fn is_joined_path(word: &str) -> bool {
    word.strip_prefix("-p").is_some_and(|spec| spec.parse::<Spec>().is_ok())
}

impl Side {
    /// The side as an arm of the experiment; `given` is its text.
    pub(super) fn arm(mut self, given: String) -> Result<Arm, Failure> {
        let ipv6 = self.ipv6;
        let declared = self.declared.is_any().then(|| {
            let link = self.declared.link();
            self.declared.nic().map(|nic| floor::Declared { nic, link })
        });
        let floor = declared.transpose()?;
        let declared = std::mem::take(&mut self.declared);
        let stack = stack(self.stack.as_deref())?;
        let (target, job) = self.job_and_target()?;
        declared.check(&target)?;
        ipv6_has_effect(ipv6, std::slice::from_ref(&job))?;
        Ok(Arm { given, target, ipv6, stack, job, floor, bulk: 0 })
    }

    /// The side's target and job.
    pub(super) fn job_and_target(mut self) -> Result<(Target, Job), Failure> {
        if self.work.sizes.is_some() || self.work.count.is_some() || self.work.forever {
            return Err(Failure::usage(
                "a side has one size and the experiment one duration: leave out --sizes, --count and --forever",
            ));
        }
        // The last `--path` wins.
        self.work.paths = self.work.paths.pop().into_iter().collect();
        let places = [!self.words.is_empty(), self.link.is_some(), self.netns.is_some(), self.echo.is_some(), self.reflector];
        if places.iter().filter(|place| **place).count() > 1 {
            return Err(Failure::usage(
                "a side has one place to go: HOST[:PORT], loopback, veth, netns:A,B, echo:HOST:PORT or frames:IF",
            ));
        }
        if places.iter().all(|place| !place) {
            self.link = Some(LinkSpec::Loopback);
        }
        let host = self.words.pop().map(|word| word.parse()).transpose().map_err(Failure::usage)?;
        let to = Where { host, link: self.link, netns: self.netns, echo: self.echo, reflector: self.reflector };
        let target = to.target(self.key_file, self.mirror, &self.work)?;
        self.work.lead_to(&target);
        if self.work.paths.is_empty() {
            return Err(Failure::usage(
                "a side takes a path: write it first, such as -- udp:spin, or before the sides as --path SPEC",
            ));
        }
        let job = self.work.jobs(true, &target, false)?.pop().ok_or_else(|| Failure::usage("a side takes a path"))?;
        Ok((target, job))
    }
}

/// `--for` is the whole of an experiment; `--duration` is its old name.
pub fn whole_first(arg: Arg) -> Arg {
    arg.long("for").alias("duration").help("Time of the whole experiment; the blocks choose their own")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn sides_are_parted_at_each_pair_of_dashes() {
        assert_eq!(split(&words("udp:spin -- --size 64 -- tcp")), [words("udp:spin"), words("--size 64"), words("tcp")]);
        assert!(split(&[]).is_empty());
    }

    #[test]
    fn flags_of_the_whole_are_no_sides_own() {
        let flag = |text| of_the_whole(&words(text));
        assert_eq!(
            [flag("udp --for 5s"), flag("-t 5s"), flag("--size 64 --json")].map(Option::unwrap),
            ["--for", "--for", "--json"]
        );
        assert_eq!([flag("udp:spin --size 64 --knob cpu_dma_latency_us=0"), flag("--reflector")], [None, None]);
    }

    #[test]
    fn a_side_adds_to_the_common_flags_and_overrides_them() {
        let common = words("--link veth --path tcp --size 64 --seed 7");
        let (one, _) = arm(&common, &words("--size 1024")).unwrap();
        assert_eq!((one.job.spec.to_string().as_str(), one.job.request), ("tcp:block/tcp:block", 1024));
        let (other, settings) = arm(&common, &words("udp:spin --link loopback --knob cpu_dma_latency_us=0")).unwrap();
        assert_eq!(settings.iter().map(ToString::to_string).collect::<Vec<_>>(), ["cpu_dma_latency_us=0"]);
        assert_eq!((other.job.spec.to_string().as_str(), other.job.request), ("udp:spin/udp:spin", 64));
        assert_eq!(other.target, Target::Link(LinkSpec::Loopback));
        assert!(arm(&common, &words("--sizes 1,2")).is_err());
        assert!(arm(&words("--link veth"), &words("--size 4")).is_err(), "no path");
        assert!(arm(&words("--link veth"), &words("udp host")).is_err(), "two places");
        assert!(arm(&words("veth"), &words("udp one two")).is_err(), "two of its own");
    }

    /// The sides of a command line as it is typed, each as its path and its target.
    fn sides(line: &str) -> Result<Vec<(String, Target)>, String> {
        let mut command = crate::parse::command();
        command.build();
        let typed = line.split_whitespace().map(Into::into).collect();
        let typed = crate::parse::rewritten(&command, typed).map_err(|failure| format!("{failure:?}"))?;
        let typed: Vec<String> = typed.into_iter().map(|word| word.into_string().unwrap()).skip(2).collect();
        let at = typed.iter().position(|word| word == "--").ok_or("no sides")?;
        let arms = split(&typed[at + 1..]).into_iter().map(|side| arm(&typed[..at], &side));
        let arms = arms.collect::<Result<Vec<_>, _>>().map_err(|failure| format!("{failure:?}"))?;
        Ok(arms.into_iter().map(|(arm, _)| (hairpin_report::short_path(&arm.job.spec.to_string()), arm.target)).collect())
    }

    #[test]
    fn a_side_goes_where_it_says_and_else_over_loopback() {
        let link = |text: &str| Target::Link(text.parse().unwrap());
        for (line, one, other) in [
            ("-- udp:block -- udp:block --cpu 0,0", ("udp:block", "loopback"), ("udp:block", "loopback")),
            ("--for 1s -- udp -- tcp", ("udp:block", "loopback"), ("tcp:block", "loopback")),
            ("-p udp -- loopback -- veth", ("udp:block", "loopback"), ("udp:block", "veth")),
            ("loopback veth -p udp", ("udp:block", "loopback"), ("udp:block", "veth")),
            ("-- udp -- udp veth", ("udp:block", "loopback"), ("udp:block", "veth")),
            ("veth -- udp -- tcp loopback", ("udp:block", "veth"), ("tcp:block", "loopback")),
            ("udp:spin -- -s 64 -- -s 1k", ("udp:spin", "loopback"), ("udp:spin", "loopback")),
        ] {
            let of = |(path, to): (&str, &str)| (path.to_owned(), link(to));
            assert_eq!(sides(&format!("hairpin compare {line}")), Ok(vec![of(one), of(other)]), "{line}");
        }
        let refused = |line: &str| sides(&format!("hairpin compare {line}")).unwrap_err();
        assert!(refused("-- upd -- tcp").contains("did you mean udp?"));
        assert!(refused("udp tcp --warmup 2s").contains("--warmup has no effect"));
        assert!(refused("-- udp --warmup 2s -- tcp").contains("--warmup has no effect"));
        assert!(refused("-6 -- unix -- memory").contains("-6 has no effect on unix"));
        assert!(refused("udp tcp --cable twinax:3m").contains("nothing tells the rate"));
    }

    #[test]
    fn a_side_without_a_path_takes_that_of_its_request() {
        let asked = |line: &str| {
            let sides = sides(&format!("hairpin compare {line}")).unwrap();
            sides.into_iter().map(|(path, target)| match target {
                Target::Echo { host, port } => format!("{path} to {host}:{port}"),
                Target::Socket(socket) => format!("{path} to {}", socket.display()),
                other => panic!("{other:?}"),
            })
        };
        for (line, one, other) in [
            ("--request postgres-ssl-request -- echo:a -- echo:b:7", "tcp-crr:block to a:5432", "tcp-crr:block to b:7"),
            ("echo:a echo:b --request postgres-ssl-request", "tcp-crr:block to a:5432", "tcp-crr:block to b:5432"),
            ("--request redis-ping -- echo:a -- tcp:spin echo:a", "tcp:block to a:6379", "tcp:spin to a:6379"),
            ("--request redis-ping -- echo:/run/a -- echo:a", "unix:block to /run/a", "tcp:block to a:6379"),
        ] {
            assert!(asked(line).eq([one, other]), "{line}: {:?}", asked(line).collect::<Vec<_>>());
        }
    }

    #[test]
    fn the_guides_two_hosts_are_two_sides() {
        let guide = include_str!("../../../../../docs/howto/which-is-faster.md");
        let line = guide.lines().find(|line| line.contains("192.0.2.10")).unwrap().trim();
        let key = std::env::temp_dir().join(format!("hairpin-guide-{}.key", std::process::id()));
        std::fs::write(&key, "5".repeat(64)).unwrap();
        let found = sides(&line.replace("hairpin.key", key.to_str().unwrap()));
        std::fs::remove_file(&key).unwrap();
        let hosts = found.unwrap().into_iter().map(|(path, target)| match target {
            Target::Host { host, key, .. } => (path, host, key.is_some()),
            other => panic!("{other:?}"),
        });
        let side = |host: &str| ("udp:block".to_owned(), host.to_owned(), true);
        assert_eq!(hosts.collect::<Vec<_>>(), [side("192.0.2.10"), side("198.51.100.10")]);
    }
}
