//! Events on the CPUs of both measuring threads, from separate BPF programs that are on and off together with the
//! stamping hooks.
//!
//! ```text
//!   .bss of events.bpf.c, in words of 64 bits: eight CPUs, each of
//!     0 count   1 … going on   16 events, four words each:   at │ first, second │ name ……… kind
//! ```
//! An interval is one event, at its end. Of other threads only id and name are kept.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::sync::LazyLock;

use hairpin_sys::bpf::{Object, TraceLink, VARIABLES, Variables, missing_functions, missing_tracepoints, switch_tells_state};
use hairpin_sys::clock::monotonic_ns;
use hairpin_sys::shared::Announced;
use hairpin_units::Arrange;

use crate::join::{Span, Transaction};
use crate::packed;
use crate::tracer::{TracerError, try_function};

mod block;
use block::{CPU, EVENT, EVENTS, FIRST, end_block};

/// `CPUS` of events.bpf.c.
const CPUS: usize = 8;
/// As many whose events take at most 4 MiB.
const FEW_CPUS: usize = (4 << 20) / (CPU * size_of::<u64>());
/// Flag of a thread that left: it was still runnable.
const RUNNABLE: u8 = 0x80;
/// The inode of the initial PID namespace (`PROC_PID_INIT_INO` of the kernel's `include/linux/proc_ns.h`).
pub(crate) const INITIAL: u64 = 0xEFFF_FFFC;

/// A tracepoint and its BPF program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventHook {
    pub name: &'static str,
    /// The program's name: the tracepoint's, except for two of the light set. One of these replaces two programs, the other is on
    /// a function.
    pub program: &'static str,
    /// The sets that have it.
    sets: Sets,
    /// The detail that it adds, for the sentence on hosts that lack it.
    pub adds: &'static str,
    /// Only over TCP, or only over UDP.
    pub only: Option<Protocol>,
}

/// The sets that have a hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sets {
    Both,
    /// The whole set, whose hooks stay on for a phase.
    Whole,
    /// The light set, whose hooks stay on. It includes a hook that every round trip passes only if no culprit can be named
    /// without it.
    Light,
}

/// The protocol of a flow's sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Tcp,
    Udp,
}

const fn hook(name: &'static str, adds: &'static str) -> EventHook {
    EventHook { name, program: name, sets: Sets::Both, adds, only: None }
}

const fn whole(name: &'static str, adds: &'static str) -> EventHook {
    EventHook { sets: Sets::Whole, ..hook(name, adds) }
}

const fn only(protocol: Protocol, name: &'static str, adds: &'static str) -> EventHook {
    EventHook { only: Some(protocol), ..hook(name, adds) }
}

const TIMER: &str = "names the CPU's own timer among the causes";
const CALLS: &str = "names calls from other CPUs among the causes";
const INTERRUPTS: &str = "names hard interrupts among the causes";
const SOFTIRQS: &str = "names soft interrupts among the causes";
const ACKNOWLEDGEMENTS: &str = "names acknowledgements that were waited for among the causes";

/// The function that sends TCP's acknowledgements without data. Packets with data do not pass it, but all pass the tracepoint.
const ACKS: &str = "tcp_send_ack";

/// The tracepoints recorded as events.
pub const EVENT_HOOKS: &[EventHook] = &[
    hook("sched_switch", "says who had the CPU while a transaction waited for it"),
    hook("sched_migrate_task", "says when a thread was given to another CPU"),
    hook("irq_handler_entry", INTERRUPTS),
    hook("irq_handler_exit", INTERRUPTS),
    hook("local_timer_entry", TIMER),
    hook("local_timer_exit", TIMER),
    whole("reschedule_entry", CALLS),
    whole("reschedule_exit", CALLS),
    whole("call_function_entry", CALLS),
    whole("call_function_exit", CALLS),
    whole("call_function_single_entry", CALLS),
    whole("call_function_single_exit", CALLS),
    whole("softirq_entry", SOFTIRQS),
    whole("softirq_exit", SOFTIRQS),
    EventHook { program: "softirq_exit_alone", sets: Sets::Light, ..hook("softirq_exit", SOFTIRQS) },
    whole("cpu_idle", "says which idle state a thread was woken from"),
    only(Protocol::Tcp, "tcp_retransmit_skb", "names retransmissions among the causes"),
    only(Protocol::Tcp, "net_dev_queue", ACKNOWLEDGEMENTS),
    EventHook { program: ACKS, sets: Sets::Light, ..only(Protocol::Tcp, "net_dev_queue", ACKNOWLEDGEMENTS) },
    only(Protocol::Udp, "udp_fail_queue_rcv_skb", "counts datagrams that found no room in their receiver's queue"),
    only(Protocol::Udp, "sock_rcvqueue_full", "counts datagrams that found no room in their receiver's queue"),
];

