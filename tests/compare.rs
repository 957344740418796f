//! `hairpin compare` and `hairpin sweep` from the command line: large differences are found, a known delay is reported, a gate
//! closes, a killed sweep goes on.
//!
//! Small differences, false alarms and power are the benchmark's (`make bench-compare`). One test at a time: each one measures.

use std::fs;
use std::io::{Read, Write};
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

use crate::support::alone::{self, Listed, Part};
use crate::support::servers::service;
use crate::support::{Home, LIMIT, can, links};
use hairpin_sys::thread::{allowed_cpus, stay_on};
use serde_json::Value;

pub const PART: Part = Part::new("compare", || alone::listed(TESTS)).side_by_side();
/// These tests judge how much runs differ, so nothing runs beside them.
pub const OF_GATES: Part = Part::new("gates", || alone::listed(TESTS_OF_GATES));

const TESTS_OF_GATES: &[Listed] = &[
    ("a_baseline_is_measured_anew", a_baseline_is_measured_anew),
    ("a_threshold_that_is_crossed_ends_with_3", a_threshold_that_is_crossed_ends_with_3),
];

const TESTS: &[Listed] = &[
    (
        "a_large_difference_is_found_and_the_record_keeps_the_contract",
        a_large_difference_is_found_and_the_record_keeps_the_contract,
    ),
    ("a_known_delay_is_reported", a_known_delay_is_reported),
    ("two_placements_are_compared", two_placements_are_compared),
    ("the_placements_of_this_host_are_compared", the_placements_of_this_host_are_compared),
    ("sides_may_go_over_links_of_their_own", sides_may_go_over_links_of_their_own),
    ("stored_runs_are_compared_with_a_warning", stored_runs_are_compared_with_a_warning),
    ("ages_mean_the_same_runs_however_often_they_are_compared", ages_mean_the_same_runs_however_often_they_are_compared),
    ("two_meshes_are_compared_pair_by_pair", two_meshes_are_compared_pair_by_pair),
    ("a_preset_leads_to_its_path", a_preset_leads_to_its_path),
    ("a_killed_sweep_goes_on", a_killed_sweep_goes_on),
    ("sweep_finds_each_factors_effect", sweep_finds_each_factors_effect),
    ("a_sweep_fills_the_link_and_counts_frames", a_sweep_fills_the_link_and_counts_frames),
    ("rejects_incomparable_sides", rejects_incomparable_sides),
];

/// A record of `compare`, measured again for longer while no state of the cores has the twelve pairs that a verdict takes: other
/// work on the machine takes pairs away, and moves the cores.
fn compared(home: &Home, args: &str) -> Value {
    let mut record = Value::Null;
    for seconds in [2, 4, 8, 16, 24] {
        let (flags, sides) = args.split_once(" -- ").expect("sides");
        let done = home.hairpin(&format!("compare {flags} --duration {seconds}s --json -- {sides}"));
        assert_eq!(done.code, Some(0), "{done:?}");
        record = done.json();
        if found(&record, "p50").is_some_and(|p50| p50["pairs"].as_u64().expect("pairs") >= 12) {
            break;
        }
    }
    record
}

fn found<'a>(record: &'a Value, name: &str) -> Option<&'a Value> {
    record["comparisons"][0]["figures"].as_array().expect("figures").iter().find(|figure| figure["figure"] == name)
}

fn figure<'a>(record: &'a Value, name: &str) -> &'a Value {
    found(record, name).unwrap_or_else(|| panic!("no {name} in {:#}", record["comparisons"]))
}

