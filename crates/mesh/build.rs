//! Packs the template of the manifests, three times as large as it need be in the program.

use std::io::Write;
use std::path::Path;
use std::{env, fs, io};

use flate2::{Compression, write::ZlibEncoder};

fn main() -> io::Result<()> {
    const TEMPLATE: &str = "src/kubernetes.yaml";
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={TEMPLATE}");
    let out = env::var_os("OUT_DIR").ok_or(io::ErrorKind::NotFound)?;
    let mut packed = ZlibEncoder::new(Vec::new(), Compression::best());
    packed.write_all(&fs::read(TEMPLATE)?)?;
    fs::write(Path::new(&out).join("kubernetes"), packed.finish()?)
}
