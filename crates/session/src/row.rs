//! Joins both sides' reports into one row, with every warning that the record itself justifies.

use hairpin_plan::job::{Job, Schedule};
use hairpin_plan::spec::SideSpec;
use hairpin_record::run::{ClockFacts, CpuSide, HostFacts, Hosts, Row, Side, TcpSide};
use hairpin_record::stack::Stacks;
use hairpin_record::warning::{Note, Warning};
use hairpin_sys::wait::Policy;
use hairpin_units::{Nanos, Quantile};
use serde_json::Value;

use crate::message::{ClientReport, ServerReport};

/// CPU time of others on a measured core that deserves a warning: more than this …
const FOREIGN_LEAST: Nanos = Nanos::from_millis(30);
/// … and more than this share of the run.
const FOREIGN_SHARE: f64 = 0.02;
/// Involuntary switches per second that deserve a warning; a handful happens on any host.
const SWITCHES_PER_S: f64 = 5.0;
/// The code of [`Warning::ClockSet`].
const CLOCK_SET: &str = "clock-set";
/// Two distances between the cores count as two states if one is at least this many times the other.
pub const STATES_APART: f64 = hairpin_record::core_states::APART;

/// Facts about a run outside its rows.
#[derive(Clone, Copy, Debug)]
pub struct RowContext<'a> {
    /// Facts of both hosts.
    pub hosts: &'a Hosts,
    /// True if both sides ran on this host.
    pub one_host: bool,
    /// Quantiles that will be shown.
    pub shown: &'a [Quantile],
}

/// Joins both reports. `server` is `Err` with the reason if its report is missing, `None` under `--echo`.
pub fn join(
    job: &Job,
    client: ClientReport,
    server: Option<Result<ServerReport, String>>,
    clock: &mut ClockFacts,
    around: RowContext<'_>,
) -> Row {
    let mut row = client.row;
    clock.drift_ppb = clock.drift_ppb.or(client.drift_ppb);
    if let Some(tcp) = &mut row.tcp {
        per_transaction(&mut tcp.client, client.exchanges);
    }
    match server {
        None => {}
        Some(Ok(server)) => take_server(&mut row, server, around.one_host),
        Some(Err(why)) => row.warnings.push(Warning::ServerUnknown { why }.note()),
    }
    let derived = derive(job, &row, around);
    row.warnings.extend(derived.iter().map(Warning::note));
    row
}

fn take_server(row: &mut Row, server: ServerReport, one_host: bool) {
    row.turnaround_ns = Some(server.turnaround_ns);
    row.cpu.server = Some(server.cpu);
    row.extra_calls += server.extra_calls;
    if let Some(niq) = &mut row.niq {
        niq.server = server.pcie;
    }
    if let Some(stack) = server.stack {
        row.stack.get_or_insert_default().server = Some(stack);
    }
    row.granted.extend(server.granted);
    // One host has one time of day, and the client has told of it.
    let own = |note: &Note| !one_host || note.code != CLOCK_SET;
    row.warnings.extend(server.warnings.into_iter().filter(own));
    if let Some(tcp) = &mut row.tcp {
        tcp.server = server.tcp.map(|mut side| {
            per_transaction(&mut side, server.answered);
            side
        });
    }
}

/// Turns totals into figures per transaction, with three decimals.
fn per_transaction(side: &mut TcpSide, transactions: u64) {
    let share =
        |total: Option<f64>| total.filter(|_| transactions > 0).map(|n| (n / transactions as f64 * 1000.0).round() / 1000.0);
    side.segments_out_per_transaction = share(side.segments_out_per_transaction);
    side.segments_in_per_transaction = share(side.segments_in_per_transaction);
}