/// An event on a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    pub cpu: u32,
    /// The end, in ns of CLOCK_MONOTONIC.
    pub at: u64,
    /// The duration in ns; 0 for an instant.
    pub took: u64,
    pub what: What,
}

/// The kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// The CPU went from one thread to another.
    Switched {
        from: u32,
        to: u32,
        /// True if the thread that left was still runnable.
        runnable: bool,
    },
    /// A device's interrupt, by its number.
    Interrupt(u32),
    /// The CPU's own timer.
    Timer,
    /// A call from another CPU to reschedule.
    Reschedule,
    /// A call from another CPU to run a function.
    Call,
    /// A soft interrupt, by its number.
    Softirq(u32),
    /// The CPU was idle in this state.
    Idle(u32),
    /// The hypervisor took this CPU away for some time before.
    Stolen,
    /// A measuring thread was moved to this CPU.
    Migrated(u32),
    /// A segment of the flow was retransmitted.
    Retransmitted(Origin),
    /// An ACK without data was sent; `late` if by the delayed-ACK timer.
    Acknowledged {
        /// The sender.
        by: Origin,
        /// True if it was delayed.
        late: bool,
    },
    /// A datagram of the flow was dropped by its receiver's full queue.
    Overflowed(Origin),
}

impl What {
    /// True for an event of the flow itself, not of a CPU.
    pub fn is_of_flow(self) -> bool {
        matches!(self, What::Migrated(_) | What::Retransmitted(_) | What::Acknowledged { .. } | What::Overflowed(_))
    }
}

/// The side of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    Client,
    Server,
}

/// The flow to watch.
#[derive(Clone, Debug)]
pub struct WatchedFlow {
    /// The protocol of its sockets; `None` if it is neither TCP nor UDP.
    pub protocol: Option<Protocol>,
    /// The client's thread and sockets.
    pub client: Announced,
    /// The server's thread and sockets.
    pub server: Announced,
    /// The CPUs of their threads, at most [`most_cpus`].
    pub cpus: Vec<u32>,
    /// The light set of hooks: without idle states and calls from other CPUs.
    pub light: bool,
    /// A message may wait for an acknowledgement of TCP; if none does, the light set does without their hook, which every packet
    /// passes.
    pub acks: bool,
}

/// The events since the last call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Events of all CPUs, in the order of time.
    pub events: Vec<Event>,
    /// Events dropped for lack of room.
    pub lost: u64,
    /// The last event before the first dropped one, in ns of CLOCK_MONOTONIC.
    whole_until: Option<u64>,
}

impl Taken {
    /// True if no event up to `ns` was dropped; `ns` counts from the first reading of the span.
    pub fn is_whole_until(&self, ns: i64, span: &Span) -> bool {
        self.whole_until.is_none_or(|at| ns <= span.of_monotonic(at))
    }

    /// Those of a block's transactions, given in the order of time, that ended before the first event was dropped: nobody knows
    /// who had the CPUs after it.
    pub fn seen<'a>(&self, transactions: &'a [Transaction], span: &Span) -> &'a [Transaction] {
        let is_seen = |one: &Transaction| self.is_whole_until(one.began() + one.rtt_ns() as i64, span);
        &transactions[..transactions.partition_point(is_seen)]
    }

    /// Adds an event, and the name of the thread that left. It replaces an earlier name of that number, which may have been
    /// another thread's.
    fn add(&mut self, cpu: u32, words: &[u64; EVENT], names: &mut HashMap<u32, String>) {
        self.events.extend(event(cpu, words));
        names.extend(name(words));
    }

    /// A CPU had `count` events; the last one with room was at `last`.
    fn end(&mut self, count: u64, last: u64) {
        let lost = count.saturating_sub(EVENTS as u64);
        if lost > 0 {
            self.lost += lost;
            self.whole_until = Some(self.whole_until.map_or(last, |other| other.min(last)));
        }
    }
}

/// The CPUs that can be watched at once: 8, or 3 before Linux 5.18. Linux 5.15 takes no section of variables above 4 MiB, 6.1 does;
/// which of those between do was not tried.
pub fn most_cpus() -> usize {
    if *TELLS_STATE { CPUS } else { FEW_CPUS }
}

