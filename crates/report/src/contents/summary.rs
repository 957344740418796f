//! Three sentences derived from the records: the fastest path, the parts of the gap to the floor, the next thing to try.
//!
//! A sentence without data says so. Measured rows come first; an emulated row is never called the fastest.

use hairpin_record::any::AnyRecord;
use hairpin_record::check;
use hairpin_record::compare::{Compare, Comparison};
use hairpin_record::core_states::{Apart, CoreStates};
use hairpin_record::experiment::{Figure, Verdict};
use hairpin_record::explain::Explained;
use hairpin_record::run::{Origin, Row, Run};
use hairpin_record::stream::StreamRow;
use hairpin_record::sweep::Effect;
use hairpin_units::{Nanos, Quantile};

use super::labels::Labels;
use super::runs;
use crate::compare::{described, sentence};
use crate::explain::conclusion::{lost, typical};
use crate::explain::row::name;
use crate::figure::{payload, rate, ratio};
use crate::gap::gap;
use crate::label::{self, short};
use crate::load::knee;
use crate::notes::hosts;
use crate::prose::clean;
use crate::sentences::{Entry, blocking, fastest, left_out};
use crate::tune_try::is_undecided;
use crate::view::Input;

/// Warnings about a cost in every round trip; the others concern only some.
const IN_EVERY_RTT: [&str; 4] = ["deep-idle", "sleeping-governor", "shared-core", "no-tsc"];
/// Warnings about a figure's precision, not about the time itself.
const OF_PRECISION: [&str; 1] = ["too-few-samples"];

/// A row with its run, its name, and its position among all rows.
struct Shown<'a> {
    run: &'a Run,
    row: &'a Row,
    label: String,
    apart: Option<Apart>,
}

impl Shown<'_> {
    fn p50(&self) -> Option<Nanos> {
        self.row.rtt_ns.p50.filter(|_| Quantile::P50.is_supported_by(self.row.rtt_ns.count)).map(Nanos)
    }

    /// True for a row that is measured, unpaced, up to a group's last reply, has enough samples for a median, and has the core
    /// state of most rows.
    fn counts(&self) -> bool {
        let row = self.row;
        let is_plain = row.origin == Origin::Measured && row.pace_per_s.is_none() && label::is_of_all(row);
        is_plain && self.apart.is_none() && self.p50().is_some()
    }
}

pub(super) fn summary(given: &[Input], labels: &Labels, states: &CoreStates) -> Vec<String> {
    let all = runs(given).flat_map(|(_, run)| run.results.iter().map(move |row| (run, row)));
    let rows: Vec<Shown<'_>> =
        all.enumerate().map(|(at, (run, row))| Shown { run, row, label: labels.row(at), apart: states.apart(at) }).collect();
    let explained: Vec<&Explained> = given
        .iter()
        .flat_map(|given| match &given.record {
            AnyRecord::Explain(record) => record.results.iter().collect(),
            _ => Vec::new(),
        })
        .collect();
    let compared: Vec<(&Compare, &Comparison)> = given
        .iter()
        .flat_map(|given| match &given.record {
            AnyRecord::Compare(record) => record.comparisons.iter().map(|found| (&**record, found)).collect(),
            _ => Vec::new(),
        })
        .collect();
    let has_round_trips = !(rows.is_empty() && explained.is_empty() && compared.is_empty());
    let lead = given.iter().find_map(|given| result(&given.record)).filter(|_| !has_round_trips);
    // Records of other kinds have their own words on what to do, and no floor beside them.
    if let Some(lead) = &lead {
        return vec![clean(lead)];
    }
    let lead = leads(&rows, &explained, &compared);
    let sentences = [lead, distance(&rows, &explained), advice(&rows, &explained, &compared)];
    sentences.iter().map(|text| clean(text)).collect()
}

