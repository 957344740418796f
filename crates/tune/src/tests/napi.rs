//! Settings of NAPI instances on a host made of files: together and one alone, and what becomes of an instance that goes.

use hairpin_sys::host::{FakeHost, Host};
use hairpin_sys::napi::NapiSetting;

use super::PLACE;
use super::changes::{scene, setting, tree};
use crate::revert::Outcome;
use crate::{Read, Setting, plan};

/// The values of the NAPI instances of eth0.
fn of_napis(host: &FakeHost, setting: NapiSetting) -> Vec<String> {
    host.napis("eth0").unwrap().iter().map(|napi| napi.text(setting).unwrap()).collect()
}

#[test]
fn napi_instances_that_differ_each_get_their_own_value_back() {
    let settings = [
        "napi_threaded=1",
        "napi_threaded=busy-poll",
        "napi_defer_hard_irqs=7",
        "gro_flush_timeout_ns=1",
        "irq_suspend_timeout_ns=9",
    ];
    for text in settings {
        let scene = scene();
        let own = [
            (NapiSetting::Threaded, "1"),
            (NapiSetting::DeferHardIrqs, "5"),
            (NapiSetting::GroFlushTimeout, "0"),
            (NapiSetting::IrqSuspendTimeout, "3"),
        ];
        let host = scene.host.clone().with_napi("eth0", "rx-1", &own);
        let before = tree(&scene.root);
        assert_eq!(scene.apply(&host, &[setting(text)]), [], "{text}");
        let Read::Napi(which) = setting(text).knob.read else { panic!("{text}") };
        let wanted = setting(text).value;
        assert_eq!(of_napis(&host, which), [wanted.clone(), wanted], "{text}");
        assert!(!scene.revert().incomplete);
        assert_eq!(tree(&scene.root), before, "{text}");
    }
}

#[test]
fn a_setting_of_one_queue_leaves_the_others_and_the_file() {
    let scene = scene();
    let before = tree(&scene.root);
    assert_eq!(scene.apply(&scene.host, &[setting("napi_defer_hard_irqs@1=7"), setting("napi_defer_hard_irqs@rx-0=6")]), []);
    assert_eq!(of_napis(&scene.host, NapiSetting::DeferHardIrqs), ["6", "7"]);
    assert_eq!(scene.host.read("/sys/class/net/eth0/napi_defer_hard_irqs").unwrap(), "2");
    // Another program changes one of them: that one is left alone, and the other is put back.
    scene.host.set_napi("eth0", "rx-0", NapiSetting::DeferHardIrqs, "9").unwrap();
    let report = scene.revert();
    assert!(report.incomplete, "{report:?}");
    assert_eq!(of_napis(&scene.host, NapiSetting::DeferHardIrqs), ["9", "2"]);
    assert!(!scene.journal.revert(&scene.host, &[], true, "test").unwrap().incomplete);
    assert_eq!(tree(&scene.root), before);
}

#[test]
fn a_setting_of_a_queue_that_is_not_there_is_refused() {
    let scene = scene();
    let refused = |host: &FakeHost, texts: &[&str]| {
        let settings: Vec<Setting> = texts.iter().map(|text| setting(text)).collect();
        let error = plan(host, &PLACE, &settings).unwrap_err();
        (error.to_string(), error.is_missing())
    };
    let there = |text| refused(&scene.host, &[text]);
    assert_eq!(there("napi_threaded@5=1"), ("eth0 has no NAPI instance of the queue 5; it has rx-0, rx-1".to_owned(), false));
    for twice in [["napi_threaded@0=1", "napi_threaded@rx-0=0"], ["napi_threaded=1", "napi_threaded@0=0"]] {
        assert_eq!(refused(&scene.host, &twice).0, "napi_threaded is given twice");
    }
    let down = scene.host.clone().without_napis("eth0");
    let (why, is_missing) = refused(&down, &["napi_threaded@0=1"]);
    assert!(why.starts_with("eth0 has no NAPI instance now: loopback") && is_missing, "{why}");
}

#[test]
fn a_napi_instance_that_went_keeps_its_entry_until_it_is_back_or_given_up() {
    let scene = scene();
    scene.apply(&scene.host, &[setting("irq_suspend_timeout_ns@0=9")]);
    let down = scene.host.clone().without_napis("eth0");
    let report = scene.journal.revert(&down, &[], false, "test").unwrap();
    let rows = crate::rows::reverted(&report);
    assert!(report.incomplete && rows.changes[0].outcome == "failed", "{rows:?}");
    let why = rows.changes[0].why.as_deref().unwrap();
    assert!(
        why.starts_with("irq-suspend-timeout of eth0 rx-0: there is no such NAPI instance now") && why.ends_with("--force"),
        "{why}"
    );
    let up = down.with_napi("eth0", "rx-0", &[(NapiSetting::IrqSuspendTimeout, "9")]);
    assert!(!scene.journal.revert(&up, &[], false, "test").unwrap().incomplete);
    assert_eq!(of_napis(&up, NapiSetting::IrqSuspendTimeout), ["0"]);
    scene.apply(&up, &[setting("irq_suspend_timeout_ns@0=9")]);
    let down = up.without_napis("eth0");
    let given_up = scene.journal.revert(&down, &[], true, "test").unwrap();
    assert!(!given_up.incomplete && given_up.changes[0].1 == Outcome::Gone, "{given_up:?}");
    assert!(scene.is_empty());
}
