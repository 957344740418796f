//! `hairpin ping --one-way`: over one clock, over one kernel, over two clocks by a daemon's word, and refused.
//!
//! Every host of these tests has one clock, so that the truth is known: whatever a daemon says, the clocks differ by 0.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use crate::support::{HAIRPIN, Home, Running, can, links, namespaces, rows, served};
use serde_json::Value;

const QUICK: &str = "--count 400 --warmup 5ms";

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("no number: {value}"))
}

/// The delays of a row. Each lies between 0 and the longest RTT, to within the bound.
#[track_caller]
fn delays(run: &Value) -> Value {
    let row = &rows(run)[0];
    let found = &row["one_way"];
    let (bound, longest) = (number(&found["bound_ns"]), number(&row["rtt_ns"]["max"]));
    for way in ["request_ns", "reply_ns"] {
        assert!(number(&found[way]["count"]) > 30.0, "{found}");
        let (min, max) = (number(&found[way]["min"]), number(&found[way]["max"]));
        // Rounding of ticks and of times is within 2 ns.
        assert!(min >= -bound - 2.0 && max <= longest + bound + 2.0, "{way}: {min} to {max} of {longest}, within {bound}");
    }
    let parts: f64 = found["parts"].as_array().expect("parts").iter().map(|part| number(&part["ns"])).sum();
    assert!((parts - bound).abs() < 1.0, "the bound is the sum of its parts: {found}");
    assert_eq!(found["impossible"], 0, "{found}");
    found.clone()
}

#[test]
fn a_link_of_this_host_has_one_clock() {
    let home = Home::new();
    for (path, size) in [("udp", "64"), ("tcp", "64"), ("udp:spin/block", "1000"), ("unix", "64"), ("pipe", "64")] {
        let run = home.json(&format!("ping loopback {QUICK} --one-way --path {path} --size {size}"));
        let found = delays(&run);
        assert!(found["source"].as_str().expect("a source").starts_with("one clock ("), "{found}");
        assert!(number(&found["bound_ns"]) < 1_000.0 && found["negative"] == 0, "{found}");
        assert!(number(&found["unmatched"]) <= 4.0, "{path}: {found}");
        assert!(found["client"].is_null() && found["readings"] == 0, "{found}");
    }
    let plain = home.json(&format!("ping loopback {QUICK} --path udp"));
    assert!(rows(&plain)[0].get("one_way").is_none(), "it is not asked for");
}

#[test]
fn time_on_a_link_counts_in_its_direction() {
    if !can("time_on_a_link_counts_in_its_direction", links(), "veth needs namespaces") {
        return;
    }
    let home = Home::new();
    // At 1 Mbit/s a frame of 1,442 bytes takes 11.5 ms of the token bucket, one of 106 bytes takes 0.8 ms.
    let of = |request: u32, reply: u32| {
        let work = format!("--request {request} --reply {reply} --count 80 --warmup 100ms");
        delays(&home.json(&format!("ping veth:rate=1M --path udp {work} --one-way")))
    };
    let p50 = |found: &Value, way: &str| number(&found[way]["p50"]);
    for (long, found) in [("request_ns", of(1_400, 64)), ("reply_ns", of(64, 1_400))] {
        assert!(p50(&found, long) > 7e6, "{long}: {found}");
        let sign = if long == "request_ns" { 1.0 } else { -1.0 };
        assert!(sign * p50(&found, "asymmetry_ns") > 3e6, "{long}: {found}");
    }
}

#[test]
fn the_servers_own_time_is_in_neither_direction() {
    let home = Home::new();
    let run = home.json(&format!("ping loopback {QUICK} --one-way --path udp:block/udp:block,delay=1000000"));
    let found = delays(&run);
    for way in ["request_ns", "reply_ns"] {
        assert!(number(&found[way]["min"]) < 1e6, "{found}");
    }
    assert!(number(&rows(&run)[0]["rtt_ns"]["min"]) >= 1e6);
}

