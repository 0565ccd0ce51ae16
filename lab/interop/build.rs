//! The services, made of `proto/`.

fn main() -> Result<(), greenwave_build::BuildError> {
    greenwave_build::compile(&["proto/testing.proto", "proto/witness.proto"], &["proto"])
}
