//! Bridges and the links above another one: macvlan, ipvlan, vxlan.

use std::net::Ipv4Addr;

use neli::consts::nl::NlmF;
use neli::consts::rtnl::{Ifla, IflaInfo, Rtm};
use neli::err::BuilderError;
use neli::rtnl::Ifinfomsg;
use neli::types::{Buffer, RtBuffer};

use super::{Asked, Netlink, NetlinkError, attribute, link_message, text};

/// `MACVLAN_MODE_BRIDGE` for `IFLA_MACVLAN_MODE`, and `IPVLAN_MODE_L2` for `IFLA_IPVLAN_MODE` (`linux/if_link.h`).
const MODE: u16 = 1;
const MACVLAN_BRIDGE: u32 = 4;
const IPVLAN_L2: u16 = 0;
/// `IFLA_VXLAN_*`.
const VXLAN_ID: u16 = 1;
const VXLAN_REMOTE: u16 = 2;
const VXLAN_LINK: u16 = 3;
const VXLAN_LOCAL: u16 = 4;
const VXLAN_PORT: u16 = 15;
/// The network identifier of both ends; any number will do.
const VNI: u32 = 42;
/// The port of VXLAN (RFC 7348, section 8).
const PORT: u16 = 4789;

/// A link to create.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VirtualLink<'a> {
    /// An Ethernet bridge, without ports yet.
    Bridge,
    /// A link with an address of its own above `parent`; frames between two of them go straight over.
    Macvlan { parent: &'a str },
    /// A link with the hardware address of `parent`, told apart by the IP address.
    Ipvlan { parent: &'a str },
    /// Ethernet frames in UDP datagrams between two addresses, over `parent`.
    Vxlan { parent: &'a str, local: Ipv4Addr, remote: Ipv4Addr },
}

impl Netlink {
    /// Creates the link `name` in this namespace, or in that of the process `in_pid`; its parent is in this one.
    ///
    /// # Errors
    /// The kernel has no such kind of link (EOPNOTSUPP), the name is taken (EEXIST), there is no such parent (ENODEV), or this
    /// process lacks CAP_NET_ADMIN over one of the two namespaces (EPERM).
    pub fn create(&self, name: &str, link: VirtualLink<'_>, in_pid: Option<u32>) -> Result<(), NetlinkError> {
        let (kind, parent) = match link {
            VirtualLink::Bridge => ("create the bridge", None),
            VirtualLink::Macvlan { parent } => ("create the macvlan", Some(parent)),
            VirtualLink::Ipvlan { parent } => ("create the ipvlan", Some(parent)),
            VirtualLink::Vxlan { parent, .. } => ("create the vxlan", Some(parent)),
        };
        let asked = Asked { operation: kind, interface: name };
        let parent = parent.map(|parent| self.link(parent)).transpose()?.map(|parent| parent.index);
        let message = request(name, link, parent, in_pid).map_err(|reason| asked.exchange(reason))?;
        self.request(&asked, Rtm::Newlink, NlmF::CREATE | NlmF::EXCL, message, |_| ()).map(drop)
    }

    /// Makes the link `name` a port of `bridge`.
    ///
    /// # Errors
    /// There is no such link or bridge (ENODEV), or this process lacks CAP_NET_ADMIN (EPERM).
    pub fn attach(&self, name: &str, bridge: &str) -> Result<(), NetlinkError> {
        let asked = Asked { operation: "attach to the bridge", interface: name };
        let index = self.link(bridge)?.index;
        let message = || -> Result<Ifinfomsg, BuilderError> {
            let mut attributes = RtBuffer::new();
            attributes.push(attribute(Ifla::Ifname, text(name))?);
            attributes.push(attribute(Ifla::Master, index)?);
            Ok(link_message(attributes).build()?)
        };
        let message = message().map_err(|reason| asked.exchange(reason))?;
        self.request(&asked, Rtm::Setlink, NlmF::empty(), message, |_| ()).map(drop)
    }
}

fn request(name: &str, link: VirtualLink<'_>, parent: Option<u32>, in_pid: Option<u32>) -> Result<Ifinfomsg, BuilderError> {
    let mut data: RtBuffer<u16, Buffer> = RtBuffer::new();
    let kind = match link {
        VirtualLink::Bridge => "bridge",
        VirtualLink::Macvlan { .. } => {
            data.push(attribute(MODE, MACVLAN_BRIDGE)?);
            "macvlan"
        }
        VirtualLink::Ipvlan { .. } => {
            data.push(attribute(MODE, IPVLAN_L2)?);
            "ipvlan"
        }
        VirtualLink::Vxlan { local, remote, .. } => {
            data.push(attribute(VXLAN_ID, VNI)?);
            data.push(attribute(VXLAN_REMOTE, Buffer::from(remote.octets().to_vec()))?);
            data.push(attribute(VXLAN_LOCAL, Buffer::from(local.octets().to_vec()))?);
            data.push(attribute(VXLAN_PORT, Buffer::from(PORT.to_be_bytes().to_vec()))?);
            if let Some(parent) = parent {
                data.push(attribute(VXLAN_LINK, parent)?);
            }
            "vxlan"
        }
    };
    let mut info = RtBuffer::new();
    info.push(attribute(IflaInfo::Kind, text(kind))?);
    info.push(attribute(IflaInfo::Data, data)?);
    let mut attributes = RtBuffer::new();
    attributes.push(attribute(Ifla::Ifname, text(name))?);
    if let Some(parent) = parent.filter(|_| !matches!(link, VirtualLink::Vxlan { .. })) {
        attributes.push(attribute(Ifla::Link, parent)?);
    }
    if let Some(pid) = in_pid {
        attributes.push(attribute(Ifla::NetNsPid, pid)?);
    }
    attributes.push(attribute(Ifla::Linkinfo, info)?);
    Ok(link_message(attributes).build()?)
}
