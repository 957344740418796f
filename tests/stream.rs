//! `hairpin stream` over a link of its own, and between two interfaces of the tests'.

use std::thread;
use std::time::{Duration, Instant};

use crate::support::net::{MAC_A, MAC_B, Net, apart, text, veth};
use crate::support::{Home, can, links, namespaces, namespaces_of_nobody, rows, workers_of};
use serde_json::Value;

const LINK: &str = "this user may not make namespaces here";

/// Asserts the invariants of a row.
#[track_caller]
fn sound(row: &Value) {
    let number = |value: &Value| value.as_u64().unwrap_or_else(|| panic!("{row:#}"));
    let flat = &row["offered"];
    assert!(number(&flat["offered"]) > 0, "{row:#}");
    assert_eq!(number(&flat["offered"]), number(&flat["delivered"]) + number(&flat["lost"]), "{row:#}");
    if !row["lossless"].is_null() {
        assert_eq!(
            (&row["lossless"]["lost"], &row["lossless"]["offered"]),
            (&0.into(), &row["lossless"]["delivered"]),
            "{row:#}"
        );
        assert!(row["lossless"]["offered_per_s"].as_f64() > Some(0.0), "{row:#}");
        let best = row["lossless"]["offered_per_s"].as_f64().unwrap();
        let steps = row["search"].as_array().unwrap();
        let tried = steps.iter().any(|step| step["offered_per_s"].as_f64() == Some(best) && step["lost"] == 0);
        assert!(tried, "the rate without loss is that of a trial: {row:#}");
    }
}

#[test]
fn each_io_and_direction_has_a_row_without_loss_at_its_stated_rate() {
    if !can("each_io_and_direction_has_a_row_without_loss_at_its_stated_rate", namespaces(), "AF_XDP needs root") {
        return;
    }
    let home = Home::new();
    let stream = home.json("stream --link veth --sizes 64 --duration 60ms");
    assert_eq!((&stream["schema"], &stream["error"]), (&"hairpin.stream/1".into(), &Value::Null));
    let found: Vec<(&str, &str)> =
        rows(&stream).iter().map(|row| (row["io"].as_str().unwrap(), row["direction"].as_str().unwrap())).collect();
    let all: Vec<(&str, &str)> = ["xdp:spin/xdp:spin", "packet:spin/packet:spin"]
        .into_iter()
        .flat_map(|io| ["inject", "receive", "bounce"].map(|direction| (io, direction)))
        .collect();
    assert_eq!(found, all);
    for row in rows(&stream) {
        sound(row);
        assert!(!row["lossless"].is_null() || row["warnings"][0]["code"].is_string(), "{row:#}");
        assert_eq!((&row["frame_bytes"], &row["queues"]), (&64.into(), &1.into()));
        let sides = (row["client"].is_null(), row["server"].is_null());
        assert_eq!(sides, (false, row["direction"] == "inject"), "{row:#}");
    }
    assert!(home.runs().exists(), "every verb that measures keeps its record");
    let asked = home.hairpin("stream --link veth --sizes 64 --duration 60ms --direction inject -p xdp:zero-copy=on");
    asked.fails(4, &["xdp:spin,zero-copy=on", "has no zero-copy"]);
}

#[test]
fn several_queues_and_longer_frames() {
    if !can("several_queues_and_longer_frames", namespaces(), "AF_XDP needs root") {
        return;
    }
    let args = "stream --link veth:queues=2,mtu=3000 --queues 2 --sizes 3014 --duration 50ms --direction receive,bounce";
    let stream = Home::new().json(args);
    assert_eq!(rows(&stream).len(), 4);
    for row in rows(&stream) {
        sound(row);
        for side in ["client", "server"] {
            assert_eq!(row[side]["queues"], serde_json::json!([0, 1]), "{row:#}");
        }
    }
}

#[test]
fn one_rate_without_a_search_in_every_form() {
    if !can("one_rate_without_a_search_in_every_form", links(), LINK) {
        return;
    }
    let home = Home::new();
    let args = "stream --link veth --io packet/packet:block --sizes 60 --direction receive --pace 2000 --duration 300ms";
    let stream = home.json(args);
    let [row] = rows(&stream) else { panic!("{stream}") };
    assert_eq!(
        (&stream["resolution"], &row["lossless"], &row["io"]),
        (&Value::Null, &Value::Null, &"packet:spin/packet:block".into())
    );
    assert_eq!(row["search"].as_array().unwrap().len(), 1);
    sound(row);
    let offered = row["offered"]["offered"].as_u64().unwrap();
    assert!((1..=600).contains(&offered), "a rate is never exceeded: {row:#}");

    let table = home.hairpin(args);
    assert_eq!(table.code, Some(0), "{table:?}");
    assert!(table.out.contains("packet:spin/block") && table.out.contains("offered"), "{}", table.out);
    assert!(table.out.lines().all(|line| line.chars().count() <= 80), "{}", table.out);
    let csv = home.hairpin(&format!("{args} --format csv"));
    assert_eq!(csv.out.lines().count(), 2, "{csv:?}");
    assert!(csv.out.starts_with("started,link,io,direction,frame_bytes"), "{csv:?}");
    for flag in ["--format md", "--markdown"] {
        let page = home.hairpin(&format!("{args} {flag}"));
        assert!(page.out.contains("| packet:spin/block | receive | 60 |"), "{page:?}");
    }
}

