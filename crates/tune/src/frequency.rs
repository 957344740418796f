//! How fast the cores used run, and who decides.

use hairpin_sys::host::Host;
use serde_json::Value;

use crate::control::Spot;
use crate::reading::{CpuFile, file, flag, text};
use crate::{Knob, Place, Reading};

pub(crate) static DRIVER: CpuFile = CpuFile {
    name: "scaling_driver",
    summary: "The driver that sets the frequency of the cores used",
    file: "cpufreq/scaling_driver",
    form: text,
};

pub(crate) static GOVERNOR: CpuFile = CpuFile {
    name: "scaling_governor",
    summary: "The rule by which the frequency of the cores used is chosen",
    file: "cpufreq/scaling_governor",
    form: text,
};

pub(crate) static ENERGY_PERFORMANCE_PREFERENCE: CpuFile = CpuFile {
    name: "energy_performance_preference",
    summary: "What the cores used are told to prefer, speed or saving energy",
    file: "cpufreq/energy_performance_preference",
    form: text,
};

/// Whether cores may run above their base frequency.
pub(crate) struct Turbo;

impl Knob for Turbo {
    fn name(&self) -> &'static str {
        "turbo"
    }

    fn summary(&self) -> &'static str {
        "Whether cores may run above their base frequency"
    }

    fn probe(&self, host: &dyn Host, _: &Place<'_>) -> Reading {
        turbo(host).into()
    }

    fn spots(&self, host: &dyn Host, _: &Place<'_>) -> Result<Vec<Spot>, String> {
        let there = [NO_TURBO, BOOST].into_iter().find(|path| host.exists(path));
        Ok(there.map(|path| Spot::File(path.to_owned())).into_iter().collect())
    }
}

const NO_TURBO: &str = "/sys/devices/system/cpu/intel_pstate/no_turbo";
const BOOST: &str = "/sys/devices/system/cpu/cpufreq/boost";

/// intel_pstate says it the other way round; every other driver uses the common file.
fn turbo(host: &dyn Host) -> Result<Option<Value>, String> {
    let without = file(host, NO_TURBO, flag)?;
    if let Some(Value::Bool(without)) = without {
        return Ok(Some((!without).into()));
    }
    file(host, BOOST, flag)
}
