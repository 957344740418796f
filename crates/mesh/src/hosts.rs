//! Lists of hosts as Slurm writes them (`n[1-3,7],gpu[001-016]-ib,login`), to names and back.
//!
//! ```text
//!   list  = entry {',' entry}          entry = part {part}, no spaces
//!   part  = text | '[' range {',' range} ']'
//!   range = NUMBER ['-' NUMBER]        zeros in front are kept: [001-016] is 001, 002 … 016
//! ```
//! Several brackets in an entry make every combination, the last one changing fastest. Source: scontrol(1), `show hostnames` and
//! `show hostlist`; slurm.conf(5), `NodeName`.

use std::fmt::Write;

/// The most names that one list may stand for.
pub const MOST: usize = 65_536;

/// The longest number in brackets, in digits.
const DIGITS: usize = 18;

/// Why a text is no list of hosts; the columns count characters from 1.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostsError {
    /// There is no name where one must be.
    #[error("a list of hosts has no name at column {column}: write names with commas between them, as in n[1-3],login")]
    Empty { column: usize },
    /// A bracket without its partner, or one inside another.
    #[error("a list of hosts has '{bracket}' at column {column} without its partner: write brackets as in n[1-3,7]")]
    Bracket { bracket: char, column: usize },
    /// A text in brackets that is no number and no range.
    #[error("{text:?} in a list of hosts at column {column} is no number and no range of numbers: write [1-3,7] or [001-016]")]
    Range { text: String, column: usize },
    /// The range ends before it starts.
    #[error("the range {text} in a list of hosts at column {column} ends before it starts: write the smaller number first")]
    Backward { text: String, column: usize },
    /// A space or a control character.
    #[error("a list of hosts has {found:?} at column {column}: write names with commas and no spaces between them")]
    Character { found: char, column: usize },
    /// More names than any list may have.
    #[error("the list of hosts stands for more than {MOST} names from column {column} on: name fewer hosts")]
    TooMany { column: usize },
}

/// The numbers from `first` to `last`, at least `width` digits each.
#[derive(Clone, Copy, Debug)]
struct Range {
    first: u64,
    last: u64,
    width: usize,
}

#[derive(Debug)]
enum Part {
    Text(String),
    Ranges(Vec<Range>),
}

impl Part {
    /// How many texts the part stands for; saturates.
    fn count(&self) -> usize {
        match self {
            Part::Text(_) => 1,
            Part::Ranges(ranges) => ranges.iter().fold(0, |sum: usize, range| {
                sum.saturating_add(usize::try_from(range.last - range.first).unwrap_or(usize::MAX).saturating_add(1))
            }),
        }
    }
}

/// The names that a list stands for, in its order; a name that is listed twice comes twice.
///
/// # Errors
/// The text is no list, or stands for more than [`MOST`] names, which is checked before any name is made.
pub fn parse(text: &str) -> Result<Vec<String>, HostsError> {
    let text: Vec<char> = text.chars().collect();
    let mut names = Vec::new();
    let mut at = 0;
    loop {
        let start = at + 1;
        let parts = entry(&text, &mut at)?;
        let count = parts.iter().fold(1usize, |count, part| count.saturating_mul(part.count()));
        if names.len().saturating_add(count) > MOST {
            return Err(HostsError::TooMany { column: start });
        }
        names.extend(combinations(&parts));
        if at == text.len() {
            return Ok(names);
        }
        at += 1;
    }
}

/// Reads up to the next comma outside brackets or to the end.
fn entry(text: &[char], at: &mut usize) -> Result<Vec<Part>, HostsError> {
    let mut parts = Vec::new();
    let mut plain = String::new();
    while let Some(&found) = text.get(*at) {
        let column = *at + 1;
        match found {
            ',' => break,
            ']' => return Err(HostsError::Bracket { bracket: ']', column }),
            '[' => {
                if !plain.is_empty() {
                    parts.push(Part::Text(std::mem::take(&mut plain)));
                }
                parts.push(Part::Ranges(ranges(text, at)?));
            }
            other if other.is_whitespace() || other.is_control() => {
                return Err(HostsError::Character { found: other, column });
            }
            other => plain.push(other),
        }
        *at += 1;
    }
    if !plain.is_empty() {
        parts.push(Part::Text(plain));
    }
    if parts.is_empty() { Err(HostsError::Empty { column: *at + 1 }) } else { Ok(parts) }
}

/// Reads a bracket; `at` is its first character, and then its last.
fn ranges(text: &[char], at: &mut usize) -> Result<Vec<Range>, HostsError> {
    let open = *at;
    let inside = &text[open + 1..];
    let end = inside.iter().position(|&found| found == ']' || found == '[');
    let end = end.filter(|&end| inside[end] == ']').ok_or(HostsError::Bracket { bracket: '[', column: open + 1 })?;
    *at = open + 1 + end;
    let mut found = Vec::new();
    let mut column = open + 2;
    for item in inside[..end].split(|&c| c == ',') {
        let item_text: String = item.iter().collect();
        found.push(range(&item_text, column)?);
        column += item.len() + 1;
    }
    Ok(found)
}

