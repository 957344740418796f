//! The units that Hairpin measures in, and the only parser of number lists.
//!
//! Measured times are integer nanoseconds ([`Nanos`]), model times integer picoseconds ([`Picos`]), lengths [`Bytes`],
//! rates [`BitRate`], quantiles [`Quantile`] (0..1 in code, p99 in text). A list of numbers such as `1..2048x2` is parsed in one
//! place, [`list::parse`].

#![forbid(unsafe_code)]

mod bits;
pub mod list;
mod number;
mod quantile;
mod time;

pub use bits::{BitRate, Bytes, ParseBitRateError};
pub use number::{ParseNumberError, parse_decimal, parse_number};
pub use quantile::{ParseQuantileError, Quantile};
pub use time::{Nanos, ParseDurationError, Picos, parse_duration};
