//! A NIC design as a TOML file, built in or a user's own: every figure with its source. Errors name line and column.
//!
//! ```toml
//! name = "mine"
//! about = "the design in a sentence"
//!
//! [[design]]              # one for each range of frames, the shorter first
//! frame = 60              # bytes without FCS that the figures hold for
//! up_to = 60              # the longest frame of this design; the last one has none
//! rate = "10G"
//! cable = "twinax:3m"     # left out if the source does not tell it
//! transfer = "inline"     # or "dma": longer frames take longer on PCIe; left out if not told
//!
//! [[design.out]]          # then [[design.link]] and [[design.in]]
//! name = "pcie write"
//! ns = 484                # or interval = [400, 500]
//! class = "published"     # or "derived", "assumed"
//! source = "who printed it, and where"
//! what = "a description"        # may be left out
//! ```
//! In place of `[[design]]`, `[table]` holds whole half round trips over sizes; `data/nic/sniffer10g.toml` is one.

mod value;

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use hairpin_record::floor::{Class, Counts, Part, PublishedRow, Span, Stage};
use hairpin_units::{BitRate, Picos};
use serde::Deserialize;
use serde::de::{self, Deserializer};

use self::value::{Header, Length, Ns, PerSecond, Rate, Text};
use crate::cable::Cable;
use crate::design::{NicModel, Reference, Stages, Transfer};
use crate::line::Frame;

/// Largest file, in bytes.
const MAX_FILE: u64 = 1 << 20;

/// Why a file is not a design.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file cannot be read.
    #[error("cannot read the NIC design {}: {source}", file.display())]
    Read { file: PathBuf, source: io::Error },
    /// The file is not a valid design.
    #[error("{}:{error}; docs/model.md shows a sound file", file.display())]
    Invalid {
        file: PathBuf,
        /// The mistake and its position.
        error: Invalid,
    },
}

/// A mistake in a text, and its position.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{line}:{column}: {message}")]
pub struct Invalid {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// The mistake.
    pub message: String,
}

/// Reads a design from a file.
pub fn load(file: &Path) -> Result<NicFile, LoadError> {
    let read = |source| LoadError::Read { file: file.into(), source };
    let mut text = String::new();
    fs::File::open(file).and_then(|open| open.take(MAX_FILE + 1).read_to_string(&mut text)).map_err(read)?;
    if text.len() as u64 > MAX_FILE {
        return Err(read(io::Error::other(format!("it is longer than {MAX_FILE} bytes"))));
    }
    parse(&text).map_err(|error| LoadError::Invalid { file: file.into(), error })
}

/// Reads a design.
pub fn parse(text: &str) -> Result<NicFile, Invalid> {
    toml::from_str(text).map_err(|error| {
        let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        Invalid { line, column, message: error.message().trim().replace('\n', "; ") }
    })
}

/// A design from a file.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "Raw")]
pub struct NicFile {
    name: String,
    about: String,
    notes: Vec<String>,
    bounds: Vec<Bound>,
    body: Body,
}

/// A published bound on a part of the way that is not a stage.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    /// The part, such as `receiving 1500 bytes`.
    pub what: String,
    /// The bound.
    pub at_most: Picos,
    /// Published, derived or assumed.
    pub class: Class,
    /// The source.
    pub source: String,
}

