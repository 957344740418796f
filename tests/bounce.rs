//! `hairpin bounce` between namespaces of the tests' own.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use crate::support::net::{BROADCAST, MAC_A, MAC_B, Net, Wire, apart, frame, ip, veth};
use crate::support::{Done, HAIRPIN, Home, Running, can, namespaces, namespaces_of_nobody, workers_of};
use hairpin_wire::raw::ETHERTYPE as OURS;
use serde_json::Value;

/// Time limit for frames to come back.
const SOON: Duration = Duration::from_secs(20);
/// Time after which a frame will no longer arrive.
const NEVER: Duration = Duration::from_millis(300);
/// Every back end.
const IO: [&str; 2] = ["xdp:spin", "packet:block"];

fn may(name: &str) -> bool {
    can(name, namespaces(), "interfaces of its own need root")
}

/// Starts a bouncer where the calling thread is, and waits until it bounces.
fn bouncer(home: &Home, args: &str) -> Running {
    let mut running = home.start(&format!("bounce {args}"));
    running.until("Ctrl-C ends it");
    // The rings are open; the loop begins with the next order.
    thread::sleep(Duration::from_millis(100));
    running
}

/// Ends it with Ctrl-C; the totals are in its JSON.
#[track_caller]
fn totals(running: Running) -> Value {
    running.signal("INT");
    let done = running.done();
    assert_eq!(done.code, Some(0), "{done:?}");
    last_json(&done)
}

#[track_caller]
fn last_json(done: &Done) -> Value {
    serde_json::from_str(done.out.lines().last().unwrap_or_default()).unwrap_or_else(|error| panic!("{error}: {done:?}"))
}

#[test]
fn frames_come_back_as_they_were_or_with_their_addresses_swapped_and_nothing_else_does() {
    let name = "frames_come_back_as_they_were_or_with_their_addresses_swapped_and_nothing_else_does";
    if !may(name) {
        return;
    }
    apart(|| {
        let (home, net) = (Home::new(), Net::new());
        net.enter();
        veth("a0", "b0");
        let mut wire = Wire::new("a0");
        for io in IO {
            for rewrite in ["macs", "none"] {
                let running = bouncer(&home, &format!("-i b0 --io {io} --rewrite {rewrite} --json-stream"));
                let sent = frame(MAC_B, MAC_A, OURS, 1);
                wire.send(&frame(BROADCAST, MAC_A, OURS, 2));
                wire.send(&frame([1, 0, 0x5e, 0, 0, 1], MAC_A, OURS, 3));
                wire.send(&frame(MAC_B, MAC_A, 0x88b6, 4));
                wire.send(&sent);
                let back = wire.take(1, SOON);
                let expected = if rewrite == "macs" { frame(MAC_A, MAC_B, OURS, 1) } else { sent };
                assert_eq!(back, [expected], "{io} {rewrite}");
                assert_eq!(wire.take(1, NEVER), Vec::<Vec<u8>>::new(), "{io} {rewrite}");
                let whole = totals(running);
                let frames = &whole["frames"];
                assert_eq!(whole["schema"], "hairpin.bounce/1");
                assert_eq!(
                    (&frames["received"], &frames["sent"], &frames["sent_wire_bytes"]),
                    (&3.into(), &1.into(), &84.into())
                );
                assert_eq!((&frames["kept"]["group"], &frames["kept"]["filtered"]), (&2.into(), &0.into()), "{frames}");
                assert_eq!((&whole["io"], &whole["input"]["interface"]), (&io.into(), &"b0".into()));
            }
        }
    });
}

