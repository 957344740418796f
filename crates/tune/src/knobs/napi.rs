//! NAPI: how the kernel polls the device, and when the interrupt is on.

use hairpin_sys::device::Attribute;
use hairpin_sys::host::Host;
use serde_json::Value;

use crate::change::{Address, Form};
use crate::knob::{Control, Knob, Network, Scope, Spot, Write};
use crate::place::Place;
use crate::read::{Answer, Read};
use crate::reading::number;
use crate::values::Values;

/// The device's file sets all instances and those to come; only the instances themselves take `busy-poll`, and any other value of their own.
const THREADED_FILE: Read = Read::Interface("threaded", number);
const THREADED: Read = Read::Device(Attribute::NapiThreaded, Answer::Number);
const BUSY_POLL: &str = "busy-poll";

pub(crate) static GRO_FLUSH_TIMEOUT: Knob = Knob {
    name: "gro_flush_timeout_ns",
    summary: "How long NAPI may hold packets before a timer processes them",
    read: Read::Interface("gro_flush_timeout", number),
    why: "Together with `napi_defer_hard_irqs` it keeps the interrupt off and polls by timer. With busy \
          polling, that keeps interrupts away from the polling thread; without, a packet may wait this long.",
    change: Some(Control {
        network: Network::Own,
        scope: Scope::Interface,
        values: Values::Number(0, 1_000_000_000),
        mechanism: "With napi_defer_hard_irqs: how long packets may wait in the queue, with the interrupt \
                    off, before a timer processes them.",
        effect: "Alone it adds up to this time to a round trip that no application polls for. With busy \
                 polling it keeps interrupts away from the polling thread.",
        cost: "Latency for receivers that do not poll.",
        needs: "Root and the interface's namespace.",
        reference: "Documentation/networking/napi.rst",
        latency: Some("0"),
        stake_ns: 10_000,
        ..Control::PLAIN
    }),
    ..Knob::FACT
};

pub(crate) static NAPI_DEFER_HARD_IRQS: Knob = Knob {
    name: "napi_defer_hard_irqs",
    summary: "Empty polls before NAPI enables the interrupt again",
    read: Read::Interface("napi_defer_hard_irqs", number),
    why: "The interrupt stays off for this many empty polls; until then a packet waits for the timer of \
          `gro_flush_timeout_ns`, unless an application busy-polls.",
    change: Some(Control {
        network: Network::Own,
        scope: Scope::Interface,
        values: Values::Number(0, 2_147_483_647),
        mechanism: "The number of empty polls, gro_flush_timeout apart, before NAPI enables the interrupt \
                    again.",
        effect: "Above 0 an application that busy-polls is not interrupted; one that blocks waits for the \
                 timer.",
        cost: "Latency for receivers that do not poll.",
        needs: "Root and the interface's namespace.",
        reference: "Documentation/networking/napi.rst",
        latency: Some("0"),
        stake_ns: 10_000,
        ..Control::PLAIN
    }),
    ..Knob::FACT
};

pub(crate) static NAPI_THREADED: Knob = Knob {
    name: "napi_threaded",
    summary: "Whether NAPI polls in its own threads instead of in softirqs",
    read: Read::By(threaded),
    source: "`threaded` of the interface's NAPI instances in the netlink family `netdev` (Linux 6.17): one value if \
             all agree, otherwise one per instance. Elsewhere, and while the interface is down, the file \
             `/sys/class/net/<interface>/threaded`.",
    why: "A NAPI thread can be pinned and given a priority, but the scheduler has to wake it: one more \
          switch on a packet's way. 0 is off, 1 on; with `busy-poll` the thread never sleeps.",
    look: "cat /sys/class/net/eth0/threaded\nynl --family netdev --dump napi-get",
    change: Some(Control {
        network: Network::Own,
        scope: Scope::Interface,
        values: Values::Words(&["0", "1", BUSY_POLL]),
        write: Write::At(threaded_spots),
        mechanism: "NAPI polls in its own kernel threads instead of in softirqs; with busy-poll these threads poll \
                    without a pause.",
        effect: "The threads can be pinned and given a priority, away from the application's core; every \
                 packet then needs one more wake-up. With busy-poll it needs none, and no interrupt.",
        cost: "A wake-up per poll. With busy-poll a core per NAPI instance, always busy.",
        needs: "Root, and an interface with NAPI; for busy-poll Linux 6.19.",
        reference: "Documentation/networking/napi.rst (threaded)",
        latency: Some("0"),
        stake_ns: 5000,
        ..Control::PLAIN
    }),
    ..Knob::FACT
};

