//! `hairpin load` for real: curves over every path, a server that stops, and all kinds of failure.
//!
//! A test that cannot run here says so and is skipped; with HAIRPIN_MUST_RUN=1 that is a failure.

mod stalls;

use std::fs;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::support::alone::{self, Part, Plain};
use crate::support::{Home, can, home_of_nobody, links, namespaces, namespaces_of_nobody, root, rows, two_cpus, workers_of};
use serde_json::Value;

pub const PART: Part = Part::new("load", || alone::plain(TESTS)).side_by_side();
/// Each wants both cores.
pub const OF_TIMES: Part = Part::new("load_times", || alone::plain(TESTS_OF_TIMES));

const TESTS_OF_TIMES: &[Plain] = &[
    ("rates are found from what a closed loop does", found_rates),
    ("a rate that fails is measured again, up to the first that fails each time", measured_again),
    ("a stall of the server shows in the RTT from due and not in the RTT from sent", stalled_server),
    ("stalls of the server are as long and as many as another client sees them", stalls::as_seen_by_another_client),
    ("stalls of redis are as long and as many as another client sees them", stalls::of_redis_as_seen_by_another_client),
    ("p99.9 of a stopped redis is what another client sees", stalls::p999_of_redis_as_seen_by_another_client),
    ("a server that stands still is said to", stands_still),
];
const TESTS: &[Plain] = &[
    ("every path has a curve", every_path),
    ("forms of output", forms),
    ("a sleeping client is told from a spinning one", sleeping),
    ("streams fill the link meanwhile and end with it", bulk),
    ("a recording is replayed", recording),
    ("hostile recordings are refused", hostile),
    ("what cannot be is refused in words", usage),
    ("Ctrl-C keeps what was measured", interrupted),
    ("a server that dies in mid-run is an error in time", dead_server),
    ("a remote server answers an open loop", remote),
];

/// Other processes of this host may look like the fault that a test seeks; one quiet run is enough.
const TRIES: usize = 6;

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("no number: {value}"))
}

/// Asserts the invariants of a curve.
#[track_caller]
fn sound(curve: &Value) {
    let rates = curve["rates"].as_array().expect("rates");
    assert!(!rates.is_empty(), "{curve:#}");
    for row in rates {
        let count = |name: &str| number(&row[name]);
        assert_eq!(count("due"), count("sent") + count("unsent"), "{row:#}");
        let answered = count("transactions") + count("late");
        assert_eq!(count("due"), answered + count("unanswered") + count("unsent"), "{row:#}");
        assert_eq!(count("due"), number(&row["rtt_from_due_ns"]["count"]), "{row:#}");
        assert_eq!(count("sent"), number(&row["lateness_ns"]["count"]), "{row:#}");
        assert!((number(&row["achieved_per_s"]) * count("wall_ns") / 1e9 - answered).abs() < 0.5 + answered * 1e-6, "{row:#}");
        assert!(count("transactions") + count("lost") <= count("sent"), "{row:#}");
        // A very busy host answers nothing in a tenth of a second.
        let figures: &[&str] = if count("transactions") > 0.0 { &["min", "mean", "max"] } else { &[] };
        for figure in figures {
            let [due, sent] = ["rtt_from_due_ns", "rtt_from_sent_ns"].map(|name| number(&row[name][figure]));
            assert!(due + 1.0 >= sent, "none is answered sooner from due than from sent: {row:#}");
        }
        for name in ["rtt_from_due", "rtt_from_sent", "lateness"] {
            assert!(row["histograms"][name].as_str().is_some_and(|text| text.len() > 20), "{row:#}");
        }
    }
}

