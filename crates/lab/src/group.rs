//! The rows of a multicast group: the first reply to each request, the last one, and those of each responder.

use std::collections::BTreeMap;

use hairpin_plan::job::group::Group;
use hairpin_plan::job::{Address, Job};
use hairpin_record::place::GroupFacts;
use hairpin_record::run::{Cpu, CpuSide, Row};
use hairpin_record::warning::Warning;
use hairpin_session::message::ServerReport;

/// The group as the record's link has it.
pub fn facts(group: &Group, found: usize) -> GroupFacts {
    GroupFacts { address: group.to_string(), responders: found as u32, expected: group.responders }
}

/// All rows. `last` has the facts of the client and of all responders together; `responders`: the reports of those that ran on
/// this host.
pub fn rows(job: &Job, mut last: Row, replies: Vec<Row>, responders: Vec<(Address, Result<ServerReport, String>)>) -> Vec<Row> {
    // It is the turn-around of the first responder alone.
    last.turnaround_ns = None;
    let mut turnarounds = BTreeMap::new();
    let mut on: BTreeMap<u32, u64> = BTreeMap::new();
    for (index, (address, report)) in responders.into_iter().enumerate() {
        match report {
            Ok(report) => {
                report.cpu.cpus.iter().for_each(|cpu| *on.entry(*cpu).or_default() += 1);
                if let Address::Inet(address) = address {
                    turnarounds.insert(address.to_string(), report.turnaround_ns);
                }
                last.warnings.extend(report.warnings.into_iter().filter(|_| index > 0));
            }
            Err(why) => last.warnings.extend((index > 0).then(|| Warning::ServerUnknown { why }.note())),
        }
    }
    if !job.spec.server.policy.sleeps() {
        let shared = on.into_iter().filter(|(_, count)| *count > 1);
        last.warnings.extend(shared.map(|(cpu, count)| Warning::RespondersShare { cpu, count }.note()));
    }
    let cpu = placed(&last.cpu);
    let mut rows: Vec<Row> = replies
        .into_iter()
        .map(|row| {
            let turnaround_ns = row.reply.as_ref().and_then(|reply| turnarounds.remove(reply));
            Row { turnaround_ns, cpu: cpu.clone(), ..row }
        })
        .collect();
    // The row of the last replies follows that of the first ones.
    rows.insert(rows.len().min(1), last);
    rows
}

/// Adds the CPU time of the other responders to that of the first, which is `server`.
pub fn add_up(server: &mut Option<Result<ServerReport, String>>, responders: &[(Address, Result<ServerReport, String>)]) {
    let Some(Ok(server)) = server else { return };
    responders.iter().skip(1).filter_map(|(_, report)| report.as_ref().ok()).for_each(|report| add(&mut server.cpu, &report.cpu));
}

fn add(all: &mut CpuSide, one: &CpuSide) {
    // On a shared core each responder took the other's time for that of other processes.
    let is_shared = one.cpus.iter().any(|cpu| all.cpus.contains(cpu));
    let own = one.user_ns + one.system_ns;
    let foreign = all.foreign_ns.zip(one.foreign_ns);
    all.foreign_ns = foreign.map(|(all, one)| if is_shared { all.saturating_sub(own) } else { all + one });
    if !is_shared {
        all.irq_ns = all.irq_ns.zip(one.irq_ns).map(|(all, one)| all + one);
        all.softirq_ns = all.softirq_ns.zip(one.softirq_ns).map(|(all, one)| all + one);
        all.steal_ns = all.steal_ns.zip(one.steal_ns).map(|(all, one)| all + one);
    }
    let more = one.cpus.iter().copied().filter(|cpu| !all.cpus.contains(cpu)).collect::<Vec<_>>();
    all.cpus.extend(more);
    all.user_ns += one.user_ns;
    all.system_ns += one.system_ns;
    all.switches_voluntary += one.switches_voluntary;
    all.switches_involuntary += one.switches_involuntary;
    all.per_transaction_ns = all.per_transaction_ns.zip(one.per_transaction_ns).map(|(all, one)| all + one);
}

/// The CPUs without their times, which are of all rows together.
fn placed(cpu: &Cpu) -> Cpu {
    let side = |side: &CpuSide| CpuSide { cpus: side.cpus.clone(), ..CpuSide::default() };
    Cpu { client: side(&cpu.client), server: cpu.server.as_ref().map(side) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responders_on_one_core_do_not_count_as_other_processes() {
        let side = |cpu, user_ns, foreign_ns| CpuSide {
            cpus: vec![cpu],
            user_ns,
            softirq_ns: Some(3),
            foreign_ns: Some(foreign_ns),
            ..CpuSide::default()
        };
        // 10 of a core's 50 are others', 15 and 25 the responders'.
        let mut all = side(1, 15, 35);
        add(&mut all, &side(1, 25, 25));
        assert_eq!((all.user_ns, all.foreign_ns, all.softirq_ns), (40, Some(10), Some(3)));
        add(&mut all, &side(2, 5, 7));
        assert_eq!((all.cpus, all.user_ns, all.foreign_ns, all.softirq_ns), (vec![1, 2], 45, Some(17), Some(6)));
    }
}