/// The main result of a record without rows to rank, in a sentence; `None` if another sentence covers it, or there is no result.
fn result(record: &AnyRecord) -> Option<String> {
    match record {
        AnyRecord::Load(load) => {
            load.results.first().map(|curve| format!("{} under load: {}", short(&curve.path), decapitalised(&knee(load, curve))))
        }
        AnyRecord::TuneTry(tried) if !tried.contradictions.is_empty() => Some(
            "Unclear whether a setting that was tried is worth having: those that won contradict themselves when measured anew."
                .into(),
        ),
        AnyRecord::TuneTry(tried) if is_undecided(tried) => Some(
            "Undecided whether a setting that was tried is worth having: it ended before those that won were measured anew."
                .into(),
        ),
        AnyRecord::TuneTry(tried) if tried.winners.is_empty() => {
            Some(format!("None of {} settings that were tried made a path faster and none slower.", tried.settings.len()))
        }
        AnyRecord::TuneTry(tried) => Some(format!("Worth having of the settings that were tried: {}.", tried.winners.join(", "))),
        AnyRecord::Sweep(sweep) => {
            let effects = sweep.main_effects.iter().filter_map(|effect| {
                let p50 = effect.figures.iter().find(|ratio| ratio.figure == Figure::P50)?;
                Some((effect, p50.ratio)).filter(|_| p50.ratio > 0.0 && p50.tells())
            });
            let Some((effect, p50)) = effects.max_by(|(_, a), (_, b)| a.ln().abs().total_cmp(&b.ln().abs())) else {
                return Some("No factor's effect on RTT p50 can be told from none.".into());
            };
            let Effect { factor, level, against, .. } = effect;
            Some(format!("The strongest effect on RTT p50: {factor} = {level} against {against}, {} times.", ratio(p50)))
        }
        AnyRecord::Mesh(mesh) => Some(crate::mesh::sentences(mesh).join(". ") + "."),
        AnyRecord::Stream(stream) => {
            let lossless = |row: &StreamRow| row.lossless.as_ref().map_or(0.0, |trial| trial.offered_per_s);
            let best = stream.results.iter().max_by(|a, b| lossless(a).total_cmp(&lossless(b)))?;
            let per_s = rate(lossless(best));
            (lossless(best) > 0.0).then(|| format!("Most frames without loss: {per_s}/s, {} {}.", best.direction, best.io))
        }
        AnyRecord::Attached(attached) => {
            let p50 = attached.totals.first()?.sum_ns.p50.map(Nanos)?;
            Some(format!(
                "{} transactions of an application that ran: p50 {p50} from the first hook to the last.",
                attached.transactions
            ))
        }
        AnyRecord::Probe(probe) => {
            let p50 = probe.reads.read_ns.p50.map(Nanos)?;
            Some(format!("Reading 4 bytes of {} takes {p50} (p50).", probe.device.address))
        }
        AnyRecord::Primitives(_) => Some("The cost of the steps of a NIC driver is in the table of its steps.".into()),
        AnyRecord::Bounce(bounce) => Some(format!("{} sent {} frames a second back.", bounce.io, rate(bounce.frames_per_s))),
        AnyRecord::Noise(noise) => Some(crate::noise::answer(noise) + "."),
        AnyRecord::Check(check) => Some(match check.verdict {
            check::Verdict::Passed => "The instrument reported every known time within its bound.".into(),
            check::Verdict::Failed => {
                "The instrument failed its check: a known time was reported wrong, or its clock ran wrong.".into()
            }
        }),
        _ => None,
    }
}

