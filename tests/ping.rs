//! `hairpin ping` from the command line to the record: every path over loopback and veth, every flag of the work, every form of
//! output.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use crate::support::terminal::{on_terminal, scripts};
use crate::support::{HAIRPIN, Home, LIMIT, can, links, root, rows, warnings};
use hairpin_record::histogram::Decoded;
use hairpin_units::Quantile;
use parquet::file::reader::{FileReader, SerializedFileReader};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::Value;

const QUICK: &str = "--count 300 --warmup 5ms";

/// Asserts the invariants of every record.
#[track_caller]
fn sound_run(run: &Value) {
    assert_eq!(run["schema"], "hairpin.run/1");
    for field in ["tool", "command", "started", "interrupted", "error", "hosts", "link", "clock", "results"] {
        assert!(run.get(field).is_some(), "no {field}");
    }
    assert_eq!((&run["interrupted"], &run["error"]), (&Value::Bool(false), &Value::Null));
    assert!(run["hosts"]["client"]["hostname"].is_string() && run["hosts"]["client"]["kernel_release"].is_string());
    for field in ["source", "cost_ns", "step_ns", "drift_ppb"] {
        assert!(run["clock"].get(field).is_some(), "no clock.{field}");
    }
    for row in rows(run) {
        sound_row(row);
    }
}

#[track_caller]
fn sound_row(row: &Value) {
    for field in [
        "path",
        "origin",
        "request_bytes",
        "reply_bytes",
        "flows",
        "outstanding",
        "transactions",
        "lost",
        "late",
        "duplicates",
        "reordered",
        "duration_ns",
        "gap_ns",
        "transactions_per_s",
        "rtt_ns",
        "turnaround_ns",
        "histogram",
        "blocks",
        "series",
        "slowest",
        "cpu",
        "tcp",
        "granted",
        "floor",
        "warnings",
    ] {
        assert!(row.get(field).is_some(), "no {field} in {row}");
    }
    let path = row["path"].as_str().unwrap();
    assert_eq!(row["origin"], "measured");
    assert_eq!(row["corrupt"], 0, "{path}");
    let transactions = row["transactions"].as_u64().unwrap();
    assert!(transactions > 0, "{path}");
    let seconds = row["duration_ns"].as_u64().unwrap() as f64 / 1e9;
    let rate = row["transactions_per_s"].as_f64().unwrap();
    assert!((rate * seconds / transactions as f64 - 1.0).abs() < 1e-6, "{path}: {rate}/s in {seconds} s");
    sound_times(path, &row["rtt_ns"], Some(transactions));
    let histogram = Decoded::decode(row["histogram"].as_str().unwrap()).unwrap();
    assert_eq!(histogram.count(), transactions, "{path}");
    if let Some(p50) = row["rtt_ns"]["p50"].as_u64() {
        assert_eq!(histogram.quantile(Quantile::P50), Some(p50), "{path}");
    }
    let sum = |list: &Value| list.as_array().unwrap().iter().map(|entry| entry["count"].as_u64().unwrap()).sum::<u64>();
    assert_eq!((sum(&row["blocks"]), sum(&row["series"])), (transactions, transactions), "{path}");
    let slowest = row["slowest"].as_array().unwrap();
    assert_eq!(slowest.len() as u64, transactions.min(64), "{path}");
    assert_eq!(slowest[0]["rtt_ns"], row["rtt_ns"]["max"], "{path}");
    // Blank where a sleeping side was woken in vain once in ten transactions; a busy neighbour does that to a short row.
    let may_be_blank = transactions < 1000 && !path.contains("spin");
    assert!(may_be_blank || row["cpu"]["client"]["per_transaction_ns"].as_f64().is_some(), "{path}: {}", row["cpu"]);
    let words: Vec<_> = path.split('/').collect();
    assert!(words.len() == 2 && words.iter().all(|side| side.contains(':')), "{path} is not canonical");
}

/// Quantiles are in order, and blank where fewer than ten samples lie beyond.
#[track_caller]
fn sound_times(path: &str, times: &Value, count: Option<u64>) {
    let samples = times["count"].as_u64().unwrap();
    assert!(count.is_none_or(|count| count == samples), "{path}: {times}");
    let mut last = 0;
    for (name, least) in [("min", 1), ("p50", 20), ("p90", 100), ("p99", 1000), ("p99.9", 10_000), ("max", 1)] {
        match times[name].as_u64() {
            Some(ns) => {
                assert!(samples >= least, "{path}: {name} of {samples} samples");
                assert!(ns >= last, "{path}: {name} in {times}");
                last = ns;
            }
            None => assert!(samples < least, "{path}: no {name} of {samples} samples"),
        }
    }
}

