//! The plot engine: scales with ticks, and the character graphics drawn on them.
//!
//! ```text
//!   values ──▶ axis ──▶ canvas ──▶ picture      a document's plots for a terminal
//!                │         └─────▶ watch        the live view
//!                ├────▶ strip                   a range beside a row
//!                └────▶ drawn::svg              the report's pictures
//! ```

pub(crate) mod axis;
pub(crate) mod canvas;
pub(crate) mod offered;
pub(crate) mod picture;
pub(crate) mod strip;
pub(crate) mod whole;
