//! Frames of the live view as a terminal shows them.
//!
//! `INSTA_UPDATE=always cargo test -p hairpin-report --test main watch` rewrites them: look at each.

use hairpin_record::head::Body;
use hairpin_record::histogram::Times;
use hairpin_record::progress::{CpuSoFar, Interval, Progress};
use hairpin_record::run::{Origin, Row, Run};
use hairpin_record::warning::Warning;
use hairpin_report::watch::{Begins, Key, Source, State, View};
use hairpin_units::Nanos;
use ratatui::Terminal;
use ratatui::backend::TestBackend;

/// The frame's text, without the blanks at the ends of lines.
pub fn frame(view: &impl View, columns: u16, lines: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(columns, lines)).unwrap();
    terminal.draw(|frame| view.draw(frame, false)).unwrap();
    let buffer = terminal.backend().buffer();
    let line = |y| (0..columns).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned() + "\n";
    (0..lines).map(line).collect()
}

/// A synthetic run of `seconds` seconds, each with 20,000 round trips.
struct Arithmetic {
    whole: Times,
    transactions: u64,
    seed: u64,
}

impl Arithmetic {
    fn new() -> Arithmetic {
        Arithmetic { whole: Times::new(), transactions: 0, seed: 1 }
    }

    /// Some 5 us with a tail; every seventh second is slow.
    fn second(&mut self, second: u64) -> Progress {
        let mut since = Times::new();
        for n in 0..20_000_u64 {
            self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let random = (self.seed >> 33) as f64 / (1u64 << 31) as f64;
            let slow = if second % 7 == 6 { 1.4 } else { 1.0 };
            let tail = if n % 500 == 0 { 10.0 + 30.0 * random } else { 1.0 };
            since.record(((4_700.0 + 600.0 * random) * slow * tail) as u64);
        }
        self.whole.add(&since);
        self.transactions += 20_000;
        let at_ns = (second + 1) * 1_000_000_000;
        Progress {
            schema: Progress::SCHEMA.into(),
            path: "udp:spin/udp:spin".into(),
            request_bytes: 64,
            reply_bytes: Some(64),
            at_ns,
            transactions: self.transactions,
            sent: self.transactions + second / 10,
            lost: second / 10,
            late: second / 20,
            transactions_per_s: 20_000.0,
            rtt_ns: self.whole.quantiles(),
            interval: Some(Interval {
                duration_ns: 1_000_000_000,
                rtt_ns: since.quantiles(),
                histogram: since.encode(),
                core_rtt_least_ns: Some(122),
                core_rtt_most_ns: Some(if second > 20 { 510 } else { 131 }),
                ..Interval::default()
            }),
            cpu: Some(CpuSoFar {
                elapsed_ns: at_ns + 500_000_000,
                client_ns: at_ns + 490_000_000,
                client_switches_involuntary: 0,
                server_ns: Some(at_ns + 430_000_000),
            }),
            ..Progress::default()
        }
    }
}

fn begins() -> Begins<'static> {
    let (path, origin) = ("udp:spin/udp:spin", Origin::Measured);
    Begins { path, request_bytes: 64, reply_bytes: 64, origin, pace_per_s: None, of: 1 }
}

fn live(seconds: u64) -> State {
    let mut state = State::new(Source::Live, "hairpin ping loopback");
    state.begins(&begins());
    let mut source = Arithmetic::new();
    for second in 0..seconds {
        let mut line = source.second(second);
        if second > 10 {
            line.warnings.push(Warning::Loss { lost: line.lost, sent: line.sent, rcvbuf: true }.note());
        }
        if second > 20 {
            line.warnings.push(Warning::CoreStates { near: Nanos(122), far: Nanos(510) }.note());
        }
        state.progress(&line);
    }
    state
}

#[test]
fn before_anything_came() {
    let mut state = State::new(Source::Live, "hairpin ping veth");
    insta::assert_snapshot!(frame(&state, 80, 24));
    state.begins(&Begins { pace_per_s: Some(10.0), origin: Origin::Emulated, of: 3, ..begins() });
    insta::assert_snapshot!(frame(&state, 80, 24));
}

#[test]
fn a_run_after_some_seconds() {
    insta::assert_snapshot!(frame(&live(35), 80, 24));
}

#[test]
fn a_larger_terminal_shows_more() {
    let mut state = live(120);
    state.key(Key::Figure(3));
    insta::assert_snapshot!(frame(&state, 120, 40));
}

