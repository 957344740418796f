//! Every setting on a host made of files: applied, applied again, reverted, and every byte as before. And every way this can
//! fail.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use hairpin_sys::device::{Attribute, DeviceError};
use hairpin_sys::ethtool::{DriverInfo, EthtoolError};
use hairpin_sys::host::{FakeHost, Held, Host, Refusal};
use hairpin_sys::napi::{Napi, NapiSetting};

use super::{PLACE, whole};
use crate::change::{Address, Change, Trouble};
use crate::journal::{About, Entry, Head, Journal, JournalError};
use crate::plan::{PlanError, keep_first};
use crate::revert::Outcome;
use crate::{Knob, Place, Setting, all, plan};

/// Every file below a directory and its bytes.
pub(super) fn tree(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut open = vec![root.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_symlink() {
                continue;
            }
            if path.is_dir() {
                files.insert(path.clone(), Vec::new());
                open.push(path);
            } else {
                files.insert(path.clone(), fs::read(&path).unwrap());
            }
        }
    }
    files
}

/// A host and a journal.
pub(super) struct Scene {
    _directory: tempfile::TempDir,
    pub(super) root: PathBuf,
    pub(super) host: FakeHost,
    pub(super) journal: Journal,
}

pub(super) fn scene() -> Scene {
    // In memory if possible: every entry is synced to the disk.
    let directory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let root = directory.path().join("host");
    let host = whole(&root);
    let journal = Journal::at(directory.path().join("journal"));
    Scene { _directory: directory, root, host, journal }
}

impl Scene {
    pub(super) fn is_empty(&self) -> bool {
        self.journal.entries().unwrap().is_empty()
    }

    /// Applies and keeps `settings`; returns the refusals.
    pub(super) fn apply(&self, host: &FakeHost, settings: &[Setting]) -> Vec<Trouble> {
        let changes = plan(host, &PLACE, settings).unwrap();
        let mut tuning = self.journal.begin(host, changes, &About::default()).unwrap();
        let troubles = (0..tuning.changes().len()).filter_map(|index| tuning.on(index).err()).collect();
        tuning.keep().unwrap();
        troubles
    }

    pub(super) fn revert(&self) -> crate::revert::Reverted {
        self.journal.revert(&self.host, &[], false, "test").unwrap()
    }
}

/// A value that differs from the present one.
pub(super) fn another(knob: &Knob) -> Setting {
    let candidates = [
        "0",
        "1",
        "2",
        "4",
        "64",
        "4096",
        "65536",
        "on",
        "off",
        "none",
        "all",
        "1",
        "0-1",
        "0",
        "performance",
        "powersave",
        "hpet",
        "never",
        "fq",
        "reno",
        "1,2,3",
    ];
    // Shared by all calls: nothing is written to it.
    static HOST: OnceLock<(tempfile::TempDir, FakeHost)> = OnceLock::new();
    let (_, host) = HOST.get_or_init(|| {
        let directory = tempfile::tempdir().unwrap();
        let host = whole(directory.path());
        (directory, host)
    });
    let host_has = |setting: &Setting| plan(host, &PLACE, std::slice::from_ref(setting)).unwrap().is_empty();
    let accepted = candidates.iter().filter_map(|value| Setting::new(knob.name, value).ok());
    let setting = accepted.into_iter().find(|setting| !host_has(setting));
    setting.unwrap_or_else(|| panic!("no value of {} differs", knob.name))
}

/// Every knob that can be changed.
fn settable() -> impl Iterator<Item = &'static Knob> {
    all().filter(|knob| knob.change.is_some())
}

fn is_held(knob: &Knob) -> bool {
    knob.change.as_ref().is_some_and(|change| change.is_held())
}

pub(super) fn setting(text: &str) -> Setting {
    text.parse().unwrap()
}

#[test]
fn apply_twice_and_revert_is_identity_for_every_setting() {
    for knob in settable() {
        let scene = scene();
        let before = tree(&scene.root);
        let setting = another(knob);
        assert_eq!(scene.apply(&scene.host, std::slice::from_ref(&setting)), [], "{setting}");
        if is_held(knob) {
            assert_eq!(tree(&scene.root), before, "{setting}: a demand leaves nothing");
            assert!(scene.is_empty());
            continue;
        }
        let after = tree(&scene.root);
        assert_ne!(after, before, "{setting} changes nothing");
        assert!(plan(&scene.host, &PLACE, std::slice::from_ref(&setting)).unwrap().is_empty(), "{setting} holds");
        assert_eq!(scene.apply(&scene.host, std::slice::from_ref(&setting)), [], "{setting}");
        assert_eq!(tree(&scene.root), after, "{setting} again");
        let report = scene.revert();
        assert!(
            !report.incomplete && report.changes.iter().all(|(_, outcome)| *outcome == Outcome::Reverted),
            "{setting}: {report:?}"
        );
        assert_eq!(tree(&scene.root), before, "{setting} reverted");
        assert!(scene.is_empty());
    }
}

#[test]
fn all_settings_go_on_and_off_under_one_entry() {
    let scene = scene();
    let before = tree(&scene.root);
    let settings: Vec<Setting> = settable().map(another).collect();
    let changes = plan(&scene.host, &PLACE, &settings).unwrap();
    let mut tuning = scene.journal.begin(&scene.host, changes, &About::default()).unwrap();
    let count = tuning.changes().len();
    let mut first = None;
    for _ in 0..3 {
        for index in 0..count {
            tuning.on(index).unwrap();
        }
        let with = first.get_or_insert_with(|| tree(&scene.root));
        assert_eq!(tree(&scene.root), *with);
        for index in (0..count).rev() {
            tuning.off(index).unwrap();
        }
        assert_eq!(tree(&scene.root), before);
    }
    assert_eq!(scene.journal.entries().unwrap().len(), 1);
    (0..count).for_each(|index| tuning.on(index).unwrap());
    drop(tuning);
    assert_eq!(tree(&scene.root), before, "dropped");
    assert!(scene.is_empty());
}

