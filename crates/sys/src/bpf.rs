//! Precompiled BPF objects: loading, constants and maps, XDP programs on an interface, and programs on tracepoints.
//!
//! ```text
//!   object's bytes ─ open ─▶ constants (.rodata), sizes of maps ─ load ─▶ programs and maps in the kernel
//!                                                                          └ attach (BPF_LINK_CREATE) ─▶ XdpLink: detaches when dropped
//! ```
//! A link, not a netlink attachment, because a link disappears with its last descriptor: a killed process leaves no program
//! behind. All descriptors are close-on-exec.
//!
//! Sources: bpf(2), the kernel's `include/uapi/linux/{bpf,if_link}.h`, `net/core/dev.c`; libbpf.

#[cfg(feature = "tracing")]
mod tracing;
#[cfg(feature = "tracing")]
mod variables;

use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Mutex;

use libbpf_rs::{ErrorExt as _, MapCore as _, MapFlags, MapHandle, PrintLevel};

#[cfg(feature = "tracing")]
pub use self::tracing::{
    TraceLink, VARIABLES, missing_functions, missing_tracepoints, switch_tells_state, tracing_links, untyped,
};
#[cfg(feature = "tracing")]
pub use self::variables::Variables;

/// Reason why a BPF object could not be loaded or used.
#[derive(Debug, thiserror::Error)]
#[error("cannot {step}: {source}{}", if .log.is_empty() { String::new() } else { format!("; libbpf: {}", .log.trim_end()) })]
pub struct BpfError {
    pub step: String,
    /// The error from the kernel or libbpf.
    #[source]
    pub source: io::Error,
    /// libbpf's log, including the verifier's output.
    pub log: String,
}

impl BpfError {
    /// True if the kernel takes no variables of that size: of a section more than 4 MiB on older ones, such as 5.15.
    pub fn is_of_size(&self) -> bool {
        self.source.raw_os_error() == Some(libc::E2BIG) && self.verdict().is_none()
    }

    /// The verifier's last line about a rejected program, which names the reason; `None` if it rejected none. The kernel runs the
    /// verifier only after it has checked the capabilities.
    pub fn verdict(&self) -> Option<&str> {
        let (_, log) = self.log.split_once(VERIFIER)?;
        let lines = log.lines().map(str::trim).take_while(|line| !line.contains("-- END PROG LOAD LOG --"));
        lines.filter(|line| !line.is_empty() && !AFTERWARDS.iter().any(|start| line.starts_with(start))).last()
    }
}

/// libbpf puts the verifier's log behind this line.
const VERIFIER: &str = "-- BEGIN PROG LOAD LOG --";
/// Beginnings of the lines with the verifier's own cost, which end its log (`print_verification_stats`).
const AFTERWARDS: [&str; 3] = ["verification time ", "stack depth ", "processed "];

/// libbpf logs through one callback for the whole process.
static LOG: Mutex<String> = Mutex::new(String::new());
/// Serialises loaders, so that a log belongs to its error.
static LOADING: Mutex<()> = Mutex::new(());

/// Runs `work` and captures libbpf's log; an error includes it.
fn logged<T>(step: &str, work: impl FnOnce() -> Result<T, libbpf_rs::Error>) -> Result<T, BpfError> {
    let _one = LOADING.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let log = || LOG.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    log().clear();
    let before = libbpf_rs::set_print(Some((PrintLevel::Warn, |_, text| {
        LOG.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push_str(&text);
    })));
    let done = work();
    libbpf_rs::set_print(before);
    done.map_err(|error| BpfError { step: step.to_owned(), source: errno(&error), log: std::mem::take(&mut *log()) })
}

