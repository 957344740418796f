//! `hairpin ping --explain-above`: who made a round trip slow, the file of incidents, and its limits.

#[path = "../benches/caught/competitor.rs"]
mod competitor;

use std::env;
use std::fs::{self, File};
use std::process::{Command, ExitCode, Stdio};
use std::thread::sleep;
use std::time::Duration;

use self::competitor::{Judged, judge, wakes};
use crate::support::alone::{self, Listed, Part};
use crate::support::{Home, can, home_of_nobody, namespaces, namespaces_of_nobody, rows, two_cpus, unwrapped, workers_of};
use serde_json::Value;

pub const PART: Part = Part::new("caught", || alone::listed(TESTS)).playing(play);

const TESTS: &[Listed] = &[
    ("a_competitor_is_named_on_either_core", a_competitor_is_named_on_either_core),
    ("a_delayed_acknowledgement_is_named", a_delayed_acknowledgement_is_named),
    ("a_limit_by_a_percentile_follows_the_run", a_limit_by_a_percentile_follows_the_run),
    ("limits_and_a_full_disk_are_said_and_counted", limits_and_a_full_disk_are_said_and_counted),
    ("incidents_beyond_the_slowest_of_a_block_are_told_apart", incidents_beyond_the_slowest_of_a_block_are_told_apart),
    ("ctrl_c_leaves_whole_lines_and_the_table", ctrl_c_leaves_whole_lines_and_the_table),
    ("without_privilege_the_way_is_told_and_not_the_cause", without_privilege_the_way_is_told_and_not_the_cause),
    ("wrong_input_is_refused_in_words", wrong_input_is_refused_in_words),
];

/// The role of the competitor: `wakes`.
const WAKES: &str = "wakes";
/// The default file of incidents.
const FILE: &str = "incidents.jsonl";
const BUSY: Duration = Duration::from_millis(4);
/// The first block of a run has no hooks.
const FIRST: Duration = Duration::from_millis(700);
const EVERY: Duration = Duration::from_millis(80);

fn play(arguments: &[&str]) -> Option<ExitCode> {
    (*arguments == [WAKES]).then(|| wakes(FIRST, EVERY, BUSY).map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS))
}

fn lines(home: &Home, file: &str) -> Vec<Value> {
    let text = fs::read_to_string(home.file(file)).unwrap_or_default();
    assert!(text.is_empty() || text.ends_with('\n'), "the last line is whole");
    text.lines().map(|line| serde_json::from_str(line).expect("a line is JSON")).collect()
}

/// The incidents that a competitor caused, and how many of their lines tell all.
#[derive(Debug)]
struct Told {
    found: Judged,
    /// Lines whose stages add up to the RTT.
    staged: usize,
    /// Lines with the competitor's switch on its core.
    switched: usize,
    /// Lines with something that happened on the other core.
    elsewhere: usize,
}

/// What a line lists under this name.
fn each<'a>(line: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> {
    line[field].as_array().into_iter().flatten()
}

/// True if a line has stages that add up to its RTT; at most a little lies between two moments that make no stage.
fn adds_up(line: &Value) -> bool {
    let sum: u64 = each(line, "stages").filter_map(|stage| stage["ns"].as_u64()).sum();
    let rtt = line["rtt_ns"].as_u64().expect("an RTT");
    (1..=rtt).contains(&sum) && sum as f64 >= 0.9 * rtt as f64
}

/// True if a line has the switch to this thread on that CPU. On the server's CPU it may have come before the request was sent,
/// and is only seen leaving.
fn tells_of(line: &Value, cpu: u32, thread: &str) -> bool {
    each(line, "events").filter(|event| event["name"] == "sched_switch" && event["cpu"] == cpu).any(|event| {
        let detail = event["detail"].as_str().unwrap_or_default();
        let came = detail.split_once(" → ").is_some_and(|(_, to)| to.contains(thread));
        came || (cpu == 1 && detail.contains(thread))
    })
}

