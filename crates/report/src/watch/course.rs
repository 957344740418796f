//! The state of one row: current and total figures, points over time, the distribution, the warnings that hold.

use std::collections::{BTreeMap, VecDeque};

use hairpin_record::histogram::Decoded;
use hairpin_record::progress::Progress;
use hairpin_record::run::{LAST_REPLY, Origin, Quantiles, Row};
use hairpin_record::warning::Note;
use hairpin_units::Quantile;

use crate::figure::{pace, payload, payloads};
use crate::incidents::so_far;
use crate::label::{self, labelled, short};
use crate::prose::clean;

/// The figures plotted over time, in the order of keys 1 to 5.
pub(super) const FIGURES: [&str; 5] = ["p50", "p90", "p99", "p99.9", "max"];

/// The start of a row.
#[derive(Clone, Debug)]
pub struct Begins<'a> {
    pub path: &'a str,
    /// Payload of a request.
    pub request_bytes: u64,
    /// Payload of a reply; 0 if unknown.
    pub reply_bytes: u64,
    /// Measured or emulated.
    pub origin: Origin,
    /// The requested rate.
    pub pace_per_s: Option<f64>,
    /// The total number of rows.
    pub of: usize,
}

/// The number of points kept; a longer run keeps the last ones.
const KEPT: usize = 4096;
/// The most measuring threads whose lines are merged; a stream with more is hostile.
const THREADS: usize = 1024;
/// The most buckets kept of the distribution of a row that grows no more.
const BUCKETS: usize = 4096;
/// The significant bits of a histogram's buckets, which have three digits.
const BITS: u32 = 11;

/// RTT figures in the order of [`FIGURES`], and other figures of the same interval.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Figures {
    pub(super) least: Option<u64>,
    pub(super) values: [Option<u64>; FIGURES.len()],
    pub(super) per_s: f64,
    pub(super) lost: u64,
    /// Measured time.
    pub(super) ns: u64,
}

/// A point over time.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Point {
    /// End of the interval, since measuring began.
    pub(super) at_ns: u64,
    pub(super) values: [Option<u64>; FIGURES.len()],
    pub(super) lost: u64,
}

/// A warning and the time since which it holds; `None` if it came with the final record.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Seen {
    pub(super) at_ns: Option<u64>,
    pub(super) note: Note,
}

#[derive(Clone, Debug)]
pub(super) struct Course {
    path: String,
    request_bytes: u64,
    /// 0 if unknown.
    reply_bytes: u64,
    pub(super) label: String,
    pub(super) payload: String,
    pub(super) now: Option<Figures>,
    pub(super) whole: Option<Figures>,
    pub(super) points: VecDeque<Point>,
    /// The distribution since the start, while the row grows.
    spread: Option<Decoded>,
    /// The distribution of a row that grows no more, as (ns, number of times).
    settled: Vec<(u64, u64)>,
    pub(super) late: u64,
    /// Share of a core used by the client's and by the server's worker over the last interval.
    pub(super) cpu: [Option<f64>; 2],
    /// Cache-line round trip between the cores in the last interval.
    pub(super) core_rtt_ns: Option<u64>,
    pub(super) warnings: Vec<Seen>,
    /// The incidents so far, in words.
    pub(super) incidents: Option<String>,
    pub(super) over: bool,
    /// Why the histogram cannot be decoded.
    pub(super) unread: Option<String>,
    /// Lines that wait for the other threads to complete the next point.
    pending: BTreeMap<u32, Progress>,
    /// The last line of each thread.
    last: BTreeMap<u32, Progress>,
}

impl Course {
    fn new(path: &str, request_bytes: u64, reply_bytes: u64, origin: Origin, pace_per_s: Option<f64>) -> Course {
        let paced = pace_per_s.map_or(String::new(), |per_s| format!(" @{}", pace(per_s)));
        Course {
            path: path.into(),
            request_bytes,
            reply_bytes,
            label: labelled(format!("{}{paced}", short(path)), origin),
            payload: format!("{} B", payloads(request_bytes, reply_bytes)),
            now: None,
            whole: None,
            points: VecDeque::new(),
            spread: None,
            settled: Vec::new(),
            late: 0,
            cpu: [None; 2],
            core_rtt_ns: None,
            warnings: Vec::new(),
            incidents: None,
            over: false,
            unread: None,
            pending: BTreeMap::new(),
            last: BTreeMap::new(),
        }
    }

    pub(super) fn begins(row: &Begins<'_>) -> Course {
        Course::new(row.path, row.request_bytes, row.reply_bytes, row.origin, row.pace_per_s)
    }

    /// A row known only from its progress lines.
    pub(super) fn of_line(line: &Progress) -> Course {
        Course::new(&line.path, line.request_bytes, line.reply_bytes.unwrap_or(0), Origin::Measured, None)
    }

    /// A finished row.
    pub(super) fn of_row(row: &Row) -> Course {
        let mut course = Course::new(&row.path, row.request_bytes, row.reply_bytes, row.origin, row.pace_per_s);
        course.ends(row);
        course
    }

