//! `hairpin runs`.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use hairpin_lab::records::{self, Named};
use hairpin_lab::store::{Entry, RunId};
use hairpin_record::any::AnyRecord;
use hairpin_report::{Options, RunList, RunRow};
use hairpin_session::time;

use crate::exit::{Failure, say};
use crate::output::{Output, RunOutput, open_store, print, store_of};

/// Stored runs. RUN is an id, a unique prefix of one, `latest`, `latest~1` or -2 (the one before), a run's directory or a JSON
/// file
#[derive(Debug, Args)]
pub struct Runs {
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List them, oldest first (the default)
    List {
        #[command(flatten)]
        output: Output,
    },
    /// Show one as it was printed
    Show {
        /// Run: an id, a unique prefix of one, `latest`, or `latest~1` or -2 for the one before
        #[arg(value_name = "RUN")]
        run: String,
        #[command(flatten)]
        output: Box<RunOutput>,
    },
    /// Write runs to stdout for other programs: CSV unless another form is asked for
    Export {
        /// Runs: ids, unique prefixes of them, `latest`, or `latest~1` or -2 for the one before
        #[arg(value_name = "RUN", required = true)]
        runs: Vec<String>,
        #[command(flatten)]
        output: Box<RunOutput>,
    },
    /// Remove runs from the store
    #[command(visible_alias = "remove")]
    Rm {
        /// Runs: ids, unique prefixes of them, `latest`, or `latest~1` or -2 for the one before
        #[arg(value_name = "RUN", required = true)]
        runs: Vec<String>,
    },
}

impl Runs {
    /// Runs the action.
    pub fn run(self) -> Result<ExitCode, Failure> {
        match self.action.unwrap_or(Action::List { output: Output::default() }) {
            Action::List { output } => list(output)?,
            Action::Show { run, output } => {
                for named in load(&run)? {
                    print(&output.text(&named.id, &named.record, false)?)?;
                }
            }
            Action::Export { runs, output } => export(&runs, &output.or_csv())?,
            Action::Rm { runs } => remove(&runs)?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn load(text: &str) -> Result<Vec<Named>, Failure> {
    records::load(&store_of(text)?, text).map_err(Failure::failed)
}

fn list(output: Output) -> Result<(), Failure> {
    let store = open_store()?;
    let row = |Entry { id, record }| match record {
        Ok(record) => RunRow::of(id.to_string(), time::local(&record.head().started), &record),
        Err(reason) => RunRow::Corrupt { id: id.to_string(), error: reason.to_string() },
    };
    output.print(&RunList::new(store.list().map_err(Failure::failed)?.map(row).collect()))
}

fn export(runs: &[String], output: &RunOutput) -> Result<(), Failure> {
    let mut before: Option<String> = None;
    for text in runs {
        for named in load(text)? {
            // Records with the same columns share a table; those of a sweep depend on its factors.
            let header = header(&named.record);
            print(&output.text(&named.id, &named.record, before.as_ref() == Some(&header))?)?;
            before = Some(header);
        }
    }
    Ok(())
}

/// The names of the columns of a record's CSV.
fn header(record: &AnyRecord) -> String {
    let csv = hairpin_report::csv(record, &Options::default());
    csv.lines().next().unwrap_or_default().to_owned()
}

fn remove(runs: &[String]) -> Result<(), Failure> {
    let store = open_store()?;
    let mut ids: Vec<RunId> = Vec::new();
    // All before the first one goes, after which `latest` is another run.
    for text in runs {
        let found = store.resolve(text).map_err(Failure::failed)?;
        let id = found.id.ok_or_else(|| Failure::usage(format_args!("{text} is not in the store; remove the file itself")))?;
        if !ids.contains(&id) {
            ids.push(id);
        }
    }
    for id in ids {
        store.remove(&id).map_err(Failure::failed)?;
        say(format_args!("removed {id}"));
    }
    Ok(())
}
