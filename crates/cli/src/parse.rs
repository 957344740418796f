//! The command line as clap reads it.
//!
//! Before clap come forms that it cannot take: `compare udp:spin tcp:spin`, a run as `-2`, the link's speed as `--rate 10G`, and
//! `-o json` where `-o` is older for a file.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{ArgMatches, Command, CommandFactory, FromArgMatches};
use hairpin_units::{BitRate, parse_decimal};

use crate::exit::{Failure, USAGE, be_quiet, say};
use crate::output::{self, print};
use crate::sides::takes_value;
use crate::terminal::colour;
use crate::verbs::Cli;
use crate::{deprecated, faults, front, habits, help, line, sides, version};

/// The most requests per second that `--rate` takes.
const MOST_RATE: f64 = 1e7;

/// The commands and flags, with the themes of `--help` and the examples.
pub fn command() -> Command {
    help::dressed(Cli::command())
}

/// Reads the command line; prints the answer itself where there is nothing to run.
pub fn read() -> Result<Cli, ExitCode> {
    let words: Vec<OsString> = std::env::args_os().collect();
    let mut command = command();
    command.build();
    let shown = |text: Result<String, Failure>| match text.and_then(|text| print(&text)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    };
    if words.len() < 2 || (words.len() == 2 && words[1] == "-h") {
        return Err(shown(Ok(front::page())));
    }
    if version::asked(&words) {
        return Err(shown(Ok(version::verbose())));
    }
    if let Some(text) = help::asked(&command, &words) {
        return Err(shown(text));
    }
    let words = rewritten(&command, words).map_err(Failure::report)?;
    let matches = self::command().try_get_matches_from(&words);
    let cli = matches.and_then(|matches| Ok((Cli::from_arg_matches(&matches)?, matches)));
    let (cli, matches) = cli.map_err(|error| answer(&command, &words, &error))?;
    let matches = deepest(matches);
    if matches.try_get_one::<bool>("quiet").is_ok_and(|quiet| quiet.is_some_and(|quiet| *quiet)) {
        be_quiet();
    }
    deprecated::tell(help::verb(&command, &words).0, &words);
    line::keep(words, matches, command);
    Ok(cli)
}

fn deepest(mut matches: ArgMatches) -> ArgMatches {
    while let Some((_, inner)) = matches.remove_subcommand() {
        matches = inner;
    }
    matches
}

/// The command line in the form that clap takes.
pub fn rewritten(command: &Command, mut words: Vec<OsString>) -> Result<Vec<OsString>, Failure> {
    let (verb, at) = help::verb(command, &words);
    if matches!(verb.get_name(), "ping" | "explain" | "compare") {
        link_rate(&mut words)?;
    }
    if matches!(verb.get_name(), "compare" | "show" | "export" | "rm" | "report" | "watch") {
        ages(verb, &mut words, at);
    }
    if verb.get_name() == "compare" {
        words = sides::parted(verb, words, at);
    }
    if verb.get_name() == "runs" {
        words = sides::shown(words, at);
        return if help::verb(command, &words).0.get_name() == "runs" { Ok(words) } else { rewritten(command, words) };
    }
    if matches!(verb.get_name(), "try" | "report" | "bounce") {
        words = forms(verb, words, at);
    }
    Ok(words)
}

/// Where `-o` is older, for a file or an interface, writes `--format` before the name of a form.
fn forms(verb: &Command, words: Vec<OsString>, at: usize) -> Vec<OsString> {
    let (mut rest, mut left) = (words[..at].to_vec(), words[at..].iter());
    while let Some(word) = left.next() {
        let text = word.to_str().unwrap_or_default();
        if text == "--" {
            rest.push(word.clone());
            break;
        }
        let joined = text.strip_prefix("-o").map(|form| form.trim_start_matches('=')).filter(|form| !form.is_empty());
        match joined {
            Some(form) if is_form(verb, form) => rest.push(format!("--format={form}").into()),
            None if takes_value(verb, text) => {
                let value = left.next();
                let form = value.and_then(|value| value.to_str()).is_some_and(|form| text == "-o" && is_form(verb, form));
                rest.push(if form { "--format".into() } else { word.clone() });
                rest.extend(value.cloned());
            }
            _ => rest.push(word.clone()),
        }
    }
    rest.extend(left.cloned());
    rest
}

/// True for the name of a form, unless the verb takes an interface there and one has that name.
fn is_form(verb: &Command, word: &str) -> bool {
    let interface = || verb.get_name() == "bounce" && Path::new("/sys/class/net").join(word).exists();
    output::forms(verb).iter().any(|form| form == word) && !interface()
}

