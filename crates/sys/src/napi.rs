//! The NAPI instances of a network device by the queue that each serves, and their settings, each read and written as a text.
//!
//! ```text
//!   rx-0   id 8193   IRQ 40   defer-hard-irqs 0   gro-flush-timeout 0   irq-suspend-timeout 0   threaded 0
//!   rx-1   id 8194   IRQ 41   …
//! ```
//! An instance is known by the first receive queue that it serves, otherwise by its first transmit queue, because ids change when
//! a device is set up again. If the driver reports no queue for it (veth), its name is its place among the instances: `napi-0`
//! has the lowest id.

use std::io;

use crate::device::DeviceError;
use crate::netlink::{NapiFacts, Netlink, NetlinkError, ServedQueue};

pub use crate::netlink::NapiSetting;

/// The word for threads that never sleep, as in the kernel's specification of the family `netdev`.
const BUSY_POLL: &str = "busy-poll";

/// One NAPI instance of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Napi {
    /// The queues that it serves, such as `rx-0` and `tx-0`, its own first; or its place, such as `napi-0`.
    pub queues: Vec<String>,
    /// Id, interrupt and settings, as the kernel reports them.
    pub facts: NapiFacts,
}

impl Napi {
    /// The name that stays when the device is set up again.
    #[must_use]
    pub fn name(&self) -> &str {
        self.queues.first().map_or("", |name| name)
    }

    /// True if it serves `queue`: a name, or the number of a receive queue. If the driver reports no queue, the number is the
    /// instance's place.
    #[must_use]
    pub fn serves(&self, queue: &str) -> bool {
        let numbered = |name: &String| name.strip_prefix("rx-").or(name.strip_prefix("napi-")) == Some(queue);
        self.queues.iter().any(|name| name == queue || numbered(name))
    }

    /// The value of a setting; `None` if this kernel does not report it.
    #[must_use]
    pub fn text(&self, setting: NapiSetting) -> Option<String> {
        self.facts.value(setting).map(|value| text_of(setting, value))
    }

    /// The NAPI instances of a device in the calling thread's network namespace; empty if it has none, or the kernel does not
    /// report them.
    ///
    /// # Errors
    /// There is no such interface (ENODEV), or the kernel refuses.
    pub fn all_of(interface: &str) -> Result<Vec<Napi>, DeviceError> {
        let index = Netlink::open()?.link(interface)?.index;
        let reported = |answer| match answer {
            Err(NetlinkError::Refused { source, .. }) if is_unknown(&source) => Ok(Vec::new()),
            answer => answer,
        };
        let instances = reported(NapiFacts::of_interface(index))?;
        if instances.is_empty() {
            return Ok(Vec::new());
        }
        let queues = match ServedQueue::of_interface(index) {
            Err(NetlinkError::Refused { source, .. }) if is_unknown(&source) => Vec::new(),
            answer => answer?,
        };
        Ok(named(instances, &queues))
    }

    /// The instance with this id, such as a socket's SO_INCOMING_NAPI_ID, and its interface.
    ///
    /// # Errors
    /// There is no such instance in this network namespace (ENOENT), or the kernel is too old (before Linux 6.8).
    pub fn of_id(id: u32) -> Result<(String, Napi), DeviceError> {
        let index = NapiFacts::of_id(id)?.interface;
        let links = Netlink::open()?.links()?;
        let gone = || DeviceError::NoNapi { interface: format!("interface {index}"), name: id.to_string() };
        let interface = links.into_iter().find(|link| link.index == index).ok_or_else(gone)?.name;
        let found = Napi::all_of(&interface)?.into_iter().find(|napi| napi.facts.id == id);
        found.map(|napi| (interface, napi)).ok_or_else(gone)
    }
}

/// Sets a setting of the instance called `name`. Read it back to see the value that the kernel chose.
///
/// # Errors
/// There is no such interface (ENODEV) or instance, the text is not a value of this setting, the kernel refuses, or CAP_NET_ADMIN
/// in the initial user namespace is missing (EPERM).
pub fn set(interface: &str, name: &str, setting: NapiSetting, text: &str) -> Result<(), DeviceError> {
    let wrong = || DeviceError::NapiText { text: text.to_owned(), setting, interface: interface.to_owned() };
    let value = value_of(setting, text).ok_or_else(wrong)?;
    let found = Napi::all_of(interface)?.into_iter().find(|napi| napi.name() == name);
    let gone = || DeviceError::NoNapi { interface: interface.to_owned(), name: name.to_owned() };
    let id = found.ok_or_else(gone)?.facts.id;
    match NapiFacts::set(id, setting, value) {
        Err(NetlinkError::Refused { source, .. }) if text == BUSY_POLL && source.raw_os_error() == Some(libc::ERANGE) => {
            Err(DeviceError::NoBusyPollThreads { source })
        }
        // The instance disappeared before the request arrived.
        Err(NetlinkError::Refused { source, .. }) if source.raw_os_error() == Some(libc::ENOENT) => Err(gone()),
        other => Ok(other?),
    }
}

