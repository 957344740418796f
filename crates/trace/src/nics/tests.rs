use hairpin_record::run::Side;
use hairpin_sys::clock::{Relation, Ticks};
use hairpin_sys::phc::Point;
use hairpin_sys::shared::Which;
use proptest::prelude::*;

use super::*;
use PartName::{Beyond, Client, ClientIn, ClientOut, Hosts, Server, ServerIn, ServerOut, TurnAround, Wire};

/// CLOCK_REALTIME of the client's host at tick 0, and of the server's, and the clock of a NIC.
const HERE: u64 = 1_700_000_000_000_000_000;
const THERE: u64 = 1_600_000_000_000_000_000;
const NIC: u64 = 55_000_000;

fn relation(ticks: u64, realtime: u64) -> Relation {
    let (monotonic_less_raw_ns, realtime_less_raw_ns) = (0, (realtime - ticks) as i64);
    Relation { ticks: Ticks(ticks), raw_ns: ticks, monotonic_less_raw_ns, realtime_less_raw_ns, width: 0, step_ns: 0.0 }
}

/// One tick per ns.
fn clocks(realtime: u64, nic: bool) -> Clocks {
    let point = |ticks: u64| Point { ticks: Ticks(ticks), nic_ns: NIC + ticks, width_ns: 0 };
    let long = 10_000_000;
    Clocks::new(1.0, nic.then(|| [point(0), point(long)]), [&relation(0, realtime), &relation(long, realtime + long)])
}

/// The six stamps of a transaction, in ns from its beginning.
#[derive(Clone, Copy)]
struct Six {
    out: u64,
    reached: u64,
    received: u64,
    answered: u64,
    left: u64,
    came: u64,
    returned: u64,
}

const SIX: Six = Six { out: 900, reached: 2_000, received: 3_500, answered: 3_600, left: 4_100, came: 5_300, returned: 7_000 };

/// The client's stamps of a transaction that began at tick `at`, by software.
fn of_client(sequence: u32, at: u64, six: Six) -> (Stamp, Vec<Packet>) {
    let stamp = Stamp { sequence, first: Ticks(at), second: Ticks(at + six.returned) };
    let packet = |which, ns| Packet { which, at: HERE + at + ns, sequence };
    (stamp, vec![packet(Which::SoftwareOut, six.out), packet(Which::SoftwareIn, six.came)])
}

/// The server's half of it, by software. Its program's clock and CLOCK_REALTIME are others than the client's.
fn of_server(sequence: u32, at: u64, six: Six) -> Half {
    let stamp = Stamp { sequence, first: Ticks(at + six.received), second: Ticks(at + six.answered) };
    let packet = |which, ns| Packet { which, at: THERE + at + ns, sequence };
    let mut gather = Gather::new();
    gather.add(&[stamp], &[packet(Which::SoftwareIn, six.reached), packet(Which::SoftwareOut, six.left)], 1, true);
    let own = *gather.news().next().unwrap();
    half(&own, &clocks(THERE, false))
}

/// The split of transactions in one block.
fn split(all: &[(u32, Six)]) -> Split {
    let (mut stamps, mut packets, mut halves) = (Vec::new(), Vec::new(), Vec::new());
    for (sequence, six) in all {
        let at = 10_000 * u64::from(*sequence);
        let (stamp, mut own) = of_client(*sequence, at, *six);
        stamps.push(stamp);
        packets.append(&mut own);
        halves.push(of_server(*sequence, at, *six));
    }
    let mut nics = Nics::new();
    nics.block((&stamps, &packets), halves, Some(clocks(HERE, false)), 1, true);
    nics.finish(Counts::default(), 1, &Why::default())
}

fn typical(split: &Split, part: PartName) -> f64 {
    split.part(part).map_or(f64::NAN, |part| part.typical_ns)
}