#[test]
fn linear_and_another_figure() {
    let mut state = live(35);
    state.key(Key::Scale);
    state.key(Key::Figure(0));
    insta::assert_snapshot!(frame(&state, 80, 24));
}

#[test]
fn a_pause_keeps_the_picture_while_the_run_goes_on() {
    let mut state = live(10);
    state.key(Key::Pause);
    let before = frame(&state, 80, 24);
    let mut source = Arithmetic::new();
    let mut later = source.second(0);
    later.at_ns = 100_000_000_000;
    state.progress(&later);
    assert_eq!(frame(&state, 80, 24), before);
    assert!(before.contains("PAUSED"), "{before}");
    state.key(Key::Pause);
    assert!(frame(&state, 80, 24).contains("100 s"));
}

#[test]
fn shows_help_and_too_small_windows() {
    let mut state = live(5);
    insta::assert_snapshot!(frame(&state, 60, 12));
    state.key(Key::Help);
    insta::assert_snapshot!(frame(&state, 80, 24));
    // No size breaks it.
    for columns in [1, 2, 10, 79, 80, 300] {
        for lines in [1, 2, 23, 24, 100] {
            frame(&state, columns, lines);
        }
    }
}

#[test]
fn threads_are_put_together() {
    let mut state = State::new(Source::Stream, "hairpin watch -");
    let (mut one, mut two) = (Arithmetic::new(), Arithmetic::new());
    for second in 0..3 {
        state.progress(&Progress { threads: Some(2), ..one.second(second) });
        state.progress(&Progress { threads: Some(2), thread: 1, ..two.second(second) });
    }
    let text = frame(&state, 80, 24);
    assert!(text.lines().any(|line| line.starts_with("since start") && line.contains(" 40.0 k/s ")), "both threads:\n{text}");
}

fn run() -> Run {
    serde_json::from_str(include_str!("../../record/tests/data/run-1.json")).unwrap()
}

#[test]
fn a_stored_run() {
    let mut state = State::of_run("hairpin watch 20261120-115010-0000", &run());
    insta::assert_snapshot!(frame(&state, 80, 24));
    for key in [Key::RowAfter, Key::RowAfter, Key::RowAfter, Key::RowBefore] {
        state.key(key);
        frame(&state, 80, 24);
    }
    let mut without = run();
    without.results.clear();
    let none = State::of_run("hairpin watch latest", &without);
    insta::assert_snapshot!(frame(&none, 80, 24));
}

#[test]
fn a_run_that_ends_shows_its_record() {
    let mut state = live(12);
    state.ending();
    assert!(frame(&state, 80, 24).contains("ending ..."));
    let times = {
        let mut times = Times::new();
        (0..20_000).for_each(|_| times.record(17_000));
        times
    };
    state.ends(&Row { transactions: 20_000, rtt_ns: times.quantiles(), histogram: times.encode(), lost: 7, ..Row::default() });
    let text = frame(&state, 80, 24);
    assert!(text.lines().any(|line| line.starts_with("since start") && line.contains("17.0 us")), "p50 of the record:\n{text}");
}

#[test]
fn a_warning_is_shown_while_it_holds() {
    let mut state = live(12);
    let mut source = Arithmetic::new();
    let mut line = source.second(0);
    line.at_ns = 60_000_000_000;
    let shown = |state: &State| frame(state, 80, 24).lines().find(|line| line.starts_with("! ")).map(str::to_owned);
    assert!(shown(&state).is_some_and(|text| text.starts_with("! loss (at 12 s): 1 of ")), "{:?}", shown(&state));
    state.progress(&line);
    assert_eq!(shown(&state), None);
    assert!(frame(&state, 80, 24).contains("No warnings."));
    line.at_ns = 80_000_000_000;
    line.warnings.push(Warning::Loss { lost: 3, sent: 600, rcvbuf: true }.note());
    state.progress(&line);
    assert!(shown(&state).is_some_and(|text| text.starts_with("! loss (at 80 s): 3 of 600 ")), "{:?}", shown(&state));
    // The record judges the whole row.
    let warnings = vec![Warning::ClockSuspect { blocks: 1 }.note()];
    state.ends(&Row { warnings, ..Row::default() });
    assert!(shown(&state).is_some_and(|text| text.starts_with("! clock-suspect (whole row): ")), "{:?}", shown(&state));
}

fn times_of(ns: u64) -> Times {
    let mut times = Times::new();
    times.record_n(ns, 1_000);
    times
}

