//! Bad input: the error message, and the exit code.

use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::process::Stdio;
use std::thread;

use crate::support::{HAIRPIN, Home, can, free_port};

const QUICK: &str = "--count 20 --warmup 1ms";

#[test]
fn an_unknown_word_of_a_path_is_named_with_the_nearest_and_all_that_exist() {
    let home = Home::new();
    for (spec, parts) in [
        (
            "tpc",
            &[
                "no path \"tpc\"",
                "did you mean tcp?",
                "tcp, tcp-crr, udp, uring-tcp, uring-udp, packet, xdp, unix, unix-dgram, pipe, eventfd, memory, niq",
            ][..],
        ),
        (
            "tcp:spni",
            &["\"spni\" is not a wait policy of tcp", "did you mean spin?", "block, poll, epoll, spin, busy-poll, adaptive"],
        ),
        ("udp:spin/blok", &["\"blok\" is not a wait policy of udp", "did you mean block?"]),
        (
            "tcp:nodleay=on",
            &["tcp has no option \"nodleay\"", "did you mean nodelay?", "nodelay, quickack, writes, cork, congestion"],
        ),
        ("udp:nodelay=on", &["udp has no option \"nodelay\"", "sndbuf, rcvbuf"]),
        ("tcp:nodelay=maybe", &["nodelay"]),
        ("tcp/udp", &["tcp and udp do not speak the same"]),
        ("udp:block,spin", &["names two wait policies"]),
    ] {
        home.hairpin(&format!("ping --link loopback --path {spec}")).fails(2, parts);
    }
    assert!(!home.runs().exists(), "a run of nothing was stored");
}

#[test]
fn rejects_unknown_flags_verbs_and_links_with_suggestions() {
    let home = Home::new();
    home.hairpin("ping --link loopback --pat tcp").fails(2, &["unexpected argument '--pat'", "'--path'"]);
    home.hairpin("pign").fails(2, &["pign", "ping"]);
    home.hairpin("ping --link wifi").fails(2, &["there is no link \"wifi\"", "loopback, veth"]);
    home.hairpin("ping --link veth:mut=1").fails(2, &["veth has no option \"mut\"", "mtu, queues, tx-queues, gro, tso, rate"]);
    home.hairpin("ping --link veth:mtu=1000 -6 --path udp").fails(2, &["IPv6 takes an MTU of 1280 or more, not 1000"]);
    home.hairpin("ping --link loopback:mtu=9000").fails(2, &["loopback takes no options", "veth does: veth:mtu=9000"]);
}

#[test]
fn exactly_one_place_to_go_to() {
    let home = Home::new();
    home.hairpin("ping").fails(2, &["HOST[:PORT]", "loopback", "echo:HOST:PORT"]);
    home.hairpin("ping --link loopback localhost").fails(2, &["cannot be used with"]);
    home.hairpin("ping --echo localhost").fails(2, &["an echo service takes HOST:PORT"]);
    home.hairpin("ping http://x").fails(2, &["is not a HOST[:PORT]"]);
    home.hairpin("ping --link loopback --key-file x").fails(2, &["--key-file belongs to a HOST"]);
}

