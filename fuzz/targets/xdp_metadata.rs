//! Any bytes in front of a frame are metadata or none; what is not marked as valid, and as the program's own, is not told.
#![no_main]

use hairpin_packet::af_xdp::metadata::{BYTES, Known, OURS, read};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|in_front: &[u8]| {
    let known = read(in_front);
    let Some(valid) = in_front.last_chunk::<BYTES>().map(|bytes| bytes[BYTES - 4..].to_vec()) else {
        assert_eq!(known, Known::default());
        return;
    };
    let valid = u32::from_ne_bytes(valid.try_into().expect("four bytes"));
    let told = |bit: u32| valid & !7 == OURS && valid & bit != 0;
    assert_eq!((known.time.is_some(), known.hash.is_some()), (told(1), told(2)));
    assert!(known.vlan.is_none_or(|vlan| told(4) && vlan.protocol() != 0));
});
