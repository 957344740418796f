//! The values that a setting accepts, and the one way in which each is written.

use std::fmt;

use hairpin_units::parse_number;

use crate::cpulist;

/// The values that a setting accepts.
#[derive(Clone, Copy, Debug)]
pub enum Values {
    /// A whole number, between these bounds inclusive.
    Number(i64, i64),
    /// A whole number from 0 on, or `all`.
    NumberOrAll,
    /// A fixed number of whole numbers, separated by commas or blanks.
    Numbers(usize),
    /// `on` or `off`, which the kernel writes as 1 and 0.
    Flag,
    /// `on` or `off`, which the kernel writes the same way.
    OnOff,
    /// One of these words.
    Words(&'static [&'static str]),
    /// A word that only the kernel can check; the text describes it.
    Word(&'static str),
    /// A list of CPUs.
    Cpus,
    /// A list of CPUs, or `none`.
    CpusOrNone,
}

impl fmt::Display for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Values::Number(least, most) if *most == i64::MAX => write!(f, "a whole number from {least} on"),
            Values::Number(least, most) => write!(f, "a whole number from {least} to {most}"),
            Values::NumberOrAll => f.write_str("a whole number, or all"),
            Values::Numbers(count) => write!(f, "{count} whole numbers with commas between"),
            Values::Flag | Values::OnOff => f.write_str("on or off"),
            Values::Words(words) => f.write_str(&words.join(", ")),
            Values::Word(which) => f.write_str(which),
            Values::Cpus => f.write_str("a list of CPUs such as 0-3,8"),
            Values::CpusOrNone => f.write_str("a list of CPUs such as 2-3, or none"),
        }
    }
}

impl Values {
    /// The canonical form of a value; `None` if it is not accepted.
    #[must_use]
    pub fn canonical(&self, text: &str) -> Option<String> {
        let text = text.trim();
        let flag = match text {
            "on" | "1" | "true" | "yes" => Some(true),
            "off" | "0" | "false" | "no" => Some(false),
            _ => None,
        };
        let word = |text: &str| {
            !text.is_empty() && text.len() <= 64 && text.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c))
        };
        match self {
            Values::Number(least, most) => number(text).filter(|n| n >= least && n <= most).map(|n| n.to_string()),
            Values::NumberOrAll if text == "all" => Some(text.to_owned()),
            Values::NumberOrAll => number(text).and_then(|n| u32::try_from(n).ok()).map(|n| n.to_string()),
            Values::Numbers(count) => {
                let parts: Vec<&str> = text.split([',', ' ', '\t']).filter(|part| !part.is_empty()).collect();
                let numbers: Option<Vec<String>> = parts.iter().map(|part| Some(parse_number(part).ok()?.to_string())).collect();
                numbers.filter(|numbers| numbers.len() == *count).map(|numbers| numbers.join(" "))
            }
            Values::Flag => flag.map(|on| if on { "1" } else { "0" }.to_owned()),
            Values::OnOff => flag.map(|on| if on { "on" } else { "off" }.to_owned()),
            Values::Words(words) => words.iter().find(|word| **word == text).map(|word| (*word).to_owned()),
            Values::Word(_) => word(text).then(|| text.to_owned()),
            Values::Cpus => cpulist::parse(text).ok().filter(|cpus| !cpus.is_empty()).map(|cpus| cpulist::format(&cpus)),
            Values::CpusOrNone if text == "none" => Some(text.to_owned()),
            Values::CpusOrNone => Values::Cpus.canonical(text),
        }
    }
}

/// A whole number with its sign, and a multiple such as `k` or `Ki`.
fn number(text: &str) -> Option<i64> {
    let (sign, digits) = text.strip_prefix('-').map_or((1, text), |digits| (-1, digits));
    i64::try_from(parse_number(digits).ok()?).ok().map(|number| sign * number)
}
