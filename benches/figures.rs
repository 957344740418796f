//! `make figures`: every benchmark whole, one after the other, from one build of the shipped command, and the docs filled from
//! the records.
//!
//! ```text
//!   for each part that has no record of this build:
//!     is the host quiet? ──▶ scripts/bench.sh PART ──▶ runs/DAY-HOST/PART/, compressed ──▶ a line of runs/DAY-HOST/figures.txt
//!   at the end:  what holds, misses and is unclear ──▶ the blocks of README and docs (blocks.rs)
//! ```
//! Exit codes: 0 every bound is met, 1 a part failed, 3 a bound is missed or unclear, 4 the host is busy, or something that a
//! part needs is not here.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

use clap::Args;
use hairpin_session::time::rfc3339;

use self::parts::{Part, Work};
use self::state::{Done, State};
use super::children::run;
use super::code;
use super::record::{self, Stop, write};

pub(crate) mod blocks;
mod parts;
mod quiet;
mod state;

/// Every benchmark one after the other from one build, into runs/DAY-HOST, and the docs filled from the records
#[derive(Args)]
pub(crate) struct Options {
    /// Parts to measure, separated by commas; all without it
    #[arg(long, value_delimiter = ',')]
    parts: Vec<String>,
    /// Go on though other programs use the CPUs; the record says so
    #[arg(long)]
    busy: bool,
    /// Measure nothing: fill README and docs from their records
    #[arg(long)]
    fill: bool,
    /// Measure nothing: name each block of README and docs that is not as its record, or of older code
    #[arg(long, conflicts_with = "fill")]
    check: bool,
    /// Make every part as short as it goes, with the profile of the tests, to try this command; its figures are of no use
    #[arg(long, requires = "out")]
    tiny: bool,
    #[command(flatten)]
    flags: record::Flags,
}

/// Measures; true if a bound is missed.
pub(crate) fn bench(options: &Options) -> Result<bool, Stop> {
    let root = code::root();
    if options.fill {
        return Ok(filled(&root).map(|()| false)?);
    }
    if options.check {
        let wrong = blocks::wrong(&root, &code::here()?, true)?;
        wrong.iter().for_each(|line| println!("{line}"));
        println!("figures: {} wrong or of older code", wrong.len());
        return Ok(!wrong.is_empty());
    }
    let parts = parts::chosen(&options.parts)?;
    let command = own_copy(&options.flags.hairpin)?;
    let build = hash(&command)?;
    let measured_code = options.flags.out().is_none().then(|| build_code(&command)).transpose()?;
    let runs = root.join("runs");
    let directory = options.flags.out().unwrap_or_else(|| state::folder(&runs, &build, &record::today()));
    fs::create_dir_all(&directory).map_err(|e| format!("{}: {e}", directory.display()))?;
    let mut state = State::open(&directory, &build, &code::line(&command))?;
    announce(&parts, &state, &directory);
    for part in parts {
        if state.of(part.name).is_some_and(Done::is_measured) {
            continue;
        }
        let others = quiet::wait(options.busy).map_err(|why| Stop::Missing(format!("before {}: {why}", part.name)))?;
        let beside =
            if others > quiet::MOST { format!(", though others use {others:.0} % of the CPU time") } else { String::new() };
        eprintln!("\n== {}: about {} min{beside}", part.name, part.minutes);
        let (began, since) = (rfc3339(SystemTime::now()), Instant::now());
        let word = measured(part, &command, &directory, options.tiny)?;
        if others > quiet::MOST {
            part.texts(&directory).iter().try_for_each(|text| busy(text, others))?;
        }
        let minutes = since.elapsed().as_secs_f64() / 60.0;
        let done = Done { part: part.name.to_owned(), began, minutes, others, word: word.to_owned() };
        // One that is to be run again goes on after its last pair or trial; --resume reads those from the file as text.
        if done.is_measured() {
            compress(&directory.join(part.name))?;
        }
        state.add(done)?;
    }
    print!("{}", sum(&state, &directory));
    if let Some(hash) = measured_code {
        blocks::point(&root, &directory, &hash)?;
        filled(&root)?;
    }
    match state.worst() {
        state::FAILED => Err(Stop::Failed("a part failed: make figures tries it again".to_owned())),
        state::LACKS => Err(Stop::Missing("a part lacks something on this host: see above".to_owned())),
        worst => Ok(worst != state::HOLDS),
    }
}

/// The table of the parts with the time of each.
fn announce(parts: &[&Part], state: &State, directory: &Path) {
    eprintln!("into {}", directory.display());
    let mut sum = 0;
    for part in parts {
        match state.of(part.name) {
            Some(done) if done.is_measured() => eprintln!("{:<10} done on {}, {}", part.name, done.began, done.word),
            _ => {
                eprintln!("{:<10} {:>4} min  {}", part.name, part.minutes, part.what);
                sum += part.minutes;
            }
        }
    }
    eprintln!("{:<10} {sum:>4} min in all; after Ctrl-C `make figures` goes on", "");
}

