//! The file of incidents: a line each, as long as the second and the file have room. A file has each line whole or not at all; in
//! a pipe nothing comes between the parts of a line.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use hairpin_record::head::Body;
use hairpin_record::incident::Incident;
use rustix::fs::OFlags;

/// The file, and the fate of the lines for it.
#[derive(Debug)]
pub(super) struct Lines {
    pub(super) path: PathBuf,
    file: File,
    most_bytes: u64,
    most_per_s: u32,
    /// A second since 1970, and the number of lines in it.
    second: (u64, u32),
    /// The part of the last line that a pipe had no room for.
    rest: Vec<u8>,
    /// Incidents since the last line.
    dropped: u64,
    pub(super) counts: Counts,
    /// The user has been told of a failure.
    said: bool,
}

/// Incidents by the fate of their lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) written: u64,
    pub(super) over_rate: u64,
    pub(super) over_size: u64,
    pub(super) over_block: u64,
    pub(super) failed: u64,
}

impl Lines {
    /// Opens the file, or makes it. Lines go after those of earlier runs.
    ///
    /// # Errors
    /// Why it cannot be written, or that it holds something else.
    pub(super) fn open(path: &Path, most_bytes: u64, most_per_s: u32) -> Result<Lines, String> {
        let wrong = |error: io::Error| {
            format!("cannot write incidents to {}: {error}; name another file with --incidents", path.display())
        };
        // A pipe that nobody reads is an error, and no reason to wait.
        let flags = OFlags::NONBLOCK.bits() as i32;
        let mut file = OpenOptions::new().append(true).create(true).custom_flags(flags).open(path).map_err(wrong)?;
        if file.metadata().is_ok_and(|facts| facts.is_file() && facts.len() > 0) {
            let mut there = File::open(path).map_err(wrong)?;
            let begins = format!("{{\"schema\":\"{}\"", Incident::SCHEMA);
            let mut first = vec![0; begins.len()];
            if there.read_exact(&mut first).is_err() || first != begins.as_bytes() {
                return Err(format!(
                    "{} holds something other than incidents: name another file with --incidents",
                    path.display()
                ));
            }
            let mut last = [0];
            there.seek(SeekFrom::End(-1)).and_then(|_| there.read_exact(&mut last)).map_err(wrong)?;
            // A run was killed in the middle of a line.
            if last != *b"\n" {
                file.write_all(b"\n").map_err(wrong)?;
            }
        }
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.into());
        Ok(Lines {
            path,
            file,
            most_bytes,
            most_per_s,
            second: (0, 0),
            rest: Vec::new(),
            dropped: 0,
            counts: Counts::default(),
            said: false,
        })
    }

    /// The lines that this second since 1970 still has room for.
    pub(super) fn room(&mut self, second: u64) -> usize {
        if self.second.0 != second {
            self.second = (second, 0);
        }
        self.most_per_s.saturating_sub(self.second.1) as usize
    }

    /// Incidents that had no room in their second.
    pub(super) fn no_room(&mut self, count: u64) {
        self.counts.over_rate += count;
        self.dropped += count;
    }

    /// Incidents beyond the slowest of their block.
    pub(super) fn passed_over(&mut self, count: u64) {
        self.counts.over_block += count;
        self.dropped += count;
    }

    /// Writes a line for an incident. Returns the message to the user when that fails for the first time.
    pub(super) fn write(&mut self, incident: Incident) -> Option<String> {
        self.second.1 += 1;
        let whole = serde_json::to_vec(&Incident { dropped: self.dropped, ..incident });
        let written = whole.map_err(io::Error::from).and_then(|mut line| {
            line.push(b'\n');
            self.put(&line)
        });
        let lost = match written {
            Ok(true) => {
                (self.counts.written, self.dropped) = (self.counts.written + 1, 0);
                return None;
            }
            Ok(false) => &mut self.counts.over_size,
            Err(_) => &mut self.counts.failed,
        };
        *lost += 1;
        self.dropped += 1;
        let error = written.err()?;
        let first = !std::mem::replace(&mut self.said, true);
        first.then(|| {
            format!(
                "cannot write incidents to {}: {error}; measuring goes on, and those without a line are counted",
                self.path.display()
            )
        })
    }

    /// Appends a line to the file; false if the file has no room. A part of a line is removed again.
    fn put(&mut self, line: &[u8]) -> io::Result<bool> {
        // The file may have been truncated since (logrotate's copytruncate).
        let facts = self.file.metadata()?;
        if !facts.is_file() {
            self.complete()?;
            let bytes = self.file.write(line).map_err(too_slow)?;
            self.rest.extend_from_slice(&line[bytes..]);
            return Ok(true);
        }
        if facts.len() + line.len() as u64 > self.most_bytes {
            return Ok(false);
        }
        let put = match self.file.write(line) {
            Ok(bytes) if bytes == line.len() => return Ok(true),
            Ok(_) => Err(io::ErrorKind::StorageFull.into()),
            Err(error) => Err(error),
        };
        self.file.set_len(facts.len())?;
        put
    }

    /// Writes the rest of the last line into a pipe.
    ///
    /// # Errors
    /// There is no room for all of it.
    pub(super) fn complete(&mut self) -> io::Result<()> {
        if !self.rest.is_empty() {
            let bytes = self.file.write(&self.rest).map_err(too_slow)?;
            self.rest.drain(..bytes);
        }
        if self.rest.is_empty() { Ok(()) } else { Err(too_slow(io::ErrorKind::WouldBlock.into())) }
    }
}

