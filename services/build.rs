//! Turns the services' `.proto` files into messages, traits, servers and clients.

fn main() -> Result<(), greenwave_build::BuildError> {
    greenwave_build::compile(&["proto/search.proto", "proto/recommend.proto", "proto/kv.proto"], &["proto"])
}
