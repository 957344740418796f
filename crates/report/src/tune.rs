//! The output of `hairpin tune`: all settings, one setting, the doctor's findings, a diff, its outcome, and the journal.

use hairpin_record::tune::{ChangeRow, Changes, Finding, KnobRow, List, NapiRow, Settable, Status, StatusEntry, TuneCheck};
use hairpin_units::Nanos;
use serde_json::Value;

use crate::cell::Cell;
use crate::doc::{Column, Data, Doc, Show, Shown, Table};
use crate::figure::time;
use crate::next;
use crate::options::Options;
use crate::prose::{clean, width};
use crate::style::Tone;
use crate::term::{LINES as SHORT, fitting, height};

/// The longest value shown in a table.
const CELL: usize = 24;

/// A line for each setting, those that can be changed first. With [`Options::detail`], the full description of each.
impl Show for List {
    fn doc(&self, options: &Options) -> Doc {
        let mut doc = Doc::default();
        if options.detail > 0 {
            self.knobs.iter().enumerate().for_each(|(at, row)| about(&mut doc, at, row));
            napis(&mut doc, &self.napis);
        } else {
            doc.part(Shown::Brief, short(self, options));
            let mut full = Doc::default();
            overview(&mut full, self);
            doc.part(Shown::Full, full);
        }
        let names = "setting now unread can_be_changed safe values summary";
        let line = |row: &KnobRow| {
            let yes = |yes: bool| Cell::from(if yes { "yes" } else { "no" });
            let change = row.change.as_ref();
            [
                (&row.name).into(),
                row.now.as_ref().map(words).into(),
                row.unread.as_ref().into(),
                yes(change.is_some()),
                change.map(|change| yes(change.safe)).unwrap_or_default(),
                change.map(|change| &change.values).into(),
                (&row.summary).into(),
            ]
        };
        doc.data = Some(Data::table(names, self.knobs.iter().map(line)));
        doc
    }
}

/// The settings that can be changed, in groups, with their values as far as these fit a screen.
fn short(list: &List, options: &Options) -> Doc {
    let (settable, facts): (Vec<&KnobRow>, Vec<&KnobRow>) = list.knobs.iter().partition(|knob| knob.change.is_some());
    let safe = |row: &KnobRow| row.change.as_ref().is_some_and(|change| change.safe);
    let of_interface = |row: &KnobRow| row.now.is_none() && row.change.as_ref().is_some_and(|change| change.of_interface);
    let grouped = |values: bool| {
        let mut doc = Doc::default();
        doc.text(format!("{} settings can be changed, {} more are only reported", settable.len(), facts.len()));
        let mut group = |name: &str, belongs: &dyn Fn(&KnobRow) -> bool| {
            let shown = |row: &&&KnobRow| belongs(row);
            let word = |row: &&KnobRow| {
                let now = if values { now(row) } else { String::new() };
                // A value of several words could not be told from the next name.
                let now = if now.contains(' ') { ".." } else { &now };
                if now.is_empty() { row.name.clone() } else { format!("{}={}", row.name, cut(now)) }
            };
            let words: Vec<String> = settable.iter().filter(shown).map(word).collect();
            if !words.is_empty() {
                doc.gap();
                doc.lead(format!("{name:13}"), words.join("  "));
            }
        };
        group("safe to try", &|row| safe(row) && !of_interface(row));
        group("with care", &|row| !safe(row) && !of_interface(row));
        group("with -i IF", &|row| of_interface(row));
        doc.gap();
        let first = settable.iter().find(|row| safe(row) && row.now.is_some()).or(settable.first());
        let one = first.map(|row| format!("hairpin tune list {}", row.name));
        next::show(&mut doc, &one.into_iter().chain(["(-v: all, a line each)".to_owned()]).collect::<Vec<_>>(), options);
        doc
    };
    [true, false].map(grouped).into_iter().find(|doc| height(doc, options) <= SHORT).unwrap_or_else(|| grouped(false))
}

