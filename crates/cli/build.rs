//! Tells the program how it was compiled; `hairpin --version --verbose` says it.

use std::env;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    for name in ["TARGET", "PROFILE"] {
        println!("cargo::rustc-env=HAIRPIN_{name}={}", env::var(name).unwrap_or_default());
    }
    let rustc = env::var_os("RUSTC").and_then(|rustc| Command::new(rustc).arg("--version").output().ok());
    let rustc = rustc.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    println!("cargo::rustc-env=HAIRPIN_RUSTC={}", rustc.unwrap_or_default());
}
