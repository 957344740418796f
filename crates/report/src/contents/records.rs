//! The report's records: command, link, and how each ended.

use hairpin_units::Gather;
use std::collections::BTreeSet;

use hairpin_record::any::AnyRecord;
use hairpin_record::compare::{Arm, Compare};
use hairpin_record::explain::Explain;
use hairpin_record::head::Head;
use hairpin_record::run::{ClockFacts, Link};
use hairpin_record::warning::Note;

use crate::compare::pairs;
use crate::link::link_words;
use crate::notes::{ended, has_an_end, of_stacks, refused};
use crate::prose::clean;
use crate::view::{Input, Record, Warning};

/// The summary of a record.
pub(super) fn record(number: usize, given: &Input) -> Record {
    let (head, place) = (given.record.head(), given.record.place());
    let warnings = match &given.record {
        AnyRecord::Explain(explain) => missing(explain),
        AnyRecord::Compare(compare) => of_arms(compare),
        AnyRecord::Mesh(mesh) => mesh.warnings.iter().map(warning).collect(),
        AnyRecord::Sweep(sweep) => sweep.warnings.iter().map(warning).collect(),
        AnyRecord::Attached(attached) => attached.warnings.iter().map(warning).collect(),
        AnyRecord::Noise(noise) => noise.warnings.iter().map(warning).collect(),
        AnyRecord::TuneTry(tried) => {
            tried.paths.iter().flat_map(|path| std::iter::once(&path.alone).chain(&path.together)).flat_map(of_arms).collect()
        }
        _ => Vec::new(),
    };
    let link = match &given.record {
        AnyRecord::Compare(compare) => links(compare.arms.iter()),
        AnyRecord::Sweep(sweep) => links(sweep.cells.iter().map(|cell| &cell.arm)),
        AnyRecord::TuneTry(tried) => links(tried.paths.iter().flat_map(|path| &path.alone.arms)),
        _ => place.map(|place| words(&place.link)).unwrap_or_default(),
    };
    Record {
        number,
        name: clean(&given.name),
        schema: given.record.schema().into(),
        tool: clean(&head.tool),
        command: shell(&head.command),
        started: clean(&head.started),
        link,
        clock: place.map(|place| clock(&place.clock)).unwrap_or_default(),
        ended: why(&given.record),
        warnings,
    }
}

pub(super) fn warning(note: &Note) -> Warning {
    told(&note.code, &note.message)
}

pub(super) fn told(code: &str, message: &str) -> Warning {
    Warning { code: clean(code), message: clean(message) }
}

/// The arguments quoted for a POSIX shell. The program is called by its name without its directory.
fn shell(command: &[String]) -> String {
    let quoted = |argument: &String| {
        let argument = clean(argument);
        let plain = |c: char| c.is_ascii_alphanumeric() || "_@%+=:,./-".contains(c);
        if !argument.is_empty() && argument.chars().all(plain) {
            argument
        } else {
            format!("'{}'", argument.replace('\'', r"'\''"))
        }
    };
    let arguments = command.iter().skip(1).map(quoted);
    if command.is_empty() {
        String::new()
    } else {
        std::iter::once("hairpin".into()).chain(arguments).collect::<Vec<_>>().join(" ")
    }
}

fn words(link: &Link) -> String {
    clean(&link_words(link).join(", "))
}

/// The links of all arms, each once.
fn links<'a>(arms: impl Iterator<Item = &'a Arm>) -> String {
    let links: BTreeSet<String> = arms.filter_map(|arm| arm.link.as_ref()).map(words).gather();
    links.into_iter().collect::<Vec<_>>().join("; ")
}

fn clock(clock: &ClockFacts) -> String {
    // Adding 0.0 turns -0.0 into 0.0, so that a drift below half a ppb has no sign.
    let drift = clock.drift_ppb.map(|ppb| ppb.round() + 0.0);
    let drift = drift.map_or("the run was too short to tell its drift".into(), |ppb| format!("it drifted by {ppb:.0} ppb"));
    let figures = format!("{:.1} ns of every RTT, in steps of {:.1} ns", clock.cost_ns, clock.step_ns);
    clean(&format!("{}: {figures}; {drift}", clock.source))
}

fn why(record: &AnyRecord) -> Option<String> {
    let mut head: Head = record.head().clone();
    // A view that goes on until its user ends it is whole then.
    head.interrupted &= !matches!(record, AnyRecord::Attached(_)) || has_an_end(&head.command);
    Some(ended(&head).items).filter(|items| !items.is_empty()).map(|items| clean(&items.join("; ")))
}

/// The hooks that the host lacks.
fn missing(explain: &Explain) -> Vec<Warning> {
    let lacks = explain.missing.iter();
    lacks.map(|hook| told("missing-hook", &format!("{}: {}; it would add {}", hook.hook, hook.why, hook.adds))).collect()
}

/// Warnings of the whole record and of each arm, refused settings, dropped pairs, and the outcome of thresholds.
fn of_arms(compare: &Compare) -> Vec<Warning> {
    let mut found: Vec<Warning> = compare.warnings.iter().map(warning).collect();
    for arm in &compare.arms {
        found.extend(arm.warnings.iter().map(|note| told(&note.code, &format!("{}: {}", arm.name, note.message))));
        found.extend(of_stacks(arm.stack.as_deref()).iter().map(|text| told("stack", &format!("{}: {text}", arm.name))));
        found.extend(refused(&arm.granted).iter().map(|text| told("not-granted", &format!("{}: {text}", arm.name))));
    }
    for comparison in &compare.comparisons {
        let of = format!("{} against {}", comparison.arm, comparison.against);
        found.extend(pairs(compare, comparison).iter().map(|text| told("pairs", &format!("{of}: {text}"))));
    }
    found.extend(crate::compare::thresholds(compare).iter().map(|text| told("threshold", text)));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_reads_back_as_it_was() {
        let command = |arguments: &[&str]| shell(&arguments.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(
            command(&["target/debug/hairpin", "ping", "--path", "udp:spin,sndbuf=4M", "--sizes", "1..2048x2"]),
            "hairpin ping --path udp:spin,sndbuf=4M --sizes 1..2048x2"
        );
        assert_eq!(command(&["hairpin", "compare", "--fail-if", "p99 > +5%", ""]), "hairpin compare --fail-if 'p99 > +5%' ''");
        assert_eq!(command(&["rm", "$(id)", "it's", "a\nb"]), r"hairpin '$(id)' 'it'\''s' 'a b'");
        assert_eq!(command(&[]), "");
    }
}
