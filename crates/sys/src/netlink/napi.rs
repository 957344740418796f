//! The NAPI instances of an interface and the queues that they serve, over the kernel's generic netlink family `netdev` (since
//! Linux 6.8; most settings since 6.13, threads since 6.17).
//!
//! Sources: `include/uapi/linux/netdev.h`, `Documentation/netlink/specs/netdev.yaml`, `Documentation/networking/napi.rst`.

use hairpin_units::Arrange;
use neli::consts::nl::{GenlId, NlmF};
use neli::consts::socket::NlFamily;

use super::netdev::{Message, family, message, push};
use super::{Asked, Netlink, NetlinkError};

const NETDEV_CMD_QUEUE_GET: u8 = 10;
const NETDEV_CMD_NAPI_GET: u8 = 11;
const NETDEV_CMD_NAPI_SET: u8 = 14;
const NETDEV_A_NAPI_IFINDEX: u16 = 1;
const NETDEV_A_NAPI_ID: u16 = 2;
const NETDEV_A_NAPI_IRQ: u16 = 3;
const NETDEV_A_NAPI_DEFER_HARD_IRQS: u16 = 5;
const NETDEV_A_NAPI_GRO_FLUSH_TIMEOUT: u16 = 6;
const NETDEV_A_NAPI_IRQ_SUSPEND_TIMEOUT: u16 = 7;
const NETDEV_A_NAPI_THREADED: u16 = 8;
const NETDEV_A_QUEUE_ID: u16 = 1;
const NETDEV_A_QUEUE_IFINDEX: u16 = 2;
const NETDEV_A_QUEUE_TYPE: u16 = 3;
const NETDEV_A_QUEUE_NAPI_ID: u16 = 4;
const NETDEV_QUEUE_TYPE_RX: u64 = 0;

/// A setting of a NAPI instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NapiSetting {
    /// Empty polls before it enables its interrupt again.
    DeferHardIrqs,
    /// Time between these polls, in ns.
    GroFlushTimeout,
    /// Longest time in ns for which its interrupt stays off while epoll busy-polls and finds packets.
    IrqSuspendTimeout,
    /// 0 if it polls in softirqs, 1 in a thread, 2 in a thread that never sleeps (Linux 6.19).
    Threaded,
}

impl NapiSetting {
    /// All of them.
    pub const ALL: [NapiSetting; 4] =
        [NapiSetting::DeferHardIrqs, NapiSetting::GroFlushTimeout, NapiSetting::IrqSuspendTimeout, NapiSetting::Threaded];

    /// The kernel's name, in the specification of the family.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            NapiSetting::DeferHardIrqs => "defer-hard-irqs",
            NapiSetting::GroFlushTimeout => "gro-flush-timeout",
            NapiSetting::IrqSuspendTimeout => "irq-suspend-timeout",
            NapiSetting::Threaded => "threaded",
        }
    }

    /// The file in `/sys/class/net/<interface>` with the value that new instances take; a write sets those that there are, too.
    #[must_use]
    pub const fn file(self) -> Option<&'static str> {
        match self {
            NapiSetting::DeferHardIrqs => Some("napi_defer_hard_irqs"),
            NapiSetting::GroFlushTimeout => Some("gro_flush_timeout"),
            NapiSetting::Threaded => Some("threaded"),
            NapiSetting::IrqSuspendTimeout => None,
        }
    }

    const fn kind(self) -> u16 {
        match self {
            NapiSetting::DeferHardIrqs => NETDEV_A_NAPI_DEFER_HARD_IRQS,
            NapiSetting::GroFlushTimeout => NETDEV_A_NAPI_GRO_FLUSH_TIMEOUT,
            NapiSetting::IrqSuspendTimeout => NETDEV_A_NAPI_IRQ_SUSPEND_TIMEOUT,
            NapiSetting::Threaded => NETDEV_A_NAPI_THREADED,
        }
    }

    const fn operation(self) -> &'static str {
        match self {
            NapiSetting::DeferHardIrqs => "set defer-hard-irqs of NAPI instance",
            NapiSetting::GroFlushTimeout => "set gro-flush-timeout of NAPI instance",
            NapiSetting::IrqSuspendTimeout => "set irq-suspend-timeout of NAPI instance",
            NapiSetting::Threaded => "set the thread of NAPI instance",
        }
    }
}

