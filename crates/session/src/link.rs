//! The link between the two sides of a run on this host: loopback, a link between two network namespaces that only the workers
//! hold, or whatever connects two namespaces that exist.
//!
//! ```text
//!      client's worker                         server's worker
//!   ┌─ own network namespace ─┐             ┌─ own network namespace ─┐
//!   │ hairpin0   198.18.0.1/30├─── veth ────┤198.18.0.2/30   hairpin1 │      198.18.0.0/15 (RFC 2544) and 2001:2::/48 (RFC 5180)
//!   │            2001:2::1/64 │             │2001:2::2/64             │      are set aside for benchmarks
//!   └─────────────────────────┘             └─────────────────────────┘
//! ```
//! The namespaces have no names: when the workers end, however they end, the kernel removes both and the pair.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::str::FromStr;

use hairpin_plan::path::LinkKind;
use hairpin_record::run::Link;
use hairpin_sys::netns;
use hairpin_units::{BitRate, Gather, parse_number};

use crate::message::{Answer, At, Failure, LinkEnd, Medium, Namespace, Order, Overlay};
use crate::side::{SideError, WorkerSide};

/// The client's end of the pair.
pub const CLIENT_END: &str = "hairpin0";
/// The server's end of the pair.
pub const SERVER_END: &str = "hairpin1";
/// Addresses of the pair below a VXLAN, client's and server's.
const BELOW: [Ipv4Addr; 2] = [Ipv4Addr::new(198, 19, 0, 1), Ipv4Addr::new(198, 19, 0, 2)];

/// Bytes that a VXLAN adds to a frame over IPv4 (RFC 7348, section 5).
pub const VXLAN_BYTES: u32 = 50;

/// The smallest MTU of a link that carries IPv6 (RFC 8200, section 5).
pub const IPV6_MTU: u32 = 1280;

/// The host part of the server's address; the client's is 1.
const FIRST_SERVER: u16 = 2;

fn address(host: u16, ipv6: bool) -> IpAddr {
    if ipv6 { Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, host).into() } else { Ipv4Addr::new(198, 18, 0, host as u8).into() }
}

/// A link that Hairpin makes or uses on this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkSpec {
    Loopback,
    /// A veth pair between two network namespaces, or another medium.
    Veth(VethSpec),
    /// Network namespaces that exist.
    Netns(Namespaces),
}

/// Two network namespaces that exist, such as those of two containers: each a name of ip-netns(8), a path, or the number of a
/// process in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespaces {
    pub client: String,
    pub server: String,
}

impl FromStr for Namespaces {
    type Err = String;

    fn from_str(text: &str) -> Result<Namespaces, String> {
        let both = text.split_once(',').filter(|(client, server)| is_namespace(client) && is_namespace(server));
        let both = both.map(|(client, server)| Namespaces { client: client.into(), server: server.into() });
        both.ok_or_else(|| {
            format!("\"{text}\" is not two network namespaces: write A,B, each a name in /run/netns, a path, or the number of a process")
        })
    }
}

fn is_namespace(word: &str) -> bool {
    word.starts_with('/') || (!word.is_empty() && !word.contains(['/', ',']) && !word.starts_with('.'))
}

/// The file of a network namespace: that of a process, of a path, or of a name (ip-netns(8)).
#[must_use]
pub fn namespace_file(word: &str) -> PathBuf {
    match word.parse::<u32>() {
        Ok(pid) => format!("/proc/{pid}/ns/net").into(),
        Err(_) => PathBuf::from("/run/netns").join(word),
    }
}

/// The two ends of a link that is set up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ends {
    pub client: At,
    pub server: At,
}

/// A link between two network namespaces; the kernel's defaults apply to options not given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VethSpec {
    pub medium: Medium,
    /// MTU of both ends in bytes.
    pub mtu: Option<u32>,
    pub queues: Option<u32>,
    /// Transmit queues of both ends, if not `queues`: AF_XDP sends on one beyond the receive queues.
    pub tx_queues: Option<u32>,
    /// Generic receive offload of both ends.
    pub gro: Option<bool>,
    /// TCP segmentation offload of both ends.
    pub tso: Option<bool>,
    /// Outgoing rate of both ends (tbf qdisc).
    pub rate: Option<BitRate>,
    /// TCP timestamps in both namespaces.
    pub timestamps: Option<bool>,
}

