//! Any text is a state of chrony or of ptp4l or none; a state has a bound that another host takes.
#![no_main]

use hairpin_session::time_source::{Told, chrony, ptp4l};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let of_chrony = chrony::tracking(text).and_then(|tracking| chrony::state(&tracking));
    let of_ptp = ptp4l::state(text, &mut |_| Ok((-37_000_000_000, 500.0))).and_then(ptp4l::Ptp::of_realtime);
    for state in [of_chrony, of_ptp] {
        let told = Told { boot_id: String::new(), raw_ns: 0, state };
        let bounded = told.state.as_ref().is_ok_and(|state| state.error_ns <= 3.6e12);
        assert!(!bounded || told.clone().checked().is_ok(), "{told:?}");
    }
    // What another host tells.
    if let Ok(told) = serde_json::from_str::<Told>(text) {
        let _ = told.checked();
    }
});
