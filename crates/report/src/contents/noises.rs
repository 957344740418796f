//! Results of `hairpin check --host`: the stalls of each core, and the cores as a picture of a line and a column each.

use hairpin_record::any::AnyRecord;
use hairpin_record::explain::Cause;
use hairpin_record::noise::{CoreNoise, NoiseBody};

use crate::noise;
use crate::prose::clean;
use crate::view::{CoreStalls, HostNoise, Input, MeshHost, MeshMap, MeshPair, StallCause};

/// Causes of a core that are shown.
const CAUSES: usize = 5;

/// All of them, in the order of the records.
pub(super) fn noises(given: &[Input]) -> Vec<HostNoise> {
    let of = |(at, given): (usize, &Input)| match &given.record {
        AnyRecord::Noise(noise) => Some(host(at + 1, noise)),
        _ => None,
    };
    given.iter().enumerate().filter_map(of).collect()
}

fn host(record: usize, noise: &NoiseBody) -> HostNoise {
    HostNoise {
        record,
        said: vec![noise::answer(noise), noise::how(noise)],
        cores: noise.cores.iter().map(stalls).collect(),
        no_causes: noise.no_causes.as_deref().map(clean).unwrap_or_default(),
        map: map(record, noise),
    }
}

fn stalls(core: &CoreNoise) -> CoreStalls {
    let cause = |cause: &Cause| StallCause {
        cause: noise::cause_words(&cause.cause, &cause.who),
        count: cause.count,
        lost_share: cause.lost_ns as f64 / core.traced_ns.max(1) as f64,
    };
    CoreStalls {
        cpu: core.cpu,
        duration_ns: core.duration_ns,
        lost_share: core.lost_share(),
        above_1us: core.above_1us,
        above_10us: core.above_10us,
        above_100us: core.above_100us,
        p50_ns: core.stall_ns.p50,
        max_ns: core.stall_ns.max,
        causes: core.causes.iter().take(CAUSES).map(cause).collect(),
    }
}

fn map(record: usize, noise: &NoiseBody) -> MeshMap {
    let taken = |cpu: u32| noise.choice.is_some_and(|pair| pair.contains(&cpu));
    let host = |core: &CoreNoise| MeshHost { rank: core.cpu, slow: taken(core.cpu), ..MeshHost::default() };
    let pair = |pair: &hairpin_record::compare::Placement| MeshPair {
        a: pair.client.min(pair.server),
        b: pair.client.max(pair.server),
        count: u64::from(pair.core_rtt_ns.is_some()),
        p50_ns: pair.core_rtt_ns,
        missing: if pair.core_rtt_ns.is_none() { "one of the two was too busy".into() } else { String::new() },
    };
    let mut measured: Vec<u64> = noise.pairs.iter().filter_map(|pair| pair.core_rtt_ns).collect();
    measured.sort_unstable();
    MeshMap {
        record,
        label: "A cache line to the other core and back".into(),
        said: Vec::new(),
        of: noise.cores.len(),
        hosts: noise.cores.iter().map(host).collect(),
        typical_ns: measured.get(measured.len() / 2).copied(),
        pairs: noise.pairs.iter().map(pair).collect(),
    }
}
