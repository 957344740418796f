//! `--stack` and what the record says of it, with a library of the tests' own in the place of the kernel's sockets
//! (`support/stack/standin.c`): it carries all messages, a part of them, or none.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::support::alone::{self, Listed, Part};
use crate::support::{Done, HAIRPIN, Home, Running, can, home_of_nobody, links, root, rows, served, unwrapped, warnings};

pub const PART: Part = Part::new("stack", || alone::listed(TESTS)).side_by_side();

const TESTS: &[Listed] = &[
    ("two_sides_are_compared_with_and_without", two_sides_are_compared_with_and_without),
    ("messages_past_the_kernel_are_proved", messages_past_the_kernel_are_proved),
    ("messages_that_pass_the_kernel_are_counted", messages_that_pass_the_kernel_are_counted),
    ("beside_others_the_count_is_a_bound", beside_others_the_count_is_a_bound),
    ("a_library_that_came_otherwise_is_noticed", a_library_that_came_otherwise_is_noticed),
    ("every_call_on_a_socket_is_seen", every_call_on_a_socket_is_seen),
    ("a_server_has_its_own", a_server_has_its_own),
    ("a_wrong_library_is_refused", a_wrong_library_is_refused),
    ("paths_without_socket_calls_refuse_it", paths_without_socket_calls_refuse_it),
    ("a_program_with_capabilities_cannot_have_one", a_program_with_capabilities_cannot_have_one),
];

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/support/stack/standin.c");
const QUICK: &str = "-c 300 --warmup 5ms";
/// The calls that the library counts, in its order.
const CALLS: [&str; 13] = [
    "socket",
    "bind",
    "connect",
    "accept",
    "setsockopt",
    "getsockopt",
    "send",
    "recv",
    "poll",
    "epoll_ctl",
    "epoll_wait",
    "ioctl",
    "close",
];

/// A home with the library, whose messages meet in a directory of that home.
struct Stand {
    home: Home,
}

impl Stand {
    /// `None` where it cannot be compiled, which has been said.
    fn new(name: &str) -> Option<Stand> {
        Stand::in_home(name, Home::new())
    }

    fn in_home(name: &str, home: Home) -> Option<Stand> {
        let cc = Command::new("cc").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        if !can(name, cc.is_ok_and(|status| status.success()), "there is no C compiler (cc)") {
            return None;
        }
        let stand = Stand { home };
        fs::create_dir(stand.rings()).unwrap();
        compile(SOURCE.as_ref(), &stand.library());
        Some(stand)
    }

    fn library(&self) -> PathBuf {
        self.home.file("libhairpin_standin.so.1.0")
    }

    fn rings(&self) -> PathBuf {
        self.home.file("rings")
    }

    /// Starts hairpin; the library carries this many messages of each connection.
    fn start(&self, args: &str, carried: Option<u64>) -> Running {
        let mut command = self.home.command(HAIRPIN);
        command.args(args.replace("LIBRARY", &self.library().display().to_string()).split_whitespace());
        command.env("HAIRPIN_STANDIN_DIR", self.rings());
        command.envs(carried.map(|carried| ("HAIRPIN_STANDIN_FALLBACK_AFTER", carried.to_string())));
        self.home.spawn(command)
    }

    fn hairpin(&self, args: &str) -> Done {
        self.start(args, None).done()
    }

    /// With `--json`, which a comparison's sides follow.
    fn json(&self, args: &str, carried: Option<u64>) -> Value {
        let (flags, sides) = args.split_once(" -- ").unwrap_or((args, ""));
        let sides = if sides.is_empty() { String::new() } else { format!(" -- {sides}") };
        let done = self.start(&format!("{flags} --json{sides}"), carried).done();
        assert_eq!(done.code, Some(0), "{args}: {done:?}");
        done.json()
    }
}

fn compile(source: &Path, library: &Path) {
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-Werror", "-o"]).args([library, source]).args(["-ldl", "-lpthread"]);
    assert!(cc.status().unwrap().success(), "{cc:?}");
}