/// Asserts the facts of the server on a link of this host.
#[track_caller]
/// True if the cores of the two sides met in each block.
fn has_met(row: &Value) -> bool {
    row["blocks"].as_array().unwrap().iter().all(|block| block["core_rtt_ns"].as_u64().is_some())
}

fn sound_both(row: &Value) {
    let path = row["path"].as_str().unwrap();
    let transactions = row["transactions"].as_u64().unwrap();
    let may_be_blank = transactions < 1000 && !path.contains("spin");
    assert!(may_be_blank || row["cpu"]["server"]["per_transaction_ns"].as_f64().is_some(), "{path}: {}", row["cpu"]);
    // The cores do not meet in time where a busy neighbour has one of them.
    assert!(transactions < 1000 || has_met(row), "{path}: {}", row["blocks"]);
    // Of later ones that come fast only a part is measured.
    assert!(row["turnaround_ns"]["count"].as_u64().unwrap() >= transactions.min(1000), "{path}");
    sound_times(path, &row["turnaround_ns"], None);
    if path.starts_with("tcp:") {
        for side in ["client", "server"] {
            let tcp = &row["tcp"][side];
            assert!(tcp["mss"].as_u64().unwrap() > 500, "{path}: {tcp}");
            assert!(tcp["segments_out_per_transaction"].as_f64().unwrap() >= 0.9, "{path}: {tcp}");
        }
    } else {
        assert_eq!(row["tcp"], Value::Null, "{path}");
    }
}

fn paths_of(run: &Value) -> Vec<&str> {
    rows(run).iter().map(|row| row["path"].as_str().unwrap()).collect()
}

/// A peer whose queue of connections is full drops what comes next, as a firewall does.
#[test]
fn a_connect_without_an_answer_takes_the_timeout_once() {
    let full = TcpListener::bind("127.0.0.1:0").expect("a port");
    rustix::net::listen(&full, 0).expect("listen(2)");
    let at = full.local_addr().expect("its address");
    let _queued = TcpStream::connect(at).expect("one is queued");
    let begun = Instant::now();
    let done = Home::new().hairpin(&format!("ping echo:{at} -p tcp-crr:block --timeout 3s --no-store"));
    assert!(done.code == Some(1) && done.err.contains("within 3.000 s"), "{done:?}");
    assert!(begun.elapsed() < Duration::from_millis(5_500), "{:?}", begun.elapsed());
}

/// A reply that is handed over together with the next wait leaves before the cores meet.
#[test]
fn cores_meet_on_paths_that_sleep_in_io_uring() {
    let name = "cores_meet_on_paths_that_sleep_in_io_uring";
    let home = Home::new();
    let done = home.hairpin("ping loopback --path uring-udp:block --path uring-tcp:block --duration 500ms --warmup 5ms --json");
    if !can(name, done.code != Some(4), "io_uring is off here") {
        return;
    }
    assert_eq!(done.code, Some(0), "{done:?}");
    for row in rows(&done.json()) {
        let met = row["blocks"].as_array().unwrap().iter().any(|block| block["core_rtt_ns"].as_u64().is_some());
        assert!(met, "{}: {}", row["path"], row["blocks"]);
    }
}

#[test]
fn every_path_over_loopback() {
    let home = Home::new();
    let run = home.json(&format!(
        "ping --link loopback {QUICK} --path tcp --path tcp-crr --path udp --path unix --path unix-dgram --path pipe --path udp:spin/block --path tcp:quickack=on"
    ));
    sound_run(&run);
    rows(&run).iter().for_each(sound_both);
    assert_eq!(
        paths_of(&run),
        [
            "tcp:block/tcp:block",
            "tcp-crr:block/tcp-crr:block",
            "udp:block/udp:block",
            "unix:block/unix:block",
            "unix-dgram:block/unix-dgram:block",
            "pipe:block/pipe:block",
            "udp:spin/udp:block",
            "tcp:block,quickack=on/tcp:block,quickack=on",
        ]
    );
    for part in ["connect", "exchange", "close"] {
        let times = &rows(&run)[1]["parts_ns"][part];
        sound_times(part, times, None);
        // A stall between two blocks is a sample of the RTT, and has no parts.
        assert!((297..=300).contains(&times["count"].as_u64().unwrap()), "{part}: {times}");
    }
    assert!(rows(&run)[7]["extra_calls"].as_u64().unwrap() >= 2 * 300, "quickack is re-armed on both sides after every receive");
    assert_eq!(run["link"]["kind"], "loopback");
    assert_eq!(run["link"]["interface"], "lo");

    let small = home.json(&format!("ping --link loopback {QUICK} --size 8 --path eventfd --path memory"));
    sound_run(&small);
    rows(&small).iter().for_each(sound_both);
    assert_eq!(paths_of(&small), ["eventfd:block/eventfd:block", "memory:spin/memory:spin"]);
}

