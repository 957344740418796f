//! Words that a shell offers: verbs, flags, and the existing paths, links, settings and runs.
//!
//! ```text
//!   Tab ──▶ the function of `hairpin completions bash` ──▶ HAIRPIN_COMPLETE=bash hairpin -- WORD… ──▶ a word per line
//! ```

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, fs};

use clap::Command;
use clap_complete::Shell;
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter, complete};
use clap_complete::env::{self as shells, CompleteEnv, EnvCompleter, Shells};
use hairpin_lab::sweep::PLANS;
use hairpin_plan::option::Values;
use hairpin_plan::path;
use hairpin_plan::paths::{PATHS, sides};
use hairpin_session::message::Medium;
use hairpin_units::{Arrange, Gather};

use crate::exit::FAILED;
use crate::output::open_store;

/// Set by the script of a shell.
const VARIABLE: &str = "HAIRPIN_COMPLETE";
const NAME: &str = "hairpin";
const SHELLS: Shells<'static> = Shells(&[&Bash, &shells::Elvish, &Fish, &shells::Powershell, &Zsh]);
/// Number of the last runs that are offered.
const RUNS: usize = 10;

/// Prints the words for a shell that asks; `None` if none does.
pub fn answer(command: fn() -> Command) -> Option<ExitCode> {
    let asked = CompleteEnv::with_factory(|| with_values(command())).var(VARIABLE).shells(SHELLS);
    match asked.try_complete(env::args_os(), env::current_dir().ok().as_deref()) {
        Ok(false) => None,
        Ok(true) => Some(ExitCode::SUCCESS),
        // A message in the middle of a line would disturb.
        Err(_) => Some(ExitCode::from(FAILED)),
    }
}

/// The script that a shell reads once, to ask for words from then on.
///
/// # Errors
/// The shell is none of these, or the script cannot be written.
pub fn script(shell: Shell) -> io::Result<String> {
    let mut text = Vec::new();
    let shell = SHELLS
        .completer(&shell.to_string())
        .ok_or(io::ErrorKind::Unsupported)?
        .write_registration(VARIABLE, NAME, NAME, NAME, &mut text);
    shell.map(|()| String::from_utf8_lossy(&text).into_owned())
}

fn with_values(command: Command) -> Command {
    let verb = command.get_name().to_owned();
    let command = command.mut_args(|arg| match offer(&verb, arg.get_id().as_str()) {
        Some(offer) => arg.add(ArgValueCompleter::new(move |text: &OsStr| candidates(offer, text))),
        None => arg,
    });
    command.mut_subcommands(with_values)
}

/// Words that may stand where this text does; those that do not begin with it are left out later.
type Offer = fn(&str) -> Vec<String>;

fn candidates(offer: Offer, text: &OsStr) -> Vec<CompletionCandidate> {
    let Some(text) = text.to_str() else { return Vec::new() };
    offer(text).into_iter().filter(|word| word.starts_with(text)).map(CompletionCandidate::new).collect()
}

/// The source of the words for a flag or an argument of a verb; `None` if nothing is offered.
fn offer(verb: &str, id: &str) -> Option<Offer> {
    Some(match (verb, id) {
        (_, "paths") => specs,
        ("paths", "names") => |text| [links(), specs(text)].concat(),
        (_, "io") => |text| {
            specs(text).into_iter().filter(|spec| sides(spec)[0].is_some_and(|path| path.route.has_packet_ring())).collect()
        },
        ("stream", "link") => |_| veth(),
        (_, "link") => |_| links(),
        ("explain", "host") => |text| [links(), ports(), programs(text)].concat(),
        ("try", "host") => |_| links(),
        ("ping" | "load", "host") => places,
        ("stream", "place") => |_| [veth(), interfaces()].concat(),
        ("compare", "words") => |text| [links(), vec!["placements".into()], runs(text), specs(text)].concat(),
        ("show" | "export" | "rm", "run" | "runs") | ("watch", "what") | ("report", "runs") | (_, "baseline" | "fit") => runs,
        ("list" | "revert", "names" | "knobs") => knobs,
        ("apply", "settings") => |text| [settings(text), files(text)].concat(),
        ("try" | "compare" | "sweep", "knobs") => settings,
        ("sweep", "plan") => |text| [PLANS.iter().map(|(name, _)| name.clone()).collect(), links(), files(text)].concat(),
        (_, "interface" | "out_of") | ("bounce", "on") => |_| interfaces(),
        ("mesh", "pairs") => |_| ["all", "ring", "neighbours", "sample:"].map(str::to_owned).into(),
        _ => return None,
    })
}