/// The incidents of a run that precedes all else on its cores, except a competitor on one of them.
fn beside(cpu: u32, link: &str, path: &str) -> Told {
    let home = Home::new();
    let this = env::current_exe().expect("this program");
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "chrt", "-f", "60", "taskset", "-c", &cpu.to_string()]).arg(this).args(["play", WAKES]);
    let told = home.file("wakes");
    let out = File::create(&told).expect("a file");
    let mut competitor = command.stdin(Stdio::null()).stdout(out).spawn().expect("setpriv of util-linux");
    let args = format!(
        "ping --link {link} --path {path} --cpu 0,1 --sched fifo:50 --duration 1500ms --warmup 50ms --explain-above 2ms --incidents-rate 1000"
    );
    let row = rows(&home.json(&args))[0].clone();
    competitor.kill().and_then(|()| competitor.wait()).expect("it ends");
    let read = |file| fs::read_to_string(file).expect("a file");
    let (text, told) = (read(home.file(FILE)), read(told));
    let (found, caused) = judge(&text, &told, competitor.id(), BUSY);
    let incidents = &row["incidents"];
    assert_eq!(incidents["written"], found.all, "{incidents}");
    assert_eq!(incidents["count"], incidents["written"], "{incidents}");
    let by_cause: u64 = incidents["causes"].as_array().expect("causes").iter().filter_map(|cause| cause["count"].as_u64()).sum();
    assert_eq!(incidents["count"], by_cause, "{incidents}");
    assert!(lines(&home, FILE).iter().all(|line| line["rtt_ns"].as_u64() > line["above_ns"].as_u64()));
    let caused: Vec<Value> = caused.into_iter().map(|line| serde_json::from_str(line).expect("a line is JSON")).collect();
    let thread = format!("({})", competitor.id());
    // The moments of the round trip have a side.
    let of_other = |event: &Value| event["side"].is_null() && event["cpu"] == 1 - cpu;
    Told {
        found,
        staged: caused.iter().filter(|line| adds_up(line)).count(),
        switched: caused.iter().filter(|line| tells_of(line, cpu, &thread)).count(),
        elsewhere: caused.iter().filter(|line| each(line, "events").any(of_other)).count(),
    }
}

fn a_competitor_is_named_on_either_core(name: &str) -> bool {
    can(name, namespaces() && two_cpus(), "BPF programs need root, and the two sides take CPUs 0 and 1") && {
        for (cpu, link, path) in [(0, "loopback", "udp:block"), (1, "loopback", "tcp:block"), (0, "veth", "packet:block")] {
            // A very busy host may let no round trip meet the competitor.
            let told = (0..3).map(|_| beside(cpu, link, path)).find(|told| told.found.caused >= 3);
            let told =
                told.unwrap_or_else(|| panic!("{path}: no run in which the competitor on CPU {cpu} made three round trips slow"));
            println!("caught: {path}, CPU {cpu}: {told:?}");
            let most = 0.95 * told.found.caused as f64;
            let all = [told.found.named, told.staged, told.switched].iter().all(|lines| *lines as f64 >= most);
            assert!(all && told.elsewhere > 0, "{path}, CPU {cpu}: {told:?}");
        }
        true
    }
}

/// Nagle's algorithm holds the second write of each message back until the first is acknowledged, and the other side waits with
/// that for some 40 ms.
fn a_delayed_acknowledgement_is_named(name: &str) -> bool {
    can(name, namespaces(), "BPF programs need root") && {
        let home = Home::new();
        let path = "tcp:block,writes=2,nodelay=off";
        home.json(&format!("ping --link loopback --path {path} --duration 1s --warmup 20ms --explain-above 20ms"));
        let causes: Vec<Value> = lines(&home, FILE).iter().map(|line| line["causes"][0]["cause"].clone()).collect();
        assert!(causes.iter().any(|cause| cause == "delayed ACK"), "{causes:?}");
        true
    }
}