/// Where `--rate` is the speed of a link, as it once was, writes `--link-rate`.
fn link_rate(words: &mut [OsString]) -> Result<(), Failure> {
    let mut told = words.iter().any(|word| word == "-q" || word == "--quiet");
    for at in 0..words.len() {
        let Some(word) = words[at].to_str() else { continue };
        let (value, joined) = match word.strip_prefix("--rate=") {
            Some(value) => (Some(value), true),
            None if word == "--rate" => (words.get(at + 1).and_then(|value| value.to_str()), false),
            None => continue,
        };
        let Some(value) = value.map(str::to_owned) else { continue };
        match means(&value) {
            Means::Requests => {}
            Means::Either => {
                return Err(Failure::usage(format_args!(
                    "--rate {value} may mean 10 million requests per second (--rate 10000000) or a link of 10 Mbit/s (--link-rate {value}): write which"
                )));
            }
            Means::Link => {
                if !std::mem::replace(&mut told, true) {
                    say(format_args!("hairpin: --rate {value} is taken as --link-rate {value}; --rate is requests per second"));
                }
                words[at] = if joined { format!("--link-rate={value}").into() } else { "--link-rate".into() };
            }
        }
    }
    Ok(())
}

enum Means {
    Requests,
    Link,
    Either,
}

/// The meaning of a value of `--rate`: up to 10 million it is requests per second; with a unit of bits, or more than any path can
/// do, a link's speed.
fn means(value: &str) -> Means {
    let plain = value.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    match (plain, value.parse::<BitRate>(), parse_decimal(value)) {
        (false, Ok(_), Some(rate)) if rate == MOST_RATE => Means::Either,
        (false, Ok(_), rate) if rate.is_none_or(|rate| rate > MOST_RATE) => Means::Link,
        _ => Means::Requests,
    }
}

/// Writes `-2`, the last run but one, as `latest~1`.
fn ages(verb: &Command, words: &mut [OsString], at: usize) {
    let is_flag = |digit: char| verb.get_arguments().any(|arg| arg.get_short() == Some(digit));
    let mut value = false;
    for word in &mut words[at..] {
        let Some(text) = word.to_str() else { continue };
        if text == "--" {
            return;
        }
        if std::mem::take(&mut value) {
            continue;
        }
        let digits = text.strip_prefix('-').filter(|digits| digits.bytes().all(|digit| digit.is_ascii_digit()));
        match digits.filter(|digits| !digits.starts_with(is_flag)).and_then(|digits| digits.parse::<usize>().ok()?.checked_sub(1))
        {
            Some(before) => *word = format!("latest~{before}").into(),
            None => value = takes_value(verb, text),
        }
    }
}

/// Prints why clap did not take the command line, in a line or two.
fn answer(command: &Command, words: &[OsString], error: &clap::Error) -> ExitCode {
    let (verb, _) = help::verb(command, words);
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            let text = error.render();
            let text = if colour() { text.ansi().to_string() } else { text.to_string() };
            return print(&text).map_or_else(Failure::report, |()| ExitCode::SUCCESS);
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            say(help::short(verb).trim_end());
            return ExitCode::from(USAGE);
        }
        _ => {}
    }
    for line in told(verb, error) {
        say(as_typed(verb, words, line));
    }
    ExitCode::from(USAGE)
}

/// The line with the name by which a flag was called, as `--until` for `--reply`.
fn as_typed(verb: &Command, words: &[OsString], line: String) -> String {
    let typed = |name: &&str| {
        let mut flags = words.iter().filter_map(|word| word.to_str()?.strip_prefix("--"));
        flags.any(|flag| flag.split('=').next() == Some(name))
    };
    verb.get_arguments().fold(line, |line, arg| {
        let other = arg.get_visible_aliases().unwrap_or_default().into_iter().find(typed);
        match (arg.get_long(), other) {
            (Some(name), Some(other)) => {
                let ends = [' ', ':', ','].into_iter();
                ends.fold(line, |line, end| line.replace(&format!("--{name}{end}"), &format!("--{other}{end}")))
            }
            _ => line,
        }
    })
}

