//! The virtual counter of arm64's generic timer (Arm ARM, D12: CNTVCT_EL0, CNTFRQ_EL0; ISB as in the kernel's
//! arch/arm64/include/asm/arch_timer.h).
//!
//! It runs at one rate by definition, at 1 GHz from Armv8.6 on and often at 25 to 100 MHz before: a step of 10 to 40 ns.

use core::arch::asm;

use super::NoTsc;

pub(super) const NAME: &str = "cntvct";
/// Clock sources of a kernel that trusts the counter.
pub(super) const TRUSTED: &[&str] = &["arch_sys_counter"];
pub(super) const PER_CPU: &[&str] = &[];

#[inline(always)]
pub(super) fn settle() {
    // SAFETY: barriers change no memory. DSB waits for earlier loads and stores, ISB for everything else.
    unsafe { asm!("dsb ish", "isb", options(nostack, preserves_flags)) }
}

#[inline(always)]
pub(super) fn start() -> u64 {
    let ticks: u64;
    // SAFETY: reads a counter that Linux lets user space read, or reads for it.
    unsafe { asm!("mrs {}, cntvct_el0", "isb", out(reg) ticks, options(nostack, preserves_flags)) }
    ticks
}

#[inline(always)]
pub(super) fn stop() -> u64 {
    let ticks: u64;
    // SAFETY: as in `start`.
    unsafe { asm!("isb", "mrs {}, cntvct_el0", out(reg) ticks, options(nostack, preserves_flags)) }
    ticks
}

#[inline(always)]
pub(super) fn now() -> u64 {
    let ticks: u64;
    // SAFETY: as in `start`.
    unsafe { asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack, preserves_flags)) }
    ticks
}

pub(super) fn usable() -> Result<(), NoTsc> {
    Ok(())
}

/// Ticks per nanosecond, as firmware wrote them into CNTFRQ_EL0. A short calibration of a slow counter is off by some ppm.
pub(super) fn stated_rate() -> Option<f64> {
    let hertz: u64;
    // SAFETY: reads a register that is readable wherever the counter is.
    unsafe { asm!("mrs {}, cntfrq_el0", out(reg) hertz, options(nomem, nostack, preserves_flags)) }
    (hertz > 0).then(|| hertz as f64 / 1e9)
}
