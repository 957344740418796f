//! The published Sun Fire 6800 finding, run again over the same payloads: with delayed ACKs the reply carries the ACK, so each
//! side sends one segment per transaction; with an ACK at once, two. Nagle's algorithm cannot matter with one request in flight.

use crate::support::alone::{self, Part, Plain};
use crate::support::{Home, can, links, rows};

pub const PART: Part = Part::new("sun_fire", || alone::plain(TESTS));

const TESTS: &[Plain] = &[
    (
        "one_segment_per_side_and_transaction_with_delayed_acks_and_two_without",
        one_segment_per_side_and_transaction_with_delayed_acks_and_two_without,
    ),
    ("the_kernels_own_choice_carries_the_ack_on_the_reply", the_kernels_own_choice_carries_the_ack_on_the_reply),
];

/// Timestamps would take 12 bytes of each segment; without them the MSS is 1460.
const LINK: &str = "veth:timestamps=off";
const SIZES: [u64; 5] = [4, 40, 100, 1024, 1460];
const TOLERANCE: f64 = 0.02;

fn one_segment_per_side_and_transaction_with_delayed_acks_and_two_without() {
    if !can("sun_fire", links(), "this user may not make namespaces here") {
        return;
    }
    let home = Home::new();
    let specs: Vec<_> = ["off", "on"]
        .iter()
        .flat_map(|nodelay| ["off", "on"].map(|quickack| format!("--path tcp:nodelay={nodelay},quickack={quickack}")))
        .collect();
    let sizes = SIZES.map(|size| size.to_string()).join(",");
    let run = home.json(&format!("ping --link {LINK} --sizes {sizes} --count 2000 --warmup 20ms {}", specs.join(" ")));
    assert_eq!(run["hosts"]["client"]["tcp_timestamps"], 0, "{}", run["hosts"]["client"]);
    assert_eq!(rows(&run).len(), 4 * SIZES.len());
    let mut wrong = Vec::new();
    for row in rows(&run) {
        let path = row["path"].as_str().unwrap();
        let expected = if path.contains("quickack=on") { 2.0 } else { 1.0 };
        for side in ["client", "server"] {
            assert_eq!(row["tcp"][side]["mss"], 1460, "{path}");
            let segments = row["tcp"][side]["segments_out_per_transaction"].as_f64().unwrap();
            if (segments - expected).abs() > TOLERANCE {
                wrong.push(format!("{path}, {} bytes, {side}: {segments} segments out, not {expected:.2}", row["request_bytes"]));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn the_kernels_own_choice_carries_the_ack_on_the_reply() {
    if !can("sun_fire", links(), "this user may not make namespaces here") {
        return;
    }
    let home = Home::new();
    let run = home.json(&format!("ping --link {LINK} --count 5000 --warmup 50ms --path tcp"));
    let segments = rows(&run)[0]["tcp"]["client"]["segments_out_per_transaction"].as_f64().unwrap();
    assert!((segments - 1.0).abs() <= TOLERANCE, "{segments}");
}
