//! Records as JSON: on one line, or a field per line where a person reads them on a terminal.

use std::io::{IsTerminal, stdout};

use serde::Serialize;

/// The types are structs and maps with text as keys, and text is what serde_json needs as a key.
const ALWAYS: &str = "records have text keys only";

/// The record for stdout: a field per line on a terminal, on one line in a file or a pipe.
pub fn json(record: &(impl Serialize + ?Sized)) -> String {
    if stdout().is_terminal() { serde_json::to_string_pretty(record).expect(ALWAYS) + "\n" } else { json_line(record) }
}

/// The record on one line, as `--json-stream` has them.
pub fn json_line(record: &(impl Serialize + ?Sized)) -> String {
    serde_json::to_string(record).expect(ALWAYS) + "\n"
}