#[test]
fn reverts_either_of_two_values_of_one_setting() {
    let scene = scene();
    let before = tree(&scene.root);
    let mut changes = plan(&scene.host, &PLACE, &[setting("busy_poll_us=10")]).unwrap();
    changes.extend(plan(&scene.host, &PLACE, &[setting("busy_poll_us=20")]).unwrap());
    let mut tuning = scene.journal.begin(&scene.host, changes, &About::default()).unwrap();
    for index in [0, 1, 0, 1] {
        tuning.on(index).unwrap();
        tuning.off(index).unwrap();
    }
    tuning.on(1).unwrap();
    std::mem::forget(tuning);
    // For the journal the process has ended; its lock is tested below.
    let entry = scene.journal.entries().unwrap().remove(0).entry.unwrap();
    assert_eq!(entry.changes.len(), 2);
    let elsewhere = Journal::at(scene.root.with_file_name("copy"));
    fs::create_dir(elsewhere.dir()).unwrap();
    fs::copy(scene.journal.dir().join("0001.jsonl"), elsewhere.dir().join("0001.jsonl")).unwrap();
    assert!(matches!(scene.journal.revert(&scene.host, &[], false, "test"), Err(JournalError::Busy { .. })));
    assert!(!elsewhere.revert(&scene.host, &[], false, "test").unwrap().incomplete);
    assert_eq!(tree(&scene.root), before);
}

#[test]
fn puts_back_and_reports_refused_values() {
    let refusals = [Refusal::Ignored, Refusal::Error(libc::EINVAL), Refusal::Error(libc::EROFS), Refusal::Error(libc::EPERM)];
    let scene = scene();
    let before = tree(&scene.root);
    for knob in settable().filter(|knob| !is_held(knob)) {
        let changes = plan(&scene.host, &PLACE, &[another(knob)]).unwrap();
        for refusal in refusals {
            // A write of the file for new NAPI instances sets the existing ones too: it is the write to refuse.
            let of_file = changes.iter().rfind(|change| matches!(change.address, Address::File { .. }));
            let last = of_file.or(changes.last()).unwrap();
            let at = match &last.address {
                Address::Device { interface, attribute } => format!("{interface} {}", attribute.name()),
                Address::Napi { interface, setting, instance } => format!("{interface} {instance} {}", setting.name()),
                Address::Partition { path } if refusal == Refusal::Ignored => format!("{path}/cpuset.cpus.partition"),
                other => other.to_string(),
            };
            let host = scene.host.clone().with_refusal(&at, refusal);
            let troubles = scene.apply(&host, &[another(knob)]);
            assert_eq!(troubles.len(), 1, "{} {refusal:?}: {troubles:?}", knob.name);
            match (&troubles[0], refusal) {
                (Trouble::Refused { wanted, got, .. }, Refusal::Ignored | Refusal::Error(libc::EINVAL)) => {
                    assert!(!last.address.same(wanted, got), "{}", knob.name);
                }
                (Trouble::Denied { remedy, .. }, Refusal::Error(libc::EPERM)) => assert!(remedy.contains("root")),
                (Trouble::Refused { .. }, Refusal::Error(libc::EPERM)) => assert!(rustix::process::geteuid().is_root()),
                (Trouble::Denied { .. } | Trouble::Refused { .. }, Refusal::Error(libc::EROFS)) => {}
                other => panic!("{}: {other:?}", knob.name),
            }
            // Values of the same setting that were accepted are still to be reverted.
            assert!(!scene.revert().incomplete);
            assert_eq!(tree(&scene.root), before, "{} {refusal:?}", knob.name);
        }
    }
}

#[test]
fn a_value_that_not_even_root_may_set_costs_this_setting_alone() {
    let scene = scene();
    // As intel_pstate does it where the firmware has turbo off.
    let turbo = "/sys/devices/system/cpu/intel_pstate/no_turbo";
    let host = scene.host.clone().with_refusal(turbo, Refusal::Error(libc::EPERM));
    let changes = plan(&host, &PLACE, &[setting("turbo=on"), setting("tcp_autocorking=off")]).unwrap();
    let mut tuning = scene.journal.begin(&host, changes, &About::default()).unwrap();
    let applied = tuning.apply(|| Ok(Vec::new()));
    let outcomes: Vec<&str> = applied.changes.changes.iter().map(|row| row.outcome.as_str()).collect();
    if rustix::process::geteuid().is_root() {
        assert!(applied.refused && !applied.denied, "{applied:?}");
        assert_eq!(outcomes, ["refused", "applied"]);
        let why = applied.changes.changes[0].why.as_deref().unwrap();
        assert!(why.contains("wanted 0, but it is 1") && !why.contains("as root"), "{why}");
    } else {
        assert!(applied.denied, "{applied:?}");
    }
}

#[test]
fn leaves_values_changed_by_others_unless_forced() {
    let scene = scene();
    let before = tree(&scene.root);
    scene.apply(&scene.host, &[setting("busy_poll_us=10"), setting("rx_usecs=0")]);
    let theirs = scene.host.clone().with("/proc/sys/net/core/busy_poll", "77\n");
    let report = scene.journal.revert(&theirs, &[], false, "test").unwrap();
    assert!(report.incomplete);
    let outcomes: Vec<&Outcome> = report.changes.iter().map(|(_, outcome)| outcome).collect();
    assert_eq!(outcomes, [&Outcome::Reverted, &Outcome::Changed { now: "77".to_owned() }]);
    assert_eq!(scene.journal.orphans().unwrap().len(), 0, "an entry that is left is not an orphan");
    let report = scene.journal.revert(&theirs, &[], true, "test").unwrap();
    assert!(!report.incomplete && scene.is_empty());
    assert_eq!(tree(&scene.root), before);
}