#[test]
fn rejects_jobs_beyond_a_path_and_names_its_limit() {
    let home = Home::new();
    for (args, parts) in [
        ("--path udp --size 65508", &["udp carries payloads of 1 to 65507 bytes, not a request of 65508"][..]),
        ("--path tcp --size 65537", &["1 to 65536 bytes", "65537"]),
        ("--path tcp --size 0", &["1 to 65536 bytes"]),
        ("--path tcp --request 64 --reply 70000", &["not a reply of 70000"]),
        ("--path tcp --sizes 64,99999999999", &["64 KiB"]),
        ("--path tcp --sizes 1..", &["--sizes"]),
        ("--path eventfd", &["exactly 8 bytes", "--size 8"]),
        ("--path udp:poll --size 1 --outstanding 200", &["outstanding", "use larger payloads"]),
        ("--path tcp:block --flows 2", &["waits on one flow per thread", ":poll, :epoll, :spin or :adaptive"]),
        ("--path tcp:poll --flows 2 --threads 3", &["3 threads need a flow each"]),
        ("--path udp --pace 100 --outstanding 2", &["--outstanding 2 does not go with it"]),
        ("--path pipe --local-port 7", &["pipe has no ports"]),
        ("--path tcp --sched fifo:0", &["1 to 99"]),
        ("--path tcp --sched batch", &["write other or fifo:N"]),
        ("--path tcp --cpu 0", &["CLIENT,SERVER"]),
        ("--path tcp --pace 0", &["is not a rate"]),
        ("--path tcp --duration 5parsecs", &["--duration"]),
        ("--path tcp --forever --count 5", &["cannot be used with"]),
    ] {
        home.hairpin(&format!("ping --link loopback {args}")).fails(2, parts);
    }
    home.hairpin("ping --link veth --path pipe").fails(2, &["both ends must be on one host", "use loopback"]);
    home.hairpin("ping --echo 127.0.0.1:7 --path unix").fails(2, &["unix"]);
    home.hairpin("ping --echo 127.0.0.1:7 --path udp --request 1 --reply 2").fails(2, &["returns requests unchanged"]);
}

#[test]
fn a_cpu_that_is_not_there() {
    let home = Home::new();
    home.hairpin("ping --link loopback --cpu 0,4095")
        .fails(2, &["CPU 4095 does not exist or is not allowed", "--cpu CLIENT,SERVER"]);
    home.hairpin("check --host --cpu 4095").fails(2, &["CPU 4095 does not exist", "choose from", "--cpu LIST"]);
    home.hairpin("check --host --cpu one").fails(2, &["not a list of CPUs"]);
    home.hairpin("check --host --duration 0").fails(2, &["too short to see stalls", "100.0 ms or more"]);
    home.hairpin("check --cpu 0").fails(2, &["--host"]);
}

#[test]
fn a_host_that_does_not_resolve_or_refuses() {
    let home = Home::new();
    home.hairpin("ping nothing.invalid").fails(1, &["nothing.invalid does not resolve", "check the name"]);
    home.hairpin("ping --echo nothing.invalid:7").fails(1, &["nothing.invalid:7 does not resolve", "check the name"]);
    let port = free_port();
    home.hairpin(&format!("ping 127.0.0.1:{port}")).fails(1, &["refused the connection", "start `hairpin serve` there"]);
    home.hairpin(&format!("ping --echo 127.0.0.1:{port} --path tcp {QUICK}")).fails(1, &["refused"]);
    assert!(!home.runs().exists(), "a run of nothing was stored");
}

#[test]
fn something_else_on_that_port_is_quoted() {
    let home = Home::new();
    for (banner, quoted) in [("SSH-2.0-OpenSSH_9.9\r\n", "SSH-2.0-OpenSSH_9.9"), ("HTTP/1.1 400 Bad Request\r\n\r\n", "HTTP/1.1")]
    {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let peer = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.write_all(banner.as_bytes()).unwrap();
            // Until the client has gone.
            let _ = std::io::copy(&mut stream, &mut std::io::sink());
        });
        home.hairpin(&format!("ping 127.0.0.1:{port}")).fails(1, &["does not speak Hairpin", quoted, "give the port"]);
        peer.join().unwrap();
    }
}

#[test]
fn a_listener_that_says_nothing_is_given_up() {
    let home = Home::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let done = home.hairpin(&format!("ping 127.0.0.1:{port}"));
    done.fails(1, &["said nothing for 5s"]);
}

