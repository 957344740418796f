//! Settings of network devices that are not files, each read and written as a text: over ethtool and over netlink.
//!
//! ```text
//!   rx-usecs rx-frames tx-usecs tx-frames adaptive-rx adaptive-tx     ethtool: coalescing (set over netlink, else the ioctl)
//!   rx-ring tx-ring    combined-channels    gro gso tso lro           ethtool: rings, queues, offloads
//!   stamping           tx=0,rx=0,flags=0                              SIOCGHWTSTAMP, SIOCSHWTSTAMP
//!   qdisc              default (mq), or fq                              rtnetlink, the root qdisc
//!   quickack           off, on, or default=off,10.0.0.0/8=on          rtnetlink, each IPv4 route over the link
//! ```
//! A text that was read can be written back and leaves the device unchanged.

use hairpin_units::Gather;
use std::collections::BTreeMap;
use std::io;
use std::str::FromStr;

use crate::ethtool::{Coalesce, Ethtool, EthtoolError, Rings, Stamping};
use crate::netlink::{CoalesceParts, EthtoolSetting, NapiSetting, Netlink, NetlinkError, QuickAck};

/// A setting of a network device that is not a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Attribute {
    /// Index of the device in its network namespace. Read only; the same as sysfs's `ifindex` if sysfs shows that namespace.
    Index,
    /// Longest delay after a received packet in microseconds.
    RxUsecs,
    /// Number of received packets after which the device stops waiting.
    RxFrames,
    /// Longest delay after a sent packet in microseconds.
    TxUsecs,
    /// Number of sent packets after which the device stops waiting.
    TxFrames,
    /// Adaptive receive coalescing: the driver adjusts it to the load.
    AdaptiveRx,
    /// Adaptive transmit coalescing: the driver adjusts it to the load.
    AdaptiveTx,
    /// Descriptors of each receive queue.
    RxRing,
    /// Descriptors of each transmit queue.
    TxRing,
    /// Queues that receive and transmit.
    CombinedChannels,
    /// Checksums of received packets verified by the device.
    RxChecksum,
    /// Checksums of sent packets computed by the device.
    TxChecksum,
    /// Packets sent from several pieces of memory.
    ScatterGather,
    /// Received segments joined by the kernel.
    Gro,
    /// Segmentation by the kernel just before the device.
    Gso,
    /// TCP segmentation by the device.
    Tso,
    /// Received segments joined by the device.
    Lro,
    /// Hardware timestamps: the packets that the device stamps.
    Stamping,
    /// The root queueing discipline.
    Qdisc,
    /// Immediate ACKs over the device's IPv4 routes.
    QuickAck,
}

/// All attributes with their names.
const NAMES: &[(Attribute, &str)] = &[
    (Attribute::Index, "index"),
    (Attribute::RxUsecs, "rx-usecs"),
    (Attribute::RxFrames, "rx-frames"),
    (Attribute::TxUsecs, "tx-usecs"),
    (Attribute::TxFrames, "tx-frames"),
    (Attribute::AdaptiveRx, "adaptive-rx"),
    (Attribute::AdaptiveTx, "adaptive-tx"),
    (Attribute::RxRing, "rx-ring"),
    (Attribute::TxRing, "tx-ring"),
    (Attribute::CombinedChannels, "combined-channels"),
    (Attribute::RxChecksum, "rx-checksum"),
    (Attribute::TxChecksum, "tx-checksum"),
    (Attribute::ScatterGather, "scatter-gather"),
    (Attribute::Gro, "gro"),
    (Attribute::Gso, "gso"),
    (Attribute::Tso, "tso"),
    (Attribute::Lro, "lro"),
    (Attribute::Stamping, "stamping"),
    (Attribute::Qdisc, "qdisc"),
    (Attribute::QuickAck, "quickack"),
];

impl Attribute {
    /// All attributes.
    pub fn all() -> impl Iterator<Item = Attribute> {
        NAMES.iter().map(|(attribute, _)| *attribute)
    }

    /// Name, as in ethtool(8), tc(8) and ip(8) where they have one.
    #[must_use]
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(attribute, _)| *attribute == self).map_or("", |(_, name)| name)
    }
}

impl FromStr for Attribute {
    type Err = ();

    fn from_str(text: &str) -> Result<Attribute, ()> {
        NAMES.iter().find(|(_, name)| *name == text).map(|(attribute, _)| *attribute).ok_or(())
    }
}

