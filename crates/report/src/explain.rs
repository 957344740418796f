//! The text of `hairpin explain`: what cannot be seen here, the RTT, where a round trip goes, what the slow ones met.
//!
//! ```text
//!   Explain ──▶ head, waterfall ──▶ conclusion ──▶ causes ──▶ timeline      (terminal)
//!          └──▶ explain_json, explain_perfetto                              (scripts, a trace viewer)
//! ```

mod causes;
mod conclusion;
mod perfetto;
mod timeline;
mod waterfall;

use hairpin_record::explain::{Explain, Explained};
use hairpin_record::run::Quantiles;

use crate::Options;
use crate::columns::RTT;
use crate::figure::{payloads, percent, us};
use crate::label::{Name, labelled, short};
use crate::notes::{Kind, Section, beside_floor, ended, lines, merged, refused, warnings};
use crate::prose::{WIDTH, wrap};
use crate::style::{HEADING, WARNING, paint};
use crate::table::between;

pub(crate) use conclusion::{lost, typical};
pub use perfetto::explain_perfetto;
pub(crate) use waterfall::gap as not_adding_up;

/// One in so many transactions may lose an event before the head says so.
const LOST_EVENTS_PER: u128 = 1000;

/// The record as a screen of 80 columns, or of [`Options::width`] if that is more, with the `timelines` slowest transactions of each
/// path event by event.
pub fn explain(record: &Explain, timelines: usize, options: &Options) -> String {
    let mut text = wrap("", &context(record), WIDTH);
    text.extend(wrap("", &format!("RTT: {RTT}"), WIDTH));
    text.extend(lines(&missing(record).into_iter().collect::<Vec<_>>(), options.colour));
    if record.results.is_empty() {
        text.extend([String::new(), "(no results)".into()]);
    }
    for result in &record.results {
        text.push(String::new());
        text.extend(head(result, options));
        text.push(String::new());
        text.extend(waterfall::lines(result, options));
        text.extend(conclusion::lines(result, &record.place.hosts, options));
        text.extend(causes::lines(result, options));
        text.extend(timeline::lines(result, timelines, options));
    }
    text.extend(lines(&sections(record), options.colour));
    text.join("\n") + "\n"
}

/// `hairpin.explain/1`, a field per line.
pub fn explain_json(record: &Explain) -> String {
    crate::json(record)
}

fn context(record: &Explain) -> String {
    let mut parts = vec![record.head.tool.clone(), record.head.started.clone()];
    parts.extend(between(&record.place.link, &record.place.hosts, &record.place.clock));
    parts.join(", ")
}

/// The hooks that this host lacks, before any figure.
fn missing(record: &Explain) -> Option<Section> {
    let items = record.missing.iter().map(|hook| format!("{}: {}; it would add {}", hook.hook, hook.why, hook.adds));
    let items: Vec<String> = items.collect();
    (!items.is_empty()).then_some(Section { heading: "Not to be seen on this host", kind: Kind::Warning, items })
}

/// Path and payload.
pub(crate) fn name(result: &Explained) -> Name {
    let base = labelled(short(&result.path), result.origin);
    Name { base, size: format!("{} B", payloads(result.request_bytes, result.reply_bytes)) }
}

/// Lost events if there are many, then the headline, the traced transactions beside it, and what could not be matched.
fn head(result: &Explained, options: &Options) -> Vec<String> {
    let mut text = Vec::new();
    let (traced, lost) = (&result.rtt_ns, result.lost_events);
    if u128::from(lost) * LOST_EVENTS_PER > u128::from(traced.count) {
        let share = share_of(lost, traced.count).map_or(String::new(), |share| format!(", {share} %"));
        let alarm = format!(
            "LOST EVENTS: {lost} found no room beside {} traced round trips{share}; the stages below lack what they belong to",
            traced.count
        );
        text.extend(wrap("", &alarm, WIDTH).iter().map(|line| paint(line, WARNING, options.colour)));
    }
    let Name { base, size } = name(result);
    text.extend(wrap("", &format!("{base}, {size}"), WIDTH).iter().map(|line| paint(line, HEADING, options.colour)));
    let untraced = &result.untraced_rtt_ns;
    let headline = format!("{}, {}: {} round trips without any hook", p50(untraced), p99(untraced), untraced.count);
    text.extend(wrap("RTT       ", &headline, WIDTH));
    text.extend(wrap("traced    ", &format!("{}, {}: {}", p50(traced), p99(traced), hooked(result)), WIDTH));
    if let Some(agreement) = agreement(result) {
        text.extend(wrap("          ", &agreement, WIDTH));
    }
    text.extend(wrap("events    ", &matched(result), WIDTH));
    text
}

