//! A BAR of a PCI device, mapped: streaming stores out, fresh loads in.
//!
//! ```text
//!   /sys/bus/pci/devices/BDF/resourceN       uncached: every load is one read on PCIe, every store one write
//!   /sys/bus/pci/devices/BDF/resourceN_wc    write-combining: the stores of a line leave together, as one 64-byte write
//! ```
//! A CPU may empty its write-combining buffer early; then a line leaves in parts, in any order (Intel SDM vol. 3, "Write
//! Combining" in the chapter on memory cache control). A device that cannot tolerate that checks the line as a whole. Sources:
//! Intel SDM vol. 2 (MOVNTDQ, SFENCE, CLFLUSH, MFENCE), kernel `Documentation/PCI/sysfs-pci.rst`.

use std::fs::File;
use std::io;
use std::ptr::NonNull;

use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

use super::{Bar, LINE};

/// Access rights of a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Read only: a write panics.
    Read,
    /// Read and write.
    ReadWrite,
}

/// Reason why there is no mapping.
#[derive(Debug, thiserror::Error)]
pub enum MapError {
    /// Not x86-64.
    #[error("a mapped BAR needs the streaming stores and cache-line flushes of x86-64; this CPU is another")]
    OtherCpu,
    /// Empty, or larger than the address space.
    #[error("{0} bytes cannot be mapped")]
    Size(u64),
    /// The kernel's error.
    #[error(transparent)]
    Kernel(#[from] io::Error),
}

/// A mapped BAR, unmapped when dropped.
///
/// If the device goes away (hot-unplug), the next access ends the process (SIGBUS) or reads all ones.
#[derive(Debug)]
pub struct MappedBar {
    begin: NonNull<u8>,
    bytes: usize,
    access: Access,
}

// SAFETY: the mapping belongs to the process, not to a thread, and it is not Sync.
unsafe impl Send for MappedBar {}

impl MappedBar {
    /// Maps `bytes` from offset `at`, a multiple of the page size, of a BAR's file in sysfs, which must be opened with the rights
    /// that `access` needs. That file begins with the page in which the BAR begins.
    ///
    /// # Errors
    /// The errors of mmap(2) (`EPERM` if the kernel is locked down, `EINVAL` if a driver has exclusive use of the BAR or the BAR
    /// is shorter); a CPU other than x86-64; zero bytes.
    pub fn map(file: &File, at: u64, bytes: u64, access: Access) -> Result<MappedBar, MapError> {
        let prot = match access {
            Access::Read => ProtFlags::READ,
            Access::ReadWrite => ProtFlags::READ | ProtFlags::WRITE,
        };
        MappedBar::new(bytes, access, |bytes| {
            // SAFETY: a new mapping at an address of the kernel's choice overlaps nothing.
            unsafe { mmap(std::ptr::null_mut(), bytes, prot, MapFlags::SHARED, file, at) }
        })
    }

    /// A BAR of `lines` zeroed lines of ordinary memory, to measure the cost of the instructions without a device.
    ///
    /// # Errors
    /// The errors of mmap(2); a CPU other than x86-64; zero lines.
    pub fn over_memory(lines: usize) -> Result<MappedBar, MapError> {
        MappedBar::new((lines as u64).saturating_mul(LINE as u64), Access::ReadWrite, |bytes| {
            let prot = ProtFlags::READ | ProtFlags::WRITE;
            // SAFETY: as in map().
            unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, prot, MapFlags::PRIVATE | MapFlags::POPULATE) }
        })
    }

    fn new(
        bytes: u64,
        access: Access,
        map: impl FnOnce(usize) -> rustix::io::Result<*mut std::ffi::c_void>,
    ) -> Result<MappedBar, MapError> {
        if !cfg!(target_arch = "x86_64") {
            return Err(MapError::OtherCpu);
        }
        let size = usize::try_from(bytes).ok().filter(|size| (1..=isize::MAX as usize).contains(size));
        let size = size.ok_or(MapError::Size(bytes))?;
        let begin = map(size).map_err(io::Error::from)?;
        let begin = NonNull::new(begin.cast()).ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))?;
        Ok(MappedBar { begin, bytes: size, access })
    }

    /// Address of `size` bytes at `offset`, a multiple of `size`.
    #[inline(always)]
    fn place(&self, offset: usize, size: usize) -> NonNull<u8> {
        let inside = offset.is_multiple_of(size) && offset < self.bytes && self.bytes - offset >= size;
        assert!(inside, "{size} bytes at offset {offset} are not aligned and inside of a BAR of {} bytes", self.bytes);
        // SAFETY: offset < bytes, which the mapping has.
        unsafe { self.begin.add(offset) }
    }

    #[inline(always)]
    fn line(&self, line: usize) -> NonNull<u8> {
        // A line number whose product overflows is out of range too.
        self.place(line.saturating_mul(LINE), LINE)
    }
}

