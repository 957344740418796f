//! `hairpin explain` from the command line: stages that add up on every path, with hooks missing, without
//! privilege, and under a flood.

use std::net::{Ipv4Addr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::alone::{self, Listed, Part};
use crate::support::net::{Net, joined};
use crate::support::{Home, can, home_of_nobody, io_uring, links, namespaces, namespaces_of_nobody, root};
use hairpin_sys::bpf::tracing_links;
use serde_json::Value;

pub const PART: Part = Part::new("explain", || alone::listed(TESTS)).side_by_side();
/// They judge times, or need undisturbed round trips, which some would not get beside other tests.
pub const OF_TIMES: Part = Part::new("explain_times", || alone::listed(TESTS_OF_TIMES));

const TESTS_OF_TIMES: &[Listed] = &[
    ("kernel_sockets_pass_seven_stages_each_way", kernel_sockets_pass_seven_stages_each_way),
    ("a_bridge_is_in_the_soft_interrupt_and_not_in_the_send_call", a_bridge_is_in_the_soft_interrupt_and_not_in_the_send_call),
    ("io_uring_adds_submission_task_work_and_completion", io_uring_adds_submission_task_work_and_completion),
    ("emulated_way_takes_the_declared_time", emulated_way_takes_the_declared_time),
    ("a_killed_run_leaves_no_program_behind", a_killed_run_leaves_no_program_behind),
    ("a_flood_of_other_traffic_spoils_nothing", a_flood_of_other_traffic_spoils_nothing),
    ("slow_ones_are_written_for_perfetto", slow_ones_are_written_for_perfetto),
];
const TESTS: &[Listed] = &[
    ("a_receiver_that_sleeps_is_woken_in_stages", a_receiver_that_sleeps_is_woken_in_stages),
    ("two_namespaces_that_exist_have_the_same_stages", two_namespaces_that_exist_have_the_same_stages),
    ("rings_have_the_stages_that_they_pass", rings_have_the_stages_that_they_pass),
    ("a_hook_that_is_left_out_makes_one_stage_of_two", a_hook_that_is_left_out_makes_one_stage_of_two),
    ("two_hosts_leave_the_time_outside_of_both", two_hosts_leave_the_time_outside_of_both),
    ("without_privilege_the_programs_stamps_are_left", without_privilege_the_programs_stamps_are_left),
    ("ctrl_c_keeps_the_results", ctrl_c_keeps_the_results),
    ("no_row_of_stamps_follows_ctrl_c", no_row_of_stamps_follows_ctrl_c),
    ("a_run_that_fails_flat_out_tells_the_reason", a_run_that_fails_flat_out_tells_the_reason),
    ("wrong_input_is_refused_in_words", wrong_input_is_refused_in_words),
];

const SHORT: &str = "--duration 600ms --warmup 20ms";

fn hooks(name: &str) -> bool {
    can(name, namespaces(), "BPF programs and namespaces need root")
}

/// Measures; once more if a very busy host disturbed every round trip or left the soft interrupts of a ring to another thread.
fn explained(home: &Home, args: &str) -> Value {
    let measured = || home.json(&format!("explain {SHORT} {args}"));
    let is_whole = |record: &Value| {
        let results = record["results"].as_array().expect("results");
        results.iter().all(|result| {
            let has = |group: &str| number(&result[group]["count"]) > 0.0;
            has("typical") && has("untraced_rtt_ns") && are_matched(result)
        })
    };
    let record = (0..2).map(|_| measured()).find(is_whole).unwrap_or_else(measured);
    assert_eq!((&record["schema"], &record["error"]), (&"hairpin.explain/1".into(), &Value::Null));
    let results = record["results"].as_array().expect("results");
    assert_eq!(results.len(), args.matches("--path ").count(), "{args}: {record}");
    results.iter().for_each(adds_up);
    record
}

fn first(record: &Value) -> &Value {
    &record["results"][0]
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("no number: {value}"))
}

