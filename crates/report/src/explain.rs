//! The output of `hairpin explain`: the answer in four lines, the stages, the causes of slow round trips; then all in detail.
//!
//! ```text
//!   Explain ──▶ answer, its screen ──▶ detail: head, waterfall, conclusion, causes ──▶ timeline
//!          └──▶ explain_perfetto                                          (a trace viewer)
//! ```

mod answer;
pub(crate) mod brief;
pub(crate) mod causes;
pub(crate) mod conclusion;
pub(crate) mod parts;
mod perfetto;
pub(crate) mod row;
pub(crate) mod timeline;
pub(crate) mod waterfall;

use hairpin_record::explain::{Explain, Explained, Missing};
use hairpin_record::head::Place;
use hairpin_record::run::Quantiles;

use crate::budget;
use crate::cell::Cell;
use crate::columns::RTT;
use crate::contents::breakdowns::breakdown;
use crate::doc::{Data, Doc, List, Show, Shown};
use crate::figure::{percent, us, us_signed};
use crate::label::Name;
use crate::link::between;
use crate::next;
use crate::notes::{beside_floor, ended, merged, not_granted, warned};
use crate::options::Options;
use crate::split;
use crate::style::Tone;
use crate::term::{LINES, height};
use crate::view::Beside;

pub(crate) use answer::{SLOW, waits};
pub use perfetto::explain_perfetto;
use row::{matched, name, share_of};

/// The heading of the missing hooks.
pub(crate) const NOT_SEEN: &str = "Not visible on this host";
/// The head warns of lost events if there is more than one in this many transactions.
const LOST_EVENTS_PER: u128 = 1000;

/// [`Options::detail`] is the number of slowest transactions per path to print event by event.
impl Show for Explain {
    fn doc(&self, options: &Options) -> Doc {
        let mut doc = Doc::default();
        let mut begin = Doc::of(&self.head, between(&self.place));
        begin.text(format!("RTT: {RTT}"));
        begin.list(missing(self));
        begin.gap();
        doc.part(Shown::Full, begin);
        if self.results.is_empty() {
            doc.text("(no results)");
        }
        let [errors, lists @ ..] = lists(self);
        let mut end = Doc::default();
        end.list(errors);
        let mut details = Doc::default();
        details.lists(lists);
        end.part(Shown::Full, details);
        end.list(ended(&self.head));
        let mut next = hint(&self.missing, "every stage, all causes, cost of the hooks");
        next::show(&mut next, answer::next(self).as_slice(), options);
        end.part(Shown::Brief, next);
        let answers: Vec<Doc> = self.results.iter().map(|result| answer(result, &self.place, options)).collect();
        let lines: usize = answers.iter().chain([&end]).map(|part| height(part, options)).sum();
        let room = LINES.saturating_sub(lines);
        // Several paths show their answers alone, or shorter ones if even these take too many lines.
        let several = self.results.len() > 1;
        for (at, (result, answer)) in self.results.iter().zip(answers).enumerate() {
            if at > 0 {
                doc.part(if room + 1 >= self.results.len() { Shown::Screen } else { Shown::Full }, gap());
            }
            if lines > LINES && several {
                doc.part(Shown::Brief, shorter(result, &self.place, self.results.len(), options));
                doc.part(Shown::Full, answer);
            } else {
                doc.blocks.extend(answer.blocks);
            }
            // Only a link that was declared stands beside the path; a report draws the bar without one too.
            let beside = result.floor.as_ref().map(|_| breakdown(self, result, name(result).base, &Beside::default()));
            let mut screen = Doc::default();
            let room = if several { LINES } else { room };
            screen.part(Shown::Screen, answer::screen(result, beside.as_ref(), options, room));
            if several {
                doc.part(Shown::Full, screen);
            } else {
                doc.blocks.extend(screen.blocks);
            }
            let mut detail = Doc::default();
            detail.gap();
            head(&mut detail, result);
            detail.gap();
            if let Some(beside) = &beside {
                detail.text(&beside.wire_said);
                detail.gap();
                detail.table(budget::table(beside));
                detail.gap();
            }
            waterfall::show(&mut detail, result);
            conclusion::show(&mut detail, result, &self.place.hosts);
            causes::show(&mut detail, result);
            if let Some(split) = result.split.as_deref() {
                detail.gap();
                detail.text(split::sentence(split, result.untraced_rtt_ns.p50));
                detail.list(List::plain(
                    "Stamps where packets leave and enter the hosts",
                    split::stamps(&name(result).base, split),
                ));
            }
            doc.part(Shown::Full, detail);
            timeline::show(&mut doc, &result.slowest, options.detail);
        }
        doc.blocks.extend(end.blocks);
        doc.data = Some(data(self));
        doc
    }
}

