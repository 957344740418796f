//! Terminal output of attached mode: the golden text.
//!
//! After a change of a format run `INSTA_UPDATE=always cargo test -p hairpin-report --test main attached` and review the
//! difference.

use hairpin_record::attached::{
    Attached, AttachedBody, Connection, Process, Slow, SlowCause, SlowStage, Stage, Total, Unmatched, View, Watched,
};
use hairpin_record::explain::{Direction, Finding, Missing};
use hairpin_record::head::{Body, Head};
use hairpin_record::histogram::Times;
use hairpin_record::run::{HostFacts, Side};
use hairpin_record::warning::Note;
use hairpin_report::watch::{Key, Stages, View as Drawn};
use hairpin_report::{Options, term};
use insta::assert_snapshot;

use crate::watch::frame;

fn fits(text: String) -> String {
    assert!(text.lines().all(|line| line.chars().count() <= 80), "a line is wider than 80 columns:\n{text}");
    assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
    text
}

/// With all that a first screen leaves out.
fn verbose(record: &Attached) -> String {
    fits(term(record, &Options::default()))
}

/// The text of one table, which a terminal of 80 columns and 24 lines holds beside the line typed, a note or two and the prompt.
fn first_screen(record: &Attached) -> String {
    let text = fits(term(record, &Options { brief: true, ..Options::default() }));
    assert!(text.lines().count() <= 20, "{} lines\n{text}", text.lines().count());
    text
}

fn times(count: u64, p50_ns: u64) -> Times {
    let mut times = Times::new();
    (0..count).for_each(|i| times.record(p50_ns * 9 / 10 + p50_ns * i / (5 * count)));
    times
}

/// Stages with their p50 and share in percent; the sum is said apart, as in a record.
fn total(view: View, count: u64, stages: &[(&str, Option<Side>, u64, u64)]) -> Total {
    let stage = |(name, side, ns, share): &(&str, Option<Side>, u64, u64)| Stage {
        name: (*name).into(),
        side: *side,
        direction: Some(Direction::Request),
        from: "sk_data_ready".into(),
        to: "sock_recv_length".into(),
        ns: times(count, *ns).quantiles(),
        share: *share as f64 / 100.0,
    };
    let sum = times(count, stages.iter().map(|(_, _, ns, _)| ns).sum());
    Total {
        view,
        roles: vec![Side::Server],
        sum_ns: sum.quantiles(),
        histogram: Some(sum.encode()),
        stages: stages.iter().map(stage).collect(),
    }
}

fn both(count: u64) -> Total {
    let (client, server) = (Some(Side::Client), Some(Side::Server));
    total(
        View::Both,
        count,
        &[
            ("stack out", client, 991, 2),
            ("qdisc", client, 270, 1),
            ("driver + softirq", None, 621, 1),
            ("stack", server, 1302, 2),
            ("notify", server, 310, 1),
            ("wake-up + run queue", server, 22_850, 40),
            ("receive", server, 2053, 4),
            ("application", server, 1262, 2),
            ("stack out", server, 1002, 2),
            ("qdisc + driver + softirq", None, 852, 2),
            ("stack", client, 1292, 2),
            ("queue", client, 4407, 8),
            ("reply rest", client, 18_000, 33),
        ],
    )
}

fn server_alone(count: u64) -> Total {
    let server = Some(Side::Server);
    total(View::Server, count, &[("stack", server, 1300, 1), ("queue", server, 95_000, 79), ("application", server, 24_000, 20)])
}

fn connection(client: &str, total: Total) -> Connection {
    let process = |comm: &str, pid: i32| Some(Process { pid, thread: pid, comm: comm.into() });
    Connection {
        protocol: "tcp".into(),
        server: "127.0.0.1:6379".into(),
        client: client.into(),
        server_process: process("redis-server", 3469),
        client_process: process("client", 4711),
        total,
    }
}

fn whole(body: AttachedBody) -> Attached {
    Attached {
        head: Head {
            schema: Attached::SCHEMA.into(),
            tool: "hairpin 0.1.0".into(),
            command: vec!["hairpin".into(), "explain".into(), "--port".into(), "6379".into()],
            started: "2026-01-02T03:04:05Z".into(),
            interrupted: false,
            error: None,
        },
        body,
    }
}

