//! What every path must do.

mod conformance;
