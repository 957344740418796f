//! Measures how long this CPU takes to read 4 bytes of a device, and the cost of a NIC driver's steps.
//!
//! ```text
//!   reads       │settle│start│ read │stop│ settle│start│ read │stop│ …      a block of reads
//!   nothing     │settle│start│stop│ settle│start│stop│ …                     the instrument's own cost: its median is taken off each read
//!               │ reads │ nothing │ reads │ nothing │ …                      in turns, so that a change of the CPU's clock hits both
//! ```
//! The stamps are ordered: a read begins after the first stamp and ends before the second (see [`hairpin_sys::clock`]). A virtual
//! machine's CPU may be preempted in between; such reads are also counted as stalls, and stay in the histogram.

use std::hint::black_box;
use std::sync::atomic::{Ordering, fence};

use hairpin_model::published::{PcieRead, Summary, published};
use hairpin_record::head::{Label, Record};
use hairpin_record::histogram::Times;
use hairpin_record::pcie::{
    Device, Implementation, Primitives, PrimitivesBody, Probe, ProbeBody, Published, PublishedRead, PublishedTable, Reads,
    Stalls, Step,
};
use hairpin_record::run::Origin;
use hairpin_sys::bar::{Bar, CoherentBar, LINE, MapError, MappedBar};
use hairpin_sys::clock::{Clock, settle};
use hairpin_sys::host::Host;
use hairpin_sys::niq::{Layout, Memory, MemoryError, Side};
use hairpin_sys::pci::{self, Address, NoWord, Word};

use hairpin_session::error::Blame;
use hairpin_session::rows;
use hairpin_session::worker::{choose_clock, clock_facts};

/// Default number of reads: a tenth of a second at 1 us each.
pub const READS: u64 = 100_000;
/// A read that takes this much longer than the median of its block counts as a stall.
pub const STALL_NS: u64 = 2_000;
/// Reads per block: about a millisecond.
const BLOCK: usize = 1_000;
/// Pairs of stamps with nothing in between, after each block of reads.
const NOTHING: usize = 255;
/// Cache lines that the steps cycle through: a page.
const LINES: usize = 64;
/// Samples per step.
const SAMPLES: usize = 4_001;
/// Consecutive steps between two stamps.
const ROW: usize = LINES;

/// The word of a device to read, and how often.
#[derive(Clone, Copy, Debug)]
pub struct Ask {
    pub device: Address,
    pub bar: u8,
    /// Offset in the BAR in bytes.
    pub offset: u64,
    /// Number of reads, at least 1.
    pub count: u64,
}

/// The exit code's kind for a refusal.
pub fn blame(refusal: &NoWord) -> Blame {
    match refusal {
        NoWord::NoDevice { .. } | NoWord::NoBar { .. } | NoWord::IoPorts { .. } | NoWord::Offset { .. } => Blame::Usage,
        NoWord::NoPci(_)
        | NoWord::NoFile { .. }
        | NoWord::Denied { .. }
        | NoWord::Forbidden { .. }
        | NoWord::Held { .. }
        | NoWord::Unmappable(_) => Blame::Missing,
        NoWord::Unknown { .. } | NoWord::Refused { .. } => Blame::Failed,
    }
}

/// Maps the word; does not read it yet.
///
/// # Errors
/// The word cannot be mapped.
pub fn open(host: &dyn Host, ask: Ask) -> Result<Word, NoWord> {
    pci::open_word(host, ask.device, ask.bar, ask.offset)
}

/// Reads the word that [`open`] returned for `ask` exactly `ask.count` times, and returns how long each read took.
pub fn probe(host: &dyn Host, ask: Ask, word: &Word, command: &[String]) -> Probe {
    let head = rows::begin::<ProbeBody>(command);
    let clock = choose_clock().0;
    let (clock, reads) = (clock_facts(&clock), reads(&word.page, word.offset, ask.count, &clock));
    let pci::About { vendor, device, driver, link_speed, link_width } = pci::about(host, ask.device);
    Record {
        head,
        body: ProbeBody {
            origin: Origin::Measured,
            clock,
            device: Device { address: ask.device.to_string(), vendor, device, driver, link_speed, link_width },
            bar: ask.bar,
            bar_bytes: word.bar_bytes,
            offset: ask.offset,
            reads,
            published: reference(&published().pcie_read_4b),
        },
    }
}

/// The published table; measures nothing.
pub fn published_table() -> PublishedTable {
    PublishedTable {
        label: Label::of::<PublishedTable>(),
        origin: Origin::Published,
        published: reference(&published().pcie_read_4b),
    }
}

