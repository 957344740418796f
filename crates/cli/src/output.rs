//! Where a record goes: stdout in the form that was asked for, and the run store.

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use hairpin_lab::store::{self, RunId, Store};
use hairpin_record::any::AnyRecord;
use hairpin_record::head::{Body, Record};
use hairpin_record::run::Run;
use hairpin_report::{Options, PERCENTILES, Show, csv, json, json_line, markdown, pingpong, term};
use hairpin_units::Quantile;
use serde::Serialize;

use crate::exit::{Failure, say};
use crate::flags::{Percentiles, percentiles};

/// A form of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Table,
    Markdown,
    Csv,
    Json,
    /// A line of JSON per second, and the record on the last.
    JsonStream,
    Pingpong,
}

/// Every form with its name and what it is; the first four are those of every record.
const FORMATS: [(Format, &str, &str); 6] = [
    (Format::Table, "table", "For a terminal"),
    (Format::Markdown, "md", "For issues, pull requests and pages"),
    (Format::Csv, "csv", "A line per row, the unit in each column's name"),
    (Format::Json, "json", "The whole record"),
    (Format::JsonStream, "json-stream", "A line of JSON per second, and the record on the last"),
    (Format::Pingpong, "pingpong", "A line per size, as snf_pingpong prints it, in half round trips"),
];

/// The forms that every record has, and `more`.
pub fn formats(more: &[Format]) -> impl TypedValueParser<Value = Format> + use<> {
    let value = |(format, name, help): &(Format, &'static str, &'static str)| {
        let value = PossibleValue::new(*name).help(*help);
        if *format == Format::Markdown { value.alias("markdown") } else { value }
    };
    let taken = FORMATS.iter().enumerate().filter(|(at, (format, ..))| *at < 4 || more.contains(format));
    let named =
        |name: String| FORMATS.iter().find(|(_, known, _)| *known == name).map_or(Format::Markdown, |(format, ..)| *format);
    PossibleValuesParser::new(taken.map(|(_, format)| value(format)).collect::<Vec<_>>()).map(named)
}

/// How a record is printed.
#[derive(Clone, Copy, Debug, Default, Args)]
#[command(next_help_heading = "Output")]
pub struct Output {
    /// The whole record as JSON; the same as --format json
    #[arg(long, group = "form")]
    json: bool,
    /// A line per row, the unit in each column's name; the same as --format csv
    #[arg(long, group = "form")]
    csv: bool,
    /// A table for issues and pull requests; the same as --format md
    #[arg(long, group = "form")]
    markdown: bool,
    /// The form of the output
    #[arg(long, group = "form", value_parser = formats(&[]))]
    format: Option<Format>,
}

impl Output {
    /// The form that was asked for, if any was.
    fn asked(self) -> Option<Format> {
        match self {
            Output { json: true, .. } => Some(Format::Json),
            Output { csv: true, .. } => Some(Format::Csv),
            Output { markdown: true, .. } => Some(Format::Markdown),
            Output { format, .. } => format,
        }
    }

    /// The form that was asked for.
    pub fn form(self) -> Format {
        self.asked().unwrap_or(Format::Table)
    }

    /// Prints a record.
    pub fn print(self, record: &(impl Show + Serialize + ?Sized)) -> Result<(), Failure> {
        self.print_with(record, &options())
    }

    /// Prints a record with other options than the usual ones.
    pub fn print_with(self, record: &(impl Show + Serialize + ?Sized), options: &Options) -> Result<(), Failure> {
        print(&self.text(record, options))
    }

    /// The text of a record.
    pub fn text(self, record: &(impl Show + Serialize + ?Sized), options: &Options) -> String {
        shown(self.form(), record, options)
    }
}

/// A record in a form; pingpong is one of runs alone.
fn shown(form: Format, record: &(impl Show + Serialize + ?Sized), options: &Options) -> String {
    match form {
        Format::Table | Format::Pingpong => term(record, options),
        Format::Markdown => markdown(record, options),
        Format::Csv => csv(record, options),
        Format::Json if io::stdout().is_terminal() => json(record),
        Format::Json | Format::JsonStream => json_line(record),
    }
}

