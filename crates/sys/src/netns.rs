//! Unnamed network namespaces that live exactly as long as the worker process that created them.
//!
//! ```text
//!   as root                            unprivileged
//!   unshare(NEWNET | NEWNS)            unshare(NEWUSER | NEWNET | NEWNS), the caller mapped to root inside
//!        │                                  │              second worker: setns(the first's user namespace),
//!        │                                  │              then unshare(NEWNET | NEWNS), so that one of them
//!        ▼                                  ▼              may make a veth that reaches into both
//!   mounts private ──► own sysfs on /sys ──► lo up
//! ```
//!
//! Only their process refers to the namespaces: no name under /run/netns, no bind mount. When it ends, in whatever way, the
//! kernel removes them with the links inside.
//!
//! Sources: namespaces(7), user_namespaces(7), network_namespaces(7), unshare(2), setns(2).

use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::Errno;
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

use crate::netlink::{Netlink, NetlinkError};

/// Bits of the capability sets in /proc/self/status (`linux/capability.h`).
const CAP_NET_ADMIN: u32 = 12;
const CAP_SYS_ADMIN: u32 = 21;

/// True once this process is in namespaces it created itself, and so may change their sysctls.
static ENTERED: AtomicBool = AtomicBool::new(false);

/// Reason why a process has no namespaces of its own.
#[derive(Debug, thiserror::Error)]
pub enum NamespaceError {
    /// The process has more than one thread; the others would stay in the old namespaces.
    #[error("cannot enter namespaces in a process with {threads} threads: enter them before the first thread is started")]
    Threads {
        /// Number of threads in the process.
        threads: u32,
    },
    /// The kernel refused a step.
    #[error("cannot {step}: {source}; {remedy}")]
    Refused {
        /// The attempted step.
        step: &'static str,
        /// The kernel's error.
        source: io::Error,
        /// The restriction, and a way to lift it.
        remedy: String,
    },
    /// A file of /proc could not be read.
    #[error("cannot read {file}: {source}")]
    Proc {
        /// Path of the file.
        file: &'static str,
        source: io::Error,
    },
    /// The namespace's loopback interface could not be set up.
    #[error(transparent)]
    Loopback(#[from] NetlinkError),
}

/// Reason why a sysctl of the process's own namespace was not changed.
#[derive(Debug, thiserror::Error)]
pub enum SysctlError {
    /// The process is still in its original namespaces.
    #[error("refused to set {name}: this process is not in a network namespace of its own, the host would be changed")]
    NotOwn {
        /// Name of the sysctl.
        name: String,
    },
    /// The name is not a network sysctl.
    #[error("\"{name}\" is not a network sysctl: write it with dots, such as net.ipv4.tcp_timestamps")]
    Name {
        /// The rejected name.
        name: String,
    },
    /// The kernel refused, or the namespace has no such sysctl.
    #[error("cannot set {name}={value} in this network namespace: {source}")]
    Refused {
        name: String,
        /// The value to be written.
        value: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// The kernel accepted the value but kept another.
    #[error("set {name}={value}, but the kernel keeps {kept}")]
    Kept {
        name: String,
        /// The value written.
        value: String,
        /// The value read back.
        kept: String,
    },
}

/// Ability of this process to create network namespaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Support {
    /// With its own privileges: `enter_new(false)`.
    Privileged,
    /// Inside a user namespace that no known setting forbids: `enter_new(true)`.
    UserNamespace,
    /// Not at all; the text names the restriction and the command that lifts it.
    No(String),
}

/// Contents of /sys in the new namespaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sysfs {
    /// The devices of the process's own network namespace.
    Own,
    /// Still those of the old namespace, for the given reason: do not read device facts from it.
    Unread(String),
}

/// State of the new namespaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entered {
    pub sysfs: Sysfs,
}

/// Checks whether this process may create network namespaces. Only reads; a security module may still refuse.
#[must_use]
pub fn can_make() -> Support {
    can_make_by(Path::new("/proc"))
}

