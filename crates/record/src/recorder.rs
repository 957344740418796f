//! Folds samples into a record's histogram, blocks, series and slowest transactions, in constant memory.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use hairpin_units::{Arrange, Nanos, Quantile};

use crate::histogram::Times;
use crate::run::{Block, Due, Point, Row, Slow};

/// The most blocks and points in a record; an endless run keeps the last ones.
pub const KEPT: usize = 4096;
/// The number of slowest transactions listed.
pub const SLOWEST: usize = 64;
/// The shortest interval of a series.
const FINEST_POINT: Nanos = Nanos::from_millis(100);

/// One transaction, in ns since the start of measuring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Time at which the request was due; equal to `sent_ns` unless the run was paced.
    pub due_ns: u64,
    /// Time at which the send call was entered.
    pub sent_ns: u64,
    /// Send call entered → reply in the buffer.
    pub rtt_ns: u64,
    /// The request's sequence number.
    pub sequence: u32,
    /// The request's flow.
    pub flow: u32,
    /// True if the request was due during a detected stall of the client's core.
    pub stalled: bool,
}

/// Lateness of an open loop's requests: sent - due.
#[derive(Clone, Debug)]
pub struct Lateness {
    /// All requests.
    pub all: Times,
    /// Requests that were not due during a stall of the client's core.
    pub undisturbed: Times,
}

/// A request with a due time that was answered late or never: it has no RTT, but belongs to the distribution from due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waited {
    /// Due → answered, or due → end of the run if it was never answered.
    pub from_due_ns: u64,
    /// Due → sent; `None` if it was never sent.
    pub late_ns: Option<u64>,
    /// True if it was answered in the end.
    pub answered: bool,
    /// True if it was due during a detected stall of the client's core.
    pub stalled: bool,
}

/// Start, length and conditions of a block.
#[derive(Clone, Copy, Debug, Default)]
pub struct BlockFacts {
    /// Start, in ns since measuring began.
    pub at_ns: u64,
    /// Measured length in ns, without the gap behind the block.
    pub length_ns: u64,
    /// Cache-line round trip between the two cores: the larger of the values before and after.
    pub core_rtt_ns: Option<u64>,
    /// True if the two clocks disagreed.
    pub clock_suspect: bool,
}

/// The results of one measuring thread so far.
///
/// A measuring thread collects the [`Sample`]s of a block, folds them in between two blocks, and ends with a row of the record.
/// The memory is allocated at the start and does not grow, however long the run is; an endless run keeps its last [`KEPT`]
/// blocks. All times are in ns since the start of measuring.
///
/// ```
/// use hairpin_record::recorder::{BlockFacts, Recorder, Sample};
/// use hairpin_units::{Nanos, Quantile};
///
/// let mut recorder = Recorder::new(Some(Nanos::from_secs(10)), false, 0, 1);
/// // A block of 1,000 round trips of 5 us, back to back.
/// let samples = (0..1000u32).map(|sequence| {
///     let sent_ns = u64::from(sequence) * 5_000;
///     Sample { due_ns: sent_ns, sent_ns, rtt_ns: 5_000, sequence, ..Sample::default() }
/// });
/// recorder.fold(BlockFacts { at_ns: 0, length_ns: 5_000_000, ..BlockFacts::default() }, samples);
///
/// assert_eq!(recorder.rtt().quantile(Quantile::P99), Some(5_000));
/// assert_eq!(recorder.measured_ns(), 5_000_000);
/// ```
#[derive(Clone, Debug)]
pub struct Recorder {
    rtt: Times,
    from_due: Option<Times>,
    lateness: Option<Box<Lateness>>,
    unanswered: u64,
    unsent: u64,
    left_out: u64,
    wall_ns: u64,
    thread: u32,
    others: Vec<(VecDeque<Block>, VecDeque<Point>)>,
    point_ns: u64,
    point: Times,
    point_at: u64,
    block: Times,
    blocks: VecDeque<Block>,
    series: VecDeque<Point>,
    slowest: BinaryHeap<Reverse<Slow>>,
    measured_ns: u64,
    suspects: u64,
}