/// The answer of a path, after an alarm if events were lost.
fn answer(result: &Explained, place: &Place, options: &Options) -> Doc {
    let mut doc = Doc::default();
    losses(&mut doc, result);
    answer::show(&mut doc, result, place, options.columns());
    if let Some(line) = result.split.as_deref().and_then(split::in_a_line) {
        doc.text(line);
    }
    doc
}

/// The figures of one of many paths, and its largest part while there is room.
fn shorter(result: &Explained, place: &Place, paths: usize, options: &Options) -> Doc {
    let mut doc = Doc::default();
    answer::show(&mut doc, result, place, options.columns());
    doc.blocks.truncate(if paths * MANY <= LINES { 2 } else { 1 });
    doc
}

/// Lines of a path: two for its figures, one for its largest part.
const MANY: usize = 3;

fn gap() -> Doc {
    let mut doc = Doc::default();
    doc.gap();
    doc
}

/// One line per path and stage, then the observer, the residual and the total.
fn data(record: &Explain) -> Data {
    let names = "path request_bytes reply_bytes stage side direction count p50_ns p99_ns typical_mean_ns slow_mean_ns";
    let of = |result: &Explained| {
        let line = |stage: &str, [side, direction]: [String; 2], ns: &Quantiles, [typical, slow]: [f64; 2]| -> [Cell; 11] {
            [
                (&result.path).into(),
                result.request_bytes.into(),
                result.reply_bytes.into(),
                stage.into(),
                side.into(),
                direction.into(),
                ns.count.into(),
                ns.p50.into(),
                ns.p99.into(),
                (result.typical.count > 0).then_some(typical).into(),
                (result.slow.count > 0).then_some(slow).into(),
            ]
        };
        let (typical, slow) = (&result.typical, &result.slow);
        let stages = result.stages.iter().map(|stage| {
            let place = [stage.side.to_string(), waterfall::direction(stage.direction).to_owned()];
            line(&stage.name, place, &stage.ns, [stage.typical_ns, stage.slow_ns])
        });
        let rest = [
            ("observer", &result.observer_ns, [typical.observer_ns, slow.observer_ns]),
            ("residual", &result.residual_ns, [typical.residual_ns, slow.residual_ns]),
            ("RTT", &result.rtt_ns, [typical.rtt_ns, slow.rtt_ns]),
        ];
        let rest = rest.map(|(name, ns, means)| line(name, Default::default(), ns, means));
        stages.chain(rest).collect::<Vec<_>>()
    };
    Data::table(names, record.results.iter().flat_map(of))
}

/// Hooks that this host does not offer.
fn missing(record: &Explain) -> List {
    let missing = record.missing.iter().map(|hook| format!("{}: {}; it would add {}", hook.hook, hook.why, hook.adds));
    List { tone: Tone::Warning, numbered: true, ..List::plain(NOT_SEEN, missing.collect()) }
}

/// The last line of a first screen; `more` names the contents of the details.
pub(crate) fn hint(missing: &[Missing], more: &str) -> Doc {
    let mut doc = Doc::default();
    let all = missing.iter().find(|missing| missing.hook == Missing::ALL);
    let missing = match (all, missing.len()) {
        (Some(all), _) => {
            doc.text(format!("no hooks in the kernel: {}", all.why));
            String::new()
        }
        (None, 0) => String::new(),
        (None, some) => format!("{some} of the hooks missing here; "),
    };
    doc.text(format!("{missing}-v: {more}"));
    doc
}