#[test]
fn temporary_changes_leave_values_changed_by_others_too() {
    let scene = scene();
    let host = scene.host.clone().with_attribute("eth0", Attribute::Stamping, "tx=0,rx=0,flags=0");
    let before = tree(&scene.root);
    let changes = plan(&host, &PLACE, &[setting("hardware_timestamping=on"), setting("busy_poll_us=10")]).unwrap();
    let mut tuning = scene.journal.begin(&host, changes, &About::default()).unwrap();
    (0..2).for_each(|index| tuning.on(index).unwrap());
    // ptp4l wants PTP's events alone.
    let _ = host.clone().with_attribute("eth0", Attribute::Stamping, "tx=1,rx=12,flags=0");
    let left: Vec<String> = tuning.restore().unwrap_err().iter().map(Trouble::to_string).collect();
    assert_eq!(left.len(), 1, "{left:?}");
    assert!(left[0].contains("stamping of eth0: another program changed it since, to tx=1,rx=12,flags=0"), "{left:?}");
    assert_eq!(scene.journal.orphans().unwrap().len(), 0, "an entry that is left is not an orphan");
    let report = scene.revert();
    assert!(matches!(&report.changes[..], [(_, Outcome::Changed { now })] if now == "tx=1,rx=12,flags=0"), "{report:?}");
    assert!(!scene.journal.revert(&host, &[], true, "test").unwrap().incomplete && scene.is_empty());
    assert_eq!(tree(&scene.root), before);
}

#[test]
fn reverts_only_the_named_settings() {
    let scene = scene();
    let before = tree(&scene.root);
    scene.apply(&scene.host, &[setting("busy_poll_us=10"), setting("rx_usecs=0")]);
    scene.apply(&scene.host, &[setting("busy_poll_us=20")]);
    let names = ["busy_poll_us".to_owned(), "gro".to_owned()];
    let report = scene.journal.revert(&scene.host, &names, false, "test").unwrap();
    assert_eq!(report.changes.len(), 2);
    assert_eq!(report.unknown, ["gro"]);
    assert_eq!(scene.journal.entries().unwrap().len(), 1);
    scene.revert();
    assert_eq!(tree(&scene.root), before);
}

#[test]
fn a_removed_interface_leaves_nothing_to_revert() {
    let scene = scene();
    scene.apply(&scene.host, &[setting("rx_usecs=0"), setting("gro_flush_timeout_ns=0"), setting("busy_poll_us=10")]);
    let host = scene.host.clone().without_device("eth0");
    let report = scene.journal.revert(&host, &[], false, "test").unwrap();
    assert!(!report.incomplete, "{report:?}");
    // The two settings, and the second one's two NAPI instances.
    assert_eq!(report.changes.iter().filter(|(_, outcome)| *outcome == Outcome::Gone).count(), 4);
    assert!(scene.is_empty());
    // The same while an experiment runs.
    let scene = super::changes::scene();
    let changes = plan(&scene.host, &PLACE, &[setting("rx_usecs=0")]).unwrap();
    let mut tuning = scene.journal.begin(&scene.host, changes, &About::default()).unwrap();
    tuning.on(0).unwrap();
    let _ = scene.host.clone().without_device("eth0");
    assert_eq!(tuning.restore(), Ok(()));
    assert!(scene.is_empty());
}

#[test]
fn after_a_reboot_it_writes_nothing_and_says_so() {
    let scene = scene();
    scene.apply(&scene.host, &[setting("busy_poll_us=10")]);
    // The boot undid it, and somebody set the same value again.
    let booted = scene.host.clone().with("/proc/sys/kernel/random/boot_id", "9d3f1c1e-0000-4000-8000-000000000002\n");
    let before = tree(&scene.root);
    let report = scene.journal.revert(&booted, &[], false, "test").unwrap();
    assert!(!report.incomplete);
    assert_eq!(report.changes[0].1, Outcome::Booted);
    assert!(report.notes[0].contains("the host has rebooted since"), "{:?}", report.notes);
    assert_eq!(tree(&scene.root), before);
    assert!(scene.is_empty());
}

/// Puts this process into a network namespace.
fn enter_network(number: u32, scene: &Scene) {
    let link = scene.root.join("proc/thread-self/ns/net");
    fs::create_dir_all(link.parent().unwrap()).unwrap();
    let _ = fs::remove_file(&link);
    std::os::unix::fs::symlink(format!("net:[{number}]"), link).unwrap();
}

#[test]
fn leaves_other_network_namespaces_alone() {
    let scene = scene();
    enter_network(1, &scene);
    scene.apply(&scene.host, &[setting("busy_poll_us=10"), setting("timer_migration=off")]);
    enter_network(2, &scene);
    let report = scene.revert();
    assert!(report.incomplete);
    let outcomes: Vec<&Outcome> = report.changes.iter().map(|(_, outcome)| outcome).collect();
    assert_eq!(outcomes, [&Outcome::Reverted, &Outcome::Elsewhere { network: "net:[1]".to_owned() }]);
    enter_network(1, &scene);
    assert!(!scene.revert().incomplete);
}

#[test]
fn what_a_network_namespace_took_along_is_given_up_if_forced() {
    let scene = scene();
    enter_network(1, &scene);
    scene.apply(&scene.host, &[setting("tcp_autocorking=off"), setting("busy_poll_us=10")]);
    enter_network(2, &scene);
    let before = tree(&scene.root);
    let advice = crate::rows::reverted(&scene.revert()).changes;
    let may_be_given_up = advice.iter().map(|row| row.why.as_deref().is_some_and(|why| why.contains("--force")));
    assert_eq!(may_be_given_up.collect::<Vec<bool>>(), [false, true], "{advice:?}");
    let report = scene.journal.revert(&scene.host, &[], true, "test").unwrap();
    let outcomes: Vec<&Outcome> = report.changes.iter().map(|(_, outcome)| outcome).collect();
    // All namespaces share the first.
    assert_eq!(outcomes, [&Outcome::Elsewhere { network: "net:[1]".to_owned() }, &Outcome::Gone]);
    assert_eq!(report.notes, ["entry 0001: what it changed in the network namespace net:[1] is given up"]);
    assert_eq!(tree(&scene.root), before);
    let left = scene.journal.entries().unwrap().remove(0).entry.unwrap();
    assert_eq!((left.changes.len(), left.changes[0].knob.as_str()), (1, "busy_poll_us"));
}

