//! The C programs that hairpin is held against, which share no code with it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use hairpin_lab::experiment::outside::Block;
use hairpin_units::Nanos;

use super::children::run;
use super::record::Stop;

/// A C program of this directory, compiled into the build's scratch directory, with the libraries that it needs as `-lNAME`.
pub(crate) fn compiled(name: &str, libraries: &[&str]) -> Result<PathBuf, Stop> {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../benches/{name}.c"));
    let mut cc = Command::new("cc");
    cc.args(["-O2", "-o"]).arg(&program).arg(source).args(libraries);
    run(&mut cc, Duration::from_secs(60)).map_err(Stop::Missing)?;
    Ok(program)
}

/// One run: the time that it prints in ns, and its transactions. Its arguments are `words`, both CPUs, the length in ms, the payload in bytes, and `place`.
pub(crate) fn control(
    program: &Path,
    words: &[&str],
    cpus: [u32; 2],
    length: Nanos,
    bytes: u32,
    place: &[&str],
) -> Result<Block, String> {
    let mut command = Command::new(program);
    command.args(words).args(cpus.map(|cpu| cpu.to_string()));
    command.args([(length.0 / 1_000_000).max(1).to_string(), bytes.to_string()]).args(place);
    let said = run(&mut command, Duration::from_secs(60))?;
    let mut numbers = said.split_whitespace().map(str::parse::<u64>);
    let (Some(Ok(ns)), Some(Ok(transactions))) = (numbers.next(), numbers.next()) else {
        return Err(format!("{} said \"{}\"", program.display(), said.trim()));
    };
    Ok(Block::of_median(ns as f64, transactions, cpus))
}