#[test]
fn every_wait_policy_over_loopback() {
    let home = Home::new();
    let specs: Vec<_> = ["block", "poll", "epoll", "spin", "busy-poll", "adaptive"]
        .iter()
        .flat_map(|policy| ["tcp", "udp"].map(|path| format!("--path {path}:{policy}")))
        .collect();
    let run = home.json(&format!("ping --link loopback {QUICK} {}", specs.join(" ")));
    sound_run(&run);
    assert_eq!(rows(&run).len(), 12);
    assert!(rows(&run).iter().any(has_met), "the cores never met");
    for row in rows(&run) {
        sound_both(row);
        let asked = row["path"].as_str().unwrap().contains("busy-poll");
        // Loopback has no NAPI: asked, and not in force.
        assert_eq!(warnings(row).contains(&"busy-poll-not-in-force"), asked, "{}", row["path"]);
    }
}

#[test]
fn sockets_over_veth() {
    let name = "sockets_over_veth";
    if !can(name, links(), "this user may not make namespaces here") {
        return;
    }
    let home = Home::new();
    let run = home
        .json(&format!("ping --link veth:mtu=9000,gro=on,tso=off {QUICK} --path tcp --path tcp-crr --path udp --path udp:spin"));
    sound_run(&run);
    rows(&run).iter().for_each(sound_both);
    assert_eq!(
        (&run["link"]["kind"], &run["link"]["interface"], &run["link"]["mtu"]),
        (&"veth".into(), &"hairpin0".into(), &9000.into())
    );
    assert_eq!(run["link"]["options"], serde_json::json!({"gro": "on", "mtu": "9000", "tso": "off"}));
    assert_eq!(run["hosts"]["client"]["driver"], "veth");
    assert_eq!(run["hosts"]["server"]["interface"], "hairpin1");

    let six = home.json(&format!("ping --link veth -6 {QUICK} --path tcp --path udp"));
    sound_run(&six);
    // 20 bytes more of header than IPv4.
    assert_eq!(rows(&six)[0]["tcp"]["client"]["mss"], 1428);
}

#[test]
fn ipv6_over_loopback() {
    let home = Home::new();
    if !can("ipv6_over_loopback", UdpSocket::bind("[::1]:0").is_ok(), "this host has no IPv6 loopback") {
        return;
    }
    let run = home.json(&format!("ping --link loopback -6 {QUICK} --path tcp --path udp --path tcp-crr"));
    sound_run(&run);
    rows(&run).iter().for_each(sound_both);
}

#[test]
fn sizes_and_counts_are_as_asked() {
    let home = Home::new();
    let run =
        home.json("ping --link loopback --count 137 --warmup 1ms --path tcp --path udp --path unix --request 3000 --reply 2");
    sound_run(&run);
    for row in rows(&run) {
        assert_eq!((&row["request_bytes"], &row["reply_bytes"], &row["transactions"]), (&3000.into(), &2.into(), &137.into()));
    }
    let run = home.json("ping --link loopback --count 20 --warmup 1ms --path udp --path tcp --sizes 1..1024x32,65507");
    sound_run(&run);
    let sizes: Vec<_> = rows(&run).iter().map(|row| row["request_bytes"].as_u64().unwrap()).collect();
    assert_eq!(sizes, [1, 32, 1024, 65507, 1, 32, 1024, 65507]);
}