fn reference(read: &PcieRead) -> Published {
    let row = |cpu: &str, times: &Summary| PublishedRead {
        cpu: cpu.into(),
        mean: times.mean,
        stddev: times.stddev,
        min: times.min,
        max: times.max,
    };
    Published {
        label: read.label.to_owned(),
        source: read.source.to_owned(),
        rows: vec![
            row("leaves the line alone", &read.cpu_idle),
            row("reads the line", &read.cpu_read),
            row("writes the line", &read.cpu_write),
        ],
    }
}

/// Reads the 4 bytes at `offset` exactly `count` times.
fn reads<B: Bar, C: Clock>(bar: &B, offset: usize, count: u64, clock: &C) -> Reads {
    let mut times = Times::new();
    let mut block = Vec::with_capacity(BLOCK);
    let mut nothing = Vec::with_capacity(NOTHING);
    let mut costs = Vec::new();
    let (mut first_value, mut and, mut stalls, mut sum_without) = (None, u32::MAX, 0, 0);
    // Warms up the clock's code and the samples' memory before the first read.
    fill(&mut nothing, NOTHING, clock, || ());
    let mut left = count;
    while left > 0 {
        let now = left.min(BLOCK as u64);
        fill(&mut block, now as usize, clock, || {
            let value = bar.read_u32(offset);
            first_value.get_or_insert(value);
            and &= value;
        });
        fill(&mut nothing, NOTHING, clock, || ());
        let cost = median(&mut nothing);
        costs.push(cost);
        block.iter_mut().for_each(|ticks| *ticks = clock.to_ns(ticks.saturating_sub(cost)));
        let stalled = median(&mut block).saturating_add(STALL_NS);
        for ns in &block {
            times.record(*ns);
            if *ns > stalled { stalls += 1 } else { sum_without += ns }
        }
        left -= now;
    }
    let own_cost_ns = if costs.is_empty() { 0.0 } else { tenths(median(&mut costs) as f64 / clock.rate()) };
    let others = count - stalls;
    Reads {
        own_cost_ns,
        read_ns: times.quantiles(),
        histogram: times.encode(),
        stalls: Stalls {
            over_ns: STALL_NS,
            count: stalls,
            share: stalls as f64 / count.max(1) as f64,
            mean_without_ns: (others > 0).then(|| tenths(sum_without as f64 / others as f64)),
        },
        first_value: first_value.unwrap_or_default(),
        all_ones: count > 0 && and == u32::MAX,
    }
}

/// Times `count` runs of `what`, in ticks.
#[inline(always)]
fn fill<C: Clock>(into: &mut Vec<u64>, count: usize, clock: &C, mut what: impl FnMut()) {
    into.clear();
    for _ in 0..count {
        settle();
        let began = clock.start();
        what();
        into.push(clock.stop().since(began));
    }
}

