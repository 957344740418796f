//! A record's readable form: one document, rendered by each format in its own way.
//!
//! ```text
//!   record ──Show──▶ Doc ──▶ term       aligned columns, colours, bars
//!                      ├───▶ markdown   for issues, pull requests and pages
//!                      └───▶ csv        raw numbers, the unit in each column's name
//! ```

use hairpin_record::head::Head;

use crate::cell::Cell;
use crate::chart::axis::Axis;
use crate::chart::picture::Picture;
use crate::chart::whole::Segment;
use crate::options::Options;
use crate::prose::clean;
use crate::style::Tone;

/// A record that can be shown to people.
pub trait Show {
    fn doc(&self, options: &Options) -> Doc;
}

/// Blocks in reading order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Doc {
    pub(crate) blocks: Vec<Block>,
    /// The fields for scripts, if a record has several tables or more data than its tables show.
    pub(crate) data: Option<Data>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Block {
    /// A blank line on a terminal; other formats separate blocks anyway.
    Gap,
    Text(Text),
    Table(Table),
    List(List),
    /// A plot; terminals only, since the tables have its figures.
    Chart(Picture),
    /// A whole of several pieces in one line, as wide as the page.
    Whole(Vec<Segment>),
    /// Blocks that not every view shows.
    Part(Shown, Vec<Block>),
    /// A command that the reader can run again.
    Command(String),
    /// Lines printed unchanged.
    Verbatim(Vec<String>),
}

/// The views that show a part of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    /// A terminal, and no page.
    Screen,
    /// A terminal's short view alone.
    Brief,
    /// All but a terminal's short view: pages, and a terminal with `-v`.
    Full,
}