impl Recorder {
    /// A recorder for thread number `thread` of `threads`, in a run of `duration` (`None`: endless). With `paced` it also keeps
    /// the distribution from the due time.
    pub fn new(duration: Option<Nanos>, paced: bool, thread: u32, threads: u32) -> Recorder {
        // The threads share the capacity of the series.
        let places = (KEPT / threads.max(1) as usize).max(1) as u64;
        let point_ns = duration.map_or(0, |d| d.0.div_ceil(places)).max(FINEST_POINT.0);
        Recorder {
            rtt: Times::new(),
            from_due: paced.then(Times::new),
            lateness: None,
            unanswered: 0,
            unsent: 0,
            left_out: 0,
            wall_ns: 0,
            thread,
            others: Vec::new(),
            point_ns,
            point: Times::new(),
            point_at: 0,
            block: Times::new(),
            blocks: resident(KEPT),
            series: resident(KEPT),
            slowest: BinaryHeap::with_capacity(SLOWEST + 1),
            measured_ns: 0,
            suspects: 0,
        }
    }

    /// Also keeps each request's lateness.
    pub fn with_lateness(self) -> Recorder {
        let lateness = Lateness { all: Times::new(), undisturbed: Times::new() };
        Recorder { lateness: Some(Box::new(lateness)), ..self }
    }

    /// Folds the samples of one block into the results. Allocates nothing.
    pub fn fold(&mut self, facts: BlockFacts, samples: impl Iterator<Item = Sample>) {
        if facts.at_ns >= self.point_at + self.point_ns {
            self.end_point();
            self.point_at = facts.at_ns;
        }
        self.block.clear();
        for sample in samples {
            self.block.record(sample.rtt_ns);
            if let Some(from_due) = &mut self.from_due {
                from_due.record(sample.rtt_ns + sample.sent_ns.saturating_sub(sample.due_ns));
            }
            if let Some(lateness) = &mut self.lateness {
                let late = sample.sent_ns.saturating_sub(sample.due_ns);
                lateness.all.record(late);
                if !sample.stalled {
                    lateness.undisturbed.record(late);
                }
            }
            let slow = Slow { rtt_ns: sample.rtt_ns, at_ns: sample.sent_ns, sequence: sample.sequence };
            if self.slowest.len() < SLOWEST || self.slowest.peek().is_some_and(|fastest| slow > fastest.0) {
                self.slowest.push(Reverse(slow));
                if self.slowest.len() > SLOWEST {
                    self.slowest.pop();
                }
            }
        }
        self.point.add(&self.block);
        self.rtt.add(&self.block);
        self.measured_ns += facts.length_ns;
        self.suspects += u64::from(facts.clock_suspect);
        let block = Block {
            at_ns: facts.at_ns,
            count: self.block.count(),
            p50: self.block.quantile(Quantile::P50),
            p99: self.block.quantile(Quantile::P99),
            core_rtt_ns: facts.core_rtt_ns,
            p999: self.block.quantile(Quantile::P999),
            duration_ns: Some(facts.length_ns),
            clock_suspect: facts.clock_suspect,
            thread: self.thread,
            interpolated_ns: self.block.interpolated(),
        };
        push_bounded(&mut self.blocks, block);
    }

    /// Adds a request that was answered late or not at all. Allocates nothing.
    pub fn waited(&mut self, waited: Waited) {
        if let Some(from_due) = &mut self.from_due {
            from_due.record(waited.from_due_ns);
        }
        if let (Some(lateness), Some(late_ns)) = (&mut self.lateness, waited.late_ns) {
            lateness.all.record(late_ns);
            if !waited.stalled {
                lateness.undisturbed.record(late_ns);
            }
        }
        match (waited.answered, waited.late_ns) {
            (true, _) => {}
            (false, Some(_)) => self.unanswered += 1,
            (false, None) => self.unsent += 1,
        }
    }

    /// Adds `count` requests that were never sent, `from_due_ns` after they were due. Allocates nothing.
    pub fn unsent(&mut self, from_due_ns: u64, count: u64) {
        if let Some(from_due) = &mut self.from_due {
            from_due.record_n(from_due_ns, count);
        }
        self.unsent += count;
    }

    /// Ends the run: its due times lay within `wall_ns`, and `left_out` more requests would have been due while the instrument
    /// did its own work.
    pub fn close(&mut self, wall_ns: u64, left_out: u64) {
        (self.wall_ns, self.left_out) = (wall_ns, left_out);
    }

    /// The number of requests that were sent and never answered, and of those never sent. Both are in the distribution from due,
    /// with the time that they had waited when the run ended.
    pub fn never(&self) -> (u64, u64) {
        (self.unanswered, self.unsent)
    }