#[test]
fn with_all_swapped_a_datagram_goes_back_to_its_port() {
    if !may("with_all_swapped_a_datagram_goes_back_to_its_port") {
        return;
    }
    apart(|| {
        let (home, net) = (Home::new(), Net::new());
        net.enter();
        veth("a0", "b0");
        let mut wire = Wire::new("a0");
        // IPv4 and UDP without checksums, which both allow: 10.0.0.1:7000 to 10.0.0.2:24445.
        let mut datagram = frame(MAC_B, MAC_A, 0x0800, 0);
        datagram[14..34].copy_from_slice(&[0x45, 0, 0, 32, 0, 1, 0, 0, 64, 17, 0x66, 0xca, 10, 0, 0, 1, 10, 0, 0, 2]);
        datagram[34..42].copy_from_slice(&[0x1b, 0x58, 0x5f, 0x7d, 0, 12, 0, 0]);
        for io in IO {
            let running = bouncer(&home, &format!("-i b0 --io {io} --filter udp:24445 --rewrite all --verify --json-stream"));
            let mut other = datagram.clone();
            other[37] = 0x7e;
            wire.send(&other);
            wire.send(&datagram);
            let back = wire.take(1, SOON);
            let mut expected = datagram.clone();
            expected[..12].copy_from_slice(&[MAC_A, MAC_B].concat());
            expected[26..34].copy_from_slice(&[10, 0, 0, 2, 10, 0, 0, 1]);
            expected[34..38].copy_from_slice(&[0x5f, 0x7d, 0x1b, 0x58]);
            assert_eq!(back, [expected], "{io}");
            assert_eq!(wire.take(1, NEVER), Vec::<Vec<u8>>::new(), "{io}");
            let whole = totals(running);
            assert_eq!((&whole["frames"]["sent"], &whole["frames"]["wrong_checksum"]), (&1.into(), &0.into()), "{whole}");
        }
    });
}

#[test]
fn out_of_another_interface() {
    if !may("out_of_another_interface") {
        return;
    }
    apart(|| {
        let (home, net) = (Home::new(), Net::new());
        net.enter();
        veth("a0", "b0");
        veth("c0", "d0");
        let (mut near, mut far) = (Wire::new("a0"), Wire::new("d0"));
        for io in IO {
            let running = bouncer(&home, &format!("-i b0 -o c0 --io {io} --rewrite none --json-stream"));
            let sent = frame(MAC_B, MAC_A, OURS, 1);
            near.send(&sent);
            assert_eq!(far.take(1, SOON), [sent], "{io}");
            assert_eq!(near.take(1, NEVER), Vec::<Vec<u8>>::new(), "{io}");
            let whole = totals(running);
            assert_eq!((&whole["frames"]["sent"], &whole["output"]["interface"]), (&1.into(), &"c0".into()), "{whole}");
        }
    });
}

#[test]
fn two_that_face_each_other_do_not_storm() {
    if !may("two_that_face_each_other_do_not_storm") {
        return;
    }
    apart(|| {
        let (home, net) = (Home::new(), Net::new());
        net.enter();
        veth("a0", "b0");
        let mut wire = Wire::new("a0");
        for rewrite in ["macs", "none"] {
            let both = ["a0", "b0"].map(|end| bouncer(&home, &format!("-i {end} --io xdp --rewrite {rewrite} --json-stream")));
            for number in 0..3 {
                wire.send(&frame(MAC_B, MAC_A, OURS, number));
            }
            thread::sleep(Duration::from_secs(1));
            for running in both {
                let frames = totals(running)["frames"].clone();
                // 64 of each frame at once, and as many a second after that.
                let sent = frames["sent"].as_u64().unwrap();
                assert!((3..=3 * 64 * 4).contains(&sent), "{rewrite}: {frames}");
            }
            // The circle was broken, not interrupted: after both have ended no frame comes any more.
            wire.take(usize::MAX, NEVER);
            assert_eq!(wire.take(1, NEVER), Vec::<Vec<u8>>::new());
        }
    });
}

#[test]
fn tcp_beside_it_goes_on() {
    if !may("tcp_beside_it_goes_on") {
        return;
    }
    apart(|| {
        let (home, near, far) = (Home::new(), Net::new(), Net::new());
        near.enter();
        veth("a0", "b0");
        ip(&format!("link set b0 netns {}", far.pid()));
        ip("addr add 198.18.0.1/30 dev a0");
        far.enter();
        ip("link set b0 up");
        ip("addr add 198.18.0.2/30 dev b0");
        let listener = TcpListener::bind("198.18.0.2:7000").unwrap();
        for io in IO {
            far.enter();
            let running = bouncer(&home, &format!("-i b0 --io {io} --json-stream"));
            let echo = listener.try_clone().unwrap();
            let echo = thread::spawn(move || {
                let (mut stream, _) = echo.accept().unwrap();
                let mut got = Vec::new();
                stream.read_to_end(&mut got).unwrap();
                stream.write_all(&got).unwrap();
            });
            near.enter();
            let mut wire = Wire::new("a0");
            let mut stream = TcpStream::connect("198.18.0.2:7000").unwrap();
            let data: Vec<u8> = (0..1 << 20).map(|n: u32| (n % 251) as u8).collect();
            stream.write_all(&data[..1 << 19]).unwrap();
            wire.send(&frame(MAC_B, MAC_A, OURS, 9));
            stream.write_all(&data[1 << 19..]).unwrap();
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            let mut back = Vec::new();
            stream.read_to_end(&mut back).unwrap();
            echo.join().unwrap();
            assert!(back == data, "{io}: the transfer was disturbed");
            let returned = wire.take(usize::MAX, NEVER).contains(&frame(MAC_A, MAC_B, OURS, 9));
            let whole = totals(running);
            assert_eq!((&whole["frames"]["received"], &whole["frames"]["sent"]), (&1.into(), &1.into()), "{io}: {whole}");
            assert!(returned, "{io}");
        }
    });
}

