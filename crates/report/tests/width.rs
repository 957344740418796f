//! Whatever the figures and whatever another host says, a table keeps within 80 columns and steers no terminal.

use hairpin_record::run::{CpuSide, Quantiles, Row, Run, Tcp, TcpSide};
use hairpin_record::warning::Note;
use hairpin_report::Options;
use proptest::prelude::*;
use unicode_width::UnicodeWidthStr;

/// Longer than any RTT that a run waits for.
const LONGEST_NS: u64 = 60_000_000_000;

fn figures() -> impl Strategy<Value = Quantiles> {
    let ns = || prop::option::of((0u32..36).prop_flat_map(|bits| 0..=LONGEST_NS >> bits));
    (ns(), ns(), ns(), ns(), ns(), ns()).prop_map(|(min, p50, p90, p99, p999, max)| Quantiles {
        min,
        p50,
        p90,
        p99,
        p999,
        max,
        ..Quantiles::default()
    })
}

prop_compose! {
    fn row()(
        path in "[a-z]{2,12}(:[a-z]{4,9}(,[a-z]{3,9}=[0-9a-zM]{1,9}){0,3})?(/[a-z]{2,12}:[a-z]{4,9})?",
        (request_bytes, reply_bytes) in (0u64..=65_536, 0u64..=65_536),
        rate in 0.0..1e7,
        pace in prop::option::of(0.001..1e6),
        (rtt_ns, turnaround_ns) in (figures(), figures()),
        cpu in prop::option::of(0.0..1e10),
        segments in prop::option::of(0.0..100.0),
        message in "\\PC{0,200}|.{0,60}",
    ) -> Row {
        let side = CpuSide { per_transaction_ns: cpu, ..CpuSide::default() };
        let tcp = TcpSide { mss: 65_483, segments_out_per_transaction: segments, segments_in_per_transaction: segments, retransmitted: 9 };
        let mut row = Row { path, request_bytes, reply_bytes, transactions_per_s: rate, pace_per_s: pace, ..Row::default() };
        row.rtt_from_due_ns = pace.map(|_| rtt_ns.clone());
        (row.rtt_ns, row.turnaround_ns) = (rtt_ns, Some(turnaround_ns));
        (row.cpu.client, row.cpu.server) = (side.clone(), Some(side));
        row.tcp = segments.map(|_| Tcp { client: tcp.clone(), server: Some(tcp) });
        row.warnings.push(Note { code: "loss".into(), message });
        row
    }
}

proptest! {
    #[test]
    fn tables_keep_within_80_columns(rows in prop::collection::vec(row(), 0..6), said in "\\PC{0,120}|.{0,60}", hrt: bool, brief: bool) {
        let mut run: Run = serde_json::from_str(include_str!("../../record/tests/data/run-1.json")).unwrap();
        run.results = rows;
        run.place.hosts.client.hostname = said.clone();
        run.head.error = Some(said);
        let options = Options { hrt, brief, ..Options::default() };
        for text in [hairpin_report::term(&run, &options), hairpin_report::term(&[run][..], &options)] {
            for line in text.lines() {
                prop_assert!(line.width() <= 80, "{} columns: {line}", line.width());
                prop_assert!(!line.chars().any(char::is_control), "{line:?}");
            }
        }
    }
}
