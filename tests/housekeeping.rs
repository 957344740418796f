//! Completions, man pages, help and the list of paths: made from the same definitions, so each flag of the contract stands in
//! all. And the scripts that depend on the host, with programs in the place of the host's.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use crate::support::net::{Net, apart, ip, veth};
use crate::support::{Home, can, io_uring, namespaces};

#[test]
fn every_verb_has_its_page() {
    let help = Home::new().hairpin("--help").out;
    let verbs = help.lines().skip_while(|line| *line != "Measure:").take_while(|line| *line != "Options:");
    // A theme begins in the first column, and a description that is continued stands further to the right.
    let verbs = verbs.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let verbs: Vec<&str> = verbs.filter_map(|line| line.split_whitespace().next()).collect();
    assert!(verbs.len() == 19 && verbs.contains(&"ping") && verbs.contains(&"completions"), "{help}");
    for verb in verbs {
        let page = format!("{}/../../docs/verbs/{verb}.md", env!("CARGO_MANIFEST_DIR"));
        let text = fs::read_to_string(&page).unwrap_or_else(|error| panic!("{page}: {error}"));
        assert!(text.starts_with(&format!("# `hairpin {verb}`")), "{page}");
    }
}

const FLAGS: &[(&str, &[&str])] = &[
    (
        "ping",
        &[
            "HOST",
            "loopback",
            "veth",
            "echo:HOST:PORT",
            "frames:IF",
            "--key-file",
            "--path",
            "--size",
            "--request",
            "--reply",
            "--sizes",
            "--duration",
            "--count",
            "--warmup",
            "--flows",
            "--threads",
            "--outstanding",
            "--rate",
            "--forever",
            "--timeout",
            "--cpu",
            "--sched",
            "--local-port",
            "--verify",
            "--hrt",
            "--percentiles",
            "--no-store",
            "--raw",
            "--json",
            "- jsonl:",
            "- csv:",
            "- md:",
            "--format",
            "--floor",
            "--wire",
            "-6",
            "--watch",
            "--metrics",
            "--stack",
            "--one-way",
        ],
    ),
    ("compare", &["--stack", "--knob", "--for"]),
    ("watch", &["RUN|FILE|-", "latest"]),
    (
        "mesh",
        &[
            "merge",
            "--pairs",
            "--visits",
            "--rank",
            "--ranks",
            "--dir",
            "--hosts",
            "--key-file",
            "--same-host",
            "--engine",
            "--nodes",
            "--partition",
            "--queue",
            "--topology",
            "--pick",
            "--drain",
            "--parquet",
            "--fail-if",
            "--json",
        ],
    ),
    ("mesh merge", &["DIR", "--fail-if", "--no-store"]),
    ("serve", &["--listen", "--key-file", "--data-ports", "--stack", "127.0.0.1:24444"]),
    ("paths", &["veth", "--interface", "--json"]),
    ("runs", &["list", "show", "export", "rm"]),
    ("runs show", &["RUN", "--json", "- csv:", "- md:", "--format", "--percentiles", "--hrt"]),
    ("demo", &[]),
    ("report", &["RUN", "--output", "--format", "html"]),
    ("check", &["--host", "--cpu", "--duration", "--json"]),
    (
        "floor",
        &[
            "--wire",
            "--link-rate",
            "--cable",
            "--nic",
            "--hop",
            "--fec",
            "--pcie",
            "--vlan",
            "--frame",
            "--sizes",
            "--compare",
            "--explain",
            "--fit",
            "--json",
            "--format",
        ],
    ),
    ("tune", &["list", "check", "apply", "revert", "status"]),
    ("tune apply", &["KNOB=VALUE", "--profile", "--interface", "--cpus", "--dry-run", "--yes", "--while", "COMMAND", "--json"]),
    ("completions", &["bash", "zsh", "fish"]),
];

/// Older spellings, which are taken and not shown.
const HIDDEN: &[(&str, &[&str])] = &[
    ("ping", &["--link ", "--echo", "--reflector", "-i, ", "--csv", "--markdown", "--json-stream", "--link-rate ", "--cable"]),
    ("explain", &["--port", "--pid", "--link ", "--flows"]),
    ("compare", &["--link ", "--duration", "--warmup"]),
    ("stream", &["--io", "--link ", "-i, "]),
    ("bounce", &["--io", "-i, ", "--json-stream"]),
    ("sweep", &["--link ", "--host", "--duration"]),
];