/// Received by a side, and what the kernel counted of it.
fn counts(row: &Value, side: &str) -> (u64, u64) {
    let stack = &row["stack"][side];
    let number = |value: &Value| value.as_u64().unwrap_or_else(|| panic!("{side}: {row}"));
    (number(&stack["received"]), number(&stack["kernel"]["count"]))
}

fn can_link(name: &str) -> bool {
    can(name, links(), "it takes network namespaces")
}

fn messages_past_the_kernel_are_proved(name: &str) -> bool {
    let Some(stand) = can_link(name).then(|| Stand::new(name)).flatten() else { return false };
    let paths = "-p udp -p udp:poll -p udp:epoll -p udp:spin -p tcp -p tcp:spin";
    let run = stand.json(&format!("ping veth {QUICK} {paths} --stack LIBRARY"), None);
    assert_eq!(rows(&run).len(), 6);
    for row in rows(&run) {
        assert!(!warnings(row).contains(&"not-accelerated"), "{row}");
        let counter = if row["path"].as_str().unwrap().starts_with("udp") { "udp-in-datagrams" } else { "tcp-in-segs" };
        for side in ["client", "server"] {
            let (received, count) = counts(row, side);
            // TCP's own segments, such as a delayed acknowledgement of the handshake, go through the kernel.
            let own = if counter == "tcp-in-segs" { 10 } else { 0 };
            assert!(received >= 300 && count <= own, "{side}: {row}");
            let stack = &row["stack"][side];
            assert_eq!((&stack["name"], &stack["version"]), (&"hairpin_standin".into(), &"1.0".into()));
            assert_eq!((&stack["kernel"]["counter"], &stack["kernel"]["shared"]), (&counter.into(), &false.into()));
            assert_eq!(stack["library"], fs::canonicalize(stand.library()).unwrap().display().to_string());
            assert_eq!(stack["variables"]["HAIRPIN_STANDIN_DIR"], stand.rings().display().to_string());
        }
    }
    let table = stand.hairpin(&format!("ping veth {QUICK} -p udp -p tcp --stack LIBRARY -v"));
    for part in [
        "In the place of the kernel's sockets",
        "client, hairpin_standin 1.0",
        " 0 of ",
        " 0 TCP segments passed the kernel for ",
    ] {
        assert!(unwrapped(&table.out).contains(part), "no \"{part}\": {table:?}");
    }
    let left: Vec<_> = fs::read_dir(stand.rings()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["calls"], "no ring is left behind");
    true
}

fn messages_that_pass_the_kernel_are_counted(name: &str) -> bool {
    let Some(stand) = can_link(name).then(|| Stand::new(name)).flatten() else { return false };
    for carried in [0, 100] {
        let run = stand.json(&format!("ping veth {QUICK} -p udp -p tcp:spin --stack LIBRARY"), Some(carried));
        for (row, side) in rows(&run).iter().flat_map(|row| [(row, "client"), (row, "server")]) {
            let (received, count) = counts(row, side);
            // The opening of a connection is carried too. A datagram may be lost or late, and TCP's count holds segments without
            // data.
            let past = received.saturating_sub(count);
            assert!(past <= carried + 5 && count >= 195, "{carried} carried, {side}: {row}");
            assert!(row["path"].as_str().unwrap().starts_with("tcp") || past + 20 >= carried, "{carried} carried, {side}: {row}");
            let notes = row["warnings"].as_array().unwrap().iter().filter(|note| note["code"] == "not-accelerated");
            let said: Vec<&str> = notes.map(|note| note["message"].as_str().unwrap()).collect();
            assert_eq!(said.len(), 2, "{row}");
            assert!(said.iter().any(|text| text.contains(&format!("hairpin_standin is loaded on the {side}"))), "{said:?}");
        }
    }
    let short = stand.start(&format!("ping veth {QUICK} -p udp --stack LIBRARY"), Some(0)).done();
    assert!(unwrapped(&short.out).contains(" stack: udp:block: client, hairpin_standin: "), "{short:?}");
    true
}

