//! Any bytes written by the other side of an emulated NIC into the shared memory, between this side's calls:
//! no panic, every delivered frame is one that the device can carry, and no chunk is lost.
#![no_main]

use std::fs::File;
use std::os::unix::fs::FileExt;

use hairpin_packet::io::{Kick, PacketIo};
use hairpin_packet::niq::{Config, Port};
use libfuzzer_sys::fuzz_target;

const LONGEST: usize = 200;
const CHUNKS: u32 = 32;

fuzz_target!(|bytes: &[u8]| {
    let config = Config { ring_entries: 8, longest_frame: LONGEST, chunks: CHUNKS, ..Config::default() };
    let (mut ports, mut descriptors) = Port::create(&config).expect("memory");
    let mut io = ports.pop().expect("a port");
    let memory = File::from(descriptors.remove(0));
    let length = memory.metadata().expect("a length").len();
    let (mut frames, mut arrivals) = (Vec::new(), Vec::new());
    for act in bytes.chunks(12) {
        match act[0] % 5 {
            0 => {
                if let Some(mut frame) = io.pool().take() {
                    frame.set_len(2 * usize::from(act[0]));
                    frames.push(frame);
                }
                io.tx_batch(&mut frames);
                let _ = io.kick(Kick::Send);
            }
            1 => {
                io.rx_batch(&mut arrivals, 64);
                for arrival in arrivals.drain(..) {
                    assert!(arrival.frame.len() <= LONGEST);
                    io.pool().give(arrival.frame);
                }
                let _ = io.kick(Kick::Receive);
            }
            2 => {
                io.waitable();
            }
            // A place behind the header, and the bytes to write there.
            _ if act.len() > 3 => {
                let at = 4096 + u64::from(u16::from_le_bytes([act[1], act[2]])) % (length - 4096 - 9);
                memory.write_all_at(&act[3..], at).expect("written");
            }
            _ => {}
        }
    }
    frames.drain(..).for_each(|frame| io.pool().give(frame));
    assert_eq!(io.pool().available(), CHUNKS as usize);
});
