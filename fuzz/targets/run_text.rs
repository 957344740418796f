//! Any RUN text resolves or is refused, and only an id's own form is an id.
#![no_main]

use hairpin_lab::store::{RunId, Store};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Some(id) = RunId::parse(text) {
        assert_eq!(id.as_str(), text);
        assert!(!text.contains(['/', '.', '\0']));
    }
    // A text without a slash could name a file of the working directory: that is found, and never read.
    let _ = Store::open("/nonexistent").resolve(text);
});