#[test]
fn a_renamed_interface_keeps_its_entry_until_it_has_its_name_again_or_is_given_up() {
    let scene = scene();
    let host = scene.host.clone().with_attribute("eth0", Attribute::Index, "7");
    let before = tree(&scene.root);
    let rename = |from: &str, to: &str| {
        for above in ["sys/class/net", ".devices"].map(|above| scene.root.join(above)) {
            fs::rename(above.join(from), above.join(to)).unwrap();
        }
    };
    scene.apply(&host, &[setting("rx_usecs=0"), setting("gro_flush_timeout_ns=0")]);
    rename("eth0", "lan0");
    let rows = crate::rows::reverted(&scene.revert()).changes;
    let says = |why: &str| why.contains("the interface is called lan0 now") && why.ends_with("--force");
    assert!(rows.iter().all(|row| row.outcome == "failed" && row.why.as_deref().is_some_and(says)), "{rows:?}");
    assert_eq!(scene.journal.status(&host).unwrap().entries[0].changes[0].outcome, "failed");
    rename("lan0", "eth0");
    assert!(!scene.revert().incomplete && scene.is_empty());
    assert_eq!(tree(&scene.root), before);
    // While an experiment runs.
    let changes = plan(&host, &PLACE, &[setting("rx_usecs=0")]).unwrap();
    let mut tuning = scene.journal.begin(&host, changes, &About::default()).unwrap();
    tuning.on(0).unwrap();
    rename("eth0", "lan0");
    let left = tuning.restore().unwrap_err();
    assert!(matches!(&left[..], [Trouble::Renamed { now, .. }] if now == "lan0"), "{left:?}");
    assert_eq!(scene.journal.orphans().unwrap().len(), 0, "an entry that is left is not an orphan");
    let given_up = scene.journal.revert(&host, &[], true, "test").unwrap();
    assert!(!given_up.incomplete && given_up.changes[0].1 == Outcome::Gone, "{given_up:?}");
    assert!(scene.is_empty());
}

#[test]
fn an_interface_that_took_the_name_of_a_renamed_one_is_left_alone() {
    let scene = scene();
    let host = scene.host.clone().with_attribute("eth0", Attribute::Index, "7");
    scene.apply(&host, &[setting("rx_usecs=0")]);
    for above in ["sys/class/net", ".devices"].map(|above| scene.root.join(above)) {
        fs::rename(above.join("eth0"), above.join("lan0")).unwrap();
    }
    let host = host.with_directory("/sys/class/net/eth0").with_attribute("eth0", Attribute::Index, "9");
    let host = host.with_attribute("eth0", Attribute::RxUsecs, "0");
    let before = tree(&scene.root);
    assert_eq!(scene.journal.status(&host).unwrap().entries[0].changes[0].outcome, "failed");
    let report = scene.revert();
    assert!(matches!(&report.changes[0].1, Outcome::Failed(Trouble::Renamed { now, .. }) if now == "lan0"), "{report:?}");
    let report = scene.journal.revert(&host, &[], true, "test").unwrap();
    assert_eq!(report.changes[0].1, Outcome::Gone);
    assert!(scene.is_empty());
    assert_eq!(tree(&scene.root), before);
}

#[test]
fn refuses_a_second_process_and_names_the_first() {
    let scene = scene();
    let changes = || plan(&scene.host, &PLACE, &[setting("busy_poll_us=10")]).unwrap();
    let about = About { command: vec!["hairpin".to_owned(), "tune".to_owned()], started: String::new() };
    let first = scene.journal.begin(&scene.host, changes(), &about).unwrap();
    let Err(error) = scene.journal.begin(&scene.host, changes(), &about) else { panic!("two at once") };
    assert!(error.to_string().contains(&format!("process {}: hairpin tune", std::process::id())), "{error}");
    assert_eq!(scene.journal.orphans().unwrap().len(), 0, "its process lives");
    drop(first);
    assert!(scene.journal.begin(&scene.host, changes(), &about).is_ok());
}

#[test]
fn refuses_an_outdated_plan() {
    let scene = scene();
    let changes = |value: &str| plan(&scene.host, &PLACE, &[setting(&format!("busy_poll_us={value}"))]).unwrap();
    // Two users plan from the same value.
    let (first, second) = (changes("10"), changes("20"));
    let mut tuning = scene.journal.begin(&scene.host, first, &About::default()).unwrap();
    tuning.on(0).unwrap();
    tuning.keep().unwrap();
    let after = tree(&scene.root);
    let Err(error) = scene.journal.begin(&scene.host, second, &About::default()) else { panic!("an outdated plan is accepted") };
    assert!(matches!(&error, JournalError::Stale { now, .. } if now == "10"), "{error}");
    assert!(error.to_string().contains("run it again"), "{error}");
    assert_eq!((tree(&scene.root), scene.journal.entries().unwrap().len()), (after, 1));
    assert!(scene.journal.begin(&scene.host, changes("20"), &About::default()).is_ok(), "a new plan is accepted");
}

#[test]
fn rejects_missing_cpus() {
    let scene = scene();
    for (asked, cpu) in [("rps_cpus=2", 2), ("xps_cpus=0-7", 2), ("irq_affinity=0,40", 40)] {
        let error = plan(&scene.host, &PLACE, &[setting(asked)]).unwrap_err();
        assert!(matches!(&error, PlanError::Cpu { cpu: found, present, .. } if *found == cpu && present == "0-1"), "{error:?}");
        assert!(error.to_string().contains(&format!("there is no CPU {cpu}; this host has 0-1")), "{error}");
    }
    let changes = plan(&scene.host, &PLACE, &[setting("rps_cpus=1")]).unwrap();
    let row = &crate::rows::planned(&changes).changes[0];
    assert_eq!((row.to.as_str(), row.to_cpus.as_deref()), ("00000002", Some("1")));
}

#[test]
fn changes_nothing_without_a_writable_journal() {
    let scene = scene();
    let before = tree(&scene.root);
    let journal = Journal::at("/proc/hairpin");
    let changes = plan(&scene.host, &PLACE, &[setting("busy_poll_us=10")]).unwrap();
    let Err(error) = journal.begin(&scene.host, changes, &About::default()) else { panic!("written") };
    assert!(error.to_string().contains("set $HAIRPIN_JOURNAL"), "{error}");
    assert_eq!(tree(&scene.root), before);
}

