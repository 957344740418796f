//! The target: a host, a link of this host, an echo service, or a reflector of frames.

use std::net::{IpAddr, Ipv6Addr, SocketAddrV4, ToSocketAddrs};
use std::path::PathBuf;

use clap::Args;
use hairpin_lab::store::{RunId, before_the_latest};
use hairpin_plan::job::group::Group;
use hairpin_plan::job::{Job, Reflector, Rewrite};
use hairpin_plan::path::Speaks;
use hairpin_plan::spec::Spec;
use hairpin_session::address::interface_at;
use hairpin_session::key::Key;
use hairpin_session::link::{LinkSpec, Namespaces};
use hairpin_session::plan::Target;
use hairpin_units::Arrange;

use crate::exit::{Failure, say};
use crate::flags::{WorkFlags, interface_exists};
use crate::line;

/// The port of control sessions, and of `hairpin serve`.
pub const PORT: u16 = 24_444;

/// The peer: exactly one; paths that never leave a process's host need none.
#[derive(Debug, Args)]
#[group(multiple = false)]
pub struct Where {
    /// A host on which `hairpin serve` runs; loopback, veth[:…], bridge and more, links of this host; netns:A,B, between two
    /// network namespaces; echo:HOST:PORT or echo:/SOCKET, a plain echo service, with --request any server; frames:IF, whatever
    /// returns Ethernet frames there; ring:K:HOST, the K-th host after this one among the addresses of HOST (`hairpin help link`)
    #[arg(value_name = "HOST[:PORT]")]
    pub host: Option<Place>,
    /// The same as loopback or veth[:…]
    #[arg(long, value_name = "LINK", hide = true)]
    pub link: Option<LinkSpec>,
    /// The same as netns:A,B
    #[arg(long, value_name = "A,B", hide = true)]
    pub netns: Option<Namespaces>,
    /// The same as echo:HOST:PORT
    #[arg(long, value_name = "HOST:PORT|/SOCKET", hide = true)]
    pub echo: Option<Service>,
    /// With -i IF the same as frames:IF
    #[arg(long, requires = "interface", hide = true)]
    pub reflector: bool,
}

/// The reflector's address and behaviour.
#[derive(Debug, Args)]
pub struct Mirror {
    /// The interface on which --reflector is
    #[arg(short = 'i', long, value_name = "IF", hide = true)]
    pub interface: Option<String>,
    /// The reflector's change to a frame: none, or exchanged Ethernet addresses
    #[arg(long, value_name = "none|macs", value_parser = rewrite)]
    pub rewrite: Option<Rewrite>,
    /// The Ethernet address that frames are sent to; the interface's own if not given
    #[arg(long, value_name = "MAC", value_parser = mac)]
    pub dst_mac: Option<[u8; 6]>,
}

impl Where {
    /// The target of a group: a link of this host, on which responders are started, or the interface that leads to responders
    /// that run.
    pub fn towards(self, group: &mut Group) -> Result<Target, Failure> {
        let link = self.link.or(self.netns.map(LinkSpec::Netns));
        let link = match (self.host, link, self.echo, self.reflector) {
            (None, link, None, false) => link,
            (Some(Place::Link(link)), None, None, false) => Some(link),
            _ => {
                return Err(Failure::usage(format_args!(
                    "--group {group} is asked on a link of this host, such as bridge, or without a target: its responders answer from wherever they are, so leave out HOST"
                )));
            }
        };
        if line::was_given("ipv6") && group.address.is_ipv4() {
            return Err(Failure::usage(format_args!(
                "-6 is of IPv6, and {} is a group of IPv4: give one such as ff15::1",
                group.address
            )));
        }
        match (link, &group.interface) {
            (Some(_), Some(interface)) => {
                Err(Failure::usage(format_args!("a link of this host has its own interface: leave out %{interface}")))
            }
            (Some(link), None) => {
                group.responders.get_or_insert(STARTED);
                Ok(Target::Link(link))
            }
            (None, Some(interface)) => {
                interface_exists(interface)?;
                Ok(asked(group))
            }
            (None, None) => Ok(asked(group)),
        }
    }

