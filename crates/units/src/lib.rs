//! The units that Hairpin measures in, and the only parser of number lists.
//!
//! Measured times are integer nanoseconds ([`Nanos`]), model times integer picoseconds ([`Picos`]), lengths [`Bytes`],
//! rates [`BitRate`], quantiles [`Quantile`] (0..1 in code, p99 in text). A list of numbers such as `1..2048x2` is parsed in one
//! place, [`list::parse`].
//!
//! ```
//! use hairpin_units::{BitRate, Nanos, Quantile, list, parse_duration};
//!
//! assert_eq!(parse_duration("1.5ms").unwrap(), Nanos(1_500_000));
//! assert_eq!("10G".parse::<BitRate>().unwrap(), BitRate(10_000_000_000));   // bits per second
//! assert_eq!("p99.9".parse::<Quantile>().unwrap().get(), 0.999);
//! assert_eq!(list::parse("1..8x2,64").unwrap(), [1, 2, 4, 8, 64]);
//! ```

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod arrange;
mod bits;
pub mod list;
mod number;
mod quantile;
mod time;

pub use arrange::{Arrange, Gather};
pub use bits::{BitRate, Bytes, ParseBitRateError};
pub use number::{ParseNumberError, parse_decimal, parse_number};
pub use quantile::{ParseQuantileError, Quantile};
pub use time::{Nanos, ParseDurationError, Picos, parse_duration};
