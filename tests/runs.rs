//! `hairpin runs export`: the tables that it writes.

use std::fs;

use serde_json::Value;

use crate::support::Home;

/// The sweep of an earlier version, with this name for its first factor.
fn sweep(home: &Home, name: &str, factor: &str) {
    let older = include_str!("../crates/record/tests/data/older.jsonl");
    let kept = older.lines().find(|line| line.contains("hairpin.sweep/1")).expect("a sweep");
    let mut record: Value = serde_json::from_str(kept).expect("JSON");
    record["factors"][0]["name"] = factor.into();
    fs::write(home.file(name), record.to_string()).expect("a file");
}

#[test]
fn sweeps_of_other_factors_have_tables_of_their_own() {
    let home = Home::new();
    sweep(&home, "wait.json", "wait");
    sweep(&home, "cores.json", "cores");
    let of = |files: &str| {
        let done = home.hairpin(&format!("runs export {files}"));
        assert_eq!(done.code, Some(0), "{done:?}");
        done.out
    };
    let (wait, cores) = (of("wait.json"), of("cores.json"));
    assert!(wait.starts_with("wait,path,payload,") && cores.starts_with("cores,path,payload,"), "{wait}{cores}");
    assert_eq!(of("wait.json cores.json wait.json"), format!("{wait}{cores}{wait}"));
    let (_, rows) = wait.split_once('\n').expect("rows");
    assert_eq!(of("wait.json wait.json"), format!("{wait}{rows}"));
}