fn overview(doc: &mut Doc, list: &List) {
    let (settable, facts): (Vec<&KnobRow>, Vec<&KnobRow>) = list.knobs.iter().partition(|knob| knob.change.is_some());
    for (heading, rows) in [("can be changed", settable), ("only reported: a fact, or made at boot", facts)] {
        if rows.is_empty() {
            continue;
        }
        if !doc.blocks.is_empty() {
            doc.gap();
        }
        doc.heading(heading);
        let row = |row: &&KnobRow| {
            let mark = row.change.as_ref().map_or("", |change| if change.safe { "safe" } else { "-" });
            vec![(&row.name).into(), mark.into(), cut(&now(row)).into(), (&row.summary).into()]
        };
        let mut columns = ["setting", "", "now"].map(Column::words).to_vec();
        // The description goes on a second line; in a column the table would be wider than a terminal.
        columns.push(Column::below("description", "    "));
        doc.table(Table::new(columns, 1, rows.iter().map(row)));
    }
    napis(doc, &list.napis);
    doc.gap();
    doc.text(
        "A setting of an interface shows a value with -i IF. safe: it is put back at once and can neither cut the network nor stop a service. \
         `hairpin tune list NAME` says all about one.",
    );
}

/// The NAPI instances: queues, id, interrupt and settings of each.
fn napis(doc: &mut Doc, all: &[NapiRow]) {
    if all.is_empty() {
        return;
    }
    doc.gap();
    doc.heading("NAPI instances");
    let row = |napi: &NapiRow| {
        let settings: Vec<String> = napi.settings.iter().map(|(name, value)| format!("{name} {}", clean(value))).collect();
        vec![
            clean(&napi.name).into(),
            napi.id.into(),
            napi.irq.into(),
            clean(&napi.queues.join(" ")).into(),
            settings.join(", ").into(),
        ]
    };
    let mut columns = ["instance", "id", "IRQ", "serves"].map(Column::words).to_vec();
    columns.push(Column::below("settings", "    "));
    doc.table(Table::new(columns, 1, all.iter().map(row)));
    doc.text("One alone is set by its name: `hairpin tune apply napi_threaded@NAME=1 -i IF`.");
}

/// The full description of a setting.
fn about(doc: &mut Doc, at: usize, row: &KnobRow) {
    if at > 0 {
        doc.gap();
    }
    doc.heading(&row.name);
    doc.lead("  ", format!("{}.", row.summary));
    let said = now(row);
    let of_interface = row.change.as_ref().is_some_and(|change| change.of_interface);
    let nothing =
        if of_interface { "this host has none; a setting of an interface is shown with -i IF" } else { "this host has none" };
    doc.lead("  now        ", if said.is_empty() { nothing } else { &said });
    match &row.change {
        Some(settable) => change(doc, &row.name, settable),
        None => doc.lead("  change     ", "only reported: a fact of this host, or made at boot"),
    }
}

fn change(doc: &mut Doc, name: &str, change: &Settable) {
    let safe = if change.safe { "yes" } else { "no" };
    let lasts =
        if change.lasts == "process" { "as long as a process holds it" } else { "until it is reverted, or the host boots" };
    let profiles: Vec<String> = change.profiles.iter().map(|(profile, value)| format!("{profile} {value}")).collect();
    let profiles = if profiles.is_empty() { "in none".to_owned() } else { profiles.join(", ") };
    let interface = if change.of_interface { " -i IF" } else { "" };
    let tail = if change.lasts == "process" { " --while -- COMMAND" } else { "" };
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
        doc.lead(format!("  {title:9}  "), text);
    }
}

fn now(row: &KnobRow) -> String {
    match (&row.now, &row.unread) {
        (Some(value), _) => words(value),
        (None, Some(why)) => format!("unread: {why}"),
        (None, None) => String::new(),
    }
}

/// A fact in words: a list separated by commas, an object by its keys.
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

/// Cut to the width of a cell.
fn cut(text: &str) -> String {
    if width(text) <= CELL { text.to_owned() } else { format!("{}...", text.chars().take(CELL - 3).collect::<String>()) }
}

