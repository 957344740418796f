//! Any bytes as a pcap file: an error, or frames that lie one behind the other in it.
#![no_main]

use hairpin_packet::pcap::PcapFile;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    match PcapFile::parse(bytes.to_vec()) {
        Ok(file) => {
            let inside: usize = file.frames().map(|(_, frame)| 16 + frame.len()).sum();
            assert_eq!(24 + inside, bytes.len());
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
