//! CPU frequency: the driver, the governor, turbo.

use hairpin_sys::host::Host;
use serde_json::Value;

use crate::change::{Address, Change, Form};
use crate::knob::{Control, Knob, Scope, Spot, Write};
use crate::place::Place;
use crate::read::Read;
use crate::reading::{file, flag, text};
use crate::values::Values;

const SCALING: &str = "One value if all cores used agree, else one by CPU. Left out on hosts without frequency \
                    scaling, as in most virtual machines.";

pub(crate) static DRIVER: Knob = Knob {
    name: "scaling_driver",
    summary: "The driver that sets the frequency of the cores used",
    read: Read::Cpu("cpufreq/scaling_driver", text),
    source: SCALING,
    why: "The driver decides what a governor's name means: `powersave` of `intel_pstate` scales with load, \
          `powersave` of `acpi-cpufreq` stays at the lowest frequency.",
    look: "cpupower frequency-info",
    ..Knob::FACT
};

pub(crate) static GOVERNOR: Knob = Knob {
    name: "scaling_governor",
    summary: "The rule that chooses the frequency of the cores used",
    read: Read::Cpu("cpufreq/scaling_governor", text),
    source: SCALING,
    why: "A core that waits for packets looks idle, so a governor that follows load lowers its clock just \
          when a round trip needs it. `performance` holds the frequency up.",
    look: "cat /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor",
    change: Some(Control {
        scope: Scope::Cpus,
        values: Values::Word("a governor of scaling_available_governors, such as performance"),
        mechanism: "The rule by which cpufreq chooses the frequency of a core.",
        effect: "A governor that follows load sees an idle core between packets and runs it slowly: every \
                 instruction of the round trip takes longer, up to the ratio of the frequencies.",
        cost: "Power: `performance` keeps cores at their highest frequency.",
        risk: "None to function. The tunables of the governor that is left are the kernel's defaults when it is back.",
        needs: "Root and cpufreq, which virtual machines lack.",
        reference: "Documentation/admin-guide/pm/cpufreq.rst",
        latency: Some("performance"),
        power: Some("powersave"),
        throughput: Some("performance"),
        stake_ns: 5000,
        ..Control::PLAIN
    }),
    ..Knob::FACT
};

pub(crate) static ENERGY_PERFORMANCE_PREFERENCE: Knob = Knob {
    name: "energy_performance_preference",
    summary: "Whether the cores used are told to prefer speed or saving energy",
    read: Read::Cpu("cpufreq/energy_performance_preference", text),
    source: SCALING,
    why: "Where the hardware chooses the frequency itself, this hint decides how fast it speeds up and how \
          soon it slows down.",
    look: "cat /sys/devices/system/cpu/cpu*/cpufreq/energy_performance_preference",
    change: Some(Control {
        scope: Scope::Cpus,
        values: Values::Word("a word of energy_performance_available_preferences, such as performance"),
        mechanism: "A hint to a CPU that chooses its frequency itself (intel_pstate, amd-pstate in active \
                    mode).",
        effect: "As scaling_governor, in smaller steps.",
        cost: "Power.",
        risk: "None to function. With the governor `performance` the driver accepts performance only.",
        needs: "Root and a driver that supports it.",
        reference: "Documentation/admin-guide/pm/intel_pstate.rst, amd-pstate.rst",
        latency: Some("performance"),
        power: Some("power"),
        throughput: Some("performance"),
        stake_ns: 3000,
        ..Control::PLAIN
    }),
    ..Knob::FACT
};

pub(crate) static TURBO: Knob = Knob {
    name: "turbo",
    summary: "Whether cores may run above their base frequency",
    read: Read::By(turbo),
    source: "`/sys/devices/system/cpu/intel_pstate/no_turbo`, inverted, otherwise \
             `/sys/devices/system/cpu/cpufreq/boost`. `true` if turbo is allowed.",
    why: "Turbo shortens every step on the CPU, but by how much depends on the other cores and on \
          temperature: the median falls, and repeats less well.",
    look: "cat /sys/devices/system/cpu/intel_pstate/no_turbo /sys/devices/system/cpu/cpufreq/boost",
    change: Some(Control {
        values: Values::Flag,
        write: Write::At(turbo_spots),
        mechanism: "Whether cores may run above their base frequency while heat and power allow.",
        effect: "On, single cores are faster. Off, their speed is steady: less spread and a longer median.",
        cost: "On: power, and a frequency that depends on the other cores' work.",
        needs: "Root and cpufreq with intel_pstate/no_turbo or cpufreq/boost.",
        reference: "Documentation/admin-guide/pm/cpufreq.rst, intel_pstate.rst",
        power: Some("off"),
        throughput: Some("on"),
        stake_ns: 1000,
        state: Some(turbo_in_words),
        ..Control::PLAIN
    }),
    ..Knob::FACT
};

/// intel_pstate's file, which holds the opposite.
const NO_TURBO: &str = "/sys/devices/system/cpu/intel_pstate/no_turbo";
/// The file of every other driver.
const BOOST: &str = "/sys/devices/system/cpu/cpufreq/boost";

fn turbo(host: &dyn Host, _: &Place<'_>) -> Result<Option<Value>, String> {
    if let Some(Value::Bool(off)) = file(host, NO_TURBO, flag)? {
        return Ok(Some((!off).into()));
    }
    file(host, BOOST, flag)
}

/// A change is due only if turbo is not as `wanted`, so it is the other; the file may hold the opposite.
fn turbo_in_words(wanted: &str, _: &[Change]) -> Option<String> {
    Some(if wanted == "1" { "off" } else { "on" }.to_owned())
}

fn turbo_spots(host: &dyn Host, _: &Place<'_>, value: &str) -> Result<Vec<Spot>, String> {
    let inverted = if value == "1" { "0" } else { "1" };
    let found = [(NO_TURBO, inverted), (BOOST, value)].into_iter().find(|(path, _)| host.exists(path));
    let spot = |(path, to): (&str, &str)| {
        let address = Address::File { path: path.to_owned(), form: Form::Words };
        Spot { address, to: to.to_owned() }
    };
    Ok(found.map(spot).into_iter().collect())
}