/// Stages, observer and residual of both groups add up to their RTT; hardly anything is unmatched, and no event was lost.
#[track_caller]
fn adds_up(result: &Value) {
    let path = &result["path"];
    for (group, field) in [("typical", "typical_ns"), ("slow", "slow_ns")] {
        let of = &result[group];
        // Fewer than 1,000 have no p99, above which the slow ones are.
        if group == "slow" && number(&result["rtt_ns"]["count"]) < 1_000.0 {
            assert_eq!(number(&of["count"]), 0.0, "{path}");
            continue;
        }
        assert!(number(&of["count"]) > 0.0, "{path}: no {group} round trip");
        let stages: f64 = result["stages"].as_array().expect("stages").iter().map(|stage| number(&stage[field])).sum();
        let sum = stages + number(&of["observer_ns"]) + number(&of["residual_ns"]);
        let rtt = number(&of["rtt_ns"]);
        assert!((sum / rtt - 1.0).abs() < 1e-6, "{path}, {group}: {sum} is not {rtt}");
    }
    assert!(are_matched(result), "{path}: {} of {} not matched", result["unmatched"], result["rtt_ns"]["count"]);
    assert_eq!(result["lost_events"], 0, "{path}");
    assert!(number(&result["untraced_rtt_ns"]["count"]) > 0.0, "{path}: nothing without hooks");
}

/// At most one in a hundred is unmatched.
fn are_matched(result: &Value) -> bool {
    number(&result["unmatched"]) <= number(&result["rtt_ns"]["count"]) / 100.0
}

/// Names of the stages of a way that at least half of the round trips passed, in order.
fn usual<'a>(result: &'a Value, direction: &str) -> Vec<&'a str> {
    let half = number(&result["rtt_ns"]["count"]) / 2.0;
    let stages = result["stages"].as_array().expect("stages").iter();
    let usual = stages.filter(|stage| stage["direction"] == direction && number(&stage["ns"]["count"]) >= half);
    usual.map(|stage| stage["name"].as_str().expect("a name")).collect()
}

fn p50(result: &Value, direction: &str, name: &str) -> f64 {
    let stages = result["stages"].as_array().expect("stages");
    let stage = stages.iter().find(|stage| stage["direction"] == direction && stage["name"] == name);
    number(&stage.unwrap_or_else(|| panic!("no {name} in the {direction}: {stages:?}"))["ns"]["p50"])
}

const TO_QUEUE: [&str; 5] = ["send call", "qdisc", "driver", "softirq", "stack"];

fn kernel_sockets_pass_seven_stages_each_way(name: &str) -> bool {
    if !hooks(name) {
        return false;
    }
    let home = Home::new();
    let way = [&TO_QUEUE[..], &["receive", "return"]].concat();
    for link in ["veth", "loopback"] {
        let record = explained(&home, &format!("--link {link} --path udp:spin --path tcp:spin"));
        assert_eq!(record["missing"], Value::Array(Vec::new()));
        for result in record["results"].as_array().expect("results") {
            assert_eq!(usual(result, "request"), way, "{link} {}", result["path"]);
            assert_eq!(usual(result, "reply"), [&["turn-around"][..], &way].concat(), "{link} {}", result["path"]);
            let (residual, rtt) = (number(&result["residual_ns"]["p50"]), number(&result["rtt_ns"]["p50"]));
            assert!(residual <= rtt / 20.0, "{link} {}: residual {residual} of {rtt}", result["path"]);
        }
    }
    true
}

fn a_bridge_is_in_the_soft_interrupt_and_not_in_the_send_call(name: &str) -> bool {
    if !hooks(name) {
        return false;
    }
    let home = Home::new();
    let way = [&TO_QUEUE[..], &["receive", "return"]].concat();
    let of = |link: &str| {
        let record = explained(&home, &format!("--link {link} --path udp:spin"));
        assert_eq!(usual(first(&record), "request"), way, "{link}");
        ["send call", "softirq"].map(|stage| p50(first(&record), "request", stage))
    };
    let added = || {
        let (without, with) = (of("veth"), of("bridge"));
        [with[0] - without[0], with[1] - without[1]]
    };
    // A busy host may slow one of the two down.
    let mut found = (0..3).map(|_| added()).inspect(|[call, softirq]| println!("a bridge adds {call} ns, {softirq} ns"));
    assert!(found.any(|[call, softirq]| softirq > call), "see above");
    true
}

fn io_uring_adds_submission_task_work_and_completion(name: &str) -> bool {
    if !hooks(name) || !can(name, io_uring(), "io_uring is off here") {
        return false;
    }
    let paths = "--path uring-udp:spin,ring=defer-taskrun --path uring-tcp:block --path uring-udp:spin/udp:spin";
    let record = explained(&Home::new(), &format!("--link veth {paths}"));
    let begin = [&["submission"][..], &TO_QUEUE].concat();
    let end = ["task work", "completion", "return"];
    for (at, way) in [
        [&begin[..], &end].concat(),
        [&begin[..], &["notify", "wake-up", "run queue"], &end].concat(),
        // One side alone: its own steps are in the stages beside them.
        [&TO_QUEUE[..], &["receive", "return"]].concat(),
    ]
    .into_iter()
    .enumerate()
    {
        let result = &record["results"][at];
        // A receiver that spins may have the message before it is told, and then two stages are one.
        assert_eq!(usual(result, "request").join(" + "), way.join(" + "), "{}", result["path"]);
        assert_eq!(usual(result, "reply")[1..].join(" + "), way.join(" + "), "{}", result["path"]);
    }
    true
}

