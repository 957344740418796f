//! The time-stamp counter of x86-64 (Intel SDM vol. 2: RDTSC, RDTSCP, LFENCE, CPUID).

use core::arch::x86_64::{__cpuid, __rdtscp, _mm_lfence, _rdtsc};

use super::NoTsc;

pub(super) const NAME: &str = "tsc";
/// Clock sources of a kernel that trusts the TSC. A hypervisor's paravirtual clock is itself read from the TSC.
pub(super) const TRUSTED: &[&str] = &["tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "xen"];
/// Those of [`TRUSTED`] that correct each CPU's TSC separately, and so still work where the TSCs differ. In that case the kernel
/// takes [`NAME`] off the available clock sources. Hyper-V has one page for all CPUs; there Linux takes the TSC off because a
/// migration may change its rate.
pub(super) const PER_CPU: &[&str] = &["kvm-clock", "xen"];

#[inline(always)]
pub(super) fn settle() {
    // SAFETY: a fence touches no memory; every x86-64 CPU has it.
    unsafe { _mm_lfence() }
}

#[inline(always)]
pub(super) fn start() -> u64 {
    // SAFETY: reads a counter and fences; every x86-64 CPU has both instructions.
    unsafe {
        let ticks = _rdtsc();
        _mm_lfence();
        ticks
    }
}

#[inline(always)]
pub(super) fn stop() -> u64 {
    let mut cpu = 0;
    // SAFETY: reads a counter into a local; RDTSCP is there wherever `usable` succeeds.
    unsafe { __rdtscp(&mut cpu) }
}

#[inline(always)]
pub(super) fn now() -> u64 {
    // SAFETY: reads a counter.
    unsafe { _rdtsc() }
}

/// Fails unless the counter runs at one rate in all states of the CPU, and RDTSCP is there.
#[allow(unused_unsafe, reason = "CPUID is a safe function from Rust 1.94 on")]
pub(super) fn usable() -> Result<(), NoTsc> {
    // SAFETY: every x86-64 CPU has CPUID; the leaf's presence is checked first.
    let invariant = unsafe {
        __cpuid(0x8000_0000).eax >= 0x8000_0007
            && __cpuid(0x8000_0007).edx & (1 << 8) != 0
            // A hypervisor may hide RDTSCP separately.
            && __cpuid(0x8000_0001).edx & (1 << 27) != 0
    };
    if invariant { Ok(()) } else { Err(NoTsc::NotInvariant) }
}

/// CPUID 0x15 is missing or wrong on too many CPUs and hypervisors to be used.
pub(super) fn stated_rate() -> Option<f64> {
    None
}