/// Why a text is not a link.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// No link of that name.
    #[error("there is no link \"{0}\"; there are: loopback, {names}, netns:A,B", names = Medium::ALL.map(Medium::name).join(", "))]
    Kind(String),
    /// Not two namespaces.
    #[error("{0}")]
    Namespaces(String),
    /// Loopback takes no options.
    #[error("loopback takes no options, veth does: veth:{0}")]
    Loopback(String),
    /// The link has no such option.
    #[error("{link} has no option \"{key}\"; there are: {}gro, tso, rate, timestamps", if has_queues(.link) { "mtu, queues, tx-queues, " } else { "mtu, " })]
    Key { link: &'static str, key: String },
    /// The option does not take this value.
    #[error("{link}: {key}={value}: {key} takes {takes}")]
    Value {
        link: &'static str,
        key: String,
        value: String,
        /// The values it takes.
        takes: &'static str,
    },
}

impl FromStr for LinkSpec {
    type Err = LinkError;

    fn from_str(text: &str) -> Result<LinkSpec, LinkError> {
        let (kind, options) = text.split_once(':').map_or((text, None), |(kind, options)| (kind, Some(options)));
        match (kind, options) {
            ("loopback" | "lo", None) => Ok(LinkSpec::Loopback),
            ("loopback" | "lo", Some(options)) => Err(LinkError::Loopback(options.into())),
            ("netns", Some(names)) => names.parse().map(LinkSpec::Netns).map_err(LinkError::Namespaces),
            _ => match Medium::ALL.into_iter().find(|medium| medium.name() == kind) {
                Some(medium) => Ok(LinkSpec::Veth(between(medium, options.unwrap_or_default())?)),
                None => Err(LinkError::Kind(kind.into())),
            },
        }
    }
}

/// True for links whose ends are those of veth pairs.
fn has_queues(link: &str) -> bool {
    [Medium::Veth, Medium::Bridge].map(Medium::name).contains(&link)
}

fn between(medium: Medium, options: &str) -> Result<VethSpec, LinkError> {
    let link = medium.name();
    let mut spec = VethSpec { medium, ..VethSpec::default() };
    for option in options.split(',').filter(|option| !option.is_empty()) {
        let no_such = |key: &str| LinkError::Key { link, key: key.into() };
        let (key, value) = option.split_once('=').ok_or_else(|| no_such(option))?;
        let bad = |takes| LinkError::Value { link, key: key.into(), value: value.into(), takes };
        let switch = || match value {
            "on" => Ok(Some(true)),
            "off" => Ok(Some(false)),
            _ => Err(bad("on|off")),
        };
        let number = |least: u32, most: u32, takes| {
            let number = parse_number(value).ok().and_then(|number| u32::try_from(number).ok());
            number.filter(|n| (least..=most).contains(n)).map(Some).ok_or_else(|| bad(takes))
        };
        match key {
            "mtu" if medium == Medium::Vxlan => spec.mtu = number(68, 65_535 - VXLAN_BYTES, "68..65485")?,
            "mtu" => spec.mtu = number(68, 65_535, "68..65535")?,
            "queues" if has_queues(link) => spec.queues = number(1, 4096, "1..4096")?,
            "tx-queues" if has_queues(link) => spec.tx_queues = number(1, 4096, "1..4096")?,
            "gro" => spec.gro = switch()?,
            "tso" => spec.tso = switch()?,
            "timestamps" => spec.timestamps = switch()?,
            "rate" => spec.rate = Some(value.parse().map_err(|_| bad("a bit rate such as 1G"))?),
            _ => return Err(no_such(key)),
        }
    }
    Ok(spec)
}

impl VethSpec {
    fn options(&self) -> BTreeMap<String, String> {
        let switch = |on: bool| if on { "on" } else { "off" }.to_owned();
        [
            ("mtu", self.mtu.map(|mtu| mtu.to_string())),
            ("queues", self.queues.map(|queues| queues.to_string())),
            ("tx-queues", self.tx_queues.map(|queues| queues.to_string())),
            ("gro", self.gro.map(switch)),
            ("tso", self.tso.map(switch)),
            ("rate", self.rate.map(|rate| rate.to_string())),
            ("timestamps", self.timestamps.map(switch)),
        ]
        .into_iter()
        .filter_map(|(key, value)| Some((key.to_owned(), value?)))
        .gather()
    }