    /// True if the line continues this row: same path and sizes, and not older than the last line.
    pub(super) fn takes(&self, line: &Progress) -> bool {
        let later = self.last.get(&line.thread).is_none_or(|last| line.at_ns >= last.at_ns);
        self.goes_on(&line.path, line.request_bytes, line.reply_bytes.unwrap_or(0)) && later
    }

    /// True if the lines of this row are those of the finished row.
    pub(super) fn is_of(&self, row: &Row) -> bool {
        // The lines of a group are of the last replies.
        let has_lines = row.reply.as_deref().is_none_or(|reply| reply == LAST_REPLY);
        has_lines && self.goes_on(&row.path, row.request_bytes, row.reply_bytes)
    }

    fn goes_on(&self, path: &str, request_bytes: u64, reply_bytes: u64) -> bool {
        let alike = self.reply_bytes == 0 || reply_bytes == 0 || self.reply_bytes == reply_bytes;
        !self.over && self.path == path && self.request_bytes == request_bytes && alike
    }

    /// (ns, number of times) of the distribution since the start, ascending.
    pub(super) fn counts(&self) -> Vec<(u64, u64)> {
        match &self.spread {
            Some(spread) => spread.counts().collect(),
            None => self.settled.clone(),
        }
    }

    /// Frees what only a growing row needs; a stream may have thousands of rows.
    pub(super) fn settle(&mut self) {
        self.end_point();
        if let Some(spread) = self.spread.take() {
            self.settled = few(&spread);
        }
        self.last.clear();
        self.points.shrink_to_fit();
    }

    pub(super) fn progress(&mut self, line: &Progress) {
        let threads = (line.threads.unwrap_or(1) as usize).clamp(1, THREADS);
        // A second line of a thread means that another thread is late; its line will count for the next point.
        if self.pending.contains_key(&line.thread) {
            self.end_point();
        }
        self.pending.insert(line.thread, line.clone());
        if let Some(found) = line.incidents.as_deref() {
            self.incidents = Some(clean(&so_far(found)));
        }
        if self.pending.len() >= threads {
            self.end_point();
        }
    }

    /// Merges the pending lines of all threads into a point.
    fn end_point(&mut self) {
        let lines = std::mem::take(&mut self.pending);
        let Some(at_ns) = lines.values().map(|line| line.at_ns).max() else { return };
        let lost_before = sum(self.last.values().map(|line| line.lost));
        self.now = self.interval(&lines);
        self.cpu = self.shares(&lines);
        self.last.extend(lines.iter().map(|(thread, line)| (*thread, line.clone())));
        while self.last.len() > THREADS {
            self.last.pop_first();
        }
        let all = || self.last.values();
        let lost = sum(all().map(|line| line.lost));
        self.late = sum(all().map(|line| line.late));
        let of_cores = lines.values().filter_map(|line| line.interval.as_ref()?.core_rtt_most_ns);
        self.core_rtt_ns = of_cores.max().or(self.core_rtt_ns);
        let ns = all().map(|line| line.at_ns).max().unwrap_or(0);
        let per_s = all().map(|line| line.transactions_per_s).sum();
        let figures = match (all().count(), &self.spread) {
            (1, _) | (_, None) => all().next_back().map(|line| figures_of(&line.rtt_ns)).unwrap_or_default(),
            (_, Some(spread)) => merged(spread, all().map(|line| &line.rtt_ns)),
        };
        self.whole = Some(Figures { per_s, lost, ns, ..figures });
        if let Some(now) = &mut self.now {
            now.lost = lost.saturating_sub(lost_before);
            self.points.push_back(Point { at_ns, values: now.values, lost: now.lost });
            if self.points.len() > KEPT {
                self.points.pop_front();
            }
        }
        self.warn(Some(at_ns), lines.values().flat_map(|line| &line.warnings));
    }

    /// The figures of the interval since the previous point.
    fn interval(&mut self, lines: &BTreeMap<u32, Progress>) -> Option<Figures> {
        let intervals: Vec<_> = lines.values().filter_map(|line| line.interval.as_ref()).collect();
        let ns = intervals.iter().map(|interval| interval.duration_ns).max()?;
        let mut spread = Decoded::empty();
        for interval in &intervals {
            match Decoded::decode(&interval.histogram) {
                Ok(part) => spread.add(&part),
                Err(error) => self.unread = Some(error.to_string()),
            }
        }
        self.spread.get_or_insert_with(Decoded::empty).add(&spread);
        let figures = match intervals.as_slice() {
            [one] => figures_of(&one.rtt_ns),
            several => merged(&spread, several.iter().map(|interval| &interval.rtt_ns)),
        };
        let count: f64 = intervals.iter().map(|interval| interval.rtt_ns.count as f64).sum();
        Some(Figures { per_s: if ns == 0 { 0.0 } else { count * 1e9 / ns as f64 }, ns, ..figures })
    }

