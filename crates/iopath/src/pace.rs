//! Send time of the next request: on a reply, or at its due time.
//!
//! ```text
//!   closed   when a reply has come
//!   every    when it is due, one in flight; the thread is idle in between
//!   open     when it is due, however many are in flight; replies are received in between
//! ```
//! Due times are fixed before the first request. Only the instrument's own work between two blocks moves them.

mod timetable;

pub use self::timetable::{Due, Timetable};

/// Most transactions in a block, and so the number of due times prepared before it.
pub const BLOCK_TRANSACTIONS: usize = 65_536;

/// The pace of requests. A value, not a type parameter of the loop: it is matched once per block.
#[derive(Debug)]
pub enum Pace {
    /// On each reply.
    Closed,
    /// At due times, one in flight.
    Every(Timetable),
    /// At due times, however many are in flight.
    Open(Timetable),
}

impl Pace {
    /// The timetable of a loop with due times.
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
