//! The published schemas are those of the code, and the hand-written example keeps to the contract.
//!
//! After a change of the record's types run `HAIRPIN_BLESS=1 cargo test -p hairpin-record --test main schema` and review the
//! difference: a version of a schema only ever gains fields.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use hairpin_record::any::{AnyRecord, KINDS};
use hairpin_record::attached::Attached;
use hairpin_record::bounce::{Bounce, BounceSecond};
use hairpin_record::check::Check;
use hairpin_record::compare::Compare;
use hairpin_record::explain::Explain;
use hairpin_record::fit::FitReport;
use hairpin_record::floor::{Comparison, Floor, Sizes};
use hairpin_record::head::Body;
use hairpin_record::histogram::Decoded;
use hairpin_record::incident::Incident;
use hairpin_record::load::Load;
use hairpin_record::mesh::Mesh;
use hairpin_record::noise::{Noise, NoiseComparison};
use hairpin_record::pcie::{Primitives, Probe, PublishedTable};
use hairpin_record::progress::Progress;
use hairpin_record::run::Run;
use hairpin_record::stream::Stream;
use hairpin_record::sweep::Sweep;
use hairpin_record::tune::{Changes, List, Status, TuneCheck};
use hairpin_record::tune_try::TuneTry;
use hairpin_units::Quantile;
use schemars::{JsonSchema, Schema, schema_for};
use serde_json::{Map, Value, json};

const EXAMPLE: &str = include_str!("data/run-1.json");

/// The definitions that several schemas refer to.
const COMMON: &str = "common.json";

#[test]
fn published_schemas_are_those_of_the_code() {
    let mut schemas = [
        schema::<Run>(),
        schema::<Progress>(),
        schema::<Incident>(),
        schema::<Check>(),
        schema::<Noise>(),
        schema::<NoiseComparison>(),
        schema::<Attached>(),
        schema::<Explain>(),
        schema::<Floor>(),
        schema::<Comparison>(),
        schema::<Sizes>(),
        schema::<FitReport>(),
        schema::<Probe>(),
        schema::<Primitives>(),
        schema::<PublishedTable>(),
        schema::<Bounce>(),
        schema::<BounceSecond>(),
        schema::<Compare>(),
        schema::<TuneTry>(),
        schema::<Sweep>(),
        schema::<Load>(),
        schema::<Mesh>(),
        schema::<Stream>(),
        schema::<List>(),
        schema::<TuneCheck>(),
        schema::<Changes>(),
        schema::<Status>(),
    ];
    let common = take_common(&mut schemas);
    published(COMMON, &common);
    for (name, schema) in schemas {
        published(&format!("{}.json", name.replace('/', "-")), &schema);
    }
}

fn schema<T: JsonSchema + Body>() -> (&'static str, Value) {
    let mut schema = schema_for!(T);
    schema.insert("title".into(), T::SCHEMA.into());
    (T::SCHEMA, schema.to_value())
}

