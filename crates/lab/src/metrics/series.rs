//! The series of one path to one peer: totals that only grow, and a histogram.

use std::collections::BTreeMap;

use hairpin_plan::job::Job;
use hairpin_plan::request::Request;
use hairpin_record::histogram::Decoded;
use hairpin_record::incident::Incidents;
use hairpin_record::progress::Progress;
use hairpin_record::run::{Quantiles, Row};
use hairpin_units::Arrange;

/// Most characters of a request in its label.
const NAMED: usize = 64;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Labels {
    pub(super) path: String,
    pub(super) peer: String,
    pub(super) request_bytes: u32,
    /// `None` where the end of a reply is no number of bytes.
    pub(super) reply_bytes: Option<u32>,
    /// `measured` or `emulated`.
    pub(super) origin: &'static str,
    /// The request of the user's own, as the user wrote it; else empty.
    pub(super) request: String,
}

impl Labels {
    pub(super) fn of(job: &Job, peer: String) -> Labels {
        Labels {
            path: job.spec.to_string(),
            peer,
            request_bytes: job.request,
            reply_bytes: (job.reply > 0).then_some(job.reply),
            origin: if job.emulated.is_some() { "emulated" } else { "measured" },
            request: job.own.as_ref().map(shortened).unwrap_or_default(),
        }
    }

    /// The label pairs for Prometheus.
    pub(super) fn pairs(&self) -> Vec<(&'static str, String)> {
        vec![
            ("path", self.path.clone()),
            ("peer", self.peer.clone()),
            ("request_bytes", self.request_bytes.to_string()),
            ("reply_bytes", self.reply_bytes.map(|bytes| bytes.to_string()).unwrap_or_default()),
            ("origin", self.origin.into()),
            ("request", self.request.clone()),
        ]
    }
}

/// A preset's name or a request's text, cut to [`NAMED`] characters.
fn shortened(request: &Request) -> String {
    match request.name.char_indices().nth(NAMED) {
        Some((end, _)) => format!("{}…", &request.name[..end]),
        None => request.name.clone(),
    }
}

/// The counters, over all rows with these labels.
#[derive(Clone, Debug, Default)]
pub(super) struct Totals {
    pub(super) transactions: u64,
    pub(super) sent: u64,
    pub(super) lost: u64,
    pub(super) late: u64,
    pub(super) measured_ns: u64,
    /// Time for which the run stood still because another session measured at the server.
    pub(super) paused_ns: u64,
    /// Incidents by cause; `None` where nobody asked for them.
    pub(super) incidents: Option<BTreeMap<String, u64>>,
    /// Incidents without a line in their file.
    pub(super) without_line: u64,
    pub(super) client_ns: u64,
    /// `None` while the server's CPU time is unknown.
    pub(super) server_ns: Option<u64>,
    pub(super) rtt: Distribution,
    /// Times from due; `None` until a paced request has been measured.
    pub(super) from_due: Option<Box<Distribution>>,
}

/// Times with their exact sum, which buckets cannot give.
#[derive(Clone, Debug)]
pub(super) struct Distribution {
    pub(super) times: Decoded,
    pub(super) sum_ns: f64,
}

impl Default for Distribution {
    fn default() -> Distribution {
        Distribution { times: Decoded::empty(), sum_ns: 0.0 }
    }
}

impl Distribution {
    /// Adds the times of an interval; the histogram comes from this process's own worker.
    fn add(&mut self, histogram: &str, times: &Quantiles) {
        if let Ok(decoded) = Decoded::decode(histogram) {
            self.times.add(&decoded);
            self.sum_ns += sum(times);
        }
    }

    /// Sets the times to those before the row plus all of the row's.
    fn set(&mut self, before: Option<&Distribution>, histogram: &str, times: &Quantiles) {
        if let Ok(decoded) = Decoded::decode(histogram) {
            let least = self.sum_ns;
            *self = before.cloned().unwrap_or_default();
            self.times.add(&decoded);
            // A counter must not fall.
            self.sum_ns = least.max(self.sum_ns + sum(times));
        }
    }
}

/// One path to one peer.
#[derive(Clone, Debug, Default)]
pub(super) struct Series {
    pub(super) totals: Totals,
    /// Codes of the current warnings.
    pub(super) warnings: Vec<String>,
    /// Cache-line round trip between the cores, the largest of the last interval.
    pub(super) core_rtt_ns: Option<u64>,
    /// The totals at the start of the current row.
    before: Box<Totals>,
    /// The last progress message of each thread of that row.
    last: BTreeMap<u32, Progress>,
}

