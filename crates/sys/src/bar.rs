//! The memory that a driver and its device share, as the few operations that a low-latency driver needs of it.
//!
//! ```text
//!             driver                        device
//!   write_line ──▶ [header 4 │ 60 bytes]──▶      one 64-byte posted write
//!   flush      ──▶ (order)                       what was written before goes before what is written later
//!   read_line  ◀── [header 4 │ 60 bytes]◀──      the cached copy is dropped first
//!   read_u32   ◀── [4 bytes]                     one non-posted read: the CPU waits for it
//! ```
//! [`MappedBar`] is a base address register (BAR) of a PCI device, mapped into this process; [`CoherentBar`] is memory that two ports share.

mod coherent;
mod mapped;

pub use coherent::CoherentBar;
pub(crate) use coherent::{Line, demote, own};
pub use mapped::{Access, MapError, MappedBar};

/// Bytes of a line.
pub const LINE: usize = 64;

/// Lines of 64 bytes that a device sees too.
///
/// Every method takes `&self`: what the device does to the memory is not in this process's hands either. Writes to one line by several threads may
/// mix. A driver has its lines for itself.
pub trait Bar {
    /// Writes line number `line`. Its first 4 bytes, the header, become visible last, or the whole line at once.
    ///
    /// # Panics
    /// If there is no such line.
    fn write_line(&self, line: usize, bytes: &[u8; LINE]);

    /// Lines written before are on their way before any that is written later.
    fn flush(&self);

    /// Reads line number `line` anew: a copy in this CPU's caches is not used.
    ///
    /// # Panics
    /// If there is no such line.
    fn read_line(&self, line: usize, into: &mut [u8; LINE]);

    /// Reads the 4 bytes at `offset`, little endian, in one access.
    ///
    /// # Panics
    /// If `offset` is no multiple of 4, or not inside.
    fn read_u32(&self, offset: usize) -> u32;

    /// Line number `line` will be written soon: a hint, of use where both sides' caches hold it.
    #[inline(always)]
    fn will_write(&self, line: usize) {
        let _ = line;
    }

    /// Line number `line` was probably written by the other side already, and will be read soon: a hint, as above.
    #[inline(always)]
    fn will_read(&self, line: usize) {
        let _ = line;
    }

    /// Reads line number `line` anew if its header is what `ready` waits for. Only then is all of `into` that line, none of it older than the
    /// header. Memory that can be asked for the header alone, or can change meanwhile, does so or looks again.
    ///
    /// # Panics
    /// If there is no such line.
    #[inline(always)]
    fn poll_line(&self, line: usize, ready: impl Fn(u32) -> bool, into: &mut [u8; LINE]) -> bool
    where
        Self: Sized,
    {
        self.read_line(line, into);
        ready(header(into))
    }
}

/// The header of a line: its first 4 bytes, little endian.
#[inline(always)]
pub fn header(line: &[u8; LINE]) -> u32 {
    u32::from_le_bytes([line[0], line[1], line[2], line[3]])
}
