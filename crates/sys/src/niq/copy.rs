//! Copies frames between a process's own memory and words that another process may write at the same time.
//!
//! ```text
//!   64 bytes at a time, two registers of 32  ──▶  the rest: the last 64 bytes once more, which overlap
//! ```
//! In assembler, because for the compiler such a copy would be a data race; the bytes may be anything. Without registers of 32
//! bytes, and below 64 bytes, atomics word by word.

use std::sync::atomic::{AtomicU64, Ordering};

const WORD: usize = size_of::<u64>();

/// Length of one step in bytes.
#[cfg(target_arch = "x86_64")]
const STEP: usize = 64;

/// Writes `bytes` to the beginning of `words`.
///
/// # Panics
/// If `bytes` does not fit.
#[inline]
pub(super) fn into_words(words: &[AtomicU64], bytes: &[u8]) {
    assert!(bytes.len() <= size_of_val(words), "{} bytes for {} words", bytes.len(), words.len());
    #[cfg(target_arch = "x86_64")]
    if bytes.len() >= STEP && std::arch::is_x86_feature_detected!("avx") {
        // SAFETY: AVX is there; both have bytes.len() bytes, at least a step; words are memory that may be written through a
        // shared reference.
        unsafe { steps(words.as_ptr().cast::<u8>().cast_mut(), bytes.as_ptr(), bytes.len()) };
        return;
    }
    store(words, bytes);
}

fn store(words: &[AtomicU64], bytes: &[u8]) {
    let (whole, tail) = bytes.as_chunks::<WORD>();
    for (from, to) in whole.iter().zip(words) {
        to.store(u64::from_le_bytes(*from), Ordering::Relaxed);
    }
    if !tail.is_empty() {
        let last = tail.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
        words[whole.len()].store(last, Ordering::Relaxed);
    }
}

/// Fills `bytes` from the beginning of `words`.
///
/// # Panics
/// If `words` is shorter.
#[inline]
pub(super) fn out_of_words(words: &[AtomicU64], bytes: &mut [u8]) {
    assert!(bytes.len() <= size_of_val(words), "{} bytes from {} words", bytes.len(), words.len());
    #[cfg(target_arch = "x86_64")]
    if bytes.len() >= STEP && std::arch::is_x86_feature_detected!("avx") {
        // SAFETY: AVX is there; both have bytes.len() bytes, at least a step; `bytes` is borrowed to be written.
        unsafe { steps(bytes.as_mut_ptr(), words.as_ptr().cast::<u8>(), bytes.len()) };
        return;
    }
    load(words, bytes);
}

fn load(words: &[AtomicU64], bytes: &mut [u8]) {
    let (whole, tail) = bytes.as_chunks_mut::<WORD>();
    for (to, from) in whole.iter_mut().zip(words) {
        *to = from.load(Ordering::Relaxed).to_le_bytes();
    }
    if !tail.is_empty() {
        let mut last = words[whole.len()].load(Ordering::Relaxed);
        for byte in tail {
            *byte = last as u8;
            last >>= 8;
        }
    }
}

/// Copies in steps, the last of which overlaps the one before.
///
/// # Safety
/// The CPU has AVX; `length` is at least [`STEP`]; `from` is readable and `to` writable for `length` bytes, and they do not
/// overlap.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn steps(to: *mut u8, from: *const u8, length: usize) {
    // SAFETY: reads and writes at 0, 64, … below length − 64, and at length − 64: 64 bytes each, all inside.
    unsafe {
        std::arch::asm!(
            "2:",
            "cmp rax, {last}",
            "cmovae rax, {last}",
            "vmovdqu ymm0, [{from} + rax]",
            "vmovdqu ymm1, [{from} + rax + 32]",
            "vmovdqu [{to} + rax], ymm0",
            "vmovdqu [{to} + rax + 32], ymm1",
            "lea rax, [rax + 64]",
            "jb 2b",
            "vzeroupper",
            inout("rax") 0usize => _,
            last = in(reg) length - STEP,
            from = in(reg) from,
            to = in(reg) to,
            // VZEROUPPER touches every vector register.
            clobber_abi("sysv64"),
            options(nostack),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type In = fn(&[AtomicU64], &[u8]);
    type Out = fn(&[AtomicU64], &mut [u8]);

    #[test]
    fn every_length_is_copied_and_nothing_beside_it() {
        let sent: Vec<u8> = (0..1_000).map(|at| (at * 7 + at / 256) as u8).collect();
        let ways: [(In, Out); 4] = [(into_words, out_of_words), (into_words, load), (store, out_of_words), (store, load)];
        for (to, from) in ways {
            for length in (0..300).chain(950..=1_000) {
                let words: Vec<AtomicU64> = (0..126).map(|_| AtomicU64::new(u64::MAX)).collect();
                to(&words, &sent[..length]);
                let behind = &words[length.div_ceil(WORD)..];
                assert!(behind.iter().all(|word| word.load(Ordering::Relaxed) == u64::MAX), "{length}");
                let mut got = vec![0xaa; length + 100];
                from(&words, &mut got[..length]);
                assert_eq!((&got[..length], &got[length..]), (&sent[..length], &[0xaa; 100][..]));
            }
        }
    }

    #[test]
    #[should_panic(expected = "9 bytes for 1 words")]
    fn copy_beyond_the_words_panics() {
        into_words(&[AtomicU64::new(0)], &[0; 9]);
    }
}
