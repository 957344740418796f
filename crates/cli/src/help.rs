//! Help in three sizes: a screen for `-h`, all of it by theme for `--help`, and topics that verbs share.

mod faces;

use std::ffi::OsString;
use std::io;

use clap::{Arg, Command};
pub use faces::{FACES, Face};

use hairpin_plan::request::presets;

use crate::exit::Failure;
use crate::narrow::narrowed;
use crate::terminal::width;

/// Columns of the short help.
const WIDTH: usize = 80;

/// The topic that ends with the list of presets.
const REQUESTS: &str = "requests";

/// Topics that verbs share.
pub const TOPICS: &[(&str, &str)] = &[
    (
        "link",
        "Where to: one word

  HOST[:PORT]      a host on which `hairpin serve` runs; port 24444
  loopback         this host with itself, over lo
  veth             two network namespaces made for the run
  veth:mtu=9000    keys: mtu, queues, tx-queues, gro, tso, rate, timestamps
  bridge, macvlan, vxlan, ipvlan, netkit    the same with that between them
  netns:A,B        between two namespaces that exist: a name, a path or a PID
  echo:HOST:PORT   any TCP or UDP echo service; with --request any server
  frames:IF        whatever returns Ethernet frames there; --rewrite, --dst-mac
  :PORT NAME PID   explain only: a server of this host that already runs

The link can be declared, so that its floor stands beside the figures:
  --wire 10G,twinax:3m,niq   rate, cable and NIC design; more: hairpin floor -h

Older flags say the same and stay: --link loopback, --link veth:mtu=9000,
--echo HOST:PORT, -i IF --reflector; explain --port N, --pid PID.
",
    ),
    (
        "paths",
        "A path is the way that a request takes: PATH[:POLICY][,OPTION=VALUE…]

  udp              UDP, both sides sleep until something comes
  udp:spin         both sides ask again and again: fastest, and a core each
  udp:spin/block   the client spins, the server sleeps
  tcp:quickack=on,spin      an option and a policy
  xdp:spin/udp     rings on this side, a kernel socket on the other

Policies: block, poll, epoll, spin, busy-poll, adaptive. `hairpin paths` lists
the paths, their options, and which of them this host has.
",
    ),
    (
        "units",
        "Numbers, times and rates

  100  64k  1.5M  2G     k, M, G: powers of 1000
  4Ki  64Ki  1Mi  2Gi    Ki, Mi, Gi: powers of 1024
  1,2,4  1..2048x2  10..50+10    several: listed, multiplied, added
  500ns  20us  1.5ms  10s  2m  1h    times; a bare number is seconds
  --rate 10k             requests per second
  --wire 10G             bits per second: the speed of a link
  2%                     a share

Times are shown in the unit that fits them: ns, us, ms or s.
",
    ),
    (
        REQUESTS,
        "Requests of your own, to a server that is there: echo:HOST:PORT, echo:/SOCKET

  --request redis-ping           a preset, from the list below
  --request 'text:PING\\r\\n'      the bytes; \\r \\n \\t \\0 \\\\ \\xHH
  --request 'hex:0d0a'  --request @FILE

  --until 7                      where a reply ends: after 7 bytes
  --until '\\r\\n'                 with a delimiter; '\\x0110=+4': 4 bytes after it
  --until length-prefix:4        its length comes first; 2le: little endian,
                                 4-4: the length counts itself
  --until http | resp            as the protocol says

~/.config/hairpin/requests.toml adds presets: docs/requests.md has its form.

",
    ),
    (
        "percentiles",
        "p50 is the typical round trip, p99 the one that 1 in 100 exceeds

  --percentiles 50,99,99.99    which ones to show

A percentile is shown if at least ten round trips lie beyond it: p99.9 takes
10000 of them. It is blank otherwise, as it would say little. With --rate each
round trip counts from the time it was due, so a stall is not left out.
",
    ),
];

/// The commands and flags with the themes of `--help` and the examples.
pub fn dressed(command: Command) -> Command {
    dress(command, "")
}

fn dress(command: Command, before: &str) -> Command {
    let name = command.get_name().to_owned();
    let verb = if name == "hairpin" { String::new() } else { format!("{before} {name}").trim_start().to_owned() };
    let command = command.mut_args(|arg| match theme(arg.get_id().as_str()) {
        Some(theme) if arg.get_help_heading().is_none() => arg.help_heading(theme),
        _ => arg,
    });
    let command = match face(&verb) {
        Some(face) => command.override_usage(face.usage()).after_long_help(examples(face)),
        None => command,
    };
    let command = command.mut_subcommands(|inner| dress(inner, &verb));
    if name == "hairpin" { by_theme(command) } else { command }
}