/// All warnings that a row justifies, from the fields filled in so far.
pub fn derive(job: &Job, row: &Row, around: RowContext<'_>) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let count = row.rtt_ns.count;
    if let Some(quantile) = around.shown.iter().copied().filter(|q| !q.is_supported_by(count)).min() {
        warnings.push(Warning::TooFewSamples { quantile, count });
    }
    let sides = [
        (Side::Client, Some(&row.cpu.client), Some(&around.hosts.client), &job.spec.client),
        (Side::Server, row.cpu.server.as_ref(), around.hosts.server.as_ref(), &job.spec.server),
    ];
    // CPU time is metered from `Go` on, warm-up included.
    let metered = Nanos(row.duration_ns + row.gap_ns + job.warmup.0);
    // If nothing was measured, the CPU time is that of the warm-up alone.
    let warm_up_alone = count == 0 && row.duration_ns + row.gap_ns < job.warmup.0;
    for (side, cpu, facts, spec) in sides {
        if let Some(cpu) = cpu.filter(|_| !warm_up_alone) {
            busy_core(side, cpu, metered, &mut warnings);
        }
        if let Some(facts) = facts {
            idle_core(side, facts, spec, &mut warnings);
        }
    }
    if let (Some(server), true) = (&row.cpu.server, around.one_host)
        && let Some(cpu) = row.cpu.client.cpus.iter().find(|cpu| server.cpus.contains(cpu))
    {
        let spins = sides.iter().any(|(.., spec)| !sleeps(spec));
        warnings.push(Warning::SharedCore { cpu: *cpu, spins });
    }
    warnings.extend(row.stack.as_deref().map(not_accelerated).unwrap_or_default());
    let near = row.blocks.iter().filter_map(|block| block.core_rtt_ns).min();
    let far = row.blocks.iter().filter_map(|block| block.core_rtt_ns).max();
    if let (Some(near), Some(far)) = (near, far)
        && far as f64 > near as f64 * STATES_APART
    {
        warnings.push(Warning::CoreStates { near: Nanos(near), far: Nanos(far) });
    }
    let is_fifo = row.granted.iter().any(|granted| granted.option == "sched" && granted.got.starts_with("fifo"));
    if is_fifo && matches!(job.sched, Schedule::Fifo(_)) {
        let number = |name| around.hosts.client.facts.get(name).and_then(Value::as_i64);
        if let (Some(runtime_us), Some(period_us)) = (number("sched_rt_runtime_us"), number("sched_rt_period_us"))
            && (0..period_us).contains(&runtime_us)
        {
            warnings.push(Warning::RealtimeThrottling { runtime_us, period_us });
        }
    }
    warnings
}

/// Warns of each side whose messages passed the kernel although a library should have carried them.
pub fn not_accelerated(stacks: &Stacks) -> Vec<Warning> {
    let slow = stacks.sides().filter(|(_, stack)| stack.is_accelerated() == Some(false));
    slow.map(|(side, stack)| Warning::NotAccelerated { side, stack: stack.name.clone(), passed: stack.passed() }).collect()
}

/// Warns of a core that others used; `whole` is the time over which CPU time was metered.
pub fn busy_core(side: Side, cpu: &CpuSide, whole: Nanos, warnings: &mut Vec<Warning>) {
    // Accurate to one tick of /proc/stat.
    if let Some(took) = cpu.foreign_ns.map(|took| Nanos(took).min(whole))
        && took > FOREIGN_LEAST
        && took.0 as f64 > whole.0 as f64 * FOREIGN_SHARE
    {
        warnings.push(Warning::ForeignTime { side, took, of: whole });
    }
    if cpu.switches_involuntary as f64 > (whole.as_secs_f64() * SWITCHES_PER_S).max(10.0) {
        warnings.push(Warning::InvoluntarySwitches { side, count: cpu.switches_involuntary });
    }
}

/// True for a policy with which a side gives up its core to wait.
fn sleeps(spec: &SideSpec) -> bool {
    !matches!(spec.policy, Policy::Spin | Policy::BusyPoll | Policy::Adaptive) && spec.device_polling_usecs().is_none()
}

