//! When the next request leaves: as soon as a reply has come, or when it is due.
//!
//! ```text
//!   closed   when a reply has come
//!   every    when it is due, one in flight; the thread is idle in between
//!   open     when it is due, however many are in flight; replies are received in between
//! ```
//! Due times are fixed before the first request. Nothing moves them but the instrument's own work between two blocks.

mod timetable;

pub use self::timetable::{Due, Timetable};

/// The most transactions of a block, and so the due times that are written out before it.
pub const BLOCK_TRANSACTIONS: usize = 65_536;

/// How requests follow each other. A value, not a type parameter of the loop: it is looked at once per block.
#[derive(Debug)]
pub enum Pace {
    /// On a reply.
    Closed,
    /// On time, one in flight.
    Every(Timetable),
    /// On time, however many are in flight.
    Open(Timetable),
}

impl Pace {
    /// The due times of a loop that has some.
    #[inline(always)]
    pub(crate) fn timetable(&self) -> Option<&Timetable> {
        match self {
            Pace::Closed => None,
            Pace::Every(table) | Pace::Open(table) => Some(table),
        }
    }

    pub(crate) fn timetable_mut(&mut self) -> Option<&mut Timetable> {
        match self {
            Pace::Closed => None,
            Pace::Every(table) | Pace::Open(table) => Some(table),
        }
    }
}
