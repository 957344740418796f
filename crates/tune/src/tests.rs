//! Every knob on hosts made of files: present, absent, unreadable, garbled.

mod changes;
mod napi;
mod page;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::path::Path;

use hairpin_sys::device::{Attribute, DeviceError};
use hairpin_sys::ethtool::{DriverInfo, EthtoolError};
use hairpin_sys::host::{FakeHost, Held, Host};
use hairpin_sys::napi::{Napi, NapiSetting};
use serde_json::Value;

use crate::change::{Address, Change, Form};
use crate::knob::{Network, Scope, Write};
use crate::{Knob, Place, Profile, Read, Reading, all, facts, knob, network_of};

pub(crate) const PLACE: Place<'_> = Place { cpus: &[0, 1], interface: Some("eth0") };

/// A host with every setting.
pub(crate) fn whole(root: &Path) -> FakeHost {
    let mut host = FakeHost::at(root);
    for (path, text) in [
        ("/proc/sys/kernel/hostname", "alpha\n"),
        ("/proc/sys/kernel/osrelease", "6.12.9-amd64\n"),
        ("/proc/sys/kernel/version", "#1 SMP PREEMPT_DYNAMIC Debian 6.12.9-1 (2025-01-10)\n"),
        ("/proc/cmdline", "BOOT_IMAGE=/vmlinuz quiet isolcpus=1 -- single\n"),
        ("/sys/kernel/debug/sched/preempt", "none voluntary (full) lazy\n"),
        ("/sys/kernel/realtime", "1\n"),
        ("/boot/config-6.12.9-amd64", "# comment\nCONFIG_HZ_250=y\nCONFIG_HZ=250\n"),
        ("/sys/devices/system/cpu/vulnerabilities/meltdown", "Not affected\n"),
        ("/sys/devices/system/cpu/vulnerabilities/spectre_v2", "Mitigation: Retpolines\n"),
        (
            "/proc/cpuinfo",
            "processor\t: 0\nmodel name\t: Example CPU\nflags\t\t: fpu hypervisor\n\nprocessor\t: 1\nmodel name\t: Other\n",
        ),
        ("/sys/class/dmi/id/sys_vendor", "QEMU\n"),
        ("/sys/class/dmi/id/product_name", "Standard PC\n"),
        ("/sys/devices/system/cpu/online", "0-1\n"),
        ("/sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n"),
        ("/sys/devices/system/clocksource/clocksource0/available_clocksource", "tsc hpet acpi_pm \n"),
        ("/sys/devices/system/cpu/cpu0/cpufreq/scaling_driver", "intel_pstate\n"),
        ("/sys/devices/system/cpu/cpu1/cpufreq/scaling_driver", "intel_pstate\n"),
        ("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n"),
        ("/sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "powersave\n"),
        ("/sys/devices/system/cpu/cpu0/cpufreq/energy_performance_preference", "performance\n"),
        ("/sys/devices/system/cpu/cpu1/cpufreq/energy_performance_preference", "performance\n"),
        ("/sys/devices/system/cpu/intel_pstate/no_turbo", "1\n"),
        ("/sys/devices/system/cpu/cpuidle/current_driver", "intel_idle\n"),
        ("/sys/devices/system/cpu/cpuidle/current_governor", "menu\n"),
        ("/sys/module/haltpoll/parameters/guest_halt_poll_ns", "200000\n"),
        ("/sys/devices/system/cpu/isolated", "1\n"),
        ("/sys/devices/system/cpu/nohz_full", "(null)\n"),
        ("/sys/devices/system/cpu/smt/control", "off\n"),
        ("/proc/sys/kernel/sched_rt_runtime_us", "-1\n"),
        ("/proc/sys/kernel/sched_rt_period_us", "1000000\n"),
        ("/proc/sys/kernel/timer_migration", "1\n"),
        ("/proc/sys/kernel/soft_watchdog", "1\n"),
        ("/proc/sys/kernel/nmi_watchdog", "1\n"),
        ("/sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory pids\n"),
        ("/sys/fs/cgroup/cgroup.subtree_control", "cpu memory\n"),
        ("/sys/fs/cgroup/cgroup.procs", "1\n"),
        ("/proc/irq/40/smp_affinity_list", "0-1\n"),
        ("/sys/class/net/eth0/queues/rx-0/rps_flow_cnt", "0\n"),
        ("/proc/sys/kernel/random/boot_id", "9d3f1c1e-0000-4000-8000-000000000001\n"),
        ("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"),
        ("/proc/sys/kernel/numa_balancing", "0\n"),
        ("/sys/devices/system/node/online", "0\n"),
        ("/proc/sys/net/core/busy_poll", "50\n"),
        ("/proc/sys/net/core/busy_read", "51\n"),
        ("/proc/sys/net/core/rmem_default", "212992\n"),
        ("/proc/sys/net/core/rmem_max", "212993\n"),
        ("/proc/sys/net/core/wmem_default", "212994\n"),
        ("/proc/sys/net/core/wmem_max", "212995\n"),
        ("/proc/sys/net/core/netdev_budget", "300\n"),
        ("/proc/sys/net/core/netdev_budget_usecs", "8000\n"),
        ("/proc/sys/net/core/gro_normal_batch", "8\n"),
        ("/proc/sys/net/core/rps_sock_flow_entries", "0\n"),
        ("/proc/sys/net/core/default_qdisc", "fq_codel\n"),
        ("/proc/sys/net/core/somaxconn", "4096\n"),
        ("/proc/sys/net/ipv4/ip_local_port_range", "32768\t60999\n"),
        ("/proc/sys/net/ipv4/tcp_congestion_control", "cubic\n"),
        ("/proc/sys/net/ipv4/tcp_timestamps", "1\n"),
        ("/proc/sys/net/ipv4/tcp_sack", "1\n"),
        ("/proc/sys/net/ipv4/tcp_autocorking", "1\n"),
        ("/proc/sys/net/ipv4/tcp_slow_start_after_idle", "1\n"),
        ("/proc/sys/net/ipv4/tcp_low_latency", "0\n"),
        ("/proc/sys/net/ipv4/tcp_pingpong_thresh", "1\n"),
        ("/proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t6291456\n"),
        ("/proc/sys/net/ipv4/tcp_wmem", "4096\t16384\t4194304\n"),
        ("/proc/sys/net/ipv4/tcp_tw_reuse", "2\n"),
        ("/sys/class/net/eth0/mtu", "1500\n"),
        ("/sys/class/net/eth0/speed", "25000\n"),
        ("/sys/class/net/eth0/duplex", "full\n"),
        ("/sys/class/net/eth0/tx_queue_len", "1000\n"),
        ("/sys/class/net/eth0/gro_flush_timeout", "20000\n"),
        ("/sys/class/net/eth0/napi_defer_hard_irqs", "2\n"),
        ("/sys/class/net/eth0/threaded", "0\n"),
        ("/sys/class/net/eth0/device/numa_node", "0\n"),
        ("/sys/class/net/eth0/device/current_link_speed", "16.0 GT/s PCIe\n"),
        ("/sys/class/net/eth0/device/current_link_width", "16\n"),
        ("/sys/class/net/eth0/queues/rx-0/rps_cpus", "00000000,00000003\n"),
        ("/sys/class/net/eth0/queues/tx-0/xps_cpus", "1\n"),
        ("/sys/class/net/eth0/queues/tx-1/xps_cpus", "2\n"),
        ("/sys/class/net/eth0/device/msi_irqs/40", "msix\n"),
        ("/proc/interrupts", "     CPU0 CPU1\n 40:  5  0  PCI-MSIX-0000:00:04.0   1-edge      eth0-0\nERR: 0\n"),
        ("/proc/irq/40/effective_affinity_list", "1\n"),
    ] {
        host = host.with(path, text);
    }
    for cpu in 0..2 {
        let at = format!("/sys/devices/system/cpu/cpu{cpu}");
        for (file, text) in [
            ("power/pm_qos_resume_latency_us", "0\n".to_owned()),
            ("topology/physical_package_id", "0\n".to_owned()),
            ("topology/core_id", format!("{cpu}\n")),
            ("topology/thread_siblings_list", format!("{cpu}\n")),
            ("cache/index3/level", "3\n".to_owned()),
            ("cache/index3/type", "Unified\n".to_owned()),
            ("cache/index3/shared_cpu_list", "0-1\n".to_owned()),
            ("cpuidle/state0/name", "POLL\n".to_owned()),
            ("cpuidle/state0/latency", "0\n".to_owned()),
            ("cpuidle/state0/disable", "0\n".to_owned()),
            ("cpuidle/state1/name", "C6\n".to_owned()),
            ("cpuidle/state1/latency", "133\n".to_owned()),
            ("cpuidle/state1/disable", "1\n".to_owned()),
        ] {
            host = host.with(&format!("{at}/{file}"), text);
        }
        host = host.with_directory(&format!("{at}/node0"));
    }
    host.with("/dev/cpu_dma_latency", 2_000_000_000_i32.to_ne_bytes())
        .with_link("/sys/class/net/eth0/device/subsystem", "../../../../bus/pci")
        .with_driver("eth0", driver())
        .with_attributes()
}

fn driver() -> DriverInfo {
    let text = |text: &str| Some(text.to_owned());
    DriverInfo { driver: "mlx5_core".to_owned(), version: text("6.12.9"), firmware: text("26.40.1000"), bus: None }
}

trait Attributes {
    fn with_attributes(self) -> Self;
}

impl Attributes for FakeHost {
    fn with_attributes(self) -> FakeHost {
        let all = [
            (Attribute::RxUsecs, "8"),
            (Attribute::RxFrames, "128"),
            (Attribute::TxUsecs, "16"),
            (Attribute::TxFrames, "32"),
            (Attribute::AdaptiveRx, "on"),
            (Attribute::AdaptiveTx, "off"),
            (Attribute::RxRing, "1024"),
            (Attribute::TxRing, "512"),
            (Attribute::CombinedChannels, "4"),
            (Attribute::RxChecksum, "on"),
            (Attribute::TxChecksum, "off"),
            (Attribute::ScatterGather, "on"),
            (Attribute::Tso, "off"),
            (Attribute::Gso, "on"),
            (Attribute::Gro, "off"),
            (Attribute::Lro, "on"),
            (Attribute::Stamping, "tx=1,rx=1,flags=0"),
            (Attribute::Qdisc, "default (mq)"),
            (Attribute::QuickAck, "off"),
        ];
        let host = all.into_iter().fold(self, |host, (attribute, text)| host.with_attribute("eth0", attribute, text));
        use NapiSetting::{DeferHardIrqs, GroFlushTimeout, IrqSuspendTimeout, Threaded};
        let settings = [(DeferHardIrqs, "2"), (GroFlushTimeout, "20000"), (IrqSuspendTimeout, "0"), (Threaded, "0")];
        host.with_napi("eth0", "rx-0", &settings).with_napi("eth0", "rx-1", &settings)
    }
}

/// The values that the knobs must read on that host.
fn expected() -> Value {
    serde_json::from_str(include_str!("../tests/data/whole-host.json")).unwrap()
}

#[test]
fn every_knob_reads_a_complete_host() {
    let directory = tempfile::tempdir().unwrap();
    let facts = facts(&whole(directory.path()), &PLACE);
    assert_eq!(facts.hostname, "alpha");
    assert_eq!(facts.unread, BTreeMap::new());
    assert_eq!(serde_json::to_value(&facts.facts).unwrap(), expected());
    let names: BTreeSet<&str> = all().map(|knob| knob.name).collect();
    assert_eq!(names, facts.facts.keys().map(String::as_str).collect(), "a knob reads nothing on the complete host");
}

#[test]
fn an_empty_host_leaves_out_every_fact() {
    let directory = tempfile::tempdir().unwrap();
    let host = FakeHost::at(directory.path());
    for knob in all().filter(|knob| knob.name != "interface") {
        assert_eq!(knob.read(&host, &PLACE), Reading::Absent, "{}", knob.name);
        assert_eq!(knob.read(&host, &Place::default()), Reading::Absent, "{}", knob.name);
    }
    let facts = facts(&host, &PLACE);
    assert_eq!(facts.unread.keys().collect::<Vec<_>>(), ["hostname", "interface"]);
    assert_eq!(facts.unread["interface"], "/sys/class/net has no interface \"eth0\"");
}

#[test]
fn reads_only_the_host_without_cores_and_interface() {
    let directory = tempfile::tempdir().unwrap();
    let facts = facts(&whole(directory.path()), &Place::default());
    assert_eq!(facts.unread, BTreeMap::new());
    for name in
        ["cores_used", "core_relation", "scaling_governor", "idle_states", "interface", "mtu_bytes", "gro", "irq_affinity"]
    {
        assert!(!facts.facts.contains_key(name), "{name}");
    }
    assert_eq!(facts.facts["clocksource"], "tsc");
}

/// Records which files and devices a knob reads, and panics if it writes.
struct Noting<'a> {
    host: &'a FakeHost,
    asked: RefCell<BTreeSet<String>>,
    devices: RefCell<BTreeSet<String>>,
}