/// The lines for an error of clap's: what is wrong, and what to write instead.
pub fn told(verb: &Command, error: &clap::Error) -> Vec<String> {
    if let Some(line) = habits::line(verb, error).or_else(|| faults::line(verb, error)) {
        return vec![format!("hairpin: {line}")];
    }
    let text = error.render().to_string();
    let paragraphs = text.split("\n\n").map(|lines| lines.split_whitespace().collect::<Vec<_>>().join(" "));
    let kept = |line: &String| {
        let noise =
            line.starts_with("Usage:") || line.starts_with("For more information") || line.contains("as a value, use '-- -");
        !line.is_empty() && !noise
    };
    let mut lines: Vec<String> = paragraphs.filter(kept).collect();
    if let Some(first) = lines.first_mut() {
        *first = format!("hairpin: {}", first.trim_start_matches("error: "));
    }
    if lines.len() < 2 && error.kind() != ErrorKind::ValueValidation {
        lines.push(format!("what it takes: {} -h", verb.get_bin_name().unwrap_or("hairpin")));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewrite(line: &str) -> String {
        let mut command = command();
        command.build();
        let words = line.split_whitespace().map(OsString::from).collect();
        let words = rewritten(&command, words).unwrap();
        words.iter().map(|word| word.to_str().unwrap()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn path_specs_are_sides_of_a_comparison() {
        for (typed, read) in [
            ("compare udp:spin tcp:spin", "compare -- udp:spin -- tcp:spin"),
            ("compare -t 5 udp tcp -s 64", "compare -t 5 -s 64 -- udp -- tcp"),
            ("compare --link veth --path udp --path=tcp", "compare --link veth -- udp -- tcp"),
            ("compare server -p udp -ptcp memory", "compare server -- udp -- tcp -- memory"),
            ("compare latest -2", "compare latest latest~1"),
            ("compare --link veth -- udp -- tcp", "compare --link veth -- udp -- tcp"),
            ("compare --path udp -6 -- --size 1", "compare --path udp -6 -- --size 1"),
            ("compare loopback veth -p udp", "compare --path udp -- loopback -- veth"),
            ("compare veth -p udp -- -s 64 -- -s 1k", "compare veth -p udp -- -s 64 -- -s 1k"),
            ("compare veth udp -- -s 64 -- -s 1k", "compare veth --path udp -- -s 64 -- -s 1k"),
            ("compare placements -p udp -p tcp", "compare placements -p udp -p tcp"),
            ("compare placements veth --for 300ms", "compare placements veth --for 300ms"),
            ("runs show -1", "runs show latest~0"),
            ("runs -2", "runs show latest~1"),
            ("runs latest -v", "runs show latest -v"),
            ("runs list -j", "runs list -j"),
            ("runs -j", "runs -j"),
            ("report -2 -o -3", "report latest~1 -o -3"),
        ] {
            assert_eq!(rewrite(&format!("hairpin {typed}")), format!("hairpin {read}"));
        }
    }

    #[test]
    fn an_older_o_takes_the_name_of_a_form_too() {
        for (typed, read) in [
            ("tune try -o json --yes -o won.toml", "tune try --format json --yes -o won.toml"),
            ("tune try loopback -ojson -o ./json", "tune try loopback --format=json -o ./json"),
            ("tune try --knob -o -o csv", "tune try --knob -o --format csv"),
            ("report latest -o md", "report latest --format md"),
            ("report latest -o json", "report latest --format json"),
            ("report latest -o table", "report latest --format table"),
            ("report latest -o ./json", "report latest -o ./json"),
            ("report latest -o svg -o one.svg", "report latest --format svg -o one.svg"),
            ("report latest --output md", "report latest --output md"),
            ("bounce -i lo -o json", "bounce -i lo --format json"),
            ("bounce -i lo -o eth1", "bounce -i lo -o eth1"),
            ("ping loopback -o json", "ping loopback -o json"),
        ] {
            assert_eq!(rewrite(&format!("hairpin {typed}")), format!("hairpin {read}"));
        }
    }

    #[test]
    fn a_rate_that_only_a_link_can_have_is_its_speed() {
        for (typed, read) in [
            ("ping loopback --rate 10G", "ping loopback --link-rate 10G"),
            ("explain loopback --rate=100Mbit", "explain loopback --link-rate=100Mbit"),
            ("ping loopback --rate 10k", "ping loopback --rate 10k"),
            ("ping loopback --rate 1000", "ping loopback --rate 1000"),
            ("ping loopback --rate 1M", "ping loopback --rate 1M"),
            ("load loopback --rate 10G", "load loopback --rate 10G"),
            ("ping loopback --rate", "ping loopback --rate"),
        ] {
            assert_eq!(rewrite(&format!("hairpin {typed}")), format!("hairpin {read}"));
        }
        let mut command = command();
        command.build();
        let words = ["hairpin", "ping", "--rate", "10M"].map(OsString::from).to_vec();
        assert!(rewritten(&command, words).is_err(), "10M may be either");
    }
}