#[test]
fn the_rows_share_the_time_of_the_whole() {
    let home = Home::new();
    let run = home.json("ping loopback --path udp --path unix --warmup 10ms --for 600ms");
    for row in rows(&run) {
        let whole = row["duration_ns"].as_u64().unwrap() + row["gap_ns"].as_u64().unwrap();
        assert!((250_000_000..1_500_000_000).contains(&whole), "{whole}");
    }
    home.hairpin("ping loopback --for 1s --duration 1s").fails(2, &["cannot be used with"]);
    let markdown = home.hairpin("ping loopback --path udp -c 20 --warmup 1ms -o md").out;
    assert!(markdown.lines().any(|line| line.starts_with("| udp:block")), "{markdown}");
}

#[test]
fn a_row_is_drawn_while_it_goes_on_and_on_a_terminal_only() {
    if !scripts("a_row_is_drawn_while_it_goes_on_and_on_a_terminal_only") {
        return;
    }
    let home = Home::new();
    let ping = "ping loopback --path udp --path tcp --warmup 10ms";
    let on_terminal = |args: &str| on_terminal(&home, &format!("{ping} {args}")).out;
    let drawn = on_terminal("--duration 1s");
    for line in ["[1/2] udp:block", "s left   RTT p50", "[2/2] tcp:block", "next  hairpin explain"] {
        assert!(drawn.contains(line), "no {line:?} in {drawn:?}");
    }
    // A loop with due times does not wait for a line.
    let paced = on_terminal("--duration 600ms --rate 1000");
    assert!(paced.contains("[1/2] udp:block") && !paced.contains("s left"), "{paced:?}");
    for args in ["--quiet", "--json-stream"] {
        let drawn = on_terminal(&format!("--duration 300ms {args}"));
        assert!(!drawn.contains("[1/2]"), "{args}: {drawn:?}");
    }
    let piped = home.hairpin(&format!("{ping} --duration 300ms"));
    assert!(!piped.err.contains("[1/2]") && !piped.err.contains('\u{1b}'), "{piped:?}");
}

#[test]
fn a_duration_ends_a_row_and_is_kept() {
    let home = Home::new();
    let whole = |_| {
        let run = home.json("ping --link loopback --duration 300ms --warmup 10ms --path udp");
        sound_run(&run);
        let row = &rows(&run)[0];
        let whole = row["duration_ns"].as_u64().unwrap() + row["gap_ns"].as_u64().unwrap();
        assert!(whole < 1_500_000_000, "{whole}");
        whole
    };
    // A client that a busy host stops before its first block has less.
    assert!((0..3).map(whole).any(|whole| whole >= 250_000_000), "three times less than 250 ms");
}

#[test]
fn several_flows_threads_and_requests_in_flight() {
    let home = Home::new();
    let run = home.json("ping --link loopback --flows 4 --threads 2 --count 1001 --warmup 5ms --path udp:poll --path tcp:epoll");
    sound_run(&run);
    for row in rows(&run) {
        assert_eq!((&row["flows"], &row["threads"], &row["transactions"]), (&4.into(), &2.into(), &1001.into()));
        assert_eq!(row["flow_facts"].as_array().unwrap().len(), 4);
    }
    let run = home
        .json("ping --link loopback --outstanding 8 --count 2000 --warmup 5ms --path udp:poll --path tcp:poll --path unix:poll");
    sound_run(&run);
    assert!(rows(&run).iter().all(|row| row["outstanding"] == 8 && row["transactions"] == 2000));
}

#[test]
fn a_pace_keeps_the_time_each_request_was_due() {
    let home = Home::new();
    let run = home.json("ping --link loopback --pace 200 --duration 500ms --warmup 10ms --path udp --path udp:spin");
    sound_run(&run);
    for row in rows(&run) {
        let transactions = row["transactions"].as_u64().unwrap();
        // Fewer where the machine is busy, never more.
        assert!((10..=101).contains(&transactions), "{transactions} at 200/s in 0.5 s");
        assert_eq!(row["pace_per_s"], 200.0);
        let (sent, due) = (&row["rtt_ns"], &row["rtt_from_due_ns"]);
        // It includes requests that were not answered in time.
        assert!(transactions <= row["due"]["requests"].as_u64().unwrap(), "{row}");
        sound_times("from due", due, row["due"]["requests"].as_u64());
        // Never sent before it was due.
        assert!(due["min"].as_u64() >= sent["min"].as_u64() && due["max"].as_u64() >= sent["max"].as_u64(), "{row}");
    }
}

