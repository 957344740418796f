//! Flags shared by several verbs.

use std::io::Read;
use std::net::{IpAddr, Ipv6Addr, SocketAddrV4};
use std::path::PathBuf;

use clap::Args;
use hairpin_plan::job::{Job, LocalPort, Reflector, Rewrite, Schedule, Sides};
use hairpin_plan::path::{LinkKind, Speaks};
use hairpin_plan::spec::Spec;
use hairpin_session::key::Key;
use hairpin_session::link::LinkSpec;
use hairpin_session::plan::Target;
use hairpin_sys::netlink::Netlink;
use hairpin_units::{Nanos, Quantile, list, parse_duration};

use crate::exit::{Failure, say};

/// The port of control sessions, and of `hairpin serve`.
pub const PORT: u16 = 24_444;

/// The peer: exactly one; paths that never leave a process's host need none.
#[derive(Debug, Args)]
#[group(multiple = false)]
pub struct Where {
    /// A host on which `hairpin serve` runs
    #[arg(value_name = "HOST[:PORT]")]
    pub host: Option<HostPort>,
    /// A link of this host.
    #[arg(
        long,
        value_name = "LINK",
        help = "A link of this host: loopback, or veth[:mtu=,queues=,gro=on|off,tso=on|off,rate=,timestamps=on|off], two network namespaces made for the run"
    )]
    pub link: Option<LinkSpec>,
    /// A plain TCP or UDP echo service; its side stays unknown
    #[arg(long, value_name = "HOST:PORT")]
    pub echo: Option<HostPort>,
    /// Whatever returns Ethernet frames on interface -i: a bouncing host, a looped cable; its side stays unknown
    #[arg(long, requires = "interface")]
    pub reflector: bool,
}

/// The reflector's address and behaviour.
#[derive(Debug, Args)]
pub struct Mirror {
    /// The interface on which --reflector is
    #[arg(short = 'i', long, value_name = "IF", requires = "reflector")]
    pub interface: Option<String>,
    /// The reflector's change to a frame: none, or exchanged Ethernet addresses
    #[arg(long, value_name = "none|macs", value_parser = rewrite, requires = "reflector")]
    pub rewrite: Option<Rewrite>,
    /// The Ethernet address that frames are sent to; the interface's own if not given
    #[arg(long, value_name = "MAC", value_parser = mac, requires = "reflector")]
    pub dst_mac: Option<[u8; 6]>,
}

impl Where {
    /// The target, with the key of a remote server's session. If all of `paths` are local, only one target is possible.
    pub fn target(self, key_file: Option<PathBuf>, mirror: Mirror, paths: &[Spec]) -> Result<Target, Failure> {
        if key_file.is_some() && self.host.is_none() {
            return Err(Failure::usage("--key-file belongs to a HOST on which `hairpin serve` runs"));
        }
        if let (true, Some(interface)) = (self.reflector, mirror.interface) {
            let rewrite = mirror.rewrite.unwrap_or_default();
            return Ok(Target::Reflector(Reflector { interface, destination: mirror.dst_mac, rewrite }));
        }
        match (self.host, self.link, self.echo) {
            (Some(HostPort { host, port }), ..) => {
                let key = key_file.as_deref().map(load_key).transpose()?;
                Ok(Target::Host { host, port: port.unwrap_or(PORT), key })
            }
            (None, Some(link), _) => Ok(Target::Link(link)),
            (None, None, Some(HostPort { host, port: Some(port) })) => Ok(Target::Echo { host, port }),
            (None, None, Some(_)) => Err(Failure::usage("--echo takes HOST:PORT; the port of the echo service is usually 7")),
            (None, None, None) if !paths.is_empty() && paths.iter().all(is_local) => Ok(Target::Link(LinkSpec::Loopback)),
            (None, None, None) => Err(Failure::usage(
                "say where to: HOST[:PORT], --link loopback, --link veth, --echo HOST:PORT or -i IF --reflector",
            )),
        }
    }
}

fn is_local(spec: &Spec) -> bool {
    matches!(spec.client.speaks(), Speaks::Local(_))
}

