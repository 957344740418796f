//! Flags and verbs of other tools that users type by habit: those of ping, sockperf, netperf, iperf3, wrk2 and qperf.

use clap::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use hairpin_plan::path::Path;
use hairpin_plan::paths::{TCP, TCP_CRR, UDP};

use crate::help;
use crate::output::are_words;

/// Our flags that may be meant, by id, each with words that distinguish it from the others.
type Meant = &'static [(&'static str, &'static str)];

/// The flags of other tools.
const FLAGS: &[(&[&str], Meant)] = &[
    (&["-l", "--len", "--length"], &[("size", "a length"), ("sizes", "a length"), ("duration", "a time")]),
    (&["-m", "--msg-size", "--msg_size", "--message-size"], &[("size", ""), ("sizes", "")]),
    (&["-s", "--packetsize", "--packet-size"], &[("sizes", "")]),
    (&["-P", "--parallel", "--connections", "--streams"], &[("flows", "")]),
    (&["-T"], &[("threads", "a number"), ("timeout", "a time")]),
    (&["-R", "--mps", "--qps", "--rps", "--bandwidth", "--bitrate", "-b"], &[("rate", "")]),
    (&["-i", "--interval"], &[("rate", "ping's interval")]),
    (&["-p", "--port", "--bind", "-B"], &[("listen", "")]),
    (&["-J", "--json-output"], &[("json", "")]),
    (&["-d", "-t", "--time", "--test-time", "--runtime"], &[("duration", "")]),
    (&["-W", "--deadline"], &[("timeout", "")]),
    (&["-D", "--dirty", "--no-warmup"], &[("warmup", "")]),
    (&["-c", "-N", "--num", "--requests", "--iterations", "-n"], &[("count", "")]),
    (&["-A", "--affinity", "--cpu-affinity", "--pin"], &[("cpu", "")]),
    (&["-q", "--pipeline", "--depth"], &[("outstanding", "")]),
    (&["-I", "--bind-dev", "--iface", "--dev"], &[("interface", "")]),
    (&["-o", "--out", "--outfile", "--full-log"], &[("raw", "every sample"), ("file", ""), ("output", "")]),
    (&["--percentile", "--latency", "-L"], &[("percentiles", "")]),
];

/// Flags of other tools that have no flag here, and what to write instead.
const WORDS: &[(&[&str], &str)] = &[
    (
        &["-H", "--host", "--client", "-a", "--ip", "--server-ip", "--dest"],
        "the host is a word of its own, such as `hairpin ping HOST`",
    ),
    (&["--port"], "the port follows the host: HOST:PORT; a server that runs unmodified: hairpin explain :PORT"),
    (&["-u", "--udp", "--tcp", "--proto", "--protocol"], "the path says it: -p udp, -p tcp"),
    (&["-4", "--ipv4"], "IPv4 is the default on a link; a HOST is reached by the address that it has"),
    (&["-s", "--server"], "the other side is `hairpin serve`"),
    (&["-f", "--flood"], "without --rate the next request leaves as soon as its reply is there"),
    (&["--latency", "--percentile", "-L"], "the table has percentiles of latency at every rate, and -v more of them"),
];

/// Our name of a path, by netperf's.
static NETPERF: [(&str, &Path); 3] = [("TCP_RR", &TCP), ("UDP_RR", &UDP), ("TCP_CRR", &TCP_CRR)];

const VERBS: &[(&[&str], &str)] = &[
    (&["server", "sr", "listen", "-s"], "serve"),
    (&["-c"], "ping HOST"),
    (&["client", "ping-pong", "pp", "latency", "lat", "bench", "rtt"], "ping"),
    (&["under-load", "ul", "playback", "wrk", "throughput", "tp"], "load"),
    (&["pingmesh", "alltoall", "matrix", "clusterkit"], "mesh"),
    (&["trace", "profile", "analyze", "analyse", "why"], "explain"),
    (&["diff", "cmp", "vs"], "compare"),
    (&["doctor", "selftest", "test"], "check"),
    (&["ls", "history", "list", "results"], "runs"),
    (&["show", "last", "latest"], "runs show"),
    (&["plot", "graph", "html"], "report"),
    (&["sysctl", "apply", "tuned", "set"], "tune"),
    (&["reflect", "testpmd", "l2fwd"], "bounce"),
    (&["pktgen", "flood"], "stream"),
];

/// The line for a flag or a verb of another tool.
pub fn line(verb: &Command, error: &clap::Error) -> Option<String> {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    match error.kind() {
        ErrorKind::UnknownArgument => flag(verb, text(ContextKind::InvalidArg)?),
        ErrorKind::ValueValidation | ErrorKind::InvalidValue => {
            value(verb, text(ContextKind::InvalidArg)?, text(ContextKind::InvalidValue)?)
        }
        ErrorKind::InvalidSubcommand => word(text(ContextKind::InvalidSubcommand)?),
        ErrorKind::ArgumentConflict if verb.get_name() == "compare" && text(ContextKind::InvalidArg)?.starts_with("--link ") => {
            Some("links are sides, and each is a word of its own: hairpin compare veth bridge".to_owned())
        }
        _ => None,
    }
}