/// The tracepoints of events that this kernel lacks, and [`switch_tells_state`]: looked up once, as in tracer.rs.
static NO_TRACEPOINT: LazyLock<Vec<&str>> =
    LazyLock::new(|| missing_tracepoints(&EVENT_HOOKS.iter().map(|hook| hook.name).collect::<Vec<_>>()));
static TELLS_STATE: LazyLock<bool> = LazyLock::new(switch_tells_state);

/// The programs in the kernel.
#[derive(Debug)]
pub struct Events {
    object: Object,
    variables: Variables,
    links: Vec<TraceLink>,
    cpus: Vec<u32>,
    hooks: Vec<&'static EventHook>,
    missing: Vec<&'static EventHook>,
    names: HashMap<u32, String>,
    /// The time at which the current block of each CPU began, in ns of CLOCK_MONOTONIC. A place with an earlier event is not
    /// written yet.
    since: [u64; CPUS],
}

impl Events {
    /// Loads the programs except those for tracepoints that this kernel lacks.
    ///
    /// # Errors
    /// The kernel accepts none: a missing capability, lockdown, no BTF. Or this process is in a PID namespace of its own.
    pub fn load(watched: &WatchedFlow) -> Result<Events, TracerError> {
        sees_threads(fs::metadata("/proc/self/ns/pid").map_or(INITIAL, |facts| facts.ino()))?;
        let on_function = watched.light && watched.acks && missing_functions(&[ACKS]).is_empty();
        // A kernel may refuse the program on the function, and accept the one on the tracepoint.
        match Events::open(watched, on_function, *TELLS_STATE) {
            Err(_) if on_function => Events::open(watched, false, *TELLS_STATE),
            opened => opened,
        }
    }

    fn open(watched: &WatchedFlow, on_function: bool, tells_state: bool) -> Result<Events, TracerError> {
        let (missing, hooks): (Vec<&EventHook>, Vec<&EventHook>) =
            wanted(watched, on_function).partition(|hook| NO_TRACEPOINT.contains(&hook.name));
        let programs = EVENT_HOOKS.iter().map(|hook| hook.program);
        let without: Vec<&str> = programs.filter(|name| hooks.iter().all(|hook| hook.program != *name)).collect();
        let cpus: Vec<u32> = watched.cpus.iter().copied().take(CPUS).collect();
        let sizes = [(VARIABLES, cpus.len().max(1) * CPU * size_of::<u64>())];
        let object = Object::load_tracing(&packed::unpack(packed::EVENTS), &constants(watched, tells_state), &without, &sizes)?;
        if on_function && hooks.iter().any(|hook| hook.program == ACKS) {
            try_function(&object, ACKS)?;
        }
        let variables = object.variables(VARIABLES)?;
        Ok(Events { object, variables, links: Vec::new(), cpus, hooks, missing, names: HashMap::new(), since: [0; CPUS] })
    }

    /// The tracepoints that the flow would use and this kernel lacks.
    pub fn missing(&self) -> &[&'static EventHook] {
        &self.missing
    }

    /// Attaches every program, as if for the first time; on an error none is attached.
    ///
    /// # Errors
    /// The error of bpf(2).
    pub fn attach(&mut self) -> Result<(), TracerError> {
        // The phase before left open intervals and a reading of the stolen time, from which this phase would count.
        (0..self.cpus.len()).for_each(|slot| self.variables.clear(slot * CPU, FIRST));
        self.since = [monotonic_ns(); CPUS];
        let links = self.hooks.iter().map(|hook| self.object.attach_tracing(hook.program)).collect::<Result<_, _>>()?;
        self.links = links;
        Ok(())
    }

    /// Detaches the programs.
    pub fn detach(&mut self) {
        self.links.clear();
    }

    /// Takes all events, so that the next block begins with none.
    pub fn take(&mut self) -> Taken {
        let (mut taken, mut names) = (Taken::default(), std::mem::take(&mut self.names));
        for (slot, cpu) in self.cpus.iter().enumerate() {
            let (mut read, mut words, since) = (0, [0; EVENT], self.since[slot]);
            let (count, ended) = end_block(&self.variables, slot * CPU, since, |kept| {
                for at in read..kept {
                    self.variables.read(slot * CPU + FIRST + at * EVENT, &mut words);
                    if words[0] >= since {
                        taken.add(*cpu, &words, &mut names);
                    }
                }
                read = kept;
            });
            taken.end(count, words[0]);
            self.since[slot] = ended;
        }
        self.names = names;
        taken.events.arrange_by_key(|event| event.at);
        taken
    }