#[test]
fn a_line_a_second_and_the_whole_at_the_end() {
    if !may("a_line_a_second_and_the_whole_at_the_end") {
        return;
    }
    apart(|| {
        let (home, net) = (Home::new(), Net::new());
        net.enter();
        veth("a0", "b0");
        let mut wire = Wire::new("a0");
        let running = bouncer(&home, "-i b0 --io packet:block --json-stream --duration 2.5s");
        for number in 0..10 {
            wire.send(&frame(MAC_B, MAC_A, OURS, number));
        }
        let done = running.done();
        assert_eq!(done.code, Some(0), "{done:?}");
        let lines: Vec<Value> = done.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let schemas: Vec<&str> = lines.iter().map(|line| line["schema"].as_str().unwrap()).collect();
        assert_eq!(schemas, ["hairpin.bounce-second/1", "hairpin.bounce-second/1", "hairpin.bounce/1"]);
        assert_eq!(lines.iter().map(|line| line["frames"]["sent"].as_u64().unwrap()).collect::<Vec<_>>()[2], 10);
        assert!(lines[2]["duration_ns"].as_u64().unwrap() >= 2_500_000_000, "{}", lines[2]);

        let running = bouncer(&home, "-i b0");
        assert!(running.err().contains("hairpin bounces xdp:spin on b0 queue 0"), "{}", running.err());
        wire.send(&frame(MAC_B, MAC_A, OURS, 1));
        wire.take(1, SOON);
        running.signal("INT");
        let done = running.done();
        assert_eq!(done.code, Some(0), "{done:?}");
        for part in ["frames/s", "in          1 frames, 60 bytes", "sent back   1 frames, 60 bytes", "kept        none"] {
            assert!(done.out.contains(part), "no \"{part}\" in {}", done.out);
        }
        assert!(done.out.lines().all(|line| line.chars().count() <= 80), "{}", done.out);
    });
}

#[test]
fn killed_it_leaves_no_program_no_process_and_no_promiscuous_interface() {
    if !may("killed_it_leaves_no_program_no_process_and_no_promiscuous_interface") {
        return;
    }
    apart(|| {
        let (home, net) = (Home::new(), Net::new());
        net.enter();
        veth("a0", "b0");
        for (io, mark) in [("xdp:spin", "xdp"), ("packet:spin", "promiscuity 1")] {
            let mut running = bouncer(&home, &format!("-i b0 --io {io} --filter all"));
            let state = || ip("-d link show b0");
            assert!(state().contains(mark), "{io}: {}", state());
            let parent = running.pid();
            assert_eq!(workers_of(parent).len(), 1);
            running.kill();
            let killed = Instant::now();
            while !workers_of(parent).is_empty() || state().contains(mark) {
                assert!(killed.elapsed() < Duration::from_secs(10), "{io}: {:?}, {}", workers_of(parent), state());
                thread::sleep(Duration::from_millis(10));
            }
        }
    });
}

