//! Links between network namespaces: those that are made for a run, and whatever connects two that exist.

use std::fs;

use serde_json::Value;

use crate::support::net::{Net, apart, ip};
use crate::support::{Home, can, home_of_nobody, namespaces};

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
        one.enter();
        ip(&format!("link add east type veth peer name west netns {}", other.pid()));
        ip("address add 10.77.0.1/24 dev east");
        ip("link set east up");
        other.enter();
        ip("address add 10.77.0.2/24 dev west");
        ip("link set west up");
        let told = || [ip("-o -4 address show"), ip("route show")];
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
