use hairpin_sys::clock::FakeClock;
use proptest::prelude::*;

use super::*;
use crate::device::Config;
use crate::io::Vlan;
use crate::memory::{MemoryIo, pair};
use crate::ring::{Injected, Received, Ring, RingConfig};

fn memory() -> (MemoryIo, MemoryIo) {
    pair(&Config { chunks: 64, ring_entries: 16, ..Config::default() }).unwrap()
}

/// A file of `frames`, as [`PcapOut`] writes it.
fn file(frames: &[(u64, &[u8])]) -> Vec<u8> {
    let mut out = PcapOut::new(memory().0, Vec::new()).unwrap();
    for (ns, bytes) in frames {
        let mut frame = out.pool().take().unwrap();
        frame.set_len(bytes.len());
        out.umem().bytes_mut(&mut frame).copy_from_slice(bytes);
        let arrival = Arrival { frame, time: Some(Arrived::Hardware(*ns)), hash: None, vlan: None };
        out.write(&arrival);
        out.pool().give(arrival.frame);
    }
    assert_eq!(out.written, frames.len() as u64);
    out.file.into_inner().unwrap()
}

const SAMPLE: &[(u64, &[u8])] = &[(1_700_000_000_123_456_789, &[1; 60]), (0, &[]), (u32::MAX as u64 * 1_000_000_000, &[2; 1514])];

#[test]
fn the_format_is_fixed() {
    let bytes = file(&[(5_000_000_007, b"abc")]);
    let expected = "4d3cb2a1 02000400 00000000 00000000 00080000 01000000 05000000 07000000 03000000 03000000 616263";
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, expected.replace(' ', ""));
}

#[test]
fn reads_what_it_writes_in_either_byte_order_and_unit() {
    let bytes = file(SAMPLE);
    let read = PcapFile::parse(bytes.clone()).unwrap();
    assert_eq!(read.frames().collect::<Vec<_>>(), SAMPLE);
    // The same file from a host of the other byte order, in microseconds.
    let mut other = bytes;
    let mut at = 0;
    let mut swap = |at: usize| other[at..at + 4].reverse();
    for word in [0, 16, 20] {
        swap(word);
    }
    at += HEADER;
    for (_, frame) in SAMPLE {
        for word in 0..4 {
            swap(at + 4 * word);
        }
        at += RECORD + frame.len();
    }
    other[..4].copy_from_slice(&MICROS.to_be_bytes());
    let times: Vec<u64> = PcapFile::parse(other).unwrap().frames().map(|(ns, _)| ns).collect();
    assert_eq!(times[0], 1_700_000_000_000_000_000 + 123_456_789_000);
}

#[test]
fn an_fcs_whose_length_is_told_is_no_part_of_a_frame() {
    let mut bytes = file(&[(7, &[1; 64])]);
    // Two units of 16 bits; then the same without the bit that says so. Readers ignore the bits between.
    for (described, len) in [(0x2d55_0001_u32, 60), (0x2955_0001, 64)] {
        bytes[20..24].copy_from_slice(&described.to_le_bytes());
        let read = PcapFile::parse(bytes.clone()).unwrap();
        assert_eq!(read.frames().collect::<Vec<_>>(), [(7, &[1_u8; 64][..len])]);
    }
}

#[test]
fn writes_the_tag_that_the_device_took_out() {
    let mut out = PcapOut::new(memory().0, Vec::new()).unwrap();
    let untagged: Vec<u8> = (0..60).collect();
    let mut frame = out.pool().take().unwrap();
    frame.set_len(60);
    out.umem().bytes_mut(&mut frame).copy_from_slice(&untagged);
    let arrival = Arrival { frame, time: Some(Arrived::Hardware(1)), hash: None, vlan: Vlan::new(0x8100, 0x6005) };
    out.write(&arrival);
    out.pool().give(arrival.frame);
    let read = PcapFile::parse(out.file.into_inner().unwrap()).unwrap();
    let tagged = [&untagged[..12], &[0x81, 0, 0x60, 5][..], &untagged[12..]].concat();
    assert_eq!(read.frames().collect::<Vec<_>>(), [(1, &tagged[..])]);
}

