//! Joins both sides' reports into one row, with every warning that the record itself justifies.

use std::collections::BTreeSet;

use hairpin_plan::job::Job;
use hairpin_plan::option::WRITES;
use hairpin_plan::spec::SideSpec;
use hairpin_record::run::{ClockFacts, CpuSide, HostFacts, Hosts, Row, Side, TcpSide};
use hairpin_record::stack::Stacks;
use hairpin_record::warning::{Note, Warning};
use hairpin_sys::wait::Policy;
use hairpin_units::{Gather, Nanos, Quantile};
use serde_json::Value;

use crate::message::{ClientReport, ServerReport};
use crate::printable::printable;

/// CPU time of others that deserves a warning: more than this on each measured core …
const FOREIGN_LEAST: Nanos = Nanos::from_millis(30);
/// … and more than this share of the run.
const FOREIGN_SHARE: f64 = 0.02;
/// Involuntary switches per second and core that deserve a warning; a handful happens on any host.
const SWITCHES_PER_S: f64 = 5.0;
/// A side that runs for more than this part of the time hardly sleeps, whatever its policy.
const BUSY_SHARE: f64 = 0.9;
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
    leave_out_wrapped(job, &mut row, client.exchanges);
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

/// Leaves out the figures of segments where a flow may have had more than the kernel's counters of 32 bits hold.
fn leave_out_wrapped(job: &Job, row: &mut Row, transactions: u64) {
    let Some(tcp) = &mut row.tcp else { return };
    let writes = |side: &SideSpec| u64::from(side.options.number(&WRITES).unwrap_or(1));
    let of_flow = transactions / u64::from(row.flows.max(1));
    for side in [Some(&mut tcp.client), tcp.server.as_mut()].into_iter().flatten() {
        // A side sends its own message, and may acknowledge each segment of the other one.
        let full = (row.request_bytes + row.reply_bytes) / u64::from(side.mss.max(1));
        let most = full + writes(&job.spec.client) + writes(&job.spec.server);
        // Half of the counter: flows may differ.
        if of_flow.saturating_mul(most) >= 1 << 31 {
            (side.segments_out_per_transaction, side.segments_in_per_transaction) = (None, None);
        }
    }
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
            let other = match side {
                Side::Client => row.cpu.server.as_ref(),
                Side::Server => Some(&row.cpu.client),
            };
            let cpu = without(cpu, other.filter(|_| around.one_host), metered);
            // While a probe stands still, the session that it waits for may use its cores.
            warnings.extend(foreign_time(side, &cpu, metered).filter(|_| row.paused_ns.is_none()));
            warnings.extend(involuntary_switches(side, &cpu, metered));
        }
        if let Some(facts) = facts {
            idle_core(side, facts, spec, &mut warnings);
            let busy = !sleeps(spec) || cpu.is_some_and(|cpu| own_share(cpu, metered) > BUSY_SHARE);
            warnings.extend(throttled(side, facts).filter(|_| busy && is_fifo(row, side)));
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
    warnings
}

fn is_fifo(row: &Row, side: Side) -> bool {
    row.granted.iter().any(|granted| granted.side == side && granted.option == "sched" && granted.got.starts_with("fifo"))
}

/// The part of its cores' time that a side ran itself.
fn own_share(cpu: &CpuSide, metered: Nanos) -> f64 {
    (cpu.user_ns + cpu.system_ns) as f64 / (metered.0 as f64 * cores(cpu) as f64)
}

fn throttled(side: Side, facts: &HostFacts) -> Option<Warning> {
    let number = |name| facts.facts.get(name).and_then(Value::as_i64);
    let (runtime_us, period_us) = (number("sched_rt_runtime_us")?, number("sched_rt_period_us")?);
    (0..period_us).contains(&runtime_us).then_some(Warning::RealtimeThrottling { side, runtime_us, period_us })
}

/// Warns of each side whose messages passed the kernel although a library should have carried them.
pub fn not_accelerated(stacks: &Stacks) -> Vec<Warning> {
    let slow = stacks.sides().filter(|(_, stack)| stack.is_accelerated() == Some(false));
    slow.map(|(side, stack)| Warning::NotAccelerated { side, stack: stack.name.clone(), passed: stack.passed() }).collect()
}

/// A side's CPU times, without those that the `other` side may have had on shared cores: they are no other process's. Its threads
/// may have cores of their own too, and their times are known only together; on the shared ones they had at most all of the
/// `metered` time.
pub fn without(cpu: &CpuSide, other: Option<&CpuSide>, metered: Nanos) -> CpuSide {
    let less = other.map_or(0, |other| {
        let shared = distinct(&mut other.cpus.iter().filter(|at| cpu.cpus.contains(at)));
        (other.user_ns + other.system_ns).min(metered.0.saturating_mul(shared as u64))
    });
    CpuSide { foreign_ns: cpu.foreign_ns.map(|ns| ns.saturating_sub(less)), ..cpu.clone() }
}

