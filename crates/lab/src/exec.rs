//! `hairpin exec`: runs an unmodified program with settings of its process and its sockets, and checks that they are in force.
//!
//! ```text
//!   preload ─▶ program ─ socket(), accept() of the C library ─▶ option set
//!                 ▲        └ its background processes become children of this process (PR_SET_CHILD_SUBREAPER), so that it is known at the end
//!                 └ after 1, 2, 4, … s: its descriptors are borrowed (pidfd_getfd(2)) and asked ─▶ those without the option are named, or given it
//! ```
//! Static programs and languages with their own system calls (Go) never call the C library: settings made through it do not reach
//! them, and the verb reports that.

mod library;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use hairpin_sys::host::{Host, RealHost};
use hairpin_sys::program;
use hairpin_sys::signal::{SIGCHLD, SIGINT, SIGTERM, Signals};
use hairpin_sys::socket::{self, IntOption};
use hairpin_sys::thread::allowed_cpus;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, Protocol, getpeername, getsockname, ipproto};
use rustix::process::{
    Pid, PidfdFlags, PidfdGetfdFlags, Signal, WaitOptions, getpid, kill_process, pidfd_getfd, pidfd_open, set_child_subreaper,
    wait,
};

use hairpin_session::error::Blame;
use hairpin_session::pinnable::{choices, refused};

pub use library::NoPlace;

/// Delay of the first look at the program's sockets; it doubles before each next one …
const FIRST_LOOK: Duration = Duration::from_secs(1);
/// … up to this.
const LATEST_LOOK: Duration = Duration::from_secs(64);
/// The preload library sets options right after a socket is made: a socket that lacks one is checked again after this time.
const DRESSED_WITHIN: Duration = Duration::from_millis(20);
/// The device with which a process keeps cores out of deep idle states (Documentation/power/pm_qos_interface.rst of the kernel).
const DMA_LATENCY: &str = "/dev/cpu_dma_latency";
/// Signals that this process keeps blocked, and the program does not.
pub const SIGNALS: &[i32] = &[SIGINT, SIGTERM, SIGCHLD];

/// Settings of the program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// SO_BUSY_POLL in us.
    pub busy_poll: Option<u32>,
    pub nodelay: bool,
    /// TCP_QUICKACK, after each receive call.
    pub quickack: bool,
    /// The CPU for all its threads.
    pub cpu: Option<u32>,
    /// Keeps the whole host out of idle states with an exit latency while the program runs.
    pub hold_idle: bool,
    /// Sets missing options on sockets from outside.
    pub set_live: bool,
}

impl Settings {
    /// In the format that preload.c parses.
    fn for_preload(&self) -> String {
        let parts = [
            self.busy_poll.map(|usecs| format!("busy-poll={usecs}")),
            self.nodelay.then(|| "nodelay".into()),
            self.quickack.then(|| "quickack".into()),
        ];
        parts.into_iter().flatten().collect::<Vec<_>>().join(",")
    }

    /// The options that a socket of this protocol must have.
    fn of(&self, protocol: i32) -> Vec<Wanted> {
        let busy_poll =
            self.busy_poll.map(|usecs| Wanted { name: "busy-poll", option: socket::SO_BUSY_POLL, value: usecs as i32 });
        let nodelay = self.nodelay && protocol == tcp();
        let nodelay = nodelay.then_some(Wanted { name: "nodelay", option: socket::TCP_NODELAY, value: 1 });
        busy_poll.into_iter().chain(nodelay).collect()
    }
}

fn tcp() -> i32 {
    ipproto::TCP.as_raw().get() as i32
}

/// An option that a socket must have.
#[derive(Clone, Copy)]
struct Wanted {
    name: &'static str,
    option: IntOption,
    value: i32,
}

impl Wanted {
    fn is_lacked_by(&self, socket: &OwnedFd) -> bool {
        socket::get(socket, self.option).is_ok_and(|value| value != self.value)
    }
}

