//! The live view on a real terminal (tmux): its picture, its keys, its end, and the terminal afterwards.
//!
//! One test at a time: each measures. A test that cannot run here says so and is skipped; with
//! HAIRPIN_MUST_RUN=1 that is a failure.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

use crate::support::alone::{self, Listed, Part};
use crate::support::{HAIRPIN, Home, LIMIT, can, free_port, root, rows};
use serde_json::Value;

pub const PART: Part = Part::new("watch", || alone::listed(TESTS));

const TESTS: &[Listed] = &[
    ("a_run_is_drawn_and_keys_change_the_picture", a_run_is_drawn_and_keys_change_the_picture),
    ("quitting_keeps_the_run_and_the_terminal", quitting_keeps_the_run_and_the_terminal),
    ("signals_end_it_like_quitting", signals_end_it_like_quitting),
    ("the_view_keeps_off_the_measured_cores", the_view_keeps_off_the_measured_cores),
    ("a_small_terminal_is_told", a_small_terminal_is_told),
    ("a_stored_run_is_drawn", a_stored_run_is_drawn),
    ("a_stream_is_followed_in_a_file_and_in_a_pipe", a_stream_is_followed_in_a_file_and_in_a_pipe),
    ("a_running_server_is_drawn_stage_by_stage", a_running_server_is_drawn_stage_by_stage),
    ("without_a_terminal_there_is_no_view", without_a_terminal_there_is_no_view),
];

/// True if there is a tmux.
fn terminals(name: &str) -> bool {
    let here = Command::new("tmux").arg("-V").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|it| it.success());
    can(name, here, "no tmux here; install it to try the live view on a terminal")
}

/// A terminal of 100 by 30 in which a shell command runs; its server ends with this value.
struct Terminal<'a> {
    home: &'a Home,
    socket: PathBuf,
}

