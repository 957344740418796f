//! Any bytes as a frame: every filter answers, a bouncer sends it back or counts the reason, and two rewrites
//! restore the frame.
#![no_main]

use hairpin_packet::bounce::{Bounce, BounceConfig, Rewrite};
use hairpin_packet::filter::Filter;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((choice, frame)) = bytes.split_first() else { return };
    let filter = match choice % 4 {
        0 => Filter::All,
        1 => Filter::Ethertype(0x0800),
        2 => Filter::Ethertype(0x86dd),
        _ => Filter::Udp { first: 1, last: 1 + u16::from(*choice) },
    };
    for rewrite in [Rewrite::None, Rewrite::Macs, Rewrite::All] {
        let config = BounceConfig { filter, rewrite, verify: true, repeats: Some(1) };
        let mut bounce = Bounce::new(config).expect("a random key");
        let mut back = frame.to_vec();
        let passed = bounce.passes(&mut back);
        let counters = bounce.counters();
        assert_eq!((counters.rx_frames, counters.dropped()), (1, u64::from(!passed)));
        if passed {
            assert!(filter.takes(frame) && back[0] & 1 == 0);
            let mut again = Bounce::new(BounceConfig { filter: Filter::All, ..config }).expect("a random key");
            let mut twice = back.clone();
            assert!(again.passes(&mut twice), "what came from a station goes back to one");
            assert_eq!(twice, frame);
            // Swapping leaves every checksum as right or as wrong as it was.
            assert_eq!(again.counters().wrong_checksum, counters.wrong_checksum);
            assert!(!bounce.passes(&mut frame.to_vec()), "once is the limit here");
        } else {
            assert_eq!(back, frame);
        }
    }
});
