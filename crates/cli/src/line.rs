//! The command line: as it was typed, as clap read it, and which flags were given.

use std::ffi::OsString;
use std::sync::OnceLock;

use clap::parser::ValueSource;
use clap::{ArgMatches, Command};

use crate::help;

static READ: OnceLock<Read> = OnceLock::new();

struct Read {
    words: Vec<OsString>,
    /// Of the verb itself.
    matches: ArgMatches,
    command: Command,
}

/// Keeps what clap read of the command line, for all that follows; `command` knows every verb and flag.
pub fn keep(words: Vec<OsString>, matches: ArgMatches, command: Command) {
    // Set once in a process.
    let _ = READ.set(Read { words, matches, command });
}

/// The command line as it was typed, for the record.
pub fn typed() -> Vec<String> {
    std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect()
}

/// The command line as clap read it, from the verb on.
pub fn words() -> Vec<String> {
    let words = READ.get().into_iter().flat_map(|read| &read.words);
    words.skip(1).map(|word| word.to_string_lossy().into_owned()).collect()
}

/// Every verb and flag.
pub fn command() -> Option<&'static Command> {
    READ.get().map(|read| &read.command)
}

/// True if the user gave this flag to the verb, before any `--`.
pub fn was_given(id: &str) -> bool {
    READ.get().is_some_and(|read| is_given(&read.matches, id))
}

fn is_given(matches: &ArgMatches, id: &str) -> bool {
    // Fails for an id that the verb does not have.
    matches.try_contains_id(id).is_ok_and(|there| there) && matches.value_source(id) == Some(ValueSource::CommandLine)
}

/// The flags given to the verb, as the user writes them, without those with these ids and those that choose the output.
pub fn given_but(verb: &str, ids: &[&str]) -> Vec<String> {
    const OUTPUT: &[&str] = &["json", "csv", "markdown", "format", "no_store", "quiet", "verbose"];
    let Some(Read { matches, command, .. }) = READ.get() else { return Vec::new() };
    let Some(command) = command.find_subcommand(verb) else { return Vec::new() };
    let others = command.get_arguments().filter(|arg| !OUTPUT.contains(&arg.get_id().as_str()));
    let given = others.filter(|arg| !ids.contains(&arg.get_id().as_str()) && is_given(matches, arg.get_id().as_str()));
    given.map(help::name).collect()
}

/// The flags given to the verb without those with these ids, each with its value as a word of a command line.
pub fn words_but(verb: &str, ids: &[&str]) -> Vec<String> {
    let Some(Read { matches, command, .. }) = READ.get() else { return Vec::new() };
    let Some(command) = command.find_subcommand(verb) else { return Vec::new() };
    let others = command.get_arguments().filter(|arg| !ids.contains(&arg.get_id().as_str()));
    let given = others.filter(|arg| is_given(matches, arg.get_id().as_str()));
    given
        .flat_map(|arg| match arg.get_action().takes_values() {
            false => vec![help::name(arg)],
            true => {
                let values = matches.get_raw(arg.get_id().as_str()).into_iter().flatten();
                values.map(|value| format!("{}={}", help::name(arg), value.to_string_lossy())).collect()
            }
        })
        .collect()
}
