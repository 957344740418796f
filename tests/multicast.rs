//! `ping --group` and `bounce --group`: one request, a reply of each responder.

use std::net::{Ipv4Addr, UdpSocket};
use std::process::Command;
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::support::net::{Net, apart, ip, joined};
use crate::support::{Home, Running, can, namespaces, rows, two_cpus, warnings, workers_of};

const PORT: u16 = 24_446;

fn may(name: &str) -> bool {
    can(name, namespaces(), "it takes root and namespaces")
}

/// The row of this reply.
#[track_caller]
fn of<'a>(run: &'a Value, reply: &str) -> &'a Value {
    rows(run).iter().find(|row| row["reply"] == reply).unwrap_or_else(|| panic!("no row {reply}: {run}"))
}

#[track_caller]
fn count(row: &Value, field: &str) -> u64 {
    row[field].as_u64().unwrap_or_else(|| panic!("no {field}: {row}"))
}

/// Replies of responders alone, without the first and the last.
fn responders(run: &Value) -> Vec<&str> {
    rows(run).iter().skip(2).filter_map(|row| row["reply"].as_str()).collect()
}

/// The namespace of a test's own, with loopback up.
fn alone(test: impl FnOnce(Home) + Send + 'static) {
    apart(|| {
        let net = Net::new();
        net.enter();
        ip("link set lo up");
        test(Home::new());
    });
}

#[test]
fn every_responder_of_a_link_has_its_rtt_and_so_have_the_first_and_the_last_reply() {
    if !may("multicast::every_responder") {
        return;
    }
    let home = Home::new();
    for (link, group, answers) in [
        ("bridge", "239.255.7.1", ["198.18.0.2:", "198.18.0.3:", "198.18.0.4:"]),
        ("bridge", "ff15::7 -r 400", ["[2001:2::2]:", "[2001:2::3]:", "[2001:2::4]:"]),
        ("veth", "239.255.7.1", ["198.18.0.2:"; 3]),
        ("loopback", "239.255.7.1", ["127.0.0.1:"; 3]),
    ] {
        let run = home.json(&format!("ping {link} --group {group} --responders 3 -p udp:poll/block -c 40 --warmup 0s --verify"));
        assert_eq!((&run["error"], rows(&run).len()), (&Value::Null, 5), "{link} {group}: {run}");
        assert_eq!((&run["link"]["group"]["responders"], &run["link"]["group"]["expected"]), (&3.into(), &3.into()), "{run}");
        for row in rows(&run) {
            assert_eq!(count(row, "transactions") + count(row, "lost"), 40, "{link} {group}: {row}");
            assert_eq!(count(row, "duplicates") + count(row, "corrupt"), 0, "{link} {group}: {row}");
        }
        let all = responders(&run);
        assert!(all.iter().zip(answers).all(|(reply, from)| reply.starts_with(from)), "{link} {group}: {all:?}");
        let times = |reply: &str| ["min", "p50", "max"].map(|name| of(&run, reply)["rtt_ns"][name].as_u64());
        let (first, last) = (times("first"), times("last"));
        assert!(first.iter().zip(last).all(|(first, last)| *first <= last && first.is_some()), "{first:?} {last:?}");
        assert!(rows(&run)[2..].iter().all(|row| row["turnaround_ns"]["count"].as_u64() >= Some(40)), "{run}");
    }
    home.hairpin("ping loopback --group ff15::7 -c 5").fails(4, &["lo has no route to the group", "take one of IPv4"]);
    let shown = home.hairpin("runs show latest");
    assert!(["first", "last", "127.0.0.1:"].iter().all(|word| shown.out.contains(word)), "{shown:?}");
    let csv = home.hairpin("runs show latest --format csv").out;
    assert_eq!(csv.lines().filter(|line| line.contains("127.0.0.1:")).count(), 3, "{csv}");
}

