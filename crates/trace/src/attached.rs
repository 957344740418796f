//! Watches the request–response traffic of unmodified applications, from inside the kernel.
//!
//! ```text
//!   Watch ─ attach ─▶ programs (attached.bpf.c) ─ one record per transaction ─▶ ring, mapped ─ drain, a few times a second ─▶ Totals
//!                                                                               └ open at the end ──────── finish ────────▶ Totals
//! ```
//! It does not change the host. The programs are removed with the process that attached them, however it ends; for
//! other traffic they only compare its ports. They see sockets, not protocols: a transaction is data in one direction
//! of a connection, then data in the other.

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
use hairpin_sys::bpf::{
    BpfError, Object, TraceLink, VARIABLES, Variables, missing_functions, missing_tracepoints, switch_tells_state, untyped,
};
use hairpin_sys::clock::monotonic_ns;
use hairpin_sys::socket::cookie;

use self::stages::Hooks;
use self::totals::Totals;
use self::transaction::{Transaction, WORDS};
use crate::packed;

/// Word offsets in `struct shared`, which `attached.h` asserts.
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
    pub(super) const ALL: usize = 421_656;
}

const PORT_WORDS: usize = 65_536 / 64;
const CONNECTIONS: usize = 4096;
/// Words of `struct connection`, and the offsets of its phase and its record.
const CONNECTION: usize = 80;
const PHASE: usize = 1;
/// Two halves: datagrams sent by their client, received by their server. The lower half of the next word counts those
/// already reported.
const LEFT_AND_CAME: usize = 6;
const TOLD: usize = 7;
const RECORD: usize = 24;
/// Phases: request under way, reply under way.
const ASKED: u64 = 1;
const ANSWERED: u64 = 2;
/// Places of the ring.
const RECORDS: usize = 32_768;
/// The same for a kernel that takes no section of variables above 4 MiB.
const FEW_RECORDS: usize = 8_192;
/// The ring's section of variables.
const RING: &str = ".bss.records";

/// Functions of the kernel that the programs use only if the kernel has all of them. Without them sockets are read more slowly,
/// and a thread that took the CPU has a number and no name.
const KERNEL_FUNCTIONS: [&str; 3] = ["bpf_rdonly_cast", "bpf_task_from_pid", "bpf_task_release"];

/// A tracepoint and its purpose.
struct Hook {
    name: &'static str,
    /// The kernel's function that replaces the tracepoint on kernels without it.
    instead: Option<&'static str>,
    needed: bool,
    /// Used only where a process is watched.
    learns: bool,
    adds: &'static str,
}

const fn hook(name: &'static str, adds: &'static str) -> Hook {
    Hook { name, instead: None, needed: false, learns: false, adds }
}

const HOOKS: [Hook; 10] = [
    hook("inet_sock_set_state", "the first transaction of a connection, and the last one's end"),
    hook("tcp_sendmsg_locked", "the stage \"stack out\", and so the begin of a client's transaction"),
    Hook { needed: true, ..hook("net_dev_queue", "") },
    hook("net_dev_start_xmit", "the stages \"qdisc\" and \"driver + softirq\" apart"),
    hook("netif_receive_skb", "the stage \"stack\""),
    Hook { needed: true, instead: Some("sock_def_readable"), ..hook("sk_data_ready", "") },
    hook("sched_waking", "the stage \"wake-up + run queue\""),
    hook("sched_switch", "the stage \"wake-up + run queue\", and who had the CPU"),
    Hook { needed: true, instead: Some("sock_recvmsg"), ..hook("sock_recv_length", "") },
    Hook { learns: true, ..hook("sock_send_length", "sockets on which the process only sends first") },
];

/// The traffic to watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchTarget {
    /// TCP and UDP traffic to this port, of any server.
    Port(u16),
    /// Connections of a process and its descendants.
    Process {
        /// The process id.
        pid: i32,
        /// Ports on which it serves.
        servers: BTreeSet<u16>,
        /// Local ports of its other sockets.
        clients: BTreeSet<u16>,
    },
}

