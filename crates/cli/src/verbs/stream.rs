//! `hairpin stream`.

use std::process::ExitCode;
use std::time::Instant;

use clap::Args;
use hairpin_lab::stream::{self, Ask, StreamError, StreamPlan, StreamWatcher, Target};
use hairpin_plan::job::Sides;
use hairpin_record::stream::{Direction, Step};
use hairpin_report::live::{self, Going};
use hairpin_session::io::{BackEndName, IoPair};
use hairpin_session::link::LinkSpec;
use hairpin_session::message::{Medium, StreamCounts};
use hairpin_units::{Nanos, parse_decimal, parse_duration};

use crate::exit::{Failure, note, say};
use crate::flags::{Sizes, cookie, cpus, interface_exists, sizes, whole_in};
use crate::line;
use crate::output::{Keep, Output};
use crate::place::{HostPort, Place, mac};
use crate::progress::Lines;
use crate::verbs::ping::signals;

/// The Ethernet frame of a 1,500-byte packet in bytes, FCS not included.
const LONGEST: u32 = 1514;

/// Frames per second without loss, per packet io, direction and frame size
#[derive(Debug, Args)]
pub struct Stream {
    #[command(flatten)]
    to: Where,
    /// Path of both sides.
    #[arg(
        short = 'p',
        long = "path",
        alias = "io",
        value_name = "SPEC",
        help = "Path of both sides: xdp|packet[:spin|busy-poll|block|adaptive][,OPTION=VALUE…][/SERVER'S SIDE]; repeatable; default xdp:spin and packet:spin, as far as they open"
    )]
    io: Vec<IoPair>,
    /// Direction to count; repeatable; default all three
    #[arg(long, value_name = "WHAT", value_enum, value_delimiter = ',')]
    direction: Vec<What>,
    /// Frames in bytes without FCS, a row each; 64 and the longest of a 1500-byte MTU (or of the link's own) if not given
    #[arg(short = 's', long, value_name = "LIST", value_parser = sizes)]
    sizes: Option<Sizes>,
    /// Queues of each side, driven by a thread each as far as there are CPUs
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole_in(1..=64u32))]
    queues: u32,
    /// Offer this many frames per second, and search nothing
    #[arg(short = 'r', long, alias = "pace", value_name = "RATE", value_parser = rate)]
    rate: Option<f64>,
    /// Each trial: 500ms if not given; on an interface and with nothing to search, until Ctrl-C
    #[arg(short = 't', long, value_name = "TIME", value_parser = parse_duration)]
    duration: Option<Nanos>,
    /// The first CPU of each side, such as 2,3; the first that are allowed if not given
    #[arg(long, value_name = "CLIENT,SERVER", value_parser = cpus)]
    cpu: Option<Sides<Option<u32>>>,
    #[command(flatten)]
    keep: Keep,
    #[command(flatten)]
    output: Output,
}

/// The peer: exactly one.
#[derive(Debug, Args)]
pub struct Where {
    /// Both ends on this host: veth[:mtu=,queues=,gro=on|off,tso=on|off,rate=], two network namespaces made for the run; or an
    /// interface of this host, with another host behind it, which needs one --direction
    #[arg(value_name = "veth[:…]|IF", conflicts_with_all = ["link", "interface"])]
    place: Option<String>,
    /// The same as veth[:…]
    #[arg(long, value_name = "LINK", hide = true, conflicts_with_all = ["interface", "dst_mac"])]
    link: Option<LinkSpec>,
    /// The same as IF
    #[arg(short = 'i', long, value_name = "IF", hide = true)]
    interface: Option<String>,
    /// With an interface: the other host's Ethernet address, such as 02:00:00:00:00:02; not needed to receive
    #[arg(long, value_name = "MAC", value_parser = mac)]
    dst_mac: Option<[u8; 6]>,
}

