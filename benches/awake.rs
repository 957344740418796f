//! Cores that stay out of their idle states: by a demand to the cpuidle driver or, on a host without one, by a process on each core that runs
//! whenever nobody else does (SCHED_IDLE, sched(7)), so that the core is never halted.

use hairpin_sys::host::{Held, Host, RealHost};

use super::children::{Guarded, pinned, start};
use super::record::Stop;

/// Held open with a 0 in it, it keeps cores out of idle states (Documentation/power/pm_qos_interface.rst).
const LATENCY: &str = "/dev/cpu_dma_latency";
/// "none" or absent: no demand changes anything.
const DRIVER: &str = "/sys/devices/system/cpu/cpuidle/current_driver";

/// Cores that are awake until this is dropped.
pub(crate) struct Awake {
    _demand: Option<Held>,
    _spinners: Vec<Guarded>,
    /// How they are kept awake, in words.
    pub(crate) how: &'static str,
}

/// The demand alone, until it is dropped.
pub(crate) fn demand() -> Result<Held, Stop> {
    let held = RealHost.hold(LATENCY, &0i32.to_ne_bytes());
    held.map_err(|e| Stop::Missing(format!("cannot hold {LATENCY} at 0: {e}; run this as root")))
}

/// Keeps these cores out of their idle states; with a cpuidle driver, all of the host.
pub(crate) fn held_awake(cpus: [u32; 2]) -> Result<Awake, Stop> {
    if RealHost.read(DRIVER).is_ok_and(|driver| driver.trim() != "none") {
        return Ok(Awake { _demand: Some(demand()?), _spinners: Vec::new(), how: "by /dev/cpu_dma_latency at 0" });
    }
    let spinner = |cpu| start(pinned(None, cpu, "chrt").args(["--idle", "0", "sh", "-c", "while :; do :; done"]));
    let spinners = cpus.into_iter().map(spinner).collect::<Result<Vec<_>, _>>()?;
    let how = "by a process on each that runs while nobody else does, as there is no cpuidle driver";
    Ok(Awake { _demand: None, _spinners: spinners, how })
}