fn p50(times: &Quantiles) -> String {
    times.p50.map_or("no p50".into(), |ns| format!("p50 {} us", us(ns as f64)))
}

fn p99(times: &Quantiles) -> String {
    times.p99.map_or("no p99".into(), |ns| format!("p99 {} us", us(ns as f64)))
}

/// How many were traced, and with how many stamps.
fn hooked(result: &Explained) -> String {
    let stamps: f64 = result.hooks.iter().map(|hook| hook.per_transaction).sum();
    let each = result.hook_ns.filter(|ns| (0.0..1e9).contains(ns)).map_or(String::new(), |ns| format!(", {ns:.0} ns each"));
    let hooks = match stamps {
        stamps if (0.05..1e6).contains(&stamps) => format!(", {stamps:.1} hooks hit on the way{each}"),
        _ => String::new(),
    };
    format!("{} round trips{hooks}", result.rtt_ns.count)
}

/// What the hooks are found to take against what the traced ones took longer: both are measured, so that one proves the other.
fn agreement(result: &Explained) -> Option<String> {
    let (traced, observer, untraced) = (result.rtt_ns.p50?, result.observer_ns.p50?, result.untraced_rtt_ns.p50?);
    let without = traced as f64 - observer as f64;
    let beyond = without / untraced.max(1) as f64 - 1.0;
    let figures = format!("less {} us for the hooks: {} us", us(observer as f64), crate::figure::us_signed(without));
    let than = if beyond < 0.0 { "shorter" } else { "longer" };
    // A ratio of two times of 64 bits may have twenty digits.
    (beyond.abs() < 1e4).then(|| format!("{figures}, {} % {than} than without any hook (derived)", percent(beyond.abs())))
}

/// What did not come together, and what was not taken.
pub(crate) fn matched(result: &Explained) -> String {
    let (count, lost) = (result.rtt_ns.count, result.lost_events);
    let all = count.saturating_add(result.unmatched);
    let mut parts = vec![match result.unmatched {
        0 => "every round trip matched".into(),
        some => format!("{some} round trips unmatched ({} %)", share_of(some, all).unwrap_or_default()),
    }];
    parts.push(match lost {
        0 => "no event lost".into(),
        some => format!("{some} events lost{}", share_of(some, count).map_or(String::new(), |share| format!(" ({share} %)"))),
    });
    parts.extend((result.blocks_rejected > 0).then(|| {
        format!(
            "{} of {} traced blocks rejected since clocks disagreed by more than 50 ns",
            result.blocks_rejected,
            result.blocks.saturating_add(result.blocks_rejected)
        )
    }));
    parts.join(", ")
}

/// In percent; `None` of nothing.
fn share_of(part: u64, whole: u64) -> Option<String> {
    (whole > 0).then(|| match part as f64 / whole as f64 {
        share if share < 1e4 => percent(share),
        share => format!("{:.1e}", 100.0 * share),
    })
}

/// What stands below all paths.
fn sections(record: &Explain) -> Vec<Section> {
    let names: Vec<Name> = record.results.iter().map(name).collect();
    let results: Vec<&Explained> = record.results.iter().collect();
    let floor = |result: &Explained| match &result.floor {
        Some(floor) => beside_floor(result.untraced_rtt_ns.p50, result.origin, floor),
        None => Vec::new(),
    };
    let mut sections = vec![
        Section { heading: "Floor", kind: Kind::Plain, items: merged(&names, &results, floor) },
        Section {
            heading: "Asked for, not granted",
            kind: Kind::Plain,
            items: merged(&names, &results, |result| refused(&result.granted)),
        },
        Section { heading: "Does not add up", kind: Kind::Error, items: merged(&names, &results, waterfall::gap) },
        Section { heading: "Warnings", kind: Kind::Warning, items: warnings(&names, &results, |result| &result.warnings) },
    ];
    sections.extend(ended(record.head.error.as_deref(), record.head.interrupted));
    sections.into_iter().filter(|section| !section.items.is_empty()).collect()
}
