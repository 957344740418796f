//! The C libraries that this process runs with.

use std::ffi::CStr;

/// The C library and its version, such as `glibc 2.36` (gnu_get_libc_version(3)).
pub fn libc() -> String {
    #[cfg(target_env = "gnu")]
    {
        // SAFETY: the function takes nothing and returns a string that lives as long as the process.
        let version = unsafe { CStr::from_ptr(libc::gnu_get_libc_version()) };
        format!("glibc {}", version.to_string_lossy())
    }
    #[cfg(not(target_env = "gnu"))]
    "unknown".to_owned()
}

/// libbpf's version, such as `libbpf 1.7`; it is always inside.
pub fn libbpf() -> String {
    // SAFETY: the function takes nothing and returns a string that lives as long as the process.
    let version = unsafe { CStr::from_ptr(libbpf_rs::libbpf_sys::libbpf_version_string()) };
    format!("libbpf {}", version.to_string_lossy().trim_start_matches('v'))
}