fn range(text: &str, column: usize) -> Result<Range, HostsError> {
    let bad = || HostsError::Range { text: text.to_owned(), column };
    let number = |digits: &str| {
        let is_number = !digits.is_empty() && digits.len() <= DIGITS && digits.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| digits.parse::<u64>().ok()).flatten().ok_or_else(bad)
    };
    let (low, high) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (number(low)?, number(high)?);
    let is_padded = |digits: &str| digits.len() > 1 && digits.starts_with('0');
    // [1-010] and [01-3] do not say how many digits the names have.
    if (is_padded(low) || is_padded(high)) && low.len() != high.len() {
        return Err(bad());
    }
    if last < first {
        return Err(HostsError::Backward { text: text.to_owned(), column });
    }
    Ok(Range { first, last, width: low.len() })
}

/// Every combination of the parts; their number was checked.
fn combinations(parts: &[Part]) -> Vec<String> {
    let mut names = vec![String::new()];
    for part in parts {
        match part {
            Part::Text(text) => names.iter_mut().for_each(|name| name.push_str(text)),
            Part::Ranges(ranges) => {
                let numbers = || ranges.iter().flat_map(|range| (range.first..=range.last).map(move |n| (n, range.width)));
                names = names
                    .iter()
                    .flat_map(|name| numbers().map(move |(number, width)| format!("{name}{number:0width$}")))
                    .collect();
            }
        }
    }
    names
}

/// A name cut into texts and the numbers between them: `gpu001-ib0` is `gpu`, 001, `-ib`, 0 and an empty text.
#[derive(PartialEq)]
struct Cut<'a> {
    texts: Vec<&'a str>,
    numbers: Vec<&'a str>,
}

fn cut(name: &str) -> Cut<'_> {
    let (mut texts, mut numbers) = (Vec::new(), Vec::new());
    let mut rest = name;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let digits = &rest[start..];
        let length = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
        texts.push(&rest[..start]);
        numbers.push(&digits[..length]);
        rest = &digits[length..];
    }
    texts.push(rest);
    Cut { texts, numbers }
}

/// The short form of names, for people: neighbours that differ in one number share a bracket. [`parse`] gives the same names in
/// the same order, so sort them first if a shorter list matters more than their order.
#[must_use]
pub fn compact<S: AsRef<str>>(names: &[S]) -> String {
    let cuts: Vec<Cut> = names.iter().map(|name| cut(name.as_ref())).collect();
    let mut text = String::new();
    let mut at = 0;
    while at < cuts.len() {
        let (length, place) = alike(&cuts[at..]);
        if at > 0 {
            text.push(',');
        }
        match place {
            None => text.push_str(names[at].as_ref()),
            Some(place) => bracket(&mut text, &cuts[at..at + length], place),
        }
        at += length;
    }
    text
}

/// The number of names from the first on that differ in one number only, and the place of that number; `None` if the second
/// already differs in more.
fn alike(cuts: &[Cut]) -> (usize, Option<usize>) {
    let first = &cuts[0];
    let differs = |other: &Cut| {
        if first.texts != other.texts {
            return None;
        }
        let mut places = (0..first.numbers.len()).filter(|&place| first.numbers[place] != other.numbers[place]);
        let place = places.next()?;
        let is_short = |cut: &Cut| cut.numbers[place].len() <= DIGITS;
        (places.next().is_none() && is_short(first) && is_short(other)).then_some(place)
    };
    let Some(place) = cuts.get(1).and_then(differs) else { return (1, None) };
    (1 + cuts[1..].iter().take_while(|other| differs(other) == Some(place)).count(), Some(place))
}

/// Writes the names as one entry with a bracket in the place of their number `place`.
fn bracket(text: &mut String, cuts: &[Cut], place: usize) {
    let first = &cuts[0];
    let pairs =
        |from: usize, to: usize| (from..to).map(|at| format!("{}{}", first.texts[at], first.numbers[at])).collect::<String>();
    text.push_str(&pairs(0, place));
    text.push_str(first.texts[place]);
    text.push('[');
    let numbers: Vec<&str> = cuts.iter().map(|cut| cut.numbers[place]).collect();
    let value = |digits: &str| digits.parse::<u64>().unwrap_or(u64::MAX);
    let mut at = 0;
    while at < numbers.len() {
        let first = numbers[at];
        let follows =
            |digits: &str, by: usize| value(digits) == value(first).wrapping_add(by as u64) && stand_for_a_range(first, digits);
        let length = 1 + numbers[at + 1..].iter().zip(1..).take_while(|(digits, by)| follows(digits, *by)).count();
        if at > 0 {
            text.push(',');
        }
        text.push_str(numbers[at]);
        if length > 1 {
            let _ = write!(text, "-{}", numbers[at + length - 1]);
        }
        at += length;
    }
    text.push(']');
    text.push_str(&pairs(place + 1, first.numbers.len()));
    text.push_str(first.texts[first.numbers.len()]);
}

