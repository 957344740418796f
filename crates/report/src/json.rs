//! Records as JSON: `hairpin.run/1` whole or on one line, `hairpin.progress/1` on one line, any other whole.

use hairpin_record::run::Run;
use hairpin_record::stream::Progress;

/// The types are structs and maps with text as keys, and text is what serde_json needs as a key.
const ALWAYS: &str = "records have text keys only";

/// The run, a field per line.
pub fn json(run: &Run) -> String {
    serde_json::to_string_pretty(run).expect(ALWAYS) + "\n"
}

/// The run on one line: the last of a `--json-stream`.
pub fn json_line(run: &Run) -> String {
    serde_json::to_string(run).expect(ALWAYS) + "\n"
}

/// One line per second of a `--json-stream`.
pub fn progress_line(progress: &Progress) -> String {
    serde_json::to_string(progress).expect(ALWAYS) + "\n"
}

/// Any other record, a field per line.
pub fn document<T: serde::Serialize>(record: &T) -> String {
    serde_json::to_string_pretty(record).expect(ALWAYS) + "\n"
}
