//! Any bytes as replies under each rule: the same lengths, and the same refusal, however the stream is cut.
#![no_main]

use hairpin_plan::request::Request;
use libfuzzer_sys::fuzz_target;

use reader::Reader;

// The crate keeps it to itself.
#[allow(dead_code)]
#[path = "../../crates/iopath/src/own_request/reader.rs"]
mod reader;

const RULES: [&str; 8] = ["7", r"\r\n", r"\x0110=+4", "length-prefix:2", "length-prefix:4le-4", "length-prefix:8", "http", "resp"];

fn lengths(end: &str, stream: &[u8], step: usize) -> Result<Vec<usize>, String> {
    let end = end.parse().expect("a rule");
    let mut reader = Reader::new(&Request { name: String::new(), bytes: b"GET".to_vec(), end, tls: None }, 4096);
    let (mut from, mut found) = (0, Vec::new());
    let cuts = (step..stream.len()).step_by(step).chain([stream.len()]);
    for cut in cuts {
        while let Some(length) = reader.whole(&stream[from..cut])? {
            assert!(length > 0 && from + length <= cut);
            from += length;
            found.push(length);
        }
    }
    Ok(found)
}

fuzz_target!(|bytes: &[u8]| {
    let Some((which, stream)) = bytes.split_first() else { return };
    let rule = RULES[usize::from(*which) % RULES.len()];
    let whole = lengths(rule, stream, stream.len().max(1));
    assert_eq!(lengths(rule, stream, 1), whole);
    assert_eq!(lengths(rule, stream, 3), whole);
});