/// A line of a row whose RTTs are all `ns`.
fn line_of(path: &str, ns: u64) -> Progress {
    let (rtt_ns, histogram) = (times_of(ns).quantiles(), times_of(ns).encode());
    Progress {
        path: path.into(),
        request_bytes: 64,
        reply_bytes: Some(64),
        at_ns: 1_000_000_000,
        rtt_ns: rtt_ns.clone(),
        interval: Some(Interval { duration_ns: 1_000_000_000, rtt_ns, histogram, ..Interval::default() }),
        ..Progress::default()
    }
}

/// The record of such a row.
fn row_of(path: &str, ns: u64) -> Row {
    let (rtt_ns, histogram) = (times_of(ns).quantiles(), times_of(ns).encode());
    Row { path: path.into(), request_bytes: 64, reply_bytes: 64, rtt_ns, histogram, ..Row::default() }
}

fn record(results: Vec<Row>) -> Run {
    let mut run = run();
    run.results = results;
    run
}

/// Asserts that the view shows the row of this name with this p50.
fn shows(state: &State, name: &str, p50: &str) {
    let text = frame(state, 100, 24);
    let since = text.lines().find_map(|line| line.strip_prefix("since start")).unwrap_or_default();
    let title = text.lines().next().unwrap_or_default();
    assert!(title.contains(&format!("  {name}")) && since.contains(p50), "{name}, {p50}:\n{text}");
}

#[test]
fn each_row_of_a_stream_gets_its_own_record() {
    let mut state = State::new(Source::Stream, "hairpin watch -");
    // The first row was over before its first line.
    state.progress(&line_of("tcp/tcp", 30_000));
    shows(&state, "tcp  64 B", " 30.0 us ");
    state.ends_with(&record(vec![row_of("udp/udp", 17_000), row_of("tcp/tcp", 33_000)]));
    shows(&state, "tcp  64 B  row 2 of 2", " 33.0 us ");
    assert!(!frame(&state, 100, 24).contains("nothing yet"), "the points of its line are kept");
    state.key(Key::RowBefore);
    shows(&state, "udp  64 B  row 1 of 2", " 17.0 us ");
}

#[test]
fn rows_of_one_path_are_told_apart_by_their_sizes() {
    let mut state = State::new(Source::Stream, "hairpin watch -");
    state.progress(&Progress { reply_bytes: Some(1024), ..line_of("tcp/tcp", 30_000) });
    state.progress(&Progress { reply_bytes: Some(4096), at_ns: 2_000_000_000, ..line_of("tcp/tcp", 40_000) });
    let row = |reply_bytes, ns| Row { reply_bytes, ..row_of("tcp/tcp", ns) };
    state.ends_with(&record(vec![row(64, 17_000), row(1024, 33_000), row(4096, 44_000)]));
    for (name, p50) in [("64/4096 B  row 3 of 3", " 44.0 us "), ("64/1024 B  row 2", " 33.0 us "), ("64 B  row 1", " 17.0 us ")] {
        shows(&state, name, p50);
        state.key(Key::RowBefore);
    }
}

#[test]
fn a_group_is_watched_by_its_last_replies() {
    let rows = [("first", 11_000), ("last", 17_000), ("192.0.2.1:7", 12_000), ("192.0.2.2:7", 13_000)];
    let row = |(reply, ns): (&str, u64)| Row { reply: Some(reply.into()), ..row_of("udp/udp", ns) };
    let run = record(rows.into_iter().map(row).collect());
    let mut state = State::new(Source::Stream, "hairpin watch -");
    state.progress(&line_of("udp/udp", 16_000));
    state.ends_with(&run);
    shows(&state, "udp last  64 B  row 2 of 4", " 17.0 us ");
    assert!(!frame(&state, 100, 24).contains("nothing yet"), "the points of its line are kept");

    let mut state = State::of_run("hairpin watch latest", &run);
    for (reply, ns) in rows {
        shows(&state, &format!("udp {reply}  64 B"), &format!(" {}.0 us ", ns / 1000));
        state.key(Key::RowAfter);
    }
}

#[test]
fn a_stream_is_marked_emulated_and_paced_once_its_record_came() {
    let mut state = State::new(Source::Stream, "hairpin watch -");
    state.progress(&line_of("niq:spin/niq:spin", 17_000));
    shows(&state, "niq:spin  64 B", " 17.0 us ");
    let row = Row { origin: Origin::Emulated, pace_per_s: Some(10.0), ..row_of("niq:spin/niq:spin", 18_000) };
    state.ends_with(&record(vec![row]));
    shows(&state, "niq:spin @10/s [emulated]  64 B", " 18.0 us ");
}

