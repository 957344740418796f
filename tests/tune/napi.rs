//! Settings of NAPI instances, on those of a veth pair with GRO; and a run that needs them.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::command;
use crate::support::{HAIRPIN, Home, can};

/// The values of a setting, by NAPI instance or of all.
fn napi_value(home: &Home, name: &str) -> Value {
    home.json(&format!("tune list {name} -i hp-a"))["knobs"][0]["now"].clone()
}

/// A pair with that number of queues and GRO: a NAPI instance for each.
fn has_instances(home: &Home, name: &str, queues: usize) -> bool {
    let queued = format!("numrxqueues {queues} numtxqueues {queues}");
    let pair = format!("link add hp-a {queued} type veth peer name hp-b {queued}");
    let made = Command::new("ip").args(pair.split(' ')).status().is_ok_and(|status| status.success());
    if !can(name, made, "it takes ip(8) and veth") {
        return false;
    }
    command("ethtool -K hp-a gro on");
    for end in ["hp-a", "hp-b"] {
        command(&format!("ip link set {end} up"));
    }
    let napis = home.json("tune list irq_suspend_timeout_ns -i hp-a")["napis"].clone();
    let has = |napi: &Value| !napi["settings"]["irq-suspend-timeout"].is_null();
    can(name, napis.as_array().is_some_and(|all| all.len() == queues && all.iter().all(has)), "it takes Linux 6.13")
}

pub(super) fn a_veth_has_napi_instances_of_their_own(name: &str) -> bool {
    let home = Home::new();
    if !has_instances(&home, name, 2) {
        return false;
    }
    let file = || fs::read_to_string("/sys/class/net/hp-a/napi_defer_hard_irqs").expect("the file");
    let one = "napi_defer_hard_irqs@1=3 irq_suspend_timeout_ns@napi-1=7000";
    let applied = home.hairpin(&format!("tune apply {one} -i hp-a --yes"));
    assert_eq!(applied.code, Some(0), "{applied:?}");
    let apart = |of_other: u64| serde_json::json!({"napi-0": 0, "napi-1": of_other});
    assert_eq!((napi_value(&home, "napi_defer_hard_irqs"), napi_value(&home, "irq_suspend_timeout_ns")), (apart(3), apart(7000)));
    assert_eq!(file().trim(), "0", "the value of instances to come");
    // All of them for a while: each has its own value again.
    let all = "tune apply napi_defer_hard_irqs=5 --yes -i hp-a --while --";
    assert_eq!(home.hairpin(&format!("{all} true")).code, Some(0));
    assert_eq!((napi_value(&home, "napi_defer_hard_irqs"), file().trim()), (apart(3), "0"));
    let mut running = home.start(&format!("{all} sleep 3"));
    running.until("applied");
    running.kill();
    assert_eq!((napi_value(&home, "napi_defer_hard_irqs"), file().trim()), (5.into(), "5"));
    assert_eq!(home.json("tune status")["entries"][1]["state"], "orphaned");
    assert_eq!(home.hairpin("tune revert").code, Some(0));
    assert_eq!((napi_value(&home, "napi_defer_hard_irqs"), napi_value(&home, "irq_suspend_timeout_ns")), (0.into(), 0.into()));
    assert_eq!(file().trim(), "0");
    // An interface that is down has no instance: the entry stays until it is up again.
    assert_eq!(home.hairpin("tune apply irq_suspend_timeout_ns@1=7000 -i hp-a --yes").code, Some(0));
    command("ip link set hp-a down");
    let down = home.hairpin("tune revert");
    assert_eq!(down.code, Some(1), "{down:?}");
    assert!(down.out.contains("no such NAPI"), "{}", down.out);
    home.hairpin("tune apply napi_threaded@0=1 -i hp-a --yes").fails(4, &["hp-a has no NAPI instance now"]);
    command("ip link set hp-a up");
    let up = home.hairpin("tune revert");
    assert_eq!(up.code, Some(0), "{up:?}");
    assert_eq!(napi_value(&home, "irq_suspend_timeout_ns"), 0);
    home.hairpin("tune apply napi_threaded@7=1 -i hp-a --yes").fails(2, &["of the queue 7; it has napi-0, napi-1"]);
    home.hairpin("tune apply irq_suspend_timeout_ns@0=1 -i lo --yes").fails(4, &["lo has no NAPI instance now"]);
    command("ip link del hp-a");
    true
}