/// The verbs in the groups of the first page.
fn by_theme(command: Command) -> Command {
    let mut verbs = String::new();
    for (group, names) in crate::front::GROUPS {
        verbs.push_str(&format!("{}{}:\n", group[..1].to_uppercase(), &group[1..]));
        for name in names.split_whitespace() {
            let about = command.find_subcommand(name).and_then(Command::get_about).map(ToString::to_string).unwrap_or_default();
            verbs.push_str(&format!("  {name:13}{}", wrapped(&about, 15, 15).trim_start()));
        }
        verbs.push('\n');
    }
    command.help_template(format!("{{about}}\n\nUsage: hairpin VERB …\n\n{verbs}Options:\n{{options}}"))
}

/// The heading of a flag that no structure of flags gives one.
fn theme(id: &str) -> Option<&'static str> {
    Some(match id {
        "host" | "words" | "place" | "link" | "echo" | "reflector" | "interface" | "rewrite" | "dst_mac" | "key_file"
        | "ipv6" => "Where to",
        "port" | "pid" => "A program that runs",
        "floor" => "Declared link",
        "watch" | "metrics" | "raw" | "no_store" | "perfetto" | "timeline" | "json_stream" => "Output",
        _ => return None,
    })
}

/// The face of a verb, such as `tune try`.
pub fn face(verb: &str) -> Option<&'static Face> {
    FACES.iter().find(|face| face.verb == verb)
}

/// The face of a built command.
pub fn face_of(command: &Command) -> Option<&'static Face> {
    face(command.get_bin_name().unwrap_or_default().trim_start_matches("hairpin").trim_start())
}

fn examples(face: &Face) -> String {
    let lines: Vec<String> = face.examples.iter().map(|(line, what)| format!("  {line}\n      {what}")).collect();
    format!("Examples:\n{}", lines.join("\n"))
}

/// The verb that the words name, and the index of the word after it.
pub fn verb<'a>(command: &'a Command, words: &[OsString]) -> (&'a Command, usize) {
    let (mut verb, mut at) = (command, 1);
    while let Some(inner) = words.get(at).and_then(|word| verb.find_subcommand(word)) {
        (verb, at) = (inner, at + 1);
    }
    (verb, at)
}

/// The help that the command line asks for with `help` or `-h`; `None` if it asks for none. The command must be built.
pub fn asked(command: &Command, words: &[OsString]) -> Option<Result<String, Failure>> {
    if words.get(1).is_some_and(|word| word == "help") {
        let mut words = words.to_vec();
        words.remove(1);
        return Some(of_words(command, &words));
    }
    let (found, at) = verb(command, words);
    let left = words.get(at..).unwrap_or_default();
    let flags = left.iter().take_while(|word| *word != "--");
    let help = left.len() == 1 && left[0] == "help";
    (at > 1 && (help || flags.into_iter().any(|word| word == "-h"))).then(|| Ok(short(found)))
}

/// The help on the words after `help`.
fn of_words(command: &Command, words: &[OsString]) -> Result<String, Failure> {
    let Some(first) = words.get(1) else { return Ok(crate::front::page()) };
    if let Some((_, text)) = TOPICS.iter().find(|(topic, _)| first == topic) {
        let presets = if first == REQUESTS { presets::listed().map_err(Failure::usage)? } else { String::new() };
        return Ok(narrowed(&format!("{text}{presets}"), width(&io::stdout())));
    }
    let (found, at) = verb(command, words);
    if at < words.len() {
        let verbs = command.get_subcommands().filter(|verb| !verb.is_hide_set()).map(Command::get_name);
        let topics = TOPICS.iter().map(|(topic, _)| *topic);
        let all: Vec<&str> = verbs.chain(topics).collect();
        return Err(Failure::usage(format_args!(
            "there is no help on \"{}\"; there is on {}",
            words[at].to_string_lossy(),
            all.join(", ")
        )));
    }
    Ok(short(found))
}

/// The text of `-h` for a built command: usage, examples, the most used flags.
pub fn short(command: &Command) -> String {
    narrowed(&page(command), width(&io::stdout()))
}

