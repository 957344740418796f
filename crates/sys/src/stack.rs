//! Libraries that replace the kernel's sockets inside a process: Onload, libxlio, libvma, and others that LD_PRELOAD brings in
//! (ld.so(8)).
//!
//! ```text
//!   --stack FILE ─▶ Library::at: an ELF library for this machine, and this program has a loader ─▶ LD_PRELOAD of a worker
//!   in the worker: in_place() ─ dlsym(recv), dladdr(3) ─▶ the file that provides it, unless that is the C library
//! ```

use std::ffi::{CStr, OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read};
use std::mem::MaybeUninit;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Environment variable with the libraries to load first.
pub(crate) const PRELOAD: &str = "LD_PRELOAD";
/// This program.
const SELF: &str = "/proc/self/exe";

/// A library to load into a worker before the C library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Library(PathBuf);

/// Why a library cannot be loaded into a worker.
#[derive(Debug, thiserror::Error)]
pub enum LibraryError {
    /// The file cannot be read.
    #[error("cannot read the stack's library {}: {error}; give the path of its .so file", path.display())]
    Unread {
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The file is no shared library.
    #[error("{} is no shared library (its header is not that of one): give the path of the stack's .so file", .0.display())]
    NotALibrary(PathBuf),
    /// The library is for another kind of machine.
    #[error("{} is a library for another machine ({of}, and this program is for {own}): install the one for {own}", path.display())]
    Machine {
        path: PathBuf,
        /// The library's machine.
        of: Machine,
        /// This program's.
        own: Machine,
    },
    /// The loader's list cannot hold the name.
    #[error("{} cannot be named in {PRELOAD}, whose entries end at spaces and colons: give a link to it with another name", .0.display())]
    Name(PathBuf),
    /// This program has no loader.
    #[error("this hairpin is linked statically, so no library can be loaded before it: use a dynamic build, as the packages are")]
    Static,
}

impl LibraryError {
    /// True if this program lacks something, false if the argument is wrong.
    pub fn is_missing(&self) -> bool {
        matches!(self, LibraryError::Static)
    }
}

impl Library {
    /// The library in the file `path`; without a slash, and if there is no such file here, the one that the loader finds under
    /// that name.
    ///
    /// # Errors
    /// [`LibraryError`]: nothing has been started.
    pub fn at(path: &Path) -> Result<Library, LibraryError> {
        let unread = |path: &Path| {
            let path = path.to_owned();
            move |error| LibraryError::Unread { path, error }
        };
        let own = File::open(SELF).map_err(unread(SELF.as_ref()))?;
        let header = Header::read(&own).ok().flatten().ok_or(LibraryError::Static)?;
        if !header.has_interpreter(&own).map_err(unread(SELF.as_ref()))? {
            return Err(LibraryError::Static);
        }
        if path.as_os_str().as_bytes().iter().any(|byte| b" :".contains(byte)) {
            return Err(LibraryError::Name(path.into()));
        }
        if !path.as_os_str().as_bytes().contains(&b'/') && !path.exists() {
            return Ok(Library(path.into()));
        }
        let file = File::open(path).map_err(unread(path))?;
        match Header::read(&file).map_err(unread(path))? {
            Some(found) if found.kind == SHARED && found.machine == header.machine => {}
            Some(found) if found.kind == SHARED => {
                return Err(LibraryError::Machine { path: path.into(), of: found.machine, own: header.machine });
            }
            _ => return Err(LibraryError::NotALibrary(path.into())),
        }
        let path = std::path::absolute(path).map_err(unread(path))?;
        // The directory of a relative path may have such a name too.
        if path.as_os_str().as_bytes().iter().any(|byte| b" :".contains(byte)) {
            return Err(LibraryError::Name(path));
        }
        Ok(Library(path))
    }

