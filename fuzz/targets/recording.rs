//! Any bytes as a recording of requests: refused with file and line, or ascending times from 0 and sizes that some path carries.
#![no_main]

use hairpin_plan::replay::{parse, per_s};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    match parse("file", bytes) {
        Ok(arrivals) => {
            assert!(arrivals.len() >= 2 && arrivals[0].at_ns == 0);
            assert!(arrivals.is_sorted_by_key(|one| one.at_ns));
            assert!(arrivals.iter().all(|one| (1..=65_536).contains(&one.size)));
            assert!(per_s(&arrivals) > 0.0 && per_s(&arrivals).is_finite());
        }
        Err(error) => assert!(error.to_string().starts_with("file")),
    }
});