#[test]
fn six_stamps_make_six_parts_without_comparing_clocks_of_two_hosts() {
    let split = split(&[(1, SIX), (2, SIX), (3, SIX)]);
    let parts = [ClientOut, Wire, ServerIn, TurnAround, ServerOut, ClientIn].map(|part| typical(&split, part));
    assert_eq!(parts, [900.0, 2_300.0, 1_500.0, 100.0, 500.0, 1_700.0]);
    assert_eq!((parts.iter().sum::<f64>(), split.typical.rtt_ns), (7_000.0, 7_000.0));
    assert_eq!([Client, Server, Hosts, Beyond].map(|part| typical(&split, part)), [2_600.0, 2_100.0, 4_700.0, 4_400.0]);
    assert_eq!((split.counts.transactions, split.counts.complete, split.counts.missing, split.typical.count), (3, 3, 0, 3));
    assert_eq!([split.layer(Side::Client), split.layer(Side::Server)], [Layer::Software; 2]);
    assert!(split.stamps.iter().all(|of| of.software == 3 && of.why.contains("no stamp of a NIC came")), "{:?}", split.stamps);
}

#[test]
fn a_delay_is_seen_where_it_was_made() {
    let before = split(&[(1, SIX)]);
    // Each stamp and those after it, 700 ns later.
    let later = |from: usize| {
        let at = |place: usize| if place >= from { 700 } else { 0 };
        let Six { out, reached, received, answered, left, came, returned } = SIX;
        Six {
            out: out + at(0),
            reached: reached + at(1),
            received: received + at(2),
            answered: answered + at(3),
            left: left + at(4),
            came: came + at(5),
            returned: returned + at(6),
        }
    };
    for (from, grows) in [ClientOut, Wire, ServerIn, TurnAround, ServerOut, Wire, ClientIn].into_iter().enumerate() {
        let split = split(&[(1, later(from))]);
        for part in [ClientOut, Wire, ServerIn, TurnAround, ServerOut, ClientIn] {
            let grown = typical(&split, part) - typical(&before, part);
            assert_eq!(grown, if part == grows { 700.0 } else { 0.0 }, "{part:?}, delay before stamp {from}");
        }
    }
}

#[test]
fn stamps_of_a_nic_are_used_where_both_ways_have_them() {
    let hardware = |stamps: &mut Vec<Packet>, sequence: u32, both: bool| {
        let at = NIC + 10_000 * u64::from(sequence);
        stamps.push(Packet { which: Which::HardwareOut, at: at + 1_000, sequence });
        if both {
            stamps.push(Packet { which: Which::HardwareIn, at: at + 5_000, sequence });
        }
    };
    for (both, nic, layer, parts, why) in [
        (true, true, Layer::Hardware, [1_000.0, 3_000.0], ["", ""]),
        (true, false, Layer::Hardware, [f64::NAN, 3_000.0], ["no clock", "no clock"]),
        (false, true, Layer::Software, [900.0, 2_600.0], ["this way alone", "the other way alone"]),
    ] {
        let (stamp, mut packets) = of_client(5, 50_000, SIX);
        hardware(&mut packets, 5, both);
        let mut nics = Nics::new();
        nics.block((&[stamp], &packets), Vec::new(), Some(clocks(HERE, nic)), 1, true);
        let why_not = Why {
            no_clock: [if nic { "" } else { "no clock" }.into(), String::new()],
            no_server: "an echo".into(),
            in_ip: false,
        };
        let split = nics.finish(Counts::default(), 1, &why_not);
        assert_eq!(split.layer(Side::Client), layer);
        assert_eq!([ClientOut, Client].map(|part| typical(&split, part).to_bits()), parts.map(f64::to_bits), "{both} {nic}");
        for (of, why) in split.stamps.iter().zip(why) {
            assert!(of.why.contains(why) && of.why.is_empty() == why.is_empty(), "{of:?}");
        }
        // The client's half alone.
        assert_eq!((split.counts.complete, split.part(Wire), split.part(Beyond).is_some()), (1, None, true));
        assert!(split.stamps[2..].iter().all(|of| (of.layer, &*of.why) == (Layer::None, "an echo")), "{:?}", split.stamps);
    }
}