#[test]
fn a_stream_of_very_many_rows_keeps_the_last_ones() {
    let mut state = State::new(Source::Stream, "hairpin watch -");
    let line = |n: u64| Progress { path: if n.is_multiple_of(2) { "udp/udp" } else { "tcp/tcp" }.into(), ..Progress::default() };
    let title = |state: &State| frame(state, 80, 24).lines().next().unwrap_or_default().to_owned();
    let to_the_first = |state: &mut State| (0..5_000).for_each(|_| state.key(Key::RowBefore));
    (0..4_096).for_each(|n| state.progress(&line(n)));
    assert!(!frame(&state, 80, 24).contains("are kept"));
    state.key(Key::Pause);
    (4_096..5_000).for_each(|n| state.progress(&line(n)));
    assert!(title(&state).contains("row 4096 of 5000"), "the picture stands still: {}", title(&state));
    state.key(Key::Pause);
    assert!(title(&state).contains("row 5000 of 5000"), "{}", title(&state));
    assert!(frame(&state, 80, 24).contains("! only the last 4096 rows are kept"));
    to_the_first(&mut state);
    assert!(title(&state).contains("row 905 of 5000"), "{}", title(&state));
    // The record's rows come before those that are not in it.
    state.ends_with(&record(vec![row_of("unix/unix", 17_000)]));
    to_the_first(&mut state);
    shows(&state, "unix  64 B  row 1 of 4096", " 17.0 us ");
    state.key(Key::RowAfter);
    assert!(title(&state).contains("row 2 of 4096"), "{}", title(&state));
    let many = (0..5_000).map(|_| Row { path: "unix/unix".into(), ..Row::default() }).collect();
    let mut state = State::new(Source::Stream, "hairpin watch -");
    state.ends_with(&record(many));
    assert!(title(&state).contains("row 5000 of 5000"), "{}", title(&state));
    to_the_first(&mut state);
    assert!(title(&state).contains("row 905 of 5000"), "{}", title(&state));
}

#[test]
fn one_sample_none_and_very_many() {
    let mut state = State::new(Source::Stream, "hairpin watch x.jsonl");
    let line = |count: u64, times: &Times| Progress {
        path: "tcp/tcp".into(),
        at_ns: count,
        transactions: count,
        rtt_ns: times.quantiles(),
        interval: Some(Interval { rtt_ns: times.quantiles(), histogram: times.encode(), ..Interval::default() }),
        ..Progress::default()
    };
    let mut times = Times::new();
    state.progress(&line(0, &times));
    frame(&state, 80, 24);
    times.record(u64::MAX);
    state.progress(&line(1, &times));
    frame(&state, 80, 24);
    for at in 2..5_000 {
        state.progress(&line(at, &times));
    }
    state.progress(&Progress {
        transactions: u64::MAX,
        lost: u64::MAX,
        late: u64::MAX,
        transactions_per_s: 1e300,
        ..line(5_001, &times)
    });
    let text = frame(&state, 80, 24);
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn hostile_stream_text_cannot_control_the_terminal() {
    let mut state = State::new(Source::Stream, "hairpin watch \x1b[2J\u{202E}x");
    let note = hairpin_record::warning::Note { code: "\x1b]0;x\x07".into(), message: "\x1b[31m\r\n".repeat(100) };
    let interval = Interval { histogram: "HISTFAAAAAB54nJNpmSz8gQEOmKE0IxDz/nCPYLBHkkQGAL9/BQ4=".into(), ..Interval::default() };
    for thread in [0, u32::MAX, 7] {
        state.progress(&Progress {
            path: "\x1b[2Judp/\x1b[2Judp".into(),
            thread,
            threads: Some(u32::MAX),
            at_ns: u64::MAX,
            lost: u64::MAX,
            transactions_per_s: f64::NAN,
            interval: Some(interval.clone()),
            cpu: Some(CpuSoFar {
                elapsed_ns: 1,
                client_ns: u64::MAX,
                client_switches_involuntary: u64::MAX,
                server_ns: Some(u64::MAX),
            }),
            warnings: vec![note.clone(); 50],
            ..Progress::default()
        });
        state.progress(&Progress { thread, ..Progress::default() });
    }
    (0..100).for_each(|n| state.note(&format!("\x1b[31m{n}")));
    let text = frame(&state, 80, 24);
    assert!(!text.contains('\x1b') && !text.contains('\u{202E}'), "{text:?}");
}