#[test]
fn a_group_is_asked_over_the_other_links_too_and_by_ipv6_over_veth() {
    if !may("multicast::over_the_other_links") {
        return;
    }
    apart(|| {
        let (home, one, other) = (Home::new(), Net::new(), Net::new());
        joined(&one, &other);
        let both = format!("netns:{},{}", one.pid(), other.pid());
        for (link, group, from) in [
            ("macvlan", "239.255.7.9", "198.18.0.2:"),
            ("vxlan", "239.255.7.9", "198.18.0.2:"),
            ("veth", "ff15::9", "[2001:2::2]:"),
            (both.as_str(), "239.255.7.9", "10.77.0.2:"),
        ] {
            let run = home.json(&format!("ping {link} --group {group} --responders 2 -p udp:poll/block -c 20 --warmup 0s"));
            let all = responders(&run);
            assert!(run["error"].is_null() && all.len() == 2, "{link}: {run}");
            assert!(all.iter().all(|reply| reply.starts_with(from)), "{link}: {all:?}");
            for row in rows(&run) {
                let answered = count(row, "transactions");
                assert!(answered > 0 && answered + count(row, "lost") == 20, "{link}: {row}");
            }
        }
    });
}

#[test]
fn a_snapshot_has_the_cpu_time_of_all_responders() {
    if !may("multicast::a_snapshot") || !can("multicast::a_snapshot", two_cpus(), "it takes CPUs 0 and 1") {
        return;
    }
    // The responders spin on one core and share it.
    let args = "ping loopback --group 239.255.7.1 --responders 3 -p udp:spin --cpu 0,1 --duration 2.5s --warmup 0s -o jsonl";
    let done = Home::new().hairpin(args);
    let all: Vec<Value> = done.out.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    let cpu = &all.iter().rfind(|line| line["schema"] == "hairpin.progress/1").expect("a snapshot")["cpu"];
    let so_far = count(cpu, "server_ns") as f64 / count(cpu, "elapsed_ns") as f64;
    let last = of(all.last().expect("the run"), "last");
    let whole = ["user_ns", "system_ns"].map(|part| count(&last["cpu"]["server"], part)).iter().sum::<u64>() as f64;
    let whole = whole / count(last, "duration_ns") as f64;
    assert!(so_far > 0.6 * whole, "{so_far} of a core so far, {whole} in the end: {done:?}");
}

/// Starts a responder, and waits until it has joined.
fn responder(home: &Home, args: &str) -> Running {
    let mut running = home.start(&format!("bounce {args}"));
    running.until("Ctrl-C ends it");
    running
}

#[test]
fn responders_started_by_hand_are_found_and_those_that_are_missing_are_named() {
    if !may("multicast::started_by_hand") {
        return;
    }
    alone(|home| {
        let group = "239.255.7.2%lo";
        let ask = |args: &str| format!("ping --group {group} -c 30 --warmup 0s {args}");
        home.hairpin(&ask("-q --timeout 200ms"))
            .fails(1, &["nobody answers the group 239.255.7.2%lo:24446 within 200.0 ms", "hairpin bounce --group"]);
        let [one, other] = [0, 1].map(|_| responder(&home, &format!("--group {group} -p udp:poll --json")));
        let run = home.json(&ask(""));
        assert_eq!((rows(&run).len(), &run["link"]["group"]["expected"]), (4, &Value::Null), "{run}");
        assert!(rows(&run).iter().all(|row| count(row, "transactions") + count(row, "lost") == 30), "{run}");
        home.hairpin(&ask("--responders 3 --timeout 1s")).fails(1, &["2 of 3 responders", "127.0.0.1:", "or say --responders 2"]);
        // Another program's datagram to the same group is not answered.
        let stranger = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        stranger.send_to(&[7; 64], "239.255.7.2:24446").expect("lo leads to the group");
        stranger.set_read_timeout(Some(Duration::from_millis(200))).expect("a timeout");
        assert!(stranger.recv(&mut [0; 64]).is_err(), "it was answered");
        for running in [one, other] {
            running.signal("INT");
            let done = running.done();
            let frames = &done.json()["frames"];
            assert_eq!((done.code, count(&frames["kept"], "filtered")), (Some(0), 1), "{done:?}");
            assert_eq!(count(frames, "received"), count(frames, "sent") + 1, "{frames}");
            assert_eq!(
                count(frames, "received_bytes"),
                count(frames, "sent_bytes") + 64 + 42,
                "a reply is as long as its request"
            );
        }
    });
}