impl Where {
    /// The link, or the interface.
    fn link_or_interface(&self) -> Result<(Option<LinkSpec>, Option<String>), Failure> {
        let Some(text) = &self.place else { return Ok((self.link.clone(), self.interface.clone())) };
        match text.parse() {
            Ok(Place::Link(link)) => Ok((Some(link), None)),
            Ok(Place::Frames(name)) => Ok((None, Some(name))),
            Ok(Place::Host(HostPort { port: Some(_), .. }) | Place::Echo(_) | Place::Port(_)) => {
                Err(Failure::usage(format_args!(
                    "stream sends frames and counts them, and {text} takes none: name veth, or the interface behind which the other host is"
                )))
            }
            Err(why) if LinkSpec::is_named(text) => Err(Failure::usage(why)),
            _ => Ok((None, Some(text.clone()))),
        }
    }
}

/// The direction that is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum What {
    /// Frames that this side sends
    Inject,
    /// Frames that the other side receives; on an interface, frames that this one receives
    Receive,
    /// Frames that the other side bounces and this one gets back
    Bounce,
}

impl Stream {
    /// Measures, and prints the rows.
    pub fn run(self) -> Result<ExitCode, Failure> {
        let signals = signals()?;
        let (output, keep) = (self.output, self.keep);
        let plan = self.plan()?;
        let mut progress = StreamProgress::new(matches!(plan.target, Target::Interface { .. }));
        let stream = stream::run(&plan, &signals, &mut progress);
        progress.clear();
        let stream = stream?;
        keep.after(output.print(&stream), &stream)?;
        Ok(stream.head.error.map_or(ExitCode::SUCCESS, |error| Failure::failed(error).report()))
    }

    fn plan(self) -> Result<StreamPlan, Failure> {
        let (target, mtu) = match self.to.link_or_interface()? {
            (Some(LinkSpec::Netns(_)), _) => {
                return Err(Failure::usage("between namespaces that exist others send too: name veth, or an interface"));
            }
            (Some(LinkSpec::Veth(link)), _) if link.medium != Medium::Veth => {
                return Err(Failure::usage(format_args!("stream counts frames on veth, not on {}", link.medium.name())));
            }
            (Some(LinkSpec::Veth(veth)), _) => {
                let mtu = veth.mtu;
                (Target::Veth(veth), mtu)
            }
            (Some(LinkSpec::Loopback), _) => {
                return Err(Failure::usage("loopback has no frames on a wire: use veth, two network namespaces of this host"));
            }
            (None, Some(name)) => {
                interface_exists(&name)?;
                (Target::Interface { name, to: self.to.dst_mac }, None)
            }
            (None, None) => return Err(Failure::usage("say where to: veth, or an interface with --dst-mac MAC")),
        };
        if self.to.dst_mac.is_some() && matches!(target, Target::Veth(_)) {
            return Err(Failure::usage("--dst-mac belongs to an interface: the ends of veth know each other"));
        }
        // The lowest bit of the first byte marks a group address (IEEE 802.3, 3.2.3).
        if self.to.dst_mac.is_some_and(|mac| mac[0] & 1 == 1) {
            return Err(Failure::usage(
                "--dst-mac is a group address: every host on the link would get the frames, and none returns them",
            ));
        }
        let directions = match (&target, self.direction.as_slice()) {
            (Target::Veth(_), []) => vec![What::Inject, What::Receive, What::Bounce],
            (Target::Interface { to, .. }, [one]) => {
                if to.is_none() && *one != What::Receive {
                    return Err(Failure::usage(
                        "say where frames go: --dst-mac MAC, the other host's Ethernet address (`ip link` shows it there)",
                    ));
                }
                vec![*one]
            }
            (Target::Interface { .. }, _) => {
                return Err(Failure::usage("with an interface say which one: --direction inject, receive or bounce"));
            }
            (_, all) => all.to_vec(),
        };
        let optional = self.io.is_empty();
        let io = match (optional, &target) {
            (false, _) => self.io,
            (true, Target::Veth(_)) => BackEndName::ALL.map(spin).into(),
            (true, Target::Interface { .. }) => vec![spin(BackEndName::Packet)],
        };
        let longest = mtu.map_or(LONGEST, |mtu| mtu.saturating_add(14));
        let sizes = match (self.sizes, &target) {
            (Some(Sizes(sizes)), _) => sizes,
            (None, Target::Interface { .. }) => vec![64],
            (None, Target::Veth(_)) => vec![64.min(longest), longest],
        };
        let mut rows = Vec::new();
        for io in &io {
            for direction in &directions {
                for bytes in &sizes {
                    let direction = match direction {
                        What::Inject => Direction::Inject,
                        What::Receive => Direction::Receive,
                        What::Bounce => Direction::Bounce,
                    };
                    rows.push(Ask { io: io.clone(), direction, bytes: (*bytes).into(), optional });
                }
            }
        }
        Ok(StreamPlan {
            target,
            rows,
            queues: self.queues,
            duration: self.duration,
            per_s: self.rate,
            cpus: self.cpu.unwrap_or_default(),
            cookie: cookie()?,
            command: line::typed(),
        })
    }
}

