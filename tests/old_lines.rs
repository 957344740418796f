//! Command lines that scripts use: those of version 0.1.0, each with its exit code and the fields of its JSON (`old_lines.txt`),
//! and lines with the words of today (`new_lines.txt`), in a network namespace of the test's own.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use serde_json::Value;

use crate::support::alone::{self, Listed, Part};
use crate::support::asked::Asked;
use crate::support::net::{MAC_B, Net, ip, text, veth};
use crate::support::{HAIRPIN, Home, can, namespaces};

pub const PART: Part = Part::new("old_lines", || alone::listed(TESTS)).side_by_side();

const TESTS: &[Listed] = &[
    ("lines_of_scripts_do_what_they_did", |name| lines_do_what_they_say(name, include_str!("old_lines.txt"))),
    ("lines_with_the_words_of_today_do_what_they_say", |name| lines_do_what_they_say(name, include_str!("new_lines.txt"))),
];

/// A line, with the exit codes that it may have, and paths of fields of its JSON.
struct Line {
    codes: Vec<i32>,
    line: String,
    fields: Vec<String>,
}

/// The lines of each paragraph.
fn paragraphs(text: &str) -> Vec<Vec<Line>> {
    let of = |line: &str| {
        let (line, fields) = line.split_once("=>").unwrap_or((line, ""));
        let (codes, line) = line.split_once(' ').expect("a line");
        let codes = codes.split(',').map(|code| code.parse().expect("an exit code")).collect();
        Line { codes, line: line.trim().replace(['{', '}'], ""), fields: fields.split_whitespace().map(str::to_owned).collect() }
    };
    let lines = |paragraph: &str| paragraph.lines().filter(|line| !line.starts_with('#')).map(of).collect();
    text.split("\n\n").map(lines).filter(|lines: &Vec<Line>| !lines.is_empty()).collect()
}

/// A line is tried this often.
const TRIES: usize = 3;

/// The value at `results.0.path`.
fn at<'a>(record: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(record, |value, name| match name.parse::<usize>() {
        Ok(index) if value.is_array() => value.get(index),
        _ => value.get(name),
    })
}

fn lines_do_what_they_say(name: &str, text: &str) -> bool {
    if !can(name, namespaces(), "it takes root and namespaces") {
        return false;
    }
    let net = Net::new();
    net.enter();
    ip("link set lo up");
    veth("eth1", "eth2");
    let _asked = (Asked::start(7), Asked::start(6379));
    let home = Home::new();
    let mut bounce = home.start("bounce -i eth2 -p packet:block");
    bounce.until("Ctrl-C");
    let wrong = std::thread::scope(|scope| {
        let all: Vec<_> = paragraphs(text).into_iter().map(|lines| scope.spawn(move || wrong_of(lines))).collect();
        all.into_iter().flat_map(|one| one.join().expect("its lines")).collect::<Vec<String>>()
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    true
}

/// The faults of a paragraph's lines, each run in turn.
fn wrong_of(lines: Vec<Line>) -> Vec<String> {
    let home = Home::new();
    symlink(HAIRPIN, home.file("hairpin")).expect("a link");
    fs::write(home.file("hairpin.key"), "5".repeat(64)).expect("a key");
    fs::set_permissions(home.file("hairpin.key"), fs::Permissions::from_mode(0o600)).expect("chmod");
    let (_serve, host) = home.serve("");
    let (_keyed, keyed) = home.serve("--key-file hairpin.key");
    home.hairpin("ping --link loopback --path udp:spin --duration 200ms --warmup 0s -q").fails(0, &[]);
    let run = home.json("runs list")["runs"][0]["id"].as_str().expect("an id").to_owned();
    let path = format!("{}:{}", home.path().display(), std::env::var("PATH").unwrap_or_default());
    let mut wrong: Vec<String> = Vec::new();
    for Line { codes, line, fields } in lines {
        let mut script = line.clone();
        for (word, is) in
            [("HOST", &host), ("KEYED", &keyed), ("PID", &std::process::id().to_string()), ("MAC", &text(MAC_B)), ("RUN", &run)]
        {
            script = script.replace(word, is);
        }
        // A rate that means the link's speed is accepted and noted once; no other note appears.
        let told = ["ping", "explain", "compare"].iter().any(|verb| line.contains(&format!("hairpin {verb} ")));
        let told = usize::from(told && line.contains("--rate 10G"));
        let fault = || {
            let mut command = home.command("bash");
            command.args(["-c", &script]).env("PATH", &path);
            let done = home.spawn(command).done();
            let sound = done.code.is_some_and(|code| codes.contains(&code));
            let sound = sound && done.err.matches("is taken as --link-rate ").count() == told;
            let record: Value = serde_json::from_str(&done.out).unwrap_or_default();
            let lacking: Vec<&String> = fields.iter().filter(|field| at(&record, field).is_none()).collect();
            let fault = || format!("{script}: {:?}, without {lacking:?}\n{}{}", done.code, done.out, done.err);
            (!sound || !lacking.is_empty()).then(fault)
        };
        // A measurement can fail on a busy host.
        wrong.extend((1..TRIES).find_map(|_| fault().is_none().then_some(None)).unwrap_or_else(fault));
    }
    wrong
}
