//! The BPF programs of one flow: loaded once, attached and detached between blocks, and their records read between
//! blocks.
//!
//! ```text
//!   .bss of stages.bpf.c, in words of 64 bits
//!     0 begun  1 lost          8 unmatched          16, 24 ways          32 here, by CPU          2,080 records, 32 words each:
//!                                                             sent[request] 8 │ sent[reply] 8 │ got[request] 8 │ got[reply] 8
//! ```

use std::sync::LazyLock;

use hairpin_record::explain::Direction;
use hairpin_sys::bpf::{BpfError, Object, TraceLink, VARIABLES, Variables, missing_functions, missing_tracepoints, untyped};
use hairpin_sys::shared::Announced;

use crate::moment::{HOOKS, Hook, Moment, Route};
use crate::packed;

/// `RECORDS` of stages.bpf.c.
pub const RECORDS: usize = 8_192;
const BEGUN: usize = 0;
const LOST: usize = 1;
const UNMATCHED: usize = 8;
const WAYS: usize = 16;
const FIRST: usize = 32 + 256 * 8;
const RECORD: usize = 32;
/// The offsets of a way's stamps in a record: of `sent`, of `got`.
const PARTS: [[usize; 2]; 2] = [[0, 16], [8, 24]];
/// The moments in `sent` and in `got`.
const SENT: [Moment; 8] = [
    Moment::Submitted,
    Moment::Queued,
    Moment::Started,
    Moment::Passed,
    Moment::Received,
    Moment::Redirected,
    Moment::Ready,
    Moment::Waking,
];
const GOT: [Moment; 4] = [Moment::Woken, Moment::Switched, Moment::Copied, Moment::Completed];

/// Why tracing is not possible.
#[derive(Debug, thiserror::Error)]
pub enum TracerError {
    /// The kernel does not accept the programs.
    #[error("cannot {}: {}; {}", .0.step, .0.source, remedy(.0))]
    Bpf(#[from] BpfError),
    /// The kernel does not describe its types.
    #[error("{0}, which hooks need: mount /sys, or boot a kernel with BTF; figures without hooks are whole")]
    Untyped(String),
    /// Threads have other numbers here than in the programs.
    #[error(
        "this process is in a PID namespace of its own, where hooks cannot tell its threads from others: run it in the host's (podman, docker: --pid host)"
    )]
    Namespace,
    /// The programs' variables cannot be mapped.
    #[error("cannot map the BPF programs' records: {0}")]
    Map(#[from] std::io::Error),
}

fn remedy(error: &BpfError) -> String {
    match error.verdict() {
        Some(verdict) => format!("this kernel's verifier rejects the program: {verdict}"),
        None => "hooks take CAP_BPF and CAP_PERFMON (root) and a kernel that describes its types (BTF) and is not locked down"
            .to_owned(),
    }
}

/// The flow to trace.
#[derive(Clone, Debug)]
pub struct Flow {
    /// The route of its messages.
    pub route: Route,
    /// The client's thread and sockets.
    pub client: Announced,
    /// The server's thread and sockets.
    pub server: Announced,
    /// The way that starts at another host, if one side is remote: the reply's on the client's host.
    pub comes: Option<Direction>,
    /// The requested hooks; those that its messages do not pass are ignored.
    pub hooks: Vec<&'static Hook>,
}

/// The stamps of one request's way and its reply's, in ns of CLOCK_MONOTONIC.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// The stamps in the order of [`Moment`].
    pub ways: [Vec<(Moment, u64)>; 2],
}

/// The records since the last call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// One per request packet, in order.
    pub records: Vec<Record>,
    /// Requests dropped for lack of room.
    pub lost: u64,
    /// Packets without an open record.
    pub unmatched: u64,
}

/// The programs in the kernel.
#[derive(Debug)]
pub struct Tracer {
    object: Object,
    variables: Variables,
    links: Vec<TraceLink>,
    hooks: Vec<&'static Hook>,
    /// The names of their programs, in the same order.
    programs: Vec<&'static str>,
    missing: Vec<&'static Hook>,
}

impl Tracer {
    /// Loads the programs for one flow, without hooks that this kernel lacks.
    ///
    /// # Errors
    /// The kernel accepts none: a missing capability, lockdown, no BTF.
    pub fn load(flow: &Flow) -> Result<Tracer, TracerError> {
        if let Some(why) = untyped() {
            return Err(TracerError::Untyped(why));
        }
        let passed = flow.hooks.iter().copied().filter(|hook| flow.route.passes(hook));
        let passed: Vec<&Hook> = passed.collect();
        let on_functions = programs(&passed, &NO_TRACEPOINT, |function| NO_FUNCTION.contains(&function));
        let (object, chosen) = match Tracer::open(flow, &on_functions) {
            // A kernel may refuse programs on functions, and accept those on tracepoints.
            Err(error) if on_functions.iter().any(|(hook, program)| hook.name != *program) => {
                let on_tracepoints = programs(&passed, &NO_TRACEPOINT, |_| true);
                let object = Tracer::open(flow, &on_tracepoints).map_err(|_| error)?;
                (object, on_tracepoints)
            }
            opened => (opened?, on_functions),
        };
        let variables = object.variables(VARIABLES)?;
        let missing = passed.into_iter().filter(|hook| chosen.iter().all(|(there, _)| there.name != hook.name)).collect();
        let (hooks, programs) = chosen.into_iter().unzip();
        Ok(Tracer { object, variables, links: Vec::new(), hooks, programs, missing })
    }

