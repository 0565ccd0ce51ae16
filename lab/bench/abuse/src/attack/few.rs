//! Connections that say little or nothing.

use super::behaviour::{Behaviour, Io};
use super::{http2, own};

/// Says nothing.
pub(super) struct Silent;

impl Behaviour for Silent {
    fn go(&mut self, _: &[u8], _: &mut Io<'_>) {}
}

/// Sends a byte at a time of what it will never finish.
pub(super) struct Loris {
    bytes: Vec<u8>,
    at: usize,
}

/// The beginning of HTTP/1.1's headers. One follows another without end.
const HTTP1: &[u8] = b"POST /abuse.Mix/Get HTTP/1.1\r\nHost: abused\r\n";
const HTTP1_MORE: &[u8] = b"X-More: and more\r\n";

impl Loris {
    /// By HTTP/2; or where the server speaks all three, by HTTP/2, HTTP/1.1 and our own protocol in turn.
    pub(super) fn new(by_all: bool, number: u64) -> Self {
        let bytes = match number % 3 {
            1 if by_all => [HTTP1, &HTTP1_MORE.repeat(64)].concat(),
            2 if by_all => own::hello(),
            _ => http2::endless_headers(),
        };
        Self { bytes, at: 0 }
    }
}

impl Behaviour for Loris {
    fn go(&mut self, _: &[u8], io: &mut Io<'_>) {
        if self.at == 0 {
            self.visit(io);
        }
    }

    fn visit(&mut self, io: &mut Io<'_>) {
        // The last byte is never sent.
        if self.at + 1 < self.bytes.len() {
            io.out.push(self.bytes[self.at]);
            self.at += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attack::behaviour::Tallies;

    #[test]
    fn a_byte_at_a_time_is_sent_and_the_last_one_never() {
        for number in 0..3 {
            let (mut loris, mut out, tallies) = (Loris::new(true, number), Vec::new(), Tallies::default());
            let whole = loris.bytes.clone();
            let mut io = Io { out: &mut out, leaves: false, tallies: &tallies };
            loris.go(&[], &mut io);
            assert_eq!(io.out.len(), 1);
            (0..whole.len()).for_each(|_| loris.visit(&mut io));
            assert_eq!(out, whole[..whole.len() - 1]);
        }
    }
}
