//! The link between the two sides: to another host, loopback, or a veth pair between two namespaces that only the workers hold.
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
use std::str::FromStr;

use hairpin_plan::path::LinkKind;
use hairpin_record::run::Link;
use hairpin_sys::netns;
use hairpin_units::{BitRate, parse_number};

use crate::message::{Answer, LinkEnd, Namespace, Order};
use crate::side::{SideError, WorkerSide};

/// The client's end of the pair.
pub const CLIENT_END: &str = "hairpin0";
/// The server's end of the pair.
pub const SERVER_END: &str = "hairpin1";

/// A link that Hairpin makes or uses on this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkSpec {
    Loopback,
    /// A veth pair between two network namespaces.
    Veth(VethSpec),
}

/// Options of a veth pair; the kernel's defaults apply to those not given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VethSpec {
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
    /// Neither loopback nor veth.
    #[error("there is no link \"{0}\"; there are: loopback, veth")]
    Kind(String),
    /// Loopback takes no options.
    #[error("loopback takes no options, veth does: veth:{0}")]
    Loopback(String),
    /// veth has no such option.
    #[error("veth has no option \"{0}\"; there are: mtu, queues, tx-queues, gro, tso, rate, timestamps")]
    Key(String),
    /// The option does not take this value.
    #[error("veth: {key}={value}: {key} takes {takes}")]
    Value {
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
            ("veth", options) => Ok(LinkSpec::Veth(veth(options.unwrap_or_default())?)),
            _ => Err(LinkError::Kind(kind.into())),
        }
    }
}

fn veth(options: &str) -> Result<VethSpec, LinkError> {
    let mut spec = VethSpec::default();
    for option in options.split(',').filter(|option| !option.is_empty()) {
        let (key, value) = option.split_once('=').ok_or_else(|| LinkError::Key(option.into()))?;
        let bad = |takes| LinkError::Value { key: key.into(), value: value.into(), takes };
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
            "mtu" => spec.mtu = number(68, 65_535, "68..65535")?,
            "queues" => spec.queues = number(1, 4096, "1..4096")?,
            "tx-queues" => spec.tx_queues = number(1, 4096, "1..4096")?,
            "gro" => spec.gro = switch()?,
            "tso" => spec.tso = switch()?,
            "timestamps" => spec.timestamps = switch()?,
            "rate" => spec.rate = Some(value.parse().map_err(|_| bad("a bit rate such as 1G"))?),
            _ => return Err(LinkError::Key(key.into())),
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
        .collect()
    }

    fn end(&self, interface: &str, host: u16) -> LinkEnd {
        let v4 = Ipv4Addr::new(198, 18, 0, host as u8);
        let v6 = Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, host);
        // An MTU below 1280 leaves no room for IPv6 (RFC 8200, section 5).
        let mut addresses = vec![(IpAddr::from(v4), 30)];
        if self.mtu.is_none_or(|mtu| mtu >= 1280) {
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
        server.order(&Order::MakePair {
            mtu: self.mtu,
            queues: self.queues,
            tx_queues: self.tx_queues,
            peer_pid: client.pid(),
        })?;
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
            LinkSpec::Veth(_) => LinkKind::Veth,
        }
    }

    /// The addresses of client and server.
    pub fn addresses(&self, ipv6: bool) -> (IpAddr, IpAddr) {
        match (self, ipv6) {
            (LinkSpec::Loopback, false) => (Ipv4Addr::LOCALHOST.into(), Ipv4Addr::LOCALHOST.into()),
            (LinkSpec::Loopback, true) => (Ipv6Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()),
            (LinkSpec::Veth(_), false) => (Ipv4Addr::new(198, 18, 0, 1).into(), Ipv4Addr::new(198, 18, 0, 2).into()),
            (LinkSpec::Veth(_), true) => {
                let host = |host| IpAddr::from(Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, host));
                (host(1), host(2))
            }
        }
    }

    /// The client's interface.
    pub fn interface(&self) -> &'static str {
        match self {
            LinkSpec::Loopback => "lo",
            LinkSpec::Veth(_) => CLIENT_END,
        }
    }

    /// The server's interface.
    pub fn server_interface(&self) -> &'static str {
        match self {
            LinkSpec::Loopback => "lo",
            LinkSpec::Veth(_) => SERVER_END,
        }
    }

    /// The link as the record holds it; `mtu` comes from the client's facts.
    pub fn record(&self, mtu: Option<u64>) -> Link {
        let (kind, options) = match self {
            LinkSpec::Loopback => ("loopback", BTreeMap::new()),
            LinkSpec::Veth(veth) => ("veth", veth.options()),
        };
        Link { kind: kind.into(), interface: Some(self.interface().into()), mtu, peer: None, options }
    }

    /// Sets the link up between both workers. For veth: namespaces first, then the pair in one request, then each end.
    pub fn set_up(&self, client: &mut WorkerSide, server: &mut WorkerSide) -> Result<(), SideError> {
        let LinkSpec::Veth(veth) = self else { return Ok(()) };
        veth.join(client, server, [veth.end(CLIENT_END, 1), veth.end(SERVER_END, 2)])
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
        assert_eq!(all.record(None).options["timestamps"], "off");
    }

    #[test]
    fn mistakes_list_existing_names() {
        for (text, part) in [
            ("wifi", "there are: loopback, veth"),
            ("loopback:mtu=9000", "veth:mtu=9000"),
            ("veth:mut=1", "no option \"mut\""),
            ("veth:mtu=67", "mtu takes 68..65535"),
            ("veth:gro=yes", "gro takes on|off"),
            ("veth:rate=fast", "rate takes a bit rate"),
        ] {
            let message = text.parse::<LinkSpec>().unwrap_err().to_string();
            assert!(message.contains(part), "{message}");
        }
    }
}
