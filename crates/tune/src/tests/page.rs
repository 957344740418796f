//! `docs/knobs.md`, generated from the knobs: `HAIRPIN_BLESS=1 cargo test -p hairpin-tune page` rewrites it.

use std::path::Path;

use crate::knob::{Control, Lasts, Scope};
use crate::{KNOBS, Knob, Read};

#[test]
fn page_agrees_with_the_knobs() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/knobs.md");
    let want = page();
    if std::env::var("HAIRPIN_BLESS").is_ok_and(|value| value == "1") {
        std::fs::write(&path, &want).unwrap();
    }
    let checked_in = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(checked_in == want, "docs/knobs.md is out of date: run HAIRPIN_BLESS=1 cargo test -p hairpin-tune page");
}

const INTRODUCTION: &str = "\
# Facts and settings of the host

Every record says how its host was set. Below is each fact, by subject, under the name that it has in the record (`facts`); those marked *set* can also be
changed, with [`hairpin tune`](verbs/tune.md) or by `--knob` of an experiment. A fact that a host does not have is left out; one that cannot be read
is in the record under `unread`, with the reason.

This page is generated from the knobs in `crates/tune/src/knobs`. Effects are orders of magnitude from the references: `hairpin tune try` measures
them on your host.
";

/// An index by subject, then a section per knob.
fn page() -> String {
    let mut text = folded_lines(INTRODUCTION) + "\n| Subject | Facts and settings |\n|---|---|\n";
    for (title, knobs) in KNOBS {
        let link = |knob: &&Knob| {
            let set = if knob.change.is_some() { " *set*" } else { "" };
            format!("[`{0}`](#{0}){set}", knob.name)
        };
        text += &format!("| {title} | {} |\n", knobs.iter().map(link).collect::<Vec<_>>().join(", "));
    }
    for (title, knobs) in KNOBS {
        text += &format!("\n## {title}\n");
        for knob in *knobs {
            text += &section(knob);
        }
    }
    text
}

fn section(knob: &Knob) -> String {
    let mut text = format!("\n### `{}`\n\n{}.\n\n", knob.name, knob.summary);
    for paragraph in knob.why.split("\n\n") {
        text += &(folded(paragraph, "") + "\n");
    }
    text += &folded(&format!("**Read from** {}", read_from(knob)), "");
    text += &format!("\n```sh\n{}\n```\n", look(knob));
    if let Some(change) = &knob.change {
        text += &change_it(knob, change);
    }
    text
}

/// The path of the file, and the knob's notes on it.
fn read_from(knob: &Knob) -> String {
    let path = match knob.read {
        Read::Host(path, _) => Some(path.to_owned()),
        Read::Cpu(file, _) => Some(format!("/sys/devices/system/cpu/cpu<n>/{file}")),
        Read::Interface(file, _) => Some(format!("/sys/class/net/<interface>/{file}")),
        Read::Queue { prefix, file, .. } => Some(format!("/sys/class/net/<interface>/queues/{prefix}*/{file}")),
        Read::Device(..) | Read::Napi(_) | Read::By(_) => None,
    };
    // A source that begins with the path itself says more about it.
    match path {
        Some(path) if !knob.source.starts_with(&format!("`{path}`")) => format!("`{path}`. {}", knob.source),
        _ => knob.source.to_owned(),
    }
}

/// Shell commands that show the same.
fn look(knob: &Knob) -> String {
    match knob.read {
        _ if !knob.look.is_empty() => knob.look.to_owned(),
        Read::Host(path, _) => match path.strip_prefix("/proc/sys/") {
            Some(name) => format!("sysctl {}", name.replace('/', ".")),
            None => format!("cat {path}"),
        },
        Read::Cpu(file, _) => format!("grep . /sys/devices/system/cpu/cpu*/{file}"),
        Read::Interface(file, _) => format!("cat /sys/class/net/eth0/{file}"),
        Read::Queue { prefix, file, .. } => format!("grep . /sys/class/net/eth0/queues/{prefix}*/{file}"),
        Read::Device(..) | Read::Napi(_) | Read::By(_) => panic!("{} does not say how to look", knob.name),
    }
}

fn change_it(knob: &Knob, change: &Control) -> String {
    let value = [change.latency, change.power, change.throughput].into_iter().flatten().next().unwrap_or("VALUE");
    let interface = if change.is_of_interface() { " -i eth0" } else { "" };
    let tail = if change.is_held() { " --while -- COMMAND" } else { "" };
    let mut text = format!("\nChange it:\n\n```sh\nsudo hairpin tune apply {}={value}{interface}{tail}\n```\n\n", knob.name);
    let scope = match change.scope {
        Scope::Host => "the host",
        Scope::Cpus => "the CPUs of `--cpus`, or every online CPU",
        Scope::Interface => "the interface of `-i`",
    };
    let safe = if change.safe {
        "yes: it takes effect and is reverted at once, and can neither cut the network nor stop a service"
    } else {
        "no: see the risk; `--all-safe` leaves it out"
    };
    let lasts = match change.lasts {
        Lasts::WhileHeld => "as long as the command runs",
        Lasts::UntilReverted => "until it is reverted, or the host boots",
    };
    let values = change.values.to_string();
    for (title, said) in [
        ("Mechanism", change.mechanism),
        ("Expected effect", change.effect),
        ("Cost", change.cost),
        ("Risk", change.risk),
        ("Needs", change.needs),
        ("Values", &values),
        ("Applies to", scope),
        ("Safe", safe),
        ("Lasts", lasts),
        ("Reference", change.reference),
    ] {
        text += &folded(&format!("- **{title}**: {said}"), "  ");
    }
    text
}

fn folded_lines(text: &str) -> String {
    text.split("\n\n").map(|paragraph| folded(paragraph, "")).collect::<Vec<_>>().join("\n")
}

/// Lines of at most 120 columns; `indent` in front of all but the first.
fn folded(text: &str, indent: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().unwrap();
        if !line.is_empty() && line.len() + 1 + word.len() > 120 {
            lines.push(format!("{indent}{word}"));
        } else {
            let gap = if line.is_empty() { "" } else { " " };
            *line += &format!("{gap}{word}");
        }
    }
    lines.join("\n") + "\n"
}
