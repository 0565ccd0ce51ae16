//! What is tried, and what is known not to work.

/// What is tried: its name, which is that of gRPC's own test case where there is one, and what has to hold.
pub(crate) const FEATURES: [(&str, &str); 36] = [
    ("empty_unary", "a call without a payload"),
    ("large_unary", "270 KB there, 310 KB back"),
    ("cacheable_unary", "a call that is said to be safe to repeat"),
    ("client_streaming", "four messages there, their sum back"),
    ("server_streaming", "one message there, four back"),
    ("ping_pong", "four messages each way, in turns"),
    ("half_duplex", "all messages there before the first comes back"),
    ("empty_stream", "a stream that is closed without a message"),
    ("cancel_after_begin", "a stream that is cancelled before its first message"),
    ("cancel_after_first_response", "a stream that is cancelled after one message each way"),
    ("timeout_on_sleeping_server", "a stream whose deadline passes"),
    ("deadline", "the time limit of a call is its budget at the server"),
    ("deadline_through_proxy", "a proxy's route and the client each limit the budget, whichever is the least"),
    ("expired", "a call with no time left ends with DEADLINE_EXCEEDED"),
    ("status_code_and_message", "a handler's code and text, unary and in a stream"),
    ("special_status_message", "a text with line ends, and beyond the Basic Multilingual Plane"),
    ("custom_metadata", "metadata are echoed in the headers and, as bytes, in the trailers"),
    ("unimplemented_method", "UNIMPLEMENTED for a method that there isn't"),
    ("unimplemented_service", "UNIMPLEMENTED for a service that there isn't"),
    ("client_compressed_unary", "a compressed request, and one that says so falsely"),
    ("server_compressed_unary", "an answer that is compressed when it is asked for"),
    ("client_compressed_streaming", "compressed messages of a stream there"),
    ("server_compressed_streaming", "compressed messages of a stream back"),
    ("health_check", "grpc.health.v1.Health/Check"),
    ("health_watch", "grpc.health.v1.Health/Watch"),
    ("reflection", "services are listed and described"),
    ("rpc_soak", "a thousand calls on one connection, one after another"),
    ("channel_soak", "a hundred calls, each on a connection of its own"),
    ("many_at_once", "500 calls at once"),
    ("many_connections", "calls over 50 connections at once"),
    ("in_a_handler", "a handler of ours calls, unary and in a stream, and is suspended meanwhile"),
    ("grpc_web", "gRPC-Web from a page in a browser: answers, failures, deadlines"),
    ("grpc_web_text", "the same in Base64"),
    ("grpc_web_stream", "one message there, four back"),
    ("connect_json", "Connect with JSON from a page"),
    ("connect_proto", "Connect with protobuf from a page"),
];

/// The names of these, in order.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    FEATURES.into_iter().map(|(name, _)| name)
}

/// A failure that is known: of which client (`*`: whichever), of which feature or case, and why.
pub(crate) struct Expected {
    client: &'static str,
    feature: &'static str,
    pub(crate) why: &'static str,
}

/// All failures that are known. Whatever else fails makes the command fail; so does what is listed here and works.
pub(crate) const EXPECTED: &[Expected] = &[known(
    "h2spec",
    "http2/5.1.2: Sends HEADERS frames that causes their advertised concurrent stream limit to be exceeded",
    "what is no gRPC is answered at its HEADERS, so that as many streams are rarely open at once",
)];

const fn known(client: &'static str, feature: &'static str, why: &'static str) -> Expected {
    Expected { client, feature, why }
}

/// Why this client is known to fail with this feature, if it is.
pub(crate) fn expected(client: &str, feature: &str) -> Option<&'static str> {
    let is_it = |known: &&Expected| (known.client == "*" || known.client == client) && known.feature == feature;
    EXPECTED.iter().find(is_it).map(|known| known.why)
}
