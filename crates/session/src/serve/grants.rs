//! Resources of this host that a client may use, and the refusal of jobs that need others.

use hairpin_iopath::paths::runner;
use hairpin_iopath::runner::Support;
use hairpin_plan::job::{Job, MOST_BYTES_IN_FLIGHT, Schedule};
use hairpin_plan::option::CONGESTION;
use hairpin_plan::path::LinkKind;
use hairpin_sys::host::{Host, RealHost};
use hairpin_units::Nanos;

use crate::message::Failure;

/// Resources that the server's host grants its clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grants {
    /// The highest priority of SCHED_FIFO, with locked memory; `None`: neither is granted.
    pub fifo: Option<u8>,
    /// The CPUs that a client's threads may run on, ascending.
    pub cpus: Vec<u32>,
}

/// Refuses a job beyond these grants and limits.
pub(super) fn admit(job: &Job, grants: &Grants, ipv6: bool, in_progress: bool) -> Result<(), Failure> {
    let wrong = |message: String| Failure { message, missing: false };
    let lacking = |message: String| Failure { message, missing: true };
    if in_progress {
        return Err(wrong("a row of this session is still in progress".into()));
    }
    job.check(ipv6).map_err(|error| wrong(error.to_string()))?;
    // For a worker with CAP_NET_ADMIN the kernel would load a module of this name (tcp_ca_find_autoload of net/ipv4/tcp_cong.c).
    if let Some(name) = job.spec.server.options.get(&CONGESTION) {
        let loaded = RealHost.read("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap_or_default();
        if !loaded.split_whitespace().any(|one| one == name) {
            return Err(lacking(format!("this server's kernel has no congestion={name} loaded; there are: {}", loaded.trim())));
        }
    }
    if let Support::No(why) = runner(job.spec.server.path).probe(LinkKind::Host) {
        return Err(wrong(why));
    }
    match (job.sched, grants.fifo) {
        (Schedule::Fifo(asked), None) => {
            return Err(lacking(format!(
                "this server grants no real-time priority and no locked memory: leave --sched fifo:{asked} out, or start it with `serve --allow-sched fifo:{asked}`"
            )));
        }
        (Schedule::Fifo(asked), Some(most)) if asked > most => {
            return Err(lacking(format!(
                "this server grants priorities up to fifo:{most}, not fifo:{asked}: use --sched fifo:{most}, or start it with `serve --allow-sched fifo:{asked}`"
            )));
        }
        _ => {}
    }
    if let Some(cpu) = job.cpus.server.filter(|cpu| !grants.cpus.contains(cpu)) {
        let granted = grants.cpus.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        return Err(lacking(format!(
            "this server grants its clients no CPU {cpu}: choose from {granted} (--cpu CLIENT,SERVER), or start it with `serve --cpus` and a list that has it"
        )));
    }
    if job.group.is_some() {
        return Err(wrong("a server of sessions joins no group: `hairpin bounce --group` does".into()));
    }
    let in_flight = u64::from(job.flows) * u64::from(job.outstanding) * u64::from(job.request.max(job.reply));
    if job.plain_peer {
        return Err(wrong("a server of sessions is no plain peer".into()));
    }
    if in_flight > MOST_BYTES_IN_FLIGHT {
        return Err(wrong(format!(
            "this server takes at most {} MiB in flight, and {} flows with {} outstanding each are {} MiB: use fewer, or smaller payloads",
            MOST_BYTES_IN_FLIGHT >> 20,
            job.flows,
            job.outstanding,
            in_flight.div_ceil(1 << 20)
        )));
    }
    let longest = Nanos::from_secs(7 * 86_400);
    if job.duration.is_some_and(|duration| duration > longest) || job.warmup > longest || job.timeout > Nanos::from_secs(3600) {
        return Err(wrong("this server takes rows of at most a week, with a --timeout of at most an hour; or --forever".into()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use hairpin_plan::job::Sides;

    use super::*;

    fn grants(fifo: Option<u8>) -> Grants {
        Grants { fifo, cpus: vec![0, 2, 3] }
    }

    #[test]
    fn admits_requests_within_the_grants() {
        let (none, job) = (grants(None), hairpin_plan::job::Job::new("udp:spin".parse().unwrap()));
        assert_eq!(admit(&job, &none, false, false), Ok(()));
        assert!(admit(&job, &none, false, true).unwrap_err().message.contains("in progress"));
        for refused in [
            Job { plain_peer: true, ..job.clone() },
            Job { duration: Some(Nanos::from_secs(8 * 86_400)), ..job.clone() },
            Job { timeout: Nanos::from_secs(3601), ..job.clone() },
            Job { spec: "pipe".parse().unwrap(), ..job.clone() },
            Job { spec: "tcp:poll".parse().unwrap(), request: 65_536, flows: 1024, outstanding: 64, ..job.clone() },
        ] {
            assert!(!admit(&refused, &none, false, false).unwrap_err().missing, "{refused:?}");
        }
    }

    #[test]
    fn no_priority_and_no_cpu_that_was_not_granted() {
        let job = hairpin_plan::job::Job::new("udp".parse().unwrap());
        let fifo = |priority| Job { sched: Schedule::Fifo(priority), ..job.clone() };
        let on = |cpu| Job { cpus: Sides { client: Some(9), server: Some(cpu) }, ..job.clone() };
        for (job, grants, part) in [
            (fifo(1), grants(None), "--allow-sched fifo:1"),
            (fifo(99), grants(Some(50)), "--allow-sched fifo:99"),
            (on(1), grants(None), "choose from 0,2,3"),
            (on(4), grants(Some(99)), "serve --cpus"),
        ] {
            let failure = admit(&job, &grants, false, false).unwrap_err();
            assert!(failure.missing && failure.message.contains(part), "{failure:?}");
        }
        assert_eq!(admit(&fifo(50), &grants(Some(50)), false, false), Ok(()));
        assert_eq!(admit(&on(3), &grants(None), false, false), Ok(()));
    }
}
