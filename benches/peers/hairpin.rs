//! hairpin as its users run it: as a command, read through its JSON.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant, UNIX_EPOCH};

use hairpin_record::run::Run;
use serde_json::Value;

use super::super::children::{field, run, start};
use super::cells::Cell;
use super::pairs::{self, Hairpin};

/// Round trips of the memory bound.
const BILLION: u64 = 1_000_000_000;

/// The command under test.
pub(crate) struct Tool {
    pub(crate) program: PathBuf,
    pub(crate) cpus: [u32; 2],
    /// Cache-line round trips below this are of near cores.
    pub(crate) split_ns: u64,
}

impl Tool {
    /// Tells one build from another: size and time of the file.
    pub(crate) fn build(&self) -> Result<String, String> {
        let file = fs::metadata(&self.program).map_err(|e| format!("{}: {e}", self.program.display()))?;
        let modified = file.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
        Ok(format!("{}-{}", file.len(), modified.as_secs()))
    }

    /// The command of a cell. The counted time is like sockperf's.
    pub(crate) fn command(&self, cell: Cell) -> Command {
        self.ping(&cell.link.to_string(), &cell.path(), cell.size)
    }

    /// The command of a path spec over a link, with payloads of `size` bytes.
    pub(crate) fn ping(&self, link: &str, path: &str, size: u32) -> Command {
        let mut command = Command::new(&self.program);
        command.args(["ping", "--link", link, "--path", path, "--size", &size.to_string()]);
        command.args(["--duration", "0.25s", "--warmup", "0.05s", "--json", "--no-store"]);
        command.args(["--cpu", &format!("{},{}", self.cpus[0], self.cpus[1])]);
        command
    }

    /// Measures `cell` once: the figures for the pair, and the whole record.
    pub(crate) fn measure(&self, cell: Cell) -> Result<(Hairpin, Run), String> {
        self.measured(&mut self.command(cell))
    }

    /// Runs one such command: the figures for a pair, and the whole record.
    pub(crate) fn measured(&self, command: &mut Command) -> Result<(Hairpin, Run), String> {
        let record = parse(&run(command, Duration::from_secs(20))?)?;
        Ok((figures(&record, self.split_ns)?, record))
    }

    /// The longest of three wall times of a short run, in s.
    pub(crate) fn wall_time(&self, scratch: &Path) -> Result<f64, String> {
        let mut longest = 0.0f64;
        for _ in 0..3 {
            let mut command = Command::new(&self.program);
            command.args(["ping", "--link", "loopback", "--path", "udp:spin", "--duration", "1s", "--warmup", "100ms"]);
            command.env("HAIRPIN_RUNS", scratch.join("runs"));
            let begin = Instant::now();
            run(&mut command, Duration::from_secs(20))?;
            longest = longest.max(begin.elapsed().as_secs_f64());
        }
        Ok(longest)
    }

    /// The instrument's own cost per transaction over a null endpoint, in ns, as `hairpin check` finds it.
    pub(crate) fn own_cost(&self) -> Result<f64, String> {
        let text = run(Command::new(&self.program).args(["check", "--json", "--no-store"]), Duration::from_secs(60))?;
        let check: Value = serde_json::from_str(&text).map_err(|e| format!("hairpin check --json: {e}"))?;
        check["own_cost_ns"].as_f64().ok_or_else(|| "hairpin check --json has no own_cost_ns".to_owned())
    }

    /// The most memory that one of hairpin's processes held (VmHWM, proc(5)) over 10^9 transactions, in MiB.
    pub(crate) fn memory_of_a_billion(&self) -> Result<f64, String> {
        let mut command = Command::new(&self.program);
        command.args(["ping", "--link", "loopback", "--path", "memory", "--count", &BILLION.to_string(), "--json", "--no-store"]);
        command.args(["--cpu", &format!("{},{}", self.cpus[0], self.cpus[1])]);
        let child = start(&mut command)?;
        let root = child.pid();
        let (done, over) = std::sync::mpsc::channel::<()>();
        // Peaks only grow, so what is missed is what grows in the last 20 ms of a process.
        let watcher = thread::spawn(move || {
            let mut peak = 0;
            while over.recv_timeout(Duration::from_millis(20)) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                peak = family(root).into_iter().filter_map(peak_kib).fold(peak, u64::max);
            }
            peak
        });
        let text = child.finish(Duration::from_secs(1200));
        drop(done);
        let peak = watcher.join().map_err(|_| "the watcher of memory panicked")?;
        let counted = parse(&text?)?.results.first().map_or(0, |row| row.transactions);
        if counted < BILLION {
            return Err(format!("the run for the memory bound counted only {counted} transactions"));
        }
        Ok(peak as f64 / 1024.0)
    }
}

/// Reads a record; a run that failed part way is an error.
fn parse(text: &str) -> Result<Run, String> {
    let record: Run = serde_json::from_str(text).map_err(|e| format!("hairpin's JSON: {e}"))?;
    match record.head.error {
        Some(error) => Err(format!("hairpin: {error}")),
        None => Ok(record),
    }
}

/// What a pair needs of a record.
fn figures(record: &Run, split_ns: u64) -> Result<Hairpin, String> {
    let row = record.results.first().ok_or("hairpin's record has no result")?;
    Ok(Hairpin {
        p50_ns: row.rtt_ns.p50.ok_or("hairpin's record has no median")? as f64,
        transactions: row.transactions,
        state: pairs::state(&row.blocks, split_ns),
        core_rtt_ns: row.blocks.iter().filter_map(|block| block.core_rtt_ns).collect(),
    })
}

/// `root` and every process below it that lives now.
fn family(root: u32) -> Vec<u32> {
    let mut found = vec![root];
    let mut next = 0;
    while let Some(&pid) = found.get(next) {
        next += 1;
        let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { continue };
        for task in tasks.flatten() {
            let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
            found.extend(children.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
        }
    }
    found
}

/// The most that a process held, in KiB.
fn peak_kib(pid: u32) -> Option<u64> {
    field(pid, "VmHWM:")?.trim_end_matches(" kB").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::super::pairs::State;
    use super::*;

    const RECORD: &str = include_str!("../../crates/record/tests/data/run-1.json");

    #[test]
    fn a_pair_takes_median_and_state_of_a_record() {
        let record = parse(RECORD).unwrap();
        let got = figures(&record, 250).unwrap();
        let row = &record.results[0];
        assert_eq!(Some(got.p50_ns), row.rtt_ns.p50.map(|ns| ns as f64));
        assert_eq!(got.transactions, row.transactions);
        assert_eq!(got.state, pairs::state(&row.blocks, 250));
        assert_eq!(figures(&record, 0).unwrap().state, if got.core_rtt_ns.is_empty() { State::Unknown } else { State::Far });
    }

    #[test]
    fn a_record_of_a_failed_run_is_an_error() {
        let mut record: Run = serde_json::from_str(RECORD).unwrap();
        record.head.error = Some("the server fell silent".to_owned());
        let text = serde_json::to_string(&record).unwrap();
        assert_eq!(parse(&text).unwrap_err(), "hairpin: the server fell silent");
        assert!(parse("{}").is_err());
        record.results.clear();
        assert!(figures(&record, 250).is_err());
    }

    #[test]
    fn this_process_is_of_its_own_family_and_holds_memory() {
        let me = std::process::id();
        assert_eq!(family(me)[0], me);
        assert!(peak_kib(me).unwrap() > 100);
    }
}
