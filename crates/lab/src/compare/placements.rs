//! `hairpin compare placements`: which pairs of CPUs to compare, and the RTT on each.
//!
//! ```text
//!   CPUs that this process may use ──▶ pairs, each with its relation (sysfs) and its core distance (measured)
//!                                         └──▶ one pair of each kind and distance ──▶ an arm per wait policy ──▶ a comparison ──▶ the matrix
//! ```
//! The first arm is the pair that a run takes by itself. A placement of a path is compared with that pair on the same path, and
//! the second path with the first on that pair.

use std::hint::spin_loop;
use std::time::{Duration, Instant};

use hairpin_plan::job::Sides;
use hairpin_plan::spec::{SideSpec, Spec};
use hairpin_record::compare::{Compare, Placement, PlacementCell};
use hairpin_record::core_states::split;
use hairpin_record::paired;
use hairpin_sys::host::Host;
use hairpin_sys::shared::Shared;
use hairpin_sys::thread::pin;
use hairpin_tune::{Place, Reading, knob};
use hairpin_units::Arrange;
use serde_json::Value;

use crate::experiment::Arm;
use crate::experiment::rounds::letter;

/// Up to this number of CPUs every pair is compared; with more, one of each kind.
const FEW: usize = 3;
/// Time for which a cache line goes to and fro between two CPUs; its median is their distance.
const BOUNCE: Duration = Duration::from_millis(2);
/// Time that the other CPU has to join.
const PATIENCE: Duration = Duration::from_millis(50);
/// Others may have one of the CPUs for all of that time, so it is tried again.
const ATTEMPTS: u32 = 5;

/// The reason for a cell without a figure.
const ONE_CORE: &str = "a spinning side keeps the other off the CPU for the scheduler's time slices";

/// The pairs of these CPUs to compare, nearest first. `distance` measures the cache-line round trip between two of them in ns.
pub fn pairs(host: &dyn Host, cpus: &[u32], distance: &mut dyn FnMut(u32, u32) -> Option<u64>) -> Vec<Placement> {
    let clients = if cpus.len() <= FEW { cpus } else { &cpus[..1] };
    let mut found = Vec::new();
    for (at, &client) in clients.iter().enumerate() {
        for &server in &cpus[at..] {
            let core_rtt_ns = if client == server { None } else { distance(client, server) };
            found.push(Placement { client, server, core_rtt_ns, stands_for: 1, ..related(host, client, server) });
        }
    }
    if cpus.len() > FEW {
        found = one_of_each(found);
    }
    found.arrange_by_key(|pair| (pair.client != pair.server, pair.core_rtt_ns.unwrap_or(u64::MAX)));
    found
}

/// The relation of two CPUs, as the kernel tells it.
pub(crate) fn related(host: &dyn Host, client: u32, server: u32) -> Placement {
    let place = Place { cpus: &[client, server], interface: None };
    let Some(Reading::Is(fact)) = knob("core_relation").map(|knob| knob.read(host, &place)) else { return Placement::default() };
    let text = |name: &str| fact[name].as_str().map(str::to_owned);
    let nodes = fact["numa_nodes"].as_array().into_iter().flatten().filter_map(Value::as_u64);
    Placement {
        relation: text("relation"),
        shared_cache: text("shared_cache"),
        numa_nodes: nodes.filter_map(|node| u32::try_from(node).ok()).collect(),
        ..Placement::default()
    }
}

/// The first pair of each kind. Where pairs of one kind lie at different distances, as in a virtual machine, whose topology does
/// not show them: the first pair of each distance.
fn one_of_each(all: Vec<Placement>) -> Vec<Placement> {
    let kind =
        |pair: &Placement| (pair.client == pair.server, pair.relation.clone(), pair.shared_cache.clone(), pair.numa_nodes.len());
    let mut chosen: Vec<(usize, Placement)> = Vec::new();
    for pair in &all {
        let alike = |other: &&Placement| kind(other) == kind(pair);
        let mut distances: Vec<u64> = all.iter().filter(alike).filter_map(|other| other.core_rtt_ns).collect();
        distances.sort_unstable();
        let ends = split(&distances).into_iter().map(|group| distances[group.end - 1]);
        let group = pair.core_rtt_ns.map_or(0, |ns| ends.filter(|end| ns > *end).count());
        match chosen.iter_mut().find(|(known, other)| *known == group && kind(other) == kind(pair)) {
            Some((_, first)) => first.stands_for += 1,
            None => chosen.push((group, pair.clone())),
        }
    }
    chosen.into_iter().map(|(_, pair)| pair).collect()
}