/// Path specs: the names, and behind a name its policies and options.
fn specs(text: &str) -> Vec<String> {
    let (before, last) = text.split_at(text.rfind([':', ',', '/']).map_or(0, |at| at + 1));
    let of = |path: &path::Path| path.policies.iter().map(|policy| policy.name().to_owned()).collect::<Vec<_>>();
    let side = before.rsplit('/').next().unwrap_or_default();
    let words = match side.split_once(':').map(|(name, _)| PATHS.iter().find(|path| path.name == name)) {
        Some(path) => path.map_or_else(Vec::new, |path| [of(path), options(path)].concat()),
        None => {
            let begun: Vec<_> = PATHS.iter().filter(|path| path.name.starts_with(last)).collect();
            let only = begun.len() == 1;
            let with = |path: &&path::Path| {
                // The policies of all paths at once would be too many.
                let policies = if only || path.name == last { of(path) } else { Vec::new() };
                let specs = policies.into_iter().map(|policy| format!("{}:{policy}", path.name));
                std::iter::once(path.name.to_owned()).chain(specs).collect::<Vec<_>>()
            };
            begun.iter().flat_map(|path| with(path)).collect()
        }
    };
    words.into_iter().map(|word| format!("{before}{word}")).collect()
}

/// Options of a path, with their values where these are words.
fn options(path: &path::Path) -> Vec<String> {
    let of = |option: &hairpin_plan::option::OptionDef| match option.values {
        Values::Words(words) => words.iter().map(|word| format!("{}={word}", option.name)).collect(),
        _ => vec![format!("{}=", option.name)],
    };
    path.options.iter().flat_map(|option| of(option)).collect()
}

fn veth() -> Vec<String> {
    vec!["veth".into()]
}

fn links() -> Vec<String> {
    let made = Medium::ALL.map(|medium| medium.name().to_owned());
    [vec!["loopback".into()], made.into(), vec!["netns:".into()]].concat()
}

fn places(_: &str) -> Vec<String> {
    let frames = interfaces().into_iter().map(|name| format!("frames:{name}"));
    links().into_iter().chain(["echo:".into()]).chain(frames).collect()
}

/// The TCP ports that somebody listens on, as targets.
fn ports() -> Vec<String> {
    let of = |line: &str| {
        let mut fields = line.split_whitespace().skip(1);
        let (local, state) = (fields.next()?, fields.nth(1)?);
        // TCP_LISTEN of the kernel's include/net/tcp_states.h.
        u16::from_str_radix(local.rsplit(':').next()?, 16).ok().filter(|_| state == "0A")
    };
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|file| fs::read_to_string(file).unwrap_or_default());
    let ports: BTreeSet<u16> = tables.iter().flat_map(|table| table.lines().skip(1).filter_map(of)).gather();
    ports.into_iter().map(|port| format!(":{port}")).collect()
}

/// The running programs without kernel threads; none for an empty `text`, as all of them would be too many.
fn programs(text: &str) -> Vec<String> {
    if text.is_empty() {
        return Vec::new();
    }
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten().map(|entry| entry.path());
    let named = |process: PathBuf| {
        let name = fs::read_to_string(process.join("comm")).ok()?;
        let runs_a_file = fs::read(process.join("cmdline")).is_ok_and(|line| !line.is_empty());
        runs_a_file.then(|| name.trim_end().to_owned()).filter(|name| !name.contains(char::is_whitespace))
    };
    processes.filter_map(named).gather::<BTreeSet<_>>().into_iter().collect()
}

fn interfaces() -> Vec<String> {
    let names = fs::read_dir("/sys/class/net").into_iter().flatten().flatten();
    let mut names: Vec<String> = names.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.arrange_by(Ord::cmp);
    names
}

/// All facts and settings of a host.
fn knobs(_: &str) -> Vec<String> {
    hairpin_tune::all().map(|knob| knob.name.to_owned()).collect()
}