/// Why the traffic cannot be watched.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// The kernel lacks a required feature.
    #[error(
        "this kernel does not have, or does not describe, the tracepoints {0}, nor lets a program onto their functions: watching an application needs Linux 6.3 or later, or one from 5.12 on with BTF whose functions can be traced (fentry)"
    )]
    NoHooks(String),
    /// The kernel refuses programs on the functions that replace the tracepoints it lacks.
    #[error(
        "this kernel does not have, or does not describe, the tracepoints {}, and refuses programs on their functions (cannot {}: {}): watching an application needs Linux 6.3 or later, or one from 5.12 on with BTF whose functions can be traced (fentry)",
        .0, .1.step, .1.source
    )]
    NoFunctions(String, BpfError),
    /// The kernel does not describe its types.
    #[error(
        "{0}, which watching an application needs: mount /sys, or boot a kernel with BTF; ping, compare and load work without"
    )]
    Untyped(String),
    /// A permission is missing.
    // libbpf's own message is about something else.
    #[error("watching an application needs CAP_BPF and CAP_PERFMON: run as root (cannot {}: {})", .0.step, .0.source)]
    NotAllowed(BpfError),
    /// Processes have other numbers here than in the programs.
    #[error(
        "hairpin is in a PID namespace of its own, as in a container, and the hooks know processes by their numbers in the host's, so none can be watched by its number here: watch a server's :PORT, or run hairpin in the host's PID namespace (podman, docker: --pid host; Kubernetes: hostPID: true) and give the number there"
    )]
    Namespace,
    /// The verifier rejects a program.
    #[error("this kernel's verifier rejects a program that watching an application needs, whatever the capabilities: {}", .0.verdict().unwrap_or("it does not say why"))]
    Rejected(BpfError),
    /// Another error of the kernel.
    #[error(transparent)]
    Bpf(#[from] BpfError),
    /// The program's variables could not be mapped, or have another layout.
    #[error("cannot map the BPF program's variables: {0}")]
    Map(#[from] io::Error),
}

impl AttachError {
    /// `replaced`: the tracepoints replaced by programs on functions.
    fn of(error: BpfError, replaced: &[&str]) -> AttachError {
        match error.source.raw_os_error() {
            Some(EPERM) => AttachError::NotAllowed(error),
            Some(EACCES) if error.verdict().is_some() => AttachError::Rejected(error),
            // A security module, too little memory.
            Some(EACCES | ENOMEM) => AttachError::Bpf(error),
            _ if !replaced.is_empty() => AttachError::NoFunctions(replaced.join(", "), error),
            _ => AttachError::Bpf(error),
        }
    }

    /// True if a capability or a part of the kernel is missing.
    pub fn missing(&self) -> bool {
        use AttachError::{Namespace, NoFunctions, NoHooks, NotAllowed, Untyped};
        matches!(self, NoHooks(_) | NoFunctions(..) | Untyped(_) | NotAllowed(_) | Namespace)
    }
}

/// The attached programs; dropping it detaches them.
#[derive(Debug)]
pub struct Attached {
    // Dropped before the object they belong to.
    links: Vec<TraceLink>,
    _object: Object,
    variables: Variables,
    /// The ring of completed transactions.
    records: Variables,
    hooks: Hooks,
    since: u64,
    observer: i32,
    missing: Vec<Missing>,
}

/// The kernel side's counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Transactions dropped because the ring was full.
    pub lost: u64,
    /// Requests without a reply.
    pub unanswered: u64,
    /// Connections dropped because the table was full.
    pub untracked: u64,
    /// Transactions still open at the end.
    pub open: u64,
}

