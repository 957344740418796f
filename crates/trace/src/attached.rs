//! Request–response traffic of applications that know nothing of it, watched in the kernel.
//!
//! ```text
//!   Watch ─ attach ─▶ programs (attached.bpf.c) ─ one record per transaction ─▶ ring, mapped ─ drain, a few times a second ─▶ Totals
//!                                                                               └ what is open at the end ─ finish ────────▶ Totals
//! ```
//! Nothing on the host is changed. The programs go with the process that attached them, however it ends; other traffic costs a look at its ports.
//! Sockets are seen, not protocols: a transaction is what goes one way on a connection, and then the other.

pub mod cause;
mod parts;
pub mod process;
mod spread;
pub mod stages;
pub mod totals;
pub mod transaction;

use std::collections::BTreeSet;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::thread::sleep;
use std::time::Duration;

use hairpin_record::explain::Missing;
use hairpin_sys::bpf::{BpfError, Object, TraceLink, Variables, missing_tracepoints};
use hairpin_sys::clock::monotonic_ns;
use hairpin_sys::socket::cookie;

use self::stages::Hooks;
use self::totals::Totals;
use self::transaction::{Transaction, WORDS};

/// Compiled from `attached.bpf.c` by `scripts/bpf.sh`.
static OBJECT: &[u8] = include_bytes!("../bpf/attached.bpf.o");

/// Words of `struct shared`, which `attached.h` asserts.
mod place {
    pub(super) const BEGUN: usize = 0;
    pub(super) const TAKEN: usize = 8;
    pub(super) const LOST: usize = 16;
    pub(super) const UNANSWERED: usize = 17;
    pub(super) const UNTRACKED: usize = 18;
    pub(super) const ARMED: usize = 19;
    pub(super) const GREETING: usize = 20;
    pub(super) const OBSERVER: usize = 21;
    pub(super) const SERVERS: usize = 24;
    pub(super) const CLIENTS: usize = 1048;
    pub(super) const CONNECTIONS: usize = 93_976;
    pub(super) const RECORDS: usize = 421_656;
    pub(super) const ALL: usize = 2_256_664;
}

const PORT_WORDS: usize = 65_536 / 64;
const CONNECTIONS: usize = 4096;
/// Words of `struct connection`, and where in it its phase and its record are.
const CONNECTION: usize = 80;
const PHASE: usize = 1;
/// Two halves: datagrams that left their client, that came to their server; in the next word's lower half how many of them are told.
const LEFT_AND_CAME: usize = 6;
const TOLD: usize = 7;
const RECORD: usize = 24;
/// Phases: a request is under way, its reply is.
const ASKED: u64 = 1;
const ANSWERED: u64 = 2;
const RECORDS: u64 = 32_768;

/// A tracepoint that is used, and what it is for.
struct Hook {
    name: &'static str,
    /// Nothing can be told without it.
    needed: bool,
    /// Used only where a process is watched.
    learns: bool,
    adds: &'static str,
}

const fn hook(name: &'static str, adds: &'static str) -> Hook {
    Hook { name, needed: false, learns: false, adds }
}

const HOOKS: [Hook; 10] = [
    hook("inet_sock_set_state", "the first transaction of a connection, and the last one's end"),
    hook("tcp_sendmsg_locked", "the stage \"stack out\", and so the begin of a client's transaction"),
    Hook { needed: true, ..hook("net_dev_queue", "") },
    hook("net_dev_start_xmit", "the stages \"qdisc\" and \"driver + softirq\" apart"),
    hook("netif_receive_skb", "the stage \"stack\""),
    Hook { needed: true, ..hook("sk_data_ready", "") },
    hook("sched_waking", "the stage \"wake-up + run queue\""),
    hook("sched_switch", "the stage \"wake-up + run queue\", and who had the CPU"),
    Hook { needed: true, ..hook("sock_recv_length", "") },
    Hook { learns: true, ..hook("sock_send_length", "sockets on which the process only sends first") },
];

/// What is watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Watch {
    /// Connections to this port, TCP and UDP, whoever serves there.
    Port(u16),
    /// Connections of a process and of those that it started.
    Process {
        /// Its number.
        pid: i32,
        /// Ports on which it is known to serve.
        servers: BTreeSet<u16>,
        /// Local ports of its other sockets.
        clients: BTreeSet<u16>,
    },
}