impl Noting<'_> {
    fn note<T, E>(&self, path: &str, answer: Result<T, E>) -> Result<T, E> {
        if answer.is_ok() {
            self.asked.borrow_mut().insert(path.to_owned());
        }
        answer
    }
}

impl Host for Noting<'_> {
    fn read_bytes(&self, path: &str) -> io::Result<Vec<u8>> {
        self.note(path, self.host.read_bytes(path))
    }

    fn open(&self, path: &str) -> io::Result<File> {
        self.note(path, self.host.open(path))
    }

    fn list(&self, path: &str) -> io::Result<Vec<String>> {
        self.note(path, self.host.list(path))
    }

    fn exists(&self, path: &str) -> bool {
        self.host.exists(path)
    }

    fn link_target(&self, path: &str) -> io::Result<String> {
        self.note(path, self.host.link_target(path))
    }

    fn driver_info(&self, interface: &str) -> Result<Option<DriverInfo>, EthtoolError> {
        self.devices.borrow_mut().insert(interface.to_owned());
        self.host.driver_info(interface)
    }

    fn attribute(&self, interface: &str, attribute: Attribute) -> Result<Option<String>, DeviceError> {
        self.devices.borrow_mut().insert(interface.to_owned());
        self.host.attribute(interface, attribute)
    }

    fn set_attribute(&self, interface: &str, _: Attribute, _: &str) -> Result<(), DeviceError> {
        panic!("a knob sets {interface}")
    }

    fn napis(&self, interface: &str) -> Result<Vec<Napi>, DeviceError> {
        self.devices.borrow_mut().insert(interface.to_owned());
        self.host.napis(interface)
    }

    fn set_napi(&self, interface: &str, _: &str, _: NapiSetting, _: &str) -> Result<(), DeviceError> {
        panic!("a knob sets {interface}")
    }

    fn write(&self, path: &str, _: &str) -> io::Result<()> {
        panic!("a knob writes {path}")
    }

    fn hold(&self, path: &str, _: &[u8]) -> io::Result<Held> {
        panic!("a knob holds {path}")
    }

    fn make_directory(&self, path: &str) -> io::Result<()> {
        panic!("a knob makes {path}")
    }

    fn remove_directory(&self, path: &str) -> io::Result<()> {
        panic!("a knob removes {path}")
    }
}

