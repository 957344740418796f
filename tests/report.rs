//! `hairpin report` from the command line: the figures in the page are those of the record, and gaps are named.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::support::asked::Asked;
use crate::support::net::{Net, apart, ip, veth};
use crate::support::terminal::{on_terminal, scripts};
use crate::support::{Done, HAIRPIN, Home, LIMIT, Running, can, free_port, namespaces, root, rows, unwrapped};
use serde_json::Value;

const QUICK: &str = "--link loopback --count 2000 --warmup 5ms";

/// A record as it was measured.
fn kept(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../report/tests/data").join(name).canonicalize().expect(name)
}

/// The data inside a page.
#[track_caller]
fn view(page: &str) -> Value {
    assert!(page.starts_with("<!doctype html>"), "{page:.100}");
    let (_, data) = page.split_once("<script type=\"application/json\" id=\"view\">").expect("a place for the data");
    serde_json::from_str(data.split_once("</script>").expect("its end").0).expect("JSON")
}

#[track_caller]
fn view_in(file: &Path) -> Value {
    view(&fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display())))
}

#[test]
fn the_page_has_the_figures_of_the_run() {
    let home = Home::new();
    let run = home.json(&format!("ping {QUICK} --path udp:spin --path tcp:block --sizes 64,256,1024"));
    let done = home.hairpin("report latest -o report.html");
    let file = home.file("report.html");
    assert_eq!((done.code, done.out.as_str()), (Some(0), ""), "{done:?}");
    assert!(done.err.contains(&format!("report: {}", file.canonicalize().unwrap().display())), "{done:?}");
    let view = view_in(&file);
    let shown = view["rows"].as_array().unwrap();
    assert_eq!(shown.len(), 6);
    for (row, shown) in rows(&run).iter().zip(shown) {
        for field in ["path", "origin", "request_bytes", "reply_bytes", "flows", "outstanding", "lost", "transactions_per_s"] {
            assert_eq!(row[field], shown[field], "{field}");
        }
        let (times, rtt) = (&row["rtt_ns"], &shown["rtt"]);
        assert_eq!((&times["count"], &times["min"], &times["max"]), (&shown["count"], &rtt["min"], &rtt["max"]));
        for (name, field) in [("p50", "p50"), ("p90", "p90"), ("p99", "p99"), ("p99.9", "p999")] {
            assert_eq!(times[name], rtt[field]["ns"], "{name}");
        }
        let sum = |list: &Value| list.as_array().unwrap().iter().map(|entry| entry["count"].as_u64().unwrap()).sum::<u64>();
        assert_eq!(Some(sum(&shown["buckets"])), times["count"].as_u64());
        assert_eq!(row["series"].as_array().unwrap().len(), shown["series"]["at_ms"].as_array().unwrap().len());
    }
    assert_eq!(view["curves"].as_array().unwrap().len(), 2);
    assert_eq!(view["summary"].as_array().unwrap().len(), 3);
    assert_eq!((&view["records"][0]["started"], &view["records"][0]["schema"]), (&run["started"], &run["schema"]));
    assert_eq!(view["records"][0]["name"], home.hairpin("runs list --json").json()["runs"][0]["id"]);
    assert!(view["records"][0]["command"].as_str().unwrap().starts_with("hairpin ping --link loopback --count 2000"));
    assert!(
        view["published"].as_array().unwrap().iter().all(|published| published["derived"] == true && published["source"] != "")
    );
    // The same on stdout, as a file by its name, and as a directory.
    for run in ["latest".into(), newest(&home).join("run.json"), newest(&home)] as [PathBuf; 3] {
        let done = home.hairpin(&format!("report {}", run.display()));
        assert_eq!((done.code, done.err.as_str()), (Some(0), ""), "{done:?}");
        assert_eq!(self::view(&done.out)["rows"], view["rows"]);
    }
}

/// The directory of the latest run.
fn newest(home: &Home) -> PathBuf {
    let all = fs::read_dir(home.runs()).unwrap().map(|entry| entry.unwrap().path());
    all.max().expect("a run")
}

