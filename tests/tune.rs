//! `hairpin tune` from the command line, on the real kernel: sysctls of a network namespace, a veth and a tap
//! in it, a demand on /dev/cpu_dma_latency while a command runs, an interrupt that nobody needs. Each test
//! asserts that all settings are restored, byte for byte.
//!
//! ```text
//!   values of all knobs ──► each test, some in a network namespace of its own: hairpin tune apply, revert, status … ──► the same values
//! ```

mod napi;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::support::alone::{self, Listed, Part, Test};
use crate::support::{HAIRPIN, Home, can, home_of_nobody, namespaces, root, unwrapped};
use hairpin_sys::host::{Host, RealHost};
use hairpin_sys::netns;
use hairpin_tune::journal::{About, Journal};
use hairpin_tune::{Address, Change};
use serde_json::Value;

pub const PART: Part = Part::new("tune", tests).unchanged(said);

/// In the namespaces that the tests were started in.
const OUTSIDE: &[Listed] = &[
    ("check_puts_what_costs_most_first_and_reads_only", check_puts_what_costs_most_first_and_reads_only),
    ("list_says_all_of_one", list_says_all_of_one),
    ("rejects_invalid_arguments_with_a_reason", rejects_invalid_arguments_with_a_reason),
    ("without_privilege_it_checks_and_does_not_apply", without_privilege_it_checks_and_does_not_apply),
    ("short_wake_ups_as_long_as_a_command_runs", short_wake_ups_as_long_as_a_command_runs),
    ("an_interrupt_goes_elsewhere_and_back", an_interrupt_goes_elsewhere_and_back),
];

/// Each in a network namespace of its own.
const INSIDE: &[Listed] = &[
    ("sysctls_apply_apply_revert", sysctls_apply_apply_revert),
    ("a_table_that_nobody_gets_undoes_nothing", a_table_that_nobody_gets_undoes_nothing),
    ("a_dry_run_and_a_question_without_a_terminal_change_nothing", a_dry_run_and_a_question_without_a_terminal_change_nothing),
    ("a_profile_file_is_applied", a_profile_file_is_applied),
    ("reports_values_that_the_kernel_rejects", reports_values_that_the_kernel_rejects),
    ("root_is_not_told_to_be_root", root_is_not_told_to_be_root),
    ("one_of_several_at_once_is_applied", one_of_several_at_once_is_applied),
    ("while_a_command_runs_and_no_longer", while_a_command_runs_and_no_longer),
    ("two_at_once_are_refused", two_at_once_are_refused),
    ("killed_it_leaves_an_orphan_that_every_verb_tells_of", killed_it_leaves_an_orphan_that_every_verb_tells_of),
    ("revert_keeps_values_changed_by_others", revert_keeps_values_changed_by_others),
    ("a_tap_coalesces_frames", a_tap_coalesces_frames),
    ("a_veth_has_offloads_queues_and_routes", a_veth_has_offloads_queues_and_routes),
    ("a_veth_has_napi_instances_of_their_own", napi::a_veth_has_napi_instances_of_their_own),
    ("suspended_interrupts_are_asked_for_and_proved", napi::suspended_interrupts_are_asked_for_and_proved),
    ("another_namespace_is_left_alone", another_namespace_is_left_alone),
];

fn tests() -> Vec<Test> {
    let inside = |(name, run): &Listed| {
        let run = *run;
        Test::new(*name, move |full| {
            let possible = can(full, namespaces(), "it takes root and the right to make a network namespace");
            if possible {
                netns::enter_new(false).expect("a network namespace");
            }
            possible && run(full)
        })
    };
    alone::listed(OUTSIDE).into_iter().chain(INSIDE.iter().map(inside)).collect()
}

/// Every knob's value on this host and on its first interface with a device.
fn said() -> String {
    let home = Home::new();
    let names = RealHost.list("/sys/class/net").unwrap_or_default();
    let device = names.into_iter().find(|name| RealHost.exists(&format!("/sys/class/net/{name}/device")));
    let interface = device.map(|name| format!("-i {name}")).unwrap_or_default();
    home.json(&format!("tune list {interface}")).to_string()
}