    fn end(&self, interface: &str, host: u16) -> LinkEnd {
        let v4 = Ipv4Addr::new(198, 18, 0, host as u8);
        let v6 = Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, host);
        // A bridge has room for more servers.
        let prefix = if self.medium == Medium::Bridge { 24 } else { 30 };
        let mut addresses = vec![(IpAddr::from(v4), prefix)];
        if self.mtu.is_none_or(|mtu| mtu >= IPV6_MTU) {
            addresses.push((IpAddr::from(v6), 64));
        }
        let VethSpec { gro, tso, rate, timestamps, .. } = *self;
        LinkEnd { interface: interface.into(), addresses, gro, tso, rate, timestamps, quiet: false }
    }

    /// An end without addresses, on which the kernel sends nothing of its own: every frame counted is ours.
    fn quiet_end(&self, interface: &str) -> LinkEnd {
        LinkEnd { addresses: Vec::new(), quiet: true, ..self.end(interface, 0) }
    }
}

impl VethSpec {
    /// Both ends with their addresses.
    pub fn ends(&self, ipv6: bool) -> Ends {
        let at = |interface: &str, host| At { interface: interface.into(), address: address(host, ipv6) };
        Ends { client: at(CLIENT_END, 1), server: at(SERVER_END, FIRST_SERVER) }
    }

    /// Puts each worker into its own namespaces, joined by a pair that carries only numbered frames.
    pub fn set_up_quiet(&self, client: &mut WorkerSide, server: &mut WorkerSide) -> Result<(), SideError> {
        self.join(client, server, [self.quiet_end(CLIENT_END), self.quiet_end(SERVER_END)])
    }

    /// Creates the namespaces, then the pair in one request, then sets up each end.
    fn join(&self, client: &mut WorkerSide, server: &mut WorkerSide, ends: [LinkEnd; 2]) -> Result<(), SideError> {
        let (first, second) = match netns::can_make() {
            netns::Support::Privileged => (Namespace::New, Namespace::New),
            _ => (Namespace::NewUser, Namespace::JoinUser(server.pid())),
        };
        entered(server.order(&Order::Enter(first))?)?;
        entered(client.order(&Order::Enter(second))?)?;
        server.order(&Order::MakeLink {
            medium: self.medium,
            mtu: self.mtu,
            queues: self.queues,
            tx_queues: self.tx_queues,
            peer_pid: client.pid(),
        })?;
        if self.medium == Medium::Vxlan {
            let [local, remote] = BELOW;
            client.order(&Order::MakeOverlay(Overlay { interface: CLIENT_END.into(), local, remote }))?;
            server.order(&Order::MakeOverlay(Overlay { interface: SERVER_END.into(), local: remote, remote: local }))?;
        }
        let [clients, servers] = ends;
        server.order(&Order::SetUp(servers))?;
        client.order(&Order::SetUp(clients))?;
        Ok(())
    }
}

impl LinkSpec {
    /// The kind of link, for the paths' support check.
    pub fn kind(&self) -> LinkKind {
        match self {
            LinkSpec::Loopback => LinkKind::Loopback,
            LinkSpec::Veth(_) | LinkSpec::Netns(_) => LinkKind::Veth,
        }
    }

    /// True if a word names a link, and not a host of that name with a port.
    pub fn is_named(word: &str) -> bool {
        let (kind, options) = word.split_once(':').unwrap_or((word, ""));
        let is_port = !options.is_empty() && options.bytes().all(|byte| byte.is_ascii_digit());
        let named =
            matches!(kind, "loopback" | "lo") && options.is_empty() || Medium::ALL.iter().any(|medium| medium.name() == kind);
        (named && !is_port) || (kind == "netns" && !options.is_empty())
    }

