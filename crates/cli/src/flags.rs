//! Flags shared by several verbs.

use std::io::Read;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use clap::Args;
use hairpin_plan::job::{Job, LocalPort, NicStamps, Schedule, Sides};
use hairpin_plan::path::{LinkKind, Path, Speaks};
use hairpin_plan::paths::{DEFAULT, TCP, TOWARDS_REFLECTOR, TOWARDS_SOCKET};
use hairpin_plan::request::presets::{self, Preset};
use hairpin_plan::request::{ReplyEnd, Request, Tls, bytes_of};
use hairpin_plan::spec::Spec;
use hairpin_session::plan::Target;
use hairpin_sys::netlink::Netlink;
use hairpin_sys::stack::{Library, LibraryError};
use hairpin_units::{Nanos, Quantile, list, parse_decimal, parse_duration, parse_number};

use crate::exit::Failure;

/// The work: paths, sizes, rates and their repetition.
#[derive(Debug, Args)]
#[command(next_help_heading = "Work")]
pub struct WorkFlags {
    /// Paths to measure; repeatable.
    #[arg(
        short = 'p',
        long = "path",
        value_name = "SPEC",
        help = "Path to measure: PATH[:POLICY][,OPTION=VALUE…][/SERVER'S SIDE]; repeatable; default tcp and udp (see `hairpin paths`)"
    )]
    pub paths: Vec<Spec>,
    /// Payload of request and reply in bytes
    #[arg(short = 's', long, value_name = "N", value_parser = whole::<u32>, default_value_t = 64, conflicts_with_all = ["request", "reply", "sizes"])]
    pub size: u32,
    /// Payload of a request in bytes; or what to ask a server that is there (echo:HOST:PORT): text:PING\r\n, hex:0d0a, @FILE, or
    /// a preset's name (`hairpin help requests`)
    #[arg(long, value_name = "N|text:…|hex:…|@FILE|PRESET", value_parser = asked)]
    pub request: Option<Asked>,
    /// Payload of a reply in bytes; after such a request where a reply ends: N bytes, a delimiter such as '\r\n',
    /// length-prefix:4, http or resp
    #[arg(long, value_name = "M|END", requires = "request", visible_alias = "until")]
    pub reply: Option<ReplyEnd>,
    #[command(flatten)]
    pub tls: TlsFlags,
    /// Several payloads, a row each: 1,2,4 or 1..2048x2 or 10..50+10
    #[arg(long, value_name = "LIST", value_parser = sizes, conflicts_with_all = ["request", "reply"])]
    pub sizes: Option<Sizes>,
    /// Measured time of each row
    #[arg(short = 't', long, value_name = "TIME", value_parser = parse_duration, default_value = "10s")]
    pub duration: Nanos,
    /// End each row after N transactions over all flows; without --duration this is the only end
    #[arg(short = 'c', long, value_name = "N", value_parser = whole_in(1..=u64::MAX))]
    pub count: Option<u64>,
    /// Discarded time before each row
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "500ms")]
    pub warmup: Nanos,
    /// Connections or sockets; up to 20000 over tcp, udp, uring-tcp, uring-udp
    #[arg(short = 'n', long, value_name = "N", value_parser = whole::<u32>, default_value_t = 1)]
    pub flows: u32,
    /// Measuring threads of each side
    #[arg(long, value_name = "N", value_parser = whole::<u32>, default_value_t = 1)]
    pub threads: u32,
    /// Requests in flight per flow
    #[arg(long, value_name = "N", value_parser = whole::<u32>, default_value_t = 1)]
    pub outstanding: u32,
    /// Requests per second on a schedule, one in flight, idle between; RTT also from the time each was due
    #[arg(short = 'r', long, alias = "pace", value_name = "RATE", value_parser = rate)]
    pub rate: Option<Rates>,
    /// Until Ctrl-C
    #[arg(long, conflicts_with_all = ["duration", "count", "sizes"])]
    pub forever: bool,
    /// Silence that ends a run
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "5s")]
    pub timeout: Nanos,
    /// The CPU of each side's first thread, such as 2,3; chosen from those allowed if not given
    #[arg(long, value_name = "CLIENT,SERVER", value_parser = cpus)]
    pub cpu: Option<Sides<Option<u32>>>,
    /// Scheduling of the measuring threads: other, or fifo:N with locked memory
    #[arg(long, value_name = "other|fifo:N", value_parser = schedule, default_value = "other")]
    pub sched: Schedule,
    /// The client's source port: P for flow 0 and the following ones, or rotate:N for N flows (tcp-crr: connections) on N ports
    /// in turn
    #[arg(long, value_name = "P|rotate:N", value_parser = local_port)]
    pub local_port: Option<LocalPort>,
    /// Fill whole payloads and compare the replies with them
    #[arg(long)]
    pub verify: bool,
}

