//! The hooks of one row: those in the kernel that stamp its flow and those that watch its cores, and the ones that this host
//! lacks.

use std::thread;
use std::time::{Duration, Instant};

use hairpin_plan::job::{Job, Sides};
use hairpin_record::explain::{Direction, Missing};
use hairpin_sys::shared::{Announced, Stamps};
use hairpin_trace::join::Rings;
use hairpin_trace::moment::{HOOKS, Hook, Moment, Route};
use hairpin_trace::packets;
use hairpin_trace::tracer::{Flow, Tracer};

use super::meanwhile::Meanwhile;

/// A live server's side has accepted the flow within this time.
const TOLD_WITHIN: Duration = Duration::from_secs(1);
/// The name of the hooks for events on the cores, where all of them are missing.
const EVENTS: &str = "BPF events";

/// The hooks for events on the cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cores {
    None,
    /// Those that cost a round trip little.
    Light,
    Whole,
}

/// The hooks of one row.
pub(crate) struct Hooked<'a> {
    pub(crate) stamps: &'a Sides<Stamps>,
    pub(crate) route: Route,
    /// The kernel stamps the packets of the sockets.
    pub(crate) socket_stamps: bool,
    /// The path is a ring whose library stamps its frames.
    pub(crate) ring_stamps: bool,
    pub(crate) tracer: Option<Tracer>,
    pub(crate) meanwhile: Meanwhile,
    /// The hooks that this host lacks.
    pub(crate) missing: Vec<Missing>,
    /// The moments that nothing stamps.
    pub(crate) absent: Vec<Moment>,
    seen_packets: Sides<u64>,
}

impl<'a> Hooked<'a> {
    /// For a row of `job`; no hook is loaded yet.
    pub(crate) fn new(job: &Job, route: Route, stamps: &'a Sides<Stamps>) -> Hooked<'a> {
        Hooked {
            stamps,
            route,
            socket_stamps: job.socket_stamps,
            ring_stamps: job.spec.client.path.route.has_ring(),
            tracer: None,
            meanwhile: Meanwhile::new(job, route != Route::Remote),
            missing: Vec::new(),
            absent: Vec::new(),
            seen_packets: rings_of(stamps),
        }
    }

    /// Both threads and their sockets. The server's side accepts the flow a moment after the client's side has opened it.
    fn announced(&self) -> (Announced, Announced) {
        let until = Instant::now() + TOLD_WITHIN;
        while self.route != Route::Remote && self.stamps.server.announced().thread == 0 && Instant::now() < until {
            thread::sleep(Duration::from_millis(1));
        }
        (self.stamps.client.announced(), self.stamps.server.announced())
    }

    /// Loads `hooks`, and those for events on the cores; none is attached. Without any hook only the programs' own stamps remain.
    pub(crate) fn load(&mut self, hooks: Vec<&'static Hook>, cores: Cores) {
        let (client, server) = self.announced();
        if self.route == Route::Memory {
            return self.load_events(cores, client, server);
        }
        let comes = (self.route == Route::Remote).then_some(Direction::Reply);
        match Tracer::load(&Flow { route: self.route, client, server, comes, hooks }) {
            Ok(tracer) => {
                for hook in tracer.missing() {
                    let why = "this kernel has no such tracepoint, or does not describe it (BTF)".into();
                    self.missing.push(Missing { hook: hook.name.into(), why, adds: hook.adds.into() });
                }
                let used = |hook: &&Hook| tracer.hooks().iter().all(|used| used.name != hook.name);
                self.absent.extend(HOOKS.iter().filter(used).map(|hook| hook.moment));
                self.tracer = Some(tracer);
                self.load_events(cores, client, server);
            }
            Err(why) => {
                let adds = match self.socket_stamps {
                    true => {
                        "most stages inside the kernel; here it stamps each packet for its socket (SO_TIMESTAMPING) at the queue, the driver and the stack"
                    }
                    false => "the stages inside the kernel; without it the ways there and back are one stage each",
                };
                self.missing.push(Missing { hook: Missing::ALL.into(), why: why.to_string(), adds: adds.into() });
                let told = |moment: &Moment| self.socket_stamps && packets::MOMENTS.contains(moment);
                self.absent.extend(HOOKS.iter().map(|hook| hook.moment).filter(|moment| !told(moment)));
            }
        }
    }

    fn load_events(&mut self, cores: Cores, client: Announced, server: Announced) {
        if cores == Cores::None {
            return;
        }
        match self.meanwhile.load(cores == Cores::Light, client, server) {
            Ok(mut missing) => self.missing.append(&mut missing),
            Err(why) => {
                let adds = "the causes of slow round trips".into();
                self.missing.push(Missing { hook: EVENTS.into(), why: why.to_string(), adds });
            }
        }
    }

    /// Why no events on the cores were loaded.
    pub(crate) fn without_events(&self) -> Option<&Missing> {
        self.missing.iter().find(|missing| [Missing::ALL, EVENTS].contains(&&*missing.hook))
    }

    /// Switches the stamps of packets and frames on or off, if the flow has any.
    pub(crate) fn want_packets(&self, wanted: bool) {
        if self.socket_stamps || self.ring_stamps {
            self.stamps.client.want_packets(wanted);
            self.stamps.server.want_packets(wanted);
        }
    }

    /// Skips the stamps of packets or frames until now.
    pub(crate) fn pass_rings(&mut self) {
        self.seen_packets = rings_of(self.stamps);
    }

    /// Stamps of packets or frames since the last call.
    pub(crate) fn rings(&mut self) -> Rings {
        let (client, seen) = self.stamps.client.packets_since(self.seen_packets.client);
        self.seen_packets.client = seen;
        let (server, seen) = self.stamps.server.packets_since(self.seen_packets.server);
        self.seen_packets.server = seen;
        Rings { client, server }
    }
}

/// How many stamps of packets or frames there were until now.
fn rings_of(stamps: &Sides<Stamps>) -> Sides<u64> {
    let count = |of: &Stamps| of.packets_since(u64::MAX).1;
    Sides { client: count(&stamps.client), server: count(&stamps.server) }
}
