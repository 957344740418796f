//! The C library's allocator.

/// Returns memory that has been freed to the kernel; the allocator keeps it otherwise, as much as was ever in use at once.
///
/// It takes the allocator's locks and gives up pages that the next allocation faults in again, so it belongs between
/// measurements. Only glibc has it (malloc_trim(3)); elsewhere nothing happens.
pub fn return_freed() {
    // SAFETY: malloc_trim takes no pointer, and may be called from any thread.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(all(test, target_env = "gnu"))]
mod tests {
    use super::*;

    fn resident_mib() -> u64 {
        let pages = std::fs::read_to_string("/proc/self/statm").unwrap().split(' ').nth(1).unwrap().parse::<u64>().unwrap();
        pages * rustix::param::page_size() as u64 / 1024 / 1024
    }

    #[test]
    fn freed_memory_is_no_longer_resident() {
        // Below the size from which the allocator maps each by itself; those that stay keep the heap from shrinking.
        let mut all: Vec<Vec<u8>> = (0..4_096).map(|_| vec![1; 16_384]).collect();
        let mut at = 0;
        all.retain(|_| {
            at += 1;
            at % 64 == 0
        });
        let before = resident_mib();
        return_freed();
        let after = resident_mib();
        assert!(after + 32 < before, "{before} MiB before, {after} MiB after; {} stay", all.len());
    }
}
