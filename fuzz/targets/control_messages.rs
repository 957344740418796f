//! Any control data ends, and what is read of it does not change when more control data follows that says nothing.
#![no_main]

use hairpin_sys::timestamping::parse;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let found = parse(bytes);
    assert!(found.software != Some(0) && found.hardware != Some(0), "zero stands for no stamp");
    // Cut anywhere, it says no more than the whole.
    for cut in 0..bytes.len().min(64) {
        let part = parse(&bytes[..cut]);
        assert!(part.software.is_none() || found.software.is_some());
        assert!(part.hardware.is_none() || found.hardware.is_some());
        assert!(part.sent.is_none() || found.sent.is_some());
    }
});
