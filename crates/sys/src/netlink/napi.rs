//! The NAPI instances of an interface, read and set over the kernel's generic netlink family `netdev` (since Linux 6.8, 6.13).
//!
//! Sources: `include/uapi/linux/netdev.h`, `Documentation/netlink/specs/netdev.yaml`, `Documentation/networking/napi.rst`.

use neli::consts::nl::{GenlId, NlmF};
use neli::consts::socket::NlFamily;
use neli::{Size, ToBytes};

use super::netdev::{Message, family, message, push};
use super::{Asked, Netlink, NetlinkError};

const NETDEV_CMD_NAPI_GET: u8 = 11;
const NETDEV_CMD_NAPI_SET: u8 = 14;
const NETDEV_A_NAPI_IFINDEX: u16 = 1;
const NETDEV_A_NAPI_ID: u16 = 2;
const NETDEV_A_NAPI_IRQ_SUSPEND_TIMEOUT: u16 = 7;
const NETDEV_A_NAPI_THREADED: u16 = 8;

/// One NAPI instance of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Napi {
    /// Its id; new whenever the interface is set up again.
    pub id: u32,
    /// Time for which its interrupt stays masked while an application busy-polls and finds packets; `None` before Linux 6.13.
    pub irq_suspend_timeout_ns: Option<u64>,
    /// 0 if it polls in softirqs, 1 in a thread, 2 in a thread that never sleeps (since Linux 6.19); `None` before Linux 6.17.
    pub threaded: Option<u64>,
}

impl Napi {
    /// The NAPI instances of the interface with index `interface` in the calling thread's network namespace; empty if the kernel
    /// does not report them.
    ///
    /// # Errors
    /// ENOENT if the kernel lacks the family (before Linux 6.6), ENODEV if there is no such interface.
    pub fn of(interface: u32) -> Result<Vec<Napi>, NetlinkError> {
        let index = interface.to_string();
        let asked = Asked { operation: "list the NAPI instances of interface", interface: &index };
        let netlink = Netlink::over(NlFamily::Generic)?;
        let family = family(&netlink, &asked, "netdev")?;
        let request = message(NETDEV_CMD_NAPI_GET, NETDEV_A_NAPI_IFINDEX, interface).map_err(|e| asked.exchange(e))?;
        let all = netlink.request(&asked, GenlId::from(family), NlmF::DUMP, request, |answer: &Message| {
            let attributes = answer.attrs().get_attr_handle();
            let number = |kind| attributes.get_attribute(kind).and_then(|attribute| unsigned(attribute.nla_payload().as_ref()));
            let id = number(NETDEV_A_NAPI_ID).and_then(|id| u32::try_from(id).ok())?;
            let irq_suspend_timeout_ns = number(NETDEV_A_NAPI_IRQ_SUSPEND_TIMEOUT);
            Some(Napi { id, irq_suspend_timeout_ns, threaded: number(NETDEV_A_NAPI_THREADED) })
        })?;
        let mut all: Vec<Napi> = all.into_iter().flatten().collect();
        all.sort_by_key(|napi| napi.id);
        Ok(all)
    }

    /// Sets the time for which the interrupt of the NAPI instance `id` may stay masked.
    ///
    /// # Errors
    /// There is no such instance (ENOENT), the kernel is older than 6.13 (EOPNOTSUPP), or CAP_NET_ADMIN is missing (EPERM).
    pub fn set_irq_suspend_timeout(id: u32, ns: u64) -> Result<(), NetlinkError> {
        set("set irq-suspend-timeout of NAPI instance", id, NETDEV_A_NAPI_IRQ_SUSPEND_TIMEOUT, ns)
    }

    /// Sets where the NAPI instance `id` polls: see [`Napi::threaded`].
    ///
    /// # Errors
    /// There is no such instance (ENOENT), the kernel does not know this way (ERANGE, EOPNOTSUPP), or CAP_NET_ADMIN is missing (EPERM).
    pub fn set_threaded(id: u32, threaded: u32) -> Result<(), NetlinkError> {
        set("set the thread of NAPI instance", id, NETDEV_A_NAPI_THREADED, threaded)
    }
}

/// Sets an attribute of the NAPI instance `id`.
fn set<P: Size + ToBytes>(operation: &'static str, id: u32, attribute: u16, value: P) -> Result<(), NetlinkError> {
    let number = id.to_string();
    let asked = Asked { operation, interface: &number };
    let netlink = Netlink::over(NlFamily::Generic)?;
    let family = family(&netlink, &asked, "netdev")?;
    let request = message(NETDEV_CMD_NAPI_SET, NETDEV_A_NAPI_ID, id).map_err(|e| asked.exchange(e))?;
    let request = push(request, attribute, value).map_err(|e| asked.exchange(e))?;
    netlink.request(&asked, GenlId::from(family), NlmF::empty(), request, |_: &Message| ()).map(drop)
}

/// A netlink `uint`: four bytes if they suffice, otherwise eight.
fn unsigned(bytes: &[u8]) -> Option<u64> {
    let short = <[u8; 4]>::try_from(bytes).map(|bytes| u64::from(u32::from_ne_bytes(bytes)));
    short.or_else(|_| <[u8; 8]>::try_from(bytes).map(u64::from_ne_bytes)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_has_none_and_a_number_without_an_instance_is_refused() {
        match Napi::of(1) {
            Ok(all) => assert_eq!(all, []),
            Err(NetlinkError::Refused { source, .. }) => assert_eq!(source.raw_os_error(), Some(libc::ENOENT), "an older kernel"),
            Err(other) => panic!("{other}"),
        }
        let error = Napi::set_irq_suspend_timeout(0x7fff_ffff, 0).unwrap_err().to_string();
        assert!(error.contains("set irq-suspend-timeout of NAPI instance 2147483647"), "{error}");
    }

    #[test]
    fn an_unsigned_number_has_four_or_eight_bytes() {
        assert_eq!(unsigned(&7_u32.to_ne_bytes()), Some(7));
        assert_eq!(unsigned(&(1_u64 << 40).to_ne_bytes()), Some(1 << 40));
        assert_eq!(unsigned(&[0; 2]), None);
    }
}
