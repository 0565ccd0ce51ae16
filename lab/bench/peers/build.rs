//! Makes the service of the typed calls from its `.proto`.

fn main() -> Result<(), greenwave_build::BuildError> {
    greenwave_build::compile(&["proto/echo.proto"], &["proto"])
}