/// The files and directories, and the devices, that a knob reads on the complete host.
fn asked(host: &FakeHost, knob: &Knob) -> (BTreeSet<String>, BTreeSet<String>) {
    let noting = Noting { host, asked: RefCell::default(), devices: RefCell::default() };
    knob.read(&noting, &PLACE);
    (noting.asked.into_inner(), noting.devices.into_inner())
}

#[test]
fn reports_every_file_and_device_that_cannot_be_read() {
    let directory = tempfile::tempdir().unwrap();
    let host = whole(directory.path());
    let mut broken = 0;
    for knob in all() {
        let (files, devices) = asked(&host, knob);
        assert!(files.len() + devices.len() > 0 || knob.name == "interface", "{} reads nothing", knob.name);
        for (what, errno) in files.iter().chain(&devices).flat_map(|what| [(what, libc::EIO), (what, libc::EACCES)]) {
            match knob.read(&host.clone().with_error(what, errno), &PLACE) {
                Reading::Unread(reason) => assert!(reason.contains(what.as_str()), "{}: {reason}", knob.name),
                other => panic!("{} reads {other:?} though {what} fails", knob.name),
            }
            broken += 1;
        }
    }
    assert!(broken > 2 * all().count());
}

/// Files that may hold any text.
const FREE_TEXT: [&str; 19] = [
    "/proc/sys/kernel/osrelease",
    "/proc/sys/kernel/version",
    "/proc/cmdline",
    "/proc/cpuinfo",
    "/sys/class/dmi/id/sys_vendor",
    "/sys/class/dmi/id/product_name",
    "current_clocksource",
    "available_clocksource",
    "scaling_driver",
    "scaling_governor",
    "energy_performance_preference",
    "cpuidle/current_driver",
    "cpuidle/current_governor",
    "smt/control",
    "default_qdisc",
    "tcp_congestion_control",
    "cgroup.controllers",
    "/name",
    "/type",
];

