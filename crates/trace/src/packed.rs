//! The BPF objects, packed by `build.rs`.

use std::io::Read;

use flate2::read::ZlibDecoder;

/// Compiled from `attached.bpf.c` by `scripts/bpf.sh`.
pub static ATTACHED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/attached"));
/// Compiled from `events.bpf.c`.
pub static EVENTS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/events"));
/// Compiled from `stages.bpf.c`.
pub static STAGES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/stages"));

/// The object as the compiler wrote it.
pub fn unpack(packed: &[u8]) -> Vec<u8> {
    let mut object = Vec::new();
    ZlibDecoder::new(packed).read_to_end(&mut object).expect("build.rs packed it, as a test holds");
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_object_comes_back_whole() {
        for (packed, object) in [
            (ATTACHED, &include_bytes!("../bpf/attached.bpf.o")[..]),
            (EVENTS, &include_bytes!("../bpf/events.bpf.o")[..]),
            (STAGES, &include_bytes!("../bpf/stages.bpf.o")[..]),
        ] {
            assert!(unpack(packed) == object && 3 * packed.len() < object.len());
        }
    }
}
