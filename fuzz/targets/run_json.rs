//! Any bytes are a run's record or none, and records of several schemas or none; a run that is read, written and read again stays
//! the same.
#![no_main]

use hairpin_record::any::AnyRecord;
use hairpin_record::run::Run;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = AnyRecord::all(bytes);
    if let Ok(run) = serde_json::from_slice::<Run>(bytes) {
        let text = serde_json::to_string(&run).expect("what was JSON is JSON");
        let again: Run = serde_json::from_str(&text).expect("what was written is read");
        assert_eq!(serde_json::to_string(&again).expect("what was JSON is JSON"), text);
    }
});