/// Responders in one thread, each with a port of its own: `answers(sequence, request)` is what each sends, in order.
fn responders_that(group: Ipv4Addr, count: usize, mut answers: impl FnMut(u32, &[u8]) -> Vec<(usize, Vec<u8>)> + Send + 'static) {
    let heard = UdpSocket::bind((group, PORT)).expect("the group's port");
    heard.join_multicast_v4(&group, &Ipv4Addr::LOCALHOST).expect("the group");
    heard.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
    let says: Vec<UdpSocket> = (0..count).map(|_| UdpSocket::bind("127.0.0.1:0").expect("a socket")).collect();
    thread::spawn(move || {
        let mut bytes = [0; 2048];
        while let Ok((len, from)) = heard.recv_from(&mut bytes) {
            let sequence = u32::from_le_bytes(bytes[..4].try_into().expect("four bytes"));
            for (who, reply) in answers(sequence, &bytes[..len]) {
                let _ = says[who].send_to(&reply, from);
            }
        }
    });
}

#[test]
fn late_and_double_replies_count_for_their_request_and_responders_may_come_and_go() {
    if !may("multicast::late_and_double") {
        return;
    }
    alone(|home| {
        let mut held = None;
        responders_that(Ipv4Addr::new(239, 255, 7, 3), 3, move |sequence, request| {
            let mut all: Vec<(usize, Vec<u8>)> = held.take().into_iter().map(|late| (0, late)).collect();
            match sequence {
                // This reply comes with the next request.
                250 | 350 | 450 | 550 => held = Some(request.to_vec()),
                _ => all.push((0, request.to_vec())),
            }
            all.extend((sequence % 40 == 7).then(|| (0, request.to_vec())));
            all.extend((sequence < 250).then(|| (1, request.to_vec())));
            all.extend((sequence >= 300).then(|| (2, request.to_vec())));
            // These are no replies: one too short, one of another run.
            all.extend((sequence == 60).then(|| (0, request[..20].to_vec())));
            all.extend((sequence == 61).then(|| (0, vec![0; request.len()])));
            all
        });
        let ask = "ping --group 239.255.7.3%lo --responders 2 -p udp:poll -c 900 --warmup 0s --timeout 2s --json";
        let done = home.hairpin(ask);
        let run = done.json();
        assert_eq!((done.code, &run["error"], rows(&run).len()), (Some(0), &Value::Null, 5), "{done:?}");
        let last = of(&run, "last");
        assert_eq!(count(last, "transactions") + count(last, "lost"), 900, "{last}");
        assert!(count(last, "lost") >= 4 && count(last, "corrupt") == 2, "{last}");
        assert!(warnings(last).contains(&"responders"), "{last}");
        let note = last["warnings"].as_array().into_iter().flatten().find(|note| note["code"] == "responders");
        let text = note.and_then(|note| note["message"].as_str()).unwrap_or_default();
        assert!(text.contains("joined after") && text.contains("left after"), "{text}");
        // The responders' ports are in no order.
        let each = &rows(&run)[2..];
        let faithful = each.iter().max_by_key(|row| count(row, "transactions")).expect("rows");
        assert_eq!(count(faithful, "transactions") + count(faithful, "lost"), 900, "{faithful}");
        assert!(count(faithful, "lost") >= 4 && count(faithful, "late") >= 4, "{faithful}");
        assert!((22..=23).contains(&count(faithful, "duplicates")), "{faithful}");
        let others = each.iter().filter(|row| row["reply"] != faithful["reply"]);
        assert!(others.clone().all(|row| (1..=650).contains(&count(row, "transactions"))), "{run}");
        assert!(others.clone().any(|row| count(row, "lost") > 0), "one has left: {run}");
    });
}

#[test]
fn the_first_responder_may_go_like_any_other() {
    if !may("multicast::the_first_responder") {
        return;
    }
    let args = "ping bridge --group 239.255.7.6 --responders 3 -p udp:poll/block -t 2.5s --warmup 0s --timeout 500ms -o jsonl";
    let home = Home::new();
    let mut running = home.start(args);
    running.until("hairpin.progress/1");
    // The client's was started first.
    let first = workers_of(running.pid())[1];
    let killed = Command::new("kill").args(["-KILL", &first.to_string()]).status().expect("kill");
    assert!(killed.success(), "{first}");
    let done = running.done();
    let run: Value = serde_json::from_str(done.out.lines().last().expect("the run")).expect("its JSON");
    assert_eq!((done.code, &run["error"], rows(&run).len()), (Some(0), &Value::Null, 5), "{done:?}");
    let last = of(&run, "last");
    assert!(["responders", "server-unknown"].iter().all(|code| warnings(last).contains(code)), "{last}");
    assert!(last["cpu"]["server"].is_null(), "it was another one: {last}");
}

