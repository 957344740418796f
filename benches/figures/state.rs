//! The parts measured so far: `figures.txt` in the folder of the records, a line a part, all of one build.

use std::fs;
use std::path::{Path, PathBuf};

use super::super::record::write;

const FILE: &str = "figures.txt";
pub(crate) const HOLDS: &str = "holds";
pub(crate) const UNCLEAR: &str = "unclear";
pub(crate) const MISSES: &str = "misses";
/// Something that it needs is not on this host.
pub(crate) const LACKS: &str = "lacks";
pub(crate) const FAILED: &str = "failed";
/// From the best to the worst.
const WORDS: [&str; 5] = [HOLDS, UNCLEAR, MISSES, LACKS, FAILED];
/// Last words of the lines of a table that miss a bound …
const MISSED: &[&str] = &["MISS"];
/// … and of those that decide nothing.
const UNDECIDED: &[&str] = &["unclear", "few", "none"];

/// A part that was run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Done {
    pub(crate) part: String,
    /// RFC 3339, UTC.
    pub(crate) began: String,
    pub(crate) minutes: f64,
    /// Share of the CPU time that others used before it began, in percent.
    pub(crate) others: f64,
    pub(crate) word: String,
}

impl Done {
    /// False if it is to be run again.
    pub(crate) fn is_measured(&self) -> bool {
        ![LACKS, FAILED].contains(&self.word.as_str())
    }

    fn text(&self) -> String {
        format!("{:<10} {} {:>8.1} {:>6.1} % {}", self.part, self.began, self.minutes, self.others, self.word)
    }

    fn parsed(line: &str) -> Option<Done> {
        let [part, began, minutes, others, "%", word] = line.split_whitespace().collect::<Vec<_>>()[..] else { return None };
        let word = WORDS.contains(&word).then(|| word.to_owned())?;
        Some(Done { part: part.into(), began: began.into(), minutes: minutes.parse().ok()?, others: others.parse().ok()?, word })
    }
}

pub(crate) struct State {
    file: PathBuf,
    /// The first line, which tells the build.
    head: String,
    done: Vec<Done>,
}

/// How the first line of a build begins.
fn begin(build: &str) -> String {
    format!("Command {build}. ")
}

/// The newest folder of this host that has figures of this build, else `today`. A folder is called `2026-11-27-HOST`.
pub(crate) fn folder(runs: &Path, build: &str, today: &Path) -> PathBuf {
    let mut folders: Vec<PathBuf> = fs::read_dir(runs).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    folders.sort();
    let host = |folder: &Path| folder.file_name().and_then(|name| name.to_str()?.get(10..).map(str::to_owned));
    let is_of = |folder: &PathBuf| {
        host(folder) == host(today) && fs::read_to_string(folder.join(FILE)).is_ok_and(|text| text.starts_with(&begin(build)))
    };
    folders.into_iter().rfind(is_of).unwrap_or_else(|| today.to_owned())
}

impl State {
    /// Reads the parts of this build that the folder has; `code` is the line that tells its code.
    pub(crate) fn open(folder: &Path, build: &str, code: &str) -> Result<State, String> {
        let file = folder.join(FILE);
        let old = if file.exists() {
            fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?
        } else {
            String::new()
        };
        let old = if old.starts_with(&begin(build)) { old } else { String::new() };
        let head = old.lines().next().map_or_else(|| begin(build) + code, str::to_owned);
        Ok(State { file, head, done: old.lines().skip(1).filter_map(Done::parsed).collect() })
    }

    pub(crate) fn of(&self, part: &str) -> Option<&Done> {
        self.done.iter().find(|done| done.part == part)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Done> {
        self.done.iter()
    }

    pub(crate) fn add(&mut self, done: Done) -> Result<(), String> {
        self.done.retain(|earlier| earlier.part != done.part);
        self.done.push(done);
        write(&self.file, &self.text())
    }

    pub(crate) fn text(&self) -> String {
        let mut text = format!("{}\n{:<10} {:<27} {:>8} {:>8} result\n", self.head, "part", "began", "minutes", "others");
        self.done.iter().for_each(|done| text.push_str(&(done.text() + "\n")));
        text
    }

    pub(crate) fn worst(&self) -> &'static str {
        self.done.iter().fold(HOLDS, |worst, done| worse(worst, &done.word))
    }
}

/// The worse of two words.
pub(crate) fn worse(one: &str, other: &str) -> &'static str {
    let rank = |word: &str| WORDS.iter().position(|listed| *listed == word).unwrap_or(WORDS.len() - 1);
    WORDS[rank(one).max(rank(other))]
}

