//! The report by host and wire in the forms without a browser: rows of a run, rates of a load, explained paths.

use hairpin_record::any::AnyRecord;
use hairpin_record::explain::{Explain, Explained};
use hairpin_record::load::{Load, LoadRow};
use hairpin_record::run::{Row, Run};
use hairpin_record::split::{Layer, PartName, Split, StampCounts};
use hairpin_report::view::{Beside, Input, View};
use hairpin_report::{Options, csv, markdown, view};
use insta::assert_snapshot;
use serde_json::Value;

use crate::goldens::row;
use crate::screens::fits;
use crate::split::{NIC, delays, run, split, with};
use crate::{explain, load};

fn of(records: Vec<AnyRecord>) -> View {
    let input = |record: AnyRecord| Input { name: record.verb().into(), record };
    view(&records.into_iter().map(input).collect::<Vec<_>>(), "2026-11-22T12:00:00Z", Beside::default())
}

/// Stamps of both sides; of the client alone, with delays; none that tell anything; and a row without any.
fn rows() -> Run {
    let mut alone = split(NIC, [Layer::Hardware, Layer::None]);
    alone.parts.retain(|part| matches!(part.part, PartName::Client | PartName::Beyond));
    alone.stamps[2..].iter_mut().for_each(|of| of.why = "it runs no hairpin".into());
    let mut nothing =
        Split { counts: StampCounts { transactions: 50, missing: 50, ..StampCounts::default() }, ..Split::default() };
    nothing.stamps = split(NIC, [Layer::None; 2]).stamps;
    run(vec![
        with("udp:spin/udp:spin", 30_200, split(NIC, [Layer::Software; 2])),
        Row { one_way: Some(Box::new(delays())), ..with("udp:block/udp:block", 60_000, alone) },
        with("tcp:spin/tcp:spin", 31_000, nothing),
        row("tcp:epoll/tcp:epoll", 20_000, 62_000),
    ])
}

/// Four rates out of their order, one without stamps; hosts take less time at a high one.
fn rates() -> Load {
    let at = |per_s: f64, shorter: u64| {
        let parts = [NIC[0] / shorter, NIC[1], NIC[2] / shorter, NIC[3], NIC[4] / shorter, NIC[5] / shorter];
        LoadRow { split: Some(Box::new(split(parts, [Layer::Software; 2]))), ..load::row(per_s, 1.0, 9_500, 40) }
    };
    let mut few = at(40_000.0, 3);
    few.split.iter_mut().for_each(|split| split.counts.impossible = 0);
    let knee = load::knee(Some(40_000.0), Some(80_000.0), "achieved");
    load::record(vec![load::curve(
        "udp:spin/udp:spin",
        vec![few, at(10_000.0, 1), at(20_000.0, 2), load::row(80_000.0, 0.9, 14_000, 310_000)],
        knee,
    )])
}

fn explained() -> Explain {
    let path =
        Explained { split: Some(Box::new(split([600, 750, 610, 20, 590, 480], [Layer::Software; 2]))), ..explain::spinning() };
    explain::record(vec![path])
}

fn all() -> [View; 3] {
    [
        of(vec![AnyRecord::Run(Box::new(rows()))]),
        of(vec![AnyRecord::Load(Box::new(rates()))]),
        of(vec![AnyRecord::Explain(Box::new(explained()))]),
    ]
}

/// The section of a text.
fn section(text: &str) -> String {
    let ends = |line: &str| {
        ["Latency budget", "Latency under load", "Differences", "How to"]
            .iter()
            .any(|end| line.trim_start_matches('*').starts_with(end))
    };
    let begins = |line: &&str| !["Host and wire", "One-way"].iter().any(|head| line.trim_start_matches('*').starts_with(head));
    text.lines().skip_while(begins).take_while(|line| !ends(line)).collect::<Vec<_>>().join("\n")
}

fn term(view: &View, width: usize) -> String {
    section(&fits(view, &Options { width, ..Options::default() }))
}

#[test]
fn a_terminal_has_bars_to_scale() {
    for view in all() {
        assert_snapshot!(term(&view, 80));
    }
}

#[test]
fn a_wide_terminal_has_longer_bars() {
    for view in all() {
        assert_snapshot!(term(&view, 132));
    }
}

#[test]
fn markdown_has_the_same_figures() {
    for view in all() {
        assert_snapshot!(section(&markdown(&view, &Options::default())));
    }
}