/// Why the program was not started.
#[derive(Debug, thiserror::Error)]
pub enum ExecError {
    /// No command was given.
    #[error("no command: hairpin exec [flags] -- COMMAND [ARGUMENT…]")]
    NoCommand,
    /// This process may not use the CPU.
    #[error("CPU {cpu} does not exist or is not allowed to this process: choose from {allowed}")]
    Cpu {
        /// The CPU asked for.
        cpu: u32,
        /// The CPUs allowed.
        allowed: String,
    },
    /// Busy polling needs a capability that is missing.
    #[error(
        "cannot set busy polling of a socket: {0}; it needs CAP_NET_ADMIN: run as root, or raise net.core.busy_read, the default of every socket"
    )]
    BusyPoll(io::Error),
    /// Idle states cannot be disabled.
    #[error("cannot hold {DMA_LATENCY}: {0}; it needs root, and a kernel with PM QoS")]
    Idle(io::Error),
    /// The preload library cannot be placed.
    #[error(transparent)]
    Library(#[from] NoPlace),
    /// The program could not be started.
    #[error("cannot start {program}: {source}")]
    Start {
        program: String,
        /// The system's error.
        source: io::Error,
    },
    /// The kernel cannot tell when a program ends.
    #[error("exec needs Linux 5.3 or newer (pidfd_open)")]
    Kernel,
    /// The program runs, but cannot be waited for.
    #[error("cannot wait for the program: {0}")]
    Wait(io::Error),
}

impl ExecError {
    /// The exit code's kind.
    pub fn blame(&self) -> Blame {
        match self {
            ExecError::NoCommand | ExecError::Cpu { .. } => Blame::Usage,
            ExecError::BusyPoll(_) | ExecError::Idle(_) | ExecError::Kernel => Blame::Missing,
            _ => Blame::Failed,
        }
    }

    /// The exit code that env(1) and shells give a program that could not be started: 127 if it does not exist, else 126. `None`
    /// if the program is not at fault.
    pub fn of_the_program(&self) -> Option<u8> {
        match self {
            ExecError::Start { source, .. } if source.kind() == io::ErrorKind::NotFound => Some(127),
            ExecError::Start { .. } => Some(126),
            _ => None,
        }
    }
}

/// False if the program is a plain name that no folder of `path` shows: execvp(3) ends with EACCES where it may not search one of
/// them.
fn is_on(program: &OsStr, path: Option<&OsStr>) -> bool {
    let mut folders = path.into_iter().flat_map(std::env::split_paths);
    program.as_bytes().contains(&b'/') || folders.any(|folder| folder.join(program).exists())
}

/// An event while the program runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// The program runs, with the settings of its process and of the host in force.
    Started,
    /// A socket lacks an option, or lacked it until now.
    Lacks(LackingSocket),
    /// The first sockets were checked and have their options.
    InForce {
        /// Internet sockets seen so far.
        sockets: u64,
        /// Each option that can be read back, and how many sockets have it.
        options: BTreeMap<&'static str, u64>,
    },
    /// The kernel does not lend sockets (pidfd_getfd(2), Linux 5.6): none can be asked, or given an option from outside.
    Unseen,
}

/// A socket at its first check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LackingSocket {
    /// The process that owns it.
    pub pid: u32,
    /// The process's name.
    pub name: String,
    /// Its descriptor in that process.
    pub fd: RawFd,
    /// Its protocol and addresses, such as `TCP 127.0.0.1:6379`.
    pub what: String,
    /// Options that it lacked, and the outcome for each.
    pub lacked: Vec<(&'static str, Outcome)>,
}

/// The action taken for a missing option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Left as they are: `set_live` is off.
    Left,
    /// The option was set.
    Set,
    /// The kernel refused the option; its error.
    Refused(String),
}

