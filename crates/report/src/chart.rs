//! The plot engine: scales with their ticks, and a canvas of characters in a frame of two axes.
//!
//! ```text
//!   values ──▶ axis ──▶ drawn::svg             the report's pictures
//!                └────▶ canvas ──▶ drawn::term    its plots for a terminal
//!                           └────▶ watch          the live view
//! ```

pub(crate) mod axis;
pub(crate) mod canvas;
