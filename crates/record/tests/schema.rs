//! The published schemas are those of the code, and the hand-written example keeps to the contract.
//!
//! After a change of the record's types run `HAIRPIN_BLESS=1 cargo test -p hairpin-record --test main schema` and review the difference:
//! a version of a schema only ever gains fields.

use std::path::{Path, PathBuf};

use hairpin_record::attached::{self, Attached};
use hairpin_record::bounce::{self, Bounce, BounceSecond};
use hairpin_record::check::{self, Check};
use hairpin_record::compare::{self, Compare};
use hairpin_record::explain::{self, Explain};
use hairpin_record::floor::{self, Comparison, FitReport, Floor, Sizes};
use hairpin_record::histogram::Decoded;
use hairpin_record::load::{self, Load};
use hairpin_record::pcie::{self, Primitives, Probe, PublishedTable};
use hairpin_record::progress::{self, Progress};
use hairpin_record::run::{self, Run};
use hairpin_record::stream::{self, Stream};
use hairpin_record::sweep::{self, Sweep};
use hairpin_record::tune::{self, Changes, List, Status, TuneCheck};
use hairpin_record::tune_try::{self, TuneTry};
use hairpin_units::Quantile;
use schemars::{JsonSchema, schema_for};
use serde_json::Value;

const EXAMPLE: &str = include_str!("data/run-1.json");

#[test]
fn published_schemas_are_those_of_the_code() {
    published::<Run>(run::SCHEMA, "hairpin.run-1.json");
    published::<Progress>(progress::SCHEMA, "hairpin.progress-1.json");
    published::<Check>(check::SCHEMA, "hairpin.check-1.json");
    published::<Attached>(attached::SCHEMA, "hairpin.explain-attached-1.json");
    published::<Explain>(explain::SCHEMA, "hairpin.explain-1.json");
    published::<Floor>(floor::SCHEMA, "hairpin.floor-1.json");
    published::<Comparison>(floor::COMPARISON_SCHEMA, "hairpin.floor-comparison-1.json");
    published::<Sizes>(floor::SIZES_SCHEMA, "hairpin.floor-sizes-1.json");
    published::<FitReport>(floor::FIT_SCHEMA, "hairpin.floor-fit-1.json");
    published::<Probe>(pcie::SCHEMA, "hairpin.floor-pcie-1.json");
    published::<Primitives>(pcie::PRIMITIVES_SCHEMA, "hairpin.floor-pcie-primitives-1.json");
    published::<PublishedTable>(pcie::PUBLISHED_SCHEMA, "hairpin.floor-pcie-published-1.json");
    published::<Bounce>(bounce::SCHEMA, "hairpin.bounce-1.json");
    published::<BounceSecond>(bounce::SECOND_SCHEMA, "hairpin.bounce-second-1.json");
    published::<Compare>(compare::SCHEMA, "hairpin.compare-1.json");
    published::<TuneTry>(tune_try::SCHEMA, "hairpin.tune-try-1.json");
    published::<Sweep>(sweep::SCHEMA, "hairpin.sweep-1.json");
    published::<Load>(load::SCHEMA, "hairpin.load-1.json");
    published::<Stream>(stream::SCHEMA, "hairpin.stream-1.json");
    published::<List>(tune::LIST_SCHEMA, "hairpin.tune-list-1.json");
    published::<TuneCheck>(tune::CHECK_SCHEMA, "hairpin.tune-check-1.json");
    published::<Changes>(tune::CHANGES_SCHEMA, "hairpin.tune-changes-1.json");
    published::<Status>(tune::STATUS_SCHEMA, "hairpin.tune-status-1.json");
}

fn published<T: JsonSchema>(name: &str, file: &str) {
    let mut schema = schema_for!(T);
    schema.insert("title".into(), name.into());
    let want = serde_json::to_string_pretty(&schema).unwrap() + "\n";
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "../../docs/schema", file].iter().collect();
    if std::env::var_os("HAIRPIN_BLESS").is_some_and(|value| value == "1") {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &want).unwrap();
    }
    let got = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(got == want, "{} is not the schema of the code; HAIRPIN_BLESS=1 rewrites it", shown(&path));
}

