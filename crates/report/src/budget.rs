//! One bar to scale: the measured parts of a round trip, with the floor of a NIC and a cable beside it or within it.
//!
//! ```text
//!   both sides on one host     |### kernel ###|## calls ##|##### waking #####|/// floor ///|
//!                               measured                                      derived, beside it
//!   to another host            |/// floor ///|## rest ##|### kernel ###|## calls ##|## waking ##|
//!                               outside of both hosts, measured
//! ```
//! The page has the same arithmetic for the design and cable that its reader chooses, `web/src/budget.ts`; tests of both sides
//! read `tests/data/budget.json`.

use serde::Serialize;

use crate::cell::{Bar, Cell};
use crate::chart::whole::Segment;
use crate::doc::{Column, Doc, Place, Row, Table};
use crate::figure::{time, us_short};
use crate::prose::clean;
use crate::style::Tone;
use crate::view::{Breakdown, Design, Wire};

/// Kinds of work in the order of the bar: first those outside of both programs.
const ORDER: [&str; 10] = ["outside", "ring", "kernel", "calls", "program", "waiting", "pieces", "waking", "hooks", "no stage"];
/// The rest is a difference: the whole is measured, the floor is derived.
const REST: &str = "rest, less the floor";
/// How the bar is drawn.
const DRAWN: &str = "us, to scale: # measured, / derived from published and declared figures";
/// The same with a rest.
const DRAWN_WITH_REST: &str =
    "us, to scale: # measured, in the rest less the floor, / derived from published and declared figures";

/// A piece of the bar.
#[derive(Clone, Serialize)]
pub(crate) struct Piece {
    pub(crate) name: String,
    /// The kind of work; `floor` for a part of the floor.
    pub(crate) part: String,
    pub(crate) ns: f64,
    /// `measured`, or the class of a figure of the floor.
    pub(crate) class: String,
    /// The source of a figure of the floor; else empty.
    pub(crate) source: String,
}

impl Piece {
    pub(crate) fn is_floor(&self) -> bool {
        self.part == "floor"
    }
}

/// A budget: its bar and its arithmetic.
pub(crate) struct Budget {
    /// In the order of the bar. The pieces of a floor within a measured time are followed by the rest of that time.
    pub(crate) pieces: Vec<Piece>,
    /// Measured figures, derived figures and their sum.
    pub(crate) sum: String,
    /// The measured time plus the floor in ns, if a floor stands beside it.
    with_floor: Option<f64>,
}

/// The kind of work that contains NIC and cable, and that place in words.
fn around(wire: Wire) -> (Option<&'static str>, &'static str) {
    match wire {
        Wire::Beside => (None, "on this host"),
        Wire::Outside => (Some("outside"), "outside of both hosts"),
        Wire::Ring => (Some("ring"), "in the ring of an emulated device"),
    }
}

/// The budget with the design that was declared, if one was.
pub(crate) fn declared(of: &Breakdown) -> Budget {
    budget(&measured(of), of.typical_ns, of.wire, of.designs.first().filter(|_| of.declared))
}

/// The measured pieces: a stage with all its passes.
pub(crate) fn measured(of: &Breakdown) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    for part in ORDER {
        for stage in of.stages.iter().filter(|stage| stage.part == part) {
            match pieces.iter_mut().find(|piece| piece.name == stage.name) {
                Some(piece) => piece.ns += stage.typical_ns,
                None => pieces.push(Piece {
                    name: stage.name.clone(),
                    part: part.into(),
                    ns: stage.typical_ns,
                    class: "measured".into(),
                    source: String::new(),
                }),
            }
        }
    }
    pieces
}