/// libbpf-rs hides the kernel's errno but exposes its kind, which EPERM and EACCES share, and a text with the number.
fn errno(error: &libbpf_rs::Error) -> io::Error {
    let tells = |errno: i32| format!("{error:#}").contains(&format!("(os error {errno})"));
    match error.kind() {
        libbpf_rs::ErrorKind::PermissionDenied if !tells(libc::EACCES) => io::Error::from_raw_os_error(libc::EPERM),
        libbpf_rs::ErrorKind::PermissionDenied => io::Error::from_raw_os_error(libc::EACCES),
        libbpf_rs::ErrorKind::NotFound => io::Error::from_raw_os_error(libc::ENOENT),
        libbpf_rs::ErrorKind::OutOfMemory => io::Error::from_raw_os_error(libc::ENOMEM),
        _ if tells(libc::E2BIG) => io::Error::from_raw_os_error(libc::E2BIG),
        _ => io::Error::other(format!("{error:#}")),
    }
}

/// Load options of XDP programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Xdp {
    /// Accept frames of several pages (Linux 5.18 and later).
    pub pages: bool,
    /// Bind to the interface with this index, natively; the programs may then query the device's metadata of a frame (Linux 6.3
    /// and later).
    pub device: Option<u32>,
}

/// `linux/bpf.h`.
const BPF_F_XDP_HAS_FRAGS: u32 = 1 << 5;
/// `linux/bpf.h`.
const BPF_F_XDP_DEV_BOUND_ONLY: u32 = 1 << 6;

#[derive(Debug)]
pub struct Object(libbpf_rs::Object);

impl Object {
    /// Loads an object from its bytes with `constants` (in the layout of its `.rodata`), room for `sized.1` entries in its map
    /// `sized.0`, and its programs as `xdp` says.
    ///
    /// # Errors
    /// EPERM without CAP_BPF and CAP_NET_ADMIN; EINVAL if the kernel does not know a feature; EACCES and others if the verifier
    /// rejects a program, for the reasons in the log.
    pub fn load(bytes: &[u8], constants: &[u8], sized: (&str, u32), xdp: Xdp) -> Result<Object, BpfError> {
        logged("load the BPF program", || {
            let mut open = libbpf_rs::ObjectBuilder::default().name("hairpin")?.open_memory(bytes)?;
            for mut map in open.maps_mut() {
                let name = map.name().to_string_lossy().into_owned();
                if name.ends_with(".rodata") {
                    map.set_initial_value(constants)?;
                } else if name == sized.0 {
                    map.set_max_entries(sized.1)?;
                }
            }
            for mut program in open.progs_mut() {
                let mut flags = 0;
                if xdp.pages {
                    flags |= BPF_F_XDP_HAS_FRAGS;
                }
                if let Some(device) = xdp.device {
                    flags |= BPF_F_XDP_DEV_BOUND_ONLY;
                    program.set_ifindex(device);
                }
                program.set_flags(flags);
            }
            open.load()
        })
        .map(Object)
    }

    /// Puts a socket into the map `name` at `key` (an XSKMAP takes its queue's number).
    ///
    /// # Errors
    /// There is no such map, or the error of bpf(2).
    pub fn set_socket(&self, name: &str, key: u32, socket: BorrowedFd<'_>) -> Result<(), BpfError> {
        self.update(name, &key.to_ne_bytes(), &socket.as_raw_fd().to_ne_bytes())
    }

    /// Sets all of the object's variables (`.bss`).
    ///
    /// # Errors
    /// There are none, or the error of bpf(2).
    pub fn set_variables(&self, bytes: &[u8]) -> Result<(), BpfError> {
        self.update(".bss", &0_u32.to_ne_bytes(), bytes)
    }

    /// Reads all of the object's variables (`.bss`).
    ///
    /// # Errors
    /// There are none, or the error of bpf(2).
    pub fn get_variables(&self) -> Result<Vec<u8>, BpfError> {
        logged("read the BPF program's variables", || {
            let map = self.0.maps().find(|map| map.name().to_string_lossy().ends_with(".bss"));
            let there = map.and_then(|map| map.lookup(&0_u32.to_ne_bytes(), MapFlags::ANY).transpose());
            there.unwrap_or_else(|| Err(libbpf_rs::Error::from(io::Error::from_raw_os_error(libc::ENOENT))))
        })
    }