    /// The target, with the key of a remote server's session. If all of `paths` are local, only one target is possible.
    pub fn target(self, key_file: Option<PathBuf>, mirror: Mirror, work: &WorkFlags) -> Result<Target, Failure> {
        let paths = &work.paths;
        let echo = |service| match service {
            Service::Socket(path) => Ok(Target::Socket(path)),
            Service::At(HostPort { host, port }) => match port.or_else(|| work.usual_port()) {
                Some(port) => Ok(Target::Echo { host, port }),
                None => Err(Failure::usage("an echo service takes HOST:PORT; its port is usually 7")),
            },
        };
        let (rewrite, destination, named) = (mirror.rewrite, mirror.dst_mac, mirror.interface.is_some());
        if named && !self.reflector {
            return Err(Failure::usage(
                "-i IF is of --reflector, now the target frames:IF: towards a HOST the kernel's route chooses the interface; requests per second are --rate (-r)",
            ));
        }
        let reflector = |interface| Reflector { interface, destination, rewrite: rewrite.unwrap_or_default() };
        let link = self.link.or(self.netns.map(LinkSpec::Netns));
        let target = match (self.host, link, self.echo, mirror.interface) {
            (None, None, None, Some(interface)) if self.reflector => Ok(Target::Reflector(reflector(interface))),
            (Some(Place::Frames(interface)), ..) => Ok(Target::Reflector(reflector(interface))),
            (Some(Place::Echo(at)), ..) | (None, None, Some(at), _) => echo(at),
            (Some(Place::Link(link)), ..) | (None, Some(link), ..) => Ok(Target::Link(link)),
            (Some(Place::Host(HostPort { host, port })), ..) => {
                if port.is_none() && is_run(&host) {
                    return Err(Failure::usage(format_args!(
                        "{host} is a stored run, and this verb measures: name a target, such as loopback; `hairpin runs show {host}` shows its result"
                    )));
                }
                let key = key_file.as_deref().map(load_key).transpose()?;
                Ok(Target::Host { host, port: port.unwrap_or(PORT), key })
            }
            (Some(Place::Ring { ahead, of }), ..) => {
                let key = key_file.as_deref().map(load_key).transpose()?;
                Ok(Target::Host { host: in_ring(ahead, &of.host)?.to_string(), port: of.port.unwrap_or(PORT), key })
            }
            (Some(Place::Port(port)), ..) => Err(Failure::usage(format_args!(
                "write the host before the port, HOST:{port}; a server of this host, unmodified, is taken apart by `hairpin explain :{port}`"
            ))),
            (None, None, None, _) if !paths.is_empty() && paths.iter().all(is_local) => Ok(Target::Link(LinkSpec::Loopback)),
            (None, None, None, _) => {
                Err(Failure::usage("say where to: HOST[:PORT], loopback, veth, netns:A,B, echo:HOST:PORT or frames:IF"))
            }
        }?;
        let frames = matches!(target, Target::Reflector(_));
        if key_file.is_some() && !matches!(target, Target::Host { .. }) {
            return Err(Failure::usage("--key-file belongs to a HOST on which `hairpin serve` runs"));
        }
        if !frames && (rewrite.is_some() || destination.is_some()) {
            return Err(Failure::usage("--rewrite and --dst-mac belong to frames:IF: no other peer is sent bare frames"));
        }
        if line::was_given("ipv6") && !matches!(target, Target::Link(_)) {
            return Err(Failure::usage(
                "-6 belongs to a link of this host: a HOST is reached by the address that it has, such as [::1]",
            ));
        }
        Ok(target)
    }
}

/// Responders that are started on a link of this host, if their number is not given.
const STARTED: u32 = 2;

/// The target of a group whose responders run already.
fn asked(group: &Group) -> Target {
    let interface = group.interface.as_ref().filter(|_| group.address.is_ipv6());
    let host = interface.map_or_else(|| group.address.to_string(), |interface| format!("{}%{interface}", group.address));
    Target::Echo { host, port: group.port }
}