#[test]
fn reports_garbled_text_with_its_file() {
    let directory = tempfile::tempdir().unwrap();
    let host = whole(directory.path());
    let mut garbled = 0;
    for knob in all() {
        for path in asked(&host, knob).0 {
            let is_file = host.read_bytes(&path).is_ok();
            let free = FREE_TEXT.iter().any(|end| path.ends_with(end)) || path.contains("/vulnerabilities/");
            if !is_file || free {
                continue;
            }
            for text in [&b"4x\xff\xff\n"[..], b"", b"\x00\x00\x00\x00\x00"] {
                // An empty list of CPUs is valid.
                if text.is_empty() && (path.ends_with("_list") || path.starts_with("/sys/devices/system/")) {
                    continue;
                }
                let kept = host.read_bytes(&path).unwrap();
                let host = host.clone().with(&path, text);
                match knob.read(&host, &PLACE) {
                    Reading::Unread(reason) => assert!(reason.contains(&path), "{}: {reason}", knob.name),
                    other => panic!("{} reads {other:?} though {path} holds {text:?}", knob.name),
                }
                let _ = host.with(&path, kept);
                garbled += 1;
            }
        }
    }
    assert!(garbled > all().count());
}

#[test]
fn permission_denied_says_how_to_get_it() {
    let directory = tempfile::tempdir().unwrap();
    let host = whole(directory.path()).with_error("/dev/cpu_dma_latency", libc::EACCES);
    assert_eq!(
        facts(&host, &PLACE).unread["cpu_dma_latency_us"],
        "/dev/cpu_dma_latency: Permission denied (os error 13): run as root to read it"
    );
}

