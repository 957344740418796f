//! Any bytes as a pcap file: an error, or frames that lie one behind the other in it.
#![no_main]

use hairpin_packet::pcap::PcapFile;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    match PcapFile::parse(bytes.to_vec()) {
        Ok(file) => {
            let inside = 24 + file.frames().map(|(_, frame)| 16 + frame.len()).sum::<usize>();
            // Bit 26 of the last word of the header, in either byte order: frames end with an FCS, which is left out.
            let fcs_told = (bytes[20] | bytes[23]) & 4 != 0;
            assert!(inside == bytes.len() || (fcs_told && inside < bytes.len()));
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
