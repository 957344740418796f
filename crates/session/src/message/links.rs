//! The parts of a link between two network namespaces.

use std::net::{IpAddr, Ipv4Addr};

use serde::{Deserialize, Serialize};

/// The kind of device between the two ends of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Medium {
    #[default]
    Veth,
    Netkit,
    Bridge,
    Macvlan,
    Ipvlan,
    Vxlan,
}

impl Medium {
    pub const ALL: [Medium; 6] = [Medium::Veth, Medium::Netkit, Medium::Bridge, Medium::Macvlan, Medium::Ipvlan, Medium::Vxlan];

    /// The name of the link.
    pub const fn name(self) -> &'static str {
        match self {
            Medium::Veth => "veth",
            Medium::Netkit => "netkit",
            Medium::Bridge => "bridge",
            Medium::Macvlan => "macvlan",
            Medium::Ipvlan => "ipvlan",
            Medium::Vxlan => "vxlan",
        }
    }
}

/// An end of a VXLAN.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Overlay {
    /// The end to make.
    pub interface: String,
    /// The addresses of both ends of the pair below it.
    pub local: Ipv4Addr,
    pub remote: Ipv4Addr,
}

/// An address, and its interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct At {
    pub interface: String,
    pub address: IpAddr,
}
