//! Packs the plans of sweeps that come with the program, in the order in which they are listed.

use std::io::Write;
use std::path::Path;
use std::{env, fs, io};

use flate2::{Compression, write::ZlibEncoder};

const PLANS: [&str; 5] = ["sun-fire", "busy-poll", "sniffer10g", "idle-states", "fast-paths"];

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=plans");
    let out = env::var_os("OUT_DIR").ok_or(io::ErrorKind::NotFound)?;
    let mut packed = ZlibEncoder::new(Vec::new(), Compression::best());
    for name in PLANS {
        write!(packed, "{name}\0{}\0", fs::read_to_string(format!("plans/{name}.toml"))?)?;
    }
    fs::write(Path::new(&out).join("plans"), packed.finish()?)
}