#[test]
fn a_stamp_that_comes_a_block_late_counts() {
    let ((one, mut packets), (two, others)) = (of_client(1, 10_000, SIX), of_client(2, 20_000, SIX));
    let late = packets.split_off(1);
    let mut nics = Nics::new();
    nics.block((&[one], &packets), vec![of_server(1, 10_000, SIX)], Some(clocks(HERE, false)), 1, true);
    nics.block((&[two], &[late, others].concat()), vec![of_server(2, 20_000, SIX)], Some(clocks(HERE, false)), 1, true);
    let split = nics.finish(Counts { late: 5, twice: 6, unknown: 7, ..Counts::default() }, 1, &Why::default());
    let counts = split.counts;
    assert_eq!((counts.transactions, counts.complete, counts.missing), (2, 2, 0));
    assert_eq!((counts.late, counts.twice, counts.unknown), (6, 6, 7), "with those that the server tells");
}

#[test]
fn stamps_of_a_nic_are_used_from_when_they_come() {
    let mut nics = Nics::new();
    let mut block = |from: u32, by_nic: bool| {
        let (mut stamps, mut packets, mut halves) = (Vec::new(), Vec::new(), Vec::new());
        for sequence in from..from + 10 {
            let at = 10_000 * u64::from(sequence);
            let (stamp, mut own) = of_client(sequence, at, SIX);
            if by_nic {
                own.extend([(Which::HardwareOut, SIX.out + 50), (Which::HardwareIn, SIX.came - 50)].map(|(which, ns)| Packet {
                    which,
                    at: NIC + at + ns,
                    sequence,
                }));
            }
            stamps.push(stamp);
            packets.append(&mut own);
            halves.push(of_server(sequence, at, SIX));
        }
        nics.block((&stamps, &packets), halves, Some(clocks(HERE, true)), 1, true);
    };
    block(0, false);
    block(10, false);
    block(20, true);
    block(30, true);
    let split = nics.finish(Counts::default(), 1, &Why::default());
    assert_eq!((split.layer(Side::Client), split.layer(Side::Server)), (Layer::Hardware, Layer::Software));
    // The first of each ten is left out.
    assert_eq!((split.counts.complete, split.counts.missing), (18, 18), "those of the kernel alone are in no figure");
    assert_eq!(typical(&split, ClientOut), 950.0);
}

#[test]
fn an_incomplete_transaction_is_missing_and_a_strange_half_unknown() {
    let mut nics = Nics::new();
    let all: Vec<_> = (0..4).map(|n| of_client(n, 10_000 * u64::from(n), SIX)).collect();
    let stamps: Vec<Stamp> = all.iter().map(|(stamp, _)| *stamp).collect();
    let mut packets: Vec<Packet> = all.iter().flat_map(|(_, packets)| packets.clone()).collect();
    // The first lacks a stamp of the client, the second its half.
    packets.remove(0);
    let halves = [0, 2, 3, 77].map(|n| of_server(n, 10_000 * u64::from(n), SIX));
    nics.block((&stamps, &packets), halves.to_vec(), Some(clocks(HERE, false)), 1, true);
    // A block whose clocks do not agree is left out.
    let (stamp, packets) = of_client(4, 40_000, SIX);
    nics.block((&[stamp], &packets), vec![of_server(4, 40_000, SIX)], None, 1, true);
    let split = nics.finish(Counts::default(), 1, &Why::default());
    assert_eq!((split.counts.transactions, split.counts.complete, split.counts.missing, split.counts.unknown), (4, 2, 2, 1));
}