fn shown(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

#[test]
fn the_example_is_read_and_written_without_loss() {
    let run: Run = serde_json::from_str(EXAMPLE).unwrap();
    let written = serde_json::to_value(&run).unwrap();
    assert_eq!(written, serde_json::from_str::<Value>(EXAMPLE).unwrap());
    assert_eq!(serde_json::from_value::<Run>(written).unwrap(), run);
}

#[test]
fn the_example_keeps_its_own_rules() {
    let run: Run = serde_json::from_str(EXAMPLE).unwrap();
    assert_eq!(run.schema, run::SCHEMA);
    for row in &run.results {
        let name = &row.path;
        let histogram = Decoded::decode(&row.histogram).unwrap();
        assert_eq!(histogram.count(), row.transactions, "{name}");
        assert_eq!(row.rtt_ns.count, row.transactions, "{name}");
        let columns = [
            (Quantile::P50, row.rtt_ns.p50),
            (Quantile::P90, row.rtt_ns.p90),
            (Quantile::P99, row.rtt_ns.p99),
            (Quantile::P999, row.rtt_ns.p999),
        ];
        for (quantile, figure) in columns {
            assert_eq!(figure.is_some(), quantile.is_supported_by(row.transactions), "{name} {quantile}");
            assert_eq!(figure, histogram.quantile(quantile), "{name} {quantile}");
        }
        let rate = row.transactions as f64 * 1e9 / row.duration_ns as f64;
        assert!((rate / row.transactions_per_s - 1.0).abs() < 1e-9, "{name}");
        assert_eq!(row.slowest.len() as u64, row.transactions.min(64), "{name}");
        assert_eq!(Some(row.slowest[0].rtt_ns), row.rtt_ns.max, "{name}");
        for blocks in [row.blocks.iter().map(|b| b.count).sum::<u64>(), row.series.iter().map(|p| p.count).sum()] {
            assert_eq!(blocks, row.transactions, "{name}");
        }
    }
}

/// Every field that the contract names, as a path into the example; `*` stands for some element of a list or a map.
const CONTRACT: &[&str] = &[
    "schema tool command started interrupted error",
    "hosts.client.hostname hosts.client.unread.* hosts.server.hostname",
    "link.kind link.interface link.mtu",
    "clock.source clock.cost_ns clock.step_ns clock.drift_ppb",
    "results.*.path results.*.origin results.*.request_bytes results.*.reply_bytes results.*.flows results.*.outstanding",
    "results.*.transactions results.*.lost results.*.late results.*.duplicates results.*.reordered",
    "results.*.duration_ns results.*.gap_ns results.*.transactions_per_s",
    "results.*.rtt_ns.count results.*.rtt_ns.min results.*.rtt_ns.mean results.*.rtt_ns.stddev results.*.rtt_ns.p50",
    "results.*.rtt_ns.p90 results.*.rtt_ns.p99 results.*.rtt_ns.p99·9 results.*.rtt_ns.max",
    "results.*.turnaround_ns.count results.*.turnaround_ns.min results.*.turnaround_ns.mean results.*.turnaround_ns.stddev",
    "results.*.turnaround_ns.p50 results.*.turnaround_ns.p90 results.*.turnaround_ns.p99 results.*.turnaround_ns.p99·9",
    "results.*.turnaround_ns.max results.*.histogram",
    "results.*.blocks.*.at_ns results.*.blocks.*.count results.*.blocks.*.p50 results.*.blocks.*.p99 results.*.blocks.*.core_rtt_ns",
    "results.*.series.*.at_ns results.*.series.*.count results.*.series.*.p50 results.*.series.*.p99 results.*.series.*.max",
    "results.*.slowest.*.at_ns results.*.slowest.*.rtt_ns results.*.slowest.*.sequence",
    "results.*.cpu.client.user_ns results.*.cpu.client.system_ns results.*.cpu.client.irq_ns results.*.cpu.client.softirq_ns",
    "results.*.cpu.client.steal_ns results.*.cpu.client.foreign_ns results.*.cpu.client.switches_voluntary",
    "results.*.cpu.client.switches_involuntary results.*.cpu.client.per_transaction_ns",
    "results.*.cpu.server.user_ns results.*.cpu.server.system_ns results.*.cpu.server.irq_ns results.*.cpu.server.softirq_ns",
    "results.*.cpu.server.steal_ns results.*.cpu.server.foreign_ns results.*.cpu.server.switches_voluntary",
    "results.*.cpu.server.switches_involuntary results.*.cpu.server.per_transaction_ns",
    "results.*.tcp.client.mss results.*.tcp.client.segments_out_per_transaction results.*.tcp.client.segments_in_per_transaction",
    "results.*.tcp.server.mss results.*.tcp.server.segments_out_per_transaction results.*.tcp.server.segments_in_per_transaction",
    "results.*.granted.*.side results.*.granted.*.option results.*.granted.*.asked results.*.granted.*.got results.*.granted.*.why",
    "results.*.floor results.*.warnings.*.code results.*.warnings.*.message",
];

#[test]
fn the_example_has_every_field_of_the_contract() {
    let example: Value = serde_json::from_str(EXAMPLE).unwrap();
    let missing: Vec<&str> = CONTRACT
        .iter()
        .flat_map(|line| line.split(' '))
        .filter(|path| !has(&example, &path.split('.').collect::<Vec<_>>()))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// True if the path leads somewhere, be it to a null; `·` in a name stands for a dot.
fn has(value: &Value, path: &[&str]) -> bool {
    match (path, value) {
        ([], _) => true,
        (["*", rest @ ..], Value::Array(items)) => items.iter().any(|item| has(item, rest)),
        (["*", rest @ ..], Value::Object(fields)) => fields.values().any(|item| has(item, rest)),
        ([name, rest @ ..], Value::Object(fields)) => fields.get(&name.replace('·', ".")).is_some_and(|item| has(item, rest)),
        _ => false,
    }
}
