//! From the text of a file to a value.

use std::io;

use hairpin_sys::host::Host;
use serde_json::{Map, Value};

use crate::cpulist;

/// The result of reading a knob.
#[derive(Clone, Debug, PartialEq)]
pub enum Reading {
    Is(Value),
    /// This host, kernel or device does not have it.
    Absent,
    /// It exists but cannot be read or parsed: the file or device, and why.
    Unread(String),
}

impl From<Result<Option<Value>, String>> for Reading {
    fn from(result: Result<Option<Value>, String>) -> Reading {
        match result {
            Ok(Some(value)) => Reading::Is(value),
            Ok(None) => Reading::Absent,
            Err(reason) => Reading::Unread(reason),
        }
    }
}

/// Parses a file's text; `None` if the text is the kernel's word for "none"; the error names the fault.
pub type Parse = fn(&str) -> Result<Option<Value>, String>;

/// The value in the file at `path`.
pub(crate) fn file(host: &dyn Host, path: &str, parse: Parse) -> Result<Option<Value>, String> {
    parsed(path, host.read(path), parse)
}

pub(crate) fn parsed(path: &str, answer: io::Result<String>, parse: Parse) -> Result<Option<Value>, String> {
    match present(path, answer)? {
        Some(text) => parse(&text).map_err(|why| format!("{path}: {why}")),
        None => Ok(None),
    }
}

/// An answer of the host; `None` if there is nothing at `path`.
pub(crate) fn present<T>(path: &str, answer: io::Result<T>) -> Result<Option<T>, String> {
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(why) => match why.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::Unsupported => Ok(None),
            io::ErrorKind::PermissionDenied => Err(format!("{path}: {why}: run as root to read it")),
            _ => Err(format!("{path}: {why}")),
        },
    }
}

/// `read` for every CPU: one value if they all agree, otherwise an object by CPU.
pub(crate) fn each_cpu(cpus: &[u32], read: impl Fn(u32) -> Result<Option<Value>, String>) -> Result<Option<Value>, String> {
    let mut values = Vec::new();
    for cpu in cpulist::distinct(cpus) {
        values.push((cpu.to_string(), read(cpu)?));
    }
    Ok(agreed(values))
}

/// One value if all agree, otherwise an object of those that exist.
pub(crate) fn agreed(values: Vec<(String, Option<Value>)>) -> Option<Value> {
    let (_, first) = values.first()?;
    if values.iter().all(|(_, value)| value == first) {
        return first.clone();
    }
    let present: Map<String, Value> = values.into_iter().filter_map(|(key, value)| Some((key, value?))).collect();
    Some(Value::Object(present))
}

/// Any text, trimmed; empty text is the kernel's word for "none".
pub(crate) fn text(text: &str) -> Result<Option<Value>, String> {
    let text = text.trim();
    Ok((!text.is_empty()).then(|| text.into()))
}

/// A whole number.
pub(crate) fn number(text: &str) -> Result<Option<Value>, String> {
    parse_number(text).map(|number| Some(number.into()))
}

/// A whole number, where −1 means none.
pub(crate) fn number_or_none(text: &str) -> Result<Option<Value>, String> {
    parse_number(text).map(|number| (number != -1).then(|| number.into()))
}

/// Whole numbers between blanks.
pub(crate) fn numbers(text: &str) -> Result<Option<Value>, String> {
    let numbers = text.split_whitespace().map(parse_number).collect::<Result<Vec<i64>, String>>()?;
    if numbers.is_empty() { Err("no number in it".to_owned()) } else { Ok(Some(numbers.into())) }
}

/// Words between blanks.
pub(crate) fn words(text: &str) -> Result<Option<Value>, String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    Ok((!words.is_empty()).then(|| words.into()))
}

/// 0 or 1.
pub(crate) fn flag(text: &str) -> Result<Option<Value>, String> {
    match text.trim() {
        "0" => Ok(Some(false.into())),
        "1" => Ok(Some(true.into())),
        _ => Err(format!("{text:?} is neither 0 nor 1")),
    }
}

/// The word in brackets: `always [madvise] never`.
pub(crate) fn bracketed(text: &str) -> Result<Option<Value>, String> {
    chosen(text, '[', ']')
}

/// The word in parentheses: `none voluntary (full)`.
pub(crate) fn parenthesized(text: &str) -> Result<Option<Value>, String> {
    chosen(text, '(', ')')
}

fn chosen(text: &str, open: char, close: char) -> Result<Option<Value>, String> {
    let word = text.split_whitespace().find_map(|word| word.strip_prefix(open)?.strip_suffix(close));
    word.map(|word| Some(word.into())).ok_or_else(|| format!("no word of {text:?} stands in {open}{close}"))
}

/// A list of CPUs or nodes as the kernel writes it, such as `0-3,8`; empty if it names none.
pub(crate) fn cpu_list(text: &str) -> Result<Option<Value>, String> {
    // The text of nohz_full if the command line asked for none.
    if text.trim() == "(null)" {
        return Ok(Some("".into()));
    }
    cpulist::parse(text).map(|cpus| Some(cpulist::format(&cpus).into()))
}

pub(crate) fn parse_number(text: &str) -> Result<i64, String> {
    text.trim().parse().map_err(|_| format!("{text:?} is not a whole number"))
}
