//! The live line on a real terminal (tmux): what it shows while a verb measures, that it keeps to a terminal whose size changes,
//! and that nothing of it is left.

use std::fs;
use std::process::Command;
use std::sync::Mutex;
use std::thread::sleep;
use std::time::Duration;

use crate::support::alone::{self, Listed, Part};
use crate::support::asked::Asked;
use crate::support::terminal::{Terminal, terminals};
use crate::support::{HAIRPIN, Home, free_port, root};

pub const PART: Part = Part::new("live", || alone::listed(TESTS)).side_by_side();

const TESTS: &[Listed] = &[
    ("line_and_table_keep_to_a_terminal_that_gets_narrow", |name| line_and_table_keep_to_a_terminal(name, 60)),
    ("line_and_table_keep_to_a_terminal_that_gets_wide", |name| line_and_table_keep_to_a_terminal(name, 140)),
    ("every_verb_that_measures_has_the_line", every_verb_that_measures_has_the_line),
    (
        "a_check_that_is_interrupted_has_no_verdict_and_leaves_no_line",
        a_check_that_is_interrupted_has_no_verdict_and_leaves_no_line,
    ),
];

/// The lines of the running verb.
fn going(text: &str) -> Vec<&str> {
    text.lines().filter(|line| line.contains(" s left") || line.contains("─   takes ")).collect()
}

/// Changes the size, and waits for one line that goes on there and keeps to it.
#[track_caller]
fn sized(terminal: &Terminal<'_>, columns: usize, lines: usize, wanted: impl Fn(&str) -> bool) {
    // tmux tells a program of its size 4 times a second at most, and until then it draws for another one.
    sleep(Duration::from_millis(400));
    terminal.tmux(&["resize-window", "-x", &columns.to_string(), "-y", &lines.to_string()]);
    // Until the program knows the new size, the screen has the old lines, broken anew.
    let settled = |text: &str| {
        let mut rows = text.lines().filter(|line| *line != "before" && !line.trim().is_empty());
        matches!(going(text)[..], [line] if line.contains("RTT p50") && wanted(line)) && rows.all(|line| line.starts_with('['))
    };
    terminal.until(&format!("line at {columns} by {lines}"), settled);
    let all = terminal.all();
    assert_eq!(all.lines().filter(|line| *line == "before").count(), 12, "at {columns}:\n{all}");
}

/// Ends the verb. Ctrl-C would end the shell too.
fn interrupt(terminal: &Terminal<'_>) {
    let done = Command::new("kill").args(["-INT", &terminal.pid().to_string()]).status().expect("kill");
    assert!(done.success());
}

/// `last` is the last width of the terminal.
fn line_and_table_keep_to_a_terminal(name: &str, last: usize) -> bool {
    if !terminals(name) {
        return false;
    }
    let home = Home::new();
    let ping = "ping loopback -p udp -p udp:spin -p unix --for 90s --warmup 50ms --no-store";
    // Earlier text stays. tmux keeps the cursor's row, and makes room for lines that it breaks by moving the topmost off the
    // screen.
    let before = "before\n".repeat(12);
    fs::write(home.file("before"), before).expect("a file");
    let terminal = Terminal::start(&home, &format!("cat {}; {HAIRPIN} {ping}", home.file("before").display()));
    let bar = |line: &str| line.contains('━');
    sized(&terminal, 100, 30, bar);
    sized(&terminal, 60, 20, |line| !bar(line) && line.chars().count() <= 60);
    sized(&terminal, 140, 40, |line| bar(line) && line.contains("/s"));
    sized(&terminal, 80, 24, |line| line.chars().count() <= 80);
    sized(&terminal, last, 24, |_| true);
    interrupt(&terminal);
    terminal.ended();
    // With -J, a line that the terminal broke is one line.
    let all = terminal.tmux(&["capture-pane", "-p", "-J", "-S", "-"]);
    let table: Vec<&str> = all.lines().map(str::trim_end).take_while(|line| !line.starts_with("ended with")).collect();
    assert!(going(&all).is_empty() && table.iter().any(|line| line.contains("RTT p50")), "{all}");
    let widest = table.iter().map(|line| line.chars().count()).max().unwrap_or(0);
    assert!(widest <= last && (last < 110 || widest > 100), "{widest} columns of {last}:\n{all}");
    true
}

