//! Any bytes are an entry of the journal or none, and whatever it names is a place that hairpin writes.
#![no_main]

use hairpin_tune::journal::Entry;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(entry) = Entry::parse(bytes) {
        assert!(entry.changes.iter().all(|change| change.address.is_allowed()));
    }
});