fn budget(pieces: &[Piece], typical_ns: f64, wire: Wire, design: Option<&Design>) -> Budget {
    let pieces = pieces.to_vec();
    if pieces.is_empty() {
        return Budget { pieces, sum: "No round trip was measured, so there is no budget.".into(), with_floor: None };
    }
    let measured = format!("hooks included: {}", time(typical_ns));
    let plain = |pieces, sum: String| Budget { pieces, sum: format!("Measured, {measured}. {sum}"), with_floor: None };
    let Some(design) = design else {
        return plain(pieces, "No NIC and no cable is drawn with it.".into());
    };
    let [low, high] = design.ns();
    let told = told(design);
    let parts = design.parts.iter().map(|part| Piece {
        name: part.name.clone(),
        part: "floor".into(),
        ns: part.ns[0],
        class: part.class.to_string(),
        source: part.source.clone(),
    });
    let (part, place) = around(wire);
    let Some(part) = part else {
        let whole = range(typical_ns + low, typical_ns + high);
        return Budget {
            pieces: pieces.into_iter().chain(parts).collect(),
            sum: format!(
                "Measured {place}, {measured}, no NIC and no cable in it. Theirs, derived: {told}. The sum, derived: {whole}."
            ),
            with_floor: Some(typical_ns + low),
        };
    };
    let (inside, others): (Vec<Piece>, Vec<Piece>) = pieces.into_iter().partition(|piece| piece.part == part);
    if inside.is_empty() {
        return plain(others, format!("No stage {place} was seen, so the floor of {told} is not drawn."));
    }
    let within: f64 = inside.iter().map(|piece| piece.ns).sum();
    if low > within {
        let sum = format!(
            "The floor of {told} is above the {} {place}: this link is another one, and the floor is not drawn.",
            time(within)
        );
        return plain(inside.into_iter().chain(others).collect(), sum);
    }
    let rest = Piece {
        name: REST.into(),
        part: part.into(),
        ns: within - low,
        class: "derived".into(),
        source: format!("{} measured {place}, less the floor", time(within)),
    };
    let sum = format!(
        "Of {} {place}, {told} are the floor, derived; the rest of it, {}, is a difference, so derived too.",
        time(within),
        time(within - low)
    );
    plain(parts.chain([rest]).chain(others).collect(), sum)
}

fn range(low: f64, high: f64) -> String {
    if high > low { format!("{} to {}", time(low), time(high)) } else { time(low) }
}

/// A floor's figure with its design and link.
fn told(design: &Design) -> String {
    let [low, high] = design.ns();
    let words = [&design.name, &design.link, &design.over].map(|word| clean(word));
    let words: Vec<&str> = words.iter().map(String::as_str).filter(|word| !word.is_empty()).chain(["there and back"]).collect();
    format!("{} ({})", range(low, high), words.join(", "))
}

/// The length of the whole bar.
pub(crate) fn whole(pieces: &[Piece]) -> f64 {
    let sum: f64 = pieces.iter().map(|piece| length(piece.ns)).sum();
    if sum > 0.0 && sum.is_finite() { sum } else { 1.0 }
}

/// A mean may be below zero by rounding, and a record from elsewhere may hold any number.
pub(crate) fn length(ns: f64) -> f64 {
    if ns.is_finite() { ns.max(0.0) } else { 0.0 }
}

/// The bar with its arithmetic: five lines on a terminal, more only for a long name.
pub(crate) fn bar(doc: &mut Doc, of: &Breakdown) {
    let Budget { pieces: all, sum, .. } = declared(of);
    if all.is_empty() {
        return doc.text(sum);
    }
    let whole = whole(&all);
    let mut at = 0.0;
    let segments = all.chunk_by(|a, b| a.part == b.part && (a.name == REST) == (b.name == REST)).map(|group| {
        let ns: f64 = group.iter().map(|piece| length(piece.ns)).sum();
        at += ns;
        let name = if group[0].name == REST { "rest" } else { &group[0].part };
        let hatched = group[0].class != "measured";
        Segment { to: at / whole, label: [name.into(), us_short(ns)], hatched: hatched && group[0].is_floor() }
    });
    let segments: Vec<Segment> = segments.collect();
    doc.text(if all.iter().any(|piece| piece.name == REST) { DRAWN_WITH_REST } else { DRAWN });
    doc.whole(segments);
    doc.text(sum);
}