    /// CPU time divided by the time since the previous line, from the thread that reported last.
    fn shares(&self, lines: &BTreeMap<u32, Progress>) -> [Option<f64>; 2] {
        let Some((thread, now)) = lines.iter().find_map(|(thread, line)| Some((thread, line.cpu.as_ref()?))) else {
            return [None; 2];
        };
        let before = self.last.get(thread).and_then(|line| line.cpu.clone()).unwrap_or_default();
        let passed = now.elapsed_ns.saturating_sub(before.elapsed_ns);
        let share = |now: Option<u64>, before: Option<u64>| {
            let used = now?.saturating_sub(before.unwrap_or(0));
            (passed > 0).then_some(used as f64 / passed as f64)
        };
        [share(Some(now.client_ns), Some(before.client_ns)), share(now.server_ns, before.server_ns)]
    }

    /// Replaces name and figures with those of the final record.
    pub(super) fn ends(&mut self, row: &Row) {
        self.end_point();
        self.over = true;
        // Lines have neither origin nor rate nor reply.
        self.label = label::whole(row);
        self.payload = format!("{} B", payload(row));
        self.incidents = row.incidents.as_deref().map(|found| clean(&so_far(found)));
        let figures = figures_of(&row.rtt_ns);
        self.whole = Some(Figures { per_s: row.transactions_per_s, lost: row.lost, ns: row.duration_ns, ..figures });
        self.late = row.late;
        match Decoded::decode(&row.histogram) {
            Ok(spread) => self.spread = Some(spread),
            // A row without results has an empty histogram.
            Err(error) if !row.histogram.is_empty() => self.unread = Some(error.to_string()),
            Err(_) => {}
        }
        if self.points.is_empty() {
            let point = |point: &hairpin_record::run::Point| Point {
                at_ns: point.at_ns,
                values: [point.p50, None, point.p99, None, Some(point.max)],
                lost: 0,
            };
            // Points of several threads stand side by side; they are not averaged.
            self.points = row.series.iter().rev().take(KEPT).rev().map(point).collect();
        }
        self.warn(None, row.warnings.iter());
        self.settle();
    }

    /// Takes the warnings that hold now; one with the same code and other figures replaces the earlier one.
    fn warn<'a>(&mut self, at_ns: Option<u64>, notes: impl Iterator<Item = &'a Note> + Clone) {
        self.warnings.retain(|seen| notes.clone().any(|note| note.code == seen.note.code));
        for note in notes {
            match self.warnings.iter_mut().find(|seen| seen.note.code == note.code) {
                Some(seen) => seen.note = note.clone(),
                None => self.warnings.push(Seen { at_ns, note: note.clone() }),
            }
        }
    }
}

/// A sum that saturates, since a stream may contain any number.
fn sum(all: impl Iterator<Item = u64>) -> u64 {
    all.fold(0, u64::saturating_add)
}

/// (ns, number of times) of each bucket; of very many buckets, neighbours are put together.
fn few(spread: &Decoded) -> Vec<(u64, u64)> {
    let mut counts: Vec<(u64, u64)> = spread.counts().collect();
    let mut bits = BITS;
    while counts.len() > BUCKETS {
        bits -= 1;
        for (ns, _) in &mut counts {
            let cut = (u64::BITS - ns.leading_zeros()).saturating_sub(bits);
            *ns = *ns >> cut << cut;
        }
        counts.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            if same {
                kept.1 = kept.1.saturating_add(next.1);
            }
            same
        });
    }
    counts.shrink_to_fit();
    counts
}

fn figures_of(rtt: &Quantiles) -> Figures {
    Figures { least: rtt.min, values: [rtt.p50, rtt.p90, rtt.p99, rtt.p999, rtt.max], ..Figures::default() }
}

/// The figures of several threads together.
fn merged<'a>(spread: &Decoded, parts: impl Iterator<Item = &'a Quantiles> + Clone) -> Figures {
    let [p50, p90, p99, p999] = [Quantile::P50, Quantile::P90, Quantile::P99, Quantile::P999].map(|q| spread.quantile(q));
    let least = parts.clone().filter_map(|part| part.min).min();
    Figures { least, values: [p50, p90, p99, p999, parts.filter_map(|part| part.max).max()], ..Figures::default() }
}

#[cfg(test)]
mod tests {
    use hairpin_record::histogram::Times;

    use super::*;

    fn buckets(octaves: u64) -> Decoded {
        let mut times = Times::new();
        (0..octaves).for_each(|octave| (1024..2048_u64).for_each(|n| times.record(n << octave)));
        Decoded::decode(&times.encode()).unwrap()
    }

    #[test]
    fn a_row_that_grows_no_more_keeps_few_buckets_and_all_times() {
        let narrow = buckets(3);
        assert!(few(&narrow).into_iter().eq(narrow.counts()), "what is small stays as it is");
        let wide = few(&buckets(25));
        assert!(wide.len() <= BUCKETS && wide.len() > BUCKETS / 2, "{}", wide.len());
        assert_eq!(wide.iter().map(|(_, count)| *count).sum::<u64>(), 25 * 1024);
        assert!(wide.is_sorted());
        let (first, last) = (wide[0].0 as f64, wide[wide.len() - 1].0 as f64);
        let highest = (2047_u64 << 24) as f64;
        assert!((first / 1024.0 - 1.0).abs() < 0.01 && (last / highest - 1.0).abs() < 0.01, "{first} to {last}");
    }
}
