//! Shared parts of the benchmarks: the record's place, the removal of the host's private facts, the exit
//! code.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::SystemTime;

use clap::Args;
use hairpin_record::run::Hosts;
use hairpin_session::time::rfc3339;

use super::code;

/// Flags of every benchmark.
#[derive(Args)]
pub(crate) struct Flags {
    /// Directory of the record; default runs/DATE-HOST/NAME
    #[arg(long)]
    out: Option<PathBuf>,
    /// The hairpin to measure instead of the one just built
    #[arg(long, default_value = env!("CARGO_BIN_EXE_hairpin"))]
    pub(crate) hairpin: PathBuf,
}

/// Why a benchmark ends early.
pub(crate) enum Stop {
    /// Ctrl-C or SIGTERM.
    Interrupted,
    /// Something is not here.
    Missing(String),
    Failed(String),
}

impl std::fmt::Display for Stop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Stop::Interrupted => f.write_str("interrupted"),
            Stop::Missing(why) | Stop::Failed(why) => f.write_str(why),
        }
    }
}

impl From<String> for Stop {
    fn from(why: String) -> Stop {
        Stop::Failed(why)
    }
}

/// Exit code of a benchmark, which tells whether a bound is missed.
pub(crate) fn end(measured: Result<bool, Stop>) -> ExitCode {
    match measured {
        Ok(false) => ExitCode::SUCCESS,
        Ok(true) => ExitCode::from(3),
        Err(Stop::Interrupted) => {
            eprintln!("interrupted; go on with --resume where there is one");
            ExitCode::from(130)
        }
        Err(Stop::Missing(why)) => {
            eprintln!("{why}");
            ExitCode::from(4)
        }
        Err(Stop::Failed(why)) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

/// The folder of the records of this day and host.
pub(crate) fn today() -> PathBuf {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let now = rfc3339(SystemTime::now());
    let date = now.split('T').next().unwrap_or(&now);
    code::root().join("runs").join(format!("{date}-{}", host.trim()))
}

impl Flags {
    /// The directory that --out names.
    pub(crate) fn out(&self) -> Option<PathBuf> {
        self.out.as_deref().map(from_caller)
    }

    /// The directory of the record, made if need be: --out, else `runs/DATE-HOST/NAME` in the repository; the
    /// build's scratch directory if the record is not `whole`.
    pub(crate) fn directory(&self, name: &str, whole: bool) -> Result<PathBuf, String> {
        let directory = match self.out() {
            Some(out) => out,
            None if whole => today().join(name),
            None => Path::new(env!("CARGO_TARGET_TMPDIR")).join(name),
        };
        fs::create_dir_all(&directory).map_err(|e| format!("{}: {e}", directory.display()))?;
        Ok(directory)
    }

    /// See [`table`].
    pub(crate) fn table(&self, directory: &Path, text: String) -> Result<(), String> {
        table(directory, text, &self.hairpin)
    }
}

/// Prints the table, and writes it to `table.txt`, with the line that says which measured code it is of.
pub(crate) fn table(directory: &Path, mut text: String, hairpin: &Path) -> Result<(), String> {
    text.push_str(&code::line(hairpin));
    text.push('\n');
    print!("{text}");
    write(&directory.join("table.txt"), &text)?;
    eprintln!("record: {}", directory.display());
    Ok(())
}

/// Cargo runs a benchmark in the directory of its package; whoever gives a relative path means the one that cargo was called in,
/// which the shell leaves in $PWD.
pub(crate) fn from_caller(path: &Path) -> PathBuf {
    env::var_os("PWD").map_or_else(|| path.to_owned(), |caller| Path::new(&caller).join(path))
}

/// Removes the host's private facts, and the program's place on it.
pub(crate) fn publish(hosts: &mut Hosts, command: &mut [String]) {
    for host in std::iter::once(&mut hosts.client).chain(&mut hosts.server) {
        host.facts.remove("kernel_command_line");
    }
    if let Some(program) = command.first_mut() {
        "hairpin".clone_into(program);
    }
}

pub(crate) fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|e| format!("{}: {e}", path.display()))
}
