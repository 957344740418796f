//! The screens of `hairpin tune`: every setting, one setting, the doctor's findings, a diff, what became of it, and the journal.

use hairpin_record::tune::{ChangeRow, Changes, KnobRow, List, Settable, Status, StatusEntry, TuneCheck};
use hairpin_units::Nanos;
use serde_json::Value;

use crate::Options;
use crate::grid::{Column, Grid};
use crate::prose::{WIDTH, clean, width, wrap};
use crate::style::{ERROR, HEADING, WARNING, paint};

/// The longest value that stands in a table.
const CELL: usize = 24;

/// Every setting, a line each: the ones that can be changed first.
pub fn tune_list(list: &List, options: &Options) -> String {
    let mut lines = Vec::new();
    let (settable, facts): (Vec<&KnobRow>, Vec<&KnobRow>) = list.knobs.iter().partition(|knob| knob.change.is_some());
    for (heading, rows) in [("can be changed", settable), ("only reported: a fact, or made at boot", facts)] {
        if rows.is_empty() {
            continue;
        }
        if !lines.is_empty() {
            lines.push(String::new());
        }
        lines.push(paint(heading, HEADING, options.colour));
        let names = rows.iter().map(|row| width(&row.name)).max().unwrap_or(0);
        for row in rows {
            let mark = row.change.as_ref().map_or("", |change| if change.safe { "safe" } else { "-" });
            let first = format!("{:names$}  {mark:4}  {}", row.name, cut(&now(row)));
            // What it is takes a second line: the table would be wider than a terminal.
            lines.push(first.trim_end().to_owned());
            lines.extend(wrap("    ", &row.summary, WIDTH));
        }
    }
    lines.push(String::new());
    lines.extend(wrap(
        "",
        "A setting of an interface shows a value with -i IF. safe: it is put back at once and can neither cut the network nor stop a service. \
         `hairpin tune list NAME` says all about one.",
        WIDTH,
    ));
    lines.join("\n") + "\n"
}

/// All about some settings.
pub fn tune_knobs(list: &List, options: &Options) -> String {
    let about = |row: &KnobRow| {
        let mut lines = vec![paint(&row.name, HEADING, options.colour)];
        lines.extend(wrap("  ", &format!("{}.", row.summary), WIDTH));
        let said = now(row);
        let of_interface = row.change.as_ref().is_some_and(|change| change.of_interface);
        let nothing =
            if of_interface { "this host has none; a setting of an interface is shown with -i IF" } else { "this host has none" };
        lines.extend(wrap("  now        ", if said.is_empty() { nothing } else { &said }, WIDTH));
        if let Some(change) = &row.change {
            lines.extend(change_lines(&row.name, change));
        } else {
            lines.extend(wrap("  change     ", "only reported: a fact of this host, or made at boot", WIDTH));
        }
        lines.join("\n") + "\n"
    };
    list.knobs.iter().map(about).collect::<Vec<_>>().join("\n")
}

fn change_lines(name: &str, change: &Settable) -> Vec<String> {
    let safe = if change.safe { "yes" } else { "no" };
    let lasts =
        if change.lasts == "process" { "as long as a process holds it" } else { "until it is reverted, or the host boots" };
    let profiles: Vec<String> = change.profiles.iter().map(|(profile, value)| format!("{profile} {value}")).collect();
    let profiles = if profiles.is_empty() { "in none".to_owned() } else { profiles.join(", ") };
    let interface = if change.of_interface { " -i IF" } else { "" };
    let tail = if change.lasts == "process" { " --while -- COMMAND" } else { "" };
    let mut lines = Vec::new();
    for (title, text) in [
        ("values", change.values.as_str()),
        ("mechanism", &change.mechanism),
        ("effect", &change.effect),
        ("cost", &change.cost),
        ("risk", &change.risk),
        ("needs", &change.needs),
        ("safe", safe),
        ("lasts", lasts),
        ("profiles", &profiles),
        ("reference", &change.reference),
        ("set it", &format!("sudo hairpin tune apply {name}=VALUE{interface}{tail}")),
    ] {
        lines.extend(wrap(&format!("  {title:9}  "), text, WIDTH));
    }
    lines
}

