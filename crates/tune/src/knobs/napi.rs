//! NAPI: how the kernel polls the device, and when the interrupt is on.

use hairpin_sys::host::Host;
use hairpin_sys::napi::NapiSetting;

use crate::change::{Address, Form};
use crate::knob::{Control, Knob, Network, Scope, Spot, Write};
use crate::place::Place;
use crate::read::Read;
use crate::values::Values;

const BUSY_POLL: &str = "busy-poll";

pub(crate) static GRO_FLUSH_TIMEOUT: Knob = Knob {
    name: "gro_flush_timeout_ns",
    summary: "How long NAPI may hold packets before a timer processes them",
    read: Read::Napi(NapiSetting::GroFlushTimeout),
    source: "`gro-flush-timeout` of the interface's NAPI instances in the netlink family `netdev` (Linux 6.13): one value if all agree, otherwise one per \
             instance. Elsewhere, and while the interface is down, the file `/sys/class/net/<interface>/gro_flush_timeout`, the value that new instances \
             take; a change writes both.",
    look: "cat /sys/class/net/eth0/gro_flush_timeout\nynl --family netdev --dump napi-get",
    why: "Together with `napi_defer_hard_irqs` it keeps the interrupt off and polls by timer. With busy \
          polling, that keeps interrupts away from the polling thread; without, a packet may wait this long.",
    change: Some(Control {
        network: Network::Own,
        scope: Scope::Interface,
        values: Values::Number(0, 1_000_000_000),
        mechanism: "With napi_defer_hard_irqs: how long packets may wait in the queue, with the interrupt \
                    off, before a timer processes them.",
        effect: "With napi_defer_hard_irqs at 0 it alone only delays what GRO holds back. With it above \
                 0 it adds up to this time to a round trip that no application polls for; with busy \
                 polling it keeps interrupts away from the polling thread.",
        cost: "Latency for receivers that do not poll.",
        needs: "Root and the interface's namespace; for one queue (`@rx-2`) Linux 6.13.",
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
    read: Read::Napi(NapiSetting::DeferHardIrqs),
    source: "`defer-hard-irqs` of the interface's NAPI instances, as with `gro_flush_timeout_ns`; the file is `/sys/class/net/<interface>/napi_defer_hard_irqs`.",
    look: "cat /sys/class/net/eth0/napi_defer_hard_irqs\nynl --family netdev --dump napi-get",
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
        needs: "Root and the interface's namespace; for one queue (`@rx-2`) Linux 6.13.",
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
    read: Read::Napi(NapiSetting::Threaded),
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
        needs: "Root, and an interface with NAPI; for one queue (`@rx-2`) Linux 6.17, for busy-poll 6.19.",
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
    read: Read::Napi(NapiSetting::IrqSuspendTimeout),
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
        needs: "Root, Linux 6.13, a device with NAPI instances, and an application with epoll busy \
                polling.",
        reference: "Documentation/networking/napi.rst (IRQ suspension)",
        ..Control::PLAIN
    }),
    ..Knob::FACT
};

/// The file does not take `busy-poll`.
fn threaded_spots(host: &dyn Host, place: &Place<'_>, value: &str) -> Result<Vec<Spot>, String> {
    let all = NAPI_THREADED.read.addresses(host, place, Form::Words)?.into_iter();
    let takes = |address: &Address| value != BUSY_POLL || matches!(address, Address::Napi { .. });
    Ok(all.filter(takes).map(|address| Spot { address, to: value.to_owned() }).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hairpin_sys::host::FakeHost;
    use serde_json::json;

    const ETH0: Place<'_> = Place { cpus: &[], interface: Some("eth0") };

    fn host(root: &std::path::Path) -> FakeHost {
        FakeHost::at(root).with_device("eth0").with("/sys/class/net/eth0/threaded", "0\n")
    }

    /// Where a value is written: `file`, or an instance.
    fn places(host: &FakeHost, value: &str) -> Vec<String> {
        let spots = NAPI_THREADED.spots(host, &ETH0, value).unwrap();
        assert!(spots.iter().all(|spot| spot.to == value), "{spots:?}");
        let place = |address| if let Address::Napi { instance, .. } = address { instance } else { "file".to_owned() };
        spots.into_iter().map(|spot| place(spot.address)).collect()
    }

    #[test]
    fn busy_poll_is_a_value_of_instances_and_not_of_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let old = host(directory.path());
        assert_eq!(NAPI_THREADED.value(&old, &ETH0), Some(0.into()));
        assert_eq!((places(&old, "1"), places(&old, BUSY_POLL).len()), (vec!["file".to_owned()], 0), "before Linux 6.17");
        let one = |value| host(directory.path()).with_napi("eth0", "rx-0", &[(NapiSetting::Threaded, value)]);
        assert_eq!(
            (places(&one("0"), "1"), places(&one("0"), BUSY_POLL)),
            (vec!["file".into(), "rx-0".into()], vec!["rx-0".into()])
        );
        assert_eq!(NAPI_THREADED.value(&one(BUSY_POLL), &ETH0), Some(BUSY_POLL.into()));
        let apart = one("0").with_napi("eth0", "rx-1", &[(NapiSetting::Threaded, "1")]);
        assert_eq!(NAPI_THREADED.value(&apart, &ETH0), Some(json!({"rx-0": 0, "rx-1": 1})));
        assert_eq!(places(&apart, "0"), ["file", "rx-0", "rx-1"]);
    }
}
