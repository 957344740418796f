//! Wrong command lines and their answers: a line or two each, with the cause and the fix. The answers are in `wrong_lines.txt`;
//! INSTA_UPDATE=always writes it anew.

use std::fs;

use crate::support::Home;

const LINES: &[&str] = &[
    "pign loopback",
    "server",
    "latest",
    "help wisdom",
    "ping",
    "ping loopback -P 4",
    "ping loopback -l 64",
    "ping loopback --msg-size 64",
    "ping loopback --mps 1000",
    "ping loopback -R 1000",
    "ping loopback -J",
    "ping loopback -d 5",
    "ping loopback -b 1G",
    "ping loopback --udp",
    "ping -4 server",
    "ping --host server",
    "ping server --port 7",
    "ping loopback --pat tcp",
    "ping loopback --count x",
    "ping loopback --count 0",
    "ping loopback --size 64q",
    "ping loopback -s 5G",
    "ping loopback --rate 10M",
    "ping loopback -r 10G",
    "ping loopback --rate fast",
    "ping loopback -t 5parsecs",
    "ping echo:127.0.0.1:7 --request redis-ping --until length-prefix:3",
    "ping echo:127.0.0.1:7 --until 7",
    "ping loopback -p upd",
    "ping loopback -p tcp:spni",
    "ping loopback -p udp:nodelay=on",
    "ping loopback --cpu 0",
    "ping loopback --json --csv",
    "ping loopback --json --json",
    "ping loopback -q -v",
    "ping loopback -s",
    "ping loopback server",
    "ping --link wifi",
    "ping veth:mut=1",
    "ping :6379",
    "ping latest",
    "ping 127.0.0.1:1",
    "ping -i lo server",
    "ping -i lo loopback",
    "ping server --dst-mac 02:00:00:00:00:01",
    "ping server --rewrite macs",
    "ping -6 server",
    "ping loopback --key-file key",
    "explain latest",
    "explain frames:eth1",
    "explain :7777 --size 64 -p udp",
    "explain --port x",
    "explain :6379 --echo",
    "explain 1 -i lo",
    "compare",
    "compare udp:spin",
    "compare --link veth --link bridge -p udp",
    "compare -- udp --size -- tcp",
    "compare -- udp -- udp:spin --for 5s",
    "compare latest -2",
    "compare latest latest --link veth",
    "compare --baseline latest --until 5%",
    "compare echo:server:7 --request text:a -- tcp:spin -- tcp:block",
    "load loopback --rate 5,x",
    "load loopback -P 4",
    "load loopback --seed 5",
    "report",
    "report latest",
    "report latest --format md --chart sizes",
    "runs shwo latest",
    "runs show",
    "runs show latest~3",
    "watch",
    "tune aply",
    "tune apply",
    "tune apply --profile",
    "tune try --link",
    "stream --link loopback",
    "stream --link veth -R 5",
    "bounce",
    "mesh",
    "mesh --rank 0 --ranks 1",
    "mesh --pairs some",
    "mesh --fail-if p99",
    "mesh --fail-if",
    "check --cpu 0",
    "floor --link-rate fast",
    "floor pcie --published --bar 0",
    "sweep",
    "sweep moon",
    "sweep --link veth --key-file key -p udp -p tcp",
    "exec ls",
    "serve --listen nowhere",
    "serve -p 5000",
    "completions tcsh",
    // Habits of other tools, with a value behind the letter.
    "-s",
    "-c server",
    "ping -c server",
    "ping -p 5201 server",
    "ping -t TCP_RR server",
    "ping server -r 64,64",
    "ping -f server",
    "load server --latency",
    // Targets.
    "explain",
    "explain nosuchprogram",
    "explain echo:server:7",
    "explain :7777 --for 0s",
    "compare placements -p udp -p tcp",
    "compare placements server -p udp",
    "compare loopback veth",
    "compare -- upd -- tcp",
    "compare veth -- udp one two -- tcp",
    "paths loopback veth",
    "paths veht",
    "stream",
    "stream loopback",
    "stream server:7",
    "stream veth --dst-mac 02:00:00:00:00:01",
    "serve veth",
    "sweep veth",
    "sweep loopback veth -p udp -p tcp",
    "sweep udp tcp",
    "sweep sun-fire -p udp",
    "sweep --show",
    "sweep echo:server:7 -p udp -p tcp",
    "ping veth:mtu=1",
    // Flags without effect.
    "ping loopback -p unix -6",
    "ping loopback -p memory -6",
    "load loopback -p unix -r 1k -6",
    "load loopback -p udp --nic niq",
    "compare udp tcp --warmup 2s",
    "compare -- udp --warmup 2s -- tcp",
    "compare latest latest --for 5s",
    "tune try loopback --warmup 5s",
    "ping loopback --hrt -j",
    "ping loopback --hrt -o csv",
    "ping loopback --percentiles 50 -o csv",
    "ping loopback --percentiles 50 -o pingpong",
    "ping loopback --hrt -o netperf",
    "load loopback -r 1k -o netperf",
    "sweep loopback -p udp -p tcp -o sockperf",
    "ping loopback --cable twinax:3m",
    "explain loopback -p udp --wire twinax:3m",
    "ping loopback --wire 10G --nic niq",
    "ping loopback --wire 10G,nic7",
    "load loopback -r 0.00001",
    "ping loopback -p udp:sndbuf=1",
    "tune apply busy_poll_us=1x",
];