fn record() -> AttachedBody {
    AttachedBody {
        host: HostFacts { hostname: "box".into(), ..HostFacts::default() },
        watched: Watched { port: Some(6379), ..Watched::default() },
        duration_ns: 10_004_000_000,
        missing: Vec::new(),
        transactions: 0,
        unmatched: 0,
        unmatched_by: Unmatched::default(),
        open: 0,
        lost: 0,
        untracked: 0,
        totals: Vec::new(),
        connections: Vec::new(),
        other_connections: 0,
        slowest: Vec::new(),
        causes: Vec::new(),
        slow: 0,
        slow_observer: 0,
        slow_above: None,
        findings: Vec::new(),
        client: None,
        warnings: Vec::new(),
    }
}

fn slow(sum_ns: u64, cause: &str, who: &str) -> Slow {
    let stage = |name: &str, side, ns| SlowStage { name: name.into(), side, ns };
    Slow {
        at_ns: 965_000_000,
        sum_ns,
        view: View::Both,
        protocol: "tcp".into(),
        server: "127.0.0.1:6379".into(),
        client: "127.0.0.1:52714".into(),
        stages: vec![
            stage("stack out", Some(Side::Client), 981),
            stage("driver + softirq", None, 605),
            stage("wake-up + run queue", Some(Side::Server), sum_ns - 2586),
            stage("application", Some(Side::Server), 1000),
        ],
        stage: "wake-up + run queue".into(),
        stage_excess_ns: sum_ns - 25_000,
        cause: cause.into(),
        cause_ns: None,
        who: who.into(),
    }
}

fn cause(cause: &str, who: &str, stage: &str, count: u64, lost_ns: u64, advice: &str) -> SlowCause {
    let (program, pid) = who.trim_end_matches(')').split_once(" (").unwrap_or_default();
    SlowCause {
        cause: cause.into(),
        who: who.into(),
        program: program.into(),
        pid: pid.parse().ok(),
        stage: stage.into(),
        count,
        lost_ns,
        advice: advice.into(),
    }
}

/// A server with a client on this host, and causes of its slow ones.
pub fn one() -> Attached {
    whole(AttachedBody {
        transactions: 68_810,
        unmatched: 3,
        unmatched_by: Unmatched { pipelined: 2, out_of_order: 1, ..Unmatched::default() },
        open: 1,
        totals: vec![both(68_810)],
        connections: vec![connection("127.0.0.1:52714", both(68_810))],
        slowest: vec![slow(5_334_000, "run queue wait", "stress-ng (3479)"), slow(90_000, "nothing seen", "")],
        slow: 256,
        slow_above: Some("p99".into()),
        causes: vec![
            cause(
                "run queue wait",
                "stress-ng (3479)",
                "wake-up + run queue",
                200,
                198_859_000,
                "give the application a CPU of its own",
            ),
            cause(
                "run queue wait",
                "ksoftirqd/0 (14)",
                "wake-up + run queue",
                4,
                10_937_000,
                "give the application a CPU of its own",
            ),
            cause("nothing seen", "", "application", 52, 2_356_000, "the time passed between two hooks without an event"),
        ],
        ..record()
    })
}

#[test]
fn one_connection_of_client_and_server() {
    let record = one();
    assert_snapshot!(first_screen(&record));
    assert_snapshot!(verbose(&record));
    // A view that its user ends was not broken off, unless a duration was given.
    let mut live = record;
    (live.head.interrupted, live.head.command) = (true, ["hairpin", "explain", ":6379", "--live"].map(String::from).into());
    assert!(!first_screen(&live).contains("Incomplete"));
    live.head.command.extend(["-t", "60s"].map(String::from));
    assert!(first_screen(&live).contains("Incomplete"));
}