#[test]
fn finds_the_driver_in_sysfs_where_ethtool_does_not_answer() {
    let directory = tempfile::tempdir().unwrap();
    let host = FakeHost::at(directory.path())
        .with_link("/sys/class/net/eth0/device/driver", "../../../../bus/pci/drivers/example")
        .with_device("eth0");
    let facts = facts(&host, &PLACE).facts;
    assert_eq!(facts["driver"], "example");
    for name in ["driver_version", "rx_usecs", "gro", "rx_ring_entries"] {
        assert!(!facts.contains_key(name), "{name}");
    }
}

#[test]
fn reads_turbo_from_boost_without_intel_pstate() {
    for (text, on) in [("1\n", true), ("0\n", false)] {
        let directory = tempfile::tempdir().unwrap();
        let host = FakeHost::at(directory.path()).with("/sys/devices/system/cpu/cpufreq/boost", text);
        assert_eq!(facts(&host, &PLACE).facts["turbo"], on);
    }
}

#[test]
fn names_are_unique_and_in_snake_case() {
    let mut seen = BTreeSet::from(["hostname", "unread"]); // fields of the record
    for knob in all() {
        let name = knob.name;
        assert!(seen.insert(name), "{name} twice");
        assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_'), "{name}");
        let summary = knob.summary;
        assert!(!summary.is_empty() && summary.len() <= 120 && !summary.contains('\n') && !summary.ends_with('.'), "{name}");
    }
}