fn every_path() {
    let home = Home::new();
    let loopback = "--path tcp:spin --path udp:block --path udp:epoll --path unix:poll --path unix-dgram --path pipe:spin --path eventfd:spin --path memory \
                    --path niq:spin --path niq:block";
    let mut all = vec![("loopback", loopback, 10)];
    if can("load: packet rings over loopback", root(), "AF_PACKET needs root") {
        all.push(("loopback", "--path packet:spin", 1));
    }
    if can("load: every path over veth", namespaces(), "AF_XDP needs root") {
        all.push(("veth", "--path xdp:spin --path xdp:block --path packet:block --path tcp:busy-poll", 4));
    }
    for (link, paths, count) in all {
        let size = if link == "loopback" { "--size 8" } else { "" };
        let load = home.json(&format!("load --link {link} {paths} {size} --rate 500,1000 --duration 200ms --warmup 50ms"));
        assert_eq!((&load["schema"], &load["error"]), (&"hairpin.load/1".into(), &Value::Null), "{link}");
        assert_eq!(rows(&load).len(), count, "{load:#}");
        for curve in rows(&load) {
            sound(curve);
            for row in curve["rates"].as_array().unwrap() {
                // However busy the host: as many were due as the duration holds.
                let held = number(&row["offered_per_s"]) * 0.2;
                assert!((number(&row["due"]) + number(&row["left_out"]) - held).abs() <= 2.0, "{held}: {row:#}");
                assert!(number(&row["transactions"]) > 0.0, "{}: {row:#}", curve["path"]);
            }
        }
    }
}

fn found_rates() {
    let load =
        Home::new().json("load --link loopback --path udp:spin --duration 100ms --warmup 50ms --schedule poisson --seed 7");
    let [curve] = rows(&load) else { panic!("{load:#}") };
    sound(curve);
    assert_eq!(load["schedule"], serde_json::json!({ "kind": "poisson", "seed": 7, "file": null }));
    let rates: Vec<&Value> = curve["rates"].as_array().unwrap().iter().filter(|row| row["repeat"] == 0).collect();
    assert_eq!(rates.len(), 11);
    let saturation = number(&curve["saturation_per_s"]);
    assert!(saturation > 1_000.0);
    assert!((number(&rates[4]["offered_per_s"]) / saturation - 0.5).abs() < 0.01, "{curve:#}");
    assert!(!curve["knee"].is_null(), "{curve:#}");
}

fn forms() {
    let home = Home::new();
    let args = "load --link loopback --path tcp:spin --path udp --rate 1000,4000 --duration 100ms --warmup 20ms";
    let table = home.hairpin(args);
    assert_eq!(table.code, Some(0), "{table:?}");
    assert!(table.out.contains("RTT from due") && table.out.contains("keep"), "{}", table.out);
    assert!(table.out.lines().all(|line| line.chars().count() <= 80), "{}", table.out);
    let csv = home.hairpin(&format!("{args} --csv"));
    // A rate that a busy host spoils is measured again.
    let at = csv.out.lines().next().and_then(|names| names.split(',').position(|name| name == "repeat")).expect("a column");
    let again = |line: &&str| matches!(line.split(',').nth(at), Some("1" | "2"));
    assert_eq!(csv.out.lines().filter(|line| !again(line)).count(), 5, "{csv:?}");
    let page = home.hairpin(&format!("{args} --markdown"));
    assert!(page.out.contains("| 1.00 k/s |"), "{page:?}");
    assert!(home.runs().exists(), "every verb that measures keeps its record");
}

/// Few requests, at a rate above that of any path.
fn measured_again() {
    let load = Home::new().json("load --link loopback --path udp --rate 200,9000000,10000000 --duration 300ms --warmup 20ms");
    let rates = rows(&load)[0]["rates"].as_array().unwrap();
    let measured: Vec<(f64, u64)> =
        rates.iter().map(|row| (number(&row["offered_per_s"]), row["repeat"].as_u64().expect("repeat"))).collect();
    let hopeless: Vec<(f64, u64)> = measured.into_iter().filter(|(per_s, _)| *per_s > 200.0).collect();
    assert_eq!(hopeless, [(9e6, 0), (9e6, 1), (1e7, 0)], "{load:#}");
    let knee = &rows(&load)[0]["knee"];
    assert_eq!(
        (&knee["beyond_per_s"], &knee["why"], &knee["unclear"]),
        (&9e6.into(), &"achieved".into(), &Value::Null),
        "{knee:#}"
    );
}

/// The worker that runs on this CPU alone, once there is one.
fn worker_on(parent: u32, cpu: &str) -> u32 {
    let begun = Instant::now();
    loop {
        let on = |pid: &u32| {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            status.lines().any(|line| line.strip_prefix("Cpus_allowed_list:").is_some_and(|list| list.trim() == cpu))
        };
        if let Some(pid) = workers_of(parent).iter().find(|pid| on(pid)) {
            return *pid;
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "no worker on CPU {cpu}");
        sleep(Duration::from_millis(5));
    }
}

fn signal(pid: u32, name: &str) {
    let done = Command::new("kill").args([format!("-{name}"), pid.to_string()]).status().expect("kill");
    assert!(done.success(), "kill -{name} {pid}");
}