impl Series {
    pub(super) fn begin(&mut self) {
        *self.before = self.totals.clone();
        self.last.clear();
    }

    /// Adds the progress of one measuring thread.
    pub(super) fn progress(&mut self, line: &Progress) {
        let nothing = Progress::default();
        let last = self.last.get(&line.thread).unwrap_or(&nothing);
        let totals = &mut self.totals;
        totals.transactions += line.transactions.saturating_sub(last.transactions);
        totals.sent += line.sent.saturating_sub(last.sent);
        totals.lost += line.lost.saturating_sub(last.lost);
        totals.late += line.late.saturating_sub(last.late);
        // Threads measure in parallel, so one of them counts the time.
        if line.thread == 0 {
            totals.measured_ns += line.at_ns.saturating_sub(last.at_ns);
        }
        if let Some(cpu) = &line.cpu {
            // The CPU time is that of the process, whichever thread reports it.
            totals.client_ns = totals.client_ns.max(self.before.client_ns + cpu.client_ns);
            if let Some(server_ns) = cpu.server_ns {
                let so_far = self.before.server_ns.unwrap_or(0) + server_ns;
                totals.server_ns = Some(totals.server_ns.map_or(so_far, |known| known.max(so_far)));
            }
        }
        if let Some(interval) = &line.interval {
            totals.rtt.add(&interval.histogram, &interval.rtt_ns);
            if let (Some(histogram), Some(times)) = (&interval.histogram_from_due, &interval.rtt_from_due_ns) {
                totals.from_due.get_or_insert_default().add(histogram, times);
            }
            self.core_rtt_ns = interval.core_rtt_most_ns.or(self.core_rtt_ns);
        }
        self.caught(line.incidents.as_deref());
        self.warnings = codes(line.warnings.iter().map(|note| note.code.clone()));
        self.last.insert(line.thread, line.clone());
    }

    /// Adds the incidents of the row so far to those before it.
    fn caught(&mut self, found: Option<&Incidents>) {
        let Some(found) = found else { return };
        let mut by_cause = self.before.incidents.clone().unwrap_or_default();
        for cause in &found.causes {
            *by_cause.entry(cause.cause.clone()).or_default() += cause.count;
        }
        self.totals.incidents = Some(by_cause);
        self.totals.without_line = self.before.without_line + found.count.saturating_sub(found.written);
    }

    /// The row is over: its record replaces the snapshots' figures, which miss the time after the last one.
    pub(super) fn end(&mut self, row: &Row) {
        let sent = self.last.values().map(|line| line.sent).sum::<u64>().max(row.transactions + row.lost);
        let (before, totals) = (&*self.before, &mut self.totals);
        totals.transactions = before.transactions + row.transactions;
        totals.sent = before.sent + sent;
        totals.lost = before.lost + row.lost;
        totals.late = before.late + row.late;
        totals.measured_ns = before.measured_ns + row.duration_ns;
        totals.client_ns = totals.client_ns.max(before.client_ns + row.cpu.client.user_ns + row.cpu.client.system_ns);
        if let Some(server) = &row.cpu.server {
            let so_far = before.server_ns.unwrap_or(0) + server.user_ns + server.system_ns;
            totals.server_ns = Some(totals.server_ns.map_or(so_far, |known| known.max(so_far)));
        }
        totals.rtt.set(Some(&before.rtt), &row.histogram, &row.rtt_ns);
        if let (Some(histogram), Some(times)) = (&row.histogram_from_due, &row.rtt_from_due_ns) {
            totals.from_due.get_or_insert_default().set(before.from_due.as_deref(), histogram, times);
        }
        self.caught(row.incidents.as_deref());
        self.warnings = codes(row.warnings.iter().map(|note| note.code.clone()));
        // Only a row that runs needs these, and a histogram has 200 kB.
        self.last.clear();
        *self.before = Totals::default();
    }
}

fn sum(rtt: &Quantiles) -> f64 {
    rtt.mean.unwrap_or(0.0) * rtt.count as f64
}

/// The distinct codes.
fn codes(all: impl Iterator<Item = String>) -> Vec<String> {
    let mut codes: Vec<String> = all.collect();
    codes.arrange_by(Ord::cmp);
    codes.dedup();
    codes
}
