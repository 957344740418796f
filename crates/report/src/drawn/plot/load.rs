//! RTT p99 against the offered rate: two lines for each load, from due and from sent, and its knee.

use hairpin_units::Arrange;

use super::{COLOURS, Chart, Knee, Line, MARKS, MOST_LINES, Plot, Point, Times, ends, more, times};
use crate::chart::axis::Axis;
use crate::chart::offered::{RATES, rounded};
use crate::drawn::words;
use crate::figure::us;
use crate::prose::clean;
use crate::view::{LoadCurve, LoadRate, View};

/// The greatest number of loads, as each has two lines.
const MOST_LOADS: usize = MOST_LINES / 2;

/// `None` where no load has a p99 from due at two rates.
pub(super) fn plot(view: &View) -> Option<Plot> {
    let all = view.loads.iter().map(|curve| (curve, rates(curve)));
    let found: Vec<(&LoadCurve, Vec<&LoadRate>)> =
        all.filter(|(_, rates)| rates.iter().filter(|rate| p99(rate, Times::FromDue).is_some()).count() > 1).collect();
    let drawn = &found[..found.len().min(MOST_LOADS)];
    drawn.first()?;
    let both = |(number, (curve, rates)): (usize, &(&LoadCurve, Vec<&LoadRate>))| {
        [Times::FromDue, Times::FromSent].map(|of| line(view, number, curve, rates, of))
    };
    let lines: Vec<Line> = drawn.iter().enumerate().flat_map(both).filter(|line| !line.points.is_empty()).collect();
    let knees = lines.iter().filter_map(|line| line.knee.as_ref()?.between).flat_map(|(keeps_up, beyond)| [keeps_up, beyond]);
    let values: Vec<f64> = lines.iter().flat_map(|line| line.points.iter().map(|point| point.x)).chain(knees).collect();
    let few = view.loads.len() - found.len();
    let few =
        (few > 0).then(|| format!("{few} {} a p99 at fewer than two rates", if few == 1 { "load has" } else { "loads have" }));
    let again: usize = drawn.iter().map(|(curve, rates)| curve.rates.len() - rates.len()).sum();
    let again = more(again, "measurement is", "measurements are")
        .map(|note| note + ": of a rate that was measured again the last one is drawn");
    Some(Plot {
        chart: Chart::Load,
        x: Axis::bytes(&values),
        y: Axis::times(times(&lines, &[], &[])),
        values: values.into_iter().map(rounded).collect(),
        uneven: false,
        lines,
        floors: Vec::new(),
        published: Vec::new(),
        left_out: [more(found.len() - drawn.len(), "load is", "loads are"), few, again].into_iter().flatten().collect(),
    })
}

/// Ascending; of a rate that was measured again, the last measurement.
fn rates(curve: &LoadCurve) -> Vec<&LoadRate> {
    let mut rates: Vec<&LoadRate> = curve.rates.iter().rev().filter(|rate| RATES.contains(&rate.offered_per_s)).collect();
    rates.arrange_by(|a, b| a.offered_per_s.total_cmp(&b.offered_per_s));
    rates.dedup_by_key(|rate| rate.offered_per_s);
    rates
}

fn p99(rate: &LoadRate, of: Times) -> Option<u64> {
    let times = if of == Times::FromSent { &rate.from_sent } else { &rate.from_due };
    times.p99.ns
}

/// Both lines of a load have its colour; their marks and strokes differ.
fn line(view: &View, number: usize, curve: &LoadCurve, rates: &[&LoadRate], of: Times) -> Line {
    let from_sent = of == Times::FromSent;
    Line {
        label: format!("{}, {}", name(view, curve), if from_sent { "from sent" } else { "from due" }),
        origin: curve.origin,
        look: (number % COLOURS, (2 * number + usize::from(from_sent)) % MARKS),
        times: of,
        samples: ends(rates.iter().filter(|rate| p99(rate, of).is_some()).map(|rate| rate.due)),
        points: rates.iter().filter_map(|rate| point(rate, of)).collect(),
        fits: Vec::new(),
        fit_words: None,
        knee: (!from_sent).then(|| knee(curve)),
    }
}

/// The path; with the record if another load has the same.
fn name(view: &View, curve: &LoadCurve) -> String {
    let alike = view.loads.iter().filter(|other| other.label == curve.label).count();
    let record = if alike > 1 { format!(", record {}", curve.record) } else { String::new() };
    format!("{}{record}", clean(&curve.label))
}

fn knee(curve: &LoadCurve) -> Knee {
    let drawn = |(keeps_up, beyond): &(f64, f64)| RATES.contains(keeps_up) && RATES.contains(beyond);
    Knee { between: curve.keeps_up_per_s.zip(curve.beyond_per_s).filter(drawn), words: clean(&curve.knee) }
}