/// Half of a closed loop's rate, room for one request in flight, and the server's process stopped for 10 ms
/// in the middle. Both sides sleep while they wait and have priority over other processes (SCHED_FIFO, as far
/// as this user may), so that a busy host adds no stall of its own.
fn stalled_server() {
    if !can("load: a stall of the server", two_cpus(), "it takes CPUs 0 and 1") {
        return;
    }
    let home = Home::new();
    let both = "--link loopback --path udp:block --sched fifo:20 --cpu 0,1 --warmup 200ms";
    let mut said = Vec::new();
    for _ in 0..TRIES {
        let closed = home.json(&format!("ping {both} --duration 500ms --no-store"));
        let half = (number(&rows(&closed)[0]["transactions_per_s"]) / 2.0) as u64;
        let running = home.start(&format!("load {both} --outstanding 1 --rate {half} --duration 3s --json"));
        let server = worker_on(running.pid(), "1");
        sleep(Duration::from_millis(1_200));
        signal(server, "STOP");
        sleep(Duration::from_millis(10));
        signal(server, "CONT");
        let load = running.done().json();
        let row = &rows(&load)[0]["rates"][0];
        let [due, sent] = ["rtt_from_due_ns", "rtt_from_sent_ns"].map(|name| number(&row[name]["p99.9"]) / 1e6);
        let longest = number(&row["rtt_from_sent_ns"]["max"]) / 1e6;
        said.push(format!("at {half}/s p99.9 from due {due:.3} ms, from sent {sent:.3} ms, longest from sent {longest:.3} ms"));
        // One request met the stall; those behind it waited in the client.
        if due > 5.0 && sent < 2.0 && longest > 9.0 {
            println!("load: {}", said.last().unwrap());
            assert_eq!(number(&row["lost"]), 0.0, "{row:#}");
            assert!(number(&row["found_no_room"]) > 0.0, "{row:#}");
            return;
        }
    }
    panic!("in no run the stall showed from due alone: {said:#?}");
}

/// For paced, open and closed loops, datagrams and streams: the silence is reported, without advice on
/// buffers.
fn stands_still() {
    if !can("load: a server that stands still", two_cpus(), "it takes CPUs 0 and 1") {
        return;
    }
    // Those that sleep run side by side; each that spins has the cores to itself.
    for together in [
        &["ping --path udp:spin"][..],
        &["load --path tcp:spin --rate 200"],
        &["ping --path tcp:block", "ping --path udp:block --pace 200", "load --path udp:block --rate 200"],
    ] {
        std::thread::scope(|scope| together.iter().for_each(|how| drop(scope.spawn(|| stands_still_in(how)))));
    }
}

fn stands_still_in(how: &str) {
    let home = Home::new();
    let running = home.start(&format!("{how} --link loopback --cpu 0,1 --duration 1250ms --warmup 100ms --json"));
    let server = worker_on(running.pid(), "1");
    sleep(Duration::from_millis(700));
    signal(server, "STOP");
    sleep(Duration::from_millis(400));
    signal(server, "CONT");
    let record = running.done().json();
    let row = &rows(&record)[0];
    let row = row.get("rates").map_or(row, |rates| &rates[0]);
    let silence = row["silences"].as_array().and_then(|all| all.iter().max_by_key(|one| one["length_ns"].as_u64())).expect(how);
    let (sent, answered) = (number(&silence["sent"]), number(&silence["answered"]));
    assert!((350.0..600.0).contains(&(number(&silence["length_ns"]) / 1e6)), "{how}: {silence}");
    assert!(sent > 0.0 && sent == answered, "{how}: {silence}");
    let notes: Vec<&str> = row["warnings"].as_array().unwrap().iter().map(|note| note["code"].as_str().unwrap()).collect();
    assert!(notes.contains(&"no-answer") && !notes.contains(&"loss") && !notes.contains(&"stopped"), "{how}: {notes:?}");
}