/// Moves this process into a new network and mount namespace; with `user_namespace` inside a new user namespace, in which the
/// caller is root.
///
/// Mounts are private there, /sys shows the namespace's own devices (and no longer anything mounted below it, such as cgroups),
/// and loopback is up. Call it first thing in a worker: network sockets opened earlier stay in the old namespace.
///
/// # Errors
/// The process has several threads, or the kernel refuses; the message names the restriction and the command that lifts it. After
/// an error the process may be in some of the namespaces: it should end.
pub fn enter_new(user_namespace: bool) -> Result<Entered, NamespaceError> {
    require_one_thread()?;
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    if !user_namespace {
        return unshare_network(false);
    }
    unshare(UnshareFlags::NEWUSER).map_err(|e| refused("make a user namespace", e, true))?;
    // user_namespaces(7) requires this order: without setgroups=deny an unprivileged process may not write gid_map.
    for (file, line) in [
        ("/proc/self/setgroups", "deny".to_owned()),
        ("/proc/self/uid_map", format!("0 {uid} 1")),
        ("/proc/self/gid_map", format!("0 {gid} 1")),
    ] {
        fs::write(file, line).map_err(|e| refused("become root in the new user namespace", e, true))?;
    }
    unshare_network(true)
}

/// Moves this process into the user namespace of the live process `pid`, which called [`enter_new`] with a user namespace, and
/// then into a new network and mount namespace of its own.
///
/// Two workers that share a user namespace may create a veth pair between their network namespaces.
///
/// # Errors
/// As [`enter_new`]; or the process is gone, or belongs to another user.
pub fn join_user_of(pid: u32) -> Result<Entered, NamespaceError> {
    require_one_thread()?;
    let step = "join the other worker's user namespace";
    let gone = |source: io::Error| {
        let remedy = format!("process {pid} must live, belong to the same user, and be in a user namespace of its own");
        NamespaceError::Refused { step, source, remedy }
    };
    let theirs = File::open(format!("/proc/{pid}/ns/user")).map_err(gone)?;
    move_into_link_name_space(theirs.as_fd(), Some(LinkNameSpaceType::User)).map_err(|e| gone(e.into()))?;
    unshare_network(true)
}

/// Moves this process into the network namespace of process `pid`, after moving into its user namespace if that differs. /sys and
/// the mounts stay unchanged: this is for a process that only opens sockets there.
///
/// # Errors
/// The process has several threads, the other process is gone or belongs to another user, or the kernel refuses.
pub fn join_network_of(pid: u32) -> Result<(), NamespaceError> {
    require_one_thread()?;
    let step = "join the other worker's network namespace";
    let gone = |source: io::Error| {
        let remedy = format!("process {pid} must live and belong to the same user");
        NamespaceError::Refused { step, source, remedy }
    };
    let same = |kind: &str| -> io::Result<bool> {
        Ok(fs::read_link(format!("/proc/{pid}/ns/{kind}"))? == fs::read_link(format!("/proc/self/ns/{kind}"))?)
    };
    let network = File::open(format!("/proc/{pid}/ns/net")).map_err(gone)?;
    if !same("user").map_err(gone)? {
        let user = File::open(format!("/proc/{pid}/ns/user")).map_err(gone)?;
        move_into_link_name_space(user.as_fd(), Some(LinkNameSpaceType::User)).map_err(|e| gone(e.into()))?;
    }
    move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network)).map_err(|e| gone(e.into()))
}

/// Moves this process into the network namespace of `file`, such as /run/netns/blue or /proc/4711/ns/net, and into a mount
/// namespace of its own, in which /sys shows that namespace's devices. Nothing is left there when the process ends.
///
/// # Errors
/// The process has several threads, the file is missing or is no network namespace, or the kernel refuses: this needs
/// CAP_SYS_ADMIN.
pub fn join_network_at(file: &Path) -> Result<Entered, NamespaceError> {
    require_one_thread()?;
    let step = "join the network namespace";
    let because = |source: io::Error, remedy: String| NamespaceError::Refused { step, source, remedy };
    let network = File::open(file).map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => {
            because(error, format!("{} can be read by root alone, and of some processes by nobody", file.display()))
        }
        _ => because(error, format!("there must be a namespace at {}", file.display())),
    })?;
    move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network)).map_err(|error| match error {
        Errno::INVAL => because(error.into(), format!("{} is no network namespace", file.display())),
        error => because(error.into(), "this needs CAP_SYS_ADMIN: run as root".into()),
    })?;
    unshare(UnshareFlags::NEWNS).map_err(|error| refused("make a mount namespace", error, false))?;
    let sysfs = own_sysfs(false)?;
    Ok(Entered { sysfs })
}

