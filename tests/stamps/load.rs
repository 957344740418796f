//! `hairpin load --hw-stamps`: the split of each rate, in a row of its own with one request in flight.

use serde_json::Value;

use super::{number, whole};
use crate::support::{Home, rows, unwrapped};

const LOAD: &str = "load loopback --duration 200ms --warmup 20ms --hw-stamps";

pub fn each_rate_has_its_split(_: &str) -> bool {
    let load = Home::new().json(&format!("{LOAD} --path udp:spin --path tcp:block --rate 500,2000"));
    let curves = rows(&load);
    assert_eq!(curves.len(), 2, "{load:#}");
    for curve in curves {
        let rates = curve["rates"].as_array().expect("rates");
        // A busy host fails a rate, which is then measured again: the last time has the split.
        let split = |per_s: f64| {
            let of: Vec<&Value> = rates.iter().filter(|row| row["offered_per_s"] == per_s).collect();
            let (last, others) = of.split_last().unwrap_or_else(|| panic!("no {per_s}/s in {curve:#}"));
            assert!(others.iter().all(|row| row.get("split").is_none()), "{curve:#}");
            let row = serde_json::json!({ "path": curve["path"], "split": last["split"], "transactions": last["transactions"] });
            whole(&row);
            number(&row["split"]["counts"]["transactions"])
        };
        // Half of a second is stamped, and a busy host keeps no pace.
        for per_s in [500.0, 2_000.0] {
            let stamped = split(per_s);
            assert!((0.05 * per_s..=0.8 * per_s).contains(&stamped), "{stamped} at {per_s}/s in {curve:#}");
        }
    }
    true
}

pub fn every_form_of_a_load_has_the_split(_: &str) -> bool {
    let home = Home::new();
    let out = |line: &str| {
        let done = home.hairpin(line);
        assert_eq!(done.code, Some(0), "{done:?}");
        done.out
    };
    let short = unwrapped(&out(&format!("{LOAD} --path udp:spin --rate 1000")));
    assert!(short.contains("udp:spin at 1.00 k/s, one in flight, by the kernel's stamps: "), "{short}");
    let full = out("runs show latest -v");
    for part in ["udp:spin at 1.00 k/s: ", "are the hosts: client ", " complete, ", "No better stamps of the client and server"] {
        assert!(unwrapped(&full).contains(part), "no \"{part}\" in {full}");
    }
    assert!(full.lines().all(|line| line.chars().count() <= 80), "{full}");
    let csv = out("runs show latest --format csv");
    let (names, values) = csv.split_once('\n').expect("two lines");
    let at = names.split(',').position(|name| name == "split_wire_p50_ns").unwrap_or_else(|| panic!("no column in {names}"));
    assert!(values.split(',').nth(at).is_some_and(|value| value.parse::<u64>().is_ok()), "{csv}");
    true
}

pub fn a_load_that_cannot_be_stamped_is_refused(_: &str) -> bool {
    let home = Home::new();
    for (args, parts) in [
        ("--path udp:spin --flows 2", &["--hw-stamps follows one request at a time"][..]),
        ("--path udp --threads 2 --flows 2", &["--hw-stamps follows one request at a time"]),
        ("--path unix", &["unix has no stamps of driver and NIC"]),
        ("--path udp --size 2", &["takes 4 bytes, not 2"]),
    ] {
        home.hairpin(&format!("load loopback --rate 100 --hw-stamps {args}")).fails(2, parts);
    }
    home.hairpin("load loopback --hw-stamps=often").fails(2, &["\"often\" is not a rate"]);
    home.hairpin("load loopback --hw-stamps --replay x.csv").fails(2, &["cannot be used"]);
    true
}