fn sleeping() {
    let load = Home::new().json("load --link loopback --path udp:block --path udp:spin --rate 1000 --for 600ms --warmup 50ms");
    let [block, spin] = rows(&load) else { panic!("{load:#}") };
    for row in [block, spin] {
        // If a core stands still between two blocks, the requests due meanwhile are left out.
        let [due, left_out] = ["due", "left_out"].map(|count| row["rates"][0][count].as_u64().unwrap());
        assert!((290..=310).contains(&(due + left_out)), "{due} and {left_out} left out, of half a whole of 600 ms");
    }
    let granted = &block["granted"][0];
    assert_eq!((&granted["option"], &granted["asked"], &granted["got"]), (&"wait".into(), &"block".into(), &"poll".into()));
    let wait = |granted: &Value| granted["option"] == "wait";
    assert!(!spin["granted"].as_array().unwrap().iter().any(wait), "{spin:#}");
    assert_eq!((block["rates"][0]["stalls"].is_null(), spin["rates"][0]["stalls"].is_null()), (true, false));
}

fn bulk() {
    let home = Home::new();
    let mut all = vec!["loopback"];
    if can("load: bulk over veth", links(), "this user may not make namespaces here") {
        all.push("veth:rate=1G");
    }
    for link in all {
        let running = home
            .start(&format!("load --link {link} --path udp --rate 500,1000 --duration 300ms --warmup 50ms --bulk tcp:2 --json"));
        let parent = running.pid();
        let begun = Instant::now();
        while workers_of(parent).len() < 4 {
            assert!(begun.elapsed() < Duration::from_secs(20), "no bulk workers");
            sleep(Duration::from_millis(5));
        }
        let done = running.done();
        assert_eq!(done.code, Some(0), "{done:?}");
        let load = done.json();
        assert_eq!(load["bulk_streams"], 2);
        for row in rows(&load)[0]["rates"].as_array().unwrap() {
            let rate = number(&row["bulk"]["bits_per_s"]);
            assert!(rate > 1e7, "{row:#}");
            assert!(link == "loopback" || rate < 1.2e9, "it is the same link: {row:#}");
        }
        assert!(workers_of(parent).is_empty());
    }
    if can("load: bulk without privileges", namespaces_of_nobody(), "the user nobody may not make namespaces here") {
        let done = home_of_nobody()
            .as_nobody("load --link veth --path udp --rate 500 --duration 200ms --warmup 20ms --bulk tcp:1 --json");
        assert_eq!(done.code, Some(0), "{done:?}");
        assert!(number(&rows(&done.json())[0]["rates"][0]["bulk"]["bytes"]) > 0.0, "{done:?}");
    }
    home.hairpin("load --echo 127.0.0.1:7 --path udp --rate 100 --bulk tcp:1").fails(2, &["loopback or veth"]);
}

fn recording() {
    let home = Home::new();
    let lines: String = (0..600).map(|n| format!("{:.6},{}\n", 1_000.0 + f64::from(n) * 0.0005, 20 + n % 5)).collect();
    fs::write(home.file("recorded.csv"), format!("time,size\n{lines}")).unwrap();
    let load = home.json("load --link loopback --path udp --path unix-dgram:spin --replay recorded.csv --warmup 20ms");
    assert_eq!(load["schedule"]["kind"], "replay");
    for curve in rows(&load) {
        sound(curve);
        let row = &curve["rates"][0];
        assert_eq!((&row["due"], &row["sent"], &curve["request_bytes"]), (&600.into(), &600.into(), &24.into()), "{row:#}");
        assert!((number(&row["offered_per_s"]) / 2_000.0 - 1.0).abs() < 0.01);
        // As long as recorded, or longer if the last requests could not leave on time.
        assert!(number(&row["wall_ns"]) >= 299.4e6, "{row:#}");
    }
    home.hairpin("load --link loopback --path tcp --replay recorded.csv").fails(2, &["tcp", "several", "--path udp"]);
    fs::write(home.file("plain.csv"), "0,64\n0.001,64\n0.002,64\n").unwrap();
    sound(&rows(&home.json("load --link loopback --path tcp --replay plain.csv --warmup 20ms"))[0]);
}

