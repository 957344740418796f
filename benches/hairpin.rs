//! hairpin as its users run it: as a command, read through its JSON.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, UNIX_EPOCH};

use hairpin_record::check::Check;
use hairpin_record::run::{Row, Run};
use hairpin_units::Nanos;

use super::children::run;

/// The command under test.
pub(crate) struct Tool {
    pub(crate) program: PathBuf,
    /// The client's CPU and the server's; its own choice without them.
    pub(crate) cpus: Option<[u32; 2]>,
}

impl Tool {
    /// Tells one build from another: size and time of the file.
    pub(crate) fn build(&self) -> Result<String, String> {
        let file = fs::metadata(&self.program).map_err(|e| format!("{}: {e}", self.program.display()))?;
        let modified = file.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
        Ok(format!("{}-{}", file.len(), modified.as_secs()))
    }

    /// One run of `hairpin check`, which may have failed its own bounds.
    pub(crate) fn check(&self) -> Result<Check, String> {
        // A check that fails ends with 1, which is a result here.
        let mut command = Command::new("sh");
        command.args(["-c", "\"$0\" check --json --no-store || [ $? = 1 ]"]).arg(&self.program);
        let text = run(&mut command, Duration::from_secs(120))?;
        let json =
            text.lines().find(|line| line.starts_with('{')).ok_or_else(|| format!("hairpin check printed no JSON: {text}"))?;
        serde_json::from_str(json).map_err(|e| format!("hairpin check's JSON: {e}"))
    }

    /// The command for one block of a path over a link, with payloads of `size` bytes.
    pub(crate) fn ping(&self, link: &str, path: &str, size: u32, length: Nanos, warmup: Nanos) -> Command {
        let mut command = Command::new(&self.program);
        command.args(["ping", "--link", link, "--path", path, "--size", &size.to_string(), "--json", "--no-store"]);
        command.args(["--duration", &format!("{}ns", length.0), "--warmup", &format!("{}ns", warmup.0)]);
        if let Some([client, server]) = self.cpus {
            command.args(["--cpu", &format!("{client},{server}")]);
        }
        command
    }

    /// The distance of the cores in ns, which a bouncer and `explain` do not tell.
    pub(crate) fn distance(&self) -> Result<Vec<u64>, String> {
        let mut command = self.ping("loopback", "memory:spin", 8, Nanos::from_millis(250), Nanos::from_millis(25));
        let run = measure(command.args(["--count", "20000"]))?;
        Ok(cores(&run.results[0]))
    }
}

/// The distance of the cores in each block of a row, in ns.
pub(crate) fn cores(row: &Row) -> Vec<u64> {
    row.blocks.iter().filter_map(|block| block.core_rtt_ns).collect()
}

/// Runs such a command: a record with at least one result.
pub(crate) fn measure(command: &mut Command) -> Result<Run, String> {
    parse(&run(command, Duration::from_secs(30))?)
}

/// Reads a record; a run that failed part way is an error.
pub(crate) fn parse(text: &str) -> Result<Run, String> {
    let record: Run = serde_json::from_str(text).map_err(|e| format!("hairpin's JSON: {e}"))?;
    match record.head.error {
        Some(error) => Err(format!("hairpin: {error}")),
        None if record.results.is_empty() => Err("hairpin's record has no result".to_owned()),
        None => Ok(record),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORD: &str = include_str!("../crates/record/tests/data/run-1.json");

    #[test]
    fn a_record_of_a_failed_run_is_an_error() {
        let record = parse(RECORD).unwrap();
        let said = |change: fn(&mut Run)| {
            let mut record = record.clone();
            change(&mut record);
            parse(&serde_json::to_string(&record).unwrap()).unwrap_err()
        };
        assert_eq!(said(|run| run.head.error = Some("the server fell silent".to_owned())), "hairpin: the server fell silent");
        assert_eq!(said(|run| run.results.clear()), "hairpin's record has no result");
        assert!(parse("{}").is_err());
    }
}