impl Attached {
    /// Attaches the programs.
    ///
    /// # Errors
    /// A capability or a required tracepoint is missing, or bpf(2) failed.
    pub fn attach(watch: &WatchTarget) -> Result<Attached, AttachError> {
        let watches_process = matches!(watch, WatchTarget::Process { .. });
        if let Some(why) = untyped() {
            return Err(AttachError::Untyped(why));
        }
        let no_tracepoint = missing_tracepoints(&HOOKS.map(|hook| hook.name));
        let functions: Vec<&str> = HOOKS.iter().filter_map(|hook| hook.instead).collect();
        let no_function = missing_functions(&functions);
        let program = |hook: &Hook| program(hook, &no_tracepoint, &no_function);
        let absent: Vec<&str> = HOOKS.iter().filter(|hook| program(hook).is_none()).map(|hook| hook.name).collect();
        let needed: Vec<&str> =
            HOOKS.iter().filter(|hook| hook.needed && absent.contains(&hook.name)).map(|hook| hook.name).collect();
        if !needed.is_empty() {
            return Err(AttachError::NoHooks(needed.join(", ")));
        }
        // The wake-up and the switch of a thread are only useful together.
        let scheduler = !["sched_waking", "sched_switch"].iter().any(|name| absent.contains(name));
        let used = |hook: &Hook| {
            !absent.contains(&hook.name) && (!hook.learns || watches_process) && (scheduler || !hook.name.starts_with("sched_"))
        };
        let without: Vec<&str> = HOOKS.iter().filter(|hook| !used(hook)).map(|hook| hook.name).collect();
        let programs: Vec<&str> = HOOKS.iter().filter(|hook| used(hook)).filter_map(program).collect();
        let names = HOOKS.iter().map(|hook| hook.name).chain(functions);
        let unused: Vec<&str> = names.filter(|name| !programs.contains(name)).collect();
        // A kernel may refuse programs on functions, when they are loaded or attached, and accept those on tracepoints.
        let replaced = HOOKS.iter().filter(|hook| hook.instead.is_some_and(|function| programs.contains(&function)));
        let replaced: Vec<&str> = replaced.map(|hook| hook.name).collect();
        let refused = |error: BpfError| AttachError::of(error, &replaced);
        let kernel = Kernel::of_this_host();
        let with = |records| load(watch, &packed::unpack(packed::ATTACHED), &unused, kernel, records);
        let object = match with(RECORDS) {
            Err(error) if error.is_of_size() => with(FEW_RECORDS),
            loaded => loaded,
        };
        let object = object.map_err(refused)?;
        let (variables, records) = (object.variables(VARIABLES)?, object.variables(RING)?);
        if variables.len() != place::ALL {
            return Err(AttachError::Map(io::Error::other(format!(
                "{} words where {} are expected",
                variables.len(),
                place::ALL
            ))));
        }
        let links = programs.iter().map(|program| object.attach_tracing(program)).collect::<Result<_, _>>().map_err(refused)?;
        // The ports follow after all hooks: a transaction that only some hooks see would look pipelined.
        match watch {
            WatchTarget::Port(port) => set(&variables, place::SERVERS, *port),
            WatchTarget::Process { servers, clients, .. } => {
                servers.iter().for_each(|port| set(&variables, place::SERVERS, *port));
                clients.iter().for_each(|port| set(&variables, place::CLIENTS, *port));
            }
        }
        variables.set(place::ARMED, 1);
        let observer = observer(&variables);
        if watches_process && u32::try_from(observer) != Ok(std::process::id()) {
            return Err(AttachError::Namespace);
        }
        let has = |name: &str| !without.contains(&name);
        let hooks = Hooks { send: has("tcp_sendmsg_locked"), receive: has("netif_receive_skb"), scheduler };
        let missing = missing(&absent, watches_process);
        Ok(Attached { links, variables, records, hooks, since: monotonic_ns(), observer, missing, _object: object })
    }

    /// Empty sums for the stages that these hooks see.
    pub fn totals(&self) -> Totals {
        Totals::new(self.hooks, self.since, self.observer)
    }

    /// Time at which the hooks were attached, on CLOCK_MONOTONIC.
    pub fn since(&self) -> u64 {
        self.since
    }

    /// Hooks that this host lacks.
    pub fn missing(&self) -> &[Missing] {
        &self.missing
    }

    /// Transactions dropped so far because the ring was full.
    pub fn lost(&self) -> u64 {
        self.variables.get(place::LOST)
    }

    /// Takes the completed transactions.
    pub fn drain(&self, totals: &mut Totals) {
        let mut taken = self.variables.get(place::TAKEN);
        // Only the records begun so far: the writers must not keep the reader busy forever.
        let begun = self.variables.get(place::BEGUN);
        let mut words = [0; WORDS];
        while taken < begun {
            let at = taken as usize * WORDS % self.records.len();
            // A record that is reserved but not yet written, on an interrupted CPU, is left for the next call.
            if self.records.get(at) != taken + 1 {
                break;
            }
            self.records.read(at, &mut words);
            totals.add(Transaction::decode(&words));
            taken += 1;
            self.variables.set(place::TAKEN, taken);
        }
    }