/// The lines of a folder's texts that do not hold their bound, each behind the name of its file.
pub(crate) fn marked(folder: &Path) -> Vec<String> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    files.sort();
    let of_file = |file: &PathBuf| -> Vec<String> {
        let (name, text) = (file.file_name().unwrap_or_default().display(), fs::read_to_string(file).unwrap_or_default());
        let lines = text.lines().filter(|line| has(line, MISSED) || has(line, UNDECIDED));
        lines.map(|line| format!("{name}: {line}")).collect()
    };
    files.iter().filter(|file| file.extension().is_some_and(|end| end == "txt")).flat_map(of_file).collect()
}

/// True if a line ends with one of these words, or has it before a reason.
fn has(line: &str, words: &[&str]) -> bool {
    let last = line.split_whitespace().next_back().unwrap_or("");
    words.contains(&last) || line.contains(" none: ") && words.contains(&"none")
}

/// The word of a benchmark that does not hold all of its bounds.
pub(crate) fn missed(folder: &Path) -> &'static str {
    let lines = marked(folder);
    if !lines.is_empty() && lines.iter().all(|line| has(line, UNDECIDED)) { UNCLEAR } else { MISSES }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUILD: &str = "0123456789abcdef";

    fn done(part: &str, word: &str) -> Done {
        Done { part: part.into(), began: "2026-11-27T01:02:03.000004Z".into(), minutes: 31.2, others: 1.5, word: word.into() }
    }

    #[test]
    fn figures_go_on_with_the_parts_that_have_no_record_of_the_build() {
        let runs = tempfile::tempdir().unwrap();
        let today = runs.path().join("2026-11-28-h");
        assert_eq!(folder(runs.path(), BUILD, &today), today);
        let begun = runs.path().join("2026-11-27-h");
        fs::create_dir(&begun).unwrap();
        let mut state = State::open(&begun, BUILD, "Code x").unwrap();
        for one in [done("peers", MISSES), done("load", FAILED), done("niq", HOLDS)] {
            state.add(one).unwrap();
        }
        assert_eq!(folder(runs.path(), BUILD, &today), begun);
        let elsewhere = runs.path().join("2026-11-28-other");
        assert_eq!(folder(runs.path(), BUILD, &elsewhere), elsewhere, "on another host");
        let mut again = State::open(&begun, BUILD, "Code of a later commit").unwrap();
        assert_eq!((again.text(), again.worst()), (state.text(), FAILED));
        assert_eq!(again.of("peers"), Some(&done("peers", MISSES)));
        let passed_over: Vec<&str> = again.all().filter(|done| done.is_measured()).map(|done| done.part.as_str()).collect();
        assert_eq!((passed_over, again.of("flows")), (vec!["peers", "niq"], None));
        again.add(done("load", HOLDS)).unwrap();
        assert_eq!(State::open(&begun, BUILD, "").unwrap().worst(), MISSES);
        // Nothing of another build counts.
        assert_eq!(folder(runs.path(), "fedcba9876543210", &today), today);
        assert_eq!(State::open(&begun, "fedcba9876543210", "").unwrap().all().count(), 0);
    }

    #[test]
    fn a_line_that_was_cut_short_or_changed_is_not_measured() {
        let whole = done("peers", HOLDS).text();
        assert_eq!(Done::parsed(&whole), Some(done("peers", HOLDS)));
        for line in [&whole[..whole.len() - 3], &whole.replace("31.2", "long"), "part began minutes others result", ""] {
            assert_eq!(Done::parsed(line), None, "{line}");
        }
    }

    #[test]
    fn unclear_is_said_where_nothing_is_missed_for_sure() {
        for (table, word, lines) in [
            ("a 1.05 unclear\nb 1.00 ok\n", UNCLEAR, 1),
            ("a 1.05 unclear\nb 1.00 MISS\nc - -\n", MISSES, 2),
            ("a none: no xdp here\n", UNCLEAR, 1),
            ("  81 of 82 name it, 79 as the first cause; bound 0.95: unclear\n  memory +168 KiB (bound 256) ok\n", UNCLEAR, 1),
            ("nothing is said line by line\n", MISSES, 0),
        ] {
            let folder = tempfile::tempdir().unwrap();
            fs::write(folder.path().join("table.txt"), table).unwrap();
            fs::write(folder.path().join("pairs.jsonl"), "a MISS\n").unwrap();
            assert_eq!((missed(folder.path()), marked(folder.path()).len()), (word, lines), "{table}");
        }
    }

    #[test]
    fn a_miss_beside_a_table_that_holds_is_told_with_its_file() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("table.txt"), "a 1.00 ok\n").unwrap();
        fs::write(folder.path().join("coalesce-xdp.txt"), "9 batches, bound 0: MISS\n8 batches, bound 0: ok\n").unwrap();
        assert_eq!(marked(folder.path()), ["coalesce-xdp.txt: 9 batches, bound 0: MISS"]);
        assert_eq!(missed(folder.path()), MISSES);
    }
}