/// An alarm if there are many lost events.
fn losses(doc: &mut Doc, result: &Explained) {
    let (traced, lost) = (&result.rtt_ns, result.lost_events);
    if u128::from(lost) * LOST_EVENTS_PER > u128::from(traced.count) {
        let share = share_of(lost, traced.count).map_or(String::new(), |share| format!(", {share} %"));
        let alarm = format!(
            "LOST EVENTS: {lost} found no room beside {} traced round trips{share}; the stages below lack what they belong to",
            traced.count
        );
        doc.toned("", alarm, Tone::Warning);
    }
}

/// The headline RTT, the traced transactions beside it, and the unmatched ones.
fn head(doc: &mut Doc, result: &Explained) {
    let traced = &result.rtt_ns;
    let Name { base, size } = name(result);
    doc.heading(format!("{base}, {size}"));
    let untraced = &result.untraced_rtt_ns;
    doc.lead("RTT       ", format!("{}, {}: {} round trips without any hook", p50(untraced), p99(untraced), untraced.count));
    doc.lead("traced    ", format!("{}, {}: {}", p50(traced), p99(traced), hooked(result)));
    agreement(result).into_iter().for_each(|agreement| doc.lead("          ", agreement));
    doc.lead("events    ", matched(result));
}

fn p50(times: &Quantiles) -> String {
    times.p50.map_or("no p50".into(), |ns| format!("p50 {} us", us(ns as f64)))
}

fn p99(times: &Quantiles) -> String {
    times.p99.map_or("no p99".into(), |ns| format!("p99 {} us", us(ns as f64)))
}

/// Number of traced transactions, and of stamps in each.
fn hooked(result: &Explained) -> String {
    let stamps: f64 = result.hooks.iter().map(|hook| hook.per_transaction).sum();
    let each = result.hook_ns.filter(|ns| (0.0..1e9).contains(ns)).map_or(String::new(), |ns| format!(", {ns:.0} ns each"));
    let hooks = match stamps {
        stamps if (0.05..1e6).contains(&stamps) => format!(", {stamps:.1} hooks hit on the way{each}"),
        _ => String::new(),
    };
    format!("{} round trips{hooks}", result.rtt_ns.count)
}

/// The measured cost of the hooks against the extra time of traced transactions. The two are measured independently, so each
/// checks the other.
fn agreement(result: &Explained) -> Option<String> {
    let (traced, observer, untraced) = (result.rtt_ns.p50?, result.observer_ns.p50?, result.untraced_rtt_ns.p50?);
    let without = traced as f64 - observer as f64;
    let beyond = without / untraced.max(1) as f64 - 1.0;
    let figures = format!("less {} us for the hooks: {} us", us(observer as f64), us_signed(without));
    let than = if beyond < 0.0 { "shorter" } else { "longer" };
    // The ratio of two 64-bit times may have twenty digits.
    (beyond.abs() < 1e4).then(|| format!("{figures}, {} % {than} than without any hook (derived)", percent(beyond.abs())))
}

/// The lists below all paths. Every screen shows the first, the errors.
fn lists(record: &Explain) -> [List; 4] {
    let names: Vec<Name> = record.results.iter().map(name).collect();
    let results: Vec<&Explained> = record.results.iter().collect();
    let floor = |result: &Explained| match &result.floor {
        Some(floor) => beside_floor(result.untraced_rtt_ns.p50, result.origin, floor),
        None => Vec::new(),
    };
    [
        List::errors("Does not add up", merged(&names, &results, waterfall::gap)),
        List::plain("Floor", merged(&names, &results, floor)),
        not_granted(&names, &results, |result| &result.granted),
        warned(&names, &results, |result| &result.warnings),
    ]
}