/// Why the steps of a NIC driver cannot be measured.
#[derive(Debug, thiserror::Error)]
pub enum PrimitivesError {
    /// No memory for the code of the mapped BAR, or it is for another CPU.
    #[error(transparent)]
    Mapped(#[from] MapError),
    /// No coherent memory.
    #[error(transparent)]
    Coherent(#[from] MemoryError),
}

/// Measures the steps of a NIC driver on this CPU, over ordinary memory.
///
/// # Errors
/// See [`PrimitivesError`].
pub fn primitives(command: &[String]) -> Result<Primitives, PrimitivesError> {
    let head = rows::begin::<PrimitivesBody>(command);
    let shared = Memory::create(&Layout { queues: 1, entries: LINES as u32, longest: 60, timed: false })?;
    let [lane, _] = shared.lanes(Side::Creator, 0);
    let (coherent, mapped) = (lane.bar(), MappedBar::over_memory(LINES)?);
    let clock = choose_clock().0;
    let (clock, implementations) = (clock_facts(&clock), implementations(&coherent, &mapped, &clock));
    Ok(Record { head, body: PrimitivesBody { origin: Origin::Measured, clock, implementations } })
}

fn implementations<C: Clock>(coherent: &CoherentBar, mapped: &MappedBar, clock: &C) -> Vec<Implementation> {
    vec![
        Implementation {
            name: "coherent".into(),
            about: "plain stores and loads of memory that both sides' caches keep coherent, here in this core's cache".into(),
            steps: steps(coherent, clock),
        },
        Implementation {
            name: "mapped".into(),
            about:
                "a mapped BAR's code: streaming stores, sfence, and clflush with mfence before a load; the line comes from memory"
                    .into(),
            steps: steps(mapped, clock),
        },
    ]
}

/// Measures each step of the trait, alone and in a row.
fn steps<B: Bar, C: Clock>(bar: &B, clock: &C) -> Vec<Step> {
    let bytes = [0x5A; LINE];
    let mut into = [0; LINE];
    let step = |name: &str, alone_ns: f64, in_a_row_ns: Option<f64>| Step { name: name.into(), alone_ns, in_a_row_ns };
    let write = |at: usize| bar.write_line(at % LINES, black_box(&bytes));
    let write_and_flush = |at: usize| {
        write(at);
        bar.flush();
    };
    let read_u32 = |at: usize| _ = black_box(bar.read_u32(at % LINES * LINE));
    let mut read_line = |at: usize| {
        bar.read_line(at % LINES, &mut into);
        black_box(&into);
    };
    vec![
        step("write line", cost(clock, |_| (), 1, write), Some(cost(clock, |_| (), ROW, write))),
        // Without a write before it, a flush has nothing to wait for.
        step("flush", cost(clock, write, 1, |_| bar.flush()), None),
        step("write line, flush", cost(clock, |_| (), 1, write_and_flush), Some(cost(clock, |_| (), ROW, write_and_flush))),
        step("read line anew", cost(clock, |_| (), 1, &mut read_line), Some(cost(clock, |_| (), ROW, &mut read_line))),
        step("read 4 bytes", cost(clock, |_| (), 1, read_u32), Some(cost(clock, |_| (), ROW, read_u32))),
    ]
}

/// The median cost of `what` in ns, over `row` consecutive runs after each `before`, which is not timed. Stores of the previous
/// sample have left the CPU by then.
fn cost<C: Clock>(clock: &C, mut before: impl FnMut(usize), row: usize, mut what: impl FnMut(usize)) -> f64 {
    let mut took = Vec::with_capacity(SAMPLES);
    let mut nothing = Vec::with_capacity(SAMPLES);
    for sample in 0..SAMPLES {
        fence(Ordering::SeqCst);
        before(sample);
        took.push(between(clock, || (sample..sample + row).for_each(&mut what)));
        fence(Ordering::SeqCst);
        nothing.push(between(clock, || ()));
    }
    let ticks = median(&mut took).saturating_sub(median(&mut nothing));
    tenths(ticks as f64 / clock.rate() / row as f64)
}

/// Ticks until the CPU has completed `what`.
#[inline(always)]
fn between<C: Clock>(clock: &C, what: impl FnOnce()) -> u64 {
    settle();
    let began = clock.start();
    what();
    settle();
    clock.stop().since(began)
}

fn median(ticks: &mut [u64]) -> u64 {
    let middle = ticks.len() / 2;
    *ticks.select_nth_unstable(middle).1
}

fn tenths(x: f64) -> f64 {
    (x * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::collections::hash_map::RandomState;
    use std::hash::{BuildHasher, Hasher};
    use std::io::{self, Write};
    use std::time::{Duration, Instant};

    use hairpin_record::histogram::Decoded;
    use hairpin_sys::clock::{AnyClock, FakeClock};
    use hairpin_sys::host::FakeHost;

    use super::*;

    /// A BAR whose every read calls the closure and returns its value.
    struct Emulated<F>(F);

    impl<F: Fn(usize) -> u32> Bar for Emulated<F> {
        fn write_line(&self, _: usize, _: &[u8; LINE]) {
            panic!("a probe writes nothing");
        }

        fn flush(&self) {
            panic!("a probe writes nothing");
        }

        fn read_line(&self, _: usize, _: &mut [u8; LINE]) {
            panic!("a probe reads 4 bytes only");
        }

        fn read_u32(&self, offset: usize) -> u32 {
            self.0(offset)
        }
    }

    /// A device that waits for `ns` on another clock (std's) than the one that measures it, and records the wait by that clock.
    fn wait(ns: u64, said: &RefCell<Vec<u64>>) -> u32 {
        let began = Instant::now();
        while (began.elapsed().as_nanos() as u64) < ns {}
        // The CPU mispredicts the end of the loop; a clock reading after it includes that cost in the recorded wait.
        let waited = began.elapsed().as_nanos() as u64;
        said.borrow_mut().push(waited);
        7
    }

    /// Overhead of one emulated read in ns: measured total minus the recorded wait, both by the device's clock; the median over
    /// rows of reads.
    fn beyond_ns() -> f64 {
        const ROW: u32 = 100;
        let said = RefCell::new(Vec::with_capacity(ROW as usize));
        let row = || {
            said.borrow_mut().clear();
            let began = Instant::now();
            (0..ROW).for_each(|_| _ = black_box(wait(0, &said)));
            let whole = began.elapsed().as_nanos() as u64;
            (whole - said.borrow().iter().sum::<u64>()) as f64 / f64::from(ROW)
        };
        let mut rows: Vec<f64> = (0..101).map(|_| row()).collect();
        rows.sort_by(f64::total_cmp);
        rows[50]
    }

    /// The injected latency by the device's clock, and the reported one.
    fn injected_and_reported<C: Clock>(clock: &C, latency_ns: u64) -> (f64, f64) {
        let said = RefCell::new(Vec::with_capacity(4_001));
        let device = Emulated(|_| wait(latency_ns, &said));
        let beyond = beyond_ns();
        let found = reads(&device, 0, 4_001, clock);
        (median(&mut said.borrow_mut()) as f64 + beyond, found.read_ns.p50.unwrap() as f64)
    }

    /// Ten new random latencies between 100 ns and 3 us each time. The injected wait, the reading and the clock's own cost are
    /// each the median of whole steps of the clock (10 ns on many CPUs), so up to half a step off. Neighbours of a virtual
    /// machine may change the speed of its CPU in the middle of a block, which no figure can tell from a longer read: of up to
    /// twenty blocks per latency, over 2 s, one must be right.
    #[test]
    fn injected_latencies_are_reported_within_10_ns_and_the_step_of_the_clock() {
        let AnyClock::Tsc(clock) = choose_clock().0 else {
            // CLOCK_MONOTONIC_RAW is not independent of the device's clock, and its step may be more than 10 ns. The message is
            // written past the test harness, which hides the output of passed tests.
            let _ = writeln!(io::stderr(), "injected latencies: SKIPPED: no counter to be trusted");
            assert!(std::env::var("HAIRPIN_MUST_RUN").as_deref() != Ok("1"), "no counter to be trusted");
            return;
        };
        let bound = 10.0 + 1.5 * clock.step() as f64 / clock.rate();
        for n in 0..10 {
            let mut random = RandomState::new().build_hasher();
            random.write_u8(n);
            let latency = 100 + random.finish() % 2_900;
            let mut tries = Vec::new();
            let right = (0..20).any(|at| {
                // A neighbour stays for a while.
                std::thread::sleep(Duration::from_millis(if at < 5 { 0 } else { 130 }));
                let (injected, reported) = injected_and_reported(&clock, latency);
                tries.push((injected, reported));
                (reported - injected).abs() <= bound
            });
            eprintln!("{latency} ns: (injected, reported) {tries:.1?}");
            assert!(right, "{latency} ns, bound {bound:.1} ns: (injected, reported) {tries:.1?}");
        }
    }

    #[test]
    fn reports_known_read_times_exactly() {
        let clock = FakeClock::stepping(20);
        let calls = Cell::new(0u64);
        // Every hundredth read stalls.
        let device = Emulated(|offset| {
            assert_eq!(offset, 0x10);
            calls.set(calls.get() + 1);
            clock.advance(if calls.get().is_multiple_of(100) { 12_000 } else { 800 + calls.get() % 2 });
            0xABCD_0000 + calls.get() as u32
        });
        let found = reads(&device, 0x10, 10_500, &clock);
        assert_eq!(calls.get(), 10_500, "not one read more than was asked for");
        assert_eq!(found.own_cost_ns, 20.0);
        let times = &found.read_ns;
        assert_eq!((times.count, times.min, times.max), (10_500, Some(800), Some(12_000)));
        assert_eq!((times.p50, times.p90, times.p999.is_some()), (Some(801), Some(801), true));
        let mean = (105.0 * 12_000.0 + 5_250.0 * 801.0 + 5_145.0 * 800.0) / 10_500.0;
        assert_eq!(times.mean, Some(tenths(mean)));
        assert_eq!((found.stalls.count, found.stalls.share, found.stalls.over_ns), (105, 0.01, 2_000));
        assert_eq!(found.stalls.mean_without_ns, Some(800.5));
        assert_eq!(Decoded::decode(&found.histogram).unwrap().count(), 10_500);
        assert_eq!((found.first_value, found.all_ones), (0xABCD_0001, false));
    }

    #[test]
    fn few_reads_have_few_quantiles_and_reads_of_all_ones_are_noticed() {
        let clock = FakeClock::stepping(20);
        let device = Emulated(|_| {
            clock.advance(5);
            u32::MAX
        });
        let found = reads(&device, 0, 999, &clock);
        assert_eq!(found.read_ns.p90, Some(5));
        assert_eq!((found.read_ns.p99, found.read_ns.p999), (None, None));
        assert!(found.all_ones);
        let one = reads(&Emulated(|_| 0), 0, 1, &clock);
        assert_eq!((one.read_ns.count, one.read_ns.p50, one.read_ns.max), (1, None, Some(0)));
    }

    const DEVICE: &str = "/sys/bus/pci/devices/0000:3b:00.0";

    fn host(directory: &tempfile::TempDir) -> FakeHost {
        FakeHost::at(directory.path())
            .with(&format!("{DEVICE}/resource"), "0xf7000000 0xf7000fff 0x40200\n0x3000 0x301f 0x40101\n")
            .with(&format!("{DEVICE}/resource0"), [[0x11; 8], [0x22; 8]].concat().repeat(256))
            .with(&format!("{DEVICE}/vendor"), "0x8086\n")
    }

    fn ask(device: &str, bar: u8, offset: u64) -> Ask {
        Ask { device: device.parse().unwrap(), bar, offset, count: 2_000 }
    }

    /// The whole way except for the device: a file stands for the BAR.
    #[test]
    fn a_file_for_a_bar_is_probed() {
        let directory = tempfile::tempdir().unwrap();
        let (host, ask) = (host(&directory), ask("3b:00.0", 0, 8));
        let found = probe(&host, ask, &open(&host, ask).unwrap(), &[]);
        assert_eq!((found.head.schema.as_str(), found.origin), ("hairpin.floor-pcie/1", Origin::Measured));
        assert_eq!((found.device.address.as_str(), found.device.vendor.as_deref()), ("0000:3b:00.0", Some("0x8086")));
        assert_eq!((found.bar, found.bar_bytes, found.offset), (0, 4096, 8));
        assert_eq!((found.reads.read_ns.count, found.reads.first_value), (2_000, 0x2222_2222));
        assert!(found.clock.cost_ns > 0.0);
        let means: Vec<f64> = found.published.rows.iter().map(|row| row.mean).collect();
        assert_eq!(means, [768.0, 768.0, 756.0]);
        assert_eq!(found.published.label, "read by the device of host memory (initiator inferred)");
    }

    #[test]
    fn refusals_ask_the_right_thing_of_the_user() {
        let directory = tempfile::tempdir().unwrap();
        let refused = |host: &FakeHost, ask| blame(&open(host, ask).unwrap_err());
        let sound = host(&directory);
        for ask in
            [ask("3b:00.1", 0, 0), ask("3b:00.0", 2, 0), ask("3b:00.0", 1, 0), ask("3b:00.0", 0, 4096), ask("3b:00.0", 0, 2)]
        {
            assert_eq!(refused(&sound, ask), Blame::Usage, "{ask:?}");
        }
        let resource0 = format!("{DEVICE}/resource0");
        let [eperm, eacces, einval, enodev] = [1, 13, 22, 19].map(|errno| sound.clone().with_error(&resource0, errno));
        for host in [eperm, eacces, einval, FakeHost::at("/nonexistent")] {
            assert_eq!(refused(&host, ask("3b:00.0", 0, 0)), Blame::Missing, "{host:?}");
        }
        assert_eq!(refused(&enodev, ask("3b:00.0", 0, 0)), Blame::Failed);
    }

    #[test]
    fn every_step_costs_something_measurable() {
        let found = primitives(&[]).unwrap();
        for implementation in &found.implementations {
            let names: Vec<&str> = implementation.steps.iter().map(|step| step.name.as_str()).collect();
            assert_eq!(names, ["write line", "flush", "write line, flush", "read line anew", "read 4 bytes"]);
            eprintln!("{}: {:?}", implementation.name, implementation.steps);
        }
        let [coherent, mapped] = &found.implementations[..] else { panic!("{found:?}") };
        assert_eq!((coherent.name.as_str(), mapped.name.as_str()), ("coherent", "mapped"));
        // A line from memory takes longer than one from the cache, on any CPU.
        assert!(mapped.steps[3].alone_ns > coherent.steps[3].alone_ns + 10.0, "{found:?}");
        assert!(mapped.steps[3].alone_ns > mapped.steps[4].alone_ns + 10.0, "{found:?}");
    }
}
