//! `make bench-caught`: what `ping --explain-above` takes of a round trip, and whether it names who made one slow.
//!
//! ```text
//!   cost     p50 with --explain-above (a limit that nothing is above) over p50 without, and over that of round trips under `explain --light`:
//!            pairs of runs by turns, by the method of `hairpin compare`, on cores that are held out of idle states; each distance of the cores by itself.
//!            The first block, which has no hooks, counts as faster than the median
//!   naming   a competitor wakes every 7 s for 2 ms on the client's core, then on the server's: named in at least 95 % of the incidents that it causes
//!   memory   of the verb's process and its workers in the middle of that run, and at its end
//! ```
//! Exit codes: 0 the bounds are met, 1 failed, 3 one is missed or unclear.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use clap::Args;
use hairpin_lab::experiment::outside::{Block, Until};
use hairpin_record::explain::Explain;
use hairpin_record::histogram::Decoded;
use hairpin_record::run::{Quantiles, Run};
use hairpin_units::{Nanos, Quantile};
use serde_json::json;

mod competitor;

use self::competitor::{Judged, judge, wakes};
use super::awake::{are_awake, held_awake};
use super::bound::{Limit, Word, of_count, share_text};
use super::children::{self, pinned};
use super::hairpin::{Tool, cores, measure};
use super::pairs::{Flags, Pairs, table};
use super::record::{Stop, publish, write};

const PATHS: [&str; 3] = ["udp:spin", "udp:block", "tcp:block"];
/// A limit that no round trip is above.
const NEVER: &str = "1h";
/// `explain` takes at least this long, a quarter of it with the hooks of `--light`.
const LIGHT: Nanos = Nanos(600_000_000);
/// The width of the interval of a cell with a bound: a hook is a fraction of a per cent.
const WIDEST: f64 = 0.006;
/// The longest time of such a cell, for each pair of a cell without a bound.
const FOR_EACH: Duration = Duration::from_secs(15);
/// Share of the incidents that must name the competitor.
const NAMED: Limit = Limit::AtLeast(0.95);
/// Growth of a process in KiB that does not count: the kernel counts in batches of pages for each core.
const GROWTH_KIB: i64 = 256;
/// Looks at the memory, of which the least counts, and the time before each.
const LOOKS: u32 = 5;
const BETWEEN: Duration = Duration::from_millis(50);
/// Time between two looks whether a run has ended.
const LOOK: Duration = Duration::from_secs(1);

/// Options of the benchmark, after `cargo bench --package hairpin-cli --bench bench -- caught`.
#[derive(Args)]
pub(crate) struct Options {
    /// Pairs of each cell without a bound; one with a bound takes as many as make its interval narrow, for at most 15 s times
    /// this; 0 leaves the cost out
    #[arg(long, default_value_t = 32)]
    pairs: usize,
    /// Paths whose cost is measured, separated by commas
    #[arg(long, value_delimiter = ',', default_values = PATHS)]
    paths: Vec<String>,
    /// Time of each run beside a competitor, in s; 0 leaves naming and memory out
    #[arg(long, default_value_t = 600)]
    seconds: u64,
    /// Time between two wake-ups of the competitor, in ms
    #[arg(long, default_value_t = 7_000)]
    every_ms: u64,
    /// Its work, in us
    #[arg(long, default_value_t = 2_000)]
    busy_us: u64,
    /// The path beside it
    #[arg(long, default_value = "udp:spin")]
    path: String,
    /// Be the competitor
    #[arg(long, hide = true)]
    wakes: bool,
    #[command(flatten)]
    flags: Flags,
}

