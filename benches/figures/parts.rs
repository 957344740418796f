//! The parts of the figures, with the minutes that each takes.

use std::path::{Path, PathBuf};

use super::super::record::Stop;

pub(crate) struct Part {
    pub(crate) name: &'static str,
    /// About as long as it takes, in minutes, once what it needs is compiled and installed.
    pub(crate) minutes: u32,
    pub(crate) what: &'static str,
    pub(crate) work: Work,
}

pub(crate) enum Work {
    /// A benchmark: its options when it is whole, and as short as it goes; and whether it takes `--resume`.
    Bench {
        whole: &'static [&'static str],
        short: &'static [&'static str],
        resumes: bool,
    },
    Commands(&'static [Said]),
}

/// A command whose text the docs quote.
pub(crate) struct Said {
    /// In the folder of the records.
    pub(crate) file: &'static str,
    pub(crate) words: &'static str,
    pub(crate) is_short: bool,
}

const fn bench(name: &'static str, minutes: u32, what: &'static str, short: &'static [&'static str]) -> Part {
    Part { name, minutes, what, work: Work::Bench { whole: &[], short, resumes: true } }
}

/// The same of a benchmark that begins anew after Ctrl-C.
const fn at_once(name: &'static str, minutes: u32, what: &'static str, short: &'static [&'static str]) -> Part {
    Part { name, minutes, what, work: Work::Bench { whole: &[], short, resumes: false } }
}

const fn said(file: &'static str, words: &'static str, is_short: bool) -> Said {
    Said { file, words, is_short }
}

pub(crate) const PARTS: &[Part] = &[
    Part {
        name: "peers",
        minutes: 55,
        what: "sockets against sockperf, own cost, 10^9 transactions",
        work: Work::Bench {
            whole: &["--long"],
            short: &["--pairs", "1", "--cells-only", "--cells", "udp-spin-loopback-64"],
            resumes: true,
        },
    },
    bench("equal", 6, "udp against a C program with connected sockets", &["--seconds", "2"]),
    bench("packet", 20, "packet rings against sockperf and testpmd", &["--pairs", "1", "--cells", "rtt-packet"]),
    at_once("niq", 2, "the emulated NIC: cost and timing", &["--seconds", "0.3"]),
    at_once("explain", 11, "what the hooks of explain take", &["--seconds", "1", "--rounds", "1"]),
    bench(
        "caught",
        36,
        "what --explain-above takes, and what it names",
        &["--pairs", "1", "--paths", "udp:spin", "--seconds", "5", "--every-ms", "200"],
    ),
    bench(
        "compare",
        150,
        "false alarms, and small differences that are there",
        &["--part", "null", "--trials", "1", "--seconds", "1"],
    ),
    at_once("check", 4, "how often check keeps each of its bounds", &["--runs", "1"]),
    at_once("load", 2, "lateness of an open loop, a stall", &["--seconds", "0.5", "--rounds", "1"]),
    bench("flows", 28, "many flows, io_uring", &["--pairs", "1", "--cells", "udp:epoll-256"]),
    bench("requests", 32, "requests to redis, nginx and memcached", &["--seconds", "1"]),
    at_once("watch", 6, "what looking on takes", &["--seconds", "1", "--rounds", "1"]),
    Part {
        name: "commands",
        minutes: 1,
        what: "what commands print that the docs quote",
        work: Work::Commands(&[
            said("ping/loopback.txt", "ping loopback --no-store", true),
            said("explain/udp-block.txt", "explain veth --path udp:block --duration 6s --no-store", false),
            said("load.txt", "load --link loopback --path udp:spin --duration 1s --no-store", false),
        ]),
    },
];

impl Part {
    /// The texts that docs quote, which it leaves in the folder of the records.
    pub(crate) fn texts(&self, directory: &Path) -> Vec<PathBuf> {
        match self.work {
            Work::Bench { .. } => vec![directory.join(self.name).join("table.txt")],
            Work::Commands(commands) => commands.iter().map(|said| directory.join(said.file)).collect(),
        }
    }
}

/// The parts with these names, in the order above; all parts if there are no names.
pub(crate) fn chosen(names: &[String]) -> Result<Vec<&'static Part>, Stop> {
    if let Some(name) = names.iter().find(|name| PARTS.iter().all(|part| part.name != **name)) {
        let all: Vec<&str> = PARTS.iter().map(|part| part.name).collect();
        return Err(Stop::Failed(format!("there is no part \"{name}\"; they are {}", all.join(", "))));
    }
    Ok(PARTS.iter().filter(|part| names.is_empty() || names.iter().any(|name| name == part.name)).collect())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::CommandFactory;

    use super::super::super::Input;
    use super::*;

    #[test]
    fn every_benchmark_is_a_part() {
        let input = Input::command();
        let benchmarks: BTreeSet<&str> = input.get_subcommands().map(clap::Command::get_name).collect();
        let parts: BTreeSet<&str> = PARTS.iter().map(|part| part.name).collect();
        assert_eq!(parts.len(), PARTS.len(), "a name twice");
        // `builds` compares two builds, and the figures are of one.
        let listed: BTreeSet<&str> = parts.into_iter().chain(["builds", "figures"]).filter(|name| *name != "commands").collect();
        assert_eq!(listed, benchmarks);
    }

    #[test]
    fn the_options_of_every_part_are_those_of_its_benchmark() {
        for part in PARTS {
            let Work::Bench { whole, short, resumes } = part.work else { continue };
            for options in [whole, short] {
                let more = resumes.then_some("--resume");
                let words = ["bench", part.name].into_iter().chain(options.iter().copied()).chain(more).chain(["--out", "x"]);
                if let Err(error) = Input::command().try_get_matches_from(words) {
                    panic!("{}: {error}", part.name);
                }
            }
        }
    }

    #[test]
    fn commands_leave_the_texts_that_are_quoted() {
        let texts = |name: &str| PARTS.iter().find(|part| part.name == name).unwrap().texts(Path::new("d"));
        assert_eq!(texts("peers"), [Path::new("d/peers/table.txt")]);
        assert!(texts("commands").contains(&PathBuf::from("d/ping/loopback.txt")));
    }

    #[test]
    fn parts_are_chosen_by_name_and_keep_their_order() {
        let names = |parts: &[&str]| {
            let parts: Vec<String> = parts.iter().map(|&part| part.to_owned()).collect();
            chosen(&parts).map(|parts| parts.iter().map(|part| part.name).collect::<Vec<_>>())
        };
        assert!(names(&["load", "peers"]).is_ok_and(|found| found == ["peers", "load"]));
        assert!(names(&[]).is_ok_and(|found| found.len() == PARTS.len()));
        let refused = names(&["peers", "pears"]);
        assert!(matches!(refused, Err(Stop::Failed(why)) if why.contains("\"pears\"; they are peers, equal")));
    }
}
