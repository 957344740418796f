//! Tests read fixtures of their own, and no record of `runs/`, which may be moved. A record there that a comment cites exists.
//! Only `figures.rs` holds the docs against the records that they name.

use std::fs;
use std::path::Path;

use super::{files, root};

/// Folders of tests and of what they share.
const TESTS: &[&str] = &["tests", "python/tests", "crates"];
/// Files that name the folder on purpose, and why.
const ALLOWED: &[(&str, &str)] = &[("tests/house.rs", "weighs the folder"), ("tests/house/records.rs", "this file")];

/// How a source names a record there, or the folder.
const NAMES: &[&str] = &["runs/20", "ROOT / \"runs", "root().join(\"runs", "../runs"];

fn is_comment(line: &str) -> bool {
    ["//", "# "].iter().any(|mark| line.trim_start().starts_with(mark))
}

/// The lines that read a record. A comment reads nothing.
fn reads_runs(text: &str) -> Vec<&str> {
    text.lines().filter(|line| !is_comment(line) && NAMES.iter().any(|name| line.contains(name))).collect()
}

/// The records that comments name.
fn cited(text: &str) -> impl Iterator<Item = &str> {
    let words = text.lines().filter(|line| is_comment(line)).flat_map(|line| line.split([' ', '(', ')', '`', ',', ';']));
    words.filter(|word| word.starts_with("runs/20")).map(|word| word.trim_end_matches('.'))
}

#[test]
fn no_test_reads_a_record_of_runs() {
    let mut broken = Vec::new();
    let is_source =
        |file: &Path| file.extension().is_some_and(|end| ["rs", "py", "js", "ts"].iter().any(|source| end == *source));
    let sources = TESTS.iter().flat_map(|folder| files(&root().join(folder))).filter(|file| is_source(file));
    for file in sources {
        let place = file.strip_prefix(root()).unwrap();
        if ALLOWED.iter().any(|(allowed, _)| place == Path::new(allowed)) {
            continue;
        }
        let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        broken.extend(reads_runs(&text).into_iter().map(|line| format!("{}: {}", place.display(), line.trim())));
        let missing = cited(&text).filter(|record| !root().join(record).is_file());
        broken.extend(missing.map(|record| format!("{}: there is no {record}", place.display())));
    }
    assert_eq!(broken, Vec::<String>::new(), "copy a small record to the tests' own data");
}

#[test]
fn a_test_that_reads_runs_is_noticed() {
    for line in [r#"RUNS = ROOT / "runs""#, r#"root().join("runs").join(name)"#, r#"read("../../runs/2026-11-20-x/r.json.zst")"#]
    {
        assert_eq!(reads_runs(line), [line]);
    }
    assert_eq!(reads_runs(r#"dir.path().join("runs"); self.folder / "runs"; ["runs", "list"]"#), Vec::<&str>::new());
    let comment = "    /// takes 5 % (by hand; runs/2026-11-20-x/r.txt).\n";
    assert!(reads_runs(comment).is_empty() && cited(comment).eq(["runs/2026-11-20-x/r.txt"]));
    assert_eq!(cited(r#"let name = "runs/2026-11-20-x/r.txt";"#).next(), None);
}