    /// The variables of the section `name`, which is not `.bss`; they outlive the object.
    ///
    /// # Errors
    /// There is no such section (ENOENT), or the descriptor cannot be duplicated.
    pub fn section(&self, name: &str) -> Result<Section, BpfError> {
        logged(&format!("find the BPF variables {name}"), || {
            let map = self.0.maps().find(|map| map.name().to_string_lossy().ends_with(name));
            let map = map.ok_or_else(|| libbpf_rs::Error::from(io::Error::from_raw_os_error(libc::ENOENT)))?;
            MapHandle::try_from(&map).map(Section)
        })
    }

    fn update(&self, name: &str, key: &[u8], value: &[u8]) -> Result<(), BpfError> {
        logged(&format!("update the BPF map {name}"), || {
            let map = self.0.maps().find(|map| map.name().to_string_lossy().ends_with(name));
            let map = map.ok_or_else(|| libbpf_rs::Error::from(io::Error::from_raw_os_error(libc::ENOENT)))?;
            map.update(key, value, MapFlags::ANY).context("update")
        })
    }

    /// Attaches the XDP program `name` to the interface with index `interface`.
    ///
    /// # Errors
    /// There is no such program, or the error of bpf(2): EBUSY if another program is attached, EOPNOTSUPP if the driver has no
    /// native XDP.
    pub fn attach_xdp(&self, name: &str, interface: u32, mode: XdpMode) -> Result<XdpLink, BpfError> {
        let failed = |source| BpfError { step: format!("attach the XDP program ({mode:?})"), source, log: String::new() };
        let program = self.0.progs().find(|program| program.name() == name);
        let program = program.ok_or_else(|| failed(io::Error::from_raw_os_error(libc::ENOENT)))?;
        XdpLink::create(program.as_fd(), interface, mode).map_err(failed)
    }

    /// Runs the XDP program `name` once over `frame`, as if it had arrived at the interface with index 1, and returns its verdict
    /// (`XDP_PASS` is 2, `XDP_REDIRECT` 4).
    ///
    /// # Errors
    /// There is no such program, or the error of bpf(2): EINVAL for fewer than 14 bytes.
    pub fn try_xdp(&self, name: &str, frame: &[u8]) -> Result<u32, BpfError> {
        logged("run the XDP program", || {
            let program = self.0.progs_mut().find(|program| program.name() == name);
            let program = program.ok_or_else(|| libbpf_rs::Error::from(io::Error::from_raw_os_error(libc::ENOENT)))?;
            let input = libbpf_rs::ProgramInput { data_in: Some(frame), ..Default::default() };
            Ok(program.test_run(input)?.return_value)
        })
    }
}

/// Variables of a loaded object in a section of their own.
#[derive(Debug)]
pub struct Section(MapHandle);

impl Section {
    /// Sets all variables of the section. Programs running at this moment may still have read the old values.
    ///
    /// # Errors
    /// Another length, or the error of bpf(2).
    pub fn set(&self, bytes: &[u8]) -> io::Result<()> {
        self.0.update(&0_u32.to_ne_bytes(), bytes, MapFlags::ANY).map_err(|error| errno(&error))
    }
}

/// Place at which an XDP program runs (`XDP_FLAGS_*` of `linux/if_link.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XdpMode {
    /// In the driver.
    Native,
    /// In the stack.
    Generic,
}

/// An attached XDP program, detached when this is dropped or the process ends.
#[derive(Debug)]
pub struct XdpLink {
    _fd: OwnedFd,
}

/// The head of `union bpf_attr` for BPF_LINK_CREATE.
#[repr(C)]
struct LinkCreate {
    prog_fd: u32,
    target_ifindex: u32,
    attach_type: u32,
    flags: u32,
}

