//! The live view on a real terminal (tmux): its picture, its keys, its end, and the terminal afterwards.
//!
//! One test at a time: each measures. A test that cannot run here says so and is skipped; with
//! HAIRPIN_MUST_RUN=1 that is a failure.

use std::fs;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::support::alone::{self, Listed, Part};
use crate::support::asked::Asked;
use crate::support::terminal::{Terminal, on_terminal_called, scripts, terminals};
use crate::support::{HAIRPIN, Home, LIMIT, can, free_port, links, root, rows, unwrapped};
use serde_json::Value;

pub const PART: Part = Part::new("watch", || alone::listed(TESTS)).side_by_side();

const TESTS: &[Listed] = &[
    ("a_run_is_drawn_and_keys_change_the_picture", a_run_is_drawn_and_keys_change_the_picture),
    ("quitting_keeps_the_run_and_the_terminal", quitting_keeps_the_run_and_the_terminal),
    ("signals_end_it_like_quitting", signals_end_it_like_quitting),
    ("the_view_keeps_off_the_measured_cores", the_view_keeps_off_the_measured_cores),
    ("every_size_of_terminal_is_drawn", every_size_of_terminal_is_drawn),
    ("a_key_pressed_during_a_resize_counts", a_key_pressed_during_a_resize_counts),
    ("the_first_bytes_of_a_key_stop_nothing", the_first_bytes_of_a_key_stop_nothing),
    ("a_pipe_sees_no_escape_codes", a_pipe_sees_no_escape_codes),
    ("a_stored_run_is_drawn", a_stored_run_is_drawn),
    ("a_stream_is_followed_in_a_file_and_in_a_pipe", a_stream_is_followed_in_a_file_and_in_a_pipe),
    ("a_running_server_is_drawn_stage_by_stage", a_running_server_is_drawn_stage_by_stage),
    ("without_a_terminal_there_is_no_view", without_a_terminal_there_is_no_view),
];

/// The units of figures in us, and of rates in 1/s.
const UNITS: [(&str, f64); 6] = [("ns", 1e-3), ("us", 1.0), ("ms", 1e3), ("s", 1e6), ("k/s", 1e3), ("M/s", 1e6)];
/// Figures have three digits.
const ROUNDED: f64 = 0.0055;

/// The figures of a line of the table: min p50 p90 p99 p99.9 max in us, trans/s, lost.
#[track_caller]
fn figures(text: &str, line: &str) -> Vec<f64> {
    let line = text.lines().find_map(|it| it.strip_prefix(line)).unwrap_or_else(|| panic!("no {line} in\n{text}"));
    let mut found: Vec<f64> = Vec::new();
    for word in line.split_whitespace() {
        match (UNITS.iter().find(|(unit, _)| *unit == word), found.last_mut()) {
            (Some((_, size)), Some(number)) => *number *= size,
            _ => found.push(word.trim_end_matches("/s").parse().unwrap_or(f64::NAN)),
        }
    }
    found
}

/// The number of incidents that a picture tells.
fn incidents(text: &str) -> Option<u64> {
    let text = unwrapped(text);
    let (_, told) = text.split_once("! incidents: ")?;
    told.split_once(" round trips above ")?.0.parse().ok()
}

/// The only run of the store.
fn stored(home: &Home) -> Value {
    home.json("runs show latest")
}

/// Enough round trips for every figure of the picture after two seconds, and most of the cores' time for others.
const PING: &str = "ping --watch --link loopback --path udp:block --pace 5000 --duration 60s --warmup 100ms";
/// A run that leaves the cores to others, for tests in which the picture plays no part.
const CALM: &str = "ping --watch --link loopback --path udp:block --pace 2000 --duration 60s --warmup 100ms";

/// A new run, and its picture once that shows two points in time, each of enough round trips for a median.
fn two_points(home: &Home) -> (Terminal<'_>, String) {
    let terminal = Terminal::start(home, &format!("{HAIRPIN} {PING}"));
    let text = terminal.until("two points", |text| {
        let median = |line: &str, at: usize| {
            text.lines().any(|it| it.starts_with(line)) && figures(text, line).get(at).is_some_and(|us| us.is_finite())
        };
        text.contains("Distribution since") && !text.contains("nothing yet") && median("last ", 2) && median("since start", 1)
    });
    (terminal, text)
}

