//! The place of code in memory.

/// Begins the function that calls this on a cache line, in every build.
///
/// Elsewhere the linker places it wherever the functions before it end: on any 16 bytes. By that alone two builds of one measuring
/// loop took RTTs that differ by 4 % over `packet` (docs/benchmarks.md).
#[inline(always)]
pub fn begins_on_a_line() {
    // SAFETY: it assembles to instructions that do nothing, as many as there are bytes up to the next line.
    unsafe { std::arch::asm!(".p2align 6", options(nomem, nostack, preserves_flags)) }
}
