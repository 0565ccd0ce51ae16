//! Compiles the shim over libfabric where the feature `fabric` is on, and does nothing otherwise.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    #[cfg(feature = "fabric")]
    shim();
}

#[cfg(feature = "fabric")]
fn shim() {
    const MISSING: &str = "the feature `fabric` needs libfabric 1.14 or later with its headers; on Debian and Ubuntu: \
                           apt-get install libfabric-dev";
    const SHIM: &str = "src/fabric/shim.c";
    println!("cargo::rerun-if-changed={SHIM}");
    let mut build = cc::Build::new();
    match pkg_config::Config::new().atleast_version("1.14").probe("libfabric") {
        Ok(library) => drop(build.includes(library.include_paths)),
        // A library without a description for pkg-config, or no pkg-config: it is where compilers look, or nowhere.
        Err(_) => println!("cargo::rustc-link-lib=fabric"),
    }
    if let Err(error) = build.file(SHIM).extra_warnings(true).warnings(true).try_compile("greenwave_fabric") {
        println!("cargo::error={MISSING} ({error})");
    }
}