#[test]
fn truncated_entry_reverts_its_readable_changes_and_reports_the_rest() {
    let settings = [setting("busy_poll_us=10"), setting("busy_read_us=10"), setting("rx_usecs=0")];
    let whole = scene();
    whole.apply(&whole.host, &settings);
    let length = fs::metadata(whole.journal.dir().join("0001.jsonl")).unwrap().len() as usize;
    // The parser's own test truncates at every byte; here at the ends of lines and in their middles.
    let text = fs::read_to_string(whole.journal.dir().join("0001.jsonl")).unwrap();
    let ends: Vec<usize> = text.match_indices('\n').map(|(at, _)| at + 1).collect();
    let middles = ends.iter().map(|end| end - 20);
    for end in middles.chain(ends.iter().copied()).chain([0, 1, length - 1]) {
        let scene = scene();
        let before = tree(&scene.root);
        scene.apply(&scene.host, &settings);
        let file = scene.journal.dir().join("0001.jsonl");
        let bytes = fs::read(&file).unwrap();
        fs::write(&file, &bytes[..end.min(bytes.len())]).unwrap();
        let known = scene.journal.entries().unwrap().remove(0).entry.map(|entry| entry.changes.len());
        let report = scene.revert();
        match known {
            Ok(3) => {
                assert!(!report.incomplete, "{end}: {report:?}");
                assert_eq!(tree(&scene.root), before, "{end}");
            }
            Ok(known) => {
                assert_eq!(report.changes.iter().filter(|(_, outcome)| *outcome == Outcome::Reverted).count(), known, "{end}");
                assert!(report.incomplete && report.notes.iter().any(|note| note.contains("is damaged")), "{end}: {report:?}");
            }
            Err(_) => {
                assert!(
                    report.incomplete && report.notes.iter().any(|note| note.contains("0001.jsonl: its first line is damaged")),
                    "{report:?}"
                );
                assert!(file.exists(), "an unreadable entry is not removed");
            }
        }
    }
}

#[test]
fn planning_only_reads_and_explains_its_errors() {
    let scene = scene();
    let before = tree(&scene.root);
    let error = |place: &Place<'_>, settings: &[Setting]| plan(&scene.host, place, settings).unwrap_err();
    assert_eq!(error(&Place::default(), &[setting("rx_usecs=0")]), PlanError::NoInterface("rx_usecs"));
    let nowhere = Place { cpus: &[], interface: Some("eth7") };
    assert_eq!(error(&nowhere, &[setting("rx_usecs=0")]), PlanError::Interface("eth7".to_owned()));
    assert_eq!(error(&PLACE, &[setting("gro=on"), setting("gro=off")]), PlanError::Twice("gro"));
    let bare = FakeHost::at(scene.root.join("nothing")).with_directory("/sys/class/net/eth0").with_device("eth0");
    for knob in settable() {
        let absent = plan(&bare, &PLACE, &[another(knob)]).unwrap_err();
        assert!(matches!(absent, PlanError::Absent { .. }) && absent.is_missing(), "{}: {absent}", knob.name);
    }
    let denied = scene.host.clone().with_error("/dev/cpu_dma_latency", libc::EACCES);
    assert!(plan(&denied, &PLACE, &[setting("cpu_dma_latency_us=0")]).unwrap_err().is_missing());
    let mut after = tree(&scene.root);
    after.retain(|path, _| !path.starts_with(scene.root.join("nothing")));
    assert_eq!(after, before);
}

#[test]
fn never_writes_to_the_sysfs_of_another_namespace() {
    let scene = scene();
    scene.apply(&scene.host, &[setting("gro_flush_timeout_ns=0"), setting("rx_usecs=0")]);
    let mixed = scene.host.clone().with("/sys/class/net/eth0/ifindex", "2\n").with_attribute("eth0", Attribute::Index, "7");
    let before = tree(&scene.root);
    let error = plan(&mixed, &PLACE, &[setting("napi_threaded=1")]).unwrap_err().to_string();
    assert!(error.contains("another network namespace"), "{error}");
    let report = scene.journal.revert(&mixed, &[], true, "test").unwrap();
    assert!(report.incomplete && report.changes.iter().any(|(_, outcome)| matches!(outcome, Outcome::Failed(_))), "{report:?}");
    let mut after = tree(&scene.root);
    // Netlink and ethtool reach the right one.
    after.retain(|path, _| !path.ends_with("rx-usecs") && !path.ends_with("gro-flush-timeout"));
    assert!(after.iter().all(|(path, bytes)| before.get(path) == Some(bytes)));
    let one = scene.host.clone().with("/sys/class/net/eth0/ifindex", "7\n");
    assert!(!scene.journal.revert(&one, &[], false, "test").unwrap().incomplete);
}

#[test]
fn a_sysfs_without_the_interface_is_not_taken_for_its_end() {
    let scene = scene();
    let host = scene.host.clone().with_attribute("eth0", Attribute::Index, "7");
    let before = tree(&scene.root);
    scene.apply(&host, &[setting("rps_cpus=0"), setting("rx_usecs=0")]);
    let (shown, hidden) = (scene.root.join("sys/class/net/eth0"), scene.root.join("eth0"));
    fs::rename(&shown, &hidden).unwrap();
    let report = scene.revert();
    let [(_, Outcome::Reverted), (_, Outcome::Failed(why))] = &report.changes[..] else { panic!("{report:?}") };
    assert!(why.to_string().contains("another network namespace"), "{why}");
    assert_eq!(scene.journal.status(&host).unwrap().entries[0].changes[0].outcome, "failed");
    fs::rename(&hidden, &shown).unwrap();
    assert!(!scene.revert().incomplete && scene.is_empty());
    assert_eq!(tree(&scene.root), before);
}

