//! A competitor that wakes now and then, tells when it had the CPU, and the incidents that it caused.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use hairpin_session::time::parsed;
use serde_json::Value;

/// If more time than this passes between two looks at the clock, in ns, the competitor did not have the CPU.
const GAP_NS: u128 = 100_000;

/// After `first` wakes every `every` for `busy` of work, for ever. Prints begin and end of every stretch in which it had the CPU,
/// in ns since 1970.
pub(crate) fn wakes(first: Duration, every: Duration, busy: Duration) -> io::Result<()> {
    sleep(first);
    loop {
        sleep(every);
        let (mut from, began) = (now_ns(), Instant::now());
        let mut last = from;
        let mut stretches = String::new();
        while began.elapsed() < busy {
            let now = now_ns();
            if now > last + GAP_NS {
                let _ = write!(stretches, "{from} {last} ");
                from = now;
            }
            last = now;
        }
        let mut out = io::stdout().lock();
        writeln!(out, "{stretches}{from} {last}")?;
        out.flush()?;
    }
}

fn now_ns() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos()
}

/// The incidents that the competitor caused, and those that name it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Judged {
    /// Wake-ups, as it printed them.
    pub(crate) wakes: usize,
    /// Incidents during which it had the CPU for at least half of its work, without those of the first block.
    pub(crate) caused: usize,
    /// Caused incidents with the competitor among their causes.
    pub(crate) named: usize,
    /// Caused incidents with the competitor as the first cause.
    pub(crate) first: usize,
    /// All incidents.
    pub(crate) all: usize,
}

/// Judges the lines of a file of incidents by what the competitor `pid` printed; also returns the lines of the incidents that it
/// caused.
pub(crate) fn judge<'a>(incidents: &'a str, printed: &str, pid: u32, busy: Duration) -> (Judged, Vec<&'a str>) {
    let wakes: Vec<Vec<u128>> =
        printed.lines().map(|line| line.split(' ').filter_map(|word| word.parse().ok()).collect()).collect();
    let mut judged = Judged { wakes: wakes.len(), ..Judged::default() };
    let mut caused = Vec::new();
    let name = format!("(pid {pid})");
    for line in incidents.lines() {
        let Ok(incident) = serde_json::from_str::<Value>(line) else { continue };
        judged.all += 1;
        // An incident of the first block, which has no hooks.
        if incident["typical_rtt_ns"].is_null() {
            continue;
        }
        let began = incident["at"].as_str().and_then(parsed).and_then(|at| at.duration_since(UNIX_EPOCH).ok());
        let (Some(began), Some(rtt_ns)) = (began, incident["rtt_ns"].as_u64()) else { continue };
        let (from, to) = (began.as_nanos(), began.as_nanos() + u128::from(rtt_ns));
        let common = |stretch: &[u128]| to.min(stretch[1]).saturating_sub(from.max(stretch[0]));
        let had = |wake: &Vec<u128>| wake.chunks_exact(2).map(common).sum::<u128>();
        if wakes.iter().map(had).max().unwrap_or(0) * 2 < busy.as_nanos() {
            continue;
        }
        let causes = incident["causes"].as_array().map_or(&[][..], Vec::as_slice);
        let names = |cause: &Value| cause["who"].as_str().is_some_and(|who| who.ends_with(&name));
        judged.caused += 1;
        judged.named += usize::from(causes.iter().any(names));
        judged.first += usize::from(causes.first().is_some_and(names));
        caused.push(line);
    }
    (judged, caused)
}
