//! Settings of a device over the kernel's generic netlink family `ethtool` (since Linux 5.6): one at a time, the others stay
//! unchanged, a refusal carries the kernel's message, and a value that the driver lacks differs from a value of 0. The ioctl of
//! [`crate::ethtool`] writes whole structures.
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
const COALESCE_GET: u8 = 19;
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
        let message = about(interface, command)?;
        match value {
            Wide::Number(number) => push(message, attribute, number),
            Wide::Flag(flag) => push(message, attribute, flag),
        }
    }
}

/// A request about an interface, with nothing in it yet.
fn about(interface: &str, command: u8) -> Result<Message, BuilderError> {
    let kind = AttrTypeBuilder::default().nla_type(HEADER_DEV_NAME).build()?;
    let mut header: GenlBuffer<u16, Buffer> = GenlBuffer::new();
    header.push(NlattrBuilder::default().nla_type(kind).nla_payload(text(interface)).build()?);
    let kind = AttrTypeBuilder::default().nla_type(HEADER).nla_nested(true).build()?;
    let mut attributes: GenlBuffer<u16, Buffer> = GenlBuffer::new();
    attributes.push(NlattrBuilder::default().nla_type(kind).nla_payload(header).build()?);
    Ok(GenlmsghdrBuilder::<_, _, NoUserHeader>::default().cmd(command).version(1).attrs(attributes).build()?)
}

/// The parts of a device's coalescing that its driver has. The ioctl returns 0 for a part that the driver lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoalesceParts {
    /// `rx-usecs`.
    pub rx_usecs: bool,
    /// `rx-frames`.
    pub rx_frames: bool,
    /// `tx-usecs`.
    pub tx_usecs: bool,
    /// `tx-frames`.
    pub tx_frames: bool,
    /// `adaptive-rx`.
    pub adaptive_rx: bool,
    /// `adaptive-tx`.
    pub adaptive_tx: bool,
}

impl CoalesceParts {
    /// All of them.
    const ALL: CoalesceParts =
        CoalesceParts { rx_usecs: true, rx_frames: true, tx_usecs: true, tx_frames: true, adaptive_rx: true, adaptive_tx: true };

    /// Reads them for an interface in the calling thread's network namespace; all of them if this kernel lacks the family (before
    /// 5.6) and cannot tell, or if the device has no coalescing at all.
    ///
    /// # Errors
    /// There is no such interface (ENODEV).
    pub fn of(interface: &str) -> Result<CoalesceParts, NetlinkError> {
        let asked = Asked { operation: "read the coalescing of", interface };
        let netlink = Netlink::over(NlFamily::Generic)?;
        match CoalesceParts::ask(&netlink, &asked) {
            Err(NetlinkError::Refused { source, .. })
                if matches!(source.raw_os_error(), Some(libc::ENOENT | libc::EOPNOTSUPP)) =>
            {
                Ok(CoalesceParts::ALL)
            }
            answer => answer,
        }
    }

    fn ask(netlink: &Netlink, asked: &Asked<'_>) -> Result<CoalesceParts, NetlinkError> {
        let family = family(netlink, asked, "ethtool")?;
        let request = about(asked.interface, COALESCE_GET).map_err(|reason| asked.exchange(reason))?;
        // The kernel omits values of 0 that are not among the driver's `supported_coalesce_params`.
        let parts = netlink.request(asked, GenlId::from(family), NlmF::empty(), request, |answer: &Message| {
            let attributes = answer.attrs().get_attr_handle();
            let has = |setting: EthtoolSetting| attributes.get_attribute(setting.encoded().1).is_some();
            CoalesceParts {
                rx_usecs: has(EthtoolSetting::RxUsecs(0)),
                rx_frames: has(EthtoolSetting::RxFrames(0)),
                tx_usecs: has(EthtoolSetting::TxUsecs(0)),
                tx_frames: has(EthtoolSetting::TxFrames(0)),
                adaptive_rx: has(EthtoolSetting::AdaptiveRx(false)),
                adaptive_tx: has(EthtoolSetting::AdaptiveTx(false)),
            }
        })?;
        parts.into_iter().next().ok_or_else(|| asked.refused(-libc::ENOENT, None))
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
        assert_eq!(CoalesceParts::of("lo").unwrap(), CoalesceParts::ALL);
        assert!(CoalesceParts::of("hp-missing").is_err());
    }
}
