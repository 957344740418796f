//! The rights of docs/install.md: its table is tried row by row, as the user nobody with these capabilities and no other.

use std::process::Command;

use crate::support::net::{Net, apart, veth};
use crate::support::{Done, Home, can, home_of_nobody, namespaces, namespaces_of_nobody};

/// A row of the table: how its first column begins, its capabilities, and a command that succeeds with them.
const ROWS: [(&str, &str, &str); 6] = [
    (
        "paths of sockets and of memory",
        "none",
        "ping --link loopback --path udp --path tcp --path unix --path niq:spin --count 100 --warmup 5ms",
    ),
    ("`--link veth`", "none, where users may make namespaces", "ping --link veth --path udp --count 100 --warmup 5ms"),
    ("path `packet`", "CAP_NET_RAW", "bounce -i b0 --io packet --duration 100ms"),
    ("path `xdp`", "CAP_BPF, CAP_NET_ADMIN, CAP_NET_RAW, CAP_IPC_LOCK", "bounce -i b0 --io xdp --duration 100ms"),
    (
        "stages of `explain`",
        "CAP_BPF, CAP_PERFMON",
        "explain --link loopback --path udp:block --duration 600ms --warmup 1ms --json",
    ),
    (
        "`--sched fifo:N`",
        "CAP_SYS_NICE, CAP_IPC_LOCK",
        "ping --link loopback --path udp:block --sched fifo:1 --count 100 --warmup 5ms",
    ),
];

#[test]
fn the_capabilities_of_the_table_suffice_and_each_is_needed() {
    let name = "the_capabilities_of_the_table_suffice_and_each_is_needed";
    if !can(name, namespaces() && namespaces_of_nobody(), "other users and interfaces need root") {
        return;
    }
    let page: &'static str = include_str!("../docs/install.md");
    let (_, table) = page.split_once("| feature | capabilities |\n|---|---|\n").expect("the table");
    let table: Vec<_> = table.lines().map_while(|line| line.strip_prefix("| ")?.strip_suffix(" |")?.rsplit_once(" | ")).collect();
    // The last row needs root.
    assert_eq!(table.len(), ROWS.len() + 1, "{table:?}");
    apart(move || {
        let (home, net) = (home_of_nobody(), Net::new());
        net.enter();
        crate::support::net::ip("link set lo up");
        veth("a0", "b0");
        for ((what, printed), (begins, capabilities, args)) in table.into_iter().zip(ROWS) {
            assert!(what.starts_with(begins), "{what}");
            assert_eq!(printed, capabilities, "{what}");
            let done = with(&home, capabilities, args);
            assert_eq!(done.code, Some(0), "{what}: {done:?}");
            assert!(all_of_it(args, &done), "{what}: {done:?}");
            let each: Vec<&str> = capabilities.split(", ").filter(|one| one.starts_with("CAP_")).collect();
            for dropped in &each {
                let others: Vec<&str> = each.iter().filter(|one| *one != dropped).copied().collect();
                let done = with(&home, &others.join(", "), args);
                assert!(!all_of_it(args, &done), "{what}, without {dropped}: {done:?}");
                assert!(format!("{}{}", done.out, done.err).contains(dropped), "{what} is to name {dropped}: {done:?}");
            }
        }
    });
}

/// True if the command did what was asked for, and not a part of it.
fn all_of_it(args: &str, done: &Done) -> bool {
    if args.starts_with("explain") {
        let missing = &done.json()["missing"];
        return missing.as_array().is_none_or(|missing| missing.iter().all(|one| one["hook"] != "BPF"));
    }
    done.code == Some(0) && !(args.contains("--sched") && done.out.contains("not granted"))
}

/// Runs hairpin as the user nobody with these capabilities, and with the usual limit of locked memory.
fn with(home: &Home, capabilities: &str, args: &str) -> Done {
    let given =
        capabilities.split(", ").filter_map(|one| one.strip_prefix("CAP_")).map(|one| format!(",+{}", one.to_lowercase()));
    let given = given.fold("-all".to_owned(), |list, one| list + &one);
    let mut command = Command::new("prlimit");
    command.args(["--memlock=8388608:8388608", "setpriv"]);
    command.args([
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
        &format!("--inh-caps={given}"),
        &format!("--ambient-caps={given}"),
        &format!("--bounding-set={given}"),
    ]);
    command.arg(home.file("hairpin")).args(args.split_whitespace());
    command.env("HAIRPIN_RUNS", home.runs()).env("NO_COLOR", "1").current_dir(home.path());
    home.spawn(command).done()
}
