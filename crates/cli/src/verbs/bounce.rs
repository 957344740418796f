//! `hairpin bounce`.

use std::process::ExitCode;

use clap::Args;
use hairpin_lab::bounce::group::GroupPlan;
use hairpin_lab::bounce::lifeline::{addresses_of, cut_off};
use hairpin_lab::bounce::{self, BounceError, BouncePlan, BounceWatcher};
use hairpin_packet::bounce::{REPEATS, Rewrite};
use hairpin_packet::filter::Filter;
use hairpin_plan::job::group::Group;
use hairpin_plan::paths::UDP;
use hairpin_plan::spec::Spec;
use hairpin_record::bounce::BounceSecond;
use hairpin_record::frames::Rings;
use hairpin_session::io::{BackEndName, IoSpec};
use hairpin_session::link::namespace_file;
use hairpin_session::message::Flush;
use hairpin_sys::host::RealHost;
use hairpin_sys::netns;
use hairpin_sys::signal::Signals;
use hairpin_units::{Nanos, parse_duration, parse_number};

use crate::exit::{Failure, note, say};
use crate::flags::{interface_exists, whole};
use crate::line;
use crate::output::{Format, Keep, Output, formats, options, print, print_live};
use crate::verbs::ping::signals;

/// Send every frame back as soon as it arrives
#[derive(Debug, Args)]
#[command(mut_arg("format", |arg| arg.short(None).value_parser(formats(|form| form == Format::JsonStream))))]
pub struct Bounce {
    /// The interface
    #[arg(value_name = "IF", required_unless_present_any = ["interface", "group"], conflicts_with = "interface")]
    on: Option<String>,
    /// The same as IF
    #[arg(short = 'i', long, value_name = "IF", hide = true)]
    interface: Option<String>,
    /// Answer the requests of `hairpin ping --group` to this multicast group instead, over udp: each goes back to its sender
    /// alone
    #[arg(long, value_name = "ADDR[%IF][:PORT]", conflicts_with_all = ["on", "interface", "out_of", "queue", "filter", "rewrite", "flush", "repeats", "verify"])]
    group: Option<Group>,
    /// The network namespace in which the interface is: a name in /run/netns, a path, or the number of a process
    #[arg(long, value_name = "NAMESPACE")]
    netns: Option<String>,
    /// Send out of this interface instead, on its queue 0. `-o` before the name of a form, such as json, is --format
    #[arg(short = 'o', long = "output", value_name = "IF2")]
    out_of: Option<String>,
    /// Path to receive and send on.
    #[arg(
        short = 'p',
        long = "path",
        alias = "io",
        value_name = "SPEC",
        help = "Path to receive and send on: xdp|packet[:spin|busy-poll|block|adaptive][,OPTION=VALUE…]; default xdp:spin where it opens, else packet:spin; with --group udp"
    )]
    io: Option<Over>,
    /// The CPU; the second that is allowed if not given
    #[arg(long, value_name = "N", value_parser = whole::<u32>)]
    cpu: Option<u32>,
    /// The queue
    #[arg(long, value_name = "Q", value_parser = whole::<u32>, default_value_t = 0)]
    queue: u32,
    /// Frames to bounce; all others go to the host as before
    #[arg(long, value_name = "udp:PORT|udp:A-B|ethertype:X|all", default_value = "ethertype:0x88b5")]
    filter: Filter,
    /// Part of a frame to swap: nothing, the MAC addresses, or IP addresses and ports as well
    #[arg(long, value_name = "none|macs|all", default_value = "macs")]
    rewrite: Rewrite,
    /// When to hand frames to the kernel: each at once, after N or when no more is there, or adapted to the
    /// rate
    #[arg(long, value_name = "each|N|adaptive", default_value = "adaptive")]
    flush: Flush,
    /// Limit on identical frames in quick succession, and again each second. It keeps two bouncers from
    /// storming
    #[arg(long, value_name = "N|off", value_parser = repeats, default_value_t = Repeats(Some(REPEATS)))]
    repeats: Repeats,
    /// Count frames with a wrong IPv4 or UDP checksum
    #[arg(long)]
    verify: bool,
    /// Duration; until Ctrl-C if not given
    #[arg(short = 't', long, value_name = "TIME", value_parser = parse_duration)]
    duration: Option<Nanos>,
    /// Bounce even the traffic that this host depends on
    #[arg(long)]
    yes: bool,
    /// A line of JSON per second (hairpin.bounce-second/1), and the whole as the last (hairpin.bounce/1); the same as --format
    /// jsonl
    #[arg(long, group = "form", hide = true)]
    json_stream: bool,
    #[command(flatten)]
    keep: Keep,
    #[command(flatten)]
    output: Output,
}

