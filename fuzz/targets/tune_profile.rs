//! Any text is a profile or none; a profile's settings are settings.
#![no_main]

use hairpin_tune::profile::ProfileFile;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(profile) = ProfileFile::parse(text) {
        assert!(profile.settings().is_ok());
        let _ = ProfileFile::parse(&profile.text());
    }
});