    /// The name of the link's kind.
    pub fn name(&self) -> &'static str {
        match self {
            LinkSpec::Loopback => "loopback",
            LinkSpec::Veth(link) => link.medium.name(),
            LinkSpec::Netns(_) => "netns",
        }
    }

    /// The link as the record holds it; `mtu` comes from the client's facts.
    pub fn record(&self, ends: &Ends, mtu: Option<u64>) -> Link {
        let options = match self {
            LinkSpec::Loopback => BTreeMap::new(),
            LinkSpec::Veth(veth) => veth.options(),
            LinkSpec::Netns(Namespaces { client, server }) => {
                [("client".to_owned(), client.clone()), ("server".to_owned(), server.clone())].into()
            }
        };
        let peer = matches!(self, LinkSpec::Netns(_)).then(|| ends.server.address.to_string());
        Link { kind: self.name().into(), interface: Some(ends.client.interface.clone()), mtu, peer, options, group: None }
    }

    /// Puts another server's worker, number `index` from 1, on the link that is set up, whose server's end is `at`. On a bridge
    /// it has a namespace and an address of its own, elsewhere it is beside the first.
    pub fn add(&self, server: &mut WorkerSide, side: &mut WorkerSide, at: &At, index: u32) -> Result<At, SideError> {
        match self {
            LinkSpec::Loopback => {}
            LinkSpec::Veth(veth) if veth.medium == Medium::Bridge => {
                let own = match netns::can_make() {
                    netns::Support::Privileged => Namespace::New,
                    _ => Namespace::JoinUser(server.pid()),
                };
                entered(side.order(&Order::Enter(own))?)?;
                let VethSpec { mtu, queues, tx_queues, .. } = *veth;
                server.order(&Order::MakePort { mtu, queues, tx_queues, peer_pid: side.pid(), port: index })?;
                let host = FIRST_SERVER + index as u16;
                side.order(&Order::SetUp(veth.end(SERVER_END, host)))?;
                return Ok(At { interface: SERVER_END.into(), address: address(host, at.address.is_ipv6()) });
            }
            LinkSpec::Veth(_) => entered(side.order(&Order::Enter(Namespace::JoinNetwork(server.pid())))?)?,
            LinkSpec::Netns(names) => entered(side.order(&Order::Enter(Namespace::JoinFile(namespace_file(&names.server))))?)?,
        }
        Ok(at.clone())
    }

    /// Sets the link up between both workers. For veth: namespaces first, then the pair in one request, then each end.
    pub fn set_up(&self, client: &mut WorkerSide, server: &mut WorkerSide, ipv6: bool) -> Result<Ends, SideError> {
        let at = |interface: &str, address: IpAddr| At { interface: interface.into(), address };
        match self {
            LinkSpec::Loopback => {
                let address = if ipv6 { Ipv6Addr::LOCALHOST.into() } else { Ipv4Addr::LOCALHOST.into() };
                Ok(Ends { client: at("lo", address), server: at("lo", address) })
            }
            LinkSpec::Veth(veth) => {
                veth.join(client, server, [veth.end(CLIENT_END, 1), veth.end(SERVER_END, FIRST_SERVER)])?;
                Ok(veth.ends(ipv6))
            }
            LinkSpec::Netns(namespaces) => namespaces.enter(client, server, ipv6),
        }
    }
}

impl Namespaces {
    /// Each worker enters its namespace; then an address of the server's is found to which both have a route.
    fn enter(&self, client: &mut WorkerSide, server: &mut WorkerSide, ipv6: bool) -> Result<Ends, SideError> {
        for (worker, name) in [(&mut *client, &self.client), (&mut *server, &self.server)] {
            entered(worker.order(&Order::Enter(Namespace::JoinFile(namespace_file(name))))?)?;
        }
        let [ours, theirs] = [addresses(client)?, addresses(server)?];
        let family = if ipv6 { "IPv6" } else { "IPv4 or IPv6" };
        // IPv4 first, as elsewhere.
        let of_family = |v6: bool| theirs.iter().filter(move |at| at.address.is_ipv6() == v6 && (v6 || !ipv6));
        let wanted: Vec<&At> = of_family(false).chain(of_family(true)).collect();
        for to in &wanted {
            let Some(from) = towards(client, to.address)? else { continue };
            let Some(from) = ours.iter().find(|at| at.address == from) else { continue };
            if towards(server, from.address)? == Some(to.address) && from.address != to.address {
                return Ok(Ends { client: from.clone(), server: (*to).clone() });
            }
        }
        let listed = wanted.iter().map(|at| at.address.to_string()).collect::<Vec<_>>().join(", ");
        let why = match (listed.is_empty(), are_one(&self.client, &self.server)) {
            (true, _) => format!("the namespace {} has no {family} address but loopback's", self.server),
            (_, true) => {
                format!("{} and {} are one network namespace: inside of it the target is loopback", self.client, self.server)
            }
            _ => format!("no route leads from the namespace {} to {listed} in {} and back", self.client, self.server),
        };
        Err(SideError::Failed(Failure { message: why, missing: true }))
    }
}