/// The workers are stopped until a round trip took longer than three times the p99 of those before.
fn a_limit_by_a_percentile_follows_the_run(_: &str) -> bool {
    let home = Home::new();
    let mut run = home.start("ping --link loopback --path udp:block --forever --warmup 20ms --explain-above p99x3 --json");
    while fs::metadata(home.file(FILE)).map_or(0, |file| file.len()) == 0 {
        assert!(run.goes_on(), "{}", run.err());
        let workers = workers_of(run.pid());
        for (signal, lasts) in [("-STOP", 20), ("-CONT", 60)] {
            for pid in &workers {
                let done = Command::new("kill").args([signal, &pid.to_string()]).status().expect("kill");
                assert!(done.success(), "kill {signal} {pid}");
            }
            sleep(Duration::from_millis(lasts));
        }
    }
    run.signal("INT");
    let done = run.done();
    assert_eq!(done.code, Some(0), "{done:?}");
    let run = done.json();
    let [row] = rows(&run) else { panic!("{run}") };
    let number = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("{}, {}", row["incidents"], row["rtt_ns"]));
    let (above, limit) = (number(&row["incidents"]["above_ns"]), 3.0 * number(&row["rtt_ns"]["p99"]));
    assert!((above / limit - 1.0).abs() < 0.01, "{above} is not {limit}");
    assert!(row["incidents"]["above"] == "p99 x3" && number(&row["incidents"]["count"]) > 0.0, "{}", row["incidents"]);
    let lines = lines(&home, FILE);
    assert!(!lines.is_empty() && lines.iter().all(|line| line["rtt_ns"].as_u64() > line["above_ns"].as_u64()), "{lines:?}");
    let shown = home.hairpin("runs show latest");
    assert!(unwrapped(&shown.out).contains("above p99 x3 ("), "{shown:?}");
    true
}

/// Every round trip is above it.
const ALL: &str = "ping --link loopback --path udp:block --duration 500ms --warmup 20ms --explain-above 1ns";

fn limits_and_a_full_disk_are_said_and_counted(_: &str) -> bool {
    let home = Home::new();
    let done = home.hairpin(&format!("{ALL} --incidents-rate 4 --incidents-size 20k -v"));
    assert_eq!(done.code, Some(0), "{done:?}");
    // The table breaks by the length of the file's path.
    assert!(unwrapped(&done.out).contains("left out by --incidents-rate"), "{done:?}");
    let file = fs::metadata(home.file(FILE)).expect("the file").len();
    assert!(file <= 20_000, "{file}");
    let kept = lines(&home, FILE);
    assert!(kept.iter().all(|line| line["schema"] == "hairpin.incident/1") && !kept.is_empty());
    let run = home.json(&format!("{ALL} --incidents-rate 4 --incidents-size 100"));
    let found = &rows(&run)[0]["incidents"];
    let number = |name: &str| found[name].as_u64().expect(name);
    assert_eq!((number("written"), number("failed")), (0, 0), "{found}");
    assert_eq!(number("count"), number("over_rate") + number("over_size") + number("over_block"), "{found}");
    assert!(number("over_size") > 0 && number("count") == rows(&run)[0]["transactions"], "{found}");
    let done = home.hairpin(&format!("{ALL} --incidents /dev/full"));
    assert_eq!((done.code, done.err.matches("cannot write incidents to /dev/full").count()), (Some(0), 1), "{done:?}");
    assert!(unwrapped(&done.out).contains("that could not be written"), "{done:?}");
    true
}

/// The incidents of a row that count with this cause.
fn counted_as(found: &Value, cause: &str) -> u64 {
    each(found, "causes").filter(|one| one["cause"] == cause).filter_map(|one| one["count"].as_u64()).sum()
}

/// A second and the file have room for every line, and a block has more incidents than are explained.
fn incidents_beyond_the_slowest_of_a_block_are_told_apart(_: &str) -> bool {
    let home = Home::new();
    let run = home.json(&format!("{ALL} --incidents-rate 1000000 --incidents-size 1G"));
    let found = &rows(&run)[0]["incidents"];
    let number = |name: &str| found[name].as_u64().expect(name);
    assert_eq!((number("over_rate"), number("over_size"), number("failed")), (0, 0, 0), "{found}");
    assert!(number("over_block") > 0, "{found}");
    assert_eq!(number("count"), number("written") + number("over_block"), "{found}");
    assert_eq!(lines(&home, FILE).len() as u64, number("written"), "{found}");
    let by_cause: u64 = each(found, "causes").filter_map(|cause| cause["count"].as_u64()).sum();
    assert_eq!(number("count"), by_cause, "{found}");
    let passed_over = counted_as(found, "not looked at");
    assert!(passed_over <= number("over_block"), "{found}");
    // Without hooks none of them could be explained.
    assert!(passed_over > 0 || !namespaces(), "{found}");
    let shown = unwrapped(&home.hairpin("runs show latest").out);
    assert!(shown.contains("left out beyond the slowest of a block"), "{shown}");
    assert!(!shown.contains("left out by --incidents-rate"), "{shown}");
    true
}

