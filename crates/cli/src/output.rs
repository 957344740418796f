//! Prints a record on stdout in the format asked for, and saves it in the run store.

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Command};
use hairpin_lab::store::{self, RunId, Store};
use hairpin_record::any::AnyRecord;
use hairpin_record::head::{Body, Record};
use hairpin_record::run::Run;
use hairpin_report::{Options, PERCENTILES, Show, Tool, csv, json, json_line, markdown, term};
use hairpin_session::time;
use hairpin_units::Quantile;
use serde::Serialize;

use crate::exit::{Failure, note, say};
use crate::flags::{Percentiles, percentiles};
use crate::stdout::write;
use crate::terminal::{colour, width};

/// An output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Table,
    Markdown,
    Csv,
    Json,
    /// A line of JSON per second, and the record on the last.
    JsonStream,
    /// As another tool prints a run.
    Words(Tool),
}

/// All formats with name and description; the first ones exist for every record.
const FORMATS: [(Format, &str, &str); 11] = [
    (Format::Table, "table", "For a terminal"),
    (Format::Markdown, "md", "For issues, pull requests and pages"),
    (Format::Csv, "csv", "A line per row, the unit in each column's name"),
    (Format::Json, "json", "The whole record"),
    (Format::JsonStream, "jsonl", "A line of JSON per second, and the record on the last"),
    (PINGPONG, "pingpong", "A line per size, as snf_pingpong prints it, in half round trips"),
    (Format::Words(Tool::SfntPingpong), "sfnt-pingpong", "The table of sfnt-pingpong, a line per size, in half round trips"),
    (Format::Words(Tool::Netperf), "netperf", "The lines of netperf's TCP_RR and UDP_RR, and its KEY=VALUE lines"),
    (Format::Words(Tool::NetperfCsv), "netperf-csv", "netperf's CSV (-o) with its histogram (-v 2)"),
    (Format::Words(Tool::Sockperf), "sockperf", "sockperf's summary, in half round trips"),
    (Format::Words(Tool::Iperf2), "iperf2", "The report of iperf 2's --bounceback"),
];

/// The form of `floor` too.
pub const PINGPONG: Format = Format::Words(Tool::SnfPingpong);

/// Number of formats at the beginning of the list that show every record.
const OF_ALL: usize = 4;

/// True for the name of another tool's words.
pub fn are_words(name: &str) -> bool {
    FORMATS.iter().any(|(format, known, _)| *known == name && matches!(format, Format::Words(_)))
}

/// The formats of every record, plus some.
pub fn formats(more: fn(Format) -> bool) -> impl TypedValueParser<Value = Format> + use<> {
    let value = |(format, name, help): &(Format, &'static str, &'static str)| {
        let value = PossibleValue::new(*name).help(*help);
        match format {
            Format::Markdown => value.alias("markdown"),
            Format::JsonStream => value.alias("json-stream"),
            Format::Words(Tool::SnfPingpong) => value.alias("snf_pingpong"),
            _ => value,
        }
    };
    let taken = FORMATS.iter().enumerate().filter(|(at, (format, ..))| *at < OF_ALL || more(*format));
    let named = |name: String| match name.as_str() {
        "json-stream" => Format::JsonStream,
        "snf_pingpong" => PINGPONG,
        name => FORMATS.iter().find(|(_, known, _)| *known == name).map_or(Format::Markdown, |(format, ..)| *format),
    };
    PossibleValuesParser::new(taken.map(|(_, format)| value(format)).collect::<Vec<_>>()).map(named)
}

/// The names of the forms that a verb's `--format` takes.
pub fn forms(verb: &Command) -> Vec<String> {
    let format = verb.get_arguments().find(|arg| arg.get_id() == "format");
    let values = format.map(|arg| arg.get_possible_values()).unwrap_or_default();
    values.iter().flat_map(PossibleValue::get_name_and_aliases).map(str::to_owned).collect()
}

/// Flags that choose a record's output.
#[derive(Clone, Copy, Debug, Default, Args)]
#[command(next_help_heading = "Output")]
pub struct Output {
    /// The whole record as JSON; the same as --format json
    #[arg(short = 'j', long, group = "form")]
    json: bool,
    /// A line per row, the unit in each column's name; the same as --format csv
    #[arg(long, group = "form", hide = true)]
    csv: bool,
    /// A table for issues and pull requests; the same as --format md
    #[arg(long, group = "form", hide = true)]
    markdown: bool,
    /// The form of the output
    #[arg(short = 'o', long, group = "form", value_parser = formats(|_| false))]
    format: Option<Format>,
    /// The result and errors only: no progress, no notes
    #[arg(short = 'q', long)]
    #[allow(dead_code, reason = "read before the verb runs")]
    quiet: bool,
    /// All columns, tables and warnings on the terminal; other forms always have them
    #[arg(short, long, conflicts_with = "quiet")]
    verbose: bool,
}