/// Sets a sysctl such as `net.ipv4.tcp_timestamps` in the network namespace that this process created, and reads it back.
///
/// **Never for the initial namespace**: a process that did not call [`enter_new`] or [`join_user_of`] gets an error, because it
/// would change the host.
///
/// # Errors
/// The process is not in a network namespace of its own, the name is not a network sysctl, the namespace has no such sysctl (some
/// exist only in the initial one), or the kernel refuses or alters the value.
pub fn set_sysctl(name: &str, value: &str) -> Result<(), SysctlError> {
    let owned = || (name.to_owned(), value.to_owned());
    if !ENTERED.load(Ordering::Relaxed) {
        return Err(SysctlError::NotOwn { name: name.to_owned() });
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let well_formed = name.split('.').all(|part| !part.is_empty() && part.chars().all(plain));
    if !well_formed || !name.starts_with("net.") {
        return Err(SysctlError::Name { name: name.to_owned() });
    }
    let file = Path::new("/proc/sys").join(name.replace('.', "/"));
    let kept = fs::write(&file, value).and_then(|()| fs::read_to_string(&file)).map_err(|source| {
        let (name, value) = owned();
        SysctlError::Refused { name, value, source }
    })?;
    // The kernel separates the fields of a list by tabs.
    if kept.split_whitespace().eq(value.split_whitespace()) {
        return Ok(());
    }
    let (name, value) = owned();
    Err(SysctlError::Kept { name, value, kept: kept.trim().to_owned() })
}

/// Runs `work` on a thread of its own in a new, unnamed network namespace, and waits for it. The namespace disappears with the
/// thread and its open files; this process and /sys stay unchanged.
///
/// # Errors
/// The kernel refuses the namespace, which needs CAP_SYS_ADMIN, or the thread.
///
/// # Panics
/// If `work` panics.
pub fn apart<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T, NamespaceError> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().spawn_scoped(scope, || {
            unshare(UnshareFlags::NEWNET).map_err(|e| refused("make a network namespace", e, false))?;
            Ok(work())
        });
        let thread = thread.map_err(|source| {
            let remedy = "raise the limit of threads (ulimit -u, pids.max)".to_owned();
            NamespaceError::Refused { step: "start a thread for a network namespace", source, remedy }
        })?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Thread id by which the kernel finds the calling thread's namespaces, as in
/// [`VethConfig::peer_pid`](crate::netlink::VethConfig::peer_pid).
pub fn this_thread() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned()
}

fn unshare_network(user_namespace: bool) -> Result<Entered, NamespaceError> {
    unshare(UnshareFlags::NEWNET | UnshareFlags::NEWNS).map_err(|e| refused("make a network namespace", e, user_namespace))?;
    ENTERED.store(true, Ordering::Relaxed);
    let sysfs = own_sysfs(user_namespace)?;
    Netlink::open()?.set_up("lo")?;
    Ok(Entered { sysfs })
}

/// In a new mount namespace: makes its mounts private, and mounts an own sysfs.
fn own_sysfs(user_namespace: bool) -> Result<Sysfs, NamespaceError> {
    match mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC) {
        Ok(()) => Ok(mount_own_sysfs()),
        // Mounts made now would be visible outside, so there are none.
        Err(Errno::INVAL) => {
            Ok(Sysfs::Unread("the root directory is not a mount point (a chroot), so /sys shows the outer devices".into()))
        }
        Err(error) => Err(refused("make the mounts private", error.into(), user_namespace)),
    }
}

fn unshare(flags: UnshareFlags) -> io::Result<()> {
    // SAFETY: the hazard of unshare is CLONE_FILES, which parts the descriptor tables of threads; no caller passes it.
    unsafe { unshare_unsafe(flags) }.map_err(io::Error::from)
}

