//! Settings of a device over the kernel's generic netlink family `ethtool` (since Linux 5.6): one at a time, the others stay
//! unchanged, and a refusal carries the kernel's message. The ioctl of [`crate::ethtool`] writes whole structures.
//!
//! Sources: `include/uapi/linux/ethtool_netlink.h`, `Documentation/networking/ethtool-netlink.rst`.

use neli::consts::nl::{GenlId, NlmF};
use neli::consts::socket::NlFamily;
use neli::err::BuilderError;
use neli::genl::{AttrTypeBuilder, GenlmsghdrBuilder, NlattrBuilder, NoUserHeader};
use neli::types::{Buffer, GenlBuffer};

use super::netdev::{Message, family, push};
use super::{Asked, Netlink, NetlinkError, text};

const RINGS_SET: u8 = 16;
const CHANNELS_SET: u8 = 18;
const COALESCE_SET: u8 = 20;
/// Header attribute of each of these messages, and the interface name inside it.
const HEADER: u16 = 1;
const HEADER_DEV_NAME: u16 = 2;

/// A setting of a device that the family `ethtool` supports, with its new value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EthtoolSetting {
    /// `rx-usecs`.
    RxUsecs(u32),
    /// `rx-frames`.
    RxFrames(u32),
    /// `tx-usecs`.
    TxUsecs(u32),
    /// `tx-frames`.
    TxFrames(u32),
    /// `adaptive-rx`.
    AdaptiveRx(bool),
    /// `adaptive-tx`.
    AdaptiveTx(bool),
    /// Descriptors of each receive queue.
    RxRing(u32),
    /// Descriptors of each transmit queue.
    TxRing(u32),
    /// Queues that receive and transmit.
    CombinedChannels(u32),
}

/// A value in the form of the message.
enum Wide {
    Number(u32),
    Flag(u8),
}

impl EthtoolSetting {
    /// Message, attribute, value.
    fn encoded(self) -> (u8, u16, Wide) {
        match self {
            EthtoolSetting::RxUsecs(to) => (COALESCE_SET, 2, Wide::Number(to)),
            EthtoolSetting::RxFrames(to) => (COALESCE_SET, 3, Wide::Number(to)),
            EthtoolSetting::TxUsecs(to) => (COALESCE_SET, 6, Wide::Number(to)),
            EthtoolSetting::TxFrames(to) => (COALESCE_SET, 7, Wide::Number(to)),
            EthtoolSetting::AdaptiveRx(to) => (COALESCE_SET, 11, Wide::Flag(to.into())),
            EthtoolSetting::AdaptiveTx(to) => (COALESCE_SET, 12, Wide::Flag(to.into())),
            EthtoolSetting::RxRing(to) => (RINGS_SET, 6, Wide::Number(to)),
            EthtoolSetting::TxRing(to) => (RINGS_SET, 9, Wide::Number(to)),
            EthtoolSetting::CombinedChannels(to) => (CHANNELS_SET, 9, Wide::Number(to)),
        }
    }

    fn operation(self) -> &'static str {
        match self.encoded().0 {
            RINGS_SET => "set the rings of",
            CHANNELS_SET => "set the channels of",
            _ => "set the coalescing of",
        }
    }

    /// Sets it on an interface in the calling thread's network namespace; false if this kernel lacks the family.
    ///
    /// # Errors
    /// There is no such interface (ENODEV), the device lacks the setting or refuses the value (EOPNOTSUPP, EINVAL), or
    /// CAP_NET_ADMIN is missing (EPERM).
    pub fn set(self, interface: &str) -> Result<bool, NetlinkError> {
        let asked = Asked { operation: self.operation(), interface };
        let netlink = Netlink::over(NlFamily::Generic)?;
        let family = match family(&netlink, &asked, "ethtool") {
            Err(NetlinkError::Refused { source, .. }) if source.raw_os_error() == Some(libc::ENOENT) => return Ok(false),
            other => other?,
        };
        let request = self.request(interface).map_err(|reason| asked.exchange(reason))?;
        netlink.request(&asked, GenlId::from(family), NlmF::empty(), request, |_: &Message| ())?;
        Ok(true)
    }

    fn request(self, interface: &str) -> Result<Message, BuilderError> {
        let (command, attribute, value) = self.encoded();
        let kind = AttrTypeBuilder::default().nla_type(HEADER_DEV_NAME).build()?;
        let mut header: GenlBuffer<u16, Buffer> = GenlBuffer::new();
        header.push(NlattrBuilder::default().nla_type(kind).nla_payload(text(interface)).build()?);
        let kind = AttrTypeBuilder::default().nla_type(HEADER).nla_nested(true).build()?;
        let mut attributes: GenlBuffer<u16, Buffer> = GenlBuffer::new();
        attributes.push(NlattrBuilder::default().nla_type(kind).nla_payload(header).build()?);
        let message = GenlmsghdrBuilder::<_, _, NoUserHeader>::default().cmd(command).version(1).attrs(attributes).build()?;
        match value {
            Wide::Number(number) => push(message, attribute, number),
            Wide::Flag(flag) => push(message, attribute, flag),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_takes_none_of_them() {
        for (setting, operation) in [
            (EthtoolSetting::RxUsecs(1), "coalescing"),
            (EthtoolSetting::AdaptiveTx(true), "coalescing"),
            (EthtoolSetting::TxRing(64), "rings"),
            (EthtoolSetting::CombinedChannels(1), "channels"),
        ] {
            match setting.set("lo") {
                Ok(false) => {} // a kernel before 5.6
                Ok(true) => panic!("{setting:?} was taken"),
                Err(error) => assert!(error.to_string().contains(&format!("cannot set the {operation} of lo")), "{error}"),
            }
        }
        assert!(EthtoolSetting::RxUsecs(1).set("hp-missing").is_err());
    }
}