/// The network sysctls of this namespace, byte for byte.
fn bytes() -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut open = vec![PathBuf::from("/proc/sys/net")];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            let path = entry.path();
            match path.is_dir() {
                true => open.push(path),
                false => drop(fs::read(&path).map(|bytes| files.insert(path, bytes))),
            }
        }
    }
    // A count of entries, not a setting.
    files.retain(|path, _| !path.ends_with("nf_conntrack_count"));
    assert!(!files.is_empty(), "nothing can be read in /proc/sys/net");
    files
}

fn sysctl(name: &str) -> String {
    fs::read_to_string(Path::new("/proc/sys").join(name.replace('.', "/"))).expect(name).trim().to_owned()
}

fn command(line: &str) {
    let mut words = line.split_whitespace();
    let status = Command::new(words.next().expect("a program")).args(words).status().expect(line);
    assert!(status.success(), "{line}");
}

// ---- where the tests were started ------------------------------------------------------------------------------------------

fn check_puts_what_costs_most_first_and_reads_only(name: &str) -> bool {
    if !can(name, root(), "it takes root") {
        return false;
    }
    let home = Home::new();
    let check = home.json("tune check");
    assert_eq!(check["schema"], "hairpin.tune-check/1");
    let first = check["findings"][0]["name"].as_str();
    let states = RealHost.list("/sys/devices/system/cpu/cpu0/cpuidle").map_or(0, |states| states.len());
    let hypervisor = RealHost.read("/proc/cpuinfo").is_ok_and(|info| info.contains(" hypervisor"));
    // Without a cpuidle driver the kernel heeds no demand.
    if states == 0 {
        let mut names = check["findings"].as_array().unwrap().iter().map(|finding| &finding["name"]);
        assert!(names.all(|name| name != "cpu_dma_latency_us"), "{check:#}");
    } else if states > 1 && hypervisor {
        assert_eq!(first, Some("cpu_dma_latency_us"), "{check:#}");
        assert_eq!(check["findings"][0]["fix"], "sudo hairpin tune apply cpu_dma_latency_us=0 --while -- COMMAND");
    }
    let stakes: Vec<u64> =
        check["findings"].as_array().unwrap().iter().map(|finding| finding["stake_ns"].as_u64().unwrap()).collect();
    assert!(stakes.is_sorted_by(|one, next| one >= next), "{stakes:?}");
    let text = home.hairpin("tune check").out;
    // A host may have nothing left to set.
    assert!(first.is_none_or(|first| text.contains(&format!(" 1 {first}"))), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(!home.journal().exists(), "a check writes nothing");
    true
}

fn list_says_all_of_one(_: &str) -> bool {
    let home = Home::new();
    let text = home.hairpin("tune list").out;
    assert!(text.contains("tcp_autocorking") && text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let one = home.hairpin("tune list tcp_autocorking mitigations").out;
    for part in [
        "mechanism",
        "effect",
        "cost",
        "risk",
        "needs",
        "reference",
        "sudo hairpin tune apply tcp_autocorking=VALUE",
        "only reported",
    ] {
        assert!(one.contains(part), "no {part} in:\n{one}");
    }
    let json = home.json("tune list tcp_autocorking");
    assert_eq!(json["knobs"][0]["change"]["safe"], true);
    home.hairpin("tune list tcp_autocork").fails(2, &["did you mean tcp_autocorking?"]);
    true
}

fn rejects_invalid_arguments_with_a_reason(_: &str) -> bool {
    let home = Home::new();
    for (args, parts) in [
        ("apply rx_usec=0", &["no setting \"rx_usec\"", "did you mean rx_usecs?"][..]),
        ("apply rx_usecs", &["not NAME=VALUE"]),
        ("apply tcp_autocorking=perhaps", &["it is on or off"]),
        ("apply mitigations=off --yes", &["only reported"]),
        ("apply rx_usecs=0 --yes", &["name it with -i IF"]),
        ("apply rx_usecs=0 -i nope --yes", &["no interface \"nope\""]),
        ("apply tcp_autocorking=off tcp_autocorking=on", &["given twice"]),
        ("apply cpu_dma_latency_us=0 --yes", &["--while -- COMMAND"]),
        ("apply tcp_autocorking=off --while", &["COMMAND"]),
        ("apply nowhere.toml", &["cannot be read"]),
        ("apply", &["KNOB=VALUE"]),
        ("check -i nope", &["there is no interface \"nope\""]),
        ("check --cpus x", &["not a list of CPUs"]),
    ] {
        home.hairpin(&format!("tune {args}")).fails(2, parts);
    }
    home.hairpin("tune apply rx_usecs=0 -i lo --yes").fails(4, &["this host has no rx_usecs on lo"]);
    assert!(home.hairpin("tune revert").out.contains("nothing to revert"));
    assert!(home.hairpin("tune status").out.contains("nothing is changed"));
    assert!(!home.journal().exists());
    true
}

fn without_privilege_it_checks_and_does_not_apply(name: &str) -> bool {
    if !can(name, root(), "it takes root to become somebody else") {
        return false;
    }
    let home = home_of_nobody();
    fs::create_dir(home.journal()).expect("a journal");
    chown(home.journal(), Some(65534), Some(65534)).expect("chown");
    let check = home.as_nobody("tune check -v");
    assert_eq!(check.code, Some(0), "{check:?}");
    if RealHost.exists("/dev/cpu_dma_latency") {
        assert!(check.out.contains("could not be read") && check.out.contains("/dev/cpu_dma_latency"), "{}", check.out);
    }
    let other = if sysctl("net.ipv4.tcp_autocorking") == "1" { "off" } else { "on" };
    let done = home.as_nobody(&format!("tune apply tcp_autocorking={other} --yes"));
    assert_eq!(done.code, Some(4), "{done:?}");
    assert!(done.out.contains("run as root") && done.out.contains("nothing is changed"), "{done:?}");
    assert!(home.as_nobody("tune status").out.contains("nothing is changed"));
    true
}

fn short_wake_ups_as_long_as_a_command_runs(name: &str) -> bool {
    if !can(name, root() && RealHost.exists("/dev/cpu_dma_latency"), "it takes root and /dev/cpu_dma_latency") {
        return false;
    }
    let latency = || i32::from_ne_bytes(RealHost.read_bytes("/dev/cpu_dma_latency").expect("it").try_into().expect("four bytes"));
    let before = latency();
    let home = Home::new();
    let done = home.hairpin("tune apply cpu_dma_latency_us=0 --yes --while -- od -An -td4 /dev/cpu_dma_latency");
    assert_eq!((done.code, done.out.trim()), (Some(0), "0"), "{done:?}");
    assert_eq!(latency(), before);
    // Killed, the demand goes with the process, and no journal is left.
    let mut running = home.start("tune apply cpu_dma_latency_us=0 --yes --while -- sleep 30");
    running.until("applied");
    assert_eq!(latency(), 0);
    running.kill();
    // A command that was about to start still has the descriptor until it does; one that kept it would hold it for 30 s.
    let begun = Instant::now();
    while latency() != before {
        assert!(begun.elapsed() < Duration::from_secs(10), "{} is left, not {before}", latency());
        sleep(Duration::from_millis(5));
    }
    assert!(home.hairpin("tune status").out.contains("nothing is changed"));
    true
}

/// Moves an interrupt that never came and that no network device uses.
fn an_interrupt_goes_elsewhere_and_back(name: &str) -> bool {
    let networks: Vec<String> = RealHost
        .list("/sys/class/net")
        .unwrap_or_default()
        .iter()
        .flat_map(|name| ["device/msi_irqs", "device/../msi_irqs"].map(|at| format!("/sys/class/net/{name}/{at}")))
        .flat_map(|path| RealHost.list(&path).unwrap_or_default())
        .collect();
    let table = RealHost.read("/proc/interrupts").unwrap_or_default();
    let idle = table.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let number = words.next()?.strip_suffix(':').filter(|number| number.parse::<u32>().is_ok())?;
        let counts: Vec<&str> = words.map_while(|word| word.parse::<u64>().is_ok().then_some(word)).collect();
        (counts.iter().all(|count| *count == "0") && !networks.iter().any(|used| used == number)).then(|| number.to_owned())
    });
    let path = |number: &str| format!("/proc/irq/{number}/smp_affinity_list");
    // The kernel moves only some interrupts: choose one that accepts its present value.
    let movable =
        idle.map(|number| path(&number)).find(|path| RealHost.read(path).is_ok_and(|now| RealHost.write(path, &now).is_ok()));
    let several = RealHost.read("/sys/devices/system/cpu/online").is_ok_and(|online| online != "0");
    if !can(name, root() && several && movable.is_some(), "it takes root, two CPUs and an idle interrupt that may be moved") {
        return false;
    }
    let path = movable.expect("one");
    let before = RealHost.read(&path).expect("its CPUs");
    let to = if before == "0" { "1" } else { "0" }.to_owned();
    let address = Address::File { path: path.clone(), form: hairpin_tune::change::Form::CpuList };
    let change = Change { knob: "irq_affinity".to_owned(), address, from: before.clone(), to: to.clone() };
    let home = Home::new();
    let mut tuning = Journal::at(home.journal()).begin(&RealHost, vec![change], &About::default()).expect("an entry");
    for _ in 0..3 {
        tuning.on(0).expect("moved");
        assert_eq!(RealHost.read(&path).expect("its CPUs"), to);
        tuning.off(0).expect("back");
        assert_eq!(RealHost.read(&path).expect("its CPUs"), before);
    }
    tuning.on(0).expect("moved");
    drop(tuning);
    assert_eq!(RealHost.read(&path).expect("its CPUs"), before);
    true
}

