//! Packs the page of reports.

use std::io::Write;
use std::path::Path;
use std::{env, fs, io};

use flate2::{Compression, write::ZlibEncoder};

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=web/dist/report.html");
    let out = env::var_os("OUT_DIR").ok_or(io::ErrorKind::NotFound)?;
    let mut packed = ZlibEncoder::new(Vec::new(), Compression::best());
    packed.write_all(&fs::read("web/dist/report.html")?)?;
    fs::write(Path::new(&out).join("page"), packed.finish()?)
}