/// True for the id or the age of a run.
pub fn is_run(word: &str) -> bool {
    before_the_latest(word).is_some() || RunId::parse(word).is_some()
}

fn is_local(spec: &Spec) -> bool {
    matches!(spec.client.speaks(), Speaks::Local(_))
}

/// Refuses -6 where no path has addresses.
pub fn ipv6_has_effect(ipv6: bool, rows: &[Job]) -> Result<(), Failure> {
    if ipv6 && rows.iter().all(|row| is_local(&row.spec)) {
        let name = rows.first().map_or("such a path", |row| row.spec.client.path.name);
        return Err(Failure::usage(format_args!("-6 has no effect on {name}: it never leaves this host, and has no addresses")));
    }
    Ok(())
}

/// Reads a key file, and warns if others may read it too.
pub fn load_key(file: &std::path::Path) -> Result<Key, Failure> {
    let loaded = Key::load(file).map_err(Failure::usage)?;
    if loaded.others_may_read() {
        say(format_args!("hairpin: {} can be read by others on this host: chmod 600 {0}", file.display()));
    }
    Ok(loaded.key)
}

/// A place as one word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    Host(HostPort),
    /// `loopback`, `veth`, `veth:mtu=9000`, `netns:A,B`.
    Link(LinkSpec),
    /// `echo:HOST:PORT`, `echo:/run/redis.sock`.
    Echo(Service),
    /// `frames:IF`.
    Frames(String),
    /// `ring:K:HOST[:PORT]`.
    Ring {
        ahead: usize,
        of: HostPort,
    },
    /// `:PORT`, a server of this host that runs unmodified.
    Port(u16),
}

impl std::str::FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Place, String> {
        if LinkSpec::is_named(text) {
            return text.parse().map(Place::Link).map_err(|error: <LinkSpec as std::str::FromStr>::Err| error.to_string());
        }
        if let Some(at) = text.strip_prefix("echo:") {
            return at.parse().map(Place::Echo);
        }
        if let Some(interface) = text.strip_prefix("frames:").filter(|interface| !interface.is_empty()) {
            return Ok(Place::Frames(interface.into()));
        }
        if let Some(ring) = text.strip_prefix("ring:") {
            let parts = ring.split_once(':').and_then(|(ahead, of)| Some((ahead.parse().ok().filter(|ahead| *ahead > 0)?, of)));
            let (ahead, of) = parts.ok_or_else(|| {
                format!("\"{text}\" is not ring:K:HOST: K is 1 for the next host of the ring, 2 for the one after")
            })?;
            return of.parse().map(|of| Place::Ring { ahead, of });
        }
        match text.strip_prefix(':').and_then(to_port) {
            Some(port) => Ok(Place::Port(port)),
            None => text.parse().map(Place::Host),
        }
    }
}

/// The address `ahead` places after this host's own among those of `name`, in ascending order; the first follows the last.
fn in_ring(ahead: usize, name: &str) -> Result<IpAddr, Failure> {
    let all = (name, 0).to_socket_addrs().map_err(|error| Failure::failed(format_args!("{name} does not resolve: {error}")))?;
    place_in_ring(ahead, name, all.map(|at| at.ip()).collect(), |address| interface_at(address, 0).is_some())
}

fn place_in_ring(ahead: usize, name: &str, mut ring: Vec<IpAddr>, is_own: impl Fn(IpAddr) -> bool) -> Result<IpAddr, Failure> {
    ring.arrange_by(Ord::cmp);
    ring.dedup();
    let Some(own) = ring.iter().copied().find(|address| is_own(*address)) else {
        return Err(Failure::missing(format_args!(
            "{name} stands for {} addresses and none is this host's: ring:{ahead}:{name} is for hosts that are among them",
            ring.len()
        )));
    };
    // A host may have one address of each family.
    ring.retain(|address| address.is_ipv4() == own.is_ipv4());
    let at = ring.iter().position(|address| *address == own).unwrap_or_default();
    match ring.get((at + ahead) % ring.len()) {
        Some(next) if ahead < ring.len() => Ok(*next),
        _ => Err(Failure::missing(format_args!(
            "ring:{ahead}:{name} is no host: {name} stands for {} addresses beside this host's; leave it out, or start more hosts",
            ring.len() - 1
        ))),
    }
}

