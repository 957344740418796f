//! `hairpin runs`.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use hairpin_lab::records::{self, Named};
use hairpin_lab::store::Entry;
use hairpin_report::RunRow;
use serde_json::json;

use crate::exit::{Failure, say};
use crate::output::{Format, Output, colour, open_store, print};

/// Stored runs. RUN is an id, a unique prefix of one, `latest`, a run's directory or a JSON file
#[derive(Debug, Args)]
pub struct Runs {
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List them, oldest first (the default)
    List {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Show one as it was printed
    Show {
        /// Which
        #[arg(value_name = "RUN")]
        run: String,
        #[command(flatten)]
        output: Box<Output>,
    },
    /// Write runs to stdout for other programs: CSV unless another form is asked for
    Export {
        /// Which
        #[arg(value_name = "RUN", required = true)]
        runs: Vec<String>,
        #[command(flatten)]
        output: Box<Output>,
    },
    /// Remove runs from the store
    #[command(visible_alias = "remove")]
    Rm {
        /// Which
        #[arg(value_name = "RUN", required = true)]
        runs: Vec<String>,
    },
}

impl Runs {
    /// Does it.
    pub fn run(self) -> Result<ExitCode, Failure> {
        match self.action.unwrap_or(Action::List { json: false }) {
            Action::List { json } => list(json)?,
            Action::Show { run, output } => {
                for named in load(&run)? {
                    print(&output.text(&named.id, &named.record)?)?;
                }
            }
            Action::Export { runs, mut output } => {
                let asked = output.json || output.json_stream || output.markdown || output.format.is_some();
                output.csv |= !asked;
                export(&runs, &output)?;
            }
            Action::Rm { runs } => remove(&runs)?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn load(text: &str) -> Result<Vec<Named>, Failure> {
    records::load(&open_store()?, text).map_err(Failure::failed)
}

fn list(json: bool) -> Result<(), Failure> {
    let store = open_store()?;
    let row = |Entry { id, record }| match record {
        Ok(record) => RunRow::of(id.to_string(), &record),
        Err(reason) => RunRow::Corrupt { id: id.to_string(), reason: reason.to_string() },
    };
    let rows: Vec<RunRow> = store.list().map_err(Failure::failed)?.map(row).collect();
    print(&if json { as_json(&rows) } else { hairpin_report::runs(&rows, 80, colour()) })
}

fn as_json(rows: &[RunRow]) -> String {
    let runs: Vec<_> = rows
        .iter()
        .map(|row| match row {
            RunRow::Run { id, schema, started, command, rows, first } => json!({
                "id": id, "schema": schema, "started": started, "command": command, "rows": rows,
                "first_path": first.as_ref().map(|(path, _)| path),
                "first_p50_ns": first.as_ref().and_then(|(_, p50)| p50.map(|p50| p50.0)),
            }),
            RunRow::Corrupt { id, reason } => json!({"id": id, "error": reason}),
        })
        .collect();
    hairpin_report::json(&json!({"schema": "hairpin.runs/1", "runs": runs}))
}

fn export(runs: &[String], output: &Output) -> Result<(), Failure> {
    let mut table: Option<String> = None;
    for text in runs {
        for named in load(text)? {
            let text = output.text(&named.id, &named.record)?;
            // One table of each kind: the header stands once.
            let again = output.form() == Format::Csv && table.as_deref() == Some(named.record.schema());
            print(if again { text.split_once('\n').map_or("", |(_, rows)| rows) } else { &text })?;
            table = Some(named.record.schema().to_owned());
        }
    }
    Ok(())
}

fn remove(runs: &[String]) -> Result<(), Failure> {
    let store = open_store()?;
    for text in runs {
        let found = store.resolve(text).map_err(Failure::failed)?;
        let id = found.id.ok_or_else(|| Failure::usage(format_args!("{text} is not in the store; remove the file itself")))?;
        store.remove(&id).map_err(Failure::failed)?;
        say(format_args!("removed {id}"));
    }
    Ok(())
}
