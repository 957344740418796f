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

#[cfg(test)]
mod tests {
    use std::hint::black_box;

    use super::*;

    #[inline(never)]
    fn of_some_length<const N: usize>() {
        begins_on_a_line();
        black_box([N; N]);
    }

    #[test]
    fn functions_begin_on_lines() {
        let functions: [fn(); 6] = [
            of_some_length::<1>,
            of_some_length::<2>,
            of_some_length::<3>,
            of_some_length::<5>,
            of_some_length::<9>,
            of_some_length::<30>,
        ];
        assert_eq!(functions.map(|function| function as usize % 64), [0; 6]);
    }
}
