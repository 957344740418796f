//! From the text of a file to a fact, and the three shapes of knob that need no code of their own.
//!
//! ```text
//!   HostFile       one file                                          /proc/sys/net/core/busy_poll
//!   CpuFile        one file per CPU used, one value if all agree     /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor
//!   InterfaceFile  one file of the interface used                    /sys/class/net/*/mtu
//! ```

use std::io;

use hairpin_sys::host::Host;
use serde_json::{Map, Value};

use crate::control::Spot;
use crate::{Knob, Place, cpulist};

/// What a knob's probe found.
#[derive(Clone, Debug, PartialEq)]
pub enum Reading {
    /// The fact.
    Is(Value),
    /// This host, kernel or device has no such thing.
    Absent,
    /// It is there but could not be read, or made no sense: where, and why.
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

/// Turns a file's text into a fact; `None` where the text is the kernel's word for "there is none"; otherwise what is wrong with it.
pub(crate) type Form = fn(&str) -> Result<Option<Value>, String>;

/// A knob that is one file of the host.
pub(crate) struct HostFile {
    pub(crate) name: &'static str,
    pub(crate) summary: &'static str,
    pub(crate) path: &'static str,
    pub(crate) form: Form,
}

impl Knob for HostFile {
    fn name(&self) -> &'static str {
        self.name
    }

    fn summary(&self) -> &'static str {
        self.summary
    }

    fn probe(&self, host: &dyn Host, _: &Place<'_>) -> Reading {
        file(host, self.path, self.form).into()
    }

    fn spots(&self, host: &dyn Host, _: &Place<'_>) -> Result<Vec<Spot>, String> {
        Ok(if host.exists(self.path) { vec![Spot::File(self.path.to_owned())] } else { Vec::new() })
    }
}

/// A knob that every CPU has as a file below `/sys/devices/system/cpu/cpu*`.
pub(crate) struct CpuFile {
    pub(crate) name: &'static str,
    pub(crate) summary: &'static str,
    pub(crate) file: &'static str,
    pub(crate) form: Form,
}

impl Knob for CpuFile {
    fn name(&self) -> &'static str {
        self.name
    }

    fn summary(&self) -> &'static str {
        self.summary
    }

    fn probe(&self, host: &dyn Host, place: &Place<'_>) -> Reading {
        each_cpu(place, |cpu| file(host, &format!("{}/{}", cpu_directory(cpu), self.file), self.form)).into()
    }

    fn spots(&self, host: &dyn Host, place: &Place<'_>) -> Result<Vec<Spot>, String> {
        let paths = meant_cpus(host, place)?.into_iter().map(|cpu| format!("{}/{}", cpu_directory(cpu), self.file));
        Ok(paths.filter(|path| host.exists(path)).map(Spot::File).collect())
    }
}

/// A knob that is a file below `/sys/class/net/*`.
pub(crate) struct InterfaceFile {
    pub(crate) name: &'static str,
    pub(crate) summary: &'static str,
    pub(crate) file: &'static str,
    pub(crate) form: Form,
}

impl Knob for InterfaceFile {
    fn name(&self) -> &'static str {
        self.name
    }

    fn summary(&self) -> &'static str {
        self.summary
    }

    fn probe(&self, host: &dyn Host, place: &Place<'_>) -> Reading {
        let Some(directory) = interface_directory(place) else {
            return Reading::Absent;
        };
        let path = format!("{directory}/{}", self.file);
        match host.read(&path) {
            // The answer of an interface that has no such attribute, or not while its link is down.
            Err(why) if why.kind() == io::ErrorKind::InvalidInput => Reading::Absent,
            answer => formed(&path, answer, self.form).into(),
        }
    }

    fn spots(&self, host: &dyn Host, place: &Place<'_>) -> Result<Vec<Spot>, String> {
        let path = interface_directory(place).map(|directory| format!("{directory}/{}", self.file));
        Ok(path.filter(|path| host.exists(path)).map(Spot::File).into_iter().collect())
    }
}

