//! Memory shared by a driver and its device, with the few operations that a low-latency driver needs.
//!
//! ```text
//!             driver                        device
//!   write_line ──▶ [header 4 │ 60 bytes]──▶      one 64-byte posted write
//!   flush      ──▶ (order)                       earlier writes go before later ones
//!   read_line  ◀── [header 4 │ 60 bytes]◀──      the cached copy is dropped first
//!   read_u32   ◀── [4 bytes]                     one non-posted read: the CPU waits for it
//! ```
//! [`MappedBar`] is a base address register (BAR) of a PCI device, mapped into this process; [`CoherentBar`] is memory that two ports share.

mod coherent;
mod mapped;

pub use coherent::CoherentBar;
pub(crate) use coherent::{Line, demote, own};
pub use mapped::{Access, MapError, MappedBar};

/// Length of a line in bytes.
pub const LINE: usize = 64;

/// Lines of 64 bytes that a device sees too.
///
/// Every method takes `&self`, since the device changes the memory anyway. Writes to one line by several threads may mix; a
/// driver has exclusive use of its lines.
pub trait Bar {
    /// Writes line number `line`. Its first 4 bytes, the header, become visible last, or the whole line at once.
    ///
    /// # Panics
    /// If there is no such line.
    fn write_line(&self, line: usize, bytes: &[u8; LINE]);

    /// Orders lines: those written before leave before any written later.
    fn flush(&self);

    /// Reads line number `line` from memory, not from a copy in this CPU's caches.
    ///
    /// # Panics
    /// If there is no such line.
    fn read_line(&self, line: usize, into: &mut [u8; LINE]);

    /// Reads the 4 bytes at `offset`, little endian, in one access.
    ///
    /// # Panics
    /// If `offset` is not a multiple of 4, or outside the memory.
    fn read_u32(&self, offset: usize) -> u32;

    /// Hint that line number `line` will be written soon; useful where both sides' caches hold it.
    #[inline(always)]
    fn will_write(&self, line: usize) {
        let _ = line;
    }

    /// Hint that the other side has probably written line number `line` already and it will be read soon.
    #[inline(always)]
    fn will_read(&self, line: usize) {
        let _ = line;
    }

    /// Reads line number `line` from memory if `ready` accepts its header. Only then does all of `into` hold that line, no part
    /// of it older than the header. Implementations read the header first where that is cheaper, and check again where the line
    /// can change meanwhile.
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