fn a_large_difference_is_found_and_the_record_keeps_the_contract(_: &str) -> bool {
    let home = Home::new();
    // A cache line is compared with two copies of 16 KiB each way.
    let record = compared(&home, "--path memory --seed 5 -- --size 64 -- --size 16384");
    assert_eq!(record["schema"], "hairpin.compare/1");
    assert_eq!(record["comparisons"][0]["verdict"], "slower", "{:#}", record["comparisons"]);
    let p50 = figure(&record, "p50");
    let (low, ratio, high) = (p50["low"].as_f64().unwrap(), p50["ratio"].as_f64().unwrap(), p50["high"].as_f64().unwrap());
    assert!(1.5 < low && low < ratio && ratio < high, "{p50}");
    assert!(figure(&record, "rate")["ratio"].as_f64().unwrap() < 1.0);
    // The four words occur nowhere else.
    let mut text = record.to_string();
    text = text.replacen("\"verdict\":\"slower\"", "", 1);
    for word in ["\"faster\"", "\"slower\"", "\"same\"", "\"unclear\""] {
        assert!(!text.contains(word), "{word}");
    }
    let (a, b) = (&record["arms"][0], &record["arms"][1]);
    assert_eq!((&a["request_bytes"], &b["request_bytes"]), (&64.into(), &16_384.into()));
    // Every round has a block of both, in one order or the other.
    let at =
        |arm: &Value| arm["blocks"].as_array().unwrap().iter().map(|block| block["at_ns"].as_u64().unwrap()).collect::<Vec<_>>();
    let first: Vec<bool> = at(a).iter().zip(at(b)).map(|(a, b)| *a < b).collect();
    assert_eq!(first.len() as u64, record["design"]["rounds"].as_u64().unwrap());
    assert!(first.contains(&true) && first.contains(&false), "{first:?}");
    true
}

fn a_known_delay_is_reported(_: &str) -> bool {
    let home = Home::new();
    let record = compared(&home, "--link loopback -- udp:spin -- udp:spin,delay=20000");
    assert_eq!(record["comparisons"][0]["verdict"], "slower", "{:#}", record["comparisons"]);
    // Compared round by round, so that disturbances of the host hit both: the median of the differences. The
    // other side's cache misses more after a pause.
    let p50s = |arm: usize| record["arms"][arm]["blocks"].as_array().unwrap().iter().map(|block| block["p50_ns"].as_f64());
    let mut differences: Vec<f64> = p50s(0).zip(p50s(1)).filter_map(|(a, b)| Some(b? - a?)).collect();
    differences.sort_by(f64::total_cmp);
    let middle = differences[differences.len() / 2];
    assert!((19_500.0..26_000.0).contains(&middle), "{middle} of {} rounds", differences.len());
    // The record's own figure is that of the ratio, of all blocks in every state.
    let told = figure(&record, "p50")["difference"].as_f64().unwrap();
    assert!((told - middle).abs() < 0.15 * middle, "{told} told, {middle} round by round");
    true
}

fn two_placements_are_compared(name: &str) -> bool {
    let cpus = allowed_cpus().expect("CPUs");
    if !can(name, cpus.len() >= 2, "two placements take two CPUs") {
        return false;
    }
    let home = Home::new();
    let compared = |seconds: u32, sides: &str| {
        let done = home.hairpin(&format!("compare --link loopback --duration {seconds}s --json -- {sides}"));
        assert_eq!(done.code, Some(0), "{done:?}");
        done.json()
    };
    let (two, one) = (format!("{},{}", cpus[0], cpus[1]), format!("{},{}", cpus[0], cpus[0]));
    // Both sides wait in the kernel; on one core no wake-up crosses cores. Measured for longer while there is
    // no verdict.
    let mut record = Value::Null;
    for seconds in [2, 4, 8, 16, 24] {
        record = compared(seconds, &format!("udp:block --cpu {two} -- udp:block --cpu {one}"));
        if record["comparisons"][0]["verdict"] != "unclear" {
            break;
        }
    }
    let comparison = &record["comparisons"][0];
    let rounds = record["design"]["rounds"].as_u64().expect("rounds");
    assert_eq!((comparison["pairs"].as_u64(), comparison["dropped"].as_u64()), (Some(rounds), Some(0)), "{comparison}");
    assert_ne!(comparison["verdict"], "unclear", "{comparison}");
    assert_eq!((&comparison["matched"], &comparison["states_used"]), (&"all".into(), &serde_json::json!([])));
    assert_eq!(record["arms"][1]["cpus"], serde_json::json!({"client": [cpus[0]], "server": [cpus[0]]}));
    // Within one placement, the distance between the cores still decides which blocks make a pair.
    let same = compared(1, &format!("udp:block --cpu {two} -- udp:block --cpu {two}"));
    assert!(same["comparisons"][0]["matched"].is_null(), "{}", same["comparisons"]);
    let shown =
        home.hairpin(&format!("compare -v --link loopback --duration 500ms -- udp:block --cpu {two} -- udp:block --cpu {one}"));
    let labels = [format!("A  udp:block --cpu {two}"), format!("B  udp:block --cpu {one}")];
    assert!(labels.iter().all(|label| shown.out.contains(label)) && shown.out.contains("run on different CPUs"), "{}", shown.out);
    true
}