/// TLS between a request of the user's own and its stream.
#[derive(Clone, Debug, Args)]
pub struct TlsFlags {
    /// Ask over TLS: of a build with the feature tls
    #[arg(long, requires = "request")]
    tls: bool,
    /// The server's name in its certificate, if HOST is another
    #[arg(long, value_name = "NAME", requires = "tls")]
    tls_name: Option<String>,
    /// Trust the certificates of this file (PEM), not those that the system trusts
    #[arg(long, value_name = "FILE", requires = "tls")]
    tls_ca: Option<PathBuf>,
    /// Take any certificate
    #[arg(long, requires = "tls", conflicts_with = "tls_ca")]
    tls_insecure: bool,
}

impl TlsFlags {
    fn towards(&self, host: &str) -> Result<Option<Tls>, Failure> {
        if !self.tls {
            return Ok(None);
        }
        if !cfg!(feature = "tls") {
            return Err(Failure::missing(
                "this build has no TLS, which takes about a megabyte: `cargo install --path crates/cli --features tls` in a clone builds one that has",
            ));
        }
        let ca = |file: &PathBuf| {
            // The worker may have another directory.
            std::fs::canonicalize(file).map_err(|error| Failure::usage(format_args!("--tls-ca {}: {error}", file.display())))
        };
        let name = self.tls_name.clone().unwrap_or_else(|| host.into());
        Ok(Some(Tls { name, ca: self.tls_ca.as_ref().map(ca).transpose()?, insecure: self.tls_insecure }))
    }
}

/// The time of all rows together, in place of that of each.
#[derive(Clone, Copy, Debug, Args)]
pub struct Whole {
    /// Measured time of the whole run, in equal parts for its rows
    #[arg(long = "for", value_name = "TIME", value_parser = whole_run, conflicts_with_all = ["duration", "count", "forever"])]
    pub whole: Option<Nanos>,
}

/// Shorter runs have no time for their rows.
const SHORTEST_RUN: Nanos = Nanos::from_millis(1);

fn whole_run(text: &str) -> Result<Nanos, String> {
    let whole = parse_duration(text).map_err(|error| error.to_string())?;
    if whole < SHORTEST_RUN { Err("a run takes 1ms or more".into()) } else { Ok(whole) }
}

impl Whole {
    /// Gives each row an equal part, if the flag was given.
    pub fn share(self, rows: &mut [Job]) {
        if let Some(whole) = self.whole {
            let each = Nanos(whole.0 / rows.len().max(1) as u64);
            rows.iter_mut().for_each(|row| row.duration = Some(each));
        }
    }
}

/// These paths, each with its default policy.
pub fn plain(paths: &[&Path]) -> Result<Vec<Spec>, Failure> {
    paths.iter().map(|path| path.name.parse().map_err(Failure::usage)).collect()
}

impl WorkFlags {
    /// One job per path and size, in that order. `timed` is true if --duration was given.
    pub fn jobs(&self, timed: bool, target: &Target, raw: bool) -> Result<Vec<Job>, Failure> {
        let (to, own) = (target.kind(), self.own_request(target)?);
        let mut specs = self.paths.clone();
        if specs.is_empty() {
            specs = plain(if to == LinkKind::Reflector { &TOWARDS_REFLECTOR } else { &DEFAULT })?;
        }
        if to == LinkKind::Reflector {
            specs = specs.into_iter().map(Spec::towards_reflector).collect();
        }
        let sizes = match (&self.sizes, &self.request, &own) {
            (Some(Sizes(sizes)), ..) => sizes.iter().map(|size| (*size, *size)).collect(),
            (.., Some(own)) => {
                vec![(own.bytes.len() as u32, if let ReplyEnd::Bytes(count) = own.end { count as u32 } else { 0 })]
            }
            (_, Some(Asked::Bytes(request)), _) => vec![(*request, self.reply_bytes(*request)?)],
            _ => vec![(self.size, self.size)],
        };
        let endless = self.forever || (self.count.is_some() && !timed);
        let local_port = self.local_port.unwrap_or_default();
        let cookie = cookie()?;
        let mut jobs = Vec::new();
        for spec in &specs {
            for (request, reply) in &sizes {
                jobs.push(Job {
                    request: *request,
                    reply: *reply,
                    flows: flows(spec, self.flows, local_port),
                    threads: self.threads,
                    outstanding: self.outstanding,
                    duration: (!endless).then_some(self.duration),
                    count: self.count,
                    warmup: self.warmup,
                    pace: self.rate.as_ref().and_then(|Rates(all)| all.first().copied()),
                    timeout: self.timeout,
                    cpus: self.cpu.unwrap_or_default(),
                    sched: self.sched,
                    local_port,
                    verify: self.verify,
                    cookie,
                    plain_peer: matches!(to, LinkKind::Echo | LinkKind::Reflector),
                    raw,
                    own: own.clone(),
                    ..Job::new(spec.clone())
                });
            }
        }
        Ok(jobs)
    }