#[test]
fn csv_has_the_columns_of_the_record() {
    for view in all() {
        assert_snapshot!(csv(&view, &Options::default()));
    }
    let lines =
        |text: String| text.lines().map(|line| line.split(',').map(str::to_owned).collect()).collect::<Vec<Vec<String>>>();
    let column = |lines: &[Vec<String>], name: &str| -> Vec<String> {
        let at = lines[0].iter().position(|head| head == name).unwrap_or_else(|| panic!("{name}: {:?}", lines[0]));
        lines[1..].iter().map(|line| line[at].clone()).collect()
    };
    // The words of a row may have commas, its path has none.
    let [run, report] = [csv(&rows(), &Options::default()), csv(&all()[0], &Options::default()).replace(", 64 B", "")].map(lines);
    for name in run[0].iter().filter(|name| name.starts_with("split_") || name.starts_with("one_way_")) {
        assert_eq!(column(&run, name), column(&report, name), "{name}");
    }
}

#[test]
fn a_short_view_has_the_bars_that_there_is_room_for() {
    let options = Options { brief: true, ..Options::default() };
    for view in all() {
        let text = fits(&view, &options);
        assert!(text.lines().count() <= 20, "{text}");
        assert_snapshot!(text);
    }
}

#[test]
fn the_pieces_of_a_bar_are_as_long_as_their_share() {
    let [view, ..] = all();
    let text = fits(&view, &Options { width: 132, ..Options::default() });
    let bar = text.lines().find(|line| line.starts_with('|') && line.contains("server-out")).unwrap();
    // The last column is the edge.
    let lengths: Vec<usize> = bar.split('|').filter(|piece| !piece.is_empty()).map(|piece| piece.chars().count() + 1).collect();
    let whole: u64 = NIC.iter().sum();
    for (length, ns) in lengths.iter().zip(NIC) {
        let want = ns as f64 / whole as f64 * 131.0;
        assert!((*length as f64 - want).abs() <= 1.0, "{ns} ns: {length} columns, not {want}\n{bar}");
    }
}

#[test]
fn bars_of_a_load_have_one_scale_and_ascend() {
    let [_, view, _] = all();
    let text = term(&view, 132);
    let at: Vec<usize> = ["10.0 k/s:", "20.0 k/s:", "40.0 k/s:"].map(|rate| text.find(rate).unwrap()).into();
    assert!(at.is_sorted(), "{text}");
    let lengths: Vec<usize> = text.lines().filter(|line| line.starts_with('|')).map(|line| line.chars().count()).collect();
    assert!(lengths.len() == 3 && lengths[0] == 132 && lengths.is_sorted_by(|a, b| a > b), "{lengths:?}\n{text}");
    assert_eq!(text.matches("No better stamps").count(), 1, "what is true of all is said once: {text}");
}

#[test]
fn a_bar_that_would_hide_the_others_has_a_scale_of_its_own() {
    let mut load = rates();
    let long = load.body.results[0].rates[0].split.as_mut().unwrap();
    long.parts.iter_mut().for_each(|part| part.typical_ns *= 1_000.0);
    let text = term(&of(vec![AnyRecord::Load(Box::new(load))]), 132);
    let lengths: Vec<usize> = text.lines().filter(|line| line.starts_with('|')).map(|line| line.chars().count()).collect();
    assert_eq!(lengths, [132; 3], "{text}");
    assert!(text.contains("each to a scale of its own"), "{text}");
}

#[test]
fn the_page_has_the_split_of_rates_and_paths() {
    let [_, load, explain] = all();
    let page = |view: &View| -> Value {
        let page = hairpin_report::html(view);
        let json = page.split_once("id=\"view\">").unwrap().1.split_once("</script>").unwrap().0;
        serde_json::from_str(json).unwrap()
    };
    let curve = &page(&load)["loads"][0];
    assert_eq!(curve["split_scale_ns"], 31_000.0);
    let headlines: Vec<_> = curve["rates"].as_array().unwrap().iter().map(|rate| rate["split"]["headline"].as_str()).collect();
    assert!(
        headlines[1].unwrap().starts_with("22.1 of 31.0 us (typical RTT) are the hosts") && headlines[3].is_none(),
        "{headlines:?}"
    );
    let said: Vec<&str> = curve["split_said"].as_array().unwrap().iter().map(|said| said.as_str().unwrap()).collect();
    assert!(said.iter().any(|said| said.starts_with("10.0 k/s, 20.0 k/s: 20012 transactions stamped")), "{said:?}");
    let split = &page(&explain)["breakdowns"][0]["split"];
    assert_eq!(split["typical_ns"], 3_050.0);
    assert!(split["quantiles"].as_str().unwrap().contains("Without stamps RTT p50"), "{split}");
}