fn now(row: &KnobRow) -> String {
    match (&row.now, &row.unread) {
        (Some(value), _) => words(value),
        (None, Some(why)) => format!("unread: {why}"),
        (None, None) => String::new(),
    }
}

/// A fact in words: a list with commas, an object by its keys.
fn words(value: &Value) -> String {
    match value {
        Value::String(text) => clean(text),
        Value::Bool(true) => "on".into(),
        Value::Bool(false) => "off".into(),
        Value::Array(all) => all.iter().map(words).collect::<Vec<_>>().join(", "),
        Value::Object(all) => {
            all.iter().map(|(key, value)| format!("{}: {}", clean(key), words(value))).collect::<Vec<_>>().join(", ")
        }
        other => other.to_string(),
    }
}

/// At most as much as a cell holds.
fn cut(text: &str) -> String {
    if width(text) <= CELL { text.to_owned() } else { format!("{}...", text.chars().take(CELL - 3).collect::<String>()) }
}

/// What stands in the way, the largest expected effect first.
pub fn tune_check(check: &TuneCheck, options: &Options) -> String {
    let interface = check
        .interface
        .as_ref()
        .map_or_else(|| "no interface (-i IF looks at one)".to_owned(), |name| format!("interface {}", clean(name)));
    let mut lines = wrap("", &format!("{}, profile {}, {interface}", clean(&check.hostname), check.profile), WIDTH);
    let latency = check.profile == "latency";
    if check.findings.is_empty() {
        lines.extend(["".into(), "nothing stands in the way that hairpin knows of".into()]);
    }
    for (number, finding) in check.findings.iter().enumerate() {
        lines.push(String::new());
        // What is at stake is latency: no other profile is after that.
        let stake = match finding.stake_ns {
            _ if !latency => String::new(),
            0 => "the tail, or what happens under load".to_owned(),
            ns => format!("about {} of a blocking round trip", Nanos(ns)),
        };
        lines.push(paint(
            &format!("{:2}. {}", number + 1, finding.name),
            if number == 0 { WARNING } else { HEADING },
            options.colour,
        ));
        for (title, text) in [
            ("at stake", stake.as_str()),
            ("now", &finding.now),
            ("better", &finding.better),
            ("effect", &finding.effect),
            ("cost", &finding.cost),
        ] {
            if !text.is_empty() {
                lines.extend(wrap(&format!("    {title:8}  "), text, WIDTH));
            }
        }
        lines.extend(wrap(if finding.at_boot { "    at boot   " } else { "    fix       " }, &finding.fix, WIDTH));
        lines.extend(finding.or.iter().flat_map(|or| wrap("    or        ", or, WIDTH)));
    }
    if !check.fine.is_empty() {
        lines.push(String::new());
        lines.extend(wrap("as the profile wants it: ", &check.fine.join(", "), WIDTH));
    }
    if !check.unread.is_empty() {
        lines.push(String::new());
        lines.push(paint("could not be read", WARNING, options.colour));
        lines.extend(check.unread.iter().flat_map(|(name, why)| wrap(&format!("  {name}: "), why, WIDTH)));
    }
    lines.push(String::new());
    lines.extend(wrap(
        "",
        if latency {
            "At stake is an order of magnitude from the references; nothing was measured here, and nothing was changed."
        } else {
            "What to expect is from the references; nothing was measured here, and nothing was changed."
        },
        WIDTH,
    ));
    lines.join("\n") + "\n"
}