    /// The file, or the name that the loader looks for.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

/// The loader's list with this library before those that this process names.
pub(crate) fn before_others(library: &Path) -> OsString {
    listed(library, std::env::var_os(PRELOAD))
}

fn listed(library: &Path, others: Option<OsString>) -> OsString {
    let mut list = library.as_os_str().to_owned();
    if let Some(others) = others.filter(|others| !others.is_empty()) {
        list.push(":");
        list.push(others);
    }
    list
}

/// Word size, byte order and processor of an ELF file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    class: u8,
    order: u8,
    processor: u16,
}

impl std::fmt::Display for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = match self.processor {
            3 => "x86",
            40 => "arm",
            62 => "x86-64",
            183 => "arm64",
            243 => "RISC-V",
            21 => "ppc64",
            22 => "s390x",
            other => return write!(f, "ELF machine {other}"),
        };
        f.pad(name)
    }
}

/// e_type of a shared library, and of most programs.
const SHARED: u16 = 3;
/// p_type of the loader's name.
const INTERPRETER: u32 = 3;

/// Bytes of an ELF header that are read (elf(5)).
#[derive(Clone, Copy, Debug)]
struct Header {
    machine: Machine,
    kind: u16,
    segments_at: u64,
    segment_size: u16,
    segments: u16,
}

impl Header {
    /// `None` if the file has none.
    fn read(mut file: &File) -> io::Result<Option<Header>> {
        let mut bytes = [0; 64];
        let mut got = 0;
        while got < bytes.len() {
            match file.read(&mut bytes[got..])? {
                0 => return Ok(None),
                more => got += more,
            }
        }
        Ok(Header::parse(&bytes))
    }

    fn parse(bytes: &[u8; 64]) -> Option<Header> {
        let [0x7f, b'E', b'L', b'F', class @ (1 | 2), order @ (1 | 2), ..] = *bytes else { return None };
        let number = |at: usize, size: usize| {
            let each = |sum: u64, byte: &u8| (sum << 8) | u64::from(*byte);
            let bytes = &bytes[at..at + size];
            if order == 1 { bytes.iter().rev().fold(0, each) } else { bytes.iter().fold(0, each) }
        };
        let half = |at: usize| number(at, 2) as u16;
        let (segments_at, sizes_at) = if class == 2 { (number(32, 8), 54) } else { (number(28, 4), 42) };
        Some(Header {
            machine: Machine { class, order, processor: half(18) },
            kind: half(16),
            segments_at,
            segment_size: half(sizes_at),
            segments: half(sizes_at + 2),
        })
    }

