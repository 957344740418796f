//! One frame of the live view: turns the snapshots of a run into a picture.
//!
//! ```text
//!   progress, row, run ──▶ State ──▶ draw ──▶ a frame of ratatui       no clock, no terminal: the picture depends on the state alone
//!   Key ─────────────────────┘
//!   a second of a watched server ──▶ Stages ──▶ a frame of its stages
//! ```
//! The terminal's event loop is in the crate `cli`; it passes keys and snapshots to the state and redraws after each change.

mod course;
mod draw;
mod plot;
mod spread;
mod stages;
mod state;
mod widget;

use ratatui::Frame;

pub use self::course::Begins;
pub use self::draw::{COLUMNS, LINES, draw};
pub use self::stages::Stages;
pub use self::state::{Key, Source, State};

/// State drawn by the terminal's loop; keys and snapshots change it.
pub trait View: Clone + Send + 'static {
    /// Increases with every change; a redraw is needed only then.
    fn version(&self) -> u64;
    /// Handles a key.
    fn key(&mut self, key: Key);
    /// Adds a note about the view itself.
    fn note(&mut self, text: &str);
    /// The run was told to stop and is finishing.
    fn ending(&mut self);
    /// Draws a frame, in colour if `colour`.
    fn draw(&self, frame: &mut Frame<'_>, colour: bool);
}