#[test]
fn keys_that_are_wrong_missing_or_unwanted() {
    let home = Home::new();
    home.hairpin("ping 127.0.0.1:1 --key-file nowhere").fails(2, &["cannot read the key file nowhere"]);
    fs::write(home.file("bad"), "short\n").unwrap();
    home.hairpin("ping 127.0.0.1:1 --key-file bad").fails(2, &["not a key", "43 characters"]);
    for (file, digit) in [("one", "1"), ("two", "2")] {
        fs::write(home.file(file), digit.repeat(64)).unwrap();
    }
    let (mut serve, address) = home.serve("--key-file one");
    assert!(serve.err().contains("can be read by others"), "{}", serve.err());
    home.hairpin(&format!("ping {address} --key-file two")).fails(1, &["wrong key"]);
    home.hairpin(&format!("ping {address}")).fails(1, &["needs a key", "--key-file FILE"]);
    home.hairpin(&format!("ping {address} --key-file one --path udp {QUICK}")).fails(0, &["stored as"]);
    serve.until("came without a key");
    serve.until("wrong key");
    drop(serve);

    let (mut open, address) = home.serve("");
    home.hairpin(&format!("ping {address} --key-file one")).fails(1, &["has no key", "leave --key-file out"]);
    open.until("came with a key");
}

#[test]
fn serve_names_an_unusable_address() {
    let home = Home::new();
    home.hairpin("serve --listen nowhere").fails(2, &["--listen takes an address of this host"]);
    home.hairpin("serve --data-ports 9-3").fails(2, &["is not a range of ports"]);
    // TEST-NET-1 (RFC 5737): no address of any host.
    home.hairpin("serve --listen 192.0.2.1").fails(1, &["cannot listen on 192.0.2.1:24444"]);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    home.hairpin(&format!("serve --listen {address}")).fails(1, &["cannot listen on", "is another hairpin serve running?"]);
}

#[test]
fn a_run_that_cannot_be_stored_is_still_printed() {
    let home = Home::new();
    // A file where the store's directory should be: not even root can make it.
    fs::write(home.runs(), "in the way").unwrap();
    let done = home.hairpin(&format!("ping --link loopback --path udp --json {QUICK}"));
    done.fails(1, &["the run was not stored", "cannot store the run in", "$HAIRPIN_RUNS", "--no-store"]);
    assert_eq!(done.json()["results"][0]["transactions"], 20);
    home.hairpin(&format!("ping --link loopback --path udp --no-store {QUICK}")).fails(0, &[]);
    let sweep = "sweep --path memory --path memory:spin --for 300ms";
    home.hairpin(sweep).fails(1, &["cannot keep the rounds of the sweep in", "$HAIRPIN_RUNS", "--no-store"]);
    home.hairpin(&format!("{sweep} --no-store")).fails(0, &[]);
}

#[test]
fn a_closed_pipe_changes_neither_the_store_nor_the_exit_code() {
    let unread = |home: &Home| {
        let mut command = home.command(HAIRPIN);
        command.args(["ping", "--link", "loopback", "--path", "udp"]).args(QUICK.split(' '));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        drop(child.stdout.take());
        child.wait().unwrap().code()
    };
    let home = Home::new();
    assert_eq!(unread(&home), Some(0));
    assert_eq!(fs::read_dir(home.runs()).unwrap().count(), 1);
    let full = Home::new();
    fs::write(full.runs(), "in the way").unwrap();
    assert_eq!(unread(&full), Some(1), "it was not stored");
}

#[test]
fn runs_are_removed_by_the_names_that_they_had_before() {
    let home = Home::new();
    let ids = [10, 20, 30, 40, 50].map(|second| format!("20261120-1150{second}-0000"));
    for id in &ids {
        let dir = home.runs().join(id);
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("run.json"), "{}").unwrap();
    }
    let left = || {
        let mut left: Vec<_> =
            fs::read_dir(home.runs()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        left.sort();
        left
    };
    home.hairpin("runs rm latest nothing-like-it").fails(1, &["nothing-like-it"]);
    assert_eq!(left(), ids);
    home.hairpin("runs rm latest latest~1").fails(0, &["removed 20261120-115050-0000", "removed 20261120-115040-0000"]);
    assert_eq!(left(), ids[..3]);
    home.hairpin("runs rm -1 -2 latest").fails(0, &["removed"]);
    assert_eq!(left(), ids[..1]);
}