#[test]
fn many_connections_seen_from_the_server_of_a_process() {
    let many = (0..9).map(|n| connection(&format!("203.0.113.{n}:4000{n}"), server_alone(20_000 - n * 1000)));
    let v6 = Connection {
        server: "[2001:db8::1]:6379".into(),
        ..connection("[2001:db8:1234:5678:9abc:def0:1234:5678]:65535", server_alone(5))
    };
    let mut record = whole(AttachedBody {
        watched: Watched {
            pid: Some(3469),
            comm: Some("redis-server".into()),
            roles: vec![Side::Client, Side::Server],
            serves: vec![6379],
            ..Watched::default()
        },
        transactions: 144_000,
        lost: 400,
        totals: vec![
            server_alone(144_000),
            Total { roles: vec![Side::Client], ..total(View::Client, 12, &[("network and server", None, 250_000, 100)]) },
        ],
        connections: [v6].into_iter().chain(many).collect(),
        other_connections: 1234,
        missing: vec![Missing {
            hook: "tcp_sendmsg_locked".into(),
            why: "this kernel does not have it or does not describe it; a later one may".into(),
            adds: "the stage \"stack out\", and so the begin of a client's transaction".into(),
        }],
        warnings: vec![Note {
            code: "lost-events".into(),
            message: "400 transactions found no room on their way out of the kernel".into(),
        }],
        ..record()
    });
    record.head.interrupted = true;
    assert_snapshot!(fits(term(&record, &Options { brief: true, ..Options::default() })));
    assert_snapshot!(verbose(&record));
}

#[test]
fn a_stopped_process_parts_held_back_and_a_crowd_of_short_ones() {
    let crowd = (0..170).map(|n| {
        cause(
            "preempted",
            &format!("busy ({})", 4_000 + n),
            if n % 2 == 0 { "queue" } else { "application" },
            1,
            4_000_000,
            "end it",
        )
    });
    let rest =
        ["a", "b", "c", "d", "e", "f"].map(|name| cause("preempted", &format!("{name} (7)"), "queue", 2, 90_000, "end it"));
    let record = whole(AttachedBody {
        transactions: 2_947,
        unmatched: 1_473,
        unmatched_by: Unmatched { pipelined: 1_473, ..Unmatched::default() },
        totals: vec![server_alone(2_947)],
        slowest: vec![
            Slow { cause_ns: Some(20_012_000), ..slow(20_090_000, "stopped", "") },
            Slow { cause_ns: Some(42_800_000), ..slow(43_100_000, "Nagle", "") },
        ],
        slow: 256,
        slow_observer: 55,
        slow_above: Some("p99".into()),
        causes: crowd.chain(rest).collect(),
        findings: vec![Finding {
            detector: "nagle-delayed-ack".into(),
            seen: "in 57 of 57 transactions the reply came in parts, and the server held a later part back for 42.8 ms".into(),
            advice: "set TCP_NODELAY".into(),
        }],
        ..record()
    });
    assert_snapshot!(first_screen(&record));
    assert_snapshot!(verbose(&record));
}

#[test]
fn causes_of_one_name_have_an_advice_each() {
    let record = whole(AttachedBody {
        transactions: 2_947,
        totals: vec![server_alone(2_947)],
        slow: 256,
        slow_above: Some("p99".into()),
        causes: vec![
            cause("preempted", "stress (7)", "queue", 30, 18_000_000, "end it"),
            cause("preempted", "nobody", "queue", 20, 9_000_000, "raise the limit"),
        ],
        ..record()
    });
    let text = verbose(&record);
    for line in ["  - preempted: end it\n", "  - preempted: raise the limit\n"] {
        assert!(text.contains(line), "{text}");
    }
}

#[test]
fn a_stage_that_few_pass_has_no_typical_time() {
    let mut watched = record();
    let mut total = server_alone(10_000);
    let typical = |total: &Total| {
        let text = first_screen(&whole(AttachedBody { transactions: 10_000, totals: vec![total.clone()], ..record() }));
        text.lines().find(|line| line.starts_with("application")).expect("its row").to_owned()
    };
    assert!(typical(&total).contains("24.00"), "{}", typical(&total));
    total.stages[2].ns = times(4_999, 24_000).quantiles();
    assert!(!typical(&total).contains("24.00") && typical(&total).contains("20 %"), "{}", typical(&total));
    watched.totals = vec![total];
    assert!(verbose(&whole(watched)).contains("24.00"));
}

#[test]
fn nothing_at_all() {
    let mut record = whole(record());
    record.head.error = Some("no message of port 6379 was seen within 10.00 s: no server listens there".into());
    assert_snapshot!(first_screen(&record));
}

