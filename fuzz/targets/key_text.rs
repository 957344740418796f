//! Any text is a key or none; a key's text stands for it.
#![no_main]

use hairpin_session::key::Key;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(key) = Key::parse(text) {
        assert!(Key::parse(&key.to_text()) == Ok(key));
    }
});