impl<'a> Terminal<'a> {
    /// `command` is of the shell, and its exit code is printed when it ends.
    fn start(home: &'a Home, command: &str) -> Terminal<'a> {
        // The server of the terminal before may still be about to end.
        static STARTED: AtomicU32 = AtomicU32::new(0);
        let socket = home.file(&format!("tmux-{}", STARTED.fetch_add(1, Ordering::Relaxed)));
        let terminal = Terminal { home, socket };
        let modes = r"stty -a | tr ' ' '\n' | grep -xE -- '-?(icanon|echo)' | tr '\n' ' '";
        let command = format!("{command}; echo \"ended with $?\"; echo \"modes: $({modes})\"; exec cat");
        terminal.tmux(&["new-session", "-d", "-x", "100", "-y", "30", "sh", "-c", &command]);
        terminal
    }

    fn tmux(&self, arguments: &[&str]) -> String {
        let mut command = self.home.command("tmux");
        command.arg("-S").arg(&self.socket).args(["-f", "/dev/null", "-u"]).args(arguments);
        command.env("TERM", "xterm-256color").env("LC_ALL", "C.UTF-8").env_remove("TMUX");
        let output = command.output().expect("tmux");
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// The text on the screen.
    fn text(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    /// The text with the lines that have scrolled away.
    fn all(&self) -> String {
        self.tmux(&["capture-pane", "-p", "-S", "-"])
    }

    fn press(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat());
    }

    /// Waits until `wanted` accepts the screen, and returns that.
    #[track_caller]
    fn until(&self, what: &str, wanted: impl Fn(&str) -> bool) -> String {
        let begun = Instant::now();
        loop {
            let text = self.text();
            if wanted(&text) {
                return text;
            }
            assert!(begun.elapsed() < LIMIT, "no {what} on\n{text}");
            sleep(Duration::from_millis(50));
        }
    }

    #[track_caller]
    fn shows(&self, part: &str) -> String {
        self.until(part, |text| text.contains(part))
    }

    /// Waits for the first figures.
    #[track_caller]
    fn measured(&self) -> String {
        let whole = |line: &str| line.starts_with("since start") && line.split_whitespace().count() > 8;
        self.until("figures", |text| text.lines().any(whole))
    }

    /// Waits for the command's end: the exit code, with the terminal as it was before.
    #[track_caller]
    fn ended(&self) -> String {
        let text = self.shows("modes: ");
        assert!(text.contains("modes: icanon echo"), "{text}");
        assert_eq!(self.tmux(&["display-message", "-p", "#{alternate_on} #{cursor_flag}"]).trim(), "0 1", "{text}");
        let all = self.all();
        let code = all.lines().find_map(|line| line.strip_prefix("ended with ")).expect("an exit code");
        assert_eq!(code.trim(), "0", "{all}");
        all
    }

    /// The hairpin that runs in it: the child of its shell.
    fn pid(&self) -> u32 {
        let shell = self.tmux(&["display-message", "-p", "#{pane_pid}"]);
        let shell = shell.trim();
        let children = fs::read_to_string(format!("/proc/{shell}/task/{shell}/children")).expect("children");
        children.split_whitespace().next().and_then(|pid| pid.parse().ok()).expect("a child")
    }
}

impl Drop for Terminal<'_> {
    fn drop(&mut self) {
        let mut command = self.home.command("tmux");
        let _ = command.arg("-S").arg(&self.socket).arg("kill-server").stderr(Stdio::null()).status();
    }
}

/// The figures of a line of the table: min p50 p90 p99 p99.9 max, trans/s, lost.
#[track_caller]
fn figures(text: &str, line: &str) -> Vec<f64> {
    let line = text.lines().find_map(|it| it.strip_prefix(line)).unwrap_or_else(|| panic!("no {line} in\n{text}"));
    line.split_whitespace().map(|word| word.parse().unwrap_or(f64::NAN)).collect()
}

/// The only run of the store.
fn stored(home: &Home) -> Value {
    home.json("runs show latest")
}

const PING: &str = "ping --watch --link loopback --path udp:spin --duration 60s --warmup 100ms";

/// A new run, and its picture once that shows two points in time.
fn two_points(home: &Home) -> (Terminal<'_>, String) {
    let terminal = Terminal::start(home, &format!("{HAIRPIN} {PING}"));
    let text = terminal.until("two points", |text| {
        text.contains("last ") && text.contains("Distribution since") && !text.contains("nothing yet")
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
    // A server that a busy host stops for long loses one or another.
    for _ in 0..2 {
        if lost(&text) > 0.0 {
            drop(terminal);
            (terminal, text) = two_points(&home);
        }
    }
    assert!(text.contains("hairpin ping loopback  udp:spin  64 B"), "{text}");
    assert!(text.contains("RTT p99 and p50 (dots) over time, us, log"), "{text}");
    let (now, whole) = (figures(&text, "last"), figures(&text, "since start"));
    // "last 1.0 s" has two words before its figures.
    for all in [&now[2..], &whole[..]] {
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
    terminal.press(&["p"]);
    let still = terminal.shows("PAUSED");
    sleep(Duration::from_millis(2500));
    assert_eq!(terminal.text(), still, "a paused picture stands still");
    terminal.press(&["p"]);
    terminal.until("another picture", |text| {
        !text.contains("PAUSED") && figures(text, "since start") != figures(&still, "since start")
    });
    true
}

fn quitting_keeps_the_run_and_the_terminal(name: &str) -> bool {
    if !terminals(name) {
        return false;
    }
    for key in ["q", "C-c"] {
        let home = Home::new();
        let terminal = Terminal::start(&home, &format!("{HAIRPIN} {PING}"));
        let text = terminal.measured();
        let seen = figures(&text, "since start");
        terminal.press(&[key]);
        let all = terminal.ended();
        assert!(all.contains("stored as ") && all.contains("ended early by the user"), "{key}: {all}");
        let run = stored(&home);
        assert_eq!((&run["interrupted"], &run["error"]), (&Value::Bool(true), &Value::Null), "{key}");
        let row = &rows(&run)[0];
        let us = |figure: &str| row["rtt_ns"][figure].as_f64().expect("a figure") / 1e3;
        // The last picture is a part of the record.
        assert!(us("min") <= seen[0] * 1.001 && seen[5] <= us("max") * 1.001, "{key}: {seen:?} in {}", row["rtt_ns"]);
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
        let terminal = Terminal::start(&home, &format!("{HAIRPIN} {PING}"));
        terminal.measured();
        let done = Command::new("kill").args([format!("-{signal}"), terminal.pid().to_string()]).status().expect("kill");
        assert!(done.success());
        terminal.ended();
        assert_eq!(stored(&home)["interrupted"], Value::Bool(true), "{signal}");
    }
    // A terminal that is gone.
    let home = Home::new();
    let terminal = Terminal::start(&home, &format!("{HAIRPIN} {PING}"));
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

fn the_view_keeps_off_the_measured_cores(name: &str) -> bool {
    if !terminals(name) {
        return false;
    }
    let home = Home::new();
    let terminal = Terminal::start(&home, &format!("{HAIRPIN} {PING}"));
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
        assert!(workers.iter().all(|cpu| !view.split(',').any(|part| part == cpu)), "the view on {view}, workers on {workers:?}");
    }
    true
}

fn a_small_terminal_is_told(name: &str) -> bool {
    if !terminals(name) {
        return false;
    }
    let home = Home::new();
    let terminal = Terminal::start(&home, &format!("{HAIRPIN} {PING}"));
    terminal.measured();
    terminal.tmux(&["resize-window", "-x", "60", "-y", "12"]);
    terminal.shows("This view needs 80 columns and 24 lines; here are 60 and 12.");
    terminal.tmux(&["resize-window", "-x", "160", "-y", "50"]);
    terminal.shows("Distribution since");
    terminal.press(&["q"]);
    terminal.ended();
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
            (seen[1] / us(row, "p50") - 1.0).abs() < 0.002 && (seen[5] / us(row, "max") - 1.0).abs() < 0.002,
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
    let ping = format!("{HAIRPIN} ping --link loopback --path udp --duration 4s --warmup 50ms --json-stream");
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
    assert!((figures(&late, "since start")[1] / p50 - 1.0).abs() < 0.002, "{p50}\n{late}");
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

/// A server and its client in this process, until the value is dropped.
struct Asked(Arc<AtomicBool>);

impl Asked {
    fn start(port: u16) -> Asked {
        let over = Arc::new(AtomicBool::new(false));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).expect("its port");
        let echo = move || {
            let (mut stream, _) = listener.accept().expect("the client");
            let mut bytes = [0; 64];
            while stream.read_exact(&mut bytes).and_then(|()| stream.write_all(&bytes)).is_ok() {}
        };
        let until = Arc::clone(&over);
        let ask = move || {
            let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("a connection");
            let mut bytes = [0; 64];
            while !until.load(Ordering::Relaxed) && stream.write_all(&bytes).and_then(|()| stream.read_exact(&mut bytes)).is_ok()
            {
            }
        };
        drop((spawn(echo), spawn(ask)));
        Asked(over)
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
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
        // "last 1.0 s" has two words before its figures.
        for [p50, p99, max, per_s] in [&now[2..], &all[..]].map(|line| [line[0], line[1], line[2], line[3]]) {
            assert!(p50 > 0.5 && p50 <= p99 && p99 <= max && per_s > 100.0, "{text}");
        }
        terminal.press(&["?"]);
        terminal.shows("goes on unseen");
        terminal.press(&["?", "p"]);
        let still = terminal.until("a still picture", |text| text.contains("PAUSED") && !text.contains("unseen"));
        sleep(Duration::from_millis(1500));
        assert_eq!(terminal.text(), still, "a paused picture stands still");
        terminal.press(&["p"]);
        let moved = terminal.until("another picture", |text| !text.contains("PAUSED") && whole(text) != whole(&still));
        terminal.press(&[key]);
        let all = terminal.ended();
        for part in ["us typical", "everything else:", "ended early by the user", "stored as "] {
            assert!(all.contains(part), "{key}: no \"{part}\" in {all}");
        }
        let record = stored(&home);
        assert_eq!((&record["schema"], &record["interrupted"]), (&"hairpin.explain-attached/1".into(), &Value::Bool(true)));
        // The last picture is a part of the record.
        let us = |figure: &str| record["totals"][0]["sum_ns"][figure].as_f64().expect("a figure") / 1e3;
        assert!(whole(&moved)[2] <= us("max") * 1.001 && (us("p50") / whole(&moved)[0]).ln().abs() < 0.7, "{key}: {moved}");
    }
    true
}

fn without_a_terminal_there_is_no_view(_name: &str) -> bool {
    let home = Home::new();
    home.hairpin("ping --link loopback --path udp --watch")
        .fails(2, &["--watch draws on a terminal, and this is none", "--json-stream"]);
    home.hairpin("ping --link loopback --path udp --watch --json-stream").fails(2, &["choose one"]);
    home.hairpin("ping --link loopback --path udp --watch --format json-stream").fails(2, &["choose one"]);
    home.hairpin("watch latest").fails(2, &["hairpin watch draws on a terminal, and this is none"]);
    home.hairpin("explain --live --port 1").fails(2, &["--live draws on a terminal, and this is none", "leave it out"]);
    home.hairpin("explain --live --link loopback --path udp").fails(2, &["--live watches a server that runs", "ping --watch"]);
    assert!(!home.runs().exists(), "nothing was measured");
    true
}
