//! Cores that stay out of their idle states.

use hairpin_sys::host::{Held, Host, RealHost};

use super::record::Stop;

/// Held open with a 0 in it, it keeps cores out of idle states (Documentation/power/pm_qos_interface.rst).
const LATENCY: &str = "/dev/cpu_dma_latency";

/// Keeps every core out of its idle states until the file is closed.
pub(crate) fn held_awake() -> Result<Held, Stop> {
    let held = RealHost.hold(LATENCY, &0i32.to_ne_bytes());
    held.map_err(|e| Stop::Missing(format!("cannot hold {LATENCY} at 0: {e}; run this as root")))
}
