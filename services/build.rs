//! Turns the services' `.proto` files into messages, traits, servers and clients.

fn main() -> Result<(), greenwave_build::BuildError> {
    let protos = ["proto/search.proto", "proto/recommend.proto", "proto/kv.proto", "proto/replicated.proto"];
    // What goes into the log is the memory that it was received into.
    greenwave_build::configure().bytes([".greenwave.replicated"]).compile(&protos, &["proto"])
}