fn the_placements_of_this_host_are_compared(name: &str) -> bool {
    let home = Home::new();
    let cpus = allowed_cpus().expect("CPUs");
    let done = home.hairpin("compare placements --duration 2s --json");
    assert_eq!(done.code, Some(0), "{done:?}");
    let record = done.json();
    let placements = record["placements"].as_array().expect("placements");
    // On one core both sides block; there a spinning side is not measured, and the record says why.
    let same = &placements[0];
    assert_eq!((&same["client"], &same["server"]), (&cpus[0].into(), &cpus[0].into()));
    assert!(same["cells"][0]["p50_ns"].as_f64().is_some_and(|ns| ns > 100.0), "{same}");
    assert!(same["cells"][1]["arm"].is_null() && same["cells"][1]["why"].as_str().unwrap().contains("time slices"), "{same}");
    let shown = home.hairpin("runs show latest");
    assert!(shown.out.contains(&format!("both on CPU {}", cpus[0])) && shown.out.lines().count() <= 24, "{}", shown.out);
    let refused = home.hairpin("compare placements --cpu 0,0");
    assert_eq!(refused.code, Some(2), "{refused:?}");
    if !can(name, cpus.len() >= 2, "placements to compare take two CPUs") {
        return false;
    }
    assert_eq!(record["arms"][0]["cpus"], serde_json::json!({"client": [cpus[0]], "server": [cpus[1]]}));
    assert_eq!(record["comparisons"].as_array().unwrap().len() + 1, record["arms"].as_array().unwrap().len());
    assert!(placements.iter().skip(1).any(|row| row["core_rtt_ns"].as_u64().is_some_and(|ns| ns > 0)), "{placements:?}");
    // A cpuset of one: one placement, and nothing to compare it with.
    stay_on(&[cpus[1]]).expect("one CPU");
    let one = home.hairpin("compare placements --duration 1s");
    let said = format!("there is one placement only, both on CPU {}", cpus[1]);
    assert!(one.code == Some(0) && one.out.replace('\n', " ").contains(&said), "{one:?}");
    true
}

fn sides_may_go_over_links_of_their_own(name: &str) -> bool {
    if !can(name, links(), "this user may not make namespaces here") {
        return false;
    }
    let home = Home::new();
    let done =
        home.hairpin("compare --path udp:spin --duration 1s --json -- --link loopback -- --link veth -- --link veth:mtu=3000");
    assert_eq!(done.code, Some(0), "{done:?}");
    let record = done.json();
    let links: Vec<&str> = record["arms"].as_array().unwrap().iter().map(|arm| arm["link"]["kind"].as_str().unwrap()).collect();
    assert_eq!(links, ["loopback", "veth", "veth"]);
    assert_eq!(record["arms"][2]["link"]["mtu"], 3000);
    assert_eq!(record["comparisons"].as_array().unwrap().len(), 2);
    true
}

