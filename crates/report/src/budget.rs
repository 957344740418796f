//! One bar to scale: the measured parts of a round trip, with the floor of a NIC and a cable beside it or within it.
//!
//! ```text
//!   both sides on one host     |### kernel ###|## calls ##|##### waking #####|/// floor ///|
//!                               measured                                      derived, beside it
//!   to another host            |/// floor ///|## rest ##|### kernel ###|## calls ##|## waking ##|
//!                               outside of both hosts, measured
//! ```
//! The page draws the same from the same fields, for any design and cable that its reader chooses: `web/src/charts/budget.ts`.

use crate::cell::{Bar, Cell};
use crate::chart::whole::Segment;
use crate::doc::{Column, Doc, Place, Row, Table};
use crate::figure::{us_short, us_signed};
use crate::prose::clean;
use crate::style::Tone;
use crate::view::{Breakdown, Design, Wire};

/// Kinds of work in the order of the bar: first those outside of both programs.
const ORDER: [&str; 10] = ["outside", "ring", "kernel", "calls", "program", "waiting", "pieces", "waking", "hooks", "no stage"];
/// The rest is a difference: the whole is measured, the floor is derived.
const REST: &str = "rest, less the floor";
/// How the bar is drawn.
const DRAWN: &str = "us, to scale: # measured, / derived from published and declared figures";

/// A piece of the bar.
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

/// The floor and the whole that it is a part of.
pub(crate) struct Floor<'v> {
    pub(crate) design: &'v Design,
    /// Lower and upper end.
    pub(crate) ns: [f64; 2],
    /// The measured time that contains it; `None` if it stands beside the measured time.
    pub(crate) within: Option<f64>,
}

impl Floor<'_> {
    /// True unless it is longer than that whole.
    pub(crate) fn fits(&self) -> bool {
        self.within.is_none_or(|within| self.ns[0] <= within)
    }
}

/// The kind of work that contains NIC and cable.
fn around(wire: Wire) -> Option<&'static str> {
    match wire {
        Wire::Beside => None,
        Wire::Outside => Some("outside"),
        Wire::Ring => Some("ring"),
    }
}

/// The declared floor of a path, unless nothing measured could hold it.
pub(crate) fn floor(of: &Breakdown) -> Option<Floor<'_>> {
    let design = of.designs.first().filter(|_| of.declared)?;
    let within = match around(of.wire) {
        None => None,
        Some(part) => {
            let mut inside = of.stages.iter().filter(|stage| stage.part == part).peekable();
            inside.peek()?;
            Some(inside.map(|stage| stage.typical_ns).sum())
        }
    };
    Some(Floor { design, ns: design.ns(), within })
}

/// The pieces in the order of the bar. Those of a floor within a measured time are followed by the rest of that.
pub(crate) fn pieces(of: &Breakdown) -> Vec<Piece> {
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
    let Some(floor) = floor(of).filter(Floor::fits) else { return pieces };
    let parts = floor.design.parts.iter().map(|part| Piece {
        name: part.name.clone(),
        part: "floor".into(),
        ns: part.ns[0],
        class: part.class.to_string(),
        source: part.source.clone(),
    });
    match (floor.within, around(of.wire)) {
        (Some(within), Some(part)) => {
            pieces.retain(|piece| piece.part != part);
            let source = format!("{} us measured {}, less the floor", us_signed(within), whereabouts(of.wire));
            let rest = Piece { name: REST.into(), part: part.into(), ns: within - floor.ns[0], class: "derived".into(), source };
            parts.chain([rest]).chain(pieces).collect()
        }
        _ => pieces.into_iter().chain(parts).collect(),
    }
}

/// The time that contains the floor, in words.
fn whereabouts(wire: Wire) -> &'static str {
    match wire {
        Wire::Beside => "on this host",
        Wire::Outside => "outside of both hosts",
        Wire::Ring => "in the ring of an emulated device",
    }
}

/// A floor's figure with its design and link.
fn declared(floor: &Floor) -> String {
    let [low, high] = floor.ns.map(us_signed);
    let figure = if low == high { low } else { format!("{low} to {high}") };
    let over = if floor.design.over.is_empty() { String::new() } else { format!(", {}", clean(&floor.design.over)) };
    format!("{figure} us ({}, {}{over}, there and back)", clean(&floor.design.name), clean(&floor.design.link))
}

/// The arithmetic: measured figures, derived figures and their sum.
pub(crate) fn sum(of: &Breakdown) -> String {
    let measured = format!("hooks included: {} us", us_signed(of.typical_ns));
    let Some(floor) = floor(of) else {
        return format!("Measured, {measured}. No NIC and no cable was declared for it that could be drawn.");
    };
    let (told, place) = (declared(&floor), whereabouts(of.wire));
    match floor.within {
        None => {
            let [low, high] = floor.ns.map(|ns| us_signed(of.typical_ns + ns));
            let whole = if low == high { low } else { format!("{low} to {high}") };
            format!(
                "Measured {place}, {measured}, no NIC and no cable in it. Theirs, derived: {told}. The sum, derived: {whole} us."
            )
        }
        Some(within) if floor.fits() => format!(
            "Measured, {measured}. Of {} us {place}, {told} are the floor, derived; the rest of it, {} us, is a difference, so derived too.",
            us_signed(within),
            us_signed(within - floor.ns[0])
        ),
        Some(within) => format!(
            "Measured, {measured}. The floor of {told} is above the {} us {place}: this link is not the declared one, and the floor is not drawn.",
            us_signed(within)
        ),
    }
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
    let all = pieces(of);
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
    doc.text(DRAWN);
    doc.whole(segments);
    doc.text(sum(of));
}

/// Every piece with its class and source, each beginning where the one before ends.
pub(crate) fn table(of: &Breakdown) -> Table {
    let all = pieces(of);
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
    if let Some(floor) = floor(of).filter(|floor| floor.within.is_none()) {
        rows.push(sum("with the floor", of.typical_ns + floor.ns[0], "derived"));
    }
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
