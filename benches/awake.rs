//! Cores that stay out of their idle states.

use hairpin_sys::host::{Held, Host, RealHost};

use super::record::Stop;

/// Held open with a 0 in it, it keeps cores out of idle states (Documentation/power/pm_qos_interface.rst) …
const LATENCY: &str = "/dev/cpu_dma_latency";
/// … unless this is "none" or absent: then no demand changes anything.
const DRIVER: &str = "/sys/devices/system/cpu/cpuidle/current_driver";

/// Keeps every core out of its idle states until this is dropped, where the host has a cpuidle driver.
pub(crate) fn held_awake() -> Result<Held, Stop> {
    let held = RealHost.hold(LATENCY, &0i32.to_ne_bytes());
    held.map_err(|e| Stop::Missing(format!("cannot hold {LATENCY} at 0: {e}; run this as root")))
}

/// Whether [`held_awake`] has an effect, in words for a table.
pub(crate) fn are_awake() -> &'static str {
    if RealHost.read(DRIVER).is_ok_and(|driver| driver.trim() != "none") {
        "cores were held awake (/dev/cpu_dma_latency at 0)"
    } else {
        "cores went to sleep between round trips: there is no cpuidle driver that /dev/cpu_dma_latency would hold awake"
    }
}