impl Bar for MappedBar {
    #[inline]
    fn write_line(&self, line: usize, bytes: &[u8; LINE]) {
        let to = self.line(line);
        assert!(self.access == Access::ReadWrite, "a BAR that was mapped to read is written");
        // SAFETY: line() gave 64 bytes, 64-byte aligned, of the mapping, which is writable.
        unsafe { arch::write_line(to, bytes) }
    }

    #[inline]
    fn flush(&self) {
        arch::flush();
    }

    #[inline]
    fn read_line(&self, line: usize, into: &mut [u8; LINE]) {
        let from = self.line(line);
        // SAFETY: line() gave 64 bytes, 64-byte aligned, of the mapping, which is readable.
        unsafe { arch::read_line(from, into) }
    }

    #[inline(always)]
    fn read_u32(&self, offset: usize) -> u32 {
        let from = self.place(offset, size_of::<u32>()).cast::<u32>();
        // SAFETY: place() gave 4 bytes, 4-byte aligned, of the mapping; volatile, because the device changes them.
        u32::from_le(unsafe { from.read_volatile() })
    }
}

impl Drop for MappedBar {
    fn drop(&mut self) {
        // SAFETY: mapped with this address and size, and no pointer into it outlives self.
        let unmapped = unsafe { munmap(self.begin.as_ptr().cast(), self.bytes) };
        debug_assert_eq!(unmapped, Ok(()));
    }
}

#[cfg(target_arch = "x86_64")]
mod arch {
    use core::arch::asm;
    use core::arch::x86_64::{__m128i, _mm_clflush, _mm_mfence, _mm_sfence, _mm_storeu_si128};
    use core::ptr::NonNull;

    use super::LINE;

    /// In one block of assembly, so that nothing comes between the stores of a line; the quarter with the header comes last.
    ///
    /// # Safety
    /// `to` is 64 writable bytes, 16-byte aligned.
    #[inline(always)]
    pub(super) unsafe fn write_line(to: NonNull<u8>, bytes: &[u8; LINE]) {
        // SAFETY: reads the 64 bytes of the array and writes the 64 bytes that the caller vouches for; no flag and no stack is
        // used.
        unsafe {
            asm!(
                "movdqu {a}, [{from}]",
                "movdqu {b}, [{from} + 16]",
                "movdqu {c}, [{from} + 32]",
                "movdqu {d}, [{from} + 48]",
                "movntdq [{to} + 16], {b}",
                "movntdq [{to} + 32], {c}",
                "movntdq [{to} + 48], {d}",
                "movntdq [{to}], {a}",
                from = in(reg) bytes.as_ptr(),
                to = in(reg) to.as_ptr(),
                a = out(xmm_reg) _,
                b = out(xmm_reg) _,
                c = out(xmm_reg) _,
                d = out(xmm_reg) _,
                options(nostack, preserves_flags),
            );
        }
    }

    #[inline(always)]
    pub(super) fn flush() {
        // SAFETY: a fence touches no memory of its own; every x86-64 CPU has it.
        unsafe { _mm_sfence() }
    }