fn idle_core(side: Side, facts: &HostFacts, spec: &SideSpec, warnings: &mut Vec<Warning>) {
    if sleeps(spec)
        && let Some((state, exit)) = deepest_idle(facts)
    {
        warnings.push(Warning::DeepIdle { side, state, exit });
    }
    let governor = facts.facts.get("scaling_governor").and_then(first_text);
    if let Some(governor) = governor.filter(|governor| governor != "performance") {
        warnings.push(Warning::SleepingGovernor { side, governor });
    }
}

/// The deepest idle state that a core may enter, unless /dev/cpu_dma_latency forbids all, with the kernel's figure for its exit
/// latency. On a virtual machine the real cost of leaving it is another.
fn deepest_idle(facts: &HostFacts) -> Option<(String, Option<Nanos>)> {
    let allowed_us = facts.facts.get("cpu_dma_latency_us").and_then(Value::as_u64).unwrap_or(u64::MAX);
    let states = facts.facts.get("idle_states")?;
    // One list if all cores have the same states, else one list per core.
    let lists: Vec<&Vec<Value>> = match states {
        Value::Array(list) => vec![list],
        Value::Object(by_cpu) => by_cpu.values().filter_map(Value::as_array).collect(),
        _ => return None,
    };
    let virtual_machine = facts.facts.contains_key("hypervisor");
    let states = lists.into_iter().flatten().filter_map(|state| {
        let name = state.get("name")?.as_str()?.to_owned();
        let latency_us = state.get("latency_us")?.as_u64()?;
        let usable = state.get("disabled").and_then(Value::as_bool) != Some(true) && name != "POLL";
        (usable && (latency_us <= allowed_us && allowed_us > 0)).then_some((latency_us, name))
    });
    let (latency_us, name) = states.max()?;
    Some((name, (!virtual_machine).then_some(Nanos(latency_us * 1000))))
}

