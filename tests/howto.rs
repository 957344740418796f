//! The guides of docs/howto: the commands of each, run as they are written but for the time that measuring takes, in a network
//! namespace of the test's own.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::{env, iter};

use crate::support::alone::{self, Listed, Part};
use crate::support::net::Net;
use crate::support::{HAIRPIN, Home, can, namespaces};

pub const PART: Part = Part::new("howto", || alone::listed(TESTS)).side_by_side();

const TESTS: &[Listed] = &[
    ("packets", |name| runs(name, "packets.md", &["xdp"])),
    ("slow_server", |name| runs(name, "slow-server.md", &["GET", "wake-up"])),
    ("which_is_faster", |name| runs(name, "which-is-faster.md", &["udp:spin", "p50 > +900%"])),
    ("which_cores", |name| runs(name, "which-cores.md", &["stalls above"])),
    ("tune_a_host", |name| runs(name, "tune-a-host.md", &["reverted"])),
    ("watch_a_link", |name| runs(name, "watch-a-link.md", &["hairpin_transactions_total{", "report.html"])),
    ("every_guide_is_run", every_guide_is_run),
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/howto")
}

/// The lines of all blocks that are marked as commands.
fn commands(page: &str) -> String {
    let text = fs::read_to_string(folder().join(page)).unwrap_or_else(|error| panic!("{page}: {error}"));
    let mut lines = text.lines();
    let mut script = String::new();
    while lines.by_ref().any(|line| line == "```sh") {
        lines.by_ref().take_while(|line| *line != "```").for_each(|line| script += &format!("{line}\n"));
    }
    assert!(script.contains("hairpin "), "{page} has no commands");
    // A reader needs a narrow interval; the test only needs a line that works.
    let shorter = [("1s", "200ms"), ("3s", "1s"), ("300ms", "50ms")];
    let script = shorter
        .iter()
        .fold(script, |script, (reader, test)| script.replace(&format!("--duration {reader}"), &format!("--duration {test}")));
    let mut parts = script.split("--for ");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |script, rest| script + "--for 1" + rest.trim_start_matches(|each: char| each.is_ascii_digit()))
}

/// Runs a guide; its output must have these words.
fn runs(name: &str, page: &str, words: &[&str]) -> bool {
    if !can(name, namespaces(), "it takes root and namespaces") {
        return false;
    }
    let home = Home::new();
    let folder = home.file("bin");
    fs::create_dir(&folder).expect("a folder");
    symlink(HAIRPIN, folder.join("hairpin")).expect("a link");
    // Debian's redis-server is a link to redis-check-rdb, which looks at the name that it is called by, and whose package starts
    // no service.
    let path = env::var_os("PATH").unwrap_or_default();
    let found = |name: &str| env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file());
    if let Some(redis) = found("redis-server").or_else(|| found("redis-check-rdb")) {
        symlink(redis, folder.join("redis-server")).expect("a link");
    }
    let net = Net::new();
    // The guide's background jobs end with it.
    let script = format!("ip link set lo up\ntrap 'kill $(jobs -p) 2>/dev/null || :' EXIT\n{}", commands(page));
    fs::write(home.file("guide.sh"), script).expect("a file");
    let mut command = home.command("nsenter");
    command.args([&format!("--net=/proc/{}/ns/net", net.pid()), "bash", "-eux", "guide.sh"]);
    command.env("PATH", env::join_paths(iter::once(folder).chain(env::split_paths(&path))).expect("paths"));
    let done = home.spawn(command).done();
    assert_eq!(done.code, Some(0), "{page}: {}\n{}", done.out, done.err);
    for word in words {
        assert!(done.out.contains(word) || done.err.contains(word), "{page}: no {word}:\n{}\n{}", done.out, done.err);
    }
    true
}

fn every_guide_is_run(_: &str) -> bool {
    let this = include_str!("howto.rs");
    let pages = fs::read_dir(folder()).expect("the guides").map(|entry| entry.expect("an entry").file_name());
    for page in pages.map(|name| name.into_string().expect("a plain name")) {
        assert!(this.contains(&format!("\"{page}\"")), "{page} is run by no test");
    }
    true
}