fn beside_others_the_count_is_a_bound(name: &str) -> bool {
    let Some(stand) = Stand::new(name) else { return false };
    let run = stand.json(&format!("ping loopback {QUICK} -p udp --threads 2 -n 2 --stack LIBRARY"), Some(0));
    let row = &rows(&run)[0];
    for side in ["client", "server"] {
        // Each side's count includes the datagrams of both sides.
        let (received, count) = counts(row, side);
        assert!(count > received && row["stack"][side]["kernel"]["shared"] == true, "{row}");
    }
    let notes = row["warnings"].to_string();
    assert!(notes.contains("at most ") && notes.contains("others in this network namespace count too"), "{notes}");
    true
}

fn a_library_that_came_otherwise_is_noticed(name: &str) -> bool {
    let Some(stand) = Stand::new(name) else { return false };
    let mut command = stand.home.command(HAIRPIN);
    command.args(format!("ping loopback {QUICK} -p udp -p unix --json").split_whitespace()).env("LD_PRELOAD", stand.library());
    let done = stand.home.spawn(command).done();
    assert_eq!(done.code, Some(0), "{done:?}");
    let run = done.json();
    let [udp, unix] = rows(&run) else { panic!("{run}") };
    assert_eq!(udp["stack"]["client"]["name"], "hairpin_standin");
    assert!(unix["stack"].is_null(), "nothing of a path that no stack carries: {unix}");
    fs::create_dir(stand.home.file("lib")).unwrap();
    std::os::unix::fs::symlink(stand.library(), stand.home.file("lib/libother.so")).unwrap();
    let mut command = stand.home.command(HAIRPIN);
    command.args(format!("ping loopback {QUICK} -p udp --json --stack libother.so").split_whitespace());
    let done = stand
        .home
        .spawn({
            command.env("LD_LIBRARY_PATH", stand.home.file("lib"));
            command
        })
        .done();
    assert_eq!(done.code, Some(0), "a name for the loader to find: {done:?}");
    let found = &done.json()["results"][0]["stack"]["client"];
    assert_eq!((&found["name"], &found["version"]), (&"hairpin_standin".into(), &"1.0".into()), "the real file tells: {found}");
    let plain = stand.home.json(&format!("ping loopback {QUICK} -p udp"));
    assert!(rows(&plain)[0]["stack"].is_null(), "nothing without a library: {plain}");
    true
}

/// Held against strace(1): a raw system call is one that the library has not seen.
fn every_call_on_a_socket_is_seen(name: &str) -> bool {
    let strace = Command::new("strace").args(["-f", "-qq", "-e", "trace=none", "true"]).stderr(Stdio::null()).status();
    if !can(name, strace.is_ok_and(|status| status.success()), "strace(1) is missing or may not trace here") {
        return false;
    }
    let Some(stand) = Stand::new(name) else { return false };
    let traced = "socket,bind,connect,accept4,setsockopt,sendto,epoll_ctl,execve";
    let mut command = stand.home.command("strace");
    command.args(["--seccomp-bpf", "-f", "-ff", "-qq", "-o", "trace", "-e", &format!("trace={traced}"), HAIRPIN]);
    command.args("ping loopback -c 20 --warmup 0s --no-store -p udp:epoll -p udp:poll -p tcp -p tcp-crr:spin --stack".split(' '));
    command.arg(stand.library()).env("HAIRPIN_STANDIN_DIR", stand.rings()).env("HAIRPIN_STANDIN_FALLBACK_AFTER", "0");
    let done = stand.home.spawn(command).done();
    assert_eq!(done.code, Some(0), "{done:?}");
    let logs = fs::read_dir(stand.home.path()).unwrap().map(|entry| entry.unwrap());
    let logs = logs.filter(|entry| entry.file_name().to_str().is_some_and(|name| name.starts_with("trace.")));
    let logs: Vec<String> = logs.map(|entry| fs::read_to_string(entry.path()).unwrap()).collect();
    // From the start of a worker on.
    let workers: Vec<&str> = logs.iter().filter_map(|log| Some(log.split_once("execve(\"/proc/self/exe\"")?.1)).collect();
    assert_eq!(workers.len(), 2);
    let made = |call: &str| {
        workers.iter().flat_map(|log| log.lines()).filter(|line| line.starts_with(&format!("{call}("))).count() as u64
    };
    let bytes = fs::read(stand.rings().join("calls")).unwrap();
    let seen: Vec<u64> = bytes.chunks_exact(8).map(|bytes| u64::from_ne_bytes(bytes.try_into().unwrap())).collect();
    let of = |call: &str| seen[CALLS.iter().position(|known| *known == call).unwrap()];
    for (call, system_call) in [
        ("socket", "socket"),
        ("bind", "bind"),
        ("connect", "connect"),
        ("accept", "accept4"),
        ("setsockopt", "setsockopt"),
        ("epoll_ctl", "epoll_ctl"),
    ] {
        assert_eq!((of(call), of(call) > 0), (made(system_call), true), "{call}: {seen:?}");
    }
    // The nonce of a proof goes out by sendto(3), which the library leaves alone.
    assert!(of("send") >= 160 && (of("send")..of("send") + 20).contains(&made("sendto")), "{} made: {seen:?}", made("sendto"));
    for call in ["getsockopt", "recv", "poll", "epoll_wait", "ioctl", "close"] {
        assert!(of(call) > 0, "{call}: {seen:?}");
    }
    true
}

