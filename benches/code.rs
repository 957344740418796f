//! Which measured code a record is of: its hash is in the command (`hairpin --version --verbose`), and in the last line of every
//! table.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use hairpin_session::time::rfc3339;

use super::children::run;

/// The beginning of that line.
const BEGIN: &str = "Code ";
const LIMIT: Duration = Duration::from_secs(20);

/// The folder of the repository.
pub(crate) fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().unwrap_or(root)
}

/// The hash of the measured code in this tree.
pub(crate) fn here() -> Result<String, String> {
    Ok(run(&mut Command::new(root().join("scripts/measured-code.sh")), LIMIT)?.trim().to_owned())
}

/// The last line of a table that was measured with this command: `Code HASH, commit X, hairpin V, Linux R, TIME`.
pub(crate) fn line(hairpin: &Path) -> String {
    let version = run(Command::new(hairpin).args(["--version", "--verbose"]), LIMIT).unwrap_or_default();
    let code = version.lines().find_map(|line| line.strip_prefix("code ")).map(str::trim).filter(|code| is_hash(code));
    // If the command is not of this tree, its commit is not known.
    let commit = code.filter(|code| here().as_deref() == Ok(code)).and_then(|_| commit());
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let now = rfc3339(SystemTime::now());
    format!(
        "{BEGIN}{}, commit {}, {}, Linux {}, {}Z",
        code.unwrap_or("not told"),
        commit.as_deref().unwrap_or("not told"),
        version.lines().next().unwrap_or("hairpin of an unknown version"),
        kernel.trim(),
        now.split('.').next().unwrap_or(&now)
    )
}

/// The commit of this tree; with `-dirty` where a file was changed that is neither a record nor filled from one.
fn commit() -> Option<String> {
    run(&mut Command::new(root().join("scripts/commit.sh")), LIMIT).ok().map(|said| said.trim().to_owned())
}

/// The line and the hash in a table.
pub(crate) fn of(table: &str) -> Option<(&str, &str)> {
    let line = table.lines().rfind(|line| line.starts_with(BEGIN))?;
    let (hash, _) = line[BEGIN.len()..].split_once(',')?;
    is_hash(hash).then_some((line, hash))
}

fn is_hash(text: &str) -> bool {
    text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_says_its_code_in_its_last_such_line() {
        let table = "cell\nCode 0123456789abcdef, commit 1, x\nand more\nCode fedcba9876543210, commit 2, y\n";
        assert_eq!(of(table), Some(("Code fedcba9876543210, commit 2, y", "fedcba9876543210")));
        for table in ["", "cell ok\n", "Code not told, commit not told, hairpin\n", "Code 0123456789abcdef\n"] {
            assert_eq!(of(table), None, "{table}");
        }
    }

    #[test]
    fn a_command_without_the_hash_names_no_code() {
        let line = line(Path::new("/bin/true"));
        assert!(line.starts_with("Code not told, commit not told, ") && of(&line).is_none(), "{line}");
    }
}