fn a_run_is_drawn_and_keys_change_the_picture(name: &str) -> bool {
    if !terminals(name) {
        return false;
    }
    let home = Home::new();
    let lost = |text: &str| figures(text, "since start")[7];
    let (mut terminal, mut text) = two_points(&home);
    // A server that a busy host stops for long loses a request or two.
    for _ in 0..2 {
        if lost(&text) > 0.0 {
            drop(terminal);
            (terminal, text) = two_points(&home);
        }
    }
    assert!(text.contains("hairpin ping loopback  udp:block @5000/s  64 B"), "{text}");
    assert!(text.contains("RTT p99 and p50 (dots) over time, us, log"), "{text}");
    let (now, whole) = (figures(&text, "last"), figures(&text, "since start"));
    // "last 1.0 s" has a figure of its own.
    for all in [&now[1..], &whole[..]] {
        let [least, p50, .., max] = all[..6] else { panic!("{text}") };
        assert!(least > 0.1 && least <= p50 && p50 <= max && all[6] > 100.0 && all[7] == 0.0, "{all:?}:\n{text}");
    }
    assert!(text.contains("CPU of a core: client "), "{text}");
    terminal.press(&["s"]);
    terminal.shows("over time, us, linear");
    terminal.press(&["1"]);
    terminal.shows("RTT p50 over time");
    terminal.press(&["Tab"]);
    terminal.shows("RTT p90 and p50");
    terminal.press(&["?"]);
    terminal.shows("stored and printed");
    terminal.press(&["?"]);
    terminal.until("picture without the help", |text| !text.contains("stored and printed"));
    terminal.press(&["p"]);
    terminal.shows("PAUSED");
    // A screen may be looked at while it is drawn.
    sleep(Duration::from_millis(500));
    let still = terminal.text();
    sleep(Duration::from_millis(1500));
    assert_eq!(terminal.text(), still, "a paused picture stands still");
    terminal.press(&["p"]);
    // As text, since a figure that is not there yet is a number unlike itself.
    let line = |text: &str| text.lines().find(|line| line.starts_with("since start")).expect("figures").to_owned();
    terminal.until("another picture", |text| !text.contains("PAUSED") && line(text) != line(&still));
    true
}

fn quitting_keeps_the_run_and_the_terminal(name: &str) -> bool {
    if !terminals(name) {
        return false;
    }
    for key in ["q", "C-c"] {
        let quit = || {
            let home = Home::new();
            // Every round trip is an incident.
            let terminal = Terminal::start(&home, &format!("{HAIRPIN} {CALM} --explain-above 1ns"));
            // Room for what this host lacks, which stands before the incidents.
            terminal.tmux(&["resize-window", "-x", "160", "-y", "40"]);
            let caught = incidents(&terminal.until("incidents", |text| incidents(text) > Some(0)));
            let text = terminal.measured();
            terminal.press(&[key]);
            let all = terminal.ended();
            assert!(all.contains("stored as ") && all.contains("ended early by the user"), "{key}: {all}");
            let run = stored(&home);
            assert_eq!((&run["interrupted"], &run["error"]), (&Value::Bool(true), &Value::Null), "{key}");
            let kept = &rows(&run)[0]["incidents"];
            assert!(kept["count"].as_u64() >= caught, "{key}: {caught:?} of {kept}");
            (figures(&text, "since start"), run)
        };
        // If the host stood still during the run or the picture, there are too few samples for a median.
        let mut quitted = quit();
        for _ in 0..2 {
            if rows(&quitted.1)[0]["rtt_ns"]["p50"].is_null() || quitted.0[1].is_nan() {
                quitted = quit();
            }
        }
        let (seen, run) = quitted;
        let row = &rows(&run)[0];
        let us = |figure: &str| row["rtt_ns"][figure].as_f64().expect("a figure") / 1e3;
        // The last picture is a part of the record.
        assert!(
            us("min") <= seen[0] * (1.0 + ROUNDED) && seen[5] <= us("max") * (1.0 + ROUNDED),
            "{key}: {seen:?} in {}",
            row["rtt_ns"]
        );
        assert!((us("p50") / seen[1]).ln().abs() < 0.7, "{key}: {seen:?} and {}", row["rtt_ns"]);
    }
    true
}

