//! The lists below a table: losses, refused settings, warnings. Similar messages of several rows are merged.

use hairpin_record::core_states::{Apart, CoreStates};
use hairpin_record::floor::Floor;
use hairpin_record::head::Head;
use hairpin_record::run::{Granted, Origin, Row, Run, Side};
use hairpin_record::stack::{Stack, Stacks};
use hairpin_record::warning::Note;

use crate::doc::{Doc, List};
use crate::gap::gap;
use crate::kinds;
use crate::label::{Name, join};

/// At most this many warnings with one code and different figures are shown; the others are counted.
const SHOWN_PER_CODE: usize = 3;

/// The warning code for rows measured with the cores in different states.
pub(crate) const APART: &str = hairpin_record::core_states::CODE;

/// The two hosts of a run. Core states are comparable only between rows of the same hosts.
pub(crate) fn hosts(run: &Run) -> (&str, Option<&str>) {
    (&run.place.hosts.client.hostname, run.place.hosts.server.as_ref().map(|host| host.hostname.as_str()))
}

/// The lists of the short view: in its heading and below its table.
pub(crate) fn of_table(names: &[Name], rows: &[&Row]) -> [List; 2] {
    [List::plain(MARKED, marked(names, rows)), List::plain("Work", merged(names, rows, work))]
}

/// All other lists of a run's rows.
pub(crate) fn lists(names: &[Name], rows: &[&Row]) -> [List; 5] {
    [
        stacks(names, rows, |row| row.stack.as_deref()),
        List::plain("Floor", merged(names, rows, against_floor)),
        List::plain("Lost and stray replies", merged(names, rows, strays)),
        not_granted(names, rows, |row| &row.granted),
        warned(names, rows, |row| &row.warnings),
    ]
}

/// The meaning of the mark after a path.
const MARKED: &str = "* Not comparable with the other rows";

/// The mark after the path of a row that is not comparable with the others.
pub(crate) fn mark(apart: Option<Apart>) -> &'static str {
    if apart.is_some() { " *" } else { "" }
}

/// The core states of the marked rows.
fn marked(names: &[Name], rows: &[&Row]) -> Vec<String> {
    let states = CoreStates::of(rows.iter().map(|row| ((), *row)));
    let mut found: Vec<(Apart, Vec<usize>)> = Vec::new();
    for at in 0..rows.len() {
        let Some(apart) = states.apart(at) else { continue };
        match found.iter_mut().find(|(known, _)| known.state == apart.state && known.others == apart.others) {
            Some((known, of)) => {
                known.found = (known.found.0.min(apart.found.0), known.found.1.max(apart.found.1));
                of.push(at);
            }
            None => found.push((apart, vec![at])),
        }
    }
    found.into_iter().map(|(apart, of)| format!("{}: {}", join(names, &of), apart.words())).collect()
}

/// Libraries in the place of the kernel's sockets, and how much went through the kernel all the same.
pub(crate) fn stacks<R>(names: &[Name], rows: &[&R], of: impl Fn(&R) -> Option<&Stacks>) -> List {
    List::plain("In the place of the kernel's sockets", merged(names, rows, |row| of_stacks(of(row))))
}

/// The library of each side, with its settings.
pub(crate) fn of_stacks(stacks: Option<&Stacks>) -> Vec<String> {
    let one = |(side, stack): (Side, &Stack)| {
        let set: Vec<String> = stack.variables.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let with = if set.is_empty() { String::new() } else { format!(", {}", set.join(" ")) };
        format!("{side}, {}{with}: {}", stack.title(), stack.passed())
    };
    stacks.into_iter().flat_map(Stacks::sides).map(one).collect()
}

/// The same in short: how much went through the kernel.
pub(crate) fn stacks_in_short<R>(names: &[Name], rows: &[&R], of: impl Fn(&R) -> Option<&Stacks>) -> Doc {
    let words = |row: &R| {
        let one = |(side, stack): (Side, &Stack)| format!("{side}, {}: {}", stack.name, stack.passed());
        of(row).into_iter().flat_map(Stacks::sides).map(one).collect()
    };
    let mut doc = Doc::default();
    let lines = merged(names, rows, words);
    if !lines.is_empty() {
        doc.gap();
    }
    lines.into_iter().for_each(|line| doc.lead("stack: ", line));
    doc
}

/// Why a run ended early, if it did.
pub(crate) fn ended(head: &Head) -> List {
    let error = head.error.as_ref().map(|error| format!("the run failed part way: {error}; the figures are those until then"));
    let early = head.interrupted.then(|| "the run was ended early by the user; the figures are those until then".into());
    List::errors("Incomplete", error.into_iter().chain(early).collect())
}

/// Settings that were requested from the kernel and not granted.
pub(crate) fn not_granted<R>(names: &[Name], rows: &[&R], granted: impl Fn(&R) -> &[Granted]) -> List {
    List::plain("Asked for, not granted", merged(names, rows, |row| refused(granted(row))))
}

/// The warnings of all rows.
pub(crate) fn warned<R>(names: &[Name], rows: &[&R], notes: impl Fn(&R) -> &[Note]) -> List {
    let short = kinds::lines(names, rows, &notes);
    List { short, ..List::warnings("Warnings", warnings(names, rows, notes)) }
}