fn a_threshold_that_is_crossed_ends_with_3(_: &str) -> bool {
    let (home, full) = (Home::new(), Home::new());
    fs::write(full.runs(), "in the way").unwrap();
    let gate = |home: &Home, limit: &str, lasts_ms: u32| {
        let mut command = home.command(crate::support::HAIRPIN);
        command.args(["compare", "--path", "memory", "--duration", &format!("{lasts_ms}ms"), "--fail-if", limit]);
        command.args(["--", "--size", "64", "--", "--size", "16384"]);
        home.spawn(command).done()
    };
    let mut lasts_ms = 1_500;
    let mut crossed = gate(&full, "p50 > +20%", lasts_ms);
    while crossed.code == Some(1) && lasts_ms < 20_000 {
        lasts_ms *= 2;
        crossed = gate(&full, "p50 > +20%", lasts_ms);
    }
    // The verdict does not depend on whether the run could be stored.
    crossed.fails(3, &["the run was not stored", "crossed, and again when measured once more: p50 > +20% by B"]);
    let open =
        (0..4).map(|at| gate(&home, "p50 > +100000%", lasts_ms << at)).find(|done| done.code != Some(1)).expect("enough pairs");
    assert_eq!(open.code, Some(0), "{open:?}");
    assert!(open.out.contains("not crossed"), "{}", open.out);
    true
}

