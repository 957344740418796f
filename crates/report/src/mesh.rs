//! The output of `hairpin mesh`: who is slow, the pairs as a matrix, what is missing and why.

use std::collections::BTreeMap;

use hairpin_record::mesh::{Effect, Mesh, MeshBody, Pair, Picked, Subject, Threshold, Visit};
use hairpin_units::{Arrange, Gather};

use crate::cell::Cell;
use crate::doc::{Block, Column, Data, Doc, List, Show, Shown, Table};
use crate::figure::{beside, payloads, ratio, time, time_range};
use crate::kinds;
use crate::label::short;
use crate::notes::ended;
use crate::options::Options;
use crate::prose::clean;
use crate::style::Tone;

/// Most ranks whose matrix has room in 80 columns.
const MATRIX: usize = 16;
/// Slowest pairs that are shown if there are more ranks.
pub(crate) const SLOWEST: usize = 10;
/// Pairs named in a sentence.
const NAMED: usize = 8;

impl Show for Mesh {
    fn doc(&self, _: &Options) -> Doc {
        let mut doc = Doc::default();
        let (said, word) = summary(self);
        doc.verdict("", said, word, Tone::Heading);
        convicted(self).for_each(|effect| doc.verdict("", slow(self, effect), "slow", Tone::Error));
        self.thresholds.iter().for_each(|held| doc.verdict("", threshold(self, held), "crossed", Tone::Error));
        if let Some(picked) = &self.picked {
            doc.text(of_lowest(self, picked));
        }
        doc.text(work(self));
        doc.gap();
        match self.schedule.ranks as usize <= MATRIX {
            true => matrix(&mut doc, self),
            false => {
                let mut brief = Doc::default();
                brief.heading(format!("The {SLOWEST} slowest pairs, RTT in us"));
                brief.table(pairs(self, &slowest(self, SLOWEST)));
                doc.part(Shown::Brief, brief);
            }
        }
        doc.list(List::errors("Missing", missing(self)));
        let mut brief = Doc::default();
        brief
            .blocks
            .extend(kinds::lines_of(&[&self.body], |body| &body.warnings, |_| String::new()).into_iter().map(Block::Text));
        let visits: Vec<&Visit> = self.pairs.iter().flat_map(Pair::measured).collect();
        let whose = |of: &[usize]| kinds::share(of, visits.len(), "visits");
        brief.blocks.extend(kinds::lines_of(&visits, |visit| &visit.warnings, whose).into_iter().map(Block::Text));
        doc.part(Shown::Brief, brief);
        let mut full = Doc::default();
        full.gap();
        full.heading("RTT of the pairs in us, the slowest first");
        full.table(pairs(self, &slowest(self, usize::MAX)));
        full.blocks.extend(Doc::of(&self.head, [format!("mesh {}", clean(&self.id))]).blocks);
        let general = self.warnings.iter().map(|note| clean(&note.message)).chain(of_visits(&visits));
        full.list(List::warnings("Warnings", general.collect()));
        doc.part(Shown::Full, full);
        doc.list(ended(&self.head));
        doc.data = Some(data(self));
        doc
    }
}

/// Each kind of warning once, with the number of visits that have it.
fn of_visits(visits: &[&Visit]) -> Vec<String> {
    let mut found: BTreeMap<&str, (usize, &str)> = BTreeMap::new();
    for visit in visits {
        // Both sides of a visit may have the same warning.
        let mut codes: Vec<&str> = Vec::new();
        for note in &visit.warnings {
            if !codes.contains(&note.code.as_str()) {
                codes.push(&note.code);
                found.entry(&note.code).or_insert((0, &note.message)).0 += 1;
            }
        }
    }
    found
        .into_values()
        .map(|(count, message)| format!("{count} of {} visits, such as: {}", visits.len(), clean(message)))
        .collect()
}

