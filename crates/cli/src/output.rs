//! Where a record goes: stdout in the form that was asked for, and the run store.

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use hairpin_lab::store::{self, RunId, Store};
use hairpin_record::any::AnyRecord;
use hairpin_record::head::{Body, Record};
use hairpin_record::run::Run;
use hairpin_report::{Options, PERCENTILES};
use hairpin_units::Quantile;
use serde::Serialize;

use crate::exit::{Failure, say};
use crate::flags::{Percentiles, percentiles};

/// How a record is shown.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
pub struct Output {
    /// The whole record as JSON (hairpin.run/1); the same as --format json
    #[arg(long, group = "form")]
    pub json: bool,
    /// A line of JSON per second and a final one, the whole record
    #[arg(long, group = "form")]
    pub json_stream: bool,
    /// A line per row, units in the header
    #[arg(long, group = "form")]
    pub csv: bool,
    /// A table for issues and pull requests
    #[arg(long, group = "form")]
    pub markdown: bool,
    /// pingpong: a line per size, as snf_pingpong prints it, in half round trips
    #[arg(long, group = "form", value_enum)]
    pub format: Option<Format>,
    /// Percentiles to show
    #[arg(long, value_name = "LIST", value_parser = percentiles)]
    pub percentiles: Option<Percentiles>,
    /// Show half round trips: RTT/2, not one-way
    #[arg(long)]
    pub hrt: bool,
}

/// A form of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For a terminal of 80 columns.
    Table,
    /// hairpin.run/1, indented.
    Json,
    /// Progress and record, a line each.
    JsonStream,
    /// A line per row.
    Csv,
    /// For issues and pull requests.
    Markdown,
    /// As snf_pingpong.
    Pingpong,
}

/// How a record is shown that is no run.
#[derive(Clone, Copy, Debug, Args)]
#[command(next_help_heading = "Output")]
pub struct Table {
    /// The whole record as JSON; the same as --format json
    #[arg(long, group = "table_form")]
    pub json: bool,
    /// A line per row, units in the header
    #[arg(long, group = "table_form")]
    pub csv: bool,
    /// A table for issues and pull requests
    #[arg(long, group = "table_form")]
    pub markdown: bool,
    /// The form of the output
    #[arg(long, group = "table_form", value_enum)]
    pub format: Option<TableFormat>,
}

/// A form of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TableFormat {
    /// For a terminal of 80 columns.
    Table,
    /// The whole record, indented.
    Json,
    /// A line per row.
    Csv,
    /// For issues and pull requests.
    #[value(alias = "md")]
    Markdown,
}

impl Table {
    /// The form that was asked for.
    pub fn form(&self) -> TableFormat {
        match self {
            Table { json: true, .. } => TableFormat::Json,
            Table { csv: true, .. } => TableFormat::Csv,
            Table { markdown: true, .. } => TableFormat::Markdown,
            Table { format, .. } => format.unwrap_or(TableFormat::Table),
        }
    }
}

impl Output {
    /// The form that was asked for.
    pub fn form(&self) -> Format {
        match self {
            Output { json: true, .. } => Format::Json,
            Output { json_stream: true, .. } => Format::JsonStream,
            Output { csv: true, .. } => Format::Csv,
            Output { markdown: true, .. } => Format::Markdown,
            Output { format, .. } => format.unwrap_or(Format::Table),
        }
    }

    /// The percentiles that will be shown.
    pub fn shown(&self) -> Vec<Quantile> {
        self.percentiles.as_ref().map_or_else(|| PERCENTILES.to_vec(), |Percentiles(all)| all.clone())
    }

    /// Options of the tables.
    pub fn options(&self) -> Options {
        Options { hrt: self.hrt, percentiles: self.shown(), colour: colour(), ..Options::default() }
    }

    /// Prints the record of a run that has just ended.
    pub fn print(&self, run: &Run) -> Result<(), Failure> {
        print(&self.text_of_run("", run))
    }

    /// A record of any kind in the form that was asked for; `id` is the run's in the store, empty if it has none.
    pub fn text(&self, id: &str, record: &AnyRecord) -> Result<String, Failure> {
        let options = &self.options();
        Ok(match (record, self.form()) {
            (AnyRecord::Run(run), _) => self.text_of_run(id, run),
            (_, Format::Json) => hairpin_report::json(record),
            (_, Format::JsonStream) => hairpin_report::json_line(record),
            (AnyRecord::Load(load), Format::Table) => hairpin_report::load(load, options),
            (AnyRecord::Load(load), Format::Csv) => hairpin_report::load_csv(load),
            (AnyRecord::Load(load), Format::Markdown) => hairpin_report::load_markdown(load),
            (AnyRecord::Stream(stream), Format::Table) => hairpin_report::stream(stream, options),
            (AnyRecord::Stream(stream), Format::Csv) => hairpin_report::stream_csv(stream),
            (AnyRecord::Stream(stream), Format::Markdown) => hairpin_report::stream_markdown(stream),
            (AnyRecord::Explain(explain), Format::Table) => hairpin_report::explain(explain, 0, options),
            (AnyRecord::Attached(attached), Format::Table) => hairpin_report::attached(attached, options),
            (AnyRecord::Compare(compare), Format::Table) => hairpin_report::compare(compare, options),
            (AnyRecord::Sweep(sweep), Format::Table) => hairpin_report::sweep(sweep, options),
            (AnyRecord::TuneTry(tried), Format::Table) => hairpin_report::tune_try(tried, options),
            (AnyRecord::Bounce(bounce), Format::Table) => hairpin_report::bounce(bounce, options),
            (AnyRecord::Check(check), Format::Table) => hairpin_report::check(check, options),
            (AnyRecord::Probe(probe), Format::Table) => hairpin_report::floor_pcie(probe, options),
            (AnyRecord::Primitives(found), Format::Table) => hairpin_report::floor_pcie_primitives(found, options),
            (_, Format::Csv | Format::Markdown | Format::Pingpong) => {
                return Err(Failure::usage(format_args!(
                    "a record of `hairpin {}` has no such form: take --json, or --format table",
                    record.verb()
                )));
            }
        })
    }

    fn text_of_run(&self, id: &str, run: &Run) -> String {
        let options = &Options { run: id.to_owned(), ..self.options() };
        match self.form() {
            Format::Table => hairpin_report::table(run, options),
            Format::Json => hairpin_report::json(run),
            Format::JsonStream => hairpin_report::json_line(run),
            Format::Csv => hairpin_report::csv(run, options),
            Format::Markdown => hairpin_report::markdown(run, options),
            Format::Pingpong => {
                say(hairpin_report::PINGPONG_LABEL);
                hairpin_report::pingpong(run)
            }
        }
    }
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