fn a_server_has_its_own(name: &str) -> bool {
    let Some(stand) = Stand::new(name) else { return false };
    let mut serve = stand.start("serve --listen 127.0.0.1:0 --stack LIBRARY", None);
    serve.until("Ctrl-C ends it");
    let address = served(&serve.err());
    let run = stand.json(&format!("ping {address} {QUICK} -p udp"), None);
    let row = &rows(&run)[0];
    assert_eq!((&row["stack"]["client"], &row["stack"]["server"]["name"]), (&Value::Null, &"hairpin_standin".into()), "{row}");
    assert!(warnings(row).contains(&"not-accelerated"), "a client without it sends through the kernel: {row}");
    let run = stand.json(&format!("ping {address} {QUICK} -p udp -p tcp --stack LIBRARY"), None);
    for row in rows(&run) {
        assert_eq!([&row["stack"]["client"]["name"], &row["stack"]["server"]["name"]], ["hairpin_standin"; 2], "{row}");
    }
    // Each side has a session of its own, which takes a server of its own.
    let refused = stand.hairpin(&format!("compare {address} --for 1s -- udp:spin -- udp:spin --stack LIBRARY"));
    refused.fails(2, &["a server has one session at a time", "start a second one there"]);
    let mut second = stand.start("serve --listen 127.0.0.1:0", None);
    second.until("Ctrl-C ends it");
    let second_at = served(&second.err());
    let record = stand.json(&format!("compare --for 1s --path udp:spin -- {second_at} -- {address} --stack LIBRARY"), None);
    let libraries = [0_usize, 1].map(|arm| record["arms"][arm]["stack"]["client"]["name"].clone());
    assert_eq!(libraries, [Value::Null, "hairpin_standin".into()], "{record}");
    stand
        .hairpin("serve --listen 127.0.0.1:0 --stack /nonexistent.so")
        .fails(2, &["cannot read the stack's library /nonexistent.so"]);
    true
}

fn two_sides_are_compared_with_and_without(name: &str) -> bool {
    let Some(stand) = Stand::new(name) else { return false };
    // Other work on the machine takes pairs away, at worst all and with them the figure, and then it is tried again; a verdict
    // takes twelve.
    let tried = (0..3).map(|_| stand.json("compare --for 2s -- udp:spin -- udp:spin --stack LIBRARY", None));
    let mut tried = tried.filter_map(|record| {
        let figures = record["comparisons"][0]["figures"].as_array().unwrap();
        let pairs = figures.iter().find(|figure| figure["figure"] == "p50")?["pairs"].as_u64().unwrap();
        Some((record, pairs))
    });
    let (record, pairs) = tried.next().expect("a pair in one of three comparisons");
    let (comparison, told) = (&record["comparisons"][0], pairs >= 12);
    assert_eq!(comparison["verdict"], if told { "faster" } else { "unclear" }, "{comparison:#}");
    let [plain, with] = record["arms"].as_array().unwrap().as_slice() else { panic!("{record}") };
    assert!(plain["stack"].is_null(), "{plain}");
    let p50 = |arm: &Value| arm["figures"]["p50_ns"].as_f64().unwrap();
    assert!(p50(with) * 1.5 < p50(plain), "{} against {}", p50(with), p50(plain));
    let blocks: u64 = with["blocks"].as_array().unwrap().iter().filter_map(|block| block["transactions"].as_u64()).sum();
    assert!(counts(with, "client").0 >= blocks, "of all blocks: {}", with["stack"]);
    true
}

