//! The C programs that hairpin is held against, which share no code with it.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use hairpin_lab::experiment::outside::Block;
use hairpin_units::Nanos;

use super::children::run;
use super::record::Stop;

/// A file of this directory.
fn source(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../benches").join(file)
}

/// A C program of this directory, compiled into the build's scratch directory, with the libraries that it needs as `-lNAME`.
pub(crate) fn compiled(name: &str, libraries: &[&str]) -> Result<PathBuf, Stop> {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let mut cc = Command::new("cc");
    cc.args(["-O2", "-o"]).arg(&program).arg(source(&format!("{name}.c"))).args(libraries);
    run(&mut cc, Duration::from_secs(60)).map_err(Stop::Missing)?;
    Ok(program)
}

/// A hash of the sources of C programs and of their common header. An error names the source that cannot be read.
pub(crate) fn sources(names: &[&str]) -> Result<String, String> {
    let mut hasher = DefaultHasher::new();
    for file in names.iter().map(|name| format!("{name}.c")).chain(["plain.h".to_owned()]) {
        fs::read(source(&file)).map_err(|e| format!("{file}: {e}"))?.hash(&mut hasher);
    }
    Ok(format!("{:016x}", hasher.finish()))
}

/// Names what pairs are measured with: hairpin's build, the sources of the C programs, and both CPUs. `--resume` leaves out pairs
/// with another name. An error names the source that cannot be read.
pub(crate) fn identity(hairpin: &str, names: &[&str], cpus: [u32; 2]) -> Result<String, String> {
    let [client, server] = cpus;
    Ok(format!("{hairpin} {} {client},{server}", sources(names)?))
}

/// One run: the time that it prints in ns, and its transactions. Its arguments are `words`, both CPUs, the length in ms, the
/// payload in bytes, and `place`.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_build_source_or_cpu_is_another_comparison() {
        let of = |hairpin, name, cpus| identity(hairpin, &[name], cpus).unwrap();
        let one = of("1-2", "equal", [0, 1]);
        assert_eq!(one, of("1-2", "equal", [0, 1]));
        let others = [of("1-3", "equal", [0, 1]), of("1-2", "frames", [0, 1]), of("1-2", "equal", [1, 0])];
        assert!(others.iter().all(|other| *other != one), "{one} {others:?}");
        assert!(identity("1-2", &["none"], [0, 1]).is_err());
    }
}