    /// Chooses the path for a request of the user's own, if the user named none.
    pub fn lead_to(&mut self, target: &Target) {
        if let (true, Some(Asked::Own(preset))) = (self.paths.is_empty(), &self.request) {
            let elsewhere = matches!(target, Target::Socket(_))
                && !TOWARDS_SOCKET.iter().any(|path| path.name == preset.path.client.path.name);
            let socket = elsewhere.then(|| plain(&TOWARDS_SOCKET).ok()?.pop()).flatten();
            self.paths.push(socket.unwrap_or_else(|| preset.path.clone()));
        }
    }

    /// The usual port of the server that a preset asks.
    pub fn usual_port(&self) -> Option<u16> {
        if let Some(Asked::Own(preset)) = &self.request { preset.port } else { None }
    }

    /// The request of the user's own, if there is one, with the end of its reply.
    fn own_request(&self, to: &Target) -> Result<Option<Request>, Failure> {
        let Some(Asked::Own(preset)) = &self.request else {
            return match self.tls.tls {
                true => Err(Failure::usage(
                    "--tls is between a request of your own and its server: write --request text:…, or a preset's name",
                )),
                false => Ok(None),
            };
        };
        if to.kind() != LinkKind::Echo {
            return Err(Failure::usage(format_args!(
                "--request {} asks a server that is there: write echo:HOST:PORT, or echo:/SOCKET; what `hairpin serve` is asked is of --request N --reply M bytes",
                preset.name
            )));
        }
        let end = self.reply.clone().or_else(|| preset.end.clone()).ok_or_else(|| {
            Failure::usage(format_args!(
                "--request {} does not say where its reply ends: write --reply N (bytes), --reply '\\r\\n' or another delimiter, --reply length-prefix:4, http or resp",
                preset.name
            ))
        })?;
        let tls = self.tls.towards(if let Target::Echo { host, .. } = to { host } else { "" })?;
        Ok(Some(Request { name: preset.name.clone(), bytes: preset.bytes.clone(), end, tls }))
    }

    /// The bytes of a reply, where `--request` is a number of bytes.
    fn reply_bytes(&self, request: u32) -> Result<u32, Failure> {
        match &self.reply {
            Some(ReplyEnd::Bytes(count)) => Ok(*count as u32),
            Some(end) => Err(Failure::usage(format_args!("--request {request} takes --reply M in bytes, not {end}"))),
            None => Err(Failure::usage(format_args!("--request {request} takes --reply M as well; --size is of both"))),
        }
    }
}

/// The value of --request.
#[derive(Clone, Debug)]
pub enum Asked {
    /// The number of bytes of a request of Hairpin's own.
    Bytes(u32),
    /// The bytes to send, with the rest if it is a preset.
    Own(Preset),
}

/// Parses `64`, `text:PING`, `redis-ping`.
pub fn asked(text: &str) -> Result<Asked, String> {
    if let Ok(bytes) = parse_number(text) {
        return u32::try_from(bytes).map(Asked::Bytes).map_err(|_| format!("write a smaller whole number than {bytes}"));
    }
    if let Some(bytes) = bytes_of(text) {
        let path = TCP.name.parse().map_err(|error| format!("{error}"))?;
        return Ok(Asked::Own(Preset { name: text.into(), bytes: bytes?, end: None, about: String::new(), port: None, path }));
    }
    let presets = presets::all()?;
    let known = presets.iter().map(|preset| preset.name.as_str()).collect::<Vec<_>>().join(", ");
    presets
        .into_iter()
        .find(|preset| preset.name == text)
        .map(Asked::Own)
        .ok_or_else(|| format!("\"{text}\" is no number of bytes, no text:…, hex:… or @FILE, and no preset; there are {known}"))
}