fn first_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Object(by_cpu) => by_cpu.values().find_map(first_text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hairpin_record::run::Block;
    use serde_json::json;

    fn facts(pairs: &[(&str, Value)]) -> HostFacts {
        HostFacts {
            facts: pairs.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect(),
            ..HostFacts::default()
        }
    }

    #[test]
    fn an_idle_state_counts_unless_it_is_forbidden() {
        let states =
            json!([{"name": "POLL", "latency_us": 0, "disabled": false}, {"name": "C6", "latency_us": 133, "disabled": false}]);
        let found = deepest_idle(&facts(&[("idle_states", states.clone())]));
        assert_eq!(found, Some(("C6".into(), Some(Nanos(133_000)))));
        assert_eq!(deepest_idle(&facts(&[("idle_states", states.clone()), ("cpu_dma_latency_us", json!(0))])), None);
        assert_eq!(deepest_idle(&facts(&[("idle_states", states.clone()), ("cpu_dma_latency_us", json!(50))])), None);
        let guest = facts(&[("idle_states", json!({"0": states})), ("hypervisor", json!("KVM"))]);
        assert_eq!(deepest_idle(&guest), Some(("C6".into(), None)));
    }

    #[test]
    fn every_cause_in_the_record_gives_its_warning_and_a_quiet_run_gives_none() {
        let job = hairpin_plan::job::Job::new("udp:spin".parse().unwrap());
        let hosts = Hosts { client: HostFacts::default(), server: Some(HostFacts::default()) };
        let shown = [Quantile::P50, Quantile::P99];
        let around = RowContext { hosts: &hosts, one_host: true, shown: &shown };
        let block = |core_rtt_ns| Block { count: 1, core_rtt_ns, ..Block::default() };
        let mut row = Row { duration_ns: 1_000_000_000, blocks: vec![block(Some(120)), block(Some(130))], ..Row::default() };
        row.rtt_ns.count = 1000;
        row.cpu.client.cpus = vec![0];
        row.cpu.server = Some(CpuSide { cpus: vec![1], ..CpuSide::default() });
        assert_eq!(derive(&job, &row, around), []);

        row.rtt_ns.count = 999;
        row.blocks.push(block(Some(510)));
        row.cpu.client.foreign_ns = Some(31_000_000);
        row.cpu.server = Some(CpuSide { cpus: vec![0], switches_involuntary: 11, ..CpuSide::default() });
        let hosts = Hosts { client: facts(&[("scaling_governor", json!("powersave"))]), server: None };
        let codes: Vec<_> = derive(&job, &row, RowContext { hosts: &hosts, ..around }).iter().map(Warning::code).collect();
        let expected =
            ["too-few-samples", "foreign-time", "sleeping-governor", "involuntary-switches", "shared-core", "core-states"];
        assert_eq!(codes, expected);
        let codes: Vec<_> =
            derive(&job, &Row { rtt_ns: Default::default(), ..row.clone() }, around).iter().map(Warning::code).collect();
        assert!(codes.contains(&"involuntary-switches"), "a second without an answer is measured too: {codes:?}");
        (row.rtt_ns.count, row.duration_ns) = (0, 1_000);
        let codes: Vec<_> = derive(&job, &row, around).iter().map(Warning::code).collect();
        assert!(!codes.contains(&"involuntary-switches") && !codes.contains(&"foreign-time"), "of no transaction: {codes:?}");
    }

    #[test]
    fn a_core_of_its_own_is_advised_only_to_a_side_that_spins() {
        let hosts = Hosts { client: HostFacts::default(), server: None };
        let around = RowContext { hosts: &hosts, one_host: true, shown: &[] };
        let on_one = CpuSide { cpus: vec![1], ..CpuSide::default() };
        let mut row = Row { duration_ns: 1_000_000_000, ..Row::default() };
        (row.cpu.client, row.cpu.server) = (on_one.clone(), Some(on_one));
        for (path, advised) in [("udp", false), ("tcp:epoll", false), ("udp:spin", true), ("udp:block/spin", true)] {
            let job = hairpin_plan::job::Job::new(path.parse().unwrap());
            let [warning] = &derive(&job, &row, around)[..] else { panic!("{path}: not one warning") };
            assert_eq!((warning.code(), warning.message().contains("a core of its own")), ("shared-core", advised), "{path}");
        }
    }

    #[test]
    fn each_side_whose_library_was_passed_by_is_named() {
        use hairpin_record::stack::{Counter, Passed, Stack};
        let stack = |count| Stack {
            name: "onload".into(),
            received: 100,
            kernel: Some(Passed { counter: Counter::UdpInDatagrams, count, shared: false }),
            ..Stack::default()
        };
        let job = hairpin_plan::job::Job::new("udp:spin".parse().unwrap());
        let hosts = Hosts { client: HostFacts::default(), server: None };
        let around = RowContext { hosts: &hosts, one_host: true, shown: &[] };
        let mut row = Row { stack: Some(Box::new(Stacks { client: Some(stack(0)), server: None })), ..Row::default() };
        let server = |count| ServerReport { stack: Some(stack(count)), ..ServerReport::default() };
        take_server(&mut row, server(0), true);
        assert_eq!(derive(&job, &row, around), [], "both are accelerated");
        take_server(&mut row, server(40), true);
        let [warning] = &derive(&job, &row, around)[..] else { panic!("not one warning") };
        assert_eq!(warning.code(), "not-accelerated");
        assert!(warning.message().starts_with("40 of 100 datagrams passed the kernel although onload is loaded on the server"));
        row.stack = None;
        take_server(&mut row, server(40), true);
        assert_eq!(row.stack.as_ref().map(|stacks| (&stacks.client, stacks.server.is_some())), Some((&None, true)));
    }

    #[test]
    fn totals_become_figures_per_transaction() {
        let mut side = TcpSide {
            segments_out_per_transaction: Some(2001.0),
            segments_in_per_transaction: Some(1000.0),
            ..TcpSide::default()
        };
        per_transaction(&mut side, 1000);
        assert_eq!((side.segments_out_per_transaction, side.segments_in_per_transaction), (Some(2.001), Some(1.0)));
        per_transaction(&mut side, 0);
        assert_eq!(side.segments_out_per_transaction, None);
    }
}
