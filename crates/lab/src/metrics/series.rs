//! What is known of one path towards one peer: totals that only grow, and a histogram.

use std::collections::BTreeMap;

use hairpin_plan::job::Job;
use hairpin_record::histogram::Decoded;
use hairpin_record::progress::Progress;
use hairpin_record::run::{Quantiles, Row};

/// What tells series apart.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Labels {
    pub(super) path: String,
    pub(super) peer: String,
    pub(super) request_bytes: u32,
    pub(super) reply_bytes: u32,
    /// `measured` or `emulated`.
    pub(super) origin: &'static str,
}

impl Labels {
    pub(super) fn of(job: &Job, peer: String) -> Labels {
        Labels {
            path: job.spec.to_string(),
            peer,
            request_bytes: job.request,
            reply_bytes: job.reply,
            origin: if job.emulated.is_some() { "emulated" } else { "measured" },
        }
    }

    /// As Prometheus takes them.
    pub(super) fn pairs(&self) -> Vec<(&'static str, String)> {
        vec![
            ("path", self.path.clone()),
            ("peer", self.peer.clone()),
            ("request_bytes", self.request_bytes.to_string()),
            ("reply_bytes", self.reply_bytes.to_string()),
            ("origin", self.origin.into()),
        ]
    }
}

/// What only grows, over all rows of these labels.
#[derive(Clone, Debug, Default)]
pub(super) struct Totals {
    pub(super) transactions: u64,
    pub(super) sent: u64,
    pub(super) lost: u64,
    pub(super) late: u64,
    pub(super) measured_ns: u64,
    pub(super) client_ns: u64,
    /// `None` while nothing is known of the server.
    pub(super) server_ns: Option<u64>,
    pub(super) rtt: Distribution,
    /// From due, once a paced request has been measured.
    pub(super) from_due: Option<Box<Distribution>>,
}

/// Times and their sum, which buckets do not tell exactly.
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
    /// Adds what came in an interval; this process's own worker wrote the histogram.
    fn add(&mut self, histogram: &str, times: &Quantiles) {
        if let Ok(decoded) = Decoded::decode(histogram) {
            self.times.add(&decoded);
            self.sum_ns += sum(times);
        }
    }

    /// What it was before a row, and all of the row.
    fn set(&mut self, before: Option<&Distribution>, histogram: &str, times: &Quantiles) {
        if let Ok(decoded) = Decoded::decode(histogram) {
            let least = self.sum_ns;
            *self = before.cloned().unwrap_or_default();
            self.times.add(&decoded);
            // A counter never falls.
            self.sum_ns = least.max(self.sum_ns + sum(times));
        }
    }
}

/// One path towards one peer.
#[derive(Clone, Debug, Default)]
pub(super) struct Series {
    pub(super) totals: Totals,
    /// Codes of the warnings that hold now.
    pub(super) warnings: Vec<String>,
    /// Cache-line round trip between the cores, the largest of the last interval.
    pub(super) core_rtt_ns: Option<u64>,
    /// When the row that is measured began.
    before: Box<Totals>,
    /// The last line of each thread of that row.
    last: BTreeMap<u32, Progress>,
}

impl Series {
    /// A row begins.
    pub(super) fn begin(&mut self) {
        *self.before = self.totals.clone();
        self.last.clear();
    }

    /// A measuring thread of the row says how far it is.
    pub(super) fn progress(&mut self, line: &Progress) {
        let nothing = Progress::default();
        let last = self.last.get(&line.thread).unwrap_or(&nothing);
        let totals = &mut self.totals;
        totals.transactions += line.transactions.saturating_sub(last.transactions);
        totals.sent += line.sent.saturating_sub(last.sent);
        totals.lost += line.lost.saturating_sub(last.lost);
        totals.late += line.late.saturating_sub(last.late);
        // Threads measure side by side.
        if line.thread == 0 {
            totals.measured_ns += line.at_ns.saturating_sub(last.at_ns);
        }
        if let Some(cpu) = &line.cpu {
            // Of the process: whichever thread tells of it.
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
        self.warnings = codes(line.warnings.iter().map(|note| note.code.clone()));
        self.last.insert(line.thread, line.clone());
    }

    /// The row is over: what its record says takes the place of what its snapshots said, which miss the time after the last one.
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
        self.warnings = codes(row.warnings.iter().map(|note| note.code.clone()));
    }
}

fn sum(rtt: &Quantiles) -> f64 {
    rtt.mean.unwrap_or(0.0) * rtt.count as f64
}

/// Each once.
fn codes(all: impl Iterator<Item = String>) -> Vec<String> {
    let mut codes: Vec<String> = all.collect();
    codes.sort();
    codes.dedup();
    codes
}
