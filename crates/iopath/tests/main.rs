//! Requirements on every path.

mod conformance;
