//! Events on the cores during a row: collected between blocks; at the end causes, findings and timelines.

use hairpin_iopath::measure::cpu_of;
use hairpin_plan::job::Job;
use hairpin_plan::option;
use hairpin_plan::path::{Route, Speaks};
use hairpin_record::explain::{Explained, Missing};
use hairpin_record::run::Side;
use hairpin_sys::host::RealHost;
use hairpin_sys::shared::Announced;
use hairpin_sys::thread;
use hairpin_trace::causes::{Causes, Typical, Whose};
use hairpin_trace::cores::Busy;
use hairpin_trace::detectors::{Observed, Paced, findings};
use hairpin_trace::events::{Events, Protocol, Taken, WatchedFlow};
use hairpin_trace::join::{Span, Transaction};
use hairpin_trace::names::Names;
use hairpin_trace::timeline::timeline;
use hairpin_trace::tracer::TracerError;

/// The events of one row.
pub(super) struct Meanwhile {
    events: Option<Events>,
    causes: Causes,
    protocol: Option<Protocol>,
    /// A side has AF_XDP rings.
    xdp_ring: bool,
    on: bool,
}

impl Meanwhile {
    /// For a job; `here` is true if the server is on this host too.
    pub(super) fn new(job: &Job, here: bool) -> Meanwhile {
        let allowed = thread::allowed_cpus().unwrap_or_default();
        let cpu = |side| cpu_of(job, side, 0, &allowed);
        let nagle = |side: &hairpin_plan::spec::SideSpec| {
            side.speaks() == Speaks::Tcp && side.options.get(&option::NODELAY) == Some("off")
        };
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
        Meanwhile { events: None, causes: Causes::new(whose), protocol, xdp_ring, on: false }
    }

    /// Loads the programs for these threads and sockets; returns the missing tracepoints.
    pub(super) fn load(&mut self, client: Announced, server: Announced) -> Result<Vec<Missing>, TracerError> {
        self.causes.whose.threads = [client.thread, server.thread];
        let mut cpus: Vec<u32> = self.causes.whose.cpus.into_iter().flatten().collect();
        cpus.dedup();
        let events = Events::load(&WatchedFlow { protocol: self.protocol, client, server, cpus })?;
        let missing = events.missing().iter().map(|hook| {
            let why = "this kernel has no such tracepoint, or does not describe it (BTF)".into();
            Missing { hook: hook.name.into(), why, adds: hook.adds.into() }
        });
        let missing = missing.collect();
        self.events = Some(events);
        Ok(missing)
    }

    /// Switches the events on or off for the next phase.
    pub(super) fn turn(&mut self, on: bool) -> Result<(), TracerError> {
        if let Some(events) = &mut self.events {
            if !on {
                events.detach();
            } else if !self.on {
                events.attach()?;
            }
        }
        self.on = on;
        Ok(())
    }

    /// The events of the block that is over.
    pub(super) fn take(&mut self) -> Taken {
        self.events.as_mut().filter(|_| self.on).map(Events::take).unwrap_or_default()
    }

    /// Adds a block to the result; it began `at_ns` after the first one.
    pub(super) fn add(&mut self, transactions: &[Transaction], taken: &Taken, span: &Span, at_ns: u64) {
        self.causes.add(transactions, &taken.events, span, at_ns);
    }

    /// True if programs are loaded.
    pub(super) fn is_loaded(&self) -> bool {
        self.events.is_some()
    }

    /// Leaves a block out of the result.
    pub(super) fn pass(&mut self, taken: &Taken) {
        self.causes.pass(&taken.events);
    }

    /// Writes causes, findings and the slowest transactions into `into`, which has the stages and granted
    /// options.
    pub(super) fn finish(mut self, typical: &Typical, timelines: usize, paced: Option<Paced>, into: &mut Explained) {
        let whose = self.causes.whose;
        let cpus: Vec<u32> = whose.cpus.into_iter().flatten().collect();
        let mut names = Names::read(&RealHost, &cpus);
        if let Some(events) = self.events.take() {
            names.threads = events.names().clone();
            let threads = self.causes.totals.keys().filter_map(|(_, busy)| match busy {
                Busy::Thread(thread) => Some(*thread),
                _ => None,
            });
            names.learn(&RealHost, threads);
            into.causes = self.causes.table(typical, &names);
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
