//! Programs on the kernel's tracepoints and functions, typed by the kernel's BTF (`tp_btf`, `fentry`, `fexit`).
//!
//! ```text
//!   missing_tracepoints ─▶ those that this kernel lacks are left out ─▶ Object::load_tracing ─▶ variables (mapped)
//!                                                                          └ attach ─▶ TraceLink: detaches when dropped
//! ```
//! Sources: bpf(2), the kernel's `include/trace/events/`, `kernel/trace/bpf_trace.c`; libbpf.

use std::io;
use std::os::fd::AsFd;

use libbpf_rs::MapCore as _;
use libbpf_rs::btf::types::{Func, FuncProto, Ptr, Typedef};
use libbpf_rs::btf::{Btf, ReferencesType as _};
use libbpf_rs::query::{LinkInfoIter, LinkTypeInfo};

use super::variables::Variables;
use super::{BpfError, Object, logged};

/// A program on its tracepoint; detached when this is dropped or the process ends.
#[derive(Debug)]
pub struct TraceLink {
    _link: libbpf_rs::Link,
}

/// The section of an object's variables that have no other.
pub const VARIABLES: &str = ".bss";

/// Where the kernel tells its types (Linux 5.5 and later with CONFIG_DEBUG_INFO_BTF).
const TYPES: &str = "/sys/kernel/btf/vmlinux";

/// Why no program can be typed here, if so: the kernel tells no types, or /sys is not mounted, as in some containers.
pub fn untyped() -> Option<String> {
    let error = std::fs::File::open(TYPES).err()?;
    Some(format!("the kernel's types cannot be read ({TYPES}: {error})"))
}

/// The tracepoints among `names` that this kernel lacks, or whose arguments it does not describe (no BTF).
///
/// The kernel's types are read once for all names: 5 MB that take 8 ms to parse.
pub fn missing_tracepoints<'a>(names: &[&'a str]) -> Vec<&'a str> {
    let missing = logged("read the kernel's types", || {
        let types = Btf::from_vmlinux()?;
        // The kernel describes a tracepoint's arguments by a type of this name (include/trace/bpf_probe.h).
        let there =
            |name: &str| !name.contains('\0') && types.type_by_name::<Typedef<'_>>(&format!("btf_trace_{name}")).is_some();
        Ok(names.iter().copied().filter(|name| !there(name)).collect())
    });
    missing.unwrap_or_else(|_| names.to_vec())
}

/// The functions among `names` that this kernel does not have, or does not describe: it compiled them into their callers, or has
/// no BTF.
pub fn missing_functions<'a>(names: &[&'a str]) -> Vec<&'a str> {
    let missing = logged("read the kernel's types", || {
        let types = Btf::from_vmlinux()?;
        let there = |name: &str| !name.contains('\0') && types.type_by_name::<Func<'_>>(name).is_some();
        Ok(names.iter().copied().filter(|name| !there(name)).collect())
    });
    missing.unwrap_or_else(|_| names.to_vec())
}

/// True if `sched_switch` tells the state of the thread that leaves, its fourth argument (Linux 5.18 and later).
pub fn switch_tells_state() -> bool {
    let told = logged("read the kernel's types", || {
        let types = Btf::from_vmlinux()?;
        let tracepoint = types.type_by_name::<Typedef<'_>>("btf_trace_sched_switch");
        let function = tracepoint.and_then(|tracepoint| Ptr::try_from(tracepoint.referenced_type()).ok());
        let function = function.and_then(|pointer| FuncProto::try_from(pointer.referenced_type()).ok());
        // The first parameter is the kernel's own.
        Ok(function.is_some_and(|function| function.len() > 4))
    });
    told.unwrap_or(false)
}

/// Number of programs on tracepoints on this host, typed or raw, of all owners.
pub fn tracing_links() -> usize {
    LinkInfoIter::default().filter(|link| matches!(link.info, LinkTypeInfo::RawTracepoint(_))).count()
}

impl Object {
    /// Loads an object of tracing programs with `constants` (in the layout of its `.rodata`), except for the programs named in
    /// `without`. Each section of variables in `sizes` gets that many bytes: its last variable is an array that ends there.
    ///
    /// # Errors
    /// EPERM without CAP_BPF and CAP_PERFMON, or under kernel lockdown; E2BIG if the kernel takes no section that large; the log
    /// holds the verifier's reasons.
    pub fn load_tracing(bytes: &[u8], constants: &[u8], without: &[&str], sizes: &[(&str, usize)]) -> Result<Object, BpfError> {
        logged("load the BPF programs", || {
            let mut open = libbpf_rs::ObjectBuilder::default().name("hairpin")?.open_memory(bytes)?;
            for mut map in open.maps_mut() {
                let name = map.name().to_string_lossy().into_owned();
                if name.ends_with(".rodata") {
                    map.set_initial_value(constants)?;
                }
                if let Some((_, bytes)) = sizes.iter().find(|(section, _)| name.ends_with(section)) {
                    map.set_value_size(u32::try_from(*bytes).unwrap_or(u32::MAX))?;
                }
            }
            for mut program in open.progs_mut() {
                let wanted = !without.iter().any(|name| program.name() == *name);
                program.set_autoload(wanted);
            }
            open.load()
        })
        .map(Object)
    }

    /// Attaches the program `name` to its tracepoint or function.
    ///
    /// # Errors
    /// There is no such program, or the error of bpf(2).
    pub fn attach_tracing(&self, name: &str) -> Result<TraceLink, BpfError> {
        logged(&format!("attach the BPF program {name}"), || {
            let program = self.0.progs_mut().find(|program| program.name() == name);
            let program = program.ok_or_else(|| libbpf_rs::Error::from(io::Error::from_raw_os_error(libc::ENOENT)))?;
            program.attach_trace()
        })
        .map(|link| TraceLink { _link: link })
    }

    /// The object's variables in `section`, such as [`VARIABLES`].
    ///
    /// # Errors
    /// There is no such section, or those of mmap(2).
    pub fn variables(&self, section: &str) -> io::Result<Variables> {
        let map = self.0.maps().find(|map| map.name().to_string_lossy().ends_with(section));
        let none = || io::Error::new(io::ErrorKind::NotFound, format!("the BPF object has no variables in {section}"));
        let map = map.ok_or_else(none)?;
        Variables::map(map.as_fd(), map.value_size() as usize)
    }
}