/// One NAPI instance, as the kernel describes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NapiFacts {
    /// Index of its interface.
    pub interface: u32,
    /// Its id; with many drivers a new one whenever the interface is set up again.
    pub id: u32,
    /// Its interrupt, if the driver tells it.
    pub irq: Option<u32>,
    /// The settings that this kernel reports.
    values: [Option<u64>; NapiSetting::ALL.len()],
}

impl NapiFacts {
    /// The value of a setting; `None` if this kernel does not report it.
    #[must_use]
    pub fn value(&self, setting: NapiSetting) -> Option<u64> {
        self.values[setting as usize]
    }

    /// The same instance with these settings.
    pub(crate) fn with(self, value: impl Fn(NapiSetting) -> Option<u64>) -> NapiFacts {
        NapiFacts { values: NapiSetting::ALL.map(value), ..self }
    }

    fn read(answer: &Message) -> Option<NapiFacts> {
        let interface = short(answer, NETDEV_A_NAPI_IFINDEX)?;
        let (id, irq) = (short(answer, NETDEV_A_NAPI_ID)?, short(answer, NETDEV_A_NAPI_IRQ));
        let facts = NapiFacts { interface, id, irq, ..NapiFacts::default() };
        Some(facts.with(|setting| unsigned(answer, setting.kind())))
    }

    /// The NAPI instances of the interface with index `interface` in the calling thread's network namespace, by id; empty if it
    /// has none.
    ///
    /// # Errors
    /// ENOENT if the kernel lacks the family (before Linux 6.6), EOPNOTSUPP if it lacks the question (6.8), ENODEV if there is no
    /// such interface.
    pub fn of_interface(interface: u32) -> Result<Vec<NapiFacts>, NetlinkError> {
        let index = interface.to_string();
        let asked = Asked { operation: "list the NAPI instances of interface", interface: &index };
        let mut all = of_family(&asked, NlmF::DUMP, NETDEV_CMD_NAPI_GET, (NETDEV_A_NAPI_IFINDEX, interface), NapiFacts::read)?;
        all.arrange_by_key(|napi| napi.id);
        Ok(all)
    }

    /// The NAPI instance with this id, in the calling thread's network namespace.
    ///
    /// # Errors
    /// As [`NapiFacts::of_interface`]; ENOENT if there is no such instance.
    pub fn of_id(id: u32) -> Result<NapiFacts, NetlinkError> {
        let number = id.to_string();
        let asked = Asked { operation: "read NAPI instance", interface: &number };
        let found = of_family(&asked, NlmF::empty(), NETDEV_CMD_NAPI_GET, (NETDEV_A_NAPI_ID, id), NapiFacts::read)?;
        found.into_iter().next().ok_or_else(|| asked.refused(-libc::ENOENT, None))
    }

    /// Sets a setting of the NAPI instance `id`.
    ///
    /// # Errors
    /// There is no such instance (ENOENT), the kernel does not know the value (ERANGE) or the setting (EOPNOTSUPP), or
    /// CAP_NET_ADMIN in the initial user namespace is missing (EPERM).
    pub fn set(id: u32, setting: NapiSetting, value: u64) -> Result<(), NetlinkError> {
        let number = id.to_string();
        let asked = Asked { operation: setting.operation(), interface: &number };
        let netlink = Netlink::over(NlFamily::Generic)?;
        let family = family(&netlink, &asked, "netdev")?;
        let request = message(NETDEV_CMD_NAPI_SET, NETDEV_A_NAPI_ID, id).map_err(|e| asked.exchange(e))?;
        // A netlink `uint` has four bytes where they suffice.
        let request = match u32::try_from(value) {
            Ok(short) => push(request, setting.kind(), short),
            Err(_) => push(request, setting.kind(), value),
        };
        let request = request.map_err(|e| asked.exchange(e))?;
        netlink.request(&asked, GenlId::from(family), NlmF::empty(), request, |_: &Message| ()).map(drop)
    }
}