/// Measures; true if a bound is missed.
pub(crate) fn bench(options: &Options) -> Result<bool, Stop> {
    let (every, busy) = (Duration::from_millis(options.every_ms), Duration::from_micros(options.busy_us));
    if options.wakes {
        return wakes(Duration::ZERO, every, busy).map(|()| false).map_err(|error| error.to_string().into());
    }
    let directory = options.flags.record.directory("caught", options.pairs > 0 && options.seconds > 0)?;
    let tool = Tool { program: options.flags.record.hairpin.clone(), cpus: Some([0, 1]) };
    // Journals of earlier versions have pairs whose p50 counts the first block.
    let programs = format!("{} without the first block", tool.build()?);
    let mut pairs = Pairs::open(&options.flags, &directory, &programs, Until::Pairs(options.pairs))?;
    let file = directory.join("cost.jsonl");
    let mut text = String::new();
    if options.pairs > 0 {
        // The way out of an idle state is most of a blocking round trip, and would hide what the hooks take.
        let _awake = held_awake()?;
        for path in &options.paths {
            let narrow = Until::Width(WIDEST, FOR_EACH * options.pairs as u32);
            let cells = [("plain", Limit::None, Until::Pairs(options.pairs)), ("--light", Limit::AtMost(1.0), narrow)];
            for (beside, limit, until) in cells {
                pairs.until = until;
                pairs.measure(&format!("{path} / {beside}"), limit, &mut |arm, length, warmup| match (arm, beside) {
                    (1, _) => caught(&tool, path, length.max(LIGHT), warmup, &file),
                    (_, "plain") => {
                        Block::of_row(&measure(&mut tool.ping("loopback", path, 64, length.max(LIGHT), warmup))?.results[0])
                    }
                    _ => {
                        let mut distance = tool.distance()?;
                        let rtt = light(&tool, path)?;
                        distance.extend(tool.distance()?);
                        let p50 = rtt.p50.ok_or("too few round trips for a median")?;
                        Ok(Block::of_median(p50 as f64, rtt.count, [0, 1]).with_cores(distance))
                    }
                })?;
            }
        }
        text = table(&pairs.lines, ["caught", "other"]) + are_awake() + "\n";
    }
    let mut missed = pairs.missed();
    let mut naming = Vec::new();
    for side in [0, 1].into_iter().filter(|_| options.seconds > 0) {
        let found = beside_competitor(options, &tool, side, &directory);
        // Ctrl-C ends that run early.
        pairs.check()?;
        let found = found?;
        let Judged { wakes, caused, named, first, all } = found.judged;
        let word = of_count(named, caused).map_or(Word::None, |of| NAMED.judged(of.low, of.high));
        let memory = if found.grown_kib > GROWTH_KIB { Word::Miss } else { Word::Ok };
        missed |= word.missed() || memory.missed();
        let core = ["client", "server"][side as usize];
        let _ = writeln!(
            text,
            "{} beside a competitor on the {core}'s core, {} s: {wakes} wake-ups, {all} incidents\n  \
             {}\n  memory {:+} KiB (bound {GROWTH_KIB}) {memory}",
            options.path,
            options.seconds,
            naming_text(found.judged, word),
            found.grown_kib
        );
        naming.push(json!({ "side": core, "wakes": wakes, "caused": caused, "named": named, "first": first, "all": all, "mark": word.to_string(), "grown_kib": found.grown_kib, "rss_kib": found.rss_kib }));
    }
    let record =
        json!({ "schema": "hairpin.bench-caught/1", "naming": naming, "every_ms": options.every_ms, "busy_us": options.busy_us });
    pairs.finish(&directory, "caught", &text, record)?;
    Ok(missed)
}

/// A run with the hooks of `--explain-above`, which its first block does not have.
fn caught(tool: &Tool, path: &str, length: Nanos, warmup: Nanos, file: &Path) -> Result<Block, String> {
    let mut command = tool.ping("loopback", path, 64, length, warmup);
    let run = measure(command.args(["--explain-above", NEVER, "--incidents"]).arg(file))?;
    let row = &run.results[0];
    let times = Decoded::decode(&row.histogram).map_err(|error| error.to_string())?;
    let without = row.blocks.first().map_or(0, |block| block.count);
    let p50 = with_hooks(&times, without).ok_or("too few round trips for a median")?;
    Ok(Block::of_median(p50 as f64, times.count().saturating_sub(without), [0, 1]).with_cores(cores(row)))
}

/// The median in ns of the round trips with hooks: of all, less the first `without`, which count as faster than it. Where some of
/// those were slower, the true median is a little lower. `None` if nothing is left.
fn with_hooks(times: &Decoded, without: u64) -> Option<u64> {
    let all = times.count() as f64;
    times.quantile(Quantile::new((all + without as f64) / (2.0 * all))?)
}

/// Round trips under the hooks of `explain --light`.
fn light(tool: &Tool, path: &str) -> Result<Quantiles, String> {
    let mut command = Command::new(&tool.program);
    command.args(["explain", "loopback", "--light", "--path", path, "--cpu", "0,1", "--json", "--no-store", "--warmup", "50ms"]);
    let text = children::run(command.args(["--duration", "1200ms"]), Duration::from_secs(30))?;
    let mut found: Explain = serde_json::from_str(&text).map_err(|e| format!("hairpin's JSON: {e}"))?;
    Ok(found.body.results.pop().ok_or("no result")?.rtt_ns)
}

/// How many incidents name the competitor. The word stands last, where `make figures` looks for it.
fn naming_text(Judged { caused, named, first, .. }: Judged, word: Word) -> String {
    let share = share_text(named, caused);
    format!("{share} of those by it name it (95 % interval), {first} as the first cause; bound {}: {word}", NAMED.text())
}

struct Beside {
    judged: Judged,
    grown_kib: i64,
    rss_kib: Vec<i64>,
}

