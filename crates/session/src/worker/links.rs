//! Makes the link between two network namespaces, from the server's, which holds everything between the ends.
//!
//! ```text
//!             client's namespace          server's namespace
//!   veth      hairpin0 ───────────────────────────────────── hairpin1         netkit: the same, as a netkit pair
//!   bridge    hairpin0 ──── hairpin2 ─ hairpin-br ─ hairpin3 ──── hairpin1
//!   macvlan   hairpin0 ──┐above hairpin2┌── hairpin1                          ipvlan: the same; hairpin2 ──── hairpin3 gives the parent a carrier
//!   vxlan     hairpin0
//!             hairpin2 ───────────────────────────────────── hairpin2         VXLAN above a veth pair
//!                                                            hairpin1
//! ```

use std::net::IpAddr;

use hairpin_sys::netlink::{Netlink, NetlinkError, PairKind, VethConfig, VirtualLink};
use hairpin_sys::netns::{self, SysctlError};

use crate::address::local_address_towards;
use crate::link::{CLIENT_END, SERVER_END, VXLAN_BYTES};
use crate::message::{At, Medium, Overlay};

const BRIDGE: &str = "hairpin-br";
/// Links between the ends, or below them.
const BETWEEN: [&str; 2] = ["hairpin2", "hairpin3"];
/// Number of the last of [`BETWEEN`].
const PORTS: u32 = 3;

/// Why a link was not made.
#[derive(Debug, thiserror::Error)]
pub enum MakeError {
    #[error("{error}: this kernel has no {name}, or its module is not loaded: modprobe {name}", name = .medium.name())]
    Unknown { medium: Medium, error: NetlinkError },
    #[error(transparent)]
    Netlink(#[from] NetlinkError),
    #[error(transparent)]
    Sysctl(#[from] SysctlError),
}

/// Number of queues and the MTU of an end, and the process in whose namespace the client's end is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ends {
    pub(super) mtu: Option<u32>,
    pub(super) queues: Option<u32>,
    pub(super) tx_queues: Option<u32>,
    pub(super) peer_pid: u32,
}

impl Ends {
    fn pair(self, name: &str, peer_name: &str) -> VethConfig {
        let Ends { mtu, queues, tx_queues, peer_pid } = self;
        VethConfig { name: name.into(), peer_name: peer_name.into(), mtu, queues, tx_queues, peer_pid }
    }

    /// Both ends in this namespace.
    fn here(self) -> Ends {
        Ends { peer_pid: std::process::id(), ..self }
    }
}

/// Makes what `medium` takes, seen from the server's side.
pub(super) fn make(medium: Medium, ends: Ends) -> Result<(), MakeError> {
    link(medium, ends).map_err(|error| match error {
        MakeError::Netlink(error) if error.is_unknown() => MakeError::Unknown { medium, error },
        error => error,
    })
}

fn link(medium: Medium, ends: Ends) -> Result<(), MakeError> {
    let netlink = Netlink::open()?;
    let [first, second] = BETWEEN;
    match medium {
        Medium::Veth => netlink.create_veth(&ends.pair(SERVER_END, CLIENT_END))?,
        Medium::Netkit => netlink.create_pair(PairKind::Netkit, &ends.pair(SERVER_END, CLIENT_END))?,
        Medium::Bridge => {
            netlink.create(BRIDGE, VirtualLink::Bridge, None)?;
            netlink.create_veth(&ends.pair(first, CLIENT_END))?;
            netlink.create_veth(&ends.here().pair(second, SERVER_END))?;
            keep_apart(&[BRIDGE, first, second])?;
            BETWEEN.iter().try_for_each(|port| netlink.attach(port, BRIDGE))?;
            [BRIDGE, first, second].iter().try_for_each(|link| netlink.set_up(link))?;
        }
        Medium::Macvlan | Medium::Ipvlan => {
            netlink.create_veth(&ends.here().pair(first, second))?;
            keep_apart(&BETWEEN)?;
            BETWEEN.iter().try_for_each(|link| netlink.set_up(link))?;
            let above = if medium == Medium::Macvlan {
                VirtualLink::Macvlan { parent: first }
            } else {
                VirtualLink::Ipvlan { parent: first }
            };
            netlink.create(CLIENT_END, above, Some(ends.peer_pid))?;
            netlink.create(SERVER_END, above, None)?;
        }
        Medium::Vxlan => {
            let below = Ends { mtu: ends.mtu.map(|mtu| mtu + VXLAN_BYTES), ..ends };
            netlink.create_veth(&below.pair(first, first))?;
        }
    }
    Ok(())
}

/// Adds port `port` to the bridge, and another server's end behind it.
pub(super) fn port(ends: Ends, port: u32) -> Result<(), MakeError> {
    let (netlink, name) = (Netlink::open()?, format!("hairpin{}", PORTS + port));
    netlink.create_veth(&ends.pair(&name, SERVER_END))?;
    keep_apart(&[&name])?;
    netlink.attach(&name, BRIDGE)?;
    Ok(netlink.set_up(&name)?)
}

/// Makes one end of a VXLAN above the pair.
pub(super) fn overlay(end: &Overlay) -> Result<(), MakeError> {
    above(end)
        .map_err(|error| if error.is_unknown() { MakeError::Unknown { medium: Medium::Vxlan, error } } else { error.into() })
}

fn above(end: &Overlay) -> Result<(), NetlinkError> {
    let (netlink, [parent, _]) = (Netlink::open()?, BETWEEN);
    netlink.add_address(parent, end.local.into(), 30)?;
    netlink.set_up(parent)?;
    let vxlan = VirtualLink::Vxlan { parent, local: end.local, remote: end.remote };
    netlink.create(&end.interface, vxlan, None)
}

/// Lets each interface answer for its own addresses alone, and the links `between` send nothing of their own: else they would
/// answer for the server's end, which is in the same namespace, and messages would take a shorter way.
fn keep_apart(between: &[&str]) -> Result<(), SysctlError> {
    netns::set_sysctl("net.ipv4.conf.all.arp_ignore", "1")?;
    for link in between {
        // A kernel without IPv6 lacks this sysctl, and needs none.
        let _ = netns::set_sysctl(&format!("net.ipv6.conf.{link}.disable_ipv6"), "1");
    }
    Ok(())
}

/// The addresses at which this network namespace is reached from others.
pub(super) fn addresses() -> std::io::Result<Vec<At>> {
    let is_reached = |at: &At| match at.address {
        IpAddr::V4(address) => !address.is_loopback() && !address.is_link_local(),
        IpAddr::V6(address) => !address.is_loopback() && !address.is_unicast_link_local(),
    };
    let all = if_addrs::get_if_addrs()?.into_iter().map(|at| At { address: at.ip(), interface: at.name });
    Ok(all.filter(is_reached).collect())
}

/// The address from which this network namespace would send to `address`.
pub(super) fn towards(address: IpAddr) -> Option<IpAddr> {
    local_address_towards((address, 9).into())
}