/// The fastest path, or the main result if there is nothing to rank.
fn leads(rows: &[Shown<'_>], explained: &[&Explained], compared: &[(&Compare, &Comparison)]) -> String {
    if let Some(size) = size(rows) {
        let of: Vec<&Shown<'_>> = rows.iter().filter(|shown| payload(shown.row) == size).collect();
        let several = rows.iter().any(|shown| shown.counts() && payload(shown.row) != size);
        let prefix = if several { format!("With {size} B of payload, ") } else { String::new() };
        return match of.iter().filter(|shown| shown.counts()).collect::<Vec<_>>()[..] {
            [one] => alone(one, rows),
            _ => prefix + &fastest(&of.iter().map(|shown| entry(shown)).collect::<Vec<_>>()),
        };
    }
    let least = rows.iter().filter(|shown| shown.p50().is_some()).min_by_key(|shown| shown.p50());
    if let Some(least) = least {
        let kind = match rows.iter().any(|shown| shown.apart.is_some()) {
            true => "emulated, paced, or of another core state than most",
            false if rows.iter().all(|shown| shown.row.origin == Origin::Emulated) => "emulated",
            false => "emulated or paced",
        };
        let p50 = least.p50().unwrap_or_default();
        return format!("The fastest path is unknown: every row is {kind}; the least RTT p50 is {p50}, of {}.", least.label);
    }
    if let Some((record, found)) = strongest(compared) {
        let (arm, against) = (arm(record, &found.arm), arm(record, &found.against));
        return format!("{}.", sentence(record, found, &arm, &against).0);
    }
    let untraced = |result: &Explained| result.untraced_rtt_ns.p50.map(Nanos);
    match explained.iter().filter(|result| untraced(result).is_some()).min_by_key(|result| untraced(result)) {
        Some(best) => {
            let (p50, label) = (untraced(best).unwrap_or_default(), called(best));
            let word = if explained.len() > 1 { " is fastest" } else { "" };
            format!("{label}{word}: {p50} RTT p50 in {} round trips without any hook.", best.untraced_rtt_ns.count)
        }
        None => "The fastest path is unknown: no row has an RTT p50.".into(),
    }
}

/// The payload at which most paths were measured, the smallest if several tie: rows of different sizes are not compared.
fn size(rows: &[Shown<'_>]) -> Option<String> {
    let mut sizes: Vec<(u64, String, usize)> = Vec::new();
    for shown in rows.iter().filter(|shown| shown.counts()) {
        let (bytes, size) = (shown.row.request_bytes.saturating_add(shown.row.reply_bytes), payload(shown.row));
        match sizes.iter_mut().find(|(_, known, _)| *known == size) {
            Some((_, _, count)) => *count += 1,
            None => sizes.push((bytes, size, 1)),
        }
    }
    sizes.into_iter().max_by_key(|(bytes, _, count)| (*count, std::cmp::Reverse(*bytes))).map(|(_, size, _)| size)
}

fn entry<'a>(shown: &'a Shown<'_>) -> Entry<'a> {
    Entry {
        row: shown.row,
        link: &shown.run.place.link.kind,
        hosts: hosts(shown.run),
        client: &shown.run.place.hosts.client,
        apart: shown.apart,
    }
}

/// States that no other path was measured at this size, and gives the RTT of the largest other size if there is one.
fn alone(shown: &Shown<'_>, rows: &[Shown<'_>]) -> String {
    let p99 = shown.row.rtt_ns.p99.map_or(String::new(), |p99| format!(", p99 {}", Nanos(p99)));
    let figures =
        format!("{} RTT p50{p99}, {} transactions a second", shown.p50().unwrap_or_default(), rate(shown.row.transactions_per_s));
    let same = |other: &&Shown<'_>| other.counts() && other.row.path == shown.row.path && hosts(other.run) == hosts(shown.run);
    let largest = rows.iter().filter(same).max_by_key(|other| other.row.request_bytes.saturating_add(other.row.reply_bytes));
    let grown = match largest.filter(|largest| payload(largest.row) != payload(shown.row)) {
        Some(largest) => format!("; RTT p50 {} with {} B", largest.p50().unwrap_or_default(), payload(largest.row)),
        None => String::new(),
    };
    let entries: Vec<Entry<'_>> = rows.iter().filter(|other| payload(other.row) == payload(shown.row)).map(entry).collect();
    let others = left_out(&entries).unwrap_or_else(|| "No other path was measured flat out to hold it against.".into());
    format!("{}: {figures}{grown}. {others}", shown.label)
}

/// An arm's description instead of its letter.
fn arm(record: &Compare, name: &str) -> String {
    let found = record.arms.iter().find(|arm| arm.name == name);
    found.map_or(name.into(), |arm| described(arm, record))
}

/// The distance of the fastest row from its floor, and where the time goes if an explain record tells.
fn distance(rows: &[Shown<'_>], explained: &[&Explained]) -> String {
    let best = size(rows).and_then(|size| {
        let of = rows.iter().filter(|shown| shown.counts() && payload(shown.row) == size);
        of.min_by_key(|shown| shown.p50())
    });
    let same = |result: &&&Explained| best.is_some_and(|best| result.path == best.row.path);
    let broken_down = explained.iter().find(same).or_else(|| explained.first());
    let mut parts = Vec::new();
    let declared = match (best.and_then(|best| Some((best, best.row.floor.as_deref()?))), broken_down) {
        (Some((best, floor)), _) => Some((best.label.clone(), gap(best.p50().map(|ns| ns.0), best.row.origin, floor))),
        (None, Some(result)) => {
            result.floor.as_deref().map(|floor| (called(result), gap(result.untraced_rtt_ns.p50, result.origin, floor)))
        }
        (None, None) => None,
    };
    parts.extend(declared.as_ref().map(|(label, gap)| format!("{label}: {gap}.")));
    parts.extend(broken_down.and_then(|result| Some(format!("{}: {}", called(result), decapitalised(&typical(result)?)))));
    if broken_down.is_none() {
        let entries: Vec<Entry<'_>> = rows.iter().map(entry).collect();
        // The sentence may say that it lacks data; that is left out here.
        parts.extend(Some(blocking(&entries)).filter(|text| text.starts_with("Blocking")));
    }
    match (declared.is_some(), parts.is_empty()) {
        (true, _) if broken_down.is_none() => parts.push("`hairpin explain` shows the parts of the gap.".into()),
        (true, _) => {}
        (false, true) => parts.push(
            "The parts of the gap to the floor are unknown: no floor was declared (--wire), and no stages were measured (`hairpin explain`)."
                .into(),
        ),
        (false, false) => parts.push("How far that is from the floor is not known: none was declared (--wire).".into()),
    }
    parts.join(" ")
}

/// A path with its size, since stages of several records may stand side by side.
fn called(result: &Explained) -> String {
    let name = name(result);
    format!("{}, {}", name.base, name.size)
}

/// Lower-cases the first letter, for use after a colon: `Of 62.38 us typical` → `of 62.38 us typical`.
fn decapitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_lowercase().collect::<String>() + letters.as_str())
}