/// Why nothing can be watched.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// The kernel lacks what all of it rests on.
    #[error(
        "this kernel does not have, or does not describe, the tracepoints {0}: watching an application needs Linux 6.3 or later with BTF"
    )]
    NoHooks(String),
    /// Not allowed.
    #[error("watching an application needs CAP_BPF and CAP_PERFMON: run as root ({0})")]
    NotAllowed(BpfError),
    /// The kernel refused otherwise.
    #[error(transparent)]
    Bpf(#[from] BpfError),
    /// The variables could not be mapped, or are not those of this program.
    #[error("cannot map the BPF program's variables: {0}")]
    Map(#[from] io::Error),
}

impl AttachError {
    /// True if a capability or a part of the kernel is missing.
    pub fn missing(&self) -> bool {
        matches!(self, AttachError::NoHooks(_) | AttachError::NotAllowed(_))
    }
}

/// The attached programs; dropping it detaches them.
#[derive(Debug)]
pub struct Attached {
    // Before the object that they are of.
    links: Vec<TraceLink>,
    _object: Object,
    variables: Variables,
    hooks: Hooks,
    since: u64,
    observer: i32,
    missing: Vec<Missing>,
}

/// What the kernel's side counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Transactions that found no room in the ring.
    pub lost: u64,
    /// Requests that were not answered.
    pub unanswered: u64,
    /// Times that a connection found no place.
    pub untracked: u64,
    /// Transactions that were open at the end.
    pub open: u64,
}

impl Attached {
    /// Attaches the programs.
    ///
    /// # Errors
    /// A capability, or a tracepoint without which nothing can be told, is missing; or what bpf(2) says.
    pub fn attach(watch: &Watch) -> Result<Attached, AttachError> {
        let watches_process = matches!(watch, Watch::Process { .. });
        let absent = missing_tracepoints(&HOOKS.map(|hook| hook.name));
        let needed: Vec<&str> =
            HOOKS.iter().filter(|hook| hook.needed && absent.contains(&hook.name)).map(|hook| hook.name).collect();
        if !needed.is_empty() {
            return Err(AttachError::NoHooks(needed.join(", ")));
        }
        // A thread that was woken and not seen to run tells nothing, and the other way round.
        let scheduler = !["sched_waking", "sched_switch"].iter().any(|name| absent.contains(name));
        let used = |hook: &Hook| {
            !absent.contains(&hook.name) && (!hook.learns || watches_process) && (scheduler || !hook.name.starts_with("sched_"))
        };
        let without: Vec<&str> = HOOKS.iter().filter(|hook| !used(hook)).map(|hook| hook.name).collect();
        let object =
            Object::load_tracing(OBJECT, &constants(watch), &without).map_err(|error| match error.source.raw_os_error() {
                Some(EPERM | EACCES) => AttachError::NotAllowed(error),
                _ => AttachError::Bpf(error),
            })?;
        let variables = object.variables()?;
        if variables.len() != place::ALL {
            return Err(AttachError::Map(io::Error::other(format!(
                "{} words where {} are expected",
                variables.len(),
                place::ALL
            ))));
        }
        let links =
            HOOKS.iter().filter(|hook| used(hook)).map(|hook| object.attach_tracing(hook.name)).collect::<Result<_, _>>()?;
        // Not before: a transaction of which some hooks were late would look pipelined.
        match watch {
            Watch::Port(port) => set(&variables, place::SERVERS, *port),
            Watch::Process { servers, clients, .. } => {
                servers.iter().for_each(|port| set(&variables, place::SERVERS, *port));
                clients.iter().for_each(|port| set(&variables, place::CLIENTS, *port));
            }
        }
        variables.set(place::ARMED, 1);
        let observer = observer(&variables);
        let has = |name: &str| !without.contains(&name);
        let hooks = Hooks { send: has("tcp_sendmsg_locked"), receive: has("netif_receive_skb"), scheduler };
        let missing = HOOKS.iter().filter(|hook| absent.contains(&hook.name)).map(|hook| Missing {
            hook: hook.name.into(),
            why: "this kernel does not have it or does not describe it; a later one may".into(),
            adds: hook.adds.into(),
        });
        Ok(Attached { links, variables, hooks, since: monotonic_ns(), observer, missing: missing.collect(), _object: object })
    }

    /// Empty sums for what these hooks see.
    pub fn totals(&self) -> Totals {
        Totals::new(self.hooks, self.since, self.observer)
    }

    /// When the hooks were attached, on CLOCK_MONOTONIC.
    pub fn since(&self) -> u64 {
        self.since
    }

    /// Hooks that this host does not have.
    pub fn missing(&self) -> &[Missing] {
        &self.missing
    }

