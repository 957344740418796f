//! `hairpin report`.

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::SystemTime;

use clap::{Args, ValueEnum};
use hairpin_lab::records;
use hairpin_lab::whole_file::{self, WriteError};
use hairpin_model::cable;
use hairpin_model::reference::references;
use hairpin_record::any::AnyRecord;
use hairpin_report::view;
use hairpin_report::view::{Beside, Input, View};
use hairpin_report::{Chart, Options};
use hairpin_session::floor;
use hairpin_session::time::rfc3339;

use crate::exit::{Failure, say};
use crate::line;
use crate::output::{print, store_of};
use crate::terminal::{colour, width};

/// Records as one file to look at
#[derive(Debug, Args)]
pub struct Report {
    /// Records to show: a run's id, a unique prefix of one, `latest`, `latest~1` or -2 (the one before), a run's directory, or a
    /// JSON file of any verb that measures
    #[arg(value_name = "RUN", required = true)]
    runs: Vec<String>,
    /// Output file; default stdout. `-o` before the name of a form is --format
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Output format; default html, on a terminal term
    #[arg(long, value_enum, group = "form")]
    format: Option<Format>,
    /// All that the report shows, as data; the same as --format json
    #[arg(short = 'j', long, group = "form")]
    json: bool,
    /// A line per row; the same as --format csv
    #[arg(long, group = "form", hide = true)]
    csv: bool,
    /// For issues and pull requests; the same as --format md
    #[arg(long, group = "form", hide = true)]
    markdown: bool,
    /// On a terminal, every table and chart
    #[arg(short, long, conflicts_with = "output")]
    verbose: bool,
    /// With --format svg: the chart to draw; default load if all records are of `hairpin load`, else sizes
    #[arg(long, value_enum)]
    chart: Option<Picture>,
}

/// A form of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// One page that needs nothing else and opens from disk
    Html,
    /// Markdown, for an issue or a pull request
    #[value(alias = "markdown")]
    Md,
    /// A picture that stands alone
    Svg,
    /// Tables, and plots in braille, for a terminal
    #[value(alias = "table")]
    Term,
    /// A line per row
    Csv,
    /// All that the report shows, as data
    Json,
}

/// The chart that a picture shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Picture {
    /// RTT against size
    Sizes,
    /// RTT at each percentile
    Percentiles,
    /// The stages of each explained path as one bar, with the floor of a NIC and a cable
    Budget,
    /// RTT p99 against the offered rate, from due and from sent, with the knee
    Load,
}

impl Report {
    /// Reads the records and writes the report.
    pub fn run(self) -> Result<ExitCode, Failure> {
        let on_terminal = self.output.is_none() && io::stdout().is_terminal();
        let format = self.form().unwrap_or(if on_terminal { Format::Term } else { Format::Html });
        if format == Format::Html && on_terminal {
            return Err(Failure::usage("a page for a browser does not go to a terminal: name a file with -o report.html"));
        }
        if format != Format::Svg && line::was_given("chart") {
            return Err(Failure::usage("--chart is the picture of --format svg; the other forms show all charts"));
        }
        let mut given = Vec::new();
        for run in &self.runs {
            let found = records::load(&store_of(run)?, run).map_err(Failure::failed)?;
            given.extend(found.into_iter().map(|named| Input { name: named.name, record: named.record }));
        }
        let view = of(&given);
        let text = match format {
            Format::Html => hairpin_report::html(&view),
            Format::Md => hairpin_report::markdown(&view, &Options::default()),
            Format::Svg => match self.chart.unwrap_or_else(|| usual(&given)) {
                Picture::Sizes => hairpin_report::report_svg(&view, Chart::Sizes),
                Picture::Percentiles => hairpin_report::report_svg(&view, Chart::Percentiles),
                Picture::Budget => hairpin_report::budget_svg(&view),
                Picture::Load => hairpin_report::report_svg(&view, Chart::Load),
            },
            Format::Csv => hairpin_report::csv(&view, &Options::default()),
            Format::Json => hairpin_report::view_json(&view, "hairpin.report/1", on_terminal),
            // Colours are for a reader at the terminal.
            Format::Term => {
                let shown = self.output.is_none();
                let width = if shown { width(&io::stdout()) } else { Options::default().width };
                let brief = on_terminal && !self.verbose;
                let options = Options { width, colour: shown && colour(), brief, ..Options::default() };
                hairpin_report::term(&view, &options)
            }
        };
        match &self.output {
            Some(file) => write(file, &text).map_err(|error| match error {
                WriteError::Directory { .. } => Failure::usage(error),
                WriteError::Write { .. } => Failure::failed(error),
            })?,
            None => print(&text)?,
        }
        Ok(ExitCode::SUCCESS)
    }

    /// The form asked for, if any.
    fn form(&self) -> Option<Format> {
        match self {
            Report { json: true, .. } => Some(Format::Json),
            Report { csv: true, .. } => Some(Format::Csv),
            Report { markdown: true, .. } => Some(Format::Md),
            Report { format, .. } => *format,
        }
    }
}

/// The chart to draw if none was asked for.
fn usual(given: &[Input]) -> Picture {
    let loads = given.iter().all(|given| matches!(given.record, AnyRecord::Load(_)));
    if loads { Picture::Load } else { Picture::Sizes }
}

/// The view of these records, with the current time, every published table, and the model's designs and cables.
pub fn of(given: &[Input]) -> View {
    let beside = Beside { published: references(), cables: cable::types(), designs: Some(floor::designs) };
    view(given, &rfc3339(SystemTime::now()), beside)
}

/// Writes a report completely or not at all, and prints its path.
pub fn write(file: &Path, text: &str) -> Result<(), WriteError> {
    whole_file::write(file, text.as_bytes())?;
    // A browser accepts an absolute path; a path that cannot be resolved is printed as given.
    let shown = file.canonicalize().unwrap_or_else(|_| file.into());
    say(format_args!("report: {}", shown.display()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::{Command, FromArgMatches};

    use super::*;

    #[test]
    fn a_form_has_flags_of_its_own() {
        for (flag, form) in [
            ("--json", Format::Json),
            ("-j", Format::Json),
            ("--csv", Format::Csv),
            ("--markdown", Format::Md),
            ("--format=markdown", Format::Md),
        ] {
            let given = Report::augment_args(Command::new("report")).try_get_matches_from(["report", "latest", flag]).unwrap();
            assert_eq!(Report::from_arg_matches(&given).unwrap().form(), Some(form), "{flag}");
        }
    }
}
