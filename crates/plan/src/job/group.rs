//! `--group ADDR[%IF][:PORT]`: a multicast group that is asked in place of one server.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use hairpin_wire::probe;

use super::check::{Refused, refuse};
use super::{Job, scoped};
use crate::option::SUSPEND_USECS;
use crate::paths::PATHS;

/// The port of requests to a group, if none is given.
pub const PORT: u16 = 24_446;
/// Most responders told apart: a memory limit, also against one that answers from many ports.
pub const MOST_RESPONDERS: usize = 64;
/// The upper half of every cookie in a request to a group: responders answer nothing else, such as the datagrams of other senders
/// to the same group.
const MARK: u64 = u32::from_le_bytes(*b"HRPG") as u64;

/// A multicast group, and who is expected to answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    pub address: IpAddr,
    pub port: u16,
    /// The interface that leads to the group; `None`: as the routes say.
    pub interface: Option<String>,
    /// Number of responders; `None`: those found in a round before the first row.
    pub responders: Option<u32>,
}

impl Group {
    /// The address that requests are sent to; `interface` is the index of the interface, or 0.
    pub fn to(&self, interface: u32) -> SocketAddr {
        scoped(self.address, self.port, interface)
    }

    /// The cookie of a run's requests, made of a random number.
    pub fn cookie(random: u64) -> u64 {
        MARK << 32 | random & u64::from(u32::MAX)
    }

    /// True for the cookie of a request to a group.
    pub fn is_marked(cookie: u64) -> bool {
        cookie >> 32 == MARK
    }
}

impl Job {
    /// Refuses jobs that a group cannot do.
    pub(super) fn check_group(&self, ipv6: bool) -> Result<(), Refused> {
        let Some(group) = &self.group else { return Ok(()) };
        for side in [&self.spec.client, &self.spec.server] {
            refuse(side.path.takes_group, || {
                let known: Vec<&str> = PATHS.iter().filter(|path| path.takes_group).map(|path| path.name).collect();
                format!("--group takes --path {}, on both sides, not {}", known.join(", "), side.path.name)
            })?;
            refuse(side.options.get(&SUSPEND_USECS).is_none(), || {
                "suspend-usecs is of one flow's device: leave it out with --group".into()
            })?;
        }
        refuse(group.address.is_ipv6() == ipv6, || {
            format!("{} is of the other family: leave out -6, or give a group of IPv6", group.address)
        })?;
        refuse(group.responders.is_none_or(|count| (1..=MOST_RESPONDERS as u32).contains(&count)), || {
            format!("--responders takes 1 to {MOST_RESPONDERS}")
        })?;
        let one = (self.flows, self.threads, self.outstanding) == (1, 1, 1);
        refuse(one && self.open.is_none(), || {
            "a group is asked one request at a time: leave out --flows, --threads and --outstanding".into()
        })?;
        refuse(self.request == self.reply, || {
            format!(
                "a responder returns as many bytes as came: a request of {} bytes has no reply of {}",
                self.request, self.reply
            )
        })?;
        refuse(self.request as usize >= probe::LEN, || {
            format!(
                "replies of a group are told by {} bytes of sequence number and cookie, not {}: use larger payloads",
                probe::LEN,
                self.request
            )
        })?;
        let beside = [
            ("--hw-stamps", self.nic_stamps.is_some()),
            ("--one-way", self.traced),
            ("--raw", self.raw),
            ("--request", self.own.is_some()),
        ];
        match beside.into_iter().find(|(_, is_given)| *is_given) {
            Some((flag, _)) => refuse(false, || format!("{flag} is of one server: leave it out with --group")),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let interface = self.interface.as_ref().map_or(String::new(), |name| format!("%{name}"));
        match self.address {
            IpAddr::V4(address) => write!(f, "{address}{interface}:{}", self.port),
            IpAddr::V6(address) => write!(f, "[{address}{interface}]:{}", self.port),
        }
    }
}

impl FromStr for Group {
    type Err = String;