    /// Takes the transactions that are over.
    pub fn drain(&self, totals: &mut Totals) {
        let mut taken = self.variables.get(place::TAKEN);
        // No more than there are now: those who write must not keep a reader busy for ever.
        let begun = self.variables.get(place::BEGUN);
        let mut words = [0; WORDS];
        while taken < begun {
            let at = place::RECORDS + (taken % RECORDS) as usize * WORDS;
            // Begun and not yet written, on a CPU that was interrupted: the next time.
            if self.variables.get(at) != taken + 1 {
                break;
            }
            self.variables.read(at, &mut words);
            totals.add(Transaction::decode(&words));
            taken += 1;
            self.variables.set(place::TAKEN, taken);
        }
    }

    /// Detaches the programs, and takes all that is left, the transactions of each connection that no other one has followed included.
    pub fn finish(mut self, totals: &mut Totals) -> Counts {
        // One program after the other goes, so first nothing is watched any more.
        self.variables.set(place::ARMED, 0);
        self.variables.clear(place::SERVERS, 2 * PORT_WORDS);
        self.links.clear();
        // A program that was running just then is done.
        sleep(Duration::from_millis(1));
        self.drain(totals);
        let mut counts = Counts {
            lost: self.variables.get(place::LOST),
            unanswered: self.variables.get(place::UNANSWERED),
            untracked: self.variables.get(place::UNTRACKED),
            open: 0,
        };
        let mut words = [0; WORDS];
        for number in 0..CONNECTIONS {
            let at = place::CONNECTIONS + number * CONNECTION;
            let phase = self.variables.get(at + PHASE);
            self.variables.read(at + RECORD, &mut words);
            let mut transaction = Transaction::decode(&words);
            if self.variables.get(at) == 0 || transaction.ours == [false; 2] {
                continue;
            }
            let began = phase == ASKED || phase == ANSWERED;
            let untold = untold(self.variables.get(at + LEFT_AND_CAME), self.variables.get(at + TOLD));
            transaction.requests = if transaction.connection.datagrams { untold } else { u64::from(began) };
            let requests = transaction.requests;
            let over = phase == ANSWERED && totals.add_last(transaction);
            counts.open += if over { 0 } else { requests };
        }
        counts
    }
}

const EPERM: i32 = 1;
const EACCES: i32 = 13;

/// Requests of a connection of datagrams that stand in no transaction that is over.
fn untold(left_and_came: u64, told: u64) -> u64 {
    let (left, came) = (left_and_came as u32, (left_and_came >> 32) as u32);
    let all = if left > 0 { left } else { came };
    all.wrapping_sub(told as u32).into()
}

/// This process by the number that the programs know it by: in a PID namespace of its own it has another one than /proc says. It is learned from a message of
/// this process to itself.
fn observer(variables: &Variables) -> i32 {
    let greet = || -> io::Result<()> {
        let (from, mut to) = UnixStream::pair()?;
        variables.set(place::GREETING, cookie(&to)?);
        (&from).write_all(b"?")?;
        to.read_exact(&mut [0])
    };
    let greeted = greet();
    variables.set(place::GREETING, 0);
    match (greeted, variables.get(place::OBSERVER) as i32) {
        (Ok(()), seen) if seen != 0 => seen,
        _ => std::process::id() as i32,
    }
}

/// `struct constants` of `flow.h`.
fn constants(watch: &Watch) -> [u8; 16] {
    let pid = match watch {
        Watch::Port(_) => 0,
        Watch::Process { pid, .. } => *pid,
    };
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&seed().to_ne_bytes());
    bytes[8..12].copy_from_slice(&pid.to_ne_bytes());
    bytes
}

/// Unknown to others: the standard library keys its maps with numbers from the kernel.
fn seed() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(monotonic_ns())
}

fn set(variables: &Variables, ports: usize, port: u16) {
    let at = ports + usize::from(port / 64);
    variables.set(at, variables.get(at) | 1 << (port % 64));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_are_in_their_places() {
        let bytes = constants(&Watch::Process { pid: 0x0102_0304, servers: BTreeSet::new(), clients: BTreeSet::new() });
        assert_eq!(bytes[8..], [4, 3, 2, 1, 0, 0, 0, 0]);
        assert_ne!(constants(&Watch::Port(1))[..8], constants(&Watch::Port(1))[..8]);
    }

    #[test]
    fn requests_that_are_not_told_are_those_that_left_or_else_came() {
        assert_eq!(untold(3 << 32 | 5, 2), 3);
        assert_eq!(untold(3 << 32, 2), 1);
        assert_eq!(untold(1, u64::from(u32::MAX)), 2, "numbers begin anew");
    }

    #[test]
    fn places_follow_each_other() {
        assert_eq!(place::CLIENTS - place::SERVERS, PORT_WORDS);
        assert_eq!(place::RECORDS - place::CONNECTIONS, CONNECTIONS * CONNECTION);
        assert_eq!(place::ALL - place::RECORDS, RECORDS as usize * WORDS);
    }
}
