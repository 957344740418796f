//! One frame of the live view: turns the snapshots of a run into a picture.
//!
//! ```text
//!   progress, row, run ──▶ State ──▶ draw ──▶ a frame of ratatui       no clock, no terminal: the picture depends on the state alone
//!   Key ─────────────────────┘
//! ```
//! The terminal's event loop is in the crate `cli`; it passes keys and snapshots to the state and redraws after each change.

mod course;
mod draw;
mod plot;
mod spread;
mod state;
mod widget;

pub use self::course::Begins;
pub use self::draw::{COLUMNS, LINES, draw};
pub use self::state::{Key, Source, State};