    /// True if this program's file names a loader.
    fn has_interpreter(&self, file: &File) -> io::Result<bool> {
        for index in 0..u64::from(self.segments) {
            let mut kind = [0; 4];
            // This program's own byte order.
            file.read_exact_at(&mut kind, self.segments_at + index * u64::from(self.segment_size))?;
            if u32::from_ne_bytes(kind) == INTERPRETER {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// The library that provides the sockets of this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InPlace {
    /// Its file, links resolved.
    pub file: PathBuf,
    /// Its file under the name by which the loader found it.
    pub found_as: PathBuf,
    /// Its version, if its file's name or a public symbol has it.
    pub version: Option<String>,
}

impl InPlace {
    /// `onload` of `libonload.so`.
    pub fn name(&self) -> String {
        name_and_suffix(&self.file).0
    }

    /// Environment variables that configure it: `EF_…` of Onload; of the others those that begin with their name in capitals,
    /// such as `XLIO_…` and `VMA_…`.
    pub fn prefix(&self) -> String {
        match self.name().as_str() {
            ONLOAD => "EF_".into(),
            name => {
                name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' }).chain(['_']).collect()
            }
        }
    }
}

/// Onload's name. Its library has no version in its file's name, and exports one.
const ONLOAD: &str = "onload";
const ONLOAD_VERSION: &CStr = c"onload_version";

/// The library that provides recv(2) to this process, unless the C library does. Libraries do not change after the start of a
/// process.
pub fn in_place() -> Option<&'static InPlace> {
    static FOUND: OnceLock<Option<InPlace>> = OnceLock::new();
    FOUND
        .get_or_init(|| {
            let (recv, found_as) = provider(c"recv")?;
            if is_of_the_c_library(recv) {
                return None;
            }
            let file = fs::canonicalize(&found_as).unwrap_or_else(|_| found_as.clone());
            let (name, suffix) = name_and_suffix(&file);
            let version = suffix.or_else(|| (name == ONLOAD).then(onload_version).flatten());
            Some(InPlace { file, found_as, version })
        })
        .as_ref()
}

/// No stack replaces these calls, so they identify the C library, and its libpthread, which before glibc 2.34 has socket calls
/// too.
fn is_of_the_c_library(base: usize) -> bool {
    [c"getauxval", c"pthread_kill"].iter().any(|call| provider(call).is_some_and(|(own, _)| own == base))
}

/// True if the C library provides the calls that send and receive, so that a call straight to the kernel does the same. False if
/// that is unknown, as in a static program.
pub(crate) fn sockets_are_the_kernels() -> bool {
    let calls = [c"send", c"recv", c"sendto", c"recvfrom"];
    calls.iter().all(|call| provider(call).is_some_and(|(base, _)| is_of_the_c_library(base)))
}

/// True if the loader ignores environment variables in this process: secure mode, as for a program with file capabilities or a
/// set-user-id bit.
pub fn is_secure() -> bool {
    // SAFETY: the call reads a number that the kernel gave to the process.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// True if a file whose name begins with `name` is mapped into this process: the real file of `libvma.so` is `libvma.so.9.8.51`.
pub fn is_mapped(name: &OsStr) -> bool {
    let maps = fs::read("/proc/self/maps").unwrap_or_default();
    maps.split(|byte| *byte == b'\n').any(|line| {
        let path = line.iter().position(|byte| *byte == b'/').map(|at| &line[at..]);
        let file = path.and_then(|path| Path::new(OsStr::from_bytes(path)).file_name());
        file.is_some_and(|file| file.as_bytes().starts_with(name.as_bytes()))
    })
}

/// The base address and the file of the object whose `symbol` this process uses.
fn provider(symbol: &CStr) -> Option<(usize, PathBuf)> {
    let mut info = MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: dlsym takes a string that ends with NUL; dladdr fills in a local, whose zeroed form is valid (pointers and
    // numbers); the name that it points to lives as long as its object, which is never unloaded.
    unsafe {
        let address = libc::dlsym(libc::RTLD_DEFAULT, symbol.as_ptr());
        if address.is_null() || libc::dladdr(address, info.as_mut_ptr()) == 0 {
            return None;
        }
        let info = info.assume_init();
        let file = (!info.dli_fname.is_null()).then(|| CStr::from_ptr(info.dli_fname).to_bytes().to_vec())?;
        Some((info.dli_fbase as usize, PathBuf::from(OsString::from_vec(file))))
    }
}

/// The version that Onload exports for programs (`extern const char* const onload_version`, as its own tools and sfnettest
/// declare it).
fn onload_version() -> Option<String> {
    // SAFETY: called only with Onload's library in place, in which the symbol is a pointer to a constant string.
    unsafe {
        let symbol = libc::dlsym(libc::RTLD_DEFAULT, ONLOAD_VERSION.as_ptr()).cast::<*const libc::c_char>();
        let text = if symbol.is_null() { return None } else { *symbol };
        (!text.is_null()).then(|| CStr::from_ptr(text).to_string_lossy().into_owned())
    }
}

/// `vma` and `9.8.51` of `libvma.so.9.8.51`.
fn name_and_suffix(file: &Path) -> (String, Option<String>) {
    let whole = file.file_name().unwrap_or_default().to_string_lossy();
    let (name, suffix) = whole.split_once(".so").unwrap_or((&whole, ""));
    let name = name.strip_prefix("lib").unwrap_or(name);
    (name.to_owned(), suffix.strip_prefix('.').filter(|suffix| !suffix.is_empty()).map(ToOwned::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(class: u8, order: u8, kind: u16, processor: u16) -> [u8; 64] {
        let mut bytes = [0; 64];
        bytes[..6].copy_from_slice(&[0x7f, b'E', b'L', b'F', class, order]);
        let half = |number: u16| if order == 1 { number.to_le_bytes() } else { number.to_be_bytes() };
        bytes[16..18].copy_from_slice(&half(kind));
        bytes[18..20].copy_from_slice(&half(processor));
        bytes
    }

    fn refused(name: &str, content: &[u8]) -> String {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        fs::write(&path, content).unwrap();
        Library::at(&path).unwrap_err().to_string()
    }

    #[test]
    fn a_file_that_cannot_be_loaded_is_refused_by_its_header() {
        for (content, part) in [
            (&b"#!/bin/sh\n"[..], "is no shared library"),
            (&header(2, 1, 2, 62), "is no shared library"),
            (&header(1, 1, 3, 3), "for another machine (x86, "),
            (&header(2, 2, 3, 22), "for another machine (s390x, "),
        ] {
            assert!(refused("libx.so", content).contains(part), "{}", refused("libx.so", content));
        }
        assert!(refused("lib x.so", b"").contains("spaces and colons"));
        let missing = Library::at("/nonexistent/libx.so".as_ref()).unwrap_err();
        assert!(
            missing.to_string().starts_with("cannot read the stack's library /nonexistent/libx.so: No such file"),
            "{missing}"
        );
        assert!(!missing.is_missing() && LibraryError::Static.is_missing());
    }

    #[test]
    fn a_library_comes_first_in_the_loaders_list() {
        let (_, libc) = provider(c"getauxval").unwrap();
        let library = Library::at(&libc).unwrap();
        assert_eq!(library.path(), libc);
        assert_eq!([None, Some(OsString::new())].map(|others| listed(&libc, others)), [libc.as_os_str(), libc.as_os_str()]);
        assert_eq!(listed(&libc, Some("libother.so".into())), OsString::from(format!("{}:libother.so", libc.display())));
        assert_eq!(Library::at("libnot-here.so".as_ref()).unwrap().path(), Path::new("libnot-here.so"), "the loader's to find");
    }

    #[test]
    fn a_program_without_a_loaders_name_is_static() {
        let file = File::open(SELF).unwrap();
        let header = Header::read(&file).unwrap().unwrap();
        assert!(header.has_interpreter(&file).unwrap());
        assert!(!Header { segments: 0, ..header }.has_interpreter(&file).unwrap());
    }

    #[test]
    fn a_librarys_file_tells_its_name_its_version_and_its_variables() {
        for (file, name, version, prefix) in [
            ("/usr/lib64/libonload.so", "onload", None, "EF_"),
            ("/usr/lib64/libxlio.so.3.40.2", "xlio", Some("3.40.2"), "XLIO_"),
            ("/usr/lib64/libvma.so.9.8.51", "vma", Some("9.8.51"), "VMA_"),
            ("/opt/other-stack.so", "other-stack", None, "OTHER_STACK_"),
        ] {
            let found = InPlace { file: file.into(), found_as: file.into(), version: name_and_suffix(file.as_ref()).1 };
            assert_eq!((found.name().as_str(), found.version.as_deref(), found.prefix().as_str()), (name, version, prefix));
        }
    }

    #[test]
    fn without_a_preloaded_library_the_c_library_provides_the_sockets() {
        assert_eq!(in_place(), None);
        assert!(!is_secure());
        let (_, libc) = provider(c"getauxval").unwrap();
        assert!(is_mapped(fs::canonicalize(libc).unwrap().file_name().unwrap()));
        assert!(!is_mapped("libnot-here.so".as_ref()));
    }
}
