//! Wrong lines that clap finds, in our words: a flag without its value, words that exclude each other, and words that are
//! missing.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command};

use crate::help;

/// A value of each flag that takes one: by the flag's id, behind its verb where verbs differ, else by the name of its value. A
/// flag with a default or with listed values needs none.
const EXAMPLES: &str = "\
A,B: ns1,ns2
A-B: 24500-24599
ADDR: 192.0.2.1
ADDR[%IF][:PORT]: 239.255.0.1
ADDR[:PORT]: 127.0.0.1:24445
BDF: 0000:3b:00.0
CLIENT,SERVER: 0,1
CSV: recording.csv
DIR: /shared/mesh
END: resp
FILE: hairpin.key
FILE.toml: best.toml
HOOK: sock_recv_length
HOP: cut-through:300ns
HOST:PORT|/SOCKET: 127.0.0.1:7
HOST[:PORT]: server
IF: eth0
IF2: eth1
IMAGE: registry.example/hairpin:0.2
K: 3
LIBRARY: libonload.so
LINK: veth:mtu=9000
LIST: 2,3
MAC: 02:00:00:00:00:01
M|END: resp
N: 4
NAME: hpc
NAME=A,B,…: busy_poll_us=as-is,50
NAME=VALUE: busy_poll_us=50
NAMESPACE: ns1
NIC: niq
PERCENT: 5%
PID: 4711
PORT: 24446
P|rotate:N: rotate:8
RATE,CABLE,NIC: 10G,twinax:3m,niq
RUN: latest
SPEC: udp:spin
TIME: 10s
TIME|pN xF: 200us
TYPE:LENGTH: twinax:3m
US: 50
X: 0x8
allow_sched: fifo:50
bulk: tcp:2
compare fail_if: p99 > +5%
count: 10k
design: one-at-a-time
explain port: 6379
fail_if: p99 > 40us
frame: 64
hosts: n[1-8]
io: packet:spin
link_rate: 10G
output: report.html
pcie: gen3x8
percentiles: 50,99,99.99
perfetto: trace.json
rate: 10k
raw: samples.parquet
request: redis-ping
rewrite: macs
sizes: 64,1k
timeline: 3
tls_ca: ca.pem
tls_name: db.example
topology: topology.conf
vary: flows=1,4";

/// The line for an error that is one of these.
pub fn line(verb: &Command, error: &clap::Error) -> Option<String> {
    let named = |kind| match error.get(kind) {
        Some(ContextValue::String(name)) => vec![name.as_str()],
        Some(ContextValue::Strings(names)) => names.iter().map(String::as_str).collect(),
        _ => Vec::new(),
    };
    match error.kind() {
        ErrorKind::InvalidValue if named(ContextKind::InvalidValue) == [""] => {
            let arg = flag(verb, named(ContextKind::InvalidArg).first()?)?;
            Some(format!("{} takes {}, such as {}", help::name_with_letter(arg), values(arg), written(verb, arg)))
        }
        ErrorKind::ArgumentConflict => {
            let one = *named(ContextKind::InvalidArg).first().or(named(ContextKind::InvalidSubcommand).first())?;
            let others = named(ContextKind::PriorArg);
            match &others[..] {
                [] => None,
                [other] if *other == one => Some(format!("{} is there twice: leave one out", shown(one))),
                others => {
                    let others: Vec<String> = others.iter().map(|name| shown(name)).collect();
                    Some(format!("{} cannot be used with {}: leave out one or the other", shown(one), others.join(", ")))
                }
            }
        }
        ErrorKind::MissingRequiredArgument => {
            let missing = named(ContextKind::InvalidArg);
            let flags: Vec<&Arg> = missing.iter().filter_map(|name| flag(verb, name)).collect();
            if flags.is_empty() {
                let words: Vec<String> = missing.iter().map(|name| shown(name)).collect();
                return Some(format!("{} is missing: {}", words.join(", "), help::face_of(verb)?.usage()));
            }
            let names: Vec<String> = flags.iter().map(|arg| help::name(arg)).collect();
            let add: Vec<String> = flags.iter().map(|arg| written(verb, arg)).collect();
            Some(format!("a part of this line has no effect without {}: add {}", names.join(", "), add.join(" ")))
        }
        _ => None,
    }
}