#[test]
fn names_of_others_steer_no_terminal() {
    let mut hostile = connection("\u{1b}[31mred\u{202e}", server_alone(100));
    hostile.server_process = Some(Process { pid: 1, thread: 1, comm: "\u{1b}]0;x\u{7}".into() });
    let record = whole(AttachedBody {
        watched: Watched { pid: Some(1), comm: Some("\u{1b}[2J".into()), ..Watched::default() },
        transactions: 100,
        totals: vec![server_alone(100)],
        connections: vec![hostile],
        slowest: vec![slow(90_000, "preempted", "\u{1b}[5m (7)")],
        causes: vec![cause("preempted", "\u{1b}[5m (7)", "application", 1, 1, "do\u{7}")],
        ..record()
    });
    fits(term(&record, &Options { brief: true, ..Options::default() }));
    verbose(&record);
    crate::formats::formats(&record);
}

/// A server whose last second was spent more in waking than the time before.
#[test]
fn a_second_of_a_server_is_drawn_beside_the_whole() {
    let mut view = Stages::new("hairpin explain :6379");
    assert!(frame(&view, 80, 24).contains("The first figures come after a second"));
    view.second(&record(), Vec::new(), 1_000_000_000);
    assert!(frame(&view, 80, 24).contains("No transaction yet"));
    let body = AttachedBody {
        transactions: 68_810,
        totals: vec![both(68_810)],
        connections: vec![connection("127.0.0.1:52714", both(68_810))],
        slow: 256,
        slow_observer: 55,
        slow_above: Some("p99".into()),
        causes: vec![
            cause("run queue wait", "stress-ng (3479)", "wake-up + run queue", 160, 198_859_000, "give it a CPU"),
            cause("nothing seen", "", "application", 41, 2_356_000, "the time passed between two hooks"),
        ],
        ..record()
    };
    let mut last = both(6_881);
    (last.stages[5].share, last.stages[12].share) = (0.5, 0.23);
    view.second(&body, vec![last], 1_003_000_000);
    let text = frame(&view, 80, 24);
    let row = text
        .lines()
        .find(|line| line.contains("wake-up + run queue") && line.contains("->"))
        .expect("the largest, with what helps");
    assert!(row.contains("50 %") && row.contains("+5.5"), "{row}");
    assert_snapshot!(text);
    assert_snapshot!(frame(&view, 120, 30));
    view.key(Key::Pause);
    view.second(&AttachedBody { transactions: 1, ..body }, vec![both(1)], 1_000_000_000);
    let still = frame(&view, 80, 24);
    assert_eq!(still.lines().skip(1).collect::<Vec<_>>(), text.lines().skip(1).collect::<Vec<_>>());
    assert!(still.contains("PAUSED"));
    assert!(frame(&view, 60, 12).contains("This view needs 80 columns and 24 lines; here are 60 and 12."));
}

#[test]
fn csv_tells_roles_and_ways_apart() {
    let mut sent = both(2_000);
    let mut asked = Total { roles: vec![Side::Client], ..both(2_000) };
    for total in [&mut sent, &mut asked] {
        total.stages[7..].iter_mut().for_each(|stage| stage.direction = Some(Direction::Reply));
        total.stages[9].name = "driver + softirq".into();
        total.stages[9].ns = total.stages[2].ns.clone();
        total.stages[9].share = total.stages[2].share;
    }
    let csv = hairpin_report::csv(&whole(AttachedBody { totals: vec![sent, asked], ..record() }), &Options::default());
    let lines: std::collections::HashSet<&str> = csv.lines().collect();
    assert_eq!((lines.len(), csv.lines().count()), (29, 29), "{csv}");
}

/// A proxy has two tables; the keys go from one to the other.
#[test]
fn each_role_has_a_picture() {
    let client = Total { roles: vec![Side::Client], ..total(View::Client, 9_000, &[("network and server", None, 250_000, 100)]) };
    let totals = vec![server_alone(20_000), client];
    let mut view = Stages::new("hairpin explain 3469");
    view.second(&AttachedBody { transactions: 29_000, totals, ..record() }, Vec::new(), 1_000_000_000);
    assert!(frame(&view, 80, 24).contains("as server"));
    view.key(Key::RowAfter);
    view.key(Key::RowAfter);
    assert!(frame(&view, 80, 24).contains("network and server"));
    view.key(Key::RowBefore);
    assert!(frame(&view, 80, 24).contains("application"));
}
