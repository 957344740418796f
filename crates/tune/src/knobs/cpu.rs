//! The CPU: its model, the cores that the run uses and the distance between them, and the hypervisor.

use hairpin_units::Gather;
use std::collections::BTreeSet;

use hairpin_sys::host::Host;
use serde_json::{Value, json};

use super::clocksource;
use crate::cpulist;
use crate::knob::Knob;
use crate::place::{Place, cpu_directory};
use crate::read::Read;
use crate::reading::{cpu_list, parse_number, present};

const CPUINFO: &str = "/proc/cpuinfo";

pub(crate) static MODEL: Knob = Knob {
    name: "cpu_model",
    summary: "The CPU's model, as its maker names it",
    read: Read::By(|host, _| Ok(cpuinfo_field(host, "model name")?.map(Value::from))),
    source: "`model name` of the first CPU in `/proc/cpuinfo`. Some architectures have no such line.",
    why: "Clock rate, caches and the distance between cores follow from it.",
    look: "lscpu",
    ..Knob::FACT
};

pub(crate) static ONLINE: Knob = Knob {
    name: "online_cpus",
    summary: "The online CPUs of this host",
    read: Read::Host("/sys/devices/system/cpu/online", cpu_list),
    source: "A list such as `0-7,16`.",
    why: "A side can be pinned to these CPUs, and other work of the host runs on the rest of them.",
    ..Knob::FACT
};

pub(crate) static CORES_USED: Knob = Knob {
    name: "cores_used",
    summary: "The CPUs that the measuring threads are pinned to, each with its core, package and NUMA node",
    read: Read::By(cores_used),
    source: "`topology/physical_package_id` and `topology/core_id` below `/sys/devices/system/cpu/cpu<n>`, \
             and the directory `node<n>` there. `core` counts within the package.",
    why: "Memory and devices are nearer to some cores than to others: a core on another node than the \
          interface pays for the distance with every packet.",
    look: "lscpu --extended=CPU,NODE,SOCKET,CORE",
    ..Knob::FACT
};

pub(crate) static CORE_RELATION: Knob = Knob {
    name: "core_relation",
    summary: "The distance between the cores used, and the nearest cache that they share",
    read: Read::By(core_relation),
    source: "`topology` and `cache` below `/sys/devices/system/cpu/cpu<n>`. `relation` is `same CPU`, `SMT \
             siblings`, `same package` or `different packages`, for the two cores furthest apart; \
             `shared_cache` is the nearest data cache that all of them share, `null` if there is none. Left \
             out for a single core.",
    why: "Between two processes of one host every request crosses from core to core as cache lines: tens of \
          nanoseconds within a core, about a hundred within a package, several hundred between packages. SMT \
          siblings also share the core's execution units, so a spinning side slows the other.\n\n\
          In a virtual machine these are the hypervisor's claims. The cache-line ping beside each block \
          (`core_rtt_ns`) is measured.",
    look: "lscpu --extended=CPU,NODE,SOCKET,CORE,CACHE",
    ..Knob::FACT
};

pub(crate) static HYPERVISOR: Knob = Knob {
    name: "hypervisor",
    summary: "The hypervisor under this virtual machine, or none",
    read: Read::By(hypervisor),
    source: "`/sys/hypervisor/type` where it exists (Xen). Otherwise the flag `hypervisor` in \
             `/proc/cpuinfo`, with the name from `/sys/class/dmi/id/sys_vendor` and `product_name`, or from \
             the clock that the hypervisor offers (`kvm-clock`). `none` where an x86 CPU lacks the flag. Left \
             out on other architectures.",
    why: "Under a hypervisor a core can be taken away or moved at any time, an idle CPU leaves the guest, \
          and interrupts are injected. Blocking round trips and all tails are longer.",
    look: "systemd-detect-virt\nlscpu | grep -i hypervisor",
    ..Knob::FACT
};

/// The first value of a field of /proc/cpuinfo: `name : value`. The fields depend on the architecture.
fn cpuinfo_field(host: &dyn Host, name: &str) -> Result<Option<String>, String> {
    let Some(info) = present(CPUINFO, host.read(CPUINFO))? else {
        return Ok(None);
    };
    let mut fields = info.lines().filter_map(|line| line.split_once(':'));
    Ok(fields.find(|(field, _)| field.trim() == name).map(|(_, value)| value.trim().to_owned()))
}

fn cores_used(host: &dyn Host, place: &Place<'_>) -> Result<Option<Value>, String> {
    let mut cores = Vec::new();
    for cpu in cpulist::distinct(place.cpus) {
        let Some(at) = At::read(host, cpu)? else {
            return Ok(None);
        };
        cores.push(json!({"cpu": cpu, "core": at.core, "package": at.package, "numa_node": at.node}));
    }
    Ok((!cores.is_empty()).then(|| cores.into()))
}