#[test]
fn a_lying_server_makes_impossible_transactions_and_nothing_else() {
    let lie = |change: fn(&mut Half)| {
        let (mut stamps, mut packets, mut halves) = (Vec::new(), Vec::new(), Vec::new());
        for sequence in 0..40 {
            let (stamp, mut own) = of_client(sequence, 10_000 * u64::from(sequence), SIX);
            let mut half = of_server(sequence, 10_000 * u64::from(sequence), SIX);
            if sequence % 2 == 0 {
                change(&mut half);
            }
            stamps.push(stamp);
            packets.append(&mut own);
            halves.push(half);
        }
        let mut nics = Nics::new();
        nics.block((&stamps, &packets), halves, Some(clocks(HERE, false)), 1, true);
        nics.finish(Counts::default(), 1, &Why::default())
    };
    for (change, part, ns) in [
        ((|half| half.layers[1].inside_ns = Some(9_000)) as fn(&mut Half), Wire, -4_600),
        (|half| half.layers[1].inside_ns = Some(-1), Server, -1),
        (|half| half.layers[1].into_ns = Some(-5), ServerIn, -5),
        (|half| half.layers[1].into_ns = Some(2_050), ServerOut, -50),
        (|half| half.turnaround_ns = 3_600_000_000_000, ServerOut, 2_100 - 3_600_000_000_000 - 1_500),
        (|half| half.layers[1].inside_ns = Some(i64::MIN), Server, i64::MIN),
        (|half| half.layers[1].inside_ns = Some(i64::MAX), Wire, 4_400 - i64::MAX),
        (|half| half.turnaround_ns = u64::MAX, TurnAround, -1),
    ] {
        let split = lie(change);
        let first = split.impossible[0];
        // The first five of the 40 follow the pause.
        assert_eq!((first.sequence, first.rtt_ns, first.part, first.ns), (6, 7_000, part, ns));
        assert_eq!((split.counts.transactions, split.counts.complete, split.counts.missing), (35, 18, 0), "{part:?}");
        assert_eq!((split.counts.impossible, split.impossible.len()), (17, MOST_LISTED));
        assert_eq!([Client, Wire, Server].map(|part| typical(&split, part)), [2_600.0, 2_300.0, 2_100.0], "{part:?}");
    }
}

proptest! {
    /// Whatever a peer says, each transaction is counted once, and the parts of those that count add up to their RTT.
    #[test]
    fn every_transaction_is_complete_missing_or_impossible(
        halves in prop::collection::vec((0u32..60, any::<u64>(), any::<[Option<i64>; 4]>()), 0..200),
        all in prop::collection::vec(prop::array::uniform7(0u64..50_000), 1..50),
    ) {
        let (mut stamps, mut packets) = (Vec::new(), Vec::new());
        for (sequence, lengths) in all.iter().enumerate() {
            let mut sum = 0;
            let [out, reached, received, answered, left, came, returned] = lengths.map(|length| { sum += length; sum });
            let six = Six { out, reached, received, answered, left, came, returned };
            let (stamp, mut own) = of_client(sequence as u32, 400_000 * sequence as u64, six);
            stamps.push(stamp);
            packets.append(&mut own);
        }
        let told = halves.into_iter().map(|(sequence, turnaround_ns, ns)| Half {
            sequence,
            turnaround_ns,
            layers: [
                Layered { seen: [true; 2], inside_ns: ns[0], into_ns: ns[1] },
                Layered { seen: [true; 2], inside_ns: ns[2], into_ns: ns[3] },
            ],
        });
        let mut nics = Nics::new();
        nics.block((&stamps, &packets), told.collect(), Some(clocks(HERE, false)), 1, true);
        let split = nics.finish(Counts::default(), 1, &Why::default());
        let counts = split.counts;
        prop_assert_eq!(counts.complete + counts.missing + counts.impossible, counts.transactions);
        prop_assert_eq!(split.rtt_ns.count, counts.complete);
        if counts.complete > 0 {
            let sum = typical(&split, Client) + typical(&split, Beyond);
            prop_assert!((sum - split.typical.rtt_ns).abs() < 1e-3, "{} {}", sum, split.typical.rtt_ns);
        }
    }
}