#[test]
fn a_group_that_falls_silent_ends_the_run_and_keeps_what_was_measured() {
    if !may("multicast::falls_silent") {
        return;
    }
    alone(|home| {
        responders_that(Ipv4Addr::new(239, 255, 7, 4), 2, |sequence, request| {
            (0..if sequence < 100 { 2 } else { 0 }).map(|who| (who, request.to_vec())).collect()
        });
        let done = home.hairpin("ping --group 239.255.7.4%lo -p udp:poll --warmup 0s --timeout 1s --json");
        done.fails(1, &["no reply for 1.000 s", "every responder has left"]);
        let run = done.json();
        assert_eq!((rows(&run).len(), &run["link"]["group"]["responders"]), (4, &2.into()), "{run}");
        assert!(rows(&run).iter().all(|row| count(row, "transactions") > 0), "{run}");
    });
}

#[test]
fn a_group_that_is_silent_when_the_run_ends_gave_no_answer() {
    if !may("multicast::silent_when_the_run_ends") {
        return;
    }
    alone(|home| {
        responders_that(Ipv4Addr::new(239, 255, 7, 8), 2, |sequence, request| {
            (0..if sequence < 100 { 2 } else { 0 }).map(|who| (who, request.to_vec())).collect()
        });
        // A request is given up within 750 ms, so the silence has three at least.
        let run = home.json("ping --group 239.255.7.8%lo -p udp:poll --warmup 0s -t 2s --timeout 3s");
        let last = of(&run, "last");
        let ends = |silence: &Value| count(silence, "at_ns") + count(silence, "length_ns");
        assert!(last["silences"].as_array().into_iter().flatten().any(|silence| ends(silence) > 1_900_000_000), "{last}");
        let codes = warnings(last);
        assert!(codes.contains(&"no-answer") && !codes.contains(&"loss"), "{codes:?}");
    });
}

#[test]
fn a_group_that_is_none_and_flags_that_do_not_go_with_it_are_refused() {
    let home = Home::new();
    for (args, parts) in [
        ("ping loopback --group 192.0.2.1", &["192.0.2.1 is no multicast address", "such as 239.255.0.1"][..]),
        ("ping loopback --group wifi", &["is not a group", "ADDR[%IF][:PORT]"]),
        ("ping loopback -6 --group 239.255.7.5", &["-6 is of IPv6", "a group of IPv4"]),
        ("ping 192.0.2.1 --group 239.255.7.5", &["leave out HOST"]),
        ("ping echo:192.0.2.1:7 --group 239.255.7.5", &["leave out HOST"]),
        ("ping loopback --group 239.255.7.5%lo", &["has its own interface: leave out %lo"]),
        ("ping --group 239.255.7.5%nosuch", &["there is no interface \"nosuch\""]),
        ("ping loopback --group 239.255.7.5 -p tcp", &["--group takes --path udp, on both sides, not tcp"]),
        ("ping loopback --group 239.255.7.5 -s 8", &["16 bytes of sequence number and cookie"]),
        ("ping loopback --group 239.255.7.5 --flows 2 -p udp:poll", &["one request at a time"]),
        ("ping loopback --group 239.255.7.5 --request 64 --reply 6400", &["has no reply of 6400"]),
        ("ping loopback --group 239.255.7.5 --responders 65", &["from 1 to 64"]),
        ("ping loopback --responders 2", &["--group"]),
        ("ping loopback --group 239.255.7.5 --one-way", &["cannot be used with"]),
        ("bounce lo -p udp", &["say which, with --group"]),
        ("bounce --group 239.255.7.5 -p xdp", &["over sockets, such as udp:spin"]),
        ("bounce lo --group 239.255.7.5", &["cannot be used with"]),
        ("bounce --group 10.0.0.1", &["no multicast address"]),
    ] {
        home.hairpin(args).fails(2, parts);
    }
    assert!(!home.runs().exists(), "a run of nothing was stored");
}