/// The line for a value that another tool takes behind the same letter.
fn value(verb: &Command, arg: &str, given: &str) -> Option<String> {
    let ours = arg.split_whitespace().next()?;
    let arg = verb.get_arguments().find(|arg| arg.get_long().is_some_and(|long| ours.strip_prefix("--") == Some(long)))?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit());
    let has = |id: &str| verb.get_arguments().any(|arg| arg.get_id() == id);
    let meant = match arg.get_id().as_str() {
        "count" if has("host") && given.len() > 1 && given.starts_with(|first: char| first.is_ascii_alphabetic()) => {
            format!("a host is a word of its own: {} {given}", verb.get_bin_name().unwrap_or(verb.get_name()))
        }
        "paths" if given.parse::<u16>().is_ok() => format!("a port follows its host, as in HOST:{given}"),
        "format" if are_words(given) => {
            "another tool's lines show a run of `hairpin ping`: there, and in `hairpin runs show`".into()
        }
        "duration" => {
            let (_, path) = NETPERF.iter().find(|(test, _)| given.eq_ignore_ascii_case(test))?;
            format!("netperf's {given} is -p {}", path.name)
        }
        "rate" if has("request") => {
            let (request, reply) = given.split_once(',').filter(|(request, reply)| is_number(request) && is_number(reply))?;
            format!("netperf's sizes are --request {request} --reply {reply}")
        }
        _ => return None,
    };
    Some(format!("{given} is no value of {}: {meant}", help::name_with_letter(arg)))
}

fn flag(verb: &Command, given: &str) -> Option<String> {
    let given = given.split('=').next().unwrap_or(given);
    if verb.get_name() == "hairpin" {
        return word(given);
    }
    if !given.starts_with('-') {
        return too_many(verb, given);
    }
    let meant = FLAGS.iter().find(|(flags, _)| flags.contains(&given)).map_or(&[][..], |(_, meant)| meant);
    let ours = |(id, what): &(&str, &'static str)| {
        let arg = verb.get_arguments().find(|arg| arg.get_id() == *id && !arg.is_hide_set())?;
        Some((help::name_with_letter(arg), *what))
    };
    let mut ours: Vec<(String, &str)> = meant.iter().filter_map(ours).collect();
    // The first of several flags for the same purpose.
    ours.dedup_by_key(|(_, what)| *what);
    let named: Vec<String> = match &ours[..] {
        // These need a host as the target.
        [] if !verb.get_arguments().any(|arg| matches!(arg.get_id().as_str(), "host" | "words" | "listen")) => Vec::new(),
        [] => WORDS.iter().filter(|(flags, _)| flags.contains(&given)).map(|(_, text)| (*text).to_owned()).collect(),
        ours => {
            let named = |(name, what): &(String, &str)| if what.is_empty() { name.clone() } else { format!("{name} for {what}") };
            ours.iter().map(named).collect()
        }
    };
    (!named.is_empty()).then(|| format!("{given} is not used here: {}", named.join(", ")))
}

/// A word for which the verb has no place.
fn too_many(verb: &Command, given: &str) -> Option<String> {
    match verb.get_name() {
        "exec" => Some(format!("the command stands after --: hairpin exec -- {given}")),
        _ => Some(format!("one word too many, \"{given}\": {}", help::face_of(verb)?.usage())),
    }
}

fn word(given: &str) -> Option<String> {
    let (_, ours) = VERBS.iter().find(|(words, _)| words.contains(&given))?;
    Some(match given.starts_with('-') {
        true => format!("{given} is not used here: hairpin {ours}"),
        false => format!("there is no verb \"{given}\": hairpin {ours}"),
    })
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;

    #[test]
    fn a_host_goes_behind_the_whole_verb() {
        let mut command = crate::parse::command();
        command.build();
        let words = ["hairpin", "tune", "try", "-c", "server"].map(OsString::from).to_vec();
        let (verb, _) = help::verb(&command, &words);
        let error = crate::parse::command().try_get_matches_from(&words).unwrap_err();
        assert!(line(verb, &error).is_some_and(|line| line.ends_with(": hairpin tune try server")), "{error}");
    }

    #[test]
    fn every_habit_leads_to_a_flag_and_a_verb_that_exist() {
        let command = crate::parse::command();
        for (flags, meant) in FLAGS {
            for (id, _) in *meant {
                let has = |verb: &Command| verb.get_arguments().any(|arg| arg.get_id() == *id);
                let there = command.get_subcommands().any(|verb| has(verb) || verb.get_subcommands().any(has));
                assert!(there, "{flags:?} leads to {id}, which no verb has");
            }
        }
        for (_, verb) in VERBS {
            let verb = verb.trim_end_matches(" HOST");
            let words: Vec<_> = std::iter::once("hairpin").chain(verb.split(' ')).map(Into::into).collect();
            assert_eq!(help::verb(&command, &words).1, words.len(), "{verb}");
        }
    }
}