fn spin(back_end: BackEndName) -> IoPair {
    IoPair::same(back_end.into())
}

impl From<StreamError> for Failure {
    fn from(error: StreamError) -> Failure {
        Failure::blamed(&error, error.blame())
    }
}

/// Shows progress on a terminal, between trials; with -i, once a second on any stderr.
struct StreamProgress {
    live: Option<Lines>,
    lines: bool,
    before: StreamCounts,
    /// When the current row began, and its trials so far.
    since: Instant,
    trials: usize,
}

impl StreamProgress {
    fn new(lines: bool) -> StreamProgress {
        StreamProgress {
            live: if lines { None } else { Lines::on_terminal() },
            lines,
            before: StreamCounts::default(),
            since: Instant::now(),
            trials: 0,
        }
    }

    fn clear(&self) {
        if let Some(live) = &self.live {
            live.clear();
        }
    }

    /// How far a search is, by the number of trials that one usually takes.
    fn going(&self) -> Going {
        let share = self.trials as f64 / self.trials.max(TRIALS - 1).saturating_add(1) as f64;
        let left_s = (self.trials > 0).then(|| self.since.elapsed().as_secs_f64() * (1.0 / share - 1.0));
        Going { share: Some(share), left_s, ..Going::default() }
    }
}

/// Trials that the search of a row takes, more or less.
const TRIALS: usize = 16;

impl StreamWatcher for StreamProgress {
    fn begins(&mut self, index: usize, of: usize, ask: &Ask) {
        (self.since, self.trials) = (Instant::now(), 0);
        self.before = StreamCounts::default();
        let going = self.going();
        if let Some(live) = &mut self.live {
            let name = hairpin_report::stream_row(&ask.io.to_string(), ask.direction, Some(ask.bytes));
            live.begins(live::Place { index, of, name }, &going);
        }
    }

    fn trial(&mut self, ask: &Ask, step: &Step) {
        self.trials += 1;
        // The next one counts from 0.
        self.before = StreamCounts::default();
        let going = self.going();
        if let Some(live) = &mut self.live {
            live.rename(hairpin_report::stream_trial(&ask.io.to_string(), ask.direction, Some(ask.bytes), step));
            live.draw(&going);
        }
    }

    fn second(&mut self, counts: &StreamCounts) {
        let before = std::mem::replace(&mut self.before, *counts);
        if self.lines {
            let missing = counts.span.saturating_sub(counts.came);
            let lost = if counts.span == 0 { String::new() } else { format!(", {missing} missing so far") };
            note(format_args!(
                "sent {}/s, received {}/s{lost}",
                counts.sent.saturating_sub(before.sent),
                counts.came.saturating_sub(before.came)
            ));
        }
    }

    fn skipped(&mut self, ask: &Ask, why: &str) {
        self.clear();
        say(format_args!("skipped: {} {} {} B: {why}", ask.io.client, ask.direction, ask.bytes));
    }
}

fn rate(text: &str) -> Result<f64, String> {
    let rate = parse_decimal(text).filter(|rate| (1.0..=1e9).contains(rate));
    rate.ok_or_else(|| format!("\"{text}\" is not a rate: 1 to 1000000000 frames per second"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates() {
        assert_eq!(rate("1e6"), Ok(1e6));
        assert!(rate("0").is_err() && rate("fast").is_err());
    }
}
