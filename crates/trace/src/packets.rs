//! Records from the kernel's stamps of a socket's packets, for hosts without hooks.
//!
//! ```text
//!   client: scheduled ─ driver          server: scheduled ─ driver
//!                         └ server: came                       └ client: came
//! ```
//! These stamps are CLOCK_REALTIME, which can be set at any time: a block in which that happened is dropped.

use hairpin_record::run::Side;
use hairpin_sys::clock::Relation;
use hairpin_sys::shared::{Packet, Which};
use hairpin_units::Arrange;

use crate::moment::Moment;
use crate::tracer::Record;

/// The moments that such stamps give.
pub const MOMENTS: [Moment; 3] = [Moment::Queued, Moment::Started, Moment::Received];

/// A block's stamps of both sides as records, one per request. `None` if CLOCK_REALTIME was set meanwhile.
pub fn records(client: &[Packet], server: &[Packet], from: &Relation, to: &Relation) -> Option<Vec<Record>> {
    let less = |relation: &Relation| relation.realtime_less_raw_ns - relation.monotonic_less_raw_ns;
    if (less(to) - less(from)).unsigned_abs() as f64 > from.tolerance_ns() {
        return None;
    }
    let monotonic = |packet: &Packet| packet.at.saturating_add_signed(-less(from));
    let of =
        |side: Side, packets: &[Packet]| packets.iter().map(|packet| (monotonic(packet), side, packet.which)).collect::<Vec<_>>();
    let mut all = [of(Side::Client, client), of(Side::Server, server)].concat();
    all.arrange_by_key(|(at, ..)| *at);
    let mut records: Vec<Record> = Vec::new();
    for (at, side, which) in all {
        let (way, moment) = match (side, which) {
            // Ring libraries and NICs stamp with other clocks.
            (_, Which::Kicked | Which::Seen | Which::HardwareOut | Which::HardwareIn | Which::Stray) => continue,
            (Side::Client, Which::Scheduled) => (0, Moment::Queued),
            (Side::Client, Which::SoftwareOut) => (0, Moment::Started),
            (Side::Server, Which::SoftwareIn) => (0, Moment::Received),
            (Side::Server, Which::Scheduled) => (1, Moment::Queued),
            (Side::Server, Which::SoftwareOut) => (1, Moment::Started),
            (Side::Client, Which::SoftwareIn) => (1, Moment::Received),
        };
        if (way, moment) == (0, Moment::Queued) {
            records.push(Record::default());
        }
        if let Some(record) = records.last_mut() {
            record.ways[way].push((moment, at));
        }
    }
    Some(records)
}

#[cfg(test)]
mod tests {
    use hairpin_sys::clock::Ticks;

    use super::*;
    use Moment::{Queued, Received, Started};

    fn relation(realtime: i64, monotonic: i64) -> Relation {
        Relation {
            ticks: Ticks(0),
            raw_ns: 0,
            monotonic_less_raw_ns: monotonic,
            realtime_less_raw_ns: realtime,
            width: 0,
            step_ns: 0.0,
        }
    }

    #[test]
    fn turns_stamps_of_two_sockets_into_one_record_per_request() {
        let packets = |stamps: &[(Which, u64)]| -> Vec<Packet> {
            stamps.iter().map(|(which, at)| Packet { which: *which, at: 1_000_000 + at, sequence: 0 }).collect()
        };
        let client = packets(&[
            (Which::Scheduled, 10),
            (Which::SoftwareOut, 20),
            (Which::SoftwareIn, 60),
            (Which::Scheduled, 110),
            (Which::SoftwareOut, 120),
        ]);
        let server =
            packets(&[(Which::SoftwareIn, 30), (Which::Scheduled, 40), (Which::SoftwareOut, 50), (Which::SoftwareIn, 130)]);
        let found = records(&client, &server, &relation(1_000_500, 500), &relation(1_000_540, 520)).unwrap();
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].ways[0], [(Queued, 10), (Started, 20), (Received, 30)]);
        assert_eq!(found[0].ways[1], [(Queued, 40), (Started, 50), (Received, 60)]);
        assert_eq!((&found[1].ways[0][..], found[1].ways[1].len()), (&[(Queued, 110), (Started, 120), (Received, 130)][..], 0));
        assert_eq!(records(&client, &server, &relation(1_000_500, 500), &relation(2_000_500, 500)), None);
    }
}