/// Mounts over /sys a sysfs with the devices of the process's own network namespace. In a user namespace the kernel allows that
/// only if the old /sys was wholly visible, and read-only if the old one was.
fn mount_own_sysfs() -> Sysfs {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    let attempt = |flags| mount("sysfs", "/sys", "sysfs", flags, None);
    match attempt(flags).or_else(|_| attempt(flags | MountFlags::RDONLY)) {
        Ok(()) => Sysfs::Own,
        Err(e) => Sysfs::Unread(format!("mounting an own sysfs was refused: {}", io::Error::from(e))),
    }
}

fn require_one_thread() -> Result<(), NamespaceError> {
    let file = "/proc/self/status";
    let status = fs::read_to_string(file).map_err(|source| NamespaceError::Proc { file, source })?;
    let threads = status_field(&status, "Threads").and_then(|n| n.parse().ok());
    match threads {
        Some(1) => Ok(()),
        Some(threads) => Err(NamespaceError::Threads { threads }),
        None => Err(NamespaceError::Proc { file, source: io::Error::other("it has no line \"Threads:\"") }),
    }
}

fn refused(step: &'static str, source: io::Error, user_namespace: bool) -> NamespaceError {
    let proc = Path::new("/proc");
    let known = if user_namespace { forbidding(proc) } else { forbidding_limit(proc) };
    let remedy = known.unwrap_or_else(|| {
        match source.raw_os_error() {
            Some(libc::ENOSPC | libc::EUSERS) => {
                "a limit is reached; raise it: sudo sysctl -w user.max_user_namespaces=100000 \
                 user.max_net_namespaces=100000 user.max_mnt_namespaces=100000"
            }
            _ if !user_namespace => "this needs CAP_SYS_ADMIN and CAP_NET_ADMIN: run as root, or inside a user namespace",
            _ => {
                "no sysctl forbids it, so a seccomp filter or a security module does, as in most containers, or this is \
                 a chroot: leave the chroot, or run as root with CAP_SYS_ADMIN and CAP_NET_ADMIN (docker run --privileged)"
            }
        }
        .to_owned()
    });
    NamespaceError::Refused { step, source, remedy }
}

/// [`can_make`] on a directory in place of /proc.
fn can_make_by(proc: &Path) -> Support {
    let status = fs::read_to_string(proc.join("self/status")).unwrap_or_default();
    let effective = status_field(&status, "CapEff").and_then(|set| u64::from_str_radix(set, 16).ok()).unwrap_or(0);
    let privileged = [CAP_NET_ADMIN, CAP_SYS_ADMIN].iter().all(|bit| effective >> bit & 1 == 1);
    match if privileged { forbidding_limit(proc) } else { forbidding(proc) } {
        Some(reason) => Support::No(reason),
        None if privileged => Support::Privileged,
        None => Support::UserNamespace,
    }
}

/// The setting that forbids unprivileged user namespaces, with the command that allows them; `None` if no sysctl does.
fn forbidding(proc: &Path) -> Option<String> {
    let is = |name, value| sysctl_is(proc, name, value);
    if is("user.max_user_namespaces", "0") {
        return Some(forbids("user.max_user_namespaces", "0", "10000"));
    }
    // A patch of Debian and Arch.
    if is("kernel.unprivileged_userns_clone", "0") {
        return Some(forbids("kernel.unprivileged_userns_clone", "0", "1"));
    }
    // Ubuntu since 23.10: only programs whose AppArmor profile allows it may. This is the label of a program without a profile.
    let confined = fs::read_to_string(proc.join("self/attr/current")).is_ok_and(|label| label.trim() != "unconfined");
    if is("kernel.apparmor_restrict_unprivileged_userns", "1") && !confined {
        return Some(forbids("kernel.apparmor_restrict_unprivileged_userns", "1", "0"));
    }
    forbidding_limit(proc)
}

/// The limit that forbids network and mount namespaces to all users.
fn forbidding_limit(proc: &Path) -> Option<String> {
    let names = ["user.max_net_namespaces", "user.max_mnt_namespaces"];
    names.into_iter().find(|name| sysctl_is(proc, name, "0")).map(|name| forbids(name, "0", "10000"))
}

