//! The report without a browser: a document for terminals and Markdown, and SVG images.
//!
//! ```text
//!   View ──▶ words ──▶ report                     names, figures and sentences are the same in all
//!     ├────▶ plot ───▶ report, svg                a plot knows its lines and scales, not how it is drawn
//!     └────▶ page                                 what the page is told
//! ```

mod data;
mod page;
mod plot;
mod report;
mod results;
mod short;
mod split;
mod strips;
mod svg;
mod words;

pub(crate) use page::told;
pub use plot::Chart;
pub(crate) use strips::dot;
pub use svg::{budget_svg, report_svg};