    /// Loads these programs alone.
    fn open(flow: &Flow, programs: &[(&Hook, &str)]) -> Result<Object, TracerError> {
        let names = HOOKS.iter().map(|hook| hook.name).chain(functions());
        let without: Vec<&str> = names.filter(|name| programs.iter().all(|(_, program)| program != name)).collect();
        let object = Object::load_tracing(&packed::unpack(packed::STAGES), &constants(flow, programs), &without, &[])?;
        for (_, program) in programs.iter().filter(|(hook, program)| hook.name != *program) {
            try_function(&object, program)?;
        }
        Ok(object)
    }

    /// Checks whether programs can be loaded here.
    ///
    /// # Errors
    /// Why they cannot.
    pub fn probe() -> Result<(), TracerError> {
        let told = Announced::default();
        let flow = Flow { route: Route::Sockets, client: told, server: told, comes: None, hooks: HOOKS.iter().collect() };
        Tracer::load(&flow).map(|_| ())
    }

    /// The hooks in use.
    pub fn hooks(&self) -> &[&'static Hook] {
        &self.hooks
    }

    /// Hooks that the flow passes and this kernel lacks.
    pub fn missing(&self) -> &[&'static Hook] {
        &self.missing
    }

    /// Attaches every program; on an error none is attached.
    ///
    /// # Errors
    /// The error of bpf(2).
    pub fn attach(&mut self) -> Result<(), TracerError> {
        let links = self.programs.iter().map(|program| self.object.attach_tracing(program)).collect::<Result<_, _>>()?;
        self.links = links;
        Ok(())
    }

    /// Detaches the programs.
    pub fn detach(&mut self) {
        self.links.clear();
    }

    /// Takes all records, so that the next block begins with none. Call it while the flow rests.
    pub fn take(&mut self) -> Taken {
        let count = (self.variables.get(BEGUN) as usize).min(RECORDS);
        let mut words = [0; RECORD];
        let mut record = |at: usize| {
            self.variables.read(FIRST + at * RECORD, &mut words);
            Record { ways: PARTS.map(|parts| stamps(&words, parts)) }
        };
        let records = (0..count).map(&mut record).collect();
        let taken = Taken { records, lost: self.variables.get(LOST), unmatched: self.variables.get(UNMATCHED) };
        self.clear();
        taken
    }

    /// Drops all records unread, so that the next block begins with none. Call it while the flow rests.
    pub fn clear(&mut self) {
        let count = (self.variables.get(BEGUN) as usize).min(RECORDS);
        self.variables.clear(FIRST, count * RECORD);
        self.variables.clear(WAYS, FIRST - WAYS);
        for at in [BEGUN, LOST, UNMATCHED] {
            self.variables.set(at, 0);
        }
    }
}

/// Attaches a program on a function and detaches it, so that a kernel that refuses it does so while the tracepoint can still be
/// chosen.
pub(crate) fn try_function(object: &Object, program: &str) -> Result<(), BpfError> {
    // Some kernels refuse a program only when it is attached, those before 5.13 only when it is attached again, as in each block
    // with hooks.
    (0..2).try_for_each(|_| object.attach_tracing(program).map(drop))
}

/// What this kernel lacks: tracepoints of hooks, and functions that stand in for them. Looked up once, as each reading of the
/// kernel's types takes some 9 ms.
static NO_TRACEPOINT: LazyLock<Vec<&str>> =
    LazyLock::new(|| missing_tracepoints(&HOOKS.iter().map(|hook| hook.name).collect::<Vec<_>>()));
static NO_FUNCTION: LazyLock<Vec<&str>> = LazyLock::new(|| missing_functions(&functions()));

/// The functions that stand in for tracepoints.
fn functions() -> Vec<&'static str> {
    HOOKS.iter().filter_map(|hook| hook.instead).collect()
}