/// Every piece with its class and source, each beginning where the one before ends.
pub(crate) fn table(of: &Breakdown) -> Table {
    let Budget { pieces: all, with_floor, .. } = declared(of);
    let whole = whole(&all);
    let mut at = 0.0;
    let mut rows: Vec<Row> = Vec::new();
    for piece in &all {
        let from = at;
        at += length(piece.ns);
        let bar = Bar { hatched: piece.is_floor(), ..Bar::new(from / whole, at / whole) };
        let (name, part) = (clean(&piece.name), clean(&piece.part));
        rows.push(
            vec![part.into(), name.into(), Cell::Ns(piece.ns), Cell::Bar(bar), (&piece.class).into(), (&piece.source).into()]
                .into(),
        );
    }
    let sum = |name: &str, ns: f64, class: &str| {
        let cells = vec![name.into(), Cell::Blank, Cell::Ns(ns), Cell::Blank, class.into(), Cell::Blank];
        Row { cells, tone: Tone::Heading }
    };
    rows.push(sum("measured", of.typical_ns, "measured"));
    rows.extend(with_floor.map(|ns| sum("with the floor", ns, "derived")));
    let columns = vec![
        Column::words("part"),
        Column::words("stage, both ways"),
        Column::us("mean"),
        Column::bar(),
        Column::words("class"),
        Column { place: Place::Page, ..Column::words("source") },
    ];
    Table { folds: true, ..Table::new(columns, 2, rows) }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::view::{DesignPart, StageRow};
    use hairpin_record::floor::Class;

    fn design(low: f64, high: f64, over: &str) -> Design {
        let part =
            |name: &str, ns: [f64; 2]| DesignPart { name: name.into(), ns, class: Class::Published, source: "a table".into() };
        Design {
            name: "niq".into(),
            about: String::new(),
            link: "10Gbit/s, a frame of 60 bytes".into(),
            over: over.into(),
            parts: vec![part("mac", [low - 30.0, high - 30.0]), part("cable", [30.0, 30.0])],
            cable: None,
        }
    }

    fn breakdown(wire: Wire, outside: Option<f64>) -> Breakdown {
        let stage = |name: &str, part: &str, typical_ns: f64| StageRow {
            name: name.into(),
            part: part.into(),
            side: String::new(),
            direction: String::new(),
            typical_ns,
            slow_ns: 0.0,
            p50_ns: None,
            p99_ns: None,
        };
        let part = if wire == Wire::Ring { "ring" } else { "outside" };
        let mut stages = vec![
            stage("send call", "calls", 620.0),
            stage("stack", "kernel", 280.0),
            stage("send call", "calls", 600.5),
            stage("observer", "hooks", 1_298.0),
            stage("residual", "no stage", -12.0),
        ];
        stages.extend(outside.map(|ns| stage(part, part, ns)));
        Breakdown { typical_ns: stages.iter().map(|stage| stage.typical_ns).sum(), stages, wire, ..Breakdown::default() }
    }

    #[test]
    fn the_page_has_the_same_arithmetic() {
        let cases = [
            (breakdown(Wire::Beside, None), None),
            (breakdown(Wire::Beside, None), Some(design(3_978.0, 3_978.0, "twinax:3m"))),
            (breakdown(Wire::Beside, None), Some(design(8_000.0, 10_142.5, ""))),
            (breakdown(Wire::Outside, None), Some(design(3_978.0, 3_978.0, ""))),
            (breakdown(Wire::Outside, Some(9_000.0)), Some(design(3_978.0, 3_978.0, "twinax:3m"))),
            (breakdown(Wire::Outside, Some(3_000.0)), Some(design(3_978.0, 4_100.0, "optical:5000m"))),
            (breakdown(Wire::Ring, Some(142_500.0)), Some(design(500.0, 500.0, ""))),
            (breakdown(Wire::Ring, Some(142_500.0)), None),
            (Breakdown::default(), Some(design(3_978.0, 3_978.0, ""))),
        ];
        let case = |(of, design): &(Breakdown, Option<Design>)| -> Value {
            let given = measured(of);
            let found = budget(&given, of.typical_ns, of.wire, design.as_ref());
            json!({
                "typical_ns": of.typical_ns, "wire": of.wire, "measured": given, "design": design,
                "pieces": found.pieces, "sum": found.sum,
            })
        };
        crate::shared::held("budget", &cases.iter().map(case).collect::<Vec<_>>());
    }
}
