//! The short views of all verbs: on a terminal of 24 lines with their answer, and whole words at every width.

use std::collections::BTreeSet;

use hairpin_record::compare::{Arm, Cpus};
use hairpin_record::experiment::Verdict;
use hairpin_record::run::{Cpu, CpuSide};
use hairpin_record::warning::Warning;
use hairpin_report::{Options, PathRow, Paths, Show, Support, term};
use hairpin_units::Nanos;
use insta::assert_snapshot;
use unicode_width::UnicodeWidthStr;

use crate::{attached, drawn, experiments, explain, goldens, load, tune};

/// Lines of a terminal that are not the verb's: the one typed, where the record is kept, another note, the prompt.
const OTHERS: usize = 4;

fn brief(width: usize) -> Options {
    Options { width, brief: true, ..Options::default() }
}

/// The text on a terminal; asserts that no line is wider, and that no word is broken.
pub fn fits(record: &(impl Show + ?Sized), options: &Options) -> String {
    let text = term(record, options);
    let words = |text: &str| -> BTreeSet<String> {
        let bare = |word: &str| word.trim_matches(|c: char| !c.is_alphanumeric()).to_owned();
        text.split_whitespace().map(bare).collect()
    };
    // A wide terminal breaks no line; whatever the views leave out is in one of these.
    let wide = |brief| words(&term(record, &Options { width: 1000, brief, ..options.clone() }));
    let (all, full) = (wide(true), wide(false));
    for line in text.lines() {
        assert!(line.width() <= options.width, "{}: {line}\n{text}", options.width);
        assert_eq!(line, line.trim_end());
        // Words of letters; a figure may have fewer digits where it has a range beside it, and ".." ends a word that was cut.
        let whole = |word: &str| all.contains(word) || full.contains(word);
        for word in line.split_whitespace().filter(|word| !word.ends_with("..") && !word.contains("..")) {
            let bare = word.trim_matches(|c: char| !c.is_alphanumeric());
            let drawn = word.contains("---") || word.chars().any(|c| ('\u{2800}'..='\u{28ff}').contains(&c));
            let plain = bare.chars().filter(|c| c.is_ascii_alphabetic()).count() > 3 && !drawn;
            assert!(
                !plain || whole(bare) || bare == "rest" || bare == "smaller" || bare == "more",
                "{}: \"{bare}\" of {line}\n{text}",
                options.width
            );
        }
    }
    text
}

fn on_two_cpus() -> Option<Cpus> {
    Some(Cpus { client: vec![0], server: vec![1] })
}

fn placed(arms: &mut [Arm]) {
    arms.iter_mut().for_each(|arm| arm.cpus = on_two_cpus());
}

/// Each kind of warning that a busy virtual machine brings.
fn noise() -> Vec<hairpin_record::warning::Note> {
    use hairpin_record::run::Side;
    [
        Warning::DeepIdle { side: Side::Server, state: "C1".into(), exit: None, demand_unread: false },
        Warning::InvoluntarySwitches { side: Side::Client, count: 411, cores: 1 },
        Warning::NoTsc { why: "the hypervisor hides it".into() },
        Warning::ForeignTime { side: Side::Client, took: Nanos(98_000_000), of: Nanos(3_500_000_000), cores: 1 },
    ]
    .map(|warning| warning.note())
    .into()
}

fn compared(count: usize) -> hairpin_record::compare::Compare {
    let mut record = experiments::record();
    let names: Vec<String> = (0..count).map(|at| char::from(b'A' + at as u8).to_string()).collect();
    let one = record.arms[1].clone();
    record.arms = names.iter().map(|name| Arm { name: name.clone(), warnings: noise(), ..one.clone() }).collect();
    let found = record.comparisons[0].clone();
    record.comparisons =
        names[1..].iter().map(|name| hairpin_record::compare::Comparison { arm: name.clone(), ..found.clone() }).collect();
    placed(&mut record.arms);
    record
}

fn swept() -> hairpin_record::sweep::Sweep {
    let mut record = experiments::swept();
    for cell in &mut record.cells {
        (cell.arm.cpus, cell.arm.warnings) = (on_two_cpus(), noise());
    }
    let effect = record.main_effects[0].clone();
    record.main_effects.extend((0..20).map(|at| hairpin_record::sweep::Effect { level: format!("{at}"), ..effect.clone() }));
    record
}

fn loaded(paths: &[&str], rates: usize) -> hairpin_record::load::Load {
    let offered = |at: usize| 10_000.0 * (at + 1) as f64;
    let curves = paths.iter().map(|path| {
        let mut rows: Vec<_> = (0..rates).map(|at| load::row(offered(at), 1.0, 9_500 + 900 * at as u64, 40)).collect();
        for row in &mut rows {
            let side = |cpu| CpuSide { cpus: vec![cpu], ..CpuSide::default() };
            (row.cpu, row.warnings) = (Cpu { client: side(0), server: Some(side(1)) }, noise());
        }
        load::curve(&format!("{path}/{path}"), rows, load::knee(Some(offered(rates - 2)), Some(offered(rates - 1)), "achieved"))
    });
    load::record(curves.collect())
}

fn tried() -> hairpin_record::tune_try::TuneTry {
    let mut record = experiments::tried();
    for path in &mut record.paths {
        placed(&mut path.alone.arms);
        path.alone.arms.iter_mut().for_each(|arm| arm.warnings = noise());
    }
    record
}