/// A copy of the command, which stays what it is while the sources are worked on.
fn own_copy(hairpin: &Path) -> Result<PathBuf, Stop> {
    let hairpin = record::from_caller(hairpin);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("figures");
    let copy = folder.join("hairpin");
    if copy.exists() && hash(&copy)? == hash(&hairpin)? {
        return Ok(copy);
    }
    // A copy that still runs somewhere cannot be overwritten, but removed.
    let _ = fs::remove_file(&copy);
    let copied = fs::create_dir_all(&folder).and_then(|()| fs::copy(&hairpin, &copy));
    copied.map_err(|e| format!("{}: {e}", copy.display()))?;
    Ok(copy)
}

/// The hash of a build.
fn hash(command: &Path) -> Result<String, String> {
    let said = run(Command::new("sha256sum").arg(command), Duration::from_secs(20))?;
    said.get(..16).map(str::to_owned).ok_or_else(|| format!("sha256sum said \"{}\"", said.trim()))
}

/// The measured code of the command.
fn build_code(command: &Path) -> Result<String, String> {
    let line = code::line(command);
    code::of(&line).map(|(_, hash)| hash.to_owned()).ok_or_else(|| format!("the command does not tell its code: {line}"))
}

/// Runs a part: the word of its result.
fn measured(part: &Part, command: &Path, directory: &Path, tiny: bool) -> Result<&'static str, Stop> {
    match part.work {
        Work::Bench { whole, short, resumes } => {
            let mut bench = Command::new(code::root().join("scripts/bench.sh"));
            bench.arg(part.name).args(if tiny { short } else { whole }).args(resumes.then_some("--resume"));
            bench.env("HAIRPIN_COMMAND", command).env("HAIRPIN_RECORD", directory);
            if tiny {
                bench.env("HAIRPIN_BENCH_PROFILE", "dev");
            }
            let status = bench.status().map_err(|e| format!("scripts/bench.sh: {e}"))?;
            match status.code() {
                Some(0) => Ok(state::HOLDS),
                Some(3) => Ok(state::missed(&directory.join(part.name))),
                Some(4) => Ok(state::LACKS),
                None | Some(130 | 143) => Err(Stop::Interrupted),
                Some(_) => Ok(state::FAILED),
            }
        }
        Work::Commands(commands) => {
            let mut word = state::HOLDS;
            for said in commands.iter().filter(|said| !tiny || said.is_short) {
                word = state::worse(word, print(said, command, directory)?);
            }
            Ok(word)
        }
    }
}

/// Runs a command whose text the docs quote, and keeps what it prints.
fn print(said: &parts::Said, command: &Path, directory: &Path) -> Result<&'static str, Stop> {
    eprintln!("hairpin {}", said.words);
    let output = Command::new(command).args(said.words.split(' ')).stdin(std::process::Stdio::null()).output();
    let output = output.map_err(|e| format!("{}: {e}", command.display()))?;
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    let word = match output.status.code() {
        Some(0) => state::HOLDS,
        None | Some(130 | 143) => return Err(Stop::Interrupted),
        code => {
            let why = String::from_utf8_lossy(&output.stderr);
            eprint!("{why}");
            text.push_str(&why);
            if code == Some(4) { state::LACKS } else { state::FAILED }
        }
    };
    text.push_str(&format!("{}\n", code::line(command)));
    let file = directory.join(said.file);
    file.parent().map_or(Ok(()), fs::create_dir_all).map_err(|e| format!("{}: {e}", file.display()))?;
    write(&file, &text)?;
    Ok(word)
}

/// Says in a text, if it is there, that the host was busy.
fn busy(table: &Path, others: f64) -> Result<(), String> {
    let Ok(text) = fs::read_to_string(table) else { return Ok(()) };
    write(table, &format!("{text}{}other programs used {others:.0} % of the CPU time before it began\n", blocks::BUSY))
}

/// Compresses what is JSON in a folder of records, as runs/README.md says.
fn compress(folder: &Path) -> Result<(), String> {
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok).map(|entry| entry.path());
    let is_json = |file: &PathBuf| file.extension().is_some_and(|end| end == "json" || end == "jsonl");
    let files: Vec<PathBuf> = entries.filter(is_json).collect();
    if files.is_empty() {
        return Ok(());
    }
    run(Command::new("gzip").arg("-9nf").args(&files), Duration::from_secs(120)).map(|_| ())
}

/// What holds, misses and is unclear, with the lines of the tables that do not hold.
fn sum(state: &State, directory: &Path) -> String {
    let mut text = format!("\nfigures: {}\n{}", directory.display(), state.text());
    for done in state.all().filter(|done| done.word != state::HOLDS) {
        for line in state::marked(&directory.join(&done.part)) {
            text.push_str(&format!("{}/{line}\n", done.part));
        }
    }
    text
}

/// Fills the docs and says which pages changed.
fn filled(root: &Path) -> Result<(), String> {
    for page in blocks::fill(root, &code::here()?)? {
        println!("filled {page}");
    }
    Ok(())
}