/// The median cache-line round trip between two CPUs in ns; `None` if one of them is too busy, or cannot be used.
pub fn distance(client: u32, server: u32) -> Option<u64> {
    (0..ATTEMPTS).find_map(|_| bounced(client, server))
}

fn bounced(client: u32, server: u32) -> Option<u64> {
    let shared = Shared::create().ok()?;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let due = Instant::now() + PATIENCE + BOUNCE;
            let mut last_seen = 0;
            if pin(server).is_err() {
                return;
            }
            while !shared.ping_requested(&mut last_seen) {
                if shared.stop_requested() || Instant::now() >= due {
                    return;
                }
                spin_loop();
            }
            shared.answer_ping(last_seen, PATIENCE + BOUNCE);
        });
        let measures = scope.spawn(|| {
            pin(client).ok()?;
            shared.measure_ping(shared.call_ping(), PATIENCE, BOUNCE)
        });
        let found = measures.join().ok().flatten();
        shared.request_stop();
        found
    })
}

/// The arms of the placements, and the matrix to fill.
#[derive(Debug)]
pub struct Placements {
    rows: Vec<Placement>,
    pub arms: Vec<Arm>,
    /// By arm: the arm that it is compared with.
    pub bases: Vec<usize>,
}

impl Placements {
    /// An arm for each placement and each of two wait policies of the template's path: one that sleeps (its own, if that does),
    /// and `spin`.
    ///
    /// # Errors
    /// Nothing can be measured: the path only spins, and there is one CPU.
    pub fn new(template: &Arm, rows: Vec<Placement>) -> Result<Placements, String> {
        let mut all = Placements { rows, arms: Vec::new(), bases: Vec::new() };
        for spec in policies(&template.job.spec) {
            let base = all.arms.len();
            let mut order: Vec<usize> = (0..all.rows.len()).collect();
            // The pair that a run takes by itself comes first: the first two CPUs.
            order.arrange_by_key(|at| (all.rows[*at].client == all.rows[*at].server, all.rows[*at].client, all.rows[*at].server));
            let mut cells: Vec<(usize, PlacementCell)> = Vec::new();
            for at in order {
                let row = &all.rows[at];
                let cell = PlacementCell { path: spec.to_string(), ..PlacementCell::default() };
                if row.client == row.server && !(spec.client.policy.sleeps() && spec.server.policy.sleeps()) {
                    cells.push((at, PlacementCell { why: Some(ONE_CORE.into()), ..cell }));
                    continue;
                }
                all.bases.push(if all.arms.len() == base { 0 } else { base });
                cells.push((at, PlacementCell { arm: Some(letter(all.arms.len())), ..cell }));
                let mut job = template.job.clone();
                job.cpus = Sides { client: Some(row.client), server: Some(row.server) };
                job.spec = spec.clone();
                let given = format!("{spec} --cpu {},{}", row.client, row.server);
                let (target, floor, stack) = (template.target.clone(), template.floor.clone(), template.stack.clone());
                all.arms.push(Arm { given, target, ipv6: template.ipv6, stack, job, floor, bulk: template.bulk });
            }
            cells.into_iter().for_each(|(at, cell)| all.rows[at].cells.push(cell));
        }
        if all.arms.is_empty() {
            return Err(format!(
                "{} only spins, and this process may use one CPU: {ONE_CORE}",
                template.job.spec.client.path.name
            ));
        }
        Ok(all)
    }

    /// Adds the matrix to the record of these arms.
    pub fn fill(mut self, record: &mut Compare) {
        for cell in self.rows.iter_mut().flat_map(|row| &mut row.cells) {
            let Some(arm) = record.arms.iter().find(|arm| cell.arm.as_ref() == Some(&arm.name)) else { continue };
            let logs: Vec<f64> = arm.blocks.iter().filter_map(|block| block.p50_ns).map(f64::ln).collect();
            let Some(found) = paired::shift(&logs, record.method.confidence_each) else { continue };
            let (found, finite) = (found.ratio(), |ns: f64| Some(ns).filter(|ns| ns.is_finite() && *ns > 0.0));
            (cell.p50_ns, cell.low_ns, cell.high_ns) = (finite(found.ratio), finite(found.low), finite(found.high));
        }
        record.body.placements = self.rows;
    }
}

