//! Records as JSON: whole, a field per line, or on one line each.

use serde::Serialize;

/// The types are structs and maps with text as keys, and text is what serde_json needs as a key.
const ALWAYS: &str = "records have text keys only";

/// The record, a field per line.
pub fn json(record: &impl Serialize) -> String {
    serde_json::to_string_pretty(record).expect(ALWAYS) + "\n"
}

/// The record on one line: the last of a `--json-stream`.
pub fn json_line(record: &impl Serialize) -> String {
    serde_json::to_string(record).expect(ALWAYS) + "\n"
}

/// One line per second of a `--json-stream`.
pub fn progress_line(line: &impl Serialize) -> String {
    serde_json::to_string(line).expect(ALWAYS) + "\n"
}