// ---- in a network namespace ------------------------------------------------------------------------------------------------

const TWO: &str = "tcp_autocorking=off tcp_slow_start_after_idle=off";

fn sysctls_apply_apply_revert(_: &str) -> bool {
    let (home, before) = (Home::new(), bytes());
    let applied = home.hairpin(&format!("tune apply {TWO} --yes"));
    assert_eq!(applied.code, Some(0), "{applied:?}");
    assert_eq!(applied.out.matches("applied").count(), 2, "{}", applied.out);
    assert_eq!((sysctl("net.ipv4.tcp_autocorking"), sysctl("net.ipv4.tcp_slow_start_after_idle")), ("0".into(), "0".into()));
    assert!(home.hairpin(&format!("tune apply {TWO} --yes")).out.contains("it is all so already"));
    let status = home.json("tune status");
    assert_eq!(status["entries"].as_array().map(Vec::len), Some(1));
    assert_eq!(status["entries"][0]["state"], "kept");
    assert_eq!(status["entries"][0]["changes"][0]["outcome"], "applied");
    assert!(home.hairpin("paths").err.is_empty(), "what is kept is no orphan");
    let one = home.json("tune revert tcp_autocorking");
    assert_eq!(one["changes"].as_array().map(Vec::len), Some(1));
    assert_eq!((sysctl("net.ipv4.tcp_autocorking"), sysctl("net.ipv4.tcp_slow_start_after_idle")), ("1".into(), "0".into()));
    let reverted = home.hairpin("tune revert");
    assert_eq!(reverted.code, Some(0), "{reverted:?}");
    assert_eq!(bytes(), before);
    assert!(home.hairpin("tune status").out.contains("nothing is changed"));
    true
}