/// The ratio and the interval of a convicted subject, and its differences.
fn slow(mesh: &MeshBody, effect: &Effect) -> String {
    let subject = match &effect.subject {
        Subject::Rank(rank) => clean(&mesh.host_of(*rank)),
        Subject::Pair(a, b) => format!("{} - {}", clean(&mesh.host_of(*a)), clean(&mesh.host_of(*b))),
        Subject::Group(name) => clean(name),
        _ => "another subject".into(),
    };
    let differs = match effect.because.is_empty() {
        true => String::new(),
        false => format!("; there {}", effect.because.iter().map(|why| clean(why)).collect::<Vec<_>>().join(", ")),
    };
    let than = match &effect.subject {
        Subject::Rank(_) => "the others' p50",
        Subject::Pair(..) => "the p50 that its two hosts explain",
        _ => "the p50 of the like",
    };
    format!("slow: {subject} (x{}, {} to {} of {than}){differs}", ratio(effect.ratio), ratio(effect.low), ratio(effect.high))
}

fn convicted(mesh: &MeshBody) -> impl Iterator<Item = &Effect> {
    mesh.effects.iter().filter(|effect| effect.convicted)
}

/// Who is slow, the thresholds, and how much was measured.
pub(crate) fn sentences(mesh: &MeshBody) -> Vec<String> {
    let slow = convicted(mesh).map(|effect| slow(mesh, effect));
    slow.chain(mesh.thresholds.iter().map(|held| threshold(mesh, held))).chain([summary(mesh).0]).collect()
}

/// The pairs with their RTT p50, ascending.
fn by_p50(mesh: &MeshBody) -> Vec<(u64, &Pair)> {
    let mut p50: Vec<(u64, &Pair)> = mesh.pairs.iter().filter_map(|pair| Some((pair.rtt_ns.as_ref()?.p50?, pair))).collect();
    p50.arrange_by_key(|(ns, pair)| (*ns, pair.a, pair.b));
    p50
}

/// The median of the pairs' RTT p50.
pub(crate) fn typical(mesh: &MeshBody) -> Option<u64> {
    let p50 = by_p50(mesh);
    p50.get(p50.len() / 2).map(|(ns, _)| *ns)
}

/// Why visits of the pair are missing.
pub(crate) fn why_missing(pair: &Pair) -> String {
    let mut why: Vec<&str> = pair.visits.iter().filter_map(|visit| visit.missing.as_deref()).collect();
    why.dedup();
    why.join("; ")
}

/// How much was measured, and the range of it.
pub(crate) fn summary(mesh: &MeshBody) -> (String, &'static str) {
    let p50 = by_p50(mesh);
    let measured = mesh.pairs.iter().filter(|pair| pair.rtt_ns.is_some()).count();
    let of = format!("{measured} of {} pairs measured", mesh.pairs.len());
    let (Some((least, _)), Some((most, pair))) = (p50.first(), p50.last()) else { return (of, "pairs measured") };
    let (typical, _) = p50[p50.len() / 2];
    let said = format!(
        "{of}: RTT p50 {}, typically {}; slowest {}-{} ({} - {})",
        time_range(*least as f64, *most as f64),
        time(typical as f64),
        pair.a,
        pair.b,
        clean(&mesh.host_of(pair.a)),
        clean(&mesh.host_of(pair.b)),
    );
    (said, "pairs measured")
}

fn work(mesh: &MeshBody) -> String {
    let of = &mesh.schedule;
    format!(
        "{}, {} B, {} ranks, pairs {}, {} visits of {} in {} rounds",
        short(&mesh.path),
        payloads(mesh.request_bytes, mesh.reply_bytes),
        of.ranks,
        clean(&of.pairs),
        of.visits,
        time(of.duration_ns as f64),
        of.rounds
    )
}

fn named<'a>(mesh: &MeshBody, pairs: impl ExactSizeIterator<Item = &'a (u32, u32)>) -> String {
    let more = pairs.len().saturating_sub(NAMED);
    let first: Vec<String> = pairs.take(NAMED).map(|(a, b)| format!("{a}-{b}")).collect();
    let text = if first.len() == mesh.pairs.len() { "all".into() } else { first.join(", ") };
    if more > 0 { format!("{text} and {more} more") } else { text }
}

