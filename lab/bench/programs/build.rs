//! Where code lies in the executable, shuffled if `GREENWAVE_LAYOUT` says so: the same functions in another order, so that
//! a benchmark can tell what a change is worth from what an address happens to be worth.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=GREENWAVE_LAYOUT");
    if let Ok(seed) = std::env::var("GREENWAVE_LAYOUT") {
        // An option of lld, which Rust brings along.
        println!("cargo::rustc-link-arg-bins=-Wl,--shuffle-sections=.text*={seed}");
    }
}
