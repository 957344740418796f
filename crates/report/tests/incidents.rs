//! The incidents of a row: in the text of its run, as a note of a report, and in the live view.

use hairpin_record::any::AnyRecord;
use hairpin_record::incident::Incidents;
use hairpin_record::progress::Progress;
use hairpin_record::run::{Row, Run};
use hairpin_record::slow::{Cause, Event, Timeline};
use hairpin_report::view::{Beside, Input};
use hairpin_report::watch::{Source, State};
use hairpin_report::{Options, markdown, term};

use crate::formats::formats;
use crate::goldens::row;
use crate::watch::frame;

const SENTENCE: &str = "3 round trips above 200 us: 2 in incidents.jsonl, 1 left out by --incidents-rate";
const LAST: &str = "; the last at 1.5 s: 812 us, preempted";

fn cause(cause: &str, who: &str, count: u64, lost_ns: u64) -> Cause {
    Cause { cause: cause.into(), who: who.into(), count, lost_ns, advice: String::new() }
}

fn found() -> Incidents {
    let last = Timeline { rtt_ns: 812_000, at_ns: 1_500_000_000, sequence: 4711, cause: "preempted".into(), events: Vec::new() };
    let event = Event { at_ns: 9_000, name: "sched_switch".into(), side: None, cpu: Some(0), detail: "to backup".into() };
    Incidents {
        above: "200us".into(),
        above_ns: Some(200_000),
        count: 3,
        written: 2,
        over_rate: 1,
        file: "incidents.jsonl".into(),
        causes: vec![cause("preempted", "backup (pid 4711)", 2, 1_234_000), cause("timer", "CPU 1", 1, 213_000)],
        last: Some(last.clone()),
        slowest: vec![Timeline { events: vec![event], ..last }],
        ..Incidents::default()
    }
}

/// The example's host and link around one row.
fn run() -> Run {
    let mut run: Run = serde_json::from_str(include_str!("../../record/tests/data/run-1.json")).expect("the example");
    run.results = vec![Row { incidents: Some(Box::new(found())), ..row("udp:spin/udp:spin", 20_000, 31_400) }];
    run
}

#[test]
fn a_run_tells_their_number_and_causes_and_in_full_the_slowest() {
    let [brief, full] = [true, false].map(|brief| term(&run(), &Options { width: 130, brief, ..Options::default() }));
    for text in [&brief, &full, &formats(&run())] {
        assert!(text.contains(&format!("incidents: udp:spin: {SENTENCE}\n")), "{text}");
        assert!(text.contains("Main causes of the incidents"), "{text}");
        let words: Vec<&str> = text.split(|c: char| c.is_whitespace() || c == '|').filter(|word| !word.is_empty()).collect();
        assert!(words.join(" ").contains("udp:spin preempted backup (pid 4711) 2 1234 udp:spin timer CPU 1 1 213.0"), "{text}");
        assert_eq!(text.contains("Slowest 1: RTT "), *text != brief, "{text}");
    }
}

#[test]
fn causes_of_two_sizes_are_told_apart() {
    let mut run = run();
    let mut large = run.results[0].clone();
    (large.request_bytes, large.reply_bytes) = (1024, 1024);
    run.results.push(large);
    let text = term(&run, &Options { width: 130, ..Options::default() });
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for size in ["64", "1024"] {
        assert!(words.contains(&format!("udp:spin {size} B preempted backup (pid 4711)")), "{text}");
    }
}

#[test]
fn a_report_has_them_as_a_note_of_the_row() {
    let given = [Input { name: "run".into(), record: AnyRecord::Run(Box::new(run())) }];
    let view = hairpin_report::view(&given, "2026-11-22T12:00:00Z", Beside::default());
    let note = view.rows[0].warnings.iter().find(|warning| warning.code == "incidents").expect("a note");
    assert_eq!(note.message, format!("{SENTENCE}{LAST}"));
    let options = Options { width: 200, ..Options::default() };
    for text in [term(&view, &options), markdown(&view, &options)] {
        assert!(text.contains(&format!(": {SENTENCE}{LAST}\n")), "{text}");
    }
}

#[test]
fn the_live_view_has_them_while_the_run_goes_on_and_at_its_end() {
    let mut state = State::new(Source::Stream, "hairpin watch -");
    let first = Incidents { count: 1, written: 1, over_rate: 0, last: None, ..found() };
    state.progress(&Progress { path: "udp:spin/udp:spin".into(), incidents: Some(Box::new(first)), ..Progress::default() });
    let shown = frame(&state, 160, 24);
    assert!(shown.contains("! incidents: 1 round trip above 200 us: 1 in incidents.jsonl\n"), "{shown}");
    state.ends(&run().results[0]);
    let shown = frame(&state, 160, 24);
    assert!(shown.contains(&format!("! incidents: {SENTENCE}{LAST}\n")), "{shown}");
}