/// The flag that clap calls `--size <N>` or `--window[=<RTT>]`.
fn flag<'a>(verb: &'a Command, name: &str) -> Option<&'a Arg> {
    let long = bare(name).strip_prefix("--")?;
    verb.get_arguments().find(|arg| arg.get_long() == Some(long))
}

/// A flag without the name of its value.
fn bare(name: &str) -> &str {
    name.split([' ', '[', '=']).next().unwrap_or(name)
}

/// A flag, or a word such as `<RUN>...` and `[HOST[:PORT]]`, as a sentence has it.
fn shown(name: &str) -> String {
    if name.starts_with('-') {
        return bare(name).to_owned();
    }
    let name = name.trim_end_matches("...");
    let word = name.strip_prefix(['<', '[']).and_then(|rest| rest.strip_suffix(['>', ']']));
    format!("the word {}", word.unwrap_or(name))
}

/// The values of a flag: those that are listed, else their name.
fn values(arg: &Arg) -> String {
    let listed: Vec<String> =
        arg.get_possible_values().iter().filter(|value| !value.is_hide_set()).map(|value| value.get_name().to_owned()).collect();
    match listed.is_empty() {
        true => arg.get_value_names().unwrap_or_default().iter().map(ToString::to_string).collect::<Vec<_>>().join(" "),
        false => listed.join("|"),
    }
}

/// A flag with a value that it takes, as a shell reads it.
fn written(verb: &Command, arg: &Arg) -> String {
    match example(verb, arg) {
        Some(value) if value.contains(' ') => format!("{} '{value}'", help::name(arg)),
        Some(value) => format!("{} {value}", help::name(arg)),
        None => help::name(arg),
    }
}

fn example(verb: &Command, arg: &Arg) -> Option<String> {
    if !arg.get_action().takes_values() {
        return None;
    }
    let of = |name: &str| {
        let mut all = EXAMPLES.lines().filter_map(|line| line.split_once(": "));
        all.find_map(|(known, value)| (known == name).then(|| value.to_owned()))
    };
    let id = arg.get_id().as_str();
    let default = || arg.get_default_values().first().map(|value| value.to_string_lossy().into_owned());
    let listed = || arg.get_possible_values().first().map(|value| value.get_name().to_owned());
    let of_its_value = || arg.get_value_names()?.first().and_then(|name| of(name.as_str()));
    of(&format!("{} {id}", verb.get_name())).or_else(|| of(id)).or_else(default).or_else(listed).or_else(of_its_value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(command: &Command) -> Vec<&Command> {
        command.get_subcommands().flat_map(|inner| [vec![inner], all(inner)].concat()).collect()
    }

    #[test]
    fn every_flag_has_an_example_that_it_takes() {
        let mut command = crate::parse::command();
        command.build();
        let mut used = Vec::new();
        for verb in all(&command) {
            let takes_one = |arg: &&Arg| {
                let optional = arg.get_num_args().is_some_and(|number| number.min_values() == 0);
                !arg.is_positional() && arg.get_action().takes_values() && !optional
            };
            for arg in verb.get_arguments().filter(takes_one) {
                let name = help::name(arg);
                let value = example(verb, arg).unwrap_or_else(|| panic!("{} {name} has no example", verb.get_name()));
                let words = [verb.get_name().to_owned(), format!("{name}={value}")];
                let wrong = verb.clone().try_get_matches_from(&words).err();
                let wrong = wrong.filter(|error| matches!(error.kind(), ErrorKind::ValueValidation | ErrorKind::InvalidValue));
                assert!(wrong.is_none(), "{words:?}: {}", wrong.unwrap());
                used.push(value);
            }
        }
        for (name, value) in EXAMPLES.lines().filter_map(|line| line.split_once(": ")) {
            assert!(used.iter().any(|used| used == value), "no flag has the example of {name}");
        }
    }

    #[test]
    fn a_name_is_shown_without_its_value() {
        for (name, is) in [
            ("--size <N>", "--size"),
            ("--window[=<RTT>]", "--window"),
            ("--drain [<FORM>]", "--drain"),
            ("--json", "--json"),
            ("[HOST[:PORT]]", "the word HOST[:PORT]"),
            ("<RUN>...", "the word RUN"),
            ("merge", "the word merge"),
        ] {
            assert_eq!(shown(name), is);
        }
    }
}