impl Bounce {
    /// Bounces until it is stopped, then prints the totals.
    pub fn run(self) -> Result<ExitCode, Failure> {
        if let Some(name) = &self.netns {
            netns::join_network_at(&namespace_file(name)).map_err(Failure::missing)?;
        }
        let signals = signals()?;
        if let Some(group) = self.group.clone() {
            return self.answer(group, &signals);
        }
        let io = match self.io {
            Some(Over::Datagrams(spec)) => {
                return Err(Failure::usage(format_args!("{} answers a group: say which, with --group ADDR", spec.server)));
            }
            Some(Over::Frames(io)) => vec![io],
            None => BackEndName::ALL.map(IoSpec::from).into(),
        };
        let interface = self.on.as_deref().map(|on| on.strip_prefix("frames:").unwrap_or(on)).or(self.interface.as_deref());
        let interface = interface.unwrap_or_default().to_owned();
        for interface in [Some(&interface), self.out_of.as_ref()].into_iter().flatten() {
            interface_exists(interface)?;
        }
        if !self.yes {
            refuse_to_cut_off(&interface, self.filter)?;
        }
        let output = self.output;
        let json_stream = self.json_stream || output.form() == Format::JsonStream;
        let mut progress = BounceProgress { json_stream, table: !json_stream && output.form() == Format::Table };
        let plan = BouncePlan {
            io,
            interface,
            output: self.out_of,
            queue: self.queue,
            cpu: self.cpu,
            filter: self.filter,
            rewrite: self.rewrite,
            flush: self.flush,
            verify: self.verify,
            repeats: self.repeats.0,
            duration: self.duration,
            command: line::typed(),
        };
        let bounce = bounce::run(&plan, &signals, &mut progress)?;
        let printed = match (json_stream, progress.table) {
            (true, _) => print(&hairpin_report::json_line(&bounce)),
            (_, true) => print("\n").and_then(|()| output.print(&bounce)),
            _ => output.print(&bounce),
        };
        self.keep.after(printed, &bounce)?;
        Ok(bounce.head.error.map_or(ExitCode::SUCCESS, |error| Failure::failed(error).report()))
    }

    /// Answers a group until it is stopped, then prints the totals.
    fn answer(self, group: Group, signals: &Signals) -> Result<ExitCode, Failure> {
        if let Some(name) = &group.interface {
            interface_exists(name)?;
        }
        let spec = match self.io {
            Some(Over::Datagrams(spec)) => spec,
            Some(Over::Frames(io)) => {
                return Err(Failure::usage(format_args!("a group is answered over sockets, such as udp:spin, not over {io}")));
            }
            None => UDP.name.parse().map_err(Failure::usage)?,
        };
        let plan = GroupPlan { group, spec, cpu: self.cpu, duration: self.duration, command: line::typed() };
        let said = format!("hairpin answers the group {} over {}; Ctrl-C ends it", plan.group, plan.spec.server);
        let bounce = bounce::group::run(&plan, signals, || note(&said))?;
        let printed = match self.json_stream || self.output.form() == Format::JsonStream {
            true => print(&hairpin_report::json_line(&bounce)),
            false => self.output.print(&bounce),
        };
        self.keep.after(printed, &bounce)?;
        Ok(bounce.head.error.map_or(ExitCode::SUCCESS, |error| Failure::failed(error).report()))
    }
}

fn refuse_to_cut_off(interface: &str, filter: Filter) -> Result<(), Failure> {
    let ssh = std::env::var("SSH_CONNECTION").ok();
    match cut_off(&RealHost, interface, &addresses_of, filter, ssh.as_deref()) {
        Some(what) => Err(Failure::usage(format_args!(
            "--filter {filter} on {interface} would send back the frames of {what} and cut it off: choose a narrower --filter, such as udp:PORT, or say --yes"
        ))),
        None => Ok(()),
    }
}

/// Frames or datagrams.
#[derive(Clone, Debug)]
enum Over {
    Frames(IoSpec),
    /// Sockets, for a group.
    Datagrams(Spec),
}

impl std::str::FromStr for Over {
    type Err = String;

    fn from_str(text: &str) -> Result<Over, String> {
        match text.parse::<Spec>() {
            Ok(spec) if spec.server.path.takes_group => Ok(Over::Datagrams(spec)),
            _ => text.parse().map(Over::Frames).map_err(|error: <IoSpec as std::str::FromStr>::Err| error.to_string()),
        }
    }
}

impl From<BounceError> for Failure {
    fn from(error: BounceError) -> Failure {
        Failure::blamed(&error, error.blame())
    }
}

/// A limit on repeats, or none.
#[derive(Clone, Copy, Debug)]
struct Repeats(Option<u32>);

impl std::fmt::Display for Repeats {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(limit) => write!(f, "{limit}"),
            None => f.write_str("off"),
        }
    }
}

fn repeats(text: &str) -> Result<Repeats, String> {
    if text == "off" {
        return Ok(Repeats(None));
    }
    let limit = parse_number(text).ok().and_then(|limit| limit.try_into().ok()).filter(|limit| (1..=1_000_000).contains(limit));
    limit.map(|limit| Repeats(Some(limit))).ok_or_else(|| format!("\"{text}\" is not a limit: write 1 to 1000000, or off"))
}

/// Prints a line per second.
struct BounceProgress {
    json_stream: bool,
    table: bool,
}

impl BounceWatcher for BounceProgress {
    fn opened(&mut self, io: &IoSpec, rings: &Rings, passed_over: &[String]) {
        for why in passed_over {
            say(format_args!("hairpin: not {why}"));
        }
        note(format_args!("hairpin bounces {io} on {}; Ctrl-C ends it", hairpin_report::rings_words(rings)));
        if self.table {
            print_live(&hairpin_report::bounce_heading(&options()), || ());
        }
    }

    fn second(&mut self, second: &BounceSecond) {
        match (self.json_stream, self.table) {
            (true, _) => print_live(&hairpin_report::json_line(second), || ()),
            (_, true) => print_live(&hairpin_report::bounce_line(second), || ()),
            _ => {}
        }
    }
}