/// The number of flows: rotating over N ports needs N, unless each transaction has its own connection anyway.
fn flows(spec: &Spec, asked: u32, port: LocalPort) -> u32 {
    match port {
        LocalPort::Rotate(count) if asked == 1 && spec.client.speaks() != Speaks::TcpPerTransaction => count.into(),
        _ => asked,
    }
}

/// Refuses an interface that does not exist, before a worker looks for it.
pub fn interface_exists(name: &str) -> Result<(), Failure> {
    let links = Netlink::open().and_then(|netlink| netlink.links()).map_err(Failure::failed)?;
    if links.iter().any(|link| link.name == name) {
        return Ok(());
    }
    let known: Vec<&str> = links.iter().map(|link| link.name.as_str()).collect();
    Err(Failure::usage(format_args!("there is no interface \"{name}\"; there are: {}", known.join(", "))))
}

/// The library of `--stack`, which a worker process can load.
pub fn stack(given: Option<&std::path::Path>) -> Result<Option<Library>, Failure> {
    let failure = |error: LibraryError| if error.is_missing() { Failure::missing(error) } else { Failure::usage(error) };
    given.map(Library::at).transpose().map_err(failure)
}

/// A random number that proves that a message belongs to a session.
pub fn cookie() -> Result<u64, Failure> {
    let mut bytes = [0; 8];
    let read = std::fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    read.map_err(|error| Failure::failed(format_args!("cannot get random bytes from /dev/urandom: {error}")))?;
    Ok(u64::from_le_bytes(bytes))
}

/// Payload sizes in bytes.
#[derive(Clone, Debug)]
pub struct Sizes(pub Vec<u32>);

/// Parses `64,1514` and `64..1024x2`.
pub fn sizes(text: &str) -> Result<Sizes, String> {
    let numbers = list::parse(text).map_err(|error| error.to_string())?;
    let sizes: Result<Vec<u32>, _> = numbers.into_iter().map(u32::try_from).collect();
    sizes.map(Sizes).map_err(|_| "out of range: paths carry 1 byte to 64 KiB".into())
}

/// Percentiles to show.
#[derive(Clone, Debug)]
pub struct Percentiles(pub Vec<Quantile>);

/// Parses `50,99,99.9`.
pub fn percentiles(text: &str) -> Result<Percentiles, String> {
    let all: Result<Vec<Quantile>, _> = text.split(',').map(str::parse).collect();
    all.map(Percentiles).map_err(|error| error.to_string())
}

/// Requests per second: one rate, and in `load` several.
#[derive(Clone, Debug, PartialEq)]
pub struct Rates(pub Vec<f64>);

/// Parses `1000`, `0.5`, `10k`.
pub fn rate(text: &str) -> Result<Rates, String> {
    let rate = parse_decimal(text).filter(|rate| (1e-4..=1e7).contains(rate)).map(|rate| Rates(vec![rate]));
    rate.ok_or_else(|| {
        format!(
            "\"{text}\" is not a rate: 0.0001 to 10000000 requests per second, such as 1000 or 10k; a link's speed is --link-rate"
        )
    })
}

/// `--hw-stamps` without a value.
pub const ALL: &str = "all";

/// Parses `1000/s`, `10k/s`, `1000`.
pub fn hw_stamps(text: &str) -> Result<NicStamps, String> {
    if text == ALL {
        return Ok(NicStamps { per_s: None });
    }
    let per_s = parse_decimal(text.strip_suffix("/s").unwrap_or(text)).filter(|per_s| (1e-4..=1e9).contains(per_s));
    per_s.map(|per_s| NicStamps { per_s: Some(per_s) }).ok_or_else(|| {
        format!("\"{text}\" is not a rate: write transactions to stamp per second, such as --hw-stamps=1000/s, or --hw-stamps alone for all")
    })
}

/// Parses a whole number of this type.
pub fn whole<T: TryFrom<u64>>(text: &str) -> Result<T, String> {
    let number = parse_number(text).map_err(|error| error.to_string())?;
    T::try_from(number).map_err(|_| format!("write a smaller whole number than {number}"))
}