fn a_receiver_that_sleeps_is_woken_in_stages(name: &str) -> bool {
    if !hooks(name) {
        return false;
    }
    wakes_in_stages(first(&explained(&Home::new(), "--link veth --path udp:block")));
    true
}

#[track_caller]
fn wakes_in_stages(result: &Value) {
    let way = [&TO_QUEUE[..], &["notify", "wake-up", "run queue", "receive", "return"]].concat();
    assert_eq!(usual(result, "request"), way);
    assert_eq!(usual(result, "reply")[1..], way);
}

fn two_namespaces_that_exist_have_the_same_stages(name: &str) -> bool {
    if !hooks(name) {
        return false;
    }
    let (one, other) = (Net::new(), Net::new());
    joined(&one, &other);
    let record = explained(&Home::new(), &format!("netns:{},{} --path udp:block", one.pid(), other.pid()));
    assert_eq!((&record["link"]["kind"], &record["link"]["interface"]), (&"netns".into(), &"east".into()));
    wakes_in_stages(first(&record));
    true
}

fn rings_have_the_stages_that_they_pass(name: &str) -> bool {
    if !hooks(name) {
        return false;
    }
    let home = Home::new();
    for (path, way) in [
        ("packet:spin", &["fill", "kick + driver", "softirq", "stack", "ring", "receive"][..]),
        ("xdp:spin,mode=generic", &["fill", "kick + driver", "softirq", "xdp program", "ring", "receive"]),
        ("xdp:spin,mode=native", &["fill", "kick + driver + softirq + xdp program", "ring flush", "ring", "receive"]),
    ] {
        let record = explained(&home, &format!("--link veth --path {path}"));
        // A receiver that spins may have the frame before it is told, and then two stages are one.
        assert_eq!(usual(first(&record), "request").join(" + "), way.join(" + "), "{path}");
        assert_eq!(usual(first(&record), "reply")[1..].join(" + "), way.join(" + "), "{path}");
    }
    true
}

fn emulated_way_takes_the_declared_time(_: &str) -> bool {
    let home = Home::new();
    let ring = || {
        let record = explained(&home, "--path niq --nic sniffer10g --request 64 --reply 1024");
        let result = first(&record);
        assert_eq!((&result["origin"], usual(result, "request")), (&"emulated".into(), vec!["fill", "ring", "receive"]));
        ["request", "reply"].map(|direction| p50(result, direction, "ring") / 1000.0)
    };
    // Published for 64 and for 1,024 bytes, in us of RTT/2, and emulated one way each.
    let declared = [5.24, 7.21];
    let is_near = |found: &[f64; 2]| found.iter().zip(declared).all(|(us, declared)| (us / declared - 1.0).abs() <= 0.05);
    // Each side subtracts its own part of a way, measured at its start; a neighbour that was busy then makes that part larger.
    let found = (0..3).map(|_| ring()).inspect(|found| println!("ring: {found:?} us, declared {declared:?} us"));
    assert!(found.into_iter().any(|found| is_near(&found)), "three times more than 5 % off: see above");
    true
}

fn a_hook_that_is_left_out_makes_one_stage_of_two(name: &str) -> bool {
    if !hooks(name) {
        return false;
    }
    let home = Home::new();
    let record = explained(&home, "--link veth --path udp:spin --without netif_rx --without sock_recv_length");
    let way = ["send call", "qdisc", "driver + softirq", "stack", "receive + return"];
    assert_eq!(usual(first(&record), "request"), way);
    let record = explained(&home, "--link veth --path udp:spin --light");
    assert_eq!(usual(first(&record), "request"), ["send call + qdisc", "driver + softirq", "stack", "receive + return"]);
    let record = explained(&home, "--link veth --path udp:block --light");
    let way = ["send call + qdisc", "driver + softirq", "stack", "notify + wake-up + run queue", "receive + return"];
    assert_eq!(usual(first(&record), "request"), way, "waking is no system call");
    let way = ["fill", "kick + driver", "softirq", "stack", "ring", "receive"];
    let light = || explained(&home, "--link veth --path packet:spin --light");
    // Where other work holds up the soft interrupt, the receiver sees most frames before the hook that says they are there.
    let record = (0..5).map(|_| light()).find(|record| usual(first(record), "request") == way).unwrap_or_else(light);
    assert_eq!(usual(first(&record), "request"), way);
    home.hairpin("explain veth --path udp --without net_dev_queue --without net_dev_start_xmit")
        .fails(2, &["without net_dev_queue and net_dev_start_xmit"]);
    true
}