#[test]
fn a_server_on_the_same_kernel_reads_the_same_time_of_day() {
    let home = Home::new();
    let (_serve, address) = home.serve("");
    for path in ["udp", "tcp"] {
        let run = home.json(&format!("ping {address} {QUICK} --one-way --path {path}"));
        let found = delays(&run);
        assert_eq!(found["source"], "both sides run on one kernel, and read one time of day");
        let bound = number(&found["bound_ns"]);
        assert!(bound > 0.0 && bound < 10e6, "the placing of the stamps alone: {found}");
    }
    // Of a warm-up of half a second the server has more times than count.
    delays(&home.json(&format!("ping {address} --count 400 --one-way --path udp")));
    let text = home.hairpin(&format!("ping {address} {QUICK} --one-way --path udp"));
    let words = text.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("one way: udp") && words.contains("request p50 ") && words.contains("reply p50 "), "{words}");
    assert!(words.contains("each ± ") && words.contains("request less reply "), "{words}");
}

/// A folder with programs of a test's own in place of chronyc and pmc.
fn programs(home: &Home, name: &str, chronyc: &str, pmc: &str) -> String {
    let folder = home.file(name);
    fs::create_dir_all(&folder).expect("a folder");
    for (program, script) in [("chronyc", chronyc), ("pmc", pmc)] {
        let file = folder.join(program);
        fs::write(&file, format!("#!/bin/sh\n{script}\n")).expect("a script");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("its mode");
    }
    format!("{}:{}", folder.display(), std::env::var("PATH").unwrap_or_default())
}

fn follows(address: &str) -> String {
    format!(
        "echo 0A000001,{address},3,1764079000.1,-0.000000100,0.000000400,0.000002,-12.345,0.010,0.200,0.000002000,0.000003000,64.2,Normal"
    )
}

const NONE: &str = "echo '506 Cannot talk to daemon'; exit 1";

/// A server that takes itself for another kernel.
fn other_kernel(home: &Home, path: &str) -> (Running, String) {
    fs::write(home.file("id"), "11111111-2222-3333-4444-555555555555\n").expect("an id");
    let mut command = home.command("unshare");
    let script = format!(
        "mount --bind {} /proc/sys/kernel/random/boot_id && exec {HAIRPIN} serve --listen 127.0.0.1:0",
        home.file("id").display()
    );
    command.args(["--mount", "sh", "-c", &script]).env("PATH", path);
    let mut serve = home.spawn(command);
    serve.until("Ctrl-C ends it");
    let address = served(&serve.err());
    (serve, address)
}

fn ping(home: &Home, path: &str, args: &str) -> Command {
    let mut command = home.command(HAIRPIN);
    command.args(format!("ping {args} {QUICK} --one-way --path udp").split_whitespace()).env("PATH", path);
    command
}