fn hostile() {
    let home = Home::new();
    for (name, text, part) in [
        ("empty", "", "has none"),
        ("one", "0,64\n", "has one"),
        ("negative", "0,64\n-1,64\n", "negative:2"),
        ("unsorted", "2,64\n1,64\n", "unsorted:2"),
        ("size", "0,64\n1,70000\n", "size:2"),
        ("binary", "\u{0}\u{1}\u{2}", "binary:1"),
        ("moment", "5,64\n5,64\n", "one moment"),
        ("rate", "0,64\n0.000000001,64\n", "10,000,000"),
    ] {
        fs::write(home.file(name), text).unwrap();
        home.hairpin(&format!("load --link loopback --path udp --replay {name}")).fails(2, &[part]);
    }
    let huge: String = (0..1_000_001).map(|n| format!("{}.{:06},64\n", n / 1_000_000, n % 1_000_000)).collect();
    fs::write(home.file("huge"), huge).unwrap();
    home.hairpin("load --link loopback --path udp --replay huge").fails(2, &["1000000"]);
    home.hairpin("load --link loopback --path udp --replay /dev/zero").fails(2, &["/dev/zero:1"]);
    home.hairpin("load --link loopback --path udp --replay nowhere.csv").fails(2, &["nowhere.csv"]);
    if can("load: a recording beyond the MTU", namespaces(), "packet sockets need root") {
        fs::write(home.file("large"), "0,1473\n0.001,1473\n").unwrap();
        home.hairpin("load --link veth --path packet --replay large").fails(2, &["1472", "MTU"]);
    }
}

fn usage() {
    let home = Home::new();
    for (args, part) in [
        ("load --link loopback --rate 0", "not a rate"),
        ("load --link loopback --rate 5,x", "not a number"),
        ("load --link loopback --rate 1..9", "not a number"),
        ("load --link loopback --rate 99999999", "not a rate"),
        ("load --link loopback --pace x", "not a number"),
        ("load --link loopback --forever", "--duration"),
        ("load --link loopback --seed 5", "poisson"),
        ("load --link loopback --bulk udp:1", "tcp:N"),
        ("load --link loopback --path tcp-crr --rate 10", "connection"),
        ("load --link loopback --path memory --outstanding 2 --rate 10", "at most 1"),
        ("load --link loopback --rate 10 --replay x.csv", "cannot be used"),
        ("load --link loopback --for 1s --replay x.csv", "cannot be used"),
        ("load --link loopback --for 1s --duration 1s", "cannot be used"),
        ("load --link loopback --for 1s --count 10", "cannot be used"),
        ("load --rate 10 --path udp", "say where to"),
    ] {
        home.hairpin(args).fails(2, &[part]);
    }
}

fn interrupted() {
    let home = Home::new();
    let running = home.start("load --link loopback --path udp --rate 1000,2000 --duration 30s --warmup 10ms --json");
    let begun = Instant::now();
    while workers_of(running.pid()).len() < 2 {
        assert!(begun.elapsed() < Duration::from_secs(20), "no workers: {}", running.err());
        sleep(Duration::from_millis(5));
    }
    sleep(Duration::from_millis(700));
    running.signal("INT");
    let done = running.done();
    assert_eq!(done.code, Some(0), "{done:?}");
    let load = done.json();
    assert_eq!((&load["interrupted"], &load["error"]), (&true.into(), &Value::Null));
    let rates = rows(&load)[0]["rates"].as_array().unwrap();
    assert_eq!(rates.len(), 1);
    assert!(number(&rates[0]["transactions"]) > 10.0, "{load:#}");
    sound(&rows(&load)[0]);
}

fn dead_server() {
    if !can("load: a server that dies", two_cpus(), "it takes CPUs 0 and 1") {
        return;
    }
    let home = Home::new();
    for path in ["udp:spin", "tcp:block", "unix-dgram"] {
        let running = home.start(&format!(
            "load --link loopback --path {path} --cpu 0,1 --rate 1000 --duration 30s --warmup 10ms --timeout 1s --json"
        ));
        let server = worker_on(running.pid(), "1");
        sleep(Duration::from_millis(500));
        signal(server, "KILL");
        let begun = Instant::now();
        let done = running.done();
        assert_eq!(done.code, Some(1), "{path}: {done:?}");
        assert!(begun.elapsed() < Duration::from_secs(10), "{path}: {:?}", begun.elapsed());
        let load = done.json();
        assert!(load["error"].is_string(), "{path}: {load:#}");
        assert!(number(&rows(&load)[0]["rates"][0]["transactions"]) > 10.0, "{path}: what was measured until then is kept");
    }
}

fn remote() {
    let home = Home::new();
    let (server, at) = home.serve("");
    let load = home.json(&format!("load {at} --path tcp:spin --rate 1000,2000 --duration 200ms --warmup 20ms"));
    assert_eq!(load["link"]["kind"], "host");
    sound(&rows(&load)[0]);
    drop(server);
}