fn two_hosts_leave_the_time_outside_of_both(name: &str) -> bool {
    if !hooks(name) {
        return false;
    }
    let home = Home::new();
    let (_serve, address) = home.serve("");
    let record = explained(&home, &format!("{address} --path udp:spin --path tcp:block"));
    assert!(record["results"].as_array().is_some_and(|all| all.iter().all(|result| result["split"].is_object())), "{record}");
    let here = ["send call", "qdisc", "outside"];
    for (result, there) in record["results"]
        .as_array()
        .expect("results")
        .iter()
        .zip([&["stack", "receive", "return"][..], &["stack", "notify", "wake-up", "run queue", "receive", "return"]])
    {
        assert_eq!(usual(result, "request"), [&here[..], there].concat(), "{}", result["path"]);
        assert_eq!(usual(result, "reply"), [&["turn-around", "send call", "qdisc"][..], there].concat(), "{}", result["path"]);
    }
    let light = explained(&home, &format!("{address} --path udp:spin --light"));
    assert_eq!(usual(first(&light), "request"), ["send call + qdisc", "outside", "stack", "receive + return"]);
    assert_eq!(usual(first(&light), "reply"), ["turn-around", "send call + qdisc", "stack", "receive + return"]);
    home.hairpin(&format!("explain {address} --path xdp"))
        .fails(2, &["to another host explain follows tcp, udp, uring-tcp and uring-udp"]);
    true
}

fn without_privilege_the_programs_stamps_are_left(name: &str) -> bool {
    if !can(name, root() && namespaces_of_nobody(), "only root can become somebody without privileges") {
        return false;
    }
    let home = home_of_nobody();
    let way = ["send call", "qdisc", "driver + softirq", "stack + receive + return"];
    let measured = || {
        let done = home.as_nobody(&format!("explain {SHORT} --link loopback --path udp:spin --json"));
        assert_eq!(done.code, Some(0), "{done:?}");
        done.json()
    };
    // The kernel switches its receive stamps on in a work queue of its own, some time after the first socket
    // has asked (net_enable_timestamp): a run may be over by then.
    let record = (0..4).map(|_| measured()).find(|record| usual(first(record), "request") == way).unwrap_or_else(measured);
    let missing = &record["missing"][0];
    assert_eq!(missing["hook"], "BPF");
    let why = missing["why"].as_str().expect("why");
    assert!(why.contains("CAP_BPF") && why.lines().count() == 1 && why.len() < 400, "{why}");
    adds_up(first(&record));
    assert_eq!(usual(first(&record), "request"), way, "as the kernel stamps it for the sockets");
    let done = home.as_nobody(&format!("explain {SHORT} --link loopback --path tcp:spin --json"));
    adds_up(first(&done.json()));
    assert_eq!(usual(first(&done.json()), "reply").len(), 2, "turn-around, and one stage for the whole way");
    true
}

fn a_killed_run_leaves_no_program_behind(name: &str) -> bool {
    if !hooks(name) {
        return false;
    }
    let home = Home::new();
    let before = tracing_links();
    let run = home.start("explain --link veth --path udp:spin --duration 30s");
    let begun = Instant::now();
    while tracing_links() <= before {
        assert!(begun.elapsed() < Duration::from_secs(20), "no hook is on: {}", run.err());
        thread::sleep(Duration::from_millis(5));
    }
    run.signal("KILL");
    drop(run);
    let begun = Instant::now();
    // The kernel takes the hooks off after the last descriptor is gone, before the run would have ended.
    while tracing_links() > before {
        assert!(begun.elapsed() < Duration::from_secs(20), "{} hooks are still on", tracing_links() - before);
        thread::sleep(Duration::from_millis(5));
    }
    true
}

fn ctrl_c_keeps_the_results(name: &str) -> bool {
    if !can(name, links(), "this user may not make namespaces here") {
        return false;
    }
    let home = Home::new();
    let run = home.start("explain --link veth --path udp:block --duration 30s --json");
    // On a busy host nothing was explained within a second and a half.
    thread::sleep(Duration::from_secs(4));
    run.signal("INT");
    let done = run.done();
    assert_eq!(done.code, Some(0), "{done:?}");
    let record = done.json();
    assert_eq!(record["interrupted"], true);
    adds_up(first(&record));
    true
}

