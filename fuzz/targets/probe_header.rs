//! Any payload has a sequence within its mask, and a written sequence is read back.
#![no_main]

use hairpin_wire::probe::{LEN, cookie, sequence, sequence_mask, write};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u32, u64, Vec<u8>)| {
    let (number, secret, mut payload) = input;
    assert!(sequence(&payload) <= sequence_mask(payload.len()));
    assert_eq!(cookie(&payload).is_some(), payload.len() >= LEN);
    let rest = payload.get(LEN..).map(<[u8]>::to_vec);
    write(&mut payload, number, secret);
    assert_eq!(sequence(&payload), number & sequence_mask(payload.len()));
    assert_eq!(cookie(&payload), (payload.len() >= LEN).then_some(secret));
    assert_eq!(payload.get(LEN..).map(<[u8]>::to_vec), rest);
});
