//! Links between network namespaces: those that are made for a run, and whatever connects two that exist.

use std::fs;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::net::{MAC_B, Net, apart, ip, joined, text};
use crate::support::{HAIRPIN, Home, LIMIT, Running, can, home_of_nobody, namespaces, rows, workers_of};

/// Kinds that every kernel of a distribution has, each with two interfaces in a run's namespaces and ip(8)'s words for them.
const MADE: [(&str, [&str; 2], &str); 3] = [
    ("bridge", ["hairpin2", "hairpin3"], " bridge_slave "),
    ("macvlan", ["hairpin0", "hairpin1"], " macvlan mode bridge "),
    ("vxlan", ["hairpin0", "hairpin1"], " vxlan "),
];

/// Interfaces of this namespace.
fn interfaces() -> Vec<String> {
    let names = fs::read_dir("/sys/class/net").expect("sysfs");
    let mut names: Vec<String> = names.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn path(record: &Value, pointer: &str) -> Value {
    record.pointer(pointer).cloned().unwrap_or_default()
}

/// What ip(8) tells of the links in the namespaces of a run's workers, once the client's end is up: by then all others are there.
fn links_of(running: &mut Running) -> String {
    let parent = running.pid();
    let told_in = |worker: u32| {
        let net = format!("--net=/proc/{worker}/ns/net");
        let done = Command::new("nsenter").args([net.as_str(), "ip", "-d", "-o", "link"]).output().expect("nsenter");
        String::from_utf8(done.stdout).expect("text")
    };
    let told = || workers_of(parent).into_iter().map(told_in).collect::<String>();
    let begun = Instant::now();
    while !told().lines().any(|line| line.contains("hairpin0") && line.contains(",UP")) {
        assert!(running.goes_on() && begun.elapsed() < LIMIT, "the client's end is not up: {}", running.err());
        sleep(Duration::from_millis(10));
    }
    told()
}

fn p50(comparison: &Value) -> Option<&Value> {
    comparison["figures"].as_array()?.iter().find(|figure| figure["figure"] == "p50")
}

/// A comparison of these sides, measured for longer while it lacks this part: a ratio takes two blocks of one state of the cores,
/// an interval several.
fn compared(home: &Home, times: [&str; 3], sides: &str, part: &str) -> Value {
    let measured = |time: &str| {
        let done = home.hairpin(&format!("compare --json --for {time} -p udp {sides}"));
        assert_eq!(done.code, Some(0), "{done:?}");
        done.json()
    };
    let has_it = |record: &Value| {
        let comparisons = record["comparisons"].as_array().expect("comparisons");
        comparisons.iter().all(|comparison| p50(comparison).is_some_and(|p50| p50[part].as_f64() > Some(0.0)))
    };
    times.into_iter().map(measured).find(has_it).expect("enough pairs of blocks")
}

#[test]
fn every_link_that_is_made_carries_messages_and_leaves_nothing() {
    if !can("links::every_link", namespaces(), "it takes root and namespaces") {
        return;
    }
    let before = interfaces();
    let home = Home::new();
    for (link, ends, words) in MADE {
        let record = home.json(&format!("ping {link} -p udp -p tcp -c 50 --warmup 0s"));
        assert_eq!([path(&record, "/link/kind"), path(&record, "/error")], [link.into(), Value::Null], "{record}");
        for row in record["results"].as_array().expect("rows") {
            assert!(row["transactions"].as_u64() >= Some(50) && row["error"].is_null(), "{link}: {row}");
        }
        home.hairpin(&format!("ping {link} -6 -p udp -c 20 --warmup 0s -q")).fails(0, &[]);
        let links = links_of(&mut home.start(&format!("ping {link} -p udp --forever --no-store")));
        for end in ends {
            let is_it = |line: &str| line.split_whitespace().nth(1).is_some_and(|name| name.starts_with(end));
            assert!(links.lines().any(|line| is_it(line) && line.contains(words)), "{link}: {end} is not{words}in {links}");
        }
    }
    // The largest message that fits: with one byte more a datagram is two packets, of which a path of frames has none.
    for (link, fits) in [("vxlan", 1450), ("vxlan:mtu=1300", 1300), ("bridge:mtu=1300", 1300)] {
        let record = home.json(&format!("ping {link} -p udp -c 20 --warmup 0s -s {}", fits - 28));
        assert_eq!(path(&record, "/link/mtu"), fits, "{record}");
    }
    assert_eq!(before, interfaces(), "links are left");
}

#[test]
fn frames_cross_the_bridge_and_take_no_shorter_way() {
    if !can("links::frames_cross", namespaces(), "it takes root and namespaces") {
        return;
    }
    // A ring on the server's end sees a frame only if it came over the port of the bridge.
    let record = Home::new().json("ping bridge -p packet:block -p xdp:block -c 50 --warmup 0s");
    for row in record["results"].as_array().expect("rows") {
        assert!(row["transactions"].as_u64() >= Some(50) && row["error"].is_null(), "{row}");
    }
}

#[test]
fn links_are_compared() {
    if !can("links::links_are_compared", namespaces(), "it takes root and namespaces") {
        return;
    }
    let links = ["veth", MADE[0].0, MADE[1].0, MADE[2].0];
    let record = compared(&Home::new(), ["400ms", "2s", "8s"], &links.join(" "), "ratio");
    assert_eq!(record["comparisons"].as_array().map(Vec::len), Some(links.len() - 1), "{record}");
    let kinds: Vec<Value> = (0..links.len()).map(|arm| path(&record, &format!("/arms/{arm}/link/kind"))).collect();
    assert_eq!(kinds, links, "{record}");
}

#[test]
fn two_namespaces_that_exist_are_measured_and_keep_what_they_had() {
    if !can("links::two_namespaces", namespaces(), "it takes root and namespaces") {
        return;
    }
    apart(|| {
        let (one, other) = (Net::new(), Net::new());
        let home = Home::new();
        let both = format!("netns:{},/proc/{}/ns/net", one.pid(), other.pid());
        let fails = |args: &str, code: i32, words: &[&str]| home.hairpin(args).fails(code, words);
        fails(&format!("ping {both} -c 10"), 4, &["has no IPv4 or IPv6 address but loopback's"]);
        joined(&one, &other);
        fails(&format!("ping {both} -6 -c 10"), 4, &["has no IPv6 address"]);
        for (net, end, host) in [(&other, "west", 2), (&one, "east", 1)] {
            net.enter();
            ip(&format!("address add fd77::{host}/64 dev {end} nodad"));
        }
        // All but what follows the carrier some time later: flags, states, and the link's own addresses with their routes.
        let passing = ["linkdown", "UP", "DOWN", "LOWERLAYERDOWN", "UNKNOWN"];
        let lasting = |line: &str| {
            let words = line.split_whitespace().filter(|word| !word.starts_with('<') && !passing.contains(word));
            words.collect::<Vec<_>>().join(" ")
        };
        // With -d, ip(8) counts those who made an interface promiscuous; it always names an XDP program.
        let told = || {
            [&one, &other].map(|net| {
                net.enter();
                let all = ["-d -o link", "-o address show", "-4 route show", "-6 route show"].map(ip).concat();
                all.lines().filter(|line| !line.contains("fe80:")).map(lasting).collect::<Vec<_>>()
            })
        };
        let had = told();
        // The kernel may put things back a moment after a process's end.
        let nothing_is_left = |of: u32| {
            let ended = Instant::now();
            while (told() != had || !workers_of(of).is_empty()) && ended.elapsed() < LIMIT {
                sleep(Duration::from_millis(10));
            }
            assert_eq!((told(), workers_of(of)), (had.clone(), Vec::new()), "something is left");
        };
        let record = home.json(&format!("ping {both} -p udp -p tcp:spin -c 100 --warmup 0s"));
        let [kind, peer, interface] = ["kind", "peer", "interface"].map(|name| path(&record, &format!("/link/{name}")));
        assert_eq!([kind, peer, interface], ["netns".into(), "10.77.0.2".into(), Value::from("east")], "{record}");
        assert_eq!(path(&record, "/link/options/client"), one.pid().to_string());
        let six = home.json(&format!("ping {both} -6 -p udp -p tcp -c 100 --warmup 0s"));
        assert_eq!(path(&six, "/link/peer"), "fd77::2", "{six}");
        for run in [&record, &six] {
            let counts: Vec<Option<u64>> = rows(run).iter().map(|row| row["transactions"].as_u64()).collect();
            assert!(matches!(counts[..], [Some(100..), Some(100..)]), "{run}");
        }
        fails(&format!("ping --netns {},{} -p packet -c 20 --warmup 0s -q", one.pid(), other.pid()), 0, &[]);
        // A /run of its own: nobody else sees the names.
        let mut command = home.command("unshare");
        let names = format!("ip netns attach blue {}; ip netns attach green {}", one.pid(), other.pid());
        let ping = format!("exec {HAIRPIN} ping netns:blue,green -p udp -c 20 --warmup 0s --json");
        command.args(["--mount", "sh", "-ec", &format!("mount -t tmpfs none /run; {names}; {ping}")]);
        let done = home.spawn(command).done();
        done.fails(0, &[]);
        let named = done.json();
        assert_eq!(path(&named, "/link/options"), serde_json::json!({"client": "blue", "server": "green"}), "{named}");
        assert_eq!(rows(&named)[0]["transactions"], 20, "{named}");
        let compared = compared(&home, ["1s", "4s", "12s"], &format!("-- {both} -- veth"), "high");
        for (arm, kind) in ["netns", "veth"].into_iter().enumerate() {
            let of = |field: &str| path(&compared, &format!("/arms/{arm}/{field}"));
            assert!(of("link/kind") == kind && of("transactions").as_u64() > Some(0), "{compared}");
        }
        let [low, ratio, high] = ["low", "ratio", "high"].map(|part| p50(&compared["comparisons"][0])?[part].as_f64());
        assert!(Some(0.0) < low && low <= ratio && ratio <= high, "{compared}");
        fails(&format!("ping netns:{0},{0} -c 10", one.pid()), 4, &["one network namespace"]);
        // The bouncer starts where its interface is not. Frames that come back unchanged are not addressed to east, which is
        // promiscuous meanwhile.
        one.enter();
        let mut bouncer =
            home.start(&format!("bounce --netns {} west -p packet:block --rewrite none --json --no-store", other.pid()));
        bouncer.until("Ctrl-C ends it");
        let bounced = home.json(&format!("ping frames:east --dst-mac {} -p packet:block -c 100 --warmup 0s", text(MAC_B)));
        let (parent, replies) = (bouncer.pid(), rows(&bounced)[0]["transactions"].as_u64());
        bouncer.signal("INT");
        let done = bouncer.done();
        assert!(replies > Some(0) && done.code == Some(0), "{bounced} {done:?}");
        assert!(done.json()["frames"]["sent"].as_u64() >= replies, "{bounced} {done:?}");
        nothing_is_left(parent);
        // Killed while it has a program on both ends.
        let mut killed = home.start(&format!("ping {both} -p xdp --forever --warmup 0s --no-store"));
        while told().iter().zip(&had).any(|(now, then)| now == then) {
            assert!(killed.goes_on(), "no program is there: {}", killed.err());
            sleep(Duration::from_millis(10));
        }
        killed.kill();
        nothing_is_left(killed.pid());
        // A name of ip-netns(8) is no file of ours: only what it means.
        fails("ping netns:hairpin-no,hairpin-no2 -c 10", 4, &["/run/netns/hairpin-no"]);
        fails("ping netns:/etc/hostname,1 -c 10", 4, &["is no network namespace"]);
        fails("ping netns:4194305,1 -c 10", 4, &["/proc/4194305/ns/net"]);
        fails("ping netns:one -c 10", 2, &["two network namespaces"]);
        fails("stream bridge -t 20ms", 2, &["stream counts frames on veth"]);
        let done = home_of_nobody().as_nobody(&format!("ping netns:{},{} -c 10", one.pid(), other.pid()));
        assert_eq!(done.code, Some(4), "{done:?}");
    });
}

#[test]
fn a_namespace_outlives_its_process_and_a_deleted_link_ends_the_run() {
    if !can("links::a_namespace_outlives", namespaces(), "it takes root and namespaces") {
        return;
    }
    apart(|| {
        let (home, one, other) = (Home::new(), Net::new(), Net::new());
        joined(&one, &other);
        // The second row takes five seconds.
        let delayed = "udp:block,delay=1000000";
        let both = format!("netns:{},{}", one.pid(), other.pid());
        let mut running = home.start(&format!("ping {both} -p udp -p {delayed} -c 5000 --warmup 0s -o jsonl"));
        let net_of = |pid: u32| fs::read_link(format!("/proc/{pid}/ns/net")).ok();
        let there = net_of(other.pid());
        while !workers_of(running.pid()).into_iter().any(|pid| net_of(pid) == there) {
            assert!(running.goes_on(), "no worker entered it: {}", running.err());
            sleep(Duration::from_millis(1));
        }
        drop(other);
        running.until(delayed);
        ip("link delete east");
        let done = running.done();
        let told: Vec<&str> = done.err.lines().filter(|line| line.starts_with("hairpin: ")).collect();
        // It is unreachable, or down for a moment before that.
        let is_why = |line: &str| line.contains(delayed) && line.contains("Network is ");
        assert!(done.code == Some(1) && matches!(told[..], [line] if is_why(line)), "{done:?}");
        let run: Value = serde_json::from_str(done.out.lines().last().expect("the run")).expect("its JSON");
        let [whole, cut] = rows(&run) else { panic!("{run}") };
        assert_eq!(whole["transactions"], 5000, "{run}");
        assert!(cut["transactions"].as_u64().is_some_and(|count| (1..5000).contains(&count)), "{run}");
        assert_eq!(home.json("runs show latest")["results"], run["results"], "stored");
    });
}

/// Replies that have come to the client's end of two namespaces that are [`joined`]; the calling thread is in the client's.
fn replies() -> u64 {
    let table = fs::read_to_string("/proc/thread-self/net/dev").expect("the interfaces");
    let east = table.lines().find_map(|line| line.trim_start().strip_prefix("east:")).expect("its line");
    // The second field counts received frames.
    east.split_whitespace().nth(1).expect("a count").parse().expect("a number")
}

/// Deletes the link of a verb that runs: it says so in one line with one of these causes, keeps `kept`, and leaves no process.
/// Returns the record.
#[track_caller]
fn ends_with_its_link(home: &Home, running: Running, causes: &[&str], kept: &str) -> Value {
    let verb = running.pid();
    ip("link delete east");
    let done = running.done();
    let is_why = |line: &str| causes.iter().any(|cause| line.contains(cause));
    let told: Vec<&str> = done.err.lines().filter(|line| line.starts_with("hairpin: ")).collect();
    assert!(done.code == Some(1) && matches!(told[..], [line] if is_why(line)), "{done:?}");
    let record = done.json();
    assert!(record["error"].as_str().is_some_and(is_why), "{record}");
    assert_eq!(home.json("runs show latest")[kept], record[kept], "stored");
    // The last ones may end a moment after the verb.
    let ended = Instant::now();
    while !workers_of(verb).is_empty() {
        assert!(ended.elapsed() < LIMIT, "left: {:?}", workers_of(verb));
        sleep(Duration::from_millis(10));
    }
    record
}

/// The spec of a path with a millisecond and more a reply, so that their number says how long a verb has measured at least.
const DELAYED: &str = "udp:block,delay=1000000";

/// The record of a verb between two namespaces: first the process of the server's ends, then the link is deleted.
#[track_caller]
fn cut_off(verb: &str, work: &str, kept: &str) -> Value {
    let (home, one, other) = (Home::new(), Net::new(), Net::new());
    joined(&one, &other);
    let mut running = home.start(&format!("{verb} netns:{},{} --json {work}", one.pid(), other.pid()));
    let begun = Instant::now();
    let mut until = |count: u64| {
        while replies() < count {
            assert!(running.goes_on() && begun.elapsed() < LIMIT, "{} replies: {}", replies(), running.err());
            sleep(Duration::from_millis(10));
        }
    };
    until(200);
    drop(other);
    until(1_500);
    // A side that opens its sockets just then has no address any more.
    ends_with_its_link(&home, running, &["Network is ", "Cannot assign requested address"], kept)
}

#[test]
fn a_comparison_keeps_its_rounds_when_its_link_is_deleted() {
    if !can("links::a_comparison_keeps", namespaces(), "it takes root and namespaces") {
        return;
    }
    apart(|| {
        // The discarded rounds and the first that counts, of four blocks of 50 ms and two of 250 ms, have fewer replies than are
        // waited for.
        let record = cut_off("compare", &format!("--for 600s -- {DELAYED} -- {DELAYED} --size 256"), "arms");
        assert!(record["design"]["rounds"].as_u64() > Some(0), "{record}");
        for arm in ["/arms/0", "/arms/1"] {
            assert!(path(&record, &format!("{arm}/transactions")).as_u64() > Some(0), "{arm}: {record}");
            assert_eq!(path(&record, &format!("{arm}/link/kind")), "netns", "{record}");
        }
    });
}

#[test]
fn an_explanation_keeps_its_blocks_when_its_link_is_deleted() {
    if !can("links::an_explanation_keeps", namespaces(), "it takes root and namespaces") {
        return;
    }
    apart(|| {
        // The first blocks without hooks, of 250 ms, and the first with them have fewer replies than are waited for.
        let record = cut_off("explain", &format!("-t 600s -p {DELAYED} --warmup 20ms"), "results");
        let [explained] = rows(&record) else { panic!("{record}") };
        assert!(path(explained, "/untraced_rtt_ns/count").as_u64() > Some(0), "{record}");
        // On a busy host the clocks may disagree over a block.
        let traced: u64 = ["blocks", "blocks_rejected"].into_iter().filter_map(|kind| explained[kind].as_u64()).sum();
        assert!(traced > 0, "{record}");
    });
}

#[test]
fn a_bouncer_keeps_its_counts_when_its_link_is_deleted() {
    if !can("links::a_bouncer_keeps", namespaces(), "it takes root and namespaces") {
        return;
    }
    apart(|| {
        for io in ["packet:block", "xdp:spin"] {
            let (home, one, other) = (Home::new(), Net::new(), Net::new());
            joined(&one, &other);
            let mut bouncer = home.start(&format!("bounce --netns {} west -p {io} --rewrite none --json", other.pid()));
            bouncer.until("Ctrl-C ends it");
            // The namespace outlives its process.
            drop(other);
            let ping = format!("ping frames:east --dst-mac {} -p packet:block -c 100 --warmup 0s --no-store", text(MAC_B));
            let replies = rows(&home.json(&ping))[0]["transactions"].as_u64();
            let record = ends_with_its_link(&home, bouncer, &["the ring of west failed: "], "frames");
            assert!(replies > Some(0) && record["frames"]["sent"].as_u64() >= replies, "{io}: {replies:?}, {record}");
        }
    });
}

#[test]
fn a_kind_that_the_kernel_lacks_is_named() {
    if !can("links::a_kind_that", namespaces(), "it takes root and namespaces") {
        return;
    }
    for link in ["netkit", "ipvlan"] {
        let done = Home::new().hairpin(&format!("ping {link} -p udp -c 20 --warmup 0s -q"));
        // Where it has them, they work.
        assert!(
            done.code == Some(0) || (done.code == Some(4) && done.err.contains(&format!("this kernel has no {link}"))),
            "{done:?}"
        );
    }
}
