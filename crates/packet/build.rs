//! Packs the XDP programs, which are three times as large as they need be in the program.

use std::io::Write;
use std::path::Path;
use std::{env, fs, io};

use flate2::{Compression, write::ZlibEncoder};

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    let out = env::var_os("OUT_DIR").ok_or(io::ErrorKind::NotFound)?;
    for name in ["xsk", "xsk_metadata"] {
        let object = format!("bpf/{name}.bpf.o");
        println!("cargo::rerun-if-changed={object}");
        let mut packed = ZlibEncoder::new(Vec::new(), Compression::best());
        packed.write_all(&fs::read(object)?)?;
        fs::write(Path::new(&out).join(name), packed.finish()?)?;
    }
    Ok(())
}
