//! Compiles the library that `hairpin exec` loads before an unmodified program.

fn main() {
    #[cfg(feature = "preload")]
    preload();
}

#[cfg(feature = "preload")]
fn preload() {
    const SOURCE: &str = "preload/preload.c";
    println!("cargo::rerun-if-changed={SOURCE}");
    let out = std::env::var_os("OUT_DIR").expect("cargo names a folder");
    let out = std::path::Path::new(&out).join("preload.so");
    let mut compiler =
        cc::Build::new().opt_level(2).debug(false).pic(true).warnings(true).extra_warnings(true).get_compiler().to_command();
    let status = compiler.args(["-shared", "-s", "-o"]).arg(&out).args([SOURCE, "-ldl"]).status();
    assert!(status.is_ok_and(|status| status.success()), "cannot compile {SOURCE}: a C compiler is needed (apt install gcc)");
}