#[test]
fn help_mentions_each_flag_of_the_contract() {
    let home = Home::new();
    for (verb, flags) in HIDDEN {
        let help = home.hairpin(&format!("{verb} --help")).out;
        let flags = flags.iter().filter(|flag| help.lines().any(|line| line.trim_start().starts_with(**flag)));
        assert_eq!(flags.collect::<Vec<_>>(), [&""; 0], "hairpin {verb} --help:\n{help}");
    }
    for (verb, flags) in FLAGS {
        let done = home.hairpin(&format!("{verb} --help"));
        assert_eq!(done.code, Some(0), "{done:?}");
        for flag in *flags {
            assert!(done.out.contains(flag), "hairpin {verb} --help does not mention {flag}:\n{}", done.out);
        }
    }
    let all = home.hairpin("--help");
    for (verb, _) in FLAGS {
        assert!(all.out.contains(verb.split(' ').next().unwrap()), "{verb}:\n{}", all.out);
    }
    let words = all.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("4 a required capability or device is missing"), "{words}");
    assert!(!all.out.contains("__worker"), "{}", all.out);
}

#[test]
fn the_version_in_a_word_and_in_full() {
    let home = Home::new();
    let short = home.hairpin("--version");
    assert_eq!((short.code, short.out.lines().count()), (Some(0), 1), "{short:?}");
    for line in ["--version --verbose", "--verbose --version", "-V -v", "-Vv"] {
        let full = home.hairpin(line);
        let names: Vec<&str> = full.out.lines().filter_map(|line| line.split_whitespace().next()).collect();
        assert_eq!(
            (full.code, names),
            (Some(0), vec!["hairpin", "commit", "code", "build", "libraries", "features", "BPF"]),
            "{line}: {full:?}"
        );
        assert!(full.out.starts_with(&short.out), "{full:?}");
        assert!(full.out.contains(" for ") && full.out.contains(", rustc ") && full.out.contains("libbpf "), "{full:?}");
    }
}

/// Every verb that prints a record; a short command of it, where one is over at once on any host; and the first name of its CSV.
/// `latest` is the run of `ping`.
const RECORDS: &[(&str, &str, &str)] = &[
    ("ping", "--link loopback --path udp --count 50 --warmup 0s", "started"),
    ("load", "--link loopback --path udp --rate 1000 --duration 100ms --warmup 0s --no-store", "started"),
    ("compare", "latest latest --no-store", "arm"),
    ("sweep", "", ""),
    ("stream", "", ""),
    ("bounce", "", ""),
    ("explain", "", ""),
    ("demo", "", ""),
    ("mesh", "", ""),
    ("check", "", ""),
    ("check --host", "--duration 100ms --no-store", "row"),
    ("paths", "--link veth", "path"),
    ("runs list", "", "id"),
    ("runs show", "latest", "started"),
    ("runs export", "latest", "started"),
    ("floor", "--nic niq --explain", "nic"),
    ("floor", "--nic niq --sizes 64,128", "nic"),
    ("floor", "--nic niq --compare dma", "stage"),
    ("floor", "--fit latest", "path"),
    ("floor pcie", "--published", "the_cpu_meanwhile"),
    ("tune list", "", "setting"),
    ("tune list", "cpu_dma_latency_us", "setting"),
    ("tune check", "", "setting"),
    ("tune status", "", "id"),
    ("tune apply", "--profile power --dry-run", "setting"),
    ("tune revert", "", "setting"),
    ("tune try", "", ""),
];

#[test]
fn every_verb_prints_every_format() {
    let home = Home::new();
    for (verb, flags, first) in RECORDS {
        let help = home.hairpin(&format!("{verb} --help")).out;
        for format in ["- table:", "- md:", "- csv:", "- json:"] {
            assert!(help.contains(format), "hairpin {verb} --help has no {format}:\n{help}");
        }
        if first.is_empty() {
            continue;
        }
        for format in ["table", "md", "csv", "json"] {
            let done = home.hairpin(&format!("{verb} {flags} --format {format}"));
            assert_eq!(done.code, Some(0), "{verb} {flags} --format {format}: {done:?}");
            assert!(!done.out.is_empty() && done.out.ends_with('\n'), "{done:?}");
            match format {
                "json" => {
                    assert!(done.json()["schema"].as_str().is_some_and(|schema| schema.starts_with("hairpin.")), "{done:?}");
                    assert_eq!(done.out.lines().count(), 1, "{verb} {flags}: compact where no terminal reads it");
                }
                "csv" => assert_eq!(done.out.split([',', '\n']).next(), Some(*first), "{done:?}"),
                _ => assert!(!done.out.contains('\u{1b}'), "{done:?}"),
            }
        }
    }
}