fn signals_end_it_like_quitting(name: &str) -> bool {
    if !terminals(name) {
        return false;
    }
    for signal in ["TERM", "INT", "HUP"] {
        let home = Home::new();
        let terminal = Terminal::start(&home, &format!("{HAIRPIN} {CALM}"));
        terminal.measured();
        let done = Command::new("kill").args([format!("-{signal}"), terminal.pid().to_string()]).status().expect("kill");
        assert!(done.success());
        terminal.ended();
        assert_eq!(stored(&home)["interrupted"], Value::Bool(true), "{signal}");
    }
    // A terminal that is gone.
    let home = Home::new();
    let terminal = Terminal::start(&home, &format!("{HAIRPIN} {CALM}"));
    terminal.measured();
    let pid = terminal.pid();
    drop(terminal);
    let begun = Instant::now();
    while fs::exists(format!("/proc/{pid}")).unwrap_or(false) {
        assert!(begun.elapsed() < LIMIT, "{pid} outlives its terminal");
        sleep(Duration::from_millis(20));
    }
    assert_eq!(stored(&home)["interrupted"], Value::Bool(true), "hung up");
    true
}

/// The CPUs of a list as the kernel writes it: `0,2-5`.
fn cpus(list: &str) -> Vec<u32> {
    let number = |text: &str| text.parse::<u32>().expect("a CPU");
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        number(first)..=number(last)
    };
    list.split(',').flat_map(range).collect()
}

fn the_view_keeps_off_the_measured_cores(name: &str) -> bool {
    if !terminals(name) {
        return false;
    }
    let home = Home::new();
    let terminal = Terminal::start(&home, &format!("{HAIRPIN} {CALM}"));
    let text = terminal.measured();
    let pid = terminal.pid();
    let list = |task: &str| {
        let status = fs::read_to_string(format!("/proc/{task}/status")).unwrap_or_default();
        status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).map(|list| list.trim().to_owned())
    };
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("threads").flatten();
    let view = tasks.map(|task| format!("{pid}/task/{}", task.file_name().to_string_lossy()));
    let view =
        view.into_iter().find(|task| fs::read_to_string(format!("/proc/{task}/comm")).is_ok_and(|comm| comm.trim() == "view"));
    let view = list(&view.expect("a thread that draws")).expect("its CPUs");
    let workers: Vec<String> = crate::support::workers_of(pid).iter().filter_map(|pid| list(&pid.to_string())).collect();
    assert_eq!(workers.len(), 2, "{workers:?}");
    if text.contains("no CPU is left for this view") {
        assert!(std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() <= 2), "{text}");
    } else {
        let taken: Vec<u32> = workers.iter().flat_map(|list| cpus(list)).collect();
        assert!(cpus(&view).iter().all(|cpu| !taken.contains(cpu)), "the view on {view}, workers on {workers:?}");
    }
    true
}

fn every_size_of_terminal_is_drawn(name: &str) -> bool {
    if !terminals(name) {
        return false;
    }
    let home = Home::new();
    let port = free_port();
    let asked = Asked::start(port);
    let explain = root().then(|| (format!("explain --live :{port}"), "application"));
    for (verb, part) in [(CALM.to_owned(), "Distribution since")].into_iter().chain(explain) {
        for key in ["q", "C-c"] {
            let terminal = Terminal::start(&home, &format!("{HAIRPIN} {verb}"));
            terminal.shows(part);
            let sized = |columns: usize, lines: usize, wanted: &str| {
                terminal.tmux(&["resize-window", "-x", &columns.to_string(), "-y", &lines.to_string()]);
                let text = terminal.shows(wanted);
                let fits = text.lines().count() <= lines && text.lines().all(|line| line.chars().count() <= columns);
                assert!(fits, "{verb} at {columns} x {lines}:\n{text}");
            };
            sized(80, 24, part);
            sized(60, 20, "This view needs 80 columns and 24 lines; here are 60 and 20.");
            sized(140, 40, part);
            terminal.press(&[key]);
            terminal.ended();
        }
    }
    drop(asked);
    true
}

/// Both are there when the view, which waits between two frames, looks again.
fn a_key_pressed_during_a_resize_counts(name: &str) -> bool {
    if !terminals(name) {
        return false;
    }
    let home = Home::new();
    let terminal = Terminal::start(&home, &format!("{HAIRPIN} {CALM}"));
    terminal.shows("Distribution since");
    for (columns, help) in [("130", true), ("120", false)].repeat(5) {
        terminal.tmux(&["resize-window", "-x", columns, "-y", "40"]);
        terminal.press(&["?"]);
        terminal.until("answer to the key", |text| text.contains("stored and printed") == help);
    }
    terminal.press(&["q"]);
    terminal.ended();
    true
}