#[test]
fn interface_down_ends_with_the_counts() {
    if !may("interface_down_ends_with_the_counts") {
        return;
    }
    apart(|| {
        let (home, net) = (Home::new(), Net::new());
        net.enter();
        veth("a0", "b0");
        let mut wire = Wire::new("a0");
        for io in IO {
            let running = bouncer(&home, &format!("-i b0 --io {io} --json-stream"));
            // A link that has just come up may lose a frame.
            let back = (0..20).find(|number| {
                wire.send(&frame(MAC_B, MAC_A, OURS, *number));
                wire.take(1, NEVER).contains(&frame(MAC_A, MAC_B, OURS, *number))
            });
            assert!(back.is_some(), "{io}: {}", running.out());
            ip("link set b0 down");
            thread::sleep(Duration::from_millis(200));
            running.signal("INT");
            let done = running.done();
            // A back end may notice at once, or only when it has something to send.
            let whole = last_json(&done);
            assert_eq!(done.code, Some(i32::from(!whole["error"].is_null())), "{done:?}");
            assert!(whole["frames"]["sent"].as_u64() > Some(0), "{done:?}");
            assert!(done.code == Some(0) || done.err.contains("the ring of b0 failed: Network is down"), "{done:?}");
            ip("link set b0 up");
        }
    });
}

#[test]
fn traffic_of_the_host_is_bounced_only_on_request() {
    if !may("traffic_of_the_host_is_bounced_only_on_request") {
        return;
    }
    apart(|| {
        let (home, net) = (Home::new(), Net::new());
        net.enter();
        veth("a0", "b0");
        ip("addr add 198.18.0.2/30 dev b0");
        ip("route add default via 198.18.0.1");
        let refused = home.hairpin("bounce -i b0 --filter all --duration 100ms");
        refused.fails(2, &["--filter all on b0", "this host's default route", "cut it off", "--yes"]);
        home.hairpin("bounce -i b0 --filter ethertype:0x0800 --duration 100ms").fails(2, &["default route"]);
        home.hairpin("bounce -i a0 --filter all --duration 100ms").fails(0, &["Ctrl-C ends it"]);
        home.hairpin("bounce -i b0 --filter all --yes --duration 100ms").fails(0, &["Ctrl-C ends it"]);
        let mut over_ssh = home.command(HAIRPIN);
        over_ssh.env("SSH_CONNECTION", "198.18.0.1 40000 198.18.0.2 22").args(["bounce", "-i", "b0", "--filter", "all"]);
        home.spawn(over_ssh).done().fails(2, &["the ssh connection that this command came over"]);
    });
}

#[test]
fn missing_rights_are_named_with_a_remedy() {
    if !can(
        "missing_rights_are_named_with_a_remedy",
        namespaces() && namespaces_of_nobody(),
        "interfaces of its own and another user need root",
    ) {
        return;
    }
    apart(|| {
        let (home, net) = (crate::support::home_of_nobody(), Net::new());
        net.enter();
        veth("a0", "b0");
        home.as_nobody("bounce -i b0 --io packet").fails(4, &["b0", "CAP_NET_RAW"]);
        home.as_nobody("bounce -i b0 --io xdp").fails(4, &["b0", "CAP_"]);
        home.as_nobody("bounce -i b0").fails(4, &["xdp:spin", "packet:spin", "CAP_"]);
        ip("link set b0 down");
        home.hairpin("bounce -i b0 --io packet").fails(1, &["b0 is down", "ip link set b0 up"]);
        ip("link set b0 up");
        for queue in ["7", "4294967295"] {
            home.hairpin(&format!("bounce -i b0 --io packet --queue {queue}")).fails(1, &["b0", queue]);
        }
        let first = bouncer(&home, "-i b0 --io xdp");
        home.hairpin("bounce -i b0 --io xdp").fails(1, &["b0"]);
        // Without a choice the second way is taken and reported.
        let second = bouncer(&home, "-i b0");
        assert!(second.err().contains("not xdp:spin: ") && second.err().contains("bounces packet:spin"), "{}", second.err());
        drop(first);
    });
}

#[test]
fn examples_of_its_page_are_flags_that_exist() {
    let help = Command::new(HAIRPIN).args(["bounce", "--help"]).output().expect("help");
    let help = String::from_utf8(help.stdout).expect("text");
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/verbs/bounce.md")).expect("its page");
    let table: String = page.lines().filter(|line| line.starts_with("| `")).collect();
    let mut flags: Vec<&str> = table.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-')).collect();
    flags.retain(|word| word.starts_with("--") && word.len() > 3);
    assert!(flags.len() > 10, "{flags:?}");
    for flag in flags {
        assert!(help.contains(flag), "{flag} is in docs/verbs/bounce.md and not in --help");
    }
}