impl Output {
    /// The format given, if any.
    fn asked(self) -> Option<Format> {
        match self {
            Output { json: true, .. } => Some(Format::Json),
            Output { csv: true, .. } => Some(Format::Csv),
            Output { markdown: true, .. } => Some(Format::Markdown),
            Output { format, .. } => format,
        }
    }

    /// True if the user chose a form.
    pub fn is_asked(self) -> bool {
        self.asked().is_some()
    }

    /// The format to print; the table by default.
    pub fn form(self) -> Format {
        self.asked().unwrap_or(Format::Table)
    }

    pub fn print(self, record: &(impl Show + Serialize + ?Sized)) -> Result<(), Failure> {
        self.print_with(record, &options())
    }

    /// Prints a record with these options.
    pub fn print_with(self, record: &(impl Show + Serialize + ?Sized), options: &Options) -> Result<(), Failure> {
        print(&self.text(record, options))
    }

    pub fn text(self, record: &(impl Show + Serialize + ?Sized), options: &Options) -> String {
        shown(self.form(), record, &self.detailed(options.clone()))
    }

    /// The options with the detail asked for.
    fn detailed(self, options: Options) -> Options {
        Options { brief: !self.verbose, ..options }
    }
}

/// The text of a record in a format; other tools' words exist for runs only.
fn shown(form: Format, record: &(impl Show + Serialize + ?Sized), options: &Options) -> String {
    match form {
        Format::Table | Format::Words(_) => term(record, options),
        Format::Markdown => markdown(record, options),
        Format::Csv => csv(record, options),
        Format::Json if io::stdout().is_terminal() => json(record),
        Format::Json | Format::JsonStream => json_line(record),
    }
}

/// Flags that choose a run's output.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output", mut_arg("format", |arg| arg.value_parser(formats(|_| true))))]
pub struct RunOutput {
    #[command(flatten)]
    output: Output,
    /// A line of JSON per second and a final one, the whole record; the same as --format jsonl
    #[arg(long, group = "form", hide = true)]
    json_stream: bool,
    /// Percentiles to show
    #[arg(long, value_name = "LIST", value_parser = percentiles)]
    percentiles: Option<Percentiles>,
    /// Show half round trips: RTT/2, not one-way
    #[arg(long)]
    hrt: bool,
}

impl RunOutput {
    /// The format to print.
    pub fn form(&self) -> Format {
        if self.json_stream { Format::JsonStream } else { self.output.form() }
    }

    /// The same, with CSV as the default format.
    pub fn or_csv(mut self) -> RunOutput {
        self.output.csv |= !self.json_stream && self.output.asked().is_none();
        self
    }

    /// Refuses flags that the form does not show.
    pub fn check(&self) -> Result<(), Failure> {
        let (hrt, percentiles) = (self.hrt, self.percentiles.is_some());
        let why = match self.form() {
            Format::Csv if hrt => {
                "--hrt halves the times of tables, and CSV has whole round trips: leave it out, or add -o table or -o md"
            }
            Format::Json | Format::JsonStream if hrt => {
                "--hrt halves the times of tables, and a record has whole round trips: leave it out"
            }
            Format::Csv if percentiles => {
                "--percentiles chooses the columns of tables, and CSV has the same in every run: leave it out, or add -o table or -o md"
            }
            Format::Words(_) if percentiles => {
                "--percentiles chooses the columns of tables, and another tool's lines have their own: leave it out"
            }
            Format::Words(tool) if hrt && tool != Tool::SnfPingpong => {
                "--hrt halves the times of tables, and another tool's lines have its own times: leave it out"
            }
            _ => return Ok(()),
        };
        Err(Failure::usage(why))
    }

    /// The percentiles that will be shown.
    pub fn shown(&self) -> Vec<Quantile> {
        self.percentiles.as_ref().map_or_else(|| PERCENTILES.to_vec(), |Percentiles(all)| all.clone())
    }