    /// Detaches the programs and takes all remaining transactions, including the last one of each connection.
    pub fn finish(mut self, totals: &mut Totals) -> Counts {
        // Watching stops first, because the programs are detached one by one.
        self.variables.set(place::ARMED, 0);
        self.variables.clear(place::SERVERS, 2 * PORT_WORDS);
        self.links.clear();
        // Programs that were still running have finished.
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

/// The program of a hook: on its tracepoint, else on the function that replaces it; `None` if the kernel has neither.
fn program(hook: &Hook, no_tracepoint: &[&str], no_function: &[&str]) -> Option<&'static str> {
    match no_tracepoint.contains(&hook.name) {
        false => Some(hook.name),
        true => hook.instead.filter(|function| !no_function.contains(function)),
    }
}

/// The hooks that this host lacks, of those that such a watch uses.
fn missing(absent: &[&str], watches_process: bool) -> Vec<Missing> {
    let used = HOOKS.iter().filter(|hook| !hook.learns || watches_process);
    let missing = used.filter(|hook| absent.contains(&hook.name)).map(|hook| Missing {
        hook: hook.name.into(),
        why: "this kernel does not have it or does not describe it; a later one may".into(),
        adds: hook.adds.into(),
    });
    missing.collect()
}

const EPERM: i32 = 1;
const ENOMEM: i32 = 12;
const EACCES: i32 = 13;

/// Requests of a datagram connection that are not part of a completed transaction.
fn untold(left_and_came: u64, told: u64) -> u64 {
    let (left, came) = (left_and_came as u32, (left_and_came >> 32) as u32);
    let all = if left > 0 { left } else { came };
    all.wrapping_sub(told as u32).into()
}

/// The process id of this process in the initial PID namespace, as the programs see it; /proc shows the id of its own
/// namespace. It is learned from a message of this process to itself.
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

/// Abilities of the running kernel, as constants of the programs.
#[derive(Clone, Copy, Debug)]
struct Kernel {
    /// It has all of [`KERNEL_FUNCTIONS`].
    functions: bool,
    /// See [`switch_tells_state`].
    tells_state: bool,
}

impl Kernel {
    fn of_this_host() -> Kernel {
        Kernel { functions: missing_functions(&KERNEL_FUNCTIONS).is_empty(), tells_state: switch_tells_state() }
    }
}

/// Loads the programs but `unused`, with a ring of `records` places.
fn load(watch: &WatchTarget, programs: &[u8], unused: &[&str], kernel: Kernel, records: usize) -> Result<Object, BpfError> {
    let sizes = [(RING, records * WORDS * size_of::<u64>())];
    Object::load_tracing(programs, &constants(watch, kernel, records), unused, &sizes)
}

/// `struct constants` of `flow.h`.
fn constants(watch: &WatchTarget, kernel: Kernel, records: usize) -> [u8; 24] {
    let pid = match watch {
        WatchTarget::Port(_) => 0,
        WatchTarget::Process { pid, .. } => *pid,
    };
    let mut bytes = [0; 24];
    bytes[..8].copy_from_slice(&seed().to_ne_bytes());
    bytes[8..12].copy_from_slice(&pid.to_ne_bytes());
    bytes[12..16].copy_from_slice(&u32::from(kernel.functions).to_ne_bytes());
    bytes[16..20].copy_from_slice(&u32::from(kernel.tells_state).to_ne_bytes());
    bytes[20..].copy_from_slice(&(records as u32).to_ne_bytes());
    bytes
}

/// A seed that others cannot know: the standard library seeds its maps from the kernel.
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
    fn constants_have_the_layout_of_flow_h() {
        let watch = WatchTarget::Process { pid: 0x0102_0304, servers: BTreeSet::new(), clients: BTreeSet::new() };
        let with = |functions, tells_state| constants(&watch, Kernel { functions, tells_state }, FEW_RECORDS);
        assert_eq!(with(true, false)[8..], [4, 3, 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 32, 0, 0]);
        assert_eq!(with(false, true)[12..], [0, 0, 0, 0, 1, 0, 0, 0, 0, 32, 0, 0]);
        let seed = || with(true, true)[..8].to_vec();
        assert_ne!(seed(), seed());
    }

    /// The object with programs that read from an invalid address before they return 0.
    fn spoiled() -> Vec<u8> {
        // w0 = 0; exit. And r0 = *(u64 *)(r0 + 0), of a register that holds no pointer.
        const RETURNS: [u8; 16] = [0xb4, 0, 0, 0, 0, 0, 0, 0, 0x95, 0, 0, 0, 0, 0, 0, 0];
        let mut object = packed::unpack(packed::ATTACHED).to_vec();
        for at in (0..object.len() - RETURNS.len()).step_by(8) {
            if object[at..].starts_with(&RETURNS) {
                object[at] = 0x79;
            }
        }
        object
    }

    #[test]
    fn the_verifiers_no_is_no_missing_capability() {
        let names = HOOKS.iter().flat_map(|hook| [Some(hook.name), hook.instead]).flatten();
        let others: Vec<&str> = names.filter(|name| *name != "sched_switch").collect();
        let with = |programs: &[u8]| load(&WatchTarget::Port(1), programs, &others, Kernel::of_this_host(), FEW_RECORDS);
        if let Err(error) = with(&packed::unpack(packed::ATTACHED)) {
            // Without the rights, or on some kernels, unspoiled objects are refused too.
            assert!(std::env::var("HAIRPIN_MUST_RUN").as_deref() != Ok("1"), "{error}");
            let _ = writeln!(io::stderr(), "the_verifiers_no_is_no_missing_capability: SKIPPED: no program can be loaded here");
            return;
        }
        let error = AttachError::of(with(&spoiled()).unwrap_err(), &[]);
        assert!(matches!(&error, AttachError::Rejected(_)) && !error.missing(), "{error:?}");
        assert!(error.to_string().contains("capabilities: R0"), "{error}");
        let missing = BpfError { step: "load".into(), source: io::Error::from_raw_os_error(EPERM), log: String::new() };
        let error = AttachError::of(missing, &["sk_data_ready"]);
        assert!(matches!(error, AttachError::NotAllowed(_)) && error.missing());
    }