#[test]
fn a_plan_lists_each_place_with_both_values() {
    let scene = scene();
    let changes =
        plan(&scene.host, &PLACE, &[setting("scaling_governor=performance"), setting("turbo=on"), setting("xps_cpus=0")])
            .unwrap();
    let shown: Vec<String> =
        changes.iter().map(|Change { address, from, to, .. }| format!("{address}: {from} -> {to}")).collect();
    assert_eq!(
        shown,
        [
            "/sys/devices/system/cpu/cpu1/cpufreq/scaling_governor: powersave -> performance",
            "/sys/devices/system/cpu/intel_pstate/no_turbo: 1 -> 0",
            "/sys/class/net/eth0/queues/tx-1/xps_cpus: 2 -> 00000001",
        ]
    );
    let one = Place { cpus: &[1], interface: None };
    let idle = plan(&scene.host, &one, &[setting("idle_states=0")]).unwrap();
    assert!(idle.is_empty(), "state1 of CPU 1 is disabled already: {idle:?}");
    let resume = plan(&scene.host, &one, &[setting("resume_latency_us=0")]).unwrap();
    assert_eq!((resume.len(), resume[0].from.as_str(), resume[0].to.as_str()), (1, "0", "n/a"));
}

#[test]
fn refuses_a_value_that_the_device_rounds() {
    let scene = scene();
    let before = tree(&scene.root);
    let host = scene.host.clone().with_refusal("eth0 rx-usecs", Refusal::Ignored);
    assert_eq!(scene.apply(&host, &[setting("rx_usecs=3")])[0].to_string(), "rx-usecs of eth0: wanted 3, but it is 8");
    assert!(scene.is_empty(), "nothing changed, so nothing is to be reverted");
    assert_eq!(tree(&scene.root), before);
}

/// Gives eth0 these interrupts instead of those that it has.
fn interrupts(scene: &Scene, numbers: &[u32]) -> FakeHost {
    let mut host = scene.host.clone();
    for directory in ["sys/class/net/eth0/device/msi_irqs", "proc/irq"] {
        fs::remove_dir_all(scene.root.join(directory)).unwrap();
    }
    let mut table = "     CPU0 CPU1\n".to_owned();
    for number in numbers {
        table += &format!(" {number}:  5  0  PCI-MSIX-0000:00:04.0   1-edge      eth0-0\n");
        host = host
            .with(&format!("/sys/class/net/eth0/device/msi_irqs/{number}"), "msix\n")
            .with(&format!("/proc/irq/{number}/smp_affinity_list"), "0-1\n");
    }
    host.with("/proc/interrupts", table)
}

#[test]
fn interrupt_settings_apply_to_the_interrupts_that_the_new_channels_have() {
    for (channels, numbers) in [("1", vec![42]), ("8", vec![40, 41, 42])] {
        let scene = scene();
        let two = interrupts(&scene, &[40, 41]);
        let settings = [setting("irq_affinity=1"), setting(&format!("combined_channels={channels}")), setting("rx_usecs=0")];
        let mut changes = plan(&two, &PLACE, &settings).unwrap();
        let knobs = |changes: &[Change]| changes.iter().map(|change| change.knob.clone()).collect::<Vec<_>>();
        assert_eq!(knobs(&changes), ["combined_channels", "irq_affinity", "irq_affinity", "rx_usecs"]);
        assert!(keep_first(&mut changes) && knobs(&changes) == ["combined_channels"]);
        let mut tuning = scene.journal.begin(&two, changes, &About::default()).unwrap();
        let applied = tuning.apply(|| {
            let others = settings.iter().filter(|setting| !setting.control.remakes_interrupts).cloned().collect::<Vec<_>>();
            plan(&interrupts(&scene, &numbers), &PLACE, &others)
        });
        assert!(!applied.refused, "{applied:?}");
        // A killed process leaves the same entry behind as one that ends.
        let killed = scene.journal.entries().unwrap().remove(0).entry.unwrap();
        assert!(!killed.kept && killed.unsettled.is_empty() && killed.cut.is_none(), "{killed:?}");
        tuning.keep().unwrap();
        assert_eq!(scene.journal.entries().unwrap().remove(0).entry.unwrap().changes, killed.changes);
        let affinity = |number: &u32| two.read(&format!("/proc/irq/{number}/smp_affinity_list")).unwrap();
        assert!(numbers.iter().all(|number| affinity(number) == "1"));

        let report = scene.revert();
        let reverted: Vec<&str> = report.changes.iter().map(|(change, _)| change.knob.as_str()).collect();
        assert_eq!((reverted[0], reverted.last()), ("rx_usecs", Some(&"combined_channels")));
        assert!(report.changes.iter().all(|(_, outcome)| *outcome == Outcome::Reverted), "{report:?}");
        assert!(numbers.iter().all(|number| affinity(number) == "0-1") && scene.is_empty());
    }
}

#[test]
fn a_plan_that_replaces_no_interrupts_is_kept_whole() {
    let scene = scene();
    let mut changes = plan(&scene.host, &PLACE, &[setting("irq_affinity=1"), setting("rx_usecs=0")]).unwrap();
    let whole = changes.clone();
    assert!(!keep_first(&mut changes));
    assert_eq!(changes, whole);
}

/// A host whose files and devices are written in a way of its own.
struct Writing<'a> {
    host: &'a FakeHost,
    write: &'a dyn Fn(&FakeHost, &str, &str) -> io::Result<()>,
    set: &'a SetAttribute,
}

type SetAttribute = dyn Fn(&FakeHost, &str, Attribute, &str) -> Result<(), DeviceError>;