    /// Requests that would have been due while the instrument did its own work.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// The period over which requests were due, including the instrument's own work; 0 without due times.
    pub fn wall_ns(&self) -> u64 {
        self.wall_ns
    }

    /// RTTs so far.
    pub fn rtt(&self) -> &Times {
        &self.rtt
    }

    /// The RTTs from the due time, if requests had due times.
    pub fn from_due(&self) -> Option<&Times> {
        self.from_due.as_ref()
    }

    /// The lateness of requests, if kept.
    pub fn lateness(&self) -> Option<&Lateness> {
        self.lateness.as_deref()
    }

    /// Measured time so far: the sum of the blocks.
    pub fn measured_ns(&self) -> u64 {
        self.measured_ns
    }

    /// The stored blocks in the order measured.
    pub fn blocks(&self) -> impl DoubleEndedIterator<Item = &Block> {
        self.blocks.iter()
    }

    /// Number of blocks over which the clocks disagreed.
    pub fn suspects(&self) -> u64 {
        self.suspects
    }

    /// Adds the results of another thread of the same row; the measured time is that of the longest thread.
    pub fn merge(&mut self, mut other: Recorder) {
        self.end_point();
        other.end_point();
        self.rtt.add(&other.rtt);
        if let (Some(mine), Some(theirs)) = (&mut self.from_due, &other.from_due) {
            mine.add(theirs);
        }
        if let (Some(mine), Some(theirs)) = (&mut self.lateness, &other.lateness) {
            mine.all.add(&theirs.all);
            mine.undisturbed.add(&theirs.undisturbed);
        }
        self.unanswered += other.unanswered;
        self.unsent += other.unsent;
        self.left_out += other.left_out;
        self.wall_ns = self.wall_ns.max(other.wall_ns);
        self.others.push((other.blocks, other.series));
        self.others.append(&mut other.others);
        for slow in other.slowest {
            self.slowest.push(slow);
            if self.slowest.len() > SLOWEST {
                self.slowest.pop();
            }
        }
        self.measured_ns = self.measured_ns.max(other.measured_ns);
        self.suspects += other.suspects;
    }

    /// Writes counts, distributions, blocks, series and slowest transactions into a row. Its other fields, such as the path and
    /// the warnings, stay as they are.
    pub fn finish(mut self, row: &mut Row) {
        self.end_point();
        row.transactions = self.rtt.count();
        row.duration_ns = self.measured_ns;
        row.transactions_per_s =
            if self.measured_ns == 0 { 0.0 } else { row.transactions as f64 / Nanos(self.measured_ns).as_secs_f64() };
        row.rtt_ns = self.rtt.quantiles();
        row.rtt_from_due_ns = self.from_due.as_ref().map(Times::quantiles);
        row.histogram = self.rtt.encode();
        row.histogram_from_due = self.from_due.as_ref().map(Times::encode);
        row.due = self.from_due.as_ref().map(|from_due| {
            // Late requests were answered too.
            let answered = from_due.count() - self.unanswered - self.unsent;
            Due {
                requests: from_due.count(),
                unsent: self.unsent,
                unanswered: self.unanswered,
                left_out: self.left_out,
                wall_ns: self.wall_ns,
                answered_per_s: if self.wall_ns == 0 { 0.0 } else { answered as f64 / Nanos(self.wall_ns).as_secs_f64() },
            }
        });
        let share = KEPT / (self.others.len() + 1);
        row.blocks = thinned(self.blocks, share);
        row.series = thinned(self.series, share);
        for (blocks, series) in self.others {
            row.blocks.extend(thinned(blocks, share));
            row.series.extend(thinned(series, share));
        }
        row.blocks.arrange_by_key(|block| (block.at_ns, block.thread));
        row.series.arrange_by_key(|point| (point.at_ns, point.thread));
        // `into_sorted_vec` sorts in ascending order; the entries' order is reversed, so the slowest comes first.
        row.slowest = self.slowest.into_sorted_vec().into_iter().map(|slow| slow.0).collect();
    }

    #[inline]
    fn end_point(&mut self) {
        if self.point.count() == 0 {
            return;
        }
        let point = Point {
            at_ns: self.point_at,
            count: self.point.count(),
            p50: self.point.quantile(Quantile::P50),
            p99: self.point.quantile(Quantile::P99),
            max: self.point.max(),
            thread: self.thread,
        };
        push_bounded(&mut self.series, point);
        self.point.clear();
    }
}

