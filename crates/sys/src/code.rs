//! The place of code in memory.

/// Begins the function that calls this on a cache line, in every build.
///
/// The linker places a function on a multiple of 16 bytes otherwise. By that alone the RTT over `packet` differed by 5 % between
/// builds whose loops are the same, and that over `memory` by more than 10 % (docs/benchmarks.md).
#[inline(always)]
pub fn begins_on_a_line() {
    // SAFETY: it assembles to instructions that do nothing, as many as there are bytes up to the next line.
    unsafe { std::arch::asm!(".p2align 6", options(nomem, nostack, preserves_flags)) }
}