/// The doctor's findings, the largest expected effect first: a line of each.
impl Show for TuneCheck {
    fn doc(&self, options: &Options) -> Doc {
        let mut doc = Doc::default();
        let latency = self.profile == "latency";
        doc.text(found(self));
        let mut rest = Doc::default();
        self.findings.iter().enumerate().for_each(|(at, found)| finding(&mut rest, at, found, latency));
        if !self.fine.is_empty() {
            rest.gap();
            rest.lead("as the profile wants it: ", self.fine.join(", "));
        }
        let mut end = Doc::default();
        if !self.unread.is_empty() {
            end.toned(
                "could not be read: ",
                self.unread.keys().map(String::as_str).collect::<Vec<_>>().join(", "),
                Tone::Warning,
            );
            rest.gap();
            rest.toned("", "could not be read", Tone::Warning);
            self.unread.iter().for_each(|(name, why)| rest.lead(format!("  {name}: "), why));
        }
        end.text("Orders of magnitude from the references; nothing was measured.");
        if let Some(first) = self.findings.first() {
            let in_full = format!("hairpin tune list {}", first.name);
            next::show(&mut end, &["sudo hairpin tune try loopback --all-safe".into(), in_full], options);
        }
        // A short view says itself where the rest is.
        let others = height(&doc, options) + height(&end, options) + 1;
        let tables = (1..=LINES.min(self.findings.len())).rev().map(|shown| {
            let mut doc = Doc::default();
            doc.gap();
            doc.table(findings(self, latency, options.columns() < ROOM, shown));
            if self.findings.len() > shown {
                doc.text(format!("and {} more with less at stake", self.findings.len() - shown));
            }
            doc
        });
        doc.blocks.extend(fitting(tables, others, options).blocks);
        doc.blocks.extend(end.blocks);
        doc.part(Shown::Full, rest);
        let names = "setting stake_ns now better effect cost at_boot fix";
        let line = |found: &Finding| {
            let at_boot = if found.at_boot { "yes" } else { "no" };
            let words = [&found.now, &found.better, &found.effect, &found.cost].map(Cell::from);
            let [now, better, effect, cost] = words;
            [(&found.name).into(), found.stake_ns.into(), now, better, effect, cost, at_boot.into(), (&found.fix).into()]
        };
        doc.data = Some(Data::table(names, self.findings.iter().map(line)));
        doc
    }
}

/// Lines of the table of findings.
const LINES: usize = 7;
/// On a narrower terminal its values stand below each setting.
const ROOM: usize = 80;

fn found(check: &TuneCheck) -> String {
    let interface = check.interface.as_ref();
    let interface = interface.map_or_else(|| "-i IF looks at a NIC too".to_owned(), |name| format!("interface {}", clean(name)));
    let place = format!("{} (profile {}; {interface})", clean(&check.hostname), check.profile);
    match check.findings.len() {
        0 => format!("nothing stands in the way that hairpin knows of, on {place}"),
        1 => format!("1 setting of {place} stands in the way"),
        count => format!("{count} settings stand in the way on {place}"),
    }
}

fn values_of(found: &Finding) -> String {
    format!("{} -> {}", found.now, found.better)
}

fn findings(check: &TuneCheck, latency: bool, narrow: bool, shown: usize) -> Table {
    let mut columns = vec![Column::words("setting")];
    columns.extend(latency.then(|| Column::words("at stake")));
    let values = if narrow { Column::below("now -> better", "    ") } else { Column::prose("now -> better") };
    columns.extend([Column::words("change"), values]);
    let row = |(at, found): (usize, &Finding)| {
        let change = match found.at_boot {
            true => "at boot",
            false if found.fix.contains("--while") => "--while",
            false => "apply",
        };
        let mut cells = vec![format!("{:2} {}", at + 1, clean(&found.name)).into()];
        let stake = if found.stake_ns == 0 { "tail".to_owned() } else { format!("~{}", time(found.stake_ns as f64)) };
        cells.extend(latency.then(|| stake.into()));
        cells.extend([change.into(), values_of(found).into()]);
        cells
    };
    Table::new(columns, 1, check.findings.iter().take(shown).enumerate().map(row))
}

fn finding(doc: &mut Doc, at: usize, found: &Finding, latency: bool) {
    // The stake is latency, which only the latency profile is about.
    let stake = match found.stake_ns {
        _ if !latency => String::new(),
        0 => "the tail, or what happens under load".to_owned(),
        ns => format!("about {} of a blocking round trip", Nanos(ns)),
    };
    doc.gap();
    doc.toned(format!("{:2}. ", at + 1), &found.name, if at == 0 { Tone::Warning } else { Tone::Heading });
    let fix = if found.at_boot { "at boot" } else { "fix" };
    for (title, text) in [
        ("at stake", stake.as_str()),
        ("now", &found.now),
        ("better", &found.better),
        ("effect", &found.effect),
        ("cost", &found.cost),
        (fix, &found.fix),
        ("or", found.or.as_deref().unwrap_or_default()),
    ] {
        if !text.is_empty() {
            doc.lead(format!("    {title:8}  "), text);
        }
    }
}