/// The settings that can be changed.
fn settings(_: &str) -> Vec<String> {
    hairpin_tune::all().filter(|knob| knob.change.is_some()).map(|knob| format!("{}=", knob.name)).collect()
}

/// Runs by age and by id, the last one first; files if no run matches.
fn runs(text: &str) -> Vec<String> {
    let ids = open_store().ok().and_then(|store| store.ids().ok()).unwrap_or_default();
    let ages = ["latest", "latest~1"].into_iter().take(ids.len()).map(str::to_owned);
    let ids = ids.iter().rev().map(|id| id.as_str().to_owned()).filter(|id| id.starts_with(text)).take(RUNS);
    let runs: Vec<String> = ages.chain(ids).collect();
    if runs.iter().any(|run| run.starts_with(text)) { runs } else { files(text) }
}

fn files(text: &str) -> Vec<String> {
    let found = PathCompleter::any().complete(OsStr::new(text));
    found.iter().map(|file| file.get_value().to_string_lossy().into_owned()).collect()
}

/// The words that may stand last on the line.
fn offered(command: &mut Command, words: Vec<OsString>, here: Option<&Path>) -> io::Result<Vec<CompletionCandidate>> {
    let last = words.len().saturating_sub(1);
    let flag = words.last().is_some_and(|word| word.to_string_lossy().starts_with('-'));
    let is_flag = |word: &CompletionCandidate| word.get_value().to_string_lossy().starts_with('-');
    let mut found = complete(command, words, last, here)?;
    // Flags are offered behind a dash, or if nothing else fits.
    if !flag && found.iter().any(|word| !is_flag(word)) {
        found.retain(|word| !is_flag(word));
    }
    Ok(found)
}

/// The first line of a word's description.
fn help_of(word: &CompletionCandidate) -> Option<String> {
    Some(word.get_help()?.to_string().lines().next().unwrap_or_default().to_owned())
}

/// The word as bash has to read it, since bash puts it on the line as it comes: a file or a program may have any name, also one
/// with a command in it. `None` for a word with control characters.
fn escaped(word: &str) -> Option<String> {
    let mut text = String::with_capacity(word.len());
    for letter in word.chars() {
        if letter.is_control() {
            return None;
        }
        if letter.is_ascii() && !letter.is_ascii_alphanumeric() && !"%+,-./:=@_~".contains(letter) {
            text.push('\\');
        }
        text.push(letter);
    }
    Some(text)
}

/// As clap's own for bash, but its script splits the line itself: bash splits words at colons and equal signs, which path specs
/// have.
struct Bash;

impl EnvCompleter for Bash {
    fn name(&self) -> &'static str {
        shells::Bash.name()
    }

    fn is(&self, name: &str) -> bool {
        shells::Bash.is(name)
    }

    fn write_registration(&self, _: &str, _: &str, _: &str, _: &str, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(include_str!("complete.bash").as_bytes())
    }

    fn write_complete(
        &self,
        command: &mut Command,
        words: Vec<OsString>,
        here: Option<&Path>,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let words = offered(command, words, here)?;
        let mut words = words.iter().filter_map(|word| escaped(&word.get_value().to_string_lossy()));
        words.try_for_each(|word| writeln!(out, "{word}"))
    }
}

/// As clap's own for zsh, but without a space behind a word that goes on, such as the name of a setting.
struct Zsh;

impl EnvCompleter for Zsh {
    fn name(&self) -> &'static str {
        shells::Zsh.name()
    }

    fn is(&self, name: &str) -> bool {
        shells::Zsh.is(name)
    }

    fn write_registration(&self, _: &str, _: &str, _: &str, _: &str, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(include_str!("complete.zsh").as_bytes())
    }

    fn write_complete(
        &self,
        command: &mut Command,
        words: Vec<OsString>,
        here: Option<&Path>,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        // An unescaped colon parts the word from its purpose.
        let plain = |text: &str| text.replace('\\', "\\\\").replace(':', "\\:");
        offered(command, words, here)?.iter().try_for_each(|word| {
            let text = word.get_value().to_string_lossy();
            let kind = if text.ends_with(['=', ':', '/']) { "begun" } else { "whole" };
            let help = help_of(word).map_or_else(String::new, |help| format!(":{}", plain(&help)));
            writeln!(out, "{kind} {}{help}", plain(&text))
        })
    }
}