/// Reads a key file, and warns if others may read it too.
pub fn load_key(file: &std::path::Path) -> Result<Key, Failure> {
    let loaded = Key::load(file).map_err(Failure::usage)?;
    if loaded.others_may_read() {
        say(format_args!("hairpin: {} can be read by others on this host: chmod 600 {0}", file.display()));
    }
    Ok(loaded.key)
}

/// The work: paths, sizes, rates and their repetition.
#[derive(Debug, Args)]
#[command(next_help_heading = "Work")]
pub struct WorkFlags {
    /// Paths to measure; repeatable.
    #[arg(
        long = "path",
        value_name = "SPEC",
        help = "Path to measure: PATH[:POLICY][,OPTION=VALUE…][/SERVER'S SIDE]; repeatable; default tcp and udp (see `hairpin paths`)"
    )]
    pub paths: Vec<Spec>,
    /// Payload of request and reply in bytes
    #[arg(long, value_name = "N", default_value_t = 64, conflicts_with_all = ["request", "reply", "sizes"])]
    pub size: u32,
    /// Payload of a request in bytes
    #[arg(long, value_name = "N", requires = "reply")]
    pub request: Option<u32>,
    /// Payload of a reply in bytes
    #[arg(long, value_name = "M", requires = "request")]
    pub reply: Option<u32>,
    /// Several payloads, a row each: 1,2,4 or 1..2048x2 or 10..50+10
    #[arg(long, value_name = "LIST", value_parser = sizes, conflicts_with_all = ["request", "reply"])]
    pub sizes: Option<Sizes>,
    /// Measured time of each row
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "10s")]
    pub duration: Nanos,
    /// End each row after N transactions over all flows; without --duration this is the only end
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// Discarded time before each row
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "500ms")]
    pub warmup: Nanos,
    /// Connections or sockets
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub flows: u32,
    /// Measuring threads of each side
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub threads: u32,
    /// Requests in flight per flow
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub outstanding: u32,
    /// Requests per second on a schedule, one in flight, idle between; RTT also from the time each was due
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub pace: Option<f64>,
    /// Until Ctrl-C
    #[arg(long, conflicts_with_all = ["duration", "count", "sizes"])]
    pub forever: bool,
    /// Silence that ends a run
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "5s")]
    pub timeout: Nanos,
    /// The CPU of each side's first thread, such as 2,3; the first two that are allowed if not given
    #[arg(long, value_name = "CLIENT,SERVER", value_parser = cpus)]
    pub cpu: Option<Sides<Option<u32>>>,
    /// Scheduling of the measuring threads: other, or fifo:N with locked memory
    #[arg(long, value_name = "other|fifo:N", value_parser = schedule, default_value = "other")]
    pub sched: Schedule,
    /// The client's source port: P for flow 0 and the following ones, or rotate:N for N flows (tcp-crr: connections) on N ports in turn
    #[arg(long, value_name = "P|rotate:N", value_parser = local_port)]
    pub local_port: Option<LocalPort>,
    /// Fill whole payloads and compare the replies with them
    #[arg(long)]
    pub verify: bool,
}

impl WorkFlags {
    /// One job per path and size, in that order. `timed` is true if --duration was given.
    pub fn jobs(&self, timed: bool, to: LinkKind, raw: bool) -> Result<Vec<Job>, Failure> {
        let mut specs = self.paths.clone();
        if specs.is_empty() {
            let names: &[&str] = if to == LinkKind::Reflector { &["packet"] } else { &["tcp", "udp"] };
            for name in names {
                specs.push(name.parse().map_err(Failure::usage)?);
            }
        }
        if to == LinkKind::Reflector {
            specs = specs.into_iter().map(Spec::towards_reflector).collect();
        }
        let sizes = match (&self.sizes, self.request, self.reply) {
            (Some(Sizes(sizes)), ..) => sizes.iter().map(|size| (*size, *size)).collect(),
            (None, Some(request), Some(reply)) => vec![(request, reply)],
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
                    pace: self.pace,
                    timeout: self.timeout,
                    cpus: self.cpu.unwrap_or_default(),
                    sched: self.sched,
                    local_port,
                    verify: self.verify,
                    cookie,
                    plain_peer: matches!(to, LinkKind::Echo | LinkKind::Reflector),
                    raw,
                    ..Job::new(spec.clone())
                });
            }
        }
        Ok(jobs)
    }
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