/// Counts over the program's life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Internet sockets of the program and of the processes that it started.
    pub sockets: u64,
    /// Sockets that still lack an option.
    pub without: u64,
    /// Sockets with busy polling that have received data from a device without it.
    pub not_polled: u64,
    /// Processes whose sockets could not be examined.
    pub closed: u64,
    /// [`News::Unseen`].
    pub unseen: bool,
}

/// The end of a program.
#[derive(Clone, Debug)]
pub struct Ended {
    /// The program's exit status.
    pub status: ExitStatus,
    /// Counts over its life.
    pub seen: Seen,
    /// Processes left in the background: pids and names.
    pub left: Vec<(u32, String)>,
}

/// Runs the program to its end. `tell` is called for each socket that lacks an option, and once when the first sockets have
/// theirs.
///
/// # Errors
/// The program could not be started or waited for.
pub fn run(command: &[OsString], settings: Settings, signals: &Signals, tell: &mut dyn FnMut(&News)) -> Result<Ended, ExecError> {
    let (program, arguments) = command.split_first().ok_or(ExecError::NoCommand)?;
    let allowed = allowed_cpus().map_err(ExecError::Wait)?;
    let asked = settings.cpu.as_slice();
    if let Some((cpu, allowed)) = refused(asked, &choices(asked, &allowed)) {
        return Err(ExecError::Cpu { cpu, allowed });
    }
    if let Some(usecs) = settings.busy_poll {
        let probe = UdpSocket::bind("127.0.0.1:0").map_err(ExecError::BusyPoll)?;
        socket::set(&probe, socket::SO_BUSY_POLL, usecs as i32).map_err(ExecError::BusyPoll)?;
    }
    let mut command = Command::new(program);
    command.args(arguments);
    let in_sockets = settings.for_preload();
    if !in_sockets.is_empty() {
        program::preload(&mut command, &library::lay()?, &in_sockets);
    }
    // In force while the descriptor is open; no other process inherits it.
    let held = settings.hold_idle.then(|| RealHost.hold(DMA_LATENCY, &0_i32.to_ne_bytes()));
    let _held = held.transpose().map_err(ExecError::Idle)?;
    let handle = |pid| {
        pidfd_open(pid, PidfdFlags::empty()).map_err(|error| match error {
            Errno::NOSYS => ExecError::Kernel,
            error => ExecError::Wait(error.into()),
        })
    };
    // Asked before the program starts: without pidfd_open(2) nobody could wait for it.
    handle(getpid())?;
    let failed = |source: io::Error| {
        let nowhere = source.kind() == io::ErrorKind::PermissionDenied && !is_on(program, std::env::var_os("PATH").as_deref());
        let source = if nowhere { io::Error::from_raw_os_error(Errno::NOENT.raw_os_error()) } else { source };
        ExecError::Start { program: program.to_string_lossy().into_owned(), source }
    };
    set_child_subreaper(Some(getpid())).map_err(|error| ExecError::Wait(error.into()))?;
    let child = program::start(command, settings.cpu, SIGNALS).map_err(failed)?;
    let pid = Pid::from_child(&child);
    let ended = handle(pid)?;
    tell(&News::Started);
    let mut survey = Survey { settings, ..Survey::default() };
    let mut pause = FIRST_LOOK;
    let mut next = Instant::now() + pause;
    loop {
        // Before the wait for children, so that a child's end in between interrupts the sleep below.
        while let Ok(Some(signal)) = signals.next() {
            // Ctrl-C reaches every process of the terminal's group by itself; a SIGTERM reaches only this one, so it is
            // forwarded.
            if signal == SIGTERM {
                let _ = kill_process(pid, Signal::TERM);
            }
        }
        // Any other child was orphaned by its parent and reparented to this process, the only one that waits for it.
        while let Some((process, status)) = wait(WaitOptions::NOHANG).map_err(|error| ExecError::Wait(error.into()))? {
            if process == pid {
                let left = left_behind();
                if !left.is_empty() {
                    survey.look(tell);
                }
                return Ok(Ended { status: ExitStatus::from_raw(status.as_raw()), seen: survey.seen, left });
            }
        }
        let now = Instant::now();
        if now >= next {
            survey.look(tell);
            pause = (2 * pause).min(LATEST_LOOK);
            next = Instant::now() + pause;
        }
        sleep(&[ended.as_fd(), signals.as_fd()], next.saturating_duration_since(now)).map_err(ExecError::Wait)?;
    }
}

