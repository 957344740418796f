//! The metadata of frames that a driver offers to XDP programs and to AF_XDP sockets, from the kernel's generic netlink family
//! `netdev`.
//!
//! ```text
//!   CTRL_CMD_GETFAMILY "netdev" ─▶ its number ─▶ NETDEV_CMD_DEV_GET interface ─▶ NETDEV_A_DEV_XDP_RX_METADATA_FEATURES
//!                                                                              └▶ NETDEV_A_DEV_XSK_FEATURES
//! ```
//! Sources: `include/uapi/linux/{genetlink,netdev}.h`, `Documentation/netlink/specs/netdev.yaml`.

use neli::FromBytes;
use neli::consts::nl::{GenlId, NlType, NlmF};
use neli::consts::socket::NlFamily;
use neli::err::BuilderError;
use neli::genl::{AttrTypeBuilder, Genlmsghdr, GenlmsghdrBuilder, NlattrBuilder, NoUserHeader};
use neli::types::{Buffer, GenlBuffer};
use neli::{Size, ToBytes};

use super::{Asked, Netlink, NetlinkError, text};

const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;
const NETDEV_CMD_DEV_GET: u8 = 1;
const NETDEV_A_DEV_IFINDEX: u16 = 1;
const NETDEV_A_DEV_XDP_RX_METADATA_FEATURES: u16 = 5;
const NETDEV_A_DEV_XSK_FEATURES: u16 = 6;
const NETDEV_XDP_RX_METADATA_TIMESTAMP: u64 = 1;
const NETDEV_XDP_RX_METADATA_HASH: u64 = 2;
const NETDEV_XDP_RX_METADATA_VLAN_TAG: u64 = 4;
const NETDEV_XSK_FLAGS_TX_TIMESTAMP: u64 = 1;

pub(super) type Message = Genlmsghdr<u8, u16>;

/// The metadata of frames that a driver claims to offer. A single frame may still have none: a device stamps nothing until its
/// stamping is turned on, and veth has stamps only of frames that another device stamped before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct XdpMetadata {
    /// To an XDP program: arrival time by the device's clock (`bpf_xdp_metadata_rx_timestamp`).
    pub rx_time: bool,
    /// To an XDP program: hash of the flow (`bpf_xdp_metadata_rx_hash`).
    pub rx_hash: bool,
    /// To an XDP program: the VLAN tag that the device took out of the frame (`bpf_xdp_metadata_rx_vlan_tag`, Linux 6.8).
    pub rx_vlan: bool,
    /// To an AF_XDP socket with zero-copy: the time of sending by the device's clock (`XDP_TXMD_FLAGS_TIMESTAMP`). `None`: this
    /// kernel's AF_XDP has no metadata of sent frames (before Linux 6.8).
    pub tx_time: Option<bool>,
}

impl XdpMetadata {
    /// Reads it for the interface with index `interface`.
    ///
    /// # Errors
    /// ENOENT if the kernel lacks the family or does not report this (before Linux 6.6), ENODEV if there is no such interface.
    pub fn of(interface: u32) -> Result<XdpMetadata, NetlinkError> {
        let index = interface.to_string();
        let asked = Asked { operation: "read the XDP metadata of interface", interface: &index };
        let netlink = Netlink::over(NlFamily::Generic)?;
        let family = family(&netlink, &asked, "netdev")?;
        let device = message(NETDEV_CMD_DEV_GET, NETDEV_A_DEV_IFINDEX, interface).map_err(|e| asked.exchange(e))?;
        let read = |answer: &Message| {
            let attributes = answer.attrs().get_attr_handle();
            let bits = |kind| attributes.get_attr_payload_as::<u64>(kind).ok();
            bits(NETDEV_A_DEV_XDP_RX_METADATA_FEATURES).map(|rx| XdpMetadata::told(rx, bits(NETDEV_A_DEV_XSK_FEATURES)))
        };
        let answers = netlink.request(&asked, GenlId::from(family), NlmF::empty(), device, read)?;
        answers.into_iter().flatten().next().ok_or_else(|| asked.refused(-libc::ENOENT, None))
    }