/// A run beside a competitor on the core of that side.
fn beside_competitor(options: &Options, tool: &Tool, side: u32, directory: &Path) -> Result<Beside, Stop> {
    let file = directory.join(format!("incidents-{side}.jsonl"));
    let (told, result) = (directory.join(format!("wakes-{side}.txt")), directory.join(format!("run-{side}.json")));
    let io = |error: std::io::Error| error.to_string();
    let this = std::env::current_exe().map_err(io)?;
    let mut command = pinned(None, side, &this.to_string_lossy());
    command.args(["caught", "--wakes", "--every-ms", &options.every_ms.to_string(), "--busy-us", &options.busy_us.to_string()]);
    let mut competitor = command.stdin(Stdio::null()).stdout(File::create(&told).map_err(io)?).spawn().map_err(io)?;
    let mut command = tool.ping("loopback", &options.path, 64, Nanos::from_secs(options.seconds), Nanos::from_millis(500));
    command.args(["--explain-above", "500us", "--incidents-rate", "1000", "--incidents"]).arg(&file);
    let mut run = command.stdin(Stdio::null()).stdout(File::create(&result).map_err(io)?).spawn().map_err(io)?;
    let mut rss_kib: Vec<i64> = Vec::new();
    // The first half is for what is made once: the lists of blocks and of the series are full by then, and each kind of incident
    // has been explained.
    let every = Duration::from_secs_f64(options.seconds as f64 / 10.0).saturating_sub(BETWEEN * LOOKS);
    let ended = loop {
        match ended_within(&mut run, every).map_err(io)? {
            Some(ended) => break ended,
            None => rss_kib.push(at_rest_kib(run.id())),
        }
    };
    let pid = competitor.id();
    competitor.kill().and_then(|()| competitor.wait()).map_err(io)?;
    if !ended.success() {
        return Err(format!("hairpin ended with {ended}").into());
    }
    let read = |path: &Path| fs::read_to_string(path).map_err(io);
    let incidents = read(&file)?;
    let (judged, caused) = judge(&incidents, &read(&told)?, pid, Duration::from_micros(options.busy_us));
    // The record keeps the incidents that are judged, and the run without its lists and the host's private facts.
    write(&file, &caused.into_iter().flat_map(|line| [line, "\n"]).collect::<String>())?;
    let unreadable = |error: serde_json::Error| format!("{}: {error}", result.display());
    let mut run: Run = serde_json::from_str(&read(&result)?).map_err(unreadable)?;
    publish(&mut run.body.place.hosts, &mut run.head.command);
    let mut run = serde_json::to_value(run).map_err(unreadable)?;
    if let Some(row) = run["results"][0].as_object_mut() {
        row.retain(|name, _| !["blocks", "series", "slowest"].contains(&name.as_str()));
    }
    write(&result, &format!("{run}\n"))?;
    write(&directory.join(format!("memory-{side}.json")), &format!("{}\n", json!(rss_kib)))?;
    let grown_kib =
        rss_kib.get((rss_kib.len() / 2).saturating_sub(1)).zip(rss_kib.last()).map_or(0, |(middle, last)| last - middle);
    Ok(Beside { judged, grown_kib, rss_kib })
}

/// How a process ended, if it does within this time.
fn ended_within(run: &mut Child, time: Duration) -> std::io::Result<Option<ExitStatus>> {
    let until = Instant::now() + time;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let ended = run.try_wait()?;
        if ended.is_some() || left.is_zero() {
            return Ok(ended);
        }
        sleep(left.min(LOOK));
    }
}

/// Resident memory between two explanations, which take 2 MiB for some milliseconds and give them back: the least of several
/// looks, in KiB.
fn at_rest_kib(pid: u32) -> i64 {
    let looks = (0..LOOKS).map(|_| {
        sleep(BETWEEN);
        resident_kib(pid)
    });
    looks.min().unwrap_or(0)
}

/// Resident memory of a process and its children, in KiB.
fn resident_kib(pid: u32) -> i64 {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let of = |pid: &str| {
        let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<i64>().ok()).unwrap_or(0)
    };
    of(&pid.to_string()) + children.split_whitespace().map(of).sum::<i64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_with_hooks_leaves_out_the_first_block() {
        let with = [(1_100, 420), (1_200, 480)];
        let alone = Decoded::from_buckets(with).quantile(Quantile::P50);
        let all = Decoded::from_buckets(with.into_iter().chain([(1_000, 100)]));
        assert!(alone.is_some() && all.quantile(Quantile::P50) < alone);
        assert_eq!(with_hooks(&all, 100), alone);
        assert_eq!((with_hooks(&all, 0), with_hooks(&all, 1_000)), (all.quantile(Quantile::P50), None));
        assert_eq!(with_hooks(&Decoded::from_buckets([]), 0), None);
    }

    #[test]
    fn the_word_of_the_naming_stands_last() {
        let judged = Judged { wakes: 94, caused: 82, named: 81, first: 79, all: 7_404 };
        assert_eq!(
            naming_text(judged, Word::Unclear),
            "81 of 82: 98.8 % (93.4-100.0) of those by it name it (95 % interval), 79 as the first cause; bound 0.95: unclear"
        );
    }
}