/// The next thing to try: the cause of slow round trips, the result of a comparison, or the most frequent warning.
fn advice(rows: &[Shown<'_>], explained: &[&Explained], compared: &[(&Compare, &Comparison)]) -> String {
    let most = |result: &&&Explained| result.causes.first().map(|cause| cause.lost_ns);
    let caused = explained.iter().filter(|result| most(result).is_some_and(|lost| lost > 0)).max_by_key(|result| most(result));
    if let Some((result, cause)) = caused.and_then(|result| Some((result, result.causes.first()?))) {
        let advice = cause.advice.trim_end_matches('.');
        if let (Some(lost), false) = (lost(result), advice.is_empty()) {
            return format!("{}: {} To try: {advice}.", called(result), decapitalised(&lost));
        }
    }
    if let Some((record, found)) = strongest(compared).filter(|(_, found)| found.verdict == Verdict::Faster) {
        return format!("To try: {}, in place of {}.", arm(record, &found.arm), arm(record, &found.against));
    }
    let mut codes: Vec<(&str, usize, String)> = Vec::new();
    for shown in rows.iter().filter(|shown| shown.row.origin == Origin::Measured) {
        let mut seen: Vec<&str> = Vec::new();
        for note in shown.row.warnings.iter().filter(|note| !OF_PRECISION.contains(&note.code.as_str())) {
            if seen.contains(&note.code.as_str()) {
                continue;
            }
            seen.push(&note.code);
            match codes.iter_mut().find(|(code, ..)| *code == note.code) {
                Some((_, count, _)) => *count += 1,
                None => codes.push((&note.code, 1, format!("{}: {}", shown.label, note.message))),
            }
        }
    }
    let rank = |(code, count, _): &(&str, usize, String)| (IN_EVERY_RTT.contains(code), *count);
    // `max_by_key` returns the last of equal elements, so the list is reversed to get the first.
    match codes.into_iter().rev().max_by_key(rank) {
        Some((code, count, first)) => {
            format!("To try: {} (warning {code}, in {count} of {} rows).", first.trim_end_matches('.'), rows.len())
        }
        None if rows.is_empty() && explained.is_empty() => "No advice: there is no row.".into(),
        None => "No advice from these records; `hairpin explain` shows where the time goes, and `hairpin compare` whether a change is worth it."
            .into(),
    }
}

/// The comparison with the strongest verdict: improvements first, then regressions; the first of equals.
fn strongest<'a>(compared: &[(&'a Compare, &'a Comparison)]) -> Option<(&'a Compare, &'a Comparison)> {
    let rank = |found: &Comparison| match found.verdict {
        Verdict::Faster => 0,
        Verdict::Slower => 1,
        Verdict::Same => 2,
        Verdict::Unclear => 3,
    };
    compared.iter().min_by_key(|(_, found)| rank(found)).copied()
}
