//! Lists of numbers: `1,2,4`, `1..2048x2` (multiplies), `10..50+10` (adds).
//!
//! ```text
//!     A..BxF    A, A·F, A·F², …   while ≤ B       B is included only if it is hit
//!     A..B+S    A, A+S, A+2S, …   while ≤ B
//! ```
//! One parser for sizes, rates and flows, so that every flag has the same grammar. Each number may have a multiple: `1k..64kx2`.

use crate::number::parse_number;

/// The longest list: a mistake such as `1..1000000000+1` is rejected at once.
pub const MAX_LEN: usize = 4096;

/// Why a text is not a list of numbers.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseListError {
    /// A part that is neither a number nor a range.
    #[error("\"{0}\" is not a number or range: write 64, 1,2,4, 1..2048x2 or 10..50+10")]
    NotANumber(String),
    /// A range that can never end, or is empty.
    #[error("\"{0}\" is an empty or endless range: A..BxF needs 1 ≤ A ≤ B and F ≥ 2, A..B+S needs A ≤ B and S ≥ 1")]
    BadRange(String),
    /// More than [`MAX_LEN`] numbers.
    #[error("\"{0}\" has more than {MAX_LEN} numbers: use a larger step")]
    TooLong(String),
}

/// Parses a list into its numbers, in the order written.
///
/// ```
/// use hairpin_units::list::parse;
/// assert_eq!(parse("1..10x2").unwrap(), [1, 2, 4, 8]);
/// assert_eq!(parse("10..30+10,64").unwrap(), [10, 20, 30, 64]);
/// ```
pub fn parse(text: &str) -> Result<Vec<u64>, ParseListError> {
    let mut numbers = Vec::new();
    for part in text.split(',') {
        match part.split_once("..") {
            None => numbers.push(number(part)?),
            Some((first, rest)) => range(part, first, rest, &mut numbers)?,
        }
        if numbers.len() > MAX_LEN {
            return Err(ParseListError::TooLong(text.into()));
        }
    }
    Ok(numbers)
}

fn range(part: &str, first: &str, rest: &str, numbers: &mut Vec<u64>) -> Result<(), ParseListError> {
    let at = rest.find(['x', '+']).ok_or_else(|| ParseListError::NotANumber(part.into()))?;
    let (first, last, step) = (number(first)?, number(&rest[..at])?, number(&rest[at + 1..])?);
    let multiplies = rest.as_bytes()[at] == b'x';
    let ends = if multiplies { first >= 1 && step >= 2 } else { step >= 1 };
    if !ends || first > last {
        return Err(ParseListError::BadRange(part.into()));
    }
    let mut next = Some(first);
    while let Some(n) = next.filter(|n| *n <= last) {
        if numbers.len() > MAX_LEN {
            return Err(ParseListError::TooLong(part.into()));
        }
        numbers.push(n);
        next = if multiplies { n.checked_mul(step) } else { n.checked_add(step) };
    }
    Ok(())
}

fn number(text: &str) -> Result<u64, ParseListError> {
    parse_number(text).map_err(|_| ParseListError::NotANumber(text.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lists_and_ranges() {
        assert_eq!(parse("64").unwrap(), [64]);
        assert_eq!(parse("1k,1Ki..4Kix2").unwrap(), [1000, 1024, 2048, 4096]);
        assert_eq!(parse("1..2048x2").unwrap().len(), 12);
        assert_eq!(parse("10..50+15").unwrap(), [10, 25, 40]);
        assert_eq!(parse("0..2+1").unwrap(), [0, 1, 2]);
    }

    #[test]
    fn errors_name_the_mistake() {
        for text in ["", "1,", "x", "1..", "1..5", "1..5x", "+1", "-1"] {
            assert!(matches!(parse(text), Err(ParseListError::NotANumber(_))), "{text}");
        }
        for text in ["0..8x2", "1..8x1", "8..1x2", "1..5+0"] {
            assert!(matches!(parse(text), Err(ParseListError::BadRange(_))), "{text}");
        }
        assert!(matches!(parse("1..1000000000+1"), Err(ParseListError::TooLong(_))));
    }

    proptest! {
        #[test]
        fn never_panics_and_never_grows_without_bound(text in "[0-9.,x+]{0,24}") {
            if let Ok(numbers) = parse(&text) {
                prop_assert!(numbers.len() <= MAX_LEN + 1);
            }
        }
    }
}