    /// The text of a record of any kind; `id` is its id in the store, empty if it has none. `continues`: as in [`Options`].
    pub fn text(&self, id: &str, record: &AnyRecord, continues: bool) -> Result<String, Failure> {
        self.check()?;
        let of_runs = [(self.hrt, "--hrt"), (self.percentiles.is_some(), "--percentiles")];
        let of_runs = of_runs.into_iter().find_map(|(given, flag)| given.then_some(flag));
        match (record, self.form()) {
            (AnyRecord::Run(run), Format::Words(_)) => Ok(self.text_of_run(id, run, false)),
            (AnyRecord::Run(run), form) => Ok(shown(form, &**run, &Options { continues, ..self.options(id, &run.head.started) })),
            (_, _) if of_runs.is_some() => Err(Failure::usage(format_args!(
                "{} belongs to records of `hairpin ping`, and this is one of `hairpin {}`: leave it out",
                of_runs.unwrap_or_default(),
                record.verb()
            ))),
            (_, Format::Words(_)) => Err(Failure::usage(format_args!(
                "a record of `hairpin {}` has no lines as other tools print them: take --format table, md, csv or json",
                record.verb()
            ))),
            (_, form) => Ok(shown(form, record, &Options { continues, ..self.options(id, "") })),
        }
    }

    /// The text of a run, which other tools' words exist for too. `kept`: it has no id yet, and is about to be stored.
    pub fn text_of_run(&self, id: &str, run: &Run, kept: bool) -> String {
        if let Format::Words(tool) = self.form() {
            say(tool.note());
            return tool.text(run);
        }
        let is_latest = || open_store().is_ok_and(|store| store.is_latest(&RunId::at(&run.head.started)));
        shown(self.form(), run, &Options { latest: kept && is_latest(), ..self.options(id, &run.head.started) })
    }

    /// Options for a record; its id and time are empty if they need no mention.
    fn options(&self, id: &str, started: &str) -> Options {
        let started = if id.is_empty() { String::new() } else { time::local(started) };
        self.output.detailed(Options { hrt: self.hrt, percentiles: self.shown(), run: id.to_owned(), started, ..options() })
    }
}

/// The default options of a document.
pub fn options() -> Options {
    Options { colour: colour(), width: width(&io::stdout()), ..Options::default() }
}

/// Writes a finished document to stdout. A reader that has gone is not a failure: the caller goes on.
pub fn print(text: &str) -> Result<(), Failure> {
    match write(text) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.map_err(Failure::from),
    }
}

/// Writes a line to stdout while something goes on. Where nobody reads it, this process ends, after `undo`. Other errors show
/// when the record is printed.
pub fn print_live(line: &str, undo: impl FnOnce()) {
    if write(line).is_err_and(|error| error.kind() == io::ErrorKind::BrokenPipe) {
        undo();
        std::process::exit(0);
    }
}

/// This user's store.
pub fn open_store() -> Result<Store, Failure> {
    let dir: PathBuf = store::default_dir().map_err(Failure::failed)?;
    Ok(Store::open(dir))
}

/// The store in which a RUN is looked up; a file is found without one.
pub fn store_of(run: &str) -> Result<Store, Failure> {
    match open_store() {
        Err(_) if run.contains('/') || Path::new(run).exists() => Ok(Store::open("")),
        store => store,
    }
}

/// Whether a record is kept.
#[derive(Clone, Copy, Debug, Args)]
pub struct Keep {
    /// Do not keep the record in the store
    #[arg(long)]
    pub no_store: bool,
}

impl Keep {
    /// Saves a record unless --no-store was given. Called after printing, so that a full disk loses no output. `printed` is the
    /// result of printing: if the terminal was closed, the record is saved all the same.
    pub fn after<B: Body + Serialize>(self, printed: Result<(), Failure>, record: &Record<B>) -> Result<(), Failure> {
        if !self.no_store {
            keep(record)?;
        }
        printed
    }
}

/// Saves a record, prints its id and returns it.
pub fn keep<B: Body + Serialize>(record: &Record<B>) -> Result<RunId, Failure> {
    let store = open_store()?;
    let id = store.save(record).map_err(|error| Failure::failed(format_args!("the run was not stored: {error}")))?;
    // Another run may have begun later and ended sooner.
    let run = if store.is_latest(&id) { "latest" } else { id.as_str() };
    note(format_args!("stored as {id}: hairpin runs show {run} -v"));
    Ok(id)
}