/// The spec with a policy that sleeps, and with `spin`, as far as its path has them.
fn policies(given: &Spec) -> Vec<Spec> {
    let sleeps = |spec: &Spec| spec.client.policy.sleeps() && spec.server.policy.sleeps();
    let sleeping = if sleeps(given) { Some(given.clone()) } else { with_policy(given, "block") };
    sleeping.into_iter().chain(with_policy(given, "spin")).collect()
}

/// Both sides with this wait policy and their other options; `None` if the path does not support it.
fn with_policy(given: &Spec, policy: &str) -> Option<Spec> {
    let side = |side: &SideSpec| {
        let text = side.to_string();
        let words = text.split_once(':').map_or("", |(_, words)| words);
        // A polling time belongs to the policy.
        let options = words.split(',').filter(|word| word.contains('=') && !word.starts_with("usecs="));
        let words: Vec<&str> = std::iter::once(policy).chain(options).collect();
        format!("{}:{}", side.path.name, words.join(","))
    };
    format!("{}/{}", side(&given.client), side(&given.server)).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hairpin_plan::job::Job;
    use hairpin_record::compare::Arm as Described;
    use hairpin_record::experiment::ArmBlock;
    use hairpin_record::head::{Head, Record};
    use hairpin_session::link::LinkSpec;
    use hairpin_session::plan::Target;
    use hairpin_sys::host::FakeHost;

    /// Two packages of two cores of two threads: CPU n and n + 4 are siblings; 0, 1, 4 and 5 share an L3.
    fn two_packages(root: &std::path::Path) -> FakeHost {
        (0..8_u32).fold(FakeHost::at(root), |host, cpu| {
            let (at, package) = (format!("/sys/devices/system/cpu/cpu{cpu}"), (cpu % 4) / 2);
            let first = package * 2;
            host.with(&format!("{at}/topology/physical_package_id"), format!("{package}\n"))
                .with(&format!("{at}/topology/core_id"), format!("{}\n", cpu % 2))
                .with(&format!("{at}/topology/thread_siblings_list"), format!("{},{}\n", cpu % 4, cpu % 4 + 4))
                .with_directory(&format!("{at}/node{package}"))
                .with(&format!("{at}/cache/index3/level"), "3\n")
                .with(&format!("{at}/cache/index3/type"), "Unified\n")
                .with(
                    &format!("{at}/cache/index3/shared_cpu_list"),
                    format!("{first}-{},{}-{}\n", first + 1, first + 4, first + 5),
                )
        })
    }

    fn of(rows: &[Placement]) -> Vec<(u32, u32, &str, u32)> {
        rows.iter().map(|row| (row.client, row.server, row.relation.as_deref().unwrap_or("?"), row.stands_for)).collect()
    }

    #[test]
    fn one_pair_stands_for_each_kind_and_the_allowed_cpus_alone_are_looked_at() {
        let directory = tempfile::tempdir().unwrap();
        let host = two_packages(directory.path());
        let mut far = |client: u32, server: u32| {
            Some(if client % 4 == server % 4 {
                30
            } else if server % 4 < 2 {
                60
            } else {
                200
            })
        };
        let rows = pairs(&host, &[0, 1, 2, 3, 4, 5, 6, 7], &mut far);
        let (smt, near, other) = ("SMT siblings", "same package", "different packages");
        assert_eq!(of(&rows), [(0, 0, "same CPU", 1), (0, 4, smt, 1), (0, 1, near, 2), (0, 2, other, 4)]);
        assert_eq!(rows[2].shared_cache.as_deref(), Some("L3"));
        // A cpuset without the CPUs of the first package.
        let rows = pairs(&host, &[2, 3, 6, 7], &mut far);
        assert_eq!(of(&rows), [(2, 2, "same CPU", 1), (2, 6, smt, 1), (2, 3, near, 2)]);
    }

    #[test]
    fn cores_far_apart_in_a_virtual_machine_are_a_kind_of_their_own() {
        let directory = tempfile::tempdir().unwrap();
        let mut apart = |_: u32, server: u32| Some(if server < 3 { 80 } else { 400 });
        let rows = pairs(&FakeHost::at(directory.path()), &[0, 1, 2, 3, 4], &mut apart);
        assert_eq!(of(&rows), [(0, 0, "?", 1), (0, 1, "?", 2), (0, 3, "?", 2)]);
        assert_eq!(rows[2].core_rtt_ns, Some(400));
    }

    #[test]
    fn few_cpus_are_all_compared() {
        let directory = tempfile::tempdir().unwrap();
        let host = FakeHost::at(directory.path());
        let all = |cpus: &[u32]| {
            pairs(&host, cpus, &mut |_, _| Some(70)).iter().map(|row| (row.client, row.server)).collect::<Vec<_>>()
        };
        assert_eq!(all(&[3]), [(3, 3)]);
        assert_eq!(all(&[0, 5]), [(0, 0), (5, 5), (0, 5)]);
        assert_eq!(all(&[0, 1, 2]).len(), 6);
    }

    fn planned(spec: &str, cpus: &[u32]) -> Result<Placements, String> {
        let directory = tempfile::tempdir().unwrap();
        let rows = pairs(&FakeHost::at(directory.path()), cpus, &mut |_, _| Some(70));
        let target = Target::Link(LinkSpec::Loopback);
        let job = Job::new(spec.parse().unwrap());
        Placements::new(&Arm { given: String::new(), target, ipv6: false, stack: None, job, floor: None, bulk: 0 }, rows)
    }

    #[test]
    fn each_policy_is_compared_with_itself_on_the_usual_pair() {
        let found = planned("udp", &[0, 1]).unwrap();
        let given: Vec<&str> = found.arms.iter().map(|arm| arm.given.as_str()).collect();
        let (block, spin) = ("udp:block/udp:block --cpu", "udp:spin/udp:spin --cpu");
        let want = [format!("{block} 0,1"), format!("{block} 0,0"), format!("{block} 1,1"), format!("{spin} 0,1")];
        assert_eq!(given, want);
        assert_eq!(found.bases, [0, 0, 0, 0]);
        let cells: Vec<[Option<&str>; 2]> = found.rows.iter().map(|row| [0, 1].map(|at| row.cells[at].arm.as_deref())).collect();
        assert_eq!(cells, [[Some("B"), None], [Some("C"), None], [Some("A"), Some("D")]]);
        assert!(found.rows[0].cells[1].why.as_deref().unwrap().contains("time slices"));
        let three = planned("udp:busy-poll,usecs=20", &[0, 1, 2]).unwrap();
        assert_eq!(three.bases, [0, 0, 0, 0, 0, 0, 0, 6, 6]);
        assert!(three.arms[0].given.contains("busy-poll,usecs=20") && three.arms[6].given.starts_with(spin));
    }

    #[test]
    fn one_cpu_has_one_placement_and_a_path_that_only_spins_none() {
        let one = planned("udp", &[4]).unwrap();
        assert_eq!((one.arms.len(), one.arms[0].job.cpus), (1, Sides { client: Some(4), server: Some(4) }));
        assert!(planned("memory", &[4]).unwrap_err().contains("one CPU"));
    }

    #[test]
    fn a_cell_has_the_median_of_its_arms_blocks_with_an_interval() {
        let found = planned("udp", &[0]).unwrap();
        let block = |at: u32| ArmBlock { p50_ns: Some(3_600.0 + f64::from(at * 17 % 41)), ..ArmBlock::default() };
        let arm = Described { name: "A".into(), blocks: (0..41).map(block).collect(), ..Described::default() };
        let method = crate::experiment::verdict::method(Default::default(), 0, 1, 0.02);
        let body = hairpin_record::compare::CompareBody {
            host: None,
            design: None,
            method,
            states: Vec::new(),
            arms: vec![arm],
            comparisons: Vec::new(),
            thresholds: Vec::new(),
            placements: Vec::new(),
            warnings: Vec::new(),
        };
        let mut record = Record { head: Head::default(), body };
        found.fill(&mut record);
        let cell = &record.placements[0].cells[0];
        let (p50, low, high) = (cell.p50_ns.unwrap(), cell.low_ns.unwrap(), cell.high_ns.unwrap());
        assert!((p50 - 3_620.0).abs() < 1.0 && (3_600.0..p50).contains(&low) && (p50..3_641.0).contains(&high), "{cell:?}");
    }
}
