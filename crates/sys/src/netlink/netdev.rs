//! A driver's metadata for XDP programs, from the kernel's generic netlink family `netdev`.
//!
//! ```text
//!   CTRL_CMD_GETFAMILY "netdev" ─▶ its number ─▶ NETDEV_CMD_DEV_GET interface ─▶ NETDEV_A_DEV_XDP_RX_METADATA_FEATURES
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
const NETDEV_XDP_RX_METADATA_TIMESTAMP: u64 = 1;
const NETDEV_XDP_RX_METADATA_HASH: u64 = 2;

pub(super) type Message = Genlmsghdr<u8, u16>;

/// The metadata of an arriving frame that a driver offers to an XDP program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RxMetadata {
    /// Arrival time by the device's clock.
    pub time: bool,
    /// Hash of the flow.
    pub hash: bool,
}

impl RxMetadata {
    /// Reads it for the interface with index `interface`.
    ///
    /// # Errors
    /// ENOENT if the kernel lacks the family or does not report this (before Linux 6.6), ENODEV if there is no such interface.
    pub fn of(interface: u32) -> Result<RxMetadata, NetlinkError> {
        let index = interface.to_string();
        let asked = Asked { operation: "read the receive metadata of interface", interface: &index };
        let netlink = Netlink::over(NlFamily::Generic)?;
        let family = family(&netlink, &asked, "netdev")?;
        let device = message(NETDEV_CMD_DEV_GET, NETDEV_A_DEV_IFINDEX, interface).map_err(|e| asked.exchange(e))?;
        let bits: u64 = netlink.attribute_of(&asked, GenlId::from(family), device, NETDEV_A_DEV_XDP_RX_METADATA_FEATURES)?;
        let has = |bit| bits & bit != 0;
        Ok(RxMetadata { time: has(NETDEV_XDP_RX_METADATA_TIMESTAMP), hash: has(NETDEV_XDP_RX_METADATA_HASH) })
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
    fn loopback_has_no_answers_and_a_missing_interface_is_an_error() {
        match RxMetadata::of(1) {
            Ok(told) => assert_eq!(told, RxMetadata::default()),
            Err(NetlinkError::Refused { source, .. }) => assert_eq!(source.raw_os_error(), Some(libc::ENOENT), "an older kernel"),
            Err(other) => panic!("{other}"),
        }
        assert!(RxMetadata::of(0x7fff_ffff).is_err());
    }
}