fn stored_runs_are_compared_with_a_warning(_: &str) -> bool {
    let home = Home::new();
    for size in [64, 16_384] {
        let done = home.hairpin(&format!("ping --path memory --size {size} --duration 300ms --warmup 50ms"));
        assert_eq!(done.code, Some(0), "{done:?}");
    }
    let listed = fs::read_dir(home.runs()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut ids: Vec<String> = listed.filter(|name| name.starts_with("20")).collect();
    ids.sort();
    let record = home.json(&format!("compare {} {}", ids[0], ids[1]));
    assert!(record["design"].is_null());
    assert_eq!(record["warnings"][0]["code"], "not-interleaved");
    assert!(figure(&record, "p50")["ratio"].as_f64().unwrap() > 1.5);
    // Two runs are two draws from the spread of runs.
    assert_eq!(
        (&record["comparisons"][0]["verdict"], &record["warnings"][1]["code"]),
        (&"unclear".into(), &"single-runs".into())
    );
    // However often they are given.
    let several = home.json(&format!("compare {0},{0} {1},{1},{1}", ids[0], ids[1]));
    let comparison = &several["comparisons"][0];
    assert_eq!((&comparison["runs"], &comparison["verdict"]), (&serde_json::json!([1, 1]), &"unclear".into()));
    let shown = home.hairpin(&format!("compare {} {}", ids[0], ids[1]));
    assert!(shown.out.contains("not in turn") && shown.out.lines().all(|line| line.chars().count() <= 80), "{}", shown.out);
    home.hairpin(&format!("compare {} {} --fail-if p50>+5%", ids[0], ids[1])).fails(2, &["measured once more"]);
    true
}

fn ages_mean_the_same_runs_however_often_they_are_compared(_: &str) -> bool {
    let home = Home::new();
    let ids = [0; 2].map(|_| {
        home.hairpin("ping -p memory --duration 100ms --warmup 10ms -q").fails(0, &[]);
        home.json("runs list")["runs"].as_array().expect("runs").last().expect("a run")["id"].clone()
    });
    assert_eq!(home.json("floor --fit latest")["run"], ids[1]);
    let given =
        |record: &Value| record["arms"].as_array().expect("arms").iter().map(|arm| arm["given"].clone()).collect::<Vec<_>>();
    for _ in 0..2 {
        assert_eq!(given(&home.json("compare latest -2")), [ids[1].clone(), ids[0].clone()]);
        assert_eq!(given(&home.json("compare --baseline latest --anew 1"))[0], ids[1]);
    }
    let both = home.json("compare latest,-2 latest~1,latest");
    assert_eq!(both["arms"][1]["runs"], serde_json::json!([ids[0], ids[1]]));
    fs::copy(home.runs().join(ids[0].as_str().expect("an id")).join("run.json"), home.file("kept.json")).expect("a copy");
    assert_eq!(given(&home.json("compare ./kept.json latest")), [Value::from("./kept.json"), ids[1].clone()]);
    home.hairpin("compare -3 latest").fails(2, &["without comparisons with stored runs", "the store holds 2"]);
    true
}

fn two_meshes_are_compared_pair_by_pair(_: &str) -> bool {
    let home = Home::new();
    let older = include_str!("../crates/record/tests/data/older.jsonl");
    let kept = older.lines().find(|line| line.contains("hairpin.mesh/1")).expect("a mesh");
    fs::write(home.file("one.json"), kept).expect("a file");
    let mut slower: Value = serde_json::from_str(kept).expect("JSON");
    let p50 = slower["pairs"][0]["rtt_ns"]["p50"].as_u64().expect("a p50");
    slower["pairs"][0]["rtt_ns"]["p50"] = (2 * p50).into();
    fs::write(home.file("other.json"), slower.to_string()).expect("a file");
    let record = home.json("compare one.json other.json");
    assert_eq!(record["arms"][1]["path"], "udp:block/udp:block between n1 and n2");
    let ratio = figure(&record, "p50")["ratio"].as_f64().expect("a ratio");
    assert!((ratio - 2.0).abs() < 1e-9 && record["comparisons"][0]["verdict"] == "unclear", "{record}");
    let shown = home.hairpin("compare one.json other.json");
    assert!(shown.out.contains("udp:block between n1 and n2, 64 B") && !shown.out.contains("over ,"), "{shown:?}");
    home.hairpin("compare --baseline one.json").fails(2, &["take a run of ping or demo"]);
    true
}

fn a_preset_leads_to_its_path(_: &str) -> bool {
    let home = Home::new();
    let port = service(|mut stream| {
        spawn(move || {
            let mut request = [0; 8];
            while stream.read_exact(&mut request).is_ok() && stream.write_all(b"N").is_ok() {}
        });
    });
    let ask = "--request postgres-ssl-request --for 300ms --no-store --json";
    for (parts, line) in [
        ("arms", format!("compare {ask} -- echo:127.0.0.1:{port} -- echo:127.0.0.1:{port}")),
        ("cells", format!("sweep echo:127.0.0.1:{port} {ask} --vary nodelay=on,off")),
    ] {
        let record = home.hairpin(&line).json();
        let measured = record[parts].as_array().expect(parts);
        assert_eq!((&record["error"], measured.len()), (&Value::Null, 2), "{record}");
        for part in measured {
            assert!(part["path"].as_str().is_some_and(|path| path.starts_with("tcp-crr:")), "{record}");
            assert!(part["transactions"].as_u64() > Some(0) && part["reply_bytes"] == 1, "{record}");
        }
    }
    true
}

fn a_baseline_is_measured_anew(_: &str) -> bool {
    let blocks = |past: &mut Value, change: fn(&mut Value)| {
        past["results"][0]["blocks"].as_array_mut().unwrap().iter_mut().for_each(change)
    };
    let home = Home::new();
    // A better past: every block was ten times as fast, in a record of a version that had no quantiles between steps.
    let better = || {
        let mut past = home.json("ping --path memory --duration 300ms --warmup 50ms --no-store");
        blocks(&mut past, |block| {
            // A block in which the host did something else has too few transactions for a p50.
            if let Some(p50) = block["p50"].as_u64() {
                block["p50"] = (p50 / 10).max(1).into();
                block.as_object_mut().unwrap().remove("interpolated_ns").expect("a quantile between steps");
            }
        });
        past
    };
    let gate = |past: &Value, more: &[&str]| {
        fs::write(home.file("past.json"), past.to_string()).unwrap();
        // The same figures at another time.
        let mut other = past.clone();
        other["started"] = "2026-01-01T00:00:00.000000Z".into();
        fs::write(home.file("other.json"), other.to_string()).unwrap();
        let mut command = home.command(crate::support::HAIRPIN);
        command.args(["compare", "--baseline", "./past.json", "--fail-if", "p50 > +5%"]).args(more);
        home.spawn(command).done()
    };
    let several = ["--baseline", "./other.json", "--anew", "3"];
    // If the distance between the cores is another than in the baseline, the gate cannot judge, and beside
    // other work runs differ by more than that; it passes.
    let tried = (0..16).map(|_| better()).map(|past| (gate(&past, &several), past));
    let (closed, mut past) = { tried }.find(|(done, _)| done.code == Some(3)).expect("a gate that closes");
    closed.fails(3, &["crossed, and again when measured once more: p50 > +5% by B"]);
    // One run on either side does not show how much runs differ, however far apart they lie.
    gate(&past, &["--anew", "1"]).fails(1, &["cannot be judged", "one run each does not show"]);
    // The same distance then and now, but not in the record: a gate without a verdict does not look open.
    blocks(&mut past, |block| block["core_rtt_ns"] = Value::Null);
    gate(&past, &several).fails(1, &["cannot be judged"]);
    past["results"][0]["cpu"]["client"]["cpus"] = serde_json::json!([4000]);
    gate(&past, &several).fails(1, &["the baseline was measured on CPU 4000", "--cpu CLIENT,SERVER"]);
    true
}

const PLAN: &str = r#"
name = "test"
title = "what a copy costs"
duration = "4s"
path = "{path}"
size = "{payload}"
[[factor]]
name = "path"
levels = ["memory", "pipe:spin"]
[[factor]]
name = "payload"
levels = ["64", "16384"]
"#;

fn a_killed_sweep_goes_on(_: &str) -> bool {
    let home = Home::new();
    // Long enough for rounds after the first on a busy host.
    fs::write(home.file("plan.toml"), PLAN.replace("4s", "8s")).unwrap();
    let mut sweep = home.start("sweep plan.toml --seed 11 --json");
    let begun = Instant::now();
    let rounds = || {
        let files = fs::read_dir(home.runs().join("sweeps")).into_iter().flatten().flatten();
        files.map(|file| fs::read_to_string(file.path()).unwrap_or_default().lines().count().saturating_sub(1)).sum::<usize>()
    };
    while rounds() < 1 {
        assert!(begun.elapsed() < LIMIT, "no rounds");
        sleep(Duration::from_millis(20));
    }
    sweep.kill();
    let kept = rounds();
    let done = home.hairpin("sweep plan.toml --seed 12 --json");
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(done.err.contains("going on after"), "{}", done.err);
    let record = done.json();
    assert_eq!(record["design"]["seed"], 11, "the order goes on from the first seed");
    let resumed = record["resumed_rounds"].as_u64().unwrap();
    assert!(resumed >= kept as u64 && resumed >= 1, "{resumed} of {kept}");
    assert!(record["design"]["rounds"].as_u64().unwrap() > resumed);
    let blocks = record["cells"][0]["blocks"].as_array().unwrap();
    let numbers = blocks.iter().map(|block| block["round"].as_u64().unwrap());
    assert!(numbers.eq(0..record["design"]["rounds"].as_u64().unwrap()), "every round once");
    let begins = |round: u64| blocks[round as usize]["at_ns"].as_u64().unwrap();
    // The second attempt discards two rounds of four blocks before its first.
    let discarded_ns = 8 * record["design"]["block_ns"].as_u64().unwrap();
    assert!(begins(resumed) >= begins(resumed - 1) + discarded_ns, "{} after {}", begins(resumed), begins(resumed - 1));
    assert_eq!(rounds(), 0, "nothing is kept of a sweep that is whole");
    true
}

fn sweep_finds_each_factors_effect(_: &str) -> bool {
    let home = Home::new();
    // Measured for longer while it has too few pairs for an effect: other work on the machine takes pairs
    // away.
    let p50 =
        |effect: &Value| effect["figures"].as_array().and_then(|all| all.iter().find(|found| found["figure"] == "p50").cloned());
    let mut record = Value::Null;
    for seconds in [2, 4, 8, 16, 32] {
        record = home.json(&format!("sweep --path memory --path pipe:spin --sizes 64,16384 --duration {seconds}s"));
        let all = ["main_effects", "interactions"].map(|list| record[list].as_array().expect("a list").clone()).concat();
        if all.iter().all(|effect| p50(effect).is_some()) {
            break;
        }
    }
    assert_eq!(record["schema"], "hairpin.sweep/1");
    assert_eq!(record["cells"].as_array().unwrap().len(), 4);
    let p50 = |effect: &Value| p50(effect).unwrap_or_else(|| panic!("no p50: {effect:#}"));
    let effects = record["main_effects"].as_array().unwrap();
    let path = effects.iter().find(|effect| effect["factor"] == "path").unwrap();
    assert!(p50(path)["ratio"].as_f64().unwrap() > 1.5, "{path:#}");
    let payload = effects.iter().find(|effect| effect["factor"] == "payload").unwrap();
    assert!(p50(payload)["ratio"].as_f64().unwrap() > 1.5, "{payload:#}");
    // A copy counts for more on a path that does little else.
    let interaction = &record["interactions"][0];
    assert!(p50(interaction)["ratio"].as_f64().unwrap() < 1.0, "{interaction:#}");
    true
}

fn a_sweep_fills_the_link_and_counts_frames(name: &str) -> bool {
    if !can(name, links(), "this user may not make namespaces here") {
        return false;
    }
    let home = Home::new();
    let plan = r#"
name = "beside"
link = "veth"
duration = "2s"
path = "{path}"
bulk = "{bulk}"
knobs = ["rx_usecs={rx-usecs}"]
loss-free-frame = 64
[[factor]]
name = "rx-usecs"
levels = ["as-is", "0"]
optional = true
[[factor]]
name = "path"
levels = ["udp:block", "packet:block"]
[[factor]]
name = "bulk"
levels = ["none", "tcp:1"]
"#;
    fs::write(home.file("beside.toml"), plan).unwrap();
    let record = home.json("sweep beside.toml");
    let cells = record["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 4, "rx-usecs stands at its first level");
    for cell in cells {
        let (streams, carried) = (cell["bulk_streams"].as_u64().unwrap_or(0), cell["bulk_bits_per_s"].as_f64().unwrap_or(0.0));
        assert_eq!(cell["levels"][1] == "tcp:1", streams == 1, "{cell:#}");
        // 100 Mbit/s is little between two namespaces.
        assert_eq!(carried > 1e8, streams == 1, "{carried}");
    }
    let [frames] = &record["loss_free"].as_array().unwrap()[..] else { panic!("{:#}", record["loss_free"]) };
    assert_eq!((&frames["levels"][0], &frames["levels"][1]), (&"packet:block".into(), &Value::Null));
    assert!(frames["offered_per_s"].as_f64().unwrap() > 1_000.0, "{frames:#}");
    let left_out: Vec<&str> = record["left_out"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
    assert!(left_out[0].starts_with("rx-usecs 0: rx_usecs belongs to a NIC"), "{left_out:?}");
    assert!(left_out[1].contains("udp:block sends no frames of its own"), "{left_out:?}");
    true
}

fn rejects_incomparable_sides(_: &str) -> bool {
    let home = Home::new();
    for (args, parts) in [
        ("compare", &["say what to compare", "-- udp:spin -- udp:block"][..]),
        ("compare --link loopback -- udp", &["two sides or more"]),
        ("compare --link loopback -- udp -- dup", &["the side \"dup\"", "there is no path"]),
        ("compare --link loopback -- --size 4 -- --size 8", &["a side takes a path"]),
        ("compare --link loopback --path udp -- --sizes 1,2 -- --size 8", &["a side has one size"]),
        ("compare --baseline latest", &["there is no run"]),
        ("compare --link loopback --until 2 -- udp -- tcp", &["write a percentage such as 2%"]),
        ("compare --link loopback --figure p98 -- udp -- tcp", &["p50, p99, p99.9, rate, cpu"]),
        ("compare --link loopback --fail-if p99 -- udp -- tcp", &["is not a threshold"]),
        ("sweep", &["say what to sweep", "--list"]),
        ("sweep moon", &["there is no plan \"moon\"", "sun-fire"]),
        ("sweep ./none.toml", &["cannot read the plan"]),
        ("sweep --path udp --link loopback", &["it varies nothing"]),
        ("sweep --path udp --vary nodelay=on,off --link loopback", &["udp has no option \"nodelay\""]),
        ("sweep --path udp --vary bulk=none,udp:1 --link loopback", &["write tcp:N"]),
        ("sweep sun-fire --host 127.0.0.1 --link veth", &["cannot be used with"]),
        ("sweep echo:127.0.0.1:9 --request redis-ping", &["it varies nothing"]),
    ] {
        home.hairpin(args).fails(2, parts);
    }
    true
}
