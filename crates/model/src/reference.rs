//! Published tables as round trips over payload, to show beside measured rows. The figures come from `data/nic/`.

use hairpin_record::floor::Counts;
use hairpin_record::published::Published;
use hairpin_wire::framing::{ETHERNET_HEADER, IPV4_HEADER, UDP_HEADER};

use crate::design::NicModel;
use crate::nic::files;
use crate::nic_file::NicFile;

/// Derivation of each table's round trips from its source.
const TABLES: [(&str, &str); 3] = [
    ("sniffer10g", "RTT mean: 2 x the published mean half round trip"),
    (
        "sun-fire-6800",
        "RTT mean: 1 / published transactions per second, lowest and highest where several are published; that 4, 40 and 100 bytes share the published peak is assumed, since their rates are published as very close",
    ),
    (
        "dna-82599",
        "RTT: from what the wire alone takes to the published upper bound of a small packet; drawn at the payload of the shortest frame with UDP over IPv4",
    ),
];

/// Every published table.
pub fn references() -> Vec<Published> {
    let of = |(name, what): &(&str, &str)| files().iter().find(|file| file.name() == *name).map(|file| published(file, what));
    TABLES.iter().filter_map(of).collect()
}

fn published(file: &NicFile, what: &str) -> Published {
    let before = match file.counts() {
        Counts::Frame => ETHERNET_HEADER + IPV4_HEADER + UDP_HEADER,
        Counts::Payload => 0,
    };
    let (mut points, mut sources) = (Vec::new(), Vec::<String>::new());
    for size in file.table_sizes() {
        for stage in file.stages(size).stages {
            let payload = size.saturating_sub(before) as f64;
            // The sources print half of a round trip, so twice that is the whole, to the last printed digit.
            let [low, high] = [stage.time.low_ns, stage.time.high_ns].map(|half| 2.0 * half.as_ns_f64());
            points.push([payload, low]);
            points.extend((high > low).then_some([payload, high]));
            if !sources.contains(&stage.source) {
                sources.push(stage.source);
            }
        }
    }
    // A name, a colon, and the method.
    let (name, how) = file.about().split_once(": ").unwrap_or((file.about(), file.name()));
    Published { name: name.into(), what: format!("{what}; {how}"), derived: true, source: sources.join("; "), points }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_is_a_reference() {
        let tables = files().iter().filter(|file| !file.table_sizes().is_empty()).count();
        assert_eq!(references().len(), tables, "a table without a word on what its round trips are");
        for reference in references() {
            assert!(reference.derived && !reference.source.is_empty(), "{reference:?}");
            assert!(reference.points.is_sorted_by(|a, b| a[0] <= b[0]), "{reference:?}");
        }
    }

    #[test]
    fn round_trips_are_those_of_the_sources() {
        let [sniffer, sun, dna] = &references()[..] else { panic!("three: {:?}", references()) };
        assert_eq!((sniffer.points.len(), sniffer.points[0], sniffer.points[11]), (12, [1.0, 10_340.0], [2048.0, 18_800.0]));
        let near = |point: [f64; 2], bytes: f64, us: f64| {
            assert!(point[0] == bytes && (point[1] / 1e3 - us).abs() < 0.06, "{point:?} is not {us} us at {bytes} bytes");
        };
        // The published study prints 143.3 us for its peak; 321.6 and 308.3 are derived from its two rates.
        near(sun.points[0], 4.0, 143.3);
        near(sun.points[1], 40.0, 143.3);
        near(sun.points[2], 100.0, 143.3);
        near(sun.points[3], 1460.0, 308.3);
        near(sun.points[4], 1460.0, 321.6);
        assert_eq!(dna.points, [[18.0, 134.4], [18.0, 5_000.0]]);
        assert_eq!(dna.name, "PF_RING DNA on an Intel 82599");
    }
}