/// Takes out the definitions that stand alike in several schemas; of several that share a name, the one that stands in most.
fn take_common(schemas: &mut [(&str, Value)]) -> Value {
    let mut count: BTreeMap<(String, String), (usize, Value)> = BTreeMap::new();
    for (name, definition) in schemas.iter().filter_map(|(_, schema)| schema["$defs"].as_object()).flatten() {
        count.entry((name.clone(), definition.to_string())).or_insert((0, definition.clone())).0 += 1;
    }
    let mut common: BTreeMap<String, (usize, Value)> = BTreeMap::new();
    for ((name, _), (count, definition)) in count {
        if count > 1 && common.get(&name).is_none_or(|(other, _)| *other < count) {
            common.insert(name, (count, definition));
        }
    }
    // A common definition refers to common ones only.
    loop {
        let known: BTreeSet<String> = common.keys().cloned().collect();
        common.retain(|_, (_, definition)| references(definition).iter().all(|name| known.contains(name)));
        if common.len() == known.len() {
            break;
        }
    }
    for (_, schema) in schemas {
        if let Some(definitions) = schema["$defs"].as_object_mut() {
            definitions.retain(|name, definition| common.get(name).is_none_or(|(_, shared)| shared != definition));
        }
        let own: Map<String, Value> = schema["$defs"].as_object().cloned().unwrap_or_default();
        refer(schema, &|name| common.contains_key(name) && !own.contains_key(name));
        if own.is_empty() {
            schema.as_object_mut().unwrap().remove("$defs");
        }
    }
    let definitions: Map<String, Value> = common.into_iter().map(|(name, (_, definition))| (name, definition)).collect();
    json!({"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "definitions of several schemas", "$defs": definitions})
}

/// The names of the definitions that this one refers to.
fn references(definition: &Value) -> Vec<String> {
    match definition {
        Value::Object(fields) => {
            let own = fields.get("$ref").and_then(Value::as_str).and_then(|path| path.strip_prefix("#/$defs/"));
            own.map(str::to_owned).into_iter().chain(fields.values().flat_map(references)).collect()
        }
        Value::Array(items) => items.iter().flat_map(references).collect(),
        _ => Vec::new(),
    }
}

/// Leads references to common definitions to their file.
fn refer(schema: &mut Value, is_common: &impl Fn(&str) -> bool) {
    match schema {
        Value::Object(fields) => {
            if let Some(Value::String(path)) = fields.get_mut("$ref")
                && path.strip_prefix("#/$defs/").is_some_and(is_common)
            {
                path.insert_str(0, COMMON);
            }
            fields.values_mut().for_each(|value| refer(value, is_common));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| refer(item, is_common)),
        _ => {}
    }
}

fn published(file: &str, schema: &Value) {
    // As a schema its keywords are written in their usual order.
    let schema = Schema::try_from(schema.clone()).unwrap();
    let want = serde_json::to_string_pretty(&schema).unwrap() + "\n";
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "../../docs/schema", file].iter().collect();
    if std::env::var_os("HAIRPIN_BLESS").is_some_and(|value| value == "1") {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &want).unwrap();
    }
    let got = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(got == want, "{file} is not the schema of the code; HAIRPIN_BLESS=1 rewrites it");
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
    assert_eq!(run.head.schema, Run::SCHEMA);
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

/// One record of each kind as earlier versions wrote them, with fewer elements in their lists.
const OLDER: &str = include_str!("data/older.jsonl");

#[test]
fn records_of_earlier_versions_load_with_every_field() {
    let records = AnyRecord::all(OLDER.as_bytes()).unwrap();
    let kinds: BTreeSet<&str> = records.iter().map(AnyRecord::schema).collect();
    assert_eq!(kinds, KINDS.iter().map(|kind| kind.schema).collect());
    for (line, record) in OLDER.lines().zip(&records) {
        let (old, new) = (serde_json::from_str::<Value>(line).unwrap(), serde_json::to_value(record).unwrap());
        assert_eq!(lost(&old, &new), None, "{}", record.schema());
        // The head comes first, in the published order.
        let text = serde_json::to_string(record).unwrap();
        let at = |field: &str| text.find(&format!("\"{field}\":")).unwrap();
        let head = ["schema", "tool", "command", "started", "interrupted", "error"].map(at);
        assert!(head.is_sorted() && head[0] == 1, "{}", record.schema());
        assert_ne!(record.verb(), "hairpin");
        // A record that is loaded and written loads again as the same.
        assert_eq!(AnyRecord::all(text.as_bytes()).unwrap(), std::slice::from_ref(record), "{}", record.schema());
    }
}

/// The first field or element of `old` that `new` does not have as it was.
fn lost(old: &Value, new: &Value) -> Option<String> {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => old
            .iter()
            .find_map(|(name, value)| lost(value, new.get(name).unwrap_or(&Value::Null)).map(|at| format!("{name}.{at}"))),
        (Value::Array(old), Value::Array(new)) if old.len() == new.len() => {
            old.iter().zip(new).find_map(|(old, new)| lost(old, new).map(|at| format!("[].{at}")))
        }
        (old, new) => (old != new).then(|| format!(" {old} became {new}")),
    }
}