#[test]
fn rejects_wrong_and_truncated_files() {
    let error = |bytes: &[u8]| PcapFile::parse(bytes.to_vec()).unwrap_err().to_string();
    let good = file(SAMPLE);
    assert_eq!(error(b"GIF89a"), "this is not a pcap file: it begins with [47, 49, 46, 38]");
    assert_eq!(error(b""), "this is not a pcap file: it begins with []");
    assert!(error(&[0x0a, 0x0d, 0x0d, 0x0a]).contains("pcapng"));
    assert_eq!(
        error(&good[..20]),
        "the file ends in the middle of record 0, after 20 bytes: it was cut, or is still being written"
    );
    assert!(error(&good[..good.len() - 1]).contains("record 3"));
    assert!(error(&good[..HEADER + 5]).contains("record 1"));
    let with = |at: usize, word: u32| {
        let mut bytes = good.clone();
        bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
        error(&bytes)
    };
    assert_eq!(with(20, 113), "the frames in this file have link type 113, not Ethernet (1)");
    assert_eq!(with(HEADER + 12, 61), "record 1 holds 60 of the frame's 61 bytes: capture whole frames (tcpdump -s 0)");
    assert!(with(HEADER + 8, u32::MAX).contains("claims a frame of 4294967295 bytes"));
    assert!(PcapFile::read(Path::new("/nowhere/x.pcap")).unwrap_err().to_string().starts_with("cannot read /nowhere/x.pcap"));
}

#[test]
fn plays_a_file_and_then_receives_from_the_device_below() {
    let (one, other) = memory();
    let mut long = file(&[(9, &[3; 60])]);
    // Longer than a chunk of this ring: counted and left out.
    long.extend_from_slice(&[0, 0, 0, 0, 0, 0, 0, 0, 1, 8, 0, 0, 1, 8, 0, 0]);
    long.extend(vec![0; 2049]);
    let other = Ring::new(PcapIn::new(other, PcapFile::parse(long).unwrap()), FakeClock::default(), RingConfig::default());
    let one = Ring::new(one, FakeClock::default(), RingConfig::default());
    assert_eq!(one.sender().inject(&[4; 60]).unwrap(), Injected::Sent);
    let next = || match other.recv(0).unwrap() {
        Received::Got(lease) => Some((lease[0], lease.len(), lease.time())),
        _ => None,
    };
    assert_eq!(next(), Some((3, 60, Some(Arrived::Software(9)))));
    assert_eq!((next(), next()), (Some((4, 60, None)), None));
    let counters = other.counters().io;
    assert_eq!((counters.rx_frames, counters.rx_bytes, counters.rx_too_long), (2, 120, 1));
    assert_eq!(other.into_io().into_inner().pool().available(), 64);
}

#[test]
fn writes_the_receive_time_where_there_is_no_timestamp() {
    let (one, other) = memory();
    let one = Ring::new(one, FakeClock::default(), RingConfig::default());
    let path = tempfile::NamedTempFile::new().unwrap();
    let out = PcapOut::new(other, path.reopen().unwrap()).unwrap();
    let other = Ring::new(out, FakeClock::default(), RingConfig::default());
    for n in 0..3 {
        assert_eq!(one.sender().inject(&[n; 60]).unwrap(), Injected::Sent);
        assert!(matches!(other.recv(0), Ok(Received::Got(_))));
    }
    assert_eq!(other.into_io().finish().unwrap().1, 3);
    let read = PcapFile::read(path.path()).unwrap();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as u64;
    for (n, (ns, frame)) in read.frames().enumerate() {
        assert_eq!(frame, [n as u8; 60]);
        assert!(now.abs_diff(ns) < 60_000_000_000);
    }
}

#[test]
fn finish_returns_the_first_failed_write() {
    struct Full(usize);
    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = self.0.checked_sub(bytes.len()).ok_or(io::ErrorKind::StorageFull)?;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let (one, other) = memory();
    let one = Ring::new(one, FakeClock::default(), RingConfig::default());
    let other = Ring::new(PcapOut::new(other, Full(70_000)).unwrap(), FakeClock::default(), RingConfig::default());
    for _ in 0..100 {
        assert_eq!(one.sender().inject(&[1; 1514]).unwrap(), Injected::Sent);
        assert!(matches!(other.recv(0), Ok(Received::Got(_))));
    }
    assert_eq!(other.into_io().finish().map(|_| ()).unwrap_err().kind(), io::ErrorKind::StorageFull);
}

proptest! {
    #[test]
    fn any_bytes_are_frames_within_the_file_or_an_error(
        head in prop::sample::select(vec![MICROS.to_le_bytes(), NANOS.to_le_bytes(), NANOS.to_be_bytes(), [0; 4]]),
        rest in prop::collection::vec(prop_oneof![3 => Just(0u8), 1 => any::<u8>()], 0..200),
        ethernet: bool,
    ) {
        let mut bytes = [&head[..], &rest].concat();
        if ethernet && bytes.len() >= HEADER {
            bytes[20..24].copy_from_slice(&if head[0] == 0xa1 { ETHERNET.to_be_bytes() } else { ETHERNET.to_le_bytes() });
        }
        let len = bytes.len();
        if let Ok(file) = PcapFile::parse(bytes) {
            let frames = file.frames().map(|(_, frame)| frame.len() + RECORD).sum::<usize>() + HEADER;
            // Random bits of the link type may tell an FCS.
            prop_assert!(frames == len || (!ethernet && frames < len));
        }
    }
}