#[test]
fn verify_compares_whole_payloads() {
    let home = Home::new();
    let run = home
        .json("ping --link loopback --verify --count 200 --warmup 1ms --path tcp --path udp --path unix --sizes 1,15,1400,20000");
    sound_run(&run);
    assert_eq!(rows(&run).len(), 12);
}

#[test]
fn local_ports_are_as_asked() {
    let home = Home::new();
    let port = loop {
        let port = crate::support::free_port();
        if port < 65_000 {
            break port;
        }
    };
    let run = home.json(&format!("ping --link loopback {QUICK} --path udp --path tcp --local-port {port}"));
    for row in rows(&run) {
        assert_eq!(row["flow_facts"][0]["local_port"], port);
    }
    let run =
        home.json(&format!("ping --link loopback {QUICK} --path udp:poll --path tcp:spin --path tcp-crr --local-port rotate:4"));
    sound_run(&run);
    for row in &rows(&run)[..2] {
        let mut ports: Vec<_> =
            row["flow_facts"].as_array().unwrap().iter().map(|flow| flow["local_port"].as_u64().unwrap()).collect();
        ports.sort_unstable();
        ports.dedup();
        assert_eq!(ports.len(), 4, "{row}");
        assert!(row["flow_facts"].as_array().unwrap().iter().all(|flow| flow["incoming_cpu"].is_u64()), "{}", row["flow_facts"]);
    }
}

#[test]
fn every_sample_goes_to_the_raw_file() {
    let home = Home::new();
    let run = home.json("ping --link loopback --path tcp --path udp --count 500 --warmup 5ms --raw samples.parquet");
    sound_run(&run);
    let bytes = fs::read(home.file("samples.parquet")).unwrap();
    assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"), "{} bytes", bytes.len());
    let file = SerializedFileReader::new(fs::File::open(home.file("samples.parquet")).unwrap()).unwrap();
    let about = file.metadata().file_metadata();
    assert_eq!(about.num_rows(), 1000);
    let columns: Vec<_> = about.schema_descr().columns().iter().map(|column| column.name().to_owned()).collect();
    assert!(columns.iter().any(|name| name == "rtt_ns"), "{columns:?}");
}

#[test]
fn a_raw_file_that_cannot_be_finished_keeps_no_row_back() {
    let home = Home::new();
    let partial = home.file("samples.parquet.partial");
    assert!(Command::new("mkfifo").arg(&partial).status().is_ok_and(|status| status.success()));
    // Open for both, so that neither side waits for the other. Nobody reads it, and it holds less than the samples take.
    let pipe = fs::File::options().read(true).write(true).open(&partial).unwrap();
    rustix::pipe::fcntl_setpipe_size(&pipe, 4096).unwrap();
    let mut running = home.start("ping loopback --path udp --count 10000 --warmup 0s --raw samples.parquet --json");
    // The first bytes come when the row is over.
    let limit = Timespec { tv_sec: LIMIT.as_secs() as i64, tv_nsec: 0 };
    assert_eq!(poll(&mut [PollFd::new(&pipe, PollFlags::IN)], Some(&limit)), Ok(1), "{}", running.err());
    let begun = Instant::now();
    while running.goes_on() {
        assert!(begun.elapsed() < LIMIT, "it waits for the file");
        running.signal("INT");
        thread::sleep(Duration::from_millis(100));
    }
    let done = running.done();
    done.fails(1, &["--raw", "incomplete"]);
    assert_eq!(rows(&done.json())[0]["transactions"], 10_000, "{done:?}");
}

#[test]
fn a_cpu_outside_the_own_set_is_taken_if_it_can_be_pinned_to() {
    let cpus = hairpin_sys::thread::allowed_cpus().unwrap();
    if !can("a_cpu_outside_the_own_set_is_taken_if_it_can_be_pinned_to", cpus.len() > 1, "it takes two CPUs") {
        return;
    }
    let (home, first) = (Home::new(), cpus[0].to_string());
    // As with isolcpus=, which leaves the isolated ones out of every process's set.
    let mut command = home.command("taskset");
    let args = format!("ping loopback --path udp {QUICK} --cpu {first},{} --json", cpus[1]);
    command.args(["-c", &first, HAIRPIN]).args(args.split_whitespace());
    let run = home.spawn(command).done().json();
    let cpu = &rows(&run)[0]["cpu"];
    assert_eq!([&cpu["client"]["cpus"][0], &cpu["server"]["cpus"][0]], [&Value::from(cpus[0]), &cpus[1].into()], "{cpu}");
}