/// A random number that proves that a message belongs to a session.
pub fn cookie() -> Result<u64, Failure> {
    let mut bytes = [0; 8];
    let read = std::fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    read.map_err(|error| Failure::failed(format_args!("cannot get random bytes from /dev/urandom: {error}")))?;
    Ok(u64::from_le_bytes(bytes))
}

/// `HOST[:PORT]`; an IPv6 address before a port is in brackets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPort {
    pub host: String,
    pub port: Option<u16>,
}

impl std::str::FromStr for HostPort {
    type Err = String;

    fn from_str(text: &str) -> Result<HostPort, String> {
        let bad = || {
            format!(
                "\"{text}\" is not a HOST[:PORT]: write host, host:24444, 192.0.2.1:24444, [2001:db8::1]:24444 or [fe80::1%eth0]:24444"
            )
        };
        if let Ok(address) = text.parse::<SocketAddrV4>() {
            return Ok(HostPort { host: address.ip().to_string(), port: Some(address.port()) });
        }
        // An IPv6 address, in brackets before a port; a link-local one has its interface after a % (RFC 4007, section 11).
        let (bare, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((bare, "")) => (bare, None),
            Some((bare, port)) => (bare, Some(port.strip_prefix(':').and_then(|port| port.parse().ok()).ok_or_else(bad)?)),
            None => (text, None),
        };
        if bare.parse::<IpAddr>().is_ok() || scoped(bare).is_some() {
            return Ok(HostPort { host: bare.into(), port });
        }
        let (host, port) = match text.split_once(':') {
            None => (text, None),
            Some((host, port)) => (host, Some(to_port(port).ok_or_else(bad)?)),
        };
        let sound = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
        if host.is_empty() || !host.chars().all(sound) { Err(bad()) } else { Ok(HostPort { host: host.into(), port }) }
    }
}

fn to_port(text: &str) -> Option<u16> {
    text.parse().ok().filter(|port| *port > 0)
}

/// Splits `fe80::1%eth0` into the address and the interface's name or index.
pub fn scoped(text: &str) -> Option<(Ipv6Addr, &str)> {
    let (address, interface) = text.split_once('%')?;
    let sound = |c: char| c.is_ascii_graphic() && !matches!(c, '/' | '%' | '[' | ']');
    let named = !interface.is_empty() && interface.len() < 16 && interface.chars().all(sound);
    address.parse().ok().filter(|_| named).map(|address| (address, interface))
}

/// Payload sizes in bytes.
#[derive(Clone, Debug)]
pub struct Sizes(pub Vec<u32>);

/// Parses `64,1514` and `64..1024x2`.
pub fn sizes(text: &str) -> Result<Sizes, String> {
    let numbers = list::parse(text).map_err(|error| error.to_string())?;
    let sizes: Result<Vec<u32>, _> = numbers.into_iter().map(u32::try_from).collect();
    sizes.map(Sizes).map_err(|_| "no path carries so much: 1 byte to 64 KiB".into())
}

/// Percentiles to show.
#[derive(Clone, Debug)]
pub struct Percentiles(pub Vec<Quantile>);

/// Parses `50,99,99.9`.
pub fn percentiles(text: &str) -> Result<Percentiles, String> {
    let all: Result<Vec<Quantile>, _> = text.split(',').map(str::parse).collect();
    all.map(Percentiles).map_err(|error| error.to_string())
}

fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse::<f64>().ok().filter(|rate| (1e-4..=1e7).contains(rate));
    rate.ok_or_else(|| format!("\"{text}\" is not a rate: 0.0001 to 10000000 requests per second"))
}

