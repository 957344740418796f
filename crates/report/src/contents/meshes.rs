//! The pairs of a mesh, for a picture of a line and a column per rank.

use std::collections::BTreeSet;

use hairpin_record::any::AnyRecord;
use hairpin_record::mesh::{MeshBody, Pair, Subject};
use hairpin_units::{Arrange, Gather};

use crate::figure::payloads;
use crate::label::short;
use crate::mesh;
use crate::prose::clean;
use crate::view::{Input, MeshHost, MeshMap, MeshPair};

/// Most ranks of a picture.
const MOST: usize = 256;

/// All of them, in the order of the records.
pub(super) fn meshes(given: &[Input]) -> Vec<MeshMap> {
    let of = |(at, given): (usize, &Input)| match &given.record {
        AnyRecord::Mesh(mesh) => Some(map(at + 1, mesh)),
        _ => None,
    };
    given.iter().enumerate().filter_map(of).collect()
}

fn map(record: usize, mesh: &MeshBody) -> MeshMap {
    let effect = |rank: u32| mesh.effects.iter().find(|effect| effect.subject == Subject::Rank(rank));
    let mut shown: BTreeSet<u32> = mesh.pairs.iter().flat_map(|pair| [pair.a, pair.b]).gather();
    let of = shown.len();
    if of > MOST {
        let mut ranks: Vec<(f64, u32)> =
            shown.iter().map(|rank| (effect(*rank).map_or(0.0, |effect| effect.ratio), *rank)).collect();
        ranks.arrange_by(|(one, a), (other, b)| other.total_cmp(one).then(a.cmp(b)));
        shown = ranks.into_iter().take(MOST).map(|(_, rank)| rank).collect();
    }
    let host = |rank: u32| MeshHost {
        rank,
        host: clean(&mesh.host_of(rank)),
        switch: mesh.ranks.iter().find(|known| known.rank == rank).and_then(|known| known.switch.as_deref()).map(clean),
        effect: effect(rank).map(|effect| effect.ratio),
        slow: effect(rank).is_some_and(|effect| effect.convicted),
    };
    MeshMap {
        record,
        label: clean(&format!("{}, {} B", short(&mesh.path), payloads(mesh.request_bytes, mesh.reply_bytes))),
        said: mesh::sentences(mesh),
        of,
        hosts: shown.iter().copied().map(host).collect(),
        typical_ns: mesh::typical(mesh),
        pairs: mesh.pairs.iter().filter(|pair| shown.contains(&pair.a) && shown.contains(&pair.b)).map(pair).collect(),
    }
}

fn pair(pair: &Pair) -> MeshPair {
    MeshPair {
        a: pair.a,
        b: pair.b,
        count: pair.rtt_ns.as_ref().map_or(0, |rtt| rtt.count),
        p50_ns: pair.rtt_ns.as_ref().and_then(|rtt| rtt.p50),
        missing: clean(&mesh::why_missing(pair)),
    }
}
