//! Events on the cores during a row: collected between blocks; at the end causes, findings and timelines.

use hairpin_iopath::measure::cpu_of;
use hairpin_plan::job::Job;
use hairpin_plan::option;
use hairpin_plan::path::{Route, Speaks};
use hairpin_plan::spec::SideSpec;
use hairpin_record::explain::{Explained, Missing, Timeline};
use hairpin_record::run::Side;
use hairpin_sys::host::RealHost;
use hairpin_sys::shared::Announced;
use hairpin_sys::thread;
use hairpin_trace::causes::{Causes, Part, Slow, Typical, Whose};
use hairpin_trace::cores::Busy;
use hairpin_trace::detectors::{Observed, Paced, findings};
use hairpin_trace::events::{Events, Protocol, Taken, WatchedFlow, What};
use hairpin_trace::join::{Span, Transaction};
use hairpin_trace::names::Names;
use hairpin_trace::timeline::timeline;
use hairpin_trace::tracer::TracerError;

/// The longest message, in bytes, that is one segment wherever the MTU is at least 552 (`min_pmtu` of the kernel).
const ONE_SEGMENT: u32 = 500;

/// True if TCP may hold a message of this job back until an acknowledgement comes. One that leaves in a single segment waits for
/// none: the message that it answers has acknowledged all before it.
fn may_wait_for_acks(job: &Job) -> bool {
    let parted =
        |side: &SideSpec| [&option::WRITES, &option::CORK, &option::MSS].iter().any(|option| side.options.get(option).is_some());
    let single = (job.flows, job.outstanding) == (1, 1) && job.open.is_none() && job.request.max(job.reply) <= ONE_SEGMENT;
    !single || parted(&job.spec.client) || parted(&job.spec.server)
}

/// The events of one row.
pub(crate) struct Meanwhile {
    events: Option<Events>,
    causes: Causes,
    protocol: Option<Protocol>,
    /// A message may wait for an acknowledgement of TCP.
    acks: bool,
    /// A side has AF_XDP rings.
    xdp_ring: bool,
    on: bool,
}

impl Meanwhile {
    /// For a job; `here` is true if the server is on this host too.
    pub(crate) fn new(job: &Job, here: bool) -> Meanwhile {
        let allowed = thread::allowed_cpus().unwrap_or_default();
        let cpu = |side| cpu_of(job, side, 0, &allowed);
        let nagle = |side: &SideSpec| side.speaks() == Speaks::Tcp && side.options.get(&option::NODELAY) == Some("off");
        let whose = Whose {
            threads: [0; 2],
            cpus: [Some(cpu(Side::Client)), here.then(|| cpu(Side::Server))],
            nagle: [nagle(&job.spec.client), nagle(&job.spec.server)],
        };
        let client = &job.spec.client;
        let protocol = match client.speaks() {
            _ if !matches!(client.path.route, Route::Sockets | Route::Uring) => None,
            Speaks::Tcp => Some(Protocol::Tcp),
            Speaks::Udp => Some(Protocol::Udp),
            _ => None,
        };
        let xdp_ring = [&job.spec.client, &job.spec.server].iter().any(|side| side.path.route == Route::XdpRing);
        Meanwhile { events: None, causes: Causes::new(whose), protocol, acks: may_wait_for_acks(job), xdp_ring, on: false }
    }

    /// The CPUs of both threads, as far as they are on this host.
    pub(crate) fn cpus(&self) -> Vec<u32> {
        self.causes.whose.cpus.into_iter().flatten().collect()
    }

    /// Loads the programs for these threads and sockets, or the light set of them; returns the missing tracepoints.
    pub(crate) fn load(&mut self, light: bool, client: Announced, server: Announced) -> Result<Vec<Missing>, TracerError> {
        self.causes.whose.threads = [client.thread, server.thread];
        let mut cpus = self.cpus();
        cpus.dedup();
        let (protocol, acks) = (self.protocol, self.acks);
        let events = Events::load(&WatchedFlow { protocol, client, server, cpus, light, acks })?;
        let missing = events.missing().iter().map(|hook| {
            let why = "this kernel has no such tracepoint, or does not describe it (BTF)".into();
            Missing { hook: hook.name.into(), why, adds: hook.adds.into() }
        });
        let missing = missing.collect();
        self.events = Some(events);
        Ok(missing)
    }

    /// Switches the events on or off for the next phase.
    pub(crate) fn turn(&mut self, on: bool) -> Result<(), TracerError> {
        if !on {
            self.detach();
        } else if let Some(events) = self.events.as_mut().filter(|_| !self.on) {
            events.attach()?;
            self.causes.forget_holders();
        }
        self.on = on;
        Ok(())
    }

    pub(crate) fn detach(&mut self) {
        if let Some(events) = &mut self.events {
            events.detach();
        }
        self.on = false;
    }

    /// The events of the block that is over.
    pub(crate) fn take(&mut self) -> Taken {
        self.events.as_mut().filter(|_| self.on).map(Events::take).unwrap_or_default()
    }