#[test]
fn files_are_read_without_a_place_for_runs() {
    let home = Home::new();
    fs::write(home.file("run.json"), include_str!("../crates/record/tests/data/run-1.json")).unwrap();
    let homeless = |words: &str| {
        let mut command = home.command(HAIRPIN);
        command.env_remove("HAIRPIN_RUNS").env_remove("HOME").args(words.split(' '));
        home.spawn(command).done()
    };
    for words in [
        "runs show ./run.json",
        "runs export run.json",
        "report ./run.json --format csv",
        "compare run.json ./run.json --no-store",
        "compare ./run.json,run.json run.json --no-store",
    ] {
        homeless(words).fails(0, &[]);
    }
    homeless("runs show ./none.json").fails(1, &["neither a run's JSON file"]);
    homeless("compare latest run.json").fails(1, &["there is no place for runs"]);
}

#[test]
fn a_full_disk_leaves_no_half_run_and_prints_the_result() {
    let name = "a_full_disk_leaves_no_half_run_and_prints_the_result";
    if !can(name, crate::support::namespaces(), "a file system of its own needs root") {
        return;
    }
    let home = Home::new();
    fs::create_dir(home.runs()).unwrap();
    let mut command = home.command("unshare");
    let script = format!(
        "mount -t tmpfs -o size=4k,nr_inodes=20 none runs && {HAIRPIN} ping --link loopback --path udp --json {QUICK}; code=$?; find runs -type f | wc -l >&2; exit $code"
    );
    command.args(["--mount", "sh", "-c", &script]);
    let done = home.spawn(command).done();
    done.fails(1, &["the run was not stored"]);
    assert_eq!(done.json()["results"][0]["transactions"], 20);
    assert_eq!(done.err.lines().last(), Some("0"), "{}", done.err);
}

#[test]
fn a_corrupt_run_is_named_and_the_others_are_listed() {
    let home = Home::new();
    home.hairpin(&format!("ping --link loopback --path udp {QUICK}")).fails(0, &["stored as"]);
    home.hairpin(&format!("ping --link loopback --path tcp {QUICK}")).fails(0, &["stored as"]);
    let mut runs: Vec<_> = fs::read_dir(home.runs()).unwrap().map(|entry| entry.unwrap().path()).collect();
    runs.sort();
    assert_eq!(runs.len(), 2, "{runs:?}");
    let json = fs::read_dir(&runs[0]).unwrap().map(|entry| entry.unwrap().path()).find(|path| path.extension().is_some());
    fs::write(json.unwrap(), "{\"schema\":").unwrap();
    let id = |path: &std::path::Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    let (corrupt, sound) = (id(&runs[0]), id(&runs[1]));

    let list = home.hairpin("runs list");
    assert_eq!(list.code, Some(0), "{list:?}");
    // The lines break where the length of the store's path has it.
    let said = list.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains(&corrupt) && said.contains("is not the record of a run") && said.contains(&sound), "{list:?}");
    let list = home.hairpin("runs list --json").json();
    assert_eq!(list["runs"].as_array().unwrap().len(), 2, "{list}");
    assert!(list["runs"][0]["error"].as_str().unwrap().contains("is not the record of a run"), "{list}");
    assert_eq!(list["runs"][1]["first_path"], "tcp:block/tcp:block");

    home.hairpin(&format!("runs show {corrupt}")).fails(1, &["is not the record of a run", "runs rm"]);
    assert!(home.hairpin("runs show latest").out.contains("tcp"));
    assert_eq!(home.hairpin("runs export latest").out.lines().count(), 2);
    let table = home.hairpin("runs export latest").out;
    assert!(table.lines().nth(1).is_some_and(|line| line.contains(&format!(",{sound},"))), "{table}");
    home.hairpin(&format!("runs rm {corrupt}")).fails(0, &["removed"]);
    assert!(!home.hairpin("runs list").out.contains(&corrupt));
    home.hairpin("runs show nothing-like-it").fails(1, &["nothing-like-it"]);
}