#[test]
fn completions_are_made_for_each_shell() {
    let home = Home::new();
    for (shell, part) in
        [("bash", "complete -o bashdefault -F _hairpin hairpin"), ("zsh", "#compdef hairpin"), ("fish", "--command hairpin")]
    {
        let done = home.hairpin(&format!("completions {shell}"));
        assert_eq!((done.code, done.err.as_str()), (Some(0), ""), "{done:?}");
        assert!(done.out.contains(part) && done.out.contains("HAIRPIN_COMPLETE"), "{shell}: {done:?}");
    }
    home.hairpin("completions tcsh").fails(2, &["tcsh", "bash", "fish"]);
}

/// The words that bash's own function offers for the last one of a line, as bash calls it: it parts words at colons and equal
/// signs.
#[test]
fn bash_completes_existing_words() {
    let home = Home::new();
    home.hairpin("ping loopback -p udp -c 20 --warmup 1ms -q").fails(0, &[]);
    let id = home.json("runs list")["runs"][0]["id"].as_str().expect("an id").to_owned();
    let lines: &[(&str, &[&str], &[&str])] = &[
        ("hairpin ", &["ping", "tune", "sweep"], &["man", "--version", "help"]),
        ("hairpin pi", &["ping"], &["explain"]),
        ("hairpin ping ", &["loopback", "veth", "frames:lo"], &["--path"]),
        ("hairpin ping --outs", &["--outstanding"], &[]),
        ("hairpin ping loopback -p ", &["udp", "tcp-crr", "niq"], &["udp:spin"]),
        ("hairpin ping loopback -p udp:sp", &["spin"], &["block"]),
        ("hairpin ping loopback --path=tcp:spin,quick", &["spin,quickack=on"], &[]),
        ("hairpin explain --link ve", &["veth"], &["loopback"]),
        ("hairpin explain ", &["loopback", "veth"], &["frames:lo", "echo:"]),
        ("hairpin stream ", &["veth", "lo"], &["loopback"]),
        ("hairpin paths ve", &["veth"], &[]),
        ("hairpin bounce l", &["lo"], &[]),
        ("hairpin sweep ve", &["veth"], &[]),
        ("hairpin compare udp:spin tcp:bl", &["block"], &["spin"]),
        ("hairpin tune try loopback --knob cpu_dma", &["cpu_dma_latency_us="], &["watchdog="]),
        ("hairpin tune apply cpu_", &["cpu_dma_latency_us="], &["cpu_model="]),
        ("hairpin tune list watch", &["watchdog"], &["watchdog="]),
        ("hairpin runs show ", &["latest", &id], &["latest~1"]),
        ("hairpin report la", &["latest"], &[]),
        ("hairpin report kept", &["kept.json"], &[]),
        ("hairpin bounce -i l", &["lo"], &[]),
        ("hairpin bounce -i lo -p pack", &["packet:spin"], &[]),
        ("hairpin sweep sun", &["sun-fire"], &[]),
        ("hairpin ping loopback --format j", &["json", "jsonl"], &["csv", "json-stream"]),
    ];
    fs::write(home.file("kept.json"), "{}").expect("a file");
    std::os::unix::fs::symlink(crate::support::HAIRPIN, home.file("hairpin")).expect("a link");
    let script = r#"source <(hairpin completions bash)
        compopt() { :; }
        for line; do COMP_LINE=$line COMP_POINT=${#line}; _hairpin hairpin; printf '%s\n' "${COMPREPLY[@]}" --; done"#;
    let mut command = home.command("bash");
    command.args(["--norc", "-c", script, "bash"]).args(lines.iter().map(|(line, ..)| line));
    command.env("PATH", format!("{}:{}", home.path().display(), std::env::var("PATH").unwrap_or_default()));
    // bash warns of a locale that this host lacks.
    command.env("LC_ALL", "C");
    let done = home.spawn(command).done();
    assert_eq!((done.code, done.err.as_str()), (Some(0), ""), "{done:?}");
    let mut answers = done.out.split("--\n");
    for (line, there, missing) in lines {
        let words: Vec<&str> = answers.next().expect("an answer").lines().collect();
        for word in *there {
            assert!(words.contains(word), "no {word} behind \"{line}\": {words:?}");
        }
        for word in *missing {
            assert!(!words.contains(word), "{word} behind \"{line}\": {words:?}");
        }
    }
}

#[test]
fn man_pages_are_made_for_each_verb() {
    let home = Home::new();
    fs::create_dir(home.file("man1")).expect("a folder");
    home.hairpin("man man1").fails(0, &[]);
    let pages: Vec<_> = fs::read_dir(home.file("man1")).expect("pages").map(|entry| entry.expect("a page").path()).collect();
    for page in ["hairpin.1", "hairpin-ping.1", "hairpin-serve.1", "hairpin-runs-show.1", "hairpin-tune-try.1"] {
        assert!(pages.contains(&home.file("man1").join(page)), "no {page}");
    }
    let man = can(
        "man_pages_are_made_for_each_verb",
        Command::new("man").arg("--version").output().is_ok(),
        "no man here; pages are not rendered",
    );
    for page in pages {
        let text = fs::read_to_string(&page).expect("a page");
        assert!(text.contains(".TH") && text.contains(".SH EXAMPLES\n"), "{page:?}");
        if man {
            let mut command = home.command("man");
            command.args(["--warnings", "-l"]).arg(&page).env("LC_ALL", "C.UTF-8").env("MANWIDTH", "80").env("MANPAGER", "cat");
            let done = home.spawn(command).done();
            assert_eq!((done.code, done.err.as_str()), (Some(0), ""), "{page:?}: {done:?}");
            assert!(
                done.out.contains("EXAMPLES") && done.out.lines().all(|line| line.chars().count() <= 80),
                "{page:?}: {}",
                done.out
            );
        }
    }
    assert!(fs::read_to_string(home.file("man1/hairpin-ping.1")).expect("a page").contains("outstanding"));
    home.hairpin("man nowhere").fails(1, &["cannot write man pages to nowhere"]);
}

#[test]
fn each_path_is_listed() {
    let home = Home::new();
    let names = [
        "tcp",
        "tcp-crr",
        "udp",
        "uring-tcp",
        "uring-udp",
        "packet",
        "xdp",
        "unix",
        "unix-dgram",
        "pipe",
        "eventfd",
        "memory",
        "niq",
    ];
    let text = home.hairpin("paths");
    let json = home.hairpin("paths --json").json();
    for name in names {
        assert!(text.out.lines().any(|line| line.starts_with(&format!("{name} "))), "{name}:\n{}", text.out);
    }
    assert!(text.out.lines().all(|line| line.chars().count() <= 80), "{}", text.out);
    // Root may have been given less than all.
    let adds = text.out.lines().find(|line| line.starts_with("root adds: "));
    if !crate::support::root() {
        assert_eq!(adds, Some("root adds: packet, xdp, stages of explain, tune apply (docs/install.md)"), "{}", text.out);
    }
    assert_eq!(adds.is_some(), json["root_adds"].is_array(), "{json}");
    let listed: Vec<_> = json["paths"].as_array().unwrap().iter().map(|path| path["path"].as_str().unwrap()).collect();
    assert_eq!(listed, names);
    let rings = io_uring();
    for path in json["paths"].as_array().unwrap() {
        // Loopback has one queue; packet sockets need CAP_NET_RAW; io_uring may be off.
        let (support, why) = match path["path"].as_str() {
            Some("uring-tcp" | "uring-udp") if !rings => ("no", ""),
            Some("xdp") => ("no", "use veth"),
            Some("packet") if !crate::support::root() => ("no", "CAP_NET_RAW"),
            _ => ("yes", ""),
        };
        assert_eq!(path["support"], support, "over loopback: {path}");
        assert!(path["why"].as_str().unwrap_or_default().contains(why), "over loopback: {path}");
    }
    let veth = home.hairpin("paths --link veth --json").json();
    let pipe = veth["paths"].as_array().unwrap().iter().find(|path| path["path"] == "pipe").unwrap();
    assert_eq!(pipe["support"], "no");
    assert!(pipe["why"].as_str().unwrap().contains("one host"), "{pipe}");
}

#[test]
fn stamps_of_an_interface_are_claimed_and_seen_apart() {
    let home = Home::new();
    let text = home.hairpin("paths -i lo");
    assert_eq!(text.code, Some(0), "{text:?}");
    assert!(text.out.starts_with("Stamps of lo\n"), "{}", text.out);
    assert!(text.out.lines().all(|line| line.chars().count() <= 80), "{}", text.out);
    let json = home.hairpin("paths -i lo --json").json();
    let device = &json["device"];
    let stamps = device["stamps"].as_array().expect("stamps");
    let of = |direction: &str, layer: &str| {
        stamps.iter().find(|stamp| stamp["direction"] == direction && stamp["layer"] == layer).expect("every way and layer")
    };
    // Loopback is a link of everybody's own: what it claims is seen there.
    for way in ["out", "in"] {
        assert_eq!((&of(way, "software")["claimed"], &of(way, "software")["seen"]), (&true.into(), &true.into()), "{device}");
        assert_eq!((&of(way, "hardware")["claimed"], &of(way, "hardware")["seen"]), (&false.into(), &false.into()), "{device}");
    }
    assert!(device["no_clock"].as_str().expect("why").starts_with("the device names no clock"), "{device}");
    assert!(device["own_link"]["software_in"].as_u64() > Some(0), "{device}");
    home.hairpin("paths -i nowhere0").fails(2, &["there is no interface \"nowhere0\"; there are: lo"]);
}

#[test]
fn stamps_of_a_device_of_the_host_are_claimed_and_not_tried() {
    if !can("stamps_of_a_device_of_the_host_are_claimed_and_not_tried", namespaces(), "a device of one's own needs root") {
        return;
    }
    apart(|| {
        let net = Net::new();
        net.enter();
        veth("one", "two");
        let home = Home::new();
        let device = home.hairpin("paths -i one --json").json()["device"].clone();
        assert_eq!(device["driver"], "veth", "{device}");
        let stamps = device["stamps"].as_array().expect("stamps");
        assert_eq!(stamps.len(), 4, "out and in, by the device and by the kernel: {device}");
        for stamp in stamps {
            assert!(stamp["seen"].is_null(), "nothing is sent over it: {stamp}");
            let claimed = stamp["layer"] == "software";
            assert_eq!(stamp["claimed"], claimed, "{stamp}");
            let why = stamp["why"].as_str().expect("why");
            let said = if claimed { "only claimed: nothing was sent over the device" } else { "the driver claims none" };
            assert_eq!(why, said);
        }
        assert_eq!(device["own_link"]["link"], "veth", "{device}");
        assert!(device["own_link"]["software_out"].as_u64() > Some(0), "{device}");
        assert_eq!(ip("-o link").lines().count(), 3, "lo and both ends: the probe's own link is gone");
        let text = home.hairpin("paths -i one");
        assert!(text.out.contains("not tried") && text.out.contains("next  hairpin ping HOST --hw-stamps"), "{}", text.out);
    });
}

/// A file of the repository.
macro_rules! repository {
    ($path:literal) => {
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../", $path)
    };
}

/// A program of a few lines of shell.
fn fake(folder: &Path, name: &str, text: &str) {
    fs::create_dir_all(folder).expect("a folder");
    let (written, program) = (folder.join(format!("{name}.text")), folder.join(name));
    fs::write(&written, format!("#!/bin/sh\n{text}\n")).expect("a program");
    // By a process of its own: a program cannot start while a child of another test holds a descriptor that writes it (ETXTBSY).
    let copied = Command::new("install").args(["-m", "755"]).args([&written, &program]).status().expect("install");
    assert!(copied.success(), "{name} cannot be made");
}

/// PATH with the programs of this folder before all others.
fn path_with(folder: &Path) -> String {
    format!("{}:{}", folder.display(), std::env::var("PATH").unwrap_or_default())
}

/// A file in this home, with its folders.
fn write(home: &Home, name: &str, text: &str) {
    let file = home.file(name);
    fs::create_dir_all(file.parent().expect("a folder")).expect("folders");
    fs::write(file, text).expect("a file");
}

/// A function of scripts/setup.sh, with those that all of them take.
fn of_setup(function: &str) -> String {
    let script = format!("{}/../../scripts/setup.sh", env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(&script).expect("the script");
    let one = |name: &&str| {
        let begin = text.find(&format!("\n{name}() {{")).unwrap_or_else(|| panic!("no {name} in {script}")) + 1;
        let rest = &text[begin..];
        let line = rest.find('\n').map_or(rest.len(), |at| at + 1);
        // On one line, or up to the brace at the begin of one.
        let end = if rest[..line].ends_with("}\n") { line } else { rest.find("\n}\n").expect("its end") + 3 };
        rest[..end].to_owned()
    };
    ["setup_say", "setup_has", function].iter().map(one).collect()
}

/// Output of a function of scripts/setup.sh, with these programs before all others and these variables.
fn set_up(home: &Home, function: &str, programs: &[(&str, &str)], variables: &[(&str, &str)]) -> String {
    let functions = of_setup(function);
    let folder = home.file("programs");
    for (name, script) in programs {
        fake(&folder, name, script);
    }
    let path = path_with(&folder);
    let mut command = Command::new("sh");
    command
        .args(["-c", &format!("{functions}{function}")])
        .env("PATH", path)
        .env_remove("CARGO_TARGET_DIR")
        .env_remove("HAIRPIN_FOR");
    let output = command.envs(variables.iter().copied()).current_dir(home.path()).output().expect("sh");
    assert!(output.status.success(), "{function}: {output:?}");
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn a_first_build_is_announced_with_how_long_it_takes() {
    let home = Home::new();
    let said = |cores: &str, purpose: &str| {
        set_up(&home, "setup_announce", &[("nproc", &format!("echo {cores}"))], &[("HAIRPIN_FOR", purpose)])
    };
    assert_eq!(said("2", "demo"), "set-up: first build: about 4 min with the CPUs of this host (2); later ones take seconds\n");
    assert!(said("8", "test").contains("about 3 min") && said("96", "demo").contains("about 2 min"));
    let built = home.file("target/debug/hairpin");
    fs::create_dir_all(built.parent().expect("a folder")).expect("folders");
    fs::copy("/bin/true", &built).expect("a program");
    assert_eq!(said("2", "demo"), "", "it has been built");
}

#[test]
fn setup_names_the_missing_security_updates_of_a_debian() {
    let home = Home::new();
    fs::write(home.file("debian"), "ID=debian\nVERSION_CODENAME=trixie\n").expect("a file");
    fs::write(home.file("other"), "ID=fedora\n").expect("a file");
    let told = |release: &str, sources: &str| {
        let release = home.file(release).display().to_string();
        set_up(&home, "setup_security", &[("apt-cache", &format!("echo '{sources}'"))], &[("HAIRPIN_OS_RELEASE", &release)])
    };
    let bare = " 500 http://mirror.example/debian trixie/main amd64 Packages";
    let line = "trixie-security";
    assert!(told("debian", bare).contains(line), "{}", told("debian", bare));
    assert_eq!(told("debian", " 500 http://mirror.example/debian-security trixie-security/main amd64 Packages"), "");
    assert_eq!(told("other", bare), "");
    assert_eq!(told("missing", bare), "");
}

#[test]
fn setup_reads_what_apt_says_in_every_language() {
    let home = Home::new();
    let policy = "[ \"$LC_ALL\" = C ] && word=Candidate || word=Installationskandidat; echo \"  $word: 1.96.0+dfsg1-1\"";
    assert_eq!(set_up(&home, "setup_candidate", &[("apt-cache", policy)], &[("LC_ALL", "")]), "1.96.0\n");
}

#[test]
fn setup_names_packages_as_the_distribution_does() {
    let home = Home::new();
    write(&home, "rocky", "ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\n");
    write(&home, "debian", "ID=debian\n");
    let told = |release: &str| {
        let release = home.file(release).display().to_string();
        let packages = " gcc libc6-dev libelf-dev zlib1g-dev";
        set_up(&home, "setup_how", &[], &[("HAIRPIN_OS_RELEASE", release.as_str()), ("setup_packages", packages)])
    };
    assert_eq!(told("rocky"), "dnf install gcc glibc-devel elfutils-libelf-devel zlib-devel");
    for other in ["debian", "missing"] {
        assert_eq!(told(other), "apt-get install gcc libc6-dev libelf-dev zlib1g-dev", "{other}");
    }
}

/// A package whose unpacking failed or was cut off is unpacked again, though its program is there.
#[test]
fn an_unpacked_program_counts_once_it_is_complete() {
    let home = Home::new();
    let programs = home.file("programs");
    fake(&programs, "apt-get", "echo asked >>\"$ASKED\"; : >a-package_1_all.deb");
    fake(&programs, "dpkg-deb", "mkdir -p usr/bin && cp \"$0\" usr/bin/a-program; exit \"$STATUS\"");
    let run = |status: &str| {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("{}setup_unpack a-program a-package", of_setup("setup_unpack"))]).current_dir(home.path());
        command.env("PATH", path_with(&programs)).env("STATUS", status).env("ASKED", home.file("asked"));
        let output = command.env("CARGO_TARGET_DIR", home.file("target")).output().expect("sh");
        (output.status.success(), fs::read_to_string(home.file("asked")).expect("apt").lines().count())
    };
    assert_eq!(run("1"), (false, 1));
    assert_eq!(run("0"), (true, 2));
    assert_eq!(run("0"), (true, 2));
}

/// A tool whose download was interrupted, or that is of another version, is fetched anew; no other is.
#[test]
fn the_tools_of_packages_count_once_they_are_complete() {
    let home = Home::new();
    let programs = home.file("programs");
    fake(&programs, "python3", "mkdir -p \"$3/bin\" && cp \"${0%/*}/a-pip\" \"$3/bin/pip\"");
    // A part of what it was asked for is there also where it fails.
    fake(&programs, "a-pip", "echo asked >>\"$ASKED\"\ncp \"$0\" \"${0%/*}/cargo-zigbuild\"\nexit \"$STATUS\"");
    let run = |status: &str| {
        let begin = "setup_say() { :; }; setup_fail() { exit 9; }; . \"$0\"";
        let mut command = Command::new("sh");
        command.args(["-c", begin, repository!("packaging/tools.sh")]).env("PATH", path_with(&programs)).env("STATUS", status);
        let output = command.env("CARGO_TARGET_DIR", home.file("target")).env("ASKED", home.file("asked")).output().expect("sh");
        (output.status.code(), fs::read_to_string(home.file("asked")).expect("pip").lines().count())
    };
    assert_eq!(run("1"), (Some(9), 1));
    assert_eq!(run("0"), (Some(0), 2));
    assert_eq!(run("0"), (Some(0), 2));
    write(&home, "target/tools/venv/complete", "cargo-zigbuild==0.1.0\n");
    assert_eq!(run("0"), (Some(0), 3));
}

/// Git gives a file that it writes anew a later time, though it is the same.
#[test]
fn the_packages_of_the_page_stay_while_their_list_is_the_same() {
    let home = Home::new();
    let programs = home.file("programs");
    fake(&programs, "node", "exit 0");
    // Npm takes all away before it fetches.
    let npm = [
        "echo asked >>\"$ASKED\"; rm -rf node_modules",
        "[ \"$NETWORK\" = yes ] && mkdir node_modules && : >node_modules/.package-lock.json",
    ];
    fake(&programs, "npm", &npm.join("\n"));
    write(&home, "scripts/web.sh", &fs::read_to_string(repository!("scripts/web.sh")).expect("the script"));
    let list = "crates/report/web/package-lock.json";
    write(&home, list, "{}");
    let ready = |network: &str| {
        let mut command = Command::new("sh");
        command.arg(home.file("scripts/web.sh")).arg("--ready").env("PATH", path_with(&programs)).env("NETWORK", network);
        let output = command.env("ASKED", home.file("asked")).output().expect("sh");
        (output.status.success(), fs::read_to_string(home.file("asked")).expect("npm").lines().count())
    };
    assert_eq!(ready("yes"), (true, 1));
    let later = SystemTime::now() + Duration::from_secs(3600);
    fs::File::options().write(true).open(home.file(list)).expect("the list").set_modified(later).expect("a later time");
    assert_eq!(ready("no"), (true, 1));
    write(&home, list, "{\"packages\": {}}");
    assert_eq!(ready("yes"), (true, 2));
}

#[test]
fn the_hash_of_the_measured_code_leaves_tests_out() {
    let home = Home::new();
    write(&home, "scripts/measured-code.sh", &fs::read_to_string(repository!("scripts/measured-code.sh")).expect("the script"));
    write(&home, "Cargo.toml", "[profile.release.package]\nhairpin-iopath.opt-level = 3\n");
    write(&home, "crates/iopath/src/drive.rs", "1");
    write(&home, "crates/trace/bpf/stages.bpf.c", "1");
    let hash = || {
        let output = Command::new("sh").arg(home.file("scripts/measured-code.sh")).output().expect("sh");
        assert!(output.status.success() && output.stdout.len() == 17, "{output:?}");
        output.stdout
    };
    let before = hash();
    for test in ["tests.rs", "drive/tests.rs", "drive/stall_tests.rs", "tests/one.rs"] {
        write(&home, &format!("crates/iopath/src/{test}"), "2");
        assert_eq!(hash(), before, "{test}");
    }
    write(&home, "crates/iopath/src/drive/run.rs", "2");
    assert_ne!(hash(), before);
}

/// Slurm's prolog with a hairpin that measures nothing: whom it asks, and what it makes of the answer.
#[test]
fn the_prolog_of_slurm_finds_its_neighbour_with_and_without_leading_zeros() {
    let home = Home::new();
    let programs = home.file("programs");
    fake(&programs, "getent", "case \" $KNOWN \" in *\" $2 \"*) ;; *) exit 2 ;; esac");
    let hairpin = "printf %s \"$2\" >\"$ASKED\"\nprintf 'path,rtt_min_ns,rtt_p50_ns\\nudp,7,%s\\n' \"$RTT\"";
    fake(&programs, "hairpin", hairpin);
    let prolog = |node: &str, known: &str, rtt: &str| {
        let mut command = Command::new("sh");
        command.arg(repository!("contrib/slurm/prolog.sh")).env("PATH", path_with(&programs)).env("ASKED", home.file("asked"));
        command.env("SLURMD_NODENAME", node).env("KNOWN", known).env("RTT", rtt).env_remove("HAIRPIN_LIMIT_NS");
        command
    };
    let run = |node: &str, known: &str, rtt: &str| {
        let output = prolog(node, known, rtt).output().expect("sh");
        (output.status.code(), fs::read_to_string(home.file("asked")).expect("a question"))
    };
    for (node, known, neighbour) in [
        ("n1", "n1 n2", "n2"),
        ("n2", "n1 n2", "n1"),
        ("n9", "n9 n10", "n10"),
        ("n10", "n9 n10", "n9"),
        ("n10", "n09 n10", "n09"),
        ("n009", "n009 n010", "n010"),
    ] {
        assert_eq!(run(node, known, "5000"), (Some(0), neighbour.to_owned()), "{node}");
    }
    assert_eq!(run("n1", "n2", "200001").0, Some(1));
    assert_eq!(run("n1", "n2", "").0, Some(0), "the shortest of a few");
    let output = prolog("n1", "n2", "5000").env("HAIRPIN_LIMIT_NS", "200us").output().expect("sh");
    assert!(output.status.success() && String::from_utf8_lossy(&output.stderr).contains("200us"), "{output:?}");
}

/// The step that starts both versions, with a git that makes the other folder.
#[test]
fn the_workflow_for_pull_requests_builds_each_version_in_its_folder_and_waits_for_both() {
    let home = Home::new();
    let text = fs::read_to_string(repository!("contrib/github-workflow.yml")).expect("the workflow");
    let workflow: serde_json::Value = serde_yaml_ng::from_str(&text).expect("YAML");
    let steps = workflow["jobs"]["gate"]["steps"].as_array().expect("steps");
    let step = steps.iter().find(|step| step["name"] == "start both versions").expect("the step");
    let step = step["run"].as_str().expect("what it runs");
    let (change, programs) = (home.file("change"), home.file("programs"));
    fake(&change, "build-and-start.sh", "pwd >\"$STARTED/$2\"");
    fake(&programs, "git", "mkdir ../main && cp build-and-start.sh ../main/");
    // Nothing listens: it waits for the file of its last word.
    let timeout = [
        "for port; do :; done; n=0",
        "until [ -s \"$STARTED/$port\" ]; do n=$((n + 1)); [ $n -lt 3000 ] || exit 124; sleep 0.01; done",
    ];
    fake(&programs, "timeout", &timeout.join("\n"));
    fs::create_dir(home.file("started")).expect("a folder");
    let mut command = Command::new("bash");
    command.args(["-e", "-c", step]).current_dir(&change).env("PATH", path_with(&programs)).env("STARTED", home.file("started"));
    let output = command.output().expect("bash");
    assert!(output.status.success(), "{output:?}");
    for (port, folder) in [("7000", "main"), ("7001", "change")] {
        let began = fs::read_to_string(home.file("started").join(port)).expect("it was started");
        assert!(began.trim().ends_with(&format!("/{folder}")), "{port}: {began}");
    }
}

/// A fake cargo names the toolchains that have Miri; the step must draw the right conclusion.
#[test]
fn miri_is_looked_for_in_both_toolchains_and_its_failure_is_the_steps() {
    let home = Home::new();
    let cargo = home.file("cargo");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/miri.sh");
    // `has` is the toolchain that has Miri, `fails` the package whose tests it fails.
    let run = |has: &str, fails: &str, argument: &[&str]| {
        let text = format!(
            "#!/bin/sh\necho \"$@\" >>'{log}'\ncase \"$*\" in\n'{has}miri --version') exit 0 ;;\n*--version*) exit 1 ;;\n*'--package {fails} '*) exit 1 ;;\nesac\n",
            log = home.file("asked").display()
        );
        fs::write(&cargo, text).unwrap();
        fs::set_permissions(&cargo, fs::Permissions::from_mode(0o755)).unwrap();
        let _ = fs::remove_file(home.file("asked"));
        let path = format!("{}:{}", home.path().display(), std::env::var("PATH").unwrap());
        let status = Command::new("sh").arg(script).args(argument).env("PATH", path).status().unwrap();
        (status.code(), fs::read_to_string(home.file("asked")).unwrap())
    };
    assert_eq!(run("none ", "", &["--ready"]).0, Some(1));
    for has in ["", "+nightly "] {
        let (status, asked) = run(has, "none", &["--ready"]);
        assert!(status == Some(0) && !asked.contains("test"), "{asked}");
        let (status, asked) = run(has, "none", &[]);
        for package in ["hairpin-sys", "hairpin-wire", "hairpin-units"] {
            assert!(asked.contains(&format!("{has}miri test --quiet --package {package} --lib --")), "{asked}");
        }
        assert_eq!(status, Some(0));
        // A failure of the first one does not keep the others from running.
        let (status, asked) = run(has, "hairpin-sys", &[]);
        assert!(status == Some(1) && asked.contains("hairpin-units"), "{asked}");
    }
}
