//! A gate: ten runs as its baseline, and the work measured anew, which has become slower or not.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use hairpin_record::experiment::Verdict;

use super::super::bound::middle;
use super::trial::{Delay, Trial, compared, ping, pinged, told};
use super::{Cell, Options};

/// Runs of a baseline.
pub(super) const BASELINE: usize = 10;

/// The runs that gates compare with, as files: the last ten.
pub(super) struct Baseline {
    home: tempfile::TempDir,
    delay: Option<Delay>,
    measured: usize,
}

impl Baseline {
    pub(super) fn begin(options: &Options, cell: &Cell) -> Result<Baseline, String> {
        let home = tempfile::tempdir().map_err(|e| e.to_string())?;
        let mut baseline = Baseline { home, delay: delay(options, cell)?, measured: 0 };
        baseline.measure(options, cell)?;
        Ok(baseline)
    }

    /// Measures one more run, which takes the place of the oldest. If the work is to become slower, the record names the slower
    /// path, so that this is measured anew.
    pub(super) fn measure(&mut self, options: &Options, cell: &Cell) -> Result<(), String> {
        let text = pinged(options, &["--link", cell.link], cell.path, options.seconds.unwrap_or(cell.part.seconds()), &[])?;
        let mut run: serde_json::Value = serde_json::from_str(&text).map_err(|e| format!("hairpin's JSON: {e}"))?;
        run["results"][0]["path"] = slower(cell, self.delay.as_ref()).into();
        let file = self.file(self.measured % BASELINE);
        self.measured += 1;
        fs::write(&file, run.to_string()).map_err(|e| format!("{}: {e}", file.display()))
    }

    fn file(&self, at: usize) -> PathBuf {
        self.home.path().join(format!("{at}.json"))
    }

    /// One gate: `slower` if it closes, `unclear` if it cannot tell.
    pub(super) fn gate(&self, options: &Options, cell: &Cell) -> Result<Trial, String> {
        // A closed gate ends with 3, which is not a failure here.
        let mut command = Command::new("sh");
        command.args(["-c", "\"$0\" \"$@\" || [ $? = 3 ]"]).arg(&options.flags.hairpin).args(["compare", "--json", "--no-store"]);
        for at in 0..BASELINE {
            command.arg("--baseline").arg(self.file(at));
        }
        command.args(["--fail-if", "p50 > +0%"]);
        let seconds = options.seconds.unwrap_or(cell.part.seconds());
        let record = compared(&mut command, 60.0 + 40.0 * seconds)?;
        let threshold = record.thresholds.first().ok_or("no threshold")?;
        let verdict = match (threshold.crossed, &threshold.unknown) {
            (true, _) => Verdict::Slower,
            (_, Some(_)) => Verdict::Unclear,
            _ => Verdict::Same,
        };
        told(&record, verdict, self.delay.as_ref().map(|delay| Delay { ns: delay.ns, share: delay.share }))
    }
}

/// The path with the delay.
fn slower(cell: &Cell, delay: Option<&Delay>) -> String {
    delay.map_or_else(|| cell.path.to_owned(), |delay| format!("{},delay={:.0}", cell.path, delay.ns))
}

/// The second side's added server wait, requested and real: the middle of five differences of the servers'
/// mean turn-arounds, each of two runs of 0.3 s. That clock is the server's, and not part of the comparison.
fn delay(options: &Options, cell: &Cell) -> Result<Option<Delay>, String> {
    if cell.slower <= 0.0 {
        return Ok(None);
    }
    let p50 = ping(options, cell.link, cell.path, 1.0)?.results.first().and_then(|row| row.rtt_ns.p50).ok_or("no p50")? as f64;
    let mut delay = Delay { ns: (cell.slower * p50).round(), share: 0.0 };
    let turnaround = |path: &str| {
        let run = ping(options, cell.link, path, 0.3)?;
        run.results.first().and_then(|row| row.turnaround_ns.as_ref()?.mean).ok_or_else(|| "no turn-around".to_owned())
    };
    let with = slower(cell, Some(&delay));
    let longer = (0..5).map(|_| Ok(-turnaround(cell.path)? + turnaround(&with)?)).collect::<Result<Vec<f64>, String>>()?;
    delay.share = middle(longer) / p50;
    Ok(Some(delay))
}