#[test]
fn fifo_is_granted_but_for_the_last_core() {
    if !can("fifo_is_granted_but_for_the_last_core", root(), "SCHED_FIFO needs CAP_SYS_NICE") {
        return;
    }
    let cores = thread::available_parallelism().unwrap().get();
    if !can("fifo_is_granted_but_for_the_last_core", cores > 1, "one core is never given away") {
        return;
    }
    let home = Home::new();
    // Half the cores, rounded up, for each side: the client leaves some, the server would not.
    let threads = cores.div_ceil(2);
    let run =
        home.json(&format!("ping --link loopback --sched fifo:1 {QUICK} --path udp:spin --threads {threads} --flows {threads}"));
    let row = &rows(&run)[0];
    let sched = |side: &str| {
        row["granted"].as_array().unwrap().iter().find(|granted| granted["side"] == side && granted["option"] == "sched").unwrap()
    };
    assert_eq!(sched("client")["got"], "fifo:1");
    assert_eq!(sched("server")["got"], "other");
    assert!(sched("server")["why"].as_str().unwrap().contains("would take all"), "{row}");
    assert!(warnings(row).contains(&"realtime-throttling"), "{row}");
}

#[test]
fn a_refused_schedule_is_shown() {
    if !can("a_refused_schedule_is_shown", root(), "becoming the user nobody needs root") {
        return;
    }
    let home = crate::support::home_of_nobody();
    let done = home.as_nobody(&format!("ping --link loopback --sched fifo:1 {QUICK} --path udp --json"));
    assert_eq!(done.code, Some(0), "{done:?}");
    let run = done.json();
    let granted = rows(&run)[0]["granted"].as_array().unwrap();
    assert!(granted.iter().any(|granted| granted["option"] == "sched" && granted["got"] == "other"), "{granted:?}");
    assert!(granted.iter().any(|granted| granted["why"].as_str().unwrap().contains("CAP_SYS_NICE")), "{granted:?}");
    let table = home.as_nobody(&format!("ping --link loopback --sched fifo:1 {QUICK} --path udp"));
    assert!(table.out.contains("CAP_SYS_NICE"), "{}", table.out);
}

#[test]
fn forms_of_output() {
    let home = Home::new();
    let ping = format!("ping --link loopback {QUICK} --path udp --path tcp");
    let table = home.hairpin(&ping);
    assert!(table.out.contains("trans/s") && table.out.contains("udp:block"), "{}", table.out);
    assert!(table.out.lines().all(|line| line.chars().count() <= 80), "{}", table.out);
    assert!(!table.out.contains('\u{1b}'), "no colour off a terminal");

    let csv = home.hairpin(&format!("{ping} --csv"));
    let lines: Vec<_> = csv.out.lines().collect();
    assert_eq!(lines.len(), 3, "{}", csv.out);
    let columns = |line: &str| line.split(',').count();
    assert!(lines.iter().all(|line| columns(line) == columns(lines[0])) && lines[0].contains("rtt_p50_ns"), "{}", csv.out);

    let markdown = home.hairpin(&format!("{ping} --markdown --percentiles 50,75"));
    assert!(
        markdown.out.lines().any(|line| line.starts_with("| udp:block") && line.contains(" | 64 | "))
            && markdown.out.contains("RTT p75"),
        "{}",
        markdown.out
    );
    assert!(!markdown.out.contains("p99"), "{}", markdown.out);

    let half = home.hairpin(&format!("{ping} --hrt"));
    assert!(half.out.replace('\n', " ").contains("RTT/2, not one-way"), "{}", half.out);

    let pingpong = home.hairpin(&format!("{ping} --format pingpong"));
    let lines: Vec<_> = pingpong.out.lines().filter(|line| !line.starts_with("# ")).collect();
    assert_eq!(lines.len(), 2, "{}", pingpong.out);
    assert!(lines.iter().all(|line| line.starts_with("elapsed = ") && line.ends_with("size 64")), "{}", pingpong.out);
    assert!(pingpong.err.contains("not one-way"), "{}", pingpong.err);
    for (form, line, note) in [
        ("netperf", "P99_LATENCY=", "is the RTT"),
        ("netperf-csv", "Throughput,", "is the RTT"),
        ("sockperf", "sockperf: Summary: Latency is ", "RTT/2"),
        ("iperf2", "[  1] 0.0000-", "the RTT in ms"),
        ("sfnt-pingpong", "\t64\t", "RTT/2"),
        ("snf_pingpong", "elapsed = ", "RTT/2"),
    ] {
        let shown = home.hairpin(&format!("runs show latest -o {form}"));
        let lines = shown.out.lines().filter(|text| text.starts_with(line) || (form == "netperf-csv" && text.contains(line)));
        assert_eq!(lines.count(), 2, "{form}: {shown:?}");
        assert!(shown.code == Some(0) && shown.err.contains(note), "{form}: {shown:?}");
    }
    home.hairpin(&format!("{ping} --csv --json")).fails(2, &["cannot be used with"]);
}