fn a_table_that_nobody_gets_undoes_nothing(_: &str) -> bool {
    let (home, before) = (Home::new(), bytes());
    let mut apply = home.command(HAIRPIN);
    apply.args(["tune", "apply", "tcp_autocorking=off", "--yes"]);
    let full = fs::File::options().write(true).open("/dev/full").expect("/dev/full");
    home.spawn_to(apply, Some(full.into())).done().fails(1, &["cannot write the output"]);
    assert_eq!(sysctl("net.ipv4.tcp_autocorking"), "0");
    assert_eq!(home.json("tune status")["entries"][0]["state"], "kept");
    assert_eq!(home.hairpin("tune revert").code, Some(0));
    assert_eq!(bytes(), before);
    true
}

fn a_dry_run_and_a_question_without_a_terminal_change_nothing(_: &str) -> bool {
    let (home, before) = (Home::new(), bytes());
    let dry = home.hairpin(&format!("tune apply {TWO} --dry-run"));
    assert_eq!(dry.code, Some(0), "{dry:?}");
    assert!(dry.out.contains("/proc/sys/net/ipv4/tcp_autocorking"), "{}", dry.out);
    let plan = home.json(&format!("tune apply {TWO} --dry-run"));
    assert_eq!(
        (&plan["action"], &plan["changes"][0]["from"], &plan["changes"][0]["to"]),
        (&"plan".into(), &"1".into(), &"0".into())
    );
    home.hairpin(&format!("tune apply {TWO}")).fails(2, &["not a terminal", "--yes"]);
    assert_eq!(bytes(), before);
    assert!(!home.journal().exists());
    true
}

