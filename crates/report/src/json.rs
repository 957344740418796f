//! Records as JSON: a field per line for a person, on one line for a program.

use serde::Serialize;

/// serde_json fails only on map keys that are not text, and records have none.
const ALWAYS: &str = "records have text keys only";

/// The record, a field per line.
pub fn json(record: &(impl Serialize + ?Sized)) -> String {
    serde_json::to_string_pretty(record).expect(ALWAYS) + "\n"
}

/// The record on one line: for a file, a pipe, `--json-stream`.
pub fn json_line(record: &(impl Serialize + ?Sized)) -> String {
    serde_json::to_string(record).expect(ALWAYS) + "\n"
}
