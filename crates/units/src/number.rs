//! Numbers with a multiple: `64k`, `1.5M`, `4Ki`. One parser, so that every flag has the same grammar.

/// Why a text is not a whole number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("write a whole number, such as 100 or 10k")]
pub struct ParseNumberError;

/// Splits off `k`, `M`, `G` (powers of 1000) or `Ki`, `Mi`, `Gi` (powers of 1024), and returns the factor.
fn multiple(text: &str) -> (&str, u64) {
    let units = [("Ki", 1 << 10), ("ki", 1 << 10), ("Mi", 1 << 20), ("Gi", 1 << 30), ("k", 1000), ("K", 1000)];
    let units = units.into_iter().chain([("M", 1_000_000), ("G", 1_000_000_000)]);
    let found = units.into_iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, factor)));
    found.unwrap_or((text, 1))
}

/// Parses a whole number such as `100`, `10k`, `1.5M` or `4Ki`.
///
/// ```
/// use hairpin_units::parse_number;
/// assert_eq!(parse_number("64k"), Ok(64_000));
/// assert_eq!(parse_number("64Ki"), Ok(65_536));
/// assert!(parse_number("x").is_err() && parse_number("1.5").is_err());
/// ```
pub fn parse_number(text: &str) -> Result<u64, ParseNumberError> {
    let (digits, factor) = multiple(text);
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    let sound = |text: &str| text.bytes().all(|digit| digit.is_ascii_digit());
    if whole.is_empty() || !sound(whole) || !sound(part) || digits.ends_with('.') {
        return Err(ParseNumberError);
    }
    let whole = whole.parse::<u64>().ok().and_then(|whole| whole.checked_mul(factor)).ok_or(ParseNumberError)?;
    if part.is_empty() {
        return Ok(whole);
    }
    let places = u32::try_from(part.len()).ok().and_then(|places| 10u64.checked_pow(places)).ok_or(ParseNumberError)?;
    let part = part.parse::<u64>().ok().and_then(|part| part.checked_mul(factor)).ok_or(ParseNumberError)?;
    if part % places != 0 { Err(ParseNumberError) } else { whole.checked_add(part / places).ok_or(ParseNumberError) }
}

/// Parses whole numbers and fractions: `0.5`, `2.5k`, `1e6`.
pub fn parse_decimal(text: &str) -> Option<f64> {
    let (digits, factor) = multiple(text);
    // The standard library would read "inf" and "nan" as numbers.
    let begins = digits.bytes().next().is_some_and(|first| first.is_ascii_digit() || first == b'.');
    digits.parse::<f64>().ok().filter(|_| begins).map(|number| number * factor as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn multiples_are_of_1000_or_of_1024() {
        for (text, number) in [("0", 0), ("100", 100), ("10k", 10_000), ("10K", 10_000), ("1.5k", 1500), ("2M", 2_000_000)] {
            assert_eq!(parse_number(text), Ok(number), "{text}");
        }
        for (text, number) in [("4Ki", 4096), ("1.5Ki", 1536), ("1Mi", 1 << 20), ("2Gi", 2 << 30), ("3G", 3_000_000_000)] {
            assert_eq!(parse_number(text), Ok(number), "{text}");
        }
        for text in ["", "k", "x", "-1", "+1", "1.5", "1.", ".5k", "1kk", "1e3", "99999999999G", "1.00000000000000000000001k"] {
            assert_eq!(parse_number(text), Err(ParseNumberError), "{text}");
        }
        for (text, number) in [("0.5", 0.5), ("2.5k", 2500.0), ("1e6", 1e6), ("1Mi", 1_048_576.0)] {
            assert_eq!(parse_decimal(text), Some(number), "{text}");
        }
        for text in ["", "nan", "inf", "-1", "fast", "10bit"] {
            assert_eq!(parse_decimal(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_number_or_refused(text in "[0-9.kMGi]{0,12}") {
            if let (Ok(whole), Some(decimal)) = (parse_number(&text), parse_decimal(&text)) {
                prop_assert!((whole as f64 - decimal).abs() <= decimal * 1e-9);
            }
        }
    }
}
