//! `hairpin runs`.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use hairpin_lab::store;
use hairpin_record::run::Run;
use hairpin_report::{RunList, RunRow};

use crate::exit::{Failure, say};
use crate::output::{Format, Output, RunOutput, open_store, print};

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
        #[command(flatten)]
        output: Output,
    },
    /// Show one as it was printed
    Show {
        /// Which
        #[arg(value_name = "RUN")]
        run: String,
        #[command(flatten)]
        output: Box<RunOutput>,
    },
    /// Write runs to stdout for other programs: CSV unless another form is asked for
    Export {
        /// Which
        #[arg(value_name = "RUN", required = true)]
        runs: Vec<String>,
        #[command(flatten)]
        output: Box<RunOutput>,
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
        match self.action.unwrap_or(Action::List { output: Output::default() }) {
            Action::List { output } => list(output)?,
            Action::Show { run, output } => {
                let (id, run) = load(&run)?;
                print(&output.text(&id, &run))?;
            }
            Action::Export { runs, output } => export(&runs, &output.or_csv())?,
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

fn list(output: Output) -> Result<(), Failure> {
    let store = open_store()?;
    let mut rows = Vec::new();
    for entry in store.list().map_err(Failure::failed)? {
        rows.push(match entry.run {
            Ok(run) => RunRow::Run {
                id: entry.id.to_string(),
                started: run.started.clone(),
                command: run.command.clone(),
                rows: run.results.len(),
                first_path: run.results.first().map(|row| row.path.clone()),
                first_p50_ns: run.results.first().and_then(|row| row.rtt_ns.p50),
            },
            Err(reason) => RunRow::Corrupt { id: entry.id.to_string(), error: reason.to_string() },
        });
    }
    output.print(&RunList::new(rows))
}

fn export(runs: &[String], output: &RunOutput) -> Result<(), Failure> {
    for (index, text) in runs.iter().enumerate() {
        let (id, run) = load(text)?;
        let text = output.text(&id, &run);
        // One table: the header stands once.
        let later = output.form() == Format::Csv && index > 0;
        print(if later { text.split_once('\n').map_or("", |(_, rows)| rows) } else { &text })?;
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