/// Reason why a setting could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// An error of ethtool.
    #[error(transparent)]
    Ethtool(#[from] EthtoolError),
    /// An error of netlink.
    #[error(transparent)]
    Netlink(#[from] NetlinkError),
    /// The text is not a value of this setting.
    #[error("{text:?} is not a value of {} of {interface}", attribute.name())]
    Text {
        /// The text to be written.
        text: String,
        attribute: Attribute,
        interface: String,
    },
    /// The text is not a value of this setting of a NAPI instance.
    #[error("{text:?} is not a value of {} of {interface}", setting.name())]
    NapiText { text: String, setting: NapiSetting, interface: String },
    /// The device has no such NAPI instance.
    #[error("{interface} has no NAPI instance {name}")]
    NoNapi { interface: String, name: String },
    /// NAPI threads that never sleep are unknown to this kernel.
    #[error("this kernel has no NAPI threads that busy-poll, which take Linux 6.19: {source}")]
    NoBusyPollThreads { source: io::Error },
    /// An existing setup would be lost.
    #[error(
        "{interface} has queueing disciplines that were set up by hand, whose parameters would be lost: change them with tc(8), or, if Hairpin set them, run `hairpin tune revert` first"
    )]
    OwnQdiscs {
        /// Name of the interface.
        interface: String,
    },
    /// An error number from a fake host.
    #[error("cannot reach {what} of {interface}: {source}")]
    Fake {
        /// Name of the setting that failed.
        what: &'static str,
        interface: String,
        source: io::Error,
    },
}

impl DeviceError {
    /// The kernel's error, if it is one.
    #[must_use]
    pub fn errno(&self) -> Option<i32> {
        match self {
            DeviceError::Ethtool(EthtoolError::Refused { source, .. } | EthtoolError::Open(source))
            | DeviceError::Netlink(NetlinkError::Refused { source, .. })
            | DeviceError::Fake { source, .. } => source.raw_os_error(),
            _ => None,
        }
    }
}

/// Reads a setting of a device in the calling thread's network namespace; `None` if the device does not have it.
///
/// # Errors
/// There is no such interface (ENODEV), or the kernel refuses.
pub fn read(interface: &str, attribute: Attribute) -> Result<Option<String>, DeviceError> {
    // One socket per query: a socket stays in the namespace it was opened in, while the calling thread may move.
    let coalesce = |part: fn(Coalesce, CoalesceParts) -> Option<String>| {
        let Some(all) = Ethtool::open()?.coalesce(interface)? else {
            return Ok(None);
        };
        Ok(part(all, CoalesceParts::of(interface)?))
    };
    let rings = |part: fn(Rings) -> u32| Ok(Ethtool::open()?.rings(interface)?.map(|rings| part(rings).to_string()));
    let offloads = || Ethtool::open()?.offloads(interface);
    match attribute {
        Attribute::Index => Ok(Some(Netlink::open()?.link(interface)?.index.to_string())),
        Attribute::RxUsecs => coalesce(|all, has| has.rx_usecs.then(|| all.rx_usecs.to_string())),
        Attribute::RxFrames => coalesce(|all, has| has.rx_frames.then(|| all.rx_frames.to_string())),
        Attribute::TxUsecs => coalesce(|all, has| has.tx_usecs.then(|| all.tx_usecs.to_string())),
        Attribute::TxFrames => coalesce(|all, has| has.tx_frames.then(|| all.tx_frames.to_string())),
        Attribute::AdaptiveRx => coalesce(|all, has| has.adaptive_rx.then(|| on_off(all.adaptive_rx))),
        Attribute::AdaptiveTx => coalesce(|all, has| has.adaptive_tx.then(|| on_off(all.adaptive_tx))),
        Attribute::RxRing => rings(|rings| rings.rx),
        Attribute::TxRing => rings(|rings| rings.tx),
        Attribute::CombinedChannels => {
            let channels = Ethtool::open()?.channels(interface)?;
            Ok(channels.filter(|channels| channels.max_combined > 0).map(|channels| channels.combined.to_string()))
        }
        Attribute::RxChecksum => Ok(offloads()?.rx_checksum.map(on_off)),
        Attribute::TxChecksum => Ok(offloads()?.tx_checksum.map(on_off)),
        Attribute::ScatterGather => Ok(offloads()?.scatter_gather.map(on_off)),
        Attribute::Gro => Ok(offloads()?.gro.map(on_off)),
        Attribute::Gso => Ok(offloads()?.gso.map(on_off)),
        Attribute::Tso => Ok(offloads()?.tso.map(on_off)),
        Attribute::Lro => Ok(offloads()?.lro.map(on_off)),
        Attribute::Stamping => Ok(Ethtool::open()?.stamping(interface)?.map(stamping_text)),
        Attribute::Qdisc => {
            let root = Netlink::open()?.root_qdisc(interface)?;
            Ok(root.map(|root| if root.automatic { format!("{DEFAULT} ({})", root.kind) } else { root.kind }))
        }
        Attribute::QuickAck => {
            let routes = Netlink::open()?.quick_acks(interface)?;
            Ok(each(routes.iter().map(|route| (route.destination.clone(), on_off(route.on))).collect()))
        }
    }
}