const _: () = assert!(size_of::<LinkCreate>() == 16);
/// `BPF_LINK_CREATE` of `enum bpf_cmd`.
const BPF_LINK_CREATE: libc::c_long = 28;
/// `BPF_XDP` of `enum bpf_attach_type`.
const BPF_XDP: u32 = 37;
const XDP_FLAGS_SKB_MODE: u32 = 1 << 1;
const XDP_FLAGS_DRV_MODE: u32 = 1 << 2;

impl XdpLink {
    fn create(program: BorrowedFd<'_>, interface: u32, mode: XdpMode) -> io::Result<XdpLink> {
        let flags = match mode {
            XdpMode::Native => XDP_FLAGS_DRV_MODE,
            XdpMode::Generic => XDP_FLAGS_SKB_MODE,
        };
        let attributes =
            LinkCreate { prog_fd: program.as_raw_fd() as u32, target_ifindex: interface, attach_type: BPF_XDP, flags };
        // SAFETY: the kernel reads the attributes, whose size it is told.
        let fd = unsafe { libc::syscall(libc::SYS_bpf, BPF_LINK_CREATE, &raw const attributes, size_of::<LinkCreate>()) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a new descriptor that nobody else has; the kernel makes it close-on-exec.
        Ok(XdpLink { _fd: unsafe { OwnedFd::from_raw_fd(fd as RawFd) } })
    }
}

/// XDP state of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct XdpState {
    /// Id of the program in the driver, if any.
    pub native: Option<u32>,
    /// Id of the program in the stack, if any.
    pub generic: Option<u32>,
    /// The driver's features; 0 if it has none or the kernel does not report them (before Linux 6.3).
    features: u64,
}

/// `NETDEV_XDP_ACT_XSK_ZEROCOPY` of `linux/netdev.h`.
const NETDEV_XDP_ACT_XSK_ZEROCOPY: u64 = 1 << 3;

impl XdpState {
    /// Reads the state of the interface with index `interface`.
    ///
    /// # Errors
    /// There is no such interface (ENODEV), or the exchange with the kernel failed.
    pub fn of(interface: u32) -> Result<XdpState, BpfError> {
        logged("read the interface's XDP programs", || {
            // A descriptor is needed only for attaching, which this object never does.
            let stdin = io::stdin();
            let query = libbpf_rs::Xdp::new(stdin.as_fd()).query(interface.cast_signed(), libbpf_rs::XdpFlags::NONE)?;
            let id = |id| (id != 0).then_some(id);
            Ok(XdpState { native: id(query.drv_prog_id), generic: id(query.skb_prog_id), features: query.feature_flags })
        })
    }

    /// True if the driver can write directly into an application's memory; `None` if the kernel does not report it.
    pub fn offers_zero_copy(&self) -> Option<bool> {
        (self.features != 0).then_some(self.features & NETDEV_XDP_ACT_XSK_ZEROCOPY != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_capability_and_a_rejected_program_are_told_apart() {
        const REJECTED: &str = "libbpf: prog 'sched_switch': BPF program load failed: -EACCES
libbpf: prog 'sched_switch': -- BEGIN PROG LOAD LOG --
0: R1=ctx() R10=fp0
0: (79) r0 = *(u64 *)(r0 +0)
R0 !read_ok
processed 1 insns (limit 1000000) max_states_per_insn 0 total_states 0 peak_states 0 mark_read 0
-- END PROG LOAD LOG --
libbpf: prog 'sched_switch': failed to load: -EACCES
libbpf: failed to load object 'hairpin'
";
        for (errno, log, verdict) in [
            (libc::EACCES, REJECTED, Some("R0 !read_ok")),
            (libc::EPERM, "libbpf: Error in bpf_object__probe_loading(): -EPERM. Couldn't load trivial BPF program.", None),
            (libc::EACCES, "", None),
            (libc::ENOMEM, "", None),
        ] {
            let source = super::errno(&libbpf_rs::Error::from(io::Error::from_raw_os_error(errno)).context("load"));
            let error = BpfError { step: "load".to_owned(), source, log: log.to_owned() };
            assert_eq!((error.source.raw_os_error(), error.verdict()), (Some(errno), verdict));
        }
    }
}