fn threshold(mesh: &MeshBody, held: &Threshold) -> String {
    let unknown = match held.unknown.len() {
        0 => String::new(),
        n => format!("; {n} pairs have no such figure"),
    };
    if held.given.starts_with("node") {
        let list = |ranks: &[u32]| ranks.iter().map(|rank| clean(&mesh.host_of(*rank))).collect::<Vec<_>>().join(", ");
        let crossed =
            if held.ranks.is_empty() { "no host is beyond it".into() } else { format!("crossed by {}", list(&held.ranks)) };
        let unclear = if held.unclear.is_empty() { String::new() } else { format!("; unclear of {}", list(&held.unclear)) };
        return format!("{}: {crossed}{unclear}", clean(&held.given));
    }
    match held.crossed.len() {
        0 => format!("{}: no pair is beyond it{unknown}", clean(&held.given)),
        n => format!(
            "{}: crossed by {n} of {} pairs: {}{unknown}",
            clean(&held.given),
            mesh.pairs.len(),
            named(mesh, held.crossed.iter())
        ),
    }
}

/// The ranks of lowest mutual latency, and how good the choice is.
fn of_lowest(mesh: &MeshBody, picked: &Picked) -> String {
    let hosts: Vec<String> = picked.ranks.iter().map(|rank| clean(&mesh.host_of(*rank))).collect();
    let times = match (picked.mean_ns, picked.longest_ns) {
        (Some(mean), Some(longest)) => format!(" (RTT p50 of their pairs: mean {}, longest {})", time(mean), time(longest)),
        _ => String::new(),
    };
    let sure = if picked.exact { "no choice is better" } else { "found by exchanging hosts; a better choice may exist" };
    let expected = match picked.expected_pairs {
        0 => String::new(),
        n => format!("; {n} of their pairs were not measured"),
    };
    format!("lowest mutual latency: {}{times}; {sure}{expected}", hosts.join(", "))
}

/// p50 of each pair, the ranks as column heads, and the hosts of the ranks.
fn matrix(doc: &mut Doc, mesh: &MeshBody) {
    let ranks = mesh.schedule.ranks;
    let of: BTreeMap<(u32, u32), &Pair> = mesh.pairs.iter().map(|pair| ((pair.a, pair.b), pair)).gather();
    let p50 = |pair: &Pair| pair.rtt_ns.as_ref().and_then(|rtt| rtt.p50);
    let usual = typical(mesh).unwrap_or_default() as f64;
    let unit = time(usual);
    let unit = unit.split(' ').nth(1).unwrap_or("ns");
    doc.heading(format!("RTT p50 of each pair in {unit}, by rank"));
    let columns = std::iter::once(Column::words("")).chain((1..ranks).map(|rank| Column::figures(rank.to_string())));
    let cell = |a: u32, b: u32| match of.get(&(a, b)) {
        _ if b <= a => Cell::Blank,
        None => ".".into(),
        Some(Pair { rtt_ns: None, .. }) => "-".into(),
        Some(pair) => p50(pair).map_or_else(|| "few".into(), |ns| Cell::Text(beside(ns as f64, usual))),
    };
    let row = |a: u32| -> Vec<Cell> { std::iter::once(a.to_string().into()).chain((1..ranks).map(|b| cell(a, b))).collect() };
    doc.table(Table::new(columns.collect(), 1, (0..ranks.saturating_sub(1)).map(row)));
    let host =
        |rank: u32| mesh.ranks.iter().find(|known| known.rank == rank).map(|known| format!("{rank} {}", clean(&known.host)));
    let hosts: Vec<String> = (0..ranks).map(|rank| host(rank).unwrap_or_else(|| format!("{rank} missing"))).collect();
    doc.text(format!("ranks: {}", hosts.join(", ")));
    if mesh.pairs.iter().any(|pair| pair.rtt_ns.is_none()) {
        doc.text("-: missing");
    }
    if mesh.pairs.iter().any(|pair| pair.rtt_ns.as_ref().is_some_and(|rtt| rtt.p50.is_none())) {
        doc.text("few: too few round trips for a median");
    }
    if of.len() < (ranks * ranks.saturating_sub(1) / 2) as usize {
        doc.text(".: not in the schedule");
    }
}

