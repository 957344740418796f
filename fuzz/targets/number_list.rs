//! Any text is a bounded list of numbers or none.
#![no_main]

use hairpin_units::list::{MAX_LEN, parse};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(numbers) = parse(text) {
        assert!((1..=MAX_LEN).contains(&numbers.len()));
    }
});