/// A server that is there: `HOST[:PORT]`, or the path of a UNIX socket, which begins with a slash or `unix:`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Service {
    At(HostPort),
    Socket(PathBuf),
}

impl std::str::FromStr for Service {
    type Err = String;

    fn from_str(text: &str) -> Result<Service, String> {
        match text.strip_prefix("unix:").or(text.starts_with('/').then_some(text)) {
            Some("") => Err("write the path of a socket, such as echo:/run/redis.sock".into()),
            Some(path) => Ok(Service::Socket(path.into())),
            None => text.parse().map(Service::At),
        }
    }
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
    fn a_ring_goes_round_by_ascending_addresses() {
        let ip = |text: &&str| text.parse::<IpAddr>().unwrap();
        let next = |ahead, all: &[&str], own: &str| {
            let own = ip(&own);
            place_in_ring(ahead, "probes", all.iter().map(ip).collect(), |address| address == own)
                .map(|next| next.to_string())
                .map_err(|failure| format!("{failure:?}"))
        };
        let all = ["192.0.2.10", "192.0.2.9", "2001:db8::9", "192.0.2.200", "192.0.2.9"];
        assert_eq!(next(1, &all, "192.0.2.9"), Ok("192.0.2.10".into()));
        assert_eq!(next(2, &all, "192.0.2.9"), Ok("192.0.2.200".into()));
        assert_eq!(next(1, &all, "192.0.2.200"), Ok("192.0.2.9".into()), "after the last comes the first");
        assert!(next(3, &all, "192.0.2.9").unwrap_err().contains("2 addresses beside this host's"), "never this host itself");
        assert!(next(1, &all, "192.0.2.77").unwrap_err().contains("none is this host's"));
        assert!(next(1, &[], "192.0.2.77").is_err());
        for bad in ["ring:", "ring:1", "ring:0:a", "ring:a:b", "ring:1:a b"] {
            assert!(bad.parse::<Place>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_place_is_one_word() {
        for (text, place) in [
            ("loopback", Place::Link(LinkSpec::Loopback)),
            ("veth:mtu=9000", Place::Link("veth:mtu=9000".parse().unwrap())),
            ("bridge:24444", Place::Host("bridge:24444".parse().unwrap())),
            ("netns:a,b", Place::Link("netns:a,b".parse().unwrap())),
            ("echo:server:7", Place::Echo("server:7".parse().unwrap())),
            ("echo:/run/a", Place::Echo(Service::Socket("/run/a".into()))),
            ("echo:unix:a", Place::Echo(Service::Socket("a".into()))),
            ("frames:eth1", Place::Frames("eth1".into())),
            ("ring:2:probes:7", Place::Ring { ahead: 2, of: "probes:7".parse().unwrap() }),
            (":6379", Place::Port(6379)),
            ("server", Place::Host("server".parse().unwrap())),
            ("veth0", Place::Host("veth0".parse().unwrap())),
        ] {
            assert_eq!(text.parse(), Ok(place), "{text}");
        }
        for text in ["veth:mut=1", ":0", ":x", "frames:", ""] {
            assert!(text.parse::<Place>().is_err(), "{text}");
        }
    }

    #[test]
    fn addresses_and_rewrites() {
        assert_eq!(mac("02:00:00:00:0a:Ff"), Ok([2, 0, 0, 0, 10, 255]));
        for text in ["", "02:00", "02:00:00:00:00:001", "+2:00:00:00:00:01", "0g:00:00:00:00:01", "1:2:3:4:5:6"] {
            assert!(mac(text).is_err(), "{text}");
        }
        assert_eq!((rewrite("macs"), rewrite("none")), (Ok(Rewrite::Macs), Ok(Rewrite::None)));
        assert!(rewrite("all").is_err());
    }
}