fn a_wrong_library_is_refused(name: &str) -> bool {
    let Some(stand) = Stand::new(name) else { return false };
    let file = |name: &str, content: &[u8]| {
        let path = stand.home.file(name);
        fs::write(&path, content).unwrap();
        path.display().to_string()
    };
    let mut other = fs::read(stand.library()).unwrap();
    // e_machine of s390x.
    other[18..20].copy_from_slice(&22_u16.to_ne_bytes());
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let libc = maps.lines().find_map(|line| line.split_whitespace().nth(5).filter(|path| path.contains("libc."))).unwrap();
    for (library, part) in [
        ("/nonexistent.so", "cannot read the stack's library /nonexistent.so: No such file"),
        (&file("text.so", b"no library\n"), "text.so is no shared library"),
        (&file("other.so", &other), "other.so is a library for another machine (s390x, "),
        ("libnot-here.so", "the loader did not load libnot-here.so: its reason stands above"),
        (libc, "is loaded and replaces no socket call"),
    ] {
        let done = stand.hairpin(&format!("ping loopback {QUICK} -p udp --stack {library}"));
        done.fails(2, &[part]);
        assert_eq!(done.err.lines().filter(|line| line.starts_with("hairpin: ")).count(), 1, "{done:?}");
    }
    let dies = stand.home.file("libdies.so");
    let source = stand.home.file("dies.c");
    fs::write(&source, "void _exit(int);\n__attribute__((constructor)) static void dies(void) { _exit(1); }\n").unwrap();
    compile(&source, &dies);
    let done = stand.hairpin(&format!("ping loopback {QUICK} -p udp --stack {}", dies.display()));
    done.fails(4, &["the worker process ended while ", "libdies.so was loaded"]);
    stand
        .hairpin("compare --for 1s -- udp:spin -- udp:spin --stack /nonexistent.so")
        .fails(2, &["/nonexistent.so: No such file"]);
    assert!(!stand.home.runs().exists(), "nothing was measured");
    true
}

fn paths_without_socket_calls_refuse_it(name: &str) -> bool {
    let Some(stand) = Stand::new(name) else { return false };
    for path in ["memory", "uring-udp", "unix", "pipe", "udp/uring-udp"] {
        let done = stand.hairpin(&format!("ping loopback {QUICK} -p {path} --stack LIBRARY"));
        done.fails(2, &["--stack has no effect on ", "use one of tcp, tcp-crr, udp"]);
    }
    true
}

fn a_program_with_capabilities_cannot_have_one(name: &str) -> bool {
    let possible = root() && Command::new("setcap").arg("-h").stderr(Stdio::null()).stdout(Stdio::null()).status().is_ok();
    if !can(name, possible, "it takes root and setcap(8)") {
        return false;
    }
    let Some(stand) = Stand::in_home(name, home_of_nobody()) else { return false };
    let set = Command::new("setcap").arg("cap_net_raw+ep").arg(stand.home.file("hairpin")).stderr(Stdio::null()).status();
    if !can(name, set.is_ok_and(|status| status.success()), "the file system keeps no file capabilities") {
        return false;
    }
    let done = stand.home.as_nobody(&format!("ping loopback {QUICK} -p udp --no-store --stack {}", stand.library().display()));
    done.fails(4, &["the loader did not load ", "has file capabilities or a set-user-id bit"]);
    true
}