#[test]
fn without_privileges_packet_sockets_work_and_af_xdp_names_missing_rights() {
    let name = "without_privileges_packet_sockets_work_and_af_xdp_names_missing_rights";
    if !can(name, namespaces_of_nobody(), "the user nobody may not make namespaces here") {
        return;
    }
    let home = crate::support::home_of_nobody();
    let args = "stream --link veth --sizes 64 --direction receive --duration 50ms --json";
    let done = home.as_nobody(args);
    assert_eq!(done.code, Some(0), "{done:?}");
    let stream = done.json();
    assert!(rows(&stream).iter().any(|row| row["io"] == "packet:spin/packet:spin"), "{stream}");
    rows(&stream).iter().for_each(sound);
    // An io named by the user is not skipped.
    let asked = home.as_nobody(&format!("{args} --io xdp"));
    if !done.err.starts_with("stored as") {
        assert!(done.err.contains("skipped: xdp:spin receive 64 B: "), "{done:?}");
        asked.fails(4, &["xdp:spin", "CAP_"]);
    }
}

#[test]
fn between_two_interfaces() {
    if !can("between_two_interfaces", namespaces(), "interfaces of its own need root") {
        return;
    }
    apart(|| {
        let (home, net) = (Home::new(), Net::new());
        net.enter();
        veth("a0", "b0");
        let mut receive = home.start("stream -i b0 --direction receive --io packet:block --json");
        receive.until("received 0/s");
        let to = text(MAC_B);
        let inject =
            home.json(&format!("stream -i a0 --direction inject --dst-mac {to} --io packet --pace 1000 --duration 500ms"));
        thread::sleep(Duration::from_millis(200));
        receive.signal("INT");
        let done = receive.done();
        assert_eq!(done.code, Some(0), "{done:?}");
        let (sent, came) = (&rows(&inject)[0], done.json());
        let came = &rows(&came)[0];
        assert_eq!(sent["offered"]["delivered"], Value::Null, "nobody counts at the other end: {sent:#}");
        assert_eq!(came["offered"]["delivered"], sent["offered"]["offered"], "{came:#}");
        assert_eq!((&came["offered"]["lost"], &came["frame_bytes"]), (&0.into(), &Value::Null), "{came:#}");

        let mut bounce = home.start("bounce -i b0 --io packet");
        bounce.until("Ctrl-C ends it");
        thread::sleep(Duration::from_millis(100));
        let back = home.json(&format!("stream -i a0 --direction bounce --dst-mac {to} --io packet --duration 50ms"));
        sound(&rows(&back)[0]);
        assert!(back["resolution"].is_f64(), "{back}");
    });
}

#[test]
fn ended_early_it_prints_results_and_killed_it_leaves_nothing() {
    let name = "ended_early_it_prints_results_and_killed_it_leaves_nothing";
    if !can(name, links(), LINK) {
        return;
    }
    let home = Home::new();
    let args = "stream --link veth --io packet --direction inject --sizes 64 --duration 20s --json";
    let running = home.start(args);
    thread::sleep(Duration::from_secs(1));
    running.signal("INT");
    let done = running.done();
    assert!(done.code == Some(0) && done.took < Duration::from_secs(10), "{done:?}");
    let stream = done.json();
    assert_eq!((&stream["interrupted"], rows(&stream).len()), (&true.into(), 1), "{stream}");
    assert!(rows(&stream)[0]["offered"]["offered"].as_u64() > Some(0), "{stream}");

    let mut running = home.start(args);
    let (parent, begun) = (running.pid(), Instant::now());
    while workers_of(parent).len() < 2 {
        assert!(begun.elapsed() < Duration::from_secs(10));
        thread::sleep(Duration::from_millis(5));
    }
    running.kill();
    let killed = Instant::now();
    while !workers_of(parent).is_empty() {
        assert!(killed.elapsed() < Duration::from_secs(10), "{:?}", workers_of(parent));
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn ended_while_it_prepares_it_measures_nothing() {
    if !can("ended_while_it_prepares_it_measures_nothing", links(), LINK) {
        return;
    }
    let home = Home::new();
    let running = home.start("stream --link veth --io packet --direction receive --sizes 64 --pace 1000 --duration 100s --json");
    let begun = Instant::now();
    while workers_of(running.pid()).len() < 2 {
        assert!(begun.elapsed() < Duration::from_secs(10));
        thread::sleep(Duration::from_millis(1));
    }
    running.signal("INT");
    let done = running.done();
    // Where the trial had begun already, there is a row.
    assert!(done.took < Duration::from_secs(50) && [Some(0), Some(1)].contains(&done.code), "{done:?}");
}

#[test]
fn a_frame_that_does_not_fit_is_refused_with_the_limit() {
    if !can("a_frame_that_does_not_fit_is_refused_with_the_limit", links(), LINK) {
        return;
    }
    let home = Home::new();
    for bytes in [59, 1515] {
        let done = home.hairpin(&format!("stream --link veth --io packet --sizes {bytes}"));
        done.fails(2, &["MTU of 1500", "60 to 1514", &format!("not {bytes}")]);
    }
    assert_eq!(text(MAC_A), "02:00:00:00:00:0a");
}

#[test]
fn its_page_names_flags_that_exist() {
    let help = std::process::Command::new(crate::support::HAIRPIN).args(["stream", "--help"]).output().expect("help");
    let help = String::from_utf8(help.stdout).expect("text");
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/verbs/stream.md")).expect("its page");
    let table: String = page.lines().filter(|line| line.starts_with("| `")).collect();
    let mut flags: Vec<&str> = table.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-')).collect();
    flags.retain(|word| word.starts_with("--") && word.len() > 3);
    assert!(flags.len() > 10, "{flags:?}");
    for flag in flags {
        assert!(help.contains(flag), "{flag} is in docs/verbs/stream.md and not in --help");
    }
}
