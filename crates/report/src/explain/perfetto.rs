//! The slowest round trips as Chrome trace events, for the Perfetto UI and chrome://tracing.
//!
//! ```text
//!   process  client   round trips, one row for each path; in them the client's stages
//!            server   the server's stages
//!            cores    events of neither side, a row for each CPU
//! ```
//! A stage is a slice from the stamp of its first hook to that of its last; it includes the hooks' own cost.

use hairpin_units::Gather;
use std::collections::BTreeSet;

use hairpin_record::explain::{Event, Explain, Explained, Stage, Timeline};
use hairpin_record::run::Side;
use serde_json::{Value, json};

use crate::label::short;
use crate::prose::clean;

/// The process for events that belong to neither side.
const CORES: u32 = 3;

/// Every timeline of the record, in trace-event JSON with times in us.
pub fn explain_perfetto(record: &Explain) -> String {
    let mut events = Vec::new();
    let mut rows = BTreeSet::new();
    for (thread, result) in (1u32..).zip(&record.results) {
        for timeline in &result.slowest {
            events.extend(slices(result, timeline, thread));
        }
        rows.extend([Side::Client, Side::Server].map(|side| (process(side), thread, short(&result.path))));
    }
    let alone = record.results.iter().flat_map(|result| &result.slowest).flat_map(|timeline| &timeline.events);
    let alone: BTreeSet<u32> = alone.filter(|event| event.side.is_none()).map(core).gather();
    let cpu = |cpu: &u32| if *cpu == u32::MAX { "CPU not known".to_owned() } else { format!("CPU {cpu}") };
    rows.extend(alone.iter().map(|n| (CORES, *n, cpu(n))));
    let mut names = vec![
        named("process_name", process(Side::Client), 0, "client"),
        named("process_name", process(Side::Server), 0, "server"),
    ];
    names.extend((!alone.is_empty()).then(|| named("process_name", CORES, 0, "cores")));
    names.extend(rows.iter().map(|(process, thread, name)| named("thread_name", *process, *thread, name)));
    names.extend(events);
    let trace = json!({
        "displayTimeUnit": "ns",
        "otherData": {"tool": clean(&record.head.tool), "started": clean(&record.head.started)},
        "traceEvents": names,
    });
    crate::json_line(&trace)
}

fn process(side: Side) -> u32 {
    match side {
        Side::Client => 1,
        Side::Server => 2,
    }
}

/// The row of an event that belongs to neither side.
fn core(event: &Event) -> u32 {
    event.cpu.unwrap_or(u32::MAX)
}

fn named(what: &str, process: u32, thread: u32, name: &str) -> Value {
    json!({"name": what, "ph": "M", "pid": process, "tid": thread, "args": {"name": name}})
}

/// The round trip, its stages, and every event as an instant.
fn slices(result: &Explained, timeline: &Timeline, thread: u32) -> Vec<Value> {
    let at = |ns: i64| (i128::from(timeline.at_ns) + i128::from(ns)) as f64 / 1e3;
    let whole = json!({
        "name": "round trip",
        "ph": "X",
        "pid": process(Side::Client),
        "tid": thread,
        "ts": at(0),
        "dur": timeline.rtt_ns as f64 / 1e3,
        "args": {"sequence": timeline.sequence, "cause": clean(&timeline.cause)},
    });
    let mut all = vec![whole];
    all.extend(stages(&result.stages, &timeline.events).into_iter().map(|(stage, from, to)| {
        json!({
            "name": clean(&stage.name),
            "ph": "X",
            "pid": process(stage.side),
            "tid": thread,
            "ts": at(from.at_ns),
            "dur": (to.at_ns as f64 - from.at_ns as f64).max(0.0) / 1e3,
            "args": {"from": clean(&from.name), "to": clean(&to.name)},
        })
    }));
    all.extend(timeline.events.iter().map(|event| {
        let (process, thread) = event.side.map_or((CORES, core(event)), |side| (process(side), thread));
        json!({
            "name": clean(&event.name),
            "ph": "i",
            "s": "t",
            "pid": process,
            "tid": thread,
            "ts": at(event.at_ns),
            "args": {"cpu": event.cpu, "detail": clean(&event.detail)},
        })
    }));
    all
}

/// Matches stages to events: each stage runs from hook to hook in stage order, skipping any other events between.
///
/// Hooks belong to a side; a switch between other threads, or an interrupt, belongs to neither.
fn stages<'r>(stages: &'r [Stage], events: &'r [Event]) -> Vec<(&'r Stage, &'r Event, &'r Event)> {
    let hooks: Vec<&Event> = events.iter().filter(|event| event.side.is_some()).collect();
    let mut found = Vec::new();
    let (mut next, mut at) = (0, 0);
    while at < hooks.len() {
        let rest = stages.iter().enumerate().skip(next).filter(|(_, stage)| stage.from == hooks[at].name);
        let ends = rest.filter_map(|(i, stage)| {
            let end = (at + 1..hooks.len()).find(|end| hooks[*end].name == stage.to)?;
            // The same hook again belongs to the way back, so the stage's end was not stamped here.
            let again = hooks[at + 1..end].iter().any(|hook| hook.name == stage.from);
            (!again).then_some((end, i, stage))
        });
        match ends.min_by_key(|(end, i, _)| (*end, *i)) {
            Some((end, i, stage)) => {
                found.push((stage, hooks[at], hooks[end]));
                (next, at) = (i + 1, end);
            }
            None => at += 1,
        }
    }
    found
}
