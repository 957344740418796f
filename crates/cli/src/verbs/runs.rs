//! `hairpin runs`.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use hairpin_lab::store;
use hairpin_record::run::Run;
use hairpin_report::{Options, RunRow};
use hairpin_units::Nanos;
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
                let (id, run) = load(&run)?;
                output.print(&id, &run)?;
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

fn load(text: &str) -> Result<(String, Run), Failure> {
    let found = open_store()?.resolve(text).map_err(Failure::failed)?;
    let run = store::load(&found.file).map_err(Failure::failed)?;
    Ok((found.id.map(|id| id.to_string()).unwrap_or_default(), run))
}

fn list(json: bool) -> Result<(), Failure> {
    let store = open_store()?;
    let mut rows = Vec::new();
    for entry in store.list().map_err(Failure::failed)? {
        rows.push(match entry.run {
            Ok(run) => RunRow::Run {
                id: entry.id.to_string(),
                started: run.started.clone(),
                command: run.command.clone(),
                rows: run.results.len(),
                first: run.results.first().map(|row| (row.path.clone(), row.rtt_ns.p50.map(Nanos))),
            },
            Err(reason) => RunRow::Corrupt { id: entry.id.to_string(), reason: reason.to_string() },
        });
    }
    print(&if json { as_json(&rows) } else { hairpin_report::runs(&rows, 80, colour()) })
}

fn as_json(rows: &[RunRow]) -> String {
    let runs: Vec<_> = rows
        .iter()
        .map(|row| match row {
            RunRow::Run { id, started, command, rows, first } => json!({
                "id": id, "started": started, "command": command, "rows": rows,
                "first_path": first.as_ref().map(|(path, _)| path),
                "first_p50_ns": first.as_ref().and_then(|(_, p50)| p50.map(|p50| p50.0)),
            }),
            RunRow::Corrupt { id, reason } => json!({"id": id, "error": reason}),
        })
        .collect();
    hairpin_report::json(&json!({"schema": "hairpin.runs/1", "runs": runs}))
}

fn export(runs: &[String], output: &Output) -> Result<(), Failure> {
    for (index, text) in runs.iter().enumerate() {
        let (id, run) = load(text)?;
        if output.form() == Format::Csv && index > 0 {
            // One table: the header stands once.
            let table = hairpin_report::csv(&run, &Options { run: id, ..output.options() });
            print(table.split_once('\n').map_or("", |(_, rows)| rows))?;
        } else {
            output.print(&id, &run)?;
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