impl std::fmt::Display for Bound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Bound { what, at_most, class, source } = self;
        write!(f, "{what} takes at most {} ns ({class}: {source}); no stage here is that part alone", at_most.as_ns_f64())
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Body {
    Designs(Vec<Design>),
    Table(Table),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    name: Text,
    about: Text,
    #[serde(default)]
    notes: Vec<Text>,
    #[serde(default)]
    bound: Vec<RawBound>,
    #[serde(default)]
    design: Vec<Design>,
    table: Option<Table>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawBound {
    what: Text,
    at_most_ns: Ns,
    class: Class,
    source: Text,
}

impl TryFrom<Raw> for NicFile {
    type Error = String;

    fn try_from(raw: Raw) -> Result<NicFile, String> {
        let body = match (raw.design, raw.table) {
            (designs, None) if !designs.is_empty() => {
                let (last, before) = designs.split_last().ok_or("there is no design")?;
                let ends: Option<Vec<u64>> = before.iter().map(|design| design.up_to.map(|Length(n)| n)).collect();
                let ends = ends.ok_or("only the last [[design]] may leave out up_to")?;
                if last.up_to.is_some() || !ends.is_sorted_by(|a, b| a < b) {
                    return Err("[[design]]s go from shorter frames to longer ones by up_to, and the last one has none".into());
                }
                if before.iter().zip(&designs[1..]).any(|(one, next)| one.up_to.is_some_and(|Length(end)| next.frame <= end)) {
                    return Err("frame lies within the up_to of the [[design]] before: figures would hold for no frame".into());
                }
                Body::Designs(designs)
            }
            (designs, Some(table)) if designs.is_empty() => Body::Table(table),
            _ => return Err("a NIC has either [[design]]s or one [table]".into()),
        };
        let bound = |raw: RawBound| Bound { what: raw.what.0, at_most: raw.at_most_ns.0, class: raw.class, source: raw.source.0 };
        let bounds: Vec<Bound> = raw.bound.into_iter().map(bound).collect();
        let notes = raw.notes.into_iter().map(|Text(note)| note).chain(bounds.iter().map(Bound::to_string)).collect();
        Ok(NicFile { name: raw.name.0, about: raw.about.0, notes, bounds, body })
    }
}

/// The stages of a range of frames.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "RawDesign")]
struct Design {
    frame: u64,
    up_to: Option<Length>,
    rate: BitRate,
    cable: Option<Cable>,
    transfer: Transfer,
    stages: Vec<Stage>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawDesign {
    frame: Length,
    up_to: Option<Length>,
    rate: Rate,
    cable: Option<Cable>,
    #[serde(default)]
    transfer: Transfer,
    #[serde(default)]
    out: Vec<OneStage>,
    #[serde(default)]
    link: Vec<OneStage>,
    #[serde(default, rename = "in")]
    inward: Vec<OneStage>,
}

impl TryFrom<RawDesign> for Design {
    type Error = String;

    fn try_from(raw: RawDesign) -> Result<Design, String> {
        let parts = [(Part::Out, raw.out), (Part::Link, raw.link), (Part::In, raw.inward)];
        let stages: Vec<Stage> = parts
            .into_iter()
            .flat_map(|(part, stages)| stages.into_iter().map(move |OneStage(stage)| Stage { part, ..stage }))
            .collect();
        if stages.is_empty() {
            return Err("a [[design]] has at least one stage: [[design.out]], [[design.link]] or [[design.in]]".into());
        }
        let twice = stages.iter().enumerate().find(|(i, stage)| stages[..*i].iter().any(|other| other.name == stage.name));
        if let Some((_, stage)) = twice {
            return Err(format!("two stages of one design are called \"{}\"", stage.name));
        }
        if raw.up_to.is_some_and(|Length(end)| raw.frame.0 > end) {
            return Err("frame lies beyond up_to: the figures would hold for no frame of this design".into());
        }
        Ok(Design { frame: raw.frame.0, up_to: raw.up_to, rate: raw.rate.0, cable: raw.cable, transfer: raw.transfer, stages })
    }
}

/// Whole half round trips over sizes.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "RawTable")]
struct Table {
    counts: Counts,
    header: u64,
    rate: BitRate,
    cable: Option<Cable>,
    what: String,
    rows: Vec<Row>,
}

#[derive(Clone, Debug, PartialEq)]
struct Row {
    bytes: u64,
    time: Span,
    class: Class,
    source: String,
    published: Option<PublishedRow>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTable {
    counts: Counts,
    header: Header,
    rate: Rate,
    cable: Option<Cable>,
    class: Class,
    source: Text,
    what: Option<Text>,
    rows: Vec<RawRow>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRow {
    bytes: Length,
    ns: Option<Ns>,
    interval: Option<[Ns; 2]>,
    transactions_per_s: Option<Vec<PerSecond>>,
    min_ns: Option<Ns>,
    max_ns: Option<Ns>,
    elapsed_us: Option<u64>,
    class: Option<Class>,
    source: Option<Text>,
}

impl TryFrom<RawTable> for Table {
    type Error = String;

    fn try_from(raw: RawTable) -> Result<Table, String> {
        if raw.counts == Counts::Frame && raw.header.0 > 0 {
            return Err("a table that counts frames has header = 0: their bytes hold all headers".into());
        }
        let RawTable { class, source: Text(source), .. } = raw;
        let rows: Result<Vec<Row>, String> = raw.rows.into_iter().map(|row| row.with(class, &source)).collect();
        let rows = rows?;
        if rows.is_empty() || !rows.is_sorted_by(|a, b| a.bytes < b.bytes) {
            return Err("the rows of a table go from smaller bytes to larger ones, and there is at least one".into());
        }
        let what = raw.what.map_or(String::new(), |Text(what)| what);
        Ok(Table { counts: raw.counts, header: raw.header.0, rate: raw.rate.0, cable: raw.cable, what, rows })
    }
}

impl RawRow {
    fn with(self, class: Class, source: &str) -> Result<Row, String> {
        let bytes = self.bytes.0;
        let time = match (self.ns, self.interval, self.transactions_per_s.as_deref()) {
            (Some(Ns(ns)), None, None) => Span::point(ns),
            (None, Some(ends), None) => between(ends)?,
            (None, None, Some([PerSecond(rate)])) => Span::point(half(*rate)),
            (None, None, Some([PerSecond(a), PerSecond(b)])) => Span::between(half(*a), half(*b)),
            _ => return Err(format!("the row of {bytes} bytes needs one of ns, interval and transactions_per_s (one or two)")),
        };
        let published = match (self.elapsed_us, self.min_ns, self.max_ns) {
            (Some(elapsed_us), Some(Ns(min_ns)), Some(Ns(max_ns))) => Some(PublishedRow { elapsed_us, min_ns, max_ns }),
            (None, None, None) => None,
            _ => return Err(format!("the row of {bytes} bytes needs all of min_ns, max_ns and elapsed_us, or none")),
        };
        let source = self.source.map_or_else(|| source.to_owned(), |Text(source)| source);
        Ok(Row { bytes, time, class: self.class.unwrap_or(class), source, published })
    }
}

/// Half a round trip, from round trips per second.
fn half(per_second: f64) -> Picos {
    Picos((0.5e12 / per_second).round() as i64)
}

fn between([Ns(low), Ns(high)]: [Ns; 2]) -> Result<Span, String> {
    if low > high { Err("an interval goes from its lower end to its upper end".into()) } else { Ok(Span::between(low, high)) }
}

/// A stage before it is assigned to its part of the way.
struct OneStage(Stage);

impl<'de> Deserialize<'de> for OneStage {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<OneStage, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct RawStage {
            name: Text,
            ns: Option<Ns>,
            interval: Option<[Ns; 2]>,
            class: Class,
            source: Text,
            what: Option<Text>,
        }
        let raw = RawStage::deserialize(from)?;
        let time = match (raw.ns, raw.interval) {
            (Some(Ns(ns)), None) => Span::point(ns),
            (None, Some(ends)) => between(ends).map_err(de::Error::custom)?,
            (None, None) => return Err(de::Error::custom("the stage has no figure: give ns, or interval = [LOW, HIGH]")),
            (Some(_), Some(_)) => return Err(de::Error::custom("the stage has two figures: give either ns or interval")),
        };
        let what = raw.what.map_or(String::new(), |Text(what)| what);
        Ok(OneStage(Stage { name: raw.name.0, part: Part::Whole, time, class: raw.class, source: raw.source.0, what }))
    }
}

impl NicFile {
    /// Published bounds on parts of the way.
    pub fn bounds(&self) -> &[Bound] {
        &self.bounds
    }

    /// The sizes of a table's rows; none for a design.
    pub fn table_sizes(&self) -> Vec<u64> {
        match &self.body {
            Body::Designs(_) => Vec::new(),
            Body::Table(table) => table.rows.iter().map(|row| row.bytes).collect(),
        }
    }
}

impl NicModel for NicFile {
    fn name(&self) -> &str {
        &self.name
    }

    fn about(&self) -> &str {
        &self.about
    }

    fn counts(&self) -> Counts {
        match &self.body {
            Body::Designs(_) => Counts::Frame,
            Body::Table(table) => table.counts,
        }
    }

    fn frame_bytes(&self, size: u64) -> u64 {
        match &self.body {
            Body::Designs(_) => size,
            Body::Table(table) => size + table.header,
        }
    }

    fn published_size(&self) -> Option<u64> {
        match &self.body {
            Body::Designs(designs) => designs.first().map(|design| design.frame),
            Body::Table(table) => table.rows.first().map(|row| row.bytes),
        }
    }

    fn stages(&self, size: u64) -> Stages {
        match &self.body {
            Body::Designs(designs) => {
                let serves = |design: &&Design| design.up_to.is_none_or(|Length(end)| size <= end);
                designs.iter().find(serves).map(Design::stages).unwrap_or_default()
            }
            Body::Table(table) => table.stages(size),
        }
    }

    fn notes(&self) -> &[String] {
        &self.notes
    }
}

impl Design {
    fn stages(&self) -> Stages {
        let reference = Reference { frame: Frame::plain(self.frame), rate: self.rate, cable: self.cable.clone() };
        Stages { stages: self.stages.clone(), reference: Some(reference), transfer: self.transfer, row: None, note: None }
    }
}

impl Table {
    fn stages(&self, size: u64) -> Stages {
        let after = self.rows.partition_point(|row| row.bytes < size);
        let (at, row) = match (after.checked_sub(1).map(|before| &self.rows[before]), self.rows.get(after)) {
            // A row of the table.
            (_, Some(row)) if row.bytes == size => (size, row.clone()),
            // Between two rows.
            (Some(low), Some(high)) => (size, low.towards(high, size)),
            // Outside the table: its first or last row, and the time on the wire of the difference.
            (Some(end), None) | (None, Some(end)) => (end.bytes, end.beyond()),
            // Not reached: a table has rows.
            (None, None) => return Stages::default(),
        };
        let note = (at != size).then(|| {
            let figure = if row.time.ns.is_some() { "figure" } else { "upper end" };
            format!("the published {figure} holds for {at} bytes; beyond it only the wire is added")
        });
        let stage = Stage {
            name: "half round trip".into(),
            part: Part::Whole,
            time: row.time,
            class: row.class,
            source: row.source,
            what: self.what.clone(),
        };
        let reference = Reference { frame: Frame::plain(at + self.header), rate: self.rate, cable: self.cable.clone() };
        Stages { stages: vec![stage], reference: Some(reference), transfer: Transfer::Unknown, row: row.published, note }
    }
}

impl Row {
    /// The row's figure for sizes outside the table.
    fn beyond(&self) -> Row {
        let source = format!("the figure of {} bytes, assumed beyond it: {}", self.bytes, self.source);
        Row { class: Class::Assumed, source, published: None, ..self.clone() }
    }

    /// Linear interpolation to the next row.
    fn towards(&self, next: &Row, bytes: u64) -> Row {
        let share = (bytes - self.bytes) as f64 / (next.bytes - self.bytes) as f64;
        let at = |low: Picos, high: Picos| Picos(low.0 + ((high.0 - low.0) as f64 * share).round() as i64);
        let ends = (at(self.time.low_ns, next.time.low_ns), at(self.time.high_ns, next.time.high_ns));
        Row {
            bytes,
            time: Span::between(ends.0, ends.1),
            class: self.class.max(next.class).max(Class::Derived),
            source: format!("straight line between {} and {} bytes: {}", self.bytes, next.bytes, next.source),
            published: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOUND: &str = r#"name = "mine"
about = "a design of mine"

[[design]]
frame = 60
rate = "25G"
cable = "optical:5m"

[[design.out]]
name = "all of it out"
ns = 67.2
class = "assumed"
source = "a guess of mine"

[[design.in]]
name = "all of it in"
interval = [100, 200.5]
class = "assumed"
source = "a guess of mine"
"#;

    fn refused(from: &str, to: &str) -> Invalid {
        assert!(SOUND.contains(from), "{from}");
        parse(&SOUND.replacen(from, to, 1)).unwrap_err()
    }

    #[test]
    fn parses_a_valid_file() {
        let nic = parse(SOUND).unwrap();
        let stages = nic.stages(1514).stages;
        assert_eq!(stages[0].time, Span::point(Picos(67_200)));
        assert_eq!((stages[1].time.ns, stages[1].time.low_ns, stages[1].time.high_ns), (None, Picos(100_000), Picos(200_500)));
        assert_eq!((stages[0].part, stages[1].part), (Part::Out, Part::In));
        assert_eq!((nic.published_size(), nic.counts()), (Some(60), Counts::Frame));
    }

    #[test]
    fn errors_name_line_and_column() {
        for (from, to, line, column, words) in [
            ("ns = 67.2", "nanoseconds = 67.2", 11, 1, "unknown field `nanoseconds`"),
            ("about =", "aboot =", 2, 1, "unknown field `aboot`"),
            ("ns = 67.2", "ns = -67.2", 11, 6, "-67.2 ns is not a valid stage time"),
            ("ns = 67.2", "ns = nan", 11, 6, "NaN ns is not a valid stage time"),
            ("ns = 67.2", "ns = \"67\"", 11, 6, "expected a number"),
            ("ns = 67.2\n", "", 9, 1, "has no figure"),
            ("source = \"a guess of mine\"\n", "", 9, 1, "missing field `source`"),
            ("source = \"a guess of mine\"", "source = \" \"", 13, 10, "says nothing"),
            ("class = \"assumed\"\n", "", 9, 1, "missing field `class`"),
            ("class = \"assumed\"", "class = \"measured\"", 12, 9, "unknown variant `measured`"),
            ("interval = [100, 200.5]", "interval = [300, 200.5]", 15, 1, "from its lower end"),
            ("interval = [100, 200.5]", "interval = [100, 200.5]\nns = 5", 15, 1, "two figures"),
            ("interval = [100, 200.5]", "interval = [100]", 17, 12, "length 2"),
            ("frame = 60", "frame = 0", 5, 9, "is not a frame length"),
            ("frame = 60", "frame = 60\nup_to = 59", 4, 1, "beyond up_to"),
            ("rate = \"25G\"", "rate = \"900G\"", 6, 8, "10M to 800G"),
            ("rate = \"25G\"", "rate = \"fast\"", 6, 8, "not a bit rate"),
            ("optical:5m", "rope:5m", 7, 9, "choose from coax"),
            ("all of it in", "all of it out", 4, 1, "two stages of one design"),
            ("[[design]]", "[design", 4, 8, ""),
        ] {
            let error = refused(from, to);
            assert!(error.message.contains(words), "{from} -> {to}: {error}");
            assert_eq!((error.line, error.column), (line, column), "{from} -> {to}: {error}");
        }
    }

    #[test]
    fn a_file_holds_ordered_designs_or_a_table() {
        let design = SOUND.split_once("[[design]]").unwrap().1;
        let two = |first: &str, second: &str| {
            let with = |frame: &str| format!("[[design]]{}", design.replacen("frame = 60", frame, 1));
            parse(&format!("name = \"a\"\nabout = \"b\"\n{}{}", with(first), with(second)))
        };
        assert_eq!(two("frame = 60\nup_to = 60", "frame = 61").unwrap().stages(61).stages.len(), 2);
        for (first, second, words) in [
            ("frame = 60", "frame = 61", "only the last"),
            ("frame = 60\nup_to = 60", "frame = 61\nup_to = 90", "the last one has none"),
            ("frame = 60\nup_to = 60", "frame = 60", "within the up_to"),
        ] {
            let error = two(first, second).unwrap_err();
            assert!(error.message.contains(words), "{first} {second}: {error}");
        }
        assert!(parse("name = \"a\"\nabout = \"b\"\n").unwrap_err().message.contains("either"));
        assert!(parse("").unwrap_err().message.contains("missing field `name`"));
        let counting = |counts: &str, rows: &str| {
            parse(&format!(
                "name = \"a\"\nabout = \"b\"\n[table]\ncounts = \"{counts}\"\nheader = 14\nrate = \"10G\"\nclass = \"published\"\nsource = \"s\"\nrows = [{rows}]"
            ))
        };
        let table = |rows: &str| counting("payload", rows);
        assert!(table("{ bytes = 1, ns = 5 }").is_ok());
        let error = counting("frame", "{ bytes = 60, ns = 5 }").unwrap_err();
        assert!(error.message.contains("header = 0"), "{error}");
        for rows in [
            "",
            "{ bytes = 1 }",
            "{ bytes = 1, ns = 5, interval = [1, 2] }",
            "{ bytes = 2, ns = 5 }, { bytes = 1, ns = 5 }",
            "{ bytes = 1, ns = 5, min_ns = 4 }",
            "{ bytes = 1, transactions_per_s = [1, 2, 3] }",
            "{ bytes = 1, transactions_per_s = [0] }",
        ] {
            assert!(table(rows).is_err(), "{rows}");
        }
    }

    #[test]
    fn names_a_file_that_cannot_be_read() {
        let error = load(Path::new("/nonexistent/nic.toml")).unwrap_err().to_string();
        assert!(error.contains("/nonexistent/nic.toml") && error.contains("No such file"), "{error}");
        let error = load(Path::new("/dev/zero")).unwrap_err().to_string();
        assert!(error.contains("longer than"), "{error}");
    }
}