/// A diff, or its outcome.
impl Show for Changes {
    fn doc(&self, _: &Options) -> Doc {
        let planned = self.action == "plan";
        let backwards = self.action == "revert";
        let empty = if backwards { "nothing to revert" } else { "nothing to change: it is all so already" };
        let mut doc = Doc::default();
        doc.table(Table { empty, ..table(&self.changes, !planned, backwards) });
        for row in self.changes.iter().filter(|row| !planned && row.why.is_some()) {
            let said = format!("{}: {}", row.knob, row.why.as_deref().unwrap_or_default());
            match is_trouble(&row.outcome) {
                true => doc.verdict("not done: ", said, "not done: ", Tone::Error),
                false => doc.lead("note: ", said),
            }
        }
        self.notes.iter().for_each(|note| doc.lead("note: ", note));
        let line = |row: &ChangeRow| {
            let (was, to) = if backwards { (&row.to, &row.from) } else { (&row.from, &row.to) };
            [&row.knob, was, to, &row.outcome, &row.place].map(Cell::from)
        };
        doc.data = Some(Data::table("setting was is_to_be outcome where", self.changes.iter().map(line)));
        doc
    }
}

fn is_trouble(outcome: &str) -> bool {
    matches!(outcome, "refused" | "changed" | "elsewhere" | "failed")
}

/// Setting, change and place, and the outcome if known.
fn table(rows: &[ChangeRow], outcome: bool, backwards: bool) -> Table {
    let mut columns = ["setting", "was", "is to be"].map(Column::words).to_vec();
    columns.extend(outcome.then(|| Column::words("outcome")));
    columns.push(Column::words("where"));
    let row = |row: &ChangeRow| {
        let (from, to) = (row.from_cpus.as_ref().unwrap_or(&row.from), row.to_cpus.as_ref().unwrap_or(&row.to));
        let (was, to) = if backwards { (to, from) } else { (from, to) };
        let mut cells = vec![(&row.knob).into(), cut(&clean(was)).into(), cut(&clean(to)).into()];
        cells.extend(outcome.then(|| (&row.outcome).into()));
        let place = row.place.replace("/sys/devices/system/cpu/", ".../").replace("/sys/class/net/", ".../");
        cells.push(place.into());
        cells
    };
    Table::new(columns, 1, rows.iter().map(row))
}

/// The journal: who changed what, and whether the change is still in force.
impl Show for Status {
    fn doc(&self, _: &Options) -> Doc {
        let mut doc = Doc::default();
        doc.lead("journal  ", &self.journal);
        self.holder.iter().for_each(|holder| doc.lead("at work  ", holder));
        if self.entries.is_empty() {
            doc.text("nothing is changed");
        }
        for one in &self.entries {
            doc.gap();
            entry(&mut doc, one);
        }
        let names = "id state started command setting was is_to_be outcome where";
        let line = |(entry, row): (&StatusEntry, &ChangeRow)| {
            let words = [&row.knob, &row.from, &row.to, &row.outcome, &row.place].map(Cell::from);
            let [knob, from, to, outcome, place] = words;
            let command = entry.command.join(" ").into();
            [entry.id.into(), (&entry.state).into(), (&entry.started).into(), command, knob, from, to, outcome, place]
        };
        let all = self.entries.iter().flat_map(|entry| entry.changes.iter().map(move |row| (entry, row)));
        doc.data = Some(Data::table(names, all.map(line)));
        doc
    }
}

fn entry(doc: &mut Doc, entry: &StatusEntry) {
    let (says, tone) = match entry.state.as_str() {
        "kept" => ("applied, and to stay until `hairpin tune revert`", Tone::Heading),
        "running" => ("its process is at work and will put it back", Tone::Heading),
        "orphaned" => ("its process was killed before it could put it back: sudo hairpin tune revert", Tone::Error),
        "booted" => ("the host has booted since: nothing of it is left; `hairpin tune revert` forgets it", Tone::Warning),
        _ => ("cannot be read whole", Tone::Error),
    };
    doc.toned(format!("{:04}  ", entry.id), &entry.state, tone);
    let mut say = |text: String| doc.lead("      ", text);
    say(says.into());
    if !entry.started.is_empty() {
        say(format!("{}  {}", entry.started, entry.command.join(" ")));
    }
    entry.why.iter().for_each(|why| say(why.clone()));
    if !entry.changes.is_empty() {
        doc.table(Table { indent: 6, ..table(&entry.changes, true, false) });
    }
    for row in entry.changes.iter().filter(|row| row.why.is_some()) {
        doc.lead("      ", format!("{}: {}", row.knob, row.why.as_deref().unwrap_or_default()));
    }
}