    /// Drops all events unread, so that the next block begins with none; calls `came` with each CPU and the last thread that came
    /// to it, `None` if that event had no room. Only the newest events are looked at, so the cores that write keep their cache
    /// lines of the others.
    pub fn clear(&mut self, mut came: impl FnMut(u32, Option<u32>)) {
        for (slot, cpu) in self.cpus.iter().enumerate() {
            let (mut last, mut looked, mut words, since) = (None, 0, [0; EVENT], self.since[slot]);
            let (count, ended) = end_block(&self.variables, slot * CPU, since, |kept| {
                let newest = (looked..kept).rev().find_map(|at| {
                    self.variables.read(slot * CPU + FIRST + at * EVENT, &mut words);
                    arrival(*cpu, &words, since)
                });
                last = newest.or(last);
                looked = kept;
            });
            if count > EVENTS as u64 {
                came(*cpu, None);
            } else if last.is_some() {
                came(*cpu, last);
            }
            self.since[slot] = ended;
        }
    }

    /// Forgets the names of threads: the number of one that ended may become another's.
    pub fn forget_names(&mut self) {
        self.names.clear();
    }

    /// The names of the threads that left one of the CPUs.
    pub fn names(&self) -> &HashMap<u32, String> {
        &self.names
    }
}

/// The thread that came to the CPU, if the event is a switch that was written since then.
fn arrival(cpu: u32, words: &[u64; EVENT], since: u64) -> Option<u32> {
    match event(cpu, words)?.what {
        What::Switched { to, .. } if words[0] >= since => Some(to),
        _ => None,
    }
}

/// Checks by the inode of this PID namespace whether threads have the same numbers here as in the programs.
fn sees_threads(inode: u64) -> Result<(), TracerError> {
    if inode == INITIAL { Ok(()) } else { Err(TracerError::Namespace) }
}

/// The hooks of a flow. With `on_function` the function [`ACKS`] takes the place of the tracepoint that all packets pass.
fn wanted(watched: &WatchedFlow, on_function: bool) -> impl Iterator<Item = &'static EventHook> {
    let other = if watched.light { Sets::Whole } else { Sets::Light };
    let spared = if on_function { "net_dev_queue" } else { ACKS };
    let (protocol, no_acks) = (watched.protocol, watched.light && !watched.acks);
    EVENT_HOOKS.iter().filter(move |hook| {
        let needless = hook.program == spared || no_acks && hook.name == "net_dev_queue";
        hook.sets != other && !needless && (hook.only.is_none() || hook.only == protocol)
    })
}

/// Numbers of `enum kind` of events.bpf.c.
fn event(cpu: u32, words: &[u64; EVENT]) -> Option<Event> {
    let [at, pair, _, last] = *words;
    let (first, second, kind) = (pair as u32, (pair >> 32) as u32, (last >> 56) as u8);
    let origin = if second == 0 { Origin::Client } else { Origin::Server };
    let what = match kind & !RUNNABLE {
        1 => What::Switched { from: first, to: second, runnable: kind & RUNNABLE != 0 },
        2 => What::Interrupt(second),
        3 => What::Timer,
        4 => What::Reschedule,
        5 => What::Call,
        6 => What::Softirq(second),
        7 => What::Idle(second),
        8 => What::Stolen,
        9 => What::Migrated(second),
        10 => What::Retransmitted(origin),
        11 => What::Acknowledged { by: origin, late: first != 0 },
        12 => What::Overflowed(origin),
        _ => return None,
    };
    let has_length = matches!(kind, 2..=8);
    Some(Event { cpu, at, took: if has_length { first.into() } else { 0 }, what })
}

/// The thread that left, and its name; the light set leaves out those of the measuring threads and of the idle one.
fn name(words: &[u64; EVENT]) -> Option<(u32, String)> {
    let [_, pair, one, other] = *words;
    let bytes: Vec<u8> =
        one.to_ne_bytes().into_iter().chain(other.to_ne_bytes()).take(15).take_while(|byte| *byte != 0).collect();
    let switched = (other >> 56) as u8 & !RUNNABLE == 1;
    (switched && !bytes.is_empty()).then(|| (pair as u32, String::from_utf8_lossy(&bytes).into_owned()))
}