/// At most `most` of the items, evenly spread.
fn thinned<T>(items: VecDeque<T>, most: usize) -> Vec<T> {
    let count = items.len();
    let is_kept = |at: usize| count <= most || (at + 1) * most / count > at * most / count;
    items.into_iter().enumerate().filter(|(at, _)| is_kept(*at)).map(|(_, item)| item).collect()
}

/// An empty list with room for `places`, whose pages are in memory from the start: a long run would take them one by one.
fn resident<T: Clone + Default>(places: usize) -> VecDeque<T> {
    let mut list = VecDeque::from(vec![T::default(); places]);
    list.clear();
    list
}

fn push_bounded<T>(kept: &mut VecDeque<T>, item: T) {
    if kept.len() == KEPT {
        kept.pop_front();
    }
    kept.push_back(item);
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::io::{Read, Seek, SeekFrom};

    use super::*;

    fn sample(sequence: u32, sent_ns: u64, rtt_ns: u64) -> Sample {
        Sample { due_ns: sent_ns, sent_ns, rtt_ns, sequence, ..Sample::default() }
    }

    /// Pages of this memory, and those that are present (the top bit of an entry of /proc/self/pagemap;
    /// Documentation/admin-guide/mm/pagemap.rst).
    fn pages(address: usize, bytes: usize) -> (usize, usize) {
        let maps = fs::read_to_string("/proc/self/smaps").unwrap();
        let kib =
            maps.lines().find_map(|line| line.strip_prefix("KernelPageSize:")?.trim().strip_suffix(" kB")?.parse::<usize>().ok());
        let page = 1024 * kib.expect("the size of a page");
        let (mut pagemap, mut entry) = (File::open("/proc/self/pagemap").unwrap(), [0; 8]);
        let mut is_present = |at: usize| {
            pagemap.seek(SeekFrom::Start(8 * at as u64)).unwrap();
            pagemap.read_exact(&mut entry).unwrap();
            u64::from_ne_bytes(entry) >> 63 == 1
        };
        let all = address / page..(address + bytes) / page;
        (all.len(), all.filter(|at| is_present(*at)).count())
    }

    #[test]
    fn its_lists_take_no_memory_later() {
        let mut recorder = Recorder::new(None, false, 0, 1);
        recorder.fold(block(0), std::iter::empty());
        let first = std::ptr::from_ref(recorder.blocks.front().unwrap()).addr();
        let (all, present) = pages(first, KEPT * size_of::<Block>());
        assert_eq!(present, all);
    }

    fn block(at_ms: u64) -> BlockFacts {
        BlockFacts { at_ns: at_ms * 1_000_000, length_ns: 90_000_000, core_rtt_ns: Some(120), clock_suspect: false }
    }

    #[test]
    fn rate_is_transactions_over_measured_time_without_gaps() {
        let mut recorder = Recorder::new(Some(Nanos::from_secs(1)), false, 0, 1);
        for i in 0..10 {
            recorder.fold(block(i * 100), (0..900).map(|n| sample(n, 0, 1000 + u64::from(n))));
        }
        let mut row = Row::default();
        recorder.finish(&mut row);
        assert_eq!((row.transactions, row.duration_ns, row.transactions_per_s), (9000, 900_000_000, 10_000.0));
        assert_eq!((row.blocks.len(), row.series.len(), row.slowest.len()), (10, 10, SLOWEST));
        assert_eq!(row.slowest[0].rtt_ns, 1899);
        assert!(row.slowest.is_sorted_by(|a, b| a.rtt_ns >= b.rtt_ns));
        assert_eq!(row.blocks[3].p50, Some(1449));
        assert_eq!(row.blocks[3].p99, None, "900 samples leave nine beyond p99");
    }

    #[test]
    fn memory_stays_constant() {
        let mut recorder = Recorder::new(None, false, 0, 1);
        let blocks = KEPT as u64 + 100;
        for i in 0..blocks {
            recorder.fold(block(i * 100), (0..20).map(|n| sample(n, i, i + 1)));
        }
        let mut row = Row::default();
        recorder.finish(&mut row);
        assert_eq!((row.blocks.len(), row.series.len(), row.slowest.len()), (KEPT, KEPT, SLOWEST));
        assert_eq!(row.transactions, 20 * blocks, "what falls off the series still counts");
    }

    #[test]
    fn due_time_counts_from_when_the_request_should_have_left() {
        let mut recorder = Recorder::new(None, true, 0, 1);
        let late = Sample { due_ns: 1_000, sent_ns: 6_000, rtt_ns: 2_000, ..Sample::default() };
        recorder.fold(block(0), std::iter::repeat_n(late, 20));
        let mut row = Row::default();
        recorder.finish(&mut row);
        assert_eq!(row.rtt_ns.max, Some(2_000));
        assert_eq!(row.rtt_from_due_ns.unwrap().max, Some(7_000));
    }

    #[test]
    fn lateness_is_kept_of_all_and_of_those_that_no_stall_made_late() {
        let mut recorder = Recorder::new(None, true, 0, 1).with_lateness();
        let late = |ns: u64, stalled| Sample { due_ns: 1_000, sent_ns: 1_000 + ns, stalled, ..Sample::default() };
        recorder.fold(block(0), std::iter::repeat_n(late(50, false), 100).chain([late(9_000, true)]));
        let found = recorder.lateness().unwrap();
        assert_eq!((found.all.count(), found.all.max()), (101, 9_000));
        assert_eq!((found.undisturbed.count(), found.undisturbed.max()), (100, 50));
    }

    #[test]
    fn overdue_requests_count_only_from_due() {
        let mut recorder = Recorder::new(None, true, 0, 1).with_lateness();
        recorder.waited(Waited { from_due_ns: 9_000, late_ns: Some(70), answered: true, stalled: false });
        recorder.waited(Waited { from_due_ns: 8_000, late_ns: Some(80), answered: false, stalled: true });
        recorder.waited(Waited { from_due_ns: 7_000, late_ns: None, answered: false, stalled: false });
        recorder.unsent(6_000, 5);
        assert_eq!((recorder.never(), recorder.rtt().count(), recorder.from_due().unwrap().count()), ((1, 6), 0, 8));
        let lateness = recorder.lateness().unwrap();
        assert_eq!((lateness.all.count(), lateness.all.max()), (2, 80), "six were never sent");
        assert_eq!((lateness.undisturbed.count(), lateness.undisturbed.max()), (1, 70), "a stall made the other one late");
    }

    #[test]
    fn a_long_run_of_several_threads_keeps_the_course_of_each() {
        let threads = 3;
        let mut recorders: Vec<Recorder> =
            (0..threads).map(|thread| Recorder::new(Some(Nanos::from_secs(600)), false, thread, threads)).collect();
        for recorder in &mut recorders {
            (0..2_150).for_each(|i| recorder.fold(block(i * 280), (0..20).map(|n| sample(n, i, i + 1))));
        }
        let mut all = recorders.remove(0);
        recorders.into_iter().for_each(|one| all.merge(one));
        let mut row = Row::default();
        all.finish(&mut row);
        for thread in 0..threads {
            let blocks: Vec<u64> = row.blocks.iter().filter(|block| block.thread == thread).map(|block| block.at_ns).collect();
            let points: Vec<u64> = row.series.iter().filter(|point| point.thread == thread).map(|point| point.at_ns).collect();
            assert_eq!(blocks.len(), KEPT / 3, "thread {thread}");
            assert!(blocks.windows(2).all(|pair| pair[1] - pair[0] <= 560_000_000), "evenly spread");
            assert!((1_000..=KEPT / 3).contains(&points.len()), "{}", points.len());
            assert!(points[0] == 0 && points[points.len() - 1] > 599_000_000_000, "from the beginning to the end");
        }
        assert!(row.blocks.is_sorted_by_key(|block| block.at_ns));
    }

    #[test]
    fn threads_merge_from_histograms() {
        let mut one = Recorder::new(None, false, 0, 1);
        let mut two = Recorder::new(None, false, 1, 1);
        one.fold(block(0), (0..100).map(|n| sample(n, 0, 10)));
        two.fold(block(0), (0..100).map(|n| sample(n, 0, 30)));
        one.merge(two);
        let mut row = Row::default();
        one.finish(&mut row);
        assert_eq!((row.transactions, row.duration_ns), (200, 90_000_000));
        assert_eq!((row.rtt_ns.min, row.rtt_ns.max), (Some(10), Some(30)));
        assert_eq!(row.series.len(), 2);
    }
}