    #[test]
    fn older_kernels_take_the_programs_too() {
        let here = Kernel::of_this_host();
        let absent = missing_tracepoints(&HOOKS.map(|hook| hook.name));
        let functions = HOOKS.iter().filter_map(|hook| hook.instead);
        let unused: Vec<&str> = absent.into_iter().chain(functions).collect();
        let all = packed::unpack(packed::ATTACHED);
        // Of what this kernel has, all of it, and what an older one lacks.
        let kernels = [here, Kernel { tells_state: false, ..here }, Kernel { functions: false, tells_state: false }];
        for (kernel, records) in kernels.iter().flat_map(|kernel| [RECORDS, FEW_RECORDS].map(|records| (*kernel, records))) {
            let refused = load(&WatchTarget::Port(1), &all, &unused, kernel, records).err();
            // This kernel may be an older one itself.
            if let Some(error) = refused.filter(|error| records == FEW_RECORDS || !error.is_of_size()) {
                assert!(std::env::var("HAIRPIN_MUST_RUN").as_deref() != Ok("1"), "{kernel:?}, {records} records: {error}");
                let _ = writeln!(io::stderr(), "older_kernels_take_the_programs_too: SKIPPED: no program can be loaded here");
                return;
            }
        }
    }

    #[test]
    fn an_error_beside_functions_keeps_its_reason() {
        let of = |source| {
            AttachError::of(BpfError { step: "load the BPF programs".into(), source, log: String::new() }, &["sk_data_ready"])
        };
        for number in [ENOMEM, EACCES] {
            let error = of(io::Error::from_raw_os_error(number));
            assert!(matches!(error, AttachError::Bpf(_)) && !error.missing(), "{error}");
        }
        let error = of(io::Error::other("attach: Not supported"));
        assert!(matches!(error, AttachError::NoFunctions(..)) && error.missing());
        let text = error.to_string();
        let reason = "(cannot load the BPF programs: attach: Not supported)";
        assert!(text.contains("sk_data_ready") && text.contains(reason), "{text}");
    }

    #[test]
    fn a_hook_for_processes_is_missing_only_where_a_process_is_watched() {
        let lacks = |watches_process| missing(&["sock_send_length"], watches_process).len();
        assert_eq!((lacks(true), lacks(false)), (1, 0));
        assert_eq!(missing(&["tcp_sendmsg_locked"], false).len(), 1);
    }

    #[test]
    fn a_function_stands_in_for_a_missing_tracepoint() {
        let named = |no_tracepoint: &[&str], no_function: &[&str]| -> Vec<&str> {
            HOOKS.iter().filter_map(|hook| program(hook, no_tracepoint, no_function)).collect()
        };
        assert_eq!(named(&[], &[]), HOOKS.map(|hook| hook.name));
        // Linux 6.1.
        let old = named(&["sk_data_ready", "sock_recv_length", "sock_send_length"], &[]);
        assert!(old.contains(&"sock_def_readable") && old.contains(&"sock_recvmsg") && old.len() == HOOKS.len() - 1, "{old:?}");
        let neither = named(&["sk_data_ready"], &["sock_def_readable"]);
        assert_eq!(neither.len(), HOOKS.len() - 1, "{neither:?}");
    }

    #[test]
    fn counts_unreported_requests_by_sent_or_else_received_datagrams() {
        assert_eq!(untold(3 << 32 | 5, 2), 3);
        assert_eq!(untold(3 << 32, 2), 1);
        assert_eq!(untold(1, u64::from(u32::MAX)), 2, "numbers begin anew");
    }

    #[test]
    fn offsets_do_not_overlap() {
        assert_eq!(place::CLIENTS - place::SERVERS, PORT_WORDS);
        assert_eq!(place::ALL - place::CONNECTIONS, CONNECTIONS * CONNECTION);
        // Of the smaller ring, and of the other variables.
        assert!(RECORDS.is_power_of_two() && FEW_RECORDS.is_power_of_two());
        assert!((FEW_RECORDS * WORDS).max(place::ALL) * size_of::<u64>() <= 4 << 20);
    }
}
