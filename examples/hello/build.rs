fn main() -> Result<(), greenwave_build::BuildError> {
    greenwave_build::compile(&["proto/hello.proto"], &["proto"])
}