impl Host for Writing<'_> {
    fn read_bytes(&self, path: &str) -> io::Result<Vec<u8>> {
        self.host.read_bytes(path)
    }

    fn open(&self, path: &str) -> io::Result<File> {
        self.host.open(path)
    }

    fn list(&self, path: &str) -> io::Result<Vec<String>> {
        self.host.list(path)
    }

    fn exists(&self, path: &str) -> bool {
        self.host.exists(path)
    }

    fn link_target(&self, path: &str) -> io::Result<String> {
        self.host.link_target(path)
    }

    fn driver_info(&self, interface: &str) -> Result<Option<DriverInfo>, EthtoolError> {
        self.host.driver_info(interface)
    }

    fn attribute(&self, interface: &str, attribute: Attribute) -> Result<Option<String>, DeviceError> {
        self.host.attribute(interface, attribute)
    }

    fn set_attribute(&self, interface: &str, attribute: Attribute, text: &str) -> Result<(), DeviceError> {
        (self.set)(self.host, interface, attribute, text)
    }

    fn napis(&self, interface: &str) -> Result<Vec<Napi>, DeviceError> {
        self.host.napis(interface)
    }

    fn set_napi(&self, interface: &str, name: &str, setting: NapiSetting, text: &str) -> Result<(), DeviceError> {
        self.host.set_napi(interface, name, setting, text)
    }

    fn write(&self, path: &str, text: &str) -> io::Result<()> {
        (self.write)(self.host, path, text)
    }

    fn hold(&self, path: &str, bytes: &[u8]) -> io::Result<Held> {
        self.host.hold(path, bytes)
    }

    fn make_directory(&self, path: &str) -> io::Result<()> {
        self.host.make_directory(path)
    }

    fn remove_directory(&self, path: &str) -> io::Result<()> {
        self.host.remove_directory(path)
    }
}

/// A device that changes the first value it is given, and then accepts no more.
fn stubborn() -> impl Fn(&FakeHost, &str, &str) -> io::Result<()> {
    let writes = std::cell::Cell::new(0);
    move |host: &FakeHost, path: &str, text: &str| {
        writes.set(writes.get() + 1);
        if writes.get() > 1 { Err(io::ErrorKind::ResourceBusy.into()) } else { host.write(path, &format!("{text}0")) }
    }
}

#[test]
fn keeps_the_entry_of_a_value_that_cannot_be_put_back() {
    let scene = scene();
    let before = tree(&scene.root);
    let write = stubborn();
    let stubborn = Writing { host: &scene.host, write: &write, set: &FakeHost::set_attribute };
    let changes = plan(&stubborn, &PLACE, &[setting("busy_poll_us=10")]).unwrap();
    let mut tuning = scene.journal.begin(&stubborn, changes, &About::default()).unwrap();
    assert!(matches!(tuning.on(0), Err(Trouble::Refused { got, .. }) if got == "100"));
    assert!(tuning.is_on(0));
    assert_eq!(tuning.restore().unwrap_err().len(), 1);
    assert_eq!(scene.journal.orphans().unwrap().len(), 1);
    // It is neither the wanted nor the old value, but Hairpin wrote it.
    assert!(!scene.revert().incomplete);
    assert_eq!(tree(&scene.root), before);
}

#[test]
fn a_kept_entry_reverts_a_value_that_could_not_be_put_back() {
    let scene = scene();
    let before = tree(&scene.root);
    let write = stubborn();
    let stubborn = Writing { host: &scene.host, write: &write, set: &FakeHost::set_attribute };
    let changes = plan(&stubborn, &PLACE, &[setting("busy_poll_us=10")]).unwrap();
    let mut tuning = scene.journal.begin(&stubborn, changes, &About::default()).unwrap();
    assert!(tuning.on(0).is_err() && tuning.is_on(0));
    tuning.keep().unwrap();
    let report = scene.revert();
    assert!(!report.incomplete, "{report:?}");
    assert_eq!(tree(&scene.root), before);
}

#[test]
fn a_setting_that_another_one_bars_is_put_back_after_it() {
    const GOVERNOR: &str = "/sys/devices/system/cpu/cpu1/cpufreq/scaling_governor";
    const PREFERENCE: &str = "/sys/devices/system/cpu/cpu1/cpufreq/energy_performance_preference";
    let scene = scene();
    let _ = scene.host.clone().with(PREFERENCE, "balance_performance\n");
    let before = tree(&scene.root);
    // As intel_pstate and amd-pstate do it.
    let write = |host: &FakeHost, path: &str, text: &str| {
        let is_barred = path == PREFERENCE && text != "performance" && host.read(GOVERNOR)? == "performance";
        if is_barred { Err(io::ErrorKind::ResourceBusy.into()) } else { host.write(path, text) }
    };
    let host = Writing { host: &scene.host, write: &write, set: &FakeHost::set_attribute };
    let settings = [setting("scaling_governor=performance"), setting("energy_performance_preference=performance")];
    for keeps in [true, false] {
        let changes = plan(&host, &PLACE, &settings).unwrap();
        let mut tuning = scene.journal.begin(&host, changes, &About::default()).unwrap();
        (0..2).for_each(|index| tuning.on(index).unwrap());
        if keeps {
            tuning.keep().unwrap();
            let report = scene.journal.revert(&host, &[], false, "test").unwrap();
            assert!(!report.incomplete, "{report:?}");
        } else {
            assert_eq!(tuning.restore(), Ok(()));
        }
        assert_eq!(tree(&scene.root), before);
        assert!(scene.is_empty());
    }
}

#[test]
fn delays_change_while_coalescing_is_not_adaptive() {
    let scene = scene();
    let before = tree(&scene.root);
    // As i40e, iavf and ice do it.
    let set = |host: &FakeHost, interface: &str, attribute: Attribute, text: &str| {
        let is_adaptive = host.attribute(interface, Attribute::AdaptiveRx)?.as_deref() == Some("on");
        if attribute == Attribute::RxUsecs && is_adaptive {
            let source = io::Error::from_raw_os_error(libc::EINVAL);
            return Err(DeviceError::Fake { what: attribute.name(), interface: interface.to_owned(), source });
        }
        host.set_attribute(interface, attribute, text)
    };
    let host = Writing { host: &scene.host, write: &FakeHost::write, set: &set };
    let settings = [setting("rx_usecs=0"), setting("adaptive_rx=off")];
    let changes = plan(&host, &PLACE, &settings).unwrap();
    assert_eq!(crate::profile::plans_existing_settings(&host, &PLACE, &settings).unwrap().0, changes);
    let mut tuning = scene.journal.begin(&host, changes, &About::default()).unwrap();
    (0..2).for_each(|index| tuning.on(index).unwrap());
    let back = plan(&host, &PLACE, &[setting("adaptive_rx=on"), setting("rx_usecs=50")]).unwrap();
    assert_eq!(back.iter().map(|change| change.knob.as_str()).collect::<Vec<_>>(), ["rx_usecs", "adaptive_rx"]);
    tuning.keep().unwrap();
    let report = scene.journal.revert(&host, &[], false, "test").unwrap();
    assert!(!report.incomplete, "{report:?}");
    assert_eq!(tree(&scene.root), before);
}

