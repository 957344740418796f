//! Any text is a histogram or none; its quantiles can be asked for.
#![no_main]

use hairpin_record::histogram::Decoded;
use hairpin_units::Quantile;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(times) = Decoded::decode(text) {
        for q in [Quantile::P50, Quantile::P90, Quantile::P99, Quantile::P999] {
            assert_eq!(times.quantile(q).is_some(), q.is_supported_by(times.count()));
        }
    }
});