/// The CPUs that a change is for: those named, else every one that is online.
pub(crate) fn meant_cpus(host: &dyn Host, place: &Place<'_>) -> Result<Vec<u32>, String> {
    if !place.cpus.is_empty() {
        return Ok(cpulist::distinct(place.cpus));
    }
    const ONLINE: &str = "/sys/devices/system/cpu/online";
    let online = present(ONLINE, host.read(ONLINE))?;
    online.map_or(Ok(Vec::new()), |online| cpulist::parse(&online)).map_err(|why| format!("{ONLINE}: {why}"))
}

/// The directory of CPU `cpu`.
pub(crate) fn cpu_directory(cpu: u32) -> String {
    format!("/sys/devices/system/cpu/cpu{cpu}")
}

/// The directory of the interface used; `None` if there is none or its name could not be that of an interface.
pub(crate) fn interface_directory(place: &Place<'_>) -> Option<String> {
    let name = place.interface?;
    // A name with a slash would leave the directory.
    let possible = !name.is_empty() && name != "." && name != ".." && !name.contains('/');
    possible.then(|| format!("/sys/class/net/{name}"))
}

/// The fact in the file at `path`.
pub(crate) fn file(host: &dyn Host, path: &str, form: Form) -> Result<Option<Value>, String> {
    formed(path, host.read(path), form)
}

fn formed(path: &str, answer: io::Result<String>, form: Form) -> Result<Option<Value>, String> {
    match present(path, answer)? {
        Some(text) => form(&text).map_err(|why| format!("{path}: {why}")),
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

/// What `read` says of every CPU used: one value if they all say the same, else an object by CPU.
pub(crate) fn each_cpu(place: &Place<'_>, read: impl Fn(u32) -> Result<Option<Value>, String>) -> Result<Option<Value>, String> {
    let mut values = Vec::new();
    for cpu in cpulist::distinct(place.cpus) {
        values.push((cpu.to_string(), read(cpu)?));
    }
    Ok(agreed(values))
}

/// One value if all agree, else an object of those there are, else nothing.
pub(crate) fn agreed(values: Vec<(String, Option<Value>)>) -> Option<Value> {
    let (_, first) = values.first()?;
    if values.iter().all(|(_, value)| value == first) {
        return first.clone();
    }
    let present: Map<String, Value> = values.into_iter().filter_map(|(key, value)| Some((key, value?))).collect();
    Some(Value::Object(present))
}

/// Any text, blanks at its ends removed; an empty one is the kernel's word for "none".
pub(crate) fn text(text: &str) -> Result<Option<Value>, String> {
    let text = text.trim();
    Ok((!text.is_empty()).then(|| text.into()))
}

/// A whole number.
pub(crate) fn number(text: &str) -> Result<Option<Value>, String> {
    parse_number(text).map(|number| Some(number.into()))
}

/// A whole number, where −1 says that there is none.
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

/// The one in brackets of several words: `always [madvise] never`.
pub(crate) fn bracketed(text: &str) -> Result<Option<Value>, String> {
    chosen(text, '[', ']')
}

/// The one in parentheses of several words: `none voluntary (full)`.
pub(crate) fn parenthesized(text: &str) -> Result<Option<Value>, String> {
    chosen(text, '(', ')')
}

fn chosen(text: &str, open: char, close: char) -> Result<Option<Value>, String> {
    let word = text.split_whitespace().find_map(|word| word.strip_prefix(open)?.strip_suffix(close));
    word.map(|word| Some(word.into())).ok_or_else(|| format!("no word of {text:?} stands in {open}{close}"))
}

/// A list of CPUs or nodes as the kernel writes it, such as `0-3,8`; empty if it names none.
pub(crate) fn cpu_list(text: &str) -> Result<Option<Value>, String> {
    // What nohz_full says where the command line asked for none.
    if text.trim() == "(null)" {
        return Ok(Some("".into()));
    }
    cpulist::parse(text).map(|cpus| Some(cpulist::format(&cpus).into()))
}

pub(crate) fn parse_number(text: &str) -> Result<i64, String> {
    text.trim().parse().map_err(|_| format!("{text:?} is not a whole number"))
}