#[test]
fn wrong_lines_are_answered_with_the_cause_and_the_fix() {
    let home = Home::new();
    let mut found = String::new();
    for line in LINES {
        let done = home.hairpin(line);
        let said = done.err.replace(&home.path().display().to_string(), "HOME");
        assert!(matches!(done.code, Some(1 | 2)) && done.out.is_empty(), "{line}: {done:?}");
        assert!((1..=2).contains(&said.lines().count()), "{line}: {said}");
        assert!(said.starts_with("hairpin: "), "{line}: {said}");
        found.push_str(&format!("$ hairpin {line}\n{said}\n"));
    }
    assert!(!home.runs().exists(), "a run of nothing was stored");
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/wrong_lines.txt");
    if std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always") {
        fs::write(golden, &found).expect("the golden file");
    }
    let kept = fs::read_to_string(golden).unwrap_or_default();
    let (found, kept): (Vec<&str>, Vec<&str>) = (found.split("\n\n").collect(), kept.split("\n\n").collect());
    for (found, kept) in found.iter().zip(&kept) {
        assert_eq!(found, kept);
    }
    assert_eq!(found.len(), kept.len());
}

#[test]
fn the_first_screen_is_help() {
    let home = Home::new();
    for args in ["", "help", "-h"] {
        let page = home.hairpin(args);
        assert_eq!((page.code, page.err.as_str()), (Some(0), ""), "{page:?}");
        assert!(page.out.lines().count() <= 20 && page.out.lines().all(|line| line.chars().count() <= 80), "{}", page.out);
        assert!(page.out.contains("this host") && !page.out.contains("last run"), "{}", page.out);
    }
    home.hairpin("ping loopback -p udp -c 20 --warmup 1ms -q").fails(0, &[]);
    let page = home.hairpin("").out;
    assert!(page.contains("s ago, udp:block") && page.contains("hairpin report latest"), "{page}");
    assert!(home.hairpin("help units").out.contains("Ki"));
    for args in ["help ping", "ping help", "ping -h"] {
        assert!(home.hairpin(args).out.contains("hairpin ping loopback"), "{args}");
    }
}

#[test]
fn letters_multiples_and_old_flags_are_taken() {
    let home = Home::new();
    let run = home.json("ping loopback -p udp:spin -c 1k -s 1Ki -n 1 --warmup 1ms -v");
    assert_eq!((&run["results"][0]["transactions"], &run["results"][0]["request_bytes"]), (&1000.into(), &1024.into()));
    let run = home.json("ping loopback -p udp --pace 2k -c 100 --warmup 1ms");
    assert_eq!(run["results"][0]["pace_per_s"], 2000.0, "{run}");
    let done =
        home.hairpin("ping --path niq:spin --link loopback --nic niq --rate 10G --cable twinax:3m --size 18 -c 20 --no-store -j");
    if done.code == Some(0) {
        assert!(done.err.contains("--rate 10G is taken as --link-rate 10G"), "{done:?}");
    }
    assert_eq!(done.err.matches("--link-rate 10G").count(), 1, "{done:?}");
    let quiet = home.hairpin("ping loopback -p udp --rate 10G -c 20 --no-store -q");
    assert!(!quiet.err.contains("is taken as"), "{quiet:?}");
    home.hairpin("ping loopback -p udp -c 20 --warmup 1ms").fails(0, &["stored as"]);
    let quiet = home.hairpin("ping loopback -p udp -c 20 --warmup 1ms -q");
    assert_eq!((quiet.code, quiet.err.as_str()), (Some(0), ""));
    let one = home.hairpin("runs show -2").out;
    assert!(one == home.hairpin("runs show latest~1").out && one != home.hairpin("runs show last").out);
    let two = home.json("compare latest -2 --no-store");
    assert_eq!(two["arms"].as_array().map(Vec::len), Some(2), "{two}");
}

#[test]
fn flags_of_a_run_are_refused_of_other_records() {
    let home = Home::new();
    for _ in 0..2 {
        home.hairpin("ping loopback -p udp -c 20 --warmup 1ms -q").fails(0, &[]);
    }
    home.hairpin("runs latest --hrt --percentiles 50").fails(0, &[]);
    home.hairpin("runs export latest --hrt").fails(2, &["--hrt halves the times of tables", "add -o table"]);
    home.hairpin("runs export latest --hrt -o md").fails(0, &[]);
    home.hairpin("compare latest latest~1").fails(0, &[]);
    for flag in ["--hrt", "--percentiles 50"] {
        let name = flag.split(' ').next().unwrap();
        home.hairpin(&format!("runs show latest {flag}"))
            .fails(2, &[name, "belongs to records of `hairpin ping`", "`hairpin compare`"]);
        home.hairpin(&format!("runs export latest -o md {flag}")).fails(2, &[name, "belongs to records of `hairpin ping`"]);
    }
}

#[test]
fn deprecated_forms_are_told_of_once() {
    let home = Home::new();
    let told = |line: &str, words: &str| {
        let done = home.hairpin(line);
        assert_eq!((done.code, done.err.matches(words).count()), (Some(0), 1), "{done:?}");
    };
    told("ping loopback -p udp:sndbuf=64k -p udp:rcvbuf=64k -c 20 --warmup 1ms", "took it for is sndbuf=64Ki");
    told("sweep loopback -p memory -p memory:spin --duration 300ms", "taken as --for");
    let quiet = home.hairpin("ping loopback -p udp:sndbuf=64k -c 20 --warmup 1ms -q");
    assert_eq!((quiet.code, quiet.err.as_str()), (Some(0), ""));
    let run = home.json("ping loopback -p udp:sndbuf=64Ki -c 20 --warmup 1ms");
    assert!(run["results"][0]["path"].as_str().is_some_and(|path| path.contains("sndbuf=65536")), "{run}");
}