/// The pairs with the highest p50 first, those without one last.
fn slowest(mesh: &MeshBody, most: usize) -> Vec<&Pair> {
    let mut all: Vec<&Pair> = mesh.pairs.iter().collect();
    let p50 = |pair: &Pair| pair.rtt_ns.as_ref().and_then(|rtt| rtt.p50);
    all.arrange_by_key(|pair| (std::cmp::Reverse(p50(pair)), pair.a, pair.b));
    all.truncate(most);
    all
}

fn pairs(mesh: &MeshBody, of: &[&Pair]) -> Table {
    let mut columns = vec![Column::words("pair"), Column::words("hosts"), Column::figures("visits")];
    columns.extend(["p50", "p99", "p99.9", "max"].map(|title| Column::us(title).under("RTT")));
    let row = |pair: &&Pair| {
        let rtt = pair.rtt_ns.as_ref();
        let ns = |of: fn(&hairpin_record::quantiles::Quantiles) -> Option<u64>| Cell::ns(rtt.and_then(of));
        vec![
            format!("{}-{}", pair.a, pair.b).into(),
            format!("{} - {}", clean(&mesh.host_of(pair.a)), clean(&mesh.host_of(pair.b))).into(),
            (pair.measured().count() as u64).into(),
            ns(|rtt| rtt.p50),
            ns(|rtt| rtt.p99),
            ns(|rtt| rtt.p999),
            ns(|rtt| rtt.max),
        ]
    };
    Table::new(columns, 2, of.iter().map(row))
}

/// Why visits are missing.
struct Reason<'a> {
    why: &'a str,
    pairs: Vec<(u32, u32)>,
    visits: usize,
}

/// A line for each reason, with the pairs whose visits are missing for it; then the ranks that are not there.
fn missing(mesh: &MeshBody) -> Vec<String> {
    let mut reasons: Vec<Reason<'_>> = Vec::new();
    for pair in &mesh.pairs {
        for why in pair.visits.iter().filter_map(|visit| visit.missing.as_deref()) {
            let at = reasons.iter().position(|known| known.why == why).unwrap_or_else(|| {
                reasons.push(Reason { why, pairs: Vec::new(), visits: 0 });
                reasons.len() - 1
            });
            let reason = &mut reasons[at];
            reason.visits += 1;
            if reason.pairs.last() != Some(&(pair.a, pair.b)) {
                reason.pairs.push((pair.a, pair.b));
            }
        }
    }
    let plural = |n: usize, what: &str| if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") };
    let line = |Reason { why, pairs: of, visits }: &Reason<'_>| {
        let pairs = if of.len() == 1 { "pair" } else { "pairs" };
        format!("{} of {pairs} {}: {}", plural(*visits, "visit"), named(mesh, of.iter()), clean(why))
    };
    // The reasons of pairs are listed already.
    let is_new = |why: &str| !reasons.iter().any(|known| known.why == why);
    let ranks: Vec<String> = mesh.missing.iter().filter(|rank| is_new(&rank.why)).map(|rank| clean(&rank.why)).collect();
    reasons.iter().map(line).chain(ranks).collect()
}

fn data(mesh: &Mesh) -> Data {
    let names = "started mesh a b host_a host_b visits transactions lost min_ns p50_ns p90_ns p99_ns p99.9_ns max_ns missing";
    let row = |pair: &Pair| {
        let rtt = pair.rtt_ns.clone().unwrap_or_default();
        let sum = |of: fn(&Visit) -> u64| pair.measured().map(of).sum::<u64>();
        [
            (&mesh.head.started).into(),
            (&mesh.id).into(),
            pair.a.into(),
            pair.b.into(),
            mesh.host_of(pair.a).into(),
            mesh.host_of(pair.b).into(),
            (pair.measured().count() as u64).into(),
            sum(|visit| visit.transactions).into(),
            sum(|visit| visit.lost).into(),
            rtt.min.into(),
            rtt.p50.into(),
            rtt.p90.into(),
            rtt.p99.into(),
            rtt.p999.into(),
            rtt.max.into(),
            why_missing(pair).into(),
        ]
    };
    Data::table(names, mesh.pairs.iter().map(row))
}
