//! Follows the output of `hairpin ping --json-stream`, from a growing file or a pipe, and updates the state of a view.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::time::Duration;

use hairpin_lab::store::MAX_RECORD;
use hairpin_record::head::Body;
use hairpin_record::progress::Progress;
use hairpin_record::run::Run;
use serde::Deserialize;

use crate::screen::{Shared, lock};

/// Interval at which a file without new data is checked.
const LOOK_EVERY: Duration = Duration::from_millis(200);

#[derive(Deserialize)]
struct Head {
    schema: String,
}

/// True if the file is output of `--json-stream`, by its name or its first line, or a pipe, which can be read only once.
pub fn is_stream(file: &Path) -> bool {
    if file.metadata().is_ok_and(|facts| !facts.is_file() && !facts.is_dir()) {
        return true;
    }
    let mut first = String::new();
    let read = |first: &mut String| BufReader::new(File::open(file)?).take(MAX_RECORD).read_line(first);
    let by_name = file.extension().is_some_and(|extension| extension == "jsonl") && file.exists();
    by_name
        || (read(&mut first).is_ok() && serde_json::from_str::<Head>(&first).is_ok_and(|head| head.schema == Progress::SCHEMA))
}

/// Reads lines until the run's record, or until a pipe ends. With `grows`, more may come after the end of the file.
pub fn follow(stream: impl Read, grows: bool, state: &Shared) {
    if let Err(error) = read(BufReader::new(stream), grows, state) {
        lock(state).note(&format!("cannot read on: {error}"));
    }
}

fn read(mut stream: impl BufRead, grows: bool, state: &Shared) -> io::Result<()> {
    let mut line = Vec::new();
    loop {
        // The length of a line is limited, so a stream without line ends cannot fill the memory.
        let room = (MAX_RECORD + 1).saturating_sub(line.len() as u64);
        let read = stream.by_ref().take(room).read_until(b'\n', &mut line)?;
        let whole = line.ends_with(b"\n");
        if !whole && line.len() as u64 > MAX_RECORD {
            return Err(io::Error::other(format!("a line is longer than {MAX_RECORD} bytes")));
        }
        if whole || (read == 0 && !grows && !line.is_empty()) {
            if take(&line, state) {
                return Ok(());
            }
            line.clear();
        } else if read == 0 && grows {
            std::thread::sleep(LOOK_EVERY);
        } else if read == 0 {
            lock(state).note("the stream ended without the run's record; the run was killed, or is another program's");
            return Ok(());
        }
    }
}

/// Handles a line; true if it is the last.
fn take(line: &[u8], state: &Shared) -> bool {
    if line.trim_ascii().is_empty() {
        return false;
    }
    match serde_json::from_slice::<Head>(line).map(|head| head.schema) {
        Ok(schema) if schema == Progress::SCHEMA => match serde_json::from_slice::<Progress>(line) {
            Ok(progress) => lock(state).progress(&progress),
            Err(error) => lock(state).note(&format!("a line of {schema} cannot be read: {error}")),
        },
        Ok(schema) if schema == Run::SCHEMA => {
            match Run::parse(line) {
                Ok(run) => lock(state).ends_with(&run),
                Err(error) => lock(state).note(&format!("the run's record cannot be read: {error}")),
            }
            return true;
        }
        Ok(schema) => lock(state)
            .note(&format!("a line of schema {schema} cannot be watched: the output of hairpin ping --format jsonl can")),
        Err(_) => lock(state).note("a line is not JSON: the output of hairpin ping --format jsonl can be watched"),
    }
    false
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::AsRawFd;
    use std::sync::{Arc, Mutex};

    use hairpin_report::watch::{Source, State};

    use super::*;

    fn state() -> Shared {
        Arc::new(Mutex::new(State::new(Source::Stream, "test")))
    }

    #[test]
    fn reads_any_stream_to_its_end() {
        for text in ["", "\n\n", "nonsense", "{}", "{\"schema\":\"hairpin.progress/1\"}\n", "{\"schema\":\"x\"}\n\u{1b}[2J\n"] {
            let state = state();
            follow(text.as_bytes(), false, &state);
            assert!(lock(&state).version() > 0, "{text:?}: something is said");
        }
    }

    #[test]
    fn a_pipe_is_recognised_without_reading_it() {
        let (mut reads, mut writes) = std::io::pipe().unwrap();
        writes.write_all(b"a line\n").unwrap();
        drop(writes);
        let by_name = format!("/dev/fd/{}", reads.as_raw_fd());
        assert!(is_stream(Path::new(&by_name)));
        let mut text = String::new();
        reads.read_to_string(&mut text).unwrap();
        assert_eq!(text, "a line\n");
        assert!(!is_stream(Path::new("/")) && !is_stream(Path::new("/no/such/file")));
    }

    #[test]
    fn a_progress_line_changes_the_state() {
        let line = Progress { schema: Progress::SCHEMA.into(), path: "udp/udp".into(), ..Progress::default() };
        let text = serde_json::to_string(&line).unwrap() + "\n";
        let state = state();
        assert!(!take(text.as_bytes(), &state));
        assert_eq!(lock(&state).version(), 1);
    }
}