fn forbids(name: &str, value: &str, allowing: &str) -> String {
    format!("{name} is {value}, which forbids it; allow it with: sudo sysctl -w {name}={allowing}")
}

fn sysctl_is(proc: &Path, name: &str, value: &str) -> bool {
    fs::read_to_string(proc.join("sys").join(name.replace('.', "/"))).is_ok_and(|text| text.trim() == value)
}

fn status_field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory in place of /proc, for a process with these effective capabilities.
    fn proc_with(capabilities: u64, files: &[(&str, &str)]) -> tempfile::TempDir {
        let proc = tempfile::tempdir().unwrap();
        let status = format!("Name:\thairpin\nThreads:\t1\nCapEff:\t{capabilities:016x}\n");
        for (file, text) in [("self/status", status.as_str())].iter().chain(files) {
            let path = proc.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        proc
    }

    #[test]
    fn root_makes_namespaces_by_itself_and_others_inside_a_user_namespace() {
        let both = 1 << CAP_NET_ADMIN | 1 << CAP_SYS_ADMIN;
        assert_eq!(can_make_by(proc_with(both, &[]).path()), Support::Privileged);
        assert_eq!(can_make_by(proc_with(1 << CAP_SYS_ADMIN, &[]).path()), Support::UserNamespace);
        assert_eq!(can_make_by(proc_with(0, &[("sys/user/max_user_namespaces", "63000\n")]).path()), Support::UserNamespace);
    }

    #[test]
    fn each_sysctl_that_forbids_is_named_with_the_command_that_allows() {
        for (file, value, command) in [
            ("sys/user/max_user_namespaces", "0\n", "sudo sysctl -w user.max_user_namespaces=10000"),
            ("sys/kernel/unprivileged_userns_clone", "0\n", "sudo sysctl -w kernel.unprivileged_userns_clone=1"),
            (
                "sys/kernel/apparmor_restrict_unprivileged_userns",
                "1\n",
                "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
            ),
            ("sys/user/max_net_namespaces", "0\n", "sudo sysctl -w user.max_net_namespaces=10000"),
        ] {
            let Support::No(reason) = can_make_by(proc_with(0, &[(file, value)]).path()) else { panic!("{file} forbids it") };
            assert!(reason.ends_with(command), "{reason}");
        }
    }

    #[test]
    fn sysctls_for_the_unprivileged_do_not_bind_root_but_limits_do() {
        let both = 1 << CAP_NET_ADMIN | 1 << CAP_SYS_ADMIN;
        let clone = proc_with(both, &[("sys/kernel/unprivileged_userns_clone", "0\n")]);
        assert_eq!(can_make_by(clone.path()), Support::Privileged);
        let limit = proc_with(both, &[("sys/user/max_mnt_namespaces", "0\n")]);
        assert!(matches!(can_make_by(limit.path()), Support::No(_)));
    }

    #[test]
    fn a_program_with_an_apparmor_profile_may_try() {
        let restrict = ("sys/kernel/apparmor_restrict_unprivileged_userns", "1\n");
        let with_profile = proc_with(0, &[restrict, ("self/attr/current", "hairpin (unconfined)\n")]);
        assert_eq!(can_make_by(with_profile.path()), Support::UserNamespace);
        let without = proc_with(0, &[restrict, ("self/attr/current", "unconfined\n")]);
        assert!(matches!(can_make_by(without.path()), Support::No(_)));
    }

    #[test]
    fn a_process_with_several_threads_is_refused() {
        let (done, wait) = std::sync::mpsc::channel::<()>();
        let other = std::thread::spawn(move || wait.recv().ok());
        let error = enter_new(false).unwrap_err();
        assert!(matches!(error, NamespaceError::Threads { threads } if threads >= 2), "{error}");
        assert!(matches!(join_user_of(std::process::id()).unwrap_err(), NamespaceError::Threads { .. }));
        drop(done);
        other.join().unwrap();
    }

    #[test]
    fn a_sysctl_of_the_host_is_never_set() {
        let error = set_sysctl("net.ipv4.tcp_timestamps", "1").unwrap_err();
        assert!(matches!(error, SysctlError::NotOwn { .. }), "{error}");
    }
}
