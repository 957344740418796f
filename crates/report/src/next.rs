//! The last lines of a short view: commands that follow from it.

use hairpin_record::head::{Head, Place};

use crate::doc::Doc;
use crate::label::short;
use crate::options::Options;
use crate::prose::{clean, width};

/// Adds the commands, as many in a line as fit.
pub(crate) fn show(doc: &mut Doc, items: &[String], options: &Options) {
    let lines = lines(items, options.columns());
    if !lines.is_empty() {
        doc.verbatim(lines);
    }
}

/// The lines that they take.
pub(crate) fn height(items: &[String], columns: usize) -> usize {
    lines(items, columns).len()
}

fn lines(items: &[String], columns: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for item in items.iter().map(|item| clean(item)) {
        match lines.last_mut() {
            Some(line) if width(line) + 4 + width(&item) <= columns => line.extend(["    ", &item]),
            Some(_) => lines.push(format!("      {item}")),
            None => lines.push(format!("next  {item}")),
        }
    }
    lines
}

/// The target of a record, as words of a command line that measures there again; `None` for a peer that not every verb takes.
pub(crate) fn to(place: &Place, head: &Head) -> Option<String> {
    let link = &place.link;
    let keys: Vec<String> = link.options.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let mut words = match link.kind.as_str() {
        kind @ ("loopback" | "veth") if keys.is_empty() => kind.to_owned(),
        kind @ ("loopback" | "veth") => format!("{kind}:{}", keys.join(",")),
        "host" => link.peer.clone()?,
        _ => return None,
    };
    let asked = &head.command;
    if asked.iter().any(|word| word == "-6" || word == "--ipv6") {
        words += " -6";
    }
    if let Some(file) = asked.iter().position(|word| word == "--key-file").and_then(|at| asked.get(at + 1)) {
        words += &format!(" --key-file {file}");
    }
    Some(words)
}

/// A path as it is typed: without its default policy.
pub(crate) fn path(spec: &str) -> String {
    let spec = short(spec);
    spec.strip_suffix(":block").map_or(spec.clone(), str::to_owned)
}

/// The command, if a shell accepts it unchanged: the record may come from elsewhere, and readers may paste the command.
pub(crate) fn plain(command: String) -> Option<String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || " .:,/=%-_[]".contains(c);
    command.chars().all(plain).then_some(command)
}