/// A diff, or what became of it.
pub fn tune_changes(changes: &Changes, options: &Options) -> String {
    let planned = changes.action == "plan";
    let mut lines = Vec::new();
    if changes.changes.is_empty() {
        lines.push(
            if changes.action == "revert" { "nothing to revert" } else { "nothing to change: it is all so already" }.to_owned(),
        );
    } else {
        let backwards = changes.action == "revert";
        lines.extend(grid(&changes.changes, !planned, backwards).lines(options.columns(), options.colour));
    }
    for row in changes.changes.iter().filter(|row| !planned && row.why.is_some()) {
        let said = format!("{}: {}", row.knob, row.why.as_deref().unwrap_or_default());
        let first = if is_trouble(&row.outcome) { paint("not done: ", ERROR, options.colour) } else { "note: ".to_owned() };
        lines.extend(wrap(&first, &said, WIDTH));
    }
    lines.extend(changes.notes.iter().flat_map(|note| wrap("note: ", note, WIDTH)));
    lines.join("\n") + "\n"
}

fn is_trouble(outcome: &str) -> bool {
    matches!(outcome, "refused" | "changed" | "elsewhere" | "failed")
}

/// Knob, change and place; what becomes of it if that is known.
fn grid(rows: &[ChangeRow], outcome: bool, backwards: bool) -> Grid {
    let mut columns = vec![Column::words("setting"), Column::words("was"), Column::words("is to be")];
    if outcome {
        columns.push(Column::words("outcome"));
    }
    columns.push(Column::words("where"));
    let cells = |row: &ChangeRow| {
        let (from, to) = (row.from_cpus.as_ref().unwrap_or(&row.from), row.to_cpus.as_ref().unwrap_or(&row.to));
        let (was, to) = if backwards { (to, from) } else { (from, to) };
        let mut cells = vec![clean(&row.knob), cut(&clean(was)), cut(&clean(to))];
        cells.extend(outcome.then(|| row.outcome.clone()));
        cells.push(clean(&row.place).replace("/sys/devices/system/cpu/", ".../").replace("/sys/class/net/", ".../"));
        cells
    };
    Grid { columns, labels: 1, rows: rows.iter().map(cells).collect() }
}

/// The journal: who changed what, and how it stands.
pub fn tune_status(status: &Status, options: &Options) -> String {
    let mut lines = wrap("journal  ", &status.journal, WIDTH);
    if let Some(holder) = &status.holder {
        lines.extend(wrap("at work  ", holder, WIDTH));
    }
    if status.entries.is_empty() {
        lines.push("nothing is changed".to_owned());
    }
    for entry in &status.entries {
        lines.push(String::new());
        lines.extend(entry_lines(entry, options));
    }
    lines.join("\n") + "\n"
}

fn entry_lines(entry: &StatusEntry, options: &Options) -> Vec<String> {
    let (says, style) = match entry.state.as_str() {
        "kept" => ("applied, and to stay until `hairpin tune revert`", HEADING),
        "running" => ("its process is at work and will put it back", HEADING),
        "orphaned" => ("its process was killed before it could put it back: sudo hairpin tune revert", ERROR),
        "booted" => ("the host has booted since: nothing of it is left; `hairpin tune revert` forgets it", WARNING),
        _ => ("cannot be read whole", ERROR),
    };
    let mut lines = vec![paint(&format!("{:04}  {}", entry.id, entry.state), style, options.colour)];
    lines.extend(wrap("      ", says, WIDTH));
    if !entry.started.is_empty() {
        lines.extend(wrap("      ", &format!("{}  {}", entry.started, entry.command.join(" ")), WIDTH));
    }
    lines.extend(entry.why.iter().flat_map(|why| wrap("      ", why, WIDTH)));
    if !entry.changes.is_empty() {
        lines.extend(
            grid(&entry.changes, true, false)
                .lines(options.columns() - 6, options.colour)
                .into_iter()
                .map(|line| format!("      {line}")),
        );
    }
    for row in entry.changes.iter().filter(|row| row.why.is_some()) {
        lines.extend(wrap("      ", &format!("{}: {}", row.knob, row.why.as_deref().unwrap_or_default()), WIDTH));
    }
    lines
}