/// Writes a setting of a device in the calling thread's network namespace. Read it back to see the value the kernel chose.
///
/// # Errors
/// There is no such interface (ENODEV), the text is not a value of this setting, the device or the kernel refuses, or
/// CAP_NET_ADMIN is missing (EPERM).
pub fn write(interface: &str, attribute: Attribute, text: &str) -> Result<(), DeviceError> {
    let wrong = || DeviceError::Text { text: text.to_owned(), attribute, interface: interface.to_owned() };
    let number = || text.parse::<u32>().map_err(|_| wrong());
    let flag = || match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(wrong()),
    };
    let ethtool = Ethtool::open()?;
    match attribute {
        Attribute::RxUsecs => {
            let to = number()?;
            by_netlink(interface, EthtoolSetting::RxUsecs(to), || ethtool.set_coalesce(interface, |all| all.rx_usecs = to))
        }
        Attribute::RxFrames => {
            let to = number()?;
            by_netlink(interface, EthtoolSetting::RxFrames(to), || ethtool.set_coalesce(interface, |all| all.rx_frames = to))
        }
        Attribute::TxUsecs => {
            let to = number()?;
            by_netlink(interface, EthtoolSetting::TxUsecs(to), || ethtool.set_coalesce(interface, |all| all.tx_usecs = to))
        }
        Attribute::TxFrames => {
            let to = number()?;
            by_netlink(interface, EthtoolSetting::TxFrames(to), || ethtool.set_coalesce(interface, |all| all.tx_frames = to))
        }
        Attribute::AdaptiveRx => {
            let to = flag()?;
            by_netlink(interface, EthtoolSetting::AdaptiveRx(to), || ethtool.set_coalesce(interface, |all| all.adaptive_rx = to))
        }
        Attribute::AdaptiveTx => {
            let to = flag()?;
            by_netlink(interface, EthtoolSetting::AdaptiveTx(to), || ethtool.set_coalesce(interface, |all| all.adaptive_tx = to))
        }
        Attribute::RxRing => {
            let to = number()?;
            by_netlink(interface, EthtoolSetting::RxRing(to), || ethtool.set_rings(interface, |all| all.rx = to))
        }
        Attribute::TxRing => {
            let to = number()?;
            by_netlink(interface, EthtoolSetting::TxRing(to), || ethtool.set_rings(interface, |all| all.tx = to))
        }
        Attribute::CombinedChannels => {
            let to = number()?;
            by_netlink(interface, EthtoolSetting::CombinedChannels(to), || {
                ethtool.set_channels(interface, |all| all.combined = to)
            })
        }
        // These only follow other settings; they are shown, not set.
        Attribute::Index | Attribute::RxChecksum | Attribute::TxChecksum | Attribute::ScatterGather => Err(wrong()),
        Attribute::Gro => not_taken(ethtool.set_gro(interface, flag()?)),
        Attribute::Gso => not_taken(ethtool.set_gso(interface, flag()?)),
        Attribute::Tso => not_taken(ethtool.set_tso(interface, flag()?)),
        Attribute::Lro => not_taken(ethtool.set_lro(interface, flag()?)),
        Attribute::Stamping => Ok(ethtool.set_stamping(interface, stamping_of(text).ok_or_else(wrong)?)?),
        Attribute::Qdisc => {
            let netlink = Netlink::open()?;
            if text.split(' ').next() == Some(DEFAULT) {
                return Ok(netlink.set_root_qdisc(interface, None)?);
            }
            if netlink.has_own_qdiscs(interface)? {
                return Err(DeviceError::OwnQdiscs { interface: interface.to_owned() });
            }
            Ok(netlink.set_root_qdisc(interface, Some(text))?)
        }
        Attribute::QuickAck => {
            let netlink = Netlink::open()?;
            let routes = netlink.quick_acks(interface)?;
            let wanted = spread(text, routes.iter().map(|route| route.destination.clone()).collect());
            for (destination, text) in wanted {
                let on = match text.as_str() {
                    "on" => true,
                    "off" => false,
                    _ => return Err(wrong()),
                };
                if routes.iter().any(|route| route.destination == destination && route.on != on) {
                    netlink.set_quick_ack(interface, &QuickAck { destination, on })?;
                }
            }
            Ok(())
        }
    }
}