#[test]
fn a_stream_has_a_line_per_second_and_a_final_one() {
    let home = Home::new();
    let done = home.hairpin("ping --link loopback --path udp --rate 300 --duration 2500ms --warmup 1ms --json-stream");
    assert_eq!(done.code, Some(0), "{done:?}");
    let lines: Vec<Value> = done.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!((2..=5).contains(&lines.len()), "{}", done.out);
    let (last, progress) = lines.split_last().unwrap();
    sound_run(last);
    let mut seen = 0;
    for line in progress {
        assert_eq!(line["schema"], "hairpin.progress/1");
        assert_eq!(line["path"], "udp:block/udp:block");
        let transactions = line["transactions"].as_u64().unwrap();
        assert!(transactions > seen, "{line}");
        seen = transactions;
    }
}

#[test]
fn a_stalled_reader_does_not_delay_the_end_of_a_run() {
    let home = Home::new();
    // The pipe has one page and is full, so the first line waits.
    let (_reader, mut writer) = std::io::pipe().unwrap();
    let size = rustix::pipe::fcntl_setpipe_size(&writer, 4096).unwrap();
    writer.write_all(&vec![b'\n'; size]).unwrap();
    for signal in ["INT", "TERM"] {
        let mut command = home.command(HAIRPIN);
        command.args("ping loopback --path udp --rate 1000 --forever --warmup 1ms --json-stream".split(' '));
        let mut running = home.spawn_to(command, Some(writer.try_clone().unwrap().into()));
        thread::sleep(Duration::from_millis(2500));
        assert!(running.goes_on(), "{signal}: {}", running.err());
        running.signal(signal);
        let done = running.done();
        done.fails(1, &["cannot write the output: its reader has stalled"]);
        assert!(done.took < Duration::from_secs(10), "{done:?}");
    }
    assert_eq!(home.json("runs list")["runs"].as_array().unwrap().len(), 2, "both runs are kept");
}

#[test]
fn a_run_is_kept_as_it_was_printed() {
    let home = Home::new();
    let run = home.json(&format!("ping --link loopback {QUICK} --path udp"));
    assert_eq!(home.hairpin("runs show latest --json").json(), run);
    assert_eq!(run["command"].as_array().unwrap().last().unwrap(), "--json");
    home.json(&format!("ping --link loopback {QUICK} --path udp --no-store"));
    assert_eq!(home.hairpin("runs list --json").json()["runs"].as_array().unwrap().len(), 1);
}

#[test]
fn a_plain_echo_service_and_a_server_that_stays_unknown() {
    let home = Home::new();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (udp, tcp) = (socket.local_addr().unwrap(), listener.local_addr().unwrap());
    thread::spawn(move || {
        let mut bytes = [0; 2048];
        while let Ok((len, from)) = socket.recv_from(&mut bytes) {
            let _ = socket.send_to(&bytes[..len], from);
        }
    });
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut bytes = [0; 2048];
            while let Ok(len @ 1..) = stream.read(&mut bytes) {
                let _ = stream.write_all(&bytes[..len]);
            }
        }
    });
    for (address, path) in [(udp, "udp"), (tcp, "tcp"), (tcp, "tcp-crr")] {
        let run = home.json(&format!("ping --echo {address} --path {path} {QUICK}"));
        sound_run(&run);
        let row = &rows(&run)[0];
        assert_eq!((&run["hosts"]["server"], &run["link"]["kind"]), (&Value::Null, &"echo".into()));
        assert_eq!((&row["turnaround_ns"], &row["cpu"]["server"]), (&Value::Null, &Value::Null));
        assert_eq!(run["link"]["peer"], address.to_string());
    }
}
