//! The slowest round trips event by event.

use hairpin_record::explain::{Event, Explained, Timeline};
use hairpin_units::Nanos;

use crate::Options;
use crate::prose::{WIDTH, clean, width, wrap};
use crate::style::{HEADING, paint};

/// Columns of an event's name where a detail follows.
const NAME: usize = 18;

/// Of each path so many as were asked for, and no more than there are.
pub(super) fn lines(result: &Explained, timelines: usize, options: &Options) -> Vec<String> {
    result.slowest.iter().take(timelines).enumerate().flat_map(|(at, one)| timeline(at + 1, one, options)).collect()
}

fn timeline(number: usize, timeline: &Timeline, options: &Options) -> Vec<String> {
    let cause = if timeline.cause.is_empty() { String::new() } else { format!(": {}", timeline.cause) };
    let title = format!(
        "Slowest {number}: RTT {}, sequence {}, {} after the first traced block began{cause}",
        Nanos(timeline.rtt_ns),
        timeline.sequence,
        Nanos(timeline.at_ns)
    );
    let mut text = vec![String::new()];
    text.extend(wrap("", &title, WIDTH).iter().map(|line| paint(line, HEADING, options.colour)));
    let titles = format!("{:>10} {:>10}  {:<6} {:>3}  {:<NAME$}  detail", "at us", "later us", "side", "CPU", "event");
    text.push(paint(&titles, HEADING, options.colour));
    let mut before = None;
    for event in &timeline.events {
        text.extend(line(event, before));
        before = Some(event.at_ns);
    }
    text
}

fn line(event: &Event, before: Option<i64>) -> Vec<String> {
    let later = before.map(|before| event.at_ns as f64 - before as f64);
    let later = later.map_or(String::new(), |ns| format!("+{}", fixed(ns)));
    let side = event.side.map_or(String::new(), |side| side.to_string());
    let cpu = event.cpu.map_or(String::new(), |cpu| cpu.to_string());
    let first = format!("{:>10} {later:>10}  {side:<6} {cpu:>3}  ", fixed(event.at_ns as f64));
    let name = clean(&event.name);
    let detail = clean(&event.detail);
    if detail.is_empty() || width(&name) > NAME {
        return wrap(&first, format!("{name}  {detail}").trim_end(), WIDTH);
    }
    let pad = " ".repeat(NAME - width(&name));
    wrap(&format!("{first}{name}{pad}  "), &detail, WIDTH)
}

/// To the nanosecond, so that what lies below each other can be compared; beyond a day as a power of ten.
fn fixed(ns: f64) -> String {
    if ns.abs() < 1e8 { format!("{:.3}", ns / 1e3) } else { crate::figure::us_signed(ns) }
}
