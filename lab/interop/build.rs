//! The services, made of `proto/`. Methods that stream are left out, as the server has none yet.

use std::error::Error;
use std::path::Path;
use std::{env, fs};

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=proto");
    let out = env::var("OUT_DIR")?;
    let whole = fs::read_to_string("proto/testing.proto")?;
    let unary: Vec<&str> = whole.lines().filter(|line| !line.contains("(stream ")).collect();
    let made = Path::new(&out).join("testing.proto");
    fs::write(&made, unary.join("\n"))?;
    let witness = Path::new("proto/witness.proto");
    greenwave_build::compile(&[&made, witness], &[Path::new(&out), Path::new("proto")])?;
    Ok(())
}