#[test]
fn a_raw_file_that_cannot_be_written() {
    let home = Home::new();
    let done = home.hairpin(&format!("ping --link loopback --path udp --raw nowhere/x.parquet {QUICK}"));
    done.fails(1, &["nowhere/x.parquet"]);
}

#[test]
fn bounce_lists_valid_flag_values() {
    let home = Home::new();
    home.hairpin("bounce").fails(2, &["the word IF is missing"]);
    for (args, parts) in [
        ("-i nowhere0", &["there is no interface \"nowhere0\"", "there are: ", "lo"][..]),
        ("-i lo -o nowhere0", &["there is no interface \"nowhere0\""]),
        ("-i lo --filter tcp:80", &["is not a filter", "udp:PORT, udp:FIRST-LAST, ethertype:0xNNNN, all"]),
        ("-i lo --rewrite mac", &["is not a rewrite", "none, macs, all"]),
        ("-i lo --flush 0", &["is not a flush rule", "each, adaptive, or a number of frames"]),
        ("-i lo --repeats 0", &["is not a limit", "off"]),
        ("-i lo --io dpdk", &["no packet ring \"dpdk\"", "xdp, packet"]),
        ("-i lo --io packet:epoll", &["not a wait policy of packet", "spin, busy-poll, block, adaptive"]),
        ("-i lo --io packet:mode=native", &["packet has no option \"mode\"", "l3, favour, dscp, usecs"]),
        ("-i lo --cpu 4095", &["CPU 4095 does not exist or is not allowed", "--cpu N"]),
        ("-i lo --duration 5parsecs", &["--duration"]),
        ("-i lo --json --json-stream", &["cannot be used with"]),
    ] {
        home.hairpin(&format!("bounce {args}")).fails(2, parts);
    }
}

#[test]
fn stream_lists_valid_flag_values() {
    let home = Home::new();
    for (args, parts) in [
        ("", &["say where to: veth, or an interface"][..]),
        ("--link loopback", &["no frames on a wire", "use veth"]),
        ("--link veth -i lo", &["cannot be used with"]),
        ("--link veth --dst-mac 02:00:00:00:00:01", &["cannot be used with"]),
        ("-i lo", &["--direction inject, receive or bounce"]),
        ("-i lo --direction inject,bounce", &["--direction inject, receive or bounce"]),
        ("-i lo --direction inject", &["--dst-mac MAC"]),
        ("-i lo --direction inject --dst-mac ff:ff:ff:ff:ff:ff", &["is a group address"]),
        ("-i lo --direction inject --dst-mac 2:0", &["is not an Ethernet address"]),
        ("--link veth --direction sideways", &["sideways", "inject, receive, bounce"]),
        ("--link veth --io dpdk/xdp", &["no packet ring \"dpdk\""]),
        ("--link veth --path xdp/dpdk", &["\"dpdk\" is not a wait policy of xdp"]),
        ("--link veth --pace 0", &["is not a rate"]),
        ("--link veth --queues 0", &["--queues"]),
        ("--link veth --sizes 1..", &["--sizes"]),
        ("--link veth --cpu 0", &["CLIENT,SERVER"]),
        ("--link veth --cpu 0,4095", &["CPU 4095 does not exist or is not allowed"]),
        ("--link veth --queues 64 --io packet:block", &["sleeps until a frame is there", "64 CPUs", "use :spin"]),
        ("--link veth --json --csv", &["cannot be used with"]),
    ] {
        home.hairpin(&format!("stream {args}")).fails(2, parts);
    }
    home.hairpin("stream -i nowhere0 --direction receive").fails(2, &["there is no interface \"nowhere0\"", "lo"]);
}
