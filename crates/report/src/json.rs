//! Records as JSON: indented on a terminal, on one line elsewhere.

use std::io::{IsTerminal, stdout};

use serde::Serialize;

/// serde_json fails only on map keys that are not text, and records have none.
const ALWAYS: &str = "records have text keys only";

/// The record for stdout: one field per line on a terminal, all on one line in a file or a pipe.
pub fn json(record: &(impl Serialize + ?Sized)) -> String {
    if stdout().is_terminal() { serde_json::to_string_pretty(record).expect(ALWAYS) + "\n" } else { json_line(record) }
}

/// The record on one line, as in `--json-stream`.
pub fn json_line(record: &(impl Serialize + ?Sized)) -> String {
    serde_json::to_string(record).expect(ALWAYS) + "\n"
}