/// The same in 80 columns.
fn page(command: &Command) -> String {
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let name = command.get_bin_name().unwrap_or("hairpin");
    let face = face_of(command);
    let mut text = wrapped(about.trim_end_matches('.'), 0, 0);
    text.push_str(&format!("\n  {}\n", face.map_or_else(|| format!("{name} COMMAND"), Face::usage)));
    if let Some(face) = face.filter(|face| !face.examples.is_empty()) {
        text.push('\n');
        let width = face.examples.iter().map(|(line, _)| line.chars().count()).max().unwrap_or(0);
        for (line, what) in face.examples {
            // A long text begins further to the left.
            let width = width.min((WIDTH - 4).saturating_sub(what.chars().count()));
            text.push_str(format!("  {line:width$}  {what}").trim_end());
            text.push('\n');
        }
    }
    let shown: Vec<(String, String)> = match face {
        Some(face) => face.flags.iter().filter_map(|(id, what)| row(command, id, what)).collect(),
        None => Vec::new(),
    };
    let inner = command.get_subcommands().filter(|inner| !inner.is_hide_set());
    let inner = inner.map(|inner| (inner.get_name().to_owned(), inner.get_about().map(ToString::to_string).unwrap_or_default()));
    for rows in [inner.collect(), shown] {
        let width = rows.iter().map(|(left, _)| left.chars().count()).max().unwrap_or(0);
        if width > 0 {
            text.push('\n');
        }
        for (left, what) in rows {
            let what = wrapped(&what, width + 4, width + 4);
            text.push_str(&format!("  {left:width$}  {}", what.trim_start()));
        }
    }
    text.push_str(&format!("\nall: {name} --help    hairpin help link|paths|units|requests\n"));
    text
}

/// A flag as a line of the short help, with its own text if `what` is empty.
fn row(command: &Command, id: &str, what: &str) -> Option<(String, String)> {
    let arg = command.get_arguments().find(|arg| arg.get_id() == id)?;
    let help = || arg.get_help().map(ToString::to_string).unwrap_or_default();
    let value = arg.get_value_names().map(|names| names.join(" ")).unwrap_or_default();
    let left = if arg.is_positional() {
        value
    } else {
        let value = if arg.get_action().takes_values() { format!(" {value}") } else { String::new() };
        let letter = arg.get_short().map_or("    ".into(), |letter| format!("-{letter}, "));
        format!("{letter}--{}{value}", arg.get_long().unwrap_or_default())
    };
    Some((left, if what.is_empty() { help() } else { what.to_owned() }))
}

/// The text in lines of 80 columns; the first begins at column `first`, the others at `rest`.
fn wrapped(text: &str, first: usize, rest: usize) -> String {
    let (mut out, mut column) = (" ".repeat(first), first);
    for (at, word) in text.split_whitespace().enumerate() {
        let long = word.chars().count();
        if at > 0 && column + 1 + long > WIDTH {
            out.push('\n');
            out.push_str(&" ".repeat(rest));
            column = rest;
        } else if at > 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += long;
    }
    out.push('\n');
    out
}

/// A flag as the user writes it.
pub fn name(arg: &Arg) -> String {
    match arg.get_long() {
        Some(long) => format!("--{long}"),
        None => arg.get_value_names().map(|names| names.join(" ")).unwrap_or_default(),
    }
}