/// Those of Alt+[, which no others follow.
fn the_first_bytes_of_a_key_stop_nothing(name: &str) -> bool {
    if !terminals(name) {
        return false;
    }
    let home = Home::new();
    let terminal = Terminal::start(&home, &format!("{HAIRPIN} {CALM}"));
    terminal.measured();
    terminal.press(&["-H", "1b", "5b"]);
    // A picture may be on its way.
    sleep(Duration::from_secs(1));
    let before = terminal.text();
    terminal.until("another picture", |text| text != before);
    // The first q ends the sequence.
    terminal.press(&["q", "q"]);
    terminal.ended();
    true
}

/// Neither colours nor a bar, though TERM names a terminal that has both.
fn a_pipe_sees_no_escape_codes(_name: &str) -> bool {
    let home = Home::new();
    let mut lines = vec![
        "",
        "ping -h",
        "ping --help",
        "ping loopback -p udp -p tcp -c 20 --warmup 1ms",
        "runs",
        "report latest --format term",
        "tune check",
        "compare udp udp:spin -t 300ms --no-store",
        "ping loopback --watch",
        "ping loopback --msg-size 1",
    ];
    lines.extend(root().then_some("explain loopback -p udp -t 300ms --no-store"));
    lines.extend(links().then_some("ping veth -p udp -t 20ms --warmup 1ms --no-store -v"));
    for line in lines {
        let mut command = home.command("sh");
        command.args(["-c", &format!("{HAIRPIN} {line} 2>&1 | cat")]);
        command.env("TERM", "xterm-256color").env_remove("NO_COLOR").env_remove("CLICOLOR_FORCE");
        let done = home.spawn(command).done();
        assert!(!done.out.is_empty() && !done.out.contains('\u{1b}') && !done.out.contains('\r'), "{line}: {done:?}");
    }
    true
}

fn a_stored_run_is_drawn(name: &str) -> bool {
    if !terminals(name) {
        return false;
    }
    let home = Home::new();
    let run = home.json("ping --link loopback --path udp --path tcp --duration 500ms --warmup 50ms");
    let terminal = Terminal::start(&home, &format!("{HAIRPIN} watch latest"));
    let text = terminal.shows("row 1 of 2");
    let us = |row: usize, figure: &str| rows(&run)[row]["rtt_ns"][figure].as_f64().expect("a figure") / 1e3;
    let near = |text: &str, row: usize| {
        let seen = figures(text, "since start");
        assert!(
            (seen[1] / us(row, "p50") - 1.0).abs() < ROUNDED && (seen[5] / us(row, "max") - 1.0).abs() < ROUNDED,
            "{seen:?}\n{text}"
        );
    };
    near(&text, 0);
    assert!(text.contains("stored"), "{text}");
    terminal.press(&["Right"]);
    near(&terminal.shows("row 2 of 2"), 1);
    terminal.press(&["q"]);
    terminal.ended();
    true
}

fn a_stream_is_followed_in_a_file_and_in_a_pipe(name: &str) -> bool {
    if !terminals(name) {
        return false;
    }
    let home = Home::new();
    let ping = format!("{HAIRPIN} ping --link loopback --path udp --pace 2000 --duration 4s --warmup 50ms --json-stream");
    let mut shell = home.command("sh");
    shell.args(["-c", &format!("{ping} > run.jsonl")]);
    let mut writer = home.spawn(shell);
    let begun = Instant::now();
    while !home.file("run.jsonl").exists() && begun.elapsed() < LIMIT {
        sleep(Duration::from_millis(5));
    }
    let terminal = Terminal::start(&home, &format!("{HAIRPIN} watch run.jsonl"));
    let early = terminal.measured();
    assert!(!early.contains("  ended"), "{early}");
    let late = terminal.shows("  ended  ");
    let record = fs::read_to_string(home.file("run.jsonl")).expect("lines");
    let record: Value = serde_json::from_str(record.lines().last().expect("a line")).expect("the record");
    let p50 = rows(&record)[0]["rtt_ns"]["p50"].as_f64().expect("p50") / 1e3;
    assert!((figures(&late, "since start")[1] / p50 - 1.0).abs() < ROUNDED, "{p50}\n{late}");
    terminal.press(&["q"]);
    terminal.ended();
    writer.kill();
    drop(terminal);

    let terminal = Terminal::start(&home, &format!("{ping} --no-store | {HAIRPIN} watch -"));
    terminal.measured();
    // Keys come from the terminal, not from the pipe.
    terminal.press(&["s"]);
    terminal.shows("linear");
    terminal.shows("  ended  ");
    terminal.press(&["q"]);
    terminal.ended();
    true
}