/// `.rodata` of events.bpf.c.
fn constants(watched: &WatchedFlow, tells_state: bool) -> Vec<u8> {
    let WatchedFlow { client, server, .. } = watched;
    let words = [client.sends_on, server.sends_on, client.receives_on, server.receives_on];
    let cpus = watched.cpus.iter().copied().chain(std::iter::repeat(u32::MAX)).take(CPUS);
    let numbers = [client.thread, server.thread].into_iter().chain(cpus).chain([watched.light.into(), tells_state.into()]);
    let words = words.iter().flat_map(|word| word.to_ne_bytes());
    words.chain(numbers.flat_map(u32::to_ne_bytes)).collect()
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::time::Duration;

    use hairpin_sys::thread;

    use super::*;
    use crate::moment::Moment;

    fn words(at: u64, first: u32, second: u32, name: &str, kind: u8) -> [u64; EVENT] {
        let mut bytes = [0; 16];
        bytes[..name.len()].copy_from_slice(name.as_bytes());
        bytes[15] = kind;
        let word = |at: usize| u64::from_ne_bytes(std::array::from_fn(|n| bytes[at + n]));
        [at, u64::from(first) | u64::from(second) << 32, word(0), word(8)]
    }

    #[test]
    fn decodes_every_kind_of_event() {
        let seen = |first, second, kind| event(3, &words(77, first, second, "", kind)).unwrap();
        assert_eq!(seen(900, 7, 2), Event { cpu: 3, at: 77, took: 900, what: What::Interrupt(7) });
        assert_eq!(seen(50_000, 1, 7), Event { cpu: 3, at: 77, took: 50_000, what: What::Idle(1) });
        assert_eq!(seen(1, 1, 11).what, What::Acknowledged { by: Origin::Server, late: true });
        assert_eq!((seen(1, 1, 11).took, seen(0, 5, 9).what), (0, What::Migrated(5)));
        let left = words(77, 4_711, 0, "fifteen-letters", 1 | RUNNABLE);
        assert_eq!(event(3, &left).unwrap().what, What::Switched { from: 4_711, to: 0, runnable: true });
        assert_eq!(name(&left), Some((4_711, "fifteen-letters".into())));
        assert_eq!(name(&words(77, 0, 4_711, "swapper/1", 1)), Some((0, "swapper/1".into())));
        assert_eq!((event(3, &words(1, 2, 3, "", 0)), name(&words(1, 2, 3, "", 6))), (None, None));
        assert_eq!((name(&words(1, 2, 3, "", 1)), name(&words(1, 2, 3, "stress", 6))), (None, None));
    }

    #[test]
    fn the_last_name_of_a_thread_counts() {
        let (mut taken, mut names) = (Taken::default(), HashMap::new());
        for called in ["sh", "cc1"] {
            taken.add(3, &words(77, 4_711, 0, called, 1), &mut names);
        }
        assert_eq!((taken.events.len(), names), (2, HashMap::from([(4_711, "cc1".into())])));
    }

    #[test]
    fn events_after_a_loss_on_either_cpu_are_not_whole() {
        let span = Span::of_times(1_000, 9_000);
        let mut taken = Taken::default();
        taken.end(EVENTS as u64, 2_000);
        assert!(taken.lost == 0 && taken.is_whole_until(7_999, &span), "no room was wanted");
        taken.end(EVENTS as u64 + 2, 5_000);
        taken.end(EVENTS as u64 + 1, 3_000);
        assert_eq!((taken.lost, taken.is_whole_until(2_000, &span), taken.is_whole_until(2_001, &span)), (3, true, false));
    }

    #[test]
    fn transactions_after_a_loss_are_not_seen() {
        let span = Span::of_times(1_000, 9_000);
        let one = |from, to| {
            let ways = [vec![(Moment::Send, from)], vec![(Moment::Returned, to)]];
            Transaction { sequence: 1, packets: 1, ways, home: None }
        };
        let all = [one(0, 900), one(1_000, 2_000), one(2_100, 3_000), one(3_100, 4_000)];
        let mut taken = Taken::default();
        assert_eq!(taken.seen(&all, &span), all);
        taken.end(EVENTS as u64 + 1, 3_000);
        assert_eq!(taken.seen(&all, &span), &all[..2]);
    }

    #[test]
    fn a_thread_comes_by_a_switch_that_is_written() {
        let switch = |at| words(at, 7, 8, "", 1);
        assert_eq!([900, 1_100].map(|at| arrival(3, &switch(at), 1_000)), [None, Some(8)]);
        assert_eq!(arrival(3, &words(1_100, 7, 8, "", 2), 1_000), None);
    }

    #[test]
    fn a_pid_namespace_other_than_the_initial_one_is_refused() {
        assert!(sees_threads(4_026_531_836).is_ok());
        let refused = sees_threads(4_026_532_999).unwrap_err().to_string();
        assert!(refused.contains("--pid host"), "{refused}");
    }

    #[test]
    fn constants_have_the_layout_of_the_programs() {
        let told = |thread, sends_on, receives_on| Announced { thread, sends_on, receives_on, port: 0 };
        let watched = WatchedFlow {
            protocol: Some(Protocol::Tcp),
            client: told(7, 1, 2),
            server: told(8, 3, 4),
            cpus: vec![0, 5],
            light: true,
            acks: true,
        };
        let bytes = constants(&watched, false);
        let word = |at: usize| u64::from_ne_bytes(std::array::from_fn(|n| bytes[8 * at + n]));
        let number = |at: usize| u32::from_ne_bytes(std::array::from_fn(|n| bytes[32 + 4 * at + n]));
        assert_eq!([word(0), word(1), word(2), word(3)], [1, 3, 2, 4]);
        assert_eq!([number(0), number(1), number(2), number(3), number(4), number(9)], [7, 8, 0, 5, u32::MAX, u32::MAX]);
        assert_eq!((number(10), number(11), bytes.len()), (1, 0, 80));
        assert_eq!(constants(&watched, true)[76..], 1_u32.to_ne_bytes());
    }

    #[test]
    fn the_light_set_hooks_acknowledgements_only_where_they_are_waited_for() {
        let told = Announced::default();
        let names = |light, acks, on_function| {
            let watched = WatchedFlow { protocol: Some(Protocol::Tcp), client: told, server: told, cpus: vec![0], light, acks };
            let all: Vec<&str> = wanted(&watched, on_function).map(|hook| hook.program).collect();
            ["net_dev_queue", ACKS].map(|name| all.contains(&name))
        };
        assert_eq!([false, true].map(|on_function| names(true, true, on_function)), [[true, false], [false, true]]);
        assert_eq!([names(true, false, false), names(false, false, false)], [[false, false], [true, false]]);
    }

    #[test]
    fn the_light_set_tells_when_a_thread_went_to_sleep() {
        // Whether the tracepoint tells the thread's state, or the thread itself.
        sleeps_are_told(false);
        if switch_tells_state() {
            sleeps_are_told(true);
        }
    }

    fn sleeps_are_told(tells_state: bool) {
        let cpu = thread::allowed_cpus().unwrap()[0];
        // A thread of its own, as it is pinned.
        let seen = std::thread::spawn(move || {
            thread::pin(cpu).unwrap();
            let own = Announced { thread: thread::id(), ..Announced::default() };
            let other = Announced::default();
            let watched = WatchedFlow { protocol: None, client: own, server: other, cpus: vec![cpu], light: true, acks: false };
            let mut events = Events::open(&watched, false, tells_state)?;
            events.attach()?;
            let slept: Vec<[u64; 2]> = (0..40)
                .map(|_| {
                    let woken = monotonic_ns();
                    while monotonic_ns() - woken < 200_000 {}
                    let before = monotonic_ns();
                    std::thread::sleep(Duration::from_micros(50));
                    [before, monotonic_ns()]
                })
                .collect();
            Ok((own.thread, slept, events.take().events))
        });
        let seen: Result<_, TracerError> = seen.join().unwrap();
        let (own, slept, events) = match seen {
            Ok(seen) => seen,
            Err(error) => {
                assert!(std::env::var("HAIRPIN_MUST_RUN").as_deref() != Ok("1"), "{error}");
                let name = "the_light_set_tells_when_a_thread_went_to_sleep";
                let _ = writeln!(std::io::stderr(), "{name}: SKIPPED: no program can be loaded here");
                return;
            }
        };
        for [before, after] in slept {
            // The run queue's clock may be half a microsecond off.
            let during = |event: &&Event| (before - 1_000..=after).contains(&event.at);
            let left = |event: &&Event| matches!(event.what, What::Switched { from, runnable: false, .. } if from == own);
            assert_eq!(events.iter().filter(during).filter(left).count(), 1, "{before} to {after}: {events:?}");
        }
    }

    #[test]
    fn hooks_are_unique() {
        let mut names: Vec<_> = EVENT_HOOKS.iter().map(|hook| hook.program).collect();
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
    }
}