/// Collects the messages of every row and lists each once, after the names of its rows.
pub(crate) fn merged<R>(names: &[Name], rows: &[&R], messages: impl Fn(&R) -> Vec<String>) -> Vec<String> {
    let mut found: Vec<(String, Vec<usize>)> = Vec::new();
    for (i, row) in rows.iter().enumerate() {
        for message in messages(row) {
            match found.iter_mut().find(|(known, _)| *known == message) {
                Some((_, at)) if at.last() == Some(&i) => {}
                Some((_, at)) => at.push(i),
                None => found.push((message, vec![i])),
            }
        }
    }
    found.into_iter().map(|(message, at)| format!("{}: {message}", join(names, &at))).collect()
}

fn work(row: &Row) -> Vec<String> {
    let mut parts = Vec::new();
    for (count, one, many) in [
        (u64::from(row.threads), "measuring thread", "measuring threads"),
        (u64::from(row.flows), "flow", "flows"),
        (u64::from(row.outstanding), "request in flight per flow", "requests in flight per flow"),
    ] {
        parts.push(format!("{count} {}", if count == 1 { one } else { many }));
    }
    let plain = row.threads <= 1 && row.flows <= 1 && row.outstanding <= 1;
    if plain { Vec::new() } else { vec![parts.join(", ")] }
}

fn against_floor(row: &Row) -> Vec<String> {
    row.floor.as_ref().map_or(Vec::new(), |floor| beside_floor(row.rtt_ns.p50, row.origin, floor))
}

/// RTT, floor and gap, and the parts that the floor leaves out.
pub(crate) fn beside_floor(p50: Option<u64>, origin: Origin, floor: &Floor) -> Vec<String> {
    let mut items = vec![gap(p50, origin, floor)];
    items.extend(floor.notes.iter().map(|note| format!("of the floor: {note}")));
    items
}

/// The stray requests and replies of one row.
pub(crate) fn strays(row: &Row) -> Vec<String> {
    strayed([row.lost, row.late, row.duplicates, row.reordered, row.corrupt], row.transactions)
}

/// Requests and replies that are in no distribution: lost, late, duplicate, reordered and corrupt ones.
pub(crate) fn strayed(counts: [u64; 5], transactions: u64) -> Vec<String> {
    let named = counts.into_iter().zip(["lost", "late", "duplicate", "reordered", "corrupt"]);
    let parts: Vec<String> = named.filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}")).collect();
    if parts.is_empty() { Vec::new() } else { vec![format!("{} beside {transactions} answered", parts.join(", "))] }
}

/// Settings that were requested from the kernel and not granted.
pub(crate) fn refused(granted: &[Granted]) -> Vec<String> {
    let differ = granted.iter().filter(|granted| granted.asked != granted.got);
    differ
        .map(|g| {
            let why = if g.why.is_empty() { String::new() } else { format!(" ({})", g.why) };
            format!("{} {}: asked {}, got {}{why}", g.side, g.option, g.asked, g.got)
        })
        .collect()
}

/// Every warning of the rows, grouped by code.
pub(crate) fn warnings<R>(names: &[Name], rows: &[&R], notes: impl Fn(&R) -> &[Note]) -> Vec<String> {
    let mut codes: Vec<&str> = Vec::new();
    for note in rows.iter().flat_map(|row| notes(row)) {
        if !codes.contains(&note.code.as_str()) {
            codes.push(&note.code);
        }
    }
    let mut items = Vec::new();
    for code in codes {
        let of = |row: &R| notes(row).iter().filter(|note| note.code == code).map(|note| note.message.clone()).collect();
        let mut alike = merged(names, rows, of);
        let more = alike.len().saturating_sub(SHOWN_PER_CODE);
        alike.truncate(SHOWN_PER_CODE);
        items.append(&mut alike);
        if more > 0 {
            items.push(format!("{code}: {more} more of this kind with figures of their own, each in the record"));
        }
    }
    items
}

/// False for a view that goes on until its user ends it.
pub(crate) fn has_an_end(command: &[String]) -> bool {
    let is = |word: &String| {
        let name = word.split('=').next().unwrap_or_default();
        matches!(name, "--duration" | "--for") || name.starts_with("-t")
    };
    !command.iter().any(|word| word == "--live") || command.iter().any(is)
}

#[cfg(test)]
mod tests {
    use hairpin_record::stack::{Counter, Passed};

    use super::*;
    use crate::doc::Block;

    #[test]
    fn a_stack_is_named_with_its_settings_and_with_what_passed_the_kernel() {
        let stack = Stack {
            name: "onload".into(),
            library: "/usr/lib64/libonload.so".into(),
            version: Some("9.0.2".into()),
            variables: [("EF_POLL_USEC".into(), "100000".into())].into(),
            received: 1_000,
            kernel: Some(Passed { counter: Counter::UdpInDatagrams, count: 0, shared: true }),
        };
        let stacks = Stacks { client: Some(stack), server: None };
        let (plain, with) = (Row::default(), Row { stack: Some(Box::new(stacks)), ..Row::default() });
        let names = ["tcp", "udp"].map(|base| Name { base: base.into(), size: String::new() });
        let rows = [&plain, &with];
        let long = super::stacks(&names, &rows, |row| row.stack.as_deref());
        let said =
            "udp: client, onload 9.0.2 (/usr/lib64/libonload.so), EF_POLL_USEC=100000: 0 of 1000 datagrams passed the kernel";
        assert_eq!(long.items, [said]);
        let short = stacks_in_short(&names, &rows, |row| row.stack.as_deref());
        let Some(Block::Text(line)) = short.blocks.last() else { panic!("no line") };
        assert_eq!(line.text, "udp: client, onload: 0 of 1000 datagrams passed the kernel");
        assert!(stacks_in_short(&names[..1], &[&plain], |row| row.stack.as_deref()).blocks.is_empty());
    }
}