fn every_verb_that_measures_has_the_line(name: &str) -> bool {
    if !terminals(name) {
        return false;
    }
    let port = free_port();
    let asked = Asked::start(port);
    let mut verbs: Vec<(String, [String; 2])> = [
        // The longest is the first. A host with much other work does not pass the check.
        ("check --no-store || true", ["[1/2] known delays  ━", "─   "]),
        ("ping loopback -p udp -p unix --for 2s --warmup 20ms", ["[1/2] udp:block   RTT p50 ", "[2/2] unix:block  ━"]),
        ("compare udp udp:spin --for 2s", ["[1/2] udp   RTT p50 ", "round "]),
        ("sweep -p udp -p tcp -p unix -s 64,128,256 --for 2s", ["/9] ", "RTT p50 "]),
        (
            "load loopback -p udp --rate 500,1000 --for 2s --warmup 20ms",
            ["[1/2] udp:block at 500/s   from due p50 ", "[2/2] udp:block at 1.00 k/s  ━"],
        ),
    ]
    .map(|(verb, parts)| (verb.to_owned(), parts.map(str::to_owned)))
    .into();
    // If a core is left, a thread draws there; else a row whose loop does not wait says how long it takes.
    verbs.push((
        "ping loopback -p udp -p unix -r 1k --cpu 0,0 --for 3s".into(),
        ["[1/2] udp:block  ━", "   RTT p50 "].map(str::to_owned),
    ));
    verbs.push((
        "ping loopback -p udp -p tcp --threads 2 --flows 2 --for 2s --warmup 20ms".into(),
        ["[1/2] udp:block  ", "─"].map(str::to_owned),
    ));
    if root() {
        let stream = "stream --link veth -p packet -s 64,128 --direction inject -t 300ms";
        verbs.push((stream.into(), ["[2/2] packet:spin inject 128 B", " offered, "].map(str::to_owned)));
        let explain = "explain loopback -p udp -p udp:spin --for 2s --warmup 20ms";
        verbs.push((explain.into(), ["] udp:", "   RTT p50 "].map(str::to_owned)));
        verbs.push((format!("explain :{port} --for 2s"), [format!("hairpin explain :{port}  ━"), "   p50 ".into()]));
    }
    if root() && fs::exists("/dev/cpu_dma_latency").unwrap_or(false) {
        let verb = "tune try loopback -p udp --knob cpu_dma_latency_us=0 --yes --for 2s";
        verbs.push((verb.into(), ["[2/2] cpu_dma_latency_us=0   RTT p50 ", "round "].map(str::to_owned)));
    }
    let has_the_line = |verb: &str, parts: &[String]| {
        let home = Home::new();
        let has = |text: &str| going(text).len() == 1 && parts.iter().all(|part| text.contains(part));
        // A run that a busy host stopped for long has no figures to show, and can fail.
        let shown = (0..3).any(|_| {
            let terminal = Terminal::start(&home, &format!("{HAIRPIN} {verb} --no-store"));
            let text = terminal.until(&format!("line of {verb}"), |text| has(text) || text.contains("modes: "));
            let (code, all) = terminal.left();
            assert!(going(&all).is_empty() && !all.contains('━'), "something is left of {verb}:\n{all}");
            code == "0" && has(&text)
        });
        assert!(shown, "three times, no line of {verb} or a failure");
    };
    // Two at a time: each wants a core.
    let next = Mutex::new(verbs.iter());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some((verb, parts)) = { next.lock().expect("no panic").next() } {
                    has_the_line(verb, parts);
                }
            });
        }
    });
    drop(asked);
    true
}

fn a_check_that_is_interrupted_has_no_verdict_and_leaves_no_line(name: &str) -> bool {
    if !terminals(name) {
        return false;
    }
    let home = Home::new();
    let terminal = Terminal::start(&home, &format!("{HAIRPIN} check"));
    terminal.until("its line", |text| going(text).len() == 1);
    interrupt(&terminal);
    let (code, all) = terminal.left();
    assert!(code == "1" && all.contains("hairpin: ended early by the user: there is no verdict"), "{all}");
    assert!(going(&all).is_empty() && !all.contains('━'), "something is left:\n{all}");
    assert!(home.json("runs list")["runs"].as_array().is_some_and(Vec::is_empty), "nothing is stored");
    true
}