/// The interface and the setting whose value for new instances the file at `path` holds.
#[must_use]
pub fn of_file(path: &str) -> Option<(&str, NapiSetting)> {
    let (interface, file) = path.strip_prefix("/sys/class/net/")?.split_once('/')?;
    Some((interface, NapiSetting::ALL.into_iter().find(|setting| setting.file() == Some(file))?))
}

fn is_unknown(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::EOPNOTSUPP))
}

/// The instances, ordered by id, with the names of the queues that they serve, which are in order.
fn named(instances: Vec<NapiFacts>, queues: &[ServedQueue]) -> Vec<Napi> {
    let name = |queue: &ServedQueue| format!("{}-{}", if queue.transmits { "tx" } else { "rx" }, queue.number);
    let named = instances.into_iter().enumerate().map(|(place, facts)| {
        let mut served: Vec<String> = queues.iter().filter(|queue| queue.napi == facts.id).map(name).collect();
        if served.is_empty() {
            served.push(format!("napi-{place}"));
        }
        Napi { queues: served, facts }
    });
    named.collect()
}

fn text_of(setting: NapiSetting, value: u64) -> String {
    if setting == NapiSetting::Threaded && value == 2 { BUSY_POLL.to_owned() } else { value.to_string() }
}

fn value_of(setting: NapiSetting, text: &str) -> Option<u64> {
    if setting == NapiSetting::Threaded && text == BUSY_POLL { Some(2) } else { text.parse().ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_is_known_by_its_first_queue_or_by_its_place() {
        let queue = |transmits, number, napi| ServedQueue { transmits, number, napi };
        let mut instances = [NapiFacts::default(); 3].to_vec();
        for (napi, id) in instances.iter_mut().zip(11..) {
            napi.id = id;
        }
        let queues = [queue(false, 0, 12), queue(false, 1, 11), queue(true, 0, 12), queue(true, 5, 13)];
        let names = |queues: &[ServedQueue]| -> Vec<Vec<String>> {
            named(instances.clone(), queues).into_iter().map(|napi| napi.queues).collect()
        };
        assert_eq!(names(&queues), [vec!["rx-1"], vec!["rx-0", "tx-0"], vec!["tx-5"]]);
        assert_eq!(names(&[]), [["napi-0"], ["napi-1"], ["napi-2"]]);
        let serving = |queue: &str| named(instances.clone(), &queues).iter().position(|napi| napi.serves(queue));
        assert_eq!(
            ["0", "1", "rx-1", "tx-0", "tx-5", "5", "rx"].map(serving),
            [Some(1), Some(0), Some(0), Some(1), Some(2), None, None]
        );
    }

    #[test]
    fn threads_that_never_sleep_have_a_word() {
        use NapiSetting::{DeferHardIrqs, Threaded};
        for (number, text) in [(0, "0"), (1, "1"), (2, "busy-poll")] {
            assert_eq!((text_of(Threaded, number).as_str(), value_of(Threaded, text)), (text, Some(number)));
        }
        assert_eq!((text_of(DeferHardIrqs, 2).as_str(), value_of(DeferHardIrqs, "busy-poll")), ("2", None));
        assert_eq!(value_of(Threaded, "on"), None);
    }

    #[test]
    fn loopback_has_no_instance_and_says_so() {
        assert_eq!(Napi::all_of("lo").unwrap(), []);
        assert_eq!(Napi::all_of("hp-missing").unwrap_err().errno(), Some(libc::ENODEV));
        let error = set("lo", "rx-0", NapiSetting::Threaded, "1").unwrap_err();
        assert_eq!(error.to_string(), "lo has no NAPI instance rx-0");
        assert!(set("lo", "rx-0", NapiSetting::Threaded, "on").unwrap_err().to_string().contains("not a value of threaded"));
    }
}