    /// Adds a block to the result, without its transactions after an event that found no room; it began `at_ns` after the first
    /// one.
    pub(crate) fn add(&mut self, transactions: &[Transaction], taken: &Taken, span: &Span, at_ns: u64) {
        self.causes.add(taken.seen(transactions, span), &taken.events, span, at_ns);
        self.settle(taken);
    }

    /// Leaves open who has the CPUs after a block whose last events found no room.
    fn settle(&mut self, taken: &Taken) {
        if taken.lost > 0 {
            self.causes.forget_holders();
        }
    }

    pub(crate) fn is_loaded(&self) -> bool {
        self.events.is_some()
    }

    /// Passes over a block whose events nobody read: it is not in the result.
    pub(crate) fn clear(&mut self) {
        if let Some(events) = &mut self.events {
            events.clear(|cpu, thread| self.causes.came(cpu, thread));
        }
    }

    /// Adds to a block's transactions when a sleeping receiver got its CPU.
    pub(crate) fn add_switches(&self, transactions: &mut [Transaction], taken: &Taken, span: &Span) {
        self.causes.add_switches(transactions, &taken.events, span);
    }

    /// The `most` slowest of these transactions of one block, slowest first, each as a timeline with its causes; nothing is kept
    /// of earlier blocks. `names` has the names of this host's interrupts and idle states.
    pub(crate) fn slow(
        &mut self,
        transactions: &[Transaction],
        taken: &Taken,
        (span, at_ns): (&Span, u64),
        typical: &Typical,
        (names, most): (&mut Names, usize),
    ) -> Vec<(Timeline, Transaction, Vec<Part>)> {
        self.causes.forget();
        self.causes.add(transactions, &taken.events, span, at_ns);
        self.settle(taken);
        if let Some(events) = &mut self.events {
            names.threads.clone_from(events.names());
            // The number of an ended thread may become that of another.
            events.forget_names();
            // No event names a thread that never left a CPU, or whose leaving the kernel does not report.
            let came =
                taken.events.iter().filter_map(|event| if let What::Switched { to, .. } = event.what { Some(to) } else { None });
            names.learn(&RealHost, threads(&self.causes).chain(came));
        }
        let slowest = self.causes.slowest(most, typical, names);
        let told = |(slow, parts): (&Slow, Vec<Part>)| {
            (timeline(slow, &parts, &self.causes.whose, names), slow.transaction.clone(), parts)
        };
        slowest.into_iter().map(told).collect()
    }

    /// Leaves a block out of the result.
    pub(crate) fn pass(&mut self, taken: &Taken) {
        self.causes.pass(&taken.events);
        self.settle(taken);
    }

    /// Forgets the names of threads, where each block is explained by itself.
    pub(crate) fn forget_names(&mut self) {
        if let Some(events) = &mut self.events {
            events.forget_names();
        }
    }

    /// Writes causes, findings and the slowest transactions into `into`, which has the stages and granted
    /// options.
    pub(crate) fn finish(mut self, typical: &Typical, timelines: usize, paced: Option<Paced>, into: &mut Explained) {
        let whose = self.causes.whose;
        let cpus: Vec<u32> = whose.cpus.into_iter().flatten().collect();
        let mut names = Names::read(&RealHost, &cpus);
        if let Some(events) = self.events.take() {
            names.threads = events.names().clone();
            names.learn(&RealHost, threads(&self.causes));
            // Without a typical round trip nothing is beyond it.
            if typical.rtt_ns > 0 {
                into.causes = self.causes.table(typical, &names);
            }
        }
        // Findings about granted options and a pace need no events.
        let observed = Observed {
            explained: into,
            whose,
            names: &names,
            totals: &self.causes.totals,
            kept: &self.causes.kept,
            traced_ns: self.causes.traced_ns,
            parted: self.causes.parted,
            late_acks: self.causes.late_acks,
            overflows: self.causes.overflows,
            xdp_ring: self.xdp_ring,
            paced,
        };
        into.findings = findings(&observed);
        let slowest = self.causes.slowest(timelines, typical, &names);
        into.slowest = slowest.into_iter().map(|(slow, causes)| timeline(slow, &causes, &whose, &names)).collect();
    }
}

/// The threads that had one of the CPUs.
fn threads(causes: &Causes) -> impl Iterator<Item = u32> + '_ {
    causes.totals.keys().filter_map(|(_, busy)| match busy {
        Busy::Thread(thread) => Some(*thread),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_messages_of_one_segment_wait_for_no_acknowledgement() {
        let job = |spec: &str, request| Job { request, ..Job::new(spec.parse().unwrap()) };
        for (spec, request, waits) in [
            ("tcp", 64, false),
            ("tcp:nodelay=off", ONE_SEGMENT, false),
            ("tcp", ONE_SEGMENT + 1, true),
            ("tcp:writes=2", 64, true),
            ("tcp/cork=on", 64, true),
            ("tcp:mss=100", 64, true),
        ] {
            assert_eq!(may_wait_for_acks(&job(spec, request)), waits, "{spec}, {request} B");
        }
        assert!(may_wait_for_acks(&Job { outstanding: 2, ..job("tcp", 64) }));
    }
}