fn point(rate: &LoadRate, of: Times) -> Option<Point> {
    let ns = p99(rate, of)? as f64;
    let apart = if rate.apart { format!(" ({})", words::APART) } else { String::new() };
    Some(Point {
        x: rate.offered_per_s,
        ns,
        interval: None,
        marked: true,
        apart: rate.apart,
        joined: !rate.apart,
        words: format!("{}: RTT p99 {} us, {} requests due{apart}", clean(&rate.offered_said), us(ns), rate.due),
    })
}

#[cfg(test)]
mod tests {
    use hairpin_record::run::Origin;

    use super::*;
    use crate::view::{Quantile, Summary};

    fn rate(offered_per_s: f64, due_ns: u64) -> LoadRate {
        let times = |ns| Summary { p99: Quantile { ns: Some(ns), ..Quantile::default() }, ..Summary::default() };
        LoadRate {
            offered_per_s,
            offered_said: format!("{offered_per_s}/s"),
            achieved_per_s: offered_per_s,
            due: 2_000,
            lost: 0,
            repeat: 0,
            apart: false,
            from_due: times(due_ns),
            from_sent: times(due_ns / 2),
            split: None,
        }
    }

    fn load(record: usize, rates: Vec<LoadRate>) -> LoadCurve {
        LoadCurve {
            record,
            label: "udp:spin, 64 B".into(),
            origin: Origin::Measured,
            knee: "The knee.".into(),
            keeps_up_per_s: Some(30e3),
            beyond_per_s: Some(40e3),
            rates,
            warnings: Vec::new(),
        }
    }

    fn of(loads: Vec<LoadCurve>) -> View {
        View { loads, ..View::default() }
    }

    #[test]
    fn a_load_has_two_lines_and_a_knee() {
        let again = LoadRate { repeat: 1, ..rate(40e3, 50_000) };
        let apart = LoadRate { apart: true, ..rate(20e3, 30_000) };
        let measured = vec![rate(30e3, 12_000), rate(10e3, 10_000), apart, rate(40e3, 90_000), again];
        let plot = plot(&of(vec![load(1, measured)])).unwrap();
        let labels: Vec<&str> = plot.lines.iter().map(|line| line.label.as_str()).collect();
        assert_eq!(labels, ["udp:spin, 64 B, from due", "udp:spin, 64 B, from sent"]);
        let due = &plot.lines[0];
        assert_eq!(due.joined(), [(10e3, 10_000.0), (30e3, 12_000.0), (40e3, 50_000.0)]);
        assert_eq!(plot.lines[1].joined(), [(10e3, 5_000.0), (30e3, 6_000.0), (40e3, 25_000.0)]);
        for line in &plot.lines {
            assert_eq!(line.points.iter().map(|point| point.apart).collect::<Vec<_>>(), [false, true, false, false]);
        }
        assert_eq!(due.knee.as_ref().and_then(|knee| knee.between), Some((30e3, 40e3)));
        assert!(plot.lines[1].knee.is_none());
        assert_eq!(plot.left_out.len(), 1, "{:?}", plot.left_out);
        assert_eq!(due.look.0, plot.lines[1].look.0);
        assert_ne!(due.look.1, plot.lines[1].look.1);
    }

    #[test]
    fn loads_of_one_path_have_their_record_and_only_those_with_two_rates_are_drawn() {
        let curve = |record| load(record, vec![rate(10e3, 10_000), rate(30e3, 12_000)]);
        let plot = plot(&of(vec![curve(1), curve(2), load(3, vec![rate(10e3, 10_000)])])).unwrap();
        let labels: Vec<&str> = plot.lines.iter().map(|line| line.label.as_str()).collect();
        assert_eq!(labels.len(), 4);
        assert!(
            labels[0].starts_with("udp:spin, 64 B, record 1,") && labels[2].starts_with("udp:spin, 64 B, record 2,"),
            "{labels:?}"
        );
        assert_eq!(plot.left_out, ["1 load has a p99 at fewer than two rates"]);
        let why = Plot::of(&of(vec![load(1, vec![rate(10e3, 10_000); 2])]), Chart::Load).err();
        assert_eq!(why, Some("no load was measured at two rates or more, with a p99 at each"));
    }

    #[test]
    fn no_two_lines_look_alike() {
        let curve = |record| load(record, vec![rate(10e3, 10_000), rate(30e3, 12_000)]);
        let plot = plot(&of((1..=MOST_LOADS + 1).map(curve).collect())).unwrap();
        assert_eq!((plot.lines.len(), plot.left_out.as_slice()), (2 * MOST_LOADS, &["1 more load is left out".to_owned()][..]));
        for (i, line) in plot.lines.iter().enumerate() {
            assert!(plot.lines[..i].iter().all(|other| other.look != line.look), "{:?}", line.look);
        }
    }
}
