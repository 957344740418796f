//! The report without a browser: Markdown for issues and pull requests, SVG for pages, plots for a terminal.
//!
//! ```text
//!   View ──▶ words ──▶ markdown, term             names, figures and sentences are the same in all
//!     └────▶ plot ───▶ term, svg                  a plot knows its lines and scales, not how it is drawn
//! ```

mod markdown;
mod plot;
mod svg;
mod term;
mod words;

pub use markdown::report_markdown;
pub use plot::Chart;
pub use svg::report_svg;
pub use term::report_term;