/// How a run is printed.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output", mut_arg("format", |arg| arg.value_parser(formats(&[Format::JsonStream, Format::Pingpong]))))]
pub struct RunOutput {
    #[command(flatten)]
    output: Output,
    /// A line of JSON per second and a final one, the whole record
    #[arg(long, group = "form")]
    json_stream: bool,
    /// Percentiles to show
    #[arg(long, value_name = "LIST", value_parser = percentiles)]
    percentiles: Option<Percentiles>,
    /// Show half round trips: RTT/2, not one-way
    #[arg(long)]
    hrt: bool,
}

impl RunOutput {
    /// The form that was asked for.
    pub fn form(&self) -> Format {
        if self.json_stream { Format::JsonStream } else { self.output.form() }
    }

    /// The same where CSV is what is asked for by saying nothing.
    pub fn or_csv(mut self) -> RunOutput {
        self.output.csv |= !self.json_stream && self.output.asked().is_none();
        self
    }

    /// The percentiles that will be shown.
    pub fn shown(&self) -> Vec<Quantile> {
        self.percentiles.as_ref().map_or_else(|| PERCENTILES.to_vec(), |Percentiles(all)| all.clone())
    }

    /// The text of a record of any kind; `id` is the record's in the store, empty if it has none.
    pub fn text(&self, id: &str, record: &AnyRecord) -> Result<String, Failure> {
        match (record, self.form()) {
            (AnyRecord::Run(run), _) => Ok(self.text_of_run(id, run)),
            (_, Format::Pingpong) => Err(Failure::usage(format_args!(
                "a record of `hairpin {}` has no lines as snf_pingpong prints them: take --format table, md, csv or json",
                record.verb()
            ))),
            (_, form) => Ok(shown(form, record, &self.options(id))),
        }
    }

    /// The text of a run, which also has pingpong.
    pub fn text_of_run(&self, id: &str, run: &Run) -> String {
        if self.form() == Format::Pingpong {
            say(hairpin_report::PINGPONG_LABEL);
            return pingpong(run);
        }
        shown(self.form(), run, &self.options(id))
    }

    fn options(&self, id: &str) -> Options {
        Options { hrt: self.hrt, percentiles: self.shown(), run: id.to_owned(), ..options() }
    }
}

/// The usual options of a document.
pub fn options() -> Options {
    Options { colour: colour(), ..Options::default() }
}

/// True if stdout takes colour: a terminal, and neither NO_COLOR nor a dumb one.
pub fn colour() -> bool {
    anstream::AutoStream::choice(&io::stdout()) != anstream::ColorChoice::Never && io::stdout().is_terminal()
}

/// Data to stdout.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

/// The store of this user.
pub fn open_store() -> Result<Store, Failure> {
    let dir: PathBuf = store::default_dir().map_err(Failure::failed)?;
    Ok(Store::open(dir))
}

/// Whether a record is kept.
#[derive(Clone, Copy, Debug, Args)]
pub struct Keep {
    /// Do not keep the record in the store
    #[arg(long)]
    pub no_store: bool,
}

impl Keep {
    /// Keeps a record unless told otherwise. It comes after printing, so that a full disk loses nothing that was seen; `printed` is how that went: a terminal
    /// that was hung up takes nothing, and what was measured is kept all the same.
    pub fn after<B: Body + Serialize>(self, printed: Result<(), Failure>, record: &Record<B>) -> Result<(), Failure> {
        if !self.no_store {
            keep(record)?;
        }
        printed
    }
}

/// Keeps a record and says under which name, which it returns.
pub fn keep<B: Body + Serialize>(record: &Record<B>) -> Result<RunId, Failure> {
    let id = open_store()?.save(record).map_err(|error| Failure::failed(format_args!("the run was not stored: {error}")))?;
    say(format_args!("stored as {id}: hairpin runs show {id}"));
    Ok(id)
}