#[test]
fn a_controller_that_another_cgroup_has_come_to_need_stays_on() {
    for (file, text) in [("cpuset.cpus", "0\n"), ("cgroup.subtree_control", "cpuset cpu\n")] {
        for keeps in [true, false] {
            let scene = scene();
            let changes = plan(&scene.host, &PLACE, &[setting("cpuset_partition=1")]).unwrap();
            let mut tuning = scene.journal.begin(&scene.host, changes, &About::default()).unwrap();
            (0..2).for_each(|index| tuning.on(index).unwrap());
            let host = scene.host.clone().with(&format!("/sys/fs/cgroup/other.slice/{file}"), text);
            if keeps {
                tuning.keep().unwrap();
                let report = scene.revert();
                let outcomes: Vec<&Outcome> = report.changes.iter().map(|(_, outcome)| outcome).collect();
                assert_eq!(outcomes, [&Outcome::Reverted, &Outcome::Needed]);
            } else {
                assert_eq!(tuning.restore(), Ok(()));
            }
            assert_eq!(host.read("/sys/fs/cgroup/cgroup.subtree_control").unwrap(), "cpu memory cpuset");
            assert!(scene.is_empty() && !host.exists("/sys/fs/cgroup/hairpin.isolated"));
        }
    }
}

#[test]
fn a_partition_that_cannot_be_removed_stays_in_the_journal_with_its_controller() {
    const PARTITION: &str = "/sys/fs/cgroup/hairpin.isolated";
    for keeps in [true, false] {
        let scene = scene();
        let before = tree(&scene.root);
        let changes = plan(&scene.host, &PLACE, &[setting("busy_poll_us=10"), setting("cpuset_partition=1")]).unwrap();
        let busy = scene.host.clone().with_refusal(PARTITION, Refusal::Error(libc::EBUSY));
        let mut tuning = scene.journal.begin(&busy, changes, &About::default()).unwrap();
        // The refusal is one to make it too.
        scene.host.make_directory(PARTITION).unwrap();
        (0..3).for_each(|index| tuning.on(index).unwrap());
        let _ = scene.host.clone().with(&format!("{PARTITION}/inner/cgroup.procs"), "7\n");
        let said: Vec<String> = if keeps {
            tuning.keep().unwrap();
            let report = scene.journal.revert(&busy, &[], false, "test").unwrap();
            let failed = report.changes.iter().filter_map(|(_, outcome)| match outcome {
                Outcome::Failed(why) => Some(why.to_string()),
                _ => None,
            });
            failed.collect()
        } else {
            tuning.restore().unwrap_err().iter().map(Trouble::to_string).collect()
        };
        assert_eq!(said.len(), 2, "{said:?}");
        assert!(said[0].contains("it still holds cgroup inner: end or move them"), "{said:?}");
        assert!(said[1].contains("hairpin.isolated is still there and needs it"), "{said:?}");
        assert_eq!(scene.host.read("/proc/sys/net/core/busy_poll").unwrap(), "50");
        let report = scene.revert();
        assert!(!report.incomplete && scene.is_empty(), "{report:?}");
        assert_eq!(tree(&scene.root), before);
    }
}

#[test]
fn a_partition_is_not_given_up_where_its_cgroup_is_not_mounted() {
    let scene = scene();
    let before = tree(&scene.root);
    let changes = plan(&scene.host, &PLACE, &[setting("cpuset_partition=1")]).unwrap();
    let mut tuning = scene.journal.begin(&scene.host, changes, &About::default()).unwrap();
    (0..2).for_each(|index| tuning.on(index).unwrap());
    tuning.keep().unwrap();
    let [mounted, away] = ["sys/fs/cgroup", "sys/fs/elsewhere"].map(|path| scene.root.join(path));
    fs::rename(&mounted, &away).unwrap();
    fs::create_dir(&mounted).unwrap();
    let report = scene.revert();
    assert!(report.incomplete && !scene.is_empty(), "{report:?}");
    fs::remove_dir(&mounted).unwrap();
    fs::rename(&away, &mounted).unwrap();
    let report = scene.revert();
    assert!(!report.incomplete && scene.is_empty(), "{report:?}");
    assert_eq!(tree(&scene.root), before);
}

#[test]
fn an_orphan_stays_one_while_another_process_changes_settings() {
    let scene = scene();
    drop(scene.journal.lock("test").unwrap());
    let head = Head { pid: u32::MAX, ..Head::here(&scene.host, &About::default()) };
    scene.journal.write(&Entry::of(head, Vec::new())).unwrap();
    let changes = plan(&scene.host, &PLACE, &[setting("busy_poll_us=10")]).unwrap();
    let _running = scene.journal.begin(&scene.host, changes, &About::default()).unwrap();
    let status = scene.journal.status(&scene.host).unwrap();
    let states: Vec<&str> = status.entries.iter().map(|entry| entry.state.as_str()).collect();
    assert_eq!(states, ["orphaned", "running"]);
}

#[test]
fn a_qdisc_that_somebody_set_is_not_given_up() {
    let scene = scene();
    let set = |kind: &str| scene.host.clone().with_attribute("eth0", Attribute::Qdisc, kind);
    let error = plan(&set("htb"), &PLACE, &[setting("qdisc=default")]).unwrap_err().to_string();
    assert!(error.contains("htb") && error.contains("would be lost"), "{error}");
    assert!(plan(&set("default (mq)"), &PLACE, &[setting("qdisc=default")]).unwrap().is_empty());
}