fn a_profile_file_is_applied(_: &str) -> bool {
    let (home, before) = (Home::new(), bytes());
    let text = "about = \"found here\"\n[knobs]\ntcp_autocorking = false\ntcp_rmem_bytes = [4096, 65536, 1000000]\n[evidence.tcp_autocorking]\ngain = 0.2\n";
    fs::write(home.file("mine.toml"), text).expect("a profile");
    let done = home.hairpin("tune apply mine.toml --yes");
    assert_eq!(done.code, Some(0), "{done:?}");
    assert_eq!(sysctl("net.ipv4.tcp_rmem"), "4096\t65536\t1000000");
    assert_eq!(home.hairpin("tune revert").code, Some(0));
    assert_eq!(bytes(), before);
    fs::write(home.file("wrong.toml"), "[knobs]\nrx_usec = 0\n").expect("a profile");
    home.hairpin("tune apply wrong.toml --yes").fails(2, &["wrong.toml no setting \"rx_usec\""]);
    true
}

fn reports_values_that_the_kernel_rejects(_: &str) -> bool {
    let (home, before) = (Home::new(), bytes());
    let done = home.hairpin("tune apply tcp_autocorking=off tcp_congestion_control=nonesuch --yes");
    assert_eq!(done.code, Some(1), "{done:?}");
    assert!(done.out.contains("wanted nonesuch, but it is"), "{}", done.out);
    assert_eq!(sysctl("net.ipv4.tcp_autocorking"), "0", "what was taken stays, and is in the journal");
    let reverted = home.json("tune revert");
    assert_eq!(reverted["changes"].as_array().map(Vec::len), Some(1), "{reverted:#}");
    assert_eq!(bytes(), before);
    true
}

fn root_is_not_told_to_be_root(_: &str) -> bool {
    let (home, before) = (Home::new(), bytes());
    // Read-only in a network namespace, or not there at all: in neither case does root lack a right.
    let done = home.hairpin("tune apply rmem_default_bytes=300000 --yes");
    assert_eq!(done.code, Some(4), "{done:?}");
    assert!(!done.out.contains("run as root") && !done.err.contains("run as root"), "{done:?}");
    assert_eq!(bytes(), before);
    true
}

