//! Packs the files of NIC designs, as much of their text is the same.

use std::io::Write;
use std::path::Path;
use std::{env, fs, io};

use flate2::{Compression, write::ZlibEncoder};

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    let out = env::var_os("OUT_DIR").ok_or(io::ErrorKind::NotFound)?;
    let mut packed = ZlibEncoder::new(Vec::new(), Compression::best());
    // In the order in which they are listed; a zero byte ends each.
    for name in ["niq.toml", "dma.toml", "sniffer10g.toml", "dna-82599.toml", "sun-fire-6800.toml"] {
        let file = format!("data/nic/{name}");
        println!("cargo::rerun-if-changed={file}");
        packed.write_all(&fs::read(file)?)?;
        packed.write_all(&[0])?;
    }
    fs::write(Path::new(&out).join("nics"), packed.finish()?)
}