/// Place of one CPU.
struct At {
    package: i64,
    /// Counted within the package.
    core: i64,
    siblings: Vec<u32>,
    /// `None` where the kernel knows no nodes.
    node: Option<u32>,
}

impl At {
    /// `None` if this kernel does not tell.
    fn read(host: &dyn Host, cpu: u32) -> Result<Option<At>, String> {
        let directory = cpu_directory(cpu);
        let topology = |file: &str| {
            let path = format!("{directory}/topology/{file}");
            Ok::<_, String>(present(&path, host.read(&path))?.map(|text| (path, text)))
        };
        let (Some(package), Some(core), Some(siblings)) =
            (topology("physical_package_id")?, topology("core_id")?, topology("thread_siblings_list")?)
        else {
            return Ok(None);
        };
        let whole = |(path, text): (String, String)| parse_number(&text).map_err(|why| format!("{path}: {why}"));
        let names = host.list(&directory).map_err(|why| format!("{directory}: {why}"))?;
        Ok(Some(At {
            package: whole(package)?,
            core: whole(core)?,
            siblings: cpulist::parse(&siblings.1).map_err(|why| format!("{}: {why}", siblings.0))?,
            node: names.iter().find_map(|name| name.strip_prefix("node")?.parse().ok()),
        }))
    }
}

/// Of more than two CPUs, the relation of the two furthest apart.
fn core_relation(host: &dyn Host, place: &Place<'_>) -> Result<Option<Value>, String> {
    if place.cpus.len() < 2 {
        return Ok(None);
    }
    let cpus = cpulist::distinct(place.cpus);
    let mut all = Vec::new();
    for &cpu in &cpus {
        let Some(at) = At::read(host, cpu)? else {
            return Ok(None);
        };
        all.push(at);
    }
    let relation = if cpus.len() == 1 {
        "same CPU"
    } else if cpus.iter().all(|cpu| all[0].siblings.contains(cpu)) {
        "SMT siblings"
    } else if all.iter().all(|at| at.package == all[0].package) {
        "same package"
    } else {
        "different packages"
    };
    let nodes: BTreeSet<u32> = all.iter().filter_map(|at| at.node).gather();
    let shared = nearest_shared_cache(host, &cpus)?;
    Ok(Some(json!({"relation": relation, "shared_cache": shared, "numa_nodes": nodes})))
}

/// The lowest level of data cache that all these CPUs share, such as `L2`.
fn nearest_shared_cache(host: &dyn Host, cpus: &[u32]) -> Result<Option<String>, String> {
    let directory = format!("{}/cache", cpu_directory(cpus[0]));
    let Some(names) = present(&directory, host.list(&directory))? else {
        return Ok(None);
    };
    let mut nearest: Option<i64> = None;
    for name in names.iter().filter(|name| name.starts_with("index")) {
        let field = |file: &str| {
            let path = format!("{directory}/{name}/{file}");
            Ok::<_, String>(present(&path, host.read(&path))?.map(|text| (path, text)))
        };
        // A cache whose sharing the firmware does not describe says nothing about distance.
        let (Some((_, kind)), Some((level_path, level)), Some((shared_path, shared))) =
            (field("type")?, field("level")?, field("shared_cpu_list")?)
        else {
            continue;
        };
        let level = parse_number(&level).map_err(|why| format!("{level_path}: {why}"))?;
        let shared = cpulist::parse(&shared).map_err(|why| format!("{shared_path}: {why}"))?;
        if kind.trim() != "Instruction" && cpus.iter().all(|cpu| shared.contains(cpu)) && nearest.is_none_or(|n| level < n) {
            nearest = Some(level);
        }
    }
    Ok(nearest.map(|level| format!("L{level}")))
}

/// Xen names itself. On x86 a CPU flag tells that there is a hypervisor, and the firmware's names tell which one;
/// bare metal at a cloud operator carries the same names, so they count only beside the flag. A microVM has
/// no such firmware, but may offer its hypervisor's clock. Other architectures have no such flag.
fn hypervisor(host: &dyn Host, place: &Place<'_>) -> Result<Option<Value>, String> {
    let xen = "/sys/hypervisor/type";
    if let Some(kind) = present(xen, host.read(xen))? {
        return Ok(Some(kind.into()));
    }
    let Some(flags) = cpuinfo_field(host, "flags")? else {
        return Ok(None);
    };
    if !flags.split_whitespace().any(|flag| flag == "hypervisor") {
        return Ok(Some("none".into()));
    }
    let mut names = Vec::new();
    for path in ["/sys/class/dmi/id/sys_vendor", "/sys/class/dmi/id/product_name"] {
        names.extend(present(path, host.read(path))?.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()));
    }
    if !names.is_empty() {
        return Ok(Some(names.join(" ").into()));
    }
    let clocks = clocksource::AVAILABLE.read.value(host, place)?.unwrap_or_default();
    let offered = |clock: &str| clocks.as_array().is_some_and(|clocks| clocks.iter().any(|word| word == clock));
    let named = [("kvm-clock", "KVM"), ("hyperv_clocksource_tsc_page", "Hyper-V"), ("xen", "Xen")]
        .into_iter()
        .find(|(clock, _)| offered(clock));
    Ok(Some(named.map_or("present, unnamed", |(_, name)| name).into()))
}