fn one_of_several_at_once_is_applied(_: &str) -> bool {
    let (home, before) = (Home::new(), bytes());
    let at_once: Vec<_> = (2..8).map(|value| home.start(&format!("tune apply tcp_pingpong_thresh={value} --yes"))).collect();
    let done: Vec<_> = at_once.into_iter().map(crate::support::Running::done).collect();
    let applied = done.iter().filter(|done| done.code == Some(0)).count();
    // The journal has each change with the value that it found: no two found the same.
    let from: BTreeSet<String> = home.json("tune status")["entries"]
        .as_array()
        .expect("entries")
        .iter()
        .map(|entry| entry["changes"][0]["from"].as_str().expect("a value").to_owned())
        .collect();
    assert!(applied > 0 && from.len() == applied, "{from:?} {done:?}");
    for done in done.iter().filter(|done| done.code != Some(0)) {
        assert_eq!(done.code, Some(1), "{done:?}");
        assert!(done.err.contains("run it again") || done.err.contains("another hairpin is changing settings"), "{done:?}");
    }
    assert_eq!(home.hairpin("tune revert").code, Some(0));
    assert_eq!(bytes(), before);
    true
}

fn while_a_command_runs_and_no_longer(_: &str) -> bool {
    let (home, before) = (Home::new(), bytes());
    let read = "cat /proc/sys/net/ipv4/tcp_autocorking";
    let done = home.hairpin(&format!("tune apply {TWO} --yes --while -- {read}"));
    assert_eq!((done.code, done.out.trim()), (Some(0), "0"), "{done:?}");
    assert_eq!(bytes(), before);
    assert_eq!(home.hairpin(&format!("tune apply {TWO} --yes --while -- false")).code, Some(1));
    home.hairpin(&format!("tune apply {TWO} --yes --while -- /nonexistent")).fails(1, &["cannot run the command"]);
    assert_eq!(bytes(), before);
    for signal in ["TERM", "HUP"] {
        // Under nohup the tests ignore SIGHUP, and so would their children.
        let mut command = home.command("env");
        command.args(["--default-signal=HUP", HAIRPIN]).args(format!("tune apply {TWO} --yes --while -- sleep 30").split(' '));
        let mut running = home.spawn(command);
        running.until("applied");
        running.signal(signal);
        let done = running.done();
        assert_eq!(done.code, Some(128 + if signal == "TERM" { 15 } else { 1 }), "{done:?}");
        assert_eq!(bytes(), before);
    }
    assert!(home.hairpin("tune status").out.contains("nothing is changed"));
    true
}

fn two_at_once_are_refused(_: &str) -> bool {
    let (home, before) = (Home::new(), bytes());
    let mut first = home.start(&format!("tune apply {TWO} --yes --while -- sleep 30"));
    first.until("applied");
    home.hairpin("tune apply tcp_sack=off --yes")
        .fails(1, &["another hairpin is changing settings right now", &format!("process {}", first.pid()), "--while"]);
    home.hairpin("tune revert").fails(1, &["another hairpin is changing settings"]);
    let status = home.json("tune status");
    assert_eq!(status["entries"][0]["state"], "running");
    assert!(home.hairpin("paths").err.is_empty(), "it lives, so it is no orphan");
    first.signal("TERM");
    first.done();
    assert_eq!(bytes(), before);
    true
}

fn killed_it_leaves_an_orphan_that_every_verb_tells_of(_: &str) -> bool {
    let (home, before) = (Home::new(), bytes());
    let mut running = home.start(&format!("tune apply {TWO} --yes --while -- sleep 3"));
    running.until("applied");
    running.kill();
    assert_eq!(sysctl("net.ipv4.tcp_autocorking"), "0");
    for verb in ["paths", "runs", "tune check", "tune list"] {
        let done = home.hairpin(verb);
        assert_eq!(done.code, Some(0), "{done:?}");
        assert!(
            done.err.contains("a hairpin that was killed left settings of this host changed")
                && done.err.contains("hairpin tune revert"),
            "{verb}: {}",
            done.err
        );
    }
    assert_eq!(home.json("tune status")["entries"][0]["state"], "orphaned");
    assert_eq!(home.hairpin("tune revert").code, Some(0));
    assert_eq!(bytes(), before);
    assert!(home.hairpin("paths").err.is_empty());
    true
}