    /// # Safety
    /// `from` is 64 readable bytes, 16-byte aligned.
    #[inline(always)]
    pub(super) unsafe fn read_line(from: NonNull<u8>, into: &mut [u8; LINE]) {
        let (from, into) = (from.cast::<__m128i>(), into.as_mut_ptr().cast::<__m128i>());
        // SAFETY: flushes the line that the caller vouches for.
        unsafe { _mm_clflush(from.as_ptr().cast()) }
        // A load may overtake CLFLUSH but not MFENCE, and neither may CLFLUSH overtake MFENCE.
        // SAFETY: as in flush().
        unsafe { _mm_mfence() }
        for quarter in 0..LINE / size_of::<__m128i>() {
            // SAFETY: a quarter of the 64 bytes that the caller vouches for, aligned; volatile, because the device changes them.
            let loaded = unsafe { from.add(quarter).read_volatile() };
            // SAFETY: a quarter of the 64 bytes of the array; this store asks for no alignment.
            unsafe { _mm_storeu_si128(into.add(quarter), loaded) }
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod arch {
    use core::ptr::NonNull;

    use super::LINE;

    pub(super) unsafe fn write_line(_: NonNull<u8>, _: &[u8; LINE]) {
        unreachable!("no MappedBar is ever made here")
    }
    pub(super) fn flush() {
        unreachable!("no MappedBar is ever made here")
    }
    pub(super) unsafe fn read_line(_: NonNull<u8>, _: &mut [u8; LINE]) {
        unreachable!("no MappedBar is ever made here")
    }
}

#[cfg(all(test, not(target_arch = "x86_64")))]
#[test]
fn no_bar_is_mapped_on_other_cpus() {
    assert!(matches!(MappedBar::over_memory(1), Err(MapError::OtherCpu)));
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use std::io::Write;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    fn pattern(seed: u8) -> [u8; LINE] {
        std::array::from_fn(|at| (at as u8).wrapping_mul(37).wrapping_add(seed))
    }

    #[test]
    fn lines_are_read_as_they_were_written() {
        let bar = MappedBar::over_memory(4).unwrap();
        for line in 0..4 {
            bar.write_line(line, &pattern(line as u8));
        }
        bar.flush();
        for line in 0..4 {
            let mut into = [0; LINE];
            bar.read_line(line, &mut into);
            assert_eq!(into, pattern(line as u8));
            let words = pattern(line as u8);
            for offset in (0..LINE).step_by(4) {
                let word = u32::from_le_bytes(words[offset..offset + 4].try_into().unwrap());
                assert_eq!(bar.read_u32(line * LINE + offset), word);
            }
        }
    }

    /// A second mapping of the same file plays the device.
    #[test]
    fn mappings_share_lines() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(4096).unwrap();
        let driver = MappedBar::map(&file, 0, 4096, Access::ReadWrite).unwrap();
        let device = MappedBar::map(&file, 0, 4096, Access::Read).unwrap();
        driver.write_line(63, &pattern(9));
        driver.flush();
        let mut into = [0; LINE];
        device.read_line(63, &mut into);
        assert_eq!(into, pattern(9));
        driver.write_line(63, &pattern(10));
        driver.flush();
        device.read_line(63, &mut into);
        assert_eq!(into, pattern(10));
    }

    #[test]
    fn nothing_outside_is_touched() {
        let mut file = tempfile::tempfile().unwrap();
        // Not a multiple of a line: the last 4 bytes are a word, but not a line.
        file.write_all(&[0xA5; 3 * LINE + 4]).unwrap();
        let bar = MappedBar::map(&file, 0, 3 * LINE as u64 + 4, Access::ReadWrite).unwrap();
        let refused = |what: &str, outside: &dyn Fn()| {
            assert!(catch_unwind(AssertUnwindSafe(outside)).is_err(), "{what}");
        };
        assert_eq!(bar.read_u32(3 * LINE), 0xA5A5_A5A5);
        for offset in [1, 2, 3, 3 * LINE + 4, 3 * LINE + 1, usize::MAX, usize::MAX - 3] {
            refused("read_u32", &|| _ = bar.read_u32(offset));
        }
        for line in [3, 4, usize::MAX, usize::MAX / LINE, usize::MAX / LINE + 1] {
            refused("write_line", &|| bar.write_line(line, &[0; LINE]));
            refused("read_line", &|| bar.read_line(line, &mut [0; LINE]));
        }
        let read_only = MappedBar::map(&file, 0, LINE as u64, Access::Read).unwrap();
        refused("a mapping to read", &|| read_only.write_line(0, &[0; LINE]));
        assert_eq!(read_only.read_u32(0), 0xA5A5_A5A5);
    }

    #[test]
    fn map_error_names_the_reason() {
        let file = tempfile::tempfile().unwrap();
        for bytes in [0, u64::MAX] {
            let why = MappedBar::map(&file, 0, bytes, Access::Read).unwrap_err();
            assert!(matches!(why, MapError::Size(size) if size == bytes), "{why}");
        }
        assert!(MappedBar::over_memory(0).is_err());
        let pipe = std::io::pipe().unwrap().0;
        let pipe = File::from(std::os::fd::OwnedFd::from(pipe));
        assert!(matches!(MappedBar::map(&pipe, 0, 4096, Access::Read), Err(MapError::Kernel(_))));
    }
}