fn a_running_server_is_drawn_stage_by_stage(name: &str) -> bool {
    if !terminals(name) || !can(name, root(), "BPF programs need root") {
        return false;
    }
    for key in ["q", "C-c"] {
        let home = Home::new();
        let port = free_port();
        let _asked = Asked::start(port);
        let terminal = Terminal::start(&home, &format!("{HAIRPIN} explain --live --port {port}"));
        let text =
            terminal.until("a second", |text| text.contains("last 1.") && text.contains(" -> ") && text.contains("application"));
        assert!(
            text.contains(&format!("hairpin explain :{port}")) && text.contains(&format!(" {})", std::process::id())),
            "{text}"
        );
        let whole = |text: &str| figures(text, "since start");
        let (now, all) = (figures(&text, "last"), whole(&text));
        // "last 1.0 s" has a figure of its own.
        for [p50, p99, max, per_s] in [&now[1..], &all[..]].map(|line| [line[0], line[1], line[2], line[3]]) {
            assert!(p50 > 0.5 && p50 <= p99 && p99 <= max && per_s > 100.0, "{text}");
        }
        terminal.press(&["?"]);
        terminal.shows("goes on unseen");
        terminal.press(&["?", "p"]);
        // The terminal may show a picture that is half drawn; the last line of the help goes last.
        let still = terminal.until("a still picture", |text| text.contains("PAUSED") && !text.contains('└'));
        sleep(Duration::from_millis(1500));
        assert_eq!(terminal.text(), still, "a paused picture stands still");
        terminal.press(&["p"]);
        let moved = terminal.until("another picture", |text| !text.contains("PAUSED") && whole(text) != whole(&still));
        terminal.press(&[key]);
        let all = terminal.ended();
        for part in ["us typical", "everything else:", "stored as "] {
            assert!(all.contains(part), "{key}: no \"{part}\" in {all}");
        }
        assert!(!all.contains("Incomplete"), "it goes on until its user ends it: {all}");
        let record = stored(&home);
        assert_eq!((&record["schema"], &record["interrupted"]), (&"hairpin.explain-attached/1".into(), &Value::Bool(true)));
        // The last picture is a part of the record.
        let us = |figure: &str| record["totals"][0]["sum_ns"][figure].as_f64().expect("a figure") / 1e3;
        assert!(
            whole(&moved)[2] <= (1.0 + ROUNDED) * us("max") && (us("p50") / whole(&moved)[0]).ln().abs() < 0.7,
            "{key}: {moved}"
        );
    }
    true
}

fn without_a_terminal_there_is_no_view(name: &str) -> bool {
    let home = Home::new();
    home.hairpin("ping --link loopback --path udp --watch")
        .fails(2, &["--watch draws on a terminal, but this is not one", "-o jsonl"]);
    home.hairpin("ping --link loopback --path udp --watch --json-stream").fails(2, &["choose one"]);
    home.hairpin("ping --link loopback --path udp --watch --format json-stream").fails(2, &["choose one"]);
    home.hairpin("watch latest").fails(2, &["hairpin watch draws on a terminal, but this is not one"]);
    home.hairpin("explain --live --port 1").fails(2, &["--live draws on a terminal, but this is not one", "leave it out"]);
    home.hairpin("explain --live --link loopback --path udp").fails(2, &["--live watches a server that runs", "ping --watch"]);
    assert!(!home.runs().exists(), "nothing was measured");
    if !scripts(name) {
        return false;
    }
    let dumb = on_terminal_called(&home, "dumb", "ping loopback --watch");
    assert!(dumb.code == Some(2) && dumb.out.contains("TERM is unset or dumb"), "{dumb:?}");
    true
}