const SUSPENDS: &str = "udp:epoll,busy-usecs=1000,prefer=on,suspend-usecs=2000";
const FEW: &str = "--count 300 --warmup 0 --no-store";

/// The values granted to a side of the only row, by option.
fn granted_of(run: &Value, side: &str) -> BTreeMap<String, String> {
    let all = run["results"][0]["granted"].as_array().expect("granted");
    let text = |of: &Value| of.as_str().expect("text").to_owned();
    all.iter().filter(|one| one["side"] == side).map(|one| (text(&one["option"]), text(&one["got"]))).collect()
}

pub(super) fn suspended_interrupts_are_asked_for_and_proved(name: &str) -> bool {
    let home = Home::new();
    if !has_instances(&home, name, 1) {
        return false;
    }
    // A link of Hairpin's own is set for the run.
    let own = home.json(&format!("ping veth:gro=on,tso=off {FEW} --path {SUSPENDS}"));
    for side in ["client", "server"] {
        let got = granted_of(&own, side);
        let of = |option: &str| got.get(option).map(String::as_str);
        let asked = (Some("2000000"), Some("1"), Some("20000"));
        assert_eq!((of("irq-suspend-timeout"), of("defer-hard-irqs"), of("gro-flush-timeout")), asked, "{side}: {got:?}");
        let polled = own["results"][0]["cpu"][side]["busy_polled_packets"].as_u64();
        assert!(polled.is_some_and(|packets| packets > 0), "{side}: {}", own["results"][0]["cpu"]);
    }
    home.hairpin(&format!("ping loopback {FEW} --path {SUSPENDS}")).fails(4, &["no NAPI instance delivers the packets"]);
    // Another's is as its owner set it: the message has the command, and with that it is in force.
    fs::write(home.file("key"), "1".repeat(64)).expect("a key");
    let mut serve = home.command("unshare");
    let ready = "until ip link set hp-b up 2>/dev/null; do sleep 0.02; done; ip addr add 198.18.7.2/24 dev hp-b; ethtool -K hp-b tso off; \
                 exec \"$0\" serve --listen 198.18.7.2 --key-file key";
    serve.args(["--net", "sh", "-c", ready, HAIRPIN]);
    let mut serve = home.spawn(serve);
    command("ip addr add 198.18.7.1/24 dev hp-a");
    command("ethtool -K hp-a tso off");
    let outside = fs::read_link("/proc/self/ns/net").expect("a namespace");
    let begun = Instant::now();
    while fs::read_link(format!("/proc/{}/ns/net", serve.pid())).is_ok_and(|its| its == outside) {
        assert!(begun.elapsed() < Duration::from_secs(10), "no namespace was made");
        sleep(Duration::from_millis(5));
    }
    command(&format!("ip link set hp-b netns {}", serve.pid()));
    serve.until("198.18.7.2");
    let ping = format!("ping 198.18.7.2 --key-file key {FEW} --path {SUSPENDS}/block");
    let refused = home.hairpin(&ping);
    refused.fails(4, &["it is not in force on the NAPI instance napi-0 of hp-a"]);
    let advice = refused.err.split("sudo hairpin ").nth(1).expect("a command").trim().replace('\n', " ");
    let applied = home.hairpin(&format!("{advice} --yes"));
    assert_eq!(applied.code, Some(0), "{advice}: {applied:?}");
    let got = granted_of(&home.json(&ping), "client");
    assert_eq!(got.get("irq-suspend-timeout").map(String::as_str), Some("2000000"), "{got:?}");
    assert_eq!(home.hairpin("tune revert").code, Some(0));
    true
}
