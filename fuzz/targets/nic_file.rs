//! Any text as a NIC design: refused with line and column, or a model whose stages add up to its floor.
#![no_main]

use hairpin_model::nic_file::parse;
use hairpin_model::waterfall::{Link, Size, floor};
use hairpin_record::floor::Span;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    match parse(text) {
        Ok(nic) => {
            for size in [Size::Frame(60), Size::Frame(1514), Size::Payload(1), Size::Payload(9000)] {
                if let Ok(floor) = floor(&nic, Some(size), &Link::default()) {
                    assert_eq!(floor.stages.iter().map(|stage| stage.time).sum::<Span>(), floor.one_way());
                }
            }
        }
        Err(error) => assert!(error.line >= 1 && error.column >= 1),
    }
});