/// Warns of a side's cores that others used; `metered` is the time over which CPU time was metered.
pub fn foreign_time(side: Side, cpu: &CpuSide, metered: Nanos) -> Option<Warning> {
    let cores = cores(cpu);
    // A lower bound: interrupts, most of them for the side's own packets, may be part of no process's time. Accurate to one tick
    // of /proc/stat per core.
    let interrupts = cpu.irq_ns.unwrap_or(0) + cpu.softirq_ns.unwrap_or(0);
    let of = Nanos(metered.0 * cores as u64);
    let took = Nanos(cpu.foreign_ns?.saturating_sub(interrupts)).min(of);
    let deserves = took.0 > FOREIGN_LEAST.0 * cores as u64 && took.0 as f64 > of.0 as f64 * FOREIGN_SHARE;
    deserves.then_some(Warning::ForeignTime { side, took, of, cores })
}

fn involuntary_switches(side: Side, cpu: &CpuSide, metered: Nanos) -> Option<Warning> {
    let (count, cores) = (cpu.switches_involuntary, cores(cpu));
    let usual = (metered.as_secs_f64() * SWITCHES_PER_S).max(10.0) * cores as f64;
    (count as f64 > usual).then_some(Warning::InvoluntarySwitches { side, count, cores })
}

/// Number of the side's cores; several threads may share one.
fn cores(cpu: &CpuSide) -> usize {
    distinct(&mut cpu.cpus.iter()).max(1)
}

/// Number of different CPUs among these.
fn distinct(cpus: &mut dyn Iterator<Item = &u32>) -> usize {
    let known: BTreeSet<u32> = cpus.copied().gather();
    known.len()
}

/// True for a policy with which a side gives up its core to wait.
fn sleeps(spec: &SideSpec) -> bool {
    !matches!(spec.policy, Policy::Spin | Policy::BusyPoll | Policy::Adaptive) && spec.device_polling_usecs().is_none()
}

fn idle_core(side: Side, facts: &HostFacts, spec: &SideSpec, warnings: &mut Vec<Warning>) {
    if sleeps(spec)
        && let Some((state, exit)) = deepest_idle(facts)
    {
        let demand_unread = facts.unread.contains_key("cpu_dma_latency_us");
        warnings.push(Warning::DeepIdle { side, state, exit, demand_unread });
    }
    let governor = facts.facts.get("scaling_governor").and_then(first_text);
    if let Some(governor) = governor.filter(|governor| governor != "performance") {
        warnings.push(Warning::SleepingGovernor { side, governor });
    }
}

/// The deepest idle state that a core may enter, unless a demand forbids all, with the kernel's figure for its exit latency. On a
/// virtual machine the real cost of leaving it is another.
/// Longest name of an idle state or governor: a server's may be forged.
const LONGEST_NAME: usize = 64;

fn deepest_idle(facts: &HostFacts) -> Option<(String, Option<Nanos>)> {
    let allowed_us = facts.longest_exit_us();
    let states = facts.facts.get("idle_states")?;
    // One list if all cores have the same states, else one list per core.
    let lists: Vec<&Vec<Value>> = match states {
        Value::Array(list) => vec![list],
        Value::Object(by_cpu) => by_cpu.values().filter_map(Value::as_array).collect(),
        _ => return None,
    };
    let states = lists.into_iter().flatten().filter_map(|state| {
        let name = printable(state.get("name")?.as_str()?, LONGEST_NAME);
        let latency_us = state.get("latency_us")?.as_u64()?;
        let usable = state.get("disabled").and_then(Value::as_bool) != Some(true) && name != "POLL";
        (usable && (latency_us <= allowed_us && allowed_us > 0)).then_some((latency_us, name))
    });
    let (latency_us, name) = states.max()?;
    Some((name, facts.hypervisor().is_none().then_some(Nanos(latency_us * 1000))))
}