/// True if both numbers can be in one range: they have equal length, or no zeros in front.
fn stand_for_a_range(first: &str, other: &str) -> bool {
    let is_padded = |digits: &str| digits.len() > 1 && digits.starts_with('0');
    first.len() == other.len() || !(is_padded(first) || is_padded(other))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn names(text: &str) -> Vec<String> {
        parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn brackets_make_names_and_zeros_stay() {
        assert_eq!(
            names("n[1-3,7],gpu[001-003]-ib,login"),
            ["n1", "n2", "n3", "n7", "gpu001-ib", "gpu002-ib", "gpu003-ib", "login"]
        );
        assert_eq!(names("n[08-11]"), ["n08", "n09", "n10", "n11"]);
        assert_eq!(names("n[8-11]"), ["n8", "n9", "n10", "n11"]);
        assert_eq!(names("r[1-2]n[0,5]"), ["r1n0", "r1n5", "r2n0", "r2n5"]);
        assert_eq!(names("[1-2]"), ["1", "2"]);
        assert_eq!(names("a,a"), ["a", "a"]);
        assert_eq!(names("knoten-ä[1]"), ["knoten-ä1"]);
    }

    #[test]
    fn errors_name_the_place() {
        let error = |text: &str| parse(text).unwrap_err().to_string();
        for (text, words) in [
            ("", "no name at column 1"),
            ("a,,b", "no name at column 3"),
            ("a,", "no name at column 3"),
            ("n[1-3", "'[' at column 2"),
            ("n[1[2]]", "'[' at column 2"),
            ("n1]", "']' at column 3"),
            ("n[]", "\"\" in a list of hosts at column 3"),
            ("n[1,x]", "\"x\" in a list of hosts at column 5"),
            ("n[1-2-3]", "\"1-2-3\""),
            ("n[-3]", "\"-3\""),
            ("n[1-010]", "\"1-010\""),
            ("n[01-3]", "\"01-3\""),
            ("n[9999999999999999999]", "at column 3"),
            ("n[1,7-3]", "7-3 in a list of hosts at column 5 ends before"),
            ("n1, n2", "' ' at column 4"),
            ("n1\u{7},n2", "at column 3"),
        ] {
            assert!(error(text).contains(words), "{text:?}: {}", error(text));
        }
    }

    #[test]
    fn a_list_of_too_many_names_is_refused_before_it_is_made() {
        assert_eq!(names("n[1-65536]").len(), MOST);
        for text in
            ["n[0-65536]", "a,n[1-65536]", "a[0-999]b[0-999]c[0-999]d[0-999]e[0-999]f[0-999]g[0-999]", "n[0-999999999999999999]"]
        {
            assert!(matches!(parse(text), Err(HostsError::TooMany { .. })), "{text}");
        }
        assert_eq!(parse("a,n[1-65536]"), Err(HostsError::TooMany { column: 3 }));
    }

    #[test]
    fn names_become_short() {
        for (long, short) in [
            ("n1,n2,n3,n4,n5,n6,n7,n8", "n[1-8]"),
            ("n1,n2,n3,n7,login", "n[1-3,7],login"),
            ("gpu001-ib0,gpu002-ib0,gpu003-ib0", "gpu[001-003]-ib0"),
            ("n08,n09,n10", "n[08-10]"),
            ("n8,n9,n10", "n[8-10]"),
            ("n3,n2,n1", "n[3,2,1]"),
            ("r1n1,r1n2,r2n1,r2n2", "r1n[1-2],r2n[1-2]"),
            ("n1,n1", "n1,n1"),
            ("n9,n09,n10", "n[9,09-10]"),
            ("n9,n010,n011", "n[9,010-011]"),
            ("login", "login"),
            ("10.0.0.1,10.0.0.2", "10.0.0.[1-2]"),
        ] {
            assert_eq!(compact(&long.split(',').collect::<Vec<_>>()), short);
        }
        assert_eq!(compact::<&str>(&[]), "");
    }

    proptest! {
        #[test]
        fn no_text_does_harm(text in ".{0,40}") {
            let _ = parse(&text);
        }

        #[test]
        fn the_short_form_stands_for_the_same_names(
            found in prop::collection::vec("[ab]{0,2}[0-9]{0,3}(-ib)?[0-9]{0,2}", 1..40),
        ) {
            let found: Vec<String> = found.into_iter().filter(|name| !name.is_empty()).collect();
            prop_assume!(!found.is_empty());
            let short = compact(&found);
            prop_assert_eq!(parse(&short).unwrap(), found, "{}", short);
        }

        #[test]
        fn runs_of_numbers_are_one_range(first in 0u64..2000, count in 2usize..50, width in 1usize..6) {
            let found: Vec<String> = (first..).take(count).map(|n| format!("n{n:0width$}")).collect();
            let short = compact(&found);
            prop_assert!(short.matches(',').count() == 0, "{}", short);
            prop_assert_eq!(parse(&short).unwrap(), found);
        }
    }
}