/// As clap's own for fish, but with flags as the others offer them.
struct Fish;

impl EnvCompleter for Fish {
    fn name(&self) -> &'static str {
        shells::Fish.name()
    }

    fn is(&self, name: &str) -> bool {
        shells::Fish.is(name)
    }

    fn write_registration(
        &self,
        variable: &str,
        name: &str,
        program: &str,
        completer: &str,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        shells::Fish.write_registration(variable, name, program, completer, out)
    }

    fn write_complete(
        &self,
        command: &mut Command,
        words: Vec<OsString>,
        here: Option<&Path>,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        offered(command, words, here)?.iter().try_for_each(|word| {
            let help = help_of(word).map_or_else(String::new, |help| format!("\t{help}"));
            writeln!(out, "{}{help}", word.get_value().to_string_lossy())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn specs_are_offered_word_by_word() {
        let begin = |text: &str| {
            candidates(specs, OsStr::new(text)).into_iter().map(|word| word.get_value().to_os_string()).collect::<Vec<_>>()
        };
        assert!(begin("").contains(&"tcp-crr".into()) && !begin("").contains(&"udp:spin".into()));
        assert_eq!(begin("mem"), ["memory", "memory:spin"].map(OsString::from));
        assert_eq!(begin("udp:sp"), ["udp:spin"]);
        assert!(begin("tcp:spin,quick").contains(&"tcp:spin,quickack=on".into()));
        assert!(begin("xdp:spin/ud").contains(&"xdp:spin/udp".into()));
        assert!(begin("upd:").is_empty());
    }

    #[test]
    fn explain_is_offered_ports_and_programs() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = format!(":{}", listener.local_addr().unwrap().port());
        let all = |text: &str| offer("explain", "host").unwrap()(text);
        assert!(all(":").contains(&port), "{:?}", all(":"));
        let own = fs::read_to_string("/proc/self/comm").unwrap();
        assert!(programs("h").contains(&own.trim_end().to_owned()), "{own}");
        assert!(!all("").iter().any(|word| word.starts_with("frames:") || word.starts_with("echo:")));
    }

    #[test]
    fn bash_reads_an_offered_word_as_it_is_meant() {
        for word in ["latest~1", "udp:spin,quickack=on", "frames:eth0.7", "--outstanding", ":6379", "größe.json"] {
            assert_eq!(escaped(word).as_deref(), Some(word));
        }
        assert_eq!(escaped("my $(id).json").as_deref(), Some("my\\ \\$\\(id\\).json"));
        assert_eq!(escaped("a\u{1b}[2J"), None);
        let offer: Offer = |_| vec!["redis`id`".into(), "redis-server".into()];
        let completer = ArgValueCompleter::new(move |text: &OsStr| candidates(offer, text));
        let mut command = Command::new("hairpin").arg(clap::Arg::new("host").add(completer));
        let mut out = Vec::new();
        let words = ["hairpin", "redis"].map(OsString::from).to_vec();
        Bash.write_complete(&mut command, words, None, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let has = |word: &str| text.lines().any(|line| line == word);
        assert!(has("redis\\`id\\`") && has("redis-server") && !has("redis`id`"), "{text}");
    }

    #[test]
    fn every_offer_is_of_a_flag_that_exists() {
        for (verb, id) in [
            ("ping", "host"),
            ("compare", "words"),
            ("show", "run"),
            ("rm", "runs"),
            ("watch", "what"),
            ("report", "runs"),
            ("compare", "baseline"),
            ("floor", "fit"),
            ("list", "names"),
            ("revert", "knobs"),
            ("apply", "settings"),
            ("try", "knobs"),
            ("sweep", "plan"),
            ("mesh", "pairs"),
            ("bounce", "io"),
            ("bounce", "out_of"),
            ("stream", "link"),
            ("stream", "place"),
            ("bounce", "on"),
            ("explain", "host"),
            ("paths", "names"),
        ] {
            let has = |command: &Command| command.get_name() == verb && command.get_arguments().any(|arg| arg.get_id() == id);
            let command = crate::parse::command();
            let there = command.get_subcommands().any(|inner| has(inner) || inner.get_subcommands().any(has));
            assert!(there && offer(verb, id).is_some(), "{verb} {id}");
        }
    }
}
