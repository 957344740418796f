//! The record of a mesh: from the deliveries of the ranks, or from the files alone.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use hairpin_record::histogram::Decoded;
use hairpin_record::mesh::{MeshBody, MissingRank, Pair, Rank, Visit};
use hairpin_record::quantiles::Quantiles;
use hairpin_units::Quantile;

use crate::meeting::{Card, LISTED, MeetingError, card_file, ranks_there, read_card};
use crate::schedule::client_of;
use crate::setup::{BadSetup, Setup};
use crate::visit::{self, Told};

/// All that is known of a mesh.
#[derive(Debug)]
pub struct Parts {
    /// The work of the ranks.
    pub setup: Setup,
    /// The ranks that are known.
    pub cards: BTreeMap<u32, Card>,
    /// The visits, as the ranks report them.
    pub visits: Vec<Told>,
    /// Ranks that are not there, or not to the end, and why.
    pub missing: BTreeMap<u32, String>,
    /// True if the mesh was ended early.
    pub interrupted: bool,
}

/// Why files are not merged.
#[derive(Debug, thiserror::Error)]
pub enum MergeError {
    /// A file cannot be read.
    #[error(transparent)]
    Meeting(#[from] MeetingError),
    /// There is no rank's file.
    #[error("{} holds no mesh (no rank-K.json): name the directory that `hairpin mesh` wrote", .0.display())]
    Empty(PathBuf),
    /// Two ranks belong to two meshes.
    #[error("{} and {} are of different meshes: keep the files of one mesh in one directory", .0.display(), .1.display())]
    Mixed(PathBuf, PathBuf),
    /// A file of visits cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Visits { path: PathBuf, source: io::Error },
    /// The ranks measured something that this version does not know.
    #[error(transparent)]
    Setup(#[from] BadSetup),
}

/// A mesh from its files.
pub fn of_directory(dir: &Path) -> Result<Parts, MergeError> {
    let mut cards: BTreeMap<u32, Card> = BTreeMap::new();
    for rank in ranks_there(dir)? {
        cards.extend(read_card(dir, rank)?.map(|card| (rank, card)));
    }
    let Some((first, card)) = cards.first_key_value() else { return Err(MergeError::Empty(dir.into())) };
    if let Some((other, _)) = cards.iter().find(|(_, other)| other.mesh != card.mesh || other.setup != card.setup) {
        return Err(MergeError::Mixed(card_file(dir, *first), card_file(dir, *other)));
    }
    let setup = card.setup.clone();
    // A file may name any number of ranks.
    setup.schedule()?;
    let (mut visits, mut missing, mut silent) = (Vec::<Told>::new(), BTreeMap::new(), Vec::new());
    for rank in 0..setup.ranks {
        let told = visit::read(dir, rank).map_err(|source| MergeError::Visits { path: visit::file(dir, rank), source })?;
        if !cards.contains_key(&rank) {
            missing.insert(rank, format!("rank {rank} never started: no rank-{rank}.json"));
        } else if told.is_empty() {
            silent.push(rank);
        }
        visits.extend(told);
    }
    // Only the client reports a measured visit: a rank that was always the server, or had no visit yet, has an empty file and is
    // not missing.
    let mut was_met: BTreeMap<u32, bool> = BTreeMap::new();
    for told in &visits {
        for rank in [told.pair.0, told.pair.1] {
            *was_met.entry(rank).or_default() |= told.visit.missing.is_none();
        }
    }
    for rank in silent.into_iter().filter(|rank| was_met.get(rank) == Some(&false)) {
        let why = format!("rank {rank} reported no visits (pairs-{rank}.jsonl is empty), and no other rank measured it");
        missing.insert(rank, why);
    }
    Ok(Parts { setup, cards, visits, missing, interrupted: false })
}

/// The record's body, without effects.
pub fn body(parts: Parts) -> Result<MeshBody, BadSetup> {
    let Parts { setup, cards, visits, missing, interrupted } = parts;
    let schedule = setup.schedule()?;
    let mut pairs: BTreeMap<(u32, u32), BTreeMap<u32, Visit>> = BTreeMap::new();
    for (pair, visit, round) in schedule.visits() {
        let blank = Visit { visit, client: client_of(pair, visit), round, ..Visit::default() };
        pairs.entry(pair).or_default().insert(visit, blank);
    }
    let mut heard: BTreeMap<((u32, u32), u32), Vec<Told>> = BTreeMap::new();
    for told in visits {
        let Some(known) = pairs.get(&told.pair) else { continue };
        let is_planned = known.get(&told.visit.visit).is_none_or(|planned| planned.round == told.visit.round);
        if is_planned && told.visit.client == client_of(told.pair, told.visit.visit) && told.visit.visit > 0 {
            // Most visits are reported once, and a list that grows has room for four.
            heard.entry((told.pair, told.visit.visit)).or_insert_with(|| Vec::with_capacity(1)).push(told);
        }
    }
    let mut warnings = Vec::new();
    for (pair, visits) in &mut pairs {
        let extra: Vec<u32> = heard.range((*pair, setup.visits + 1)..=(*pair, u32::MAX)).map(|((_, visit), _)| *visit).collect();
        for number in extra {
            visits.insert(number, Visit { visit: number, client: client_of(*pair, number), ..Visit::default() });
        }
        for (number, visit) in visits {
            let mut told = heard.remove(&(*pair, *number)).unwrap_or_default();
            match told.iter().position(|told| told.visit.missing.is_none()).map(|at| told.swap_remove(at).visit) {
                Some(found) if !found.stages.is_empty() || Decoded::decode(&found.histogram).is_ok() => *visit = found,
                Some(_) => visit.missing = Some("its histogram cannot be read".into()),
                None => {
                    visit.missing = Some(reason(*pair, visit, &told, &missing, interrupted));
                    if let Some(first) = told.first() {
                        (visit.round, visit.at_ns) = (first.visit.round, first.visit.at_ns);
                    }
                }
            }
        }
    }
    let pair = |((a, b), visits): ((u32, u32), BTreeMap<u32, Visit>)| {
        let visits: Vec<Visit> = visits.into_values().collect();
        Pair { a, b, rtt_ns: pooled(&visits), visits }
    };
    let id = cards.values().next().map(id_of).unwrap_or_default();
    let rank = |card: &Card| Rank {
        rank: card.rank,
        host: card.host.clone(),
        switch: None,
        address: if card.address.contains(':') {
            format!("[{}]:{}", card.address, card.port)
        } else {
            format!("{}:{}", card.address, card.port)
        },
        tool: card.tool.clone(),
        facts: card.facts.clone(),
        findings: card.findings.clone(),
    };
    warnings.extend(shared_hosts(&cards));
    Ok(MeshBody {
        id,
        ranks: cards.values().map(rank).collect(),
        path: setup.path.clone(),
        request_bytes: setup.request.into(),
        reply_bytes: setup.reply.into(),
        schedule: setup.of_record(&schedule),
        pairs: pairs.into_iter().map(pair).collect(),
        missing: missing.into_iter().map(|(rank, why)| MissingRank { rank, why }).collect(),
        effects: Vec::new(),
        picked: None,
        thresholds: Vec::new(),
        warnings,
    })
}

/// The record's id, as its first rank tells: the name of the mesh, with the time if others have that name too.
fn id_of(first: &Card) -> String {
    match first.mesh.as_str() {
        LISTED => format!("{LISTED}-{}", first.started.replace(['-', ':'], "")),
        name => name.into(),
    }
}

/// Why a visit is missing: what its client says, else what its server says, else what is known of the two ranks.
fn reason((a, b): (u32, u32), visit: &Visit, told: &[Told], missing: &BTreeMap<u32, String>, interrupted: bool) -> String {
    let by = |rank: u32| told.iter().find(|told| told.by == rank).and_then(|told| told.visit.missing.clone());
    let server = if visit.client == a { b } else { a };
    if let Some(why) = by(visit.client).or_else(|| by(server)) {
        return why;
    }
    match [visit.client, server].iter().find_map(|rank| missing.get(rank)) {
        Some(why) => why.clone(),
        None if interrupted => "the mesh was ended before it".into(),
        None => format!("rank {} ended before it", visit.client),
    }
}

/// A warning for each host with several ranks.
fn shared_hosts(cards: &BTreeMap<u32, Card>) -> Vec<hairpin_record::warning::Note> {
    let mut hosts: BTreeMap<&str, Vec<&Card>> = BTreeMap::new();
    cards.values().for_each(|card| hosts.entry(&card.host_id).or_default().push(card));
    let shared = hosts.into_values().filter(|cards| cards.len() > 1);
    let note = |cards: Vec<&Card>| {
        let ranks: Vec<String> = cards.iter().map(|card| card.rank.to_string()).collect();
        let message = format!(
            "ranks {} are all on host {}: pairs of one round share its cores and its network; start one rank a host",
            ranks.join(", "),
            cards[0].host
        );
        hairpin_record::warning::Note { code: "shared-host".into(), message }
    };
    shared.map(note).collect()
}

/// The summary of all measured visits together: quantiles from their added histograms, the rest from their exact figures.
fn pooled(visits: &[Visit]) -> Option<Quantiles> {
    let measured: Vec<(&Quantiles, &Visit)> =
        visits.iter().filter(|visit| visit.missing.is_none()).filter_map(|visit| Some((visit.rtt_ns.as_ref()?, visit))).collect();
    if let [(only, _)] = measured[..] {
        return Some(only.clone());
    }
    let mut all = Decoded::empty();
    for (_, visit) in &measured {
        // Decoded before.
        all.add(&Decoded::decode(&visit.histogram).ok()?);
    }
    if measured.is_empty() {
        return None;
    }
    let count: u64 = measured.iter().map(|(figures, _)| figures.count).sum();
    let min = measured.iter().filter_map(|(figures, _)| figures.min).min();
    let max = measured.iter().filter_map(|(figures, _)| figures.max).max();
    let sum = |of: &dyn Fn(&Quantiles) -> Option<f64>| {
        let sums: Option<f64> = measured.iter().map(|(figures, _)| Some(of(figures)? * figures.count as f64)).sum();
        sums.filter(|_| count > 0).map(|sum| sum / count as f64)
    };
    let mean = sum(&|figures| figures.mean);
    let squares = sum(&|figures| Some(figures.mean?.powi(2) + figures.stddev?.powi(2)));
    let tenths = |x: f64| (x * 10.0).round() / 10.0;
    let quantile = |q: Quantile| all.quantile(q).map(|ns| ns.clamp(min.unwrap_or(0), max.unwrap_or(u64::MAX)));
    Some(Quantiles {
        count,
        min,
        mean: mean.map(tenths),
        stddev: mean.zip(squares).map(|(mean, squares)| tenths((squares - mean * mean).max(0.0).sqrt())),
        p50: quantile(Quantile::P50),
        p90: quantile(Quantile::P90),
        p99: quantile(Quantile::P99),
        p999: quantile(Quantile::P999),
        max,
    })
}

#[cfg(test)]
mod tests;
