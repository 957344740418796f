//! `hairpin --version --verbose`: the facts about the program that belong in a bug report.

use std::ffi::OsString;
use std::fs;

use hairpin_sys::libraries;

/// Where kernels tell the types of their structures, which the hooks of `explain` need.
const TYPES: &str = "/sys/kernel/btf/vmlinux";

/// True for `--version` with `--verbose`, in any order and in short letters too.
pub fn asked(words: &[OsString]) -> bool {
    let has = |long: &str, short: &str| words.iter().any(|word| word == long || word == short);
    let joined = words.len() == 2 && (words[1] == "-Vv" || words[1] == "-vV");
    joined || words.len() == 3 && has("--version", "-V") && has("--verbose", "-v")
}

/// Features of cargo that the command was compiled with.
fn features() -> String {
    let vendored =
        if cfg!(feature = "vendored") { "vendored: libelf and zlib inside" } else { "none: libelf and zlib of the host" };
    vendored.to_owned()
}

/// The measured code, by its hash.
pub fn code() -> &'static str {
    option_env!("HAIRPIN_CODE").unwrap_or("not told to the compiler")
}

/// The version, the build and the libraries, a line each.
pub fn verbose() -> String {
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let own = |library: &str| if maps.contains(&format!("/{library}")) { "of this host" } else { "inside" };
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let types = match fs::metadata(TYPES) {
        Ok(_) => format!("kernel {} tells its types", kernel.trim()),
        Err(error) => format!("kernel {} does not tell its types, so explain has no hooks ({TYPES}: {error})", kernel.trim()),
    };
    let lines = [
        ("commit", option_env!("HAIRPIN_COMMIT").unwrap_or("not told to the compiler").to_owned()),
        ("code", code().to_owned()),
        ("build", format!("profile {} for {}, {}", env!("HAIRPIN_PROFILE"), env!("HAIRPIN_TARGET"), env!("HAIRPIN_RUSTC"))),
        (
            "libraries",
            format!("{}, {} inside, libelf {}, zlib {}", libraries::libc(), libraries::libbpf(), own("libelf"), own("libz")),
        ),
        ("features", features()),
        ("BPF", format!("objects inside; {types}")),
    ];
    let mut text = format!("hairpin {}\n", env!("CARGO_PKG_VERSION"));
    for (name, value) in lines {
        text.push_str(&format!("{name:10}{value}\n"));
    }
    text
}