/// The exit code for a program's status, by the convention of shells.
pub fn exit_code(status: ExitStatus) -> u8 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)) as u8
}

fn sleep(fds: &[BorrowedFd<'_>], limit: Duration) -> io::Result<()> {
    let mut polled: Vec<PollFd<'_>> = fds.iter().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
    let limit = Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: i64::from(limit.subsec_nanos()) };
    match poll(&mut polled, Some(&limit)) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// The known sockets, and the counts over them.
#[derive(Default)]
struct Survey {
    settings: Settings,
    /// Inodes: unique for sockets on the whole host.
    known: BTreeSet<u64>,
    seen: Seen,
    /// Number of sockets with each option.
    have: BTreeMap<&'static str, u64>,
    /// [`News::InForce`] has been sent.
    told: bool,
}

impl Survey {
    /// Examines the sockets of the program and of all its descendants.
    fn look(&mut self, tell: &mut dyn FnMut(&News)) {
        let lacking = self.ask_all(&BTreeSet::new(), tell);
        if !lacking.is_empty() {
            std::thread::sleep(DRESSED_WITHIN);
            self.ask_all(&lacking, tell);
        }
        if !self.told && !self.have.is_empty() {
            self.told = true;
            tell(&News::InForce { sockets: self.seen.sockets, options: self.have.clone() });
        }
    }

    /// Asks the sockets that are not known yet. Those that lack an option are returned, and told of when they are asked `again`.
    fn ask_all(&mut self, again: &BTreeSet<u64>, tell: &mut dyn FnMut(&News)) -> BTreeSet<u64> {
        let (mut lacking, mut there) = (BTreeSet::new(), BTreeSet::new());
        self.seen.closed = 0;
        for pid in family(std::process::id()).into_iter().skip(1) {
            let pidfd = Pid::from_raw(pid as i32).map(|pid| pidfd_open(pid, PidfdFlags::empty()));
            let Some(Ok(pidfd)) = pidfd else { continue };
            for (fd, inode) in sockets(pid) {
                there.insert(inode);
                if self.known.contains(&inode) || lacking.contains(&inode) {
                    continue;
                }
                match pidfd_getfd(&pidfd, fd, PidfdGetfdFlags::empty()) {
                    Ok(socket) if !again.contains(&inode) && self.lacks(&socket) => drop(lacking.insert(inode)),
                    Ok(socket) => {
                        self.known.insert(inode);
                        if let Some(found) = self.ask(pid, fd, &socket) {
                            tell(&News::Lacks(found));
                        }
                    }
                    Err(Errno::PERM) => {
                        self.seen.closed += 1;
                        break;
                    }
                    Err(Errno::NOSYS) => {
                        if !std::mem::replace(&mut self.seen.unseen, true) {
                            tell(&News::Unseen);
                        }
                        return lacking;
                    }
                    // The socket was closed in the meantime.
                    Err(_) => {}
                }
            }
        }
        // A program that runs for months opens sockets without end.
        self.known.retain(|inode| there.contains(inode));
        lacking
    }

    /// The protocol of an internet socket, and the options that it must have; `None` if it is not one.
    fn wanted(&self, socket: &OwnedFd) -> Option<(i32, Vec<Wanted>)> {
        let families = [AddressFamily::INET, AddressFamily::INET6].map(|family| i32::from(family.as_raw()));
        let domain = socket::get(socket, socket::SO_DOMAIN).ok()?;
        let protocol = socket::get(socket, socket::SO_PROTOCOL).ok()?;
        families.contains(&domain).then(|| (protocol, self.settings.of(protocol)))
    }

    fn lacks(&self, socket: &OwnedFd) -> bool {
        self.wanted(socket).is_some_and(|(_, wanted)| wanted.iter().any(|wanted| wanted.is_lacked_by(socket)))
    }

    /// The options that a socket lacks; `None` if there are none, or if it is not an internet socket.
    fn ask(&mut self, pid: u32, fd: RawFd, socket: &OwnedFd) -> Option<LackingSocket> {
        let (protocol, wanted) = self.wanted(socket)?;
        self.seen.sockets += 1;
        let lacked = wanted.iter().filter(|wanted| wanted.is_lacked_by(socket));
        let lacked: Vec<_> = lacked.map(|wanted| (wanted.name, self.give(socket, wanted))).collect();
        for wanted in wanted.iter().filter(|wanted| lacked.iter().all(|(name, _)| *name != wanted.name)) {
            *self.have.entry(wanted.name).or_default() += 1;
        }
        self.seen.without += u64::from(lacked.iter().any(|(_, outcome)| *outcome != Outcome::Set));
        // The NAPI id of the device that received last. It is 0 on a socket without traffic too, but then no CPU has received for
        // it either.
        let unpolled = self.settings.busy_poll.is_some()
            && socket::get(socket, socket::SO_INCOMING_NAPI_ID).is_ok_and(|id| id == 0)
            && socket::get(socket, socket::SO_INCOMING_CPU).is_ok_and(|cpu| cpu >= 0);
        self.seen.not_polled += u64::from(unpolled);
        (!lacked.is_empty()).then(|| LackingSocket { pid, name: name_of(pid), fd, what: what(socket, protocol), lacked })
    }

    fn give(&self, socket: &OwnedFd, wanted: &Wanted) -> Outcome {
        if !self.settings.set_live {
            return Outcome::Left;
        }
        match socket::set(socket, wanted.option, wanted.value) {
            Ok(()) if socket::get(socket, wanted.option).is_ok_and(|value| value == wanted.value) => Outcome::Set,
            Ok(()) => Outcome::Refused("the kernel took it and kept something else".into()),
            Err(error) => Outcome::Refused(error.to_string()),
        }
    }
}

/// A process and all its descendants.
fn family(program: u32) -> Vec<u32> {
    let mut family = vec![program];
    let parents: Vec<(u32, u32)> = fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(|pid: u32| Some((pid, parent_in(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?)))
        .collect();
    let mut at = 0;
    while let Some(parent) = family.get(at).copied() {
        family.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| *pid));
        at += 1;
    }
    family
}