fn explained(paths: usize) -> hairpin_record::explain::Explain {
    let mut record = explain::troubled();
    let one = record.results[0].clone();
    record.results = vec![one; paths];
    for result in &mut record.results {
        (result.cpus, result.untraced_p50_ends_ns) =
            (on_two_cpus(), result.untraced_rtt_ns.p50.map(|ns| [ns - 2_000, ns + 2_000]));
    }
    record
}

fn paths() -> Paths {
    let row = |at: usize| PathRow {
        path: format!("path-{at}"),
        summary: "request and reply over one standing TCP connection per flow, as most programs have them, and more".into(),
        speaks: "local".into(),
        policies: vec!["block".into(), "spin".into()],
        options: Vec::new(),
        support: if at == 3 { Support::No } else { Support::Yes },
        why: (at == 3).then(|| "loopback has one queue, and both sides would need it: use --link veth".into()),
    };
    Paths::new((0..12).map(row).collect())
}

/// Name, text at 80 columns, and a part of the answer.
fn screens() -> Vec<(&'static str, String, &'static str)> {
    let at = |record: &dyn Show| term(record, &brief(80));
    let mut streams = goldens::streams();
    let row = streams.results[0].clone();
    streams.results.extend(vec![row; 12]);
    let mut many: Vec<hairpin_record::run::Run> = Vec::new();
    let mut rows: Vec<_> = (0..40).map(|at| goldens::row(&format!("udp:spin,sndbuf={at}"), 20_000, 5_000 + 100 * at)).collect();
    rows.iter_mut().for_each(|row| row.warnings = noise());
    let mut run: hairpin_record::run::Run = serde_json::from_str(include_str!("../../record/tests/data/run-1.json")).unwrap();
    run.results = rows;
    many.push(run);
    let mut unclear = compared(2);
    unclear.comparisons[0].verdict = Verdict::Unclear;
    vec![
        ("demo", term(&many[..], &brief(80)), "RTT p50"),
        ("explain", at(&explained(1)), "typical"),
        ("explain, three paths", at(&explained(3)), "typical"),
        ("explain, seven paths", at(&explained(7)), "typical"),
        ("explain :PORT", at(&attached::one()), "typical"),
        ("compare", at(&compared(2)), "B is slower than A"),
        ("compare, unclear", at(&unclear), "unclear whether"),
        ("compare, eight sides", at(&compared(8)), "H is slower than A"),
        ("compare placements", at(&experiments::placements([0.08, 0.079], 0.07)), "times as fast"),
        ("sweep", at(&swept()), "strongest: "),
        ("load, three rates", at(&loaded(&["udp:spin"], 3)), "keeps up with"),
        ("load, eleven rates", at(&loaded(&["udp:spin"], 11)), "keeps up with"),
        ("load, two paths", at(&loaded(&["udp:block", "tcp:block"], 11)), "tcp:block: keeps up with"),
        ("tune try", at(&tried()), "worth having: "),
        ("tune check", at(&tune::eleven()), "stand in the way"),
        ("tune list", at(&tune::list()), "can be changed"),
        ("check", at(&goldens::checked([0.6, -1.25, 12.0])), "passed"),
        ("check, failed", at(&goldens::checked([0.6, -1.25, 31.2])), "failed"),
        ("stream", at(&streams), "most without loss"),
        ("paths", at(&paths()), "path-11"),
        ("report", at(&drawn::views::everything()), "Fastest at 64 B"),
        ("report, many rows", at(&drawn::views::paths(9)), "and "),
    ]
}

#[test]
fn every_short_view_fits_a_terminal_of_24_lines_with_its_answer() {
    let mut wrong = Vec::new();
    for (name, text, answer) in screens() {
        let lines = text.lines().count();
        let joined = text.split_whitespace().collect::<Vec<_>>().join(" ");
        if lines + OTHERS > 24 || !joined.contains(answer) || text.lines().any(|line| line.width() > 80) {
            wrong.push(format!("{name}: {lines} lines, wanted \"{answer}\"\n{text}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_load_of_one_path_is_drawn_whatever_was_in_its_way() {
    for rates in [3, 4, 11] {
        let text = term(&loaded(&["udp:spin"], rates), &brief(80));
        assert!(text.contains("offered, k/s"), "{text}");
    }
}

#[test]
fn short_views_on_terminals_of_several_widths() {
    for width in [60, 80, 140, 200] {
        let options = brief(width);
        let shown = [
            fits(&explained(1), &options),
            fits(&explained(2), &options),
            fits(&attached::one(), &options),
            fits(&compared(2), &options),
            fits(&experiments::placements([0.08, 0.079], 0.07), &options),
            fits(&swept(), &options),
            fits(&loaded(&["udp:spin"], 4), &options),
            fits(&loaded(&["udp:block", "tcp:block"], 11), &options),
            fits(&tune::eleven(), &options),
            fits(&tried(), &options),
            fits(&goldens::checked([0.6, -1.25, 31.2]), &options),
            fits(&goldens::streams(), &options),
            fits(&paths(), &options),
        ];
        assert_snapshot!(format!("screens_{width}"), shown.join("-----\n"));
    }
}
