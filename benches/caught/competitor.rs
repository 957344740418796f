//! A competitor that wakes now and then, tells when it had the CPU, and the incidents that it caused.

use std::io::{self, Write};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use hairpin_session::time::parsed;
use rustix::time::{ClockId, clock_gettime};
use serde_json::Value;

/// After `first` wakes every `every` for `busy` of work, for ever, and prints each begin and end in ns since 1970, and how long it had the CPU between them.
pub(crate) fn wakes(first: Duration, every: Duration, busy: Duration) -> io::Result<()> {
    sleep(first);
    loop {
        sleep(every);
        let (from, began, used) = (now_ns(), Instant::now(), cpu_ns());
        while began.elapsed() < busy {}
        let mut out = io::stdout().lock();
        writeln!(out, "{from} {} {}", now_ns(), cpu_ns() - used)?;
        out.flush()?;
    }
}

fn now_ns() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos()
}

/// CPU time of this thread.
fn cpu_ns() -> u128 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u128 * 1_000_000_000 + time.tv_nsec as u128
}

/// The incidents that the competitor caused, and those that name it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Judged {
    /// Wake-ups, as it printed them.
    pub(crate) wakes: usize,
    /// Incidents that it overlaps by at least half of its work, without those of the first block, and where it shared its core with others meanwhile.
    pub(crate) caused: usize,
    /// Those with it among their causes.
    pub(crate) named: usize,
    /// Those with it as the first of them.
    pub(crate) first: usize,
    /// All incidents.
    pub(crate) all: usize,
}

/// The incidents that a competitor caused which printed this, each with its line.
pub(crate) fn caused<'a>(incidents: &'a str, printed: &str, busy: Duration) -> Vec<(&'a str, Value)> {
    let number = |text: Option<&str>| text.and_then(|text| text.parse::<u128>().ok());
    let interval = |line: &str| {
        let mut words = line.split(' ');
        Some((number(words.next())?, number(words.next())?, number(words.next())?))
    };
    // One that had to share the core with others is not the cause alone.
    let whole = printed.lines().filter_map(interval).filter(|(since, until, had)| had * 10 >= (until - since) * 9);
    let spans: Vec<(u128, u128)> = whole.map(|(since, until, _)| (since, until)).collect();
    let is_caused = |incident: &Value| {
        // Those of the first block have no hooks.
        if incident["typical_rtt_ns"].is_null() {
            return false;
        }
        let began = incident["at"].as_str().and_then(parsed).and_then(|at| at.duration_since(UNIX_EPOCH).ok());
        let (Some(began), Some(rtt_ns)) = (began, incident["rtt_ns"].as_u64()) else { return false };
        let (from, to) = (began.as_nanos(), began.as_nanos() + u128::from(rtt_ns));
        let common = |(since, until): &(u128, u128)| to.min(*until).saturating_sub(from.max(*since));
        spans.iter().map(common).max().unwrap_or(0) * 2 >= busy.as_nanos()
    };
    let read = |line| serde_json::from_str::<Value>(line).ok().map(|incident| (line, incident));
    incidents.lines().filter_map(read).filter(|(_, incident)| is_caused(incident)).collect()
}

/// Judges the lines of a file of incidents, by what a competitor of this number printed.
pub(crate) fn judge(incidents: &str, printed: &str, pid: u32, busy: Duration) -> Judged {
    let name = format!("(pid {pid})");
    let mut judged = Judged { wakes: printed.lines().count(), all: incidents.lines().count(), ..Judged::default() };
    for (_, incident) in caused(incidents, printed, busy) {
        let causes = incident["causes"].as_array().map_or(&[][..], Vec::as_slice);
        let names = |cause: &Value| cause["who"].as_str().is_some_and(|who| who.ends_with(&name));
        judged.caused += 1;
        judged.named += usize::from(causes.iter().any(names));
        judged.first += usize::from(causes.first().is_some_and(names));
    }
    judged
}
