//! The report of a record of each kind alone, for a terminal and as Markdown.

use hairpin_model::published::published;
use hairpin_record::any::AnyRecord;
use hairpin_report::view::{Beside, Input, View};
use hairpin_report::{Options, PlanFactor, PlanRow, Plans, view};
use insta::assert_snapshot;

/// The view of the record of this verb, as an earlier version wrote it.
fn of(verb: &str) -> View {
    let records = AnyRecord::all(include_bytes!("../../record/tests/data/older.jsonl")).unwrap();
    let of_verb: Vec<Input> = records
        .into_iter()
        .filter(|record| record.verb() == verb)
        .map(|record| Input { name: record.verb().into(), record })
        .collect();
    assert!(!of_verb.is_empty(), "no record of {verb}");
    view(&of_verb, "2026-11-22T12:00:00Z", Beside::default())
}

/// Both forms without the end that every report has.
fn forms(verb: &str) -> String {
    let view = of(verb);
    let [term, markdown] =
        [hairpin_report::term(&view, &Options::default()), hairpin_report::markdown(&view, &Options::default())];
    assert!(!term.contains("no row was measured") && !markdown.contains("no row was measured"), "{term}");
    let section = |text: &str, ends: &str| text.split(ends).next().unwrap().trim_end().to_owned();
    format!("{}\n\n{}", section(&term, "Differences between"), section(&markdown, "**Differences between"))
}

#[test]
fn a_report_as_csv_has_a_line_per_row_or_its_first_table() {
    let csv = |verb: &str| hairpin_report::csv(&of(verb), &Options::default());
    assert_snapshot!(csv("ping"));
    assert!(csv("load").starts_with("offered"), "{}", csv("load"));
    let whole = csv("ping");
    let rows = hairpin_report::csv(&of("ping"), &Options { continues: true, ..Options::default() });
    assert_eq!(whole.split_once('\n').unwrap().1, rows);
}

#[test]
fn the_first_table_as_csv_has_its_units() {
    let csv = |verb: &str| hairpin_report::csv(&of(verb), &Options::default());
    let shares = csv("explain :PORT or PROGRAM");
    assert!(shares.starts_with("stage,side,count,p50_ns,p99_ns,share\n"), "{shares}");
    assert!(shares.lines().any(|line| line.starts_with("sum,") && line.ends_with(",1.0")), "{shares}");
    assert!(csv("check --host").starts_with("cpu,lost_percent,stalls_above_1_us,"), "{}", csv("check --host"));
}

#[test]
fn plans_have_a_table_and_rows_for_scripts() {
    let factor = PlanFactor { name: "wait".into(), levels: vec!["spin".into(), "block".into()] };
    let plan = PlanRow {
        name: "sizes".into(),
        title: "what a byte costs".into(),
        link: Some("veth".into()),
        duration: None,
        path: "udp:{wait}".into(),
        factors: vec![factor],
        published: Some(&published().busy_poll_sockets),
    };
    let plans = Plans::new(vec![plan]);
    assert_eq!(
        hairpin_report::csv(&plans, &Options::default()),
        "name,title,link,duration,path,factors\nsizes,what a byte costs,veth,,udp:{wait},\"wait=spin,block\"\n"
    );
    let table = hairpin_report::term(&plans, &Options::default());
    assert!(table.contains("sizes") && table.contains("what a byte costs") && !table.contains("udp:"), "{table}");
    for claim in published().busy_poll_sockets.claims {
        let line = table.lines().find(|line| line.contains(claim.claim));
        assert!(line.is_some_and(|line| line.ends_with("published")), "{}:\n{table}", claim.claim);
    }
}

#[test]
fn report_of_a_load() {
    assert_snapshot!(forms("load"));
}

#[test]
fn report_of_frame_rates() {
    assert_snapshot!(forms("stream"));
    assert_snapshot!(forms("bounce"));
}

#[test]
fn report_of_a_check() {
    assert_snapshot!(forms("check"));
    assert_snapshot!(forms("check --host"));
}

#[test]
fn report_of_an_application_and_of_a_device() {
    for verb in ["explain :PORT or PROGRAM", "floor pcie --device", "floor pcie"] {
        assert_snapshot!(forms(verb));
    }
}