/// True in a virtual machine.
pub(crate) fn is_virtual(host: &dyn Host) -> bool {
    matches!(HYPERVISOR.value(host, &Place::default()), Some(Value::String(name)) if name != "none")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reading::Reading;
    use hairpin_sys::host::FakeHost;

    /// Two packages of two cores of two threads: CPU 0 and 4 are siblings, 0 and 1 share an L2, 0 to 1 and 4 to 5 an L3.
    fn two_packages(root: &std::path::Path) -> FakeHost {
        let mut host = FakeHost::at(root);
        for cpu in 0..8_u32 {
            let (package, core) = ((cpu % 4) / 2, cpu % 2);
            let first = package * 2;
            let at = cpu_directory(cpu);
            let siblings = format!("{},{}\n", cpu % 4, cpu % 4 + 4);
            let whole = format!("{first}-{},{}-{}\n", first + 1, first + 4, first + 5);
            host = host
                .with(&format!("{at}/topology/physical_package_id"), format!("{package}\n"))
                .with(&format!("{at}/topology/core_id"), format!("{core}\n"))
                .with(&format!("{at}/topology/thread_siblings_list"), &siblings)
                .with_directory(&format!("{at}/node{package}"));
            for (index, level, kind, shared) in [
                (0, 1, "Data", &siblings),
                (1, 1, "Instruction", &whole),
                (2, 2, "Unified", &siblings),
                (3, 3, "Unified", &whole),
            ] {
                let cache = format!("{at}/cache/index{index}");
                host = host
                    .with(&format!("{cache}/level"), format!("{level}\n"))
                    .with(&format!("{cache}/type"), format!("{kind}\n"))
                    .with(&format!("{cache}/shared_cpu_list"), shared);
            }
        }
        host
    }

    #[test]
    fn relates_the_two_cores_furthest_apart() {
        let directory = tempfile::tempdir().unwrap();
        let host = two_packages(directory.path());
        let relation = |cpus: &[u32]| CORE_RELATION.read(&host, &Place { cpus, interface: None });
        for (cpus, expected) in [
            (&[0, 0][..], json!({"relation": "same CPU", "shared_cache": "L1", "numa_nodes": [0]})),
            (&[0, 4], json!({"relation": "SMT siblings", "shared_cache": "L1", "numa_nodes": [0]})),
            (&[5, 0], json!({"relation": "same package", "shared_cache": "L3", "numa_nodes": [0]})),
            (&[0, 2], json!({"relation": "different packages", "shared_cache": null, "numa_nodes": [0, 1]})),
            (&[0, 4, 3], json!({"relation": "different packages", "shared_cache": null, "numa_nodes": [0, 1]})),
        ] {
            assert_eq!(relation(cpus), Reading::Is(expected), "{cpus:?}");
        }
        assert_eq!(relation(&[0]), Reading::Absent);
        assert_eq!(relation(&[0, 99]), Reading::Absent);
    }

    #[test]
    fn names_a_hypervisor_only_in_a_virtual_machine() {
        let with = |files: &[(&str, &str)]| {
            let directory = tempfile::tempdir().unwrap();
            let host = files.iter().fold(FakeHost::at(directory.path()), |host, (path, text)| host.with(path, text));
            HYPERVISOR.read(&host, &Place::default())
        };
        let (virtual_cpu, real_cpu) = ((CPUINFO, "flags\t\t: fpu hypervisor sse\n"), (CPUINFO, "flags\t\t: fpu sse\n"));
        let vendor = ("/sys/class/dmi/id/sys_vendor", "Amazon EC2\n");
        let product = ("/sys/class/dmi/id/product_name", "m7i.large\n");
        assert_eq!(with(&[virtual_cpu, vendor, product]), Reading::Is("Amazon EC2 m7i.large".into()));
        assert_eq!(with(&[virtual_cpu]), Reading::Is("present, unnamed".into()));
        let clocks = ("/sys/devices/system/clocksource/clocksource0/available_clocksource", "tsc kvm-clock\n");
        assert_eq!(with(&[virtual_cpu, clocks]), Reading::Is("KVM".into()));
        assert_eq!(with(&[real_cpu, vendor, product]), Reading::Is("none".into()));
        assert_eq!(with(&[real_cpu, ("/sys/hypervisor/type", "xen\n")]), Reading::Is("xen".into()));
        assert_eq!(with(&[(CPUINFO, "Features\t: fp asimd\n")]), Reading::Absent);
    }
}