/// True for two words for one network namespace. Two containers may have the same addresses.
fn are_one(client: &str, server: &str) -> bool {
    let of = |word: &str| std::fs::metadata(namespace_file(word)).ok().map(|file| (file.dev(), file.ino()));
    of(client).is_some_and(|found| of(server) == Some(found))
}

fn addresses(worker: &mut WorkerSide) -> Result<Vec<At>, SideError> {
    match worker.order(&Order::Addresses)? {
        Answer::Addresses(addresses) => Ok(addresses),
        other => Err(SideError::OutOfTurn(format!("{other:?}"))),
    }
}

fn towards(worker: &mut WorkerSide, address: IpAddr) -> Result<Option<IpAddr>, SideError> {
    match worker.order(&Order::Towards(address))? {
        Answer::From(from) => Ok(from),
        other => Err(SideError::OutOfTurn(format!("{other:?}"))),
    }
}

fn entered(answer: Answer) -> Result<(), SideError> {
    match answer {
        Answer::Entered { .. } => Ok(()),
        other => Err(SideError::OutOfTurn(format!("{other:?}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_parse() {
        assert_eq!("loopback".parse(), Ok(LinkSpec::Loopback));
        let all: LinkSpec = "veth:mtu=9000,queues=2,tx-queues=4,gro=on,tso=off,rate=1G,timestamps=off".parse().unwrap();
        assert_eq!("veth:mtu=9k".parse::<LinkSpec>(), "veth:mtu=9000".parse());
        let LinkSpec::Veth(veth) = &all else { panic!("{all:?}") };
        assert_eq!((veth.mtu, veth.queues, veth.tx_queues), (Some(9000), Some(2), Some(4)));
        assert_eq!((veth.gro, veth.tso), (Some(true), Some(false)));
        assert_eq!(veth.rate, Some(BitRate(1_000_000_000)));
        assert_eq!(all.record(&veth.ends(false), None).options["timestamps"], "off");
        let vxlan: LinkSpec = "vxlan:mtu=65485".parse().unwrap();
        assert_eq!((vxlan.name(), vxlan.kind()), ("vxlan", LinkKind::Veth));
        let both = Namespaces { client: "blue".into(), server: "/proc/7/ns/net".into() };
        assert_eq!("netns:blue,/proc/7/ns/net".parse(), Ok(LinkSpec::Netns(both)));
        let file = |word| namespace_file(word).display().to_string();
        assert_eq!([file("blue"), file("4711"), file("/x/y")], ["/run/netns/blue", "/proc/4711/ns/net", "/x/y"]);
    }

    #[test]
    fn a_namespace_is_known_by_its_file() {
        let own = std::process::id().to_string();
        assert!(are_one("/proc/self/ns/net", &own));
        assert!(!are_one("/proc/self/ns/net", "/proc/self/ns/mnt") && !are_one("/no/such", "/no/such"));
    }

    #[test]
    fn mistakes_list_existing_names() {
        for (text, part) in [
            ("wifi", "there are: loopback, veth"),
            ("netns:blue", "is not two network namespaces"),
            ("netns:blue,../x", "is not two network namespaces"),
            ("macvlan:queues=2", "macvlan has no option \"queues\"; there are: mtu, gro"),
            ("loopback:mtu=9000", "veth:mtu=9000"),
            ("veth:mut=1", "no option \"mut\""),
            ("veth:mtu=67", "mtu takes 68..65535"),
            ("vxlan:mtu=65486", "mtu takes 68..65485"),
            ("veth:gro=yes", "gro takes on|off"),
            ("veth:rate=fast", "rate takes a bit rate"),
        ] {
            let message = text.parse::<LinkSpec>().unwrap_err().to_string();
            assert!(message.contains(part), "{message}");
        }
    }
}
