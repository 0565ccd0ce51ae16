//! What our server may hold at most, by its settings: the arithmetic of `docs/bounds.md`.

use greenwave::{Bounds, Limits, StackSize};

/// Bytes of messages of all connections.
pub(crate) const MEMORY: usize = 256 << 20;
/// The same of one.
const CONNECTION_MEMORY: usize = 64 << 20;
/// Connections in all. Room for all that any case opens.
const CONNECTIONS: usize = 12_288;

/// What a connection holds beside.
const EACH: usize = 32 << 10;
/// Receive buffers of a head.
const BUFFERS: usize = 1024;
/// What a head keeps for messages to come.
const KEPT: usize = 48 << 20;
/// Calls of a head that wait or are begun, and their messages that aren't counted.
const CALLS: (usize, usize) = (4096, 1024);
const SHORT: usize = 4 << 10;
/// What a TLS handshake holds of what can't be read yet.
const HANDSHAKE: usize = 128 << 10;

pub(crate) fn bounds() -> Bounds {
    Bounds::new().memory(MEMORY).connection_memory(CONNECTION_MEMORY).connections(CONNECTIONS)
}

/// What [`ServerHandle::most_held`](greenwave::ServerHandle::most_held) may come to: one message more for the one head.
pub(crate) fn most_held() -> usize {
    MEMORY + Limits::new().most_message_bytes()
}

/// By how much the process's memory may grow while it has so many connections.
pub(crate) fn growth(connections: usize, over_tls: bool) -> usize {
    let limits = Limits::new();
    let head = BUFFERS * limits.announced(true).chunk_bytes as usize + KEPT;
    let (waiting, begun) = CALLS;
    let calls = (waiting + begun) * SHORT + begun * StackSize::default().bytes();
    let handshakes = if over_tls { limits.most_handshakes() as usize * HANDSHAKE } else { 0 };
    most_held() + connections.min(CONNECTIONS) * EACH + head + calls + handshakes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_connection_adds_to_the_bound_up_to_the_most_there_may_be() {
        assert_eq!(growth(11, false) - growth(10, false), EACH);
        assert_eq!(growth(CONNECTIONS, false), growth(CONNECTIONS + 1, false));
        assert!(growth(0, true) > growth(0, false) && growth(0, false) > most_held());
    }
}