/// Processes left by the program: descendants of this process that still run when the program has ended.
fn left_behind() -> Vec<(u32, String)> {
    let runs = |pid: &u32| {
        fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z ") && !stat.contains(") X "))
    };
    family(std::process::id()).into_iter().skip(1).filter(runs).map(|pid| (pid, name_of(pid))).collect()
}

fn name_of(pid: u32) -> String {
    fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim_end().to_owned()
}

/// The parent's pid in a line of `/proc/PID/stat` (proc_pid_stat(5)); the name before it may hold any character.
fn parent_in(stat: &str) -> Option<u32> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// The sockets of a process: descriptor and inode.
fn sockets(pid: u32) -> Vec<(RawFd, u64)> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let socket = |entry: fs::DirEntry| {
        let link = fs::read_link(entry.path()).ok()?;
        let inode = link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()?;
        Some((entry.file_name().to_str()?.parse().ok()?, inode))
    };
    entries.filter_map(socket).collect()
}

/// Protocol and address, `TCP 127.0.0.1:6379`, with the peer if connected.
fn what(socket: &OwnedFd, protocol: i32) -> String {
    let is = |known: Protocol| protocol == known.as_raw().get() as i32;
    let kind = if is(ipproto::TCP) {
        "TCP".to_owned()
    } else if is(ipproto::UDP) {
        "UDP".to_owned()
    } else {
        format!("IP protocol {protocol}")
    };
    let address = |found: Option<rustix::net::SocketAddrAny>| found.and_then(|found| SocketAddr::try_from(found).ok());
    let own = address(getsockname(socket).ok()).map_or_else(String::new, |own| format!(" {own}"));
    let peer = address(getpeername(socket).ok().flatten()).map_or_else(String::new, |peer| format!(" to {peer}"));
    format!("{kind}{own}{peer}")
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::process::Stdio;

    use super::*;

    #[test]
    fn sockets_that_lack_an_option_are_waited_for_together() {
        let socket = || Stdio::from(OwnedFd::from(TcpListener::bind("127.0.0.1:0").unwrap()));
        let mut program = Command::new("sleep").arg("100").stdin(socket()).stdout(socket()).stderr(socket()).spawn().unwrap();
        let look = |_| {
            let mut survey = Survey { settings: Settings { nodelay: true, ..Settings::default() }, ..Survey::default() };
            let (begun, mut named) = (Instant::now(), 0);
            survey.look(&mut |news: &News| named += u32::from(matches!(news, News::Lacks(_))));
            (begun.elapsed(), named)
        };
        // Others may use the CPUs during one look, not during all.
        let looks: Vec<(Duration, u32)> = (0..5).map(look).collect();
        program.kill().unwrap();
        program.wait().unwrap();
        assert!(looks.iter().all(|(_, named)| *named >= 3), "{looks:?}");
        assert!(looks.iter().any(|(took, _)| *took < 3 * DRESSED_WITHIN), "{looks:?}");
    }

    #[test]
    fn a_socket_that_is_gone_is_forgotten() {
        let mut survey = Survey { known: BTreeSet::from([u64::MAX]), ..Survey::default() };
        survey.look(&mut |_: &News| {});
        assert!(!survey.known.contains(&u64::MAX));
    }

    #[test]
    fn library_receives_the_socket_options() {
        let settings = Settings { busy_poll: Some(50), nodelay: true, quickack: true, ..Settings::default() };
        assert_eq!(settings.for_preload(), "busy-poll=50,nodelay,quickack");
        assert_eq!(Settings { cpu: Some(1), hold_idle: true, ..Settings::default() }.for_preload(), "");
        let names = |protocol| settings.of(protocol).iter().map(|wanted| wanted.name).collect::<Vec<_>>();
        assert_eq!((names(tcp()), names(17)), (vec!["busy-poll", "nodelay"], vec!["busy-poll"]));
    }

    #[test]
    fn a_parent_is_found_behind_any_name() {
        assert_eq!(parent_in("12 (a) S 3 4 5"), Some(3));
        assert_eq!(parent_in("12 (evil) R 99 (x) S 7 4 5"), Some(7));
        assert_eq!(parent_in("garbage"), None);
        assert!(family(std::process::id()).contains(&std::process::id()));
    }

    #[test]
    fn a_plain_name_is_looked_for_in_the_path() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("there"), "").unwrap();
        let path = std::env::join_paths([std::path::Path::new("/nonexistent"), folder.path()]).unwrap();
        let on = |program: &str| is_on(OsStr::new(program), Some(&path));
        assert_eq!((on("there"), on("elsewhere"), on("./elsewhere")), (true, false, true));
        assert!(!is_on(OsStr::new("there"), None));
    }

    #[test]
    fn the_exit_code_follows_the_status_of_the_program() {
        assert_eq!(exit_code(ExitStatus::from_raw(3 << 8)), 3);
        assert_eq!(exit_code(ExitStatus::from_raw(9)), 137);
    }
}
