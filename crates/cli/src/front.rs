//! The output of bare `hairpin`: the verbs in groups, first commands, this host, and the last run.

use std::io;
use std::time::SystemTime;

use hairpin_iopath::paths::runner;
use hairpin_iopath::runner::Support;
use hairpin_lab::store::Store;
use hairpin_plan::path::LinkKind;
use hairpin_plan::paths::PATHS;
use hairpin_record::any::AnyRecord;
use hairpin_session::time;
use hairpin_sys::host::{Host, RealHost};
use hairpin_sys::thread::allowed_cpus;
use hairpin_units::Nanos;

use crate::narrow::narrowed;
use crate::output::open_store;
use crate::terminal::width;

/// The verbs, grouped by purpose.
pub const GROUPS: &[(&str, &str)] = &[
    ("measure", "ping  serve  load  mesh  stream  demo"),
    ("understand", "explain  floor  check  paths"),
    ("decide", "compare  sweep"),
    ("improve", "tune  exec"),
    ("records", "runs  report  watch  completions"),
    ("packets", "bounce"),
];

/// First commands, each with its purpose.
pub const FIRST: &[(&str, &str)] = &[
    ("hairpin ping loopback", "this host with itself; takes no right"),
    ("hairpin paths", "what this host supports, and what root adds"),
    ("hairpin demo", "every path that this host can take, in 40 s"),
    ("hairpin serve", "on the other host; prints what to type here"),
    ("sudo hairpin explain :6379", "a server that already runs, unmodified"),
];

/// The page, as wide as the terminal.
pub fn page() -> String {
    narrowed(&wide(), width(&io::stdout()))
}

fn wide() -> String {
    let mut text = format!("hairpin {}   where a round trip's time goes, and how to get it back\n\n", env!("CARGO_PKG_VERSION"));
    for (command, what) in FIRST {
        text.push_str(&format!("  {command:28}{what}\n"));
    }
    text.push('\n');
    for (group, verbs) in GROUPS {
        text.push_str(&format!("{group:12}{verbs}\n"));
    }
    text.push_str(&format!("\n{:12}{}\n", "this host", this_host()));
    if let Some(last) = open_store().ok().as_ref().and_then(last_run) {
        text.push_str(&format!("{:12}{last}\n", "last run"));
    }
    text.push_str(&format!("{:12}hairpin VERB -h    hairpin VERB --help    hairpin help units\n", "help"));
    text
}

fn this_host() -> String {
    let read = |file: &str| RealHost.read(file).unwrap_or_default();
    let cpus = allowed_cpus().map_or(0, |cpus| cpus.len());
    let s = if cpus == 1 { "" } else { "s" };
    let flags = read("/proc/cpuinfo");
    let machine = if flags.lines().any(|line| line.split_whitespace().any(|word| word == "hypervisor")) { " (VM)" } else { "" };
    let clock = read("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    let link = LinkKind::Veth;
    let lacking: Vec<&str> = PATHS
        .iter()
        .filter(|path| {
            let no = |link| matches!(runner(path).probe(link), Support::No(_));
            no(link) && no(LinkKind::Loopback)
        })
        .map(|path| path.name)
        .collect();
    let paths = if lacking.is_empty() { "all paths".to_owned() } else { format!("all paths but {}", lacking.join(", ")) };
    let user = if rustix::process::geteuid().is_root() { "root" } else { "no root" };
    // A container may have no /sys.
    let clock = if clock.is_empty() { String::new() } else { format!(", clock {}", clock.trim()) };
    format!("{cpus} CPU{s}{machine}{clock}, {user}: {paths}")
}

/// A longer command of the last run is cut.
const COMMAND: usize = 30;

/// The last run: its age, its first row, and the command that shows it.
fn last_run(store: &Store) -> Option<String> {
    let id = store.ids().ok()?.pop()?;
    let record = hairpin_lab::records::load(store, id.as_str()).ok()?.pop()?.record;
    let age = age(&record.head().started)?;
    let what = match &record {
        AnyRecord::Run(run) => {
            let row = run.results.first();
            row.and_then(|row| Some(format!("{}, RTT p50 {}", hairpin_report::row_path(row), Nanos(row.rtt_ns.p50?))))
        }
        _ => None,
    };
    let typed = || record.head().command.get(1..).unwrap_or_default().join(" ");
    let what = what.unwrap_or_else(|| hairpin_report::cut(&typed(), COMMAND));
    Some(format!("{age}, {what}: hairpin report latest"))
}

/// The time since a record began.
fn age(started: &str) -> Option<String> {
    let seconds = SystemTime::now().duration_since(time::parsed(started)?).ok()?.as_secs();
    Some(match seconds {
        0..60 => format!("{seconds} s ago"),
        60..3600 => format!("{} min ago", seconds / 60),
        3600..86_400 => format!("{} h ago", seconds / 3600),
        _ => format!("{} days ago", seconds / 86_400),
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn every_verb_is_in_a_group_and_the_page_fits_a_screen() {
        let command = crate::parse::command();
        let grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, verbs)| verbs.split_whitespace()).collect();
        let verbs = command.get_subcommands().filter(|verb| !verb.is_hide_set()).map(clap::Command::get_name);
        for verb in verbs {
            assert!(grouped.contains(&verb), "{verb} is in no group");
        }
        let page = wide();
        let first: Vec<&str> = page.lines().skip(2).take(5).collect();
        assert!(first.iter().zip(FIRST).all(|(line, (command, _))| line.trim().starts_with(command)), "{page}");
        assert!(FIRST.iter().any(|(command, _)| *command == "hairpin paths"), "what this host supports");
        assert!(page.lines().count() <= 20 && page.lines().all(|line| line.chars().count() <= 80), "{page}");
        let narrow = narrowed(&page, 60);
        assert!(narrow.lines().all(|line| line.chars().count() <= 60), "{narrow}");
        assert_eq!(narrow.split_whitespace().collect::<Vec<_>>(), page.split_whitespace().collect::<Vec<_>>());
    }

    #[test]
    fn ages_are_in_the_largest_unit() {
        let ago = |seconds| age(&time::rfc3339(SystemTime::now() - Duration::from_secs(seconds))).unwrap();
        assert_eq!((ago(200), ago(7300), ago(200_000)), ("3 min ago".into(), "2 h ago".into(), "2 days ago".into()));
    }
}