pub(crate) static IRQ_SUSPEND_TIMEOUT: Knob = Knob {
    name: "irq_suspend_timeout_ns",
    summary: "How long interrupts stay off, at most, while an application busy-polls and finds packets",
    read: Read::Device(Attribute::IrqSuspendTimeout, Answer::Number),
    source: "`irq-suspend-timeout` of the interface's NAPI instances in the netlink family `netdev` (Linux \
             6.13). One value if all agree, otherwise one per instance. Left out where there is no instance: \
             loopback, plain veth, an interface that is down.",
    why: "While an application busy-polls with epoll and finds packets, interrupts stay off for at most this \
          long: they do not disturb it while it works, and wake it when it sleeps.",
    look: "ynl --family netdev --dump napi-get",
    change: Some(Control {
        network: Network::Own,
        scope: Scope::Interface,
        values: Values::Number(0, 1_000_000_000),
        mechanism: "How long the interrupts of a NAPI instance stay off, at most, while epoll busy-polls and \
                    finds packets.",
        effect: "Under load the application polls without interrupts; when idle, interrupts wake it: the \
                 latency of polling at the power of interrupts.",
        cost: "Packets wait up to this long if the application stops polling.",
        needs: "CAP_NET_ADMIN, Linux 6.13, a device with NAPI instances, and an application with epoll busy \
                polling.",
        reference: "Documentation/networking/napi.rst (IRQ suspension)",
        ..Control::PLAIN
    }),
    ..Knob::FACT
};

fn threaded(host: &dyn Host, place: &Place<'_>) -> Result<Option<Value>, String> {
    Ok(THREADED.value(host, place)?.or(THREADED_FILE.value(host, place)?))
}

/// The file, and the instances where the file does not reach them: for `busy-poll`, and where they differ from it.
fn threaded_spots(host: &dyn Host, place: &Place<'_>, value: &str) -> Result<Vec<Spot>, String> {
    let instances = THREADED.value(host, place)?;
    let file = if value == BUSY_POLL { Vec::new() } else { THREADED_FILE.addresses(host, place, Form::Words)? };
    let own = instances.is_some() && (file.is_empty() || instances != THREADED_FILE.value(host, place)?);
    let instances: Vec<Address> = if own { THREADED.addresses(host, place, Form::Words)? } else { Vec::new() };
    Ok(file.into_iter().chain(instances).map(|address| Spot { address, to: value.to_owned() }).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hairpin_sys::host::FakeHost;

    const ETH0: Place<'_> = Place { cpus: &[], interface: Some("eth0") };

    fn host(root: &std::path::Path) -> FakeHost {
        FakeHost::at(root).with("/sys/class/net/eth0/threaded", "0\n")
    }

    /// Where a value is written: `file`, `instances`.
    fn places(host: &FakeHost, value: &str) -> Vec<&'static str> {
        let spots = NAPI_THREADED.spots(host, &ETH0, value).unwrap();
        assert!(spots.iter().all(|spot| spot.to == value), "{spots:?}");
        spots.iter().map(|spot| if matches!(spot.address, Address::File { .. }) { "file" } else { "instances" }).collect()
    }

    #[test]
    fn a_thread_that_busy_polls_is_told_from_one_that_sleeps() {
        let directory = tempfile::tempdir().unwrap();
        let old = host(directory.path());
        assert_eq!(NAPI_THREADED.value(&old, &ETH0), Some(0.into()));
        assert_eq!((places(&old, "1"), places(&old, BUSY_POLL)), (vec!["file"], vec![]), "before Linux 6.17");
        let new = host(directory.path()).with_attribute("eth0", Attribute::NapiThreaded, "0");
        assert_eq!((places(&new, "1"), places(&new, BUSY_POLL)), (vec!["file"], vec!["instances"]));
        let polling = new.with_attribute("eth0", Attribute::NapiThreaded, BUSY_POLL);
        assert_eq!(NAPI_THREADED.value(&polling, &ETH0), Some(BUSY_POLL.into()));
        assert_eq!(places(&polling, "0"), ["file", "instances"], "the file says 0 already");
        let apart = polling.with_attribute("eth0", Attribute::NapiThreaded, "8193=0,8194=1");
        assert_eq!(NAPI_THREADED.value(&apart, &ETH0), Some("8193=0,8194=1".into()));
    }
}