fn revert_keeps_values_changed_by_others(_: &str) -> bool {
    let (home, before) = (Home::new(), bytes());
    home.hairpin("tune apply tcp_pingpong_thresh=7 --yes");
    fs::write("/proc/sys/net/ipv4/tcp_pingpong_thresh", "9").expect("written");
    let done = home.hairpin("tune revert");
    assert_eq!(done.code, Some(1), "{done:?}");
    assert!(done.out.contains("another program changed it since, to 9"), "{}", done.out);
    assert_eq!(sysctl("net.ipv4.tcp_pingpong_thresh"), "9");
    assert_eq!(home.hairpin("tune revert --force").code, Some(0));
    assert_eq!(bytes(), before);
    true
}

fn a_tap_coalesces_frames(name: &str) -> bool {
    let made =
        Command::new("ip").args(["tuntap", "add", "dev", "hp-tap", "mode", "tap"]).status().is_ok_and(|status| status.success());
    if !can(name, made, "it takes ip(8) and tap devices") {
        return false;
    }
    let home = Home::new();
    let frames = || home.json("tune list rx_frames -i hp-tap")["knobs"][0]["now"].clone();
    assert_eq!(frames(), 0);
    let applied = home.hairpin("tune apply rx_frames=16 -i hp-tap --yes");
    assert_eq!(applied.code, Some(0), "{applied:?}");
    assert_eq!(frames(), 16);
    // The driver takes at most 64, and cuts more without an error.
    let refused = home.hairpin("tune apply rx_frames=200 -i hp-tap --yes");
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.out.contains("wanted 200, but it is 64"), "{}", refused.out);
    assert_eq!(frames(), 16, "put back");
    assert_eq!(home.hairpin("tune revert").code, Some(0));
    assert_eq!(frames(), 0);
    // Under the sysfs of another namespace only files can be changed, and there are none.
    let under_outer = |words: &str| {
        let mut command = home.command("nsenter");
        let mount = format!("--mount=/proc/{}/ns/mnt", std::os::unix::process::parent_id());
        command.args([mount.as_str(), HAIRPIN]).args(words.split(' '));
        home.spawn(command).done()
    };
    let set = "tune apply gro_flush_timeout_ns=7 -i hp-tap --yes";
    under_outer(set).fails(1, &["another network namespace", "ip netns exec"]);
    // Nor are they gone there.
    assert_eq!(home.hairpin(set).code, Some(0));
    let reverted = under_outer("tune revert");
    assert!(reverted.code == Some(1) && unwrapped(&reverted.out).contains("another network namespace"), "{reverted:?}");
    assert_eq!(home.hairpin("tune revert").code, Some(0));
    // A renamed one is found again.
    home.hairpin("tune apply rx_frames=16 -i hp-tap --yes");
    command("ip link set hp-tap name hp-tap2");
    let renamed = home.hairpin("tune revert");
    assert!(renamed.code == Some(1) && unwrapped(&renamed.out).contains("is called hp-tap2 now"), "{renamed:?}");
    command("ip link set hp-tap2 name hp-tap");
    assert_eq!(home.hairpin("tune revert").code, Some(0));
    // The interface goes while it is changed.
    home.hairpin("tune apply rx_frames=16 -i hp-tap --yes");
    command("ip link del hp-tap");
    let gone = home.hairpin("tune revert");
    assert_eq!(gone.code, Some(0), "{gone:?}");
    assert!(gone.out.contains("no longer exists"), "{}", gone.out);
    true
}