#[test]
fn every_knob_says_all_that_its_page_needs() {
    for knob in all() {
        let name = knob.name;
        let texts = |texts: &[&str]| texts.iter().all(|text| text.ends_with('.') && !text.contains("  "));
        assert!(texts(&[knob.why]) && (knob.source.is_empty() || texts(&[knob.source])), "{name}");
        let Some(change) = &knob.change else { continue };
        assert!(texts(&[change.mechanism, change.effect, change.cost, change.risk, change.needs]), "{name}");
        assert!(!change.reference.is_empty(), "{name}");
        for value in Profile::ALL.into_iter().filter_map(|profile| change.of_profile(profile)) {
            assert!(change.values.canonical(value).is_some(), "{name}={value}");
        }
    }
}

#[test]
fn the_scope_of_a_setting_follows_from_where_it_is_read() {
    for knob in all() {
        let Some(change) = &knob.change else { continue };
        match knob.read {
            Read::Host(..) => assert_eq!(change.scope, Scope::Host, "{knob:?}"),
            Read::Cpu(..) => assert_eq!(change.scope, Scope::Cpus, "{knob:?}"),
            Read::Interface(..) | Read::Queue { .. } | Read::Device(..) | Read::Napi(_) => {
                assert_eq!(change.scope, Scope::Interface, "{knob:?}");
            }
            Read::By(_) => assert!(matches!(change.write, Write::At(_)), "{knob:?} is written where a function reads it"),
        }
    }
}

#[test]
fn settings_made_at_boot_are_only_reported() {
    for name in ["isolated_cpus", "nohz_full_cpus", "mitigations", "kernel_command_line"] {
        assert!(knob(name).is_some_and(|knob| knob.change.is_none()), "{name}");
    }
}

#[test]
fn the_network_of_a_setting_follows_from_where_it_is_read() {
    for knob in all().filter(|knob| knob.change.is_some()) {
        let of_place = match knob.read {
            Read::Host(path, _) if path.starts_with("/proc/sys/net/core/") => Network::Shared,
            Read::Host(path, _) if path.starts_with("/proc/sys/net/") => Network::Own,
            Read::Device(..) | Read::Napi(_) | Read::Interface(..) | Read::Queue { .. } => Network::Own,
            Read::Host(..) | Read::Cpu(..) => Network::None,
            Read::By(_) => continue,
        };
        assert_eq!(knob.change.as_ref().unwrap().network, of_place, "{knob:?}");
    }
    let change = |knob: &str| Change { knob: knob.into(), ..change_of_a_file() };
    assert_eq!(
        ["gro", "turbo", "busy_poll_us", "napi_threaded"].map(|knob| network_of(&change(knob))),
        [Network::Own, Network::None, Network::Shared, Network::Own]
    );
    assert_eq!(network_of(&change("of_a_later_version")), Network::Own);
}

fn change_of_a_file() -> Change {
    let address = Address::File { path: "/proc/sys/x".into(), form: Form::Words };
    Change { knob: String::new(), address, from: String::new(), to: String::new() }
}