/// A queue and the NAPI instance that serves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServedQueue {
    /// False for a receive queue: these come first.
    pub transmits: bool,
    /// Its number.
    pub number: u32,
    /// The instance's id.
    pub napi: u32,
}

impl ServedQueue {
    /// The queues of the interface with index `interface` whose driver tells their instance, receive queues first.
    ///
    /// # Errors
    /// As [`NapiFacts::of_interface`].
    pub fn of_interface(interface: u32) -> Result<Vec<ServedQueue>, NetlinkError> {
        let index = interface.to_string();
        let asked = Asked { operation: "list the queues of interface", interface: &index };
        let read = |answer: &Message| {
            let transmits = unsigned(answer, NETDEV_A_QUEUE_TYPE)? != NETDEV_QUEUE_TYPE_RX;
            Some(ServedQueue {
                transmits,
                number: short(answer, NETDEV_A_QUEUE_ID)?,
                napi: short(answer, NETDEV_A_QUEUE_NAPI_ID)?,
            })
        };
        let mut all = of_family(&asked, NlmF::DUMP, NETDEV_CMD_QUEUE_GET, (NETDEV_A_QUEUE_IFINDEX, interface), read)?;
        all.arrange_by(Ord::cmp);
        Ok(all)
    }
}

/// Asks the family a question with one number, and reads its answers.
fn of_family<T>(
    asked: &Asked<'_>,
    flags: NlmF,
    command: u8,
    (kind, number): (u16, u32),
    read: impl Fn(&Message) -> Option<T>,
) -> Result<Vec<T>, NetlinkError> {
    let netlink = Netlink::over(NlFamily::Generic)?;
    let family = family(&netlink, asked, "netdev")?;
    let request = message(command, kind, number).map_err(|e| asked.exchange(e))?;
    Ok(netlink.request(asked, GenlId::from(family), flags, request, read)?.into_iter().flatten().collect())
}

/// A netlink `uint`: four bytes if they suffice, otherwise eight.
fn unsigned(answer: &Message, kind: u16) -> Option<u64> {
    let attributes = answer.attrs().get_attr_handle();
    number_of(attributes.get_attribute(kind)?.nla_payload().as_ref())
}

fn short(answer: &Message, kind: u16) -> Option<u32> {
    u32::try_from(unsigned(answer, kind)?).ok()
}

fn number_of(bytes: &[u8]) -> Option<u64> {
    let short = <[u8; 4]>::try_from(bytes).map(|bytes| u64::from(u32::from_ne_bytes(bytes)));
    short.or_else(|_| <[u8; 8]>::try_from(bytes).map(u64::from_ne_bytes)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_has_none_and_a_number_without_an_instance_is_refused() {
        match NapiFacts::of_interface(1) {
            Ok(all) => assert_eq!(all, []),
            Err(NetlinkError::Refused { source, .. }) => {
                assert!(matches!(source.raw_os_error(), Some(libc::ENOENT | libc::EOPNOTSUPP)), "an older kernel: {source}");
            }
            Err(other) => panic!("{other}"),
        }
        let error = NapiFacts::set(0x7fff_ffff, NapiSetting::IrqSuspendTimeout, 0).unwrap_err().to_string();
        assert!(error.contains("set irq-suspend-timeout of NAPI instance 2147483647"), "{error}");
        let error = NapiFacts::of_id(0x7fff_ffff).unwrap_err().to_string();
        assert!(error.contains("read NAPI instance 2147483647"), "{error}");
    }

    #[test]
    fn a_setting_has_a_place_and_a_name_of_its_own() {
        for (at, setting) in NapiSetting::ALL.into_iter().enumerate() {
            assert_eq!(setting as usize, at, "{}", setting.name());
        }
    }

    #[test]
    fn an_unsigned_number_has_four_or_eight_bytes() {
        assert_eq!(number_of(&7_u32.to_ne_bytes()), Some(7));
        assert_eq!(number_of(&(1_u64 << 40).to_ne_bytes()), Some(1 << 40));
        assert_eq!(number_of(&[0; 2]), None);
    }
}