fn ctrl_c_leaves_whole_lines_and_the_table(_: &str) -> bool {
    let home = Home::new();
    let mut run =
        home.start("ping --link loopback --path udp:block --forever --warmup 20ms --explain-above 1ns --incidents-rate 100000");
    while fs::metadata(home.file(FILE)).map_or(0, |file| file.len()) < 100_000 {
        assert!(run.goes_on(), "{}", run.err());
        sleep(Duration::from_millis(20));
    }
    run.signal("INT");
    let done = run.done();
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(done.out.contains("incidents: ") && done.out.contains("Main causes of the incidents"), "{done:?}");
    assert!(lines(&home, FILE).len() > 10);
    let shown = home.hairpin("runs show latest -v");
    assert!(shown.out.contains("Slowest 1: RTT"), "{shown:?}");
    true
}

fn without_privilege_the_way_is_told_and_not_the_cause(name: &str) -> bool {
    can(name, namespaces_of_nobody(), "another user needs root") && {
        let home = home_of_nobody();
        // The first block has no stages, and could take all lines of a second if few were allowed.
        let done = home.as_nobody(&format!("{ALL} --json --incidents runs/{FILE} --incidents-rate 10000"));
        assert_eq!(done.code, Some(0), "{done:?}");
        assert!(done.err.contains("no hooks in the kernel: ") && done.err.contains("CAP_BPF"), "{done:?}");
        let run = done.json();
        let found = &rows(&run)[0]["incidents"];
        assert_eq!(
            (&found["missing"][0]["hook"], &found["causes"][0]["cause"]),
            (&"BPF".into(), &"not explained".into()),
            "{found}"
        );
        assert_eq!(found["count"], counted_as(found, "not explained"), "{found}");
        let lines = lines(&home, &format!("runs/{FILE}"));
        let length = |line: &Value, field: &str| line[field].as_array().map_or(0, Vec::len);
        assert!(lines.iter().all(|line| length(line, "causes") == 0), "{lines:?}");
        assert!(lines.iter().any(|line| length(line, "stages") == 3), "{lines:?}");
        // No hook stamps this path, and those on the cores are missing all the same.
        let memory = "ping --link loopback --path memory:spin --duration 200ms --warmup 20ms --explain-above 5us";
        let done = home.as_nobody(&format!("{memory} --incidents runs/memory.jsonl"));
        assert!(done.code == Some(0) && done.err.contains("no hooks on the cores: "), "{done:?}");
        true
    }
}

fn wrong_input_is_refused_in_words(_: &str) -> bool {
    let home = Home::new();
    fs::write(home.file("notes"), "my notes\n").expect("a file");
    for (args, code, part) in [
        ("--explain-above soon", 2, "such as 200us"),
        ("--explain-above 1ms --incidents notes", 2, "something other than incidents"),
        ("--explain-above 1ms --incidents no/such/folder", 2, "--incidents"),
        ("--explain-above 1ms --outstanding 2", 2, "one request at a time"),
        ("--explain-above 1ms --size 1", 2, "takes 4 bytes, not 1"),
        ("--explain-above 1ms --raw raw.parquet", 2, "--raw"),
        ("--incidents x", 2, "--explain-above"),
    ] {
        home.hairpin(&format!("ping --link loopback --path udp --duration 100ms {args}")).fails(code, &[part]);
    }
    assert_eq!(fs::read_to_string(home.file("notes")).expect("a file"), "my notes\n");
    true
}