fn a_veth_has_offloads_queues_and_routes(name: &str) -> bool {
    let made = Command::new("ip").args(["link", "add", "hp-a", "type", "veth", "peer", "name", "hp-b"]).status();
    if !can(name, made.is_ok_and(|status| status.success()), "it takes ip(8) and veth") {
        return false;
    }
    for line in [
        "ip link set hp-a up",
        "ip link set hp-b up",
        "ip addr add 198.18.7.1/24 dev hp-a",
        "ip route add 198.18.8.0/24 via 198.18.7.2",
    ] {
        command(line);
    }
    let home = Home::new();
    // Before anything else: with GRO a veth has NAPI instances.
    command("ethtool -K hp-a gro on");
    let before = home.json("tune list -i hp-a");
    let files = |of: &str| -> BTreeMap<String, Vec<u8>> {
        let names = ["gro_flush_timeout", "napi_defer_hard_irqs", "threaded", "queues/rx-0/rps_cpus", "queues/rx-0/rps_flow_cnt"];
        names.iter().map(|name| ((*name).to_owned(), fs::read(format!("/sys/class/net/{of}/{name}")).expect(name))).collect()
    };
    let bytes = files("hp-a");
    let routes = || Command::new("ip").args(["route", "show", "dev", "hp-a"]).output().expect("routes").stdout;
    let (routes_before, settings) = (
        routes(),
        "tso=off gso=off lro=off gro_flush_timeout_ns=20000 napi_defer_hard_irqs=2 napi_threaded=1 rps_cpus=0 rps_flow_count=64 \
         irq_suspend_timeout_ns=10000 qdisc=pfifo_fast quickack_routes=on",
    );
    // Some of these a veth may have as wanted already; some kernels have not all of them.
    let there: Vec<&str> = settings
        .split_whitespace()
        .filter(|setting| home.hairpin(&format!("tune apply {setting} -i hp-a --dry-run")).code == Some(0))
        .collect();
    for must in [
        "gro_flush_timeout_ns=20000",
        "rps_cpus=0",
        "qdisc=pfifo_fast",
        "quickack_routes=on",
        "tso=off",
        "irq_suspend_timeout_ns=10000",
    ] {
        assert!(there.contains(&must), "{must} is not among {there:?}");
    }
    let applied = home.hairpin(&format!("tune apply {} -i hp-a --yes", there.join(" ")));
    assert_eq!(applied.code, Some(0), "{applied:?}");
    let now = home.json("tune list -i hp-a");
    let fact = |list: &Value, name: &str| {
        list["knobs"]
            .as_array()
            .unwrap()
            .iter()
            .find(|knob| knob["name"] == name)
            .map(|knob| knob["now"].clone())
            .unwrap_or_default()
    };
    assert_eq!(
        (fact(&now, "qdisc"), fact(&now, "quickack_routes"), fact(&now, "tso")),
        ("pfifo_fast".into(), "on".into(), false.into())
    );
    assert_eq!((fact(&now, "irq_suspend_timeout_ns"), fact(&now, "rps_cpus")), (10000.into(), "0".into()));
    let shown = String::from_utf8(routes()).expect("text");
    assert!(shown.contains("quickack 1") && shown.contains("198.18.8.0/24 via 198.18.7.2"), "{shown}");
    let reverted = home.hairpin("tune revert");
    assert_eq!(reverted.code, Some(0), "{reverted:?}");
    assert_eq!(home.json("tune list -i hp-a"), before);
    assert_eq!((files("hp-a"), routes()), (bytes, routes_before));
    // A qdisc set up by hand has parameters that would be lost.
    command("tc qdisc add dev hp-a root tbf rate 1gbit burst 10k limit 100k");
    let refused = home.hairpin("tune apply qdisc=pfifo_fast -i hp-a --yes");
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.out.contains("that were set up by hand"), "{}", refused.out);
    command("ip link del hp-a");
    true
}

fn another_namespace_is_left_alone(_: &str) -> bool {
    let (home, before) = (Home::new(), bytes());
    home.hairpin("tune apply tcp_autocorking=off --yes");
    let mut elsewhere = home.command("unshare");
    elsewhere.args(["--net", crate::support::HAIRPIN, "tune", "revert"]);
    let done = home.spawn(elsewhere).done();
    assert_eq!(done.code, Some(1), "{done:?}");
    assert!(unwrapped(&done.out).contains("revert it there"), "{}", done.out);
    assert_eq!(home.hairpin("tune revert").code, Some(0));
    assert_eq!(bytes(), before);
    true
}