/// A pipe without room, in words.
fn too_slow(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock => io::Error::new(io::ErrorKind::WouldBlock, "who reads them is too slow"),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn incident(sequence: u32) -> Incident {
        Incident { schema: Incident::SCHEMA.into(), sequence, path: "udp/udp".into(), ..Incident::default() }
    }

    /// The lines of a file: sequence and dropped.
    fn lines(path: &Path) -> Vec<(u64, u64)> {
        let text = fs::read_to_string(path).unwrap();
        assert!(text.is_empty() || text.ends_with('\n'), "the last line is whole");
        let line = |line: &str| {
            let line: serde_json::Value = serde_json::from_str(line).expect("a line is JSON");
            (line["sequence"].as_u64().unwrap(), line["dropped"].as_u64().unwrap())
        };
        text.lines().map(line).collect()
    }

    #[test]
    fn a_million_incidents_have_as_many_lines_as_there_is_room_for_and_the_rest_is_counted() {
        let path = tempfile::tempdir().unwrap().keep().join("incidents.jsonl");
        let mut all = Lines::open(&path, 20_000, 2).unwrap();
        for number in 0..1_000_000_u32 {
            // A thousand a second.
            match all.room(u64::from(number / 1_000)) {
                0 => all.no_room(1),
                _ => assert_eq!(all.write(incident(number)), None),
            }
        }
        let Counts { written, over_rate, over_size, failed, .. } = all.counts;
        assert_eq!((written + over_rate + over_size, over_rate, failed), (1_000_000, 998_000, 0));
        let kept = lines(&path);
        assert_eq!((kept.len() as u64, &kept[..4]), (written, &[(0, 0), (1, 0), (1_000, 998), (1_001, 0)][..]));
        let bytes = fs::metadata(&path).unwrap().len();
        assert!(bytes <= 20_000 && bytes > 19_000, "{bytes}");
        // Once the file has been cut there is room, and the next line counts all those before it.
        File::options().write(true).open(&path).unwrap().set_len(0).unwrap();
        assert_eq!(all.write(incident(7)), None);
        assert_eq!(lines(&path), [(7, 1_000_000 - 1 - u64::from(kept[kept.len() - 1].0 as u32))]);
        fs::remove_dir_all(path.parent().unwrap()).unwrap();
    }

    #[test]
    fn incidents_without_a_line_are_counted_by_reason_and_in_the_next_line() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("incidents.jsonl");
        let mut all = Lines::open(&path, 1_000_000, 10).unwrap();
        all.no_room(2);
        all.passed_over(3);
        assert_eq!(all.write(incident(7)), None);
        assert_eq!(all.counts, Counts { written: 1, over_rate: 2, over_block: 3, ..Counts::default() });
        assert_eq!(lines(&path), [(7, 5)]);
    }

    #[test]
    fn a_full_disk_is_reported_once_and_counted() {
        let mut all = Lines::open(Path::new("/dev/full"), 1_000_000, 10).unwrap();
        let said: Vec<Option<String>> = (0..3).map(|number| all.write(incident(number))).collect();
        assert!(said[0].as_ref().is_some_and(|said| said.contains("/dev/full") && said.contains("No space left")), "{said:?}");
        assert_eq!((&said[1..], all.counts), (&[None, None][..], Counts { failed: 3, ..Counts::default() }));
    }

    #[test]
    fn a_slow_reader_of_a_pipe_gets_whole_lines_and_is_reported_once() {
        let directory = tempfile::tempdir().unwrap();
        let pipe = directory.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        let flags = OFlags::NONBLOCK.bits() as i32;
        let mut reader = OpenOptions::new().read(true).custom_flags(flags).open(&pipe).unwrap();
        let mut all = Lines::open(&pipe, 1, 1).unwrap();
        // A line of almost three pages; a pipe has sixteen.
        let long = |sequence| Incident { peer: "x".repeat(11_500), ..incident(sequence) };
        let said: Vec<String> = (0..1_000).filter_map(|number| all.write(long(number))).collect();
        assert!(matches!(&said[..], [one] if one.contains("pipe: who reads them is too slow; measuring")), "{said:?}");
        let Counts { written, failed, .. } = all.counts;
        assert_eq!(written + failed, 1_000);
        // Reading ends with an error, as there may be more later.
        let mut read = Vec::new();
        assert!(reader.read_to_end(&mut read).is_err());
        assert_eq!(all.write(long(1_000)), None);
        assert!(reader.read_to_end(&mut read).is_err());
        let line = |line: &str| serde_json::from_str::<serde_json::Value>(line).expect("a line is JSON")["sequence"].as_u64();
        let kept: Vec<Option<u64>> = String::from_utf8(read).unwrap().lines().map(line).collect();
        assert_eq!(kept, (0..written).chain([1_000]).map(Some).collect::<Vec<_>>());
    }

    #[test]
    fn lines_go_after_those_of_earlier_runs_and_into_no_other_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("incidents.jsonl");
        for number in 0..2 {
            assert_eq!(Lines::open(&path, 1_000_000, 10).unwrap().write(incident(number)), None);
        }
        assert_eq!(lines(&path), [(0, 0), (1, 0)]);
        // The part of a line stays a line of its own.
        File::options().append(true).open(&path).unwrap().write_all(b"{\"schema\":\"hair").unwrap();
        assert_eq!(Lines::open(&path, 1_000_000, 10).unwrap().write(incident(2)), None);
        assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 4);
        let other = directory.path().join("notes");
        fs::write(&other, "my notes\n").unwrap();
        let refused = Lines::open(&other, 1_000_000, 10).unwrap_err();
        assert!(refused.contains("notes") && refused.contains("--incidents"), "{refused}");
        assert_eq!(fs::read_to_string(&other).unwrap(), "my notes\n");
        let pipe = directory.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        assert!(Lines::open(&pipe, 1, 1).is_err(), "a pipe that nobody reads");
    }
}