/// Each hook that this kernel has, with the name of its program: on the tracepoint, else on the function that replaces it.
fn programs(
    hooks: &[&'static Hook],
    no_tracepoint: &[&str],
    lacks_function: impl Fn(&str) -> bool,
) -> Vec<(&'static Hook, &'static str)> {
    let program = |hook: &Hook| match no_tracepoint.contains(&hook.name) {
        false => Some(hook.name),
        true => hook.instead.filter(|function| !lacks_function(function)),
    };
    hooks.iter().filter_map(|hook| Some((*hook, program(hook)?))).collect()
}

fn stamps(words: &[u64; RECORD], [sent, got]: [usize; 2]) -> Vec<(Moment, u64)> {
    let sent = SENT.iter().zip(&words[sent..]);
    let got = GOT.iter().zip(&words[got..]);
    sent.chain(got).filter(|(_, ns)| **ns != 0).map(|(moment, ns)| (*moment, *ns)).collect()
}

/// A way on which no packet comes.
const NEITHER: u16 = 2;

/// `.rodata` of stages.bpf.c: senders, receivers and threads of the request's way and of the reply's.
fn constants(flow: &Flow, programs: &[(&Hook, &str)]) -> Vec<u8> {
    let (client, server) = (flow.client, flow.server);
    let words = [client.sends_on, server.sends_on, server.receives_on, client.receives_on];
    let is_off = |moment| programs.iter().all(|(hook, _)| hook.moment != moment);
    let flags = [
        matches!(flow.route, Route::Packet | Route::Xdp),
        is_off(Moment::Ready),
        is_off(Moment::Waking),
        is_off(Moment::Woken),
        is_off(Moment::Copied),
    ];
    let flags = flags.into_iter().rev().fold(0, |flags, flag| flags << 1 | u32::from(flag));
    let threads = [server.thread, client.thread, flags];
    let (port, comes) = match flow.comes {
        Some(Direction::Request) => (server.port, 0_u16),
        Some(Direction::Reply) => (client.port, 1),
        // No later hook looks for the packet, so it is forgotten once the driver has it, because the next packet may use its
        // memory. Any port but 0 requests this.
        None if flow.hooks.iter().all(|hook| hook.moment <= Moment::Started) => (1, NEITHER),
        None => (0, 0),
    };
    let words = words.iter().flat_map(|word| word.to_ne_bytes());
    let bytes = words.chain(threads.iter().flat_map(|thread| thread.to_ne_bytes()));
    bytes.chain(port.to_be_bytes()).chain(comes.to_ne_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_have_the_layout_of_the_programs() {
        let told = |thread, sends_on, receives_on, port| Announced { thread, sends_on, receives_on, port };
        let (client, server, comes) = (told(7, 1, 2, 0x1234), told(8, 3, 4, 9), Some(Direction::Reply));
        let flow = Flow { route: Route::Sockets, client, server, comes, hooks: Vec::new() };
        let no_copied = HOOKS.iter().filter(|hook| hook.moment != Moment::Copied).map(|hook| (hook, hook.name));
        let bytes = constants(&flow, &no_copied.collect::<Vec<_>>());
        let word = |at: usize| u64::from_ne_bytes(std::array::from_fn(|n| bytes[8 * at + n]));
        assert_eq!([word(0), word(1), word(2), word(3)], [1, 3, 4, 2]);
        assert_eq!((bytes.len(), bytes[32], bytes[36], bytes[40], &bytes[44..48]), (48, 8, 7, 16, &[0x12, 0x34, 1, 0][..]));
        let ends = |hooks: Vec<&'static Hook>| constants(&Flow { comes: None, hooks, ..flow.clone() }, &[])[44..48].to_vec();
        let started = HOOKS.iter().filter(|hook| hook.moment == Moment::Started).collect();
        assert_eq!([ends(started), ends(HOOKS.iter().collect())], [vec![0, 1, 2, 0], vec![0; 4]]);
    }

    #[test]
    fn a_function_stands_in_for_a_missing_tracepoint() {
        let hooks: Vec<&Hook> = HOOKS.iter().collect();
        let named = |absent: &[&str], gone: &[&str]| -> Vec<&str> {
            programs(&hooks, absent, |function| gone.contains(&function)).into_iter().map(|(_, name)| name).collect()
        };
        assert_eq!(named(&[], &[]), HOOKS.iter().map(|hook| hook.name).collect::<Vec<_>>());
        // Linux 6.1.
        let old = named(&["sk_data_ready", "sock_recv_length"], &[]);
        assert!(old.contains(&"sock_def_readable") && old.contains(&"sock_recvmsg") && old.len() == HOOKS.len(), "{old:?}");
        let neither = named(&["sk_data_ready", "netif_rx"], &["sock_def_readable"]);
        assert!(!neither.contains(&"sock_def_readable") && neither.len() == HOOKS.len() - 2, "{neither:?}");
    }

    #[test]
    fn reads_the_moments_of_a_record() {
        let mut words = [0; RECORD];
        (words[0], words[6], words[9], words[16], words[18], words[24]) = (10, 20, 30, 40, 50, 60);
        assert_eq!(
            stamps(&words, PARTS[0]),
            [(Moment::Submitted, 10), (Moment::Ready, 20), (Moment::Woken, 40), (Moment::Copied, 50)]
        );
        assert_eq!(stamps(&words, PARTS[1]), [(Moment::Queued, 30), (Moment::Woken, 60)]);
    }
}