fn no_row_of_stamps_follows_ctrl_c(_: &str) -> bool {
    let home = Home::new();
    let (_serve, address) = home.serve("");
    let run = home.start(&format!("explain {address} --path udp:block --duration 30s --json"));
    thread::sleep(Duration::from_millis(1500));
    run.signal("INT");
    let record = run.done().json();
    assert_eq!((&record["interrupted"], &first(&record)["split"]), (&true.into(), &Value::Null));
    assert!(number(&first(&record)["untraced_rtt_ns"]["count"]) > 0.0, "{record}");
    true
}

fn a_run_that_fails_flat_out_tells_the_reason(_: &str) -> bool {
    let home = Home::new();
    let (_serve, address) = home.serve("");
    let port = address.rsplit(':').next().expect("a port");
    let paced = format!("explain {address} --path tcp --rate 100 --duration 500ms --local-port {port}");
    home.hairpin(&paced).fails(1, &[&format!("cannot use local port {port}")]);
    true
}

fn a_flood_of_other_traffic_spoils_nothing(name: &str) -> bool {
    if !hooks(name) {
        return false;
    }
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let (from, to) = (UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)), UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)));
            let (from, to) = (from.expect("a socket"), to.expect("a socket"));
            let to = to.local_addr().expect("its address");
            // Bounded in any case.
            let begun = Instant::now();
            while !stop.load(Ordering::Relaxed) && begun.elapsed() < Duration::from_secs(60) {
                let _ = from.send_to(&[0; 64], to);
            }
        });
        let record = explained(&Home::new(), "--link loopback --path udp:block");
        stop.store(true, Ordering::Relaxed);
        assert!(number(&first(&record)["rtt_ns"]["count"]) > 100.0);
    });
    true
}

fn wrong_input_is_refused_in_words(_: &str) -> bool {
    let home = Home::new();
    for (args, parts) in [
        ("--link loopback --path udp --flows 2", &["explain follows one request at a time"][..]),
        ("--link loopback --path udp --size 3", &["explain matches stamps by the sequence number", "takes 4 bytes, not 3"]),
        ("--link loopback --path udp --count 100", &["give it a --duration of 0.5 s or more"]),
        ("--link loopback --path udp --duration 100ms", &["give it a --duration of 0.5 s or more"]),
        ("--link loopback --path udp --path tcp --for 900ms", &["give it a --duration of 0.5 s or more"]),
        ("--link loopback --path udp --for 1s --duration 1s", &["cannot be used with"]),
        ("--link loopback --path udp --light --timeline 3", &["--light cannot be used with --timeline"]),
        ("--echo 127.0.0.1:7 --path udp", &["explain takes a server that runs", "HOST[:PORT], loopback or veth"]),
        (
            "echo:/run/a.sock --request redis-ping",
            &["/run/a.sock is a UNIX socket: `hairpin ping echo:/run/a.sock` measures over it"],
        ),
        ("--link loopback --path pipe", &["explain knows no stages of pipe", "`hairpin paths`"]),
        ("--link loopback --path udp --without nosuch", &["there is no hook \"nosuch\"", "sk_data_ready"]),
        ("--link loopback --path upd", &["upd", "udp"]),
        ("", &["explain takes a server that runs"]),
    ] {
        home.hairpin(&format!("explain {args}")).fails(2, parts);
    }
    true
}

fn slow_ones_are_written_for_perfetto(name: &str) -> bool {
    if !hooks(name) {
        return false;
    }
    let home = Home::new();
    let file = home.file("trace.json");
    let done = home.hairpin(&format!("explain {SHORT} --link veth --path udp:block --perfetto {}", file.display()));
    done.fails(0, &[]);
    assert!(done.out.lines().all(|line| line.chars().count() <= 80), "{}", done.out);
    let trace: Value = serde_json::from_str(&std::fs::read_to_string(&file).expect("the file")).expect("JSON");
    assert!(trace["traceEvents"].as_array().is_some_and(|events| events.len() > 10), "{trace}");

    // A file that cannot be written takes no result with it.
    let lost = home.hairpin(&format!("explain {SHORT} --link veth --path udp:block --perfetto /nowhere/trace.json"));
    lost.fails(1, &["cannot write /nowhere/trace.json", "stored as "]);
    assert!(!lost.out.is_empty(), "{lost:?}");
    true
}