/// Parses `2,3`.
pub fn cpus(text: &str) -> Result<Sides<Option<u32>>, String> {
    let pair = text.split_once(',').and_then(|(client, server)| Some((client.parse().ok()?, server.parse().ok()?)));
    pair.map(|(client, server)| Sides { client: Some(client), server: Some(server) })
        .ok_or_else(|| format!("\"{text}\" is not a pair of CPUs: write CLIENT,SERVER, such as 0,1"))
}

fn rewrite(text: &str) -> Result<Rewrite, String> {
    match text {
        "none" => Ok(Rewrite::None),
        "macs" => Ok(Rewrite::Macs),
        _ => Err(format!("\"{text}\" is nothing that a reflector does: write none or macs")),
    }
}

/// Parses `02:00:00:00:00:02`.
pub fn mac(text: &str) -> Result<[u8; 6], String> {
    let digits = |byte: &str| byte.len() == 2 && byte.bytes().all(|digit| digit.is_ascii_hexdigit());
    let bytes = text.split(':').map(|byte| u8::from_str_radix(byte, 16).ok().filter(|_| digits(byte)));
    let bytes = bytes.collect::<Option<Vec<u8>>>().and_then(|bytes| bytes.try_into().ok());
    bytes.ok_or_else(|| format!("\"{text}\" is not an Ethernet address: write six bytes such as 02:00:00:00:00:01"))
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

fn local_port(text: &str) -> Result<LocalPort, String> {
    let parsed = match text.strip_prefix("rotate:") {
        Some(count) => count.parse().ok().filter(|count| (2..=16_384).contains(count)).map(LocalPort::Rotate),
        None => text.parse().ok().filter(|port| *port > 0).map(LocalPort::Fixed),
    };
    parsed.ok_or_else(|| format!("\"{text}\" is not a local port: write a port, or rotate:N with N from 2 to 16384"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_ports() {
        for (text, host, port) in [
            ("server", "server", None),
            ("server:7", "server", Some(7)),
            ("192.0.2.1:7", "192.0.2.1", Some(7)),
            ("::1", "::1", None),
            ("[::1]", "::1", None),
            ("[::1]:7", "::1", Some(7)),
            ("fe80::1%eth0", "fe80::1%eth0", None),
            ("[fe80::1%eth0.7]", "fe80::1%eth0.7", None),
            ("[fe80::1%eth0]:7", "fe80::1%eth0", Some(7)),
            ("[::1]:0", "::1", Some(0)),
            ("[fe80::1%3]:7", "fe80::1%3", Some(7)),
        ] {
            assert_eq!(text.parse(), Ok(HostPort { host: host.into(), port }), "{text}");
        }
        for text in [
            "",
            ":7",
            "a:b",
            "a:0",
            "a:70000",
            "a b",
            "http://x",
            "fe80::1%",
            "fe80::1%a/b",
            "host%eth0",
            "[fe80::1%eth0",
            "[fe80::1%eth0]7",
            "192.0.2.1%eth0",
        ] {
            assert!(text.parse::<HostPort>().is_err(), "{text}");
        }
    }

    #[test]
    fn small_grammars() {
        assert_eq!(cpus("2,3"), Ok(Sides { client: Some(2), server: Some(3) }));
        assert!(cpus("2").is_err() && cpus("a,b").is_err());
        assert_eq!(schedule("fifo:50"), Ok(Schedule::Fifo(50)));
        assert!(schedule("fifo:0").is_err() && schedule("rr").is_err());
        assert_eq!(local_port("rotate:8"), Ok(LocalPort::Rotate(8)));
        assert!(local_port("rotate:1").is_err() && local_port("0").is_err());
        assert_eq!(mac("02:00:00:00:0a:Ff"), Ok([2, 0, 0, 0, 10, 255]));
        for text in ["", "02:00", "02:00:00:00:00:001", "+2:00:00:00:00:01", "0g:00:00:00:00:01", "1:2:3:4:5:6"] {
            assert!(mac(text).is_err(), "{text}");
        }
        assert_eq!((rewrite("macs"), rewrite("none")), (Ok(Rewrite::Macs), Ok(Rewrite::None)));
        assert!(rewrite("all").is_err());
        assert!(rate("0").is_err() && rate("-1").is_err() && rate("nan").is_err());
    }
}