/// A parser of whole numbers in this range.
pub fn whole_in<T>(range: RangeInclusive<T>) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static
where
    T: TryFrom<u64> + PartialOrd + std::fmt::Display + Clone + Send + Sync + 'static,
    u64: TryFrom<T>,
{
    move |text| {
        let number = parse_number(text).map_err(|error| error.to_string())?;
        let fits = T::try_from(number).ok().filter(|number| range.contains(number));
        let (least, most) = (range.start(), range.end());
        // A type's largest number is not a limit worth naming.
        let unlimited = u64::try_from(most.clone()).is_ok_and(|most| most >= u64::from(u32::MAX));
        fits.ok_or_else(|| match unlimited {
            true => format!("write a whole number of {least} or more"),
            false => format!("write a whole number from {least} to {most}"),
        })
    }
}

/// Parses `2,3`.
pub fn cpus(text: &str) -> Result<Sides<Option<u32>>, String> {
    let pair = text.split_once(',').and_then(|(client, server)| Some((client.parse().ok()?, server.parse().ok()?)));
    pair.map(|(client, server)| Sides { client: Some(client), server: Some(server) })
        .ok_or_else(|| format!("\"{text}\" is not a pair of CPUs: write CLIENT,SERVER, such as 0,1"))
}

pub fn schedule(text: &str) -> Result<Schedule, String> {
    match text.strip_prefix("fifo:") {
        None if text == "other" => Ok(Schedule::Other),
        Some(priority) => {
            let priority = priority.parse().ok().filter(|priority| (1..=99).contains(priority));
            priority.map(Schedule::Fifo).ok_or_else(|| "SCHED_FIFO has priorities 1 to 99: write fifo:1".into())
        }
        None => Err(format!("\"{text}\" is not a scheduling class: write other or fifo:N")),
    }
}

fn small(text: &str) -> Option<u16> {
    parse_number(text).ok()?.try_into().ok()
}

fn local_port(text: &str) -> Result<LocalPort, String> {
    let parsed = match text.strip_prefix("rotate:") {
        Some(count) => small(count).filter(|count| (2..=16_384).contains(count)).map(LocalPort::Rotate),
        None => small(text).filter(|port| *port > 0).map(LocalPort::Fixed),
    };
    parsed.ok_or_else(|| format!("\"{text}\" is not a local port: write a port, or rotate:N with N from 2 to 16384"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_grammars() {
        assert_eq!(cpus("2,3"), Ok(Sides { client: Some(2), server: Some(3) }));
        assert!(cpus("2").is_err() && cpus("a,b").is_err());
        assert_eq!(schedule("fifo:50"), Ok(Schedule::Fifo(50)));
        assert!(schedule("fifo:0").is_err() && schedule("rr").is_err());
        assert_eq!(local_port("rotate:8"), Ok(LocalPort::Rotate(8)));
        assert_eq!((local_port("rotate:1k"), local_port("2Ki")), (Ok(LocalPort::Rotate(1000)), Ok(LocalPort::Fixed(2048))));
        assert!(local_port("rotate:1").is_err() && local_port("0").is_err());
        assert_eq!((rate("0.5"), rate("10k")), (Ok(Rates(vec![0.5])), Ok(Rates(vec![10_000.0]))));
        for text in ["0", "-1", "nan", "10G", "100Mbit"] {
            assert!(rate(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_rate_of_stamps() {
        let asked = |text: &str| hw_stamps(text).map(|stamps| stamps.per_s);
        assert_eq!([ALL, "1000/s", "2k/s", "0.5"].map(asked), [Ok(None), Ok(Some(1_000.0)), Ok(Some(2_000.0)), Ok(Some(0.5))]);
        for text in ["", "0", "-1/s", "1000/m", "many", "nan/s"] {
            assert!(asked(text).is_err_and(|why| why.contains("--hw-stamps=1000/s")), "{text}");
        }
    }

    #[test]
    fn numbers_say_what_is_expected() {
        assert_eq!((whole::<u32>("64k"), whole_in(1..=100u32)("1")), (Ok(64_000), Ok(1)));
        assert_eq!(whole::<u32>("x").unwrap_err(), "write a whole number, such as 100 or 10k");
        assert_eq!(whole::<u32>("5G").unwrap_err(), "write a smaller whole number than 5000000000");
        assert_eq!(whole_in(1..=100u32)("0").unwrap_err(), "write a whole number from 1 to 100");
        assert_eq!(whole_in(1..=u64::MAX)("0").unwrap_err(), "write a whole number of 1 or more");
    }
}