impl Shown {
    /// True if a terminal shows it.
    pub(crate) fn on_terminal(self, brief: bool) -> bool {
        match self {
            Shown::Screen => true,
            Shown::Brief => brief,
            Shown::Full => !brief,
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Text {
    /// Printed before the first line; later lines are indented by its width.
    pub(crate) lead: String,
    pub(crate) text: String,
    pub(crate) tone: Tone,
    /// A word to highlight at its first occurrence.
    pub(crate) word: Option<(String, Tone)>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct List {
    pub(crate) heading: String,
    pub(crate) tone: Tone,
    pub(crate) numbered: bool,
    pub(crate) items: Vec<String>,
    /// Replaces heading and items in a terminal's short view, unless empty.
    pub(crate) short: Vec<Text>,
}

impl List {
    /// Plain items.
    pub(crate) fn plain(heading: impl Into<String>, items: Vec<String>) -> List {
        List { heading: heading.into(), tone: Tone::Heading, numbered: false, items, short: Vec::new() }
    }

    pub(crate) fn numbered(heading: impl Into<String>, items: Vec<String>) -> List {
        List { numbered: true, ..List::plain(heading, items) }
    }

    /// Reasons why figures may mislead.
    pub(crate) fn warnings(heading: impl Into<String>, items: Vec<String>) -> List {
        List { tone: Tone::Warning, ..List::numbered(heading, items) }
    }

    /// Failures.
    pub(crate) fn errors(heading: impl Into<String>, items: Vec<String>) -> List {
        List { tone: Tone::Error, ..List::plain(heading, items) }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Table {
    pub(crate) columns: Vec<Column>,
    /// Number of leading columns that name the row. On a narrow terminal these go on a line of their own.
    pub(crate) labels: usize,
    pub(crate) rows: Vec<Row>,
    /// Printed in place of a table without rows.
    pub(crate) empty: &'static str,
    /// Spaces before each line.
    pub(crate) indent: usize,
    /// True to fold lines whose figures alone are wider than the terminal.
    pub(crate) folds: bool,
    /// The tone of the titles.
    pub(crate) titles: Tone,
}

impl Table {
    pub(crate) fn new<R: Into<Row>>(columns: Vec<Column>, labels: usize, rows: impl IntoIterator<Item = R>) -> Table {
        Table {
            columns,
            labels,
            rows: rows.into_iter().map(Into::into).collect(),
            empty: "(no results)",
            indent: 0,
            folds: false,
            titles: Tone::Heading,
        }
    }

    /// A table that folds long figures, so that none makes it wider than the screen.
    pub(crate) fn folded<R: Into<Row>>(columns: Vec<Column>, labels: usize, rows: impl IntoIterator<Item = R>) -> Table {
        Table { folds: true, ..Table::new(columns, labels, rows) }
    }

    /// The raw numbers for scripts.
    pub(crate) fn data(&self) -> Data {
        let all: Vec<usize> = (0..self.columns.len()).filter(|at| self.columns[*at].place.is_written()).collect();
        // A column of times or rates has its name also where no row has one, and where its cells are plain numbers.
        let own = |at: usize| match self.columns[at].unit {
            "us" | "ns" => Some("_ns"),
            "1/s" => Some("_per_s"),
            _ => None,
        };
        let unit = |at: usize| self.rows.iter().map(|row| row.cells[at].unit()).find(|unit| !unit.is_empty()).or_else(|| own(at));
        let names = all.iter().map(|at| self.columns[*at].name(unit(*at).unwrap_or_default())).collect();
        let cells = |row: &Row| all.iter().map(|at| row.cells[*at].clone()).collect();
        Data { names, rows: self.rows.iter().map(cells).collect() }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    pub(crate) cells: Vec<Cell>,
    pub(crate) tone: Tone,
}

impl From<Vec<Cell>> for Row {
    fn from(cells: Vec<Cell>) -> Row {
        Row { cells, tone: Tone::Plain }
    }
}

/// Alignment of a column, and the formats that show it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Place {
    Left,
    Right,
    /// A bar in the remaining room; terminals only.
    Bar,
    /// Strips on this scale, in all remaining room; terminals only.
    Scale(Axis),
    /// Text; terminals only.
    Screen,
    /// Figures for every format except the terminal, which has no room for them.
    Page,
    /// The last column, wrapped over several lines.
    Prose,
    /// On a terminal, printed below the row after this lead.
    Below(&'static str),
}

impl Place {
    /// True unless the column is only a drawing; every format shows such a column.
    pub(crate) fn is_written(self) -> bool {
        !matches!(self, Place::Bar | Place::Scale(_) | Place::Screen)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Column {
    pub(crate) title: String,
    /// The title over all neighbouring columns with the same group.
    pub(crate) group: &'static str,
    /// The unit, if a terminal states it in the text above the table.
    pub(crate) unit: &'static str,
    pub(crate) place: Place,
}

impl Column {
    fn new(title: impl Into<String>, place: Place) -> Column {
        // It may be a name from a record.
        Column { title: clean(&title.into()), group: "", unit: "", place }
    }

    pub(crate) fn words(title: impl Into<String>) -> Column {
        Column::new(title, Place::Left)
    }

    pub(crate) fn figures(title: impl Into<String>) -> Column {
        Column::new(title, Place::Right)
    }

    /// Times that people see in us.
    pub(crate) fn us(title: impl Into<String>) -> Column {
        Column { unit: "us", ..Column::figures(title) }
    }

    pub(crate) fn bar() -> Column {
        Column::new("", Place::Bar)
    }

    pub(crate) fn scale(axis: Axis) -> Column {
        Column::new("", Place::Scale(axis))
    }

    pub(crate) fn screen(title: impl Into<String>) -> Column {
        Column::new(title, Place::Screen)
    }

    pub(crate) fn page(title: impl Into<String>) -> Column {
        Column::new(title, Place::Page)
    }

    pub(crate) fn prose(title: impl Into<String>) -> Column {
        Column::new(title, Place::Prose)
    }

    pub(crate) fn below(title: impl Into<String>, lead: &'static str) -> Column {
        Column::new(title, Place::Below(lead))
    }

    /// Puts the column in a group.
    pub(crate) fn under(self, group: &'static str) -> Column {
        Column { group, ..self }
    }

    /// Sets the unit.
    pub(crate) fn in_unit(self, unit: &'static str) -> Column {
        Column { unit, ..self }
    }

    /// Group, title and unit, for formats without a line above the titles.
    pub(crate) fn full_title(&self) -> String {
        let title = [self.group, self.title.trim()].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ");
        if self.unit.is_empty() { title } else { format!("{title}, {}", self.unit) }
    }

    /// The full title as a field name for scripts.
    fn name(&self, unit: &str) -> String {
        let title = Column { unit: "", ..self.clone() }.full_title().to_lowercase().replace("/s", "_per_s");
        // Scripts read a share as a fraction of 1, whatever people see.
        let title = title.replace('%', if unit == "_share" { "" } else { "percent" });
        let mut name: String = title.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '_' }).collect();
        while name.contains("__") {
            name = name.replace("__", "_");
        }
        let name = name.trim_matches('_');
        match name {
            "" if unit.is_empty() => "word".into(),
            "" => unit.trim_start_matches('_').into(),
            name if name.ends_with(unit) || name == unit.trim_start_matches('_') => name.into(),
            name => format!("{name}{unit}"),
        }
    }
}

/// Field names with units, and the rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Data {
    pub(crate) names: Vec<String>,
    pub(crate) rows: Vec<Vec<Cell>>,
}

/// The named fields of one line for scripts.
pub(crate) type Fields = Vec<(String, Cell)>;

impl Data {
    /// `names` is separated by spaces; each row has as many cells.
    pub(crate) fn table<const N: usize>(names: &str, rows: impl IntoIterator<Item = [Cell; N]>) -> Data {
        Data { names: names.split(' ').map(str::to_owned).collect(), rows: rows.into_iter().map(Vec::from).collect() }
    }

    /// `none` supplies the names; each row must have the same ones.
    pub(crate) fn new(none: Fields, rows: impl IntoIterator<Item = Fields>) -> Data {
        let values = |fields: Fields| fields.into_iter().map(|(_, cell)| cell).collect();
        Data { names: none.into_iter().map(|(name, _)| name).collect(), rows: rows.into_iter().map(values).collect() }
    }
}

/// Fields with fixed names.
pub(crate) fn fields<const N: usize>(fields: [(&str, Cell); N]) -> Fields {
    fields.into_iter().map(|(name, cell)| (name.to_owned(), cell)).collect()
}

impl Doc {
    /// Tool, time, then `parts`: the first lines of every document.
    pub(crate) fn of(head: &Head, parts: impl IntoIterator<Item = String>) -> Doc {
        let mut doc = Doc::default();
        let head = [&head.tool, &head.started].map(String::clone).into_iter().filter(|part| !part.is_empty());
        doc.text(head.chain(parts).collect::<Vec<_>>().join(", "));
        doc
    }

    pub(crate) fn text(&mut self, text: impl Into<String>) {
        self.lead("", text);
    }

    pub(crate) fn lead(&mut self, lead: impl Into<String>, text: impl Into<String>) {
        self.blocks.push(Block::Text(Text { lead: lead.into(), text: text.into(), ..Text::default() }));
    }

    pub(crate) fn heading(&mut self, text: impl Into<String>) {
        self.toned("", text, Tone::Heading);
    }

    pub(crate) fn toned(&mut self, lead: impl Into<String>, text: impl Into<String>, tone: Tone) {
        self.blocks.push(Block::Text(Text { lead: lead.into(), text: text.into(), tone, word: None }));
    }

    /// A paragraph with one word highlighted.
    pub(crate) fn verdict(&mut self, lead: impl Into<String>, text: impl Into<String>, word: &str, tone: Tone) {
        let word = Some((word.to_owned(), tone));
        self.blocks.push(Block::Text(Text { lead: lead.into(), text: text.into(), tone: Tone::Plain, word }));
    }

    pub(crate) fn gap(&mut self) {
        self.blocks.push(Block::Gap);
    }

    pub(crate) fn table(&mut self, table: Table) {
        self.blocks.push(Block::Table(table));
    }

    /// Adds a list, unless it is empty.
    pub(crate) fn list(&mut self, list: List) {
        if !list.items.is_empty() {
            self.blocks.push(Block::List(list));
        }
    }

    pub(crate) fn lists(&mut self, lists: impl IntoIterator<Item = List>) {
        lists.into_iter().for_each(|list| self.list(list));
    }

    pub(crate) fn chart(&mut self, picture: Picture) {
        self.blocks.push(Block::Chart(picture));
    }

    pub(crate) fn whole(&mut self, pieces: Vec<Segment>) {
        self.blocks.push(Block::Whole(pieces));
    }

    /// Adds blocks that only some views show.
    pub(crate) fn part(&mut self, shown: Shown, part: Doc) {
        if !part.blocks.is_empty() {
            self.blocks.push(Block::Part(shown, part.blocks));
        }
    }

    pub(crate) fn command(&mut self, command: String) {
        self.blocks.push(Block::Command(command));
    }

    pub(crate) fn verbatim(&mut self, lines: Vec<String>) {
        self.blocks.push(Block::Verbatim(lines));
    }
}