    fn told(rx: u64, xsk: Option<u64>) -> XdpMetadata {
        XdpMetadata {
            rx_time: rx & NETDEV_XDP_RX_METADATA_TIMESTAMP != 0,
            rx_hash: rx & NETDEV_XDP_RX_METADATA_HASH != 0,
            rx_vlan: rx & NETDEV_XDP_RX_METADATA_VLAN_TAG != 0,
            tx_time: xsk.map(|bits| bits & NETDEV_XSK_FLAGS_TX_TIMESTAMP != 0),
        }
    }
}

impl Netlink {
    /// Extracts one attribute of the answer.
    fn attribute_of<T: FromBytes>(
        &self,
        asked: &Asked<'_>,
        family: impl NlType,
        message: Message,
        kind: u16,
    ) -> Result<T, NetlinkError> {
        let read = |answer: &Message| answer.attrs().get_attr_handle().get_attr_payload_as::<T>(kind).ok();
        let answers = self.request(asked, family, NlmF::empty(), message, read)?;
        answers.into_iter().flatten().next().ok_or_else(|| asked.refused(-libc::ENOENT, None))
    }
}

/// This kernel's number for the generic family `name`; ENOENT if it lacks the family.
pub(super) fn family(netlink: &Netlink, asked: &Asked<'_>, name: &str) -> Result<u16, NetlinkError> {
    let name = message(CTRL_CMD_GETFAMILY, CTRL_ATTR_FAMILY_NAME, text(name)).map_err(|e| asked.exchange(e))?;
    netlink.attribute_of(asked, GenlId::Ctrl, name, CTRL_ATTR_FAMILY_ID)
}

/// A request with a single attribute.
pub(super) fn message<P: Size + ToBytes>(command: u8, kind: u16, payload: P) -> Result<Message, BuilderError> {
    let empty = GenlmsghdrBuilder::<_, _, NoUserHeader>::default().cmd(command).version(1).attrs(GenlBuffer::new()).build()?;
    push(empty, kind, payload)
}

/// Adds an attribute to the request.
pub(super) fn push<P: Size + ToBytes>(request: Message, kind: u16, payload: P) -> Result<Message, BuilderError> {
    let kind = AttrTypeBuilder::default().nla_type(kind).build()?;
    let mut attributes: GenlBuffer<u16, Buffer> = request.attrs().clone();
    attributes.push(NlattrBuilder::default().nla_type(kind).nla_payload(payload).build()?);
    Ok(GenlmsghdrBuilder::<_, _, NoUserHeader>::default().cmd(*request.cmd()).version(1).attrs(attributes).build()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_of_an_answer_are_told_apart() {
        let none = XdpMetadata::default();
        assert_eq!(XdpMetadata::told(0, None), none);
        assert_eq!(XdpMetadata::told(1, None), XdpMetadata { rx_time: true, ..none });
        assert_eq!(XdpMetadata::told(2, Some(0)), XdpMetadata { rx_hash: true, tx_time: Some(false), ..none });
        assert_eq!(XdpMetadata::told(4, Some(1)), XdpMetadata { rx_vlan: true, tx_time: Some(true), ..none });
        // All other bits, such as checksum and launch time, are no stamp.
        assert_eq!(XdpMetadata::told(!7, Some(!1)), XdpMetadata { tx_time: Some(false), ..none });
    }

    #[test]
    fn loopback_offers_nothing_and_a_missing_interface_is_an_error() {
        match XdpMetadata::of(1) {
            Ok(told) => assert_eq!(XdpMetadata { tx_time: None, ..told }, XdpMetadata::default()),
            Err(NetlinkError::Refused { source, .. }) => assert_eq!(source.raw_os_error(), Some(libc::ENOENT), "an older kernel"),
            Err(other) => panic!("{other}"),
        }
        assert!(XdpMetadata::of(0x7fff_ffff).is_err());
    }
}