#[test]
fn records_of_several_schemas_stand_in_one_page() {
    let home = Home::new();
    // Measured for longer while other work on the machine leaves no round whole.
    let compared = |seconds: &u32| {
        let done =
            home.hairpin(&format!("compare --path memory --duration {seconds}s --seed 5 --json -- --size 64 -- --size 16384"));
        (done.code == Some(0)).then_some(done)
    };
    let compare = [1, 3, 8, 16, 32].iter().find_map(compared).expect("a comparison");
    fs::write(home.file("compare.json"), &compare.out).unwrap();
    // The result of one run after the other, as `hairpin demo --json` prints them.
    let files = [kept("demo.jsonl"), kept("explain-all-hooks.json"), "compare.json".into()];
    let runs = files.map(|file| file.display().to_string()).join(" ");
    let done = home.hairpin(&format!("report {runs} -o all.html"));
    assert_eq!(done.code, Some(0), "{done:?}");
    let view = view_in(&home.file("all.html"));
    let names: Vec<&str> = view["records"].as_array().unwrap().iter().map(|record| record["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["demo.jsonl, record 1", "demo.jsonl, record 2", "explain-all-hooks.json", "compare.json"]);
    assert_eq!(view["rows"].as_array().unwrap().len(), 65);
    assert_eq!((&view["breakdowns"][0]["record"], &view["comparisons"][0]["record"]), (&3.into(), &4.into()));
    assert_eq!(view["comparisons"][0]["verdict"], compare.json()["comparisons"][0]["verdict"]);
}

/// A demo that is ended by Ctrl-C after a row or two.
fn short_demo(home: &Home, args: &str) -> Done {
    ended(home.start(&format!("demo {args}")))
}

fn ended(demo: Running) -> Done {
    // Its first worker runs, so it listens to Ctrl-C; the results until then are shown.
    let children = format!("/proc/{0}/task/{0}/children", demo.pid());
    let begun = Instant::now();
    while fs::read_to_string(&children).is_ok_and(|children| children.trim().is_empty()) {
        assert!(begun.elapsed() < LIMIT, "no worker");
        sleep(Duration::from_millis(10));
    }
    sleep(Duration::from_millis(500));
    demo.signal("INT");
    demo.done()
}

#[test]
fn a_demo_ends_with_its_report() {
    let home = Home::new();
    let done = short_demo(&home, "");
    assert_eq!(done.code, Some(0), "{done:?}");
    let page = home.file("hairpin-demo.html").canonicalize().unwrap();
    assert_eq!(done.err.lines().last(), Some(format!("report: {}", page.display()).as_str()), "{done:?}");
    let view = view_in(&page);
    assert!(view["rows"].as_array().is_some_and(|rows| !rows.is_empty()), "{:?}", view["records"]);
    let id = home.hairpin("runs list --json").json()["runs"][0]["id"].clone();
    assert_eq!(view["records"][0]["name"], id);
    // Without a place for the page, the runs are stored all the same.
    fs::remove_file(&page).unwrap();
    fs::create_dir(&page).unwrap();
    short_demo(&home, "").fails(1, &["hairpin-demo.html is a directory", "the runs are stored: hairpin report 20", "-o FILE"]);
}

#[test]
fn a_demo_that_cannot_be_printed_is_kept_with_its_report() {
    let home = Home::new();
    let mut demo = home.command(HAIRPIN);
    demo.arg("demo");
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    ended(home.spawn_to(demo, Some(full.into()))).fails(1, &["cannot write the output", "stored as", "report: "]);
    assert!(home.file("hairpin-demo.html").exists());
}

#[test]
fn help_that_cannot_be_printed_is_a_failure() {
    let home = Home::new();
    for words in ["--help", "ping --help", "ping -h", "help paths", "--version"] {
        let mut help = home.command(HAIRPIN);
        help.args(words.split(' '));
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        home.spawn_to(help, Some(full.into())).done().fails(1, &["cannot write the output"]);
    }
}

#[test]
fn a_demo_has_every_form() {
    let home = Home::new();
    for (form, begins) in [("md", "hairpin "), ("csv", "started,"), ("json", "{\"schema\":\"hairpin.run/1\",")] {
        let done = short_demo(&home, &format!("--no-store --format {form}"));
        assert!(done.code == Some(0) && done.out.starts_with(begins), "{form}: {done:?}");
    }
}

#[test]
fn lines_of_progress_are_passed_over() {
    let home = Home::new();
    let done = home.hairpin("ping loopback --path udp:block --rate 1000 --duration 1.5s --warmup 5ms --json-stream --no-store");
    assert!(done.out.contains("hairpin.progress/1"), "{done:?}");
    fs::write(home.file("stream.jsonl"), &done.out).unwrap();
    let done = home.hairpin("report ./stream.jsonl");
    assert_eq!(view(&done.out)["records"].as_array().unwrap().len(), 1, "{done:?}");
}

/// Asserts that a command keeps its record, which has every form and makes a page.
#[track_caller]
fn keeps(home: &Home, args: &str, schema: &str) {
    // On a busy host a comparison may end before its first round, and an explanation without a block.
    let done = (0..4).map(|_| home.hairpin(args)).find(|done| done.code == Some(0));
    let done = done.unwrap_or_else(|| panic!("four times no measurement: {args}"));
    done.fails(0, &["stored as", "hairpin runs show"]);
    let list = home.json("runs list");
    let last = list["runs"].as_array().unwrap().last().unwrap();
    assert_eq!(last["schema"], schema, "{list:#}");
    let record = home.json("runs show latest");
    assert_eq!((&record["schema"], &record["started"]), (&schema.into(), &last["started"]));
    home.shows_latest_in_every_form();
    home.hairpin("report latest -o page.html").fails(0, &["report: "]);
}

#[test]
fn every_verb_that_measures_keeps_its_record() {
    let home = Home::new();
    let quick = "--link loopback --path udp --warmup 1ms";
    let whole = "--link loopback --path udp";
    for (args, schema) in [
        (format!("load {quick} --rate 500,1000 --duration 100ms"), "hairpin.load/1"),
        (format!("compare {whole} --duration 3s -- udp:poll -- udp:block"), "hairpin.compare/1"),
        ("sweep loopback -p udp -p unix --for 500ms".to_owned(), "hairpin.sweep/1"),
        (format!("explain {quick} --duration 600ms --light"), "hairpin.explain/1"),
        ("floor pcie".to_owned(), "hairpin.floor-pcie-primitives/1"),
    ] {
        keeps(&home, &args, schema);
    }
    let steps = home.hairpin("runs export latest");
    assert!(steps.code == Some(0) && steps.out.lines().count() > 2, "a line for each step under one head: {steps:?}");
    home.hairpin("runs show latest --format netperf")
        .fails(2, &["a record of `hairpin floor pcie` has no lines as other tools print them"]);
    home.hairpin("compare latest latest")
        .fails(2, &["is a record of `hairpin floor pcie`: there is nothing to compare in it", "ping, demo, load, explain"]);
    home.hairpin("floor --fit latest").fails(1, &["nothing to fit in it"]);
    let count = || home.json("runs list")["runs"].as_array().unwrap().len();
    let before = count();
    home.hairpin(&format!("load {quick} --rate 500,1000 --duration 100ms --no-store")).fails(0, &[]);
    assert_eq!(count(), before);
    let load = home.json("runs list")["runs"][0]["id"].as_str().unwrap().to_owned();
    let compared = home.json(&format!("compare {load} {load}"));
    assert_eq!(compared["comparisons"].as_array().unwrap().len(), 2, "a comparison for each rate: {compared:#}");
    // A rate that fails is measured again, and has a line each time.
    let table = home.hairpin(&format!("runs export {load}"));
    assert!(table.out.lines().count() >= 3, "a line for each rate under one head: {table:?}");
    home.hairpin(&format!("runs remove {load}")).fails(0, &["removed"]);
}

#[test]
fn verbs_that_need_rights_keep_their_records() {
    if !can("verbs_that_need_rights_keep_their_records", namespaces(), "hooks and frames need root") {
        return;
    }
    apart(|| {
        let (home, net) = (Home::new(), Net::new());
        net.enter();
        ip("link set lo up");
        veth("a0", "b0");
        let port = free_port();
        let _asked = Asked::start(port);
        keeps(&home, "bounce b0 -p packet:block -t 100ms", "hairpin.bounce/1");
        keeps(&home, "stream veth -p packet -s 64 --direction inject -r 1k -t 50ms", "hairpin.stream/1");
        keeps(&home, &format!("explain :{port} --for 300ms"), "hairpin.explain-attached/1");
    });
}

#[test]
fn a_report_has_the_forms_of_every_verb_and_exported_tables_go_on() {
    let home = Home::new();
    // Every round trip is an incident.
    let run = home.json(&format!("ping {QUICK} --path udp --explain-above 1ns"));
    let incidents = format!("{} round trips above ", rows(&run)[0]["incidents"]["count"]);
    let json = home.hairpin("report latest --format json").json();
    let told =
        |note: &Value| note["code"] == "incidents" && note["message"].as_str().is_some_and(|text| text.starts_with(&incidents));
    assert!(json["rows"][0]["warnings"].as_array().is_some_and(|notes| notes.iter().any(told)), "{incidents}: {json}");
    assert_eq!((&json["schema"], json["rows"].as_array().unwrap().len()), (&"hairpin.report/1".into(), 1));
    let csv = home.hairpin("report latest -o csv").out;
    assert!(csv.starts_with("record,row,label,") && csv.lines().count() == 2, "{csv}");
    let table = home.hairpin("report latest --format table").out;
    assert!(unwrapped(&table).contains(&incidents), "{incidents}: {table}");
    assert_eq!(table.lines().count(), home.hairpin("report latest -o term").out.lines().count());
    let one = home.hairpin("runs export latest").out;
    let (names, rows) = one.split_once('\n').unwrap();
    assert_eq!(home.hairpin("runs export latest latest").out, format!("{names}\n{rows}{rows}"));
    let plan = home.hairpin("sweep sun-fire --show --json").json();
    assert_eq!(plan["plans"][0]["factors"][1]["name"], "delayed-ack");
    assert!(home.hairpin("sweep sun-fire --show").out.contains("[[factor]]"));
}

#[test]
fn the_plan_busy_poll_shows_the_published_claims() {
    let home = Home::new();
    let published = |args: &str| home.hairpin(args).json()["plans"][0]["published"].clone();
    let busy_poll = published("sweep busy-poll --show --json");
    let claims = busy_poll["claims"].as_array().unwrap();
    assert!(!claims.is_empty() && claims.iter().all(|claim| claim["class"] == "published"), "{busy_poll}");
    assert!(published("sweep sun-fire --show --json").is_null());
    let listed = home.hairpin("sweep --list").out;
    let words = listed.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in ["Chelsio T520-LL-CR against Intel X520-DA2", "netperf TCP_RR and UDP_RR", claims[0]["claim"].as_str().unwrap()] {
        assert!(words.contains(part), "{part}:\n{listed}");
    }
}

#[test]
fn rejects_unknown_records_and_lists_the_known() {
    let home = Home::new();
    home.hairpin("report").fails(2, &["the word RUN is missing"]);
    home.hairpin("report latest").fails(1, &["there is no run in"]);
    home.json(&format!("ping {QUICK} --path udp"));
    home.hairpin("report 1999").fails(1, &["no run is called \"1999\"", "the nearest are"]);
    home.hairpin("report ./none.json").fails(1, &["./none.json is neither"]);
    home.hairpin("report latest --format pdf").fails(2, &["pdf", "html"]);
    for (text, parts) in [
        ("", &["it is empty"][..]),
        ("hello", &["it is not JSON"]),
        ("{\"rows\": []}", &["no field \"schema\""]),
        ("{\"schema\": \"hairpin.run/2\"}", &["schema \"hairpin.run/2\"", "hairpin.run/1, hairpin.explain/1"]),
        ("{\"schema\": \"hairpin.load/1\"}", &["hairpin.load/1, and is not"]),
        ("{\"schema\": \"hairpin.run/1\", \"tool\": 3}", &["hairpin.run/1, and is not", "line 1"]),
    ] {
        fs::write(home.file("record.json"), text).unwrap();
        home.hairpin("report latest ./record.json -o report.html")
            .fails(1, &[&["./record.json is not the record of a run"], parts].concat());
        assert!(!home.file("report.html").exists(), "a report of half of what was asked");
    }
}

#[test]
fn a_file_is_written_whole_or_not_at_all() {
    let home = Home::new();
    home.json(&format!("ping {QUICK} --path udp"));
    fs::create_dir(home.file("there")).unwrap();
    home.hairpin("report latest -o there").fails(2, &["there is a directory"]);
    home.hairpin("report latest -o none/report.html").fails(1, &["cannot write none/report.html", "No such file"]);
    home.hairpin("report latest -o /dev/full").fails(1, &["cannot write /dev/full", "No space left"]);
    // A later report takes the place of an earlier one, and leaves nothing beside it.
    for name in ["one", "two"] {
        home.json(&format!("ping {QUICK} --path udp:{}", if name == "one" { "spin" } else { "block" }));
        assert_eq!(home.hairpin("report latest -o there/report.html").code, Some(0));
    }
    assert!(view_in(&home.file("there/report.html"))["rows"][0]["path"].as_str().unwrap().starts_with("udp:block"));
    assert_eq!(fs::read_dir(home.file("there")).unwrap().count(), 1);
    let done = home.hairpin("report latest -o /dev/stdout");
    assert_eq!(view(&done.out)["rows"].as_array().unwrap().len(), 1, "{done:?}");
    // Others write to the same file before and after.
    let mut command = home.command("sh");
    command.args(["-c", &format!("echo before; {HAIRPIN} report latest -o /dev/stdout && echo after")]);
    let done = home.spawn(command).done();
    assert!(done.out.starts_with("before\n") && done.out.ends_with("after\n"), "{done:?}");
}

#[test]
fn a_full_file_system_keeps_the_earlier_report() {
    let name = "a_full_file_system_keeps_the_earlier_report";
    let mounts = |command: &mut Command| command.stderr(Stdio::null()).status().is_ok_and(|status| status.success());
    let possible = root() && mounts(Command::new("unshare").args(["--mount", "mount", "-t", "tmpfs", "none", "/mnt"]));
    if !can(name, possible, "needs root, and the right to mount") {
        return;
    }
    let home = Home::new();
    let file = kept("demo.jsonl");
    // Room for one page in a tmpfs of its own, and not for a second beside it.
    let script = format!(
        "mount -t tmpfs -o size=32k none /mnt && echo old > /mnt/report.html && ! {HAIRPIN} report {} -o /mnt/report.html && cat /mnt/report.html && ls -A /mnt",
        file.display()
    );
    let mut command = home.command("unshare");
    command.args(["--mount", "sh", "-c", &script]);
    let done = home.spawn(command).done();
    assert_eq!((done.code, done.out.as_str()), (Some(0), "old\nreport.html\n"), "{done:?}");
    assert!(done.err.contains("cannot write /mnt/report.html: No space left"), "{done:?}");
}

#[test]
fn a_terminal_gets_plots_and_no_page() {
    if !scripts("a_terminal_gets_plots_and_no_page") {
        return;
    }
    let home = Home::new();
    home.json(&format!("ping {QUICK} --path udp"));
    let on_terminal = |args: &str| on_terminal(&home, &format!("report latest {args}"));
    let plots = on_terminal("");
    assert!(plots.code == Some(0) && plots.out.contains("RTT by path"), "{plots:?}");
    assert!(plots.out.contains("all: -v or -o report.html") && plots.out.lines().count() <= 20, "{plots:?}");
    let all = on_terminal("-v");
    assert!(all.out.contains("How to reproduce") && all.out.lines().count() > 24, "{all:?}");
    let page = on_terminal("--format html");
    assert_eq!(page.code, Some(2), "{page:?}");
    assert!(page.out.contains("name a file with -o") && !page.out.contains("<html"), "{page:?}");
}
