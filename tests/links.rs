//! Links between network namespaces: those that are made for a run, and whatever connects two that exist.

use std::fs;
use std::thread::sleep;
use std::time::Duration;

use serde_json::Value;

use crate::support::net::{Net, apart, ip, joined};
use crate::support::{HAIRPIN, Home, can, home_of_nobody, namespaces, rows, workers_of};

/// Kinds that every kernel of a distribution has.
const MADE: [&str; 3] = ["bridge", "macvlan", "vxlan"];

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

#[test]
fn every_link_that_is_made_carries_messages_and_leaves_nothing() {
    if !can("links::every_link", namespaces(), "it takes root and namespaces") {
        return;
    }
    let before = interfaces();
    let home = Home::new();
    for link in MADE {
        let record = home.json(&format!("ping {link} -p udp -p tcp -c 50 --warmup 0s"));
        assert_eq!([path(&record, "/link/kind"), path(&record, "/error")], [link.into(), Value::Null], "{record}");
        for row in record["results"].as_array().expect("rows") {
            assert!(row["transactions"].as_u64() >= Some(50) && row["error"].is_null(), "{link}: {row}");
        }
        home.hairpin(&format!("ping {link} -6 -p udp -c 20 --warmup 0s -q")).fails(0, &[]);
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
    let (home, links) = (Home::new(), ["veth", MADE[0], MADE[1], MADE[2]]);
    let ratio = |comparison: &Value| {
        let p50 = comparison["figures"].as_array()?.iter().find(|figure| figure["figure"] == "p50")?;
        p50["ratio"].as_f64()
    };
    let has_ratios = |record: &Value| {
        let comparisons = record["comparisons"].as_array().expect("comparisons");
        assert_eq!(comparisons.len(), links.len() - 1, "{record}");
        comparisons.iter().all(|comparison| ratio(comparison) > Some(0.0))
    };
    // Measured for longer while a comparison has no two blocks of one state of the cores.
    let measured = |time: &str| home.json(&format!("compare --for {time} -p udp {}", links.join(" ")));
    let record = ["400ms", "2s", "8s"].into_iter().map(measured).find(has_ratios).expect("a ratio of each link");
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
        // Of a link the name, the MTU and the qdisc: its flags and state follow its carrier, some time later.
        let link = |line: &str| line.split_whitespace().take(7).filter(|word| !word.starts_with('<')).collect::<String>();
        let told = || {
            [&one, &other].map(|net| {
                net.enter();
                let links: Vec<String> = ip("-o link").lines().map(link).collect();
                (links, ip("-o -4 address show"), ip("route show"))
            })
        };
        let had = told();
        let record = home.json(&format!("ping {both} -p udp -p tcp:spin -c 100 --warmup 0s"));
        let [kind, peer, interface] = ["kind", "peer", "interface"].map(|name| path(&record, &format!("/link/{name}")));
        assert_eq!([kind, peer, interface], ["netns".into(), "10.77.0.2".into(), Value::from("east")], "{record}");
        assert_eq!(path(&record, "/link/options/client"), one.pid().to_string());
        assert!(
            record["results"].as_array().expect("rows").iter().all(|row| row["transactions"].as_u64() >= Some(100)),
            "{record}"
        );
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
        let compared = home.hairpin(&format!("compare --json --for 400ms -p udp -- {both} -- veth")).json();
        assert_eq!(compared["arms"].as_array().map(Vec::len), Some(2), "{compared}");
        fails(&format!("ping {both} -6 -c 10"), 4, &["has no IPv6 address"]);
        fails(&format!("ping netns:{0},{0} -c 10", one.pid()), 4, &["one network namespace"]);
        assert_eq!(told(), had, "something is left");
        fails(&format!("bounce --netns {} west -p packet -t 50ms -q --no-store", other.pid()), 0, &[]);
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