/// The same, with its letter: `--size (-s)`.
pub fn name_with_letter(arg: &Arg) -> String {
    arg.get_short().map_or_else(|| name(arg), |letter| format!("{} (-{letter})", name(arg)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::{self, command};

    fn built() -> Command {
        let mut command = command();
        command.build();
        command
    }

    /// The words of a line as a shell parts them, without a starter (`sudo`, `srun`) and without pipes.
    fn words(line: &str) -> Vec<OsString> {
        let line = line.find("hairpin ").map_or(line, |at| &line[at..]).split(" | ").next().unwrap_or_default();
        let (mut words, mut quoted) = (vec![String::new()], false);
        for letter in line.chars() {
            match letter {
                '\'' => quoted = !quoted,
                ' ' if !quoted => words.push(String::new()),
                _ => words.iter_mut().last().unwrap().push(letter),
            }
        }
        words.into_iter().map(OsString::from).collect()
    }

    fn all(command: &Command) -> Vec<&Command> {
        command
            .get_subcommands()
            .filter(|inner| inner.get_name() != "help")
            .flat_map(|inner| [vec![inner], all(inner)].concat())
            .collect()
    }

    #[test]
    fn every_verb_has_a_screen_of_help() {
        let command = built();
        for verb in all(&command) {
            let text = page(verb);
            let name = verb.get_bin_name().unwrap();
            assert!(face_of(verb).is_some(), "{name} has no face");
            assert!(text.lines().count() <= 26, "{name} -h has {} lines:\n{text}", text.lines().count());
            let widest = text.lines().map(|line| line.chars().count()).max();
            assert!(widest <= Some(WIDTH), "{name} -h is {widest:?} columns wide:\n{text}");
            assert!(text.contains(&format!("{name} --help")), "{text}");
            for (_, what) in face_of(verb).map_or(&[][..], |face| face.examples) {
                assert!(text.contains(what), "{name} -h has no room for \"{what}\":\n{text}");
            }
        }
        for face in FACES {
            let words: Vec<OsString> = format!("hairpin {}", face.verb).split(' ').map(OsString::from).collect();
            let (verb, at) = verb(&command, &words);
            assert_eq!(at, words.len(), "there is no verb {}", face.verb);
            for (id, _) in face.flags {
                assert!(row(verb, id, "").is_some(), "hairpin {} has no {id}", face.verb);
            }
        }
    }

    #[test]
    fn a_narrow_terminal_breaks_no_word_of_a_help() {
        let verbs = built();
        let pages = all(&verbs).into_iter().map(page).chain(TOPICS.iter().map(|(_, text)| (*text).to_owned()));
        let words = |text: &str| text.replace('|', " ").split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        for page in pages {
            for columns in [60, 72] {
                let text = narrowed(&page, columns);
                assert!(text.lines().all(|line| line.chars().count() <= columns), "{columns}:\n{text}");
                assert_eq!(words(&text), words(&page));
            }
        }
    }

    #[test]
    fn a_letter_and_a_name_belong_to_one_flag() {
        for verb in all(&built()) {
            let mut seen = Vec::new();
            for arg in verb.get_arguments() {
                let letter = arg.get_short_and_visible_aliases().unwrap_or_default().into_iter().map(String::from);
                let aliases = arg.get_all_aliases().unwrap_or_default().into_iter().chain(arg.get_long()).map(str::to_owned);
                for name in letter.chain(aliases) {
                    assert!(!seen.contains(&name), "hairpin {} has {name} twice", verb.get_name());
                    seen.push(name);
                }
            }
        }
    }

    /// Scripts use the flags of version 0.1.0, which the file lists verb by verb.
    #[test]
    fn every_flag_of_version_0_1_0_is_taken() {
        let command = built();
        for line in include_str!("../../../tests/old_flags.txt").lines() {
            let (name, flags) = line.split_once(": ").unwrap();
            let words: Vec<OsString> = format!("hairpin {name}").split(' ').map(OsString::from).collect();
            let (verb, at) = verb(&command, &words);
            assert_eq!(at, words.len(), "hairpin {name}");
            for flag in flags.split(' ') {
                let long = |arg: &Arg| {
                    let mut names = arg.get_long().into_iter().chain(arg.get_all_aliases().unwrap_or_default());
                    names.any(|long| flag.strip_prefix("--") == Some(long))
                };
                let short = |arg: &Arg| arg.get_short().is_some_and(|letter| flag == format!("-{letter}"));
                assert!(verb.get_arguments().any(|arg| long(arg) || short(arg)), "hairpin {name} has no {flag}");
            }
        }
    }

    #[test]
    fn every_example_is_one_that_the_verb_takes() {
        for face in FACES {
            assert!(face.examples.len() <= 5, "{}", face.verb);
            for (example, _) in face.examples {
                let words = parse::rewritten(&built(), words(example)).unwrap();
                let parsed = command().try_get_matches_from(&words);
                assert!(parsed.is_ok(), "{example}: {}", parsed.unwrap_err());
            }
        }
    }

    #[test]
    fn topics_fit_a_screen() {
        for (topic, text) in TOPICS {
            assert!(text.lines().count() <= 24 && text.lines().all(|line| line.chars().count() <= WIDTH), "{topic}");
        }
    }

    #[test]
    fn help_is_asked_for_in_several_ways() {
        let command = built();
        let asked = |line: &str| asked(&command, &words(line)).map(|text| text.is_ok());
        for line in ["hairpin help ping", "hairpin ping help", "hairpin ping -h", "hairpin tune try -h", "hairpin help units"] {
            assert_eq!(asked(line), Some(true), "{line}");
        }
        for line in ["hairpin ping helper", "hairpin exec -- ls -h", "hairpin ping --help", "hairpin ping loopback"] {
            assert_eq!(asked(line), None, "{line}");
        }
        assert_eq!(asked("hairpin help wisdom"), Some(false));
    }

    #[test]
    fn the_long_help_has_the_verbs_by_theme() {
        let text = command().render_long_help().to_string();
        let at = |words: &str| text.find(words).unwrap_or_else(|| panic!("no {words}:\n{text}"));
        assert!(at("Measure:") < at("  ping ") && at("  ping ") < at("Understand:"), "{text}");
        assert!(at("Understand:") < at("  explain ") && at("  explain ") < at("Decide:"), "{text}");
        assert!(text.contains("--version") && text.contains("Exit codes:"), "{text}");
    }
}