    fn from_str(text: &str) -> Result<Group, String> {
        let bad = || {
            format!("\"{text}\" is not a group: write ADDR[%IF][:PORT], such as 239.255.0.1%eth1:{PORT} or [ff15::1%eth1]:{PORT}")
        };
        let (bare, port) = match text.strip_prefix('[').map(|rest| rest.split_once(']').ok_or_else(bad)).transpose()? {
            Some((bare, port)) => (bare, Some(port).filter(|port| !port.is_empty())),
            // An address with several colons (IPv6) has no port without brackets.
            None if text.matches(':').count() == 1 => {
                let (bare, port) = text.split_at(text.find(':').unwrap_or_default());
                (bare, Some(port))
            }
            None => (text, None),
        };
        let port = match port {
            None => PORT,
            Some(port) => port.strip_prefix(':').and_then(|port| port.parse().ok()).filter(|port| *port > 0).ok_or_else(bad)?,
        };
        let (address, interface) = bare.split_once('%').map_or((bare, None), |(address, name)| (address, Some(name)));
        let is_name =
            |name: &str| (1..16).contains(&name.len()) && !name.contains(['/', '%', ':']) && !name.contains(char::is_whitespace);
        let address: IpAddr = address.parse().map_err(|_| bad())?;
        if !interface.is_none_or(is_name) {
            return Err(bad());
        }
        if !address.is_multicast() {
            return Err(format!(
                "{address} is no multicast address: a group is one of 224.0.0.0/4 or ff00::/8, such as 239.255.0.1 or ff15::1; one server alone is HOST, without --group"
            ));
        }
        Ok(Group { address, port, interface: interface.map(str::to_owned), responders: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_parse_and_print() {
        for (text, printed) in [
            ("239.255.0.1", "239.255.0.1:24446"),
            ("239.255.0.1:7", "239.255.0.1:7"),
            ("239.255.0.1%eth1", "239.255.0.1%eth1:24446"),
            ("239.255.0.1%eth1:7", "239.255.0.1%eth1:7"),
            ("ff15::1", "[ff15::1]:24446"),
            ("[ff15::1]", "[ff15::1]:24446"),
            ("ff02::1:3%eth1", "[ff02::1:3%eth1]:24446"),
            ("[ff02::1:3%eth1]:7", "[ff02::1:3%eth1]:7"),
        ] {
            let group: Group = text.parse().unwrap();
            assert_eq!(group.to_string(), printed);
            assert_eq!(printed.parse(), Ok(group));
        }
        for text in [
            "",
            "x",
            "239.255.0.1:0",
            "239.255.0.1:x",
            "239.255.0.1%",
            "239.255.0.1%a/b",
            "[ff15::1",
            "[ff15::1]7",
            "239.255.0.1:7%eth1",
        ] {
            assert!(text.parse::<Group>().unwrap_err().contains("is not a group"), "{text}");
        }
        for text in ["192.0.2.1", "10.0.0.255%eth0:7", "fe80::1%eth0", "::1"] {
            assert!(text.parse::<Group>().unwrap_err().contains("no multicast address"), "{text}");
        }
    }

    #[test]
    fn a_request_to_a_group_is_known_by_its_cookie() {
        let [one, other] = [1, u64::MAX].map(Group::cookie);
        assert!(Group::is_marked(one) && Group::is_marked(other) && one != other);
        assert!(!Group::is_marked(0) && !Group::is_marked(u64::MAX));
    }

    #[test]
    fn refuses_what_a_group_cannot_be_asked() {
        use crate::job::NicStamps;
        let text = |spec: &str, change: fn(&mut Job)| {
            let mut job = Job { group: Some("239.255.0.1".parse().unwrap()), ..Job::new(spec.parse().unwrap()) };
            change(&mut job);
            job.check(false).map_or_else(|error| error.to_string(), |()| "goes".into())
        };
        assert_eq!(text("udp:spin/block", |job| (job.request, job.reply) = (16, 16)), "goes");
        for (spec, change, part) in [
            ("tcp", (|_| {}) as fn(&mut Job), "--group takes --path udp, on both sides, not tcp"),
            ("udp/packet", |_| {}, "not packet"),
            ("udp:epoll,busy-usecs=50,prefer=on,suspend-usecs=500", |_| {}, "suspend-usecs is of one flow's device"),
            ("udp", |job| job.group = Some("ff15::1".parse().unwrap()), "of the other family"),
            ("udp:poll", |job| job.flows = 2, "one request at a time"),
            ("udp", |job| job.outstanding = 2, "one request at a time"),
            ("udp", |job| job.reply = 1_000, "has no reply of 1000"),
            ("udp", |job| (job.request, job.reply) = (15, 15), "16 bytes of sequence number and cookie"),
            ("udp", |job| job.nic_stamps = Some(NicStamps::default()), "--hw-stamps is of one server"),
            ("udp", |job| job.raw = true, "--raw is of one server"),
        ] {
            assert!(text(spec, change).contains(part), "{spec}: {}", text(spec, change));
        }
        let many = |job: &mut Job| job.group.as_mut().unwrap().responders = Some(65);
        assert!(text("udp", many).contains("1 to 64"));
    }
}
