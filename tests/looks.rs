//! `hairpin compare` with two stored looks of `check --host`, in every form, and what it refuses.

use std::fs;

use serde_json::Value;

use crate::support::Home;

/// The look of an earlier version on two cores, each with so many stalls above 100 us, after `change`.
fn look(home: &Home, name: &str, above_100us: u64, change: impl Fn(&mut Value)) {
    let older = include_str!("../crates/record/tests/data/older.jsonl");
    let kept = older.lines().find(|line| line.contains("hairpin.noise/1")).expect("a look");
    let mut record: Value = serde_json::from_str(kept).expect("JSON");
    record["cores"].as_array_mut().expect("cores").iter_mut().for_each(|core| core["above_100us"] = above_100us.into());
    change(&mut record);
    fs::write(home.file(name), record.to_string()).expect("a file");
}

#[test]
fn two_looks_are_compared_in_every_form_and_nothing_is_stored() {
    let home = Home::new();
    look(&home, "quiet.json", 0, |_| {});
    look(&home, "busy.json", 4_000, |record| record["host"]["hostname"] = "\u{1b}[2Jevil".into());
    let of = |more: &str| home.hairpin(&format!("compare quiet.json busy.json {more}"));
    let (text, full, page, lines) = (of(""), of("-v"), of("-o md"), of("-o csv"));
    for done in [&text, &full, &page, &lines] {
        assert_eq!(done.code, Some(0), "{done:?}");
        assert!(!done.out.contains('\u{1b}') && done.out.contains("above 100 us"), "{done:?}");
    }
    assert!(
        text.out.contains("stalls above 100 us came: ") && text.out.lines().all(|line| line.chars().count() <= 80),
        "{}",
        text.out
    );
    assert!(lines.out.starts_with("cpu,what,who,first_count,"), "{}", lines.out);
    let found = home.json("compare quiet.json busy.json");
    let of_100us =
        found["stalls"].as_array().expect("stalls").iter().find(|rates| rates["what"] == "above 100 us").expect("100 us");
    assert_eq!((&found["schema"], &of_100us["change"]), (&"hairpin.noise-comparison/1".into(), &"came".into()), "{of_100us}");
    assert_eq!(home.json("runs list")["runs"], Value::Array(Vec::new()));
}

#[test]
fn records_that_cannot_be_held_beside_a_look_are_refused() {
    let home = Home::new();
    look(&home, "look.json", 5, |_| {});
    look(&home, "elsewhere.json", 5, |record| {
        record["cores"].as_array_mut().expect("cores").iter_mut().for_each(|core| core["cpu"] = 60_000.into());
    });
    fs::write(home.file("run.json"), include_str!("../crates/record/tests/data/run-1.json")).expect("a run");
    let refused = |args: &str, said: &str| home.hairpin(&format!("compare {args}")).fails(2, &[said]);
    refused("look.json run.json", "look.json is a record of `hairpin check --host`: there is nothing to compare in it");
    refused("look.json elsewhere.json", "the two looks have no core in common");
    refused("look.json look.json --figure p99", "--figure has no effect on two looks");
    refused("look.json look.json --fail-if p99>+5%", "--fail-if takes sides");
    refused("--baseline look.json", "there is nothing to compare in it");
}