fn first_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(printable(text, LONGEST_NAME)),
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
        let metal = facts(&[("idle_states", states.clone()), ("hypervisor", json!("none"))]);
        assert_eq!(deepest_idle(&metal), found, "the exit latency of bare metal is the kernel's");
        let cores = |resume_us: Value| deepest_idle(&facts(&[("idle_states", states.clone()), ("resume_latency_us", resume_us)]));
        assert_eq!((cores(json!(50)), cores(json!(0))), (None, None));
        assert_eq!((cores(json!(-1)), cores(json!({"0": 0, "1": -1}))), (found.clone(), found), "some core may");
    }

    #[test]
    fn an_idle_state_that_a_demand_may_forbid_says_who_can_read_it() {
        let states = json!([{"name": "C6", "latency_us": 133, "disabled": false}]);
        let mut facts = facts(&[("idle_states", states)]);
        let spec: hairpin_plan::spec::Spec = "udp:block".parse().unwrap();
        let message = |facts: &HostFacts| {
            let mut warnings = Vec::new();
            idle_core(Side::Client, facts, &spec.client, &mut warnings);
            warnings[0].message()
        };
        assert!(message(&facts).ends_with("/dev/cpu_dma_latency at 0"), "{}", message(&facts));
        facts.unread.insert("cpu_dma_latency_us".into(), "permission denied".into());
        assert!(message(&facts).contains("only root can read"), "{}", message(&facts));
    }

    #[test]
    fn other_processes_are_what_remains_per_core() {
        let second = Nanos::from_secs(1);
        let took = |cpus: &[u32], foreign_ms: u64, interrupts_ms: [u64; 2]| {
            let [irq_ns, softirq_ns] = interrupts_ms.map(|ms| Some(Nanos::from_millis(ms).0));
            let foreign_ns = Some(Nanos::from_millis(foreign_ms).0);
            let cpu = CpuSide { cpus: cpus.to_vec(), foreign_ns, irq_ns, softirq_ns, ..CpuSide::default() };
            foreign_time(Side::Server, &cpu, second)
        };
        let of = |took_ms, cores: usize| {
            let (took, of) = (Nanos::from_millis(took_ms), Nanos::from_secs(cores as u64));
            Some(Warning::ForeignTime { side: Side::Server, took, of, cores })
        };
        assert_eq!((took(&[1], 31, [0, 0]), took(&[1], 30, [0, 0])), (of(31, 1), None));
        assert_eq!((took(&[1], 400, [30, 350]), took(&[1], 400, [0, 350])), (None, of(50, 1)), "interrupts are no processes");
        assert_eq!((took(&[1, 2], 60, [0, 0]), took(&[1, 2], 1500, [0, 0])), (None, of(1500, 2)));
        assert_eq!(took(&[1, 1], 1500, [0, 0]), of(1000, 1), "two threads on one core");
        let message = of(1500, 2).map(|warning| warning.message()).unwrap_or_default();
        assert!(message.contains("1.500 s of 2.000 s on the server's cores; end them, or choose other cores"), "{message}");

        let switched = |cpus: &[u32], switches_involuntary| {
            let cpu = CpuSide { cpus: cpus.to_vec(), switches_involuntary, ..CpuSide::default() };
            involuntary_switches(Side::Client, &cpu, second).is_some()
        };
        assert_eq!((switched(&[1], 11), switched(&[1, 2, 3], 30), switched(&[1, 2, 3], 31)), (true, false, true));
    }

    #[test]
    fn the_session_that_a_probe_waits_for_is_no_disturbance() {
        let job = hairpin_plan::job::Job::new("udp:spin".parse().unwrap());
        let hosts = Hosts { client: HostFacts::default(), server: None };
        let around = RowContext { hosts: &hosts, one_host: false, shown: &[] };
        let mut row = Row { duration_ns: 1_000_000_000, ..Row::default() };
        row.cpu.client.foreign_ns = Some(500_000_000);
        assert_eq!(derive(&job, &row, around).len(), 1);
        row.paused_ns = Some(500_000_000);
        assert_eq!(derive(&job, &row, around), []);
    }

    #[test]
    fn throttling_is_judged_by_each_sides_own_policy_and_host() {
        use hairpin_record::run::Granted;
        let limits =
            |runtime_us: i64| facts(&[("sched_rt_runtime_us", json!(runtime_us)), ("sched_rt_period_us", json!(1_000_000))]);
        let fifo = |side| Granted { side, option: "sched".into(), asked: "fifo:1".into(), got: "fifo:1".into(), why: "".into() };
        let of = |path: &str, granted: &[Side], server_us: i64, client_ns: u64| -> Vec<Side> {
            let job = hairpin_plan::job::Job::new(path.parse().unwrap());
            let whole = Nanos::from_secs(1).0;
            let hosts = Hosts { client: limits(950_000), server: Some(limits(server_us)) };
            let around = RowContext { hosts: &hosts, one_host: false, shown: &[] };
            let granted = granted.iter().copied().map(fifo).collect();
            let mut row = Row { duration_ns: whole - job.warmup.0, granted, ..Row::default() };
            row.cpu.client.user_ns = client_ns;
            let throttled = |warning: Warning| match warning {
                Warning::RealtimeThrottling { side, .. } => Some(side),
                _ => None,
            };
            derive(&job, &row, around).into_iter().filter_map(throttled).collect()
        };
        let both = [Side::Client, Side::Server];
        assert_eq!(of("udp:spin", &both, 950_000, 0), both);
        assert_eq!(of("udp:spin", &both, -1, 0), [Side::Client]);
        assert_eq!(of("udp:spin", &[Side::Server], 950_000, 0), [Side::Server]);
        assert_eq!(of("udp:block/spin", &both, 950_000, 0), [Side::Server]);
        assert_eq!(of("udp", &both, 950_000, 500_000_000), []);
        assert_eq!(of("udp", &both, 950_000, 910_000_000), [Side::Client], "under more load than it can carry");
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
    fn the_other_sides_time_on_a_shared_core_is_no_other_process() {
        let hosts = Hosts { client: HostFacts::default(), server: None };
        let job = hairpin_plan::job::Job::new("udp".parse().unwrap());
        let codes = |cpus: [u32; 2], foreign_ms: u64, one_host| {
            let [client, server] = cpus.map(|cpu| CpuSide {
                cpus: vec![cpu],
                user_ns: 400_000_000,
                system_ns: 100_000_000,
                foreign_ns: Some(foreign_ms * 1_000_000),
                ..CpuSide::default()
            });
            let mut row = Row { duration_ns: 1_000_000_000, ..Row::default() };
            (row.cpu.client, row.cpu.server) = (client, Some(server));
            derive(&job, &row, RowContext { hosts: &hosts, one_host, shown: &[] }).iter().map(Warning::code).collect::<Vec<_>>()
        };
        assert_eq!(codes([1, 1], 500, true), ["shared-core"]);
        assert_eq!(codes([1, 1], 600, true), ["foreign-time", "foreign-time", "shared-core"]);
        assert_eq!(codes([1, 2], 500, true), ["foreign-time"; 2]);
        assert_eq!(codes([1, 1], 500, false), ["foreign-time"; 2], "core 1 of another host");
    }

    #[test]
    fn of_the_other_sides_time_only_that_on_shared_cores_is_left_out() {
        let second = Nanos::from_secs(1);
        let side = |cpus: &[u32], own_ms: u64, foreign_ms: u64| CpuSide {
            cpus: cpus.to_vec(),
            user_ns: Nanos::from_millis(own_ms).0,
            foreign_ns: Some(Nanos::from_millis(foreign_ms).0),
            ..CpuSide::default()
        };
        let left_ms = |other: &[u32], own_ms| {
            let cpu = without(&side(&[0, 1, 2, 3], 0, 1_500), Some(&side(other, own_ms, 0)), second);
            cpu.foreign_ns.map(|ns| ns / 1_000_000)
        };
        assert_eq!(left_ms(&[3, 4, 5, 6], 4_000), Some(500), "four threads that spin, one of them on a shared core");
        assert_eq!(left_ms(&[3, 3, 4, 5], 4_000), Some(500), "two on one");
        assert_eq!(left_ms(&[3, 4, 5, 6], 400), Some(1_100), "all of it may have been there");
        assert_eq!(left_ms(&[4, 5, 6, 7], 4_000), Some(1_500));
    }

    #[test]
    fn each_side_whose_library_was_bypassed_is_named() {
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

    #[test]
    fn segments_beyond_what_the_kernel_can_count_give_no_figure() {
        use hairpin_record::run::Tcp;
        let known = |path: &str, bytes, flows, transactions| {
            let job = Job::new(path.parse().unwrap());
            let side = TcpSide { mss: 1448, segments_out_per_transaction: Some(1.0), ..TcpSide::default() };
            let tcp = Some(Tcp { client: side.clone(), server: Some(side) });
            let mut row = Row { request_bytes: bytes, reply_bytes: bytes, flows, tcp, ..Row::default() };
            leave_out_wrapped(&job, &mut row, transactions);
            let tcp = row.tcp.unwrap();
            [Some(tcp.client), tcp.server].map(|side| side.unwrap().segments_out_per_transaction.is_some())
        };
        assert_eq!(known("tcp", 64, 1, 1_000_000_000), [true; 2]);
        assert_eq!(known("tcp", 64, 1, 1 << 31), [false; 2]);
        assert_eq!(known("tcp", 64, 8, 1 << 31), [true; 2], "each flow counts its own");
        assert_eq!(known("tcp", 65_536, 1, 100_000_000), [false; 2]);
        assert_eq!(known("tcp:writes=16", 64, 1, 1_000_000_000), [false; 2]);
    }
}