/// Sets over netlink, which writes one setting and gives reasons, or over the ioctl on kernels without it.
fn by_netlink(
    interface: &str,
    setting: EthtoolSetting,
    ioctl: impl FnOnce() -> Result<(), EthtoolError>,
) -> Result<(), DeviceError> {
    if setting.set(interface)? {
        return Ok(());
    }
    Ok(ioctl()?)
}

/// The word for the kernel's automatic choice.
const DEFAULT: &str = "default";

fn on_off(on: bool) -> String {
    if on { "on" } else { "off" }.to_owned()
}

/// Ignores that a device did not follow: reading the setting back shows the value that it kept.
fn not_taken(answer: Result<(), EthtoolError>) -> Result<(), DeviceError> {
    match answer {
        Ok(()) | Err(EthtoolError::NotTaken { .. }) => Ok(()),
        Err(why) => Err(why.into()),
    }
}

fn stamping_text(stamping: Stamping) -> String {
    format!("tx={},rx={},flags={}", stamping.tx_type, stamping.rx_filter, stamping.flags)
}

fn stamping_of(text: &str) -> Option<Stamping> {
    let (tx, rest) = text.strip_prefix("tx=")?.split_once(",rx=")?;
    let (rx, flags) = rest.split_once(",flags=")?;
    Some(Stamping { flags: flags.parse().ok()?, tx_type: tx.parse().ok()?, rx_filter: rx.parse().ok()? })
}

/// One value if all agree, otherwise each after its key; `None` if there are none.
fn each(values: Vec<(String, String)>) -> Option<String> {
    let (_, first) = values.first()?;
    if values.iter().all(|(_, value)| value == first) {
        return Some(first.clone());
    }
    Some(values.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(","))
}

/// The value of every key: the common value, or its own. A key that is not in a text of own values has appeared since, and is
/// left out.
fn spread(text: &str, keys: Vec<String>) -> Vec<(String, String)> {
    let own: BTreeMap<&str, &str> = text.split(',').filter_map(|part| part.split_once('=')).gather();
    let common = own.is_empty().then_some(text);
    let value = |key: &String| own.get(key.as_str()).copied().or(common).map(str::to_owned);
    keys.into_iter().filter_map(|key| value(&key).map(|value| (key, value))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_attribute_has_a_name_of_its_own() {
        let mut names: Vec<&str> = Attribute::all().map(Attribute::name).collect();
        assert!(Attribute::all().all(|attribute| attribute.name().parse() == Ok(attribute)));
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Attribute::all().count());
        assert_eq!("rx_usecs".parse::<Attribute>(), Err(()));
    }

    #[test]
    fn values_that_differ_are_kept_apart_and_written_back_each_to_its_own() {
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        let keys = || vec!["1".to_owned(), "2".to_owned()];
        assert_eq!(each(vec![pair("1", "0"), pair("2", "0")]).as_deref(), Some("0"));
        let differing = each(vec![pair("1", "0"), pair("2", "5")]).unwrap();
        assert_eq!(differing, "1=0,2=5");
        assert_eq!(spread(&differing, keys()), [pair("1", "0"), pair("2", "5")]);
        assert_eq!(spread("7", keys()), [pair("1", "7"), pair("2", "7")]);
        let more = vec!["1".to_owned(), "3".to_owned(), "2".to_owned()];
        assert_eq!(spread(&differing, more), [pair("1", "0"), pair("2", "5")], "the third appeared since");
        assert_eq!(each(vec![]), None);
    }

    #[test]
    fn stamping_is_read_back_as_it_was_written() {
        let stamping = Stamping { flags: 0, tx_type: 1, rx_filter: 12 };
        assert_eq!(stamping_of(&stamping_text(stamping)), Some(stamping));
        for text in ["", "on", "tx=1", "tx=1,rx=x,flags=0"] {
            assert_eq!(stamping_of(text), None);
        }
    }

    #[test]
    fn loopback_reports_its_features() {
        assert_eq!(read("lo", Attribute::RxUsecs).unwrap(), None);
        assert_eq!(read("lo", Attribute::Stamping).unwrap(), None);
        assert!(read("lo", Attribute::Gso).unwrap().is_some());
        for attribute in Attribute::all() {
            assert_eq!(read("hp-missing", attribute).unwrap_err().errno(), Some(libc::ENODEV), "{}", attribute.name());
        }
    }
}