#[test]
fn two_clocks_need_a_common_source_and_their_daemons_bound_stands_beside_the_delays() {
    let name = "two_clocks_need_a_common_source_and_their_daemons_bound_stands_beside_the_delays";
    if !can(name, namespaces(), "another kernel's id takes a mount namespace of root") {
        return;
    }
    let home = Home::new();
    let same = programs(&home, "same", &follows("192.0.2.1"), "exit 1");
    let (_serve, address) = other_kernel(&home, &same);

    let mut command = ping(&home, &same, &address);
    command.arg("--json");
    let done = home.spawn(command).done();
    assert_eq!(done.code, Some(0), "{done:?}");
    let found = delays(&done.json());
    assert_eq!(found["source"], "both follow the NTP server 192.0.2.1");
    // 100 ns of system time, 3 us of dispersion and half of 2 us of delay, on each side.
    let bound = number(&found["bound_ns"]);
    assert!(bound >= 8_200.0, "{found}");
    assert_eq!((&found["client"]["daemon"], &found["server"]["error_ns"]), (&"chrony".into(), &4_100.0.into()));
    assert!(number(&found["readings"]) >= 2.0, "before and after the row: {found}");

    let done = home.spawn(ping(&home, &same, &address)).done();
    let words = done.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("(both follow the NTP server 192.0.2.1)"), "{words}");

    // The client follows the server itself.
    let at_server = programs(&home, "at-server", &follows("127.0.0.1"), "exit 1");
    let mut command = ping(&home, &at_server, &address);
    command.arg("--json");
    let done = home.spawn(command).done();
    assert_eq!(delays(&done.json())["source"], "the client follows the server, by NTP");

    let other = programs(&home, "other", &follows("192.0.2.7"), "exit 1");
    let said = [
        "--one-way: the clocks share no source: the client follows the NTP server 192.0.2.7, the server follows the NTP server 192.0.2.1",
        "point chrony on both at one server",
    ];
    home.spawn(ping(&home, &other, &address)).done().fails(4, &said);

    let none = programs(&home, "none", NONE, "exit 1");
    let said = ["client: no daemon tells how far its clock may be off: chronyc: 506 Cannot talk to daemon; pmc: it failed"];
    home.spawn(ping(&home, &none, &address)).done().fails(4, &said);

    let nonsense = programs(&home, "nonsense", "echo a,b,c", "exit 1");
    home.spawn(ping(&home, &nonsense, &address)).done().fails(4, &["cannot read (3 fields in place of 14)"]);
    let lost = follows("192.0.2.1").replace("Normal", "Not synchronised");
    let lost = programs(&home, "lost", &lost, "exit 1");
    home.spawn(ping(&home, &lost, &address)).done().fails(4, &["client: chrony is not synchronised (yet)"]);
}

#[test]
fn a_source_that_is_lost_in_mid_run_ends_the_figures_and_not_the_run() {
    let name = "a_source_that_is_lost_in_mid_run_ends_the_figures_and_not_the_run";
    if !can(name, namespaces(), "another kernel's id takes a mount namespace of root") {
        return;
    }
    let home = Home::new();
    let (serves, before) = (programs(&home, "serves", &follows("192.0.2.1"), "exit 1"), follows("192.0.2.1"));
    let (_serve, address) = other_kernel(&home, &serves);
    // The first answer differs from those that follow.
    let turns = format!("if [ -e {0} ]; then {1}; else : >{0}; {before}; fi", home.file("asked").display(), follows("192.0.2.9"));
    let turning = programs(&home, "turning", &turns, "exit 1");
    let mut command = ping(&home, &turning, &address);
    command.arg("--json");
    let done = home.spawn(command).done();
    assert_eq!(done.code, Some(0), "{done:?}");
    let run = done.json();
    let found = &rows(&run)[0]["one_way"];
    let ended = found["ended"].as_str().expect("why it ended");
    assert!(ended.starts_with("the clocks share no source: the client follows the NTP server 192.0.2.9"), "{found}");
    assert_eq!(rows(&run)[0]["transactions"], 400);
}

#[test]
fn jobs_without_one_way_delays_are_refused_in_words() {
    let home = Home::new();
    for (args, parts) in [
        ("echo:127.0.0.1:7 --one-way", &["--one-way: it takes a HOST on which hairpin serve runs, loopback or veth"][..]),
        ("frames:lo --one-way", &["--one-way: it takes a HOST"]),
        ("loopback --one-way --path udp:poll --flows 4", &["--one-way follows one request at a time", "--flows"]),
        ("loopback --one-way --path udp --size 3", &["--one-way matches stamps by the sequence number", "takes 4 bytes, not 3"]),
        ("loopback --one-way --path tcp-crr", &["--one-way takes a path that keeps its connection"]),
        ("loopback --one-way --raw x.parquet", &["--raw", "leave one of the two out"]),
    ] {
        home.hairpin(&format!("ping {args} {QUICK}")).fails(2, parts);
    }
    assert!(!home.runs().exists(), "a run of nothing was stored");
}
